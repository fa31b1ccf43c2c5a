"""Arora et al., Tables IV to XIII: four tasks on four machines under each of the nine policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import Reproduction, ResultGrid, Run
from gridsim.reproduce.verdicts import Row, exact
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.simulation.simulate import execute as simulate
from gridsim.studies.replicate_result import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = (
    "Tables IV to XII: which task each policy gives to which machine, for how long, and whether it is done"
)
FIGURES = "Figures 1 to 4, letter by letter, make these tables"
SUMMARY = "Table XIII: when the last of the completed tasks is completed, and how many there are"
SENTENCES = "the prose of section V: the slowest assignment of each policy"
OTHER_MACHINE_0 = "(not in the paper) the prose is true of another machine 0"
#: Tables II and III: execution times on a machine of power 1 (Mflop), powers (Mflop/s), faults (s).
SIZES = (200.0, 20.0, 100.0, 160.0)
POWERS = (1.0, 20.0, 10.0, 4.0)
FAULTS = (100.0, 40.0, 160.0, 20.0)
#: Power (Mflop/s) and failure time (s) of a machine 0 with which every sentence of section V is true.
MACHINE_0 = (2.0, 60.0)


@dataclass(frozen=True)
class Assignments:
    """A table: rows of (task, machine, completion time in s, completed), in the order of assignment."""

    rows: tuple[tuple[int, int, float, bool], ...]

    @property
    def finish(self) -> float:
        """FCT of Table XIII: the completion time of the last completed task, s."""
        return max((time for *_, time, done in self.rows if done), default=0.0)

    @property
    def completed(self) -> int:
        """Number of tasks completed without resubmission."""
        return sum(done for *_, done in self.rows)

    @property
    def slowest(self) -> float:
        """Completion time of the slowest assignment, s."""
        return max(time for *_, time, _ in self.rows)

    def __str__(self) -> str:
        rows = (f"T{k}=>Rsc{u} {time:g} {'yes' if done else 'no'}" for k, u, time, done in self.rows)
        return f"{', '.join(rows)}; {self.completed} done, FCT {self.finish:g}"


def _cells(text: str) -> Assignments:
    """Parse a text such as ``"T0>R0 200N ..."`` into its table."""
    rows = []
    for name, time in zip(*[iter(text.split())] * 2, strict=True):
        task, machine = name.split(">")
        rows.append((int(task[1:]), int(machine[1:]), float(time[:-1]), time[-1] == "Y"))
    return Assignments(tuple(rows))


#: Policy -> number of its table in the paper, its cells, and (FCT in s, number of tasks) from Table XIII.
TABLES: dict[str, tuple[str, Assignments, tuple[float, int]]] = {
    "WQR-FT": ("IV", _cells("T0>R0 200N T1>R1 1Y T2>R2 10Y T3>R3 40N"), (10, 2)),
    "SmallET-NoInfo": ("V", _cells("T1>R0 20Y T2>R1 5Y T3>R2 16Y T0>R3 50N"), (20, 3)),
    "GreatET-NoInfo": ("VI", _cells("T0>R0 200N T3>R1 8Y T2>R2 10Y T1>R3 5Y"), (10, 3)),
    "SmallET-CpuInfo": ("VII", _cells("T1>R1 1Y T2>R2 10Y T3>R3 40N T0>R0 200N"), (10, 2)),
    "GreatET-CpuInfo": ("VIII", _cells("T0>R1 10Y T3>R2 16Y T2>R3 25N T1>R0 20Y"), (20, 3)),
    "SmallET-AvailInfo": ("IX", _cells("T1>R2 2Y T2>R0 100Y T3>R1 8Y T0>R3 50N"), (100, 3)),
    "GreatET-AvailInfo": ("X", _cells("T0>R2 20Y T3>R0 160N T2>R1 5Y T1>R3 5Y"), (20, 3)),
    "SmallET-AllInfo": ("XI", _cells("T1>R1 1Y T2>R2 10Y T3>R3 40N T0>R0 200N"), (10, 2)),
    "GreatET-AllInfo": ("XII", _cells("T0>R1 10Y T3>R2 16Y T2>R0 100Y T1>R3 5Y"), (100, 4)),
}
#: Policy -> statement of section V: the time of its slowest assignment, s, and the sentence.
PROSE: dict[str, tuple[float, str]] = {
    "SmallET-NoInfo": (50, "the greatest completion time is equal to 50 seconds (T0 => Rsc3)"),
    "GreatET-NoInfo": (100, "the greatest completion time is equal to 100 (T0 => Rsc0)"),
    "SmallET-CpuInfo": (100, "the slowest execution time is equals to 100 (T0 => Rsc0)"),
    "GreatET-CpuInfo": (25, "the slowest completion time is just 25 seconds (T2 => Rsc3)"),
    "SmallET-AvailInfo": (50, "able to complete three tasks within 50 seconds (T2 => Rsc0)"),
    "GreatET-AvailInfo": (80, "the slowest execution time is 80 seconds (T3 => Rsc0)"),
    "SmallET-AllInfo": (100, "the slowest execution time is 100 second (T0 => Rsc0)"),
    "GreatET-AllInfo": (50, "the slowest execution time is 50 seconds (T2 => Rsc0)"),
}


@dataclass(frozen=True)
class Example:
    """Factory of the scenario of the running example: ``Example()(seed)``.

    Machines that fail recover at once, so every task is eventually completed.

    Parameters
    ----------
    power, fault
        Power (Mflop/s) and failure time (s) of machine 0.
    """

    power: float = POWERS[0]
    fault: float = FAULTS[0]
    name: ClassVar[str] = "example"

    def __call__(self, seed: int) -> gs.Scenario:
        times = (self.fault, *FAULTS[1:])
        return gs.Scenario(
            gs.Platform.of((self.power, *POWERS[1:])),
            gs.Workload.of_tasks([0.0], [list(SIZES)]),
            seed=seed,
            faults=gs.Faults.of(range(4), times, times),
        )


def policy(name: str, as_printed: bool = False) -> gs.WqrFt:
    """Return the policy of a table, without replicas and checkpoints."""
    order, choice = POLICIES[name]
    return gs.WqrFt(
        task_order=order,
        machine_choice=choice,
        max_replicas=1,
        checkpoint_interval=float("inf"),
        checkpoint_cost=0.0,
        restore_cost=0.0,
        as_printed=as_printed,
    )


def assignments_of(scenario: gs.Scenario, scheduler: gs.WqrFt) -> Assignments:
    """Return the assignments at time 0, as a table.

    The completion time (CT) is the execution time over the power.  "Completed" is taken from the run.
    """
    result = simulate(scenario, scheduler, record=True)
    rows, speeds = result.tables["schedule"], scenario.platform.speeds
    first = np.flatnonzero(rows["start"] == 0.0)
    cells = [
        (int(k), int(u), SIZES[int(k)] / float(speeds[int(u)]), bool(done))
        for k, u, done in zip(
            *(rows[n][first].tolist() for n in ("task", "machine", "completed")), strict=True
        )
    ]
    # all tasks start at the same time, so they are assigned in the order of the tasks
    sign = {"small": 1, "great": -1, "random": 0}[str(scheduler.task_order)]
    return Assignments(tuple(sorted(cells, key=lambda row: (sign * SIZES[row[0]], row[0]))))


def time_in_prose(name: str, cells: Assignments) -> float:
    """Return the slowest time in the sense of the prose: for SmallET-AvailInfo, of completed tasks only."""
    return cells.finish if name == "SmallET-AvailInfo" else cells.slowest


@cache
def table_iv() -> int:
    """Return the first seed for which WQR-FT makes the published draw; 1 if there is none below 1000."""
    printed, scheduler = TABLES["WQR-FT"][1], policy("WQR-FT")
    seeds = (seed for seed in range(1, 1000) if assignments_of(Example()(seed), scheduler) == printed)
    return next(seeds, 1)


@dataclass(frozen=True)
class PolicyTables:
    """Policy -> assignments, as intended, as published, and with another machine 0; and draws of WQR-FT."""

    intended_tables: Mapping[str, Assignments]
    literal_tables: Mapping[str, Assignments]
    other_machine: Mapping[str, Assignments]
    draws: Replicates


def _measure(run: Run) -> PolicyTables:
    """Run the schedulers of all tables, as intended and as published."""
    scenario, other = Example()(table_iv()), Example(*MACHINE_0)(1)
    return PolicyTables(
        {name: assignments_of(scenario, policy(name)) for name in TABLES},
        {name: assignments_of(scenario, policy(name, as_printed=True)) for name in TABLES},
        {name: assignments_of(other, policy(name)) for name in PROSE},
        run.replicate(Example(), {name: policy(name) for name in TABLES}, ("undisturbed",)),
    )


def _rows(data: PolicyTables) -> Iterator[Row]:
    for name, (number, paper_cells, (finish, count)) in TABLES.items():
        for claim, label, cells in (
            (CELLS, name, data.intended_tables[name]),
            (FIGURES, f"{name}, as printed", data.literal_tables[name]),
        ):
            equal = cells == paper_cells
            yield exact(claim, f"Table {number}, {label}", str(paper_cells), equal, f"here {cells}")
        cells = data.intended_tables[name]
        equal = (cells.finish, cells.completed) == (finish, count)
        reason = f"here {cells.finish:g} s, {cells.completed} tasks"
        yield exact(SUMMARY, f"Table XIII, {name}", f"{finish:g} s, {count} tasks", equal, reason)
    for name, (slowest, words) in PROSE.items():
        number, paper_cells, _ = TABLES[name]
        itself = f"; Table {number} itself has {paper_cells.slowest:g} s"
        for claim, label, cells, more in (
            (SENTENCES, "prose", data.intended_tables[name], itself),
            (OTHER_MACHINE_0, "prose, another machine 0", data.other_machine[name], ""),
        ):
            time = time_in_prose(name, cells)
            reason = f'"{words}": the slowest takes {time:g} s{more}'
            yield exact(claim, f"{label}: {name}", f"{slowest:g} s", time == slowest, reason)
    count_of_draws = data.draws.mean("WQR-FT", "undisturbed")
    reason = "one draw is printed"
    yield Row(CELLS, "tasks that WQR-FT completes, over draws", "2", count_of_draws, "tasks", "", reason)


def _grids(data: PolicyTables) -> Iterator[ResultGrid]:
    columns = (data.intended_tables, data.literal_tables)
    for name, (number, printed, _) in TABLES.items():
        rows = {}
        for place, cell in enumerate(printed.rows):
            here = [cells[name].rows[place : place + 1] for cells in columns]
            rows[_row(cell)] = [_row(cells[0]) if cells else "waits" for cells in here]
        yield ResultGrid(f"Table {number}: {name}", ["paper", "here", "as printed"], rows)
    summary = {
        name: [
            f"{finish:g} s, {count}",
            *(f"{cells[name].finish:g} s, {cells[name].completed}" for cells in columns),
        ]
        for name, (_, _, (finish, count)) in TABLES.items()
    }
    title = "Table XIII: FCT, tasks completed"
    yield ResultGrid(title, ["policy", "paper", "here", "as printed"], summary)


def _row(cell: tuple[int, int, float, bool]) -> str:
    task, machine, time, completed = cell
    return f"T{task} => Rsc{machine}, {time:g} s, {'yes' if completed else 'no'}"


REMARKS = (
    "As printed, the search for the best machine begins with machine 0 even if it is not free, and only a "
    "better one takes its place: AvailInfo gives T3 (Table IX) and T2 (Table X) to machine 0, which is busy, "
    "so that they wait; and AllInfo has no fallback on CpuInfo, so that T3 gets machine 0 in place of 3 "
    "(Table XI).  Table XII comes out by accident: machine 0 is where the search begins.",
    "The prose of section V belongs to another example: six of its eight sentences contradict the tables, "
    "and all eight are true if machine 0 has a power of 2 and fails between 50 s and 80 s (here "
    f"{MACHINE_0[1]:g} s).",
    "WQR-FT chooses at random.  Table IV is one of 24 draws; it is found by looking for the seed that draws "
    "it.",
    "The policies run as they do in every other scenario, without replicas and checkpoints; the tables show "
    "what is assigned at time 0, before anything fails and is done again.",
    "A task that ends at the instant at which its machine fails is completed (CT <= fault): T2 on machine 0, "
    "in Tables IX and XII, needs that.",
)


def _remarks(data: PolicyTables) -> tuple[str, ...]:
    equal, literal = (
        sum(cells[name] == printed for name, (_, printed, _) in TABLES.items())
        for cells in (data.intended_tables, data.literal_tables)
    )
    return (
        f"{equal} of {len(TABLES)} policies have the printed tables; {literal} with the machine selections "
        "of Figures 1 to 4 run letter by letter (`as_printed`).",
        *REMARKS,
    )


def _draw(data: PolicyTables) -> Figure:
    """Draw Table XIII: completed tasks over FCT, as published and as measured."""
    from gridsim import plots

    figure, (axes,) = plots.figure(1)
    for name, (_, _, (finish, count)) in TABLES.items():
        cells = data.intended_tables[name]
        axes.plot([finish], [count], "o", markersize=12, fillstyle="none", color="black")
        axes.plot([cells.finish], [cells.completed], "x", label=name)
    axes.set(xlabel="final completion time (s)", ylabel="tasks completed; circles: paper")
    plots.legend(axes)
    return figure


RUNNING_EXAMPLE = Reproduction(
    name="wqr-tables",
    title="the running example of the information-aware policies, cell by cell",
    paper="Arora et al., Tables IV to XIII",
    claims=(CELLS, FIGURES, SUMMARY, SENTENCES, OTHER_MACHINE_0),
    measure=_measure,
    rows=_rows,
    grids=_grids,
    remarks=_remarks,
    figure=_draw,
)
