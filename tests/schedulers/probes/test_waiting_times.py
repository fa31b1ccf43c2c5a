"""Waiting times of central schedulers equal those of the reference implementation."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gridcore.probes.waiting_times import StaleTimes, WaitingTimes
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


@given(STEPS)
def test_tasks_go_to_the_least_waiting_times(steps: list[tuple[str, int, float, int]]) -> None:
    books = WaitingTimes(WORKERS, (0, BEGIN), FETCH)
    plain = reference.WaitingTimes(WORKERS, (0, BEGIN), FETCH)
    now, queues = 0.0, [[] for _ in range(WORKERS)]  # type: ignore[var-annotated]
    for action, u, size, count in steps:
        now += 0.25 * count
        books = WaitingTimes(WORKERS, (0, BEGIN), FETCH, books.kept)  # the state is that of a checkpoint
        if action == "place":
            workers = books.place(u % 2, count, size, now)
            assert workers == plain.place(u % 2, count, size, now)
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
    books, nothing = StaleTimes(3, (0,), 0.001), np.zeros(3, np.int64)
    assert books.place(0, 2, 4.0, 0.0, nothing) == [0, 1]
    assert books.place(0, 1, 4.0, 1.0, nothing) == [0]  # worker 0 still seems to be idle
    books.refresh()
    # one idle worker is not enough, so the waiting time counts, without a fetch after another task
    assert books.place(0, 2, 4.0, 2.0, nothing) == [2, 2]
    books.begin(1, 4.0, 2.0)
    # waiting times: 8, 4 and 0 s; 3 of the 4 s have passed
    assert books.place(0, 4, 1.0, 5.0, np.array([0, 0, 5])) == [1, 1, 1, 1]
