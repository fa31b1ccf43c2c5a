"""Tests of the scheduler in pigeon.py.  Run: pytest test_pigeon.py"""

from pigeon import Pigeon

import gridsim as gs


def test_a_reserved_worker_runs_short_tasks_only():
    """Two long applications fill one worker of the group; a short one gets the other at once."""
    workload = gs.Workload.of([0.0, 1.0, 2.0], [1, 1, 2], [9000.0, 9000.0, 100.0], origin=0.0)
    scenario = gs.Scenario(gs.Platform.equal(2, 100.0), workload, seed=1)
    result = gs.simulate(scenario, Pigeon(size=2, cutoff=100.0, reserved=1), record="schedule")
    starts = result.applications["first_start"].tolist()
    assert starts[1] > 90.0  # after the first long task
    assert 2.0 < starts[2] < 3.0


def test_a_long_task_is_served_after_some_short_ones():
    """With weight 2, the long task that waits is the third one that the only worker runs."""
    workload = gs.Workload.of([0.0, 0.1, 0.2], [1, 5, 1], [100.0, 100.0, 200.0], origin=0.0)
    scenario = gs.Scenario(gs.Platform.equal(1, 100.0), workload, seed=1)
    result = gs.simulate(scenario, Pigeon(cutoff=100.0, weight=2), record="schedule")
    schedule = result.tables["schedule"]
    order = [i for i, n in zip(schedule["application"], schedule["tasks"], strict=True) for _ in range(n)]
    assert order == [0, 1, 2, 1, 1, 1, 1]


def test_invariants_hold():
    """On random small grids with failures no task is lost or run twice, and runs are reproducible."""
    from gridsim.testing import check_scheduler  # needs the extra "testing"

    check_scheduler(Pigeon(size=3, cutoff=1000.0), examples=10, hash_seeds=False)
