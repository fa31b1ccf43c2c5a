"""Platforms of sites, home sites of jobs, logs of several sites, sites by themselves, and resampled logs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.model.resampling import WEEK

TWO = gs.Platform.sites([3, 2], speeds=[1000.0, 500.0], names=["delft", "leiden"])
DAY = 86_400.0


def swf(path: Path, *jobs: tuple[int, float, float, int, float, int], unix: int | None = None) -> Path:
    """Write a log of jobs given as (number, submission, run time, processors, request, user)."""
    lines = [f"; UnixStartTime: {unix}"] if unix is not None else []
    for number, submit, run_time, procs, requested, user in jobs:
        lines.append(
            f"{number} {submit} 0 {run_time} {procs} -1 -1 -1 {requested} -1 1 {user} 1 -1 1 1 -1 -1"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


# -- platforms ----------------------------------------------------------------------------------------------


def test_machines_are_numbered_site_by_site() -> None:
    assert TWO.nodes == 5 and TWO.speeds.tolist() == [1000.0] * 3 + [500.0] * 2
    assert TWO.machine_site is not None and TWO.machine_site.tolist() == [0, 0, 0, 1, 1]
    assert TWO.site("leiden") == TWO.site(1) == gs.Platform.equal(2, 500.0)
    plain = gs.Platform.sites([1, 4])
    assert plain.site_names == ("0", "1") and set(plain.speeds) == {1000.0}
    assert gs.Platform.sites([1, 4], speeds=1000) == gs.Platform.sites([1, 4], [1000.0, 1000.0])
    shared = gs.Platform.sites([1, 2], cores=[2, 4], gpus=[0, 1], memory=["1 GB", "2 GB"])
    assert (
        shared
        == gs.Scenario.from_toml(gs.Scenario(shared, gs.Workload.jobs_of([0.0], 1, 1.0)).to_toml()).platform
    )
    assert shared.attributes is not None and shared.attributes.memory is not None
    assert [column.tolist() for column in (shared.cores, shared.gpus, shared.attributes.memory)] == [
        [2, 4, 4],
        [0, 1, 1],
        [1e9, 2e9, 2e9],
    ]
    listed = gs.Platform.sites([1, 2], cores=[2, 4, 8])
    assert listed.cores is not None and listed.cores.tolist() == [2, 4, 8]
    assert gs.Platform.equal(3).machine_site is None and gs.Platform.equal(3).site_names == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": []}, "platform.sizes must have at least one entry, got none"),
        ({"sizes": [0, 2]}, "platform.sizes[0] must be a whole number in 1.."),
        ({"sizes": [2**30, 1]}, "platform.sizes must add up to at most 1073741824, got 1073741825"),
        ({"sizes": [1, 2], "speeds": [1.0]}, "platform.speeds must have 2 entries, one per site, got 1"),
        ({"sizes": [1, 2], "speeds": [1.0, 0.0]}, "platform.speeds[1] must be a finite number >= 1e-06"),
        (
            {"sizes": [1, 2], "cores": [1]},
            "platform.cores must have 3 entries, one per machine, or 2 entries, one per site, got 1",
        ),
        ({"sizes": [1, 2], "names": ["a", "a"]}, "platform.names[1] must be a name that no other site has"),
        ({"sizes": [1, 2], "names": ["a", ""]}, "platform.names[1] must be a name that no other site has"),
    ],
)
def test_invalid_sites_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as caught:
        gs.Platform.sites(**arguments)
    assert str(caught.value).startswith(message)


def test_unknown_sites_are_rejected() -> None:
    with pytest.raises(gs.ScenarioError, match="site must be one of delft, leiden, got 'delf'"):
        TWO.site("delf")
    with pytest.raises(gs.ScenarioError, match="site must be a whole number in 0..1, got 2"):
        TWO.site(2)
    with pytest.raises(gs.ScenarioError, match="platform must have sites"):
        gs.Platform.equal(3).site(0)


# -- homes --------------------------------------------------------------------------------------------------


def test_run_times_are_those_at_the_home_site() -> None:
    """Jobs without a submitter are submitted at the machines of their home in turn."""
    workload = gs.Workload.jobs_of([0.0] * 4, 1, 10.0, site=[1, 1, 0, -1])
    jobs = workload.realize(TWO)
    assert jobs.site is not None and jobs.site.tolist() == [1, 1, 0, -1]
    assert jobs.submitter.tolist() == [3, 4, 0, 3]
    assert jobs.task_size.tolist() == [5000.0, 5000.0, 10_000.0, 10_000.0]
    scenario = gs.Scenario(TWO, workload)
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario


def test_the_home_of_a_job_is_the_site_of_its_submitter() -> None:
    jobs = gs.Workload.jobs_of([0.0] * 3, 1, 10.0, submitter=[4, 0, 2]).realize(TWO)
    assert jobs.site is not None and jobs.site.tolist() == [1, 0, 0]
    drawn = gs.Workload.jobs(50, utilization=0.5, max_nodes=2, seed=1).realize(TWO)
    assert drawn.site is not None and drawn.machine_site is not None
    assert (drawn.site == drawn.machine_site[drawn.submitter]).all() and set(drawn.site) == {0, 1}
    # the work, relative to the capacity of both sites from the first to the last release
    assert drawn.size.sum() / (4000.0 * drawn.release[-1]) == pytest.approx(0.5)
    assert gs.Workload.jobs(5, seed=1).realize(gs.Platform.equal(5)).site is None


@pytest.mark.parametrize(
    ("platform", "columns", "message"),
    [
        (gs.Platform.equal(5), {"site": [0]}, "workload.site requires a platform of sites"),
        (TWO, {"site": [2]}, "workload.site[0] must be in -1..1, got 2"),
        (TWO, {"site": [0], "submitter": [4]}, "workload.submitter[0] must be a machine of site 0, the home"),
    ],
)
def test_invalid_homes_are_rejected(platform: gs.Platform, columns: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError) as caught:
        gs.Workload.jobs_of([0.0], 1, 1.0, **columns).realize(platform)
    assert str(caught.value).startswith(message)


# -- logs of several sites ----------------------------------------------------------------------------------


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    one = swf(tmp_path / "a.swf", (1, 100, 10, 3, 20, 7), (2, 160, 20, 1, 40, 8), unix=1000)
    other = swf(tmp_path / "b.swf", (1, 0, 30, 2, 60, 7), (2, 30, 40, 1, 80, -1), unix=1050)
    return [one, other]


def test_logs_of_sites_are_merged_by_release(logs: list[Path]) -> None:
    jobs = gs.Workload.jobs_from_logs(logs).realize(TWO)
    assert jobs.site is not None and jobs.requested is not None and jobs.user is not None
    assert jobs.release.tolist() == [0.0, 0.0, 30.0, 60.0]  # each log begins at 0 s
    assert jobs.site.tolist() == [0, 1, 1, 0] and jobs.tasks.tolist() == [3, 2, 1, 1]
    assert jobs.requested.tolist() == [20.0, 60.0, 80.0, 40.0]
    assert jobs.task_size.tolist() == [10_000.0, 15_000.0, 20_000.0, 20_000.0]
    assert [site == (machine >= 3) for site, machine in zip(jobs.site, jobs.submitter, strict=True)] == [
        1
    ] * 4
    # user 7 of one log is not user 7 of the other
    assert jobs.user.tolist() == [7, 16, -1, 8]


def test_wide_jobs_of_all_logs_are_left_out(logs: list[Path]) -> None:
    """With two processors per node, the job of three processors at the first site has two nodes."""
    with pytest.warns(gs.TraceWarning, match=r"a.swf:\d+: 1 jobs of more than 1 nodes, left out"):
        jobs = gs.Workload.jobs_from_logs(logs, cores_per_node=2, max_nodes=1).realize(TWO)
    assert jobs.job is not None and jobs.job.tolist() == [2, 1, 2]


def test_logs_can_be_aligned_by_unix_time(logs: list[Path], tmp_path: Path) -> None:
    """The first log has jobs at 1100 and 1160 s, the second one at 1050 and 1080 s."""
    jobs = gs.Workload.jobs_from_logs(logs, align="unix").realize(TWO)
    assert jobs.release.tolist() == [0.0, 30.0, 50.0, 110.0]
    assert jobs.site is not None and jobs.site.tolist() == [1, 1, 0, 0]
    bare = swf(tmp_path / "c.swf", (1, 0, 1, 1, 1, 1))
    with pytest.raises(gs.ScenarioError, match=r"the header must have UnixStartTime .*; .*convert --zone"):
        gs.Workload.jobs_from_logs([logs[0], bare], align="unix").realize(TWO)


def test_logs_keep_their_dates_by_default_if_they_have_a_common_period(
    logs: list[Path], tmp_path: Path
) -> None:
    """The first log has jobs at 1100 and 1160 s, the second one at 1050 and 1080 s."""
    common = swf(tmp_path / "c.swf", (1, 0, 30, 2, 60, 7), (2, 30, 40, 1, 80, -1), unix=1075)
    bare = swf(tmp_path / "d.swf", (1, 0, 1, 1, 1, 1))
    for other, align, release, text in (
        (common, None, [0, 25, 30, 85], "which keep their dates (workload.align"),
        (common, "first", [0, 0, 30, 60], "each of which begins at 0 s"),
        (logs[1], None, [0, 0, 30, 60], "each of which begins at 0 s since they have no common period"),
        (bare, None, [0, 0, 60], "each of which begins at 0 s since d.swf does not state UnixStartTime"),
    ):
        workload = gs.Workload.jobs_from_logs([logs[0], other], align=align)
        assert workload.realize(TWO).release.tolist() == release
        assert f"first release of the logs, {text}" in workload.remarks["clock"]
    assert (
        workload.remarks["period"]
        == "submitted from 1970-01-01 to 1970-01-01 (a.swf), by the clocks of the logs"
    )


def test_nodes_of_different_processor_counts_are_a_remark(logs: list[Path]) -> None:
    for procs, text in (
        (48, "a node of 48 processors"),
        ([48, 64], "48 (a.swf), 64 (b.swf) processors, which"),
    ):
        assert text in gs.Workload.jobs_from_logs(logs, cores_per_node=procs).remarks["cores"]


def test_users_of_equal_names_may_be_one_user_of_several_sites(tmp_path: Path) -> None:
    one = swf(tmp_path / "a.swf", (1, 0, 10, 2, 20, 7), (2, 10, 10, 1, 20, 8))
    other = swf(tmp_path / "b.swf", (1, 0, 10, 2, 20, 1), (2, 10, 10, 1, 20, 8), (3, 20, 10, 1, 20, -1))
    for path, users in ((one, "; User: 7 ada\n; User: 8 bob\n"), (other, "; User: 1 bob\n; User: 8 eve\n")):
        path.write_text(users + path.read_text())
    shared = gs.Workload.jobs_from_logs([one, other], shared_users=True).realize(TWO)
    names, members = shared.members("user")
    assert [names[k] for k in members] == ["ada", "bob", "bob", "eve", "unknown"]
    apart, _ = gs.Workload.jobs_from_logs([one, other]).realize(TWO).members("user")
    assert apart == ["unknown", "delft/ada", "delft/bob", "leiden/bob", "leiden/eve"]


def test_logs_of_different_periods_are_a_warning(tmp_path: Path) -> None:
    """The warning has the periods, and an end with which both logs have jobs on as many days."""
    jobs = [(k, (k - 1) * DAY, 10, 1, 20, 7) for k in range(1, 12)]
    paths = [swf(tmp_path / f"{days}.swf", *jobs[: days + 1]) for days in (3, 10)]
    with pytest.warns(gs.TraceWarning, match=r"3.swf 0 to 3, 10.swf 0 to 10; workload.end, such as 259201 s"):
        gs.Workload.jobs_from_logs(paths).realize(TWO)
    gs.Workload.jobs_from_logs(paths, end=3 * DAY + 1).realize(TWO)


def test_logs_need_a_site_each(logs: list[Path]) -> None:
    workload = gs.Workload.jobs_from_logs(logs)
    for platform, count in ((gs.Platform.equal(5), "none"), (gs.Platform.sites([1, 1, 1]), "3")):
        with pytest.raises(gs.ScenarioError, match=f"platform must have 2 sites .*, got {count}"):
            workload.realize(platform)
    with pytest.raises(gs.ScenarioError, match="workload.cores_per_node must have 2 entries"):
        gs.Workload.jobs_from_logs(logs, cores_per_node=[1])
    with pytest.raises(gs.ScenarioError, match="workload.paths must have at least one log"):
        gs.Workload.jobs_from_logs([])


def test_paths_of_logs_are_relative_to_the_scenario_file(logs: list[Path], tmp_path: Path) -> None:
    scenario = gs.Scenario(TWO, gs.Workload.jobs_from_logs(logs))
    relative = scenario.replaced({"workload.paths": ["a.swf", "b.swf"]}, folder=str(tmp_path))
    assert relative == scenario and scenario.files == tuple(map(str, logs))
    file = tmp_path / "scenario.toml"
    file.write_text(
        '[platform]\nkind = "sites"\nsizes = [3, 2]\n'
        '[workload]\nkind = "site-logs"\npaths = ["a.swf", "b.swf"]\n'
    )
    assert gs.Scenario.from_toml(file).files == scenario.files


def test_a_changed_log_is_read_again(logs: list[Path]) -> None:
    scenario = gs.Scenario(gs.Platform.sites([3, 2]), gs.Workload.jobs_from_logs(logs))
    before = gs.simulate(scenario, gs.BatchQueue())
    swf(logs[1], (1, 0, 77, 2, 99, 7))
    after = gs.simulate(scenario, gs.BatchQueue())
    assert len(before.applications) == 4 and len(after.applications) == 3


def test_a_site_by_itself_has_its_machines_and_jobs(logs: list[Path]) -> None:
    alone = gs.Scenario(TWO, gs.Workload.jobs_from_logs(logs)).by_site()
    assert list(alone) == ["delft", "leiden"] and alone["leiden"].platform == gs.Platform.equal(2, 500.0)
    jobs = alone["leiden"].workload.realize(alone["leiden"].platform)
    assert jobs.release.tolist() == [0.0, 30.0] and (jobs.task_size / 500.0).tolist() == [30.0, 40.0]
    assert jobs.requested is not None and jobs.requested.tolist() == [60.0, 80.0]
    later = alone["delft"].workload.realize(alone["delft"].platform)
    assert later.release.tolist() == [0.0, 60.0] and set(later.submitter.tolist()) <= {0, 1, 2}
    wide = gs.Scenario(TWO, gs.Workload.jobs_of([0.0], 3, 1.0, site=[1]))
    with pytest.raises(gs.ScenarioError, match="workload.nodes must be at most 2 at site leiden"):
        wide.by_site()
    with pytest.raises(gs.ScenarioError, match=r"workload.site\[0\] must be the home of the job, got -1"):
        gs.Scenario(TWO, gs.Workload.jobs_of([0.0], 1, 1.0, site=[-1])).by_site()
    with pytest.raises(gs.ScenarioError, match="Scenario.by_site requires rigid jobs"):
        gs.Scenario(gs.Platform.equal(2), gs.Workload.jobs_of([0.0], 1, 1.0)).by_site()


# -- resampling ---------------------------------------------------------------------------------------------


@pytest.fixture
def daily_log(tmp_path: Path) -> Path:
    """Return a log of one job a day for 25 days, of three users; job k runs k seconds."""
    return swf(tmp_path / "daily.swf", *((k, (k - 1) * DAY, k, 1 + k % 3, 100, k % 3) for k in range(1, 26)))


def realize_resampled(path: Path, blocks: Any, seed: int = 1) -> gs.Applications:
    workload = gs.Workload.jobs_from_log(path, resample=blocks, seed=seed)
    return workload.realize(gs.Platform.equal(3))


def fields(jobs: gs.Applications) -> list[tuple[int, ...]]:
    assert jobs.job is not None
    return list(zip(jobs.job.tolist(), jobs.tasks.tolist(), (jobs.task_size / 1000.0).tolist(), strict=True))


def test_whole_weeks_are_drawn_and_keep_the_time_of_the_week(daily_log: Path) -> None:
    """The log has three whole weeks; the jobs of its last four days are left out."""
    found = set()
    for seed in range(8):
        jobs = realize_resampled(daily_log, "weeks", seed)
        numbers = [job for job, *_ in fields(jobs)]
        assert fields(jobs) == [(job, 1 + job % 3, float(job)) for job in numbers]
        assert jobs.release.tolist() == [k * DAY for k in range(21)]  # a job each day, in order
        for week in range(3):
            first, *others = numbers[7 * week : 7 * week + 7]
            assert first in (1, 8, 15) and others == list(range(first + 1, first + 7))
        found.add(tuple(numbers))
    assert len(found) > 4
    assert fields(realize_resampled(daily_log, "weeks", 5)) == fields(
        realize_resampled(daily_log, "weeks", 5)
    )


def test_drawn_users_come_with_all_their_jobs(daily_log: Path) -> None:
    jobs_of = {user: [k for k in range(1, 26) if k % 3 == user] for user in range(3)}
    shifted = False
    for seed in range(8):
        jobs = realize_resampled(daily_log, "users", seed)
        assert jobs.user is not None and jobs.job is not None
        offset = None
        for user in range(3):
            rows = np.flatnonzero(jobs.user == user)
            assert sorted(jobs.job[rows].tolist()) in jobs_of.values()
            # all jobs of a user's run are shifted by the same part of a week
            offsets = set(((jobs.release[rows] - (jobs.job[rows] - 1) * DAY) % WEEK).tolist())
            assert len(offsets) == 1 and offset in (None, *offsets)
            (offset,) = offsets
        counts = Counter(zip(jobs.job.tolist(), jobs.release.tolist(), strict=True))
        shifted |= len(counts) > len(set(jobs.job.tolist()))
    assert shifted  # the two copies of the jobs of a user who is drawn twice may begin at different times


def test_resampled_logs_have_the_stated_utilization(daily_log: Path) -> None:
    workload = gs.Workload.jobs_from_log(daily_log, resample="users", utilization=0.7, copies=2, jitter=0.0)
    jobs = workload.realize(gs.Platform.equal(4))
    assert jobs.size.sum() / (4000.0 * jobs.release[-1]) == pytest.approx(0.7)


def test_sites_draw_the_same_weeks(daily_log: Path, tmp_path: Path) -> None:
    other = swf(tmp_path / "o.swf", *((k, (k - 1) * DAY, 50 + k, 1, 100, 1) for k in range(1, 26)))
    workload = gs.Workload.jobs_from_logs([daily_log, other], resample="weeks")
    jobs = workload.realize(gs.Platform.sites([3, 1]))
    assert jobs.job is not None and jobs.site is not None and len(jobs) == 42
    assert jobs.job[jobs.site == 0].tolist() == jobs.job[jobs.site == 1].tolist()


def test_logs_too_short_to_draw_from_are_rejected(logs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(
        gs.ScenarioError, match='workload.resample = "weeks" requires a log of at least 2 weeks'
    ):
        realize_resampled(logs[0], "weeks")
    alone = swf(tmp_path / "alone.swf", (1, 0, 1, 1, 1, 4), (2, 9, 1, 1, 1, 4))
    with pytest.raises(gs.ScenarioError, match='"users" requires a log of at least 2 users, got 1'):
        realize_resampled(alone, "users")
    unknown = swf(tmp_path / "unknown.swf", (1, 0, 1, 1, 1, -1), (2, 9, 1, 1, 1, -1))
    with pytest.raises(gs.ScenarioError, match='"users" requires a log with users, got one without'):
        realize_resampled(unknown, "users")


def test_replications_of_a_resampled_log_have_other_jobs(daily_log: Path) -> None:
    """A central queue does not depend on submitters, so that without resampling all replications agree."""
    values = {}
    for blocks in (None, "weeks"):
        workload = gs.Workload.jobs_from_log(daily_log, resample=blocks, utilization=0.9)
        scenario = gs.Scenario(gs.Platform.equal(3), workload)
        queue = {"easy": gs.BatchQueue()}
        found = gs.replicate(scenario, queue, replicates=4, metrics=["mean_waiting"])
        values[blocks] = found["mean_waiting"]["easy"]
        assert ("workload" in scenario.drawn) == (blocks is not None)
    assert len(set(values[None])) == 1 and len(set(values["weeks"])) > 1
