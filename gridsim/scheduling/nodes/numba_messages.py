"""The messages and requests of compiled node programs: their fields, and how nodes send them.

Only `gridsim.scheduling.nodes.numba_methods` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
import operator
from dis import get_instructions
from functools import lru_cache
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba import from_dtype, types
from numba.extending import infer_getattr, lower_builtin, lower_getattr_generic

from gridcore.common.names import listed
from gridcore.nodes.state import ARRAY_TYPES
from gridsim.errors import SchedulerError
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_calls import (
    bind_arguments,
    define_method,
    filled_row,
    literal_text,
    new_row,
    number_type,
    parameter_list,
    store_word,
)
from gridsim.scheduling.nodes.numba_internals import (
    arrayobj,
    as_dtype,
    cgutils,
    cpu_target,
    listobj,
    signature,
    templates,
)
from gridsim.scheduling.nodes.numba_types import (
    F64,
    I32,
    I64,
    PTR,
    MessageType,
    NameType,
    Program,
    RequestType,
    ViewType,
    array_at,
    call_core,
    load_word,
    set_error,
    type_text,
)
from gridsim.scheduling.nodes.program import ArrayField

__all__: list[str] = []


# -- received messages and requests --------------------------------------------------------------------------


class _RecordAttributes(templates.AttributeTemplate):
    """Attributes of messages and requests: the fields of their kinds, and the attributes in `own`."""

    name: str
    own: tuple[str, ...]

    def generic_resolve(self, record: Any, attr: str) -> Any:
        if attr in self.own:
            return types.int64
        if attr == "kind":
            return NameType(record.arguments)
        kinds = {kind: fields[attr] for kind, fields in _fields_of(record).items() if attr in fields}
        if not kinds:
            fields = {name for names in _fields_of(record).values() for name in names}
            known = listed(["kind", *self.own, *sorted(fields)], attr)
            raise NotCompiled(f"{self.name}.{attr}: no {self.name} of this handler has such a field; {known}")
        if len(set(kinds.values())) > 1:
            names = {int: "an int", float: "a float"}
            one, other, *_ = (names.get(kind, kind) for kind in dict.fromkeys(kinds.values()))
            raise NotCompiled(
                f"{self.name}.{attr} is {one} in one kind and {other} in another; rename the field"
            )
        (kind,) = set(kinds.values())
        return received_type(kind)


def received_type(kind: Any) -> Any:
    """Return the type of a field of a received message, which is declared as `kind`."""
    if isinstance(kind, ArrayField):
        return types.Array(from_dtype(kind.dtype), kind.ndim, "C", readonly=True)
    return types.float64 if kind is float else types.int64


def load_contents(context: Any, builder: Any, type_: Any, contents: Any) -> Any:
    """Return an array in a message; `contents` points to `Contents` of gridcore.nodes.payloads."""
    shape = [load_word(builder, contents, 1 + k) for k in range(type_.ndim)]
    owner = load_word(builder, contents, 3, PTR)
    return array_at(context, builder, type_, load_word(builder, contents, 0, PTR), shape, owner)


@infer_getattr
class _MessageAttributes(_RecordAttributes):
    key, name, own = MessageType, "message", ("sender",)


@infer_getattr
class _RequestAttributes(_RecordAttributes):
    key, name, own = RequestType, "request", ("number", "to")


def _fields_of(type_: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of the kinds that a message or request may have."""
    program = type_.program
    fields = program.kinds.__getitem__ if isinstance(type_, MessageType) else program.sent_fields
    return {kind: fields(kind) for kind in type_.arguments}


def field_index(builder: Any, type_: Any, kind: Any, attr: str, first: int, among: Any = None) -> Any:
    """Return the index of the word of a field; -1 if the kind has no such field or it is not in `among`.

    Parameters
    ----------
    first
        The index of the first field.
    """
    index = ir.Constant(I64, -1)
    for k, (name, fields) in enumerate(_fields_of(type_).items()):
        if attr in fields and (among is None or name in among):
            at = ir.Constant(I64, first + list(fields).index(attr))
            index = builder.select(builder.icmp_signed("==", kind, ir.Constant(I64, k)), at, index)
    return index


