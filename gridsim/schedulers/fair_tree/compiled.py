"""The adapter of the compiled nodes of a fair tree, which behave like the node program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.nodes import FairTreeNodes
from gridcore.fair_tree.summary_tree import SummaryTree
from gridsim.schedulers.fair_tree.environment import IdealRepair
from gridsim.schedulers.fair_tree.outcome import TreeFindings, complete_queues, merge_totals
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.program import Message
from gridsim.scheduling.overlays import tree_parts
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import nanoseconds


def compiled_messages(parameters: Any, cells: int) -> Mapping[str, Message]:
    """Return the kinds of messages of a `FairTree` with compiled nodes, whose summaries have `cells` cells.

    The fields are those of `gridcore.fair_tree.summary_tree`, where a summary is an index into its store.
    """
    share: dict[str, Any] = {"application": int, "tasks": int}
    down: dict[str, Any] = {"largest_minimum": float, "copy": int, "copy_time": int}

    def size_of(nbytes: int) -> Any:
        # the compiled nodes add the bytes of the fields that the acceptance rule needs
        return nbytes if parameters.accept == "minimum" else lambda **_: nbytes

    messages = {
        "summary": Message(
            parameters.summary_bytes(cells),
            payload=int,
            sequence=int,
            echo=int,
            minimum=float,
            since=int,
            largest_minimum=float,
            covers=int,
            sample_time=int,
        ),
        "spread": Message(size_of(parameters.spread_bytes), minimum=float, **down),
        "request": Message(
            size_of(parameters.request_bytes),
            moves_tasks=True,
            **share,
            sequence=int,
            minimum=float,
            hops=int,
            **down,
        ),
        "accept": Message(parameters.accept_bytes, deferred=True, **share),
        "completion": Message(parameters.completion_bytes, deferred=True, **share),
    }
    for name, field in {"summary": "payload", "spread": "copy", "request": "copy"}.items():
        messages[name].opaque = (field,)
    return messages


class CompiledRepair(IdealRepair):
    """The ideal repair of a tree with compiled nodes.

    Attributes
    ----------
    nodes
        The compiled nodes.
    members
        The knowledge of the nodes, and which of them are in the tree.
    """

    STATE: ClassVar[tuple[str, ...]] = "bags", "recovery", "up"
    nodes: FairTreeNodes
    members: SummaryTree

    def count_leaves(self) -> None:
        """Do nothing, since `members` has counted them."""

    def attach(self, adapter: Any) -> None:
        """Find the compiled nodes."""
        self.nodes, self.members = adapter.compiled, adapter.tree
        super().attach(adapter)
        if self.log is not None:
            self.nodes.log = self.log

    def _add(self, release: Floats, size: Floats, task_size: Floats, applications: Integers) -> None:
        super()._add(release, size, task_size, applications)
        submitter = self.run.applications.submitter[applications] + self.first_leaf
        self.nodes.add_applications(release, size, task_size, submitter)

    def tick(self, name: str, _: list[int]) -> None:
        """Call the nodes whose timer fires; end the run if nothing is left to report."""
        core, queues, now = self.adapter.core, self.adapter.queues, self.run.engine.now
        nodes = np.flatnonzero(self.up)
        if name != "heartbeat":
            self.fire(name, nodes[nodes >= self.first_leaf])
            return
        machines, applications, tasks, _ends = queues.advance(now)
        if not core.total_of(len(machines)) and core.total_of(queues.tasks_done) == self.to_place:
            self.run.engine.stop()
            return
        self.nodes.complete(machines, applications, tasks)
        self.fire(name, nodes[:1][nodes[:1] == 0])
        core.drain(now)

    # -- failures: changes of the tree by `Recovery` ---------------------------------------------------------

    def silence(self, nodes: Integers) -> None:
        """Make `nodes` inactive until `reset`."""
        super().silence(nodes)
        self.members.silence(nodes)

    def reset(self, nodes: Integers) -> None:
        """Return `nodes` to the tree with empty memories; their children report to them again."""
        self.members.reset(nodes)
        self.up[nodes] = True

    def leave(self, nodes: Integers) -> None:
        """Notify the parents of `nodes` that these have left the tree."""
        self.up[nodes] = False
        self.members.leave(nodes)

    # -- the end --------------------------------------------------------------------------------------------

    def node_findings(self, tables: dict[str, dict[str, NDArray[Any]]]) -> dict[str, Any]:
        """Return the nodes' data for the result, as arguments of `TreeFindings`."""
        rows, time = self.nodes.decisions()
        return {
            "decisions": rows,
            "decided": time,
            "updates": self.nodes.arrived(),
            "accepted": self.nodes.accepted,
            "completed": self.nodes.completed,
            "below_window": self.members.below_window,
            "above_window": self.members.above_window,
        }

    def gather(
        self, findings: TreeFindings, totals: dict[str, Integers]
    ) -> tuple[TreeFindings, dict[str, Integers]]:
        """Add the results of the nodes and queues of other processes, and count their messages."""
        if self.run.share is not None:
            counts = self.run.network.counts()
            for more, other, others in self.run.share.gather():
                findings = findings.with_part(more)
                totals = merge_totals(totals, other)
                for count, further in zip(counts, others, strict=True):
                    count += further
        return findings, totals


