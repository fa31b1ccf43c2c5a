"""Bags of tasks from job logs: exact values, a slow reference, parameters, and the real logs."""

from __future__ import annotations

import csv
import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.errors import ScenarioError, TraceWarning
from gridsim.traces import JOB_DTYPE, JobLog, SwfLog, derive_bags, read_swf


def make_log(*jobs: tuple[float, ...]) -> SwfLog:
    """Return a log of rows (submit, user, run_time, used_procs[, req_procs]), numbered from 1."""
    table = np.full(len(jobs), -1, dtype=JOB_DTYPE)
    table["job"] = table["line"] = np.arange(1, len(jobs) + 1)
    for row, (submit, user, run_time, used, *requested) in zip(table, jobs, strict=True):
        row["submit"], row["user"], row["run_time"], row["used_procs"] = submit, user, run_time, used
        row["req_procs"] = requested[0] if requested else -1
    return SwfLog("toy.swf", {}, table)


def rows(bags):
    return list(
        zip(
            *(getattr(bags, name).tolist() for name in ("release", "tasks", "run_time", "user", "jobs")),
            strict=True,
        )
    )


def test_bags_of_a_small_log_are_exact():
    log = make_log(
        (0, 1, 10, 1),
        (0, 2, 7, -1, 4),  # requested processors
        (60, 1, 40, 2),
        (120, 1, 10, 1),  # 120 s after the first job: in the same bag
        (121, 1, 5, -1),  # 121 s after the first job: a new bag, although only 1 s after the previous job
        (121, 2, 9, 1),  # 121 s after the previous job
    )
    assert rows(derive_bags(log)) == [
        (0, 4, 25, 1, 3),
        (0, 4, 7, 2, 1),
        (121, 1, 5, 1, 1),
        (121, 1, 9, 2, 1),
    ]
    assert rows(derive_bags(log, span=math.inf)) == [(0, 5, 21, 1, 4), (0, 4, 7, 2, 1), (121, 1, 9, 2, 1)]
    assert rows(derive_bags(log, gap=0, span=0))[0] == (0, 1, 10, 1, 1)
    bags = derive_bags(log)
    assert bags.offsets.tolist() == [0, 3, 4, 5, 6]
    assert bags.job_run_time.tolist() == [10, 40, 10, 7, 5, 9]
    assert bags.job_procs.tolist() == [1, 2, 1, 4, 1, 1]
    assert len(bags) == 4 and bags.cpu_seconds == 142
    assert bags.offered_load(2) == 142 / 242
    assert bags.tasks.dtype == bags.user.dtype == bags.jobs.dtype == np.int64


def test_offered_load_counts_from_the_first_release():
    """The work is 100 processor seconds, the capacity 2 machines for the 100 s between the releases."""
    assert derive_bags(make_log((100, 1, 50, 1), (200, 2, 50, 1))).offered_load(2) == 0.5


def test_bags_of_one_release_are_sorted_by_their_first_jobs():
    assert derive_bags(make_log((0, 2, 10, 1), (0, 1, 10, 1))).user.tolist() == [2, 1]


def test_a_long_series_of_jobs_is_split_into_several_bags():
    log = make_log(*((t, 3, 1, 1) for t in range(0, 1000, 50)))
    assert derive_bags(log).release.tolist() == [0, 150, 300, 450, 600, 750, 900]
    assert derive_bags(log, span=1e9).jobs.tolist() == [20]


def test_jobs_of_unknown_run_time_are_left_out_and_zero_run_times_replaced():
    log = make_log((0, 1, -1, 5), (0, 1, 0, 2), (1, 1, 4, 2), (2, 1, 0, 1), (500, 1, -1, 1))
    with pytest.warns(TraceWarning) as records:
        bags = derive_bags(log, zero_run_time=0.5)
    assert [str(w.message) for w in records] == [
        "toy.swf:1: 2 jobs of unknown run time, left out (the first is at this line)",
        "toy.swf:2: 2 jobs of run time 0 s, counted as 0.5 s (the first is at this line)",
    ]
    assert rows(bags) == [(0, 5, 9.5 / 5, 1, 3)]
    assert bags.job_run_time.tolist() == [0.5, 4.0, 0.5] and bags.job_procs.tolist() == [2, 2, 1]
    with pytest.warns(TraceWarning):
        no_bags = derive_bags(make_log((0, 1, -1, 5)))
    assert (
        no_bags.offsets.tolist() == [0]
        and len(no_bags) == 0
        and no_bags.cpu_seconds == 0
        and no_bags.offered_load(3) == 0
    )


def test_a_job_with_too_many_processors_is_rejected():
    """Only the selected bags are checked."""
    bags = derive_bags(make_log((0, 1, 5, 100), (1, 1, 5, 256), (500, 1, 5, 300)))
    assert bags.tasks.tolist() == [356, 300]
    with pytest.raises(ScenarioError) as excinfo:
        bags.check_size("toy.swf", np.array([0, 1]), 100)
    assert (
        str(excinfo.value)
        == "toy.swf:2: the processors of job 2 must be at most 100, the number of machines, got 256"
    )
    bags.check_size("toy.swf", np.array([0]), 256)


def test_a_log_without_users_counts_as_one_user():
    with pytest.warns(TraceWarning, match="toy.swf:1: 2 jobs of unknown user, .* submits at one machine"):
        derive_bags(make_log((0, -1, 5, 1), (500, -1, 5, 1)))


