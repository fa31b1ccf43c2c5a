"""The Numba types of the objects in node programs: the node, its view, messages, applications and names.

Each type defines its attributes and lowers them to loads from the state of the node, the record of the
message or the `Context` of the message core, and to calls of functions of that core
(`gridcore.nodes.compiled_calls.CONTEXT`).  The module is the same for all programs: a type has a `Program`
with everything that is specific to one.

Only `gridsim.scheduling.nodes.compiled` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, typeof, types
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    overload,
    register_model,
    typeof_impl,
)

from gridcore.common.names import closest, listed
from gridcore.nodes.compiled_calls import CONTEXT
from gridcore.nodes.containers import Container
from gridcore.nodes.node_memory import MemoryObject, NodeKernel
from gridcore.nodes.random_stream import RandomStream
from gridcore.nodes.shared_array import SharedArray
from gridcore.nodes.view import View
from gridsim.model.applications import Application
from gridsim.scheduling.nodes.compile_errors import NotCompiled, compilable_function
from gridsim.scheduling.nodes.numba_internals import (
    arrayobj,
    cgutils,
    impl_ret_new_ref,
    listobj,
    lower_constant,
    templates,
)
from gridsim.scheduling.nodes.program import NodeProgram
from gridsim.scheduling.nodes.rewrites import method_text, split_base_name
from gridsim.scheduling.nodes.slots import MachineSlots
from gridsim.scheduling.nodes.timers import Timer

__all__ = [
    "APPLICATIONS",
    "ApplicationType",
    "BoardType",
    "ContainerType",
    "F64",
    "I32",
    "I64",
    "KernelType",
    "METHODS",
    "MessageType",
    "NeighboursType",
    "NodeType",
    "PTR",
    "ParametersType",
    "Program",
    "RandomType",
    "RequestType",
    "SharedArrayType",
    "SlotsType",
    "ViewType",
    "NameType",
    "Names",
    "NamesType",
    "array_at",
    "attribute_type",
    "call_checked",
    "call_core",
    "call_function",
    "call_unchecked",
    "check_result",
    "define_attribute",
    "field_type",
    "load_applications",
    "load_slot",
    "load_word",
    "role_bounds",
    "struct_of",
    "type_text",
]

I64, F64, I32 = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
PTR = ir.IntType(8).as_pointer()


@dataclass(eq=False)
class Program:
    """Data of a node program for its Numba types: its class, state, parameters, messages and names.

    Parameters
    ----------
    policy
        The class of the nodes.
    state, parameters
        The records of a node's attributes and of the scheduler's parameters that are numbers.
    constants
        The scheduler's parameters that are strings, grids of summaries or None.
    objects
        Attribute of a node -> an object of the class of that attribute, with its columns or its type.
    kinds, numbers
        The fields and the number of each kind of message; local kinds have numbers of their own.
    local_kinds
        The names of the local kinds.
    sizes
        Kind -> function of its fields that returns the size of a message, bytes, if the size varies.
    answers
        Kind of request -> the kinds of its answers; both have the field ``request`` at the end.
    checked_kinds
        The kinds for which the core is called after their fields have been written.
    timers
        Name of a timer that the nodes may set -> its number and its declaration.
    timer_names
        The names of the timers and ticks that ``on_timer`` handles.
    tables, actions, roles
        The tables with their columns, the actions of decisions and the names of roles.
    role
        The role of the nodes; "" without roles.
    columns
        The names of the numbers on the board.
    pipeline
        The compiler of the methods, `gridsim.scheduling.nodes.numba_checks.CheckedCompiler`.
    open
        The methods that are being compiled, which must not call each other.
    functions
        The compiled methods.
    calls
        The number of method calls that have been lowered so far.
    """

    policy: type
    state: np.dtype[Any]
    parameters: np.dtype[Any]
    constants: dict[str, Any]
    objects: dict[str, MemoryObject]
    kinds: dict[str, dict[str, Any]]
    numbers: dict[str, int]
    local_kinds: frozenset[str]
    sizes: dict[str, Any]
    answers: dict[str, tuple[str, ...]]
    checked_kinds: frozenset[str]
    timers: dict[str, tuple[int, Timer]]
    timer_names: tuple[str, ...]
    tables: dict[str, dict[str, type]]
    actions: tuple[str, ...]
    roles: tuple[str, ...]
    role: str
    columns: tuple[str, ...]
    pipeline: Any
    open: list[str] = field(default_factory=list)
    functions: dict[Any, Any] = field(default_factory=dict)
    calls: int = 0

    def is_answer(self, kind: str) -> bool:
        """Return whether messages of `kind` answer requests."""
        return any(kind in answers for answers in self.answers.values())

    def sent_fields(self, kind: str) -> dict[str, Any]:
        """Return the fields of `kind` without ``request`` of a request or an answer."""
        fields = dict(self.kinds[kind])
        if kind in self.answers or self.is_answer(kind):
            del fields["request"]
        return fields

    def member(self, name: str) -> Any:
        """Return a method, property or class variable; None if there is none.

        A `name` from `gridsim.scheduling.nodes.rewrites.base_name` is that of a base class.
        """
        name, start = split_base_name(name)
        bases = self.policy.__mro__[start:]
        return next((vars(cls)[name] for cls in bases if name in vars(cls)), None)

    def function(self, name: str) -> Any:
        """Return a method or property of the class as a function that Numba compiles when it is called."""
        method = self.member(name)
        return self.jit(method.fget if isinstance(method, property) else method)

    def jit(self, function: Any) -> Any:
        """Return a version of `function` that Numba compiles when it is called."""
        if function not in self.functions:
            jit = njit(boundscheck=True, pipeline_class=self.pipeline)
            self.functions[function] = jit(compilable_function(function, self.policy, jit))
        return self.functions[function]

    def call_type(self, context: Any, name: str, args: Any, kws: Any) -> Any:
        """Compile a method or property for a call, and return the signature of the call."""
        if name in self.open:
            raise NotCompiled(
                f"{method_text(name)} is recursive, perhaps through other methods; write a loop"
            )
        function = self.function(name)
        try:
            inspect.signature(function.py_func).bind(*args, **kws)
        except TypeError as error:
            raise NotCompiled(f"{method_text(name)}{inspect.signature(function.py_func)}: {error}") from None
        self.open.append(name)
        try:
            return types.Dispatcher(function).get_call_type(context, args, kws)
        finally:
            self.open.pop()


# -- the types -----------------------------------------------------------------------------------------------


class _ProgramType(types.Type):
    def __init__(self, program: Program, *arguments: Any) -> None:
        self.program, self.arguments = program, arguments
        super().__init__(f"{type(self).__name__}({program.policy.__name__}@{id(program)}, {arguments})")


class NodeType(_ProgramType):
    """Numba type of ``self`` in a handler."""


class ParametersType(_ProgramType):
    """Numba type of ``self.parameters``."""


class ViewType(_ProgramType):
    """Numba type of ``view``."""


class BoardType(_ProgramType):
    """Numba type of ``view.board``."""


class RandomType(_ProgramType):
    """Numba type of ``view.random``."""


class SlotsType(_ProgramType):
    """Numba type of ``view.slots``."""


class ApplicationType(_ProgramType):
    """Numba type of the application in ``on_release`` and of ``view.application(number)``."""


class MessageType(_ProgramType):
    """Numba type of a message of one of the kinds in `arguments`."""


class Names(tuple[str, ...]):
    """Names that are known at compile time, used as the default of an argument."""


class NamesType(types.Type):
    """Numba type of `Names`; its values have no data."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(f"Names{names}")


