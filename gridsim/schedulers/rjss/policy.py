"""The policy of RJSS and its rivals: runs `gridcore.random_walk.walk`, compiled, and reports the outcome."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST
from gridcore.random_walk.walk import RECORD, JobWalks
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.results.table import frozen
from gridsim.schedulers.rjss.decisions import note_walks
from gridsim.scheduling.contract import ARRIVALS, SCHEDULE, Outcome, Policy, Run
from gridsim.scheduling.overlays import random_neighbours
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds

#: s to ask a node and hear from it; "network": as long as the network takes for that.
ProbeLatency = float | Literal["network"]
#: Longest time that a search may take, s; the clock holds 2**61 ns.
LONGEST_SEARCH = 2e9
_KINDS = ("probe", "load", "job", "result")


class Jobs:
    """The tasks of a run, each of which is a job that may move to another node, and how that is decided.

    Parameters
    ----------
    name
        Name of the scheduler, for error messages.
    probes
        Nodes that are asked about a job, at most.
    probe_latency
        s, or "network".
    degree
        Degree of the overlay on which probes walk; None: nodes are drawn independently.
    queued, packet, pick, rule, local_threshold, remote_threshold, min_speed, printed
        As in `gridcore.random_walk.walk.JobWalks`.

    Raises
    ------
    ScenarioError
        Where a search would take more than `LONGEST_SEARCH`.
    """

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
        self.min_speed, self.queued, self.packet, self.probes = min_speed, queued, packet, probes
        applications, network, nodes = run.applications, run.network.network, len(run.speeds)
        single = bool((applications.tasks == 1).all())
        #: Application of each job; None where every application is one job, so that the numbers are equal.
        self.application = None if single else np.repeat(np.arange(len(applications)), applications.tasks)
        #: Bytes of a job of each application, and of its result.
        self.data = np.zeros(len(applications), np.int64) if applications.data is None else applications.data
        #: Mflop of each job.
        self.work = applications.sizes() if applications.unequal else self.of_each(applications.task_size)
        if probe_latency == "network":
            probe_latency = 2 * (network.latency + packet / network.bandwidth)
        if max(1, probes) * probe_latency > LONGEST_SEARCH:
            raise ScenarioError(
                f"{name}.probe_latency must let {probes} nodes be asked within {LONGEST_SEARCH:g} s, "
                f"got {probe_latency!r} s for each"
            )
        #: ns from asking a node to its answer.
        self.probe_time = nanoseconds(probe_latency)
        self.neighbours: NDArray[np.int32] | None = None
        if degree is not None:
            drawn = random_neighbours(nodes, degree, run.streams("walk overlay"))
            self.neighbours = drawn.astype(np.int32)
        #: Steps of a search, at most.
        self.steps = min(probes, nodes - 1) if degree is None else probes
        self.rates = np.full(nodes, np.nan) if applications.rates is None else applications.rates
        self.seed = int(run.streams("walk").integers(2**63))
        #: The most rows of the log of searches; 0 for no log.
        self.log = 0 if run.decisions is None else min(run.decisions.limit, LATEST)

    def of_each(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return for each job the value of its application."""
        return column if self.application is None else column[self.application]