@pytest.mark.parametrize(
    "parameter",
    [
        {"gap": -1},
        {"gap": math.nan},
        {"span": -1},
        {"span": math.nan},
        {"zero_run_time": 0},
        {"zero_run_time": math.inf},
    ],
)
def test_parameters_out_of_range_are_rejected(parameter):
    with pytest.raises(ScenarioError, match=next(iter(parameter))):
        derive_bags(make_log((0, 1, 1, 1)), **parameter)
    with pytest.raises(ScenarioError, match="^machines"):
        derive_bags(make_log((0, 1, 1, 1))).offered_load(0)


def reference(log, gap, span):
    bags = []
    latest: dict[int, dict] = {}
    for job, procs in zip(log.jobs, log.procs, strict=True):
        bag = latest.get(job["user"])
        if bag is None or job["submit"] - bag["last"] > gap or job["submit"] - bag["release"] > span:
            bag = {
                "release": job["submit"],
                "user": job["user"],
                "job": job["job"],
                "tasks": 0,
                "cpu": 0.0,
                "jobs": 0,
            }
            latest[job["user"]] = bag
            bags.append(bag)
        bag["last"] = job["submit"]
        bag["tasks"] += procs
        bag["cpu"] += procs * job["run_time"]
        bag["jobs"] += 1
    bags.sort(key=lambda bag: (bag["release"], bag["job"]))
    return [
        (bag["release"], bag["tasks"], bag["cpu"] / bag["tasks"], bag["user"], bag["jobs"]) for bag in bags
    ]


jobs = st.tuples(st.integers(0, 300), st.integers(-1, 3), st.integers(1, 50), st.integers(-1, 6))


@pytest.mark.filterwarnings("ignore:.* jobs of unknown user")
@settings(max_examples=50)
@given(
    st.lists(jobs, min_size=1, max_size=60).map(sorted),
    st.sampled_from([0.0, 3.0, 20.0, math.inf]),
    st.sampled_from([0.0, 5.0, 40.0, math.inf]),
)
def test_bags_match_the_reference_implementation(jobs, gap, span):
    log = make_log(*jobs)
    bags = derive_bags(log, gap=gap, span=span)
    expected = reference(log, gap, span)
    assert len(bags) == len(expected)
    assert np.array(rows(bags)) == pytest.approx(np.array(expected, dtype=float))
    assert bags.jobs.sum() == len(jobs) and bags.tasks.sum() == log.procs.sum()
    begins = bags.offsets[:-1]
    assert np.array_equal(np.add.reduceat(bags.job_procs, begins), bags.tasks)
    seconds = np.add.reduceat(bags.job_run_time * bags.job_procs, begins)
    assert seconds == pytest.approx(bags.tasks * bags.run_time)
    assert sorted(zip(bags.job_run_time, bags.job_procs, strict=True)) == sorted(
        zip(log.jobs["run_time"], log.procs, strict=True)
    )


def derived_rows(path):
    with gzip.open(path, "rt") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.filterwarnings("ignore:.*the header says")  # the log was cut
def test_bags_of_a_real_grid_log_match_the_derived_file(traces):
    log = read_swf(traces / "lcg2005-a/LCG-2005-a.swf.gz")
    with pytest.warns(TraceWarning, match="2 jobs of run time 0 s"):
        bags = derive_bags(log, span=math.inf)
    others = derived_rows(traces / "lcg2005-a/derived_bags_120s.csv.gz")
    actual = sorted(zip(bags.release, bags.user, bags.tasks, bags.tasks * bags.run_time, strict=True))
    expected = sorted(
        tuple(float(bag[key]) for key in ("submit_s", "user", "tasks", "cpu_s")) for bag in others
    )
    assert len(actual) == len(expected) == 3888
    actual, expected = np.array(actual), np.array(expected)
    assert (actual[:, :3] == expected[:, :3]).all()
    # The two jobs of 0 s count as 1 s here and as 0 s in the derived file.
    difference = actual[:, 3] - expected[:, 3]
    assert np.flatnonzero(difference > 0.5).size == 2 and difference.sum() == pytest.approx(2)


def test_bags_of_a_real_parallel_log_match_the_derived_file(traces):
    """The derived file counts all jobs, also those that never ran."""
    log = read_swf(traces / "ricc2010-a/RICC-2010-2-a.swf.gz")
    never = (log.jobs["status"] == 5) & (log.jobs["run_time"] == 0)
    with pytest.warns(TraceWarning) as records:
        bags = derive_bags(log, span=math.inf)
    assert "8 jobs that never ran" in str(records[0].message) and "1 jobs of run time 0 s" in str(
        records[1].message
    )
    others = derived_rows(traces / "ricc2010-a/derived_bags_120s.csv.gz")
    expected = sorted(tuple(float(bag[key]) for key in ("submit_s", "user", "tasks")) for bag in others)
    every = log.jobs.copy()
    every["run_time"][never] = 1.0  # the derived file counts these run times as 1 s
    with pytest.warns(TraceWarning):
        others = derive_bags(JobLog(log.path, {}, every), span=math.inf)
    assert sorted(zip(others.release, others.user, others.jobs, strict=True)) == expected
    assert len(others) == 10_416 and others.tasks.sum() == 3_764_066
    assert len(bags) == 10_416 and bags.tasks.sum() == 3_764_066 - log.procs[never].sum()
    with pytest.raises(ScenarioError, match=r"RICC-2010-2-a\.swf\.gz:\d+: the processors of job \d+"):
        bags.check_size(log.path, np.arange(len(bags)), 1000)
