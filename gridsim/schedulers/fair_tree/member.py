"""A machine of a fair tree that is kept by messages: it finds out who is there, and stands in for others.

A machine carries a leaf and, unless it is the last, its home router.  It may carry further routers, for which
it stands in.  Leaves and routers do what they do in the ideal tree (`gridsim.schedulers.fair_tree.node`).
What they send passes through the machine, which knows where others are:

- A *claim* says since when a router is on which machine.  The latest claim counts.  A machine that starts
  claims its home router, and claims it again when it hears that somebody stands in for it, so that a router
  is at home whenever its home is up.
- Whatever is sent in the tree is a sign of life and carries the claim of its sender.  Neighbours to whom
  nothing was sent for a period get a `beat`.
- A child that is silent is out of the tree until it is heard again.
- If a parent is silent, its children ask the machines in its line of succession to take it over, one a
  period: those of its left and its right child, and of its own parent.  The first that is alive does.
- Beats tell children which routers above them have moved.  So every machine knows who is above it, and who is
  addressed by mistake can say `where` a router is.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.node import Router, TreeNode, messages
from gridsim.schedulers.fair_tree.part import Part, near
from gridsim.schedulers.fair_tree.records import Records
from gridsim.schedulers.fair_tree.tree import Tree
from gridsim.schedulers.fair_tree.worker import Worker
from gridsim.scheduling.nodes.program import NodeProgram, View
from gridsim.support.clock import NEVER, nanoseconds

#: A claim on a router: since when (ns), and on which machine it is.
Claim = tuple[int, int]
#: What happens to a router, in the table ``seats``: a machine takes it over, or loses it to another one; all
#: its children have reported, or are known to be gone.
TAKEN, RESIGNED, WHOLE = 0, 1, 2


class Member(NodeProgram):
    """A machine of the tree.

    Attributes
    ----------
    leaf
        Its leaf.
    routers
        Number -> each router that is here.
    life, born
        Number of this life, above that of the one before, and when it began, ns.
    claims
        Node -> the latest claim that is known, if it is not that of the beginning.
    heard
        Node -> ns, when it was heard last.
    spoke
        (node here, neighbour) -> ns, the last message.
    told
        Child -> the claims that it was told last.
    asked
        Silent parent -> how many in its line of succession have been asked.
    turns
        (node here, ns), when each wants to act.
    whole
        The routers here whose children have all reported, or are known to be gone.
    disk
        The applications of which this machine had tasks as it failed.
    """

    def __init__(self, tree: Tree, records: Records) -> None:
        super().__init__(tree)
        self.records = records
        self.beat = nanoseconds(tree.parameters.beat)
        self.silence = tree.parameters.missed * self.beat
        self.life, self.born = 0, 0
        self.leaf = Worker(tree, 0)
        self.routers: dict[int, Router] = {}
        self.claims: dict[int, Claim] = {}
        self.heard: dict[int, int] = {}
        self.spoke: dict[tuple[int, int], int] = {}
        self.told: dict[int, list[int]] = {}
        self.asked: dict[int, int] = {}
        self.turns: set[tuple[int, int]] = set()
        self.whole: set[int] = set()
        self.disk: list[int] = []
        self.speaking = 0  # the node here that decides something, for the record of decisions

    @property
    def tree(self) -> Tree:
        """What all nodes know of the tree."""
        tree: Tree = self.parameters
        return tree

    def recall(self, former: Member, machine: int) -> None:
        """Read from the disk of a machine, as it failed: where others were, and whose tasks it had."""
        self.life = former.life + 1
        self.claims = {node: claim for node, claim in former.claims.items() if claim[1] != machine}
        if machine in former.claims:
            self.claims[machine] = former.claims[machine]
        mine = (application for application, tasks in former.leaf.left.items() if tasks)
        self.disk = sorted({*former.disk, *mine})

    def begin(self, machine: int, now: int) -> None:
        """Begin a life on a machine that is up from `now` (ns) on, with its home router.

        Messages and timers may come first at this instant, before `on_start` says so to others.
        """
        self.born, self.life = now, max(now, self.life)
        self.leaf = Worker(self.tree, self.life)
        self.claims[self.tree.first_leaf + machine] = self.life, machine
        if machine >= self.tree.first_leaf:
            return
        if self.life > 0:
            self.hold(machine, machine, now, self.life)
        else:
            self.routers[machine] = Router(near(self.tree, machine, known=True), machine)

    # -- starting, and what is due ---------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        """Say, unless all begin, that the home router is here, and whose tasks are lost; and report."""
        if self.life > 0 and view.machine in self.routers:
            self.announce(view, view.machine)
        for number in self.disk:
            self.report(view, number, "failed", {"whose": number, "life": self.life})
        self.disk = []
        self.leaf.on_start(self.part(view, self.own(view)))

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Record tasks that are submitted, and send a request for them."""
        record = self.records.of(application.number)
        record.total, record.since = record.total + tasks, view.now_ns
        self.leaf.on_release(self.part(view, self.own(view)), application, tasks)

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """Send a request for tasks that were presumed to be lost, and are."""
        self.records.of(application.number).since = view.now_ns
        self.leaf.on_lost(self.part(view, self.own(view)), application, tasks)

    def on_end(self, view: View) -> None:
        """Let the leaf report that tasks have ended."""
        self.leaf.on_end(self.part(view, self.own(view)))

    def on_idle(self, view: View) -> None:
        """Let the leaf report that there are no tasks left."""
        self.leaf.on_idle(self.part(view, self.own(view)))

    def on_act(self, view: View) -> None:
        """Let the nodes act that want to act now."""
        due = {turn for turn in self.turns if turn[1] <= view.now_ns}
        self.turns -= due
        for node in sorted({node for node, _ in due}):
            if (program := self.program(view, node)) is not None:
                program.on_act(self.part(view, node))

    def on_timer(self, view: View, name: str) -> None:
        """Do what is due at a beat, a heartbeat, or when time has passed."""
        if name == "beat":
            self.look_around(view)
            return
        self.leaf.on_timer(self.part(view, self.own(view)), name)
        if name != "heartbeat":
            return
        if (root := self.routers.get(0)) is not None:
            root.on_timer(self.part(view, 0), name)
        for application in sorted(self.records.records):
            self.watch(view, application)

    # -- submitters ------------------------------------------------------------------------------------------

    def watch(self, view: View, application: int) -> None:
        """Submit tasks again that are missing, if this machine acts for the submitter."""
        submitter = self.tree.submitter(application) - self.tree.first_leaf
        if self.records.acting(submitter) == view.machine:
            self.records.watch(application, view.now_ns)

    def report(self, view: View, application: int, kind: str, fields: dict[str, Any]) -> None:
        """Send a message to whoever acts for the submitter of an application."""
        submitter = self.tree.submitter(application) - self.tree.first_leaf
        view.send(self.records.acting(submitter), kind, **fields)

    def on_accept(self, view: View, message: Any) -> None:
        """Note, as a submitter, what a leaf has accepted."""
        view.note("told", accepted=message.tasks, completed=0)
        self.reported(view, message)

    def on_completion(self, view: View, message: Any) -> None:
        """Note, as a submitter, what a leaf has completed."""
        view.note("told", accepted=0, completed=message.tasks)
        self.reported(view, message)

    def reported(self, view: View, message: Any) -> None:
        """Note what a leaf has done, and what it has left; if it has lost tasks, look for them."""
        record, now = self.records.of(message.application), view.now_ns
        lost = record.report(message.sender, message.life, message.left, message.done, now)
        self.records.seek(message.application, lost, now)

    def on_failed(self, view: View, message: Any) -> None:
        """Note that a leaf has lost the tasks that it had, and look for them."""
        lost = self.records.of(message.whose).fail(message.sender, message.life, view.now_ns)
        self.records.seek(message.whose, lost, view.now_ns)

    # -- who is where ----------------------------------------------------------------------------------------

    def own(self, view: View) -> int:
        """Return the number of the leaf of this machine."""
        return self.tree.first_leaf + view.machine

    def here(self, view: View) -> list[int]:
        """Return the nodes on this machine, ascending."""
        return [*sorted(self.routers), self.own(view)]

    def program(self, view: View, node: int) -> TreeNode | None:
        """Return the program of a node that is on this machine."""
        return self.leaf if node == self.own(view) else self.routers.get(node)

    def part(self, view: View, node: int) -> Any:
        """Return what a node on this machine sees."""
        return Part(self, view, node)

    def home(self, node: int) -> int:
        """Return the machine on which a node is when all are up."""
        return node if node < self.tree.first_leaf else node - self.tree.first_leaf

    def claim(self, node: int) -> Claim:
        """Return the latest claim on a node that is known; that of a leaf says when its life began."""
        return self.claims.get(node, (0, self.home(node)))

    def host(self, node: int) -> int:
        """Return the machine on which a node is, as far as is known here."""
        return self.claim(node)[1]

    def neighbours(self, node: int) -> list[int]:
        """Return the parent and the children of a node."""
        below = [2 * node + 1, 2 * node + 2] if node < self.tree.first_leaf else []
        return below if node == 0 else [above(node), *below]

    def silent(self, node: int, now: int) -> bool:
        """Return whether a neighbour is silent: for too long, or since a life that is not the first began."""
        if node in self.heard or self.life == 0:
            return bool(now - self.heard.get(node, self.born) > self.silence)
        return bool(now - self.born > self.beat)

    def learn(self, view: View, node: int, claim: Claim) -> None:
        """Note where a node is, if that is news; a stand-in here yields to a later claim.

        So does the home router: but this machine is up, and takes it back at once.
        """
        if claim <= self.claim(node) or (claim[1] == view.machine and self.program(view, node) is None):
            return
        self.claims[node] = claim
        if node in self.routers and claim[1] != view.machine:
            self.leave(view, node)
        if node == view.machine and node < self.tree.first_leaf:
            self.take(view, node, view.now_ns)
            self.say(view, node, claim[1])
            return
        if node > 0 and above(node) in self.routers:
            self.clear(above(node), node)
            self.told.pop(node, None)
            self.speak(view, above(node), node)
        if node < self.tree.first_leaf:
            self.heard[node] = view.now_ns
            self.renew(view, node)

    def renew(self, view: View, parent: int) -> None:
        """Let the nodes here report anew to a parent that begins without knowledge."""
        for child in (2 * parent + 1, 2 * parent + 2):
            if (program := self.program(view, child)) is not None:
                program.asked = True
                self.speak(view, child, parent)
                self.part(view, child).act()

    def take(self, view: View, router: int, since: int) -> None:
        """Claim a router, which begins with an empty memory, and tell its neighbours."""
        self.hold(router, view.machine, view.now_ns, since)
        self.announce(view, router)

    def hold(self, router: int, machine: int, now: int, since: int) -> None:
        """Claim a router for this machine, since `since` (ns) or later; it begins with an empty memory."""
        since = max(since, self.claim(router)[0] + 1)
        self.claims[router] = since, machine
        self.routers[router] = made = Router(near(self.tree, router, known=False), router)
        made.number, made.issued = since, [since, since]  # above those of whoever had it before
        self.asked.pop(router, None)
        self.heard[router] = now
        for child in self.below(router):
            self.heard[child] = now
            self.told.pop(child, None)
        if router > 0 and above(router) in self.routers:
            self.clear(above(router), router)
            self.routers[above(router)].tree.gone[router] = False

    def announce(self, view: View, router: int) -> None:
        """Tell the neighbours of a router that it is here, where it begins without knowledge."""
        self.seat(view, router, TAKEN)
        for other in self.neighbours(router):
            self.speak(view, router, other)
        self.renew(view, router)

    def leave(self, view: View, router: int) -> None:
        """Give up a router that another machine has."""
        del self.routers[router]
        self.turns = {turn for turn in self.turns if turn[0] != router}
        self.whole.discard(router)
        self.seat(view, router, RESIGNED)

    def seat(self, view: View, router: int, what: int) -> None:
        """Record what has happened to a router here."""
        view.note("seats", router=router, machine=view.machine, time=view.now_ns, what=what)

    # -- signs of life ---------------------------------------------------------------------------------------

    def look_around(self, view: View) -> None:
        """Look who is silent, and show neighbours that have heard nothing that the nodes here are alive."""
        now = view.now_ns
        for parent in sorted({above(node) for node in self.here(view) if node > 0}):
            if parent not in self.routers and self.silent(parent, now):
                self.succeed(view, parent)
            else:
                self.asked.pop(parent, None)
        for router in sorted(self.routers):
            for child in (2 * router + 1, 2 * router + 2):
                there = self.program(view, child) is None and not self.routers[router].tree.gone[child]
                if there and self.silent(child, now):
                    self.lose(view, router, child)
        for node in self.here(view):
            for other in self.neighbours(node):
                if self.is_due(node, other, now):
                    self.speak(view, node, other)

    def is_due(self, node: int, other: int, now: int) -> bool:
        """Return whether a neighbour must hear of a node here: it has not lately, or there is news.

        A beat is left out only if something was sent in the last half of a period, so that nobody who is up
        is silent for two.
        """
        if now - self.spoke.get((node, other), -NEVER) >= self.beat // 2:
            return True
        return other > node and (self.wanted(node, other) or self.told.get(other, []) != self.moved(node))

    def wanted(self, router: int, child: int) -> bool:
        """Return whether a child must report anew."""
        return self.routers[router].cells[child - 2 * router - 1] is None

    def moved(self, router: int) -> list[int]:
        """Return claims: node, since when, and machine, of each router that has moved.

        These are a router here, those above it, and the children of those.
        """
        rows = [
            (node, *claim)
            for node, claim in sorted(self.claims.items())
            if node < self.tree.first_leaf and (node in (0, router) or is_below(router, above(node)))
        ]
        return [number for row in rows for number in row]

    def speak(self, view: View, node: int, other: int) -> None:
        """Send a sign of life of a node here to a neighbour; to a child that is gone, also to its home."""
        places, moved, wanted = [self.host(other)], list[int](), False
        if other > node:
            self.told[other] = moved = self.moved(node)
            wanted = self.wanted(node, other)
            if self.routers[node].tree.gone[other]:
                places.append(self.home(other))
        self.spoke[node, other] = view.now_ns
        tag = self.tag(node, other)
        for place in dict.fromkeys(places):
            view.send(place, "beat", wanted=int(wanted), moved=moved, **tag)

    def lose(self, view: View, router: int, child: int) -> None:
        """Take a silent child out of the tree."""
        self.clear(router, child)
        self.routers[router].tree.gone[child] = True
        self.routers[router].asked = True
        self.part(view, router).act()
        self.look(view, router)

    def clear(self, router: int, child: int) -> None:
        """Forget what a child has reported."""
        tree = self.routers[router].tree
        tree.leaves[child], tree.speed[child] = 0, 0.0
        self.routers[router].forget(child - 2 * router - 1)
        self.whole.discard(router)

    def look(self, view: View, router: int) -> None:
        """Record that all children of a router have reported or are known to be gone."""
        children, tree = (2 * router + 1, 2 * router + 2), self.routers[router].tree
        if router not in self.whole and all(
            tree.gone[child] or not self.wanted(router, child) for child in children
        ):
            self.whole.add(router)
            self.seat(view, router, WHOLE)

    # -- succession ------------------------------------------------------------------------------------------

    def succeed(self, view: View, parent: int) -> None:
        """Take a silent parent over, or ask the next machine in its line of succession to do so."""
        line = self.line(view, parent)
        turn = self.asked.get(parent, 0)
        self.asked[parent] = turn + 1
        to = line[turn % len(line)]
        if to == view.machine:
            self.take(view, parent, view.now_ns)
        else:
            view.send(to, "take", router=parent, since=self.claim(parent)[0])

    def line(self, view: View, parent: int) -> list[int]:
        """Return who is to take a silent parent over, in order.

        A machine that has not heard that parent since it failed may not know where it is, and comes last.
        """
        nodes = [2 * parent + 1, 2 * parent + 2, *([above(parent)] if parent else [])]
        line = [place for place in dict.fromkeys(map(self.host, nodes)) if place != self.host(parent)]
        if parent in self.heard or self.life == 0:
            return line
        places = dict.fromkeys((self.home(parent), *line))
        return [*(each for each in places if each not in (view.machine, self.host(parent))), view.machine]

    def on_take(self, view: View, message: Any) -> None:
        """Take a router over, unless it is here or was heard lately."""
        router = message.router
        lately = router in self.heard and not self.silent(router, view.now_ns)
        concerned = any(self.program(view, node) is not None for node in self.neighbours(router))
        if router not in self.routers and concerned and not lately:
            self.take(view, router, view.now_ns)
        self.say(view, router, message.sender)

    def say(self, view: View, node: int, to: int) -> None:
        """Tell a machine where a node is, as far as is known here."""
        since, machine = self.claim(node)
        view.send(to, "where", router=node, since=since, machine=machine)

    def on_where(self, view: View, message: Any) -> None:
        """Learn where a router is."""
        self.learn(view, message.router, (message.since, message.machine))

    # -- messages of the tree --------------------------------------------------------------------------------

    def tag(self, node: int, to: int) -> dict[str, int]:
        """Return what each message in the tree says: to and from which node, and since when that is here."""
        return {"role": to, "by": node, "claimed": self.claim(node)[0]}

    def send(self, view: View, node: int, to: int, kind: str, fields: dict[str, Any]) -> None:
        """Send a message of a node here to another node."""
        if kind in ("accept", "completion"):
            self.report(view, fields["application"], kind, fields)
            return
        if kind == "summary":
            tree = self.routers[node].tree if node in self.routers else None
            leaves = 1 if tree is None else sum(tree.leaves[child] for child in self.below(node))
            speed = view.speed if tree is None else sum(tree.speed[child] for child in self.below(node))
            fields = {**fields, "leaves": leaves, "speed": speed}
        if kind == "request":
            fields = {**fields, "passed": 0}
        self.spoke[node, to] = view.now_ns
        view.send(self.host(to), kind, **fields, **self.tag(node, to))

    def below(self, router: int) -> tuple[int, int]:
        """Return the children of a router."""
        return 2 * router + 1, 2 * router + 2

    def on_message(self, view: View, message: Any) -> None:
        """Hand a message of the tree over to the node for which it is."""
        node, by, sender = message.role, message.by, message.sender
        claim, program = (message.claimed, sender), self.program(view, node)
        stale = claim < self.claim(by)
        if message.kind == "request" and message.passed:
            pass  # who passes it on is not where its node is
        elif stale:
            if by < self.tree.first_leaf:
                self.say(view, by, sender)
        else:
            self.learn(view, by, claim)
            self.heard[by] = view.now_ns
            if node in self.routers and by in self.below(node):
                self.routers[node].tree.gone[by] = False
        if program is None:
            if message.kind == "request":
                self.pass_on(view, message)
            else:
                self.say(view, node, sender)
        elif not stale or message.kind == "request":
            self.hand_over(view, message, program)

    def hand_over(self, view: View, message: Any, program: TreeNode) -> None:
        """Let a node here handle a message."""
        node, by = message.role, message.by
        message = SimpleNamespace(**{**vars(message), "sender": by})
        if message.kind == "summary":
            which, tree = by - 2 * node - 1, self.routers[node].tree
            if message.number > self.routers[node].heard[which]:
                tree.leaves[by], tree.speed[by] = message.leaves, message.speed
        if message.kind != "beat":
            getattr(program, f"on_{message.kind}")(self.part(view, node), message)
        else:
            self.heed(view, message, program)
        if message.kind == "summary":
            self.look(view, node)

    def heed(self, view: View, message: Any, program: TreeNode) -> None:
        """Learn from a sign of life which routers have moved, and report anew if the parent wants it."""
        for router, since, machine in message.moved.reshape(-1, 3).tolist():
            self.learn(view, router, (since, machine))
        if message.wanted:
            program.asked = True
            self.part(view, message.role).act()

    def pass_on(self, view: View, message: Any) -> None:
        """Pass a request on to where its node is.

        Whoever had a router knows of a later claim, or has failed since and sends it home: so it goes round
        in no circle.
        """
        same = (*messages(self.tree.parameters)["request"].fields, "role", "by", "claimed")
        fields = {name: getattr(message, name) for name in same}
        view.send(self.host(message.role), "request", passed=1, **fields)


def above(node: int) -> int:
    """Return the parent of a node."""
    return (node - 1) // 2


def is_below(node: int, other: int) -> bool:
    """Return whether `node` is a child of `other`, or of one below that."""
    while node > other:
        node = above(node)
        if node == other:
            return True
    return False
