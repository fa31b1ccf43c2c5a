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
from numba.core.registry import cpu_target
from numba.core.typing import signature, templates
from numba.extending import intrinsic, lower_builtin, overload_method
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

from gridcore.common.names import listed
from gridcore.nodes.state import ARRAY_TYPES
from gridsim.errors import SchedulerError
from gridsim.scheduling.nodes import numba_containers  # noqa: F401  (registers the types)
from gridsim.scheduling.nodes.compilable import NotCompiled
from gridsim.scheduling.nodes.numba_checks import CheckedCompiler
from gridsim.scheduling.nodes.numba_types import (
    APPLICATIONS,
    F64,
    I32,
    I64,
    METHODS,
    PTR,
    ApplicationType,
    BoardType,
    MessageType,
    Names,
    NamesType,
    NameType,
    NeighboursType,
    NodeType,
    Program,
    RandomType,
    RequestType,
    ViewType,
    call_core,
    call_function,
    field_index,
    load_applications,
    load_contents,
    load_slot,
    load_word,
    member,
    received_type,
    role_bounds,
    struct_of,
    type_text,
)
from gridsim.scheduling.nodes.program import ArrayField
from gridsim.scheduling.nodes.timers import Timer

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


def _field(path: str, kind: Any, type_: Any) -> Any:
    """Return the type that a field of a message is passed as; raise NotCompiled if `type_` does not fit."""
    if not isinstance(kind, ArrayField):
        return _number(path, kind, type_)
    dtype = getattr(type_, "dtype", None)
    if not isinstance(type_, types.Buffer):
        hint = "; np.array(...) makes one" if isinstance(type_, (types.List, types.BaseTuple)) else ""
        raise NotCompiled(f"{path} must be {kind}, got {type_text(type_)}{hint}")
    if type_.ndim != kind.ndim or not isinstance(dtype, (types.Integer, types.Float)):
        raise NotCompiled(f"{path} must be {kind}, got {type_text(type_)}")
    if as_dtype(dtype) not in ARRAY_TYPES or (kind.dtype.kind in "iu" and isinstance(dtype, types.Float)):
        target = "int64" if kind.dtype.kind in "iu" else "float64"
        raise NotCompiled(f"{path} must be {kind}, got {type_text(type_)}; .astype(np.{target}) makes one")
    return type_


