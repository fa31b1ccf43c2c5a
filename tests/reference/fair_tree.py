"""A simulator of the fair tree where messages take no time, written from its description and nothing else.

It knows no messages but requests.  Between two instants all summaries have arrived, so that what a router knows of a
child is what the leaves below it last reported, and all debts are paid.  Within an instant requests travel in waves,
one hop a wave, before any leaf reports.  Of what a router knows only three things may be old: the two minimum
stretches of the rest of the tree, and its copy of the root's summary.

Plain Python and slow, but summaries are only computed where a router looks at them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.queues.summary_grid import SummaryGrid
from tests.reference.edf import Queue, deadlines_at, edf_order, feasible, minimum_stretch
from tests.reference.summaries import debit, split

__all__ = ["Bag", "Decision", "History", "Rules", "simulate"]

NS = 1_000_000_000
#: Neighbouring samples are products of their ratio, so stretches are compared to this relative tolerance.
TOLERANCE = 1e-9
#: The same for deadlines.
LATE = 1e-12
#: A stretch above any sample, of tasks that were taken without a promise: they may spoil what any sample says.
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
    """The parameters of the tree that are simulated; ``heartbeat`` in ns."""

    grid: SummaryGrid
    accept: Literal["minimum", "root", "largest", "either"] = "minimum"
    bound: float = 1.0
    minimum_of: Literal["all", "busy", "inverse-speed"] = "all"
    entry: Literal["own-router", "parent"] = "own-router"
    heartbeat: int = 300 * NS


@dataclass(frozen=True)
class Decision:
    """What a router did with a request: ``passed``, ``accepted``, or ``gave`` (to a child on ``machine``).

    ``saw`` is the stretch at which its leaves have room, infinite for none; of ``gave`` the tasks that the child has
    room for at that stretch.
    """

    application: int
    action: Literal["passed", "accepted", "gave"]
    router: int
    tasks: int
    saw: float
    machine: int = -1


@dataclass
class History:
    """What happened: decisions in order, arrivals (application, machine, tasks) in order, and times in ns."""

    decisions: list[Decision]
    arrivals: list[tuple[int, int, int]]
    first_start: list[int]
    finish: list[int]
    resubmitted: list[int]
    #: How often each rule accepted below the root, of which by a copy of the root's summary that was not the newest,
    #: and how often a look-up met debts.
    below: dict[str, int] = field(default_factory=lambda: {"minimum": 0, "root": 0, "largest": 0})
    in_debt: int = 0


# --- a leaf ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """What a leaf last said: its queue, in which a task that starts at that instant has started, and its minimum."""

    grid: SummaryGrid
    now: float
    queue: Queue
    idle: bool
    minimum: float

    @cached_property
    def cells(self) -> Cells:
        """n[S, w, a]."""
        result = np.zeros(self.grid.shape, np.int64)
        for i, stretch in enumerate(self.grid.stretch.tolist()):
            deadlines = deadlines_at(self.queue, stretch)
            keeps = stretch * (1.0 + LATE) >= self.queue.floor
            if not (keeps and feasible(self.queue, self.queue.free_at, deadlines)):
                continue
            order = edf_order(deadlines)
            for j, size in enumerate(self.grid.size.tolist()):
                room = self._room(order, deadlines, self.now + stretch * size)
                result[i, j] = [math.floor(room / a) for a in self.grid.task_size.tolist()]
        return result

    def _room(self, order: list[int], deadlines: list[float], deadline: float) -> float:
        """Mflop: what is due later may be pushed back as far as its slack, what is due before comes first."""
        speed, start, work = self.queue.speed, self.queue.free_at, 0.0
        before, slack = 0.0, math.inf
        for i in order:
            work += self.queue.work[i]
            if deadlines[i] <= deadline:
                before = work
            else:
                slack = min(slack, (deadlines[i] - start) * speed - work)
        return max(0.0, min(slack, (deadline - start) * speed - before))


class Leaf:
    """A machine: shares [application, tasks] in their order, the running task, and the instant at which it is free."""

    def __init__(self, machine: int, speed: float, bags: list[Bag], history: History) -> None:
        self.machine, self.speed, self.bags, self.history = machine, speed, bags, history
        self.shares: list[list[int]] = []
        self.running: int | None = None
        self.free_at = 0

    def next_end(self) -> float:
        """When the next task ends, infinite for an idle leaf."""
        if self.running is not None:
            return self.free_at
        return self.free_at + self._length(self.shares[0][0]) if self.shares else math.inf

    def advance(self, until: int) -> None:
        """Work up to ``until``; what could start at ``until`` itself still waits for what comes at that instant."""
        while True:
            if self.running is not None:
                if self.free_at > until:
                    return
                finish = self.history.finish
                finish[self.running] = max(finish[self.running], self.free_at)
                self.running = None
            if not self.shares or self.free_at >= until:
                return
            self._start()

    def take(self, application: int, tasks: int, now: int) -> None:
        """A share comes."""
        self.advance(now)
        self.free_at = max(self.free_at, now)
        for share in self.shares:
            if share[0] == application:
                share[1] += tasks
                return
        self.shares.append([application, tasks])

    def fail(self, now: int) -> list[tuple[int, int]]:
        """Lose all (application, tasks), the running task, too; back at once."""
        self.advance(now)
        lost = {application: tasks for application, tasks in self.shares}
        if self.running is not None:
            lost[self.running] = lost.get(self.running, 0) + 1
        self.shares, self.running, self.free_at = [], None, now
        return sorted(lost.items())

    def sort(self, now: int) -> None:
        """EDF at the minimum stretch of what is there."""
        queue = self._queue(now)
        order = edf_order(deadlines_at(queue, minimum_stretch(queue)))
        self.shares = [self.shares[k] for k in order]

    def report(self, rules: Rules, now: int) -> Report:
        """The summary of this instant; the task that starts now, if nothing comes, has started."""
        self.advance(now)
        if self.running is None and not self.shares:
            minimum = {"all": 0.0, "busy": math.inf, "inverse-speed": 1.0 / self.speed}[rules.minimum_of]
            return Report(rules.grid, now / NS, self._queue(now), True, minimum)
        minimum = minimum_stretch(self._queue(now))
        later = Leaf(self.machine, self.speed, self.bags, self.history)
        later.shares, later.free_at = [list(share) for share in self.shares], self.free_at
        later.running = self.running
        if later.running is None:
            later._begin()
        return Report(rules.grid, now / NS, later._queue(now), False, minimum)

    def _queue(self, now: int) -> Queue:
        """The queue behind the running task, which has to keep the stretch, too."""
        free_at, floor = max(self.free_at, now) / NS, 0.0
        if self.running is not None:
            bag = self.bags[self.running]
            floor = max(0.0, (free_at - bag.release / NS) / bag.size)
        bags = [self.bags[application] for application, _ in self.shares]
        work = [tasks * self.bags[application].task_size for application, tasks in self.shares]
        release = [bag.release / NS for bag in bags]
        return Queue(release, [bag.size for bag in bags], work, self.speed, free_at, floor)

    def _start(self) -> None:
        application, begin = self.shares[0][0], self.free_at
        first = self.history.first_start
        first[application] = min(first[application], begin) if first[application] >= 0 else begin
        self._begin()

    def _begin(self) -> None:
        share = self.shares[0]
        self.running = share[0]
        self.free_at += self._length(share[0])
        share[1] -= 1
        if share[1] == 0:
            self.shares = self.shares[1:]

    def _length(self, application: int) -> int:
        return max(1, round(self.bags[application].task_size / self.speed * NS))


# --- routers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What leaves can take together; less what was sent there, if there are debts."""

    cells: Cells
    newest: float  # s: the instant of the newest report; infinite if a leaf is idle, whose report is always new

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Summary:
        newest = max(math.inf if report.idle else report.now for report in reports)
        return cls(np.sum([report.cells for report in reports], axis=0), newest)


