"""Checks of values that a user gives.

Each check takes a configuration path, such as ``"workload.tasks"``, and a value, and returns the value in the
expected type.  It raises ScenarioError for a wrong value: one line with the path, what was expected and what
was given.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeVar

import msgspec
import numpy as np

from gridcore.common.names import closest as closest
from gridcore.common.names import listed as listed
from gridsim.errors import ScenarioError
from gridsim.support import units

_Kind = TypeVar("_Kind", bound=type)
#: Whole numbers in a scenario are below this; it is the limit of TOML and int64.
WHOLE_LIMIT = 2**63


def hint(known: Iterable[Any], given: Any) -> str:
    """Return ``"; did you mean ...?"`` with the known text that is closest to `given`, or nothing."""
    close = closest(map(str, known), given) if isinstance(given, str) else ""
    return f"; {close.strip()}" if close else ""


def unknown(what: str, name: object, known: Iterable[str]) -> KeyError:
    """Return the error for a name that does not exist; it has the closest known name, and all of them."""
    return KeyError(f"no {what} {name!r}; {listed(known, name)}")


class SuggestingDict(dict[str, Any]):
    """A dict whose KeyError says which known name is closest.

    Parameters
    ----------
    what
        What a key names, such as "table".
    """

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.what = what

    def __missing__(self, name: str) -> Any:
        raise unknown(self.what, name, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, dict(self))


def suggest_arguments(kind: _Kind) -> _Kind:
    """Make the class methods of a class say which argument is closest to one that they do not have."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(_suggesting(member.__func__)))
    return kind


def _suggesting(function: Any) -> Any:
    @functools.wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        known = list(inspect.signature(function).parameters)[1:] if given else []
        for name in given:
            if name not in known:
                raise TypeError(f"{function.__qualname__}() has no argument {name!r}; {listed(known, name)}")
        return function(*args, **given)

    return called


def whole(path: str, value: Any, *, low: int = 0, high: int = WHOLE_LIMIT - 1) -> int:
    """Return `value` as an int in low..high, or raise a ScenarioError naming `path`."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    unbounded = high == WHOLE_LIMIT - 1 and not (isinstance(value, int) and value > high)
    bounds = f">= {low}" if unbounded else f"in {low}..{high}"
    raise ScenarioError(f"{path} must be a whole number {bounds}, got {short_repr(value)}")


def real(
    path: str,
    value: Any,
    *,
    above: float | None = None,
    low: float | None = None,
    unit: str = "",
    finite: bool = True,
) -> float:
    """Return `value` as a float > `above` and >= `low`, or raise a ScenarioError naming `path`.

    A text with a unit that fits `unit`, such as "50 ms" for s, is taken for the number that it stands for.
    """
    given, texts = value, ""
    if isinstance(value, str) and unit:
        value, texts = units.number(value, unit), units.said(unit)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        good = not math.isnan(number) and (math.isfinite(number) or not finite)
        if good and (above is None or number > above) and (low is None or number >= low):
            return number + 0.0  # turns -0.0 into 0.0, as numpy takes -0.0 for negative
    bound = f" > {above:g}" if above is not None else f" >= {low:g}" if low is not None else ""
    expected = f"a {'finite ' if finite else ''}number{bound}{' ' + unit if unit else ''}"
    raise ScenarioError(f"{path} must be {expected}, got {short_repr(given)}{texts}")


def one_of(path: str, value: Any, known: tuple[str, ...]) -> str:
    """Return `value` if it is one of the `known` texts, or raise a ScenarioError naming `path`."""
    if isinstance(value, str) and value in known:
        return str(value)  # numpy's texts become str
    raise ScenarioError(f"{path} must be one of {known}, got {short_repr(value)}{hint(known, value)}")


def flag(path: str, value: Any) -> bool:
    """Return `value` as a bool, or raise a ScenarioError naming `path`."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ScenarioError(f"{path} must be true or false, got {short_repr(value)}")


def text(path: str, value: Any) -> str:
    """Return `value` as a non-empty str that can name a file, or raise a ScenarioError naming `path`."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise ScenarioError(f"{path} must be a non-empty text, got {short_repr(value)}")


def sequence(path: str, values: Any) -> list[Any]:
    """Return `values` as a list, or raise a ScenarioError naming `path`; an array becomes plain numbers."""
    if isinstance(values, (np.ndarray, memoryview)):
        if values.ndim:
            plain: list[Any] = values.tolist()  # of lists, if it has several dimensions
            return plain
        raise ScenarioError(f"{path} must be a list of numbers, got an array without dimensions")
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Set, Mapping)):  # in their order
        return list(values)
    raise ScenarioError(f"{path} must be a list of numbers, got {short_repr(values)}")


def short_repr(value: Any) -> str:
    """Return `value` as text for a message, at most 60 characters."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # more digits than Python spells out
        text = f"a number of {value.bit_length()} bits"
    return text if len(text) <= 60 else text[:57] + "..."


def normalise(recipe: msgspec.Struct, **values: Any) -> None:
    """Set checked fields of a frozen recipe; for use in its ``__post_init__`` only."""
    for name, value in values.items():
        msgspec.structs.force_setattr(recipe, name, value)
