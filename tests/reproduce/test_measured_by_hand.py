"""Metrics of reproductions, on tables written by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from gridsim.reproduce.celaya import common as celaya_common
from gridsim.reproduce.celaya import failures as celaya_failures
from gridsim.reproduce.celaya import table1 as celaya_table1
from gridsim.reproduce.dgs import common as dgs_common
from gridsim.reproduce.dgs import figures as dgs_figures
from gridsim.reproduce.dgs import tables as dgs_tables
from gridsim.reproduce.dgs import utilization as dgs_utilization
from gridsim.reproduce.framework import latest_update
from gridsim.reproduce.others import waves
from gridsim.reproduce.rjss import prediction as rjss_prediction
from gridsim.studies.replicate_result import Replicates

pytestmark = pytest.mark.slow


def result(**tables):
    """Return a result with tables of these columns."""
    columns_by_table = {name: columns(**arguments) for name, arguments in tables.items()}
    here = {
        name: columns_by_table.pop(name)
        for name in ("applications", "machines", "messages")
        if name in columns_by_table
    }
    return SimpleNamespace(tables=columns_by_table, **here)


class Table(dict):
    """Table of columns, whose length is that of a column."""

    def __len__(self):
        return len(next(iter(self.values())))


def columns(**given):
    return Table((name, np.array(values)) for name, values in given.items())


# -- updates, and link use --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ages", "longest"),
    [
        # the longest age is that of a change at 99 s; it becomes the second longest when the first
        # application is released, and counts from 100 s
        ([5.0, 4.0, 1.0], 4.0),
        ([5.0, 4.5, 1.0], 1.0),
        ([5.0, 4.5, 30.0], math.nan),
    ],
)
def test_the_longest_update_ignores_changes_before_the_first_release(ages, longest):
    table_result = result(
        updates={"arrived": [104.0, 104.0, 120.0], "age": ages}, applications={"release": [100.0, 130.0]}
    )
    assert latest_update(table_result) == pytest.approx(longest, nan_ok=True)


def test_use_of_links_is_as_computed_by_hand():
    use = {"use_mean": [0.1, 0.3], "use_peak_1s": [0.2, 0.5], "use_peak_10s": [0.2, 0.4]}
    table_result = result(
        machines=use, messages={"kind": ["summary", "task", "summary"], "bytes": [30.0, 20.0, 50.0]}
    )
    assert celaya_table1.mean_use(table_result) == pytest.approx(20.0)
    assert (celaya_table1.peak_1s(table_result), celaya_table1.peak_10s(table_result)) == (50.0, 40.0)
    assert celaya_table1.summary_share(table_result) == pytest.approx(80.0)


def test_data_ratio_and_summaries_per_task_are_as_computed_by_hand():
    """Messages of 30 bytes cross two interfaces; the 600 bytes that each machine fetches cross one."""
    table_result = result(
        machines={"data_in": [600.0, 600.0], "bytes_in": [10, 20], "bytes_out": [20, 10]},
        messages={"kind": ["summary", "task"], "sent": [6, 9]},
        applications={"tasks": [1, 3]},
    )
    assert (celaya_table1.data_ratio(table_result), celaya_table1.summaries_per_task(table_result)) == (
        20.0,
        1.5,
    )


def test_stretches_and_resubmitted_shares_are_as_computed_by_hand():
    table_result = result(machines={"tasks": [3, 6]}, applications={"tasks": [6, 6], "resubmitted": [1, 2]})
    table_result.min_stretch, table_result.max_stretch = 2e-6, 1e-4
    assert (celaya_failures.smallest(table_result), celaya_common.largest(table_result)) == pytest.approx(
        (200.0, 10_000.0)
    )
    assert (celaya_failures.completed(table_result), celaya_failures.resubmitted(table_result)) == (
        75.0,
        25.0,
    )


def test_turnaround_and_moves_are_as_computed_by_hand():
    table_result = result(applications={"tasks": [1, 3], "migrated": [2, 4], "resumed": [0, 2]})
    table_result.mean_completion = 7200.0
    assert [metric(table_result) for metric in waves.METRICS.values()] == [2.0, 1.5, 0.5]


# -- rigid jobs -------------------------------------------------------------------------------------------


def test_the_ratio_of_median_waits_is_as_computed_by_hand():
    """Waits have medians of 90 s and 30 s for large and small jobs; other jobs are left out."""
    table_result = result(
        applications={
            "tasks": [64, 100, 64, 1, 1, 1, 2, 63, 200],
            "run_time": [60.0] * 9,
            "waiting": [60.0, 90.0, 120.0, 20.0, 30.0, 40.0, 999.0, 1.0, math.nan],
        }
    )
    assert dgs_figures.medians(table_result, "nodes", 64.0, 2.0) == 3.0
    assert dgs_figures.FIG5_METRICS["nodes ends"](table_result) == 3.0
    assert math.isnan(dgs_figures.FIG5_METRICS["duration ends"](table_result))


@pytest.mark.parametrize(
    ("kind", "tasks", "run_time"),
    [
        ("nodes", [1, 1, 128, 64], [9.0, 9.0, 9.0, 9.0]),
        ("duration", [9, 9, 9, 9], [60.0, 3599.0, 86_400.0, 1e6]),
        ("area", [1, 2, 10, 200], [1800.0, 900.0, 360_000.0, 36_000.0]),
    ],
)
def test_ratios_and_correlations_show_whether_large_jobs_wait_longer(kind, tasks, run_time):
    jobs = {"tasks": tasks, "run_time": run_time}
    longer = result(applications=jobs | {"waiting": [10.0, 20.0, 50.0, 40.0]})
    shorter = result(applications=jobs | {"waiting": [40.0, 50.0, 20.0, 10.0]})
    assert dgs_figures.FIG5_METRICS[f"{kind} ends"](longer) == 3.0
    assert dgs_figures.FIG5_METRICS[f"{kind} ends"](shorter) == pytest.approx(1 / 3)
    assert dgs_figures.FIG5_METRICS[kind](longer) > 0.3 and dgs_figures.FIG5_METRICS[kind](shorter) < -0.3


def test_the_share_of_large_jobs_without_delay_is_as_computed_by_hand():
    """Two of twenty jobs are large, and one of these starts with the next slot."""
    waiting = [66.0, 67.0, *[30.0] * 9, *[300.0] * 9]
    tasks = [90, 90, *[1] * 18]
    table_result = result(applications={"tasks": tasks, "run_time": [3600.0] * 20, "waiting": waiting})
    assert dgs_figures.prompt(table_result) == 50.0 and dgs_figures.prompt_all(table_result) == 50.0


def test_the_correlation_of_waits_with_the_load_is_as_computed_by_hand(monkeypatch):
    """Intervals without submissions are left out."""
    eu = np.array([0.1, 0.5, 0.9, 0.3])
    for waiting, answers in (([1.0, math.nan, 3.0, 2.0], 1.0), ([3.0, math.nan, 1.0, 2.0], -1.0)):
        monkeypatch.setattr(dgs_figures, "over_time", lambda _, w=waiting: (None, eu, np.array(w)))
        assert dgs_figures.with_load(None) == pytest.approx(answers)


def test_metrics_of_utilization_are_as_computed_by_hand(monkeypatch):
    """Of five intervals, jobs are submitted in the first four."""
    eu, ideal = np.array([0.5, 0.4, 0.9, 0.8, 0.7]), np.array([0.52, 0.59, 1.0, 1.5, 0.1])
    curves = dgs_utilization.Curves(np.arange(6.0), np.array([0.5, 0.6, 2.0, 1.0, 0.0]), eu, ideal, 4)
    monkeypatch.setattr(dgs_utilization, "curves", lambda _: curves)
    answers = {
        "distance": (2.0 + 19.0) / 2,
        "overbooked": 85.0,
        "peak": 90.0,
        "average": 65.0,
        "ideal": 150.0,
        "busiest": 200.0,
    }
    assert {name: dgs_utilization.UTILIZATION[name](None) for name in answers} == pytest.approx(answers)


def test_metrics_after_the_last_submission_are_as_computed_by_hand():
    table_result = result(applications={"release": [100.0, 1000.0], "first_start": [4600.0, math.nan]})
    table_result.makespan = 900.0 + 86_400.0
    assert (dgs_utilization.days_after(table_result), dgs_utilization.hours_after(table_result)) == (1.0, 1.0)


def test_the_share_of_jobs_that_fail_within_reach_is_as_computed_by_hand():
    """Of five jobs, two fail that need no more nodes than were reached, and one that needs more."""
    table_result = result(
        applications={"failed": [1, 1, 1, 0, 0], "tasks": [5, 9, 9, 1, 9], "reached": [5, 10, 6, 8, 8]}
    )
    assert dgs_tables.within_reach(table_result) == pytest.approx(40.0)
    assert dgs_tables.reach(table_result) == pytest.approx(7.0)


def test_the_predicted_ratio_of_pull_to_push_is_as_computed_by_hand():
    """Pull exchanges 5 * 2 * (1 + 3) schedules for each neighbour and job, push 4 + 2 * 3."""
    answers = {
        "searched": {"pull": 2.0, "push": 50.0},
        "opened": {"pull": 3.0, "push": 50.0},
        "nodes": {"pull": 50.0, "push": 4.0},
        "cancelled": {"pull": 50.0, "push": 3.0},
    }
    values = {metric: {name: np.array([item]) for name, item in of.items()} for metric, of in answers.items()}
    assert dgs_common.protocol_ratio(Replicates((1,), values), "pull", "push") == pytest.approx([4.0])


def test_metrics_of_refusals_and_searches_are_as_computed_by_hand():
    """Of four jobs, two are refused, three times and once, and another one is never placed."""
    table_result = result(
        applications={
            "conflicts": [3, 0, 0, 1],
            "searches": [2, 1, 1, 1],
            "failed": [0, 1, 0, 0],
            "tasks": [1, 9, 2, 5],
            "release": [10.0, 30.0, 20.0, 25.0],
        },
        messages={"kind": ["cancel", "commit"], "sent": [6, 99]},
    )
    table_result.mean_waiting = 17.0
    answers = {
        "refused": 50.0, "refusals": 100.0, "again": 25.0, "never": 25.0, "searched": 1.25, "nodes": 2.0,
        "cancelled": 1.5, "jobs": 4.0, "span": 20.0, "waiting": 17.0,
    }  # fmt: skip
    assert {name: dgs_common.METRICS[name](table_result) for name in answers} == pytest.approx(answers)


def test_the_numbers_of_exchanged_schedules_are_as_computed_by_hand():
    """Half of the polls are between the first and the last submission."""
    table_result = result(
        exchanges={"kind": ["poll", "retrieve", "push"], "schedules": [40, 10, 99]},
        applications={"release": [0.0, 50.0]},
        machines={"tasks": [0] * 8},
    )
    table_result.scheduler, table_result.makespan = {"parameters": {"policy": "poll"}}, 100.0
    assert (dgs_common.exchanged_schedules(table_result), dgs_common.retrieved_schedules(table_result)) == (
        40.0,
        10.0,
    )
    assert (dgs_common.polled_schedules(table_result), dgs_common.per_node(table_result)) == (20.0, 5.0)


# -- RJSS -------------------------------------------------------------------------------------------------


def test_arrivals_during_a_transfer_are_as_computed_by_hand(monkeypatch):
    """Node 1 (50 Mflop/s) gets 0.2 own jobs per second; by 20 s two other jobs were sent there."""
    table_result = result(
        jobs={
            "machine": [1, 1, 0, 1, 1],
            "predicted": [0.0, 3.0, math.nan, math.nan, 4.0],
            "waited": [0.0, 4.0, 0.0, 9.0, 10.0],
        }
    )
    arguments = SimpleNamespace(
        release=np.array([5.0, 10.0, 11.0, 12.0, 20.0]),
        submitter=np.array([0, 2, 0, 1, 0]),
        data=np.array([100, 200, 100, 100, 300]),
        rates=np.array([9.0, 0.2, 9.0]),
        task_size=np.array([100.0, 200.0, 300.0, 200.0, 200.0]),
    )
    table_result.scenario = SimpleNamespace(
        workload=SimpleNamespace(realize=lambda platform: arguments),
        platform=SimpleNamespace(speeds=np.array([1.0, 50.0, 1.0])),
        network=SimpleNamespace(latency=0.5, bandwidth=200.0),
    )
    # a job takes 200 / 50 = 4 s, and (0.2 + Q) t' jobs are expected to arrive while a job moves for t' s
    second, last = (0.2 + 1 / 10) * 1.5 * 4.0, (0.2 + 2 / 20) * 2.0 * 4.0
    assert rjss_prediction.arrivals(table_result)[[0, 1, 4]] == pytest.approx([0.2 * 1.0 * 4.0, second, last])
    errors = [abs(3.0 + second - 4.0) / 4.0, abs(4.0 + last - 10.0) / 10.0]
    assert rjss_prediction.mean_error(table_result) == pytest.approx(np.mean(errors))
    assert rjss_prediction.deviation(table_result) == pytest.approx(np.std(errors))
    assert rjss_prediction.share_of_small(table_result) == 1.0
    # the new limit lies between the two errors; a third job moved, but found no queue
    monkeypatch.setattr(rjss_prediction, "SMALL", 0.3)
    assert rjss_prediction.share_of_small(table_result) == 1 / 2
    assert rjss_prediction.share_of_moved(table_result) == 1 / 3
