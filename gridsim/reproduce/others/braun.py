"""Braun et al. 2001: mapping heuristics on twelve classes of matrices of expected times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.optimization.mapping_matrices import BRAUN_CLASSES, HEURISTICS, expected_times, map_tasks
from gridsim.reproduce.framework import Grid, Report, Row, Run, sign
from gridsim.results.metrics.estimates import estimate
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "braun"
TITLE = "mapping heuristics on matrices of expected times, 512 tasks on 16 machines"
BEST = "in each of twelve classes the makespan of Min-min is below those of MCT, OLB and Max-min"
WORST = "where all machines rank alike for every task (consistent matrices), MET is the worst of all"
CLAIMS = (BEST, WORST)
SEEDS = (100, 5)

#: The heuristics that the paper compares; the others are from Maheswaran et al.
PUBLISHED = ("olb", "met", "mct", "min-min", "max-min")
#: Settings of the other heuristics: the defaults of `map_tasks`.
SETTINGS = "KPB with 20 % of the machines (4 of 16), the switching algorithm between 0.6 and 0.9"


def run(how: Run) -> Report:
    """Run all heuristics on a matrix of each class and seed."""
    made = {name: makespans(name, how) for name in BRAUN_CLASSES}
    rows = [row for name in made for row in _claims(name, made[name])]
    grids = [
        Grid(
            "Makespan / that of Min-min",
            ["class", *HEURISTICS, "makespan of min-min"],
            {
                name: [
                    *(estimate(each[rule] / each["min-min"]) for rule in HEURISTICS),
                    estimate(each["min-min"]),
                ]
                for name, each in made.items()
            },
        ),
        Grid(
            "Share of the seeds in which nobody has a smaller makespan",
            ["class", *HEURISTICS],
            {name: [f"{share:.2f}" for share in best(each)] for name, each in made.items()},
        ),
    ]
    remarks = (
        f"Of {', '.join(PUBLISHED)} the paper speaks, the others are shown with them: {SETTINGS}, and "
        "sufferage in passes as in Maheswaran et al. 1999.",
        "Means of ratios, a matrix a seed; the paper has means of makespans over 100 matrices, in charts.",
    )
    return Report(tuple(how.seeds), how.quick, rows, grids, remarks, {"made": made})


def makespans(name: str, how: Run) -> dict[str, Floats]:
    """Return, for matrices of class `name`: heuristic -> makespan of each seed."""
    kind = BRAUN_CLASSES[name]._asdict()
    rows = []
    for seed in how.seeds:
        etc = expected_times(seed=seed, **kind)
        rows.append([map_tasks(etc, rule).makespan for rule in HEURISTICS])
    return dict(zip(HEURISTICS, np.array(rows).T, strict=True))


def best(made: Mapping[str, Floats]) -> list[float]:
    """Return, for each heuristic, the share of seeds in which its makespan is the smallest."""
    values = np.stack(list(made.values()))
    share: list[float] = (values == values.min(axis=0)).mean(axis=1).tolist()
    return share


def _claims(name: str, made: Mapping[str, Floats]) -> list[Row]:
    least = made["min-min"]
    rows = [
        sign(BEST, f"{name}: {rule} above min-min, relative", "above", made[rule] / least - 1.0)
        for rule in ("mct", "olb", "max-min")
    ]
    others = np.max([made[rule] for rule in PUBLISHED if rule != "met"], axis=0)
    over = made["met"] / others - 1.0
    if BRAUN_CLASSES[name].consistency == "consistent":
        rows.append(sign(WORST, f"{name}: met above the worst of the others, relative", "worst", over))
    return rows


def figure(report: Report) -> Figure:
    """Draw makespans relative to that of Min-min, a panel for each consistency."""
    from gridsim import plots

    made: Any = report.data["made"]
    drawing, panels = plots.figure(3, width=3.6)
    ticks = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    for axes, mark, title in zip(
        panels, "csi", ("consistent", "semi-consistent", "inconsistent"), strict=True
    ):
        names = [name for name in made if name[2] == mark]
        for number, rule in enumerate(HEURISTICS):
            ratio = [float(np.mean(made[name][rule] / made[name]["min-min"])) for name in names]
            axes.plot(
                range(len(names)),
                ratio,
                color=plots.COLOURS[number],
                marker=plots.MARKERS[number],
                linewidth=0.8,
                label=rule,
            )
        axes.set_xticks(range(len(names)), [name[4:] for name in names])
        axes.set_yscale("log")
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(0.85, 8.0)
        axes.set_title(title)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("makespan / that of Min-min")
    plots.shared_legend(drawing)
    return drawing
