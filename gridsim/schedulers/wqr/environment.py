"""The environment of WQR-FT's nodes: predictions, cycles, and the server's knowledge without messages."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gridsim.engine.engine import TIMER
from gridsim.schedulers.wqr.cycles import COMPLETED, TABLES, Cycles, settle, totals
from gridsim.schedulers.wqr.decisions import seconds
from gridsim.schedulers.wqr.outcome import check_waiting, outcome_of
from gridsim.schedulers.wqr.rules import Predictions, Rules
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER


class WorkQueueEnvironment(Environment):
    """The services of the model to the server and the workers of a run.

    Attributes
    ----------
    rules
        Values derived from the parameters.
    cycles
        The computing rate of each machine.
    failures, predicted
        int64[machines], next failure of each machine, and its predicted time, ns.
    failed
        The machines that fail now, while the nodes handle the timer ``"failure"``.
    left
        Number of tasks that are not completed.
    """

    reason = (
        "the server knows at once which machines fail, and assigns tasks at the end of each instant; "
        "background load slows machines"
    )
    STATE = "failures", "predicted", "predictions", "order_stream", "draws", "left", "is_dispatch_due"
    uses_queues = False

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.rules = Rules.of(parameters, run)
        speeds, feed = run.speeds.tolist(), run.feed
        self.speeds, self.server = speeds, len(speeds)
        self.server_nodes = np.array([self.server])
        self.cycles = [Cycles(u, speed, run.load_profile) for u, speed in enumerate(speeds)]
        self.sizes, self.offsets = run.applications.sizes(), run.applications.offsets
        self.left = len(self.sizes)
        self.order_stream = run.streams("wqr.order")
        self.predictions = Predictions(parameters.prediction_error, run.streams("wqr.prediction"))
        self.replica_seed, self.draws = int(run.streams("wqr.replicas").integers(2**63)), 0
        first = np.full(len(speeds), NEVER) if feed is None else feed.first
        self.failures = first.copy()
        self.predicted = first.copy() if feed is None else self.predictions.of(0, first).copy()
        self.failed = list[int]()
        self.is_dispatch_due = False
        #: Application -> task -> end (ns), for tasks that are completed according to the `row_count` rows of
        #: the record of copies that `is_over` has read.
        self.completed, self.row_count = dict[int, dict[int, int]](), 0

    def attach(self, adapter: Any) -> None:
        """Register the timer of the server that fires after all other events of an instant."""
        super().attach(adapter)
        self.run.engine.on("dispatch", self._dispatch, priority=FAULT_PRIORITY + 2, phase=TIMER)

    def of_node(self, node: int) -> ServerView | WorkerView:
        """Return the environment of the server or a worker."""
        return ServerView(self) if node == self.server else WorkerView(self.rules, self.cycles[node])

    # -- the order within an instant: tasks end, machines fail and recover, the server assigns tasks ---------

    def dispatch_last(self) -> None:
        """Fire the timer ``"dispatch"`` of the server after all other events of this instant."""
        if not self.is_dispatch_due:
            self.is_dispatch_due, now = True, self.adapter.now
            self.run.engine.at(now, "dispatch")
            self.adapter.core.wake(now)

    def _dispatch(self, _: list[int]) -> None:
        self.is_dispatch_due = False
        self.fire("dispatch", self.server_nodes)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Fire the timer ``"failure"`` of workers that fail, and then of the server."""
        if self.run.feed is not None:
            changes = self.run.feed.changes
            # as in the kernel, factors are drawn for whole blocks, including failures
            predicted, up = self.predictions.of(changes.time, changes.until), changes.up
            self.failures[changes.machine[up]] = changes.until[up]
            self.predicted[changes.machine[up]] = predicted[up]
        self.failed = failed.tolist()
        if self.failed:
            self.fire("failure", [*self.failed, self.server])

    def on_kill(self, nodes: Integers, since: int) -> None:
        """Record the ends of copies on killed workers, as if these had failed at `since` ns."""
        self.adapter.core.call_of_killed(nodes.tolist(), "on_failure", since)

    # -- information that only the model has
    # ------------------------------------------------------------------

    def uniform(self) -> float:
        """Draw a number in [0, 1), as the kernel does: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
        self.draws += 1
        mask = 2**64 - 1
        x = (self.replica_seed + self.draws * 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return float((x ^ (x >> 31)) >> 11) * (1.0 / 9007199254740992.0)

    def sizes_of(self, application: int) -> Floats:
        """Return the sizes of the tasks of an application, Mflop."""
        return self.sizes[self.offsets[application] : self.offsets[application + 1]]

    def time_until_failure(self, machine: int) -> float:
        """Return the time until a machine fails, s."""
        return seconds(int(self.failures[machine]), self.adapter.now)

    # -- the end ---------------------------------------------------------------------------------------------

    def complete_task(self, application: int, tasks_left: int) -> None:
        """Count a completed task; the last task of an application ends it, and the last of all the run."""
        self.left -= 1
        if not tasks_left and self.run.releases is not None:
            self.run.releases.end([application], self.adapter.now)
        if not self.left:
            self.adapter.core.stop()

    def is_over(self) -> bool:
        """Return whether all tasks are completed; the server may learn of the last completion later.

        The coordinator of an emulation learns of the ends of applications here.
        """
        names, rows = list(TABLES["copies"]), self.adapter.notes.rows["copies"]
        application, task, how, end = map(names.index, ("application", "task", "how", "end"))
        new_rows, self.row_count = rows[self.row_count :], len(rows)
        for row in new_rows:
            if row[how] == COMPLETED:
                i = row[application]
                self.completed.setdefault(i, {}).setdefault(row[task], row[end])
                if self.run.releases is not None and len(self.completed[i]) == self.run.applications.tasks[i]:
                    self.run.releases.end([i], max(self.completed[i].values()))
        return sum(map(len, self.completed.values())) == len(self.sizes)

    def end(self) -> None:
        """End the copies of completed tasks on machines that have not learned of the completion."""
        self.fire("over", range(self.server))

    def complete(self, outcome: Outcome) -> None:
        """Replace the outcome by one from the copies that ran, since machines have used no task queues.

        Raises
        ------
        ScenarioError
            If tasks wait forever while machines are up.
        """
        copies = settle(outcome.tables["copies"])
        left = len(self.sizes) - int((copies["how"] == COMPLETED).sum())
        check_waiting(self.parameters, self.run, self.rules, left)
        total = totals(copies, len(self.run.applications), self.cycles, self.rules)
        completed = (copies["how"] == COMPLETED).astype(np.int64)
        rows = {**copies, "bag": copies["application"], "completed": completed}
        run_outcome = outcome_of(self.run, self.rules, total, rows)
        for field in fields(run_outcome):
            setattr(outcome, field.name, getattr(run_outcome, field.name))


class ServerView:
    """The information that the server has without a message (`View.environment`).

    Attributes
    ----------
    rules
        Values derived from the parameters.
    speeds
        The speed of each machine, Mflop/s.
    """

    def __init__(self, environment: WorkQueueEnvironment) -> None:
        self._environment = environment
        self.rules, self.speeds = environment.rules, environment.speeds
        self.sizes_of, self.uniform = environment.sizes_of, environment.uniform
        self.dispatch_last, self.complete_task = environment.dispatch_last, environment.complete_task

    @property
    def failed(self) -> list[int]:
        """The machines that fail now."""
        return self._environment.failed

    @property
    def order_stream(self) -> np.random.Generator:
        """The random stream for the order of first starts of tasks, and for random task orders."""
        return self._environment.order_stream

    def predicted(self, machine: int) -> int:
        """Return the predicted time of the failure of a machine that is up, ns."""
        return int(self._environment.predicted[machine])


@dataclass(frozen=True)
class WorkerView:
    """The environment of a worker (`View.environment`).

    Parameters
    ----------
    rules
        Values derived from the parameters.
    cycles
        The computing rate of its machine.
    """

    rules: Rules
    cycles: Cycles
