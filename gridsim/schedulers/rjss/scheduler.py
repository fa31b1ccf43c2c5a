"""RJSS and its rivals: a job released at a node may move to another one, found by random probes.

After the paper on the "reliable node job scheduling strategy" (RJSS) for volunteer desktop grids, whose
section 6.1 has the algorithm, and the two schedulers that RJSS is compared with there.  What a node does is
in `gridsim.schedulers.rjss.node`, and in `gridsim.schedulers.rjss.volunteer` where owners come and go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from gridcore.random_walk.state import MOST_BYTES
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
from gridsim.scheduling.contract import Foreseen, NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, ProgramScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.program import Message, NodeProgram
from gridsim.support.arguments import normalise, real
from gridsim.support.arrays import Floats
from gridsim.support.parameters import Limits

#: Time from a question to its answer, s; "network": the time that the network takes.
ProbeLatency = float | Literal["network"]
_Threshold = Annotated[float, Limits(low=0, finite=False)]


class _Walker(ProgramScheduler, frozen=True, kw_only=True):
    """Base class of RJSS and its rivals."""

    unequal: ClassVar[bool] = True
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

    # what nodes do that ask no others, and that compare nodes without the conditions of RJSS
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
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        scheduler = self.explicit(run.speeds, run.applications)
        if run.nodes in (None, "compiled") and not run.faults:
            return CompiledWalks(scheduler, run)
        return Adapter(scheduler, run)

    def new_program(self, run: Run, node: int) -> NodeProgram:
        """Make the program of a node; see `make_environment`."""
        return (VolunteerNode if run.faults else RjssNode)(self)

    def messages_of(self, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages, with their sizes and delays."""
        return (volunteer_messages if run.faults else messages)(self.load_packet, probe_time(self, run))

    def make_environment(self, run: Run) -> RjssEnvironment:
        """Make the environment; with faults, owners come and go."""
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
    """Parameters of the schedulers whose nodes ask other nodes."""

    k: Annotated[float, Limits(low=0, high=1)] = 0.1
    probe_latency: ProbeLatency = 0.0
    dispatcher: Literal["queue", "parallel"] = "queue"
    load_packet: Annotated[int, Limits(low=0, high=MOST_BYTES)] = 100
    overlay: Annotated[int, Limits(low=1)] | None = None
    on_return: Literal["restart", "home", "migrate"] = "restart"
    predictor: Literal["none", "exact", "past", "age"] = "none"
    prefer: Literal["stay", "completion"] = "stay"
    state: Annotated[int, Limits(low=0, high=MOST_BYTES)] = 0
    retry: Annotated[float, Limits(low=1e-3, high=1e6, unit="s")] = 600.0

    owners: ClassVar[bool] = True
    numbers_known: ClassVar[bool] = True  # draws of a search depend on the number of its job

    @property
    def migrates(self) -> bool:
        """Whether jobs take their completed work along to other nodes when an owner returns."""
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

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return why a part of the model is outside the nodes: also for owners that come and go."""
        return [*super().environment_reasons(), ("faults.reachable = true", VolunteerEnvironment.because)]

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        if run.faults:
            self._check_volunteers(run)
        return super().start(run)

    def _check_volunteers(self, run: Run) -> None:
        """Raise an error if these parameters do not support owners that come and go."""
        if self.turnaround == "printed":
            raise ScenarioError("rjss.turnaround must be 'complete' where owners come and go, got 'printed'")
        if self.overlay is not None:
            raise ScenarioError("overlay must be None where owners come and go, got a degree")
        if self.k == 0:
            raise ScenarioError("k must be above 0 where owners come and go, so that jobs can leave")
        if run.nodes == "compiled":
            raise CompileError("nodes whose owners come and go run interpreted only")

    @property
    def informed_by_messages(self) -> bool:
        """Return whether probes take as long as messages, and nodes use no future; see `Scheduler`."""
        return self.probe_latency == "network" and self.predictor != "exact"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The parts of the future that it knows: returns of owners, with exact predictions."""
        return ("failures",) if self.predictor == "exact" else ()


