"""The same node programs simulated and run for real, over sockets: how far is the simulator from them?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.emulation.emulate import emulate
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Grid, Report, Row, Run, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.result import Result
from gridsim.schedulers import DgsAsap, FairTree, Rjss, Sparrow, WqrFt
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import simulate
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "emulation"
TITLE = "node programs simulated, and run for real in processes that send messages over sockets"
MESSAGES = "the simulator counts the same messages, within 5 %, where their number does not depend on timing"
TIMES = "mean waiting or maximum stretch is that of the simulator, within 10 %"
CLAIMS = (MESSAGES, TIMES)
SEEDS = (10, 5)


@dataclass(frozen=True)
class Size:
    """How large an experiment is: machines, processes, applications or jobs, simulated s in a second."""

    machines: int
    processes: int
    bags: int
    jobs: int
    speedup: float


FULL, QUICK = Size(200, 4, 5, 30, 10.0), Size(24, 2, 3, 12, 100.0)
#: Mean s between two bags, and between two jobs.
BETWEEN_BAGS, BETWEEN_JOBS = 60.0, 10.0

#: System -> its scheduler.  Slots of DGS_ASAP are short since jobs are.  Probes of RJSS take their time:
#: where they take none, as by default, those of a bag come one after another, which no real node can do.
SYSTEMS: dict[str, Scheduler] = {
    "sparrow": Sparrow(),
    "fair-tree": FairTree(),
    "dgs-asap": DgsAsap(slot=10.0),
    "rjss": Rjss(probe_latency="network"),
    "WQR-FT": WqrFt(),
}
#: Kinds of messages of which the workload says how many there are, whatever the timing.
FIXED = {"sparrow": ("probe", "fetch", "task", "none"), "dgs-asap": ("request", "answer")}
WAITING, TURNAROUND, STRETCH = "mean waiting", "mean turnaround", "maximum stretch"


def scenario(system: str, size: Size, seed: int) -> Scenario:
    """Return the scenario of a system: bags of tasks on desktops, or rigid jobs on equal machines."""
    if system != "dgs-asap":
        workload = Workload.bags(size.bags, BETWEEN_BAGS, 1.0, seed=seed)
        return Scenario(Platform.desktop_grid(size.machines, seed), workload, seed=seed)
    streams = Streams(seed)
    release = np.cumsum(streams("emulation releases").exponential(BETWEEN_JOBS, size.jobs))
    nodes = streams("emulation nodes").integers(1, size.machines // 5, size.jobs, endpoint=True)
    run_time = streams("emulation run times").uniform(30.0, 150.0, size.jobs)
    jobs = Workload.jobs_of(release, nodes, run_time.round(), origin=0.0)
    return Scenario(Platform.equal(size.machines), jobs, seed=seed)


def measured(result: Result) -> dict[str, float]:
    """Return messages by kind, and the times that are compared."""
    table, schedule = result.applications, result.tables["schedule"]
    each = (schedule["end"] - schedule["start"]) / schedule["tasks"]
    begins = schedule["start"] + each * (schedule["tasks"] - 1) / 2  # on average, of the tasks of a row
    waited, weight = begins - table["release"][schedule["application"]], schedule["completed"]
    sent = dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))
    return {
        **{kind: float(count) for kind, count in sent.items() if count},
        WAITING: float((waited * weight).sum() / weight.sum()),
        TURNAROUND: float((table["finish"] - table["release"]).mean()),
        STRETCH: float(np.nanmax(table["stretch_agg"])),
    }


def same_places(one: Result, other: Result) -> float:
    """Return the share of tasks that are on the same machines in both."""
    counts = []
    for result in (one, other):
        found = np.zeros((len(result.machines), len(result.applications)))
        table = result.tables["schedule"]
        np.add.at(found, (table["machine"], table["application"]), table["completed"])
        counts.append(found)
    return float(np.minimum(*counts).sum() / counts[0].sum())


def both(system: str, size: Size, seed: int, **further: Any) -> tuple[Result, Result]:
    """Return the simulated and the emulated run of a system."""
    made, scheduler = scenario(system, size, seed), SYSTEMS[system]
    how = {"processes": size.processes, "speedup": size.speedup, **further}
    return simulate(made, scheduler, record=True), emulate(made, scheduler, **how)


def run(how: Run) -> Report:
    """Run each system both ways, one run after another: they compete for the processors otherwise."""
    size = QUICK if how.quick else FULL
    rows, grids, lateness = list[Row](), list[Grid](), dict[str, list[Estimate | str]]()
    for system in SYSTEMS:
        pairs = [both(system, size, seed) for seed in how.seeds]
        values = [(measured(one), measured(other)) for one, other in pairs]
        names = [name for name in values[0][0] if all(name in each for pair in values for each in pair)]
        cells: dict[str, list[Estimate | str]] = {}
        for name in names:
            simulated, emulated = (np.array([pair[k][name] for pair in values]) for k in range(2))
            ratio = estimate(emulated / simulated)
            cells[name] = [estimate(simulated), estimate(emulated), ratio]
            rows.append(_row(system, name, ratio))
        cells["tasks on the same machine"] = ["", "", estimate([same_places(*pair) for pair in pairs])]
        title = f"{system}: simulated and emulated, and the ratio of the two"
        grids.append(Grid(title, ["", "simulated", "emulated", "ratio"], cells))
        about = [emulated.provenance["emulation"] for _, emulated in pairs]
        lateness[system] = [
            estimate([each[name] for each in about])
            for name in ("late_mean", "late_most", "behind_mean", "events_per_second", "cpu_seconds")
        ]
    columns = [
        "system",
        "timers late, s",
        "latest, s",
        "messages late, simulated s",
        "events/s",
        "processor s",
    ]
    grids.append(Grid("how late things were", columns, lateness))
    return Report(tuple(how.seeds), how.quick, rows, grids, _remarks(size), {"rows": rows})


def _row(system: str, name: str, ratio: Estimate) -> Row:
    quantity = f"{system}: {name}, emulated / simulated"
    if name in FIXED.get(system, ()):
        return judge(MESSAGES, quantity, "within 5 %", ratio, 0.95, 1.05)
    if name == (STRETCH if system == "fair-tree" else WAITING):
        return judge(TIMES, quantity, "within 10 %", ratio, 0.9, 1.1)
    return Row("", quantity, "", ratio)


def _remarks(size: Size) -> tuple[str, ...]:
    return (
        f"{size.machines} machines in {size.processes} processes, {size.speedup:g} simulated s in a second; "
        f"{size.bags} bags of about {size.machines} tasks, for DGS_ASAP {size.jobs} rigid jobs.",
        "Messages take the time that the network of the scenario says, or longer where the computer is late.",
        "No emulated run is like another one: the intervals are those of seeds and of the computer at once.",
        "Where a row has no verdict, the number depends on who hears of what first.",
    )


def figure(report: Report) -> Figure:
    """Draw the ratios of times."""
    from gridsim import plots

    made, panels = plots.figure(1)
    rows: list[Row] = [row for row in report.data["rows"] if row.measured is not None]
    wanted: Mapping[str, list[float]] = {
        name: [
            next(
                (
                    row.measured.mean
                    for row in rows
                    if row.measured is not None and row.quantity.startswith(f"{system}: {name}")
                ),
                math.nan,
            )
            for system in SYSTEMS
        ]
        for name in (WAITING, TURNAROUND, STRETCH)
    }
    axes = panels[0]
    for name, ratios in wanted.items():
        axes.plot(range(len(ratios)), ratios, "o", label=name)
    axes.set_xticks(range(len(SYSTEMS)), list(SYSTEMS))
    axes.axhline(1.0, linewidth=0.8)
    axes.set_ylabel("emulated / simulated")
    axes.legend()
    return made
