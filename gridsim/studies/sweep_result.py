"""Results of a sweep: the table of its runs, and statistics for each of its points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.charts import Chart, ChartAxis, CurveChart, ranked_first, scale_of, share_y
from gridsim.plots.style import LOOKS, entry_title, quantity_title
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.formulas import mean
from gridsim.results.metrics.registry import display_name, heading, known_name, with_common_bound
from gridsim.results.metrics.selection import units_of
from gridsim.results.table import Table
from gridsim.scheduling.registry import registered
from gridsim.studies.execution.cell import AVAILABILITY, RunRecord
from gridsim.studies.exports import TableCell, estimate_cells, mean_over, paper_head, text_rows
from gridsim.studies.overview import (
    Overview,
    TextTable,
    availability_line,
    enumeration,
    failure_lines,
    not_charged_note,
    paired_with,
)
from gridsim.studies.paired_values import PairedValues
from gridsim.studies.replicate_result import Replicates, replicates_of
from gridsim.studies.study import Study, digest_of_runs
from gridsim.studies.sweep_points import (
    Point,
    Variant,
    are_numbers,
    as_column,
    column_of,
    label_of,
    label_text,
    point_text,
)
from gridsim.studies.verdicts import (
    places_text,
    points_text,
    ranking_of,
    short_list,
    shortage_text,
    unranked_text,
    wait_limit,
)
from gridsim.support import units
from gridsim.support.imports import import_extra

#: Columns of the table of runs, besides axes and metrics.
COLUMNS = ("scheduler", "replicate", "digest", "error", "wall_seconds")
#: Maximum number of charts of means on a page: one for each metric and point of the further axes.
MAX_POINTS = 12


def _unit(name: str) -> dict[str, str]:
    units = units_of([name])
    return {"units": units[name]} if units else {}


def _label_value(label: str, unit: str) -> float | None:
    """Return the value of a label such as "50 ms" or "0.9"; None if it is not a number."""
    try:
        return float(label) if label.isascii() else None
    except ValueError:
        return units.number(label, unit)


class _Lead(NamedTuple):
    """How far the best scheduler of a point leads: relative size, the point, and the second one, as text."""

    size: float
    point: str
    text: str


def _extreme(leads: Sequence[_Lead], word: str) -> str:
    """Return the "closest" or "farthest apart" of several leads as text, or the only one."""
    lead = (min if word == "closest" else max)(leads)
    prefix = f"{word} at " if len(leads) > 1 else ""
    return f"{prefix}{lead.point}: {lead.text}"


class PointRuns(NamedTuple):
    """The runs at a point of the axes that all schedulers share.

    Parameters
    ----------
    point
        Axis -> label, for these axes.
    variants
        Name of each column of `values` -> its variant of a scheduler.
    values
        The values of all variants.
    records
        Variant -> its records, with the lower bound that all have in common.
    """

    point: Point
    variants: Mapping[str, Variant]
    values: Replicates
    records: Mapping[Variant, Sequence[RunRecord]]

    def labels(self, name: str) -> Point:
        """Return the point with the labels of the variant in the column `name`."""
        return self.point | dict(self.variants[name].labels)


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
    own_axes
        Axis that changes only some schedulers -> these; others have one run for all of its labels.
    remarks
        Sentences on what the tables do not show, such as different orders of queues.
    """

    scenario_title = "The scenario before the changes of the sweep"

    axes: Mapping[str, tuple[Any, ...]]
    schedulers: tuple[str, ...]
    replicates: int
    metrics: tuple[str, ...]
    baseline: str | None
    measured: Sequence[RunRecord]
    chart_metrics: tuple[str, ...]
    own_axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def points(self) -> Iterator[Point]:
        """Iterate over the points, each as axis -> label."""
        for labels in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, labels, strict=True))

    @property
    def digest(self) -> str:
        """SHA-256 of the digests of all runs, one a line, in the order of `runs`; see `Replicates.digest`."""
        return digest_of_runs(record.digest for record in self.measured)

    @property
    def errors(self) -> list[str]:
        """The distinct reasons why runs failed."""
        return list(dict.fromkeys(each.error for each in self.measured if each.error))

    def _variant(self, name: str, point: Point) -> Variant:
        """Return the scheduler `name` with its labels at a point."""
        labels = point.items()
        return Variant(name, tuple(each for each in labels if name in self.own_axes.get(each[0], (name,))))

    @cached_property
    def _order(self) -> list[tuple[Variant, int]]:
        """The variant and the replication of each run, in the order of `measured`."""
        order: dict[tuple[Variant, int], None] = {}
        for point in self.points():
            variants = [self._variant(name, point) for name in self.schedulers]
            order |= dict.fromkeys((each, k) for k in range(self.replicates) for each in variants)
        return list(order)

    @cached_property
    def _variant_axes(self) -> list[str]:
        """The axes whose labels distinguish variants at one point.

        An axis of the baseline is not among them, since ratios to it differ between its labels.
        """
        return [axis for axis, owners in self.own_axes.items() if self.baseline not in owners]

    @cached_property
    def _point_runs(self) -> tuple[PointRuns, ...]:
        """The runs at each point of the shared axes."""
        records: dict[Variant, list[RunRecord]] = {}
        for (variant, _), record in zip(self._order, self.measured, strict=True):
            records.setdefault(variant, []).append(record)
        variants_at: dict[tuple[tuple[str, Any], ...], dict[Variant, None]] = {}
        for name in self.schedulers:
            for point in self.points():
                shared = tuple(each for each in point.items() if each[0] not in self._variant_axes)
                variants_at.setdefault(shared, {})[self._variant(name, point)] = None
        return tuple(
            self._runs_at(dict(shared), {variant: records[variant] for variant in variants})
            for shared, variants in variants_at.items()
        )

    def _runs_at(self, point: Point, records: Mapping[Variant, Sequence[RunRecord]]) -> PointRuns:
        """Return the runs at a point of the shared axes."""
        rows = [
            [replace(record, values=values) for record, values in zip(row, bounded, strict=True)]
            for row in zip(*records.values(), strict=True)
            for bounded in [with_common_bound([record.values for record in row])]
        ]
        variants: dict[str, Variant] = {}
        for variant in records:
            name = variant.text(self._variant_axes)
            if name in variants:  # a scheduler has the name of a variant of another one
                name = variant.text(self._variant_axes, full=True)
            variants[name] = variant
        values = self._values_of(list(itertools.chain(*rows)), list(variants))
        return PointRuns(point, variants, values, dict(zip(records, zip(*rows, strict=True), strict=True)))

    def _values_of(self, records: Sequence[RunRecord], names: Sequence[str]) -> Replicates:
        """Return the values of records, ordered by replication and column."""
        return replicates_of(records, names, tuple(range(self.replicates)), self.metrics, self.baseline)

    @cached_property
    def _records(self) -> dict[Variant, Sequence[RunRecord]]:
        """The records of each variant of a scheduler, a record per replication."""
        known: dict[Variant, Sequence[RunRecord]] = {}
        for runs in reversed(self._point_runs):
            known |= runs.records
        return known

    def _column(self, axis: str, points: Sequence[Point]) -> list[Any]:
        """Return the labels of an axis as a column; NaN or "" for points without one."""
        known = self.axes[axis]
        numeric = are_numbers(known) and (
            axis not in self.own_axes or not any(isinstance(label, bool) for label in known)
        )
        missing = math.nan if numeric else ""
        return as_column([point.get(axis, missing) for point in points], numeric=numeric)

    def table(self) -> Table:
        """Return a table with one row per run: its point, the columns of `COLUMNS`, and the metrics.

        A run has no label, NaN or "", of axes of `own_axes` that do not change its scheduler.
        """
        points = [dict(variant.labels) for variant, _ in self._order]
        records = [self._records[variant][number] for variant, number in self._order]
        columns: dict[str, Any] = {column_of(axis): self._column(axis, points) for axis in self.axes}
        columns["scheduler"] = [variant.scheduler for variant, _ in self._order]
        columns["replicate"] = [number for _, number in self._order]
        for name in ("digest", "error", "wall_seconds"):
            columns[name] = [getattr(record, name) for record in records]
        for metric in self.metrics:
            columns[metric] = [record.values.get(metric, math.nan) for record in records]
        return Table(columns)

    def runs(self) -> Table:
        """Return the table with one row per run."""
        return self.table()

    def to_xarray(self) -> Any:
        """Return an xarray Dataset.

        Its dimensions are the axes, scheduler and replicate; its variables are the metrics, wall_seconds and
        digest."""
        xarray = import_extra("xarray", "data", "to_xarray")
        dims = [*map(column_of, self.axes), "scheduler", "replicate"]
        coords = {column_of(axis): as_column(labels) for axis, labels in self.axes.items()}
        coords |= {"scheduler": list(self.schedulers), "replicate": list(range(self.replicates))}
        shape = [*map(len, self.axes.values()), len(self.schedulers), self.replicates]
        records = [
            record
            for point in self.points()
            for name in self.schedulers
            for record in self._records[self._variant(name, point)]
        ]
        columns = {metric: [each.values.get(metric, math.nan) for each in records] for metric in self.metrics}
        for name in ("wall_seconds", "digest"):
            columns[name] = [getattr(each, name) for each in records]
        variables = {
            name: (dims, np.array(values).reshape(shape), _unit(name)) for name, values in columns.items()
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
        """The values of all schedulers at each point."""
        rows = (
            zip(*(self._records[self._variant(name, point)] for name in self.schedulers), strict=True)
            for point in self.points()
        )
        return tuple(self._values_of(list(itertools.chain(*row)), self.schedulers) for row in rows)

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
        facts = {"digest": f"{self.digest} (of all {len(self.measured)} runs)"}
        if full:
            facts |= {axis: ", ".join(map(label_text, labels)) for axis, labels in self.axes.items()}
            facts["replications"] = f"{self.replicates} for each of {len(list(self.points()))} points"
            facts |= paired_with(self.baseline)
        means = [each.values[AVAILABILITY] for each in self.measured if AVAILABILITY in each.values]
        return Overview(
            availability_line(means) | facts,
            [self._metric_table(metric) for metric in self.metrics],
            self.verdict(),
            remarks=self.remarks,
            failures=failure_lines(self._failed_runs(), len(self.measured)),
            title=" over ".join(filter(None, map(enumeration, (self.schedulers, list(self.axes))))),
        )

    def _failed_runs(self) -> Iterator[tuple[str, str]]:
        """Iterate over the runs that failed: the name and the error of each."""
        for (variant, number), record in zip(self._order, self.measured, strict=True):
            if record.error:
                parts = variant.scheduler, point_text(dict(variant.labels)), f"replication {number}"
                yield ", ".join(filter(None, parts)), record.error

    def verdict(self) -> str:
        """Return at how many points each scheduler has the lowest mean, and which points are undecided.

        The rules are those of `gridsim.Replicates`: a difference is significant if the interval of the ratio
        does not contain 1, and few replications are too few for a conclusion.  Schedulers that are not
        registered, the user's own, are named with their places behind the second.  At a point of the axes
        that all schedulers share, each value of another axis is a scheduler of its own.  A sweep of one
        scheduler compares its points in the same way, since they have the same replications.
        """
        if len(self.schedulers) == 1:
            return self._verdict_on_points()
        if len(self._point_runs) == 1:
            return self._point_runs[0].values.verdict()
        metric, points, short_points = self.metrics[0], 0, 0
        mean_of = display_name(metric) if metric.startswith("mean_") else f"mean {display_name(metric)}"
        wins: dict[str, list[_Lead]] = {name: [] for name in self._point_runs[0].variants}
        open_pairs: dict[str, list[_Lead]] = {}
        baseline_leads: list[_Lead] = []
        unranked_points: dict[str, int] = {}
        own_places: dict[str, list[tuple[int, int]]] = {}
        usual_names = registered()
        for point, variants, replicates, _ in self._point_runs:
            for name in replicates.exclusions:
                unranked_points[name] = unranked_points.get(name, 0) + 1
            columns = replicates[metric]
            ranking = ranking_of(columns, replicates.exclusions)
            if len(ranking) < 2:
                continue
            if replicates.short_wait(metric):
                short_points += 1
                continue
            points += 1
            best, second = ranking[:2]
            sign, excess = replicates.excess(second, best, metric)
            is_won = sign > 0 and not replicates.is_constant(second, best, metric)
            size = mean(columns[second]) - mean(columns[best])
            size = size / abs(mean(columns[best])) if mean(columns[best]) else size
            lead = _Lead(size, point_text(point), " ".join(filter(None, (second, excess))))
            if self.baseline in ranking[2:]:
                _, excess = replicates.excess(self.baseline, best, metric)
                excess_size = mean(columns[self.baseline]) - mean(columns[best])
                excess_size /= abs(mean(columns[best])) or 1.0
                baseline_leads.append(_Lead(excess_size, f"{point_text(point)}, behind {best}", excess))
            for place, name in enumerate(ranking[2:], 3):
                if variants[name].scheduler not in usual_names and name != self.baseline:
                    own_places.setdefault(name, []).append((place, len(ranking)))
            pair = " and ".join(sorted(ranking[:2]))
            (wins.setdefault(best, []) if is_won else open_pairs.setdefault(pair, [])).append(lead)
        count = len(self._point_runs)
        exclusions = {
            name: f"it rejected more jobs than others at {times} of {count} points"
            for name, times in unranked_points.items()
        }
        idle = f"Jobs hardly wait at {short_points} of {count} points: each mean is below {wait_limit()[1]}."
        suffix = (f"  {idle}" if short_points else "") + unranked_text(exclusions)
        if not points:
            return suffix.strip()
        winners = sorted(filter(wins.get, wins), key=lambda name: -len(wins[name]))
        parts = [
            f"{name} {'' if k else f'has the lowest {mean_of} '}at {len(wins[name])}"
            f"{f' of {points} points' if k == 0 else ''} ({_extreme(wins[name], 'closest')})"
            for k, name in enumerate(winners)
        ]
        text = f"{', '.join(parts)}; " if winners else ""
        by = "" if winners else f" by {mean_of}"
        pairs = [
            f"{pair} cannot be separated{by}{points_text(len(leads), points)} "
            f"({_extreme(leads, 'farthest apart')})"
            for pair, leads in open_pairs.items()
        ]
        is_identical = all(runs.values.is_identical for runs in self._point_runs)
        shortage = shortage_text(self.replicates, identical=is_identical)
        text = shortage.removesuffix(".") or text + short_list(pairs, "; ")
        text = text.removesuffix("; ")
        if len(baseline_leads) == points and not shortage:  # no other part names the baseline
            ends = "; ".join(
                dict.fromkeys(_extreme(baseline_leads, w) for w in ("closest", "farthest apart"))
            )
            text += f".  {self.baseline} is neither first nor second ({ends})"
        if own_places and not shortage:
            text += f".  {short_list([places_text(name, at, points) for name, at in own_places.items()])}"
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
            long_waits={
                point: values.long_waits[name] for point, values in points.items() if values.long_waits
            },
        ).verdict()

    def means(self) -> Table:
        """Return a table with a row per metric, point and scheduler, as `Replicates` do."""
        rows, points = [], []
        for metric in self.metrics:
            for runs in self._point_runs:
                for row in runs.values.mean_rows(
                    metric, self._names_at(runs, metric), self._reference(metric)
                ):
                    points.append(runs.labels(row["scheduler"]))
                    rows.append(row | {"scheduler": runs.variants[row["scheduler"]].scheduler})
        labels = {column_of(axis): self._column(axis, points) for axis in self.axes}
        return Table({**labels, **{name: [row[name] for row in rows] for name in rows[0]}})

    def _names_at(self, runs: PointRuns, metric: str) -> list[str]:
        """Return the columns of a point that have the metric at some point; all if none has it."""
        known = {name for each in self._point_runs for name in each.values.names_with(metric)}
        return [name for name in runs.variants if name in known]

    def _cell_rows(
        self, metric: str, rows_of: Callable[[Replicates, list[str]], list[list[TableCell]]]
    ) -> list[list[TableCell]]:
        """Return the rows of a table: labels, scheduler and estimates of each variant at each point.

        Parameters
        ----------
        rows_of
            Function of the values at a point and of their columns; each of its rows begins with the column.
        """
        rows: list[list[TableCell]] = []
        for runs in self._point_runs:
            names = self._names_at(runs, metric)
            for name, row in zip(names, rows_of(runs.values, names), strict=True):
                labels = runs.labels(name)
                cells = [label_text(labels[axis]) if axis in labels else "" for axis in self.axes]
                rows.append([*cells, runs.variants[name].scheduler, *row[1:]])
        return rows

    def paper_tables(self) -> list[TextTable]:
        """Return a table per metric, with a row per point and scheduler."""
        return [self._paper_table(metric) for metric in self.metrics]

    def _paper_table(self, metric: str) -> TextTable:
        base, (length, unit) = self._reference(metric), self._unit(metric)

        def rows_of(values: Replicates, names: list[str]) -> list[list[TableCell]]:
            return values.paper_rows(metric, names, base, length)

        titles = [
            (words, unit if are_numbers(labels) else "")
            for axis, labels in self.axes.items()
            for words, unit in [entry_title(axis)]
        ]
        head = [*titles, *paper_head(base)]
        caption = f"{quantity_title(metric, unit)}, {mean_over(self.replicates, base is not None)}"
        return TextTable(caption, head, text_rows(self._cell_rows(metric, rows_of), estimate_cells))

    def _reference(self, metric: str) -> str | None:
        """Return the scheduler to which all points relate the others by a metric; None without ratios."""
        references = [runs.values.reference(metric) for runs in self._point_runs]
        if self.baseline in references:
            return self.baseline
        return references[0] if len(set(references)) == 1 else None

    def _metric_table(self, metric: str) -> TextTable:
        """Return a table with a row per point and scheduler: the mean, and the ratio to the baseline."""
        base, (length, unit) = self._reference(metric), self._unit(metric)
        heads = [
            *map(str, self.axes),
            "scheduler",
            display_name(metric),
            *([] if base is None else [f"to {base}"]),
        ]
        rows = self._cell_rows(metric, lambda values, names: values.cell_rows(metric, names, base, length))
        caption = f"{heading(metric, unit)}, {mean_over(self.replicates, base is not None)}"
        texts = text_rows(rows, self._point_runs[0].values.write_estimate)
        charged = {row[len(self.axes)] for row in rows}
        notes = not_charged_note(metric, [name for name in self.schedulers if name not in charged])
        return TextTable(caption, [(head, "") for head in heads], texts, notes, keys=len(self.axes) + 1)

    def _unit(self, metric: str) -> tuple[float, str]:
        """Return the length and the name of the unit of a metric, the median of those of all points."""
        return median_low(runs.values.unit(metric) for runs in self._point_runs)

    def chart(
        self, metric: str | None = None, point: Mapping[str, Any] | None = None, ratio: bool = False
    ) -> CurveChart:
        """Return the chart that `gridsim.plots.swept` draws, with its parameters and errors.

        Parameters
        ----------
        point
            Its `where`.
        """
        metric = self.metrics[0] if metric is None else known_name(metric, self.metrics)
        point, base = dict(point or {}), self.baseline
        if metric not in self.metrics:
            raise ScenarioError(f"metric must be one of {', '.join(self.metrics)}, got {metric!r}")
        for name, label in point.items():
            if label not in self.axes.get(name, ()):
                raise ScenarioError(f"where must be a point of the sweep, got {name} = {label!r}")
        free_axes = [name for name, labels in self.axes.items() if len(labels) > 1 and name not in point]
        shared_axes = [name for name in free_axes if name not in self._variant_axes]
        if len(shared_axes) > 1:
            raise ScenarioError(f"where must leave at most one axis free, got {', '.join(shared_axes)}")
        if ratio and base is None:
            raise ScenarioError("ratio requires a sweep with a baseline")
        x_name = [*shared_axes, *free_axes, ""][0]
        x_title, unit = entry_title(x_name)
        length, metric_unit = self._unit(metric)
        curve_axes = [axis for axis in free_axes if axis != x_name]
        labels = self.axes.get(x_name, ("",))
        missing = Estimate(math.nan, math.nan, math.nan, self.replicates)
        columns: dict[str, list[tuple[Replicates, str] | None]] = {}
        constants: dict[str, None] = {}
        for runs in self._point_runs:
            for name in self._names_at(runs, metric):
                known = runs.labels(name)
                if any(known.get(axis, label) != label for axis, label in point.items()):
                    continue
                title = runs.variants[name].text(curve_axes)
                curve = columns.setdefault(title, [None] * len(labels))
                for k, label in enumerate(labels):
                    if known.get(x_name, label) == label:
                        curve[k] = runs.values, name
                if x_name and x_name not in known:
                    constants[title] = None
        excluded_at = {
            name: [k for k, value in enumerate(curve) if value and value[1] in value[0].exclusions]
            for name, curve in columns.items()
        }
        exclusions = [name for name, at in excluded_at.items() if len(at) == len(labels)]

        def estimates(column: tuple[Replicates, str] | None) -> Estimate:
            if column is None:
                return missing
            values, name = column
            if ratio:
                return values.ranked_ratio(name, str(base), metric) or missing
            return values.mean(name, metric).scale(1.0 / length)

        curves = {
            name: [estimates(column) for column in columns[name]]
            for name in ranked_first(columns, exclusions)
            if not ratio or name not in (base, *exclusions)
        }
        ends = [end for line in curves.values() for e in line for end in (e.mean, e.low, e.high)]
        positions: list[Any] = [
            _label_value(label, unit) if isinstance(label, str) else label for label in labels
        ]
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
            y=ChartAxis(f"{quantity}{',' * ratio}{relative}", ends, "ratio" if ratio else scale_of(metric)),
            order=list(columns),
            exclusions=exclusions,
            unranked_points={name: excluded_at[name] for name in curves if excluded_at[name]},
            reference=1.0 if ratio else None,
            positions=None if None in positions else positions,
            labels=["none" if label is None else label for label in labels],
            unit=unit,
            curves=curves,
            constants=[name for name in curves if name in constants],
        )

    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return charts of the metrics `chart_metrics` over the first axis with several labels.

        Means and ratios to the baseline have a chart per point of the other axes each, with equal y axes; if
        there is one such point, both are in one row.  Labels of axes that change only some schedulers are
        curves of these.  A baseline that is 0 in some run has no ratios.

        Parameters
        ----------
        full
            Leave out points for which a page has no room: it has up to `MAX_POINTS` charts of all metrics.
        """
        free_axes = [axis for axis, labels in self.axes.items() if len(labels) > 1]
        curve_axes = [axis for axis in free_axes[1:] if axis in self._variant_axes]
        if len({each.text(curve_axes) for each in self._point_runs[0].variants.values()}) > LOOKS:
            curve_axes = []
        other_axes = [axis for axis in free_axes[1:] if axis not in curve_axes]
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
        columns = [runs.values[metric][base] for runs in self._point_runs]
        return all((column != 0.0).all() and not np.isnan(column).all() for column in columns)

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
