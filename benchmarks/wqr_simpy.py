"""Work queue with replication and checkpoints in SimPy: the work of `gridsim.WqrFt`, to be held against it.

One bag, all of it released at time 0; at most two copies of a task; checkpoints on the server; exact
predictions.  All times are ns, and ints, which SimPy takes as they are.

It is as fast as SimPy allows: no process at all, each copy of a task is one bare ``Timeout`` with a callback,
cancelled by forgetting it.  Checkpoints are reckoned when somebody asks, not as events, and whatever it
chooses from is in heaps or in a tree.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import ArrayLike

#: Priorities of what happens at one instant.  Timeouts, by which tasks end, are before both: SimPy's 1.
CHANGES, STARTS = 2, 3

#: Columns: time, machine, up, until.
Failures = Sequence[ArrayLike]


@dataclass(frozen=True)
class Rules:
    """order : of tasks, "small" or "great"; choice : of machines, "none", "cpu", "avail" or "all".

    replicas : copies of a task that may run at a time, 1 or 2; interval (> 0), checkpoint, restore : ns.
    """

    order: str
    choice: str
    interval: int
    checkpoint: int
    restore: int
    replicas: int = 2


@dataclass(frozen=True)
class Outcome:
    """makespan : ns; interrupted : copies that failures cut off; killed : that another was faster than."""

    makespan: int
    interrupted: int
    killed: int


# -- machines that are idle ------------------------------------------------------------------------------


class Idle(Protocol):
    """Machines that are idle, in an order; at first all are."""

    count: int

    def add(self, machine: int, until: int) -> None:
        """It is idle now, and predicted to be up until then."""

    def drop(self, machine: int) -> None:
        """It is idle and fails."""

    def take(self, start: int, residual: float) -> int:
        """Choose one for a task of which so much is left, Mflop, to be computed from `start` ns on."""


class Ranked:
    """By a rank that a machine keeps: a heap of ranks, with those who are gone left in."""

    def __init__(self, by_rank: list[int]) -> None:
        self.count = len(by_rank)
        self._by_rank, self._rank = by_rank, inverse(by_rank)
        self._idle = [True] * self.count
        self._heap = list(range(self.count))

    def add(self, machine: int, until: int) -> None:
        self.count += 1
        self._idle[machine] = True
        heappush(self._heap, self._rank[machine])

    def drop(self, machine: int) -> None:
        self.count -= 1
        self._idle[machine] = False

    def take(self, start: int, residual: float) -> int:
        heap, by_rank, idle = self._heap, self._by_rank, self._idle
        machine = by_rank[heappop(heap)]
        while not idle[machine]:
            machine = by_rank[heappop(heap)]
        self.count -= 1
        idle[machine] = False
        return machine


class Longest:
    """The one that is up the longest first: as `Ranked`, but an entry counts only for its own up time."""

    def __init__(self, first: list[int]) -> None:
        self.count = len(first)
        self._until = list(first)  # -1 of who is not idle
        self._heap = [(-until, machine) for machine, until in enumerate(first)]
        heapify(self._heap)

    def add(self, machine: int, until: int) -> None:
        self.count += 1
        self._until[machine] = until
        heappush(self._heap, (-until, machine))

    def drop(self, machine: int) -> None:
        self.count -= 1
        self._until[machine] = -1

    def take(self, start: int, residual: float) -> int:
        heap, current = self._heap, self._until
        until, machine = heappop(heap)
        while current[machine] != -until:
            until, machine = heappop(heap)
        self.count -= 1
        current[machine] = -1
        return machine


class Sufficing:
    """The fastest that is up for long enough, else the fastest: a tree of maxima over machines by speed."""

    def __init__(self, speeds: list[float], first: list[int], rules: Rules) -> None:
        self.count = len(speeds)
        self._by_rank = fastest_first(speeds)
        self._rank, self._rules = inverse(self._by_rank), rules
        self._leaves = leaves = 1 << (self.count - 1).bit_length()
        self._speed = [speeds[machine] for machine in self._by_rank]
        self._speed += self._speed[-1:] * (leaves - self.count)
        self._tree = tree = [-1] * (2 * leaves)  # until when; -1 of who is not idle
        tree[leaves : leaves + self.count] = [first[machine] for machine in self._by_rank]
        for i in range(leaves - 1, 0, -1):
            tree[i] = max(tree[2 * i], tree[2 * i + 1])

    def _set(self, rank: int, until: int) -> None:
        tree, i = self._tree, self._leaves + rank
        tree[i] = until
        while i > 1:
            other = tree[i ^ 1]
            if other > until:
                until = other
            i >>= 1
            if tree[i] == until:
                break
            tree[i] = until

    def add(self, machine: int, until: int) -> None:
        self.count += 1
        self._set(self._rank[machine], until)

    def drop(self, machine: int) -> None:
        self.count -= 1
        self._set(self._rank[machine], -1)

    def take(self, start: int, residual: float) -> int:
        rank = self._first_sufficing(start, residual)
        if rank < 0:
            rank = self._first()
        self.count -= 1
        self._set(rank, -1)
        return self._by_rank[rank]

    def _first(self) -> int:
        """The fastest."""
        tree, leaves, i = self._tree, self._leaves, 1
        while i < leaves:
            i *= 2
            if tree[i] < 0:
                i += 1
        return i - leaves

    def _first_sufficing(self, start: int, residual: float) -> int:
        """The fastest that is up until it has done this much, from `start` on; -1 if none is.

        All below a node need at least what the fastest of them needs.
        """
        tree, leaves, speeds = self._tree, self._leaves, self._speed
        interval, checkpoint = self._rules.interval, self._rules.checkpoint
        node, width, known = 1, leaves, -1.0
        while True:
            speed = speeds[node * width - leaves]
            if speed != known:
                known = speed
                computing = round(residual / speed * 1e9) or 1
                least = start + computing + (computing - 1) // interval * checkpoint
            while tree[node] >= least:
                if node >= leaves:
                    return node - leaves
                node, width = 2 * node, width // 2
            while node & 1:  # on to the next that is not below it
                node, width = node >> 1, 2 * width
            node += 1
            if node & (node - 1) == 0:  # there is none
                return -1


def idle_machines(speeds: list[float], first: list[int], rules: Rules) -> Idle:
    """All of them, for the choice of `rules`."""
    if rules.choice == "none":
        return Ranked(list(range(len(speeds))))
    if rules.choice == "cpu":
        return Ranked(fastest_first(speeds))
    return Longest(first) if rules.choice == "avail" else Sufficing(speeds, first, rules)


def fastest_first(speeds: list[float]) -> list[int]:
    return sorted(range(len(speeds)), key=lambda machine: -speeds[machine])


def inverse(order: list[int]) -> list[int]:
    rank = [0] * len(order)
    for i, machine in enumerate(order):
        rank[machine] = i
    return rank


# -- machines and tasks -----------------------------------------------------------------------------------


class Machine:
    """A machine, and the copy of a task that it runs, if any.

    until : ns, when it fails next; task : -1 if it runs none; other : the machine that runs the same task;
    begin : Mflop of the task that were done before; since : ns, from when on it computes; marks : checkpoints
    that it writes until its end.
    """

    __slots__ = ("begin", "marks", "number", "other", "since", "speed", "task", "until", "up")

    def __init__(self, number: int, speed: float, until: int) -> None:
        self.number, self.speed, self.until, self.up = number, speed, until, True
        self.other: Machine | None = None
        self.task, self.begin, self.since, self.marks = -1, 0.0, 0, 0

    def runs_alone(self, task: int) -> bool:
        return self.task == task and self.other is None


class Candidates(Protocol):
    """Machines that run a task alone, by task; those that do not any more are left in."""

    def add(self, machine: Machine) -> None:
        """It runs its task alone now."""

    def take(self) -> Machine | None:
        """The one whose task is next."""


class Greatest:
    """The most left to do first: what is in the heap may be too much, and is put right when it is on top."""

    def __init__(self, machines: Sequence[Machine], residual: Callable[[Machine], float]) -> None:
        self._machines, self._residual = machines, residual
        self._heap: list[tuple[float, int, int]] = []

    def add(self, machine: Machine) -> None:
        heappush(self._heap, (-self._residual(machine), machine.task, machine.number))

    def take(self) -> Machine | None:
        heap = self._heap
        while heap:
            key, task, number = heap[0]
            machine = self._machines[number]
            if not machine.runs_alone(task):
                heappop(heap)
                continue
            now = -self._residual(machine)
            if now == key:
                heappop(heap)
                return machine
            heapreplace(heap, (now, task, number))
        return None


class Smallest:
    """The least left to do first.  What is in the heap must not be too much here: a second heap has the next
    checkpoint of each task, and what has been written is looked at before one is taken."""

    def __init__(
        self,
        env: simpy.Environment,
        machines: Sequence[Machine],
        residual: Callable[[Machine], float],
        next_checkpoint: Callable[[Machine], int],
    ) -> None:
        self._env, self._machines = env, machines
        self._residual, self._next_checkpoint = residual, next_checkpoint
        self._key: dict[int, float] = {}  # of each task, what counts of that in the heaps
        self._at: dict[int, int] = {}
        self._heap: list[tuple[float, int, int]] = []
        self._checkpoints: list[tuple[int, int, int]] = []

    def add(self, machine: Machine) -> None:
        task, number = machine.task, machine.number
        self._key[task] = key = self._residual(machine)
        heappush(self._heap, (key, task, number))
        self._at[task] = at = self._next_checkpoint(machine)
        if at:
            heappush(self._checkpoints, (at, task, number))

    def take(self) -> Machine | None:
        heap, checkpoints, now = self._heap, self._checkpoints, self._env.now
        while checkpoints and checkpoints[0][0] <= now:
            at, task, number = heappop(checkpoints)
            if self._at[task] == at and self._machines[number].runs_alone(task):
                self.add(self._machines[number])
        while heap:
            key, task, number = heappop(heap)
            if self._key[task] == key and self._machines[number].runs_alone(task):
                return self._machines[number]
        return None


# -- the server -------------------------------------------------------------------------------------------


class Server:
    """All tasks, what is saved of them, and the machines that are idle.

    machines : with numbers from 0 on; sequence : of tasks, in which they are started for the first time;
    launch : is told which machine is to run a copy now, and for how many ns.
    """

    def __init__(
        self,
        env: simpy.Environment,
        machines: Sequence[Any],
        sizes: ArrayLike,
        sequence: ArrayLike,
        rules: Rules,
        launch: Callable[[Any, int], None],
    ) -> None:
        if rules.replicas not in (1, 2):
            raise ValueError(f"rules.replicas must be 1 or 2, got {rules.replicas}")
        self._env, self._machines, self._rules, self._launch = env, machines, rules, launch
        self._interval, self._checkpoint, self._restore = rules.interval, rules.checkpoint, rules.restore
        self._size = numbers(sizes)
        self._unstarted = iter(numbers(sequence))
        self._period = rules.interval + rules.checkpoint
        self._saved: dict[int, float] = {}  # Mflop of tasks in the newest checkpoint of who has failed
        self._failed: deque[int] = deque()  # tasks without a copy, the oldest first
        self._idle = idle_machines(
            [each.speed for each in machines], [each.until for each in machines], rules
        )
        self._freed: list[Machine] = []  # idle, too: since tasks were started last
        self._candidates: Candidates | None = None
        self.left, self.interrupted, self.killed = len(self._size), 0, 0

    def start_tasks(self, _: Any = None) -> None:
        """All that can start now."""
        idle, freed = self._idle, self._freed
        # nearly always there is nothing to choose
        if not idle.count and len(freed) == 1 and (task := self._next_task()):
            self._start(freed.pop(), *task)
            return
        for machine in freed:
            idle.add(machine.number, machine.until)
        freed.clear()
        while idle.count and (task := self._next_task()):
            number, begin, _ = task
            start = self._env.now + (self._restore if begin > 0.0 else 0)
            self._start(self._machines[idle.take(start, self._size[number] - begin)], *task)

    def completed(self, machine: Machine) -> Any:
        """Its task is; who runs that, too, is to be killed."""
        other = machine.other
        machine.task, machine.other = -1, None
        self._freed.append(machine)
        self.left -= 1
        return other

    def was_killed(self, machine: Machine) -> None:
        """Another was faster."""
        machine.task, machine.other = -1, None
        self._freed.append(machine)
        self.killed += 1

    def went_down(self, machine: Machine) -> None:
        """It fails, with its copy if it has any."""
        machine.up = False
        if machine.task >= 0:
            self._cut_off(machine)
        elif machine in self._freed:
            self._freed.remove(machine)
        else:
            self._idle.drop(machine.number)

    def came_back(self, machine: Machine, until: int) -> None:
        """It is up, until then."""
        machine.up, machine.until = True, until
        self._freed.append(machine)

    def _cut_off(self, machine: Machine) -> None:
        task, other = machine.task, machine.other
        self.interrupted += 1
        self._saved[task] = self._newest(machine)
        machine.task, machine.other = -1, None
        if other is None:
            self._failed.append(task)
            return
        other.other = None
        if self._candidates is not None:
            self._candidates.add(other)

    def _saved_by(self, machine: Machine) -> float:
        """Mflop of its task in the newest checkpoint of this machine."""
        marks = min((self._env.now - machine.since) // self._period, machine.marks)
        if marks <= 0:
            return machine.begin
        return machine.begin + marks * self._interval / 1e9 * machine.speed

    def _newest(self, machine: Machine) -> float:
        """The same of all that run its task, or have failed, if it runs it alone."""
        return max(self._saved_by(machine), self._saved.get(machine.task, 0.0))

    def _residual(self, machine: Machine) -> float:
        return max(0.0, self._size[machine.task] - self._newest(machine))

    def _next_checkpoint(self, machine: Machine) -> int:
        """When it writes one, ns; 0 if it does not."""
        marks = max(0, (self._env.now - machine.since) // self._period) + 1
        return machine.since + marks * self._period if marks <= machine.marks else 0

    def _next_task(self) -> tuple[int, float, Machine | None] | None:
        """The task that starts next, how much of it is done, Mflop, and who runs it."""
        if self._failed:
            task = self._failed.popleft()
            return task, self._saved[task], None
        for task in self._unstarted:
            return task, 0.0, None
        if self._rules.replicas == 1:
            return None
        if self._candidates is None:
            self._candidates = self._all_candidates()
        other = self._candidates.take()
        return None if other is None else (other.task, self._newest(other), other)

    def _all_candidates(self) -> Candidates:
        candidates: Candidates
        if self._rules.order == "small":
            candidates = Smallest(self._env, self._machines, self._residual, self._next_checkpoint)
        else:
            candidates = Greatest(self._machines, self._residual)
        for machine in self._machines:
            if machine.task >= 0:
                candidates.add(machine)
        return candidates

    def _start(self, machine: Machine, task: int, begin: float, other: Machine | None) -> None:
        computing = round((self._size[task] - begin) / machine.speed * 1e9) or 1
        machine.marks = marks = (computing - 1) // self._interval
        reading = self._restore if begin > 0.0 else 0
        machine.task, machine.begin, machine.since = task, begin, self._env.now + reading
        machine.other = other
        self._launch(machine, reading + computing + marks * self._checkpoint)
        if other is not None:
            other.other = machine
        elif self._candidates is not None:
            self._candidates.add(machine)


def numbers(column: ArrayLike) -> list[Any]:
    """Those of numpy are slow to reckon with one by one."""
    return np.asarray(column).tolist()


def rows(failures: Failures) -> Iterator[tuple[int, int, bool, int]]:
    return zip(*map(numbers, failures), strict=True)


class Late(simpy.Event):
    """Comes `delay` ns from now, after what is of a priority before its own."""

    def __init__(self, env: simpy.Environment, priority: int, delay: int = 0, value: Any = None) -> None:
        super().__init__(env)
        self._ok, self._value = True, value
        env.schedule(self, priority, delay)


@contextmanager
def no_collection() -> Iterator[None]:
    """The garbage collector would look at everything, again and again, and find nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


