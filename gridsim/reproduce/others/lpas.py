"""Linear programming-based affinity scheduling: where tasks of a class may go, by a linear program.

I. Al-Azzoni and D. G. Down, "Linear programming-based affinity scheduling of independent tasks on
heterogeneous computing systems", IEEE TPDS 19 (2008).  We had the abstract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.optimization.affinity import Affinity, Rule, affinity, map_arrivals
from gridsim.optimization.mapping_matrices import expected_times
from gridsim.reproduce.framework import Grid, Report, Row, Run, judge, panels
from gridsim.results.metrics.estimates import Estimate, estimate, ratio_of_means
from gridsim.support.arrays import Floats
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "lpas"
TITLE = "affinity scheduling by a linear program"
COMPETITIVE = "heuristics that use the linear program perform very competitively"
LESS = "they require dramatically less information"
CLAIMS = (COMPETITIVE, LESS)
SEEDS = (10, 5)

CLASSES, MACHINES, TASKS = 8, 16, 10_000
#: How much classes differ, and how much machines do for a class: largest over smallest.
CLASS_RANGE, MACHINE_RANGE = 10.0, 10.0
#: Proportions of classes are uniform in this range.
PROPORTIONS = (1.0, 3.0)
#: Arrivals over what the linear program says can be kept up with.
LOADS = (0.5, 0.7, 0.9)
#: Systems: how machines differ.  Those of the paper are inconsistent.
AFFINE, RELATED = "inconsistent", "related"
SYSTEMS = (AFFINE, "semi-consistent", "consistent", RELATED)
LPAS = "lpas"
RULES: dict[str, Rule] = {LPAS: "mct", "mct": "mct", "kpb": "kpb", "met": "met", "olb": "olb"}
#: What counts as competitive: this many times the mean response time of MCT; and as dramatically less: this
#: share of the machines looked at for a task.
COMPETES, FEW_MACHINES = 1.1, 0.5
#: Tasks at the beginning that do not count, of all.
WARM_UP = 0.1


def times_of(system: str, seed: int) -> Floats:
    """Return how long a task of each class takes on each machine: float64[classes, machines], s."""
    if system == RELATED:
        draw = Streams(seed)("lpas related")
        made: Floats = draw.uniform(1.0, CLASS_RANGE, (CLASSES, 1)) * draw.uniform(
            1.0, MACHINE_RANGE, (1, MACHINES)
        )
        return made
    how: Any = system
    return expected_times(
        CLASSES, MACHINES, task_range=CLASS_RANGE, machine_range=MACHINE_RANGE, consistency=how, seed=seed
    )


def responses(system: str, seed: int, tasks: int) -> tuple[dict[tuple[str, float], float], float]:
    """Return the mean response time of each rule at each load, and the share of machines LPAS looks at."""
    etc, draw = times_of(system, seed), Streams(seed)(f"lpas {system}")
    proportions = draw.uniform(*PROPORTIONS, CLASSES)
    best: Affinity = affinity(etc, proportions)
    kind = draw.choice(CLASSES, size=tasks, p=proportions / proportions.sum())
    gaps, first = draw.exponential(size=tasks), int(WARM_UP * tasks)
    found = {}
    for load in LOADS:
        arrival = np.cumsum(gaps / (load * best.rate))
        for name, rule in RULES.items():
            made = map_arrivals(etc, kind, arrival, rule, allowed=best.allowed if name == LPAS else None)
            found[name, load] = float((made.finish - arrival)[first:].mean())
    return found, float(best.allowed.sum(axis=1)[kind].mean() / MACHINES)


def run(how: Run) -> Report:
    """Compare LPAS with rules that look at all machines, at three loads, on four kinds of machines."""
    tasks = TASKS // 4 if how.quick else TASKS
    made = {system: [responses(system, seed, tasks) for seed in how.seeds] for system in SYSTEMS}
    mean = {
        (system, name, load): np.array([found[name, load] for found, _ in made[system]])
        for system in SYSTEMS
        for name in RULES
        for load in LOADS
    }
    ratio = {
        (system, name, load): estimate(
            mean[system, name, load], mean[system, "mct", load], statistic=ratio_of_means
        )
        for system, name, load in mean
    }
    rows = [
        judge(
            COMPETITIVE,
            f"load {load:g}: mean response time, lpas / mct",
            "competitive",
            ratio[AFFINE, LPAS, load],
            0.0,
            COMPETES,
        )
        for load in LOADS
    ]
    looked = {system: estimate(np.array([share for _, share in made[system]])) for system in SYSTEMS}
    quantity = "share of machines looked at for a task"
    rows.append(judge(LESS, quantity, "dramatically less", looked[AFFINE], 0.0, FEW_MACHINES))
    rows += [Row("", f"{quantity}, {system}", "", looked[system]) for system in SYSTEMS if system != AFFINE]
    series = {
        system: {name: [ratio[system, name, load] for load in LOADS] for name in RULES} for system in SYSTEMS
    }
    columns = ["rule", *(f"load {load:g}" for load in LOADS)]
    grids = [
        Grid(f"mean response time over that of mct, {title} machines", columns, lines)
        for title, lines in series.items()
    ]
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, {"loads": LOADS, "series": series})


_REMARKS = (
    f"{CLASSES} classes, {MACHINES} machines, {TASKS} tasks ({TASKS // 4} in small) that arrive by a Poisson "
    "process, those of the first tenth not counted; expected times after Braun et al., factors of "
    f"1..{CLASS_RANGE:g} for classes and 1..{MACHINE_RANGE:g} for machines; a task takes exactly what the "
    "matrix says.  On related machines the second factor is that of a machine, the same for all classes.",
    "lpas is mct among the machines to which the linear program gives a class; kpb looks at a fifth of all, "
    "met at one.  olb is first come, first served.",
    f"The abstract has no number.  What counts as competitive (at most {COMPETES:g} times the response time "
    f"of mct) and as dramatically less ({FEW_MACHINES:g} of the machines), the systems, and how a task is "
    "mapped are ours.",
)


def figure(report: Report) -> Figure:
    """Draw mean response times over that of MCT, a panel for each kind of machines."""
    series: dict[str, dict[str, list[Estimate]]] = report.data["series"]
    scales = {"yscale": "log", "xlabel": "load"}
    return panels(series, report.data["loads"], scales, shared=True)
