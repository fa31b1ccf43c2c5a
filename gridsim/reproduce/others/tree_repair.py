"""What it costs to keep the fair tree by messages where machines fail, compared with an ideal repair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import Grid, Report, Row, Run, judge
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import FairTree
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "tree-repair"
TITLE = "the fair tree kept by messages, over failure rates, and compared with the ideal repair"
SAFE = "(not in the paper) no task is lost for good, and none would be run twice"
SOON = "(not in the paper) a router that has failed is taken over within four beats, in the median"
LATE = "(not in the paper) the loss in maximum stretch is that of noticing late which tasks are lost"
CLAIMS = (SAFE, SOON, LATE)
SEEDS = (10, 5)

NODES, SMALL = 32, 12
APPLICATIONS, FEW_APPLICATIONS = 10, 4
#: Mean up times of a machine, h; and its mean down time, s.
UP_TIMES, DOWN = (1.0, 4.0, 16.0), 1800.0
#: Mean s between two bags, tasks of a bag for each machine, and Mflop of a task: 131 s at the mean speed.
BETWEEN, TASKS, SIZE = 600.0, 5.0, 262144.0

IDEAL, LATER, MESSAGES, FASTER = "ideal", "ideal, noticed late", "messages", "messages, faster"
#: What all trees have: fewer samples, summaries when shares arrive or a queue runs empty, and all requests
#: decided at the root.
_TREE: dict[str, Any] = {"bound": 0.0, "samples": (40, 6, 1), "update_on": "change", "heartbeat": 300.0}
TREES: dict[str, Scheduler] = {
    IDEAL: FairTree(**_TREE),
    LATER: FairTree(**_TREE, detection=750.0),
    MESSAGES: FairTree(**_TREE, maintenance="messages"),
    FASTER: FairTree(**{**_TREE, "maintenance": "messages", "beat": 10.0, "heartbeat": 60.0}),
}
BEATS = {MESSAGES: 30.0, FASTER: 10.0}
#: Group of messages -> its kinds.
KINDS = {
    "summaries": ("summary",),
    "requests": ("request",),
    "reports to submitters": ("accept", "completion"),
    "signs of life": ("beat",),
    "succession": ("take", "where", "failed"),
    "minimum stretch": ("spread",),
}


@dataclass(frozen=True)
class Failing:
    """Makes a scenario whose machines are up for so many h on average; it can be sent to another process."""

    up: float
    nodes: int
    applications: int

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``up-4h-64``."""
        return f"up-{self.up:g}h-{self.nodes}"

    def __call__(self, seed: int) -> Scenario:
        return Scenario(
            Platform.desktop_grid(self.nodes, seed),
            Workload.bags(self.applications, BETWEEN, TASKS, task_size=SIZE, seed=seed),
            faults=Faults.exponential(up=3600.0 * self.up, down=DOWN, seed=seed),
            seed=seed,
        )


# -- metrics ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """Messages of some kinds that are sent, per machine and s until the last task has ended."""

    kinds: tuple[str, ...]

    def __call__(self, result: Result) -> float:
        seconds = float(np.nanmax(result.applications["finish"]))
        return float(_sent(result, self.kinds)) / seconds / len(result.machines)


@dataclass(frozen=True)
class Dropped:
    """Share of the messages of a kind that failures have caught on their way, %."""

    kind: str

    def __call__(self, result: Result) -> float:
        sent = _sent(result, (self.kind,))
        dropped = result.messages["dropped"][result.messages["kind"] == self.kind].sum()
        return 100.0 * float(dropped) / sent if sent else math.nan


def _sent(result: Result, kinds: tuple[str, ...]) -> int:
    return int(result.messages["sent"][np.isin(result.messages["kind"], kinds)].sum())


def largest(result: Result) -> float:
    """Largest stretch."""
    return float(result.max_stretch)


def per_application(result: Result) -> float:
    """All messages per application."""
    return float(result.messages["sent"].sum()) / len(result.applications)


def resubmitted(result: Result) -> float:
    """Tasks submitted again, % of all tasks; those that were lost again count again."""
    return 100.0 * float(result.applications["resubmitted"].sum() / result.applications["tasks"].sum())


def completed(result: Result) -> float:
    """Share of tasks that were completed, %."""
    return 100.0 * float(result.machines["tasks"].sum() / result.applications["tasks"].sum())


def doubted(result: Result) -> float:
    """Tasks that a submitter took for lost although they were not; see the fact ``tasks_doubted``."""
    return float(result.facts.get("tasks_doubted", 0))


@dataclass(frozen=True)
class Lasts:
    """Quantile of the time from a failure until its router is taken over, or the tree whole around it, s."""

    what: str
    share: float

    def __call__(self, result: Result) -> float:
        if "repairs" not in result.tables:
            return math.nan
        table = result.tables["repairs"]
        lasts = (table[self.what] - table["failed"])[~np.isnan(table[self.what])]
        return float(np.quantile(lasts, self.share)) if len(lasts) else math.nan


