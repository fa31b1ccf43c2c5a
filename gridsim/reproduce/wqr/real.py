"""The nine policies on all desktops of an availability trace, under all bags of a job log."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridsim.errors import ScenarioError, TraceWarning
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Desktops, Grid, Report, Run, exact
from gridsim.reproduce.wqr.common import (
    BASE,
    METRICS,
    ORDERINGS,
    judged,
    means,
    orderings,
    policies,
    relative,
    sentences,
)
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "wqr-real"
TITLE = "information-aware policies on all real desktops, under the bags of a log as they came"
VALID = "(not in the paper) each task is completed once, on machines that are up, and all cycles are reported"
CLAIMS = (*sentences(ORDERINGS), VALID)
SEEDS = (5, 5)

#: Largest relative difference at which reported cycles and busy times count as equal.
EXACT = 1e-9
#: Number of hosts and of bags in small.
SMALL, FEW_BAGS = 500, 100


@dataclass(frozen=True)
class Grounds:
    """Makes a scenario with every host once, as ``Grounds(desktops)(seed)``.

    The seed determines the order of the hosts, their speeds, and the start time in the trace.

    Parameters
    ----------
    nodes, bags
        Number of hosts and of bags, taken from the first on; None for all.
    """

    desktops: Desktops
    nodes: int | None = None
    bags: int | None = None
    name = "real"

    def __call__(self, seed: int) -> Scenario:
        from gridsim.traces import read_availability

        trace = read_availability(self.desktops.availability)
        hosts = len(trace.offsets) - 1
        nodes = hosts if self.nodes is None else min(self.nodes, hosts)
        start = float(Streams(seed)("reproduce.start").uniform(0.0, 0.4 * max(0.0, trace.horizon)))
        return Scenario(
            Platform.from_hosts(self.desktops.speeds, nodes, seed),
            Workload.from_log(self.desktops.log, own_sizes=True, max_applications=self.bags, seed=seed),
            seed=seed,
            faults=Faults.trace(self.desktops.availability, seed, start=start, never_up=True),
        )


def run(how: Run) -> Report:
    """Run all policies; for the first seed, also check every invariant on the recorded schedules."""
    if how.desktops is None:
        raise ScenarioError(f"{NAME} needs --availability FILE, --speeds FILE and --log FILE")
    make = Grounds(how.desktops, SMALL, FEW_BAGS) if how.quick else Grounds(how.desktops)
    made = how.replicate(make, policies(), METRICS)
    scenario = make(how.seeds[0])
    rows, told = judged("all bags", made), {}
    for name, scheduler in policies().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)  # it has been shown already
            result = simulate(scenario, scheduler, record=True)
            broken = validate_result(result)
        cycles = {key: float(column.sum()) for key, column in result.tables["cycles"].items()}
        worked = float(result.machines["busy"] @ result.machines["speed"])
        apart = sum(cycles.values()) / worked - 1
        why = "; ".join(map(str, broken)) or f"cycles reported / busy - 1 = {apart:.1e}"
        rows.append(exact(VALID, f"seed {how.seeds[0]}: {name}", "", not broken and abs(apart) < EXACT, why))
        told[name] = [
            str(len(result.tables["schedule"])),
            *(f"{100 * cycles[key] / worked:.3g}" for key in ("useful", "redundant", "lost", "overhead")),
        ]
    about = f"{scenario.platform.nodes} machines"
    one = {"all bags": made}
    columns = ["policy", "task copies"]
    columns += [f"{name} %" for name in ("useful", "redundant", "lost", "overhead")]
    others = [name for name in POLICIES if name != BASE]
    grids = [
        means(f"{about}: completion time, mean over bags, s", one, "mean_completion"),
        relative(f"{about}: completion time / WQR-FT", one, "mean_completion", others),
        relative(f"{about}: tasks completed without resubmission / WQR-FT", one, "undisturbed", others),
        means(f"{about}: share of the cycles that is wasted", one, "wasted"),
        orderings(f"{about}: which claims hold", one),
        Grid(
            f"{about}, seed {how.seeds[0]}: what became of cycles",
            columns,
            told,
        ),
    ]
    data = {"made": made}
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, data)


_REMARKS = (
    "Bags are released as the log has it, a task as long as its job on a machine of mean speed; exact "
    "predictions; checkpoints by Young's formula (10 s), read in 10 s; two replicas at most.",
    "Seeds differ in which host has which speed, and from which day of the trace on.",
    "With so many machines idle nearly every task has two copies at once, and nearly all of what is wasted "
    "is a second copy.",
    "Invariants: each task is completed exactly once, by at most two copies at a time, none on a machine "
    "that is down and no two on a machine at a time; a copy begins with the most advanced checkpoint and "
    "takes as long as it must.",
)


def figure(report: Report) -> Figure:
    """Draw the completion time of each policy."""
    from gridsim import plots

    made, (axes,) = plots.figure(1)
    replicates = report.data["made"]
    names = list(POLICIES)
    cells = [replicates.mean(name, "mean_completion") for name in names]
    axes.bar(range(len(names)), [cell.mean for cell in cells])
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_ylabel("completion time, mean over bags (s)")
    return made
