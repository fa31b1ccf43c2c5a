"""`View.take`, by which a node withdraws waiting tasks from its queue."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing.order import promised_order_violation
from gridsim.validation.results import validate_result


class Taker(gs.NodeProgram):
    """A node that enqueues its submitted tasks; each test defines its action at a timer and gets its log."""

    def say(self, view: Any, what: str, *more: Any) -> None:
        self.parameters.told.append((view.now, view.node, what, *more))

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        if view.now == 0:
            view.timer(self.parameters.at, "act")

    def on_timer(self, view: Any, name: str) -> None:
        self.parameters.act(self, view)

    def on_message(self, view: Any, message: Any) -> None:
        self.say(view, "share", message.application, message.tasks)
        view.enqueue(message.application, message.tasks)

    def on_idle(self, view: Any) -> None:
        self.say(view, "idle")


class Takes(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "takes"
    policy = Taker
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(1000, moves_tasks=True, application=int, tasks=int)
    }
    timers: ClassVar[tuple[str, ...]] = ("act",)
    told: list[Any] = []
    act: Any = None
    at: float = 2.0


class TakesInOrder(Takes, frozen=True, kw_only=True):
    local_order: ClassVar[Any] = "fifo"


def run(act: Any, *, at: float = 2.0, cls: Any = Takes, **further: Any) -> tuple[Any, list[Any]]:
    """Run 3 tasks of 1 s from 0 s and 2 of 2 s from 1 s at machine 0, and call `act` at `at` s."""
    told: list[Any] = []
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of([0.0, 1.0], [3, 2], [1000.0, 2000.0], submitter=[0, 0]),
        gs.Network(latency=0.5, bandwidth=float("inf")),
        **further,
    )
    found = gs.simulate(scenario, cls(told=told, act=act, at=at), record="schedule")
    assert validate_result(found) == []
    if scenario.faults is None:
        assert promised_order_violation(found, cls.local_order) is None
    return found, told


@pytest.mark.parametrize("cls", [Takes, TakesInOrder])
def test_waiting_tasks_are_withdrawn_and_sent(cls: Any) -> None:
    def act(node: Any, view: Any) -> None:
        node.say(view, "before", view.queued, view.waiting, view.work)
        node.say(view, "took", view.take(1, 1), view.take(0, 9), view.take(0, 9), view.take(1, 0))
        node.say(view, "after", view.queued, view.waiting, view.work)
        view.send(1, "share", application=1, tasks=1)
        view.enqueue(0, 1)

    found, told = run(act, at=1.5, cls=cls)
    assert told == [
        (1.5, 0, "before", ((0, 1), (1, 2)), 3, 5.5),  # the running task of 0 is not among them
        (1.5, 0, "took", 1, 1, 0, 0),
        (1.5, 0, "after", ((1, 1),), 1, 2.5),
        (2.0, 1, "share", 1, 1),
        (4.0, 1, "idle"),  # the run ends when machine 0 becomes idle
    ]
    arrivals = found.tables["arrivals"]
    assert arrivals["tasks"].tolist() == [3, 2, -1, -1, 1, 1]
    assert found.applications["nodes_used"].tolist() == [1, 2]
    assert found.machines["tasks"].tolist() == [4, 1]


def test_a_machine_whose_tasks_are_all_withdrawn_counts_as_unused() -> None:
    def act(node: Any, view: Any) -> None:
        view.send(1, "share", application=1, tasks=view.take(1, 2))

    found, told = run(act)
    assert found.applications["nodes_used"].tolist() == [1, 1]
    assert told == [
        (2.5, 1, "share", 1, 2),
        (3.0, 0, "idle"),
    ]  # machine 0 continues with the other application


def test_a_machine_without_work_is_idle() -> None:
    """At exactly 2 s a task has ended and the next has not started, so it can be withdrawn."""

    def act(node: Any, view: Any) -> None:
        node.say(view, "took", view.take(0, 9), view.take(1, 9))
        view.send(1, "share", application=0, tasks=1)
        view.send(1, "share", application=1, tasks=2)

    found, told = run(act)
    assert told[:2] == [(2.0, 0, "took", 1, 2), (2.0, 0, "idle")]
    assert found.machines["tasks"].tolist() == [2, 3]


def test_a_machine_that_enqueues_again_is_not_idle() -> None:
    def act(node: Any, view: Any) -> None:
        node.say(view, "took", view.take(0, 9), view.take(1, 9))
        view.enqueue(1, 2)
        view.enqueue(0, 1)

    found, told = run(act, cls=TakesInOrder)
    assert told == [(2.0, 0, "took", 1, 2)]
    assert found.applications["finish"].tolist() == [7.0, 6.0]  # the order has changed


def test_a_failure_loses_withdrawn_tasks() -> None:
    def act(node: Any, view: Any) -> None:
        node.say(view, "took", view.take(1, 2))

    found, told = run(act, faults=gs.Faults.of([0], [2.5], [2.5]))
    assert told[0] == (2.0, 0, "took", 2)
    assert found.applications["resubmitted"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda view: view.take(2, 1), "t = 2.0 s: node 0 does not know application 2"),
        (lambda view: view.take(0, -1), "node 0 takes tasks .* must be at least 0, got -1"),
        (lambda view: view.take(0, 2**63), f"node 0: tasks must be a whole number of 64 bits, got {2**63}"),
        (lambda view: view.take(0, 1.0), "node 0: tasks must be a whole number of 64 bits, got 1.0"),
        (
            lambda view: view.enqueue(0, view.take(0, 9) + 1),
            "node 0 places 2 tasks of application 0, but has 1",
        ),
    ],
)
def test_invalid_withdrawals_are_rejected(wrong: Any, said: str) -> None:
    with pytest.raises(gs.SchedulerError, match=said):
        run(lambda node, view: wrong(view))
