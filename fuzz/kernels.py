"""What the kernels are called with, and how: a table of functions and classes, and one execution of a target.

The first byte says which kind of execution it is.  A *sane* one makes well-formed small calls of a kernel and its
plain-Python twin, which must agree: results, errors and their texts.  A *hostile* one gives anything to the kernel,
in any order: it may refuse it with an error of `REFUSALS`, and nothing else may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from arrays import (
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    Source,
    copied,
    damaged,
    same,
    spoiled,
)

#: What a kernel may raise; IndexError and BufferError come of wrong arrays before it sees them.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, IndexError, BufferError)


class Disagreement(Exception):
    """A kernel and its twin, or a kernel and itself."""


@dataclass
class Context:
    """One execution: the bytes left, sizes of what is described, and the instant reached (ns)."""

    s: Source
    sizes: dict[str, int] = field(default_factory=dict)
    now: int = 0
    #: The object under test and what goes with it, by name.
    of: dict[str, Any] = field(default_factory=dict)

    def size(self, name: str, low: int = 0, high: int = 6) -> int:
        """The same for all arguments that have this name for it."""
        if name not in self.sizes:
            self.sizes[name] = low + self.s.below(high - low + 1)
        return self.sizes[name]


Kind = Callable[[Context], Any]
Arguments = Mapping[str, Kind]


@dataclass
class Part:
    """A function, or a class with its methods."""

    name: str
    arguments: Arguments
    methods: Mapping[str, Arguments] = field(default_factory=dict)
    #: Attributes to read.
    shown: tuple[str, ...] = ()
    #: Makes what goes with it, before it; hostile executions use that too.
    before: Callable[[Context, Any], None] | None = None


# -- kinds of arguments ---------------------------------------------------------------------------------------


def real(table: np.ndarray[Any, Any]) -> Kind:
    return lambda c: float(table[c.s.byte()])


def reals(table: np.ndarray[Any, Any], size: str, low: int = 0, high: int = 6) -> Kind:
    return lambda c: table[c.s.bytes(c.size(size, low, high))]


def whole(low: int, high: int) -> Kind:
    return lambda c: low + c.s.below(high - low + 1)


def wholes(low: int, high: int, size: str, low_size: int = 0, high_size: int = 6) -> Kind:
    return lambda c: low + c.s.bytes(c.size(size, low_size, high_size)).astype(np.int64) % (high - low + 1)


def one_of(*values: Any) -> Kind:
    return lambda c: c.s.pick(values)


def places(size: str, count: str, at_least: int = 0, high: int = 8) -> Kind:
    """Numbers below a size, with repetitions; none if there is nothing."""

    def make(c: Context) -> Any:
        n = c.sizes[size] - at_least
        return at_least + c.s.bytes(c.size(count, 0, high if n > 0 else 0)).astype(np.int64) % max(1, n)

    return make


def ascending(size: str, count: str) -> Kind:
    return lambda c: np.unique(places(size, count)(c))


def place(size: str) -> Kind:
    return lambda c: c.s.below(max(1, c.sizes[size]))


def flags(size: str) -> Kind:
    return lambda c: c.s.bytes(c.sizes[size]) % 2 == 1


flag = one_of(False, True)


def maybe(kind: Kind, part: int = 128) -> Kind:
    return lambda c: kind(c) if c.s.chance(part) else None


def later(most: int = 10**9, step: int = 10**7) -> Kind:
    """An instant not before the last one."""

    def make(c: Context) -> int:
        c.now += c.s.below(256) ** 2 * (most // 65536) // step * step
        return c.now

    return make


def now(c: Context) -> int:
    return c.now


def reached(c: Context) -> int:
    """The instant that the object itself has reached."""
    return int(c.of["self"].now)


# -- well-formed structures -----------------------------------------------------------------------------------


def grid(c: Context) -> Any:
    from gridcore import SummaryGrid

    axes = [np.unique(POSITIVE[c.s.bytes(1 + c.s.below(3))]) for _ in range(3)]
    c.of["grid"] = made = SummaryGrid(*axes)
    return made


def cells(count: str | None = None) -> Kind:
    """Summaries."""

    def make(c: Context) -> Any:
        shape = c.of["grid"].shape if "grid" in c.of else (1 + c.s.below(3), 2, 1 + c.s.below(2))
        if count is not None:
            shape = (c.size(count, 0, 5), *shape)
        made = c.s.bytes(int(np.prod(shape))).astype(np.uint32).reshape(shape)
        made = np.where(made == 255, np.uint32(2**32 - 1), made)
        # more with the stretch and the size, less with the size of a task, as summaries are
        made = np.maximum.accumulate(np.maximum.accumulate(made, axis=-3), axis=-2)
        return np.maximum.accumulate(made[..., ::-1], axis=-1)[..., ::-1].copy()

    return make


def offsets(c: Context) -> Any:
    n, nodes = c.size("n"), c.size("nodes", 0, 4)
    cuts = np.sort(c.s.bytes(max(0, nodes - 1)).astype(np.int64) % (n + 1))
    return np.array([0, *cuts, n] if nodes else [0], np.int64)


def running(table: np.ndarray[Any, Any]) -> Kind:
    """Of some nodes; the same ones for all arguments."""

    def make(c: Context) -> Any:
        nodes = c.size("nodes", 0, 4)
        which = c.of.setdefault("running", c.s.bytes(nodes) % 2 == 1)
        return np.where(which, table[c.s.bytes(nodes)], np.nan)

    return make


def both(kind: Kind, name: str) -> Kind:
    """None for all arguments of this name, or for none."""
    return lambda c: kind(c) if c.of.setdefault(name, c.s.chance(128)) else None


def rows(dtype: str, count: str, **fields: Kind) -> Kind:
    """Structs of a dtype of `gridcore.tree`."""

    def make(c: Context) -> Any:
        from gridcore import tree

        columns = {name: kind(c) for name, kind in fields.items()}
        made = np.zeros(min((len(column) for column in columns.values()), default=0), getattr(tree, dtype))
        for name, column in columns.items():
            made[name] = column[: len(made)]
        return made

    return make


# -- functions ------------------------------------------------------------------------------------------------

_queue = {
    "release": reals(FINITE, "n"),
    "size": reals(POSITIVE, "n"),
    "work": reals(NOT_NEGATIVE, "n"),
}
_node = {"speed": real(POSITIVE), "free_at": real(FINITE)}
_running = {
    "running_release": both(real(FINITE), "run"),
    "running_size": both(real(POSITIVE), "run"),
}
_nodes = {
    "speed": reals(POSITIVE, "nodes", 0, 4),
    "free_at": reals(FINITE, "nodes", 0, 4),
    "running_release": both(running(FINITE), "run"),
    "running_size": both(running(POSITIVE), "run"),
}
_new = {"stretch": real(NOT_NEGATIVE), "release_new": real(FINITE), "size_new": real(POSITIVE)}


def _whole_tasks(c: Context) -> Any:
    """Work that is a whole number of tasks."""
    c.of["task_size"] = size = POSITIVE[c.s.bytes(c.size("n"))]
    return size * (c.s.bytes(c.size("n")) % 5)


def _counts(c: Context) -> Any:
    return np.sort(c.s.bytes(c.size("n")).astype(np.int64)) if c.s.chance(240) else np.array(c.s.bytes(3))


def _etc(c: Context) -> Any:
    shape = c.size("rows", 0, 5), c.size("columns", 1, 5)
    return POSITIVE[c.s.bytes(shape[0] * shape[1])].reshape(shape)


def _ready(c: Context) -> Any:
    return NOT_NEGATIVE[c.s.bytes(c.size("machines", c.sizes["columns"], c.sizes["columns"]))]


def _etc_of_kinds(c: Context) -> Any:
    """With machines of kinds times are whole, so that adding them is exact."""
    c.of["kind"], made = c.s.chance(128), _etc(c)
    return 1 + np.floor(made) % 16 if c.of["kind"] else made


def _ready_kinds(c: Context) -> Any:
    n = (
        c.size("machines", 1, 6)
        if c.of["kind"]
        else c.size("machines", c.sizes["columns"], c.sizes["columns"])
    )
    return np.floor(c.s.bytes(n) / 16) if c.of["kind"] else NOT_NEGATIVE[c.s.bytes(n)]


def _machine_kinds(c: Context) -> Any:
    return c.s.bytes(c.sizes["machines"]).astype(np.int64) % c.sizes["columns"] if c.of["kind"] else None


FUNCTIONS: dict[str, tuple[Part, ...]] = {
    "edf": (
        Part(
            "meets_deadlines",
            {
                "work": reals(NOT_NEGATIVE, "n", 0, 40),
                "deadlines": reals(FINITE, "n"),
                "speed": real(POSITIVE),
                "now": real(FINITE),
            },
        ),
        Part(
            "optimal_stretch",
            {
                "release": reals(FINITE, "n", 0, 60),
                "size": reals(POSITIVE, "n"),
                "work": reals(NOT_NEGATIVE, "n"),
                "speed": real(POSITIVE),
                "now": real(FINITE),
                **_running,
                "method": one_of("exact", "bisection"),
                "rtol": one_of(1e-9, 1e-3, 0.5),
            },
        ),
        Part(
            "project_queues",
            {
                "offsets": offsets,
                "release": reals(FINITE, "n"),
                "size": reals(POSITIVE, "n"),
                "work": _whole_tasks,
                "task_size": lambda c: c.of["task_size"],
                **_nodes,
                "until": real(FINITE),
                "preemptive": flag,
            },
        ),
    ),
    "availability": (
        Part("gap", {**_new, **_queue, **_node, **_running}),
        Part("available_tasks", {**_new, "task_size_new": real(POSITIVE), **_queue, **_node, **_running}),
        Part(
            "sample_availability",
            {"grid": grid, "release_new": real(FINITE), **_queue, **_node, **_running},
        ),
        Part(
            "sample_availability_batch",
            {
                "grid": grid,
                "release_new": real(FINITE),
                "offsets": offsets,
                **_queue,
                **_nodes,
                "threads": whole(1, 2),
            },
        ),
    ),
    "summaries": (
        Part("aggregate", {"children": cells("children")}),
        Part("aggregate_into", {"children": cells("children"), "out": lambda c: np.zeros(1, np.uint32)}),
        Part(
            "lookup",
            {
                "grid": grid,
                "summary": cells(),
                "stretch": real(NOT_NEGATIVE),
                "size": real(POSITIVE),
                "task_size": real(POSITIVE),
                "release": real(FINITE),
                "cell_release": real(FINITE),
                "speed": maybe(real(POSITIVE)),
                "leaves": maybe(whole(1, 9)),
                "longest_task": maybe(real(NOT_NEGATIVE)),
            },
        ),
        Part("lowest_stretch", {"totals": _counts, "n_tasks": whole(0, 255)}),
        Part("split", {"available": wholes(0, 255, "n", 0, 24), "n_tasks": whole(0, 255)}),
        Part(
            "debit_drop",
            {
                "tasks": wholes(0, 255, "n"),
                "task_size": reals(POSITIVE, "n"),
                "cell_task_size": real(POSITIVE),
                "leaves": whole(1, 9),
            },
        ),
        Part(
            "debit",
            {
                "grid": grid,
                "summary": cells(),
                "tasks": wholes(0, 255, "n"),
                "task_size": reals(POSITIVE, "n"),
                "size": reals(POSITIVE, "n"),
                "stretch": reals(POSITIVE, "n"),
                "leaves": whole(1, 9),
                "rule": one_of("subtree", "printed"),
            },
        ),
    ),
    "mapping": (
        Part(
            "map_in_turn",
            {
                "etc": _etc,
                "counts": wholes(0, 4, "rows", 0, 5),
                "ready": _ready,
                "rule": one_of("mct", "met", "olb", "switching", "kpb"),
                "percent": one_of(20.0, 100.0, 1.0, 60.0),
                "low": one_of(0.0, 0.3, 0.6),
                "high": one_of(0.7, 0.9, 1.0),
                "on_met": flag,
            },
        ),
        Part(
            "map_batch",
            {
                "etc": _etc_of_kinds,
                "counts": wholes(0, 4, "rows", 0, 5),
                "ready": _ready_kinds,
                "rule": one_of("min-min", "max-min", "sufferage"),
                "kind": _machine_kinds,
            },
        ),
    ),
}

# -- classes --------------------------------------------------------------------------------------------------

_state: Arguments = {}
_speeds = reals(POSITIVE, "machines", 0, 70)
_few_speeds = reals(POSITIVE, "machines", 1, 9)


def _machines(high: int = 8) -> Kind:
    return places("machines", "k", high=high)


_bind_earliest = Part(
    "bind_earliest",
    {
        "free_at": lambda c: c.s.bytes(c.size("n")).astype(np.int64) * 10**7,
        "speed": reals(POSITIVE, "n"),
        "task_size": real(POSITIVE),
        "n_tasks": whole(0, 255),
        "now": whole(0, 255),
    },
)
PULL = Part(
    "PullQueue",
    {"speed": _speeds, "applications": lambda c: c.size("applications", 0, 5), "log": flag},
    {
        "run": {
            "until": later(10**11),
            "order": places("applications", "k"),
            "left": lambda c: c.s.bytes(c.sizes["applications"]).astype(np.int64) % 9,
            "task_size": lambda c: POSITIVE[c.s.bytes(c.sizes["applications"])],
        },
        "fail": {"machines": _machines(), "now": reached},
        "restore": {"machines": _machines(), "now": reached},
        "backlog": {"now": now},
        "totals": {},
        "starts": {},
    },
    ("free_at", "now", "machines", "applications", "log"),
)
BACKFILL = Part(
    "BackfillQueue",
    {
        "machines": lambda c: c.size("machines", 1, 70),
        "nodes": lambda c: 1 + c.s.bytes(c.size("jobs", 0, 12)).astype(np.int64) % c.sizes["machines"],
        "run": wholes(1, 200, "jobs"),
        "estimate": wholes(1, 200, "jobs"),
        "easy": flag,
        "log": flag,
    },
    {
        "submit": {"jobs": ascending("jobs", "k"), "now": lambda c: reached(c) + c.s.below(40)},
        "run": {"until": lambda c: reached(c) + c.s.below(256)},
        "fail": {"machines": ascending("machines", "k"), "now": reached},
        "restore": {"machines": ascending("machines", "k"), "now": reached},
        "next_end": {},
        "totals": {},
        "starts": {},
    },
    ("machines", "jobs", "now", "easy", "log"),
)


def _tasks(c: Context) -> Any:
    made = 1 + c.s.bytes(c.size("bags", 0, 4)).astype(np.int64) % 5
    c.sizes["tasks"] = int(made.sum())
    c.of["tasks"] = made
    return made


def _sequence(c: Context) -> Any:
    bags = c.of["tasks"]
    n = int(bags[c.of["bag"]]) if len(bags) else 0
    return np.argsort(c.s.bytes(n), kind="stable")


def _bag(c: Context) -> int:
    c.of["bag"] = bag = c.s.below(max(1, c.sizes["bags"]))
    return bag


def _task(c: Context) -> int:
    return c.s.below(5)


def _fault_times(c: Context) -> Any:
    n = c.size("k", 0, 6 if c.sizes["machines"] else 0)
    return reached(c) + np.cumsum(c.s.bytes(n).astype(np.int64)) * 10**7


def _steps(kind: Kind) -> Kind:
    return lambda c: kind(c) if c.of["period"] else None


def _period(c: Context) -> int:
    c.of["period"] = c.s.pick((0, 0, 10**9, 7 * 10**8))
    return int(c.of["period"])


WORK = Part(
    "WorkQueue",
    {
        "speed": reals(POSITIVE, "machines", 0, 70),
        "tasks": _tasks,
        "sizes": lambda c: POSITIVE[c.s.bytes(c.sizes["tasks"])],
        "up_until": lambda c: np.where(
            (b := c.s.bytes(c.sizes["machines"]).astype(np.int64)) > 200, 2**62, b * 10**8
        ),
        "order": one_of("random", "small", "great", "ask"),
        "choice": one_of("none", "cpu", "avail", "all", "ask"),
        "max_replicas": one_of(1, 2, 3, 1024),
        "interval": one_of(0, 10**8, 10**9),
        "checkpoint": one_of(0, 10**7),
        "restore": one_of(0, 10**7),
        "local": flag,
        "printed": flag,
        "prediction": one_of("told", "past", "age"),
        "faults": flag,
        "seed": whole(0, 255),
        "log": flag,
        "period": _period,
        "factors": _steps(lambda c: POSITIVE[c.s.bytes(6)].reshape(2, 3)),
        "series": _steps(lambda c: c.s.bytes(c.sizes["machines"]).astype(np.int64) % 2),
        "first": _steps(lambda c: c.s.bytes(c.sizes["machines"]).astype(np.int64) % 3),
        "step": flag,
    },
    {
        "submit": {"bag": _bag, "sequence": _sequence},
        "feed": {
            "time": _fault_times,
            "machine": lambda c: c.s.bytes(c.size("k", 0, 0)).astype(np.int64) % max(1, c.sizes["machines"]),
            "up": flags("k"),
            "until": wholes(0, 255, "k"),
        },
        "run": {"until": lambda c: reached(c) + c.s.below(256) ** 2 * 10**7},
        "candidates": {},
        "idle_machines": {},
        "lasts": {"bag": _bag, "task": _task, "machines": _machines()},
        "pick_task": {},
        "pick_machine": {"bag": _bag, "task": _task},
        "assign": {"bag": _bag, "task": _task, "machine": place("machines")},
        "wait": {},
        "weigh": {"bag": _bag, "task": _task, "machine": place("machines")},
        "totals": {},
        "instances": {},
    },
    ("machines", "bags", "now", "left", "log"),
)
_slot = whole(0, 120)


def _as_of(c: Context) -> Any:
    """When the nodes were seen, one instant for all."""
    c.of["as_of"] = made = now(c) - c.s.below(99) if c.of["self"].stale and c.s.chance(128) else None
    return made


SLOTS = Part(
    "SlotSchedules",
    {"nodes": lambda c: c.size("nodes", 1, 9), "stale": flag},
    {
        "reserve": {
            "nodes": places("nodes", "k"),
            "starts": wholes(0, 200, "k"),
            "slots": wholes(1, 40, "k"),
            "jobs": wholes(0, 9, "k"),
            "now": later(1000, 1),
        },
        "release": {
            "nodes": places("nodes", "k"),
            "starts": wholes(0, 200, "k"),
            "now": later(1000, 1),
            "ends": maybe(wholes(0, 255, "k")),
            "jobs": maybe(wholes(0, 9, "k")),
        },
        "lose": {"nodes": places("nodes", "k"), "slot": _slot, "now": later(1000, 1)},
        "forget": {"slot": whole(0, 9), "before": whole(0, 9)},
        "reservations": {"node": place("nodes")},
        "is_free": {
            "nodes": places("nodes", "k"),
            "start": _slot,
            "slots": whole(1, 40),
            "as_of": _as_of,
        },
        "earliest_start": {
            "candidates": ascending("nodes", "k"),
            "n_nodes": whole(1, 4),
            "slots": one_of(1, 2, 7, 40, 1500),
            "not_before": _slot,
            "as_of": _as_of,
        },
        "search": {
            "views": lambda c: (
                c.s.bytes(3 * c.sizes["nodes"]).astype(np.int32).reshape(-1, 3) % (c.sizes["nodes"] + 1) - 1
            ),
            "searchers": places("nodes", "k"),
            "n_nodes": wholes(1, 4, "k"),
            "slots": one_of(1, 2, 7, 40, 1500),
            "not_before": _slot,
            "exclude": lambda c: c.s.below(c.sizes["nodes"] + 1) - 1,
            "hops": whole(1, 3),
            "wide": flag,
            "away": maybe(flags("nodes")),
            "as_of": _as_of,
            "every": lambda c: c.s.pick((0, 7)) if c.of["as_of"] is not None else 0,
            "until": now,
        },
    },
    ("nodes", "stale"),
)
VIEWS = Part(
    "Views",
    {
        "nodes": lambda c: c.size("nodes", 1, 40),
        "degree": lambda c: c.size("degree", 1, 12),
        "shuffle": lambda c: 1 + c.s.below(c.sizes["degree"]),
        "seed": whole(0, 255),
    },
    {
        "in_degree": {},
        "pick": {
            "nodes": places("nodes", "k"),
            "first": wholes(0, 255, "k"),
            "second": wholes(0, 255, "k"),
            "count": whole(0, 14),
            "seed": whole(0, 255),
            "away": maybe(flags("nodes")),
        },
        "cycle": {"up": maybe(flags("nodes"))},
        "leave": {"nodes": places("nodes", "k", high=3)},
        "join": {
            "node": place("nodes"),
            "introducer": place("nodes"),
            "steps": whole(0, 6),
            "up": maybe(flags("nodes")),
        },
    },
    ("views", "ages", "nodes", "degree", "shuffle"),
)

#: Kinds of message of the links that are fuzzed alone.
_WIDTHS = (16, 24, 40)


def _records(c: Context) -> Any:
    made = np.zeros((c.s.below(4), _WIDTHS[c.of["kind"]] // 8), np.int64)
    made[:, :2] = c.s.bytes(2 * len(made)).reshape(-1, 2) % c.sizes["nodes"]
    made[:, 2:] = np.arange(made[:, 2:].size).reshape(made[:, 2:].shape)
    return made.view(np.uint8)


def _kind(c: Context) -> int:
    c.of["kind"] = kind = c.s.below(3)
    return kind


def _deferred(c: Context) -> Any:
    c.of["deferred"] = made = c.s.bytes(3) % 2 == 1
    return made


_LINKS_METHODS: dict[str, Arguments] = {
    "send": {"now": now, "kind": _kind, "records": _records, "nbytes": one_of(0, 100, 2000, 10**6)},
    "advance": {"limit": later(10**10)},
    "collect": {"time": now},
    "drain": {"until": now},
    "lost": {},
    "fail": {"machines": _machines(3), "now": now, "down": flag},
    "restore": {"machines": _machines(3), "now": now},
    "move": {"nodes": places("nodes", "m", high=3), "machines": lambda c: places("machines", "m", high=3)(c)},
    "in_flight": {},
    "logged": {},
}
LINKS = Part(
    "Links",
    {
        "machines": lambda c: c.size("machines", 1, 6),
        "machine_of": lambda c: c.s.bytes(c.size("nodes", 1, 9)).astype(np.int64) % c.sizes["machines"],
        "latency": one_of(0, 10**6, 10**8),
        "jitter": one_of(0, 0, 0, 10**5),
        "bandwidth": one_of(1000.0, 1e6, float("inf")),
        "widths": lambda c: np.array(_WIDTHS),
        "deferred": _deferred,
        "fifo": flag,
        "keep": lambda c: ~c.of["deferred"] & (c.s.bytes(3) % 2 == 1),
        "level_of": maybe(wholes(0, 63, "nodes")),
        "seed": whole(0, 255),
    },
    {
        **_LINKS_METHODS,
        "log": {"limit": one_of(1, 5, 100), "subjects": lambda c: np.array([-1, 16, 32])},
        "watch": {
            "start": one_of(0, 10**8),
            "end": one_of(10**9, 2 * 10**9),
            "width": one_of(10**8, 3 * 10**8),
        },
    },
    (
        *(
            "machines",
            "sent",
            "delivered",
            "dropped",
            "traffic",
            "bytes_out",
            "bytes_in",
            "by_level",
            "windows",
        ),
        "unlogged",
    ),
)
QUEUES = Part(
    "TaskQueues",
    {
        "speed": _few_speeds,
        "order": one_of("edf", "fifo"),
        "watch": one_of("idle", "completion"),
        "log": flag,
        "record": flag,
    },
    {
        "add_applications": {
            "release": reals(NOT_NEGATIVE, "j", 0, 3),
            "size": reals(POSITIVE, "j", 0, 3),
            "task_size": reals(POSITIVE, "j", 0, 3),
        },
        "enqueue": {
            "machines": _machines(6),
            "applications": lambda c: c.s.bytes(c.sizes["k"]).astype(np.int64) % 4,
            "tasks": wholes(1, 12, "k"),
            "now": later(10**11),
        },
        "reschedule": {"machines": _machines(), "now": now},
        "fail": {"machines": _machines(3), "now": later(10**11)},
        "advance": {"until": later(10**11), "machines": maybe(_machines())},
        "catch_up": {"until": later(10**11)},
        "next_change": {},
        "due": {"now": later(10**11)},
        "minimum_stretch": {"machines": _machines(), "now": now},
        "summaries": {
            "machines": _machines(),
            "grid": grid,
            "now": now,
            "cell": maybe(lambda c: now(c) + c.s.below(256) * 10**8),
            "threads": whole(1, 2),
        },
        "available": {
            "stretch": real(NOT_NEGATIVE),
            "release_new": real(FINITE),
            "size_new": real(POSITIVE),
            "task_size_new": real(POSITIVE),
            "now": now,
            "machines": maybe(_machines()),
        },
        "totals": {},
        "queue": {"machine": place("machines")},
        "schedule": {},
        "arrivals": {},
        "is_busy": {"machines": _machines()},
    },
    ("machines", "enqueued", "tasks_done", "order", "watch", "record", "log"),
)


def _leaves(c: Context) -> Any:
    """Speeds of the leaves; nodes of the tree are counted from them."""
    made = POSITIVE[c.s.bytes(c.size("leaves", 1, 5)) % 216]
    c.sizes["tree"], c.sizes["routers"] = 2 * len(made) - 1, len(made) - 1
    return made


def _tree_nodes(c: Context) -> Any:
    return places("tree", "k")(c)


def _leaf_nodes(c: Context) -> Any:
    return places("tree", "k", c.sizes["routers"], 3)(c)


def _reporting(c: Context) -> Any:
    c.of["nodes"] = made = ascending("tree", "k")(c)
    c.sizes["reporting"] = int(((made >= c.sizes["routers"]) & (made > 0)).sum())
    return made


def _said(dtype: str) -> Kind:
    """Messages that came of what was called before; each is handed over once."""

    def make(c: Context) -> Any:
        from gridcore import tree

        waiting = c.of.setdefault(dtype, [])
        n = min(len(waiting), 1 + c.s.below(4))
        taken = [waiting.pop(c.s.below(len(waiting))) for _ in range(n)]
        c.of["twin's"] = np.array([row for _, row in taken], getattr(tree, dtype))
        return np.array([row for row, _ in taken], getattr(tree, dtype))

    return make


def _requests(c: Context) -> Any:
    """Climbing requests, or those that a router has sent."""
    from gridcore import tree

    if c.s.chance(128):
        taken = _said("REQUEST")(c)
        here = taken["node"] < c.sizes["routers"]
        c.of["twin's"] = c.of["twin's"][here]
        return taken[here]
    made = np.zeros(c.s.below(3) if c.sizes["routers"] and c.sizes["applications"] else 0, tree.REQUEST)
    made["node"] = c.s.bytes(len(made)) % max(1, c.sizes["routers"])
    made["application"] = c.s.bytes(len(made)) % max(1, c.sizes["applications"])
    made["tasks"], made["sequence"], made["minimum"] = 1 + c.s.bytes(len(made)), -1, np.nan
    return made


TREE = Part(
    "SummaryTree",
    {
        "grid": grid,
        "speed": _leaves,
        "size": reals(POSITIVE, "applications", 0, 4),
        "task_size": reals(POSITIVE, "applications"),
        "release": maybe(reals(NOT_NEGATIVE, "applications"), 64),
        "nbytes": one_of(0, 100),
        "rate": one_of(0.0, 1000.0),
        "hold_off": one_of(0, 10**8),
        "bound": one_of(2.0, 0.0, 1.1),
    },
    {
        "route": {"rows": _requests},
        "acknowledge": {"rows": _said("REQUEST")},
        "receive": {"rows": _said("SUMMARY")},
        "ready": {"nodes": _tree_nodes, "now": later()},
        "report": {
            "nodes": _reporting,
            "now": now,
            "summaries": lambda c: cells("reporting")(c),
            "minimum": lambda c: POSITIVE[c.s.bytes(c.sizes["reporting"])],
            "cell": one_of(0.0, 1.0, 2.0),
        },
        "forget": {"rows": _said("SUMMARY")},
        "reset": {"nodes": _tree_nodes},
        "leave": {"leaves": _leaf_nodes},
        "join": {"leaves": _leaf_nodes},
        "silence": {"leaves": _leaf_nodes},
        "take_spread": {"rows": _said("SPREAD")},
        "spread": {
            "nodes": lambda c: places("routers", "k")(c),
            "always": flag,
        },
        "known": {"node": place("tree")},
        "held": {"nodes": _tree_nodes},
        "look": {"node": place("routers"), "application": place("applications")},
        "owed": {"node": place("tree")},
    },
    ("leaves", "nodes", "first_leaf", "below_window", "above_window", "payloads_in_use"),
)


def _links_of(
    c: Context, module: Any, widths: list[int], deferred: list[bool], keep: list[bool], nodes: int
) -> None:
    """Links for what runs over them; a node a machine."""
    c.sizes["nodes"] = c.sizes["machines"] = nodes
    c.of["deferred"] = np.array(deferred)
    made = module.Links(
        np.arange(nodes), nodes, widths=widths, deferred=deferred, keep=keep,
        latency=c.s.pick((0, 10**6, 10**8)), bandwidth=c.s.pick((1000.0, 1e6, float("inf"))),
        fifo=c.s.chance(128), jitter=0,
    )  # fmt: skip
    if c.s.chance(64):
        made.log(50, [16] * len(widths))
    c.of["links"] = made


def _before_walk(c: Context, module: Any) -> None:
    _links_of(c, import_module(f"{module}.links"), [24] * 4, [False] * 4, [False] * 4, c.size("nodes", 1, 9))


def _neighbours(c: Context) -> Any:
    n = c.sizes["nodes"]
    if n < 2:
        return np.zeros((n, 0), np.int32)
    step = 1 + c.s.bytes(2 * n).reshape(n, 2) % (n - 1)
    return ((np.arange(n)[:, None] + step) % n).astype(np.int32)


WALK = Part(
    "JobWalks",
    {
        "links": lambda c: c.of["links"],
        "speed": lambda c: POSITIVE[c.s.bytes(c.sizes["nodes"]) % 216],
        "kinds": lambda c: np.arange(4),
        "release": lambda c: np.cumsum(c.s.bytes(c.size("jobs", 0, 12)).astype(np.int64)) * 10**7,
        "node": lambda c: c.s.bytes(c.sizes["jobs"]).astype(np.int64) % c.sizes["nodes"],
        "work": lambda c: POSITIVE[c.s.bytes(c.sizes["jobs"]) % 216],
        "data": wholes(0, 255, "jobs"),
        "rate": lambda c: np.where((b := c.s.bytes(c.sizes["nodes"])) > 100, np.nan, b / 50),
        "probes": whole(0, 6),
        "pick": one_of("first", "best", "fastest"),
        "rule": one_of("exactly-one", "at-least-one", "none"),
        "local_threshold": one_of(0.5, 0.1, 1.0),
        "remote_threshold": one_of(1.0, 3.0),
        "min_speed": one_of(0.0, 2.0),
        "printed": flag,
        "probe_time": one_of(0, 0, 10**8),
        "packet": one_of(100, 0),
        "seed": whole(0, 255),
        "neighbours": maybe(_neighbours),
        "log": one_of(0, 5, 1000),
    },
    {
        "advance": {"limit": later(10**11)},
        "settle": {},
        "jobs": {},
        "looks": {},
        "totals": {},
    },
    ("nodes", "count", "unlogged"),
    _before_walk,
)


def _before_flow(c: Context, module: str) -> None:
    """A tree, its queues and its links."""
    from gridcore import SummaryTree, TaskQueues, links, tree
    from gridcore.flow import SHARE

    made = grid(c)
    speed = _leaves(c)
    applications = c.size("applications", 0, 3)
    size, task_size = POSITIVE[c.s.bytes(applications) % 216], POSITIVE[c.s.bytes(applications) % 216]
    c.of["tree"] = SummaryTree(
        made, speed, size=size, task_size=task_size, nbytes=100, rate=c.s.pick((0.0, 1000.0)),
        hold_off=c.s.pick((0, 10**7)), release=np.zeros(applications) if c.s.chance(64) else None,
    )  # fmt: skip
    c.of["queues"] = TaskQueues(speed)
    c.of["queues"].add_applications(np.zeros(applications), size, task_size)
    widths = [tree.SUMMARY.itemsize, tree.REQUEST.itemsize, SHARE.itemsize]
    _links_of(c, links, widths, [False, False, True], [True, True, False], 2 * len(speed) - 1)


def _flow_records(c: Context) -> Any:
    """Requests from anybody to anybody."""
    from gridcore import tree

    made = np.zeros(c.s.below(3) if c.sizes["applications"] else 0, tree.REQUEST)
    made["node"], made["sender"] = (c.s.bytes(len(made)) % c.sizes["tree"] for _ in range(2))
    made["application"] = c.s.bytes(len(made)) % max(1, c.sizes["applications"])
    made["tasks"], made["sequence"], made["minimum"] = 1 + c.s.bytes(len(made)) % 40, -1, np.nan
    return made.view(np.uint8).reshape(len(made), made.dtype.itemsize)


FLOW = Part(
    "TreeFlow",
    {
        **{name: (lambda c, name=name: c.of[name]) for name in ("tree", "queues", "links")},
        "summary": lambda c: (0, 100),
        "request": lambda c: (1, 100),
        "accept": lambda c: (2, 50),
        "idle_minimum": lambda c: np.full(c.sizes["leaves"], 0.5),
        "submitter": lambda c: c.s.bytes(c.sizes["applications"]).astype(np.int64) % c.sizes["tree"],
        "goal": one_of(2**62, 10, 0),
        "cell": one_of(0, 0, 10**9),
        "threads": one_of(1, 1, 2),
    },
    {
        "advance": {"limit": later(10**10)},
        "report": {"nodes": ascending("tree", "k"), "now": now},
        "take_turns": {"now": now},
        "take_orders": {},
        "arrived": {},
        "decisions": {},
    },
    ("goal",),
    _before_flow,
)


def _before_jobflow(c: Context, module: str) -> None:
    from gridcore import SlotSchedules, Views, jobflow, links

    nodes = c.size("nodes", 1, 9)
    c.of["schedules"] = SlotSchedules(nodes, stale=c.s.chance(128))
    c.of["views"] = Views(nodes, 1 + c.s.below(4), shuffle=1, seed=c.s.byte())
    kinds = [jobflow.CANCEL, jobflow.REQUEST, jobflow.ANSWER, jobflow.COMMIT, jobflow.REPLY]
    _links_of(c, links, [kind.itemsize for kind in kinds], [False] * 5, [False] * 5, nodes)
    jobs = c.size("jobs", 0, 6)
    names = ("attempt", "searches", "in_vain", "conflicts", "late", "reached", "end", "done")
    c.of["shared"] = {
        "jobs": {
            "phase": np.zeros(jobs, np.int8),
            "tasks": 1 + c.s.bytes(jobs).astype(np.int64) % 3,
            "length": 1 + c.s.bytes(jobs).astype(np.int64) % 9,
            "lasts": 10**8 + c.s.bytes(jobs).astype(np.int64) * 10**7,
            "submitter": c.s.bytes(jobs).astype(np.int64) % nodes,
            "first_start": np.full(jobs, -1, np.int64),
            **{name: np.zeros(jobs, np.int64) for name in names},
        },
        "nodes": {
            name: np.zeros(nodes, np.int64) for name in ("received", "changes", "busy", "tasks", "first")
        },
        "counts": np.zeros(5, np.int64),
    }


def _settings(c: Context) -> dict[str, Any]:
    made = {
        "slot": c.s.pick((10**9, 10**8, 1)), "one_way": 10**8, "latency": c.s.pick((0, 10**8)),
        "at_least": c.s.pick((0, 10**7)), "opening": c.s.pick((0, 10**6)), "period": 10**9, "width": 3, "seed": 1,
        "forward": c.s.pick((3, 1, 0)), "hops": 2, "rounds": c.s.pick((2, 1)), "tries": c.s.pick((4, 1)),
        "stale": c.of["schedules"].stale,
    }  # fmt: skip
    policy = c.s.pick(("push", "pull", "poll") if made["stale"] else ("push", "pull"))
    made |= {name: name == policy for name in ("push", "pull", "poll")}
    return made | {"wide": c.s.chance(128), "record": c.s.chance(128)}


JOBFLOW = Part(
    "JobFlow",
    {
        **{name: (lambda c, name=name: c.of[name]) for name in ("schedules", "views", "links")},
        "kinds": lambda c: [(k, 100) for k in range(5)],
        **{name: (lambda c, name=name: c.of["shared"][name]) for name in ("jobs", "nodes", "counts")},
        "settings": _settings,
    },
    {
        "bind": {name: (lambda c, name=name: c.of["shared"][name]) for name in ("jobs", "nodes", "counts")},
        "search": {"jobs": ascending("jobs", "k"), "now": now},
        "flush": {"now": now},
        "advance": {"limit": later(10**10)},
        "finish": {"now": now},
        "machines_of": {"job": place("jobs")},
        "told": {},
    },
    ("completed", "given_up", "over", "ending_now"),
    _before_jobflow,
)

#: What each target calls.
KERNELS: dict[str, tuple[Part, ...]] = {
    **FUNCTIONS,
    "central": (PULL, _bind_earliest),
    "backfill": (BACKFILL,),
    "dispatch": (WORK,),
    "slots": (SLOTS,),
    "overlay": (VIEWS,),
    "links": (LINKS,),
    "queues": (QUEUES,),
    "tree": (TREE,),
    "walk": (WALK,),
    "flow": (FLOW,),
    "jobflow": (JOBFLOW,),
}
#: They have no twin of their own.
ALONE = ("flow", "jobflow")

# -- one execution --------------------------------------------------------------------------------------------

#: Calls of an object, at most.
STEPS = 24
LATEST, NEVER = 2**61, 2**63 - 1


def made_of(c: Context, arguments: Arguments, hostile: bool, kept: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments of a call; `kept`: sizes of the object itself, the others are of this call alone."""
    for name in [name for name in c.sizes if kept and name not in kept]:
        del c.sizes[name]
    made: dict[str, Any] = {}
    for name, kind in arguments.items():
        made[name] = kind(c)
    if hostile:
        for name in made:
            if c.s.chance(28):
                made[name] = spoiled(c.s, made[name])
    return made


