"""Mapping heuristics: kernel and reference, on matrices of Braun et al. and on a grid of a few speeds.

pytest benchmarks/bench_mapping.py --benchmark-columns=median,iqr

Each call maps all tasks.  The reference does in the same process, on the same input, what the kernel does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridcore.centralized import mapping
from gridsim.optimization.mapping_matrices import expected_times
from tests.reference import mapping as reference

IN_TURN = ("mct", "met", "olb", "switching", "kpb")
BATCH = ("min-min", "max-min", "sufferage")
KERNELS = {"kernel": mapping, "reference": reference}


@pytest.mark.parametrize("rule", (*IN_TURN, *BATCH))
@pytest.mark.parametrize("kernel", KERNELS)
def test_512_tasks_on_16_machines(benchmark: Any, kernel: str, rule: Any) -> None:
    etc, ones = expected_times(consistency="inconsistent"), np.ones(512, np.int64)
    function = KERNELS[kernel].map_in_turn if rule in IN_TURN else KERNELS[kernel].map_batch
    benchmark.pedantic(
        lambda: function(etc, ones, np.zeros(16), rule),
        rounds=30 if kernel == "kernel" else 3,
        warmup_rounds=1,
    )


@pytest.mark.parametrize("rule", BATCH)
@pytest.mark.parametrize("kinds", [11, 1000])
def test_1000_sizes_on_1000_machines(benchmark: Any, kinds: int, rule: Any) -> None:
    """The kernel alone, as a scheduler calls it at each mapping event, on machines of `kinds` speeds."""
    chance = np.random.default_rng(1)
    speeds = np.linspace(1000.0, 3000.0, kinds)
    etc = np.rint(chance.uniform(2e4, 2e6, (1000, 1)) / speeds * 1e9)
    kind, ready = chance.permutation(1000) % kinds, np.rint(chance.uniform(0, 1e11, 1000))
    ones = np.ones(1000, np.int64)
    benchmark.pedantic(
        lambda: mapping.map_batch(etc, ones, ready.copy(), rule, kind=kind), rounds=10, warmup_rounds=1
    )
