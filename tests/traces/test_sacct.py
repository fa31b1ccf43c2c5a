"""Tables of sacct: columns, states, times, steps, arrays, texts with separators, and faults."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.traces import derive_jobs, tables
from gridsim.traces.conversion import convert
from gridsim.traces.info import detect_format, info, load_jobs
from gridsim.traces.job_lines import lines_of
from gridsim.traces.jobs import GPUS_UNUSED
from gridsim.traces.lint import lint

STEPS = """\
JobIDRaw|JobID|User|State|Submit|Start|ElapsedRaw|NNodes|NCPUS|TimelimitRaw|JobName
11|11|u1|COMPLETED|2026-01-05T08:00:00|2026-01-05T08:10:00|3600|2|8|120|a|b
11.batch|11.batch||COMPLETED|2026-01-05T08:10:00|2026-01-05T08:10:00|3600|1|4||batch
11.extern|11.extern||COMPLETED|2026-01-05T08:10:00|2026-01-05T08:10:00|3601|2|8||extern
11.0|11.0||COMPLETED|2026-01-05T08:10:02|2026-01-05T08:10:02|3590|2|8||solver
12|12_[7-9%2]|u2|PENDING|2026-01-05T08:20:00|Unknown|0|1|4|60|array
13|12_5|u2|CANCELLED by 1002|2026-01-05T08:20:00|2026-01-06T09:00:00|0|1|4|60|array
14|12_6|u2|NODE_FAIL|2026-01-05T08:20:00|2026-01-05T09:00:00|0|1|4|60|array
"""
HEAD = "JobID|State|Submit|Start|End|ElapsedRaw|NCPUS"
DAY = "2026-01-05T"


def job(number=1, state="COMPLETED", submit="08:00:00", start="08:00:10", end="08:01:10", run=60, cpus=4):
    times = (f"{DAY}{time}" if time[:1].isdigit() else time for time in (submit, start, end))
    return "|".join([str(number), state, *times, str(run), str(cpus)])


def rows(log, *names):
    return [tuple(row) for row in log.jobs[list(names)].tolist()]


def load(write, *lines, name="sacct.txt"):
    return load_jobs(write(name, "\n".join(lines) + "\n"))


def test_steps_and_pending_arrays_are_left_out_and_counted_once(write):
    path = write("sacct.txt", STEPS)
    log = load_jobs(path)
    assert rows(
        log, "job", "submit", "wait", "run_time", "used_procs", "req_procs", "req_time", "status"
    ) == [
        (11, 0, 600, 3600, 8, 8, 7200, 1),
        (13, 1200, 88800, 0, -1, 4, 3600, 5),
        (14, 1200, 2400, 0, 4, 4, 3600, 0),
    ]
    assert log.jobs["user"].tolist() == [1, 2, 2] and log.header["User"] == "1 u1\n2 u2"
    assert log.jobs["line"].tolist() == [2, 7, 8]
    assert lines_of(log.jobs).never_ran.tolist() == [False, True, False]
    with pytest.warns(TraceWarning, match="job steps"):
        facts = info(path)
    assert facts["format"] == "sacct" and list(facts["dropped"].values()) == [3, 1, 1]
    with pytest.warns(TraceWarning) as caught:
        jobs = gs.Workload.jobs_from_log(path).realize(gs.Platform.equal(8))
    assert len(jobs) == 2 and sum("job steps" in str(warning.message) for warning in caught) == 1
    with pytest.warns(TraceWarning) as caught:
        own = gs.result_from_log(path, machines=8)
    assert own.applications["waiting"].tolist() == [600, 2400]
    assert sum("job steps" in str(warning.message) for warning in caught) == 1
    assert {finding.code for finding in lint(path)} == {"left-out", "never-ran", "zero-run-time"}


@pytest.mark.parametrize(
    ("state", "start", "end", "run", "status", "is_workload"),
    [
        ("COMPLETED", "08:00:10", "08:01:10", 60, 1, True),
        ("FAILED", "08:00:10", "08:01:10", 60, 0, True),
        ("TIMEOUT", "08:00:10", "08:01:10", 60, 0, True),
        ("NODE_FAIL", "08:00:10", "08:01:10", 60, 0, True),
        ("PREEMPTED", "08:00:10", "08:01:10", 60, 0, True),
        ("OUT_OF_MEMORY", "08:00:10", "08:01:10", 60, 0, True),
        ("OUT_OF_ME+", "08:00:10", "08:01:10", 60, 0, True),
        ("CANCELLED by 1000", "08:00:10", "08:01:10", 60, 5, True),
        ("CANCELLED+", "08:00:10", "08:01:10", 60, 5, True),
        ("CANCELLED by 1000", "08:01:10", "08:01:10", 0, 5, False),
        ("CANCELLED by 1000", "None", "08:01:10", 0, 5, False),
        ("DEADLINE", "Unknown", "08:01:10", 0, 0, False),
    ],
)
def test_states_follow_the_conventions_of_swf(write, state, start, end, run, status, is_workload):
    log = load(write, HEAD, job(1, state, "08:00:00", start, end, run))
    assert log.jobs["status"].tolist() == [status]
    assert lines_of(log.jobs).ran.tolist() == [is_workload]
    assert lines_of(log.jobs).never_ran.tolist() == [not is_workload]
    assert log.jobs["wait"].tolist() == [10 if is_workload else 70]


@pytest.mark.parametrize(
    "state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUE_HOLD", "RESIZING", "CONFIGURING"]
)
def test_jobs_that_have_not_ended_are_left_out(write, state):
    log = load(write, HEAD, job(1, state, "07:00:00", "Unknown", "Unknown", 0), job(2))
    assert rows(log, "job", "submit") == [(2, 0)]
    with pytest.raises(TraceFormatError, match="no jobs in this log; 1 (pending|jobs that have not)"):
        load(write, HEAD, job(1, state, "07:00:00", "Unknown", "Unknown", 0))


def test_jobs_without_a_state_have_ended_if_they_have_an_end(write):
    lines = [HEAD.replace("State|", "")]
    for times in (("08:00:10", "08:01:10"), ("08:00:10", "Unknown"), ("Unknown", "Unknown")):
        lines.append(job(1, "X", "08:00:00", *times).replace("X|", ""))
    log = load(write, *lines)
    assert log.jobs["line"].tolist() == [2] and log.jobs["status"].tolist() == [-1]


@pytest.mark.parametrize(
    ("submit", "start", "unix"),
    [
        ("2026-01-05T08:00:00+0100", "2026-01-05T07:00:10Z", 1767596400),
        ("2026-01-05T08:00:00+01:00", "2026-01-05T02:00:10-05", 1767596400),
        ("1767596400", "1767596410", 1767596400),
        ("2026-01-05 08:00:00", "2026-01-05T08:00:10.000", None),
    ],
)
def test_times_may_have_a_zone(write, submit, start, unix):
    log = load(write, HEAD, f"1|COMPLETED|{submit}|{start}|Unknown|60|4")
    assert rows(log, "submit", "wait", "run_time") == [(0, 10, 60)]
    assert log.header.get("UnixStartTime") == (None if unix is None else str(unix))
    assert log.header.get("StartTime") == (None if unix else "2026-01-05T08:00:00")


def test_a_change_of_clocks_is_reported(write):
    """Clocks were set forward an hour at 02:00 on 29 March 2026: the job ran for an hour less."""
    line = "1|COMPLETED|2026-03-29T00:30:00|2026-03-29T01:00:00|2026-03-29T04:00:00|7200|4"
    log = load(write, HEAD, line)
    assert [len(each.lines) for each in log.repairs if "clocks" in each.text] == [1]
    zoned = load(
        write, HEAD, line.replace("00|2026", "00+01:00|2026").replace("04:00:00|", "03:00:00+01:00|")
    )
    assert not any("clocks" in each.text for each in zoned.repairs)


@pytest.mark.parametrize(
    ("elapsed", "seconds"),
    [("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04", 184), ("100:00:00", 360000), ("00:00:01.5", 1.5)],
)
def test_durations_are_read(write, elapsed, seconds):
    log = load(
        write,
        "JobID|Submit|Start|Elapsed|NCPUS|Timelimit",
        f"1|{DAY}08:00:00|{DAY}08:00:00|{elapsed}|4|{elapsed}",
        f"2|{DAY}08:00:00|{DAY}08:00:00|{elapsed}|4|UNLIMITED",
        f"3|{DAY}08:00:00|{DAY}08:00:00|{elapsed}|4|Partition_Limit",
    )
    assert rows(log, "run_time", "req_time") == [(seconds, seconds), (seconds, -1), (seconds, -1)]


def test_run_time_and_start_follow_from_other_columns(write):
    lines = ["JobID|Submit|Start|End|AllocTRES"]
    lines.append(f"7|{DAY}08:00:00|{DAY}08:00:10|{DAY}08:01:10|billing=3,cpu=6,mem=12G,node=2")
    log = load(write, *lines)
    assert rows(log, "wait", "run_time", "used_procs", "req_memory") == [(10, 60, 6, 2 * 1024**2)]
    log = load(write, "Submit|End|Elapsed|NNodes", f"{DAY}08:00:00|{DAY}08:01:10|00:01:00|3")
    assert rows(log, "job", "wait", "used_procs") == [(1, 10, 3)]
    log = load(write, "Submit|Planned|Elapsed|NNodes", f"{DAY}08:00:00|00:00:10|00:01:00|3")
    assert rows(log, "wait") == [(10,)]


def test_users_groups_and_queues_are_numbered_in_order_of_appearance(write):
    head = HEAD + "|User|Account|Partition|ReqMem|QOS"
    log = load(
        write,
        head,
        job(2, submit="08:00:05") + "|zoë|a|long|8G|x",
        job(1) + "|bob|a|batch|1Gc|x",
        job(3, submit="08:00:09") + "|zoë|b|batch|4Gn|x",
    )
    assert rows(log, "job", "user", "group", "queue") == [(1, 2, 1, 2), (2, 1, 1, 1), (3, 1, 2, 2)]
    assert log.header["Queue"] == "1 long\n2 batch" and log.header["User"] == "1 zoë\n2 bob"
    assert log.jobs["req_memory"].tolist()[:2] == [1024**2, 2 * 1024**2]
    with pytest.warns(TraceWarning) as caught:
        columns = gs.Workload.jobs_from_log(log.path).realize(gs.Platform.equal(4))
    assert columns.queue.tolist() == [2, 1, 2]
    assert "1 columns that no run uses (QOS)" in str(caught[0].message)


def test_array_tasks_and_heterogeneous_jobs_are_jobs_of_their_own(write):
    names = ("3_10", "3_9", "5+1", "5+0", "4")
    log = load(write, HEAD, *(job(name) for name in names), job("3_[11-20%5]", "PENDING"))
    by_line = log.jobs["job"][np.argsort(log.jobs["line"])]
    assert dict(zip(names, by_line.tolist(), strict=True)) == {
        "3_9": 5, "3_10": 6, "5+0": 7, "5+1": 8, "4": 4,
    }  # fmt: skip
    assert ["arrays of pending jobs, left out", 1] in [[r.text, len(r.lines)] for r in log.remarks]


TIMES = "JobID|State|User|Submit|Start|End"


@pytest.mark.parametrize(
    ("more", "values", "run_time", "text"),
    [
        (
            "ElapsedRaw|NCPUS",
            "1100|5000|4",
            5000,
            "ElapsedRaw is above the time from Start to End, with ElapsedRaw",
        ),
        (
            "Elapsed|NCPUS",
            "1100|01:00:00|4",
            3600,
            "Elapsed is above the time from Start to End, with Elapsed",
        ),
        ("ElapsedRaw|NCPUS", "900|90|4", 90, "End is before their Start, with ElapsedRaw as run time"),
        ("NCPUS", "900|4", -1, "End is before their Start, with an unknown run time"),
        ("Elapsed|ElapsedRaw|NCPUS", "1100|01:39|100|4", 100, "Elapsed differs from ElapsedRaw, with"),
        (
            "ElapsedRaw|NCPUS|AllocCPUS",
            "1100|100|8|4",
            100,
            "NCPUS differs from AllocCPUS, of which AllocCPUS",
        ),
        # a job may have been suspended, and times are whole seconds
        ("Elapsed|ElapsedRaw|NCPUS|AllocCPUS", "1100|01:00|60|4|4", 60, None),
        ("ElapsedRaw|NCPUS|AllocCPUS", "1100|101|0|4", 101, None),
    ],
)
def test_contradictory_columns_are_counted_wherever_a_log_is_used(
    write, tmp_path, more, values, run_time, text
):
    log = load(write, f"{TIMES}|{more}", f"7|COMPLETED|u|1000|1000|{values}")
    assert rows(log, "run_time", "used_procs") == [(run_time, 4)]
    findings = [finding.message for finding in lint(log.path) if finding.code == "repaired"]
    repairs = {t: n for t, n in convert(log.path, tmp_path / "o.swf")["repairs"].items() if "-1" not in t}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        info(log.path)
        derive_jobs(log)
    warned = [
        str(item.message) for item in caught if f"sacct.txt:2: 1 jobs whose {text}" in str(item.message)
    ]
    if text is None:
        assert not findings and not repairs and not caught
    else:
        assert [message.startswith(f"jobs whose {text}") for message in findings] == [True]
        assert list(repairs.values()) == [1] and len(warned) == 2


def test_a_start_one_second_before_the_submission_is_counted(write):
    head = "JobID|State|User|Submit|Start|ElapsedRaw|NCPUS"
    log = load(
        write, head, *(f"{k}|COMPLETED|u|1000|{start}|9|1" for k, start in enumerate((999, 1000, 998)))
    )
    assert log.jobs["wait"].tolist() == [-1, 0, -2]
    assert [(remark.text[:28], remark.lines.tolist()) for remark in log.repairs] == [
        ("jobs that start 1 s before t", [2])
    ]


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ("cpu=4,gres/gpu=2,mem=8G", 2),
        ("gres/gpu:a100=4,gres/gpu:v100=3,cpu=4", 7),
        ("cpu=4,gres/gpu:a100=4,gres/gpu=4", 4),
        ("cpu=4,gres/gpumem=8G,gres/gpuutil=50,gres/shard=3", 0),
        ("", 0),
    ],
)
@pytest.mark.parametrize("more", ["", "|ReqMem"])  # with it, nothing else is read from resources
def test_numbers_of_gpus_are_counted_as_left_out(write, resources, gpus, more):
    head = "JobID|State|User|Submit|Start|ElapsedRaw|NNodes|NCPUS|AllocTRES|ReqTRES" + more
    line = f"1|COMPLETED|u|0|0|9|1|4|{resources}|{'gres/gpu=1' if resources else ''}" + more.replace(
        "ReqMem", "8G"
    )
    log = load(write, head, line, line.replace("1|", "1.0|", 1))
    texts = [(remark.text, remark.lines.tolist()) for remark in log.remarks if "GPU" in remark.text]
    requested = 1 if resources and not gpus else gpus
    assert texts == (
        [(f"numbers of GPUs (gres/gpu, {requested} in all), {GPUS_UNUSED}", [2])] if requested else []
    )
    assert log.jobs["used_procs"].tolist() == [4] and log.gpus.tolist() == [requested]


@pytest.mark.parametrize(
    ("requested", "resources", "memory"),
    [
        ("4Gn", "", 8),
        ("1Gc", "", 4),
        ("6G", "mem=9G", 6),
        ("0", "mem=9G", 9),
        ("", "mem=9G", 9),
        ("0", "", 0),
    ],
)
def test_the_memory_of_a_job_is_that_of_all_its_nodes(write, requested, resources, memory):
    head = "JobID|State|User|Submit|Start|ElapsedRaw|NNodes|NCPUS|ReqMem|AllocTRES"
    log = load(write, head, f"1|COMPLETED|u|0|0|9|2|4|{requested}|{resources}")
    assert log.memory.tolist() == [memory * 2**30]


@pytest.mark.parametrize("raw", [False, True])
def test_new_numbers_of_array_tasks_are_counted(write, raw):
    log = load(write, HEAD + "|JobIDRaw" * raw, job("6_1") + "|6" * raw, job("6_2") + "|7" * raw)
    counts = [len(remark.lines) for remark in log.remarks if remark.text.startswith("JobIDs such as")]
    assert counts == ([] if raw else [2])


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("sbatch -d banana:1 x", 1),
        ("sbatch --dependency=afterok:1,banana:1 x", 1),
        ("sbatch -d after:1 x", 1),
        ("sbatch -d afterok:1 x", 0),
        ("sbatch x -d data", 0),
    ],
)
def test_unknown_dependencies_are_counted(write, command, count):
    log = load(write, HEAD + "|SubmitLine", job(1) + "|sbatch x", job(2) + f"|{command}")
    assert [len(remark.lines) for remark in log.remarks if "dependency" in remark.text] == [1] * count


@pytest.mark.parametrize(("exclusive", "procs"), [("", 8), ("|yes", 2), ("|no", 8)])
def test_sharing_of_nodes_is_seen_from_columns(write, exclusive, procs):
    head = HEAD + "|NNodes" + ("|Exclusive" if exclusive else "")
    log = load(write, head, job(1, cpus=8) + "|2" + exclusive, job(2, cpus=8) + "|2" + exclusive)
    assert log.procs.tolist() == [procs, procs]
    if procs == 8:
        assert "--cores-per-node 4" in log.header["Note"]
        shared = load(write, HEAD + "|NNodes", job(1, cpus=8) + "|2", job(2, cpus=1) + "|1")
        note = "jobs share nodes: they have 1 to 4 processors on a node (--cores-per-node 4 --shared)"
        assert shared.header["Note"] == note and shared.node_flags == ["--cores-per-node", "4", "--shared"]
    assert log.has_nodes_only == (procs == 2)


def test_numbers_of_nodes_are_not_divided(write, tmp_path):
    """A log without CPUs counts nodes, also after its conversion."""
    table = load(
        write, "Submit|Start|Elapsed|Timelimit|NNodes", f"{DAY}08:00:00|{DAY}08:00:10|00:01:00|00:02:00|48"
    ).path
    converted = tmp_path / "nodes.swf"
    assert convert(table, converted, max_procs=300)["note"].startswith("the log has numbers of nodes")
    for path in (table, converted):
        workload = gs.Workload.jobs_from_log(path)
        assert workload.realize(gs.Platform.equal(300)).tasks.tolist() == [48]
        assert workload.remarks["cores"].startswith("each machine is a node, since")
        divided = gs.Workload.jobs_from_log(path, cores_per_node=48)
        with pytest.raises(gs.ScenarioError, match=r"cores_per_node must be 1 for .*, got 48; leave it out"):
            divided.realize(gs.Platform.equal(300))


@pytest.mark.parametrize(
    "text", ["a|b", r"a\|b", "|", "||", "a\nb", "\n", "a\n|b\n", "5|6|7", "x\\", "1|COMPLETED|", "é|"]
)
@pytest.mark.parametrize("position", [0, 3, 7])
def test_texts_may_have_separators_and_newlines(write, text, position):
    """Other columns are read the same, wherever the text stands; a first text must be one line."""
    if position == 0 and "\n" in text.strip("\n"):
        pytest.skip("the lines of a text at the begin cannot be told from records")

    def line(words, comment):
        words = words.split("|")
        return "|".join([*words[:position], comment, *words[position:]])

    lines = [line(HEAD, "Comment"), line(job(7), "x"), line(job(8), text), line(job(9), "y")]
    log = load(write, *lines)
    assert log.jobs["job"].tolist() == [7, 8, 9] and log.procs.tolist() == [4, 4, 4]


def test_two_texts_with_separators_may_be_ambiguous(write):
    head = "Comment|JobID|JobName|State|Submit|Start|ElapsedRaw|NCPUS"
    rest = f"COMPLETED|{DAY}08:00:00|{DAY}08:00:10|60|4"
    assert load(write, head, f"a|b|7|c|d|{rest}").jobs["job"].tolist() == [7]
    with pytest.raises(TraceFormatError, match=r"sacct.txt:2: a line must have 8 fields, .*, got 9"):
        load(write, head, f"a|6|7|c|{rest}")


@pytest.mark.parametrize("separator", ["\t", ";", ","])
def test_other_separators_and_carriage_returns_are_read(write, separator):
    text = "\r\n".join([HEAD, job(1), job(2), ""]).replace("|", separator)
    path = write("jobs.csv" if separator == "," else "jobs.txt", text)
    assert detect_format(path) == "sacct"
    log = load_jobs(path)
    assert rows(log, "job", "used_procs") == [(1, 4), (2, 4)]
    assert "Computer" not in log.header  # the table may be of any batch system


def test_a_trailing_separator_is_read(write):
    assert len(load(write, HEAD + "|", job(1) + "|", job(2) + "|")) == 2


def test_a_table_of_another_batch_system_has_to_be_renamed(write):
    path = write("pbs.csv", "Job_Id,euser,qtime\n7,ann,5\n")
    with pytest.raises(TraceFormatError, match="got Job_Id, euser, qtime; .*rename the columns of another"):
        info(path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEAD, job(state="COMPLETE")], ":2: field State must be .*got 'COMPLETE'; did you mean COMPLETED"),
        (
            [HEAD, job(), job(submit="25:00:00")],
            ":3: field Submit .*got '2026-01-05T25:00:00'",
        ),
        ([HEAD, job(start="soon")], ":2: field Start must be a time such as .*, got 'soon'"),
        ([HEAD, job(run="1h")], ":2: field ElapsedRaw must be a number of at least 0, got '1h'"),
        ([HEAD, job(cpus=-4)], ":2: field NCPUS must be a whole number of at least 0, got '-4'"),
        ([HEAD, job(cpus=2.5)], ":2: field NCPUS must be a whole number"),
        ([HEAD, job("x7")], ":2: field JobID must be the number of a job such as 12, 12_3 .*, got 'x7'"),
        ([HEAD, job(), job() + "|x"], ":3: a line must have 7 fields, as many as the first, got 8"),
        ([HEAD, job(), "1|COMPLETED"], ":3: a line must have 7 fields, as many as the first, got 2"),
        ([HEAD + "|JobName", job() + "|x", "1|COMPLETED"], ":3: a line must have 8 fields, .* got 2"),
        ([HEAD + "|JobName", "1|COMPL", job() + "|x"], ":2: a line must have 8 fields, .* got 2"),
        ([HEAD + "|State", job() + "|"], ":1: the names of columns must be unique, got State twice"),
        (
            [HEAD.replace("Submit", "Submitt").replace("NCPUS", "CPU")],
            r":1: the columns must include a submit time \(Submit\) and processors or nodes \(NCPUS or .*"
            r"for Submitt, did you mean Submit\?; rename .* TimelimitRaw \(minutes\); .* with: sacct ",
        ),
        ([HEAD, job(), job(submit="08:00:00Z")], ":3: field Submit must be a time without a time zone"),
        ([HEAD], ": no jobs in this log"),
        (
            ["JobID|Submit|Start|Elapsed|NCPUS", f"1|{DAY}08:00:00|{DAY}08:00:00|00:61:00|1"],
            ":2: field Elapsed must be a duration such as .*, got '00:61:00'",
        ),
        (
            ["JobID,Submit,Start,End,NCPUS,Timelimit", "1,0,0,9,1,3600"],
            r":2: field Timelimit must be .* TimelimitRaw, in minutes, or ElapsedRaw, in s\), got '3600'",
        ),
    ],
)
def test_faults_name_line_field_and_value(write, lines, message):
    path = write("sacct.txt", "\n".join(lines) + "\n")
    with pytest.raises(TraceFormatError, match=message) as caught:
        load_jobs(path)
    assert str(caught.value).startswith(str(path))
    (finding,) = lint(path)
    assert (finding.severity, finding.code) == ("error", "unreadable")


words = st.text(st.sampled_from("a|b\n\\5 -é"), max_size=6)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(words, min_size=1, max_size=8), position=st.sampled_from([3, 7]))
@example(texts=["\n|||", "\n5|||"], position=3)  # the second line has as many fields as a record
def test_any_text_leaves_the_jobs_unchanged(tmp_path_factory, texts, position):
    """The text stands after typed columns, by which the begin of a record is known."""
    folder = tmp_path_factory.mktemp("any")

    def line(row, text):
        fields = row.split("|")
        return "|".join([*fields[:position], text, *fields[position:]]) + "\n"

    lines = [job(100 + k, cpus=k + 1) for k in range(len(texts))]
    plain, odd = folder / "plain.txt", folder / "odd.txt"
    plain.write_text(line(HEAD, "Comment") + "".join(line(row, "x") for row in lines))
    odd.write_text(line(HEAD, "Comment") + "".join(line(*pair) for pair in zip(lines, texts, strict=True)))
    assert rows(load_jobs(odd), "job", "submit", "req_procs") == rows(
        load_jobs(plain), "job", "submit", "req_procs"
    )


@pytest.mark.parametrize("batch", [1, 1 << 10, 1 << 20])
def test_the_result_does_not_depend_on_batches(write, monkeypatch, batch):
    """The file has several blocks; users with long names, records of several lines, and many values."""
    draw = random.Random(1)
    users = [f"user{k}" + "x" * draw.choice([0, 3, 20, 300]) for k in range(200)]
    expected, lines = [], [HEAD + "|JobName|User"]
    for k in range(20_000):
        user, name = draw.choice(users), "a|b\nc" if k % 997 == 0 else "a" * draw.randint(0, 9)
        submit = f"{k // 3600:02d}:{k // 60 % 60:02d}:{k % 60:02d}"
        lines.append(job(k, submit=submit, start="None", end="Unknown", cpus=k % 99 + 1) + f"|{name}|{user}")
        expected.append((k, k, k % 99 + 1, user))
    path = write("sacct.txt", "\n".join(lines) + "\n")
    monkeypatch.setattr(tables, "_BATCH", batch)
    log = load_jobs(path)
    names = dict(line.split(" ", 1) for line in log.header["User"].split("\n"))
    found = [
        (number, submit, procs, names[str(user)])
        for number, submit, procs, user in rows(log, "job", "submit", "req_procs", "user")
    ]
    assert found == expected
    assert np.array_equal(log.jobs["line"], [2 + k + (k + 996) // 997 for k in range(20_000)])


def test_a_log_without_faults_gives_no_warning(write):
    path = write("sacct.txt", "\n".join([HEAD + "|User", job(1) + "|a", job(2) + "|b"]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(gs.Workload.from_log(path).realize(gs.Platform.equal(8))) >= 1


def test_a_whole_line_that_is_no_record_is_named_with_its_field(write):
    path = write("sacct.txt", "\n".join([HEAD, job(1), "", "#" + "|#" * 6, job(2)]) + "\n")
    with pytest.raises(TraceFormatError, match=r"sacct\.txt:4: field JobID cannot be read, got '#'$"):
        load_jobs(path)


NODES = "JobIDRaw|JobID|State|Submit|Start|ElapsedRaw|NNodes|NCPUS"


def test_jobs_that_share_nodes_keep_their_numbers_of_nodes(write, tmp_path):
    """By hand, on 2 nodes of 4 cores: after 3 of 4 cores of each node, a job needs 2 cores of one node.

    The fourth job takes 2 cores on each of two nodes for its 3 processors; SWF cannot say so.
    """
    sizes = [(1, 3, 0, 0), (1, 3, 0, 0), (1, 2, 10, 90), (2, 3, 200, 0)]
    lines = [
        f"{k}|{k}|COMPLETED|{submit}|{submit + wait}|100|{nodes}|{procs}"
        for k, (nodes, procs, submit, wait) in enumerate(sizes, 1)
    ]
    path = write("na.txt", "\n".join([NODES, *lines]) + "\n")
    scenario = gs.Scenario(gs.Platform.equal(2, cores=4), gs.Workload.jobs_from_log(path))
    with pytest.warns(TraceWarning, match="without a requested time"):
        comparison = gs.compare(scenario, {"fcfs": gs.BatchQueue(backfill="none")})
    jobs = comparison["fcfs"].applications
    assert jobs["waiting"].tolist() == [0, 0, 90, 0]
    assert (jobs["tasks"].tolist(), jobs["cores"].tolist()) == ([1, 1, 1, 2], [3, 3, 2, 2])
    recorded = comparison["log"].applications
    for name in ("waiting", "size", "cores"):
        assert recorded[name].tolist() == jobs[name].tolist()
    by_itself = gs.result_from_log(path, machines=2, cores=4).applications
    assert by_itself["size"].tolist() == jobs["size"].tolist()
    summary = convert(path, tmp_path / "na.swf")
    assert summary["dropped"] == {
        "numbers of nodes of jobs (NNodes; for --shared), which gridsim uses if it reads na.txt itself": 4
    }


def test_tasks_of_an_array_run_in_the_order_of_their_indices(write, tmp_path):
    """The last task has the number of the array, the smallest one, and here also its first line."""
    tasks = [("36", "36_3"), ("39", "40"), ("37", "36_1"), ("38", "36_2")]
    lines = [f"{raw}|{name}|COMPLETED|0|0|10|1|1" for raw, name in tasks]
    path = write("arr.txt", "\n".join([NODES, *lines]) + "\n")
    convert(path, tmp_path / "arr.swf")
    for log in (path, tmp_path / "arr.swf"):
        assert derive_jobs(load_jobs(log)).job.tolist() == [37, 38, 36, 39]
