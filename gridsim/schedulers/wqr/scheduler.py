"""WQR-FT: a fault-tolerant work queue with replication, which may use information about tasks and machines.

D. da Silva, W. Cirne and F. Brasileiro, Euro-Par 2003 (WQR); C. Anglano and M. Canonico, EGC 2005 (WQR-FT);
J. Arora et al. (eight information-aware selections); Anglano and Canonico, PCGrid 2008 (orders of bags);
D. Kondo, A. Chien and H. Casanova, SC 2004 (exclusion of slow machines).

One server holds all tasks.  It learns of all events at once, at no communication cost.
`gridsim.schedulers.wqr.node` has the server and a worker as node programs, to which the kernel is equivalent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from gridcore.work_queue.state import MAX_REPLICAS
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.wqr.compiled import CompiledWorkQueue
from gridsim.schedulers.wqr.cycles import TABLES
from gridsim.schedulers.wqr.decisions import WORDS
from gridsim.schedulers.wqr.environment import WorkQueueEnvironment
from gridsim.schedulers.wqr.node import SIGNALS, Server, Worker
from gridsim.schedulers.wqr.policies import CHOICES, ORDERS
from gridsim.schedulers.wqr.selections import function_named
from gridsim.scheduling.contract import DecisionVerb, Foreseen, NodeForm, Policy, Run, TaskCost
from gridsim.scheduling.nodes.adapter import Adapter, ProgramScheduler
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.scheduling.nodes.program import Message
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.arguments import normalise, real
from gridsim.support.arrays import Floats
from gridsim.support.clock import nanoseconds
from gridsim.support.parameters import Limits

#: Names of choices of tasks and of machines -> their words in the summary.
_ORDERS = {"random": "tasks in random order", "small": "small tasks first", "great": "great tasks first"}
_CHOICES = {
    "none": "on any machine",
    "cpu": "on the fastest machine",
    "avail": "on the machine predicted to stay up longest",
    "all": "on the fastest machine predicted to stay up for the task",
}
#: Largest checkpoint interval and costs, s; with a longer interval there are no checkpoints.
MAX_SECONDS = 1e9
#: Largest `prediction_error`: its exponential is finite for every random number.
MAX_ERROR = 100.0


def _true_up_time(truth: Truth, node: int, machine: int) -> tuple[float, float]:
    """Return the time until a machine fails, and the age of the server's information about it, s."""
    return truth.environment.time_until_failure(machine), 0.0


