"""The contract between the simulator and a scheduler.

A scheduler is a frozen set of parameters (`Scheduler`); what it knows while it runs lives in the
`Policy` that its `start` makes.  The policy registers the messages and timers it needs on the run's
engine and network, gets cohorts of them as arrays, and at the end reports an `Outcome`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gridsim.engine.engine import Engine
from gridsim.engine.transport import Transport
from gridsim.errors import SchedulerError
from gridsim.model.applications import Applications
from gridsim.model.fault_events import Events
from gridsim.model.fluctuation import Pace
from gridsim.model.time_zones import Zones
from gridsim.results.decisions import Decisions, Words
from gridsim.support.arrays import Floats, Integers
from gridsim.support.parameters import Declared
from gridsim.support.random_streams import Streams
from gridsim.support.state import Stateful

if TYPE_CHECKING:
    from gridcore.queues.task_queues import TaskQueues


#: Of the timer by which machines fail: what else was to happen at that instant has happened before.  Only
#: timers of higher priority find the machines as they are after it.
FAULT_PRIORITY = 4000

#: What a scheduler may promise; see `Scheduler.order`.
Order = Literal["fifo", "fcfs", "edf", "list", None]

#: Columns of `Outcome.schedule` and `Outcome.arrivals`.
SCHEDULE = ("machine", "application", "tasks", "start", "end", "completed")
#: Further columns of it, where tasks may have several instances.
INSTANCES = ("task", "begin")
ARRIVALS = ("machine", "application", "tasks", "time")
#: Columns of `Outcome.cycles`.
CYCLES = ("useful", "redundant", "lost", "overhead", "slowed")


class Feed(Protocol):
    """When machines fail and come back, by the block, for a policy that takes it so (`Policy.takes_blocks`).

    The policy lets machines change where `on_faults` would have come: after all else of an instant but
    starts.  When nobody is up and there are no more blocks it calls ``run.engine.stop()``, too.  Of the
    changes at the instant at which it stops the run only those count after which it has called `take`.

    first : int64[machines], ns, when each fails first: 0 if it is down from the beginning, NEVER if it never
        fails.
    """

    first: Integers

    @property
    def mean_up_time(self) -> float:
        """About how long a machine is up, s; see `gridsim.model.faults.Faults.mean_up_time`."""

    def take(self) -> Events | None:
        """The next block, never an empty one; None if there are no more.

        All of the block before must have happened: what was taken counts so from then on.
        """


@dataclass(slots=True)
class Run:
    """What a policy may use while it runs.

    speeds : Mflop/s of each machine.  A decentralized policy hands each machine only its own.
    up : bool[machines], which machines are up; changes as they fail and come back, and is not to be written.
    faults : whether machines may fail in this run.
    feed : when, for a policy that takes blocks and for no other; None if machines do not fail.
    pace : what machines have of their speed at each time; None if they always have the whole.
    zones : where machines have day and night; None if the faults do not say.
    record : whether the policy is to report its schedule (`Outcome.schedule`, `Outcome.arrivals`).
    decisions : where it is to note what it decides; None if that is not recorded.  What comes out of the run
        must not depend on it.
    threads : how many a kernel may use; what comes out does not depend on it.
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
    feed: Feed | None = None
    pace: Pace | None = None
    zones: Zones | None = None

    def __post_init__(self) -> None:
        if not len(self.up):
            self.up = np.ones(len(self.speeds), np.bool_)


