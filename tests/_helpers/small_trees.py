"""Trees of two leaves, or some more, and what is asked of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridcore.fair_tree import summary_tree as tree
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference import summary_tree as reference

BOTH = pytest.mark.parametrize("module", [tree, reference])
NEVER, TOP = tree.NEVER, 2**32 - 1
NS = 10**9
GRID = SummaryGrid([0.5, 1.0, 2.0], [1.0, 4.0, 16.0], [0.5, 1.0, 3.0])


def requests(*rows):
    """(node, application, tasks), climbing, or with a number from the parent as fourth."""
    full = [(node, node, i, n, *(rest or (-1,)), math.nan, 0) for node, i, n, *rest in rows]
    return np.array(full, tree.REQUEST)


def same(ours, expected, but=()):
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    if ours.dtype.names:
        for name in ours.dtype.names:
            if name not in but:
                np.testing.assert_array_equal(ours[name], expected[name], err_msg=name)
    else:
        np.testing.assert_array_equal(ours, expected)


def make(module, leaves=2, **options):
    times = {"release": [0.0, 0.0], **options}
    return module.SummaryTree(
        GRID, [1.0] * leaves, size=[4.0, 16.0], task_size=[1.0, 3.0], nbytes=100, **times
    )


def full(value, count=1):
    return np.full((count, *GRID.shape), value, np.uint32)


def tell(one, nodes, value, least=1.0, now=0):
    """Leaves report `value` everywhere, and their parents hear it."""
    rows = one.report(nodes, now, full(value, len(nodes)), [least] * len(nodes), [0.0] * len(nodes))
    one.receive(rows)
    return rows


def spoilt(rows, name, value):
    rows[name] = value
    return rows