class CompiledTree(Adapter):
    """The adapter of compiled nodes, which several processes can share."""

    environment: CompiledRepair
    compiled: FairTreeNodes

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        if (share := run.share) is not None:
            parts = tree_parts(len(run.speeds), share.ranks)
            self.core.join(parts, share.rank, share.ranks, share.memory, share.watch)
            share.leave = self.core.leave

    def seed(self) -> int:
        """Return 0, since the nodes draw no random numbers."""
        return 0

    def make_environment(self, parameters: Any, run: Run) -> CompiledRepair:
        """Return the environment with the ideal repair of compiled nodes."""
        return CompiledRepair(parameters, run)

    def messages(self, parameters: Any, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages of compiled nodes."""
        return compiled_messages(parameters, self.environment.tree.grid.cells)

    def _compile(self) -> FairTreeNodes:
        parameters, run, grid = self.parameters, self.run, self.environment.tree.grid
        applications, cell = run.applications, nanoseconds(parameters.release_cell)
        #: The knowledge of the nodes.
        self.tree = SummaryTree(
            grid,
            run.speeds,
            release=applications.release,
            size=applications.size,
            task_size=applications.task_size,
            nbytes=parameters.summary_bytes(grid.cells),
            rate=parameters.update_rate,
            hold_off=nanoseconds(parameters.hold_off),
            accept=parameters.accept,
            bound=parameters.bound,
            unknown=parameters.unknown_minimum,
            common_release=cell > 0,
        )
        return FairTreeNodes(
            self.tree.nodes,
            len(applications),
            self.tree,
            idle_minimum=parameters.idle_minimum(run.speeds),
            submitter=applications.submitter + self.tree.first_leaf,
            request_bytes=parameters.request_bytes,
            spread_bytes=parameters.spread_bytes,
            spread_on_change=parameters.spread == "change",
            own_router=parameters.entry == "own-router",
            cell=cell,
        )

    def setstate(self, state: dict[str, Any]) -> None:
        """Restore a state of a checkpoint, and the releases that follow ends."""
        super().setstate(state)
        if self.run.releases is not None:
            self.tree.set_releases(self.run.applications.release)

    def partial_outcome(self) -> tuple[TreeFindings, dict[str, Any], list[Any]]:
        """Return the results of this process: findings, totals of queues, and message counts."""
        self.core.drain(self.now)
        findings = TreeFindings(
            **self.environment.node_findings({}), ledger_end=self.environment.ledger_end(), resubmitted=None
        )
        return findings, complete_queues(self.queues), self.run.network.counts()
