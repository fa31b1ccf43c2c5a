"""What each row about the policies of Arora et al. is judged by: both sides of each end of its range."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from told import ABOVE, BELOW, check, held, ratio

import gridsim as gs
from gridsim.reproduce.wqr import (
    common as wqr_common,
)
from gridsim.reproduce.wqr import (
    fig5 as wqr_fig5,
)
from gridsim.reproduce.wqr import (
    information as wqr_information,
)
from gridsim.reproduce.wqr import (
    real as wqr_real,
)
from gridsim.reproduce.wqr import (
    tables as wqr_tables,
)
from gridsim.schedulers.wqr.selections import POLICIES

INF = math.inf
BASE = "WQR-FT"
LITTLE = 1e-9


def statements(where, metric, of=lambda make: True):
    """What section VI says at each place but for the one number; less time is better, and more tasks."""
    better, alike = {"mean_completion": (-INF, BELOW), "undisturbed": (ABOVE, INF)}[metric], (0.95, 1.05)
    of_two = {
        "SmallET-NoInfo is better than WQR-FT": ("SmallET-NoInfo", BASE, better),
        "GreatET-NoInfo is better than WQR-FT": ("GreatET-NoInfo", BASE, better),
        "GreatET-CpuInfo and -NoInfo are alike": ("GreatET-CpuInfo", "GreatET-NoInfo", alike),
        "GreatET-AvailInfo and -NoInfo are alike": ("GreatET-AvailInfo", "GreatET-NoInfo", alike),
        "SmallET-AvailInfo and -NoInfo are alike": ("SmallET-AvailInfo", "SmallET-NoInfo", alike),
        "SmallET-AvailInfo is better than -CpuInfo": ("SmallET-AvailInfo", "SmallET-CpuInfo", better),
        "GreatET-CpuInfo is better than WQR-FT": ("GreatET-CpuInfo", BASE, better),
        "GreatET-AllInfo is better than -CpuInfo": ("GreatET-AllInfo", "GreatET-CpuInfo", better),
    }
    cases = [
        held(f"{where}: {said}", *ends, ratio(a, b, metric, of), LITTLE if ends == alike else 0.0)
        for said, (a, b, ends) in of_two.items()
    ]
    for second in POLICIES:
        if second != "GreatET-AllInfo":
            rows = f"{where}: GreatET-AllInfo is the best of all"
            cases.append(held(rows, *better, best(second, metric, of)))
    return cases


def best(second, metric, of):
    """x is the metric of GreatET-AllInfo over that of the best of the others."""
    worse = {"mean_completion": 8.0, "undisturbed": 2.0}[metric]

    def tell(x):
        told = {(name, metric): worse for name in POLICIES}
        told |= {(second, metric): 4.0, ("GreatET-AllInfo", metric): 4.0 * x}
        return lambda make: told if of(make) else {}

    return tell


def claims(where, of=lambda make: True):
    cases = statements(where, "mean_completion", of)
    others = [name for name in POLICIES if name != BASE]
    cases += [
        held(f"{where}: {name} wastes less than WQR-FT", -INF, BELOW, ratio(name, BASE, "wasted", of))
        for name in others
    ]
    for name in ("SmallET-NoInfo", "GreatET-NoInfo"):
        rows = f"{where}: {name} completes more without resubmission than WQR-FT"
        cases.append(held(rows, ABOVE, INF, ratio(name, BASE, "undisturbed", of)))
    return cases


@pytest.fixture
def run_once(monkeypatch):
    """What is run in `wqr_fig5` is run once; see `test_table_xiii`."""
    monkeypatch.setattr(wqr_fig5, "_table_xiii", cache(wqr_fig5._table_xiii))


@pytest.mark.parametrize("kind", ["normal", "log-uniform"])
def test_wqr_fig5(kind, run_once):
    def of(make):
        return make == wqr_common.Bag(1000, 4, kind)

    almost = held(
        f"{kind}, RR = 4: GreatET-NoInfo is better by almost 25 %",
        0.70,
        0.80,
        ratio("GreatET-NoInfo", BASE, "mean_completion", of),
        LITTLE,
    )
    check(wqr_fig5, [almost, *claims(f"{kind}, RR = 4", of)], f"{kind}, *")


@pytest.mark.parametrize("kind", ["the example", "random bags"])
def test_wqr_fig5_to_the_letter(kind, run_once):
    def of(make):
        return make == wqr_fig5.Bags(4, kind)

    def more(x):
        """x is the share of the 100 bags of four that is completed besides."""
        told = {("GreatET-NoInfo", "undisturbed"): 100.0 + 400.0 * x, (BASE, "undisturbed"): 100.0}
        return lambda make: told if of(make) else {}

    rows = f"{kind}, RR = 4: GreatET-NoInfo is better by almost 25 %, of the bag"
    cases = [held(rows, 0.20, 0.30, more, LITTLE), *statements(f"{kind}, RR = 4", "undisturbed", of)]
    check(wqr_fig5, cases, f"{kind}, *")


def test_table_xiii(monkeypatch):
    """All statements hold of the printed table; where everybody completes the same, only what is alike."""
    told = dict.fromkeys(POLICIES, SimpleNamespace(done=3))
    monkeypatch.setattr(wqr_fig5, "policy", lambda name: name)
    monkeypatch.setattr(wqr_fig5, "assigned", lambda scenario, name: told[name])
    found = {row.quantity: row.verdict for row in wqr_fig5._table_xiii(1)}
    assert {name for name, verdict in found.items() if verdict == "reproduced"} == {
        name for name in found if "alike" in name
    }
    told = {name: table for name, (_, table, _) in wqr_tables.TABLES.items()}
    assert {row.verdict for row in wqr_fig5._table_xiii(1)} == {"reproduced"} and len(found) == 10


def test_one_bag_after_the_other():
    """Bags and failures do not run into each other: of each bag all is as if it were alone."""
    scenario = wqr_fig5.Bags(4, "the example")(1)
    result = gs.simulate(scenario, wqr_tables.policy("GreatET-AllInfo"))
    assert result.undisturbed == 4 * wqr_fig5.BAGS
    spans = [
        np.max(
            gs.simulate(wqr_fig5.Bags(16, kind)(seed), wqr_tables.policy(name)).applications["finish"]
            - wqr_fig5.GAP * np.arange(wqr_fig5.BAGS)
        )
        for kind in wqr_fig5.DRAWN
        for name in (BASE, "SmallET-AvailInfo")
        for seed in (1, 2)
    ]
    assert max(spans) < wqr_fig5.GAP / 2


def test_wqr_real(monkeypatch):
    """Nothing of the trace is read, and nothing simulated."""
    scenario = SimpleNamespace(platform=SimpleNamespace(nodes=9))
    cycles = {name: np.ones(1) for name in ("useful", "redundant", "lost", "overhead")}
    result = SimpleNamespace(
        tables={"cycles": cycles, "schedule": []}, machines={"busy": np.ones(1), "speed": np.ones(1)}
    )
    monkeypatch.setattr(wqr_real, "Grounds", lambda *_: lambda seed: scenario)
    monkeypatch.setattr(wqr_real, "simulate", lambda *_, **__: result)
    monkeypatch.setattr(wqr_real, "validate_result", lambda _: [])
    check(wqr_real, claims("all bags"), "all bags: *", desktops=SimpleNamespace())


@pytest.mark.parametrize("rr", [1, 4])
@pytest.mark.parametrize("kind", ["normal", "log-uniform"])
def test_wqr_information(kind, rr):
    def of(make):
        return (make.kind, make.ratio, make.nodes) == (kind, rr, 1000)

    where = f"{kind}, RR = {rr}"
    cases = []
    for order in ("SmallET", "GreatET"):
        for choice, without in (("AvailInfo", "NoInfo"), ("AllInfo", "CpuInfo")):
            for what in ("error 0", "past", "age"):
                a, b = f"{order}-{choice}, {what}", f"{order}-{without}"
                cases.append(held(f"{where}: {a} / {b}", -INF, BELOW, ratio(a, b, "mean_completion", of)))
    check(wqr_information, cases, f"{where}: *")


# -- the running example of Arora et al. ------------------------------------------------------------------


def test_wqr_tables():
    """The tables as they are printed, each of them with another time, and each with a task less."""
    printed = {name: table for name, (_, table, _) in wqr_tables.TABLES.items()}
    slowest = {
        name: wqr_tables._cells(f"T0>R0 {seconds}N T1>R1 6Y")
        for name, (seconds, _) in wqr_tables.PROSE.items()
    }
    # this one is said of the tasks that are completed
    slowest["SmallET-AvailInfo"] = wqr_tables._cells("T0>R0 99N T1>R1 50Y")
    other = wqr_tables._cells("T0>R0 7Y")

    def verdicts(made, as_printed, another):
        return {row.quantity: row.verdict for row in wqr_tables._claims(made, as_printed, another)}

    for name, (number, _, _) in wqr_tables.TABLES.items():
        wrong = printed | {name: other}
        found = verdicts(wrong, printed, slowest)
        assert found[f"Table {number}, {name}"] == found[f"Table XIII, {name}"] == "not reproduced"
        assert found[f"Table {number}, {name}, as printed"] == "reproduced"
        found = verdicts(printed, wrong, slowest)
        assert found[f"Table {number}, {name}"] == found[f"Table XIII, {name}"] == "reproduced"
        assert found[f"Table {number}, {name}, as printed"] == "not reproduced"
    for name in wqr_tables.PROSE:
        for made, another in ((other, slowest[name]), (slowest[name], other)):
            found = verdicts(printed | {name: made}, printed, slowest | {name: another})
            said = {True: "reproduced", False: "not reproduced"}
            assert found[f"prose: {name}"] == said[made is not other]
            assert found[f"prose, another machine 0: {name}"] == said[another is not other]
    assert len(found) == 3 * 9 + 2 * 8
