"""The recipe of per-node job streams: every machine has users of its own, who submit one job after the
other."""

from __future__ import annotations

import msgspec
import numpy as np

from gridsim.arguments import normalise, real, whole
from gridsim.errors import ScenarioError
from gridsim.model import MOST_DATA, Columns
from gridsim.platform import Platform
from gridsim.room import OF_APPLICATION, check_room
from gridsim.streams import Streams, normal_factors

#: Jobs that a workload has at most.
MOST_JOBS = 2**31 - 1


class StreamRecipe(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="streams"
):
    """A Poisson process of jobs at every machine; the meaning of each field is told by
    `Workload.job_streams`."""

    seed: int
    horizon: float = 2000.0
    interarrival: float = 20.0
    processing_time: float = 30.0
    data: float = 5000.0
    variation: float = 0.2
    deviation: float = 0.2
    reference_speed: float | None = None

    def __post_init__(self) -> None:
        speed = self.reference_speed
        normalise(
            self,
            seed=whole("workload.seed", self.seed),
            horizon=real("workload.horizon", self.horizon, above=0, unit="s"),
            interarrival=real("workload.interarrival", self.interarrival, above=0, unit="s"),
            processing_time=real("workload.processing_time", self.processing_time, above=0, unit="s"),
            data=real("workload.data", self.data, low=0, unit="bytes"),
            variation=real("workload.variation", self.variation, low=0),
            deviation=real("workload.deviation", self.deviation, low=0),
            reference_speed=None
            if speed is None
            else real("workload.reference_speed", speed, above=0, unit="Mflop/s"),
        )

    def columns(self, platform: Platform) -> Columns:
        streams, nodes = Streams(self.seed), platform.nodes

        def of_machines(name: str, mean: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return mean * normal_factors(streams(f"workload.{name}"), self.variation, nodes)

        rates = of_machines("rates", 1 / self.interarrival)
        expected = float(rates.sum()) * self.horizon  # inf where it is too large for a float
        if not expected <= MOST_JOBS / 2:
            raise ScenarioError(
                f"workload.horizon must leave at most {MOST_JOBS // 2} jobs, got {expected:.3g} on average"
            )
        check_room("workload.horizon", round(expected), "jobs", OF_APPLICATION)
        draw = streams("workload.arrivals")
        counts = draw.poisson(rates * self.horizon)
        if not (total := int(counts.sum())):
            raise ScenarioError(
                f"workload.horizon must be long enough for a job, got {self.horizon!r} s, in which none came"
            )
        home = np.repeat(np.arange(nodes), counts)
        # of a Poisson process, given how many there are, each is anywhere with equal chance
        release = draw.uniform(0.0, self.horizon, total)
        work = of_machines("processing_times", self.processing_time)[home]
        work *= normal_factors(streams("workload.jobs"), self.deviation, total)
        work *= self.reference_speed or platform.aggregate_speed / nodes
        scale = of_machines("data", self.data)[home]
        data = np.ceil(streams("workload.data_of_jobs").exponential(scale))
        if (most := float(data.max())) > MOST_DATA:
            raise ScenarioError(
                f"workload.data must leave each job at most {MOST_DATA} bytes, got {most:g} with a mean of "
                f"{self.data:g}"
            )
        ones = np.ones(total, np.int64)
        return Columns(release, ones, work, home, data=data.astype(np.int64), rates=rates)
