"""Exact lower bounds, computed independently of this library, with the optimum by brute force."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from gridsim.optimization.bounds import discrete_bound, fluid_bound

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["bound"])
def test_bounds_equal_the_golden_values(case):
    release = [float(Fraction(r)) for r, _, _ in case["apps"]]
    tasks = [n for _, n, _ in case["apps"]]
    task_size = [float(Fraction(a)) for _, _, a in case["apps"]]
    size = [n * a for n, a in zip(tasks, task_size, strict=True)]
    speeds = [float(Fraction(s)) for s in case["speeds"]]
    fluid = fluid_bound(release, size, sum(speeds))
    assert fluid.stretch == pytest.approx(float(Fraction(case["fluid"])), rel=1e-15)
    assert fluid.verify(release, size, speeds) == Fraction(case["fluid"])
    disc = discrete_bound(release, size, task_size, tasks, speeds)
    assert disc.stretch == pytest.approx(float(Fraction(case["disc"])), rel=1e-15)
    assert disc.verify(release, size, speeds, task_size=task_size, tasks=tasks) == Fraction(case["disc"])
    assert disc.stretch <= Fraction(case["optimum"])
