"""Formulas are compared with printed numbers, limits, and other formulas for the same value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridsim.theory import formulas


def test_special_cases_of_queues_agree() -> None:
    # M/M/1 by three formulas; a deterministic service halves the wait
    assert formulas.mg1_wait(0.8, 2.0) == pytest.approx(4.0)
    assert formulas.mmc_wait(1, 0.8) == pytest.approx(4.0)
    assert formulas.mg1_wait(0.8, 1.0) == pytest.approx(2.0)
    # the wait in M/M/1 is 0 with probability 1 - load, else exponential of rate 1 - load
    assert formulas.mg1_squared_wait(0.8, 2.0, 6.0) == pytest.approx(0.8 * 2 / 0.2**2)
    # one choice: every server is an M/M/1 queue
    assert formulas.lognormal_moments(0.0) == (1.0, 1.0)


def test_erlang_c_equals_its_definition_as_a_sum() -> None:
    servers, load = 7, 0.9
    terms = [(servers * load) ** k / math.factorial(k) for k in range(servers)]
    last = (servers * load) ** servers / math.factorial(servers) / (1 - load)
    assert formulas.erlang_c(servers, load) == pytest.approx(last / (sum(terms) + last))


def test_the_supermarket_model_is_corrected_for_finite_systems() -> None:
    """Mean number of jobs a server by Gast and Van Houdt (2017): 2.3527 in the limit, 2.7513 with 10."""
    assert 0.9 * formulas.supermarket(0.9, 2) == pytest.approx(2.3527, abs=5e-5)
    assert 0.9 * formulas.supermarket(0.9, 2, 10) == pytest.approx(2.7513, abs=5e-5)


def test_the_formula_of_join_idle_queue_has_known_limits() -> None:
    # with many reports, no job waits
    assert formulas.join_idle_queue(0.5, 1e4) == pytest.approx((1.0, 0.0), abs=1e-3)
    # the closed form is close where few random jobs meet idle servers
    response, _ = formulas.join_idle_queue(0.9, 10.0)
    assert formulas.join_idle_queue_approximation(0.9, 10.0) == pytest.approx(response, rel=0.01)


def test_reports_of_join_idle_queue_arise_at_the_rate_of_their_use() -> None:
    share = formulas._server_distribution(0.3, 2.0)
    flow = 0.3 + 2.0 * float(share.sum(0) @ np.arange(share.shape[1]))
    assert share.min() > -1e-15 and share.sum() == pytest.approx(1.0)
    assert share[1:].sum() == pytest.approx(flow)  # throughput
    assert share[1].sum() == pytest.approx(flow - 0.3)  # reports arise at the rate of their use
