"""The methods of views in compiled node programs, and the functions by which the core calls handlers.

The types of views are in `gridsim.scheduling.nodes.numba_types`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature, templates
from numba.extending import intrinsic, lower_builtin
from numba.np import arrayobj

from gridcore.common.names import listed
from gridsim.scheduling.nodes import numba_containers  # noqa: F401  (registers the types)
from gridsim.scheduling.nodes.compilable import NotCompiled
from gridsim.scheduling.nodes.numba_checks import CheckedCompiler
from gridsim.scheduling.nodes.numba_types import (
    F64,
    I32,
    I64,
    METHODS,
    ApplicationType,
    MessageType,
    NameType,
    NeighboursType,
    NodeType,
    Program,
    RandomType,
    ViewType,
    call_core,
    load_word,
    member,
    role_bounds,
    struct_of,
    type_text,
)

__all__ = ["CheckedCompiler", "Program", "entry"]


# -- methods of the view -------------------------------------------------------------------------------------


def _method(type_: type, name: str) -> Callable[[Any], Any]:
    """Return a decorator that registers the method `name` of a type.

    The decorated class has two static methods.  ``infer(type_, args, kws)`` returns the type of the result,
    the types of the arguments and the parameters.  ``lower`` emits the code of a call.
    """

    def register(method: Any) -> Any:
        class ViewMethod(templates.AbstractTemplate):
            key = ("gridsim", type_, name)
            prefer_literal = True

            def generic(self, args: Any, kws: Any) -> Any:
                result, argument_types, parameters = method.infer(self.this, args, kws)
                pysig = inspect.Signature(parameters)
                return signature(result, *argument_types, recvr=self.this).replace(pysig=pysig)

        METHODS.setdefault(type_, {})[name] = ViewMethod

        @lower_builtin(ViewMethod.key, type_, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return method.lower(context, builder, sig.args[0], args[0], sig.args[1:], args[1:])

        return method

    return register


def _parameter_list(names: Any, defaults: dict[str, Any] | None = None) -> list[inspect.Parameter]:
    empty, kind = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=(defaults or {}).get(name, empty)) for name in names]


def _bind_arguments(call: str, names: Any, args: Any, kws: Any, optional: Any = ()) -> dict[str, Any]:
    """Return name -> type of the arguments of a call; raise NotCompiled if they do not fit `names`."""
    if len(args) > len(names):
        raise NotCompiled(f"{call} takes {', '.join(names)}")
    arguments = dict(zip(names, args, strict=False))
    for name, type_ in kws.items():
        if name not in names:
            raise NotCompiled(f"{call} has no argument {name!r}; {listed(names, name)}")
        if name in arguments:
            raise NotCompiled(f"{call} gets {name} twice")
        arguments[name] = type_
    missing = [name for name in names if name not in arguments and name not in optional]
    if missing:
        raise NotCompiled(f"{call} requires {', '.join(missing)}")
    return {name: arguments[name] for name in names if name in arguments}


def _literal(path: str, type_: Any, known: Any) -> str:
    if not isinstance(type_, types.StringLiteral):
        raise NotCompiled(
            f"{path} must be a string literal, not a variable or an expression; {listed(known, '')}"
        )
    if type_.literal_value not in known:
        raise NotCompiled(f"{path} {type_.literal_value!r} is unknown; {listed(known, type_.literal_value)}")
    return str(type_.literal_value)


def _number(path: str, kind: type, type_: Any) -> Any:
    """Return the type that a number of `kind` is passed as; raise NotCompiled if `type_` does not fit."""
    if isinstance(type_, types.Optional):
        raise NotCompiled(
            f"{path} must be a number, got a value that may be None; use a number such as -1 for None"
        )
    if kind is int and not isinstance(type_, (types.Integer, types.Boolean)):
        hint = "; int(...) makes one" if isinstance(type_, types.Float) else ""
        raise NotCompiled(f"{path} must be a whole number, got {type_text(type_)}{hint}")
    if not isinstance(type_, (types.Integer, types.Boolean, types.Float)):
        raise NotCompiled(f"{path} must be a number, got {type_text(type_)}")
    return types.int64 if kind is int else types.float64


def _store(context: Any, builder: Any, row: Any, at: int, value: Any) -> None:
    target = builder.bitcast(row, value.type.as_pointer())
    builder.store(value, builder.gep(target, [ir.Constant(I64, at)]))


@_method(ViewType, "send")
class _Send:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kinds = view.program.kinds
        keywords = dict(kws)
        positional = dict(zip(("to", "kind"), args, strict=False))
        kind_type = positional.get("kind", keywords.get("kind"))
        if kind_type is None or len(args) > 2:
            raise NotCompiled("view.send takes the machine, the kind, and the fields by their names")
        kind = _literal("the kind of a message", kind_type, kinds)
        fields = kinds[kind]
        names = ("to", "kind", *fields)
        arguments = _bind_arguments(f"view.send of {kind!r}", names, args, kws)
        argument_types = [_number("the machine that view.send sends to", int, arguments["to"]), kind_type]
        argument_types += [
            _number(f"field {name!r} of {kind!r}", type_, arguments[name]) for name, type_ in fields.items()
        ]
        return types.none, argument_types, _parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind = types_[1].literal_value
        number = ir.Constant(I64, view.program.numbers[kind])
        row = call_core(
            context, builder, proxy.context, "send", I64.as_pointer(), proxy.node, number, args[0]
        )
        for k, field_ in enumerate(args[2:]):
            _store(context, builder, row, k, field_)
        if kind in view.program.checked_kinds:
            call_core(context, builder, proxy.context, "finish_send", I32, proxy.node, number, row)
        return context.get_dummy_value()


def _queue_method(method: str, result: Any) -> None:
    """Register `View.enqueue` or `View.take`, which differ in what they return."""

    @_method(ViewType, method)
    class QueueMethod:
        @staticmethod
        def infer(view: Any, args: Any, kws: Any) -> Any:
            arguments = _bind_arguments(f"view.{method}", ("application", "tasks"), args, kws)
            argument_types = [
                _number(f"{name} of view.{method}", int, each) for name, each in arguments.items()
            ]
            return result, argument_types, _parameter_list(arguments)

        @staticmethod
        def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
            proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
            kind = I32 if result is types.none else I64
            output = call_core(context, builder, proxy.context, method, kind, proxy.node, *args)
            return context.get_dummy_value() if result is types.none else output


_queue_method("enqueue", types.none)
_queue_method("take", types.int64)


@_method(ViewType, "held")
class _HeldTasks:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = _bind_arguments("view.held", ("application",), args, kws)
        argument_type = _number("application of view.held", int, arguments["application"])
        return types.int64, [argument_type], _parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        return call_core(context, builder, proxy.context, "held", I64, proxy.node, *args)


@_method(ViewType, "role")
class _RoleNodes:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = _bind_arguments("view.role", ("name",), args, kws)
        _literal("the name of a role", arguments["name"], view.program.roles)
        return types.range_state64_type, [arguments["name"]], _parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        pointer = member(context, builder, view, value, "context")
        first, end = role_bounds(builder, pointer, view.program, types_[0].literal_value)
        step = ir.Constant(I64, 1)
        return struct_of(context, builder, types.range_state64_type, start=first, stop=end, step=step)


@_method(ViewType, "application")
class _Application:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = _bind_arguments("view.application", ("index",), args, kws)
        argument_type = _number("the number of an application", int, arguments["index"])
        return ApplicationType(view.program), [argument_type], _parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, proxy.context, "check_known", I32, proxy.node, args[0])
        kind = ApplicationType(view.program)
        return struct_of(context, builder, kind, context=proxy.context, number=args[0])


@_method(ViewType, "timer")
class _Timer:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        names = ("seconds", "name", "value")
        arguments = _bind_arguments("view.timer", names, args, kws, optional=("value",))
        _literal("the name of a timer", arguments["name"], view.program.timers)
        argument_types = [_number("the time of view.timer", float, arguments["seconds"]), arguments["name"]]
        argument_types.append(
            _number("the value of view.timer", float, arguments.get("value", types.float64))
        )
        return types.none, argument_types, _parameter_list(names, {"value": 0.0})

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        name = ir.Constant(I64, view.program.timers.index(types_[1].literal_value))
        call_core(context, builder, proxy.context, "timer", I32, proxy.node, name, args[0], args[2])
        return context.get_dummy_value()


@_method(ViewType, "publish")
class _Publish:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        names = ("value", "falling")
        arguments = _bind_arguments("view.publish", names, args, kws, optional=("falling",))
        argument_types = [_number("the value of view.publish", float, arguments["value"])]
        argument_types.append(_number("falling of view.publish", int, arguments.get("falling", types.int64)))
        return types.none, argument_types, _parameter_list(names, {"falling": 0})

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, proxy.context, "publish", I32, proxy.node, *args)
        return context.get_dummy_value()


@_method(ViewType, "cancel")
class _Cancel:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = _bind_arguments("view.cancel", ("name",), args, kws)
        _literal("the name of a timer", arguments["name"], view.program.timers)
        return types.none, [arguments["name"]], _parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        name = ir.Constant(I64, view.program.timers.index(types_[0].literal_value))
        call_core(context, builder, proxy.context, "cancel", I32, proxy.node, name)
        return context.get_dummy_value()


@_method(ViewType, "note")
class _Note:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        tables = view.program.tables
        if not args:
            raise NotCompiled("view.note takes the table first, and the columns by their names")
        table = _literal("the table of view.note", args[0], tables)
        columns = tables[table]
        names = ("table", *columns)
        arguments = _bind_arguments(f"view.note of {table!r}", names, args, kws)
        argument_types = [
            _number(f"column {name!r} of {table!r}", kind, arguments[name]) for name, kind in columns.items()
        ]
        return types.none, [args[0], *argument_types], _parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        table = ir.Constant(I64, list(view.program.tables).index(types_[0].literal_value))
        row = _row(builder, len(args) - 1)
        for k, value_ in enumerate(args[1:]):
            _store(context, builder, row, k, value_)
        call_core(context, builder, proxy.context, "note", I32, proxy.node, table, row)
        return context.get_dummy_value()


def _row(builder: Any, words: int) -> Any:
    return builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(I64, max(1, words))), I64.as_pointer())


#: Keyword argument of `View.decide` -> its type and default.
_DECISION_ARGUMENTS: dict[str, tuple[type, float]] = {
    "machine": (int, -1), "task": (int, -1), "tasks": (int, 0), "among": (int, -1),
    "saw": (float, float("nan")), "limit": (float, float("nan")), "age": (float, float("nan")),
}  # fmt: skip


@_method(ViewType, "decide")
class _Decide:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        names = ("action", "application", *_DECISION_ARGUMENTS)
        arguments = _bind_arguments("view.decide", names, args, kws, optional=_DECISION_ARGUMENTS)
        _literal("the action of view.decide", arguments["action"], view.program.actions)
        argument_types = [
            arguments["action"],
            _number("application of view.decide", int, arguments["application"]),
        ]
        for name, (kind, _) in _DECISION_ARGUMENTS.items():
            default = types.int64 if kind is int else types.float64
            argument_types.append(_number(f"{name} of view.decide", kind, arguments.get(name, default)))
        defaults = {name: value for name, (_, value) in _DECISION_ARGUMENTS.items()}
        return types.none, argument_types, _parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        action = ir.Constant(I64, view.program.actions.index(types_[0].literal_value))
        row = _row(builder, len(args) - 1)
        for k, value_ in enumerate(args[1:]):
            _store(context, builder, row, k, value_)
        call_core(context, builder, proxy.context, "decide", I32, proxy.node, action, row)
        return context.get_dummy_value()


# -- random numbers ------------------------------------------------------------------------------------------


def _draw(name: str, names: tuple[str, ...], defaults: dict[str, float], kind: int, scale_of: Any) -> None:
    @_method(RandomType, name)
    class Draw:
        @staticmethod
        def infer(random: Any, args: Any, kws: Any) -> Any:
            if "size" in kws or len(args) > len(names):
                raise NotCompiled(
                    f"view.random.{name} draws one number in compiled nodes; use a loop for more"
                )
            arguments = _bind_arguments(f"view.random.{name}", names, args, kws, optional=defaults)
            for argument, type_ in arguments.items():
                _number(f"{argument} of view.random.{name}", float, type_)
            return types.float64, [types.float64] * len(names), _parameter_list(names, defaults)

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


@_method(RandomType, "integers")
class _Integers:
    @staticmethod
    def infer(random: Any, args: Any, kws: Any) -> Any:
        if "size" in kws or len(args) > 2:
            raise NotCompiled("view.random.integers draws one number in compiled nodes; use a loop for more")
        arguments = _bind_arguments("view.random.integers", ("low", "high"), args, kws, optional=("high",))
        argument_types = [
            _number(f"{name} of view.random.integers", int, each) for name, each in arguments.items()
        ]
        return types.int64, argument_types, _parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        low, high = args if len(args) == 2 else (ir.Constant(I64, 0), args[0])
        return _integer(context, builder, random, value, low, high)


@_method(RandomType, "choice")
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
            result = getattr(argument_type, "dtype", types.int64)  # that of an array
            return result, [argument_type], _parameter_list(("a",))
        raise NotCompiled("view.random.choice chooses from a number, a range or an array in compiled nodes")

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
        The event: ``("message", kinds, index of the kind)``, ``("release",)``, ``("timer", with value)`` or
        ``("event",)``.
    """
    function, node, view = program.function(method), NodeType(program), ViewType(program)
    argument_types: list[Any] = []
    if kind[0] == "message":
        argument_types = [MessageType(program, *kind[1])]
    elif kind[0] == "release":
        argument_types = [ApplicationType(program), types.int64]
    elif kind[0] == "timer":
        argument_types = [NameType(program.timers)] + [types.float64] * kind[1]
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
            elif kind[0] == "release":
                values.append(
                    struct_of(
                        target,
                        builder,
                        argument_types[0],
                        context=core_context,
                        number=load_word(builder, row, 0),
                    )
                )
                values.append(load_word(builder, row, 1))
            elif kind[0] == "timer":
                values.append(load_word(builder, row, 0))
                if kind[1]:
                    values.append(load_word(builder, row, 1, F64))
            compiled = function.get_compile_result(inner)
            target.active_code_library.add_linking_library(compiled.library)
            status, _ = target.call_internal_no_propagate(builder, compiled.fndesc, inner, values)
            with cgutils.if_unlikely(builder, status.is_error):
                # The core, which holds the GIL, raises the error again in Python.
                target.call_conv.raise_error(builder, target.get_python_api(builder), status)
            return builder.select(status.is_error, ir.Constant(I32, -1), ir.Constant(I32, 0))

        return types.int32(types.voidptr, types.int64, types.voidptr, types.voidptr), codegen

    return enter
