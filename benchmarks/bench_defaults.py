"""How good the defaults of the schedulers are: other values of their parameters, compared with them.

``python benchmarks/bench_defaults.py`` prints tables for each scheduler (``--scheduler NAME``: for this one;
``--quick``: two seeds and every third cell).  docs/data/defaults.csv has the rows of settings.

`ENTRIES` is the whole description: for each scheduler the metric that it wants to be small, the cells
(scenarios) that it is run in, and settings that differ from the defaults.  Each setting runs in the same
cells and with the same seeds as the defaults.  The ratio of a cell is the geometric mean over seeds of the
paired ratios, setting over default, with a 95 % interval; below 1 the default loses.  Another scheduler needs
one more entry; a setting may change several parameters jointly.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import gridsim as gs
from gridsim.results.metrics.estimates import Estimate, estimate

Settings = Mapping[str, Any]
#: Of a seed: a scenario, or a matrix of expected times.
Make = Callable[[int], Any]
SEEDS, FEW = range(1, 11), range(1, 3)
#: A ratio that differs from 1 by no more is not worth a word.
NEAR = 0.02
DAY = 86_400.0


class Values(NamedTuple):
    """What a run had of the metric and of the cost, and how many jobs were never run."""

    metric: float
    cost: float
    failed: int


@dataclass(frozen=True)
class Cell:
    """Where schedulers are compared, with `settings` of the scheduler that belong to it."""

    make: Make
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A parameter, or some, whose default is a choice.

    source : where the default is from: ``"paper"``, ``"paper, corrected"``, or ``"free"``: no paper has one.
    others : settings that might have been the default.
    given : settings on both sides, without which the parameter does nothing.
    only : cells in whose names this occurs.
    """

    source: str
    others: list[Settings]
    given: Settings = field(default_factory=dict)
    only: str = ""


@dataclass(frozen=True)
class Entry:
    """A scheduler: what it wants to be small, what that costs, where it runs, and what may be chosen.

    heuristic : in cells that are matrices, of `gridsim.map_tasks`; the metric is the makespan there.
    """

    scheduler: type[gs.Scheduler]
    metric: str
    cost: str
    cells: Mapping[str, Cell]
    choices: list[Choice]
    heuristic: str = ""

    def run(self, cell: str, settings: Settings, seed: int) -> Values:
        """One run."""
        made = self.cells[cell].make(seed)
        if isinstance(made, np.ndarray):
            return Values(gs.map_tasks(made, self.heuristic, **settings).makespan, 0.0, 0)
        result = gs.simulate(made, self.scheduler(**self.cells[cell].settings, **settings))
        return Values(float(METRICS[self.metric](result)), float(COSTS[self.cost](result)), result.failed)


# -- what is measured ----------------------------------------------------------------------------------------

METRICS: dict[str, Callable[[gs.Result], float]] = {
    name: getattr(gs.Result, name).fget
    for name in (
        "max_stretch",
        "makespan",
        "mean_completion",
        "mean_slowdown",
        "mean_turnaround",
        "mean_waiting",
    )
}
COSTS: dict[str, Callable[[gs.Result], float]] = {
    "none": lambda result: 0.0,
    "messages": lambda result: result.messages["sent"].sum(),
    "messages and schedules": lambda result: (
        result.messages["sent"].sum() + result.tables["exchanges"]["schedules"].sum()
    ),
    "wasted share of the cycles": lambda result: result.wasted,
    "moves": lambda result: result.applications["migrated"].sum(),
}

# -- cells ---------------------------------------------------------------------------------------------------


def bags(
    nodes: int,
    load: float,
    *,
    applications: int = 40,
    per_node: float = 4.0,
    size: tuple[float, float] = (2e4, 2e6),
    up: float = math.inf,
) -> Make:
    """Bags of some four tasks a machine, of equal tasks each; machines that are up for `up` s on average."""

    def make(seed: int) -> gs.Scenario:
        platform = gs.Platform.desktop_grid(nodes, seed)
        gap = per_node * nodes * sum(size) / 2 / (load * platform.aggregate_speed)
        workload = gs.Workload.bags(applications, gap, per_node, task_size=size, seed=seed)
        faults = gs.Faults.exponential(up, 3600.0, seed) if up < math.inf else None
        return gs.Scenario(platform, workload, seed=seed, faults=faults)

    return make


