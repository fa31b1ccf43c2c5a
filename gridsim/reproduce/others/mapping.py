"""Mapping tasks to machines whose speeds depend on the task: heuristics, and a linear program.

- T. Braun et al., "A comparison of eleven static heuristics", 2001: twelve classes of matrices of expected
  times.
- I. Al-Azzoni and D. G. Down, "Linear programming-based affinity scheduling of independent tasks on
  heterogeneous computing systems", IEEE TPDS 19 (2008): a linear program determines the machines of each
  class of tasks.  Only the abstract was available.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.optimization.affinity import Affinity, Rule, affinity, map_arrivals
from gridsim.optimization.mapping_matrices import BRAUN_CLASSES, HEURISTICS, expected_times, map_tasks
from gridsim.reproduce.framework import Reproduction, ResultGrid, Run, panels
from gridsim.reproduce.verdicts import ClaimedRange, Row, judge, sign
from gridsim.results.metrics.estimates import Estimate, estimate, ratio_of_means
from gridsim.support.arrays import Floats
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -- Braun et al. ---------------------------------------------------------------------------------------

BEST = "in each of twelve classes the makespan of Min-min is below those of MCT, OLB and Max-min"
WORST = "where all machines rank alike for every task (consistent matrices), MET is the worst of all"

#: The heuristics that the paper compares; those of Maheswaran et al. are added.
BRAUN_HEURISTICS = ("olb", "met", "mct", "min-min", "max-min")
#: Remark on the settings of heuristics with parameters: the defaults of `map_tasks`.
SETTINGS = "KPB with 20 % of the machines (4 of 16), the switching algorithm between 0.6 and 0.9"


#: Class of matrices -> heuristic -> makespan of each seed, s.
Makespans = Mapping[str, Mapping[str, Floats]]


def makespans(name: str, run: Run) -> dict[str, Floats]:
    """Return heuristic -> makespan of each seed, for matrices of the class `name`."""
    options, rows = BRAUN_CLASSES[name]._asdict(), []
    for seed in run.seeds:
        etc = expected_times(seed=seed, **options)
        rows.append([map_tasks(etc, rule).makespan for rule in HEURISTICS])
    return dict(zip(HEURISTICS, np.array(rows).T, strict=True))


def best_shares(makespan: Mapping[str, Floats]) -> list[float]:
    """Return heuristic -> share of seeds in which its makespan is the minimum."""
    values = np.stack(list(makespan.values()))
    shares: list[float] = (values == values.min(axis=0)).mean(axis=1).tolist()
    return shares


def _braun_rows(data: Makespans) -> Iterator[Row]:
    for name, makespan in data.items():
        minimum = makespan["min-min"]
        for rule in ("mct", "olb", "max-min"):
            quantity = f"{name}: {rule} above min-min, relative"
            yield sign(BEST, quantity, "above", makespan[rule] / minimum - 1.0)
        if BRAUN_CLASSES[name].consistency == "consistent":
            worst = np.max([makespan[rule] for rule in BRAUN_HEURISTICS if rule != "met"], axis=0)
            quantity = f"{name}: met above the worst of the others, relative"
            yield sign(WORST, quantity, "worst", makespan["met"] / worst - 1.0)


def _braun_grids(data: Makespans) -> Iterator[ResultGrid]:
    ratios = {
        name: [
            *(estimate(makespan[rule] / makespan["min-min"]) for rule in HEURISTICS),
            estimate(makespan["min-min"]),
        ]
        for name, makespan in data.items()
    }
    columns = ["class", *HEURISTICS]
    yield ResultGrid("Makespan / that of Min-min", [*columns, "makespan of min-min"], ratios)
    shares = {name: [f"{share:.2f}" for share in best_shares(makespan)] for name, makespan in data.items()}
    yield ResultGrid("Share of the seeds in which nobody has a smaller makespan", columns, shares)


def _draw_braun(data: Makespans) -> Figure:
    """Draw makespans relative to Min-min, one panel for each consistency."""
    from gridsim import plots

    figure, panels = plots.figure(3, width=3.6)
    ticks = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    for axes, title in zip(panels, ("consistent", "semi-consistent", "inconsistent"), strict=True):
        names = [name for name in data if name[2] == title[0]]
        for rule, style in plots.styles(HEURISTICS).items():
            ratio = [float(np.mean(data[name][rule] / data[name]["min-min"])) for name in names]
            axes.plot(range(len(names)), ratio, label=rule, linewidth=0.8, **style)
        axes.set_xticks(range(len(names)), [name[4:] for name in names])
        axes.set_yscale("log")
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set(ylim=(0.85, 8.0), title=title)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("makespan / that of Min-min")
    plots.shared_legend(figure)
    return figure


BRAUN = Reproduction(
    name="braun",
    title="mapping heuristics on matrices of expected times, 512 tasks on 16 machines",
    paper="Braun et al. 2001",
    claims=(BEST, WORST),
    seeds=(100, 5),
    measure=lambda run: {name: makespans(name, run) for name in BRAUN_CLASSES},
    rows=_braun_rows,
    grids=_braun_grids,
    remarks=(
        f"Of {', '.join(BRAUN_HEURISTICS)} the paper speaks, the others are shown with them: {SETTINGS}, and "
        "sufferage in passes as in Maheswaran et al. 1999.",
        "Means of ratios, a matrix a seed; the paper has means of makespans over 100 matrices, in charts.",
    ),
    figure=_draw_braun,
)

# -- affinity scheduling --------------------------------------------------------------------------------

COMPETITIVE = "heuristics that use the linear program perform very competitively"
LITTLE_INFORMATION = "they require dramatically less information"

CLASSES, MACHINES = 8, 16
#: Numbers of tasks of the full and the quick run.
TASKS = 10_000, 2_500
#: Ratio of the maximum to the minimum factor of run times, for classes and for machines.
CLASS_RANGE, MACHINE_RANGE = 10.0, 10.0
#: Proportions of classes are uniform in this range.
PROPORTIONS = (1.0, 3.0)
#: Arrival rates relative to the maximum rate that is sustainable according to the linear program.
LOADS = (0.5, 0.7, 0.9)
#: System -> consistency of its machines; those of the paper are inconsistent.
INCONSISTENT, RELATED = "inconsistent", "related"
SYSTEMS = (INCONSISTENT, "semi-consistent", "consistent", RELATED)
LPAS = "lpas"
RULES: dict[str, Rule] = {LPAS: "mct", "mct": "mct", "kpb": "kpb", "met": "met", "olb": "olb"}
#: Maximum ratio to the mean response time of MCT that counts as competitive, and maximum share of machines
#: considered for a task that counts as dramatically less information.
COMPETES, FEW_MACHINES = 1.1, 0.5
#: Share of tasks, the first ones to arrive, that the metrics ignore.
WARM_UP = 0.1


def times_of(system: str, seed: int) -> Floats:
    """Return the run time of a task of each class on each machine, s: float64[classes, machines]."""
    if system == RELATED:
        draw = Streams(seed)("lpas related")
        of_classes = draw.uniform(1.0, CLASS_RANGE, (CLASSES, 1))
        times: Floats = of_classes * draw.uniform(1.0, MACHINE_RANGE, (1, MACHINES))
        return times
    consistency: Any = system
    return expected_times(
        CLASSES,
        MACHINES,
        task_range=CLASS_RANGE,
        machine_range=MACHINE_RANGE,
        consistency=consistency,
        seed=seed,
    )


def responses(system: str, seed: int, tasks: int) -> tuple[dict[tuple[str, float], float], float]:
    """Return the mean response time of each rule and load, and the share of machines considered by LPAS."""
    etc, draw = times_of(system, seed), Streams(seed)(f"lpas {system}")
    proportions = draw.uniform(*PROPORTIONS, CLASSES)
    best: Affinity = affinity(etc, proportions)
    kind = draw.choice(CLASSES, size=tasks, p=proportions / proportions.sum())
    gaps, first = draw.exponential(size=tasks), int(WARM_UP * tasks)
    means = {}
    for load in LOADS:
        arrival = np.cumsum(gaps / (load * best.rate))
        for name, rule in RULES.items():
            plan = map_arrivals(etc, kind, arrival, rule, allowed=best.allowed if name == LPAS else None)
            means[name, load] = float((plan.finish - arrival)[first:].mean())
    return means, float(best.allowed.sum(axis=1)[kind].mean() / MACHINES)


#: System -> the result of `responses` for each seed.
Responses = Mapping[str, list[tuple[dict[tuple[str, float], float], float]]]


def _against_mct(data: Responses, system: str) -> dict[str, list[Estimate]]:
    """Return rule -> mean response time relative to MCT, at each load."""

    def means(rule: str, load: float) -> Floats:
        return np.array([mean[rule, load] for mean, _ in data[system]])

    return {
        rule: [estimate(means(rule, load), means("mct", load), statistic=ratio_of_means) for load in LOADS]
        for rule in RULES
    }


def _lpas_rows(data: Responses) -> Iterator[Row]:
    test = ClaimedRange("competitive", 0.0, COMPETES)
    for load, ratio in zip(LOADS, _against_mct(data, INCONSISTENT)[LPAS], strict=True):
        yield judge(COMPETITIVE, f"load {load:g}: mean response time, lpas / mct", ratio, test)
    shares = {system: estimate([share for _, share in responses]) for system, responses in data.items()}
    quantity, test = (
        "share of machines looked at for a task",
        ClaimedRange("dramatically less", 0.0, FEW_MACHINES),
    )
    yield judge(LITTLE_INFORMATION, quantity, shares.pop(INCONSISTENT), test)
    for system, share in shares.items():
        yield judge("", f"{quantity}, {system}", share)


AFFINITY = Reproduction(
    name="lpas",
    title="affinity scheduling by a linear program",
    paper="Al-Azzoni and Down 2008",
    claims=(COMPETITIVE, LITTLE_INFORMATION),
    measure=lambda run: {
        system: [responses(system, seed, run.choose(*TASKS)) for seed in run.seeds] for system in SYSTEMS
    },
    rows=_lpas_rows,
    grids=lambda data: (
        ResultGrid(
            f"mean response time over that of mct, {system} machines",
            ["rule", *(f"load {load:g}" for load in LOADS)],
            _against_mct(data, system),
        )
        for system in data
    ),
    remarks=(
        f"{CLASSES} classes, {MACHINES} machines, {TASKS[0]} tasks ({TASKS[1]} quick) that arrive by a "
        "Poisson process, those of the first tenth not counted; expected times after Braun et al., factors "
        f"of 1..{CLASS_RANGE:g} for classes and 1..{MACHINE_RANGE:g} for machines; a task takes exactly "
        "what the matrix says.  On related machines the second factor is that of a machine, the same for "
        "all classes.",
        "lpas is mct among the machines to which the linear program gives a class; kpb looks at a fifth of "
        "all, met at one.  olb is first come, first served.",
        f"The abstract has no number.  What counts as competitive (at most {COMPETES:g} times the response "
        f"time of mct) and as dramatically less ({FEW_MACHINES:g} of the machines), the systems, and how a "
        "task is mapped are ours.",
    ),
    figure=lambda data: panels(
        {system: _against_mct(data, system) for system in data},
        LOADS,
        {"yscale": "log", "xlabel": "load"},
        shared=True,
    ),
)
