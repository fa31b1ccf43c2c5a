"""RJSS and its competitors: a job released at a node may move to another node, found by random probes.

After the paper on the "reliable node job scheduling strategy" (RJSS) for volunteer desktop grids, whose
section 6.1 has the algorithm, and the two schedulers that RJSS is compared with there.  The node programs are
in `gridsim.schedulers.rjss.node`, and for runs with owner absences in `gridsim.schedulers.rjss.volunteer`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Number
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from gridcore.random_walk.state import MAX_BYTES
from gridsim.errors import CompileError, ScenarioError
from gridsim.model.applications import Applications
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.rjss.compiled import CompiledWalks
from gridsim.schedulers.rjss.decisions import STAY, VOLUNTEER_WORDS, WORDS
from gridsim.schedulers.rjss.environment import RjssEnvironment, probe_time
from gridsim.schedulers.rjss.node import TABLES, RjssNode, messages
from gridsim.schedulers.rjss.volunteer import TABLES as VOLUNTEER_TABLES
from gridsim.schedulers.rjss.volunteer import VolunteerNode, volunteer_messages
from gridsim.schedulers.rjss.volunteers import VolunteerEnvironment, true_stay
from gridsim.scheduling.contract import Foreseen, NodeForm, Policy, Run, TaskCost
from gridsim.scheduling.nodes.adapter import Adapter, NodeScheduler, ProgramScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.program import Message, NodeProgram
from gridsim.support.arguments import normalise, real
from gridsim.support.arrays import Floats
from gridsim.support.parameters import Limits, column_checks

#: Time from a probe to its answer, s; "network": the time that the network takes.
ProbeLatency = float | Literal["network"]
_Threshold = Annotated[float, Limits(low=0, finite=False)]


if TYPE_CHECKING:
    _Overlay = Any
else:  # msgspec does not support unions of a number and a column
    _Overlay = Annotated[int, Limits(low=1)] | tuple[tuple[int, ...], ...]


class _Walker(ProgramScheduler, frozen=True, kw_only=True):
    """Base class of RJSS and its competitors."""

    task_cost: ClassVar[TaskCost] = TaskCost(memory=96, time=5e-7)
    unequal: ClassVar[bool] = True
    cores: ClassVar[bool | Literal["separate"]] = True
    failures: ClassVar[bool] = False
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    policy: ClassVar[type[NodeProgram]] = RjssNode
    environment = RjssEnvironment
    messages: ClassVar[Mapping[str, Message]] = {**messages(0, 0), **volunteer_messages(0, 0)}
    environment_timers = ("owner-back", "owner-gone")
    single_tasks = True
    local_order = "fifo"
    at_once = True
    to_the_end = True
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = {**TABLES, **VOLUNTEER_TABLES}
    decision_words: ClassVar[DecisionTexts] = {**WORDS, **VOLUNTEER_WORDS}
    truths: ClassVar[Mapping[str, TruthOf]] = {"sent": true_stay, "kept": true_stay}

    # values for nodes that probe no others, and that compare nodes without the conditions of RJSS
    k = 0.0
    dispatcher = "queue"
    load_packet = 0
    rule = "none"
    turnaround = "complete"
    local_threshold = 0.5
    remote_threshold = 1.0

    @property
    def least_speed(self) -> float:
        """The speed below which nodes are excluded, Mflop/s."""
        return 0.0

    def start(self, run: Run) -> Policy:
        """Return the policy of a run."""
        scheduler = self.explicit(run.speeds, run.applications)
        if run.nodes in (None, "compiled") and not run.faults:
            return CompiledWalks(scheduler, run)
        return Adapter(scheduler, run)

    def new_program(self, run: Run, node: int) -> NodeProgram:
        """Return the program of a node: with faults, one whose machine has an owner."""
        return (VolunteerNode if run.faults else RjssNode)(self)

    def messages_of(self, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages, with their sizes and delays."""
        return (volunteer_messages if run.faults else messages)(self.load_packet, probe_time(self, run))

    def make_environment(self, run: Run) -> RjssEnvironment:
        """Return the environment: with faults, one with owner absences."""
        return (VolunteerEnvironment if run.faults else RjssEnvironment)(self, run)


class NoMigration(_Walker, frozen=True, kw_only=True):
    """No migration (NM): each job runs where it was submitted, first come, first served.

    It is the lower baseline of the paper on RJSS."""

    name: ClassVar[str] = "no-migration"
    decision_words: ClassVar[DecisionTexts] = STAY

    probe_latency = 0.0
    overlay = None
    pick = "first"


