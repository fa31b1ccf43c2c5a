"""Kernels of gridcore in compiled nodes: equal results and errors in both forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.dgs.slots import SlotSchedules
from gridcore.fair_tree.summaries import aggregate, lookup, split
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.contract import Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.slots import MachineSlots
from gridsim.testing.resuming import resume_difference
from tests.scheduling.nodes.test_message_core import scenarios

pytest.importorskip("numba", reason="needs the extra jit")

GRID = SummaryGrid.geometric((1e-3, 10.0, 5), (100.0, 1e5, 3), (100.0, 1e4, 2))
SHAPE = GRID.shape
WIDTH = 3


class Tree(gs.NodeProgram):
    """A node of a tree by number: it sums the summaries of its children, and divides tasks among them."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.below = np.zeros((WIDTH, *SHAPE), np.uint32)
        self.sampled_at = np.zeros(WIDTH)

    def on_start(self, view: Any) -> None:
        view.timer(view.random.integers(2), "report")

    def on_timer(self, view: Any, name: str) -> None:
        self.below[0] = view.sample(self.parameters.grid)
        self.sampled_at[0] = view.now
        if view.node > 0:
            total = aggregate(self.below)
            view.send(
                (view.node - 1) // 2, "report",
                cells=total.reshape(-1), oldest=self.sampled_at.min(), child=1 + (view.node + 1) % 2,
            )  # fmt: skip
        view.timer(2.0, "report")

    def on_report(self, view: Any, message: Any) -> None:
        self.below[message.child] = message.cells.reshape(SHAPE)
        self.sampled_at[message.child] = message.oldest

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        ahead = view.sample(GRID, 10**9 * int(view.now + 2.0))
        view.note("room", first=int(ahead[0, 0, 0]), last=int(ahead[-1, -1, -1]))
        self.place(view, application.number, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        self.place(view, message.application, message.tasks)

    def place(self, view: Any, number: int, tasks: int) -> None:
        application = view.application(number)
        room = np.zeros(WIDTH, np.int64)
        for k in range(WIDTH):
            room[k] = lookup(
                self.below[k], GRID, self.parameters.stretch, application.size, application.task_size,
                release=view.now, cell_release=self.sampled_at[k], speed=view.speed, leaves=2,
                longest_task=1000.0,
            )  # fmt: skip
        if room.sum() < tasks:
            room[0] += tasks
        shares = split(room, tasks)
        view.note("split", one=shares[0], two=shares[1], three=shares[2])
        kept = shares[0]
        for k in range(1, WIDTH):
            child = 2 * view.node + k
            if child >= view.machines:
                kept += shares[k]
            elif shares[k] > 0:
                view.send(child, "task", application=number, tasks=shares[k])
        if kept > 0:
            view.enqueue(number, kept)


class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "summary-tree"
    policy = Tree
    timers: ClassVar[tuple[str, ...]] = ("report",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "report": gs.Message(500, cells=gs.array(np.uint32, ndim=1), oldest=float, child=int),
        "task": gs.Message(90, moves_tasks=True, application=int, tasks=int),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "room": {"first": int, "last": int},
        "split": {"one": int, "two": int, "three": int},
    }
    stretch: float = 0.05

    @property
    def grid(self) -> SummaryGrid:
        return GRID


@settings(max_examples=20)
@given(scenario=scenarios(), stretch=st.sampled_from([1e-3, 0.05, 5.0]))
def test_compiled_nodes_compute_with_summaries_as_interpreted_ones(
    scenario: gs.Scenario, stretch: float
) -> None:
    scheduler = Scheduler(stretch=stretch)
    wanted = gs.simulate(scenario, scheduler)
    found = gs.simulate(scenario, scheduler, nodes="compiled")
    assert found.digest == wanted.digest
    assert found.tables == wanted.tables


def test_a_tree_of_compiled_nodes_continues_from_checkpoints_and_failures() -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 500.0] * 6),
        gs.Workload.of([0.0, 5.0, 5.5, 20.0], 12, 1000.0, submitter=[0, 1, 5, 0]),
        gs.Network(latency=0.1),
        faults=gs.Faults.of([1, 2, 4], [3.5, 6.0, 9.0], [4.0, 8.0, 12.0]),
        seed=5,
    )
    wanted = gs.simulate(scenario, Scheduler(), record=True)
    assert max(wanted.tables["split"]["two"].tolist()) > 0
    assert resume_difference(scenario, Scheduler(), wanted, nodes="compiled") is None


