"""What a sweep came to: tables of its cells, and statistics of its points."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError, one_line
from gridsim.results.metrics.registry import UNITS
from gridsim.results.table import Table
from gridsim.studies.execution.cell import Measured
from gridsim.studies.replicate import Replicates, arranged
from gridsim.support.extras import need
from gridsim.support.text import align, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns of the table of cells, besides axes and metrics.
COLUMNS = ("scheduler", "replicate", "digest", "error", "wall_seconds")
#: Label of each axis.
Point = dict[str, Any]
#: The first whole number that no column holds.
_COUNTED = 1 << 63


def label_of(value: Any) -> Any:
    """What a value of an axis is called: numbers and texts as they are, others as JSON.

    Whole numbers that no column holds are called as floats.  TypeError for what is no plain value,
    OverflowError for a number that is no float either.
    """
    value = plain(value)
    if isinstance(value, int) and not -_COUNTED <= value < _COUNTED:
        return float(value)
    return value if isinstance(value, (str, int, float)) else json.dumps(value, sort_keys=True)


def as_column(labels: Sequence[Any]) -> list[Any]:
    """Labels as a column holds them: all as numbers, or all as texts."""
    if all(isinstance(label, (int, float)) for label in labels):
        return list(np.array(labels).tolist())
    return [str(label).rstrip("\0") for label in labels]


def column_of(axis: str) -> str:
    """An axis as the name of a column, which is of ASCII."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", axis)
    return name if not name[:1].isdigit() else f"_{name}"


def _unit(name: str) -> dict[str, str]:
    return {"units": UNITS[name]} if name in UNITS else {}


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    axes : axis -> its labels; the points are all combinations, those of the last axis next to one another.
    schedulers, replicates : names, and how many, of each point.
    metrics : what was measured; schedulers are compared by the first.  baseline : who with, or None.
    measured : of each cell: point after point, of each replica after replica, of each the schedulers in
        order.
    """

    axes: Mapping[str, tuple[Any, ...]]
    schedulers: tuple[str, ...]
    replicates: int
    metrics: tuple[str, ...]
    baseline: str | None
    measured: Sequence[Measured]

    def points(self) -> Iterator[Point]:
        """The labels of each point."""
        for labels in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, labels, strict=True))

    @property
    def errors(self) -> list[str]:
        """Why cells failed, each reason once."""
        return list(dict.fromkeys(each.error for each in self.measured if each.error))

    def table(self) -> Table:
        """A row a cell: its point, scheduler, replicate, digest, error, wall_seconds, and the metrics."""
        rows, width = len(self.measured), len(self.schedulers)
        per_point = self.replicates * width
        points = list(self.points())
        columns: dict[str, Any] = {}
        for axis in self.axes:
            columns[column_of(axis)] = np.repeat([labels[axis] for labels in points], per_point)
        columns["scheduler"] = np.tile(self.schedulers, rows // width)
        columns["replicate"] = np.tile(np.repeat(np.arange(self.replicates), width), len(points))
        columns["digest"] = [each.digest for each in self.measured]
        columns["error"] = [each.error for each in self.measured]
        columns["wall_seconds"] = [each.wall_seconds for each in self.measured]
        for metric in self.metrics:
            columns[metric] = [each.values.get(metric, np.nan) for each in self.measured]
        return Table(columns)

    def to_pandas(self) -> Any:
        """`table` as a pandas DataFrame."""
        return self.table().to_pandas()

    def to_arrow(self) -> Any:
        """`table` as a pyarrow Table."""
        return self.table().to_arrow()

    def to_xarray(self) -> Any:
        """An xarray Dataset: a dimension an axis, then scheduler and replicate; a variable a metric, and the
        digest."""
        xarray = need("xarray", "data", "to_xarray")
        table = self.table()
        dims = [*map(column_of, self.axes), "scheduler", "replicate"]
        coords = {column_of(axis): list(labels) for axis, labels in self.axes.items()}
        coords |= {"scheduler": list(self.schedulers), "replicate": list(range(self.replicates))}
        shape = [*map(len, self.axes.values()), self.replicates, len(self.schedulers)]
        variables = {
            name: (dims, np.swapaxes(table[name].reshape(shape), -1, -2), _unit(name))
            for name in (*self.metrics, "wall_seconds", "digest")
        }
        return xarray.Dataset(variables, coords)

    def at(self, **labels: Any) -> Replicates:
        """The replicates of one point, with means, ratios and their intervals; labels of all axes that have
        more than one, with ``_`` in their names for what is no letter (of ASCII) or digit.

        Raises ScenarioError where that is no point.
        """
        wanted = {axis: self._label(axis, labels) for axis in self.axes}
        if labels:
            raise ScenarioError(f"at: no axis {next(iter(labels))!r}; axes: {', '.join(self.axes)}")
        for number, point in enumerate(self.points()):
            if point == wanted:
                return self._at(number)
        raise ScenarioError(f"at: no point {wanted}")

    def _label(self, axis: str, labels: dict[str, Any]) -> Any:
        known = self.axes[axis]
        name = column_of(axis)
        if name not in labels and len(known) == 1:
            return known[0]
        if name not in labels:
            raise ScenarioError(f"at: {name} must be given, one of {', '.join(map(repr, known))}")
        if (label := label_of(labels.pop(name))) not in known:
            raise ScenarioError(f"at: {name} must be one of {', '.join(map(repr, known))}, got {label!r}")
        return label

    def _at(self, number: int) -> Replicates:
        size = self.replicates * len(self.schedulers)
        made = self.measured[number * size : (number + 1) * size]
        numbers = tuple(range(self.replicates))
        return arranged(made, self.schedulers, numbers, self.metrics, self.baseline)

    def each(self) -> Iterator[tuple[Point, Replicates]]:
        """The labels and the replicates of each point."""
        for number, labels in enumerate(self.points()):
            yield labels, self._at(number)

    def format(self) -> str:
        """A line a point and scheduler: the mean of the first metric, and its ratio to the baseline."""
        metric, base = self.metrics[0], self.baseline
        heads = [*map(str, self.axes), "scheduler", metric, *([] if base is None else [f"to {base}"])]
        rows = []
        for labels, found in self.each():
            for name in self.schedulers:
                row = [*map(str, labels.values()), name, found.mean(name, metric).format()]
                if base is not None:
                    row.append(found.relative(name, base, metric))
                rows.append(row)
        columns = [[head, *column] for head, column in zip(heads, zip(*rows, strict=True), strict=True)]
        unit = f" ({UNITS[metric]})" if metric in UNITS else ""
        lines = [f"{metric}{unit}, mean over {self.replicates} replicas", *align(columns, left=len(heads))]
        lines += [f"failed: {one_line(error)}" for error in self.errors]
        return "\n".join(lines)

    __str__ = format

    def figure(self) -> Figure:
        """The first metric over the first axis, a panel for each point of the others.

        Raises ScenarioError for more than 6 of these, ImportError without matplotlib.
        """
        from gridsim.studies.figures import of_sweep

        return of_sweep(self)

    def to_dict(self) -> dict[str, Any]:
        """Axes, cells, and means with their intervals, as plain values."""
        return {
            "axes": {axis: list(labels) for axis, labels in self.axes.items()},
            "schedulers": list(self.schedulers),
            "replicates": self.replicates,
            "baseline": self.baseline,
            "units": {metric: UNITS[metric] for metric in self.metrics if metric in UNITS},
            "cells": list(self.table().rows()),
            "points": [
                {"point": labels, "means": said["means"], "ratios": said["ratios"]}
                for labels, said in ((labels, found.to_dict()) for labels, found in self.each())
            ],
        }