class _Prober(_Walker, frozen=True, kw_only=True):
    """Parameters of the schedulers whose nodes probe other nodes."""

    k: Annotated[float, Limits(low=0, high=1)] = 0.1
    probe_latency: ProbeLatency = 0.0
    dispatcher: Literal["queue", "parallel"] = "queue"
    load_packet: Annotated[int, Limits(low=0, high=MAX_BYTES)] = 100
    overlay: _Overlay | None = None
    on_return: Literal["restart", "home", "migrate"] = "restart"
    predictor: Literal["none", "exact", "past", "age"] = "none"
    prefer: Literal["stay", "completion"] = "stay"
    state: Annotated[int, Limits(low=0, high=MAX_BYTES)] = 0
    retry: Annotated[float, Limits(low=1e-3, high=1e6, unit="s")] = 600.0

    owners: ClassVar[bool] = True
    numbers_known: ClassVar[bool] = True  # the random numbers of a search depend on the number of its job

    @property
    def migrates(self) -> bool:
        """True if jobs take their completed work along to other nodes when an owner returns."""
        return self.on_return != "restart"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.probe_latency, str):
            if self.probe_latency != "network":
                raise ScenarioError(
                    f"{self.name}.probe_latency must be s >= 0 or 'network', got {self.probe_latency!r}"
                )
            normalise(self, probe_latency="network")
        else:
            seconds = real(f"{self.name}.probe_latency", self.probe_latency, low=0, unit="s")
            normalise(self, probe_latency=seconds)
        if self.overlay is not None:
            is_number = isinstance(self.overlay, Number)
            check = Limits(low=1).integer if is_number else column_checks(NodeScheduler)["overlay"]
            normalise(self, overlay=check(f"{self.name}.overlay", self.overlay))

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment, also for the environment with owner absences."""
        return [*super().environment_reasons(), ("faults.reachable = true", VolunteerEnvironment.reason)]

    def start(self, run: Run) -> Policy:
        """Return the policy of a run, after a check of the parameters for owner absences."""
        if run.faults:
            self._check_volunteers(run)
        return super().start(run)

    def _check_volunteers(self, run: Run) -> None:
        """Raise an error if these parameters do not support owner absences."""
        if self.turnaround == "printed":
            raise ScenarioError(
                "rjss.turnaround must be 'complete' in runs with owner absences, got 'printed'"
            )
        if self.overlay is not None:
            raise ScenarioError(
                f"{self.name}.overlay must be None in runs with owner absences, got {self.overlay!r}"
            )
        if self.k == 0:
            raise ScenarioError(f"{self.name}.k must be > 0 in runs with owner absences, got {self.k!r}")
        if run.nodes == "compiled":
            raise CompileError("nodes='compiled' does not support runs with owner absences")

    @property
    def informed_by_messages(self) -> bool:
        """True if probes take as long as messages and nodes do not know the future."""
        return self.probe_latency == "network" and self.predictor != "exact"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The parts of the future that nodes know: returns of owners, with exact predictions."""
        return ("failures",) if self.predictor == "exact" else ()


