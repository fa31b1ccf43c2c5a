"""Recorded decisions of RJSS and compared schedulers: values computed by hand, and no effect on runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.testing.resuming import resume_difference

#: A message of b bytes takes 1 s + b ms.
SECOND = gs.Network(latency=1.0, bandwidth=1000.0, interfaces="equal")


def run_with_decisions(
    scheduler: gs.Scheduler,
    release: list[float],
    home: list[int],
    size: list[float],
    speeds: tuple[float, ...] = (100.0, 200.0),
    data: int = 0,
    network: gs.Network = SECOND,
) -> list[dict[str, Any]]:
    jobs = gs.Workload.of(release, 1, size, home, data, origin=0.0)
    scenario = gs.Scenario(gs.Platform.of(speeds), jobs, network, seed=1)
    result = gs.simulate(scenario, scheduler, record="decisions")
    assert result.digest == gs.simulate(scenario, scheduler).digest
    table = result.tables["decisions"]
    return [row for i in range(len(release)) for row in result.why(i).decisions.rows()][: len(table)]


def decision_columns(rows: list[dict[str, Any]], job: int, *names: str) -> list[tuple[Any, ...]]:
    selection = [row for row in rows if row["application"] == job]
    return [tuple(row[n] if n == "action" else round(row[n], 6) for n in names) for row in selection]


COMPARED = "action", "machine", "saw", "limit", "true", "age"


def test_move_is_recorded_with_its_reason() -> None:
    """The job takes 10 s at home, or 1.1 s to go, 5 s at node 1, and 1.1 s back."""
    rows = run_with_decisions(gs.Rjss(k=1.0), [0.0], [0], [1000.0], data=100)
    assert decision_columns(rows, 0, *COMPARED) == [
        ("earlier", 1, 7.2, 10.0, 7.2, 0.0), ("moved", 1, 7.2, 10.0, 7.2, 0.0)
    ]  # fmt: skip
    assert decision_columns(rows, 0, "time", "decider", "task", "tasks", "among") == [
        (0, 0, 0, 1, -1),
        (0, 0, 0, 1, 1),
    ]
    # the job would take 2.5 s each way, and so as long as at home
    rows = run_with_decisions(gs.Rjss(k=1.0), [0.0], [0], [1000.0], data=1500)
    assert decision_columns(rows, 0, *COMPARED) == [
        ("later", 1, 10.0, 10.0, 10.0, 0.0), ("stayed", 0, 10.0, 10.0, 10.0, 0.0)
    ]  # fmt: skip


def test_decision_records_the_stale_and_the_true_value() -> None:
    """A probe takes 2 s.  Machine 1 is probed at 1.5 s and idle; at 2 s it begins a job of 20 s."""
    rows = run_with_decisions(gs.Rjss(k=1.0, probe_latency=2.0), [0.0, 0.5], [1, 0], [4000.0, 1000.0])
    # a job that leaves at 2.5 s arrives at 3.5 s and waits until 22 s: the wait of 18.5 s, 5 s, and two ways
    # of 1 s
    moved = (1, 7.0, 10.0, 25.5, 1.0)
    assert decision_columns(rows, 1, *COMPARED) == [("earlier", *moved), ("moved", *moved)]
    assert decision_columns(rows, 1, "time") == [(2.5,), (2.5,)]
    # the job takes 40 s there and two ways, or 20 s at home
    assert decision_columns(rows, 0, *COMPARED) == [
        ("later", 0, 42.0, 20.0, 42.0, 1.0), ("stayed", 1, 20.0, 42.0, 20.0, 0.0)
    ]  # fmt: skip


def test_rejected_nodes_are_recorded_with_reasons() -> None:
    """Two jobs at node 1 in 2 s, and 1.1 s in transit: another has probability 1 - exp(-1.1)."""
    release, home, size = [1.0, 1.0, 2.0], [1, 1, 0], [1.0, 1.0, 1000.0]
    for rule, rng in (("at-least-one", 1 - math.exp(-1.1)), ("exactly-one", 1.1 * math.exp(-1.1))):
        scheduler = gs.Rjss(k=1.0, rule=rule, local_threshold=0.3)  # type: ignore[arg-type]
        rows = run_with_decisions(scheduler, release, home, size, data=100)
        assert decision_columns(rows, 2, "action", "saw") == [
            ("earlier", 7.2), ("own", round(rng, 6)), ("stayed", 10.0)
        ]  # fmt: skip
    # one job was sent there in 3 s, and the move takes 1 s
    rows = run_with_decisions(gs.Rjss(k=1.0, remote_threshold=0.33), [2.0, 3.0], [0, 0], [1000.0, 5000.0])
    assert decision_columns(rows, 1, "action", "saw", "limit")[1] == ("others", 0.333333, 0.33)
    rows = run_with_decisions(gs.ResourceExclusion(k=1.0, min_speed=250.0), [0.0], [0], [1000.0])
    assert decision_columns(rows, 0, *COMPARED)[1] == ("slow", 1, 200.0, 250.0, 200.0, 0.0)
    rows = run_with_decisions(gs.ResourceExclusion(k=1.0, reading="fastest"), [0.0], [0], [10.0])
    assert decision_columns(rows, 0, *COMPARED)[-1] == ("fastest", 1, 200.0, 100.0, 200.0, 0.0)
    rows = run_with_decisions(gs.NoMigration(), [0.0, 0.0], [0, 0], [1000.0, 1000.0])
    assert decision_columns(rows, 1, *COMPARED[:3]) == [("stayed", 0, 20.0)]


def streams(congestion: float, **workload: Any) -> gs.Scenario:
    usual = {"horizon": 60.0, "interarrival": 20.0, "processing_time": 16.0, "seed": 5}
    jobs = gs.Workload.job_streams(**{**usual, **workload})
    return gs.Scenario(gs.Platform.normal(40, 5), jobs, gs.Network.star(congestion=congestion), seed=5)


@pytest.mark.parametrize(
    "scheduler",
    [
        gs.Rjss(k=0.3, rule="at-least-one"),
        gs.Rjss(k=0.3, pick="best", probe_latency=0.5),
        gs.Rjss(k=0.3, probe_latency="network", turnaround="printed"),
        gs.Rjss(k=0.5, overlay=3),
        gs.ResourceExclusion(k=0.3),
        gs.ResourceExclusion(k=0.3, reading="fastest"),
        gs.NoMigration(),
    ],
    ids=str,
)
@pytest.mark.parametrize("congestion", [1.0, 9.0])
def test_decisions_agree_with_those_of_the_kernel(scheduler: gs.Scheduler, congestion: float) -> None:
    scenario = streams(congestion)
    plain, noted = (gs.simulate(scenario, scheduler, record=record) for record in (False, "decisions"))
    assert noted.digest == plain.digest and "decisions" not in plain.tables
    table, jobs = noted.tables["decisions"], noted.tables["jobs"]
    action, job = table["action"], table["application"]
    last = np.isin(action, ["moved", "fastest", "stayed"])
    assert sorted(job[last].tolist()) == list(range(len(jobs)))
    assert (table["machine"][last] == jobs["machine"][job[last]]).all()
    fresh = (table["age"] == 0) & ~np.isnan(table["true"])
    assert (table["saw"] == table["true"])[fresh].all()
    if getattr(scheduler, "probe_latency", 0.0) == 0:
        assert (table["age"] == 0).all()
    if isinstance(scheduler, gs.Rjss):
        moves = action == "moved"
        assert (table["saw"] < table["limit"])[moves].all() and moves.any()
        if scheduler.pick == "first":
            # a job moves to the first node with an earlier return, unless the conditions on arrivals reject
            # the node
            follows = np.append(action[1:], "")
            good = (action == "earlier") & ~np.isin(follows, ["own", "others"])
            assert job[good].tolist() == job[moves].tolist()
            assert (table["machine"][good] == table["machine"][moves]).all()
        # the expected turnaround is the wait that the kernel predicted, the run time, and both ways
        if scheduler.turnaround == "complete":
            speed = noted.machines["speed"][table["machine"][moves]]
            completed = jobs["predicted"][job[moves]] + noted.applications["size"][job[moves]] / speed
            ways = (table["saw"][moves] - completed) / 2
            network = scenario.network
            carried = noted.applications["data"][job[moves]] / network.bandwidth
            assert np.allclose(ways, network.latency + carried, atol=1e-8)
    few = gs.simulate(scenario, scheduler, record="decisions", decisions_limit=5)
    assert few.digest == plain.digest and len(few.tables["decisions"]) == 5
    assert few.why(0).dropped >= len(jobs) - 5


def test_decisions_name_tasks_and_are_restored_from_a_checkpoint() -> None:
    bags = gs.Workload.of_tasks([0.0, 50.0], [[2000.0, 100.0], [100.0, 2000.0]], [0, 0])
    scenario = gs.Scenario(gs.Platform.of([100.0, 400.0]), bags, SECOND, seed=1)
    scheduler = gs.Rjss(k=1.0, rule="none", probe_latency=0.25)
    result = gs.simulate(scenario, scheduler, record="decisions")
    assert [row["action"] for row in result.why(0, task=0).decisions.rows()] == ["earlier", "moved"]
    assert [row["action"] for row in result.why(0, task=1).decisions.rows()] == ["later", "stayed"]
    scenario = streams(1.0)
    result = gs.simulate(scenario, scheduler, record="decisions")
    assert resume_difference(scenario, scheduler, result, record="decisions") is None
