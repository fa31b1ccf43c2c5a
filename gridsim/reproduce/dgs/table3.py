"""Vasilakos, Sacha and Pierre, Table III: waiting in static and dynamic overlays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridsim.reproduce.dgs.common import (
    HIGH,
    LOW,
    METRICS,
    OTHER_JOBS,
    about_jobs,
    jobs_of,
    means,
    prices,
)
from gridsim.reproduce.framework import Grid, Report, Row, Run, incomparable, judge, sign
from gridsim.results.metrics.estimates import estimate
from gridsim.schedulers import Asap, Backfill, DgsAsap
from gridsim.scheduling.contract import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dgs-table3"
TITLE = "waiting in static and dynamic overlays"
AS_IS = "waiting is 848 s in a static overlay and 936 s in a dynamic one, 10.38 % more"
COMPRESSED = "on the compressed trace it is 14,913 and 16,858 s, 13.04 % more"
CLAIMS = (AS_IS, COMPRESSED)
SEEDS = (10, 5)

STATIC, DYNAMIC, ASAP, EASY = "static", "dynamic", "asap", "backfill"
JOBS, PROFILE = 4000, "wagap2013"
#: Time between two exchanges of neighbours, s; the paper does not give it.
CYCLE = 3600.0
SCHEDULERS: dict[str, Scheduler] = {
    STATIC: DgsAsap(estimate="run"),
    DYNAMIC: DgsAsap(estimate="run", overlay="cyclon", cycle=CYCLE),
    ASAP: Asap(estimate="run"),
    EASY: Backfill(estimate="run"),
}
#: Load -> waiting in the static and the dynamic overlay, s, and their difference, % of the static one.
PAPER = {LOW: (848.0, 936.0, 10.38), HIGH: (14_913.0, 16_858.0, 13.04)}


def run(how: Run) -> Report:
    """Run both overlays and the centralized schedulers at both loads."""
    made = {
        f"RU {load:g}": how.replicate(jobs_of(how, JOBS, load, PROFILE), SCHEDULERS, METRICS)
        for load in PAPER
    }
    rows: list[Row] = []
    for claim, (case, each), (static, dynamic, percent) in zip(
        CLAIMS, made.items(), PAPER.values(), strict=True
    ):
        for name, paper in ((STATIC, static), (DYNAMIC, dynamic)):
            what, found = f"{case}: waiting, {name}", each.mean(name, "waiting")
            rows.append(incomparable(claim, what, f"{paper:g}", found, OTHER_JOBS, unit="s"))
        apart = each["waiting"][DYNAMIC] - each["waiting"][STATIC]
        what = f"{case}: dynamic - static"
        rows.append(sign(claim, what, f"{dynamic - static:g}", apart, unit="s"))
        more = estimate(100.0 * apart / each["waiting"][STATIC])
        rows.append(judge(claim, what, f"{percent:g}", more, 5.0, 20.0, unit="% of static"))
    columns = {
        "refused": "first commit refused (%)",
        "searched": "searches per job",
        "opened": "m, neighbours opened",
        "cancelled": "cancelled nodes per job",
        "schedules": "schedules pushed",
    }
    grids = [
        means("The two overlays", made, (STATIC, DYNAMIC), columns),
        prices("Price of decentralization", made, STATIC, {ASAP: "Asap", EASY: "EASY backfilling"}),
        _OWN,
    ]
    data = {case: [each.mean(name, "waiting") for name in (STATIC, DYNAMIC)] for case, each in made.items()}
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


def _own() -> Grid:
    """Return a table of relations between the paper's own numbers."""
    rows = {
        f"RU {load:g}": [
            f"{dynamic - static:g} s = {(dynamic - static) / 60:.2f} min",
            f"{100 * (dynamic - static) / static:.2f} % of static, "
            f"{100 * (dynamic - static) / dynamic:.2f} % of dynamic",
            f"{percent:g} %",
        ]
        for load, (static, dynamic, percent) in PAPER.items()
    }
    return Grid("The paper's own numbers", ["load", "difference", "relative", "printed"], rows)


_OWN = _own()
_REMARKS = (
    "A difference whose sign is not the same in all seeds is not robust.",
    f"Dynamic: CYCLON, every node exchanges 8 neighbours each {CYCLE:g} s.  The paper gives no period.",
    "Asap starts each job as soon as the whole grid can, in the order of submission, and for good.  It is "
    "not a lower bound: a job that is placed later, on fewer candidates, can leave better gaps to others.",
)


def figure(report: Report) -> Figure:
    """Draw bars of waiting in both overlays with the printed ones, a panel per load."""
    from gridsim import plots

    made, panels = plots.figure(len(PAPER))
    for axes, (case, measured), printed in zip(panels, report.data.items(), PAPER.values(), strict=True):
        beside = [None if report.quick else paper for paper in printed[:2]]
        plots.bars([STATIC, DYNAMIC], measured, beside, axes=axes)
        axes.set_title(f"{case}: mean waiting (s)")
    return made