# -- the simulation ---------------------------------------------------------------------------------------


class Runner(Machine):
    """due : the event by which its copy completes the task, or None."""

    __slots__ = ("due",)

    def __init__(self, number: int, speed: float, until: int) -> None:
        super().__init__(number, speed, until)
        self.due: simpy.Timeout | None = None


def simulate(
    speeds: ArrayLike,
    sizes: ArrayLike,
    sequence: ArrayLike,
    first: ArrayLike,
    failures: Failures,
    rules: Rules,
) -> Outcome:
    """Run all tasks.

    speeds : Mflop/s of each machine; sizes : Mflop of each task; sequence : of tasks, in which they are
    started for the first time; first : ns, when each machine fails first; failures : columns time (ns),
    machine, up (whether it comes back) and until (ns, of who comes back: when it fails next), in order.
    """
    env = simpy.Environment()
    done = env.event()
    changes = rows(failures)
    machines = [Runner(*each) for each in zip(count(), numbers(speeds), numbers(first), strict=False)]

    def launch(machine: Runner, duration: int) -> None:
        machine.due = due = env.timeout(duration, machine)
        due.callbacks.append(complete)

    server = Server(env, machines, sizes, sequence, rules, launch)
    completed, start_tasks = server.completed, server.start_tasks

    def settle() -> None:
        """Start tasks, after all else that happens now."""
        if env.peek() > env.now:
            start_tasks()
        else:
            Late(env, STARTS).callbacks.append(start_tasks)

    def complete(due: simpy.Timeout) -> None:
        machine = due.value
        if machine.due is not due:  # it was cut off, or killed
            return
        other = completed(machine)
        if other is not None:
            other.due = None
            server.was_killed(other)
        if server.left:
            settle()
        else:
            done.succeed()

    def change(event: simpy.Event) -> None:
        """A machine fails or comes back now; the next change follows."""
        _, number, up, until = event.value
        machine = machines[number]
        if up and not machine.up:
            server.came_back(machine, until)
        elif machine.up and not up:
            machine.due = None
            server.went_down(machine)
        await_change()
        settle()

    def await_change() -> None:
        for row in changes:
            Late(env, CHANGES, row[0] - env.now, row).callbacks.append(change)
            return

    with no_collection():
        Late(env, STARTS).callbacks.append(start_tasks)
        await_change()
        env.run(until=done)
    return Outcome(env.now, server.interrupted, server.killed)
