"""Availability in .avt files: exact values, repairs, invalid files, and the real traces."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.traces import read_avt

TRACE = """\
# a comment
armedforces.nic.in 2  10 20  30.5 40
7\t0
8 1 0 50
"""


@pytest.mark.parametrize("name", ["toy.avt", "toy.avt.gz"])
def test_a_small_trace_is_read_exactly(write, name):
    trace = read_avt(write(name, TRACE))
    assert trace.names == ("armedforces.nic.in", "7", "8")
    assert trace.offsets.tolist() == [0, 2, 2, 3] and trace.offsets.dtype == np.int64
    assert trace.start.tolist() == [10, 30.5, 0] and trace.end.tolist() == [20, 40, 50]
    assert trace.first.tolist() == [0, 0, 0] and trace.horizon == 50 and trace.origin == 0
    assert trace.up_time().tolist() == [19.5, 0, 50]
    assert trace.availability().tolist() == [0.39, 0, 1]
    assert [column.tolist() for column in trace.intervals(0)] == [[10, 30.5], [20, 40]]


def test_the_horizon_is_the_last_end_of_all_hosts(write):
    trace = read_avt(write("toy.avt", "a 1 0 50\nb 1 0 20\n"))
    assert trace.horizon == 50 and trace.availability().tolist() == [1.0, 0.4]


def test_repairs_are_counted_in_one_warning(write):
    path = write("toy.avt", "a 3 10 20 20 30 50 60\nb 1 5 5\nc 4 0 100 10 20 30 40 100.5 101\nd 2 8 9 1 2\n")
    with pytest.warns(TraceWarning) as records:
        trace = read_avt(path)
    assert [str(w.message) for w in records] == [
        f"{path}:1: 1 up intervals of 0 s, left out; 3 up intervals touching or overlapping another, merged "
        "(the first is at this line)"
    ]
    assert trace.offsets.tolist() == [0, 2, 2, 4, 6]
    assert trace.start.tolist() == [10, 50, 0, 100.5, 1, 8]
    assert trace.end.tolist() == [30, 60, 100, 101, 2, 9]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("a 1 5 4\n", 1, "an up interval of host a must not end before its start, got 5 to 4 s"),
        ("a 1 0 1\nb 2 0 1\n", 2, "host b must have 4 times, as n is 2, got 2"),
        ("a 1 0 x\n", 1, "field time 2 must be a number, got 'x'"),
        ("a_1 1 0 1_000\n", 1, "field time 2 must be a number, got '1_000'"),
        ("ä 1 0 ١٠\n", 1, "field time 2 must be a number, got '١٠'"),
        ("a 1 0 nan\n", 1, "times of host a must be finite and at most 1e+18 s, got 0.0 to nan"),
        ("a\n", 1, "n of host a must be a whole number >= 0, got nothing"),
        ("a -1\n", 1, "n of host a must be a whole number >= 0, got '-1'"),
        (f"a {'9' * 5000} 1 2\n", 1, "n of host a must be a whole number >= 0"),
        ("# x\na 0\n\na 0\n", 4, "host a must have one line, got a second (the first is line 2)"),
        ("# x\n\n", 1, "no hosts"),
        ("", 1, "no hosts"),
        ("a 1 0 1\nb\0 1 0 1\n", 2, "binary data"),
    ],
)
def test_faulty_lines_are_rejected_with_their_number(write, content, line, message):
    path = write("bad.avt", content)
    with pytest.raises(TraceFormatError) as excinfo:
        read_avt(path)
    assert str(excinfo.value).startswith(f"{path}:{line}: ") and message in str(excinfo.value)


def reference_merge(intervals):
    merged: list[list[float]] = []
    for start, end in sorted(intervals):
        if start == end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


interval = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(
    lambda pair: (pair[0] / 4, (pair[0] + pair[1]) / 4)
)


@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
@settings(max_examples=50)
@given(st.lists(st.lists(interval, max_size=8), min_size=1, max_size=6))
def test_repaired_intervals_match_the_reference_implementation(hosts):
    lines = [f"h{i} {len(host)} " + " ".join(f"{s} {e}" for s, e in host) for i, host in enumerate(hosts)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "toy.avt"
        path.write_text("\n".join(lines))
        trace = read_avt(path)
    assert len(trace) == len(hosts)
    for i, host in enumerate(hosts):
        start, end = trace.intervals(i)
        assert np.column_stack((start, end)).tolist() == reference_merge(host)


def test_a_real_desktop_trace_has_its_known_values(traces):
    trace = read_avt(traces / "microsoft99-a/microsoft-a.avt.gz")
    assert len(trace) == 25_832 and len(trace.start) == 263_853
    assert trace.horizon == 35 * 86_400
    assert (trace.up_time() == 0).sum() == 59
    assert trace.availability().mean() == pytest.approx(0.8122, abs=1e-4)
    assert np.median(trace.availability()) == pytest.approx(0.9583, abs=1e-4)


def test_a_real_server_trace_has_its_known_values(traces):
    with pytest.warns(TraceWarning, match="2 up intervals of 0 s"):
        trace = read_avt(traces / "websites02/web_sites.avt")
    assert len(trace) == 131 and len(trace.start) == 47_841
    assert trace.names[0] == "armedforces.nic.in"
