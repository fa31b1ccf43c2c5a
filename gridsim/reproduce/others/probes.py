"""Shared by the experiments on probe-based schedulers: two logs, and what the authors' simulator gives."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Grid, Report, Row, Run, panels
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.result import Result
from gridsim.schedulers import Dlwl, Eagle, Hawk, Lwl, Sparrow
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = "(not in the paper) completion times are those of the authors' simulator"
SEEDS = (5, 1)

#: Speed of a worker, Mflop/s.
SPEED = 1000.0
LENGTHS, PERCENTILES = ("short", "long"), (50, 90, 99)
#: Largest relative difference to the mean of the authors' simulator for p50 and p90, and for p99.
NEAR, NEAR_TAIL = 0.03, 0.15
#: The same for p50 and p90 of schedulers that are compared less closely, and for all percentiles of LWL,
#: which draws nothing.
FURTHER, EXACT = {"eagle": 0.05, "dlwl": 0.05}, {"lwl": 0.005}


@dataclass(frozen=True, eq=False)
class Log:
    """A `.tr` log on which the schedulers were compared, known by its numbers of jobs and tasks.

    Parameters
    ----------
    workers
        Number of workers.
    cutoff
        Mean duration above which a job is long, s.
    reserved
        Share of the workers that runs no long tasks.
    theirs
        Scheduler -> p50, p90 and p99 of the completion times of short jobs, then of long jobs, s: mean
        (smallest..largest over seeds) of the authors' simulator.
    """

    title: str
    jobs: int
    tasks: int
    workers: int
    cutoff: float
    reserved: float
    theirs: Mapping[str, str]

    def said(self, scheduler: str) -> dict[str, str]:
        """Return what the authors' simulator gives: name of the metric -> mean, with the range if known."""
        return dict(zip(names(), re.findall(r"[\d.]+(?: \([\d.]+\))?", self.theirs[scheduler]), strict=True))


YAHOO, GOOGLE = "Yahoo", "Google"
LOGS = (
    Log(
        YAHOO,
        2_910,
        122_878,
        4000,
        90.5811,
        0.02,
        {
            "sparrow": "1795 (1771..1831) 4660 (4593..4762) 7440 (6912..8117) "
            "2753 (2631..2871) 6170 (6027..6383) 12946 (11205..15672)",
            "hawk": "191 (187..198) 900 (854..953) 1489 (1432..1540) 1279 (1278..1280) "
            "3156 (3154..3164) 6881",
            "lwl": "31.0 554 1186 1280 3161 6881",
            "eagle": "25.8 (25.1..26.0) 96.8 (95.1..99.1) 754 (748..764) "
            "1277 (1272..1280) 3158 (3151..3172) 6881",
            "dlwl": "31.5 (31.0..32.0) 160 (156..165) 787 (784..790) "
            "1185 3726 (3720..3732) 6886 (6884..6888)",
        },
    ),
    Log(
        GOOGLE,
        10_000,
        312_558,
        6000,
        1129.532,
        0.17,
        {
            "sparrow": "23037 (22956..23091) 26680 (26614..26724) 84206 (80137..89047) "
            "19562 (19477..19645) 30211 (30100..30354) 100299 (90815..107775)",
            "hawk": "20455 (20365..20631) 24654 (24623..24713) 27363 (27163..27747) "
            "20744 (20398..20868) 33537 (33022..34017) 67720 (65946..70427)",
            "lwl": "20529 25920 33308 19049 32775 64658",
            "eagle": "4180 (4092..4258) 47858 (47769..48027) 54375 (54249..54499) "
            "12464 (12451..12475) 25535 (25220..25736) 61716 (59069..65919)",
            "dlwl": "3999 20792 35042 15017 36810 72184",
        },
    ),
)


def names() -> list[str]:
    """Return the names of the metrics: p50, p90 and p99 of short jobs, then of long jobs."""
    return [f"{length} p{percent}" for length in LENGTHS for percent in PERCENTILES]


@lru_cache(maxsize=4)
def log_of(path: str) -> Log:
    """Return which log a file has.  Raises TraceFormatError, and ScenarioError for an unknown log."""
    from gridsim.traces.tr import read_tr

    found = read_tr(path)
    jobs, tasks = len(found), len(found.duration)
    for log in LOGS:
        if (log.jobs, log.tasks) == (jobs, tasks):
            return log
    known = " and ".join(f"{log.title}'s of {log.jobs} jobs with {log.tasks} tasks" for log in LOGS)
    raise ScenarioError(
        f"{path}: a log of {jobs} jobs with {tasks} tasks, expected {known}: of others there is nothing to "
        "compare with"
    )


