"""A node program that uses all features runs in processes, even if they are killed."""

from __future__ import annotations

import math
import os
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.validation.results import validate_result


class Desk(gs.NodeProgram):
    """A desk queues released tasks, requests room from workers, and moves tasks to workers with room."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.waiting = gs.Fifo(application=int, tasks=int)
        self.open = gs.IntMap(worker=int)  # request -> worker

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.waiting.push(application.number, tasks)
        self.ask(view)

    on_lost = on_release

    def ask(self, view: Any) -> None:
        """Send requests to the two workers that seem to have the least work."""
        if self.waiting and not self.open:
            for worker in view.board.least(2, "work"):
                number = view.request(worker, "ask", timeout=2.0, job=self.waiting[0][0])
                self.open[number] = worker

    def on_offer(self, view: Any, message: Any) -> None:
        view.note("calls", event=0, node=view.rank, value=message.capacity)
        if message.request:
            del self.open[message.request]
        if self.waiting and message.capacity > 0:
            application, count = self.waiting.pop()
            tasks = min(count, 2)
            view.send(message.sender, "share", application=application, tasks=tasks)
            view.board.add(message.sender, 5.0 * tasks, "work")
            if count > tasks:
                self.waiting.push(application, count - tasks)
        view.timer(0.5, "again", tries=1, since=view.now)

    def on_timeout(self, view: Any, request: Any) -> None:
        view.note("calls", event=1, node=view.rank, value=request.job)
        del self.open[request.number]
        view.timer(1.0, "again", tries=2, since=view.now)

    def on_again(self, view: Any, tries: int, since: float) -> None:
        view.note("calls", event=2, node=view.rank, value=view.now - since)
        self.ask(view)

    def on_start(self, view: Any) -> None:
        view.publish(work=math.inf, tasks=math.inf)  # desks run no tasks
        view.timer(2.0, "again", tries=0, since=view.now)


class Worker(gs.NodeProgram):
    """A worker publishes its work and its tasks, answers, and thinks before it queues tasks."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.shares = gs.Heap(at=float, application=int, tasks=int)

    def on_start(self, view: Any) -> None:
        self.tell(view)

    def tell(self, view: Any) -> None:
        """Publish the numbers of this worker."""
        view.publish(work=view.work, tasks=view.tasks)

    def on_ask(self, view: Any, message: Any) -> None:
        # some workers do not answer
        if view.random.uniform(0.0, 1.0) < 0.5:
            view.reply(message, "offer", capacity=2.0 - view.tasks, weights=np.array([view.work]))

    def on_share(self, view: Any, message: Any) -> None:
        self.shares.push(view.now, message.application, message.tasks)
        view.later(0.25, "think", left=1)

    def on_think(self, view: Any, message: Any) -> None:
        while self.shares:
            _, application, tasks = self.shares.pop()
            view.enqueue(application, tasks)
        view.note("calls", event=3, node=view.rank, value=message.left)
        self.tell(view)

    def on_idle(self, view: Any) -> None:
        self.tell(view)


class EveryFeatureScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    name = "everything"
    roles: ClassVar[dict[str, gs.Role]] = {
        "desk": gs.Role(Desk, count=2, server=True, releases=True),
        "worker": gs.Role(Worker),
    }
    messages: ClassVar[dict[str, gs.Message]] = {
        "ask": gs.Message(60, answer="offer", job=int),
        "offer": gs.Message(80, capacity=float, weights=gs.array(float)),
        "share": gs.Message(200, moves_tasks=True, application=int, tasks=int),
        "think": gs.Message(None, left=int),
    }
    numbers = ("work", "tasks")
    tables: ClassVar[dict[str, dict[str, type]]] = {"calls": {"event": int, "node": int, "value": float}}


def scenario(**further: Any) -> gs.Scenario:
    workload = gs.Workload.of([0.0, 3.0, 9.0], [7, 5, 6], [4000.0, 2500.0, 3000.0], [0, 4, 2])
    return gs.Scenario(gs.Platform.equal(6, 1000.0), workload, seed=4, **further)


FAULTS = gs.Faults.of([5, 1, 3], [5.0, 11.0, 13.5], [9.0, 12.0, 15.0])


@pytest.mark.parametrize("faults", [None, FAULTS])
def test_a_node_with_all_features_has_the_digest_of_a_simulation(faults: gs.Faults | None) -> None:
    emulated = gs.emulate(scenario(faults=faults), EveryFeatureScheduler(), processes=1, speedup=math.inf)
    for form in ("interpreted", "python"):
        simulated = gs.simulate(scenario(faults=faults), EveryFeatureScheduler(), nodes=form)  # type: ignore[arg-type]
        assert emulated.digest == simulated.digest
    assert set(emulated.tables["calls"]["event"].tolist()) == {0, 1, 2, 3}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")
@pytest.mark.parametrize(("faults", "kill"), [(None, False), (FAULTS, False), (FAULTS, True)])
def test_a_node_with_all_features_runs_in_processes(faults: gs.Faults | None, kill: bool) -> None:
    result = gs.emulate(
        scenario(faults=faults), EveryFeatureScheduler(), processes=3, speedup=20.0, kill=kill
    )
    assert validate_result(result) == []
    assert set(result.tables["calls"]["event"].tolist()) == {0, 1, 2, 3}
    if faults is not None:
        assert result.applications["resubmitted"].sum() > 0
        assert (result.provenance["emulation"]["kills"] > 0) is kill


class FailingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        raise KeyError("no such thing")


class FailingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "mistaken"
    policy = FailingNode


@pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")
def test_an_error_in_a_handler_states_its_place() -> None:
    with pytest.raises(
        gs.SchedulerError, match=r"KeyError.*\st = 0.* s, node 0: FailingNode.on_release, .*py:\d+"
    ):
        gs.emulate(scenario(), FailingScheduler(), processes=2, speedup=10.0)


class PublishingNode(gs.NodeProgram):
    """A node that publishes a number once, and records the published numbers periodically."""

    def on_start(self, view: Any) -> None:
        view.publish(5.0 + view.node)
        view.timer(1.0, "look")

    def on_look(self, view: Any) -> None:
        view.note("seen", node=view.node, time=view.now, of_last=view.board[view.machines - 1])
        view.timer(1.0, "look")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class PublishingScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    policy = PublishingNode
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"node": int, "time": float, "of_last": float}}


def test_a_restarted_process_learns_the_numbers_on_the_board() -> None:
    workload = gs.Workload.of([0.0], 1, 20_000.0, submitter=[2])
    faults = gs.Faults.of([0], [3.0], [6.0])
    scenario = gs.Scenario(gs.Platform.equal(4, 1000.0), workload, gs.Network(latency=0.05), faults=faults)
    result = gs.emulate(scenario, PublishingScheduler(age=0.5), processes=2, speedup=10.0, kill=True)
    assert result.provenance["emulation"]["kills"] == 1
    seen = result.tables["seen"]
    late = seen["of_last"][(seen["node"] == 0) & (seen["time"] > 12.0)]
    assert len(late) > 3 and (late == 8.0).all()
