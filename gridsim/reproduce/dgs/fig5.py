"""Vasilakos, Sacha and Pierre, Figure 5: waiting over submission time, nodes, duration and area."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.reproduce.dgs.common import DAY, HIGH, PROMPT, about_jobs, jobs_of, shown, span
from gridsim.reproduce.framework import ABOVE, POSITIVE, Grid, Report, Row, Run, judge
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.metrics.rigid import (
    effective_series,
    intervals,
    largest,
    prompt_share,
    rank_correlation,
    waiting_by_class,
)
from gridsim.results.result import Result
from gridsim.schedulers import DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "dgs-fig5"
TITLE = "waiting over submission time, nodes, duration and area"
BUSY = "waiting increases when the utilization is high"
MORE_NODES = "waiting grows with the number of nodes of a job"
DURATION = "there is little or no correlation of waiting and duration"
AREA = "waiting is generally higher for jobs of more slots in all"
AT_ONCE = "some of the jobs of many nodes for a long time start without any delay"
CLAIMS = (BUSY, MORE_NODES, DURATION, AREA, AT_ONCE)
SEEDS = (10, 5)

JOBS, PROFILE = 6000, "wagap2013"
SCHEDULERS: dict[str, Scheduler] = {"push": DgsAsap(estimate="run")}
PARTS = 40
#: Share of the jobs that count as large: the tenth with the largest area.
LARGE = 0.1
#: Edges of the classes of jobs: number of nodes, duration in s, and area in node hours.
CLASSES = {
    "nodes": (1, 2, 4, 8, 16, 32, 64, 128, 1e9),
    "duration": (0, 60, 600, 3600, 6 * 3600, DAY, 7 * DAY, 1e12),
    "area": (0, 0.1, 1, 10, 100, 1000, 10_000, 1e12),
}
UNITS = {"nodes": "nodes", "duration": "s", "area": "node hours"}
LABELS = {"nodes": "nodes", "duration": "duration (s)", "area": "area (node hours)"}


def by(result: Result, what: str) -> Floats:
    """Return the nodes, duration (s) or area (node hours) of each job."""
    jobs = result.applications
    nodes = jobs["tasks"].astype(np.float64)
    made: Floats = {
        "nodes": nodes,
        "duration": jobs["run_time"],
        "area": nodes * jobs["run_time"] / 3600.0,
    }[what]
    return made


def correlation(result: Result, what: str) -> float:
    """Rank correlation of waiting and `what`, over the jobs that ran."""
    waiting = result.applications["waiting"]
    ran = ~np.isnan(waiting)
    return rank_correlation(by(result, what)[ran], waiting[ran])


def median_of(result: Result, what: str, number: int) -> float:
    """Median waiting of a class of `what`, s; NaN if no job is in it."""
    made = waiting_by_class(by(result, what), result.applications["waiting"], np.array(CLASSES[what]))
    return float(made.median[number])


def over_time(result: Result) -> tuple[Floats, Floats, Floats]:
    """Return edges (s), EU and mean waiting (s; NaN without jobs) of intervals of the time of submissions."""
    jobs, first = result.applications, float(result.applications["release"].min())
    edges = intervals(0.0, span(result), span(result) / PARTS)[: PARTS + 1]
    release = jobs["release"] - first
    eu = effective_series(
        edges, jobs["first_start"] - first, jobs["finish"] - first, jobs["tasks"], len(result.machines)
    )
    return edges, eu, waiting_by_class(release, jobs["waiting"], edges).mean


def with_load(result: Result) -> float:
    """Rank correlation of EU and mean waiting over the intervals in which jobs were submitted."""
    _, eu, waiting = over_time(result)
    some = ~np.isnan(waiting)
    return rank_correlation(eu[some], waiting[some])


def prompt(result: Result) -> float:
    """Share of the large jobs that start without delay, %."""
    return 100.0 * prompt_share(result.applications["waiting"][largest(by(result, "area"), LARGE)], PROMPT)


def prompt_all(result: Result) -> float:
    """Share of all jobs that start without delay, %."""
    return 100.0 * prompt_share(result.applications["waiting"], PROMPT)


def medians(result: Result, what: str, least: float, below: float) -> float:
    """Median waiting of jobs with `what` of at least `least`, over that of jobs with `what` below `below`."""
    values, waiting = by(result, what), result.applications["waiting"]
    ran = ~np.isnan(waiting)
    large, small = waiting[ran & (values >= least)], waiting[ran & (values < below)]
    return float(np.median(large) / np.median(small)) if len(large) and len(small) else math.nan


#: Limits of large and small jobs: large are at least the first value, small are below the second.
ENDS = {"nodes": (64.0, 2.0), "duration": (DAY, 3600.0), "area": (1000.0, 1.0)}

METRICS: dict[str, MetricFunction] = {
    "with load": with_load,
    "prompt": prompt,
    "prompt all": prompt_all,
    **{what: partial(correlation, what=what) for what in CLASSES},
    **{
        f"{what} ends": partial(medians, what=what, least=least, below=below)
        for what, (least, below) in ENDS.items()
    },
    **{
        f"{what} {k}": partial(median_of, what=what, number=k)
        for what, edges in CLASSES.items()
        for k in range(len(edges) - 1)
    },
}


def run(how: Run) -> Report:
    """Run the jobs of each seed at a load of 95 %; the figure shows the points of the first seed."""
    jobs = jobs_of(how, JOBS, HIGH, PROFILE)
    made = how.replicate(jobs, SCHEDULERS, METRICS)
    wanted = {
        "with load": (BUSY, "waiting over time and EU", "increases", POSITIVE, 1.0),
        "nodes": (MORE_NODES, "waiting and nodes", "strong", 0.3, 1.0),
        "duration": (DURATION, "waiting and duration", "little or none", -0.1, 0.1),
        "area": (AREA, "waiting and area", "generally higher", POSITIVE, 1.0),
    }
    rows: list[Row] = [
        judge(claim, f"rank correlation of {what}", paper, made.mean("push", metric), low, high)
        for metric, (claim, what, paper, low, high) in wanted.items()
    ]
    ranges = {
        "nodes": (MORE_NODES, "grows", 2.0, math.inf),
        "duration": (DURATION, "little or none", 0.5, 2.0),
        "area": (AREA, "generally higher", ABOVE, math.inf),
    }
    for kind, (least, below) in ENDS.items():
        claim, paper, low, high = ranges[kind]
        what = f"median waiting, {least:g} {UNITS[kind]} and more / below {below:g}"
        rows.append(judge(claim, what, paper, made.mean("push", f"{kind} ends"), low, high))
    found = made.mean("push", "prompt")
    what = "large jobs that start without delay"
    rows.append(judge(AT_ONCE, what, "some", found, 1e-9, 100.0, unit="%"))
    rows.append(Row(AT_ONCE, "all jobs that do", "", made.mean("push", "prompt all"), "%"))
    grids = []
    for kind, edges in CLASSES.items():
        cells = {_label(kind, k): [shown(made.mean("push", f"{kind} {k}"))] for k in range(len(edges) - 1)}
        grids.append(Grid(f"Median waiting by {kind}", [LABELS[kind], "waiting (s)"], cells))
    result = simulate(jobs(how.seeds[0]), SCHEDULERS["push"])
    data: dict[str, Any] = {"time": over_time(result)}
    data |= {kind: (by(result, kind), result.applications["waiting"]) for kind in CLASSES}
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


def _label(kind: str, number: int) -> str:
    low, high = CLASSES[kind][number : number + 2]
    return f"{low:g} and more" if high >= 1e9 else f"{low:g} to less than {high:g}"


_REMARKS = (
    "Waiting is until the start; no job starts before the next slot of 60 s, after the messages of a search: "
    f"without delay is within {PROMPT:g} s.",
    f"Large jobs: the {LARGE:.0%} with the largest area (nodes * duration).",
    'The paper shows medians.  "Strong" is taken as a rank correlation of 0.3 and more, "little or none" as '
    "within 0.1 of 0, or as medians within a factor of 2.  Most jobs wait for no more than the next slot, "
    "whatever they are like, which makes rank correlations small.",
)


def figure(report: Report) -> Figure:
    """Draw the waiting of the first seed: over time, and of each job over nodes, duration and area."""
    from gridsim import plots

    made, panels = plots.figure(4, width=4.0)
    edges, eu, waiting = report.data["time"]
    panels[0].step(edges[:-1] / DAY, waiting / 3600.0, where="post", color=plots.COLOURS[0], label="waiting")
    panels[0].set_xlabel("submission (days)")
    panels[0].set_ylabel("mean waiting (h)")
    right = panels[0].twinx()
    right.step(edges[:-1] / DAY, 100.0 * eu, where="post", color=plots.COLOURS[1], linewidth=1)
    right.set_ylabel("EU (%)", color=plots.COLOURS[1])
    for axes, kind in zip(panels[1:], CLASSES, strict=True):
        values, waited = report.data[kind]
        axes.scatter(values, np.maximum(waited, 1.0), s=1, color=plots.COLOURS[5])
        found = waiting_by_class(values, waited, np.array(CLASSES[kind]))
        some = found.jobs > 0
        at = [max(float(v), float(values.min())) for v in found.low[some]]
        axes.plot(at, found.median[some], color=plots.COLOURS[0], marker="o", markersize=3, label="median")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(LABELS[kind])
        axes.set_ylabel("waiting (s)")
        plots.legend(axes, place="upper left")
    for axes in panels:
        axes.grid(alpha=0.3)
    return made
