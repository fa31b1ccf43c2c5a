"""Amounts in recipes: one number for all applications or machines, a list of numbers, or a range."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.support.arguments import is_scalar, real, sequence
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


def check_amount(path: str, amount: Any, noun: str, **limits: Any) -> Amount:
    """Return `amount` if its numbers are within limits, or raise ScenarioError.

    Parameters
    ----------
    path
        Path of the amount in errors.
    amount
        A number, a `Range`, or a list or tuple of numbers.
    noun
        The word for an entry of a list in errors.
    limits
        Limits of each number, as keyword arguments of `real`.
    """
    if isinstance(amount, Range):
        low = real(f"{path}.low", amount.low, **limits)
        return Range(low, real(f"{path}.high", amount.high, low=low, unit=limits["unit"]))
    if isinstance(amount, (list, tuple)):
        if not amount:
            raise ScenarioError(f"{path} must have at least one {noun}, got an empty list")
        return tuple(real(f"{path}[{i}]", value, **limits) for i, value in enumerate(amount))
    return real(path, amount, **limits)


def amount_of(path: str, argument: Any) -> Amount:
    """Convert an argument of a constructor to an amount; a tuple (low, high) becomes a `Range`."""
    if isinstance(argument, tuple):
        if len(argument) != 2:
            raise ScenarioError(f"{path} must be a number, a tuple (low, high) or a list, got {argument!r}")
        return Range(*argument)
    if is_scalar(argument) or isinstance(argument, Range):
        return argument  # type: ignore[no-any-return]  # a recipe checks it, and converts units
    return tuple(sequence(path, argument))


def largest(amount: Amount | FloatColumn) -> float:
    """Return the largest value of an amount or of a column."""
    return amount.high if isinstance(amount, Range) else float(np.max(amount))


def mean_amount(amount: Amount) -> float:
    """Return the mean of the values that are drawn from an amount."""
    return (amount.low + amount.high) / 2 if isinstance(amount, Range) else float(np.mean(amount))


def draw_amounts(amount: Amount, streams: Streams, name: str, count: int) -> Floats:
    """Draw `count` values: uniformly from a range, or from the entries of a list, all equally likely.

    They are drawn from the random stream `name`; a single number is repeated without a draw.
    """
    if isinstance(amount, Range):
        return streams(name).uniform(amount.low, amount.high, count)
    if not isinstance(amount, tuple):
        return np.full(count, amount, np.float64)
    classes = np.array(amount)
    values: Floats = classes[streams(name).integers(len(classes), size=count)]
    return values
