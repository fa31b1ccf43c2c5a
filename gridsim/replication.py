"""replicate(): several schedulers over several seeds, set side by side seed by seed.

All schedulers of a seed meet the same scenario (common random numbers), so that what they differ by is told
from pairs.  Nothing is a bare mean: each comes with a bootstrap interval and the number of seeds, or with
the reason why there is no interval.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.extras import need
from gridsim.metrics import mean
from gridsim.platform import whole
from gridsim.progress import Progress, watched
from gridsim.results import UNITS, Result
from gridsim.scenario import Scenario
from gridsim.scheduler import Scheduler
from gridsim.simulation import simulate
from gridsim.streams import Streams

Floats = NDArray[np.float64]
Metric = Callable[[Result], float]

RESAMPLES = 9999
LEVEL = 0.95
#: A bootstrap interval of fewer seeds than this is too narrow.
FEW = 5

#: What can be asked for by name; units as in `gridsim.results.UNITS`.
METRICS: dict[str, Metric] = {
    "max_stretch": lambda result: result.max_stretch,
    "mean_stretch": lambda result: result.mean_stretch,
    "min_stretch": lambda result: result.min_stretch,
    "gap": lambda result: result.gap(),
    "makespan": lambda result: result.makespan,
    "utilization": lambda result: result.utilization,
    "mean_waiting": lambda result: result.mean_waiting,
    "median_waiting": lambda result: result.median_waiting,
    "mean_slowdown": lambda result: result.mean_slowdown,
    "mean_completion": lambda result: result.mean_completion,
    "mean_turnaround": lambda result: result.mean_turnaround,
    "migrated": lambda result: result.migrated,
    "prediction_error": lambda result: result.prediction_error,
    "prediction_undefined": lambda result: result.prediction_undefined,
    "messages_per_job": lambda result: result.messages_per_job,
    "wasted": lambda result: result.wasted,
    "undisturbed": lambda result: result.undisturbed,
}


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its confidence interval; a unit is that of the values.

    mean, low, high : low and high are NaN where there is no interval.
    seeds : number of values.  level : confidence of the interval.
    note : empty, or why there is no interval or a degenerate one.
    """

    mean: float
    low: float
    high: float
    seeds: int
    level: float = LEVEL
    note: str = ""

    def format(self, digits: int = 4) -> str:
        """The mean, and the interval and the number of seeds, or the note instead."""
        if math.isnan(self.low):
            return f"{self.mean:.{digits}g} (no interval: {self.note})"
        seeds = f"{self.seeds} seeds" + (f", {self.note}" if self.note else "")
        return f"{self.mean:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}] ({seeds})"

    __str__ = format


def estimate(*samples: Any, statistic: Callable[..., Any] = np.mean, level: float = LEVEL) -> Estimate:
    """`statistic` of paired samples, with a BCa bootstrap interval over the pairs.

    samples : arrays of n values, one value a seed.
    statistic : of as many arrays, and ``axis``; the default is the mean of one sample.

    The resampling has a generator of its own with a fixed seed: the same values give the same interval.
    There is no interval for one seed or for values that are not finite; it is a point if the statistic does
    not vary with the seed; it is too narrow for fewer than `FEW` seeds; where BCa is undefined it is the
    percentile interval.  The note says so.

    Raises ImportError without scipy; ValueError for samples that are empty or of different lengths.
    """
    values = [np.asarray(sample, dtype=np.float64) for sample in samples]
    count = values[0].size
    if not count or any(value.shape != (count,) for value in values):
        raise ValueError(f"samples must be equally long and not empty, got {[v.shape for v in values]}")
    with np.errstate(all="ignore"):
        middle = mean(values[0]) if statistic is np.mean else float(statistic(*values, axis=-1))
    if not all(np.isfinite(value).all() for value in values) or not math.isfinite(middle):
        return Estimate(middle, math.nan, math.nan, count, level, "not all values are finite")
    if count == 1:
        return Estimate(middle, math.nan, math.nan, count, level, "one seed")
    if all((value == value[0]).all() for value in values):
        return Estimate(middle, middle, middle, count, level, "all seeds equal")
    bootstrap = need("scipy.stats", "stats", "an interval").bootstrap
    note = "few: the interval is too narrow" if count < FEW else ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what is degenerate is said in the note
        for method in ("BCa", "percentile"):
            found = bootstrap(
                tuple(values),
                statistic,
                n_resamples=RESAMPLES,
                paired=True,
                vectorized=True,
                confidence_level=level,
                method=method,
                rng=Streams(0)("replication.bootstrap"),
            ).confidence_interval
            low, high = float(found.low), float(found.high)
            if math.isfinite(low) and math.isfinite(high):
                return Estimate(middle, low, high, count, level, note)
            note = "; ".join([*filter(None, [note]), "percentile interval, BCa is undefined here"])
    return Estimate(middle, math.nan, math.nan, count, level, "the bootstrap is undefined here")


