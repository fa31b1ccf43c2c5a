"""What a verdict says of the range that it wanted and of the interval that was measured."""

from __future__ import annotations

import math

import pytest

from gridsim.reproduce.framework import judge
from gridsim.results.metrics.estimates import Estimate

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
def test_the_reason_says_what_decided(
    low: float, high: float, interval: tuple[float, float], verdict: str, why: str
) -> None:
    row = judge("c", "q", "paper", Estimate(sum(interval) / 2, *interval, 10), low, high)
    assert (row.verdict, row.why) == (verdict, why)
