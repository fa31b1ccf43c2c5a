"""The searchers of DGS_ASAP: neighbours of scheduling nodes that look at the schedules of nodes they know."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.dgs.protocol import ANSWER
from gridsim.schedulers.dgs.state import Shared
from gridsim.support.arrays import Integers, Rows

#: An answer that its searcher sends once its search has taken its time; ``asked`` is the ns of the request.
_FOUND = np.dtype([*ANSWER.descr, ("asked", "i8")])


class Searchers:
    """The part of a negotiation that searches."""

    def __init__(self, negotiation: Shared) -> None:
        self.of = negotiation

    def on_requests(self, rows: Rows) -> None:
        """Search for the requests that arrive, and answer at once or when the search has taken its time."""
        of = self.of
        now, neighbourhood = of.run.engine.now, of.neighbourhood
        jobs, searchers = rows["application"].copy(), rows["node"].copy()
        starts, nodes, opened, reached, earliest = self._look(jobs, searchers)
        neighbourhood.searched(searchers, opened)
        np.maximum.at(of.reached, jobs, reached)
        answers = np.empty(len(rows), _FOUND)
        answers["node"], answers["sender"], answers["application"] = rows["sender"], searchers, jobs
        answers["search"], answers["start"], answers["asked"] = rows["search"], starts, now
        for k, (_, searcher, job, search, _, _) in enumerate(answers.tolist()):
            if of.searches[job] == search and job in of.talks:
                of.talks[job].found[searcher] = nodes[k]
        takes = neighbourhood.takes(opened)
        if of.log is not None:
            of.log.looks(answers, opened, earliest, of.slot_at(now + 4 * of.one_way + takes))
        for wait in np.unique(takes).tolist():
            chosen = answers[takes == wait]
            if wait:
                # the rows wait at the searcher, so that it is the receiver
                chosen["node"], chosen["sender"] = chosen["sender"].copy(), chosen["node"].copy()
                of.run.engine.post(now + wait, "found", chosen)
            else:
                self._answer(chosen)

    def _look(
        self, jobs: Integers, searchers: Integers
    ) -> tuple[Integers, list[Integers], Integers, Integers, Integers]:
        """Search for `jobs` at `searchers`, for starts that leave time for all messages.

        Returns the starts (slots, -1 for none), the machines, how many neighbours were opened, how many
        machines were reached, and the slots from which on the searchers looked.
        """
        of = self.of
        now, neighbourhood, parameters = of.run.engine.now, of.neighbourhood, of.parameters
        applications, others = of.run.applications, parameters.candidates == "others"
        views, seen = neighbourhood.views.views, neighbourhood.seen()

        def search(which: Any, earliest: Any) -> Any:
            return of.schedules.search(
                views,
                searchers[which],
                applications.tasks[jobs[which]],
                of.length[jobs[which]],
                earliest,
                exclude=applications.submitter[jobs[which]] if others else -1,
                itself=not others,
                hops=parameters.hops,
                wide=parameters.wide == "widen",
                away=neighbourhood.away if of.run.faults else None,
                **seen,
            )

        # four messages must fit before the start: answer, commit, reply, and a cancellation that may follow
        ready = now + 4 * of.one_way
        earliest = np.full(len(jobs), of.slot_at(ready + neighbourhood.at_least))
        starts, offsets, chosen, reached, opened = search(slice(None), earliest)
        ends = offsets.tolist()
        nodes = [chosen[low:high] for low, high in zip(ends, ends[1:], strict=False)]
        while True:
            # openings take time, too: after many of them the first possible slot may be a later one
            waits = neighbourhood.takes(opened)
            late = np.flatnonzero((starts >= 0) & (starts * of.slot < ready + waits))
            if not len(late):
                return starts, nodes, opened, reached, earliest
            earliest[late] = np.maximum(starts[late] + 1, of.slot_at(ready + waits[late]))
            found = search(late, earliest[late])
            starts[late], reached[late], opened[late] = found[0], found[3], found[4]
            for k, i in enumerate(late.tolist()):
                nodes[i] = found[2][found[1][k] : found[1][k + 1]]

    def on_found(self, rows: Rows) -> None:
        """Send the answers of searches that are over; a searcher that has failed since sends none."""
        of = self.of
        still = of.run.up[rows["node"]] & (of.failures.last[rows["node"]] < rows["asked"])
        answers = rows[still].copy()
        answers["node"], answers["sender"] = answers["sender"].copy(), answers["node"].copy()
        self._answer(answers)

    def _answer(self, rows: Rows) -> None:
        of = self.of
        if len(rows):
            answers = np.empty(len(rows), ANSWER)
            for name in ANSWER.names or ():
                answers[name] = rows[name]
            if of.log is not None:
                of.log.answers(answers)
            of.run.network.send("answer", answers)
