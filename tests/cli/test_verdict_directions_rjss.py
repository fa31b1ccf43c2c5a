"""What each row about RJSS is judged by: both sides of each end of its range."""

from __future__ import annotations

import math

import pytest
from told import ABOVE, BELOW, FAR, Held, check, held, ratio, value

from gridsim.reproduce.rjss import (
    fig1 as rjss_fig1,
)
from gridsim.reproduce.rjss import (
    fig2 as rjss_fig2,
)
from gridsim.reproduce.rjss import (
    fig4 as rjss_fig4,
)
from gridsim.reproduce.rjss import (
    fig5 as rjss_fig5,
)
from gridsim.reproduce.rjss import (
    fig6 as rjss_fig6,
)
from gridsim.reproduce.rjss import (
    fig7 as rjss_fig7,
)
from gridsim.reproduce.rjss import (
    load as rjss_load,
)
from gridsim.reproduce.rjss import (
    transit as rjss_transit,
)

INF = math.inf
LITTLE = 1e-9
MEASURES = {"turnaround": "turnaround of all jobs", "G at 1": "G^t"}
RIVALS = (("RJSS", "RE"), ("RJSS", "NM"))


def faster(where, of, pairs=RIVALS, measures=MEASURES, over=" / "):
    """That the first of each pair is faster."""
    return [
        held(f"{where}: {said}, {a}{over}{b}", -INF, BELOW, ratio(a, b, metric, of))
        for metric, said in measures.items()
        for a, b in pairs
    ]


def below_zero(rows, tell):
    """That the rows are reproduced below 0 alone."""
    return Held(rows, (-FAR, -LITTLE), (0.0, LITTLE, FAR), tell)


def over_nodes(name, metric, sizes, of=lambda make: True):
    """x is the slope over log2 N of values that are 1 on average."""
    middle = sum(map(math.log2, sizes)) / len(sizes)
    return lambda x: (
        lambda make: {(name, metric): 1.0 + x * (math.log2(make.nodes) - middle)} if of(make) else {}
    )


SIZES = (100, 200, 300, 400, 500)


def test_rjss_fig1():
    cases = [
        held(
            f"N = {n}: mean prediction error",
            -INF,
            0.7,
            value("RJSS", "load error", lambda make, n=n: (make.nodes, make.horizon) == (n, 2000.0)),
        )
        for n in SIZES
    ]
    rows = "change of the mean prediction error with a doubling of N"
    cases.append(
        below_zero(rows, lambda x: lambda make: {("RJSS", "load error"): x * math.log2(make.nodes / 100)})
    )
    check(rjss_fig1, cases)


@pytest.mark.parametrize("load", [0.6, 0.9, 1.5])
@pytest.mark.parametrize(("best", "second"), [("10%", "20%"), ("20%", "10%")])
def test_rjss_fig2(load, best, second):
    """The better one of 10 and 20 % is compared."""

    def against(other):
        return lambda x: (
            lambda make: (
                {
                    (f"k = {best}", "turnaround"): 4.0 * x,
                    (f"k = {second}", "turnaround"): 8.0 * x,
                    (f"k = {other}", "turnaround"): 4.0,
                }
                if make.interarrival == 30.0 / load
                else {}
            )
        )

    cases = [
        held(f"*, load {load:g}: turnaround with k = {best} / with k = {other}", -INF, BELOW, against(other))
        for other in ("5%", "40%", "100%")
    ]
    # of what nobody tells the first one is the best
    check(rjss_fig2, cases, f"*, load {load:g}: turnaround with k = {best} / *")


def test_rjss_fig4():
    cases = []
    for rate in (30, 40, 50):

        def of(make, rate=rate):
            return (make.interarrival, make.nodes) == (1000.0 / rate, 100)

        cases += faster(f"{rate} jobs in 1000 s", of, measures=MEASURES | {"G at 0.1": "G at 0.1"})
    check(rjss_fig4, cases)


