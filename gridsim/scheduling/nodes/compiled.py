"""Compilation of the handlers of a node program to machine code, which is stored on disk.

The same class runs interpreted and compiled.  Compilation turns its attributes into a record for each node
and its handlers into functions that the message core calls through pointers; the types for that are in
`gridsim.scheduling.nodes.numba_types`.  The machine code is stored in the user's cache, in a file whose name
is a hash of everything that the code depends on.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import os
import platform
import stat
import types
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gridcore.fair_tree.summaries import KERNELS
from gridcore.nodes.compiled_calls import CONTEXT
from gridcore.nodes.node_memory import MemoryObject
from gridcore.nodes.state import ARRAY_TYPES
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.errors import CompileError, SchedulerWarning, warn
from gridsim.scheduling.nodes.attributes import attributes_of
from gridsim.scheduling.nodes.compile_errors import compile_error, place_of
from gridsim.scheduling.nodes.handlers import handler_of, takes_value, timers_of
from gridsim.scheduling.nodes.memory_types import symbols_of, type_key
from gridsim.scheduling.nodes.program import ArrayField, Message, NodeProgram, kinds_of
from gridsim.scheduling.nodes.roles import role_classes
from gridsim.scheduling.nodes.timers import Timer
from gridsim.support.files import atomic_file

__all__ = ["CompiledProgram", "CompiledPrograms", "compile_programs"]

#: Handler of an event other than a message -> the kind of its entry (`numba_methods.entry`).
_EVENTS = {
    "on_start": "event",
    "on_release": "release",
    "on_lost": "release",
    "on_timer": "timer",
    "on_idle": "event",
    "on_end": "event",
    "on_act": "event",
    "on_done": "done",
    "on_timeout": "timeout",
}
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}
_ARRAYS = (np.bool_, *(dtype.type for dtype in ARRAY_TYPES))


@dataclass
class CompiledProgram:
    """The compiled program of the nodes of a role.

    Parameters
    ----------
    initial_state
        Record array of shape [1], the state of a node that starts.
    handlers
        Name of a handler -> address of its machine code.
    objects
        For each attribute that is an object, such as a container, the offset of its place in the record in
        bytes, and the object of a node that starts.
    code
        Objects that own the machine code, which must exist as long as the addresses are used.
    """

    initial_state: np.ndarray[Any, Any]
    handlers: dict[str, int]
    objects: list[tuple[int, MemoryObject]]
    code: list[Any]


@dataclass
class CompiledPrograms:
    """The compiled programs of a scheduler, as `gridcore.nodes.message_core.NodeCore` takes them.

    Parameters
    ----------
    by_role
        Name of a role -> its program; the only role is "" if none are declared.
    parameters
        Record array of shape [1] with the scheduler's parameters that are numbers.
    timers
        The names of timers, then those of ticks.
    tables
        The tables to which nodes add rows, each a name and columns.
    actions
        The actions that nodes may pass to `View.decide`.
    """

    by_role: dict[str, CompiledProgram]
    parameters: np.ndarray[Any, Any]
    timers: tuple[str, ...]
    tables: list[tuple[str, dict[str, type]]]
    actions: tuple[str, ...]

    @property
    def programs(self) -> list[CompiledProgram]:
        """The programs of the roles, in the order of declaration."""
        return list(self.by_role.values())


def compile_programs(scheduler: Any) -> CompiledPrograms:
    """Compile the programs of `scheduler`, a `NodeScheduler`.

    Raises
    ------
    CompileError
        If something cannot be compiled; the error names the class, the attribute or method, and the line.
    ImportError
        If Numba is not installed.
    """
    try:
        import_module("numba")
    except ImportError:
        name = type(scheduler).__name__
        raise ImportError(
            f'compiling {name} requires Numba; install it with: pip install "gridsched[jit]"'
        ) from None
    parameters, constants = _parameters(scheduler)
    return CompiledPrograms(
        {role: _compile_role(scheduler, role, parameters, constants) for role in role_classes(scheduler)},
        parameters,
        _timer_names(scheduler),
        [(name, dict(columns)) for name, columns in scheduler.tables.items()],
        tuple(scheduler.decision_words),
    )


def _compile_role(
    scheduler: Any, role: str, parameters: np.ndarray[Any, Any], constants: dict[str, Any]
) -> CompiledProgram:
    import numba

    classes, roles = role_classes(scheduler), tuple(scheduler.roles)
    policy = classes[role]
    messages: dict[str, Message] = dict(kinds_of(scheduler.messages))
    _check_supported(scheduler, policy, messages)
    initial_state, objects = _state(policy, scheduler)
    tables = {name: dict(columns) for name, columns in scheduler.tables.items()}
    actions = tuple(scheduler.decision_words)
    local_kinds = [name for name, kind in messages.items() if kind.nbytes is None]
    sent_kinds = [name for name in messages if name not in local_kinds]
    numbers = {name: k for kinds in (sent_kinds, local_kinds) for k, name in enumerate(kinds)}
    sizes = {name: kind.nbytes for name, kind in messages.items() if callable(kind.nbytes)}
    checked_kinds = frozenset(
        name
        for name in sent_kinds
        if scheduler.at_once
        or name in sizes
        or messages[name].delay is not None
        or "application" in messages[name].fields
    )
    timers = {
        timer.name: (number, timer)
        for number, timer in enumerate(timers_of(scheduler, [[each] for each in classes.values()]))
        if timer.role in (-1, list(classes).index(role))
    }
    timer_names = _timer_names(scheduler)
    entries = list(_entries(policy, messages, timer_names, [timer for _, timer in timers.values()]))
    code: list[Any] = []
    names = _names_in(policy)
    key = _key(
        policy, numba.__version__, initial_state.dtype.descr, parameters.dtype.descr,
        [(name, *type_key(entry)) for name, entry in objects.items()],
        sorted((item for item in constants.items() if item[0] in names), key=str),
        [(name, [(field, str(of)) for field, of in kind.fields.items()], kind.moves_tasks, sizes.get(name),
          kind.answers)
         for name, kind in messages.items()],
        local_kinds, sorted(checked_kinds), list(timers.values()), timer_names, tables, actions, roles, role,
        entries, scheduler.numbers,
    )  # fmt: skip
    for symbol, address in {
        **KERNELS,
        **symbols_of(objects),
    }.items():  # LLVM aborts the process if a symbol is unknown
        import_module("llvmlite.binding").add_symbol(symbol, address)
    store = _Store(key)
    addresses = store.load([name for name, _, _ in entries], code)
    if addresses is None:
        numba_methods = import_module("gridsim.scheduling.nodes.numba_methods")
        for name in ("numba_kernels", "numba_objects"):
            import_module(f"gridsim.scheduling.nodes.{name}")  # registers types and functions
        program = numba_methods.Program(
            policy,
            initial_state.dtype,
            parameters.dtype,
            constants,
            objects,
            {name: kind.fields for name, kind in messages.items()},
            numbers,
            frozenset(local_kinds),
            sizes,
            {name: kind.answers for name, kind in messages.items() if kind.answers},
            checked_kinds,
            timers,
            timer_names,
            tables,
            actions,
            roles,
            role,
            tuple(scheduler.numbers) or ("values",),
            numba_methods.CheckedCompiler,
        )
        addresses = store.save(_compile(numba_methods, program, entries), code)
    return CompiledProgram(
        initial_state,
        addresses,
        [(initial_state.dtype.fields[name][1], entry) for name, entry in objects.items()],
        code,
    )


def _timer_names(scheduler: Any) -> tuple[str, ...]:
    """Return the timer names that `NodeProgram.on_timer` gets: timers of nodes, then those without fields."""
    return tuple(dict.fromkeys((*scheduler.timers, *scheduler.ticks, *scheduler.environment_timers)))


def _check_supported(scheduler: Any, policy: type[NodeProgram], messages: dict[str, Message]) -> None:
    """Raise CompileError if the program uses a feature that only interpreted programs have."""
    for name, value in (
        ("stable_storage", policy.stable_storage),
        ("environment_handlers", scheduler.environment_handlers),
    ):
        if value:
            raise CompileError(
                f"{place_of(policy)}{policy.__name__}: nodes='compiled' does not support {name}"
            )
    for name, kind in messages.items():
        for field, of in kind.fields.items():
            if isinstance(of, ArrayField) and of.ndim is None:
                raise CompileError(
                    f"{place_of(type(scheduler))}{policy.__name__}: nodes='compiled' does not support "
                    f"{field!r} of the message {name!r}: set its ndim in gs.array, 1 or 2"
                )


# -- the parts of the program --------------------------------------------------------------------------------


def _state(policy: type[NodeProgram], scheduler: Any) -> tuple[np.ndarray[Any, Any], dict[str, MemoryObject]]:
    """Return the state of a node that starts, a record array of shape [1], and its objects.

    The record has an empty place for each object.
    """
    program = policy(scheduler)
    if not hasattr(program, "parameters"):
        raise CompileError(
            f"{_place_of_attribute(policy, 'parameters')}: {policy.__name__}.__init__ must call "
            "super().__init__(parameters)"
        )
    attributes = attributes_of(program)
    fields: list[tuple[Any, ...]] = []
    objects = {name: value for name, value in attributes.items() if isinstance(value, MemoryObject)}
    for name, value in attributes.items():
        if name in objects:
            fields.append((name, np.uint64, (objects[name].words,)))
            continue
        kind = _NUMBERS.get(type(value))
        if isinstance(value, (np.ndarray, np.generic)):
            known = _ARRAYS if isinstance(value, np.ndarray) else _NUMBERS.values()
            kind = value.dtype.type if value.dtype.type in known else None
        if kind is None:
            raise CompileError(
                f"{_place_of_attribute(policy, name)}: self.{name} must be an int, a float, a bool, a NumPy "
                f"array of these, or a Fifo, Heap, IntSet, IntMap or SharedArray in a compiled node, got "
                f"{value!r}, a {type(value).__name__}; for example, use -1 for None and a Fifo for a list"
            )
        fields.append((name, kind, np.shape(value)))
    dtype = np.dtype(fields, align=True)
    initial_state = np.zeros(1, dtype)
    for name, value in attributes.items():
        if name not in objects:
            initial_state[name][0] = value
    return initial_state, objects


def _place_of_attribute(policy: type, attribute: str) -> str:
    """Return the file, the line and the class in which `attribute` is set."""
    places = [
        (name != "__init__", f"{function.__code__.co_filename}:{step.positions.lineno}: {cls.__name__}")
        for cls in policy.__mro__
        for name, function in vars(cls).items()
        if inspect.isfunction(function)
        for step in dis.get_instructions(function)
        if step.opname == "STORE_ATTR" and step.argval == attribute and step.positions
    ]
    return min(places, key=lambda at: at[0], default=(0, f"{place_of(policy)}{policy.__name__}"))[1]


def _parameters(scheduler: Any) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Return the numeric parameters as a record, and the parameters that are strings, grids or None."""
    numbers: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    members = inspect.getmembers_static(type(scheduler))
    properties = [name for name, entry in members if isinstance(entry, property)]
    for name in (*scheduler.__struct_fields__, *properties):
        try:
            value = getattr(scheduler, name)
        except Exception:  # a user's property may raise any exception; nodes then cannot read it
            continue
        if type(value) in _NUMBERS:
            numbers[name] = value
        elif value is None or isinstance(value, (str, SummaryGrid)):
            constants[name] = value
    record = np.zeros(
        1, np.dtype([(name, _NUMBERS[type(value)]) for name, value in numbers.items()], align=True)
    )
    for name, value in numbers.items():
        record[name][0] = value
    return record, constants


