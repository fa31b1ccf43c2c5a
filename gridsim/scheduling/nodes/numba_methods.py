"""The methods of views in compiled node programs, and how the message core enters a handler.

See `gridsim.scheduling.nodes.numba_types`.
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
from gridsim.scheduling.nodes.compilable import NotCompiled
from gridsim.scheduling.nodes.numba_checks import Checked
from gridsim.scheduling.nodes.numba_types import (
    F64,
    I32,
    I64,
    METHODS,
    PTR,
    ApplicationType,
    MessageType,
    NeighboursType,
    NodeType,
    Program,
    RandomType,
    ViewType,
    WordType,
    call_core,
    made,
    said,
    slot,
    word,
)

__all__ = ["Checked", "Program", "entry"]


# -- methods of the view -------------------------------------------------------------------------------------


def _method(type_: type, name: str) -> Callable[[Any], Any]:
    """Register a method: a class with ``typed(of, args, kws)`` and ``lowered(...)``."""

    def register(what: Any) -> Any:
        class Template(templates.AbstractTemplate):
            key = ("gridsim", type_, name)
            prefer_literal = True

            def generic(self, args: Any, kws: Any) -> Any:
                result, wanted, parameters = what.typed(self.this, args, kws)
                pysig = inspect.Signature(parameters)
                return signature(result, *wanted, recvr=self.this).replace(pysig=pysig)

        METHODS.setdefault(type_, {})[name] = Template

        @lower_builtin(Template.key, type_, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return what.lowered(context, builder, sig.args[0], args[0], sig.args[1:], args[1:])

        return what

    return register


def _parameter_list(names: Any, defaults: dict[str, Any] | None = None) -> list[inspect.Parameter]:
    empty, kind = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=(defaults or {}).get(name, empty)) for name in names]


def _bound(what: str, names: Any, args: Any, kws: Any, optional: Any = ()) -> dict[str, Any]:
    """Return name -> type of the arguments of a call; raise NotCompiled for others than `names`."""
    if len(args) > len(names):
        raise NotCompiled(f"{what} takes {', '.join(names)}")
    found = dict(zip(names, args, strict=False))
    for name, type_ in kws.items():
        if name not in names:
            raise NotCompiled(f"{what} has no argument {name!r}; {listed(names, name)}")
        if name in found:
            raise NotCompiled(f"{what} gets {name} twice")
        found[name] = type_
    missing = [name for name in names if name not in found and name not in optional]
    if missing:
        raise NotCompiled(f"{what} lacks {', '.join(missing)}")
    return {name: found[name] for name in names if name in found}


def _literal(what: str, type_: Any, known: Any) -> str:
    if not isinstance(type_, types.StringLiteral):
        raise NotCompiled(
            f"{what} must be a text literal in the call, not a variable or an expression; {listed(known, '')}"
        )
    if type_.literal_value not in known:
        raise NotCompiled(f"{what} {type_.literal_value!r} is unknown; {listed(known, type_.literal_value)}")
    return str(type_.literal_value)


def _number(what: str, kind: type, type_: Any) -> Any:
    """Return the type that a number is passed as."""
    if isinstance(type_, types.Optional):
        raise NotCompiled(f"{what} may be None here; use a number such as -1 instead")
    if kind is int and not isinstance(type_, (types.Integer, types.Boolean)):
        hint = "; int(...) makes one" if isinstance(type_, types.Float) else ""
        raise NotCompiled(f"{what} must be a whole number, got {said(type_)}{hint}")
    if not isinstance(type_, (types.Integer, types.Boolean, types.Float)):
        raise NotCompiled(f"{what} must be a number, got {said(type_)}")
    return types.int64 if kind is int else types.float64


def _store(context: Any, builder: Any, row: Any, at: int, value: Any) -> None:
    target = builder.bitcast(row, value.type.as_pointer())
    builder.store(value, builder.gep(target, [ir.Constant(I64, at)]))


@_method(ViewType, "send")
class _Send:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        kinds = view.program.kinds
        given = dict(kws)
        positional = dict(zip(("to", "kind"), args, strict=False))
        kind_type = positional.get("kind", given.get("kind"))
        if kind_type is None or len(args) > 2:
            raise NotCompiled("view.send takes the machine, the kind, and the fields by their names")
        kind = _literal("the kind of a message", kind_type, kinds)
        fields = kinds[kind]
        names = ("to", "kind", *fields)
        found = _bound(f"view.send of {kind!r}", names, args, kws)
        wanted = [_number("the machine that view.send sends to", int, found["to"]), kind_type]
        wanted += [_number(f"field {name!r} of {kind!r}", each, found[name]) for name, each in fields.items()]
        return types.none, wanted, _parameter_list(names)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind = types_[1].literal_value
        number = ir.Constant(I64, view.program.numbers[kind])
        row = call_core(context, builder, at.context, "send", I64.as_pointer(), at.node, number, args[0])
        for k, field_ in enumerate(args[2:]):
            _store(context, builder, row, k, field_)
        if kind in view.program.checked:
            call_core(context, builder, at.context, "sent", I32, at.node, number, row)
        return context.get_dummy_value()


def _queue_method(method: str, result: Any) -> None:
    """Register `View.enqueue` or `View.take`, which differ in what they return."""

    @_method(ViewType, method)
    class Queue:
        @staticmethod
        def typed(view: Any, args: Any, kws: Any) -> Any:
            found = _bound(f"view.{method}", ("application", "tasks"), args, kws)
            wanted = [_number(f"{name} of view.{method}", int, each) for name, each in found.items()]
            return result, wanted, _parameter_list(found)

        @staticmethod
        def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
            at = cgutils.create_struct_proxy(view)(context, builder, value=value)
            kind = I32 if result is types.none else I64
            found = call_core(context, builder, at.context, method, kind, at.node, *args)
            return context.get_dummy_value() if result is types.none else found


_queue_method("enqueue", types.none)
_queue_method("take", types.int64)


@_method(ViewType, "held")
class _Held:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        found = _bound("view.held", ("application",), args, kws)
        wanted = _number("application of view.held", int, found["application"])
        return types.int64, [wanted], _parameter_list(found)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        return call_core(context, builder, at.context, "held", I64, at.node, *args)


@_method(ViewType, "application")
class _Application:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        found = _bound("view.application", ("index",), args, kws)
        wanted = _number("the number of an application", int, found["index"])
        return ApplicationType(view.program), [wanted], _parameter_list(found)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, at.context, "heard", I32, at.node, args[0])
        kind = ApplicationType(view.program)
        return made(context, builder, kind, context=at.context, number=args[0])


@_method(ViewType, "timer")
class _Timer:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        names = ("seconds", "name", "value")
        found = _bound("view.timer", names, args, kws, optional=("value",))
        _literal("the name of a timer", found["name"], view.program.timers)
        wanted = [_number("the time of view.timer", float, found["seconds"]), found["name"]]
        wanted.append(_number("the value of view.timer", float, found.get("value", types.float64)))
        return types.none, wanted, _parameter_list(names, {"value": 0.0})

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        name = ir.Constant(I64, view.program.timers.index(types_[1].literal_value))
        call_core(context, builder, at.context, "timer", I32, at.node, name, args[0], args[2])
        return context.get_dummy_value()


@_method(ViewType, "publish")
class _Publish:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        names = ("value", "falling")
        found = _bound("view.publish", names, args, kws, optional=("falling",))
        wanted = [_number("the value of view.publish", float, found["value"])]
        wanted.append(_number("falling of view.publish", int, found.get("falling", types.int64)))
        return types.none, wanted, _parameter_list(names, {"falling": 0})

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, at.context, "publish", I32, at.node, *args)
        return context.get_dummy_value()


@_method(ViewType, "cancel")
class _Cancel:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        found = _bound("view.cancel", ("name",), args, kws)
        _literal("the name of a timer", found["name"], view.program.timers)
        return types.none, [found["name"]], _parameter_list(found)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        name = ir.Constant(I64, view.program.timers.index(types_[0].literal_value))
        call_core(context, builder, at.context, "cancel", I32, at.node, name)
        return context.get_dummy_value()


@_method(ViewType, "note")
class _Note:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        tables = view.program.tables
        if not args:
            raise NotCompiled("view.note takes the table first, and the columns by their names")
        table = _literal("the table of view.note", args[0], tables)
        columns = tables[table]
        names = ("table", *columns)
        found = _bound(f"view.note of {table!r}", names, args, kws)
        wanted = [
            _number(f"column {name!r} of {table!r}", kind, found[name]) for name, kind in columns.items()
        ]
        return types.none, [args[0], *wanted], _parameter_list(names)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        table = ir.Constant(I64, list(view.program.tables).index(types_[0].literal_value))
        row = _row(builder, len(args) - 1)
        for k, each in enumerate(args[1:]):
            _store(context, builder, row, k, each)
        call_core(context, builder, at.context, "note", I32, at.node, table, row)
        return context.get_dummy_value()


def _row(builder: Any, words: int) -> Any:
    return builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(I64, max(1, words))), I64.as_pointer())


#: The keyword arguments of `View.decide`, their types and defaults.
_SAID: dict[str, tuple[type, float]] = {
    "machine": (int, -1), "task": (int, -1), "tasks": (int, 0), "among": (int, -1),
    "saw": (float, float("nan")), "limit": (float, float("nan")), "age": (float, float("nan")),
}  # fmt: skip


@_method(ViewType, "decide")
class _Decide:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        names = ("action", "application", *_SAID)
        found = _bound("view.decide", names, args, kws, optional=_SAID)
        _literal("the action of view.decide", found["action"], view.program.actions)
        wanted = [found["action"], _number("application of view.decide", int, found["application"])]
        for name, (kind, _) in _SAID.items():
            default = types.int64 if kind is int else types.float64
            wanted.append(_number(f"{name} of view.decide", kind, found.get(name, default)))
        return types.none, wanted, _parameter_list(names, {name: each for name, (_, each) in _SAID.items()})

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        action = ir.Constant(I64, view.program.actions.index(types_[0].literal_value))
        row = _row(builder, len(args) - 1)
        for k, each in enumerate(args[1:]):
            _store(context, builder, row, k, each)
        call_core(context, builder, at.context, "decide", I32, at.node, action, row)
        return context.get_dummy_value()


# -- random numbers ------------------------------------------------------------------------------------------


def _draw(name: str, names: tuple[str, ...], defaults: dict[str, float], kind: int, scaled: Any) -> None:
    @_method(RandomType, name)
    class Draw:
        @staticmethod
        def typed(random: Any, args: Any, kws: Any) -> Any:
            if "size" in kws or len(args) > len(names):
                raise NotCompiled(
                    f"view.random.{name} draws one number where it is compiled; use a loop for more"
                )
            found = _bound(f"view.random.{name}", names, args, kws, optional=defaults)
            for each, type_ in found.items():
                _number(f"{each} of view.random.{name}", float, type_)
            return types.float64, [types.float64] * len(names), _parameter_list(names, defaults)

        @staticmethod
        def lowered(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
            at = cgutils.create_struct_proxy(random)(context, builder, value=value)
            out = cgutils.alloca_once(builder, F64)
            factor, shift = scaled(builder, *args)
            number = ir.Constant(I64, kind)
            call_core(context, builder, at.context, "draw", I32, at.node, number, factor, shift, out)
            return builder.load(out)


_ONE, _ZERO = ir.Constant(F64, 1.0), ir.Constant(F64, 0.0)
_draw("random", (), {}, 0, lambda builder: (_ONE, _ZERO))
_draw("uniform", ("low", "high"), {"low": 0.0, "high": 1.0}, 3, lambda builder, low, high: (high, low))
_draw("exponential", ("scale",), {"scale": 1.0}, 1, lambda builder, scale: (scale, _ZERO))
_draw("normal", ("loc", "scale"), {"loc": 0.0, "scale": 1.0}, 2, lambda builder, loc, scale: (scale, loc))


def _integer(context: Any, builder: Any, random: Any, value: Any, low: Any, high: Any) -> Any:
    at = cgutils.create_struct_proxy(random)(context, builder, value=value)
    out = cgutils.alloca_once(builder, I64)
    call_core(context, builder, at.context, "integer", I32, at.node, low, high, out)
    return builder.load(out)


@_method(RandomType, "integers")
class _Integers:
    @staticmethod
    def typed(random: Any, args: Any, kws: Any) -> Any:
        if "size" in kws or len(args) > 2:
            raise NotCompiled(
                "view.random.integers draws one number where it is compiled; use a loop for more"
            )
        found = _bound("view.random.integers", ("low", "high"), args, kws, optional=("high",))
        wanted = [_number(f"{name} of view.random.integers", int, each) for name, each in found.items()]
        return types.int64, wanted, _parameter_list(found)

    @staticmethod
    def lowered(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        low, high = args if len(args) == 2 else (ir.Constant(I64, 0), args[0])
        return _integer(context, builder, random, value, low, high)


@_method(RandomType, "choice")
class _Choice:
    @staticmethod
    def typed(random: Any, args: Any, kws: Any) -> Any:
        if kws or len(args) != 1:
            raise NotCompiled("view.random.choice chooses one where it is compiled; use a loop for more")
        if (
            isinstance(args[0], (types.Integer, types.Array, NeighboursType))
            and getattr(args[0], "ndim", 1) == 1
        ):
            wanted = types.int64 if isinstance(args[0], types.Integer) else args[0]
            result = types.int64 if isinstance(args[0], types.Integer) else args[0].dtype
            return result, [wanted], _parameter_list(("a",))
        raise NotCompiled("view.random.choice chooses from a number or an array where it is compiled")

    @staticmethod
    def lowered(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        zero = ir.Constant(I64, 0)
        if isinstance(types_[0], types.Integer):
            return _integer(context, builder, random, value, zero, args[0])
        array = arrayobj.make_array(types_[0])(context, builder, args[0])
        count = cgutils.unpack_tuple(builder, array.shape, 1)[0]
        which = _integer(context, builder, random, value, zero, count)
        at = cgutils.get_item_pointer(context, builder, types_[0], array, [which])
        return context.unpack_value(builder, types_[0].dtype, at)


# -- where the core comes in ---------------------------------------------------------------------------------


def entry(program: Program, method: str, kind: tuple[Any, ...]) -> Any:
    """Compile a method, and return an intrinsic (context, node, given, state) -> 0, or -1 if it has raised.

    Parameters
    ----------
    kind
        What the core calls it for: ``("message", kinds, number among them)``, ``("release",)``, ``("timer",
        with value)`` or ``("event",)``.
    """
    function, node, view = program.function(method), NodeType(program), ViewType(program)
    more: list[Any] = []
    if kind[0] == "message":
        more = [MessageType(program, *kind[1])]
    elif kind[0] == "release":
        more = [ApplicationType(program), types.int64]
    elif kind[0] == "timer":
        more = [WordType(program.timers)] + [types.float64] * kind[1]
    program.open = [method]
    function.compile((node, view, *more))

    @intrinsic
    def enter(typing: Any, context: Any, number: Any, given: Any, state: Any) -> Any:
        dispatcher = types.Dispatcher(function)
        inner = dispatcher.get_call_type(typing, (node, view, *more), {})

        def codegen(target: Any, builder: Any, sig: Any, args: Any) -> Any:
            at, who, row, memory = args
            parameters = slot(builder, at, "parameters", PTR)
            values = [
                made(target, builder, node, state=memory, parameters=parameters),
                made(target, builder, view, context=at, node=who),
            ]
            if kind[0] == "message":
                which = ir.Constant(I64, kind[2])
                values.append(made(target, builder, more[0], row=row, kind=which))
            elif kind[0] == "release":
                values.append(made(target, builder, more[0], context=at, number=word(builder, row, 0)))
                values.append(word(builder, row, 1))
            elif kind[0] == "timer":
                values.append(word(builder, row, 0))
                if kind[1]:
                    values.append(word(builder, row, 1, F64))
            found = function.get_compile_result(inner)
            target.active_code_library.add_linking_library(found.library)
            status, _ = target.call_internal_no_propagate(builder, found.fndesc, inner, values)
            with cgutils.if_unlikely(builder, status.is_error):
                # The core holds the GIL, and goes on with what has been raised.
                target.call_conv.raise_error(builder, target.get_python_api(builder), status)
            return builder.select(status.is_error, ir.Constant(I32, -1), ir.Constant(I32, 0))

        return types.int32(types.voidptr, types.int64, types.voidptr, types.voidptr), codegen

    return enter