def test_rjss_fig5():
    def grown(other, metric):
        """x is what RJSS takes more of from 20 s to 40 s, less what the other does."""
        first = {("RJSS", metric): 3.0, (other, metric): 5.0}
        return lambda x: (
            lambda make: {20.0: first, 40.0: {("RJSS", metric): 4.0 + x, (other, metric): 6.0}}.get(
                make.processing_time, {}
            )
        )

    cases = []
    for time in (20.0, 25.0, 30.0, 35.0, 40.0):
        cases += faster(f"{time:g} s", lambda make, time=time: make.processing_time == time)
    for metric, said in MEASURES.items():
        for other in ("RE", "NM"):
            rows = f"{said}, last column less first: RJSS less {other}, s"
            cases.append(below_zero(rows, grown(other, metric)))
    check(rjss_fig5, cases)


def test_rjss_fig6():
    pairs = ((30, 200.0), (40, 300.0), (50, 400.0), (60, 500.0))

    def rises(name, metric):
        return lambda x: lambda make: {(name, metric): {200.0: 4.0, 500.0: 4.0 * x}.get(make.clock, math.nan)}

    cases = []
    for rate, clock in pairs:

        def of(make, rate=rate, clock=clock):
            return (make.interarrival, make.clock) == (1000.0 / rate, clock)

        cases += faster(f"{rate} jobs, {clock:g} Mflop/s", of)
    ranges = {"RJSS": (0.9, 1.1), "RE": (ABOVE, INF), "NM": (ABOVE, INF)}
    for metric, said in MEASURES.items():
        for name, ends in ranges.items():
            cases.append(held(f"{said}, last column / first: {name}", *ends, rises(name, metric)))
    check(rjss_fig6, cases)


@pytest.mark.parametrize("load", [0.9, 1.5])
def test_rjss_fig7(load):
    cases = []
    for n in SIZES:

        def of(make, n=n):
            return (make.interarrival, make.nodes) == (30.0 / load, n)

        cases += faster(f"load {load:g}, N = {n}", of)
    names = {
        "RJSS": -0.1,
        "RJSS, round trips": 0.0,
        "RE, round trips": -0.1,
        "RJSS, best, round trips": -0.1,
    }
    for name, least in names.items():
        rows = f"load {load:g}, {name}: change of the turnaround with a doubling of N, relative"
        told = over_nodes(name, "turnaround", SIZES, lambda make: make.interarrival == 30.0 / load)
        cases.append(held(rows, least, 0.1, told, LITTLE))
    check(rjss_fig7, cases, f"load {load:g}, *")


def test_rjss_load():
    pairs = (("RJSS", "RE"), ("RE", "NM"), ("RJSS", "NM"))
    cases = []
    for load in (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.35, 1.5):
        cases += faster(f"load {load:g}", lambda make, load=load: make.interarrival == 30.0 / load, pairs)
    check(rjss_load, cases)


@pytest.mark.parametrize("load", [0.9, 1.5])
def test_rjss_transit(load):
    plain, alone = "no condition", "as printed, without others' jobs"

    def apart(name, where, elsewhere):
        """x is how much longer jobs take with the rule, at this latency; 0 or unknown at the others."""

        def tell(x):
            def of(make):
                if make.interarrival != 30.0 / load:
                    return {}
                more = x if make.congestion == where else elsewhere
                return {(name, "turnaround"): 4.0 + more, (plain, "turnaround"): 4.0}

            return of

        return tell

    cases = []
    for name in ("as printed", "at least one"):
        rows = f"load {load:g}, 0.1 s: turnaround {name} less with {plain}, s"
        cases.append(Held(rows, (0.0,), (1e-9, -1e-9), apart(name, 0.1, math.nan)))
        for latency in (1.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0):

            def of(make, latency=latency):
                return (make.interarrival, make.congestion) == (30.0 / load, latency)

            cases += faster(f"load {load:g}, {latency:g} s", of, ((name, plain),), over=" / with ")
    rows = f"load {load:g}, all latencies: turnaround {alone} less with {plain}, s"
    for latency in (0.1, 1.0, 60.0):
        cases.append(Held(rows, (0.0,), (1.0, -1.0), apart(alone, latency, 0.0)))
    check(rjss_transit, cases, f"load {load:g}, *")
