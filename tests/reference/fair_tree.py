"""A simulator of the fair tree with instantaneous messages, written from its description, not from its code.

Its only messages are requests.  Between two instants all summaries have arrived and all debts are settled, so
a router knows the last reports of all leaves below each child.  Within an instant requests travel in waves,
one hop per wave, and leaves report when all tasks are placed.  Only two values of a router may be stale: the
minimum stretches of the rest of the tree, and its copy of the root's summary.

Summaries are computed only when a router reads them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.queues.summary_grid import SummaryGrid
from tests.reference.edf import Queue, deadlines_at, edf_order, minimum_stretch
from tests.reference.summaries import debit, split

__all__ = ["Accepted", "Bag", "Decision", "History", "Rules", "simulate"]

NS = 1_000_000_000
#: Relative tolerance of the comparison of stretches, since samples are products of their ratio.
TOLERANCE = 1e-9
#: Relative tolerance of deadlines.
LATE = 1e-12
#: A stretch above any sample, for tasks that are accepted without a promise.
BEYOND = 1e300

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Bag:
    """An application: release in ns, n tasks of a Mflop, and the machine where it is submitted."""

    release: int
    tasks: int
    task_size: float
    submitter: int

    @property
    def size(self) -> float:
        return self.tasks * self.task_size


@dataclass(frozen=True)
class Rules:
    """The parameters of the tree; ``heartbeat`` in ns."""

    grid: SummaryGrid
    accept: Literal["minimum", "root", "largest", "either"]
    bound: float
    minimum_of: Literal["all", "busy", "inverse-speed"]
    entry: Literal["own-router", "parent"]
    update_on: Literal["completion", "change"]
    heartbeat: int


@dataclass(frozen=True)
class Decision:
    """The decision of a router on a request: to pass it up, to accept it, or to give some of it to a child.

    ``observed`` is the stretch at which its leaves have room, infinite for none, and ``limit`` its threshold,
    NaN for none.  In a decision ``gave``, ``observed`` is the number of tasks that the child on ``machine``
    can take.
    """

    application: int
    action: Literal["passed", "accepted", "gave"]
    router: int
    tasks: int
    observed: float
    limit: float = math.nan
    machine: int = -1


@dataclass(frozen=True)
class Accepted:
    """An accepted request: its router, instant (ns), and promised stretch, infinite for no promise."""

    application: int
    tasks: int
    time: int
    router: int
    steps_up: int
    promised: float


@dataclass
class History:
    """The events of a run.  Times are ns; arrivals are (machine, application, tasks, time)."""

    decisions: list[Decision] = field(default_factory=list)
    requests: list[Accepted] = field(default_factory=list)
    arrivals: list[tuple[int, int, int, int]] = field(default_factory=list)
    first_start: dict[int, int] = field(default_factory=dict)
    finish: dict[int, int] = field(default_factory=dict)
    resubmitted: Counter[int] = field(default_factory=Counter)
    #: Numbers of occurrences of the cases that tests of this simulator must cover.
    cases: Counter[str] = field(default_factory=Counter)


# --- a leaf ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The last report of a leaf: its queue, without a task that starts at that instant, and its minimum."""

    grid: SummaryGrid
    now: float
    queue: Queue
    idle: bool
    minimum: float

    @cached_property
    def cells(self) -> Cells:
        """Return n[S, w, a]: work due earlier goes first, later work is delayed by at most its slack."""
        start, speed = self.queue.free_at, self.queue.speed
        stretch = self.grid.stretch[:, np.newaxis]
        due = np.array(self.queue.release) + stretch * np.array(self.queue.size)
        order = np.argsort(due, axis=1, kind="stable")
        due = np.take_along_axis(due, order, axis=1)
        completed = np.cumsum(np.array(self.queue.work)[order], axis=1)
        end = start + completed / speed
        late = (end > due + LATE * np.maximum(end, np.abs(due))).any(axis=1)

        deadline = (self.now + stretch * self.grid.size)[:, :, np.newaxis]
        before = due[:, np.newaxis] <= deadline
        ahead = np.where(before, completed[:, np.newaxis], 0.0).max(axis=2, initial=0.0)
        slack = np.where(before, math.inf, ((due - start) * speed - completed)[:, np.newaxis])
        capacity = np.minimum(
            (deadline[:, :, 0] - start) * speed - ahead, slack.min(axis=2, initial=math.inf)
        )
        capacity[late | (self.grid.stretch * (1.0 + LATE) < self.queue.floor)] = 0.0
        tasks: Cells = np.floor(np.maximum(capacity, 0.0)[:, :, np.newaxis] / self.grid.task_size).astype(
            np.int64
        )
        return tasks

    @property
    def largest(self) -> float:
        """Return the minimum for the maximum over leaves: 0 for an idle leaf."""
        return 0.0 if self.idle else self.minimum