def broken(result: Result) -> float:
    """Share of the time, until the last task has ended, in which some router is being repaired, %."""
    if "repairs" not in result.tables:
        return math.nan
    end = float(np.nanmax(result.applications["finish"]))
    table, total, until = result.tables["repairs"], 0.0, 0.0
    for failed, whole in zip(table["failed"].tolist(), table["whole"].tolist(), strict=True):
        last = min(end, end if math.isnan(whole) else whole)
        total += max(0.0, last - max(failed, until))
        until = max(until, last)
    return 100.0 * total / end


METRICS: dict[str, MetricFunction] = {
    "largest stretch": largest,
    "per application": per_application,
    "resubmitted": resubmitted,
    "completed": completed,
    "doubted": doubted,
    "take": Lasts("taken", 0.5),
    "whole": Lasts("whole", 0.5),
    "most whole": Lasts("whole", 0.9),
    "broken": broken,
    "summaries lost": Dropped("summary"),
    "requests lost": Dropped("request"),
    **{group: Rate(kinds) for group, kinds in KINDS.items()},
}
#: Those that only trees kept by messages have.
REPAIRS = ("take", "whole", "most whole", "broken")
SAID = {
    "per application": "Messages per application",
    "resubmitted": "Tasks submitted again, % of all tasks",
    "summaries lost": "Summaries lost on their way, %",
    "requests lost": "Requests lost on their way, %",
    "take": "s from a failure until its router is taken over, median",
    "whole": "s from a failure until the tree is whole around its router, median",
    "most whole": "The same, nine of ten",
    "broken": "Share of the time in which some router is being repaired, %",
}


def run(how: Run) -> Report:
    """Run all trees with each mean up time."""
    nodes, count = (SMALL, FEW_APPLICATIONS) if how.quick else (NODES, APPLICATIONS)
    made = {up: how.replicate(Failing(up, nodes, count), TREES, METRICS) for up in UP_TIMES}
    rows = [row for up, each in made.items() for row in _claims(up, each)]
    columns = ["tree", *(f"up {up:g} h" for up in made)]
    ratio = {name: [each.ratio(name, IDEAL, "largest stretch") for each in made.values()] for name in TREES}
    grids = [Grid(f"Maximum stretch / that with ideal repair; {nodes} machines", columns, ratio)]
    for metric, said in SAID.items():
        shown = [name for name in TREES if metric not in REPAIRS or name in BEATS]
        cells = {name: [each.mean(name, metric) for each in made.values()] for name in shown}
        grids.append(Grid(said, columns, cells))
    rates = {
        f"{name}: {group}": [each.mean(name, group) for each in made.values()]
        for name in (IDEAL, MESSAGES, FASTER)
        for group in KINDS
    }
    grids.append(Grid("Messages per machine and s", columns, rates))
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, {"ups": list(made), "ratio": ratio})


def _claims(up: float, made: Replicates) -> list[Row]:
    rows = []
    for name, beat in BEATS.items():
        at = f"up {up:g} h, {name}"
        share, twice = made.mean(name, "completed"), made.mean(name, "doubted")
        rows.append(judge(SAFE, f"{at}: tasks completed", "all", share, 100.0, 100.0, unit="%"))
        rows.append(judge(SAFE, f"{at}: tasks taken for lost that were not", "none", twice, 0.0, 0.0))
        took = made.mean(name, "take")
        rows.append(judge(SOON, f"{at}: time to take over", f"< {4 * beat:g}", took, 0.0, 4 * beat, unit="s"))
    ratio = made.ratio(MESSAGES, LATER, "largest stretch")
    rows.append(judge(LATE, f"up {up:g} h: {MESSAGES} / {LATER}", "within 10 %", ratio, 0.9, 1.1))
    return rows


_REMARKS = (
    f"Up times are exponentially distributed, and down times, of {DOWN:g} s on average.  {APPLICATIONS} bags "
    f"of {TASKS:g} tasks a machine, of 131 s at the mean speed, {BETWEEN:g} s apart on average.",
    "Ideal: a router moves at once and for nothing, and losses are noticed at the next heartbeat (300 s).  "
    "Noticed late: losses are noticed after 750 s, which is what two silent heartbeats come to on average.",
    "Messages: a beat of 30 s and a heartbeat of 300 s; silent for two means failed.  Faster: 10 s and 60 s.",
    "The tree is whole around a router once that has heard from both children, or knows that they are gone, "
    "and its parent has heard from it.",
)


def figure(report: Report) -> Figure:
    """Draw the ratios of maximum stretches over the mean up time."""
    from gridsim import plots

    made, [axes] = plots.figure(1)
    ratio = {name: each for name, each in report.data["ratio"].items() if name != IDEAL}
    plots.lines(report.data["ups"], ratio, axes=axes)
    axes.set_xscale("log")
    axes.set_xticks(report.data["ups"], [f"{up:g}" for up in report.data["ups"]])
    axes.minorticks_off()
    axes.axhline(1.0, color="black", linestyle=":", linewidth=1)
    axes.set_xlabel("mean up time, h")
    axes.set_ylabel("maximum stretch / ideal repair")
    return made
