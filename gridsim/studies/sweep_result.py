"""Results of a sweep: the table of its runs, and statistics for each of its points."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.charts import Chart, ChartAxis, CurveChart, ranked_first, share_y
from gridsim.plots.style import entry_title, quantity_title
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.registry import ALIASES, display_name, heading
from gridsim.results.metrics.selection import units_of
from gridsim.results.table import Table
from gridsim.studies.execution.cell import RunRecord
from gridsim.studies.exports import mean_over, paper_head, rows_table
from gridsim.studies.overview import Overview, TextTable, enumeration, failure_lines, paired_with
from gridsim.studies.paired_values import PairedValues
from gridsim.studies.replicate_result import Replicates, replicates_of
from gridsim.studies.study import Study, digest_of_runs
from gridsim.studies.verdicts import (
    points_text,
    ranking_of,
    short_list,
    shortage_text,
    unranked_text,
    wait_limit,
)
from gridsim.support import units
from gridsim.support.imports import import_extra
from gridsim.support.text import plain

#: Columns of the table of runs, besides axes and metrics.
COLUMNS = ("scheduler", "replicate", "digest", "error", "wall_seconds")
#: Maximum number of charts of means on a page: one for each metric and point of the further axes.
MAX_POINTS = 12
#: A point of a sweep: axis -> label.
Point = dict[str, Any]
#: The smallest whole number that is too large for an int64 column.
_INT64_LIMIT = 1 << 63


def point_text(labels: Mapping[str, Any]) -> str:
    """Return a point as text, such as "bound = 4, load = light"."""
    return ", ".join(f"{axis} = {label}" for axis, label in labels.items())


def label_of(value: Any) -> Any:
    """Return the label of a value of an axis: numbers and texts are their own labels, others become JSON.

    Whole numbers that are too large for a column become floats.

    Raises TypeError for a value that is not plain, OverflowError for a number that is too large for a float.
    """
    value = plain(value)
    if isinstance(value, int) and not -_INT64_LIMIT <= value < _INT64_LIMIT:
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
    units = units_of([name])
    return {"units": units[name]} if units else {}


def _label_value(label: str, unit: str) -> float | None:
    """Return the value of a label such as "50 ms" or "0.9"; None if it is not a number."""
    try:
        return float(label) if label.isascii() else None
    except ValueError:
        return units.number(label, unit)


@dataclass(frozen=True)
class SweepResult(Study):
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
        The record of each run, ordered by point, replication and scheduler.
    chart_metrics
        The metrics that `charts` draws: those that were requested, or the first of the usual ones.
    """

    scenario_title = "The scenario before the changes of the sweep"

    axes: Mapping[str, tuple[Any, ...]]
    schedulers: tuple[str, ...]
    replicates: int
    metrics: tuple[str, ...]
    baseline: str | None
    measured: Sequence[RunRecord]
    chart_metrics: tuple[str, ...]

    def points(self) -> Iterator[Point]:
        """Iterate over the points, each as axis -> label."""
        for labels in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, labels, strict=True))

    @property
    def digest(self) -> str:
        """SHA-256 of the digests of all runs, one a line, in the order of `runs`; see `Replicates.digest`."""
        return digest_of_runs(self.table()["digest"].tolist())

    @property
    def errors(self) -> list[str]:
        """The distinct reasons why runs failed."""
        return list(dict.fromkeys(each.error for each in self.measured if each.error))

    def table(self) -> Table:
        """Return a table with one row per run: its point, the columns of `COLUMNS`, and the metrics."""
        tables = [replicates.runs() for replicates in self._replicates]
        sizes = [len(table) for table in tables]
        columns: dict[str, Any] = {
            column_of(axis): np.repeat([labels[axis] for labels in self.points()], sizes)
            for axis in self.axes
        }
        for name in ("scheduler", "replicate"):
            columns[name] = np.concatenate([table[name] for table in tables])
        for name in ("digest", "error", "wall_seconds"):
            columns[name] = [getattr(each, name) for each in self.measured]
        for metric in self.metrics:
            columns[metric] = np.concatenate([table[metric] for table in tables])
        return Table(columns)

    def runs(self) -> Table:
        """Return the table with one row per run."""
        return self.table()

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
                raise ScenarioError(f"at must name axes of the sweep, {', '.join(self.axes)}, got {name!r}")
        wanted = {axis: self._label(axis, labels) for axis in self.axes}
        for point, found in self.each():
            if point == wanted:
                return found
        raise ScenarioError(f"at must select a point of the sweep, got {wanted}")

    def _label(self, axis: str, labels: dict[str, Any]) -> Any:
        known = self.axes[axis]
        name = column_of(axis)
        if name not in labels and len(known) == 1:
            return known[0]
        if name not in labels:
            raise ScenarioError(f"at requires a value of {name}, one of {', '.join(map(repr, known))}")
        if (label := label_of(labels.pop(name))) not in known:
            raise ScenarioError(f"at: {name} must be one of {', '.join(map(repr, known))}, got {label!r}")
        return label

    @cached_property
    def _replicates(self) -> tuple[Replicates, ...]:
        """The values at each point."""
        size, numbers = self.replicates * len(self.schedulers), tuple(range(self.replicates))
        return tuple(
            replicates_of(self.measured[k : k + size], self.schedulers, numbers, self.metrics, self.baseline)
            for k in range(0, len(self.measured), size)
        )

    def each(self) -> Iterator[tuple[Point, Replicates]]:
        """Iterate over the points: their labels and their `Replicates`."""
        yield from zip(self.points(), self._replicates, strict=True)

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis} ({len(labels)})" for axis, labels in self.axes.items())
        return (
            f"<SweepResult of {', '.join(self.schedulers)} over {axes or 'one point'}: "
            f"{self.replicates} replications, {len(self.measured)} runs>"
        )

    def overview(self, *, full: bool = False) -> Overview:
        """Return a table per metric, the best scheduler at each point, and the causes of failures.

        A table has a row per point and scheduler.

        Parameters
        ----------
        full
            Include the axes, and how the schedulers are compared.
        """
        facts = {"digest": f"{self.digest} (of all {len(self.runs())} runs)"}
        if full:
            facts |= {axis: ", ".join(map(str, labels)) for axis, labels in self.axes.items()}
            facts["replications"] = f"{self.replicates} for each of {len(list(self.points()))} points"
            facts |= paired_with(self.baseline)
        return Overview(
            facts,
            [self._metric_table(metric) for metric in self.metrics],
            self.verdict(),
            failures=failure_lines(self._failed_runs(), len(self.measured)),
            title=" over ".join(filter(None, map(enumeration, (self.schedulers, list(self.axes))))),
        )

    def _failed_runs(self) -> Iterator[tuple[str, str]]:
        """Iterate over the runs that failed: the name and the error of each."""
        for labels, replicates in self.each():
            for (name, number), error in replicates.errors.items():
                yield ", ".join(filter(None, (name, point_text(labels), f"replication {number}"))), error

    def verdict(self) -> str:
        """Return at how many points each scheduler has the lowest mean, and which points are undecided.

        The rules are those of `gridsim.Replicates`: a difference is significant if the interval of the ratio
        does not contain 1, and few replications are too few for a conclusion.  A sweep of one scheduler
        compares its points in the same way, since they have the same replications.
        """
        if len(self.schedulers) == 1:
            return self._verdict_on_points()
        metric, wins, points = self.metrics[0], dict.fromkeys(self.schedulers, 0), 0
        short_points = 0
        mean_of = display_name(metric) if metric.startswith("mean_") else f"mean {display_name(metric)}"
        open_pairs: dict[str, list[str]] = {}
        unranked_points: dict[str, int] = {}
        for labels, replicates in self.each():
            for name in replicates.exclusions:
                unranked_points[name] = unranked_points.get(name, 0) + 1
            ranking = ranking_of(replicates[metric], replicates.exclusions)
            if len(ranking) < 2:
                continue
            if replicates.short_wait(metric):
                short_points += 1
                continue
            points += 1
            is_constant = replicates.is_constant(ranking[1], ranking[0], metric)
            if not is_constant and replicates.excess(ranking[1], ranking[0], metric)[0] > 0:
                wins[ranking[0]] += 1
            else:
                open_pairs.setdefault(" and ".join(sorted(ranking[:2])), []).append(point_text(labels))
        count = len(self._replicates)
        exclusions = {
            name: f"it rejected more jobs than others at {times} of {count} point{'s' * (count > 1)}"
            for name, times in unranked_points.items()
        }
        idle = f"Jobs hardly wait at {short_points} of {count} points: each mean is below {wait_limit()[1]}."
        suffix = (f"  {idle}" if short_points else "") + unranked_text(exclusions)
        if not points:
            return suffix.strip()
        winners = sorted((name for name in wins if wins[name]), key=lambda name: -wins[name])
        parts = [
            f"{name} {'' if k else f'has the lowest {mean_of} '}at {wins[name]}"
            for k, name in enumerate(winners)
        ]
        text = f"{', '.join(parts)} of {points} point{'s' * (points > 1)}; " if winners else ""
        by = "" if winners else f" by {mean_of}"
        pairs = [
            f"{pair} cannot be separated{by}{points_text(at, points)}" for pair, at in open_pairs.items()
        ]
        is_identical = all(replicates.is_identical for replicates in self._replicates)
        shortage = shortage_text(self.replicates, identical=is_identical)
        text = shortage.removesuffix(".") or text + short_list(pairs, "; ")
        text = text.removesuffix("; ")
        if missing := count - points - short_points:
            text += f".  {missing} of {count} points are missing: fewer than two schedulers have "
            text += "results" if not unranked_points else "results and are ranked"
        return text + "." + suffix

    def _verdict_on_points(self) -> str:
        """Return the sentence that compares the points of the only scheduler."""
        (name,), points = self.schedulers, {point_text(point): values for point, values in self.each()}
        first = next(iter(points.values()))
        metrics = [metric for metric in (self.metrics[0], "mean_waiting_by_cores") if metric in self.metrics]
        return PairedValues(
            first.seeds,
            {metric: {point: values[metric][name] for point, values in points.items()} for metric in metrics},
            first.units,
            measure=metrics[0],
            rejected={point: values.rejected[name] for point, values in points.items() if values.rejected},
            is_identical=all(values.is_identical for values in points.values()),
        ).verdict()

    def means(self) -> Table:
        """Return a table with a row per metric, point and scheduler, as `Replicates` do."""
        rows = [
            {column_of(axis): label for axis, label in labels.items()} | row
            for metric in self.metrics
            for labels, replicates in self.each()
            for row in replicates.mean_rows(metric, self.schedulers, self._reference(metric))
        ]
        return rows_table(rows)

    def paper_tables(self) -> list[TextTable]:
        """Return a table per metric, with a row per point and scheduler."""
        tables = []
        for metric in self.metrics:
            base, (length, unit) = self._reference(metric), self._unit(metric)
            rows = [
                [*map(str, labels.values()), *row]
                for labels, replicates in self.each()
                for row in replicates.paper_rows(metric, self.schedulers, base, length)
            ]
            head = [*((axis, "") for axis in self.axes), *paper_head(base)]
            caption = f"{heading(metric, unit)}, {mean_over(self.replicates, base is not None)}"
            tables.append(TextTable(caption, head, rows))
        return tables

    def _reference(self, metric: str) -> str | None:
        """Return the scheduler to which all points relate the others by a metric; None without ratios."""
        references = [replicates.reference(metric) for replicates in self._replicates]
        if self.baseline in references:
            return self.baseline
        return references[0] if len(set(references)) == 1 else None

    def _metric_table(self, metric: str) -> TextTable:
        """Return a table with a row per point and scheduler: the mean, and the ratio to the baseline."""
        base, (length, unit) = self._reference(metric), self._unit(metric)
        heads = [*map(str, self.axes), "scheduler", metric, *([] if base is None else [f"to {base}"])]
        rows = [
            [*map(str, labels.values()), *row]
            for labels, replicates in self.each()
            for row in replicates.text_rows(metric, self.schedulers, base, length)
        ]
        caption = f"{heading(metric, unit)}, {mean_over(self.replicates, base is not None)}"
        return TextTable(caption, [(head, "") for head in heads], rows)

    def _unit(self, metric: str) -> tuple[float, str]:
        """Return the length and the name of the unit of a metric, the median of those of all points."""
        return median_low(replicates.unit(metric) for replicates in self._replicates)

    def chart(
        self, metric: str | None = None, point: Mapping[str, Any] | None = None, ratio: bool = False
    ) -> CurveChart:
        """Return the chart that `gridsim.plots.swept` draws, with its parameters and errors.

        Parameters
        ----------
        point
            Its `where`.
        """
        metric = self.metrics[0] if metric is None else ALIASES.get(metric, metric)
        point, base = dict(point or {}), self.baseline
        if metric not in self.metrics:
            raise ScenarioError(f"metric must be one of {', '.join(self.metrics)}, got {metric!r}")
        for name, label in point.items():
            if label not in self.axes.get(name, ()):
                raise ScenarioError(f"where must be a point of the sweep, got {name} = {label!r}")
        free_axes = [name for name, labels in self.axes.items() if len(labels) > 1 and name not in point]
        if len(free_axes) > 1:
            raise ScenarioError(f"where must leave at most one axis free, got {', '.join(free_axes)}")
        if ratio and base is None:
            raise ScenarioError("ratio requires a sweep with a baseline")
        x_name = free_axes[0] if free_axes else ""
        x_title, unit = entry_title(x_name)
        length, metric_unit = self._unit(metric)
        points = {
            labels.get(x_name, ""): replicates
            for labels, replicates in self.each()
            if all(labels[name] == label for name, label in point.items())
        }
        positions: list[Any] = [
            _label_value(label, unit) if isinstance(label, str) else label for label in points
        ]
        excluded_at = {
            name: [k for k, replicates in enumerate(points.values()) if name in replicates.exclusions]
            for name in self.schedulers
        }
        exclusions = [name for name, at in excluded_at.items() if len(at) == len(points)]
        missing = Estimate(math.nan, math.nan, math.nan, self.replicates)
        curves = {
            name: [
                replicates.ranked_ratio(name, str(base), metric) or missing
                if ratio
                else replicates.mean(name, metric).scale(1.0 / length)
                for replicates in points.values()
            ]
            for name in ranked_first(self.schedulers, exclusions)
            if not ratio or name not in (base, *exclusions)
        }
        ends = [end for line in curves.values() for e in line for end in (e.mean, e.low, e.high)]
        panel = point_text(point)
        relative = f" relative to {base}" if ratio else ""
        quantity = quantity_title(metric, "" if ratio else metric_unit)
        means = "Geometric means of ratios" if ratio else "Means"
        caption = f"{means} over {self.replicates} replications with their confidence intervals"
        return CurveChart(
            title=f"{display_name(metric).capitalize()}{relative}{f', {panel}' if panel else ''}",
            caption=caption + (", paired by replication." if ratio else "."),
            panel=panel,
            x=ChartAxis(x_title),
            y=ChartAxis(f"{quantity}{',' * ratio}{relative}", ends, "ratio" if ratio else "fit"),
            order=self.schedulers,
            exclusions=exclusions,
            unranked_points={name: excluded_at[name] for name in curves if excluded_at[name]},
            reference=1.0 if ratio else None,
            positions=None if None in positions else positions,
            labels=list(points),
            unit=unit,
            curves=curves,
        )

    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return charts of the metrics `chart_metrics` over the first axis with several labels.

        Means and ratios to the baseline have a chart per point of the other axes each, with equal y axes; if
        there is one such point, both are in one row.  A baseline that is 0 in some run has no ratios.

        Parameters
        ----------
        full
            Leave out points for which a page has no room: it has up to `MAX_POINTS` charts of all metrics.
        """
        other_axes = [axis for axis, labels in self.axes.items() if len(labels) > 1][1:]
        points = [
            dict(zip(other_axes, labels, strict=True))
            for labels in itertools.product(*(self.axes[axis] for axis in other_axes))
        ]
        shown_points = points[: max(1, MAX_POINTS // len(self.chart_metrics)) if full else None]
        rows: list[list[CurveChart]] = []
        for metric in self.chart_metrics:
            kinds = (False, True) if self._has_ratios(metric) else (False,)
            charts = [
                share_y([self.chart(metric, point, ratio) for point in shown_points]) for ratio in kinds
            ]
            rows += charts if len(points) > 1 else [list(itertools.chain(*charts))]
        return [[*row] for row in rows]

    def _has_ratios(self, metric: str) -> bool:
        """Return whether schedulers can be compared with the baseline by a metric at all points."""
        base = self.baseline
        if base is None or len(self.schedulers) < 2:
            return False
        return all(replicates[metric][base].all() for replicates in self._replicates)

    def to_dict(self) -> dict[str, Any]:
        """Return axes, runs, and means and ratios with their intervals, as plain values."""
        return {
            "axes": {axis: list(labels) for axis, labels in self.axes.items()},
            "schedulers": list(self.schedulers),
            "replicates": self.replicates,
            "baseline": self.baseline,
            "digest": self.digest,
            "units": units_of(self.metrics),
            "cells": list(self.table().rows()),
            "points": [
                {"point": labels, "means": said["means"], "ratios": said["ratios"]}
                for labels, said in ((labels, found.to_dict()) for labels, found in self.each())
            ],
        }
