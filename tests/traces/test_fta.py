"""Failure Trace Archive traces: exact values, repairs, invalid files, and the real trace."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.traces import read_fta

HEAD = (
    "# event_id component_id node_id platform_id node_name event_type event_start_time event_stop_time why\n"
)
NODES = """\
# node_id platform_id node_name
   10\t 5\t ten\t NULL
    2\t 5\t two words\t NULL
   11\t 5\t never
"""


def events(*rows: tuple[float, ...]) -> str:
    """Return a trace of rows (node, type, start, stop[, component])."""
    lines = [
        f"  0\t {(*row, 0)[4]}\t {row[0]}\t 5\t x\t {row[1]}\t {row[2]}\t{row[3]}\t NULL" for row in rows
    ]
    return HEAD + "\n".join(lines) + "\n"


TOY = events(
    (10, 1, 1000, 1100), (10, 0, 1100, 1150), (10, 1, 1150, 1200), (2, 0, 1050, 1060), (2, 1, 1060.5, 1300)
)


@pytest.mark.parametrize("name", ["event_trace.tab", "event_trace.tab.gz"])
def test_a_small_trace_is_read_exactly(write, name):
    path = write(name, TOY)
    write("node.tab", NODES)
    for place in (path, path.parent):
        trace = read_fta(place)
        assert trace.names == ("two words", "ten", "never")
        assert trace.origin == 1000 and trace.horizon == 300
        assert trace.offsets.tolist() == [0, 1, 3, 3]
        assert trace.start.tolist() == [60.5, 0, 150] and trace.end.tolist() == [300, 100, 200]
        assert trace.first.tolist() == [50, 0, 300]
        assert trace.availability() == pytest.approx([239.5 / 250, 0.5, 0])


def test_columns_may_be_separated_by_blanks_and_a_header_needs_no_hash(write):
    rows = [line.replace("\t", " ") for line in TOY.removeprefix("# ").splitlines()]
    path = write("event_trace.tab", "\n".join(rows))
    assert read_fta(path).start.tolist() == read_fta(write("b/event_trace.tab", TOY)).start.tolist()


def test_nodes_are_named_by_their_ids_without_a_node_table(write):
    assert read_fta(write("event_trace.tab", TOY)).names == ("2", "10")


def test_repairs_are_counted_in_one_warning(write):
    rows = [(1, 1, 0, 10), (1, 0, 10, 10), (1, 1, 10, 20), (1, 7, 20, 30), (1, 1, 30, 30), (1, 1, 25, 40, 1)]
    path = write("event_trace.tab", events(*rows))
    with pytest.warns(TraceWarning) as records:
        trace = read_fta(path)
    assert [str(w.message) for w in records] == [
        f"{path}:4: 1 up intervals of 0 s, left out; 1 up intervals touching or overlapping another, merged; "
        "1 events of types other than 0 and 1, taken as down; 1 events of further components, left out "
        "(the first is at this line)"
    ]
    assert trace.start.tolist() == [0] and trace.end.tolist() == [20] and trace.horizon == 30


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (HEAD + "0\t0\t1\t5\tx\t1\t0\n", 2, "a line must have at least 8 columns separated by tabs, got 7"),
        (events((1, 1, 0, 10), (1, 1, "NULL", 10)), 3, "field event_start_time must be a number, got 'NULL'"),
        (
            events((1, 1, 0, 10), (1, 1, 20, "inf")),
            3,
            "field event_stop_time must be a finite number, got 'inf'",
        ),
        (events((1, 1.5, 0, 10)), 2, "field event_type must be a whole number, got '1.5'"),
        (events((1, 1, 20, 10)), 2, "an event must not stop before its start, 20 s, got 10 s"),
        (HEAD, 1, "no events"),
        (b"\x00\x01", 1, "binary data"),
    ],
)
def test_faulty_lines_are_rejected_with_their_number(write, content, line, message):
    path = write("event_trace.tab", content)
    with pytest.raises(TraceFormatError) as excinfo:
        read_fta(path)
    assert str(excinfo.value).startswith(f"{path}:{line}: ") and message in str(excinfo.value)


def test_carriage_returns_within_lines_are_rejected(write):
    expected = "event_trace.tab:2: a line must end with a newline, got a carriage return within the line"
    row = "0\t0\t10\t5\tx\t1\t1000\t1100\tNULL"
    with pytest.raises(TraceFormatError, match=expected):
        read_fta(write("event_trace.tab", f"{HEAD}{row}\r{row}\r").parent)


def test_a_faulty_node_table_and_an_empty_folder_are_rejected(write, tmp_path):
    with pytest.raises(TraceFormatError, match=f"^{tmp_path}: no event_trace"):
        read_fta(tmp_path)
    write("event_trace.tab", TOY)
    write("node.tab", "# node_id\nx\t5\tname\n")
    with pytest.raises(TraceFormatError, match=r"node\.tab:2: field node_id must be a number, got 'x'"):
        read_fta(tmp_path)


def test_a_sample_of_a_real_trace_is_read(traces):
    trace = read_fta(traces / "fixtures/gridsim_fta/fta_tab")
    assert trace.names == ("0", "1", "2") and trace.horizon == 2000
    assert trace.up_time().tolist() == [1350, 1750, 1100]


def test_a_real_trace_has_its_known_values(traces):
    with pytest.warns(TraceWarning, match="7 up intervals of 0 s, left out; 18 up intervals touching"):
        trace = read_fta(traces / "g5k06")
    assert len(trace) == 1288 and len(trace.start) == 294_293
    assert trace.names[:2] == ("G1/site1/c1/node1", "G1/site1/c1/node2")
    assert trace.origin == 1_115_811_139 and trace.horizon == 47_354_465
    assert (trace.up_time() == 0).sum() == 3 and len(np.unique(trace.first)) == 493
    observed = (trace.horizon - trace.first).sum()
    assert trace.up_time().sum() / observed == pytest.approx(0.8139, abs=1e-4)
