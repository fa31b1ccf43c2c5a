"""The environment of RJSS's nodes in runs with owner absences, and the outcome of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.common.state import LATEST
from gridsim.engine.engine import TIMER
from gridsim.schedulers.rjss.environment import JOB_COLUMNS, RjssEnvironment, RjssView
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.nodes.ground_truth import Truth
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NEVER, NS


class VolunteerEnvironment(RjssEnvironment):
    """The services of the model to the nodes of a run with owner absences.

    The absences of owners come in blocks and do not affect the network: a machine whose owner is there can be
    reached.  At one instant, owner events come after all other events.  The run ends with the last result,
    which no node knows.

    Attributes
    ----------
    returns
        int64[machines], next return of each machine's owner, ns; 0 if the owner is there at the beginning.
    changes
        int64[k, 4], future owner events: time, machine, whether the owner leaves, and time of the next
        return.
    """

    reason = (
        "absences of owners do not depend on nodes, and exact predictions are the true times of their returns"
    )
    failure_model = "reachable"
    uses_queues = False
    results = "results"
    STATE = (*RjssEnvironment.STATE, "changes", "returns")

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        assert run.feed is not None
        self.feed, self.returns = run.feed, run.feed.first.copy()
        self.changes = np.zeros((0, 4), np.int64)
        #: Maximum number of jobs that waited at once on each node of other processes of an emulation.
        self.peaks = np.zeros(len(run.speeds), np.int64)

    def attach(self, adapter: Any) -> None:
        """Attach the environment to the adapter of a run, and set the timer of the first owner event."""
        super().attach(adapter)
        self.run.engine.on("change", self._change, priority=FAULT_PRIORITY - 1, phase=TIMER)
        self._take()

    def of_node(self, node: int) -> VolunteerView:
        """Return the environment of a node."""
        return VolunteerView(self, node)

    def _take(self) -> None:
        """Read the next block of owner events, if there is one."""
        block = self.feed.take()
        if block is not None:
            self.changes = np.stack((block.time, block.machine, block.up, block.until), axis=1)
            self.run.engine.at(int(block.time[0]), "change")

    def _change(self, _: list[int]) -> None:
        """Apply the owner events of this instant, and set the timer of the next events."""
        now = self.run.engine.now
        if now > LATEST:
            raise OverflowError(f"owner events must end before {LATEST / NS:g} s, got one at {now / NS:g} s")
        count = int(np.searchsorted(self.changes[:, 0], now, side="right"))
        _, machine, leaves, until = self.changes[:count].T
        self.changes = self.changes[count:]
        returned, left = machine[leaves == 0], machine[leaves == 1]
        self.returns[left] = until[leaves == 1]
        self.fire("owner-back", returned)
        self.fire("owner-gone", left)
        if len(self.changes):
            self.run.engine.at(int(self.changes[0, 0]), "change")
            return
        self._take()
        if not len(self.changes) and not self.run.up.any():
            self.run.engine.stop()

    def counts(self) -> dict[str, Any]:
        """Return the maximum number of jobs that waited on each node at once."""
        return {"peaks": np.array([node.peak for node in self.adapter.nodes], np.int64)}

    def merge(self, counts: dict[str, Any]) -> None:
        """Add the counts of the environment of another process."""
        np.maximum(self.peaks, counts["peaks"], out=self.peaks)

    def complete(self, outcome: Outcome) -> None:
        """Compute the outcome from the tables of job runs and results that the nodes have written."""
        runs, results, run = outcome.tables["runs"], outcome.tables["results"], self.run
        order = np.lexsort((runs["start"], runs["machine"]))
        runs = {name: column[order] for name, column in runs.items()}
        job, machine, start, end = (runs[name] for name in ("application", "machine", "start", "end"))
        is_whole, nodes = runs["completed"] == 1, len(run.speeds)
        jobs = {name: np.zeros(len(self.tasks.applications), np.int64) for name in JOB_COLUMNS}
        for name in ("machine", "arrived", "start", "probes", "predicted"):
            jobs[name][job[is_whole]] = runs[name][is_whole]
        jobs["returned"][results["application"]] = results["returned"]
        self.report(outcome, jobs)
        application = self.tasks.numbers[job]
        outcome.applications = self._columns(application, job, machine, start, end, is_whole)
        outcome.machines = {
            "busy": sums(machine, end - start, nodes),
            "tasks": np.bincount(machine[is_whole], minlength=nodes),
            "interrupted": np.bincount(machine[~is_whole], minlength=nodes),
            "peak_queue": np.maximum(self.peaks, self.counts()["peaks"]),
        }
        size = run.applications.size
        lost, zeros = np.zeros(len(size)), np.zeros(len(size))
        if self.parameters.on_return == "restart":
            ran = (end - start) / NS * run.speeds[machine]
            np.add.at(lost, application[~is_whole], ran[~is_whole])
        outcome.cycles = {
            "useful": size,
            "lost": lost,
            **dict.fromkeys(("redundant", "overhead", "slowed"), zeros),
        }
        outcome.schedule = {
            "machine": machine,
            "application": application,
            "tasks": np.ones_like(job),
            "start": start,
            "end": end,
            "completed": runs["completed"],
            "task": job - self.tasks.offsets[application],
            "begin": runs["begin"],
        }

    def _columns(
        self,
        application: Integers,
        job: Integers,
        machine: Integers,
        start: Integers,
        end: Integers,
        is_whole: Bools,
    ) -> dict[str, Integers]:
        """Return the columns of applications, from columns of the runs of their jobs."""
        tasks, nodes = self.run.applications.tasks, len(self.run.speeds)
        first, finish = np.full(len(tasks), NEVER), np.full(len(tasks), -1)
        np.minimum.at(first, application, start)
        np.maximum.at(finish, application[is_whole], end[is_whole])
        first[first == NEVER] = -1
        is_continued, has_moved = continuations(job, machine, start)

        def count(applications: Integers) -> Integers:
            return np.bincount(applications, minlength=len(tasks))

        return {
            "first_start": first,
            "finish": finish,
            "completed": count(application[is_whole]),
            "resubmitted": count(application[~is_whole]),
            "nodes_used": count(np.unique(application * nodes + machine) // nodes),
            "migrated": count(application[has_moved]),
            "resumed": count(application[is_continued & ~has_moved]),
            "undisturbed": tasks - count(self.tasks.numbers[np.unique(job[~is_whole])]),
        }


class VolunteerView(RjssView):
    """The services of the model to one node with an owner (`View.environment`).

    Attributes
    ----------
    has_owner
        Whether the owner is there when the run begins.
    """

    _environment: VolunteerEnvironment

    def __init__(self, environment: VolunteerEnvironment, node: int) -> None:
        super().__init__(environment, node)
        self.has_owner = bool(environment.feed.first[node] == 0)

    @property
    def owner_returns(self) -> int:
        """Time at which the owner returns, ns, for exact predictions."""
        return int(self._environment.returns[self._node])

    def end_if_over(self) -> None:
        """End the run if the results of all jobs have returned."""
        if self._environment.is_over():
            self._environment.adapter.core.stop()


def true_stay(truth: Truth, node: int, machine: int) -> float:
    """Return the time until the owner of a machine returns, s."""
    environment, now = truth.environment, truth.environment.adapter.now
    program: Any = truth.memory(machine)
    until = now if program.owner else int(environment.returns[machine])
    return np.inf if until == NEVER else (until - now) / NS


def sums(keys: Integers, values: Integers, count: int) -> Integers:
    """Return the sum of the values of each key: int64[count]."""
    total = np.zeros(count, np.int64)
    np.add.at(total, keys, values)
    return total


def continuations(job: Integers, machine: Integers, start: Integers) -> tuple[Bools, Bools]:
    """Return which runs of jobs were not the first run of their job, and which of these followed a move."""
    order = np.lexsort((start, job))
    is_continued, has_moved = np.zeros(len(job), np.bool_), np.zeros(len(job), np.bool_)
    is_same = job[order][1:] == job[order][:-1]
    is_continued[order[1:]] = is_same
    has_moved[order[1:]] = is_same & (machine[order][1:] != machine[order][:-1])
    return is_continued, has_moved
