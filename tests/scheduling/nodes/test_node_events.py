"""Acts, ticks, ends of tasks, deferred messages and queues of nodes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.testing import check_scheduler

GRID = SummaryGrid.geometric((0.001, 0.1, 4), (1000.0, 50_000.0, 3), (500.0, 1000.0, 2))


class Node(NodeProgram):
    """A node that tells the next machine of its tasks and gets an answer; nodes note their calls."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.asked = 0

    def note(self, view: Any, what: int, value: float = 0.0) -> None:
        view.note("did", node=view.node, what=what, value=value, at=view.now)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        for other in range(view.machines):
            if other != view.node:
                view.send(other, "news", application=application.number, tasks=tasks)

    def on_news(self, view: Any, message: Any) -> None:
        self.asked += 1
        self.note(view, 0)
        view.act()
        view.act()
        view.act(2.0)

    def on_act(self, view: Any) -> None:
        self.note(view, 1, self.asked)
        assert view.now_ns == round(view.now * 1e9)

    def on_end(self, view: Any) -> None:
        self.note(view, 2, view.waiting)

    def on_idle(self, view: Any) -> None:
        self.note(view, 3)

    def on_timer(self, view: Any, name: str) -> None:
        done = view.completed()
        self.note(view, 4, sum(tasks for _, tasks in done))
        for application, tasks in done:
            view.send(0, "finished", application=application, tasks=tasks)

    def on_finished(self, view: Any, message: Any) -> None:
        self.note(view, 5, message.tasks)


class Acting(NodeScheduler, frozen=True, kw_only=True):
    """A scheduler whose nodes have all of these handlers."""

    name: ClassVar[str] = "acting"
    policy = Node
    messages: ClassVar[dict[str, Message]] = {
        "news": Message(100, application=int, tasks=int),
        "finished": Message(10, deferred=True, application=int, tasks=int),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "did": {"node": int, "what": int, "value": float, "at": float}
    }
    ticks: ClassVar[dict[str, float]] = {"beat": 2.5}
    watch = "completion"
    reports = True


def scenario(release: list[float], tasks: list[int], faults: gs.Faults | None = None) -> gs.Scenario:
    network = gs.Network(latency=0.5, bandwidth=np.inf, interfaces="equal")
    submitter = list(range(len(release)))
    return gs.Scenario(
        gs.Platform.of([1000.0] * 3),
        gs.Workload.of(release, tasks, 1000.0, submitter),
        network,
        faults=faults,
    )


def did(result: gs.Result, node: int, *what: int) -> list[tuple[float, int, float]]:
    rows = result.tables["did"].rows()
    return [
        (row["at"], row["what"], row["value"]) for row in rows if row["node"] == node and row["what"] in what
    ]


def test_a_node_acts_once_after_all_messages_of_an_instant() -> None:
    """Node 2 gets messages on both applications at 0.5 s, acts once then, and once more 2 s later."""
    result = gs.simulate(scenario([0.0, 0.0], [4, 4]), Acting())
    assert did(result, 2, 0, 1) == [(0.5, 0, 0.0), (0.5, 0, 0.0), (0.5, 1, 2.0), (2.5, 1, 2.0)]


def test_nodes_handle_the_end_of_each_task_and_ticks() -> None:
    result = gs.simulate(scenario([0.0], [3]), Acting())
    # the run ends with the last task, before its end is handled
    assert did(result, 0, 2, 3) == [(1.0, 2, 2.0), (2.0, 2, 1.0)]
    assert did(result, 0, 4) == [(2.5, 4, 2.0)] and did(result, 1, 4) == [(2.5, 4, 0.0)]
    # its message to itself is handled at the end of the run
    assert did(result, 0, 5) == [(3.0, 5, 2.0)]


def test_deferred_messages_are_handled_at_the_next_release() -> None:
    result = gs.simulate(scenario([0.0, 4.0], [3, 2]), Acting())
    assert did(result, 0, 5) == [(4.0, 5, 2.0), (6.0, 5, 1.0), (6.0, 5, 1.0)]


