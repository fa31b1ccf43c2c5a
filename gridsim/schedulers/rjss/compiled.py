"""The compiled form of RJSS and its competitors, which runs `gridcore.random_walk.walk`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.random_walk.walk import RECORD, JobWalks
from gridsim.engine.engine import Engine
from gridsim.schedulers.rjss.decisions import note_walks
from gridsim.schedulers.rjss.environment import RjssEnvironment
from gridsim.scheduling.contract import Outcome, Policy, Run
from gridsim.support.clock import NEVER, NS

_KINDS = ("probe", "load", "job", "result")


class CompiledWalks(Policy):
    """Policy that runs all jobs in `gridcore.random_walk.walk`.

    Parameters
    ----------
    parameters
        A scheduler of `gridsim.schedulers.rjss.scheduler`.
    """

    STATE: ClassVar[tuple[str, ...]] = ("walks",)
    takes_releases = True

    def __init__(self, parameters: Any, run: Run) -> None:
        self.run, self.environment = run, RjssEnvironment(parameters, run)
        environment, network, packet = self.environment, run.network, parameters.load_packet
        tasks, submitted = environment.tasks, run.applications
        data = np.zeros(len(submitted), np.int64) if submitted.data is None else submitted.data
        sizes = submitted.task_sizes
        # jobs and results vary in size, so their kinds declare the maximum
        most = int(data.max())
        for priority, (kind, nbytes) in enumerate(zip(_KINDS, (packet, packet, most, most), strict=True)):
            network.kind(kind, RECORD, nbytes, None, priority=priority, about="job")
        network.open(application_of=tasks.application, carried=True)
        declared = parameters.messages_of(run)
        network.delays.update(
            {name: kind.delay / NS for name, kind in declared.items() if kind.delay is not None}
        )
        neighbours = environment.neighbours
        self.walks = JobWalks(
            network.links,
            run.speeds,
            kinds=[network.number(kind)[0] for kind in _KINDS],
            release=tasks.of_each(submitted.release_ns),
            node=tasks.of_each(submitted.submitter),
            work=tasks.of_each(submitted.task_size) if sizes is None else sizes,
            data=tasks.of_each(data),
            rate=environment.rates,
            probes=environment.probes,
            probe_time=environment.probe_time,
            queued=parameters.dispatcher == "queue",
            packet=packet,
            seed=environment.seed,
            neighbours=None if neighbours is None else neighbours.values,
            neighbour_offsets=None if neighbours is None else neighbours.offsets,
            cores=run.cores,
            pick=parameters.pick,
            rule=parameters.rule,
            local_threshold=parameters.local_threshold,
            remote_threshold=parameters.remote_threshold,
            min_speed=parameters.least_speed,
            printed=parameters.turnaround == "printed",
            log=environment.log.limit,
        )
        run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        """Raise an error, since releases are handled in the kernel."""
        raise AssertionError("on_release must not be called: the kernel reads releases itself")

    def advance(self, limit: int) -> int:
        """Run the kernel up to `limit` ns, and return NEVER, since no instant requires a handler."""
        return self.walks.advance(limit)

    def is_exhausted(self) -> bool:
        """Return whether the results of all jobs have returned."""
        returned = self.walks.jobs()["returned"]
        return bool(returned.min() >= 0 and returned.max() <= self.run.engine.now)

    def collect(self, engine: Engine, time: int) -> None:
        """Do nothing, since no event is ever due."""

    def finish(self) -> Outcome:
        """Run until all results have returned, and return the outcome."""
        self.walks.advance(NEVER)
        self.walks.settle()
        environment, run = self.environment, self.run
        if run.decisions is not None:
            note_walks(run.decisions, environment, self.walks.probe_rows(), self.walks.unlogged)
        jobs, totals = self.walks.jobs(), self.walks.totals()
        outcome = Outcome(
            applications=self._columns(jobs),
            machines={"busy": totals["busy"], "tasks": totals["done"], "peak_queue": totals["peak"]},
        )
        if run.record:
            ones, number = np.ones(len(jobs["machine"]), np.int64), np.arange(len(jobs["machine"]))
            columns = {"machine": jobs["machine"].astype(np.int64), "application": number, "tasks": ones}
            outcome.schedule = {**columns, "start": jobs["start"], "end": jobs["end"], "completed": ones}
            # jobs of a machine start in this order, which affects only the table of arrivals
            arrival_order = np.lexsort((jobs["start"], jobs["arrived"]))
            columns["time"] = jobs["arrived"]
            outcome.arrivals = {name: column[arrival_order] for name, column in columns.items()}
            environment.tasks.join_rows(outcome, merges=run.cores is None)
        environment.report(outcome, jobs)
        return outcome

    def _columns(self, jobs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the columns of the submitted applications.

        They are computed from the columns of the kernel, since columns of single tasks would take much
        memory.
        """
        tasks, submitted, nodes = self.environment.tasks, self.run.applications, len(self.run.speeds)
        start, finish, nodes_used = jobs["start"], jobs["end"], submitted.tasks  # one per task
        if tasks.application is not None:
            first = tasks.offsets[:-1]
            start, finish = np.minimum.reduceat(start, first), np.maximum.reduceat(finish, first)
            pairs = np.unique(tasks.application * nodes + jobs["machine"])
            nodes_used = np.bincount(pairs // nodes, minlength=len(submitted))
        return {
            "first_start": start,
            "finish": finish,
            "completed": submitted.tasks,
            "resubmitted": np.zeros(len(submitted), np.int64),
            "nodes_used": nodes_used,
        }
