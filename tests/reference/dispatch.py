"""Reference implementation of `gridcore.work_queue.dispatch`: the same results, by scans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from gridcore.work_queue.state import BAG_ORDERS, check_rules, index_of
from tests.reference.arguments import POSITIVE, check_array, check_lengths, doubles, indices, integers

__all__ = ["WorkQueue"]

LONGEST = 9.2e18
MAX_UP_TIMES = 32

_COUNTS = ("resubmitted", "replicas", "killed", "undisturbed")
_WASTE = ("redundant", "lost", "overhead", "slowed")


@dataclass
class Copy:
    machine: int
    start: int
    begin: float
    end: int = 0
    marks: int = 0


@dataclass
class Task:
    size: float
    saved: float = 0.0
    spent: float = 0.0
    has_begun: bool = False
    completed: bool = False
    resubmitted: bool = False
    lost: int = 0  # ns, when it lost its last copy
    copies: list[Copy] = field(default_factory=list)  # newest first


@dataclass
class Bag:
    first: int
    tasks: int
    left: int
    released: int = -1  # ns, or -1
    sequence: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    groups: list[list[int]] | None = None  # tasks that may get a further copy, by number of copies
    machines: set[int] = field(default_factory=set)
    totals: dict[str, int] = field(
        default_factory=lambda: {"first_start": -1, "finish": -1} | dict.fromkeys(_COUNTS, 0)
    )
    waste: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_WASTE, 0.0))


def _instants(values: Any, name: str, low: int) -> list[int]:
    instants = integers(values, name)
    for k, value in enumerate(instants):
        if value < low:
            raise ValueError(f"{name}[{k}] must be >= {low}, got {value}")
    return instants


class WorkQueue:
    """See `gridcore.work_queue.dispatch.WorkQueue`."""

    def __init__(
        self,
        speed: ArrayLike,
        tasks: ArrayLike,
        sizes: ArrayLike,
        up_until: ArrayLike,
        *,
        order: str,
        choice: str,
        max_replicas: SupportsIndex,
        interval: SupportsIndex = 0,
        checkpoint: SupportsIndex = 0,
        restore: SupportsIndex = 0,
        local: bool = False,
        printed: bool = False,
        prediction: str = "told",
        faults: bool = False,
        seed: SupportsIndex = 0,
        log: bool = False,
        period: SupportsIndex = 0,
        factors: ArrayLike | None = None,
        series: ArrayLike | None = None,
        first: ArrayLike | None = None,
        step: bool = False,
        bag_order: str = "fcfs-share",
        min_speed: float = 0.0,
        phase: SupportsIndex = 0,
    ) -> None:
        self._speed, all_sizes = doubles(speed, "speed"), doubles(sizes, "sizes")
        counts = indices(tasks, "tasks", 1, 2**31)
        self._forecast = _instants(up_until, "up_until", 0)
        check_array(self._speed, "speed", POSITIVE)
        check_array(all_sizes, "sizes", POSITIVE)
        check_lengths(len(self._speed), len(self._forecast), "speed", "up_until")
        check_rules(max_replicas, interval, checkpoint, restore, period, phase, seed)
        self._tasks = [Task(size) for size in all_sizes]
        self._bags, at = [], 0
        for count in counts:
            self._bags.append(Bag(at, count, count))
            at += count
        if at != len(self._tasks):
            raise ValueError(f"sizes must have {at} entries, the sum of tasks, got {len(self._tasks)}")
        index_of("order", order, ("random", "small", "great", "ask"))
        index_of("choice", choice, ("none", "cpu", "avail", "all", "ask"))
        index_of("prediction", prediction, ("told", "past", "age"))
        index_of("bag_order", bag_order, BAG_ORDERS)
        self._bag_order, self._turn = bag_order, -1
        self._fast = [speed >= min_speed for speed in self._speed]
        self._bag_of = [b for b, count in enumerate(counts) for _ in range(count)]
        self.machines, self.bags, self.left = len(self._speed), len(counts), at
        self.now, self.log = 0, log
        self._order, self._choice, self._max_copies = order, choice, int(max_replicas)
        self._interval, self._checkpoint, self._restore = int(interval), int(checkpoint), int(restore)
        self._local, self._as_printed, self._prediction = local, printed, prediction
        self._fed, self._random_state, self._dirty, self._step = not faults, int(seed), False, step
        self._period, self._phase = int(period), int(phase)
        self._load = self._load_profile(factors, series, first) if self._period else None
        self._up = [True] * self.machines
        self._since = [0] * self.machines
        self._up_times: list[list[int]] = [[] for _ in range(self.machines)]
        self._failures = [0] * self.machines
        self._local_of: list[tuple[int, float]] = [(-1, 0.0)] * self.machines
        self._runs: dict[int, int] = {}  # machine -> task
        self._until = {u: self._predicted(u) for u in range(self.machines) if self._fast[u]}  # if free
        self._faults: list[tuple[int, int, bool, int]] = []
        self._totals = {name: [0] * self.machines for name in ("busy", "tasks", "interrupted", "ended")}
        self._rows: list[tuple[int, int, int, int, int, float]] = []

    def _load_profile(
        self, factors: Any, series: Any, first: Any
    ) -> tuple[NDArray[Any], list[int], list[int]]:
        table = np.array(factors, np.float64, ndmin=2)
        is_valid = np.isfinite(table) & (table > 0)
        if not is_valid.all():
            raise ValueError(f"factors must be finite and > 0, got {table[~is_valid][0]}")
        rows, begin = indices(series, "series", 0, len(table)), indices(first, "first", 0, table.shape[1])
        check_lengths(self.machines, len(rows), "speed", "series")
        check_lengths(self.machines, len(begin), "speed", "first")
        return table, rows, begin

    # -- copies --------------------------------------------------------------------------------------

    def _factor(self, u: int, k: int) -> float:
        assert self._load is not None
        factors, series, first = self._load
        return float(factors[series[u], (first[u] + k) % factors.shape[1]])

    def _load_work(self, u: int, start: int, end: int) -> float:
        if self._load is None:
            return float(end - start)
        k, done = (start + self._phase) // self._period, 0.0
        while start < end:
            edge = min((k + 1) * self._period - self._phase, end)
            done += self._factor(u, k) * float(edge - start)
            start, k = edge, k + 1
        return done

    def _load_end(self, u: int, start: int, work: float, limit: int) -> int:
        k = (start + self._phase) // self._period
        while start < limit:
            edge = min((k + 1) * self._period - self._phase, limit)
            factor = self._factor(u, k)
            room = factor * float(edge - start)
            if work <= room + 0.5 * factor:
                return min(start + max(1, round(work / factor)), limit)
            work -= room
            start, k = edge, k + 1
        return NEVER

    def _copy_duration(self, begin: float, size: float, speed: float) -> int:
        work = (size - begin) / speed * 1e9
        if not work < LONGEST:
            return NEVER
        computing = max(1, round(work))
        marks = (computing - 1) // self._interval if self._interval else 0
        if not float(computing) + float(marks) * float(self._checkpoint) + float(self._restore) < LONGEST:
            return NEVER
        return computing + marks * self._checkpoint + (self._restore if begin > 0.0 else 0)

    def _begin(self, it: Copy, size: float) -> None:
        speed = self._speed[it.machine]
        if self._load is None:
            length = self._copy_duration(it.begin, size, speed)
            if length > NEVER - 1 - it.start:
                raise OverflowError("a task ends after the last instant")
            it.end = it.start + length
            if self._interval:
                length -= self._restore if it.begin > 0.0 else 0
                it.marks = (length - 1) // (self._interval + self._checkpoint)
            return
        work, window = (size - it.begin) / speed * 1e9, self._computing_from(it)
        while True:
            latest = window + self._interval if self._interval else int(LONGEST)
            if latest > LONGEST or not work < LONGEST:
                raise OverflowError("a task ends after the last instant")
            it.end = self._load_end(it.machine, window, work, latest)
            if it.end != NEVER:
                return
            if not self._interval:
                raise OverflowError("a task ends after the last instant")
            work -= self._load_work(it.machine, window, latest)
            it.marks += 1
            window = latest + self._checkpoint

    def _computing_from(self, it: Copy) -> int:
        return it.start + (self._restore if it.begin > 0.0 else 0)

    def _marks(self, it: Copy) -> int:
        since = self.now - self._computing_from(it)
        if not self._interval or since <= 0:
            return 0
        return min(it.marks, since // (self._interval + self._checkpoint))

    def _saved_work(self, it: Copy) -> float:
        marks = self._marks(it)
        if not marks:
            return it.begin
        if self._load is None:
            done = float(marks * self._interval)
        else:
            done, window = 0.0, self._computing_from(it)
            for _ in range(marks):
                done += self._load_work(it.machine, window, window + self._interval)
                window += self._interval + self._checkpoint
        return it.begin + done / 1e9 * self._speed[it.machine]

    def _cycles(self, it: Copy) -> tuple[float, float, float, float]:
        """Return Mflop computed, computed since the last checkpoint, of overhead, and of background load."""
        ran, marks, speed = self.now - it.start, self._marks(it), self._speed[it.machine]
        reading = min(ran, self._restore if it.begin > 0.0 else 0)
        window = it.start + reading + marks * (self._interval + self._checkpoint)
        computing = self.now - window
        if marks < it.marks:
            computing = min(computing, self._interval)
        done = self._load_work(it.machine, window, window + computing)
        fresh = done / 1e9 * speed
        if self._load is None:
            done += float(marks * self._interval)
        else:
            for k in range(marks):
                window = it.start + reading + k * (self._interval + self._checkpoint)
                done += self._load_work(it.machine, window, window + self._interval)
        computing += marks * self._interval
        return (
            done / 1e9 * speed,
            fresh,
            float(ran - computing) / 1e9 * speed,
            (float(computing) - done) / 1e9 * speed,
        )

    def _newest(self, k: int) -> float:
        if self._local:
            return 0.0
        return max([self._tasks[k].saved, *map(self._saved_work, self._tasks[k].copies)])

    def _predicted(self, u: int) -> int:
        age = self.now - self._since[u]
        if self._prediction == "told":
            return int(self._forecast[u])
        if self._prediction == "past":
            longer = [x for x in self._up_times[u] if x > age]
            if longer:
                mean = sum(map(float, longer), 0.0) / len(longer)
                return self._since[u] + round(mean) if mean < 9.2e18 - float(self._since[u]) else NEVER
        return min(self.now + age, NEVER)

    # -- what comes from outside ------------------------------------------------------------------------

    def submit(self, bag: int, sequence: ArrayLike) -> None:
        self._check_bag(bag)
        b = self._bags[bag]
        order = indices(sequence, "sequence", 0, b.tasks)
        check_lengths(b.tasks, len(order), "tasks of the bag", "sequence")
        if b.released >= 0:
            raise ValueError(f"bag must not be released yet, got {bag}")
        for k, task in enumerate(order):
            if task in order[:k]:
                raise ValueError(f"sequence[{k}] must differ from the entries before it, got {task}")
        b.released, b.sequence, self._dirty = self.now, [b.first + k for k in order], True
        if self._prediction != "told":
            self._until = {u: self._predicted(u) for u in self._until}

    def feed(self, time: ArrayLike, machine: ArrayLike, up: ArrayLike, until: ArrayLike) -> None:
        if self._fed or self._faults:
            raise ValueError("feed requires that the last run returned 'blocks'")
        times, machine_ids = _instants(time, "time", self.now), indices(machine, "machine", 0, self.machines)
        predicted, up_flags = _instants(until, "until", 0), np.asarray(up, np.bool_).tolist()
        for name, column in (("machine", machine_ids), ("up", up_flags), ("until", predicted)):
            check_lengths(len(times), len(column), "time", name)
        for k in range(1, len(times)):
            if times[k] < times[k - 1]:
                raise ValueError(f"time[{k}] must be >= time[{k - 1}], {times[k - 1]}, got {times[k]}")
        self._faults = list(zip(times, machine_ids, up_flags, predicted, strict=True))
        self._fed = not self._faults

    # -- decisions --------------------------------------------------------------------------------------

    def _open(self, b: Bag) -> list[int]:
        """Return the tasks of the bag one of which is next."""
        if b.released < 0 or b.failed:
            return b.failed[:1]
        left = [k for k in range(b.first, b.first + b.tasks) if not self._tasks[k].completed]
        fewest = min((len(self._tasks[k].copies) for k in left), default=self._max_copies)
        if fewest >= self._max_copies:
            return []
        return [k for k in left if len(self._tasks[k].copies) == fewest]

    def _longest_wait(self, b: Bag) -> int:
        """Return the longest time (ns) that a task of the bag has had no copy; -1 if all have one."""
        open_tasks = [
            self._tasks[k] for k in range(b.first, b.first + b.tasks) if not self._tasks[k].completed
        ]
        since = [t.lost if t.has_begun else b.released for t in open_tasks if not t.copies]
        return self.now - min(since) if since else -1

    def _ready(self) -> int:
        """Return the bag that is next, -1 for none."""
        released = [i for i, b in enumerate(self._bags) if b.released >= 0 and b.left]
        ready = [i for i in released if self._open(self._bags[i])]
        if not ready or (self._bag_order == "fcfs-excl" and ready[0] != released[0]):
            return -1
        if self._bag_order == "longidle":
            return max(ready, key=lambda i: (self._longest_wait(self._bags[i]), -i))
        if self._bag_order == "rr-nrf":
            ready = [i for i in ready if self._longest_wait(self._bags[i]) >= 0] or ready
        if self._bag_order in ("rr", "rr-nrf"):
            return next((i for i in ready if i > self._turn), ready[0])
        return ready[0]

    def candidates(self) -> tuple[int, Integers, NDArray[np.float64]]:
        i = self._ready()
        if i < 0:
            return -1, np.zeros(0, np.int64), np.zeros(0)
        eligible = self._open(self._bags[i])
        residual = [self._tasks[k].size - self._newest(k) for k in eligible]
        return i, np.array(eligible, np.int64) - self._bags[i].first, np.array(residual)

    def idle_machines(self) -> tuple[Integers, Integers]:
        free = sorted(self._until)
        return np.array(free, np.int64), np.array([self._until[u] for u in free], np.int64)

    def lasts(self, bag: int, task: int, machines: ArrayLike) -> Integers:
        k = self._left(bag, task)
        begin, size = self._newest(k), self._tasks[k].size
        ids = indices(machines, "machines", 0, self.machines)
        return np.array([self._copy_duration(begin, size, self._speed[u]) for u in ids], np.int64)

    def pick_task(self) -> tuple[int, int]:
        i = self._ready()
        if i < 0:
            return -1, -1
        if self._order == "ask":
            raise ValueError("pick_task does not support order 'ask'")
        return i, self._pick_task(i) - self._bags[i].first

    def pick_machine(self, bag: int, task: int) -> int:
        if self._choice == "ask":
            raise ValueError("pick_machine does not support choice 'ask'")
        return self._pick_machine(self._left(bag, task))

    def _check_bag(self, bag: int) -> None:
        if not 0 <= bag < self.bags:
            raise ValueError(f"bag must be in 0..{self.bags - 1}, got {bag}")

    def _left(self, bag: int, task: int) -> int:
        k = self._task(bag, task)
        if self._tasks[k].completed:
            raise ValueError(f"task must not be completed, got {task} of bag {bag}")
        return k

    def _task(self, bag: int, task: int) -> int:
        self._check_bag(bag)
        b = self._bags[bag]
        if not 0 <= task < b.tasks:
            raise ValueError(f"task must be in 0..{b.tasks - 1}, got {task}")
        return b.first + task

    def assign(self, bag: int, task: int, machine: int) -> None:
        k = self._task(bag, task)
        b, t = self._bags[bag], self._tasks[k]
        if (
            bag != self._ready()
            or t.completed
            or len(t.copies) >= self._max_copies
            or k not in (b.failed or [k])[:1]
        ):
            raise ValueError(f"task must be one of the candidates, got {task} of bag {bag}")
        if machine not in self._until:
            raise ValueError(f"machine must be free, got {machine}")
        self._start(k, machine)

    def wait(self) -> None:
        self._dirty = False

    def weigh(self, bag: int, task: int, machine: int) -> tuple[int, bool, int, int, int, int]:
        t = self._tasks[self._left(bag, task)]
        b = self._bags[bag]
        if machine not in self._until:
            raise ValueError(f"machine must be free, got {machine}")
        kind = len(t.copies), t.has_begun
        alternatives = [
            task_
            for task_ in self._tasks[b.first : b.first + b.tasks]
            if not task_.completed and (len(task_.copies), task_.has_begun) == kind
        ]
        lasts = int(self.lasts(bag, task, [machine])[0])
        return *kind, len(alternatives), len(self._until), self._until[machine], lasts

    def _pick_task(self, i: int) -> int:
        b = self._bags[i]
        if b.failed:
            return b.failed[0]
        for k in b.sequence:
            if not self._tasks[k].has_begun:
                return k
        if b.groups is None:
            b.groups = [[] for _ in range(self._max_copies)]
            for k in range(b.first, b.first + b.tasks):
                self._enrank(k)
        group = next(group for group in b.groups if group)
        if self._order == "random":
            return group[int(self._draw() * float(len(group)))]
        sign = 1 if self._order == "small" else -1
        return min(group, key=lambda k: (sign * max(0.0, self._tasks[k].size - self._newest(k)), k))

    def _draw(self) -> float:
        """Return SplitMix64 of the next state."""
        mask = 2**64 - 1
        self._random_state = (self._random_state + 0x9E3779B97F4A7C15) & mask
        x = self._random_state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return float((x ^ (x >> 31)) >> 11) * (1.0 / 9007199254740992.0)

    def _enrank(self, k: int) -> None:
        groups, running = self._bags[self._bag_of[k]].groups, len(self._tasks[k].copies)
        if groups is not None and 0 < running < self._max_copies:
            groups[running - 1].append(k)

    def _unrank(self, k: int) -> None:
        """Remove a task from its group; the last of the group takes its place."""
        groups, running = self._bags[self._bag_of[k]].groups, len(self._tasks[k].copies)
        if groups is not None and 0 < running < self._max_copies and k in groups[running - 1]:
            group = groups[running - 1]
            group[group.index(k)] = group[-1]
            del group[-1]

    def _pick_machine(self, k: int) -> int:
        free, choice = sorted(self._until), self._choice
        if not free:
            return -1
        fastest = min(free, key=lambda u: (-self._speed[u], u))
        longest = min(free, key=lambda u: (-self._until[u], u))
        if choice == "none":
            return free[0]
        if choice == "cpu":
            best = fastest
        elif choice == "avail":
            best = longest
        else:
            begin, size, fit = self._newest(k), self._tasks[k].size, []
            for u in free:
                need = self._copy_duration(begin, size, self._speed[u])
                needed_until = NEVER if need > NEVER - 2 - self.now else self.now + need + self._as_printed
                if self._until[u] >= needed_until:
                    fit.append(u)
            best = min(fit, key=lambda u: (-self._speed[u], u), default=0 if self._as_printed else fastest)
        if not self._as_printed:
            return best
        # Figures 2 to 4: machine 0 is chosen, free or not, unless another is better
        if choice == "avail":
            better = self._until[best] > (self._predicted(0) if self._up[0] else self.now)
        else:
            better = self._speed[best] > self._speed[0]
        return best if better else 0 if 0 in free else -1

    # -- what happens -----------------------------------------------------------------------------------

    def run(self, until: int) -> str:
        if until <= self.now:
            return "done" if self.left == 0 else "reached"
        while self.left:
            if not self._faults and not self._fed:
                return "blocks"
            ends = {u: self._copy(u).end for u in sorted(self._runs)}
            at = min([*ends.values(), *(time for time, *_ in self._faults[:1]), NEVER])
            if self._dirty:
                at = self.now
            if at == NEVER and not any(up and fast for up, fast in zip(self._up, self._fast, strict=True)):
                return "over"
            if at >= until:
                if until != NEVER:
                    self.now = until
                return "reached"
            self.now = at
            for u, end in ends.items():
                if end == at and u in self._runs:  # no other copy was completed first at this instant
                    self._complete(u)
            if not self.left:
                break
            while self._faults and self._faults[0][0] == at:
                self._change(*self._faults.pop(0)[1:])
                self._dirty = True
            if not self._faults and not self._fed:
                continue
            if not self._match():
                return "decide"
            self._dirty = False
        return "done"

    def _match(self) -> bool:
        while self._until and (i := self._ready()) >= 0:
            if self._step or "ask" in (self._order, self._choice):
                self._dirty = True
                return False
            k = self._pick_task(i)
            u = self._pick_machine(k)
            if u < 0:
                break
            self._start(k, u)
        return True

    def _copy(self, u: int) -> Copy:
        return next(it for it in self._tasks[self._runs[u]].copies if it.machine == u)

    def _start(self, k: int, u: int) -> None:
        t, b = self._tasks[k], self._bags[self._bag_of[k]]
        if self._local:
            begin = self._local_of[u][1] if self._local_of[u][0] == k else 0.0
        else:
            begin = self._newest(k)
        it = Copy(u, self.now, begin)
        self._begin(it, t.size)
        self._unrank(k)
        if t.copies:
            b.totals["replicas"] += 1
        elif t.has_begun:
            b.failed.remove(k)
        else:
            t.has_begun = True
            if b.totals["first_start"] < 0:
                b.totals["first_start"] = self.now
        b.machines.add(u)
        self._turn = self._bag_of[k]
        del self._until[u]
        self._runs[u] = k
        t.copies.insert(0, it)
        self._enrank(k)

    def _leave(self, u: int, k: int, completed: bool) -> tuple[float, float]:
        t, b, it = self._tasks[k], self._bags[self._bag_of[k]], self._copy(u)
        computed, fresh, overhead, slowed = self._cycles(it)
        b.waste["overhead"] += overhead
        b.waste["slowed"] += slowed
        self._totals["busy"][u] += self.now - it.start
        t.copies.remove(it)
        del self._runs[u]
        if self.log:
            self._rows.append((u, k, it.start, self.now, int(completed), it.begin))
        return computed, fresh

    def _complete(self, u: int) -> None:
        k = self._runs[u]
        t, b = self._tasks[k], self._bags[self._bag_of[k]]
        begin = self._copy(u).begin
        self._unrank(k)
        for v in [it.machine for it in t.copies]:
            computed, _ = self._leave(v, k, v == u)
            if v != u:
                t.spent += computed
                b.totals["killed"] += 1
                self._totals["ended"][v] += 1
            self._until[v] = self._predicted(v)
        b.waste["redundant"] += max(0.0, t.spent - begin)
        t.completed, b.totals["finish"], self._dirty = True, self.now, True
        b.totals["undisturbed"] += not t.resubmitted
        b.left -= 1
        self.left -= 1
        self._totals["tasks"][u] += 1

    def _change(self, u: int, up: bool, until: int) -> None:
        if up and not self._up[u]:
            self._up[u], self._since[u], self._forecast[u] = True, self.now, until
            if self._fast[u]:
                self._until[u] = self._predicted(u)
        elif not up and self._up[u]:
            self._up[u] = False
            if self.now > self._since[u]:
                # replaces the oldest, since sums are in this order
                at = self._failures[u] % MAX_UP_TIMES
                self._up_times[u][at : at + 1] = [self.now - self._since[u]]
                self._failures[u] += 1
            self._until.pop(u, None)
            if u in self._runs:
                self._fail(u)

    def _fail(self, u: int) -> None:
        k = self._runs[u]
        t, b = self._tasks[k], self._bags[self._bag_of[k]]
        saved = self._saved_work(self._copy(u))
        self._unrank(k)
        computed, fresh = self._leave(u, k, False)
        t.spent += computed - fresh
        b.waste["lost"] += fresh
        self._totals["interrupted"][u] += 1
        if self._local:
            self._local_of[u] = k, saved
        else:
            t.saved = max(t.saved, saved)
        if t.copies:
            self._enrank(k)
            return
        t.resubmitted, t.lost = True, self.now
        b.totals["resubmitted"] += 1
        b.failed.append(k)

    # -- what has come of it ----------------------------------------------------------------------------

    def totals(self) -> dict[str, NDArray[Any]]:
        bags = {
            "first_start": [b.totals["first_start"] for b in self._bags],
            "finish": [b.totals["finish"] for b in self._bags],
            "completed": [b.tasks - b.left for b in self._bags],
            "nodes_used": [len(b.machines) for b in self._bags],
            **{name: [b.totals[name] for b in self._bags] for name in _COUNTS},
        }
        waste = {name: np.array([b.waste[name] for b in self._bags], np.float64) for name in _WASTE}
        counts = {name: np.array(column, np.int64) for name, column in {**bags, **self._totals}.items()}
        return counts | waste

    def copies(self) -> dict[str, NDArray[Any]]:
        rows = [
            (u, self._bag_of[k], k - self._bags[self._bag_of[k]].first, start, end, completed)
            for u, k, start, end, completed, _ in self._rows
        ]
        columns = np.array(rows, np.int64).reshape(-1, 6).T.copy()
        names = ("machine", "bag", "task", "start", "end", "completed")
        return {**dict(zip(names, columns, strict=True)), "begin": np.array([row[5] for row in self._rows])}
