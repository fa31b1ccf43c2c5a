"""Runs a fair tree that is kept by messages (`gridsim.schedulers.fair_tree.member`) on the message core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid
from gridsim.engine.engine import TIMER
from gridsim.errors import ScenarioError
from gridsim.schedulers.fair_tree.deciders import MemberDecider
from gridsim.schedulers.fair_tree.decisions import WORDS
from gridsim.schedulers.fair_tree.interpreted import TreeAdapter
from gridsim.schedulers.fair_tree.member import Member
from gridsim.schedulers.fair_tree.node import TABLES, Router
from gridsim.schedulers.fair_tree.node import messages as messages_of_nodes
from gridsim.schedulers.fair_tree.part import near
from gridsim.schedulers.fair_tree.records import Records
from gridsim.schedulers.fair_tree.seats import repairs
from gridsim.schedulers.fair_tree.worker import Worker
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.ground_truth import Decider
from gridsim.scheduling.nodes.program import Message, NodeProgram, array
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds

#: Bytes that each message in the tree has more: two nodes, and since when its sender is there.
TAG_BYTES = 16
#: Bytes that a summary has more: how many leaves are below its sender, and their speed.
BELOW_BYTES = 16
#: Bytes of the claim on a router that has moved: the router, since when, and the machine.
MOVED_BYTES = 16

_TAG: dict[str, Any] = {"role": int, "by": int, "claimed": int}
_LEFT: dict[str, Any] = {"left": int, "done": int, "life": int}


def messages(parameters: Any) -> dict[str, Message]:
    """Return the kinds of messages, in the order in which they are handled at one instant.

    Those of nodes (`gridsim.schedulers.fair_tree.node.messages`) say in addition for which node they are
    (`role`), from which (`by`), and since when that is on its machine (`claimed`, ns).  A summary has the
    number of `leaves` below and their `speed`; a request, whether it was `passed` on (0 or 1).

    Notes
    -----
    - ``accept``, ``completion``: how many tasks of the application the leaf has `left`, and has `done` in
      this `life`; those in bags of its lost tasks count with them.
    - ``beat``: a sign of life, with routers that have `moved` (node, since when in ns, machine); `wanted`: 1
      if the receiver is to report anew.
    - ``take``: asks to take over a `router` that is silent since a claim of that time.
    - ``where``: a `router` is on that `machine`, `since` ns.
    - ``failed``: a leaf has lost the tasks that it had of an application (`whose`); its new `life` begins.
    """
    kinds, small = messages_of_nodes(parameters), parameters.beat_bytes
    summary_bytes: Any = kinds["summary"].nbytes
    of: dict[str, dict[str, Any]] = {name: kind.fields for name, kind in kinds.items()}

    def tagged(name: str) -> Any:
        nbytes: Any = kinds[name].nbytes
        return (lambda **fields: nbytes(**fields) + TAG_BYTES) if callable(nbytes) else nbytes + TAG_BYTES

    return {
        "summary": Message(
            lambda cells, **_: summary_bytes(cells) + TAG_BYTES + BELOW_BYTES,
            **of["summary"],
            **_TAG,
            leaves=int,
            speed=float,
        ),
        "spread": Message(tagged("spread"), **of["spread"], **_TAG),
        "request": Message(
            tagged("request"),
            moves_tasks=True,
            **of["request"],
            **_TAG,
            passed=int,
        ),
        "accept": Message(parameters.accept_bytes, **of["accept"], **_LEFT),
        "completion": Message(parameters.completion_bytes, **of["completion"], **_LEFT),
        "failed": Message(small, whose=int, life=int),
        "beat": Message(
            lambda moved, **_: small + MOVED_BYTES * (len(moved) // 3), **_TAG, wanted=int, moved=array(int)
        ),
        "take": Message(small, router=int, since=int),
        "where": Message(small, router=int, since=int, machine=int),
    }


def declarations(parameters: Any) -> Declarations:
    """Return the declarations of the node program for a `FairTree`: there is one node a machine."""
    kinds = messages(parameters)
    periods = {name: getattr(parameters, name) for name in ("heartbeat", "beat", "release_cell", "refresh")}
    due = {name: period for name, period in periods.items() if period}
    seats: dict[str, type] = {"router": int, "machine": int, "time": int, "what": int}

    class Members(Declarations):
        name = "fair-tree"
        messages = kinds
        watch = "completion"  # what is done is reported at once
        reports = True
        ticks = due
        tables = {**TABLES, "seats": seats}
        decision_words = WORDS

    return Members()


class TreeMembers(TreeAdapter):
    """The policy that runs a `Member` on each machine.

    Tasks that failures destroy are in its records, from which submitters get back what they miss.

    Attributes
    ----------
    vacated
        (router, ns) of routers whose machine has failed.
    due
        Application -> tasks that are submitted again at this instant.
    """

    STATE = (
        "bags", "queues", "resubmitted", "records", "core", "notes", "vacated", "due",
    )  # fmt: skip

    def __init__(self, parameters: Any, grid: SummaryGrid, run: Run) -> None:
        self.started = False
        super().__init__(parameters, grid, run, declarations(parameters))
        self.started = True
        self.vacated: list[tuple[int, int]] = []
        self.due: dict[int, int] = {}

    def check_emulation(self) -> None:
        """Raise ScenarioError: submitters share their records."""
        raise ScenarioError(f"{self.of.name}.maintenance must be 'ideal' in an emulation, got 'messages'")

    def make_tree(self, grid: SummaryGrid) -> None:
        """Make what all nodes know, and the records of submitters."""
        super().make_tree(grid)
        of = self.of
        if of.update_rate > 0:
            nbytes = 4 * grid.cells + of.summary_header + TAG_BYTES + BELOW_BYTES
            self.tree.gap = math.ceil(nbytes / of.update_rate * 1e9)
        self.records = Records(self.run, self.bags, nanoseconds(of.heartbeat), of.missed, self.again)

    def program(self, node: int) -> NodeProgram:
        """Make the program of a machine; after a failure it has what was on the disk."""
        member = Member(self.tree, self.records)
        if self.started:
            member.recall(self._member(node), node)
        else:
            member.begin(node, 0)
        return member

    def make_decider(self) -> Decider:
        """Make what records the decisions of nodes."""
        return MemberDecider(self, self.bags)

    # -- lost tasks ------------------------------------------------------------------------------------------

    def register_failure_timers(self) -> None:
        """Register what submits tasks again."""
        self.run.engine.on("resubmit", self._resubmit, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Note tasks that are lost: in a queue, on their way to `node`, or as nobody is up to submit them."""
        record = self.records.of(application)
        if record.total == 0:
            record.total, record.since = tasks, self.now
        self.records.lost[int(self.bags.whose[application])] += tasks

    def again(self, application: int, tasks: int, now: int) -> None:
        """Submit tasks again `now` (ns)."""
        self.due[application] = self.due.get(application, 0) + tasks
        self.run.engine.at(now, "resubmit")
        self.core.wake(now)

    def _resubmit(self, _: list[int]) -> None:
        due, self.due, now = self.due, {}, self.run.engine.now
        if not due:
            return
        if not self.run.up.any():
            for application, tasks in due.items():
                self.records.lost[application] += tasks
            return
        applications, tasks = np.array(sorted(due.items()), np.int64).T.copy()
        self.resubmitted[applications] += tasks
        if self.of.resubmit == "new":
            applications = self.bags.again(applications, tasks, now)
        self.core.resubmit(applications, tasks, now)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        now = self.run.engine.now
        for machine in failed.tolist():
            self.vacated += [(router, now) for router in sorted(self._member(machine).routers)]
        super().on_faults(failed, back)
        for machine in np.union1d(failed, back).tolist():
            if self.run.up[machine]:
                self._member(machine).begin(machine, now)

    def _member(self, machine: int) -> Member:
        member = self.nodes[machine]
        assert isinstance(member, Member)
        return member

    # -- checkpoints -----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """See `Adapter`; the leaf and the routers of a machine are kept as their attributes."""
        state = super().getstate()
        for member in state["nodes"]:
            del member["records"]
            member["leaf"] = _attributes(member["leaf"])
            member["routers"] = {number: _attributes(each) for number, each in member["routers"].items()}
        return state

    def _set_nodes(self, nodes: Any) -> None:
        for member, attributes in zip(self.nodes, nodes, strict=True):
            assert isinstance(member, Member)
            leaf, routers = attributes.pop("leaf"), attributes.pop("routers")
            vars(member).update(attributes)
            member.leaf = Worker(self.tree, 0)
            vars(member.leaf).update(leaf)
            member.routers = {}
            for number, each in routers.items():
                member.routers[number] = router = Router(near(self.tree, number, known=True), number)
                for name in NEAR:
                    setattr(router.tree, name, each.pop(name))
                vars(router).update(each)

    # -- the end ---------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self.core.drain(self.now)
        outcome = self.found(None, self.resubmitted)
        del outcome.tables["traffic"]  # nodes are machines, which have no level
        seats = self.notes.tables()["seats"]
        outcome.tables["repairs"] = repairs(seats, self.vacated, self.tree.first_leaf)
        outcome.facts["tasks_doubted"] = sum(self.records.doubted)
        return outcome


#: What a router knows of its children.
NEAR = ("leaves", "speed", "gone")


def _attributes(program: Worker | Router) -> dict[str, Any]:
    """Return the attributes of a leaf or a router, those of its own part of the tree with them."""
    found = {name: value for name, value in vars(program).items() if name != "parameters"}
    if isinstance(program, Router):
        found.update({name: dict(getattr(program.tree, name)) for name in NEAR})
    return found
