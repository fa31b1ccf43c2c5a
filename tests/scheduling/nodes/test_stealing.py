"""Work stealing as an example of `View.take`: idle machines ask for half of a neighbour's waiting tasks."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing import check_scheduler


class StealingNode(gs.NodeProgram):
    """A node that runs its submitted tasks; without work, it asks one random neighbour after another."""

    def on_start(self, view: Any) -> None:
        self.ask(view)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)

    def on_idle(self, view: Any) -> None:
        self.ask(view)

    def on_timer(self, view: Any, name: str) -> None:
        if view.work == 0:
            self.ask(view)

    def ask(self, view: Any) -> None:
        if view.neighbours:
            view.send(view.neighbours[view.random.integers(len(view.neighbours))], "steal")
            view.cancel("retry")
            view.timer(self.parameters.retry, "retry")

    def on_steal(self, view: Any, message: Any) -> None:
        left = (view.waiting + 1) // 2
        for application, tasks in view.queued[::-1]:
            taken = view.take(application, min(tasks, left))
            if taken:
                view.send(message.sender, "loot", application=application, tasks=taken)
            left -= taken

    def on_loot(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class Stealing(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "stealing"
    policy = StealingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "steal": gs.Message(64),
        "loot": gs.Message(170, moves_tasks=True, application=int, tasks=int),
    }
    timers = ("retry",)

    retry: float = 5.0  # s until a machine without work asks again


class InOrder(Stealing, frozen=True, kw_only=True):
    name = "stealing-fifo"
    local_order = "fifo"


class AloneNode(StealingNode):
    def ask(self, view: Any) -> None:
        pass


class Alone(Stealing, frozen=True, kw_only=True):
    name = "alone"
    policy = AloneNode


@pytest.mark.parametrize("cls", [Stealing, pytest.param(InOrder, marks=pytest.mark.slow)])
def test_work_stealing_passes_the_checks(cls: Any, tmp_path: Any) -> None:
    """The promised order is checked, too, with arrivals and withdrawals of tasks."""
    found = check_scheduler(cls(degree=3), examples=6, max_nodes=7, hash_seeds=False, folder=tmp_path)
    assert found.with_failures > 1 and set(found.left_out) == {"hash seed", "decisions"}


def scenario(**further: Any) -> gs.Scenario:
    """Return a scenario whose bags are all submitted at machine 0, which would need 960 s for them."""
    return gs.Scenario(
        gs.Platform.of([1000.0] * 12),
        gs.Workload.of([0.0, 10.0, 20.0], [160] * 3, [2000.0] * 3, submitter=[0] * 3),
        gs.Network(latency=0.05),
        seed=4,
        **further,
    )


def test_stealing_shortens_the_makespan() -> None:
    alone = gs.simulate(scenario(), Alone())
    assert alone.applications["finish"].max() == 960.0
    assert alone.applications["nodes_used"].tolist() == [1, 1, 1]
    found = gs.simulate(scenario(), Stealing())
    assert found.applications["finish"].max() < 120.0  # the minimum is 80 s
    assert (found.machines["tasks"] > 20).all()


def test_stealing_shortens_the_makespan_with_failures() -> None:
    faults = gs.Faults.poisson(60.0, seed=3)
    alone, found = (gs.simulate(scenario(faults=faults), each) for each in (Alone(), Stealing()))
    assert found.applications["finish"].max() < alone.applications["finish"].max() / 4
    assert found.applications["resubmitted"].sum() > 0
