"""The environment of DGS_ASAP's nodes: slot schedules, the copies that nodes have of them, and the overlay.

Schedules are not sent one by one in the simulation (`gridsim.schedulers.dgs.neighbourhood`), and CYCLON
shuffles all views at once.  So nodes get the copies of other schedules from `DgsView`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from gridcore.dgs.decision_log import DgsDecisionLog
from gridcore.dgs.slots import SlotSchedules
from gridcore.dgs.state import claimant, claimed
from gridsim.schedulers.dgs.candidates import Candidates
from gridsim.schedulers.dgs.jobs import Absences, Times, add_overlay
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.slots import MachineSlots
from gridsim.support.arrays import Integers

#: Time of the schedules in a cache that has received none yet; such schedules count as empty.
NO_INSTANT = -(2**62)
#: Methods with which a node changes the slots of its machine.
_SLOT_CHANGES = ("reserve", "extend", "release")
#: Interval between removals of past reservations, ns.
_FORGET_INTERVAL = 3600 * 10**9


class NoLog:
    """A recorder of decisions that records nothing."""

    def __getattr__(self, name: str) -> Any:
        return self._nothing

    @staticmethod
    def _nothing(*_: Any, **_columns: Any) -> None:
        pass


class DgsEnvironment(Environment):
    """The schedules and the overlay of a run.

    Attributes
    ----------
    schedules
        The slot schedules of all machines.
    overlay
        The neighbours of nodes, and the exchange of schedules between them.
    reach_counts
        int64[jobs], maximum number of nodes that a search for each job has reached.
    answer_bases
        Job -> searcher -> data on which its answer is based, for the record of decisions; scheduling nodes do
        not know them.
    """

    reason = "the exchange of schedules is counted and not sent one by one"
    STATE = "schedules", "overlay", "absences", "next_forget", "reach_counts", "answer_bases"
    shared = ("change_slots",)

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.times = Times(parameters, run)
        self.overlay: Neighbourhood = parameters.make_overlay(run, self.times.latency)
        self.schedules = SlotSchedules(len(run.speeds), stale=self.times.stale)
        self.absences = Absences(run, parameters, self.overlay)
        self.next_forget = 0
        self.reach_counts = np.zeros(len(run.applications), np.int64)
        self.answer_bases: dict[int, dict[int, tuple[Any, int, int]]] = {}
        #: The recorder of decisions.
        self.log: Any = NoLog() if run.decisions is None else DgsDecisionLog(self, run.decisions)

    @property
    def now(self) -> int:
        """The current simulated time, ns."""
        now: int = self.adapter.now
        return now

    def in_charge(self, job: Any) -> int:
        """Return the node in charge of a job, or its submitter's node if no machine is up."""
        node: int = self.adapter.in_charge(job)
        return int(job.submitter) if node < 0 else node

    @property
    def records(self) -> list[Any]:
        """The records of all jobs."""
        records: list[Any] = self.adapter.records
        return records

    def slots(self, node: int) -> MachineSlots:
        """Return the slot schedule of a node's machine."""
        return MachineSlots(
            self.schedules, node, lambda: self.now, self.adapter.keeper.stop, self._share_slots
        )

    def _share_slots(self, method: str, *values: int) -> None:
        self.share("change_slots", self.now, _SLOT_CHANGES.index(method), *values)

    def change_slots(
        self, since: int, method: int, machine: int, application: int, attempt: int, start: int, value: int
    ) -> None:
        """Repeat a change of a machine's slots by its node at `since` ns, unless the node has failed since.

        Parameters
        ----------
        method
            Index of the method of `MachineSlots`; the further parameters are its arguments.
        """
        if since <= self.absences.last[machine]:
            return
        key = claimed(application, attempt)
        if _SLOT_CHANGES[method] == "reserve":
            self.schedules.reserve([machine], [start], [value], [key], since)
        elif _SLOT_CHANGES[method] == "extend":
            self.schedules.extend(machine, start, value, key, since)
        else:
            self.schedules.release([machine], [start], since, ends=[value], jobs=[key])

    def of_node(self, node: int) -> DgsView:
        """Return the view that a node has of schedules and the overlay."""
        return DgsView(self, node)

    def forget(self) -> int:
        """Remove past reservations if it is due; return when it is due next, ns.

        Reservations that end now are kept, since they may still be extended.
        """
        if self.now >= self.next_forget:
            self.schedules.forget(max(0, self.now // self.times.slot - 1), self.overlay.oldest)
            self.next_forget = self.now + _FORGET_INTERVAL
        return self.next_forget

    def counts(self) -> dict[str, Any]:
        """Return the counts of the nodes in this process."""
        return {"reached": self.reach_counts, **self.overlay.counts_of_nodes()}

    def merge(self, counts: dict[str, Any]) -> None:
        """Add the counts of the environment of another process."""
        np.maximum(self.reach_counts, counts.pop("reached"), out=self.reach_counts)
        self.overlay.merge(**counts)

    def complete(self, outcome: Outcome) -> None:
        """Add the counts of the overlay to the outcome."""
        outcome.applications["reached"] = self.reach_counts
        if "cancelled" in outcome.applications:  # this is the last column, as in the compiled form
            outcome.applications["cancelled"] = outcome.applications.pop("cancelled")
        add_overlay(outcome, self.overlay)

    # -- failures -------------------------------------------------------------------------------------------

    def reservations_of(self, machines: Integers) -> Iterator[tuple[int, int, int]]:
        """Remove the reservations of machines that fail, and iterate over (machine, job, attempt)."""
        now = self.run.engine.now
        nodes, claims, *_ = self.schedules.lose(machines, now // self.times.slot, now)
        jobs, attempts = claimant(claims)
        yield from zip(nodes.tolist(), jobs.tolist(), attempts.tolist(), strict=True)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Remove failed machines from the overlay, and add recovered machines."""
        self.overlay.counts_failures = self.process is None
        self.absences.on_faults(failed, recovered)

    def resume(self) -> None:
        """Set the timers of failures that have not been detected yet."""
        self.absences.resume()


class DgsView:
    """The schedules and the overlay as one node sees them (`View.environment`).

    Parameters
    ----------
    environment
        The environment of the run.
    node
        The node.
    """

    def __init__(self, environment: DgsEnvironment, node: int) -> None:
        self._environment, self._node = environment, node
        self._overlay = environment.overlay
        #: The recorder of decisions, which does not affect the run.
        self.log = environment.log
        #: The durations of steps of the protocol.
        self.times = environment.times

    # -- the overlay ----------------------------------------------------------------------------------------

    def draw(self, job: int, search: int, count: int) -> list[int]:
        """Draw up to `count` neighbours for a search, except nodes known to have failed.

        Since every search begins with this call, it also removes past reservations.
        """
        self._environment.forget()
        return self._overlay.draw(self._node, job, search, count)

    def places(self, nodes: Any) -> Any:
        """Return the places of nodes, float64[k, 2], which are sent with their schedules."""
        attributes = self._environment.run.attributes
        assert attributes is not None and attributes.places is not None
        return attributes.places[nodes]

    # -- schedules ------------------------------------------------------------------------------------------

    def candidates(
        self, request: Any, start: int, excluded: set[int], *, own_claim: tuple[int, int] | None = None
    ) -> Candidates:
        """Return the neighbours as candidates for a job that starts in slot `start` or later.

        Parameters
        ----------
        request
            The request of the job, with ``length`` and ``group``.
        excluded
            Nodes that are neither candidates nor opened.
        own_claim
            The job and its attempt whose reservations count as free; None for no job.
        """
        suited = self._environment.run.applications.suited
        candidates = Candidates(
            partial(self._neighbours_seen, self._environment.now),
            self._environment.schedules,
            request.length,
            start,
            excluded,
            None if suited is None else suited[request.group],
            None if own_claim is None else claimed(*own_claim),
        )
        candidates.start_at(self._node)
        return candidates

    def _neighbours_seen(self, now: int, nodes: list[int]) -> tuple[Integers, Integers]:
        """Return the neighbours of each of `nodes`, and the times of their copies of the schedules, ns.

        A node's own schedule is always current.
        """
        known = self._overlay.known_to(nodes)
        as_of = np.array([self._seen_at(node, now) for node in nodes], np.int64)
        return known, np.where(known == self._node, now, as_of[:, None])

    def _seen_at(self, node: int, now: int) -> int:
        """Return the time of the copies of schedules in the cache of `node`, ns (section III-C).

        Push: neighbours send each change.  Pull: each search requests the schedules when it begins.  Poll:
        `node` requests them periodically.
        """
        policy = self._environment.parameters.policy
        if policy == "pull":
            return now
        arrived = now - self.times.latency
        if policy == "push":
            return arrived
        first, period = int(self._overlay.first[node]), self._overlay.period
        return first + (arrived - first) // period * period if first <= arrived else NO_INSTANT

    def search_time(self, opened: int) -> int:
        """Return the time that the messages of a search take if it opens `opened` nodes, ns."""
        return self._overlay.at_least + opened * self._overlay.opening_delay

    def count_search(self, job: int, candidates: Candidates) -> None:
        """Count the schedules that a search has received, and the nodes that it has reached."""
        self._overlay.count_search(self._node, candidates.opened)
        reach_counts = self._environment.reach_counts
        reach_counts[job] = max(reach_counts[job], len(candidates.nodes))

    def publish(self) -> None:
        """Send the changed schedule of this node to all nodes that know it, if the policy is push."""
        self._overlay.push(self._node)
