"""The policy of RJSS and its rivals: runs `gridcore.random_walk.walk` and reports the outcome."""

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

#: s to ask a node and hear from it; "network": as long as the network takes for that.
ProbeLatency = float | Literal["network"]
#: Longest time that a search may take, s; the clock holds 2**61 ns.
LONGEST_SEARCH = 2e9
_KINDS = ("probe", "load", "job", "result")


class Walking(Policy):
    """Runs every task as a job that may move to another node when it is released.

    name : name of the scheduler, for error messages.
    probes : nodes that are asked about a job, at most.
    degree : degree of the overlay on which probes walk; None: nodes are drawn independently.
    queued, pick, rule, local_threshold, remote_threshold, min_speed, printed : as in
        `gridcore.JobWalks`.

    Raises ScenarioError where a search would take more than `LONGEST_SEARCH`.
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
        #: Application of each job; None where every application is one job, so that the numbers are equal.
        self.application = None if single else np.repeat(np.arange(len(applications)), applications.tasks)
        data = np.zeros(len(applications), np.int64) if applications.data is None else applications.data
        # jobs and results vary in size: their kinds declare the largest
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
        """Run the kernel up to `limit` ns; see `gridsim.engine.Source`.  No instant ever needs a handler."""
        return self.walks.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """Do nothing, as nothing is ever due; see `gridsim.engine.Source`."""

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Run until all results are back, and return the outcome."""
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
        """Return `Outcome.schedule`; a row has tasks of an application that run without a gap on a node."""
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
        """Return `Outcome.arrivals` in order of arrival; on each machine, jobs start in this order."""
        order = np.lexsort((jobs["start"], jobs["arrived"]))
        machine = jobs["machine"][order].astype(np.int64)
        columns = machine, which[order], np.ones_like(machine), jobs["arrived"][order]
        return dict(zip(ARRIVALS, columns, strict=True))
