from __future__ import annotations

import math

import pytest

import gridsim as gs
from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import searches
from gridsim.reproduce.others.searches import COMPARED_METHODS, LOADS, METHODS, METRICS, BagsAtLoad

pytestmark = pytest.mark.slow


def test_medium_load_is_not_judged(monkeypatch):
    monkeypatch.setattr(searches, "NODES", (300, 20))
    monkeypatch.setattr(searches, "APPLICATIONS", (300, 6))
    report = searches.SEARCHES.run(Run([1], quick=True))
    verdicts = [row for row in report.rows if row.verdict]
    assert len(report.rows) == len(LOADS) * (4 + 1) * len(COMPARED_METHODS)
    assert len(verdicts) == len(report.rows) * 2 / 3
    assert not any(row.quantity.startswith("medium: ") for row in verdicts)
    assert [list(grid.rows) for grid in report.grids] == [list(METHODS)] * len(METRICS)


@pytest.mark.parametrize("load", LOADS)
def test_bags_have_the_stated_load(load):
    drawn_scenario = BagsAtLoad(load, 50, 2000)(3)
    workload = drawn_scenario.workload.realize(drawn_scenario.platform)
    assert gs.offered_load(workload, drawn_scenario.platform) == pytest.approx(LOADS[load], rel=0.1)


def test_metrics_of_searches_are_as_computed_by_hand():
    """One of two tasks runs at the submitter; one query finds a machine for the other."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of([10.0], [2], [1e5], [0]),
        gs.Network(latency=0.5, bandwidth=math.inf),
    )
    result = gs.simulate(scenario, gs.ExpandingRing(hop_time=1.0))
    values = {name: metric(result) for name, metric in METRICS.items()}
    # two hellos; query, offer, task
    assert values == pytest.approx(
        {"messages": 5.0, "search messages": 3.0, "time": 1.0, "turnaround": 101.5, "short": 0.0}
    )
    alone = gs.simulate(
        gs.Scenario(gs.Platform.of([1000.0]), gs.Workload.of([0.0], [1], [1e5])), gs.ExpandingRing()
    )
    assert {name for name, metric in METRICS.items() if math.isnan(metric(alone))} == {
        "messages", "search messages", "time", "short"
    }  # fmt: skip
