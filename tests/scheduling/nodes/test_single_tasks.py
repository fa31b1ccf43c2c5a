"""Schedulers whose nodes take each task as an application, and timers that an environment fires."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.engine.engine import TIMER
from gridsim.scheduling.nodes.single_tasks import SingleTasks
from gridsim.support.clock import NS
from gridsim.testing import check_scheduler
from tests._helpers.forms import needs_numba


class SplitNode(gs.NodeProgram):
    """Node that keeps short tasks, and sends long ones to a neighbour."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        is_long = application.size > self.parameters.longest
        if is_long and len(view.neighbours) > 0:
            to = view.neighbours[view.random.integers(len(view.neighbours))]
            view.send(to, "task", application=application.number, tasks=tasks)
        else:
            self.keep(view, application.number, tasks)

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        self.keep(view, application.number, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        self.keep(view, message.application, message.tasks)

    def keep(self, view: Any, application: int, tasks: int) -> None:
        view.decide("kept", application, node=view.node, tasks=tasks)
        view.enqueue(application, tasks)


class SplitScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "split"
    policy = SplitNode
    single_tasks = True
    numbers_known: ClassVar[bool] = True  # the number of a task depends on tasks before it
    local_order = "fifo"
    messages: ClassVar[Mapping[str, gs.Message]] = {
        "task": gs.Message(1000, moves_tasks=True, application=int, tasks=int)
    }
    decision_words: ClassVar[Any] = {"kept": ("kept {tasks} task", "", "")}
    decision_verbs: ClassVar[Any] = {"kept": "keeps"}

    longest: float = 1500.0


def two_bags() -> gs.Scenario:
    """Return two machines of 100 Mflop/s, and two bags of machine 0: the long tasks leave."""
    bags = gs.Workload.of_tasks([0.0, 0.0], [[1000.0, 3000.0, 500.0], [200.0]], [0, 0], origin=0.0)
    network = gs.Network(latency=1.0, bandwidth=float("inf"))
    return gs.Scenario(gs.Platform.equal(2, 100.0), bags, network, seed=1)


@pytest.mark.parametrize("form", ["python", "interpreted", pytest.param("compiled", marks=needs_numba)])
def test_result_is_about_the_submitted_applications(form: Any) -> None:
    result = gs.simulate(two_bags(), SplitScheduler(), record=("schedule", "decisions"), nodes=form)
    columns = ("first_start", "finish", "nodes_used", "resubmitted")
    rows = zip(*(result.applications[name].tolist() for name in columns), strict=True)
    assert list(rows) == [(0.0, 31.0, 2, 0), (15.0, 17.0, 1, 0)]
    # consecutive tasks of an application on a machine are one row
    schedule = result.tables["schedule"]
    names = ("machine", "application", "tasks", "start", "end", "completed")
    assert list(zip(*(schedule[name].tolist() for name in names), strict=True)) == [
        (0, 0, 2, 0.0, 15.0, 2), (0, 1, 1, 15.0, 17.0, 1), (1, 0, 1, 1.0, 31.0, 1)
    ]  # fmt: skip
    decisions, arrivals = result.tables["decisions"], result.tables["arrivals"]
    assert list(zip(decisions["application"], decisions["task"], strict=True)) == [
        (0, 0),
        (0, 2),
        (1, 0),
        (0, 1),
    ]
    assert arrivals["application"].tolist() == [0, 0, 1, 0]
    assert gs.simulate(two_bags(), SplitScheduler()).digest == result.digest


def test_nodes_see_the_true_size_of_each_task() -> None:
    bags = gs.Workload.of_tasks([0.0, 5.0], [[1.0, 2.0], [3.0]], [0, 0], 9.0)
    submitted = bags.realize(gs.Platform.equal(1, 100.0))
    tasks = SingleTasks(submitted)
    assert tasks.applications.size.tolist() == tasks.applications.task_size.tolist() == [1.0, 2.0, 3.0]
    assert tasks.applications.estimate is None and not tasks.applications.unequal
    assert tasks.applications.release.tolist() == [0.0, 0.0, 5.0]
    assert [tasks.place_of(number) for number in range(3)] == [(0, 0), (0, 1), (1, 0)]
    assert tasks.numbers.tolist() == [0, 0, 1]


def test_applications_of_one_task_keep_their_numbers() -> None:
    tasks = SingleTasks(gs.Workload.of([0.0, 1.0], 1, 100.0).realize(gs.Platform.equal(1, 100.0)))
    assert tasks.application is None and tasks.numbers.tolist() == [0, 1] and tasks.place_of(1) == (1, 0)


@pytest.mark.parametrize("faults", [False, True])
def test_single_tasks_keep_the_promises_of_schedulers(faults: bool, tmp_path: Path) -> None:
    check_scheduler(SplitScheduler(), examples=15, faults=faults, folder=tmp_path)


# -- timers of an environment -----------------------------------------------------------------------------


class Bell(gs.Environment):
    """A bell that all nodes hear at 2 s."""

    reason = "nobody rings it"

    def attach(self, adapter: Any) -> None:
        super().attach(adapter)
        self.run.engine.on("ring", self._ring, priority=30, phase=TIMER)
        self.run.engine.at(2 * NS, "ring")

    def of_node(self, node: int) -> str:
        return f"bell of node {node}"

    def complete(self, outcome: Any) -> None:
        outcome.facts["bell"] = "rang"

    def _ring(self, _: list[int]) -> None:
        self.fire("bell", np.flatnonzero(self.adapter.up).tolist())


class BellNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.waiting: list[int] = []

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.waiting.append(application.number)

    def on_bell(self, view: Any) -> None:
        assert view.environment == f"bell of node {view.node}"
        for application in self.waiting:
            view.enqueue(application, view.held(application))


class BellScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "bell"
    policy = BellNode
    environment = Bell
    environment_timers = ("bell",)
    node_forms: ClassVar[tuple[Any, ...]] = ("interpreted",)


@pytest.mark.parametrize("form", ["python", "interpreted"])
def test_an_environment_fires_timers_and_completes_the_outcome(form: Any) -> None:
    result = gs.simulate(two_bags(), BellScheduler(), nodes=form)
    assert result.applications["first_start"].min() == 2.0 and result.facts["bell"] == "rang"


def test_environment_timers_must_be_names() -> None:
    class WrongTimerScheduler(BellScheduler, frozen=True, kw_only=True):
        environment_timers = "bell"

    with pytest.raises(gs.ScenarioError, match="environment_timers must be a tuple of strings, got 'bell'"):
        WrongTimerScheduler()
