"""The cost of maintaining the fair tree by messages if machines fail, compared with an ideal repair."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import (
    CaseTable,
    Measurements,
    Reproduction,
    ResultGrid,
    panels,
    relative_to,
    series,
)
from gridsim.reproduce.verdicts import ClaimedRange, Row, judge
from gridsim.results.metrics.registry import MetricFunction

SAFE = "(not in the paper) no task is lost for good, and none would be run twice"
TAKEOVER = "(not in the paper) a router that has failed is taken over within four beats, in the median"
LOSS = "(not in the paper) the loss in maximum stretch is that of noticing late which tasks are lost"

#: Numbers of nodes and of applications of the full and the quick run.
NODES, APPLICATIONS = (32, 12), (10, 4)
#: Mean up times of a machine, h, and mean down time, s.
UP_TIMES, DOWN = (1.0, 4.0, 16.0), 1800.0
#: Mean time between two bags, s, tasks of a bag per machine, and task size, Mflop: 131 s at the mean speed.
GAP, TASKS, SIZE = 600.0, 5.0, 262144.0

IDEAL, LATER, MESSAGES, FASTER = "ideal", "ideal, noticed late", "messages", "messages, faster"
#: Common parameters of all trees: fewer samples, summaries when shares arrive or a queue becomes empty, and
#: all requests decided at the root.
_TREE: dict[str, Any] = {"bound": 0.0, "samples": (40, 6, 1), "update_on": "change", "heartbeat": 300.0}
TREES: dict[str, gs.Scheduler] = {
    IDEAL: gs.FairTree(**_TREE),
    LATER: gs.FairTree(**_TREE, detection=750.0),
    MESSAGES: gs.FairTree(**_TREE, maintenance="messages"),
    FASTER: gs.FairTree(**{**_TREE, "maintenance": "messages", "beat": 10.0, "heartbeat": 60.0}),
}
HEARTBEATS = {MESSAGES: 30.0, FASTER: 10.0}
COMPLETE, NONE_LOST = ClaimedRange("all", 100.0, 100.0), ClaimedRange("none", 0.0, 0.0)
SIMILAR = ClaimedRange("within 10 %", 0.9, 1.1)
#: Group of messages -> the kinds in it.
KINDS = {
    "summaries": ("summary",),
    "requests": ("request",),
    "reports to submitters": ("accept", "completion"),
    "signs of life": ("beat",),
    "succession": ("take", "where", "failed"),
    "minimum stretch": ("spread",),
}


@dataclass(frozen=True)
class FailingMachines:
    """Factory of scenarios whose machines have a mean up time of `up` hours."""

    up: float
    nodes: int
    applications: int

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``up-4h-64``."""
        return f"up-{self.up:g}h-{self.nodes}"

    def __call__(self, seed: int) -> gs.Scenario:
        return gs.Scenario(
            gs.Platform.desktop_grid(self.nodes, seed),
            gs.Workload.bags(self.applications, GAP, TASKS, task_size=SIZE, seed=seed),
            faults=gs.Faults.exponential(up=3600.0 * self.up, down=DOWN, seed=seed),
            seed=seed,
        )


# -- metrics ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MessageRate:
    """Number of sent messages of some kinds, per machine and second until the last task ends."""

    kinds: tuple[str, ...]

    def __call__(self, result: gs.Result) -> float:
        seconds = float(np.nanmax(result.applications["finish"]))
        return float(_sent(result, self.kinds)) / seconds / len(result.machines)


@dataclass(frozen=True)
class LostShare:
    """Share of the messages of a kind that were lost by failures, %."""

    kind: str

    def __call__(self, result: gs.Result) -> float:
        sent = _sent(result, (self.kind,))
        dropped = result.messages["dropped"][result.messages["kind"] == self.kind].sum()
        return 100.0 * float(dropped) / sent if sent else math.nan


def _sent(result: gs.Result, kinds: tuple[str, ...]) -> int:
    return int(result.messages["sent"][np.isin(result.messages["kind"], kinds)].sum())


def largest(result: gs.Result) -> float:
    """Return the maximum stretch."""
    return float(result.max_stretch)


def per_application(result: gs.Result) -> float:
    """Return the number of messages per application."""
    return float(result.messages["sent"].sum()) / len(result.applications)


def resubmitted(result: gs.Result) -> float:
    """Return the number of resubmissions over the number of tasks, %."""
    return 100.0 * float(result.applications["resubmitted"].sum() / result.applications["tasks"].sum())


def completed(result: gs.Result) -> float:
    """Return the share of tasks that were completed, %."""
    return 100.0 * float(result.machines["tasks"].sum() / result.applications["tasks"].sum())


def doubted_tasks(result: gs.Result) -> float:
    """Return how many tasks a submitter wrongly considered lost, the fact ``tasks_doubted``."""
    return float(result.facts.get("tasks_doubted", 0))


@dataclass(frozen=True)
class RepairTime:
    """Quantile of the time from a failure until its router is replaced, or the tree around it repaired, s."""

    instant: str
    share: float

    def __call__(self, result: gs.Result) -> float:
        if "repairs" not in result.tables:
            return math.nan
        table = result.tables["repairs"]
        times = (table[self.instant] - table["failed"])[~np.isnan(table[self.instant])]
        return float(np.quantile(times, self.share)) if len(times) else math.nan


