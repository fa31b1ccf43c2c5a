"""Runs the node programs of WQR-FT (`gridsim.schedulers.wqr.node`) on the message core."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gridcore.common.state import LATEST
from gridsim.engine.engine import TIMER
from gridsim.schedulers.wqr.cycles import COMPLETED, TABLES, Cycles, totals
from gridsim.schedulers.wqr.decisions import WORDS, seconds
from gridsim.schedulers.wqr.node import SIGNALS, Server, Worker
from gridsim.schedulers.wqr.outcome import check_waiting, outcome
from gridsim.schedulers.wqr.rules import Predictions, Rules, too_long
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.scheduling.nodes.layout import Layout
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER


@dataclass(frozen=True)
class Grid(Rules):
    """What all nodes are given.

    Parameters
    ----------
    server
        Its number; workers have those of their machines.
    cycles
        How fast machines compute.
    predicted
        Machine -> when it is predicted to fail, as it hears when it comes up, ns.
    assign_soon
        Let the server have its timer ``"assign"`` once everything else at this instant has happened.
    seed
        Of the choice among tasks that get a further copy.
    """

    server: int
    cycles: Cycles
    predicted: Callable[[int], int]
    assign_soon: Callable[[], None]
    seed: int


def declarations(true_until: TruthOf) -> Declarations:
    """Return the declarations of the node programs; `true_until` : returns the true value of a decision."""

    class Nodes(Declarations):
        name = "WQR-FT"
        messages = SIGNALS
        timers = ("restored", "written", "completed")
        local_order = "fifo"
        tables = TABLES
        decision_words = WORDS
        truths: ClassVar[Mapping[str, TruthOf]] = dict.fromkeys(
            ("started", "restarted", "replicated"), true_until
        )
        to_the_end = True

        def layout(self, machines: int) -> Layout:
            """Return the layout: a worker on each machine, and the server on none of them."""
            return Layout.with_server(machines)

    return Nodes()


class Submitted(NamedTuple):
    """An application as the server gets it."""

    number: int
    sizes: Floats  # of its tasks, Mflop


class Interpreted(Adapter):
    """The policy that runs a `Server`, and a `Worker` on each machine, and lets machines fail."""

    takes_blocks: ClassVar[bool] = True
    STATE = (*Adapter.STATE, "present", "predictions", "changes", "fails", "predicted", "assigning", "left")

    def __init__(self, parameters: Any, run: Run) -> None:
        self.of, self.run, feed, machines = parameters, run, run.feed, len(run.speeds)
        self.sizes, self.offsets = run.applications.sizes(), run.applications.offsets
        self.left = len(self.sizes)  # tasks that are not completed
        self.predictions = Predictions(parameters.prediction_error, run.streams("wqr.prediction"))
        #: ns, when each machine fails next, and when that is predicted
        self.fails = np.full(machines, NEVER) if feed is None else feed.first.copy()
        self.predicted = self.fails.copy() if feed is None else self.predictions.of(0, feed.first).copy()
        #: int64[k, 5], failures and recoveries still to come: when, of which machine, whether it recovers,
        #: and then when it fails next and when that is predicted
        self.changes = np.zeros((0, 5), np.int64)
        self.assigning = False  # whether the server assigns tasks at the end of this instant
        self.grid = Grid.of(
            parameters,
            run.speeds,
            math.inf if feed is None else feed.mean_up_time,
            server=machines,
            cycles=Cycles(run.speeds, run.load_profile),
            predicted=lambda machine: int(self.predicted[machine]),
            assign_soon=self._assign_soon,
            seed=int(run.streams("wqr.replicas").integers(2**63)),
        )
        super().__init__(declarations(self._true_until), run)
        self.present = self.up
        self._take()

    # -- what the adapter asks for ---------------------------------------------------------------------------

    def program(self, node: int) -> Server | Worker:
        """Make the program of a node."""
        if node == self.grid.server:
            return Server(self.grid, self.run.streams("wqr.order"))
        return Worker(self.grid, {})

    def neighbours(self) -> Integers:
        """Return no neighbours: the server knows all workers, and they know it."""
        return np.zeros((self.grid.server + 1, 0), np.int64)

    def application(self, index: int) -> Any:
        """Return an application with the sizes of its tasks."""
        return Submitted(index, self.sizes[self.offsets[index] : self.offsets[index + 1]])

    def note(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Note a copy that has ended; end the run with the last task."""
        super().note(node, table, values)
        self.left -= values["how"] == COMPLETED
        if not self.left:
            self.core.stop()

    def _true_until(self, truth: Truth, node: int, machine: int) -> tuple[float, float]:
        """Return the time until a machine fails, s, and the age of what the server knows of it."""
        return seconds(int(self.fails[machine]), self.now), 0.0

    # -- the order within an instant: tasks end, machines fail and recover, the server assigns ---------------

    def register_failure_timers(self) -> None:
        """Register what happens after everything else at an instant."""
        self.run.engine.on("change", self._change, priority=FAULT_PRIORITY - 1, phase=TIMER)
        self.run.engine.on("assign", self._assign, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        with self._in_time():
            return super().advance(limit)

    def _assign_soon(self) -> None:
        """See `Grid`."""
        if not self.assigning:
            self.assigning = True
            self.run.engine.at(self.now, "assign")
            self.core.wake(self.now)

    def _assign(self, _: list[int]) -> None:
        self.assigning = False
        with self._in_time():
            self.core.tick([self.grid.server], "assign", self.run.engine.now)

    @contextmanager
    def _in_time(self) -> Any:
        """Raise ScenarioError for a task that would end after the last instant."""
        try:
            yield
        except OverflowError as error:
            raise too_long(self.of, self.grid) from error

    def _take(self) -> None:
        """Take the next block of failures and recoveries, if there is one."""
        block = None if self.run.feed is None else self.run.feed.take()
        if block is not None:
            predicted = self.predictions.of(block.time, block.until)
            self.changes = np.stack((block.time, block.machine, block.up, block.until, predicted), axis=1)
            self.run.engine.at(int(block.time[0]), "change")

    def _change(self, _: list[int]) -> None:
        """Let the machines fail and recover that do so at this instant."""
        now = self.run.engine.now
        if now > LATEST:
            raise OverflowError("machines change after the last instant of the message core")
        count = int(np.searchsorted(self.changes[:, 0], now, side="right"))
        _, machine, up, fails, predicted = self.changes[:count].T
        self.changes = self.changes[count:]
        failed, back = machine[up == 0], machine[up == 1]
        self.fails[back], self.predicted[back] = fails[up == 1], predicted[up == 1]
        self.core.tick(failed, "fails", now)
        programs: list[Any] = self.core.programs
        self.core.restart(failed, [Worker(self.grid, programs[u].disk) for u in failed], now)
        self.up[failed], self.up[back] = False, True
        self.core.begin(back)
        if len(self.changes):
            self.run.engine.at(int(self.changes[0, 0]), "change")
            return
        self._take()
        if not len(self.changes) and not self.run.up[self.run.speeds >= self.grid.min_speed].any():
            self.run.engine.stop()

    # -- checkpoints, and the end ----------------------------------------------------------------------------

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        super().setstate(state)
        self.up[:] = self.present
        self.present = self.up

    def finish(self) -> Outcome:
        """Return the outcome; raise ScenarioError if with `as_printed` tasks wait for machine 0 for ever."""
        check_waiting(self.of.name, self.run, self.grid, self.left)
        copies = self.notes.tables()["copies"]
        total = totals(copies, len(self.run.applications), self.grid.cycles, self.grid)
        completed = (copies["how"] == COMPLETED).astype(np.int64)
        rows = {**copies, "bag": copies["application"], "completed": completed}
        return outcome(self.run, self.grid, total, rows)
