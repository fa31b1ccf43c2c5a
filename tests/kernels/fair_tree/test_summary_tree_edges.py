"""Edges of the summary tree: rejected input, and states that are rejected late."""

from __future__ import annotations

import math

import pytest

import gridsim as gs
from gridcore.common.state import LATEST
from gridcore.fair_tree import summary_tree as tree
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation

GRID = SummaryGrid([0.5, 1.0, 2.0], [1.0, 4.0, 16.0], [0.5, 1.0, 3.0])
OPTIONS = {"release": [0.0], "size": [4.0], "task_size": [1.0], "nbytes": 100}


REFUSED = [
    (lambda: tree.SummaryTree(GRID, [], **OPTIONS), ValueError, "speed must have at least one entry"),
    (
        lambda: tree.SummaryTree(GRID, [1.0, 0.0], **OPTIONS),
        ValueError,
        r"speed\[1\] must be finite and > 0",
    ),
    (lambda: tree.SummaryTree(GRID, ["1"], **OPTIONS), TypeError, "^speed must hold real numbers"),
    *(
        (
            lambda name=name: tree.SummaryTree(GRID, [1.0], **{**OPTIONS, name: ["1", "1"]}),
            TypeError,
            f"^{name} must hold real numbers",
        )
        for name in ("size", "task_size", "release")
    ),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **{**OPTIONS, "task_size": [1.0, 0.0]}),
        ValueError,
        r"^task_size\[1\] must be finite and > 0, got 0.0",
    ),
    (lambda: tree.SummaryTree("grid", [1.0], **OPTIONS), TypeError, "grid must be a SummaryGrid, got str"),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **OPTIONS, rate=math.nan),
        ValueError,
        "rate, bound, hold_off and nbytes must be >= 0, got nan, 2.0, 0, 100",
    ),
    (lambda: tree.SummaryTree(GRID, [1.0], **OPTIONS, bound=-1), ValueError, "must be >= 0, got 0.0, -1.0"),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **OPTIONS, rate=1e-300),
        ValueError,
        r"rate must allow a summary of 100 bytes within 2\*\*62 ns, got 1e-300",
    ),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **OPTIONS, hold_off=LATEST + 1),
        ValueError,
        rf"^hold_off must be at most {LATEST} ns, got {LATEST + 1}$",
    ),
    (
        # a summary takes 2**62 ns
        lambda: tree.SummaryTree(GRID, [1.0], **OPTIONS, rate=100 / (2**62 / 1e9)),
        ValueError,
        r"rate must allow a summary of 100 bytes within 2\*\*62 ns, got 2.168404344971009e-08",
    ),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **{**OPTIONS, "size": [math.nan]}),
        ValueError,
        r"size\[0\] must",
    ),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **{**OPTIONS, "size": [1.0, 2.0]}),
        ValueError,
        "task_size must have as many entries as size, got 1 and 2",
    ),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **{**OPTIONS, "release": []}),
        ValueError,
        "release must have as many entries as size, got 0 and 1",
    ),
    (
        lambda: tree.SummaryTree(GRID, [1.0], **{**OPTIONS, "release": [math.inf]}),
        ValueError,
        r"release\[0\] must",
    ),
    (lambda: small_tree().leave([2, 3]), ValueError, r"^nodes\[1\] must be in 0\.\.2, got 3$"),
    (lambda: small_tree().silence([0.5]), TypeError, "^nodes must hold integers, got dtype float64$"),
    (lambda: small_tree().reset([0.5]), TypeError, "^nodes must hold integers, got dtype float64$"),
    (lambda: small_tree().add_applications([0.0], [1.0], [0.0]), ValueError, r"^task_size\[0\] must be"),
]


def small_tree():
    return tree.SummaryTree(GRID, [1.0, 1.0], **OPTIONS)


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_bad_input_is_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()


def tree_in_use():
    """Return a tree in the middle of a run, with summaries in use."""
    scenario = gs.Scenario(
        gs.Platform.of([1.0] * 5), gs.Workload.of([0.0, 3.0], [40, 9], 1.0, [2, 4]), gs.Network(jitter=0.04)
    )
    run = Simulation(scenario, gs.FairTree(grid=((0.5, 1.0, 2.0), (1.0, 4.0, 16.0), (1.0,))), Options())
    run.engine.run(20 * 10**9)
    return run.policy


def test_the_number_of_payloads_stays_bounded():
    """Each node refers to its last summary and to the one its parent has; no message is in flight."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(20, seed=1),
        gs.Workload.bags(30, interarrival=20.0, tasks_per_node=2.0, task_size=(100.0, 5000.0), seed=2),
        gs.Network(jitter=0.04),
        faults=gs.Faults.exponential(100.0, 10.0, seed=3),
    )
    run = Simulation(scenario, gs.FairTree(samples=(4, 3, 2), heartbeat=20.0), Options())
    seen = []
    run.engine.at_wave_end(lambda: seen.append((run.policy.tree.payloads_in_use, messages_in_flight(run))))
    run.engine.run()
    nodes = 2 * 20 - 1
    assert len(seen) > 50 and all(used <= 2 * nodes + flying for used, flying in seen)


def messages_in_flight(run):
    return int(run.network.links.in_flight()[0]) + 20  # about 20 further messages stay on their machine


def test_a_state_that_is_rejected_late_leaves_no_summary_in_use():
    """A summary both in use and free would be freed twice."""
    policy = tree_in_use()
    one = policy.tree
    state = one.getstate()
    narrow = list(state["narrow"])
    assert one.payloads_in_use and narrow
    with pytest.raises(ValueError, match="wide"):
        one.setstate({**state, "narrow": narrow, "wide": [7]})
    assert one.payloads_in_use == 0
