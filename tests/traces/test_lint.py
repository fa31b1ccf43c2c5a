"""Format detection, `info` and `lint` of all formats."""

from __future__ import annotations

import hashlib
import json

import pytest

from gridsim.errors import ScenarioError, TraceFormatError
from gridsim.traces.lint import detect_format, info, lint

JOB = "{job} {submit} 0 {run} {used} -1 -1 {req} {time} -1 1 {user} 1 -1 1 -1 -1 -1"
GRID_JOB = "1 5 0 100 1 -1 -1 1 200 -1 1 U1 G1 X1 Q1" + " -1" * 14 + "\n"
HEAD = "cpu_model,computers,avg_cores,gflops_core,gflops_computer\n"
EVENTS = "# event_id\tx\tx\tx\tx\tevent_type\tevent_start_time\tevent_stop_time\n"


def job(number=1, submit=0, run=10, used=1, req=1, time=20, user=1, more=""):
    return (
        JOB.format(job=number, submit=submit, run=run, used=used, req=req, time=time, user=user) + more + "\n"
    )


def codes(findings):
    return {finding.code: (finding.severity, finding.count, finding.first_line) for finding in findings}


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("log.swf.gz", "", "swf"),
        ("log.txt", "; Computer: x\n", "swf"),
        ("log.txt.gz", "\n" + job(more=" {1} q"), "swf"),
        ("log.txt", job(submit=8), "swf"),  # 18 fields, as many as a line of 8 intervals
        ("log.gwf.gz", "", "gwf"),
        ("log.txt", "# 1 JobID\n", "gwf"),
        ("log.txt", "# Site: x\n" + "1 " * 11 + "7\n", "gwf"),
        ("log.txt", "1 " * 11 + "U7\n", "gwf"),
        ("log.txt", "1 " * 15 + "P7 -1\n", "gwf"),
        ("log.txt", "1 " * 29, "gwf"),
        ("log.tr.gz", "", "tr"),
        ("log.txt", "7.5 3 2 1 2 3\n", "tr"),
        ("log.txt", "8 1 5 5\n", "tr"),  # otherwise an up interval of 0 s
        ("hosts.txt", "8 1 5 6\n", "avt"),
        ("hosts.avt", "", "avt"),
        ("hosts.txt", "# comment\na.b.c 1 0 5\n", "avt"),
        ("event_trace.tab.gz", "", "fta"),
        ("events.txt", EVENTS, "fta"),
        ("hosts.csv", "", "hosts"),
        ("hosts.csv", "computers,avg_cores\n", "hosts"),
        ("pbs.csv", "Job_Id,euser,qtime\n", "sacct"),  # whose reader says which columns to rename
        ("hosts.txt", HEAD, "hosts"),
    ],
)
def test_formats_are_detected(write, name, content, format):
    path = write(name, content)
    assert detect_format(path) == format
    if format == "fta" and name.startswith("event_trace"):
        assert detect_format(path.parent) == "fta"


@pytest.mark.parametrize(
    "content", ["", "hello world\n", "1 2 3\n", "# only\n# comments\n", "1 " * 17, "1 " * 16 + "{1} q", b"\0"]
)
def test_an_unknown_format_is_rejected(write, content):
    path = write("what.txt", content)
    with pytest.raises(TraceFormatError, match=r"what\.txt:1: "):
        detect_format(path)
    assert [finding.code for finding in lint(path)] == ["unreadable"]
    with pytest.raises(ScenarioError, match="^format"):
        info(path, format="xml")
    with pytest.raises(ScenarioError, match="^format"):
        lint(path, format="xml")


def test_info_describes_a_log(write):
    path = write(
        "log.swf",
        "; MaxProcs: 8\n" + job(1, 5, 10, used=4) + job(2, 25, -1, user=-1) + job(3, 35, 2.5, user=9),
    )
    facts = info(path)
    assert facts == json.loads(json.dumps(facts))
    assert facts.pop("sha256") == hashlib.sha256(path.read_bytes()).hexdigest()
    unknown = facts.pop("unknown")
    assert (unknown["run_time"], unknown["user"], unknown["cpu_time"]) == (
        1,
        1,
        3,
    ) and "submit" not in unknown
    assert facts == {
        "format": "swf",
        "file": str(path),
        "bytes": path.stat().st_size,
        "records": 3,
        "jobs": 2,
        "left_out": {"unknown_run_time": 1},
        "users": 2,
        "first_submit_s": 5,
        "span_s": 30,
        "tasks": 5,
        "cpu_s": 42.5,
        "largest_job_procs": 4,
        "max_run_time_s": 10,
        "not_used": {},
        "contradictions": [],
        "header": {"MaxProcs": "8"},
    }


