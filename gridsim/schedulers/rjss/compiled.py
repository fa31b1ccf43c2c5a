"""The compiled form of RJSS and its rivals: runs `gridcore.random_walk.walk`, and reports the outcome."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gridcore.random_walk.walk import RECORD, JobWalks
from gridsim.engine.engine import Engine
from gridsim.schedulers.rjss.decisions import note_walks
from gridsim.schedulers.rjss.environment import RjssEnvironment
from gridsim.scheduling.contract import Outcome, Policy, Run
from gridsim.support.clock import NEVER, NS

_KINDS = ("probe", "load", "job", "result")


class CompiledWalks(Policy):
    """Runs all jobs in `gridcore.random_walk.walk`.

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
        tasks, jobs = environment.tasks, environment.tasks.applications
        data = np.zeros(len(jobs), np.int64) if jobs.data is None else jobs.data
        # jobs and results vary in size: their kinds declare the largest
        most = int(data.max())
        for priority, (kind, nbytes) in enumerate(zip(_KINDS, (packet, packet, most, most), strict=True)):
            network.kind(kind, RECORD, nbytes, None, priority=priority, about="job")
        network.open(application_of=tasks.application, carried=True)
        declared = parameters.messages_of(run)
        network.delays.update(
            {name: kind.delay / NS for name, kind in declared.items() if kind.delay is not None}
        )
        self.walks = JobWalks(
            network.links,
            run.speeds,
            kinds=[network.number(kind)[0] for kind in _KINDS],
            release=jobs.release_ns,
            node=jobs.submitter,
            work=jobs.size,
            data=data,
            rate=environment.rates,
            probes=environment.probes,
            probe_time=environment.probe_time,
            queued=parameters.dispatcher == "queue",
            packet=packet,
            seed=environment.seed,
            neighbours=environment.neighbours,
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
        """Not called; see `Policy.takes_releases`."""
        raise AssertionError("the kernel reads releases itself")

    def advance(self, limit: int) -> int:
        """Run the kernel up to `limit` ns; see `gridsim.engine.Source`.  No instant ever needs a handler."""
        return self.walks.advance(limit)

    def is_exhausted(self) -> bool:
        """Return whether the results of all jobs are back, see `gridsim.engine.Engine.is_exhausted`."""
        returned = self.walks.jobs()["returned"]
        return bool(returned.min() >= 0 and returned.max() <= self.run.engine.now)

    def collect(self, engine: Engine, time: int) -> None:
        """Do nothing, as nothing is ever due; see `gridsim.engine.Source`."""

    def finish(self) -> Outcome:
        """Run until all results are back, and return the outcome."""
        self.walks.advance(NEVER)
        self.walks.settle()
        environment, run = self.environment, self.run
        if run.decisions is not None:
            note_walks(run.decisions, environment, self.walks.looks(), self.walks.unlogged)
        jobs, totals = self.walks.jobs(), self.walks.totals()
        number, machine = np.arange(len(jobs["machine"])), jobs["machine"].astype(np.int64)
        ones = environment.tasks.applications.tasks
        # jobs of a machine start in this order, which matters only in the table of arrivals
        came = np.lexsort((jobs["start"], jobs["arrived"])) if run.record else slice(None)
        columns = {"machine": machine, "application": number, "tasks": ones}
        outcome = Outcome(
            applications={
                "first_start": jobs["start"],
                "finish": jobs["end"],
                "completed": ones,
                "resubmitted": np.zeros_like(number),
                "nodes_used": ones,
            },
            machines={"busy": totals["busy"], "tasks": totals["done"], "peak_queue": totals["peak"]},
            schedule={**columns, "start": jobs["start"], "end": jobs["end"], "completed": ones},
            arrivals={name: column[came] for name, column in {**columns, "time": jobs["arrived"]}.items()},
        )
        environment.tasks.join(outcome, len(run.speeds), record=run.record)
        environment.report(outcome, jobs)
        return outcome
