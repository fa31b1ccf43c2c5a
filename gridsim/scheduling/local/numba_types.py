"""What node programs are made of, as Numba sees it: the node, its view, messages, applications and words.

Each type says which attributes and methods it has and how they are lowered to loads from the state of the node,
the record of the message or the `Context` of the message core, and to calls of functions of that core
(`gridcore.nodes.message_core.CONTEXT`).  Nothing here is specific to one program: a type carries a `Program`.

Only `gridsim.scheduling.local.compiled` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.core import cgutils, imputils
from numba.core import ir as numba_ir
from numba.core.datamodel import models
from numba.core.typing import signature, templates
from numba.extending import intrinsic, lower_builtin, register_model
from numba.np import arrayobj

from gridcore.nodes.message_core import CONTEXT

__all__ = ["NotCompiled", "Program", "entry"]

_I64, _F64, _I32 = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
_PTR = ir.IntType(8).as_pointer()


class NotCompiled(Exception):
    """Something in a program that cannot be compiled, and what to write instead.

    at : file and line, where they are known.
    """

    at: tuple[str, int] | None = None


@dataclass(eq=False)
class Program:
    """What the types need to know of one node program: its class, state, messages, parameters and names."""

    policy: type
    state: np.dtype[Any]
    parameters: np.dtype[Any]
    words: dict[str, str | None]  # parameters that are no numbers
    kinds: dict[str, dict[str, type]]
    numbers: dict[str, int]  # of the kinds
    about: frozenset[str]  # kinds with an application, which the core checks
    timers: tuple[str, ...]
    tables: dict[str, dict[str, type]]
    actions: tuple[str, ...]
    functions: dict[Any, Any] = field(default_factory=dict)

    def check_assignments(self) -> None:
        """Raise NotCompiled where a handler assigns what the attribute cannot hold, and would be cut off."""
        for function in self.functions.values():
            for compiled in function.overloads.values():
                annotation = compiled.type_annotation
                for block in annotation.blocks.values():
                    for done in block.find_insts(numba_ir.SetAttr):
                        if isinstance(annotation.typemap[done.target.name], NodeType):
                            self._check_assigned(done.attr, annotation.typemap[done.value.name], done.loc)

    def _check_assigned(self, name: str, given: Any, loc: Any) -> None:
        wanted = _record(self.state).typeof(name)
        if isinstance(wanted, types.Integer):
            fits = isinstance(given, (types.Integer, types.Boolean))
        elif isinstance(wanted, types.Boolean):
            fits = isinstance(given, types.Boolean)
        else:
            fits = isinstance(given, (types.Integer, types.Boolean, types.Float))
        if not fits:
            kind = {"int64": "an int", "boolean": "a bool"}.get(str(wanted), "a float")
            problem = NotCompiled(f"self.{name} is {kind} where __init__ sets it, and gets {_said(given)} here")
            problem.at = loc.filename, loc.line
            raise problem

    def function(self, name: str) -> Any:
        """Return the method or property of the class as a function that Numba compiles where it is called."""
        found = inspect.getattr_static(self.policy, name)
        found = found.fget if isinstance(found, property) else found
        if isinstance(found, staticmethod):
            raise NotCompiled(f"{name} is a staticmethod; make it a function of the module")
        if found not in self.functions:
            self.functions[found] = njit(boundscheck=True)(found)
        return self.functions[found]


# -- the types -------------------------------------------------------------------------------------------------


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
    class Model(models.StructModel):  # type: ignore[misc]
        def __init__(self, manager: Any, fe_type: Any) -> None:
            super().__init__(manager, fe_type, list(members))


_model(NodeType, ("state", types.voidptr), ("parameters", types.voidptr))
_model(ParametersType, ("parameters", types.voidptr))
_model(ViewType, ("context", types.voidptr), ("node", types.int64))
_model(RandomType, ("context", types.voidptr), ("node", types.int64))
_model(ApplicationType, ("context", types.voidptr), ("number", types.int64))
_model(MessageType, ("row", types.voidptr), ("kind", types.int64))


@register_model(WordType)
class _WordModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _I64)


# -- loads and calls -------------------------------------------------------------------------------------------


def _member(context: Any, builder: Any, type_: Any, value: Any, name: str) -> Any:
    return getattr(cgutils.create_struct_proxy(type_)(context, builder, value=value), name)


def _made(target: Any, builder: Any, type_: Any, /, **members: Any) -> Any:
    made = cgutils.create_struct_proxy(type_)(target, builder)
    for name, value in members.items():
        setattr(made, name, value)
    return made._getvalue()


def _word(builder: Any, pointer: Any, index: Any, as_: Any = _I64) -> Any:
    """Load the 64-bit word `index` that `pointer` points to."""
    index = ir.Constant(_I64, index) if isinstance(index, int) else index
    return builder.load(builder.gep(builder.bitcast(pointer, as_.as_pointer()), [index]))


def _slot(builder: Any, context_pointer: Any, name: str, as_: Any = _I64) -> Any:
    """Load a field of the context of the core."""
    return _word(builder, context_pointer, CONTEXT.index(name), as_)


def _call(context: Any, builder: Any, pointer: Any, name: str, result: Any, *args: Any) -> Any:
    """Call a function of the core, with the core before `args`; what it raises ends the handler."""
    kind = ir.FunctionType(result, [_PTR, *(each.type for each in args)])
    function = _slot(builder, pointer, name, kind.as_pointer())
    found = builder.call(function, [_slot(builder, pointer, "core", _PTR), *args])
    if isinstance(result, ir.PointerType):
        failed = cgutils.is_null(builder, found)
    elif isinstance(result, ir.DoubleType):
        failed = builder.fcmp_ordered("==", found, ir.Constant(result, -1.0))
    else:
        failed = builder.icmp_signed("==", found, ir.Constant(result, -1))
    with cgutils.if_unlikely(builder, failed):
        context.call_conv.return_exc(builder)
    return found


def _array(context: Any, builder: Any, type_: Any, pointer: Any, count: Any) -> Any:
    """An array of one dimension over memory of the core."""
    made = arrayobj.make_array(type_)(context, builder)
    size = context.get_constant(types.intp, 8)
    arrayobj.populate_array(
        made,
        data=builder.bitcast(pointer, context.get_data_type(type_.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, [count]),
        strides=cgutils.pack_array(builder, [size]),
        itemsize=size,
        meminfo=None,
        parent=None,
    )
    return made._getvalue()


# -- attributes ------------------------------------------------------------------------------------------------

#: type -> name -> (type of the attribute, how to load it)
_ATTRIBUTES: dict[type, dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]]] = {}
_METHODS: dict[type, dict[str, Any]] = {}


def _attribute(type_: type, name: str, of: Any) -> Callable[[Any], Any]:
    def register(load: Any) -> Any:
        _ATTRIBUTES.setdefault(type_, {})[name] = (lambda _: of) if isinstance(of, types.Type) else of, load
        return load

    return register


@_attribute(ViewType, "node", types.int64)
def _view_node(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return _member(context, builder, type_, value, "node")


@_attribute(ViewType, "now", types.float64)
def _view_now(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    at = _slot(builder, _member(context, builder, type_, value, "context"), "now", _I64.as_pointer())
    return builder.fdiv(builder.sitofp(builder.load(at), _F64), ir.Constant(_F64, 1e9))


@_attribute(ViewType, "machines", types.int64)
def _view_machines(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return _slot(builder, _member(context, builder, type_, value, "context"), "nodes")


@_attribute(ViewType, "speed", types.float64)
def _view_speed(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return _word(builder, _slot(builder, view.context, "speed", _PTR), view.node, _F64)


_NEIGHBOURS = types.Array(types.int64, 1, "C", readonly=True)


@_attribute(ViewType, "neighbours", _NEIGHBOURS)
def _view_neighbours(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    degree = _slot(builder, view.context, "degree")
    first = _slot(builder, view.context, "neighbours", _I64.as_pointer())
    mine = builder.gep(first, [builder.mul(view.node, degree)])
    return _array(context, builder, _NEIGHBOURS, mine, degree)


@_attribute(ViewType, "random", lambda view: RandomType(view.program))
def _view_random(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return value


@_attribute(ViewType, "waiting", types.int64)
def _view_waiting(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return _call(context, builder, view.context, "waiting", _I64, view.node)


@_attribute(ViewType, "work", types.float64)
def _view_work(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return _call(context, builder, view.context, "work", _F64, view.node)


@_attribute(ApplicationType, "number", types.int64)
def _application_number(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return _member(context, builder, type_, value, "number")


def _application_column(name: str, of: Any, as_: Any) -> None:
    @_attribute(ApplicationType, name, of)
    def load(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        application = cgutils.create_struct_proxy(type_)(context, builder, value=value)
        return _word(builder, _slot(builder, application.context, name, _PTR), application.number, as_)


_application_column("tasks", types.int64, _I64)
for _name in ("task_size", "size", "release"):
    _application_column(_name, types.float64, _F64)


class _Attributes(templates.AttributeTemplate):
    """Attributes and methods from the tables of this module."""

    def generic_resolve(self, value: Any, attr: str) -> Any:
        if attr in _ATTRIBUTES.get(type(value), {}):
            return _ATTRIBUTES[type(value)][attr][0](value)
        if attr in _METHODS.get(type(value), {}):
            return types.BoundFunction(_METHODS[type(value)][attr], value)
        known = sorted({*_ATTRIBUTES.get(type(value), {}), *_METHODS.get(type(value), {})})
        raise NotCompiled(f"{_WHAT[type(value)]}.{attr} is not compiled; there are {', '.join(known)}")


_WHAT = {ViewType: "view", RandomType: "view.random", ApplicationType: "application"}


def _load_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    return _ATTRIBUTES[type(type_)][attr][1](context, builder, type_, value)


for _type in _WHAT:
    templates.infer_getattr(type(f"_{_type.__name__}Attributes", (_Attributes,), {"key": _type}))
    imputils.lower_getattr_generic(_type)(_load_attribute)


# -- the node itself: its state, its parameters, its other methods ------------------------------------------------


@templates.infer_getattr
class _NodeAttributes(templates.AttributeTemplate):  # type: ignore[misc]
    key = NodeType

    def generic_resolve(self, node: Any, attr: str) -> Any:
        program = node.program
        if attr == "parameters":
            return ParametersType(program)
        if attr in (program.state.names or ()):
            return _record(program.state).typeof(attr)
        found = inspect.getattr_static(program.policy, attr, None)
        if isinstance(found, property):
            disp = types.Dispatcher(program.function(attr))
            return disp.get_call_type(self.context, (node,), {}).return_type
        if isinstance(found, (bool, int, float)):
            return types.literal(found) if isinstance(found, int) else types.float64
        if not inspect.isfunction(found):
            known = ", ".join(program.state.names or ()) or "none"
            raise NotCompiled(
                f"self.{attr} is neither a method nor a number, truth value or array that __init__ sets; of these "
                f"there are: {known}"
            )
        method = types.Dispatcher(program.function(attr))

        class Template(templates.AbstractTemplate):  # type: ignore[misc]
            key = ("gridsim node", attr)

            def generic(self, args: Any, kws: Any) -> Any:
                return method.get_call_type(self.context, (node, *args), kws).as_method()

        _lower_method(attr)
        return types.BoundFunction(Template, node)


def _record(dtype: np.dtype[Any]) -> Any:
    return from_dtype(dtype)


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
        return _made(context, builder, ParametersType(program), parameters=node.parameters)
    if attr in (program.state.names or ()):
        return _load(context, builder, _record(program.state), node.state, attr)
    found = inspect.getattr_static(program.policy, attr)
    if isinstance(found, property):
        function = program.function(attr)
        sig = types.Dispatcher(function).get_call_type(context.typing_context, (type_,), {})
        return _call_function(context, builder, function, sig, [value])
    kind = types.literal(found) if isinstance(found, int) else types.float64
    return context.get_constant_generic(builder, kind, found)


def _load(context: Any, builder: Any, record: Any, pointer: Any, name: str) -> Any:
    pointer = builder.bitcast(pointer, context.get_value_type(record))
    return arrayobj.record_getattr(context, builder, record, pointer, name)


@imputils.lower_setattr_generic(NodeType)
def _set_node_attribute(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> Any:
    type_, given = sig.args
    node = cgutils.create_struct_proxy(type_)(context, builder, value=args[0])
    record = _record(type_.program.state)
    pointer = builder.bitcast(node.state, context.get_value_type(record))
    wanted = signature(types.none, record, given)
    if isinstance(record.typeof(attr), types.NestedArray):
        raise NotCompiled(f"self.{attr} is an array, of which only elements can be assigned: self.{attr}[:] = ...")
    arrayobj.record_setattr(context, builder, wanted, (pointer, args[1]), attr)


@templates.infer_getattr
class _ParametersAttributes(templates.AttributeTemplate):  # type: ignore[misc]
    key = ParametersType

    def generic_resolve(self, parameters: Any, attr: str) -> Any:
        program = parameters.program
        if attr in (program.parameters.names or ()):
            return _record(program.parameters).typeof(attr)
        if attr in program.words:
            word = program.words[attr]
            return types.none if word is None else WordType((word,))
        known = ", ".join([*(program.parameters.names or ()), *program.words])
        raise NotCompiled(
            f"self.parameters.{attr} is no number, truth value or text; of these there are {known}"
        )


@imputils.lower_getattr_generic(ParametersType)
def _parameter(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    program = type_.program
    if attr in program.words:
        return ir.Constant(_I64, 0) if program.words[attr] is not None else context.get_dummy_value()
    pointer = _member(context, builder, type_, value, "parameters")
    return _load(context, builder, _record(program.parameters), pointer, attr)


# -- messages ----------------------------------------------------------------------------------------------------


@templates.infer_getattr
class _MessageAttributes(templates.AttributeTemplate):  # type: ignore[misc]
    key = MessageType

    def generic_resolve(self, message: Any, attr: str) -> Any:
        if attr == "sender":
            return types.int64
        if attr == "kind":
            return WordType(message.more)
        found = {kind: fields[attr] for kind, fields in message.program.kinds.items()
                 if kind in message.more and attr in fields}  # fmt: skip
        if not found:
            raise NotCompiled(f"message.{attr}: no message that comes here has such a field")
        if len(set(found.values())) > 1:
            raise NotCompiled(f"message.{attr} is an int in one kind and a float in another; call it differently")
        return types.float64 if float in found.values() else types.int64


@imputils.lower_getattr_generic(MessageType)
def _message_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    message = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    if attr == "sender":
        return _word(builder, message.row, 1)
    if attr == "kind":
        return message.kind
    program, index = type_.program, ir.Constant(_I64, -1)
    for k, kind in enumerate(type_.more):
        fields = program.kinds[kind]
        if attr in fields:
            at = ir.Constant(_I64, 2 + list(fields).index(attr))
            index = builder.select(builder.icmp_signed("==", message.kind, ir.Constant(_I64, k)), at, index)
    with cgutils.if_unlikely(builder, builder.icmp_signed("<", index, ir.Constant(_I64, 0))):
        context.call_conv.return_user_exc(builder, AttributeError, (f"message has no field {attr!r}",))
    real = any(program.kinds[kind].get(attr) is float for kind in type_.more)
    return _word(builder, message.row, index, _F64 if real else _I64)


# -- words: kinds of messages, names of timers, parameters that are text ------------------------------------------


def _words(op: Any, wanted: str) -> None:
    @templates.infer_global(op)
    class Compare(templates.AbstractTemplate):  # type: ignore[misc]
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
            y = ir.Constant(_I64, at)
        return builder.icmp_signed(wanted, x, y)

    lower_builtin(op, WordType, types.StringLiteral)(lower)
    lower_builtin(op, types.StringLiteral, WordType)(lower)
    lower_builtin(op, WordType, WordType)(lower)


_words(operator.eq, "==")
_words(operator.ne, "!=")


# -- methods of the view ------------------------------------------------------------------------------------------


def _method(type_: type, name: str) -> Callable[[Any], Any]:
    """Register a method: a class with ``typed(of, args, kws)`` and ``lowered(...)``."""

    def register(what: Any) -> Any:
        class Template(templates.AbstractTemplate):  # type: ignore[misc]
            key = ("gridsim", type_, name)
            prefer_literal = True

            def generic(self, args: Any, kws: Any) -> Any:
                result, wanted, parameters = what.typed(self.this, args, kws)
                pysig = inspect.Signature(parameters)
                return signature(result, *wanted, recvr=self.this).replace(pysig=pysig)

        _METHODS.setdefault(type_, {})[name] = Template

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
        if name not in names or name in found:
            raise NotCompiled(f"{what} has no argument {name!r}; it takes {', '.join(names) or 'none'}")
        found[name] = type_
    missing = [name for name in names if name not in found and name not in optional]
    if missing:
        raise NotCompiled(f"{what} lacks {', '.join(missing)}")
    return {name: found[name] for name in names if name in found}


def _literal(what: str, type_: Any, known: Any) -> str:
    if not isinstance(type_, types.StringLiteral):
        raise NotCompiled(f"{what} must be written there as text, not be computed; there are {', '.join(known) or 'none'}")
    if type_.literal_value not in known:
        raise NotCompiled(f"{what} {type_.literal_value!r} is unknown; there are {', '.join(known) or 'none'}")
    return str(type_.literal_value)


def _number(what: str, kind: type, type_: Any) -> Any:
    """Return the type that a number is passed as."""
    if isinstance(type_, types.Optional):
        raise NotCompiled(f"{what} may be None here; use a number such as -1 instead")
    if kind is int and not isinstance(type_, (types.Integer, types.Boolean)):
        raise NotCompiled(f"{what} must be a whole number, got {_said(type_)}{'; int(...) makes one' if isinstance(type_, types.Float) else ''}")
    if not isinstance(type_, (types.Integer, types.Boolean, types.Float)):
        raise NotCompiled(f"{what} must be a number, got {_said(type_)}")
    return types.int64 if kind is int else types.float64


def _said(type_: Any) -> str:
    if isinstance(type_, ApplicationType):
        return "an application, which has a .number"
    return "a fraction" if isinstance(type_, types.Float) else str(type_)


def _store(context: Any, builder: Any, row: Any, at: int, value: Any) -> None:
    target = builder.bitcast(row, value.type.as_pointer())
    builder.store(value, builder.gep(target, [ir.Constant(_I64, at)]))


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
        number = ir.Constant(_I64, view.program.numbers[kind])
        row = _call(context, builder, at.context, "send", _I64.as_pointer(), at.node, number, args[0])
        for k, field_ in enumerate(args[2:]):
            _store(context, builder, row, k, field_)
        if kind in view.program.about:
            _call(context, builder, at.context, "sent", _I32, at.node, number, row)
        return context.get_dummy_value()


@_method(ViewType, "enqueue")
class _Enqueue:
    @staticmethod
    def typed(view: Any, args: Any, kws: Any) -> Any:
        found = _bound("view.enqueue", ("application", "tasks"), args, kws)
        wanted = [_number(f"{name} of view.enqueue", int, each) for name, each in found.items()]
        return types.none, wanted, _parameter_list(found)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        _call(context, builder, at.context, "enqueue", _I32, at.node, *args)
        return context.get_dummy_value()


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
        _call(context, builder, at.context, "heard", _I32, at.node, args[0])
        made = ApplicationType(view.program)
        return _made(context, builder, made, context=at.context, number=args[0])


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
        name = ir.Constant(_I64, view.program.timers.index(types_[1].literal_value))
        _call(context, builder, at.context, "timer", _I32, at.node, name, args[0], args[2])
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
        name = ir.Constant(_I64, view.program.timers.index(types_[0].literal_value))
        _call(context, builder, at.context, "cancel", _I32, at.node, name)
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
        wanted = [_number(f"column {name!r} of {table!r}", kind, found[name]) for name, kind in columns.items()]
        return types.none, [args[0], *wanted], _parameter_list(names)

    @staticmethod
    def lowered(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(view)(context, builder, value=value)
        table = ir.Constant(_I64, list(view.program.tables).index(types_[0].literal_value))
        row = _row(builder, len(args) - 1)
        for k, each in enumerate(args[1:]):
            _store(context, builder, row, k, each)
        _call(context, builder, at.context, "note", _I32, at.node, table, row)
        return context.get_dummy_value()


def _row(builder: Any, words: int) -> Any:
    return builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_I64, max(1, words))), _I64.as_pointer())


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
        action = ir.Constant(_I64, view.program.actions.index(types_[0].literal_value))
        row = _row(builder, len(args) - 1)
        for k, each in enumerate(args[1:]):
            _store(context, builder, row, k, each)
        _call(context, builder, at.context, "decide", _I32, at.node, action, row)
        return context.get_dummy_value()


# -- random numbers -----------------------------------------------------------------------------------------------


def _draw(name: str, names: tuple[str, ...], defaults: dict[str, float], kind: int, scaled: Any) -> None:
    @_method(RandomType, name)
    class Draw:
        @staticmethod
        def typed(random: Any, args: Any, kws: Any) -> Any:
            if "size" in kws or len(args) > len(names):
                raise NotCompiled(f"view.random.{name} draws one number where it is compiled; use a loop for more")
            found = _bound(f"view.random.{name}", names, args, kws, optional=defaults)
            for each, type_ in found.items():
                _number(f"{each} of view.random.{name}", float, type_)
            return types.float64, [types.float64] * len(names), _parameter_list(names, defaults)

        @staticmethod
        def lowered(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
            at = cgutils.create_struct_proxy(random)(context, builder, value=value)
            out = cgutils.alloca_once(builder, _F64)
            factor, shift = scaled(builder, *args)
            number = ir.Constant(_I64, kind)
            _call(context, builder, at.context, "draw", _I32, at.node, number, factor, shift, out)
            return builder.load(out)


_ONE, _ZERO = ir.Constant(_F64, 1.0), ir.Constant(_F64, 0.0)
_draw("random", (), {}, 0, lambda builder: (_ONE, _ZERO))
_draw("uniform", ("low", "high"), {"low": 0.0, "high": 1.0}, 0, lambda b, low, high: (b.fsub(high, low), low))
_draw("exponential", ("scale",), {"scale": 1.0}, 1, lambda builder, scale: (scale, _ZERO))
_draw("normal", ("loc", "scale"), {"loc": 0.0, "scale": 1.0}, 2, lambda builder, loc, scale: (scale, loc))


def _integer(context: Any, builder: Any, random: Any, value: Any, low: Any, high: Any) -> Any:
    at = cgutils.create_struct_proxy(random)(context, builder, value=value)
    out = cgutils.alloca_once(builder, _I64)
    _call(context, builder, at.context, "integer", _I32, at.node, low, high, out)
    return builder.load(out)


@_method(RandomType, "integers")
class _Integers:
    @staticmethod
    def typed(random: Any, args: Any, kws: Any) -> Any:
        if "size" in kws or len(args) > 2:
            raise NotCompiled("view.random.integers draws one number where it is compiled; use a loop for more")
        found = _bound("view.random.integers", ("low", "high"), args, kws, optional=("high",))
        wanted = [_number(f"{name} of view.random.integers", int, each) for name, each in found.items()]
        return types.int64, wanted, _parameter_list(found)

    @staticmethod
    def lowered(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        low, high = args if len(args) == 2 else (ir.Constant(_I64, 0), args[0])
        return _integer(context, builder, random, value, low, high)


@_method(RandomType, "choice")
class _Choice:
    @staticmethod
    def typed(random: Any, args: Any, kws: Any) -> Any:
        if kws or len(args) != 1:
            raise NotCompiled("view.random.choice chooses one where it is compiled; use a loop for more")
        if isinstance(args[0], (types.Integer, types.Array)) and getattr(args[0], "ndim", 1) == 1:
            wanted = types.int64 if isinstance(args[0], types.Integer) else args[0]
            result = types.int64 if isinstance(args[0], types.Integer) else args[0].dtype
            return result, [wanted], _parameter_list(("a",))
        raise NotCompiled("view.random.choice chooses from a number or an array where it is compiled")

    @staticmethod
    def lowered(context: Any, builder: Any, random: Any, value: Any, types_: Any, args: Any) -> Any:
        zero = ir.Constant(_I64, 0)
        if isinstance(types_[0], types.Integer):
            return _integer(context, builder, random, value, zero, args[0])
        array = arrayobj.make_array(types_[0])(context, builder, args[0])
        count = cgutils.unpack_tuple(builder, array.shape, 1)[0]
        which = _integer(context, builder, random, value, zero, count)
        at = cgutils.get_item_pointer(context, builder, types_[0], array, [which])
        return context.unpack_value(builder, types_[0].dtype, at)


# -- where the core comes in ----------------------------------------------------------------------------------------


def entry(program: Program, method: str, kind: tuple[Any, ...]) -> Any:
    """Compile a method, and return an intrinsic (context, node, given, state) -> 0, or -1 where the handler has raised.

    kind : what the core calls it for: ``("message", kinds, number among them)``, ``("release",)``,
        ``("timer", with value)`` or ``("event",)``.
    """
    function, node, view = program.function(method), NodeType(program), ViewType(program)
    more: list[Any] = []
    if kind[0] == "message":
        more = [MessageType(program, *kind[1])]
    elif kind[0] == "release":
        more = [ApplicationType(program), types.int64]
    elif kind[0] == "timer":
        more = [WordType(program.timers)] + [types.float64] * kind[1]
    function.compile((node, view, *more))

    @intrinsic
    def enter(typing: Any, context: Any, number: Any, given: Any, state: Any) -> Any:
        dispatcher = types.Dispatcher(function)
        inner = dispatcher.get_call_type(typing, (node, view, *more), {})

        def codegen(target: Any, builder: Any, sig: Any, args: Any) -> Any:
            at, who, row, memory = args
            parameters = _slot(builder, at, "parameters", _PTR)
            values = [
                _made(target, builder, node, state=memory, parameters=parameters),
                _made(target, builder, view, context=at, node=who),
            ]
            if kind[0] == "message":
                which = ir.Constant(_I64, kind[2])
                values.append(_made(target, builder, more[0], row=row, kind=which))
            elif kind[0] == "release":
                values.append(_made(target, builder, more[0], context=at, number=_word(builder, row, 0)))
                values.append(_word(builder, row, 1))
            elif kind[0] == "timer":
                values.append(_word(builder, row, 0))
                if kind[1]:
                    values.append(_word(builder, row, 1, _F64))
            found = function.get_compile_result(inner)
            target.active_code_library.add_linking_library(found.library)
            status, _ = target.call_internal_no_propagate(builder, found.fndesc, inner, values)
            with cgutils.if_unlikely(builder, status.is_error):
                # The core holds the GIL, and goes on with what has been raised.
                target.call_conv.raise_error(builder, target.get_python_api(builder), status)
            return builder.select(status.is_error, ir.Constant(_I32, -1), ir.Constant(_I32, 0))

        return types.int32(types.voidptr, types.int64, types.voidptr, types.voidptr), codegen

    return enter

