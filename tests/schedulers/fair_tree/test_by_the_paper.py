"""The fair tree where machines fail, against a simulator of eight machines written from the papers' text.

Messages take no time here and their rate has no limit.  So after each instant all nodes know all reports,
and the simulator needs no messages but requests: it has leaves, their last reports, and routers that divide
requests.  It shares no code with `gridcore` or `gridsim`: the smallest stretch of a queue is found
from its end (Lawler), room by Algorithm 3, the lowest stretch by trying the samples in turn, and time passes
from one task to the next.  What the papers leave open is as `docs/background/fair_tree.md` says.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

import gridsim as gs

NS = 10**9
MACHINES = 8
ROUTERS = MACHINES - 1
NODES = MACHINES + ROUTERS


class Bag(NamedTuple):
    release: float
    tasks: int
    task_size: float
    submitter: int

    @property
    def size(self) -> float:
        return self.tasks * self.task_size

    def deadline(self, stretch: float) -> float:
        return self.release + stretch * self.size


class Queue(NamedTuple):
    """The state of a leaf at one instant."""

    at: float  # s
    speed: float
    free: float  # s, when the running task ends; now if there is none
    running: Bag | None
    waiting: tuple[tuple[Bag, int], ...]

    def stretch_of_waiting(self) -> float:
        """Return the minimum stretch by Lawler's rule: the entry with the least stretch there goes last."""
        stretch, left = 0.0, list(self.waiting)
        end = self.free + sum(n * bag.task_size for bag, n in left) / self.speed
        while left:
            late, last = min(((end - bag.release) / bag.size, i) for i, (bag, _) in enumerate(left))
            stretch = max(stretch, late)
            bag, n = left.pop(last)
            end -= n * bag.task_size / self.speed
        return stretch

    def minimum_stretch(self) -> float:
        """Return the minimum stretch, including the running task; 0 for an idle leaf."""
        if self.running is None:
            return 0.0
        return max((self.free - self.running.release) / self.running.size, self.stretch_of_waiting())

    def room(self, stretch: float, size: float, task_size: float) -> int:
        """Return the room by Algorithm 3 for an application released now, after the running task."""
        if self.running is not None and self.free > self.running.deadline(stretch):
            return 0
        new = self.at + stretch * size
        queue = sorted((bag.deadline(stretch), n * bag.task_size / self.speed) for bag, n in self.waiting)
        latest, until = math.inf, new
        for deadline, work in reversed(queue):
            latest = min(deadline, latest) - work
            if deadline >= new:
                until = min(new, latest)
        if latest < self.free:
            return 0
        begin = self.free + sum(work for deadline, work in queue if deadline < new)
        return max(0, math.floor((until - begin) * self.speed / task_size + 1e-9))


class Told(NamedTuple):
    """A summary: its cells by stretch, size and task size, its minimum stretch, and its instant (s).

    An idle leaf is later what it is now, and so its summary is of any instant.
    """

    cells: list[int]
    minimum: float
    at: float


class Debit(NamedTuple):
    tasks: int
    bag: Bag
    stretch: float


class Leaf:
    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.waiting: list[list[int]] = []  # bag and tasks, in the order in which they will run
        self.running: tuple[int, int, int] | None = None  # bag, begin and end (ns)
        self.done = self.busy = 0


class Request(NamedTuple):
    application: int
    accepted: float
    tasks: int
    router: int
    steps_up: int
    promised: float


class Case(NamedTuple):
    speeds: list[float]
    bags: list[Bag]
    resets: list[tuple[int, float]]
    grid: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    bound: float
    detection: float | None
    heartbeat: float


