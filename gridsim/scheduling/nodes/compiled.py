"""Compiles the handlers of a node program, and keeps the machine code on disk.

The same class runs interpreted and compiled.  Its attributes become a record for each node, its handlers
functions that the message core calls through pointers; `gridsim.scheduling.nodes.numba_types` says how.  The
machine code is kept in a folder of the user's cache, named by all that it depends on.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import os
import platform
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gridcore.nodes.compiled_calls import CONTEXT
from gridsim.errors import CompileError
from gridsim.scheduling.nodes.compilable import explained, place_of
from gridsim.scheduling.nodes.handlers import handler_of, takes_value
from gridsim.scheduling.nodes.program import Message, NodeProgram

__all__ = ["Compiled", "compiled"]

#: Handlers of other events than messages, and what they get, see `numba_methods.entry`.
_EVENTS = {
    "on_start": "event",
    "on_release": "release",
    "on_lost": "release",
    "on_timer": "timer",
    "on_idle": "event",
    "on_end": "event",
}
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}
_ARRAYS = (np.bool_, np.int64, np.float64)


@dataclass
class Compiled:
    """A compiled program, as `gridcore.nodes.message_core.NodeCore` takes it."""

    name: str
    fresh: np.ndarray[Any, Any]  # [1], the record of a node that starts
    handlers: dict[str, int]
    parameters: np.ndarray[Any, Any]
    tables: list[tuple[str, dict[str, type]]]
    actions: tuple[str, ...]
    code: list[Any]  # what must live as long as the addresses are used


def compiled(scheduler: Any) -> Compiled:
    """Compile the program of `scheduler`, a `NodeScheduler`.

    Raises CompileError that names class, attribute or method, and line of what cannot be compiled, and
    ImportError without Numba.
    """
    policy = scheduler.policy
    try:
        import numba
    except ImportError:
        raise ImportError(
            f'compiling {policy.__name__} needs Numba; install it with: pip install "gridsched[jit]"'
        ) from None
    messages: dict[str, Message] = dict(scheduler.messages)
    _check_supported(scheduler, messages)
    fresh = _state(policy, scheduler)
    parameters, words = _parameters(scheduler)
    tables = {name: dict(columns) for name, columns in scheduler.tables.items()}
    actions = tuple(scheduler.decision_words)
    checked = frozenset(
        name for name, kind in messages.items() if "application" in kind.fields or kind.delay is not None
    )
    wanted = list(_wanted(policy, messages, scheduler.timers))
    code: list[Any] = []
    key = _key(
        policy, numba.__version__, fresh.dtype.descr, parameters.dtype.descr, sorted(words.items(), key=str),
        [(name, list(kind.fields.items()), kind.moves_tasks) for name, kind in messages.items()],
        sorted(checked), scheduler.timers, tables, actions, wanted,
    )  # fmt: skip
    store = _Store(key)
    addresses = store.load([name for name, _, _ in wanted], code)
    if addresses is None:
        made = import_module("gridsim.scheduling.nodes.numba_methods")
        program = made.Program(
            policy,
            fresh.dtype,
            parameters.dtype,
            words,
            {name: kind.fields for name, kind in messages.items()},
            {name: number for number, name in enumerate(messages)},
            checked,
            tuple(scheduler.timers),
            tables,
            actions,
            made.Checked,
        )
        addresses = store.keep(_compile(made, program, wanted), code)
    return Compiled(policy.__name__, fresh, addresses, parameters, list(tables.items()), actions, code)


def _check_supported(scheduler: Any, messages: dict[str, Message]) -> None:
    """Raise CompileError for what only interpreted programs have."""
    policy = scheduler.policy
    found = [
        name
        for name, kind in messages.items()
        if kind.deferred or kind.arrays or kind.nbytes is None or callable(kind.nbytes)
    ]
    what, where = "", place_of(type(scheduler))
    if found:
        what = f"deferred messages, or ones with arrays or a size of their own, such as {found[0]!r},"
    if scheduler.at_once or scheduler.to_the_end:
        what = "schedulers that set at_once or to_the_end"
    if scheduler.ticks:
        what = "schedulers with ticks"
    if getattr(scheduler, "board_of", "nodes") != "nodes":
        what = "schedulers with a board of applications"
    for name in ("on_done", "on_act"):
        if getattr(policy, name) is not getattr(NodeProgram, name):
            what = f"nodes that define {name}"
            where = place_of(getattr(policy, name))
    if what:
        raise CompileError(f"{where}{policy.__name__}: {what} run interpreted only")


# -- what the program consists of ----------------------------------------------------------------------------


def _state(policy: type[NodeProgram], scheduler: Any) -> np.ndarray[Any, Any]:
    """Return the state of a node that starts, a record in an array of one."""
    node, assigned = policy(scheduler), _assigned(policy)
    found: dict[str, Any] = {}
    for each in reversed(policy.__mro__):
        annotations = vars(each).get("__annotations__", {})
        for name, value in vars(each).items():
            if isinstance(value, property):
                continue  # its setter cannot be compiled, which is said where it is used
            if name in assigned or name in annotations and "ClassVar" not in str(annotations[name]):
                found[name] = getattr(node, name)
    state = node.__getstate__()
    for part in state if isinstance(state, tuple) else (state,):
        found.update(part or {})
    found.pop("parameters", None)
    fields: list[tuple[Any, ...]] = []
    for name, value in found.items():
        kind = _NUMBERS.get(
            type(value), value.dtype.type if isinstance(value, (np.ndarray, np.generic)) else None
        )
        if kind not in _ARRAYS:
            raise CompileError(
                f"{_where(policy, name)}: self.{name} is {value!r}, a {type(value).__name__}; a compiled "
                "node keeps int, float, bool, and NumPy arrays of these (of 64 bits), so write, say, -1 for "
                "None and an array for a list"
            )
        fields.append((name, kind, np.shape(value)))
    dtype = np.dtype(fields, align=True)
    fresh = np.zeros(1, dtype)
    for name, value in found.items():
        fresh[name][0] = value
    return fresh


def _assigned(policy: type) -> set[str]:
    """Return the names of attributes that methods assign."""
    methods = (each for base in policy.__mro__ for each in vars(base).values() if inspect.isfunction(each))
    found = (dis.get_instructions(each) for each in methods)
    return {step.argval for steps in found for step in steps if step.opname == "STORE_ATTR"}


def _where(policy: type, attribute: str) -> str:
    """Return file and line at which `attribute` is set, and the class."""
    found = [
        (name != "__init__", f"{function.__code__.co_filename}:{step.positions.lineno}: {each.__name__}")
        for each in policy.__mro__
        for name, function in vars(each).items()
        if inspect.isfunction(function)
        for step in dis.get_instructions(function)
        if step.opname == "STORE_ATTR" and step.argval == attribute and step.positions
    ]
    return min(found, key=lambda at: at[0], default=(0, f"{place_of(policy)}{policy.__name__}"))[1]


def _parameters(scheduler: Any) -> tuple[np.ndarray[Any, Any], dict[str, str | None]]:
    """Return the numbers among the parameters, as a record, and the texts (None as None)."""
    numbers: dict[str, Any] = {}
    words: dict[str, str | None] = {}
    own = [name for name, each in inspect.getmembers_static(type(scheduler)) if isinstance(each, property)]
    for name in (*scheduler.__struct_fields__, *own):
        try:
            value = getattr(scheduler, name)
        except Exception:  # a property of another use
            continue
        if type(value) in _NUMBERS:
            numbers[name] = value
        elif value is None or isinstance(value, str):
            words[name] = value
    record = np.zeros(
        1, np.dtype([(name, _NUMBERS[type(each)]) for name, each in numbers.items()], align=True)
    )
    for name, value in numbers.items():
        record[name][0] = value
    return record, words


def _wanted(
    policy: type[NodeProgram], messages: dict[str, Message], timers: Any
) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield (what the core calls it, name of the method, what it is called for) for each handler."""
    handled: dict[str, list[str]] = {}
    for kind in messages:
        handled.setdefault(handler_of([policy], kind), []).append(kind)
    for method, kinds in handled.items():
        if getattr(policy, method) is NodeProgram.on_message:
            continue  # an error, if such a message comes
        for number, kind in enumerate(kinds):
            yield kind, method, ("message", tuple(kinds), number)
    for name, what in _EVENTS.items():
        found = getattr(policy, name)
        if name == "on_lost" and found is NodeProgram.on_lost:
            if policy.on_release is not NodeProgram.on_release:
                yield name, "on_release", ("release",)
        elif found is not getattr(NodeProgram, name) and (what != "timer" or timers):
            yield name, name, ("timer", int(takes_value(policy))) if what == "timer" else (what,)