def ratio_of_means(above: Floats, below: Floats, axis: int = -1) -> Any:
    """Statistic for `estimate`: mean of one sample over mean of the other."""
    return np.mean(above, axis=axis) / np.mean(below, axis=axis)


@dataclass(frozen=True)
class Replicates:
    """Values of each metric, scheduler and seed.

    seeds : in the order in which they were given.
    values : metric -> scheduler -> float64[seeds], read-only.
    units : metric -> unit, where it is known.
    """

    seeds: tuple[int, ...]
    values: Mapping[str, Mapping[str, Floats]]
    units: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> Mapping[str, Floats]:
        try:
            return self.values[metric]
        except KeyError:
            raise KeyError(f"no metric {metric!r}; there are {', '.join(self.values)}") from None

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Their names, in the order in which they were given."""
        return tuple(next(iter(self.values.values())))

    def mean(self, name: str, metric: str = "max_stretch") -> Estimate:
        """The mean over seeds."""
        return estimate(self._column(name, metric))

    def ratio(self, a: str, b: str, metric: str = "max_stretch") -> Estimate:
        """The mean over seeds of a / b, both of the same seed."""
        with np.errstate(all="ignore"):
            return estimate(self._column(a, metric) / self._column(b, metric))

    def ratio_of_means(self, a: str, b: str, metric: str = "max_stretch") -> Estimate:
        """The mean of a over the mean of b, with seeds resampled in pairs."""
        return estimate(self._column(a, metric), self._column(b, metric), statistic=ratio_of_means)

    def difference(self, a: str, b: str, metric: str = "max_stretch") -> Estimate:
        """The mean over seeds of a - b, both of the same seed."""
        return estimate(self._column(a, metric) - self._column(b, metric))

    def joined(self, other: Replicates) -> Replicates:
        """Both, for schedulers of other names over the same seeds, say with another network or with faults.

        Raises ScenarioError for other seeds or metrics, or a name that both have.
        """
        if other.seeds != self.seeds or set(other.values) != set(self.values):
            raise ScenarioError("replicates must have the same seeds and metrics to be joined")
        if both := set(self.schedulers) & set(other.schedulers):
            raise ScenarioError(f"schedulers {', '.join(sorted(both))} are in both")
        merged = {metric: {**mine, **other.values[metric]} for metric, mine in self.values.items()}
        return Replicates(self.seeds, merged, self.units)

    def _column(self, name: str, metric: str) -> Floats:
        columns = self[metric]
        if name not in columns:
            raise KeyError(f"no scheduler {name!r}; there are {', '.join(columns)}")
        return columns[name]

    def format(self, baseline: str | None = None) -> str:
        """A line per metric and scheduler; with a baseline also the ratio to it."""
        lines = []
        for metric, columns in self.values.items():
            unit = self.units.get(metric)
            lines.append(f"{metric}{f' ({unit})' if unit else ''}, mean over seeds [{LEVEL:.0%} interval]")
            width = max(map(len, columns))
            for name in columns:
                line = f"  {name:<{width}}  {self.mean(name, metric)}"
                if baseline is not None and name != baseline:
                    line += f"; relative to {baseline} {self.ratio(name, baseline, metric)}"
                lines.append(line)
        return "\n".join(lines)

    __str__ = format

    def to_dict(self) -> dict[str, Any]:
        """Seeds, units, values, and means with their intervals, as plain values."""
        return {
            "seeds": list(self.seeds),
            "units": dict(self.units),
            "values": {m: {n: v.tolist() for n, v in c.items()} for m, c in self.values.items()},
            "means": {m: {n: asdict(self.mean(n, m)) for n in c} for m, c in self.values.items()},
        }


def replicate(
    make_scenario: Callable[[int], Scenario],
    schedulers: Mapping[str, Scheduler],
    seeds: Sequence[int],
    *,
    executor: Executor | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] = ("max_stretch",),
    progress: Progress = False,
) -> Replicates:
    """Run each of `schedulers` on ``make_scenario(seed)`` for each of `seeds`.

    make_scenario : called once a seed, here: all schedulers of a seed get the scenario that it made.
    executor : where the runs go; None runs them here, one after the other.  For one of processes schedulers
        and metrics must be picklable (functions of a module).  The values do not depend on it.
    metrics : names in `METRICS`, or name -> function of a `Result` that gives a number.
    progress : a bar of runs on stderr; see `simulate`.

    Raises ScenarioError for arguments that are none, and whatever a run raises; the other runs are then
    cancelled.
    """
    numbers = tuple(whole(f"seeds[{i}]", seed) for i, seed in enumerate(seeds))
    if not numbers or len(set(numbers)) < len(numbers):
        raise ScenarioError(f"seeds must be different and at least one, got {list(numbers)}")
    if not schedulers:
        raise ScenarioError("schedulers must name at least one, got none")
    for name, scheduler in schedulers.items():
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"schedulers[{name!r}] must be a Scheduler object, got {scheduler!r}")
    wanted: dict[str, Metric | None] = {}
    for name in metrics:
        wanted[name] = metrics[name] if isinstance(metrics, Mapping) else None
        if wanted[name] is None and name not in METRICS:
            raise ScenarioError(f"metrics: unknown {name!r}; known: {', '.join(METRICS)}")
    if not wanted:
        raise ScenarioError("metrics must name at least one, got none")
    cells = [(name, i) for i in range(len(numbers)) for name in schedulers]
    scenarios = [make_scenario(seed) for seed in numbers]
    columns = {metric: {name: np.full(len(numbers), math.nan) for name in schedulers} for metric in wanted}
    jobs = [(scenarios[i], schedulers[name], wanted) for name, i in cells]
    done = _here(jobs) if executor is None else _there(jobs, executor)
    for number, measured in watched(done, progress, len(jobs), "runs"):
        name, i = cells[number]
        for metric, value in measured.items():
            columns[metric][name][i] = value
    for column in columns.values():
        for values in column.values():
            values.flags.writeable = False
    units = {metric: UNITS[metric] for metric in wanted if metric in UNITS}
    return Replicates(numbers, columns, units)


Job = tuple[Scenario, Scheduler, dict[str, "Metric | None"]]


def _measure(scenario: Scenario, scheduler: Scheduler, wanted: dict[str, Metric | None]) -> dict[str, float]:
    """One run; what a worker process does."""
    result = simulate(scenario, scheduler)
    return {name: float((metric or METRICS[name])(result)) for name, metric in wanted.items()}


def _here(jobs: list[Job]) -> Any:
    for number, job in enumerate(jobs):
        yield number, _measure(*job)


def _there(jobs: list[Job], executor: Executor) -> Any:
    numbers = {executor.submit(_measure, *job): number for number, job in enumerate(jobs)}
    try:
        for future in as_completed(numbers):
            yield numbers[future], future.result()
    finally:
        for future in numbers:
            future.cancel()
