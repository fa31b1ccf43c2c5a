"""Who knows whom in DGS_ASAP, and what a node has seen of the schedules of those it knows.

Schedules are not sent one by one: what is known of a node is its schedule as it was at an instant, and that
instant follows from the policy.  The schedules that this takes are counted.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcore.dgs.overlay import Views
from gridsim.engine.engine import TIMER
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, nanoseconds
from gridsim.support.state import Stateful

#: Cycles of CYCLON before the run, in which random views become those that it has later too.
WARM_UP = 20
#: What a schedule counts in the table ``exchanges``, bytes.
SCHEDULE = 1024

_KINDS = ("push", "pull", "poll", "retrieve", "shuffle")


class Parameters(Protocol):
    """What an overlay needs of `gridsim.DgsAsap`."""

    @property
    def policy(self) -> str: ...
    @property
    def overlay(self) -> str: ...
    @property
    def degree(self) -> int: ...
    @property
    def shuffle(self) -> int: ...
    @property
    def cycle(self) -> float: ...
    @property
    def poll_period(self) -> float: ...


class Neighbourhood(Stateful):
    """The overlay of a run, and the exchange of schedules over it.

    away : bool[machines], whom the others know to be away.
    received : int64[machines], schedules that each has received so far.
    """

    STATE = ("views", "away", "received", "counts", "changes", "first")

    def __init__(self, run: Run, parameters: Parameters, latency: int) -> None:
        self.run, self.policy, self.latency = run, parameters.policy, latency
        machines = len(run.speeds)
        self.views = Views(
            machines,
            parameters.degree,
            shuffle=min(parameters.shuffle, parameters.degree),
            seed=int(run.streams("dgs.overlay").integers(2**63)),
        )
        self.seed = int(run.streams("dgs.forward").integers(2**63))
        for _ in range(WARM_UP):
            self.views.cycle()
        #: How many a node knows, if nobody is missing.
        self.width = min(parameters.degree, machines - 1)
        self.away = np.zeros(machines, np.bool_)
        self.received = np.zeros(machines, np.int64)
        self.counts = np.zeros(len(_KINDS), np.int64)
        # how often the schedule of each node has changed since that was last told
        self.changes = np.zeros(machines, np.int64)
        self.period = nanoseconds(parameters.poll_period)
        # when what a node hears from its first poll is true
        phase = run.streams("dgs.polls").integers(self.period, size=machines)
        self.first = phase + latency
        self.dynamic = parameters.overlay == "cyclon"
        if self.dynamic:
            run.engine.on("shuffle", self.shuffle, priority=4, phase=TIMER)
            run.engine.every(nanoseconds(parameters.cycle), "shuffle")

    # -- whom a node knows ------------------------------------------------------------------------------

    def pick(
        self, nodes: Integers, first: Integers, second: Integers, count: int
    ) -> tuple[Integers, Integers]:
        """`count` of those that each of `nodes` knows; see `gridcore.dgs.overlay.Views.pick`."""
        away = self.away if self.run.faults else None
        return self.views.pick(nodes, first, second, count, seed=self.seed, away=away)

    def shuffle(self, _: list[int]) -> None:
        """A cycle of CYCLON; who is new to somebody brings its schedule."""
        self._tell()
        *_others, new = self.views.cycle(self.run.up)
        self.counts[4] += new

    def leave(self, nodes: Integers) -> None:
        """`nodes` have failed; who knows them does not notice yet."""
        self._count_polls(nodes)
        self.first[nodes] = NEVER
        if self.dynamic:
            self._tell()
            self.views.leave(nodes)

    def join(self, nodes: Integers) -> None:
        """`nodes` are up again, and poll or are told at once."""
        self.away[nodes] = False
        self.first[nodes] = self.run.engine.now + self.latency
        if not self.dynamic:
            return
        self._tell()
        up = np.flatnonzero(self.run.up)
        for node in nodes.tolist():
            others = up[up != node]
            if len(others) and not (self.views.views[node] >= 0).any():
                # through the next one by number
                introducer = int(others[np.searchsorted(others, node) % len(others)])
                self.views.join(node, introducer, up=self.run.up)

    # -- what a node has seen ---------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """When those who search now have seen others, for `gridcore.dgs.slots.SlotSchedules.search`."""
        now = self.run.engine.now
        if self.policy == "poll":
            return {"as_of": self.first, "every": self.period, "until": now - self.latency}
        if self.policy == "push" and self.latency:
            return {"as_of": now - self.latency}
        return {}

    @property
    def oldest(self) -> int:
        """ns: nobody sees anything as it was before."""
        back = self.period if self.policy == "poll" else 0
        return self.run.engine.now - 2 * self.latency - back - 1

    @property
    def at_least(self) -> int:
        """ns that the messages of a search take that opens nobody."""
        return 2 * self.latency if self.policy == "pull" else 0

    @property
    def opening(self) -> int:
        """ns that it takes to open a neighbour."""
        return self.latency * (4 if self.policy == "pull" else 2)

    def takes(self, opened: Integers) -> Integers:
        """ns[k]: the messages of a search that opens so many neighbours, one after the other.

        Pull asks the neighbours first, and for each that is opened its neighbours in turn; else one that is
        opened has their schedules.
        """
        return self.at_least + opened * self.opening

    def searched(self, searchers: Integers, opened: Integers) -> None:
        """Count the schedules of searches that opened so many neighbours each."""
        got = opened * self.width
        if self.policy == "pull":
            got = got + self.width
        np.add.at(self.received, searchers, got)
        self.counts[1 if self.policy == "pull" else 3] += int(got.sum())

    def changed(self, nodes: Integers) -> None:
        """The schedules of `nodes` have changed: with push, who knows them is told."""
        if self.policy == "push":
            np.add.at(self.changes, nodes, 1)

    def _tell(self) -> None:
        """Count what changes have been pushed through the overlay as it is."""
        if self.policy != "push" or not self.changes.any():
            return
        known = self.views.views
        got = np.where(known >= 0, self.changes[known], 0).sum(axis=1)
        self.received += got
        self.counts[0] += int(got.sum())
        self.changes[:] = 0

    def _count_polls(self, nodes: Integers) -> None:
        if self.policy != "poll":
            return
        since = self.run.engine.now - (self.first[nodes] - self.latency)
        got = np.where(since >= 0, since // self.period + 1, 0) * self.width
        self.received[nodes] += got
        self.counts[2] += int(got.sum())

    def table(self) -> dict[str, NDArray[Any]]:
        """Of all kinds of exchange the schedules sent, and their bytes; for the end of the run."""
        self._tell()
        self._count_polls(np.flatnonzero(self.run.up))
        return {
            "kind": np.array(_KINDS),
            "schedules": self.counts.copy(),
            "bytes": self.counts * SCHEDULE,
        }
