"""Common parts of the experiments on DGS_ASAP: rigid jobs on 5000 nodes, metrics, tables and remarks."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gridsim as gs
from gridsim.reproduce.framework import Log, MetricTable, ResultGrid, Run
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.studies.replicate_result import Replicates
from gridsim.support.random_streams import Streams

NODES, SMALL = 5000, 500
#: Request utilization of the paper's trace, as recorded and compressed.
LOW, HIGH = 0.28, 0.95
DAY = 86_400.0
SLOT = 60.0
#: Minimum length of a window of a log, s. Shorter windows, in which users submit thousands of jobs at once,
#: are drawn again.
SHORTEST = 3600.0
#: Maximum waiting time that counts as no delay, s: the time until the next slot, and that of the messages of
#: a search.
PROMPT = 1.1 * SLOT
#: The paper's number of neighbours that search for a job, and number of neighbours of each node.
FORWARD, DEGREE = 5, 20


@lru_cache(maxsize=2)
def _submissions(path: str) -> NDArray[np.float64]:
    """Return the submission times of the jobs of a log, s after the first submission."""
    from gridsim.traces.info import load_jobs
    from gridsim.traces.job_lines import lines_of

    jobs = load_jobs(path).jobs
    lines = lines_of(jobs)
    since: NDArray[np.float64] = jobs["submit"][lines.known_submission] - lines.first
    return since


def _window(submit: NDArray[np.float64], count: int, seed: int) -> tuple[float, float]:
    """Return the begin and end, s, of a random window of `count` jobs that lasts at least `SHORTEST`.

    If no such window is found, it contains all jobs.
    """
    draw = Streams(seed)("reproduce.window")
    for _ in range(1000 if count < len(submit) else 0):
        first = int(draw.integers(len(submit) - count + 1))
        if submit[first + count - 1] - submit[first] >= SHORTEST:
            end = math.inf if first + count == len(submit) else float(submit[first + count])
            return float(submit[first]), end
    return 0.0, math.inf


@dataclass(frozen=True)
class GridJobs:
    """Picklable factory of scenarios of rigid jobs: ``GridJobs(5000, 2000)(seed)``.

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
        Log that replaces drawn jobs; the seed determines which window of `jobs` consecutive jobs is used.
    widest
        Maximum number of nodes that a drawn job requires.
    separate
        Whether jobs are submitted one at a time, at least 1 ms apart, and messages take no time.
    part
        (k, n): use only the jobs that are submitted in the first k of n equal intervals.
    """

    nodes: int
    jobs: int
    load: float | None = 0.0
    profile: str = "ricc2010"
    log: Log | None = None
    widest: int | None = None
    separate: bool = False
    part: tuple[int, int] = (1, 1)

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``ricc2010-2000-5000-0.28``."""
        source = self.profile if self.log is None else os.path.basename(self.log.path).split(".")[0].lower()
        load = "own" if self.load is None else f"{self.load:g}" if self.load else "day"
        name = f"{source}-{self.jobs or 'all'}-{self.nodes}-{load}"
        name += "-alone" if self.separate else ""
        return name if self.part == (1, 1) else f"{name}-{self.part[0]}of{self.part[1]}"

    def __call__(self, seed: int) -> gs.Scenario:
        platform = gs.Platform.equal(self.nodes)
        load = self._load_of_a_day(seed, platform) if self.load == 0.0 else self.load
        workload = self._workload(seed, load)
        network = gs.Network(interfaces="equal")
        if self.separate:
            network = gs.Network(interfaces="equal", latency=0.0, bandwidth=math.inf)
        if self.separate or self.part != (1, 1):
            workload = self._explicit(workload, platform)
        return gs.Scenario(platform, workload, network, seed)

    def _workload(self, seed: int, load: float | None) -> gs.Workload:
        if self.log is None:
            if not self.jobs or load is None:
                raise ValueError("drawn jobs require a number of jobs and a load")
            return gs.Workload.jobs(self.jobs, self.profile, load, self.widest, seed=seed)
        start, end = 0.0, math.inf
        if self.jobs:
            start, end = _window(_submissions(self.log.path), self.jobs, seed)
        return gs.Workload.jobs_from_log(
            self.log.path, self.log.cores_per_node, load, start, end, self.nodes, seed=seed
        )

    def _load_of_a_day(self, seed: int, platform: gs.Platform) -> float:
        full_workload = self._workload(seed, 1.0).realize(platform)
        return float(full_workload.release[-1]) / DAY

    def _explicit(self, workload: gs.Workload, platform: gs.Platform) -> gs.Workload:
        jobs = workload.realize(platform)
        number, parts = self.part
        window = slice(int(np.searchsorted(jobs.release, jobs.release[-1] * number / parts, side="right")))
        release = jobs.release[window]
        if self.separate:
            # each job arrives at least 1 ms after the previous one
            late = 1e-3 * np.arange(len(release))
            release = np.maximum.accumulate(release - late) + late
        run_time = jobs.task_size[window] / float(platform.speeds[0])
        requested = None if jobs.requested is None else jobs.requested[window]
        columns = release, jobs.tasks[window], run_time, requested, jobs.submitter[window]
        return gs.Workload.jobs_of(*columns, origin=0.0)


