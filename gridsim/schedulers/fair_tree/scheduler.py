"""The fair tree scheduler: decentralized bag-of-tasks scheduling for the smallest maximum stretch.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids".
Machines are the leaves of a balanced binary tree whose routers sit on the machines as well.  Summaries of
availability flow up, limited in rate; requests climb until a router can host them at a stretch that is not
much above the platform's minimum, and are split on the way down; every leaf runs EDF at its own minimum
stretch.  The mathematics is in `gridcore` (`SummaryTree`, `TaskQueues`).  This module has the parameters
(`FairTree`) and the protocol (`FairTreePolicy`).
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.protocol import SHARE, TreeFlow
from gridcore.fair_tree.summary_tree import DECISION, REQUEST, SPREAD, SUMMARY, SummaryTree
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import NEVER, TaskQueues
from gridsim.engine.engine import ACT, TIMER, Engine
from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.results.decisions import Words
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.schedulers.fair_tree.decisions import WORDS, TreeNotes
from gridsim.schedulers.fair_tree.interpreted import TreeNodes
from gridsim.schedulers.fair_tree.outcome import Found, outcome
from gridsim.schedulers.fair_tree.recovery import Recovery
from gridsim.schedulers.fair_tree.summary_grid import derive_grid, explicit_grid, samples_of
from gridsim.schedulers.fair_tree.tree import idle_minimum
from gridsim.scheduling.contract import NodeForm, Outcome, Policy, Run, Scheduler
from gridsim.scheduling.overlays import tree_level, tree_machines
from gridsim.support.arguments import normalise, sequence, shown, whole
from gridsim.support.arrays import Floats, Rows
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.parameters import Limits

#: The longest period, s, since the clock counts int64 nanoseconds.
_LONGEST = 4e9

#: The longest release cell and the longest wait of a router, s; it is shorter, since several are added up.
_LONGEST_PART = 1e9

_TimeOrZero = Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s", or_zero=True)]
_PartOrZero = Annotated[float, Limits(low=1e-9, high=_LONGEST_PART, unit="s", or_zero=True)]
_Bytes = Annotated[int, Limits(low=0, high=2**31 - 1)]


class FairTree(Scheduler, frozen=True, kw_only=True):
    """Parameters of the fair tree.

    bound : B; a router accepts a climbing request at stretch S if S <= B * (minimum stretch of the leaves
        that count).  0 sends every request to the root.  B and the ratio of neighbouring stretch samples act
        together, since S is rounded up to a sample.
    samples : largest number of cells of a summary (4 bytes each), which a rule divides among its axes; or
        three numbers: of stretch, application size and task size samples.
    grid : explicit samples (stretch in s/Mflop, size and task size in Mflop), instead of samples derived from
        platform and workload (`gridsim.schedulers.fair_tree.summary_grid`).
    update_rate : bytes/s that a node may spend on summaries; 0 for no limit.
    update_on : what makes a leaf report: ``"completion"``, when shares arrive or any task ends (the paper);
        or ``"change"``, when shares arrive or its queue runs empty.  ``"change"`` saves traffic on large
        grids, but a summary then does not show that a long task has started in the meantime.
    hold_off : s that a router waits before it reports.
    release_cell : s; 0 evaluates a summary for an application released at the moment of the summary;
        300 for one released at the next multiple of 300 s (the paper), when every leaf reports again.
    refresh : s after which every leaf reports again although only time has passed, which brings its running
        task nearer to its end; 0 for never.
    entry : where a request enters the tree: ``"own-router"``, the router on the submitting machine (the
        leaf's parent if that machine has no router), or ``"parent"``, the leaf's parent.
    minimum_of : leaves that count in the minimum stretch: ``"all"``, where an idle leaf counts 0 (the paper
        read literally) and sends all requests to the root; ``"busy"``, only leaves with tasks;
        ``"inverse-speed"``, where an idle leaf counts 1 / speed (the authors' later code).  Where machines
        fail, ``"all"`` is better.
    spread : when the minimum stretch travels down in messages of its own: at each ``"heartbeat"``, or also
        on each ``"change"``.  Every request carries it in any case.
    heartbeat : s between completion reports, and between spreads.
    request_bytes, accept_bytes, completion_bytes, spread_bytes, summary_header : sizes of messages, bytes.
    repair : s that the routers of a failed machine stay out of the tree; 0 for no time (the paper).
    resubmit : how lost tasks are submitted again: with the release and size of their application
        (``"as-is"``), or as a bag of that many tasks released at that moment (``"new"``).
    stretch : how a leaf finds its minimum stretch: ``"exact"``, or by ``"bisection"`` (the paper).
    tolerance : relative tolerance of the bisection.
    detection : s from a failure until the parent knows that the leaf has failed, and until the submitter
        knows that tasks were lost and submits them again; None for the next heartbeat, 0 for at once (the
        paper's ideal).
    run_on : whether the protocol continues after the last task is placed, until every machine is idle and has
        reported it.  Otherwise the accounting of messages ends there (``facts["ledger_end_s"]``), since
        nothing later changes the schedule.
    """

    name: ClassVar[str] = "fair-tree"
    decentralized: ClassVar[bool] = True
    speeds_known: ClassVar[bool] = (
        True  # a router knows the speed of its subtrees: it splits by speed what no sample can host
    )
    decision_words: ClassVar[Words] = WORDS
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")

    bound: Annotated[float, Limits(low=0)] = 1.0
    samples: int | tuple[int, int, int] = 720
    grid: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] | None = None
    update_rate: Annotated[float, Limits(low=0, unit="bytes/s")] = 10_000.0
    update_on: Literal["completion", "change"] = "completion"
    hold_off: _PartOrZero = 0.0
    release_cell: _PartOrZero = 0.0
    refresh: _TimeOrZero = 0.0
    entry: Literal["own-router", "parent"] = "own-router"
    minimum_of: Literal["busy", "all", "inverse-speed"] = "all"
    spread: Literal["heartbeat", "change"] = "heartbeat"
    heartbeat: Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s")] = 300.0
    request_bytes: _Bytes = 170
    accept_bytes: _Bytes = 120
    completion_bytes: _Bytes = 125
    spread_bytes: _Bytes = 24
    summary_header: _Bytes = 90
    detection: _TimeOrZero | None = None
    repair: _TimeOrZero = 0.0
    resubmit: Literal["as-is", "new"] = "as-is"
    stretch: Literal["exact", "bisection"] = "exact"
    tolerance: Annotated[float, Limits(low=1e-15, high=0.5)] = 1e-9
    run_on: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(self, samples=_counts(self.samples))
        cells = self.samples if isinstance(self.samples, int) else math.prod(self.samples)
        if self.grid is not None:
            made = explicit_grid(self.grid)
            cells = made.cells
            normalise(self, grid=samples_of(made))
        nbytes = 4 * cells + self.summary_header
        if nbytes >= 2**31:
            raise ScenarioError(f"fair-tree.samples must make a summary below 2**31 bytes, got {nbytes}")
        if 0 < self.update_rate < nbytes / _LONGEST_PART:
            raise ScenarioError(
                f"fair-tree.update_rate must be 0 or allow a summary ({nbytes} bytes) within "
                f"{_LONGEST_PART:g} s, got {self.update_rate!r}"
            )

    @property
    def order(self) -> Literal["edf"] | None:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return "edf" if self.stretch == "exact" else None

    def explicit(self, speeds: NDArray[np.float64], applications: Applications) -> FairTree:
        """Return this scheduler with its summary grid set; see `gridsim.scheduling.contract.Scheduler`."""
        if self.grid is not None:
            return self
        made = derive_grid(speeds, applications, self.samples)
        return msgspec.structs.replace(self, grid=samples_of(made))

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        if run.nodes == "interpreted":
            return TreeNodes(self, self.summary_grid(run), run)
        return FairTreePolicy(self, run)

    def summary_grid(self, run: Run) -> SummaryGrid:
        """Return the grid of all summaries of a run: the explicit one, or one derived for the run."""
        if self.grid is not None:
            return explicit_grid(self.grid)
        return derive_grid(
            run.speeds, run.applications, self.samples, failing=run.faults, anew=self.resubmit == "new"
        )


def _counts(samples: Any) -> int | tuple[int, ...]:
    with suppress(ScenarioError):
        return whole("fair-tree.samples", samples, low=1)
    with suppress(ScenarioError):
        counts = tuple(whole("fair-tree.samples", count, low=1) for count in sequence("", samples))
        if len(counts) == 3:
            return counts
    raise ScenarioError(
        f"fair-tree.samples must be a number of cells or three counts, >= 1, got {shown(samples)}"
    )


class FairTreePolicy(Policy):
    """The fair tree protocol during one run.

    At one instant messages are handled by kind: summaries, then spreads, then requests.  Then each leaf that
    got shares reorders its queue, and each node that learnt something reports, once.
    """

    STATE = (
        "bags", "tree", "queues", "flow", "recovery", "ledger_end", "decisions", "decided", "updates",
        "accepted", "reported", "notes",
    )  # fmt: skip

    def __init__(self, parameters: FairTree, run: Run) -> None:
        self.parameters, self.run = parameters, run
        machines, applications = len(run.speeds), run.applications
        self.grid = parameters.summary_grid(run)
        summary_bytes = 4 * self.grid.cells + parameters.summary_header
        self.tree = SummaryTree(
            self.grid,
            run.speeds,
            release=applications.release,
            size=applications.size,
            task_size=applications.task_size,
            nbytes=summary_bytes,
            rate=parameters.update_rate,
            hold_off=nanoseconds(parameters.hold_off),
            bound=parameters.bound,
            celled=parameters.release_cell > 0,
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
        self.cell = nanoseconds(parameters.release_cell)
        self.first_leaf = self.tree.first_leaf
        self.routers = np.arange(self.first_leaf)
        self.to_place = int(applications.tasks.sum())
        self.ledger_end: int | None = None
        # decisions of routers, their times (ns), and a row (arrival, time of the oldest change; ns) for each
        # summary that told the root of a change
        self.decisions: list[Rows] = [np.zeros(0, DECISION)]
        self.decided: list[Rows] = [np.zeros(0, np.int64)]
        self.updates: list[Rows] = [np.zeros((0, 2), np.int64)]
        self.accepted = np.zeros(len(applications), np.int64)
        self.reported = np.zeros(len(applications), np.int64)

        engine, network = run.engine, run.network
        network.kind(
            "summary",
            SUMMARY,
            summary_bytes,
            self.on_summary,
            priority=10,
            lost=self.tree.forget,
            opaque=("payload",),
        )
        network.kind("spread", SPREAD, parameters.spread_bytes, self.on_spread, priority=11)
        network.kind(
            "request",
            REQUEST,
            parameters.request_bytes,
            self.on_request,
            priority=12,
            lost=self.on_lost_request,
        )
        network.kind("accept", SHARE, parameters.accept_bytes, self.on_accept, priority=13, deferred=True)
        network.kind(
            "completion", SHARE, parameters.completion_bytes, self.on_completion, priority=14, deferred=True
        )
        engine.on("reorder", self.reorder, priority=10, phase=ACT)
        engine.on("report", self.report, priority=11, phase=ACT)
        engine.on("heartbeat", self.beat, priority=20, phase=TIMER)
        engine.every(nanoseconds(parameters.heartbeat), "heartbeat")
        for kind, period, priority in (
            ("cell", self.cell, 21),
            ("refresh", nanoseconds(parameters.refresh), 22),
        ):
            if period:
                engine.on(kind, self.refresh, priority=priority, phase=TIMER)
                engine.every(period, kind)
        self.idle_minimum = idle_minimum(parameters, run.speeds)
        self.notes: TreeNotes | None = None
        if run.decisions is not None:
            self.notes = TreeNotes(
                run, run.decisions, self.tree, self.queues, self.bags, parameters.bound, self.host
            )
        # The handlers below do all the work if cohorts are cut in pieces, which tests the compiled protocol,
        # and if decisions are recorded.
        alone = engine.whole_cohorts and self.notes is None
        if not alone:
            engine.add_source(self)  # before the network, which runs ahead only as far as this source allows
        nodes = np.arange(self.tree.nodes)
        network.open(tree_machines(machines), tree_level(nodes))
        self.flow: TreeFlow | None = None
        if alone:
            self.flow = TreeFlow(
                self.tree,
                self.queues,
                network.links,
                **{kind: network.number(kind) for kind in ("summary", "spread", "request", "accept")},
                idle_minimum=self.idle_minimum,
                submitter=applications.submitter + self.first_leaf,
                goal=NEVER if run.faults else self.to_place,
                spread_on_change=parameters.spread == "change",
                cell=self.cell,
                threads=run.threads,
            )
            network.run_by(self)
        self.recovery: Recovery | None = None
        if run.faults:
            self.recovery = Recovery(
                run,
                self.tree,
                self.queues,
                partial(self.submit, again=True),
                partial(engine.touch, "report"),
                heartbeat=parameters.heartbeat,
                detection=parameters.detection,
                repair=parameters.repair,
            )
        # A leaf that joins is a change, so at the start every leaf reports to its parent.
        engine.touch("report", range(self.first_leaf, self.tree.nodes))

    def _add(self, release: Floats, size: Floats, task_size: Floats, whose: Rows) -> None:
        """Add further bags to the tree, the queues and the compiled protocol; see `Bags`."""
        self.tree.add_applications(release, size, task_size)
        self.queues.add_applications(release, size, task_size, whose=whose)
        if self.flow is not None:
            self.flow.add_submitters(self.run.applications.submitter[whose] + self.first_leaf)

    # -- requests -----------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Send the requests of `applications`, which are released now, into the tree."""
        self.submit(applications, self.run.applications.tasks[applications])
        self.run.network.drain()

    def host(self, nodes: Any) -> Any:
        """Return the machines on which `nodes` sit now."""
        nodes = np.asarray(nodes)
        router = nodes < self.first_leaf
        machines = np.where(router, nodes, nodes - self.first_leaf)
        if self.recovery is None:
            return machines
        routers = np.where(router, nodes, 0)
        return np.where(router, self.recovery.host[routers], machines) if self.first_leaf else machines

    def submit(self, applications: Any, tasks: Any, again: bool = False) -> None:
        """Send requests for `tasks` of `applications` from the machines that submit them.

        again : whether the tasks were lost and are submitted again.
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
        rows["minimum"] = np.nan
        if self.notes is not None:
            self.notes.submitted(rows, again)
        self.run.network.send("request", rows)

    def on_request(self, rows: Rows) -> None:
        """Handle requests: routers decide on them and split them, leaves put shares into their queues."""
        leaves = int(np.searchsorted(rows["node"], self.first_leaf))
        if leaves:
            route = self.tree.route if self.notes is None else self.notes.route
            sent, decisions = route(np.ascontiguousarray(rows[:leaves]), self.run.engine.now)
            self.run.network.send("request", sent)
            climbed = decisions[decisions["hops"] >= 0]
            _append(self.decisions, climbed)
            _append(self.decided, np.full(len(climbed), self.run.engine.now))
        if leaves < len(rows):
            self.take(np.ascontiguousarray(rows[leaves:]))

    def take(self, rows: Rows) -> None:
        """Put shares into the queues of their leaves, and tell the submitters that they were accepted."""
        engine = self.run.engine
        self.tree.acknowledge(rows)
        nodes = rows["node"]
        if self.notes is None:
            self.queues.enqueue(nodes - self.first_leaf, rows["application"], rows["tasks"], engine.now)
        else:
            self.notes.enqueue(rows)
        engine.touch("reorder", nodes)
        self.tell_submitters("accept", nodes, rows["application"], rows["tasks"])

    def tell_submitters(self, kind: str, nodes: Rows, applications: Rows, tasks: Rows) -> None:
        rows = np.empty(len(nodes), SHARE)
        rows["node"] = self.run.applications.submitter[self.bags.whose[applications]] + self.first_leaf
        rows["sender"] = nodes
        rows["application"] = applications
        rows["tasks"] = tasks
        self.run.network.send(kind, rows)

    def on_accept(self, rows: Rows) -> None:
        """Add tasks that leaves have accepted to the records of their submitters."""
        np.add.at(self.accepted, self.bags.whose[rows["application"]], rows["tasks"])

    def on_completion(self, rows: Rows) -> None:
        """Add tasks that leaves have completed to the records of their submitters."""
        np.add.at(self.reported, rows["application"], rows["tasks"])

    # -- availability ---------------------------------------------------------------------------------------

    def on_summary(self, rows: Rows) -> None:
        """Store summaries at the parents that receive them; these report in turn."""
        self.tree.receive(rows)
        nodes = rows["node"]
        if nodes[0] == 0:
            arrived = rows["since"][nodes == 0]
            known = arrived[arrived < NEVER]
            _append(self.updates, np.stack((np.full(len(known), self.run.engine.now), known), axis=1))
        self.run.engine.touch("report", nodes)

    def on_spread(self, rows: Rows) -> None:
        """Tell routers the minimum stretch of the rest of the tree; they pass it on."""
        self.tree.take_spread(rows)
        if self.parameters.spread == "change":
            self.run.engine.touch("report", rows["node"])
        else:
            self.run.network.send("spread", self.tree.spread(rows["node"], True))

    def reorder(self, nodes: list[int]) -> None:
        """Order the queues of leaves that got shares again; stop the run once all tasks are placed.

        The run goes on where machines fail or `FairTree.run_on` is set.
        """
        self.queues.reschedule(np.array(nodes) - self.first_leaf, self.run.engine.now)
        self.run.engine.touch("report", nodes)
        if self.queues.enqueued == self.to_place and self.ledger_end is None and self.recovery is None:
            self.ledger_end = self.run.engine.now
            if self.flow is not None:
                self.flow.goal = NEVER
            if not self.parameters.run_on:
                self.run.engine.stop()

    def report(self, nodes: list[int]) -> None:
        """Send summaries from nodes that learnt something, or that may report now, to their parents."""
        engine, now = self.run.engine, self.run.engine.now
        if self.flow is not None:
            self.flow.report(nodes, now)
            return
        if self.parameters.spread == "change" and nodes[0] < self.first_leaf:
            self.run.network.send("spread", self.tree.spread([n for n in nodes if n < self.first_leaf]))
        ready, waiting, until = self.tree.ready(nodes, now)
        for at in np.unique(until).tolist():
            engine.touch("report", waiting[until == at], time=at)
        if len(ready):
            leaves = ready[ready >= self.first_leaf] - self.first_leaf
            cell = (now // self.cell + 1) * self.cell if self.cell else None
            summaries = self.queues.summaries(leaves, self.grid, now, cell=cell, threads=self.run.threads)
            minimum = self.queues.minimum_stretch(leaves, now)
            idle = np.isinf(minimum)
            minimum = np.where(idle, self.idle_minimum[leaves], minimum)
            release = np.full(len(leaves), cell / NS) if cell else np.where(idle, np.inf, now / NS)
            rows = self.tree.report(ready, now, summaries, minimum, release)
            if self.notes is not None:
                self.notes.reported(rows)
            self.run.network.send("summary", rows)

    def beat(self, _: list[int]) -> None:
        """Handle a heartbeat: leaves report completed tasks, and the root spreads the minimum stretch."""
        run = self.run
        machines, applications, tasks, _ends = self.queues.advance(run.engine.now)
        if len(machines):
            self.tell_submitters("completion", machines + self.first_leaf, applications, tasks)
        elif self.queues.tasks_done == self.to_place:
            run.engine.stop()  # all machines were idle at the last heartbeat and reported it then
            return
        if self.first_leaf:
            run.network.send("spread", self.tree.spread([0], True))
        run.network.drain()

    def refresh(self, _: list[int]) -> None:
        """Make every leaf sample its queue again, since time has passed."""
        self.run.engine.touch("report", range(self.first_leaf, self.tree.nodes))

    # -- what happens between two instants of the engine -----------------------------------------------------

    def advance(self, limit: int) -> int:
        """Run the leaves, or the whole compiled protocol, up to `limit` ns; see `gridsim.engine.Source`."""
        at: int = self.queues.next_change() if self.flow is None else self.flow.advance(limit)
        return at if at <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        if self.flow is None:
            engine.touch("report", self.queues.due(time) + self.first_leaf)
        else:
            engine.touch("reorder", self.flow.take_orders())
            engine.touch("report", self.flow.take_turns(time))

    # -- failures ------------------------------------------------------------------------------------------

    def on_faults(self, failed: Rows, back: Rows) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        assert self.recovery is not None
        self.recovery.on_faults(failed, back)

    def on_lost_request(self, rows: Rows) -> None:
        """Handle requests that were on their way to a machine that failed: their tasks are lost."""
        assert self.recovery is not None
        whose, now = self.bags.whose[rows["application"]], self.run.engine.now
        self.recovery.lose_requests(rows["node"], whose, rows["tasks"], now)

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.support.state.Stateful`."""
        self._merge()
        return super().getstate()

    def _merge(self) -> None:
        """Join the parts of each list of arrays into one array."""
        self.decisions, self.decided, self.updates = (
            [np.concatenate(parts)] for parts in (self.decisions, self.decided, self.updates)
        )

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Let the leaves complete the tasks that they have, and return the outcome."""
        self.run.network.drain()
        self._merge()
        rows, time, updates = self.decisions[0], self.decided[0], self.updates[0]
        if self.flow is not None:
            more, later = self.flow.decisions()
            rows, time = np.concatenate((rows, more)), np.concatenate((time, later))
            updates = np.concatenate((updates, self.flow.arrived()))
        found = Found(
            decisions=rows,
            decided=time,
            updates=updates,
            accepted=int(self.accepted.sum()),
            completed=int(self.reported.sum()),
            below_window=self.tree.below_window,
            above_window=self.tree.above_window,
            ledger_end=self.ledger_end,
            resubmitted=None if self.recovery is None else self.recovery.resubmitted,
        )
        return outcome(self.parameters, self.run, self.grid, self.queues, self.bags, found)


def _append(parts: list[Rows], rows: Rows) -> None:
    """Append `rows` to `parts`, and join arrays so that each is longer than the next: few large arrays."""
    parts.append(rows)
    while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
        parts[-2:] = [np.concatenate(parts[-2:])]
