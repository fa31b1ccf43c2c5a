"""Verdicts compare the wanted range with the measured interval."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridsim.reproduce.verdicts import ClaimedRange, Row, conclude, judge, range_around, seeds_above, sign
from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate, estimate

pytestmark = pytest.mark.slow

BELOW, ABOVE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
NEGATIVE, POSITIVE = math.nextafter(0.0, -1.0), math.nextafter(0.0, 1.0)
INF = math.inf


@pytest.mark.parametrize(
    ("low", "high", "interval", "verdict", "reason"),
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
    low: float, high: float, interval: tuple[float, float], verdict: str, reason: str
) -> None:
    row = judge("c", "q", Estimate(sum(interval) / 2, *interval, 10), ClaimedRange("paper", low, high))
    assert (row.verdict, row.why) == (verdict, reason)


_INTERVALS = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=2).map(sorted)


@given(_INTERVALS, _INTERVALS, st.integers(2, 20))
def test_the_verdict_follows_from_the_interval_and_the_number_of_seeds(
    interval: list[float], required: list[float], seeds: int
) -> None:
    (minimum, maximum), (low, high) = interval, required
    row = judge(
        "c", "q", Estimate((minimum + maximum) / 2, minimum, maximum, seeds), ClaimedRange("paper", low, high)
    )
    inside = [low <= end <= high for end in interval]
    apart = maximum < low or minimum > high
    expected = "reproduced" if all(inside) else "not reproduced" if apart else "undecided"
    assert row.verdict == (expected if seeds >= MIN_SEEDS else "undecided")
    # the mirrored claim has the same verdict
    mirrored = judge(
        "c",
        "q",
        Estimate(-(minimum + maximum) / 2, -maximum, -minimum, seeds),
        ClaimedRange("p", -high, -low),
    )
    assert mirrored.verdict == row.verdict


@given(st.floats(1e-3, 1e6), st.floats(0.5, 1.5))
def test_values_within_a_quarter_of_a_printed_number_reproduce_it(paper: float, factor: float) -> None:
    value = paper * factor
    row = judge("c", "q", Estimate(value, value, value, MIN_SEEDS), range_around(paper))
    assert row.verdict == ("reproduced" if paper * 0.75 <= value <= paper * 1.25 else "not reproduced")


def test_rows_without_an_interval_are_not_decided() -> None:
    test = ClaimedRange("paper", 0.0, 1.0)
    assert judge("c", "q", None, test).verdict == "cannot be compared"
    row = judge("c", "q", estimate([0.5]), test)
    assert row.verdict == "undecided" and "no interval: n = 1" in row.why
    # `why` is also stated if the paper makes no claim
    assert judge("c", "q", estimate([0.5]), why="so").why == "so"
    assert judge("c", "q", estimate([0.5])).verdict == ""


@pytest.mark.parametrize(
    ("values", "verdict", "reason"),
    [
        ([1.0, 2.0, 3.0, 1.0, 0.1], "reproduced", "wanted above 0; it is in 5 of 5 seeds"),
        ([1.0, 2.0, -3.0, 1.0, 0.1], "not robust", "wanted above 0; it is in 4 of 5 seeds, not in 6"),
        ([-1.0, -2.0, -3.0, -1.0, 0.0], "not reproduced", "wanted above 0; it is in 0 of 5 seeds"),
        ([1.0, 2.0, 3.0, 1.0], "undecided", "wanted above 0; it is in 4 of 4 seeds; fewer than 5 seeds"),
    ],
)
def test_verdicts_on_signs_count_the_seeds(values: list[float], verdict: str, reason: str) -> None:
    row = sign("c", "q", "p", values, seeds=(2, 4, 6, 8, 10)[: len(values)])
    assert row.verdict == verdict and row.why.startswith(reason)
    assert seeds_above([1.0, 0.0, 2.0, math.nan], (3, 5, 7, 9)) == "2 of 4 seeds, not in 5, 9"


@pytest.mark.parametrize(
    ("verdicts", "verdict", "reason"),
    [
        (["reproduced"], "reproduced", "because"),
        (["reproduced", "", "cannot be compared"], "reproduced", "because"),
        (["reproduced", "reproduced"], "reproduced", "2 rows: 2 reproduced"),
        (["undecided", "undecided"], "undecided", "2 rows: 2 undecided"),
        (
            ["undecided", "reproduced", "undecided"],
            "partly reproduced",
            "3 rows: 2 undecided, 1 reproduced",
        ),
        (["not robust", "undecided"], "not reproduced", "2 rows: 1 not robust, 1 undecided"),
        (["cannot be compared"] * 2, "cannot be compared", "2 rows: 2 cannot be compared"),
        ([""], "cannot be compared", "not measured"),
    ],
)
def test_the_verdict_of_a_claim_follows_from_its_rows(verdicts: list[Any], verdict: str, reason: str) -> None:
    rows = [Row("claim", "q", "p", None, "", item, "because") for item in verdicts]
    rows.append(Row("another", "q", "p", None, "", "not reproduced", "of another claim"))
    assert conclude("claim", rows) == ("claim", verdict, reason)