@dataclass(frozen=True)
class Jobs:
    """Makes the scenario of a log, as ``Jobs("YH1_sub.tr.gz")(seed)``; it can be sent to another process.

    Parameters
    ----------
    workers
        Number of workers; 0 for that of the log.
    """

    path: str
    workers: int = 0

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``yahoo-4000``."""
        log = log_of(self.path)
        return f"{log.title.lower()}-{self.workers or log.workers}"

    def __call__(self, seed: int) -> Scenario:
        return Scenario(
            Platform.equal(self.workers or log_of(self.path).workers, SPEED),
            Workload.from_log(self.path, reference_speed=SPEED, seed=seed),
            Network(latency=0.0005, bandwidth=math.inf, interfaces="equal"),
            seed,
        )


@dataclass(frozen=True)
class Percentile:
    """A percentile of completion times, s.

    Parameters
    ----------
    metric
        One of `names`.
    cutoff
        s.
    """

    metric: str
    cutoff: float

    def __call__(self, result: Result) -> float:
        length, percent = self.metric.split(" p")
        of_length = completions(result, self.cutoff)[LENGTHS.index(length)]
        return float(np.percentile(of_length, int(percent)))


def completions(result: Result, cutoff: float) -> tuple[Any, Any]:
    """Return the completion times of short and of long jobs, s.

    Parameters
    ----------
    cutoff
        s.
    """
    table = result.applications
    took, long = table["finish"] - table["release"], table["estimate"] > cutoff * SPEED
    return took[~long], took[long]


def schedulers(log: Log) -> dict[str, Scheduler]:
    """Return all of them, with the cutoff and the reserved share of a log."""
    parts: dict[str, Any] = {"cutoff": log.cutoff * SPEED, "reserved": log.reserved}
    return {
        "sparrow": Sparrow(),
        "hawk": Hawk(**parts),
        "eagle": Eagle(**parts),
        "lwl": Lwl(**parts),
        "dlwl": Dlwl(**parts),
    }


def measure(how: Run, wanted: Sequence[str]) -> Iterator[tuple[Log, Replicates]]:
    """Run the wanted schedulers on the logs that were given."""
    for path in how.traces:
        log = log_of(path)
        metrics = {name: Percentile(name, log.cutoff) for name in names()}
        chosen = {name: each for name, each in schedulers(log).items() if name in wanted}
        yield log, how.replicate(Jobs(path), chosen, metrics)


def ends(said: str) -> tuple[float, float]:
    """Return the smallest and the largest value over the seeds of the authors' simulator; see `Log.said`."""
    values = [float(value) for value in re.findall(r"\d+(?:\.\d+)?", said)]
    return min(values), max(values)


def allowed(scheduler: str, metric: str, said: str) -> tuple[float, float]:
    """Return the range in which a mean counts as that of the authors' simulator, s.

    Parameters
    ----------
    said
        The mean there, with the range over seeds; see `Log.said`.
    """
    tail = metric.endswith("p99")
    share = EXACT.get(scheduler, NEAR_TAIL if tail else FURTHER.get(scheduler, NEAR))
    low, high = _mean(said) * (1 - share), _mean(said) * (1 + share)
    if tail:
        least, most = ends(said)
        return min(low, least), max(high, most)
    return low, high


def compared(log: Log, made: Replicates) -> Iterator[Row]:
    """Return a row for each scheduler and percentile: whether the mean is that of the authors' simulator."""
    for scheduler in made.schedulers:
        for metric, said in log.said(scheduler).items():
            low, high = allowed(scheduler, metric, said)
            found = made.mean(scheduler, metric)
            off = found.mean / _mean(said) - 1
            yield Row(
                SAME,
                f"{log.title}, {scheduler}: {metric}",
                said,
                found,
                "s",
                "reproduced" if low <= found.mean <= high else "not reproduced",
                f"the mean is {100 * off:+.1f} % off; wanted {low:.4g}..{high:.4g}",
            )


def report(
    how: Run, made: Mapping[Log, Replicates], rows: Sequence[Row], remarks: Sequence[str] = ()
) -> Report:
    """Return the report of an experiment.

    Parameters
    ----------
    made
        What was measured on each log.
    """
    data = {
        log.title: {name: [each.mean(name, metric) for metric in names()] for name in each.schedulers}
        for log, each in made.items()
    }
    grids = [
        Grid(f"{title}: completion times, s", ["scheduler", *names()], each) for title, each in data.items()
    ]
    return Report(tuple(how.seeds), how.quick, rows, grids, (*REMARKS, *remarks), data)


REMARKS = (
    "One slot a worker, all of one speed; a message takes 0.5 ms.  A job is long if the mean duration of its "
    "tasks, as the log states it, is above the cutoff.",
    "About the authors' simulator, the column paper has the mean over seeds, and the smallest and largest.  "
    "The mean of these runs is compared, not its interval: p50 and p90 within 3 % (Eagle and DLWL 5 %), p99 "
    "within 15 % or in the range, LWL within 0.5 %.",
    "Seeds differ in where jobs are submitted and where probes go.  LWL draws nothing else.",
)


def figure(report: Report) -> Figure:
    """Draw p50 and p90 of short and of long jobs of each scheduler, a panel per log."""
    places = range(len(names()))
    labels = {"xticks": places, "xticklabels": names(), "xlabel": "", "ylabel": "completion time, s"}
    made = panels(report.data, places, {"yscale": "log", **labels})
    for axes in made.axes:
        axes.tick_params("x", labelrotation=30, labelsize=8)
    return made


def gain(log: Log, made: Replicates, one: str, other: str, metric: str) -> tuple[str, Estimate, str]:
    """Return by how much `one` is faster than `other`: words, %, and words on the authors' simulator."""
    times, said = made[metric], [_mean(log.said(name)[metric]) for name in (one, other)]
    return (
        f"{log.title}: {metric}, {one.capitalize()} faster than {other.capitalize()} by",
        estimate(100 * (1 - times[one] / times[other])),
        f"in the authors' simulator {100 * (1 - said[0] / said[1]):.3g}",
    )


def _mean(said: str) -> float:
    return float(said.split()[0])
