"""Slot schedules: the earliest start among 420 of them, compared with the reference and a limit.

    pytest benchmarks/bench_slots.py --benchmark-columns=median,iqr

Reservations of 20 or 40 slots on average, 1,500 to 3,500 slots ahead.  The limit is a C program that does
nothing but count, slot by slot, the starts that fit each gap, which are there as 16-bit numbers; it does not
say which nodes.  Both do the same search again and again, in warm caches.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from gridcore.dgs.slots import SlotSchedules
from tests.reference.slots import SlotSchedules as Reference

NODES = 420
LIMIT = """
#include <stdint.h>
#include <string.h>
int earliest_start(const uint16_t *begin, const uint16_t *end, const int32_t *offsets, int16_t *change,
                   int nodes, int last, int since, int n, int slots)
{
    memset(change, 0, (last + 2) * sizeof *change);
    for (int node = 0; node < nodes; node++)
        for (int i = offsets[node]; i < offsets[node + 1]; i++) {
            int from = begin[i] < since ? since : begin[i];
            if (end[i] - from >= slots)
                change[from]++, change[end[i] - slots + 1]--;
        }
    for (int at = since, fit = 0; at + slots <= last; at++)
        if ((fit += change[at]) >= n)
            return at;
    return -1;
}
"""
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
def test_reference(benchmark: Any, case: Any) -> None:
    schedules, everyone = filled(Reference, case), np.arange(NODES)
    benchmark.pedantic(lambda: schedules.earliest_start(everyone, case[3], case[4], 3), rounds=1)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The limit, compiled for this processor; skips without a compiler."""
    compiler, folder = shutil.which("cc"), tmp_path_factory.mktemp("limit")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "limit.c").write_text(LIMIT)
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", "limit.so", "limit.c"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "limit.so")).earliest_start


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.benchmark(group="earliest start")
def test_limit(benchmark: Any, counted: Any, case: Any) -> None:
    node, start, slots = rows(*case[:3])
    last = 2 * case[2]
    edge = np.flatnonzero(np.diff(node))
    # gaps: before the first reservation of a node, after each, and after the last one for ever
    first = np.concatenate([[0], edge + 1])
    begin = np.insert(start + slots, first, 0).astype(np.uint16)
    end = np.insert(start, np.append(first[1:], len(start)), last).astype(np.uint16)
    count = np.diff(np.append(first, len(start))) + 1
    offsets = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    change = np.zeros(last + 2, np.int16)
    arrays = (begin, end, offsets, change)
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in arrays]
    arguments = (*pointers, NODES, last, 3, case[3], case[4])
    expected, _ = filled(SlotSchedules, case).earliest_start(np.arange(NODES), case[3], case[4], 3)
    assert counted(*arguments) == expected
    benchmark(lambda: counted(*arguments))