def test_info_describes_a_grid_log(write):
    facts = info(write("log.gwf", "# Site: x\n" + GRID_JOB + GRID_JOB.replace("U1", "U2")))
    assert (facts["format"], facts["records"], facts["users"], facts["cpu_s"]) == ("gwf", 2, 2, 200)
    assert facts["unknown"]["partition"] == 2 and "think_time" not in facts["unknown"]
    assert facts["header"] == {"Site": "x"}


def test_info_describes_availability_and_hosts(write):
    facts = info(write("a.avt", "a 2 0 10 30 40\nb 0\n"))
    assert facts == json.loads(json.dumps(facts))
    assert (facts["records"], facts["intervals"], facts["span_s"], facts["never_up"]) == (2, 2, 40, 1)
    assert (facts["availability_mean"], facts["up_s"], facts["longest_up_s"]) == (0.25, 20, 10)
    event = "0\t0\t1\t5\tx\t1\t100\t150\n0\t0\t2\t5\tx\t1\t120\t150\n"
    facts = info(write("fta/event_trace.tab", EVENTS + event).parent)
    assert (facts["format"], facts["origin_s"], facts["joined_after_start"]) == ("fta", 100, 1)
    facts = info(write("h.csv", HEAD + "A,3,1,1,1\nB,1,1,3,3\n"))
    assert facts == json.loads(json.dumps(facts))
    assert (facts["records"], facts["computers"], facts["speed_mean_mflops"]) == (2, 4, 1500)


def test_lint_finds_nothing_in_a_clean_log(write):
    assert lint(write("log.swf", "; MaxProcs: 8\n; MaxRecords: 2\n" + job(1) + job(2, 5))) == []


@pytest.mark.parametrize(("status", "count"), [("-1", 0), ("5", 0), ("9", 1), ("-2", 1)])
def test_lint_names_an_unknown_status(write, status, count):
    words = job().split()
    words[10] = status
    found = codes(lint(write("log.swf", "; MaxProcs: 8\n" + " ".join(words) + "\n")))
    assert found == {"unknown-status": ("note", 1, 2)} if count else "unknown-status" not in found


def test_lint_finds_all_classes_in_a_log(write, recwarn):
    text = "; MaxProcs: 8\n; MaxRecords: 5\n" + "".join(
        (
            job(1, 10, used=9, req=9),  # line 3: over MaxProcs
            job(1, 5, run=-1),  # line 4: duplicate, unsorted, unknown run time
            job(2, -1, run=-5, used=-1, req=-1),  # line 5
            job(3, 20, run=0, user=-1),  # line 6
            job(4, 20, run=30, used=2, more=" extra"),  # line 7: over request
            job(4, 20, run=30),  # line 8
            job(6, 20, used=-1, req=2),  # line 9: processors known only as requested
        )
    )
    findings = lint(write("log.swf", text))
    assert codes(findings) == {
        "unknown-submit": ("warning", 1, 5),
        "unsorted-submit": ("warning", 1, 4),
        "duplicate-job": ("warning", 2, 4),
        "negative-run-time": ("warning", 1, 5),
        "unknown-run-time": ("warning", 1, 4),
        "unknown-procs": ("warning", 1, 5),
        "unknown-user": ("warning", 1, 6),
        "over-max-procs": ("warning", 1, 3),
        "requested-procs": ("note", 1, 9),
        "zero-run-time": ("note", 1, 6),
        "over-requested-time": ("note", 2, 7),
        "over-requested-procs": ("note", 1, 7),
        "extra-columns": ("note", 1, 7),
        "other-record-count": ("note", 1, 0),
    }
    assert [finding.severity for finding in findings] == sorted(
        (finding.severity for finding in findings), key=["error", "warning", "note"].index
    )
    assert not recwarn  # lint returns findings and issues no warnings


def test_lint_counts_all_faulty_lines_of_a_log(write):
    path = write("log.swf", job(1) + "1 2 3\n" + job(2, run="x") + "1 2\n" + job(3, run="nan"))
    assert codes(lint(path)) == {"missing-fields": ("error", 2, 2), "bad-number": ("error", 2, 3)}


