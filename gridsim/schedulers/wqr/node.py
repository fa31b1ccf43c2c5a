"""WQR-FT as two node programs: what the server and what each worker knows and does.

D. da Silva, W. Cirne and F. Brasileiro, Euro-Par 2003 (WQR); C. Anglano and M. Canonico, EGC 2005 (WQR-FT);
J. Arora et al. (information-aware selections); Anglano and Canonico, PCGrid 2008 (orders of bags).

The `Server` has the bags of tasks and the newest checkpoint of each task.  It chooses which bag and which
task of it is next, and on which machine a copy of it runs.  A `Worker` is one machine: it runs one task copy
at a time and writes its checkpoints.  They tell each other by `SIGNALS`, which take no time.
Where they do take time, as in an emulation, a signal of a copy that has been ended meanwhile is ignored, and
so is a copy for a machine that has failed meanwhile.
`gridsim.schedulers.wqr.interpreted` runs them on the message core.

At one instant tasks end first, then machines fail and recover, and then free machines get tasks.  All times
are whole ns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridcore.common.state import LATEST
from gridsim.schedulers.wqr.cycles import COMPLETED, FAILED, KILLED
from gridsim.schedulers.wqr.decisions import seconds
from gridsim.schedulers.wqr.rules import uniform
from gridsim.schedulers.wqr.selections import asked_machine, asked_task, sequence
from gridsim.scheduling.availability_prediction import add_up_time, predicted_end
from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import kept_in_checkpoints


def _signal(**fields: Any) -> Message:
    """What the server and a worker are assumed to know at once: no message tells them."""
    return Message(0, delay=0.0, counted=False, **fields)


SIGNALS = {
    # to the server
    # since when; and when it fails again, as far as that is known
    "up": _signal(speed=float, since=int, until=int),
    "checkpoint": _signal(copy=int, saved=float),  # Mflop of the task that it runs
    "completed": _signal(copy=int),
    "failed": _signal(),
    # to a worker
    # since: the life of the machine for which it is meant
    "assign": _signal(copy=int, application=int, task=int, size=float, saved=float, since=int),
    "kill": _signal(copy=int),
}


# -- the server -------------------------------------------------------------------------------------------


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class Bag:
    """An application: a bag of independent tasks, 0, 1, 2 and so on."""

    number: int
    released: int  # when
    left: int  # tasks that are not completed
    size: list[float]  # of each task, Mflop
    saved: list[float]  # Mflop of each task in its newest checkpoint on the server
    copies: list[list[int]]  # the machines that run each task
    unstarted: deque[int]  # in the order of their first starts
    failed: deque[int] = field(default_factory=deque)  # tasks that lost all their copies, oldest first
    lost: deque[int] = field(default_factory=deque)  # when each of these lost the last one
    #: Tasks that may get a further copy, by how many they have; None until the first one is wanted.
    running: dict[int, list[int]] | None = None

    def residual(self, task: int) -> float:
        """Return the Mflop of a task that are left after its newest checkpoint."""
        return self.size[task] - self.saved[task]

    @property
    def waits_since(self) -> int:
        """Since when one of its tasks, or several, have had no copy; NEVER if all have one."""
        return self.released if self.unstarted else self.lost[0] if self.lost else NEVER


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class Machine:
    """A machine, as the server knows it."""

    speed: float  # Mflop/s
    since: int = 0  # when it came up
    until: int = NEVER  # when it is predicted to fail again
    up_times: list[int] = field(default_factory=list)  # the last of them
    failures: int = 0


class Server(NodeProgram):
    """The work queue: it has all tasks, and gives copies of them to free machines.

    parameters : see `gridsim.schedulers.wqr.interpreted.Grid`.  chance : generator of the order in which
    tasks start first, and of task orders that draw.
    """

    def __init__(self, parameters: Any, chance: Any) -> None:
        super().__init__(parameters)
        self.chance = chance
        self.bags: dict[int, Bag] = {}  # with tasks left, in order of release
        self.machines: dict[int, Machine] = {}
        self.free: dict[int, int] = {}  # machine that is up and runs nothing -> predicted to fail at
        self.running: dict[int, tuple[int, int, int]] = {}  # machine -> bag and task of the copy, its number
        self.assigned = self.drawn = 0  # copies, and random numbers for choosing tasks to replicate
        self.turn = 0  # the bag after the one that had the last turn

    # -- what it hears of ----------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Put a bag of tasks of these sizes (Mflop) into the queue."""
        number, sizes = application.number, application.sizes
        first = deque(sequence(self.parameters.order, sizes, self.chance).tolist())
        copies: list[list[int]] = [[] for _ in sizes]
        self.bags[number] = Bag(number, view.now_ns, tasks, sizes.tolist(), [0.0] * tasks, copies, first)
        if self.parameters.predictor != "exact":
            self.free = {u: self.predicted(view, u) for u in self.free}
        self.parameters.assign_soon()

    def on_up(self, view: View, message: Any) -> None:
        """A machine is up, at the beginning or after a failure."""
        machine = self.machines.setdefault(message.sender, Machine(message.speed))
        machine.since, machine.until = message.since, message.until
        self.become_free(view, message.sender)

    def on_failed(self, view: View, message: Any) -> None:
        """A machine has failed: its task is resubmitted automatically unless other copies of it run."""
        machine = self.machines[message.sender]
        if view.now_ns > machine.since:
            add_up_time(machine.up_times, machine.failures, view.now_ns - machine.since)
            machine.failures += 1
        self.free.pop(message.sender, None)
        if message.sender in self.running:
            bag, task = self.run_by(message.sender)
            del self.running[message.sender]
            self.leave_group(bag, task)
            bag.copies[task].remove(message.sender)
            self.join_group(bag, task)
            if not bag.copies[task]:
                bag.failed.append(task)
                bag.lost.append(view.now_ns)
        self.parameters.assign_soon()

    def on_checkpoint(self, view: View, message: Any) -> None:
        """A copy has written a checkpoint: the newest one of its task is kept."""
        if not self.runs(message):
            return
        bag, task = self.run_by(message.sender)
        bag.saved[task] = max(bag.saved[task], message.saved)

    def on_completed(self, view: View, message: Any) -> None:
        """A copy has completed its task: kill the others."""
        if not self.runs(message):
            return
        bag, task = self.run_by(message.sender)
        self.leave_group(bag, task)
        for u in bag.copies[task]:
            if u != message.sender:
                view.send(u, "kill", copy=self.running[u][2])
            del self.running[u]
            self.become_free(view, u)
        bag.copies[task] = []
        bag.left -= 1
        if not bag.left:
            del self.bags[bag.number]

    def runs(self, message: Any) -> bool:
        """Return whether the copy that a signal is about has not been ended."""
        return message.sender in self.running and self.running[message.sender][2] == message.copy

    def run_by(self, machine: int) -> tuple[Bag, int]:
        """Return the bag and the task of the copy that a machine runs."""
        bag, task, _ = self.running[machine]
        return self.bags[bag], task

    def become_free(self, view: View, machine: int) -> None:
        """Let a machine have a task, unless it is too slow, once everything at this instant has happened."""
        if self.machines[machine].speed >= self.parameters.min_speed:
            self.free[machine] = self.predicted(view, machine)
        self.parameters.assign_soon()

    # -- assigning tasks to machines ----------------------------------------------------------------------

    def on_timer(self, view: View, name: str) -> None:
        """Assign tasks to free machines as long as there are both."""
        while self.free and (bag := self.next_bag()):
            task = self.choose_task(view, bag)
            machine = self.choose_machine(view, bag, task)
            if machine is None:
                view.decide("waited", bag.number, task=task)
                break
            self.assign(view, bag, task, machine)

    def next_bag(self) -> Bag | None:
        """Return the bag whose turn it is; None if none has a task to start that may have its turn."""
        order, bags = self.parameters.bag_order, [*self.bags.values()]
        ready = [*filter(self.may_start, bags[:1] if order == "fcfs-excl" else bags)]
        if order == "longidle":
            return min(ready, key=lambda bag: bag.waits_since, default=None)
        if order == "rr-nrf":
            ready = [bag for bag in ready if bag.waits_since < NEVER] or ready
        after = [bag for bag in ready if bag.number >= self.turn] if order in ("rr", "rr-nrf") else []
        return next(iter(after or ready), None)

    def may_start(self, bag: Bag) -> bool:
        """Return whether a bag, which is not complete, has a task that may get a copy."""
        if bag.failed or bag.unstarted:
            return True
        if bag.running is None:  # each task has one copy
            return bool(self.parameters.max_replicas > 1)
        return any(bag.running.values())

    def candidates(self, bag: Bag) -> Sequence[int]:
        """Return the tasks of which one is next: those that failed, else those with the fewest copies."""
        if bag.running is None and not (bag.failed or bag.unstarted):
            bag.running = {copies: [] for copies in range(1, self.parameters.max_replicas)}
            for task in range(len(bag.size)):
                self.join_group(bag, task)
        return bag.failed or bag.unstarted or next(filter(None, (bag.running or {}).values()), [])

    def choose_task(self, view: View, bag: Bag) -> int:
        """Choose one of the candidates by the task order; of failed ones the oldest is next."""
        order, tasks = self.parameters.order, self.candidates(bag)
        if callable(order):
            among = sorted([bag.failed[0]] if bag.failed else tasks)
            return asked_task(order, among, [*map(bag.residual, among)], bag.number, view.now_ns, self.chance)
        if bag.failed or bag.unstarted:
            return tasks[0]
        if order == "random":
            self.drawn += 1
            return tasks[int(uniform(self.parameters.seed, self.drawn) * len(tasks))]
        sign = 1 if order == "small" else -1  # SmallET, GreatET; ties: the lowest number
        return min(tasks, key=lambda k: (sign * bag.residual(k), k))

    def choose_machine(self, view: View, bag: Bag, task: int) -> int | None:
        """Choose a free machine for a task; None: as printed, it waits for machine 0, which is not free."""
        choice, as_printed, now = self.parameters.choice, self.parameters.as_printed, view.now_ns
        free, machines = self.free, self.machines
        if callable(choice):
            rows = [(u, machines[u].speed, free[u], self.lasts(bag, task, u)) for u in sorted(free)]
            return asked_machine(choice, now, *zip(*rows, strict=True))

        def fastest(among: Iterable[int]) -> int:
            return min(among, key=lambda u: (-machines[u].speed, u))

        if choice == "none":
            return min(free)
        if choice == "cpu":
            best = fastest(free)
        elif choice == "avail":
            best = min(free, key=lambda u: (-free[u], u))
        else:
            more = now + as_printed  # Figure 4 wants it to be up 1 ns longer
            stay_up = [u for u in free if free[u] >= min(more + self.lasts(bag, task, u), NEVER)]
            best = fastest(stay_up or ([0] if as_printed else free))
        if not as_printed:
            return best
        # Figures 2 to 4 begin with machine 0, free or not, and take another one if it is better.
        if choice == "avail":
            up = 0 in free or 0 in self.running
            better = free[best] > (self.predicted(view, 0) if up else now)
        else:
            better = machines[best].speed > machines[0].speed
        return best if better else 0 if 0 in free else None

    def assign(self, view: View, bag: Bag, task: int, machine: int) -> None:
        """Start a copy of a task on a free machine, from the newest checkpoint."""
        action = "replicated" if bag.copies[task] else "restarted" if bag.failed else "started"
        lasts, now = self.lasts(bag, task, machine), view.now_ns
        if lasts >= NEVER - now:
            raise OverflowError("a task ends after the last instant")
        about = {"application": bag.number, "task": task}
        among = {"tasks": len(self.candidates(bag)), "among": len(self.free)}
        saw, limit = seconds(self.free[machine], now), seconds(lasts, 0)
        view.decide(action, **about, **among, machine=machine, saw=saw, limit=limit)
        if action == "replicated":
            self.leave_group(bag, task)
        else:
            if bag.failed:
                bag.lost.popleft()
            (bag.failed or bag.unstarted).remove(task)
        bag.copies[task].append(machine)
        self.join_group(bag, task)
        del self.free[machine]
        self.assigned += 1
        self.turn = bag.number + 1
        self.running[machine] = bag.number, task, self.assigned
        sent = {"copy": self.assigned, "size": bag.size[task], "saved": bag.saved[task]}
        view.send(machine, "assign", **about, **sent, since=self.machines[machine].since)

    def join_group(self, bag: Bag, task: int) -> None:
        """Add a task to those with as many copies, if it may get a further one."""
        (bag.running or {}).get(len(bag.copies[task]), []).append(task)

    def leave_group(self, bag: Bag, task: int) -> None:
        """Take a task out of its group; the last of the group takes its place."""
        if group := (bag.running or {}).get(len(bag.copies[task])):
            group[group.index(task)] = group[-1]
            del group[-1]

    # -- information --------------------------------------------------------------------------------------

    def lasts(self, bag: Bag, task: int, machine: int) -> int:
        """Return how long the rest of a task takes on a machine at full speed, with its checkpoints, ns."""
        return int(self.parameters.lasts(bag.saved[task], bag.size[task], self.machines[machine].speed))

    def predicted(self, view: View, machine: int) -> int:
        """Return when a machine that is up is predicted to fail, ns."""
        known = self.machines[machine]
        if self.parameters.predictor == "exact":
            return known.until
        return predicted_end(self.parameters.predictor, view.now_ns, known.since, known.up_times)