class Leaf:
    """A machine: its shares [application, tasks] in order, and its running task with its end."""

    def __init__(self, speed: float, bags: Sequence[Bag], rules: Rules, history: History) -> None:
        self.speed, self.bags, self.rules, self.history = speed, bags, rules, history
        self.shares: list[list[int]] = []
        self.running: int | None = None
        self.free_at = 0

    @property
    def idle(self) -> bool:
        return self.running is None and not self.shares

    def next_end(self) -> float:
        """Return when the next task ends, infinite for an idle leaf."""
        if self.running is not None:
            return self.free_at
        return self.free_at + self._length(self.shares[0][0]) if self.shares else math.inf

    def advance(self, until: int) -> None:
        """Work up to ``until``; no task starts at that instant, since others may arrive at it."""
        while True:
            if self.running is not None:
                if self.free_at > until:
                    return
                finish = self.history.finish
                finish[self.running] = max(finish.get(self.running, 0), self.free_at)
                self.running = None
            if not self.shares or self.free_at >= until:
                return
            first, application = self.history.first_start, self.shares[0][0]
            first[application] = min(first.get(application, self.free_at), self.free_at)
            self._start()

    def take(self, application: int, tasks: int, now: int) -> None:
        """Add a share."""
        self.advance(now)
        self.free_at = max(self.free_at, now)
        for share in self.shares:
            if share[0] == application:
                share[1] += tasks
                return
        self.shares.append([application, tasks])

    def fail(self, now: int) -> list[tuple[int, int]]:
        """Lose all tasks, also the running one; return (application, tasks)."""
        self.advance(now)
        lost = Counter({application: tasks for application, tasks in self.shares})
        if self.running is not None:
            lost[self.running] += 1
        self.shares, self.running, self.free_at = [], None, now
        return sorted(lost.items())

    def sort(self, now: int) -> None:
        """Sort the shares by EDF at their minimum stretch."""
        queue = self._queue(now)
        self.shares = [self.shares[k] for k in edf_order(deadlines_at(queue, minimum_stretch(queue)))]

    def report(self, now: int) -> Report:
        """Return the report of this instant."""
        self.advance(now)
        queue, later = self._queue(now), copy(self)
        if self.idle:
            idle_minimum = {"all": 0.0, "busy": math.inf, "inverse-speed": 1.0 / self.speed}
            return Report(self.rules.grid, now / NS, queue, True, idle_minimum[self.rules.minimum_of])
        if later.running is None:
            later._start()
        return Report(self.rules.grid, now / NS, later._queue(now), False, minimum_stretch(queue))

    def _queue(self, now: int) -> Queue:
        """Return the queue behind the running task, which must keep the stretch, too."""
        free_at, floor = max(self.free_at, now) / NS, 0.0
        if self.running is not None:
            bag = self.bags[self.running]
            floor = max(0.0, (free_at - bag.release / NS) / bag.size)
        bags = [self.bags[application] for application, _ in self.shares]
        work = [tasks * self.bags[application].task_size for application, tasks in self.shares]
        return Queue([x.release / NS for x in bags], [x.size for x in bags], work, self.speed, free_at, floor)

    def _start(self) -> None:
        self.running, tasks = self.shares[0]
        self.shares = ([[self.running, tasks - 1]] if tasks > 1 else []) + self.shares[1:]
        self.free_at += self._length(self.running)

    def _length(self, application: int) -> int:
        return max(1, round(self.bags[application].task_size / self.speed * NS))


# --- routers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """The tasks that leaves can take together, less those sent to them."""

    cells: Cells
    newest: float  # time of the newest report, s; infinite if a leaf is idle, whose report stays valid

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Summary:
        newest = max(math.inf if report.idle else report.now for report in reports)
        return cls(np.sum([report.cells for report in reports], axis=0), newest)


@dataclass(frozen=True)
class RootCopy:
    """The summary of the root at an instant (ns), without debts."""

    made: int
    reports: tuple[Report, ...]

    @cached_property
    def summary(self) -> Summary:
        return Summary.of(self.reports)


@dataclass(frozen=True)
class Rest:
    """The smallest and the largest minimum stretch of a leaf in the rest of the tree."""

    smallest: float
    largest: float


@dataclass(frozen=True)
class Debt:
    """Tasks sent to a child since its last report, with the stretch and the age (s) of their request."""

    application: int
    tasks: int
    stretch: float
    age: float


