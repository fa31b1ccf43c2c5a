"""Runs with roles have the same results in all forms, whatever the numbers and places of their nodes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.scheduling.contract import NodeForm
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import FORMS, RUNNABLE_FORMS, needs_numba
from tests.scheduling.nodes.test_all_forms import scenarios


class Broker(gs.NodeProgram):
    """A node that keeps some tasks for a while, and gives others to hubs."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.kept = gs.Fifo(application=int, tasks=int)
        self.idle = gs.IntSet()

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        hubs = view.role("hub")
        kept = view.random.integers(0, tasks + 1)
        if kept:
            self.kept.push(application.number, kept)
            view.timer(1.0 * view.rank, "deal")
        if kept < tasks:
            hub = hubs[application.number % len(hubs)]
            view.send(hub, "share", application=application.number, tasks=tasks - kept, hops=0)

    def on_free(self, view: Any, message: Any) -> None:
        self.idle.add(message.sender)
        view.note("free", node=view.node, rank=view.rank, sender=message.sender)

    def on_timer(self, view: Any, name: str) -> None:
        while self.kept:
            application, tasks = self.kept.pop()
            worker = self.idle.pop() if self.idle else view.random.choice(view.role("worker"))
            view.decide("dealt", application, node=worker, tasks=tasks)
            view.send(worker, "share", application=application, tasks=tasks, hops=5)


class Hub(gs.NodeProgram):
    """A node that passes tasks on to workers of a part, or to other hubs; it draws the part by its rank."""

    shares = 0

    def on_share(self, view: Any, message: Any) -> None:
        self.shares += 1
        hubs, workers = view.role("hub"), view.role("worker")
        part = workers[view.rank :: len(hubs)]
        if message.hops > 2 or len(part) == 0:
            receiver = workers[-1 - self.shares % len(workers)]
        elif self.shares % 3 == 0:
            receiver = view.random.choice(hubs)
        else:
            receiver = part[self.shares % len(part)]
        hops = message.hops + 1
        view.send(receiver, "share", application=message.application, tasks=message.tasks, hops=hops)


class Worker(gs.NodeProgram):
    """A node that queues tasks, or sends them to a neighbour."""

    enqueued = 0

    def on_start(self, view: Any) -> None:
        view.send(view.role("broker")[0], "free")

    def on_message(self, view: Any, message: Any) -> None:
        if message.hops > 4 or len(view.neighbours) == 0 or view.random.random() < 0.7:
            self.enqueued += message.tasks
            view.enqueue(message.application, message.tasks)
        else:
            view.send(
                view.random.choice(view.neighbours), "share", application=message.application,
                tasks=message.tasks, hops=message.hops + 1,
            )  # fmt: skip

    def on_idle(self, view: Any) -> None:
        brokers = view.role("broker")
        view.note("free", node=view.node, rank=view.rank, sender=-1 if view.node in brokers else view.waiting)
        view.send(brokers[view.rank % len(brokers)], "free")


def _enqueued_tasks(truth: Any, node: int, machine: int) -> float:
    return float(truth.memory(machine).enqueued)


def _broker_places(parameters: Any, machines: int) -> Any:
    return np.arange(parameters.brokers) * parameters.stride % machines


class BrokerScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    """A scheduler with brokers on machines, hubs on servers, and workers."""

    name: ClassVar[str] = "brokers"
    roles: ClassVar[dict[str, gs.Role]] = {
        "worker": gs.Role(Worker),
        "broker": gs.Role(Broker, count=lambda p, _: p.brokers, place=_broker_places, releases=True),
        "hub": gs.Role(Hub, count=lambda p, _: p.hubs, server=True),
    }
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(1000, moves_tasks=True, application=int, tasks=int, hops=int),
        "free": gs.Message(100),
    }
    timers: ClassVar[tuple[str, ...]] = ("deal",)
    tables: ClassVar[dict[str, dict[str, type]]] = {"free": {"node": int, "rank": int, "sender": int}}
    decision_words: ClassVar[Any] = {"dealt": ("gave {tasks} tasks to machine {machine}", "", "")}
    truths: ClassVar[Any] = {"dealt": _enqueued_tasks}
    brokers: int = 2
    hubs: int = 2
    stride: int = 1


@settings(max_examples=60)
@given(
    scenario=scenarios(),
    brokers=st.integers(1, 4),
    hubs=st.integers(1, 3),
    stride=st.integers(0, 3),
    degree=st.integers(1, 3),
    detection=st.sampled_from([0.5, 1.0]),
)
def test_all_forms_have_the_same_results(scenario: gs.Scenario, **parameters: Any) -> None:
    scheduler = BrokerScheduler(**parameters)
    digests = {
        gs.simulate(scenario, scheduler, nodes=form, cohort_limit=limit, record=True).digest
        for form in RUNNABLE_FORMS
        for limit in (None, 1)
    }
    assert len(digests) == 1


@pytest.mark.parametrize("nodes", FORMS)
def test_runs_continue_from_checkpoints_in_all_forms(nodes: NodeForm) -> None:
    workload = gs.Workload.of([0.0, 1.0, 2.0, 8.0], [4, 5, 6, 3], 1000.0, [0, 1, 3, 2], origin=0.0)
    faults = gs.Faults.of([1, 2], [2.5, 3.0], [4.0, 3.0])
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 4), workload, faults=faults, seed=2)
    result = gs.simulate(scenario, BrokerScheduler(), nodes=nodes, record=True)
    assert resume_difference(scenario, BrokerScheduler(), result, nodes=nodes) is None


def test_true_values_are_those_of_home_nodes() -> None:
    """The true value of a decision is read from the memory of the worker on a machine, in all forms."""
    workload = gs.Workload.of(np.arange(8) * 2.0, 4, 1000.0, [0, 1, 2, 3] * 2, origin=0.0)
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 4), workload, seed=2)
    values = [
        gs.simulate(scenario, BrokerScheduler(brokers=3), nodes=form, record="decisions").tables["decisions"][
            "true"
        ]
        for form in RUNNABLE_FORMS
    ]
    assert all(item.tolist() == values[0].tolist() for item in values)
    assert len(set(values[0].tolist())) > 2


@needs_numba
def test_a_wrong_name_of_a_role_is_not_compiled() -> None:
    class AskingBroker(Broker):
        def on_free(self, view: Any, message: Any) -> None:
            self.idle.add(view.role("workers")[0])

    class WrongScheduler(BrokerScheduler, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = {
            **BrokerScheduler.roles,
            "broker": gs.Role(AskingBroker, count=1, releases=True),
        }

    scenario = gs.Scenario(gs.Platform.of([1000.0]), gs.Workload.of([0.0], 1, 1.0, [0]))
    with pytest.raises(
        gs.CompileError, match=r"AskingBroker.on_free: the name of a role 'workers' .*mean worker\?"
    ):
        gs.simulate(scenario, WrongScheduler(), nodes="compiled")
