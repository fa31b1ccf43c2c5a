"""Batch schedulers in Python: the starts of `BatchQueue`, failures, checkpoints, kills, and wrong calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.scheduling.jobs import _Instants
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.reference.batch_policies import Conservative, Depth, Easy, Fcfs, Wfp

PAIRS: dict[str, tuple[type[gs.JobScheduler], dict[str, Any], dict[str, Any]]] = {
    "none": (Fcfs, {}, {"backfill": "none"}),
    "easy": (Easy, {}, {}),
    "wfp": (Wfp, {}, {"order": "wfp"}),
    "depth": (Depth, {"depth": 3}, {"depth": 3}),
    "conservative": (Conservative, {}, {"backfill": "conservative"}),
}


@st.composite
def workloads(draw: st.DrawFn, overdue: bool) -> gs.Workload:
    """Draw jobs for six machines, with many ties; some outlive their requests if `overdue`."""
    n = draw(st.integers(1, 14))
    times = st.sampled_from([1.0, 2.0, 3.0, 5.0, 10.0])
    run = draw(st.lists(times, min_size=n, max_size=n))
    factors = st.sampled_from([0.5, 1.0, 2.0, 4.0] if overdue else [1.0, 2.0, 4.0])
    requested = [time * draw(factors) for time in run]
    release = sorted(draw(st.lists(st.integers(0, 20).map(float), min_size=n, max_size=n)))
    nodes = draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    return gs.Workload.jobs_of(release, nodes, run, requested)


@pytest.mark.parametrize("name", PAIRS)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_policies_start_the_jobs_when_the_kernel_does(name: str, data: st.DataObject) -> None:
    """This includes failures; conservative reservations agree only if no job outlives its estimate."""
    kind, mine, its = PAIRS[name]
    kill = data.draw(st.sampled_from(["never", "at-limit"]), label="kill")
    fails = data.draw(st.integers(0, 5), label="fails") == 0 and name != "conservative"
    overdue = kill == "at-limit" or name != "conservative"
    workload = data.draw(workloads(overdue), label="workload")
    faults = gs.Faults.of([0, 3], [4.0, 9.0], [6.0, 12.0]) if fails else None
    scenario = gs.Scenario(gs.Platform.equal(6), workload, faults=faults)
    actual = gs.simulate(scenario, kind(**mine, kill=kill), record="schedule")
    expected = gs.simulate(scenario, gs.BatchQueue(**its, kill=kill), record="schedule")
    assert validate_result(actual) == [] and validate_result(expected) == []
    for column in ("first_start", "finish", "waiting", "resubmitted", *(["terminated"] * (kill != "never"))):
        if column == "terminated" and column not in actual.applications:
            assert not expected.applications[column].any()
            continue
        assert np.array_equal(actual.applications[column], expected.applications[column], equal_nan=True)


@pytest.mark.parametrize("name", PAIRS)
def test_runs_can_be_resumed(name: str) -> None:
    kind, mine, _ = PAIRS[name]
    workload = gs.Workload.jobs(jobs=60, seed=3, utilization=0.9, max_nodes=12)
    scenario = gs.Scenario(gs.Platform.equal(12), workload, faults=gs.Faults.exponential(1e7, 1e5, seed=2))
    scheduler = kind(**mine, kill="at-limit")
    assert resume_difference(scenario, scheduler, gs.simulate(scenario, scheduler, record=True)) is None


def test_killed_jobs_end_as_computed_by_hand() -> None:
    """A job is killed after its requested time, or by the scheduler, and what waits starts then."""
    workload = gs.Workload.jobs_of([0.0, 0.0, 1.0], [2, 2, 4], [10.0, 30.0, 5.0], [20.0, 20.0, 5.0])
    scenario = gs.Scenario(gs.Platform.equal(4), workload)
    for scheduler in (gs.BatchQueue(kill="at-limit"), Easy(kill="at-limit"), KillingScheduler()):
        result = gs.simulate(scenario, scheduler, record="schedule")
        assert validate_result(result) == []
        table, is_early = result.applications, isinstance(scheduler, KillingScheduler)
        assert table["finish"].tolist() == ([10.0, 7.0, 15.0] if is_early else [10.0, 20.0, 25.0])
        assert table["run_time"].tolist() == [10.0, 7.0 if is_early else 20.0, 5.0]
        assert table["terminated"].tolist() == [0, 1, 0]
        assert table["waiting"].tolist() == [0.0, 0.0, 9.0 if is_early else 19.0]


class KillingPolicy(Easy.policy):  # type: ignore[name-defined,misc]
    """EASY that kills each job of 30 s after 7 s."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.running:
            if job.number == 1 and view.now == 7.0:
                view.kill(job)
        if view.now < 7.0:
            view.wake(7.0)
        super().decide(view)