def outcome(of: Any, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """What a call gives, or the refusal."""
    try:
        return of(**arguments), None
    except REFUSALS as refusal:
        return None, refusal


def compare(
    what: str, ours: tuple[Any, BaseException | None], twins: tuple[Any, BaseException | None]
) -> None:
    (result, refusal), (expected, wanted) = ours, twins
    if (type(refusal), str(refusal)) != (type(wanted), str(wanted)):
        raise Disagreement(f"{what}: the kernel says {refusal!r}, its twin {wanted!r}")
    if refusal is None and not same(result, expected):
        raise Disagreement(f"{what}: the kernel gives {result!r}, its twin {expected!r}")


def function(c: Context, kernel: str, part: Part, hostile: bool) -> None:
    arguments = made_of(c, part.arguments, hostile)
    if part.name == "aggregate_into" and isinstance(arguments["children"], np.ndarray) and not hostile:
        arguments["out"] = np.zeros(arguments["children"].shape[1:], np.uint32)
    given = copied(arguments)
    ours = outcome(getattr(import_module(f"gridcore.{kernel}"), part.name), arguments)
    if not hostile:
        compare(
            part.name, ours, outcome(getattr(import_module(f"gridcore.reference.{kernel}"), part.name), given)
        )


def note(c: Context, result: Any, twins: Any) -> None:
    """Keep the messages among results of a tree, with its twin's: later calls hand them over."""
    from gridcore import tree

    pairs = zip(result, twins, strict=False) if isinstance(result, tuple) else ((result, twins),)
    for each, other in pairs:
        if isinstance(each, np.ndarray) and each.dtype.names:
            for name in ("REQUEST", "SUMMARY", "SPREAD"):
                if each.dtype == getattr(tree, name):
                    c.of.setdefault(name, []).extend(zip(copied(each), copied(other), strict=False))


def without_payloads(of: tuple[Any, BaseException | None]) -> tuple[Any, BaseException | None]:
    """Their numbers are each one's own."""
    result, refusal = of
    if isinstance(result, np.ndarray) and "payload" in (result.dtype.names or ()):
        result = copied(result)
        result["payload"] = 0
    return result, refusal


def sane(c: Context, kernel: str, part: Part) -> None:
    """The same calls of a kernel and its twin; now and then the kernel goes on from its own state in a new one."""
    if part.before is not None:
        part.before(c, "gridcore")
    links = c.of.get("links")
    arguments = made_of(c, part.arguments, False)
    module = import_module(f"gridcore.{kernel}")
    ours = outcome(getattr(module, part.name), copied(arguments))
    twins: tuple[Any, BaseException | None] | None = None
    if kernel not in ALONE:
        if links is not None:
            return hostile_object(c, kernel, part, ours[0], ())
        twins = outcome(getattr(import_module(f"gridcore.reference.{kernel}"), part.name), copied(arguments))
        if (ours[1] is None) != (twins[1] is None):
            raise Disagreement(f"{part.name}: the kernel says {ours[1]!r}, its twin {twins[1]!r}")
    if ours[1] is not None:
        return
    it, twin = ours[0], None if twins is None else twins[0]
    c.of["self"] = it
    kept, names = tuple(c.sizes), sorted(set(part.methods) - {"collect", "bind"})
    for _ in range(STEPS):
        if not c.s:
            break
        if c.s.chance(24) and hasattr(it, "getstate"):
            alone = kernel in (*ALONE, "links")  # with what it was told beside its arguments
            it = c.of["self"] = again(it, getattr(module, part.name), arguments, alone)
        name = c.s.pick(names)
        called = made_of(c, part.methods[name], False, kept)
        given = copied(called)
        result = outcome(getattr(it, name), called)
        if twin is not None:
            if "twin's" in c.of:
                given["rows"] = c.of.pop("twin's")
            expected = outcome(getattr(twin, name), given)
            if kernel == "tree":
                note(c, result[0], expected[0])
                result, expected = without_payloads(result), without_payloads(expected)
            if name != "held":
                compare(f"{part.name}.{name}", result, expected)
            if part is LINKS and name == "advance" and result[0] != NEVER:
                # who is told of an instant is to collect what is delivered then
                c.now = result[0]
                compare(
                    "Links.collect",
                    outcome(it.collect, {"time": c.now}),
                    outcome(twin.collect, {"time": c.now}),
                )
            for each in part.shown:
                if hasattr(twin, each) and not same(getattr(it, each), getattr(twin, each)):
                    raise Disagreement(
                        f"{part.name}.{each} after {name}: {getattr(it, each)!r}, its twin has {getattr(twin, each)!r}"
                    )


def again(it: Any, cls: Any, arguments: dict[str, Any], itself: bool) -> Any:
    """Another one with the state of this one; this one, where the state is not all of it."""
    try:
        state = copied(it.getstate())
    except RuntimeError:  # documented: not now
        return it
    made = it if itself or hasattr(it, "add_applications") else cls(**copied(arguments))
    try:
        made.setstate(copied(state))
    except ValueError as refusal:
        if f"{LATEST}" not in str(refusal):  # beyond which no state goes
            raise
        return it
    for name, value in copied(made.getstate()).items():
        # of a tree the places of what is not in use are others
        if not same(state[name], value) and not hasattr(made, "payloads_in_use"):
            raise Disagreement(
                f"{cls.__name__}: state[{name!r}] comes out as {value!r}, it was {state[name]!r}"
            )
    return made


def hostile_object(c: Context, kernel: str, part: Part, it: Any, names: tuple[str, ...]) -> None:
    """Anything is done to an object, and to what it was made of."""
    if it is None:
        return
    c.of["self"] = it
    others = {
        "links": (LINKS, c.of.get("links")), "tree": (TREE, c.of.get("tree")), "queues": (QUEUES, c.of.get("queues")),
        "slots": (SLOTS, c.of.get("schedules")), "overlay": (VIEWS, c.of.get("views")),
    }  # fmt: skip
    targets = [
        (part, it),
        *((of, each) for of, each in others.values() if each is not None and each is not it),
    ]
    kept = tuple(c.sizes)
    states: dict[int, Any] = {}
    for _ in range(STEPS):
        if not c.s:
            break
        of, each = targets[0] if len(targets) == 1 or c.s.chance(160) else c.s.pick(targets[1:])
        c.of["self"] = it if of is part else each
        number = c.s.below(len(of.methods) + 4)
        if number == len(of.methods):
            try:
                states[id(each)] = copied(each.getstate())
            except RuntimeError:  # documented: not now
                continue
        elif number == len(of.methods) + 1:
            if id(each) in states:
                state = states[id(each)]
                outcome(
                    each.setstate,
                    {"state": damaged(c.s, copied(state)) if c.s.chance(200) else copied(state)},
                )
        elif number == len(of.methods) + 2:
            for name in of.shown:
                getattr(each, name)
        elif number == len(of.methods) + 3:
            outcome(each.__init__, made_of(c, of.arguments, True, kept) if of is part else {})
        else:
            name = sorted(of.methods)[number]
            try:
                arguments = made_of(c, of.methods[name], True, kept)
            except (KeyError, IndexError, AttributeError, ValueError, TypeError):  # of another kind of object
                continue
            if name == "send" and kernel == "flow" and c.s.chance(128):
                arguments |= {"kind": 1, "records": _flow_records(c)}
            result = outcome(getattr(each, name), arguments)[0]
            note(c, result, result)


def hostile(c: Context, kernel: str, part: Part) -> None:
    if part.before is not None:
        part.before(c, "gridcore")
    cls = getattr(import_module(f"gridcore.{kernel}"), part.name)
    if c.s.chance(4):
        it = outcome(cls.__new__, {"cls": cls})[0]
        return hostile_object(c, kernel, part, it, ())
    arguments = made_of(c, part.arguments, c.s.chance(100))
    it = outcome(cls, arguments)[0]
    hostile_object(c, kernel, part, it, ())


def run(kernel: str, data: bytes) -> None:
    """One execution."""
    c = Context(Source(data))
    wild = c.s.byte() % 2 == 1
    part = c.s.pick(KERNELS[kernel])
    if not part.methods:
        function(c, kernel, part, wild)
    elif wild:
        hostile(c, kernel, part)
    else:
        sane(c, kernel, part)


def seeds() -> Iterator[bytes]:
    """Any bytes are an execution."""
    chance = np.random.default_rng(1)
    for n in (2, 16, 64, 200, 400):
        for _ in range(8):
            yield chance.integers(0, 256, n, np.uint8).tobytes()
            yield (chance.integers(0, 256, n) % 28).astype(np.uint8).tobytes()
