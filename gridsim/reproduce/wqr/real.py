"""The nine policies on all desktops of an availability trace, under all bags of a job log."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gridsim as gs
from gridsim.errors import ScenarioError, TraceWarning
from gridsim.reproduce.framework import Desktops, Measurements, Reproduction, ResultGrid, Run
from gridsim.reproduce.verdicts import Row, exact
from gridsim.reproduce.wqr.common import (
    INFORMED_POLICIES,
    METRICS,
    ORDERINGS,
    RELATIVE_COUNT,
    RELATIVE_TIME,
    ordering_grid,
    ordering_rows,
    policies,
    policy_table,
    sentences,
)
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALID = "(not in the paper) each task is completed once, on machines that are up, and all cycles are reported"

#: Maximum relative difference at which reported cycles and busy times count as equal.
EXACT = 1e-9
CYCLES = ("useful", "redundant", "lost", "overhead")


@dataclass(frozen=True)
class RealDesktops:
    """Factory of scenarios with every host once: ``RealDesktops(desktops)(seed)``.

    The seed determines the order of the hosts, their speeds, and the start time in the trace.

    Parameters
    ----------
    nodes, bags
        Number of hosts and of bags, counted from the first; None for all.
    """

    desktops: Desktops
    nodes: int | None = None
    bags: int | None = None
    name = "real"

    def __call__(self, seed: int) -> gs.Scenario:
        from gridsim.traces import read_availability

        trace = read_availability(self.desktops.availability)
        hosts = len(trace.offsets) - 1
        nodes = hosts if self.nodes is None else min(self.nodes, hosts)
        start = float(Streams(seed)("reproduce.start").uniform(0.0, 0.4 * max(0.0, trace.horizon)))
        return gs.Scenario(
            gs.Platform.from_hosts(self.desktops.speeds, nodes, seed),
            gs.Workload.from_log(self.desktops.log, own_sizes=True, max_applications=self.bags, seed=seed),
            seed=seed,
            faults=gs.Faults.trace(self.desktops.availability, seed, start=start, never_up=True),
        )


@dataclass(frozen=True)
class DesktopRuns:
    """Measurements of all runs, and of the recorded schedules of the first seed.

    Parameters
    ----------
    machines
        Number of machines.
    rows
        Rows on the validity of the schedules.
    cycles
        Policy -> number of its task copies, and shares of useful and wasted cycles, %.
    """

    measurements: Measurements
    machines: int
    rows: list[Row]
    cycles: dict[str, list[str]]


def _measure(run: Run) -> DesktopRuns:
    """Run all policies, and check every invariant on the recorded schedules of the first seed."""
    if run.desktops is None:
        raise ScenarioError("wqr-real requires --availability FILE, --speeds FILE and --log FILE")
    desktops = RealDesktops(run.desktops, *run.choose((None, None), (500, 100)))
    measurements = run.replicate_cases({"all bags": desktops}, policies(), METRICS)
    scenario, rows, copies = desktops(run.seeds[0]), [], {}
    for name, scheduler in policies().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)  # the warning has already been shown
            result = simulate(scenario, scheduler, record=True)
            violations = validate_result(result)
        cycles = {key: float(column.sum()) for key, column in result.tables["cycles"].items()}
        work = float(result.machines["busy"] @ result.machines["speed"])
        error = sum(cycles.values()) / work - 1
        reason = "; ".join(map(str, violations)) or f"cycles reported / busy - 1 = {error:.1e}"
        holds = not violations and abs(error) < EXACT
        rows.append(exact(VALID, f"seed {run.seeds[0]}: {name}", "", holds, reason))
        shares = (f"{100 * cycles[key] / work:.3g}" for key in CYCLES)
        copies[name] = [str(len(result.tables["schedule"])), *shares]
    return DesktopRuns(measurements, scenario.platform.nodes, rows, copies)


def _grids(data: DesktopRuns) -> Iterator[ResultGrid]:
    cases, prefix = data.measurements, f"{data.machines} machines"
    yield policy_table(f"{prefix}: completion time, mean over bags, s", "mean_completion").grid(cases)
    title = f"{prefix}: completion time / WQR-FT"
    yield policy_table(title, RELATIVE_TIME, INFORMED_POLICIES).grid(cases)
    title = f"{prefix}: tasks completed without resubmission / WQR-FT"
    yield policy_table(title, RELATIVE_COUNT, INFORMED_POLICIES).grid(cases)
    yield policy_table(f"{prefix}: share of the cycles that is wasted", "wasted").grid(cases)
    yield ordering_grid(f"{prefix}: which claims hold", cases)
    title = f"{prefix}, seed {cases.run.seeds[0]}: what became of cycles"
    yield ResultGrid(title, ["policy", "task copies", *(f"{key} %" for key in CYCLES)], data.cycles)


REMARKS = (
    "Bags are released as the log has it, a task as long as its job on a machine of mean speed; exact "
    "predictions; checkpoints by Young's formula (10 s), read in 10 s; two replicas at most.",
    "Seeds differ in which host has which speed, and from which day of the trace on.",
    "With so many machines idle nearly every task has two copies at once, and nearly all of what is wasted "
    "is a second copy.",
    "Invariants: each task is completed exactly once, by at most two copies at a time, none on a machine "
    "that is down and no two on a machine at a time; a copy begins with the most advanced checkpoint and "
    "takes as long as it must.",
)


def _draw(data: DesktopRuns) -> Figure:
    """Draw the completion time of each policy."""
    from gridsim import plots

    figure, (axes,) = plots.figure(1)
    names, values = list(POLICIES), data.measurements.first
    axes.bar(range(len(names)), [values.mean(name, "mean_completion").mean for name in names])
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_ylabel("completion time, mean over bags (s)")
    return figure


REAL_DESKTOPS = Reproduction(
    name="wqr-real",
    title="information-aware policies on all real desktops, under the bags of a log as they came",
    paper="Arora et al., section VI, on real desktops",
    claims=(*sentences(ORDERINGS), VALID),
    files="desktops",
    needs_files=True,
    seeds=(5, 5),
    measure=_measure,
    rows=lambda data: [*ordering_rows("all bags", data.measurements.first), *data.rows],
    grids=_grids,
    remarks=REMARKS,
    figure=_draw,
)