def _entries(
    policy: type[NodeProgram], messages: dict[str, Message], timer_names: tuple[str, ...], timers: list[Timer]
) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield (name in the core, name of the method, arguments of `numba_methods.entry`) for each handler."""
    handled: dict[str, list[str]] = {}
    for kind in messages:
        if (handler := handler_of([policy], kind)) is not None:  # otherwise the core raises an error
            handled.setdefault(handler, []).append(kind)
    for method, kinds in handled.items():
        for number, kind in enumerate(kinds):
            yield kind, method, ("message", tuple(kinds), number)
    for name, event in _EVENTS.items():
        handler = getattr(policy, name)
        if name == "on_lost" and handler is NodeProgram.on_lost:
            if policy.on_release is not NodeProgram.on_release:
                yield name, "on_release", ("release",)
        elif event == "timeout":
            requests = tuple(kind for kind, message in messages.items() if message.answers)
            if requests and handler is not NodeProgram.on_timeout:
                yield name, name, (event, requests)
        elif handler is not getattr(NodeProgram, name) and (event != "timer" or timer_names):
            yield name, name, ("timer", int(takes_value(policy))) if event == "timer" else (event,)
    for timer in {timer.handler: timer for timer in timers if timer.handler != "on_timer"}.values():
        yield timer.handler, timer.handler, ("fields", tuple(timer.fields.values()))


# -- compiling -----------------------------------------------------------------------------------------------


def _compile(numba_methods: Any, program: Any, entries: Any) -> dict[str, Any]:
    """Return name -> compiled handler."""
    from numba import cfunc, int32, int64
    from numba import types as numba_types

    signature = int32(numba_types.voidptr, int64, numba_types.voidptr, numba_types.voidptr)
    handlers = {}
    for name, method, kind in entries:
        if inspect.getattr_static(program.policy, method, None) is None:
            raise CompileError(f"{program.policy.__name__} must define {method}, which handles {name!r}")
        try:
            enter = numba_methods.entry(program, method, kind)
            handlers[name] = cfunc(signature)(_as_plain_function(enter))
        except Exception as error:
            raise compile_error(program, method, error) from error
    return handlers


def _as_plain_function(enter: Any) -> Any:
    def handler(context: Any, node: Any, arguments: Any, state: Any) -> Any:
        return enter(context, node, arguments, state)

    return handler


# -- machine code on disk ------------------------------------------------------------------------------------


def _key(policy: type, *dependencies: Any) -> str:
    """Return a hash of everything that the machine code depends on."""
    digest = hashlib.sha256()
    seen: set[int] = set()

    def add(value: Any) -> None:
        if isinstance(value, types.FunctionType):
            if id(value) in seen:
                return
            seen.add(id(value))
            add(value.__code__)
            for name in sorted(_names(value.__code__)):
                if name in value.__globals__:
                    add((name, value.__globals__[name]))
            for cell in value.__closure__ or ():
                add(cell.cell_contents)
            add(value.__defaults__)
        elif isinstance(value, types.CodeType):
            digest.update(value.co_code)
            digest.update(value.co_linetable)  # line numbers are relative to the first line
            add([value.co_names, value.co_varnames])
            for constant in value.co_consts:
                add(constant)
        elif isinstance(value, property):
            add(value.fget)
        elif isinstance(value, (tuple, list)):
            digest.update(f"{len(value)}[".encode())
            for entry in value:
                add(entry)
        elif isinstance(value, type):
            digest.update(f"{value.__module__}.{value.__qualname__}".encode())
        elif hasattr(value, "py_func"):  # a function compiled by Numba
            add(value.py_func)
        elif value is None or isinstance(value, (bool, int, float, str, bytes, dict, np.generic)):
            digest.update(f"{type(value).__name__}:{value!r};".encode())
        elif isinstance(value, np.ndarray):
            digest.update(value.tobytes())
        elif isinstance(value, SummaryGrid):
            add([value.stretch, value.size, value.task_size])

    add((CONTEXT, sorted(KERNELS), platform.machine(), _cpu()))
    for cls in policy.__mro__:
        add(
            [
                cls,
                *(
                    item
                    for item in vars(cls).items()
                    if isinstance(item[1], (types.FunctionType, property, int, float, str, tuple))
                ),
            ]
        )
    folder = Path(__file__).parent
    modules = [folder / f"{name}.py" for name in ("compile_errors", "compiled", "memory_types", "rewrites")]
    for source in (*sorted(folder.glob("numba_*.py")), *modules):
        digest.update(source.read_bytes())
    add(dependencies)
    return digest.hexdigest()


def _names_in(policy: type) -> set[str]:
    """Return the names of all attributes and variables that the methods of a program read."""
    names: set[str] = set()
    for member in [member for cls in policy.__mro__ for member in vars(cls).values()]:
        functions = (member.fget, member.fset) if isinstance(member, property) else (member,)
        for function in functions:
            function = getattr(function, "__func__", function)  # the function of a static method
            if isinstance(function, types.FunctionType):
                names |= _names(function.__code__)
    return names


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _cpu() -> str:
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def _folder() -> Path:
    base = os.environ.get("GRIDSIM_CACHE")
    if base:
        return Path(base)
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return (Path(home) if home else Path.home() / ".cache") / "gridsim"


def _is_trusted(path: Path) -> bool:
    """Return whether no other user can have written a file or folder; False if it does not exist.

    Machine code runs as this user, so code of others is not used.  Windows has other permissions, and its
    folders of users are private.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False
    if os.name == "nt" or (status.st_uid == os.getuid() and not status.st_mode & 0o022):
        return True
    warn(
        f"{path} must belong to this user and be writable by no other, got user {status.st_uid} and mode "
        f"{stat.S_IMODE(status.st_mode):o}: its machine code is not used; chmod go-w, or GRIDSIM_CACHE",
        SchedulerWarning,
    )
    return False