@dataclass(slots=True)
class Outcome:
    """What a policy reports when the run is over; all arrays int64 unless said otherwise.

    Times are ns; -1 stands for "never".

    applications : ``first_start``, ``finish``, ``completed`` (tasks), ``resubmitted`` (tasks),
        ``nodes_used``, and optionally further ones, such as ``level`` (at which the request was accepted).
        Of rigid jobs also ``failed``, whether one was rejected: nothing of it is completed then, and it
        has neither start nor finish.
    machines : ``busy`` (ns), ``tasks`` (completed), ``peak_queue`` (tasks waiting), and optionally
        ``interrupted`` (tasks that ran when the machine failed).
        Where tasks may have several instances also ``ended`` (instances that another one was faster than).
    cycles : what the machines' busy time came to, float64 Mflop of each application, where tasks may be done
        in part or more than once: ``useful`` (the size of what is completed), ``redundant`` (done by
        instances that another one was faster than, or saved and not taken up), ``lost`` (since the newest
        checkpoint of an instance that failed), ``overhead`` (writing and reading checkpoints), ``slowed``
        (what other load on the machines had of them meanwhile).
    tables : further tables, each a mapping of equally long columns.
    facts : scalars that belong in every result of this scheduler (JSON-able).
    schedule : what ran where and when, if that is recorded: ``machine``, ``application``, ``tasks`` (one
        after another without a gap), ``start``, ``end`` (ns), ``completed`` (all of them, or none of a task
        that a failure cut off at ``end``).  `TaskQueues.schedule` makes it.  Where tasks may have several
        instances also ``task`` (within the application) and ``begin`` (float64, Mflop of the task that were
        done before); those that another one was faster than are not completed either.
    arrivals : what came to the queues of machines, where they have any: ``machine``, ``application``,
        ``tasks``, ``time`` (ns), in order.  `TaskQueues.arrivals` makes it.
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
        """What `queues` have done, through which all tasks went, `resubmitted` of each application again."""
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
    """A scheduler at work.

    The run ends when the engine has nothing left to do or the policy calls ``run.engine.stop()``: after
    the last release, once nothing that is still to come can change what is reported.

    `STATE` names its attributes that change meanwhile, if the run may be kept in a checkpoint: kernels and
    other things with ``getstate`` and ``setstate``, numbers, text, arrays, generators, and lists, tuples and
    dicts of such values.
    """

    #: Whether it takes failures by the block, from `Run.feed`, and is not told of each by `on_faults`.  Such
    #: a policy must be a source of the engine, which lets machines fail between the engine's instants, and
    #: send no messages: the network does not hear of failures, and `Run.up` follows late.
    takes_blocks: ClassVar[bool] = False

    #: Whether it reads releases from ``run.applications`` itself, so that `on_release` is not called.  Such a
    #: policy must be a source of the engine.
    takes_releases: ClassVar[bool] = False

    @abstractmethod
    def on_release(self, applications: list[int]) -> None:
        """The `applications` (sorted indices) are submitted now.  Not called if it `takes_releases`."""

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """The machines `failed` (ascending) fail now, and those of `back` are up now; some may be in both.

        The network has dropped what was addressed to the failed machines; what they had to do is lost, and
        the policy must have it done again.  A run with faults goes on until the policy calls
        ``run.engine.stop()``.  Called for time 0 before anything else with the machines that join later.
        Not called if it `takes_blocks`.
        """
        raise SchedulerError(f"{type(self).__name__} does not say what it does when machines fail")

    @abstractmethod
    def finish(self) -> Outcome:
        """Complete what has been decided and report."""


class Scheduler(Declared, frozen=True, kw_only=True):
    """Parameters of a scheduler.  Subclasses add fields, a `name`, and `start`.

    Fields are checked as they are declared (`gridsim.support.parameters.Limits`, literals and bools); a
    ``__post_init__`` of a subclass calls this one's first.  Raises `ScenarioError` naming the parameter and
    its value.
    """

    #: How the command line and result tables call it.
    name: ClassVar[str] = "scheduler"
    #: False if it reads the whole grid at once (the baselines say so).
    decentralized: ClassVar[bool] = False
    #: Whether nodes of a decentralized scheduler know the speeds of others when the run begins.
    speeds_known: ClassVar[bool] = False
    #: Whether it starts all tasks of an application together; then it is for rigid jobs, else for bags.
    rigid: ClassVar[bool] = False
    #: Whether tasks of one application may differ in size.
    unequal: ClassVar[bool] = False
    #: Whether it can run machines whose performance fluctuates, as `Run.pace` says; it must then report
    #: `Outcome.cycles`, or they are busier than their tasks make them.
    fluctuating: ClassVar[bool] = False
    #: Whether machines may fail.
    failures: ClassVar[bool] = True
    #: What it notes in `Run.decisions`: an action -> (sentence, quantity, unit).  The sentence follows the
    #: name of the one who decided, and may have columns of the table ``decisions`` in braces; the quantity is
    #: what ``saw``, ``limit`` and ``true`` are.  Empty if it notes nothing.
    decision_words: ClassVar[Words] = {}

    def _path(self) -> str:
        return self.name

    @property
    def informed_by_messages(self) -> bool:
        """Whether a machine knows of others only what a message can have told it, once that has arrived.

        So a decentralized scheduler should be; one may be without, where a paper has it so.
        """
        return self.decentralized

    @property
    def order(self) -> Order:
        """In what order tasks are promised to run, where no machine fails.

        "fifo": a machine runs applications as they first came to it; "fcfs": it runs tasks as they came;
        "edf": by deadline at its own minimum stretch, anew whenever something comes; "list": no task starts
        before one of an earlier application; None: no promise.
        """
        return None

    def explicit(self, speeds: Floats, applications: Applications) -> Scheduler:
        """This scheduler, with what it derives from the whole platform and workload before a run spelled out.

        The one thing that a decentralized scheduler may know of others without a message.
        """
        return self

    def start(self, run: Run) -> Policy:
        """Make the policy that will run on `run`; every scheduler has its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define start(run)")
