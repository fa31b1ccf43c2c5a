"""The summary tree: what it refuses, and the last instants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridcore.common.state import LATEST
from gridcore.fair_tree import summary_tree as tree
from tests._helpers.small_trees import BOTH, GRID, NEVER, NS, full, make, requests, tell
from tests.reference import summary_tree as reference


@BOTH
def test_the_longest_hold_off(module):
    one = make(module, leaves=4, hold_off=LATEST)
    assert [column.tolist() for column in one.ready([1], 5)] == [[], [1], [LATEST + 5]]


@BOTH
def test_the_last_instant(module):
    """There must be room for the time to hold off, and for what it takes to send 100 bytes."""
    one, last = make(module, hold_off=NS, rate=100.0), NEVER - 1 - 2 * NS
    for wrong in (-1, last + 1):
        for call, more in ((one.ready, ()), (one.report, (full(0), [1.0], [0.0]))):
            with pytest.raises(ValueError, match=rf"^now must be in 0\.\.{last} ns, got {wrong}$"):
                call([1], wrong, *more)
    assert [column.tolist() for column in one.ready([1], last)] == [[1], [], []]
    assert one.report([1], last, full(0), [1.0], [0.0])["since"].tolist() == [last]


OPTIONS = {"release": [0.0], "size": [4.0], "task_size": [1.0], "nbytes": 100}


REFUSED = [
    (lambda m, x: m.SummaryTree(GRID, [], **OPTIONS), ValueError, "speed must have at least one entry"),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0, 0.0], **OPTIONS),
        ValueError,
        r"speed\[1\] must be finite and > 0",
    ),
    (lambda m, x: m.SummaryTree(GRID, ["1"], **OPTIONS), TypeError, "^speed must hold real numbers"),
    *(
        (
            lambda m, x, name=name: m.SummaryTree(GRID, [1.0], **{**OPTIONS, name: ["1", "1"]}),
            TypeError,
            f"^{name} must hold real numbers",
        )
        for name in ("size", "task_size", "release")
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "task_size": [1.0, 0.0]}),
        ValueError,
        r"^task_size\[1\] must be finite and > 0, got 0.0",
    ),
    (lambda m, x: x.report([1], 0, full(0), ["1"], [0.0]), TypeError, "^minimum must hold real numbers"),
    (lambda m, x: m.SummaryTree("grid", [1.0], **OPTIONS), TypeError, "grid must be a SummaryGrid, got str"),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, rate=math.nan),
        ValueError,
        "rate, bound, hold_off and nbytes must be >= 0, got nan, 2.0, 0, 100",
    ),
    (lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, bound=-1), ValueError, "must be >= 0, got 0.0, -1.0"),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, rate=1e-300),
        ValueError,
        r"rate must allow a summary of 100 bytes within 2\*\*62 ns, got 1e-300",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, hold_off=LATEST + 1),
        ValueError,
        rf"^hold_off must be at most {LATEST} ns, got {LATEST + 1}$",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, rate=100 / (2**62 / 1e9)),  # 2**62 ns
        ValueError,
        r"rate must allow a summary of 100 bytes within 2\*\*62 ns, got 2.168404344971009e-08",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "size": [math.nan]}),
        ValueError,
        r"size\[0\] must",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "size": [1.0, 2.0]}),
        ValueError,
        "task_size must have as many entries as size, got 1 and 2",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "release": []}),
        ValueError,
        "release must have as many entries as size, got 0 and 1",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "release": [math.inf]}),
        ValueError,
        r"release\[0\] must",
    ),
    (
        lambda m, x: x.route(requests((1, 0, 1)), 0),
        ValueError,
        r"rows\[0\].node must be a router 0\.\.0, got 1",
    ),
    (
        lambda m, x: x.route(requests((-1, 0, 1)), 0),
        ValueError,
        r"rows\[0\].node must be a router 0\.\.0, got -1",
    ),
    (
        lambda m, x: x.route(requests((0, 2, 1)), 0),
        ValueError,
        r"rows\[0\].application must be in 0\.\.1, got 2",
    ),
    (
        lambda m, x: x.route(requests((0, 0, 1), (0, 0, 0)), 0),
        ValueError,
        r"rows\[1\].tasks must be in 1\.\.",
    ),
    (
        lambda m, x: x.route(requests((0, 0, 2**52)), 0),
        ValueError,
        r"rows\[0\].tasks must be .* got 45035996273",
    ),
    (lambda m, x: x.acknowledge(requests((3, 0, 1))), ValueError, r"rows\[0\].node must be in 0\.\.2, got 3"),
    (
        lambda m, x: x.receive(np.array([(1, 2, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 2 to 1, which is not its parent",
    ),
    (
        lambda m, x: x.receive(np.array([(0, 0, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 0 to 0, which is not its parent",
    ),
    (
        lambda m, x: x.receive(np.array([(0, 1, 10**6, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\].payload is not in use, got 1000000",
    ),
    (
        lambda m, x: x.receive(np.array([(-1, 0, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 0 to -1, which is not its parent",
    ),
    (
        lambda m, x: x.receive(np.array([(1, 3, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 3 to 1, which is not its parent",
    ),
    (
        lambda m, x: x.forget(np.array([(0, 1, 9, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"^rows\[0\].payload is not in use, got 9$",
    ),
    (lambda m, x: x.leave([2, 3]), ValueError, r"^nodes\[1\] must be in 0\.\.2, got 3$"),
    (lambda m, x: x.silence([0.5]), TypeError, "^nodes must hold integers, got dtype float64$"),
    (lambda m, x: x.reset([0.5]), TypeError, "^nodes must hold integers, got dtype float64$"),
    (lambda m, x: x.ready([3], 0), ValueError, r"nodes\[0\] must be in 0\.\.2, got 3"),
    (lambda m, x: x.report([-1], 0, full(0, 0), [], []), ValueError, r"nodes\[0\] must be in 0\.\.2, got -1"),
    (
        lambda m, x: x.report([1, 2], 0, full(0, 1), [1.0], [0.0]),
        ValueError,
        "must have one entry for each of the 2 leaves among nodes, got 1, 1 and 1",
    ),
    *(
        (
            lambda m, x, given=given: x.report([1], 0, given, [1.0], [0.0]),
            ValueError,
            r"^summaries must be uint32\[k, 3, 3, 3\]$",
        )
        for given in ([0], full(0).astype(np.int64), full(0)[0], full(0)[:, :2])
    ),
    (lambda m, x: x.report([1], 0, full(0), [], [0.0]), ValueError, "among nodes, got 1, 0 and 1"),
    (lambda m, x: x.report([1], 0, full(0), [1.0], []), ValueError, "among nodes, got 1, 1 and 0"),
    (lambda m, x: x.report([1], 0, full(0), [1.0], [math.nan]), ValueError, r"release\[0\] must be a number"),
    (lambda m, x: x.route(requests((0, 0, 1)), -1), ValueError, r"^now must be in 0\.\."),
    (lambda m, x: x.add_applications([0.0], [1.0], [0.0]), ValueError, r"^task_size\[0\] must be"),
    (
        lambda m, x: x.report([1], 0, full(0), [math.nan], [0.0]),
        ValueError,
        r"minimum\[0\] must be a number or \+inf",
    ),
    (lambda m, x: x.spread([3]), ValueError, r"nodes\[0\] must be in 0\.\.2, got 3"),
    (
        lambda m, x: x.take_spread(np.array([(1, 0, 1.0)], tree.SPREAD)),
        ValueError,
        r"rows\[0\].node must be a router 0\.\.0, got 1",
    ),
    (lambda m, x: x.known(3, 0), ValueError, r"node must be in 0\.\.2, got 3"),
    (lambda m, x: x.owed(-1), ValueError, r"node must be in 0\.\.2, got -1"),
    (lambda m, x: x.held([0, 3]), ValueError, r"nodes\[1\] must be in 0\.\.2, got 3"),
    (lambda m, x: x.look(1, 0, 0), ValueError, r"node must be a router 0\.\.0, got 1"),
    (lambda m, x: x.look(0, 2, 0), ValueError, r"^application must be in 0\.\.1, got 2$"),
]


@BOTH
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_bad_input_is_refused(module, call, error, message):
    one = make(module)
    with pytest.raises(error, match=message):
        call(module, one)
    assert one.payloads_in_use == one.below_window == one.above_window == 0
    assert one.owed(1) == one.owed(2) == 0


@pytest.mark.parametrize("call", [row[0] for row in REFUSED])
def test_refusals_use_the_same_words(call):
    words = []
    for module in (tree, reference):
        with pytest.raises((ValueError, TypeError)) as refused:
            call(module, make(module))
        words.append(str(refused.value))
    assert words[0] == words[1]


@BOTH
def test_rows_must_be_what_they_seem(module):
    one = make(module)
    with pytest.raises(ValueError, match="^Buffer dtype" if module is tree else "^rows must be a contiguous"):
        one.route(np.array([(0, 0, 1.0)], tree.SPREAD), 0)
    with pytest.raises(ValueError, match="contiguous"):
        one.route(requests(*[(0, 0, 1)] * 4)[::2], 0)
    with pytest.raises(
        TypeError, match="bytes-like" if module is tree else "^rows must be .* array, got list$"
    ):
        one.route([(0, 0, 0, 1, -1, 1.0, 0)], 0)
    rows = requests((0, 0, 1))
    rows.flags.writeable = False
    assert len(one.route(rows, 0)[1]) == 1
    sent, decisions = one.route(requests(), 0)
    assert (sent.dtype, decisions.dtype) == (tree.REQUEST, tree.DECISION)
    assert len(sent) == len(decisions) == 0


def test_a_state_that_is_refused_late_leaves_no_summary_in_use():
    """One that is in use and free at once would be free twice."""
    one = make(tree)
    tell(one, [1, 2], 50)
    state = {name: value for name, value in one.getstate().items() if name[:6] != "cells_"}
    cells = [each.copy() for each in one.getstate()["cells_0"]]
    assert one.payloads_in_use and cells
    other = make(tree)
    with pytest.raises(ValueError, match="cells_1"):
        other.setstate({**state, "cells_0": cells, "cells_1": [7]})
    assert other.payloads_in_use == 0


def test_row_types_are_the_same():
    for name in ("REQUEST", "SUMMARY", "SPREAD", "DECISION", "NEVER"):
        assert getattr(tree, name) == getattr(reference, name)
