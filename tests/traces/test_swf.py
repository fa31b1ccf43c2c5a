"""Job logs: exact values, round trips, invalid files, and the real logs."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.traces import SWF_FIELDS, _text, read_swf

LOG = """\
; Version: 2.2
; Computer: Toy
; Information: http://example.org/
;              http://example.com/
; MaxProcs: 16
; Note: first note
;
; a line without a key
; Note: second note
  1   0  5  100   4  -1   -1   4  200  -1  1  7  1 -1 1 -1 -1 -1

; in between: two words are no key
  2  10 -1  3.5  -1  -1 20.5   8   60  -1  0  8  1 -1 1 -1  1 30
  3  10  0   -1  -1  -1   -1  -1   -1  -1  5  7  1 -1 1 -1 -1 -1 {1,2} q_2w 1:ppn=2
"""
JOB = "1 0 5 100 4 -1 -1 4 200 -1 1 7 1 -1 1 -1 -1 -1"


@pytest.mark.parametrize("name", ["toy.swf", "toy.swf.gz"])
def test_a_small_log_is_read_exactly(write, name):
    log = read_swf(write(name, LOG))
    assert log.header["Computer"] == "Toy"
    assert log.header["Information"] == "http://example.org/\nhttp://example.com/"
    assert log.header["Note"] == "first note\nsecond note"
    assert list(log.header) == ["Version", "Computer", "Information", "MaxProcs", "Note"]
    assert len(log) == 3
    assert log.jobs["job"].tolist() == [1, 2, 3]
    assert log.jobs["submit"].tolist() == [0, 10, 10]
    assert log.jobs["run_time"].tolist() == [100, 3.5, -1]
    assert log.jobs["used_memory"].tolist() == [-1, 20.5, -1]
    assert log.jobs["think_time"].tolist() == [-1, 30, -1]
    assert log.jobs["line"].tolist() == [10, 13, 14]
    assert log.procs.tolist() == [4, 8, 1]
    assert log.jobs["job"].dtype == np.int64 and log.jobs["submit"].dtype == np.float64


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("more", ["", " {1,2} q", " 3.5"])
def test_block_boundaries_have_no_effect(write, monkeypatch, end, more):
    """Blocks with only jobs are parsed at once; comments, empty and wider lines are in later blocks."""
    jobs = [f"{k} {k} 5 100 4 -1 -1 4 200 -1 1 7 1 -1 1 -1 -1 -1" for k in range(1, 25)]
    jobs[11] += more
    lines = [*jobs[:8], " \t ", "; Late: comment", *jobs[8:16], "", *jobs[16:]]
    path = write("toy.swf", end.join(lines))
    whole = read_swf(path)
    assert whole.jobs["job"].tolist() == list(range(1, 25)) and whole.header["Late"] == "comment"
    assert whole.jobs["line"].tolist() == [*range(1, 9), *range(11, 19), *range(20, 28)]
    for chunk in (40, 100, 150, 399, 400):
        monkeypatch.setattr(_text, "_CHUNK", chunk)
        cut = read_swf(path)
        assert cut.header == whole.header and cut.jobs.tobytes() == whole.jobs.tobytes()


def test_line_ends_and_byte_order_marks_have_no_effect(write):
    path = write("toy.swf", "\ufeff" + LOG.replace("\n", "\r\n").rstrip())
    log = read_swf(path)
    assert log.header["Version"] == "2.2" and log.jobs["line"].tolist() == [10, 13, 14]


def test_repairs_are_counted_in_one_warning(write):
    path = write(
        "toy.swf", "\n".join(f"{n} {s} 0 {r}" + " 1" * 14 for n, s, r in ((1, 9, -7), (2, 5, 3), (3, 9, 4)))
    )
    with pytest.warns(TraceWarning) as records:
        log = read_swf(path)
    assert [str(w.message) for w in records] == [
        f"{path}:1: 1 submissions out of order, sorted; 1 run times below -1, taken as unknown "
        "(the first is at this line)"
    ]
    assert log.jobs["job"].tolist() == [2, 1, 3]  # the sort is stable
    assert log.jobs["run_time"].tolist() == [3, -1, 4]
    assert log.jobs["line"].tolist() == [2, 1, 3]


def test_carriage_returns_within_lines_are_rejected(write):
    """A file with carriage returns only, as on old Macs, is one line."""
    expected = r"a.swf:2: a line must end with a newline, got a carriage return within the line$"
    with pytest.raises(TraceFormatError, match=expected):
        read_swf(write("a.swf", f"; a\rcomment\n{JOB}\r{JOB}\r"))


def test_a_first_line_with_names_of_columns_is_skipped(write):
    assert len(read_swf(write("a.swf", f"job submit wait run\n{JOB}\n"))) == 1
    with pytest.raises(TraceFormatError, match="a.swf:2: a line must have 18 fields, got 4"):
        read_swf(write("a.swf", f"{JOB}\njob submit wait run\n"))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (JOB.rsplit(" ", 1)[0], "a line must have 18 fields, got 17"),
        (JOB.replace("100", "abc"), "field run_time must be a number, got 'abc'"),
        (JOB.replace("100", "1_0"), "field run_time must be a number, got '1_0'"),
        (JOB.replace("100", "nan"), "field run_time must be a finite number, got 'nan'"),
        (JOB.replace("100", "1e999"), "field run_time must be a finite number, got '1e999'"),
        (
            JOB.replace("100", "9007199254740993"),
            "field run_time must be at most 9007199254740991, got '9007199254740993'",
        ),
        (JOB.replace(" 4 200", " 4.5 200"), "field req_procs must be a whole number, got '4.5'"),
        (JOB.replace(" 4 200", " -inf 200"), "field req_procs must be a finite number, got '-inf'"),
        (
            JOB.replace("1", "9007199254740993", 1),
            "field job must be a whole number below 2**53, got '9007199254740993'",
        ),
    ],
)
@pytest.mark.parametrize("name", ["bad.swf", "bad.swf.gz"])
def test_faulty_lines_are_rejected_with_their_number(write, name, bad, message):
    path = write(name, f"; Computer: Toy\n{JOB}\n\n{bad}\n{JOB}\n")
    with pytest.raises(TraceFormatError) as excinfo:
        read_swf(path)
    assert str(excinfo.value) == f"{path}:4: {message}"


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("empty.swf", "", 1, "no jobs"),
        ("header.swf", "; Computer: Toy\n; Version: 2\n", 2, "no jobs"),
        ("junk.swf", bytes(range(256)) * 40, 1, "binary data"),
        ("later.swf", f"{JOB}\n{JOB}\n1 2\0 3\n".encode(), 3, "binary data"),
        (
            "latin.swf",
            f"; Site: x\n{JOB}\n; Note: Universit\xe4t\n".encode("latin-1"),
            3,
            "must be UTF-8 text, got byte 0xe4",
        ),
        ("plain.swf.gz", None, 1, "not a valid gzip file"),
        ("missing.swf", None, None, "No such file or directory"),
    ],
)
def test_unreadable_logs_are_rejected(write, tmp_path, name, content, line, message):
    path = tmp_path / name
    if content is not None:
        write(name, content)
    elif name.endswith(".gz"):
        path.write_text(LOG)
    with pytest.raises(TraceFormatError) as excinfo:
        read_swf(path)
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(excinfo.value).startswith(place) and message in str(excinfo.value)


def test_truncated_and_corrupt_gzip_files_are_rejected_with_the_line(tmp_path):
    rng = np.random.default_rng(1)
    lines = [f"{n} {n} 0 {rng.integers(10**9)} " + "1 " * 14 for n in range(20_000)]
    whole = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "cut.swf.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceFormatError, match="the gzip file is truncated") as excinfo:
        read_swf(path)
    line = int(str(excinfo.value).removeprefix(f"{path}:").split(":")[0])
    assert 8_000 < line < 12_000
    path.write_bytes(whole[:-8] + b"12345678")  # wrong checksum
    with pytest.raises(TraceFormatError, match="not a valid gzip file"):
        read_swf(path)
    path.write_bytes(whole[:5_000] + bytes(50) + whole[5_050:])
    with pytest.raises(TraceFormatError, match="gzip"):
        read_swf(path)


whole = st.integers(-1, 2**40)
fraction = st.floats(-1, 1e12, allow_nan=False)
run_time = st.one_of(st.just(-1.0), st.floats(0, 1e9))
columns = {name: whole for name in SWF_FIELDS} | {
    "submit": st.floats(0, 1e9),
    "run_time": run_time,
    "used_memory": fraction,
    "think_time": fraction,
}
rows = st.lists(st.tuples(*columns.values()), min_size=1, max_size=20)


@settings(max_examples=50)
@given(rows, st.booleans(), st.sampled_from([" ", "\t", "   "]), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_written_logs_are_read_unchanged(rows, packed, blank, newline):
    rows = sorted(rows, key=lambda row: row[1])
    text = newline.join(blank.join(map(repr, row)) for row in rows).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("log.swf.gz" if packed else "log.swf")
        path.write_bytes(gzip.compress(text) if packed else text)
        log = read_swf(path)
    assert [tuple(job)[:18] for job in log.jobs.tolist()] == rows
    assert log.jobs["line"].tolist() == [1 + i * newline.count("\n") for i in range(len(rows))]


@settings(max_examples=50)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_raise_a_trace_error(data, packed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("log.swf.gz" if packed else "log.swf")
        path.write_bytes(data)
        with pytest.raises(TraceFormatError) as excinfo:
            read_swf(path)
        assert str(excinfo.value).removeprefix(f"{path}:").split(":")[0].isdigit()


@pytest.mark.parametrize(
    ("file", "jobs", "users", "cpu_seconds"),
    [
        ("ricc2010-a/RICC-2010-2-a.swf.gz", 150_331, 135, 49_553_916_088),
        ("lcg2005-a/LCG-2005-a.swf.gz", 86_169, 171, 634_297_940),
        ("kth-sp2/KTH-SP2-1996-2.1-cln.swf.gz", 28_476, 214, 2_016_591_521),
        ("nasa-ipsc/NASA-iPSC-1993-3.1-cln.swf.gz", 18_239, 69, 474_238_015),
        ("fixtures/sdsc_blue_01.txt", 1_574, 83, None),
    ],
)
def test_real_logs_have_their_known_values(traces, file, jobs, users, cpu_seconds):
    log = read_swf(traces / file)
    assert len(log) == jobs
    assert len(np.unique(log.jobs["user"])) == users
    if cpu_seconds is not None:
        assert log.procs @ log.jobs["run_time"] == cpu_seconds


def test_a_real_log_with_extra_columns_and_broken_run_times_is_read(traces):
    with pytest.warns(TraceWarning, match=r"swf\.gz:4186: 2 run times below -1") as records:
        log = read_swf(os.fspath(traces / "wagap2013/wagap-2013.swf.gz"))
    assert len(records) == 1
    assert len(log) == 17_900 and log.header == {}
    assert log.procs.max() == 256 and (log.jobs["run_time"] == -1).sum() == 2
