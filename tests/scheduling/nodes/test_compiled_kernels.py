"""Kernels of gridcore in compiled nodes: equal results and errors in both forms."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.dgs.slots import SlotSchedules
from gridcore.fair_tree.summaries import aggregate, debit, lookup, lowest_stretch, split
from gridcore.nodes.waiting_times import WaitingTimes, idle_worker
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.slots import MachineSlots
from gridsim.testing.resuming import resume_difference
from tests.scheduling.nodes.test_all_forms import scenarios

numba = pytest.importorskip("numba", reason="needs the extra jit")

GRID = SummaryGrid.geometric((1e-3, 10.0, 5), (100.0, 1e5, 3), (100.0, 1e4, 2))
SHAPE = GRID.shape
WIDTH = 3


class TreeNode(gs.NodeProgram):
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
        capacity = np.zeros(WIDTH, np.int64)
        for k in range(WIDTH):
            capacity[k] = lookup(
                self.below[k], GRID, self.parameters.stretch, application.size, application.task_size,
                release=view.now, cell_release=self.sampled_at[k], speed=view.speed, leaves=2,
                longest_task=1000.0,
            )  # fmt: skip
        if capacity.sum() < tasks:
            capacity[0] += tasks
        shares = split(capacity, tasks)
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
    policy = TreeNode
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
    expected = gs.simulate(scenario, scheduler)
    outcome = gs.simulate(scenario, scheduler, nodes="compiled")
    assert outcome.digest == expected.digest
    assert outcome.tables == expected.tables


def test_a_tree_of_compiled_nodes_continues_from_checkpoints_and_failures() -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 500.0] * 6),
        gs.Workload.of([0.0, 5.0, 5.5, 20.0], 12, 1000.0, submitter=[0, 1, 5, 0]),
        gs.Network(latency=0.1),
        faults=gs.Faults.of([1, 2, 4], [3.5, 6.0, 9.0], [4.0, 8.0, 12.0]),
        seed=5,
    )
    expected = gs.simulate(scenario, Scheduler(), record=True)
    assert max(expected.tables["split"]["two"].tolist()) > 0
    assert resume_difference(scenario, Scheduler(), expected, nodes="compiled") is None


class DebitNode(gs.NodeProgram):
    """A node that debits the summary of its machine, by one dispatch and by all of its dispatches."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.count = 0
        self.tasks, self.ages = np.zeros(4, np.int64), np.zeros(4)
        self.sizes, self.task_sizes, self.stretches = np.ones(4), np.ones(4), np.zeros(4)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        cells = view.sample(GRID)
        k = self.count % 4
        self.tasks[k], self.sizes[k] = tasks, application.size
        self.task_sizes[k], self.stretches[k], self.ages[k] = application.task_size, 0.01 * k, float(k)
        self.count += 1
        once = debit(
            cells, GRID, tasks=tasks, task_size=application.task_size, size=application.size,
            stretch=0.05, leaves=1 + k,
        )  # fmt: skip
        printed = debit(
            cells, self.parameters.grid, tasks=self.tasks, task_size=self.task_sizes, size=self.sizes,
            stretch=self.stretches, leaves=3, rule=self.parameters.rule,
        )  # fmt: skip
        aged = debit(
            once, GRID, tasks=self.tasks, task_size=self.task_sizes, size=self.sizes,
            stretch=self.stretches, leaves=3, age=self.ages, rule="subtree",
        )  # fmt: skip
        totals = np.zeros(SHAPE[0], np.int64)
        for i in range(SHAPE[0]):
            totals[i] = int(aged[i, -1, 0])
        lowest = lowest_stretch(totals, 5 << 2 * self.count)
        view.note(
            "cells", once=weight(once), printed=weight(printed), aged=weight(aged),
            lowest=-1 if lowest is None else int(lowest),
        )  # fmt: skip
        view.enqueue(application.number, tasks)


@numba.njit  # type: ignore[untyped-decorator]
def weight(cells: Any) -> int:
    total = 0
    for k in range(cells.size):
        total = (31 * total + int(cells.reshape(-1)[k])) % 1_000_003
    return total


class DebitScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "debits"
    policy = DebitNode
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "cells": {"once": int, "printed": int, "aged": int, "lowest": int}
    }
    rule: str = "printed"

    @property
    def grid(self) -> SummaryGrid:
        return GRID


