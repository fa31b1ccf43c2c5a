"""The contract between the simulator and a scheduler.

A `Scheduler` is a frozen set of parameters.  Its method `start` makes the `Policy` that holds its state
during a run.  The policy registers the messages and timers that it needs with the engine and network of the
run, handles cohorts of them as arrays, and reports an `Outcome` at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gridsim.engine.engine import Engine
from gridsim.engine.transport import Transport
from gridsim.errors import SchedulerError
from gridsim.model.applications import Applications, JobTime
from gridsim.model.attributes import Attributes
from gridsim.model.background_load import LoadProfile
from gridsim.model.fault_events import Events
from gridsim.model.time_zones import Zones
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.support.arrays import Floats, Integers
from gridsim.support.docstrings import first_paragraph
from gridsim.support.parameters import CheckedStruct
from gridsim.support.random_streams import Streams
from gridsim.support.state import Stateful

if TYPE_CHECKING:
    from gridcore.queues.task_queues import TaskQueues


#: Priority of the timer that makes machines fail.  All other events of the instant come first, except timers
#: with a higher number, which see the failures.  So a timer of a node that is due at the instant at which its
#: machine fails still fires; its messages leave after the failure, and are lost if the machine is then down.
FAULT_PRIORITY = 4000

#: The orders of execution that a scheduler may promise as `Scheduler.promised_order`.
Order = Literal["fifo", "fcfs", "edf", "list", "easy", None]

#: The ways to run the nodes of a decentralized scheduler (`Scheduler.node_forms`).
NodeForm = Literal["python", "interpreted", "compiled"]

#: The parts of the future that a scheduler may know, which `Scheduler.foresees` lists.
Foreseen = Literal["applications", "failures", "run times"]

#: What the number of tasks of a decision can mean, as `Scheduler.decision_verbs` declares.
DecisionVerb = Literal["gives", "keeps", "mentions"]

#: Columns of `Outcome.schedule`.
SCHEDULE = ("machine", "application", "tasks", "start", "end", "completed")
#: Additional columns of `Outcome.schedule` if tasks may have several copies.
COPIES = ("task", "begin")
#: Columns of `Outcome.arrivals`.
ARRIVALS = ("machine", "application", "tasks", "time")
#: Columns of `Outcome.cycles`.
CYCLES = ("useful", "redundant", "lost", "overhead", "slowed")


class TaskCost(NamedTuple):
    """Lower bounds of what a run costs per task, if a scheduler handles each task on its own.

    Parameters
    ----------
    memory
        Memory of a task that is submitted and not yet completed, bytes.
    time
        Wall-clock time per task, s.
    """

    memory: int = 0
    time: float = 0.0


class FailureFeed(Protocol):
    """The failures and recoveries of machines, for a policy that has to know when they fail next.

    A policy with `Policy.takes_blocks` takes them in blocks.  It must apply each change when `on_faults`
    would have been called: after everything else at that instant except the starts of tasks.  It must also
    call ``run.engine.stop()`` when no machine is up and there are no more blocks.  Changes at the instant at
    which the policy stops the run count only if it calls `take` after them.  Other policies read `changes`
    when `on_faults` is called.

    Attributes
    ----------
    first
        int64[machines], the time of each machine's first failure, ns: 0 if it is down from the beginning,
        NEVER if it never fails.
    changes
        The changes with which `Policy.on_faults` was called last, in their order.
    """

    first: Integers
    changes: Events

    @property
    def mean_up_time(self) -> float:
        """The approximate mean time that a machine is up, s."""

    def take(self) -> Events | None:
        """Return the next block, which is never empty; None if there are no more.

        The policy must have applied all changes of the previous block before it calls this method.
        """


@dataclass(slots=True)
class ProcessShare:
    """The share of one process in a run that several processes compute together.

    Parameters
    ----------
    rank, ranks
        The number of this process, and the number of processes.
    memory
        uint8[bytes], memory that all processes share; they exchange messages in it
        (`gridcore.network.exchange`).
    watch
        Function that raises an error if another process has ended; a process calls it while it waits.
    gather
        Function that returns the partial outcomes of the other processes (`Policy.partial_outcome`), in order
        of rank; only for process 0.
    leave
        Function that detaches this process from the shared memory; None if there is nothing to detach.
    """

    rank: int
    ranks: int
    memory: NDArray[np.uint8]
    watch: Callable[[], None]
    gather: Callable[[], list[Any]]
    leave: Callable[[], None] | None = None

    def end(self) -> None:
        """Detach this process from the shared memory."""
        self.memory = np.zeros(0, np.uint8)
        if self.leave is not None:
            self.leave()


@dataclass(slots=True)
class Run:
    """The run of a policy: its engine, network, platform, workload and options.

    Parameters
    ----------
    engine
        The event engine, with the simulated time.
    network
        The transport of messages between machines.
    speeds
        float64[machines], the speed of each machine, Mflop/s.  A decentralized policy passes each machine
        only its own speed.
    applications
        The applications that are submitted.
    streams
        The random streams of the run, by name.
    up
        bool[machines], which machines are up; read-only.  The simulator updates it as machines fail and
        recover.
    faults
        Whether machines may fail in this run.
    record
        Whether the policy must report its schedule (`Outcome.schedule`, `Outcome.arrivals`).
    decisions
        The log in which the policy records its decisions; None if they are not recorded.  The result of the
        run must not depend on it.
    threads
        The number of threads that a kernel may use; the result does not depend on it.
    nodes
        How to run the nodes, one of `Scheduler.node_forms`; None for the first of them.  The result does not
        depend on it.
    feed
        The failures, for a policy that takes blocks or foresees them; None if machines do not fail.
    load_profile
        The share of its speed that each machine has at each time; None if all run at full speed.
    zones
        The time zones of the machines, for day and night; None if the faults do not define them.
    share
        The share of this process if several processes compute the run, for a scheduler that `shares`; else
        None.
    attributes
        Memory, disk, kind and place of each machine; None if machines have none.
        `Applications.machines_for` returns the machines that suit an application.
    bandwidth
        float64[machines], the bandwidth of each machine's link to the data of tasks, bytes/s; None if tasks
        move no data.
    cores
        int64[machines], the number of cores of each machine, each of which runs one task at a time; None if
        each machine has one.
    gpus
        int64[machines], the number of GPUs of each machine; None if none has any.
    platform_machine
        int64[machines], the machine of the platform to which each belongs, if the machines of the run are
        cores; else None.
    releases
        The releases, some of which follow the ends of other applications; None if each is known.  The policy
        must call ``run.releases.end(applications, now)`` when `applications` end, at that instant, unless its
        kernel does so.  A release in `applications` is final once it has happened.
    core, queues
        Factories that replace `gridcore.nodes.message_core.NodeCore` and
        `gridcore.queues.task_queues.TaskQueues` if node programs do not run in simulated time; `core` also in
        the form ``"python"``.
    observations, recorder
        The observation and the diary of nodes, which a policy with node programs attaches to itself; None
        if there is none.  The result does not depend on them.
    patience
        The least number of events without a queued or running task after which a scheduler of tasks may be
        taken for endless.
    """

    engine: Engine
    network: Transport
    speeds: Floats
    applications: Applications
    streams: Streams
    up: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    faults: bool = False
    record: bool = False
    decisions: Decisions | None = None
    threads: int = 1
    nodes: NodeForm | None = None
    feed: FailureFeed | None = None
    load_profile: LoadProfile | None = None
    zones: Zones | None = None
    share: ProcessShare | None = None
    attributes: Attributes | None = None
    bandwidth: Floats | None = None
    cores: Integers | None = None
    gpus: Integers | None = None
    platform_machine: Integers | None = None
    releases: Any = None  # a `gridcore.ReleaseQueue`
    core: Callable[..., Any] | None = None
    queues: Callable[..., Any] | None = None
    observations: Any = None
    recorder: Any = None
    patience: int = 0

    @property
    def watchers(self) -> list[Any]:
        """The observation and the diary of nodes, if there are any."""
        return [watcher for watcher in (self.observations, self.recorder) if watcher is not None]

    def __post_init__(self) -> None:
        if not len(self.up):
            self.up = np.ones(len(self.speeds), np.bool_)


@dataclass(slots=True)
class Outcome:
    """The outcome of a run, which a policy reports at its end.

    All arrays are int64 unless stated otherwise.  Times are ns; -1 stands for "never".  A copy is one
    execution of a task on one machine.

    Parameters
    ----------
    applications
        Columns with a row per application: ``first_start``, ``finish``, ``completed`` (tasks),
        ``resubmitted`` (tasks), ``nodes_used``.  Further columns are optional, such as ``level`` (at which
        the request was accepted).  For rigid jobs also ``failed`` (whether the job was rejected) and, if
        users cancel jobs, ``cancelled`` (whether the user cancelled the job).  A cancelled job counts as
        rejected, except for the time for which it ran.  A rejected job has no completed tasks, no start and
        no finish.
    machines
        Columns with a row per machine: ``busy`` (ns), ``tasks`` (completed), ``peak_queue`` (tasks waiting).
        Optionally ``interrupted``: tasks that ran when the machine failed, or when their rigid job ended
        because another of its machines failed or its user cancelled it.  If tasks may have several copies,
        also ``ended``: copies stopped because another was faster.
    cycles
        The use of the machines' busy time, float64 Mflop per application, if a task may be executed in part
        or more than once: ``useful`` (the size of completed tasks), ``redundant`` (done by copies when
        another one was faster, or saved and not used), ``lost`` (done since the newest checkpoint of a copy
        that failed), ``overhead`` (writing and reading checkpoints), ``slowed`` (taken by background load
        while the application ran).
    tables
        Further tables, each a mapping of columns of equal length.
    facts
        Scalars that belong in every result of this scheduler; they must be JSON values.
    schedule
        The executions of tasks, if they are recorded: ``machine``, ``application``, ``tasks`` (that ran one
        after another without a pause), ``start``, ``end`` (ns), ``completed`` (equal to ``tasks``, or 0 for a
        task that a failure interrupted at ``end``).  `TaskQueues.schedule` returns it.  If tasks may have
        several copies, also ``task`` (its number within the application) and ``begin`` (float64, Mflop of the
        task that were done before); a copy counts as not completed if another one was faster.
    arrivals
        The tasks that arrived in the queues of machines, if machines have queues: ``machine``,
        ``application``, ``tasks``, ``time`` (ns), in order.  Negative ``tasks`` were withdrawn from the
        queue, which no scheduler with the order "fcfs" may do.  `TaskQueues.arrivals` returns it.
    run_times
        The time for which each rigid job ran on its machines, ns, if jobs may be killed; a job that is killed
        counts as completed.  None if each job runs to its end.
    """

    applications: dict[str, Integers]
    machines: dict[str, Integers]
    tables: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    cycles: dict[str, Floats] = field(default_factory=dict)
    schedule: dict[str, NDArray[Any]] = field(default_factory=dict)
    arrivals: dict[str, Integers] = field(default_factory=dict)
    run_times: Integers | None = None

    @classmethod
    def of(cls, queues: TaskQueues, resubmitted: Integers | None = None, **facts: Any) -> Outcome:
        """Return the outcome of a run in which all tasks went through `queues`.

        Parameters
        ----------
        queues
            The task queues of the machines.
        resubmitted
            int64[applications], tasks submitted again; None for 0 of each.
        **facts
            Scalars that belong in every result of the scheduler.
        """
        totals = queues.totals()
        resubmissions = np.zeros_like(totals["finish"]) if resubmitted is None else resubmitted
        applications = ("first_start", "finish", "completed", "nodes_used")
        return cls(
            applications={**{name: totals[name] for name in applications}, "resubmitted": resubmissions},
            machines={name: totals[name] for name in ("busy", "tasks", "interrupted", "peak_queue")},
            facts=facts,
            schedule=queues.schedule(),
            arrivals=queues.arrivals(),
        )


class Policy(Stateful, ABC):
    """The state and the event handlers of a scheduler during one run.

    The run ends when no event is pending or the policy calls ``run.engine.stop()``.  A policy may call it
    after the last release, once no later event can change the outcome.  Messages of the current wave are
    still sent and counted.

    `STATE` names the attributes that change during the run; it is needed for checkpoints.  The attributes may
    be kernels and other objects with ``getstate`` and ``setstate``, numbers, text, arrays, generators, and
    lists, tuples and dicts of such values.
    """

    #: Whether the policy takes failures in blocks from `Run.feed`, so that `on_faults` is not called.  Such a
    #: policy must be a source of the engine, because machines fail between the engine's instants.  It must
    #: not send messages, unless machines that are down can be reached (`Scheduler.owners`), because the
    #: network does not learn of failures.  `Run.up` changes only when
    #: the policy calls ``run.feed.take()``: by all changes of the block that it has processed.
    takes_blocks: ClassVar[bool] = False

    #: The form in which it runs the program of its nodes; None if it calls no node program.
    node_form: NodeForm | None = None

    #: Whether the policy itself reads releases from ``run.applications``, so that `on_release` is not called.
    #: Such a policy must be a source of the engine, unless all of its events can be handled in `finish`.
    takes_releases: bool = False

    @abstractmethod
    def on_release(self, applications: list[int]) -> None:
        """Handle the release of `applications` (sorted indices) now.

        It is not called if the policy `takes_releases`.
        """

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Handle failures and recoveries of machines.

        The network has dropped the messages addressed to the failed machines.  The work of these machines is
        lost, and the policy must assign it again.  A run with faults continues until the policy calls
        ``run.engine.stop()``.  This method is not called if the policy `takes_blocks`.

        Parameters
        ----------
        failed
            The machines that fail now, ascending.  In the first call, at time 0 and before anything else,
            these are the machines that join later.
        recovered
            The machines that are up again now, ascending; they may include machines of `failed`.
        """
        raise SchedulerError(f"{type(self).__name__} does not support failures: it must define on_faults")

    def unfinished(self) -> Integers | None:
        """Return the applications that have not ended yet, ascending; None if they are not known."""
        return None

    def unplaced(self) -> str:
        """Return a text on which node holds tasks that are in no queue; "" if that is not known.

        The text is part of the error for a run that does not end, or that ends without these tasks.
        """
        return ""

    def explain(self, error: BaseException) -> None:
        """Add a note to an error of the run, such as the time and the node at which it was raised."""

    def activity(self) -> dict[str, int]:
        """Return the number of events so far by sort, in words, for the progress display; {} if unknown."""
        return {}

    def partial_outcome(self) -> Any:
        """Return the data that process 0 needs for `finish`, if several processes share the run."""
        raise SchedulerError(
            f"{type(self).__name__} does not support shared runs: it must define partial_outcome"
        )

    @abstractmethod
    def finish(self) -> Outcome:
        """Finish the work that is assigned but not yet done, and return the outcome."""


