"""Classes of the lines of a job log, in both readers and as a schedule, and their reports."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import TraceWarning
from gridsim.traces import JOB_DTYPE, JobLog, derive_bags, derive_jobs, info, read_jobs
from gridsim.traces.info import load_jobs
from gridsim.traces.job_lines import lines_of
from gridsim.traces.job_remarks import contradictions
from gridsim.traces.lint import lint
from gridsim.validation.logs import validate_swf

PARTIAL = """\
; MaxProcs: 64
1    0  0 1000 32 -1 -1 32 2000 -1 1 1 1 1 1 1 -1 -1
2  100  0 3000 64 -1 -1 64 4000 -1 1 2 1 1 1 1 -1 -1
2   -1 900 1000 64 -1 -1 64 4000 -1 2 2 1 1 1 1 -1 -1
2   -1 500 1000 64 -1 -1 64 4000 -1 2 2 1 1 1 1 -1 -1
2   -1 500 1000 64 -1 -1 64 4000 -1 3 2 1 1 1 1 -1 -1
3 5000  0 1000 32 -1 -1 32 2000 -1 1 1 1 1 1 1 -1 -1
"""
CANCELLED = """\
; MaxProcs: 64
1    0   0 36000 32 -1 -1 32 36000 -1 1 1 1 1 1 1 -1 -1
2   10  50     0 -1 -1 -1 64 86400 -1 5 2 1 1 1 1 -1 -1
3   20   0 40000 32 -1 -1 32 43200 -1 1 3 1 1 1 1 -1 -1
4  100 900   600  8 -1 -1  8   900 -1 5 3 1 1 1 1 -1 -1
"""
CHAIN = """\
; MaxProcs: 8
1 0 0 100 1 -1 -1 1 100 -1 1 1 1 1 1 1 -1 0
2 0 0 200 1 -1 -1 1 200 -1 1 1 1 1 1 1  1 0
3 0 0 100 1 -1 -1 1 100 -1 1 1 1 1 1 1  2 5
"""


def job(submit=0, run=10, used=1, status=1, *, number=1, wait=0, req=1, user=1, last="-1 -1"):
    return f"{number} {submit} {wait} {run} {used} -1 -1 {req} 99999 -1 {status} {user} 1 1 1 1 {last}\n"


def with_warnings(call):
    """Return the result of `call`, and the messages of its warnings without the path of the file."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        result = call()
    return result, [str(item.message).rpartition("log.swf")[2].lstrip(":") for item in records]


def read_all_ways(path, **options):
    """Return the rigid jobs, the bags and the schedule of a log; None for each without jobs."""
    machines = gs.Platform.equal(64)
    rigid, messages = with_warnings(lambda: gs.Workload.jobs_from_log(path, **options).realize(machines))
    bags, also = with_warnings(lambda: gs.Workload.from_log(path, gap=0.0).realize(machines))
    own, _ = with_warnings(lambda: gs.result_from_log(path, machines=64, **options))
    return rigid, bags, own, messages, also


def test_parts_of_a_job_with_a_line_for_it_are_left_out(write):
    path = write("log.swf", PARTIAL)
    rigid, bags, own, messages, also = read_all_ways(path)
    for jobs in (rigid, bags):
        assert jobs.release.tolist() == [0, 100, 5000] and jobs.tasks.tolist() == [32, 64, 32]
        assert math.fsum(jobs.size) == 256_000 * 1000
    assert own.applications["release"].tolist() == [0, 100, 5000] and own.facts["unknown_waits"] == 0
    text = "3 parts (status 2 to 4) of jobs that have a line for the whole job, left out"
    text += " (the first is at this line)"
    assert messages == also == [f"4: {text}"]
    (finding,) = lint(path)
    assert (finding.severity, finding.code, finding.count, finding.first_line) == ("note", "job-part", 3, 4)
    facts = info.info(path)
    assert (facts["records"], facts["jobs"], facts["cpu_s"]) == (6, 3, 256_000)
    assert facts["left_out"] == {"parts": 3} and facts["first_submit_s"] == 0
    assert validate_swf(path) == []