def test_lint_finds_all_classes_in_a_grid_log(write, recwarn):
    assert lint(write("log.gwf", "# Site: x\n" + GRID_JOB)) == []
    cut = GRID_JOB.replace("5 0 100", "4 0 300").replace(" G1", "\n#")
    text = GRID_JOB + cut + GRID_JOB.replace("\n", " -1 -1\n").replace("1", "2", 1)
    assert codes(lint(write("log.gwf", text))) == {
        "unsorted-submit": ("warning", 1, 2),
        "duplicate-job": ("warning", 1, 2),
        "over-requested-time": ("note", 1, 2),
        "missing-columns": ("note", 1, 2),
        "extra-columns": ("note", 1, 4),
        "no-header": ("note", 1, 1),
    }
    path = write("log.gwf", GRID_JOB + "1 2 3\n" + GRID_JOB.replace("100", "x"))
    assert codes(lint(path)) == {"missing-fields": ("error", 1, 2), "bad-number": ("error", 1, 3)}
    assert not recwarn


@pytest.mark.parametrize("name", ["a.swf", "a.gwf", "a.avt", "event_trace.tab", "a.csv", "a.swf.gz"])
@pytest.mark.parametrize("content", [None, "", b"\x1f\x8bxx", b"a\n\0"])
def test_lint_reports_an_unreadable_file_as_a_finding(write, tmp_path, name, content):
    path = tmp_path / name if content is None else write(name, content)
    (finding,) = lint(path)
    assert (finding.severity, finding.code, finding.count) == ("error", "unreadable", 1)
    assert (finding.first_line >= 1) == (content is not None)


def test_lint_finds_all_classes_in_availability_traces(write, recwarn):
    assert lint(write("good.avt", "a 1 0 10\n")) == []
    assert codes(lint(write("a.avt", "a 1 0 10\nb 0\nc 4 5 8 7 9 1 2 3 3\nd 1 -4 3\n"))) == {
        "negative-time": ("error", 1, 4),
        "overlap": ("warning", 1, 3),
        "empty-interval": ("warning", 1, 3),
        "unsorted-intervals": ("note", 1, 3),
        "never-up": ("note", 1, 0),
    }
    rows = (
        (0, 1, 1, 0, 10),
        (0, 1, 0, 9, 12),
        (0, 1, 1, 15, 20),
        (0, 2, 3, 5, 6),
        (1, 1, 1, 0, 9),
        (0, 1, 0, 20, 20),
    )
    events = "".join("0\t{}\t{}\t5\tx\t{}\t{}\t{}\n".format(*row) for row in rows)
    path = write("fta/event_trace.tab", EVENTS + events)
    write("fta/node.tab", "1\t5\tone\n2\t5\ttwo\n3\t5\tthree\n")
    assert codes(lint(path.parent)) == {
        "event-overlap": ("warning", 1, 3),
        "gap": ("warning", 1, 4),
        "event-type": ("warning", 1, 5),
        "components": ("warning", 1, 6),
        "no-events": ("warning", 1, 0),
        "empty-event": ("note", 1, 7),
        "joins-late": ("note", 2, 0),
        "never-up": ("note", 2, 0),
    }
    assert not recwarn


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.avt", "a 1 0 5\nb 2 0 1\nc 1 5 4\na 1 0 1\nd 1 0 1\n", "host b must have 4 times, as n is 2"),
        (
            "event_trace.tab",
            EVENTS + "0\t0\t1\n0\t0\t1\t5\tx\t1\t9\t8\n0\t0\t1\t5\tx\t1\t0\t8\n0\t0\t1\t5\tx\tx\t0\t8\n",
            "a line must have at least 8 columns",
        ),
        (
            "a.csv",
            HEAD + "A,1\nA,1,1,1,1\nB,1,1,-1,1\nB,x,1,1,1\n",
            "a row must have 5 fields (quoted if they have commas), got 2",
        ),
    ],
)
def test_lint_counts_all_lines_that_cannot_be_read(write, name, content, expected):
    (finding,) = lint(write(name, content))
    assert (finding.code, finding.count, finding.first_line) == (
        "bad-line",
        3,
        2,
    ) and expected in finding.message


def test_lint_finds_all_classes_in_a_host_table(write):
    path = write("h.csv", HEAD + "A,3,1,1,1\nA,1,1,0,3\nB,0,1,1,1\n")
    assert codes(lint(path)) == {
        "no-speed": ("warning", 1, 3),
        "no-computers": ("warning", 1, 4),
        "duplicate-model": ("note", 1, 3),
    }
    assert [finding.code for finding in lint(write("h.csv", HEAD))] == ["no-hosts"]


def test_a_job_that_used_exactly_its_requested_time_is_not_reported(write):
    assert "over-requested-time" not in codes(lint(write("log.swf", job(run=20, time=20))))
    over = codes(lint(write("over.swf", job(run=21, time=20))))
    assert over["over-requested-time"] == ("note", 1, 1)