class Slots(Adapter):
    """Gives each node the slot schedule of its machine."""

    def __init__(self, parameters: Any, run: Run) -> None:
        self.schedules = SlotSchedules(len(run.speeds))
        self.released: list[tuple[int, int, int]] = []
        super().__init__(parameters, run)

    def slots(self, node: int) -> MachineSlots:  # type: ignore[override]
        return MachineSlots(self.schedules, node, lambda: self.core.now, self.note_release)

    def note_release(self, application: int, machine: int, attempt: int) -> None:
        self.released.append((application, machine, attempt))
        self.notes.add(machine, "slots", {"reserved": -1, "start": attempt})


class Rigid(gs.NodeProgram):
    """A node that reserves slots for its tasks, and releases some."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        start, attempt = 0, 0
        while not view.slots.reserve(application.number, attempt, start, 2 + tasks):
            start += 1
        view.note("slots", reserved=1, start=start)
        if view.random.random() < 0.5:
            is_released = view.slots.release(application.number, attempt, start, start + 1)
            view.note("slots", reserved=int(is_released), start=start)
        view.enqueue(application.number, tasks)


class Reserving(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "reserving"
    policy = Rigid
    tables: ClassVar[dict[str, dict[str, type]]] = {"slots": {"reserved": int, "start": int}}

    def start(self, run: Run) -> Policy:
        return Slots(self, run)


def test_compiled_nodes_reserve_and_release_slots() -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of(np.arange(12.0), 3, 1000.0, submitter=[0, 1] * 6),
        gs.Network(),
        seed=2,
    )
    wanted = gs.simulate(scenario, Reserving())
    found = gs.simulate(scenario, Reserving(), nodes="compiled")
    assert {-1, 1} == set(wanted.tables["slots"]["reserved"].tolist())
    assert found.tables == wanted.tables


class Wrong(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.cells, self.counts, self.k = np.zeros(SHAPE, np.uint32), np.full(3, -1), 0


def scheduler_of(release: Any) -> gs.NodeScheduler:
    class Only(gs.NodeScheduler, frozen=True, kw_only=True):
        name: ClassVar[str] = "only"
        policy = type("Node", (Wrong,), {"on_release": release})

    return Only()


SMALL = gs.Scenario(gs.Platform.of([1000.0] * 3), gs.Workload.of([1.0], 1, 1000.0), gs.Network(), seed=1)


def _past(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.cells[:] = view.sample(GRID, -1)


def _negative(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = split(self.counts, tasks)[0]


def _too_many(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = split(np.zeros(3, np.int64), tasks)[0]


def _stretch(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = lookup(self.cells, GRID, -1.0, 1.0, 1.0, release=0.0, cell_release=0.0)


def _leaves(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = lookup(self.cells, GRID, 1.0, 1.0, 1.0, release=0.0, cell_release=0.0, leaves=tasks - 1)


def _no_slots(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.slots.reserve(application.number, 0, 0, 1)


@pytest.mark.parametrize("release", [_past, _negative, _too_many, _stretch, _leaves, _no_slots])
def test_compiled_calls_of_kernels_raise_the_errors_of_interpreted_ones(release: Callable[..., None]) -> None:
    errors = []
    for form in ("interpreted", "compiled"):
        with pytest.raises((ValueError, AttributeError), match=".") as caught:
            gs.simulate(SMALL, scheduler_of(release), nodes=form)  # type: ignore[arg-type]
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def _any_grid(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.sample(tasks)


def _wide(self: Any, view: Any, application: Any, tasks: int) -> None:
    aggregate(np.zeros((2, 3), np.int64))


def _narrow(self: Any, view: Any, application: Any, tasks: int) -> None:
    split(self.cells[0, 0], tasks)


def _computed(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = int(view.sample(GRID)[0, 0, 0] + 1)


def _extended(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.slots.extend(0, 0, 0, 1)


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (_any_grid, "must be a SummaryGrid of the module or of the parameters, got int"),
        (_wide, "children of aggregate must be a contiguous array of uint32 of at least 2 dimensions"),
        (_narrow, "available of split must be a contiguous array of int, got an array of uint32"),
        (_computed, r"numbers of 32 bits, here uint32; convert them first: int\("),
        (_extended, "compiled nodes do not support view.slots.extend"),
    ],
)
def test_calls_of_kernels_that_cannot_be_compiled_are_named(release: Callable[..., None], text: str) -> None:
    line = inspect.getsourcelines(release)[1] + 1
    with pytest.raises(gs.CompileError, match=rf"test_compiled_kernels.py:{line}: Node.on_release: .*{text}"):
        gs.simulate(SMALL, scheduler_of(release), nodes="compiled")
