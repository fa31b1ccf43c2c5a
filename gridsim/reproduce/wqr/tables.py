"""Arora et al., Tables IV to XIII: four tasks on four machines under each of the nine policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Grid, Report, Row, Run, exact
from gridsim.schedulers import WqrFt
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.simulation.simulate import execute as simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "wqr-tables"
TITLE = "the running example of the information-aware policies, cell by cell"
CELLS = (
    "Tables IV to XII: which task each policy gives to which machine, for how long, and whether it is done"
)
FIGURES = "Figures 1 to 4, letter by letter, make these tables"
SUMMARY = "Table XIII: when the last of the completed tasks is completed, and how many there are"
SENTENCES = "the prose of section V: the slowest assignment of each policy"
ANOTHER_0 = "(not in the paper) the prose is true of another machine 0"
CLAIMS = (CELLS, FIGURES, SUMMARY, SENTENCES, ANOTHER_0)
SEEDS = (10, 5)

#: Tables II and III: execution times on a machine of power 1 (Mflop), powers (Mflop/s), faults (s).
SIZES = (200.0, 20.0, 100.0, 160.0)
POWERS = (1.0, 20.0, 10.0, 4.0)
FAULTS = (100.0, 40.0, 160.0, 20.0)
#: A machine 0 for which every sentence of section V is true: its power (Mflop/s), and when it fails (s).
ANOTHER = (2.0, 60.0)


@dataclass(frozen=True)
class Cells:
    """A table: rows of (task, machine, completion time in s, completed), in the order of assignment."""

    rows: tuple[tuple[int, int, float, bool], ...]

    @property
    def finish(self) -> float:
        """FCT of Table XIII: when the last of the completed tasks is completed, s."""
        return max((time for *_, time, done in self.rows if done), default=0.0)

    @property
    def done(self) -> int:
        """Tasks completed without resubmission."""
        return sum(done for *_, done in self.rows)

    @property
    def slowest(self) -> float:
        """Completion time of the slowest assignment, s."""
        return max(time for *_, time, _ in self.rows)

    def __str__(self) -> str:
        rows = (f"T{k}=>Rsc{u} {time:g} {'yes' if done else 'no'}" for k, u, time, done in self.rows)
        return f"{', '.join(rows)}; {self.done} done, FCT {self.finish:g}"


def _cells(text: str) -> Cells:
    """Return the table that a text such as ``"T0>R0 200N ..."`` stands for."""
    rows = []
    for name, time in zip(*[iter(text.split())] * 2, strict=True):
        task, machine = name.split(">")
        rows.append((int(task[1:]), int(machine[1:]), float(time[:-1]), time[-1] == "Y"))
    return Cells(tuple(rows))


#: Policy -> number of its printed table, its cells, and (FCT in s, number of tasks) from Table XIII.
TABLES: dict[str, tuple[str, Cells, tuple[float, int]]] = {
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
#: Policy -> what section V says: its slowest assignment, s, and the words.
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
    """Makes the scenario of the running example, as ``Example()(seed)``.

    Machines that fail recover at once, so that every task is completed in the end.

    Parameters
    ----------
    power, fault
        Power (Mflop/s) and failure time (s) of machine 0.
    """

    power: float = POWERS[0]
    fault: float = FAULTS[0]
    name: ClassVar[str] = "example"

    def __call__(self, seed: int) -> Scenario:
        times = (self.fault, *FAULTS[1:])
        return Scenario(
            Platform.of((self.power, *POWERS[1:])),
            Workload.of_tasks([0.0], [list(SIZES)]),
            seed=seed,
            faults=Faults.of(range(4), times, times),
        )


def policy(name: str, as_printed: bool = False) -> WqrFt:
    """Return the policy as the tables show it, without replicas and checkpoints."""
    order, choice = POLICIES[name]
    return WqrFt(
        task_order=order,
        machine_choice=choice,
        max_replicas=1,
        checkpoint_interval=float("inf"),
        checkpoint_cost=0.0,
        restore_cost=0.0,
        as_printed=as_printed,
    )


def assigned(scenario: Scenario, scheduler: WqrFt) -> Cells:
    """Return the assignments made at time 0, as a table.

    The completion time (CT) is the execution time over the power.  "Completed" is the outcome of the run.
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
    # all begin at one instant, so the order of assignment is the order of the tasks
    sign = {"small": 1, "great": -1, "random": 0}[str(scheduler.task_order)]
    return Cells(tuple(sorted(cells, key=lambda row: (sign * SIZES[row[0]], row[0]))))


def run(how: Run) -> Report:
    """Run the scheduler for all tables, as intended and as printed, and compare with tables and prose."""
    seed = table_iv()
    made = {name: assigned(Example()(seed), policy(name)) for name in TABLES}
    printed = {name: assigned(Example()(seed), policy(name, as_printed=True)) for name in TABLES}
    another = {name: assigned(Example(*ANOTHER)(1), policy(name)) for name in PROSE}
    rows = _claims(made, printed, another)
    draws = how.replicate(Example(), {name: policy(name) for name in TABLES}, ("undisturbed",))
    done = draws.mean("WQR-FT", "undisturbed")
    rows.append(
        Row(CELLS, "tasks that WQR-FT completes, over draws", "2", done, "tasks", "", "one draw is printed")
    )
    equal = sum(made[name] == cells for name, (_, cells, _) in TABLES.items())
    letter = sum(printed[name] == cells for name, (_, cells, _) in TABLES.items())
    remarks = (
        f"{equal} of {len(TABLES)} policies have the printed tables; {letter} with the machine selections of "
        "Figures 1 to 4 run letter by letter (`as_printed`).",
        *_REMARKS,
    )
    data = {"made": made, "printed": printed, "another": another}
    return Report(tuple(how.seeds), how.quick, rows, _grids(made, printed), remarks, data)