def _load_field(context: Any, builder: Any, type_: Any, record: Any, attr: str, first: int) -> Any:
    index = field_index(builder, type_, record.kind, attr, first)
    with cgutils.if_unlikely(builder, builder.icmp_signed("<", index, ir.Constant(I64, 0))):
        name = "message" if isinstance(type_, MessageType) else "request"
        context.call_conv.return_user_exc(builder, AttributeError, (f"{name} has no field {attr!r}",))
    result = context.typing_context.resolve_getattr(type_, attr)
    if isinstance(result, types.Array):
        return load_contents(context, builder, result, load_word(builder, record.row, index, PTR))
    return load_word(builder, record.row, index, F64 if result == types.float64 else I64)


@lower_getattr_generic(MessageType)
def _message_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    message = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    if attr == "sender":
        return load_word(builder, message.row, 1)
    if attr == "kind":
        return message.kind
    return _load_field(context, builder, type_, message, attr, 2)


@lower_getattr_generic(RequestType)
def _request_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    # the words of the timer of a request (`gridcore.nodes.kinds`): number, to, kind, fields
    request = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    if attr in ("number", "to"):
        return load_word(builder, request.row, ("number", "to").index(attr))
    if attr == "kind":
        return request.kind
    return _load_field(context, builder, type_, request, attr, 3)


# -- sent messages -------------------------------------------------------------------------------------------


_NUMBERS = (types.Integer, types.Float, types.Boolean)


def _field(path: str, kind: Any, type_: Any) -> Any:
    """Return the type as which a field of a message is passed; raise NotCompiled if `type_` does not fit."""
    if not isinstance(kind, ArrayField):
        return number_type(path, kind, type_)
    dtype = getattr(type_, "dtype", None)
    if not isinstance(type_, (types.Buffer, types.List)):
        hint = "; np.array(...) makes one" if isinstance(type_, types.BaseTuple) else ""
        raise NotCompiled(f"{path} must be {kind}, got {type_text(type_)}{hint}")
    if getattr(type_, "ndim", 1) != kind.ndim or not isinstance(dtype, _NUMBERS):
        raise NotCompiled(f"{path} must be {kind}, got {type_text(type_)}")
    if as_dtype(dtype) not in ARRAY_TYPES or (kind.dtype.kind in "iu" and isinstance(dtype, types.Float)):
        target = "int64" if kind.dtype.kind in "iu" else "float64"
        call = "np.array(...).astype" if isinstance(type_, types.List) else ".astype"
        raise NotCompiled(f"{path} must be {kind}, got {type_text(type_)}; {call}(np.{target}) makes one")
    return type_


