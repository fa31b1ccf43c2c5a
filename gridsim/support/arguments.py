"""Checks of user input.

Each check takes a configuration path, such as ``"workload.tasks"``, and a value, and returns the value in the
expected type.  For a wrong value it raises ScenarioError, with the path, the condition and the value.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec
import numpy as np

from gridcore.common.names import closest as closest
from gridcore.common.names import listed as listed
from gridsim.errors import ScenarioError
from gridsim.support import units

if TYPE_CHECKING:
    from inspect import Parameter

_Kind = TypeVar("_Kind", bound=type)
_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")
#: Whole numbers in a scenario must be less than this, as in TOML and int64.
INTEGER_LIMIT = 2**63


def hint(known: Iterable[Any], value: Any) -> str:
    """Return ``"; did you mean ...?"`` with the known string closest to `value`; "" if none is close."""
    close = closest(map(str, known), value) if isinstance(value, str) else ""
    return f"; {close.strip()}" if close else ""


def check_names(function: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise ScenarioError for the first of `names` that is no `known` argument of a function."""
    for name in names:
        if name not in known:
            raise ScenarioError(f"{function} has no argument {name!r}{hint(known, name)}")


def suggest_arguments(function: Callable[_Parameters, _Value]) -> Callable[_Parameters, _Value]:
    """Return a function that raises ScenarioError for unknown and missing arguments."""

    @functools.wraps(function)
    def wrapper(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Value:
        try:
            return function(*args, **kwargs)
        except TypeError:
            from inspect import signature  # takes long

            try:
                signature(function).bind(*args, **kwargs)
            except TypeError as error:
                _check_call(
                    function.__name__, [*signature(function).parameters.values()], args, kwargs, error
                )
            raise

    return wrapper


def _check_call(
    function: str,
    parameters: Sequence[Parameter],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: TypeError,
) -> None:
    """Raise ScenarioError for the first argument of a call that is unknown or missing."""
    named = [each.name for each in parameters if each.kind != each.VAR_KEYWORD]
    unknown = [name for name in kwargs if name not in named]
    if len(named) == len(parameters):
        check_names(function, unknown, named)
    required = [each.name for each in parameters if each.name in named and each.default is each.empty]
    if missing := [name for name in required[len(args) :] if name not in kwargs]:
        others = f", got {', '.join(unknown)}" if unknown else ""
        raise ScenarioError(f"{function} requires {missing[0]}{others}") from error


def unknown_name_error(kind: str, name: object, known: Iterable[str]) -> KeyError:
    """Return the error for an unknown `name` of a `kind`, with the closest known name and all names."""
    return KeyError(f"no {kind} {name!r}; {listed(known, name)}")


class SuggestingDict(dict[str, Any]):
    """A dict whose KeyError suggests the closest known name.

    Parameters
    ----------
    kind
        Kind of thing that a key names, such as "table".
    """

    def __init__(self, kind: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        raise unknown_name_error(self.kind, name, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, dict(self))


def integer(path: str, value: Any, *, low: int = 0, high: int = INTEGER_LIMIT - 1) -> int:
    """Return `value` as an int in low..high, or raise a ScenarioError naming `path`."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    unbounded = high == INTEGER_LIMIT - 1 and not (isinstance(value, int) and value > high)
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

    A string with a compatible unit, such as "50 ms" for s, is converted to a number in `unit`.
    """
    argument, accepted = value, ""
    if isinstance(value, str) and unit:
        value, accepted = units.number(value, unit), units.accepted_units(unit)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        good = not math.isnan(number) and (math.isfinite(number) or not finite)
        if good and (above is None or number > above) and (low is None or number >= low):
            return number + 0.0  # turns -0.0 into 0.0, since numpy rejects -0.0 as negative
    bound = f" > {above:g}" if above is not None else f" >= {low:g}" if low is not None else ""
    expected = f"a {'finite ' if finite else ''}number{bound}{' ' + unit if unit else ''}"
    raise ScenarioError(f"{path} must be {expected}, got {short_repr(argument)}{accepted}")


def one_of(path: str, value: Any, known: tuple[str, ...]) -> str:
    """Return `value` if it is one of the `known` strings, or raise a ScenarioError naming `path`."""
    if isinstance(value, str) and value in known:
        return str(value)  # np.str_ becomes str
    names = ", ".join(name or "''" for name in known)
    raise ScenarioError(f"{path} must be one of {names}, got {short_repr(value)}{hint(known, value)}")


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
    condition = (
        "a string without null characters" if value and isinstance(value, str) else "a non-empty string"
    )
    raise ScenarioError(f"{path} must be {condition}, got {short_repr(value)}")


def is_scalar(value: Any) -> bool:
    """Return whether `value` is a single value for NumPy, which also counts buffers of many values as one."""
    return np.isscalar(value) and not isinstance(value, memoryview)


def entries_of(values: Iterable[Any]) -> list[Any]:
    """Return the entries of an iterable; those of an array or buffer are Python values, or lists of them."""
    if not isinstance(values, (np.ndarray, memoryview)):
        return list(values)
    plain = values.tolist()
    return plain if values.ndim else [plain]


def sequence(path: str, values: Any) -> list[Any]:
    """Return `values` as a list of Python values, or raise a ScenarioError naming `path`."""
    if isinstance(values, (np.ndarray, memoryview)):
        if values.ndim:
            plain: list[Any] = values.tolist()  # nested if the array has several dimensions
            return plain
        raise ScenarioError(f"{path} must be a list of numbers, got an array of 0 dimensions")
    if isinstance(values, Iterable) and not isinstance(
        values, (str, bytes, Set, Mapping)
    ):  # these types have no order
        return list(values)
    raise ScenarioError(f"{path} must be a list of numbers, got {short_repr(values)}")


def short_repr(value: Any) -> str:
    """Return the repr of `value` for a message, cut to 60 characters."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python limits the digits of an int in a string
        text = f"a number of {value.bit_length()} bits"
    return text if len(text) <= 60 else text[:57] + "..."


def normalise(recipe: msgspec.Struct, **values: Any) -> None:
    """Replace fields of a frozen recipe by their checked values; call it only in ``__post_init__``."""
    for name, value in values.items():
        msgspec.structs.force_setattr(recipe, name, value)
