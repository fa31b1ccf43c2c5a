"""Four methods to search for idle hosts under light, medium and heavy load, as compared by D. Zhou and V. Lo,
"Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer system" (2004)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, BELOW, Grid, Report, Row, Run, judge, panels
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import Advertisement, ExpandingRing, RandomWalkSearch, Rendezvous
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "searches"
TITLE = "four methods to search for idle hosts, over the load"
LIGHT = "the rendezvous point search performs best under light workloads"
HEAVY = "under heavy workloads its performance falls below the other techniques"
CLAIMS = (LIGHT, HEAVY)
SEEDS = (10, 5)

NODES, SMALL = 300, 40
APPLICATIONS, FEW_APPLICATIONS = 300, 30
#: Offered load: the share of the machines' time that the work takes.
LOADS = {"light": 0.1, "medium": 0.5, "heavy": 0.9}
#: Mean number of tasks of a bag, and the size of each task, Mflop: 600 s at the mean speed.
TASKS, SIZE = 20.0, 1.2e6

RENDEZVOUS = "rendezvous"
METHODS: dict[str, Scheduler] = {
    "expanding ring": ExpandingRing(max_hops=4),
    "random walk": RandomWalkSearch(),
    "advertisement": Advertisement(),
    RENDEZVOUS: Rendezvous(),
    "rendezvous, never refreshed": Rendezvous(refresh=math.inf),
    "rendezvous, any host": Rendezvous(pick="random"),
}
#: The rendezvous that, like the other methods, does not choose hosts by how long they have been free.
ANY_HOST = "rendezvous, any host"
OTHERS = tuple(METHODS)[:3]
#: Kinds of messages that are sent even if no machine searches.
UPKEEP = ("hello", "profile", "beacon", "where", "known", "advert", "noted")
#: Load -> the paper's claim, and the range in which it puts the ratio of rendezvous to another method.
WANTED = {"light": (LIGHT, "< 1", -math.inf, BELOW), "heavy": (HEAVY, "> 1", ABOVE, math.inf)}


@dataclass(frozen=True)
class Bags:
    """Makes a scenario of bags, as ``Bags("light", 300, 300)(seed)``; it can be sent to another process."""

    load: str
    nodes: int
    applications: int

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``light-300``."""
        return f"{self.load}-{self.nodes}"

    def __call__(self, seed: int) -> Scenario:
        platform = Platform.desktop_grid(self.nodes, seed)
        gap = TASKS * SIZE / (LOADS[self.load] * platform.aggregate_speed)
        workload = Workload.bags(
            self.applications, gap, variation=0.5, task_size=SIZE, seed=seed, tasks=TASKS
        )
        return Scenario(platform, workload, seed=seed)


# -- metrics ----------------------------------------------------------------------------------------------


def _found(result: Result) -> Any:
    """bool[rows], which rows are hosts that were found, other than the client's own machine."""
    hosts = result.tables["hosts"]
    return hosts["client"] != hosts["host"]


def messages_per_host(result: Result) -> float:
    """Number of all messages per host that was found."""
    return _over(result.messages["sent"].sum(), result)


def search_messages_per_host(result: Result) -> float:
    """Number of messages per host that was found, without those that are sent even if no machine searches."""
    return _over(result.messages["sent"][~np.isin(result.messages["kind"], UPKEEP)].sum(), result)


def _over(messages: Any, result: Result) -> float:
    found = int(_found(result).sum())
    return float(messages) / found if found else math.nan


def time_to_find(result: Result) -> float:
    """Mean time from the instant a task needs a host until the client has found one, s."""
    hosts, found = result.tables["hosts"], _found(result)
    return float((hosts["found"] - hosts["needed"])[found].mean()) if found.any() else math.nan


def turnaround(result: Result) -> float:
    """Mean time from the release of a bag until its last task ends, s."""
    return float(result.mean_completion)


def short_searches(result: Result) -> float:
    """Share of searches that found fewer hosts than wanted, %."""
    searches = result.tables["searches"]
    return 100 * float((searches["found"] < searches["wanted"]).mean()) if len(searches) else math.nan


METRICS: dict[str, MetricFunction] = {
    "messages": messages_per_host,
    "search messages": search_messages_per_host,
    "time": time_to_find,
    "turnaround": turnaround,
    "short": short_searches,
}
SAID = {
    "messages": "messages per found host",
    "search messages": "messages per found host, upkeep left out",
    "time": "time to find a host, s",
    "turnaround": "turnaround of a bag, s",
    "short": "searches that found fewer hosts than wanted, %",
}
#: Method -> the metrics that are judged for it.
JUDGED = {RENDEZVOUS: ("messages", "search messages", "time", "turnaround"), ANY_HOST: ("turnaround",)}


def run(how: Run) -> Report:
    """Run all methods under each load."""
    nodes, count = (SMALL, FEW_APPLICATIONS) if how.quick else (NODES, APPLICATIONS)
    made = {load: how.replicate(Bags(load, nodes, count), METHODS, METRICS) for load in LOADS}
    rows = [row for load, each in made.items() for row in _claims(load, each)]
    grids = [_table(f"{said}; {nodes} machines", made, metric) for metric, said in SAID.items()]
    data = {
        "loads": list(LOADS.values()),
        "series": {
            SAID[metric]: {name: [each.mean(name, metric) for each in made.values()] for name in METHODS}
            for metric in ("messages", "time", "turnaround")
        },
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, data)


def _claims(load: str, made: Replicates) -> list[Row]:
    """Return the rows that compare rendezvous with each other method; the paper omits medium load."""
    rows = []
    for one, metric, other in (
        (one, metric, other) for one, metrics in JUDGED.items() for metric in metrics for other in OTHERS
    ):
        quantity = f"{load}: {SAID[metric]}, {one} / {other}"
        ratio = made.ratio(one, other, metric)
        if load in WANTED:
            claim, said, low, high = WANTED[load]
            rows.append(judge(claim, quantity, said, ratio, low, high))
        else:
            rows.append(Row("", quantity, "", ratio))
    return rows


def _table(title: str, made: Mapping[str, Replicates], metric: str) -> Grid:
    columns = ["method", *(f"{load} ({LOADS[load]:g})" for load in made)]
    return Grid(
        title, columns, {name: [each.mean(name, metric) for each in made.values()] for name in METHODS}
    )


_REMARKS = (
    'What "performs" means is not said: messages, time to find and turnaround are each judged.',
    f"Bags of {TASKS:g} tasks +- 50 %, of 600 s at the mean speed, Poisson releases; load is work / (time x "
    "speed of all machines).  Hosts found are other machines than the client's.",
    "A point names the hosts that have been free the longest; those of a bag become free in order of speed, "
    "so that the next bags get hosts that are alike.  With any host instead, what is left is the search.",
    f"Upkeep are the messages that are sent whether or not anybody searches: {', '.join(UPKEEP)}.",
    "Messages by which machines make themselves known when they join count in the first table; they weigh "
    "the less, the longer the run.",
)


def figure(report: Report) -> Figure:
    """Draw a panel per metric, over the load."""
    data = report.data
    return panels(data["series"], data["loads"], {"yscale": "log", "xlabel": "load"}, named="ylabel")
