"""The SimPy program of the benchmarks has the same ends, failures and replicas as WQR-FT."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
POLICIES = ["SmallET-NoInfo", "SmallET-CpuInfo", "GreatET-AvailInfo", "GreatET-AllInfo"]

pytest.importorskip("simpy", reason="needs SimPy")
if not (BENCHMARKS / "wqr_simpy.py").exists():
    pytest.skip("needs the benchmarks, which are in the source tree", allow_module_level=True)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("bench_wqr")


@pytest.mark.parametrize("cost", [0.0, 10.0])
@pytest.mark.parametrize("up", [14400.0, 2000.0])
@pytest.mark.parametrize("policy", POLICIES)
def test_kernel_and_simpy_do_the_same_work(bench: Any, policy: str, up: float, cost: float) -> None:
    interrupted = killed = 0
    for seed in range(3):
        scenario = bench.scenario(60, 400, up, seed)
        scheduler = bench.scheduler(policy, checkpoint_cost=cost, restore_cost=cost)
        ours = bench.ours(scenario, scheduler)()
        assert bench.by_simpy(scenario, scheduler, ours[0])() == ours
        interrupted, killed = interrupted + ours[1], killed + ours[2]
    assert interrupted > 0 and killed > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_kernel_and_simpy_agree_on_simultaneous_events(
    bench: Any, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """First tasks end, then machines fail and recover, then tasks start."""
    scenario, scheduler = bench.scenario(60, 400, 4000.0), bench.scheduler(policy, checkpoint_cost=0.0)
    case = round_to_steps(*bench.inputs(scenario, scheduler, 10**15))
    monkeypatch.setattr(bench, "inputs", lambda *_: case)
    kernel = bench.by_queue(scenario, scheduler, 0)()
    assert bench.by_simpy(scenario, scheduler, 0)() == kernel
    assert kernel[1] > 0 and kernel[2] > 0


def round_to_steps(speeds: Any, sizes: Any, sequence: Any, first: Any, failures: Any) -> tuple[Any, ...]:
    """Return the same scenario with all times at multiples of 60 s."""
    step = 60 * 10**9
    time, machine, up, until = failures
    sizes = np.ceil(sizes / 120000) * 120000
    return (
        np.where(speeds < 4000, 1000.0, 2000.0),
        sizes,
        sequence,
        first // step * step,
        (time // step * step, machine, up, until // step * step),
    )
