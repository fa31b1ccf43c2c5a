"""A batch queue, written from `docs/background/batch_queue.md`, for machines that jobs share or not.

All times are in ns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass
class Room:
    """What of a machine is free."""

    cores: int
    memory: int
    gpus: int
    jobs: int = 0

    def tasks(self, job: Job) -> int:
        """Return the number of tasks of `job` for which there is room."""
        if job.exclusive and self.jobs:
            return 0
        counts = [self.cores // job.cores, job.tasks]
        if job.memory:
            counts.append(self.memory // job.memory)
        if job.gpus:
            counts.append(self.gpus // job.gpus)
        if job.tasks_per_machine:
            counts.append(job.tasks_per_machine)
        return min(counts)

    def take(self, job: Job, tasks: int) -> None:
        self.jobs += 1
        if job.exclusive:
            self.cores = self.memory = self.gpus = 0
        else:
            self.cores -= tasks * job.cores
            self.memory -= tasks * job.memory
            self.gpus -= tasks * job.gpus

    def free(self, job: Job, tasks: int, whole: Room) -> None:
        self.jobs -= 1
        if job.exclusive:
            self.cores, self.memory, self.gpus = whole.cores, whole.memory, whole.gpus
        else:
            self.cores += tasks * job.cores
            self.memory += tasks * job.memory
            self.gpus += tasks * job.gpus


@dataclass(eq=False)
class Job:
    number: int
    release: int
    tasks: int
    run: int
    requested: int
    cores: int
    memory: int
    gpus: int
    tasks_per_machine: int
    exclusive: bool
    user: int
    queue: int
    estimate: int = 0
    corrections: int = 0
    start: int = 0
    #: Machine -> number of tasks there, while the job runs.
    on: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.tasks * self.cores


@dataclass(frozen=True)
class Rules:
    backfill: Literal["none", "easy", "conservative"] = "easy"
    order: Literal["fcfs", "lcfs", "sjf", "saf", "largest"] = "fcfs"
    estimate: Literal["requested", "run", "predicted"] = "requested"
    placement: Literal["first", "best", "spread"] = "first"
    kill: bool = False
    #: Whether a reservation is of a number of machines, each of which runs one job.
    counts: bool = False
    depth: int = 1
    user_limit: int | None = None
    #: Queue -> limit, 0 for none.
    queue_limits: tuple[int, ...] = ()
    #: Number of machines of each partition; queue q has partition q.
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outage:
    machine: int
    down: int
    up: int


#: An execution of tasks of a job on a machine: machine, job, tasks, start, end, and whether it was completed.
Execution = tuple[int, int, int, int, int, bool]

#: By how much a prediction grows each time that it is over, min.
INCREMENTS = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000]

KEYS: dict[str, Callable[[Job], tuple[int, int]]] = {
    "fcfs": lambda job: (0, job.number),
    "lcfs": lambda job: (0, -job.number),
    "sjf": lambda job: (job.estimate, job.number),
    "saf": lambda job: (job.size * job.estimate, job.number),
    "largest": lambda job: (-job.size, job.number),
}


@dataclass
class Reservation:
    """The reservation of certain machines for the first job that does not fit, in a partition."""

    #: Its start; None while too few machines are up.
    shadow: int | None
    #: What it leaves of each machine.
    left: dict[int, Room]


@dataclass
class Plan:
    """When how many machines of a partition are taken, by the estimates and reservations."""

    now: int
    up: int
    #: Number of a job -> from when until when it takes how many machines.
    taken: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, job: Job, start: int) -> None:
        self.taken[job.number] = (start, max(self.now, start + job.estimate), job.tasks)

    def fits(self, job: Job, start: int, but: int = -1) -> bool:
        rows = [row for number, row in self.taken.items() if number != but]
        instants = [start, *(a for a, _, _ in rows if start < a < start + job.estimate)]
        return all(sum(n for a, b, n in rows if a <= t < b) + job.tasks <= self.up for t in instants)

    def earliest(self, job: Job, free: int) -> int | None:
        """Return the earliest start of `job`, if `free` machines are really free now."""
        starts = {self.now + 1, *(b for _, b, _ in self.taken.values() if b > self.now)}
        if job.tasks <= free:
            starts.add(self.now)
        return min((t for t in starts if self.fits(job, t)), default=None)


class Simulator:
    def __init__(self, machines: list[Room], jobs: list[Job], outages: list[Outage], rules: Rules) -> None:
        self.whole, self.rules = machines, rules
        self.room = [replace(machine) for machine in machines]
        self.up = [True] * len(machines)
        self.outages, self.jobs = outages, jobs
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.runs: defaultdict[int, list[int]] = defaultdict(list)
        self.executions: list[Execution] = []
        self.rejected: set[int] = set()
        #: Waiting job -> its start, with conservative backfilling.
        self.reserved: dict[int, int] = {}
        #: Jobs that could have started by the estimates alone, and are reserved directly after that.
        self.delayed: set[int] = set()
        #: Partitions in which a job has ended before its estimate at this instant.
        self.early: set[int] = set()
        #: How often what happened.
        self.cases: Counter[str] = Counter()
        sizes = rules.partitions or (len(machines),)
        self.partitions = [range(sum(sizes[:k]), sum(sizes[: k + 1])) for k in range(len(sizes))]

    def partition(self, job: Job) -> int:
        return job.queue if self.rules.partitions else 0

    def simulate(self) -> None:
        for outage in self.outages:
            if outage.down == 0:
                self.up[outage.machine] = False
        self.rejected = {job.number for job in self.jobs if self.is_too_large(job)}
        self.jobs = [job for job in self.jobs if job.number not in self.rejected]
        given = {job.release for job in self.jobs}
        given |= {t for outage in self.outages for t in (outage.down, outage.up) if t > 0}
        now = -1
        while times := {
            *(t for t in given if t > now),
            *(self.real_end(job) for job in self.running),
            *(job.start + job.estimate for job in self.running if self.may_grow(job)),
            *(t for k, t in self.reserved.items() if t > now and k not in self.delayed),
        }:
            now = min(times)
            self.early.clear()
            due = {t for k, t in self.reserved.items() if k not in self.delayed}
            if self.end(now) + self.correct(now) + self.release(now) or now in due:
                self.examine(now)
            if self.fail(now):
                self.reserved.clear()
                self.examine(now)

    def length(self, job: Job) -> int:
        return min(job.run, job.requested) if self.rules.kill else job.run

    def real_end(self, job: Job) -> int:
        return job.start + self.length(job)

    def end(self, now: int) -> int:
        ended = [job for job in self.jobs if job in self.running and self.real_end(job) == now]
        for job in ended:
            self.stop(job, now, completed=True)
            if now < job.start + job.estimate:
                self.early.add(self.partition(job))
            self.runs[job.user].append(now - job.start)
        return len(ended)

    def may_grow(self, job: Job) -> bool:
        return self.rules.estimate == "predicted" and job.estimate < job.requested

    def correct(self, now: int) -> int:
        """Let the predictions grow that are over, and return how many did."""
        over = [job for job in self.running if self.may_grow(job) and job.start + job.estimate <= now]
        for job in over:
            grown = job.estimate + INCREMENTS[min(job.corrections, 10)] * 60 * 10**9
            job.estimate = min(grown, job.requested)
            job.corrections += 1
            self.cases["corrected twice"] += job.corrections == 2
            for other in self.waiting:
                if self.partition(other) == self.partition(job):
                    self.reserved.pop(other.number, None)
        return len(over)

    def is_too_large(self, job: Job) -> bool:
        limits = self.rules.queue_limits
        return (
            (self.rules.user_limit is not None and job.size > self.rules.user_limit)
            or (len(limits) > 0 and 0 < limits[job.queue] < job.size)
            or sum(self.whole[k].tasks(job) for k in self.partitions[self.partition(job)]) < job.tasks
        )

    def release(self, now: int) -> int:
        released = [job for job in self.jobs if job.release == now]
        for job in released:
            job.estimate = self.length(job) if self.rules.estimate == "run" else job.requested
            last = self.runs[job.user][-2:]
            if self.rules.estimate == "predicted" and len(last) == 2:
                job.estimate = min(sum(last) // 2, job.requested)
                self.cases["predicted"] += 1
            self.waiting.append(job)
        return len(released)

    def fail(self, now: int) -> bool:
        """Let machines fail and recover, and return whether any did."""
        changed = False
        for outage in self.outages:
            if outage.down == now and now > 0:
                changed = True
                self.up[outage.machine] = False
                for job in [job for job in self.running if outage.machine in job.on]:
                    self.stop(job, now, completed=False)
                    self.waiting.append(job)
                    self.cases["lost"] += 1
        for outage in self.outages:
            if outage.up == now:
                changed = True
                self.up[outage.machine] = True
        return changed

    def stop(self, job: Job, now: int, completed: bool) -> None:
        self.running.remove(job)
        for machine, tasks in job.on.items():
            self.room[machine].free(job, tasks, self.whole[machine])
            self.executions.append((machine, job.number, tasks, job.start, now, completed))

    def start(self, job: Job, on: dict[int, int], now: int) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        job.start, job.on = now, on
        for machine, tasks in on.items():
            self.room[machine].take(job, tasks)
        self.cases["several on a machine"] += any(tasks > 1 for tasks in on.values())

    def place(self, job: Job, room: dict[int, Room], bound: dict[int, Room] | None = None) -> dict[int, int]:
        """Return the tasks of `job` on each machine; nothing if it does not fit in `room` and `bound`."""
        sign = {"first": 0, "best": 1, "spread": -1}[self.rules.placement]
        on, missing = {}, job.tasks
        for machine in sorted(room, key=lambda k: (sign * room[k].cores, k)):
            tasks = min(room[machine].tasks(job), missing)
            if bound is not None:
                tasks = min(tasks, bound[machine].tasks(job))
            if tasks:
                on[machine] = tasks
                missing -= tasks
        return on if not missing else {}

    def over_limit(self, job: Job) -> bool:
        user = sum(other.size for other in self.running if other.user == job.user)
        queue = sum(other.size for other in self.running if other.queue == job.queue)
        limits = self.rules.queue_limits
        limit = limits[job.queue] if limits else 0
        return (self.rules.user_limit is not None and user + job.size > self.rules.user_limit) or (
            0 < limit < queue + job.size
        )

    def free_now(self, partition: int) -> dict[int, Room]:
        return {k: self.room[k] for k in self.partitions[partition] if self.up[k]}

    def reserve(self, job: Job, partition: int, now: int) -> Reservation:
        """Find the earliest start of `job` by the estimates."""
        room = {k: replace(free) for k, free in self.free_now(partition).items()}
        ends = {
            other.number: max(now, other.start + other.estimate)
            for other in self.running
            if self.partition(other) == partition
        }
        for instant in sorted({*ends.values()}):
            for other in self.running:
                if ends.get(other.number) == instant:
                    for machine, tasks in other.on.items():
                        room[machine].free(other, tasks, self.whole[machine])
            on = self.place(job, room)
            if on:
                for machine, tasks in on.items():
                    room[machine].take(job, tasks)
                self.cases["reserved now" if instant == now else "reserved"] += 1
                return Reservation(instant, room)
        self.cases["too few machines"] += 1
        return Reservation(None, room)

    def examine(self, now: int) -> None:
        for partition in range(len(self.partitions)):
            waiting = [job for job in self.waiting if self.partition(job) == partition]
            waiting.sort(key=KEYS[self.rules.order])
            if self.rules.backfill == "conservative":
                self.examine_reserved(waiting, partition, now)
            elif self.rules.backfill == "easy" and self.rules.counts:
                self.examine_counts(waiting, partition, now)
            else:
                self.examine_machines(waiting, partition, now)

    def examine_machines(self, waiting: list[Job], partition: int, now: int) -> None:
        reservation = None
        for job in waiting:
            if self.over_limit(job):
                self.cases["over limit"] += 1
                continue
            room = self.free_now(partition)
            on = self.place(job, room)
            if reservation is None:
                if on:
                    self.start(job, on, now)
                else:
                    reservation = self.reserve(job, partition, now)
                continue
            if not on or self.rules.backfill == "none":
                continue
            if reservation.shadow is None or now + job.estimate <= reservation.shadow:
                self.start(job, on, now)
                self.cases["ends by the shadow time"] += 1
            else:
                beside = self.place(job, room, reservation.left)
                self.cases["leaves enough" if beside else "would delay"] += 1
                self.cases["elsewhere"] += bool(beside) and beside != on
                if beside:
                    for machine, tasks in beside.items():
                        reservation.left[machine].take(job, tasks)
                    self.start(job, beside, now)

    def plan(self, partition: int, now: int) -> Plan:
        plan = Plan(now, len(self.free_now(partition)))
        for job in self.running:
            if self.partition(job) == partition:
                plan.add(job, job.start)
        return plan

    def start_planned(self, job: Job, partition: int, plan: Plan) -> None:
        self.start(job, self.place(job, self.free_now(partition)), plan.now)
        plan.add(job, plan.now)

    def idle(self, partition: int) -> int:
        return sum(not room.jobs for room in self.free_now(partition).values())

    def examine_counts(self, waiting: list[Job], partition: int, now: int) -> None:
        plan, reservations = self.plan(partition, now), 0
        for job in waiting:
            if self.over_limit(job):
                continue
            at = plan.earliest(job, self.idle(partition))
            if at == now:
                self.start_planned(job, partition, plan)
                self.cases["backfilled"] += reservations > 0
            elif reservations < self.rules.depth and (at is not None or self.rules.depth == 1):
                reservations += 1
                if at is not None:
                    plan.add(job, at)

    def examine_reserved(self, waiting: list[Job], partition: int, now: int) -> None:
        plan = self.plan(partition, now)
        for job in waiting:
            if job.number in self.reserved:
                plan.add(job, self.reserved[job.number])
        moving = partition in self.early
        while True:
            gave_up = False
            for job in waiting:
                at = self.reserved.pop(job.number, None)
                if at is not None and at > now and not moving:
                    self.reserved[job.number] = at
                    continue
                if at is not None and at <= now:
                    if job.tasks <= self.idle(partition):
                        self.start_planned(job, partition, plan)
                        continue
                    gave_up = True
                    self.cases["gave up"] += 1
                plan.taken.pop(job.number, None)
                earliest = plan.earliest(job, self.idle(partition))
                if at is not None and at > now and (earliest is None or earliest > at):
                    earliest = at  # more machines are planned than there are
                if earliest == now:
                    self.start_planned(job, partition, plan)
                elif earliest is not None:
                    self.cases["moved"] += at is not None and earliest < at
                    self.reserved[job.number] = earliest
                    plan.add(job, earliest)
                    if earliest != at:
                        self.delayed.discard(job.number)
                        if earliest == now + 1 and plan.fits(job, now, but=job.number):
                            self.delayed.add(job.number)
            if not gave_up:
                return
            moving = True
            waiting = [job for job in waiting if job in self.waiting]