@pytest.mark.parametrize("rule", ["printed", "subtree"])
def test_compiled_nodes_debit_summaries_as_interpreted_ones(rule: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 700.0]),
        gs.Workload.of(np.arange(24.0), [1, 2, 4, 7] * 6, [100.0, 1000.0, 500.0] * 8, submitter=[0, 1] * 12),
        seed=2,
    )
    expected = gs.simulate(scenario, DebitScheduler(rule=rule), nodes="interpreted")
    outcome = gs.simulate(scenario, DebitScheduler(rule=rule), nodes="compiled")
    assert outcome.tables == expected.tables
    columns = [expected.tables["cells"][name].tolist() for name in ("once", "printed", "aged", "lowest")]
    assert min(columns[3]) == -1 and len(set(columns[3])) > 2
    assert all(len(set(column)) > 10 for column in columns[:3]) and columns[0] != columns[2]


class SlotEnvironment(Environment):
    """Environment that gives each node the slot schedule of its machine."""

    reason = "slots need no messages"
    STATE = ("schedules",)

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.schedules = SlotSchedules(len(run.speeds))

    def attach(self, adapter: Any) -> None:
        self.adapter = adapter

    def of_node(self, node: int) -> None:
        return None

    def slots(self, node: int) -> MachineSlots:
        return MachineSlots(self.schedules, node, lambda: self.adapter.core.now, self.note_release)

    def note_release(self, application: int, machine: int, attempt: int) -> None:
        self.adapter.notes.add(machine, "slots", {"reserved": -1, "start": attempt})


