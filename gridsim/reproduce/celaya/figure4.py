"""Celaya and Marchal, research report, Figure 4: stretch and update time over the number of machines.

Also the causes of the fair tree's loss against MinCent, which the papers do not discuss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
from gridsim.reproduce.celaya.common import (
    AT_ROOT,
    BASE,
    EARLY_ACCEPTANCE,
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
    failing_trees,
    fcfs_margin,
    paper_tree,
    readings,
    verdict_grid,
    with_failures,
)
from gridsim.reproduce.framework import (
    CALIBRATIONS,
    CalibratedScenario,
    Case,
    Measurements,
    Reproduction,
    ResultGrid,
    Run,
    failing,
    latest_update,
    per_doubling,
    relative_to,
    series,
)
from gridsim.reproduce.verdicts import (
    ABOVE_ZERO,
    POSITIVE,
    ClaimedRange,
    Row,
    incomparable,
    judge,
    seeds_above,
)
from gridsim.results.metrics.estimates import Estimate, estimate, ratio_of_means
from gridsim.studies.replicate_result import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "Celaya and Marchal, research report, Figure 4"
SIZES = (50, 100, 200, 500, 1000)

# -- Figure 4(a): the maximum stretch ---------------------------------------------------------------------

LOSS = "with 1000 machines and no failures the fair tree loses less than 25 % to MinCent"
LOSS_GROWS = "the loss grows slightly with the number of machines"
TWICE = "FCFS has almost twice the maximum stretch of MinCent"

SMALL_SIZES = (20, 40)
KINDS = ("K1", "K2", "U")
EARLY_TREE = "B = 2, busy leaves"
#: Label of a tree -> the parameters in which it differs from the paper's.
VARIANTS: dict[str, Mapping[str, Any]] = {
    ROOT: AT_ROOT,
    "minimum B = 1.25": {"accept": "minimum", "bound": 1.25, "minimum_of": "all"},
    "largest B = 1": {"accept": "largest", "bound": 1.0},
    "either B = 1": {"accept": "either", "bound": 1.0},
    EARLY_TREE: EARLY_ACCEPTANCE,
}
#: The paper's tree, and the variants that differ from it.
TREES: dict[str, Mapping[str, Any]] = {
    TREE: {},
    **{name: changes for name, changes in VARIANTS.items() if paper_tree(**changes) != paper_tree()},
}
#: Maximum share of requests decided at the root, %, up to which the loss is judged: decisions below the root
#: cause it.
MAX_AT_ROOT = 75.0
#: The range that counts as "almost twice": within a tenth of 2.
ALMOST_TWICE = ClaimedRange("almost 2", 1.8, 2.2)
FAILURE_FREE: Mapping[str, gs.Scheduler] = {
    BASE: MINCENT,
    **{name: paper_tree(**changes) for name, changes in TREES.items()},
    **FCFS,
}


def _schedulers_with_failures(calibration: str) -> dict[str, gs.Scheduler]:
    schedulers = {with_failures(name): scheduler for name, scheduler in {BASE: MINCENT, **FCFS}.items()}
    return {**schedulers, **failing_trees(calibration)}


def _fig4a_cases(run: Run) -> dict[tuple[str, int], list[Case]]:
    """Return the cases of all sizes; every second size, counted down from the largest, also has failures."""
    sizes = run.choose(SIZES, SMALL_SIZES)
    cases = {}
    for kind in KINDS:
        for nodes in sizes:
            cases[kind, nodes] = [Case(CalibratedScenario(kind, nodes), FAILURE_FREE)]
            if nodes in sizes[-1::-2]:
                scenario = CalibratedScenario(kind, nodes, failing)
                cases[kind, nodes].append(Case(scenario, _schedulers_with_failures(kind)))
    return cases


def _rows_against_fcfs(data: Measurements) -> dict[tuple[str, str], list[Row]]:
    """Return (calibration, reading) -> the rows about the claim `WORSE` at the largest size."""
    return {
        (kind, reading): list(against_fcfs(f"{kind}, N = {list(sizes)[-1]}", reading, sizes.last))
        for kind, sizes in data.groups.items()
        for reading in readings(kind)
    }


def _fig4a_rows(data: Measurements) -> Iterator[Row]:
    against = _rows_against_fcfs(data)
    for kind, cases in data.groups.items():
        sizes, last = list(cases), cases.last
        at = f"{kind}, N = {sizes[-1]}"
        for name in TREES:
            yield from _losses(f"{at}: {name}", name, last)
        ratios = [values["max"][TREE] / values["max"][BASE] for values in cases.values()]
        rise = estimate(per_doubling(sizes, ratios) * math.log2(sizes[-1] / sizes[0]))
        growth = f"{kind}: growth of the ratio, N = {sizes[0]} to {sizes[-1]}, tree"
        yield judge(LOSS_GROWS, growth, rise, ClaimedRange("> 0, slight", ABOVE_ZERO, 0.25))
        for fcfs in FCFS:
            yield judge(TWICE, f"{at}: {fcfs} / MinCent", last.mean_ratio(fcfs, BASE), ALMOST_TWICE)
        for reading in readings(kind):
            yield from against[kind, reading]


def _losses(label: str, name: str, values: Replicates) -> list[Row]:
    """Return the rows on the loss of a tree, with the share of requests that its root decides."""
    share = values.mean(name, "requests").mean
    reason = f"{share:.3g} % of the requests are decided at the root"
    ratio, quantity, test = (
        values.mean_ratio(name, BASE),
        f"{label} / MinCent",
        ClaimedRange("< 1.25", high=1.25),
    )
    if name != TREE:
        return [Row(LOSS, quantity, test.paper, ratio, why=reason)]
    ratios = {quantity: ratio, f"{quantity}, ratio of the means": values.ratio_of_means(name, BASE)}
    if share > MAX_AT_ROOT:
        reason += ", so it says nothing of decisions below"
        return [incomparable(LOSS, key, test.paper, value, reason) for key, value in ratios.items()]
    return [judge(LOSS, key, value, test, why=reason) for key, value in ratios.items()]


def _fig4a_grids(data: Measurements) -> Iterator[ResultGrid]:
    for kind, cases in data.groups.items():
        schedulers = {**FAILURE_FREE, **_schedulers_with_failures(kind)}
        sizes = [f"N = {nodes}" for nodes in cases]
        trees = [name for name, scheduler in schedulers.items() if isinstance(scheduler, gs.FairTree)]
        shares, better = {}, {}
        for name in trees:
            for metric in ("requests", "applications"):
                shares[f"{name}: {metric}"] = series(cases, metric, [name])[name]
        for name in trees:
            for also in () if name in TREES else (True, False):

                def seeds_better(values: Replicates, tree: str, failing: bool = also) -> str:
                    return seeds_above(fcfs_margin(values, tree, failing=failing), values.seeds)

                key = f"{name}, than FCFS {'with' if also else 'without'} failures"
                better[key] = series(cases, seeds_better, [name])[name]
        ratios = series(cases, relative_to(BASE, "max"), [name for name in schedulers if name != BASE])
        yield ResultGrid(f"{kind}: {CALIBRATIONS[kind]}", ["maximum stretch / MinCent", *sizes], ratios)
        yield ResultGrid(f"{kind}: share decided at the root, %", ["tree, and of what", *sizes], shares)
        title = f"{kind}: seeds in which a tree is better than both kinds of FCFS"
        yield ResultGrid(title, ["tree", *sizes], better)
    yield _verdicts(data)[0]


def _verdicts(data: Measurements) -> tuple[ResultGrid, str]:
    return verdict_grid((WORSE,), _rows_against_fcfs(data), quick=data.run.quick)


FIG4A_REMARKS = (
    "The paper prints neither B, nor the task size, nor how speeds are distributed in 1000..3000, nor how "
    "many samples a summary has, nor how FCFS chooses a machine.  Three calibrations (U is literal: uniform "
    "speeds, one task size), several rules of acceptance and both readings of FCFS are shown.",
    "The loss is judged for the paper's tree, and only where its root decides at most "
    f"{MAX_AT_ROOT:g} % of the requests: a tree that decides everything at its root is a centralized "
    "scheduler, and its loss says nothing of decentralized decisions.  The other trees are shown beside it.",
    "All ratios are to MinCent without failures, also where the other scheduler meets failures.",
    "The paper divides means over simulations; here it is the mean of the ratios of each seed, and for the "
    "tree the ratio of the means as well.",
    '"Almost twice" is taken as 1.8..2.2.  The growth is the slope over log2 N, by least squares for each '
    "seed, times the doublings between the smallest and the largest network.",
    "Of the trees only the paper's meets failures.",
)

CURVES = (
    TREE,
    *(with_failures(TREE, reading) for reading in READINGS),
    EARLY_TREE,
    ECT,
    with_failures(ECT),
    RANDOM,
)


def _draw_fig4a(data: Measurements) -> Figure:
    """Draw the ratios over N with their intervals and the paper's 1.25, a panel per calibration."""
    from gridsim import plots

    figure, panels = plots.figure(len(KINDS))
    for axes, (kind, cases) in zip(panels, data.groups.items(), strict=True):
        names = [name for name in CURVES if name in cases.last.schedulers]
        for name in names:
            points = {
                nodes: values.mean_ratio(name, BASE)
                for nodes, values in cases.items()
                if name in values.schedulers
            }
            plots.lines(list(points), {name: list(points.values())}, styles=names, axes=axes)
        axes.axhline(1.25, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xticks(list(cases), list(map(str, cases)))
        axes.minorticks_off()
        axes.set(title=kind, xlabel="machines", ylabel="maximum stretch / MinCent")
    plots.shared_legend(figure)
    return figure


FIG4A = Reproduction(
    name="celaya-fig4a",
    title="maximum stretch relative to MinCent over the number of machines",
    paper=f"{PAPER}(a)",
    claims=(LOSS, LOSS_GROWS, *claims_by_reading(WORSE), TWICE),
    cases=_fig4a_cases,
    metrics=METRICS,
    rows=_fig4a_rows,
    grids=_fig4a_grids,
    remarks=lambda data: (
        TREE_REMARK,
        *FIG4A_REMARKS,
        READINGS_REMARK,
        FAILURES_REMARK,
        f"{_verdicts(data)[1]}  The other claims on failures are those of celaya-failures, which judges all "
        "of them together.",
    ),
    figure=_draw_fig4a,
)

# -- Figure 4(b): the update time -------------------------------------------------------------------------

FAST = "with 1000 machines a change is known at the root in less than four seconds"
TIME_GROWS = "larger networks have longer update times, but only as the logarithm of their size"


def _fig4b_rows(data: Measurements) -> Iterator[Row]:
    sizes, times = list(data), [values["time"][TREE] for values in data.values()]
    quantity = f"maximum update time, N = {sizes[-1]}"
    yield judge(FAST, quantity, estimate(times[-1]), ClaimedRange("< 4", high=4.0), unit="s")
    slope = estimate(per_doubling(sizes, times))
    yield judge(TIME_GROWS, "growth per doubling of N", slope, POSITIVE, unit="s")
    # Logarithmic growth: the growth per doubling is about the same above the middle size as below it.
    half = len(sizes) // 2
    upper, lower = (
        per_doubling(sizes[half:], times[half:]),
        per_doubling(sizes[: half + 1], times[: half + 1]),
    )
    quantity = f"growth per doubling above N = {sizes[half]} over that below"
    growth = estimate(upper, lower, statistic=ratio_of_means)
    yield judge(TIME_GROWS, quantity, growth, ClaimedRange("1 (logarithm)", 0.5, 1.5))


def _fig4b_grids(data: Measurements) -> Iterator[ResultGrid]:
    rows: dict[str, list[Estimate | str]] = {}
    for name in data.first.schedulers:
        for nodes, values in data.items():
            times = values["time"][name]
            quantiles = (times.min(), np.median(times), times.max())
            rows[f"N = {nodes}, {name}"] = [estimate(times), *(f"{value:.4g}" for value in quantiles)]
    columns = ["maximum update time (s)", "mean", "smallest", "median", "largest"]
    yield ResultGrid("Distribution over seeds", columns, rows)


FIG4B_REMARKS = (
    TREE_REMARK,
    f"Platform and tasks: {CALIBRATIONS['U']}; the paper gives no task size.",
    "The time from a change at a leaf until the root knows, of changes from the first release on; the "
    "maximum of each run.  The paper does not say over what its distribution is; here it is over seeds.",
    "Growth as the logarithm means the same growth per doubling everywhere; 0.5..1.5 counts as that.",
    "A tree of 64 machines or fewer has one level less than one of 65, so times grow in steps of levels.",
)


def _draw_fig4b(data: Measurements) -> Figure:
    """Draw a box and the values of all seeds for each size."""
    from gridsim import plots

    figure, (axes,) = plots.figure()
    plots.boxes({str(nodes): values["time"][TREE].tolist() for nodes, values in data.items()}, axes=axes)
    axes.axhline(4.0, color="black", linestyle=":", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="machines", ylabel="maximum update time (s)")
    return figure


FIG4B = Reproduction(
    name="celaya-fig4b",
    title="maximum update time over the number of machines, 10,000 bytes/s",
    paper=f"{PAPER}(b)",
    claims=(FAST, TIME_GROWS),
    seeds=(20, 5),
    cases=lambda run: {nodes: CalibratedScenario("U", nodes) for nodes in run.choose(SIZES, SIZES[:3])},
    schedulers={TREE: paper_tree(), ROOT: paper_tree(**AT_ROOT)},
    metrics={"time": latest_update},
    rows=_fig4b_rows,
    grids=_fig4b_grids,
    remarks=FIG4B_REMARKS,
    figure=_draw_fig4b,
)

# -- the loss, step by step -------------------------------------------------------------------------------


def ideal(seed: int) -> dict[str, Any]:
    """Return the `network` argument of a `CalibratedScenario` on which messages take no time."""
    return {"network": gs.Network(latency=0.0, bandwidth=math.inf)}


#: Steps that remove possible causes of the loss, one at a time and then together: parameters of the tree, and
#: further arguments of the scenario. "As it is" is the paper's tree, with which the later steps are compared.
CALM_STEP, FAILURES = "as it is", "as it is, with failures"
LADDER: dict[str, tuple[Mapping[str, Any], Callable[[int], dict[str, Any]] | None]] = {
    CALM_STEP: ({}, None),
    ROOT: (AT_ROOT, None),
    "early acceptance (B = 2, busy leaves)": (EARLY_ACCEPTANCE, None),
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


def _loss_cases(run: Run) -> dict[str, list[Case]]:
    parts = []
    for network in (None, ideal, failing):
        steps: dict[str, gs.Scheduler] = {
            name: paper_tree(**parameters) for name, (parameters, of) in LADDER.items() if of is network
        }
        if network is None:
            steps[BASE] = MINCENT
        parts.append(Case(CalibratedScenario("K1", run.choose(1000, 40), network), steps))
    return {f"K1, N = {run.choose(1000, 40)}": parts}


def _loss_grids(data: Measurements) -> Iterator[ResultGrid]:
    [(title, values)] = data.items()
    stretch = values["max_stretch"]
    rows = {}
    for name, (_, network) in LADDER.items():
        before = FAILURES if network is failing else CALM_STEP
        gain = (stretch[before] - stretch[name]) / stretch[BASE]
        rows[name] = [values.mean_ratio(name, BASE), estimate(gain)]
    columns = ["what is other", "maximum stretch / MinCent", "gained"]
    yield ResultGrid(f"{title}: {CALIBRATIONS['K1']}", columns, rows)


def _draw_loss(data: Measurements) -> Figure:
    """Draw a bar for each step."""
    from gridsim import plots

    figure, [axes] = plots.figure(1)
    axes.barh(list(LADDER), [data.first.mean_ratio(name, BASE).mean for name in LADDER])
    axes.invert_yaxis()
    axes.set_xlabel("maximum stretch / MinCent")
    return figure


LOSS_STEPS = Reproduction(
    name="celaya-loss",
    title="what the fair tree's loss against MinCent comes from",
    paper="not in the papers of Celaya and Marchal",
    claims=(),
    cases=_loss_cases,
    grids=_loss_grids,
    remarks=(
        TREE_REMARK,
        "The papers say nothing of this.  All ratios are to MinCent without failures, and so is what is "
        "gained.",
    ),
    figure=_draw_loss,
)
