"""Sparrow: a job places reservations at random machines; the machines that serve them first get its tasks.

K. Ousterhout, P. Wendell, M. Zaharia, I. Stoica, "Sparrow: distributed, low latency scheduling" (SOSP 2013).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from gridcore.nodes.handlers import Handlers
from gridcore.probes import workers
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import NodeForm, Policy, Run, TaskCost
from gridsim.scheduling.nodes.adapter import (
    Adapter,
    Fifo,
    IntMap,
    IntSet,
    Message,
    NodeProgram,
    NodeScheduler,
)
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.scheduling.nodes.program import View
from gridsim.support.parameters import AnswerWait, Limits

Seconds = Annotated[float, Limits(above=0, unit="s", finite=False)]
#: Type of the time that a worker waits for the answer of a scheduler.
Patience = Annotated[
    Seconds, AnswerWait("workers give up reservations before their tasks arrive", only_failures=True)
]
#: Maximum pause before a job probes again, as a multiple of the first pause.
_MAX_BACKOFF = 100.0
#: Bits of the number of an answer in `EarlyBindingNode.answer_key`.
_ANSWER_BITS = 31


class ProbingNode(NodeProgram):
    """A node that schedules jobs: it probes workers, which fetch the tasks."""

    def workers(self, view: View) -> int:
        """Return the number of workers, which are the nodes with the lowest numbers."""
        return view.machines

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Schedule a job."""
        self.schedule(view, application, tasks)

    def schedule(self, view: View, application: Any, tasks: int) -> None:
        """Send the probes of a job, and set the timer after which it probes again."""
        self.reserve(view, application, tasks)
        if self.parameters.retry < math.inf:
            view.timer(self.parameters.retry, "retry", application.number)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """Send probes to workers."""
        for worker in self.choose_workers(view, application, tasks):
            view.send(worker, "probe", job=application.number)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return the workers for the probes of a job, drawn at random with replacement."""
        count = math.ceil(self.parameters.probe_ratio * tasks)
        workers: list[int] = view.random.integers(self.workers(view), size=count).tolist()
        return workers

    def on_fetch(self, view: View, message: Any) -> None:
        """Bind the next task of a job to the worker that fetches, if a task is left."""
        if view.held(message.job) > 0:
            view.decide("bound", message.job, node=message.sender, tasks=1, saw=0.0)
            view.send(message.sender, "task", application=message.job, tasks=1)
        else:
            view.send(message.sender, "none")

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        self.retry(view, int(value))

    def retry(self, view: View, job: int) -> None:
        """Probe again for a job with tasks left, whose reservations may be lost."""
        tasks = view.held(job)
        if tasks > 0:
            application = view.application(job)
            self.reserve(view, application, tasks)
            # Pauses grow, since most reservations are still queued and not lost.  They are limited, since a
            # job would otherwise wait too long if nearly all machines have failed.
            retry = self.parameters.retry
            view.timer(min(max(retry, view.now - application.release), _MAX_BACKOFF * retry), "retry", job)


class SlotNode(NodeProgram):
    """A worker with one slot, which queues reservations."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.queue = Fifo(job=int, scheduler=int)  # reservations, each with the scheduler of its job
        self.busy = False  # whether the slot runs a task or waits for an answer

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.queue.push(message.job, message.sender)
        if not self.busy:
            self.serve(view)

    def serve(self, view: View) -> None:
        """Serve the first reservation of the queue."""
        if self.queue:
            job, scheduler = self.queue.pop()
            self.fetch(view, job, scheduler)
        else:
            self.on_free(view)

    def fetch(self, view: View, job: int, scheduler: int) -> None:
        """Request a task of a job from its scheduler."""
        self.busy = True
        view.send(scheduler, "fetch", job=job)
        if self.parameters.patience < math.inf:
            view.timer(self.parameters.patience, "unanswered")

    def on_free(self, view: View) -> None:
        """Act when the slot is free and the queue is empty; by default do nothing."""

    def on_task(self, view: View, message: Any) -> None:
        """Run the task that was fetched."""
        view.cancel("unanswered")
        view.enqueue(message.application, message.tasks)

    def on_none(self, view: View, message: Any) -> None:
        """Serve the next reservation: the job has no tasks left."""
        view.cancel("unanswered")
        self.finish(view)

    def on_idle(self, view: View) -> None:
        self.finish(view)

    def finish(self, view: View) -> None:
        """Free the slot and serve the next reservation."""
        self.busy = False
        self.serve(view)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Serve the next reservation if an answer is overdue: the scheduler may have failed."""
        self.finish(view)


class SparrowNode(ProbingNode, SlotNode):
    """A machine: the scheduler of the jobs submitted at it, and a worker."""

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        if name == "unanswered":
            self.finish(view)
        else:
            self.retry(view, int(value))


class CancellingNode(SparrowNode):
    """A node whose scheduler cancels the reservations of a job that has no task left."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.reservations = Fifo(job=int, worker=int)  # reservations at workers, in the order of sending
        self.cancelled = IntSet()  # the workers that get a cancellation now

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        for worker in self.choose_workers(view, application, tasks):
            self.reservations.push(application.number, worker)
            view.send(worker, "probe", job=application.number)

    def on_fetch(self, view: View, message: Any) -> None:
        super().on_fetch(view, message)
        is_done, is_served = view.held(message.job) == 0, False
        for _ in range(len(self.reservations)):
            job, worker = self.reservations.pop()
            if job == message.job and worker == message.sender and not is_served:
                is_served = True
            elif job == message.job and is_done:
                self.cancelled.add(worker)
            else:
                self.reservations.push(job, worker)
        for worker in self.cancelled:
            view.send(worker, "cancel", job=message.job)
        self.cancelled.clear()

    def on_cancel(self, view: View, message: Any) -> None:
        """Remove the reservations of a job from the queue."""
        for _ in range(len(self.queue)):
            job, scheduler = self.queue.pop()
            if job != message.job or scheduler != message.sender:
                self.queue.push(job, scheduler)