# -- a worker ---------------------------------------------------------------------------------------------


class Worker(NodeProgram):
    """A machine.  It runs one task copy at a time; when it fails, it loses that and all that it knows.

    parameters : as of the server.  disk : what a failure leaves: local checkpoints, as (application, task,
    Mflop done), of the task that it is ``"running"``, and of the last one that it ``"lost"``.
    """

    def __init__(self, parameters: Any, disk: dict[str, tuple[int, int, float]]) -> None:
        super().__init__(parameters)
        self.disk = disk
        self.copy: Any = None  # the signal that assigned it
        self.up_since = 0
        self.start = self.since = 0  # when the copy began, and when it began to compute after a checkpoint
        self.begin = 0.0  # Mflop that were done before
        self.left = self.computed = 0.0  # ns at full speed: to its end, and in its checkpoints
        self.checkpoints = 0  # how many it has written
        self.until, self.then = 0, ""  # when what it does now is over, and what has then happened

    def on_start(self, view: View) -> None:
        """The machine is up, at the beginning or after a failure."""
        if "running" in self.disk:
            self.disk["lost"] = self.disk.pop("running")
        self.up_since, until = view.now_ns, self.parameters.predicted(view.node)
        view.send(self.parameters.server, "up", speed=view.speed, since=self.up_since, until=until)

    def on_assign(self, view: View, message: Any) -> None:
        """Run a copy of a task, from its newest checkpoint."""
        if message.since != self.up_since:  # the server will hear that the machine had failed before
            return
        self.copy, self.start, self.begin = message, view.now_ns, message.saved
        if self.parameters.local:
            *lost, saved = self.disk.get("lost", (-1, -1, 0.0))
            self.begin = saved if lost == [message.application, message.task] else 0.0
            self.keep(view, self.begin)
        self.left = self.parameters.cycles.time_for(view.node, message.size - self.begin)
        self.computed = self.checkpoints = 0
        if self.begin > 0.0:
            self.go_on(view, self.parameters.restore, "restored")
        else:
            self.compute(view)

    def compute(self, view: View) -> None:
        """Compute until the task is done, or for one interval, after which a checkpoint is written."""
        self.since, limit = view.now_ns, self.parameters.interval or NEVER
        last = self.parameters.cycles.time_until_done(view.node, self.since, self.left, limit)
        if last is None:
            self.go_on(view, limit + self.parameters.checkpoint, "written")
        else:
            self.go_on(view, last, "completed")

    def go_on(self, view: View, after: int, then: str) -> None:
        """Do what takes so many ns.  What ends after the last instant is an error if it comes to that."""
        self.until, self.then = view.now_ns + after, then
        view.at(min(self.until, LATEST), then)

    def on_timer(self, view: View, name: str) -> None:
        """A checkpoint has been restored or written, the task is completed, or the machine fails."""
        if name == "fails":
            if self.copy is not None:
                self.end(view, FAILED)
            view.send(self.parameters.server, "failed")
        elif view.now_ns < self.until:
            raise OverflowError("a task ends after the last instant")
        elif name == "completed":
            copy = self.copy.copy
            self.end(view, COMPLETED)
            view.send(self.parameters.server, "completed", copy=copy)
        else:
            if name == "written":
                done = self.parameters.cycles.done(view.node, self.since, self.parameters.interval)
                self.left -= done
                self.computed += done
                self.checkpoints += 1
                self.keep(view, self.begin + float(self.computed) / NS * view.speed)
            self.compute(view)

    def keep(self, view: View, saved: float) -> None:
        """Keep a checkpoint, in which `saved` Mflop of the task are done, on the disk or the server."""
        if self.parameters.local:
            self.disk["running"] = self.copy.application, self.copy.task, saved
        else:
            view.send(self.parameters.server, "checkpoint", copy=self.copy.copy, saved=saved)

    def on_kill(self, view: View, message: Any) -> None:
        """Another copy has completed the task."""
        if self.copy is None or self.copy.copy != message.copy:
            return
        self.checkpoints += self.then == "written" and self.until <= view.now_ns  # at this very instant
        view.cancel(self.then)
        self.end(view, KILLED)

    def end(self, view: View, how: int) -> None:
        """End the copy, and record it for the result; only a failure leaves a checkpoint on the disk."""
        about = {name: getattr(self.copy, name) for name in ("copy", "application", "task")}
        about |= {name: getattr(self, name) for name in ("start", "begin", "checkpoints")}
        view.note("copies", **about, machine=view.node, end=view.now_ns, how=how)
        self.copy = None
        if how != FAILED:
            self.disk.pop("running", None)
