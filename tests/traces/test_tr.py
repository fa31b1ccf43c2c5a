"""Job logs with the duration of every task: exact values, invalid files, and workloads."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import ScenarioError, TraceFormatError, TraceWarning
from gridsim.traces import bags_of_tasks, read_bags, read_jobs, read_tr
from gridsim.traces.lint import info, lint
from gridsim.validation.results import validate_result

#: Three jobs, the second and the third submitted together; a task below 1 s.
LOG = "100.5 2 3.6 2.5 4.7\n\n 101.5\t3  2.0 1.9 3.2 0.9\n101.5 1 7.25 7.25\n"
GRID = gs.Platform.of([1000.0, 3000.0])


@pytest.mark.parametrize("name", ["toy.tr", "toy.tr.gz", "toy.txt"])
def test_a_small_log_is_read_exactly(write, name):
    log = read_tr(write(name, LOG.replace("\n", "\r\n")))
    assert len(log) == 3 and log.submit.tolist() == [100.5, 101.5, 101.5]
    assert log.tasks.tolist() == [2, 3, 1] and log.mean.tolist() == [3.6, 2.0, 7.25]
    assert log.duration.tolist() == [2.5, 4.7, 1.9, 3.2, 0.9, 7.25]
    assert log.line.tolist() == [1, 3, 4] and log.offsets.tolist() == [0, 2, 5, 6]
    assert not log.duration.flags.writeable
    assert info(write(name, LOG))["format"] == "tr"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 1 5", "a line must have 4 fields or more, got 3"),
        ("1 2 5 5", "field tasks must be 1, the number of durations of the line, got 2"),
        ("1 2 5 5 5 5", "field tasks must be 3, the number of durations of the line, got 2"),
        ("1 1.5 5 5", "field tasks must be a whole number, got '1.5'"),
        ("nan 1 5 5", "field submit must be a finite number, got 'nan'"),
        ("1 1 5 1_0", "field duration 1 must be a number, got '1_0'"),
        ("1 2 5 5 \u0665", "field duration 2 must be a number, got '\u0665'"),
        ("1 1 -5 5", "field mean must be at least 0 s, got -5"),
        ("1 2 5 5 -1", "field duration 2 must be at least 0 s, got -1"),
        ("1 1 5 1e19", "field duration 1 must be at most 1e+18, got '1e19'"),
        ("# 1 5 5", "field submit must be a number, got '#'"),
    ],
)
def test_faulty_lines_are_rejected_with_their_number(write, bad, message):
    path = write("bad.tr.gz", f"{LOG}{bad}\n1 1\n")
    with pytest.raises(TraceFormatError) as excinfo:
        read_tr(path)
    assert str(excinfo.value) == f"{path}:5: {message}"
    codes = {finding.code: (finding.count, finding.first_line) for finding in lint(path)}
    code = "missing-fields" if "fields" in message else "task-count" if "tasks" in message else "bad-number"
    assert codes == {"missing-fields": (1, 6), code: (2 if code == "missing-fields" else 1, 5)}


@pytest.mark.parametrize(
    ("content", "message"), [("\n", "1: no jobs in this log"), (b"1 1 5 5\n\0", "2: the file must be text")]
)
def test_unreadable_logs_are_rejected(write, content, message):
    path = write("bad.tr", content)
    with pytest.raises(TraceFormatError) as excinfo:
        read_tr(path)
    assert str(excinfo.value).startswith(f"{path}:{message}")


def test_sorted_jobs_keep_their_tasks(write):
    path = write("late.tr", "9 2 1 1 2\n5 3 4 3 4 5\n9 1 6 6\n5 1 7 7\n")
    with pytest.warns(TraceWarning, match=r"late.tr:2: 2 submissions out of order, sorted"):
        log = read_tr(path)
    assert log.submit.tolist() == [5, 5, 9, 9] and log.line.tolist() == [2, 4, 1, 3]
    assert log.duration.tolist() == [3, 4, 5, 7, 1, 2, 6]


def test_jobs_of_one_submit_time_are_released_with_a_gap(write):
    """The third job is released after a job that is later in the log."""
    log = read_tr(write("a.tr", "5 1 1 1\n5 1 2 2\n5 2 3 3 4\n5.015 1 5 5\n9 1 6 6\n"))
    assert log.release.tolist() == pytest.approx([0, 0.01, 0.02, 0.015, 4], abs=1e-12)
    bags = bags_of_tasks(log)
    assert bags.release.tolist() == pytest.approx([0, 0.01, 0.015, 0.02, 4], abs=1e-12)
    assert bags.job_run_time.tolist() == [1, 2, 5, 3, 4, 6] and bags.tasks.tolist() == [1, 1, 1, 2, 1]
    applications = gs.Workload.from_log(log.path, skip=2, reference_speed=1.0).realize(GRID)
    assert applications.release_ns.tolist() == [0, 5_000_000, 3_985_000_000]


def test_durations_become_task_sizes_and_means_become_estimates(write):
    workload = gs.Workload.from_log(write("a.tr", LOG), reference_speed=10.0)
    with pytest.warns(TraceWarning, match="a.tr:3: 1 tasks of duration 0 s, counted as 0.001 s"):
        applications = workload.realize(GRID)
    assert applications.release_ns.tolist() == [0, 10**9, 1_010_000_000]
    assert applications.sizes().tolist() == [20, 40, 10, 30, 0.01, 70]
    assert applications.estimate is not None and applications.estimate.tolist() == [30, 20, 70]
    assert applications.task_size.tolist() == pytest.approx([30, 40.01 / 3, 70])
    assert gs.Scenario.from_toml(gs.Scenario(GRID, workload).to_toml()).workload == workload

    exact = gs.Workload.from_log(write("a.tr", LOG), whole_seconds=False).realize(GRID)
    assert exact.sizes().tolist() == [
        5000,
        9400,
        3800,
        6400,
        1800,
        14500,
    ]  # at 2000 Mflop/s, the mean speed of the platform
    assert exact.estimates().tolist() == [7200, 4000, 14500]


@pytest.mark.filterwarnings("ignore::gridsim.TraceWarning")
def test_a_log_of_tasks_is_simulated(write):
    path = write("a.tr", LOG)
    result = gs.simulate(gs.Scenario(GRID, gs.Workload.from_log(path)), gs.WqrFt(), record=True)
    assert result.applications["estimate"].tolist() == [6000, 4000, 14000]
    assert validate_result(result) == []
    with pytest.raises(ScenarioError, match="fcfs does not support tasks of different sizes"):
        gs.simulate(gs.Scenario(GRID, gs.Workload.from_log(path)), gs.Fcfs())
    equal = gs.simulate(gs.Scenario(GRID, gs.Workload.from_log(path, own_sizes=False)), gs.Fcfs())
    with pytest.raises(KeyError, match="estimate"):  # all tasks have the mean of their job
        equal.applications["estimate"]
    with pytest.raises(TraceFormatError, match="the file must be a job log, swf, gwf, .*, got tr"):
        gs.Workload.jobs_from_log(path).realize(GRID)
    with pytest.raises(TraceFormatError, match="the file must be a job log, swf, gwf, .*, got tr"):
        read_jobs(path)


def test_trace_commands_accept_the_format(write):
    path = str(write("a.tr", LOG + "0 1 5 6\n"))
    displayed = CliRunner().invoke(cli, ["trace", "info", path])
    assert displayed.exit_code == 0 and "max_tasks           3\n" in displayed.output
    displayed = CliRunner().invoke(cli, ["trace", "lint", path])
    assert displayed.exit_code == 0
    assert [line.rpartition(" [")[2] for line in displayed.output.splitlines()[:-1]] == [
        "unsorted-submit]", "other-mean]", "duplicate-submit]", "short-tasks]"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cutoff", "jobs", "tasks", "short", "work", "busy"),
    [
        ("YH1_sub", 90.5811, 2_910, 122_878, 2_634, 83_276_951, 3_227),
        ("GOOG_subtrace", 1129.532, 10_000, 312_558, 9_097, 439_930_849, 4_704),
    ],
)
@pytest.mark.filterwarnings("ignore::gridsim.TraceWarning")
def test_real_logs_match_published_numbers(traces, name, cutoff, jobs, tasks, short, work, busy):
    path = traces / "probe-jobs" / f"{name}.tr.gz"
    facts = info(path)
    assert (facts["records"], facts["tasks"]) == (jobs, tasks)
    assert int(facts["cpu_s"]) == work and round(facts["cpu_s"] / facts["span_s"]) == busy
    workload = gs.Workload.from_log(path, reference_speed=1000.0)
    applications = workload.realize(gs.Platform.equal(4000, 1000.0))
    assert len(applications) == jobs and applications.tasks.sum() == tasks
    assert (applications.estimates() / 1000.0 <= cutoff).sum() == short
    assert len(np.unique(applications.release_ns)) == jobs
    exact = read_bags(path, gap=0.0, span=0.0, whole_seconds=False)
    assert exact.cpu_seconds == pytest.approx(work, abs=1.0) and exact.job_run_time.min() > 0
