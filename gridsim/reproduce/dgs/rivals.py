"""The rivals that the paper on DGS_ASAP names, on its scenario: Zorilla's flooding, and a metascheduler over
sites; with the search of the whole grid (`Asap`) and EASY, which know everything and send nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np

import gridsim as gs
from gridsim.reproduce.dgs.common import HIGH, LOW, PLACED_REMARK, about_jobs, jobs_at_loads, never, waiting
from gridsim.reproduce.dgs.utilization import average
from gridsim.reproduce.framework import (
    Measurements,
    MetricTable,
    Reproduction,
    ResultGrid,
    lines,
)
from gridsim.reproduce.verdicts import LARGER, POSITIVE, Row, exact, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.simulation.simulate import execute as simulate

FLOODING_COST = (
    "the flooding algorithm generates a high number of messages, which makes Zorilla rather expensive"
)
GROWING = "the number of messages of a flood grows exponentially with the search horizon"
DELAYS = "if a node of Zorilla is not able to find resources available immediately, it delays the job"

#: Effectively no limit, s: a rejected job would not count in the mean waiting time.
NO_LIMIT = 1e8

DGS, ZORILLA, META = "DGS_ASAP", "Zorilla", "metascheduler"
MOVING, BLIND, STALE = f"{META}, moving", f"{META}, counting nothing", f"{META}, asking hourly"
ASAP, EASY = "Asap", "EASY"
SCHEDULERS: dict[str, gs.Scheduler] = {
    DGS: gs.DgsAsap(estimate="run"),
    ZORILLA: gs.Zorilla(longest=600.0, lifetime=NO_LIMIT),
    META: gs.Metascheduler(estimate="run"),
    MOVING: gs.Metascheduler(estimate="run", suspension=900.0),
    BLIND: gs.Metascheduler(estimate="run", count_sent=False),
    STALE: gs.Metascheduler(estimate="run", period=3600.0),
    ASAP: gs.Asap(estimate="run"),
    EASY: gs.BatchQueue(estimate="run"),
}
#: Kinds of messages that are sent even if no job arrives.
UPKEEP = ("poll", "report")
#: Numbers of hops of the floods whose messages are counted, number of nodes, and hops of the longest flood.
HOPS, FLOOD_NODES = (1, 2, 3, 4, 5), 5000
FARTHEST = 15


# -- metrics --------------------------------------------------------------------------------------------


def messages(result: gs.Result) -> float:
    """Return the messages per job without upkeep, plus the schedules that DGS_ASAP exchanges."""
    sent = float(result.messages["sent"][~np.isin(result.messages["kind"], UPKEEP)].sum())
    if "exchanges" in result.tables:
        sent += float(result.tables["exchanges"]["schedules"].sum())
    return sent / len(result.applications)


def upkeep(result: gs.Result) -> float:
    """Return the messages per job that are sent even if no job arrives."""
    return float(result.messages["sent"][np.isin(result.messages["kind"], UPKEEP)].sum()) / len(
        result.applications
    )


def wide_waiting(result: gs.Result) -> float:
    """Return the mean waiting time of the tenth of the jobs with the most nodes, s."""
    table = result.applications
    widest = table["tasks"] >= np.quantile(table["tasks"], 0.9)
    return float(np.nanmean(table["waiting"][widest]))


def prompt(result: gs.Result) -> float:
    """Return the share of jobs that start within `PROMPT`, %: the next slot plus the time of messages."""
    return 100.0 * float((result.applications["waiting"] <= 66.0).mean())


METRICS: dict[str, MetricFunction] = {
    "waiting": waiting,
    "wide": wide_waiting,
    "prompt": prompt,
    "average": average,
    "messages": messages,
    "upkeep": upkeep,
    "never": never,
}
COLUMNS = {
    "waiting": "mean waiting (s)",
    "wide": "of the widest tenth (s)",
    "prompt": "at once (%)",
    "average": "utilization (%)",
    "messages": "messages per job",
    "upkeep": "upkeep per job",
    "never": "never placed (%)",
}


def _rows(data: Measurements) -> Iterator[Row]:
    for case, values in data.items():
        quantity = f"{case}: messages per job, {ZORILLA} / {DGS}"
        yield judge(FLOODING_COST, quantity, values.mean_ratio(ZORILLA, DGS, "messages"), LARGER)
        for metric, label in (("waiting", "mean waiting"), ("wide", "waiting of the widest tenth")):
            more = values.difference(ZORILLA, DGS, metric)
            yield judge(DELAYS, f"{case}: {label}, {ZORILLA} - {DGS}", more, POSITIVE, unit="s")
        for name in (META, MOVING, EASY):
            more = values.difference(name, DGS, "waiting")
            yield judge("", f"{case}: mean waiting, {name} - {DGS}", more, unit="s")
    sent = floods(repeats=True)
    for a, b in pairwise(sent):
        growth = sent[b] / sent[a]
        quantity = f"messages of a flood where each copy is passed on, {b} hops over {a}"
        reason = f"{growth:.3g}, 8 neighbours a node; wanted 6..9"
        yield exact(GROWING, quantity, "a constant above 1", 6.0 <= growth <= 9.0, reason)
    count = estimate([unreached_nodes(seed) for seed in data.run.seeds])
    yield judge("", f"nodes that a flood of {FARTHEST} hops does not reach, of {FLOOD_NODES}", count)


# -- the messages of a flood ----------------------------------------------------------------------------


def floods(repeats: bool) -> dict[int, int]:
    """Return number of hops -> number of messages of one flood on `FLOOD_NODES` nodes.

    Parameters
    ----------
    repeats
        Whether nodes forward every copy of a message that they receive.
    """
    return {hops: _flood(1, FLOOD_NODES, hops, repeats)["advert"] for hops in HOPS}


def unreached_nodes(seed: int) -> int:
    """Return how many of the nodes, all idle, a flood of `FARTHEST` hops does not reach."""
    return FLOOD_NODES - 1 - _flood(seed, FLOOD_NODES, FARTHEST, repeats=False)["offer"]


@cache
def _flood(seed: int, nodes: int, hops: int, repeats: bool) -> dict[str, int]:
    """Return kind -> number of messages of one flood on idle nodes."""
    workload = gs.Workload.jobs_of([0.0], [1], [1.0], submitter=[0])
    scenario = gs.Scenario(gs.Platform.equal(nodes), workload, gs.Network(interfaces="equal"), seed)
    result = simulate(scenario, gs.Zorilla(first=hops, max_hops=hops, repeats=repeats))
    return dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    yield MetricTable("Waiting, utilization, messages", COLUMNS).grid(data)
    rows = {
        "only the first copy is passed on": list(map(str, floods(repeats=False).values())),
        "each copy is passed on": list(map(str, floods(repeats=True).values())),
    }
    title, columns = f"Messages of one flood, {FLOOD_NODES} nodes", [f"{hops} hops" for hops in HOPS]
    yield ResultGrid(title, ["", *columns], rows)


REMARKS = (
    "Of the paper's claims about its rivals; it measured none of them.",
    f"{ZORILLA}: pauses of at most 600 s, and no job is rejected.  Messages of {DGS} are its own and the "
    "schedules that nodes exchange, which the paper counts; upkeep is that of the metascheduler, which asks "
    "for reports whether or not a job comes.",
    "Ten sites; moving: a job that has waited for 900 s goes to another site.",
    "No flood reaches a node that is nobody's neighbour.  Each node draws 8 of the others, so that none "
    "draws a certain one with a probability of about exp(-8), 0.034 %.",
    PLACED_REMARK,
)

COALLOCATION = Reproduction(
    name="coallocation",
    title="rivals of DGS_ASAP: flooding (Zorilla), a metascheduler over sites, and central schedulers",
    paper="Vasilakos, Sacha and Pierre, on related work",
    claims=(FLOODING_COST, GROWING, DELAYS),
    files="job log",
    cases=jobs_at_loads,
    schedulers=SCHEDULERS,
    metrics=METRICS,
    rows=_rows,
    grids=_grids,
    remarks=lambda data: (*about_jobs(data.run, "wagap2013"), *REMARKS),
    figure=lines(
        ([LOW, HIGH], [LOW, HIGH]),
        {COLUMNS[metric]: metric for metric in ("waiting", "average")},
        {"xlabel": "request utilization"},
        name_as="ylabel",
    ),
)
