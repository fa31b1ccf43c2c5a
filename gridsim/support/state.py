"""The state of a run as plain values and arrays: policies declare which of their attributes change.

Objects with ``getstate`` and ``setstate`` handle their own state: kernels, policies, parts of policies.
`packed` turns a state into JSON values, with arrays stored separately; `unpacked` reverses it.  A checkpoint
contains no code: only the state of objects is kept, and the objects are made anew, as at the beginning of the
run.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterable
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import SchedulerError

Array = NDArray[Any]


class Stateful:
    """Base class of objects that keep the attributes named in `STATE` in a checkpoint."""

    #: Names of all attributes that change during a run; None if the class does not declare them.
    STATE: ClassVar[tuple[str, ...] | None] = None

    def getstate(self) -> dict[str, Any]:
        """Return the state to keep, by name.  Raises SchedulerError if `STATE` is None."""
        if self.STATE is None:
            raise SchedulerError(
                f"{type(self).__name__} does not say what of it changes while it runs (STATE), "
                "so that the run cannot be kept in a checkpoint"
            )
        return {name: getattr(self, name) for name in self.STATE}

    def setstate(self, state: dict[str, Any]) -> None:
        """Restore a kept state.  Raises ValueError if it is the state of another kind of object."""
        check_names(self, state, self.STATE or ())
        for name, value in state.items():
            put(self, name, value)


class Kept:
    """The state of an object with ``setstate``, as read from a checkpoint."""

    def __init__(self, state: Any) -> None:
        self.state = state


def check_names(owner: Any, state: Any, names: Iterable[str]) -> None:
    """Raise ValueError unless `state` has exactly the entries `names`."""
    if not isinstance(state, dict) or set(state) != set(names):
        got = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise ValueError(f"the state of {type(owner).__name__} must be {', '.join(names)}, got {got}")


def put(owner: Any, name: str, value: Any) -> None:
    """Set an attribute to a value read from a checkpoint, in place if the attribute has ``setstate``.

    Raises ValueError if the value has another type than the attribute.
    """
    now = getattr(owner, name)
    if hasattr(now, "setstate") != isinstance(value, Kept):
        raise ValueError(f"{type(owner).__name__}.{name} must have the state of {type(now).__name__}")
    if isinstance(value, Kept):
        now.setstate(value.state)
        return
    if now is not None and value is not None:
        arrays = isinstance(now, np.ndarray) and isinstance(value, np.ndarray)
        if type(now) is not type(value) or (arrays and (now.dtype, now.ndim) != (value.dtype, value.ndim)):
            raise ValueError(f"{type(owner).__name__}.{name} must be a {_kind(now)}, got a {_kind(value)}")
    setattr(owner, name, value)


def _kind(value: Any) -> str:
    return f"{value.ndim}-d {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def packed(value: Any, save: Callable[[Array], int], what: str = "state") -> Any:
    """Return `value` as JSON values; `save` stores an array and returns its number.

    An object with a state of its own may be an attribute of another such object, but not an item of a list or
    dict.

    Raises SchedulerError for a value that cannot be kept; `what` is the path to it in the message.
    """
    if not hasattr(value, "getstate"):
        return _plain(value, save, what)
    owner = type(value).__name__
    return {"state": {k: packed(each, save, f"{owner}.{k}") for k, each in value.getstate().items()}}


def _plain(value: Any, save: Callable[[Array], int], what: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": save(np.asarray(value))}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return {"array": save(value)}
    if isinstance(value, Generator):
        return {"arrays": [save(each) for each in value]}
    if isinstance(value, np.random.Generator) and isinstance(value.bit_generator, np.random.PCG64):
        return {"generator": _plain(value.bit_generator.state, save, what)}
    if type(value) in (list, tuple, deque):
        return {type(value).__name__: [_plain(each, save, f"{what}[{k}]") for k, each in enumerate(value)]}
    if type(value) in _KEPT:
        key, names = _KEPT[type(value)]
        return {key: [_plain(getattr(value, name), save, f"{what}.{name}") for name in names]}
    if type(value) is set:
        return {"set": [_plain(each, save, what) for each in sorted(value)]}
    if type(value) is dict:
        places = [(key, each, f"{what}[{key!r}]") for key, each in value.items()]
        return {"dict": [[_plain(key, save, at), _plain(each, save, at)] for key, each, at in places]}
    if type(value) is SimpleNamespace or getattr(type(value), "plain", False):  # the latter is a message
        return {"SimpleNamespace": _plain(vars(value), save, what)}
    raise SchedulerError(f"{what} cannot be kept in a checkpoint: it is a {type(value).__qualname__}")


def unpacked(value: Any, load: Callable[[int], Array], made_set: Callable[[Iterable[Any]], Any] = set) -> Any:
    """Return the value that `packed` was given, with `Kept` for objects; `load` gets an array by its number.

    A value that cannot have come from `packed` raises ValueError, TypeError or KeyError.

    Parameters
    ----------
    made_set
        Makes a set of its items, which come in ascending order.
    """
    sequences = {**_SEQUENCES, "set": made_set}

    def of(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind in ("array", "scalar"):
            return load(content) if kind == "array" else load(content)[()]
        if kind == "arrays":
            return map(load, content)
        if kind == "state":
            return Kept({name: of(each) for name, each in content.items()})
        if kind == "dict":
            return {of(key): of(each) for key, each in content}
        if kind in _MADE:
            return _MADE[kind](of(content))
        return sequences[kind](of(each) for each in content)

    return of(value)


def _generator(state: Any) -> np.random.Generator:
    bits = np.random.PCG64()
    bits.state = state
    return np.random.Generator(bits)


_MADE: dict[str, Callable[[Any], Any]] = {
    "generator": _generator,
    "SimpleNamespace": lambda fields: SimpleNamespace(**fields),
}
_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
}
#: Classes of records that a checkpoint may hold, with their names in it and the names of their fields.
_KEPT: dict[type, tuple[str, tuple[str, ...]]] = {}

Record = TypeVar("Record")


def kept_in_checkpoints(cls: type[Record]) -> type[Record]:
    """Class decorator that allows values of a named tuple class or a dataclass to be kept in checkpoints."""
    key, kind = f"{cls.__module__}.{cls.__qualname__}", cast(Any, cls)
    names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    _KEPT[cls] = key, tuple(names)
    _SEQUENCES[key] = lambda fields: cls(*fields)
    return cls
