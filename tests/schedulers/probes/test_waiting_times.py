"""The books of central schedulers: equality with the reference implementation."""

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
def test_they_choose_the_least_waiting_time(taken: list[tuple[str, int, float, int]]) -> None:
    books = WaitingTimes(WORKERS, (0, BEGIN), FETCH)
    plain = reference.WaitingTimes(WORKERS, (0, BEGIN), FETCH)
    now, queues = 0.0, [[] for _ in range(WORKERS)]  # type: ignore[var-annotated]
    for what, u, size, count in taken:
        now += 0.25 * count
        books = WaitingTimes(WORKERS, (0, BEGIN), FETCH, books.kept)  # as from a checkpoint
        if what == "place":
            found = books.place(u % 2, count, size, now)
            assert found == plain.place(u % 2, count, size, now)
            for chosen in found:
                queues[chosen].append(size)
        elif what == "forget":
            books.forget(u, 1.0)
            plain.forget(u)
            queues[u] = []
        elif plain.running[u]:
            books.end(u, now)
            plain.end(u)
        elif queues[u]:
            task = queues[u].pop(count % len(queues[u]))  # in any order
            books.begin(u, task, now)
            plain.begin(u, task, now)


def test_stale_times_are_of_the_last_refresh() -> None:
    books, nothing = StaleTimes(3, (0,), 0.001), np.zeros(3, np.int64)
    assert books.place(0, 2, 4.0, 0.0, nothing) == [0, 1]
    assert books.place(0, 1, 4.0, 1.0, nothing) == [0]  # it seems to be idle still
    books.refresh()
    # the idle one is not enough, so the least waiting time, without a fetch after another task
    assert books.place(0, 2, 4.0, 2.0, nothing) == [2, 2]
    books.begin(1, 4.0, 2.0)
    # seen: 8, 4 and 0 s; of the 4 s 3 have run
    assert books.place(0, 4, 1.0, 5.0, np.array([0, 0, 5])) == [1, 1, 1, 1]
