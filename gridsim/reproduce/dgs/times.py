"""Jobs under DGS_ASAP that state times: starts in the future, deadlines, and users who cancel.

The paper leaves "more criteria than ASAP" to the future; see also `gridsim.reproduce.dgs.criteria`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.dgs.common import HIGH, LOW, PROMPT, Jobs, about_jobs, means, waiting
from gridsim.reproduce.framework import NEGATIVE, POSITIVE, Grid, Report, Row, Run, exact, judge, panels
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import Asap, DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.studies.replicate import Replicates
from gridsim.support.arrays import Bools, Floats
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dgs-times"
TITLE = "DGS_ASAP with times that jobs state: starts in the future, deadlines, users who cancel"
KEPT = "no job starts before its time or ends after its deadline, and none runs on once it is cancelled"
RESERVED = "jobs that are submitted ahead wait less than those submitted when they are to start"
PATIENT = "the later the deadlines, the more of the work is accepted"
REUSED = "the more is asked of the grid, the more of what cancelled jobs give back is used by others"
CLAIMS = (KEPT, RESERVED, PATIENT, REUSED)
SEEDS = (10, 5)

#: Nodes and jobs, in full and in small, and the largest share of nodes that a job wants, as of dgs-criteria.
NODES, SMALL = 200, 100
JOBS, FEW_JOBS = 300, 60
PROFILE, WIDEST = "wagap2013", 0.1
#: Share of the jobs that start in the future, and the longest time that they are submitted ahead, s.
AHEAD, NOTICE = 0.25, 86_400.0
#: Times of patience: a deadline is a run time and so many more after the release, plus `GRACE` s.
PATIENCE, GRACE = (0.1, 1.0, 10.0), 300.0
#: Share of the jobs that their users cancel, within so many run times after the release.
CALLED_OFF, WITHIN = 0.25, 2.0

DGS, POLL, WHOLE = "DGS_ASAP", "DGS_ASAP, poll", "Asap"
SCHEDULERS: dict[str, Scheduler] = {DGS: DgsAsap(estimate="run"), WHOLE: Asap(estimate="run")}
REUSING: dict[str, Scheduler] = {
    DGS: DgsAsap(estimate="run"),
    POLL: DgsAsap(estimate="run", policy="poll"),
    WHOLE: Asap(estimate="run"),
}


@dataclass(frozen=True)
class Stating:
    """Makes a scenario of rigid jobs that state times; see `Jobs`.

    Parameters
    ----------
    what
        ``"ahead"``, some of the jobs are submitted ahead of their start; ``"later"``, the same jobs are
        submitted when they are to start; ``"deadline"``, all jobs have deadlines; ``"cancel"``, users cancel
        some of the jobs; ``"none"``, no job states anything.
    patience
        Of the deadlines, see `PATIENCE`.
    """

    jobs: Jobs
    what: str
    patience: float = math.inf

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        patience = f"-{self.patience:g}" if self.what == "deadline" else ""
        return f"{self.jobs.name}-{self.what}{patience}"

    def __call__(self, seed: int) -> Scenario:
        made = self.jobs(seed)
        given = made.workload.realize(made.platform)
        run_time = given.task_size / float(made.platform.speeds[0])
        draw = Streams(seed)("reproduce.times")
        share, part = draw.random(len(given)), draw.random(len(given))
        release, times = given.release, dict[str, Floats]()
        wanted = np.where(share < AHEAD, release + NOTICE * part, 0.0)
        if self.what == "ahead":
            times["not_before"] = wanted
        elif self.what == "later":
            release = np.maximum(release, wanted)
        elif self.what == "deadline":
            times["deadline"] = release + (1.0 + self.patience) * run_time + GRACE
        elif self.what == "cancel":
            at = release + np.maximum(1.0, WITHIN * part * run_time)
            times["cancel_at"] = np.where(share < CALLED_OFF, at, np.inf)
        columns = release, given.tasks, run_time, given.requested, given.submitter
        return replace(made, workload=Workload.jobs_of(*columns, **times, origin=0.0))


def chosen(scenario: Scenario, seed: int) -> Bools:
    """Return which jobs of a scenario of `Stating` are submitted ahead, or would be: bool[jobs]."""
    recipe: Any = scenario.workload.recipe
    of: Bools = Streams(seed)("reproduce.times").random(len(recipe.release)) < AHEAD
    return of[np.argsort(np.rint(np.array(recipe.release) * NS), kind="stable")]


# -- what is measured -----------------------------------------------------------------------------------


def accepted(result: Result) -> float:
    """Jobs that were not rejected, %."""
    return 100.0 * float((result.applications["failed"] == 0).mean())


def worked(result: Result) -> float:
    """Node time of the jobs that were completed, of that of all jobs, %."""
    table = result.applications
    time = table["tasks"] * table["run_time"]
    return 100.0 * float(time[~np.isnan(table["finish"])].sum() / time.sum())


def cancelled(result: Result) -> float:
    """Jobs that were cancelled before they had ended, %."""
    return 100.0 * float(result.applications["cancelled"].mean())


def begun(result: Result) -> float:
    """Of the jobs that were cancelled, those that had begun, %; NaN if none was cancelled."""
    table = result.applications
    of = table["cancelled"] == 1
    return 100.0 * float((~np.isnan(table["first_start"][of])).mean()) if of.any() else math.nan


def reused(result: Result) -> float:
    """Node time that cancelled jobs gave back and others used, of all that they gave back, %."""
    freed, ran = result.tables["freed"], result.tables["schedule"]
    used = whole = 0.0
    for machine in np.unique(freed["machine"]).tolist():
        mine = np.flatnonzero(ran["machine"] == machine)
        for k in np.flatnonzero(freed["machine"] == machine).tolist():
            other = mine[ran["application"][mine] != freed["application"][k]]
            since = np.maximum(ran["start"][other], freed["start"][k])
            until = np.minimum(ran["end"][other], freed["end"][k])
            used += float(np.maximum(until - since, 0.0).sum())
            whole += float(freed["end"][k] - freed["start"][k])
    return 100.0 * used / whole if whole else math.nan


MEASURED: dict[str, MetricFunction] = {
    "waiting": waiting,
    "accepted": accepted,
    "worked": worked,
}
_CANCELLED: dict[str, MetricFunction] = {"waiting": waiting, "cancelled": cancelled, "begun": begun}


def _waits(result: Result, ahead: Bools) -> tuple[float, float, float]:
    """Return the mean waiting of the jobs `ahead`, s, which share starts at once, %, and that of others."""
    waits = result.applications["waiting"]
    mine = waits[ahead]
    return float(np.nanmean(mine)), 100.0 * float((mine <= PROMPT).mean()), float(np.nanmean(waits[~ahead]))


def run(how: Run) -> Report:
    """Run the three comparisons at both loads, and check recorded schedules."""
    jobs = Jobs(NODES, JOBS, LOW, PROFILE, how.log, round(WIDEST * NODES))
    if how.quick:
        jobs = replace(jobs, nodes=SMALL, jobs=FEW_JOBS, widest=round(WIDEST * SMALL))
    loads = {f"RU {load:g}": replace(jobs, load=load) for load in (LOW, HIGH)}
    rows, ahead, shares = list[Row](), dict[str, Any](), dict[str, dict[str, list[float]]]()
    deadlines, cancels = dict[str, Replicates](), dict[str, Replicates]()
    for case, each in loads.items():
        free = how.replicate(Stating(each, "none"), SCHEDULERS, MEASURED)
        deadlines[f"{case}, no deadlines"] = free
        for patience in PATIENCE:
            made = how.replicate(Stating(each, "deadline", patience), SCHEDULERS, MEASURED)
            deadlines[f"{case}, {patience:g} run times"] = made
        less, more = (deadlines[f"{case}, {patience:g} run times"] for patience in PATIENCE[1:])
        gained = estimate(more["worked"][DGS] - less["worked"][DGS])
        quantity = f"{case}: accepted work, {PATIENCE[2]:g} - {PATIENCE[1]:g} run times, {DGS}"
        rows.append(judge(PATIENT, quantity, "> 0", gained, POSITIVE, math.inf, unit="%"))
        cancels[case] = how.replicate(Stating(each, "cancel"), REUSING, _CANCELLED)
        recorded = _Recorded(each, how.seeds)
        quantity = f"{case}: violations found by validate"
        rows.append(exact(KEPT, quantity, "none", recorded.found == 0, recorded.said))
        rows += recorded.rows(case)
        ahead |= recorded.ahead(case)
        shares[case] = recorded.shares
    for name in REUSING:
        low, high = (np.array(shares[case][name]) for case in loads)
        quantity = f"used again of what is given back, RU {HIGH:g} - RU {LOW:g}, {name}"
        rows.append(judge(REUSED, quantity, "> 0", estimate(high - low), POSITIVE, math.inf, unit="%"))
    reuse = {
        f"{case}: {name}": [estimate(np.array(each))]
        for case, made in shares.items()
        for name, each in made.items()
    }
    grids = [
        Grid(
            "A quarter of the jobs is submitted ahead, or when they are to start",
            ["", "mean waiting of these (s)", "started at once (%)", "mean waiting of the others (s)"],
            ahead,
        ),
        means(
            "Deadlines: so many run times after the release",
            deadlines,
            list(SCHEDULERS),
            {"accepted": "accepted (%)", "worked": "accepted work (%)", "waiting": "mean waiting (s)"},
        ),
        means(
            "A quarter of the users cancel",
            cancels,
            list(REUSING),
            {"cancelled": "cancelled (%)", "begun": "of these, begun (%)", "waiting": "mean waiting (s)"},
        ),
        Grid("What cancelled jobs give back", ["", "used by other jobs (%)"], reuse),
    ]
    data = {
        "patience": list(PATIENCE),
        "series": {
            f"accepted work (%), {case}": {
                name: [deadlines[f"{case}, {p:g} run times"].mean(name, "worked") for p in PATIENCE]
                for name in SCHEDULERS
            }
            for case in loads
        },
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


class _Recorded:
    """Recorded runs of the scenarios whose schedules are looked at, and what is found in them."""

    def __init__(self, jobs: Jobs, seeds: Sequence[int]) -> None:
        self.found = machines = 0
        #: (what, scheduler) -> a tuple of `_waits` for each seed, and a share that was reused.
        self.waits: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        self.shares: dict[str, list[float]] = {}
        for seed in seeds:
            for what in ("ahead", "later", "deadline", "cancel"):
                scenario = Stating(jobs, what, PATIENCE[1])(seed)
                for name, scheduler in (REUSING if what == "cancel" else SCHEDULERS).items():
                    result = simulate(scenario, scheduler, record=True)
                    self.found += sum(each.count for each in validate_result(result))
                    machines += len(result.tables["schedule"])
                    if what == "cancel":
                        self.shares.setdefault(name, []).append(reused(result))
                    elif what != "deadline":
                        self.waits.setdefault((what, name), []).append(_waits(result, chosen(scenario, seed)))
        self.said = f"{self.found} violations in {machines} allocated machines"

    def rows(self, case: str) -> list[Row]:
        """Return what follows for the claims."""
        rows = []
        for name in SCHEDULERS:
            one, other = (np.array(self.waits[what, name])[:, 0] for what in ("ahead", "later"))
            quantity = f"{case}: mean waiting, submitted ahead - when they are to start, {name}"
            less = estimate(one - other)
            rows.append(judge(RESERVED, quantity, "< 0", less, -math.inf, NEGATIVE, unit="s"))
        return rows

    def ahead(self, case: str) -> dict[str, Any]:
        """Return the rows of the table on jobs that are submitted ahead."""
        said = {"ahead": "submitted ahead", "later": "when they are to start"}
        found = {}
        for (what, name), waits in self.waits.items():
            found[f"{case}, {said[what]}: {name}"] = [estimate(each) for each in np.array(waits).T]
        return found


_REMARKS = (
    "Of what the paper leaves to the future: it measured none of this.",
    f"Submitted ahead: a quarter of the jobs, by up to {NOTICE / 3600:g} h, uniformly; the same jobs are "
    "submitted when they are to start, for comparison.  They wait from then on.",
    f"Deadlines: a run time, so many run times more, and {GRACE / 60:g} min after the release.  Mean waiting "
    "is that of the accepted jobs.",
    f"A quarter of the users cancel, at an instant uniform within {WITHIN:g} run times after the release; "
    "those whose jobs have ended by then do not.",
    "What is given back is what a cancelled job had reserved from then on, on each of its machines; of that, "
    "others use what the recorded schedule says.",
)


def figure(report: Report) -> Figure:
    """Draw the accepted work over the patience, a panel for each load."""
    data = report.data
    return panels(data["series"], data["patience"], {"xlabel": "run times of patience", "xscale": "log"})
