"""Runs the node program of the fair tree (`gridsim.schedulers.fair_tree.node`) on the message core.

The tree itself is maintained from outside the nodes, as in the paper, where its repair takes no time:
`Recovery` decides which nodes leave and return, and `Tree` has what nodes are told of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.fair_tree.summary_tree import DECISION
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.errors import ScenarioError
from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.schedulers.fair_tree.data_axis import DataAxis
from gridsim.schedulers.fair_tree.deciders import TreeDecider
from gridsim.schedulers.fair_tree.decisions import WORDS
from gridsim.schedulers.fair_tree.needs_axis import NeedsAxis
from gridsim.schedulers.fair_tree.node import TABLES, Leaf, Router, TreeNode, messages
from gridsim.schedulers.fair_tree.outcome import Found, ended, outcome
from gridsim.schedulers.fair_tree.recovery import Recovery
from gridsim.schedulers.fair_tree.tree import Tree
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.ground_truth import Decider
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.overlays import tree_level, tree_machines
from gridsim.scheduling.queues import task_queues
from gridsim.support.arrays import Floats, Integers


def declarations(parameters: Any) -> Declarations:
    """Return the declarations of the node program for a `FairTree`."""
    kinds = messages(parameters)
    periods = {name: getattr(parameters, name) for name in ("heartbeat", "release_cell", "refresh")}
    due = {name: period for name, period in periods.items() if period}

    class Nodes(Declarations):
        name = "fair-tree"
        messages = kinds
        watch = "completion" if parameters.update_on == "completion" else "idle"
        reports = True
        ticks = due
        tables = TABLES
        decision_words = WORDS

        def layout(self, machines: int) -> Layout:
            """Return the layout: router k is on machine k, and so is leaf first_leaf + k."""
            nodes = np.arange(2 * machines - 1)
            return Layout(tree_machines(machines), nodes[machines - 1 :], tree_level(nodes))

    return Nodes()


class TreeAdapter(Adapter):
    """What the policies have in common that run node programs of the fair tree.

    Attributes
    ----------
    of
        The `FairTree`.
    bags
        Applications, and lost tasks that are bags of their own.
    data, needs
        The axes of summaries for bytes per Mflop, and for memory and disk; None if there is none.
    """

    data: DataAxis | None = None
    needs: NeedsAxis | None = None

    def __init__(self, parameters: Any, grid: SummaryGrid, run: Run, declared: Declarations) -> None:
        self.of, self.run = parameters, run
        self.bags = Bags(run.applications, self._add)
        self.to_place = int(run.applications.tasks.sum())
        self.make_tree(grid)
        super().__init__(declared, run)

    def make_tree(self, grid: SummaryGrid) -> None:
        """Make what all nodes know."""
        self.tree = Tree(self.of, grid, self.run, self.data, self.needs)

    def make_queues(self, *, ends: bool) -> TaskQueues:
        """Make the queues of the leaves."""
        return task_queues(
            self.run,
            aware=self.data is not None,
            tolerance=self.of.tolerance if self.of.stretch == "bisection" else 0.0,
            watch=self.watch,
            log=True,
            record=self.run.record,
        )

    def neighbours(self) -> Integers:
        """Return no neighbours: nodes know their parents and children by their numbers."""
        return np.zeros((self.layout.nodes, 0), np.int64)

    def application(self, index: int) -> Application:
        """Return an application, or a bag of lost tasks, as nodes see it."""
        return Application.of(self.bags, index)

    def _add(self, release: Floats, size: Floats, task_size: Floats, whose: Integers) -> None:
        """Add bags of lost tasks; see `Bags`."""
        self.queues.add_applications(release, size, task_size, whose=whose)
        self.core.add_applications(self.run.applications.submitter[whose])
        self.tree.whose = self.bags.whose

    # -- the end ---------------------------------------------------------------------------------------------

    def found(self, ledger_end: int | None, resubmitted: Integers | None) -> Outcome:
        """Return the outcome; see `Found` for what is given."""
        tables = self.notes.tables()
        routed, updates, told = (tables[name] for name in ("routed", "updates", "told"))
        climbed = routed["hops"] >= 0
        decisions = np.zeros(int(climbed.sum()), DECISION)
        for name in ("node", "application", "tasks", "sample", "hops"):
            decisions[name] = routed[name][climbed]
        decisions["guaranteed"] = decisions["sample"] >= 0
        return outcome(
            self.of,
            self.run,
            self.tree.grid,
            self.queues,
            self.bags,
            Found(
                decisions=decisions,
                decided=routed["time"][climbed],
                updates=np.stack((updates["arrived"], updates["since"]), axis=1),
                accepted=int(told["accepted"].sum()),
                completed=int(told["completed"].sum()),
                below_window=int((routed["sample"] == 0).sum()),
                above_window=int((routed["sample"] < 0).sum()),
                ledger_end=ledger_end,
                resubmitted=resubmitted,
            ),
            ended(self.queues),
            {
                **({} if self.data is None else {"bytes_per_mflop": list(self.data.samples)}),
                **({} if self.needs is None else {"needs": [list(each) for each in self.needs.samples]}),
            },
        )


class TreeNodes(TreeAdapter):
    """The policy that runs a leaf, and a router, on each machine."""

    STATE = (
        "bags", "tree", "queues", "recovery", "core", "notes", "present",
    )  # fmt: skip

    def __init__(
        self,
        parameters: Any,
        grid: SummaryGrid,
        run: Run,
        data: DataAxis | None = None,
        needs: NeedsAxis | None = None,
    ) -> None:
        self.data, self.needs = data, needs
        self.until = "" if run.faults or parameters.run_on else "placed"
        super().__init__(parameters, grid, run, declarations(parameters))
        self.present = self.up

    # -- what the adapter asks for ---------------------------------------------------------------------------

    def check_emulation(self) -> None:
        """Raise ScenarioError with failures: their repair is done from outside the nodes."""
        if self.run.faults:
            raise ScenarioError(
                f"faults must be absent to emulate {self.of.name}: its repair is not a node program"
            )

    def program(self, node: int) -> TreeNode:
        """Make the program of a node."""
        return Leaf(self.tree) if node >= self.tree.first_leaf else Router(self.tree, node)

    def register_failure_timers(self) -> None:
        """Make what handles failures."""
        self.recovery: Recovery | None = None
        if self.run.faults:
            self.recovery = Recovery(
                self.run,
                self,
                self.queues,
                self.submit,
                self.touch,
                heartbeat=self.of.heartbeat,
                detection=self.of.detection,
                repair=self.of.repair,
            )

    def make_decider(self) -> Decider:
        """Make what records the decisions of nodes."""
        return TreeDecider(self, self.bags)

    def tick(self, name: str, _: list[int]) -> None:
        """Let leaves, and at a heartbeat the root, do what is due; end the run if nothing is left to tell."""
        now, first_leaf = self.run.engine.now, self.tree.first_leaf
        nodes = np.flatnonzero(self.up)
        if name == "heartbeat":
            # a machine that has gone down since it completed tasks tells it in vain
            done = self.core.with_completions(now)
            if not done and self.queues.tasks_done == self.to_place:
                self.run.engine.stop()
                return
            nodes = np.union1d(nodes, np.array(done, np.int64) + first_leaf)
        root = name == "heartbeat" and first_leaf > 0
        self.core.tick(nodes[(nodes >= first_leaf) | (root & (nodes == 0))], name, now)
        if name == "heartbeat":
            self.core.drain(now)

    # -- lost tasks ------------------------------------------------------------------------------------------

    def submit(self, applications: Integers, tasks: Integers) -> None:
        """Submit lost tasks again."""
        now = self.run.engine.now
        if self.of.resubmit == "new":
            applications = self.bags.again(applications, tasks, now)
        self.core.resubmit(applications, tasks, now)

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Have tasks submitted again whose request was lost on its way to `node`.

        If all machines are down (-1), the submitter sends its request all the same, in vain.
        """
        if node < 0:
            leaf = int(self.run.applications.submitter[application]) + self.tree.first_leaf
            self.core.give(leaf, application, tasks)
            return
        assert self.recovery is not None
        due = self.recovery.lose_requests(
            np.array([node]), self.bags.whose[[application]], np.array([tasks]), self.now
        )
        self.core.wake(due)

    # -- failures: what `Recovery` does to the tree ----------------------------------------------------------

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        assert self.recovery is not None
        self.recovery.on_faults(failed, back)

    @property
    def first_leaf(self) -> int:
        """The first node that is a leaf."""
        return self.tree.first_leaf

    def touch(self, nodes: Integers) -> None:
        """Let `nodes` report."""
        self.core.act(nodes, self.run.engine.now)

    def silence(self, nodes: Integers) -> None:
        """Let `nodes` do nothing until `reset`."""
        self.up[nodes] = False

    def reset(self, nodes: Integers) -> None:
        """Put `nodes` into the tree again, with an empty memory; their children report to them again."""
        for node in nodes.tolist():
            parent, which = (node - 1) // 2, (node - 1) % 2
            former, program = self._node(node), self.program(node)
            program.recall(former, self._router(parent).issued[which] if node else 0)
            self.core.restart([node], [program], self.run.engine.now)
            if self.tree.gone[node]:
                self.tree.move(node, gone=False)
                if node:
                    self._router(parent).expect(which)
            if isinstance(program, Router):
                for position, child in enumerate((2 * node + 1, 2 * node + 2)):
                    self._node(child).asked = True
                    if self.tree.gone[child]:
                        program.forget(position)
        self.up[nodes] = True

    def leave(self, nodes: Integers) -> None:
        """Let the parents of `nodes` know that these have left the tree."""
        self.up[nodes] = False
        for node in nodes.tolist():
            self.tree.move(node, gone=True)
            if node:
                self._router((node - 1) // 2).forget((node - 1) % 2)

    def _node(self, node: int) -> TreeNode:
        program = self.nodes[node]
        assert isinstance(program, TreeNode)
        return program

    def _router(self, node: int) -> Router:
        program = self.nodes[node]
        assert isinstance(program, Router)
        return program

    # -- checkpoints -----------------------------------------------------------------------------------------

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        super().setstate(state)
        self.up[:] = self.present
        self.present = self.up

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self.core.drain(self.now)
        if self.recovery is not None:
            return self.found(None, self.recovery.resubmitted)
        placed = self.core.placed_at
        return self.found(None if placed < 0 else placed, None)
