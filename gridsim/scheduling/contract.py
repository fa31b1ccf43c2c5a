"""The contract between the simulator and a scheduler.

A scheduler is a frozen set of parameters (`Scheduler`).  Its state during a run lives in the `Policy` that
its `start` makes.  The policy registers the messages and timers that it needs with the engine and network of
the run, gets cohorts of them as arrays, and reports an `Outcome` at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

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
from gridsim.support.parameters import CheckedStruct
from gridsim.support.random_streams import Streams
from gridsim.support.state import Stateful

if TYPE_CHECKING:
    from gridcore.queues.task_queues import TaskQueues


#: Priority of the timer that makes machines fail.  All else that is due at the same instant happens before
#: it; only timers with a higher number run after it and see which machines have failed.
FAULT_PRIORITY = 4000

#: The orders of execution that a scheduler may promise; see `Scheduler.order`.
Order = Literal["fifo", "fcfs", "edf", "list", None]

#: How the nodes of a decentralized scheduler are run, see `Scheduler.node_forms`.
NodeForm = Literal["interpreted", "compiled"]

#: What a scheduler may know of the future, see `Scheduler.foresees`.
Foreseen = Literal["applications", "failures", "run times"]

#: Columns of `Outcome.schedule`.
SCHEDULE = ("machine", "application", "tasks", "start", "end", "completed")
#: Further columns of `Outcome.schedule`, where tasks may have several copies.
COPIES = ("task", "begin")
#: Columns of `Outcome.arrivals`.
ARRIVALS = ("machine", "application", "tasks", "time")
#: Columns of `Outcome.cycles`.
CYCLES = ("useful", "redundant", "lost", "overhead", "slowed")


class FailureFeed(Protocol):
    """The failures and recoveries of machines in blocks, for a policy with `Policy.takes_blocks`.

    The policy applies each change where `on_faults` would have been called: after everything else at that
    instant except the starts of tasks.  When no machine is up and there are no more blocks, it must call
    ``run.engine.stop()``, too.  Changes at the instant at which the policy stops the run count only if it has
    called `take` after them.

    Attributes
    ----------
    first
        int64[machines], ns, when each fails for the first time: 0 if it is down from the beginning, NEVER if
        it never fails.
    """

    first: Integers

    @property
    def mean_up_time(self) -> float:
        """About how long a machine is up on average, s; see `gridsim.model.faults.Faults.mean_up_time`."""

    def take(self) -> Events | None:
        """Return the next block, which is never empty; None if there are no more.

        The policy must have applied all changes of the previous block: from this call on they count as
        having happened.
        """


@dataclass(slots=True)
class ProcessShare:
    """The part that this process has in a run that several share, see `gridcore.network.exchange`.

    Parameters
    ----------
    rank, ranks
        The number of this process, and how many there are.
    memory
        uint8[bytes], which all of them share.
    watch
        Raises if another process has ended; to be called while this one waits.
    gather
        Returns what the other processes report (`Policy.part`), in order; for process 0.
    """

    rank: int
    ranks: int
    memory: NDArray[np.uint8]
    watch: Callable[[], None]
    gather: Callable[[], list[Any]]
    leave: Callable[[], None] | None = None

    def end(self) -> None:
        """Let go of the memory."""
        self.memory = np.zeros(0, np.uint8)
        if self.leave is not None:
            self.leave()


@dataclass(slots=True)
class Run:
    """What a policy may use while it runs.

    Parameters
    ----------
    speeds
        Mflop/s of each machine.  A decentralized policy hands each machine only its own.
    up
        bool[machines], which machines are up.  It changes as machines fail and recover; it is read-only.
    faults
        Whether machines may fail in this run.
    feed
        The failures in blocks, only for a policy that takes blocks; None if machines do not fail.
    load_profile
        The share of its speed that each machine has at each time; None if all run at full speed.
    bandwidth
        Bytes/s of the link of each machine to the data of tasks; None if no task moves data over one.
    zones
        The time zones of the machines, for day and night; None if the faults do not define them.
    share
        The part of this process, where several share the run; only for a scheduler that `shares`.
    attributes
        Memory, disk, kind and place of each machine; None if machines have none.  Which machines suit an
        application, `Applications.machines_for` says.
    core, queues
        What stands for `gridcore.nodes.message_core.NodeCore` and `gridcore.queues.task_queues.TaskQueues`
        where node programs do not run in simulated time.
    record
        Whether the policy is to report its schedule (`Outcome.schedule`, `Outcome.arrivals`).
    decisions
        The log in which the policy is to note its decisions; None if they are not recorded.  The result of
        the run must not depend on it.
    threads
        The number of threads that a kernel may use; the result does not depend on it.
    nodes
        How to run the nodes, one of the scheduler's `Scheduler.node_forms`, or None for its default; the
        result does not depend on it.
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
    core: Callable[..., Any] | None = None
    queues: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not len(self.up):
            self.up = np.ones(len(self.speeds), np.bool_)


