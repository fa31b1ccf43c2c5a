"""Several nodes on a machine: a desk, which forwards submitted tasks, and a worker, which runs them.

On three machines desk u is node u, and worker u is node 3 + u.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.layout import Layout
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result


class Desk(NodeProgram):
    """A node that forwards tasks of odd applications to the next machine's worker, others to its own."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        machine = (view.machine + application.number % 2) % view.machines
        view.note("seen", node=view.node, machine=view.machine, at=view.now)
        view.send(view.machines + machine, "work", application=application.number, tasks=tasks)


class Worker(NodeProgram):
    """A node that queues the tasks that it gets."""

    started = 0

    def on_start(self, view: Any) -> None:
        self.started += 1

    def on_message(self, view: Any, message: Any) -> None:
        view.note("seen", node=view.node, machine=view.machine, at=view.now)
        view.enqueue(message.application, message.tasks)


class DeskScheduler(NodeScheduler, frozen=True, kw_only=True):
    """A scheduler with a desk and a worker on each machine."""

    name: ClassVar[str] = "desks"
    policy = NodeProgram
    messages: ClassVar[dict[str, Message]] = {
        "work": Message(100, moves_tasks=True, application=int, tasks=int)
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"node": int, "machine": int, "at": float}}

    def layout(self, machines: int) -> Layout:
        both = np.tile(np.arange(machines), 2)
        return Layout(both, np.arange(machines), np.arange(2 * machines) // machines)

    def program(self, node: int) -> NodeProgram:
        return Desk(self) if node < 3 else Worker(self)


def run(release: list[float], faults: gs.Faults | None = None) -> gs.Result:
    workload = gs.Workload.of(release, 2, 1000.0, [0] * len(release), origin=0.0)
    return gs.simulate(gs.Scenario(gs.Platform.of([1000.0] * 3), workload, faults=faults), DeskScheduler())


def test_messages_within_a_machine_arrive_at_once() -> None:
    result = run([1.0, 5.0])
    seen = result.tables["seen"]
    assert seen["node"].tolist() == [0, 3, 0, 4]
    assert seen["machine"].tolist() == [0, 0, 0, 1]
    assert seen["at"].tolist()[:3] == [1.0, 1.0, 5.0] and seen["at"][3] > 5.05
    assert result.messages["sent"].tolist() == [1]  # messages within a machine are not counted
    assert result.machines["tasks"].tolist() == [2, 2, 0]


@pytest.mark.parametrize("back", [5.5, np.inf])
def test_all_nodes_of_a_machine_fail_with_it(back: float) -> None:
    """Machine 0 fails with both nodes; its tasks are submitted again, at machine 1 if 0 is still down."""
    result = run([1.0, 6.0], gs.Faults.of([0], [1.5], [back]))
    seen = result.tables["seen"]
    assert seen["node"].tolist()[:4] == [0, 3, 1, 4]  # lost at 1.5 s, detected 1 s later
    assert result.applications["resubmitted"].tolist() == [2, 0]
    assert seen["node"].tolist()[4] == (0 if back == 5.5 else 1)


def test_programs_and_home_nodes_must_match_the_layout() -> None:
    class WrongScheduler(DeskScheduler, frozen=True, kw_only=True):
        def layout(self, machines: int) -> Layout:
            return Layout(np.arange(machines), np.arange(machines - 1))

    with pytest.raises(gs.ScenarioError, match="^layout.home"):
        gs.simulate(
            gs.Scenario(gs.Platform.of([1.0] * 3), gs.Workload.of([0.0], 1, 1.0, [0])), WrongScheduler()
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1, 3], [0, 1, 2]), "layout.home must have an entry for each of 4 machines, got 3"),
        (([0, 1, 2], [0, 1, 2, 2]), "layout.home must have an entry for each of 3 machines, got 4"),
        (([0, 1, -1], [0, 1, 2]), r"layout.machine_of\[2\] must be in 0..2147483647, got -1"),
        (([0, 1, 2], [0, 1, 3]), r"layout.home\[2\] must be in 0..2, got 3"),
        (
            ([0, 1, 2.0], [0, 1, 2]),
            r"layout.machine_of must be whole numbers in one dimension, got float64\[3\]",
        ),
        (([0, 1, 2], [0, 1, 2], [0, 1]), "layout.level_of must have an entry for each of 3 nodes, got 2"),
        (
            ([0, 1, 2], [0, 1, 2], [0, 0, 0], [0, 1]),
            "layout.releases must have an entry for each of 3 machines, got 2",
        ),
        (([0, 1, 2], [0, 1, 2], [0, 0, 0], [0, 1, 3]), r"layout.releases\[2\] must be in 0..2, got 3"),
        (([0, 1, 2], [0, 1, 2], [0, 1, 64]), r"layout.level_of\[2\] must be in 0..63, got 64"),
    ],
)
def test_layouts_name_machines_and_nodes_that_exist(arguments: tuple[list[int], ...], message: str) -> None:
    class WrongScheduler(DeskScheduler, frozen=True, kw_only=True):
        def layout(self, machines: int) -> Layout:
            return Layout(*map(np.array, arguments))

    with pytest.raises(gs.ScenarioError, match=message):
        gs.simulate(
            gs.Scenario(gs.Platform.of([1.0] * 3), gs.Workload.of([0.0], 1, 1.0, [0])), WrongScheduler()
        )


