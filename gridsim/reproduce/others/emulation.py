"""The same node programs simulated and run for real, over sockets: how far is the simulator from them?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Grid, Report, Row, Run, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.result import Result
from gridsim.schedulers import DgsAsap, FairTree, Rjss, Sparrow, WqrFt
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import simulate
from gridsim.support.arrays import Floats
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "emulation"
TITLE = "node programs simulated, and run for real in processes that send messages over sockets"
MESSAGES = "nodes send as many messages of each kind as in the simulator, within 5 %"
TIMES = "mean waiting and maximum stretch are those of the simulator, within 10 %"
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
    return simulate(made, scheduler, record=True), gs.emulate(made, scheduler, **how)


def run(how: Run) -> Report:
    """Run each system both ways, one run after another: they compete for the processors otherwise."""
    size = QUICK if how.quick else FULL
    rows, grids, lateness = list[Row](), list[Grid](), dict[str, list[Estimate | str]]()
    for system in SYSTEMS:
        pairs = [both(system, size, seed) for seed in how.seeds]
        values = [(measured(one), measured(other)) for one, other in pairs]
        cells: dict[str, list[Estimate | str]] = {
            name: [estimate(simulated), estimate(emulated), _ratio(simulated, emulated)]
            for name, (simulated, emulated) in compared(values).items()
        }
        rows += judged(system, values)
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


#: Of each seed what was measured in the simulated and in the emulated run.
Pairs = Sequence[tuple[Mapping[str, float], Mapping[str, float]]]


def compared(pairs: Pairs) -> dict[str, tuple[Floats, Floats]]:
    """Return name -> values of the simulated and of the emulated runs, float64[seeds] each.

    A kind of message that a run has not sent counts 0 there.
    """
    names = dict.fromkeys(name for pair in pairs for values in pair for name in values)
    return {
        name: (
            np.array([simulated.get(name, 0.0) for simulated, _ in pairs]),
            np.array([emulated.get(name, 0.0) for _, emulated in pairs]),
        )
        for name in names
    }


def judged(system: str, pairs: Pairs) -> list[Row]:
    """Return a row for every kind of message and every time, whether or not it is as in the simulator."""
    rows = []
    for name, values in compared(pairs).items():
        quantity, ratio = f"{system}: {name}, emulated / simulated", _ratio(*values)
        if name == TURNAROUND:
            rows.append(Row("", quantity, "", ratio))
        elif name in (WAITING, STRETCH):
            rows.append(judge(TIMES, quantity, "within 10 %", ratio, 0.9, 1.1))
        else:
            rows.append(judge(MESSAGES, quantity, "within 5 %", ratio, 0.95, 1.05))
    return rows


def _ratio(simulated: Floats, emulated: Floats) -> Estimate:
    """Return the mean of the ratios seed by seed.

    A seed may have no message of a kind: if neither run has one the ratio is 1, and if only the simulated one
    has none, it is over one message.
    """
    return estimate(
        np.where(emulated == simulated, 1.0, emulated / np.where(simulated == 0.0, 1.0, simulated))
    )


def _remarks(size: Size) -> tuple[str, ...]:
    return (
        f"{size.machines} machines in {size.processes} processes, {size.speedup:g} simulated s in a second; "
        f"{size.bags} bags of about {size.machines} tasks, for DGS_ASAP {size.jobs} rigid jobs.",
        "Messages take the time that the network of the scenario says, or longer where the computer is late.",
        "No emulated run is like another one: the intervals are those of seeds and of the computer at once.",
        "All rows are judged but those of the mean turnaround, of which no claim speaks.  In real time "
        "handlers take time, and no two things happen at the same instant; the page on emulation explains "
        "what differs.",
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