@dataclass(slots=True)
class Outcome:
    """What a policy reports when the run is over.  All arrays are int64 unless stated otherwise.

    Times are ns; -1 stands for "never".  A copy is one execution of a task on one machine.

    Parameters
    ----------
    applications
        ``first_start``, ``finish``, ``completed`` (tasks), ``resubmitted`` (tasks), ``nodes_used``, and
        optionally further columns, such as ``level`` (at which the request was accepted). For rigid jobs also
        ``failed``: whether the job was rejected; and where users cancel jobs, ``cancelled``: whether its user
        did.  A cancelled one counts as rejected in what follows, apart from the time for which it has run.
        Nothing of a rejected job is completed, and it has neither start nor finish.
    machines
        ``busy`` (ns), ``tasks`` (completed), ``peak_queue`` (tasks waiting), and optionally ``interrupted``
        (tasks that ran when the machine failed, or when their rigid job was cut off because another machine
        of it failed or its user cancelled it). Where tasks may have several copies also ``ended`` (copies
        stopped because another was faster).
    cycles
        How the machines spent their busy time, float64 Mflop of each application, where tasks may be done in
        part or more than once: ``useful`` (the size of what is completed), ``redundant`` (done by copies when
        another one was faster, or saved and not used), ``lost`` (done since the newest checkpoint of a copy
        that failed), ``overhead`` (writing and reading checkpoints), ``slowed`` (taken meanwhile by
        background load on the machines).
    tables
        Further tables, each a mapping of columns of equal length.
    facts
        Scalars that belong in every result of this scheduler (JSON-able).
    schedule
        What ran where and when, if that is recorded: ``machine``, ``application``, ``tasks`` (that ran one
        after another without a pause), ``start``, ``end`` (ns), ``completed`` (equal to ``tasks``, or 0 for a
        task that a failure cut off at ``end``).  `TaskQueues.schedule` makes it.  Where tasks may have
        several copies also ``task`` (its number within the application) and ``begin`` (float64, Mflop of the
        task that were done before); a copy also counts as not completed if another was faster.
    arrivals
        The tasks that came to the queues of machines, if machines have queues: ``machine``, ``application``,
        ``tasks``, ``time`` (ns), in order.  Negative ``tasks`` are those that were withdrawn from the queue
        again, which no scheduler with the order "fcfs" may do.  `TaskQueues.arrivals` makes it.
    """

    applications: dict[str, Integers]
    machines: dict[str, Integers]
    tables: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    cycles: dict[str, Floats] = field(default_factory=dict)
    schedule: dict[str, NDArray[Any]] = field(default_factory=dict)
    arrivals: dict[str, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, queues: TaskQueues, resubmitted: Integers | None = None, **facts: Any) -> Outcome:
        """Return the outcome of a run in which all tasks went through `queues`.

        Parameters
        ----------
        resubmitted
            int64[applications], tasks submitted again; default: none.
        **facts
            See `Outcome`.
        """
        totals = queues.totals()
        again = np.zeros_like(totals["finish"]) if resubmitted is None else resubmitted
        applications = ("first_start", "finish", "completed", "nodes_used")
        return cls(
            applications={**{name: totals[name] for name in applications}, "resubmitted": again},
            machines={name: totals[name] for name in ("busy", "tasks", "interrupted", "peak_queue")},
            facts=facts,
            schedule=queues.schedule(),
            arrivals=queues.arrivals(),
        )


