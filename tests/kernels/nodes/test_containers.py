"""Containers of node programs, compared with Python's own."""

from __future__ import annotations

import copy
import heapq
import operator
import pickle
import sys
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.nodes.containers import Fifo, Heap, IntMap, IntSet, rebuild
from gridcore.nodes.rows import allocated_bytes
from gridcore.nodes.shared_array import SharedArray

NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-5, 40)
REALS = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.5])


@given(st.lists(st.tuples(NUMBERS, REALS) | st.none(), max_size=200))
def test_a_queue_returns_rows_in_the_order_of_pushes(steps) -> None:
    queue, reference = Fifo(a=int, b=float), deque()
    for row in steps:
        if row is not None:
            queue.push(*row)
            reference.append(row)
        elif reference:
            assert queue.pop() == reference.popleft()
        else:
            with pytest.raises(IndexError, match="empty Fifo"):
                queue.pop()
        assert (len(queue), bool(queue)) == (len(reference), bool(reference))
    assert list(queue) == list(reference)
    assert [queue[k] for k in range(-len(queue), len(queue))] == [*reference, *reference]
    with pytest.raises(IndexError):
        queue[len(queue)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["push", "push", "push", "pop", "set", "delete"]), st.integers(0, 40), NUMBERS
        ),
        max_size=200,
    )
)
def test_rows_of_a_queue_can_be_replaced_and_removed(steps) -> None:
    queue, reference = Fifo(a=int, b=float), deque()
    for step, k, number in steps:
        index_ = k % len(reference) - (len(reference) if k % 2 else 0) if reference else 0
        if step == "push":
            queue.push(number, 0.5)
            reference.append((number, 0.5))
        elif not reference:
            continue
        elif step == "pop":
            assert queue.pop() == reference.popleft()
        elif step == "set":
            queue[index_] = reference[index_] = (number, 1.5)
        else:
            del queue[index_], reference[index_]
        assert list(queue) == list(reference)
    for k in (len(queue), -len(queue) - 1):
        with pytest.raises(IndexError, match="Fifo index out of range"):
            queue[k] = (1, 1.0)
        with pytest.raises(IndexError, match="Fifo index out of range"):
            del queue[k]


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, -0.0, 1.5]) | REALS, st.integers(0, 3)) | st.none(), max_size=200
    )
)
def test_a_heap_returns_the_least_row(steps) -> None:
    heap, reference = Heap(a=float, b=int), []
    for row in steps:
        if row is not None:
            heap.push(*row)
            heapq.heappush(reference, (row[0] + 0.0, row[1]))
        elif reference:
            assert heap[0] == reference[0]
            assert heap.pop() == heapq.heappop(reference)
        assert len(heap) == len(reference)
    rest = pickle.loads(pickle.dumps(heap))
    assert [rest.pop() for _ in range(len(rest))] == sorted(reference)


KEYS = st.integers(-3, 12) | st.integers(-200, 200) | NUMBERS


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "add", "discard", "pop", "check", "clear"]), KEYS),
        max_size=300,
    )
)
def test_sets_and_maps_keep_the_order_of_insertion(steps) -> None:
    keys, values, reference = IntSet(), IntMap(a=int, b=float), {}
    for step, key in steps:
        if step == "add":
            keys.add(key)
            values[key] = (key, 0.5)
            reference[key] = (key, 0.5)
        elif step == "discard":
            keys.discard(key)
            assert values.get(key, None) == reference.pop(key, None)
            if key in values:
                del values[key]
        elif step == "pop" and reference:
            oldest = next(iter(reference))
            assert keys.pop() == oldest
            assert values.pop(oldest) == reference.pop(oldest)
        elif step == "clear" and key % 5 == 0:
            keys.clear()
            values.clear()
            reference.clear()
        assert (len(keys), len(values), bool(keys)) == (len(reference), len(reference), bool(reference))
        assert (key in keys, key in values) == (key in reference, key in reference)
    assert list(keys) == list(values) == list(reference)
    assert {key: values[key] for key in values} == dict(values.items()) == reference
    assert [keys[k] for k in range(-len(keys), len(keys))] == [*reference, *reference]
    for same in (copy.deepcopy(keys), pickle.loads(pickle.dumps(values))):
        assert list(same) == list(reference)