class ReservationNode(gs.NodeProgram):
    """A node that reserves slots for its tasks, and releases or extends some."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.number = self.first = self.first_start = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        start, attempt = 0, 0
        while not view.slots.reserve(application.number, attempt, start, 2 + tasks):
            start += 1
        view.note("slots", reserved=1, start=start)
        if view.random.random() < 0.5:
            is_released = view.slots.release(application.number, attempt, start, start + 1)
            view.note("slots", reserved=int(is_released), start=start)
        if self.number % 4 == 3:  # the extension displaces some reservations that were made later
            self.extend(view, self.first, self.first_start, start + 2)
        elif self.number % 4 == 0:
            self.first, self.first_start = application.number, start
        self.extend(view, application.number, start + 1, start + 9)  # there is no such reservation
        self.number += 1
        view.enqueue(application.number, tasks)

    def extend(self, view: Any, application: int, start: int, end: int) -> None:
        released = view.slots.extend(application, 0, start, end)
        if released is None:
            view.note("slots", reserved=-2, start=start)
            return
        view.note("slots", reserved=-3, start=len(released))
        for other, attempt in released:
            view.note("slots", reserved=other, start=attempt)


class ReservationScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "reserving"
    policy = ReservationNode
    tables: ClassVar[dict[str, dict[str, type]]] = {"slots": {"reserved": int, "start": int}}
    environment = SlotEnvironment


def test_compiled_nodes_reserve_extend_and_release_slots() -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of(np.arange(40.0), 3, 1000.0, submitter=[0, 1] * 20),
        gs.Network(),
        seed=2,
    )
    expected = gs.simulate(scenario, ReservationScheduler())
    outcome = gs.simulate(scenario, ReservationScheduler(), nodes="compiled")
    rows = list(
        zip(*(expected.tables["slots"][name].tolist() for name in ("reserved", "start")), strict=True)
    )
    assert {-1, -2, -3, 1} <= {reserved for reserved, _ in rows}
    assert max(start for reserved, start in rows if reserved == -3) > 1
    assert outcome.tables == expected.tables


class WrongCallNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.cells, self.counts, self.k = np.zeros(SHAPE, np.uint32), np.full(3, -1), 0
        self.records = WaitingTimes(0.5)


def scheduler_of(release: Any) -> gs.NodeScheduler:
    class WrongCallScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        name: ClassVar[str] = "only"
        policy = type("Node", (WrongCallNode,), {"on_release": release})

    return WrongCallScheduler()


SMALL = gs.Scenario(gs.Platform.of([1000.0] * 3), gs.Workload.of([1.0], 1, 1000.0), gs.Network(), seed=1)


def _samples_past_instant(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.cells[:] = view.sample(GRID, -1)


def _splits_negative_counts(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = split(self.counts, tasks)[0]


def _splits_too_many(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = split(np.zeros(3, np.int64), tasks)[0]


def _stretch(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = lookup(self.cells, GRID, -1.0, 1.0, 1.0, release=0.0, cell_release=0.0)


def _leaves(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = lookup(self.cells, GRID, 1.0, 1.0, 1.0, release=0.0, cell_release=0.0, leaves=tasks - 1)


def _tasks(self: Any, view: Any, application: Any, tasks: int) -> None:
    debit(self.cells, GRID, tasks=-tasks, task_size=1.0, size=1.0, stretch=1.0, leaves=1)


def _lengths(self: Any, view: Any, application: Any, tasks: int) -> None:
    two = np.ones(2)
    debit(self.cells, GRID, tasks=self.counts + 2, task_size=two, size=two, stretch=two, leaves=1)


def _no_leaves(self: Any, view: Any, application: Any, tasks: int) -> None:
    debit(self.cells, GRID, tasks=tasks, task_size=1.0, size=1.0, stretch=1.0, leaves=0)


def _passes_falling_totals(self: Any, view: Any, application: Any, tasks: int) -> None:
    totals = self.counts + 3
    totals[1] = 1
    lowest_stretch(totals, tasks)


def _passes_negative_totals(self: Any, view: Any, application: Any, tasks: int) -> None:
    lowest_stretch(self.counts, tasks)


def _no_extension(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.slots.extend(application.number, 0, 0, 1)


def _no_slots(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.slots.reserve(application.number, 0, 0, 1)


def _no_worker(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.open(2)
    self.records.end(2, view.now)


def _begins_at_infinity(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.open(2)
    self.records.begin(1, 1.0, math.inf)


def _short(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.open(65)
    self.records.busy(self.counts[:1])


def _no_index(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = idle_worker(self.counts, -tasks)


@pytest.mark.parametrize(
    "release",
    [
        _samples_past_instant, _splits_negative_counts, _splits_too_many,
        _stretch, _leaves, _no_slots, _no_extension, _tasks, _lengths,
        _no_leaves, _passes_falling_totals, _passes_negative_totals,
        _no_worker, _begins_at_infinity, _short, _no_index,
    ],
)  # fmt: skip
def test_compiled_calls_of_kernels_raise_the_errors_of_interpreted_ones(release: Callable[..., None]) -> None:
    errors = []
    for form in ("interpreted", "compiled"):
        with pytest.raises((ValueError, AttributeError), match=".") as excinfo:
            gs.simulate(SMALL, scheduler_of(release), nodes=form)  # type: ignore[arg-type]
        errors.append((excinfo.type, str(excinfo.value)))
    assert errors[0] == errors[1]


def _samples_without_grid(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.sample(tasks)


def _wide(self: Any, view: Any, application: Any, tasks: int) -> None:
    aggregate(np.zeros((2, 3), np.int64))


def _splits_one_row(self: Any, view: Any, application: Any, tasks: int) -> None:
    split(self.cells[0, 0], tasks)


def _computes_grid(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = int(view.sample(GRID)[0, 0, 0] + 1)


def _debits_twice(self: Any, view: Any, application: Any, tasks: int) -> None:
    debit(self.cells, GRID, tasks=self.counts, task_size=self.counts, size=1.0, stretch=1.0, leaves=1)


def _sets_rule(self: Any, view: Any, application: Any, tasks: int) -> None:
    debit(self.cells, GRID, tasks=1, task_size=1.0, size=1.0, stretch=1.0, leaves=1, rule="paper")


def _extends(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.slots.extend(0, 0, 0.5, 1)


def _opens_by_keyword(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.open(workers=2)


def _opens_fraction(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.open(2.5)


def _floats(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.busy(np.zeros(1))


def _copies(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.copy()


def _misspells(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.records.forgett(1, 1.0)


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (_opens_by_keyword, "WaitingTimes.open takes 1 positional arguments, got 0 and 1 by name"),
        (_opens_fraction, "argument 1 of WaitingTimes.open must be a whole number, got a fraction"),
        (_floats, "argument 1 of WaitingTimes.busy must be a contiguous array of int, got an array of float"),
        (_copies, "compiled nodes do not support WaitingTimes.copy"),
        (_misspells, "there is no WaitingTimes.forgett; did you mean forget"),
        (_samples_without_grid, "must be a SummaryGrid of the module or of the parameters, got int"),
        (_wide, "children of aggregate must be a contiguous array of uint32 of at least 2 dimensions"),
        (_splits_one_row, "available of split must be a contiguous array of int, got an array of uint32"),
        (_computes_grid, r"numbers of 32 bits, here uint32; convert them first: int\("),
        (_extends, "start of view.slots.extend must be a whole number, got a fraction"),
        (_debits_twice, "task_size of debit must be a contiguous array of float, got an array of int"),
        (_sets_rule, r"rule of debit must be one of the literals \('subtree', 'printed'\), got paper"),
    ],
)
def test_calls_of_kernels_that_cannot_be_compiled_are_reported(
    release: Callable[..., None], text: str
) -> None:
    line = inspect.getsourcelines(release)[1] + 1
    with pytest.raises(gs.CompileError, match=rf"test_compiled_kernels.py:{line}: Node.on_release: .*{text}"):
        gs.simulate(SMALL, scheduler_of(release), nodes="compiled")