class WqrFt(ProgramScheduler, frozen=True, kw_only=True):
    """WQR-FT (Anglano and Canonico 2005): a central work queue with replication and checkpoints.

    The next task comes from the application that `bag_order` chooses.  First come tasks that failed and have
    no running copy, in the order in which they failed, then tasks that were never started.  After these, one
    of the tasks with the fewest running copies gets a further copy (a replica), if it has fewer than
    `max_replicas`.  The first copy that completes a task ends the others.

    Decisions come after all other events of an instant: tasks end first, then machines fail and recover.  The
    server learns about tasks and machines without messages.  Where machines have background load, choices use
    nominal speeds only.

    Parameters
    ----------
    bag_order
        The next application (Anglano and Canonico 2008), of those that have a task to start.
        ``"fcfs-share"``: the first in order of release; ``"fcfs-excl"``: the first incomplete one has the
        whole grid, and machines that it does not use stay idle; ``"rr"``: applications take turns, one task
        or replica each, in order of release; ``"rr-nrf"``: the same, but while any task waits without a copy,
        only applications with such tasks have turns; ``"longidle"``: the one with the task that has waited
        without a copy the longest, since its release or the failure of its last copy; while no task waits, as
        "fcfs-share".
    task_order
        How to choose among tasks that were never started, or among those that may have a further copy:
        ``"random"``, or ``"small"`` or ``"great"`` by the residual work after the most advanced checkpoint
        (ties: the lowest number).
    machine_choice
        How to choose among the free machines: ``"none"`` (the lowest id), ``"cpu"`` (the fastest),
        ``"avail"`` (predicted to stay up the longest), ``"all"`` (the fastest of those predicted to be up
        until the task is done, otherwise as "cpu"); ties: the lowest id.  Like `task_order` it can also be a
        function of a module, or its name ``"module:function"`` (`gridsim.schedulers.wqr.selections`).
    max_replicas
        Maximum number of copies of a task that run at a time; 1 for no replicas.
    exclude
        Number of standard deviations: machines that are slower than the mean speed by more than this get no
        task (resource exclusion by a fixed threshold, Kondo et al. 2004); None: all machines get tasks.
    checkpoint_interval
        Computing time between two checkpoints, s; ``"young"``: sqrt(2 * checkpoint_cost * mean up time) (J.
        W. Young, CACM 1974), or no checkpoints where machines do not fail; inf: no checkpoints.
    checkpoint_cost
        Time to write a checkpoint, s.
    restore_cost
        Time to resume from a checkpoint, s.
    checkpoint_store
        ``"server"``: a copy resumes from the most advanced checkpoint of any copy of its task;
        ``"local"``: a machine keeps the checkpoint of the last task that it lost, no other machine can read
        it, and the residual work of a task counts as its whole size.
    predictor
        Prediction of the time that a machine stays up: ``"exact"`` (as in the paper), ``"past"`` (the mean of
        those of its last 32 up times that were longer than its current one so far), ``"age"`` (the rest is as
        long as its current up time so far).  Predictions are made when a machine comes up; those by "past"
        and "age" also whenever it becomes free, and at each release.
    prediction_error
        Standard deviation of the logarithm of a factor (log-normal, median 1) on the up time that "exact"
        predicts.  It is drawn for each up time; the errors are the same for all policies of a comparison.
    as_printed
        Whether machine choices follow Figures 1 to 4 literally: machine 0 is considered even if it is not
        free, so that a task may wait for it and block all others, and "all" does not fall back on "cpu".
    """

    name: ClassVar[str] = "WQR-FT"
    task_cost: ClassVar[TaskCost] = TaskCost(memory=48, time=5e-7)
    decentralized: ClassVar[bool] = False
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    owners: ClassVar[bool] = True
    unequal: ClassVar[bool] = True
    fluctuating: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {
        "started": "mentions",
        "restarted": "mentions",
        "replicated": "mentions",
    }
    truths: ClassVar[Mapping[str, TruthOf]] = dict.fromkeys(decision_verbs, _true_up_time)
    roles: ClassVar[Mapping[str, Role]] = {
        "worker": Role(Worker),
        "server": Role(Server, count=1, server=True, releases=True),
    }
    messages: ClassVar[Mapping[str, Message]] = SIGNALS
    environment = WorkQueueEnvironment
    environment_timers: ClassVar[tuple[str, ...]] = ("failure", "dispatch", "over")
    local_order = "fifo"
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = TABLES
    to_the_end: ClassVar[bool] = True  # also ends when the server has all results

    bag_order: Literal["fcfs-share", "fcfs-excl", "rr", "rr-nrf", "longidle"] = "fcfs-share"
    task_order: Any = "random"  # str | TaskOrder; a function is replaced by its name
    machine_choice: Any = "none"  # str | MachineChoice
    max_replicas: Annotated[int, Limits(low=1, high=MAX_REPLICAS)] = 2
    exclude: Annotated[float, Limits(low=0)] | None = None
    checkpoint_interval: float | Literal["young"] = "young"
    checkpoint_cost: Annotated[float, Limits(low=0, high=MAX_SECONDS, unit="s")] = 10.0
    restore_cost: Annotated[float, Limits(low=0, high=MAX_SECONDS, unit="s")] = 10.0
    checkpoint_store: Literal["server", "local"] = "server"
    predictor: Literal["exact", "past", "age"] = "exact"
    prediction_error: Annotated[float, Limits(low=0, high=MAX_ERROR)] = 0.0
    as_printed: bool = False

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, and on the choice of tasks and machines."""
        order, choice = str(self.task_order), str(self.machine_choice)
        tasks, machines = (
            _ORDERS.get(order, f"tasks by {order}"),
            _CHOICES.get(choice, f"machines by {choice}"),
        )
        return f"{super().summary.removesuffix('.')}; {tasks}, {machines}."

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment, as pairs of a condition and a reason."""
        exact = "machine choices that need up times know when machines fail, but for prediction_error"
        return [*super().environment_reasons(), ("predictor = 'exact'", exact)]

    def __post_init__(self) -> None:
        super().__post_init__()

        def path(name: str) -> str:
            return f"{self.name}.{name}"

        interval = self.checkpoint_interval
        if isinstance(interval, str):
            if interval != "young":
                raise ScenarioError(
                    f'{path("checkpoint_interval")} must be a time in s or "young", got {interval!r}'
                )
            interval = "young"
        else:
            interval = real(path("checkpoint_interval"), interval, low=1e-9, unit="s", finite=False)
        error = self.prediction_error
        if error and self.predictor != "exact":
            raise ScenarioError(
                f'{path("prediction_error")} must be 0 unless predictor is "exact", got {error!r}'
            )
        normalise(
            self,
            task_order=_named(path("task_order"), self.task_order, ORDERS),
            machine_choice=_named(path("machine_choice"), self.machine_choice, CHOICES),
            checkpoint_interval=interval,
        )
        if self.as_printed and (self.machine_choice not in CHOICES or self.exclude is not None):
            raise ScenarioError(
                f"{path('as_printed')} does not support exclude, or a machine_choice that is in no figure"
            )

    @property
    def promised_order(self) -> None:
        """None: no order is promised.

        Tasks of an application may overtake replicas of an earlier one, and with some `bag_order` also tasks.
        """
        return None

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The parts of the future that the server knows: failures, with exact predictions."""
        asks = self.predictor == "exact" and self.machine_choice not in ("none", "cpu")
        return ("failures",) if asks else ()

    def start(self, run: Run) -> Policy:
        """Return the policy of a run."""
        return Adapter(self, run) if run.nodes == "interpreted" else CompiledWorkQueue(self, run)

    def min_speed(self, speeds: Floats) -> float:
        """Return the minimum speed of machines that get tasks, Mflop/s; the fastest machines always do."""
        if self.exclude is None:
            return 0.0
        mean = math.fsum(speeds.tolist()) / len(speeds)
        deviation = math.sqrt(math.fsum(((speeds - mean) ** 2).tolist()) / len(speeds))
        return min(mean - self.exclude * deviation, float(speeds.max()))

    @property
    def migrates(self) -> bool:
        """True if a copy may resume from a checkpoint of another machine."""
        return self.checkpoint_store == "server" and self.checkpoint_interval != math.inf

    def interval(self, mean_up_time: float) -> int:
        """Return the computing time between two checkpoints for a `mean_up_time` (s), ns; 0: no checkpoints.

        Raises
        ------
        ScenarioError
            If `checkpoint_cost` is 0, for which Young's formula gives no interval.
        """
        seconds = self.checkpoint_interval
        if seconds == "young":
            if not self.checkpoint_cost:
                raise ScenarioError(
                    f'{self.name}.checkpoint_cost must be > 0 for checkpoint_interval "young", got 0'
                )
            seconds = math.sqrt(2 * self.checkpoint_cost * mean_up_time)
        assert not isinstance(seconds, str)
        return max(1, nanoseconds(seconds)) if seconds <= MAX_SECONDS else 0


def _named(path: str, value: Any, known: tuple[str, ...]) -> str:
    """Return the name of a selection, or ``"module:function"`` of a function.

    Raises
    ------
    ScenarioError
        If there is no such selection, or the function cannot be imported."""
    if isinstance(value, str) and (value in known or all(value.partition(":"))):
        return str(value)
    if callable(value):
        name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', repr(value))}"
        try:
            function = function_named(path, name)
        except ScenarioError:
            function = None
        if function is value:
            return name
        raise ScenarioError(
            f"{path} must be a function that can be imported as module:function, so that the run can be "
            f"repeated, got {name}"
        )
    raise ScenarioError(
        f"{path} must be one of {', '.join(known)}, a function or module:function, got {value!r}"
    )
