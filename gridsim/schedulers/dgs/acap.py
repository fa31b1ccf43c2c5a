"""DGS_ACAP: a DGS_ASAP node whose jobs need machines that are close to one another.

It knows near nodes besides random ones, chooses the closest of the free candidates, and prefers the answer
whose machines are the closest.
"""

from __future__ import annotations

from typing import Any

from gridsim.model.attributes import mean_distance
from gridsim.schedulers.dgs.candidates import Candidates
from gridsim.schedulers.dgs.node import DgsNode
from gridsim.schedulers.dgs.proximity import closest
from gridsim.scheduling.nodes.program import View
from gridsim.support.clock import nanoseconds

#: Number of equal steps of the tolerated delay of a start; a start is tried after each step.
_STARTS = 60


class AcapNode(DgsNode):
    """A node of DGS_ACAP; it gets the places of candidates with their schedules."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        #: Number of slots by which a start may be delayed for closer machines.
        self.later = nanoseconds(parameters.tolerance) // self.slot

    def prefer(self, view: View, job: Any) -> None:
        """Move the closest of the answers that start within the tolerance to the front."""
        latest = job.answers[0][0] + self.later
        best = min((apart, start, order) for start, order, _, apart, _ in job.answers if start <= latest)
        place = next(k for k, answer in enumerate(job.answers) if answer[1] == best[2])
        job.answers.insert(0, job.answers.pop(place))

    def allocate(self, view: View, candidates: Candidates, request: Any) -> tuple[int, Any]:
        """Return the start whose free candidates are the closest, and these candidates."""
        tasks = request.tasks
        first, nodes = candidates.earliest(tasks)
        if first < 0:
            return first, nodes
        last, options = max(first, min(first + self.later, request.latest)), []
        for start in range(first, last + 1, max(1, self.later // _STARTS)):
            free = candidates.free_at(start)
            if len(free) >= tasks:
                nodes = free[closest(view.environment.places(free), tasks)]
                options.append((self.apart(view, nodes), start, nodes))
        _, start, nodes = min(options, key=lambda each: each[:2])
        return start, nodes

    def apart(self, view: View, nodes: Any) -> float:
        """Return the mean distance between pairs of `nodes`."""
        return mean_distance(view.environment.places(nodes)) if len(nodes) else 0.0
