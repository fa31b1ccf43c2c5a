"""replicate(): runs several schedulers on replications of a scenario and compares them in pairs.

All schedulers run on the same replications (common random numbers), so that differences between them are
estimated from pairs.  No mean stands alone: each has a bootstrap interval and the number of replications, or
the reason why there is no interval.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import GridSimError, ScenarioError, WarningScope
from gridsim.model.bag_workloads import LogRecipe
from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
from gridsim.model.sanity_checks import warn_unusual
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.plots.charts import Chart, ChartAxis, RowChart, concatenation, ranked_first
from gridsim.plots.style import quantity_title
from gridsim.results.job_groups import Group, checked_groups, job_groups
from gridsim.results.metrics.estimates import (
    MIN_SEEDS,
    Estimate,
    estimate,
    paired_ratio,
    ratio_of_means,
)
from gridsim.results.metrics.formulas import mean
from gridsim.results.metrics.registry import (
    ALIASES,
    MetricFunction,
    default_metrics,
    display_name,
    heading,
    with_common_bound,
)
from gridsim.results.metrics.selection import RequestedMetrics, requested_metrics, units_of
from gridsim.results.metrics.window import checked_days
from gridsim.results.table import Table
from gridsim.results.text import NOT_RANKED, planned_lines
from gridsim.scheduling.registry import Schedulers, chosen_schedulers
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.collect import MAX_RUNS, collect
from gridsim.studies.execution.store import Store, StorePath, store_of
from gridsim.studies.exports import estimate_cells, estimate_columns, mean_over, paper_head, rows_table
from gridsim.studies.groups import GroupMeans, group_means
from gridsim.studies.overview import (
    Overview,
    TextTable,
    as_text,
    enumeration,
    failure_lines,
    file_tables,
    paired_with,
)
from gridsim.studies.study import Study, digest_of_runs
from gridsim.studies.verdicts import (
    by_cores,
    difference_text,
    excess_text,
    interval_text,
    ranking_of,
    rejection_reasons,
    short_list,
    shortage_text,
    unranked_text,
    wait_limit,
)
from gridsim.support.announcement import announce
from gridsim.support.arguments import (
    SuggestingDict,
    check_names,
    integer,
    real,
    sequence,
    short_repr,
    unknown_name_error,
)
from gridsim.support.arrays import Floats
from gridsim.support.processes import Processes
from gridsim.support.progress import Progress
from gridsim.support.provenance import TraceDigests
from gridsim.support.text import typical_unit

#: Initial and maximum number of replications if a half-width is requested.
AT_LEAST, AT_MOST = 10, 1000


#: Statistic over replications -> the function of columns that estimates it.
_STATISTICS: dict[str, Callable[..., Estimate]] = {
    "mean": estimate,
    "ratio": paired_ratio,
    "mean ratio": lambda a, b: estimate(a / b),
    "difference": lambda a, b: estimate(a - b),
    "ratio of means": lambda a, b: estimate(a, b, statistic=ratio_of_means),
}
#: Random part of a scenario on the jobs of a log -> what is drawn.
_OF_LOGS = {"submitters": "the machine at which each job is submitted"}


@dataclass(frozen=True)
class Replicates(Study):
    """Values of each metric, for each scheduler and replication.

    Parameters
    ----------
    seeds
        The numbers of the replications, or seeds, in the order in which they were given.
    values
        Metric -> scheduler -> float64[seeds], read-only; NaN for a run that failed.
    units
        Metric -> unit, where it is known.
    errors
        (scheduler, seed) -> why that run failed.
    digests
        Scheduler -> digest of each result, empty for a run that failed.
    baseline
        The scheduler that the others are compared with, or None.
    measure
        The metric by which schedulers are compared.
    reached
        Whether the intervals are as narrow as was asked for; None if no width was asked for.
    about
        Lines on platform, workload and load of the first replication: what a line is about -> its text.
    files
        SHA-256 of each trace file that was read.
    rejected
        Scheduler -> number of rejected rigid jobs, float64[seeds]; empty for bags.
    is_identical
        Whether all metrics of each scheduler are equal in several replications.
    groups
        Waiting times of rigid jobs by queue, user, account, site or size; each grouping has a table.
    """

    seeds: tuple[int, ...]
    values: Mapping[str, Mapping[str, Floats]]
    units: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[tuple[str, int], str] = field(default_factory=dict)
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: str | None = None
    measure: str = "max_stretch"
    reached: bool | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, Floats] = field(default_factory=dict)
    is_identical: bool = False
    groups: tuple[GroupMeans, ...] = ()
    _estimates: dict[tuple[str | None, ...], Estimate] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getitem__(self, metric: str) -> Mapping[str, Floats]:
        name = metric if metric in self.values else ALIASES.get(metric, metric)
        if name not in self.values:
            raise unknown_name_error("metric", metric, self.values)
        return SuggestingDict("scheduler", self.values[name])

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Names of the schedulers, in the order in which they were given."""
        return tuple(next(iter(self.values.values())))

    @property
    def exclusions(self) -> dict[str, str]:
        """The schedulers that are not ranked, since others reject fewer jobs, and why."""
        means = {name: mean(counts[~np.isnan(counts)]) for name, counts in self.rejected.items()}
        return rejection_reasons(means, "on average" if len(self.seeds) > 1 else "")

    @property
    def noun(self) -> str:
        """What the machines of rigid jobs are called, "core" or "node"."""
        return "node" if "nodes" in self.about else "core"

    @property
    def digest(self) -> str:
        """SHA-256 of the digests of all runs, one a line, in the order of `runs`; "" if they are unknown.

        A run that failed has an empty line.  Studies of equal runs have equal digests.
        """
        by_replication = zip(*self.digests.values(), strict=True)
        return digest_of_runs(itertools.chain.from_iterable(by_replication)) if self.digests else ""

    def mean(self, name: str, metric: str | None = None) -> Estimate:
        """Estimate the mean over replications for the scheduler `name`.

        Parameters
        ----------
        metric
            None, also in the other methods, for the first of `values`.
        """
        return self._estimate("mean", metric, name)

    def ratio(self, a: str, b: str, metric: str | None = None) -> Estimate:
        """Estimate the geometric mean over replications of a / b, both values from the same replication.

        It is NaN if a value is 0 or less in some replication; see `difference`.
        """
        return self._estimate("ratio", metric, a, b)

    def mean_ratio(self, a: str, b: str, metric: str | None = None) -> Estimate:
        """Estimate the arithmetic mean over replications of a / b, which is not 1 over that of b / a."""
        return self._estimate("mean ratio", metric, a, b)

    def ratio_of_means(self, a: str, b: str, metric: str | None = None) -> Estimate:
        """Estimate the mean of a divided by the mean of b, with replications resampled in pairs."""
        return self._estimate("ratio of means", metric, a, b)

    def difference(self, a: str, b: str, metric: str | None = None) -> Estimate:
        """Estimate the mean over replications of a - b, both values from the same replication."""
        return self._estimate("difference", metric, a, b)

    def _estimate(self, statistic: str, metric: str | None, *names: str) -> Estimate:
        """Return an estimate; it is cached, so that texts, tables, charts and pages agree."""
        key = statistic, metric, *names
        if key not in self._estimates:
            columns = [self._column(name, metric) for name in names]
            with np.errstate(all="ignore"):
                self._estimates[key] = _STATISTICS[statistic](*columns)
        return self._estimates[key]

    def is_constant(self, a: str, b: str, metric: str | None = None) -> bool:
        """Return whether both schedulers have equal values in all replications."""
        return self.mean(a, metric).is_constant and self.mean(b, metric).is_constant

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
        return Replicates(
            self.seeds,
            merged,
            self.units,
            {**self.errors, **other.errors},
            {**self.digests, **other.digests},
            self.baseline,
            self.measure,
            about=self.about,
            files={**self.files, **other.files},
            rejected={**self.rejected, **other.rejected},
            is_identical=self.is_identical and other.is_identical,
            groups=tuple(
                GroupMeans(one.group, {**one.values, **two.values})
                for one, two in zip(self.groups, other.groups, strict=False)
                if one.group == two.group
            ),
        )

    def _column(self, name: str, metric: str | None) -> Floats:
        column: Floats = self[next(iter(self.values)) if metric is None else metric][name]
        return column

    def _has(self, name: str, metric: str) -> bool:
        """Whether runs of the scheduler have the metric, or failed so that this is unknown."""
        return not np.isnan(self._column(name, metric)).all() or any(run[0] == name for run in self.errors)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per metric and scheduler: mean, ratio to and difference from the baseline.

        Each is an `Estimate`; the last two are None for the baseline itself and if there is no baseline."""
        base = self.baseline
        rows = []
        for metric, columns in self.values.items():
            for name in columns:
                row = {"metric": metric, "scheduler": name, "mean": self.mean(name, metric)}
                other = base is not None and name != base
                row["ratio"] = self.ratio(name, base, metric) if other and base else None
                row["difference"] = self.difference(name, base, metric) if other and base else None
                rows.append(row)
        return rows

    def overview(self, *, full: bool = False) -> Overview:
        """Return the runs, a table per metric, the best scheduler, and the failed runs.

        The columns of a table are schedulers, means, and, if there is a baseline, ratios to it.  Schedulers
        without the metric, whose values are NaN though no run failed, are left out if others have it.

        Parameters
        ----------
        full
            Include how the schedulers are compared, digests and trace files.
        """
        facts, count = {**self.about}, len(self.seeds)
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
                *(self._metric_table(metric) for metric in self.values),
                *(group.table(self.noun, self._waiting_unit()) for group in self.groups),
            ],
            self.verdict(),
            failures=self._failures(),
            records=self._records() if full else (),
            title=f"{enumeration(self.schedulers)} over {count} replications",
        )

    def verdict(self, metric: str | None = None) -> str:
        """Return the best scheduler by the mean of a metric, its lead, and comparisons that remain undecided.

        A difference is significant if the interval of the ratio, paired by replication, does not contain
        1 (without a ratio, that of the difference 0); values that are equal in all replications allow no
        conclusion.  Schedulers that reject more jobs than another are not ranked.  Empty for fewer than two
        schedulers with values.

        Parameters
        ----------
        metric
            By default `measure`.
        """
        metric, count = self.measure if metric is None else metric, len(self.seeds)
        columns = self[metric]
        reasons = unranked_text(self.exclusions)
        ranking = ranking_of(columns, self.exclusions)
        if len(ranking) < 2:
            return reasons.strip()
        if text := shortage_text(count, identical=self.is_identical):
            return text + reasons
        if short := self.short_wait(metric):
            return f"Over {count} replications, jobs hardly wait: each mean is below {short}.{reasons}"
        best = [name for name in ranking if np.array_equal(columns[name], columns[ranking[0]])]
        larger: list[str] = []
        smaller: list[str] = []
        insignificant: list[str] = []
        constant: list[str] = []
        for name in ranking:
            if name not in best:
                sign, excess = self.excess(name, best[0], metric)
                if self.is_constant(name, best[0], metric):
                    differences = constant
                else:
                    differences = {1: larger, 0: insignificant, -1: smaller}[sign]
                differences.append(" ".join(filter(None, (name, excess))))
        text = f"Over {count} replications, {' and '.join(best)} {'have' if len(best) > 1 else 'has'} "
        text += f"the lowest {display_name(metric)} on average"
        if larger:
            text += f" ({short_list(larger)})"
        if smaller:
            text += f", but the geometric mean of others is lower ({short_list(smaller)})"
        if insignificant:
            text += f"; not significant: {short_list(insignificant)}"
        if constant:
            text += f"; equal in all replications, so without an interval: {short_list(constant)}"
        if metric == "mean_waiting" and (cores := self.values.get("mean_waiting_by_cores")):
            jobs_means, cores_means = (
                {name: mean(each[name]) for name in ranking} for each in (columns, cores)
            )
            text += "." + by_cores(jobs_means, cores_means, self.noun, self.unit(metric))
        if texts := self._ratios_of_means(ranking, best[0], metric):
            text = text.removesuffix(".") + (
                f".  Ratios are geometric means over pairs; by the means it is {short_list(texts)}"
            )
        return text.removesuffix(".") + "." + reasons

    def _ratios_of_means(self, names: Iterable[str], best: str, metric: str) -> list[str]:
        """Return how many times the mean of the best scheduler others have, if `ratio` is far from that."""
        texts = []
        for name in names:
            if name != best and self._has_ratio(name, best, metric):
                ratio, of_means = self.ratio(name, best, metric), self.ratio_of_means(name, best, metric).mean
                if ratio.low > of_means or ratio.high < of_means:
                    texts.append(f"{name} {excess_text(of_means, 1.0)}")
        return texts

    def short_wait(self, metric: str) -> str:
        """Return the limit below which all means of waiting times are, as text; "" if some are not.

        Parameters
        ----------
        metric
            A metric; "" is returned as well if it is no mean of waiting times.
        """
        if not metric.startswith("mean_waiting"):
            return ""
        limit, text = wait_limit()
        names = ranking_of(self[metric], self.exclusions)
        return text if names and all(mean(self[metric][name]) < limit for name in names) else ""

    def excess(self, name: str, best: str, metric: str) -> tuple[int, str]:
        """Return the sign of a significant difference to the best scheduler, else 0; and how large it is.

        It is a ratio, or a difference if one of both has 0 in a replication.  A scheduler with a larger mean
        than the best one may be significantly lower than it in most replications: then the sign is -1.

        Parameters
        ----------
        name
            The scheduler.
        best
            The scheduler with the lowest mean.
        metric
            The metric that is compared; less is better.
        """
        if self._has_ratio(name, best, metric):
            ratio = self.ratio(name, best, metric)
            return (ratio.low > 1.0) - (ratio.high < 1.0), interval_text(ratio)
        difference = self.difference(name, best, metric)
        length, unit = self.unit(metric)
        sign = (difference.low > 0.0) - (difference.high < 0.0)
        return sign, difference_text(difference, (length, "" if unit == "1" else unit))

    def _has_ratio(self, a: str, b: str, metric: str) -> bool:
        """Return whether no value of both schedulers is 0 or less, so that there are ratios of them."""
        return not any((self._column(name, metric) <= 0.0).any() for name in (a, b))

    def _metric_table(self, metric: str) -> TextTable:
        base, names = self.reference(metric), self._names_with(metric)
        heads = ["scheduler", "mean", *([] if base is None else [f"relative to {base}"])]
        length, unit = self.unit(metric)
        caption = f"{heading(metric, unit, self.noun)}, {mean_over(len(self.seeds), base is not None)}"
        return TextTable(caption, [(head, "") for head in heads], self.text_rows(metric, names, base, length))

    def _names_with(self, metric: str) -> list[str]:
        """Return the schedulers that have the metric; all if none has it."""
        return [name for name in self.values[metric] if self._has(name, metric)] or [*self.values[metric]]

    def reference(self, metric: str) -> str | None:
        """Return the scheduler to which tables relate the others by a metric; None without ratios.

        It is the baseline, or if that always has 0, the first of several without 0.
        """
        base, names = self.baseline, self._names_with(metric)
        if base is None or len(names) == 1 or (base in self.values[metric] and base not in names):
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
            for row in self.mean_rows(metric, self._names_with(metric), self.reference(metric))
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
            rows = self.paper_rows(metric, self._names_with(metric), base, length)
            caption = f"{heading(metric, unit, self.noun)}, {mean_over(len(self.seeds), base is not None)}"
            tables.append(TextTable(caption, paper_head(base), rows))
        return tables

    def paper_rows(
        self, metric: str, names: Iterable[str], base: str | None, length: float
    ) -> list[list[str]]:
        """Return the cells of `paper_head` for the schedulers `names`, in a unit of this length."""
        rows = []
        for name in names:
            cells = [name, f"{len(self.seeds)}", *estimate_cells(self.mean(name, metric), length)]
            if base is not None:
                ratio, interval = estimate_cells(self.ranked_ratio(name, base, metric))
                mark = "1" if name == base else NOT_RANKED if name in self.exclusions else ""
                cells += [mark, "-"] if mark else [ratio, interval]
            rows.append(cells)
        return rows

    def unit(self, metric: str) -> tuple[float, str]:
        """Return the length and the name of the unit in which a metric is shown.

        Long times are in h or days, as in single runs; all waiting times have one unit.
        """
        name, _, note = self.units.get(metric, "").partition(" ")
        if name != "s":
            return 1.0, self.units.get(metric, "")
        together = [each for each in ("mean_waiting", "p95_waiting") if each in self.values]
        if "waiting" not in metric or not together:
            together = [metric]
        means = (max(mean(self.values[each][name]) for each in together) for name in self.values[metric])
        length, name = typical_unit(means)
        return length, f"{name} {note}".strip()

    def _waiting_unit(self) -> tuple[float, str]:
        """Return the length and the name of the unit of waiting times by group."""
        if "mean_waiting" in self.values:
            length, name = self.unit("mean_waiting")
            return length, name.partition(" ")[0]
        rows = (row for group in self.groups for row in group.rows(1)[:1])
        return typical_unit(wait.mean for row in rows for wait in row["mean_waiting"].values())

    def text_rows(
        self, metric: str, names: Iterable[str], base: str | None, length: float = 1.0
    ) -> list[list[str]]:
        """Return texts for each of the schedulers `names`: its name, its mean, and its ratio to `base`.

        Parameters
        ----------
        length
            Length of the unit of the mean.
        """
        return [
            [
                name,
                self.mean(name, metric).scale(1.0 / length).format(seeds=len(self.seeds)),
                *([] if base is None else [self.relative(name, base, metric, length)]),
            ]
            for name in names
        ]

    def _failures(self) -> list[str]:
        """Return lines on the failed runs and their errors, and on intervals wider than requested."""
        errors = [(f"{name}, replication {seed}", error) for (name, seed), error in self.errors.items()]
        lines = failure_lines(errors, len(self.seeds) * len(self.schedulers))
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

    def format(self, baseline: str | None = None, *, plan: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the runs, and a line per metric and scheduler: the mean, the ratio to the baseline.

        Parameters
        ----------
        baseline
            The scheduler to use as the baseline; None for `self.baseline`.
        plan
            Facts that are left out, since they were printed before the runs.
        """
        study = self if baseline is None else replace(self, baseline=baseline)
        return as_text(study.overview(), plan=plan)

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

    def relative(self, name: str, base: str, metric: str, length: float = 1.0) -> str:
        """Return `ranked_ratio` as text, or the difference if there is no ratio.

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
            return ratio.format(seeds=len(self.seeds))
        if self.short_wait(metric) or not self._column(base, metric).any():
            return "-"
        if not self._column(name, metric).any():
            return "0"
        difference = self.difference(name, base, metric)
        return f"difference {difference.scale(1.0 / length).format(seeds=len(self.seeds))}"

    def ranked_ratio(self, name: str, base: str, metric: str) -> Estimate | None:
        """Return the `ratio` that tables and charts show.

        It is None if the scheduler is not ranked, if a value is not above 0, or if jobs hardly wait.
        """
        has_ratio = name not in self.exclusions and self._has_ratio(name, base, metric)
        return self.ratio(name, base, metric) if has_ratio and not self.short_wait(metric) else None

    def chart(self, metric: str | None = None, ratio: bool = False) -> RowChart:
        """Return the chart that `gridsim.plots.comparison` draws, with its parameters and errors."""
        metric, base = self.measure if metric is None else ALIASES.get(metric, metric), self.baseline
        if metric not in self.values:
            raise ScenarioError(f"metric must be one of {', '.join(self.values)}, got {metric!r}")
        if ratio and base is None:
            raise ScenarioError("ratio requires replicates with a baseline")
        exclusions, count, columns = self.exclusions, len(self.seeds), self[metric]
        names = ranked_first(self.schedulers, exclusions)
        length, unit = self.unit(metric)
        title, quantity = (
            text.replace("by cores", f"by {self.noun}s")
            for text in (display_name(metric).capitalize(), quantity_title(metric, ""))
        )
        if not ratio or base is None:
            samples = {name: column / length for name, column in columns.items()}
            return RowChart(
                title=title,
                caption=f"Mean over {count} replications with its confidence interval; each dot is a "
                "replication.",
                x=ChartAxis(quantity_title(metric, unit), concatenation(samples)),
                order=names,
                exclusions=exclusions,
                estimates={name: self.mean(name, metric).scale(1.0 / length) for name in names},
                samples=samples,
            )
        estimates = {name: self.ranked_ratio(name, base, metric) for name in names if name != base}
        with np.errstate(all="ignore"):
            ratios = {
                name: columns[name] / columns[base] if estimates.get(name) else np.zeros(0) for name in names
            }
        missing = Estimate(math.nan, math.nan, math.nan, count)
        note = f"({count} paired replications)"
        return RowChart(
            title=f"{title} relative to {base}",
            caption="Geometric mean of the ratios of paired replications, with its confidence interval.  If "
            "the interval contains 1, the difference is not significant.",
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

    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return a chart of the means of `measure`, and one of their ratios to the baseline's.

        Parameters
        ----------
        full
            Have the ratios of all metrics that have some.
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
            **({"by": {each.group: each.plain_rows() for each in self.groups}} if self.groups else {}),
        }


Source = Scenario | Callable[[int], Scenario]


def replicate(
    scenario: Source,
    schedulers: Schedulers,
    seeds: Sequence[int] | None = None,
    *,
    replicates: int | None = None,
    half_width: float | None = None,
    at_most: int = AT_MOST,
    hold: Collection[str] = (),
    baseline: str | None = None,
    metrics: RequestedMetrics | None = ("max_stretch",),
    skip_days: float = 0.0,
    by: Sequence[Group] = (),
    errors: str = "raise",
    time_limit: float | None = None,
    executor: Executor | None = None,
    batch: int | None = None,
    store: Store | StorePath | None = None,
    retry: bool = False,
    progress: Progress = False,
    **unknown: Any,
) -> Replicates:
    """Run each of `schedulers` on the same replications of `scenario`.

    Raises ScenarioError for invalid arguments.

    Parameters
    ----------
    scenario
        The scenario; replication k is ``gridsim.replication(scenario, k, hold)``.  Or a function that returns
        the scenario for a seed; it is called once per seed, in this process.
    schedulers
        As in `gridsim.compare`.
    seeds
        Numbers of the replications, or seeds for the function.
    replicates
        N, for seeds 0 to n - 1.
    half_width
        The largest half-width of intervals, relative to their middles.  Replications are run, from
        `replicates` (default 10; at least 5) to `at_most`, until all intervals are so narrow: those of the
        ratios to the baseline, or of the means if there is none, for the first of `metrics`.  Such stopping
        favours narrow intervals, so they contain the true value a little less often than in 95 % of cases:
        see docs/guides/experiments.md.
    at_most
        The most replications that are run for `half_width`.
    hold
        Parts of the scenario that are the same in all replications, see `gridsim.replication`.
    baseline
        The scheduler to compare with.
    metrics
        A list of names in `gridsim.results.metrics.registry.METRICS` and of functions that return a number
        for a `Result`; or name -> function, where a metric of gridsim is mapped to its own name; or one
        function.  None for the usual metrics of such schedulers.
    skip_days
        Number of days at the beginning of each replication whose applications do not count in metrics; see
        `gridsim.Result.without_first_days`.
    by
        What rigid jobs are grouped by, as in `gridsim.compare`; each has a table of mean waiting times.
    errors
        ``"raise"`` a GridSimError for the first run that fails, or ``"record"`` it and continue.
    time_limit
        As in `simulate`.
    executor, batch
        Where the runs are executed, and how many are sent at a time; see
        `gridsim.studies.execution.run_cells.run_cells`.  The values do not depend on them.
    store
        A store of runs; runs that it has are not executed again, and new ones are added.  See
        `gridsim.studies.execution.store.Store`.
    retry
        Whether runs that are in the store as failed are executed again.
    progress
        Whether to show a progress bar of runs on stderr; see `simulate`.
    unknown
        None: for an unknown argument, the error names the closest one.
    """
    if unknown:
        from inspect import signature  # takes long

        check_names("replicate", unknown, [*signature(replicate).parameters][:-1])
    named = scenario.schedulers if isinstance(scenario, Scenario) else None
    schedulers = chosen_schedulers(schedulers, named)
    selection = {} if metrics is None else requested_metrics(metrics)
    for name in selection:
        if not name or not name.isprintable():
            raise ScenarioError(f"metrics must have names that can be printed, got {name!r}")
        if name in ("replicate", "scheduler"):
            raise ScenarioError(
                f"metrics must not have a function {name!r}, which is a column of the table; rename it"
            )
    if errors not in ("raise", "record"):
        raise ScenarioError(f"errors must be raise or record, got {errors!r}")
    if baseline is not None and baseline not in schedulers:
        raise ScenarioError(f"baseline must be one of {', '.join(schedulers)}, got {baseline!r}")
    if seeds is not None and half_width is not None:
        raise ScenarioError("half_width requires replicates in place of seeds")
    numbers = _numbers(seeds, AT_LEAST if replicates is None and half_width is not None else replicates)
    if (runs := len(numbers) * len(schedulers)) > MAX_RUNS:
        raise ScenarioError(f"replicates must make at most {MAX_RUNS} runs of all schedulers, got {runs}")
    skip_days, by = checked_days(skip_days), checked_groups(by)
    target = None if half_width is None else real("half_width", half_width, above=0)
    integer("at_most", at_most, low=1 if target is None else len(numbers))
    if not callable(scenario):
        warn_unusual(check_scenario(scenario))
    make = (lambda k: replication(scenario, k, hold)) if isinstance(scenario, Scenario) else scenario
    kept, read = store_of(store), TraceDigests()
    records: list[RunRecord] = []  # ordered by replication and scheduler

    about: dict[str, str] = {}
    scope = WarningScope()

    def run(new_numbers: Sequence[int]) -> bool:
        scenarios = [make(k) for k in new_numbers]
        with scope:
            if not records:
                for group in by:
                    job_groups(group, scenarios[0])
                    if getattr(scenarios[0].workload.recipe, "resample", None) == f"{group}s":
                        raise ScenarioError(
                            f"by must not be {group!r} if workload.resample draws {group}s, which differ "
                            "between replications"
                        )
                about.update(plan_lines(scenarios[0], hold, executor, skip_days))
                announce(lambda: about)
            cells = [
                Cell(
                    one,
                    scheduler,
                    selection,
                    time_limit,
                    skip_days,
                    by,
                    label=name,
                    place=f"replication {k}",
                )
                for k, one in zip(new_numbers, scenarios, strict=True)
                for name, scheduler in schedulers.items()
            ]
            records.extend(
                collect(
                    cells,
                    executor=executor,
                    batch=batch,
                    store=kept,
                    progress=progress,
                    retry=retry,
                    fail_fast=errors == "raise",
                    first_read=read,
                )
            )
        return scenarios[0].workload.rigid

    rigid = run(numbers)
    names = list(selection) or default_metrics([each.values for each in records if not each.error], rigid)

    def study(is_narrow: bool | None) -> Replicates:
        return replicates_of(records, list(schedulers), numbers, names, baseline, is_narrow, selection, by)

    def with_provenance(values: Replicates) -> Replicates:
        return replace(values, about=about, files=read.files)

    if target is None:
        return with_provenance(study(None))
    while True:
        count, width = len(numbers), _widest(study(None))
        is_narrow = count >= MIN_SEEDS and width <= target
        # if there is no interval, because a run failed or the baseline is 0, more replications do not help
        if is_narrow or count >= at_most or (count >= MIN_SEEDS and math.isinf(width)):
            return with_provenance(study(is_narrow))
        further = range(count, min(_next_count(count, width / target), at_most))
        numbers = (*numbers, *further)
        run(further)


def plan_lines(
    scenario: Scenario, hold: Collection[str], executor: Executor | None = None, skip_days: float = 0.0
) -> dict[str, str]:
    """Return lines on a replication, on the applications that count, and on what is drawn anew in each.

    They must be possible if the runs are on this machine.  Elsewhere there may be files and memory that are
    not here.
    """
    try:
        lines = planned_lines(scenario, skip_days=skip_days)
    except (GridSimError, OSError, MemoryError):
        if executor is None or isinstance(executor, Processes):
            raise
        lines = {}
    parts = [
        name for name in scenario.drawn if name not in hold and not (name in _OF_LOGS and "workload" in hold)
    ]
    recipe = scenario.workload.recipe
    if isinstance(recipe, LogRecipe | JobLogRecipe | SiteLogsRecipe):
        names = dict(_OF_LOGS)
        if (blocks := getattr(recipe, "resample", None)) is not None:
            noun = "logs" if isinstance(recipe, SiteLogsRecipe) else "log"
            names["workload"] = f"{blocks} of the {noun} (with replacement)"
            lines.pop("sample", None)
        else:
            line = "the jobs of the log are the same in each replication"
            if not isinstance(recipe, LogRecipe):
                line += "; --change workload.resample=users (or weeks) draws them anew"
            lines["sample"] = line
        parts = [names.get(name, name) for name in parts]
    parts += [] if "run" in hold else ["choices of the schedulers"]
    if not parts:
        return lines | {"drawn anew": "nothing"}
    return lines | {"drawn anew": f"{enumeration(parts, len(parts))} (in replication 0 as well)"}


def _numbers(seeds: Sequence[int] | None, replicates: int | None) -> tuple[int, ...]:
    if (seeds is None) == (replicates is None):
        count = "neither" if seeds is None else "both"
        raise ScenarioError(f"replicate requires exactly one of seeds and replicates, got {count}")
    if seeds is None:
        return tuple(range(integer("replicates", replicates, low=1, high=MAX_RUNS)))
    numbers = tuple(integer(f"seeds[{i}]", seed) for i, seed in enumerate(sequence("seeds", seeds)))
    if not numbers or len(set(numbers)) < len(numbers):
        raise ScenarioError(f"seeds must be different and not empty, got {list(numbers)}")
    return numbers


def _next_count(count: int, ratio: float) -> int:
    """Estimate how many replications are enough, if intervals of `count` are `ratio` times too wide.

    The estimate is at most twice `count`, unless that is below the least number for an interval.
    """
    if count < MIN_SEEDS:
        return MIN_SEEDS
    return max(count + 1, min(2 * count, math.ceil(1.1 * count * min(ratio, 2.0) ** 2)))


def _widest(values: Replicates) -> float:
    """Return the largest half-width, relative to its middle, of the intervals that must be narrow.

    It is infinite if an interval is missing, as for a single replication or a run that failed.
    """
    base, measure = values.baseline, values.measure
    if values.is_identical:
        return math.inf
    if base is None:
        estimates = [values.mean(name, measure) for name in values.schedulers]
    else:
        estimates = [values.ratio(name, base, measure) for name in values.schedulers if name != base]
    widths = [(e.high - e.low) / 2 / abs(e.mean) if e.mean else math.inf for e in estimates]
    return max((math.inf if math.isnan(width) else width for width in widths), default=0.0)


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
    of = {name: records[k::count] for k, name in enumerate(schedulers)}
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
            (name, number): of[name][i].error
            for i, number in enumerate(numbers)
            for name in schedulers
            if of[name][i].error
        },
        digests={name: tuple(record.digest for record in column) for name, column in of.items()},
        baseline=baseline,
        measure=metrics[0],
        reached=reached,
        rejected={
            name: np.array([run.get("failed", math.nan) for run in runs[k::count]])
            for k, name in enumerate(schedulers)
            if rigid and "failed" not in user_metrics
        },
        is_identical=len(numbers) > 1 and all(_are_equal(runs[k::count]) for k in range(count)),
        groups=group_means(by, of),
    )


def _are_equal(runs: Sequence[Mapping[str, float]]) -> bool:
    """Return whether runs have equal values of all metrics; a run that failed has none."""
    first, *others = (np.array(list(run.values())) for run in runs)
    return bool(len(first)) and all(np.array_equal(first, each, equal_nan=True) for each in others)


#: The parts of a scenario that have seeds; ``"run"`` is the scenario's own.
PARTS = ("platform", "workload", "faults", "fluctuation", "run")


def replication(scenario: Scenario, number: int, hold: Collection[str] = ()) -> Scenario:
    """Return the scenario of replication `number` of `scenario`: each part gets a new seed.

    The new seed of a part is spawned by `numpy.random.SeedSequence`, and depends only on the part's own seed
    and on `number`.  So scenarios that differ otherwise, as those of a sweep, have the same random streams in
    replications of the same number (common random numbers).  Parts that draw nothing, such as listed speeds,
    are the same in all replications.

    Raises ScenarioError for an invalid number or an unknown part.

    Parameters
    ----------
    number
        0, 1, 2, ...
    hold
        Parts that keep their seeds, of `PARTS`, for example the platform.
    """
    check_scenario(scenario)
    number = integer("number", number, high=2**32 - 1)
    if isinstance(hold, str) or not isinstance(hold, Collection):
        raise ScenarioError(f"hold must be a list of parts ({', '.join(PARTS)}), got {short_repr(hold)}")
    for part in hold:
        if part not in PARTS:
            raise ScenarioError(f"hold must contain only {', '.join(PARTS)}, got {part!r}")
    changes: dict[str, Any] = {}
    for name in ("platform", "workload", "faults", "fluctuation"):
        part = getattr(scenario, name)
        if part is not None and name not in hold and hasattr(part.recipe, "seed"):
            recipe = msgspec.structs.replace(part.recipe, seed=_child(part.recipe.seed, number))
            changes[name] = type(part)(recipe)
    if "run" not in hold:
        changes["seed"] = _child(scenario.seed, number)
    return dataclasses.replace(scenario, **changes)


def _child(seed: int, number: int) -> int:
    """Return a child seed of 63 bits, which a scenario file can hold."""
    spawned = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)
    return int(spawned[0] >> np.uint64(1))
