"""DGS_ASAP: rigid jobs start as soon as possible on machines found among the neighbours of neighbours.

A job is submitted at some node, the *scheduling node*.  It forwards the request to a few of its neighbours.
Each of these searches the schedules of its own neighbours, and of theirs, for the earliest start.  The
scheduling node takes the best answer and asks the machines in it to commit.  If one refuses, since another
job was faster, the scheduling node releases the others and tries the next best answer.

Source: Vasilakos, Sacha and Pierre, "Decentralized as-soon-as-possible grid scheduling" (Figures 2 and 3).
The paper has one sentence each on conflicts and on failures (III-B), and none on the time of messages;
docs/background/dgs_asap.md describes how they are modelled here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import msgspec
import numpy as np

from gridcore.dgs.negotiations import BROKEN, COMMITTING, DONE, PLACED, SEARCHING, WAITING
from gridsim.errors import ScenarioError
from gridsim.model.applications import JOB_TIMES, JobTime
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.dgs.acap import AcapNode
from gridsim.schedulers.dgs.compiled import CompiledDgs
from gridsim.schedulers.dgs.decisions import WORDS
from gridsim.schedulers.dgs.environment import DgsEnvironment
from gridsim.schedulers.dgs.jobs import Times
from gridsim.schedulers.dgs.moving import MOVE_MESSAGES, MovingAcapNode, MovingNode, MovingRecord
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.schedulers.dgs.node import MESSAGES, DgsNode, DgsRecord
from gridsim.schedulers.dgs.proximity import Proximity
from gridsim.scheduling.contract import (
    MESSAGES_TAKE_TIME,
    DecisionVerb,
    Foreseen,
    LadderStep,
    NodeForm,
    Policy,
    Run,
)
from gridsim.scheduling.nodes.program import Message
from gridsim.scheduling.nodes.rigid_jobs import JobTimer, RigidNodeScheduler
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.arrays import Integers
from gridsim.support.parameters import AnswerWait, Limits

#: Upper limit of times, s (three years), since many slots and polls are added up in int64 nanoseconds.
_LONGEST = 1e8
_Time = Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s")]


_T = TypeVar("_T")


class _ByMove(Generic[_T]):
    """A class variable whose value depends on the parameter `move`; of the class itself, that by default."""

    def __init__(self, never: _T, forward: _T) -> None:
        self.never, self.forward = never, forward

    def __get__(self, scheduler: Any, kind: Any) -> _T:
        return self.forward if scheduler is not None and scheduler.move == "forward" else self.never


class DgsAsap(RigidNodeScheduler, frozen=True, kw_only=True):
    """DGS_ASAP (Vasilakos, Sacha and Pierre): decentralized co-allocation of rigid jobs over an overlay.

    Parameters
    ----------
    forward
        Number of neighbours of the scheduling node that search.
    degree
        Number of neighbours of each node.
    policy
        How a node learns the schedules of its neighbours: ``"push"``: each change is sent to the nodes that
        know the changed node; ``"pull"``: each search requests them; ``"poll"``: each node requests them at
        regular times.
    poll_period
        Interval between two polls of a node, s.
    overlay
        ``"static"``: neighbours stay the same; ``"cyclon"``: they are shuffled periodically.
    cycle
        Interval between two shuffles of a node, s.
    shuffle
        Number of entries of its view that a node exchanges in one shuffle.
    slot
        Duration of a slot, s; starts are multiples of it, and lengths are rounded up to a multiple.
    hops
        Radius of a search: 1 for neighbours, 2 for neighbours and their neighbours.
    candidates
        Machines that a search may choose: ``"all"``: all neighbours that it reaches, as in the paper's Figure
        3; ``"others"``: the same without the searcher and the scheduling node.
    wide
        Behaviour of a search that has reached fewer machines than the job needs: ``"widen"``: it continues
        hop by hop; ``"fail"``: it stops, as in the paper's experiments.
    estimate
        Time that is reserved: ``"requested"``: the time requested by the user; ``"run"``: the run time, which
        is then known.  For a job that outlives its reservation, machines reserve one more slot, then two,
        four and so on.
    early
        Behaviour of machines if a job ends before its reservation: ``"release"``: they release the rest, and
        with push send their changed schedules; ``"keep"``: they stay reserved, for comparison.
    move
        Behaviour of placed jobs that have not started: ``"never"``: they keep their starts, as in the paper;
        ``"forward"``: their scheduling nodes search for earlier starts.  Nodes then run interpreted only.
    move_period
        Least interval between two such searches for a job, s.  While a two-hundredth of the time until its
        start is longer, that is the interval.
    rounds
        Number of consecutive searches after which a job waits, if all answers met conflicts.
    retry
        Approximate time that a job waits before it searches again, s.
    tries
        Number of consecutive searches without success after which a job is rejected.
    detection
        Time until the failure of a machine is detected by its neighbours and by the scheduling nodes of its
        jobs, s.
    patience
        Time that a scheduling node waits for messages, which may be lost in failures, s.
    """

    name: ClassVar[str] = "dgs-asap"
    constraints: ClassVar[bool] = True
    job_times: ClassVar[tuple[JobTime, ...]] = JOB_TIMES
    may_reject: ClassVar[bool] = True  # searches may reach too few machines
    numbers_known: ClassVar[bool] = True  # the random numbers of a search depend on the number of its job
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {
        "opened": "mentions",
        "released": "mentions",
        "displaced": "mentions",
    }
    # nodes of jobs that move are not compiled
    node_forms = _ByMove[tuple[NodeForm, ...]](("compiled", "interpreted"), ("interpreted",))
    roles = _ByMove[Mapping[str, Role]]({"machine": Role(DgsNode)}, {"machine": Role(MovingNode)})
    messages: ClassVar[dict[str, Message]] = MESSAGES | MOVE_MESSAGES
    record = DgsRecord
    environment = DgsEnvironment
    job_timers: ClassVar[Mapping[str, JobTimer]] = {
        "retry": JobTimer((WAITING,)),
        "overdue": JobTimer((SEARCHING, COMMITTING)),
        "move-due": JobTimer((PLACED, BROKEN, DONE)),
    }
    acts_for_failed_nodes = True
    columns = ("searches", "conflicts", "late")
    rejections = ("too_large", "too_late")

    forward: Annotated[int, Limits(low=1, high=2**15)] = 5
    degree: Annotated[int, Limits(low=1, high=2**15)] = 20
    policy: Literal["push", "pull", "poll"] = "push"
    poll_period: _Time = 120.0
    overlay: Literal["static", "cyclon"] = "static"
    cycle: _Time = 600.0
    shuffle: Annotated[int, Limits(low=1, high=2**15)] = 8
    slot: _Time = 60.0
    hops: Annotated[int, Limits(low=1, high=64)] = 2
    candidates: Literal["all", "others"] = "all"
    wide: Literal["widen", "fail"] = "widen"
    estimate: Literal["requested", "run"] = "requested"
    early: Literal["release", "keep"] = "release"
    move: Literal["never", "forward"] = "never"
    move_period: _Time = 300.0
    rounds: Annotated[int, Limits(low=1, high=10**6)] = 3
    retry: _Time = 600.0
    tries: Annotated[int, Limits(low=1, high=10**6)] = 100
    detection: _Time = 60.0
    patience: Annotated[_Time, AnswerWait("searches end before machines answer", only_failures=True)] = 120.0

    @property
    def failures_known(self) -> bool:  # type: ignore[override]
        """True with CYCLON, in which a shuffle with a failed node fails at once."""
        return self.overlay == "cyclon"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The parts of the future that nodes know: run times, unless users' estimates are used."""
        return ("run times",) if self.estimate == "run" else ()

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment, as pairs of a condition and a reason."""
        shuffles = "CYCLON shuffles all views at once, so that nodes know at once who is up"
        return [*super().environment_reasons(), ("overlay = 'cyclon'", shuffles)]

    def ladder_steps(self) -> list[LadderStep]:
        """Return the steps of `gridsim.ladder` down to one hop and polled views."""
        policy: Literal["push", "pull"] = "pull" if self.policy == "pull" else "push"
        far = msgspec.structs.replace(self, hops=max(2, self.hops), policy=policy)
        one_hop = msgspec.structs.replace(far, hops=1)
        stale = msgspec.structs.replace(one_hop, policy="poll")
        what = f"{far.forward} neighbours search among theirs, {far.degree} each, and those of those"
        more = ", unless a job wants more machines" if one_hop.wide == "widen" else ""
        return [
            LadderStep(f"{far.hops} hops, fresh views", what, far, is_free=True),
            LadderStep(*MESSAGES_TAKE_TIME, far),
            LadderStep("1 hop", f"a search goes no further than neighbours{more}", one_hop),
            LadderStep("stale views", f"schedules are asked for every {stale.poll_period:g} s", stale),
        ]

    def start(self, run: Run) -> Policy:
        """Return the policy of a run.

        Compiled nodes are the default.  They do not support observers of nodes, nor observers of messages
        together with a limit of cohorts.
        """
        is_watched = bool(run.watchers) or not run.engine.whole_cohorts
        is_compiled = run.nodes == "compiled" or (run.nodes is None and not is_watched)
        is_compiled &= "compiled" in self.node_forms
        if not is_compiled:
            return self.start_nodes(run)
        self._check_classes()
        return CompiledDgs(self, run)

    def new_records(self, run: Run, lengths: Integers) -> list[DgsRecord]:
        """Return the records of all jobs."""
        times, jobs = Times(self, run), run.applications
        group = np.full(len(jobs), -1) if jobs.group is None else jobs.group
        columns = jobs.submitter, jobs.tasks, times.length, group, times.earliest, times.latest
        rows = zip(*(column.tolist() for column in columns), strict=True)
        record = MovingRecord if self.move == "forward" else DgsRecord
        return [record(number, *row) for number, row in enumerate(rows)]

    def rejections_of(self, run: Run) -> tuple[str, ...]:
        """Return the reasons for rejections; without deadlines, no job can be too late."""
        return self.rejections if run.applications.deadline is not None else ("too_large",)

    def messages_of(self, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages; there is no ``displaced`` if no job outlives its reservation."""
        kinds = self.messages if self.move == "forward" else MESSAGES
        if Times(self, run).has_overruns:
            return kinds
        return {name: kind for name, kind in kinds.items() if name != "displaced"}

    def draw_neighbours(self, run: Run, nodes: int, among: range) -> Integers:
        """Return no neighbours, since the environment has the overlay, which changes."""
        return np.zeros((nodes, 0), np.int64)

    def make_overlay(self, run: Run, latency: int) -> Neighbourhood:
        """Return the overlay of the nodes, whose messages take `latency` ns."""
        return Neighbourhood(run, self, latency)


