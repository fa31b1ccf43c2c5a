"""The state of a run as plain values and arrays, for checkpoints.

Policies declare which of their attributes change during a run.  Objects with ``getstate`` and ``setstate``
(kernels, policies, parts of policies) handle their own state.

`pack` converts a state to JSON values, with arrays stored separately; `unpack` is its inverse.  A checkpoint
contains no code, only the state of objects, which are created again as at the beginning of the run.
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
    """Base class of objects that save the attributes named in `STATE` in a checkpoint."""

    #: Names of all attributes that change during a run; None if the class does not declare them.
    STATE: ClassVar[tuple[str, ...] | None] = None

    def getstate(self) -> dict[str, Any]:
        """Return attribute -> value.  Raises SchedulerError if `STATE` is None."""
        if self.STATE is None:
            raise SchedulerError(
                f"{type(self).__name__} does not declare the attributes that change during a run (STATE), "
                "so its run cannot be saved in a checkpoint"
            )
        return {name: getattr(self, name) for name in self.STATE}

    def setstate(self, state: dict[str, Any]) -> None:
        """Restore a saved state.  Raises ValueError if it is the state of another kind of object."""
        check_names(self, state, self.STATE or ())
        for name, value in state.items():
            set_attribute(self, name, value)


class SavedState:
    """State of an object with ``setstate``, as read from a checkpoint."""

    def __init__(self, state: Any) -> None:
        self.state = state


def check_names(owner: Any, state: Any, names: Iterable[str]) -> None:
    """Raise ValueError unless `state` has exactly the entries `names`."""
    if not isinstance(state, dict) or set(state) != set(names):
        got = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise ValueError(
            f"the state of {type(owner).__name__} must have exactly the entries {', '.join(names)}, got {got}"
        )


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute to a value read from a checkpoint, in place if the attribute has ``setstate``.

    Raises
    ------
    ValueError
        If the value has another type than the attribute.
    """
    current = getattr(owner, name)
    if hasattr(current, "setstate") != isinstance(value, SavedState):
        raise ValueError(
            f"{type(owner).__name__}.{name} must be the state of a {type(current).__name__}, got "
            f"{type(value).__name__}"
        )
    if isinstance(value, SavedState):
        current.setstate(value.state)
        return
    if current is not None and value is not None:
        arrays = isinstance(current, np.ndarray) and isinstance(value, np.ndarray)
        if type(current) is not type(value) or (
            arrays and (current.dtype, current.ndim) != (value.dtype, value.ndim)
        ):
            raise ValueError(
                f"{type(owner).__name__}.{name} must be a {_kind(current)}, got a {_kind(value)}"
            )
    setattr(owner, name, value)


def _kind(value: Any) -> str:
    return f"{value.ndim}-d {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def pack(value: Any, save: Callable[[Array], int], path: str = "state") -> Any:
    """Return `value` as JSON values; `save` stores an array and returns its number.

    An object with ``getstate`` may be an attribute of another such object, but not an item of a list or dict.

    Parameters
    ----------
    path
        Path of the value, for errors.

    Raises
    ------
    SchedulerError
        If a value cannot be saved in a checkpoint.
    """
    if not hasattr(value, "getstate"):
        return _plain(value, save, path)
    owner = type(value).__name__
    return {"state": {k: pack(attribute, save, f"{owner}.{k}") for k, attribute in value.getstate().items()}}


