"""Celaya and Marchal, research report, Figure 4(a): maximum stretch relative to MinCent over network size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gridsim.reproduce.framework import (
    CALIBRATIONS,
    POSITIVE,
    Grid,
    Make,
    Report,
    Row,
    Run,
    failing,
    judge,
    per_doubling,
)
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.schedulers import FairTree, Fcfs, MinCent
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "celaya-fig4a"
TITLE = "maximum stretch relative to MinCent over the number of machines"
LOSS = "with 1000 machines and no failures the fair tree loses less than 25 % to MinCent"
GROWS = "the loss grows slightly with the number of machines"
WORSE = "with failures the fair tree is worse, but better than FCFS"
TWICE = "FCFS has almost twice the maximum stretch of MinCent"
CLAIMS = (LOSS, GROWS, WORSE, TWICE)
SEEDS = (10, 5)

SIZES, SMALL = (50, 100, 200, 500, 1000), (20, 40)
KINDS = ("K1", "K2", "U")
BASE, TREE, ECT, RANDOM = "MinCent", "tree", "FCFS ect", "FCFS random"
#: Parameters of a tree that accepts early.  Unlike the paper's, its bound refers to the minimum stretch of
#: busy leaves only.
EARLY: dict[str, Any] = {"bound": 2.0, "minimum_of": "busy"}
TREES: dict[str, Scheduler] = {
    TREE: FairTree(),
    "tree B = 1.25": FairTree(bound=1.25),
    "tree B = 2": FairTree(bound=2.0),
    "tree B = 2, busy leaves": FairTree(**EARLY),
}
FCFS: dict[str, Scheduler] = {ECT: Fcfs(), RANDOM: Fcfs(mode="random")}
SCHEDULERS: dict[str, Scheduler] = {
    BASE: MinCent(), "MinCent once": MinCent(mode="once"), **TREES, **FCFS
}  # fmt: skip
#: The schedulers that also run with failures.
HIT = (TREE, BASE, *FCFS)
FAILING: dict[str, Scheduler] = {f"{name}, failures": SCHEDULERS[name] for name in HIT}
#: The range that counts as "almost twice": within a tenth of 2.
ALMOST_TWICE = (1.8, 2.2)


def run(how: Run) -> Report:
    """Run all schedulers at all sizes, without and with failures."""
    sizes = SMALL if how.quick else SIZES
    rows: list[Row] = []
    grids: list[Grid] = []
    data: dict[str, Any] = {"sizes": sizes, "series": {}}
    for kind in KINDS:
        made = [_measure(kind, nodes, how) for nodes in sizes]
        series = {
            name: [each.ratio(name, BASE) for each in made] for name in made[0].schedulers if name != BASE
        }
        data["series"][kind] = series
        rows += _claims(kind, sizes, made)
        columns = ["maximum stretch / MinCent", *(f"N = {nodes}" for nodes in sizes)]
        grids.append(Grid(f"{kind}: {CALIBRATIONS[kind]}", columns, series))
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, data)


_REMARKS = (
    "The paper prints neither B, nor the task size, nor how speeds are distributed in 1000..3000, nor how "
    "many samples a summary has, nor how FCFS chooses a machine.  Three calibrations (U is literal: uniform "
    "speeds, one task size), four bounds and both readings of FCFS are shown.",
    "The tree has its parameters by default: a request is accepted below the root only at a stretch that is "
    "not above the minimum over all leaves, where an idle one counts 0, as the paper has it.",
    "All ratios are to MinCent without failures, also where the other scheduler meets failures.",
    "The paper divides means over simulations; here it is the mean of the ratios of each seed, and for the "
    "tree the ratio of the means as well.",
    '"Almost twice" is taken as 1.8..2.2.  The growth is the slope over log2 N, by least squares for each '
    "seed, times the doublings between the smallest and the largest network.",
    "Failures: each machine is reset once in 14,400 s on average; lost tasks are noticed at the next "
    "heartbeat (300 s), and keep their release and size.",
)


def _measure(kind: str, nodes: int, how: Run) -> Replicates:
    calm = how.replicate(Make(kind, nodes), SCHEDULERS)
    return calm.joined(how.replicate(Make(kind, nodes, failing), FAILING))


def _claims(kind: str, sizes: tuple[int, ...], made: list[Replicates]) -> list[Row]:
    last, nodes = made[-1], sizes[-1]
    at = f"{kind}, N = {nodes}"
    rows = []
    for name in TREES:
        rows.append(judge(LOSS, f"{at}: {name} / MinCent", "< 1.25", last.ratio(name, BASE), -math.inf, 1.25))
    means = last.ratio_of_means(TREE, BASE)
    rows.append(judge(LOSS, f"{at}: the same of the means, tree", "< 1.25", means, -math.inf, 1.25))
    ratios = [each["max_stretch"][TREE] / each["max_stretch"][BASE] for each in made]
    rise = estimate(per_doubling(sizes, ratios) * math.log2(sizes[-1] / sizes[0]))
    growth = f"{kind}: growth of the ratio, N = {sizes[0]} to {sizes[-1]}, tree"
    rows.append(judge(GROWS, growth, "> 0, slight", rise, POSITIVE, 0.25))
    for name in (name for name in HIT if name in TREES):
        tree = f"{name}, failures"
        worse = f"{at}: {tree} - without failures"
        rows.append(judge(WORSE, worse, "> 0", _apart(last, tree, name), POSITIVE, math.inf))
        for fcfs in FCFS:
            for those in (fcfs, f"{fcfs}, failures"):
                better = f"{at}: {those} - {tree}"
                rows.append(judge(WORSE, better, "> 0", _apart(last, those, tree), POSITIVE, math.inf))
    for fcfs in FCFS:
        ratio = last.ratio(fcfs, BASE)
        rows.append(judge(TWICE, f"{at}: {fcfs} / MinCent", "almost 2", ratio, *ALMOST_TWICE))
    return rows


def _apart(made: Replicates, a: str, b: str) -> Estimate:
    """Return a - b of the maximum stretches, in units of that of the baseline."""
    values = made["max_stretch"]
    return estimate((values[a] - values[b]) / values[BASE])


SHOWN = (TREE, f"{TREE}, failures", "tree B = 2, busy leaves", ECT, f"{ECT}, failures", RANDOM)


def figure(report: Report) -> Figure:
    """Draw a panel per calibration: the ratios over N with their intervals, and the paper's 1.25."""
    from gridsim import plots

    made, panels = plots.figure(len(KINDS))
    for axes, kind in zip(panels, KINDS, strict=True):
        series = report.data["series"][kind]
        shown = {name: series[name] for name in SHOWN}
        plots.lines(report.data["sizes"], shown, axes=axes)
        axes.axhline(1.25, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xticks(report.data["sizes"], [str(nodes) for nodes in report.data["sizes"]])
        axes.minorticks_off()
        axes.set_title(kind)
        axes.set_xlabel("machines")
        axes.set_ylabel("maximum stretch / MinCent")
    return made
