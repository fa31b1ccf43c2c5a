"""The board of compiled node programs: the numbers that nodes have published.

Only `gridsim.scheduling.nodes.numba_methods` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import infer_getattr, lower_builtin, lower_getattr_generic

from gridcore.common.names import listed
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_calls import (
    bind_arguments,
    define_method,
    literal_text,
    number_type,
    parameter_list,
)
from gridsim.scheduling.nodes.numba_internals import arrayobj, cgutils, signature, templates
from gridsim.scheduling.nodes.numba_types import (
    F64,
    I32,
    I64,
    METHODS,
    BoardType,
    Names,
    NamesType,
    NeighboursType,
    Program,
    ViewType,
    array_at,
    call_core,
    define_attribute,
    load_slot,
    type_text,
)

__all__: list[str] = []


# -- published numbers --------------------------------------------------------------------------------------


@define_attribute(ViewType, "board", lambda view: BoardType(view.program))
def _view_board(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    call_core(context, builder, view.context, "check_board", I32, view.node)
    return value


_PUBLISHED_NUMBERS = types.Array(types.float64, 1, "C", readonly=True)


@infer_getattr
class _BoardAttributes(templates.AttributeTemplate):
    key = BoardType

    def generic_resolve(self, board: Any, attr: str) -> Any:
        if attr in METHODS[BoardType]:
            return types.BoundFunction(METHODS[BoardType][attr], board)
        if attr not in board.program.columns:
            known = listed([*board.program.columns, *METHODS[BoardType]], attr)
            raise NotCompiled(f"there is no view.board.{attr}; {known}")
        return _PUBLISHED_NUMBERS


@lower_getattr_generic(BoardType)
def _board_array(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    board = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    column = ir.Constant(I64, type_.program.columns.index(attr))
    first = call_core(context, builder, board.context, "board", F64.as_pointer(), column)
    return array_at(
        context, builder, _PUBLISHED_NUMBERS, first, (load_slot(builder, board.context, "board_rows"),)
    )


@templates.infer_global(operator.getitem)
class _BoardItem(templates.AbstractTemplate):
    prefer_literal = True

    def generic(self, args: Any, kws: Any) -> Any:
        if not isinstance(args[0], BoardType):
            return None
        numbers = args[0].program.columns
        node, *names = args[1] if isinstance(args[1], types.BaseTuple) else (args[1],)
        if not isinstance(node, types.Integer) or len(names) > 1:
            raise NotCompiled(f"the index of view.board must be a whole number, got {type_text(args[1])}")
        if len(numbers) > 1 and not names:
            raise NotCompiled(f"view.board[node] requires a name; write view.board[node, {numbers[0]!r}]")
        if names and getattr(names[0], "literal_value", None) not in numbers:
            raise NotCompiled(f"the name in view.board[node, name] must be a literal; {listed(numbers, '')}")
        return signature(types.float64, *args)


@lower_builtin(operator.getitem, BoardType, types.Integer)
@lower_builtin(operator.getitem, BoardType, types.BaseTuple)
def _board_number(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    board = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
    node, node_type, column = args[1], sig.args[1], 0
    if isinstance(node_type, types.BaseTuple):
        node, column = (
            builder.extract_value(node, 0),
            sig.args[0].program.columns.index(node_type[1].literal_value),
        )
        node_type = node_type[0]
    node = context.cast(builder, node, node_type, types.int64)
    number = cgutils.alloca_once(builder, F64)
    call_core(context, builder, board.context, "board_number", I32, node, ir.Constant(I64, column), number)
    return builder.load(number)


# -- methods -------------------------------------------------------------------------------------------------


def _column_parameters(
    names: Any, columns: Any, defaults: dict[str, Any] | None = None
) -> list[inspect.Parameter]:
    """Return the parameters `names`, and one that passes the names of the numbers to the code of the call."""
    return parameter_list((*names, "columns"), {**(defaults or {}), "columns": Names(columns)})


def _columns(program: Program, names: NamesType) -> list[Any]:
    return [ir.Constant(I64, program.columns.index(name)) for name in names.names]


def _column_name(call: str, program: Program, type_: Any) -> str:
    """Return the name of a number from the type of an argument, which is None for the only number."""
    if type_ is not None:
        return literal_text(f"the name of {call}", type_, program.columns)
    if len(program.columns) > 1:
        raise NotCompiled(f"{call} requires the name of a number: {', '.join(program.columns)}")
    return program.columns[0]


def _literals(type_: Any) -> list[Any]:
    """Return the strings in the type of a constant tuple, None for other elements; [] for other types."""
    return (
        [getattr(each, "literal_value", None) for each in type_] if isinstance(type_, types.BaseTuple) else []
    )


@define_method(ViewType, "publish")
class _Publish:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        call, numbers = "view.publish", view.program.columns
        columns = tuple(name for name in numbers if name in dict(kws))
        if (columns and args) or (not columns and len(numbers) > 1):
            raise NotCompiled(f"{call} takes numbers as keyword arguments: {', '.join(numbers)}")
        names = (*(columns or ["value"]), "falling", "application")
        columns = columns or numbers
        for name in sorted(dict(kws).keys() - {*names} - {*numbers}):
            raise NotCompiled(f"{call} has no argument {name!r}; {listed((*numbers, *names[-2:]), name)}")
        arguments = bind_arguments(call, names, args, kws, optional=("falling", "application"))
        argument_types = [number_type(f"{name} of {call}", float, arguments[name]) for name in names[:-2]]
        falling = arguments.get("falling", types.int64)
        if isinstance(falling, types.UnicodeType) or not set(_literals(falling)) <= set(columns):
            raise NotCompiled(
                f"falling of {call} must be True, False or a tuple of names of its numbers, written in the "
                f"call, such as ({columns[0]!r},)"
            )
        argument_types += [
            falling
            if isinstance(falling, types.BaseTuple)
            else number_type(f"falling of {call}", int, falling),
            number_type(f"application of {call}", int, arguments.get("application", types.int64)),
            NamesType(columns),
        ]
        return (
            types.none,
            argument_types,
            _column_parameters(names, columns, {"falling": 0, "application": -1}),
        )

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        falling_type, _, names = types_[-3:]
        *numbers, falling, application, _ = args
        for name, column, number in zip(names.names, _columns(view.program, names), numbers, strict=True):
            if isinstance(falling_type, types.BaseTuple):
                falling = ir.Constant(I64, int(name in _literals(falling_type)))
            arguments = application, column, number, falling
            call_core(context, builder, proxy.context, "publish", I32, proxy.node, *arguments)
        return context.get_dummy_value()


@define_method(BoardType, "least")
class _Least:
    @staticmethod
    def infer(board: Any, args: Any, kws: Any) -> Any:
        call = "view.board.least"
        arguments = bind_arguments(call, ("k", "name"), args, kws, optional=("name",))
        column = _column_name(call, board.program, arguments.get("name"))
        argument_types = [number_type(f"k of {call}", int, arguments.pop("k")), *arguments.values()]
        parameters = _column_parameters(("k", *arguments), (column,))
        return NeighboursType(), [*argument_types, NamesType((column,))], parameters

    @staticmethod
    def lower(context: Any, builder: Any, board: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(board)(context, builder, value=value)
        (column,) = _columns(board.program, types_[-1])
        count, zero = load_slot(builder, proxy.context, "board_rows"), ir.Constant(I64, 0)
        count = builder.select(builder.icmp_signed("<", args[0], count), args[0], count)
        count = builder.select(builder.icmp_signed("<", count, zero), zero, count)
        nodes = arrayobj._empty_nd_impl(context, builder, types.Array(types.int64, 1, "C"), [count])
        arguments = args[0], column, nodes.data
        call_core(context, builder, proxy.context, "board_least", I32, proxy.node, *arguments)
        return nodes._getvalue()


@define_method(BoardType, "add")
class _Add:
    @staticmethod
    def infer(board: Any, args: Any, kws: Any) -> Any:
        call, program = "view.board.add", board.program
        columns = tuple(name for name in program.columns if name in dict(kws))
        names = ("node", *columns) if columns else ("node", "delta", "name")
        arguments = bind_arguments(call, names, args, kws, optional=("name",))
        argument_types = [
            number_type(f"{name} of {call}", int if name == "node" else float, type_)
            for name, type_ in arguments.items()
            if name != "name"
        ]
        if not columns:
            columns = (_column_name(call, program, arguments.get("name")),)
            argument_types += list(arguments.values())[2:]
        return types.none, [*argument_types, NamesType(columns)], _column_parameters(arguments, columns)

    @staticmethod
    def lower(context: Any, builder: Any, board: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(board)(context, builder, value=value)
        columns = _columns(board.program, types_[-1])
        for k, column in enumerate(columns):
            arguments = args[0], column, args[1 + k], ir.Constant(I64, int(k == len(columns) - 1))
            call_core(context, builder, proxy.context, "board_add", I32, proxy.node, *arguments)
        return context.get_dummy_value()
