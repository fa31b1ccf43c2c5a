"""Classes of kernels, with the arguments of constructors and methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import FINITE, NOT_NEGATIVE, POSITIVE
from kinds import (
    Arguments,
    Context,
    Kind,
    Part,
    ascending,
    flag,
    flags,
    grid,
    index_in,
    indices_in,
    integer,
    integers,
    later_time,
    now,
    object_time,
    one_of,
    optional,
    real,
    reals,
)

_state: Arguments = {}
_speeds = reals(POSITIVE, "machines", 0, 70)
_few_speeds = reals(POSITIVE, "machines", 1, 9)


def _machines(high: int = 8) -> Kind:
    return indices_in("machines", "k", high=high)


bind_earliest = Part(
    "bind_earliest",
    {
        "free_at": lambda c: c.s.bytes(c.size("n")).astype(np.int64) * 10**7,
        "speed": reals(POSITIVE, "n"),
        "task_size": real(POSITIVE),
        "n_tasks": integer(0, 255),
        "now": integer(0, 255),
    },
    written=frozenset({"free_at"}),
)
ENDS = Part(
    "EarliestEnds",
    {"speed": _speeds},
    {
        "restart": {
            "free_at": lambda c: c.s.bytes(c.size("machines")).astype(np.int64) * 10**7,
            "up": flags("machines"),
            "now": now,
        },
        "bind": {
            "free_at": lambda c: c.s.bytes(c.sizes["machines"]).astype(np.int64) * 10**7,
            "task_size": real(POSITIVE),
            "n_tasks": integer(0, 255),
            "now": later_time(10**11),
        },
    },
    ("now", "machines", "kinds"),
    written=frozenset({"restart.free_at", "bind.free_at"}),
)
PULL = Part(
    "PullQueue",
    {"speed": _speeds, "applications": lambda c: c.size("applications", 0, 5), "log": flag},
    {
        "run": {
            "until": later_time(10**11),
            "order": indices_in("applications", "k"),
            "left": lambda c: c.s.bytes(c.sizes["applications"]).astype(np.int64) % 9,
            "task_size": lambda c: POSITIVE[c.s.bytes(c.sizes["applications"])],
        },
        "run_released": {
            "until": later_time(10**11),
            "released": lambda c: np.cumsum(c.s.bytes(c.sizes["applications"]).astype(np.int64)) * 10**7,
            "left": lambda c: c.s.bytes(c.sizes["applications"]).astype(np.int64) % 9,
            "task_size": lambda c: POSITIVE[c.s.bytes(c.sizes["applications"])],
            "first": integer(0, 0),
            "n_released": integer(0, 0),
            "waiting": integer(0, 9),
        },
        "fail": {"machines": _machines(), "now": object_time},
        "restore": {"machines": _machines(), "now": object_time},
        "backlog": {"now": now},
        "totals": {},
        "starts": {},
    },
    ("free_at", "now", "machines", "applications", "log"),
    written=frozenset({"run.left", "run_released.left"}),
)


def _offsets(c: Context) -> Any:
    """Draw where the predecessors of each application begin."""
    offsets = np.append(0, np.cumsum(c.s.bytes(c.sizes["applications"]).astype(np.int64) % 3))
    c.sizes["sum"] = int(offsets[-1])
    return offsets


RELEASES = Part(
    "ReleaseQueue",
    {
        "release": lambda c: c.s.bytes(c.size("applications", 0, 12)).astype(np.int64) % 64,
        "offsets": _offsets,
        "predecessors": lambda c: (
            c.s.bytes(c.sizes["sum"]).astype(np.int64) % max(1, c.sizes["applications"])
        ),
        "think": integers(0, 30, "applications"),
    },
    {
        "take": {"now": integer(0, 255)},
        "end": {"applications": indices_in("applications", "k"), "now": integer(0, 255)},
        "skip": {"applications": indices_in("applications", "k")},
        "close": {"now": integer(0, 255)},
        "next_release": {},
    },
    ("applications", "release"),
)
BACKFILL = Part(
    "JobQueue",
    {
        "machines": lambda c: c.size("machines", 1, 70),
        "nodes": lambda c: 1 + c.s.bytes(c.size("jobs", 0, 12)).astype(np.int64) % c.sizes["machines"],
        "run": integers(1, 200, "jobs"),
        "estimate": integers(1, 200, "jobs"),
        "depth": one_of(0, 1, 3),
        "conservative": flag,
        "order": one_of(None, None, "sjf", "saf", "wfp", "unicef"),
        "log": flag,
    },
    {
        "submit": {"jobs": ascending("jobs", "k"), "now": lambda c: object_time(c) + c.s.below(40)},
        "run": {"until": lambda c: object_time(c) + c.s.below(256)},
        "fail": {"machines": ascending("machines", "k"), "now": object_time},
        "restore": {"machines": ascending("machines", "k"), "now": object_time},
        "next_end": {},
        "totals": {},
        "starts": {},
    },
    ("machines", "jobs", "now", "depth", "conservative", "log"),
)
SHARED = Part(
    "SharedQueue",
    {
        "cores": integers(1, 8, "machines", 1, 9),
        "tasks": integers(1, 4, "jobs"),
        "run": integers(1, 200, "jobs"),
        "estimate": integers(1, 200, "jobs"),
        "task_cores": integers(1, 3, "jobs"),
        "placement": one_of("first", "best", "spread"),
        "backfill": flag,
        "order": one_of(None, None, "sjf", "saf", "wfp", "unicef"),
        "log": flag,
    },
    BACKFILL.methods,
    ("machines", "jobs", "now", "backfill", "log"),
)


MANUAL = Part(
    "ManualQueue",
    {
        "machines": lambda c: c.size("machines", 1, 70),
        "nodes": lambda c: 1 + c.s.bytes(c.size("jobs", 0, 12)).astype(np.int64) % c.sizes["machines"],
        "run": integers(1, 200, "jobs"),
        "estimate": integers(1, 200, "jobs"),
        "log": flag,
    },
    {
        "submit": {"jobs": ascending("jobs", "k"), "now": lambda c: object_time(c) + c.s.below(40)},
        "advance": {"until": lambda c: object_time(c) + c.s.below(256)},
        "start_job": {"job": index_in("jobs")},
        "kill_job": {"job": index_in("jobs")},
        "reject_job": {"job": index_in("jobs")},
        "estimate_job": {"job": index_in("jobs"), "estimate": integer(1, 200)},
        "wake": {"at": lambda c: object_time(c) + c.s.below(40)},
        "fail": {"machines": ascending("machines", "k"), "now": object_time},
        "restore": {"machines": ascending("machines", "k"), "now": object_time},
        "free_machines": {},
        "waiting_jobs": {},
        "running_jobs": {},
        "profile": {},
        "totals": {},
        "starts": {},
    },
    ("machines", "jobs", "now", "log"),
)
PROFILE = Part(
    "StepProfile",
    {"now": integer(0, 255), "free": integer(0, 70)},
    {
        "reserve": {"nodes": integer(1, 70), "duration": integer(1, 200), "at": later_time},
        "earliest": {"nodes": integer(1, 70), "duration": integer(1, 200)},
        "free": {"at": later_time},
        "steps": {},
    },
    ("now",),
)


def _tasks(c: Context) -> Any:
    made = 1 + c.s.bytes(c.size("bags", 0, 4)).astype(np.int64) % 5
    c.sizes["tasks"] = int(made.sum())
    c.objects["tasks"] = made
    return made


def _sequence(c: Context) -> Any:
    bags = c.objects["tasks"]
    n = int(bags[c.objects["bag"]]) if len(bags) else 0
    if c.s.chance(64):
        return None  # by size
    return np.argsort(c.s.bytes(n), kind="stable")


def _bag(c: Context) -> int:
    c.objects["bag"] = bag = c.s.below(max(1, c.sizes["bags"]))
    return bag


def _task(c: Context) -> int:
    return c.s.below(5)


def _fault_times(c: Context) -> Any:
    n = c.size("k", 0, 6 if c.sizes["machines"] else 0)
    return object_time(c) + np.cumsum(c.s.bytes(n).astype(np.int64)) * 10**7


def _steps(kind: Kind) -> Kind:
    return lambda c: kind(c) if c.objects["period"] else None


def _remembered(name: str, kind: Kind) -> Kind:
    def make(c: Context) -> Any:
        c.objects[name] = kind(c)
        return c.objects[name]

    return make


def _period(c: Context) -> int:
    """Draw a period; 0 if a task would take a million of them, since the reference steps through them."""
    slowest, largest = c.objects["speed"].min(initial=1.0), c.objects["sizes"].max(initial=0.0)
    c.objects["period"] = c.s.pick((0, 0, 10**9, 7 * 10**8)) if largest < 1e5 * slowest else 0
    return int(c.objects["period"])


WORK = Part(
    "WorkQueue",
    {
        "speed": _remembered("speed", reals(POSITIVE, "machines", 0, 70)),
        "tasks": _tasks,
        "sizes": _remembered("sizes", lambda c: POSITIVE[c.s.bytes(c.sizes["tasks"])]),
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
        "seed": integer(0, 255),
        "log": flag,
        "period": _period,
        "factors": _steps(lambda c: (1 + c.s.bytes(6).astype(np.float64)).reshape(2, 3) / 16),
        "series": _steps(lambda c: c.s.bytes(c.sizes["machines"]).astype(np.int64) % 2),
        "first": _steps(lambda c: c.s.bytes(c.sizes["machines"]).astype(np.int64) % 3),
        "step": flag,
        "phase": lambda c: c.s.pick((0, 1, 3 * 10**8)) if c.objects["period"] else 0,
    },
    {
        "submit": {"bag": _bag, "sequence": _sequence},
        "feed": {
            "time": _fault_times,
            "machine": lambda c: c.s.bytes(c.size("k", 0, 0)).astype(np.int64) % max(1, c.sizes["machines"]),
            "up": flags("k"),
            "until": integers(0, 255, "k"),
        },
        "run": {"until": lambda c: object_time(c) + c.s.below(256) ** 2 * 10**7},
        "candidates": {},
        "idle_machines": {},
        "lasts": {"bag": _bag, "task": _task, "machines": _machines()},
        "pick_task": {},
        "pick_machine": {"bag": _bag, "task": _task},
        "assign": {"bag": _bag, "task": _task, "machine": index_in("machines")},
        "wait": {},
        "weigh": {"bag": _bag, "task": _task, "machine": index_in("machines")},
        "totals": {},
        "copies": {},
    },
    ("machines", "bags", "now", "left", "log", "n_examined"),
)
_slot = integer(0, 120)


def _as_of(c: Context) -> Any:
    """Draw the time at which all nodes were seen, or None."""
    c.objects["as_of"] = made = (
        now(c) - c.s.below(99) if c.objects["self"].stale and c.s.chance(128) else None
    )
    return made


SLOTS = Part(
    "SlotSchedules",
    {"nodes": lambda c: c.size("nodes", 1, 9), "stale": flag},
    {
        "reserve": {
            "nodes": indices_in("nodes", "k"),
            "starts": integers(0, 200, "k"),
            "slots": integers(1, 40, "k"),
            "jobs": integers(0, 9, "k"),
            "now": later_time(1000, 1),
        },
        "release": {
            "nodes": indices_in("nodes", "k"),
            "starts": integers(0, 200, "k"),
            "now": later_time(1000, 1),
            "ends": optional(integers(0, 255, "k")),
            "jobs": optional(integers(0, 9, "k")),
        },
        "lose": {"nodes": indices_in("nodes", "k"), "slot": _slot, "now": later_time(1000, 1)},
        "forget": {"slot": integer(0, 9), "released_by": integer(0, 9)},
        "reservations": {"node": index_in("nodes")},
        "is_free": {
            "nodes": indices_in("nodes", "k"),
            "start": _slot,
            "slots": integer(1, 40),
            "as_of": _as_of,
            "own_job": one_of(None, 0, 3),
        },
        "earliest_start": {
            "candidates": ascending("nodes", "k"),
            "n_nodes": integer(1, 4),
            "slots": one_of(1, 2, 7, 40, 1500),
            "not_before": _slot,
            "as_of": _as_of,
            "own_job": one_of(None, 0, 3),
        },
        "search": {
            "views": lambda c: (
                c.s.bytes(3 * c.sizes["nodes"]).astype(np.int32).reshape(-1, 3) % (c.sizes["nodes"] + 1) - 1
            ),
            "searchers": indices_in("nodes", "k"),
            "n_nodes": integers(1, 4, "k"),
            "slots": one_of(1, 2, 7, 40, 1500),
            "not_before": _slot,
            "exclude": lambda c: c.s.below(c.sizes["nodes"] + 1) - 1,
            "hops": integer(1, 3),
            "wide": flag,
            "known_down": optional(flags("nodes")),
            "suitable": optional(flags("nodes")),
            "as_of": _as_of,
            "poll_period": lambda c: c.s.pick((0, 7)) if c.objects["as_of"] is not None else 0,
            "until": now,
            "include_searcher": flag,
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
        "seed": integer(0, 255),
    },
    {
        "in_degree": {},
        "pick": {
            "nodes": indices_in("nodes", "k"),
            "first": integers(0, 255, "k"),
            "second": integers(0, 255, "k"),
            "count": integer(0, 14),
            "seed": integer(0, 255),
            "known_down": optional(flags("nodes")),
        },
        "cycle": {"up": optional(flags("nodes"))},
        "leave": {"nodes": indices_in("nodes", "k", high=3)},
        "join": {
            "node": index_in("nodes"),
            "introducer": index_in("nodes"),
            "steps": integer(0, 6),
            "up": optional(flags("nodes")),
        },
    },
    ("views", "ages", "nodes", "degree", "shuffle"),
)

#: Record widths (bytes) of the kinds of messages.
_WIDTHS = (16, 27, 40)


def _records(c: Context) -> Any:
    width = _WIDTHS[c.objects["kind"]]
    made = np.zeros((c.s.below(4), -(-width // 8)), np.int64)
    made[:, :2] = c.s.bytes(2 * len(made)).reshape(-1, 2) % c.sizes["nodes"]
    made[:, 2:] = np.arange(made[:, 2:].size).reshape(made[:, 2:].shape)
    return made.view(np.uint8)[:, :width].copy()


def _kind(c: Context) -> int:
    c.objects["kind"] = kind = c.s.below(3)
    return kind


def _deferred(c: Context) -> Any:
    c.objects["deferred"] = made = c.s.bytes(3) % 2 == 1
    return made


_LINKS_METHODS: dict[str, Arguments] = {
    "send": {"now": now, "kind": _kind, "records": _records, "nbytes": one_of(0, 100, 2000, 10**6)},
    "advance": {"limit": later_time(10**10)},
    "collect": {"time": now},
    "drain": {"until": now},
    "lost": {},
    "fail": {"machines": _machines(3), "now": now, "down": flag},
    "restore": {"machines": _machines(3), "now": now},
    "move": {
        "nodes": indices_in("nodes", "m", high=3),
        "machines": lambda c: indices_in("machines", "m", high=3)(c),
    },
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
        "keep": lambda c: ~c.objects["deferred"] & (c.s.bytes(3) % 2 == 1),
        "level_of": optional(integers(0, 63, "nodes")),
        "seed": integer(0, 255),
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
            "tasks": integers(1, 12, "k"),
            "now": later_time(10**11),
        },
        "withdraw": {
            "machine": index_in("machines"),
            "application": lambda c: c.s.byte() % 4,
            "tasks": lambda c: c.s.byte() % 16,
            "now": later_time(10**11),
        },
        "reschedule": {"machines": _machines(), "now": now},
        "fail": {"machines": _machines(3), "now": later_time(10**11)},
        "advance": {"until": later_time(10**11), "machines": optional(_machines())},
        "catch_up": {"until": later_time(10**11)},
        "next_change": {},
        "due": {"now": later_time(10**11)},
        "minimum_stretch": {"machines": _machines(), "now": now},
        "summaries": {
            "machines": _machines(),
            "grid": grid,
            "now": now,
            "cell": optional(lambda c: now(c) + c.s.below(256) * 10**8),
            "threads": integer(1, 2),
        },
        "available": {
            "stretch": real(NOT_NEGATIVE),
            "release_new": real(FINITE),
            "size_new": real(POSITIVE),
            "task_size_new": real(POSITIVE),
            "now": now,
            "machines": optional(_machines()),
        },
        "totals": {},
        "queue": {"machine": index_in("machines")},
        "schedule": {},
        "arrivals": {},
        "is_busy": {"machines": _machines()},
        "running_count": {"machine": index_in("machines"), "now": later_time(10**11)},
    },
    ("machines", "enqueued", "tasks_done", "order", "watch", "record", "log"),
)


_memory = integers(0, 9, "j")
CORE_QUEUES = Part(
    "CoreQueues",
    {
        **QUEUES.arguments,
        "cores": integers(1, 4, "machines"),
        "memory": optional(integers(0, 12, "machines")),
    },
    {
        **QUEUES.methods,
        "add_applications": {**QUEUES.methods["add_applications"], "memory": optional(_memory)},
        "available": {**QUEUES.methods["available"], "memory": lambda c: c.s.byte() % 16},
    },
    (*QUEUES.attributes, "cores"),
)
_bytes = {name: optional(reals(NOT_NEGATIVE, "j", 0, 3)) for name in ("input_bytes", "output_bytes")}
DATA_QUEUES = Part(
    "DataQueues",
    {**QUEUES.arguments, "bandwidth": reals(POSITIVE, "machines", 1, 9), "aware": flag},
    {
        **QUEUES.methods,
        "add_applications": {**QUEUES.methods["add_applications"], **_bytes},
        "capacity_of": {
            "stretch": real(NOT_NEGATIVE),
            "application": lambda c: c.s.byte() % 4,
            "now": now,
            "machines": _machines(),
        },
    },
    (*QUEUES.attributes, "aware"),
)


def leaves(c: Context) -> Any:
    """Draw speeds of leaves, and set the sizes of the tree."""
    made = POSITIVE[c.s.bytes(c.size("leaves", 1, 5)) % 216]
    c.sizes["tree"], c.sizes["routers"] = 2 * len(made) - 1, len(made) - 1
    return made


def _tree_nodes(c: Context) -> Any:
    return indices_in("tree", "k")(c)


TREE = Part(
    "SummaryTree",
    {
        "grid": grid,
        "speed": leaves,
        "size": reals(POSITIVE, "applications", 0, 4),
        "task_size": reals(POSITIVE, "applications"),
        "release": reals(NOT_NEGATIVE, "applications"),
        "common_release": flag,
        "nbytes": one_of(0, 100),
        "rate": one_of(0.0, 1000.0),
        "hold_off": one_of(0, 10**8),
        "bound": one_of(2.0, 0.0, 1.1),
    },
    {
        "add_applications": {
            "release": reals(NOT_NEGATIVE, "j", 0, 3),
            "size": reals(POSITIVE, "j", 0, 3),
            "task_size": reals(POSITIVE, "j", 0, 3),
        },
        "reset": {"nodes": _tree_nodes},
        "leave": {"nodes": _tree_nodes},
        "silence": {"nodes": _tree_nodes},
    },
    ("leaves", "nodes", "first_leaf", "below_window", "above_window", "payloads_in_use"),
)
STREAM = Part(
    "RandomStream",
    {"seed": integer(0, 255), "node": integer(0, 255)},
    {
        "random": {"size": optional(integer(0, 5))},
        "uniform": {"low": real(FINITE), "high": real(FINITE), "size": optional(integer(0, 5))},
        "exponential": {"scale": real(NOT_NEGATIVE), "size": optional(integer(0, 5))},
        "normal": {"loc": real(FINITE), "scale": real(NOT_NEGATIVE), "size": optional(integer(0, 5))},
        "integers": {
            "low": integer(-99, 99),
            "high": optional(integer(-99, 255)),
            "size": optional(integer(0, 5)),
        },
        "permutation": {"x": integer(0, 9)},
        "choice": {"a": integer(0, 9), "size": optional(integer(0, 9)), "replace": flag},
    },
    ("drawn",),
)
