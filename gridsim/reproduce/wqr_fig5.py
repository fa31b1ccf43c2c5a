"""Arora et al., Figure 5: the nine policies over the number of tasks a machine (RR), by both of its
metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gridsim.reproduce.common import Grid, Report, Row, Run
from gridsim.reproduce.wqr_common import (
    ALMOST,
    BASE,
    METRICS,
    NODES,
    SMALL,
    Bag,
    claims,
    kinds,
    means,
    orderings,
    policies,
    relative,
)
from gridsim.reproduce.wqr_common import CLAIMS as CLAIMS_OF_POLICIES
from gridsim.schedulers.wqr_choices import POLICIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "wqr-fig5"
TITLE = "information-aware policies against WQR-FT, over the number of tasks a machine"
CLAIMS = (
    "SmallET-NoInfo and GreatET-NoInfo are better than WQR-FT; GreatET-NoInfo almost 25 % faster at RR = 4",
    "GreatET-NoInfo, -CpuInfo and -AvailInfo are alike; SmallET-NoInfo and -AvailInfo are alike",
    "SmallET-AvailInfo is better than SmallET-CpuInfo, GreatET-CpuInfo than WQR-FT",
    "GreatET-AllInfo is better than GreatET-CpuInfo, and the best of all",
    "all of them waste fewer cycles than WQR-FT",
)
SEEDS = (20, 5)

RATIOS, FEW_RATIOS = (1, 2, 4, 8, 16), (1, 4)
#: The one that the paper has a number for.
NAMED = 4


def run(how: Run) -> Report:
    """All policies at each ratio, with each calibration or on real desktops."""
    nodes, ratios = (SMALL, FEW_RATIOS) if how.quick else (NODES, RATIOS)
    others = [name for name in POLICIES if name != BASE]
    rows: list[Row] = []
    grids: list[Grid] = []
    data: dict[str, Any] = {"ratios": ratios, "series": {}}
    cannot = f"the claim is about {NODES} machines here" if how.quick else ""
    for kind, said in kinds(how.desktops).items():
        made = {
            f"RR = {ratio}": how.replicate(Bag(nodes, ratio, kind, how.desktops), policies(), METRICS)
            for ratio in ratios
        }
        rows += claims(f"{kind}, RR = {NAMED}", made[f"RR = {NAMED}"], cannot, (ALMOST, *CLAIMS_OF_POLICIES))
        about = f"{kind} ({said}), {nodes} machines"
        grids += [
            relative(f"{about}: completion time / WQR-FT", made, "mean_completion", others),
            relative(f"{about}: tasks completed without resubmission / WQR-FT", made, "undisturbed", others),
            means(f"{about}: completion time of the bag, s", made, "mean_completion"),
            means(f"{about}: share of the cycles that is wasted", made, "wasted"),
            orderings(f"{about}: which claims hold, by RR", made),
        ]
        data["series"][kind] = {
            metric: {name: [each.ratio(name, BASE, metric) for each in made.values()] for name in others}
            for metric in ("mean_completion", "undisturbed")
        }
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, data)


_REMARKS = (
    "The paper calls its y-axis the average number of completed tasks and speaks of completion times: "
    "both are shown.  Tasks completed count if they were never left without an instance by a failure.",
    "RR is taken as tasks a machine.  The paper says neither how many machines there are, nor how fast, "
    "nor how often they fail, nor what tasks are like: see the calibrations.",
    "One bag a seed, released at 0; two replicas at most, checkpoints as often as Young's formula has it "
    "(10 s each), read in 10 s; exact information.",
    '"Alike" is taken as within 5 %, "almost 25 %" as 0.70..0.80.  The rows above are about RR = 4, the one '
    "that the paper has a number for; the last table has every RR.",
)


def figure(report: Report) -> Figure:
    """A panel per calibration and metric: ratios to WQR-FT over RR."""
    from gridsim import plots

    series = report.data["series"]
    made, panels = plots.figure(2, rows=len(series))
    places = ((kind, metric) for kind in series for metric in series[kind])
    for axes, (kind, metric) in zip(panels, places, strict=True):
        plots.lines(report.data["ratios"], series[kind][metric], axes=axes)
        axes.axhline(1.0, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_xticks(report.data["ratios"], [str(ratio) for ratio in report.data["ratios"]])
        axes.set_title(kind)
        axes.set_xlabel("tasks a machine (RR)")
        axes.set_ylabel({"undisturbed": "tasks completed"}.get(metric, "completion time") + " / WQR-FT")
    plots.shared_legend(made)
    return made
