"""DGS_ACAP: what a node of DGS_ASAP does differently where jobs want machines that are close to one another.

It knows near nodes besides random ones, takes the closest of the candidates that are free, and prefers the
answer whose machines are the closest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.attributes import mean_distance
from gridsim.schedulers.dgs.interpreted import Interpreted
from gridsim.schedulers.dgs.jobs import Jobs
from gridsim.schedulers.dgs.node import Candidates, DgsNode, Job
from gridsim.schedulers.dgs.proximity import Proximity, closest
from gridsim.scheduling.contract import Run
from gridsim.support.clock import nanoseconds

#: Into so many steps the time is divided that a job may start later; a start is tried after each.
_STARTS = 60


class AcapNode(DgsNode):
    """One node of DGS_ACAP; the places of candidates come with their schedules."""

    overlay: Proximity

    def __init__(self, parameters: Any, jobs: Jobs, overlay: Proximity, log: Any) -> None:
        super().__init__(parameters, jobs, overlay, log)
        #: Slots that a job may start later for machines that are closer to one another.
        self.later = nanoseconds(parameters.tolerance) // self.times.slot

    def prefer(self, job: Job) -> None:
        """Move the closest answer to the front, of those that start soon enough after the first one."""
        latest = job.answers[0][0] + self.later
        best = min((apart, start, order) for start, order, _, apart, _ in job.answers if start <= latest)
        place = next(k for k, answer in enumerate(job.answers) if answer[1] == best[2])
        job.answers.insert(0, job.answers.pop(place))

    def allocate(self, candidates: Candidates, job: Any) -> tuple[int, Any]:
        """Return the start with the closest candidates, of some from the first one on, and these."""
        tasks = job.tasks
        first, _ = candidates.earliest(tasks)
        last, found = max(first, min(first + self.later, job.latest)), []
        for start in range(first, last + 1, max(1, self.later // _STARTS)):
            free = candidates.free_at(start)
            if len(free) >= tasks:
                nodes = np.array(free)[closest(self.overlay.places[free], tasks)]
                found.append((self.apart(nodes), start, nodes))
        _, start, nodes = min(found, key=lambda each: each[:2])
        return start, nodes

    def apart(self, nodes: Any) -> float:
        """Return the mean distance between two of `nodes`."""
        return mean_distance(self.overlay.places[nodes]) if len(nodes) else 0.0


class Acap(Interpreted):
    """All nodes of a run of DGS_ACAP."""

    overlay: Proximity

    def make_overlay(self, run: Run) -> Proximity:
        """See `Interpreted`.  Raises ScenarioError if machines have no places."""
        if run.attributes is None or run.attributes.places is None:
            raise ScenarioError(
                f"platform.attributes must give machines places (side, or x and y) for {self.of.name}, "
                "got none"
            )
        return Proximity(run, self.of, self.times.latency, run.attributes.places)

    def program(self, node: int) -> AcapNode:
        """See `Adapter`."""
        return AcapNode(self.of, self, self.overlay, self.log)
