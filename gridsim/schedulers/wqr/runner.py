"""Runs the node programs of WQR-FT on the event engine."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, ClassVar

import numpy as np

from gridsim.engine.engine import ACT, TIMER
from gridsim.schedulers.wqr.cycles import Computing, Copies
from gridsim.schedulers.wqr.decisions import note_decision
from gridsim.schedulers.wqr.node import SIGNALS, Server, Worker
from gridsim.schedulers.wqr.outcome import check_waiting, outcome
from gridsim.schedulers.wqr.rules import LONGEST, Predictions, Rules, too_long
from gridsim.schedulers.wqr.views import SERVER, ServerView, WorkerView
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Policy, Run
from gridsim.support.arrays import Rows
from gridsim.support.clock import NEVER


class Interpreted(Policy):
    """Runs one `Server`, on no machine, and a `Worker` on each machine.

    It passes on their signals, fires their timers, lets machines fail, and keeps the record of copies.
    """

    takes_blocks: ClassVar[bool] = True

    def __init__(self, parameters: Any, run: Run) -> None:
        self.run, self.parameters, feed = run, parameters, run.feed
        machines = len(run.speeds)
        self.offsets, self.sizes = run.applications.offsets, run.applications.sizes()
        self.rules = rules = Rules.of(parameters, math.inf if feed is None else feed.mean_up_time)
        self.chance = run.streams("wqr.order")
        self.seed = int(run.streams("wqr.replicas").integers(2**63))
        self.predictions = Predictions(parameters.prediction_error, run.streams("wqr.prediction"))
        self.computing = Computing(run.speeds, run.pace)
        self.copies = Copies(rules, self.computing)
        self.server, self.server_view = Server(rules), ServerView(self, SERVER)
        self.workers = [Worker(rules) for _ in range(machines)]
        self.views = [WorkerView(self, u) for u in range(machines)]
        self.timers: dict[int, tuple[int, str]] = {}  # node -> when its timer fires, and its name
        first = np.full(machines, NEVER, np.int64) if feed is None else feed.first
        # when each machine fails next, and when that is predicted
        self.fails: list[int] = first.tolist()
        self.until: list[int] = first.tolist() if feed is None else self.predictions.of(0, first).tolist()
        self.types: dict[str, Any] = {}
        for number, (kind, declared) in enumerate(SIGNALS.items()):
            self.types[kind] = namedtuple(kind, ("node", "sender", *declared.fields))
            handler = self._handler(kind)
            run.network.kind(kind, declared.dtype, 0, handler, priority=10 + number, signal=True)
        engine = run.engine
        engine.on("start", self._start, priority=10, phase=ACT)
        engine.on("work", self._fire, priority=10, phase=TIMER)
        engine.on("end", lambda _: engine.stop(), priority=FAULT_PRIORITY - 2, phase=TIMER)
        engine.on("change", self._change, priority=FAULT_PRIORITY - 1, phase=TIMER)
        engine.on("assign tasks", self._fire, priority=FAULT_PRIORITY + 1, phase=TIMER)
        engine.touch("start", range(machines))
        self._take()

    @property
    def now(self) -> int:
        """The simulated time, ns."""
        return self.run.engine.now

    # -- what views do --------------------------------------------------------------------------------------

    def draw(self) -> float:
        """Draw a number, uniform in [0, 1): SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
        mask = 2**64 - 1
        x = self.seed = (self.seed + 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return float((x ^ (x >> 31)) >> 11) * (1.0 / 9007199254740992.0)

    def signal(self, sender: int, to: int, kind: str, fields: dict[str, float]) -> None:
        """Send a signal; see `gridsim.engine.transport.Transport.kind`."""
        declared = SIGNALS[kind]
        row = (to, sender, *(fields[name] for name in declared.fields))
        self.run.network.send(kind, np.array([row], declared.dtype))

    def timer(self, node: int, after: int, name: str) -> None:
        """Set the timer of a node; if it has one, nothing changes."""
        at = self.now + after
        if at > LONGEST:
            raise OverflowError("a task ends after the last instant")
        if node not in self.timers:
            self.timers[node] = at, name
            self.run.engine.at(at, self._kind(node), node)

    def cancel(self, node: int) -> None:
        """Cancel the timer of a node, if it has one."""
        if node in self.timers:
            at, _ = self.timers.pop(node)
            self.run.engine.cancel(at, self._kind(node), node)

    @staticmethod
    def _kind(node: int) -> str:
        return "assign tasks" if node == SERVER else "work"

    def decide(self, action: str, application: int, task: int, machine: int, grounds: dict[str, int]) -> None:
        """Note a decision; see `gridsim.schedulers.wqr.decisions.note_decision`."""
        if machine >= 0 and grounds["lasts"] > NEVER - 1 - self.now:
            raise OverflowError("a task ends after the last instant")
        if self.run.decisions is not None:
            log, now, fails = self.run.decisions, self.now, self.fails[machine]
            note_decision(log, action, now, application, task, machine, fails=fails, **grounds)

    # -- what happens ---------------------------------------------------------------------------------------

    def _call(self, node: int, handler: str, *what: Any) -> None:
        """Call a handler of a node."""
        program: Any = self.server if node == SERVER else self.workers[node]
        view: Any = self.server_view if node == SERVER else self.views[node]
        try:
            getattr(program, handler)(view, *what)
        except OverflowError as error:
            raise too_long(self.parameters, self.rules) from error

    def on_release(self, applications: list[int]) -> None:
        """Give the tasks of `applications` to the server."""
        for i in applications:
            sizes = self.sizes[self.offsets[i] : self.offsets[i + 1]]
            self._call(SERVER, "on_release", i, sizes.tolist())

    def _handler(self, kind: str) -> Any:
        """Return the handler of a kind of signals: it calls the method ``on_<kind>`` of each receiver."""
        make, name = self.types[kind], f"on_{kind}"

        def deliver(rows: Rows) -> None:
            for row in rows.tolist():
                self._call(row[0], name, make(*row))
            if self.copies.completed == len(
                self.sizes
            ):  # end once other copies of the last task have ended, too
                self.run.engine.at(self.now, "end")

        return deliver

    def _start(self, machines: list[int]) -> None:
        for u in machines:
            self._call(u, "on_start")

    def _fire(self, nodes: list[int]) -> None:
        for node in nodes:
            _, name = self.timers.pop(node)
            self._call(node, "on_timer", name)

    # -- failures -------------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Take the next block of failures and recoveries."""
        block = None if self.run.feed is None else self.run.feed.take()
        self.changes: list[tuple[int, int, bool, int, int]] = []  # the last first
        if block is not None:
            told = self.predictions.of(block.time, block.until)
            columns = block.time, block.machine, block.up, block.until, told
            self.changes = list(zip(*(column.tolist() for column in columns), strict=True))[::-1]
            self.run.engine.at(self.changes[-1][0], "change")

    def _change(self, items: list[int]) -> None:
        """Let machines fail and recover: first all that fail at this instant, in order."""
        engine, back = self.run.engine, set()
        while self.changes and self.changes[-1][0] == self.now:
            _, u, recovers, fails, told = self.changes.pop()
            if recovers:
                back.add(u)
                self.fails[u], self.until[u] = fails, told
            else:
                self._call(u, "on_failure")
                self.cancel(u)
                self.workers[u] = Worker(self.rules)
                self.signal(u, SERVER, "failed", {})
        engine.touch("start", sorted(back))
        if self.changes:
            engine.at(self.changes[-1][0], "change")
            return
        self._take()
        if not self.changes and not self.run.up.any():
            engine.stop()

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Return the outcome; raise ScenarioError if with `as_printed` tasks wait for machine 0 for ever."""
        totals = self.copies.totals(self.run.applications, len(self.workers))
        check_waiting(
            self.parameters.name, self.run, self.rules, len(self.sizes) - int(totals["completed"].sum())
        )
        return outcome(self.run, self.rules, totals, self.copies.columns())