# -- a server on a further machine ---------------------------------------------------------------------------

#: A time in ns that no float of seconds represents.
LONG = 2**53 + 1


class Server(NodeProgram):
    """A server that hands out tasks one by one, and handles ticks at once."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for task in range(tasks):
            view.send(task % 2, "work", application=application.number, tasks=1)
        view.decide("shared", application.number, tasks=tasks)
        view.at(LONG, "late")

    def on_timer(self, view: Any, name: str) -> None:
        if name == "late":
            view.note("seen", node=view.node, machine=view.machine, at=view.now_ns)

    def on_told(self, view: Any, message: Any) -> None:
        view.note("seen", node=message.sender, machine=view.machine, at=view.now_ns)


class Client(NodeProgram):
    """A client that queues the tasks that it gets, and tells the server of each tick."""

    def on_work(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_timer(self, view: Any, name: str) -> None:
        view.send(view.machines - 1, "told")


class ServerScheduler(DeskScheduler, frozen=True, kw_only=True):
    """A scheduler with a server on a further machine."""

    name: ClassVar[str] = "served"
    messages: ClassVar[dict[str, Message]] = {
        **DeskScheduler.messages,
        "told": Message(0, delay=0.0, counted=False),
    }
    timers = ("late",)
    ticks: ClassVar[dict[str, float]] = {"tick": 8e6}
    decision_words: ClassVar[Any] = {"shared": ("shared {tasks} tasks", "", "")}
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"node": int, "machine": int, "at": int}}

    def layout(self, machines: int) -> Layout:
        return Layout.with_server(machines)

    def program(self, node: int) -> NodeProgram:
        return Server(self) if node == 2 else Client(self)


@pytest.mark.parametrize("latency", [0.0, 0.5])
def test_a_server_is_on_a_further_machine_that_never_fails(latency: float) -> None:
    """Both machines fail; tasks that are submitted then still reach the server."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of([0.0, 10.0], 2, 1e10, [0, 1]),
        gs.Network(latency=latency, record_use=True),
        faults=gs.Faults.of([0, 1], [5.0, 5.0], [20.0, 30.0]),
    )
    outcome = gs.simulate(scenario, ServerScheduler(), record="decisions")
    seen = list(
        zip(*(outcome.tables["seen"][name].tolist() for name in ("node", "machine", "at")), strict=True)
    )
    ticks = [(node, 2, instant * 10**15) for instant in (8, 16) for node in (0, 1)]
    assert seen[:5] == [*ticks[:2], (2, 2, LONG), *ticks[2:]]
    assert outcome.tables["decisions"]["decider"].tolist() == [-1] * len(outcome.tables["decisions"])
    assert outcome.machines["tasks"].sum() == 4 and len(outcome.machines) == 2
    assert outcome.machines["bytes_in"].sum() > 0 == outcome.machines["bytes_out"].sum()
    assert (
        resume_difference(scenario, ServerScheduler(), gs.simulate(scenario, ServerScheduler(), record=True))
        is None
    )


def test_a_server_runs_no_tasks() -> None:
    class RunningNode(NodeProgram):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            view.enqueue(application.number, tasks)

    class RunningScheduler(ServerScheduler, frozen=True, kw_only=True):
        def program(self, node: int) -> NodeProgram:
            return RunningNode(self) if node == 2 else Client(self)

        ticks: ClassVar[dict[str, float]] = {}

    scenario = gs.Scenario(gs.Platform.of([1.0] * 2), gs.Workload.of([1.0], 3, 1.0, [0], origin=0.0))
    with pytest.raises(gs.SchedulerError, match=r"machines 0\.\.1, got 3 tasks on machine 2, a server"):
        gs.simulate(scenario, RunningScheduler())


def test_a_server_can_withdraw_tasks_from_its_queue() -> None:
    class TakingNode(NodeProgram):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            view.enqueue(application.number, tasks)
            assert view.take(application.number, tasks) == tasks
            view.send(0, "work", application=application.number, tasks=tasks)

    class TakingScheduler(ServerScheduler, frozen=True, kw_only=True):
        def program(self, node: int) -> NodeProgram:
            return TakingNode(self) if node == 2 else Client(self)

        ticks: ClassVar[dict[str, float]] = {}

    scenario = gs.Scenario(gs.Platform.of([1.0] * 2), gs.Workload.of([1.0], 3, 1.0, [0]))
    result = gs.simulate(scenario, TakingScheduler(), record="all")
    assert result.tables["arrivals"]["machine"].tolist() == [0] and result.servers == 1
    assert validate_result(result) == []


def test_a_timer_must_be_set_for_a_future_instant() -> None:
    class LateTimerScheduler(ServerScheduler, frozen=True, kw_only=True):
        timers = ("later",)

    scenario = gs.Scenario(gs.Platform.of([1.0] * 2), gs.Workload.of([1.0], 1, 1.0, [0], origin=0.0))
    with pytest.raises(gs.SchedulerError, match="node 2 sets the timer 'late', .*; did you mean later?"):
        gs.simulate(scenario, LateTimerScheduler())
