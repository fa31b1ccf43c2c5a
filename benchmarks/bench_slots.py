"""Slot schedules: the earliest start among 420 of them, beside the twin and a limit.

    pytest benchmarks/bench_slots.py --benchmark-columns=median,iqr

Reservations of 20 or 40 slots on average, 1,500 to 3,500 slots ahead.  The limit is
what numpy needs to count all intervals of starts slot by slot, once they are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridcore.reference.slots import SlotSchedules as Twin
from gridcore.slots import SlotSchedules

NODES = 420
#: share of slots reserved, mean length of a reservation, slots ahead, nodes and slots of the job
CASES = [
    (0.60, 20, 1500, 64, 30),
    (0.90, 20, 1500, 64, 30),
    (0.97, 40, 1500, 64, 30),
    (0.97, 40, 3500, 64, 30),
    (0.97, 40, 3500, 200, 30),
    (0.97, 40, 3500, 64, 200),
]
NAMES = [f"load {load}, {ahead} slots ahead, {n} nodes, {k} slots" for load, _, ahead, n, k in CASES]


def rows(load: float, length: float, ahead: int) -> Any:
    """(node, start, slots) of all reservations; what is reserved without a gap is one reservation."""
    chance = np.random.default_rng(1)
    made: list[tuple[int, int, int]] = []
    for node in range(NODES):
        at, end = 0, ahead // 2 + int(chance.integers(ahead))
        while at < end:
            start = at
            while at < end:
                at += 1 + int(chance.exponential(length))
                gap = int(chance.exponential(length) * (1 - load) / load)
                if gap:
                    break
            made.append((node, start, min(at, end) - start))
            at += gap
    return np.array(made, np.int64).T


def filled(kind: Any, case: Any) -> Any:
    node, start, slots = rows(*case[:3])
    schedules = kind(NODES)
    assert schedules.reserve(node, start, slots, np.zeros_like(node), 0).all()
    return schedules


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.benchmark(group="earliest start")
def test_kernel(benchmark: Any, case: Any) -> None:
    schedules, everyone = filled(SlotSchedules, case), np.arange(NODES)
    benchmark(lambda: schedules.earliest_start(everyone, case[3], case[4], 3))


@pytest.mark.parametrize("case", CASES[2:3], ids=NAMES[2:3])
@pytest.mark.benchmark(group="earliest start")
def test_twin(benchmark: Any, case: Any) -> None:
    schedules, everyone = filled(Twin, case), np.arange(NODES)
    benchmark.pedantic(lambda: schedules.earliest_start(everyone, case[3], case[4], 3), rounds=1)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.benchmark(group="earliest start")
def test_limit(benchmark: Any, case: Any) -> None:
    node, start, slots = rows(*case[:3])
    same, last = node[1:] == node[:-1], 2 * case[2]
    begin = (start + slots)[:-1]
    end = np.where(same, start[1:] - case[4] + 1, last)  # the last reservation of a node is followed by room
    begin, end = begin[end > begin], end[end > begin]
    change = np.zeros(last + 1, np.int64)

    def limit() -> int:
        change[:] = 0
        np.add.at(change, begin, 1)
        np.add.at(change, end, -1)
        return int(change.cumsum().argmax())

    benchmark(limit)
