"""Workloads of rigid jobs: listed, from a log, and drawn from the statistics of a log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim import Workload
from gridsim.errors import ScenarioError, TraceWarning
from gridsim.model.rigid_workloads import PROFILES, SHARES
from gridsim.results.metrics.formulas import job_slowdown, request_utilization
from gridsim.scheduling.registry import registered
from gridsim.validation.results import validate_result

CLUSTER = gs.Platform.equal(100, speed=500.0)


def utilization(jobs: gs.Applications, platform: gs.Platform) -> float:
    run_time = jobs.task_size / platform.speeds[0]
    return request_utilization(jobs.release, jobs.tasks, run_time, platform.nodes)


# -- listed -------------------------------------------------------------------------------------------------


def test_listed_jobs_become_rigid_applications() -> None:
    workload = gs.Workload.jobs_of([5.0, 0.0], [3, 100], [60.0, 1.5], requested=90.0)
    jobs = workload.realize(CLUSTER)
    assert jobs.rigid and workload.rigid and not gs.Workload.of([0.0], 1, 1.0).rigid
    assert jobs.release.tolist() == [0.0, 5.0] and jobs.tasks.tolist() == [100, 3]
    assert jobs.task_size.tolist() == [750.0, 30_000.0] and jobs.submitter.tolist() == [1, 0]
    assert jobs.requested is not None and jobs.requested.tolist() == [90.0, 90.0]
    plain = gs.Workload.jobs_of([0.0], 1, 7.0).realize(CLUSTER)
    assert plain.requested is not None and plain.requested.tolist() == [7.0]


def test_requested_times_follow_their_jobs() -> None:
    """Jobs listed out of order are sorted by release, with their requested times."""
    workload = gs.Workload.jobs_of(release=[10.0, 0.0], nodes=1, run_time=[5.0, 7.0], requested=[50.0, 70.0])
    jobs = workload.realize(CLUSTER)
    assert jobs.requested is not None and jobs.requested.tolist() == [70.0, 50.0]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (lambda: Workload.jobs_of([], 1, 1.0), "workload.release must have at least one job, got none"),
        (lambda: Workload.jobs_of([0.0], 0, 1.0), "workload.nodes[0] must be a whole number in 1..21"),
        (
            lambda: Workload.jobs_of([0.0], 1, 0.0),
            "workload.run_time[0] must be a finite number > 0 s",
        ),
        (lambda: Workload.jobs_of([0.0], 1, 1.0, requested=-1.0), "workload.requested[0] must be a finite"),
        (lambda: Workload.jobs_of([0.0], [1, 2], 1.0), "workload.nodes must have 1 entries, as"),
        (
            lambda: Workload.jobs(seed=1, profile="x"),
            "workload.profile must be one of wagap2013, ",
        ),
        (lambda: Workload.jobs(seed=1, utilization=0.0), "workload.utilization must be a finite number > 0"),
        (lambda: Workload.jobs(seed=1, jobs=0), "workload.jobs must be a whole number >= 1, got 0"),
        (lambda: Workload.jobs_from_log("x", start=5.0, end=5.0), "workload.end must be a number > 5 s"),
        (
            lambda: Workload.jobs_from_log("x", copies=0),
            "workload.copies must be a whole number in 1..10",
        ),
        (lambda: Workload.jobs_from_log("x", at_home=1), "workload.at_home must be true or false, got 1"),
    ],
)
def test_invalid_jobs_are_rejected(workload: Any, expected: str) -> None:
    with pytest.raises(ScenarioError) as excinfo:
        workload()
    assert str(excinfo.value).startswith(expected)


def test_jobs_that_do_not_fit_the_platform_are_rejected() -> None:
    for workload, expected in (
        (
            Workload.jobs_of([0.0], 101, 1.0),
            "workload.nodes[0] must be at most 100, the number of machines, got 101 for job 0",
        ),
        (
            Workload.jobs_of([0.0], 1, 1.0, submitter=[100]),
            "workload.submitter[0] must be a machine in 0..99, got 100",
        ),
    ):
        with pytest.raises(ScenarioError) as excinfo:
            workload.realize(CLUSTER)
        assert str(excinfo.value).startswith(expected)
    with pytest.raises(
        ScenarioError, match="platform must have machines of one speed for rigid jobs, got 1000 to"
    ):
        gs.Workload.jobs_of([0.0], 1, 1.0).realize(gs.Platform.of([1000.0, 2000.0]))


# -- drawn from a profile ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_drawn_jobs_have_the_quantiles_of_the_log(profile: str) -> None:
    log_profile, (nodes, run_time, gaps, requested) = (
        PROFILES[profile],
        PROFILES[profile].draw(20_000, np.random.default_rng(1)),
    )
    for sample, expected in (
        (nodes, log_profile.nodes),
        (run_time, log_profile.run_time),
        (gaps, log_profile.gap),
    ):
        assert (np.diff(expected) >= 0).all() and len(expected) == len(SHARES)
        actual = np.quantile(sample, SHARES[1:-2])
        # drawn values are rounded to whole numbers
        assert np.allclose(actual, expected[1:-2], rtol=0.02, atol=0.75)
        assert sample.min() >= expected[0] - 0.5 and sample.max() <= expected[-1] + 0.5
    assert (requested >= 1).all() and (nodes >= 1).all()
    from scipy.stats import spearmanr  # type: ignore[import-untyped]

    for sample, serial in zip((nodes, run_time, gaps), log_profile.serial, strict=True):
        # most jobs have one node and most gaps are 0 s; so many ties weaken a correlation
        assert 0.5 * serial < spearmanr(sample[1:], sample[:-1])[0] <= serial + 0.05
    assert (
        0.3 * log_profile.nodes_with_run_time
        < spearmanr(nodes, run_time)[0]
        < log_profile.nodes_with_run_time + 0.1
    )


@settings(max_examples=25)
@given(st.integers(1, 400), st.floats(0.05, 2.0), st.none() | st.integers(1, 200), st.integers(0, 99))
def test_generated_jobs_fit_the_platform(jobs: int, share: float, maximum: int | None, seed: int) -> None:
    workload = gs.Workload.jobs(jobs, utilization=share, max_nodes=maximum, seed=seed)
    applications = workload.realize(CLUSTER)
    assert len(applications) == jobs and applications.release[0] == 0.0
    assert applications.tasks.min() >= 1 and applications.tasks.max() <= min(100, maximum or 100)
    assert (np.diff(applications.release_ns) >= 0).all()
    if applications.release[-1] > 0:
        assert math.isclose(utilization(applications, CLUSTER), share, rel_tol=1e-6)
    copy = gs.Scenario(CLUSTER, workload)
    assert gs.Scenario.from_toml(copy.to_toml()) == copy
    assert np.array_equal(workload.realize(CLUSTER).release_ns, applications.release_ns)


# -- from a log ---------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log of five jobs: number, submit, wait, run time, processors, ..., requests, user."""
    rows = [
        "1 100 0 60 4 -1 -1 4 120 -1 1 7 1 1 1 1 -1 -1",
        "2 150 0 600 9 -1 -1 9 -1 -1 1 8 1 1 1 1 -1 -1",
        "3 150 0 -1 1 -1 -1 1 120 -1 1 8 1 1 1 1 -1 -1",
        "4 200 0 0 1 -1 -1 1 120 -1 1 7 1 1 1 1 -1 -1",
        "5 1100 0 300 40 -1 -1 40 120 -1 1 9 1 1 1 1 -1 -1",
    ]
    path = tmp_path / "log.swf"
    path.write_text("\n".join(rows) + "\n")
    return path