class RequestType(_ProgramType):
    """Numba type of a request without an answer, of one of the kinds in `arguments`."""


class NameType(types.Type):
    """Numba type of one of several names, such as kinds of messages; its value is an index in them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(f"Name{names}")


def _model(type_: type, *members: tuple[str, Any]) -> None:
    @register_model(type_)
    class Model(models.StructModel):
        def __init__(self, manager: Any, fe_type: Any) -> None:
            super().__init__(manager, fe_type, list(members))


class ContainerType(types.Type):
    """Numba type of a container of a node; it depends on the class in `gridcore.nodes.containers` and on the
    columns.
    """

    def __init__(self, kind: type, names: tuple[str, ...], kinds: tuple[type, ...]) -> None:
        self.kind, self.names, self.kinds = kind, names, kinds
        columns = ", ".join(f"{name}={kind.__name__}" for name, kind in zip(names, kinds, strict=True))
        super().__init__(f"{kind.__name__}({columns})")


class KernelType(types.Type):
    """Numba type of a kernel in the memory of a node."""

    def __init__(self, kernel: NodeKernel) -> None:
        self.kind, self.methods = type(kernel), kernel.methods
        super().__init__(f"{self.kind.__module__}.{self.kind.__name__}")


class SharedArrayType(types.Type):
    """Numba type of a `SharedArray` of a node."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.values = types.Array(from_dtype(dtype), 1, "C", readonly=True)
        super().__init__(f"SharedArray({dtype})")


