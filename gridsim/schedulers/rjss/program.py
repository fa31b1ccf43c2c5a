"""Runs RJSS and its rivals as node programs: a `RjssNode` on each machine, each task as a job of its own.

The result is that of the compiled protocol, `gridcore.random_walk.walk`.  Two things differ.  The message
log has what is sent at one instant in the order of sending, where the protocol logs a packet when it arrives.
With a probe latency of 1 ns, a question takes no time, and is handled before the other events of its instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gridcore.random_walk.state import LOOKS, MOVES, STAYS
from gridsim.engine.engine import Engine
from gridsim.model.applications import Applications
from gridsim.schedulers.rjss.decisions import note_walks
from gridsim.schedulers.rjss.node import TABLES, RjssNode, messages
from gridsim.schedulers.rjss.policy import Jobs, outcome_of
from gridsim.scheduling.contract import Outcome
from gridsim.scheduling.nodes.adapter import Adapter, NodeScheduler
from gridsim.scheduling.nodes.program import Message
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful


class WalkNodes(NodeScheduler, frozen=True, kw_only=True):
    """What all nodes know, and how they are run.

    latency, bandwidth : of the network, ns and bytes/s.  probe_time : ns.  overlay : whether probes walk.
    log : whether nodes note what they ask and decide.
    The others are those of `gridsim.schedulers.rjss.policy.Jobs`.
    """

    policy: ClassVar[type[RjssNode]] = RjssNode
    local_order = "fifo"
    at_once = True
    to_the_end = True
    tables = TABLES

    kinds: Mapping[str, Message]
    probes: int
    probe_time: int
    queued: bool
    pick: str
    rule: str
    local_threshold: float
    remote_threshold: float
    min_speed: float
    printed: bool
    latency: int
    bandwidth: float
    seed: int
    overlay: bool
    log: bool

    @property
    def messages(self) -> Mapping[str, Message]:  # type: ignore[override]
        """See `NodeScheduler`."""
        return self.kinds


class Programs(Adapter):
    """The policy that runs `RjssNode` objects."""

    STATE = (*Adapter.STATE, "looks")

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, run = jobs, jobs.run
        self.looks = Looks(self, jobs.log)
        each, size = jobs.of_each, jobs.work
        alone = Applications(
            release_ns=each(run.applications.release_ns),
            release=each(run.applications.release),
            tasks=np.ones(len(size), np.int64),
            task_size=size,
            size=size,
            submitter=each(run.applications.submitter),
            data=each(jobs.data),
        )
        # when jobs came and started is always recorded, as the table of jobs has it
        super().__init__(self.declared(jobs), replace(run, applications=alone, record=True))

    def declared(self, jobs: Jobs) -> WalkNodes:
        """Return what all nodes know."""
        network = jobs.run.network.network
        return WalkNodes(
            kinds=messages(jobs.packet, jobs.probe_time),
            probes=jobs.steps,
            probe_time=jobs.probe_time,
            queued=jobs.queued and jobs.probe_time > 0,
            pick=jobs.pick,
            rule=jobs.rule,
            local_threshold=jobs.local_threshold,
            remote_threshold=jobs.remote_threshold,
            min_speed=jobs.min_speed,
            printed=jobs.printed,
            latency=nanoseconds(network.latency),
            bandwidth=network.bandwidth,
            seed=jobs.seed,
            overlay=jobs.neighbours is not None,
            log=jobs.log > 0,
        )

    def program(self, node: int) -> RjssNode:
        """See `Adapter`."""
        return RjssNode(self.parameters, float(self.jobs.rates[node]))

    def neighbours(self) -> Integers:
        """See `Adapter`."""
        drawn = self.jobs.neighbours
        return np.zeros((len(self.run.speeds), 0), np.int64) if drawn is None else drawn.astype(np.int64)

    def application_of(self) -> Integers | None:
        """See `Adapter`."""
        return self.jobs.application

    def note(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """See `Adapter`."""
        if table == "jobs":
            super().note(node, table, values)
        else:
            self.looks.note(node, table, values)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        engine.touch("pause", [0])

    def finish(self) -> Outcome:
        """Return the outcome; all results are back."""
        jobs, run = self.jobs, self.jobs.run
        if run.decisions is not None:
            note_walks(run.decisions, jobs, self.looks.columns(), self.looks.unlogged)
        noted, came, ran = self.notes.tables()["jobs"], self.queues.arrivals(), self.queues.schedule()
        count = len(jobs.work)
        columns = {name: np.zeros(count, np.int64) for name in ("arrived", "start", "end", "machine")}
        columns["arrived"][came["application"]] = came["time"]
        for name in ("start", "end", "machine"):
            columns[name][ran["application"]] = ran[name]
        for name in ("probes", "predicted", "returned"):
            columns[name] = np.zeros(count, np.int64)
            columns[name][noted["application"]] = noted[name]
        for name in ("machine", "probes"):
            columns[name] = columns[name].astype(np.int32)
        totals = self.queues.totals()
        peak = most_waiting(columns, len(run.speeds))
        return outcome_of(
            jobs, columns, {"busy": totals["busy"], "tasks": totals["tasks"], "peak_queue": peak}
        )


def most_waiting(jobs: Mapping[str, Integers], nodes: int) -> Integers:
    """Return how many jobs waited on each node at most, as seen by those that had to wait when they came."""
    peak = np.zeros(nodes, np.int64)
    order = np.lexsort((jobs["start"], jobs["machine"]))
    machine = jobs["machine"][order]
    for rows in np.split(order, np.flatnonzero(np.diff(machine)) + 1):
        start, arrived = jobs["start"][rows], jobs["arrived"][rows]
        waiting = np.arange(1, len(rows) + 1) - np.searchsorted(start, arrived, side="right")
        peak[jobs["machine"][rows[0]]] = waiting[start > arrived].max(initial=0)
    return peak


class Looks(Stateful):
    """The log of what nodes ask and decide, as `gridcore.random_walk.walk.JobWalks.looks` has it."""

    STATE = ("rows", "unheard", "unlogged")

    def __init__(self, grid: Programs, most: int) -> None:
        self.grid, self.most, self.unlogged = grid, most, 0
        self.rows: list[list[int]] = []
        self.unheard: dict[int, int] = {}  # job -> its row that has no answer yet

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Note what a node says of a question, of an answer, or of the end of a search."""
        job, now = values["application"], self.grid.core.now
        if table == "asked":
            row = dict(node=node, asked=now, heard=-1, home_free=-1, true_free=-1, **values)
            self._add(job, row, wanted=True)
        elif table == "heard":
            if (at := self.unheard.pop(job, None)) is not None:
                row = dict(zip(LOOKS, self.rows[at], strict=True))
                truth = self._free(row["node"])
                row |= {"heard": now, "home_free": values["home_free"], "true_free": truth}
                self.rows[at] = [row[name] for name in LOOKS]
        else:
            verdict = STAYS if values["node"] < 0 else MOVES
            truth = self._free(values["node"]) if verdict == MOVES else -1
            self._add(job, dict(asked=-1, heard=now, verdict=verdict, true_free=truth, count=0, **values))

    def _free(self, node: int) -> int:
        """Return when a node really is free, which no other node can see."""
        there = self.grid.nodes[node]
        assert isinstance(there, RjssNode)
        return there.free

    def _add(self, job: int, row: dict[str, int], *, wanted: bool = False) -> None:
        if len(self.rows) == self.most:
            self.unlogged += 1
            return
        if wanted:
            self.unheard[job] = len(self.rows)
        row["job"] = job
        self.rows.append([row[name] for name in LOOKS])

    def columns(self) -> dict[str, Integers]:
        """Return the rows as int64 columns."""
        rows: Any = np.array(self.rows, np.int64).reshape(-1, len(LOOKS)).T
        return dict(zip(LOOKS, rows, strict=True))
