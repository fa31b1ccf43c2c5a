"""Sparrow, Hawk and Eagle on two logs, compared with the authors' simulator of Hawk and Eagle.

- K. Ousterhout et al., "Sparrow: distributed, low latency scheduling" (SOSP 2013).
- P. Delgado et al., "Hawk: hybrid datacenter scheduling" (USENIX ATC 2015).
- P. Delgado et al., "Job-aware scheduling in Eagle: divide and stick to your probes" (SoCC 2016).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.reproduce.framework import Case, Measurements, Reproduction, ResultGrid, Run, panels
from gridsim.reproduce.verdicts import POSITIVE, ClaimedRange, Row, judge, range_around
from gridsim.results.metrics.estimates import estimate
from gridsim.studies.replicate_result import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMULATOR = "(not in the paper) response times are those of the authors' simulator"

#: Speed of a worker, Mflop/s.
SPEED = 1000.0
LENGTHS, PERCENTILES = ("short", "long"), (50, 90, 99)
#: Maximum relative difference from the mean of the authors' simulator for p50 and p90, and for p99.
CLOSE, CLOSE_TAIL = 0.03, 0.15
#: The maximum difference for p50 and p90 of schedulers that are compared less closely, and for all
#: percentiles of LWL, which is deterministic.
LESS_CLOSE, EXACT = {"eagle": 0.05, "dlwl": 0.05}, {"lwl": 0.005}


@dataclass(frozen=True, eq=False)
class ProbeLog:
    """A `.tr` log on which the schedulers were compared, identified by its numbers of jobs and tasks.

    Parameters
    ----------
    workers
        Number of workers.
    cutoff
        Mean duration above which a job is long, s.
    reserved
        Share of the workers that runs no long tasks.
    authors
        Scheduler -> p50, p90 and p99 of the response times of short jobs, then of long jobs, s: mean
        (smallest..largest over seeds) of the authors' simulator.
    """

    title: str
    jobs: int
    tasks: int
    workers: int
    cutoff: float
    reserved: float
    authors: Mapping[str, str]

    def values_of(self, scheduler: str) -> dict[str, str]:
        """Return metric -> mean in the authors' simulator, with the range if it is known."""
        return dict(
            zip(metric_names(), re.findall(r"[\d.]+(?: \([\d.]+\))?", self.authors[scheduler]), strict=True)
        )


