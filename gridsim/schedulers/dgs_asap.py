"""DGS_ASAP: rigid jobs start as soon as possible on machines found among the neighbours of neighbours.

A job is submitted at some node, the *scheduling node*.  It forwards the request to a few of its neighbours.
Each of these searches the schedules of its own neighbours, and of theirs, for the earliest start.  The
scheduling node takes the best answer and asks the machines in it to commit; where one refuses, since another
job was faster, it releases the others and goes on with the next best answer.

Source: Vasilakos, Sacha and Pierre, "Decentralized as-soon-as-possible grid scheduling" (Figures 2 and 3).
Messages, conflicts and failures are not spelled out there; what they are here is in
docs/background/dgs_asap.md.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from gridsim.arguments import normalise, one_of, real, whole
from gridsim.decisions import Words
from gridsim.errors import ScenarioError
from gridsim.scheduler import Policy, Run, Scheduler
from gridsim.schedulers.dgs_negotiation import Negotiation
from gridsim.schedulers.dgs_notes import WORDS

_CHOICES = {
    "policy": ("push", "pull", "poll"),
    "overlay": ("static", "cyclon"),
    "candidates": ("all", "others"),
    "wide": ("widen", "fail"),
    "duration": ("run", "requested"),
}
_MOST = {"forward": 2**15, "degree": 2**15, "shuffle": 2**15, "hops": 64, "rounds": 10**6, "tries": 10**6}
#: s, three years: of slots and polls many are added up, in int64 nanoseconds.
_LONGEST = 1e8


class DgsAsap(Scheduler, frozen=True, kw_only=True):
    """DGS_ASAP, decentralized co-allocation of rigid jobs over a peer-to-peer overlay.

    forward : neighbours of the scheduling node that search.
    degree : neighbours of each node.
    policy : how a node knows the schedules of its neighbours: ``"push"``: each change is sent to those who
        know the node; ``"pull"``: they are asked for a search; ``"poll"``: at regular times.
    poll_period : s between these times.
    overlay : ``"static"``, or ``"cyclon"``: shuffled again and again.
    cycle : s between two shuffles of a node.
    shuffle : entries of its view that it exchanges in one.
    slot : s; starts are multiples of it, lengths are rounded up to it.
    hops : how far a search goes: 1: neighbours, 2: and their neighbours.
    candidates : whom a search may choose: ``"all"``: anybody among the neighbours that it looks at, as in the
        paper's Figure 3; ``"others"``: not the searcher itself, and not the scheduling node.
    wide : what a search does when it has reached fewer machines than the job wants: ``"widen"``: go on hop
        by hop, ``"fail"``: nothing, as in the paper's experiments.
    duration : what is reserved: ``"run"``: the run time, which is known; ``"requested"``: what the user
        asked for (or the run time if that is longer), and the rest is released when the job ends.
    rounds : searches in a row when all answers meet conflicts; then the job waits.
    retry : s, about so long.
    tries : searches after which a job is given up.
    detection : s until a failed machine is missed by its neighbours, and by the scheduling nodes of its jobs.
    patience : s that a scheduling node waits for messages that failures may have lost.
    """

    name: ClassVar[str] = "dgs-asap"
    decentralized: ClassVar[bool] = True
    rigid: ClassVar[bool] = True
    speeds_known: ClassVar[bool] = True  # all are equal
    decision_words: ClassVar[Words] = WORDS

    forward: int = 5
    degree: int = 20
    policy: Literal["push", "pull", "poll"] = "push"
    poll_period: float = 120.0
    overlay: Literal["static", "cyclon"] = "static"
    cycle: float = 600.0
    shuffle: int = 8
    slot: float = 60.0
    hops: int = 2
    candidates: Literal["all", "others"] = "all"
    wide: Literal["widen", "fail"] = "widen"
    duration: Literal["run", "requested"] = "run"
    rounds: int = 3
    retry: float = 600.0
    tries: int = 100
    detection: float = 60.0
    patience: float = 120.0

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            normalise(self, **{name: one_of(f"{self.name}.{name}", getattr(self, name), known)})
        for name, high in _MOST.items():
            normalise(self, **{name: whole(f"{self.name}.{name}", getattr(self, name), low=1, high=high)})
        for name in ("poll_period", "cycle", "slot", "retry", "detection", "patience"):
            path = f"{self.name}.{name}"
            seconds = real(path, getattr(self, name), above=0, unit="s")
            if not 1e-9 <= seconds <= _LONGEST:
                raise ScenarioError(f"{path} must be in 1e-09..{_LONGEST:g} s, got {seconds!r}")
            normalise(self, **{name: seconds})

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        return Negotiation(self, run)