# -- compiling -----------------------------------------------------------------------------------------------


def _compile(made: Any, program: Any, wanted: Any) -> dict[str, Any]:
    """Return name -> compiled handler."""
    from numba import cfunc, int32, int64
    from numba import types as numba_types

    signature = int32(numba_types.voidptr, int64, numba_types.voidptr, numba_types.voidptr)
    found = {}
    for name, method, kind in wanted:
        if inspect.getattr_static(program.policy, method, None) is None:
            raise CompileError(f"{program.policy.__name__} has no method {method}, which handles {name!r}")
        try:
            enter = made.entry(program, method, kind)
            found[name] = cfunc(signature)(_closed(enter))
        except Exception as error:
            raise explained(program, method, error) from error
    return found


def _closed(enter: Any) -> Any:
    def handler(context: Any, node: Any, given: Any, state: Any) -> Any:
        return enter(context, node, given, state)

    return handler


# -- machine code on disk ------------------------------------------------------------------------------------


def _key(policy: type, *more: Any) -> str:
    """Return a hash of all that the machine code depends on."""
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
            add([value.co_names, value.co_varnames])
            for each in value.co_consts:
                add(each)
        elif isinstance(value, property):
            add(value.fget)
        elif isinstance(value, (tuple, list)):
            digest.update(f"{len(value)}[".encode())
            for each in value:
                add(each)
        elif isinstance(value, type):
            digest.update(f"{value.__module__}.{value.__qualname__}".encode())
        elif hasattr(value, "py_func"):  # compiled by Numba
            add(value.py_func)
        elif value is None or isinstance(value, (bool, int, float, str, bytes, dict, np.generic)):
            digest.update(f"{type(value).__name__}:{value!r};".encode())
        elif isinstance(value, np.ndarray):
            digest.update(value.tobytes())

    add((CONTEXT, platform.machine(), _cpu()))
    for each in policy.__mro__:
        add(
            [
                each,
                *(
                    item
                    for item in vars(each).items()
                    if isinstance(item[1], (types.FunctionType, property, int, float, str, tuple))
                ),
            ]
        )
    for source in ("numba_types.py", "numba_methods.py", "numba_checks.py", "compilable.py", "compiled.py"):
        digest.update((Path(__file__).parent / source).read_bytes())
    add(more)
    return digest.hexdigest()


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= _names(each)
    return found


