"""Runs RJSS and resource exclusion where owners come and go: a `VolunteerNode` on each machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST
from gridsim.engine.engine import TIMER, Engine
from gridsim.errors import CompileError, ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.results.table import frozen
from gridsim.schedulers.rjss.decisions import VOLUNTEER_WORDS
from gridsim.schedulers.rjss.policy import Jobs
from gridsim.schedulers.rjss.program import Programs, WalkNodes
from gridsim.schedulers.rjss.volunteer import TABLES, VolunteerNode, messages
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome
from gridsim.scheduling.nodes.ground_truth import Decider, Truth, TruthOf
from gridsim.scheduling.nodes.source import CorePolicy
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS


class VolunteerNodes(WalkNodes, frozen=True, kw_only=True):
    """What all nodes know, and how they are run.

    Parameters
    ----------
    on_return, predictor, prefer, state
        See `gridsim.schedulers.rjss.scheduler.Rjss`.
    retry
        ns until a search for a job without a place is repeated.
    packet
        Bytes of a question.
    returns
        Node -> ns, when its owner really returns, for exact predictions.
    true_stay
        Returns for how long an owner is really away, for the record of decisions.
    """

    policy: ClassVar[type[VolunteerNode]] = VolunteerNode
    timers = ("ran", "retry")
    tables = TABLES
    decision_words: ClassVar[DecisionTexts] = VOLUNTEER_WORDS

    on_return: str
    predictor: str
    prefer: str
    state: int
    retry: int
    packet: int
    returns: Callable[[int], int]
    true_stay: TruthOf

    @property
    def truths(self) -> Mapping[str, TruthOf]:  # type: ignore[override]
        """See `gridsim.scheduling.nodes.adapter.NodeScheduler`."""
        return dict.fromkeys(("sent", "kept"), self.true_stay)


class Volunteers(Programs):
    """The policy that runs the nodes, and lets owners come and go.

    The outages of the machines are taken in blocks, and the network hears nothing of them: a machine whose
    owner is there can be reached.  At one instant all else happens first.
    """

    takes_blocks: ClassVar[bool] = True
    STATE = (*Programs.STATE, "changes", "fails")

    def __init__(self, jobs: Jobs, options: Mapping[str, Any]) -> None:
        run, self.options = jobs.run, options
        if jobs.neighbours is not None:
            raise ScenarioError("overlay must be None where owners come and go, got a degree")
        if jobs.probes < 1:
            raise ScenarioError("k must be above 0 where owners come and go, so that jobs can leave")
        if run.nodes == "compiled":
            raise CompileError("nodes whose owners come and go run interpreted only")
        assert run.feed is not None
        #: When the owner of each machine returns next, ns; 0 if it is there at the beginning.
        self.fails = run.feed.first.copy()
        self.owners = (self.fails == 0).tolist()
        #: int64[k, 4], changes still to come: when, of which machine, whether the owner leaves, and then when
        #: the owner returns.
        self.changes = np.zeros((0, 4), np.int64)
        super().__init__(jobs)
        self._take()

    def declared(self, jobs: Jobs) -> VolunteerNodes:
        """See `Programs`."""
        known = super().declared(jobs)
        same = {name: getattr(known, name) for name in WalkNodes.__struct_fields__}
        return VolunteerNodes(
            **{**same, "kinds": messages(jobs.packet, jobs.probe_time)},
            **self.options,
            packet=jobs.packet,
            returns=lambda node: int(self.fails[node]),
            true_stay=self._true_stay,
        )

    def program(self, node: int) -> VolunteerNode:
        """See `gridsim.scheduling.nodes.adapter.Adapter`."""
        return VolunteerNode(self.parameters, float(self.jobs.rates[node]), self.owners[node])

    def make_decider(self) -> Decider:
        """See `gridsim.scheduling.nodes.adapter.Adapter`."""
        return JobDecider(self)

    def _true_stay(self, truth: Truth, node: int, machine: int) -> tuple[float, float]:
        """Return the time until the owner of a machine is back, s, and the age of what a node knows of it."""
        there = self.nodes[machine]
        assert isinstance(there, VolunteerNode)
        until = self.now if there.owner else int(self.fails[machine])
        stay = np.inf if until == NEVER else (until - self.now) / NS
        return stay, 0.0 if machine == node else (self.jobs.probe_time - self.jobs.probe_time // 2) / NS

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`: the run ends with the last result."""
        CorePolicy.collect(self, engine, time)

    # -- owners ---------------------------------------------------------------------------------------------

    def register_failure_timers(self) -> None:
        """Register what happens after everything else at an instant."""
        self.run.engine.on("change", self._change, priority=FAULT_PRIORITY - 1, phase=TIMER)

    def _take(self) -> None:
        """Take the next block of changes, if there is one."""
        block = None if self.run.feed is None else self.run.feed.take()
        if block is not None:
            self.changes = np.stack((block.time, block.machine, block.up, block.until), axis=1)
            self.run.engine.at(int(block.time[0]), "change")

    def _change(self, _: list[int]) -> None:
        """Let owners return and leave at this instant."""
        now = self.run.engine.now
        if now > LATEST:
            raise OverflowError("owners come and go after the last instant of the message core")
        count = int(np.searchsorted(self.changes[:, 0], now, side="right"))
        _, machine, leaves, until = self.changes[:count].T
        self.changes = self.changes[count:]
        back, gone = machine[leaves == 0], machine[leaves == 1]
        self.fails[gone] = until[leaves == 1]
        self.core.tick(back, "owner-back", now)
        self.core.tick(gone, "owner-gone", now)
        if len(self.changes):
            self.run.engine.at(int(self.changes[0, 0]), "change")
            return
        self._take()
        if not len(self.changes) and not self.run.up.any():
            self.run.engine.stop()

    # -- checkpoints, and the end ---------------------------------------------------------------------------

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        super().setstate(state)
        self.up[:] = True  # all can be reached

    def note(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Note that a job ran, or that its result is back; end the run with the last one."""
        self.notes.add(node, table, values)
        if len(self.notes.rows["jobs"]) == len(self.jobs.work):
            self.core.stop()

    def finish(self) -> Outcome:
        """Return the outcome."""
        noted = self.notes.tables()
        nodes: Any = self.nodes
        peak = np.array([node.peak for node in nodes], np.int64)
        restarts = self.parameters.on_return == "restart"
        return outcome_of_runs(self.jobs, noted["runs"], noted["jobs"], peak, restarts)


class JobDecider(Decider):
    """Records decisions on jobs, which the nodes number through all applications."""

    def note(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """See `Decider`."""
        jobs: Jobs = self.grid.jobs  # type: ignore[attr-defined]
        job = application
        if jobs.application is not None:
            application = int(jobs.application[job])
        columns["task"] = job - int(jobs.run.applications.offsets[application])
        super().note(node, action, application, columns)


def outcome_of_runs(
    of: Jobs, runs: dict[str, NDArray[Any]], back: dict[str, NDArray[Any]], peak: Integers, restarts: bool
) -> Outcome:
    """Return the outcome of a run.

    Parameters
    ----------
    runs, back
        The tables ``runs`` and ``jobs`` of the nodes.
    peak
        Most jobs that waited on each node.
    restarts
        Whether what an interrupted job has done is lost.
    """
    run, applications, count = of.run, of.run.applications, len(of.run.applications)
    runs = {name: column[np.lexsort((runs["start"], runs["machine"]))] for name, column in runs.items()}
    job, machine, start, end = (runs[name] for name in ("application", "machine", "start", "end"))
    which = np.arange(count) if of.application is None else of.application
    bag, whole, nodes = which[job], runs["completed"] == 1, len(run.speeds)
    ran = (end - start) / NS * run.speeds[machine]
    lost = np.zeros(count)
    if restarts:
        np.add.at(lost, bag[~whole], ran[~whole])
    of_each = job_columns(of, runs, back, whole)
    first, finish = np.full(count, NEVER), np.full(count, -1)
    np.minimum.at(first, bag, start)
    np.maximum.at(finish, bag[whole], end[whole])
    first[first == NEVER] = -1

    def per_bag(rows: NDArray[Any]) -> Integers:
        return np.bincount(rows, minlength=count)

    again, moved = continued(job, machine, start)
    return Outcome(
        applications={
            "first_start": first,
            "finish": finish,
            "completed": per_bag(bag[whole]),
            "resubmitted": per_bag(bag[~whole]),
            "nodes_used": per_bag(np.unique(bag * nodes + machine) // nodes),
            "migrated": per_bag(bag[moved]),
            "resumed": per_bag(bag[again & ~moved]),
            "undisturbed": applications.tasks - per_bag(which[np.unique(job[~whole])]),
        },
        machines={
            "busy": added(machine, end - start, nodes),
            "tasks": np.bincount(machine[whole], minlength=nodes),
            "interrupted": np.bincount(machine[~whole], minlength=nodes),
            "peak_queue": peak,
        },
        tables={"jobs": of_each},
        facts={"nodes_asked": min(of.probes, nodes - 1)},
        cycles={
            "useful": applications.size,
            "lost": lost,
            **{name: np.zeros(count) for name in ("redundant", "overhead", "slowed")},
        },
        schedule={
            "machine": machine,
            "application": bag,
            "tasks": np.ones_like(job),
            "start": start,
            "end": end,
            "completed": runs["completed"],
            "task": job - applications.offsets[bag],
            "begin": runs["begin"],
        },
    )


def added(of: Integers, values: Integers, count: int) -> Integers:
    """Return the sums of `values` by what they are `of`, int64[count]."""
    total = np.zeros(count, np.int64)
    np.add.at(total, of, values)
    return total


def continued(
    job: Integers, machine: Integers, start: Integers
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which runs of jobs were not their first, and which of these were on another machine before."""
    order = np.lexsort((start, job))
    again, moved = np.zeros(len(job), np.bool_), np.zeros(len(job), np.bool_)
    same = job[order][1:] == job[order][:-1]
    again[order[1:]] = same
    moved[order[1:]] = same & (machine[order][1:] != machine[order][:-1])
    return again, moved


def job_columns(
    of: Jobs, runs: dict[str, NDArray[Any]], back: dict[str, NDArray[Any]], whole: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return the table ``jobs``: of each job the run that completed it, and when its result was back."""
    applications = of.run.applications
    which = np.arange(len(applications)) if of.application is None else of.application
    home, release = of.of_each(applications.submitter), of.of_each(applications.release_ns)
    job, count = runs["application"][whole], len(of.work)

    def column(name: str) -> Integers:
        values = np.zeros(count, np.int64)
        values[job] = runs[name][whole]
        return values

    machine, returned = column("machine"), np.zeros(count, np.int64)
    returned[back["application"]] = back["returned"]
    predicted: Floats = np.where(machine != home, column("predicted") / NS, np.nan)
    return {
        "application": frozen(which),
        "machine": machine.astype(np.int32),
        "probes": column("probes").astype(np.int32),
        "predicted": frozen(predicted),
        "waited": frozen((column("start") - column("arrived")) / NS),
        "turnaround": frozen((returned - release) / NS),
    }
