"""A machine of a fair tree that is maintained by messages: it detects failures and replaces failed routers.

A machine hosts a leaf and, unless it is the last machine, its home router.  It may host further routers as a
replacement for their home machines.  Leaves and routers behave as in the ideal tree
(`gridsim.schedulers.fair_tree.node`).  Their messages pass through the machine, which knows where the other
nodes are:

- A *claim* states the machine of a router and since when it is there.  The latest claim is valid.  A machine
  that starts claims its home router, and claims it again when it learns of a replacement, so that a router is
  at home whenever its home machine is up.
- Each message in the tree is a sign of life and carries the claim of its sender.  Neighbours to which nothing
  was sent for a period get a `beat`.
- A silent child is out of the tree until a message from it arrives.
- If a parent is silent, its children ask the machines in its line of succession to take it over, one per
  period: those of its left child, of its right child, and of its own parent.  The first that is up does so.
- Beats inform children which routers above them have moved.  So every machine knows the nodes above it, and a
  machine that gets a message by mistake can reply `where` the router is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.node import Leaf, Router, TreeNode
from gridsim.schedulers.fair_tree.node import messages as messages_of_nodes
from gridsim.schedulers.fair_tree.tree import Tree, children_of, is_below, parent_of, side_of
from gridsim.scheduling.nodes.program import Message, NodeProgram, View, array
from gridsim.support.clock import NEVER, nanoseconds
from gridsim.support.state import keep_attributes, kept_in_checkpoints

#: A claim on a router: the time since which it is on a machine (ns), and that machine.
Claim = tuple[int, int]
#: Events of a router in the table ``seats``: a machine takes it over; it loses it to another machine; all
#: children have reported or are known to have left the tree.
TAKEOVER, RESIGNATION, COMPLETION = 0, 1, 2
SEATS: dict[str, dict[str, type]] = {"seats": {"router": int, "machine": int, "time": int, "what": int}}

#: Additional bytes of each message in the tree: two nodes, and the time of the sender's claim.
TAG_BYTES = 16
#: Additional bytes of a summary: the number of leaves below its sender, and their speed.
BELOW_BYTES = 16
#: Bytes of the claim on a router that has moved: the router, the time, and the machine.
MOVED_BYTES = 16

_TAG: dict[str, Any] = {"role": int, "by": int, "claimed": int}
_LEFT: dict[str, Any] = {"left": int, "done": int, "incarnation": int}


def messages(parameters: Any) -> dict[str, Message]:
    """Return the kinds of messages of machines, in the order in which they are handled at one instant.

    Messages of nodes (`gridsim.schedulers.fair_tree.node.messages`) additionally have their receiver
    (`role`), their sender (`by`), and the time since which the sender is on its machine (`claimed`, ns).  A
    summary has the number of `leaves` below its sender and their `speed`; a request states whether it was
    forwarded (`passed`, 0 or 1).

    Notes
    -----
    - ``accept``, ``completion``: the numbers of tasks of the application that the leaf has `left`, and has
      `done` in this `incarnation`, including those in bags of lost tasks.
    - ``beat``: a sign of life, with routers that have `moved` (node, time in ns, machine); `needs_report` is
      1 if the receiver must report again.
    - ``take``: a request to take over a silent `router`, with the time of its last known claim.
    - ``where``: a `router` has been on `machine` since `since` ns.
    - ``failed``: a leaf has lost its tasks of an application (`whose`), and its new `incarnation` begins.
    """
    kinds, small = messages_of_nodes(parameters), parameters.beat_bytes
    summary_bytes: Any = kinds["summary"].nbytes
    fields_of: dict[str, dict[str, Any]] = {name: kind.fields for name, kind in kinds.items()}

    def size_with_tag(name: str) -> Any:
        nbytes: Any = kinds[name].nbytes
        return (lambda **fields: nbytes(**fields) + TAG_BYTES) if callable(nbytes) else nbytes + TAG_BYTES

    return {
        "summary": Message(
            lambda cells, **_: summary_bytes(cells) + TAG_BYTES + BELOW_BYTES,
            **fields_of["summary"],
            **_TAG,
            leaves=int,
            speed=float,
        ),
        "spread": Message(size_with_tag("spread"), **fields_of["spread"], **_TAG),
        "request": Message(
            size_with_tag("request"), moves_tasks=True, **fields_of["request"], **_TAG, passed=int
        ),
        "accept": Message(parameters.accept_bytes, **fields_of["accept"], **_LEFT),
        "completion": Message(parameters.completion_bytes, **fields_of["completion"], **_LEFT),
        "failed": Message(small, whose=int, incarnation=int),
        "beat": Message(
            lambda moved, **_: small + MOVED_BYTES * (len(moved) // 3),
            **_TAG,
            needs_report=int,
            moved=array(int),
        ),
        "take": Message(small, router=int, since=int),
        "where": Message(small, router=int, since=int, machine=int),
    }


@kept_in_checkpoints
@dataclass
class Children:
    """The state of the children of a router, by their numbers.

    Parameters
    ----------
    leaves, speed
        Number of leaves below each child, and their speed, Mflop/s; 0 until the child reports.
    absent
        Whether each child has left the tree.
    """

    leaves: dict[int, int]
    speed: dict[int, float]
    absent: dict[int, bool]


class HostedView:
    """The view of a leaf or router: the view of its machine, with its own number and its own receivers.

    Nodes address nodes, and their machine knows, as far as it has learned, where these are.  The environment
    of a node gives access to the knowledge of its machine, like
    `gridsim.schedulers.fair_tree.environment.RepairView`.
    """

    __slots__ = ("member", "node", "view")

    def __init__(self, member: Member, view: View, node: int) -> None:
        self.member, self.view, self.node = member, view, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    def send(self, to: int, kind: str, **fields: Any) -> None:
        """Send a message to a node, on whichever machine it is."""
        self.member.send(self.view, self.node, to, kind, fields)

    def act(self, seconds: float = 0.0) -> None:
        """Schedule a call of `on_act` for this node after `seconds`."""
        at = self.view.now_ns + nanoseconds(seconds)
        self.member.turns.add((self.node, at))
        self.view.act(seconds)

    def decide(self, action: str, application: int, **columns: Any) -> None:
        """Record a decision of this node."""
        self.member.sending_node = self.node
        self.view.decide(action, application, **columns)

    @property
    def environment(self) -> HostedView:
        """The knowledge of this node about the tree."""
        return self

    @property
    def tree(self) -> Tree:
        """The common knowledge of all nodes from the beginning."""
        tree: Tree = self.view.environment.tree
        return tree

    def submitter(self, application: int) -> int:
        """Return the leaf that gets answers about `application`."""
        leaf: int = self.view.environment.submitter(application)
        return leaf

    def holds(self, application: int) -> bool:
        """Return True, since all machines have the memory and disk of all tasks."""
        return True

    def leaves_below(self, child: int) -> int:
        """Return the number of leaves below a child of this router; 0 if the child has left the tree."""
        return self.member.children[self.node].leaves[child]

    def speed_below(self, child: int) -> float:
        """Return the speed of the leaves below a child, Mflop/s."""
        return self.member.children[self.node].speed[child]

    def has_left(self, node: int) -> bool:
        """Return whether a child has left the tree; a router on this machine never has."""
        return node != self.node and self.member.children[self.node].absent[node]


class Member(NodeProgram):
    """A machine of the tree.

    Attributes
    ----------
    leaf
        The program of its leaf.
    routers, children
        Number -> program of each router hosted here, and the state of its children.
    incarnation, born
        Number of this incarnation, which exceeds earlier numbers, and its beginning, ns; -1 before it.
    left, done
        Application -> number of tasks that the leaf has left, and that it has done in this incarnation.
    last_reports
        Application -> time of the last report to its submitter (ns), and the bag of that report.
    lost_applications
        Applications of which this machine had tasks when it failed.
    claims
        Node -> latest known claim, if it differs from the initial one.
    last_heard
        Node -> time of its last message, ns.
    last_sent
        (hosted node, neighbour) -> time of the last message to it, ns.
    sent_claims
        Child -> claims last sent to it.
    takeovers
        Silent parent -> number of machines in its line of succession that have been asked.
    turns
        (hosted node, time at which it wants to act in ns).
    complete
        Hosted routers whose children have all reported or are known to have left the tree.
    sending_node
        The hosted node that decided last, for the record of decisions.
    """

    #: The disk stores the claims of other nodes, and the applications of which the leaf had tasks.
    stable_storage: ClassVar[tuple[str, ...]] = ("incarnation", "claims", "left", "lost_applications")

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.beat = nanoseconds(parameters.beat)
        self.max_silence = parameters.missed * self.beat
        self.incarnation = self.born = self.first_leaf = -1
        self.leaf = Leaf(parameters)
        self.routers: dict[int, Router] = {}
        self.children: dict[int, Children] = {}
        self.left: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.last_reports: dict[int, tuple[int, int]] = {}
        self.lost_applications: list[int] = []
        self.claims: dict[int, Claim] = {}
        self.last_heard: dict[int, int] = {}
        self.last_sent: dict[tuple[int, int], int] = {}
        self.sent_claims: dict[int, list[int]] = {}
        self.takeovers: dict[int, int] = {}
        self.turns: set[tuple[int, int]] = set()
        self.complete: set[int] = set()
        self.sending_node = 0

    def hosted_programs(self) -> Iterator[TreeNode]:
        """Iterate over the programs of the leaf and of the routers."""
        yield self.leaf
        yield from self.routers.values()

    def begin(self, view: View) -> None:
        """Begin an incarnation with the state on the disk and the home router, unless it has begun.

        Messages and timers of the same instant may be handled before `on_start` announces the incarnation.
        """
        if self.born >= 0:
            return
        machine = view.machine
        self.first_leaf = view.environment.tree.first_leaf
        self.born = view.now_ns
        self.incarnation = max(self.born, self.incarnation + 1, int(view.environment.has_failed))
        self.claims = {n: claim for n, claim in self.claims.items() if claim[1] != machine or n == machine}
        lost = {application for application, tasks in self.left.items() if tasks}
        self.lost_applications = sorted({*self.lost_applications, *lost})
        self.left = {}
        self.leaf.number = (
            self.incarnation
        )  # numbers derived from the time exceed those of an earlier incarnation
        self.claims[self.leaf_number(view)] = self.incarnation, machine
        if machine >= self.first_leaf:
            return
        if self.incarnation > 0:
            self.claim_router(view, machine, self.incarnation)
            return
        children = children_of(machine)
        self.routers[machine] = Router(self.parameters)
        self.children[machine] = Children(
            {child: view.environment.leaves_below(child) for child in children},
            {child: view.environment.speed_below(child) for child in children},
            dict.fromkeys(children, False),
        )

    # -- start and timers
    # -------------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        """Announce the home router unless all machines start now, and report lost tasks and availability."""
        self.begin(view)
        if self.incarnation > 0 and view.machine in self.routers:
            self.announce(view, view.machine)
        for number in self.lost_applications:
            view.send(view.environment.acting(number), "failed", whose=number, incarnation=self.incarnation)
        self.lost_applications = []
        self.leaf.on_start(self.view_of(view, self.leaf_number(view)))

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Record tasks that are submitted, and send a request for them."""
        self.begin(view)
        view.environment.submit(application.number, tasks, view.now_ns)
        self.leaf.on_release(self.view_of(view, self.leaf_number(view)), application, tasks)

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """Send a request for tasks that were presumed lost and are really lost."""
        self.begin(view)
        view.environment.submit(application.number, 0, view.now_ns)
        self.leaf.on_lost(self.view_of(view, self.leaf_number(view)), application, tasks)

    def on_act(self, view: View) -> None:
        """Call `on_act` of the nodes for which it is due."""
        due = {turn for turn in self.turns if turn[1] <= view.now_ns}
        self.turns -= due
        for node in sorted({node for node, _ in due}):
            if (program := self.program(view, node)) is not None:
                program.on_act(self.view_of(view, node))

    def on_heartbeat(self, view: View) -> None:
        """Report to submitters, spread the minimum stretch as the root, and look for missing tasks."""
        self.begin(view)
        self.report_left(view)
        if (root := self.routers.get(0)) is not None:
            root.on_heartbeat(self.view_of(view, 0))
        view.environment.watch()

    def on_refresh(self, view: View) -> None:
        """Call the leaf, which reports again since time has passed."""
        self.begin(view)
        self.leaf.on_refresh(self.view_of(view, self.leaf_number(view)))

    # -- the leaf, from whose reports submitters detect losses -----------------------------------------------

    def on_end(self, view: View) -> None:
        """Report tasks as soon as they end: unreported tasks are run again after a failure."""
        self.begin(view)
        self.report_completed(view)
        if self.parameters.update_on == "completion":
            self.leaf.on_end(self.view_of(view, self.leaf_number(view)))

    def on_idle(self, view: View) -> None:
        """Report completed tasks, and call the leaf, which has no tasks left."""
        self.begin(view)
        self.leaf.on_idle(self.view_of(view, self.leaf_number(view)))

    def report_completed(self, view: View) -> None:
        """Report completed tasks to their submitters."""
        for application, tasks in view.completed():
            self.left[application] = max(0, self.left.get(application, 0) - tasks)
            self.done[application] = self.done.get(application, 0) + tasks
            self.report_tasks(view, "completion", application, tasks)

    def report_left(self, view: View) -> None:
        """Report to submitters that got no report of the leaf since the last heartbeat."""
        self.report_completed(view)
        before = view.now_ns - nanoseconds(self.parameters.heartbeat)
        for number, tasks in self.left.items():
            last_report, bag = self.last_reports[number]
            if tasks and last_report <= before:
                self.report_tasks(view, "completion", bag, 0)

    def report_tasks(self, view: View, kind: str, application: int, tasks: int) -> None:
        """Report tasks, and the number left here, to the machine that acts for their submitter.

        Reports cover all tasks of an application, including those in bags of lost tasks.
        """
        number = view.environment.whole_of(application)
        self.last_reports[number] = view.now_ns, application
        rest = {
            "left": self.left.get(number, 0),
            "done": self.done.get(number, 0),
            "incarnation": self.incarnation,
        }
        to = view.environment.acting(application)
        view.send(to, kind, application=application, tasks=tasks, **rest)

    # -- submitters ------------------------------------------------------------------------------------------

    def on_accept(self, view: View, message: Any) -> None:
        """Record, as a submitter, the tasks that a leaf has accepted."""
        view.note("told", accepted=message.tasks, completed=0)
        self.note_report(view, message)

    def on_completion(self, view: View, message: Any) -> None:
        """Record, as a submitter, the tasks that a leaf has completed."""
        view.note("told", accepted=0, completed=message.tasks)
        self.note_report(view, message)

    def note_report(self, view: View, message: Any) -> None:
        """Record, as a submitter, the numbers of tasks that a leaf has done and has left."""
        report = message.sender, message.incarnation, message.left, message.done
        view.environment.report(message.application, *report, view.now_ns)

    def on_failed(self, view: View, message: Any) -> None:
        """Record, as a submitter, that a leaf has lost its tasks."""
        view.environment.fail(message.whose, message.sender, message.incarnation, view.now_ns)

    # -- locations of nodes ----------------------------------------------------------------------------------

    def leaf_number(self, view: View) -> int:
        """Return the number of the leaf of this machine."""
        return self.first_leaf + view.machine

    def nodes_here(self, view: View) -> list[int]:
        """Return the nodes on this machine, ascending."""
        return [*sorted(self.routers), self.leaf_number(view)]

    def program(self, view: View, node: int) -> TreeNode | None:
        """Return the program of a node that is on this machine."""
        return self.leaf if node == self.leaf_number(view) else self.routers.get(node)

    def view_of(self, view: View, node: int) -> Any:
        """Return the view of a node on this machine."""
        return HostedView(self, view, node)

    def home(self, node: int) -> int:
        """Return the machine of a node while all machines are up."""
        return node if node < self.first_leaf else node - self.first_leaf

    def claim(self, node: int) -> Claim:
        """Return the latest known claim on a node; a claim of a leaf has the beginning of its incarnation."""
        return self.claims.get(node, (0, self.home(node)))

    def host(self, node: int) -> int:
        """Return the machine of a node, as far as is known here."""
        return self.claim(node)[1]

    def neighbours(self, node: int) -> list[int]:
        """Return the parent and the children of a node."""
        children = children_of(node) if node < self.first_leaf else ()
        return [*children] if node == 0 else [parent_of(node), *children]

    def is_silent(self, node: int, now: int) -> bool:
        """Return whether a neighbour sent nothing within the timeout, or since its machine restarted."""
        if node in self.last_heard or self.incarnation == 0:
            return bool(now - self.last_heard.get(node, self.born) > self.max_silence)
        return bool(now - self.born > self.beat)

    def update_claim(self, view: View, node: int, claim: Claim) -> None:
        """Record a claim on a node, if it is new; a router on this machine yields to a later claim.

        The home router yields as well, but this machine takes it back at once.
        """
        # A newer claim may state that a node is here although it is not, if this machine had the node and has
        # failed since.  Such a claim is not recorded.  The node is silent, so its children ask for a
        # takeover, which makes a later claim.
        if claim <= self.claim(node) or (claim[1] == view.machine and self.program(view, node) is None):
            return
        self.claims[node] = claim
        if node in self.routers and claim[1] != view.machine:
            self.remove_router(view, node)
        if node == view.machine and node < self.first_leaf:
            self.take_over(view, node, view.now_ns)
            self.send_claim(view, node, claim[1])
            return
        if node > 0 and parent_of(node) in self.routers:
            self.clear_child(view, parent_of(node), node)
            self.sent_claims.pop(node, None)
            self.send_beat(view, parent_of(node), node)
        if node < self.first_leaf:
            self.last_heard[node] = view.now_ns
            self.request_reports(view, node)

    def request_reports(self, view: View, parent: int) -> None:
        """Request new reports of hosted nodes to a parent that begins without knowledge."""
        for child in children_of(parent):
            if (program := self.program(view, child)) is not None:
                program.report_requested = True
                self.send_beat(view, child, parent)
                self.view_of(view, child).act()

    def take_over(self, view: View, router: int, since: int) -> None:
        """Take over a router, which begins with an empty memory, and notify its neighbours."""
        self.claim_router(view, router, since)
        self.announce(view, router)

    def claim_router(self, view: View, router: int, since: int) -> None:
        """Claim a router for this machine, since `since` (ns) or later; it begins with an empty memory."""
        since, children = max(since, self.claim(router)[0] + 1), children_of(router)
        self.claims[router] = since, view.machine
        self.routers[router] = router_program = Router(self.parameters)
        self.children[router] = Children(
            dict.fromkeys(children, 0), dict.fromkeys(children, 0.0), dict.fromkeys(children, False)
        )
        router_program.number, router_program.last_issued = (
            since,
            [since, since],
        )  # exceeds the numbers of earlier claims
        self.takeovers.pop(router, None)
        self.last_heard[router] = view.now_ns
        for child in children:
            self.last_heard[child] = view.now_ns
            self.sent_claims.pop(child, None)
        if router > 0 and (parent := parent_of(router)) in self.routers:
            self.children[parent].absent[router] = False
            self.clear_child(view, parent, router)

    def announce(self, view: View, router: int) -> None:
        """Notify the neighbours of a router that it is on this machine, where it begins without knowledge."""
        self.record_seat(view, router, TAKEOVER)
        for neighbour in self.neighbours(router):
            self.send_beat(view, router, neighbour)
        self.request_reports(view, router)

    def remove_router(self, view: View, router: int) -> None:
        """Remove a router that is now on another machine."""
        del self.routers[router], self.children[router]
        self.turns = {turn for turn in self.turns if turn[0] != router}
        self.complete.discard(router)
        self.record_seat(view, router, RESIGNATION)

    def record_seat(self, view: View, router: int, event: int) -> None:
        """Record an event of a router in the table ``seats``."""
        view.note("seats", router=router, machine=view.machine, time=view.now_ns, what=event)

    # -- signs of life ---------------------------------------------------------------------------------------

    def on_look_around(self, view: View) -> None:
        """Detect silent neighbours, and send beats where they are due."""
        self.begin(view)
        now = view.now_ns
        for parent in sorted({parent_of(node) for node in self.nodes_here(view) if node > 0}):
            if parent not in self.routers and self.is_silent(parent, now):
                self.replace_parent(view, parent)
            else:
                self.takeovers.pop(parent, None)
        for router in sorted(self.routers):
            for child in children_of(router):
                is_expected = self.program(view, child) is None and not self.children[router].absent[child]
                if is_expected and self.is_silent(child, now):
                    self.remove_child(view, router, child)
        for node in self.nodes_here(view):
            for neighbour in self.neighbours(node):
                if self.is_due(node, neighbour, now):
                    self.send_beat(view, node, neighbour)

    def is_due(self, node: int, neighbour: int, now: int) -> bool:
        """Return whether a hosted node must send a beat to a neighbour.

        A beat is due if there is news or no message was sent in the last half period, so that a machine that
        is up is never silent for two periods.
        """
        if now - self.last_sent.get((node, neighbour), -NEVER) >= self.beat // 2:
            return True
        return neighbour > node and (
            self.needs_report(node, neighbour) or self.sent_claims.get(neighbour, []) != self.moved(node)
        )

    def needs_report(self, router: int, child: int) -> bool:
        """Return whether a child must report again."""
        return self.routers[router].cells[side_of(child)] is None

    def moved(self, router: int) -> list[int]:
        """Return the claims (node, time in ns, machine) on routers that have moved.

        They cover a hosted router, the routers above it, and the children of those.
        """
        rows = [
            (node, *claim)
            for node, claim in sorted(self.claims.items())
            if node < self.first_leaf and (node in (0, router) or is_below(router, parent_of(node)))
        ]
        return [number for row in rows for number in row]

    def send_beat(self, view: View, node: int, neighbour: int) -> None:
        """Send a beat of a hosted node to a neighbour, and to the home of an absent child."""
        machines, moved, needs_report = [self.host(neighbour)], list[int](), False
        if neighbour > node:
            self.sent_claims[neighbour] = moved = self.moved(node)
            needs_report = self.needs_report(node, neighbour)
            if self.children[node].absent[neighbour]:
                machines.append(self.home(neighbour))
        self.last_sent[node, neighbour] = view.now_ns
        tag = self.tag(node, neighbour)
        for machine in dict.fromkeys(machines):
            view.send(machine, "beat", needs_report=int(needs_report), moved=moved, **tag)

    def remove_child(self, view: View, router: int, child: int) -> None:
        """Remove a silent child from the tree."""
        self.children[router].absent[child] = True
        self.clear_child(view, router, child)
        self.routers[router].report_requested = True
        self.view_of(view, router).act()
        self.check_children(view, router)

    def clear_child(self, view: View, router: int, child: int) -> None:
        """Delete the reports of a child, which is unknown until it reports if it is in the tree."""
        children, program, of_router = self.children[router], self.routers[router], self.view_of(view, router)
        children.leaves[child], children.speed[child] = 0, 0.0
        program.on_child_leave(of_router, side_of(child))
        if not children.absent[child]:
            program.on_child_return(of_router, side_of(child))
        self.complete.discard(router)

    def check_children(self, view: View, router: int) -> None:
        """Record when all children of a router have reported or are known to have left the tree."""
        absent = self.children[router].absent.items()
        if router not in self.complete and all(
            is_absent or not self.needs_report(router, child) for child, is_absent in absent
        ):
            self.complete.add(router)
            self.record_seat(view, router, COMPLETION)

    # -- succession ------------------------------------------------------------------------------------------

    def replace_parent(self, view: View, parent: int) -> None:
        """Have the next machine in the line of succession of a silent parent take it over."""
        succession = self.succession(view, parent)
        turn = self.takeovers.get(parent, 0)
        self.takeovers[parent] = turn + 1
        to = succession[turn % len(succession)]
        if to == view.machine:
            self.take_over(view, parent, view.now_ns)
        else:
            view.send(to, "take", router=parent, since=self.claim(parent)[0])

    def succession(self, view: View, parent: int) -> list[int]:
        """Return the machines that may take over a silent parent, in order.

        A machine that has had no message of that parent since its own failure may not know where it is, and
        comes last.
        """
        nodes = [*children_of(parent), *([parent_of(parent)] if parent else [])]
        succession = [place for place in dict.fromkeys(map(self.host, nodes)) if place != self.host(parent)]
        if parent in self.last_heard or self.incarnation == 0:
            return succession
        places = dict.fromkeys((self.home(parent), *succession))
        return [*(each for each in places if each not in (view.machine, self.host(parent))), view.machine]

    def on_take(self, view: View, message: Any) -> None:
        """Take over a router, unless it is on this machine or has recently sent a message."""
        self.begin(view)
        router = message.router
        is_alive = router in self.last_heard and not self.is_silent(router, view.now_ns)
        is_neighbour = any(self.program(view, node) is not None for node in self.neighbours(router))
        if router not in self.routers and is_neighbour and not is_alive:
            self.take_over(view, router, view.now_ns)
        self.send_claim(view, router, message.sender)

    def send_claim(self, view: View, node: int, to: int) -> None:
        """Inform a machine of the latest known claim on a node."""
        since, machine = self.claim(node)
        view.send(to, "where", router=node, since=since, machine=machine)

    def on_where(self, view: View, message: Any) -> None:
        """Record where a router is."""
        self.begin(view)
        self.update_claim(view, message.router, (message.since, message.machine))

    # -- messages of the tree --------------------------------------------------------------------------------

    def tag(self, node: int, to: int) -> dict[str, int]:
        """Return the fields of each message in the tree: receiver, sender, and the start of its claim."""
        return {"role": to, "by": node, "claimed": self.claim(node)[0]}

    def send(self, view: View, node: int, to: int, kind: str, fields: dict[str, Any]) -> None:
        """Send a message of a hosted node to another node."""
        if kind in ("accept", "completion"):
            self.report_tasks(view, kind, **fields)
            return
        if kind == "summary":
            children = self.children.get(node)
            leaves = 1 if children is None else sum(children.leaves.values())
            speed = view.speed if children is None else sum(children.speed.values())
            fields = {**fields, "leaves": leaves, "speed": speed}
        if kind == "request":
            fields = {**fields, "passed": 0}
        self.last_sent[node, to] = view.now_ns
        view.send(self.host(to), kind, **fields, **self.tag(node, to))

    def on_message(self, view: View, message: Any) -> None:
        """Pass a message of the tree to its receiver."""
        self.begin(view)
        node, by, sender = message.role, message.by, message.sender
        claim, program = (message.claimed, sender), self.program(view, node)
        stale = claim < self.claim(by)
        if message.kind == "request" and message.passed:
            pass  # a machine that forwards the message does not host its sender
        elif stale:
            if by < self.first_leaf:
                self.send_claim(view, by, sender)
        else:
            self.update_claim(view, by, claim)
            self.last_heard[by] = view.now_ns
            if node in self.routers and by in children_of(node) and self.children[node].absent[by]:
                self.children[node].absent[by] = False
                self.routers[node].on_child_return(self.view_of(view, node), side_of(by))
        if program is None:
            if message.kind == "request":
                self.forward(view, message)
            else:
                self.send_claim(view, node, sender)
        elif not stale or message.kind == "request":
            self.deliver(view, message, program)

    def deliver(self, view: View, message: Any, program: TreeNode) -> None:
        """Handle a message to a hosted node by its program."""
        node, by = message.role, message.by
        message = SimpleNamespace(**{**vars(message), "sender": by})
        if message.kind == "summary":
            children = self.children[node]
            if message.number > self.routers[node].last_summary[side_of(by)]:
                children.leaves[by], children.speed[by] = message.leaves, message.speed
        if message.kind == "request" and program is self.leaf:
            number = view.environment.whole_of(message.application)
            self.left[number] = self.left.get(number, 0) + message.tasks
        if message.kind != "beat":
            getattr(program, f"on_{message.kind}")(self.view_of(view, node), message)
        else:
            self.handle_beat(view, message, program)
        if message.kind == "summary":
            self.check_children(view, node)

    def handle_beat(self, view: View, message: Any, program: TreeNode) -> None:
        """Record the claims of a beat, and report again if the parent requests it."""
        for router, since, machine in message.moved.reshape(-1, 3).tolist():
            self.update_claim(view, router, (since, machine))
        if message.needs_report:
            program.report_requested = True
            self.view_of(view, message.role).act()

    def forward(self, view: View, message: Any) -> None:
        """Forward a request to the machine of its receiver.

        Requests never cycle: a former host of a router knows of a later claim, or has failed since and sends
        the request to the home machine.
        """
        fields = {name: getattr(message, name) for name in messages(self.parameters)["request"].fields}
        view.send(self.host(message.role), "request", **{**fields, "passed": 1})


for _program in (Leaf, Router):
    keep_attributes(_program, "parameters")