def test_a_job_cancelled_while_waiting_takes_no_machine(write):
    """Job 4 was cancelled after it ran for 600 s, and takes its processors."""
    path = write("log.swf", CANCELLED)
    rigid, bags, own, messages, also = read_all_ways(path)
    for jobs in (rigid, bags):
        assert jobs.release.tolist() == [0, 20, 100] and jobs.tasks.tolist() == [32, 32, 8]
    assert own.applications["release"].tolist() == [0, 20, 100] and own.failed == 0
    assert messages[0] == also[0] and messages[0].startswith("3: 1 jobs that never ran (run time 0 s, ")
    scenario = gs.Scenario(gs.Platform.equal(64), gs.Workload.jobs_from_log(path))
    easy, _ = with_warnings(lambda: gs.simulate(scenario, gs.BatchQueue()))
    assert easy.applications["first_start"].tolist() == [0, 20, 36_000]
    assert [(item.code, item.first_line) for item in lint(path)] == [("over-capacity", 5), ("never-ran", 3)]
    with pytest.warns(TraceWarning):
        gs.check_same_jobs(own, scenario)


def test_preceding_jobs_and_think_times_are_reported(write):
    path = write("log.swf", CHAIN)
    rigid, _, _, messages, also = read_all_ways(path)
    assert len(rigid) == 3 and messages == also
    assert messages == [
        '3: 2 jobs with a preceding job, which is not used without after = "preceding" (--rigid --after '
        "preceding); 1 jobs with a think time, which is not used (the first is at this line)"
    ]
    assert info.info(path)["not_used"] == {"preceding": 2, "think_time": 1}
    codes = {item.code: (item.count, item.first_line) for item in lint(path)}
    assert codes == {"preceding-job": (2, 3), "think-time": (1, 4)}
    zeros = write("zero/log.swf", job(last="0 0") + job(1, number=2, last="0 0"))
    assert read_all_ways(zeros)[3] == []  # no job has the number 0
    assert (
        "2 jobs with a preceding job"
        in read_all_ways(write("0/log.swf", job(last="0 0", number=0) * 2))[3][-1]
    )


