"""Classic policies that place each task by itself, and work stealing.

Nodes are in `gridsim.schedulers.classics.node`.
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
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.support.parameters import Limits

#: Size of a message without a task, bytes.
_SHORT = 64

_Count = Annotated[int, Limits(low=1)]
_Number = Annotated[int, Limits(low=0)]
_Time = Annotated[float, Limits(above=0, unit="s")]

_TASK = partial(Message, 170, moves_tasks=True, application=int, tasks=int)


#: What nodes decide.
_PLACED: DecisionTexts = {"placed": ("put a task on machine {machine}", "tasks there:", "")}
_BY_WORK: DecisionTexts = {"placed": ("put a task on machine {machine}", "work of", "s")}
_STEALING: DecisionTexts = {
    "kept": ("kept {tasks} tasks that were submitted there", "", ""),
    "gave": ("gave {tasks} tasks to machine {machine}, which had asked", "tasks to give:", ""),
}


def tasks_at(truth: Truth, node: int, machine: int) -> float:
    """Return how many tasks `machine` has, with the running one."""
    return float(truth.tasks(machine))


def work_at(truth: Truth, node: int, machine: int) -> float:
    """Return how long `machine` needs for what it has, s."""
    return truth.work(machine)


class Classic(NodeScheduler, frozen=True, kw_only=True):
    """Base class of the classic schedulers: machines run their tasks in the order in which they come.

    Parameters
    ----------
    instant
        Whether messages, those that move tasks included, take no time, as queueing theory has it.  They are
        counted nevertheless.
    """

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    decision_words: ClassVar[DecisionTexts] = _PLACED
    truths: ClassVar[Mapping[str, TruthOf]] = {"placed": tasks_at}
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {"task": _TASK}

    instant: bool = False

    @property
    def informed_by_messages(self) -> bool:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return not self.instant

    @property
    def messages(self) -> Mapping[str, Message]:  # type: ignore[override]
        """See `NodeScheduler`."""
        return {name: make(delay=0.0 if self.instant else None) for name, make in self.kinds.items()}


class Random(Classic, frozen=True, kw_only=True):
    """Random placement: each task goes to a random machine."""

    name: ClassVar[str] = "random"
    policy: ClassVar[type[NodeProgram]] = RandomNode


class RoundRobin(Classic, frozen=True, kw_only=True):
    """Round robin: the tasks submitted at a machine go to all machines in turn, from a random one on."""

    name: ClassVar[str] = "round-robin"
    policy: ClassVar[type[NodeProgram]] = RoundRobinNode


class PowerOfD(Classic, frozen=True, kw_only=True):
    """Power of d choices (Mitzenmacher 2001): each task goes to the least busy of d random machines.

    Parameters
    ----------
    choices
        Machines that are asked for each task, drawn with replacement.
    memory
        Machines that are asked again, since they had the fewest tasks at the last decision of the node
        (Mitzenmacher, Prabhakar and Shah 2002).
    patience
        S until a task is placed by the answers that have come.
    room
        Requests that a node keeps at once; with more, the oldest is decided by the answers that have come.
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
    patience: _Time = 2.0
    room: _Count = 128


class ByBoard(BoardScheduler, frozen=True, kw_only=True):
    """Base class of those that choose by the board, see `BoardScheduler` for `age`, `refresh` and `error`.

    Parameters
    ----------
    choices
        Machines among which a task is placed, drawn at random with replacement; 0 for all.
    instant
        As of the other classic schedulers.
    """

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    decision_words: ClassVar[DecisionTexts] = _PLACED
    truths: ClassVar[Mapping[str, TruthOf]] = {"placed": tasks_at}
    watch: ClassVar[Literal["idle", "completion"]] = "completion"

    choices: _Number = 0
    instant: bool = False

    @property
    def messages(self) -> Mapping[str, Message]:  # type: ignore[override]
        """See `NodeScheduler`."""
        return {"task": _TASK(delay=0.0 if self.instant else None)}


class JoinShortestQueue(ByBoard, frozen=True, kw_only=True):
    """Join the shortest queue: each task goes to the machine with the fewest tasks, as the board shows them.

    With ``choices=2`` it is power of two choices by what the board shows.
    """

    name: ClassVar[str] = "join-shortest-queue"
    policy: ClassVar[type[NodeProgram]] = QueueNode


class LeastWork(ByBoard, frozen=True, kw_only=True):
    """Least work: each task goes to the machine that needs the least time for its tasks, by the board."""

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
        Machines 0 to dispatchers - 1 get the reports: those at which applications are submitted. 0 for all
        machines.
    room
        Reports that a dispatcher keeps; with more, it forgets the oldest.
    """

    name: ClassVar[str] = "join-idle-queue"
    policy: ClassVar[type[NodeProgram]] = IdleNode
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {"task": _TASK, "free": partial(Message, _SHORT)}

    dispatchers: _Number = 0
    room: _Count = 256


class WorkStealing(Classic, frozen=True, kw_only=True):
    """Random work stealing: a machine without work asks random ones for half of what waits there.

    Tasks run where they are submitted unless they are stolen.

    Parameters
    ----------
    attempts
        Machines that are asked, one after another, before a pause.
    pause
        S after which a machine that is still without work asks again.
    patience
        S until the next machine is asked, if no answer comes.
    """

    name: ClassVar[str] = "work-stealing"
    policy: ClassVar[type[NodeProgram]] = StealingNode
    decision_words: ClassVar[DecisionTexts] = _STEALING
    truths: ClassVar[Mapping[str, TruthOf]] = {}
    kinds: ClassVar[Mapping[str, Callable[..., Message]]] = {
        "task": _TASK,
        "steal": partial(Message, _SHORT),
        "nothing": partial(Message, _SHORT),
    }
    timers: ClassVar[tuple[str, ...]] = ("late",)

    attempts: _Count = 10
    pause: _Time = 5.0
    patience: _Time = 2.0
