"""WQR-FT as two node programs: what the server and what each worker knows and does.

D. da Silva, W. Cirne and F. Brasileiro, Euro-Par 2003 (WQR); C. Anglano and M. Canonico, EGC 2005 (WQR-FT);
J. Arora et al. (information-aware selections).

The `Server` has the bags of tasks and the newest checkpoint of each task.  It chooses which task is next, and
on which machine a copy of it runs.  A `Worker` is one machine: it runs one task copy at a time and writes its
checkpoints.  They tell each other by `SIGNALS`, which take no time.  `gridsim.schedulers.wqr.runner` runs
them on the event engine.

At one instant tasks end first, then machines fail and recover, and then free machines get tasks.  All times
are whole ns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from gridsim.schedulers.wqr.cycles import Ending
from gridsim.schedulers.wqr.rules import KEPT, Rules
from gridsim.schedulers.wqr.selections import Machines, Tasks, asked
from gridsim.schedulers.wqr.views import SERVER, Lost, ServerView, WorkerView
from gridsim.scheduling.local.policy import Message
from gridsim.support.clock import NEVER, NS


def _signal(**fields: Any) -> Message:
    """What the server and a worker are assumed to know at once: no message tells them."""
    return Message(0, delay=0.0, counted=False, moves_tasks=False, **fields)


#: In the order in which they are delivered, if they are sent at one instant.
SIGNALS = {
    # to the server
    "checkpoint": _signal(saved=float),  # Mflop of the task that it holds
    "completed": _signal(),
    "failed": _signal(),
    "up": _signal(speed=float, until=int),  # when it fails again, as far as that is known
    # to a worker
    "assign": _signal(copy=int, application=int, task=int, size=float, saved=float),
    "accept": _signal(),
    "kill": _signal(),
}


# -- the server -------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Bag:
    """An application: a bag of independent tasks."""

    number: int
    tasks: list[Task] = field(default_factory=list)
    left: int = 0  # tasks that are not completed
    unstarted: deque[Task] = field(default_factory=deque)  # in the order of their first starts
    failed: deque[Task] = field(default_factory=deque)  # tasks that lost all their copies, oldest first
    #: Tasks that may get a further copy, by how many they have; None until the first one is wanted.
    running: dict[int, list[Task]] | None = None


@dataclass(eq=False, slots=True)
class Task:
    """A task of a bag, as the server knows it."""

    bag: Bag
    number: int
    size: float  # Mflop
    saved: float = 0.0  # Mflop in its newest checkpoint on the server
    copies: list[int] = field(default_factory=list)  # the machines that run it

    @property
    def residual(self) -> float:
        """Mflop that are left after the newest checkpoint."""
        return self.size - self.saved


@dataclass(eq=False, slots=True)
class Machine:
    """A machine, as the server knows it."""

    speed: float  # Mflop/s
    up: bool = True
    since: int = 0  # when it came up
    until: int = NEVER  # when it fails again, as it was told
    up_times: list[int] = field(default_factory=list)  # the last of them
    failures: int = 0
    task: Task | None = None  # of which it runs a copy


class Server:
    """The work queue: it has all tasks, and gives copies of them to free machines."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.bags: list[Bag] = []  # with tasks left, in order of release
        self.machines: dict[int, Machine] = {}
        self.free: dict[int, int] = {}  # machine that is up and runs nothing -> predicted to fail at
        self.assigned = 0  # copies

    # -- what it is told ----------------------------------------------------------------------------------

    def on_release(self, view: ServerView, application: int, sizes: list[float]) -> None:
        """Put a bag of tasks of these sizes (Mflop) into the queue; it is served after those before it."""
        bag = Bag(application, left=len(sizes))
        bag.tasks = [Task(bag, number, size) for number, size in enumerate(sizes)]
        tasks = bag.tasks
        if self.rules.order == "random":
            tasks = [tasks[k] for k in view.chance.permutation(len(tasks))]
        elif not callable(self.rules.order):
            tasks = sorted(tasks, key=self.rank)
        bag.unstarted.extend(tasks)
        self.bags.append(bag)
        if self.rules.predictor != "exact":
            self.free = {u: self.predicted(view, u) for u in self.free}
        view.timer("assign")

    def on_up(self, view: ServerView, message: Any) -> None:
        """A machine is up, at the beginning or after a failure."""
        machine = self.machines.setdefault(message.sender, Machine(message.speed))
        machine.up, machine.since, machine.until = True, view.now, message.until
        self.become_free(view, message.sender)

    def on_failed(self, view: ServerView, message: Any) -> None:
        """A machine has failed: its task is resubmitted automatically unless other copies of it run."""
        machine = self.machines[message.sender]
        if view.now > machine.since:
            # in the place of the oldest, so that up times are added up in the same order each time
            place = machine.failures % KEPT
            machine.up_times[place : place + 1] = [view.now - machine.since]
            machine.failures += 1
        machine.up = False
        self.free.pop(message.sender, None)
        task, machine.task = machine.task, None
        if task is not None:
            self.leave_group(task)
            task.copies.remove(message.sender)
            self.join_group(task)
            if not task.copies:
                task.bag.failed.append(task)
        view.timer("assign")

    def on_checkpoint(self, view: ServerView, message: Any) -> None:
        """A copy has written a checkpoint: the newest one of its task is kept."""
        task = self.machines[message.sender].task
        if task is not None:
            task.saved = max(task.saved, message.saved)

    def on_completed(self, view: ServerView, message: Any) -> None:
        """A copy has completed its task: kill the others, unless one was faster at this very instant."""
        task = self.machines[message.sender].task
        if task is None:
            return
        self.leave_group(task)
        for u in task.copies:
            view.send(u, "accept" if u == message.sender else "kill")
            self.machines[u].task = None
            self.become_free(view, u)
        task.copies.clear()
        task.bag.left -= 1
        if not task.bag.left:
            self.bags.remove(task.bag)

    def become_free(self, view: ServerView, machine: int) -> None:
        """Let a machine have a task, once everything else at this instant has happened."""
        self.free[machine] = self.predicted(view, machine)
        view.timer("assign")

    # -- assigning tasks to machines ----------------------------------------------------------------------

    def on_timer(self, view: ServerView, name: str) -> None:
        """Assign tasks to free machines as long as there are both: those of the first bag that has one."""
        while self.free and (bag := next((bag for bag in self.bags if self.candidates(bag)), None)):
            task = self.choose_task(view, bag)
            machine = self.choose_machine(view, task)
            if machine is None:
                view.decide("waited", bag.number, task.number)
                break
            self.assign(view, task, machine)

    def candidates(self, bag: Bag) -> deque[Task] | list[Task]:
        """Return the tasks of which one is next: those that failed, else those with the fewest copies."""
        if bag.failed or bag.unstarted:
            return bag.failed or bag.unstarted
        if bag.running is None:
            bag.running = {copies: [] for copies in range(1, self.rules.max_replicas)}
            for task in bag.tasks:
                self.join_group(task)
        return next((group for group in bag.running.values() if group), [])

    def choose_task(self, view: ServerView, bag: Bag) -> Task:
        """Choose one of the candidates by the task order; of failed ones the oldest is next."""
        order, tasks = self.rules.order, self.candidates(bag)
        if callable(order):
            tasks = sorted(tasks if not bag.failed else [bag.failed[0]], key=lambda task: task.number)
            numbers, residual = np.array([t.number for t in tasks]), np.array([t.residual for t in tasks])
            given = Tasks(numbers, residual, bag.number, view.now / NS, view.chance)
            return tasks[asked("task_order", order, given)]
        if bag.failed or bag.unstarted:
            return tasks[0]
        return tasks[view.draw(len(tasks))] if order == "random" else min(tasks, key=self.rank)

    def rank(self, task: Task) -> tuple[float, int]:
        """SmallET: the smallest residual first; GreatET: the greatest first; ties: the lowest number."""
        return (task.residual if self.rules.order == "small" else -task.residual), task.number

    def choose_machine(self, view: ServerView, task: Task) -> int | None:
        """Choose a free machine for a task; None: as printed, it waits for machine 0, which is not free."""
        choice, free, machines = self.rules.choice, self.free, self.machines
        if callable(choice):
            numbers = sorted(free)
            power = np.array([machines[u].speed for u in numbers])
            up_time = np.array([np.inf if free[u] == NEVER else (free[u] - view.now) / NS for u in numbers])
            lasts = np.array([self.lasts(task, u) / NS for u in numbers])
            given = Machines(np.array(numbers), power, up_time, lasts, view.now / NS)
            return numbers[asked("machine_choice", choice, given)]

        def fastest(among: Iterable[int]) -> int:
            return min(among, key=lambda u: (-machines[u].speed, u))

        if choice == "none":
            return min(free)
        if choice == "cpu":
            best = fastest(free)
        elif choice == "avail":
            best = min(free, key=lambda u: (-free[u], u))
        else:
            more = view.now + self.rules.as_printed  # Figure 4 wants it to be up 1 ns longer
            stay_up = [u for u in free if free[u] >= min(more + self.lasts(task, u), NEVER)]
            best = fastest(stay_up or ([0] if self.rules.as_printed else free))
        if not self.rules.as_printed:
            return best
        # Figures 2 to 4 begin with machine 0, free or not, and take another one if it is better.
        if choice == "avail":
            better = free[best] > (self.predicted(view, 0) if machines[0].up else view.now)
        else:
            better = machines[best].speed > machines[0].speed
        return best if better else 0 if 0 in free else None

    def assign(self, view: ServerView, task: Task, machine: int) -> None:
        """Start a copy of a task on a free machine, from the newest checkpoint."""
        bag, alike = task.bag, len(self.candidates(task.bag))
        action = "replicated" if task.copies else "restarted" if bag.failed else "started"
        grounds = {"among": len(self.free), "until": self.free[machine], "lasts": self.lasts(task, machine)}
        view.decide(action, bag.number, task.number, machine=machine, tasks=alike, **grounds)
        if action == "replicated":
            self.leave_group(task)
        else:
            (bag.failed or bag.unstarted).remove(task)
        task.copies.append(machine)
        self.join_group(task)
        del self.free[machine]
        self.machines[machine].task, self.assigned = task, self.assigned + 1
        about = {"copy": self.assigned, "application": bag.number, "task": task.number}
        view.send(machine, "assign", **about, size=task.size, saved=task.saved)

    def join_group(self, task: Task) -> None:
        """Add a task to those with as many copies, if it may get a further one."""
        if task.bag.running is not None and len(task.copies) in task.bag.running:
            task.bag.running[len(task.copies)].append(task)

    def leave_group(self, task: Task) -> None:
        """Take a task out of its group; the last of the group takes its place."""
        if task.bag.running is not None and len(task.copies) in task.bag.running:
            group = task.bag.running[len(task.copies)]
            group[group.index(task)] = group[-1]
            del group[-1]

    # -- information --------------------------------------------------------------------------------------

    def lasts(self, task: Task, machine: int) -> int:
        """Return how long the rest of a task takes on a machine at full speed, with its checkpoints, ns."""
        return self.rules.lasts(task.saved, task.size, self.machines[machine].speed)

    def predicted(self, view: ServerView, machine: int) -> int:
        """Return when a machine that is up is predicted to fail, ns."""
        known = self.machines[machine]
        if self.rules.predictor == "exact":
            return known.until
        age = view.now - known.since
        longer = [float(time) for time in known.up_times if time > age]
        if self.rules.predictor == "past" and longer:
            mean = reduce(add, longer) / len(longer)
            return known.since + round(mean) if mean < 9.2e18 - known.since else NEVER
        return min(view.now + age, NEVER)


