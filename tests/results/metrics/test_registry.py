"""The registry of metrics: requests, values of a result, and the metrics shown by default."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import gridsim as gs
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
    heading,
    metric_values,
)
from gridsim.results.metrics.selection import requested_metrics
from gridsim.simulation.simulate import simulate

SCENARIO = Scenario(Platform.of([1000.0, 2000.0]), Workload.of([0.0, 10.0], [10, 20], 1000.0))


RIGID = [
    "mean_waiting", "mean_waiting_by_cores", "median_waiting", "p95_waiting", "mean_slowdown",
    "mean_slowdown_by_cores", "offered_utilization", "failed",
]  # fmt: skip


def test_metrics_are_requested_by_name_and_by_function():
    def twice_makespan(result):
        return 2 * result.makespan

    assert requested_metrics(["gap", "failed"]) == {"gap": None, "failed": None}
    assert requested_metrics({"twice": twice_makespan, "gap": len}) == {"twice": twice_makespan, "gap": len}
    both = {"twice_makespan": twice_makespan, "makespan": None}
    assert requested_metrics([twice_makespan, "makespan", "makespan"]) == both
    assert requested_metrics({"twice_makespan": twice_makespan, "makespan": "makespan"}) == both
    assert requested_metrics(twice_makespan) == {"twice_makespan": twice_makespan}
    assert (
        requested_metrics({"stretch": "stretch"})
        == requested_metrics(["stretch"])
        == {"max_stretch_agg": None}
    )


def _other_len(result):
    return 0.0


_other_len.__name__ = "len"


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("gap", "metrics must be a list of names and functions, or map names to functions, got 'gap'"),
        (3, "metrics must be a list of names and functions, or map names to functions, got 3"),
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
        (["gap", 3], "metrics must be names and functions, got the entry 3"),
        ({"span": "makespan"}, "metrics['span'] must be a function of a result, got 'makespan', a metric of"),
        ([len, _other_len], "metrics must have different names, got 'len' for several"),
        ([lambda result: 1], "metrics[0] must be a function with a name, got <function <lambda> at "),
        ({None: len}, "metrics must be names and functions, got the entry None"),
    ],
)
def test_invalid_requests_for_metrics_are_rejected(metrics, message):
    with pytest.raises(ScenarioError) as refused:
        requested_metrics(metrics)
    assert str(refused.value).startswith(message)


def test_the_heading_of_the_response_time_names_it_and_its_key():
    title = heading("mean_completion", "h (mean)")
    assert title == "mean response time (mean_completion), h (mean)"


@pytest.mark.parametrize("value", ["3.5", "text", None, [1.0, 2.0], 10**400])
def test_a_metric_that_returns_no_number_is_named_with_its_file(toy, value):
    def own(result):
        return value

    with pytest.raises(
        ScenarioError, match=r"^metrics\['own'\] must return a number, got .*test_registry.py:\d"
    ):
        metric_values(simulate(SCENARIO, toy()), {"own": own})


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
    for name in costly:
        assert {*METRICS} == {*metric_values(result, {name: None})}


def test_bounds_are_left_out_if_only_other_metrics_are_requested(toy):
    result, costly = simulate(SCENARIO, toy()), {"gap", "lower_bound"}
    for functions in ({"makespan": None}, {"twice": lambda result: 2 * result.makespan}):
        assert {*METRICS} - {*metric_values(result, functions)} == costly


@pytest.mark.parametrize(
    ("migrated", "wasted", "rigid", "first"),
    [
        (math.nan, math.nan, False, ["max_stretch_agg", "mean_stretch_agg", "gap"]),
        (
            math.nan,
            math.nan,
            True,
            RIGID,
        ),
        (
            0.0,
            0.0,
            True,
            RIGID,
        ),
        (0.0, 0.0, False, ["mean_turnaround", "migrated", "messages_per_job"]),
        (math.nan, 0.0, False, ["mean_completion", "wasted", "max_stretch_agg"]),
    ],
)
def test_default_metrics_depend_on_the_runs(migrated, wasted, rigid, first):
    always = ["makespan", "utilization", "messages", "bytes"]
    values = dict.fromkeys(METRICS, 1.0) | {"migrated": migrated, "wasted": wasted}
    occasional = [*(root := ["requests_at_root", "decision_wait_mean_s"]), "terminated", "energy", "carbon"]
    values |= dict.fromkeys(occasional, math.nan)
    assert default_metrics([values, values], rigid) == first + always
    silent = values | {"messages": 0.0, "bytes": 0.0}
    unmessaged = [name for name in first if name != "messages_per_job"]
    assert default_metrics([silent, silent], rigid) == unmessaged + always[:2]
    assert default_metrics([silent, values], rigid) == first + always
    # metrics of fair trees are shown if one of the runs is of a fair tree
    assert default_metrics([values, values | dict.fromkeys(root, 0.5)], rigid) == first + always + root
    killing = [values, values | {"terminated": 2.0}]
    assert default_metrics(killing, rigid) == [*first, *always, "terminated"]
    # a metric that one of the runs lacks is neither an indicator nor shown
    unlike = values | {"migrated": math.nan, "wasted": math.nan}
    del unlike["mean_stretch_agg"], unlike["gap"], unlike["bytes"], unlike["failed"]
    usual = RIGID[:-1] if rigid else ["max_stretch_agg"]
    assert default_metrics([values, unlike], rigid) == usual + always[:-1]
    del unlike["migrated"], unlike["wasted"]  # rows of a store lack these metrics instead of having NaN
    assert default_metrics([values, unlike], rigid) == usual + always[:-1]


def test_all_default_metrics_are_shown_without_runs():
    assert default_metrics([], False)[:3] == ["max_stretch_agg", "mean_stretch_agg", "gap"]
    assert default_metrics([{"makespan": 1.0, "migrated": math.nan, "wasted": math.nan}], False) == [
        "max_stretch_agg",
        "makespan",
    ]


def _killing(killed: list[int]) -> gs.Result:
    """Return the result of three jobs, of which the last ends after the last release."""
    jobs = gs.Workload.jobs_of(release=[0.0, 10.0, 20.0], nodes=[1, 2, 1], run_time=[30.0, 5.0, 40.0])
    run = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs), gs.BatchQueue(backfill="none"))
    table = gs.Table({**dict(run.applications.items()), "terminated": np.array(killed)})
    tables = {**run.tables, "applications": table}
    return gs.Result(tables=tables, facts={}, scheduler=run.scheduler, provenance=run.provenance)


def test_rigid_metrics_are_as_computed_by_hand() -> None:
    """Starts at 0, 30 and 35 s: waits of 0, 20 and 15 s; in the first 20 s one of two machines is busy."""
    result = _killing([0, 1, 1])
    assert result.applications["waiting"].tolist() == [0, 20, 15]
    assert result.mean_waiting_by_cores == (0 + 2 * 20 + 15) / 4
    assert result.p95_waiting == pytest.approx(15 + 0.9 * 5)
    slowdown = [1, 2.5, 55 / 40]
    assert result.applications["slowdown"].tolist() == slowdown
    assert result.mean_slowdown_by_cores == (slowdown[0] + 2 * slowdown[1] + slowdown[2]) / 4
    assert result.core_hours == (30 + 10 + 40) / 3600
    assert result.offered_utilization == 20 / (2 * 20) and result.utilization == 80 / (2 * 75)
    assert measures.SUMMARY["terminated"](result) == 2 == result.summary()["terminated"]
    assert not [name for name in result.summary() if re.search("stretch|bound|gap", name)]
    with pytest.raises(ScenarioError, match="bound must be one of"):
        result.summary("tight")  # type: ignore[arg-type]
    assert "killed        2 of 3 jobs" in result.format()
    spared = _killing([0, 0, 0])
    table, other = (
        gs.Comparison(run.scenario, {"fcfs": run}, "fcfs").overview().tables[0] for run in (result, spared)
    )
    assert dict(zip(table.head, table.rows[0], strict=True))["killed", "jobs"] == "2"
    assert ("killed", "jobs") not in other.head


def test_runs_without_kills_have_no_metric_of_them() -> None:
    jobs = gs.Workload.jobs_of(release=[0.0], nodes=[1], run_time=[5.0])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs), gs.BatchQueue())
    assert math.isnan(measures.METRICS["terminated"](result)) and "terminated" not in result.summary()
    # all jobs are released at one instant: nothing is offered before the last release
    assert math.isnan(result.offered_utilization) and "- from first to last release" in result.format()


def test_offered_utilization_counts_from_the_earliest_start_that_a_job_states() -> None:
    """The job reserves from 50 s on; before, no machine is busy."""
    jobs = gs.Workload.jobs_of(
        release=[0.0, 100.0], nodes=[1, 1], run_time=[10.0, 10.0], not_before=[50.0, 100.0]
    )
    result = gs.simulate(gs.Scenario(gs.Platform.equal(1), jobs), gs.Asap(slot=1.0))
    assert result.offered_utilization == pytest.approx(0.1)
