"""The fair tree scheduler: decentralized bag-of-tasks scheduling for the smallest maximum stretch.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids".
Machines are the leaves of a balanced binary tree whose routers sit on the machines as well.  Summaries of
availability flow up, limited in rate; requests climb until a router can host them at a stretch that is not
much above the platform's minimum, and are split on the way down; every leaf runs EDF at its own minimum
stretch.  The mathematics is in `gridcore` (`SummaryTree`, `TaskQueues`); here is the protocol.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcore.flow import SHARE, TreeFlow
from gridcore.queues import NEVER, TaskQueues
from gridcore.tree import DECISION, REQUEST, SPREAD, SUMMARY, SummaryTree
from gridsim.decisions import Words
from gridsim.engine import ACT, NS, TIMER, Engine, nanoseconds
from gridsim.errors import ScenarioError
from gridsim.model import Applications
from gridsim.overlays import tree_level, tree_machines
from gridsim.scheduler import Outcome, Policy, Run, Scheduler
from gridsim.schedulers.fair_tree_notes import WORDS, TreeNotes
from gridsim.schedulers.recovery import Recovery
from gridsim.schedulers.summary_grid import derive_grid, explicit_grid

Rows = NDArray[Any]
#: The longest period, s: the clock counts int64 nanoseconds.
_LONGEST = 4e9


class FairTree(Scheduler, frozen=True, kw_only=True):
    """Parameters of the fair tree.

    bound : B; a router accepts a climbing request at stretch S if S <= B * (minimum stretch of the busy
        leaves).  0 sends every request to the root.  B and the ratio of the stretch samples are one knob:
        S is rounded up to a sample.
    samples : numbers of stretch, application size and task size samples of a summary (4 bytes a cell).
    grid : explicit samples (stretch in s/Mflop, size and task size in Mflop), instead of deriving them from
        platform and workload (`gridsim.schedulers.summary_grid`).
    update_rate : bytes/s a node may spend on summaries; 0 for no limit.
    update_on : what makes a leaf report: ``"completion"``, shares that arrive and any task that ends (the
        paper), or ``"change"``, shares that arrive and a queue that runs empty: less traffic, for scale, but
        a summary then misses that a long task has started in the meantime.
    hold_off : s that a router waits before it reports.
    release_cell : s; 0 evaluates a summary for an application released at the moment of the summary,
        300 for one released at the next multiple of 300 s (the paper), when every leaf reports anew.
    refresh : s after which every leaf reports anew though only time has passed, which brings the task it runs
        nearer to its end; 0 for never.
    entry : where a request enters: ``"own-router"``, the router on the submitting machine (the leaf's father
        if there is none), or ``"father"``.
    minimum_of : leaves that count in the minimum stretch: ``"busy"``; ``"all"``, where an idle leaf counts 0
        (the paper read literally); ``"inverse-speed"``, where it counts 1 / speed (the authors' later code).
        The last two are known to be bad.
    spread : when the minimum stretch travels down on its own: at each ``"heartbeat"``, or on ``"change"``
        too.  It travels with every request in any case.
    heartbeat : s between completion reports, and between spreads.
    request_bytes, accept_bytes, completion_bytes, spread_bytes, summary_header : sizes of messages.
    detection : s until a father knows that a leaf is gone, and a submitter that tasks were lost and submits
        them again; None for the next heartbeat, 0 for at once (the paper's ideal).
    run_on : go on with the protocol after the last task is placed, until every machine is idle and has said
        so; otherwise the ledger ends there (``facts["ledger_end_s"]``), since nothing later changes the
        schedule.
    """

    name: ClassVar[str] = "fair-tree"
    decentralized: ClassVar[bool] = True
    speeds_known: ClassVar[bool] = (
        True  # a router knows the speed of its subtrees: what no sample hosts is split by it
    )
    decision_words: ClassVar[Words] = WORDS

    bound: float = 2.0
    samples: tuple[int, int, int] = (10, 9, 8)
    grid: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] | None = None
    update_rate: float = 10_000.0
    update_on: Literal["completion", "change"] = "completion"
    hold_off: float = 0.0
    release_cell: float = 0.0
    refresh: float = 0.0
    entry: Literal["own-router", "father"] = "own-router"
    minimum_of: Literal["busy", "all", "inverse-speed"] = "busy"
    spread: Literal["heartbeat", "change"] = "heartbeat"
    heartbeat: float = 300.0
    request_bytes: int = 170
    accept_bytes: int = 120
    completion_bytes: int = 125
    spread_bytes: int = 24
    summary_header: int = 90
    detection: float | None = None
    run_on: bool = False

    def __post_init__(self) -> None:
        for field in ("bound", "update_rate", "hold_off", "release_cell", "refresh", "heartbeat"):
            value = getattr(self, field)
            if not (_is_number(value) and math.isfinite(value) and value >= 0):
                raise ScenarioError(f"fair-tree.{field} must be finite and >= 0, got {value!r}")
        for field, zero in (
            ("hold_off", "0 or "),
            ("release_cell", "0 or "),
            ("refresh", "0 or "),
            ("heartbeat", ""),
        ):
            value = getattr(self, field)
            if not (1e-9 <= value <= _LONGEST or (zero and value == 0)):
                raise ScenarioError(f"fair-tree.{field} must be {zero}in 1e-9..{_LONGEST:g} s, got {value!r}")
        if self.detection is not None and not (
            _is_number(self.detection) and (self.detection == 0 or 1e-9 <= self.detection <= _LONGEST)
        ):
            raise ScenarioError(
                f"fair-tree.detection must be 0 or in 1e-9..{_LONGEST:g} s, or none for the next heartbeat, "
                f"got {self.detection!r}"
            )
        for field in ("request_bytes", "accept_bytes", "completion_bytes", "spread_bytes", "summary_header"):
            value = getattr(self, field)
            if not (_is_whole(value) and 0 <= value < 2**31):
                raise ScenarioError(f"fair-tree.{field} must be a whole number in 0..2**31-1, got {value!r}")
        counts = self.samples if isinstance(self.samples, (tuple, list)) else ()
        if len(counts) != 3 or not all(_is_whole(count) and count >= 1 for count in counts):
            raise ScenarioError(f"fair-tree.samples must be three counts >= 1, got {self.samples!r}")
        cells = math.prod(counts) if self.grid is None else explicit_grid(self.grid).cells
        nbytes = 4 * cells + self.summary_header
        if nbytes >= 2**31:
            raise ScenarioError(f"fair-tree.samples must make a summary below 2**31 bytes, got {nbytes}")
        if 0 < self.update_rate < nbytes / _LONGEST:
            raise ScenarioError(
                f"fair-tree.update_rate must be 0 or allow a summary ({nbytes} bytes) within {_LONGEST:g} s, "
                f"got {self.update_rate!r}"
            )
        for field, known in (
            ("update_on", ("completion", "change")),
            ("entry", ("own-router", "father")),
            ("minimum_of", ("busy", "all", "inverse-speed")),
            ("spread", ("heartbeat", "change")),
        ):
            if getattr(self, field) not in known:
                raise ScenarioError(f"fair-tree.{field} must be one of {known}, got {getattr(self, field)!r}")

    @property
    def order(self) -> Literal["edf"]:
        """See `gridsim.scheduler.Scheduler`."""
        return "edf"

    def explicit(self, speeds: NDArray[np.float64], applications: Applications) -> FairTree:
        """See `gridsim.scheduler.Scheduler`: with the grid of its summaries."""
        if self.grid is not None:
            return self
        made = derive_grid(speeds, applications, self.samples)
        axes = tuple(tuple(axis.tolist()) for axis in (made.stretch, made.size, made.task_size))
        return msgspec.structs.replace(self, grid=axes)

    def start(self, run: Run) -> FairTreePolicy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        return FairTreePolicy(self, run)


class FairTreePolicy(Policy):
    """The protocol at work.

    Kinds, in the order in which they are handled at one instant: summaries, spreads, requests; then each
    leaf that got shares reorders its queue and each node that learnt something reports, once.
    """

    STATE = (
        "tree", "queues", "flow", "recovery", "ledger_end", "decisions", "updates", "accepted", "reported",
        "notes",
    )  # fmt: skip

    def __init__(self, parameters: FairTree, run: Run) -> None:
        self.parameters, self.run = parameters, run
        machines, applications = len(run.speeds), run.applications
        if parameters.grid is not None:
            self.grid = explicit_grid(parameters.grid)
        else:
            self.grid = derive_grid(run.speeds, applications, parameters.samples)
        summary_bytes = 4 * self.grid.cells + parameters.summary_header
        self.tree = SummaryTree(
            self.grid,
            run.speeds,
            size=applications.size,
            task_size=applications.task_size,
            release=applications.release if parameters.release_cell > 0 else None,
            nbytes=summary_bytes,
            rate=parameters.update_rate,
            hold_off=nanoseconds(parameters.hold_off),
            bound=parameters.bound,
        )
        self.queues = TaskQueues(
            run.speeds,
            watch="completion" if parameters.update_on == "completion" else "idle",
            log=True,
            record=run.record,
        )
        self.queues.add_applications(applications.release, applications.size, applications.task_size)
        self.cell = nanoseconds(parameters.release_cell)
        self.first_leaf = self.tree.first_leaf
        self.routers = np.arange(self.first_leaf)
        self.to_place = int(applications.tasks.sum())
        self.ledger_end: int | None = None
        # what routers have decided and when, and summaries at the root: when, and of what age (ns)
        self.decisions: list[tuple[Rows, Rows]] = [(np.zeros(0, DECISION), np.zeros(0, np.int64))]
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
        self.idle_minimum = {
            "busy": np.full(machines, np.inf),
            "all": np.zeros(machines),
            "inverse-speed": 1.0 / run.speeds,
        }[parameters.minimum_of]
        self.notes: TreeNotes | None = None
        if run.decisions is not None:
            self.notes = TreeNotes(run, run.decisions, self.tree, self.queues, parameters.bound, self.host)
        # With cohorts cut in pieces everything goes through the handlers below: the flow's test.  So it does
        # where decisions are noted.
        alone = engine.whole_cohorts and parameters.spread == "heartbeat" and self.notes is None
        if not alone:
            engine.add_source(self)  # before the network, which runs ahead as far as this allows
        nodes = np.arange(self.tree.nodes)
        network.open(tree_machines(machines), tree_level(nodes))
        self.flow: TreeFlow | None = None
        if alone:
            self.flow = TreeFlow(
                self.tree,
                self.queues,
                network.links,
                **{kind: network.number(kind) for kind in ("summary", "request", "accept")},
                idle_minimum=self.idle_minimum,
                submitter=applications.submitter + self.first_leaf,
                goal=NEVER if run.faults else self.to_place,
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
                heartbeat=parameters.heartbeat,
                detection=parameters.detection,
            )
        # A leaf joining is a change: at the start everybody tells his father what he has.
        engine.touch("report", range(self.first_leaf, self.tree.nodes))

    # -- requests -----------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """The submitting machines' requests enter the tree."""
        self.submit(applications, self.run.applications.tasks[applications])
        self.run.network.drain()

    def host(self, nodes: Any) -> Any:
        """The machines on which `nodes` sit now."""
        nodes = np.asarray(nodes)
        router = nodes < self.first_leaf
        machines = np.where(router, nodes, nodes - self.first_leaf)
        if self.recovery is None:
            return machines
        return np.where(router, self.recovery.stand_in[machines], machines)

    def submit(self, applications: Any, tasks: Any, again: bool = False) -> None:
        """Send requests for `tasks` of `applications` from where they are submitted."""
        submitter = self.run.applications.submitter[applications]
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
        """Routers decide and split; leaves enqueue."""
        leaves = int(np.searchsorted(rows["node"], self.first_leaf))
        if leaves:
            route = self.tree.route if self.notes is None else self.notes.route
            sent, decisions = route(np.ascontiguousarray(rows[:leaves]))
            self.run.network.send("request", sent)
            climbed = decisions[decisions["hops"] >= 0]
            self.decisions.append((climbed, np.full(len(climbed), self.run.engine.now)))
        if leaves < len(rows):
            self.take(np.ascontiguousarray(rows[leaves:]))

    def take(self, rows: Rows) -> None:
        """Leaves take their shares and tell the submitters."""
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
        rows["node"] = self.run.applications.submitter[applications] + self.first_leaf
        rows["sender"] = nodes
        rows["application"] = applications
        rows["tasks"] = tasks
        self.run.network.send(kind, rows)

    def on_accept(self, rows: Rows) -> None:
        """The submitter's books: tasks placed."""
        np.add.at(self.accepted, rows["application"], rows["tasks"])

    def on_completion(self, rows: Rows) -> None:
        """The submitter's books: tasks completed."""
        np.add.at(self.reported, rows["application"], rows["tasks"])

    # -- availability ---------------------------------------------------------------------------------------

    def on_summary(self, rows: Rows) -> None:
        """Fathers take in their children's summaries."""
        self.tree.receive(rows)
        nodes = rows["node"]
        if nodes[0] == 0:
            arrived = rows["since"][nodes == 0]
            known = arrived[arrived < NEVER]
            self.updates.append(np.stack((np.full(len(known), self.run.engine.now), known), axis=1))
        self.run.engine.touch("report", nodes)

    def on_spread(self, rows: Rows) -> None:
        """Routers learn the minimum stretch of the rest of the tree."""
        self.tree.take_spread(rows)
        if self.parameters.spread == "change":
            self.run.engine.touch("report", rows["node"])
        else:
            self.run.network.send("spread", self.tree.spread(rows["node"], True))

    def reorder(self, nodes: list[int]) -> None:
        """Leaves whose queue has changed order it anew."""
        self.queues.reschedule(np.array(nodes) - self.first_leaf, self.run.engine.now)
        self.run.engine.touch("report", nodes)
        if self.queues.enqueued == self.to_place and self.ledger_end is None and self.recovery is None:
            self.ledger_end = self.run.engine.now
            if self.flow is not None:
                self.flow.goal = NEVER
            if not self.parameters.run_on:
                self.run.engine.stop()

    def report(self, nodes: list[int]) -> None:
        """Nodes that learnt something, or whose turn has come, tell their fathers."""
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
            minimum = np.where(np.isinf(minimum), self.idle_minimum[leaves], minimum)
            rows = self.tree.report(ready, now, summaries, minimum, cell=(cell or 0) / NS)
            if self.notes is not None:
                self.notes.reported(rows)
            self.run.network.send("summary", rows)

    def beat(self, _: list[int]) -> None:
        """Every heartbeat: completion reports, and the root spreads the minimum stretch."""
        run = self.run
        machines, applications, tasks, _ends = self.queues.advance(run.engine.now)
        if len(machines):
            self.tell_submitters("completion", machines + self.first_leaf, applications, tasks)
        elif self.queues.tasks_done == self.to_place:
            run.engine.stop()  # idle since the last heartbeat, which has said so
            return
        if self.first_leaf:
            run.network.send("spread", self.tree.spread([0], True))
        run.network.drain()

    def refresh(self, _: list[int]) -> None:
        """Time has passed: every leaf samples anew."""
        self.run.engine.touch("report", range(self.first_leaf, self.tree.nodes))

    # -- what happens between two instants of the engine -----------------------------------------------------

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: what leaves, or the whole flow, do by themselves."""
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
        """See `gridsim.scheduler.Policy`."""
        assert self.recovery is not None
        self.recovery.on_faults(failed, back)

    def on_lost_request(self, rows: Rows) -> None:
        """Requests were on their way to a machine that failed."""
        assert self.recovery is not None
        self.recovery.lose(rows["application"], rows["tasks"])

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.states.Stateful`."""
        self._merge()
        return super().getstate()

    def _merge(self) -> None:
        """One array instead of many."""
        rows, time = (np.concatenate(column) for column in zip(*self.decisions, strict=True))
        self.decisions, self.updates = [(rows, time)], [np.concatenate(self.updates)]

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Let the leaves complete what they have, and report."""
        self.run.network.drain()
        self.queues.log = False  # nobody will be told
        self.queues.advance(NEVER)
        totals = self.queues.totals()
        applications = self.run.applications
        requests = self.requests()
        level = np.full(len(applications), -1, np.int64)
        # of several requests of an application, the first
        level[requests["application"][::-1]] = requests["level"][::-1]
        finish = totals["finish"]
        served = requests["application"]
        stretch = (finish[served] - applications.release_ns[served]) / NS / applications.size[served]
        requests["stretch"] = stretch
        kept = (requests["guaranteed"] == 1) & (stretch <= requests["promised"])
        requests["kept"] = kept.astype(np.int64)
        return Outcome(
            applications={
                "first_start": totals["first_start"],
                "finish": finish,
                "completed": totals["completed"],
                "resubmitted": np.zeros(len(applications), np.int64)
                if self.recovery is None
                else self.recovery.resubmitted,
                "nodes_used": totals["nodes_used"],
                "level": level,
            },
            machines={name: totals[name] for name in ("busy", "tasks", "interrupted", "peak_queue")},
            tables={
                "requests": requests,
                "updates": self.update_times(),
                "traffic": self.run.network.by_level(),
            },
            facts={
                "bound": self.parameters.bound,
                "stretch_ratio": _ratio(self.grid.stretch),
                "grid": {
                    "stretch": self.grid.stretch.tolist(),
                    "size": self.grid.size.tolist(),
                    "task_size": self.grid.task_size.tolist(),
                },
                "summary_bytes": 4 * self.grid.cells + self.parameters.summary_header,
                "decisions_at_lowest_sample": self.tree.below_window,
                "decisions_above_window": self.tree.above_window,
                "tasks_accepted_known": int(self.accepted.sum()),
                "tasks_completed_known": int(self.reported.sum()),
                "ledger_end_s": None if self.ledger_end is None else self.ledger_end / NS,
            },
            schedule=self.queues.schedule(),
            arrivals=self.queues.arrivals(),
        )

    def requests(self) -> dict[str, NDArray[Any]]:
        """One row a request: who accepted it when, after how many steps up, and what was promised."""
        self._merge()
        made = self.decisions if self.flow is None else [*self.decisions, self.flow.decisions()]
        rows, time = (np.concatenate(column) for column in zip(*made, strict=True))
        order = np.lexsort((time, rows["application"]))
        rows, time = rows[order], time[order]
        sample = rows["sample"]
        promised = np.where(sample >= 0, self.grid.stretch[sample], np.inf)
        return {
            "application": rows["application"].copy(),
            "tasks": rows["tasks"].copy(),
            "accepted": time / NS,
            "router": rows["node"].copy(),
            "level": tree_level(rows["node"]),
            "steps_up": rows["hops"].copy(),
            "promised": promised,
            "guaranteed": rows["guaranteed"].copy(),
        }

    def update_times(self) -> dict[str, NDArray[Any]]:
        """One row a summary that told the root of a change: when it came, how old the change was (s)."""
        self._merge()
        rows = np.concatenate(self.updates if self.flow is None else [*self.updates, self.flow.arrived()])
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        return {"arrived": rows[:, 0] / NS, "age": (rows[:, 0] - rows[:, 1]) / NS}


def _ratio(samples: NDArray[np.float64]) -> float:
    """The ratio of neighbouring samples of a geometric axis."""
    return float((samples[-1] / samples[0]) ** (1.0 / max(1, len(samples) - 1)))


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, (float, np.floating))
