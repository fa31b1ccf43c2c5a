"""Compares simulated node programs with the same programs on processes that communicate over sockets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import Reproduction, ResultGrid, Run
from gridsim.reproduce.verdicts import ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.simulation.simulate import simulate
from gridsim.support.arrays import Floats
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MESSAGES = "nodes send as many messages of each kind as in the simulator, within 5 %"
TIMES = "mean waiting and maximum stretch are those of the simulator, within 10 %"
WAITS = "on 40 machines, also if they fail or processes are killed, mean waiting is as simulated, within 10 %"
COMPLETION = "on 40 machines, also if they fail or processes are killed, each task is completed once"


@dataclass(frozen=True)
class EmulationSize:
    """Size of an experiment: machines, processes, bags or jobs, and speedup (simulated s per second)."""

    machines: int
    processes: int
    bags: int
    jobs: int
    speedup: float


SIZE = EmulationSize(200, 4, 5, 30, 10.0), EmulationSize(24, 2, 3, 12, 100.0)
#: Mean time between two bags, and between two jobs, s.
GAP_OF_BAGS, GAP_OF_JOBS = 60.0, 10.0

#: System -> its scheduler. Slots of DGS_ASAP are short since jobs are short. Probes of RJSS take time: by
#: default they take none and those of a bag arrive one after another, which is impossible on real nodes.
SYSTEMS: dict[str, gs.Scheduler] = {
    "sparrow": gs.Sparrow(),
    "fair-tree": gs.FairTree(),
    "dgs-asap": gs.DgsAsap(slot=10.0),
    "rjss": gs.Rjss(probe_latency="network"),
    "WQR-FT": gs.WqrFt(),
}
#: Events of machines: none; single machines fail; processes are killed with all their machines; or owners
#: return, so that their machines run no tasks for some time.
PLAIN, FAILURES, KILLS, OWNERS = "no failures", "failures", "killed processes", "owners come and go"
#: System of a paper -> its scheduler, and the events of machines in its runs on 40 machines. Messages
#: maintain the tree. The times of DGS_ASAP are its defaults for slots of 60 s. RJSS handles only owners.
FAILING_SYSTEMS: dict[str, tuple[gs.Scheduler, tuple[str, ...]]] = {
    "fair-tree": (gs.FairTree(maintenance="messages"), (PLAIN, FAILURES, KILLS)),
    "dgs-asap": (
        gs.DgsAsap(slot=10.0, retry=100.0, detection=10.0, patience=20.0),
        (PLAIN, FAILURES, KILLS),
    ),
    "rjss": (SYSTEMS["rjss"], (PLAIN, OWNERS)),
    "WQR-FT": (SYSTEMS["WQR-FT"], (PLAIN, FAILURES, KILLS)),
}
FAILING_SIZE = EmulationSize(40, 4, 3, 60, 10.0), EmulationSize(16, 2, 2, 8, 100.0)
#: Number of seeds that these systems run (the first ones), since each seed takes 10 minutes.
FAILING_SEEDS = 5
#: Failures of single machines: their number, the time of the first, the time between two, and the time to
#: recovery, s.
FAILURE_COUNT, FIRST_FAILURE, FAILURE_GAP, DOWN_TIME = 8, 40.0, 25.0, 15.0
#: The order of two conflicting searches may depend on the smallest delay. So the mean of several simulated
#: runs is compared, with jitter (s) between half of this value and this value.
JITTER, SIMULATED_RUNS = 0.02, 10

#: Compared times -> the range that counts as equal; and that of message counts.
WAITING, TURNAROUND, STRETCH = "mean waiting", "mean turnaround", "maximum stretch"
TESTS = {
    WAITING: ClaimedRange("within 10 %", 0.9, 1.1),
    STRETCH: ClaimedRange("within 10 %", 0.9, 1.1),
    TURNAROUND: None,
}
MESSAGE_TEST = ClaimedRange("within 5 %", 0.95, 1.05)


def scenario_of(system: str, size: EmulationSize, seed: int) -> gs.Scenario:
    """Return the scenario of a system: bags of tasks on desktops, or rigid jobs on equal machines."""
    if system != "dgs-asap":
        workload = gs.Workload.bags(size.bags, GAP_OF_BAGS, 1.0, seed=seed)
        return gs.Scenario(gs.Platform.desktop_grid(size.machines, seed), workload, seed=seed)
    streams = Streams(seed)
    release = np.cumsum(streams("emulation releases").exponential(GAP_OF_JOBS, size.jobs))
    nodes = streams("emulation nodes").integers(1, size.machines // 5, size.jobs, endpoint=True)
    run_time = streams("emulation run times").uniform(30.0, 150.0, size.jobs)
    jobs = gs.Workload.jobs_of(release, nodes, run_time.round(), origin=0.0)
    return gs.Scenario(gs.Platform.equal(size.machines), jobs, seed=seed)


def measurements(result: gs.Result) -> dict[str, float]:
    """Return the message counts by kind, and the compared times."""
    table, schedule = result.applications, result.tables["schedule"]
    time = (schedule["end"] - schedule["start"]) / schedule["tasks"]
    begins = schedule["start"] + time * (schedule["tasks"] - 1) / 2  # mean over the tasks of the row
    waits, weight = begins - table["release"][schedule["application"]], schedule["completed"]
    sent = dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))
    return {
        **{kind: float(count) for kind, count in sent.items() if count},
        WAITING: float((waits * weight).sum() / weight.sum()),
        TURNAROUND: float((table["finish"] - table["release"]).mean()),
        STRETCH: float(np.nanmax(table["stretch_agg"])),
    }


def same_places(simulation: gs.Result, emulation: gs.Result) -> float:
    """Return the share of tasks that both runs place on the same machine."""
    counts = []
    for result in (simulation, emulation):
        tasks = np.zeros((len(result.machines), len(result.applications)))
        table = result.tables["schedule"]
        np.add.at(tasks, (table["machine"], table["application"]), table["completed"])
        counts.append(tasks)
    return float(np.minimum(*counts).sum() / counts[0].sum())


def run_pair(system: str, size: EmulationSize, seed: int, **changes: Any) -> tuple[gs.Result, gs.Result]:
    """Return the simulated and the emulated run of a system."""
    scenario, scheduler = scenario_of(system, size, seed), SYSTEMS[system]
    options = {"processes": size.processes, "speedup": size.speedup, **changes}
    return simulate(scenario, scheduler, record=True), gs.emulate(scenario, scheduler, **options)


@dataclass(frozen=True)
class FailingRun:
    """An emulated run on few machines, and the mean waiting times of the simulated runs.

    Parameters
    ----------
    waits
        Mean waiting time of each simulated run, s.
    """

    result: gs.Result
    waits: Sequence[float]

    @property
    def wait(self) -> float:
        """Mean waiting time in the emulated run, s."""
        return measurements(self.result)[WAITING]

    @property
    def completed(self) -> float:
        """Completed tasks as a share of all tasks; a task that is completed twice counts twice."""
        completed = self.result.tables["schedule"]["completed"].sum()
        return float(completed / self.result.applications["tasks"].sum())


def failures_of(machines: int, seed: int, reachable: bool) -> gs.Faults:
    """Return the failures of single machines, one after another, or the presence of their owners."""
    machine = Streams(seed)("emulation failures").integers(machines, size=FAILURE_COUNT)
    down = FIRST_FAILURE + FAILURE_GAP * np.arange(FAILURE_COUNT)
    return gs.Faults.of(machine.tolist(), down.tolist(), (down + DOWN_TIME).tolist(), reachable=reachable)


def run_failing(system: str, size: EmulationSize, seed: int, event: str) -> FailingRun:
    """Run a system on few machines; the simulated runs have the failures that killed processes caused."""
    scenario, (scheduler, _) = scenario_of(system, size, seed), FAILING_SYSTEMS[system]
    if event != PLAIN:
        scenario = replace(scenario, faults=failures_of(size.machines, seed, event == OWNERS))
    options: dict[str, Any] = {"processes": size.processes, "speedup": size.speedup, "kill": event == KILLS}
    result = gs.emulate(scenario, scheduler, **options)
    waits = []
    for k in range(SIMULATED_RUNS):
        network = msgspec.structs.replace(scenario.network, jitter=JITTER * (1 + k / SIMULATED_RUNS) / 2)
        simulated = simulate(replace(result.scenario, network=network), scheduler, record=True)
        waits.append(measurements(simulated)[WAITING])
    return FailingRun(result, waits)


@dataclass(frozen=True)
class EmulationPairs:
    """All measured runs.

    Parameters
    ----------
    pairs
        System -> the simulated and the emulated run of each seed.
    failing
        (system, event) -> the run of each of the first seeds on few machines, of size `failing_size`.
    """

    size: EmulationSize
    pairs: Mapping[str, Sequence[tuple[gs.Result, gs.Result]]]
    failing_size: EmulationSize
    failing: Mapping[tuple[str, str], Sequence[FailingRun]]


def _measure(run: Run) -> EmulationPairs:
    """Simulate and emulate each system, one run at a time, so that runs do not compete for processors."""
    size, failing_size = run.choose(*SIZE), run.choose(*FAILING_SIZE)
    pairs = {system: [run_pair(system, size, seed) for seed in run.seeds] for system in SYSTEMS}
    failing = {
        (system, event): [
            run_failing(system, failing_size, seed, event) for seed in run.seeds[:FAILING_SEEDS]
        ]
        for system, (_, events) in FAILING_SYSTEMS.items()
        for event in events
    }
    return EmulationPairs(size, pairs, failing_size, failing)


#: For each seed, the measurements of the simulated and of the emulated run.
Pairs = Sequence[tuple[Mapping[str, float], Mapping[str, float]]]


def _values(pairs: Sequence[tuple[gs.Result, gs.Result]]) -> Pairs:
    return [(measurements(simulated), measurements(emulated)) for simulated, emulated in pairs]


def columns_of(pairs: Pairs) -> dict[str, tuple[Floats, Floats]]:
    """Return name -> values of the simulated and of the emulated runs, float64[seeds] each.

    The count of a message kind that a run never sends is 0.
    """
    names = dict.fromkeys(name for pair in pairs for values in pair for name in values)
    return {
        name: (
            np.array([simulated.get(name, 0.0) for simulated, _ in pairs]),
            np.array([emulated.get(name, 0.0) for _, emulated in pairs]),
        )
        for name in names
    }


def rows_of_system(system: str, pairs: Pairs) -> Iterator[Row]:
    """Return the rows that compare the runs, one for every kind of message and every time."""
    for name, values in columns_of(pairs).items():
        test = TESTS.get(name, MESSAGE_TEST)
        claim = "" if test is None else TIMES if name in TESTS else MESSAGES
        yield judge(claim, f"{system}: {name}, emulated / simulated", _ratio(*values), test)


def rows_of_failing(system: str, event: str, runs: Sequence[FailingRun]) -> Iterator[Row]:
    """Return a row for the mean waiting time, and one for the completed tasks."""
    name = f"{system} on few machines ({event})"
    ratios = [run.wait / float(np.mean(run.waits)) for run in runs]
    yield judge(WAITS, f"{name}: {WAITING}, emulated / simulated", estimate(ratios), TESTS[WAITING])
    completed = estimate([run.completed for run in runs])
    yield judge(COMPLETION, f"{name}: tasks completed, share of all", completed, ClaimedRange("1", 1.0, 1.0))


def _rows(data: EmulationPairs) -> Iterator[Row]:
    for system, pairs in data.pairs.items():
        yield from rows_of_system(system, _values(pairs))
    for (system, event), runs in data.failing.items():
        yield from rows_of_failing(system, event, runs)


def _ratio(simulation: Floats, emulation: Floats) -> Estimate:
    """Return the mean over seeds of the ratio of emulated to simulated values.

    If neither run of a seed sends a message of the kind, the ratio is 1.  If only the simulated run sends
    none, the denominator is 1.
    """
    return estimate(
        np.where(emulation == simulation, 1.0, emulation / np.where(simulation == 0.0, 1.0, simulation))
    )


#: Fact of an emulation -> its heading.
LATENESS = {
    "late_mean": "timers late, s",
    "late_most": "latest, s",
    "behind_mean": "messages late, simulated s",
    "events_per_second": "events/s",
    "cpu_seconds": "processor s",
}


def _grids(data: EmulationPairs) -> Iterator[ResultGrid]:
    lateness = {}
    for system, pairs in data.pairs.items():
        cells: dict[str, list[Estimate | str]] = {
            name: [estimate(simulated), estimate(emulated), _ratio(simulated, emulated)]
            for name, (simulated, emulated) in columns_of(_values(pairs)).items()
        }
        cells["tasks on the same machine"] = ["", "", estimate([same_places(*pair) for pair in pairs])]
        title = f"{system}: simulated and emulated, and the ratio of the two"
        yield ResultGrid(title, ["", "simulated", "emulated", "ratio"], cells)
        facts = [emulated.provenance["emulation"] for _, emulated in pairs]
        lateness[system] = [estimate([fact[name] for fact in facts]) for name in LATENESS]
    yield ResultGrid("how late things were", ["system", *LATENESS.values()], lateness)
    failing = {}
    for (system, event), runs in data.failing.items():
        spread = [float(np.std(run.waits) / np.mean(run.waits)) for run in runs]
        kills = [run.result.provenance["emulation"]["kills"] for run in runs]
        failing[f"{system}, {event}"] = [
            estimate([float(np.mean(run.waits)) for run in runs]),
            estimate([run.wait for run in runs]),
            estimate(spread),
            estimate(kills),
            estimate([run.result.provenance["emulation"]["late_mean"] for run in runs]),
        ]
    columns = ["system", "simulated", "emulated", "spread of simulated runs", "kills", LATENESS["late_mean"]]
    yield ResultGrid("mean waiting on few machines, s", columns, failing)


def _remarks(data: EmulationPairs) -> tuple[str, ...]:
    size = data.size
    return (
        f"{size.machines} machines in {size.processes} processes, {size.speedup:g} simulated s in a second; "
        f"{size.bags} bags of about {size.machines} tasks, for DGS_ASAP {size.jobs} rigid jobs.",
        "Messages take the time that the network of the scenario says, or longer where the computer is late.",
        "No emulated run is like another one: the intervals are those of seeds and of the computer at once.",
        f"On {data.failing_size.machines} machines in {data.failing_size.processes} processes, at "
        f"{data.failing_size.speedup:g} simulated s in a second, and for the first {FAILING_SEEDS} seeds: "
        f"{data.failing_size.bags} bags, for DGS_ASAP {data.failing_size.jobs} jobs; {FAILURE_COUNT} "
        "failures of single machines, or as many absences.  The simulator has the same failures; its value "
        f"is the mean of {SIMULATED_RUNS} runs with a jitter of at most {JITTER:g} s.",
        "All rows are judged but those of the mean turnaround, of which no claim speaks.  In real time "
        "handlers take time, and no two things happen at the same instant; the page on emulation explains "
        "what differs.",
    )


def _draw(data: EmulationPairs) -> Figure:
    """Draw the ratios of emulated to simulated times."""
    from gridsim import plots

    figure, (axes,) = plots.figure(1)
    columns = {system: columns_of(_values(pairs)) for system, pairs in data.pairs.items()}
    for name in (WAITING, TURNAROUND, STRETCH):
        axes.plot(range(len(columns)), [_ratio(*of[name]).mean for of in columns.values()], "o", label=name)
    axes.set_xticks(range(len(SYSTEMS)), list(SYSTEMS))
    axes.axhline(1.0, linewidth=0.8)
    axes.set_ylabel("emulated / simulated")
    axes.legend()
    return figure


EMULATION = Reproduction(
    name="emulation",
    title="node programs simulated, and run for real in processes that send messages over sockets",
    paper="not published",
    claims=(MESSAGES, TIMES, WAITS, COMPLETION),
    measure=_measure,
    rows=_rows,
    grids=_grids,
    remarks=_remarks,
    figure=_draw,
)
