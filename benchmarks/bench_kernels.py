"""Kernel benchmarks: each group holds the kernel, its reference, and a limit where numpy has one.

    pytest benchmarks/bench_kernels.py --benchmark-group-by=group --benchmark-columns=median,iqr,ops

The limit is what numpy needs for the memory traffic or the divisions alone; no kernel can be faster by much.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytest_benchmark")

from gridcore.fair_tree import summaries
from gridcore.queues import availability, edf
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference import availability as availability_reference
from tests.reference import edf as edf_reference
from tests.reference import summaries as summaries_reference

SPEED, NOW = 2000.0, 1000.0
GRID = SummaryGrid.geometric(stretch=(1e-3, 32.0, 16), size=(1e4, 5e8, 24), task_size=(1e3, 3e6, 24))
SMALL = SummaryGrid.geometric(stretch=(1e-3, 32.0, 10), size=(1e4, 5e8, 9), task_size=(1e3, 3e6, 8))
EDF = pytest.mark.parametrize("module", [edf, edf_reference], ids=["kernel", "reference"])
AVAILABILITY = pytest.mark.parametrize(
    "module", [availability, availability_reference], ids=["kernel", "reference"]
)
SUMMARIES = pytest.mark.parametrize("module", [summaries, summaries_reference], ids=["kernel", "reference"])


def queue(n: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(n)
    return random.uniform(0, 1000, n), 1e5 * np.exp(4 * random.random(n)), 2e4 * random.uniform(0.5, 1.5, n)


def flat(nodes: int, n: int) -> tuple[Any, Any, Any, Any]:
    columns = [np.concatenate(column) for column in zip(*[queue(n)] * nodes, strict=True)]
    return np.arange(nodes + 1) * n, *columns


@EDF
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_meets_deadlines(benchmark: Any, module: ModuleType, n: int) -> None:
    benchmark.group = f"meets_deadlines n={n}"
    release, size, work = queue(n)
    benchmark(module.meets_deadlines, work, release + 0.3 * size, speed=SPEED, now=NOW)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_meets_deadlines_limit(benchmark: Any, n: int) -> None:
    benchmark.group = f"meets_deadlines n={n}"
    release, size, work = queue(n)
    due = release + 0.3 * size

    def limit() -> bool:
        order = due.argsort()
        return bool((NOW + work[order].cumsum() / SPEED <= due[order]).all())

    benchmark(limit)


@EDF
@pytest.mark.parametrize("method", ["exact", "bisection"])
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_optimal_stretch(benchmark: Any, module: ModuleType, method: str, n: int) -> None:
    benchmark.group = f"optimal_stretch {method} n={n}"
    benchmark(module.optimal_stretch, *queue(n), speed=SPEED, now=NOW, method=method)


@EDF
def test_project_queues(benchmark: Any, module: ModuleType) -> None:
    benchmark.group = "project_queues 100 nodes x 20"
    offsets, release, size, work = flat(100, 20)
    tasks = np.rint(work / 2000.0)
    node = {"speed": np.full(100, SPEED), "free_at": np.full(100, NOW)}
    benchmark(
        module.project_queues,
        *(offsets, release, size, tasks * 2000.0, np.full(len(work), 2000.0)),
        **node,
        until=NOW + 60.0,
    )


@AVAILABILITY
@pytest.mark.parametrize("n", [5, 20, 100])
def test_gap(benchmark: Any, module: ModuleType, n: int) -> None:
    benchmark.group = f"gap n={n}"
    benchmark(module.gap, 1.0, NOW, 1e6, *queue(n), speed=SPEED, free_at=NOW)


@AVAILABILITY
@pytest.mark.parametrize("n", [5, 20, 100])
def test_sample(benchmark: Any, module: ModuleType, n: int) -> None:
    benchmark.group = f"sample_availability {GRID.cells} cells n={n}"
    benchmark(module.sample_availability, GRID, NOW, *queue(n), speed=SPEED, free_at=NOW)


@pytest.mark.parametrize("n", [5, 20, 100])
def test_sample_limit(benchmark: Any, n: int) -> None:
    benchmark.group = f"sample_availability {GRID.cells} cells n={n}"
    gaps = np.full((16, 24, 1), 1e6)
    out = np.empty(GRID.shape)
    benchmark(np.divide, gaps, GRID.task_size, out=out)


@AVAILABILITY
@pytest.mark.parametrize("threads", [1, 2])
def test_sample_batch(benchmark: Any, module: ModuleType, threads: int) -> None:
    if module is availability_reference and threads > 1:
        pytest.skip("the reference implementation has no threads")
    benchmark.group = f"sample_availability_batch 20 nodes x 20, {SMALL.cells} cells"
    node = {"speed": np.full(20, SPEED), "free_at": np.full(20, NOW)}
    benchmark(module.sample_availability_batch, SMALL, NOW, *flat(20, 20), **node, threads=threads)


@SUMMARIES
@pytest.mark.parametrize("children", [2, 16])
def test_aggregate(benchmark: Any, module: ModuleType, children: int) -> None:
    benchmark.group = f"aggregate {children} x {GRID.cells} cells"
    cells = np.random.default_rng(1).integers(0, 2**31, (children, *GRID.shape), dtype=np.uint32)
    benchmark(module.aggregate_into, np.empty(GRID.shape, dtype=np.uint32), cells)


@pytest.mark.parametrize("children", [2, 16])
def test_aggregate_limit(benchmark: Any, children: int) -> None:
    benchmark.group = f"aggregate {children} x {GRID.cells} cells"
    cells = np.random.default_rng(1).integers(0, 2**31, (children, *GRID.shape), dtype=np.uint32)
    out = np.empty(GRID.shape, dtype=np.uint32)

    def limit() -> None:
        np.add(cells[0], cells[1], out=out)
        for child in cells[2:]:
            np.add(out, child, out=out)

    benchmark(limit)


def summary(grid: SummaryGrid) -> Any:
    return availability.sample_availability(grid, NOW, *queue(20), speed=SPEED, free_at=NOW)


@SUMMARIES
def test_lookup(benchmark: Any, module: ModuleType) -> None:
    benchmark.group = "lookup"
    benchmark(module.lookup, summary(SMALL), SMALL, 1.0, 1e6, 5e3, release=NOW - 9.0, cell_release=NOW)


@SUMMARIES
@pytest.mark.parametrize("grid", [SMALL, GRID], ids=lambda grid: str(grid.cells))
def test_debit(benchmark: Any, module: ModuleType, grid: SummaryGrid) -> None:
    benchmark.group = f"debit {grid.cells} cells"
    benchmark(
        module.debit,
        *(summary(grid), grid),
        tasks=[3, 40],
        task_size=[5e3, 1e4],
        size=[1e6, 3e7],
        stretch=[1.0, 0.5],
        leaves=8,
    )


@pytest.mark.parametrize("grid", [SMALL, GRID], ids=lambda grid: str(grid.cells))
def test_debit_limit(benchmark: Any, grid: SummaryGrid) -> None:
    benchmark.group = f"debit {grid.cells} cells"
    cells, drops = summary(grid), np.full(grid.shape[2], 3, dtype=np.uint32)

    def limit() -> None:
        left = np.subtract(cells, drops)
        np.maximum(left, cells, out=left)
        np.maximum(left, cells, out=left)
        np.maximum(left, cells, out=left)

    benchmark(limit)


@SUMMARIES
def test_lowest_stretch(benchmark: Any, module: ModuleType) -> None:
    benchmark.group = "lowest_stretch 30 samples"
    benchmark(module.lowest_stretch, np.arange(30) * 100, 1700)


@SUMMARIES
@pytest.mark.parametrize("n", [2, 1000])
def test_split(benchmark: Any, module: ModuleType, n: int) -> None:
    benchmark.group = f"split over {n}"
    benchmark(module.split, np.random.default_rng(1).integers(1, 1000, n), 250 * n)
