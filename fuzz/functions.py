"""Functions of kernels, with their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import FINITE, NOT_NEGATIVE, POSITIVE
from kinds import (
    Context,
    Part,
    all_or_none,
    cells,
    flag,
    grid,
    integer,
    integers,
    offsets,
    one_of,
    optional,
    real,
    reals,
    running,
)

_queue = {
    "release": reals(FINITE, "n"),
    "size": reals(POSITIVE, "n"),
    "work": reals(NOT_NEGATIVE, "n"),
}
_node = {"speed": real(POSITIVE), "free_at": real(FINITE)}
_running = {
    "running_release": all_or_none(real(FINITE), "run"),
    "running_size": all_or_none(real(POSITIVE), "run"),
}
_nodes = {
    "speed": reals(POSITIVE, "nodes", 0, 4),
    "free_at": reals(FINITE, "nodes", 0, 4),
    "running_release": all_or_none(running(FINITE), "run"),
    "running_size": all_or_none(running(POSITIVE), "run"),
}
_new = {"stretch": real(NOT_NEGATIVE), "release_new": real(FINITE), "size_new": real(POSITIVE)}


def _whole_tasks(c: Context) -> Any:
    """Draw work that is a multiple of a task size."""
    c.objects["task_size"] = size = POSITIVE[c.s.bytes(c.size("n"))]
    return size * (c.s.bytes(c.size("n")) % 5)


def _counts(c: Context) -> Any:
    return np.sort(c.s.bytes(c.size("n")).astype(np.int64)) if c.s.chance(240) else np.array(c.s.bytes(3))


def _etc(c: Context) -> Any:
    shape = c.size("rows", 0, 5), c.size("columns", 1, 5)
    return POSITIVE[c.s.bytes(shape[0] * shape[1])].reshape(shape)


def _ready(c: Context) -> Any:
    return NOT_NEGATIVE[c.s.bytes(c.size("machines", c.sizes["columns"], c.sizes["columns"]))]


def _etc_of_kinds(c: Context) -> Any:
    """Draw execution times; whole ones if machines have kinds, so that sums are exact."""
    c.objects["kind"], made = c.s.chance(128), _etc(c)
    return 1 + np.floor(made) % 16 if c.objects["kind"] else made


def _ready_kinds(c: Context) -> Any:
    n = (
        c.size("machines", 1, 6)
        if c.objects["kind"]
        else c.size("machines", c.sizes["columns"], c.sizes["columns"])
    )
    return np.floor(c.s.bytes(n) / 16) if c.objects["kind"] else NOT_NEGATIVE[c.s.bytes(n)]


def _machine_kinds(c: Context) -> Any:
    return c.s.bytes(c.sizes["machines"]).astype(np.int64) % c.sizes["columns"] if c.objects["kind"] else None


FUNCTIONS: dict[str, tuple[Part, ...]] = {
    "queues.edf": (
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
                "task_size": lambda c: c.objects["task_size"],
                **_nodes,
                "until": real(FINITE),
                "preemptive": flag,
            },
        ),
    ),
    "queues.availability": (
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
                "threads": integer(1, 2),
            },
        ),
    ),
    "fair_tree.summaries": (
        Part("aggregate", {"children": cells("children")}),
        Part(
            "aggregate_into",
            {"children": cells("children"), "out": lambda c: np.zeros(1, np.uint32)},
            written=frozenset({"out"}),
        ),
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
                "speed": optional(real(POSITIVE)),
                "leaves": optional(integer(1, 9)),
                "longest_task": optional(real(NOT_NEGATIVE)),
            },
        ),
        Part("lowest_stretch", {"totals": _counts, "n_tasks": integer(0, 255)}),
        Part("split", {"available": integers(0, 255, "n", 0, 24), "n_tasks": integer(0, 255)}),
        Part(
            "debit_drop",
            {
                "tasks": integers(0, 255, "n"),
                "task_size": reals(POSITIVE, "n"),
                "cell_task_size": real(POSITIVE),
                "leaves": integer(1, 9),
            },
        ),
        Part(
            "debit",
            {
                "grid": grid,
                "summary": cells(),
                "tasks": integers(0, 255, "n"),
                "task_size": reals(POSITIVE, "n"),
                "size": reals(POSITIVE, "n"),
                "stretch": reals(POSITIVE, "n"),
                "leaves": integer(1, 9),
                "rule": one_of("subtree", "printed"),
            },
        ),
    ),
    "network.random_neighbours": (
        Part(
            "random_neighbours",
            {
                "nodes": integer(0, 9),
                "degree": integer(0, 3),
                "stream": lambda c: np.random.default_rng(c.s.below(9)),
                "first": integer(0, 5),
                "end": integer(9, 20),
            },
        ),
    ),
    "centralized.mapping": (
        Part(
            "map_in_turn",
            {
                "etc": _etc,
                "counts": integers(0, 4, "rows", 0, 5),
                "ready": _ready,
                "rule": one_of("mct", "met", "olb", "switching", "kpb"),
                "percent": one_of(20.0, 100.0, 1.0, 60.0),
                "low": one_of(0.0, 0.3, 0.6),
                "high": one_of(0.7, 0.9, 1.0),
                "uses_met": flag,
            },
            written=frozenset({"ready"}),
        ),
        Part(
            "map_batch",
            {
                "etc": _etc_of_kinds,
                "counts": integers(0, 4, "rows", 0, 5),
                "ready": _ready_kinds,
                "rule": one_of("min-min", "max-min", "sufferage"),
                "kind": _machine_kinds,
            },
            written=frozenset({"ready"}),
        ),
    ),
}
