"""Sizes of nodes from tables of sacct: lists of nodes, shared nodes, and faults."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.traces import read_nodes
from gridsim.traces.info import info
from gridsim.traces.nodes import _most_at_once, node_names

HEAD = "JobID|State|Submit|Start|End|ElapsedRaw|NNodes|NCPUS|AllocTRES|NodeList"


def job(number, start, end, nodes, cpus, memory, hosts, state="COMPLETED"):
    return f"{number}|{state}|0|{start}|{end}|1|{nodes}|{cpus}|cpu={cpus},mem={memory},node={nodes}|{hosts}"


def test_nodes_are_as_large_as_what_jobs_had_of_them_at_once(write):
    path = write(
        "sacct.txt",
        "\n".join(
            [
                HEAD,
                job(1, 10, 20, 2, 8, "16G", "n[01-02]"),
                job("1.batch", 10, 20, 1, 99, "99G", "n01"),
                job(2, 15, 30, 1, 3, "2G", "n01"),
                job(3, 20, 40, 1, 4, "1G", "n01"),  # begins when job 1 ends
                job(4, 50, "Unknown", 1, 2, "1G", "n02", "RUNNING"),
                job(5, 90, 95, 1, 1, "1G", "n02"),
                job(6, "Unknown", 95, 1, 64, "", "None assigned", "CANCELLED"),
                job(7, 1, 2, 3, 7, "", "g1,n02,n01"),  # an uneven share is rounded down
            ]
        ),
    )
    nodes = read_nodes(path)
    assert nodes.name == ("g1", "n01", "n02") and len(nodes) == 3
    assert nodes.cores.tolist() == [2, 7, 4]
    assert nodes.memory[1:].tolist() == [10 * 2**30, 8 * 2**30] and math.isnan(nodes.memory[0])
    assert nodes.jobs.tolist() == [1, 4, 4]
    with pytest.warns(TraceWarning):
        facts = info(path)["nodes"]
    memory = {"memory_median_bytes": 9 * 2**30, "memory_max_bytes": 10 * 2**30}
    assert facts == {"count": 3, "cores": 13, "cores_median": 4, "cores_max": 7, **memory}
    without = write("plain.txt", "JobID|State|Submit|Start|End|NCPUS\n1|COMPLETED|0|1|2|3\n")
    assert "nodes" not in info(without)
    with pytest.raises(TraceFormatError, match=r"the columns must include nodes \(NodeList\)"):
        read_nodes(without)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[08-10,1],x", ["n08", "n09", "n10", "n1", "x"]),
        ("r[1-2]n[0,3]-ib", ["r1n0-ib", "r1n3-ib", "r2n0-ib", "r2n3-ib"]),
        ("None assigned", []),
        ("", []),
        ("n[3-2]", []),
    ],
)
def test_lists_of_nodes_are_expanded(text, names):
    assert node_names(text) == names


@pytest.mark.parametrize("text", ["n[1", "n1]", "n[a]", "n[]", "n[0-99999999]", "a[1-2000]b[1-2000]"])
def test_faulty_lists_are_errors_with_their_line(write, text):
    lines = [HEAD, job(1, 1, 2, 1, 1, "1G", "n1"), job(2, 1, 2, 1, 1, "1G", text)]
    path = write("sacct.txt", "\n".join(lines))
    with pytest.raises(TraceFormatError, match=r"sacct.txt:3: field NodeList must be a list of "):
        read_nodes(path)


def test_a_table_without_nodes_is_an_error(write):
    path = write("sacct.txt", "\n".join([HEAD, job(1, "Unknown", 2, 1, 1, "1G", "None assigned")]))
    with pytest.raises(TraceFormatError, match="no job that has started has nodes"):
        read_nodes(path)


ROWS = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 5), st.integers(1, 4))


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, max_size=12))
def test_most_at_once_is_that_of_all_instants(rows):
    node, start, length, amount = np.array(rows, float).reshape(-1, 4).T
    most = _most_at_once(node.astype(int), start, start + length, amount, 3)
    for k in range(3):
        at_once = [sum(a for n, s, d, a in rows if n == k and s <= time < s + d) for time in range(16)]
        assert most[k] == max(at_once)