_REMARKS = (
    "As printed, the search for the best machine begins with machine 0 even if it is not free, and only a "
    "better one takes its place: AvailInfo gives T3 (Table IX) and T2 (Table X) to machine 0, which is busy, "
    "so that they wait; and AllInfo has no fallback on CpuInfo, so that T3 gets machine 0 in place of 3 "
    "(Table XI).  Table XII comes out by accident: machine 0 is where the search begins.",
    "The prose of section V belongs to another example: six of its eight sentences contradict the tables, "
    "and all eight are true if machine 0 has a power of 2 and fails between 50 s and 80 s (here "
    f"{ANOTHER[1]:g} s).",
    "WQR-FT chooses at random.  Table IV is one of 24 draws; it is found by looking for the seed that draws "
    "it.",
    "The policies run as they do in every other scenario, without replicas and checkpoints; the tables show "
    "what is assigned at time 0, before anything fails and is done again.",
    "A task that ends at the instant at which its machine fails is completed (CT <= fault): T2 on machine 0, "
    "in Tables IX and XII, needs that.",
)


@cache
def table_iv() -> int:
    """Return the first seed with which WQR-FT draws what is printed; 1 if there is none below 1000."""
    wanted, scheduler = TABLES["WQR-FT"][1], policy("WQR-FT")
    return next((seed for seed in range(1, 1000) if assigned(Example()(seed), scheduler) == wanted), 1)


def _claims(
    made: Mapping[str, Cells], printed: Mapping[str, Cells], another: Mapping[str, Cells]
) -> list[Row]:
    rows = []
    for name, (number, wanted, (finish, done)) in TABLES.items():
        for claim, said, found in (
            (CELLS, name, made[name]),
            (FIGURES, f"{name}, as printed", printed[name]),
        ):
            same = found == wanted
            rows.append(exact(claim, f"Table {number}, {said}", str(wanted), same, f"here {found}"))
        summary = (made[name].finish, made[name].done) == (finish, done)
        here = f"here {made[name].finish:g} s, {made[name].done} tasks"
        rows.append(exact(SUMMARY, f"Table XIII, {name}", f"{finish:g} s, {done} tasks", summary, here))
    for name, (slowest, words) in PROSE.items():
        for claim, said, cells in (
            (SENTENCES, "prose", made),
            (ANOTHER_0, "prose, another machine 0", another),
        ):
            number = TABLES[name][0]
            printed_as = f"; Table {number} itself has {TABLES[name][1].slowest:g} s" if cells is made else ""
            why = f'"{words}": the slowest takes {_slowest(name, cells[name]):g} s{printed_as}'
            rows.append(
                exact(claim, f"{said}: {name}", f"{slowest:g} s", _slowest(name, cells[name]) == slowest, why)
            )
    return rows


def _slowest(name: str, cells: Cells) -> float:
    """Return the slowest time as the prose means it: for SmallET-AvailInfo, of the completed tasks only."""
    return cells.finish if name == "SmallET-AvailInfo" else cells.slowest


def _grids(made: Mapping[str, Cells], printed: Mapping[str, Cells]) -> list[Grid]:
    grids = []
    for name, (number, wanted, _) in TABLES.items():
        rows = {}
        for place, cell in enumerate(wanted.rows):
            columns = [made[name], printed[name]]
            rows[_row(cell)] = [_row(c.rows[place]) if place < len(c.rows) else "waits" for c in columns]
        grids.append(Grid(f"Table {number}: {name}", ["paper", "here", "as printed"], rows))
    summary = {
        name: [f"{wanted[0]:g} s, {wanted[1]}"]
        + [f"{c[name].finish:g} s, {c[name].done}" for c in (made, printed)]
        for name, (_, _, wanted) in TABLES.items()
    }
    grids.append(Grid("Table XIII: FCT, tasks completed", ["policy", "paper", "here", "as printed"], summary))
    return grids


def _row(cell: tuple[int, int, float, bool]) -> str:
    task, machine, time, done = cell
    return f"T{task} => Rsc{machine}, {time:g} s, {'yes' if done else 'no'}"


def figure(report: Report) -> Figure:
    """Draw Table XIII: tasks completed over FCT, as printed in the paper and here."""
    from gridsim import plots

    made, (axes,) = plots.figure(1)
    for name, (_, _, (finish, done)) in TABLES.items():
        cells = report.data["made"][name]
        axes.plot([finish], [done], "o", markersize=12, fillstyle="none", color="black")
        axes.plot([cells.finish], [cells.done], "x", label=name)
    axes.set_xlabel("final completion time (s)")
    axes.set_ylabel("tasks completed; circles: paper")
    plots.legend(axes)
    return made
