"""What node programs are made of, as Numba sees it: the node, its view, messages, applications and words.

Each type says which attributes it has and how they are lowered to loads from the state of the node, the
record of the message or the `Context` of the message core, and to calls of functions of that core
(`gridcore.nodes.compiled_calls.CONTEXT`).  Nothing here is specific to one program: a type carries a
`Program`.

Only `gridsim.scheduling.nodes.compiled` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, typeof, types
from numba.core import cgutils, imputils
from numba.core.datamodel import models
from numba.core.typing import signature, templates
from numba.cpython import listobj
from numba.extending import lower_builtin, overload, register_model
from numba.np import arrayobj

from gridcore.common.names import closest, listed
from gridcore.nodes.compiled_calls import CONTEXT
from gridcore.nodes.random_stream import RandomStream
from gridcore.nodes.view import View
from gridsim.model.applications import Application
from gridsim.scheduling.nodes.compilable import NotCompiled, check_source

__all__ = [
    "ApplicationType",
    "F64",
    "I32",
    "I64",
    "METHODS",
    "MessageType",
    "NeighboursType",
    "NodeType",
    "PTR",
    "ParametersType",
    "Program",
    "RandomType",
    "ViewType",
    "WordType",
    "call_core",
    "field_type",
    "made",
    "said",
    "slot",
    "word",
]

I64, F64, I32 = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
PTR = ir.IntType(8).as_pointer()


@dataclass(eq=False)
class Program:
    """What the types need to know of one node program: its class, state, messages, parameters and names."""

    policy: type
    state: np.dtype[Any]
    parameters: np.dtype[Any]
    words: dict[str, str | None]  # parameters that are no numbers
    kinds: dict[str, dict[str, type]]
    numbers: dict[str, int]  # of the kinds
    checked: frozenset[str]  # kinds with an application, or with a delay of their own: the core looks at them
    timers: tuple[str, ...]
    tables: dict[str, dict[str, type]]
    actions: tuple[str, ...]
    pipeline: Any  # how Numba compiles the methods, see `numba_checks`
    open: list[str] = field(default_factory=list)  # the methods that are being compiled
    functions: dict[Any, Any] = field(default_factory=dict)

    def function(self, name: str) -> Any:
        """Return the method or property of the class as a function that Numba compiles where it is called."""
        found = inspect.getattr_static(self.policy, name)
        found = found.fget if isinstance(found, property) else found
        if found not in self.functions:
            check_source(found)
            self.functions[found] = njit(boundscheck=True, pipeline_class=self.pipeline)(found)
        return self.functions[found]

    def call_type(self, context: Any, name: str, args: Any, kws: Any) -> Any:
        """Return the signature of a call of a method or property, which this compiles."""
        if name in self.open:
            raise NotCompiled(f"self.{name} calls itself, maybe through others; write a loop")
        function = self.function(name)
        try:
            inspect.signature(function.py_func).bind(*args, **kws)
        except TypeError as error:
            raise NotCompiled(f"self.{name}{inspect.signature(function.py_func)}: {error}") from None
        self.open.append(name)
        try:
            return types.Dispatcher(function).get_call_type(context, args, kws)
        finally:
            self.open.pop()


# -- the types -----------------------------------------------------------------------------------------------


class _OfProgram(types.Type):
    def __init__(self, program: Program, *more: Any) -> None:
        self.program, self.more = program, more
        super().__init__(f"{type(self).__name__}({program.policy.__name__}@{id(program)}, {more})")


class NodeType(_OfProgram):
    """``self`` in a handler."""


class ParametersType(_OfProgram):
    """``self.parameters``."""


class ViewType(_OfProgram):
    """``view``."""


class RandomType(_OfProgram):
    """``view.random``."""


class ApplicationType(_OfProgram):
    """The application in ``on_release`` and of ``view.application(number)``."""


class MessageType(_OfProgram):
    """A message of one of several kinds, whose names are `more`."""


class WordType(types.Type):
    """One of several words, such as the kinds of messages: only its position is stored."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        super().__init__(f"Word{words}")


def _model(type_: type, *members: tuple[str, Any]) -> None:
    @register_model(type_)
    class Model(models.StructModel):
        def __init__(self, manager: Any, fe_type: Any) -> None:
            super().__init__(manager, fe_type, list(members))