def _strided(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    """Return a pointer to the description of an array, `StridedArray` of gridcore.nodes.payloads."""
    array = arrayobj.make_array(type_)(context, builder, value)
    one = ir.Constant(I64, 1)
    shape, strides = (
        cgutils.unpack_tuple(builder, each, type_.ndim) for each in (array.shape, array.strides)
    )
    words = [
        builder.ptrtoint(array.data, I64),
        ir.Constant(I64, ARRAY_TYPES.index(as_dtype(type_.dtype))),
        ir.Constant(I64, type_.ndim),
        *[*shape, one][:2],
        *[*strides, one][:2],
        builder.ptrtoint(array.parent, I64),
    ]
    return _filled_row(context, builder, words)


def _store(context: Any, builder: Any, row: Any, at: int, value: Any) -> None:
    target = builder.bitcast(row, value.type.as_pointer())
    builder.store(value, builder.gep(target, [ir.Constant(I64, at)]))


@_method(ViewType, "send")
class _Send:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kind_type = args[1] if len(args) > 1 else dict(kws).get("kind")
        if kind_type is None or len(args) > 2:
            raise NotCompiled("view.send takes the machine, the kind, and the fields by their names")
        kind, fields = _sent_kind(view, kind_type)
        if view.program.is_answer(kind):
            fields["request"] = int
        names = ("to", "kind", *fields)
        defaults = {"request": 0} if view.program.is_answer(kind) else {}
        arguments = _bind_arguments(f"view.send of {kind!r}", names, args, kws, optional=defaults)
        arguments = {**dict.fromkeys(defaults, types.int64), **arguments}
        argument_types = [_number("the machine that view.send sends to", int, arguments["to"]), kind_type]
        argument_types += _field_types(kind, fields, arguments)
        _check_size(view.program, kind)
        return types.none, argument_types, _parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind, fields = types_[1].literal_value, list(args[2:])
        if kind in view.program.answers:
            fields.append(ir.Constant(I64, 0))
        row = _add_message(context, builder, view.program, proxy, kind, args[0], types_[2:], fields)
        _finish_message(context, builder, view.program, proxy, kind, row)
        return context.get_dummy_value()


@_method(ViewType, "request")
class _Request:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kind_type = args[1] if len(args) > 1 else dict(kws).get("kind")
        if kind_type is None or len(args) > 3:
            raise NotCompiled(
                "view.request takes the machine, the kind, the timeout, and the fields by their names"
            )
        kind, fields = _sent_kind(view, kind_type)
        if kind not in view.program.answers:
            raise NotCompiled(f"{kind!r} has no answer: declare it as Message(..., answer=...)")
        names = ("to", "kind", "timeout", *fields)
        arguments = _bind_arguments(f"view.request of {kind!r}", names, args, kws)
        argument_types = [_number("the machine that view.request sends to", int, arguments["to"]), kind_type]
        argument_types.append(_number("the timeout of view.request", float, arguments["timeout"]))
        argument_types += _field_types(kind, fields, arguments)
        _check_size(view.program, kind)
        return types.int64, argument_types, _parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind, fields = types_[1].literal_value, [*args[3:], ir.Constant(I64, 0)]
        row = _add_message(context, builder, view.program, proxy, kind, args[0], types_[3:], fields)
        number = ir.Constant(I64, view.program.numbers[kind])
        return call_core(context, builder, proxy.context, "request", I64, proxy.node, number, row, args[2])


@_method(ViewType, "reply")
class _Reply:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        keywords, program = dict(kws), view.program
        message = args[0] if args else keywords.get("message")
        kind_type = args[1] if len(args) > 1 else keywords.get("kind")
        if not isinstance(message, MessageType) or kind_type is None or len(args) > 2:
            raise NotCompiled("view.reply takes the message, the kind, and the fields by their names")
        answers = [answer for kind in message.arguments for answer in program.answers.get(kind, ())]
        kind = _literal("the kind of an answer", kind_type, dict.fromkeys(answers))
        fields = program.sent_fields(kind)
        names = ("message", "kind", *fields)
        arguments = _bind_arguments(f"view.reply with {kind!r}", names, args, kws)
        field_types = _field_types(kind, fields, arguments)
        _check_size(program, kind)
        return types.none, [message, kind_type, *field_types], _parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        message = cgutils.create_struct_proxy(types_[0])(context, builder, value=args[0])
        program, kind = view.program, types_[1].literal_value
        requests = [each for each in types_[0].arguments if kind in program.answers.get(each, ())]
        at = field_index(builder, types_[0], message.kind, "request", 2, requests)
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", at, ir.Constant(I64, 0))):
            text = f"view.reply: {kind!r} is not an answer to this message"
            context.call_conv.return_user_exc(builder, SchedulerError, (text,))
        to, number = load_word(builder, message.row, 1), load_word(builder, message.row, at)
        fields = [*args[2:], number]
        row = _add_message(context, builder, program, proxy, kind, to, types_[2:], fields)
        _finish_message(context, builder, program, proxy, kind, row)
        return context.get_dummy_value()


def _sent_kind(view: Any, kind_type: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a message to another node, and its fields without the number of a request."""
    kind = _literal("the kind of a message", kind_type, view.program.kinds)
    if kind in view.program.local_kinds:
        raise NotCompiled(f"{kind!r} is a local kind; write view.later(seconds, {kind!r}, ...)")
    return kind, view.program.sent_fields(kind)


def _add_message(
    context: Any, builder: Any, program: Program, view: Any, kind: str, to: Any, types_: Any, fields: Any
) -> Any:
    """Add a message to the outbox with all its fields and its size, and return the pointer to its fields."""
    number = ir.Constant(I64, program.numbers[kind])
    row = call_core(context, builder, view.context, "send", I64.as_pointer(), view.node, number, to)
    received = _fill_fields(context, builder, program, view, kind, program.numbers[kind], row, types_, fields)
    if kind in program.sizes:
        function, order, sig = _size_function(program, kind)
        size = call_function(context, builder, function, sig, [received[k] for k in order])
        _store(context, builder, row, len(fields), context.cast(builder, size, sig.return_type, types.int64))
    return row


def _finish_message(context: Any, builder: Any, program: Program, view: Any, kind: str, row: Any) -> None:
    if kind in program.checked_kinds:
        number = ir.Constant(I64, program.numbers[kind])
        call_core(context, builder, view.context, "finish_send", I32, view.node, number, row)


def _check_size(program: Program, kind: str) -> None:
    """Raise NotCompiled if the size of a message is a function that cannot be compiled."""
    if kind in program.sizes:
        _size_function(program, kind)


def _field_types(kind: str, fields: dict[str, type], arguments: dict[str, Any]) -> list[Any]:
    """Return the types that the fields of a message are passed as."""
    return [_field(f"field {name!r} of {kind!r}", type_, arguments[name]) for name, type_ in fields.items()]


def _fill_fields(
    context: Any,
    builder: Any,
    program: Program,
    view: Any,
    kind: str,
    number: int,
    row: Any,
    types_: Any,
    args: Any,
) -> list[Any]:
    """Write the fields of a message to `row`; return them as the receiver gets them.

    Parameters
    ----------
    view
        The structure of the view.
    number
        The number of the kind, as the core's function ``store`` takes it.
    types_, args
        The types and values of the fields; the last field may be a number without a type.
    """
    received, declarations = [], program.kinds[kind].values()
    for k, (declared, value) in enumerate(zip(declarations, args, strict=True)):
        if isinstance(declared, ArrayField):
            words = [ir.Constant(I64, number), ir.Constant(I64, k), row]
            array = _strided(context, builder, types_[k], value)
            contents = call_core(context, builder, view.context, "store", PTR, view.node, *words, array)
            received.append(load_contents(context, builder, received_type(declared), contents))
        else:
            _store(context, builder, row, k, value)
            received.append(value)
    return received


def _size_function(program: Program, kind: str) -> tuple[Any, list[int], Any]:
    """Return the function of the size of a message, the fields that it takes by index, and its signature."""
    function, fields = program.sizes[kind], list(program.sent_fields(kind))
    if not inspect.isfunction(function):
        raise NotCompiled(f"the size of {kind!r} must be a function, got {function!r}")
    names = list(inspect.signature(function).parameters)
    at = function.__code__.co_filename, function.__code__.co_firstlineno
    if sorted(names) != sorted(fields):
        takes = f"{', '.join(fields)} as its parameters, got {inspect.signature(function)}"
        raise NotCompiled(f"the function of the size of {kind!r} must have {takes}", at)
    order, jitted = [fields.index(name) for name in names], program.jit(function)
    types_ = tuple(received_type(declared) for declared in map(program.kinds[kind].get, names))
    sig = types.Dispatcher(jitted).get_call_type(cpu_target.typing_context, types_, {})
    if not isinstance(sig.return_type, (types.Integer, types.Boolean)):
        raise NotCompiled(f"the size of {kind!r} must be an int, got {type_text(sig.return_type)}", at)
    return jitted, order, sig


@_method(ViewType, "later")
class _Later:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kinds = view.program.local_kinds
        kind_type = args[1] if len(args) > 1 else dict(kws).get("kind")
        if kind_type is None or len(args) > 2:
            raise NotCompiled("view.later takes the time, the kind, and the fields by their names")
        kind = _literal("the kind of a local message", kind_type, kinds)
        fields = view.program.kinds[kind]
        names = ("seconds", "kind", *fields)
        arguments = _bind_arguments(f"view.later of {kind!r}", names, args, kws)
        argument_types = [_number("the time of view.later", float, arguments["seconds"]), kind_type]
        return types.none, argument_types + _field_types(kind, fields, arguments), _parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind = types_[1].literal_value
        number = view.program.numbers[kind]
        row = _new_row(builder, len(args) - 2)
        _fill_fields(context, builder, view.program, proxy, kind, -1 - number, row, types_[2:], args[2:])
        words = [proxy.node, ir.Constant(I64, number), args[0], row]
        call_core(context, builder, proxy.context, "later", I32, *words)
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


def _timer_of(view: Any, call: str, type_: Any) -> Timer:
    """Return the timer that a call names by a string literal."""
    if type_ is None:
        raise NotCompiled(f"{call} requires the name of a timer, and its fields by their names")
    timer: Timer = view.program.timers[_literal("the name of a timer", type_, view.program.timers)][1]
    return timer


@_method(ViewType, "timer")
class _Timer:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        timer = _timer_of(view, "view.timer", args[1] if len(args) > 1 else dict(kws).get("name"))
        fields, defaults = timer.fields, timer.defaults
        if timer.handler == "on_timer":
            fields, defaults = {"value": float}, {"value": 0.0}
        elif len(args) > 2:
            raise NotCompiled(f"view.timer of {timer.name!r} takes fields by their names")
        names = ("seconds", "name", *fields)
        arguments = _bind_arguments(f"view.timer of {timer.name!r}", names, args, kws, optional=defaults)
        argument_types = [_number("the time of view.timer", float, arguments["seconds"]), arguments["name"]]
        for name, kind in fields.items():
            default = types.int64 if kind is int else types.float64
            path = f"{name} of the timer {timer.name!r}"
            argument_types.append(_number(path, kind, arguments.get(name, default)))
        return types.none, argument_types, _parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        number, timer = view.program.timers[types_[1].literal_value]
        name = ir.Constant(I64, number)
        if timer.handler == "on_timer":
            call_core(context, builder, proxy.context, "timer", I32, proxy.node, name, args[0], args[2])
        else:
            row = _filled_row(context, builder, args[2:])
            call_core(context, builder, proxy.context, "timer_fields", I32, proxy.node, name, args[0], row)
        return context.get_dummy_value()


@_method(ViewType, "at")
class _TimerAt:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        timer = _timer_of(view, "view.at", args[1] if len(args) > 1 else dict(kws).get("name"))
        fields, defaults = timer.fields, timer.defaults
        if timer.handler == "on_timer":
            fields, defaults = {"value": float}, {"value": 0.0}
        elif len(args) > 2:
            raise NotCompiled(f"view.at of {timer.name!r} takes fields by their names")
        names = ("instant", "name", *fields)
        arguments = _bind_arguments(f"view.at of {timer.name!r}", names, args, kws, optional=defaults)
        argument_types = [_number("the instant of view.at", int, arguments["instant"]), arguments["name"]]
        for name, kind in fields.items():
            default = types.int64 if kind is int else types.float64
            path = f"{name} of the timer {timer.name!r}"
            argument_types.append(_number(path, kind, arguments.get(name, default)))
        return types.none, argument_types, _parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        number, timer = view.program.timers[types_[1].literal_value]
        name = ir.Constant(I64, number)
        if timer.handler == "on_timer":
            call_core(context, builder, proxy.context, "timer_at", I32, proxy.node, name, args[0], args[2])
        else:
            row = _filled_row(context, builder, args[2:])
            call_core(context, builder, proxy.context, "timer_fields_at", I32, proxy.node, name, args[0], row)
        return context.get_dummy_value()


@_method(ViewType, "act")
class _Act:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = _bind_arguments("view.act", ("seconds",), args, kws, optional=("seconds",))
        argument_type = _number("the time of view.act", float, arguments.get("seconds", types.float64))
        return types.none, [argument_type], _parameter_list(("seconds",), {"seconds": 0.0})

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, proxy.context, "act", I32, proxy.node, *args)
        return context.get_dummy_value()


@_method(ViewType, "completed")
class _Completed:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        _bind_arguments("view.completed", (), args, kws)
        return APPLICATIONS, [], []

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        return load_applications(context, builder, view, value, "completed")


@_method(ViewType, "cancel")
class _Cancel:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        timer = _timer_of(view, "view.cancel", args[0] if args else dict(kws).get("name"))
        call, names = f"view.cancel of {timer.name!r}", ("name", *timer.fields)
        if len(args) > 1:
            raise NotCompiled(f"{call} takes fields by their names")
        arguments = _bind_arguments(call, names, args, kws, optional=timer.fields)
        argument_types = [arguments["name"]] + [
            _number(f"{name} of the timer {timer.name!r}", kind, arguments[name])
            if name in arguments
            else types.none
            for name, kind in timer.fields.items()
        ]
        return types.none, argument_types, _parameter_list(names, dict.fromkeys(timer.fields))

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        number, _ = view.program.timers[types_[0].literal_value]
        given = [type_ is not types.none for type_ in types_[1:]]
        zero = ir.Constant(I64, 0)
        words = [word if is_given else zero for word, is_given in zip(args[1:], given, strict=True)]
        row = _filled_row(context, builder, words)
        among = ir.Constant(I64, sum(is_given << k for k, is_given in enumerate(given)))
        name = ir.Constant(I64, number)
        call_core(context, builder, proxy.context, "cancel", I32, proxy.node, name, among, row)
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
        row = _filled_row(context, builder, args[1:])
        call_core(context, builder, proxy.context, "note", I32, proxy.node, table, row)
        return context.get_dummy_value()


def _new_row(builder: Any, words: int) -> Any:
    """Return the address of int64 words."""
    row = cgutils.alloca_once(builder, ir.ArrayType(I64, max(1, words)))
    return builder.bitcast(row, I64.as_pointer())


def _filled_row(context: Any, builder: Any, values: Any) -> Any:
    """Return the address of int64 words with `values`, ints and floats."""
    row = _new_row(builder, len(values))
    for k, value in enumerate(values):
        _store(context, builder, row, k, value)
    return row


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
        row = _filled_row(context, builder, args[1:])
        call_core(context, builder, proxy.context, "decide", I32, proxy.node, action, row)
        return context.get_dummy_value()


# -- the board -----------------------------------------------------------------------------------------------


def _column_parameters(
    names: Any, columns: Any, defaults: dict[str, Any] | None = None
) -> list[inspect.Parameter]:
    """Return the parameters `names`, and one that passes the names of numbers to the code of the call."""
    return _parameter_list((*names, "columns"), {**(defaults or {}), "columns": Names(columns)})


def _columns(program: Program, names: NamesType) -> list[Any]:
    return [ir.Constant(I64, program.columns.index(name)) for name in names.names]


def _column_name(call: str, program: Program, type_: Any) -> str:
    """Return the name of a number from the type of an argument, which is None for the only number."""
    if type_ is not None:
        return _literal(f"the name of {call}", type_, program.columns)
    if len(program.columns) > 1:
        raise NotCompiled(f"{call} requires the name of a number: {', '.join(program.columns)}")
    return program.columns[0]


def _literals(type_: Any) -> list[Any]:
    """Return the strings in the type of a constant tuple, None for other elements; [] for other types."""
    return (
        [getattr(each, "literal_value", None) for each in type_] if isinstance(type_, types.BaseTuple) else []
    )


@_method(ViewType, "publish")
class _Publish:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        call, numbers = "view.publish", view.program.columns
        columns = tuple(name for name in numbers if name in dict(kws))
        if (columns and args) or (not columns and len(numbers) > 1):
            raise NotCompiled(f"{call} takes numbers by their names: {', '.join(numbers)}")
        names = (*(columns or ["value"]), "falling", "application")
        columns = columns or numbers
        arguments = _bind_arguments(call, names, args, kws, optional=("falling", "application"))
        argument_types = [_number(f"{name} of {call}", float, arguments[name]) for name in names[:-2]]
        falling = arguments.get("falling", types.int64)
        if isinstance(falling, types.UnicodeType) or not set(_literals(falling)) <= set(columns):
            raise NotCompiled(
                f"falling of {call} must be True, False or a tuple of names of given numbers, written in the "
                f"call, such as ({columns[0]!r},)"
            )
        argument_types += [
            falling if isinstance(falling, types.BaseTuple) else _number(f"falling of {call}", int, falling),
            _number(f"application of {call}", int, arguments.get("application", types.int64)),
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


@_method(BoardType, "least")
class _Least:
    @staticmethod
    def infer(board: Any, args: Any, kws: Any) -> Any:
        call = "view.board.least"
        arguments = _bind_arguments(call, ("k", "name"), args, kws, optional=("name",))
        column = _column_name(call, board.program, arguments.get("name"))
        argument_types = [_number(f"k of {call}", int, arguments.pop("k")), *arguments.values()]
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


@_method(BoardType, "add")
class _Add:
    @staticmethod
    def infer(board: Any, args: Any, kws: Any) -> Any:
        call, program = "view.board.add", board.program
        columns = tuple(name for name in program.columns if name in dict(kws))
        names = ("node", *columns) if columns else ("node", "delta", "name")
        arguments = _bind_arguments(call, names, args, kws, optional=("name",))
        argument_types = [
            _number(f"{name} of {call}", int if name == "node" else float, type_)
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
        names = ("low", "high", "size")
        arguments = _bind_arguments("view.random.integers", names, args, kws, optional=names[1:])
        argument_types = [
            _number(f"{name} of view.random.integers", int, arguments[name])
            if name in arguments
            else _OMITTED
            for name in names
        ]
        result = _INTEGERS if "size" in arguments else types.int64
        return result, argument_types, _parameter_list(names, {"high": 0, "size": 0})

    @staticmethod
    def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        low, high, size = args
        if types_[1] == _OMITTED:
            low, high = ir.Constant(I64, 0), low
        if types_[2] == _OMITTED:
            return _integer(context, builder, random, value, low, high)
        return _new_integers(context, builder, random, value, "integers", size, low, high)


@_method(RandomType, "permutation")
class _Permutation:
    @staticmethod
    def infer(random: Any, args: Any, kws: Any) -> Any:
        arguments = _bind_arguments("view.random.permutation", ("x",), args, kws)
        if not isinstance(arguments["x"], (types.Integer, types.Boolean)):
            raise NotCompiled(
                "view.random.permutation takes a number in compiled nodes; permute the places of the elements"
            )
        return _INTEGERS, [types.int64], _parameter_list(arguments)

    @staticmethod
    def lower(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        return _new_integers(context, builder, random, value, "permute", args[0])


#: The type of arrays of drawn integers, and the type of an argument that is left out.
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
                # The core, which holds the GIL, raises the error again in Python, unless it is its own.
                api = target.get_python_api(builder)
                with builder.if_then(cgutils.is_null(builder, api.err_occurred())):
                    target.call_conv.raise_error(builder, api, status)
            return builder.select(status.is_error, ir.Constant(I32, -1), ir.Constant(I32, 0))

        return types.int32(types.voidptr, types.int64, types.voidptr, types.voidptr), codegen

    return enter
