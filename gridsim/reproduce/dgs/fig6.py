"""Vasilakos, Sacha and Pierre, Figure 6: schedules exchanged by push and pull over time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.reproduce.dgs.common import DAY, HIGH, METRICS, Jobs, about_jobs, jobs_of, shown
from gridsim.reproduce.framework import POSITIVE, Grid, Report, Row, Run, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.rigid import effective_series, intervals, rank_correlation, request_series
from gridsim.schedulers import DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "dgs-fig6"
TITLE = "schedules exchanged by push and pull over time"
CLOSE = "pull / push is close to one when the request utilization is low"
GROWS = "it grows significantly above one, even two orders of magnitude, when the utilization is high"
CHEAPER = "on average push costs over 10 times less"
CLAIMS = (CLOSE, GROWS, CHEAPER)
SEEDS = (10, 5)

JOBS, PROFILE = 3000, "wagap2013"
PARTS = 6
PUSH, PULL = "push", "pull"
SCHEDULERS: dict[str, Scheduler] = {
    PUSH: DgsAsap(estimate="run"),
    PULL: DgsAsap(estimate="run", policy="pull"),
}


def run(how: Run) -> Report:
    """Run the jobs of the first sixth of the time, of the first two sixths, and so on, and compare the runs.

    Later jobs do not change what happened before them.  So the schedules that a further sixth adds are those
    exchanged for that sixth.
    """
    jobs = jobs_of(how, JOBS, HIGH, PROFILE)
    made = [how.replicate(replace(jobs, part=(k, PARTS)), SCHEDULERS, METRICS) for k in range(1, PARTS)]
    made.append(how.replicate(jobs, SCHEDULERS, METRICS))
    costs = {name: _added([each["schedules"][name] for each in made]) for name in SCHEDULERS}
    kept = _added([each["jobs"][PUSH] * each["nodes"][PUSH] for each in made])
    told = kept + 2.0 * _added([each["jobs"][PUSH] * each["cancelled"][PUSH] for each in made])
    with np.errstate(all="ignore"):
        ratios = {
            "pull / push": costs[PULL] / costs[PUSH],
            "pull / push, cancelled nodes left out": costs[PULL] / (costs[PUSH] * kept / told),
        }
    loads = np.stack([np.stack(_loads(jobs, seed)) for seed in how.seeds], axis=2)
    ru, used = loads[0], loads[1]
    rows: list[Row] = []
    for case, each in ratios.items():
        least, most = _at(each, used, np.argmin), _at(each, used, np.argmax)
        total = costs[PULL].sum(axis=0) / np.nansum(costs[PULL] / each, axis=0)
        rows += [
            judge(CLOSE, f"{case}, sixth of the lowest load", "close to 1", least, 0.5, 2.0),
            judge(GROWS, f"{case}, sixth of the highest load", "up to 100", most, 2.0, 200.0),
            judge(CHEAPER, f"{case}, whole", "> 10", estimate(total), 10.0, math.inf),
        ]
        for what, load in (("RU", ru), ("nodes in use", used)):
            found = estimate([_correlation(each[:, i], load[:, i]) for i in range(each.shape[1])])
            rows.append(judge(GROWS, f"{case}: rank correlation with {what}", "> 0", found, POSITIVE, 1.0))
    cells = {
        f"sixth {k + 1}": [
            shown(estimate(100.0 * ru[k])),
            shown(estimate(100.0 * used[k])),
            *(shown(estimate(costs[name][k])) for name in SCHEDULERS),
            *(shown(estimate(each[k])) for each in ratios.values()),
        ]
        for k in range(PARTS)
    }
    columns = ["", "RU (%)", "nodes in use (%)", "schedules, push", "schedules, pull", *ratios]
    grids = [Grid("By sixths of the time of submissions", columns, cells)]
    data = {
        "days": (np.arange(PARTS) + 0.5) / PARTS * made[-1]["span"][PUSH][0] / DAY,
        "costs": {name: each[:, 0] for name, each in costs.items()},
        "ratio": ratios["pull / push"][:, 0],
        "loads": {"RU": ru[:, 0], "nodes in use": used[:, 0]},
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


def _added(totals: list[Any]) -> Floats:
    """Return what each part adds to the totals up to its end, for each seed."""
    made: Floats = np.diff(np.stack(totals), axis=0, prepend=0.0)
    return made


def _loads(jobs: Jobs, seed: int) -> tuple[Floats, Floats]:
    """Return RU of each part, and the share of the nodes that would be in use if jobs started at once."""
    scenario = jobs(seed)
    given = scenario.workload.realize(scenario.platform)
    run_time = given.task_size / float(scenario.platform.speeds[0])
    end = float(given.release[-1])
    edges = intervals(0.0, end, end / PARTS * (1.0 + 1e-9))
    finish = given.release + run_time
    return (
        request_series(edges, given.release, given.tasks, run_time, jobs.nodes),
        effective_series(edges, given.release, finish, given.tasks, jobs.nodes),
    )


def _at(values: Floats, load: Floats, which: Any) -> Estimate:
    """Return `values` of the part with the least or most load in each seed, among parts with exchanges."""
    chosen = []
    for value, of in zip(values.T, load.T, strict=True):
        some = np.isfinite(value)
        chosen.append(value[some][which(of[some])])
    return estimate(chosen)


def _correlation(values: Floats, load: Floats) -> float:
    some = np.isfinite(values)
    return rank_correlation(values[some], load[some])


_REMARKS = (
    f"What a {PARTS}th of the time costs is told from runs of the jobs submitted until its beginning and "
    "until its end: what comes later changes nothing of what was before.",
    "Nodes in use: if each job started when it is submitted; a search opens neighbours when its own are in "
    "use.  RU counts the whole of a job in the sixth of its submission.",
    "Each cancelled node pushes twice, as it commits and as it is released.",
)


def figure(report: Report) -> Figure:
    """Draw schedules of push and pull, and the load, over time, each with the ratio; for the first seed."""
    from gridsim import plots

    made, panels = plots.figure(2)
    days = report.data["days"]
    for axes, title, series, scale in (
        (panels[0], "schedules exchanged", report.data["costs"], 1.0),
        (panels[1], "utilization (%)", report.data["loads"], 100.0),
    ):
        for number, (name, values) in enumerate(series.items()):
            axes.plot(
                days, scale * values, color=plots.COLOURS[number], marker=plots.MARKERS[number], label=name
            )
        axes.set_title(title)
        axes.set_xlabel("days")
        axes.grid(alpha=0.3)
        plots.legend(axes, place="upper left")
        right = axes.twinx()
        right.plot(days, report.data["ratio"], color=plots.COLOURS[6], linestyle=":", marker=".")
        right.set_ylabel("pull / push")
    panels[0].set_yscale("log")
    return made