_model(NodeType, ("state", types.voidptr), ("parameters", types.voidptr))
_model(ParametersType, ("parameters", types.voidptr))
_model(ViewType, ("context", types.voidptr), ("node", types.int64))
_model(RandomType, ("context", types.voidptr), ("node", types.int64))
_model(ApplicationType, ("context", types.voidptr), ("number", types.int64))
_model(MessageType, ("row", types.voidptr), ("kind", types.int64))


@register_model(WordType)
class _WordModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, I64)


def said(type_: Any) -> str:
    if isinstance(type_, ApplicationType):
        return "an application, which has a .number"
    return "a fraction" if isinstance(type_, types.Float) else str(type_)


# -- loads and calls -----------------------------------------------------------------------------------------


def member(context: Any, builder: Any, type_: Any, value: Any, name: str) -> Any:
    return getattr(cgutils.create_struct_proxy(type_)(context, builder, value=value), name)


def made(target: Any, builder: Any, type_: Any, /, **members: Any) -> Any:
    made = cgutils.create_struct_proxy(type_)(target, builder)
    for name, value in members.items():
        setattr(made, name, value)
    return made._getvalue()


def word(builder: Any, pointer: Any, index: Any, as_: Any = I64) -> Any:
    """Load the 64-bit word `index` that `pointer` points to."""
    return builder.load(builder.gep(builder.bitcast(pointer, as_.as_pointer()), [_word(index)]))


def _word(value: Any) -> Any:
    return ir.Constant(I64, value) if isinstance(value, int) else value


def slot(builder: Any, context_pointer: Any, name: str, as_: Any = I64) -> Any:
    """Load a field of the context of the core."""
    return word(builder, context_pointer, CONTEXT.index(name), as_)


def call_core(context: Any, builder: Any, pointer: Any, name: str, result: Any, *args: Any) -> Any:
    """Call a function of the core, with the core before `args`; what it raises ends the handler."""
    kind = ir.FunctionType(result, [PTR, *(each.type for each in args)])
    function = slot(builder, pointer, name, kind.as_pointer())
    found = builder.call(function, [slot(builder, pointer, "core", PTR), *args])
    if isinstance(result, ir.PointerType):
        failed = cgutils.is_null(builder, found)
    elif isinstance(result, ir.DoubleType):
        failed = builder.fcmp_ordered("==", found, ir.Constant(result, -1.0))
    else:
        failed = builder.icmp_signed("==", found, ir.Constant(result, -1))
    with cgutils.if_unlikely(builder, failed):
        context.call_conv.return_exc(builder)
    return found


def _array(context: Any, builder: Any, type_: Any, pointer: Any, shape: Any) -> Any:
    """An array over memory of the core; `shape`: numbers, or values of one dimension."""
    made = arrayobj.make_array(type_)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(type_.dtype))
    strides = [size * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    arrayobj.populate_array(
        made,
        data=builder.bitcast(pointer, context.get_data_type(type_.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, [_word(each) for each in shape]),
        strides=cgutils.pack_array(builder, [_word(each) for each in strides]),
        itemsize=_word(size),
        meminfo=None,
        parent=None,
    )
    return made._getvalue()


# -- attributes ----------------------------------------------------------------------------------------------

#: type -> name -> (type of the attribute, how to load it)
_ATTRIBUTES: dict[type, dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]]] = {}
METHODS: dict[type, dict[str, Any]] = {}


def _attribute(type_: type, name: str, of: Any) -> Callable[[Any], Any]:
    def register(load: Any) -> Any:
        _ATTRIBUTES.setdefault(type_, {})[name] = (lambda _: of) if isinstance(of, types.Type) else of, load
        return load

    return register


