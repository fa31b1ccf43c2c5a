"""Shared by the experiments on DGS_ASAP: rigid jobs on 5000 nodes, what is measured, tables and remarks."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Grid, Log, Run
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.studies.replicate import Replicates
from gridsim.support.random_streams import Streams

NODES, SMALL = 5000, 500
#: Request utilizations of the paper's trace as it is, and compressed.
LOW, HIGH = 0.28, 0.95
DAY = 86_400.0
SLOT = 60.0
#: Shortest window of a log, s: shorter ones are drawn again, as users submit thousands of jobs at once.
SHORTEST = 3600.0
#: Longest waiting that counts as no delay, s: until the next slot, and for the messages of a search.
PROMPT = 1.1 * SLOT
#: Number of neighbours that search for a job, and of neighbours that each node has, in the paper.
FORWARD, DEGREE = 5, 20


@lru_cache(maxsize=2)
def _submissions(path: str) -> NDArray[np.float64]:
    """Return the times at which the jobs of a log were submitted, s after the first."""
    from gridsim.traces.info import load_jobs
    from gridsim.traces.job_lines import lines_of

    jobs = load_jobs(path).jobs
    lines = lines_of(jobs)
    since: NDArray[np.float64] = jobs["submit"][lines.known_submission] - lines.first
    return since


def _window(submit: NDArray[np.float64], count: int, seed: int) -> tuple[float, float]:
    """Return a window of `count` jobs (begin and end, s), drawn until it lasts `SHORTEST`; else all jobs."""
    draw = Streams(seed)("reproduce.window")
    for _ in range(1000 if count < len(submit) else 0):
        first = int(draw.integers(len(submit) - count + 1))
        if submit[first + count - 1] - submit[first] >= SHORTEST:
            end = math.inf if first + count == len(submit) else float(submit[first + count])
            return float(submit[first]), end
    return 0.0, math.inf


@dataclass(frozen=True)
class Jobs:
    """Makes a scenario of rigid jobs, as ``Jobs(5000, 2000)(seed)``; it can be sent to another process.

    Parameters
    ----------
    jobs
        Number of jobs; 0 for all jobs of the log.
    load
        Request utilization to which the submissions are scaled.  0 makes them take a day; None leaves them as
        they are in the log.
    profile
        Profile of drawn jobs.
    log
        Log that replaces drawn jobs; `jobs` jobs in a row are taken from a place in it that depends on the
        seed.
    widest
        Largest number of nodes that a drawn job wants.
    alone
        Whether jobs are submitted one at a time, at least 1 ms apart, and messages take no time.
    part
        (k, n): only the jobs that are submitted in the first k of n equal parts of the time.
    """

    nodes: int
    jobs: int
    load: float | None = 0.0
    profile: str = "ricc2010"
    log: Log | None = None
    widest: int | None = None
    alone: bool = False
    part: tuple[int, int] = (1, 1)

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``ricc2010-2000-5000-0.28``."""
        source = self.profile if self.log is None else os.path.basename(self.log.path).split(".")[0].lower()
        load = "own" if self.load is None else f"{self.load:g}" if self.load else "day"
        name = f"{source}-{self.jobs or 'all'}-{self.nodes}-{load}"
        name += "-alone" if self.alone else ""
        return name if self.part == (1, 1) else f"{name}-{self.part[0]}of{self.part[1]}"

    def __call__(self, seed: int) -> Scenario:
        platform = Platform.equal(self.nodes)
        load = self._load_of_a_day(seed, platform) if self.load == 0.0 else self.load
        workload = self._workload(seed, load)
        network = Network(interfaces="equal")
        if self.alone:
            network = Network(interfaces="equal", latency=0.0, bandwidth=math.inf)
        if self.alone or self.part != (1, 1):
            workload = self._listed(workload, platform)
        return Scenario(platform, workload, network, seed)

    def _workload(self, seed: int, load: float | None) -> Workload:
        if self.log is None:
            if not self.jobs or load is None:
                raise ValueError("jobs that are drawn need a number and a load")
            return Workload.jobs(self.jobs, self.profile, load, self.widest, seed=seed)
        start, end = 0.0, math.inf
        if self.jobs:
            start, end = _window(_submissions(self.log.path), self.jobs, seed)
        return Workload.jobs_from_log(
            self.log.path, self.log.procs_per_node, load, start, end, self.nodes, seed=seed
        )

    def _load_of_a_day(self, seed: int, platform: Platform) -> float:
        whole = self._workload(seed, 1.0).realize(platform)
        return float(whole.release[-1]) / DAY

    def _listed(self, workload: Workload, platform: Platform) -> Workload:
        whole = workload.realize(platform)
        number, parts = self.part
        kept = slice(int(np.searchsorted(whole.release, whole.release[-1] * number / parts, side="right")))
        release = whole.release[kept]
        if self.alone:
            # each job comes at least 1 ms after the one before it
            late = 1e-3 * np.arange(len(release))
            release = np.maximum.accumulate(release - late) + late
        run_time = whole.task_size[kept] / float(platform.speeds[0])
        requested = None if whole.requested is None else whole.requested[kept]
        columns = release, whole.tasks[kept], run_time, requested, whole.submitter[kept]
        return Workload.jobs_of(*columns, origin=0.0)


