"""The SimPy program that benchmarks hold WQR-FT against does the same work: same ends, same failures, same
replicas."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytest.importorskip("simpy", reason="needs SimPy")
if not (BENCHMARKS / "wqr_simpy.py").exists():
    pytest.skip("needs the benchmarks, which are in the source tree", allow_module_level=True)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("bench_wqr")


@pytest.mark.parametrize("cost", [0.0, 10.0])
@pytest.mark.parametrize("up", [14400.0, 2000.0])
@pytest.mark.parametrize(
    "policy", ["SmallET-NoInfo", "SmallET-CpuInfo", "GreatET-AvailInfo", "GreatET-AllInfo"]
)
def test_same_work(bench: Any, policy: str, up: float, cost: float) -> None:
    interrupted = killed = 0
    for seed in range(3):
        scenario = bench.scenario(60, 400, up, seed)
        scheduler = bench.scheduler(policy, checkpoint_cost=cost, restore_cost=cost)
        ours = bench.ours(scenario, scheduler)()
        assert bench.by_simpy(scenario, scheduler, ours[0])() == ours
        interrupted, killed = interrupted + ours[1], killed + ours[2]
    assert interrupted > 0 and killed > 0
