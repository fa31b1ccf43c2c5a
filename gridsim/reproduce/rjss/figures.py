"""RJSS, Figures 2 and 4 to 7, and two experiments on its load and its conditions that the paper leaves "
"open."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import (
    Case,
    CaseTable,
    Measurements,
    Reproduction,
    ResultGrid,
    Run,
    lines,
    panels,
    per_doubling,
    rows_of,
    series,
)
from gridsim.reproduce.rjss.common import (
    MEASURES,
    METRICS,
    REMARKS,
    RIVALS,
    SHARES,
    TURNAROUND,
    TURNAROUNDS,
    G,
    all_faster,
    faster,
    grows_less,
    jobs,
    rises,
)
from gridsim.reproduce.verdicts import LARGER, SMALLER, ZERO, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate, estimate

#: Mean processing time of a job, s; divided by the time between two jobs it is the load.
TASK = 30.0
#: Axis properties of the charts over k, the nodes and the latency.
LOG_TURNAROUND = {"yscale": "log", "ylabel": TURNAROUND}

# -- Figure 2 -------------------------------------------------------------------------------------------

#: Values of k, the share of nodes that are probed; those that the paper calls best, and those compared with
#: them.
ASKED_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
BEST, COMPARED_SHARES = (0.1, 0.2), (0.05, 0.4, 1.0)
#: Way of probing -> `probe_latency` of `Rjss`, the time of a probe.
PROBE_LATENCIES: dict[str, float | Literal["network"]] = {"free": 0.0, "in round trips": "network"}
#: Loads; the paper's parameters result in a load of 1.5.
LOADS = (0.6, 0.9, 1.5)
BEST_SHARE = "the best results are obtained when k is between 10 % and 20 % of the nodes"


def _fig2_cases(run: Run) -> dict[tuple[str, str], Case]:
    return {
        (f"asking {asking}", f"load {load:g}"): Case(
            jobs(run, interarrival=TASK / load),
            {f"k = {k:.0%}": gs.Rjss(k=k, probe_latency=latency) for k in ASKED_SHARES},
        )
        for asking, latency in PROBE_LATENCIES.items()
        for load in LOADS
    }


def _fig2_rows(data: Measurements) -> Iterator[Row]:
    for (asking, load), values in data.items():
        mean = {name: float(column.mean()) for name, column in values["turnaround"].items()}
        best = min((f"k = {k:.0%}" for k in BEST), key=mean.__getitem__)
        for k in COMPARED_SHARES:
            quantity = f"{asking}, {load}: turnaround with {best} / with k = {k:.0%}"
            yield judge(BEST_SHARE, quantity, values.mean_ratio(best, f"k = {k:.0%}", "turnaround"), SMALLER)


FIG2 = Reproduction(
    name="rjss-fig2",
    title="turnaround of RJSS over the share of the nodes that are asked",
    paper="the paper on RJSS, Figure 2",
    claims=(BEST_SHARE,),
    seeds=(20, 5),
    cases=_fig2_cases,
    metrics=METRICS,
    rows=_fig2_rows,
    grids=(
        CaseTable("mean turnaround of all jobs, s; {group}", "turnaround"),
        CaseTable("G^t when the last job is submitted, s; {group}", G),
        CaseTable("messages a job; {group}", "messages"),
    ),
    remarks=REMARKS,
    figure=lambda data: panels(
        {
            asking: {
                load: [values.mean(name, "turnaround") for name in values.schedulers]
                for load, values in cases.items()
            }
            for asking, cases in data.groups.items()
        },
        [100 * k for k in ASKED_SHARES],
        {"xlabel": "k, % of the nodes", **LOG_TURNAROUND},
        shared=True,
    ),
)

# -- Figure 4 -------------------------------------------------------------------------------------------

FIG4_BETTER = "G^t of RJSS is less than that of RE and NM for all rates"
FROM_START = "RJSS is better from the early stages of the run on"


def _over_time(data: Measurements) -> dict[str, dict[str, list[Estimate]]]:
    """Return case -> scheduler -> G^t after each share of the horizon."""
    return {
        case: {name: [values.mean(name, f"G at {share:g}") for share in SHARES] for name in values.schedulers}
        for case, values in data.items()
    }


def _fig4_grids(data: Measurements) -> Iterator[ResultGrid]:
    yield from (table.grid(data) for table in TURNAROUNDS)
    columns = ["scheduler", *(f"t = {share:g} T" for share in SHARES)]
    for case, rows in _over_time(data).items():
        yield ResultGrid(data.run.choose(f"G^t, s, {case}; T is 2000 s", case), columns, rows)


FIG4 = Reproduction(
    name="rjss-fig4",
    title="turnaround of RJSS, RE and NM over the rate of jobs",
    paper="the paper on RJSS, Figure 4",
    claims=(FIG4_BETTER, FROM_START),
    seeds=(20, 5),
    cases=lambda run: {
        f"{rate} jobs in 1000 s": jobs(run, interarrival=1000.0 / rate)
        for rate in run.choose((30, 40, 50), (30, 50))
    },
    schedulers=RIVALS,
    metrics=METRICS,
    rows=(
        *all_faster(FIG4_BETTER),
        *(faster(FROM_START, "RJSS", rival, f"G at {SHARES[0]:g}") for rival in ("RE", "NM")),
    ),
    grids=_fig4_grids,
    remarks=(
        *REMARKS,
        "The paper draws G^t over U^t, whose formula is damaged.  Read as the time over the number of jobs "
        "so far, U^t is nearly constant (1 / the rate of all nodes), which cannot be an axis; so here the "
        "axis is the time.",
    ),
    figure=lambda data: panels(
        _over_time(data), SHARES, {"xlabel": "time / T", "ylabel": "G^t, s", "ylim": (0, None)}
    ),
)

# -- Figure 5 -------------------------------------------------------------------------------------------

BETTER = "RJSS performs better than RE and NM"
FIG5_LESS = "increasing the processing time has less effect on RJSS than on RE and NM"
#: Mean processing times at 200 Mflop/s, s; a node submits a job every 20 s on average.
TIMES = (20.0, 25.0, 30.0, 35.0, 40.0), (20.0, 40.0)

FIG5 = Reproduction(
    name="rjss-fig5",
    title="turnaround of RJSS, RE and NM over the processing time",
    paper="the paper on RJSS, Figure 5",
    claims=(BETTER, FIG5_LESS),
    seeds=(20, 5),
    cases=lambda run: {f"{time:g} s": jobs(run, processing_time=time) for time in run.choose(*TIMES)},
    schedulers=RIVALS,
    metrics=METRICS,
    rows=lambda data: (*rows_of(all_faster(BETTER), data), *grows_less(FIG5_LESS, data)),
    grids=TURNAROUNDS,
    remarks=REMARKS,
    figure=lines(
        TIMES, "turnaround", {"xlabel": "processing time, s", "ylabel": TURNAROUND, "ylim": (0, None)}
    ),
)

# -- Figure 6 -------------------------------------------------------------------------------------------

STAYS = "the increasing rate does not influence RJSS, as the increasing clock compensates that"
INCREASE = "NM and RE increase"
#: Pairs of the number of jobs of a node in 1000 s and the mean clock, Mflop/s; jobs take 30 s at 200 Mflop/s.
PAIRS = ((30, 200.0), (40, 300.0), (50, 400.0), (60, 500.0)), ((30, 200.0), (60, 500.0))


def _fig6_rows(data: Measurements) -> Iterator[Row]:
    yield from rows_of(all_faster(BETTER), data)
    for metric in MEASURES:
        yield rises(STAYS, data, "RJSS", metric, ClaimedRange("about 1", 0.9, 1.1))
        for name in ("RE", "NM"):
            yield rises(INCREASE, data, name, metric, LARGER)


FIG6 = Reproduction(
    name="rjss-fig6",
    title="turnaround of RJSS, RE and NM as rate and clocks grow together",
    paper="the paper on RJSS, Figure 6",
    claims=(STAYS, INCREASE, BETTER),
    seeds=(20, 5),
    cases=lambda run: {
        f"{rate} jobs, {clock:g} Mflop/s": jobs(run, interarrival=1000.0 / rate, clock=clock)
        for rate, clock in run.choose(*PAIRS)
    },
    schedulers=RIVALS,
    metrics=METRICS,
    rows=_fig6_rows,
    grids=(*reversed(TURNAROUNDS), CaseTable("utilization, until the last job is done", "utilization")),
    remarks=(
        *REMARKS,
        "The pairs of rate and clock are not readable in the paper; these span its ranges, at loads of 0.9 "
        "to 0.72.",
    ),
    figure=lambda data: panels(
        {"": series(data, "turnaround")},
        range(len(data)),
        {
            "xticks": range(len(data)),
            "xticklabels": [f"{rate}, {clock:g}" for rate, clock in data.run.choose(*PAIRS)],
            "ylim": (0, None),
            "xlabel": "jobs of a node in 1000 s, clock in Mflop/s",
            "ylabel": TURNAROUND,
        },
    ),
)

# -- Figure 7 -------------------------------------------------------------------------------------------

VARIES = (
    "G^t of RJSS varies slightly with the number of nodes, since more are asked and deciding takes longer"
)
FIG7_BETTER = "RJSS performs comparatively better than RE and NM"
RIVALS_VARY = (
    "(not in the paper) that of RE, and of RJSS that wants the best, varies slightly where asking takes time"
)
SIZES = (100, 200, 300, 400, 500), (40, 80)
#: Maximum relative change per doubling of the size that counts as slight.
SLIGHT = 0.1
ROUND_TRIPS = "RJSS, round trips"
ASKING: dict[str, gs.Scheduler] = {
    ROUND_TRIPS: gs.Rjss(probe_latency="network"),
    "RE, round trips": gs.ResourceExclusion(probe_latency="network"),
    "RJSS, best, round trips": gs.Rjss(probe_latency="network", pick="best"),
}


def _fig7_rows(data: Measurements) -> Iterator[Row]:
    yield from rows_of(all_faster(FIG7_BETTER), data)
    for load, cases in data.groups.items():
        for name in ("RJSS", *ASKING):
            means = [values["turnaround"][name] for values in cases.values()]
            growth = per_doubling(data.run.choose(*SIZES), means) / (sum(means) / len(means))
            yield judge(
                VARIES if name in ("RJSS", ROUND_TRIPS) else RIVALS_VARY,
                f"{load}, {name}: change of the turnaround with a doubling of N, relative",
                estimate(growth),
                ClaimedRange("a slight rise", 0.0, SLIGHT)
                if name == ROUND_TRIPS
                else ClaimedRange("slight", -SLIGHT, SLIGHT),
            )


FIG7 = Reproduction(
    name="rjss-fig7",
    title="turnaround of RJSS, RE and NM over the number of nodes",
    paper="the paper on RJSS, Figure 7",
    claims=(VARIES, FIG7_BETTER, RIVALS_VARY),
    seeds=(20, 5),
    cases=lambda run: {
        (f"load {load:g}", f"N = {nodes}"): jobs(run, nodes=nodes, interarrival=TASK / load)
        for load in (0.9, 1.5)
        for nodes in run.choose(*SIZES)
    },
    schedulers={**RIVALS, **ASKING},
    metrics=METRICS,
    rows=_fig7_rows,
    grids=(
        CaseTable("{group}: mean turnaround of all jobs, s", "turnaround"),
        CaseTable("{group}: G^t when the last job is submitted, s", G),
        CaseTable("{group}: messages a job", "messages"),
    ),
    remarks=(
        *REMARKS,
        '"Slight" is taken as at most 10 % of the mean with each doubling.  A round trip takes as long as '
        "two packets of 100 bytes, 0.2 s; at most 10 % of the nodes are asked, one after the other.",
    ),
    figure=lines(SIZES, "turnaround", {"xlabel": "nodes", **LOG_TURNAROUND}, shared=True),
)

# -- over the load --------------------------------------------------------------------------------------

ALWAYS_BETTER = "RJSS performs better than RE and NM in all cases"
RE_BETTER = "RE performs better than NM (the order in which the paper's figures have them)"
WIDE_LOADS = (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.35, 1.5), (0.3, 0.9)

LOAD = Reproduction(
    name="rjss-load",
    title="turnaround of RJSS, resource exclusion and no migration, over the load",
    paper="the paper on RJSS, at more loads",
    claims=(ALWAYS_BETTER, RE_BETTER),
    cases=lambda run: {
        f"load {load:g}": jobs(run, interarrival=TASK / load) for load in run.choose(*WIDE_LOADS)
    },
    schedulers={
        **RIVALS,
        "RJSS, best": gs.Rjss(pick="best"),
        "RE, fastest": gs.ResourceExclusion(reading="fastest"),
    },
    metrics=METRICS,
    rows=[
        faster(claim, a, b, metric)
        for metric in MEASURES
        for claim, a, b in (
            (ALWAYS_BETTER, "RJSS", "RE"),
            (RE_BETTER, "RE", "NM"),
            (ALWAYS_BETTER, "RJSS", "NM"),
        )
    ],
    grids=(
        *reversed(TURNAROUNDS),
        CaseTable("share of the jobs that moves", "migrated"),
        CaseTable("messages a job", "messages"),
        CaseTable("prediction error of those that moved and had to wait", "error"),
        CaseTable("utilization, until the last job is done", "utilization"),
    ),
    remarks=(*REMARKS, "The paper runs at loads of 0.9 and more."),
    figure=lines(WIDE_LOADS, "turnaround", {"xlabel": "load", **LOG_TURNAROUND}),
)

# -- work that arrives while a job is on its way --------------------------------------------------------

TRANSIT_BETTER = "considering what comes to a node while a job is on its way there makes for better decisions"
NEVER_HELD = (
    "(not in the paper) at the paper's latency no condition holds a job back, and P < 0.5 as printed never "
    "does: x exp(-x) is at most 1 / e"
)
LATENCIES = (0.1, 1.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0), (0.1, 20.0)
PLAIN, LOCAL = "no condition", "as printed, without others' jobs"
RULES: dict[str, gs.Scheduler] = {
    "as printed": gs.Rjss(),
    "at least one": gs.Rjss(rule="at-least-one"),
    LOCAL: gs.Rjss(remote_threshold=math.inf),
    "at least one, without others' jobs": gs.Rjss(rule="at-least-one", remote_threshold=math.inf),
    PLAIN: gs.Rjss(rule="none"),
    "NM": gs.NoMigration(),
}


def _transit_rows(data: Measurements) -> Iterator[Row]:
    for load, cases in data.groups.items():
        shortest, *longer = cases
        for name in ("as printed", "at least one"):
            quantity = f"{load}, {shortest}: turnaround {name} less with {PLAIN}, s"
            yield judge(NEVER_HELD, quantity, cases.first.difference(name, PLAIN, "turnaround"), ZERO)
        gaps = [values["turnaround"][LOCAL] - values["turnaround"][PLAIN] for values in cases.values()]
        quantity = f"{load}, all latencies: turnaround {LOCAL} less with {PLAIN}, s"
        yield judge(NEVER_HELD, quantity, estimate(np.concatenate(gaps)), ZERO)
        for metric, label in MEASURES.items():
            for name in ("as printed", "at least one"):
                for latency in longer:
                    quantity = f"{load}, {latency}: {label}, {name} / with {PLAIN}"
                    yield judge(
                        TRANSIT_BETTER, quantity, cases[latency].mean_ratio(name, PLAIN, metric), SMALLER
                    )


TRANSIT = Reproduction(
    name="rjss-transit",
    title="RJSS with and without its conditions on what comes meanwhile, over the transfer latency",
    paper="the paper on RJSS, at longer latencies",
    claims=(TRANSIT_BETTER, NEVER_HELD),
    cases=lambda run: {
        (f"load {load:g}", f"{latency:g} s"): jobs(run, interarrival=TASK / load, congestion=latency)
        for load in (0.9, 1.5)
        for latency in run.choose(*LATENCIES)
    },
    schedulers=RULES,
    metrics=METRICS,
    rows=_transit_rows,
    grids=(
        CaseTable("{group}: G^t when the last job is submitted, s; over the latency", G),
        CaseTable("{group}: mean turnaround of all jobs, s", "turnaround"),
        CaseTable("{group}: share of the jobs that moves", "migrated"),
        CaseTable("{group}: prediction error", "error", list(RULES)[:-1]),
    ),
    remarks=(
        f"x exp(-x) is {math.exp(-1.0):.4f} at most (at x = 1), so that P < 0.5 always holds; 1 - exp(-x) < "
        "0.5 as long as a transfer takes less than ln 2 / rate: 23.1 s at 30 jobs in 1000 s, 13.9 s at 50.",
        *REMARKS,
    ),
    figure=lines(
        LATENCIES,
        "turnaround",
        {"xlabel": "latency of a transfer, s", "xscale": "log", **LOG_TURNAROUND},
        shared=True,
    ),
)
