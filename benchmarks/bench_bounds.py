"""Lower bounds: the paper's shape, at other numbers of applications and machines.

    pytest benchmarks/bench_bounds.py --benchmark-group-by=group --benchmark-columns=median,iqr,rounds

The limit is one pass of the search without its bookkeeping: for each application an addition and a maximum
over the releases before its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytest_benchmark")

from gridsim.optimization.bounds import discrete_bound, fluid_bound

SPEED = 2000.0  # mean, Mflop/s


def bags(applications: int, machines: int, sizes: int = 1, gap: float = 10.0) -> tuple[Any, ...]:
    """release, size, task_size, tasks, speeds: 10 tasks a machine (+-20 %), `sizes` task sizes."""
    random = np.random.default_rng([applications, machines, sizes])
    release = random.exponential(gap, applications).cumsum()
    tasks = random.integers(8 * machines, 12 * machines + 1, applications)
    task_size = random.choice(np.geomspace(65536.0, 2 * 65536.0, sizes), applications)
    return release, tasks * task_size, task_size, tasks, random.choice(np.arange(1000.0, 3001, 200), machines)


@pytest.mark.parametrize("gap", [10.0, 1000.0, 100_000.0])
@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_fluid(benchmark: Any, n: int, gap: float) -> None:
    benchmark.group = f"fluid_bound n={n}, a mean gap of {gap:g} s"
    release, size, *_ = bags(n, 1000, gap=gap)
    benchmark(fluid_bound, release, size, 1000 * SPEED)


@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_fluid_limit(benchmark: Any, n: int) -> None:
    benchmark.group = f"fluid_bound n={n}, a mean gap of 10 s"
    ends = np.zeros(n)

    def limit() -> None:
        for i in range(n):
            part = ends[:i]
            part += 1.0
            part.max(initial=0.0)

    benchmark(limit)


@pytest.mark.parametrize(
    ("n", "machines", "sizes", "gap"),
    [
        (100, 1000, 1, 10.0),
        (100, 1000, 5, 10.0),
        (100, 1000, 100, 10.0),
        (100, 1000, 1, 1000.0),
        (100, 100_000, 1, 10.0),
        (1000, 1000, 5, 10.0),
        (5000, 1000, 5, 10.0),
    ],
)
def test_discrete(benchmark: Any, n: int, machines: int, sizes: int, gap: float) -> None:
    benchmark.group = (
        f"discrete_bound n={n}, {machines} machines, {sizes} task sizes, a mean gap of {gap:g} s"
    )
    benchmark(discrete_bound, *bags(n, machines, sizes, gap))
