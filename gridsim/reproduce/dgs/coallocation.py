"""The rivals that the paper on DGS_ASAP names, on its scenario: Zorilla's flooding, and a metascheduler over
sites; with the search of the whole grid (`Asap`) and EASY, which know everything and send nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.dgs import fig4 as dgs_fig4
from gridsim.reproduce.dgs.common import AMONG, HIGH, LOW, Jobs, about_jobs, means, never, waiting
from gridsim.reproduce.framework import ABOVE, POSITIVE, Grid, Report, Row, Run, exact, judge, panels
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import Asap, Backfill, DgsAsap, Metascheduler, Zorilla
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "coallocation"
TITLE = "rivals of DGS_ASAP: flooding (Zorilla), a metascheduler over sites, and central schedulers"
DEAR = "the flooding algorithm generates a high number of messages, which makes Zorilla rather expensive"
GROWING = "the number of messages of a flood grows exponentially with the search horizon"
DELAYED = "if a node of Zorilla is not able to find resources available immediately, it delays the job"
CLAIMS = (DEAR, GROWING, DELAYED)
SEEDS = (10, 5)

#: Nodes and jobs, in full and in small; the paper has 5000 nodes, where each flood costs 25 times as much.
NODES, SMALL = 200, 100
JOBS, FEW_JOBS = 300, 60
PROFILE = "wagap2013"
#: Nodes that a drawn job wants at most, as a share of all: the paper has 420 of 5000.
WIDEST = 0.1
#: As long as no limit: a job that is given up would not count in the mean waiting.
_EVER = 1e8

DGS, ZORILLA, META = "DGS_ASAP", "Zorilla", "metascheduler"
MOVING, BLIND, STALE = f"{META}, moving", f"{META}, counting nothing", f"{META}, asking hourly"
ASAP, EASY = "Asap", "EASY"
SCHEDULERS: dict[str, Scheduler] = {
    DGS: DgsAsap(estimate="run"),
    ZORILLA: Zorilla(longest=600.0, lifetime=_EVER),
    META: Metascheduler(estimate="run"),
    MOVING: Metascheduler(estimate="run", suspension=900.0),
    BLIND: Metascheduler(estimate="run", count_sent=False),
    STALE: Metascheduler(estimate="run", period=3600.0),
    ASAP: Asap(estimate="run"),
    EASY: Backfill(estimate="run"),
}
#: Kinds of messages that are sent whether or not a job comes.
UPKEEP = ("poll", "report")
#: Hops of the floods whose messages are counted, on so many nodes; and of a flood that goes on to its end.
HOPS, FLOODED = (1, 2, 3, 4, 5), 5000
FARTHEST = 15


# -- what is measured -----------------------------------------------------------------------------------


def messages(result: Result) -> float:
    """Messages per job: all but upkeep, and the schedules that DGS_ASAP exchanges, its cost in the paper."""
    sent = float(result.messages["sent"][~np.isin(result.messages["kind"], UPKEEP)].sum())
    if "exchanges" in result.tables:
        sent += float(result.tables["exchanges"]["schedules"].sum())
    return sent / len(result.applications)


def upkeep(result: Result) -> float:
    """Messages per job that are sent whether or not a job comes."""
    return float(result.messages["sent"][np.isin(result.messages["kind"], UPKEEP)].sum()) / len(
        result.applications
    )


def wide_waiting(result: Result) -> float:
    """Mean waiting of the tenth of the jobs that want the most nodes, s."""
    table = result.applications
    widest = table["tasks"] >= np.quantile(table["tasks"], 0.9)
    return float(np.nanmean(table["waiting"][widest]))


def prompt(result: Result) -> float:
    """Jobs that start within a minute and a bit, %: at once, but for messages and slots."""
    return 100.0 * float((result.applications["waiting"] <= 66.0).mean())


METRICS: dict[str, MetricFunction] = {
    "waiting": waiting,
    "wide": wide_waiting,
    "prompt": prompt,
    "average": dgs_fig4.METRICS["average"],
    "messages": messages,
    "upkeep": upkeep,
    "never": never,
}
SAID = {
    "waiting": "mean waiting (s)",
    "wide": "of the widest tenth (s)",
    "prompt": "at once (%)",
    "average": "utilization (%)",
    "messages": "messages per job",
    "upkeep": "upkeep per job",
    "never": "never placed (%)",
}


def run(how: Run) -> Report:
    """Run all schedulers at both loads, and count the messages of single floods."""
    jobs = Jobs(NODES, JOBS, LOW, PROFILE, how.log, round(WIDEST * NODES))
    if how.quick:
        jobs = replace(jobs, nodes=SMALL, jobs=FEW_JOBS, widest=round(WIDEST * SMALL))
    made = {
        f"RU {load:g}": how.replicate(replace(jobs, load=load), SCHEDULERS, METRICS) for load in (LOW, HIGH)
    }
    rows = [row for case, each in made.items() for row in _claims(case, each)]
    counted = {repeats: floods(repeats) for repeats in (False, True)}
    rows += _growth(counted[True])
    missed = estimate([unreached(seed) for seed in how.seeds])
    rows.append(Row("", f"nodes that a flood of {FARTHEST} hops does not reach, of {FLOODED}", "", missed))
    grids = [
        means("Waiting, utilization, messages", made, list(SCHEDULERS), SAID),
        _flood_table(counted),
    ]
    data = {
        "loads": [LOW, HIGH],
        "series": {
            SAID[metric]: {name: [each.mean(name, metric) for each in made.values()] for name in SCHEDULERS}
            for metric in ("waiting", "average")
        },
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE), *_REMARKS), data)


def _claims(case: str, made: Replicates) -> list[Row]:
    ratio = made.ratio(ZORILLA, DGS, "messages")
    rows = [judge(DEAR, f"{case}: messages per job, {ZORILLA} / {DGS}", "> 1", ratio, ABOVE, math.inf)]
    for metric, what in (("waiting", "mean waiting"), ("wide", "waiting of the widest tenth")):
        more = made.difference(ZORILLA, DGS, metric)
        quantity = f"{case}: {what}, {ZORILLA} - {DGS}"
        rows.append(judge(DELAYED, quantity, "> 0", more, POSITIVE, math.inf, unit="s"))
    for name in (META, MOVING, EASY):
        more = made.difference(name, DGS, "waiting")
        rows.append(Row("", f"{case}: mean waiting, {name} - {DGS}", "", more, "s"))
    return rows


# -- the messages of a flood --------------------------------------------------------------------------------


def floods(repeats: bool) -> dict[int, int]:
    """Return hops -> messages of one flood that goes so far, on `FLOODED` nodes.

    Parameters
    ----------
    repeats
        Whether nodes pass on each copy.
    """
    return {hops: _flood(1, hops, repeats)["advert"] for hops in HOPS}


def unreached(seed: int) -> int:
    """Return how many of `FLOODED` nodes, all idle, do not offer themselves to a flood of `FARTHEST` hops."""
    return FLOODED - 1 - _flood(seed, FARTHEST, repeats=False)["offer"]


def _flood(seed: int, hops: int, repeats: bool) -> dict[str, int]:
    """Return kind -> messages of one flood on `FLOODED` idle nodes."""
    workload = Workload.jobs_of([0.0], [1], [1.0], submitter=[0])
    scenario = Scenario(Platform.equal(FLOODED), workload, Network(interfaces="equal"), seed)
    result = simulate(scenario, Zorilla(first=hops, max_hops=hops, repeats=repeats))
    return dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))


def _growth(sent: Mapping[int, int]) -> list[Row]:
    hops = list(sent)
    return [
        exact(
            GROWING,
            f"messages of a flood where each copy is passed on, {b} hops over {a}",
            "a constant above 1",
            6.0 <= sent[b] / sent[a] <= 9.0,
            f"{sent[b] / sent[a]:.3g}, 8 neighbours a node; wanted 6..9",
        )
        for a, b in zip(hops, hops[1:], strict=False)
    ]


def _flood_table(counted: Mapping[bool, Mapping[int, int]]) -> Grid:
    rows = {
        "only the first copy is passed on": [str(counted[False][hops]) for hops in HOPS],
        "each copy is passed on": [str(counted[True][hops]) for hops in HOPS],
    }
    return Grid(f"Messages of one flood, {FLOODED} nodes", ["", *(f"{hops} hops" for hops in HOPS)], rows)


_REMARKS = (
    "Of the paper's claims about its rivals; it measured none of them.",
    f"{ZORILLA}: pauses of at most 600 s, and no job is given up.  Messages of {DGS} are its own and the "
    "schedules that nodes exchange, which the paper counts; upkeep is that of the metascheduler, which asks "
    "for reports whether or not a job comes.",
    "Ten sites; moving: a job that has waited for 900 s goes to another site.",
    "No flood reaches a node that is nobody's neighbour.  Each node draws 8 of the others, so that none "
    "draws a certain one with a probability of about exp(-8), 0.034 %.",
    AMONG,
)


def figure(report: Report) -> Figure:
    """Draw a panel per metric, over the load."""
    data = report.data
    return panels(data["series"], data["loads"], {"xlabel": "request utilization"}, named="ylabel")