def _cpu() -> str:
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def _folder() -> Path:
    base = os.environ.get("GRIDSIM_CACHE")
    if base:
        return Path(base)
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return (Path(home) if home else Path.home() / ".cache") / "gridsim"


class _Store:
    """The machine code of one program: a file of (name, entry, code) for each handler, and a hash."""

    def __init__(self, key: str) -> None:
        self.path = _folder() / f"nodes-{key[:40]}"

    def load(self, names: list[str], code: list[Any]) -> dict[str, int] | None:
        """Return name -> address of the handlers, or None if they are not here."""
        try:
            raw = self.path.read_bytes()
            if hashlib.sha256(raw[32:]).digest() != raw[:32]:
                return None
            rows = msgspec.msgpack.decode(raw[32:], type=list[tuple[str, str, str, bytes, bytes]])
        except (OSError, ValueError):
            return None
        if [row[0] for row in rows] != names:
            return None
        from numba.core.registry import cpu_target

        target, found = cpu_target.target_context, {}
        target.refresh()
        for name, wrapper, library, objects, bitcode in rows:
            made = target.codegen().unserialize_library((library, "object", (objects, bitcode)))
            code.append(made)
            found[name] = made.get_pointer_to_function(wrapper)
        return found

    def keep(self, handlers: dict[str, Any], code: list[Any]) -> dict[str, int]:
        """Write `handlers` to the file, if that is possible, and return name -> address."""
        rows = []
        for name, handler in handlers.items():
            library, _, (objects, bitcode) = handler._library.serialize_using_object_code()
            rows.append((name, handler.native_name, library, objects, bitcode))
            code.append(handler)
        raw = msgspec.msgpack.encode(rows)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as file:
                file.write(hashlib.sha256(raw).digest() + raw)
            os.replace(file.name, self.path)
        except OSError:
            pass  # it will be compiled again
        return {name: handler.address for name, handler in handlers.items()}
