"""Waiting times of central schedulers equal those of the reference implementation."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.nodes.waiting_times import StaleTimes, WaitingTimes, count_idle, idle_worker
from tests.schedulers.probes import plain_waiting_times as reference

WORKERS, BEGIN, FETCH = 5, 2, 0.0625
# powers of two, so that sums and differences of times are exact, and ties are ties
SIZES = st.sampled_from([0.5, 1.0, 2.0, 8.0])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "turn", "forget"]), st.integers(0, WORKERS - 1), SIZES, st.integers(1, 7)
    ),
    max_size=60,
)


def place(books: Any, first: int, tasks: int, *arguments: Any) -> list[int]:
    """Return the workers that records choose for tasks."""
    workers = np.empty(tasks, np.int64)
    books.place(first, *arguments, workers)
    return workers.tolist()  # type: ignore[no-any-return]


@given(STEPS)
def test_tasks_go_to_the_least_waiting_times(steps: list[tuple[str, int, float, int]]) -> None:
    books = WaitingTimes(FETCH, WORKERS)
    plain = reference.WaitingTimes(WORKERS, FETCH)
    now, queues = 0.0, [[] for _ in range(WORKERS)]  # type: ignore[var-annotated]
    for action, u, size, count in steps:
        now += 0.25 * count
        books = WaitingTimes(
            FETCH, WORKERS, books.contents
        )  # restore it from its state, as a checkpoint does
        if action == "place":
            workers = place(books, BEGIN * (u % 2), count, size, now)
            assert workers == plain.place(BEGIN * (u % 2), count, size, now)
            for worker in workers:
                queues[worker].append(size)
        elif action == "forget":
            books.forget(u, 1.0)
            plain.forget(u)
            queues[u] = []
        elif plain.running[u]:
            books.end(u, now)
            plain.end(u)
        elif queues[u]:
            task = queues[u].pop(count % len(queues[u]))  # the order does not matter
            books.begin(u, task, now)
            plain.begin(u, task, now)


def test_stale_times_are_those_of_the_last_refresh() -> None:
    books, nothing = StaleTimes(0.001, 3), np.zeros(3, np.int64)
    assert place(books, 0, 2, 4.0, 0.0, nothing) == [0, 1]
    assert place(books, 0, 1, 4.0, 1.0, nothing) == [0]  # worker 0 still seems to be idle
    books.refresh()
    # one idle worker is not enough, so the waiting time counts, without a fetch after another task
    assert place(books, 0, 2, 4.0, 2.0, nothing) == [2, 2]
    books.begin(1, 4.0, 2.0)
    # waiting times: 8, 4 and 0 s; 3 of the 4 s have passed
    assert place(books, 0, 4, 1.0, 5.0, np.array([0, 0, 5])) == [1, 1, 1, 1]


@pytest.mark.parametrize("workers", [1, 63, 64, 65, 130])
def test_idle_workers_are_those_without_a_bit(workers: int) -> None:
    books, bits = WaitingTimes(0.0, workers), np.empty((workers + 63) // 64, np.int64)
    busy = np.random.default_rng(workers).permutation(workers)[: workers // 2].tolist()
    for worker in range(workers):
        place(books, worker, 1, 1.0, 0.0)  # ascending: each task goes to the first idle worker
    for worker in set(range(workers)) - set(busy):
        books.end(worker, 1.0)
    books.busy(bits)
    assert count_idle(bits, workers) == workers - len(busy)
    idle = [idle_worker(bits, k) for k in range(workers - len(busy))]
    assert idle == sorted(set(range(workers)) - set(busy))
    assert (count_idle(bits[:0], workers), idle_worker(bits[:0], 7)) == (workers, 7)


def test_arguments_of_records_are_checked() -> None:
    books, workers = WaitingTimes(0.0, 3), np.empty(1, np.int64)
    for call, text in [
        (lambda: WaitingTimes(-1.0), "fetch_time must be finite and at least 0, got -1.0"),
        (lambda: WaitingTimes(0.0, -1), "workers must be in 0..2147483647, got -1"),
        (lambda: books.place(3, 1.0, 0.0, workers), "begin must be in 0..2, got 3"),
        (lambda: books.end(3, 0.0), "u must be in 0..2, got 3"),
        (lambda: books.busy(np.empty(2, np.int64)), "out must have 1 words, got 2"),
        (lambda: StaleTimes(0.0, 3).place(0, 1.0, 0.0, [0], workers), "delays must have 3 entries, got 1"),
        (lambda: count_idle(np.zeros(2, np.int64), 64), "workers must be in 65..128, got 64"),
        (lambda: idle_worker(np.zeros(2, np.int64), -1), "k must be at least 0, got -1"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            call()
