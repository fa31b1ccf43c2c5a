"""Edge cases of the fair tree: promises met exactly, immediate placements, unchanged minimum stretches."""

from __future__ import annotations

from typing import Any

import numpy as np

import gridsim as gs

#: Messages take no time.
AT_ONCE = gs.Network(latency=0.0, bandwidth=np.inf)


def test_a_promise_that_is_met_exactly_is_kept() -> None:
    bag = gs.Workload.of([0.0], [2], 1000.0, [0])
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 2), bag, AT_ONCE)
    result = gs.simulate(scenario, gs.FairTree(grid=((0.0005, 0.001), (2000.0,), (1000.0,))))
    requests = result.tables["requests"]
    assert requests["promised"].tolist() == requests["stretch"].tolist() == [0.0005]
    assert requests["kept"].tolist() == [1]


def test_accounting_of_messages_ends_with_the_last_placement() -> None:
    bag = gs.Workload.of([5.0], [1], 1e6, [0], origin=0.0)
    scenario = gs.Scenario(gs.Platform.of([1000.0]), bag, AT_ONCE)
    result = gs.simulate(scenario, gs.FairTree(samples=(4, 3, 2), run_on=True))
    assert result.applications["finish"].tolist() == [1005.0]
    assert result.facts["ledger_end_s"] == 5.0


def test_unchanged_minimum_stretch_is_not_forwarded() -> None:
    """All eight machines are idle at 300 s: the root sends the minimum, which its routers know already."""
    bag = gs.Workload.of([10.0], [8], 1000.0, [0], origin=0.0)
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 8), bag, AT_ONCE)
    parameters: dict[str, Any] = {
        "accept": "minimum",
        "samples": (4, 3, 2),
        "heartbeat": 300.0,
        "run_on": True,
    }
    senders = {}
    for spread in ("change", "heartbeat"):
        tree = gs.FairTree(spread=spread, **parameters)  # type: ignore[arg-type]
        log = gs.simulate(scenario, tree, record="messages").tables["message_log"]
        late = (log["kind"] == "spread") & (log["sent"] >= 300.0)
        senders[spread] = sorted(log["sender"][late].tolist())
    assert senders == {"change": [0, 0], "heartbeat": [0, 0, 1, 1, 2, 2]}