# -- a worker ---------------------------------------------------------------------------------------------


class Worker:
    """A machine.  It runs one task copy at a time; when it fails, it loses that and all that it knows.

    With local checkpoints its disk keeps that of the last task that it lost.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.copy: Any = None  # the signal that assigned it
        self.start = self.since = 0  # when the copy began, and when it began to compute after a checkpoint
        self.begin = 0.0  # Mflop that were done before
        self.left = self.computed = 0.0  # ns at full speed: to its end, and in its checkpoints
        self.checkpoints = 0  # how many it has written

    def on_start(self, view: WorkerView) -> None:
        """The machine is up, at the beginning or after a failure."""
        if "running" in view.disk:
            view.disk["lost"] = view.disk.pop("running")
        view.send(SERVER, "up", speed=view.speed, until=view.until)

    def on_assign(self, view: WorkerView, message: Any) -> None:
        """Run a copy of a task, from its newest checkpoint."""
        self.copy, self.start, self.begin = message, view.now, message.saved
        if self.rules.local:
            lost = view.disk.get("lost")
            same = lost is not None and lost[:2] == (message.application, message.task)
            self.begin = lost.saved if lost is not None and same else 0.0
            self.keep(view, self.begin)
        self.left, self.computed, self.checkpoints = view.time_for(message.size - self.begin), 0, 0
        if self.begin > 0.0:
            view.timer(self.rules.restore, "restored")
        else:
            self.compute(view)

    def compute(self, view: WorkerView) -> None:
        """Compute until the task is done, or for one interval, after which a checkpoint is written."""
        self.since = view.now
        last = view.time_until_done(self.left, self.rules.interval or NEVER)
        if last is None:
            view.timer(self.rules.interval + self.rules.checkpoint, "written")
        else:
            view.timer(last, "completed")

    def on_timer(self, view: WorkerView, name: str) -> None:
        """A checkpoint has been restored or written, or the task is completed."""
        if name == "completed":
            view.send(SERVER, "completed")
            return
        if name == "written":
            done = view.done(self.since, self.since + self.rules.interval)
            self.left -= done
            self.computed += done
            self.checkpoints += 1
            self.keep(view, self.begin + float(self.computed) / NS * view.speed)
        self.compute(view)

    def keep(self, view: WorkerView, saved: float) -> None:
        """Keep a checkpoint, in which `saved` Mflop of the task are done, on the disk or the server."""
        if self.rules.local:
            view.disk["running"] = Lost(self.copy.application, self.copy.task, saved)
        else:
            view.send(SERVER, "checkpoint", saved=saved)

    def on_accept(self, view: WorkerView, message: Any) -> None:
        """This copy has completed the task."""
        self.end(view, "completed")

    def on_kill(self, view: WorkerView, message: Any) -> None:
        """Another copy has completed the task."""
        self.end(view, "killed")

    def end(self, view: WorkerView, how: Ending) -> None:
        """End the copy, and forget its checkpoint."""
        view.record(how, self.copy, self.start, self.begin, self.checkpoints)
        view.cancel()
        view.disk.pop("running", None)
        self.copy = None

    def on_failure(self, view: WorkerView) -> None:
        """The machine fails: for the record only, as another worker takes the place of this one."""
        if self.copy is not None:
            view.record("failed", self.copy, self.start, self.begin, self.checkpoints)
