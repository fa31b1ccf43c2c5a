"""Where the fair tree's loss comes from: possible causes removed one at a time and together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gridsim.model.network import Network
from gridsim.reproduce.celaya.common import AT_ROOT, BASE, EARLY, MINCENT, ROOT, TREE_REMARK, paper_tree
from gridsim.reproduce.framework import CALIBRATIONS, Grid, Make, Report, Run, failing
from gridsim.results.metrics.estimates import estimate
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "celaya-loss"
TITLE = "what the fair tree's loss against MinCent comes from"
CLAIMS = ()
SEEDS = (10, 5)

KIND, NODES, SMALL = "K1", 1000, 40


def ideal(seed: int) -> dict[str, Any]:
    """Return a network on which messages take no time; for `Make`."""
    return {"network": Network(latency=0.0, bandwidth=math.inf)}


#: Steps that remove possible causes of the loss, alone and then together: the parameters of the tree, and
#: what else the scenario has.  "As it is" is the paper's tree; the steps after it are compared with it.
CALM, FAILURES = "as it is", "as it is, with failures"
LADDER: dict[str, tuple[Mapping[str, Any], Callable[[int], dict[str, Any]] | None]] = {
    CALM: ({}, None),
    ROOT: (AT_ROOT, None),
    "early acceptance (B = 2, busy leaves)": (EARLY, None),
    "20 times the samples": ({"samples": 14400}, None),
    "no limit of the update rate": ({"update_rate": 0.0}, None),
    "messages take no time": ({}, ideal),
    "all but the first": ({"samples": 14400, "update_rate": 0.0}, ideal),
    FAILURES: ({}, failing),
    f"{ROOT}, with failures": (AT_ROOT, failing),
    "what is lost is known at once": ({"detection": 0.0}, failing),
    "routers are out of the tree for 60 s": ({"repair": 60.0}, failing),
    "lost tasks are new requests": ({"resubmit": "new"}, failing),
}


def run(how: Run) -> Report:
    """Run all steps on machines of calibration K1, without and with failures."""
    nodes = SMALL if how.quick else NODES
    made: Replicates | None = None
    for further in (None, ideal, failing):
        steps: dict[str, Scheduler] = {
            name: paper_tree(**parameters) for name, (parameters, of) in LADDER.items() if of is further
        }
        if further is None:
            steps[BASE] = MINCENT
        found = how.replicate(Make(KIND, nodes, further), steps)
        made = found if made is None else made.joined(found)
    assert made is not None
    values = made["max_stretch"]
    ratios = {name: estimate(values[name] / values[BASE]) for name in LADDER}
    gained = {
        name: estimate((values[FAILURES if further is failing else CALM] - values[name]) / values[BASE])
        for name, (_, further) in LADDER.items()
    }
    columns = ["what is other", "maximum stretch / MinCent", "gained"]
    rows = {name: [ratios[name], gained[name]] for name in LADDER}
    grid = Grid(f"{KIND}, N = {nodes}: {CALIBRATIONS[KIND]}", columns, rows)
    return Report(tuple(how.seeds), how.quick, [], [grid], _REMARKS, {"ratios": ratios})


_REMARKS = (
    TREE_REMARK,
    "The papers say nothing of this.  All ratios are to MinCent without failures, and so is what is gained.",
)


def figure(report: Report) -> Figure:
    """Draw a bar for each step."""
    from gridsim import plots

    made, [axes] = plots.figure(1)
    ratios = report.data["ratios"]
    axes.barh(list(ratios), [each.mean for each in ratios.values()])
    axes.invert_yaxis()
    axes.set_xlabel("maximum stretch / MinCent")
    return made
