"""What each row about DGS_ASAP is judged by: both sides of each end of its range."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from told import ABOVE, FAR, POSITIVE, Held, check, held, near, ratio, value

from gridsim.reproduce.dgs import (
    fig4 as dgs_fig4,
)
from gridsim.reproduce.dgs import (
    fig5 as dgs_fig5,
)
from gridsim.reproduce.dgs import (
    fig6 as dgs_fig6,
)
from gridsim.reproduce.dgs import (
    table1 as dgs_table1,
)
from gridsim.reproduce.dgs import (
    table2 as dgs_table2,
)
from gridsim.reproduce.dgs import (
    table3 as dgs_table3,
)
from gridsim.reproduce.dgs import (
    whole as dgs_whole,
)
from gridsim.results.metrics.rigid import rank_correlation

INF = math.inf
LITTLE = 1e-9
PUSH, PULL, POLL = "push", "pull", "poll, 120 s"
LOW, HIGH, DAY = 0.28, 0.95, 0.0


def at(load, nodes=5000, alone=False):
    return lambda make: (make.load, make.nodes, make.alone) == (load, nodes, alone)


def where(of, told):
    """x -> what is told of it, where `of` is true."""
    return lambda x: lambda make: told(x) if of(make) else {}


def none(rows, tell):
    """That the rows are reproduced by 0 alone."""
    return held(rows, 0.0, 0.0, tell)


def as_protocol(of, factor=1.0):
    """x is pull over push, over what follows from the protocol: here 3 times `factor`."""
    told = {
        ("pull", "searched"): 3.0 * factor,
        ("pull", "opened"): 1.0,
        ("push", "nodes"): 4.0,
        ("push", "cancelled"): 3.0,
        ("push", "schedules"): 1.0,
    }
    return where(of, lambda x: told | {("pull", "schedules"): 3.0 * factor * x})


def left_out(of):
    """x is pull over push without what cancelled nodes push: three quarters of it."""
    told = {("push", "schedules"): 4.0, ("push", "cancelled"): 3.0, ("push", "nodes"): 2.0}
    return where(of, lambda x: told | {("pull", "schedules"): x})


def risen(tell, first, second):
    """x is pull over push of the second, over that of the first, which is 2; `tell` as above."""
    low, high = tell(first), tell(second)
    return lambda x: lambda make: {**low(2.0)(make), **high(2.0 * x)(make)}


def plain(of):
    return ratio(PULL, PUSH, "schedules", of)


def more(a, b, of):
    """x is by how much more first commits are refused."""
    return where(of, lambda x: {(a, "refused"): 4.0 + x, (b, "refused"): 4.0})


def test_dgs_table1():
    cases = []
    for case, load in (("one day", DAY), ("RU 0.95", HIGH)):
        of = at(load)
        polled = {(POLL, "span"): 43_200.0}
        cases.append(
            near(
                f"{case}: {POLL}, per day; N d D / p, schedules",
                72e6,
                where(of, lambda x, told=polled: told | {(POLL, "polled"): x / 2}),
                within=0.01,
            )
        )
        for name in (PULL, PUSH):
            told = where(of, lambda x, name=name: {(POLL, "polled"): 4.0 * x, (name, "schedules"): 4.0})
            cases.append(held(f"{case}: poll / {name}", 10.0, INF, told, LITTLE))
        cases += [
            held(f"{case}: pull / push", 10.0, INF, plain(of), LITTLE),
            held(f"{case}: pull / push, cancelled nodes left out", 10.0, INF, left_out(of), LITTLE),
            held(f"{case}: pull / push over that", 0.9, 1.1, as_protocol(of, 5.0), LITTLE),
            none(f"{case}: first commits refused, push, %", value(PUSH, "refused", of)),
            none(f"{case}: first commits refused, pull, %", value(PULL, "refused", of)),
            near(f"{case}: first commits refused, {POLL}, %", 0.21, value(POLL, "refused", of)),
            held(f"{case}: {POLL} - push, %", POSITIVE, INF, more(POLL, PUSH, of), LITTLE),
        ]
    for name, tell in (("pull / push", plain), ("pull / push, cancelled nodes left out", left_out)):
        rise = risen(tell, at(DAY), at(HIGH))
        cases.append(held(f"{name}: RU 0.95 over one day", ABOVE, INF, rise, LITTLE))
    for short, long in (("30", "120"), ("120", "480")):
        told = more(f"poll, {long} s", f"poll, {short} s", at(DAY))
        cases.append(held(f"one day: poll, {long} s - {short} s, %", POSITIVE, INF, told, LITTLE))
    for name in (PUSH, PULL):
        rows = f"{name}: first commits refused, one submission at a time, messages take no time, %"
        cases.append(none(rows, value(name, "refused", at(DAY, alone=True))))
        rows = f"{name}: growth of schedules per node per doubling, N = 1250 to 5000, % of the mean"
        cases.append(held(rows, -10.0, 10.0, per_node(name), LITTLE))
    check(dgs_table1, cases)


def per_node(name):
    """x is by how many % of the mean it grows with each doubling, with as many jobs per node."""

    def tell(x):
        return lambda make: (
            {(name, "per node"): 4.0 * (1.0 + x / 100 * math.log2(make.nodes / 2500))}
            if make.load == DAY and make.jobs * 5 == make.nodes * 2 and not make.alone
            else {}
        )

    return tell


@pytest.mark.parametrize("load", [HIGH, 4.0])
def test_dgs_table2(load):
    case, degrees, of = f"RU {load:g}", (10, 20, 30, 40), at(load)
    widen = ["push, d = 10, widen"] if load == HIGH else []
    names = [f"{policy}, d = {d}" for policy in (PUSH, PULL) for d in degrees] + widen
    cases = [near(f"{case}: jobs that fail, d = 10, %", 1.5, value("push, d = 10", "never", of))]
    cases += [
        none(f"{case}: jobs that fail, d = {d}, %", value(f"push, d = {d}", "never", of)) for d in degrees[1:]
    ]
    cases += [
        none(f"{case}: jobs that fail where searches widen, d = 10, %", value(name, "never", of))
        for name in widen
    ]
    for name in names:
        within = {(other, "within reach"): 0.0 for other in names}
        told = where(of, lambda x, name=name, all=within: all | {(name, "within reach"): x})
        rows = f"{case}: jobs that fail of no more nodes than were reached, all degrees, %"
        cases.append(none(rows, told))
    longer = where(of, lambda x: {("push, d = 40", "waiting"): 4.0 + x, ("push, d = 10", "waiting"): 4.0})
    cases.append(Held(f"{case}: waiting, d = 40 - d = 10, s", (LITTLE, FAR), (0.0, -LITTLE, -FAR), longer))
    for d in degrees:
        name = f"push, d = {d}"
        changes = {(name, "nodes"): 2.0, (name, "cancelled"): 3.0, (name, "jobs"): 8.0}
        told = where(
            of, lambda x, name=name, d=d, all=changes: all | {(name, "schedules"): x * d * (2.0 + 6.0) * 8.0}
        )
        rows = f"{case}: push, d = {d}: schedules / (d * changes of schedules)"
        cases.append(held(rows, 0.95, 1.05, told, LITTLE))
    for low, high in ((20, 40), (10, 40)):
        cases.append(
            Held(
                f"{case}: pull grows as d to the power of, d = {low} to {high}",
                (1.0 + LITTLE, 2.0 - LITTLE),
                (-2.0, -1.0, 1.0 - LITTLE, 2.0 + LITTLE, 20.0),
                where(
                    of,
                    lambda x, low=low, high=high: {
                        (f"pull, d = {low}", "schedules"): 4.0,
                        (f"pull, d = {high}", "schedules"): 4.0 * (high / low) ** x,
                    },
                ),
            )
        )
    check(dgs_table2, cases, f"{case}: *")


@pytest.mark.parametrize("load", [LOW, HIGH])
def test_dgs_table3(load):
    rows = f"RU {load:g}: dynamic - static"
    told = {("static", "waiting"): 400.0}
    apart = where(at(load), lambda x: told | {("dynamic", "waiting"): 400.0 * (1.0 + x / 100)})
    cases = [
        Held(f"{rows}, s", (LITTLE, FAR), (0.0, -LITTLE, -FAR), apart),
        held(f"{rows}, % of static", 5.0, 20.0, apart, LITTLE),
    ]
    check(dgs_table3, cases, f"RU {load:g}: *")


# -- figures ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_is_simulated(monkeypatch):
    """What only figures show."""
    result = SimpleNamespace(applications={"waiting": None})
    for module in (dgs_fig4, dgs_fig5, dgs_whole):
        monkeypatch.setattr(module, "simulate", lambda *_: result)
    monkeypatch.setattr(dgs_fig4, "curves", lambda _: None)
    monkeypatch.setattr(dgs_fig5, "over_time", lambda _: None)
    monkeypatch.setattr(dgs_fig5, "by", lambda *_: None)


def test_dgs_fig4():
    cases = [
        held(
            f"RU {load:g}: distance of EU from that without waiting, below 60 %, % points",
            0.0,
            1.0,
            value(PUSH, "distance", at(load)),
        )
        for load in (LOW, HIGH)
    ]
    full = "RU 0.95: EU where it would be 100 % or more without waiting, %"
    cases.append(held(full, 85.0, 100.0, value(PUSH, "overbooked", at(HIGH))))
    # seeds in which it never is so do not count
    some = np.array([1.0, 1.0, 1.0, 1.0, 1.0, math.nan])
    told = where(at(HIGH), lambda x: {(PUSH, "overbooked"): x * some})
    cases.append(Held(full, (85.0, 100.0), (84.9, 100.1), told))
    cases.append(held("RU 0.95: largest EU, %", 90.0, 100.0, value(PUSH, "peak", at(HIGH))))
    after = "RU 0.95: EU positive after the last submission, days"
    cases.append(held(after, 2.0, INF, value(PUSH, "after", at(HIGH))))
    check(dgs_fig4, cases)


def test_dgs_fig5():
    of = at(HIGH)
    ranges = {
        "rank correlation of waiting over time and EU": ("with load", POSITIVE, 1.0),
        "rank correlation of waiting and nodes": ("nodes", 0.3, 1.0),
        "rank correlation of waiting and duration": ("duration", -0.1, 0.1),
        "rank correlation of waiting and area": ("area", POSITIVE, 1.0),
        "median waiting, 64 nodes and more / below 2": ("nodes ends", 2.0, INF),
        "median waiting, 86400 s and more / below 3600": ("duration ends", 0.5, 2.0),
        "median waiting, 1000 node hours and more / below 1": ("area ends", ABOVE, INF),
    }
    cases = [
        held(rows, low, high, value(PUSH, metric, of), LITTLE) for rows, (metric, low, high) in ranges.items()
    ]
    some = "large jobs that start without delay, %"
    cases.append(Held(some, (1e-6, 100.0), (0.0, -1.0, 100.1), value(PUSH, "prompt", of)))
    check(dgs_fig5, cases)


#: Of the sixths: RU, and nodes in use.
RU, USED = np.array([0.1, 0.6, 0.3, 0.5, 0.2, 0.4]), np.array([0.3, 0.2, 0.1, 0.4, 0.6, 0.5])
LEAST, MOST = 2, 4


def sixths(pull, cancelled):
    """What pull adds, x -> six numbers; push adds 4, of which cancelled nodes push so much."""

    def tell(x):
        added = np.cumsum(pull(x))

        def of(make):
            # the whole is told by another name than its last sixth
            k = make.part[0] if make.part[1] == 6 else 6
            return {
                (PULL, "schedules"): 4.0 * added[k - 1],
                (PUSH, "schedules"): 4.0 * k,
                (PUSH, "jobs"): float(k),
                (PUSH, "nodes"): 4.0,
                (PUSH, "cancelled"): 2.0 if cancelled else 0.0,
            }

        return of

    return tell


def ordered(load, correlation):
    """Six numbers with this rank correlation with the load."""
    numbers = itertools.permutations(range(20, 26))
    return next(
        each
        for each in numbers
        if rank_correlation(np.array(each, float), load) == pytest.approx(correlation)
    )


def test_dgs_fig6(monkeypatch):
    monkeypatch.setattr(dgs_fig6, "_loads", lambda jobs, seed: (RU, USED))
    names = {"pull / push": 1.0, "pull / push, cancelled nodes left out": 0.5}
    cases = []
    for name, share in names.items():

        def one(place, share=share):
            """x at this place."""
            return sixths(lambda x: [x * share if k == place else 7.0 for k in range(6)], share < 1)

        def everywhere(share=share):
            """x on average."""
            return sixths(lambda x: [x * share * part for part in (0.5, 1.5, 1.0, 0.7, 1.3, 1.0)], share < 1)

        def ranked(load, share=share):
            return sixths(lambda x: ordered(load, x), share < 1)

        cases += [
            held(f"{name}, sixth of the lowest load", 0.5, 2.0, one(LEAST), 1e-6),
            held(f"{name}, sixth of the highest load", 2.0, 200.0, one(MOST), 1e-6),
            held(f"{name}, whole", 10.0, INF, everywhere(), 1e-6),
        ]
        for what, load in (("RU", RU), ("nodes in use", USED)):
            rows = f"{name}: rank correlation with {what}"
            cases.append(Held(rows, (1 / 35, 1.0), (-1 / 35, -1.0), ranked(load)))
    check(dgs_fig6, cases)


def test_dgs_whole():
    cases = []
    for load in (LOW, HIGH):
        case, of = f"RU {load:g}", at(load)
        for greater, less in ((PULL, PUSH), (PUSH, PULL)):
            costs = {(greater, "schedules"): 4.0, (less, "schedules"): 2.0}
            told = where(of, lambda x, costs=costs: costs | {(POLL, "schedules"): 4.0 * x})
            cases.append(held(f"{case}: poll / the greater of pull and push", ABOVE, INF, told, LITTLE))
        rows = f"{case}: pull / push over fwd (1 + m) searches / (E[[]n] + 2 cancelled)"
        cases += [
            held(f"{case}: pull / push", ABOVE, INF, plain(of), LITTLE),
            held(rows, 0.9, 1.1, as_protocol(of), LITTLE),
        ]
    rise = risen(plain, at(LOW), at(HIGH))
    cases.append(held("pull / push: RU 0.95 over RU 0.28", ABOVE, INF, rise, LITTLE))
    for short, long in (("30", "120"), ("120", "480")):
        told = more(f"poll, {long} s", f"poll, {short} s", at(LOW))
        rows = f"RU 0.28: first commits refused, poll, {long} s - poll, {short} s, %"
        cases.append(held(rows, POSITIVE, INF, told, LITTLE))
    for name in (PUSH, PULL):
        rows = f"RU 0.28: first commits refused, {name}, one submission at a time, messages take no time, %"
        cases.append(none(rows, value(name, "refused", at(LOW, alone=True))))
    distance = "RU 0.28: distance of EU from that without waiting, below 60 %, % points"
    cases.append(held(distance, 0.0, 1.0, value(PUSH, "distance", at(LOW))))
    cases.append(held("RU 0.95: largest EU, %", 90.0, 100.0, value(PUSH, "peak", at(HIGH))))
    check(dgs_whole, cases)
