"""Classic policies that place each task individually, and work stealing.

The node programs are in `gridsim.schedulers.classics.node`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.classics.node import (
    IdleNode,
    PowerNode,
    QueueNode,
    RandomNode,
    RoundRobinNode,
    StealingNode,
    WorkNode,
)
from gridsim.scheduling.contract import DecisionVerb, TaskCost
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.support.parameters import AnswerWait, Limits

#: Size of a message without a task, bytes.
_SHORT = 64

_Count = Annotated[int, Limits(low=1)]
_Number = Annotated[int, Limits(low=0)]
_Time = Annotated[float, Limits(above=0, unit="s")]

_TASK = partial(Message, 170, moves_tasks=True, application=int, tasks=int)


#: Texts of the decisions.
_PLACED: DecisionTexts = {"placed": ("put a task on machine {machine}", "tasks there:", "")}
_BY_WORK: DecisionTexts = {"placed": ("put a task on machine {machine}", "work of", "s")}
_STEALING: DecisionTexts = {
    "kept": ("kept {tasks} tasks that were submitted there", "", ""),
    "gave": ("gave {tasks} tasks to machine {machine}, which had asked", "tasks to give:", ""),
}


def tasks_at(truth: Truth, node: int, machine: int) -> float:
    """Return the number of tasks of `machine`, the running one included."""
    return float(truth.tasks(machine))


def work_at(truth: Truth, node: int, machine: int) -> float:
    """Return the time that `machine` needs for its tasks, s."""
    return truth.work(machine)


class Classic(NodeScheduler, frozen=True, kw_only=True):
    """Base class of the classic schedulers: machines run their tasks in order of arrival.

    Parameters
    ----------
    degree
        Number of neighbours of each node; these schedulers do not use them.
    instant
        Whether messages take no time, as queueing theory assumes; this includes those that move tasks.
        Messages are counted nevertheless.
    """

    task_cost: ClassVar[TaskCost] = TaskCost(memory=128, time=2e-6)
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    decision_words: ClassVar[DecisionTexts] = _PLACED
    truths: ClassVar[Mapping[str, TruthOf]] = {"placed": tasks_at}
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {"task": _TASK}
    cores: ClassVar[bool | Literal["separate"]] = True

    degree: Annotated[int, Limits(low=0)] = 0
    instant: bool = False

    @property
    def informed_by_messages(self) -> bool:
        return not self.instant

    @property
    def messages(self) -> Mapping[str, Message]:  # type: ignore[override]
        return {name: kind(delay=0.0 if self.instant else None) for name, kind in self.kinds.items()}


class Random(Classic, frozen=True, kw_only=True):
    """Random placement: each task goes to a random machine."""

    name: ClassVar[str] = "random"
    policy: ClassVar[type[NodeProgram]] = RandomNode


class RoundRobin(Classic, frozen=True, kw_only=True):
    """Round robin: tasks submitted at a machine go to all machines in turn, starting at a random one."""

    name: ClassVar[str] = "round-robin"
    policy: ClassVar[type[NodeProgram]] = RoundRobinNode


class PowerOfD(Classic, frozen=True, kw_only=True):
    """Power of d choices (Mitzenmacher 2001): each task goes to the least busy of d random machines.

    Parameters
    ----------
    choices
        Number of machines that are probed for each task, drawn with replacement.
    memory
        Number of machines probed in addition: those with the fewest tasks at the node's last decision
        (Mitzenmacher, Prabhakar and Shah 2002).
    patience
        Time, in s, after which a task is placed by the answers received so far, or at random without any.
        It should be well above a round trip.
    window
        Number of tasks for which a node probes machines at once; further tasks wait at the node.
    """

    name: ClassVar[str] = "power-of-d"
    policy: ClassVar[type[NodeProgram]] = PowerNode
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {
        "task": _TASK,
        "probe": partial(Message, _SHORT, request=int),
        "answer": partial(Message, _SHORT, request=int, load=int),
    }
    timers: ClassVar[tuple[str, ...]] = ("late",)

    choices: _Count = 2
    memory: _Number = 0
    patience: Annotated[_Time, AnswerWait("tasks are placed before other machines answer")] = 2.0
    window: _Count = 128


class BoardPlacement(BoardScheduler, frozen=True, kw_only=True):
    """Base class of schedulers that place tasks by the loads on the board.

    Parameters `age`, `refresh`, `batch` and `error` of the board are those of `BoardScheduler`.

    Parameters
    ----------
    degree
        Number of neighbours of each node; these schedulers do not use them.
    choices
        Number of machines among which a task is placed, drawn with replacement; 0 for all.
    instant
        Whether messages that move tasks take no time.
    """

    task_cost: ClassVar[TaskCost] = TaskCost(memory=128, time=5e-6)
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    decision_words: ClassVar[DecisionTexts] = _PLACED
    truths: ClassVar[Mapping[str, TruthOf]] = {"placed": tasks_at}
    cores: ClassVar[bool | Literal["separate"]] = True

    degree: Annotated[int, Limits(low=0)] = 0
    choices: _Number = 0
    instant: bool = False

    @property
    def messages(self) -> Mapping[str, Message]:  # type: ignore[override]
        return {"task": _TASK(delay=0.0 if self.instant else None)}


class JoinShortestQueue(BoardPlacement, frozen=True, kw_only=True):
    """Join the shortest queue: each task goes to the machine with the fewest tasks on the board.

    With ``choices=2`` it is power of two choices with the loads on the board.
    """

    name: ClassVar[str] = "join-shortest-queue"
    policy: ClassVar[type[NodeProgram]] = QueueNode


class LeastWork(BoardPlacement, frozen=True, kw_only=True):
    """Least work: each task goes to the machine with the least work (s) on the board."""

    name: ClassVar[str] = "least-work"
    policy: ClassVar[type[NodeProgram]] = WorkNode
    decision_words: ClassVar[DecisionTexts] = _BY_WORK
    truths: ClassVar[Mapping[str, TruthOf]] = {"placed": work_at}


class JoinIdleQueue(Classic, frozen=True, kw_only=True):
    """Join-Idle-Queue (Lu et al. 2011): tasks go to machines that have reported that they are idle.

    Without a report they go to random machines.

    After Y. Lu et al., "Join-Idle-Queue: a novel load balancing algorithm for dynamically scalable web
    services" (Performance Evaluation 2011), with reports to a random dispatcher.

    Parameters
    ----------
    dispatchers
        Number of machines that receive reports: machines 0 to `dispatchers` - 1, at which applications are
        submitted; 0 for all machines.
    """

    name: ClassVar[str] = "join-idle-queue"
    policy: ClassVar[type[NodeProgram]] = IdleNode
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {"task": _TASK, "free": partial(Message, _SHORT)}
    cores: ClassVar[bool | Literal["separate"]] = "separate"

    dispatchers: _Number = 0


class WorkStealing(Classic, frozen=True, kw_only=True):
    """Random work stealing: an idle machine asks random ones for half of their waiting tasks.

    Tasks run where they are submitted unless they are stolen.

    Parameters
    ----------
    attempts
        Number of machines that are asked, one after another, before a pause.
    pause
        Time, in s, after which a machine that is still idle starts over.
    patience
        Time, in s, after which the next machine is asked if no answer has come.
    """

    name: ClassVar[str] = "work-stealing"
    task_cost: ClassVar[TaskCost] = TaskCost()
    policy: ClassVar[type[NodeProgram]] = StealingNode
    cores: ClassVar[bool | Literal["separate"]] = "separate"
    decision_words: ClassVar[DecisionTexts] = _STEALING
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {"kept": "keeps", "gave": "gives"}
    truths: ClassVar[Mapping[str, TruthOf]] = {}
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {
        "task": _TASK,
        "steal": partial(Message, _SHORT),
        "nothing": partial(Message, _SHORT),
    }
    timers: ClassVar[tuple[str, ...]] = ("late",)

    attempts: _Count = 10
    pause: _Time = 5.0
    patience: Annotated[_Time, AnswerWait("machines ask others before the first one answers")] = 2.0