def test_a_node_sees_its_own_queue() -> None:
    seen: list[Any] = []

    class Looking(Node):
        def on_act(self, view: Any) -> None:
            seen.append(
                (view.node, view.minimum_stretch, view.sample(GRID), view.sample(GRID, view.now_ns + 10**9))
            )

    class Lookers(Acting, frozen=True, kw_only=True):
        policy = Looking

    gs.simulate(scenario([0.0, 0.0], [4, 2]), Lookers())
    queues = TaskQueues([1000.0] * 3)
    queues.add_applications([0.0, 0.0], [4000.0, 2000.0], [1000.0, 1000.0])
    queues.enqueue([0, 1], [0, 1], [4, 2], 0)
    queues.reschedule([0, 1], 0)
    assert [row[0] for row in seen[:3]] == [0, 1, 2]
    for node, minimum, now, later in seen[:3]:
        assert minimum == queues.minimum_stretch([node], 5 * 10**8)[0]
        np.testing.assert_array_equal(now, queues.summaries([node], GRID, 5 * 10**8)[0])
        np.testing.assert_array_equal(later, queues.summaries([node], GRID, 5 * 10**8, cell=15 * 10**8)[0])


@pytest.mark.slow
def test_a_scheduler_with_acts_conforms(tmp_path: Any) -> None:
    """The checks include checkpoints and failures."""
    assert check_scheduler(Acting(), examples=8, hash_seeds=False, folder=tmp_path).with_failures > 0


@pytest.mark.parametrize("seconds", [-1.0, np.inf, np.nan])
def test_acts_at_invalid_times_are_rejected(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "on_news", lambda self, view, message: view.act(seconds))
    with pytest.raises(gs.SchedulerError, match="calls act: seconds must be finite"):
        gs.simulate(
            scenario(
                [0.0],
                [
                    1,
                ],
            ),
            Acting(),
        )


def test_deferred_messages_cannot_move_tasks() -> None:
    with pytest.raises(gs.ScenarioError, match="deferred=True"):
        Message(10, deferred=True, moves_tasks=True, application=int, tasks=int)


class Answers(gs.NodeProgram):
    """A node that answers a deferred message, which is an error."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.send(1 - view.node, "heard")

    def on_heard(self, view: Any, message: Any) -> None:
        view.send(message.sender, "heard")


class Answering(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "answering"
    policy = Answers
    messages: ClassVar[dict[str, Message]] = {"heard": Message(10, deferred=True)}


def test_handlers_of_deferred_messages_cannot_act() -> None:
    with pytest.raises(gs.SchedulerError, match="node 1 acts in a handler of 'heard', but"):
        gs.simulate(scenario([0.0, 4.0], [3, 2]), Answering())


class Taking(gs.NodeProgram):
    """A node that withdraws its tasks at once, and runs them 0.5 s later."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.note("told", at=view.now_ns, what=view.take(application.number, 9))
        view.timer(0.5, "again")

    def on_timer(self, view: Any, name: str) -> None:
        view.enqueue(0, 2)

    def on_end(self, view: Any) -> None:
        view.note("told", at=view.now_ns, what=-1)

    def on_idle(self, view: Any) -> None:
        view.note("told", at=view.now_ns, what=-2)


class Takes(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "takes"
    policy = Taking
    timers = ("again",)
    watch = "completion"
    tables: ClassVar[dict[str, dict[str, type]]] = {"told": {"at": int, "what": int}}


def test_withdrawn_tasks_have_no_end() -> None:
    """The machine becomes idle when its tasks are withdrawn; the first one ends at 1.5 s."""
    scenario = gs.Scenario(gs.Platform.of([1000.0]), gs.Workload.of([0.0], 2, 1000.0), seed=1)
    told = gs.simulate(scenario, Takes()).tables["told"]
    assert list(zip(told["at"].tolist(), told["what"].tolist(), strict=True)) == [
        (0, 2), (0, -2), (15 * 10**8, -1),
    ]  # fmt: skip


class Both(Taking):
    def on_done(self, view: Any, application: Any) -> None:
        pass


def test_the_handler_on_done_does_not_support_reports() -> None:
    class Asks(Takes, frozen=True, kw_only=True):
        policy = Both
        reports = True

    scenario = gs.Scenario(gs.Platform.of([1000.0]), gs.Workload.of([0.0], 2, 1000.0), seed=1)
    with pytest.raises(gs.ScenarioError, match="takes: on_done does not support reports=True"):
        gs.simulate(scenario, Asks())