@pytest.mark.parametrize(
    ("run", "status", "used", "ran"),
    [
        (0, 5, -1, False),
        (0, 5, 0, False),
        (0, 5, 4, False),
        (5, 5, 4, True),
        (5, 5, -1, True),
        (0, 0, -1, False),  # failed without processors
        (0, 0, 0, False),
        (0, 0, 4, True),  # failed within a second
        (7, 0, -1, True),
        (0, 1, -1, True),
        (0, 1, 4, True),
        (0, -1, 4, True),
        (0, -1, -1, True),
        (-1, 1, 4, False),
        (-1, 5, -1, False),
        (-9, 0, 4, False),
    ],
)
@pytest.mark.parametrize("name", ["log.swf", "log.gwf"])
def test_jobs_that_never_ran_are_left_out(write, name, run, status, used, ran):
    path = write(name, job() + job(20, run, used, status, number=2, req=3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        jobs = gs.Workload.jobs_from_log(path).realize(gs.Platform.equal(8))
        bags = gs.Workload.from_log(path, gap=0.0).realize(gs.Platform.equal(8))
        own = gs.result_from_log(path, machines=8)
        facts = info.info(path)
    assert len(jobs) == len(bags) == len(own.applications) == facts["jobs"] == 1 + ran
    if ran:
        assert jobs.tasks[1] == bags.tasks[1] == (used if used > 0 else 3)
        assert jobs.task_size[1] == bags.task_size[1] == max(1, run) * 1000
    assert sum(facts["left_out"].values()) == (not ran)


def test_parts_without_a_line_for_their_job_are_jobs(write):
    """The first part is submitted at the time of the line above, others at the end of the part above."""
    lines = PARTIAL.splitlines(keepends=True)
    path = write(
        "log.swf", "".join(lines[:2] + lines[3:])
    )  # in the order of submission, although parts end later
    rigid, _, _, messages, also = read_all_ways(path)
    assert rigid.release.tolist() == [0, 0, 1900, 3400, 5000] and messages == also
    assert [item.partition(" (")[0] for item in messages] == [
        "3: 3 parts of unknown submission, taken as submitted after the part or line above",
        "3: 3 parts",
    ]
    assert "that have no line for the whole job, taken as jobs" in messages[1]
    assert {item.code for item in lint(path)} == {"lone-part"}


@pytest.mark.parametrize("line", [job(100, -1, number=2), job(100, 0, -1, 5, number=2)])
def test_parts_are_jobs_if_the_line_for_their_job_has_no_run_time(write, line):
    path = write("log.swf", job() + line + job(200, 9, status=2, number=2) + job(300, 9, status=3, number=2))
    rigid, _, _, messages, _ = read_all_ways(path)
    assert rigid.release.tolist() == [0, 200, 300] and len(messages) == 2


def test_jobs_of_unknown_number_have_no_parts(write):
    path = write("log.swf", job(number=-1) + job(5, status=2, number=-1))
    assert read_all_ways(path)[0].release.tolist() == [0, 5]


def test_a_job_of_unknown_submission_is_left_out(write):
    rigid, bags, own, messages, _ = read_all_ways(
        write("log.swf", job(-1) + job(1_300_000_000) + job(1_300_000_007))
    )
    assert rigid.release.tolist() == [0, 7] and own.applications["release"].tolist() == [0, 7]
    assert bags.release.tolist() == [0, 7]
    assert messages == ["1: 1 jobs of unknown submission, left out (the first is at this line)"]
    never = write("c/log.swf", job(-1, 0, -1, 5) + job(7) + job(9, number=2))
    assert [item.partition(" (")[0] for item in read_all_ways(never)[3]] == ["1: 1 jobs that never ran"]
    assert read_all_ways(never, start=1.0)[3] == []
    # in a log with times below -1, -1 is also a time
    assert read_all_ways(write("b/log.swf", job(-5) + job(-1) + job(2)))[0].release.tolist() == [0, 4, 7]


def test_times_count_from_the_first_used_job(write):
    """The window counts from the first submission, even if that job never ran."""
    path = write("log.swf", job(100, 0, -1, 5) + job(130) + job(150) + job(190))
    assert read_all_ways(path)[0].release.tolist() == [0, 20, 60]
    assert read_all_ways(path, start=40.0)[0].release.tolist() == [0, 40]
    partial = write("p/log.swf", PARTIAL.partition("\n2  100")[0] + "\n" + PARTIAL.partition("\n")[2])
    assert read_all_ways(partial, start=50.0)[0].release.tolist() == [0, 4900]


# -- reports ---------------------------------------------------------------------------------------------

MIXED = "".join(
    (
        "; MaxProcs: 64\n",
        job(0),
        job(100, 0, number=2),  # line 3: 0 s
        job(90, 10, number=3, wait=-7),  # line 4: out of order, impossible wait
        job(200, 10, number=4, last="1 9"),  # line 5: fields without effect
        job(300, -1, number=5),  # line 6: unknown run time
        job(400, 0, -1, 5, number=6),  # line 7: never ran
        job(500, 10, 70, number=7),  # line 8: more processors than there are
        job(600, number=8),
        job(700, number=9),
    )
)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, [3, 4, 4, 5, 6, 7]),
        ({"start": 450.0, "max_nodes": 64}, [8]),  # job 8 is reported only as omitted
        ({"start": 550.0}, []),
        ({"end": 50.0}, []),
        ({"start": 150.0, "end": 250.0}, [5]),
        ({"end": 350.0}, [3, 4, 4, 5, 6]),
        ({"max_nodes": 64, "end": 450.0}, [3, 4, 4, 5, 6, 7]),
    ],
)
def test_only_lines_of_the_window_are_reported(write, options, lines):
    path = write("log.swf", MIXED)
    _, messages = with_warnings(
        lambda: gs.Workload.jobs_from_log(path, **options).realize(gs.Platform.equal(99))
    )
    assert sorted(int(item.partition(":")[0]) for item in messages) == lines


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"max_applications": 1}, []),
        ({"max_applications": 2}, [3, 4, 4]),
        ({"max_applications": 3}, [3, 4, 4, 5]),
        ({"skip": 5}, []),
        ({"skip": 2, "max_applications": 2}, [5, 6, 7, 8]),
        ({"min_tasks": 3}, [8]),
    ],
)
def test_only_lines_of_the_bags_used_are_reported(write, options, lines):
    path = write("log.swf", MIXED)
    workload = gs.Workload.from_log(path, gap=20.0, **options)
    _, messages = with_warnings(lambda: workload.realize(gs.Platform.equal(99)))
    assert sorted(int(item.partition(":")[0]) for item in messages) == lines


def test_only_tasks_of_the_bags_used_are_reported(write):
    path = write("log.tr", "0 1 5 5\n9 1 5 5\n20 2 0.3 0.2 0.4\n15 1 3 3\n")
    workload = gs.Workload.from_log(path, max_applications=2)
    assert with_warnings(lambda: workload.realize(gs.Platform.equal(9)))[1] == []
    _, messages = with_warnings(lambda: gs.Workload.from_log(path).realize(gs.Platform.equal(9)))
    assert [item.partition("log.tr:")[2].partition(",")[0] for item in messages] == [
        "4: 1 submissions out of order",
        "3: 2 tasks of duration 0 s",
    ]


