"""Exact values computed independently of this library (fractions in golden.json)."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from gridcore.fair_tree import summaries
from gridcore.queues import availability, edf
from tests.reference import availability as availability_reference
from tests.reference import edf as edf_reference
from tests.reference import summaries as summaries_reference

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
AVAILABILITY = pytest.mark.parametrize(
    "module", [availability, availability_reference], ids=["kernel", "reference"]
)
EDF = pytest.mark.parametrize("module", [edf, edf_reference], ids=["kernel", "reference"])
SUMMARIES = pytest.mark.parametrize("module", [summaries, summaries_reference], ids=["kernel", "reference"])


def number(text):
    return float(Fraction(text))


def columns(queue):
    return (
        [number(r) for r, _, _, _ in queue],
        [number(w) for _, w, _, _ in queue],
        [float(Fraction(a) * n) for _, _, a, n in queue],
    )


@AVAILABILITY
@pytest.mark.parametrize("case", GOLDEN["h"])
def test_gap_and_count_equal_the_golden_values(case, module):
    keywords = {"speed": number(case["speed"]), "free_at": number(case["t_free"])}
    stretch, release, size, task_size = (number(case[name]) for name in ("S", "r_new", "w", "a"))
    queue = columns(case["queue"])
    gap = module.gap(stretch, release, size, *queue, **keywords)
    assert gap == pytest.approx(number(case["h"]), rel=1e-9, abs=1e-9)
    ratio = Fraction(case["h"]) / Fraction(case["a"])
    tasks = module.available_tasks(stretch, release, size, task_size, *queue, **keywords)
    if ratio == 0 or abs(ratio - round(ratio)) > Fraction(1, 10**9):
        assert tasks == case["n"]
    else:
        assert case["n"] - 1 <= tasks <= case["n"]


@EDF
@pytest.mark.parametrize("case", GOLDEN["min_stretch"])
def test_minimum_stretch_equals_the_golden_value(case, module):
    keywords = {"speed": number(case["speed"]), "now": number(case["t0"])}
    exact = module.optimal_stretch(*columns(case["queue"]), **keywords)
    assert exact == pytest.approx(number(case["S"]), rel=1e-12)
    bisection = module.optimal_stretch(*columns(case["queue"]), **keywords, method="bisection")
    assert exact * (1 - 1e-11) <= bisection <= exact * (1 + 1.1e-9)


@SUMMARIES
@pytest.mark.parametrize("case", GOLDEN["drop"])
def test_debit_drop_equals_the_golden_value(case, module):
    drop = module.debit_drop(case["N"], number(case["a_new"]), number(case["a"]), case["leaves"])
    assert drop == case["drop"]


@SUMMARIES
@pytest.mark.parametrize("case", GOLDEN["alg4"])
def test_algorithm_4_finds_the_golden_index(case, module):
    assert module.lowest_stretch(case["avail_ascending_S"], case["N"]) == case["index"]
