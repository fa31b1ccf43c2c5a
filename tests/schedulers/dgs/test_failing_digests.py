"""Digests of runs with failures, computed by two independent forms of DGS_ASAP.

Until handlers of cohorts were replaced by the node program, both gave these digests and these decisions.  The
file was written by the handlers; see tests/golden/test_golden_digests.py for what to do if a digest changes.
Since then that of seed 13 has changed, as a late cancellation had released what a later attempt had
reserved, and decisions of 15 and 23, in the true values of answers that were dropped after their starts;
and those of 21 seeds, as machines whose replies have not come are cancelled.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.validation.results import validate_result

FILE = Path(__file__).with_name("failing_digests.json")


def drawn_case(seed: int) -> tuple[gs.Scenario, gs.DgsAsap]:
    """Return a scenario with failures and a scheduler, drawn from `seed`."""
    draw = np.random.default_rng(seed)

    def pick(*values: Any) -> Any:
        return values[int(draw.integers(len(values)))]

    nodes, count, latency = pick(3, 5, 8, 12, 20), int(draw.integers(3, 20)), pick(0.0, 0.05, 1.0)
    network = gs.Network(
        latency=latency,
        jitter=pick(0.0, latency / 2),
        bandwidth=pick(math.inf, 1e6, 2000.0),
        interfaces=pick("fifo", "equal"),
    )
    run_time = [pick(1.0, 30.0, 60.0, 100.0, 600.0) for _ in range(count)]
    workload = gs.Workload.jobs_of(
        sorted(int(draw.integers(400)) for _ in range(count)),
        [int(draw.integers(1, 1 + nodes // 2)) for _ in range(count)],
        run_time,
        requested=pick(None, [2.0 * item for item in run_time]),
        submitter=[int(draw.integers(nodes)) for _ in range(count)],
        origin=0.0,
    )
    failure_pairs = [[int(draw.integers(nodes)), int(draw.integers(600))] for _ in range(8)]
    first = {machine: down for machine, down in failure_pairs}
    faults = pick(
        gs.Faults.exponential(up=2000.0, down=200.0, seed=seed),
        gs.Faults.of(list(first), list(first.values()), [down + pick(0, 5, 100) for down in first.values()]),
    )
    scheduler = gs.DgsAsap(
        policy=pick("push", "pull", "poll"),
        overlay=pick("static", "cyclon"),
        degree=pick(2, 3, 6),
        shuffle=2,
        forward=pick(1, 3),
        slot=pick(1.0, 10.0, 60.0),
        hops=pick(1, 2, 3),
        candidates=pick("all", "others"),
        wide=pick("widen", "fail"),
        estimate=pick("run", "requested"),
        rounds=pick(1, 3),
        retry=pick(10.0, 600.0),
        tries=10,
        detection=pick(1.0, 60.0),
        patience=pick(2.0, 120.0),
        poll_period=pick(7.0, 120.0),
        cycle=pick(13.0, 600.0),
    )
    return gs.Scenario(gs.Platform.equal(nodes), workload, network, seed=seed, faults=faults), scheduler


def digests_of_run(seed: int, **options: Any) -> list[str]:
    """Return the digests of a run and of its decisions, which do not depend on the cohort limit."""
    scenario, scheduler = drawn_case(seed)
    result = gs.simulate(scenario, scheduler, record="decisions", time_limit=1e6, **options)
    decisions = sorted(map(str, result.tables["decisions"].rows()))
    return [result.digest[:16], hashlib.sha256("\n".join(decisions).encode()).hexdigest()[:16]]


@pytest.mark.parametrize(
    "seed", [seed if seed % 4 == 1 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(60)]
)
def test_digests_and_decisions_equal_the_stored_ones(seed: int) -> None:
    digest, decisions = json.loads(FILE.read_text())[seed]
    assert digests_of_run(seed, nodes="interpreted") == [digest, decisions]
    scenario, scheduler = drawn_case(seed)
    result = gs.simulate(scenario, scheduler, record=True, time_limit=1e6, nodes="compiled")
    assert result.digest[:16] == digest and validate_result(result) == []
