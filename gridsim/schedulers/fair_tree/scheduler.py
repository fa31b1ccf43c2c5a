"""The fair tree scheduler: decentralized bag-of-tasks scheduling for the smallest maximum stretch.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids".
Machines are the leaves of a balanced binary tree whose routers sit on the machines as well.  Summaries of
availability flow up, limited in rate; requests climb until a router can host them at a stretch that is good
enough by the rule `FairTree.accept`, and are split on the way down; every leaf runs EDF at its own minimum
stretch.  `gridsim.schedulers.fair_tree.node` defines leaves and routers; this module defines the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.summary_tree import COVERS_BYTES, LARGEST_BYTES
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.errors import CompileError, ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.capacity import scarce_memory
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.fair_tree.compiled import CompiledTree
from gridsim.schedulers.fair_tree.data_axis import DataAxis, data_samples, throughput
from gridsim.schedulers.fair_tree.decisions import VERBS, WORDS
from gridsim.schedulers.fair_tree.environment import IdealRepair, TreeEnvironment
from gridsim.schedulers.fair_tree.member import SEATS, Member
from gridsim.schedulers.fair_tree.member import messages as messages_of_machines
from gridsim.schedulers.fair_tree.needs_axis import Need, NeedsAxis, need_samples
from gridsim.schedulers.fair_tree.node import TABLES, Leaf, Router, messages
from gridsim.schedulers.fair_tree.records import TreeByMessages
from gridsim.schedulers.fair_tree.summary_grid import derive_grid, explicit_grid, samples_of
from gridsim.scheduling.contract import MESSAGES_TAKE_TIME, DecisionVerb, LadderStep, NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, ProgramScheduler
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import Message
from gridsim.scheduling.nodes.roles import Role
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arguments import integer, normalise, real, sequence, short_repr
from gridsim.support.parameters import Limits

#: Maximum period, s, since the clock counts int64 nanoseconds.
_LONGEST = 4e9

#: Maximum release cell and maximum wait of a router, s; it is shorter, since several of them are added up.
_LONGEST_PART = 1e9

_TimeOrZero = Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s", or_zero=True)]
_PartOrZero = Annotated[float, Limits(low=1e-9, high=_LONGEST_PART, unit="s", or_zero=True)]
_Bytes = Annotated[int, Limits(low=0, high=2**31 - 1)]

#: Values of `accept` that require messages with all of their fields.
_ALL_FIELDS = SimpleNamespace(
    by_largest=True,
    by_root=True,
    summary_bytes=int,
    **dict.fromkeys(("request_bytes", "accept_bytes", "completion_bytes", "spread_bytes", "beat_bytes"), 0),
)


_LEAVES_AND_ROUTERS = {
    "router": Role(Router, count=lambda _, n: n - 1, place=lambda _, n: np.arange(n - 1)),
    "leaf": Role(Leaf),
}
_MACHINES = {"machine": Role(Member)}


class FairTree(ProgramScheduler, frozen=True, kw_only=True):
    """The fair tree (Celaya and Marchal): a decentralized scheduler that keeps the maximum stretch small.

    Parameters
    ----------
    accept
        Rule by which a router accepts a climbing request.  S is the smallest stretch sample at which its
        leaves have room for all tasks.  ``"root"``: S <= B * (the stretch that the root could promise, by a
        copy of its summary). ``"minimum"``: S <= B * (minimum stretch of the leaves that count), the paper's
        rule. ``"largest"``: S <= B * (largest minimum stretch of a leaf).  ``"either"``: by ``"root"``, or by
        ``"largest"`` with B =
        1.  If a router does not know the limit yet, it sends the request up.
    bound
        B of that rule.  0 sends every request to the root (``fair-tree-root``).  B and the ratio of
        neighbouring stretch samples act together, since S is rounded up to a sample.
    samples
        Maximum number of cells of a summary (4 bytes each), which a rule divides among its axes; or the three
        numbers of stretch, application size and task size samples.
    grid
        Explicit samples (stretch in s/Mflop, size and task size in Mflop), instead of samples derived from
        platform and workload.
    update_rate
        Bytes/s that a node may spend on summaries; 0 for no limit.
    update_on
        What makes a leaf report: ``"completion"``, when shares arrive or any task ends (the paper); or
        ``"change"``, when shares arrive or its queue runs empty.  ``"change"`` saves traffic on large grids,
        but a summary then does not show that a long task has started in the meantime.
    hold_off
        Time that a router waits before it reports, s.
    release_cell
        Interval between the releases for which summaries are evaluated, s.  0: for an application released at
        the time of the summary; 300: for one released at the next multiple of 300 s (the paper), when every
        leaf reports again.
    refresh
        Interval after which every leaf reports again, s, since the passing of time alone brings its running
        task nearer to its end; 0 for never.
    entry
        Where a request enters the tree: ``"own-router"``, the router on the submitting machine (the leaf's
        parent if that machine has no router), or ``"parent"``, the leaf's parent.
    minimum_of
        Leaves that count in the minimum stretch, for ``accept="minimum"``: ``"all"``, where an idle leaf
        counts 0 (the paper read literally) and sends all requests to the root; ``"busy"``, only leaves with
        tasks; ``"inverse-speed"``, where an idle leaf counts 1 / speed (the authors' later code).  Where
        machines fail, ``"all"`` is better.
    spread
        When the minimum stretch travels down in messages of its own: at each ``"heartbeat"``, or also on each
        ``"change"``.  Every request from a parent carries it in any case.
    heartbeat
        Interval between completion reports, and between spreads, s.
    request_bytes, accept_bytes, completion_bytes, spread_bytes, summary_header
        Sizes of messages, bytes.
    repair
        Time that the routers of a failed machine stay out of the tree, s; 0 in the paper.
    maintenance
        How the tree is kept when machines fail: ``"ideal"``, by the model and at no cost (the paper), or by
        ``"messages"`` of the machines, which then also detect lost tasks themselves.
    beat, beat_bytes
        With ``maintenance="messages"``, interval between signs of life of neighbours in the tree, s, and
        their size, bytes.  They should arrive within half an interval.
    missed
        With ``maintenance="messages"``, number of beats after which a silent neighbour is detected as failed,
        and number of heartbeats after which the tasks of a silent leaf are submitted again.
    resubmit
        How lost tasks are submitted again: with the release and size of their application (``"as-is"``), or
        as a bag of their own, released at that time (``"new"``).
    stretch
        How a leaf finds its minimum stretch: ``"exact"``, or by ``"bisection"`` (the paper).
    tolerance
        Relative tolerance of the bisection.
    detection
        Time from a failure until the parent detects it, and until the submitter detects the loss of tasks and
        submits them again, s; None: until the next heartbeat; 0: at once (the paper's ideal).
    data
        Whether nodes take the data of tasks into account, if tasks move data over links (`Platform.linked`):
        ``"aware"``: availability covers fetching, computing and sending back by a deadline, which requires
        release_cell 0; ``"ignored"``: it covers only computing.  In both cases nodes run interpreted.
    data_samples
        Maximum number of samples of bytes per Mflop of an aware summary, which share its cells if `samples`
        is a number of cells; or the samples themselves, bytes/Mflop.
    needs
        Whether nodes take memory and disk of machines into account, if tasks need more than some machines
        have (`Platform.with_attributes`), or more memory than they have for each core: ``"aware"``: summaries
        state the availability of leaves with a given memory and disk; ``"ignored"``: they state that of all
        leaves, and a leaf that lacks memory or disk forwards its share to a random machine.  In both cases
        nodes run interpreted.
    need_samples
        Maximum number of samples of memory and disk of an aware summary, which share its cells if `samples`
        is a number of cells; or the samples themselves, pairs of memory and disk in bytes.
    run_on
        Whether the protocol continues after the last task is placed, until every machine is idle and has
        reported it.  Otherwise the accounting of messages ends there (``facts["ledger_end_s"]``), since
        nothing later changes the schedule.
    """

    name: ClassVar[str] = "fair-tree"
    dependencies: ClassVar[bool] = True
    speeds_known: ClassVar[bool] = True  # routers split by the speed of subtrees if no sample has room
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = VERBS
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    shares: ClassVar[bool] = True
    messages: ClassVar[Mapping[str, Message]] = messages_of_machines(_ALL_FIELDS)
    reports = True
    local_order = "edf"  # section 4 of the report, implemented in gridcore/queues/task_queues.pyx
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = {**TABLES, **SEATS}
    environment = IdealRepair
    environment_timers: ClassVar[tuple[str, ...]] = ("heartbeat", "look-around", "refresh")
    environment_handlers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "on_return": ("view", "number"),
        "on_parent_return": ("view",),
        "on_child_return": ("view", "side"),
        "on_child_leave": ("view", "side"),
    }

    accept: Literal["minimum", "root", "largest", "either"] = "root"
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
    heartbeat: Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s")] = 60.0
    request_bytes: _Bytes = 170
    accept_bytes: _Bytes = 120
    completion_bytes: _Bytes = 125
    spread_bytes: _Bytes = 24
    summary_header: _Bytes = 90
    detection: _TimeOrZero | None = None
    repair: _TimeOrZero = 0.0
    maintenance: Literal["ideal", "messages"] = "ideal"
    beat: Annotated[float, Limits(low=1e-9, high=_LONGEST_PART, unit="s")] = 30.0
    beat_bytes: _Bytes = 40
    missed: Annotated[int, Limits(low=2, high=1000)] = 2
    resubmit: Literal["as-is", "new"] = "as-is"
    stretch: Literal["exact", "bisection"] = "exact"
    tolerance: Annotated[float, Limits(low=1e-15, high=0.5)] = 1e-9
    run_on: bool = False
    data: Literal["aware", "ignored"] = "aware"
    data_samples: int | tuple[float, ...] = 3
    needs: Literal["aware", "ignored"] = "aware"
    need_samples: int | tuple[tuple[float, float], ...] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(
            self,
            samples=_parse_samples(self.samples),
            data_samples=_parse_data_samples(self.data_samples),
            need_samples=_parse_need_samples(self.need_samples),
        )
        cells = self.samples if isinstance(self.samples, int) else math.prod(self.samples)
        if self.grid is not None:
            made = explicit_grid(self.grid)
            cells = made.cells
            normalise(self, grid=samples_of(made))
        nbytes = self.summary_bytes(cells)
        if nbytes >= 2**31:
            raise ScenarioError(
                f"fair-tree.samples must give summaries of less than 2**31 bytes, got {nbytes}"
            )
        if 0 < self.update_rate < nbytes / _LONGEST_PART:
            raise ScenarioError(
                f"fair-tree.update_rate must be 0 or allow a summary ({nbytes} bytes) within "
                f"{_LONGEST_PART:g} s, got {self.update_rate!r}"
            )
        by_messages = {"repair": 0.0, "detection": None, "run_on": False}
        from_outside = {"beat": 30.0, "beat_bytes": 40, "missed": 2}
        if self.maintenance == "ideal":
            self._check_unused("maintenance is 'ideal'", from_outside)
        else:
            self._check_unused("maintenance is 'messages'", by_messages)
        if self.accept != "minimum":
            self._check_unused(f"accept is {self.accept!r}", {"minimum_of": "all"})

    def _check_unused(self, condition: str, unused: dict[str, Any]) -> None:
        """Raise ScenarioError if a parameter without effect under `condition` is not its default."""
        for name, default in unused.items():
            if (value := getattr(self, name)) != default:
                raise ScenarioError(f"fair-tree.{name} must be {default!r} if {condition}, got {value!r}")

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, and on the root if every request goes there."""
        root = "; every request goes to the root" if self.bound == 0.0 else ""
        return f"{super().summary.removesuffix('.')}{root}."

    @property
    def by_root(self) -> bool:
        """True if routers need a copy of the root's summary."""
        return self.accept in ("root", "either")

    @property
    def by_largest(self) -> bool:
        """True if routers need the largest minimum stretch of a leaf."""
        return self.accept in ("largest", "either")

    def summary_bytes(self, cells: int) -> int:
        """Return the size of a summary with `cells` cells, bytes."""
        more = LARGEST_BYTES * self.by_largest + COVERS_BYTES * self.by_root
        return 4 * cells + self.summary_header + more

    @property
    def failures_known(self) -> bool:  # type: ignore[override]
        """True with the ideal repair, by which nodes know at once which machines are up, as in the paper."""
        return self.maintenance == "ideal"

    @property
    def promised_order(self) -> Literal["edf"] | None:
        """The order of deadlines at the minimum stretch; None with bisection, which is not exact."""
        return "edf" if self.stretch == "exact" else None

    def ladder_steps(self) -> list[LadderStep]:
        """Return the steps of `gridsim.ladder` down to this tree."""
        root = msgspec.structs.replace(self, bound=0.0, update_rate=0.0)
        without_acceptance = msgspec.structs.replace(self, bound=0.0)
        counts = self.samples if self.grid is None else tuple(map(len, self.grid))
        samples = f"{counts} cells" if isinstance(counts, int) else " x ".join(map(str, counts))
        rate = f"{self.update_rate:g} bytes/s" if self.update_rate else "none"
        accepts = f"routers below the root accept by {self.accept}, B = {self.bound:g}"
        return [
            LadderStep("central, bound at release", "tasks stay where they were put", "mincent-once"),
            LadderStep("tree, perfect information", "requests are split two by two", "ideal-tree"),
            LadderStep("tree, summaries", f"the root knows samples, {samples}, of sums", root, is_free=True),
            LadderStep(*MESSAGES_TAKE_TIME, root),
            LadderStep("rate limit", f"of what a node spends on summaries: {rate}", without_acceptance),
            LadderStep("early acceptance", accepts, self),
            LadderStep("no early acceptance", "", without_acceptance, is_beside=True),
        ]

    def explicit(self, speeds: NDArray[np.float64], applications: Applications) -> FairTree:
        """Return this scheduler with explicit samples of its summary grid."""
        if self.grid is not None:
            return self
        grid, data = derive_grid(speeds, applications, self.samples), self.data_samples
        if applications.moves_data and isinstance(data, int):
            data = data_samples(applications, data)
        needs = self.need_samples
        if applications.wants.any and isinstance(needs, int):
            needs = need_samples(applications, needs)
        return msgspec.structs.replace(self, grid=samples_of(grid), data_samples=data, need_samples=needs)

    @property
    def unknown_minimum(self) -> float:
        """The value that a router assumes for a minimum stretch that it does not know yet, s/Mflop."""
        return 0.0 if self.minimum_of == "all" else math.inf

    def idle_minimum(self, speed: Any) -> Any:
        """Return the minimum stretch that an idle leaf with this speed or speeds reports, s/Mflop."""
        return {"busy": math.inf, "all": 0.0, "inverse-speed": 1.0}[self.minimum_of] / speed

    # -- as a node program ----------------------------------------------------------------------------------

    @property
    def roles(self) -> Mapping[str, Role]:  # type: ignore[override]
        """Leaves on all machines and routers on all but the last; with messages, one program per machine."""
        return _MACHINES if self.maintenance == "messages" else _LEAVES_AND_ROUTERS

    @property
    def watch(self) -> Literal["completion", "idle"]:  # type: ignore[override]
        """Events that nodes handle; with ``maintenance="messages"``, ends of tasks are reported at once."""
        by_end = self.update_on == "completion" or self.maintenance == "messages"
        return "completion" if by_end else "idle"

    @property
    def queue_options(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Options of the queues of the leaves."""
        tolerance = self.tolerance if self.stretch == "bisection" else 0.0
        return {"tolerance": tolerance, "aware": self.data == "aware"}

    def layout(self, machines: int) -> Layout:
        """Return the layout: router k and leaf machines - 1 + k are on machine k."""
        layout = super().layout(machines)
        if self.maintenance == "messages":
            return layout
        return replace(layout, level_of=tree_level(np.arange(layout.nodes)))

    def messages_of(self, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages, with their fields and sizes."""
        return (messages_of_machines if self.maintenance == "messages" else messages)(self)

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment, as pairs of a condition and a reason."""
        return [
            ("maintenance = 'ideal'", IdealRepair.reason),
            ("maintenance = 'messages'", TreeByMessages.reason),
        ]

    def make_environment(self, run: Run) -> TreeEnvironment:
        """Return the environment: the ideal repair, or the records of submitters."""
        return (TreeByMessages if self.maintenance == "messages" else IdealRepair)(self, run)

    def run_until(self, run: Run) -> Literal["done", "placed", ""]:
        """Return the condition that ends a run: in the ideal tree, all tasks are placed."""
        if self.maintenance == "messages":
            return "done"
        return "" if run.faults or self.run_on else "placed"

    def start(self, run: Run) -> Policy:
        """Return the policy of a run."""
        special = run.bandwidth is not None or _has_needs(run)
        by_messages = self.maintenance == "messages"
        if run.share is not None and (by_messages or special):
            raise ScenarioError(
                "processes must be 1 for a fair tree maintained by messages, or whose tasks move data or "
                f"need memory or disk that not all machines or cores have, got {run.share.ranks}"
            )
        if by_messages and run.nodes == "compiled":
            raise CompileError("nodes='compiled' does not support fair-tree with maintenance='messages'")
        if special and run.nodes == "compiled":
            raise ScenarioError(
                "nodes must be 'interpreted' or None for fair-tree where tasks move data, or need memory or "
                "disk that not all machines or cores have, got 'compiled'"
            )
        if by_messages or special or run.nodes == "interpreted":
            return Adapter(self, run)
        return CompiledTree(self, run)

    @property
    def moves_data(self) -> bool:
        """True if tasks may transfer data; false if aware leaves sample for a later release."""
        return self.maintenance == "ideal" and (self.data == "ignored" or not self.release_cell)

    @property
    def cores(self) -> bool | Literal["separate"]:  # type: ignore[override]
        """How machines with several cores run; with the ideal repair a leaf has one queue for its cores."""
        return True if self.maintenance == "ideal" else "separate"

    @property
    def constraints(self) -> bool:  # type: ignore[override]
        """True if tasks may require memory and disk, which requires the ideal repair."""
        return self.maintenance == "ideal"

    def summary_axes(self, run: Run) -> tuple[SummaryGrid, DataAxis | None, NeedsAxis | None]:
        """Return the grid of each slice of a summary, and the further axes of the summary.

        The grid is explicit or derived for the run.  The further axes, of data and of memory and disk, are
        None if tasks have no such needs or nodes ignore them.
        """
        applications, speeds, bandwidth = run.applications, run.speeds, run.bandwidth
        aware = bandwidth is not None and self.data == "aware"
        data_values: tuple[float, ...] = ()
        if aware:
            samples = self.data_samples
            data_values = data_samples(applications, samples) if isinstance(samples, int) else samples
        needs: tuple[Need, ...] = ()
        if _has_needs(run) and self.needs == "aware":
            pairs = self.need_samples
            needs = need_samples(applications, pairs) if isinstance(pairs, int) else pairs
        if self.grid is not None:
            grid = explicit_grid(self.grid)
        else:
            slices = max(1, len(data_values)) * max(1, len(needs))
            counts = max(1, self.samples // slices) if isinstance(self.samples, int) else self.samples
            slowdown = None
            if bandwidth is not None and aware:
                total, task_data = float(speeds.sum()), applications.bytes_per_mflop.tolist()
                slowdown = np.array([total / throughput(speeds, bandwidth, data).sum() for data in task_data])
            options: dict[str, Any] = {"failing": run.faults, "as_new_bags": self.resubmit == "new"}
            grid = derive_grid(speeds, applications, counts, slowdown=slowdown, **options)
        data = DataAxis(grid, data_values, run) if aware else None
        rates = [speeds] if data is None else data.rates
        return grid, data, NeedsAxis(needs, rates, run) if needs else None


def _has_needs(run: Run) -> bool:
    """Return whether tasks need memory or disk that not all machines have, or not for a task on each core."""
    applications = run.applications
    return applications.group is not None or bool(
        scarce_memory(run.cores, run.attributes, applications.memory).any()
    )


def _parse_data_samples(samples: Any) -> int | tuple[float, ...]:
    with suppress(ScenarioError):
        return integer("fair-tree.data_samples", samples, low=1)
    with suppress(ScenarioError):
        parsed = tuple(real("", sample, low=0) for sample in sequence("", samples))
        if parsed and all(before < after for before, after in pairwise(parsed)):
            return parsed
    raise ScenarioError(
        "fair-tree.data_samples must be a number of samples >= 1, or ascending bytes/Mflop >= 0, got "
        f"{short_repr(samples)}"
    )


def _parse_need_samples(samples: Any) -> int | tuple[Need, ...]:
    with suppress(ScenarioError):
        return integer("fair-tree.need_samples", samples, low=1)
    with suppress(ScenarioError):
        parsed = [
            tuple(real("", each, low=0) for each in sequence("", pair)) for pair in sequence("", samples)
        ]
        if parsed and all(len(pair) == 2 for pair in parsed) and len(set(parsed)) == len(parsed):
            return tuple((memory, disk) for memory, disk in parsed)
    raise ScenarioError(
        "fair-tree.need_samples must be a number of samples >= 1, or different pairs of memory and disk, "
        f"bytes >= 0, got {short_repr(samples)}"
    )


def _parse_samples(samples: Any) -> int | tuple[int, ...]:
    with suppress(ScenarioError):
        return integer("fair-tree.samples", samples, low=1)
    with suppress(ScenarioError):
        counts = tuple(integer("fair-tree.samples", count, low=1) for count in sequence("", samples))
        if len(counts) == 3:
            return counts
    raise ScenarioError(
        f"fair-tree.samples must be a number of cells or three counts, >= 1, got {short_repr(samples)}"
    )
