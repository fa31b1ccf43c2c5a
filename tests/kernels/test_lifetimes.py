"""Memory of kernels: after many constructions, uses, errors and deletions, all of it is freed.

LeakSanitizer, under which the nightly tests run this, sees every block; here the C library counts bytes.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridcore
from tests._helpers import thread_work as work
from tests.kernels.test_states import KERNELS, deep_copy

NETWORK = {"latency": 1, "bandwidth": 1.0, "widths": [24], "deferred": [False]}
QUEUE = {"order": "small", "choice": "none", "max_replicas": 1}
AXES = {"size": [1.0], "task_size": [1.0], "nbytes": 9}
HUGE = [1e308, 1e308]
LAST = 2**63 - 1
#: Bytes per call that do not count as a leak.
SMALL_LEAK = 1000
# Release, size and work of each application.
LARGE_QUEUE = (np.zeros(500), np.ones(500), np.ones(500))

# Calls that fail late, after memory was allocated.
FAILING_CALLS: dict[str, Callable[[], Any]] = {
    "Views": lambda: gridcore.Views(9, 4, shuffle=5),
    "TaskQueues": lambda: gridcore.TaskQueues([1.0, 0.0]),
    "DataQueues": lambda: gridcore.DataQueues([1.0, 1.0], bandwidth=[1.0, 0.0]),
    "CoreQueues": lambda: gridcore.CoreQueues([1.0, 1.0], cores=[1, 0]),
    "PullQueue": lambda: gridcore.PullQueue([1.0, 2.0], -1),
    "ReleaseQueue": lambda: gridcore.ReleaseQueue([1, 2], [0], [0, 0, 1], [1]),
    "JobQueue": lambda: gridcore.JobQueue(9, [1, 2], [1, 2], [1]),
    "SharedQueue": lambda: gridcore.SharedQueue([4, 4], [1, 9], [1, 2], [1, 2]),
    "ManualQueue": lambda: gridcore.ManualQueue(9, [1, 2], [1, 2], [1, 2], sizes=[8, 2]),
    "StepProfile": lambda: gridcore.StepProfile(0, 5).reserve(6, 0, 3),
    "WorkQueue": lambda: gridcore.WorkQueue(
        [1.0], [1], [5.0], [9], **QUEUE, period=5, factors=[[1.0]], series=[1]
    ),
    "Links": lambda: gridcore.Links([0, 1], 2, **NETWORK, level_of=[0, 99]),
    "SummaryTree": lambda: gridcore.SummaryTree(work.GRID, [1.0, 2.0], **AXES, release=[1.0, 2.0]),
    "bind_earliest": lambda: gridcore.bind_earliest(np.zeros(500, np.int64), np.ones(500), 1e300, 900, 0),
    "optimal_stretch": lambda: gridcore.optimal_stretch([0, 0], [1, 1], HUGE, speed=1.0, now=0.0),
    "optimal_stretch, late": lambda: gridcore.optimal_stretch(
        np.zeros(500), np.full(500, 1e-300), np.full(500, 1e100), speed=1.0, now=0.0
    ),
    "gap": lambda: gridcore.gap(1e308, 1e308, 1e308, *LARGE_QUEUE, speed=1.0, free_at=0.0),
    "available_tasks": lambda: gridcore.available_tasks(
        1e10, 1e6, 1e290, 1e-300, *LARGE_QUEUE, speed=1.0, free_at=0.0
    ),
    "sample_availability_batch": lambda: gridcore.sample_availability_batch(
        work.GRID, 0.0, [0, 500], *LARGE_QUEUE[:2], np.full(500, 1e308), speed=[1.0], free_at=[0.0]
    ),
    "sample_availability": lambda: gridcore.sample_availability(
        work.GRID, 0.0, [0, 0], [1, 1], HUGE, speed=1.0, free_at=0.0
    ),
    "project_queues": lambda: gridcore.project_queues(
        [0, 2], [0, 0], [1, 1], HUGE, HUGE, speed=[1.0], free_at=[0.0], until=3.0
    ),
    "map_batch": lambda: gridcore.map_batch(work.ETC, [*work.COUNTS[1:], -1], np.zeros(60), "min-min"),
}


def run_pull_queue() -> Any:
    return gridcore.PullQueue(np.ones(500), 2, log=True).run(LAST, [0, 1], np.full(2, 9000), [1.0, 1e10])


def run_backfill_queue() -> Any:
    queue = gridcore.JobQueue(500, [500] * 3, [LAST // 4] * 3, [LAST // 4] * 3, log=True)
    queue.submit([0, 1, 2], [0, 0, 0])
    return queue.run(LAST // 2)


def run_work_queue() -> Any:
    queue = gridcore.WorkQueue(
        np.ones(500), [900], np.full(900, 1e10), np.full(500, 2**62), **QUEUE, log=True
    )
    queue.submit(0, np.arange(900))
    return queue.run(LAST)


def send_message() -> Any:
    links = gridcore.Links([0, 1], 2, latency=1, bandwidth=1.0, widths=[24], deferred=[False])
    records = np.tile(np.array([1, 0, 7], np.int64), (500, 1)).view(np.uint8)
    return links.send(2**61 - 10**11, 0, records, 10)


def enqueue_tasks() -> Any:
    queues = gridcore.TaskQueues(np.ones(50), log=True, record=True)
    queues.add_applications([0.0], [1.0], [1e-9])
    return queues.enqueue([*range(50), 0], [0] * 51, [2**31 - 1] * 51, 0)


def run_walks() -> Any:
    jobs = 90
    links = gridcore.Links([0, 1, 2], 3, latency=1, bandwidth=1e9, widths=[24] * 4, deferred=[False] * 4)
    walks = gridcore.JobWalks(
        links, np.ones(3), kinds=[0, 1, 2, 3], release=np.arange(jobs), node=np.zeros(jobs, np.int64),
        work=np.full(jobs, 2e8), data=np.zeros(jobs, np.int64), rate=np.full(3, np.nan), probes=2,
        pick="best", probe_time=5, log=50,
    )  # fmt: skip
    return walks.advance(LAST)


FAILING_CALLS |= {
    "PullQueue.run": run_pull_queue, "JobQueue.run": run_backfill_queue, "WorkQueue.run": run_work_queue,
    "Links.send": send_message, "TaskQueues.enqueue": enqueue_tasks, "JobWalks.advance": run_walks,
}  # fmt: skip


def allocated_bytes() -> int:
    """Return the number of bytes that the C library has allocated."""

    class Info(ctypes.Structure):
        _fields_ = [(f"field_{k}", ctypes.c_size_t) for k in range(10)]

    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        pytest.skip("only the GNU C library counts")
    gc.collect()
    ask.restype = Info
    info = ask()
    return int(info.field_4 + info.field_7)


def leaked_bytes(call: Callable[[], Any], rounds: int = 4) -> int:
    """Return the bytes that each further call leaves allocated: the least of some rounds."""
    minimum = sys.maxsize
    for turn in range(6):
        before = allocated_bytes()
        for _ in range(rounds):
            call()
        if turn:
            minimum = min(minimum, (allocated_bytes() - before) // rounds)
        if minimum < SMALL_LEAK:
            break
    return minimum


def state_refused(kernel: Any, state: dict[str, Any]) -> None:
    """Restore the state cut off at each entry, which must fail, and the whole state."""
    for name in state:
        with pytest.raises(ValueError, match="state must have an entry"):
            kernel.setstate({key: value for key, value in state.items() if key != name})
    for _ in range(25):
        kernel.setstate(state)


#: Kernels of whole runs, for which Python itself sometimes keeps memory.
OF_RUNS = ("SummaryTree", "FairTreeNodes", "NodeCore", "DgsNodes")


@pytest.mark.slow
@pytest.mark.parametrize("name", work.CALLS)
def test_a_finished_kernel_frees_its_memory(name: str) -> None:
    # Python itself sometimes keeps memory of a whole run
    assert leaked_bytes(work.CALLS[name]) < (20_000 if name in work.RUNS else SMALL_LEAK)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILING_CALLS)
def test_a_rejected_call_frees_its_memory(name: str) -> None:
    def call() -> None:
        with pytest.raises((ValueError, OverflowError)):
            FAILING_CALLS[name]()

    assert leaked_bytes(call) < SMALL_LEAK


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_states_free_their_memory(name: str) -> None:
    kernel = KERNELS[name]()
    state = deep_copy(kernel.getstate())
    assert leaked_bytes(lambda: state_refused(kernel, state)) < SMALL_LEAK
    if name not in OF_RUNS:
        assert leaked_bytes(lambda: KERNELS[name]().setstate(state)) < SMALL_LEAK


@pytest.mark.slow
def test_a_planted_leak_is_detected() -> None:
    malloc = ctypes.CDLL(None).malloc
    assert leaked_bytes(lambda: malloc(4000)) >= SMALL_LEAK  # other threads may free some memory meanwhile


_CALL_ALL = """
import gridcore, importlib, pkgutil, sys
for module in pkgutil.walk_packages(gridcore.__path__, "gridcore."):
    for name, kind in vars(importlib.import_module(module.name)).items():
        if not isinstance(kind, type) or kind.__module__ != module.name or name.startswith("_"):
            continue
        try:
            new = kind.__new__(kind)
        except (TypeError, ValueError):
            continue
        print(module.name, name, flush=True)
        skipped = {"__init_subclass__", "__subclasshook__", "__new__", "__class__"}
        for member in sorted(set(dir(kind)) - skipped):
            for count in range(5):
                try:
                    value = getattr(new, member)
                    if callable(value):
                        value(*[0] * count)
                except Exception:
                    pass
print("end")
"""


def test_objects_without_arguments_do_not_crash(tmp_path: Path) -> None:
    """A class that can be made by ``cls.__new__(cls)`` has members that work or raise an error."""
    command = [sys.executable, "-c", _CALL_ALL]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert found.stdout.split("\n")[-2:] == ["end", ""], (found.returncode, found.stdout[-200:])