class Rjss(_Prober, frozen=True, kw_only=True):
    """RJSS, the reliable node job scheduling strategy: a job moves to the first node that ends it earlier.

    When a job is released, its node probes random other nodes, one after the other.  The job moves to the
    first node where its turnaround (waiting after its arrival, execution, and transfers in both directions)
    is less than at home, provided that

    - the probability that the other node gets a job of its own while this one is on its way is below
      `local_threshold`, and
    - the expected number of jobs that arrive there from other nodes meanwhile is below `remote_threshold`.

    If none of ``ceil(k * nodes)`` nodes qualifies, the job stays.  Nodes run jobs first come, first served,
    without preemption.  Results go back to the job's own node.

    Parameters
    ----------
    k
        Maximum share of the nodes that are probed.
    rule
        How the probability of the first condition is computed from x = rate * latency, the number of jobs
        expected: ``"exactly-one"``: x exp(-x), as printed, which is never above 1 / e; ``"at-least-one"``: 1
        - exp(-x), as meant; ``"none"``: neither condition applies.  The rate is the one that the workload
        states, or else the one observed at the node so far; at a machine with several cores, that of each.
    local_threshold
        Threshold of the first condition.
    remote_threshold
        Threshold of the second condition.
    pick
        ``"first"``: the first node that is good enough; ``"best"``: the best of all probed nodes.  With
        ``prefer="stay"``, a search for the first continues at a better node where the job would not end
        before the owner's return; the best of these nodes is chosen if no other is found.
    turnaround
        Compared values: ``"complete"``: the whole turnaround; ``"printed"``: waiting and the transfer to the
        node with waiting at home, which does not support owner absences.
    probe_latency
        Time from a probe to its answer, s; ``"network"``: the time of two packets.  When an answer arrives,
        its age is half of this time.
    dispatcher
        How a node handles further jobs during a search that takes time.  ``"queue"``: other jobs that are
        released there, and results of jobs that have run there, wait until the search is over, in one queue,
        first come, first served (sections 7.1 and 7.2); ``"parallel"``: the node searches for all its jobs at
        once, and results leave when the jobs have run.  Jobs that arrive from other nodes never wait for the
        dispatcher.  With owner absences, jobs that must leave pass the dispatcher of the node that searches,
        and may wait for it.
    load_packet
        Size of a probe and of its answer, bytes.  They count as traffic, but do not queue at interfaces.
    overlay
        None: nodes are drawn uniformly, each at most once; a number: probes walk over a random overlay of
        this degree, and pass through nodes that were probed before; neighbours of each node, as in
        `NodeScheduler`: probes walk over this overlay, in which each node has a neighbour.
    on_return
        What happens to the jobs on a node when its owner returns (faults with ``reachable``). ``"restart"``:
        a job begins anew; its home is informed and searches for another node.  ``"home"``: a job returns to
        its home with its completed work, and the home searches for another node.  ``"migrate"``: the node
        itself searches for another node, and sends the job there with its completed work.
    predictor
        How a node predicts the return of its owner for its answer.  ``"none"``: no prediction; ``"exact"``:
        the true time; ``"past"``: the mean of those of the last 32 absences that were longer than the current
        one is already, or as ``"age"`` if there are none; ``"age"``: the rest of the absence is as long as it
        has lasted so far.
    prefer
        How nodes are compared where returns are predicted.  ``"stay"``: nodes where the job would end before
        the return come first, then the others, by the delay after the return; among equals the turnaround
        decides.  ``"completion"``: by the turnaround, plus the cost of one interruption if the job would not
        end before the return: all time until then, or, if the job keeps its completed work, the transfer of
        its `state` to another node.  With ``reading="fastest"`` of `ResourceExclusion` the speed replaces the
        turnaround: with ``"stay"`` it decides among equals, and with ``"completion"`` predictions have no
        effect.
    state
        Size of the state of a job that has begun, bytes; it travels with the job.
    retry
        Time after which a node repeats the search for a job that found no node while the owner was there, s.
    """

    name: ClassVar[str] = "rjss"

    local_threshold: _Threshold = 0.5
    remote_threshold: _Threshold = 1.0
    rule: Literal["exactly-one", "at-least-one", "none"] = "exactly-one"
    pick: Literal["first", "best"] = "first"
    turnaround: Literal["complete", "printed"] = "complete"

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, and on the node to which a job moves."""
        text = super().summary
        first, best = (
            "the first node that ends it earlier",
            "the one of all probed nodes that ends it earliest",
        )
        return text.replace(first, best) if self.pick == "best" else text


class ResourceExclusion(_Prober, frozen=True, kw_only=True):
    """Resource exclusion (RE, after Kondo et al.): the best of the probed nodes that are not slow is chosen.

    The RJSS paper only names this competitor and says that it chooses "the high speed nodes"; both readings
    are inferred (after Kondo et al., "Resource management for rapid application turnaround on enterprise
    desktop grids").

    Parameters
    ----------
    reading
        Destination of a job.  ``"completion"``: of the probed nodes that are not slower than `min_speed`, the
        one with the least turnaround, if that is less than at home; ``"fastest"``: the fastest probed node,
        whatever its queue, if that is faster than the job's own node.  `prefer` defines the effect of
        predicted returns of owners.
    min_speed
        Speed below which nodes are excluded, Mflop/s; None: the mean speed of all nodes, which they know when
        the run begins.
    k, probe_latency, dispatcher, load_packet, overlay, on_return, predictor, prefer, state, retry
        As in `Rjss`.
    """

    name: ClassVar[str] = "resource-exclusion"

    reading: Literal["completion", "fastest"] = "completion"
    min_speed: Annotated[float, Limits(low=0, unit="Mflop/s")] | None = None

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, and on the node that is chosen."""
        text, best = super().summary, "the best of the probed nodes that are not slow"
        return text.replace(best, "the fastest of the probed nodes") if self.reading == "fastest" else text

    @property
    def pick(self) -> str:
        """The rule that chooses one of the probed nodes."""
        return "best" if self.reading == "completion" else "fastest"

    @property
    def least_speed(self) -> float:
        """The speed below which nodes are excluded, Mflop/s."""
        return 0.0 if self.reading == "fastest" or self.min_speed is None else self.min_speed

    def explicit(self, speeds: Floats, applications: Applications) -> ResourceExclusion:
        """Return this scheduler with `min_speed` filled in."""
        if self.min_speed is not None:
            return self
        mean = math.fsum(speeds.tolist()) / len(speeds)
        return msgspec.structs.replace(self, min_speed=mean)
