"""What RJSS and its rivals do while they run: `gridcore.random_walk.walk` at work, and what comes out."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST
from gridcore.random_walk.walk import NEVER, RECORD, JobWalks
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.results.table import frozen
from gridsim.schedulers.rjss.decisions import note_walks
from gridsim.scheduling.contract import ARRIVALS, SCHEDULE, Outcome, Policy, Run
from gridsim.scheduling.overlays import random_neighbours
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS, nanoseconds

#: s to ask a node and hear from it, or as long as the network takes.
ProbeLatency = float | Literal["network"]
#: s that a search may take; the clock holds 2**61 ns.
LONGEST_SEARCH = 2e9
_KINDS = ("probe", "load", "job", "result")


class Walking(Policy):
    """Every task is a job that may move when it is released.

    name : of the scheduler, for what is refused.
    probes : nodes that it asks, at most.  degree : of the overlay on which it walks, None for independent
        draws.
    queued, pick, rule, local_threshold, remote_threshold, min_speed, printed : of
        `gridcore.JobWalks`.

    ScenarioError where a search would take more than `LONGEST_SEARCH`.
    """

    STATE: ClassVar[tuple[str, ...]] = ("walks",)
    takes_releases: ClassVar[bool] = True

    def __init__(
        self,
        run: Run,
        name: str,
        *,
        probes: int,
        probe_latency: ProbeLatency = 0.0,
        queued: bool = True,
        packet: int = 0,
        degree: int | None = None,
        pick: str = "first",
        rule: str = "exactly-one",
        local_threshold: float = 0.5,
        remote_threshold: float = 1.0,
        min_speed: float = 0.0,
        printed: bool = False,
    ) -> None:
        self.run, self.pick, self.rule, self.printed = run, pick, rule, printed
        self.local_threshold, self.remote_threshold = local_threshold, remote_threshold
        self.min_speed = min_speed
        applications, network = run.applications, run.network
        self.probes, single = probes, bool((applications.tasks == 1).all())
        #: Of each job its application; None where they are the same.
        self.application = None if single else np.repeat(np.arange(len(applications)), applications.tasks)
        data = np.zeros(len(applications), np.int64) if applications.data is None else applications.data
        # jobs and results are of any size: what a kind declares is the largest
        for priority, (kind, nbytes) in enumerate(
            zip(_KINDS, (packet, packet, *(2 * (int(data.max()),))), strict=True)
        ):
            network.kind(kind, RECORD, nbytes, self._unexpected, priority=priority, about="job")
        network.open(application_of=self.application)
        if probe_latency == "network":
            whole_way = network.network.latency + packet / network.network.bandwidth
            probe_latency = 2 * whole_way
        if max(1, probes) * probe_latency > LONGEST_SEARCH:
            raise ScenarioError(
                f"{name}.probe_latency must let {probes} nodes be asked within {LONGEST_SEARCH:g} s, "
                f"got {probe_latency!r} s for each"
            )
        neighbours = None
        if degree is not None:
            drawn = random_neighbours(len(run.speeds), degree, run.streams("walk overlay"))
            neighbours = drawn.astype(np.int32)
        self.rates = np.full(len(run.speeds), np.nan) if applications.rates is None else applications.rates
        self.walks = JobWalks(
            network.links,
            run.speeds,
            kinds=[network.number(kind)[0] for kind in _KINDS],
            release=self._of_jobs(applications.release_ns),
            node=self._of_jobs(applications.submitter),
            work=applications.sizes() if applications.unequal else self._of_jobs(applications.task_size),
            data=self._of_jobs(data),
            rate=self.rates,
            probes=probes,
            probe_time=nanoseconds(probe_latency),
            queued=queued,
            packet=packet,
            seed=int(run.streams("walk").integers(2**63)),
            neighbours=neighbours,
            pick=pick,
            rule=rule,
            local_threshold=local_threshold,
            remote_threshold=remote_threshold,
            min_speed=min_speed,
            printed=printed,
            log=0 if run.decisions is None else min(run.decisions.limit, LATEST),
        )
        network.run_by(self)

    def _of_jobs(self, column: NDArray[Any]) -> NDArray[Any]:
        return column if self.application is None else column[self.application]

    def _unexpected(self, rows: NDArray[Any]) -> None:
        raise AssertionError("the kernel hands over no message")

    def on_release(self, applications: list[int]) -> None:
        """Not called; see `Policy.takes_releases`."""
        raise AssertionError("the kernel reads releases itself")

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: nobody must ever be told."""
        return self.walks.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Let all come back, and report."""
        self.walks.advance(NEVER)
        self.walks.settle()
        if self.run.decisions is not None:
            note_walks(self.run.decisions, self)
        jobs, totals, applications = self.walks.jobs(), self.walks.totals(), self.run.applications
        which = np.arange(len(applications)) if self.application is None else self.application
        home, release = self._of_jobs(applications.submitter), self._of_jobs(applications.release_ns)
        moved = jobs["machine"] != home
        return Outcome(
            applications=self._by_application(jobs),
            machines={"busy": totals["busy"], "tasks": totals["done"], "peak_queue": totals["peak"]},
            tables={
                "jobs": {
                    "application": frozen(which),
                    "machine": jobs["machine"],
                    "probes": jobs["probes"],
                    "predicted": frozen(np.where(moved, jobs["predicted"] / NS, np.nan)),
                    "waited": frozen((jobs["start"] - jobs["arrived"]) / NS),
                    "turnaround": frozen((jobs["returned"] - release) / NS),
                }
            },
            facts={"nodes_asked": min(self.probes, len(self.run.speeds) - 1)},
            schedule=self._schedule(jobs, which) if self.run.record else {},
            arrivals=self._arrivals(jobs, which) if self.run.record else {},
        )

    def _by_application(self, jobs: dict[str, NDArray[Any]]) -> dict[str, Integers]:
        applications = self.run.applications
        first, finish = jobs["start"], jobs["end"]
        nodes = np.ones(len(applications), np.int64)
        if self.application is not None:
            begins = applications.offsets[:-1]
            first, finish = np.minimum.reduceat(first, begins), np.maximum.reduceat(finish, begins)
            pairs = np.unique(self.application * len(self.run.speeds) + jobs["machine"])
            nodes = np.bincount(pairs // len(self.run.speeds), minlength=len(applications))
        return {
            "first_start": first,
            "finish": finish,
            "completed": applications.tasks,
            "resubmitted": frozen(np.zeros(len(applications), np.int64)),
            "nodes_used": frozen(nodes),
        }

    def _schedule(self, jobs: dict[str, NDArray[Any]], which: Integers) -> dict[str, Integers]:
        """Tasks of an application that run on a machine without a gap are one row; see `Outcome.schedule`."""
        order = np.lexsort((jobs["start"], jobs["machine"]))
        machine, application = jobs["machine"][order].astype(np.int64), which[order]
        start, end = jobs["start"][order], jobs["end"][order]
        joined = (
            (machine[1:] == machine[:-1]) & (application[1:] == application[:-1]) & (start[1:] == end[:-1])
        )
        begins = np.flatnonzero(np.append(True, ~joined))
        tasks = np.diff(np.append(begins, len(order)))
        last = begins + tasks - 1
        columns = machine[begins], application[begins], tasks, start[begins], end[last], tasks
        return dict(zip(SCHEDULE, columns, strict=True))

    def _arrivals(self, jobs: dict[str, NDArray[Any]], which: Integers) -> dict[str, Integers]:
        """In the order in which they came; on a machine that is the order in which they start."""
        order = np.lexsort((jobs["start"], jobs["arrived"]))
        machine = jobs["machine"][order].astype(np.int64)
        columns = machine, which[order], np.ones_like(machine), jobs["arrived"][order]
        return dict(zip(ARRIVALS, columns, strict=True))
