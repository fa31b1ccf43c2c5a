"""CYCLON: one cycle of all nodes, the reference and a limit; 20 neighbours, 8 of them exchanged at a time.

    pytest benchmarks/bench_overlay.py --benchmark-columns=median,ops --benchmark-json=overlay.json

Exchanges a second are the nodes over the time of a cycle; they and the bytes of a node are in the file, as
`extra_info`.  The limit is what numpy needs to fetch, for each node, the view and the ages of a node drawn at
random, and to write them back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridcore.dgs import overlay
from gridcore.dgs.overlay import Views
from tests.reference.overlay import Views as Reference

SIZES = [1_000, 100_000, 1_000_000]


@pytest.mark.parametrize("level", [0, 1], ids=["plain", "avx512"])
@pytest.mark.parametrize("nodes", SIZES)
@pytest.mark.benchmark(group="cycle")
def test_kernel(benchmark: Any, nodes: int, level: int) -> None:
    if overlay._vector_level(level) != level:
        overlay._vector_level(1)
        pytest.skip("this processor has no AVX-512")
    views = Views(nodes, 20, seed=1)
    views.cycle()
    benchmark.extra_info["bytes a node"] = views.views.strides[0]
    benchmark.pedantic(views.cycle, rounds=15)
    benchmark.extra_info["exchanges/s"] = nodes / benchmark.stats.stats.median
    overlay._vector_level(1)


@pytest.mark.parametrize("nodes", SIZES[:1])
@pytest.mark.benchmark(group="cycle")
def test_reference(benchmark: Any, nodes: int) -> None:
    views = Reference(nodes, 20, seed=1)
    benchmark.pedantic(views.cycle, rounds=3)


@pytest.mark.parametrize("nodes", SIZES)
@pytest.mark.benchmark(group="cycle")
def test_limit(benchmark: Any, nodes: int) -> None:
    views, ages = np.zeros((nodes, 20), np.int32), np.zeros((nodes, 20), np.uint8)
    other = np.random.default_rng(1).permutation(nodes)

    def limit() -> None:
        views[other], ages[other] = views[other], ages[other]

    benchmark.pedantic(limit, rounds=5)