class Walking(Policy):
    """Runs all jobs in `gridcore.random_walk.walk`."""

    STATE: ClassVar[tuple[str, ...]] = ("walks",)
    takes_releases = True

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        run, network, applications = jobs.run, jobs.run.network, jobs.run.applications
        # jobs and results vary in size: their kinds declare the largest
        most = int(jobs.data.max())
        for priority, (kind, nbytes) in enumerate(
            zip(_KINDS, (jobs.packet, jobs.packet, most, most), strict=True)
        ):
            network.kind(kind, RECORD, nbytes, self._unexpected, priority=priority, about="job")
        network.open(application_of=jobs.application)
        self.walks = JobWalks(
            network.links,
            run.speeds,
            kinds=[network.number(kind)[0] for kind in _KINDS],
            release=jobs.of_each(applications.release_ns),
            node=jobs.of_each(applications.submitter),
            work=jobs.work,
            data=jobs.of_each(jobs.data),
            rate=jobs.rates,
            probes=jobs.probes,
            probe_time=jobs.probe_time,
            queued=jobs.queued,
            packet=jobs.packet,
            seed=jobs.seed,
            neighbours=jobs.neighbours,
            pick=jobs.pick,
            rule=jobs.rule,
            local_threshold=jobs.local_threshold,
            remote_threshold=jobs.remote_threshold,
            min_speed=jobs.min_speed,
            printed=jobs.printed,
            log=jobs.log,
        )
        network.hand_links_to(self)

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

    def finish(self) -> Outcome:
        """Run until all results are back, and return the outcome."""
        self.walks.advance(NEVER)
        self.walks.settle()
        if self.jobs.run.decisions is not None:
            note_walks(self.jobs.run.decisions, self.jobs, self.walks.looks(), self.walks.unlogged)
        totals = self.walks.totals()
        machines = {"busy": totals["busy"], "tasks": totals["done"], "peak_queue": totals["peak"]}
        return outcome_of(self.jobs, self.walks.jobs(), machines)


# -- the end --------------------------------------------------------------------------------------------


def outcome_of(of: Jobs, jobs: dict[str, NDArray[Any]], machines: dict[str, Integers]) -> Outcome:
    """Return the outcome of a run.

    Parameters
    ----------
    jobs
        Columns as those of `gridcore.random_walk.walk.JobWalks.jobs`.
    machines
        See `Outcome`.
    """
    run, applications = of.run, of.run.applications
    which = np.arange(len(applications)) if of.application is None else of.application
    home, release = of.of_each(applications.submitter), of.of_each(applications.release_ns)
    moved = jobs["machine"] != home
    return Outcome(
        applications=_by_application(of, jobs),
        machines=machines,
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
        facts={"nodes_asked": min(of.probes, len(run.speeds) - 1)},
        schedule=_schedule(jobs, which) if run.record else {},
        arrivals=_arrivals(jobs, which) if run.record else {},
    )


def _by_application(of: Jobs, jobs: dict[str, NDArray[Any]]) -> dict[str, Integers]:
    applications = of.run.applications
    first, finish = jobs["start"], jobs["end"]
    nodes = np.ones(len(applications), np.int64)
    if of.application is not None:
        begins = applications.offsets[:-1]
        first, finish = np.minimum.reduceat(first, begins), np.maximum.reduceat(finish, begins)
        pairs = np.unique(of.application * len(of.run.speeds) + jobs["machine"])
        nodes = np.bincount(pairs // len(of.run.speeds), minlength=len(applications))
    return {
        "first_start": first,
        "finish": finish,
        "completed": applications.tasks,
        "resubmitted": frozen(np.zeros(len(applications), np.int64)),
        "nodes_used": frozen(nodes),
    }


def _schedule(jobs: dict[str, NDArray[Any]], which: Integers) -> dict[str, Integers]:
    """Return `Outcome.schedule`; a row has tasks of an application that run without a gap on a node."""
    order = np.lexsort((jobs["start"], jobs["machine"]))
    machine, application = jobs["machine"][order].astype(np.int64), which[order]
    start, end = jobs["start"][order], jobs["end"][order]
    joined = (machine[1:] == machine[:-1]) & (application[1:] == application[:-1]) & (start[1:] == end[:-1])
    begins = np.flatnonzero(np.append(True, ~joined))
    tasks = np.diff(np.append(begins, len(order)))
    last = begins + tasks - 1
    columns = machine[begins], application[begins], tasks, start[begins], end[last], tasks
    return dict(zip(SCHEDULE, columns, strict=True))


def _arrivals(jobs: dict[str, NDArray[Any]], which: Integers) -> dict[str, Integers]:
    """Return `Outcome.arrivals` in order of arrival; on each machine, jobs start in this order."""
    order = np.lexsort((jobs["start"], jobs["arrived"]))
    machine = jobs["machine"][order].astype(np.int64)
    columns = machine, which[order], np.ones_like(machine), jobs["arrived"][order]
    return dict(zip(ARRIVALS, columns, strict=True))
