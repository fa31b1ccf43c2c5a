"""Points of a sweep: the labels of its axes, as texts and columns, and the variants of schedulers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsim.support.text import plain

#: A point of a sweep: axis -> label.
Point = dict[str, Any]
#: The smallest whole number that is too large for an int64 column.
_INT64_LIMIT = 1 << 63


def label_text(label: Any) -> str:
    """Return a label as text; None, which removes an entry, is "none"."""
    return "none" if label is None else str(label)


def point_text(labels: Mapping[str, Any]) -> str:
    """Return a point as text, such as "bound = 4, load = light"."""
    return ", ".join(f"{axis} = {label_text(label)}" for axis, label in labels.items())


def label_of(value: Any) -> Any:
    """Return the label of a value of an axis: a number, a text or None as it is, another value as JSON.

    A whole number that is too large for a column becomes a float.

    Raises TypeError for a value that is not plain, OverflowError for a number that is too large for a float.
    """
    value = plain(value)
    if isinstance(value, int) and not -_INT64_LIMIT <= value < _INT64_LIMIT:
        return float(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return json.dumps(value, sort_keys=True)


def as_column(labels: Sequence[Any], *, numeric: bool | None = None) -> list[Any]:
    """Return labels as a column holds them: all as numbers, where None is NaN, or all as texts.

    Parameters
    ----------
    numeric
        Whether they are numbers; None if that depends on them.
    """
    if are_numbers(labels) if numeric is None else numeric:
        column: list[Any] = np.array([math.nan if label is None else label for label in labels]).tolist()
        return column
    return [label_text(label).rstrip("\0") for label in labels]  # as numpy stores texts


def are_numbers(labels: Sequence[Any]) -> bool:
    """Return whether labels are numbers or None, and not all are None."""
    known = [label for label in labels if label is not None]
    return bool(known) and all(isinstance(label, (int, float)) for label in known)


def has_repetition(labels: Sequence[Any]) -> bool:
    """Return whether two labels are the same in a column."""
    column = as_column(labels)
    known = [label for label in column if label == label]  # NaN differs from itself
    return len({*known}) < len(known) or len(labels) - len(known) > 1


def column_of(axis: str) -> str:
    """Return the column name of an axis: ASCII letters, digits and ``_``, not beginning with a digit."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", axis)
    return name if not name[:1].isdigit() else f"_{name}"


class Variant(NamedTuple):
    """A scheduler with the labels of the axes that change it, in the order of the axes."""

    scheduler: str
    labels: tuple[tuple[str, Any], ...]

    def text(self, axes: Sequence[str], *, full: bool = False) -> str:
        """Return the scheduler with its labels of some axes, such as "power-of-d choices=2".

        Parameters
        ----------
        full
            Whether to write the paths of parameters.
        """
        labels = (
            (axis if full else axis.rpartition(".")[2], label) for axis, label in self.labels if axis in axes
        )
        return " ".join([self.scheduler, *(f"{axis}={label_text(label)}" for axis, label in labels)])