YAHOO, GOOGLE = "Yahoo", "Google"
LOGS = (
    ProbeLog(
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
    ProbeLog(
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


def metric_names() -> list[str]:
    """Return the names of the metrics: p50, p90 and p99 of short jobs, then of long jobs."""
    return [f"{length} p{percent}" for length in LENGTHS for percent in PERCENTILES]


@lru_cache(maxsize=4)
def log_of(path: str) -> ProbeLog:
    """Return the log that a file contains.

    Raises TraceFormatError for an invalid file, ScenarioError for an unknown log.
    """
    from gridsim.traces.tr import read_tr

    jobs_of_log = read_tr(path)
    jobs, tasks = len(jobs_of_log), len(jobs_of_log.duration)
    for log in LOGS:
        if (log.jobs, log.tasks) == (jobs, tasks):
            return log
    known = " or ".join(f"{log.title}'s of {log.jobs} jobs with {log.tasks} tasks" for log in LOGS)
    raise ScenarioError(f"{path}: the log must be {known}, got {jobs} jobs with {tasks} tasks")


@dataclass(frozen=True)
class LogJobs:
    """Picklable factory of the scenarios of a log: ``LogJobs("YH1_sub.tr.gz")(seed)``.

    Parameters
    ----------
    workers
        Number of workers; 0 for that of the log's `ProbeLog`.
    """

    path: str
    workers: int = 0

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``yahoo-4000``."""
        log = log_of(self.path)
        return f"{log.title.lower()}-{self.workers or log.workers}"

    def __call__(self, seed: int) -> gs.Scenario:
        return gs.Scenario(
            gs.Platform.equal(self.workers or log_of(self.path).workers, SPEED),
            gs.Workload.from_log(self.path, reference_speed=SPEED, seed=seed),
            gs.Network(latency=0.0005, bandwidth=math.inf, interfaces="equal"),
            seed,
        )


@dataclass(frozen=True)
class Percentile:
    """A percentile of response times, s.

    Parameters
    ----------
    metric
        One of `metric_names`.
    cutoff
        Mean duration above which a job is long, s.
    """

    metric: str
    cutoff: float

    def __call__(self, result: gs.Result) -> float:
        length, percent = self.metric.split(" p")
        of_length = response_times(result, self.cutoff)[LENGTHS.index(length)]
        return float(np.percentile(of_length, int(percent)))


def response_times(result: gs.Result, cutoff: float) -> tuple[Any, Any]:
    """Return the response times of short and of long jobs, s.

    Parameters
    ----------
    cutoff
        Mean duration above which a job is long, s.
    """
    table = result.applications
    times, long = table["finish"] - table["release"], table["estimate"] > cutoff * SPEED
    return times[~long], times[long]


def schedulers(log: ProbeLog) -> dict[str, gs.Scheduler]:
    """Return name -> scheduler with the cutoff and the reserved share of a log."""
    parts: dict[str, Any] = {"cutoff": log.cutoff * SPEED, "reserved": log.reserved}
    return {
        "sparrow": gs.Sparrow(),
        "hawk": gs.Hawk(**parts),
        "eagle": gs.Eagle(**parts),
        "lwl": gs.Lwl(**parts),
        "dlwl": gs.Dlwl(**parts),
    }


def _cases(*names: str) -> Callable[[Run], dict[str, Case]]:
    """Return a function that returns title -> case of each given log, with the named schedulers."""

    def cases(run: Run) -> dict[str, Case]:
        log_cases = {}
        for path in run.traces:
            log = log_of(path)
            selection = {name: scheduler for name, scheduler in schedulers(log).items() if name in names}
            metrics = {name: Percentile(name, log.cutoff) for name in metric_names()}
            log_cases[log.title] = Case(LogJobs(path), selection, metrics)
        return log_cases

    return cases


def _mean(text: str) -> float:
    """Return the mean in a text of `ProbeLog.values_of`."""
    return float(text.split()[0])


def ends(text: str) -> tuple[float, float]:
    """Return the minimum and the maximum over seeds in a text of `ProbeLog.values_of`."""
    values = [float(value) for value in re.findall(r"\d+(?:\.\d+)?", text)]
    return min(values), max(values)


def allowed_range(scheduler: str, metric: str, text: str) -> ClaimedRange:
    """Return the range of means that count as equal to that of the authors' simulator, s.

    Parameters
    ----------
    text
        Mean of the authors' simulator with the range over seeds, as in `ProbeLog.values_of`.
    """
    tail = metric.endswith("p99")
    share = EXACT.get(scheduler, CLOSE_TAIL if tail else LESS_CLOSE.get(scheduler, CLOSE))
    low, high = _mean(text) * (1 - share), _mean(text) * (1 + share)
    if tail:
        smallest, largest = ends(text)
        low, high = min(low, smallest), max(high, largest)
    return ClaimedRange(text, low, high)


def _against_simulator(title: str, values: Replicates) -> Iterator[Row]:
    """Return the rows that compare each scheduler and percentile with the authors' simulator."""
    log = _log_by_title(title)
    for scheduler in values.schedulers:
        for metric, text in log.values_of(scheduler).items():
            test, value = allowed_range(scheduler, metric, text), values.mean(scheduler, metric)
            holds = test.low <= value.mean <= test.high
            error = 100 * (value.mean / _mean(text) - 1)
            yield Row(
                SIMULATOR,
                f"{title}, {scheduler}: {metric}",
                text,
                value,
                "s",
                "reproduced" if holds else "not reproduced",
                f"the mean is {error:+.1f} % off; wanted {test.low:.4g}..{test.high:.4g}",
            )


def _log_by_title(title: str) -> ProbeLog:
    return next(log for log in LOGS if log.title == title)


def _gain(
    title: str,
    values: Replicates,
    a: str,
    b: str,
    metric: str,
    claim: str = "",
    test: ClaimedRange | None = None,
) -> Row:
    """Return a row on how much faster `a` is than `b`, %, here and in the authors' simulator."""
    log, times = _log_by_title(title), values[metric]
    measured_gain, published_gain = (_mean(log.values_of(name)[metric]) for name in (a, b))
    quantity = f"{title}: {metric}, {a.capitalize()} faster than {b.capitalize()} by"
    why = f"in the authors' simulator {100 * (1 - measured_gain / published_gain):.3g}"
    return judge(claim, quantity, estimate(100 * (1 - times[a] / times[b])), test, unit="%", why=why)


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    for title, values in data.items():
        rows = {name: [values.mean(name, metric) for metric in metric_names()] for name in values.schedulers}
        yield ResultGrid(f"{title}: response times, s", ["scheduler", *metric_names()], rows)


REMARKS = (
    "One slot a worker, all of one speed; a message takes 0.5 ms.  A job is long if the mean duration of its "
    "tasks, as the log states it, is above the cutoff.",
    "About the authors' simulator, the column paper has the mean over seeds, and the smallest and largest.  "
    "The mean of these runs is compared, not its interval: p50 and p90 within 3 % (Eagle and DLWL 5 %), p99 "
    "within 15 % or in the range, LWL within 0.5 %.",
    "Seeds differ in where jobs are submitted and where probes go.  LWL draws nothing else.",
)


def _draw(data: Measurements) -> Figure:
    """Draw p50 and p90 of short and of long jobs of each scheduler, one panel per log."""
    places = range(len(metric_names()))
    labels = {"xticks": places, "xticklabels": metric_names(), "xlabel": "", "ylabel": "response time, s"}
    lines = {title: grid.rows for title, grid in zip(data, _grids(data), strict=True)}
    figure = panels(lines, places, {"yscale": "log", **labels})
    for axes in figure.axes:
        axes.tick_params("x", labelrotation=30, labelsize=8)
    return figure


#: Arguments of all three experiments.
SHARED: dict[str, Any] = {
    "seeds": (5, 1),
    "files": "task logs",
    "needs_files": True,
    "grids": _grids,
    "figure": _draw,
}

SPARROW = Reproduction(
    name="sparrow",
    title="Sparrow and least work left on a .tr log",
    paper="Ousterhout et al., SOSP 2013",
    claims=(SIMULATOR,),
    cases=_cases("sparrow", "lwl"),
    rows=lambda data: (row for case in data.items() for row in _against_simulator(*case)),
    remarks=REMARKS,
    **SHARED,
)

# -- Hawk -----------------------------------------------------------------------------------------------

SHORT = "on the Google trace at high load Hawk runs short jobs 80 % (p50) and 90 % (p90) faster than Sparrow"
LONG = "there it runs long jobs 35 % (p50) and 10 % (p90) faster than Sparrow"
#: Percentile -> the claim, and the published gain of Hawk, %.
HAWK_GAINS = {
    "short p50": (SHORT, 80.0),
    "short p90": (SHORT, 90.0),
    "long p50": (LONG, 35.0),
    "long p90": (LONG, 10.0),
}


def _hawk_rows(data: Measurements) -> Iterator[Row]:
    """Return the rows on the gain of Hawk; claims are judged on the Google log."""
    for title, values in data.items():
        for metric in metric_names():
            claim, test = "", None
            if title == GOOGLE and metric in HAWK_GAINS:
                claim, percent = HAWK_GAINS[metric]
                test = range_around(percent)
            yield _gain(title, values, "hawk", "sparrow", metric, claim, test)
        yield from _against_simulator(title, values)


HAWK = Reproduction(
    name="hawk",
    title="Hawk, Sparrow and least work left on a .tr log",
    paper="Delgado et al., USENIX ATC 2015",
    claims=(SHORT, LONG, SIMULATOR),
    cases=_cases("hawk", "sparrow", "lwl"),
    rows=_hawk_rows,
    remarks=(
        *REMARKS,
        "Negative: Hawk is slower.  The log is a part of the paper's trace, and is run on fewer workers.",
    ),
    **SHARED,
)

# -- Eagle ----------------------------------------------------------------------------------------------

EAGLE_BETTER = "short jobs complete earlier under Eagle than under Hawk"


def _eagle_rows(data: Measurements) -> Iterator[Row]:
    for title, values in data.items():
        for metric in metric_names():
            if metric.startswith("short"):
                yield _gain(title, values, "eagle", "hawk", metric, EAGLE_BETTER, POSITIVE)
        yield from _against_simulator(title, values)


EAGLE = Reproduction(
    name="eagle",
    title="Eagle, Hawk and DLWL on a .tr log",
    paper="Delgado et al., SoCC 2016",
    claims=(EAGLE_BETTER, SIMULATOR),
    cases=_cases("eagle", "hawk", "dlwl"),
    rows=_eagle_rows,
    remarks=REMARKS,
    **SHARED,
)
