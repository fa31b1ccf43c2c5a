from __future__ import annotations

import math

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import stale_views
from gridsim.reproduce.others.stale_views import OF_TWO, SHORTEST, STALE_VIEWS, crossing


def test_a_crossing_is_where_the_logarithm_of_the_ratio_is_0():
    ages = (1.0, 10.0, 1000.0)
    assert crossing(ages, np.array([-3.0, -1.0, 1.0])) == pytest.approx(100.0)
    assert crossing(ages, np.array([-1.0, 3.0, 4.0])) == pytest.approx(10**0.25)


@pytest.mark.parametrize("logs", [(-3.0, -2.0, -1.0), (1.0, 2.0, 3.0), (2.0, -1.0, -3.0), (-1.0, 1.0, -1.0)])
def test_curves_that_do_not_cross_once_upwards_have_no_crossing(logs):
    assert math.isnan(crossing((1.0, 2.0, 3.0), np.array(logs)))


@pytest.mark.slow
def test_a_quick_run_reproduces_the_herd_effect(monkeypatch):
    monkeypatch.setattr(stale_views, "JOBS", (200_000, 8000))
    monkeypatch.setattr(stale_views, "REFRESHES", {"periodic": (OF_TWO, SHORTEST)})
    report = STALE_VIEWS.run(Run(range(1, 6), quick=True))
    judged = [row for row in report.rows if row.verdict]
    assert judged and all(row.verdict == "reproduced" for row in judged)
    [cross] = [
        row.measured for row in report.rows if row.quantity.endswith(f"{SHORTEST} is worse than random")
    ]
    assert cross is not None and 1.0 < cross.low < cross.high < 10.0
    assert STALE_VIEWS.draw(report).axes
