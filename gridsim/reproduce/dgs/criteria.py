"""More criteria than "as soon as possible", which the paper on DGS_ASAP leaves to the future.

Machines that suit a job, machines that are close to one another, and slots that jobs release at an early end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from gridsim.model.attributes import Constraints, DrawnAttributes
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.dgs.common import AMONG, HIGH, LOW, Jobs, about_jobs, means, never, waiting
from gridsim.reproduce.framework import ABOVE, BELOW, Report, Row, Run, exact, judge, panels
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import Asap, DgsAcap, DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.studies.replicate import Replicates
from gridsim.validation.results import validate_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dgs-criteria"
TITLE = "DGS_ASAP with more criteria: constraints of jobs, close machines, early ends"
SUITED = "jobs that want certain machines run on these, and on no others"
CLOSE = "as close as possible: machines of a job are closer to one another than random ones"
EARLY = "slots that are released, and pushed, when jobs end before their reservations shorten waiting"
CLAIMS = (SUITED, CLOSE, EARLY)
SEEDS = (10, 5)

#: Nodes and jobs, in full and in small, as of the rivals of DGS_ASAP.
NODES, SMALL = 200, 100
JOBS, FEW_JOBS = 300, 60
PROFILE = "wagap2013"
#: Nodes that a job wants at most, as a share of all: about the fewest that suit a job with constraints.
WIDEST = 0.1
#: Half of the machines have enough memory for a quarter of the jobs; half are of a kind that a quarter want.
MEMORY, KINDS, SIDE = (16e9, 64e9), ("cpu", "gpu"), 1.0
WANTED = Constraints(memory=(0.0, 0.0, 0.0, 32e9), kinds=("", "", "", "gpu"))

DGS, WHOLE, ACAP = "DGS_ASAP", "Asap", "DGS_ACAP"
MORE, LATER = f"{DGS}, 40 neighbours", f"{ACAP}, an hour later if closer"
PLACING: dict[str, Scheduler] = {DGS: DgsAsap(estimate="run"), WHOLE: Asap(estimate="run")}
APART: dict[str, Scheduler] = {
    DGS: DgsAsap(estimate="run"),
    MORE: DgsAsap(estimate="run", degree=40),
    ACAP: DgsAcap(estimate="run"),
    LATER: DgsAcap(estimate="run", tolerance=3600.0),
}
KNOWN, FREED, KEPT = "run times are known", "the rest is released", "the rest is kept"
ENDING: dict[str, Scheduler] = {
    KNOWN: DgsAsap(estimate="run"),
    FREED: DgsAsap(estimate="requested"),
    KEPT: DgsAsap(estimate="requested", early="keep"),
}


@dataclass(frozen=True)
class Making:
    """Makes a scenario of rigid jobs on machines with attributes; see `Jobs`.

    Parameters
    ----------
    wanted
        Constraints of the jobs.
    ample
        Whether users ask for at least the time that their jobs take, as where jobs end at their limits.
    """

    jobs: Jobs
    wanted: Constraints | None = None
    ample: bool = False

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        which = "ample" if self.ample else "free" if self.wanted is None else "wanting"
        return f"{self.jobs.name}-{which}"

    def __call__(self, seed: int) -> Scenario:
        made = self.jobs(seed)
        own = DrawnAttributes(memory=MEMORY, kinds=KINDS, side=SIDE, seed=seed)
        recipe = msgspec.structs.replace(
            made.workload.recipe, constraints=self.wanted, max_nodes=self.jobs.widest
        )
        platform = Platform.equal(self.jobs.nodes, attributes=own)
        workload = Workload(recipe)
        if self.ample:
            jobs = workload.realize(platform)
            assert jobs.requested is not None
            run_time = jobs.task_size / float(platform.speeds[0])
            columns = jobs.release, jobs.tasks, run_time, np.maximum(run_time, jobs.requested), jobs.submitter
            workload = Workload.jobs_of(*columns, origin=0.0)
        return replace(made, platform=platform, workload=workload)


# -- what is measured -----------------------------------------------------------------------------------


def distance(result: Result) -> float:
    """Mean distance between two machines of a job, mean over the jobs of several machines."""
    table = result.tables["placements"]
    several = result.applications["tasks"][table["application"]] > 1
    return float(table["distance"][several].mean()) if several.any() else math.nan


def wanting(result: Result) -> float:
    """Mean waiting of the jobs that want certain machines, s; NaN without any."""
    table = result.applications
    if "memory" not in table:
        return math.nan
    return float(np.nanmean(table["waiting"][(table["memory"] > 0) | (table["kind"] != "")]))


def schedules(result: Result) -> float:
    """Schedules exchanged per job."""
    if "exchanges" not in result.tables:
        return math.nan
    return float(result.tables["exchanges"]["schedules"].sum()) / len(result.applications)


METRICS: dict[str, MetricFunction] = {
    "waiting": waiting,
    "wanting": wanting,
    "distance": distance,
    "schedules": schedules,
    "never": never,
}
SAID = {"waiting": "mean waiting (s)", "schedules": "schedules per job", "never": "never placed (%)"}
_WANTING = {"waiting": "mean waiting (s)", "wanting": "of jobs that want certain machines (s)"}
_APART = {"distance": "mean distance", **SAID}


def run(how: Run) -> Report:
    """Run the three comparisons at both loads, and check the schedules of jobs with constraints."""
    jobs = Jobs(NODES, JOBS, LOW, PROFILE, how.log, round(WIDEST * NODES))
    if how.quick:
        jobs = replace(jobs, nodes=SMALL, jobs=FEW_JOBS, widest=round(WIDEST * SMALL))
    loads = {f"RU {load:g}": replace(jobs, load=load) for load in (LOW, HIGH)}
    bound = {case: how.replicate(Making(each, WANTED), PLACING, METRICS) for case, each in loads.items()}
    free = {case: how.replicate(Making(each), PLACING, METRICS) for case, each in loads.items()}
    # half as many jobs, as the node program of DGS_ACAP takes longer than a compiled protocol
    half = {case: Making(replace(each, jobs=each.jobs // 2)) for case, each in loads.items()}
    apart = {case: how.replicate(each, APART, METRICS) for case, each in half.items()}
    ending = {case: how.replicate(Making(each, ample=True), ENDING, METRICS) for case, each in loads.items()}
    rows = []
    for case in loads:
        rows.append(_suited(case, how.seeds, Making(loads[case], WANTED)))
        rows += _prices(case, bound[case], free[case])
        rows += _apart(case, apart[case])
        rows += _ending(case, ending[case])
    both = {
        f"{case}, {which}": made[case]
        for case in loads
        for which, made in (("all alike", free), ("with constraints", bound))
    }
    grids = [
        means(
            "Waiting with constraints, and without", both, list(PLACING), {**_WANTING, "never": SAID["never"]}
        ),
        means("Distance between machines of a job, in a square of side 1", apart, list(APART), _APART),
        means("Waiting where users ask for more time than jobs take", ending, list(ENDING), SAID),
    ]
    data = {
        "loads": [LOW, HIGH],
        "series": {
            "mean distance": {
                name: [made.mean(name, "distance") for made in apart.values()] for name in APART
            },
            "mean waiting (s)": {
                name: [made.mean(name, "waiting") for made in ending.values()] for name in ENDING
            },
        },
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


def _suited(case: str, seeds: Sequence[int], make: Making) -> Row:
    """Count what `validate_result` finds in recorded schedules of jobs with constraints."""
    tasks = found = wanted = 0
    for seed in seeds:
        scenario = make(seed)
        for scheduler in PLACING.values():
            result = simulate(scenario, scheduler, record=True)
            found += sum(each.count for each in validate_result(result))
            table = result.applications
            wants = (table["memory"] > 0) | (table["kind"] != "")
            tasks += int(table["tasks"].sum())
            wanted += int(table["tasks"][wants].sum())
    why = (
        f"{found} violations in {tasks} allocated machines, {wanted} of them for jobs that want certain ones"
    )
    return exact(SUITED, f"{case}: violations found by validate", "none", found == 0, why)


def _prices(case: str, bound: Replicates, free: Replicates) -> list[Row]:
    """Return the differences of waiting with constraints to that without, seed by seed."""
    return [
        Row(
            "",
            f"{case}: mean waiting of {name}, with constraints - without",
            "",
            estimate(bound["waiting"][name] - free["waiting"][name]),
            "s",
        )
        for name in PLACING
    ]


def _apart(case: str, made: Replicates) -> list[Row]:
    rows = []
    for name in (ACAP, LATER):
        ratio = made.ratio(name, DGS, "distance")
        rows.append(judge(CLOSE, f"{case}: mean distance, {name} / {DGS}", "< 1", ratio, 0.0, BELOW))
    more = made.difference(ACAP, DGS, "waiting")
    return [*rows, Row("", f"{case}: mean waiting, {ACAP} - {DGS}", "", more, "s")]


def _ending(case: str, made: Replicates) -> list[Row]:
    ratio = made.ratio(KEPT, FREED, "waiting")
    quantity = f"{case}: mean waiting, {KEPT} / {FREED}"
    gained = 100.0 * (1.0 - made["waiting"][FREED] / made["waiting"][KEPT])
    return [
        judge(EARLY, quantity, "> 1", ratio, ABOVE, math.inf),
        Row("", f"{case}: share of waiting that releasing gains", "", estimate(gained), "%"),
    ]


_REMARKS = (
    "Of what the paper leaves to the future: it measured none of this.",
    "Half of the machines have 64 GB and half 16 GB; half are of a kind of their own.  A quarter of the jobs "
    "need 32 GB, and a quarter that kind; draws are independent.",
    "Places are uniform in a square of side 1, where two random ones are 0.521 apart on average.  Distances "
    "are means over jobs of several machines.",
    "Early ends: jobs reserve what their users asked for; with run times that are known there is nothing to "
    "release.",
    AMONG,
)


def figure(report: Report) -> Figure:
    """Draw a panel per metric, over the load."""
    data = report.data
    return panels(data["series"], data["loads"], {"xlabel": "request utilization"}, named="ylabel")
