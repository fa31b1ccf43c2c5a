"""The registry of metrics: requests, values of a result, and the metrics shown by default."""

from __future__ import annotations

import math

import pytest

from gridsim.errors import ScenarioError
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.optimization.bounds import BOUND_LIMIT
from gridsim.results.metrics import registry as measures
from gridsim.results.metrics.registry import (
    ALIASES,
    METRICS,
    default_metrics,
    metric_values,
    requested_metrics,
)
from gridsim.simulation.simulate import simulate

SCENARIO = Scenario(Platform.of([1000.0, 2000.0]), Workload.of([0.0, 10.0], [10, 20], 1000.0))


def test_metrics_are_requested_by_name_and_by_function():
    def twice(result):
        return 2 * result.makespan

    assert requested_metrics(["gap", "failed"]) == {"gap": None, "failed": None}
    assert requested_metrics({"twice": twice, "gap": len}) == {"twice": twice, "gap": len}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("gap", "metrics must be a list of names, or map names to functions, got 'gap'"),
        ({"gap": 3}, "metrics['gap'] must be a function of a result, got 3"),
        (
            ["gap", "speed"],
            f"metrics must be names of metrics, got 'speed'; known: {', '.join((*METRICS, *ALIASES))}",
        ),
        (
            {"speed": None},
            f"metrics must be names of metrics, got 'speed'; known: {', '.join((*METRICS, *ALIASES))}",
        ),
        ([], "metrics must contain at least one name, got none"),
        (["gap", 3], "metrics must be a list of names, got the entry 3"),
        ({None: len}, "metrics must be a list of names, got the entry None"),
    ],
)
def test_invalid_requests_for_metrics_are_rejected(metrics, message):
    with pytest.raises(ScenarioError) as refused:
        requested_metrics(metrics)
    assert str(refused.value) == message


def test_metric_values_have_all_metrics_of_a_run(toy):
    result = simulate(SCENARIO, toy())
    values = metric_values(result, {"gap": None, "twice": lambda result: 2 * result.makespan})
    assert [*values] == [*METRICS, "twice"]
    for name, metric in METRICS.items():
        assert values[name] == metric(result) or math.isnan(values[name]) and math.isnan(metric(result))
    assert values["twice"] == 2 * values["makespan"] and {type(value) for value in values.values()} == {float}


def test_bounds_of_many_applications_are_computed_only_on_request(toy, monkeypatch):
    """The limit itself is included."""
    assert BOUND_LIMIT > 2
    result, costly = simulate(SCENARIO, toy()), {"gap", "lower_bound"}
    monkeypatch.setattr(measures, "BOUND_LIMIT", 2)
    assert costly <= {*metric_values(result, {})}
    monkeypatch.setattr(measures, "BOUND_LIMIT", 1)
    assert {*METRICS} - {*metric_values(result, {})} == costly
    assert {*METRICS} - {*metric_values(result, {"gap": None})} == {"lower_bound"}


@pytest.mark.parametrize(
    ("migrated", "wasted", "rigid", "first"),
    [
        (math.nan, math.nan, False, ["max_stretch_agg", "mean_stretch_agg", "gap"]),
        (
            math.nan,
            math.nan,
            True,
            ["mean_waiting", "mean_waiting_by_cores", "median_waiting", "mean_slowdown", "failed"],
        ),
        (
            0.0,
            0.0,
            True,
            ["mean_waiting", "mean_waiting_by_cores", "median_waiting", "mean_slowdown", "failed"],
        ),
        (0.0, 0.0, False, ["mean_turnaround", "migrated", "messages_per_job"]),
        (math.nan, 0.0, False, ["mean_completion", "wasted", "max_stretch_agg"]),
    ],
)
def test_default_metrics_depend_on_the_runs(migrated, wasted, rigid, first):
    always = ["makespan", "utilization", "messages", "bytes"]
    values = dict.fromkeys(METRICS, 1.0) | {"migrated": migrated, "wasted": wasted}
    values |= dict.fromkeys(root := ["requests_at_root", "decision_wait_mean_s"], math.nan)
    assert default_metrics([values, values], rigid) == first + always
    # metrics of fair trees are shown if one of the runs is of a fair tree
    assert default_metrics([values, values | dict.fromkeys(root, 0.5)], rigid) == first + always + root
    # a metric that one of the runs lacks is neither an indicator nor shown
    unlike = values | {"migrated": math.nan, "wasted": math.nan}
    del unlike["mean_stretch_agg"], unlike["gap"], unlike["bytes"], unlike["failed"]
    usual = (
        ["mean_waiting", "mean_waiting_by_cores", "median_waiting", "mean_slowdown"]
        if rigid
        else ["max_stretch_agg"]
    )
    assert default_metrics([values, unlike], rigid) == usual + always[:-1]
    del unlike["migrated"], unlike["wasted"]  # as in the row of a store
    assert default_metrics([values, unlike], rigid) == usual + always[:-1]


def test_all_default_metrics_are_shown_without_runs():
    assert default_metrics([], False)[:3] == ["max_stretch_agg", "mean_stretch_agg", "gap"]
    assert default_metrics([{"makespan": 1.0, "migrated": math.nan, "wasted": math.nan}], False) == [
        "max_stretch_agg",
        "makespan",
    ]
