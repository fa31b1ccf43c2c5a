"""Kernels are made, used, refused and dropped, many times: what they allocated is given back.

.ci/nightly runs this under LeakSanitizer, which sees every block; here the C library counts bytes in use.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import thread_work as work

import gridcore

NETWORK = {"latency": 1, "bandwidth": 1.0, "widths": [24], "deferred": [False]}
QUEUE = {"order": "small", "choice": "none", "max_replicas": 1}
AXES = {"size": [1.0], "task_size": [1.0], "nbytes": 9}
HUGE = [1e308, 1e308]

#: What is refused late, with memory in hand.
REFUSED: dict[str, Callable[[], Any]] = {
    "Views": lambda: gridcore.Views(9, 4, shuffle=5),
    "TaskQueues": lambda: gridcore.TaskQueues([1.0, 0.0]),
    "PullQueue": lambda: gridcore.PullQueue([1.0, 2.0], -1),
    "BackfillQueue": lambda: gridcore.BackfillQueue(9, [1, 2], [1, 2], [1]),
    "WorkQueue": lambda: gridcore.WorkQueue(
        [1.0], [1], [5.0], [9], **QUEUE, period=5, factors=[[1.0]], series=[1]
    ),
    "Links": lambda: gridcore.Links([0, 1], 2, **NETWORK, level_of=[0, 99]),
    "SummaryTree": lambda: gridcore.SummaryTree(work.GRID, [1.0, 2.0], **AXES, release=[1.0, 2.0]),
    "optimal_stretch": lambda: gridcore.optimal_stretch([0, 0], [1, 1], HUGE, speed=1.0, now=0.0),
    "sample_availability": lambda: gridcore.sample_availability(
        work.GRID, 0.0, [0, 0], [1, 1], HUGE, speed=1.0, free_at=0.0
    ),
    "project_queues": lambda: gridcore.project_queues(
        [0, 2], [0, 0], [1, 1], HUGE, HUGE, speed=[1.0], free_at=[0.0], until=3.0
    ),
    "map_batch": lambda: gridcore.map_batch(work.ETC, [*work.COUNTS[1:], -1], np.zeros(60), "min-min"),
}


def in_use() -> int:
    """Bytes that the C library has handed out."""

    class Info(ctypes.Structure):
        _fields_ = [(f"field_{k}", ctypes.c_size_t) for k in range(10)]

    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        pytest.skip("only the GNU C library counts")
    gc.collect()
    ask.restype = Info
    info = ask()
    return int(info.field_4 + info.field_7)


def grows(call: Callable[[], Any], rounds: int = 4) -> int:
    """Bytes that each further call leaves behind: the least of two times, as what is kept once is none."""
    found = []
    for _ in range(3):
        before = in_use()
        for _ in range(rounds):
            call()
        found.append((in_use() - before) // rounds)
    return min(found[1:])


def state_refused(kernel: Any) -> None:
    """A state that ends too early, wherever that is, and the whole one."""
    state = kernel.getstate()
    for name in state:
        with pytest.raises(ValueError, match="state has no entry"):
            kernel.setstate({key: value for key, value in state.items() if key != name})
    kernel.setstate(state)


STATES: dict[str, Callable[[], Any]] = {
    "BackfillQueue": lambda: work.backfill(100), "WorkQueue": lambda: work.work_queue(100),
    "PullQueue": lambda: work.pull()[0], "TaskQueues": lambda: work.task_queues(30),
    "SlotSchedules": lambda: work.schedules(50)[0], "Views": lambda: work.schedules(50)[1],
}  # fmt: skip


@pytest.mark.parametrize("name", work.CALLS)
def test_who_is_done_leaves_nothing(name: str) -> None:
    # of a whole run Python keeps something now and then
    assert grows(work.CALLS[name]) < (20_000 if name in work.RUNS else 1000)


@pytest.mark.parametrize("name", REFUSED)
def test_who_is_refused_leaves_nothing(name: str) -> None:
    def refused() -> None:
        with pytest.raises((ValueError, OverflowError)):
            REFUSED[name]()

    assert grows(refused) < 1000


@pytest.mark.parametrize("name", STATES)
def test_states_leave_nothing(name: str) -> None:
    assert grows(lambda: state_refused(STATES[name]())) < 1000


def test_a_leak_would_be_seen() -> None:
    malloc = ctypes.CDLL(None).malloc
    assert grows(lambda: malloc(4000)) >= 4000
