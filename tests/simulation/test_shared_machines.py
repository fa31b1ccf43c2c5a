"""Rigid jobs that share machines: valid runs, equality with machines that run one job, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.validation.test_jobs import with_columns


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    """Draw jobs that share machines, some of which fail."""
    machines, count = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    cores = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=machines, max_size=machines))
    platform = gs.Platform.equal(machines, 1000.0, cores=cores, memory=16.0, gpus=draw(st.integers(0, 2)))
    alone = draw(st.booleans())
    run = draw(st.lists(st.sampled_from([1.0, 6.0, 10.0]), **numbers))
    gpus = draw(st.lists(st.integers(0, 1), **numbers)) if platform.gpus is not None else [0] * count
    jobs = gs.Workload.jobs_of(
        sorted(draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 10.0]), **numbers))),
        draw(st.lists(st.integers(1, 1 if alone else machines), **numbers)),
        run,
        draw(st.one_of(st.just(run), st.lists(st.sampled_from([2.0, 6.0, 20.0]), **numbers))),
        cores=draw(st.lists(st.integers(1, 2), **numbers)),
        memory=draw(st.lists(st.sampled_from([0.0, 3.0, 8.0, 16.0]), **numbers)),
        gpus=gpus,
        tasks_per_machine=draw(st.lists(st.integers(0, 2), **numbers)),
        exclusive=draw(st.lists(st.integers(0, 5).map(lambda k: int(k == 0)), **numbers)),
        user=draw(st.lists(st.integers(0, 2), **numbers)),
    )
    faults = None
    if machines > 1 and draw(st.booleans()):
        faults = gs.Faults.of(*zip(*((u, 3.0 + u, 9.0 + 2 * u) for u in range(machines - 1)), strict=True))
    return gs.Scenario(platform, jobs, gs.Network(latency=0.0), faults=faults)


@settings(max_examples=80, deadline=None)
@given(
    scenario=scenarios(),
    backfill=st.sampled_from(["none", "easy", "easy"]),
    placement=st.sampled_from(["first", "best", "spread"]),
    order=st.sampled_from(["fcfs", "sjf", "largest", "multifactor"]),
    kill=st.sampled_from(["never", "at-limit"]),
    limit=st.sampled_from([None, 12]),
)
def test_runs_are_valid(
    scenario: gs.Scenario, backfill: Any, placement: Any, order: Any, kill: Any, limit: int | None
) -> None:
    queue = gs.BatchQueue(backfill=backfill, placement=placement, order=order, kill=kill, user_limit=limit)
    assert validate_result(gs.simulate(scenario, queue, record="schedule")) == []


def parallel_jobs(exclusive: bool) -> gs.Workload:
    return gs.Workload.jobs(jobs=300, seed=2, utilization=0.8, max_nodes=20, exclusive=exclusive)


def test_exclusive_jobs_start_as_on_machines_that_run_one_job() -> None:
    """A job of p processors takes ceil(p / 4) machines of 4 cores, and EASY reserves certain machines."""
    shared = gs.Scenario(gs.Platform.equal(10, cores=4), parallel_jobs(exclusive=True))
    ours = gs.simulate(shared, gs.BatchQueue())
    table = ours.applications
    jobs = gs.Workload.jobs_of(
        table["release"], -(-table["tasks"] // 4), table["run_time"], table["requested"]
    )
    other = gs.simulate(gs.Scenario(gs.Platform.equal(10), jobs), gs.BatchQueue(reserve="machines"))
    assert np.array_equal(table["first_start"], other.applications["first_start"])
    assert (
        ours.mean_waiting
        > gs.simulate(
            gs.Scenario(gs.Platform.equal(10, cores=4), parallel_jobs(exclusive=False)), gs.BatchQueue()
        ).mean_waiting
    )


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_a_queue_gives_each_job_whole_machines(backfill: Any) -> None:
    """A log of jobs that share nodes is compared with whole nodes by a parameter of the queue."""
    platform = gs.Platform.equal(10, cores=4)
    starts = [
        gs.simulate(
            gs.Scenario(platform, parallel_jobs(exclusive=exclusive)),
            gs.BatchQueue(backfill=backfill, exclusive=not exclusive),
        ).applications["first_start"]
        for exclusive in (False, True)
    ]
    assert np.array_equal(*starts)
    with pytest.raises(ScenarioError, match=r"backfill.exclusive does not support depth=2"):
        gs.BatchQueue(depth=2, exclusive=True)


def test_serial_jobs_fill_the_cores() -> None:
    jobs = gs.Workload.jobs_of([0.0] * 8, 1, 100.0)
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2, cores=4), jobs), "backfill")
    assert result.makespan == 100.0 and result.utilization == 1.0
    assert result.core_hours == pytest.approx(8 / 36) and result.machines["cores"].tolist() == [4, 4]


def small(**columns: Any) -> gs.Scenario:
    jobs = gs.Workload.jobs_of([0.0, 0.0, 1.0], [2, 1, 1], [9.0, 9.0, 9.0], **columns)
    return gs.Scenario(gs.Platform.equal(2, cores=4, memory=10.0), jobs)


@pytest.mark.parametrize(
    ("columns", "name"),
    [({"cores": [3, 1, 2]}, "cores"), ({"memory": [4.0, 6.0, 5.0]}, "memory"), ({"exclusive": 1}, "cores")],
)
def test_more_use_than_a_machine_has_is_found(columns: dict[str, Any], name: str) -> None:
    """The last job starts when it should wait."""
    result = gs.simulate(small(**columns), "backfill", record="schedule")
    assert validate_result(result) == []
    schedule = result.tables["schedule"]
    last = int(np.argmax(schedule["start"]))
    start, end = schedule["start"].copy(), schedule["end"].copy()
    start[last], end[last] = 1.0, 10.0
    machine = schedule["machine"].copy()
    machine[last] = 0
    columns = {"start": start, "end": end, "machine": machine}
    violations = validate_result(with_columns(result, schedule=columns))
    assert any(each.law == "overlap" and name in each.message for each in violations)


def test_resumed_run_equals_the_whole_run() -> None:
    scenario = small(cores=[3, 1, 2])
    result = gs.simulate(scenario, gs.BatchQueue(), record="schedule")
    assert resume_difference(scenario, gs.BatchQueue(), result, record="schedule") is None


def test_partitions_reject_jobs_that_have_no_room() -> None:
    jobs = gs.Workload.jobs_of([0.0] * 4, [1, 2, 1, 1], 9.0, cores=[4, 4, 1, 2], queue=[0, 0, 1, 1])
    scenario = gs.Scenario(gs.Platform.equal(3, cores=4), jobs)
    message = "1 of 4 jobs, .* % of the work, request more cores than it allows"
    with pytest.warns(gs.errors.SchedulerWarning, match=message):
        result = gs.simulate(scenario, gs.BatchQueue(partitions=(1, 2)))
    assert result.applications["failed"].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (
            gs.BatchQueue(backfill="conservative", order="sjf"),
            r"^deep does not support .* \(at most 1 of their tasks on it\) with backfill='conservative'; "
            r"backfill='easy' does$",
        ),
        (
            gs.BatchQueue(order="sjf", depth=3),
            r"^deep does not support jobs that need .* with depth=3; depth=1 does$",
        ),
        (gs.BatchQueue(depth=3, partitions=(1, 2)), r"^deep does not support .* with depth=3;"),
        (
            gs.DgsAsap(poll_period=9.0),
            r"^deep does not support jobs that need .*support them: backfill, backfill-fcfs, backfill-sjf$",
        ),
    ],
)
def test_runs_without_support_are_refused(scheduler: gs.Scheduler, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        gs.compare(small(), {"deep": scheduler})


@pytest.mark.parametrize(
    ("platform", "columns", "message"),
    [
        ({}, {"cores": [1, 2, 1]}, r"workload.cores\[1\] must be 1 unless machines have several cores"),
        ({}, {"gpus": [0, 0, 3]}, r"workload.gpus\[2\] must be 0 unless .*, got 3"),
        (
            {"cores": 4},
            {"cores": [1, 5, 1]},
            r"^job 1 \(workload.nodes\[1\]\) must fit .* room for 0 of its parts of 5 cores.* each, got 1$",
        ),
        ({"cores": 4}, {"memory": 1e9}, "platform.memory must be set for jobs that require memory, got none"),
        (
            {"cores": 4, "memory": 9.0},
            {"memory": 10.0},
            r"^job 0 .*, which have room for 0 of its parts of .*10 bytes of memory each, got",
        ),
        ({"cores": 4, "memory": [1.0, 2.0, 3.0]}, {}, "platform.memory must have 2 entries, one per machine"),
        ({"gpus": -1}, {}, "platform.gpus must be a whole number in 0..65536, got -1"),
    ],
)
def test_invalid_input_is_rejected(platform: Any, columns: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        jobs = gs.Workload.jobs_of([0.0, 0.0, 1.0], [2, 1, 1], [9.0, 9.0, 9.0], **columns)
        jobs.realize(gs.Platform.equal(2, **platform))


def test_exclusive_nodes_are_pointless_where_machines_are_not_shared() -> None:
    workload = gs.Workload.jobs_of(release=[0.0, 0.0], nodes=1, run_time=[10.0, 10.0])
    with pytest.warns(gs.SchedulerWarning, match=r"backfill.exclusive has no effect without machines that"):
        gs.simulate(gs.Scenario(gs.Platform.equal(2), workload), gs.BatchQueue(exclusive=True))
    gs.simulate(gs.Scenario(gs.Platform.equal(2, cores=2), workload), gs.BatchQueue(exclusive=True))


def test_partitions_are_in_nodes_where_each_core_is_a_machine() -> None:
    """Two jobs of queue 1 need 4 cores each: on a node of 4 cores they run one after the other."""
    jobs = gs.Workload.jobs_of([0.0] * 4, [4, 4, 4, 4], 9.0, queue=[0, 0, 1, 1], tasks_per_machine=[0] * 4)
    scenario = gs.Scenario(gs.Platform.equal(3, cores=[2, 6, 4]), jobs)
    result = gs.simulate(scenario, gs.BatchQueue(backfill="conservative", partitions=(2, 1)))
    assert result.applications["first_start"].tolist() == [0.0, 0.0, 0.0, 9.0]
