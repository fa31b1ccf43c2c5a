"""Sparrow: a job reserves places at random machines; those that reach their reservation first get its tasks.

K. Ousterhout, P. Wendell, M. Zaharia, I. Stoica, "Sparrow: distributed, low latency scheduling" (SOSP 2013).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from gridcore.nodes.handlers import Handlers
from gridcore.probes import workers
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.scheduling.nodes.program import View
from gridsim.support.parameters import Limits

Seconds = Annotated[float, Limits(above=0, unit="s", finite=False)]
#: The longest pause before a job probes again, in times of the first.
_LONGEST = 100.0


class SparrowNode(NodeProgram):
    """A machine: the scheduler of the jobs that are submitted here, and a worker with one slot."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.queue: deque[tuple[int, int]] = deque()  # reservations: job, its scheduler
        self.taken = False  # whether the slot runs a task or waits for an answer

    def workers(self, view: View) -> int:
        """Return how many nodes are workers: those with the lowest numbers."""
        return view.machines

    # -- the scheduler ------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Schedule a job."""
        self.schedule(view, application, tasks)

    def schedule(self, view: View, application: Any, tasks: int) -> None:
        """Reserve places for a job, and again later if some get lost."""
        self.reserve(view, application, tasks)
        if self.parameters.retry < math.inf:
            view.timer(self.parameters.retry, "retry", application.number)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """Send probes to workers."""
        for to in self.choose_workers(view, application, tasks):
            view.send(to, "probe", job=application.number)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return to which workers the probes of a job go: random ones."""
        count = math.ceil(self.parameters.probe_ratio * tasks)
        found: list[int] = view.random.integers(self.workers(view), size=count).tolist()
        return found

    def on_fetch(self, view: View, message: Any) -> None:
        """Bind the next task of a job to the worker that asks, if any is left."""
        if view.held(message.job) > 0:
            view.decide("bound", message.job, machine=message.sender, tasks=1, saw=0.0)
            view.send(message.sender, "task", application=message.job, tasks=1)
        else:
            view.send(message.sender, "none")

    # -- the worker ---------------------------------------------------------------------------------------

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.queue.append((message.job, message.sender))
        if not self.taken:
            self.serve(view)

    def serve(self, view: View) -> None:
        """Turn to the first reservation."""
        if self.queue:
            self.fetch(view, *self.queue.popleft())
        else:
            self.on_free(view)

    def fetch(self, view: View, job: int, scheduler: int) -> None:
        """Ask for a task of a job."""
        self.taken = True
        view.send(scheduler, "fetch", job=job)
        if self.parameters.patience < math.inf:
            view.timer(self.parameters.patience, "unanswered")

    def on_free(self, view: View) -> None:
        """Handle that the slot is free, and the queue empty."""

    def on_task(self, view: View, message: Any) -> None:
        """Run a task."""
        view.cancel("unanswered")
        view.enqueue(message.application, message.tasks)

    def on_none(self, view: View, message: Any) -> None:
        """All tasks of the job have gone to others."""
        view.cancel("unanswered")
        self.finish(view)

    def on_idle(self, view: View) -> None:
        """See `NodeProgram`."""
        self.finish(view)

    def finish(self, view: View) -> None:
        """Turn to the next reservation."""
        self.taken = False
        self.serve(view)

    # -- failures -----------------------------------------------------------------------------------------

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Go on without an answer that is lost; or replace lost reservations, if a job still has tasks."""
        if name == "unanswered":
            self.finish(view)
            return
        job = int(value)
        left = view.held(job)
        if left > 0:
            application = view.application(job)
            self.reserve(view, application, left)
            # after ever longer pauses, since most reservations wait, and are not lost; but without a limit
            # a job would wait for ever where nearly all machines have left
            retry = self.parameters.retry
            view.timer(min(max(retry, view.now - application.release), _LONGEST * retry), "retry", job)


