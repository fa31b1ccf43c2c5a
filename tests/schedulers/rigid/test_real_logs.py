"""`BatchQueue` on whole real logs and on drawn jobs, start by start, against a compiled reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from tests.reference.batch_policies import Conservative

MODES: dict[str, dict[str, Any]] = {
    "none": {"backfill": "none"},
    "easy": {},
    "wfp": {"order": "wfp"},
    "depth": {"depth": 4},
    "conservative": {"backfill": "conservative"},
    "killing": {"backfill": "conservative", "kill": "at-limit"},
}
DAY = 86_400.0


def assert_equal_starts(machines: int, workload: gs.Workload, mode: str) -> int:
    """Check the starts of all jobs, to the ns, and return how many there are."""
    pytest.importorskip("numba", reason="needs the extra jit")
    from tests.reference.batch_queue_compiled import starts

    scenario = gs.Scenario(gs.Platform.equal(machines), workload)
    jobs = workload.realize(scenario.platform)
    times = jobs.task_size / 1000.0, jobs.requested  # machines have 1,000 Mflop/s
    ns = (np.rint(column * 1e9).astype(np.int64) for column in times)
    expected = starts(machines, jobs.release_ns, jobs.tasks, *ns, **MODES[mode])
    actual = gs.simulate(scenario, gs.BatchQueue(**MODES[mode])).applications["first_start"]
    assert np.array_equal(np.rint(actual * 1e9).astype(np.int64), expected)
    return len(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning", "ignore::gridsim.errors.ModelWarning")
@pytest.mark.parametrize("mode", MODES)
def test_every_job_of_kth_sp2_starts_as_in_the_reference(traces: Path, mode: str) -> None:
    """The log covers a year and states requested times; up to a hundred jobs wait at once."""
    log = gs.Workload.jobs_from_log(traces / "kth-sp2" / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert assert_equal_starts(100, log, mode) == 28_476


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning", "ignore::gridsim.errors.ModelWarning")
@pytest.mark.parametrize(
    ("mode", "days", "jobs"),
    [
        ("none", None, 150_323),
        ("easy", None, 150_323),
        ("wfp", 30, 38_912),
        ("depth", 30, 38_912),
        ("conservative", 10, 8_907),
        ("killing", 10, 8_907),
    ],
)
def test_every_job_of_ricc_starts_as_in_the_reference(
    traces: Path, mode: str, days: int | None, jobs: int
) -> None:
    """Machines are nodes of 8 processors, and so few that thousands of jobs wait.

    The whole log takes some five minutes with WFP or a depth of 4, as do 30 conservative days.
    """
    window: dict[str, Any] = {} if days is None else {"start": 0.0, "end": days * DAY}
    file = traces / "ricc2010-a" / "RICC-2010-2-a.swf.gz"
    log = gs.Workload.jobs_from_log(file, cores_per_node=8, **window)
    assert assert_equal_starts(1024, log, mode) == jobs


@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
def test_exclusive_jobs_of_ricc_start_as_on_nodes(traces: Path) -> None:
    """Five days on 1024 nodes of 8 cores; jobs that share them wait less."""
    file, waits = traces / "ricc2010-a" / "RICC-2010-2-a.swf.gz", {}
    for name, platform, jobs, queue in (
        ("shared", {"cores": 8}, {}, gs.BatchQueue()),
        ("exclusive", {"cores": 8}, {"exclusive": True}, gs.BatchQueue()),
        ("nodes", {}, {"cores_per_node": 8}, gs.BatchQueue(reserve="machines")),
    ):
        log = gs.Workload.jobs_from_log(file, end=5 * DAY, **jobs)
        scenario = gs.Scenario(gs.Platform.equal(1024, **platform), log)
        waits[name] = gs.simulate(scenario, queue).applications["waiting"]
    assert np.array_equal(waits["exclusive"], waits["nodes"])
    assert waits["shared"].mean() < waits["exclusive"].mean()


@st.composite
def workloads(draw: st.DrawFn) -> gs.Workload:
    """Draw jobs for six machines, with many ties; some outlive their requests."""
    n = draw(st.integers(1, 16))
    run = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0, 10.0]), min_size=n, max_size=n))
    requested = [time * draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])) for time in run]
    release = sorted(draw(st.lists(st.integers(0, 20).map(float), min_size=n, max_size=n)))
    return gs.Workload.jobs_of(
        release, draw(st.lists(st.integers(1, 6), min_size=n, max_size=n)), run, requested
    )


@pytest.mark.slow  # compiling takes half a minute
@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=300)
@given(workloads())
def test_drawn_jobs_start_as_in_the_compiled_reference(mode: str, workload: gs.Workload) -> None:
    assert_equal_starts(6, workload, mode)


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
