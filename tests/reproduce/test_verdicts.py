"""Verdicts compare the wanted range with the measured interval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridsim.reproduce.framework import MIN_SEEDS, judge, near
from gridsim.results.metrics.estimates import Estimate

pytestmark = pytest.mark.slow

BELOW, ABOVE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
NEGATIVE, POSITIVE = math.nextafter(0.0, -1.0), math.nextafter(0.0, 1.0)
INF = math.inf


@pytest.mark.parametrize(
    ("low", "high", "interval", "verdict", "why"),
    [
        (-INF, BELOW, (0.9, 0.95), "reproduced", "wanted below 1; the interval lies within"),
        (-INF, BELOW, (1.0, 1.0), "not reproduced", "wanted below 1; the interval lies at that end"),
        (
            -INF, BELOW, (1.00002, 1.00004), "not reproduced",
            "wanted below 1; the interval (1.00002 to 1.00004) lies above",
        ),
        (
            -INF, BELOW, (0.99998, 0.99999), "reproduced",
            "wanted below 1; the interval (0.99998 to 0.99999) lies within",
        ),
        (-INF, NEGATIVE, (-2.0, -1.0), "reproduced", "wanted below 0; the interval lies within"),
        (ABOVE, INF, (0.7, 0.8), "not reproduced", "wanted above 1; the interval lies below"),
        (-INF, 0.7, (0.7, 0.7), "reproduced", "wanted at most 0.7; the interval lies within"),
        (0.25, INF, (0.2, 0.3), "undecided", "wanted at least 0.25; the interval straddles an end"),
        (0.0, 0.0, (0.0, 0.0), "reproduced", "wanted 0..0; the interval lies within"),
        (
            POSITIVE,
            1.0,
            (-2.0, -1.0),
            "not reproduced",
            "wanted above 0 and at most 1; the interval lies below",
        ),
        (0.0, BELOW, (0.5, 0.6), "reproduced", "wanted at least 0 and below 1; the interval lies within"),
        (0.95, 1.05, (1.1, 1.2), "not reproduced", "wanted 0.95..1.05; the interval lies above"),
    ],
)  # fmt: skip
def test_the_reason_states_the_range_and_the_place_of_the_interval(
    low: float, high: float, interval: tuple[float, float], verdict: str, why: str
) -> None:
    row = judge("c", "q", "paper", Estimate(sum(interval) / 2, *interval, 10), low, high)
    assert (row.verdict, row.why) == (verdict, why)


_INTERVALS = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=2).map(sorted)


@given(_INTERVALS, _INTERVALS, st.integers(2, 20))
def test_the_verdict_follows_from_the_interval_and_the_number_of_seeds(
    interval: list[float], wanted: list[float], seeds: int
) -> None:
    (least, most), (low, high) = interval, wanted
    row = judge("c", "q", "paper", Estimate((least + most) / 2, least, most, seeds), low, high)
    inside = [low <= end <= high for end in interval]
    apart = most < low or least > high
    expected = "reproduced" if all(inside) else "not reproduced" if apart else "undecided"
    assert row.verdict == (expected if seeds >= MIN_SEEDS else "undecided")
    # the mirror image of a claim has the same verdict
    mirrored = judge("c", "q", "paper", Estimate(-(least + most) / 2, -most, -least, seeds), -high, -low)
    assert mirrored.verdict == row.verdict


@given(st.floats(1e-3, 1e6), st.floats(0.5, 1.5))
def test_near_a_printed_number_is_within_a_quarter(paper: float, factor: float) -> None:
    value = paper * factor
    row = near("c", "q", paper, Estimate(value, value, value, MIN_SEEDS))
    assert row.verdict == ("reproduced" if paper * 0.75 <= value <= paper * 1.25 else "not reproduced")


def test_claims_without_an_interval_are_not_decided() -> None:
    assert judge("c", "q", "paper", None, 0.0, 1.0).verdict == "cannot be compared"
    one = Estimate(0.5, math.nan, math.nan, 1)
    assert judge("c", "q", "paper", one, 0.0, 1.0).verdict == "undecided"
