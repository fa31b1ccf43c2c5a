"""Runs of the fair tree that several processes share: the result is that of one process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.scheduling.contract import ProcessShare
from gridsim.simulation.options import Options
from gridsim.simulation.shared import sharing
from gridsim.simulation.simulate import Simulation
from gridsim.testing import scenarios
from tests._helpers.scenarios import fair_trees
from tests._helpers.sharing import run_in_parts

QUICK = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: Number of examples of a test that runs for a day and a night.
LONG = settings(QUICK, max_examples=5_000)
PARTS = st.integers(2, 3)


def scenario(
    nodes: int = 40, faults: gs.Faults | None = None, cores: int | None = None, **network: Any
) -> gs.Scenario:
    return gs.Scenario(
        platform=gs.Platform.desktop_grid(nodes=nodes, seed=1, cores=cores),
        workload=gs.Workload.bags(applications=8, interarrival=20.0, tasks_per_node=3.0, seed=1),
        network=gs.Network(**network),
        faults=faults,
        seed=1,
    )


def check_parts(given: gs.Scenario, scheduler: gs.FairTree, parts: int) -> None:
    assume(parts <= given.platform.nodes and given.network.latency > given.network.jitter)
    alone, together = gs.simulate(given, scheduler), run_in_parts(given, scheduler, parts)
    assert together.tables == alone.tables
    assert together.digest == alone.digest


@QUICK
@given(scenarios(max_nodes=40, cores=True), fair_trees(), PARTS)
def test_result_does_not_depend_on_processes(
    arguments: gs.Scenario, scheduler: gs.FairTree, parts: int
) -> None:
    check_parts(arguments, scheduler, parts)


@pytest.mark.claims
@LONG
@given(scenarios(max_nodes=40), fair_trees(), PARTS)
def test_result_of_long_runs_does_not_depend_on_processes(
    arguments: gs.Scenario, scheduler: gs.FairTree, parts: int
) -> None:
    check_parts(arguments, scheduler, parts)


@pytest.mark.parametrize(
    "network",
    [{}, {"interfaces": "equal"}, {"jitter": 0.02}, {"interfaces": "equal", "jitter": 0.0499}],
    ids=["fifo", "equal", "fifo differing", "equal differing"],
)
def test_large_messages_are_sent_in_parts(network: dict[str, Any]) -> None:
    """The shared memory has room for a few summaries of 4,000 bytes at a time."""
    scheduler = gs.FairTree(update_on="change", spread="change")
    case = scenario(60, record_use=True, **network)
    assert run_in_parts(case, scheduler, 3, capacity=2**14).tables == gs.simulate(case, scheduler).tables


@pytest.mark.parametrize("cores", [None, 3])
def test_shared_run_equals_a_single_process(cores: int | None) -> None:
    case = scenario(cores=cores)
    alone = gs.simulate(case, gs.FairTree())
    together = gs.simulate(case, gs.FairTree(), processes=2)
    assert together.tables == alone.tables
    assert (together.digest, together.provenance["processes"]) == (alone.digest, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": gs.Fcfs()}, "processes must be 1 with fcfs, whose runs cannot be shared, got 2"),
        ({"record": True}, "processes must be 1 with recordings, got 2"),
        ({"nodes": "interpreted"}, "processes must be 1 with interpreted nodes, got 2"),
        ({"checkpoint": "a.npz"}, "processes must be 1 with checkpoints, got 2"),
        ({"processes": 41}, r"processes must be at most the number of machines \(40\), got 41"),
        ({"processes": 0}, "processes must be a whole number in 1..1024, got 0"),
        (
            {"scenario": scenario(latency=0.01, jitter=0.01)},
            r"processes must be 1 with a message that may take no time "
            r"\(network.latency - network.jitter\), got 2",
        ),
        (
            {"scenario": scenario(faults=gs.Faults.exponential(up=9e3, down=9e2, seed=1))},
            "processes must be 1 with machines that fail, got 2",
        ),
    ],
)
def test_unsupported_runs_cannot_be_shared(options: dict[str, Any], message: str) -> None:
    arguments = {"scenario": scenario(), "scheduler": gs.FairTree(), "processes": 2, **options}
    with pytest.raises(gs.ScenarioError, match=f"^{message}$"):
        gs.simulate(**arguments)


@pytest.mark.parametrize(
    ("scheduler", "options", "network", "message"),
    [
        (gs.ExpandingRing(), Options(), {}, "^join requires handlers in Cython"),
        (gs.FairTree(), Options(record="messages"), {}, "^join does not support records"),
        (
            gs.FairTree(),
            Options(),
            {"latency": 0.0},
            "^links must delay each message by at least 1 ns, got 0$",
        ),
    ],
    ids=["interpreted", "recorded", "no delay"],
)
def test_a_core_that_processes_cannot_share_is_rejected(
    scheduler: gs.Scheduler, options: Options, network: dict[str, Any], message: str
) -> None:
    run = Simulation(scenario(4, **network), scheduler, options)
    policy: Any = run.policy
    with pytest.raises(ValueError, match=message):
        policy.core.join(np.zeros(4, np.int64), 0, 1, np.zeros(2**16, np.uint8), len)


def end(share: ProcessShare) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (end, gs.GridSimError, "was killed"),
        (len, TypeError, "len"),
        (type, gs.GridSimError, "ended before the others"),
    ],
)
def test_error_of_another_process_is_raised(
    part: Any, error: type[BaseException], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that waits for the other one raises the same error."""
    # the folder in which the other process finds this module; it is last, so that an installed gridsim
    # precedes it
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[3])])
    with pytest.raises(error, match=message), sharing(2, part) as share:
        while True:
            share.watch()
