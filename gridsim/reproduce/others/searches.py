"""Four search methods for idle hosts under light, medium and heavy load, as compared by D. Zhou and V. Lo,
"Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer system" (2004)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import (
    CaseTable,
    Check,
    Measurements,
    Reproduction,
    Run,
    lines,
    ratio,
    rows_of,
)
from gridsim.reproduce.verdicts import LARGER, SMALLER, Row
from gridsim.results.metrics.registry import MetricFunction

LIGHT = "the rendezvous point search performs best under light workloads"
HEAVY = "under heavy workloads its performance falls below the other techniques"

#: Numbers of nodes and of applications of the full and the quick run.
NODES, APPLICATIONS = (300, 40), (300, 30)
#: Offered load: the share of machine time that the work takes.
LOADS = {"light": 0.1, "medium": 0.5, "heavy": 0.9}
#: Mean number of tasks of a bag, and task size, Mflop: 600 s at the mean speed.
TASKS, SIZE = 20.0, 1.2e6

RENDEZVOUS = "rendezvous"
METHODS: dict[str, gs.Scheduler] = {
    "expanding ring": gs.ExpandingRing(max_hops=4),
    "random walk": gs.RandomWalkSearch(),
    "advertisement": gs.Advertisement(),
    RENDEZVOUS: gs.Rendezvous(),
    "rendezvous, never refreshed": gs.Rendezvous(refresh=math.inf),
    "rendezvous, any host": gs.Rendezvous(pick="random"),
}
#: Rendezvous which, like the other methods, ignores how long hosts have been free.
ANY_HOST = "rendezvous, any host"
COMPARED_METHODS = tuple(METHODS)[:3]
#: Kinds of messages that are sent even without searches.
UPKEEP = ("hello", "profile", "beacon", "where", "known", "advert", "noted")


@dataclass(frozen=True)
class BagsAtLoad:
    """Factory of scenarios of bags: ``BagsAtLoad("light", 300, 300)(seed)``."""

    load: str
    nodes: int
    applications: int

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``light-300``."""
        return f"{self.load}-{self.nodes}"

    def __call__(self, seed: int) -> gs.Scenario:
        platform = gs.Platform.desktop_grid(self.nodes, seed)
        gap = TASKS * SIZE / (LOADS[self.load] * platform.aggregate_speed)
        workload = gs.Workload.bags(
            self.applications, gap, variation=0.5, task_size=SIZE, seed=seed, tasks=TASKS
        )
        return gs.Scenario(platform, workload, seed=seed)


# -- metrics ----------------------------------------------------------------------------------------------


def _is_remote(result: gs.Result) -> Any:
    """Return the mask of the rows with found hosts other than the client's machine: bool[rows]."""
    hosts = result.tables["hosts"]
    return hosts["client"] != hosts["host"]


def messages_per_host(result: gs.Result) -> float:
    """Return the number of messages per found host."""
    return _per_host(result.messages["sent"].sum(), result)


def search_messages_per_host(result: gs.Result) -> float:
    """Return the number of messages per found host, without messages that are sent even without searches."""
    return _per_host(result.messages["sent"][~np.isin(result.messages["kind"], UPKEEP)].sum(), result)


def _per_host(messages: Any, result: gs.Result) -> float:
    hosts = int(_is_remote(result).sum())
    return float(messages) / hosts if hosts else math.nan


def time_to_find(result: gs.Result) -> float:
    """Return the mean time from a task's need for a host until the client has found one, s."""
    hosts, remote = result.tables["hosts"], _is_remote(result)
    return float((hosts["found"] - hosts["needed"])[remote].mean()) if remote.any() else math.nan


def turnaround(result: gs.Result) -> float:
    """Return the mean time from the release of a bag until its last task ends, s."""
    return float(result.mean_completion)


def short_searches(result: gs.Result) -> float:
    """Return the share of searches that found fewer hosts than requested, %."""
    searches = result.tables["searches"]
    return 100 * float((searches["found"] < searches["wanted"]).mean()) if len(searches) else math.nan


METRICS: dict[str, MetricFunction] = {
    "messages": messages_per_host,
    "search messages": search_messages_per_host,
    "time": time_to_find,
    "turnaround": turnaround,
    "short": short_searches,
}
#: Metric -> column heading.
LABELS = {
    "messages": "messages per found host",
    "search messages": "messages per found host, upkeep left out",
    "time": "time to find a host, s",
    "turnaround": "turnaround of a bag, s",
    "short": "searches that found fewer hosts than wanted, %",
}


def _cases(run: Run) -> dict[str, BagsAtLoad]:
    nodes, applications = run.choose(*NODES), run.choose(*APPLICATIONS)
    return {
        f"{load} ({utilization:g})": BagsAtLoad(load, nodes, applications)
        for load, utilization in LOADS.items()
    }


def _rows(data: Measurements) -> list[Row]:
    """Return the rows that compare rendezvous with each other method; the paper omits medium load."""
    rows: list[Row] = []
    for load, values in zip(LOADS, data.values(), strict=True):
        claim, test = TESTS.get(load, ("", None))
        rows += rows_of(
            [
                Check(
                    claim, f"{{case}}: {LABELS[metric]}, {name} / {rival}", ratio(name, rival, metric), test
                )
                for name, metrics in JUDGED_METRICS.items()
                for metric in metrics
                for rival in COMPARED_METHODS
            ],
            {load: values},
        )
    return rows


#: Load -> the paper's claim, and the range of the ratio of rendezvous to another method that it implies.
TESTS = {"light": (LIGHT, SMALLER), "heavy": (HEAVY, LARGER)}
#: Method -> the metrics that are judged in its comparison.
JUDGED_METRICS = {
    RENDEZVOUS: ("messages", "search messages", "time", "turnaround"),
    ANY_HOST: ("turnaround",),
}

SEARCHES = Reproduction(
    name="searches",
    title="four methods to search for idle hosts, over the load",
    paper="Zhou and Lo 2004",
    claims=(LIGHT, HEAVY),
    cases=_cases,
    schedulers=METHODS,
    metrics=METRICS,
    rows=_rows,
    grids=lambda data: (
        CaseTable(f"{label}; {data.run.choose(*NODES)} machines", metric, head="method").grid(data)
        for metric, label in LABELS.items()
    ),
    remarks=(
        'What "performs" means is not said: messages, time to find and turnaround are each judged.',
        f"Bags of {TASKS:g} tasks +- 50 %, of 600 s at the mean speed, Poisson releases; load is work / "
        "(time x speed of all machines).  Hosts found are other machines than the client's.",
        "A point names the hosts that have been free the longest; those of a bag become free in order of "
        "speed, so that the next bags get hosts that are alike.  With any host instead, what is left is "
        "the search.",
        f"Upkeep are the messages that are sent whether or not anybody searches: {', '.join(UPKEEP)}.",
        "Messages by which machines make themselves known when they join count in the first table; they "
        "weigh the less, the longer the run.",
    ),
    figure=lines(
        (list(LOADS.values()), list(LOADS.values())),
        {LABELS[metric]: metric for metric in ("messages", "time", "turnaround")},
        {"yscale": "log", "xlabel": "load"},
        name_as="ylabel",
    ),
)
