"""Vasilakos, Sacha and Pierre, Figures 5 and 6: waiting by kinds of jobs, and schedules over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
from gridsim.reproduce.dgs.common import DAY, HIGH, METRICS, PROMPT, GridJobs, about_jobs, jobs_of, span
from gridsim.reproduce.framework import Measurements, Reproduction, ResultGrid, Run, finite_or_dash
from gridsim.reproduce.verdicts import ABOVE_ONE, ABOVE_ZERO, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.metrics.rigid import (
    effective_series,
    intervals,
    largest,
    prompt_share,
    rank_correlation,
    request_series,
    waiting_by_class,
)
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROFILE = "wagap2013"
PUSH, PULL = "push", "pull"

# -- Figure 5: waiting ----------------------------------------------------------------------------------

BUSY = "waiting increases when the utilization is high"
MORE_NODES = "waiting grows with the number of nodes of a job"
DURATION = "there is little or no correlation of waiting and duration"
AREA = "waiting is generally higher for jobs of more slots in all"
AT_ONCE = "some of the jobs of many nodes for a long time start without any delay"

#: Number of intervals into which the period of submissions is divided.
PARTS = 40
#: Share of jobs that count as large: the tenth with the largest area.
LARGE = 0.1
#: Edges of the classes of jobs: number of nodes, duration in s, and area in node hours.
CLASSES = {
    "nodes": (1, 2, 4, 8, 16, 32, 64, 128, 1e9),
    "duration": (0, 60, 600, 3600, 6 * 3600, DAY, 7 * DAY, 1e12),
    "area": (0, 0.1, 1, 10, 100, 1000, 10_000, 1e12),
}
UNITS = {"nodes": "nodes", "duration": "s", "area": "node hours"}
LABELS = {"nodes": "nodes", "duration": "duration (s)", "area": "area (node hours)"}


def sizes_by(result: gs.Result, kind: str) -> Floats:
    """Return the nodes, duration (s) or area (node hours) of each job."""
    jobs = result.applications
    nodes = jobs["tasks"].astype(np.float64)
    sizes: Floats = {"nodes": nodes, "duration": jobs["run_time"], "area": nodes * jobs["run_time"] / 3600.0}[
        kind
    ]
    return sizes


def correlation(result: gs.Result, kind: str) -> float:
    """Return the rank correlation of waiting time and `kind` over the jobs that ran."""
    waiting = result.applications["waiting"]
    ran = ~np.isnan(waiting)
    return rank_correlation(sizes_by(result, kind)[ran], waiting[ran])


def median_of(result: gs.Result, kind: str, number: int) -> float:
    """Return the median waiting time of a class of `kind`, s; NaN if the class is empty."""
    classes = waiting_by_class(
        sizes_by(result, kind), result.applications["waiting"], np.array(CLASSES[kind])
    )
    return float(classes.median[number])


def over_time(result: gs.Result) -> tuple[Floats, Floats, Floats]:
    """Return the edges (s), EU and mean waiting time (s; NaN without jobs) of intervals of submissions."""
    jobs, first = result.applications, float(result.applications["release"].min())
    edges = intervals(0.0, span(result), span(result) / PARTS)[: PARTS + 1]
    release = jobs["release"] - first
    eu = effective_series(
        edges, jobs["first_start"] - first, jobs["finish"] - first, jobs["tasks"], len(result.machines)
    )
    return edges, eu, waiting_by_class(release, jobs["waiting"], edges).mean


def with_load(result: gs.Result) -> float:
    """Return the rank correlation of EU and mean waiting time over the intervals with submissions."""
    _, eu, waiting = over_time(result)
    subset = ~np.isnan(waiting)
    return rank_correlation(eu[subset], waiting[subset])


def prompt(result: gs.Result) -> float:
    """Return the share of large jobs that start without delay, %."""
    return 100.0 * prompt_share(
        result.applications["waiting"][largest(sizes_by(result, "area"), LARGE)], PROMPT
    )


def prompt_all(result: gs.Result) -> float:
    """Return the share of all jobs that start without delay, %."""
    return 100.0 * prompt_share(result.applications["waiting"], PROMPT)


def medians(result: gs.Result, kind: str, low: float, high: float) -> float:
    """Return the median waiting time of jobs with `kind` >= `low` over that of jobs with `kind` < `high`."""
    values, waiting = sizes_by(result, kind), result.applications["waiting"]
    ran = ~np.isnan(waiting)
    large, small = waiting[ran & (values >= low)], waiting[ran & (values < high)]
    return float(np.median(large) / np.median(small)) if len(large) and len(small) else math.nan


#: Kind -> limits (a, b) of large and small jobs: a job is large from a on and small below b.
ENDS = {"nodes": (64.0, 2.0), "duration": (DAY, 3600.0), "area": (1000.0, 1.0)}
FIG5_METRICS: dict[str, MetricFunction] = {
    "with load": with_load,
    "prompt": prompt,
    "prompt all": prompt_all,
    **{kind: partial(correlation, kind=kind) for kind in CLASSES},
    **{f"{kind} ends": partial(medians, kind=kind, low=low, high=high) for kind, (low, high) in ENDS.items()},
    **{
        f"{kind} {k}": partial(median_of, kind=kind, number=k)
        for kind, edges in CLASSES.items()
        for k in range(len(edges) - 1)
    },
}
#: Metric -> claim, the quantity that waiting is correlated with, and the rank correlations that agree with
#: the claim.
CORRELATIONS = {
    "with load": (BUSY, "waiting over time and EU", ClaimedRange("increases", ABOVE_ZERO, 1.0)),
    "nodes": (MORE_NODES, "waiting and nodes", ClaimedRange("strong", 0.3, 1.0)),
    "duration": (DURATION, "waiting and duration", ClaimedRange("little or none", -0.1, 0.1)),
    "area": (AREA, "waiting and area", ClaimedRange("generally higher", ABOVE_ZERO, 1.0)),
}
#: Kind -> claim, and the ratios of median waiting times that agree with it.
MEDIAN_RATIOS = {
    "nodes": (MORE_NODES, ClaimedRange("grows", 2.0)),
    "duration": (DURATION, ClaimedRange("little or none", 0.5, 2.0)),
    "area": (AREA, ClaimedRange("generally higher", ABOVE_ONE)),
}


def _fig5_rows(data: Measurements) -> Iterator[Row]:
    values = data.first
    for metric, (claim, label, test) in CORRELATIONS.items():
        yield judge(claim, f"rank correlation of {label}", values.mean(PUSH, metric), test)
    for kind, (claim, test) in MEDIAN_RATIOS.items():
        low, high = ENDS[kind]
        quantity = f"median waiting, {low:g} {UNITS[kind]} and more / below {high:g}"
        yield judge(claim, quantity, values.mean(PUSH, f"{kind} ends"), test)
    share = values.mean(PUSH, "prompt")
    yield judge(
        AT_ONCE, "large jobs that start without delay", share, ClaimedRange("some", 1e-9, 100.0), unit="%"
    )
    yield judge(AT_ONCE, "all jobs that do", values.mean(PUSH, "prompt all"), unit="%")


def _fig5_grids(data: Measurements) -> Iterator[ResultGrid]:
    for kind, edges in CLASSES.items():
        rows = {}
        for k, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
            label = f"{low:g} and more" if high >= 1e9 else f"{low:g} to less than {high:g}"
            rows[label] = [finite_or_dash(data.first.mean(PUSH, f"{kind} {k}"))]
        yield ResultGrid(f"Median waiting by {kind}", [LABELS[kind], "waiting (s)"], rows)


FIG5_REMARKS = (
    "Waiting is until the start; no job starts before the next slot of 60 s, after the messages of a search: "
    f"without delay is within {PROMPT:g} s.",
    f"Large jobs: the {LARGE:.0%} with the largest area (nodes * duration).",
    'The paper shows medians.  "Strong" is taken as a rank correlation of 0.3 and more, "little or none" as '
    "within 0.1 of 0, or as medians within a factor of 2.  Most jobs wait for no more than the next slot, "
    "whatever they are like, which makes rank correlations small.",
)


def _draw_fig5(data: Measurements) -> Figure:
    """Draw the waiting time of the first seed over time, and of each job over nodes, duration and area."""
    from gridsim import plots

    result = simulate(_fig5_jobs(data.run)(data.run.seeds[0]), SCHEDULERS[PUSH])
    edges, eu, waiting = over_time(result)
    figure, (first, *panels) = plots.figure(4, width=4.0)
    first.step(edges[:-1] / DAY, waiting / 3600.0, where="post", color=plots.COLOURS[0], label="waiting")
    first.set(xlabel="submission (days)", ylabel="mean waiting (h)")
    first.grid(alpha=0.3)
    right = first.twinx()
    right.step(edges[:-1] / DAY, 100.0 * eu, where="post", color=plots.COLOURS[1], linewidth=1)
    right.set_ylabel("EU (%)", color=plots.COLOURS[1])
    for axes, kind in zip(panels, CLASSES, strict=True):
        sizes, waits = sizes_by(result, kind), result.applications["waiting"]
        axes.scatter(sizes, np.maximum(waits, 1.0), s=1, color="0.6")
        classes = waiting_by_class(sizes, waits, np.array(CLASSES[kind]))
        subset = classes.jobs > 0
        at = [max(float(v), float(sizes.min())) for v in classes.low[subset]]
        axes.plot(
            at, classes.median[subset], color=plots.COLOURS[0], marker="o", markersize=3, label="median"
        )
        axes.set(xscale="log", yscale="log", xlabel=LABELS[kind], ylabel="waiting (s)")
        plots.legend(axes, place="upper left")
        axes.grid(alpha=0.3)
    return figure


def _fig5_jobs(run: Run) -> GridJobs:
    return jobs_of(run, 6000, HIGH, PROFILE)


SCHEDULERS: dict[str, gs.Scheduler] = {
    PUSH: gs.DgsAsap(estimate="run"),
    PULL: gs.DgsAsap(estimate="run", policy="pull"),
}
FIG5 = Reproduction(
    name="dgs-fig5",
    title="waiting over submission time, nodes, duration and area",
    paper="Vasilakos, Sacha and Pierre, Figure 5",
    claims=(BUSY, MORE_NODES, DURATION, AREA, AT_ONCE),
    files="job log",
    cases=lambda run: {"": _fig5_jobs(run)},
    schedulers={PUSH: SCHEDULERS[PUSH]},
    metrics=FIG5_METRICS,
    rows=_fig5_rows,
    grids=_fig5_grids,
    remarks=lambda data: (*about_jobs(data.run, PROFILE), *FIG5_REMARKS),
    figure=_draw_fig5,
)

# -- Figure 6: schedules exchanged ----------------------------------------------------------------------

CLOSE = "pull / push is close to one when the request utilization is low"
GROWS = "it grows significantly above one, even two orders of magnitude, when the utilization is high"
CHEAPER = "on average push costs over 10 times less"

#: Number of equal intervals whose costs are compared.
SIXTHS = 6


def _fig6_cases(run: Run) -> dict[int, GridJobs]:
    """Return the jobs submitted in the first sixth of the time, in the first two sixths, and so on.

    Later jobs have no effect on earlier ones, so the schedules that a further sixth adds are those exchanged
    for its jobs.
    """
    jobs = jobs_of(run, 3000, HIGH, PROFILE)
    return {**{k: replace(jobs, part=(k, SIXTHS)) for k in range(1, SIXTHS)}, SIXTHS: jobs}


class _Sixths:
    """Costs, cost ratios and loads of each sixth: float64[sixths, seeds]."""

    def __init__(self, data: Measurements) -> None:
        jobs = jobs_of(data.run, 3000, HIGH, PROFILE)
        self.costs = {
            name: _increments(values["schedules"][name] for values in data.values()) for name in SCHEDULERS
        }
        placed_nodes = _increments(values["jobs"][PUSH] * values["nodes"][PUSH] for values in data.values())
        cancelled = _increments(values["jobs"][PUSH] * values["cancelled"][PUSH] for values in data.values())
        with np.errstate(all="ignore"):
            self.ratios: dict[str, Floats] = {
                "pull / push": self.costs[PULL] / self.costs[PUSH],
                "pull / push, cancelled nodes left out": self.costs[PULL]
                / (self.costs[PUSH] * placed_nodes / (placed_nodes + 2.0 * cancelled)),
            }
        loads = [np.stack(_loads(jobs, seed)) for seed in data.run.seeds]
        self.ru, self.use = np.stack(loads, axis=2)


def _increments(totals: Any) -> Floats:
    """Return the increments of cumulative totals, for each seed."""
    increments: Floats = np.diff(np.stack(list(totals)), axis=0, prepend=0.0)
    return increments


def _loads(jobs: GridJobs, seed: int) -> tuple[Floats, Floats]:
    """Return RU of each part, and the utilization of the nodes if all jobs started at once."""
    scenario = jobs(seed)
    bags = scenario.workload.realize(scenario.platform)
    run_time = bags.task_size / float(scenario.platform.speeds[0])
    end = float(bags.release[-1])
    edges = intervals(0.0, end, end / SIXTHS * (1.0 + 1e-9))
    finish = bags.release + run_time
    return (
        request_series(edges, bags.release, bags.tasks, run_time, jobs.nodes),
        effective_series(edges, bags.release, finish, bags.tasks, jobs.nodes),
    )


def _at(values: Floats, load: Floats, choose: Callable[[Floats], Any]) -> Estimate:
    """Return `values` at the minimum or maximum load of each seed, among parts with exchanges."""
    subset = np.isfinite(values)
    columns = zip(values.T, load.T, subset.T, strict=True)
    return estimate([value[finite][choose(at[finite])] for value, at, finite in columns])


def _correlation(values: Floats, load: Floats) -> float:
    subset = np.isfinite(values)
    return rank_correlation(values[subset], load[subset])


def _fig6_rows(data: Measurements) -> Iterator[Row]:
    sixths = _Sixths(data)
    for case, ratio in sixths.ratios.items():
        minimum, maximum = _at(ratio, sixths.use, np.argmin), _at(ratio, sixths.use, np.argmax)
        yield judge(CLOSE, f"{case}, sixth of the lowest load", minimum, ClaimedRange("close to 1", 0.5, 2.0))
        yield judge(
            GROWS, f"{case}, sixth of the highest load", maximum, ClaimedRange("up to 100", 2.0, 200.0)
        )
        pull = sixths.costs[PULL]
        total = estimate(pull.sum(axis=0) / np.nansum(pull / ratio, axis=0))
        yield judge(CHEAPER, f"{case}, whole", total, ClaimedRange("> 10", 10.0))
        for label, load in (("RU", sixths.ru), ("nodes in use", sixths.use)):
            each_seed = [_correlation(a, b) for a, b in zip(ratio.T, load.T, strict=True)]
            quantity = f"{case}: rank correlation with {label}"
            yield judge(GROWS, quantity, estimate(each_seed), ClaimedRange("> 0", ABOVE_ZERO, 1.0))


def _fig6_grids(data: Measurements) -> Iterator[ResultGrid]:
    sixths = _Sixths(data)
    columns = {
        "RU (%)": 100.0 * sixths.ru,
        "nodes in use (%)": 100.0 * sixths.use,
        **{f"schedules, {name}": cost for name, cost in sixths.costs.items()},
        **sixths.ratios,
    }
    rows = {
        f"sixth {k + 1}": [finite_or_dash(estimate(column[k])) for column in columns.values()]
        for k in range(SIXTHS)
    }
    yield ResultGrid("By sixths of the time of submissions", ["", *columns], rows)


FIG6_REMARKS = (
    f"What a {SIXTHS}th of the time costs is told from runs of the jobs submitted until its beginning and "
    "until its end: what comes later changes nothing of what was before.",
    "Nodes in use: if each job started when it is submitted; a search opens neighbours when its own are in "
    "use.  RU counts the whole of a job in the sixth of its submission.",
    "Each cancelled node pushes twice, as it commits and as it is released.",
)


def _draw_fig6(data: Measurements) -> Figure:
    """Draw the schedules of push and pull and the load over time, each with the cost ratio, for one seed."""
    from gridsim import plots

    sixths = _Sixths(data)
    days = (np.arange(SIXTHS) + 0.5) / SIXTHS * data.last["span"][PUSH][0] / DAY
    figure, panels = plots.figure(2)
    for axes, title, series, scale in (
        (panels[0], "schedules exchanged", sixths.costs, 1.0),
        (panels[1], "utilization (%)", {"RU": sixths.ru, "nodes in use": sixths.use}, 100.0),
    ):
        for number, (name, values) in enumerate(series.items()):
            style: Any = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number], "label": name}
            axes.plot(days, scale * values[:, 0], **style)
        axes.set(title=title, xlabel="days")
        axes.grid(alpha=0.3)
        plots.legend(axes, place="upper left")
        right = axes.twinx()
        ratio = sixths.ratios["pull / push"][:, 0]
        right.plot(days, ratio, color=plots.COLOURS[6], linestyle=":", marker=".")
        right.set_ylabel("pull / push")
    panels[0].set_yscale("log")
    return figure


FIG6 = Reproduction(
    name="dgs-fig6",
    title="schedules exchanged by push and pull over time",
    paper="Vasilakos, Sacha and Pierre, Figure 6",
    claims=(CLOSE, GROWS, CHEAPER),
    files="job log",
    cases=_fig6_cases,
    schedulers=SCHEDULERS,
    metrics=METRICS,
    rows=_fig6_rows,
    grids=_fig6_grids,
    remarks=lambda data: (*about_jobs(data.run, PROFILE), *FIG6_REMARKS),
    figure=_draw_fig6,
)
