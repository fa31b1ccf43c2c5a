"""The fair tree scheduler: decentralized bag-of-tasks scheduling for the smallest maximum stretch.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids".
Machines are the leaves of a balanced binary tree whose routers sit on the machines as well.  Summaries of
availability flow up, limited in rate; requests climb until a router can host them at a stretch that is not
much above the platform's minimum, and are split on the way down; every leaf runs EDF at its own minimum
stretch.  The mathematics is in `gridcore` (`SummaryTree`, `TaskQueues`), the protocol in
`fair_tree_policy`; here is what can be set.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.arguments import flag, normalise, one_of, real, sequence, shown, whole
from gridsim.decisions import Words
from gridsim.errors import ScenarioError
from gridsim.model import Applications
from gridsim.scheduler import Run, Scheduler
from gridsim.schedulers.fair_tree_notes import WORDS
from gridsim.schedulers.fair_tree_policy import FairTreePolicy
from gridsim.schedulers.summary_grid import derive_grid, explicit_grid, samples_of

#: The longest period, s: the clock counts int64 nanoseconds.
_LONGEST = 4e9
#: Of cells, several of which are added up, and of what routers wait for, one after another.
_LONGEST_PART = 1e9


class FairTree(Scheduler, frozen=True, kw_only=True):
    """Parameters of the fair tree.

    bound : B; a router accepts a climbing request at stretch S if S <= B * (minimum stretch of the leaves
        that count).  0 sends every request to the root.  B and the ratio of the stretch samples are one knob:
        S is rounded up to a sample.
    samples : cells that a summary may have (4 bytes each), shared out over its axes by a rule; or the numbers
        of stretch, application size and task size samples.
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
    minimum_of : leaves that count in the minimum stretch: ``"all"``, where an idle leaf counts 0 (the paper
        read literally) and sends all requests to the root; ``"busy"``; ``"inverse-speed"``, where an idle
        leaf counts 1 / speed (the authors' later code).  Where machines fail ``"all"`` is better.
    spread : when the minimum stretch travels down on its own: at each ``"heartbeat"``, or on ``"change"``
        too.  It travels with every request in any case.
    heartbeat : s between completion reports, and between spreads.
    request_bytes, accept_bytes, completion_bytes, spread_bytes, summary_header : sizes of messages.
    repair : s that the routers of a machine that failed are out of the tree; 0 for none (the paper).
    resubmit : lost tasks come back with their application's release and size (``"as-is"``), or as a bag of
        that many tasks released now (``"new"``).
    stretch : how a leaf finds its minimum stretch: ``"exact"``, or by ``"bisection"`` (the paper).
    tolerance : relative, of the bisection.
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

    bound: float = 1.0
    samples: int | tuple[int, int, int] = 720
    grid: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] | None = None
    update_rate: float = 10_000.0
    update_on: Literal["completion", "change"] = "completion"
    hold_off: float = 0.0
    release_cell: float = 0.0
    refresh: float = 0.0
    entry: Literal["own-router", "father"] = "own-router"
    minimum_of: Literal["busy", "all", "inverse-speed"] = "all"
    spread: Literal["heartbeat", "change"] = "heartbeat"
    heartbeat: float = 300.0
    request_bytes: int = 170
    accept_bytes: int = 120
    completion_bytes: int = 125
    spread_bytes: int = 24
    summary_header: int = 90
    detection: float | None = None
    repair: float = 0.0
    resubmit: Literal["as-is", "new"] = "as-is"
    stretch: Literal["exact", "bisection"] = "exact"
    tolerance: float = 1e-9
    run_on: bool = False

    def __post_init__(self) -> None:
        for field in ("bound", "update_rate", "hold_off", "release_cell", "refresh", "heartbeat"):
            normalise(self, **{field: real(f"fair-tree.{field}", getattr(self, field), low=0)})
        for field, zero, longest in (
            ("hold_off", "0 or ", _LONGEST_PART),
            ("release_cell", "0 or ", _LONGEST_PART),
            ("refresh", "0 or ", _LONGEST),
            ("heartbeat", "", _LONGEST),
        ):
            value = getattr(self, field)
            if not (1e-9 <= value <= longest or (zero and value == 0)):
                raise ScenarioError(f"fair-tree.{field} must be {zero}in 1e-9..{longest:g} s, got {value!r}")
        if self.detection is not None:
            seconds = real("fair-tree.detection", self.detection, low=0, unit="s")
            if not (seconds == 0 or 1e-9 <= seconds <= _LONGEST):
                raise ScenarioError(
                    f"fair-tree.detection must be 0 or in 1e-9..{_LONGEST:g} s, or none for the next "
                    f"heartbeat, got {seconds!r}"
                )
            normalise(self, detection=seconds)
        for field in ("request_bytes", "accept_bytes", "completion_bytes", "spread_bytes", "summary_header"):
            normalise(self, **{field: whole(f"fair-tree.{field}", getattr(self, field), high=2**31 - 1)})
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
        for field, known in (
            ("update_on", ("completion", "change")),
            ("entry", ("own-router", "father")),
            ("minimum_of", ("busy", "all", "inverse-speed")),
            ("spread", ("heartbeat", "change")),
            ("resubmit", ("as-is", "new")),
            ("stretch", ("exact", "bisection")),
        ):
            normalise(self, **{field: one_of(f"fair-tree.{field}", getattr(self, field), known)})
        normalise(self, tolerance=real("fair-tree.tolerance", self.tolerance, low=0))
        if not 1e-15 <= self.tolerance <= 0.5:
            raise ScenarioError(f"fair-tree.tolerance must be in 1e-15..0.5, got {self.tolerance!r}")
        normalise(self, repair=real("fair-tree.repair", self.repair, low=0, unit="s"))
        if not (self.repair == 0 or 1e-9 <= self.repair <= _LONGEST):
            raise ScenarioError(f"fair-tree.repair must be 0 or in 1e-9..{_LONGEST:g} s, got {self.repair!r}")
        normalise(self, run_on=flag("fair-tree.run_on", self.run_on))

    @property
    def order(self) -> Literal["edf"] | None:
        """See `gridsim.scheduler.Scheduler`."""
        return "edf" if self.stretch == "exact" else None

    def explicit(self, speeds: NDArray[np.float64], applications: Applications) -> FairTree:
        """See `gridsim.scheduler.Scheduler`: with the grid of its summaries."""
        if self.grid is not None:
            return self
        made = derive_grid(speeds, applications, self.samples)
        return msgspec.structs.replace(self, grid=samples_of(made))

    def start(self, run: Run) -> FairTreePolicy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        return FairTreePolicy(self, run)


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
