"""Checks of what a user gives: one line with the configuration path, what was expected and what was given.

Each takes the path, say ``"workload.tasks"``, and the value, returns the value as the type that is meant, and
raises ScenarioError for what it cannot be.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Set
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError

#: Whole numbers in a scenario stay below this (what TOML and int64 hold).
WHOLE_LIMIT = 2**63


def whole(path: str, value: Any, *, low: int = 0, high: int = WHOLE_LIMIT - 1) -> int:
    """`value` as an int, or a ScenarioError naming `path`."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    unbounded = high == WHOLE_LIMIT - 1 and not (isinstance(value, int) and value > high)
    bounds = f">= {low}" if unbounded else f"in {low}..{high}"
    raise ScenarioError(f"{path} must be a whole number {bounds}, got {shown(value)}")


def real(
    path: str,
    value: Any,
    *,
    above: float | None = None,
    low: float | None = None,
    unit: str = "",
    finite: bool = True,
) -> float:
    """`value` as a float > `above` and >= `low`, or a ScenarioError naming `path`."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        good = not math.isnan(number) and (math.isfinite(number) or not finite)
        if good and (above is None or number > above) and (low is None or number >= low):
            return number + 0.0  # of -0.0 numpy says that it is below 0
    bound = f" > {above:g}" if above is not None else f" >= {low:g}" if low is not None else ""
    expected = f"a {'finite ' if finite else ''}number{bound}{' ' + unit if unit else ''}"
    raise ScenarioError(f"{path} must be {expected}, got {shown(value)}")


def one_of(path: str, value: Any, known: tuple[str, ...]) -> str:
    """`value` if it is one of the `known` texts, or a ScenarioError naming `path`."""
    if isinstance(value, str) and value in known:
        return str(value)  # of numpy's texts, too
    raise ScenarioError(f"{path} must be one of {known}, got {shown(value)}")


def flag(path: str, value: Any) -> bool:
    """`value` as a bool, or a ScenarioError naming `path`."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ScenarioError(f"{path} must be true or false, got {shown(value)}")


def text(path: str, value: Any) -> str:
    """`value` as a non-empty str that can name a file, or a ScenarioError naming `path`."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise ScenarioError(f"{path} must be a non-empty text, got {shown(value)}")


def sequence(path: str, values: Any) -> list[Any]:
    """`values` as a list of plain numbers, or a ScenarioError naming `path`."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        plain: list[Any] = values.tolist()
        return plain
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Set, Mapping)):  # in their order
        return list(values)
    raise ScenarioError(f"{path} must be a list of numbers, got {shown(values)}")


def shown(value: Any) -> str:
    """`value` for a message, in at most 60 characters."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # more digits than Python spells out
        text = f"a number of {value.bit_length()} bits"
    return text if len(text) <= 60 else text[:57] + "..."


def normalise(recipe: msgspec.Struct, **values: Any) -> None:
    """Set checked fields of a frozen recipe, in its ``__post_init__`` only."""
    for name, value in values.items():
        msgspec.structs.force_setattr(recipe, name, value)