_model(NodeType, ("state", types.voidptr), ("context", types.voidptr))
for _memory_type in (ContainerType, KernelType, SharedArrayType):
    _model(_memory_type, ("context", types.voidptr), ("head", types.voidptr))
_model(ParametersType, ("parameters", types.voidptr))
_model(ViewType, ("context", types.voidptr), ("node", types.int64))
_model(BoardType, ("context", types.voidptr), ("node", types.int64))
_model(RandomType, ("context", types.voidptr), ("node", types.int64))
_model(SlotsType, ("context", types.voidptr), ("node", types.int64))
_model(ApplicationType, ("context", types.voidptr), ("number", types.int64))
_model(MessageType, ("row", types.voidptr), ("kind", types.int64))
_model(RequestType, ("row", types.voidptr), ("kind", types.int64))


@register_model(NameType)
class _NameModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, I64)


register_model(NamesType)(models.OpaqueModel)


@typeof_impl.register(Names)
def _typeof_names(value: Names, context: Any) -> NamesType:
    return NamesType(tuple(value))


@lower_constant(NamesType)
def _constant_names(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return context.get_dummy_value()


def type_text(type_: Any) -> str:
    if isinstance(type_, ApplicationType):
        return "an application, which has a .number"
    return "a fraction" if isinstance(type_, types.Float) else str(type_)


# -- loads and calls -----------------------------------------------------------------------------------------


def member(context: Any, builder: Any, type_: Any, value: Any, name: str) -> Any:
    return getattr(cgutils.create_struct_proxy(type_)(context, builder, value=value), name)


def struct_of(target: Any, builder: Any, type_: Any, /, **members: Any) -> Any:
    proxy = cgutils.create_struct_proxy(type_)(target, builder)
    for name, value in members.items():
        setattr(proxy, name, value)
    return proxy._getvalue()


def load_word(builder: Any, pointer: Any, index: Any, as_: Any = I64) -> Any:
    """Load the 64-bit word `index` that `pointer` points to."""
    return builder.load(builder.gep(builder.bitcast(pointer, as_.as_pointer()), [_constant_word(index)]))


def _constant_word(value: Any) -> Any:
    return ir.Constant(I64, value) if isinstance(value, int) else value


def load_slot(builder: Any, context_pointer: Any, name: str, as_: Any = I64) -> Any:
    """Load the field `name` of the context of the core."""
    return load_word(builder, context_pointer, CONTEXT.index(name), as_)


def set_error(context: Any, builder: Any, status: Any) -> None:
    """Set Python's error after a failed call with `status`, unless a function of the core has set it."""
    api = context.get_python_api(builder)
    with builder.if_then(cgutils.is_null(builder, api.err_occurred())):
        context.call_conv.raise_error(builder, api, status)


def call_core(context: Any, builder: Any, pointer: Any, name: str, result: Any, *args: Any) -> Any:
    """Call a function of the core with the core and `args`; if it raises, the handler ends."""
    return call_checked(
        context, builder, pointer, name, result, load_slot(builder, pointer, "core", PTR), *args
    )


def call_unchecked(builder: Any, pointer: Any, name: str, result: Any, *args: Any) -> Any:
    """Call a function of the context that raises no errors."""
    kind = ir.FunctionType(result, [each.type for each in args])
    return builder.call(load_slot(builder, pointer, name, kind.as_pointer()), args)


def call_checked(context: Any, builder: Any, pointer: Any, name: str, result: Any, *args: Any) -> Any:
    """Call a function of the context; if it raises, the handler ends."""
    return check_result(context, builder, call_unchecked(builder, pointer, name, result, *args))


def check_result(context: Any, builder: Any, value: Any) -> Any:
    """Return the result of a C function; if the function raised an error, the handler ends."""
    if isinstance(value.type, ir.PointerType):
        failed = cgutils.is_null(builder, value)
    elif isinstance(value.type, ir.DoubleType):
        failed = builder.fcmp_ordered("==", value, ir.Constant(value.type, -1.0))
    else:
        failed = builder.icmp_signed("==", value, ir.Constant(value.type, -1))
    with cgutils.if_unlikely(builder, failed):
        # Python's error is already set; this one only leads to the `except` or the end of the handler
        context.call_conv.return_user_exc(builder, Exception, ())
    return value


def array_at(context: Any, builder: Any, type_: Any, pointer: Any, shape: Any, owner: Any = None) -> Any:
    """Return an array over memory of the core.

    Parameters
    ----------
    shape
        The length of each dimension: numbers or LLVM values.
    owner
        The object with the memory, if arrays in messages may share it.
    """
    array = arrayobj.make_array(type_)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(type_.dtype))
    strides = [_constant_word(size)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], _constant_word(length)))
    arrayobj.populate_array(
        array,
        data=builder.bitcast(pointer, context.get_data_type(type_.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, [_constant_word(each) for each in shape]),
        strides=cgutils.pack_array(builder, strides),
        itemsize=_constant_word(size),
        meminfo=None,
        parent=owner,
    )
    return array._getvalue()


# -- attributes ----------------------------------------------------------------------------------------------

#: type -> attribute -> (function that returns its type, function that loads it)
_ATTRIBUTES: dict[type, dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]]] = {}
METHODS: dict[type, dict[str, Any]] = {}