def realize_with_warning(workload: gs.Workload, platform: gs.Platform = CLUSTER) -> gs.Applications:
    with pytest.warns(TraceWarning):
        return workload.realize(platform)


def test_jobs_of_a_log_become_rigid_applications(log: Path) -> None:
    actual = realize_with_warning(gs.Workload.jobs_from_log(log, cores_per_node=4))
    assert actual.release.tolist() == [0.0, 50.0, 100.0, 1000.0] and actual.tasks.tolist() == [1, 3, 1, 10]
    assert (actual.task_size / 500.0).tolist() == [60.0, 600.0, 1.0, 300.0]
    assert actual.requested is not None and actual.requested.tolist() == [120.0, 600.0, 120.0, 120.0]
    window = realize_with_warning(gs.Workload.jobs_from_log(log, start=50.0, end=900.0))
    assert window.release.tolist() == [0.0, 50.0] and window.tasks.tolist() == [9, 1]
    small = realize_with_warning(gs.Workload.jobs_from_log(log, max_nodes=9))
    assert small.tasks.tolist() == [4, 9, 1]


def test_submit_times_of_a_log_are_compressed_to_a_utilization(log: Path) -> None:
    actual = realize_with_warning(gs.Workload.jobs_from_log(log, utilization=0.95))
    assert math.isclose(utilization(actual, CLUSTER), 0.95, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (5e-324, "workload.utilization must keep the last release finite, got 5e-324"),
        (1e-310, "workload.utilization must keep the last release finite, got 1e-310"),
        (1e-300, r"workload.release\[1\] must be at most 4e\+09 s, got"),
    ],
)
def test_utilizations_too_small_for_drawn_jobs_are_rejected(share: float, expected: str) -> None:
    with pytest.raises(ScenarioError, match=expected):
        Workload.jobs(5, utilization=share, seed=1).realize(CLUSTER)
    assert len(Workload.jobs(1, utilization=share, seed=1).realize(CLUSTER)) == 1


