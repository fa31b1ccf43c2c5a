"""Celaya and Marchal, research report, Figure 4(b): the maximum update time over network size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gridsim.reproduce.celaya.common import AT_ROOT, ROOT, TREE, TREE_REMARK, paper_tree
from gridsim.reproduce.framework import (
    CALIBRATIONS,
    POSITIVE,
    Grid,
    Make,
    Report,
    Run,
    judge,
    latest_update,
    per_doubling,
)
from gridsim.results.metrics.estimates import Estimate, estimate, ratio_of_means
from gridsim.scheduling.contract import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "celaya-fig4b"
TITLE = "maximum update time over the number of machines, 10,000 bytes/s"
FAST = "with 1000 machines a change is known at the root in less than four seconds"
GROWS = "larger networks have longer update times, but only as the logarithm of their size"
CLAIMS = (FAST, GROWS)
SEEDS = (20, 5)

SIZES, SMALL = (50, 100, 200, 500, 1000), (50, 100, 200)
SCHEDULERS: dict[str, Scheduler] = {TREE: paper_tree(), ROOT: paper_tree(**AT_ROOT)}


def run(how: Run) -> Report:
    """Measure the longest update time of each run, at each size."""
    sizes = SMALL if how.quick else SIZES
    made = [how.replicate(Make("U", nodes), SCHEDULERS, {"time": latest_update})["time"] for nodes in sizes]
    found = [times[TREE] for times in made]
    slope = estimate(per_doubling(sizes, found))
    # Logarithmic growth: the growth per doubling is about the same above the middle size as below it.
    half = len(sizes) // 2
    upper, lower = (
        per_doubling(part, values)
        for part, values in ((sizes[half:], found[half:]), (sizes[: half + 1], found[: half + 1]))
    )
    rows = [
        judge(
            FAST,
            f"maximum update time, N = {sizes[-1]}",
            "< 4",
            estimate(found[-1]),
            -math.inf,
            4.0,
            unit="s",
        ),
        judge(GROWS, "growth per doubling of N", "> 0", slope, POSITIVE, math.inf, unit="s"),
        judge(
            GROWS,
            f"growth per doubling above N = {sizes[half]} over that below",
            "1 (logarithm)",
            estimate(upper, lower, statistic=ratio_of_means),
            0.5,
            1.5,
        ),
    ]
    columns = ["maximum update time (s)", "mean", "smallest", "median", "largest"]
    spread: dict[str, list[Estimate | str]] = {}
    for name in SCHEDULERS:
        for nodes, times in zip(sizes, made, strict=True):
            ordered = sorted(times[name].tolist())
            middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
            spread[f"N = {nodes}, {name}"] = [
                estimate(times[name]),
                *(f"{value:.4g}" for value in (ordered[0], middle, ordered[-1])),
            ]
    data = {"sizes": sizes, "times": [values.tolist() for values in found]}
    grid = Grid("Distribution over seeds", columns, spread)
    return Report(tuple(how.seeds), how.quick, rows, (grid,), _REMARKS, data)


_REMARKS = (
    TREE_REMARK,
    f"Platform and tasks: {CALIBRATIONS['U']}; the paper gives no task size.",
    "The time from a change at a leaf until the root knows, of changes from the first release on; the "
    "maximum of each run.  The paper does not say over what its distribution is; here it is over seeds.",
    "Growth as the logarithm means the same growth per doubling everywhere; 0.5..1.5 counts as that.",
    "A tree of 64 machines or fewer has one level less than one of 65, so times grow in steps of levels.",
)


def figure(report: Report) -> Figure:
    """Draw a box and the values of all seeds for each size."""
    from gridsim import plots

    made, (axes,) = plots.figure()
    times = zip(report.data["sizes"], report.data["times"], strict=True)
    plots.boxes({str(nodes): values for nodes, values in times}, axes=axes)
    axes.axhline(4.0, color="black", linestyle=":", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("machines")
    axes.set_ylabel("maximum update time (s)")
    return made