class Rjss(_Prober, frozen=True, kw_only=True):
    """RJSS, the reliable node job scheduling strategy: a job moves to the first node that ends it sooner.

    When a job is released, its node asks other nodes, drawn at random, one after the other.  The job moves to
    the first node where its turnaround (waiting there when it arrives, execution, and both ways) is less than
    at home, provided that

    - the probability that the other node gets a job of its own while this one is on its way is below
      `local_threshold`, and
    - the expected number of jobs that arrive there from other nodes meanwhile is below `remote_threshold`.

    If none of ``ceil(k * nodes)`` nodes qualifies, the job stays.  Nodes run jobs first come, first served,
    without preemption.  Results go back to the job's own node.

    Parameters
    ----------
    k
        Share of the nodes that are asked, at most.
    rule
        How the probability of the first condition is computed from x = rate * latency, the number of jobs
        expected: ``"exactly-one"``: x exp(-x), as printed, which is never above 1 / e; ``"at-least-one"``: 1
        - exp(-x), as meant; ``"none"``: neither condition applies.  The rate is the one that the workload
        states, or else the one observed at the node so far.
    local_threshold
        Threshold of the first condition.
    remote_threshold
        Threshold of the second condition.
    pick
        ``"first"``: the first node that is good enough; ``"best"``: the best of all that are asked.  With
        ``prefer="stay"``, a node that is better, but where the job would not end before the owner's return,
        does not end a search for the first; the best of these is taken if no other is found.
    turnaround
        What is compared: ``"complete"``: the whole turnaround; ``"printed"``: waiting and the way there with
        waiting at home; not where owners come and go.
    probe_latency
        Time in s to ask a node and hear from it; ``"network"``: as long as two packets take.  An answer is
        half of that old when it arrives.  0: no time at all.
    dispatcher
        What a node does while it asks others about a job, where that takes time.  ``"queue"``: other jobs
        that are released there, and results of jobs that have run there, wait until the search is over, in
        one queue, first come, first served (sections 7.1 and 7.2); ``"parallel"``: the node asks about all
        its jobs at once, and results leave when the jobs have run.  Jobs that come from other nodes never
        wait for the dispatcher.  Among volunteers, jobs that must leave pass the dispatcher of the node that
        looks for a place, and may wait for it.
    load_packet
        Bytes of a question, and of its answer.  Counted as traffic, but not held up at interfaces.
    overlay
        None: nodes are drawn uniformly, each at most once; a number: the question walks over a random overlay
        of this degree, and passes through a node that was asked before without asking it again.
    on_return
        What happens to the jobs on a node when its owner returns (faults with ``reachable``). ``"restart"``:
        a job begins anew; its home gets word and looks for another node.  ``"home"``: a job goes back to its
        home with what it has done, and the home looks for another node.  ``"migrate"``: the node looks for
        another node itself, and sends the job there with what it has done.
    predictor
        How a node predicts when its owner will return, which its answer says.  ``"none"``: not at all;
        ``"exact"``: as it will be; ``"past"``: the mean of the times for which the owner has stayed away that
        were longer than the present one is already, among the last 32, or as ``"age"`` if none was;
        ``"age"``: as long again as the owner has been away.
    prefer
        How nodes are compared where returns are predicted.  ``"stay"``: nodes where the job would end before
        the return come first, then the others, by how much later it would end; among equals the turnaround
        decides.  ``"completion"``: by the turnaround, plus what one interruption costs where the job would
        not end before the return: all time until then, or, if the job keeps what it has done, the way of its
        `state` to another node.  With ``reading="fastest"`` of `ResourceExclusion` the speed takes the place
        of the turnaround: with ``"stay"`` it decides among equals, and with ``"completion"`` predictions have
        no effect.
    state
        Bytes of the state of a job that has begun, which travels with the job.
    retry
        Time in s after which a node searches again for a job that found no node while the owner was there.
    """

    name: ClassVar[str] = "rjss"

    local_threshold: _Threshold = 0.5
    remote_threshold: _Threshold = 1.0
    rule: Literal["exactly-one", "at-least-one", "none"] = "exactly-one"
    pick: Literal["first", "best"] = "first"
    turnaround: Literal["complete", "printed"] = "complete"


class ResourceExclusion(_Prober, frozen=True, kw_only=True):
    """Resource exclusion (RE, after Kondo et al.): the best of the nodes asked that are not slow is chosen.

    The RJSS paper only names this rival and says that it chooses "the high speed nodes"; both readings are
    inferred (after Kondo et al., "Resource management for rapid application turnaround on enterprise desktop
    grids").

    Parameters
    ----------
    reading
        Where a job goes.  ``"completion"``: of the nodes asked that are not slower than `min_speed`, to the
        one with the least turnaround, if that is less than at home; ``"fastest"``: to the fastest node asked,
        whatever its queue, if that is faster than the job's own node; how predicted returns of owners count,
        see `prefer`.
    min_speed
        Mflop/s; None: the mean speed of all nodes, which they know when the run begins.
    k, probe_latency, dispatcher, load_packet, overlay, on_return, predictor, prefer, state, retry
        As in `Rjss`.
    """

    name: ClassVar[str] = "resource-exclusion"

    reading: Literal["completion", "fastest"] = "completion"
    min_speed: Annotated[float, Limits(low=0, unit="Mflop/s")] | None = None

    @property
    def pick(self) -> str:
        """The rule that chooses one of the probed nodes."""
        return "best" if self.reading == "completion" else "fastest"

    @property
    def least_speed(self) -> float:
        """The speed below which nodes are excluded, Mflop/s."""
        return 0.0 if self.reading == "fastest" or self.min_speed is None else self.min_speed

    def explicit(self, speeds: Floats, applications: Applications) -> ResourceExclusion:
        """Return this scheduler with `min_speed` filled in; see `gridsim.scheduling.contract.Scheduler`."""
        if self.min_speed is not None:
            return self
        mean = math.fsum(speeds.tolist()) / len(speeds)
        return msgspec.structs.replace(self, min_speed=mean)
