"""`Backfill` starts jobs when a textbook says, also jobs that outlive what their users have asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gridsim as gs
from tests.reference.easy import Job, starts

MODES = pytest.mark.parametrize("mode", ["easy", "fcfs"])
#: Short and long times, of which few are equal and many meet.
times = st.integers(1, 6) | st.sampled_from((10, 20, 60, 100))
OUTLIVES = 4, [(0, 3, 100, 10), (1, 4, 10, 10), (2, 1, 5, 5), (20, 1, 5, 5), (21, 1, 60, 60)]


@st.composite
def queues(draw: st.DrawFn) -> tuple[int, list[Job]]:
    machines = draw(st.integers(1, 8))
    job = st.tuples(st.integers(0, 60), st.integers(1, machines), times, times)
    return machines, sorted(draw(st.lists(job, min_size=1, max_size=14)))


def started(machines: int, jobs: list[Job], **how: Any) -> list[int]:
    release, nodes, run_time, requested = (list(column) for column in zip(*jobs, strict=True))
    workload = gs.Workload.jobs_of(release, nodes, run_time, requested, origin=0.0)
    result = gs.simulate(gs.Scenario(gs.Platform.equal(machines), workload), gs.Backfill(**how))
    found: list[int] = result.applications["first_start"].astype(int).tolist()
    return found


@MODES
@given(queues())
@example(OUTLIVES)
def test_it_is_the_textbook(mode: Any, queue: tuple[int, list[Job]]) -> None:
    machines, jobs = queue
    assert started(machines, jobs, mode=mode) == starts(machines, jobs, backfill=mode == "easy")
    exact = [(*job[:3], job[2]) for job in jobs]
    known = started(machines, jobs, mode=mode, estimate="run")
    assert known == starts(machines, exact, backfill=mode == "easy")


def test_a_job_that_outlives_its_estimate_is_expected_to_end_now() -> None:
    """While it goes on the head is expected to start at any time, so that none may overtake it."""
    machines, jobs = OUTLIVES
    # the third job ends by the first one's estimate; the others would end later than now
    assert started(machines, jobs) == [0, 100, 2, 110, 110]
    # that the first job goes on is known: they end before it
    assert started(machines, jobs, estimate="run") == [0, 100, 2, 20, 25]
