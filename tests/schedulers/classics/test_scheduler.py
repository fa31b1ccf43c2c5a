"""Classic schedulers: small examples of each, and the invariants."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.schedulers.classics import node
from gridsim.schedulers.classics.scheduler import BoardPlacement, Classic
from gridsim.testing import check_scheduler
from tests._helpers.scenarios import CLASSICS


def jobs(
    release: Any, machines: int = 5, size: float = 10.0, submitter: Any = None, **options: Any
) -> gs.Scenario:
    """Return jobs of one task each, `size` s long, on equal machines."""
    count = len(release)
    workload = gs.Workload.of(release, [1] * count, [size] * count, submitter=submitter or [0] * count)
    return gs.Scenario(gs.Platform.of([1.0] * machines), workload, seed=1, **options)


def response(result: gs.Result) -> Any:
    return result.applications["finish"] - result.applications["release"]


@pytest.mark.parametrize("cls", CLASSICS)
def test_node_programs_are_short(cls: Any) -> None:
    def lines(program: type) -> int:
        code = ast.parse(inspect.getsource(program))
        for part in ast.walk(code):
            if isinstance(part, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(part):
                part.body = part.body[1:] or [ast.Pass()]
        return sum(map(bool, ast.unparse(code).splitlines()))

    bases = [base for base in cls.policy.__mro__ if base.__module__ == node.__name__]
    assert lines(cls.policy) <= 47 and sum(map(lines, bases)) <= 70


@pytest.mark.parametrize("cls", [gs.JoinShortestQueue, gs.LeastWork])
def test_with_fresh_views_no_job_waits_while_a_machine_is_idle(cls: Any) -> None:
    release = np.arange(25) * 2.0 + 0.5
    result = gs.simulate(jobs(release), cls(instant=True))
    np.testing.assert_allclose(response(result), 10.0)


def test_the_board_counts_a_new_task_once() -> None:
    """Three jobs on two machines, then a fourth: one machine has one task, the other two."""
    scenario = jobs([1.0, 2.0, 3.0, 4.0], machines=2, size=100.0)
    result = gs.simulate(scenario, gs.JoinShortestQueue(instant=True), record="decisions")
    decisions = result.tables["decisions"]
    assert decisions["saw"].tolist() == decisions["true"].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert result.machines["tasks"].tolist() == [2, 2]


def test_least_work_counts_only_the_work_left_on_machines() -> None:
    # one machine gets 30 s of work, the other 2 s and 9 s: at 29 s the first has 1 s left, the other 8 s
    workload = gs.Workload.of([0.0, 1.0, 28.0, 29.0], [1] * 4, [30.0, 2.0, 9.0, 1.0], submitter=[0] * 4)
    scenario = gs.Scenario(gs.Platform.of([1.0, 1.0]), workload, seed=1)
    finish = gs.simulate(scenario, gs.LeastWork(instant=True)).applications["finish"]
    np.testing.assert_allclose(finish, [30.0, 3.0, 37.0, 31.0])


def test_aged_views_show_a_busy_machine_as_idle_for_their_age() -> None:
    """Until the load of the first job is visible, later jobs go to any machine, as if all were idle."""
    result = gs.simulate(
        jobs([0.5, 6.0, 7.0], machines=2, size=100.0),
        gs.JoinShortestQueue(instant=True, age=5.0),
        record=("schedule", "decisions"),
    )
    decisions = result.tables["decisions"]
    assert decisions["saw"].tolist() == [0.0, 0.0, 0.0] and decisions["true"][0] == 0.0
    placed = []
    for delay in (5.0, 4.9):
        scenario = jobs([0.5, 0.5 + delay], machines=2, size=100.0)
        result = gs.simulate(scenario, gs.JoinShortestQueue(instant=True, age=5.0), record="decisions")
        placed.append(result.tables["decisions"]["machine"].tolist())
    late, early = placed
    assert late[0] != late[1] and early[0] == late[0]


def test_failed_machine_is_shown_as_infinitely_loaded() -> None:
    faults = gs.Faults.of([1], [0.0], [1000.0])
    release = np.arange(8) + 3.0
    result = gs.simulate(
        jobs(release, machines=2, faults=faults), gs.JoinShortestQueue(instant=True, age=2.0)
    )
    assert result.machines["tasks"].tolist() == [8, 0] and result.summary()["resubmitted"] == 0


def test_join_idle_queue_uses_each_report_once() -> None:
    scheduler = gs.JoinIdleQueue(instant=True, dispatchers=1)
    result = gs.simulate(jobs(np.arange(5) + 1.0), scheduler)
    assert result.machines["tasks"].tolist() == [1] * 5
    sent = dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))
    assert sent["free"] >= 4  # reports of the dispatcher to itself are not messages


def test_remembered_machine_shortens_response_times() -> None:
    """If one node places all tasks, a random and a remembered machine are nearly as good as two choices."""
    rng = np.random.default_rng(1)
    release = np.cumsum(rng.exponential(1 / 9.0, 3000))
    scenario = jobs(release, machines=10, size=0.9)
    memoryless, remembering = (
        response(gs.simulate(scenario, gs.PowerOfD(instant=True, choices=1, memory=memory))).mean()
        for memory in (0, 1)
    )
    assert remembering < 0.7 * memoryless


def test_idle_machines_steal_half_of_the_waiting_tasks() -> None:
    workload = gs.Workload.of([0.0], [64], [10.0], submitter=[0])
    scenario = gs.Scenario(gs.Platform.of([1.0] * 8), workload, gs.Network(latency=0.01), seed=1)
    result = gs.simulate(scenario, gs.WorkStealing(pause=0.5))
    assert result.applications["finish"][0] < 110.0 and result.machines["tasks"].min() >= 6


def test_the_board_requires_a_board_scheduler() -> None:
    class Node(gs.NodeProgram):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            view.publish(self.parameters.value)

    for base, value, message in (
        (
            gs.NodeScheduler,
            1.0,
            "node 0 uses the board, which requires a BoardScheduler",
        ),
        (gs.BoardScheduler, float("nan"), "node 0 publishes .* value must be"),
    ):
        fields = {"__annotations__": {"value": float}, "value": value, "policy": Node}
        scheduler = type("Own", (base,), fields, frozen=True, kw_only=True)()
        with pytest.raises(gs.SchedulerError, match=message):
            gs.simulate(jobs([0.0]), scheduler)


def test_each_task_of_a_large_bag_is_placed_by_all_answers() -> None:
    scenario = gs.Scenario(gs.Platform.of([1.0] * 50), gs.Workload.of([1.0], [2000], [10.0]), seed=1)
    result = gs.simulate(scenario, gs.PowerOfD(choices=3, memory=1), record="decisions")
    decisions = result.tables["decisions"]
    assert decisions["among"].tolist() == [4] * 2000


def test_a_dispatcher_uses_all_reports_of_idle_machines() -> None:
    """All 400 machines have reported to machine 0 before 400 tasks arrive there."""
    scenario = jobs([0.0, *[60.0] * 400], machines=400)
    result = gs.simulate(scenario, gs.JoinIdleQueue(dispatchers=1))
    assert sorted(result.machines["tasks"].tolist()) == [1] * 399 + [2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [
        *(cls(instant=instant) for cls in CLASSICS for instant in (False, True)),
        gs.PowerOfD(memory=2),
        gs.JoinIdleQueue(dispatchers=1),
        gs.JoinShortestQueue(age=3.0, refresh="periodic", choices=2),
        gs.LeastWork(age=20.0, refresh="individual", error=0.3),
    ],
)
def test_the_schedulers_keep_the_invariants(scheduler: Classic | BoardPlacement) -> None:
    report = check_scheduler(scheduler, examples=8, hash_seeds=False)
    assert not report.not_compiled and "resumed" not in report.left_out
