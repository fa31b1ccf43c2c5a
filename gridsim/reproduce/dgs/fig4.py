"""Vasilakos, Sacha and Pierre, Figure 4: request utilization and effective utilization over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gridsim.reproduce.dgs.common import DAY, HIGH, LOW, about_jobs, jobs_of, shown, span
from gridsim.reproduce.framework import Grid, Report, Row, Run, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.metrics.rigid import effective_series, intervals, request_series
from gridsim.results.result import Result
from gridsim.schedulers import DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "dgs-fig4"
TITLE = "request utilization and effective utilization over time"
OVERLAP = "below 60 % request utilization and effective utilization nearly overlap"
OVERBOOKED = "during overbooked periods effective utilization is about 90 % and more"
AFTER = "after the last submission effective utilization stays positive for several days"
CLAIMS = (OVERLAP, OVERBOOKED, AFTER)
SEEDS = (10, 5)

JOBS, PROFILE = 6000, "wagap2013"
SCHEDULERS: dict[str, Scheduler] = {"push": DgsAsap(estimate="run")}
#: Number of intervals into which the time of submissions is divided.
PARTS = 40
#: Utilization below which the curves should overlap, and from which on the grid counts as overbooked.
CALM, FULL = 0.6, 1.0
#: Number of days that counts as several.
SEVERAL = 2.0


class Curves(NamedTuple):
    """RU and EU in equal intervals, and EU as it would be if each job started when it is submitted (`ideal`).

    Parameters
    ----------
    edges
        S since the first submission.
    submissions
        Number of intervals that begin before the last submission.
    """

    edges: Floats
    ru: Floats
    eu: Floats
    ideal: Floats
    submissions: int


def curves(result: Result) -> Curves:
    """Return the curves of RU and EU of a run."""
    jobs, machines = result.applications, len(result.machines)
    first, length = float(jobs["release"].min()), span(result) / PARTS
    release = jobs["release"] - first
    latest = max(float(np.nanmax(jobs["finish"])) - first, float((release + jobs["run_time"]).max()))
    edges = intervals(0.0, latest, length)
    return Curves(
        edges,
        request_series(edges, release, jobs["tasks"], jobs["run_time"], machines),
        effective_series(edges, jobs["first_start"] - first, jobs["finish"] - first, jobs["tasks"], machines),
        effective_series(edges, release, release + jobs["run_time"], jobs["tasks"], machines),
        PARTS,
    )


def distance(result: Result) -> float:
    """Mean distance of EU from EU without waiting, where the latter is below 60 %, % points."""
    made = curves(result)
    calm = made.ideal < CALM
    calm[made.submissions :] = False
    return 100.0 * float(np.abs(made.eu - made.ideal)[calm].mean()) if calm.any() else math.nan


def overbooked(result: Result) -> float:
    """Mean EU of the intervals in which EU without waiting is 100 % or more, %; NaN if there are none."""
    made = curves(result)
    full = made.ideal >= FULL
    return 100.0 * float(made.eu[full].mean()) if full.any() else math.nan


def peak(result: Result) -> float:
    """Largest EU of an interval, %."""
    return 100.0 * float(curves(result).eu.max())


def average(result: Result) -> float:
    """Mean EU from the first to the last submission, %."""
    made = curves(result)
    return 100.0 * float(made.eu[: made.submissions].mean())


def calm_peak(result: Result) -> float:
    """Largest EU of an interval if no job had to wait, %."""
    return 100.0 * float(curves(result).ideal.max())


def busiest(result: Result) -> float:
    """Largest RU of an interval, %."""
    return 100.0 * float(curves(result).ru.max())


def after(result: Result) -> float:
    """Time from the last submission until the last job ends, days."""
    return (result.makespan - span(result)) / DAY


def postponed(result: Result) -> float:
    """Time from the last submission until the last job starts, hours."""
    jobs = result.applications
    return (float(np.nanmax(jobs["first_start"])) - float(jobs["release"].max())) / 3600.0


METRICS: dict[str, MetricFunction] = {
    "distance": distance,
    "overbooked": overbooked,
    "peak": peak,
    "average": average,
    "ideal": calm_peak,
    "busiest": busiest,
    "after": after,
    "postponed": postponed,
    "span": span,
}


def run(how: Run) -> Report:
    """Run both loads; the curves are those of the first seed."""
    rows: list[Row] = []
    cells, data = {}, {}
    columns = {
        "busiest": "largest RU (%)",
        "ideal": "largest EU without waiting (%)",
        "peak": "largest EU (%)",
        "average": "EU of the time of submissions (%)",
        "span": "D (s)",
    }
    for load in (LOW, HIGH):
        jobs = jobs_of(how, JOBS, load, PROFILE)
        made = how.replicate(jobs, SCHEDULERS, METRICS)
        case = f"RU {load:g}"
        found = made.mean("push", "distance")
        what = f"{case}: distance of EU from that without waiting, below 60 %"
        rows.append(judge(OVERLAP, what, "nearly none", found, 0.0, 1.0, unit="% points"))
        if load == HIGH:
            values = made["overbooked"]["push"]
            full = values[np.isfinite(values)]
            what = f"{case}: EU where it would be 100 % or more without waiting"
            why = f"so in {len(full)} of {len(values)} seeds"
            measured = estimate(full) if len(full) else None
            rows.append(judge(OVERBOOKED, what, "about 90", measured, 85.0, 100.0, unit="%", why=why))
            found = made.mean("push", "peak")
            rows.append(judge(OVERBOOKED, f"{case}: largest EU", "> 90", found, 90.0, 100.0, unit="%"))
        found, what = made.mean("push", "after"), f"{case}: EU positive after the last submission"
        if load == HIGH:
            rows.append(judge(AFTER, what, "several", found, SEVERAL, math.inf, unit="days"))
        else:
            rows.append(Row(AFTER, what, "shorter", found, "days"))
        found = made.mean("push", "postponed")
        rows.append(Row(AFTER, f"{case}: jobs start after the last submission", "", found, "h"))
        cells[case] = [shown(made.mean("push", metric)) for metric in columns]
        data[case] = curves(simulate(jobs(how.seeds[0]), SCHEDULERS["push"]))
    grids = [Grid("Utilization", ["", *columns.values()], cells), _OWN]
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


_SHRUNK = 2.7 * LOW / HIGH
_OWN = Grid(
    "The paper's own numbers",
    ["relation", "value"],
    {
        "2.7 months at 28 %, compressed to 95 %": [f"{_SHRUNK:.3f} months; printed 0.78"],
        "RU of 0.78 months": [f"{100 * 2.7 * LOW / 0.78:.1f} %"],
    },
)
_REMARKS = (
    f"Intervals are a {PARTS}th of the time of submissions.  RU counts the whole of a job in the interval of "
    "its submission; jobs that last longer make EU later.  So EU is compared with what it would be if each "
    "job started when it is submitted.",
    f'"Several days" is taken as {SEVERAL:g} and more.',
    "EU counts the time in which nodes run jobs, not what is left of their last slots.",
)


def figure(report: Report) -> Figure:
    """Draw RU and EU over time with the jobs of the first seed, a panel per load."""
    from gridsim import plots

    made, panels = plots.figure(len(report.data))
    for axes, (case, found) in zip(panels, report.data.items(), strict=True):
        days = found.edges[:-1] / DAY
        for number, name, values in (
            (1, "RU", found.ru),
            (4, "EU without waiting", found.ideal),
            (0, "EU", found.eu),
        ):
            axes.step(days, 100.0 * values, where="post", color=plots.COLOURS[number], label=name)
        axes.axvline(found.edges[found.submissions] / DAY, color="black", linestyle=":", linewidth=1)
        axes.set_xlim(0.0, min(2.0 * found.edges[found.submissions], found.edges[-1]) / DAY)
        axes.set_title(case)
        axes.set_xlabel("days")
        axes.set_ylabel("utilization (%)")
        axes.grid(alpha=0.3)
    plots.shared_legend(made)
    return made