@pytest.mark.parametrize("more", [[], ["--workers", "2"], ["--replicates", "2", "--workers", "2"]])
def test_each_line_is_reported_once_by_a_command(write, monkeypatch, capfd, more):
    path = write("log.swf", MIXED.replace(" 70 ", " 60 "))
    monkeypatch.chdir(path.parent)
    command = ["compare", "--job-log", path.name, "--rigid", "--schedulers", "backfill,backfill-fcfs"]
    answer = CliRunner().invoke(cli, [*command, *more])
    messages = (answer.stderr + capfd.readouterr().err).splitlines()  # including the output of workers
    assert answer.exit_code == 0 and len([line for line in messages if "never ran" in line]) == 1
    assert len([line for line in messages if "warning: log.swf:" in line or "TraceWarning" in line]) == 6


@pytest.mark.parametrize("replicates", [None, 2])
def test_each_line_is_reported_once_by_a_study(write, replicates):
    path = write("log.swf", MIXED)
    scenario = gs.Scenario(gs.Platform.equal(99), gs.Workload.jobs_from_log(path))
    names = ["backfill", "backfill-fcfs"]
    _, messages = with_warnings(lambda: gs.compare(scenario, names, replicates=replicates))
    assert len(messages) == len(set(messages)) == 6


# -- fields that no run uses -------------------------------------------------------------------------------

FIELDS = JOB_DTYPE.names[:18]
UNUSED = ("cpu_time", "used_memory", "req_memory", "executable", "partition")
OPTIONAL = ("group", "queue", "preceding", "think_time")


@pytest.mark.parametrize("field", [*UNUSED, *OPTIONAL])
@pytest.mark.parametrize("word", ["normal", "1.5", "nan", "1e99", "-inf", "123456789012345678901234", "1_0"])
def test_faulty_values_of_unused_fields_are_accepted(write, field, word):
    words = job(7, number=2).split()
    words[FIELDS.index(field)] = word
    path = write("log.swf", job() + " ".join(words) + "\n" + job(9, number=3))
    jobs, messages = with_warnings(lambda: derive_jobs(load_jobs(path)))
    assert jobs.job.tolist() == [1, 2, 3] and jobs.run_time.tolist() == [10, 10, 10]
    value = load_jobs(path).jobs[field][1]
    known = word == "1.5" and JOB_DTYPE[field] == np.float64
    assert value == (1.5 if known else -1)
    noted = {item.code: (item.severity, item.count, item.first_line) for item in lint(path)}
    is_used = field in OPTIONAL
    assert noted.get("unread-field") == (None if known or is_used else ("note", 1, 2))
    assert noted.get("repaired") == (("warning", 1, 2) if is_used and not known else None)
    text = f"2: 1 values of {field} that cannot be read, taken as unknown"
    assert any(text in message for message in messages) == (is_used and not known)


def test_faulty_values_of_unused_columns_of_a_plugin_are_accepted():
    columns = {
        "queue": ["night", 3],
        "group": [1.5, 2.0],
        "used_memory": [1e99, 7.5],
        "think_time": [None, 2],
    }
    log = JobLog.of("x", submit=[0, 1], run_time=[5, 6], **columns)
    jobs = log.jobs
    assert [(remark.text.split()[2], remark.lines.tolist()) for remark in log.repairs] == [
        ("queue", [1]),
        ("group", [1]),
    ]
    assert [jobs[name].tolist() for name in columns] == [[-1, 3], [-1, 2], [-1, 7.5], [-1, 2]]
    with pytest.raises(gs.TraceFormatError, match="run_time"):
        JobLog.of("x", submit=[0], run_time=[1e99])


@pytest.mark.parametrize("field", sorted({*FIELDS} - {*UNUSED, *OPTIONAL}))
def test_faulty_values_of_used_fields_are_rejected(write, field):
    words = job(7).split()
    words[FIELDS.index(field)], words[FIELDS.index("queue")] = "x", "normal"
    path = write("log.swf", job() + " ".join(words) + "\n")
    with pytest.raises(gs.TraceFormatError, match=f"log.swf:2: field {field} must be a number, got 'x'"):
        read_jobs(path)


# -- contradictions --------------------------------------------------------------------------------------