def in_proportion(tasks: int, weights: list[Any]) -> list[int]:
    """Divide by largest remainder; the left child comes first if both are equal."""
    total = sum(weights)
    shares = [int(tasks * weight // total) for weight in weights]
    rest = [tasks * weight % total for weight in weights]
    for j in sorted(range(len(weights)), key=lambda j: -rest[j])[: tasks - sum(shares)]:
        shares[j] += 1
    return shares


class ByThePaper:
    def __init__(self, case: Case) -> None:
        self.case, self.bags, self.grid = case, case.bags, case.grid
        self.heartbeat = round(case.heartbeat * NS)
        self.leaves = [Leaf(speed) for speed in case.speeds]
        self.leaves_below = {ROUTERS + u: [u] for u in range(MACHINES)}
        for k in reversed(range(ROUTERS)):
            self.leaves_below[k] = self.leaves_below[2 * k + 1] + self.leaves_below[2 * k + 2]
        self.now = 0
        self.told: list[Told | None] = [None] * NODES
        self.changed, self.asked = set(range(MACHINES)), set[int]()  # leaves; nodes that must report
        self.debits: list[list[Debit]] = [[] for _ in range(NODES)]
        self.rest = [math.inf] * ROUTERS  # the minimum stretch of the rest of the tree, as far as it is known
        self.lost: dict[int, dict[int, int]] = {}
        self.left, self.finish = [bag.tasks for bag in case.bags], [0] * len(case.bags)
        self.requests: list[Request] = []
        self.report()

    # -- leaves -------------------------------------------------------------------------------------------

    def queue(self, u: int) -> Queue:
        leaf = self.leaves[u]
        running = None if leaf.running is None else self.bags[leaf.running[0]]
        free = self.now if leaf.running is None else leaf.running[2]
        waiting = tuple((self.bags[i], n) for i, n in leaf.waiting)
        return Queue(self.now / NS, leaf.speed, free / NS, running, waiting)

    def order(self, u: int) -> None:
        """Return the order by earliest deadline at the smallest stretch that meets all deadlines."""
        queue = self.queue(u)
        stretch = queue.stretch_of_waiting() if queue.running is None else queue.minimum_stretch()
        self.leaves[u].waiting.sort(key=lambda share: self.bags[share[0]].deadline(stretch))

    def begin(self, u: int) -> None:
        leaf = self.leaves[u]
        self.changed.add(u)
        if leaf.running is None and leaf.waiting:
            i = leaf.waiting[0][0]
            leaf.waiting[0][1] -= 1
            leaf.waiting = [share for share in leaf.waiting if share[1]]
            leaf.running = (i, self.now, self.now + round(self.bags[i].task_size / leaf.speed * NS))

    def end(self, u: int) -> None:
        leaf = self.leaves[u]
        assert leaf.running is not None
        i, begun, _ = leaf.running
        leaf.running, leaf.done, leaf.busy = None, leaf.done + 1, leaf.busy + self.now - begun
        self.left[i] -= 1
        self.finish[i] = self.now
        self.begin(u)

    def fail(self, u: int) -> None:
        """Reset a machine: its leaf loses its tasks, its router all reports; its children report again."""
        leaf = self.leaves[u]
        if self.case.detection is None:
            noticed = (self.now // self.heartbeat + 1) * self.heartbeat
        else:
            noticed = self.now + round(self.case.detection * NS)
        lost = self.lost.setdefault(noticed, {})
        shares = [(i, n) for i, n in leaf.waiting]
        if leaf.running is not None:
            shares.append((leaf.running[0], 1))
            leaf.busy += self.now - leaf.running[1]
        for i, n in shares:
            lost[i] = lost.get(i, 0) + n
        leaf.waiting, leaf.running = [], None
        nodes = {ROUTERS + u}
        if u < ROUTERS:
            self.rest[u] = math.inf
            nodes |= {u, 2 * u + 1, 2 * u + 2}
        self.asked |= nodes
        self.changed |= {node - ROUTERS for node in nodes if node >= ROUTERS}

    # -- summaries ----------------------------------------------------------------------------------------

    def report(self) -> None:
        """Send changed summaries from the leaves to the root.

        A summary with another instant counts as changed: an application that was released earlier than the
        summary's instant is read at a smaller size, the later the smaller.
        """
        new: list[Told | None] = [None] * NODES
        for u in self.changed:
            queue = self.queue(u)
            stretches, sizes, task_sizes = self.grid
            cells = [queue.room(s, w, a) for s in stretches for w in sizes for a in task_sizes]
            idle = queue.running is None
            new[ROUTERS + u] = Told(cells, queue.minimum_stretch(), math.inf if idle else queue.at)
        for node in reversed(range(NODES)):
            children = self.told[2 * node + 1 : 2 * node + 3]
            if node < ROUTERS and (node in self.asked or new[2 * node + 1] or new[2 * node + 2]):
                one, other = children
                assert one is not None and other is not None
                cells = [x + y for x, y in zip(one.cells, other.cells, strict=True)]
                new[node] = Told(cells, min(one.minimum, other.minimum), max(one.at, other.at))
            if new[node] is not None:
                self.told[node] = new[node]
        self.changed, self.asked = set(), set()
        self.debits = [[] for _ in range(NODES)]

    def summary(self, node: int) -> Told:
        told = self.told[node]
        assert told is not None
        return told

    def instant(self, node: int) -> float:
        """Return the release for which the summary counts now (s)."""
        return min(self.summary(node).at, self.now / NS)

    def spread(self, routers: range) -> None:
        """Send the minimum stretch of the rest of the tree to these routers, as at a heartbeat."""
        for k in routers:
            sibling = k + 1 if k % 2 else k - 1
            self.rest[k] = min(self.rest[(k - 1) // 2], self.summary(sibling).minimum)

    # -- requests -----------------------------------------------------------------------------------------

    def cell(self, child: int, s: int, w: int, a: int) -> int:
        """Return the parent's view of a cell: the largest of its lower bounds, less the debits."""
        if not self.debits[child]:
            return self.debited(child, s, w, a)
        cells = ((i, j, k) for i in range(s + 1) for j in range(w + 1) for k in range(a, len(self.grid[2])))
        return max(self.debited(child, *cell) for cell in cells)

    def debited(self, child: int, s: int, w: int, a: int) -> int:
        stretches, sizes, task_sizes = self.grid
        there = self.summary(child).cells[(s * len(sizes) + w) * len(task_sizes) + a]
        debits = self.debits[child]
        if not debits:
            return there
        at = self.instant(child)
        if any(
            stretches[s] < debit.stretch
            and sizes[w] > debit.bag.size - max(0.0, at - debit.bag.release) / stretches[s]
            for debit in debits
        ):
            return 0
        tasks = sum(debit.tasks for debit in debits)
        volume = sum(debit.tasks * debit.bag.task_size for debit in debits)
        leaves = min(tasks, len(self.leaves_below[child]))
        one_by_one = sum(debit.tasks * math.ceil(debit.bag.task_size / task_sizes[a]) for debit in debits)
        return max(0, there - min(one_by_one, math.ceil(volume / task_sizes[a] + leaves) - 1))

    def look_up(self, child: int, s: int, bag: Bag) -> int:
        stretches, sizes, task_sizes = self.grid
        size = bag.size - max(0.0, self.instant(child) - bag.release) / stretches[s]
        w = sum(sample <= size for sample in sizes) - 1
        a = sum(sample < bag.task_size for sample in task_sizes)
        return 0 if w < 0 or a == len(task_sizes) else self.cell(child, s, w, a)

    def route(self, k: int, i: int, tasks: int, steps: int | None) -> list[tuple[Any, ...]]:
        """The messages that follow; steps is None of requests that come down, which cannot be refused."""
        bag, children = self.bags[i], (2 * k + 1, 2 * k + 2)
        stretch = math.inf
        for s, sample in enumerate(self.grid[0]):
            room = [self.look_up(child, s, bag) for child in children]
            if sum(room) >= tasks:
                stretch = sample
                break
        minimum = [self.summary(child).minimum for child in children]
        if steps is not None:
            if k and not stretch <= self.case.bound * min(self.rest[k], *minimum):
                return [((k - 1) // 2, i, tasks, steps + 1, None)]
            self.requests.append(Request(i, self.now / NS, tasks, k, steps, stretch))
        if stretch < math.inf:
            shares = in_proportion(tasks, room)
        else:
            speeds = [
                sum(Fraction(self.leaves[u].speed) for u in self.leaves_below[child]) for child in children
            ]
            rest = in_proportion(tasks - sum(room), speeds)
            shares = [here + more for here, more in zip(room, rest, strict=True)]
        messages = []
        for child, share, of_sibling in zip(children, shares, reversed(minimum), strict=True):
            if share:
                self.debits[child].append(Debit(share, bag, stretch))
                messages.append((child, i, share, None, min(self.rest[k], of_sibling)))
        return messages

    def submit(self, bags: dict[int, int], heartbeat: bool = False) -> None:
        """Submit requests, which pass from node to node in step; heartbeats send the minimum stretch down."""
        wave: list[tuple[Any, ...]] = []
        # the last machine has no router: its requests come to a router on another machine, and so last
        for i in sorted(bags, key=lambda i: (self.bags[i].submitter == ROUTERS, i)):
            entry = min(self.bags[i].submitter, ROUTERS - 1)
            wave.append((entry, i, bags[i], 0, None))
        levels = [range(1, 3), range(3, 7)] if heartbeat else []
        reached: set[int] = set()
        while wave or levels:
            if levels:
                self.spread(levels.pop(0))
            sent = []
            for node, i, tasks, steps, rest in sorted(wave, key=lambda message: message[0]):
                if steps is None:
                    self.asked.add(node)
                if node < ROUTERS:
                    if steps is None:
                        self.rest[node] = rest
                    sent += self.route(node, i, tasks, steps)
                else:
                    reached.add(node - ROUTERS)
                    waiting = self.leaves[node - ROUTERS].waiting
                    here = [share for share in waiting if share[0] == i]
                    if here:
                        here[0][1] += tasks
                    else:
                        waiting.append([i, tasks])
            wave = sent
        for u in sorted(reached):
            self.order(u)
            self.begin(u)
        self.report()

    def run(self) -> ByThePaper:
        releases = [(round(bag.release * NS), i) for i, bag in enumerate(self.bags)]
        resets = sorted((round(at * NS), u) for u, at in self.case.resets)
        beat = self.heartbeat
        while any(self.left):
            ends = {leaf.running[2]: u for u, leaf in enumerate(self.leaves) if leaf.running}
            self.now = min([*ends, *self.lost, beat, *(at for at, _ in releases[:1] + resets[:1])])
            for u, leaf in enumerate(self.leaves):
                if leaf.running and leaf.running[2] == self.now:
                    self.end(u)
            self.report()
            while releases and releases[0][0] == self.now:
                _, i = releases.pop(0)
                self.submit({i: self.bags[i].tasks})
            while resets and resets[0][0] == self.now:
                self.fail(resets.pop(0)[1])
            self.report()
            if beat == self.now or self.now in self.lost:
                self.submit(self.lost.pop(self.now, {}), beat == self.now)
            beat += self.heartbeat * (beat == self.now)
        return self


# -- the comparison -----------------------------------------------------------------------------------------


def drawn(seed: int) -> Case:
    """Draw eight machines that fail about every minute, and three to eight applications."""
    draw = random.Random(seed)
    at, bags = 0.0, []
    for _ in range(draw.randint(3, 8)):
        at += draw.expovariate(1 / 25)
        task_size = round(draw.uniform(5, 60), 3)
        bags.append(Bag(round(at, 3), draw.randint(1, 40), task_size, draw.randrange(MACHINES)))
    failures = {
        (draw.randrange(MACHINES), round(draw.uniform(0, 250), 4)) for _ in range(draw.randint(3, 12))
    }
    stretches = tuple(0.01 * 1.8**k * draw.uniform(0.9, 1.1) for k in range(11))
    sizes = tuple(2.0 * 3.0**k * draw.uniform(0.8, 1.2) for k in range(6))
    return Case(
        speeds=[round(draw.uniform(1, 4), 3) for _ in range(MACHINES)],
        bags=bags,
        resets=sorted(failures),
        grid=(stretches, sizes, (draw.uniform(5, 40), 60.0)),
        bound=draw.choice((0.0, 1.0, 2.0, 5.0)),
        detection=draw.choice((None, round(draw.uniform(0.5, 40), 3))),
        heartbeat=draw.choice((20.0, 300.0)),
    )


def simulated(speeds: list[float], bags: list[Bag], faults: gs.Faults, **parameters: Any) -> gs.Result:
    scenario = gs.Scenario(
        gs.Platform.of(speeds),
        gs.Workload.of(*([bag[k] for bag in bags] for k in range(4)), origin=0.0),
        gs.Network(latency=0.0, bandwidth=math.inf),
        faults=faults,
    )
    # the limit is for a mistake that submits the same tasks again and again
    return gs.simulate(
        scenario, gs.FairTree(update_rate=0.0, accept="minimum", **parameters), time_limit=20_000.0
    )


def compared(case: Case) -> list[Request]:
    """The requests by the paper, which must be ours, as must be what becomes of them."""
    machine, down = zip(*case.resets, strict=True)
    result = simulated(
        case.speeds,
        case.bags,
        gs.Faults.of(machine, down, down),
        grid=case.grid,
        bound=case.bound,
        detection=case.detection,
        heartbeat=case.heartbeat,
    )
    paper = ByThePaper(case).run()
    table = result.tables["requests"]
    ours = zip(*(table[name].tolist() for name in Request._fields), strict=True)
    assert [Request(*row) for row in ours] == sorted(paper.requests, key=lambda request: request[:2])
    assert [round(at * NS) for at in result.applications["finish"].tolist()] == paper.finish
    assert result.machines["tasks"].tolist() == [leaf.done for leaf in paper.leaves]
    busy = [leaf.busy / NS for leaf in paper.leaves]
    assert result.machines["busy"].tolist() == pytest.approx(busy, rel=1e-12, abs=1e-9)
    return paper.requests


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 200), marks=pytest.mark.slow)])
def test_random_cases_equal_the_algorithm_of_the_paper(seeds: range) -> None:
    """Accepted requests, promises, starts and ends are equal to the nanosecond."""
    requests, applications, below_the_root = 0, 0, 0
    for seed in seeds:
        case = drawn(seed)
        found = compared(case)
        requests, applications = requests + len(found), applications + len(case.bags)
        below_the_root += sum(request.router > 0 for request in found)
    assert requests > 2 * applications  # most were submitted again
    assert below_the_root > len(seeds) / 5


def test_summary_that_differs_only_in_its_time_is_sent() -> None:
    """Machine 0 runs eight tasks from 6 s on, and after each it reports the same values for a later instant.

    Machine 1 joins at 8 s, takes the other bag's task at 17 s, and loses it at 24 s.  At 29 s machine 0 is
    busy until 36 s, so that the task cannot end there by 17 + 2 * 10 s; the summary of 16 s would have room.
    """
    bags = [Bag(6.0, 8, 10.0, 0), Bag(17.0, 1, 10.0, 0)]
    faults = gs.Faults.of([1, 1], [0.0, 24.0], [8.0, 24.0])
    grid = ((1.0, 2.0, 4.0), (5.0, 10.0), (10.0,))
    result = simulated([1.0, 1.0], bags, faults, grid=grid, bound=0.0, detection=5.0)
    requests = result.tables["requests"]
    assert (requests["accepted"].tolist(), requests["promised"].tolist()) == (
        [6.0, 17.0, 29.0],
        [math.inf, 1.0, 4.0],
    )
    assert result.applications["finish"].tolist() == [86.0, 39.0]
    assert result.machines["tasks"].tolist() == [8, 1]
