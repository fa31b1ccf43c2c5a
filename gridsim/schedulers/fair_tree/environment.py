"""The environments of the nodes of a fair tree: the services of the model, with the ideal repair."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.decision_log import TreeDecisionLog
from gridcore.fair_tree.summary_tree import DECISION
from gridsim.engine.engine import TIMER
from gridsim.errors import ScenarioError
from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.schedulers.fair_tree.outcome import TreeFindings, complete_queues, outcome_of
from gridsim.schedulers.fair_tree.recovery import Recovery
from gridsim.schedulers.fair_tree.tree import Tree, children_of, parent_of, side_of
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.overlays import subtree_sums
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import nanoseconds


class TreeEnvironment(Environment):
    """The services of the model to the nodes of a fair tree, for either kind of maintenance.

    Attributes
    ----------
    tree
        The common knowledge of all nodes.
    bags
        Applications, and lost tasks that are bags of their own.
    """

    #: The record of decisions; None if they are not recorded.
    log: TreeDecisionLog | None = None
    #: Parameter with a period -> timer that fires at its multiples; timers of one instant fire in this order.
    timers: ClassVar[dict[str, str]] = {}

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.tree = self.make_tree()
        self.bags = Bags(run.applications, self._add)

    def make_tree(self) -> Tree:
        """Return the common knowledge of all nodes."""
        return Tree.of(self.parameters, self.run, self.parameters.summary_bytes)

    def check_emulation(self) -> None:
        """Raise ScenarioError if lost tasks become bags of their own."""
        if self.run.faults and self.parameters.resubmit == "new":
            raise ScenarioError(
                f"{self.parameters.name}.resubmit must be 'as-is' in an emulation with failures, got 'new': "
                "processes do not support bags that are added during a run"
            )

    def attach(self, adapter: Any) -> None:
        """Register the timers of nodes."""
        super().attach(adapter)
        run, engine = self.run, self.run.engine
        if run.decisions is not None:
            rows = None if adapter.compiled is None else run.decisions
            self.log = TreeDecisionLog(adapter.queues, run.up, run.applications, rows)
        for priority, (parameter, timer) in enumerate(self.timers.items(), 20):
            if period := getattr(self.parameters, parameter):
                engine.on(parameter, partial(self.tick, timer), priority=priority, phase=TIMER)
                engine.every(nanoseconds(period), parameter)

    def tick(self, name: str, _: list[int]) -> None:
        """Fire a timer on all nodes that are up."""
        self.fire(name, np.flatnonzero(self.adapter.up))

    def submitter(self, application: int) -> int:
        """Return the leaf that gets answers about `application`, which may be a bag of lost tasks."""
        return self.tree.first_leaf + int(self.run.applications.submitter[self.bags.whose[application]])

    def submit(self, applications: Integers, tasks: Integers) -> None:
        """Submit lost tasks again."""
        now = self.run.engine.now
        if self.parameters.resubmit == "new":
            applications = self.bags.add_bags(applications, tasks, now)
        self.adapter.core.resubmit(applications, tasks, now)

    def _add(self, release: Floats, size: Floats, task_size: Floats, applications: Integers) -> None:
        """Add bags of lost tasks."""
        self.adapter.queues.add_applications(release, size, task_size, whose=applications)
        self.adapter.core.add_applications(self.run.applications.submitter[applications])

    def added_application(self, number: int) -> Application:
        """Return a bag of lost tasks."""
        return Application.of(self.bags, number)

    def original_of(self, application: int) -> int:
        """Return the application of which `application` is a bag of lost tasks, or itself."""
        return int(self.bags.whose[application])

    # -- the record of decisions ----------------------------------------------------------------------------

    def deciding(self, node: int) -> int:
        """Return the leaf or router that is deciding, given the node of the layout."""
        return node

    def machine_of(self, node: int, by: int) -> int:
        """Return the machine on which a leaf or router is, as far as node `by` of the layout knows."""
        return int(self.adapter.core.machine_of(node))

    def complete_decision(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """Add the level of the node and the true values to a decision."""
        target = columns["node"]
        if target >= 0:
            columns["machine"] = self.machine_of(target, node)
        assert self.log is not None
        self.log.complete(self.deciding(node), target, action, application, columns, self.adapter.now)

    # -- the end --------------------------------------------------------------------------------------------

    def node_findings(self, tables: dict[str, dict[str, NDArray[Any]]]) -> dict[str, Any]:
        """Return the results of the nodes from their tables, as arguments of `TreeFindings`."""
        requests, updates, reports = (tables[name] for name in ("routed", "updates", "told"))
        has_climbed = requests["hops"] >= 0
        decisions = np.zeros(int(has_climbed.sum()), DECISION)
        for name in ("node", "application", "tasks", "sample", "hops"):
            decisions[name] = requests[name][has_climbed]
        decisions["guaranteed"] = decisions["sample"] >= 0
        return {
            "decisions": decisions,
            "decided": requests["time"][has_climbed],
            "updates": np.stack((updates["arrived"], updates["since"]), axis=1),
            "accepted": int(reports["accepted"].sum()),
            "completed": int(reports["completed"].sum()),
            "below_window": int((requests["sample"] == 0).sum()),
            "above_window": int((requests["sample"] < 0).sum()),
        }

    def gather(
        self, findings: TreeFindings, totals: dict[str, Integers]
    ) -> tuple[TreeFindings, dict[str, Integers]]:
        """Add the results of other processes that share the run, and the totals of their queues."""
        return findings, totals

    def report(self, outcome: Outcome, ledger_end: int | None, resubmitted: Integers | None) -> None:
        """Replace the outcome by the outcome of a fair tree; `TreeFindings` documents the arguments."""
        findings = TreeFindings(
            **self.node_findings(outcome.tables), ledger_end=ledger_end, resubmitted=resubmitted
        )
        tree, queues = self.tree, self.adapter.queues
        axes: dict[str, list[Any]] = {
            **({} if tree.data is None else {"bytes_per_mflop": list(tree.data.samples)}),
            **({} if tree.needs is None else {"needs": [list(each) for each in tree.needs.samples]}),
        }
        findings, totals = self.gather(findings, complete_queues(queues))
        own = outcome_of(self.parameters, self.run, tree.grid, queues, self.bags, findings, totals, axes)
        for field in fields(own):
            setattr(outcome, field.name, getattr(own, field.name))


class IdealRepair(TreeEnvironment):
    """The ideal repair of the tree, and the information that it gives to nodes.

    `Recovery` decides which nodes leave the tree and return.

    Attributes
    ----------
    leaves, speed, absent
        For each node: number of leaves below it, their speed (Mflop/s), and whether it has left the tree.
    """

    reason = (
        "as in the paper, a repair of the tree takes no time and no messages: routers of failed machines "
        "move, and routers know which children are there, and how many leaves of which speed are below them; "
        "lost tasks are noticed at the next heartbeat, and for a machine that is down the next one acts"
    )
    failure_model = "own"
    timers: ClassVar[dict[str, str]] = {
        "heartbeat": "heartbeat",
        "release_cell": "refresh",
        "refresh": "refresh",
    }
    STATE: ClassVar[tuple[str, ...]] = "bags", "leaves", "speed", "absent", "recovery", "up"

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.first_leaf = self.tree.first_leaf
        self.to_place = int(run.applications.tasks.sum())
        self.count_leaves()
        self.recovery: Recovery | None = None

    def count_leaves(self) -> None:
        """Count the leaves below each node."""
        self.leaves = [int(count) for count in subtree_sums(np.ones(len(self.run.speeds)))]
        self.speed = subtree_sums(self.run.speeds)
        self.absent = [False] * len(self.leaves)

    def attach(self, adapter: Any) -> None:
        """Create the handler of failures."""
        super().attach(adapter)
        self.up = adapter.up
        if self.run.faults:
            self.recovery = Recovery(
                self.run,
                self,
                adapter.queues,
                self.submit,
                self.touch,
                heartbeat=self.parameters.heartbeat,
                detection=self.parameters.detection,
                repair=self.parameters.repair,
            )

    def check_emulation(self) -> None:
        """Raise ScenarioError if the scenario has failures."""
        super().check_emulation()
        if self.run.faults:
            raise ScenarioError(
                f"{self.parameters.name}.maintenance must be 'messages' in an emulation with failures, got "
                "'ideal', which requires updates without time and messages"
            )

    def of_node(self, node: int) -> RepairView:
        """Return the environment of a leaf or a router."""
        return RepairView(self, node)

    def tick(self, name: str, _: list[int]) -> None:
        """Call the nodes whose timer fires; end the run if nothing is left to report."""
        now, core, nodes = self.run.engine.now, self.adapter.core, np.flatnonzero(self.up)
        if name == "heartbeat":
            # includes machines that have failed since: their reports are lost, but count as read here
            done = core.with_completions(now)
            if not done and self.adapter.queues.tasks_done == self.to_place:
                self.run.engine.stop()
                return
            nodes = np.union1d(nodes, np.array(done, np.int64) + self.first_leaf)
        root = name == "heartbeat" and self.first_leaf > 0
        self.fire(name, nodes[(nodes >= self.first_leaf) | (root & (nodes == 0))])
        if name == "heartbeat":
            core.drain(now)  # otherwise reports to submitters would wait for the next release

    # -- failures: changes of the tree by `Recovery` ---------------------------------------------------------

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Repair the tree after failures and recoveries of machines."""
        assert self.recovery is not None
        self.recovery.on_faults(failed, recovered)

    def task_lost(self, application: int, tasks: int, node: int) -> None:
        """Resubmit tasks whose request to `node` was lost.

        If all machines are down (`node` is -1), the submitter sends its request anyway, and it is lost.
        """
        core = self.adapter.core
        if node < 0:
            leaf = int(self.run.applications.submitter[application]) + self.first_leaf
            core.give(leaf, application, tasks)
            return
        assert self.recovery is not None
        due = self.recovery.lose_requests(
            np.array([node]), self.bags.whose[[application]], np.array([tasks]), self.adapter.now
        )
        core.wake(due)

    def touch(self, nodes: Integers) -> None:
        """Make `nodes` send a report."""
        self.adapter.core.act(nodes, self.run.engine.now)

    def silence(self, nodes: Integers) -> None:
        """Make `nodes` inactive until `reset`."""
        self.up[nodes] = False

    def reset(self, nodes: Integers) -> None:
        """Return `nodes` to the tree with empty memories; their children report to them again."""
        for node in nodes.tolist():
            parent, side = parent_of(node), side_of(node)
            last_issued = self.adapter.nodes[parent].last_issued[side] if node else 0
            self.adapter.renew([node])
            self.call("on_return", node, last_issued)
            if self.absent[node]:
                self._move(node, absent=False)
                if node:
                    self.call("on_child_return", parent, side)
            if node < self.first_leaf:
                for position, child in enumerate(children_of(node)):
                    self.call("on_parent_return", child)
                    if self.absent[child]:
                        self.call("on_child_leave", node, position)
        self.up[nodes] = True

    def leave(self, nodes: Integers) -> None:
        """Notify the parents of `nodes` that these have left the tree."""
        self.up[nodes] = False
        for node in nodes.tolist():
            self._move(node, absent=True)
            if node:
                self.call("on_child_leave", parent_of(node), side_of(node))

    def _move(self, node: int, *, absent: bool) -> None:
        """Remove `node` from the tree or put it back, and update the leaf counts of its ancestors."""
        self.absent[node] = absent
        if node >= self.first_leaf:
            self.leaves[node] = 0 if absent else 1
            self.speed[node] = 0.0 if absent else float(self.run.speeds[node - self.first_leaf])
            node = parent_of(node)
        while node >= 0:
            below = () if self.absent[node] else children_of(node)
            self.leaves[node] = sum(self.leaves[child] for child in below)
            self.speed[node] = sum((self.speed[child] for child in below), 0.0)
            node = parent_of(node) if node else -1

    def setstate(self, state: dict[str, Any]) -> None:
        """Restore which nodes are up, also in the array of the core."""
        super().setstate(state)
        self.adapter.up[:] = self.up
        self.up = self.adapter.up

    # -- the end --------------------------------------------------------------------------------------------

    def complete(self, outcome: Outcome) -> None:
        """Replace the outcome by the outcome of a fair tree."""
        resubmitted = None if self.recovery is None else self.recovery.resubmitted
        self.report(outcome, self.ledger_end(), resubmitted)

    def ledger_end(self) -> int | None:
        """Return the end (ns) of the accounting of messages, at the last placement; None if it continues."""
        placed: int = self.adapter.core.placed_at
        return None if placed < 0 or self.recovery is not None else placed


class RepairView:
    """The environment of one node (``view.environment``), with the information of the ideal repair.

    Attributes
    ----------
    tree
        The common knowledge of all nodes.
    submitter
        Function that returns the leaf that gets answers about an application, or about a bag of lost tasks.
    """

    def __init__(self, environment: IdealRepair, node: int) -> None:
        self._environment = environment
        self._machine = node - environment.first_leaf
        self.tree, self.submitter = environment.tree, environment.submitter

    def holds(self, application: int) -> bool:
        """Return whether the machine of this leaf has the memory and disk that `application` needs."""
        suited = self._environment.run.applications.machines_for(application)
        return suited is None or bool(suited[self._machine])

    def leaves_below(self, child: int) -> int:
        """Return the number of leaves below a child of this router; 0 if the child has left the tree."""
        return self._environment.leaves[child]

    def speed_below(self, child: int) -> float:
        """Return the speed of the leaves below a child, Mflop/s."""
        return self._environment.speed[child]

    def has_left(self, node: int) -> bool:
        """Return whether `node`, this router or one of its children, has left the tree."""
        return self._environment.absent[node]
