"""Reference implementation of `gridcore.fair_tree.summary_tree`: one object per node."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.state import LATEST
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference.arguments import (
    FINITE,
    NUMBER,
    POSITIVE,
    check_array,
    check_instant,
    check_lengths,
    doubles,
    integers,
)
from tests.reference.summaries import aggregate, closed, lookup, owed_drop, split

__all__ = ["DECISION", "NEVER", "REQUEST", "SPREAD", "SUMMARY", "SummaryTree"]

NEVER = 2**63 - 1

Rows = NDArray[Any]
Integers = NDArray[np.int64]
Cells = NDArray[np.uint32]

REQUEST = np.dtype(
    [
        ("node", "i8"),
        ("sender", "i8"),
        ("application", "i8"),
        ("tasks", "i8"),
        ("sequence", "i8"),
        ("minimum", "f8"),
        ("hops", "i8"),
    ]
)
SUMMARY = np.dtype(
    [
        ("node", "i8"),
        ("sender", "i8"),
        ("payload", "i8"),
        ("sequence", "i8"),
        ("echo", "i8"),
        ("minimum", "f8"),
        ("since", "i8"),
    ]
)
SPREAD = np.dtype([("node", "i8"), ("sender", "i8"), ("minimum", "f8")])
DECISION = np.dtype(
    [
        ("node", "i8"),
        ("application", "i8"),
        ("tasks", "i8"),
        ("sample", "i8"),
        ("guaranteed", "i8"),
        ("hops", "i8"),
    ]
)


@dataclass(frozen=True)
class Debt:
    """A dispatch that the child's summary does not know of yet."""

    sequence: int
    tasks: int
    task_size: float
    size: float
    stretch: float
    release: float


@dataclass
class Node:
    """One node: what its parent knows of it, and what it has said and got itself."""

    leaves: int
    power: float
    # with the parent
    held: int = -1
    held_minimum: float = math.inf
    heard: int = -1
    issued: int = 0
    told: float = math.inf
    ledger: list[Debt] = field(default_factory=list)
    # with the node
    said: int = -1
    said_minimum: float = math.inf
    number: int = 0
    got: int = -1
    asked: bool = False
    rest: float = math.inf
    free_at: int = 0
    due_at: int | None = None
    since: int = NEVER
    away: Literal["", "silent", "gone"] = ""  # gone: and its parent knows


@dataclass
class Payload:
    """A summary, and how many places still refer to it."""

    cells: Cells
    release: float  # s, that it was sampled for; inf of idle leaves, whose is any
    references: int


