"""Rigid jobs from job logs: exact values, a slow reference, parameters, and the real logs."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError, TraceWarning
from gridsim.traces import JOB_DTYPE, JobLog, derive_jobs, read_swf

COLUMNS = ("release", "nodes", "run_time", "requested", "user", "job")


def make_log(*jobs: tuple[float, ...]) -> JobLog:
    """Return a log of rows (submit, run_time, used_procs[, req_time[, job]]), numbered from 1."""
    table = np.full(len(jobs), -1, dtype=JOB_DTYPE)
    table["job"] = table["line"] = np.arange(1, len(jobs) + 1)
    for row, (submit, run_time, used, *rest) in zip(table, jobs, strict=True):
        row["submit"], row["run_time"], row["used_procs"], row["user"] = submit, run_time, used, 7
        for name, value in zip(("req_time", "job"), rest, strict=False):
            row[name] = value
    return JobLog("toy.swf", {}, table)


def rows(jobs):
    return list(zip(*(getattr(jobs, name).tolist() for name in COLUMNS), strict=True))


def test_rigid_jobs_of_a_small_log_are_exact():
    log = make_log((100, 10, 1, 20), (100, 7, 8, 5), (105, 3, 9), (110, 4, 17, 0), (110, 2, -1, 9, 2))
    assert rows(derive_jobs(log, cores_per_node=8)) == [
        (100, 1, 10, 20, 7, 1),
        (100, 1, 7, 5, 7, 2),  # the job ran for longer than it requested
        (105, 2, 3, 3, 7, 3),
        # jobs of one instant keep the order of the log, whatever their numbers
        (110, 3, 4, 4, 7, 4),
        (110, 1, 2, 9, 7, 2),
    ]
    jobs = derive_jobs(log)
    assert jobs.nodes.tolist() == [1, 8, 9, 17, 1] and len(jobs) == 5
    assert jobs.nodes.dtype == jobs.user.dtype == jobs.job.dtype == np.int64
    assert jobs.release.dtype == jobs.run_time.dtype == jobs.requested.dtype == np.float64
    assert jobs.utilization(2) == (10 + 56 + 27 + 2 + 68) / 20
    assert derive_jobs(make_log((5, 1, 1), (5, 1, 1))).utilization(3) == math.inf


def test_rows_of_rigid_jobs_refer_to_the_log():
    """The first job, of unknown run time, is none of the workload."""
    with pytest.warns(TraceWarning, match="1 jobs of unknown run time"):
        jobs = derive_jobs(make_log((0, -1, 1, 20, 3), (0, 10, 1, 20, 2), (0, 10, 1, 20, 1)))
    assert jobs.job.tolist() == [2, 1] and jobs.row.tolist() == [1, 2]


def test_the_window_is_half_open_and_begins_at_the_first_submission():
    log = make_log(*((100 + t, 1, 1) for t in range(6)))
    assert derive_jobs(log, start=1, end=4).release.tolist() == [101, 102, 103]
    assert derive_jobs(log, start=5).release.tolist() == [105]
    no_jobs = derive_jobs(log, start=6)
    assert len(no_jobs) == 0 and no_jobs.utilization(3) == 0
    assert [getattr(no_jobs, name).dtype.kind for name in COLUMNS] == list("fiffii")
    assert len(derive_jobs(make_log())) == len(derive_jobs(log, start=6, utilization=0.5, machines=2)) == 0


def test_left_out_and_reinterpreted_jobs_are_reported():
    log = make_log((0, -1, 1), (0, 0, 2), (1, 0, 9), (2, 0, 1, 30), (3, -1, 9), (4, 6, 9), (90, -1, 9))
    with pytest.warns(TraceWarning) as records:
        jobs = derive_jobs(log, end=90, max_nodes=8, zero_run_time=0.5)
    assert [str(w.message) for w in records] == [
        "toy.swf:3: 3 jobs of more than 8 processors, left out (the first is at this line)",
        "toy.swf:1: 1 jobs of unknown run time, left out (the first is at this line)",
        "toy.swf:2: 2 jobs of run time 0 s, counted as 0.5 s (the first is at this line)",
    ]
    assert {w.filename for w in records} == {__file__}
    assert rows(jobs) == [(0, 2, 0.5, 0.5, 7, 2), (2, 1, 0.5, 30, 7, 4)]
    assert derive_jobs(make_log((0, 1, 9)), cores_per_node=2, max_nodes=5).nodes.tolist() == [5]


def test_submit_times_are_compressed_or_stretched():
    log = make_log((100, 10, 2), (104, 10, 1), (120, 10, 3))  # 60 node seconds in 20 s
    assert derive_jobs(log, utilization=1.0, machines=6).release.tolist() == [100, 102, 110]
    assert derive_jobs(log, utilization=0.5, machines=3).release.tolist() == [100, 108, 140]
    window = derive_jobs(log, start=4, utilization=1.0, machines=5)  # 40 node seconds in 16 s
    assert window.release.tolist() == [104, 112]
    assert window.run_time.tolist() == [10, 10]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cores_per_node": 0}, "cores_per_node must be a whole number of at least 1, got 0"),
        ({"cores_per_node": 1.5}, "cores_per_node must be a whole number of at least 1, got 1.5"),
        ({"cores_per_node": math.nan}, "cores_per_node must be a whole number of at least 1, got nan"),
        ({"cores_per_node": math.inf}, "cores_per_node must be a whole number of at least 1, got inf"),
        ({"start": -1}, "start must be a finite time of at least 0 s, got -1"),
        ({"start": math.inf}, "start must be a finite time of at least 0 s, got inf"),
        ({"start": math.nan}, "start must be a finite time of at least 0 s, got nan"),
        ({"start": 5, "end": 5}, "end must be after start, 5 s, got 5"),
        ({"end": math.nan}, "end must be after start, 0.0 s, got nan"),
        ({"max_nodes": 0}, "max_nodes must be a whole number of at least 1, got 0"),
        ({"zero_run_time": 0}, "zero_run_time must be a finite time above 0 s, got 0"),
        ({"zero_run_time": math.inf}, "zero_run_time must be a finite time above 0 s, got inf"),
        ({"utilization": 0, "machines": 5}, "utilization must be a finite number above 0, got 0"),
        ({"utilization": math.nan, "machines": 5}, "utilization must be a finite number above 0, got nan"),
        ({"utilization": 0.5, "machines": 0}, "machines must be a whole number of at least 1, got 0"),
        ({"utilization": 0.5}, "utilization requires machines"),
        ({"machines": 5}, "machines requires utilization"),
        (
            {"utilization": 0.5, "machines": 5},
            "utilization requires jobs with at least two different release times",
        ),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters, message):
    with pytest.raises(ScenarioError) as excinfo:
        derive_jobs(make_log((0, 1, 1)), **parameters)
    assert str(excinfo.value) == message
    with pytest.raises(ScenarioError, match="^machines"):
        derive_jobs(make_log((0, 1, 1))).utilization(0)


def reference(log, cores_per_node, start, end, max_nodes):
    first = min(job["submit"] for job in log.jobs)
    actual = []
    for job, procs in zip(log.jobs, log.procs, strict=True):
        nodes = math.ceil(procs / cores_per_node)
        inside = first + start <= job["submit"] < first + end
        if inside and job["run_time"] >= 0 and (max_nodes is None or nodes <= max_nodes):
            run_time = job["run_time"] or 1.0
            requested = job["req_time"] if job["req_time"] > 0 else run_time
            actual.append((job["submit"], nodes, run_time, requested, 7, job["job"]))
    return sorted(actual, key=lambda job: job[0])


jobs = st.tuples(
    st.integers(0, 300), st.integers(-1, 50), st.integers(-1, 40), st.integers(-1, 60), st.integers(1, 9)
)


@settings(max_examples=50)
@given(
    st.lists(jobs, min_size=1, max_size=40).map(sorted),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([(0.0, math.inf), (20.0, 150.0)]),
    st.sampled_from([None, 2, 1000]),
    st.none() | st.floats(0.01, 10),
)
def test_rigid_jobs_match_the_reference_implementation(jobs, cores_per_node, window, max_nodes, utilization):
    log = make_log(*jobs)
    start, end = window
    expected = reference(log, cores_per_node, start, end, max_nodes)
    machines = None if utilization is None else 12
    assume(utilization is None or not expected or expected[0][0] < expected[-1][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        actual = derive_jobs(
            log,
            cores_per_node=cores_per_node,
            start=start,
            end=end,
            max_nodes=max_nodes,
            utilization=utilization,
            machines=machines,
        )
    assert [row[1:] for row in rows(actual)] == [row[1:] for row in expected]
    if utilization is None:
        assert actual.release.tolist() == [row[0] for row in expected]
    elif expected:
        assert actual.release[0] == expected[0][0]
        assert actual.utilization(12) == pytest.approx(utilization, rel=1e-6)
        gaps = np.diff([row[0] for row in expected])
        factor = (actual.release[-1] - actual.release[0]) / gaps.sum()
        assert np.diff(actual.release) == pytest.approx(gaps * factor, abs=1e-9 * actual.release[-1])


def test_a_real_parallel_log_has_its_known_values(traces):
    """The factor follows from the processors used; with the processors requested it would be 0.2571."""
    log = read_swf(traces / "ricc2010-a/RICC-2010-2-a.swf.gz")
    with pytest.warns(TraceWarning) as records:
        jobs = derive_jobs(log, cores_per_node=8)
    messages = [str(w.message).partition(": ")[2].split(" (the first")[0] for w in records]
    assert messages == [
        "8 jobs that never ran (run time 0 s, cancelled or without processors), left out",
        "1 jobs of run time 0 s, counted as 1 s",
        "13995 jobs started while more processors were in use than the header's MaxProcs, 8192, such as "
        "8225 at 1174030 s (2010-05-14 14:12:05); the header says 447794 records, but the file has 150331",
    ]
    assert len(jobs) == 150_331 - 8 and jobs.nodes.max() == 1000 and (jobs.nodes > 420).sum() == 61
    now = jobs.utilization(5000)
    assert now == pytest.approx(0.2421, abs=1e-4)
    with pytest.warns(TraceWarning) as records:
        packed = derive_jobs(log, cores_per_node=8, max_nodes=420)
    assert len(packed) == 150_331 - 8 - 61
    assert any("61 jobs of more than 420 nodes, left out" in str(w.message) for w in records)
    with pytest.warns(TraceWarning):
        packed = derive_jobs(log, cores_per_node=8, utilization=0.95, machines=5000)
    factor = np.ptp(packed.release) / np.ptp(jobs.release)
    assert factor == pytest.approx(now / 0.95) == pytest.approx(0.2549, abs=1e-4)
    assert packed.utilization(5000) == pytest.approx(0.95)
    assert packed.release[0] == jobs.release[0] and (packed.job == jobs.job).all()


def test_facts_of_a_log_are_those_of_its_present_file(tmp_path):
    """They are kept, as reading the log for each sentence takes longer than a run."""
    path, job = tmp_path / "log.swf", "1 0 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 -1 -1 -1\n"
    for day in ("2026-03-02", "2026-03-03"):
        start = int(np.datetime64(f"{day}T12:00:00").astype(np.int64))
        path.write_text(f"; UnixStartTime: {start}\n; MaxProcs: 4\n{job}")
        os.utime(path, ns=(start, start))  # also on a system with a coarse clock
        recipe = gs.Workload.jobs_from_log(str(path)).recipe
        assert recipe.dates == (day, day) and recipe.dates == (day, day)
