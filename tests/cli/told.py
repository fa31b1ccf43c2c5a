"""Measurements that a test tells a reproduction in place of runs, and what is to be said of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from gridsim.reproduce.framework import Maker, Row, Run
from gridsim.studies.replicate import Replicates

SEEDS = range(6)
#: Just below and above 1, and above 0: to be the same is neither better nor worse.
BELOW, ABOVE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
POSITIVE = math.nextafter(0.0, 1.0)
#: What an end at infinity is tried with.
FAR = 2.0**20

#: From what makes the scenarios to (scheduler, metric) -> what all seeds measure, or one value a seed.
Tell = Callable[[Maker], Mapping[tuple[str, str], float | np.ndarray]]


@dataclass(frozen=True)
class Told(Run):
    """A run in full that simulates nothing.  What is not told is NaN: rows that use it are undecided."""

    tell: Tell = lambda make: {}

    def replicate(self, make, schedulers, metrics=("max_stretch",)):
        values = self.tell(make)
        told = {
            metric: {
                name: np.array(np.broadcast_to(values.get((name, metric), math.nan), len(self.seeds)), float)
                for name in schedulers
            }
            for metric in metrics
        }
        return Replicates(tuple(self.seeds), told)


@dataclass(frozen=True)
class Held:
    """Rows, and numbers x of which they are to be reproduced, or not.

    rows : as in names of files, of quantities with their units: as ``RU *: largest EU, %``.
    tell : x -> what is measured, such that the rows come out as x.
    """

    rows: str
    right: Sequence[float]
    wrong: Sequence[float]
    tell: Callable[[float], Tell]


def held(rows: str, low: float, high: float, tell: Callable[[float], Tell], by: float = 0.0) -> Held:
    """That the rows are reproduced from low to high, and only there.

    by : how far from the ends this is tried; 0: at the ends themselves, and at the next numbers outside.
    What is the same, 0 or 1, is tried anyway where it is just outside.
    """
    least = low if math.isfinite(low) else (1 / FAR if high > 0 else -FAR)
    most = high if math.isfinite(high) else FAR
    wrong = []
    if math.isfinite(low):
        wrong += [low - by if by else math.nextafter(low, -math.inf), low - FAR]
    if math.isfinite(high):
        wrong += [high + by if by else math.nextafter(high, math.inf), high + FAR]
    wrong += [1.0] * (low == ABOVE or high == BELOW) + [0.0] * (low == POSITIVE)
    by = min(by, (most - least) / 2)
    return Held(rows, (least + by, most - by), wrong, tell)


def near(rows: str, paper: float, tell: Callable[[float], Tell], within: float = 0.25) -> Held:
    """That the rows are reproduced within a share of what the paper has."""
    return held(rows, paper * (1 - within), paper * (1 + within), tell, by=1e-9 * paper)


def ratio(a: str, b: str, metric: str, of: Callable[[Maker], bool] = lambda make: True):
    """For `held`: x is a metric of scheduler `a` over that of `b`, where `of` is true."""
    return lambda x: lambda make: {(a, metric): 4.0 * x, (b, metric): 4.0} if of(make) else {}


def value(name: str, metric: str, of: Callable[[Maker], bool] = lambda make: True):
    """For `held`: x is a metric of a scheduler, where `of` is true."""
    return lambda x: lambda make: {(name, metric): x} if of(make) else {}


def named(row: Row) -> str:
    return f"{row.quantity}, {row.unit}" if row.unit else row.quantity


def judged(module, tell: Tell, **how) -> dict[str, str]:
    """Of each row that has a verdict; each claim follows from some of them."""
    rows = [row for row in module.run(Told(SEEDS, tell=tell, **how)).rows if row.verdict]
    assert {row.claim for row in rows} == set(module.CLAIMS)
    rows = [row for row in rows if row.verdict != "cannot be compared"]
    verdicts = {named(row): row.verdict for row in rows}
    assert len(verdicts) == len(rows), "two rows have the same name"
    return verdicts


def check(module, cases: Sequence[Held], among: str = "*", **how) -> None:
    """Each case holds, and there is one for each row that has a verdict; of those like `among`."""
    every: set[str] = set()
    done: set[str] = set()
    for case in cases:
        for verdict, numbers in (("reproduced", case.right), ("not reproduced", case.wrong)):
            for x in numbers:
                found = judged(module, case.tell(x), **how)
                rows = {name: said for name, said in found.items() if fnmatchcase(name, case.rows)}
                assert rows, f"no row is like {case.rows}"
                assert set(rows.values()) == {verdict}, f"{x!r}: {rows}"
                every |= found.keys()
                done |= rows.keys()
    left = {name for name in every - done if fnmatchcase(name, among)}
    assert not left, "rows that nothing holds"