@_attribute(ViewType, "node", types.int64)
def _view_node(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return member(context, builder, type_, value, "node")


@_attribute(ViewType, "now", types.float64)
def _view_now(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    at = slot(builder, member(context, builder, type_, value, "context"), "now", I64.as_pointer())
    return builder.fdiv(builder.sitofp(builder.load(at), F64), ir.Constant(F64, 1e9))


@_attribute(ViewType, "machines", types.int64)
def _view_machines(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return slot(builder, member(context, builder, type_, value, "context"), "nodes")


@_attribute(ViewType, "speed", types.float64)
def _view_speed(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return word(builder, slot(builder, view.context, "speed", PTR), view.node, F64)


class NeighboursType(types.Buffer):
    """Numbers that can be counted, indexed and gone through, as the tuple can that interpreted nodes get."""

    def __init__(self, dtype: Any = types.int64, ndim: int = 1, layout: str = "C", **more: Any) -> None:
        super().__init__(dtype, ndim, layout, readonly=True, name=f"neighbours({layout})")


register_model(NeighboursType)(models.ArrayModel)
_NEIGHBOURS = NeighboursType()


@templates.infer_global(bool)
class _Truth(templates.AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.boolean, *args) if isinstance(args[0], NeighboursType) else None


@lower_builtin(bool, NeighboursType)
def _any_neighbours(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    array = arrayobj.make_array(sig.args[0])(context, builder, args[0])
    count = cgutils.unpack_tuple(builder, array.shape, 1)[0]
    return builder.icmp_signed(">", count, ir.Constant(I64, 0))


@overload(operator.contains)
def _contains(among: Any, node: Any) -> Any:
    if not isinstance(among, NeighboursType):
        return None

    def found(among: Any, node: Any) -> bool:
        for each in among:  # noqa: SIM110
            if each == node:
                return True
        return False

    return found


@_attribute(ViewType, "neighbours", _NEIGHBOURS)
def _view_neighbours(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    degree = slot(builder, view.context, "degree")
    first = slot(builder, view.context, "neighbours", I64.as_pointer())
    mine = builder.gep(first, [builder.mul(view.node, degree)])
    return _array(context, builder, _NEIGHBOURS, mine, (degree,))


@_attribute(ViewType, "random", lambda view: RandomType(view.program))
def _view_random(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return value


@_attribute(ViewType, "waiting", types.int64)
def _view_waiting(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return call_core(context, builder, view.context, "waiting", I64, view.node)


@_attribute(ViewType, "tasks", types.int64)
def _view_tasks(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return call_core(context, builder, view.context, "here", I64, view.node)


@_attribute(ViewType, "work", types.float64)
def _view_work(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return call_core(context, builder, view.context, "work", F64, view.node)


_BOARD = types.Array(types.float64, 1, "C", readonly=True)


@_attribute(ViewType, "board", _BOARD)
def _view_board(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    first = call_core(context, builder, view.context, "board", F64.as_pointer(), view.node)
    return _array(context, builder, _BOARD, first, (slot(builder, view.context, "nodes"),))


_QUEUED = types.List(types.UniTuple(types.int64, 2))


@_attribute(ViewType, "queued", _QUEUED)
def _view_queued(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    nothing = ir.Constant(I64.as_pointer(), None)
    count = call_core(context, builder, view.context, "queued", I64, view.node, nothing)
    made = listobj.ListInstance.allocate(context, builder, _QUEUED, count)
    made.size = count
    # the entries are two numbers each, as the core writes them
    rows = builder.bitcast(made._gep(ir.Constant(I64, 0)), I64.as_pointer())
    call_core(context, builder, view.context, "queued", I64, view.node, rows)
    return made.value


@_attribute(ApplicationType, "number", types.int64)
def _application_number(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return member(context, builder, type_, value, "number")


def _application_column(name: str, of: Any, as_: Any) -> None:
    @_attribute(ApplicationType, name, of)
    def load(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        application = cgutils.create_struct_proxy(type_)(context, builder, value=value)
        return word(builder, slot(builder, application.context, name, PTR), application.number, as_)


_application_column("tasks", types.int64, I64)
for _name in ("task_size", "size", "release"):
    _application_column(_name, types.float64, F64)


class _Attributes(templates.AttributeTemplate):
    """Attributes and methods from the tables of this module."""

    def generic_resolve(self, value: Any, attr: str) -> Any:
        if attr in _ATTRIBUTES.get(type(value), {}):
            return _ATTRIBUTES[type(value)][attr][0](value)
        if attr in METHODS.get(type(value), {}):
            return types.BoundFunction(METHODS[type(value)][attr], value)
        what = f"{_WHAT[type(value)][0]}.{attr}"
        if hasattr(_WHAT[type(value)][1], attr):
            raise NotCompiled(f"{what} is for nodes that run interpreted only")
        known = sorted({*_ATTRIBUTES.get(type(value), {}), *METHODS.get(type(value), {})})
        raise NotCompiled(f"there is no {what}; {listed(known, attr)}")


#: What a type stands for: the names in errors, and the class of interpreted nodes.
_WHAT = {
    ViewType: ("view", View),
    RandomType: ("view.random", RandomStream),
    ApplicationType: ("application", Application),
}


def _load_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    return _ATTRIBUTES[type(type_)][attr][1](context, builder, type_, value)


for _type in _WHAT:
    templates.infer_getattr(type(f"_{_type.__name__}Attributes", (_Attributes,), {"key": _type}))
    imputils.lower_getattr_generic(_type)(_load_attribute)


# -- the node itself: its state, its parameters, its other methods -------------------------------------------


@templates.infer_getattr
class _NodeAttributes(templates.AttributeTemplate):
    key = NodeType

    def generic_resolve(self, node: Any, attr: str) -> Any:
        program = node.program
        if attr == "parameters":
            return ParametersType(program)
        if attr in (program.state.names or ()):
            return field_type(program.state, attr)
        found = inspect.getattr_static(program.policy, attr, None)
        if isinstance(found, property):
            return program.call_type(self.context, attr, (node,), {}).return_type
        if isinstance(found, (staticmethod, classmethod)):
            raise NotCompiled(f"self.{attr} is a {type(found).__name__}; write it as a method, with self")
        if isinstance(found, _CONSTANTS):
            return types.literal(found) if isinstance(found, int) else _constant(attr, found)
        if not inspect.isfunction(found):
            methods = [
                name for name, _ in inspect.getmembers(program.policy, inspect.isfunction) if name[:2] != "__"
            ]
            state = list(program.state.names or ())
            raise NotCompiled(
                f"self.{attr} is neither a method nor a number, truth value or array that __init__ sets; "
                f"{closest([*state, *methods], attr)}of these there are: {', '.join(state) or 'none'}"
            )

        class Template(templates.AbstractTemplate):
            key = ("gridsim node", attr)

            def generic(self, args: Any, kws: Any) -> Any:
                return program.call_type(self.context, attr, (node, *args), kws).as_method()

        _lower_method(attr)
        return types.BoundFunction(Template, node)


def field_type(record: np.dtype[Any], name: str) -> Any:
    """Return the type of a field of a record: that of a number, or of an array."""
    field_ = record[name]
    kind = from_dtype(field_.base)
    return types.Array(kind, field_.ndim, "C") if field_.ndim else kind


_lowered: set[str] = set()


def _lower_method(attr: str) -> None:
    """Register that a node may have a method of this name; which one it is the type of the node says."""
    if attr in _lowered:
        return
    _lowered.add(attr)

    @lower_builtin(("gridsim node", attr), NodeType, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call_function(context, builder, sig.args[0].program.function(attr), sig, args)


def _call_function(context: Any, builder: Any, function: Any, sig: Any, args: Any) -> Any:
    call = context.get_function(types.Dispatcher(function), sig)
    result = call(builder, args)
    for library in getattr(call, "libs", ()):
        context.active_code_library.add_linking_library(library)
    return imputils.impl_ret_new_ref(context, builder, sig.return_type, result)


@imputils.lower_getattr_generic(NodeType)
def _node_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    node = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    program = type_.program
    if attr == "parameters":
        return made(context, builder, ParametersType(program), parameters=node.parameters)
    if attr in (program.state.names or ()):
        return _load(context, builder, program.state, node.state, attr)
    found = inspect.getattr_static(program.policy, attr)
    if isinstance(found, property):
        function = program.function(attr)
        sig = program.call_type(context.typing_context, attr, (type_,), {})
        return _call_function(context, builder, function, sig, [value])
    kind = types.literal(found) if isinstance(found, int) else _constant(attr, found)
    return context.get_constant_generic(builder, kind, found)


#: What a class may have for all its nodes.
_CONSTANTS = (bool, int, float, str, tuple)


def _constant(attr: str, value: Any) -> Any:
    try:
        return typeof(value)
    except ValueError:
        raise NotCompiled(
            f"self.{attr} is {value!r}; a compiled class has numbers, text, and tuples of these"
        ) from None


def _address(context: Any, builder: Any, record: np.dtype[Any], pointer: Any, name: str) -> Any:
    """Return where a field of the record at `pointer` is."""
    kind, offset = dict(record.fields or {})[name][:2]
    at = builder.gep(builder.bitcast(pointer, PTR), [ir.Constant(I64, offset)])
    return builder.bitcast(at, context.get_data_type(from_dtype(kind.base)).as_pointer())


def _load(context: Any, builder: Any, record: np.dtype[Any], pointer: Any, name: str) -> Any:
    at, type_ = _address(context, builder, record, pointer, name), field_type(record, name)
    if not isinstance(type_, types.Array):
        return context.unpack_value(builder, type_, at)
    return _array(context, builder, type_, at, record[name].shape)


@imputils.lower_setattr_generic(NodeType)
def _set_node_attribute(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> Any:
    type_, given = sig.args
    node, record = cgutils.create_struct_proxy(type_)(context, builder, value=args[0]), type_.program.state
    wanted = field_type(record, attr)
    value = context.cast(builder, args[1], given, wanted)
    context.pack_value(builder, wanted, value, _address(context, builder, record, node.state, attr))


@templates.infer_getattr
class _ParametersAttributes(templates.AttributeTemplate):
    key = ParametersType

    def generic_resolve(self, parameters: Any, attr: str) -> Any:
        program = parameters.program
        if attr in (program.parameters.names or ()):
            return field_type(program.parameters, attr)
        if attr in program.words:
            word = program.words[attr]
            return types.none if word is None else WordType((word,))
        known = listed([*(program.parameters.names or ()), *program.words], attr)
        raise NotCompiled(f"self.parameters.{attr} is no number, truth value or text; {known}")


@imputils.lower_getattr_generic(ParametersType)
def _parameter(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    program = type_.program
    if attr in program.words:
        return ir.Constant(I64, 0) if program.words[attr] is not None else context.get_dummy_value()
    pointer = member(context, builder, type_, value, "parameters")
    return _load(context, builder, program.parameters, pointer, attr)


# -- messages ------------------------------------------------------------------------------------------------


@templates.infer_getattr
class _MessageAttributes(templates.AttributeTemplate):
    key = MessageType

    def generic_resolve(self, message: Any, attr: str) -> Any:
        if attr == "sender":
            return types.int64
        if attr == "kind":
            return WordType(message.more)
        found = {kind: fields[attr] for kind, fields in message.program.kinds.items()
                 if kind in message.more and attr in fields}  # fmt: skip
        if not found:
            fields = {name for kind in message.more for name in message.program.kinds[kind]}
            known = listed(["kind", "sender", *sorted(fields)], attr)
            raise NotCompiled(f"message.{attr}: no message that comes here has such a field; {known}")
        if len(set(found.values())) > 1:
            raise NotCompiled(
                f"message.{attr} is an int in one kind and a float in another; call it differently"
            )
        return types.float64 if float in found.values() else types.int64


@imputils.lower_getattr_generic(MessageType)
def _message_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    message = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    if attr == "sender":
        return word(builder, message.row, 1)
    if attr == "kind":
        return message.kind
    program, index = type_.program, ir.Constant(I64, -1)
    for k, kind in enumerate(type_.more):
        fields = program.kinds[kind]
        if attr in fields:
            at = ir.Constant(I64, 2 + list(fields).index(attr))
            index = builder.select(builder.icmp_signed("==", message.kind, ir.Constant(I64, k)), at, index)
    with cgutils.if_unlikely(builder, builder.icmp_signed("<", index, ir.Constant(I64, 0))):
        context.call_conv.return_user_exc(builder, AttributeError, (f"message has no field {attr!r}",))
    real = any(program.kinds[kind].get(attr) is float for kind in type_.more)
    return word(builder, message.row, index, F64 if real else I64)


# -- words: kinds of messages, names of timers, parameters that are text -------------------------------------


def _words(op: Any, wanted: str) -> None:
    @templates.infer_global(op)
    class Compare(templates.AbstractTemplate):
        prefer_literal = True

        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and any(isinstance(each, WordType) for each in args):
                if all(isinstance(each, (WordType, types.StringLiteral)) for each in args):
                    return signature(types.boolean, *args)
                raise NotCompiled("such a name can be compared with text that is written there only")
            return None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (a, b), (x, y) = sig.args, args
        if isinstance(a, types.StringLiteral):
            a, b, x, y = b, a, y, x
        if isinstance(b, WordType):
            if a.words != b.words:
                raise NotCompiled("names of different kinds of things are compared")
        else:
            at = a.words.index(b.literal_value) if b.literal_value in a.words else -1
            y = ir.Constant(I64, at)
        return builder.icmp_signed(wanted, x, y)

    lower_builtin(op, WordType, types.StringLiteral)(lower)
    lower_builtin(op, types.StringLiteral, WordType)(lower)
    lower_builtin(op, WordType, WordType)(lower)


_words(operator.eq, "==")
_words(operator.ne, "!=")
