"""Jobs that move: simulated results are sound, and each wrong row of their table is detected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gridsim as gs
from gridsim.results.table import digest
from gridsim.validation.common import Violation
from gridsim.validation.results import validate_result

FIFO = gs.Network(latency=0.5, jitter=0.3, bandwidth=1000.0)
JITTER = gs.Network(latency=0.5, jitter=0.3, bandwidth=1000.0, interfaces="equal")
EQUAL = gs.Network.star(bandwidth=5000.0)


def streams(network: gs.Network = EQUAL) -> gs.Scenario:
    """Return a scenario of jobs of one task that queue."""
    jobs = gs.Workload.job_streams(horizon=150.0, interarrival=20.0, processing_time=25.0, seed=5)
    return gs.Scenario(gs.Platform.normal(12, 5), jobs, network, seed=5)


def bags(network: gs.Network = EQUAL, *, unequal: bool = False) -> gs.Scenario:
    """Return a scenario of applications of several tasks with data, some released at once."""
    release, tasks, home = [0.0, 0.0, 3.0, 7.5, 30.0], [3, 5, 1, 4, 2], [0, 1, 1, 2, 0]
    size = np.linspace(300.0, 900.0, 15)
    bag = gs.Workload.of(release, tasks, 500.0, home, [0, 900, 100, 0, 2500])
    if unequal:
        bag = gs.Workload.of_tasks(release, np.split(size, np.cumsum(tasks)[:-1]), home)
    return gs.Scenario(gs.Platform.of([80.0, 100.0, 130.0, 100.0, 55.5]), bag, network, seed=2)


SCENARIOS = {
    "equal": streams(),
    "fifo": streams(FIFO),
    "jitter": streams(JITTER),
    "no transmission": streams(gs.Network(latency=0.0, bandwidth=float("inf"))),
    "bags": bags(),
    "bags, fifo": bags(FIFO),
    "unequal": bags(unequal=True),
    "one node": gs.Scenario(gs.Platform.of([90.0]), gs.Workload.of([0.0, 1.0], [2, 1], 400.0, [0, 0])),
}
SCHEDULERS: dict[str, gs.Scheduler] = {
    "rjss": gs.Rjss(k=0.3),
    "best": gs.Rjss(k=1.0, pick="best", rule="none"),
    "late": gs.Rjss(k=0.5, probe_latency=0.7),
    "busy": gs.Rjss(k=0.8, probe_latency=2.5, pick="best"),
    "parallel": gs.Rjss(k=0.8, probe_latency=2.5, pick="best", dispatcher="parallel"),
    "network": gs.Rjss(k=0.5, probe_latency="network", rule="none", pick="best"),
    "overlay": gs.Rjss(k=0.9, overlay=2, rule="none"),
    "late overlay": gs.ResourceExclusion(k=0.4, overlay=3, probe_latency=0.25),
    "exclusion": gs.ResourceExclusion(k=0.3),
    "fastest": gs.ResourceExclusion(k=0.3, reading="fastest"),
    "printed": gs.Rjss(k=0.3, turnaround="printed", local_threshold=0.0),
    "no probes": gs.Rjss(k=0.0),
    "no-migration": gs.NoMigration(),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_simulated_results_are_sound(scenario: str, scheduler: str) -> None:
    result = gs.simulate(SCENARIOS[scenario], SCHEDULERS[scheduler], record=True)
    assert validate_result(result) == []
    assert validate_result(without_record(result)) == []


def with_tables(result: gs.Result, tables: dict[str, gs.Table]) -> gs.Result:
    return gs.Result(
        tables=tables, facts=result.facts, scheduler=result.scheduler, provenance=result.provenance
    )


def without_record(result: gs.Result) -> gs.Result:
    kept = {name: t for name, t in result.tables.items() if name not in ("schedule", "arrivals")}
    return with_tables(result, kept)


def with_columns(result: gs.Result, **changes: dict[str, NDArray[Any]]) -> gs.Result:
    """Return the result with other columns and their digest."""
    tables = {
        name: gs.Table({**dict(table.items()), **changes.get(name, {})})
        for name, table in result.tables.items()
    }
    other = with_tables(result, tables)
    plain = {name: t for name, t in tables.items() if name not in ("schedule", "arrivals")}
    other.stated_digest = digest(plain, result.facts)
    return other


def with_increment(result: gs.Result, table: str, column: str, k: int, more: float) -> gs.Result:
    values = result.tables[table][column].copy()
    values[k] += more
    return with_columns(result, **{table: {column: values}})


def laws(violations: list[Violation]) -> set[tuple[str, str]]:
    return {(item.law, item.where) for item in violations}


RJSS = gs.simulate(SCENARIOS["equal"], SCHEDULERS["rjss"], record=True)
JOBS = RJSS.tables["jobs"]
MOVED_JOB = int(np.flatnonzero(~np.isnan(JOBS["predicted"]))[0])
STAYING_JOB = int(np.flatnonzero(np.isnan(JOBS["predicted"]))[0])


@pytest.mark.parametrize("more", [-0.1, 0.1])
def test_wrong_duration_of_a_moved_job_is_detected(more: float) -> None:
    """With jitter, start and end of a moved job are only bounded, but its duration is exact."""
    result = without_record(gs.simulate(SCENARIOS["jitter"], SCHEDULERS["rjss"], record=True))
    jobs = result.tables["jobs"]
    k = int(np.flatnonzero(~np.isnan(jobs["predicted"]))[0])
    violations = laws(validate_result(with_increment(result, "applications", "first_start", k, more)))
    assert violations == {("duration", f"applications[{k}]")}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("column", "k", "more", "law"),
    [
        ("turnaround", MOVED_JOB, 100.0, ("jobs", "jobs.turnaround[{k}]")),
        ("turnaround", MOVED_JOB, -1e-6, ("jobs", "jobs.turnaround[{k}]")),
        ("turnaround", STAYING_JOB, 1e-6, ("jobs", "jobs.turnaround[{k}]")),
        ("turnaround", STAYING_JOB, np.nan, ("jobs", "jobs.turnaround[{k}]")),
        ("waited", MOVED_JOB, 100.0, ("jobs", "jobs.turnaround[{k}]")),
        ("waited", STAYING_JOB, 1e-6, ("agreement", "applications.first_start[{k}]")),
        ("waited", STAYING_JOB, -1000.0, ("jobs", "jobs.waited[{k}]")),
        ("waited", STAYING_JOB, np.nan, ("jobs", "jobs.waited[{k}]")),
        ("machine", int(np.flatnonzero(JOBS["machine"] < 11)[0]), 1, ("agreement", "machines.tasks[")),
        ("machine", MOVED_JOB, -99, ("unknown", "jobs.machine[{k}]")),
        ("machine", MOVED_JOB, 99, ("unknown", "jobs.machine[{k}]")),
        ("probes", MOVED_JOB, 99, ("jobs", "jobs.probes[{k}]")),
        ("probes", MOVED_JOB, -99, ("jobs", "jobs.probes[{k}]")),
        ("probes", MOVED_JOB, 1 if JOBS["probes"][MOVED_JOB] < 4 else -1, ("messages", "messages.sent[")),
        ("probes", STAYING_JOB, -1, ("jobs", "jobs.probes[{k}]")),
        ("predicted", MOVED_JOB, -1000.0, ("jobs", "jobs.predicted[{k}]")),
        ("predicted", MOVED_JOB, np.nan, ("jobs", "jobs.predicted[{k}]")),
        ("application", MOVED_JOB, 1, ("jobs", "jobs.application[{k}]")),
    ],
)
def test_wrong_value_of_a_job_is_detected(
    column: str, k: int, more: float, law: tuple[str, str], recorded: bool
) -> None:
    result = RJSS if recorded else without_record(RJSS)
    violations = laws(validate_result(with_increment(result, "jobs", column, k, more)))
    name, location = law
    assert any(name == item and place.startswith(location.format(k=k)) for item, place in violations), (
        violations
    )


@pytest.mark.parametrize("scenario", ["equal", "bags"])
def test_waits_for_a_dispatcher_are_checked(scenario: str) -> None:
    """With another dispatcher, jobs and results would have other waits."""
    for scheduler, other in (("busy", "parallel"), ("parallel", "queue")):
        result = gs.simulate(SCENARIOS[scenario], SCHEDULERS[scheduler])
        parameters = {**result.scheduler["parameters"], "dispatcher": other}
        wrong = gs.Result(
            tables=result.tables, facts=result.facts, provenance=result.provenance,
            scheduler={**result.scheduler, "parameters": parameters},
        )  # fmt: skip
        assert any(location.startswith("jobs.turnaround") for _, location in laws(validate_result(wrong)))
    # change the job that stayed at home and whose result waited longest
    result = gs.simulate(SCENARIOS[scenario], SCHEDULERS["busy"])
    jobs = result.tables["jobs"]
    release, finish = (result.applications[name][jobs["application"]] for name in ("release", "finish"))
    k = int(np.argmax((release + jobs["turnaround"] - finish) * np.isnan(jobs["predicted"])))
    for more in (-1e-6, 1e-6):
        assert laws(validate_result(with_increment(result, "jobs", "turnaround", k, more)))


def test_moved_job_without_a_probe_is_detected() -> None:
    """A job moves only to a machine that it has probed, with any rule to pick it."""
    probes = JOBS["probes"].copy()
    probes[MOVED_JOB] = 0
    assert ("jobs", f"jobs.probes[{MOVED_JOB}]") in laws(
        validate_result(with_columns(RJSS, jobs={"probes": probes}))
    )


def test_prediction_for_a_job_that_stayed_is_detected() -> None:
    predicted = JOBS["predicted"].copy()
    predicted[STAYING_JOB] = 0.0
    (violation,) = validate_result(with_columns(RJSS, jobs={"predicted": predicted}))
    assert (violation.law, violation.where) == ("jobs", f"jobs.predicted[{STAYING_JOB}]")
    assert violation.message == "must be nan, since the job stayed, got 0.0 s"


def test_missing_row_of_jobs_is_detected() -> None:
    jobs = gs.Table({name: values[1:] for name, values in JOBS.items()})
    (violation,) = validate_result(with_tables(RJSS, {**RJSS.tables, "jobs": jobs}))
    count = len(JOBS)
    assert str(violation) == f"jobs: jobs: has {count - 1} rows, but the applications have {count} tasks"


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_wrong_number_of_messages_is_detected(kind: int) -> None:
    more = {name: RJSS.messages[name] + (np.arange(4) == kind) for name in ("sent", "delivered")}
    violations = validate_result(with_columns(RJSS, messages=more))
    assert laws(violations) == {("messages", f"messages.sent[{kind}]")}


def test_transfer_times_outside_their_bounds_are_detected() -> None:
    """Transfers that wait for interfaces have a lower bound, and transfers with jitter have two bounds."""
    for name, more, right in (
        ("fifo", 5.0, False),
        ("fifo", 5000.0, True),
        ("fifo", -1.3, True),
        ("jitter", 0.5, False),
        ("jitter", 1.3, True),
        ("jitter", -1.3, True),
    ):
        result = gs.simulate(SCENARIOS[name], SCHEDULERS["best"])
        jobs = result.tables["jobs"]
        finish, release, data = (result.applications[item] for item in ("finish", "release", "data"))
        time = jobs["turnaround"] - (finish - release) - data / 1000.0  # the latency of its result
        k = int(np.argmin(np.where(np.isnan(jobs["predicted"]), np.inf, time)))
        violations = laws(validate_result(with_increment(result, "jobs", "turnaround", k, more)))
        assert bool(violations) is right, (name, more, violations)


def with_swapped_jobs(result: gs.Result) -> gs.Result:
    """Return the result with two jobs swapped in a queue; all tables agree."""
    jobs, applications = result.tables["jobs"], result.applications
    start, finish = applications["first_start"].copy(), applications["finish"].copy()
    waited, turnaround = jobs["waited"].copy(), jobs["turnaround"].copy()
    arrival = start - waited
    a, b = next(
        (a, b)
        for a in range(len(jobs))
        for b in range(len(jobs))
        if jobs["machine"][a] == jobs["machine"][b]
        and arrival[a] < arrival[b] < start[a] - 1.0
        and abs(finish[a] - start[b]) < 1e-9
        and np.isnan(jobs["predicted"][[a, b]]).all()
    )
    run = finish - start
    start[b], start[a] = start[a], start[a] + run[b]
    for k in (a, b):
        finish[k] = start[k] + run[k]
        waited[k], turnaround[k] = start[k] - arrival[k], finish[k] - applications["release"][k]
    stretch = (finish - applications["release"]) / applications["size"]
    changes: dict[str, dict[str, NDArray[Any]]] = {
        "jobs": {"waited": waited, "turnaround": turnaround},
        "applications": {
            "first_start": start,
            "finish": finish,
            "stretch": stretch,
            "stretch_agg": stretch * result.aggregate_speed,
        },
    }
    if "schedule" in result.tables:
        job = result.tables["schedule"]["application"]
        changes["schedule"] = {"start": start[job], "end": finish[job]}
    return with_columns(result, **changes)


@pytest.mark.parametrize("recorded", [True, False])
def test_swapped_jobs_in_a_queue_are_detected(recorded: bool) -> None:
    result = gs.simulate(SCENARIOS["equal"], gs.Rjss(k=0.1), record=recorded)
    assert validate_result(result) == []
    assert {law for law, _ in laws(validate_result(with_swapped_jobs(result)))} == {"order"}


def test_arrivals_out_of_order_are_detected() -> None:
    arrivals = {name: values[::-1] for name, values in RJSS.tables["arrivals"].items()}
    violations = laws(validate_result(with_columns(RJSS, arrivals=arrivals)))
    assert {law for law, _ in violations} == {"order"} and ("order", "arrivals[1]") in violations


def test_arrival_that_contradicts_the_wait_is_detected() -> None:
    """The job arrives at another time than its wait implies."""
    result = gs.simulate(SCENARIOS["equal"], gs.NoMigration(), record=True)
    arrivals, release = result.tables["arrivals"], result.applications["release"]
    k = int(np.flatnonzero(result.tables["jobs"]["waited"] > 1.0)[0])
    row = int(np.flatnonzero(arrivals["application"] == k)[0])
    time = arrivals["time"].copy()
    time[row] += 1e-6
    assert time[row] <= release[k + 1]
    violations = validate_result(with_columns(result, arrivals={"time": time}))
    assert laws(violations) == {("jobs", f"jobs.waited[{k}]")}


def test_tasks_on_other_machines_than_in_jobs_are_detected() -> None:
    """Two tasks of the same duration swap machines in the table ``jobs`` only."""
    result = gs.simulate(SCENARIOS["bags"], gs.Rjss(k=1.0, rule="none"), record=True)
    machine = result.tables["jobs"]["machine"].copy()
    equal = np.flatnonzero((machine == 1) | (machine == 3))  # machines 1 and 3 have equal speeds
    machine[equal] = 4 - machine[equal]
    violations = laws(validate_result(with_columns(result, jobs={"machine": machine})))
    assert any(law == "agreement" and "on machine 1" in location for law, location in violations), violations


def test_idle_gap_in_a_queue_is_detected() -> None:
    """The machine is idle although its queue has a task."""
    result = gs.simulate(SCENARIOS["bags"], gs.NoMigration(), record=True)
    schedule = result.tables["schedule"]
    last = int(np.flatnonzero(schedule["machine"] == 1)[-1])
    later = {name: schedule[name] + (np.arange(len(schedule)) == last) for name in ("start", "end")}
    violations = laws(validate_result(with_columns(result, schedule=later)))
    assert ("order", f"schedule[{last}]") in violations


def test_message_lists_only_the_tasks_near_a_violation() -> None:
    scenario = gs.Scenario(gs.Platform.of([100.0]), gs.Workload.of(list(range(30)), 1, 500.0, [0] * 30))
    result = gs.simulate(scenario, gs.NoMigration(), record=True)
    arrivals = result.tables["arrivals"]
    order = np.arange(30)
    order[[20, 21]] = 21, 20
    other = {name: arrivals[name][order] for name in ("application", "time")}
    text = [
        item for item in validate_result(with_columns(result, arrivals=other)) if item.where == "machine 0"
    ]
    assert text[0].message == (
        "runs tasks of applications [..., 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, ...], "
        "but they arrived as [..., 19, 21, 20, 22, 23, 24, 25, 26, 27, 28, ...]"
    )


def test_missing_table_of_jobs_is_detected() -> None:
    result = gs.simulate(SCENARIOS["bags"], gs.Rjss(k=1.0))
    tables = {name: table for name, table in result.tables.items() if name != "jobs"}
    assert ("jobs", "jobs") in laws(validate_result(with_tables(result, tables)))
