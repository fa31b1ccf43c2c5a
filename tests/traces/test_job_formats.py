"""HTCondor, Batsim, the Workflow Trace Archive, SWF with semicolons, and conversion of all to SWF."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import ScenarioError, TraceFormatError, TraceWarning
from gridsim.traces import JobLog, conversion, convert, info
from gridsim.traces.info import detect_format, load_jobs
from gridsim.traces.job_lines import lines_of
from gridsim.traces.jobs import JOB_FIELDS, listed_names
from gridsim.traces.lint import lint

SEMICOLONS = """\
1;0;-1;15;12;-1;-1;-1;420;-1;-1;u5;a2;-1;normal;normal;;-1;
2;49;-1;1201;1;-1;-1;-1;1800;-1;-1;u1;a1;-1;normal;normal;;-1;
3;60;-1;-1;1;-1;500000;-1;960;-1;-1;u4;a2;-1;normal;normal;;-1;
"""
ADS = [
    dict(ClusterId=7, ProcId=1, Owner="ann", QDate=1000, JobStartDate=1050, JobCurrentStartDate=1100,
         CompletionDate=1400, RemoteWallClockTime=350.0, RequestCpus=4, JobStatus=4, JobUniverse=5,
         NumJobStarts=2, RequestMemory=8),
    dict(ClusterId=7, ProcId=0, Owner="bob", QDate=1000, JobStartDate=1010, JobCurrentStartDate=1010,
         CompletionDate=1060, RemoteWallClockTime=50.0, RequestCpus=1, JobStatus=4, JobUniverse=5,
         ExitCode=1),
    dict(ClusterId=8, ProcId=0, Owner="ann", QDate=1020, CompletionDate=0, EnteredCurrentStatus=1080,
         RemoteWallClockTime=0.0, RequestCpus=2, JobStatus=3, JobUniverse=5),
    dict(ClusterId=9, ProcId=0, Owner="ann", QDate=1030, JobCurrentStartDate=1040, CompletionDate=0,
         RemoteWallClockTime=20.0, RequestCpus=2, JobStatus=3, JobUniverse=5),
    dict(ClusterId=10, ProcId=0, Owner="ann", QDate=1030, RequestCpus=1, JobStatus=1, JobUniverse=5),
    dict(ClusterId=11, ProcId=0, Owner="ann", QDate=1030, JobCurrentStartDate=1040, CompletionDate=1050,
         RemoteWallClockTime=10.0, RequestCpus=1, JobStatus=4, JobUniverse=7),
]  # fmt: skip
COLUMNS = list(dict.fromkeys(name for ad in ADS for name in ad))
BATSIM = {
    "nb_res": 4,
    "jobs": [
        {"id": "w0!2", "subtime": 10, "walltime": 100, "res": 4, "profile": "short"},
        {"id": "w0!1", "subtime": 5.5, "res": 1, "profile": "both", "user": "x"},
        {"id": 3, "subtime": 7, "walltime": -1, "res": 2, "profile": "work"},
    ],
    "profiles": {
        "short": {"type": "delay", "delay": 20.5},
        "both": {"type": "composed", "repeat": 2, "seq": ["short", "short"]},
        "work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
    },
}


def rows(log, *names):
    return [tuple(row) for row in log.jobs[list(names)].tolist()]


def history(kind):
    if kind == "long":
        return "\n".join(
            "\n".join(f"{name} = {json.dumps(value)}" for name, value in ad.items()) + "\n" for ad in ADS
        )
    if kind == "json":
        return json.dumps(ADS, indent=1)
    if kind == "jsonl":
        return "\n".join(map(json.dumps, ADS))
    separator = {"table": "  ", "tabs": "\t", "commas": ","}[kind]
    lines = [COLUMNS, *([str(ad.get(name, "undefined")) for name in COLUMNS] for ad in ADS)]
    return "\n".join(map(separator.join, lines)) + "\n"


@pytest.mark.parametrize("kind", ["long", "json", "jsonl", "table", "tabs", "commas"])
def test_histories_of_htcondor_are_read(write, kind):
    path = write("history.txt", history(kind))
    assert detect_format(path) == "htcondor"
    log = load_jobs(path)
    names = ("job", "submit", "wait", "run_time", "used_procs", "req_procs", "status", "user")
    assert rows(log, *names) == [
        (1, 0, 10, 50, 1, 1, 0, 2),
        (2, 0, 100, 300, 4, 4, 1, 1),
        (3, 20, 60, 0, -1, 2, 5, 1),
        (4, 30, 10, 20, 2, 2, 5, 1),
    ]
    assert log.header["UnixStartTime"] == "1000" and log.header["User"] == "1 ann\n2 bob"
    assert log.jobs["req_memory"].tolist()[:2] == [-1, 2048]
    assert lines_of(log.jobs).never_ran.tolist() == [False, False, True, False]
    assert [len(remark.lines) for remark in log.remarks] == [1, 1, 1]
    counts = {"json": 2, "long": 1, "jsonl": 1}
    assert log.jobs["line"][1] == counts.get(kind, 2)


def test_errors_in_htcondor_histories_are_reported(write):
    for text, message in (
        (history("long").replace("QDate", "QDat"), r":1: the columns must include a submit time \(QDate\)"),
        (history("long").replace("JobStatus = 1", "JobStatus = 9"), "field JobStatus must be .*, got '9'"),
        (history("long").replace("RequestCpus = 1", "RequestCpus = one"), "field RequestCpus .*, got 'one'"),
        (history("long") + "oops\n", r"log:\d+: a line must be Name = value, got 'oops'"),
        (history("json")[:-3], "not valid JSON"),
        ('[{"QDate": 1, "ClusterId": 1}, 7]', "a job must be an object, got int"),
    ):
        with pytest.raises(TraceFormatError, match=message):
            load_jobs(write("log", text))


def test_profiles_have_the_names_of_each_version_of_batsim(write):
    old = load_jobs(write("old.json", text := json.dumps(BATSIM)))
    for name, new in {"delay": "DelayProfile", "composed": "SequentialCompositionProfile"}.items():
        text = text.replace(f'"type": "{name}"', f'"type": "{new}"')
    assert np.array_equal(load_jobs(write("new.json", text)).jobs, old.jobs)


@pytest.mark.parametrize("indent", [None, 1])
def test_workloads_of_batsim_are_read(write, indent):
    path = write("workload.json", json.dumps(BATSIM, indent=indent))
    assert detect_format(path) == "batsim"
    log = load_jobs(path)
    assert rows(log, "job", "submit", "wait", "run_time", "used_procs", "req_time") == [
        (1, 5.5, -1, 82, 1, -1),
        (2, 10, -1, 20.5, 4, 100),
    ]
    assert log.header["MaxProcs"] == "4" and info.read_header(path)["MaxProcs"] == "4"
    assert [len(remark.lines) for remark in log.remarks] == [1, 1]
    assert log.jobs["line"].tolist() == ([11, 4] if indent else [1, 1])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"subtime": 10',
            '"subtme": 10',
            r":4: a job must have .*, got none for subtime; did you mean",
        ),
        ('"subtime": 10', '"subtime": "x"', r":4: field subtime must be a number of at least 0, got 'x'"),
        ('"res": 4', '"res": 0', r":4: field res must be a whole number of at least 1, got 0"),
        (
            '"profile": "short"',
            '"profile": "shrt"',
            r":4: field profile .* got 'shrt'; did you mean short",
        ),
        ('"seq": [', '"seq": ["both",', "profiles must be nested at most 50 levels"),
        (
            '"profiles"',
            '"profile"',
            r":1: a workload .* must have profiles; for profile, did you mean",
        ),
        ('"nb_res": 4,', '"nb_res": 4', r":3: not valid JSON"),
    ],
)
def test_faults_of_workloads_of_batsim_are_named(write, old, new, message):
    text = json.dumps(BATSIM, indent=1)
    assert old in text
    with pytest.raises(TraceFormatError, match=message):
        load_jobs(write("workload.json", text.replace(old, new, 1)))


def test_repeated_ids_of_batsim_are_counted(write):
    job = {"id": "a!1", "subtime": 0, "res": 1, "profile": "d"}
    jobs = [job, {**job, "id": "b!1"}, {**job, "subtime": 5}]
    text = json.dumps({"jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}, indent=1)
    log = load_jobs(write("workload.json", text))
    assert [remark.lines.tolist() for remark in log.repairs] == [[log.jobs["line"][2]]]
    assert log.jobs["job"].tolist() == [1, 2, 3]
    jobs[2]["id"] = "c!1"
    text = json.dumps({"jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}})
    assert load_jobs(write("workload.json", text)).repairs == ()


@pytest.mark.parametrize("blank", ["", "\n"])
def test_a_short_line_of_an_htcondor_table_is_named(write, blank):
    names = "ClusterId Owner QDate JobStartDate RemoteWallClockTime RequestCpus JobStatus"
    whole = "1 u 1000 1010 100.0 4 4"
    text = "\n".join([names, whole, blank + "2 u 1000", whole.replace("1", "3", 1)])
    number = 3 + len(blank)
    with pytest.raises(TraceFormatError, match=rf":{number}: a line must have 7 fields.* got 3$"):
        load_jobs(write("history.txt", text + "\n"))


def write_wta(folder, **changes):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "id": [4, 5, 6],
        "ts_submit": [2000, 1000, 3500],
        "runtime": [500, 60_000, -1],
        "wait_time": [1000, -1, 0],
        "resource_amount_requested": [1.0, 2.5, 1.0],
        "parents": [[5], [], [4, 5]],
        "user_id": [-1, -1, -1],
        "workflow_id": [7, 7, 8],
        "nfrs": ["", "", ""],
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part.0.parquet"
    parquet.write_table(
        pyarrow.table({name: values for name, values in columns.items() if values is not None}), path
    )
    return path


def test_workloads_of_the_workflow_trace_archive_are_read(tmp_path, monkeypatch):
    path = write_wta(tmp_path / "tasks/schema-1.0")
    for place in (path, tmp_path):
        assert detect_format(place) == "wta"
        log = load_jobs(place)
        assert rows(log, "job", "submit", "wait", "run_time", "used_procs", "user", "preceding") == [
            (5, 1, -1, 60, 3, 7, -1),
            (4, 2, 1, 0.5, 1, 7, 5),
            (6, 3.5, 0, -1, 1, 8, 4),
        ]
        assert log.further.tolist() == [[3, 5]]
    with pytest.warns(TraceWarning) as caught:
        assert info.info(tmp_path)["sha256"] == info.info(path)["sha256"]
    assert "1 columns that no run uses (nfrs)" in str(caught[0].message)
    with pytest.raises(TraceFormatError, match=r"ts_submit"):
        load_jobs(write_wta(tmp_path / "b", ts_submit=None))
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(TraceFormatError, match="not a Parquet file"):
        load_jobs(tmp_path / "text.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"gridsched\[data\]"):
        load_jobs(path)


def test_swf_with_semicolons_is_read(write):
    for name in ("log.swf", "log.txt", "log.swf.gz"):
        path = write(name, SEMICOLONS)
        assert detect_format(path) == "swf"
        log = load_jobs(path)
        names = ("job", "submit", "run_time", "used_procs", "req_time", "user", "group", "queue", "preceding")
        assert rows(log, *names) == [
            (1, 0, 15, 12, 420, 1, 1, 1, -1),
            (2, 49, 1201, 1, 1800, 2, 2, 1, -1),
            (3, 60, -1, 1, 960, 3, 1, 1, -1),
        ]
        assert log.header["Queue"] == "1 normal" and log.header["User"] == "1 u5\n2 u1\n3 u4"
    assert [finding.code for finding in lint(path)] == ["unknown-run-time"]
    path = write("bad.swf", SEMICOLONS.replace("1201", "1 201"))
    with pytest.raises(TraceFormatError, match=r"bad.swf:2: field run_time must be a number, got '1 201'"):
        load_jobs(path)
    assert {finding.code: finding.first_line for finding in lint(path)} == {"bad-number": 2}


def same_jobs(log, other):
    return all(np.array_equal(log.jobs[name], other.jobs[name]) for name in JOB_FIELDS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.swf", SEMICOLONS),
        ("history", history("long")),
        ("workload.json", json.dumps(BATSIM)),
        ("log.gwf", "# Site: x\n1 5 0 100.25 1 -1 -1 1 200 -1 1 U1 G1 X1 Q1" + " -1" * 14 + "\n"),
    ],
)
def test_converted_logs_have_equal_jobs(write, tmp_path, name, text):
    path, output = write(name, text), tmp_path / "out.swf"
    summary = convert(path, output)
    original, converted = load_jobs(path), load_jobs(output)
    assert same_jobs(original, converted) and summary["jobs"] == len(original)
    for key in original.header.keys() - {"Note"}:
        assert converted.header[key] == original.header[key]
    assert not {each.code for each in lint(output)} & {"other-job-count", "other-record-count", "no-header"}
    again = tmp_path / "again.swf"
    convert(output, again)
    assert same_jobs(converted, load_jobs(again))


finite = st.floats(0, 1e9) | st.integers(0, 10**9).map(float)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(finite, finite | st.just(-1.0), finite, st.integers(1, 99), st.integers(-1, 5)),
        min_size=1,
        max_size=9,
    )
)
def test_any_log_is_written_exactly(jobs):
    submit, wait, run_time, procs, status = map(np.array, zip(*jobs, strict=True))
    log = JobLog.of("x", submit=submit, wait=wait, run_time=run_time, used_procs=procs, status=status)
    lines = "".join(conversion._lines(log.jobs)).splitlines()
    values = np.array([list(map(float, line.split())) for line in lines])
    assert all(np.array_equal(values[:, k], log.jobs[name]) for k, name in enumerate(JOB_FIELDS))


HEAD = "JobID|State|Submit|Start|End|ElapsedRaw|NCPUS|Partition\n"


def test_a_zone_corrects_waits_at_a_change_of_clocks(write, tmp_path):
    """The job waited from 01:30 to 03:30 in the night in which 02:00 became 03:00."""
    line = "1|COMPLETED|2026-03-29T01:30:00|2026-03-29T03:30:00|2026-03-29T03:40:00|600|4|batch\n"
    path, output = write("sacct.txt", HEAD + line), tmp_path / "out.swf"
    assert load_jobs(path).jobs["wait"].tolist() == [7200]
    assert convert(path, output, zone="Europe/Berlin", max_procs=16)["repairs"] == {}
    log = load_jobs(output)
    assert rows(log, "submit", "wait", "run_time") == [(0, 3600, 600)]
    assert log.header["UnixStartTime"] == "1774744200" and log.header["MaxProcs"] == "16"
    assert log.header["TimeZoneString"] == "Europe/Berlin" and log.header["Queue"] == "1 batch"
    skipped = write("skipped.txt", HEAD + line + line.replace("T03:30:00", "T02:30:00"))
    text = "jobs with times that do not exist in Europe/Berlin, so that it may not be their time zone"
    assert convert(skipped, tmp_path / "skipped.swf", zone="Europe/Berlin")["repairs"] == {text: 1}
    with pytest.raises(ScenarioError, match=r"zone must be .* got 'Europe/Berln'; did you mean Eu"):
        convert(path, output, zone="Europe/Berln")
    with pytest.raises(ScenarioError, match="zone requires a log with local times"):
        convert(write("history", history("json")), output, zone="Europe/Berlin")


def test_nothing_is_written_if_a_conversion_fails(write, tmp_path, monkeypatch):
    path, output = write("sacct.txt", HEAD + "1|DONE|x|x|x|x|x|x\n"), tmp_path / "out.swf"
    output.write_text("before")
    for wrong, target in (
        (path, output),
        (write("a.avt", "a 1 0 5\n"), output),
        (path, tmp_path / "out.txt"),
    ):
        with pytest.raises((TraceFormatError, ScenarioError)):
            convert(wrong, target)
    good = write("log.swf", SEMICOLONS)
    monkeypatch.setattr(conversion, "_ROWS", 1)
    texts = conversion._texts

    def fail_later(column):
        if column.dtype.kind == "f" and column[0] == 60:
            raise OSError("disk")
        return texts(column)

    monkeypatch.setattr(conversion, "_texts", fail_later)
    with pytest.raises(OSError, match="disk"):
        convert(good, output)
    assert output.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["a.avt", "log.swf", "out.swf", "sacct.txt"]


def test_the_command_converts_and_counts(write, tmp_path):
    path, output = write("history", history("table")), tmp_path / "out.swf"
    done = CliRunner().invoke(cli, ["trace", "convert", str(path), str(output)])
    assert done.exit_code == 0 and "4 jobs, 1 of which never ran, from htcondor" in done.stdout
    assert "1 jobs that have not ended" in done.stdout
    done = CliRunner().invoke(cli, ["trace", "convert", str(path), str(output), "--json"])
    summary = json.loads(done.stdout)
    assert (summary["jobs"], summary["never_ran"], summary["names"]) == (4, 1, {"User": 2})
    with pytest.warns(TraceWarning):
        own = gs.result_from_log(output, machines=8)
    assert own.applications["waiting"].tolist() == [10, 100, 10]


def test_jobs_that_had_not_ended_are_counted_also_after_conversion(write, tmp_path):
    ended = "1|COMPLETED|2026-03-29T00:30:00|2026-03-29T00:30:00|2026-03-29T00:40:00|600|4|batch\n"
    running = "{}|RUNNING|2026-03-29T00:30:00|2026-03-29T00:30:00|Unknown|9|4|batch\n"
    waiting = "7|PENDING|2026-03-29T00:30:00|Unknown|Unknown|0|4|batch\n"
    path = write("sacct.txt", HEAD + ended + running.format(2) + running.format(3) + waiting)
    output, again = tmp_path / "own.swf", tmp_path / "again.swf"
    convert(path, output)
    convert(output, again)
    for log in (path, output, again):
        assert load_jobs(log).unfinished_jobs == {"pending jobs": 1, "jobs that have not ended": 2}
    left_out = "1 pending jobs and 2 jobs that have not ended"
    for workload, line in (
        (gs.Workload.jobs_from_log(output), f"left out at the end of the log: {left_out}"),
        (gs.Workload.jobs_from_log(output, end=5.0), None),
        (gs.Workload.jobs_from_logs([output]), f"left out at the ends of the logs: {left_out} (own.swf)"),
    ):
        assert workload.remarks.get("unfinished") == line
    cluster = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(output))
    with pytest.warns(TraceWarning):
        assert left_out in " ".join(str(gs.compare(cluster, ["backfill"])).split())


def test_numbers_without_a_name_in_a_header_do_not_take_the_next_line() -> None:
    assert listed_names({"Queue": "1  \n2 0 \n3\tnight shift"}, "Queue") == {2: "0", 3: "night shift"}


def test_a_conversion_mentions_a_change_of_clocks_only_without_a_zone(write, tmp_path):
    """02:00 became 03:00 in the night, so a job of 2 h that began at 01:00 ended at 04:00."""
    line = "1|COMPLETED|2026-03-29T00:30:00|2026-03-29T01:00:00|2026-03-29T04:00:00|7200|4|batch\n"
    path, output = write("sacct.txt", HEAD + line), tmp_path / "out.swf"
    local, zoned = convert(path, output), convert(path, output, zone="Europe/Berlin")
    assert [text[:29] for text in local["repairs"]] == ["jobs whose end is an hour off"]
    assert zoned["repairs"] == local["dropped"] == zoned["dropped"] == {}


def test_a_conversion_keeps_requested_memory_and_counts_lost_gpus(write, tmp_path):
    head = "JobID|State|Submit|Start|ElapsedRaw|NNodes|NCPUS|ReqMem|AllocTRES\n"
    path, output = write("sacct.txt", head + "1|COMPLETED|0|0|9|2|4|6G|gres/gpu=3\n"), tmp_path / "out.swf"
    assert [text for text in convert(path, output)["dropped"] if "GPU" in text] == [
        "numbers of GPUs (gres/gpu; for --gpus-per-node), which gridsim uses if it reads sacct.txt itself"
    ]
    assert load_jobs(output).memory.tolist() == load_jobs(path).memory.tolist() == [6 * 2**30]