@dataclass(frozen=True)
class Copy:
    """The root's summary of an instant (ns), without debts: the reports of all leaves."""

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


@dataclass
class Debt:
    """Tasks sent to a child that no report includes yet, and the stretch at which they were accepted."""

    application: int
    tasks: int
    stretch: float
    age: float  # s: how much older than the summary that promised the room


@dataclass
class Router:
    """What a router knows beside the reports: None for what it has not heard of."""

    rest: Rest | None = None
    copy: Copy | None = None
    told: dict[int, int] = field(default_factory=dict)  # child -> version of the copy that it was told last
    debts: dict[int, list[Debt]] = field(default_factory=dict)  # child -> debts


@dataclass(frozen=True)
class Request:
    """Tasks of an application on their way up, or, from the parent with what that tells, down."""

    application: int
    tasks: int
    rest: Rest | None = None
    copy: Copy | None = None


Wave = list[tuple[int, int, Request]]  # sender, receiver and request


class Tree:
    """Routers are the nodes 0..N-2 and leaves N-1..2N-2 of a heap; router k and leaf N-1+k sit on machine k."""

    def __init__(self, speeds: list[float], bags: list[Bag], rules: Rules) -> None:
        self.bags, self.rules, self.now = bags, rules, 0
        self.history = History([], [], [-1] * len(bags), [-1] * len(bags), [0] * len(bags))
        self.leaves = [Leaf(u, speed, bags, self.history) for u, speed in enumerate(speeds)]
        self.routers = [Router() for _ in speeds[1:]]
        self.reports = [leaf.report(rules, 0) for leaf in self.leaves]
        self._met: set[int] = set()  # machines to which shares came at this instant
        self.below = [self._below(k) for k in range(2 * len(speeds) - 1)]

    def _below(self, node: int) -> list[int]:
        """Machines of the leaves below a node, itself included."""
        routers = len(self.routers)
        if node >= routers:
            return [node - routers]
        return sorted(self._below(2 * node + 1) + self._below(2 * node + 2))

    # -- an instant ---------------------------------------------------------------------------------------------------

    def submit(self, tasks: list[tuple[int, int]], now: int) -> None:
        """Tasks of applications are submitted: requests go in waves until all are placed, then leaves report."""
        self.now = now
        wave: Wave = []
        for application, count in tasks:
            submitter, routers = self.bags[application].submitter, len(self.routers)
            leaf = routers + submitter
            own = self.rules.entry == "own-router" and submitter < routers
            entry = submitter if own or not routers else (leaf - 1) // 2
            wave.append((leaf, entry, Request(application, count)))
        while wave:  # what a wave sends leaves by sender and arrives by receiver
            sent: Wave = []
            for sender, receiver, request in sorted(wave, key=lambda row: (row[1], row[0])):
                if receiver >= len(self.routers):
                    self._queue(receiver, request)
                elif sender == (receiver - 1) // 2 and receiver:
                    sent += self._take_from_parent(receiver, request)
                else:
                    sent += self._decide(receiver, request)
            wave = sent
        for machine in self._met:
            self.leaves[machine].sort(now)
            self.reports[machine] = self.leaves[machine].report(self.rules, now)
        self._met.clear()
        for router in self.routers:
            router.debts.clear()

    def fail(self, machine: int, now: int) -> None:
        """A machine is reset: its router knows nothing, and what its leaf had is submitted again."""
        lost = self.leaves[machine].fail(now)
        self.reports[machine] = self.leaves[machine].report(self.rules, now)
        if machine < len(self.routers):
            self.routers[machine] = Router()
            if machine:
                self.routers[(machine - 1) // 2].told.pop(machine, None)
            for child in (2 * machine + 1, 2 * machine + 2):
                if child >= len(self.routers):  # a leaf, which reports again
                    u = child - len(self.routers)
                    self.reports[u] = self.leaves[u].report(self.rules, now)
        for application, tasks in lost:
            self.history.resubmitted[application] += tasks
        self.submit(lost, now)

    def beat(self, now: int) -> None:
        """The heartbeat: the root renews its copy, and all routers hear of the rest of the tree."""
        self.now = now
        if self.routers:
            self._renew_copy()
        for k in range(1, len(self.routers)):
            parent = (k - 1) // 2
            self._hear(k, self._rest_of(parent, k), self.routers[parent].copy)
            self._tell(parent, k)

    def end_tasks(self, now: int) -> None:
        """Leaves at which a task ends report."""
        for machine, leaf in enumerate(self.leaves):
            if leaf.next_end() <= now:
                self.reports[machine] = leaf.report(self.rules, now)

    @property
    def idle(self) -> bool:
        return all(report.idle for report in self.reports)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _queue(self, node: int, request: Request) -> None:
        machine = node - len(self.routers)
        self.leaves[machine].take(request.application, request.tasks, self.now)
        self.history.arrivals.append((request.application, machine, request.tasks))
        self._met.add(machine)

    def _decide(self, k: int, request: Request) -> Wave:
        """A request that climbs."""
        sample = self._sample(request, [self._known(k, child) for child in (2 * k + 1, 2 * k + 2)])
        stretch = math.inf if sample is None else float(self.rules.grid.stretch[sample])
        accepted = k == 0 or (sample is not None and self._is_good(k, request, stretch))
        action: Literal["passed", "accepted"] = "accepted" if accepted else "passed"
        self.history.decisions.append(Decision(request.application, action, k, request.tasks, stretch))
        return self._divide(k, request, sample) if accepted else [(k, (k - 1) // 2, request)]

    def _is_good(self, k: int, request: Request, stretch: float) -> bool:
        """Whether a router below the root accepts at this stretch; what it does not know speaks against it."""
        accept, bound = self.rules.accept, self.rules.bound
        rest = self.routers[k].rest
        reports = [self.reports[machine] for machine in self.below[k]]
        if accept == "minimum":
            elsewhere = 0.0 if self.rules.minimum_of == "all" else math.inf
            smallest = min(elsewhere if rest is None else rest.smallest, *(r.minimum for r in reports))
            by = {"minimum": not math.isinf(smallest) and at_most(stretch, bound * smallest)}
        else:
            largest = max(0.0 if rest is None else rest.largest, *(largest_of(r) for r in reports))
            promise = self._promise(k, request)
            by = {
                "root": accept in ("root", "either") and at_most(stretch, bound * promise),
                "largest": accept in ("largest", "either")
                and at_most(stretch, (bound if accept == "largest" else 1.0) * largest),
            }
        for rule, good in by.items():
            self.history.below[rule] += good
        return any(by.values())

    def _promise(self, k: int, request: Request) -> float:
        """What the root could promise, as far as the router knows; 0 if that is nothing."""
        copy = self.routers[k].copy
        sample = None if copy is None else self._sample(request, [copy.summary])
        return 0.0 if sample is None else float(self.rules.grid.stretch[sample])

    def _take_from_parent(self, k: int, request: Request) -> Wave:
        """A request from the parent, which cannot be refused."""
        assert request.rest is not None
        self._hear(k, request.rest, request.copy)
        sample = self._sample(request, [self._known(k, child) for child in (2 * k + 1, 2 * k + 2)])
        return self._divide(k, request, sample)

    def _divide(self, k: int, request: Request, sample: int | None) -> Wave:
        """Send shares to both children, in proportion to the room that they have."""
        if k == 0:
            self._renew_copy()
        children = (2 * k + 1, 2 * k + 2)
        at = len(self.rules.grid.stretch) - 1 if sample is None else sample
        known = [self._known(k, child) for child in children]
        room = [self._room(request, summary)[at] for summary in known]
        if sample is None:
            left = by_speed(max(0, request.tasks - sum(room)), [self._speed(child) for child in children])
            shares = [n + more for n, more in zip(split(room, min(sum(room), request.tasks)).tolist(), left, strict=True)]
        else:
            shares = split(room, request.tasks).tolist()
        sent: Wave = []
        stretch = BEYOND if sample is None else float(self.rules.grid.stretch[at])
        release = self.bags[request.application].release / NS
        for child, tasks, n, summary in zip(children, shares, room, known, strict=True):
            if not tasks:
                continue
            machine = child if child < len(self.routers) else child - len(self.routers)
            gave = Decision(request.application, "gave", k, tasks, float(n), machine)
            self.history.decisions.append(gave)
            sent.append((k, child, self._to_child(k, child, request.application, tasks)))
            self.routers[k].debts.setdefault(child, []).append(
                Debt(request.application, tasks, stretch, max(0.0, min(summary.newest, self.now / NS) - release))
            )
        return sent

    def _to_child(self, k: int, child: int, application: int, tasks: int) -> Request:
        if child >= len(self.routers):
            return Request(application, tasks)
        copy = self.routers[k].copy
        if copy is not None and copy.made <= self.routers[k].told.get(child, -1):
            copy = None
        self._tell(k, child)
        return Request(application, tasks, self._rest_of(k, child), copy)

    # -- what routers know ----------------------------------------------------------------------------------------------

    def _renew_copy(self) -> None:
        self.routers[0].copy = Copy(self.now, tuple(self.reports))

    def _tell(self, k: int, child: int) -> None:
        copy = self.routers[k].copy
        if copy is not None:
            self.routers[k].told[child] = copy.made

    def _hear(self, k: int, rest: Rest, copy: Copy | None) -> None:
        router = self.routers[k]
        router.rest = rest
        if copy is not None and (router.copy is None or copy.made > router.copy.made):
            router.copy = copy

    def _rest_of(self, k: int, child: int) -> Rest:
        """Of a child: the rest of its parent, and the sibling."""
        known = self.routers[k].rest
        if k == 0:
            known = Rest(math.inf, 0.0)
        elif known is None:
            known = Rest(0.0 if self.rules.minimum_of == "all" else math.inf, 0.0)
        sibling = [self.reports[machine] for machine in self.below[4 * k + 3 - child]]
        return Rest(
            min(known.smallest, *(r.minimum for r in sibling)), max(known.largest, *map(largest_of, sibling))
        )

    def _known(self, k: int, child: int) -> Summary:
        """The summary of a child, less what was sent there."""
        summary = Summary.of([self.reports[machine] for machine in self.below[child]])
        debts = self.routers[k].debts.get(child)
        if not debts:
            return summary
        self.history.in_debt += 1
        bags = [self.bags[debt.application] for debt in debts]
        left = debit(
            summary.cells,
            self.rules.grid,
            tasks=[debt.tasks for debt in debts],
            task_size=[bag.task_size for bag in bags],
            size=[bag.size for bag in bags],
            stretch=[debt.stretch for debt in debts],
            age=[debt.age for debt in debts],
            leaves=len(self.below[child]),
        )
        return Summary(left.astype(np.int64), summary.newest)

    def _room(self, request: Request, summary: Summary) -> list[int]:
        """At each stretch, how many tasks of the request there is room for.

        A request that is older than the summary has the deadlines of a smaller one released with the summary.
        """
        grid, bag = self.rules.grid, self.bags[request.application]
        late = max(0.0, min(summary.newest, self.now / NS) - bag.release / NS)
        k, room = bisect_left(grid.task_size.tolist(), bag.task_size), [0] * len(grid.stretch)
        if k == len(grid.task_size):
            return room
        for i, stretch in enumerate(grid.stretch.tolist()):
            j = bisect_right(grid.size.tolist(), bag.size - late / stretch) - 1
            if j >= 0:
                room[i] = int(summary.cells[i, j, k])
        return room

    def _sample(self, request: Request, summaries: list[Summary]) -> int | None:
        """The smallest stretch sample at which there is room for all tasks, and whose deadline is to come."""
        rooms, bag = [self._room(request, summary) for summary in summaries], self.bags[request.application]
        for i, room in enumerate(zip(*rooms, strict=True)):
            deadline = bag.release / NS + self.rules.grid.stretch[i] * bag.size
            if sum(room) >= request.tasks and deadline >= self.now / NS:
                return i
        return None

    def _speed(self, node: int) -> float:
        return sum(self.leaves[machine].speed for machine in self.below[node])


def at_most(stretch: float, limit: float) -> bool:
    return stretch <= limit * (1.0 + TOLERANCE)


def largest_of(report: Report) -> float:
    """An idle leaf counts 0."""
    return 0.0 if report.idle else report.minimum


def by_speed(tasks: int, speeds: list[float]) -> list[int]:
    """Tasks in proportion to the speeds, by largest remainder."""
    exact = [tasks * speed / sum(speeds) for speed in speeds]
    shares = [math.floor(x) for x in exact]
    for k in sorted(range(len(exact)), key=lambda k: shares[k] - exact[k])[: tasks - sum(shares)]:
        shares[k] += 1
    return shares


def simulate(
    speeds: list[float], bags: list[Bag], rules: Rules, failures: Sequence[tuple[int, int]] = ()
) -> History:
    """Run the bags, which must be in order of release; ``failures`` are (instant in ns, machine).

    While tasks are still to be placed no instant may have two of: a release, a heartbeat, the end of a task, a
    failure.
    """
    tree = Tree(speeds, bags, rules)
    pending, failing, beat = list(range(len(bags))), sorted(failures), rules.heartbeat
    while pending or (failing and not tree.idle):
        release = bags[pending[0]].release if pending else math.inf
        failure = failing[0][0] if failing else math.inf
        end = min(leaf.next_end() for leaf in tree.leaves)
        now = int(min(release, beat, end, failure))
        assert (now == release) + (now == beat) + (now == end) + (now == failure) == 1, f"a tie at {now} ns"
        if now == release:
            together = [i for i in pending if bags[i].release == now]
            pending = pending[len(together) :]
            tree.submit([(i, bags[i].tasks) for i in together], now)
        elif now == beat:
            tree.beat(now)
            beat += rules.heartbeat
        elif now == end:
            tree.end_tasks(now)
        else:
            tree.fail(failing.pop(0)[1], now)
    for leaf in tree.leaves:
        leaf.advance(2**62)
    return tree.history
