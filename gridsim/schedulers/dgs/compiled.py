"""The adapter of the compiled nodes of DGS_ASAP, which behave like the node program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gridcore.dgs.negotiations import PLACED
from gridcore.dgs.nodes import DgsNodes
from gridsim.schedulers.dgs.node import pause
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.rigid_jobs import RigidAdapter, RigidNodeScheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds


class CompiledRecords(Sequence[Any]):
    """The records of all jobs, backed by columns of the compiled nodes.

    Attributes
    ----------
    nodes
        The compiled nodes.
    columns
        Name -> values of all jobs.
    """

    def __init__(self, nodes: DgsNodes, columns: dict[str, Any]) -> None:
        self.nodes, self.columns = nodes, columns | nodes.columns

    def __len__(self) -> int:
        return self.nodes.applications

    def __getitem__(self, number: Any) -> Any:
        return CompiledRecord(self, number)


class CompiledRecord:
    """The record of a job, with the used attributes of a `gridsim.schedulers.dgs.node.DgsRecord`."""

    def __init__(self, records: CompiledRecords, number: int) -> None:
        vars(self).update(_records=records, number=number)

    def __getattr__(self, name: str) -> Any:
        records: CompiledRecords = self._records
        if name in records.columns:
            return records.columns[name][self.number].item()
        if name == "nodes":
            return records.nodes.machines_of(self.number).tolist()
        return records.nodes.negotiation_of(self.number)[name]

    def __setattr__(self, name: str, value: Any) -> None:
        records: CompiledRecords = self._records
        records.columns[name][self.number] = value


class CompiledDgs(RigidAdapter):
    """The adapter of the compiled nodes, which leave rare cases to it.

    These cases are failures, and jobs that wait, outlive their reservations, are cancelled or are rejected.
    """

    compiled: DgsNodes
    records: CompiledRecords
    environment: Any

    def __init__(self, parameters: RigidNodeScheduler, run: Run) -> None:
        super().__init__(parameters, run)
        self._share()

    def new_records(self, parameters: RigidNodeScheduler, run: Run, lengths: Integers) -> Any:
        """Return an empty list, since `_compile` creates the records."""
        return ()

    def _compile(self) -> DgsNodes:
        #: Function that returns the time for which a job waits before it searches again, ns.
        self.pause = partial(pause, self.parameters)
        #: Function that removes past reservations.
        self.forget = self.environment.forget
        columns = self.job_columns()
        nodes = self.new_nodes(columns)
        if self.run.releases is not None:
            nodes.releases = self.run.releases
        self.records = CompiledRecords(nodes, columns)
        return nodes

    def job_columns(self) -> dict[str, Any]:
        """Return the constant columns of jobs."""
        times, jobs = self.environment.times, self.run.applications
        return {
            "tasks": jobs.tasks,
            "length": times.length,
            "run_time": self.runs.durations,
            "submitter": jobs.submitter,
            "group": jobs.group,
            "earliest": times.earliest,
            "latest": times.latest,
        }

    def new_nodes(self, jobs: dict[str, Any]) -> DgsNodes:
        """Create the compiled nodes from the columns of jobs."""
        parameters, run, environment = self.parameters, self.run, self.environment
        times, overlay = environment.times, environment.overlay
        return DgsNodes(
            len(run.speeds),
            len(run.applications),
            environment.schedules,
            overlay.views,
            jobs=jobs,
            settings={
                "slot": times.slot,
                "one_way": times.one_way,
                "latency": times.latency,
                "at_least": overlay.at_least,
                "opening": overlay.opening_delay,
                "period": overlay.period,
                "width": overlay.width,
                "seed": overlay.seed,
                **{name: getattr(parameters, name) for name in ("forward", "hops", "rounds", "tries")},
                "wide": parameters.wide == "widen",
                "keep": parameters.early == "keep",
                "others": parameters.candidates == "others",
                **{policy: parameters.policy == policy for policy in ("push", "pull", "poll")},
                "stale": times.stale,
                "record": run.record or self.runs.places is not None,
                "faults": run.faults,
                "patience": nanoseconds(parameters.patience),
            },
            suitable=run.applications.suited,
            adapter=self,
            log=None if run.decisions is None else environment.log,
        )

    def _share(self) -> None:
        """Share arrays between the compiled nodes and the environment."""
        self.compiled.share(**self.shared_arrays())
        self.environment.reach_counts = self.compiled.columns["reached"]

    def shared_arrays(self) -> dict[str, Any]:
        """Return the arrays that the compiled nodes change, and the arrays of the machines that are up."""
        overlay, runs = self.environment.overlay, self.runs
        return {
            "jobs": {name: getattr(runs, name) for name in ("first_start", "end", "done")},
            "nodes": {
                "received": overlay.received,
                "changes": overlay.changes,
                "first": overlay.first,
                "busy": runs.busy,
                "tasks": runs.tasks,
                "up": self.up,
                "away": overlay.away,
            },
            "counts": overlay.counts,
        }

    # -- calls of the compiled nodes ------------------------------------------------------------------------

    def outlives(self, job: int) -> None:
        """Handle the placement of a job that runs longer than its reservation."""
        self._place(job)
        self._watch_reservation(self.records[job])

    def record_run(self, job: int) -> None:
        """Record the completed run of a job, if it was interrupted before or the schedule is recorded."""
        machines = np.array(self.records[job].nodes, np.int64)
        self.runs.record_completion(job, machines)
        if job in self.runs.used:
            self.runs.used[job].update(machines.tolist())

    def _place(self, job: int) -> None:
        """Pass the run of a placed job to the accounting of runs."""
        record, slot = self.records[job], self.environment.times.slot
        machines = np.array(record.nodes, np.int64)
        self.runs.place(job, machines, record.start * slot, (record.start + record.length) * slot)

    # -- methods that replace those for records and programs ----------------------------------------------

    def call(self, handler: str, node: int, number: int, *arguments: int) -> None:
        """Call a handler of the compiled nodes about a job."""
        getattr(self.compiled, handler)(self.core, node, number, *arguments)

    def cancel_job(self, number: int) -> None:
        """Cancel a job on behalf of its user."""
        self._place_unless_known(self.records[number])
        super().cancel_job(number)

    def _lose(self, job: Any, machine: int, attempt: int) -> bool:
        if job.attempt == attempt:
            self._place_unless_known(job)
        return super()._lose(job, machine, attempt)

    def _place_unless_known(self, job: Any) -> None:
        """Pass the run of a placed job to the accounting of runs, unless it outlives its reservation."""
        is_known = self.runs.durations[job.number] > job.length * self.environment.times.slot
        if job.phase == PLACED and not is_known:
            self._place(job.number)

    def end_if_over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
        if self.compiled.n_unfinished == 0:
            self.core.stop()
            self.run.engine.stop()

    # -- checkpoints, and the end ---------------------------------------------------------------------------

    def records_state(self) -> Any:
        """Return nothing, since the compiled nodes have the records."""
        return []

    def set_records(self, records: Any) -> None:
        """Do nothing, since the compiled nodes have the records."""

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned, and share its arrays again."""
        super().setstate(state)
        self._share()

    def column(self, name: str) -> Integers:
        """Return an attribute of all records."""
        column: Integers = self.records.columns[name]
        return column
