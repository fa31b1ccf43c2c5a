"""The overlay of DGS_ASAP: neighbours of nodes, and their copies of their neighbours' schedules.

Schedules are not sent one by one in the simulation.  A node knows the schedule of another node as it was at a
time that follows from the policy.  The schedules that would be sent are counted.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcore.dgs.overlay import Views
from gridsim.engine.engine import TIMER
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, nanoseconds
from gridsim.support.state import Stateful

#: Number of cycles of CYCLON before the run, which make random views similar to later ones.
WARM_UP = 20
#: Size of a schedule in the table ``exchanges``, bytes.
SCHEDULE = 1024

_KINDS = ("push", "pull", "poll", "retrieve", "shuffle")


class Parameters(Protocol):
    """The parameters of `gridsim.DgsAsap` that the overlay uses."""

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

    Attributes
    ----------
    away
        bool[machines], whether the failure of each machine has been detected.
    received
        int64[machines], number of schedules that each machine has received, without those of shuffles.
    counts_failures
        Whether the exchanges caused by failures are counted here, and not by another process of an emulation.
    """

    STATE: ClassVar[tuple[str, ...]] = ("views", "away", "received", "counts", "changes", "first")

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
        #: Number of neighbours of a node while no machine has failed.
        self.width = min(parameters.degree, machines - 1)
        self.away, self.counts_failures = np.zeros(machines, np.bool_), True
        self.received = np.zeros(machines, np.int64)
        self.counts = np.zeros(len(_KINDS), np.int64)
        # for each node, the number of changes of its schedule since `_count_pushes` last ran
        self.changes = np.zeros(machines, np.int64)
        self.period = nanoseconds(parameters.poll_period)
        # for each node, the time at which its first poll reads the schedules of the neighbours
        phase = run.streams("dgs.polls").integers(self.period, size=machines)
        self.first = phase + latency
        self.dynamic = parameters.overlay == "cyclon"
        if self.dynamic:
            run.engine.on("shuffle", self.shuffle, priority=4, phase=TIMER)
            run.engine.every(nanoseconds(parameters.cycle), "shuffle")

    # -- neighbours of a node ---------------------------------------------------------------------------

    def draw(self, node: int, job: int, search: int, count: int) -> list[int]:
        """Draw up to `count` neighbours of `node` for a search, except nodes known to have failed."""
        away = self.away if self.run.faults else None
        _, chosen = self.views.pick([node], [job], [search], count, seed=self.seed, known_down=away)
        drawn: list[int] = chosen.tolist()
        return drawn

    def known_to(self, nodes: list[int]) -> Integers:
        """Return the neighbours of each of `nodes`, int64[k, degree]; -1 for none and for known failures."""
        rows = self.views.views[nodes].astype(np.int64)
        rows[self.away[rows]] = -1
        return rows

    def known(self) -> NDArray[Any]:
        """Return the neighbours of each node, whether up or down: integers[machines, k]; -1 for none."""
        return self.views.views

    def shuffle(self, _: list[int]) -> None:
        """Run a cycle of CYCLON; each new neighbour in a view sends its schedule, which is counted.

        `gridcore.dgs.overlay` implements the protocol: the partner is the oldest neighbour, which is removed
        from the view if it is down.  Schedules are counted with every policy, although only push uses them,
        so that the costs of an overlay do not depend on the policy.
        """
        self._count_pushes()
        *_others, new = self.views.cycle(self.run.up)
        self.counts[4] += new

    def leave(self, nodes: Integers) -> None:
        """Handle the failure of `nodes`, which their neighbours have not detected yet."""
        if self.counts_failures:
            self._count_polls(nodes)
        self.first[nodes] = NEVER
        if self.dynamic:
            self._count_pushes()
            self.views.leave(nodes)

    def join(self, nodes: Integers) -> None:
        """Handle the recovery of `nodes`, which poll or get schedules at once, and push their own."""
        self.away[nodes] = False
        self.first[nodes] = self.run.engine.now + self.latency
        if self.dynamic:
            self._count_pushes()
            up = np.flatnonzero(self.run.up)
            for node in nodes.tolist():
                others = up[up != node]
                if len(others) and not (self.views.views[node] >= 0).any():
                    # the node joins through the next machine by number that is up
                    introducer = int(others[np.searchsorted(others, node) % len(others)])
                    self.views.join(node, introducer, up=self.run.up)
        if self.counts_failures:
            self.push(nodes)

    # -- copies of schedules ----------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """Earliest time of a copy of a schedule that a node may use, ns.

        A search uses schedules as they were one latency before it, or at the poll before that.  The second
        latency is a margin.
        """
        back = self.period if self.policy == "poll" else 0
        return self.run.engine.now - 2 * self.latency - back - 1

    @property
    def at_least(self) -> int:
        """Time of the messages of a search that opens no neighbour, ns."""
        return 2 * self.latency if self.policy == "pull" else 0

    @property
    def opening_delay(self) -> int:
        """Time to open a neighbour, ns."""
        return self.latency * (4 if self.policy == "pull" else 2)

    def count_search(self, searcher: int, opened: int) -> None:
        """Count the schedules that a searcher has received in a search with `opened` opened neighbours.

        With pull, the neighbours of the searcher and of each opened node send it their schedules.  With the
        other policies, an opened node already has the schedules of its neighbours.
        """
        pull = self.policy == "pull"
        n_received = (opened + pull) * self.width
        self.received[searcher] += n_received
        self.counts[1 if pull else 3] += n_received

    def push(self, nodes: Any) -> None:
        """Handle changed schedules of `nodes`; with push, send them to all nodes that know `nodes`."""
        if self.policy == "push":
            np.add.at(self.changes, nodes, 1)

    def _count_pushes(self) -> None:
        """Count the schedules that were pushed since the overlay last changed."""
        if self.policy != "push" or not self.changes.any():
            return
        known = self.known()
        n_received = np.where(known >= 0, self.changes[known], 0).sum(axis=1)
        self.received += n_received
        self.counts[0] += int(n_received.sum())
        self.changes[:] = 0

    def counts_of_nodes(self) -> dict[str, NDArray[Any]]:
        """Return the counts caused by nodes, without polls and shuffles, which are equal in all processes."""
        counts = self.counts.copy()
        counts[[_KINDS.index("poll"), _KINDS.index("shuffle")]] = 0
        return {"received": self.received, "counts": counts, "changes": self.changes}

    def merge(self, received: Integers, counts: Integers, changes: Integers) -> None:
        """Add the counts from `counts_of_nodes` of another process."""
        self.received += received
        self.counts += counts
        self.changes += changes

    def _count_polls(self, nodes: Integers) -> None:
        if self.policy != "poll":
            return
        since = self.run.engine.now - (self.first[nodes] - self.latency)
        n_received = np.where(since >= 0, since // self.period + 1, 0) * self.width
        self.received[nodes] += n_received
        self.counts[2] += int(n_received.sum())

    def table(self) -> dict[str, NDArray[Any]]:
        """Return the table ``exchanges`` at the end of a run: schedules and bytes sent, by kind."""
        self._count_pushes()
        self._count_polls(np.flatnonzero(self.run.up))
        return {
            "kind": np.array(_KINDS),
            "schedules": self.counts.copy(),
            "bytes": self.counts * SCHEDULE,
        }