def repair_share(result: gs.Result) -> float:
    """Return the share of the time until the last task ends with a router under repair, %."""
    if "repairs" not in result.tables:
        return math.nan
    end = float(np.nanmax(result.applications["finish"]))
    table, total, latest = result.tables["repairs"], 0.0, 0.0
    for failed, complete_log in zip(table["failed"].tolist(), table["whole"].tolist(), strict=True):
        last = min(end, end if math.isnan(complete_log) else complete_log)
        total += max(0.0, last - max(failed, latest))
        latest = max(latest, last)
    return 100.0 * total / end


METRICS: dict[str, MetricFunction] = {
    "largest stretch": largest,
    "per application": per_application,
    "resubmitted": resubmitted,
    "completed": completed,
    "doubted": doubted_tasks,
    "take": RepairTime("taken", 0.5),
    "whole": RepairTime("whole", 0.5),
    "most whole": RepairTime("whole", 0.9),
    "broken": repair_share,
    "summaries lost": LostShare("summary"),
    "requests lost": LostShare("request"),
    **{group: MessageRate(kinds) for group, kinds in KINDS.items()},
}
#: Metrics that only trees maintained by messages have.
REPAIRS = ("take", "whole", "most whole", "broken")
HEADINGS = {
    "per application": "Messages per application",
    "resubmitted": "Tasks submitted again, % of all tasks",
    "summaries lost": "Summaries lost on their way, %",
    "requests lost": "Requests lost on their way, %",
    "take": "s from a failure until its router is taken over, median",
    "whole": "s from a failure until the tree is whole around its router, median",
    "most whole": "The same, nine of ten",
    "broken": "Share of the time in which some router is being repaired, %",
}


def _rows(data: Measurements) -> Iterator[Row]:
    for case, values in data.items():
        for name, beat in HEARTBEATS.items():
            share, doubted = values.mean(name, "completed"), values.mean(name, "doubted")
            yield judge(SAFE, f"{case}, {name}: tasks completed", share, COMPLETE, unit="%")
            yield judge(SAFE, f"{case}, {name}: tasks taken for lost that were not", doubted, NONE_LOST)
            quantity, test = (
                f"{case}, {name}: time to take over",
                ClaimedRange(f"< {4 * beat:g}", 0.0, 4 * beat),
            )
            yield judge(TAKEOVER, quantity, values.mean(name, "take"), test, unit="s")
        ratio = values.mean_ratio(MESSAGES, LATER, "largest stretch")
        yield judge(LOSS, f"{case}: {MESSAGES} / {LATER}", ratio, SIMILAR)


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    title = f"Maximum stretch / that with ideal repair; {data.run.choose(*NODES)} machines"
    yield CaseTable(title, relative_to(IDEAL, "largest stretch"), head="tree").grid(data)
    for metric, heading in HEADINGS.items():
        yield CaseTable(heading, metric, HEARTBEATS if metric in REPAIRS else TREES, head="tree").grid(data)
    rates = {
        f"{name}: {group}": series(data, group, [name])[name]
        for name in (IDEAL, MESSAGES, FASTER)
        for group in KINDS
    }
    yield ResultGrid("Messages per machine and s", ["tree", *data], rates)


TREE_REPAIR = Reproduction(
    name="tree-repair",
    title="the fair tree kept by messages, over failure rates, and compared with the ideal repair",
    paper="not in the papers of Celaya and Marchal",
    claims=(SAFE, TAKEOVER, LOSS),
    cases=lambda run: {
        f"up {up:g} h": FailingMachines(up, run.choose(*NODES), run.choose(*APPLICATIONS)) for up in UP_TIMES
    },
    schedulers=TREES,
    metrics=METRICS,
    rows=_rows,
    grids=_grids,
    remarks=(
        f"Up times are exponentially distributed, and down times, of {DOWN:g} s on average.  "
        f"{APPLICATIONS[0]} bags of {TASKS:g} tasks a machine, of 131 s at the mean speed, {GAP:g} s apart "
        "on average.",
        "Ideal: a router moves at once and for nothing, and losses are noticed at the next heartbeat (300 "
        "s).  Noticed late: losses are noticed after 750 s, which is what two silent heartbeats come to on "
        "average.",
        "Messages: a beat of 30 s and a heartbeat of 300 s; silent for two means failed.  Faster: 10 s and "
        "60 s.",
        "The tree is whole around a router once that has heard from both children, or knows that they are "
        "gone, and its parent has heard from it.",
    ),
    figure=lambda data: panels(
        {"": series(data, relative_to(IDEAL, "largest stretch"), [LATER, MESSAGES, FASTER])},
        UP_TIMES,
        {
            "xscale": "log",
            "xticks": UP_TIMES,
            "xticklabels": [f"{up:g}" for up in UP_TIMES],
            "xlabel": "mean up time, h",
            "ylabel": "maximum stretch / ideal repair",
        },
        level=1.0,
        minor_ticks=False,
    ),
)
