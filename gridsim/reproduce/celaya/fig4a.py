"""Celaya and Marchal, research report, Figure 4(a): maximum stretch relative to MinCent over network size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gridsim.reproduce.celaya.common import (
    AT_ROOT,
    BASE,
    EARLY,
    ECT,
    FAILURES_REMARK,
    FCFS,
    METRICS,
    MINCENT,
    RANDOM,
    READINGS,
    READINGS_REMARK,
    ROOT,
    TREE,
    TREE_REMARK,
    WORSE,
    against_fcfs,
    claims_by_reading,
    fcfs_margin,
    hit,
    paper_tree,
    readings,
    verdicts,
    with_failures,
)
from gridsim.reproduce.framework import (
    CALIBRATIONS,
    POSITIVE,
    Grid,
    Make,
    Report,
    Row,
    Run,
    failing,
    incomparable,
    judge,
    per_doubling,
    seeds_above,
)
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.schedulers import FairTree
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "celaya-fig4a"
TITLE = "maximum stretch relative to MinCent over the number of machines"
LOSS = "with 1000 machines and no failures the fair tree loses less than 25 % to MinCent"
GROWS = "the loss grows slightly with the number of machines"
TWICE = "FCFS has almost twice the maximum stretch of MinCent"
CLAIMS = (LOSS, GROWS, *claims_by_reading(WORSE), TWICE)
SEEDS = (10, 5)

SIZES, SMALL = (50, 100, 200, 500, 1000), (20, 40)
KINDS = ("K1", "K2", "U")
EARLY_TREE = "B = 2, busy leaves"
#: Label of a tree -> the parameters in which it differs from the paper's.
VARIED: dict[str, Mapping[str, Any]] = {
    ROOT: AT_ROOT,
    "minimum B = 1.25": {"accept": "minimum", "bound": 1.25, "minimum_of": "all"},
    "largest B = 1": {"accept": "largest", "bound": 1.0},
    "either B = 1": {"accept": "either", "bound": 1.0},
    EARLY_TREE: EARLY,
}
#: The paper's tree, and those varied trees that are not the same one.
TREES: dict[str, Mapping[str, Any]] = {
    TREE: {},
    **{name: changes for name, changes in VARIED.items() if paper_tree(**changes) != paper_tree()},
}
#: The largest share of requests decided at the root, %, with which a loss is one of deciding below it.
MOST_AT_ROOT = 75.0
#: The range that counts as "almost twice": within a tenth of 2.
ALMOST_TWICE = (1.8, 2.2)


def run(how: Run) -> Report:
    """Run all schedulers at all sizes, and at every second size, with the largest, with failures."""
    sizes = SMALL if how.quick else SIZES
    hit_sizes = sizes[-1::-2]
    rows: list[Row] = []
    grids: list[Grid] = []
    judged: dict[tuple[str, str], list[Row]] = {}
    series: dict[str, dict[str, dict[int, Estimate]]] = {}
    for kind in KINDS:
        made: dict[int, Replicates] = {}
        for nodes in sizes:
            made[nodes] = how.replicate(Make(kind, nodes), _calm(), METRICS)
            if nodes in hit_sizes:
                meeting = how.replicate(Make(kind, nodes, failing), _hit(kind), METRICS)
                made[nodes] = made[nodes].joined(meeting)
        series[kind] = {
            name: {nodes: one.ratio(name, BASE) for nodes, one in made.items() if name in one.schedulers}
            for name in made[sizes[-1]].schedulers
            if name != BASE
        }
        rows += _claims(kind, made)
        at, last = f"{kind}, N = {sizes[-1]}", made[sizes[-1]]
        for reading in readings(kind):
            judged[kind, reading] = against_fcfs(at, reading, last)
            rows += judged[kind, reading]
        grids += _grids(kind, made, series[kind])
    grid, together = verdicts((WORSE,), judged, quick=how.quick)
    more = "The other claims on failures are those of celaya-failures, which judges all of them together."
    remarks = (TREE_REMARK, *_REMARKS, READINGS_REMARK, FAILURES_REMARK, f"{together}  {more}")
    return Report(tuple(how.seeds), how.quick, rows, [*grids, grid], remarks, {"series": series})


_REMARKS = (
    "The paper prints neither B, nor the task size, nor how speeds are distributed in 1000..3000, nor how "
    "many samples a summary has, nor how FCFS chooses a machine.  Three calibrations (U is literal: uniform "
    "speeds, one task size), several rules of acceptance and both readings of FCFS are shown.",
    "The loss is judged for the paper's tree, and only where its root decides at most "
    f"{MOST_AT_ROOT:g} % of the requests: a tree that decides everything at its root is a centralized "
    "scheduler, and its loss says nothing of decentralized decisions.  The other trees are shown beside it.",
    "All ratios are to MinCent without failures, also where the other scheduler meets failures.",
    "The paper divides means over simulations; here it is the mean of the ratios of each seed, and for the "
    "tree the ratio of the means as well.",
    '"Almost twice" is taken as 1.8..2.2.  The growth is the slope over log2 N, by least squares for each '
    "seed, times the doublings between the smallest and the largest network.",
    "Of the trees only the paper's meets failures.",
)


def _calm() -> dict[str, Scheduler]:
    trees: dict[str, Scheduler] = {name: paper_tree(**changes) for name, changes in TREES.items()}
    return {BASE: MINCENT, **trees, **FCFS}


def _hit(kind: str) -> dict[str, Scheduler]:
    """Return the schedulers that meet failures with a calibration."""
    schedulers = {with_failures(name): one for name, one in {BASE: MINCENT, **FCFS}.items()}
    for reading in readings(kind):
        schedulers |= hit(TREE, reading)
    return schedulers


def _claims(kind: str, made: Mapping[int, Replicates]) -> list[Row]:
    """Return the rows about the claims without failures."""
    sizes = tuple(made)
    last, at = made[sizes[-1]], f"{kind}, N = {sizes[-1]}"
    rows = []
    for name in TREES:
        rows += _losses(f"{at}: {name}", name, last)
    ratios = [one["max"][TREE] / one["max"][BASE] for one in made.values()]
    rise = estimate(per_doubling(sizes, ratios) * math.log2(sizes[-1] / sizes[0]))
    growth = f"{kind}: growth of the ratio, N = {sizes[0]} to {sizes[-1]}, tree"
    rows.append(judge(GROWS, growth, "> 0, slight", rise, POSITIVE, 0.25))
    for fcfs in FCFS:
        ratio = last.ratio(fcfs, BASE)
        rows.append(judge(TWICE, f"{at}: {fcfs} / MinCent", "almost 2", ratio, *ALMOST_TWICE))
    return rows


def _losses(what: str, name: str, made: Replicates) -> list[Row]:
    """Return the rows on the loss of a tree, with the share of requests that its root decides."""
    share = made.mean(name, "requests").mean
    why = f"{share:.3g} % of the requests are decided at the root"
    ratio, quantity, paper = made.ratio(name, BASE), f"{what} / MinCent", "< 1.25"
    if name != TREE:
        return [Row(LOSS, quantity, paper, ratio, why=why)]
    both = ((quantity, ratio), (f"{quantity}, ratio of the means", made.ratio_of_means(name, BASE)))
    if share > MOST_AT_ROOT:
        why += ", so it says nothing of decisions below"
        return [incomparable(LOSS, each, paper, measured, why) for each, measured in both]
    return [judge(LOSS, each, paper, measured, -math.inf, 1.25, why=why) for each, measured in both]


def _grids(
    kind: str, made: Mapping[int, Replicates], series: Mapping[str, Mapping[int, Estimate]]
) -> list[Grid]:
    sizes = [f"N = {nodes}" for nodes in made]
    ratios: dict[str, list[Estimate | str]] = {
        name: [points.get(nodes, "-") for nodes in made] for name, points in series.items()
    }
    trees = [name for name, one in {**_calm(), **_hit(kind)}.items() if isinstance(one, FairTree)]
    shares: dict[str, list[Estimate | str]] = {
        f"{name}: {what}": [one.mean(name, what) if name in one.schedulers else "-" for one in made.values()]
        for name in trees
        for what in ("requests", "applications")
    }
    better = {
        f"{name}, than FCFS {'with' if also else 'without'} failures": [
            seeds_above(fcfs_margin(one, name, failing=also), one.seeds) if name in one.schedulers else "-"
            for one in made.values()
        ]
        for name in trees
        if name not in TREES
        for also in (True, False)
    }
    return [
        Grid(f"{kind}: {CALIBRATIONS[kind]}", ["maximum stretch / MinCent", *sizes], ratios),
        Grid(f"{kind}: share decided at the root, %", ["tree, and of what", *sizes], shares),
        Grid(f"{kind}: seeds in which a tree is better than both kinds of FCFS", ["tree", *sizes], better),
    ]


SHOWN = (
    TREE,
    *(with_failures(TREE, reading) for reading in READINGS),
    EARLY_TREE,
    ECT,
    with_failures(ECT),
    RANDOM,
)


def figure(report: Report) -> Figure:
    """Draw a panel per calibration: the ratios over N with their intervals, and the paper's 1.25."""
    from gridsim import plots

    made, panels = plots.figure(len(KINDS))
    for axes, kind in zip(panels, KINDS, strict=True):
        series = report.data["series"][kind]
        shown = [name for name in SHOWN if name in series]
        for name in shown:
            points = series[name]
            plots.lines(list(points), {name: list(points.values())}, styles=shown, axes=axes)
        axes.axhline(1.25, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        sizes = list(series[TREE])
        axes.set_xticks(sizes, [str(nodes) for nodes in sizes])
        axes.minorticks_off()
        axes.set_title(kind)
        axes.set_xlabel("machines")
        axes.set_ylabel("maximum stretch / MinCent")
    plots.shared_legend(made)
    return made
