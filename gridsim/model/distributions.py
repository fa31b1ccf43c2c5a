"""Amounts that a recipe states: one number for all, a list, or a range from which each is drawn."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.support.arguments import real, sequence
from gridsim.support.arrays import Floats
from gridsim.support.columns import FloatColumn
from gridsim.support.random_streams import Streams


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A uniform distribution from `low` to `high`.

    Parameters
    ----------
    low
        Smallest value.
    high
        Largest value.
    """

    low: float
    high: float


Amount = float | Range | tuple[float, ...]


def checked_amount(path: str, given: Any, what: str, **limits: Any) -> Amount:
    """Return an amount checked; `what` is the word for an entry of a list, `limits` are those of `real`."""
    if isinstance(given, Range):
        low = real(f"{path}.low", given.low, **limits)
        return Range(low, real(f"{path}.high", given.high, low=low, unit=limits["unit"]))
    if isinstance(given, (list, tuple)):
        if not given:
            raise ScenarioError(
                f"{path} must list at least one {what} in {limits['unit']}, got an empty list"
            )
        return tuple(real(f"{path}[{i}]", value, **limits) for i, value in enumerate(given))
    return real(path, given, **limits)


def amount_of(path: str, given: Any, **limits: Any) -> Amount:
    """Return what a constructor was given as an amount: a tuple (low, high) is a range, a list is one."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ScenarioError(f"{path} must be a number, (low, high) or a list, got {given!r}")
        return Range(*given)
    if isinstance(given, (int, float, np.number, str)):
        return real(path, given, **limits)
    return tuple(sequence(path, given))


def largest(amount: Amount | FloatColumn) -> float:
    """Return the largest value that an amount, or an entry of a column, may have."""
    return amount.high if isinstance(amount, Range) else float(np.max(amount))


def drawn(amount: Amount, streams: Streams, name: str, count: int) -> Floats:
    """Return `count` amounts: of a range or of the entries of a list, all equally likely.

    They are drawn from the stream `name`, which a single number does not need.
    """
    if isinstance(amount, Range):
        return streams(name).uniform(amount.low, amount.high, count)
    if not isinstance(amount, tuple):
        return np.full(count, amount, np.float64)
    classes = np.array(amount)
    found: Floats = classes[streams(name).integers(len(classes), size=count)]
    return found
