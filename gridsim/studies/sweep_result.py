"""Results of a sweep: the table of its runs, and statistics for each of its points."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError, one_line
from gridsim.results.metrics.registry import UNITS, heading
from gridsim.results.table import Table
from gridsim.studies.execution.cell import Measured
from gridsim.studies.replicate import Replicates, arranged
from gridsim.studies.verdicts import of_points
from gridsim.support import html
from gridsim.support.extras import import_extra
from gridsim.support.text import WIDTH, align, plain, wrap_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns of the table of runs, besides axes and metrics.
COLUMNS = ("scheduler", "replicate", "digest", "error", "wall_seconds")
#: A point of a sweep: axis -> label.
Point = dict[str, Any]
#: The smallest whole number that is too large for an int64 column.
_COUNTED = 1 << 63


def label_of(value: Any) -> Any:
    """Return the label of a value of an axis: numbers and texts are their own labels, others become JSON.

    Whole numbers that are too large for a column become floats.

    Raises TypeError for a value that is not plain, OverflowError for a number that is too large for a float.
    """
    value = plain(value)
    if isinstance(value, int) and not -_COUNTED <= value < _COUNTED:
        return float(value)
    return value if isinstance(value, (str, int, float)) else json.dumps(value, sort_keys=True)


def as_column(labels: Sequence[Any]) -> list[Any]:
    """Return labels as a column holds them: all as numbers, or all as texts."""
    if all(isinstance(label, (int, float)) for label in labels):
        return list(np.array(labels).tolist())
    return [str(label).rstrip("\0") for label in labels]


def column_of(axis: str) -> str:
    """Return the column name of an axis: ASCII letters, digits and ``_``, not beginning with a digit."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", axis)
    return name if not name[:1].isdigit() else f"_{name}"


def _unit(name: str) -> dict[str, str]:
    return {"units": UNITS[name]} if name in UNITS else {}


@dataclass(frozen=True)
class SweepResult:
    """The results of a sweep.

    Parameters
    ----------
    axes
        Axis -> its labels; the points are all combinations, in an order in which the last axis varies
        fastest.
    schedulers
        Names of the schedulers that ran at each point.
    replicates
        The number of replications of each point.
    metrics
        Names of what was measured; schedulers are compared by the first.
    baseline
        Name of the scheduler that others are compared with, or None.
    measured
        The record of each run: point after point, in each replication after replication, in each of those all
        schedulers in order.
    """

    axes: Mapping[str, tuple[Any, ...]]
    schedulers: tuple[str, ...]
    replicates: int
    metrics: tuple[str, ...]
    baseline: str | None
    measured: Sequence[Measured]

    def points(self) -> Iterator[Point]:
        """Iterate over the points, each as axis -> label."""
        for labels in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, labels, strict=True))

    @property
    def errors(self) -> list[str]:
        """Why runs failed, each reason once."""
        return list(dict.fromkeys(each.error for each in self.measured if each.error))

    def table(self) -> Table:
        """Return a table with one row per run: its point, the columns of `COLUMNS`, and the metrics."""
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
        """Return `table` as a pandas DataFrame."""
        return self.table().to_pandas()

    def to_arrow(self) -> Any:
        """Return `table` as a pyarrow Table."""
        return self.table().to_arrow()

    def to_xarray(self) -> Any:
        """Return an xarray Dataset.

        Its dimensions are the axes, scheduler and replicate; its variables are the metrics, wall_seconds and
        digest."""
        xarray = import_extra("xarray", "data", "to_xarray")
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
        """Return the `Replicates` of one point, with means, ratios and their intervals.

        Parameters
        ----------
        labels
            Axis -> label, for all axes that have more than one label; characters of the axis that are not
            ASCII letters or digits are written ``_``.

        Raises
        ------
        ScenarioError
            If there is no such point.
        """
        for name in labels:
            if name not in map(column_of, self.axes):
                raise ScenarioError(f"at: no axis {name!r}; axes: {', '.join(self.axes)}")
        wanted = {axis: self._label(axis, labels) for axis in self.axes}
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
        """Iterate over the points: their labels and their `Replicates`."""
        for number, labels in enumerate(self.points()):
            yield labels, self._at(number)

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis} ({len(labels)})" for axis, labels in self.axes.items())
        return (
            f"<SweepResult of {', '.join(self.schedulers)} over {axes or 'one point'}: "
            f"{self.replicates} replications, {len(self.measured)} runs>"
        )

    def _repr_html_(self) -> str:
        """Return the sweep as notebooks show it: a row per point and scheduler."""
        columns = self.columns()
        return (
            html.text(self.verdict())
            + html.table(columns, left=len(columns), caption=self.title())
            + html.text(*self._failed)
        )

    def title(self, metric: str | None = None) -> str:
        """Return the title of a table of `columns`."""
        metric = self.metrics[0] if metric is None else metric
        return f"{heading(metric, UNITS.get(metric, ''))}, mean over {self.replicates} replications"

    @property
    def _failed(self) -> list[str]:
        return [f"failed: {one_line(error)}" for error in self.errors]

    def format(self) -> str:
        """Return as text a line per point and scheduler: mean of the first metric, ratio to the baseline."""
        columns = self.columns()
        said = wrap_text(self.verdict(), WIDTH) if len(self.schedulers) > 1 else []
        return "\n".join([self.title(), *align(columns, left=len(columns)), *said, *self._failed])

    def verdict(self) -> str:
        """Return a sentence on who has the lowest first metric at how many points; and what is undecided."""
        return of_points(self)

    def columns(self, metric: str | None = None) -> list[list[str]]:
        """Return columns of text, each with its head: a row per point and scheduler, mean and ratio.

        Parameters
        ----------
        metric
            One of `metrics`; None for the first.
        """
        metric, base = self.metrics[0] if metric is None else metric, self.baseline
        heads = [*map(str, self.axes), "scheduler", metric, *([] if base is None else [f"to {base}"])]
        rows = []
        for labels, found in self.each():
            for name in self.schedulers:
                row = [*map(str, labels.values()), name, found.mean(name, metric).format()]
                if base is not None:
                    row.append(found.relative(name, base, metric))
                rows.append(row)
        return [[head, *column] for head, column in zip(heads, zip(*rows, strict=True), strict=True)]

    def __str__(self) -> str:
        return self.format()

    def plot(self) -> Figure:
        """Draw `figure`."""
        return self.figure()

    def figure(self, *, headline: bool = True) -> Figure:
        """Draw the first metric over the first axis with several labels, a panel per point of the others.

        Raises ScenarioError for more than 6 panels, ImportError without matplotlib.

        Parameters
        ----------
        headline
            Whether to write above them who is best.
        """
        from gridsim.studies.figures import of_sweep

        return of_sweep(self, headline)

    def to_dict(self) -> dict[str, Any]:
        """Return axes, runs, and means and ratios with their intervals, as plain values."""
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
