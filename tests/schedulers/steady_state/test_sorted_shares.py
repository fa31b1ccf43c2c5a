"""The rates that a node computes for itself and its children equal those of the linear program."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.schedulers.steady_state.sorted_shares import sorted_shares

pytest.importorskip("scipy")

NUMBERS = st.sampled_from((0.1, 0.5, 1.0, 2.0, 10.0))
CHILDREN = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5)
APPLICATIONS = st.lists(st.tuples(NUMBERS, NUMBERS | st.just(0.0), NUMBERS), min_size=1, max_size=4)


@given(CHILDREN, APPLICATIONS, st.sampled_from((0.3, math.inf)))
def test_sorted_order_is_optimal_in_a_star(
    children: list[tuple[float, float]], applications: list[tuple[float, float, float]], limit: float
) -> None:
    """Data-intensive applications go over fast links, as published."""
    level, rates = sorted_shares(dict(enumerate(children)), dict(enumerate(applications)), limit)
    (speeds, links), (sizes, data, weights) = np.array(children).T, np.array(applications).T
    best = gs.optimal_throughput(
        speeds, links, sizes, data, weights=weights, port="one", master_bandwidth=limit
    )
    assert level == pytest.approx(best.level, rel=1e-6)
    x = np.array([[rates[k].get(u, 0.0) for k in rates] for u in range(len(speeds))])
    assert (x @ sizes <= speeds * (1 + 1e-9)).all()
    assert (x @ data / np.minimum(links, limit)).sum() <= 1 + 1e-9
    assert x.sum(axis=0) == pytest.approx(weights * level, rel=1e-9)


def test_tasks_of_the_node_itself_use_no_port() -> None:
    """The node runs the tasks with the most data, and its children run the others."""
    level, rates = sorted_shares(
        {7: (1.0, math.inf), 3: (1.0, 1.0)}, {0: (1.0, 9.0, 1.0), 1: (1.0, 0.1, 1.0)}
    )
    assert level == pytest.approx(1.0) and rates == {0: {7: 1.0}, 1: {3: 1.0}}