@dataclass
class Router:
    """The knowledge of a router besides the reports; None for values that it has not received."""

    rest: Rest | None = None
    copy: RootCopy | None = None
    sent_versions: dict[int, int] = field(
        default_factory=dict
    )  # child -> version of the copy that it received last
    debts: dict[int, list[Debt]] = field(default_factory=dict)  # child -> its debts


@dataclass(frozen=True)
class Request:
    """Tasks of an application in flight, and the values that a parent sends to a child with them."""

    application: int
    tasks: int
    steps_up: int = 0
    rest: Rest | None = None
    copy: RootCopy | None = None


Wave = list[tuple[int, int, Request]]  # (sender, receiver, request) of each message


class Tree:
    """A heap: routers are the nodes 0..N-2, leaves N-1..2N-2; router k and leaf N-1+k sit on machine k."""

    def __init__(self, speeds: Sequence[float], bags: Sequence[Bag], rules: Rules) -> None:
        self.bags, self.rules, self.history, self.now = bags, rules, History(), 0
        self.leaves = [Leaf(speed, bags, rules, self.history) for speed in speeds]
        self.reports = [leaf.report(0) for leaf in self.leaves]
        self.routers = [Router() for _ in speeds[1:]]
        self.below = [self._machines(k) for k in range(2 * len(speeds) - 1)]
        grid = rules.grid
        self.stretches, self.sizes = grid.stretch.tolist(), grid.size.tolist()
        self.task_sizes = grid.task_size.tolist()
        self.met: set[int] = set()  # machines that received shares at this instant

    def _machines(self, node: int) -> list[int]:
        """Return the machines of the leaves below a node."""
        if node >= len(self.routers):
            return [node - len(self.routers)]
        return self._machines(2 * node + 1) + self._machines(2 * node + 2)

    @property
    def idle(self) -> bool:
        return all(leaf.idle for leaf in self.leaves)

    # -- what happens at an instant ----------------------------------------------------------------

    def submit(self, submitted: Sequence[tuple[int, int]], now: int) -> None:
        """Submit tasks of applications, and place them."""
        self.now, wave = now, []
        for application, tasks in submitted:
            machine = self.bags[application].submitter
            leaf = len(self.routers) + machine
            own = self.rules.entry == "own-router" and machine < len(self.routers)
            entry = machine if own else max(0, (leaf - 1) // 2)
            wave.append((leaf, entry, Request(application, tasks)))
        while wave:
            sent: Wave = []
            for sender, node, request in sorted(wave, key=lambda row: (row[1], row[0])):
                if node >= len(self.routers):
                    self._queue(node - len(self.routers), request)
                elif node and sender == (node - 1) // 2:
                    sent += self._take(node, request)
                else:
                    sent += self._decide(node, request)
            wave = sent
        for machine in self.met:
            self.leaves[machine].sort(now)
            self.reports[machine] = self.leaves[machine].report(now)
        self.met.clear()
        for router in self.routers:
            router.debts.clear()

    def beat(self, now: int) -> None:
        """Renew the copy of the root; all routers receive it and the rest of the tree, from the top."""
        self.now = now
        for k in range(len(self.routers)):
            if k == 0:
                self._renew_copy()
            else:
                self._hear(k, self._rest_of((k - 1) // 2, k), self._copy_for((k - 1) // 2, k))

    def end_tasks(self, now: int) -> None:
        """End the tasks of this instant; their leaves report."""
        for machine, leaf in enumerate(self.leaves):
            if leaf.next_end() <= now:
                leaf.advance(now)
                if leaf.idle or self.rules.update_on == "completion":
                    self.reports[machine] = leaf.report(now)

    def fail(self, machine: int, now: int) -> None:
        """Reset a machine: its router forgets all, and the tasks of its leaf are submitted again."""
        lost, leaves = self.leaves[machine].fail(now), {machine}
        if machine < len(self.routers):
            self.routers[machine] = Router()
            children = {2 * machine + 1 - len(self.routers), 2 * machine + 2 - len(self.routers)}
            leaves |= {u for u in children if u >= 0}  # these leaves report to the router again
        for u in leaves:
            self.reports[u] = self.leaves[u].report(now)
        self.history.resubmitted.update(dict(lost))
        self.submit(lost, now)

    # -- requests ----------------------------------------------------------------------------------

    def _queue(self, machine: int, request: Request) -> None:
        self.leaves[machine].take(request.application, request.tasks, self.now)
        self.history.arrivals.append((machine, request.application, request.tasks, self.now))
        self.met.add(machine)

    def _decide(self, k: int, request: Request) -> Wave:
        """Accept a request that travels up, or pass it on."""
        known = self._children(k)
        sample = self._sample(request, known)
        stretch = math.inf if sample is None else self.stretches[sample]
        limits = self._limits(k, request) if k else {}
        good = [by for by, limit in limits.items() if stretch <= limit * (1.0 + TOLERANCE)]
        limit = max(limits.values(), default=math.nan)
        self.history.cases["limit"] += limit > 0.0
        i, n = request.application, request.tasks
        if k and not (good and sample is not None):
            self.history.decisions.append(Decision(i, "passed", k, n, stretch, limit))
            unpromised = limits.get("root") == 0.0 != self.rules.bound
            self.history.cases["no promise"] += unpromised and sample is not None
            return [(k, (k - 1) // 2, Request(i, n, request.steps_up + 1))]
        self.history.decisions.append(Decision(i, "accepted", k, n, stretch, limit))
        self.history.requests.append(Accepted(i, n, self.now, k, request.steps_up, stretch))
        self.history.cases.update(f"by {rule}" for rule in good)
        return self._divide(k, request, known, sample)

    def _limits(self, k: int, request: Request) -> dict[str, float]:
        """Return the highest stretch that each rule accepts below the root; unknown values mean rejection."""
        accept, bound, rest = self.rules.accept, self.rules.bound, self.routers[k].rest
        reports = [self.reports[machine] for machine in self.below[k]]
        if accept == "minimum":
            unknown = 0.0 if self.rules.minimum_of == "all" else math.inf
            smallest = min(unknown if rest is None else rest.smallest, *(r.minimum for r in reports))
            return {"minimum": math.nan if math.isinf(smallest) else bound * smallest}
        limits = {}
        if accept != "largest":
            root = self.routers[k].copy
            sample = None if root is None else self._sample(request, [root.summary])
            self.history.cases["no copy"] += root is None
            limits["root"] = 0.0 if sample is None else bound * self.stretches[sample]
        if accept != "root":
            largest = max(0.0 if rest is None else rest.largest, *(r.largest for r in reports))
            limits["largest"] = largest * (bound if accept == "largest" else float(bound > 0.0))
        return limits

    def _take(self, k: int, request: Request) -> Wave:
        """Place a request from the parent, which cannot be rejected."""
        assert request.rest is not None
        self._hear(k, request.rest, request.copy)
        known = self._children(k)
        return self._divide(k, request, known, self._sample(request, known))

    def _divide(self, k: int, request: Request, known: list[Summary], sample: int | None) -> Wave:
        """Send shares to the children in proportion to their room; tasks without room, to their speed."""
        if k == 0:
            self._renew_copy()
        children = (2 * k + 1, 2 * k + 2)
        capacity = [self._capacity(request, summary)[-1 if sample is None else sample] for summary in known]
        hosted = min(request.tasks, sum(capacity))
        others = split_by_speed(request.tasks - hosted, [self._speed(child) for child in children])
        stretch = BEYOND if sample is None else self.stretches[sample]
        sent: Wave = []
        for child, part, more, n, summary in zip(
            children, split(capacity, hosted).tolist(), others, capacity, known, strict=True
        ):
            if part + more:
                machine = child if child < len(self.routers) else child - len(self.routers)
                i, tasks = request.application, part + more
                self.history.decisions.append(Decision(i, "gave", k, tasks, float(n), machine=machine))
                sent.append((k, child, self._share(k, child, i, tasks)))
                debt = Debt(i, tasks, stretch, self._age(request, summary))
                self.routers[k].debts.setdefault(child, []).append(debt)
        return sent

    def _share(self, k: int, child: int, application: int, tasks: int) -> Request:
        if child >= len(self.routers):
            return Request(application, tasks)
        return Request(application, tasks, 0, self._rest_of(k, child), self._copy_for(k, child))

    # -- what routers know -------------------------------------------------------------------------

    def _renew_copy(self) -> None:
        self.routers[0].copy = RootCopy(self.now, tuple(self.reports))
        self.history.cases["copy in debt"] += any(self.routers[0].debts.values())

    def _copy_for(self, k: int, child: int) -> RootCopy | None:
        """Return the copy if it is newer than the one the child received last."""
        root = self.routers[k].copy
        if root is None or root.made <= self.routers[k].sent_versions.get(child, -1):
            return None
        self.routers[k].sent_versions[child] = root.made
        return root

    def _hear(self, k: int, rest: Rest, root: RootCopy | None) -> None:
        router = self.routers[k]
        router.rest = rest
        if root is not None and (router.copy is None or root.made > router.copy.made):
            router.copy = root

    def _rest_of(self, k: int, child: int) -> Rest:
        """Return the rest of the tree for a child: the rest of its parent, and its sibling."""
        rest = self.routers[k].rest if k else Rest(math.inf, 0.0)
        if rest is None:
            rest = Rest(0.0 if self.rules.minimum_of == "all" else math.inf, 0.0)
        sibling = [self.reports[machine] for machine in self.below[4 * k + 3 - child]]
        smallest = min(rest.smallest, *(r.minimum for r in sibling))
        return Rest(smallest, max(rest.largest, *(r.largest for r in sibling)))

    def _children(self, k: int) -> list[Summary]:
        """Return the summaries of both children, less their debts."""
        return [self._child(k, child) for child in (2 * k + 1, 2 * k + 2)]

    def _child(self, k: int, child: int) -> Summary:
        summary = Summary.of([self.reports[machine] for machine in self.below[child]])
        debts = self.routers[k].debts.get(child, [])
        if not debts:
            return summary
        self.history.cases["debt"] += 1
        left = debit(
            summary.cells,
            self.rules.grid,
            tasks=[debt.tasks for debt in debts],
            task_size=[self.bags[debt.application].task_size for debt in debts],
            size=[self.bags[debt.application].size for debt in debts],
            stretch=[debt.stretch for debt in debts],
            age=[debt.age for debt in debts],
            leaves=len(self.below[child]),
        )
        return Summary(left.astype(np.int64), summary.newest)

    def _age(self, request: Request, summary: Summary) -> float:
        """Return how much older (s) the request is than the summary."""
        return max(0.0, min(summary.newest, self.now / NS) - self.bags[request.application].release / NS)

    def _capacity(self, request: Request, summary: Summary) -> list[int]:
        """Return for how many tasks of the request there is room, at each stretch; 0 after its deadline.

        A request older than the summary has the deadline of a smaller one that is as new.
        """
        bag, age = self.bags[request.application], self._age(request, summary)
        late, k = (self.now - bag.release) / NS, bisect_left(self.task_sizes, bag.task_size)
        capacity = [0] * len(self.stretches)
        for i, stretch in enumerate(self.stretches):
            j = bisect_right(self.sizes, bag.size - age / stretch) - 1
            if j >= 0 and k < len(self.task_sizes) and stretch * bag.size >= late:
                capacity[i] = int(summary.cells[i, j, k])
        return capacity

    def _sample(self, request: Request, summaries: Sequence[Summary]) -> int | None:
        """Return the index of the smallest stretch with room for all tasks, or None."""
        capacities = zip(*(self._capacity(request, summary) for summary in summaries), strict=True)
        return next((i for i, capacity in enumerate(capacities) if sum(capacity) >= request.tasks), None)

    def _speed(self, node: int) -> float:
        return sum(self.leaves[machine].speed for machine in self.below[node])


def split_by_speed(tasks: int, speeds: Sequence[float]) -> list[int]:
    """Return tasks in proportion to the speeds, by largest remainder."""
    exact = [tasks * speed / sum(speeds) for speed in speeds]
    shares = [math.floor(x) for x in exact]
    for k in sorted(range(len(exact)), key=lambda k: shares[k] - exact[k])[: tasks - sum(shares)]:
        shares[k] += 1
    return shares


def simulate(
    speeds: Sequence[float], bags: Sequence[Bag], rules: Rules, failures: Sequence[tuple[int, int]] = ()
) -> History:
    """Run the bags, which are in order of release.  ``failures`` are (instant in ns, machine), resets.

    While tasks are to be placed, no instant may have two of: releases, a heartbeat, ends of tasks, a failure.
    """
    tree = Tree(speeds, bags, rules)
    pending, failing, beat = list(range(len(bags))), sorted(failures), rules.heartbeat
    while pending or (failing and not tree.idle):
        release = bags[pending[0]].release if pending else math.inf
        failure = failing[0][0] if failing else math.inf
        end = min(leaf.next_end() for leaf in tree.leaves)
        now = int(min(release, failure, end, beat))
        assert (now == release) + (now == failure) + (now == end) + (now == beat) == 1, f"a tie at {now} ns"
        if now == release:
            together = [i for i in pending if bags[i].release == now]
            pending = pending[len(together) :]
            tree.submit([(i, bags[i].tasks) for i in together], now)
        elif now == failure:
            tree.fail(failing.pop(0)[1], now)
        elif now == end:
            tree.end_tasks(now)
        else:
            tree.beat(now)
            beat += rules.heartbeat
    for leaf in tree.leaves:
        leaf.advance(2**62)
    return tree.history
