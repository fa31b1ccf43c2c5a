"""One wrong value of a small recorded schedule is detected by a single check."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.validation.common import Violation
from gridsim.validation.results import validate_result


def violations_after_change(
    result: gs.Result, table: str, column: str, k: int, value: Any
) -> list[Violation]:
    """Return the violations of a sound result after a change of one value in row `k`."""
    assert validate_result(result) == []
    columns = {name: values.copy() for name, values in result.tables[table].items()}
    columns[column][k] = value
    altered = gs.Result(
        tables={**result.tables, table: gs.Table(columns)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )
    return validate_result(altered)


def test_early_end_of_an_interrupted_rigid_job_is_detected() -> None:
    """Machine 0 is reset at 5 s, so the job must end on machine 1 at 5 s, not at 4 s."""
    jobs = gs.Workload.jobs_of([0.0], [2], [20.0])
    resets = gs.Faults.of([0], [5.0], [5.0])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs, faults=resets), gs.BatchQueue(), record=True)
    schedule = result.tables["schedule"]
    (k,) = np.flatnonzero((schedule["machine"] == 1) & (schedule["completed"] == 0))
    assert schedule["end"][k] == 5.0
    violations = {item.law: item for item in violations_after_change(result, "schedule", "end", k, 4.0)}
    assert violations["cut off"].where == f"schedule[{k}]"
    assert "interrupted at 4.0 s, but machine 1 does not fail then" in str(violations["cut off"])


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ({"memory": 2e9}, "application 0 needs 2e+09 bytes of memory, but machine 1 has 1e+09"),
        ({"kinds": "a"}, "application 0 requires machines of kind 'a', but machine 1 is of kind 'b'"),
    ],
)
def test_job_on_an_unsuitable_machine_is_detected(requirement: dict[str, Any], message: str) -> None:
    own = gs.ListedAttributes(memory=(2e9, 1e9), kinds=("a", "b"))
    jobs = gs.Workload.jobs_of([0.0], 1, 20.0, **requirement)
    scenario = gs.Scenario(gs.Platform.equal(2, attributes=own), jobs)
    for scheduler in (gs.Asap(), gs.DgsAsap()):
        result = gs.simulate(scenario, scheduler, record=True)
        violations = {item.law: item for item in violations_after_change(result, "schedule", "machine", 0, 1)}
        assert violations["constraint"].where == "schedule[0]" and violations["constraint"].message == message


@pytest.mark.parametrize("name", ["memory", "disk"])
def test_task_on_a_machine_without_memory_or_disk_is_detected(name: str) -> None:
    own = gs.ListedAttributes(memory=(2e9, 1e9), disk=(2e9, 1e9))
    bags = gs.Workload.of([0.0], 1, 20.0, **{name: 2e9})
    scenario = gs.Scenario(gs.Platform.of([1.0, 1.0]).with_attributes(own), bags)
    for scheduler in (gs.FairTree(), gs.Fcfs()):
        result = gs.simulate(scenario, scheduler, record=True)
        violations = {item.law: item for item in violations_after_change(result, "schedule", "machine", 0, 1)}
        text = f"application 0 needs 2e+09 bytes of {name}, but machine 1 has 1e+09"
        assert violations["constraint"].where == "schedule[0]" and violations["constraint"].message == text


def test_wrong_distances_of_placements_are_detected() -> None:
    own = gs.ListedAttributes(x=(0.0, 3.0, 9.0), y=(0.0, 4.0, 0.0))
    jobs = gs.Workload.jobs_of([0.0, 100.0], [2, 1], 20.0)
    scenario = gs.Scenario(gs.Platform.equal(3, attributes=own), jobs)
    for scheduler in (gs.Asap(), gs.DgsAcap()):
        result = gs.simulate(scenario, scheduler, record=True)
        assert result.tables["placements"]["distance"].tolist() == [5.0, 0.0]
        (violation,) = violations_after_change(result, "placements", "distance", 0, 5.5)
        assert str(violation) == "agreement: placements.distance[0]: is 5.5, but the schedule gives 5.0"
        (violation,) = violations_after_change(result, "placements", "application", 1, 0)
        assert violation.where == "placements.application"


class ForwardingNode(gs.NodeProgram):
    """Node that enqueues tasks, withdraws two of them at once, and sends these to its neighbour."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.send(view.neighbours[0], "share", application=0, tasks=view.take(application.number, 2))

    def on_message(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class ForwardingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "passes"
    policy = ForwardingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int)
    }


def test_wrong_withdrawals_are_detected() -> None:
    """Machine 0 withdraws 2 of 3 tasks; if machines may fail, the third one need not start."""
    bag, never = gs.Workload.of([0.0], [3], 1000.0, [0]), gs.Faults.of([0], [1e6], [1e6])
    for faults in (None, never):
        result = gs.simulate(
            gs.Scenario(gs.Platform.equal(2), bag, faults=faults), ForwardingScheduler(), record=True
        )
        assert result.tables["arrivals"]["tasks"].tolist() == [3, -2, 2]
        violations = violations_after_change(result, "arrivals", "tasks", 1, -4)
        assert {item.law for item in violations} == {"arrival", "agreement"}
        assert any(
            "arrivals[1]: 4 tasks of application 0 leave machine 0, more than" in str(e) for e in violations
        )
        violations = violations_after_change(result, "arrivals", "tasks", 1, -1)
        assert ("arrival", "application 0") in {(item.law, item.where) for item in violations}
        violations = violations_after_change(result, "applications", "nodes_used", 0, 1)
        assert ("agreement", "applications.nodes_used[0]") in {(item.law, item.where) for item in violations}


def test_too_many_arrivals_are_detected() -> None:
    """If machines may fail, an arrived task need not start, but a fourth arrival is an error."""
    bag, never = gs.Workload.of([0.0], [3], 1000.0), gs.Faults.of([0], [1e6], [1e6])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(1), bag, faults=never), gs.Fcfs(), record=True)
    assert result.tables["arrivals"]["tasks"].tolist() == [3]
    (violation,) = violations_after_change(result, "arrivals", "tasks", 0, 4)
    assert (violation.law, violation.where) == ("arrival", "application 0")
    assert "4 tasks have arrived, but it has 3, and 0 were submitted again" in str(violation)


def test_lost_request_of_an_application_is_no_violation() -> None:
    """Both machines fail at 0 s, so the first accepted request is for lost tasks, at 300 s."""
    scenario = gs.Scenario(
        gs.Platform.equal(2),
        gs.Workload.of([0.0], 6, 100.0),
        gs.Network(latency=0.0, bandwidth=float("inf")),
        faults=gs.Faults.of([0, 1], [0.0, 0.0], [0.0, 0.0]),
    )
    tree = gs.FairTree(bound=0.0, update_rate=0.0, heartbeat=300.0, repair=3.0, resubmit="new")
    result = gs.simulate(scenario, tree, record=True)
    assert result.tables["requests"]["release"].tolist() == [300.0]
    assert validate_result(result) == []
