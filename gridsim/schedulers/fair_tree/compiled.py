"""Runs the compiled protocol of the fair tree, which does the same as the node program."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gridcore.fair_tree.protocol import SHARE, FairTreeProtocol
from gridcore.fair_tree.shared_flow import SharedFairTreeProtocol
from gridcore.fair_tree.summary_tree import REQUEST, SPREAD, SUMMARY, SummaryTree
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import ACT, TIMER, Engine
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.schedulers.fair_tree.decisions import TreeLog
from gridsim.schedulers.fair_tree.outcome import Found, ended, outcome_of, together
from gridsim.schedulers.fair_tree.recovery import Recovery
from gridsim.scheduling.contract import Outcome, Policy, Run
from gridsim.scheduling.overlays import tree_level, tree_machines, tree_parts
from gridsim.support.arrays import Floats, Rows
from gridsim.support.clock import NEVER, nanoseconds


class Compiled(Policy):
    """The nodes of a run, whose messages and reports `gridcore.fair_tree.protocol.FairTreeProtocol` handles.

    It leaves to Python what happens at set times: releases, heartbeats, and failures with what follows from
    them.
    """

    STATE = ("bags", "tree", "queues", "flow", "recovery", "accepted", "reported")

    def __init__(self, parameters: Any, grid: SummaryGrid, run: Run) -> None:
        self.parameters, self.grid, self.run = parameters, grid, run
        machines, applications = len(run.speeds), run.applications
        engine, network = run.engine, run.network
        summary_bytes = parameters.summary_bytes(grid.cells)
        cell = nanoseconds(parameters.release_cell)
        self.tree = SummaryTree(
            grid,
            run.speeds,
            release=applications.release,
            size=applications.size,
            task_size=applications.task_size,
            nbytes=summary_bytes,
            rate=parameters.update_rate,
            hold_off=nanoseconds(parameters.hold_off),
            accept=parameters.accept,
            bound=parameters.bound,
            unknown=parameters.unknown_minimum,
            common_release=cell > 0,
        )
        self.queues = TaskQueues(
            run.speeds,
            tolerance=parameters.tolerance if parameters.stretch == "bisection" else 0.0,
            watch="completion" if parameters.update_on == "completion" else "idle",
            log=True,
            record=run.record,
        )
        self.queues.add_applications(applications.release, applications.size, applications.task_size)
        self.bags = Bags(applications, self._add)
        self.first_leaf = self.tree.first_leaf
        self.leaves = np.arange(self.first_leaf, self.tree.nodes)
        self.to_place = int(applications.tasks.sum())
        # tasks of which submitters have been told
        self.accepted = np.zeros(len(applications), np.int64)
        self.reported = np.zeros(len(applications), np.int64)

        # Messages are handled in this order at one instant: summaries, then spreads, then requests.
        network.kind("summary", SUMMARY, summary_bytes, None, priority=10, keep=True, opaque=("payload",))
        network.kind("spread", SPREAD, parameters.spread_bytes, None, priority=11, opaque=("copy",))
        network.kind(
            "request",
            REQUEST,
            parameters.request_bytes,
            None,
            priority=12,
            lost=self.on_lost_request,
            opaque=("copy",),
        )
        network.kind("accept", SHARE, parameters.accept_bytes, self.on_accept, priority=13, deferred=True)
        network.kind(
            "completion", SHARE, parameters.completion_bytes, self.on_completion, priority=14, deferred=True
        )
        engine.on("act", self.act, priority=11, phase=ACT)
        engine.on("heartbeat", self.beat, priority=20, phase=TIMER)
        engine.every(nanoseconds(parameters.heartbeat), "heartbeat")
        for kind, period, priority in (
            ("cell", cell, 21),
            ("refresh", nanoseconds(parameters.refresh), 22),
        ):
            if period:
                engine.on(kind, self.refresh, priority=priority, phase=TIMER)
                engine.every(period, kind)
        # before the network sends what comes after it in the order of kinds
        engine.at_wave_end(self._post_spread)
        network.open(tree_machines(machines), tree_level(np.arange(self.tree.nodes)))
        self.log: TreeLog | None = None
        if run.decisions is not None:
            self.log = TreeLog(run, run.decisions, self.bags)
        #: The compiled protocol.
        self.flow = (SharedFairTreeProtocol if run.share else FairTreeProtocol)(
            self.tree,
            self.queues,
            network.links,
            **{kind: network.number(kind) for kind in ("summary", "spread", "request", "accept")},
            idle_minimum=parameters.idle_minimum(run.speeds),
            submitter=applications.submitter + self.first_leaf,
            goal=NEVER if run.faults else self.to_place,
            run_on=parameters.run_on,
            spread_on_change=parameters.spread == "change",
            cell=cell,
            log=None if self.log is None else (run.up, self.log.speed_below),
            observe=network.notify_observer if network.observed else None,
            threads=run.threads,
        )
        if (share := run.share) and isinstance(self.flow, SharedFairTreeProtocol):
            parts = tree_parts(machines, share.ranks)
            self.flow.join(parts, share.rank, share.ranks, share.memory, share.watch)
            share.leave = self.flow.leave
        network.hand_links_to(self)
        if self.log is not None:
            self.log.read(self.flow)
            engine.at_wave_end(partial(self.log.read, self.flow))
        self.recovery: Recovery | None = None
        if run.faults:
            self.recovery = Recovery(
                run,
                self.tree,
                self.queues,
                partial(self.submit, again=True),
                self.touch,
                heartbeat=parameters.heartbeat,
                detection=parameters.detection,
                repair=parameters.repair,
            )
        # A leaf that joins is a change, so at the start every leaf reports to its parent.
        self.touch(self.leaves)

    def _add(self, release: Floats, size: Floats, task_size: Floats, whose: Rows) -> None:
        """Add further bags to the tree, the queues and the compiled protocol; see `Bags`."""
        self.tree.add_applications(release, size, task_size)
        self.queues.add_applications(release, size, task_size, whose=whose)
        self.flow.add_submitters(self.run.applications.submitter[whose] + self.first_leaf)

    # -- as a source of the engine, behind the network ----------------------------------------------------

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        return self.flow.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`; lost requests have been posted already."""
        self._stop()

    def _stop(self) -> None:
        """End the run once all tasks are placed, unless it is to go on."""
        if self.flow.placed_at < NEVER and not self.parameters.run_on:
            self.run.engine.stop()

    # -- events of the engine -----------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Send the requests of `applications`, which are released now, into the tree."""
        self.submit(applications, self.run.applications.tasks[applications])
        self.run.network.drain()

    def submit(self, applications: Any, tasks: Any, again: bool = False) -> None:
        """Send requests for `tasks` of `applications` from the machines that submit them.

        Parameters
        ----------
        again
            Whether the tasks were lost and are submitted again.
        """
        submitter = self.run.applications.submitter[applications]
        if again and self.parameters.resubmit == "new":
            applications = self.bags.again(applications, tasks, self.run.engine.now)
        if self.recovery is not None:
            submitter = self.recovery.stand_in[submitter]
        leaf = submitter + self.first_leaf
        rows = np.zeros(len(applications), REQUEST)
        if self.first_leaf == 0:
            rows["node"] = leaf
        elif self.parameters.entry == "own-router":
            rows["node"] = np.where(submitter < self.first_leaf, submitter, (leaf - 1) // 2)
        else:
            rows["node"] = (leaf - 1) // 2
        rows["sender"] = leaf
        rows["application"] = applications
        rows["tasks"] = tasks
        rows["sequence"] = -1
        rows["minimum"] = rows["largest_minimum"] = np.nan
        rows["copy"] = rows["made"] = -1
        if self.log is not None:
            self.log.submitted(self.flow, rows, self.host(rows["node"]), again)
        self.run.network.send("request", rows)

    def host(self, nodes: Any) -> Any:
        """Return the machines on which `nodes` sit now."""
        nodes = np.asarray(nodes)
        router = nodes < self.first_leaf
        machines = np.where(router, nodes, nodes - self.first_leaf)
        if self.recovery is None or not self.first_leaf:
            return machines
        return np.where(router, self.recovery.host[np.where(router, nodes, 0)], machines)

    def touch(self, nodes: Rows) -> None:
        """Let `nodes` report to their parents, once all that arrives now has arrived."""
        if len(nodes):
            self.flow.touch(nodes, self.run.engine.now)
            self.run.engine.touch("act", (0,))

    def act(self, _: list[int]) -> None:
        """Let nodes order their queues and report."""
        self.flow.act(self.run.engine.now)
        self._stop()

    def beat(self, _: list[int]) -> None:
        """Handle a heartbeat: leaves report completed tasks, and the root spreads the minimum stretch."""
        run = self.run
        machines, applications, tasks, _ends = self.queues.advance(run.engine.now)
        if len(machines):
            rows = np.empty(len(machines), SHARE)
            rows["node"] = run.applications.submitter[applications] + self.first_leaf
            rows["sender"] = machines + self.first_leaf
            rows["application"] = applications
            rows["tasks"] = tasks
            run.network.send("completion", rows)
        if not self.flow.total(len(machines)) and self.flow.total(self.queues.tasks_done) == self.to_place:
            run.engine.stop()  # all machines were idle at the last heartbeat and reported it then
            return
        self.flow.begin_spread(run.engine.now)
        run.network.drain()

    def _post_spread(self) -> None:
        self.flow.post_spread(self.run.engine.now)

    def refresh(self, _: list[int]) -> None:
        """Make every leaf that is up sample its queue again, since time has passed.

        Not those that are down: if all were, an act of nobody would end the wave before machines recover.
        """
        self.touch(self.leaves[self.run.up])

    # -- messages to submitters ---------------------------------------------------------------------------

    def on_accept(self, rows: Rows) -> None:
        """Add tasks that leaves have accepted to the records of their submitters."""
        np.add.at(self.accepted, self.bags.whose[rows["application"]], rows["tasks"])

    def on_completion(self, rows: Rows) -> None:
        """Add tasks that leaves have completed to the records of their submitters."""
        np.add.at(self.reported, rows["application"], rows["tasks"])

    # -- failures ------------------------------------------------------------------------------------------

    def on_faults(self, failed: Rows, back: Rows) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        assert self.recovery is not None
        self.recovery.on_faults(failed, back)
        if self.log is not None:
            self.log.forget()

    def on_lost_request(self, rows: Rows) -> None:
        """Handle requests that were on their way to a machine that failed: their tasks are lost."""
        assert self.recovery is not None
        whose, now = self.bags.whose[rows["application"]], self.run.engine.now
        self.recovery.lose_requests(rows["node"], whose, rows["tasks"], now)

    # -- the end --------------------------------------------------------------------------------------------

    def partial_outcome(self) -> tuple[Found, dict[str, Any], list[Any]]:
        """Return what this process knows: decisions and so on, totals, and counts of messages."""
        self.run.network.drain()
        found = self._found()
        return found, ended(self.queues), self.run.network.counts()

    def finish(self) -> Outcome:
        """Let the leaves complete the tasks that they have, and return the outcome."""
        if self.log is not None:
            self.log.read(self.flow)
        found, totals, counts = self.partial_outcome()
        if self.run.share is not None:
            for more, other, others in self.run.share.gather():
                found = found.with_part(more)
                totals = together(totals, other)
                for count, further in zip(counts, others, strict=True):
                    count += further
        return outcome_of(self.parameters, self.run, self.grid, self.queues, self.bags, found, totals)

    def _found(self) -> Found:
        rows, time = self.flow.decisions()
        placed = self.flow.placed_at
        return Found(
            decisions=rows,
            decided=time,
            updates=self.flow.arrived(),
            accepted=int(self.accepted.sum()),
            completed=int(self.reported.sum()),
            below_window=self.tree.below_window,
            above_window=self.tree.above_window,
            ledger_end=placed if placed < NEVER else None,
            resubmitted=None if self.recovery is None else self.recovery.resubmitted,
        )
