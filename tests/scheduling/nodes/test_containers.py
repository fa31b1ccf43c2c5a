"""Nodes with containers give equal digests interpreted, compiled, with failures and resumed."""

from __future__ import annotations

import gc
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings

import gridsim as gs
from gridcore.nodes.rows import allocated_bytes
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import FORMS, needs_numba
from tests.scheduling.nodes.test_all_forms import scenarios


class Node(gs.NodeProgram):
    """A node that asks its neighbours for offers, and uses every operation of a container."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.pending = gs.Fifo(application=int, tasks=int)
        self.works = gs.Fifo(work=float)
        self.offers = gs.Heap(work=float, node=int)
        self.known = gs.IntSet()
        self.debts = gs.IntMap(tasks=int, work=float)
        self.asked = gs.IntMap(times=int)
        self.first = gs.IntSet()
        self.first.add(3)
        self.first.add(1)
        self.sum = 0.0

    def on_release(self, view: gs.View, application: Any, tasks: int) -> None:
        self.pending.push(application.number, tasks)
        for node in view.neighbours:
            view.send(node, "ask", application=application.number)
        view.timer(1.0, "place")

    def on_ask(self, view: gs.View, message: Any) -> None:
        self.known.add(message.sender)
        self.asked[message.sender] = self.asked.get(message.sender, 0) + 1
        view.send(message.sender, "offer", application=message.application, work=view.work)

    def on_offer(self, view: gs.View, message: Any) -> None:
        self.offers.push(message.work, message.sender)
        self.works.push(message.work)
        tasks, work = self.debts.get(message.sender, (0, 0.5))
        self.debts[message.sender] = (tasks + 1, work + message.work)

    def on_timer(self, view: gs.View, name: str) -> None:
        while self.pending:
            number, tasks = self.pending.pop()
            if not self.offers or tasks == 1:
                view.enqueue(number, tasks)
                continue
            work, node = self.offers.pop()
            self.sum += work + (self.offers[0][0] if len(self.offers) else 0.0)
            for queued in self.works:
                self.sum += queued
            if len(self.works) > 1:
                self.works[-2] = self.works[0] + 1.0
                del self.works[len(self.works) // 2]
            if len(self.works) > 4:
                self.works.clear()
            for key, (tasks_owed, work_owed) in self.debts.items():
                self.sum += key * tasks_owed - work_owed
            for key, times in self.asked.items():
                self.sum += key.bit_length() * times
            if self.debts:
                self.sum += view.random.choice(self.debts)
            for key in self.known:
                self.sum += 2 * key
            if 3 in self.first:
                self.first.discard(3)
            if self.first:
                self.sum += self.first[-1]
            if node in self.debts and self.debts[node][0] > 2:
                del self.debts[node]
            elif node in self.debts:
                self.sum += self.debts.pop(node)[1]
            self.sum += self.debts.pop(node + 1, (0, 0.25))[1]
            is_ignorant = not self.known
            if not is_ignorant:
                self.sum += view.random.choice(self.known)
            for key in np.array([key for key in self.known]):
                self.sum += key
            if len(self.known) > 3:
                self.sum += self.known.pop()
            view.send(node, "give", application=number, tasks=1)
            self.pending.push(number, tasks - 1)
            self.pending[-1] = (number, self.pending[-1][1])
        view.note("state", sum=self.sum, debts=len(self.debts), known=len(self.known))

    def on_give(self, view: gs.View, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    """The scheduler of these nodes."""

    name = "containers"
    policy = Node
    timers = ("place",)
    messages: ClassVar = {
        "ask": gs.Message(40, application=int),
        "offer": gs.Message(60, application=int, work=float),
        "give": gs.Message(100, moves_tasks=True, application=int, tasks=int),
    }
    tables: ClassVar = {"state": {"sum": float, "debts": int, "known": int}}


@needs_numba
@settings(max_examples=40)
@given(scenario=scenarios())
def test_compiled_containers_have_the_digest_of_interpreted_ones(scenario: gs.Scenario) -> None:
    expected = gs.simulate(scenario, Scheduler(degree=2), events_limit=100_000)
    outcome = gs.simulate(scenario, Scheduler(degree=2), events_limit=100_000, nodes="compiled")
    assert outcome.digest == expected.digest
    assert outcome.tables == expected.tables


class LookupNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.asked, self.debts = gs.IntMap(times=int), gs.IntMap(tasks=int, work=float)


class RowLookupNode(LookupNode):
    def on_start(self, view: Any) -> None:
        self.debts.get(3, None)


class NumberLookupNode(LookupNode):
    def on_start(self, view: Any) -> None:
        self.asked.pop(3, None)


@needs_numba
@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (
            RowLookupNode,
            r"a value of IntMap.get must be a row such as \(0, 0.0\), got None; `key in map` tells",
        ),
        (NumberLookupNode, "a value of IntMap.pop must be a number such as 0, got None; `key in map` tells"),
    ],
)
def test_a_default_that_is_none_cannot_be_compiled(node: Any, reason: str) -> None:
    class LookupScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = node

    with pytest.raises(gs.CompileError, match=f"{node.__name__}.on_start: {reason}"):
        gs.simulate(FAILING, LookupScheduler(), nodes="compiled")


FAILING = gs.Scenario(
    gs.Platform.desktop_grid(nodes=20, seed=1),
    gs.Workload.bags(applications=30, interarrival=20.0, tasks_per_node=1, task_size=65536.0, seed=1),
    faults=gs.Faults.poisson(mean=300.0, seed=1),
    seed=1,
)


@pytest.mark.parametrize("form", FORMS)
def test_a_run_with_containers_continues_from_a_checkpoint(form: str) -> None:
    expected = gs.simulate(FAILING, Scheduler())
    assert len(expected.tables["state"]) > 30
    assert resume_difference(FAILING, Scheduler(), expected, record=False, nodes=form) is None


@pytest.mark.parametrize("form", FORMS)
def test_a_run_returns_the_memory_of_its_containers(form: str) -> None:
    gs.simulate(FAILING, Scheduler(), nodes=form)  # this run compiles the program, which stays in memory
    gc.collect()
    in_use, _ = allocated_bytes()
    gs.simulate(FAILING, Scheduler(), nodes=form)
    gc.collect()
    assert allocated_bytes()[0] == in_use


def scheduler_of(method: Any) -> gs.NodeScheduler:
    """Return a scheduler whose nodes handle a release by `method`."""

    class Program(Node):
        on_release = method

    class OtherScheduler(Scheduler, frozen=True, kw_only=True):
        policy = Program

    return OtherScheduler()


def _replaces(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending = self.works


def _pushes_a_fraction(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending.push(application.number, 1.5)


def _misspells(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending.pushh(1, 2)


def _assigns_a_number(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending[0] = 1


def _deletes_from_a_heap(self: Any, view: Any, application: Any, tasks: int) -> None:
    del self.offers[0]


def _iterates(self: Any, view: Any, application: Any, tasks: int) -> None:
    for row in self.offers:
        self.sum += row[0]


def _counts(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending.push(1)


def _lists(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.sum += len(list(self.pending))


def _sorts(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.sum += sorted(self.offers)[0][0]


@needs_numba
@pytest.mark.parametrize(
    ("method", "message"),
    [
        (_sorts, r"sorted\(self.offers\) .*; write a loop that pops its rows"),
        (
            _lists,
            r"list\(self.pending\) of a container \(Fifo\) .*; write .* \[each for each in self.pending\]",
        ),
        (_replaces, "self.pending is a Fifo: only its contents can be changed"),
        (_assigns_a_number, r"a value of Fifo\[...\] must be UniTuple"),
        (_deletes_from_a_heap, "Heap does not support del of its rows"),
        (_pushes_a_fraction, "Fifo.push must be a whole number"),
        (_misspells, "did you mean push"),
        (_iterates, "a Heap does not support iteration"),
        (_counts, "Fifo.push takes 2 values"),
    ],
)
def test_unsupported_code_is_reported_with_its_line(method: Any, message: str) -> None:
    line = method.__code__.co_firstlineno
    with pytest.raises(gs.CompileError, match=rf"test_containers.py:{line + 1}: .*{message}"):
        gs.simulate(FAILING, scheduler_of(method), nodes="compiled")


def _pops_too_much(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending.pop()


def _removes_too_much(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending.push(1, 2)
    del self.pending[-1]
    self.pending[0] = (1, 2)


def _changes_during_iteration(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.pending.push(1, 2)
    for row in self.pending:
        self.pending.push(row[0], row[1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (_pops_too_much, IndexError, "pop from an empty Fifo"),
        (_removes_too_much, IndexError, "Fifo index out of range"),
        (_changes_during_iteration, RuntimeError, "changed during iteration"),
    ],
)
def test_all_forms_raise_the_same_errors(method: Any, error: Any, message: str, form: str) -> None:
    with pytest.raises(error, match=message):
        gs.simulate(FAILING, scheduler_of(method), nodes=form)
