"""Each row of a reproduction is judged by what was measured: tried on both sides of each end of its range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from told import ABOVE, BELOW, POSITIVE, SEEDS, Held, Told, check, held, judged, near, ratio, value

from gridsim.reproduce.celaya import (
    failures as celaya_failures,
)
from gridsim.reproduce.celaya import (
    fig4a as celaya_fig4a,
)
from gridsim.reproduce.celaya import (
    fig4b as celaya_fig4b,
)
from gridsim.reproduce.celaya import (
    table1 as celaya_table1,
)
from gridsim.reproduce.others import braun, searches, waves
from gridsim.results.metrics.mapping_matrices import BRAUN_CLASSES, HEURISTICS

INF = math.inf
LITTLE = 1e-9


# -- Celaya and Marchal -----------------------------------------------------------------------------------


def test_celaya_table1():
    rates = (2500, 5000, 10_000, 20_000, 40_000)
    printed = {
        "time": (12.3, 6.61, 3.68, 2.33, 1.81),
        "mean": (2.41, 3.78, 4.28, 5.0, 5.84),
        "peak_1s": (11.41, 16.43, 24.88, 40.45, 72.63),
        "peak_10s": (11.41, 16.43, 24.88, 40.45, 72.63),
    }
    called = {
        "mean": "mean link use",
        "peak_1s": "peak link use in 1 s",
        "peak_10s": "peak link use in 10 s",
    }
    cases = []
    for k, rate in enumerate(rates):
        name = f"{rate} B/s"
        of = {kind: lambda make, kind=kind: (make.kind, make.nodes) == (kind, 1000) for kind in "UV"}
        cases.append(
            near(f"maximum update time, {name}, s", printed["time"][k], value(name, "time", of["U"]))
        )
        for kind in "UV":
            for metric, what in called.items():
                rows = f"{kind}: {what}, {name}, %"
                cases.append(near(rows, printed[metric][k], value(name, metric, of[kind])))
        rows = f"summaries' share of bytes, {name}, %"
        cases.append(held(rows, 95.0, 100.0, value(name, "share", of["U"])))
    for kind in "UV":
        cases.append(near(f"{kind}: task data / messages, 10000 B/s", 10.0, value("tree", "ratio", of[kind])))
    check(celaya_table1, cases)


def over_sizes(name, metric, sizes, shape):
    """x -> values that grow with N by shape(x, log2 N - log2 of the least)."""

    def tell(x):
        return lambda make: {(name, metric): shape(x, math.log2(make.nodes / sizes[0]))}

    return tell


def test_celaya_fig4a():
    base, tree = "MinCent", "tree"

    def largest(make, kind):
        return (make.kind, make.nodes) == (kind, 1000)

    def apart(a, b, kind):
        """x is a - b, in units of MinCent without failures."""
        told = {(b, "max_stretch"): 4.0, (base, "max_stretch"): 2.0}
        return lambda x: (
            lambda make: told | {(a, "max_stretch"): 4.0 + 2.0 * x} if largest(make, kind) else {}
        )

    def grown(kind):
        return lambda x: (
            lambda make: (
                {
                    (base, "max_stretch"): 2.0,
                    (tree, "max_stretch"): 2.0 + 2.0 * x * math.log(make.nodes / 50, 20),
                }
                if make.kind == kind and make.further is None
                else {}
            )
        )

    cases = []
    for kind in ("K1", "K2", "U"):
        at = f"{kind}, N = 1000"

        def of(make, kind=kind):
            return largest(make, kind)

        rows = f"{at}: the same of the means, tree"
        cases.append(held(rows, -INF, 1.25, ratio(tree, base, "max_stretch", of)))
        rows = f"{kind}: growth of the ratio, N = 50 to 1000, tree"
        cases.append(held(rows, POSITIVE, 0.25, grown(kind), LITTLE))
        for calm in ("tree", "tree B = 1.25", "tree B = 2", "tree B = 2, busy leaves"):
            rows = f"{at}: {calm} / MinCent"
            cases.append(held(rows, -INF, 1.25, ratio(calm, base, "max_stretch", of)))
            if calm not in celaya_fig4a.HIT:
                continue
            failing = f"{calm}, failures"
            rows = f"{at}: {failing} - without failures"
            cases.append(held(rows, POSITIVE, INF, apart(failing, calm, kind), LITTLE))
            for fcfs in ("FCFS ect", "FCFS random", "FCFS ect, failures", "FCFS random, failures"):
                rows = f"{at}: {fcfs} - {failing}"
                cases.append(held(rows, POSITIVE, INF, apart(fcfs, failing, kind), LITTLE))
        for fcfs in ("FCFS ect", "FCFS random"):
            cases.append(held(f"{at}: {fcfs} / MinCent", 1.8, 2.2, ratio(fcfs, base, "max_stretch", of)))
    check(celaya_fig4a, cases)


def test_celaya_fig4b():
    sizes = (50, 100, 200, 500, 1000)

    def bent(x, doublings):
        """Slope 1 up to N = 200, then x."""
        return 1.0 + min(doublings, 2.0) + x * max(doublings - 2.0, 0.0)

    last = value("tree", "time", lambda make: make.nodes == 1000)
    line = over_sizes("tree", "time", sizes, lambda x, doublings: 1.0 + x * doublings)
    check(
        celaya_fig4b,
        [
            held("maximum update time, N = 1000, s", -INF, 4.0, last),
            held("growth per doubling of N, s", POSITIVE, INF, line, LITTLE),
            held(
                "growth per doubling above N = 200 over that below",
                0.5,
                1.5,
                over_sizes("tree", "time", sizes, bent),
                LITTLE,
            ),
        ],
    )


def test_celaya_failures():
    calm, as_is, new = "without failures", "with failures", "with failures, as new requests"
    hit = (10303.0, 12533.0)

    def narrower(failing):
        ends = {(failing, "min"): 2.0, (calm, "max"): 16.0, (calm, "min"): 4.0}
        return lambda x: lambda make: ends | {(failing, "max"): 8.0 * x}

    for kind in ("K1", "U"):

        def of(make, kind=kind):
            return (make.kind, make.nodes) == (kind, 1000)

        cases = []
        for case, (least, most) in {calm: (220.0, 10876.0), as_is: hit, new: hit}.items():
            for end, metric, paper in (("smallest", "min", least), ("largest", "max", most)):
                rows = f"{kind}: {end} stretch {case}, 1e-8 s/Mflop"
                cases.append(near(rows, paper, value(case, metric, of)))
        for case in (as_is, new):
            rows = f"{kind}: tasks completed {case}, %"
            cases.append(held(rows, 100.0, 100.0, value(case, "completed", of)))
            rows = f"{kind}: largest / smallest, {case} over without"
            cases.append(held(rows, 0.0, BELOW, narrower(case), LITTLE))
        check(celaya_failures, cases, f"{kind}: *")


# -- Braun et al. -----------------------------------------------------------------------------------------


def test_braun(monkeypatch):
    """min-min takes 2; of the others that MET is compared with, each is once the worst."""
    published = ("olb", "mct", "min-min", "max-min")

    def verdicts(**makespans):
        told = {rule: np.full(6, makespans.get(rule.replace("-", "_"), 99.0)) for rule in HEURISTICS}
        monkeypatch.setattr(braun, "makespans", lambda name, how: told)
        return judged(braun, None)

    for rule in ("mct", "olb", "max-min"):
        for makespan, verdict in (
            (2.0 + LITTLE, "reproduced"),
            (2.0, "not reproduced"),
            (1.0, "not reproduced"),
        ):
            found = verdicts(min_min=2.0, **{rule.replace("-", "_"): makespan})
            rows = [found[f"{name}: {rule} above min-min, relative"] for name in BRAUN_CLASSES]
            assert set(rows) == {verdict}
    for worst in published:
        others = {rule.replace("-", "_"): 4.0 if rule == worst else 2.0 for rule in published}
        for makespan, verdict in (
            (4.0 + LITTLE, "reproduced"),
            (4.0, "not reproduced"),
            (3.0, "not reproduced"),
        ):
            found = verdicts(met=makespan, **others)
            rows = {name: said for name, said in found.items() if "met above" in name}
            assert set(rows.values()) == {verdict}
            assert {name[2] for name in rows} == {"c"} and len(rows) == 4
    assert len(found) == 3 * 12 + 4


# -- searches, and wave schedulers ------------------------------------------------------------------------


def test_searches():
    said = {
        "messages": "messages per found host",
        "search messages": "messages per found host, upkeep left out",
        "time": "time to find a host, s",
        "turnaround": "turnaround of a bag, s",
    }
    judged_by = [("rendezvous", metric) for metric in said] + [("rendezvous, any host", "turnaround")]
    ranges = {"light": (-INF, BELOW), "heavy": (ABOVE, INF)}
    check(
        searches,
        [
            held(
                f"{load}: {said[metric]}, {one} / {other}",
                *ranges[load],
                ratio(one, other, metric, lambda make, load=load: make.load == load),
            )
            for load in ranges
            for one, metric in judged_by
            for other in ("expanding ring", "random walk", "advertisement")
        ],
    )


def waited(mode, worst, best, between, of):
    """x is the worst wait over the best one; all others wait as long as one of them."""

    def tell(x):
        rest = x if between == "worst" else 1.0
        told = {(f"{mode} {at:g}", "turnaround"): rest for at in waves.LINGERS}
        told |= {(f"{mode} {worst}", "turnaround"): x, (f"{mode} {best}", "turnaround"): 1.0}
        return lambda make: told if of(make) else {}

    return tell


@pytest.mark.parametrize("load", ["light", "heavy"])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_waves(load, share):
    def of(make):
        return (make.load, make.day_up, make.nodes) == (load, share, 600)

    where = f"up {100 * share:g} % of the day, {load}"
    pairs = (("wave-immediate", "migration-immediate"), ("wave-linger", "migration-linger"))
    cases = [
        held(f"{where}: turnaround of {a} / {b}", -INF, BELOW, ratio(a, b, "turnaround", of))
        for a, b in pairs
    ]
    # waits are varied on the hosts that come first
    for mode in ("wave-linger", "migration-linger") if share == 0.1 else ():
        rows = f"{where}: turnaround of {mode}, the worst wait / the best"
        for worst, best in ((900, 14_400), (14_400, 900), (0, 28_800), (28_800, 0)):
            for between in ("worst", "best"):
                # another one would be the worst if x were below 1
                wrong = (1.0, math.nextafter(1.01, 0.0))
                cases.append(Held(rows, (1.01, 2.0**20), wrong, waited(mode, worst, best, between, of)))
    check(waves, cases, f"{where}: *")


def test_ratio_of_means_is_not_the_mean_of_ratios():
    """Of two rows of Figure 4 (a) of Celaya and Marchal one is either."""
    base, tree = np.tile([1.0, 3.0], 3), np.tile([1.3, 3.3], 3)
    told = {("MinCent", "max_stretch"): base, ("tree", "max_stretch"): tree}
    report = celaya_fig4a.run(Told(SEEDS, tell=lambda make: told))
    means = {row.quantity: row.measured.mean for row in report.rows}
    assert means["K1, N = 1000: tree / MinCent"] == pytest.approx(1.2)
    assert means["K1, N = 1000: the same of the means, tree"] == pytest.approx(1.15)