class DgsAcap(DgsAsap, frozen=True, kw_only=True):
    """DGS_ASAP with machines close to one another, among the machines that allow an early start.

    Machines need places (`gridsim.DrawnAttributes`).  It runs as a node program only, which is slower than
    the compiled nodes of `DgsAsap`.

    Fiscato, Costa and Pierre, "On the feasibility of decentralized grid scheduling" (2008), let users specify
    desired properties of schedules; docs/background/dgs_asap.md lists what comes from the paper.

    Parameters
    ----------
    near
        Number of near nodes that each node knows besides `degree` random ones.  They come from a second
        overlay, in which nodes exchange their neighbours and keep the nearest.
    tolerance
        Maximum delay of the start of a job for machines that are closer to one another, s; up to 61 evenly
        spaced starts are tried.
    """

    name: ClassVar[str] = "dgs-acap"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    roles = _ByMove[Mapping[str, Role]]({"machine": Role(AcapNode)}, {"machine": Role(MovingAcapNode)})

    near: Annotated[int, Limits(low=1, high=2**15)] = 20
    tolerance: Annotated[float, Limits(low=0, high=_LONGEST, unit="s")] = 0.0

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment, as pairs of a condition and a reason."""
        return [*super().environment_reasons(), ("", "nodes know from the beginning which nodes are near")]

    def start(self, run: Run) -> Policy:
        """Return the policy of a run."""
        return self.start_nodes(run)

    def make_overlay(self, run: Run, latency: int) -> Proximity:
        """Return both overlays of the nodes.

        Raises
        ------
        ScenarioError
            If machines have no places.
        """
        if run.attributes is None or run.attributes.places is None:
            raise ScenarioError(
                f"platform.attributes must give machines places (side, or x and y) for {self.name}, got none"
            )
        return Proximity(run, self, latency, run.attributes.places)
