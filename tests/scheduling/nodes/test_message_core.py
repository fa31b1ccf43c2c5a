"""The message core with nodes that withdraw tasks, and in long runs."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing import check_scheduler


class Restless(gs.NodeProgram):
    """A node with random actions: many events are due at one instant, and all features are used.

    Tasks that have been handed on `hops` times are queued where they are, so that all are done in the end.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.kept: list[tuple[int, int, int]] = []  # application, tasks, hops

    def _any(self, view: Any) -> int:
        """Return a random neighbour, or the node itself."""
        others = (*view.neighbours, view.node)
        return others[int(view.random.integers(len(others)))]

    def _act(self, view: Any) -> None:
        draw = int(view.random.integers(8))
        if draw == 0:
            view.timer(float(view.random.integers(3)), "tick")
        elif draw == 1:
            view.timer(1.0, "tock")
        elif draw == 2:
            view.cancel("tick")
        elif draw < 5:
            view.send(self._any(view), "note", value=view.work, left=int(view.random.integers(3)))
        elif draw < 7 and view.queued:
            application, tasks = view.queued[int(view.random.integers(len(view.queued)))]
            taken = view.take(application, int(view.random.integers(tasks + 2)))
            if taken:
                self._place(view, application, taken, self.parameters.hops - 1)

    def _place(self, view: Any, application: int, tasks: int, hops: int) -> None:
        here = tasks if hops >= self.parameters.hops else int(view.random.integers(tasks + 1))
        if here and view.random.random() < 0.3:
            self.kept.append((application, here, hops))
            view.timer(0.0 if hops % 2 else 2.0, "place")
        elif here:
            view.enqueue(application, here)
        if here < tasks:
            view.send(self._any(view), "share", hops=hops + 1, application=application, tasks=tasks - here)

    def on_start(self, view: Any) -> None:
        self._act(view)
        view.timer(1.0, "tock")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self._act(view)
        self._place(view, application.number, tasks, 0)

    def on_message(self, view: Any, message: Any) -> None:
        if message.kind == "share":
            self._place(view, message.application, message.tasks, message.hops)
        elif message.left:
            view.send(message.sender, "note", value=message.value + view.waiting, left=message.left - 1)

    def on_timer(self, view: Any, name: str) -> None:
        if name == "place":
            kept, self.kept = self.kept, []
            for application, tasks, hops in kept:
                self._place(view, application, tasks, hops + 1)
        elif name == "tick" or view.random.random() < 0.5:
            self._act(view)

    def on_idle(self, view: Any) -> None:
        self._act(view)


class Core(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "restless"
    policy = Restless
    messages: ClassVar[dict[str, gs.Message]] = {
        "note": gs.Message(100, value=float, left=int),
        "share": gs.Message(1000, moves_tasks=True, hops=int, application=int, tasks=int),
    }
    timers = ("tock", "tick", "place")
    hops: int = 3


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    nodes, latency = draw(st.integers(1, 6)), draw(st.sampled_from([0.0, 0.5, 1.0]))
    count = draw(st.integers(1, 5))
    network = gs.Network(
        latency=latency,
        jitter=draw(st.sampled_from([0.0, latency / 2])),
        bandwidth=draw(st.sampled_from([1000.0, float("inf")])),
        interfaces=draw(st.sampled_from(["fifo", "equal"])),
    )
    workload = gs.Workload.of(
        release=sorted(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))),
        tasks=draw(st.lists(st.integers(1, 6), min_size=count, max_size=count)),
        task_size=draw(st.lists(st.sampled_from([500.0, 1000.0]), min_size=count, max_size=count)),
        submitter=draw(st.lists(st.integers(0, nodes - 1), min_size=count, max_size=count)),
    )
    faults = None
    if draw(st.booleans()):
        # at whole seconds, where timers, releases and messages are due as well
        machine = draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=4, unique=True))
        at = draw(st.lists(st.integers(0, 8), min_size=len(machine), max_size=len(machine)))
        down = draw(st.lists(st.integers(0, 2), min_size=len(machine), max_size=len(machine)))
        faults = gs.Faults.of(machine, at, [a + d for a, d in zip(at, down, strict=True)])
    return gs.Scenario(
        gs.Platform.of([1000.0] * nodes), workload, network, faults=faults, seed=draw(st.integers(0, 99))
    )


@pytest.mark.parametrize("order", ["edf", "fifo"])
def test_nodes_that_withdraw_tasks_keep_the_invariants(order: Any, tmp_path: Any) -> None:
    """Arrivals and withdrawals give the same schedule if they are replayed; runs can be resumed."""

    class Here(Core, frozen=True, kw_only=True):
        local_order = order

    found = check_scheduler(Here(degree=3), examples=8, max_nodes=6, hash_seeds=False, folder=tmp_path)
    assert set(found.left_out) == {"hash seed", "decisions"}


@pytest.mark.parametrize("seed", [1])
def test_a_run_with_many_pauses_equals_that_of_the_readable_core(seed: int) -> None:
    """The core returns control to the engine at times, also within a wave."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=60, seed=seed),
        gs.Workload.bags(applications=40, interarrival=20.0, tasks_per_node=3, task_size=65536.0, seed=seed),
        faults=gs.Faults.poisson(mean=300.0, seed=seed),
        seed=seed,
    )
    found = gs.simulate(scenario, Core())
    assert found.digest == gs.simulate(scenario, Core(), nodes="python").digest
    assert found.provenance["events"] > 3 * 8192
