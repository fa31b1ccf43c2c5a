"""What each row about the policies of Arora et al. is judged by: both sides of each end of its range."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from told import ABOVE, BELOW, check, held, ratio

from gridsim.reproduce import wqr_fig5, wqr_information, wqr_real, wqr_tables
from gridsim.schedulers.wqr_choices import POLICIES

INF = math.inf
BASE = "WQR-FT"
LITTLE = 1e-9


def claims(where, of=lambda make: True):
    """What the paper says at each place, but for the one number."""
    better, alike = (-INF, BELOW), (0.95, 1.05)
    of_two = {
        "SmallET-NoInfo is faster than WQR-FT": ("SmallET-NoInfo", BASE, better),
        "GreatET-NoInfo is faster than WQR-FT": ("GreatET-NoInfo", BASE, better),
        "GreatET-CpuInfo and -NoInfo are alike": ("GreatET-CpuInfo", "GreatET-NoInfo", alike),
        "GreatET-AvailInfo and -NoInfo are alike": ("GreatET-AvailInfo", "GreatET-NoInfo", alike),
        "SmallET-AvailInfo and -NoInfo are alike": ("SmallET-AvailInfo", "SmallET-NoInfo", alike),
        "SmallET-AvailInfo is faster than -CpuInfo": ("SmallET-AvailInfo", "SmallET-CpuInfo", better),
        "GreatET-CpuInfo is faster than WQR-FT": ("GreatET-CpuInfo", BASE, better),
        "GreatET-AllInfo is faster than -CpuInfo": ("GreatET-AllInfo", "GreatET-CpuInfo", better),
    }
    cases = [
        held(f"{where}: {said}", *ends, ratio(a, b, "mean_completion", of), LITTLE if ends == alike else 0.0)
        for said, (a, b, ends) in of_two.items()
    ]
    others = [name for name in POLICIES if name != BASE]
    cases += [
        held(f"{where}: {name} wastes less than WQR-FT", *better, ratio(name, BASE, "wasted", of))
        for name in others
    ]
    for name in ("SmallET-NoInfo", "GreatET-NoInfo"):
        rows = f"{where}: {name} completes more without resubmission than WQR-FT"
        cases.append(held(rows, ABOVE, INF, ratio(name, BASE, "undisturbed", of)))
    for second in POLICIES:
        if second != "GreatET-AllInfo":
            rows = f"{where}: GreatET-AllInfo is the fastest of all"
            cases.append(held(rows, *better, fastest(second, of)))
    return cases


def fastest(second, of):
    """x is the completion time of GreatET-AllInfo over that of the best of the others."""

    def tell(x):
        times = {(name, "mean_completion"): 8.0 for name in POLICIES}
        times |= {(second, "mean_completion"): 4.0, ("GreatET-AllInfo", "mean_completion"): 4.0 * x}
        return lambda make: times if of(make) else {}

    return tell


@pytest.mark.parametrize("kind", ["normal", "log-uniform"])
def test_wqr_fig5(kind):
    def of(make):
        return (make.kind, make.ratio, make.nodes) == (kind, 4, 1000)

    almost = held(
        f"{kind}, RR = 4: GreatET-NoInfo takes almost 25 % less",
        0.70,
        0.80,
        ratio("GreatET-NoInfo", BASE, "mean_completion", of),
        LITTLE,
    )
    check(wqr_fig5, [almost, *claims(f"{kind}, RR = 4", of)], f"{kind}, *")


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
    check(wqr_real, claims("all bags"), desktops=SimpleNamespace())


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