def contradictions_of(write, header, *jobs):
    path = write("log.swf", "".join(f"; {line}\n" for line in header) + "".join(jobs))
    log, _ = with_warnings(lambda: read_jobs(path))
    lines = lines_of(log.jobs)
    return {item.code: item.message for item in contradictions(log, lines, np.ones(len(log), np.bool_))}


@pytest.mark.parametrize(
    ("header", "jobs", "codes"),
    [
        ([], [job(wait=-2), job(wait=-1)], {"negative-wait"}),
        (["MaxProcs: 4"], [job(used=4), job(10, used=4)], set()),
        (["MaxProcs: 4"], [job(used=4), job(9, used=4)], set()),  # whole seconds are rounded
        (["MaxProcs: 4"], [job(used=4), job(8, used=4)], {"over-capacity"}),
        (["MaxProcs: 4"], [job(used=4), job("8.9999", used=4)], {"over-capacity"}),
        (["MaxNodes: 4"], [job(used=3), job(used=2, wait=5)], {"over-capacity"}),
        (["MaxNodes: 4", "MaxProcs: 8"], [job(used=3), job(used=2, wait=5)], set()),
        (["MaxProcs: 4", "Preemption: TS"], [job(used=4), job(5, used=4)], set()),
        (["MaxProcs: 4"], [job(used=5)], {"over-max-procs"}),
        (["MaxProcs: 4"], [job(used=2, req=5)], {"over-max-procs"}),
        (
            ["MaxProcs: 4"],
            [job(), job(run=0, used=-1, req=99, status=5)],
            set(),
        ),  # it never ran, as it is too large
        (["MaxRuntime: 9"], [job()], {"over-max-runtime"}),
        (["MaxRuntime: 9", "AllowOveruse: Yes"], [job()], set()),
        (["MaxRuntime: 9 hours"], [job()], set()),
        (["MaxJobs: 2", "MaxRecords: 2"], [job(), job(number=2)], set()),
        (["MaxJobs: 3", "MaxRecords: 3"], [job(), job(number=2)], {"other-record-count"}),
        (["MaxJobs: 3"], [job(), job(number=2)], {"other-job-count"}),
        (["MaxJobs: 1", "MaxRecords: 3"], [job(), job(1, status=2), job(2, status=3)], set()),
        (["UnixStartTime: 1272639895", "StartTime: Sat May 01 00:04:55 JST 2010"], [job()], set()),
        (["UnixStartTime: 1272639895", "StartTime: Sat May 08 00:04:55 JST 2010"], [job()], {"header-start"}),
        (["UnixStartTime: 1272639895"], [job(1272639895)], set()),
        (["UnixStartTime: 1272639895"], [job(1270000000)], {"header-begin"}),
        (["UnixStartTime: 0"], [job(1270000000)], set()),
        (
            ["StartTime: Sat May 01 00:00:00 JST 2010", "EndTime: Sat May 01 00:10:00 JST 2010"],
            [job(600), job(700, number=2)],
            {"header-end"},
        ),
        (
            ["StartTime: Sat May 01 00:00:00 JST 2010", "EndTime: Sat May 01 00:10:00 JST 2010"],
            [job(600), job(-1, status=3)],
            set(),
        ),
        (
            ["StartTime: Fri Oct 01 00:00:03 PDT 1993", "EndTime: Fri Dec 31 23:03:45 PST 1993"],
            [job(7948936)],  # this job is after the end only because of daylight saving time
            set(),
        ),
        (
            ["StartTime: Sat May 01 00:00:00 PST 2010", "EndTime: Sat May 01 00:10:00 PST 2010"],
            [job(1272700800 + 599)],  # UNIX time, whose zone is unknown
            set(),
        ),
        (["StartTime: 2010-05-02 00:00:00", "EndTime: 2010-05-01 00:00:00"], [job()], {"header-end"}),
        (["StartTime: 31 of May", "EndTime: Sat Foo 99 25:00:00 JST 2010"], [job(600)], set()),
    ],
)
def test_contradictions_are_detected(write, header, jobs, codes):
    assert set(contradictions_of(write, header, *jobs)) == codes


def test_contradictions_are_reported_by_info_lint_and_the_run(write):
    path = write("log.swf", "; MaxProcs: 4\n" + job(used=4, req=4) + job(2, used=3, req=3, number=2, wait=3))
    text = "1 job started while more processors were in use than the header's MaxProcs, 4, such as 7 at 5 s"
    assert info.info(path)["contradictions"] == [text]
    (finding,) = lint(path)
    assert (finding.code, finding.severity, finding.first_line) == ("over-capacity", "warning", 3)
    assert read_all_ways(path)[3] == [f"3: {text} (the first is at this line)"]
    assert (
        contradictions_of(write, ["MaxJobs: 9"], job())["other-job-count"]
        == "the header says 9 jobs, but the file has 1"
    )


