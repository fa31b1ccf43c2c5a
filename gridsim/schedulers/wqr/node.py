"""WQR-FT as two node programs: the state and behaviour of the server and of each worker.

D. da Silva, W. Cirne and F. Brasileiro, Euro-Par 2003 (WQR); C. Anglano and M. Canonico, EGC 2005 (WQR-FT);
J. Arora et al. (information-aware selections); Anglano and Canonico, PCGrid 2008 (orders of bags).

The `Server` has the bags of tasks and the most advanced checkpoint of each task.  It chooses the next bag,
the next task of that bag, and the machine for a copy of the task.  A `Worker` is one machine: it runs one
task copy at a time and writes its checkpoints.  They send each other `SIGNALS`, which take no time.  In an
emulation signals do take time; a signal of a copy that has ended in the meantime is ignored, and so is a copy
for a machine that has failed in the meantime.

Through their environment (`gridsim.schedulers.wqr.environment`) the server knows at once which machines have
failed.  At one instant tasks end first, then machines fail and recover, and then the server assigns tasks to
free machines.  All times are whole ns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridcore.common.state import LATEST
from gridsim.schedulers.wqr.cycles import COMPLETED, FAILED, KILLED
from gridsim.schedulers.wqr.decisions import seconds
from gridsim.schedulers.wqr.rules import too_long
from gridsim.schedulers.wqr.selections import chosen_machine, chosen_task, sequence
from gridsim.scheduling.availability_prediction import add_up_time, predicted_end
from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import kept_in_checkpoints


def _signal(**fields: Any) -> Message:
    """Return a message kind for information that is assumed to arrive at once."""
    return Message(0, delay=0.0, counted=False, **fields)


SIGNALS = {
    # messages to the server
    "up": _signal(since=int),
    "checkpoint": _signal(copy=int, saved=float),  # work of the task that is done, Mflop
    "completed": _signal(copy=int),
    # messages to a worker; `since` is the time at which the machine for the copy came up
    "assign": _signal(copy=int, application=int, task=int, size=float, saved=float, since=int),
    "kill": _signal(copy=int),
}


# -- the server -------------------------------------------------------------------------------------------


@kept_in_checkpoints  # attributes of the simulation, not of tasks
@dataclass(eq=False, slots=True)
class Bag:
    """An application: a bag of independent tasks, 0, 1, 2 and so on."""

    number: int
    place: int  # number of bags released before it
    released: int  # time of its release, ns
    left: int  # number of tasks that are not completed
    size: list[float]  # size of each task, Mflop
    saved: list[float]  # work of each task in its most advanced checkpoint on the server, Mflop
    copies: list[list[int]]  # the machines that run each task
    unstarted: deque[int]  # in task order, unless the order is a function
    failed: deque[int] = field(default_factory=deque)  # tasks that lost all their copies, oldest first
    failed_at: deque[int] = field(default_factory=deque)  # time at which each of these lost its last copy
    #: Tasks that may get a further copy, by number of copies; None until the first one is needed.
    running: dict[int, list[int]] | None = None

    def residual(self, task: int) -> float:
        """Return the remaining work of a task after its checkpoint, Mflop."""
        return self.size[task] - self.saved[task]

    @property
    def waits_since(self) -> int:
        """Time since which the first task without a copy has waited, ns; NEVER if all tasks have copies."""
        return self.released if self.unstarted else self.failed_at[0] if self.failed_at else NEVER


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class Machine:
    """The information of the server about a machine."""

    since: int = 0  # time at which it last came up
    failed_at: int = -1  # time of its last failure
    up_times: list[int] = field(default_factory=list)  # its last up times
    failures: int = 0


class Server(NodeProgram):
    """The work queue: it keeps all tasks, and assigns copies of them to free machines."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.bags: dict[int, Bag] = {}  # bags with remaining tasks, in order of release
        self.machines: dict[int, Machine] = {}
        self.free: dict[int, int] = {}  # machine that is up and idle -> predicted time of its failure
        self.running: dict[int, tuple[int, int, int]] = {}  # machine -> bag and task of its copy, copy number
        self.copies = 0  # number of copies assigned so far
        self.released = 0  # number of bags released so far
        self.turn = 0  # the place after that of the bag that had the last turn

    # -- events --------------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Put a bag of tasks into the queue."""
        number, environment = application.number, view.environment
        sizes = environment.sizes_of(number)
        first = deque(sequence(environment.rules.order, sizes, environment.order_stream).tolist())
        copies: list[list[int]] = [[] for _ in sizes]
        self.bags[number] = Bag(
            number, self.released, view.now_ns, tasks, sizes.tolist(), [0.0] * tasks, copies, first
        )
        self.released += 1
        if self.parameters.predictor != "exact":
            self.free = {u: self.predicted(view, u) for u in self.free}
        environment.dispatch_last()

    def on_up(self, view: View, message: Any) -> None:
        """Record that a machine is up, at the beginning or after a failure."""
        machine = self.machines.setdefault(message.sender, Machine())
        if message.since >= machine.failed_at:
            machine.since = message.since
            self.become_free(view, message.sender)

    def on_failure(self, view: View) -> None:
        """Handle failures of machines: a task without another running copy is resubmitted automatically."""
        now = view.now_ns
        for u in view.environment.failed:
            machine = self.machines.setdefault(u, Machine())
            if machine.failed_at <= machine.since < now:
                add_up_time(machine.up_times, machine.failures, now - machine.since)
                machine.failures += 1
            machine.failed_at = now
            self.free.pop(u, None)
            if u in self.running:
                bag, task = self.run_by(u)
                del self.running[u]
                self.leave_group(bag, task)
                bag.copies[task].remove(u)
                self.join_group(bag, task)
                if not bag.copies[task]:
                    bag.failed.append(task)
                    bag.failed_at.append(now)
        view.environment.dispatch_last()

    def on_checkpoint(self, view: View, message: Any) -> None:
        """Store a checkpoint of a copy, if it is the most advanced one of its task."""
        if not self.runs(message):
            return
        bag, task = self.run_by(message.sender)
        bag.saved[task] = max(bag.saved[task], message.saved)

    def on_completed(self, view: View, message: Any) -> None:
        """Handle a completion: kill the other copies of the task."""
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
        view.environment.complete_task(bag.number, bag.left)

    def runs(self, message: Any) -> bool:
        """Return whether the copy to which a signal refers is still assigned."""
        return message.sender in self.running and self.running[message.sender][2] == message.copy

    def run_by(self, machine: int) -> tuple[Bag, int]:
        """Return the bag and the task of the copy that a machine runs."""
        bag, task, _ = self.running[machine]
        return self.bags[bag], task

    def become_free(self, view: View, machine: int) -> None:
        """Add a machine to the free machines, unless it is too slow, and request an assignment of tasks."""
        if view.environment.speeds[machine] >= view.environment.rules.min_speed:
            self.free[machine] = self.predicted(view, machine)
        view.environment.dispatch_last()

    # -- assigning tasks to machines ----------------------------------------------------------------------

    def on_dispatch(self, view: View) -> None:
        """Assign tasks to free machines as long as there are both of them."""
        while self.free and (bag := self.next_bag()):
            task = self.choose_task(view, bag)
            machine = self.choose_machine(view, bag, task)
            if machine is None:
                view.decide("waited", bag.number, task=task)
                break  # as printed: the next task waits, and no other task starts
            self.assign(view, bag, task, machine)

    def next_bag(self) -> Bag | None:
        """Return the next bag in turn; None if no bag has an eligible task."""
        order, bags = self.parameters.bag_order, [*self.bags.values()]
        ready = [*filter(self.may_start, bags[:1] if order == "fcfs-excl" else bags)]
        if order == "longidle":
            return min(ready, key=lambda bag: bag.waits_since, default=None)
        if order == "rr-nrf":
            ready = [bag for bag in ready if bag.waits_since < NEVER] or ready
        after = [bag for bag in ready if bag.place >= self.turn] if order in ("rr", "rr-nrf") else []
        return next(iter(after or ready), None)

    def may_start(self, bag: Bag) -> bool:
        """Return whether an incomplete bag has a task that may get a copy."""
        if bag.failed or bag.unstarted:
            return True
        if bag.running is None:  # otherwise each remaining task has one copy
            return bool(self.parameters.max_replicas > 1)
        return any(bag.running.values())

    def candidates(self, bag: Bag) -> Sequence[int]:
        """Return the candidates for the next task: failed tasks, or else the tasks with the fewest copies.

        Arora et al. have a single set, the tasks with the fewest copies, without priority of failed tasks.
        """
        if bag.running is None and not (bag.failed or bag.unstarted):
            bag.running = {copies: [] for copies in range(1, self.parameters.max_replicas)}
            for task in range(len(bag.size)):
                self.join_group(bag, task)
        return bag.failed or bag.unstarted or next(filter(None, (bag.running or {}).values()), [])

    def choose_task(self, view: View, bag: Bag) -> int:
        """Choose one of the candidates by the task order; of failed tasks, the oldest is next."""
        environment, tasks = view.environment, self.candidates(bag)
        order = environment.rules.order
        if callable(order):
            among = sorted([bag.failed[0]] if bag.failed else tasks)
            residual = [*map(bag.residual, among)]
            return chosen_task(order, among, residual, bag.number, view.now_ns, environment.order_stream)
        if bag.failed or bag.unstarted:
            return tasks[0]
        if order == "random":
            return tasks[int(environment.uniform() * len(tasks))]
        sign = 1 if order == "small" else -1  # SmallET, GreatET; ties: the lowest number
        return min(tasks, key=lambda k: (sign * bag.residual(k), k))

    def choose_machine(self, view: View, bag: Bag, task: int) -> int | None:
        """Choose a free machine for a task; None if, as printed, the task waits for the busy machine 0."""
        choice, as_printed, now = view.environment.rules.choice, self.parameters.as_printed, view.now_ns
        free, speeds = self.free, view.environment.speeds
        if callable(choice):
            rows = [(u, speeds[u], free[u], self.lasts(view, bag, task, u)) for u in sorted(free)]
            return chosen_machine(choice, now, *zip(*rows, strict=True))

        def fastest(among: Iterable[int]) -> int:
            return min(among, key=lambda u: (-speeds[u], u))

        if choice == "none":
            return min(free)
        if choice == "cpu":
            best = fastest(free)
        elif choice == "avail":
            best = min(free, key=lambda u: (-free[u], u))
        else:
            start = now + as_printed  # Figure 4 requires the machine to be up 1 ns longer
            stay_up = [u for u in free if free[u] >= min(start + self.lasts(view, bag, task, u), NEVER)]
            best = fastest(stay_up or ([0] if as_printed else free))
        if not as_printed:
            return best
        # Figures 2 to 4 begin with machine 0, whether free or not, and choose another machine if it is
        # better.  While machine 0 is down, its speed counts, and its reliability is 0.
        if choice == "avail":
            up = 0 in free or 0 in self.running
            is_better = free[best] > (self.predicted(view, 0) if up else now)
        else:
            is_better = speeds[best] > speeds[0]
        return best if is_better else 0 if 0 in free else None

    def assign(self, view: View, bag: Bag, task: int, machine: int) -> None:
        """Start a copy of a task on a free machine, from its most advanced checkpoint."""
        action = "replicated" if bag.copies[task] else "restarted" if bag.failed else "started"
        lasts, now = self.lasts(view, bag, task, machine), view.now_ns
        if lasts >= NEVER - now:
            raise too_long(self.parameters, view.environment.rules)
        subject = {"application": bag.number, "task": task}
        among = {"tasks": len(self.candidates(bag)), "among": len(self.free)}
        saw, limit = seconds(self.free[machine], now), seconds(lasts, 0)
        view.decide(action, **subject, **among, node=machine, saw=saw, limit=limit)
        if action == "replicated":
            self.leave_group(bag, task)
        else:
            if bag.failed:
                bag.failed_at.popleft()
            (bag.failed or bag.unstarted).remove(task)
        bag.copies[task].append(machine)
        self.join_group(bag, task)
        del self.free[machine]
        self.copies += 1
        self.turn = bag.place + 1
        self.running[machine] = bag.number, task, self.copies
        sent = {"copy": self.copies, "size": bag.size[task], "saved": bag.saved[task]}
        view.send(machine, "assign", **subject, **sent, since=self.machines[machine].since)

    def join_group(self, bag: Bag, task: int) -> None:
        """Add a task to the group of its number of copies, if it may get another copy."""
        (bag.running or {}).get(len(bag.copies[task]), []).append(task)

    def leave_group(self, bag: Bag, task: int) -> None:
        """Remove a task from its group; the last task of the group takes its place."""
        if group := (bag.running or {}).get(len(bag.copies[task])):
            group[group.index(task)] = group[-1]
            del group[-1]

    # -- information --------------------------------------------------------------------------------------

    def lasts(self, view: View, bag: Bag, task: int, machine: int) -> int:
        """Return the time for the rest of a task on a machine at full speed, including checkpoints, ns."""
        environment = view.environment
        return int(environment.rules.lasts(bag.saved[task], bag.size[task], environment.speeds[machine]))

    def predicted(self, view: View, machine: int) -> int:
        """Return the predicted time of the failure of a machine that is up, ns."""
        predictor, known = self.parameters.predictor, self.machines[machine]
        if predictor == "exact":
            return int(view.environment.predicted(machine))
        return predicted_end(predictor, view.now_ns, known.since, known.up_times)


