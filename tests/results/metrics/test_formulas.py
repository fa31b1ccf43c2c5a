from __future__ import annotations

import math

import numpy as np
import pytest

from gridsim.results.metrics import formulas as metrics


def test_formulas_are_as_computed_by_hand():
    release, finish, size = np.array([0.0, 10.0]), np.array([20.0, 15.0]), np.array([10.0, 100.0])
    assert metrics.stretch(release, finish, size).tolist() == [2.0, 0.05]
    assert metrics.makespan(release, finish) == 20.0
    assert metrics.bounded_slowdown(release, finish, size, 1.0).tolist() == [2.0, 1.0]
    assert metrics.bounded_slowdown(release, finish, size, 10.0, threshold=2.0).tolist() == [10.0, 1.0]
    assert metrics.utilization(np.array([1.0, 4.0]), 4.0).tolist() == [0.25, 1.0]
    assert metrics.utilization(np.array([0.0]), 0.0).tolist() == [0.0]
    assert metrics.load_of(release, size, 11.0) == 1.0
    assert metrics.quantiles(np.arange(5.0)).tolist() == [0, 1, 2, 3, 4]
    assert math.isnan(metrics.mean(np.zeros(0)))


def test_small_numbers_and_late_starts_are_as_computed_by_hand():
    """Values below 1 and releases after 0 reveal wrong limits and differences."""
    release, size = np.array([4.0, 4.25]), np.array([1.0, 3.0])
    assert metrics.makespan(release, np.array([5.0, math.nan])) == 1.0
    assert metrics.load_of(release, size, 8.0) == 2.0
    assert metrics.load_of(np.array([4.0, 4.0]), size, 8.0) == math.inf
    assert metrics.request_utilization(release, np.array([1.0, 2.0]), size, 7) == 4.0
    assert metrics.request_utilization(np.array([4.0, 4.0]), np.ones(2), size, 7) == math.inf
    assert metrics.job_slowdown(np.array([15.0]), np.array([5.0])).tolist() == [2.0]
    assert metrics.utilization(np.array([0.25]), 0.5).tolist() == [0.5]
    assert metrics.mean(np.array([0.25])) == 0.25
    assert metrics.prediction_errors(np.array([0.25]), np.array([0.5])).tolist() == [0.5]


def test_sums_over_several_blocks_are_rounded_once():
    values = np.full((1 << 16) + 2, 1.0)
    values[:3] = 1e100, -1e100, 0.5
    assert metrics.total(values) == (1 << 16) - 0.5
    with pytest.raises(OverflowError):
        metrics.total(np.array([1e308, 1e308]))
    assert metrics.mean(np.array([1.7e308, 1.5e308])) == pytest.approx(1.6e308)
    assert metrics.mean(np.array([1.7e308, -1.7e308, 1.7e308, 1.7e308])) == 0.85e308
    assert metrics.mean(np.full(70_000, 1.7e308)) == pytest.approx(1.7e308)


def test_the_wasted_share_is_as_computed_by_hand():
    names = "useful", "redundant", "lost", "overhead", "slowed"
    cycles = {
        name: np.array(column)
        for name, column in zip(names, ([1.125], [0.25, 0.25], [0.125], [0.25], [9.0]), strict=True)
    }
    assert metrics.wasted_share(cycles) == 0.4375
    assert math.isnan(metrics.wasted_share(dict.fromkeys(names, np.zeros(2))))
    # cycles of less than 1 Mflop in total
    assert metrics.wasted_share({name: column / 8 for name, column in cycles.items()}) == 0.4375


def test_results_that_return_at_one_instant_keep_their_order():
    """So many results return that an unstable sort would reorder them."""
    turnaround = np.arange(1.0, 41.0)
    returned = np.where(np.arange(40) % 2, 7.0, 3.0)
    time, means = metrics.running_mean(returned, turnaround)
    order = [*range(0, 40, 2), *range(1, 40, 2)]
    assert time.tolist() == [3.0] * 20 + [7.0] * 20
    assert means.tolist() == [sum(turnaround[order[: k + 1]]) / (k + 1) for k in range(40)]