def define_attribute(type_: type, name: str, of: Any) -> Callable[[Any], Any]:
    def register(load: Any) -> Any:
        _ATTRIBUTES.setdefault(type_, {})[name] = (lambda _: of) if isinstance(of, types.Type) else of, load
        return load

    return register


@define_attribute(ViewType, "node", types.int64)
def _view_node(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return member(context, builder, type_, value, "node")


@define_attribute(ViewType, "now", types.float64)
def _view_now(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    at = load_slot(builder, member(context, builder, type_, value, "context"), "now", I64.as_pointer())
    return builder.fdiv(builder.sitofp(builder.load(at), F64), ir.Constant(F64, 1e9))


@define_attribute(ViewType, "now_ns", types.int64)
def _view_now_ns(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    at = load_slot(builder, member(context, builder, type_, value, "context"), "now", I64.as_pointer())
    return builder.load(at)


@define_attribute(ViewType, "machines", types.int64)
def _view_machines(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return load_slot(builder, member(context, builder, type_, value, "context"), "machines")


@define_attribute(ViewType, "machine", types.int64)
def _view_machine(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    return load_word(builder, load_slot(builder, view.context, "machine_of", PTR), view.node)


@define_attribute(ViewType, "rank", types.int64)
def _view_rank(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    if not type_.program.role:
        return view.node
    first, _ = role_bounds(builder, view.context, type_.program, type_.program.role)
    return builder.sub(view.node, first)


def role_bounds(builder: Any, context_pointer: Any, program: Program, role: str) -> tuple[Any, Any]:
    """Load the number of the first node of a role, and the number after its last node."""
    bounds, k = load_slot(builder, context_pointer, "roles", PTR), program.roles.index(role)
    return load_word(builder, bounds, 2 * k), load_word(builder, bounds, 2 * k + 1)


@define_attribute(ViewType, "speed", types.float64)
def _view_speed(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    core_context = member(context, builder, type_, value, "context")
    machine = _view_machine(context, builder, type_, value)
    return load_word(builder, load_slot(builder, core_context, "speed", PTR), machine, F64)


class NeighboursType(types.Buffer):
    """A read-only sequence of node numbers; interpreted nodes have a tuple instead."""

    def __init__(self, dtype: Any = types.int64, ndim: int = 1, layout: str = "C", **options: Any) -> None:
        super().__init__(dtype, ndim, layout, readonly=True, name=f"neighbours({layout})")


register_model(NeighboursType)(models.ArrayModel)
_NEIGHBOURS = NeighboursType()


@overload(bool)
def _has_neighbours(nodes):  # type: ignore[no-untyped-def]
    return (lambda nodes: len(nodes) > 0) if isinstance(nodes, NeighboursType) else None


@overload(operator.contains)
def _contains(among: Any, node: Any) -> Any:
    if not isinstance(among, NeighboursType):
        return None

    def contains(among: Any, node: Any) -> bool:
        for neighbour in among:  # noqa: SIM110
            if neighbour == node:
                return True
        return False

    return contains


@define_attribute(ViewType, "neighbours", _NEIGHBOURS)
def _view_neighbours(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    neighbours = load_slot(builder, view.context, "neighbours", I64.as_pointer())
    offset = builder.gep(load_slot(builder, view.context, "neighbour_offsets", I64.as_pointer()), [view.node])
    first = builder.load(offset)
    count = builder.sub(builder.load(builder.gep(offset, [ir.Constant(I64, 1)])), first)
    return array_at(context, builder, _NEIGHBOURS, builder.gep(neighbours, [first]), (count,))


@define_attribute(ViewType, "random", lambda view: RandomType(view.program))
@define_attribute(ViewType, "slots", lambda view: SlotsType(view.program))
def _same(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return value  # these types have the same members


def _queue_attribute(name: str, of: Any, as_: Any, function: str = "") -> None:
    @define_attribute(ViewType, name, of)
    def load(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
        return call_core(context, builder, view.context, function or name, as_, view.node)


_queue_attribute("tasks", types.int64, I64, "tasks_at")
for _name in ("waiting", "running", "cores"):
    _queue_attribute(_name, types.int64, I64)
for _name in ("work", "minimum_stretch"):
    _queue_attribute(_name, types.float64, F64)


#: The type of `View.queued` and of the result of `View.completed`: (application, tasks) pairs.
APPLICATIONS = types.List(types.UniTuple(types.int64, 2))


@define_attribute(ViewType, "queued", APPLICATIONS)
def _view_queued(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return load_applications(context, builder, type_, value, "queued")


def load_applications(context: Any, builder: Any, type_: Any, value: Any, name: str) -> Any:
    """Return the list that function `name` of the core writes; the first call returns its length."""
    view = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    null = ir.Constant(I64.as_pointer(), None)
    count = call_core(context, builder, view.context, name, I64, view.node, null)
    entries = listobj.ListInstance.allocate(context, builder, APPLICATIONS, count)
    entries.size = count
    # The core can write to the list, since an entry has the layout of the core's rows: two numbers.
    rows = builder.bitcast(entries._gep(ir.Constant(I64, 0)), I64.as_pointer())
    call_core(context, builder, view.context, name, I64, view.node, rows)
    return entries.value


@define_attribute(ApplicationType, "number", types.int64)
def _application_number(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return member(context, builder, type_, value, "number")


def _application_column(name: str, of: Any, as_: Any) -> None:
    @define_attribute(ApplicationType, name, of)
    def load(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        application = cgutils.create_struct_proxy(type_)(context, builder, value=value)
        return load_word(builder, load_slot(builder, application.context, name, PTR), application.number, as_)


_application_column("tasks", types.int64, I64)
for _name in ("task_size", "size", "release"):
    _application_column(_name, types.float64, F64)


class _TableAttributes(templates.AttributeTemplate):
    """Typing of the attributes and methods that this module defines."""

    def generic_resolve(self, value: Any, attr: str) -> Any:
        if attr in _ATTRIBUTES.get(type(value), {}):
            return _ATTRIBUTES[type(value)][attr][0](value)
        if attr in METHODS.get(type(value), {}):
            return types.BoundFunction(METHODS[type(value)][attr], value)
        path = f"{_INTERPRETED_CLASSES[type(value)][0]}.{attr}"
        if hasattr(_INTERPRETED_CLASSES[type(value)][1], attr):
            raise NotCompiled(f"compiled nodes do not support {path}")
        known = sorted({*_ATTRIBUTES.get(type(value), {}), *METHODS.get(type(value), {})})
        raise NotCompiled(f"there is no {path}; {listed(known, attr)}")


#: Type -> its name in errors, and the corresponding class of interpreted nodes.
_INTERPRETED_CLASSES = {
    ViewType: ("view", View),
    RandomType: ("view.random", RandomStream),
    SlotsType: ("view.slots", MachineSlots),
    ApplicationType: ("application", Application),
}


def _load_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    return _ATTRIBUTES[type(type_)][attr][1](context, builder, type_, value)


for _type in _INTERPRETED_CLASSES:
    infer_getattr(type(f"_{_type.__name__}Attributes", (_TableAttributes,), {"key": _type}))
    lower_getattr_generic(_type)(_load_attribute)


# -- the node itself: its state, its parameters, its other methods -------------------------------------------


@infer_getattr
class _NodeAttributes(templates.AttributeTemplate):
    key = NodeType

    def generic_resolve(self, node: Any, attr: str) -> Any:
        program = node.program
        if attr == "parameters":
            return ParametersType(program)
        if attr in (program.state.names or ()):
            return attribute_type(program, attr)
        attribute = program.member(attr)
        if isinstance(attribute, property):
            return program.call_type(self.context, attr, (node,), {}).return_type
        if isinstance(attribute, (staticmethod, classmethod)):
            raise NotCompiled(f"self.{attr} is a {type(attribute).__name__}; write it as a method, with self")
        if attribute in (NodeProgram.on_release, NodeProgram.on_message):
            raise NotCompiled(f"{method_text(attr)}: no class of the program has this method")
        if isinstance(attribute, _CONSTANTS):
            return _constant_type(attr, attribute)
        if not inspect.isfunction(attribute):
            methods = [
                name for name, _ in inspect.getmembers(program.policy, inspect.isfunction) if name[:2] != "__"
            ]
            state = list(program.state.names or ())
            raise NotCompiled(
                f"self.{attr} must be a method, or a number, bool or array that __init__ sets; "
                f"{closest([*state, *methods], attr)}__init__ sets {', '.join(state) or 'none'}"
            )

        class NodeMethod(templates.AbstractTemplate):
            key = ("gridsim node", attr)

            def generic(self, args: Any, kws: Any) -> Any:
                return program.call_type(self.context, attr, (node, *args), kws).as_method()

        _lower_method(attr)
        return types.BoundFunction(NodeMethod, node)


def attribute_type(program: Program, name: str) -> Any:
    """Return the type of an attribute of a node: a number, an array or an object."""
    if name in program.objects:
        value = program.objects[name]
        if isinstance(value, Container):
            return ContainerType(type(value), value.columns.names, value.columns.kinds)
        if isinstance(value, NodeKernel):
            return KernelType(value)
        assert isinstance(value, SharedArray)
        return SharedArrayType(value.values.dtype)
    return field_type(program.state, name)


def field_type(record: np.dtype[Any], name: str) -> Any:
    """Return the type of a field of a record, a number or an array."""
    field_ = record[name]
    kind = from_dtype(field_.base)
    return types.Array(kind, field_.ndim, "C") if field_.ndim else kind


_method_names: set[str] = set()


def _lower_method(attr: str) -> None:
    """Register a method name of nodes; the type of a node supplies the code."""
    if attr in _method_names:
        return
    _method_names.add(attr)

    @lower_builtin(("gridsim node", attr), NodeType, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call_method(context, builder, sig.args[0].program, attr, sig, args)


def _call_method(context: Any, builder: Any, program: Program, name: str, sig: Any, args: Any) -> Any:
    program.calls += 1
    return call_function(context, builder, program.function(name), sig, args)


def call_function(context: Any, builder: Any, function: Any, sig: Any, args: Any) -> Any:
    """Call a function that Numba has compiled."""
    call = context.get_function(types.Dispatcher(function), sig)
    result = call(builder, args)
    for library in getattr(call, "libs", ()):
        context.active_code_library.add_linking_library(library)
    return impl_ret_new_ref(context, builder, sig.return_type, result)


@lower_getattr_generic(NodeType)
def _node_attribute(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    node = cgutils.create_struct_proxy(type_)(context, builder, value=value)
    program = type_.program
    if attr == "parameters":
        parameters = load_slot(builder, node.context, "parameters", PTR)
        return struct_of(context, builder, ParametersType(program), parameters=parameters)
    if attr in program.objects:
        head = _address(context, builder, program.state, node.state, attr)
        kind = attribute_type(program, attr)
        return struct_of(context, builder, kind, context=node.context, head=builder.bitcast(head, PTR))
    if attr in (program.state.names or ()):
        return _load(context, builder, program.state, node.state, attr)
    attribute = program.member(attr)
    if isinstance(attribute, property):
        sig = program.call_type(context.typing_context, attr, (type_,), {})
        return _call_method(context, builder, program, attr, sig, [value])
    kind = _constant_type(attr, attribute)
    return context.get_constant_generic(builder, kind, attribute)


#: Types of the class variables that compiled nodes can read.
_CONSTANTS = (bool, int, float, str, tuple)


def _constant_type(attr: str, value: Any) -> Any:
    try:
        return types.literal(value) if isinstance(value, (int, str)) else typeof(value)
    except ValueError:
        raise NotCompiled(
            f"self.{attr} must be a number, a string or a tuple of these, as a class variable, got {value!r}"
        ) from None


def _address(context: Any, builder: Any, record: np.dtype[Any], pointer: Any, name: str) -> Any:
    """Return the address of a field of the record at `pointer`."""
    kind, offset = dict(record.fields or {})[name][:2]
    at = builder.gep(builder.bitcast(pointer, PTR), [ir.Constant(I64, offset)])
    return builder.bitcast(at, context.get_data_type(from_dtype(kind.base)).as_pointer())


def _load(context: Any, builder: Any, record: np.dtype[Any], pointer: Any, name: str) -> Any:
    at, type_ = _address(context, builder, record, pointer, name), field_type(record, name)
    if not isinstance(type_, types.Array):
        return context.unpack_value(builder, type_, at)
    return array_at(context, builder, type_, at, record[name].shape)


@lower_setattr_generic(NodeType)
def _set_node_attribute(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> Any:
    type_, value_type = sig.args
    node, record = cgutils.create_struct_proxy(type_)(context, builder, value=args[0]), type_.program.state
    target_type = field_type(record, attr)
    value = context.cast(builder, args[1], value_type, target_type)
    context.pack_value(builder, target_type, value, _address(context, builder, record, node.state, attr))


@infer_getattr
class _ParametersAttributes(templates.AttributeTemplate):
    key = ParametersType

    def generic_resolve(self, parameters: Any, attr: str) -> Any:
        program = parameters.program
        if attr in (program.parameters.names or ()):
            return field_type(program.parameters, attr)
        if attr in program.constants:
            value = program.constants[attr]
            return NameType((value,)) if isinstance(value, str) else typeof(value)
        known = listed([*(program.parameters.names or ()), *program.constants], attr)
        raise NotCompiled(f"self.parameters.{attr} must be a number, a bool or a string; {known}")


@lower_getattr_generic(ParametersType)
def _parameter(context: Any, builder: Any, type_: Any, value: Any, attr: str) -> Any:
    program = type_.program
    if attr in program.constants:
        return ir.Constant(I64, 0) if isinstance(program.constants[attr], str) else context.get_dummy_value()
    pointer = member(context, builder, type_, value, "parameters")
    return _load(context, builder, program.parameters, pointer, attr)
