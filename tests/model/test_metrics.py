from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim import metrics


def test_by_hand():
    release, finish, size = np.array([0.0, 10.0]), np.array([20.0, 15.0]), np.array([10.0, 100.0])
    assert metrics.stretch(release, finish, size).tolist() == [2.0, 0.05]
    assert metrics.makespan(release, finish) == 20.0
    assert metrics.bounded_slowdown(release, finish, size, 1.0).tolist() == [2.0, 1.0]
    assert metrics.bounded_slowdown(release, finish, size, 10.0, threshold=2.0).tolist() == [10.0, 1.0]
    assert metrics.utilization(np.array([1.0, 4.0]), 4.0).tolist() == [0.25, 1.0]
    assert metrics.utilization(np.array([0.0]), 0.0).tolist() == [0.0]
    assert metrics.offered_load(release, size, 11.0) == 1.0
    assert metrics.quantiles(np.arange(5.0)).tolist() == [0, 1, 2, 3, 4]
    assert metrics.peak_to_mean(np.array([1.0, 3.0])) == 1.5
    assert math.isnan(metrics.peak_to_mean(np.zeros(2))) and math.isnan(metrics.mean(np.zeros(0)))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_jain_index_is_between_its_bounds(values):
    found = metrics.jain_index(np.array(values))
    assert 1 / len(values) - 1e-9 <= found <= 1 + 1e-9


def test_jain_index_of_extremes():
    assert metrics.jain_index(np.full(4, 3.0)) == pytest.approx(1)
    assert metrics.jain_index(np.array([5.0, 0, 0, 0])) == pytest.approx(0.25)
    assert metrics.jain_index(np.zeros(3)) == 1.0