class KillingScheduler(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler that kills jobs, `KillingPolicy`."""

    policy = KillingPolicy


def scheduler_with(decide: Callable[[Any, gs.JobView], None]) -> gs.JobScheduler:
    """Return a scheduler that decides by a function."""
    policy = type("Policy", (gs.JobPolicy,), {"decide": decide})
    kind: Any = type("Mine", (gs.JobScheduler,), {"policy": policy, "name": "mine"})
    scheduler: gs.JobScheduler = kind()
    return scheduler


def two_jobs() -> gs.Scenario:
    return gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_of([0.0, 3.0], [3, 2], [10.0, 10.0]))


@pytest.mark.parametrize(
    ("decide", "text"),
    [
        (
            lambda self, view: [view.start(job) for job in view.waiting],
            r"t = 3.0 s: mine: view.start\(<job 1: 2 machines, 10 s>\): job 1 must fit on the free "
            "machines, 1, got 2",
        ),
        (
            lambda self, view: view.start(view.waiting[0], [0, 1]),
            "machines must be 3, as job 0 requests, got 2",
        ),
        (lambda self, view: view.start(view.waiting[0], [0, 1, 1]), "machines must be different and free"),
        (lambda self, view: view.kill(view.waiting[0]), "job must be running, got 0, which is not"),
        (lambda self, view: view.wake(view.now), r"view.wake\(0.0\): at must be > 0.0 s"),
        (lambda self, view: view.start(0), r"view.start\(0\): the argument must be a Job: use view.job\(0\)"),
        (lambda self, view: view.profile().reserve(view.waiting[0], None), "at must be a number of s"),
        (lambda self, view: view.job(7), r"view.job\(7\): the job must be waiting or running"),
        (
            lambda self, view: None,
            "mine must start or reject all jobs, got <job 0: 3 machines, 10 s> waiting",
        ),
    ],
)
def test_wrong_calls_are_reported(decide: Callable[[Any, gs.JobView], None], text: str) -> None:
    with pytest.raises(gs.SchedulerError, match=text):
        gs.simulate(two_jobs(), scheduler_with(decide))


def test_a_policy_chooses_machines_and_rejects_jobs() -> None:
    def decide(self: Any, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.number == 1:
                view.reject(job)
            else:
                view.start(job, view.free_machines[-job.nodes :])
                assert view.machines_of(job).tolist() == [1, 2, 3] and view.free == 1

    result = gs.simulate(two_jobs(), scheduler_with(decide), record=("schedule", "decisions"))
    assert validate_result(result) == []
    assert result.applications["failed"].tolist() == [0, 1]
    assert sorted(result.tables["schedule"]["machine"].tolist()) == [1, 2, 3]
    assert result.why(1).decisions["action"].tolist() == ["rejected"]


def test_a_job_released_by_a_rejection_takes_its_place_in_the_queue() -> None:
    orders = []

    def decide(_: Any, view: gs.JobView) -> None:
        for job in view.released:
            if job.number == 2:
                view.reject(job)  # which releases job 1 at this instant
        orders.append([job.number for job in view.waiting])
        if view.free and view.waiting:
            view.start(view.waiting[0])

    jobs = gs.Workload.jobs_of([0.0] * 4, 1, 1.0, after=[(), (2,), (), ()])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(1), jobs), scheduler_with(decide))
    assert orders[:3] == [[0, 3], [1, 3], [1, 3]] and result.failed == 1


def test_a_program_that_asks_to_be_woken_for_ever_ends() -> None:
    """With its last job, or at the time limit."""

    def decide(self: Any, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.nodes <= view.free:
                view.start(job)
        view.wake(view.now + 30.0)

    scheduler = scheduler_with(decide)
    assert gs.simulate(two_jobs(), scheduler, time_limit=1e4).makespan < 1e4
    long = gs.Scenario(gs.Platform.equal(2), gs.Workload.jobs_of([0.0], 2, 1e9))
    with pytest.raises(gs.ScenarioError, match="did not end within time_limit = 1,000 s"):
        gs.simulate(long, scheduler, time_limit=1000.0)


def test_a_program_is_woken_exactly_when_it_has_asked() -> None:
    """Also at instants that are no whole number of ns, such as sums of floats."""
    due = {0.1 + 0.2, 1.0 / 3.0, 262.34362468300003}
    instants = set[float]()

    def decide(self: Any, view: gs.JobView) -> None:
        instants.add(view.now)
        if later := [at for at in due if view.now < at]:
            view.wake(min(later))
        elif view.waiting:
            view.start(view.waiting[0])

    jobs = gs.Workload.jobs_of([0.0], 1, 1.0)
    gs.simulate(gs.Scenario(gs.Platform.equal(1), jobs), scheduler_with(decide))
    assert due <= instants


def test_a_scheduler_without_a_policy_is_rejected() -> None:
    class Empty(gs.JobScheduler, frozen=True, kw_only=True):
        pass

    class Undecided(gs.JobScheduler, frozen=True, kw_only=True):
        policy = gs.JobPolicy

    with pytest.raises(gs.ScenarioError, match="Empty.policy must be a subclass of JobPolicy, got None"):
        Empty()
    with pytest.raises(gs.ScenarioError, match=r"JobPolicy must define decide\(view\)"):
        Undecided()


@given(st.lists(st.integers(0, 40), min_size=1), st.sampled_from([0, 2**53, 10**17]))
def test_each_instant_means_one_number_of_ns(offsets: list[int], base: int) -> None:
    """This holds after months, when floats in s are more than 1 ns apart, and after a checkpoint."""
    instants, other = _Instants(), _Instants()
    seconds = [instants.seconds(base + offset) for offset in offsets]
    other.setstate(instants.getstate())
    for each in (instants, other):
        assert [each.ns(instant) for instant in seconds] == [base + offset for offset in offsets]
        assert [each.seconds(base + offset) for offset in offsets] == seconds


def test_a_stuck_policy_ends_although_machines_fail_and_recover() -> None:
    faults = gs.Faults.exponential(1000.0, 10.0, seed=3)
    scenario = gs.Scenario(two_jobs().platform, two_jobs().workload, faults=faults)
    with pytest.raises(
        gs.SchedulerError, match="waiting with . machines free and no start in many decisions"
    ):
        gs.simulate(scenario, scheduler_with(lambda self, view: None))


class PredictingPolicy(Easy.policy):  # type: ignore[name-defined,misc]
    """EASY by predictions: the mean of the last two run times of the user, at most the request.

    A prediction that is over grows step by step.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.last_runs: dict[int, list[float]] = {}
        self.corrections: dict[int, int] = {}

    def decide(self, view: gs.JobView) -> None:
        for job in view.ended:
            assert job.started is not None
            self.last_runs[job.user] = [*self.last_runs.get(job.user, [])[-1:], view.now - job.started]
        for job in view.released:
            if len(runs := self.last_runs.get(job.user, [])) == 2:
                job.estimate = min(job.requested, sum(runs) / 2)
        for job in view.running:
            if job.estimate < job.requested and job.expected_end <= view.now:
                count = self.corrections[job.number] = self.corrections.get(job.number, 0) + 1
                job.estimate = min(job.requested, job.estimate + 60 * [0, 1, 5, 15][count])
        super().decide(view)
        growing = [job for job in view.running if job.estimate < job.requested]
        if growing:
            view.wake(min(job.expected_end for job in growing))


class PredictingScheduler(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler that predicts run times, `PredictingPolicy`."""

    policy = PredictingPolicy


@pytest.mark.parametrize("seed", range(3))
def test_estimates_that_a_policy_sets_are_those_of_its_plans(seed: int) -> None:
    """Estimates equal predictions of the kernel, also after a checkpoint; times are whole seconds."""
    chance = np.random.default_rng(seed)
    run = 2.0 * chance.integers(1, 60, 150)
    workload = gs.Workload.jobs_of(
        np.sort(chance.integers(0, 2500, 150)).astype(float),
        chance.integers(1, 9, 150),
        run,
        run * chance.integers(1, 5, 150),
        user=chance.integers(0, 4, 150),
    )
    scenario = gs.Scenario(gs.Platform.equal(16), workload)
    actual = gs.simulate(scenario, PredictingScheduler(), record=True)
    expected = gs.simulate(scenario, gs.BatchQueue(estimate="predicted"))
    plain = gs.simulate(scenario, gs.BatchQueue())
    assert np.array_equal(actual.applications["first_start"], expected.applications["first_start"])
    assert not np.array_equal(actual.applications["first_start"], plain.applications["first_start"])
    assert resume_difference(scenario, PredictingScheduler(), actual) is None