# -- a worker ---------------------------------------------------------------------------------------------


class Worker(NodeProgram):
    """A machine, which runs one task copy at a time.

    Attributes
    ----------
    checkpoint, previous_checkpoint
        The local checkpoints of the running copy, and of the last copy that a failure ended: (application,
        task, Mflop done), or None.
    assignment, start, done_before, checkpoints
        The record of the running copy: the signal that assigned it (or None), its beginning, the work done
        before (Mflop), and the number of checkpoints that it has written.  They are in stable storage, since
        in an emulation the row of a copy that a failure ends is written after the restart of its process; in
        a simulation `on_failure` writes it while the memory still exists.
    """

    stable_storage = (
        "checkpoint",
        "previous_checkpoint",
        "assignment",
        "start",
        "done_before",
        "checkpoints",
    )

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.checkpoint: tuple[int, int, float] | None = None
        self.previous_checkpoint: tuple[int, int, float] | None = None
        self.local = parameters.checkpoint_store == "local"
        self.assignment: Any = None
        self.start = self.checkpoints = 0
        self.done_before = 0.0
        self.up_since = 0
        self.computing_since = 0  # after the last checkpoint
        self.left = self.progress = 0.0  # remaining work, and work in its checkpoints, in ns at full speed
        self.until, self.event = 0, ""  # the timer that ends its current activity

    def on_start(self, view: View) -> None:
        """Start when the machine comes up, at the beginning or after a failure."""
        if self.checkpoint is not None:
            self.previous_checkpoint, self.checkpoint = self.checkpoint, None
        self.up_since = view.now_ns
        view.send(view.role("server")[0], "up", since=self.up_since)

    def on_failure(self, view: View) -> None:
        """End the copy when the machine fails; only stable storage survives."""
        if self.assignment is not None:
            self.end(view, FAILED)

    def on_assign(self, view: View, message: Any) -> None:
        """Run a copy of a task, from the checkpoint that the server sends or that is on the disk."""
        if message.since != self.up_since:  # the machine has failed since; the server will learn of it
            return
        self.assignment, self.start, self.done_before = message, view.now_ns, message.saved
        if self.local:
            *subject, saved = self.previous_checkpoint or (-1, -1, 0.0)
            self.done_before = saved if subject == [message.application, message.task] else 0.0
            # this replaces the checkpoint of an earlier task even if this copy fails before its first
            # checkpoint
            self.store_checkpoint(view, self.done_before)
        self.left = view.environment.cycles.time_for(message.size - self.done_before)
        self.progress = self.checkpoints = 0
        if self.done_before > 0.0:
            self.schedule_end(view, view.environment.rules.restore, "restored")
        else:
            self.compute(view)

    def compute(self, view: View) -> None:
        """Compute until the task is done, or for one interval, after which a checkpoint is written."""
        rules = view.environment.rules
        self.computing_since, limit = view.now_ns, rules.interval or NEVER
        # None: the interval ends first, and a checkpoint is written; NEVER: the end exceeds the clock
        last = view.environment.cycles.time_until_done(self.computing_since, self.left, limit)
        if last is None:
            self.schedule_end(view, limit + rules.checkpoint, "written")
        elif last == NEVER:
            raise too_long(self.parameters, rules)
        else:
            self.schedule_end(view, last, "computed")

    def schedule_end(self, view: View, duration: int, event: str) -> None:
        """Set the timer `event` after `duration` ns, or an error at the last instant if that is earlier."""
        self.until = view.now_ns + duration
        self.event = event if self.until <= LATEST else "overflow"
        view.at(min(self.until, LATEST), self.event)

    def on_restored(self, view: View) -> None:
        """Continue the copy from a checkpoint."""
        self.compute(view)

    def on_written(self, view: View) -> None:
        """Continue after a checkpoint has been written."""
        done = view.environment.cycles.done(self.computing_since, view.environment.rules.interval)
        self.left -= done
        self.progress += done
        self.checkpoints += 1
        self.store_checkpoint(view, self.done_before + float(self.progress) / NS * view.speed)
        self.compute(view)

    def on_computed(self, view: View) -> None:
        """Report the completion of the task."""
        copy = self.assignment.copy
        self.end(view, COMPLETED)
        view.send(view.role("server")[0], "completed", copy=copy)

    def on_overflow(self, view: View) -> None:
        """Raise ScenarioError, since the copy would end after the last instant."""
        raise too_long(self.parameters, view.environment.rules)

    def store_checkpoint(self, view: View, saved: float) -> None:
        """Store a checkpoint with `saved` Mflop of the task done, on the disk or on the server."""
        if self.local:
            self.checkpoint = self.assignment.application, self.assignment.task, saved
        else:
            copy = self.assignment.copy
            view.send(view.role("server")[0], "checkpoint", copy=copy, saved=saved)

    def on_kill(self, view: View, message: Any) -> None:
        """Stop, since another copy has completed the task."""
        if self.assignment is None or self.assignment.copy != message.copy:
            return
        # a checkpoint that is completed at this instant counts
        self.checkpoints += self.event == "written" and self.until <= view.now_ns
        view.cancel(self.event)
        self.end(view, KILLED)

    def on_over(self, view: View) -> None:
        """End the copy at the end of the run: another copy has completed the task."""
        if self.assignment is not None:
            self.end(view, KILLED)

    def end(self, view: View, how: int) -> None:
        """End the copy, and record it for the result; only a failure leaves its checkpoint on the disk."""
        ended, self.assignment = self.assignment, None
        subject = {"copy": ended.copy, "application": ended.application, "task": ended.task}
        progress = {"start": self.start, "begin": self.done_before, "checkpoints": self.checkpoints}
        view.note("copies", **subject, **progress, machine=view.node, end=view.now_ns, how=how)
        if how != FAILED:
            self.checkpoint = None