@pytest.mark.parametrize("copies", [1, 1000])
def test_utilizations_too_small_for_a_log_are_rejected(log: Path, copies: int) -> None:
    workload = gs.Workload.jobs_from_log(log, utilization=5e-324, copies=copies)
    with (
        pytest.warns(TraceWarning),
        pytest.raises(ScenarioError, match="^utilization"),
    ):
        workload.realize(CLUSTER)


def test_copies_of_a_log_keep_its_load(log: Path) -> None:
    once = realize_with_warning(gs.Workload.jobs_from_log(log, at_home=True, seed=3))
    workload = gs.Workload.jobs_from_log(log, copies=20, jitter=10.0, at_home=True, seed=3)
    many = realize_with_warning(workload, gs.Platform.equal(2000))
    assert len(many) == 80 and sorted(many.tasks.tolist()) == sorted(once.tasks.tolist() * 20)
    later = np.sort(many.release) - np.sort(np.tile(once.release, 20))
    assert later.min() == 0.0 and later.max() <= 10.0 and (many.release[:1] == 0.0).all()
    # in each copy, a user submits at one machine
    assert len(set(many.submitter[many.tasks == 4].tolist())) > 10
    assert once.submitter[0] == once.submitter[2]
    compressed = gs.Workload.jobs_from_log(log, copies=20, jitter=0.0, utilization=0.5)
    assert math.isclose(utilization(realize_with_warning(compressed), CLUSTER), 0.5, rel_tol=1e-6)


def test_copies_are_delayed_by_at_most_the_jitter(tmp_path: Path) -> None:
    """Delays are uniform for 1000 jobs at 0 s, and jobs of the first copy have none."""
    path = tmp_path / "log.swf"
    line = "{} 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 1 -1 -1\n"
    path.write_text("".join(line.format(number) for number in range(1, 1001)))
    jobs = gs.Workload.jobs_from_log(path, copies=2, jitter=3600.0, seed=1).realize(CLUSTER)
    late = np.sort(jobs.release)[1000:]
    assert (np.sort(jobs.release)[:1000] == 0).all()
    assert 0 < late[0] < 100 and 3500 < late[-1] < 3600
    assert late.mean() == pytest.approx(1800, abs=5 * 3600 / math.sqrt(12 * 1000))


def test_slowdown_of_short_jobs_is_bounded() -> None:
    waiting, run_time = np.array([0.0, 5.0, 100.0, 0.0]), np.array([1.0, 5.0, 50.0, 1e6])
    assert job_slowdown(waiting, run_time).tolist() == [1.0, 1.0, 3.0, 1.0]