def logs(nodes: int, load: float, *, up: float = math.inf) -> Make:
    """Bags as job logs have them: 1 to 10 tasks a machine, of a second to some hours, most of them short."""

    def make(seed: int) -> gs.Scenario:
        platform, random = gs.Platform.desktop_grid(nodes, seed), np.random.default_rng(seed)
        tasks = np.ceil(nodes ** random.uniform(0.0, 1.2, 60)).astype(int)
        sizes = 10.0 ** random.uniform(3.3, 7.3, 60)
        gap = float((tasks * sizes).mean()) / (load * platform.aggregate_speed)
        release = np.cumsum(random.exponential(gap, 60))
        workload = gs.Workload.of(release, tasks, sizes, random.integers(0, nodes, 60))
        faults = gs.Faults.exponential(up, 3600.0, seed) if up < math.inf else None
        return gs.Scenario(platform, workload, seed=seed, faults=faults)

    return make


def rigid(nodes: int, jobs: int, load: float, profile: str = "ricc2010", up: float = math.inf) -> Make:
    """Rigid jobs like those of a log, of at most a fifth of the machines."""

    def make(seed: int) -> gs.Scenario:
        workload = gs.Workload.jobs(jobs, profile, load, nodes // 5, seed=seed)
        faults = gs.Faults.exponential(up, 3600.0, seed) if up < math.inf else None
        network = gs.Network(interfaces="equal")
        return gs.Scenario(gs.Platform.equal(nodes), workload, network, seed, faults=faults)

    return make


def streams(nodes: int, load: float, congestion: float = 0.1) -> Make:
    """Jobs of 30 s of the users of `nodes` desktops, for 2000 s."""

    def make(seed: int) -> gs.Scenario:
        workload = gs.Workload.job_streams(2000.0, 30.0 / load, 30.0, reference_speed=200.0, seed=seed)
        network = gs.Network.star(congestion=congestion)
        return gs.Scenario(gs.Platform.normal(nodes, seed), workload, network, seed)

    return make


def queue(nodes: int, per_node: float, up: float = math.inf) -> Make:
    """Three bags, one an hour, of tasks of an hour that differ in size, on desktops that fail."""

    def make(seed: int) -> gs.Scenario:
        workload = gs.Workload.bags(3, 3600.0, per_node, task_size=7.2e6, spread=gs.Normal(0.5), seed=seed)
        faults = gs.Faults.exponential(up, 3600.0, seed) if up < math.inf else None
        return gs.Scenario(gs.Platform.desktop_grid(nodes, seed), workload, seed=seed, faults=faults)

    return make


def nights(nodes: int, load: float, day_up: float = 0.1) -> Make:
    """Single tasks of 1 to 12 h for two days, on hosts around the world that are up at night."""

    def make(seed: int) -> gs.Scenario:
        zones = gs.Zones()
        share = (zones.night_hours + day_up * (24.0 - zones.night_hours)) / 24.0
        gap = 23_400.0 / (load * share * nodes)
        workload = gs.Workload.bags(
            round(2 * DAY / gap), gap, tasks=1, variation=0.0, task_size=(3.6e6, 4.32e7), seed=seed
        )
        faults = gs.Faults.zones(seed, zones, day_up=day_up)
        return gs.Scenario(gs.Platform.equal(nodes), workload, seed=seed, faults=faults)

    return make


def clients(nodes: int, load: float, up: float = math.inf) -> Make:
    """Bags of some 20 tasks of ten minutes, whose clients look for idle hosts."""

    def make(seed: int) -> gs.Scenario:
        platform = gs.Platform.desktop_grid(nodes, seed)
        gap = 20.0 * 1.2e6 / (load * platform.aggregate_speed)
        workload = gs.Workload.bags(25, gap, variation=0.5, tasks=20.0, task_size=1.2e6, seed=seed)
        faults = gs.Faults.exponential(up, 3600.0, seed) if up < math.inf else None
        return gs.Scenario(platform, workload, seed=seed, faults=faults)

    return make


def matrix(name: str) -> Make:
    """One of the classes of Braun et al."""
    return lambda seed: gs.expected_times(512, 16, **gs.BRAUN_CLASSES[name]._asdict(), seed=seed)


BAGS = {
    "100, load 0.3": Cell(bags(100, 0.3)),
    "100, load 0.9": Cell(bags(100, 0.9)),
    "100, load 5": Cell(bags(100, 5.0)),
    "1000, load 0.3": Cell(bags(1000, 0.3, applications=20)),
    "1000, load 0.9": Cell(bags(1000, 0.9, applications=20)),
    "1000, load 5": Cell(bags(1000, 5.0, applications=20)),
    "100, load 0.9, failing": Cell(bags(100, 0.9, up=14_400.0)),
}
#: Loads from far below what machines can do to far above.
TREES = (
    {
        f"{nodes}, load {load:g}": Cell(bags(nodes, load, applications=40 if nodes < 1000 else 20))
        for nodes in (100, 300, 1000)
        for load in (0.3, 0.9, 3.0, 30.0)
    }
    | {f"300, load {load:g}, like logs": Cell(logs(300, load)) for load in (0.9, 5.0)}
    | {
        f"{nodes}, load {load:g}, failing": Cell(bags(nodes, load, applications=20, up=14_400.0))
        for nodes in (100, 300, 1000)
        for load in (0.3, 0.9, 3.0)
    }
    | {"300, load 5, like logs, failing": Cell(logs(300, 5.0, up=14_400.0))}
)
#: Mapping events at regular times take long where there are many of them and much waits.
FEW_BAGS = {name: cell for name, cell in BAGS.items() if name.startswith("100,")} | {
    "1000, load 5, 6 bags": Cell(bags(1000, 5.0, applications=6))
}
MATRICES = {f"matrix {name}": Cell(matrix(name)) for name in ("u_c_hihi", "u_s_hihi", "u_i_hihi", "u_i_lolo")}
#: What schedulers of rigid jobs know: run times.
EXACT: Settings = {"estimate": "run"}
RIGID = {
    "100, load 0.3": Cell(rigid(100, 500, 0.3), EXACT),
    "100, load 0.6": Cell(rigid(100, 500, 0.6), EXACT),
    "100, load 0.9": Cell(rigid(100, 500, 0.9), EXACT),
    "1000, load 0.3": Cell(rigid(1000, 3000, 0.3), EXACT),
    "1000, load 0.6": Cell(rigid(1000, 3000, 0.6), EXACT),
    "1000, load 0.9": Cell(rigid(1000, 3000, 0.9), EXACT),
    "1000, wagap, load 0.9": Cell(rigid(1000, 3000, 0.9, "wagap2013"), EXACT),
}
FAILING_RIGID = {"100, load 0.6, failing": Cell(rigid(100, 500, 0.6, up=20 * DAY), EXACT)}
STREAMS = {
    "100, load 0.5": Cell(streams(100, 0.5)),
    "100, load 0.9": Cell(streams(100, 0.9)),
    "100, load 1.5": Cell(streams(100, 1.5)),
    "1000, load 0.5": Cell(streams(1000, 0.5)),
    "1000, load 0.9": Cell(streams(1000, 0.9)),
    "1000, load 1.5": Cell(streams(1000, 1.5)),
    "100, load 0.9, 10 s a transfer": Cell(streams(100, 0.9, 10.0)),
}
QUEUES = {
    "100, 1 task a machine": Cell(queue(100, 1.0, 14_400.0)),
    "100, 4 tasks a machine": Cell(queue(100, 4.0, 14_400.0)),
    "1000, 1 task a machine": Cell(queue(1000, 1.0, 14_400.0)),
    "1000, 4 tasks a machine": Cell(queue(1000, 4.0, 14_400.0)),
    "100, 1 task a machine, rarely failing": Cell(queue(100, 1.0, 2 * DAY)),
    "100, 4 tasks a machine, often failing": Cell(queue(100, 4.0, 3600.0)),
    "100, 4 tasks a machine, dear checkpoints": Cell(
        queue(100, 4.0, 14_400.0), {"checkpoint_cost": 120.0, "restore_cost": 120.0}
    ),
    "100, 1 task a machine, no failures": Cell(queue(100, 1.0)),
}
NIGHTS = {
    "96, load 0.2": Cell(nights(96, 0.2), {"migration_cost": 300.0}),
    "96, load 0.8": Cell(nights(96, 0.8), {"migration_cost": 300.0}),
    "600, load 0.2": Cell(nights(600, 0.2), {"migration_cost": 300.0}),
    "600, load 0.5": Cell(nights(600, 0.5), {"migration_cost": 300.0}),
    "600, load 0.8": Cell(nights(600, 0.8), {"migration_cost": 300.0}),
    "600, load 0.5, moves are free": Cell(nights(600, 0.5)),
    "600, load 0.5, dear moves": Cell(nights(600, 0.5), {"migration_cost": 1200.0}),
    "600, load 0.5, up in the day": Cell(nights(600, 0.5, 0.4), {"migration_cost": 300.0}),
}
CLIENTS = {
    "100, load 0.1": Cell(clients(100, 0.1)),
    "100, load 0.5": Cell(clients(100, 0.5)),
    "100, load 0.9": Cell(clients(100, 0.9)),
    "300, load 0.5": Cell(clients(300, 0.5)),
    "100, load 0.5, failing": Cell(clients(100, 0.5, 14_400.0)),
}

# -- what may be chosen --------------------------------------------------------------------------------------


def vary(parameter: str, *values: Any) -> list[Settings]:
    """One parameter, other values."""
    return [{parameter: value} for value in values]


def search(scheduler: type[gs.Scheduler], *choices: Choice) -> Entry:
    """One of the methods to search for idle hosts, with what they have in common."""
    common = [
        Choice("free", vary("degree", 2, 8)),
        Choice("free", vary("hop_time", 0.1, 0.5), only="load 0.5"),
        Choice("free", vary("retry", 10.0, 120.0)),
        Choice("free", vary("promise", 10.0, 120.0), only="load 0.5"),
    ]
    return Entry(scheduler, "mean_completion", "messages", CLIENTS, [*choices, *common])


_POLL, _CYCLON, _NETWORK = {"policy": "poll"}, {"overlay": "cyclon"}, {"probe_latency": "network"}
ENTRIES: dict[str, Entry] = {
    "fair-tree": Entry(
        gs.FairTree,
        "max_stretch",
        "messages",
        TREES,
        [
            Choice(
                "free",
                [
                    {"accept": "minimum", "bound": bound, "minimum_of": of}
                    for of, bounds in (
                        ("all", (1.25, 2.0)),
                        ("busy", (1.25, 2.0)),
                        ("inverse-speed", (1.0, 2.0)),
                    )
                    for bound in bounds
                ],
            ),
            Choice("free", vary("samples", 180, 360, 1440, (10, 9, 8))),
            Choice("paper", vary("update_on", "change"), only="load 0.9"),
            Choice("free", vary("hold_off", 0.1, 5.0), only="load 0.9"),
            Choice("paper, corrected", vary("release_cell", 300.0), only="load 0.9"),
            Choice("free", vary("refresh", 60.0, 300.0), only="load 0.9"),
            Choice("free", vary("entry", "parent"), only="load 0.9"),
            Choice("free", vary("spread", "change"), only="load 0.9"),
            Choice("paper", vary("update_rate", 1_000.0, 100_000.0, 0.0), only="load 0.9"),
            Choice("free", vary("heartbeat", 30.0, 300.0), only="load 0.9"),
            Choice("free", vary("detection", 0.0, 10.0, 60.0), only="load 0.9, failing"),
        ],
    ),
    "dgs-asap": Entry(
        gs.DgsAsap,
        "mean_waiting",
        "messages and schedules",
        RIGID | FAILING_RIGID,
        [
            Choice("paper", vary("forward", 2, 3, 10)),
            Choice("paper", vary("degree", 10, 40)),
            Choice("paper", vary("policy", "pull", "poll")),
            Choice("paper", vary("poll_period", 30.0, 480.0), _POLL),
            Choice("paper", vary("hops", 1, 3)),
            Choice("paper", vary("wide", "fail")),
            Choice("free", vary("overlay", "cyclon"), only="100, "),
            Choice("free", vary("cycle", 120.0, 3600.0), _CYCLON, only="100, "),
            Choice("free", vary("shuffle", 4, 16), _CYCLON, only="100, "),
            Choice("free", vary("slot", 10.0, 30.0, 300.0)),
            Choice("free", vary("rounds", 1, 10)),
            Choice("free", vary("retry", 60.0, 3600.0)),
            Choice("free", vary("tries", 10, 1000)),
            Choice("free", vary("detection", 10.0, 300.0), only="failing"),
            Choice("free", vary("patience", 30.0, 600.0), only="failing"),
        ],
    ),
    "asap": Entry(gs.Asap, "mean_waiting", "none", RIGID, [Choice("free", vary("slot", 10.0, 30.0, 300.0))]),
    "backfill": Entry(
        gs.BatchQueue, "mean_slowdown", "none", RIGID, [Choice("free", vary("backfill", "none"))]
    ),
    "mincent": Entry(gs.MinCent, "max_stretch", "none", BAGS, [Choice("free", vary("mode", "once"))]),
    "fcfs": Entry(gs.Fcfs, "mean_completion", "none", BAGS, [Choice("free", vary("mode", "pull", "random"))]),
    "switching": Entry(
        gs.SwitchingAlgorithm,
        "makespan",
        "none",
        BAGS | MATRICES,
        [
            Choice("free", vary("low", 0.2, 0.4, 0.8)),
            Choice("free", vary("high", 0.7, 1.0)),
            Choice(
                "free", [{"low": 0.2, "high": 0.5}, {"low": 0.3, "high": 0.7}, {"low": 0.8, "high": 0.95}]
            ),
        ],
        "switching",
    ),
    "k-percent-best": Entry(
        gs.KPercentBest,
        "makespan",
        "none",
        BAGS | MATRICES,
        [Choice("free", vary("percent", 10.0, 40.0, 70.0, 100.0))],
        "kpb",
    ),
    **{
        scheduler.name: Entry(
            scheduler,
            "mean_completion",
            "none",
            FEW_BAGS,
            [Choice("free", vary("interval", 60.0, 300.0, 1800.0))],
        )
        for scheduler in (gs.MinMin, gs.MaxMin, gs.Sufferage)
    },
    "WQR-FT": Entry(
        gs.WqrFt,
        "mean_completion",
        "wasted share of the cycles",
        QUEUES,
        [
            Choice("free", vary("bag_order", "fcfs-excl", "rr", "rr-nrf", "longidle")),
            Choice("paper", vary("task_order", "small", "great")),
            Choice("paper", vary("machine_choice", "cpu", "all")),
            Choice("free", vary("max_replicas", 1, 3, 4)),
            Choice("free", vary("exclude", 0.5, 1.0, 1.5)),
            Choice("free", vary("checkpoint_interval", 120.0, 600.0, 3600.0, math.inf)),
            Choice("paper", vary("checkpoint_store", "local")),
        ],
    ),
    "rjss": Entry(
        gs.Rjss,
        "mean_turnaround",
        "messages",
        STREAMS,
        [
            Choice("paper", vary("k", 0.02, 0.05, 0.2, 0.5)),
            Choice("paper", vary("pick", "best")),
            Choice("paper", vary("rule", "at-least-one", "none")),
            Choice("paper", vary("local_threshold", 0.1, 0.25, 1.0), {"rule": "at-least-one"}, only="100, "),
            Choice("paper", vary("remote_threshold", 0.25, math.inf)),
            Choice("paper, corrected", vary("turnaround", "printed")),
            Choice("free", vary("overlay", 8, 20)),
            Choice("paper", vary("dispatcher", "parallel"), _NETWORK),
        ],
    ),
    "resource-exclusion": Entry(
        gs.ResourceExclusion,
        "mean_turnaround",
        "messages",
        STREAMS,
        [
            Choice("paper", vary("k", 0.02, 0.05, 0.2)),
            Choice("free", vary("reading", "fastest")),
            Choice("free", vary("min_speed", 0.0, 160.0, 240.0)),
            Choice("free", vary("overlay", 8, 20)),
            Choice("paper", vary("dispatcher", "parallel"), _NETWORK),
        ],
    ),
    "wave": Entry(
        gs.Wave,
        "mean_completion",
        "moves",
        NIGHTS,
        [
            Choice("free", vary("mode", "migration-immediate", "migration-linger", "wave-linger")),
            Choice("free", vary("linger", 900.0, 1800.0, 7200.0), {"mode": "wave-linger"}),
        ],
    ),
    "expanding-ring": search(gs.ExpandingRing, Choice("free", vary("max_hops", 2, 4, 6))),
    "random-walk-search": search(
        gs.RandomWalkSearch,
        Choice("free", vary("walkers", 2, 8, 16)),
        Choice("free", vary("steps", 8, 32)),
    ),
    "advertisement": search(gs.Advertisement, Choice("free", vary("scope", 1, 3))),
    "rendezvous": search(
        gs.Rendezvous,
        Choice("free", vary("share", 0.01, 0.1)),
        Choice("free", vary("scope", 2, 4)),
        Choice("free", vary("pick", "random")),
        Choice("free", vary("refresh", 600.0, math.inf)),
    ),
}

# -- runs ----------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A run: names in `ENTRIES` and its cells, and what is set."""

    entry: str
    cell: str
    settings: tuple[tuple[str, Any], ...]
    seed: int


def task(entry: str, cell: str, settings: Settings, seed: int) -> Task:
    """With settings in one order, so that equal runs are run once."""
    return Task(entry, cell, tuple(sorted(settings.items())), seed)


def run(one: Task) -> Values:
    """One run; in a process of its own it finds the entry by its name."""
    return ENTRIES[one.entry].run(one.cell, dict(one.settings), one.seed)


class Line(NamedTuple):
    """A setting against the defaults in a cell.

    ratio : of the metric, geometric mean over seeds.  cost : ratio of the sums over seeds.
    failed : jobs that were never run, more than with the defaults, in all seeds.
    """

    choice: Choice
    setting: Settings
    cell: str
    ratio: Estimate
    cost: float
    failed: int

    @property
    def clear(self) -> bool:
        """Whether the interval of the ratio is on one side of 1."""
        return self.ratio.low > 1.0 or self.ratio.high < 1.0


def pairs(
    entry: Entry, cells: Iterable[str], seeds: Iterable[int]
) -> Iterator[tuple[Choice, Settings, str, int]]:
    """All that is compared with the defaults."""
    for choice in entry.choices:
        for setting in choice.others:
            for cell in cells:
                if choice.only in cell:
                    for seed in seeds:
                        yield choice, setting, cell, seed


def swept(
    name: str, cells: list[str], seeds: range, runs: Callable[[list[Task]], list[Values]]
) -> list[Line]:
    """All settings of a scheduler in `cells`."""
    entry = ENTRIES[name]
    wanted = list(pairs(entry, cells, seeds))
    others = [task(name, cell, {**c.given, **s}, seed) for c, s, cell, seed in wanted]
    defaults = [task(name, cell, c.given, seed) for c, _, cell, seed in wanted]
    tasks = list(dict.fromkeys(others + defaults))
    values = dict(zip(tasks, runs(tasks), strict=True))
    lines = []
    for first in range(0, len(wanted), len(seeds)):
        choice, setting, cell, _ = wanted[first]
        each = slice(first, first + len(seeds))
        ours, theirs = [values[t] for t in defaults[each]], [values[t] for t in others[each]]
        lines.append(Line(choice, setting, cell, *compared(ours, theirs)))
    return lines


def compared(ours: list[Values], theirs: list[Values]) -> tuple[Estimate, float, int]:
    """Ratio of the metric, of the cost, and how many more failed."""
    logs = np.log([b.metric / a.metric for a, b in zip(ours, theirs, strict=True)])
    found = estimate(logs)
    mean, low, high = np.exp([found.mean, found.low, found.high]).tolist()
    ratio = Estimate(mean, low, high, found.seeds)
    before, after = math.fsum(a.cost for a in ours), math.fsum(b.cost for b in theirs)
    cost = after / before if before else 1.0 if not after else math.inf
    return ratio, cost, sum(b.failed for b in theirs) - sum(a.failed for a in ours)


# -- tables --------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def said(setting: Settings) -> str:
    return ", ".join(shown(value) for value in setting.values())


def extreme(line: Line, cells: int) -> str:
    """The ratio of a cell, and which it is if there are others."""
    undecided = not line.clear and abs(line.ratio.mean - 1.0) > NEAR
    notes = [line.cell] * (cells > 1) + ["undecided"] * undecided
    return f"{line.ratio.mean:.3f}" + (f" ({'; '.join(notes)})" if notes else "")


def rows(entry: Entry, lines: list[Line]) -> Iterator[list[str]]:
    """A row for each setting: the worst cell for it, the best, and the range of the cost."""
    known = {each.name: each.default for each in msgspec.structs.fields(entry.scheduler)}
    for choice in entry.choices:
        for setting in choice.others:
            mine = [line for line in lines if line.choice is choice and line.setting is setting]
            if not mine:
                continue
            ordered = sorted(mine, key=lambda line: line.ratio.mean)
            same = ordered[0].ratio.mean == ordered[-1].ratio.mean
            costs = [f"{most(line.cost for line in mine):.2f}" for most in (min, max)]
            names = ", ".join(f"`{name}`" for name in setting)
            if choice.given:
                names += " with " + ", ".join(f"`{key}={shown(v)}`" for key, v in choice.given.items())
            yield [
                names,
                said({name: known[name] for name in setting}),
                choice.source,
                said(setting),
                *(extreme(line, 1 if same else len(mine)) for line in (ordered[-1], ordered[0])),
                costs[0] if costs[0] == costs[1] else " to ".join(costs),
            ]


def loss(lines: list[Line]) -> str:
    """How much more a default has than a setting, at most."""
    worst = min(lines, key=lambda line: line.ratio.mean, default=None)
    if worst is None or worst.ratio.mean >= 1.0:
        return "none"
    setting = ", ".join(f"{name} = {shown(value)}" for name, value in worst.setting.items())
    return f"{100 * (1 / worst.ratio.mean - 1):.1f} %, against {setting} in the cell ({worst.cell})"


def tables(name: str, lines: list[Line]) -> str:
    """All cells as Markdown, the rows of docs/data/defaults.csv, and the largest loss."""
    entry = ENTRIES[name]
    out = [f"## {name}: {entry.metric}; cost: {entry.cost}", ""]
    out += ["| parameter | setting | cell | ratio | 95 % | cost | failed |", "|---|---|---|---|---|---|---|"]
    for line in lines:
        r = line.ratio
        out.append(
            f"| {', '.join(line.setting)} | {said(line.setting)} | {line.cell} | {r.mean:.3f} | "
            f"{r.low:.3f} to {r.high:.3f} | {line.cost:.3f} | {line.failed:+d} |"
        )
    printed = io.StringIO()
    csv.writer(printed, lineterminator="\n").writerows([name, *row] for row in rows(entry, lines))
    out += ["", printed.getvalue().rstrip()]
    clear = [line for line in lines if line.clear]
    out += ["", f"largest loss of a default: {loss(clear)}; with undecided ones: {loss(lines)}"]
    return "\n".join(out)


def record(name: str, lines: list[Line]) -> dict[str, Any]:
    """What a file keeps of a scheduler."""
    return {
        "scheduler": name,
        "lines": [
            {
                "setting": {key: shown(value) for key, value in line.setting.items()},
                "given": dict(line.choice.given),
                "cell": line.cell,
                "ratio": line.ratio.mean,
                "low": line.ratio.low,
                "high": line.ratio.high,
                "cost": line.cost,
                "failed": line.failed,
            }
            for line in lines
        ],
    }


def main() -> int:
    """Print the tables, and keep the numbers if they are wanted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--scheduler", action="append", choices=sorted(ENTRIES), help="this one; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="two seeds, and each third cell")
    parser.add_argument("--processes", type=int, default=1, help="that run at a time (default: 1)")
    parser.add_argument("--out", type=Path, help="a JSON file for all numbers")
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    kept = []
    with ProcessPoolExecutor(given.processes, mp_context=spawn) as pool:

        def runs(tasks: list[Task]) -> list[Values]:
            return list(pool.map(run, tasks, chunksize=8))

        for name in given.scheduler or ENTRIES:
            cells = list(ENTRIES[name].cells)
            began = time.perf_counter()
            lines = swept(name, cells[::3] if given.quick else cells, FEW if given.quick else SEEDS, runs)
            took = f"{time.perf_counter() - began:.0f} s"
            print(tables(name, lines), took, sep="\n", end="\n\n", flush=True)
            kept.append(record(name, lines))
    if given.out is not None:
        given.out.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
