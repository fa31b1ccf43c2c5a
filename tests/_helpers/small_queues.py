"""Queues of one or a few machines, and their contents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from gridcore.queues import task_queues as queues
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference import task_queues as reference

BOTH = pytest.mark.parametrize("module", [queues, reference])
NS = 10**9
GRID = SummaryGrid([0.25, 0.5, 1.0, 2.0, 4.0, 8.0], [0.5, 2.0, 8.0, 32.0], [0.5, 1.0, 3.0])
quarters = st.integers(1, 24).map(lambda k: k / 4.0)
TOLERANCES = st.sampled_from([0.0, 1e-9, 0.01, 0.5, 0.9])
sizes = st.integers(1, 40).map(float)
speeds = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0])
# Whole and half seconds often coincide with ends of tasks, other steps do not.
steps = st.integers(0, 8).map(lambda k: k * NS // 2) | st.integers(0, 5 * NS)


def assert_same_values(ours, expected):
    """Assert that values and types are equal."""
    assert type(ours) is type(expected)
    if isinstance(ours, tuple):
        assert len(ours) == len(expected)
        for a, b in zip(ours, expected, strict=True):
            assert_same_values(a, b)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected)
    else:
        assert ours == expected


def totals_of(store):
    return {name: column.tolist() for name, column in store.totals().items()}


def simple(module, speed=(1.0,), task_size=(1.0, 2.0), **options):
    store = module.TaskQueues(list(speed), **options)
    n = len(task_size)
    store.add_applications([0.0] * n, [4.0 * (i + 1) for i in range(n)], list(task_size))
    return store


def restored(store, fresh, applications):
    """Return `fresh` with the applications (release, size, task size, whose) and the state of `store`."""
    for row in applications:
        fresh.add_applications(*([value] for value in row))
    fresh.setstate(store.getstate())
    return fresh