@pytest.mark.parametrize("name", ["mean_waiting", "median_waiting", "mean_slowdown"])
def test_metrics_of_rigid_jobs_are_replicated(name: str) -> None:
    replicates = gs.replicate(
        lambda seed: gs.Scenario(CLUSTER, gs.Workload.jobs(40, max_nodes=20, utilization=0.9, seed=seed)),
        {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")},
        [1, 2, 3],
        metrics=[name],
    )
    assert (replicates[name]["easy"] <= replicates[name]["fcfs"] * 1.5 + 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("record", [False, "all"])
@pytest.mark.parametrize("mode", ["easy", "none"])
def test_a_run_with_jobs_that_never_complete_ends_with_an_error(mode: Any, record: Any) -> None:
    """A job of 4e7 s runs on machines that fail every 2e6 s, or jobs on all machines follow long ones."""
    queue = gs.BatchQueue(backfill=mode)
    two = gs.Workload.jobs_of([0.0, 5.0], [1, 2], [10.0, 4e7])
    failing = gs.Scenario(gs.Platform.equal(2), two, faults=gs.Faults.exponential(up=2e6, down=1e3, seed=1))
    expected = r"^faults must let all jobs end within 4.61e\+09 s, got 1 of 2 left after "
    with pytest.raises(gs.ScenarioError, match=expected):
        gs.simulate(failing, queue, record=record)
    waiting = gs.Workload.jobs_of([0.0] * 5, [1, 9, 1, 9, 1], [1.9e9, 1.0, 2e9, 1.0, 2.1e9])
    with pytest.raises(gs.ScenarioError, match=r"^workload must .* 4.61e\+09 s, got 1 of 5 left$"):
        gs.simulate(gs.Scenario(gs.Platform.equal(9), waiting), queue, record=record)


def test_utilization_counts_time_until_the_end_of_dropped_jobs():
    jobs = gs.Workload.jobs_of([0.0, 0.0], [1, 4], [600.0, 86_400.0])
    failing = gs.Faults.exponential(up=40_000.0, down=3_600.0, seed=1)
    scenario = gs.Scenario(gs.Platform.equal(6), jobs, faults=failing, seed=1)
    result = gs.simulate(scenario, gs.DgsAsap(tries=5, retry=60.0, rounds=1), record=True)
    end, used = result.provenance["clock_seconds"], result.machines["utilization"]
    assert result.failed == 1 and result.tables["schedule"]["end"].max() > 2 * result.makespan
    assert (used <= 1.0).all() and used == pytest.approx(result.machines["busy"] / end)
    assert not validate_result(result)


def test_utilization_is_defined_if_all_jobs_are_dropped():
    failing = gs.Faults.exponential(up=40_000.0, down=3_600.0, seed=1)
    jobs = gs.Workload.jobs_of([0.0], 4, 86_400.0)
    scenario = gs.Scenario(gs.Platform.equal(6), jobs, faults=failing, seed=1)
    result = gs.simulate(scenario, gs.DgsAsap(tries=5, retry=60.0, rounds=1), record=True)
    assert result.failed == 1 and math.isnan(result.makespan) and not validate_result(result)
    busy = result.machines["busy"]
    assert result.machines["utilization"] == pytest.approx(busy / result.provenance["clock_seconds"])
    assert busy.sum() > 0


def test_jobs_without_a_requested_time_are_counted_once_and_have_their_run_time(tmp_path: Path) -> None:
    """A comparison realizes the workload for each scheduler and reads the log for its row."""
    log = tmp_path / "x.swf"
    rest = "-1 1 1 1 1 1 1 -1 -1"
    jobs = ((0, 60, -1), (5, 30, 90), (9, 40, -1))
    log.write_text(
        "; MaxProcs: 4\n"
        + "".join(f"{k} {t} 0 {run} 1 -1 -1 1 {asked} {rest}\n" for k, (t, run, asked) in enumerate(jobs, 1))
    )
    scenario = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(log))
    with pytest.warns(gs.TraceWarning) as warned:
        found = gs.compare(scenario, {"easy": gs.BatchQueue(), "asap": gs.Asap()})
    messages = [str(entry.message) for entry in warned if "requested time" in str(entry.message)]
    assert (
        len(messages) == 1
        and "x.swf:2: 2 jobs without a requested time, counted as their run time" in messages[0]
    )
    for result in found.all_results.values():
        assert result.applications["requested"].tolist() == [60, 90, 40]


def test_all_schedulers_of_rigid_jobs_know_requested_times_by_default() -> None:
    """Zorilla reserves nothing, so that it needs no estimates."""
    registrations = {name: kind(**values) for name, (kind, values) in registered().items() if kind.rigid}
    estimates = {name: getattr(each, "estimate", None) for name, each in registrations.items()}
    assert {name for name, estimate in estimates.items() if estimate is None} == {"zorilla"}
    assert set(estimates.values()) == {"requested", None}
