"""Values of schedulers on the same replications: estimates from pairs, and the sentences on them.

No mean stands alone: each has a bootstrap interval and the number of replications, or the reason why there is
no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gridsim.results.metrics.estimates import Estimate, estimate, paired_ratio, ratio_of_means
from gridsim.results.metrics.formulas import mean
from gridsim.results.metrics.registry import display_name, known_name
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
from gridsim.support.arguments import SuggestingDict, unknown_name_error
from gridsim.support.arrays import Floats
from gridsim.support.text import typical_unit

#: Statistic over replications -> the function of columns that estimates it.
_STATISTICS: dict[str, Callable[..., Estimate]] = {
    "mean": estimate,
    "ratio": paired_ratio,
    "mean ratio": lambda a, b: estimate(a / b),
    "difference": lambda a, b: estimate(a - b),
    "ratio of means": lambda a, b: estimate(a, b, statistic=ratio_of_means),
}


@dataclass(frozen=True)
class PairedValues:
    """Values of each metric, for each scheduler and replication.

    Parameters
    ----------
    seeds
        The numbers of the replications, or seeds, in the order in which they were given.
    values
        Metric -> scheduler -> float64[seeds], read-only; NaN for a run that failed.
    units
        Metric -> unit, where it is known.
    measure
        The metric by which schedulers are compared.
    about
        Lines on platform, workload and load of the first replication: what a line is about -> its text.
    rejected
        Scheduler -> number of rejected rigid jobs, float64[seeds]; empty for bags.
    is_identical
        Whether all metrics of each scheduler are equal in several replications.
    long_waits
        Scheduler -> what a long wait of rigid jobs is, s: the larger of the means over replications of
        `mean_waiting` and `p95_waiting`, whichever metrics `values` has; empty for bags.
    """

    seeds: tuple[int, ...]
    values: Mapping[str, Mapping[str, Floats]]
    units: Mapping[str, str] = field(default_factory=dict)
    measure: str = "max_stretch"
    about: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, Floats] = field(default_factory=dict)
    is_identical: bool = False
    long_waits: Mapping[str, float] = field(default_factory=dict)
    _estimates: dict[tuple[str, ...], Estimate] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getitem__(self, metric: str) -> Mapping[str, Floats]:
        name = known_name(metric, self.values)
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

    def ranked_ratio(self, name: str, base: str, metric: str) -> Estimate | None:
        """Return the `ratio` that tables and charts show.

        It is None if the scheduler is not ranked, if a value is not above 0, or if jobs hardly wait.
        """
        has_ratio = name not in self.exclusions and self._has_ratio(name, base, metric)
        return self.ratio(name, base, metric) if has_ratio and not self.short_wait(metric) else None

    def _estimate(self, statistic: str, metric: str | None, *names: str) -> Estimate:
        """Return an estimate of a metric, or of the first one; cached, since texts and charts share it."""
        metric = next(iter(self.values)) if metric is None else known_name(metric, self.values)
        key = statistic, metric, *names
        if key not in self._estimates:
            columns = [self._column(name, metric) for name in names]
            with np.errstate(all="ignore"):
                self._estimates[key] = _STATISTICS[statistic](*columns)
        return self._estimates[key]

    def is_constant(self, a: str, b: str, metric: str | None = None) -> bool:
        """Return whether both schedulers have equal values in all replications."""
        return self.mean(a, metric).is_constant and self.mean(b, metric).is_constant

    def _column(self, name: str, metric: str) -> Floats:
        column: Floats = self[metric][name]
        return column

    def _has_ratio(self, a: str, b: str, metric: str) -> bool:
        """Return whether no value of both schedulers is 0 or less, so that there are ratios of them."""
        return not any((self._column(name, metric) <= 0.0).any() for name in (a, b))

    def unit(self, metric: str) -> tuple[float, str]:
        """Return the length and the name of the unit in which a metric is shown.

        Long times are in h or days, as in single runs; all waiting times have one unit.
        """
        metric = known_name(metric, self.values)
        name, _, note = self.units.get(metric, "").partition(" ")
        if name != "s":
            return 1.0, self.units.get(metric, "")
        if "waiting" in metric and self.long_waits:
            length, name = self.waiting_unit
        else:
            length, name = typical_unit(mean(column) for column in self.values[metric].values())
        return length, f"{name} {note}".strip()

    @property
    def waiting_unit(self) -> tuple[float, str]:
        """The length and the name of the unit of all waiting times of rigid jobs."""
        return typical_unit(self.long_waits.values())

    def short_wait(self, metric: str) -> str:
        """Return the limit below which all means of waiting times are, as text; "" if some are not.

        Parameters
        ----------
        metric
            A metric; "" is returned as well if it is no mean of waiting times.
        """
        metric = known_name(metric, self.values)
        if not metric.startswith("mean_waiting"):
            return ""
        limit, text = wait_limit()
        names = ranking_of(self[metric], self.exclusions)
        return text if names and all(mean(self[metric][name]) < limit for name in names) else ""

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
        metric = known_name(self.measure if metric is None else metric, self.values)
        count = len(self.seeds)
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
        rivals = [name for name in ranking if name not in best]
        larger, insignificant, smaller, constant = self._by_difference(rivals, best[0], metric)
        text = f"Over {count} replications, {' and '.join(best)} {'have' if len(best) > 1 else 'has'} "
        text += f"the lowest {display_name(metric)} on average"
        if larger:
            text += f" ({short_list(larger)})"
        if smaller:
            text += f", but others have a lower geometric mean ({short_list(smaller)})"
        if insignificant:
            text += f"; not significantly higher: {short_list(insignificant)}"
        if constant:
            text += f"; equal in all replications, so without an interval: {short_list(constant)}"
        if metric == "mean_waiting" and (cores := self.values.get("mean_waiting_by_cores")):
            jobs_means, cores_means = (
                {name: mean(column_of[name]) for name in ranking} for column_of in (columns, cores)
            )
            text += "." + by_cores(jobs_means, cores_means, self.noun, self.unit(metric))
        if texts := self._ratios_of_means(ranking, best[0], metric):
            text = text.removesuffix(".") + (
                f".  Ratios are geometric means over pairs; the ratios of the means give {short_list(texts)}"
            )
        return text.removesuffix(".") + "." + reasons

    def _by_difference(self, names: Iterable[str], best: str, metric: str) -> tuple[list[str], ...]:
        """Return schedulers with their `excess` over the best one, by the kind of the difference.

        The kinds are: significantly larger, insignificant, significantly smaller, and constant, if both
        schedulers have equal values in all replications.
        """
        larger: list[str] = []
        insignificant: list[str] = []
        smaller: list[str] = []
        constant: list[str] = []
        for name in names:
            sign, excess = self.excess(name, best, metric)
            kind = {1: larger, 0: insignificant, -1: smaller}[sign]
            if self.is_constant(name, best, metric):
                kind = constant
            kind.append(f"{name} {excess}".rstrip())
        return larger, insignificant, smaller, constant

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

    def _ratios_of_means(self, names: Iterable[str], best: str, metric: str) -> list[str]:
        """Return how many times the mean of the best scheduler others have, if `ratio` is far from that."""
        texts = []
        for name in names:
            if name != best and self._has_ratio(name, best, metric):
                ratio, of_means = self.ratio(name, best, metric), self.ratio_of_means(name, best, metric).mean
                if ratio.low > of_means or ratio.high < of_means:
                    texts.append(f"{name} {excess_text(of_means, 1.0)}")
        return texts
