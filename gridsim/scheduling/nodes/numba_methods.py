"""The methods of views in compiled node programs, and the functions by which the core calls handlers.

The types of views are in `gridsim.scheduling.nodes.numba_types`.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, overload_method

from gridcore.nodes.containers import Heap
from gridsim.scheduling.nodes import (  # noqa: F401  (they register types and methods)
    numba_board,
    numba_messages,
    numba_timers,
)
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_calls import (
    bind_arguments,
    define_method,
    filled_row,
    literal_text,
    number_type,
    parameter_list,
)
from gridsim.scheduling.nodes.numba_checks import CheckedCompiler
from gridsim.scheduling.nodes.numba_containers import load_member, member_type
from gridsim.scheduling.nodes.numba_internals import arrayobj, cgutils, signature
from gridsim.scheduling.nodes.numba_types import (
    APPLICATIONS,
    F64,
    I32,
    I64,
    ApplicationType,
    ContainerType,
    MessageType,
    NameType,
    NeighboursType,
    NodeType,
    Program,
    RandomType,
    RequestType,
    ViewType,
    call_core,
    load_applications,
    load_word,
    member,
    role_bounds,
    set_error,
    struct_of,
)

__all__ = ["CheckedCompiler", "Program", "entry"]


# -- methods of the view -------------------------------------------------------------------------------------


def _queue_method(method: str, result: Any) -> None:
    """Register `View.enqueue` or `View.take`, which return different types."""

    @define_method(ViewType, method)
    class QueueMethod:
        @staticmethod
        def infer(view: Any, args: Any, kws: Any) -> Any:
            arguments = bind_arguments(f"view.{method}", ("application", "tasks"), args, kws)
            argument_types = [
                number_type(f"{name} of view.{method}", int, each) for name, each in arguments.items()
            ]
            return result, argument_types, parameter_list(arguments)

        @staticmethod
        def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
            proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
            kind = I32 if result is types.none else I64
            output = call_core(context, builder, proxy.context, method, kind, proxy.node, *args)
            return context.get_dummy_value() if result is types.none else output


_queue_method("enqueue", types.none)
_queue_method("take", types.int64)


@define_method(ViewType, "held")
class _HeldTasks:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = bind_arguments("view.held", ("application",), args, kws)
        argument_type = number_type("application of view.held", int, arguments["application"])
        return types.int64, [argument_type], parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        return call_core(context, builder, proxy.context, "held", I64, proxy.node, *args)


@define_method(ViewType, "role")
class _RoleNodes:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = bind_arguments("view.role", ("name",), args, kws)
        literal_text("the name of a role", arguments["name"], view.program.roles)
        return types.range_state64_type, [arguments["name"]], parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        pointer = member(context, builder, view, value, "context")
        first, end = role_bounds(builder, pointer, view.program, types_[0].literal_value)
        step = ir.Constant(I64, 1)
        return struct_of(context, builder, types.range_state64_type, start=first, stop=end, step=step)


@overload(operator.getitem)
def _range_item(nodes: Any, index: Any) -> Any:
    """Index or slice a range, such as the nodes of a role, as Python does."""
    if not isinstance(nodes, types.RangeType):
        return None

    def item(nodes: Any, index: Any) -> Any:
        place = index + len(nodes) if index < 0 else index
        if not 0 <= place < len(nodes):
            raise IndexError("index of a range must be in -n..n - 1 for a range of n numbers")
        return nodes.start + place * nodes.step

    def part(nodes: Any, index: Any) -> Any:
        first, end, step = index.indices(len(nodes))
        start, stride = nodes.start, nodes.step
        return range(start + first * stride, start + end * stride, step * stride)

    return part if isinstance(index, types.SliceType) else item


@define_method(ViewType, "application")
class _Application:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = bind_arguments("view.application", ("index",), args, kws)
        argument_type = number_type("the number of an application", int, arguments["index"])
        return ApplicationType(view.program), [argument_type], parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, proxy.context, "check_known", I32, proxy.node, args[0])
        kind = ApplicationType(view.program)
        return struct_of(context, builder, kind, context=proxy.context, number=args[0])


@define_method(ViewType, "completed")
class _Completed:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        bind_arguments("view.completed", (), args, kws)
        return APPLICATIONS, [], []

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        return load_applications(context, builder, view, value, "completed")


@define_method(ViewType, "note")
class _Note:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        tables = view.program.tables
        if not args:
            raise NotCompiled("view.note takes the table, and the columns as keyword arguments")
        table = literal_text("the table of view.note", args[0], tables)
        columns = tables[table]
        names = ("table", *columns)
        arguments = bind_arguments(f"view.note of {table!r}", names, args, kws)
        argument_types = [
            number_type(f"column {name!r} of {table!r}", kind, arguments[name])
            for name, kind in columns.items()
        ]
        return types.none, [args[0], *argument_types], parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        table = ir.Constant(I64, list(view.program.tables).index(types_[0].literal_value))
        row = filled_row(context, builder, args[1:])
        call_core(context, builder, proxy.context, "note", I32, proxy.node, table, row)
        return context.get_dummy_value()


#: Keyword argument of `View.decide` -> its type and default.
_DECISION_ARGUMENTS: dict[str, tuple[type, float]] = {
    "node": (int, -1), "task": (int, -1), "tasks": (int, 0), "among": (int, -1),
    "saw": (float, float("nan")), "limit": (float, float("nan")), "age": (float, float("nan")),
}  # fmt: skip


@define_method(ViewType, "decide")
class _Decide:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        names = ("action", "application", *_DECISION_ARGUMENTS)
        arguments = bind_arguments("view.decide", names, args, kws, optional=_DECISION_ARGUMENTS)
        literal_text("the action of view.decide", arguments["action"], view.program.actions)
        argument_types = [
            arguments["action"],
            number_type("application of view.decide", int, arguments["application"]),
        ]
        for name, (kind, _) in _DECISION_ARGUMENTS.items():
            default = types.int64 if kind is int else types.float64
            argument_types.append(number_type(f"{name} of view.decide", kind, arguments.get(name, default)))
        defaults = {name: value for name, (_, value) in _DECISION_ARGUMENTS.items()}
        return types.none, argument_types, parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        action = ir.Constant(I64, view.program.actions.index(types_[0].literal_value))
        row = filled_row(context, builder, args[1:])
        call_core(context, builder, proxy.context, "decide", I32, proxy.node, action, row)
        return context.get_dummy_value()


# -- random numbers ------------------------------------------------------------------------------------------


def _draw(name: str, names: tuple[str, ...], defaults: dict[str, float], kind: int, scale_of: Any) -> None:
    @define_method(RandomType, name)
    class Draw:
        @staticmethod
        def infer(random: Any, args: Any, kws: Any) -> Any:
            if "size" in kws or len(args) > len(names):
                raise NotCompiled(
                    f"view.random.{name} draws one number in compiled nodes; use a loop for more"
                )
            arguments = bind_arguments(f"view.random.{name}", names, args, kws, optional=defaults)
            for argument, type_ in arguments.items():
                number_type(f"{argument} of view.random.{name}", float, type_)
            return types.float64, [types.float64] * len(names), parameter_list(names, defaults)

        @staticmethod
        def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
            proxy = cgutils.create_struct_proxy(random)(context, builder, value=value)
            out = cgutils.alloca_once(builder, F64)
            factor, shift = scale_of(builder, *args)
            number = ir.Constant(I64, kind)
            call_core(context, builder, proxy.context, "draw", I32, proxy.node, number, factor, shift, out)
            return builder.load(out)


_ONE, _ZERO = ir.Constant(F64, 1.0), ir.Constant(F64, 0.0)
_draw("random", (), {}, 0, lambda builder: (_ONE, _ZERO))
_draw("uniform", ("low", "high"), {"low": 0.0, "high": 1.0}, 3, lambda builder, low, high: (high, low))
_draw("exponential", ("scale",), {"scale": 1.0}, 1, lambda builder, scale: (scale, _ZERO))
_draw("normal", ("loc", "scale"), {"loc": 0.0, "scale": 1.0}, 2, lambda builder, loc, scale: (scale, loc))


def _integer(context: Any, builder: Any, random: Any, value: Any, low: Any, high: Any) -> Any:
    proxy = cgutils.create_struct_proxy(random)(context, builder, value=value)
    out = cgutils.alloca_once(builder, I64)
    call_core(context, builder, proxy.context, "integer", I32, proxy.node, low, high, out)
    return builder.load(out)


@define_method(RandomType, "integers")
class _Integers:
    @staticmethod
    def infer(random: Any, args: Any, kws: Any) -> Any:
        names = ("low", "high", "size")
        arguments = bind_arguments("view.random.integers", names, args, kws, optional=names[1:])
        argument_types = [
            number_type(f"{name} of view.random.integers", int, arguments[name])
            if name in arguments
            else _OMITTED
            for name in names
        ]
        result = _INTEGERS if "size" in arguments else types.int64
        return result, argument_types, parameter_list(names, {"high": 0, "size": 0})

    @staticmethod
    def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        low, high, size = args
        if types_[1] == _OMITTED:
            low, high = ir.Constant(I64, 0), low
        if types_[2] == _OMITTED:
            return _integer(context, builder, random, value, low, high)
        return _new_integers(context, builder, random, value, "integers", size, low, high)


@define_method(RandomType, "permutation")
class _Permutation:
    @staticmethod
    def infer(random: Any, args: Any, kws: Any) -> Any:
        arguments = bind_arguments("view.random.permutation", ("x",), args, kws)
        if not isinstance(arguments["x"], (types.Integer, types.Boolean)):
            raise NotCompiled(
                "x of view.random.permutation must be a whole number in compiled nodes; permute indices"
            )
        return _INTEGERS, [types.int64], parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        return _new_integers(context, builder, random, value, "permute", args[0])


#: The type of arrays of drawn integers, and the type of an omitted argument.
_INTEGERS, _OMITTED = types.Array(types.int64, 1, "C"), types.int32


def _new_integers(
    context: Any, builder: Any, random: Any, value: Any, name: str, size: Any, *args: Any
) -> Any:
    """Return a new array that the function `name` of the core fills, with `args`, `size` and its memory."""
    proxy = cgutils.create_struct_proxy(random)(context, builder, value=value)
    zero = ir.Constant(I64, 0)
    length = builder.select(builder.icmp_signed("<", size, zero), zero, size)  # the core raises the error
    array = arrayobj._empty_nd_impl(context, builder, _INTEGERS, (length,))
    call_core(context, builder, proxy.context, name, I32, proxy.node, *args, size, array.data)
    return array._getvalue()


@overload_method(types.Array, "tolist")
def _tolist(array):  # type: ignore[no-untyped-def]
    if array.ndim != 1:
        raise NotCompiled("tolist of an array of two dimensions cannot be compiled; write loops")
    kind = (
        int
        if isinstance(array.dtype, types.Integer)
        else float
        if isinstance(array.dtype, types.Float)
        else bool
    )

    def tolist(array):  # type: ignore[no-untyped-def]
        return [kind(value) for value in array]

    return tolist


@overload_method(types.Integer, "bit_length")
def _bit_length(number):  # type: ignore[no-untyped-def]
    def bit_length(number):  # type: ignore[no-untyped-def]
        count, rest = 0, number
        while rest != 0:
            if rest < 0:
                rest += 1  # a shift rounds down, but a division must round towards 0
            rest >>= 1
            count += 1
        return count

    return bit_length


@define_method(RandomType, "choice")
class _Choice:
    @staticmethod
    def infer(random: Any, args: Any, kws: Any) -> Any:
        if kws or len(args) != 1:
            raise NotCompiled("view.random.choice chooses one element in compiled nodes; use a loop for more")
        if (
            isinstance(args[0], (types.Integer, types.RangeType, types.Array, NeighboursType))
            and getattr(args[0], "ndim", 1) == 1
        ):
            argument_type = args[0]
            if isinstance(argument_type, types.Integer):
                argument_type = types.int64
            elif isinstance(argument_type, types.RangeType):
                argument_type = types.range_state64_type
            result = getattr(argument_type, "dtype", types.int64)  # the type of an array
            return result, [argument_type], parameter_list(("a",))
        if isinstance(args[0], ContainerType) and args[0].kind is not Heap:
            return member_type(args[0]), [args[0]], parameter_list(("a",))
        raise NotCompiled(
            "view.random.choice chooses from a number, a range, an array, a Fifo, an IntSet or an IntMap in "
            "compiled nodes"
        )

    @staticmethod
    def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        zero = ir.Constant(I64, 0)
        if isinstance(types_[0], types.Integer):
            return _integer(context, builder, random, value, zero, args[0])
        if isinstance(types_[0], types.RangeType):
            span = cgutils.create_struct_proxy(types_[0])(context, builder, value=args[0])
            count = context.get_function(len, signature(types.intp, types_[0]))(builder, args)
            index = _integer(context, builder, random, value, zero, count)
            return builder.add(span.start, builder.mul(index, span.step))
        if isinstance(types_[0], ContainerType):
            count = context.get_function(len, signature(types.int64, types_[0]))(builder, args)
            index = _integer(context, builder, random, value, zero, count)
            return load_member(context, builder, types_[0], args[0], index)
        array = arrayobj.make_array(types_[0])(context, builder, args[0])
        count = cgutils.unpack_tuple(builder, array.shape, 1)[0]
        index = _integer(context, builder, random, value, zero, count)
        pointer = cgutils.get_item_pointer(context, builder, types_[0], array, [index])
        return context.unpack_value(builder, types_[0].dtype, pointer)


# -- calls of handlers by the core ---------------------------------------------------------------------------


def entry(program: Program, method: str, kind: tuple[Any, ...]) -> Any:
    """Compile a handler, and return the intrinsic by which the core calls it.

    The intrinsic takes (context, node, row, state) and returns 0, or -1 if the handler raised an error.

    Parameters
    ----------
    kind
        The event: ``("message", kinds, index of the kind)``, ``("release",)``, ``("done",)``,
        ``("timer", with value)``, ``("fields", types of the fields of a timer)``, ``("timeout", kinds of
        requests)`` or ``("event",)``.
    """
    function, node, view = program.function(method), NodeType(program), ViewType(program)
    argument_types: list[Any] = []
    if kind[0] == "message":
        argument_types = [MessageType(program, *kind[1])]
    elif kind[0] == "release":
        argument_types = [ApplicationType(program), types.int64]
    elif kind[0] == "timer":
        argument_types = [NameType(program.timer_names)] + [types.float64] * kind[1]
    elif kind[0] == "done":
        argument_types = [ApplicationType(program)]
    elif kind[0] == "timeout":
        argument_types = [RequestType(program, *kind[1])]
    elif kind[0] == "fields":
        argument_types = [types.int64 if each is int else types.float64 for each in kind[1]]
    program.open = [method]
    function.compile((node, view, *argument_types))

    @intrinsic
    def enter(typing: Any, context: Any, number: Any, row_pointer: Any, state: Any) -> Any:
        dispatcher = types.Dispatcher(function)
        inner = dispatcher.get_call_type(typing, (node, view, *argument_types), {})

        def codegen(target: Any, builder: Any, sig: Any, args: Any) -> Any:
            core_context, node_number, row, memory = args
            values = [
                struct_of(target, builder, node, state=memory, context=core_context),
                struct_of(target, builder, view, context=core_context, node=node_number),
            ]
            if kind[0] == "message":
                kind_number = ir.Constant(I64, kind[2])
                values.append(struct_of(target, builder, argument_types[0], row=row, kind=kind_number))
            elif kind[0] in ("release", "done"):
                number = load_word(builder, row, 0)
                values.append(
                    struct_of(target, builder, argument_types[0], context=core_context, number=number)
                )
                if kind[0] == "release":
                    values.append(load_word(builder, row, 1))
            elif kind[0] == "timer":
                values.append(load_word(builder, row, 0))
                if kind[1]:
                    values.append(load_word(builder, row, 1, F64))
            elif kind[0] == "timeout":
                number, index = load_word(builder, row, 2), ir.Constant(I64, 0)
                for k, name in enumerate(kind[1]):
                    is_kind = builder.icmp_signed("==", number, ir.Constant(I64, program.numbers[name]))
                    index = builder.select(is_kind, ir.Constant(I64, k), index)
                values.append(struct_of(target, builder, argument_types[0], row=row, kind=index))
            elif kind[0] == "fields":
                words = [F64 if each is float else I64 for each in kind[1]]
                values += [load_word(builder, row, k, word) for k, word in enumerate(words)]
            compiled = function.get_compile_result(inner)
            target.active_code_library.add_linking_library(compiled.library)
            status, _ = target.call_internal_no_propagate(builder, compiled.fndesc, inner, values)
            with cgutils.if_unlikely(builder, status.is_error):
                set_error(target, builder, status)  # the core, which holds the GIL, raises the error again
            return builder.select(status.is_error, ir.Constant(I32, -1), ir.Constant(I32, 0))

        return types.int32(types.voidptr, types.int64, types.voidptr, types.voidptr), codegen

    return enter
