"""WQR-FT: a fault-tolerant work queue with replication, which may use information on tasks and machines.

D. da Silva, W. Cirne and F. Brasileiro, Euro-Par 2003 (WQR); C. Anglano and M. Canonico, EGC 2005 (WQR-FT);
J. Arora et al. (eight information-aware selections); Anglano and Canonico, PCGrid 2008 (orders of bags);
D. Kondo, A. Chien and H. Casanova, SC 2004 (exclusion of slow machines).

One server holds all tasks.  It knows at once what happens, at no communication cost: no message is sent.
`gridsim.schedulers.wqr.node` has the server and a worker as node programs, which the kernel must equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.work_queue.dispatch import WorkQueue
from gridcore.work_queue.state import MOST_REPLICAS
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.wqr.decisions import WORDS, QueueNotes
from gridsim.schedulers.wqr.interpreted import Interpreted
from gridsim.schedulers.wqr.outcome import check_waiting, outcome
from gridsim.schedulers.wqr.policies import CHOICES, ORDERS
from gridsim.schedulers.wqr.rules import Predictions, Rules, too_long
from gridsim.schedulers.wqr.selections import (
    asked_machine,
    asked_task,
    function_named,
    sequence,
)
from gridsim.scheduling.contract import DecisionVerb, Foreseen, NodeForm, Outcome, Policy, Run, Scheduler
from gridsim.support.arguments import normalise, real
from gridsim.support.arrays import Floats
from gridsim.support.clock import NEVER, nanoseconds
from gridsim.support.parameters import Limits

#: Longest checkpoint interval and longest costs, s; with a longer interval there are no checkpoints.
LONGEST = 1e9
#: Largest `prediction_error`; its exponential can be computed with, whatever is drawn.
MOST_ERROR = 100.0


class WqrFt(Scheduler, frozen=True, kw_only=True):
    """WQR-FT (Anglano and Canonico 2005): a central work queue with replication and checkpoints.

    The next task comes from the application that `bag_order` chooses.  Of its tasks that failed and have no
    running copy, the one that has waited the longest is next; else a task that was never started; else, of
    the tasks with the fewest running copies, if these are fewer than `max_replicas`, one that gets a further
    copy (a replica).  The first copy that completes a task ends the others.

    Nothing is decided before everything at an instant has happened: tasks end first, then machines fail and
    recover.  The server learns about tasks and machines without messages.  Where machines have background
    load, choices use nominal speeds only.

    Parameters
    ----------
    bag_order
        Which application is next (Anglano and Canonico 2008), of those that have a task to start.
        ``"fcfs-share"``: the first in order of release; ``"fcfs-excl"``: the first that is not complete has
        the whole grid until it is, and what it leaves free stays idle; ``"rr"``: they take turns, one task or
        replica each, in order of release; ``"rr-nrf"``: the same, but while any task waits without a copy,
        only applications with such tasks have turns; ``"longidle"``: the one whose task has waited without a
        copy the longest, since its release or the failure of its last copy; while none waits, as
        "fcfs-share".
    task_order
        How to choose among tasks that were never started, or among those that may have a further copy:
        ``"random"``, or ``"small"`` or ``"great"`` by the residual work after the newest checkpoint (ties:
        the lowest number).
    machine_choice
        How to choose among the free machines: ``"none"`` (the lowest id), ``"cpu"`` (the fastest),
        ``"avail"`` (predicted to stay up the longest), ``"all"`` (the fastest of those predicted to be up
        until the task is done, else as "cpu"); ties: the lowest id.  Like `task_order` it can also be a
        function of a module, or its name ``"module:function"``; see `gridsim.schedulers.wqr.selections`.
    max_replicas
        Copies of a task that may run at a time; 1 allows only the first.
    exclude
        Machines slower than the mean speed of all by more than so many standard deviations get no task
        (resource exclusion by a fixed threshold, Kondo et al. 2004); None: all machines get tasks.
    checkpoint_interval
        s of computing between two checkpoints; ``"young"``: sqrt(2 * checkpoint_cost * mean up time) (J. W.
        Young, CACM 1974), or no checkpoints where machines do not fail; inf: no checkpoints.
    checkpoint_cost, restore_cost
        s that it takes to write a checkpoint, and to resume from one.
    checkpoint_store
        ``"server"``: a copy resumes from the newest checkpoint of any copy of its task; ``"local"``: a
        machine keeps the checkpoint of the last task that it lost, no other machine can read it, and the
        residual work of a task counts as its whole size.
    predictor
        How the time that a machine stays up is predicted: ``"exact"`` (as in the paper), ``"past"`` (the mean
        of the machine's up times so far that were longer than its age, among the last 32), ``"age"`` (as long
        again as it has been up).  Predictions are made when a machine comes up; those by "past" and "age"
        also whenever it becomes free, and at each release.
    prediction_error
        Standard deviation of the logarithm of a factor (log-normal, median 1) on the up time that "exact"
        predicts.  It is drawn for each up time; all policies of a comparison meet the same errors.
    as_printed
        Follow Figures 1 to 4 to the letter in machine choices: machine 0 is considered even where it is not
        free, so that tasks wait for it, and "all" does not fall back on "cpu".
    """

    name: ClassVar[str] = "WQR-FT"
    decentralized: ClassVar[bool] = False
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    owners: ClassVar[bool] = True
    unequal: ClassVar[bool] = True
    fluctuating: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {
        "started": "mentions",
        "restarted": "mentions",
        "replicated": "mentions",
    }

    bag_order: Literal["fcfs-share", "fcfs-excl", "rr", "rr-nrf", "longidle"] = "fcfs-share"
    task_order: Any = "random"  # str | TaskOrder; a function is replaced by its name
    machine_choice: Any = "none"  # str | MachineChoice
    max_replicas: Annotated[int, Limits(low=1, high=MOST_REPLICAS)] = 2
    exclude: Annotated[float, Limits(low=0)] | None = None
    checkpoint_interval: float | Literal["young"] = "young"
    checkpoint_cost: Annotated[float, Limits(low=0, high=LONGEST, unit="s")] = 10.0
    restore_cost: Annotated[float, Limits(low=0, high=LONGEST, unit="s")] = 10.0
    checkpoint_store: Literal["server", "local"] = "server"
    predictor: Literal["exact", "past", "age"] = "exact"
    prediction_error: Annotated[float, Limits(low=0, high=MOST_ERROR)] = 0.0
    as_printed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()

        def path(name: str) -> str:
            return f"{self.name}.{name}"

        interval = self.checkpoint_interval
        if isinstance(interval, str):
            if interval != "young":
                raise ScenarioError(f'{path("checkpoint_interval")} must be s or "young", got {interval!r}')
            interval = "young"
        else:
            interval = real(path("checkpoint_interval"), interval, low=1e-9, unit="s", finite=False)
        error = self.prediction_error
        if error and self.predictor != "exact":
            raise ScenarioError(f'{path("prediction_error")} must be 0 but for "exact", got {error!r}')
        normalise(
            self,
            task_order=_named(path("task_order"), self.task_order, ORDERS),
            machine_choice=_named(path("machine_choice"), self.machine_choice, CHOICES),
            checkpoint_interval=interval,
        )
        if self.as_printed and (self.machine_choice not in CHOICES or self.exclude is not None):
            raise ScenarioError(
                f"{path('as_printed')} must be false with a machine_choice that has no figure, or exclude"
            )

    @property
    def order(self) -> None:
        """Promise no order; see `gridsim.scheduling.contract.Scheduler`.

        Tasks of an application may overtake replicas of an earlier one, or by some `bag_order` its tasks.
        """
        return None

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """See `gridsim.scheduling.contract.Scheduler`: failures, if it asks for exact predictions."""
        asks = self.predictor == "exact" and self.machine_choice not in ("none", "cpu")
        return ("failures",) if asks else ()

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        return Interpreted(self, run) if run.nodes == "interpreted" else Compiled(self, run)

    def min_speed(self, speeds: Floats) -> float:
        """Return the speed (Mflop/s) below which machines get no task; the fastest of `speeds` always do."""
        if self.exclude is None:
            return 0.0
        mean = math.fsum(speeds.tolist()) / len(speeds)
        deviation = math.sqrt(math.fsum(((speeds - mean) ** 2).tolist()) / len(speeds))
        return min(mean - self.exclude * deviation, float(speeds.max()))

    @property
    def migrates(self) -> bool:
        """Whether a copy may go on from a checkpoint that a copy on another machine has written."""
        return self.checkpoint_store == "server" and self.checkpoint_interval != math.inf

    def interval(self, mean_up_time: float) -> int:
        """Return the ns of computing between two checkpoints for a `mean_up_time` in s; 0 for no checkpoints.

        Raises ScenarioError where Young's formula gives no interval, at a `checkpoint_cost` of 0.
        """
        seconds = self.checkpoint_interval
        if seconds == "young":
            if not self.checkpoint_cost:
                raise ScenarioError(
                    f'{self.name}.checkpoint_cost must be above 0 s for an interval by "young", got 0'
                )
            seconds = math.sqrt(2 * self.checkpoint_cost * mean_up_time)
        assert not isinstance(seconds, str)
        return max(1, nanoseconds(seconds)) if seconds <= LONGEST else 0


def _named(path: str, value: Any, known: tuple[str, ...]) -> str:
    """Return the name of a selection, or ``"module:function"`` of a function; else raise ScenarioError."""
    if isinstance(value, str) and (value in known or all(value.partition(":"))):
        return str(value)
    if callable(value):
        name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', repr(value))}"
        try:
            found = function_named(path, name)
        except ScenarioError:
            found = None
        if found is value:
            return name
        raise ScenarioError(
            f"{path} must be a function that can be imported as module:function, so that the run can be "
            f"repeated, got {name}"
        )
    raise ScenarioError(f"{path} must be one of {known}, a function or module:function, got {value!r}")


class Compiled(Policy):
    """Runs `WqrFt` in a compiled kernel, a source of the engine, which runs between releases."""

    takes_blocks: ClassVar[bool] = True
    STATE: ClassVar[tuple[str, ...]] = ("queue", "order_chance", "predictions", "notes")

    def __init__(self, parameters: WqrFt, run: Run) -> None:
        self.run, self.parameters = run, parameters
        applications, feed = run.applications, run.feed
        self.offsets, self.sizes = applications.offsets, applications.sizes()
        self.order_chance = run.streams("wqr.order")
        self.predictions = Predictions(parameters.prediction_error, run.streams("wqr.prediction"))
        mean_up_time = math.inf if feed is None else feed.mean_up_time
        self.rules = rules = Rules.of(parameters, run.speeds, mean_up_time)
        machines, pace = len(run.speeds), {}
        if run.load_profile is not None:
            pace = {
                name: getattr(run.load_profile, name)
                for name in ("period", "phase", "factors", "series", "first")
            }
        never = np.full(machines, NEVER, np.int64)
        self.notes: QueueNotes | None = None
        if run.decisions is not None:
            self.notes = QueueNotes(run.decisions, never if feed is None else feed.first)
        first = never if feed is None else self.predictions.of(0, feed.first)
        self.queue = WorkQueue(
            run.speeds,
            applications.tasks,
            self.sizes,
            first,
            bag_order=rules.bag_order,
            order="ask" if callable(rules.order) else rules.order,
            choice="ask" if callable(rules.choice) else rules.choice,
            max_replicas=rules.max_replicas,
            min_speed=rules.min_speed,
            interval=rules.interval,
            checkpoint=rules.checkpoint,
            restore=rules.restore,
            local=rules.local,
            printed=rules.as_printed,
            prediction={"exact": "told"}.get(rules.predictor, rules.predictor),
            faults=feed is not None,
            seed=int(run.streams("wqr.replicas").integers(2**63)),
            log=run.record,
            step=self.notes is not None,
            **pace,
        )
        run.engine.add_source(self)

    # -- events -----------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Run everything due before now, then submit the tasks of `applications`."""
        self._advance(self.run.engine.now)
        for i in applications:
            sizes = self.sizes[self.offsets[i] : self.offsets[i + 1]]
            self.queue.submit(i, sequence(self.rules.order, sizes, self.order_chance))

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: the run ends with the last task, or if no machine is ever up again."""
        return self.queue.now if self._advance(limit) in ("done", "over") else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        engine.stop()

    def _advance(self, until: int) -> str:
        """Run what is due before `until` ns; return why the kernel stopped: "reached", "done" or "over"."""
        while True:
            try:
                why = self.queue.run(until)
            except OverflowError as error:
                raise too_long(self.parameters, self.rules) from error
            if why == "blocks":
                self._feed()
            elif why == "decide":
                self._decide()
            else:
                return why

    def _feed(self) -> None:
        feed = self.run.feed
        assert feed is not None
        block = feed.take()
        if block is None:
            none = np.zeros(0, np.int64)
            self.queue.feed(none, none, none.astype(np.bool_), none)
        else:
            if self.notes is not None:
                self.notes.feed(block)
            self.queue.feed(block.time, block.machine, block.up, self.predictions.of(block.time, block.until))

    # -- decisions one by one, for functions of the user or to record them --------------------------------

    def _decide(self) -> None:
        queue, now, order, choice = self.queue, self.queue.now, self.rules.order, self.rules.choice
        if not callable(order):
            application, task = queue.pick_task()
        else:
            application, numbers, residual = queue.candidates()
            task = asked_task(order, numbers, residual, application, now, self.order_chance)
        if not callable(choice):
            machine = queue.pick_machine(application, task)
        else:
            free, until = queue.idle_machines()
            lasts = queue.lasts(application, task, free)
            machine = asked_machine(choice, now, free, self.run.speeds[free], until, lasts)
        if self.notes is not None:
            self.notes.decided(queue, application, task, machine)
        if machine < 0:
            queue.wait()
            return
        try:
            queue.assign(application, task, machine)
        except OverflowError as error:
            raise too_long(self.parameters, self.rules) from error

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Return the outcome; raise ScenarioError if with `as_printed` tasks wait for machine 0 for ever."""
        check_waiting(self.parameters.name, self.run, self.rules, self.queue.left)
        return outcome(self.run, self.rules, self.queue.totals(), self.queue.copies())