def jobs_of(run: Run, count: int, load: float = 0.0, profile: str = "ricc2010") -> GridJobs:
    """Return the jobs of an experiment: `count` jobs, or a tenth of jobs and nodes in a quick run."""
    nodes, jobs = run.choose((NODES, count), (SMALL, count // 10))
    return GridJobs(nodes, jobs, load, profile, run.log)


def jobs_at_loads(run: Run) -> dict[str, GridJobs]:
    """Return load -> jobs of at most a tenth of the nodes: 300 on 200 nodes, or 60 on 100 in a quick run."""
    nodes, jobs = run.choose((200, 300), (100, 60))
    return {
        f"RU {load:g}": GridJobs(nodes, jobs, load, "wagap2013", run.log, nodes // 10) for load in (LOW, HIGH)
    }


# -- metrics --------------------------------------------------------------------------------------------


def exchanged_schedules(result: gs.Result, *kinds: str) -> float:
    """Return the number of schedules exchanged; NaN if none were recorded.

    Those of `kinds` count, or by default those of the policy's own kind.
    """
    if "exchanges" not in result.tables:
        return math.nan
    table = result.tables["exchanges"]
    selection = np.isin(table["kind"], kinds or (result.scheduler["parameters"]["policy"],))
    return float(table["schedules"][selection].sum())


def retrieved_schedules(result: gs.Result) -> float:
    """Return the schedules that searches under push and poll fetched from opened neighbours, or NaN."""
    return exchanged_schedules(result, "retrieve")


def opened_neighbours(result: gs.Result) -> float:
    """Return m, the mean number of neighbours per search whose own neighbours were requested."""
    if "exchanges" not in result.tables:
        return math.nan
    degree = float(result.scheduler["parameters"]["degree"])
    searches = float(result.messages["sent"][result.messages["kind"] == "request"].sum())
    of_searches = degree * searches if result.scheduler["parameters"]["policy"] == "pull" else 0.0
    return (exchanged_schedules(result, "pull", "retrieve") - of_searches) / (degree * searches)


def searches_per_job(result: gs.Result) -> float:
    """Return the searches of scheduling nodes per job; several neighbours take part in each search."""
    return _mean(result, "searches")


def cancelled_nodes(result: gs.Result) -> float:
    """Return the number of machines per job that had committed and were cancelled."""
    sent = result.messages["sent"][result.messages["kind"] == "cancel"].sum()
    return float(sent) / len(result.applications)


def job_count(result: gs.Result) -> float:
    """Return the number of jobs."""
    return float(len(result.applications))


def placed_nodes(result: gs.Result) -> float:
    """Return the nodes of the placed jobs over the number of all jobs; this is E[n] if no job failed."""
    table = result.applications
    return float(table["tasks"] @ (table["failed"] == 0)) / len(table)


def first_refusals(result: gs.Result) -> float:
    """Return the share of jobs whose first commit was refused, %."""
    return _share(result, "conflicts", 0)


def repeated_searches(result: gs.Result) -> float:
    """Return the share of jobs with more than one search, %."""
    return _share(result, "searches", 1)


def refusals(result: gs.Result) -> float:
    """Return the number of refused commits per 100 jobs."""
    return 100.0 * _mean(result, "conflicts")


def never(result: gs.Result) -> float:
    """Return the share of jobs that were never placed, %."""
    return _share(result, "failed", 0)


def waiting(result: gs.Result) -> float:
    """Return the mean waiting time, s."""
    return result.mean_waiting


def span(result: gs.Result) -> float:
    """Return the time from the first to the last submission, s."""
    return float(np.ptp(result.applications["release"]))


def polled_schedules(result: gs.Result) -> float:
    """Return the schedules polled from the first to the last submission, prorated from all polls."""
    return exchanged_schedules(result, "poll") * span(result) / result.makespan


def per_node(result: gs.Result) -> float:
    """Return the number of schedules exchanged per node."""
    return exchanged_schedules(result) / len(result.machines)


def _mean(result: gs.Result, column: str) -> float:
    table = result.applications
    return float(table[column].mean()) if column in table else math.nan


def _share(result: gs.Result, column: str, threshold: float) -> float:
    table = result.applications
    return 100.0 * float((table[column] > threshold).mean()) if column in table else math.nan


METRICS: dict[str, MetricFunction] = {
    "schedules": exchanged_schedules,
    "retrieved": retrieved_schedules,
    "per node": per_node,
    "opened": opened_neighbours,
    "searched": searches_per_job,
    "jobs": job_count,
    "nodes": placed_nodes,
    "cancelled": cancelled_nodes,
    "refused": first_refusals,
    "refusals": refusals,
    "again": repeated_searches,
    "never": never,
    "waiting": waiting,
    "span": span,
}


def protocol_ratio(values: Replicates, pull: str, push: str) -> NDArray[np.float64]:
    """Return the ratio of the costs of pull and push that the protocol implies, for each seed.

    If m neighbours are opened, a search by one neighbour pulls d (1 + m) schedules.  Each node that commits
    pushes d schedules, and d more if it is cancelled.
    """
    pulls = values["searched"][pull] * FORWARD * (1.0 + values["opened"][pull])
    pushes: NDArray[np.float64] = values["nodes"][push] + 2.0 * values["cancelled"][push]
    return pulls / pushes


# -- tables and remarks ---------------------------------------------------------------------------------


def price_table(cases: Mapping[str, Replicates], name: str, rivals: Mapping[str, str]) -> ResultGrid:
    """Return a table of the waiting time under `name` and centralized schedulers, in s and %, by case.

    Parameters
    ----------
    rivals
        Scheduler -> its name in the table.
    """
    rows: dict[str, list[Estimate | str]] = {}
    for case, values in cases.items():
        waits = values["waiting"]
        rows[f"{case}: {name}"] = [values.mean(name, "waiting"), "-", "-"]
        for rival, label in rivals.items():
            percent: Any = "-"
            if (waits[rival] > 0).all():
                percent = estimate(100.0 * (waits[name] / waits[rival] - 1.0))
            more = values.difference(name, rival, "waiting")
            rows[f"{case}: {label}"] = [values.mean(rival, "waiting"), more, percent]
    columns = ["case", "mean waiting (s)", f"{name} - it (s)", f"{name} - it (%)"]
    return ResultGrid("Price of decentralization", columns, rows)


#: Reason for the missing verdicts of absolute numbers.
OTHER_JOBS = "the paper's jobs are not to be had"
#: Remark of reports that compare waiting times with centralized schedulers.
PLACED_REMARK = (
    "Mean waiting is that of the jobs that were placed: where some never were, it is of other jobs."
)
#: Columns about refused commits, repeated searches and jobs that were never placed.
CONFLICTS = {
    "refused": "first commit refused (%)",
    "refusals": "refused commits per 100 jobs",
    "again": "searched for again (%)",
    "never": "never placed (%)",
}
#: Columns about the quantities that determine the number of schedules exchanged.
COSTS = {
    "nodes": "E[n]",
    "searched": "searches per job",
    "opened": "m, neighbours opened",
    "cancelled": "cancelled nodes per job",
    "retrieved": "schedules of opened neighbours",
    "span": "D (s)",
}


def conflict_table(names: Collection[str]) -> MetricTable:
    """Return a table of the conflicts of the given schedulers."""
    return MetricTable("Conflicts, searches again, and jobs that were never placed", CONFLICTS, names)


def cost_table(names: Collection[str]) -> MetricTable:
    """Return a table of the cost components of the given schedulers."""
    return MetricTable("What the costs are made of", COSTS, names)


def about_jobs(run: Run, *profiles: str, whole_log: bool = False) -> list[str]:
    """Return remarks about the source of the experiment's jobs."""
    if run.log is not None:
        name, count = os.path.basename(run.log.path), run.log.cores_per_node
        part = "all of it" if whole_log and not run.quick else "a window of it for each seed"
        return [
            f"Jobs of {name}, {count} processor{'s' * (count > 1)} a node: {part}, "
            "with submission times scaled to the request utilization."
        ]
    return [
        f"Jobs like those of {' and '.join(profiles)} (`Workload.jobs`): the paper's table of Grid'5000 jobs "
        "is not to be had.  Only its ratios can be compared, and how numbers depend on one another."
    ]