#: Name and text of the step of a ladder in which messages take time.
MESSAGES_TAKE_TIME = "messages take time", "latency, bandwidth and interfaces of the scenario"


class LadderStep(NamedTuple):
    """A step of `gridsim.ladder` as a scheduler declares it, on machines that do not fail.

    Parameters
    ----------
    name, adds
        Its name, and in words what is different from the step before.
    scheduler
        The scheduler with the parameters of this step, or the registered name of another one.
    is_free
        Whether messages take no time.
    is_beside
        Whether it is not a step, but run with failures to compare the last step with it.
    """

    name: str
    adds: str
    scheduler: Scheduler | str
    is_free: bool = False
    is_beside: bool = False


class Scheduler(CheckedStruct, frozen=True, kw_only=True):
    """Base class of schedulers: a frozen set of parameters.

    A subclass adds its parameters as annotated fields, a `name`, and the method `start`.  Values are checked
    against the annotations (`gridsim.support.parameters.Limits`, literals and bools).  A subclass that
    defines ``__post_init__`` must call the inherited one first.

    Raises
    ------
    ScenarioError
        If a value does not fit its annotation.
    """

    #: The name of the scheduler on the command line and in result tables.
    name: ClassVar[str] = "scheduler"
    #: Whether its nodes decide on their own; False if it reads the state of the whole grid.
    decentralized: ClassVar[bool] = False
    #: Whether the nodes of a decentralized scheduler know each other's speeds when the run begins.
    speeds_known: ClassVar[bool] = False
    #: Whether the nodes of a decentralized scheduler know at once which others are up.
    failures_known: ClassVar[bool] = False
    #: Whether its nodes use the numbers of applications or tasks, for example to choose a machine by a hash.
    numbers_known: ClassVar[bool] = False
    #: Whether it schedules rigid jobs, whose tasks all start together; False for bags of tasks.
    rigid: ClassVar[bool] = False
    #: Whether it can schedule applications whose tasks differ in size.
    unequal: ClassVar[bool] = False
    #: Whether it supports jobs and tasks that require certain machines (`Applications.machines_for`).
    constraints: ClassVar[bool] = False
    #: How it runs bags on machines with several cores.  ``"separate"``: each core is a machine in its `Run`,
    #: of the same speed, fate and network interface as the others of its machine, and with nodes of its own;
    #: True: a machine has one queue, of which each core runs a task (`Run.cores`); False: it does not.
    cores: ClassVar[bool | Literal["separate"]] = "separate"
    #: Whether tasks wait until the memory of a machine with one queue for its cores suffices for them.
    shares_memory: ClassVar[bool] = False
    #: Whether it supports applications that are released after others have ended (`Run.releases`).
    dependencies: ClassVar[bool] = False
    #: The columns of `gridsim.model.applications.JOB_TIMES` that it supports in rigid jobs.
    job_times: ClassVar[tuple[JobTime, ...]] = ()
    #: Whether it may reject rigid jobs without deadlines even if there are enough machines.
    may_reject: ClassVar[bool] = False
    #: Whether it supports background load on the machines (`Run.load_profile`).  It must then report
    #: `Outcome.cycles`, since tasks do not account for all of the machines' busy time.
    fluctuating: ClassVar[bool] = False
    #: Whether it supports failures of machines.
    failures: ClassVar[bool] = True
    #: What each task costs at least, from which memory and time are estimated before a run.  By default it is
    #: nothing, since most schedulers count the equal tasks of an application.
    task_cost: ClassVar[TaskCost] = TaskCost()
    #: Whether several processes can share a run (`Run.share`).
    shares: ClassVar[bool] = False
    #: Whether it supports machines that remain reachable while their owners use them (`Faults` with
    #: ``reachable``).  Its policy must then take blocks (`Policy.takes_blocks`), or send no messages to
    #: machines that are down.
    owners: ClassVar[bool] = False
    #: The ways in which `start` can run its nodes (`Run.nodes`), the default first; the result is the same.
    #: ``"interpreted"``: as a node program, with a Python method for each event of a node.
    #: ``"compiled"``: as any other policy, such as a compiled protocol.
    #: Schedulers with ``"interpreted"`` also run in the form ``"python"``, which is not listed: the simulator
    #: replaces it by ``"interpreted"`` with the readable core as `Run.core`, which calls the node program.
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled",)
    #: The decisions that it records in `Run.decisions`: action -> (sentence, quantity, unit).  The sentence
    #: follows the name of the node that decided, unless it has the column ``decider`` itself, and may have
    #: columns of the table ``decisions`` in braces.
    #: The columns ``saw``, ``limit`` and ``true`` have the quantity in that unit.
    decision_words: ClassVar[DecisionTexts] = {}
    #: Action -> verb, which tells what its number of tasks means.  ``"gives"``: these tasks go to the
    #: machine, and must arrive there.  ``"keeps"``: the deciding machine queues these tasks.  ``"mentions"``:
    #: the number counts something else, such as machines or all waiting tasks.  Actions without a verb, such
    #: as requests, are about these tasks but do not move them.
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {}

    def _path(self) -> str:
        return self.name

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, for lists and reports: by default the first of its docstring."""
        return first_paragraph(type(self)).partition("  ")[0]

    @property
    def is_baseline(self) -> bool:
        """Whether this scheduler is the default baseline of comparisons."""
        return False

    @property
    def migrates(self) -> bool:
        """Whether a task that has started may continue on another machine without losing its progress.

        If so, lower bounds of results take migration into account.
        """
        return False

    @property
    def informed_by_messages(self) -> bool:
        """Whether a machine learns about others only by messages.

        This should hold for every decentralized scheduler.  It may be False for the scheduler of a paper
        that assumes more knowledge.
        """
        return self.decentralized

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The parts of the future that the scheduler knows by design; none if it is usable in practice.

        ``"applications"``: what will be submitted.  ``"failures"``: which machines will fail and recover.
        ``"run times"``: how long rigid jobs will run, instead of users' estimates.  Knowledge of platform
        and workload before the run, which `explicit` turns into parameters, does not count.
        """
        return ()

    @property
    def moves_data(self) -> bool:
        """Whether the scheduler supports tasks that transfer data over links (`Run.bandwidth`)."""
        return False

    @property
    def promised_order(self) -> Order:
        """The order in which the scheduler promises to run tasks while no machine fails; None for no promise.

        ``"fifo"``: a machine runs applications in the order of their first arrival there.  ``"fcfs"``: a
        machine runs tasks in the order of their arrival.  ``"edf"``: a machine runs tasks by their deadlines
        at its own minimum stretch, which it recomputes whenever tasks arrive or are withdrawn.  ``"list"``:
        no task starts before one of an earlier application.  ``"easy"``: no rigid job starts before an
        earlier one if it delays the first job that waits, by the estimates of the running jobs: the requested
        times, or the run times if it foresees them.  With both, the first rigid job that waits starts as soon
        as enough machines are free.
        """
        return None

    def ladder_steps(self) -> Sequence[LadderStep]:
        """Return the steps of `gridsim.ladder` from a center that knows everything down to this scheduler.

        Each step has one more restriction.  By default these are the nodes of a decentralized scheduler, and
        the time of their messages.
        """
        if not self.decentralized:
            return ()
        free = LadderStep("free messages", "nodes decide, and messages take no time", self, is_free=True)
        return free, LadderStep(*MESSAGES_TAKE_TIME, self)

    def explicit(self, speeds: Floats, applications: Applications) -> Scheduler:
        """Return this scheduler with explicit values of the parameters that depend on platform and workload.

        They are derived from the whole grid before the run.  A decentralized scheduler may have no other
        knowledge about machines without a message.
        """
        return self

    def start(self, run: Run) -> Policy:
        """Make the policy for `run`; every scheduler must define this method."""
        raise NotImplementedError(f"{type(self).__name__} must define start(run)")
