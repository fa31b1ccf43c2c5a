"""Metrics of jobs that may move, for tables written by hand, in results and in comparisons."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.metrics.formulas import prediction_errors, running_mean
from gridsim.results.metrics.registry import UNITS
from gridsim.results.metrics.turnaround import mean_until, series

NAN = math.nan
SCENARIO = gs.Scenario(
    gs.Platform.of([100.0, 200.0]),
    gs.Workload.of([0.0, 4.0, 10.0], [1, 2, 1], 1000.0, [0, 0, 1], data=100),
    gs.Network(latency=1.0, bandwidth=1000.0),
    seed=1,
)
METRICS = "mean_turnaround", "migrated", "prediction_error", "prediction_undefined", "messages_per_job"


def result_by_hand(**changes: Any) -> gs.Result:
    """Return a result of four jobs that return at 20, 9, 12 and 12 s; two moved, of which one waited."""
    run = gs.simulate(SCENARIO, gs.NoMigration())
    jobs = {
        "application": [0, 1, 1, 2],
        "machine": [0, 1, 1, 1],
        "probes": [1, 1, 1, 0],
        "predicted": [NAN, 0.0, 3.0, NAN],
        "waited": [10.0, 0.0, 2.0, 4.0],
        "turnaround": [20.0, 5.0, 8.0, 2.0],
    }
    messages = {
        "kind": ["probe", "job"], "sent": [5, 1], "delivered": [5, 1], "dropped": [0, 0], "in_flight": [0, 0],
        "bytes": [500, 100],
    }  # fmt: skip
    tables = {**run.tables, "jobs": gs.Table({**jobs, **changes}), "messages": gs.Table(messages)}
    return gs.Result(
        tables=tables, facts={}, scheduler=run.scheduler, provenance=run.provenance, scenario=SCENARIO
    )


# -- functions ------------------------------------------------------------------------------------------


def test_the_running_mean_is_as_computed_by_hand() -> None:
    time, means = running_mean(np.array([9.0, 3.0, 5.0]), np.array([6.0, 2.0, 4.0]))
    assert (time.tolist(), means.tolist()) == ([3.0, 5.0, 9.0], [2.0, 3.0, 4.0])
    # jobs that return at one instant keep their order
    time, means = running_mean(np.array([5.0, 5.0]), np.array([1.0, 3.0]))
    assert (time.tolist(), means.tolist()) == ([5.0, 5.0], [1.0, 2.0])
    assert [len(column) for column in running_mean(np.zeros(0), np.zeros(0))] == [0, 0]


def test_prediction_errors_are_as_computed_by_hand() -> None:
    """Predictions are too long and too short; jobs that stayed or did not wait have no error."""
    predicted = np.array([3.0, 1.0, 4.0, NAN, 5.0, 0.0, NAN])
    actual = np.array([2.0, 4.0, 4.0, 7.0, 0.0, 0.0, 0.0])
    assert prediction_errors(predicted, actual).tolist() == [0.5, 0.75, 0.0]
    assert prediction_errors(np.array([NAN]), np.array([1.0])).tolist() == []


def test_the_series_of_turnaround_is_as_computed_by_hand() -> None:
    actual = series(result_by_hand())
    assert actual.time.tolist() == [9.0, 12.0, 12.0, 20.0]
    assert actual.mean_turnaround.tolist() == [5.0, 6.5, 5.0, 8.75]
    # three jobs were submitted by 9 s, all four by 12 s
    assert actual.observation.tolist() == [3.0, 3.0, 3.0, 5.0]
    # a job that is submitted at 10 s counts at 10 s
    at_once = series(result_by_hand(turnaround=[10.0, 9.0, 9.0, 5.0]))
    assert (at_once.time[0], at_once.observation[0]) == (10.0, 2.5)
    with pytest.raises(KeyError, match="jobs"):
        series(gs.simulate(SCENARIO, gs.Fcfs()))


def test_the_mean_until_an_instant_is_as_computed_by_hand() -> None:
    result = result_by_hand()
    assert math.isnan(mean_until(result, 8.9))
    assert [mean_until(result, instant) for instant in (9.0, 11.9, 12.0, 19.9, 20.0, 1e9)] == [
        5,
        5,
        5,
        5,
        8.75,
        8.75,
    ]


# -- results --------------------------------------------------------------------------------------------


def test_a_result_has_the_metrics_of_turnaround() -> None:
    result = result_by_hand()
    assert [getattr(result, name) for name in METRICS] == [8.75, 0.5, 0.5, 1.0, 1.5]
    summary = result.summary()
    assert [summary[name] for name in METRICS] == [8.75, 0.5, 0.5, 1.0, 1.5]
    assert set(METRICS) <= UNITS.keys()
    text = " ".join(result.format().split())
    assert "turnaround mean 8.75 s (until the result is back)" in text
    assert "50 % of the jobs, with 1.5 messages a job; predicted waits are wrong by 50 %" in text


def test_predictions_without_a_wait_have_no_error() -> None:
    """No job that moved had to wait."""
    result = result_by_hand(waited=[10.0, 0.0, 0.0, 4.0])
    assert result.prediction_undefined == 2
    assert math.isnan(result.prediction_error) and "predicted" not in result.format()
    assert "nan" not in gs.simulate(SCENARIO, gs.NoMigration()).format().split("wall time")[0]


def test_metrics_of_turnaround_are_undefined_without_jobs() -> None:
    result = gs.simulate(SCENARIO, gs.Fcfs())
    assert all(math.isnan(getattr(result, name)) for name in METRICS)
    assert not set(METRICS) & result.summary().keys() and "turnaround" not in result.format()


def test_a_saved_result_keeps_the_metrics_of_turnaround(tmp_path: Any) -> None:
    result = gs.simulate(SCENARIO, gs.Rjss(k=1.0))
    result.save(tmp_path / "r.npz")
    copy = gs.Result.load(tmp_path / "r.npz")
    assert copy.tables == result.tables
    np.testing.assert_equal([getattr(copy, m) for m in METRICS], [getattr(result, m) for m in METRICS])


# -- comparisons ----------------------------------------------------------------------------------------


def test_schedulers_are_compared_by_the_mean_turnaround() -> None:
    """The measure is the turnaround if all results have it, else the maximum stretch."""
    both = gs.compare(SCENARIO, {"nm": gs.NoMigration(), "rjss": gs.Rjss(k=1.0)})
    assert both.measure == "mean_turnaround"
    assert both.ratio("rjss") == both["rjss"].mean_turnaround / both["nm"].mean_turnaround < 1.0
    # turnarounds at home: 10 s, 10 s after a wait of 6 s, 26 s, and 5 s for node 1's own job
    assert both["nm"].mean_turnaround == pytest.approx((10 + 16 + 26 + 5) / 4)
    assert "nm (ratios are relative to it)" in both.format()

    mixed = gs.compare(SCENARIO, {"nm": gs.NoMigration(), "fcfs": gs.Fcfs()}, baseline="nm")
    assert mixed.measure == "max_stretch"
    assert mixed.ratio("fcfs") == mixed["fcfs"].max_stretch / mixed["nm"].max_stretch
    text = mixed.format(width=200, verbose=True).splitlines()
    header, unit, nm, fcfs = text[text.index("") + 1 :][:4]
    index = slice(header.index("turnaround"), header.index("turnaround") + len("turnaround"))
    assert (unit[index].strip(), nm[index].strip(), fcfs[index].strip()) == ("mean, s", "14.25", "-")
    units = json.loads(mixed.to_json())["units"]
    assert units["ratio"] == "1 (max stretch / that of nm)"
    assert units["mean_turnaround"] == UNITS["mean_turnaround"]
    assert "turnaround" not in gs.compare(SCENARIO, {"fcfs": gs.Fcfs()}).format()