class CancellingNode(SparrowNode):
    """A scheduler that cancels the reservations of a job which has no task left."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.probed: dict[int, list[int]] = {}  # job -> workers that have not asked for a task of it

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """See `SparrowNode`."""
        chosen = self.choose_workers(view, application, tasks)
        self.probed.setdefault(application.number, []).extend(chosen)
        for to in chosen:
            view.send(to, "probe", job=application.number)

    def on_fetch(self, view: View, message: Any) -> None:
        """See `SparrowNode`."""
        super().on_fetch(view, message)
        waiting = self.probed.get(message.job, [])
        if message.sender in waiting:
            waiting.remove(message.sender)
        if view.held(message.job) == 0:
            for to in dict.fromkeys(self.probed.pop(message.job, [])):
                view.send(to, "cancel", job=message.job)

    def on_cancel(self, view: View, message: Any) -> None:
        """Remove the reservations of a job."""
        self.queue = deque(entry for entry in self.queue if entry != (message.job, message.sender))


class EarlyNode(NodeProgram):
    """A machine without late binding: its scheduler asks workers for their loads, and sends tasks at once."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.asked = 0  # groups of questions so far
        # group -> job, tasks to place, answers awaited, answers: load, number, worker
        self.groups: dict[int, tuple[int, int, int, list[tuple[int, int, int]]]] = {}

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Ask workers for a whole job, or for each of its tasks."""
        parts = [tasks] if self.parameters.sampling == "batch" else [1] * tasks
        for part in parts:
            self.ask(view, application.number, part)

    def ask(self, view: View, job: int, tasks: int) -> None:
        """Ask random workers for their loads."""
        count, self.asked = math.ceil(self.parameters.probe_ratio * tasks), self.asked + 1
        self.groups[self.asked] = (job, tasks, count, [])
        for to in view.random.integers(view.machines, size=count).tolist():
            view.send(to, "ask", group=self.asked)
        if self.parameters.patience < math.inf:
            view.timer(self.parameters.patience, "unanswered", self.asked)

    def on_ask(self, view: View, message: Any) -> None:
        """Answer how many tasks are here."""
        view.send(message.sender, "load", group=message.group, tasks=view.tasks)

    def on_load(self, view: View, message: Any) -> None:
        """Place the tasks once all answers are here."""
        if message.group in self.groups:
            _, _, count, answers = self.groups[message.group]
            answers.append((message.tasks, len(answers), message.sender))
            if len(answers) == count:
                self.place(view, message.group)

    def place(self, view: View, group: int) -> None:
        """Send one task after another to the worker with the fewest tasks, those just sent included."""
        job, tasks, _, answers = self.groups.pop(group)
        heapq.heapify(answers)
        for _ in range(tasks):
            load, number, to = answers[0]
            heapq.heapreplace(answers, (load + 1, number, to))
            view.decide("placed", job, machine=to, tasks=1, saw=float(load))
            view.send(to, "task", application=job, tasks=1)

    def on_task(self, view: View, message: Any) -> None:
        """Queue a task."""
        view.enqueue(message.application, message.tasks)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Do without the answers that are lost; with none, ask others."""
        if int(value) in self.groups:
            job, tasks, _, answers = self.groups[int(value)]
            if answers:
                self.place(view, int(value))
            else:
                del self.groups[int(value)]
                self.ask(view, job, tasks)


def without_losses(parameters: Any, run: Run) -> Any:
    """Return the parameters of a run; where no machine fails, nothing need be asked again."""
    return (
        parameters if run.faults else msgspec.structs.replace(parameters, patience=math.inf, retry=math.inf)
    )


def work_of(truth: Truth, node: int, machine: int) -> float:
    """Return the work of a machine, s."""
    return truth.work(machine)


def tasks_at(truth: Truth, node: int, machine: int) -> float:
    """Return how many tasks a machine has, with the running one."""
    return float(truth.tasks(machine))


#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: DecisionTexts = {
    "bound": ("gave a task to machine {machine}, whose slot was free", "work there:", "s"),
    "placed": ("put a task on machine {machine}", "tasks there:", ""),
}
TRUTHS: dict[str, TruthOf] = {"bound": work_of, "placed": tasks_at}


class Probing(NodeScheduler, frozen=True, kw_only=True):
    """Base class of schedulers that probe workers, with their common parameters.

    A job whose tasks or reservations are lost never ends without `retry`.
    Where no machine can fail nothing is lost: `patience` and `retry` are then without effect.

    Parameters
    ----------
    degree
        Neighbours of a node, of which it makes no use.
    probe_ratio
        Probes per task, at least one.
    patience
        S after which a worker goes on without the answer of a scheduler that may have failed.
    retry
        S after which a job that has tasks left probes again, since reservations may be lost with failed
        workers; then again after pauses twice as long each, at most a hundred times as long.
    """

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("unanswered", "retry")
    decision_words: ClassVar[DecisionTexts] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS

    degree: Annotated[int, Limits(low=0)] = 0
    probe_ratio: Annotated[float, Limits(low=1)] = 2.0
    patience: Seconds = 5.0
    retry: Seconds = 60.0

    def start(self, run: Run) -> Policy:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return Adapter(without_losses(self, run), run)


class Sparrow(Probing, frozen=True, kw_only=True):
    """Batch sampling with late binding: tasks go to the workers that first reach a reservation of their job.

    Raises ScenarioError for options that exclude each other.

    Parameters
    ----------
    late_binding
        Whether probes reserve places; if not, workers answer how many tasks they have, and tasks go to those
        with the fewest at once.
    sampling
        ``"batch"``: the probes of a job are for all its tasks; ``"task"``: each task has its own, without
        late binding.
    cancellation
        Whether reservations of a job are cancelled when its last task has been given out; with late binding.
    """

    name: ClassVar[str] = "sparrow"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    policy: ClassVar[type[NodeProgram]] = SparrowNode
    messages: ClassVar[Mapping[str, Message]] = {
        "probe": Message(72, job=int),
        "fetch": Message(72, job=int),
        "task": Message(170, moves_tasks=True, application=int, tasks=int),
        "none": Message(64),
        "cancel": Message(72, job=int),
        "ask": Message(72, group=int),
        "load": Message(80, group=int, tasks=int),
    }

    late_binding: bool = True
    sampling: Literal["batch", "task"] = "batch"
    cancellation: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.late_binding and self.sampling == "task":
            raise ScenarioError("sparrow.sampling must be 'batch' with late binding, got 'task'")
        if self.cancellation and not self.late_binding:
            raise ScenarioError("sparrow.cancellation must be False without late binding, got True")

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        """See `NodeScheduler`."""
        if type(self) is not Sparrow or not self.late_binding or self.cancellation:
            return None
        return workers.Sparrow(
            machines,
            applications,
            workers=machines,
            probe_ratio=self.probe_ratio,
            patience=self.patience,
            retry=self.retry,
        )

    def program(self, node: int) -> NodeProgram:
        """See `NodeScheduler`."""
        if not self.late_binding:
            return EarlyNode(self)
        return CancellingNode(self) if self.cancellation else self.policy(self)