def test_containers_return_their_memory() -> None:
    in_use, allocated = allocated_bytes()
    held = [Fifo(a=int) for _ in range(1000)]
    assert allocated_bytes() == (in_use, allocated) and sys.getsizeof(held[0]) <= 64
    for queue in held:
        for k in range(100):
            queue.push(k)
    assert allocated_bytes()[0] >= in_use + 1000 * 800
    for queue in held[:500]:
        while queue:
            queue.pop()
    del held
    assert allocated_bytes()[0] == in_use
    if in_use == 0:
        assert allocated_bytes()[1] <= 2**21


@pytest.mark.parametrize(
    ("container", "members"),
    [(Fifo(a=int), iter), (IntSet(), iter), (IntMap(a=int), iter), (IntMap(a=int), IntMap.items)],
)
def test_a_container_must_not_change_during_iteration(container, members) -> None:
    def add(key: int) -> None:
        if isinstance(container, IntMap):
            container[key] = 1
        else:
            (container.push if isinstance(container, Fifo) else container.add)(key)

    for key in range(3):
        add(key)
    with pytest.raises(RuntimeError, match="changed during iteration"):
        for k, _ in enumerate(members(container)):
            add(k + 10)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda: Fifo(), TypeError, "Fifo must have 1..16 columns"),
        (lambda: Heap(a=str), TypeError, "column a of Heap must be int or float"),
        (lambda: Fifo(a=int, b=float).push(1), TypeError, r"Fifo.push requires 2 values \(a, b\), got 1"),
        (
            lambda: operator.setitem(Fifo(a=int), 0, (1, 2)),
            TypeError,
            r"a row of a Fifo requires 1 values \(a\)",
        ),
        (lambda: Fifo(a=int).push(1.0), TypeError, "a must be a whole number of 64 bits, got 1.0"),
        (lambda: Fifo(a=float).push("1"), TypeError, "a must be a number in the range of a float, got '1'"),
        (lambda: Fifo(a=int).push(2**63), OverflowError, "a must be a whole number of 64 bits, got 9"),
        (lambda: Heap(a=float).push(float("nan")), ValueError, "nan"),
        (lambda: IntSet().add(-(2**63)), OverflowError, "key must be above"),
        (lambda: IntSet().remove(7), KeyError, "7"),
        (lambda: IntMap(a=int)[7], KeyError, "7"),
        (lambda: IntMap(a=int).pop(7), KeyError, "7"),
        (lambda: iter(Heap(a=int)), TypeError, "iteration"),
        (lambda: IntSet(a=int), TypeError, "^IntSet does not support columns"),
        (lambda: rebuild(Fifo, {"a": int}, np.zeros((1, 2), np.int64)), ValueError, "rows must have 1 words"),
        (lambda: rebuild(IntSet, {}, np.array([[-(2**63)]])), ValueError, "keys"),
    ],
)
def test_wrong_use_of_a_container_is_an_error(action, error, message) -> None:
    with pytest.raises(error, match=message):
        action()


def test_columns_of_a_container_accept_numpy_numbers() -> None:
    queue = Fifo(a=int, b=float)
    queue.push(np.int32(3), np.float32(0.5))
    queue.push(np.bool_(True), 2)
    assert list(queue) == [(3, 0.5), (1, 2.0)]
    assert [type(value) for value in queue[1]] == [int, float]
    assert repr(queue) == "Fifo(a=int, b=float)[(3, 0.5), (1, 2.0)]"


def test_only_read_only_arrays_without_another_owner_are_shared() -> None:
    shared, numbers = SharedArray(np.zeros(0)), np.arange(3.0)
    shared.set(numbers)
    numbers[0] = 7.0
    assert shared.values.tolist() == [0.0, 1.0, 2.0]
    view = numbers.view()
    view.flags.writeable = False
    shared.set(view)
    numbers[0] = 8.0
    assert shared.values.tolist() == [7.0, 1.0, 2.0]
    received = np.ones(5)
    received.flags.writeable = False
    shared.set(received)
    assert shared.values is received and len(shared) == 5
    with pytest.raises(ValueError, match="read-only"):
        shared.values[0] = 1.0


def test_arrays_of_other_types_are_rejected() -> None:
    for values in ([1.0], np.zeros((1, 1)), np.zeros(1, np.int32)):
        with pytest.raises(TypeError, match=r"a SharedArray must be int64\[n\] or float64\[n\], got"):
            SharedArray(values)  # type: ignore[arg-type]
    for other in (np.zeros(1), np.zeros((1, 1), np.int64), 3):
        with pytest.raises(TypeError, match=r"values of SharedArray.set must be int64\[n\], got"):
            SharedArray(np.arange(2)).set(other)