class SummaryTree:
    """See `gridcore.fair_tree.summary_tree.SummaryTree`."""

    def __init__(
        self,
        grid: SummaryGrid,
        speed: ArrayLike,
        *,
        release: ArrayLike,
        size: ArrayLike,
        task_size: ArrayLike,
        nbytes: int,
        rate: float = 0.0,
        hold_off: int = 0,
        bound: float = 2.0,
        celled: bool = False,
    ) -> None:
        speeds = doubles(speed, "speed")
        check_array(speeds, "speed", POSITIVE)
        if len(speeds) < 1:
            raise ValueError("speed must have at least one entry, got 0")
        if not (rate >= 0 and bound >= 0 and hold_off >= 0 and nbytes >= 0):
            raise ValueError(
                f"rate, bound, hold_off and nbytes must be >= 0, got {float(rate)}, {float(bound)}, "
                f"{hold_off}, {nbytes}"
            )
        if type(grid) is not SummaryGrid:
            raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
        if hold_off > LATEST:
            raise ValueError(f"hold_off must be at most {LATEST} ns, got {hold_off}")
        self.grid, self._speed = grid, speeds
        self.leaves, self.nodes, self.first_leaf = len(speeds), 2 * len(speeds) - 1, len(speeds) - 1
        self._bound, self._hold_off = float(bound), hold_off
        gap = nbytes / rate * 1e9 if rate > 0 else 0.0
        if not gap < 2.0**62:
            raise ValueError(
                f"rate must allow a summary of {nbytes} bytes within 2**62 ns, got {float(rate)}"
            )
        self._gap = math.ceil(gap)
        self._celled = celled
        self._released: list[float] = []
        self._size: list[float] = []
        self._task_size: list[float] = []
        self.add_applications(release, size, task_size)
        self._payloads: dict[int, Payload] = {}
        self._next_handle = 0
        self.below_window = self.above_window = 0
        self._node: dict[int, Node] = {}
        for k in range(self.nodes - 1, -1, -1):
            if k >= self.first_leaf:
                self._node[k] = Node(1, speeds[k - self.first_leaf])
            else:
                left, right = self._children(k)
                self._node[k] = Node(left.leaves + right.leaves, left.power + right.power)

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike) -> None:
        """Append applications; their indices are consecutive."""
        r, w, a = doubles(release, "release"), doubles(size, "size"), doubles(task_size, "task_size")
        check_array(r, "release", FINITE)
        check_array(w, "size", POSITIVE)
        check_array(a, "task_size", POSITIVE)
        check_lengths(len(w), len(a), "size", "task_size")
        check_lengths(len(w), len(r), "size", "release")
        self._released, self._size, self._task_size = self._released + r, self._size + w, self._task_size + a

    def _children(self, k: int) -> tuple[Node, Node]:
        return self._node[2 * k + 1], self._node[2 * k + 2]

    # -- payloads and ledgers -------------------------------------------------------------------------

    @property
    def payloads_in_use(self) -> int:
        """Summaries that a sender, a message or a parent refers to."""
        return len(self._payloads)

    def _release(self, handle: int) -> None:
        if handle >= 0:
            self._payloads[handle].references -= 1
            if self._payloads[handle].references == 0:
                del self._payloads[handle]

    def _instant(self, child: Node, now: float) -> float:
        """The release that the summary of `child` was sampled for, as read at `now` s."""
        release = self._payloads[child.held].release
        return release if self._celled else min(release, now)

    def _read(self, child: Node, now: float) -> Cells:
        """What the parent may count on from `child` at `now` s."""
        if child.held < 0:
            return np.zeros(self.grid.shape, np.uint32)
        cells = self._payloads[child.held].cells
        if not child.ledger:
            return cells
        counts = [debt.tasks for debt in child.ledger]
        sizes = [debt.task_size for debt in child.ledger]
        leaves = max(1, child.leaves)
        drops = [owed_drop(counts, sizes, cell, leaves) for cell in self.grid.task_size.tolist()]
        left = np.maximum(0, cells.astype(np.int64) - drops)
        applications = [debt.size for debt in child.ledger]
        ages = [max(0.0, self._instant(child, now) - debt.release) for debt in child.ledger]
        stretches = [debt.stretch for debt in child.ledger]
        return closed(left, self.grid, counts, applications, stretches, ages)

    # -- requests ---------------------------------------------------------------------------------------

    def route(self, rows: Rows, now: int) -> tuple[Rows, Rows]:
        """Decide on requests at routers at `now` ns; returns (requests to send, decisions taken)."""
        for k, row in enumerate(_checked(rows, REQUEST)):
            if not 0 <= row["node"] < self.first_leaf:
                raise ValueError(
                    f"rows[{k}].node must be a router 0..{self.first_leaf - 1}, got {row['node']}"
                )
            if not 0 <= row["application"] < len(self._size):
                last = len(self._size) - 1
                raise ValueError(f"rows[{k}].application must be in 0..{last}, got {row['application']}")
            if not 1 <= row["tasks"] < 2**52:
                raise ValueError(f"rows[{k}].tasks must be in 1..{2**52 - 1}, got {row['tasks']}")
        check_instant(now, "now")
        sent: list[tuple[Any, ...]] = []
        decisions: list[tuple[Any, ...]] = []
        for row in rows:
            values: tuple[Any, ...] = row.tolist()
            self._route(*values, now=now / 1e9, sent=sent, decisions=decisions)
        return np.array(sent, REQUEST), np.array(decisions, DECISION)

    def _route(
        self,
        u: int,
        sender: int,
        application: int,
        tasks: int,
        sequence: int,
        minimum: float,
        hops: int,
        *,
        now: float,
        sent: list[tuple[Any, ...]],
        decisions: list[tuple[Any, ...]],
    ) -> None:
        node, children = self._node[u], self._children(u)
        climbing = sequence < 0
        if not climbing:
            node.got, node.asked = max(node.got, sequence), True
            if not math.isnan(minimum):
                node.rest = minimum
        rooms = self._rooms(children, application, now)
        hosts = [i for i, room in enumerate(rooms) if sum(room) >= tasks]
        if climbing and u > 0:
            least = self._minimum(node, children)
            accepted = hosts and math.isfinite(least) and self.grid.stretch[hosts[0]] <= self._bound * least
            if not accepted:
                sent.append(((u - 1) // 2, u, application, tasks, sequence, minimum, hops + 1))
                return
        if hosts:
            sample, stretch = hosts[0], float(self.grid.stretch[hosts[0]])
            shares = split(rooms[sample], tasks).tolist()
            self.below_window += sample == 0
        else:
            # each child gets what it guarantees, the remainder goes by speed, and no stretch is kept
            sample, stretch = -1, math.inf
            beyond = tasks - sum(rooms[-1])
            power = children[0].power + children[1].power
            part = children[0].power / power if power > 0.0 else 0.5
            first = math.floor(beyond * part + 0.5)
            shares = [rooms[-1][0] + first, rooms[-1][1] + beyond - first]
            self.above_window += 1
        decisions.append((u, application, tasks, sample, bool(hosts), hops if climbing else -1))
        for j, (child, share) in enumerate(zip(children, shares, strict=True)):
            if share == 0:
                continue
            child.issued += 1
            r, w, a = self._released[application], self._size[application], self._task_size[application]
            child.ledger.insert(0, Debt(child.issued, share, a, w, stretch, r))
            child.told = min(node.rest, children[1 - j].held_minimum)
            sent.append((2 * u + 1 + j, u, application, share, child.issued, child.told, hops))

    def _minimum(self, node: Node, children: tuple[Node, Node]) -> float:
        return min(node.rest, *(child.held_minimum for child in children))

    def _rooms(self, children: tuple[Node, Node], application: int, now: float) -> list[list[int]]:
        """How many tasks each child hosts, for each stretch sample."""
        w, a = self._size[application], self._task_size[application]
        if w < self.grid.size[0] or a > self.grid.task_size[-1]:
            return [[0, 0] for _ in self.grid.stretch]
        left, right = (self._room(child, application, now) for child in children)
        return [list(pair) for pair in zip(left, right, strict=True)]

    def _room(self, child: Node, application: int, now: float) -> list[int]:
        if child.held < 0:
            return [0 for _ in self.grid.stretch]
        cells = self._read(child, now)
        r, w, a = self._released[application], self._size[application], self._task_size[application]
        here = self._instant(child, now)
        longest = float(max(self._task_size))  # of all applications: the parent knows no better
        return [
            lookup(
                cells, self.grid, stretch, w, a,
                release=r, cell_release=here if self._celled else max(here, r),
                speed=max(child.power, 5e-324), leaves=max(1, child.leaves), longest_task=longest,
            )
            if stretch * w > now - r else 0
            for stretch in self.grid.stretch.tolist()
        ]  # fmt: skip

    def acknowledge(self, rows: Rows) -> None:
        """Leaves have got these requests: their next summaries say so."""
        for k, row in enumerate(_checked(rows, REQUEST)):
            if not 0 <= row["node"] < self.nodes:
                raise ValueError(f"rows[{k}].node must be in 0..{self.nodes - 1}, got {row['node']}")
        for row in rows:
            node = self._node[int(row["node"])]
            node.got, node.asked = max(node.got, int(row["sequence"])), True

    # -- summaries ----------------------------------------------------------------------------------------

    def receive(self, rows: Rows) -> None:
        """Parents take in the summaries of their children; stale ones are dropped."""
        for k, row in enumerate(_checked(rows, SUMMARY)):
            sender, receiver = int(row["sender"]), int(row["node"])
            if not (0 < sender < self.nodes and receiver == (sender - 1) // 2):
                raise ValueError(f"rows[{k}] goes from node {sender} to {receiver}, which is not its parent")
            if int(row["payload"]) not in self._payloads:
                raise ValueError(f"rows[{k}].payload is not in use, got {row['payload']}")
        for row in rows:
            node, parent = self._node[int(row["sender"])], self._node[int(row["node"])]
            if row["sequence"] <= node.heard or node.away == "gone":
                self._release(int(row["payload"]))
                continue
            node.heard = int(row["sequence"])
            self._release(node.held)
            node.held, node.held_minimum = int(row["payload"]), float(row["minimum"])
            node.ledger = [debt for debt in node.ledger if debt.sequence > row["echo"]]
            parent.since = min(parent.since, int(row["since"]))

    def ready(self, nodes: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        """(nodes that may report, nodes that must wait and were not waiting yet, until when)."""
        go: list[int] = []
        wait: list[tuple[int, int]] = []
        chosen = self._nodes(nodes)
        check_instant(now, "now", self._hold_off + self._gap)
        for m in chosen:
            node = self._node[m]
            if m == 0 or node.away:
                continue
            leaf = m >= self.first_leaf
            if leaf:
                node.since = min(node.since, now)
            if node.due_at is None:
                due = max(node.free_at, now if leaf else now + self._hold_off)
                if due > now:
                    node.due_at = due
                    wait.append((m, due))
                else:
                    go.append(m)
            elif node.due_at <= now:
                node.due_at = None
                go.append(m)
        waiting = np.array(wait, np.int64).reshape(-1, 2)
        return np.array(go, np.int64), waiting[:, 0].copy(), waiting[:, 1].copy()

    def report(
        self,
        nodes: ArrayLike,
        now: int,
        summaries: NDArray[np.uint32],
        minimum: ArrayLike,
        release: ArrayLike,
    ) -> Rows:
        """The summaries that `nodes` (ascending) send to their parents at `now` ns."""
        if not (
            isinstance(summaries, np.ndarray)
            and summaries.dtype == np.uint32
            and summaries.ndim == 4
            and summaries.shape[1:] == self.grid.shape
        ):
            raise ValueError(f"summaries must be uint32[k, {', '.join(map(str, self.grid.shape))}]")
        given = summaries
        low, since = doubles(minimum, "minimum"), doubles(release, "release")
        chosen = [m for m in self._nodes(nodes) if m > 0]
        leaves = sum(m >= self.first_leaf for m in chosen)
        if not len(given) == len(low) == len(since) == leaves:
            raise ValueError(
                f"summaries, minimum and release must have one entry for each of the {leaves} leaves among "
                f"nodes, got {len(given)}, {len(low)} and {len(since)}"
            )
        check_array(low, "minimum", NUMBER)
        check_array(since, "release", NUMBER)
        check_instant(now, "now", self._hold_off + self._gap)
        of_leaves = zip(given, low, since, strict=True)
        sent = []
        for m in chosen:
            node = self._node[m]
            if m >= self.first_leaf:
                cells, least, at = next(of_leaves)
            else:
                left, right = self._children(m)
                known = [  # of the moment where anything was debited
                    self._instant(child, now / 1e9) if child.ledger else self._payloads[child.held].release
                    for child in (left, right) if child.held >= 0
                ]  # fmt: skip
                if self._celled and len(set(known)) == 2:
                    continue  # summaries of different cells must not be added
                at = max(known, default=0.0)
                cells = aggregate([self._read(left, now / 1e9), self._read(right, now / 1e9)])
                least = min(left.held_minimum, right.held_minimum)
            same = (
                node.said >= 0
                and least == node.said_minimum
                and at == self._payloads[node.said].release
                and np.array_equal(cells, self._payloads[node.said].cells)
            )
            if not same or node.asked:
                sent.append(self._say(m, now, Payload(cells.copy(), at, 2), least))
            node.since = NEVER
        return np.array(sent, SUMMARY)

    def _say(self, m: int, now: int, payload: Payload, least: float) -> tuple[Any, ...]:
        node, handle = self._node[m], self._next_handle
        self._next_handle += 1
        self._payloads[handle] = payload  # of the sender and of the message
        self._release(node.said)
        node.said, node.said_minimum, node.asked = handle, least, False
        node.free_at = now + self._gap
        node.number += 1
        return (m - 1) // 2, m, handle, node.number - 1, node.got, least, node.since

    # -- failures ---------------------------------------------------------------------------------------

    def forget(self, rows: Rows) -> None:
        """These summaries have been lost on their way."""
        for k, row in enumerate(_checked(rows, SUMMARY)):
            if int(row["payload"]) not in self._payloads:
                raise ValueError(f"rows[{k}].payload is not in use, got {row['payload']}")
        for row in rows:
            self._release(int(row["payload"]))

    def reset(self, nodes: ArrayLike) -> None:
        """`nodes` have failed and are in the tree again, with nothing in memory."""
        for m in self._nodes(nodes):
            node = self._node[m]
            gone, node.away = node.away == "gone", ""
            if gone:
                self._weigh(m)
            self._release(node.said)
            node.said, node.said_minimum, node.rest = -1, math.inf, math.inf
            node.got, node.asked, node.due_at, node.since = node.issued, False, None, NEVER
            if m < self.first_leaf:
                for child in self._children(m):
                    self._unhear(child)
                    child.asked = True

    def _unhear(self, child: Node) -> None:
        self._release(child.held)
        child.held, child.held_minimum, child.told, child.ledger = -1, math.inf, math.inf, []

    def silence(self, nodes: ArrayLike) -> None:
        """`nodes` do not report until they are `reset`, which their parents do not know yet."""
        for m in self._nodes(nodes):
            self._node[m].away = self._node[m].away or "silent"

    def leave(self, nodes: ArrayLike) -> None:
        """`nodes` are gone until they are `reset`, and their parents know."""
        for m in self._nodes(nodes):
            self._node[m].away = "gone"
            self._unhear(self._node[m])
            self._weigh(m)

    def _weigh(self, m: int) -> None:
        """`m` is gone or back, which counts in all that are above it."""
        node = self._node[m]
        if node.away == "gone":
            node.leaves, node.power = 0, 0.0
        elif m >= self.first_leaf:
            node.leaves, node.power = 1, self._speed[m - self.first_leaf]
        else:
            left, right = self._children(m)
            node.leaves, node.power = left.leaves + right.leaves, left.power + right.power
        if m > 0:
            self._weigh((m - 1) // 2)

    # -- the minimum stretch on its way down ----------------------------------------------------------------

    def take_spread(self, rows: Rows) -> None:
        """Routers learn the minimum stretch of the rest of the tree."""
        for k, row in enumerate(_checked(rows, SPREAD)):
            if not 0 <= row["node"] < self.first_leaf:
                raise ValueError(
                    f"rows[{k}].node must be a router 0..{self.first_leaf - 1}, got {row['node']}"
                )
        for row in rows:
            self._node[int(row["node"])].rest = float(row["minimum"])

    def spread(self, nodes: ArrayLike, always: bool = False) -> Rows:
        """The rest values that `nodes` tell the routers among their children, where new (or `always`)."""
        sent = []
        for m in self._nodes(nodes):
            for child, sibling in (2 * m + 1, 2 * m + 2), (2 * m + 2, 2 * m + 1):
                if child < self.first_leaf and not self._node[m].away:
                    value = min(self._node[m].rest, self._node[sibling].held_minimum)
                    if always or value != self._node[child].told:
                        self._node[child].told = value
                        sent.append((child, m, value))
        return np.array(sent, SPREAD)

    # -- inspection ---------------------------------------------------------------------------------------

    def known(self, node: int, now: int) -> Cells:
        """What the parent of `node` may count on from it at `now` ns."""
        one = self._node[self._one(node)]
        check_instant(now, "now")
        return self._read(one, now / 1e9).copy()

    def held(self, nodes: ArrayLike) -> Integers:
        """The payload by which the parent of each of `nodes` knows it; -1 if by none."""
        return np.array([self._node[m].held for m in self._nodes(nodes)], np.int64)

    def look(self, node: int, application: int, now: int) -> tuple[Integers, float]:
        """What router `node` would go by: tasks of each child at each stretch, the known minimum stretch."""
        if not 0 <= node < self.first_leaf:
            raise ValueError(f"node must be a router 0..{self.first_leaf - 1}, got {node}")
        if not 0 <= application < len(self._size):
            raise ValueError(f"application must be in 0..{len(self._size) - 1}, got {application}")
        check_instant(now, "now")
        rooms = self._rooms(self._children(node), application, now / 1e9)
        return np.array(rooms, np.int64), self._minimum(self._node[node], self._children(node))

    def owed(self, node: int) -> int:
        """Tasks dispatched to `node` that its last summary does not know of."""
        return sum(debt.tasks for debt in self._node[self._one(node)].ledger)

    def _one(self, node: int) -> int:
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        return node

    def _nodes(self, nodes: ArrayLike) -> list[int]:
        chosen = integers(nodes, "nodes")
        for k, m in enumerate(chosen):
            if not 0 <= m < self.nodes:
                raise ValueError(f"nodes[{k}] must be in 0..{self.nodes - 1}, got {m}")
        return chosen


def _checked(rows: Rows, dtype: np.dtype[Any]) -> Rows:
    if not isinstance(rows, np.ndarray):
        raise TypeError(f"rows must be a structured array, got {type(rows).__name__}")
    if rows.dtype != dtype or rows.ndim != 1 or not rows.flags.c_contiguous:
        raise ValueError(f"rows must be a contiguous vector of {dtype}")
    return rows
