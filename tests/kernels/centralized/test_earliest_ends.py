"""Binding to the earliest end: equality with the reference implementation, brute force, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.centralized import earliest_ends as central
from tests.reference import earliest_ends as reference

NEVER = 2**63 - 1

# Few values, so that ties are frequent; Mflop/s and Mflop such that tasks take nanoseconds up to minutes.
SPEEDS = st.lists(st.sampled_from([1.0, 2.0, 2.0, 3.0, 1000.0, 1234.5]), min_size=1, max_size=7)
SIZES = st.sampled_from([1e-9, 2e-9, 3e-9, 6e-9, 1.0, 10.0])


@given(
    SPEEDS,
    SIZES,
    st.one_of(st.integers(0, 20), st.integers(0, 3000)),
    st.integers(0, 20),
    st.data(),
)
def test_bind_earliest_equals_reference(
    speeds: list[float], size: float, tasks: int, now: int, data: st.DataObject
) -> None:
    given_free = data.draw(st.lists(st.integers(0, 40), min_size=len(speeds), max_size=len(speeds)))
    free, reference_free = np.array(given_free), np.array(given_free)
    bound = central.bind_earliest(free, speeds, size, tasks, now)
    assert bound.sum() == tasks
    assert bound.tolist() == reference.bind_earliest(reference_free, speeds, size, tasks, now).tolist()
    assert free.tolist() == reference_free.tolist()


@given(
    st.lists(st.floats(100.0, 5000.0), min_size=1, max_size=30),
    st.floats(1.0, 1e5),
    st.integers(0, 2000),
    st.integers(0, 10**12),
    st.data(),
)
def test_bind_earliest_equals_reference_with_real_speeds(
    speeds: list[float], size: float, tasks: int, now: int, data: st.DataObject
) -> None:
    ends = st.integers(0, 2 * 10**12)
    given_free = data.draw(st.lists(ends, min_size=len(speeds), max_size=len(speeds)))
    free, reference_free = np.array(given_free), np.array(given_free)
    bound = central.bind_earliest(free, speeds, size, tasks, now)
    assert bound.tolist() == reference.bind_earliest(reference_free, speeds, size, tasks, now).tolist()
    assert free.tolist() == reference_free.tolist()


@given(SPEEDS, st.lists(st.tuples(SIZES, st.integers(0, 7), st.integers(0, 9)), max_size=12), st.data())
def test_indexed_bindings_equal_a_scan_of_all_machines(
    speeds: list[float], steps: list[tuple[float, int, int]], data: st.DataObject
) -> None:
    """Machines become idle between calls, and sometimes fail and recover."""
    kernel, twin = central.EarliestEnds(speeds), reference.EarliestEnds(speeds)
    free, reference_free, now = np.zeros(len(speeds), np.int64), np.zeros(len(speeds), np.int64), 0
    for k, (size, tasks, later) in enumerate(steps):
        now += later
        if k % 4 == 0:
            up = data.draw(st.lists(st.booleans(), min_size=len(speeds), max_size=len(speeds)))
            up[k % len(speeds)] = True
            for one, free_times in ((kernel, free), (twin, reference_free)):
                free_times[np.logical_not(up)] = now
                one.restart(free_times, up, now)
        bound = kernel.bind(free, size, tasks, now)
        assert bound.tolist() == twin.bind(reference_free, size, tasks, now).tolist()
        assert free.tolist() == reference_free.tolist()


def test_tasks_without_a_machine_are_rejected() -> None:
    ends, free = central.EarliestEnds([1.0, 1.0]), np.zeros(2, np.int64)
    for wrong, message in (
        (lambda: ends.bind(free, 1.0, 1, 0), "up must be True for at least one machine"),
        (lambda: ends.restart(free, [True], 0), "up must have as many entries as machines, got 1 and 2"),
        (lambda: ends.restart(free, [True, True], -1), "now must be >= 0 ns, got -1"),
        (
            lambda: ends.bind(free[:1], 1.0, 1, 0),
            "free_at must have as many entries as machines, got 1 and 2",
        ),
        (lambda: ends.bind(free, -1.0, 1, 0), "task_size must be finite and > 0"),
        (lambda: ends.bind(free, 1.0, 2**31, 0), "n_tasks must be in 0..2147483647"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    ends.restart(free, [False, True], 5)
    with pytest.raises(ValueError, match="^now"):
        ends.bind(free, 1.0, 1, 4)
    with pytest.raises(OverflowError, match="a task ends after the last instant"):
        ends.bind(free, 1e300, 1, 5)


def test_bulk_binding_of_a_billion_tasks_is_exact() -> None:
    """The bulk is exact: every end with a task is before every end without one."""
    rng = np.random.default_rng(1)
    speeds = rng.uniform(1000, 3000, 50)
    free = rng.integers(0, 10**13, 50)
    before = np.maximum(free, 5)
    bound = central.bind_earliest(free, speeds, 100.0, 10**9, 5)
    length = np.rint(100.0 / speeds * 1e9).astype(np.int64)
    assert bound.sum() == 10**9
    assert (free == before + bound * length).all()
    assert free.max() <= (free + length).min()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"speed": [0.0, 1.0]}, ValueError, r"^speed\[0\]"),
        ({"speed": [1.0]}, ValueError, "^free_at"),
        ({"speed": [], "free_at": np.zeros(0, np.int64)}, ValueError, "^speed"),
        ({"task_size": -1.0}, ValueError, "^task_size"),
        ({"task_size": 0.0}, ValueError, "^task_size"),
        ({"task_size": float("inf")}, ValueError, "^task_size"),
        ({"n_tasks": -1}, ValueError, "^n_tasks"),
        ({"n_tasks": 1.5}, TypeError, "int"),
        ({"now": -1}, ValueError, "^now"),
        ({"free_at": np.array([0, -3])}, ValueError, r"^free_at\[1\]"),
        ({"free_at": [0, 0]}, TypeError, "^free_at"),
        # 9.2e18 ns are too long for a task, but every number of tasks below 2**63 is valid
        ({"task_size": 9.2e9}, OverflowError, "^a task ends after the last instant"),
        ({"task_size": 1e9, "n_tasks": 2**63 - 1}, OverflowError, "^a task ends after the last instant"),
        (
            {"speed": [1e-3, 1e-3], "task_size": 9e6, "n_tasks": 3},
            OverflowError,
            "^a task ends after the last instant",
        ),
    ],
)
def test_invalid_arguments_of_bind_earliest_are_rejected(changes: Any, error: Any, message: str) -> None:
    good = {"free_at": np.zeros(2, np.int64), "speed": [1.0, 1.0], "task_size": 1.0, "n_tasks": 1, "now": 0}
    with pytest.raises(error, match=message):
        central.bind_earliest(**{**good, **changes})
    assert good["free_at"].tolist() == [0, 0]  # type: ignore[attr-defined]