class _Store:
    """The machine code of one program: a file of (name, entry, code) for each handler, and a hash."""

    def __init__(self, key: str) -> None:
        self.path = _folder() / f"nodes-{key[:40]}"

    def load(self, names: list[str], code: list[Any]) -> dict[str, int] | None:
        """Return name -> address of the handlers; None if the file is missing, unsafe, or does not match."""
        try:
            file = os.stat(self.path)
        except OSError:
            return None
        if not (_is_trusted(self.path.parent) and _is_trusted(self.path)):
            return None
        loaded = _loaded_file(self.path, (file.st_mtime_ns, file.st_size, file.st_ino))
        if loaded is None or list(loaded[0]) != names:
            return None
        addresses, libraries = loaded
        code.extend(libraries)
        return addresses

    def save(self, handlers: dict[str, Any], code: list[Any]) -> dict[str, int]:
        """Write `handlers` to the file, if the folder is writable; return name -> address."""
        rows = []
        for name, handler in handlers.items():
            library, _, (objects, bitcode) = handler._library.serialize_using_object_code()
            rows.append((name, handler.native_name, library, objects, bitcode))
            code.append(handler)
        raw = msgspec.msgpack.encode(rows)
        with suppress(OSError):  # without the file, the next run compiles the program again
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # a file that is not trusted keeps its mode if it is replaced
                os.unlink(self.path)
            with atomic_file(self.path) as stream:
                os.chmod(stream.fileno(), 0o600)
                stream.write(hashlib.sha256(raw).digest() + raw)
        return {name: handler.address for name, handler in handlers.items()}


@lru_cache(maxsize=32)  # a small run takes less time than loading its machine code
def _loaded_file(path: Path, version: tuple[int, ...]) -> tuple[dict[str, int], list[Any]] | None:
    """Return name -> address of the handlers in a file, and the code; None if the file is damaged.

    Parameters
    ----------
    version
        Numbers that identify the version of the file.
    """
    try:
        raw = path.read_bytes()
        if hashlib.sha256(raw[32:]).digest() != raw[:32]:
            return None
        rows = msgspec.msgpack.decode(raw[32:], type=list[tuple[str, str, str, bytes, bytes]])
    except (OSError, ValueError):
        return None
    from gridsim.scheduling.nodes.numba_internals import cpu_target

    target, addresses, code = cpu_target.target_context, {}, []
    target.refresh()
    for name, wrapper, library, objects, bitcode in rows:
        loaded = target.codegen().unserialize_library((library, "object", (objects, bitcode)))
        code.append(loaded)
        addresses[name] = loaded.get_pointer_to_function(wrapper)
    return addresses, code
