"""Decisions of nodes: recorded values, true values, and runs that do not depend on them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.testing.resuming import resume_difference

EQUAL = gs.Network(latency=0.5, bandwidth=math.inf, interfaces="equal")


class Node(gs.NodeProgram):
    """A node that reports its queue to its neighbour every second, and passes its tasks on if the last report
    of the neighbour states less work."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.heard, self.at = math.nan, math.nan

    def on_start(self, view: Any) -> None:
        view.timer(1.0, "tell")

    def on_timer(self, view: Any, name: str) -> None:
        if view.now < 20:
            view.send(view.neighbours[0], "queue", work=view.work, at=view.now)
            view.timer(1.0, "tell")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        (other,) = view.neighbours
        gives = self.heard < view.work
        action = "give" if gives else self.parameters.word
        view.decide(
            action, application.number, node=other, tasks=tasks, among=2, saw=self.heard, limit=view.work,
            age=view.now - self.at,
        )  # fmt: skip
        if gives:
            view.send(other, "share", application=application.number, tasks=tasks)
        else:
            view.enqueue(application.number, tasks)

    def on_message(self, view: Any, message: Any) -> None:
        if message.kind == "share":
            view.decide("take", message.application + self.parameters.wrong, tasks=message.tasks)
            view.enqueue(message.application, message.tasks)
        else:
            self.heard, self.at = message.work, message.at


class ReportScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "telling"
    policy = Node
    timers: ClassVar[tuple[str, ...]] = ("tell",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "queue": gs.Message(100, work=float, at=float),
        "share": gs.Message(100, moves_tasks=True, application=int, tasks=int),
    }
    decision_words: ClassVar[dict[str, tuple[str, str, str]]] = {
        "give": ("gives {tasks} tasks to machine {machine}", "a queue of", "s"),
        "keep": ("keeps {tasks} tasks", "a queue of", "s"),
        "take": ("takes {tasks} tasks", "", ""),
    }
    truths: ClassVar[dict[str, Any]] = {
        "give": lambda truth, node, machine: truth.work(machine),
        "keep": lambda truth, node, machine: (truth.work(machine), truth.now - truth.memory(node).at),
    }
    word: str = "keep"
    wrong: int = 0


def scenario(release: list[float], **further: Any) -> gs.Scenario:
    bags = gs.Workload.of(release, 1, 4000.0, [0] * len(release), origin=0.0)
    return gs.Scenario(gs.Platform.of([1000.0, 1000.0]), bags, EQUAL, seed=1, **further)


def test_decisions_have_the_values_of_nodes_and_the_true_ones() -> None:
    case = scenario([0.0, 1.75, 1.8, 2.25])
    result = gs.simulate(case, ReportScheduler(), record="decisions")
    names = "time", "action", "decider", "machine", "tasks", "among", "saw", "limit", "true", "age"
    rows = [tuple(round(v, 6) if isinstance(v, float) else v for v in map(row.get, names))
            for row in result.tables["decisions"].rows()]  # fmt: skip
    # machine 1 reported an empty queue at 1 s; at 2.25 s it has 4 s of work
    assert [row[:6] for row in rows[1:]] == [
        (1.75, "give", 0, 1, 1, 2), (1.8, "give", 0, 1, 1, 2), (2.25, "take", 1, -1, 1, -1),
        (2.25, "give", 0, 1, 1, 2), (2.3, "take", 1, -1, 1, -1), (2.75, "take", 1, -1, 1, -1),
    ]  # fmt: skip
    assert [row[6:] for row in rows if row[1] == "give"] == [
        (0.0, 2.25, 0.0, 0.75), (0.0, 2.2, 0.0, 0.8), (0.0, 1.75, 4.0, 1.25)
    ]  # fmt: skip
    assert rows[0][1] == "keep" and math.isnan(rows[0][6]) and rows[0][8] == 0.0
    text = " ".join(str(result.why(3)).split())
    assert "t = 2.250000 s: machine 0 gives 1 task to machine 1; among 2" in text
    assert "saw a queue of 0 s, threshold 1.75" in text and "1.25 s old; true value 4" in text
    assert result.digest == gs.simulate(case, ReportScheduler()).digest
    few = gs.simulate(case, ReportScheduler(), record="decisions", decisions_limit=2)
    assert few.digest == result.digest and few.why(0).dropped == len(rows) - 2
    # the same with failures, and after the run was resumed from a checkpoint
    case = scenario([0.0, 1.75, 1.8, 2.25], faults=gs.Faults.of([1], [3.0], [4.0]))
    result = gs.simulate(case, ReportScheduler(), record="decisions")
    assert result.digest == gs.simulate(case, ReportScheduler()).digest
    assert resume_difference(case, ReportScheduler(), result, record="decisions") is None


