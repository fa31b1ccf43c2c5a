"""`Backfill` starts jobs like a textbook implementation, also jobs that outlive their estimates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gridsim as gs
from tests.reference.easy import Job, starts

MODES = pytest.mark.parametrize("mode", ["easy", "fcfs"])
#: Short and long times, with many coinciding ends.
times = st.integers(1, 6) | st.sampled_from((10, 20, 60, 100))
OUTLIVES = 4, [(0, 3, 100, 10), (1, 4, 10, 10), (2, 1, 5, 5), (20, 1, 5, 5), (21, 1, 60, 60)]


@st.composite
def queues(draw: st.DrawFn) -> tuple[int, list[Job]]:
    machines = draw(st.integers(1, 8))
    job = st.tuples(st.integers(0, 60), st.integers(1, machines), times, times)
    return machines, sorted(draw(st.lists(job, min_size=1, max_size=14)))


def start_times(machines: int, jobs: list[Job], **parameters: Any) -> list[int]:
    release, nodes, run_time, requested = (list(column) for column in zip(*jobs, strict=True))
    workload = gs.Workload.jobs_of(release, nodes, run_time, requested, origin=0.0)
    result = gs.simulate(gs.Scenario(gs.Platform.equal(machines), workload), gs.Backfill(**parameters))
    times: list[int] = result.applications["first_start"].astype(int).tolist()
    return times


@MODES
@given(queues())
@example(OUTLIVES)
def test_starts_equal_those_of_the_textbook(mode: Any, queue: tuple[int, list[Job]]) -> None:
    machines, jobs = queue
    assert start_times(machines, jobs, mode=mode) == starts(machines, jobs, backfill=mode == "easy")
    exact = [(*job[:3], job[2]) for job in jobs]
    known = start_times(machines, jobs, mode=mode, estimate="run")
    assert known == starts(machines, exact, backfill=mode == "easy")


def test_overdue_job_is_expected_to_end_now() -> None:
    """While it runs the head may start at any time, so no job may overtake the head."""
    machines, jobs = OUTLIVES
    # the third job ends by the estimate of the first; the other jobs would end after now
    assert start_times(machines, jobs) == [0, 100, 2, 110, 110]
    # the true end of the first job is known, and the other jobs end before it
    assert start_times(machines, jobs, estimate="run") == [0, 100, 2, 20, 25]
