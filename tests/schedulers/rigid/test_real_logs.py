"""`BatchQueue` on a whole real log, start by start, against policies in plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from tests.reference.batch_policies import Conservative, Depth, Easy, Fcfs, Wfp


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning", "ignore::gridsim.errors.ModelWarning")
@pytest.mark.parametrize(
    ("policy", "queue"),
    [
        (Fcfs(), {"backfill": "none"}),
        (Easy(), {}),
        (Wfp(), {"order": "wfp"}),
        (Depth(depth=4), {"depth": 4}),
        (Conservative(kill="at-limit"), {"backfill": "conservative", "kill": "at-limit"}),
    ],
    ids=["none", "easy", "wfp", "depth", "conservative"],
)
def test_every_job_of_a_log_starts_as_in_plain_python(
    traces: Path, policy: gs.JobScheduler, queue: dict[str, Any]
) -> None:
    """A year of 28,476 jobs of KTH-SP2, with its requested times."""
    log = traces / "kth-sp2" / "KTH-SP2-1996-2.1-cln.swf.gz"
    scenario = gs.Scenario(gs.Platform.equal(100), gs.Workload.jobs_from_log(log))
    actual, expected = (
        gs.simulate(scenario, scheduler).applications["first_start"]
        for scheduler in (gs.BatchQueue(**queue), policy)
    )
    assert len(actual) == 28_476 and np.array_equal(actual, expected)


def test_conservative_reservations_are_promises() -> None:
    """No job starts after its first reservation, whatever ends early; here by a policy that notes it."""
    for seed in range(6):
        workload = gs.Workload.jobs(jobs=200, seed=seed, utilization=0.9, max_nodes=16)
        scenario = gs.Scenario(gs.Platform.equal(16), workload)
        first = NotingScheduler(kill="at-limit")
        started = gs.simulate(scenario, first).applications["first_start"]
        kernel = gs.simulate(scenario, gs.BatchQueue(backfill="conservative", kill="at-limit"))
        assert np.array_equal(started, kernel.applications["first_start"])
        promised = np.array([PROMISED[job] for job in range(200)])
        assert (started <= promised).all() and (started < promised).any()


#: Job -> its first reservation, s, in the last run.
PROMISED: dict[int, float] = {}


class NotingPolicy(Conservative.policy):  # type: ignore[name-defined,misc]
    """Conservative backfilling that notes the first reservation of each job."""

    def decide(self, view: gs.JobView) -> None:
        released = view.released
        super().decide(view)
        for job in released:
            PROMISED[job.number] = self.reserved.get(job.number, view.now)


class NotingScheduler(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler that notes first reservations, `NotingPolicy`."""

    policy = NotingPolicy
