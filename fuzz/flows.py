"""Classes of kernels that run over links, and the objects that they need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from arrays import POSITIVE
from kinds import (
    Context,
    Part,
    all_or_none,
    ascending,
    flag,
    index_in,
    integer,
    integers,
    later_time,
    now,
    one_of,
)


def _links_of(
    c: Context, module: Any, widths: list[int], deferred: list[bool], keep: list[bool], nodes: int
) -> None:
    """Create links, with one node per machine."""
    c.sizes["nodes"] = c.sizes["machines"] = nodes
    c.objects["deferred"] = np.array(deferred)
    made = module.Links(
        np.arange(nodes), nodes, widths=widths, deferred=deferred, keep=keep,
        latency=c.s.pick((0, 10**6, 10**8)), bandwidth=c.s.pick((1000.0, 1e6, float("inf"))),
        fifo=c.s.chance(128), jitter=0,
    )  # fmt: skip
    if c.s.chance(64):
        made.log(50, [16] * len(widths))
    c.objects["links"] = made


def _prepare_walk(c: Context, module: Any) -> None:
    _links_of(
        c, import_module(f"{module}.network.links"), [24] * 4, [False] * 4, [False] * 4, c.size("nodes", 1, 9)
    )


def _neighbours(c: Context) -> Any:
    n = c.sizes["nodes"]
    if n < 2:
        return np.zeros(0, np.int64)
    step = 1 + c.s.bytes(2 * n).reshape(n, 2) % (n - 1)
    return ((np.arange(n)[:, None] + step) % n).astype(np.int64).ravel()


def _neighbour_offsets(c: Context) -> Any:
    n = c.sizes["nodes"]
    return np.arange(n + 1) * (2 if n > 1 else 0)


WALK = Part(
    "JobWalks",
    {
        "links": lambda c: c.objects["links"],
        "speed": lambda c: POSITIVE[c.s.bytes(c.sizes["nodes"]) % 216],
        "kinds": lambda c: np.arange(4),
        "release": lambda c: np.cumsum(c.s.bytes(c.size("jobs", 0, 12)).astype(np.int64)) * 10**7,
        "node": lambda c: c.s.bytes(c.sizes["jobs"]).astype(np.int64) % c.sizes["nodes"],
        "work": lambda c: POSITIVE[c.s.bytes(c.sizes["jobs"]) % 216],
        "data": integers(0, 255, "jobs"),
        "rate": lambda c: np.where((b := c.s.bytes(c.sizes["nodes"])) > 100, np.nan, b / 50),
        "probes": integer(0, 6),
        "pick": one_of("first", "best", "fastest"),
        "rule": one_of("exactly-one", "at-least-one", "none"),
        "local_threshold": one_of(0.5, 0.1, 1.0),
        "remote_threshold": one_of(1.0, 3.0),
        "min_speed": one_of(0.0, 2.0),
        "printed": flag,
        "probe_time": one_of(0, 0, 10**8),
        "queued": flag,
        "packet": one_of(100, 0),
        "seed": integer(0, 255),
        "neighbours": all_or_none(_neighbours, "overlay"),
        "neighbour_offsets": all_or_none(_neighbour_offsets, "overlay"),
        "log": one_of(0, 5, 1000),
    },
    {
        "advance": {"limit": later_time(10**11)},
        "settle": {},
        "jobs": {},
        "probe_rows": {},
        "totals": {},
    },
    ("nodes", "count", "unlogged"),
    _prepare_walk,
)


class _Node:
    """Node with random actions."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def _act(self, view: Any) -> None:
        draw = view.random.integers(6)
        if draw < 2:
            view.send(view.random.integers(self.nodes), "note", left=draw, value=view.work)
        elif draw == 2:
            view.timer(view.random.uniform(0.0, 2.0), "tick")
        elif draw == 3:
            view.cancel("tick")
        elif draw == 4:
            for application, tasks in view.queued:
                taken = view.take(application, view.random.integers(tasks + 2))
                if taken:
                    self.on_release(view, application, taken)

    def on_start(self, view: Any) -> None:
        self._act(view)

    on_idle = on_start

    def on_timer(self, view: Any, _: str) -> None:
        self._act(view)

    def on_release(self, view: Any, application: int, tasks: int) -> None:
        local_tasks = view.random.integers(tasks + 1)
        if local_tasks:
            view.enqueue(application, local_tasks)
        if local_tasks < tasks:
            view.send(
                view.random.integers(self.nodes), "share", application=application, tasks=tasks - local_tasks
            )

    on_lost = on_release

    def on_message(self, view: Any, message: Any) -> None:
        if message.kind == "share":
            view.enqueue(message.application, message.tasks)
        elif message.left:
            view.send(message.sender, "note", left=message.left - 1, value=message.value)


def _prepare_nodes(c: Context, module: str) -> None:
    from gridcore import TaskQueues
    from gridcore.network import links

    nodes = c.size("nodes", 1, 6)
    applications = c.size("applications", 0, 4)
    c.objects["queues"] = TaskQueues(POSITIVE[c.s.bytes(nodes) % 216], order=c.s.pick(("edf", "fifo")))
    size, task_size = POSITIVE[c.s.bytes(applications) % 216], POSITIVE[c.s.bytes(applications) % 216]
    c.objects["queues"].add_applications(np.zeros(applications), size, task_size)
    _links_of(c, links, [32, 32], [False, False], [False, True], nodes)


NODES = Part(
    "NodeCore",
    {
        "links": lambda c: c.objects["links"],
        "queues": lambda c: c.objects["queues"],
        "programs": lambda c: [_Node(c.sizes["nodes"]) for _ in range(c.sizes["nodes"])],
        "kinds": lambda c: [
            ("note", 0, 100, {"left": int, "value": float}, False, ("on_message",)),
            ("share", 1, 500, {"application": int, "tasks": int}, True, ("on_message",)),
        ],
        "timers": one_of((("tick",),)),
        "roles": lambda c: [("", "_Node", c.sizes["nodes"], ("on_start", "on_idle", "on_timer"))],
        "neighbours": _neighbours,
        "neighbour_offsets": _neighbour_offsets,
        "up": lambda c: c.s.bytes(c.sizes["nodes"]) % 8 > 0,
        "release": lambda c: np.cumsum(c.s.bytes(c.sizes["applications"]).astype(np.int64)) * 10**7,
        "submitter": lambda c: c.s.bytes(c.sizes["applications"]).astype(np.int64) % c.sizes["nodes"],
        "tasks": lambda c: 1 + c.s.bytes(c.sizes["applications"]).astype(np.int64) % 9,
        "application": one_of(int),
        "seed": integer(0, 255),
        **{name: (lambda c: lambda *_: None) for name in ("report_lost", "add_note", "record_decision")},
        "convert": lambda c: lambda kind, value, *_: kind(value),
        "error_type": one_of(ValueError),
        "report_endless": lambda c: lambda *_: ValueError("endless"),
    },
    {
        "advance": {"limit": later_time(10**11)},
        "flush": {},
        "begin": {"machines": ascending("nodes", "k")},
        "resubmit": {
            "applications": ascending("applications", "k"),
            "tasks": lambda c: np.ones(len(np.unique(c.s.bytes(c.sizes.get("k", 0)))), np.int64),
            "now": now,
        },
        "work_of": {"machine": index_in("nodes")},
        "waiting_at": {"machine": index_in("nodes")},
        "tasks_at": {"machine": index_in("nodes")},
    },
    ("nodes", "now", "events", "finished", "is_exhausted"),
    _prepare_nodes,
)
