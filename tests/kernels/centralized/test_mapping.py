"""Mapping heuristics: equality with the reference, examples computed by hand, common properties, errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore import bind_earliest
from gridcore.centralized import mapping
from tests.reference import mapping as reference

IN_TURN = ("mct", "met", "olb", "switching", "kpb")
BATCH = ("min-min", "max-min", "sufferage")
# few values, so that ties are frequent, and some whose sums are rounded
TIMES = st.sampled_from([1.0, 1.0, 2.0, 3.0, 0.1, 1e6, 7.3])


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], list[int], np.ndarray[Any, Any]]:
    rows, machines = draw(st.integers(0, 6)), draw(st.integers(1, 7))
    etc = draw(st.lists(st.lists(TIMES, min_size=machines, max_size=machines), min_size=rows, max_size=rows))
    counts = draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
    ready = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5]), min_size=machines, max_size=machines))
    return np.array(etc).reshape(rows, machines), counts, np.array(ready)


@given(
    problems(),
    st.sampled_from(IN_TURN),
    st.sampled_from([1e-3, 20.0, 100 / 7, 50.0, 99.9, 100.0]),
    st.sampled_from([(0.6, 0.9), (0.0, 1.0), (0.2, 0.3)]),
    st.booleans(),
)
def test_map_in_turn_equals_reference(
    problem: Any, rule: Any, percent: float, limits: Any, uses_met: bool
) -> None:
    etc, counts, ready = problem
    low, high = limits
    results = []
    for kernel in (mapping, reference):
        ready_times = ready.copy()
        machine, now = kernel.map_in_turn(
            etc, counts, ready_times, rule, percent=percent, low=low, high=high, uses_met=uses_met
        )
        assert machine.dtype == np.int64
        results.append((machine.tolist(), now, ready_times.tolist()))
    assert results[0] == results[1]


@given(problems(), st.sampled_from(BATCH))
def test_map_batch_equals_reference(problem: Any, rule: Any) -> None:
    etc, counts, ready = problem
    results = []
    for kernel in (mapping, reference):
        ready_times = ready.copy()
        row, machine = kernel.map_batch(etc, counts, ready_times, rule)
        results.append((row.tolist(), machine.tolist(), ready_times.tolist()))
        assert np.bincount(row, minlength=len(counts)).tolist() == counts
    assert results[0] == results[1]


@pytest.mark.parametrize("rule", BATCH)
def test_map_batch_equals_reference_with_many_machines(rule: Any) -> None:
    rng = np.random.default_rng(1)
    etc, ready = np.outer(rng.uniform(1, 9, 60), rng.uniform(1, 3, 37)), rng.uniform(0, 9, 37)
    counts, other = rng.integers(0, 4, 60), ready.copy()
    actual = mapping.map_batch(etc, counts, ready, rule)
    expected = reference.map_batch(etc, counts, other, rule)
    assert [column.tolist() for column in actual] == [column.tolist() for column in expected]
    assert ready.tolist() == other.tolist()


@given(problems(), st.sampled_from(BATCH), st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_machines_of_a_kind_are_mapped_like_single_machines(problem: Any, rule: Any, kind: list[int]) -> None:
    """Times are whole numbers, whose sums are exact."""
    etc, counts, _ = problem
    etc = np.ceil(etc)
    kind = [k % etc.shape[1] for k in kind]
    begin = np.arange(len(kind)) % 3 * 2.0
    results = []
    for assign in (
        lambda ready_times: mapping.map_batch(etc, counts, ready_times, rule, kind=kind),
        lambda ready_times: reference.map_batch(etc, counts, ready_times, rule, kind=kind),
        lambda ready_times: mapping.map_batch(etc[:, kind], counts, ready_times, rule),
    ):
        ready_times = begin.copy()
        row, machine = assign(ready_times)
        results.append(
            (sorted(zip(row.tolist(), machine.tolist(), strict=True)), ready_times.tolist(), row.tolist())
        )
    assert results[0] == results[1] and results[0][:2] == results[2][:2]


@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0, 7.0]), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=8, max_size=8),
    st.integers(0, 40),
)
def test_equal_tasks_are_mapped_as_by_bind_earliest(
    speeds: list[float], begins: list[int], tasks: int
) -> None:
    """All rules that minimize the completion time, on one row in whole ns."""
    speed, free_at = np.array(speeds), np.array(begins[: len(speeds)], np.int64)
    etc, ready = np.rint(42e-9 / speed * 1e9)[None], free_at.astype(np.float64)
    bound = bind_earliest(free_at, speed, 42e-9, tasks, 0)
    for assign in (
        lambda ready_times: mapping.map_in_turn(etc, [tasks], ready_times, "mct")[0],
        *(
            lambda ready_times, rule=rule: mapping.map_batch(etc, [tasks], ready_times, rule)[1]
            for rule in BATCH
        ),
    ):
        ready_times = ready.copy()
        assert np.bincount(assign(ready_times), minlength=len(speeds)).tolist() == bound.tolist()
        assert ready_times.tolist() == free_at.tolist()


GOOD: dict[str, Any] = {"etc": [[1.0, 2.0]], "counts": [1], "ready": np.zeros(2), "rule": None}
FROZEN = np.zeros(2)
FROZEN.flags.writeable = False
WRONG = [
    ({"etc": [1.0, 2.0]}, ValueError, "etc must have two dimensions, got 1"),
    ({"etc": [[1.0, 0.0]]}, ValueError, r"etc\[0, 1\] must be finite and > 0, got 0.0"),
    ({"etc": [[1, 0]]}, ValueError, r"etc\[0, 1\] must be finite and > 0, got 0.0"),
    ({"etc": [[1.0, np.nan]]}, ValueError, r"etc\[0, 1\] must be finite and > 0, got nan"),
    ({"etc": [[1.0, np.inf]]}, ValueError, r"etc\[0, 1\] must be finite and > 0, got inf"),
    ({"etc": np.zeros((1, 0)), "ready": np.zeros(0)}, ValueError, "ready must have at least one entry"),
    ({"counts": [1, 1]}, ValueError, "counts must have as many entries as etc, got 2 and 1"),
    ({"counts": [-1]}, ValueError, r"counts\[0\] must be in 0..140737488355327, got -1"),
    ({"counts": [2**47]}, ValueError, r"counts\[0\] must be in 0..140737488355327, got 140737488355328"),
    ({"etc": [[1.0]] * 2, "counts": [2**46] * 2, "ready": np.zeros(1)}, ValueError, "the sum of counts"),
    ({"counts": [1.5]}, TypeError, "counts"),
    ({"ready": [0.0, 0.0]}, TypeError, "ready must be a float64 array"),
    ({"ready": np.zeros(2, int)}, TypeError, "ready must be a float64 array"),
    ({"ready": FROZEN}, ValueError, "ready must be contiguous, aligned and writable"),
    ({"ready": np.zeros((1, 2))}, ValueError, "ready must have one dimension, got 2"),
    ({"ready": np.zeros(3)}, ValueError, "ready must have as many entries as a row of etc, got 3 and 2"),
    ({"ready": np.array([0.0, -1.0])}, ValueError, r"ready\[1\] must be finite and >= 0, got -1.0"),
    ({"rule": "best"}, ValueError, "rule must be one of .*, got 'best'"),
]
WRONG_IN_TURN = [
    ({"percent": 0.0}, "percent must be > 0 and <= 100, got 0.0"),
    ({"percent": 101.0}, "percent must be > 0 and <= 100, got 101.0"),
    ({"low": 0.9, "high": 0.6}, "low and high must satisfy 0 <= low < high <= 1, got 0.9 and 0.6"),
    ({"low": 0.9}, "low and high must satisfy 0 <= low < high <= 1, got 0.9 and 0.9"),
    ({"high": 1.5}, "low and high must satisfy 0 <= low < high <= 1, got 0.6 and 1.5"),
    ({"high": np.nan}, "low and high must satisfy 0 <= low < high <= 1, got 0.6 and nan"),
]


@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=str)
def test_wrong_arguments_are_rejected(change: Any, error: Any, message: str) -> None:
    for function, rule in (("map_in_turn", "mct"), ("map_batch", "min-min")):
        with pytest.raises(error, match=message):
            getattr(mapping, function)(**{**GOOD, "rule": rule, **change})


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ([0, 2], ValueError, "kind[1] must be in 0..1, got 2"),
        ([0, 1, 1], ValueError, "ready must have as many entries as kind, got 2 and 3"),
        ([0.0, 1.0], TypeError, "kind must hold integers, got dtype float64"),
    ],
)
def test_wrong_kinds_are_rejected(kind: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        mapping.map_batch(**{**GOOD, "rule": "min-min", "kind": kind})


@pytest.mark.parametrize(("change", "message"), WRONG_IN_TURN, ids=str)
def test_wrong_parameters_are_rejected(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mapping.map_in_turn(**{**GOOD, "rule": "kpb", **change})


def test_no_tasks_give_an_empty_mapping() -> None:
    for kernel in (mapping, reference):
        assert kernel.map_in_turn(np.zeros((0, 0)), [], np.zeros(0), "mct", uses_met=True)[1] is True
        assert [len(item) for item in kernel.map_batch(np.ones((2, 3)), [0, 0], np.zeros(3), "min-min")] == [
            0,
            0,
        ]