def strided(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    """Return a pointer to the description of an array or list, `StridedArray` of gridcore.nodes.payloads."""
    if isinstance(type_, types.List):
        entries, one = listobj.ListInstance(context, builder, type_, value), ir.Constant(I64, 1)
        data = builder.ptrtoint(entries._gep(ir.Constant(I64, 0)), I64)
        dtype, size = ARRAY_TYPES.index(as_dtype(type_.dtype)), as_dtype(type_.dtype).itemsize
        words = [data, ir.Constant(I64, dtype), one, entries.size, one, ir.Constant(I64, size), one]
        words.append(ir.Constant(I64, 0))  # the array has no owner
        return filled_row(context, builder, words)
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
    return filled_row(context, builder, words)


@define_method(ViewType, "send")
class _Send:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kind_type = args[1] if len(args) > 1 else dict(kws).get("kind")
        if kind_type is None or len(args) > 2:
            raise NotCompiled("view.send takes the machine and the kind, and the fields as keyword arguments")
        kind, fields = _sent_kind(view, kind_type)
        if view.program.is_answer(kind):
            fields["request"] = int
        names = ("to", "kind", *fields)
        defaults = {"request": 0} if view.program.is_answer(kind) else {}
        arguments = bind_arguments(f"view.send of {kind!r}", names, args, kws, optional=defaults)
        arguments = {**dict.fromkeys(defaults, types.int64), **arguments}
        argument_types = [number_type("the machine that view.send sends to", int, arguments["to"]), kind_type]
        argument_types += _field_types(kind, fields, arguments)
        _check_size(view.program, kind)
        return types.none, argument_types, parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind, fields = types_[1].literal_value, list(args[2:])
        if kind in view.program.answers:
            fields.append(ir.Constant(I64, 0))
        row = _add_message(context, builder, view.program, proxy, kind, args[0], types_[2:], fields)
        _finish_message(context, builder, view.program, proxy, kind, row)
        return context.get_dummy_value()


@define_method(ViewType, "request")
class _Request:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kind_type = args[1] if len(args) > 1 else dict(kws).get("kind")
        if kind_type is None or len(args) > 3:
            raise NotCompiled(
                "view.request takes the machine, kind and timeout, and the fields as keyword arguments"
            )
        kind, fields = _sent_kind(view, kind_type)
        if kind not in view.program.answers:
            raise NotCompiled(f"{kind!r} has no answer: declare it as Message(..., answer=...)")
        names = ("to", "kind", "timeout", *fields)
        arguments = bind_arguments(f"view.request of {kind!r}", names, args, kws)
        argument_types = [
            number_type("the machine that view.request sends to", int, arguments["to"]),
            kind_type,
        ]
        argument_types.append(number_type("the timeout of view.request", float, arguments["timeout"]))
        argument_types += _field_types(kind, fields, arguments)
        _check_size(view.program, kind)
        return types.int64, argument_types, parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind, fields = types_[1].literal_value, [*args[3:], ir.Constant(I64, 0)]
        row = _add_message(context, builder, view.program, proxy, kind, args[0], types_[3:], fields)
        number = ir.Constant(I64, view.program.numbers[kind])
        return call_core(context, builder, proxy.context, "request", I64, proxy.node, number, row, args[2])


@define_method(ViewType, "reply")
class _Reply:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        keywords, program = dict(kws), view.program
        message = args[0] if args else keywords.get("message")
        kind_type = args[1] if len(args) > 1 else keywords.get("kind")
        if not isinstance(message, MessageType) or kind_type is None or len(args) > 2:
            raise NotCompiled(
                "view.reply takes the message and the kind, and the fields as keyword arguments"
            )
        answers = [answer for kind in message.arguments for answer in program.answers.get(kind, ())]
        kind = literal_text("the kind of an answer", kind_type, dict.fromkeys(answers))
        fields = program.sent_fields(kind)
        names = ("message", "kind", *fields)
        arguments = bind_arguments(f"view.reply with {kind!r}", names, args, kws)
        field_types = _field_types(kind, fields, arguments)
        _check_size(program, kind)
        return types.none, [message, kind_type, *field_types], parameter_list(names)

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
    kind = literal_text("the kind of a message", kind_type, view.program.kinds)
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
        compiled = function.get_compile_result(sig)
        context.active_code_library.add_linking_library(compiled.library)
        values = [received[k] for k in order]
        status, size = context.call_internal_no_propagate(builder, compiled.fndesc, sig, values)
        with cgutils.if_unlikely(builder, status.is_error):
            set_error(context, builder, status)
            call_core(context, builder, view.context, "fail_size", I32, view.node, number)
        store_word(
            context, builder, row, len(fields), context.cast(builder, size, sig.return_type, types.int64)
        )
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
    """Return the types as which the fields of a message are passed."""
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
            array = strided(context, builder, types_[k], value)
            contents = call_core(context, builder, view.context, "store", PTR, view.node, *words, array)
            received.append(load_contents(context, builder, received_type(declared), contents))
        else:
            store_word(context, builder, row, k, value)
            received.append(value)
    return received


def _size_function(program: Program, kind: str) -> tuple[Any, list[int], Any]:
    """Return the function of the size of a message, the fields that it takes by index, and its signature."""
    function, fields = program.sizes[kind], list(program.sent_fields(kind))
    if not inspect.isfunction(function):
        raise NotCompiled(f"the size of {kind!r} must be a function, got {function!r}")
    names, rest_parameter = _parameters(function)
    location = function.__code__.co_filename, function.__code__.co_firstlineno
    for name in names:
        if name not in fields:
            takes = f"only fields as its parameters, got {name}; write the value of {name} into its body"
            raise NotCompiled(f"the function of the size of {kind!r} must have {takes}", location)
    if rest_parameter and any(step.argval == rest_parameter for step in get_instructions(function)):
        reads = f"must not read {rest_parameter}; write the fields that it needs as its parameters"
        raise NotCompiled(f"the function of the size of {kind!r} {reads}", location)
    order, jitted = [fields.index(name) for name in names], program.jit(_by_position(function))
    types_ = tuple(received_type(declared) for declared in map(program.kinds[kind].get, names))
    sig = types.Dispatcher(jitted).get_call_type(cpu_target.typing_context, types_, {})
    if not isinstance(sig.return_type, (types.Integer, types.Boolean)):
        raise NotCompiled(f"the size of {kind!r} must be an int, got {type_text(sig.return_type)}", location)
    return jitted, order, sig


def _parameters(function: Any) -> tuple[list[str], str]:
    """Return the names of the parameters for fields, and of the parameter for further keywords, or ""."""
    parameters = inspect.signature(function).parameters.values()
    kind = inspect.Parameter.VAR_KEYWORD
    rest = "".join(each.name for each in parameters if each.kind is kind)
    return [each.name for each in parameters if each.kind is not kind], rest


@lru_cache(1024)  # cached, so that each function is compiled once
def _by_position(function: Any) -> Any:
    """Return `function` with its named parameters as positional parameters, without any others."""
    code = function.__code__
    if not (code.co_kwonlyargcount or code.co_flags & inspect.CO_VARKEYWORDS):
        return function
    changed_code = code.replace(
        co_argcount=code.co_argcount + code.co_kwonlyargcount,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~inspect.CO_VARKEYWORDS,
    )
    return FunctionType(changed_code, function.__globals__, function.__name__, None, function.__closure__)


@define_method(ViewType, "later")
class _Later:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        kinds = view.program.local_kinds
        kind_type = args[1] if len(args) > 1 else dict(kws).get("kind")
        if kind_type is None or len(args) > 2:
            raise NotCompiled(
                "view.later must have the time, the kind, and the fields by name, got "
                f"{len(args)} arguments by position"
            )
        kind = literal_text("the kind of a local message", kind_type, kinds)
        fields = view.program.kinds[kind]
        names = ("seconds", "kind", *fields)
        arguments = bind_arguments(f"view.later of {kind!r}", names, args, kws)
        argument_types = [number_type("the time of view.later", float, arguments["seconds"]), kind_type]
        return types.none, argument_types + _field_types(kind, fields, arguments), parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        kind = types_[1].literal_value
        number = view.program.numbers[kind]
        row = new_row(builder, len(args) - 2)
        _fill_fields(context, builder, view.program, proxy, kind, -1 - number, row, types_[2:], args[2:])
        words = [proxy.node, ir.Constant(I64, number), args[0], row]
        call_core(context, builder, proxy.context, "later", I32, *words)
        return context.get_dummy_value()


# -- names: kinds of messages, names of timers, parameters that are text -------------------------------------


def _register_comparison(op: Any, predicate: str) -> None:
    @templates.infer_global(op)
    class Compare(templates.AbstractTemplate):
        prefer_literal = True

        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and any(isinstance(type_, NameType) for type_ in args):
                if all(isinstance(type_, (NameType, types.StringLiteral)) for type_ in args):
                    return signature(types.boolean, *args)
                raise NotCompiled(
                    "a string of a message or the view can be compared only with a string literal"
                )
            return None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (a, b), (x, y) = sig.args, args
        if isinstance(a, types.StringLiteral):
            a, b, x, y = b, a, y, x
        if isinstance(b, NameType):
            if a.names != b.names:
                raise NotCompiled(
                    f"compared strings must have the same possible values, got {a.names} and {b.names}"
                )
        else:
            at = a.names.index(b.literal_value) if b.literal_value in a.names else -1
            y = ir.Constant(I64, at)
        return builder.icmp_signed(predicate, x, y)

    lower_builtin(op, NameType, types.StringLiteral)(lower)
    lower_builtin(op, types.StringLiteral, NameType)(lower)
    lower_builtin(op, NameType, NameType)(lower)


_register_comparison(operator.eq, "==")
_register_comparison(operator.ne, "!=")