class EarlyBindingNode(NodeProgram):
    """A machine without late binding: its scheduler asks workers for their loads, then sends the tasks."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.last_group = 0  # number of the last group of load queries
        # group -> job, tasks to place, number of queries, and number of answers
        self.groups = IntMap(job=int, tasks=int, questions=int, answers=int)
        self.answers = IntMap(load=int, worker=int)  # `answer_key` of a group and an answer -> the answer

    def answer_key(self, group: int, number: int) -> int:
        """Return the key of answer `number` of a group in `answers`."""
        return group << _ANSWER_BITS | number

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Ask workers for their loads: once for the whole job, or once for each task."""
        if self.parameters.sampling == "batch":
            self.ask(view, application.number, tasks)
        else:
            for _ in range(tasks):
                self.ask(view, application.number, 1)

    def ask(self, view: View, job: int, tasks: int) -> None:
        """Ask random workers for their loads."""
        count = math.ceil(self.parameters.probe_ratio * tasks)
        self.last_group += 1
        self.groups[self.last_group] = (job, tasks, count, 0)
        for worker in view.random.integers(view.machines, size=count).tolist():
            view.send(worker, "ask", group=self.last_group)
        if self.parameters.patience < math.inf:
            view.timer(self.parameters.patience, "unanswered", self.last_group)

    def on_ask(self, view: View, message: Any) -> None:
        """Answer with the number of tasks at this machine."""
        view.send(message.sender, "load", group=message.group, tasks=view.tasks)

    def on_load(self, view: View, message: Any) -> None:
        """Place the tasks once all answers have arrived."""
        group = message.group
        if group in self.groups:
            job, tasks, questions, answers = self.groups[group]
            self.answers[self.answer_key(group, answers)] = (message.tasks, message.sender)
            self.groups[group] = (job, tasks, questions, answers + 1)
            if answers + 1 == questions:
                self.place(view, group)

    def place(self, view: View, group: int) -> None:
        """Send each task to the worker with the fewest tasks; tasks already sent count."""
        job, tasks, _, count = self.groups.pop(group)
        answers = []  # load, order of arrival, worker
        for number in range(count):
            load, worker = self.answers.pop(self.answer_key(group, number))
            answers.append((load, number, worker))
        heapq.heapify(answers)
        for _ in range(tasks):
            load, number, worker = answers[0]
            heapq.heapreplace(answers, (load + 1, number, worker))
            view.decide("placed", job, node=worker, tasks=1, saw=float(load))
            view.send(worker, "task", application=job, tasks=1)

    def on_task(self, view: View, message: Any) -> None:
        """Queue a task."""
        view.enqueue(message.application, message.tasks)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Place the tasks by the answers received so far; without any, ask other workers."""
        group = int(value)
        if group in self.groups:
            job, tasks, _, answers = self.groups[group]
            if answers:
                self.place(view, group)
            else:
                del self.groups[group]
                self.ask(view, job, tasks)


def run_parameters(parameters: Any, run: Run) -> Any:
    """Return the parameters of a run, without timeouts if no machine fails."""
    return (
        parameters if run.faults else msgspec.structs.replace(parameters, patience=math.inf, retry=math.inf)
    )


def work_of(truth: Truth, node: int, machine: int) -> float:
    """Return the remaining work of a machine, s."""
    return truth.work(machine)


def tasks_at(truth: Truth, node: int, machine: int) -> float:
    """Return the number of tasks of a machine, the running one included."""
    return float(truth.tasks(machine))


#: Texts of the decisions of probe-based schedulers.
WORDS: DecisionTexts = {
    "bound": ("gave a task to machine {machine}, whose slot was free", "work there:", "s"),
    "placed": ("put a task on machine {machine}", "tasks there:", ""),
}
TRUTHS: dict[str, TruthOf] = {"bound": work_of, "placed": tasks_at}


class Probing(NodeScheduler, frozen=True, kw_only=True):
    """Base class of schedulers that probe workers, with their common parameters.

    With an infinite `retry`, a job whose tasks or reservations are lost never ends.
    If no machine can fail, `patience` and `retry` have no effect.

    Parameters
    ----------
    degree
        Number of neighbours of each node; these schedulers do not use them.
    probe_ratio
        Number of probes per task, at least 1.
    patience
        Time, in s, after which a worker stops waiting for the answer of a scheduler, which may have failed.
    retry
        Time, in s, after which a job with tasks left probes again, since failed workers lose reservations.
        The pause doubles with each repetition, up to 100 times `retry`.
    """

    task_cost: ClassVar[TaskCost] = TaskCost(memory=96, time=1e-6)
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("unanswered", "retry")
    decision_words: ClassVar[DecisionTexts] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS

    degree: Annotated[int, Limits(low=0)] = 0
    probe_ratio: Annotated[float, Limits(low=1)] = 2.0
    patience: Patience = 5.0
    retry: Seconds = 60.0

    def start(self, run: Run) -> Policy:
        return Adapter(run_parameters(self, run), run)


class Sparrow(Probing, frozen=True, kw_only=True):
    """Batch sampling with late binding: tasks go to the workers that first serve a reservation of their job.

    Parameters
    ----------
    late_binding
        Whether probes place reservations.  If False, workers answer with the number of their tasks, and each
        task is sent at once to the worker with the fewest tasks.
    sampling
        ``"batch"``: the probes of a job serve all its tasks; ``"task"``: each task has its own probes, which
        requires ``late_binding=False``.
    cancellation
        Whether the remaining reservations of a job are cancelled when its last task is bound; requires late
        binding.

    Raises
    ------
    ScenarioError
        If ``sampling="task"`` is combined with late binding, or ``cancellation`` with early binding.
    """

    name: ClassVar[str] = "sparrow"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
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
            raise ScenarioError("sparrow.sampling = 'task' requires sparrow.late_binding = false")
        if self.cancellation and not self.late_binding:
            raise ScenarioError("sparrow.cancellation requires sparrow.late_binding = true")

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
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

    @property
    def policy(self) -> type[NodeProgram]:  # type: ignore[override]  # it depends on the parameters
        """The class of the nodes."""
        if not self.late_binding:
            return EarlyBindingNode
        return CancellingNode if self.cancellation else SparrowNode