jobs = st.tuples(st.integers(0, 40), st.integers(-1, 20), st.integers(0, 20), st.integers(1, 5))


@settings(max_examples=100)
@given(st.lists(jobs, min_size=1, max_size=25), st.integers(3, 9))
def test_over_capacity_matches_the_reference_implementation(jobs, maximum):
    table = np.full(len(jobs), -1, dtype=JOB_DTYPE)
    table["job"] = table["line"] = np.arange(1, len(jobs) + 1)
    table["status"] = 1
    for row, (submit, wait, run, procs) in zip(table, sorted(jobs), strict=True):
        row["submit"], row["wait"], row["run_time"], row["used_procs"] = submit, wait, run, procs
    log = JobLog("x.swf", {"MaxProcs": str(maximum)}, table)
    fits = [item for item in sorted(jobs) if item[1] >= 0 and item[2] > 0 and item[3] <= maximum]
    spans = [(submit + wait, submit + wait + run - 1, procs) for submit, wait, run, procs in fits]
    over = any(sum(p for a, b, p in spans if a <= t < b) > maximum for t in range(80))
    codes = {item.code for item in contradictions(log, lines_of(table), np.ones(len(table), np.bool_))}
    assert ("over-capacity" in codes) == over


def test_the_time_zone_of_the_computer_has_no_effect(write):
    header = "; UnixStartTime: 1272639895\n; StartTime: Sat Mar 13 22:04:55 EST 2010\n"
    write("a.swf", header + "; EndTime: Sun Mar 14 04:00:00 EDT 2010\n" + job(0) + job(90_000, number=2))
    write(
        "o.gwf", "WorkflowID,JobID,SubmitTime,RunTime,NProcs,ReqNProcs,Dependencies\n0,1,1268535600,5,1,1,\n"
    )
    event = "0\t0\t{}\t5\tx\t1\t{}\t{}\n"
    rows = event.format(1, 1268535600, 1268539200) + event.format(2, 1268535900, 1268546400)
    write("fta/event_trace.tab", rows)
    write("a.avt", "a 2 0 3600 4000 9000\n")
    folder = write("t.tr", "1268535600 1 5 5\n").parent
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from gridsim.traces.lint import info, lint\n"
        "import gridsim as gs\n"
        "for name in ('a.swf', 'o.gwf', 'fta', 'a.avt', 't.tr'): print(info(name), lint(name))\n"
        "print(gs.result_from_log('a.swf', machines=4).digest)\n"
    )

    def output(zone: str) -> str:
        paths = os.pathsep.join(
            [str(Path(gs.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        environment = {**os.environ, "TZ": zone, "PYTHONPATH": paths}
        process = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return process.stdout

    first = output("UTC")
    assert "header-start" in first  # the output depends on dates
    assert output("America/New_York") == output("Pacific/Kiritimati") == first


# -- bags and jobs agree -----------------------------------------------------------------------------------

row = st.tuples(
    st.integers(-1, 60),
    st.integers(-2, 9),
    st.integers(-1, 4),
    st.sampled_from([-1, 0, 1, 2, 3, 4, 5]),
    st.integers(1, 6),
)


@settings(max_examples=100)
@given(st.lists(row, min_size=1, max_size=20))
def test_both_readers_have_the_same_jobs(rows):
    table = np.full(len(rows), -1, dtype=JOB_DTYPE)
    table["line"] = np.arange(1, len(rows) + 1)
    table["user"] = table["line"]  # each job is a bag
    for item, (submit, run, used, status, number) in zip(table, sorted(rows), strict=True):
        item["submit"], item["run_time"], item["used_procs"], item["req_procs"] = submit, run, used, 2
        item["status"], item["job"] = status, number
    log = JobLog("x.swf", {}, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        rigid, bags = derive_jobs(log), derive_bags(log)
    lines = lines_of(table)
    kinds = lines.ran, lines.part, lines.never_ran, lines.unknown_submission, lines.unknown_run_time
    assert (np.sum(kinds, axis=0) == 1).all()
    assert sorted(table["line"][rigid.row]) == sorted(bags.job_line) == sorted(table["line"][lines.ran])
    assert math.fsum(rigid.nodes * rigid.run_time) == math.fsum(bags.tasks * bags.run_time)
