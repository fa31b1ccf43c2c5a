"""DGS_ACAP: the differences from DGS_ASAP of a node whose jobs want machines that are close together.

It knows near nodes besides random ones, takes the closest of the candidates that are free, and prefers the
answer whose machines are the closest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsim.model.attributes import mean_distance
from gridsim.schedulers.dgs.candidates import Candidates
from gridsim.schedulers.dgs.node import DgsNode
from gridsim.schedulers.dgs.proximity import closest
from gridsim.scheduling.nodes.program import View
from gridsim.support.clock import nanoseconds

#: Number of steps into which the time by which a job may start later is divided; each step is tried.
_STARTS = 60


class AcapNode(DgsNode):
    """One node of DGS_ACAP; the places of candidates come with their schedules."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        #: Number of slots by which a job may start later to get machines that are closer together.
        self.later = nanoseconds(parameters.tolerance) // self.slot

    def prefer(self, view: View, job: Any) -> None:
        """Move the closest of the answers that start soon enough after the first one to the front."""
        latest = job.answers[0][0] + self.later
        best = min((apart, start, order) for start, order, _, apart, _ in job.answers if start <= latest)
        place = next(k for k, answer in enumerate(job.answers) if answer[1] == best[2])
        job.answers.insert(0, job.answers.pop(place))

    def allocate(self, view: View, candidates: Candidates, request: Any) -> tuple[int, Any]:
        """Return the start with the closest candidates, of some from the first one on, and these."""
        tasks = request.tasks
        first, nodes = candidates.earliest(tasks)
        if first < 0:
            return first, nodes
        last, found = max(first, min(first + self.later, request.latest)), []
        for start in range(first, last + 1, max(1, self.later // _STARTS)):
            free = candidates.free_at(start)
            if len(free) >= tasks:
                nodes = np.array(free)[closest(view.environment.places(free), tasks)]
                found.append((self.apart(view, nodes), start, nodes))
        _, start, nodes = min(found, key=lambda each: each[:2])
        return start, nodes

    def apart(self, view: View, nodes: Any) -> float:
        """Return the mean distance between two of `nodes`."""
        return mean_distance(view.environment.places(nodes)) if len(nodes) else 0.0