def test_a_true_value_cannot_change_the_node_that_it_reads() -> None:
    """Assignments, values that the function gets, and methods of the node change nothing."""

    class TotalsNode(Node):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters)
            self.array, self.table, self.list = np.zeros(2), {0: [1.0]}, [1.0]
            self.queue = gs.Fifo(value=int)
            self.queue.push(3)

        @property
        def twice(self) -> float:
            return 2 * self.list[0]

        def forget(self) -> None:
            self.at = -1.0

    def truth_scheduler(read: Any) -> gs.NodeScheduler:
        class TruthScheduler(ReportScheduler, frozen=True, kw_only=True):
            policy = TotalsNode
            truths: ClassVar[dict[str, Any]] = {"keep": lambda truth, node, _: read(truth.memory(node))}

        return TruthScheduler()

    def reads(node: Any) -> float:
        assert isinstance(node, TotalsNode) and node.table == {0: (1.0,)} and node.list == (1.0,)
        return float(node.twice + node.array.sum())

    def pops(node: Any) -> float:
        return float(node.queue.pop())  # this changes only a copy of the queue

    case = scenario([0.0, 1.75])
    outcome = gs.simulate(case, truth_scheduler(reads), record="decisions")
    assert outcome.tables["decisions"]["true"][0] == 2.0
    outcome = gs.simulate(scenario([0.0, 0.5, 1.0]), truth_scheduler(pops), record="decisions")
    assert [row["true"] for row in outcome.tables["decisions"].rows() if row["action"] == "keep"] == [3.0] * 3
    for write in (
        lambda node: setattr(node, "at", 1.0),
        lambda node: node.forget(),
        lambda node: node.array.__setitem__(0, 1.0),
        lambda node: node.table.__setitem__(0, 1.0),
        lambda node: node.table[0].append(1.0),
        lambda node: node.list.append(1.0),
    ):
        with pytest.raises((AttributeError, TypeError, ValueError, gs.SchedulerError)):
            gs.simulate(case, truth_scheduler(write), record="decisions")


def test_invalid_decisions_are_rejected() -> None:
    with pytest.raises(
        gs.SchedulerError, match="node 0: action of View.decide .*, got 'hold'; known: give, keep"
    ):
        gs.simulate(scenario([0.0]), ReportScheduler(word="hold"))
    case = scenario([0.0, 2.0])
    with pytest.raises(gs.SchedulerError, match="node 1 does not know application 6"):
        gs.simulate(case, ReportScheduler(wrong=5))  # the error does not depend on recording


def test_values_of_another_type_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def release(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.decide("keep", application.number, tasks=1.5)

    monkeypatch.setattr(Node, "on_release", release)
    with pytest.raises(gs.SchedulerError, match="node 0: tasks"):
        gs.simulate(scenario([0.0]), ReportScheduler(), record="decisions")


SEARCHES = gs.ExpandingRing(), gs.RandomWalkSearch(), gs.Advertisement(), gs.Rendezvous()


def test_decisions_of_a_search_of_two_machines_are_recorded() -> None:
    bags = gs.Workload.of([10.0], 3, 100_000.0, [0], origin=0.0)
    pair = gs.Scenario(gs.Platform.of([1000.0, 1000.0]), bags, EQUAL, seed=1)
    result = gs.simulate(pair, gs.ExpandingRing(degree=1, hop_time=1.0, max_hops=1), record="decisions")
    names = "time", "action", "machine", "saw", "limit", "true", "age"
    rows = [tuple(row[name] for name in names) for row in result.why(0).decisions.rows()]
    assert rows[0][:4] == (10.0, "ran", 0, 3.0) and rows[0][6] == 0.0
    assert rows[1][:2] == (10.0, "asked") and rows[1][3:6] == (0.0, 2.0, 1.0)
    # the machine offered itself at 10.5 s
    assert rows[2][:4] == (11.0, "sent", 1, 1.0) and rows[2][5:] == (1.0, 0.5)
    assert rows[3][:2] == (12.0, "paused") and rows[3][3:6] == (1.0, 2.0, 1.0)


def test_the_true_state_of_a_failed_machine_is_not_free() -> None:
    """Machine 2 has been down since 1 s."""
    bags = gs.Workload.of([10.0], 3, 100_000.0, [0], origin=0.0)
    away = gs.Faults.of([2], [1.0], [math.inf])
    three = gs.Scenario(gs.Platform.of([1000.0] * 3), bags, EQUAL, seed=1, faults=away)
    result = gs.simulate(three, gs.ExpandingRing(degree=2, hop_time=1.0, max_hops=1), record="decisions")
    table = result.why(0).decisions
    assert (table["time"][1], table["action"][1]) == (10.0, "asked")
    assert (table["saw"][1], table["limit"][1], table["true"][1]) == (0.0, 2.0, 1.0)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("scheduler", SEARCHES, ids=lambda each: each.name)
def test_searches_do_not_depend_on_recorded_decisions(scheduler: gs.NodeScheduler, fails: bool) -> None:
    case = gs.Scenario(
        gs.Platform.desktop_grid(nodes=20, seed=1),
        gs.Workload.bags(applications=5, interarrival=60.0, tasks=12.0, task_size=120_000.0, seed=1),
        seed=1,
        faults=gs.Faults.poisson(3600.0, seed=1) if fails else None,
    )
    result = gs.simulate(case, scheduler, record="decisions")
    assert result.digest == gs.simulate(case, scheduler).digest
    table = result.tables["decisions"]
    placed = table["action"]
    assert ((placed == "ran") | (placed == "sent")).sum() >= result.applications["tasks"].sum()
    asks = placed == "asked"
    assert (table["saw"] <= table["true"])[asks].all() and asks.any()
    assert (table["age"] > 0)[placed == "sent"].all()
    if fails:
        assert resume_difference(case, scheduler, result, record="decisions") is None