class Policy(Stateful, ABC):
    """A scheduler during one run.

    The run ends when the engine has nothing left to do or the policy calls ``run.engine.stop()``.  A policy
    may do that after the last release, once no later event can change what it reports.  What has been sent
    in the present wave still leaves, and counts.

    `STATE` names the attributes that change during the run, if the run may be kept in a checkpoint.  They may
    be kernels and other objects with ``getstate`` and ``setstate``, numbers, text, arrays, generators, and
    lists, tuples and dicts of such values.
    """

    #: Whether it takes failures in blocks from `Run.feed`, so that `on_faults` is not called.  Such a policy
    #: must be a source of the engine, because it lets machines fail between the engine's instants.  The
    #: network does not learn of failures and `Run.up` is updated late, so the policy must send no messages,
    #: unless machines that are down can be reached (`Scheduler.owners`).
    takes_blocks: ClassVar[bool] = False

    #: Whether it reads releases from ``run.applications`` itself, so that `on_release` is not called.  Such a
    #: policy must be a source of the engine, unless nothing has to happen before `finish`.
    takes_releases: bool = False

    @abstractmethod
    def on_release(self, applications: list[int]) -> None:
        """Handle `applications` (sorted indices), submitted now.  Not called if it `takes_releases`."""

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Handle the machines `failed` (ascending), which fail now, and `back`, which are up again now.

        A machine may be in both.  The network has dropped the messages addressed to the failed machines.
        Their work is lost, and the policy must have it done again.  A run with faults goes on until the
        policy calls ``run.engine.stop()``.  At time 0, before anything else, `failed` has the machines that
        join later.  Not called if the policy `takes_blocks`.
        """
        raise SchedulerError(f"{type(self).__name__} does not say what it does when machines fail")

    def unfinished(self) -> Integers | None:
        """Return the applications that have not ended yet, ascending; None if it does not know them."""
        return None

    def unplaced(self) -> str:
        """Return who holds tasks that are in no queue, in words; "" if that is not known.

        It is called for the error of a run that does not end, or that ends without these tasks.
        """
        return ""

    def partial_outcome(self) -> Any:
        """Return what process 0 must know for `finish`, where several processes share the run."""
        raise SchedulerError(f"{type(self).__name__} does not say what it does where processes share a run")

    @abstractmethod
    def finish(self) -> Outcome:
        """Carry out what is decided but not yet done, and return the outcome."""


class Scheduler(CheckedStruct, frozen=True, kw_only=True):
    """Parameters of a scheduler.  Subclasses add fields, a `name`, and `start`.

    Values are checked against the declarations of the fields (`gridsim.support.parameters.Limits`, literals
    and bools).  A subclass with a ``__post_init__`` of its own must first call the inherited one.  Raises
    `ScenarioError` naming the parameter and its value.
    """

    #: Its name on the command line and in result tables.
    name: ClassVar[str] = "scheduler"
    #: False if it reads the state of the whole grid, as the baselines do.
    decentralized: ClassVar[bool] = False
    #: Whether the nodes of a decentralized scheduler know each other's speeds when the run begins.
    speeds_known: ClassVar[bool] = False
    #: Whether the nodes of a decentralized scheduler know at once which others are up.
    failures_known: ClassVar[bool] = False
    #: Whether its nodes derive anything from the number of an application or task, as the machine of a hash.
    numbers_known: ClassVar[bool] = False
    #: Whether it schedules rigid jobs, whose tasks all start together; otherwise it schedules bags of tasks.
    rigid: ClassVar[bool] = False
    #: Whether it can schedule applications whose tasks differ in size.
    unequal: ClassVar[bool] = False
    #: Whether it places jobs and tasks that want certain machines (`Applications.machines_for`) on these.
    constraints: ClassVar[bool] = False
    #: The times that rigid jobs may state under it (`gridsim.model.applications.JOB_TIMES`).
    job_times: ClassVar[tuple[JobTime, ...]] = ()
    #: Whether it may reject rigid jobs without a deadline for which there are enough machines.
    may_reject: ClassVar[bool] = False
    #: Whether it supports background load on the machines (`Run.load_profile`).  It must then report
    #: `Outcome.cycles`; otherwise the machines seem busier than their tasks explain.
    fluctuating: ClassVar[bool] = False
    #: Whether it supports failures of machines.
    failures: ClassVar[bool] = True
    #: Whether several processes can share a run (`Run.share`).
    shares: ClassVar[bool] = False
    #: Whether it supports machines whose owners come and go, and that can be reached meanwhile (`Faults` with
    #: ``reachable``).  Its policy must then take blocks (`Policy.takes_blocks`).
    owners: ClassVar[bool] = False
    #: The ways in which `start` can run its nodes (`Run.nodes`), the default first, all with the same result:
    #: ``"interpreted"``, as a node program, which has a Python method for each event of a node;
    #: ``"compiled"``, as any other policy, such as a compiled protocol.
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled",)
    #: The decisions that it notes in `Run.decisions`: action -> (sentence, quantity, unit).  The sentence
    #: follows the name of the node that decided, and may have columns of the table ``decisions`` in braces.
    #: The quantity is what ``saw``, ``limit`` and ``true`` measure.  Empty if it notes nothing.
    decision_words: ClassVar[DecisionTexts] = {}

    def _path(self) -> str:
        return self.name

    @property
    def migrates(self) -> bool:
        """Whether a task that has begun may go on on another machine with what it has done.

        Lower bounds of results allow for it then.
        """
        return False

    @property
    def informed_by_messages(self) -> bool:
        """Whether a machine knows about others only what messages that have arrived can have told it.

        This should hold for every decentralized scheduler.  It may be False for one that follows a paper
        which assumes more.
        """
        return self.decentralized

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """What it knows of the future, by design.

        "applications": what will be submitted; "failures": which machines will fail and recover; "run times":
        how long rigid jobs will run where users state estimates.  Nothing for a scheduler that could be used
        in practice.  What it knows of platform and workload before the run is a matter of `explicit`.
        """
        return ()

    @property
    def moves_data(self) -> bool:
        """Whether it supports tasks that fetch and send data over the links of machines (`Run.bandwidth`)."""
        return False

    @property
    def order(self) -> Order:
        """The order in which the scheduler promises to run tasks while no machine fails.

        "fifo": a machine runs applications in the order in which each first came to it; "fcfs": it runs tasks
        in the order in which they came; "edf": it runs tasks by their deadlines at its own minimum stretch,
        which it computes again whenever tasks come or are withdrawn; "list": no task starts before one of an
        earlier application; None: no promise.
        """
        return None

    def explicit(self, speeds: Floats, applications: Applications) -> Scheduler:
        """Return this scheduler with explicit values for what it derives from platform and workload.

        It derives them from the whole grid before the run.  This is the only knowledge of other machines that
        a decentralized scheduler may have without a message.
        """
        return self

    def start(self, run: Run) -> Policy:
        """Make the policy for `run`.  Every scheduler must define this method."""
        raise NotImplementedError(f"{type(self).__name__} does not define start(run)")
