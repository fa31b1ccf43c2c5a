"""Grid logs: exact values, round trips, faulty lines, and comparison with SWF."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.traces import JOB_DTYPE, JobLog, SwfLog, derive_bags, derive_jobs, read_gwf, read_jobs, read_swf

HEAD = "# Version: 1.0\n# Site: Toy\n# 1 JobID\n#\n"
REST = "\t-1" * 13
LOG = (
    HEAD
    + f"1\t0\t5\t100\t4\t90.5\t-1\t4\t200\t-1\t1\tU12\tG3\tX1\tQ0\t-1{REST}\n"
    + "\n# in between\n"
    + f"2\t10\t-1\t3.5\t-1\t-1\t20.5\t8\t60\t-1\t0\tU7\tG3\t5\tQ1\tP0{REST}\n"
    + f"3\t10\t0\t-1\t-1\t-1\t-1\t-1\t-1\t-1\t5\tU12\t-1\tX2\t4.5\t-1{REST}\n"
    + "4 \t 11 \t 0 \t 7 \t 1 \t -1 \t -1 \t 1 \t -1 \t -1 \t 1 \t 3 \t UNITARY\n"
    + "5 12 0 7 1 -1 -1 1 -1 -1 1 -1\n"
)
JOB = "1 0 5 100 4 -1 -1 4 200 -1 1 U7"


@pytest.mark.parametrize("name", ["toy.gwf", "toy.gwf.gz", "toy.txt"])
@pytest.mark.parametrize("read", [read_gwf, read_jobs])
def test_a_small_log_is_read_exactly(write, name, read):
    log = read(write(name, LOG))
    assert isinstance(log, JobLog) and JobLog is SwfLog and log.jobs.dtype == JOB_DTYPE
    assert log.header == {"Version": "1.0", "Site": "Toy"}
    assert log.jobs["job"].tolist() == [1, 2, 3, 4, 5]
    assert log.jobs["submit"].tolist() == [0, 10, 10, 11, 12]
    assert log.jobs["run_time"].tolist() == [100, 3.5, -1, 7, 7]
    assert log.jobs["cpu_time"].tolist() == [90.5, -1, -1, -1, -1]
    assert log.procs.tolist() == [4, 8, 1, 1, 1]
    assert log.jobs["user"].tolist() == [
        4,
        5,
        4,
        3,
        -1,
    ]  # texts are numbered from above the largest number, 3
    assert log.jobs["group"].tolist() == [0, 0, -1, 1, -1]
    assert log.jobs["executable"].tolist() == [6, 5, 7, -1, -1]
    assert log.jobs["queue"].tolist() == [0, 1, 2, -1, -1]
    assert log.jobs["partition"].tolist() == [-1, 0, -1, -1, -1]
    assert (log.jobs["preceding"] == -1).all() and (log.jobs["think_time"] == -1).all()
    assert log.jobs["line"].tolist() == [5, 8, 9, 10, 11]
    assert not log.jobs.flags.writeable


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (JOB.rsplit(" ", 1)[0], "a line must have 12 fields or more, got 11"),
        ("JobID,SubmitTime", "a line must have 12 fields or more, got 1"),
        (JOB.replace("1", "job1", 1), "field job must be a number, got 'job1'"),
        (JOB.replace("1 U7", "U7 1"), "field status must be a number, got 'U7'"),
    ],
)
def test_faulty_lines_are_rejected_with_their_number(write, bad, message):
    """The common faults of job logs are tested in test_swf.py."""
    path = write("bad.gwf", f"# Site: Toy\n{JOB}\n\n{bad}\n{JOB}\n")
    with pytest.raises(TraceFormatError) as excinfo:
        read_gwf(path)
    assert str(excinfo.value) == f"{path}:4: {message}"


def test_a_file_of_another_format_is_rejected(write):
    path = write("a.avt", "a 1 0 10\n")
    with pytest.raises(TraceFormatError) as excinfo:
        read_jobs(path)
    assert str(excinfo.value).startswith(f"{path}:1: the file must be a job log, swf, gwf, ")
    with pytest.raises(TraceFormatError) as excinfo:
        read_jobs(path.parent)
    assert str(excinfo.value) == f"{path.parent}: Is a directory"


# Identifiers may look like numbers without being whole numbers.
text = st.one_of(
    st.sampled_from(["U1", "U2", "1_0", "nan", "-inf", "4.5", "1e30", "ä"]), st.integers(-1, 9).map(str)
)
counts = [st.integers(0, 2**40), st.floats(0, 1e9), *[st.integers(-1, 2**40)] * 9]
rows = st.lists(
    st.tuples(st.tuples(*counts), st.lists(text, min_size=1, max_size=5)), min_size=1, max_size=20
)


def numbered_words(words):
    """Return a column of words as numbers, by a slow reference implementation."""
    full_run = [int(word) for word in words if word.removeprefix("-").isdecimal()]
    texts = list(dict.fromkeys(word for word in words if not word.removeprefix("-").isdecimal()))
    above = max(full_run, default=-1) + 1
    return [above + texts.index(word) if word in texts else int(word) for word in words]


@settings(max_examples=50)
@given(rows, st.booleans(), st.sampled_from([" ", "\t", " \t "]), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_written_logs_are_read_unchanged(rows, packed, blank, newline):
    rows = sorted(rows, key=lambda row: row[0][1])
    data = newline.join(blank.join((*map(repr, row), *texts)) for row, texts in rows).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("log.gwf.gz" if packed else "log.gwf")
        path.write_bytes(gzip.compress(data) if packed else data)
        log = read_gwf(path)
    assert [tuple(job)[:11] for job in log.jobs.tolist()] == [row for row, _ in rows]
    for number, name in enumerate(("user", "group", "executable", "queue", "partition")):
        words = [texts[number] if number < len(texts) else "-1" for _, texts in rows]
        assert log.jobs[name].tolist() == numbered_words(words)
    assert log.jobs["line"].tolist() == [1 + i * newline.count("\n") for i in range(len(rows))]


def test_a_real_swf_log_written_as_gwf_gives_equal_bags(traces, write):
    """Compare LCG-2005 with a copy that has texts for users."""
    original = read_swf(traces / "lcg2005-a/LCG-2005-a.swf.gz")
    names = original.jobs.dtype.names[:16]
    columns = [original.jobs[name].tolist() for name in names]
    columns[names.index("user")] = [f"U{user}" for user in columns[names.index("user")]]
    lines = ["\t".join(map(str, row)) + REST for row in zip(*columns, strict=True)]
    log = read_jobs(write("log.gwf.gz", "\n".join(lines)))
    assert len(log) == len(original) == 86_169
    for name in set(names) - {"user"}:
        assert (log.jobs[name] == original.jobs[name]).all()
    users, first = np.unique(original.jobs["user"], return_index=True)
    assert log.jobs["user"][np.sort(first)].tolist() == list(range(len(users)))
    with pytest.warns(TraceWarning, match="2 jobs of run time 0 s"):
        bags = derive_bags(log)
    assert len(bags) == 12_412 and bags.cpu_seconds == pytest.approx(634_297_942)


OPENDC = """WorkflowID, JobID , SubmitTime, RunTime, NProcs, ReqNProcs, Dependencies
0, 1, 16, 11.5, 1, 2,
0, 2, 16, 5, 4, 4, 1
7, 3, 40, 8, 1, 1, 1 2
"""


@pytest.mark.parametrize("read", [read_gwf, read_jobs])
def test_opendc_files_are_read(write, read):
    log = read(write("wf.gwf", OPENDC))
    assert log.jobs["job"].tolist() == [1, 2, 3] and log.jobs["user"].tolist() == [0, 0, 7]
    assert log.jobs["submit"].tolist() == [16, 16, 40] and log.jobs["run_time"].tolist() == [11.5, 5, 8]
    assert log.procs.tolist() == [1, 4, 1] and log.jobs["line"].tolist() == [2, 3, 4]
    assert log.jobs["preceding"].tolist() == [-1, 1, 1]
    with pytest.warns(TraceWarning, match="wf.gwf:3: 2 jobs with a preceding job, .* not used"):
        derive_jobs(log)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1,4,5", "5: a line must have 7 fields, as many as the first, got 3"),
        ("1,4,5,x,1,1,", "5: field RunTime must be a number, got 'x'"),
        ("1,4.5,5,2,1,1,", "5: field JobID must be a whole number, got '4.5'"),
    ],
)
def test_faulty_opendc_files_are_rejected(write, line, expected):
    with pytest.raises(TraceFormatError, match=expected):
        read_gwf(write("wf.gwf", OPENDC + line + "\n"))
    with pytest.raises(TraceFormatError, match="1: no jobs in this log"):
        read_gwf(write("no.gwf", OPENDC.partition("\n")[0]))