def jobs_of(how: Run, count: int, load: float = 0.0, profile: str = "ricc2010") -> Jobs:
    """Return the jobs of an experiment: `count` jobs, or in small a tenth of them on a tenth of the nodes."""
    made = Jobs(NODES, count, load, profile, how.log)
    return replace(made, nodes=SMALL, jobs=count // 10) if how.quick else made


# -- what is measured -----------------------------------------------------------------------------------


def exchanged(result: Result, *kinds: str) -> float:
    """Schedules exchanged, of these kinds or else of the policy's own kind; NaN if none were recorded."""
    if "exchanges" not in result.tables:
        return math.nan
    table = result.tables["exchanges"]
    chosen = np.isin(table["kind"], kinds or (result.scheduler["parameters"]["policy"],))
    return float(table["schedules"][chosen].sum())


def retrieved(result: Result) -> float:
    """Schedules that searches under push and poll got from opened neighbours; NaN if none were recorded."""
    return exchanged(result, "retrieve")


def opened(result: Result) -> float:
    """m: number of neighbours whose own neighbours a search asked for, mean over searches."""
    if "exchanges" not in result.tables:
        return math.nan
    degree = float(result.scheduler["parameters"]["degree"])
    searches = float(result.messages["sent"][result.messages["kind"] == "request"].sum())
    of_searches = degree * searches if result.scheduler["parameters"]["policy"] == "pull" else 0.0
    return (exchanged(result, "pull", "retrieve") - of_searches) / (degree * searches)


def searched(result: Result) -> float:
    """Searches of scheduling nodes, each by several neighbours, per job."""
    return _mean(result, "searches")


def cancelled(result: Result) -> float:
    """Machines that had committed and were cancelled, per job."""
    sent = result.messages["sent"][result.messages["kind"] == "cancel"].sum()
    return float(sent) / len(result.applications)


def jobs(result: Result) -> float:
    """Number of jobs."""
    return float(len(result.applications))


def nodes(result: Result) -> float:
    """Nodes of the jobs that were placed, divided by the number of all jobs; E[n] if none failed."""
    table = result.applications
    return float(table["tasks"] @ (table["failed"] == 0)) / len(table)


def refused(result: Result) -> float:
    """Jobs whose first commit was refused, %."""
    return _share(result, "conflicts", 0)


def again(result: Result) -> float:
    """Jobs that were searched for more than once, %."""
    return _share(result, "searches", 1)


def refusals(result: Result) -> float:
    """Refused commits per 100 jobs."""
    return 100.0 * _mean(result, "conflicts")


def never(result: Result) -> float:
    """Jobs that were never placed, %."""
    return _share(result, "failed", 0)


def waiting(result: Result) -> float:
    """Mean waiting time, s."""
    return result.mean_waiting


def span(result: Result) -> float:
    """Time from the first to the last submission, s."""
    return float(np.ptp(result.applications["release"]))


def polled(result: Result) -> float:
    """Schedules polled between the first and the last submission: all polls times this share of the run."""
    return exchanged(result, "poll") * span(result) / result.makespan


def per_node(result: Result) -> float:
    """Schedules exchanged per node."""
    return exchanged(result) / len(result.machines)


def _mean(result: Result, column: str) -> float:
    table = result.applications
    return float(table[column].mean()) if column in table else math.nan


def _share(result: Result, column: str, above: float) -> float:
    table = result.applications
    return 100.0 * float((table[column] > above).mean()) if column in table else math.nan


METRICS: dict[str, MetricFunction] = {
    "schedules": exchanged,
    "retrieved": retrieved,
    "per node": per_node,
    "opened": opened,
    "searched": searched,
    "jobs": jobs,
    "nodes": nodes,
    "cancelled": cancelled,
    "refused": refused,
    "refusals": refusals,
    "again": again,
    "never": never,
    "waiting": waiting,
    "span": span,
}


def predicted(made: Replicates, pull: str, push: str) -> NDArray[np.float64]:
    """Return the cost of pull over that of push, for each seed, as it follows from the protocol.

    A search by one neighbour pulls d (1 + m) schedules, where m neighbours are opened.  Each node that
    commits pushes d schedules, and d again when it is cancelled.
    """
    asked = made["searched"][pull] * FORWARD * (1.0 + made["opened"][pull])
    told: NDArray[np.float64] = made["nodes"][push] + 2.0 * made["cancelled"][push]
    return asked / told


# -- what is shown --------------------------------------------------------------------------------------


def prices(title: str, made: Mapping[str, Replicates], name: str, others: Mapping[str, str]) -> Grid:
    """Return a table that compares waiting under `name` with centralized schedulers, by case, in s and in %.

    Parameters
    ----------
    others
        Scheduler -> its name in the table.
    """
    rows: dict[str, list[Estimate | str]] = {}
    for case, each in made.items():
        rows[f"{case}: {name}"] = [each.mean(name, "waiting"), "-", "-"]
        for other, called in others.items():
            ours, theirs = each["waiting"][name], each["waiting"][other]
            more: Any = estimate(100.0 * (ours / theirs - 1.0)) if (theirs > 0).all() else "-"
            rows[f"{case}: {called}"] = [
                each.mean(other, "waiting"),
                each.difference(name, other, "waiting"),
                more,
            ]
    return Grid(title, ["case", "mean waiting (s)", f"{name} - it (s)", f"{name} - it (%)"], rows)


#: The reason why absolute numbers have no verdict.
OTHER_JOBS = "the paper's jobs are not to be had"
#: A remark for reports that show `prices`.
AMONG = "Mean waiting is that of the jobs that were placed: where some never were, it is of other jobs."


def shown(found: Estimate) -> Estimate | str:
    """Return a cell of a grid: the estimate, or "-" if the value was not measured for every seed."""
    return found if math.isfinite(found.mean) else "-"


def means(
    title: str, made: Mapping[str, Replicates], names: Collection[str], columns: Mapping[str, str]
) -> Grid:
    """Return a table of means of metrics (metric -> heading): a row per case and scheduler of `names`."""
    rows = {
        f"{case}: {name}": [shown(each.mean(name, metric)) for metric in columns]
        for case, each in made.items()
        for name in each.schedulers
        if name in names
    }
    return Grid(title, ["", *columns.values()], rows)


def conflicts(made: Mapping[str, Replicates], names: Collection[str]) -> Grid:
    """Return a table of refused commits, repeated searches and jobs never placed, for these schedulers."""
    columns = {
        "refused": "first commit refused (%)",
        "refusals": "refused commits per 100 jobs",
        "again": "searched for again (%)",
        "never": "never placed (%)",
    }
    return means("Conflicts, searches again, and jobs that were never placed", made, names, columns)


def costs(made: Mapping[str, Replicates], names: Collection[str]) -> Grid:
    """Return a table of what determines the number of schedules exchanged, for these schedulers."""
    columns = {
        "nodes": "E[n]",
        "searched": "searches per job",
        "opened": "m, neighbours opened",
        "cancelled": "cancelled nodes per job",
        "retrieved": "schedules of opened neighbours",
        "span": "D (s)",
    }
    return means("What the costs are made of", made, names, columns)


def about_jobs(how: Run, *profiles: str, whole: bool = False) -> list[str]:
    """Return remarks on where the jobs of the experiment come from."""
    if how.log is not None:
        name = os.path.basename(how.log.path)
        each = how.log.procs_per_node
        part = "all of it" if whole and not how.quick else "a window of it for each seed"
        return [
            f"Jobs of {name}, {each} processor{'s' * (each > 1)} a node: {part}, "
            "with submission times scaled to the request utilization."
        ]
    return [
        f"Jobs like those of {' and '.join(profiles)} (`Workload.jobs`): the paper's table of Grid'5000 jobs "
        "is not to be had.  Only its ratios can be compared, and how numbers depend on one another."
    ]
