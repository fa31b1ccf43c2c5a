"""What a sweep came to: tables of its cells, and statistics of its points."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.cells import Measured
from gridsim.errors import ScenarioError
from gridsim.extras import need
from gridsim.measures import usual_metrics
from gridsim.records import Table, align
from gridsim.replication import Replicates, arranged
from gridsim.units import UNITS

if TYPE_CHECKING:
    from gridsim.sweeps import Sweep

#: Label of each axis.
Point = dict[str, Any]


def label_of(value: Any) -> Any:
    """What a value of an axis is called: numbers and texts as they are, others as JSON."""
    value = plain_of(value)
    return value if isinstance(value, (str, int, float)) else json.dumps(value, sort_keys=True)


def plain_of(value: Any) -> Any:
    """A value of an axis without numpy's types."""
    return value.item() if isinstance(value, np.generic) else value


def column_of(axis: str) -> str:
    """An axis as the name of a column."""
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in axis)
    return name if not name[:1].isdigit() else f"_{name}"


def _unit(name: str) -> dict[str, str]:
    return {"units": UNITS[name]} if name in UNITS else {}


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    measured : of each of ``sweep.cells``.
    """

    sweep: Sweep
    measured: Sequence[Measured]

    @cached_property
    def metrics(self) -> list[str]:
        """What was asked for; or else the usual ones."""
        if self.sweep.metrics is not None:
            return list(self.sweep.metrics)
        done = [each.values for each in self.measured if not each.error]
        return usual_metrics(done, self.sweep.scenario.workload.rigid)

    @property
    def errors(self) -> list[str]:
        """Why cells failed, each reason once."""
        return list(dict.fromkeys(each.error for each in self.measured if each.error))

    def table(self) -> Table:
        """A row a cell: its point, scheduler, replicate, digest, error, wall_seconds, and the metrics."""
        sweep = self.sweep
        rows = len(self.measured)
        per_point = sweep.replicates * len(sweep.schedulers)
        points = [labels for labels, _ in sweep.points()]
        columns: dict[str, Any] = {}
        for axis in sweep.over:
            columns[column_of(axis)] = np.repeat([labels[axis] for labels in points], per_point)
        columns["scheduler"] = np.tile(list(sweep.schedulers), rows // len(sweep.schedulers))
        columns["replicate"] = np.tile(
            np.repeat(np.arange(sweep.replicates), len(sweep.schedulers)), len(points)
        )
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
        sweep, table = self.sweep, self.table()
        dims = [*map(column_of, sweep.over), "scheduler", "replicate"]
        coords = {column_of(axis): list(labels) for axis, labels in sweep.labels.items()}
        coords |= {"scheduler": list(sweep.schedulers), "replicate": list(range(sweep.replicates))}
        shape = [*map(len, sweep.labels.values()), sweep.replicates, len(sweep.schedulers)]
        variables = {
            name: (dims, np.swapaxes(table[name].reshape(shape), -1, -2), _unit(name))
            for name in (*self.metrics, "wall_seconds", "digest")
        }
        return xarray.Dataset(variables, coords)

    def at(self, **labels: Any) -> Replicates:
        """The replicates of one point, with means, ratios and their intervals; labels of all axes that have
        more than one, with ``_`` for ``.`` and ``-`` in their names.

        Raises ScenarioError where that is no point.
        """
        wanted = {axis: self._label(axis, labels) for axis in self.sweep.over}
        if labels:
            raise ScenarioError(f"at: no axis {next(iter(labels))!r}; axes: {', '.join(self.sweep.over)}")
        for number, (point, _) in enumerate(self.sweep.points()):
            if point == wanted:
                return self._at(number)
        raise ScenarioError(f"at: no point {wanted}")

    def _label(self, axis: str, labels: dict[str, Any]) -> Any:
        known = self.sweep.labels[axis]
        name = column_of(axis)
        if name not in labels and len(known) == 1:
            return known[0]
        if name not in labels:
            raise ScenarioError(f"at: {name} must be given, one of {', '.join(map(repr, known))}")
        if (label := label_of(labels.pop(name))) not in known:
            raise ScenarioError(f"at: {name} must be one of {', '.join(map(repr, known))}, got {label!r}")
        return label

    def _at(self, number: int) -> Replicates:
        size = self.sweep.replicates * len(self.sweep.schedulers)
        made = self.measured[number * size : (number + 1) * size]
        numbers = tuple(range(self.sweep.replicates))
        return arranged(made, list(self.sweep.schedulers), numbers, self.metrics, self.sweep.baseline)

    def each(self) -> Iterator[tuple[Point, Replicates]]:
        """The labels and the replicates of each point."""
        for number, (labels, _) in enumerate(self.sweep.points()):
            yield labels, self._at(number)

    def format(self) -> str:
        """A line a point and scheduler: the mean of the first metric, and its ratio to the baseline."""
        sweep, metric = self.sweep, self.metrics[0]
        base = sweep.baseline
        heads = [*map(str, sweep.over), "scheduler", metric, *([] if base is None else [f"to {base}"])]
        rows = []
        for labels, found in self.each():
            for name in sweep.schedulers:
                row = [*map(str, labels.values()), name, found.mean(name, metric).format()]
                if base is not None:
                    row.append(found.relative(name, base, metric))
                rows.append(row)
        columns = [[head, *column] for head, column in zip(heads, zip(*rows, strict=True), strict=True)]
        unit = f" ({UNITS[metric]})" if metric in UNITS else ""
        lines = [f"{metric}{unit}, mean over {sweep.replicates} replicas", *align(columns, left=len(heads))]
        lines += [f"failed: {error}" for error in self.errors]
        return "\n".join(lines)

    __str__ = format

    def to_dict(self) -> dict[str, Any]:
        """Axes, cells, and means with their intervals, as plain values."""
        return {
            "axes": {axis: list(labels) for axis, labels in self.sweep.labels.items()},
            "schedulers": list(self.sweep.schedulers),
            "replicates": self.sweep.replicates,
            "baseline": self.sweep.baseline,
            "units": {metric: UNITS[metric] for metric in self.metrics if metric in UNITS},
            "cells": list(self.table().rows()),
            "points": [
                {"point": labels, **{key: found.to_dict()[key] for key in ("means", "ratios")}}
                for labels, found in self.each()
            ],
        }
