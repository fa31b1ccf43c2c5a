"""The results of `gridsim.replicate`: the tables, charts and texts on several schedulers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.charts import Chart, ChartAxis, RowChart, concatenation, ranked_first, scale_of
from gridsim.plots.style import quantity_title
from gridsim.results.job_groups import Group
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.formulas import mean
from gridsim.results.metrics.registry import (
    MetricFunction,
    display_name,
    heading,
    known_name,
    with_common_bound,
)
from gridsim.results.metrics.selection import units_of
from gridsim.results.table import Table
from gridsim.results.text import NOT_RANKED
from gridsim.studies.execution.cell import RunRecord
from gridsim.studies.exports import (
    TableCell,
    estimate_cells,
    estimate_columns,
    mean_over,
    paper_head,
    rows_table,
    text_rows,
)
from gridsim.studies.groups import GroupMeans, group_means
from gridsim.studies.overview import (
    Overview,
    TextTable,
    as_text,
    enumeration,
    failure_lines,
    file_tables,
    not_charged_note,
    paired_with,
)
from gridsim.studies.paired_values import PairedValues
from gridsim.studies.study import Study, digest_of_runs
from gridsim.support.arrays import Floats
from gridsim.support.text import WIDTH

#: The time and the node in errors of node programs, in which replications differ.
_INSTANT = re.compile(r"t = \S+ s[,:] node \d+")


@dataclass(frozen=True)
class Replicates(PairedValues, Study):
    """Values of each metric, for each scheduler and replication, with the record of the runs.

    Parameters
    ----------
    seeds, values, units, measure, about, rejected, is_identical
        As in `PairedValues`.
    errors
        (scheduler, seed) -> why that run failed.
    digests
        Scheduler -> digest of each result, empty for a run that failed.
    baseline
        The scheduler that the others are compared with, or None.
    reached
        Whether the intervals are as narrow as was asked for; None if no width was asked for.
    files
        SHA-256 of each trace file that was read.
    groups
        Waiting times of rigid jobs by queue, user, account, site or size; each grouping has a table.
    remarks
        Sentences on differences between the schedulers that the tables do not show.
    """

    errors: Mapping[tuple[str, int], str] = field(default_factory=dict)
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: str | None = None
    reached: bool | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[GroupMeans, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the digests of all runs, one a line, in the order of `runs`; "" if they are unknown.

        A run that failed has an empty line.  Studies of equal runs have equal digests.
        """
        by_replication = zip(*self.digests.values(), strict=True)
        return digest_of_runs(itertools.chain.from_iterable(by_replication)) if self.digests else ""

    def joined(self, other: Replicates) -> Replicates:
        """Return these values together with the values of `other`.

        `other` has schedulers of other names on the same replications, for example on another network.

        Raises ScenarioError if the seeds or metrics differ, or a name is in both.
        """
        if other.seeds != self.seeds or set(other.values) != set(self.values):
            raise ScenarioError("replicates must have the same seeds and metrics to be joined")
        if both := set(self.schedulers) & set(other.schedulers):
            raise ScenarioError(
                f"replicates must have different schedulers to be joined, got {', '.join(sorted(both))} twice"
            )
        merged = {
            metric: {**own_values, **other.values[metric]} for metric, own_values in self.values.items()
        }
        return replace(
            self,
            values=merged,
            errors={**self.errors, **other.errors},
            digests={**self.digests, **other.digests},
            reached=None,
            files={**self.files, **other.files},
            rejected={**self.rejected, **other.rejected},
            long_waits={**self.long_waits, **other.long_waits},
            is_identical=self.is_identical and other.is_identical,
            remarks=tuple(dict.fromkeys((*self.remarks, *other.remarks))),
            groups=tuple(
                GroupMeans(own.group, {**own.values, **further.values})
                for own, further in zip(self.groups, other.groups, strict=False)
                if own.group == further.group
            ),
        )

    def _has(self, name: str, metric: str) -> bool:
        """Return whether runs of a scheduler have the metric, or failed so that this is unknown."""
        return not np.isnan(self._column(name, metric)).all() or any(run[0] == name for run in self.errors)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per metric and scheduler: mean, ratio to and difference from the baseline.

        Each is an `Estimate`; the last two are None for the baseline itself and if there is no baseline.
        """
        base = self.baseline
        rows = []
        for metric, columns in self.values.items():
            for name in columns:
                row: dict[str, Any] = {"metric": metric, "scheduler": name, "mean": self.mean(name, metric)}
                row |= {"ratio": None, "difference": None}
                if base is not None and name != base:
                    row["ratio"] = self.ratio(name, base, metric)
                    row["difference"] = self.difference(name, base, metric)
                rows.append(row)
        return rows

    def overview(self, *, full: bool = False) -> Overview:
        """Return the runs, a table per metric, the best scheduler, and the failed runs.

        The columns of a table are schedulers, means, and, if there is a baseline, ratios to it.  Schedulers
        without the metric, whose values are NaN though no run failed, are left out if others have it.  There
        are no tables if all runs failed.

        Parameters
        ----------
        full
            Include how the schedulers are compared, digests and trace files.
        """
        facts, count = {**self.about}, len(self.seeds)
        missing = ["mean_waiting"] if self._missing_waits() else []
        if self.about or full or self.is_identical:
            facts["replications"] = f"{count}"
        if self.is_identical:
            facts["replications"] += ", all with equal values: nothing that is drawn at random has an effect"
        elif self.about and count > 1:
            facts["replications"] += f"; the lines above describe number {self.seeds[0]}"
        if self.digest:
            facts["digest"] = f"{self.digest} (of all {len(self.seeds) * len(self.schedulers)} runs)"
        if full:
            facts |= paired_with(self.baseline) | {"compared by": display_name(self.measure)}
        return Overview(
            facts,
            [
                *(self._metric_table(metric) for metric in self.values if metric not in missing),
                *(group.table(self.noun, self.waiting_unit) for group in self.groups),
            ]
            if len(self.errors) < count * len(self.schedulers)
            else [],
            self.verdict(),
            remarks=[*self.remarks, *self._missing_waits()],
            failures=self._failures(),
            records=self._records() if full else (),
            title=f"{enumeration(self.schedulers)} over {count} replications",
        )

    def _metric_table(self, metric: str) -> TextTable:
        base, names = self.reference(metric), self.names_with(metric)
        heads = ["scheduler", "mean", *([] if base is None else [f"relative to {base}"])]
        length, unit = self.unit(metric)
        caption = f"{heading(metric, unit, self.noun)}, {mean_over(len(self.seeds), base is not None)}"
        rows = self.cell_rows(metric, names, base, length)
        notes = not_charged_note(metric, [name for name in self.values[metric] if name not in names])
        return TextTable(caption, [(head, "") for head in heads], text_rows(rows, self.write_estimate), notes)

    def names_with(self, metric: str) -> list[str]:
        """Return the schedulers that have the metric; all if none has it."""
        return [name for name in self.values[metric] if self._has(name, metric)] or [*self.values[metric]]

    def reference(self, metric: str) -> str | None:
        """Return the scheduler to which tables relate the others by a metric; None without ratios.

        It is the baseline, or if that always has 0, the first of several without 0.  There are no ratios if
        all runs of the baseline failed.
        """
        base, names = self.baseline, self.names_with(metric)
        if base is None or len(names) == 1 or (base in self.values[metric] and base not in names):
            return None
        if all((base, seed) in self.errors for seed in self.seeds):
            return None
        if base in names and self._column(base, metric).any():
            return base
        usual = [name for name in names if self._column(name, metric).all()]
        return usual[0] if len(usual) > 1 else None

    def means(self) -> Table:
        """Return a table with a row per metric and scheduler, in the unit of the metric.

        Ratios are to the scheduler ``relative_to``, which is the baseline; they are undefined if the baseline
        is 0 in some replication, and for schedulers that are not ranked.
        """
        rows = [
            row
            for metric in self.values
            for row in self.mean_rows(metric, self.names_with(metric), self.reference(metric))
        ]
        return rows_table(rows)

    def mean_rows(self, metric: str, names: Iterable[str], base: str | None) -> list[dict[str, Any]]:
        """Return the rows of `means` for a metric and the schedulers `names`, with ratios to `base`."""
        return [
            {
                "metric": metric,
                "unit": self.units.get(metric, ""),
                "scheduler": name,
                "n": len(self.seeds),
                **estimate_columns(self.mean(name, metric)),
                "relative_to": base or "",
                **estimate_columns(base and self.ranked_ratio(name, base, metric) or None, "ratio"),
                "ranked": name not in self.exclusions,
            }
            for name in names
        ]

    def paper_tables(self) -> list[TextTable]:
        """Return a table per metric, with means, their intervals, and ratios in columns of their own."""
        tables = []
        for metric in self.values:
            base, (length, unit) = self.reference(metric), self.unit(metric)
            rows = self.paper_rows(metric, self.names_with(metric), base, length)
            title = self._by_noun(quantity_title(metric, unit))
            caption = f"{title}, {mean_over(len(self.seeds), base is not None)}"
            tables.append(TextTable(caption, paper_head(base), text_rows(rows, estimate_cells)))
        return tables

    def paper_rows(
        self, metric: str, names: Iterable[str], base: str | None, length: float
    ) -> list[list[TableCell]]:
        """Return the cells of `paper_head` for the schedulers `names`, in a unit of this length."""
        rows: list[list[TableCell]] = []
        for name in names:
            cells: list[TableCell] = [name, f"{len(self.seeds)}", self.mean(name, metric).scale(1.0 / length)]
            if base is not None:
                mark = "1" if name == base else NOT_RANKED if name in self.exclusions else "-"
                ratio = self.ranked_ratio(name, base, metric) if mark == "-" else None
                cells.append(ratio or (mark, "-"))
            rows.append(cells)
        return rows

    def cell_rows(
        self, metric: str, names: Iterable[str], base: str | None, length: float = 1.0
    ) -> list[list[TableCell]]:
        """Return cells for each of the schedulers `names`: its name, its mean, and its ratio to `base`.

        Parameters
        ----------
        length
            Length of the unit of the mean.
        """
        return [
            [
                name,
                self.mean(name, metric).scale(1.0 / length),
                *([] if base is None else [self.relative(name, base, metric, length)]),
            ]
            for name in names
        ]

    def write_estimate(self, estimate: Estimate, decimals: int | None) -> list[str]:
        """Return an estimate as the cell of a table."""
        return [estimate.format(seeds=len(self.seeds), decimals=decimals)]

    def _missing_waits(self) -> list[str]:
        waits = self.values.get("mean_waiting", {})
        if not waits or self.errors or any(self._has(name, "mean_waiting") for name in waits):
            return []
        return ["bags have no mean_waiting: the mean response time of bags is mean_completion"]

    def _failures(self) -> list[str]:
        """Return lines on the failed runs and their errors, and on intervals wider than requested."""
        seeds_by_error: dict[tuple[str, str], list[int]] = {}
        for (name, seed), error in self.errors.items():
            seeds_by_error.setdefault((name, _INSTANT.sub("", error)), []).append(seed)
        count, errors = len(self.seeds), []
        for (name, _), seeds in seeds_by_error.items():
            is_all = len(seeds) == count > 1
            runs = (
                {f"all {count} replications": seeds[0]} if is_all else {f"replication {k}": k for k in seeds}
            )
            errors += [(f"{name}, {run}", self.errors[name, seed]) for run, seed in runs.items()]
        lines = failure_lines(errors, count * len(self.schedulers))
        if self.reached is False:
            lines.append(f"{self.measure}: not all intervals are as narrow as was asked for")
        return lines

    def _records(self) -> list[TextTable]:
        names, tables = list(self.digests), []
        if names:
            head = [("", ""), *((name, "") for name in names)]
            rows = [
                [f"replication {seed}", *(self.digests[name][k] or "failed" for name in names)]
                for k, seed in enumerate(self.seeds)
            ]
            tables.append(TextTable("Digests", head, rows))
        return [*tables, *file_tables(self.files.items())]

    def format(
        self,
        baseline: str | None = None,
        *,
        width: int = WIDTH,
        plan: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Return the overview as text: a line per metric and scheduler with the mean and its ratio.

        Parameters
        ----------
        baseline
            The scheduler to use as the baseline; None for `self.baseline`.
        width
            Characters of a line; columns of a table beyond that follow below.
        plan
            Facts that are left out, since they were printed before the runs.
        """
        study = self if baseline is None else replace(self, baseline=baseline)
        return as_text(study.overview(), width, plan)

    def __repr__(self) -> str:
        return (
            f"<Replicates of {', '.join(self.schedulers)}: {len(self.seeds)} replications, "
            f"{', '.join(self.values)}>"
        )

    def runs(self) -> Table:
        """Return a table with a row per replication and scheduler, and a column per metric."""
        names, count = self.schedulers, len(self.seeds)
        columns: dict[str, Any] = {
            "replicate": np.repeat(self.seeds, len(names)),
            "scheduler": np.tile(names, count),
        }
        for metric, values in self.values.items():
            columns[metric] = np.stack([values[name] for name in names], axis=1).ravel()
        return Table(columns)

    def relative(self, name: str, base: str, metric: str, length: float = 1.0) -> Estimate | str:
        """Return `ranked_ratio`, or the difference as text if there is no ratio.

        Schedulers that are not ranked have neither, and there is neither to a `base` that always is 0, nor if
        jobs hardly wait.

        Parameters
        ----------
        length
            Length of the unit of the difference.
        """
        if name == base:
            return "1"
        if name in self.exclusions:
            return NOT_RANKED
        ratio = self.ranked_ratio(name, base, metric)
        if ratio is not None:
            return ratio
        if self.short_wait(metric) or not self._column(base, metric).any():
            return "-"
        if not self._column(name, metric).any():
            return "0"
        difference = self.difference(name, base, metric)
        return f"difference {difference.scale(1.0 / length).format(seeds=len(self.seeds))}"

    def chart(self, metric: str | None = None, ratio: bool = False) -> RowChart:
        """Return the chart that `gridsim.plots.comparison` draws, with its parameters and errors."""
        metric = known_name(self.measure if metric is None else metric, self.values)
        if metric not in self.values:
            raise ScenarioError(f"metric must be one of {', '.join(self.values)}, got {metric!r}")
        if not ratio:
            return self._mean_chart(metric)
        if self.baseline is None:
            raise ScenarioError("ratio requires replicates with a baseline")
        return self._ratio_chart(metric, self.baseline)

    def _mean_chart(self, metric: str) -> RowChart:
        """Return the chart of the means of a metric."""
        length, unit = self.unit(metric)
        names = ranked_first(self.schedulers, self.exclusions)
        samples = {name: column / length for name, column in self.values[metric].items()}
        return RowChart(
            title=self._by_noun(display_name(metric).capitalize()),
            caption=f"Mean over {len(self.seeds)} replications with its confidence interval; each dot is a "
            "replication.",
            x=ChartAxis(
                self._by_noun(quantity_title(metric, unit)), concatenation(samples), scale_of(metric)
            ),
            order=names,
            exclusions=self.exclusions,
            estimates={name: self.mean(name, metric).scale(1.0 / length) for name in names},
            samples=samples,
        )

    def _ratio_chart(self, metric: str, base: str) -> RowChart:
        """Return the chart of the ratios of a metric to that of `base`."""
        exclusions, count, columns = self.exclusions, len(self.seeds), self.values[metric]
        names = ranked_first(self.schedulers, exclusions)
        quantity = self._by_noun(quantity_title(metric, ""))
        estimates = {name: self.ranked_ratio(name, base, metric) for name in names if name != base}
        with np.errstate(all="ignore"):
            ratios = {
                name: columns[name] / columns[base] if estimates.get(name) else np.zeros(0) for name in names
            }
        missing = Estimate(math.nan, math.nan, math.nan, count)
        note = f"({count} paired replications)"
        return RowChart(
            title=f"{self._by_noun(display_name(metric).capitalize())} relative to {base}",
            caption="Geometric mean of the ratios of paired replications, with its confidence interval.  A "
            f"scheduler whose interval contains 1 does not differ significantly from {base}.",
            x=ChartAxis(f"{quantity}, relative to {base}", concatenation(ratios), "ratio", note),
            order=names,
            exclusions=exclusions,
            reference=1.0,
            estimates={
                name: self.ratio(base, base, metric) if name == base else estimates[name] or missing
                for name in names
            },
            samples=ratios,
        )

    def _by_noun(self, title: str) -> str:
        """Return a title in which means "by cores" are by nodes if machines are nodes."""
        return title.replace("by cores", f"by {self.noun}s")

    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return a chart of the means of `measure`, and one of their ratios to that of the baseline.

        Parameters
        ----------
        full
            Include the ratios of each metric that has some.
        """
        charts: list[Chart] = [self.chart()]
        if (base := self.baseline) is None or len(self.schedulers) < 2:
            return [charts]
        others, metrics = [name for name in self.schedulers if name != base], [self.measure]
        if full:
            metrics = [m for m in self.values if any(self._has_ratio(name, base, m) for name in others)]
        return [[*charts, *(self.chart(metric, ratio=True) for metric in metrics)]]

    def to_dict(self) -> dict[str, Any]:
        """Return seeds, units, values, means and ratios with their intervals, and errors, as plain values.

        The entry ``differences`` has the differences to the baseline where there is no ratio to it.
        """
        base = self.baseline
        ratios: dict[str, dict[str, Any]] = {}
        differences: dict[str, dict[str, Any]] = {}
        for metric, columns in self.values.items():
            if base is None:
                break
            others = [name for name in columns if name != base]
            ratios[metric] = {name: asdict(self.ratio(name, base, metric)) for name in others}
            if without := [name for name in others if not self._has_ratio(name, base, metric)]:
                differences[metric] = {name: asdict(self.difference(name, base, metric)) for name in without}
        return {
            "seeds": list(self.seeds),
            "units": dict(self.units),
            "values": {m: {n: v.tolist() for n, v in c.items()} for m, c in self.values.items()},
            "means": {m: {n: asdict(self.mean(n, m)) for n in c} for m, c in self.values.items()},
            "baseline": base,
            "ratios": ratios,
            "differences": differences,
            "digest": self.digest,
            "digests": {name: list(digests) for name, digests in self.digests.items()},
            "errors": [{"scheduler": n, "seed": s, "error": e} for (n, s), e in self.errors.items()],
            "reached": self.reached,
            **({"by": {means.group: means.plain_rows() for means in self.groups}} if self.groups else {}),
        }


def replicates_of(
    records: Sequence[RunRecord],
    schedulers: Sequence[str],
    numbers: tuple[int, ...],
    metrics: Sequence[str],
    baseline: str | None = None,
    reached: bool | None = None,
    functions: Mapping[str, MetricFunction | None] | None = None,
    by: Sequence[Group] = (),
) -> Replicates:
    """Return `records` as `Replicates`.

    Parameters
    ----------
    records
        Run records, ordered by replication and scheduler.
    functions
        The functions of metrics, as `requested_metrics` returned them.
    by
        What rigid jobs are grouped by in the records.
    """
    user_metrics = {name for name, function in (functions or {}).items() if function is not None}
    count = len(schedulers)
    records_of = {name: records[k::count] for k, name in enumerate(schedulers)}
    runs = [record.values for record in records]
    rigid = any(math.isfinite(run.get("mean_waiting", math.nan)) for run in runs)
    if not rigid and not {"gap", "lower_bound", "max_stretch"} & user_metrics:
        runs = [one for k in range(0, len(runs), count) for one in with_common_bound(runs[k : k + count])]
    values: dict[str, dict[str, Floats]] = {}
    for metric in metrics:
        values[metric] = {}
        for k, name in enumerate(schedulers):
            column = np.array([run.get(metric, math.nan) for run in runs[k::count]])
            column.flags.writeable = False
            values[metric][name] = column
    return Replicates(
        seeds=numbers,
        values=values,
        units=units_of(metrics, functions),
        errors={
            (name, number): error
            for i, number in enumerate(numbers)
            for name in schedulers
            if (error := records_of[name][i].error)
        },
        digests={name: tuple(record.digest for record in column) for name, column in records_of.items()},
        baseline=baseline,
        measure=metrics[0],
        reached=reached,
        rejected={
            name: np.array([run.get("failed", math.nan) for run in runs[k::count]])
            for k, name in enumerate(schedulers)
            if rigid and "failed" not in user_metrics
        },
        long_waits={
            name: max(
                mean(np.array([run.get(metric, math.nan) for run in runs[k::count]]))
                for metric in ("mean_waiting", "p95_waiting")
            )
            for k, name in enumerate(schedulers)
            if rigid
        },
        is_identical=len(numbers) > 1 and all(_are_equal(runs[k::count]) for k in range(count)),
        groups=group_means(by, records_of),
    )


def _are_equal(runs: Sequence[Mapping[str, float]]) -> bool:
    """Return whether runs have equal values of all metrics; a run that failed has none."""
    first, *others = (np.array(list(run.values())) for run in runs)
    return bool(len(first)) and all(np.array_equal(first, run, equal_nan=True) for run in others)