def _plain(value: Any, save: Callable[[Array], int], path: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": save(np.asarray(value))}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return {"array": save(value)}
    if isinstance(value, Generator):
        return {"arrays": [save(item) for item in value]}
    if isinstance(value, np.random.Generator) and isinstance(value.bit_generator, np.random.PCG64):
        return {"generator": _plain(value.bit_generator.state, save, path)}
    if type(value) in (list, tuple, deque):
        return {type(value).__name__: [_plain(item, save, f"{path}[{k}]") for k, item in enumerate(value)]}
    if type(value) in _PLAIN_FORMS:
        key, to_plain = _PLAIN_FORMS[type(value)]
        return {key: to_plain(value)}
    if type(value) in _RECORD_CLASSES:
        key, names = _RECORD_CLASSES[type(value)]
        return {key: [_plain(getattr(value, name), save, f"{path}.{name}") for name in names]}
    if type(value) in _ATTRIBUTE_CLASSES:
        key, exclude = _ATTRIBUTE_CLASSES[type(value)]
        return {key: _plain({k: v for k, v in vars(value).items() if k not in exclude}, save, path)}
    if type(value) is set:
        return {"set": [_plain(item, save, path) for item in sorted(value)]}
    if type(value) is dict:
        places = [(key, item, f"{path}[{key!r}]") for key, item in value.items()]
        return {
            "dict": [[_plain(key, save, place), _plain(item, save, place)] for key, item, place in places]
        }
    if type(value) is SimpleNamespace or getattr(type(value), "plain", False):  # a message
        return {"SimpleNamespace": _plain(vars(value), save, path)}
    raise SchedulerError(f"{path} cannot be saved in a checkpoint, got a {type(value).__qualname__}")


def unpack(value: Any, load: Callable[[int], Array], make_set: Callable[[Iterable[Any]], Any] = set) -> Any:
    """Return the value that `pack` converted to `value`, with a `SavedState` for each object.

    Parameters
    ----------
    load
        Function that returns an array by its number.
    make_set
        Function that returns a set of items, which it gets in ascending order.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the value is no output of `pack`.
    """
    sequences = {**_SEQUENCES, "set": make_set}

    def of(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind in ("array", "scalar"):
            return load(content) if kind == "array" else load(content)[()]
        if kind == "arrays":
            return map(load, content)
        if kind == "state":
            return SavedState({name: of(entry) for name, entry in content.items()})
        if kind == "dict":
            return {of(key): of(entry) for key, entry in content}
        if kind in _FACTORIES:
            return _FACTORIES[kind](of(content))
        return sequences[kind](of(entry) for entry in content)

    return of(value)


def copy_state(source: Any, target: Any) -> None:
    """Copy the state of an object to another object of the same kind, by `pack` and `unpack`."""
    arrays: list[Array] = []

    def save(array: Array) -> int:
        arrays.append(array)
        return len(arrays) - 1

    target.setstate(unpack(pack(source, save), lambda number: arrays[number].copy()).state)


def _generator(state: Any) -> np.random.Generator:
    bits = np.random.PCG64()
    bits.state = state
    return np.random.Generator(bits)


_FACTORIES: dict[str, Callable[[Any], Any]] = {
    "generator": _generator,
    "SimpleNamespace": lambda fields: SimpleNamespace(**fields),
}
_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
}
#: Class of records that a checkpoint may contain -> its name in the checkpoint, and the names of its fields.
_RECORD_CLASSES: dict[type, tuple[str, tuple[str, ...]]] = {}

#: Class whose objects' attributes are saved in checkpoints -> its name there, and the attributes left out.
_ATTRIBUTE_CLASSES: dict[type, tuple[str, tuple[str, ...]]] = {}

#: Class of other objects that a checkpoint may contain -> its name there, and a function that returns JSON
#: values from which an object with the same content can be made.
_PLAIN_FORMS: dict[type, tuple[str, Callable[[Any], Any]]] = {}


def keep_in_checkpoints(cls: type, to_plain: Callable[[Any], Any], from_plain: Callable[[Any], Any]) -> None:
    """Allow instances of `cls` in checkpoints.

    Parameters
    ----------
    to_plain
        Returns JSON values for an instance.
    from_plain
        Returns an instance for these values; raises ValueError, TypeError or KeyError for others.
    """
    _PLAIN_FORMS[cls] = cls.__name__, to_plain
    _FACTORIES[cls.__name__] = from_plain


def keep_attributes(cls: Any, *exclude: str) -> None:
    """Allow instances of `cls` in checkpoints, which save their attributes except those to `exclude`."""
    key = f"{cls.__module__}.{cls.__qualname__}"

    def rebuild(attributes: dict[str, Any]) -> Any:
        instance = cls.__new__(cls)
        vars(instance).update(attributes)
        return instance

    _ATTRIBUTE_CLASSES[cls] = key, exclude
    _FACTORIES[key] = rebuild


Record = TypeVar("Record")


def kept_in_checkpoints(cls: type[Record]) -> type[Record]:
    """Allow instances of a named tuple class or dataclass in checkpoints; a class decorator."""
    key, kind = f"{cls.__module__}.{cls.__qualname__}", cast(Any, cls)
    names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    _RECORD_CLASSES[cls] = key, tuple(names)
    _SEQUENCES[key] = lambda fields: cls(*fields)
    return cls
