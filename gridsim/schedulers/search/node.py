"""The node that all methods of searching for idle hosts share: a machine is a client and a host at once.

After D. Zhou and V. Lo, "Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer
system" (CCGrid 2004).  Methods differ in how a client asks for hosts (`SearchNode.ask`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gridsim.model.applications import Application
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.scheduling.nodes.program import Message, NodeProgram, View

#: Bytes of a message's header; each field takes 8 more.
_HEADER = 64


def small(**fields: Any) -> Message:
    """Return a kind of message that has a header and these fields, and moves no tasks."""
    return Message(_HEADER + 8 * len(fields), moves_tasks=False, deferred=False, **fields)


#: Messages between clients and hosts in every method; tasks and profiles are longer than the others.
COMMON = {
    "hello": small(),
    "offer": small(),
    "task": Message(170, moves_tasks=True, application=int, tasks=int),
    "back": Message(170, moves_tasks=True, application=int, tasks=int),
    "dismiss": small(),
}
COMMON_TIMERS = ("join", "round", "retry", "promise")
TABLES: dict[str, dict[str, type]] = {
    "searches": {
        "client": int, "wanted": int, "found": int, "rounds": int, "began": float, "ended": float,
    },
    "hosts": {"application": int, "client": int, "host": int, "needed": float, "found": float},
}  # fmt: skip

#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: DecisionTexts = {
    "ran": ("ran a task itself", "tasks that need a host:", ""),
    "asked": ("asked for hosts for {tasks} tasks", "hosts found:", ""),
    "paused": ("had nobody more to ask for {tasks} tasks, and paused", "hosts found:", ""),
    "sent": ("sent a task to machine {machine}, which had offered itself", "free hosts there:", ""),
    "refused": ("sent a task back to machine {machine}, as it was not free for that", "", ""),
    "came-back": ("got a task back from machine {machine}, and looked for another host", "", ""),
}


def hosts_for(truth: Truth, node: int, machine: int) -> float:
    """Return how many hosts the search of `node` has found, plus how many other machines are free now."""
    others = (u for u in range(truth.machines) if u != node and truth.up(u))
    return float(search_node(truth, node).found + sum(search_node(truth, u).free for u in others))


def free_for(truth: Truth, node: int, machine: int) -> tuple[float, float]:
    """Return whether `machine` is still free for `node` (1 or 0), and how long ago it offered itself (s)."""
    host = search_node(truth, machine)
    return float(not host.busy and host.promised in (NOBODY, node)), truth.now - host.offered


def search_node(truth: Truth, machine: int) -> SearchNode:
    """Return the node of a machine."""
    node = truth.memory(machine)
    assert isinstance(node, SearchNode)
    return node


TRUTHS: dict[str, TruthOf] = {"asked": hosts_for, "paused": hosts_for, "sent": free_for}

#: A client that finds no host doubles its pause each time, up to this many times `retry`.
LONGEST_PAUSE = 16.0
NOBODY = -1


class SearchNode(NodeProgram, ABC):
    """One machine, which searches for hosts as a client and runs tasks of others as a host.

    When it joins, it says hello to the neighbours that it was given.  Links are mutual: a machine that says
    hello, or sends a message that goes from neighbour to neighbour, is a neighbour from then on.

    As a host it takes one task at a time.  It is free if it runs no task and is promised to no client.  When
    a client asks a free host, the host offers itself and is promised to that client until a task comes, the
    client dismisses it, or `promise` s have passed.  A host that is not free for the sender of a task sends
    the task back.

    As a client it has a list of tasks that need a host, oldest first.  Its own machine takes one whenever it
    is free.  For the others it searches in rounds: it asks other machines and waits a while for offers.  Each
    host that offers itself gets the oldest task, or is dismissed if none is left.  When there is no machine
    left to ask, the client pauses and then begins a new search.  The pause is `retry` s (times 0.5..1.5, at
    random), and twice as long each time that a search finds no host.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.busy, self.promised, self.offered = False, NOBODY, 0.0  # time of the last offer, s
        self.waiting: list[list[Any]] = []  # [application, tasks, needed since]
        self.state = ""  # or "searching", "pausing"
        self.number = 0  # number of the newest round
        self.pause = parameters.retry
        self.began, self.wanted, self.found, self.rounds, self.lately = 0.0, 0, 0, 0, 0
        self.links: dict[int, None] = {}  # neighbours
        self.seen: dict[int, int] = {}  # number of the newest flood of each origin

    # -- what a method defines -------------------------------------------------------------------------------

    @abstractmethod
    def ask(self, view: View) -> float | None:
        """Ask machines in this round (``self.rounds``, from 0); return for how many s to wait for offers.

        Returns None if there is no machine left to ask.
        """

    def on_free(self, view: View) -> None:
        """Called when this machine has become free."""

    def on_join(self, view: View) -> None:
        """Called when this machine has joined and its neighbours have had time to say hello."""

    # -- the client -----------------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        self.links = dict.fromkeys(view.neighbours)
        for to in view.neighbours:
            view.send(to, "hello")
        view.timer(self.parameters.hop_time, "join")

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        self.need([application.number, tasks, view.now], len(self.waiting), view)

    def need(self, entry: list[Any], place: int, view: View) -> None:
        """Insert an entry into the list of tasks, and begin a search if none is under way."""
        self.waiting.insert(place, entry)
        self.use_own(view)
        if self.waiting and not self.state:
            self.begin(view)

    @property
    def missing(self) -> int:
        """The number of tasks that need a host."""
        return sum(tasks for _, tasks, _ in self.waiting)

    def use_own(self, view: View) -> None:
        """Run the oldest task here, if this machine is free."""
        if self.waiting and self.free:
            self.busy = True
            missing = self.missing
            application = self.give(view, view.node)
            view.decide("ran", application, machine=view.node, tasks=1, saw=missing, age=0.0)
            view.enqueue(application, 1)

    def give(self, view: View, host: int) -> int:
        """Take the oldest task off this node's list, to give it to `host`; return its application."""
        entry = self.waiting[0]
        entry[1] -= 1
        if not entry[1]:
            del self.waiting[0]
        view.note("hosts", application=entry[0], client=view.node, host=host, needed=entry[2], found=view.now)
        if not self.waiting:
            self.end(view)
        return int(entry[0])

    def begin(self, view: View) -> None:
        """Begin a new search."""
        self.state, self.began, self.wanted = "searching", view.now, self.missing
        self.found = self.rounds = self.lately = 0
        self.go_on(view)

    def go_on(self, view: View) -> None:
        """Begin the next round, or pause if there is no machine left to ask."""
        # taken from the clock, so that it is the newest even if the client failed and forgot earlier numbers
        self.number = max(self.number + 1, round(view.now * 1e6))
        wait = self.ask(view)
        for application, tasks, _ in self.waiting:
            action = "paused" if wait is None else "asked"
            view.decide(action, application, tasks=tasks, saw=self.found, limit=self.wanted)
        if wait is not None:
            self.rounds, self.lately = self.rounds + 1, 0
            view.timer(wait, "round")
            return
        self.end(view)
        if self.found:
            self.pause = self.parameters.retry
        self.state = "pausing"
        view.timer(self.pause * float(view.random.uniform(0.5, 1.5)), "retry")
        self.pause = min(2.0 * self.pause, LONGEST_PAUSE * self.parameters.retry)

    def end(self, view: View) -> None:
        """End the search or the pause."""
        if self.state == "searching":
            view.cancel("round")
            view.note(
                "searches",
                client=view.node,
                wanted=self.wanted,
                found=self.found,
                rounds=self.rounds,
                began=self.began,
                ended=view.now,
            )
        elif self.state == "pausing":
            view.cancel("retry")
        if not self.waiting:
            self.pause = self.parameters.retry
        self.state = ""

    def on_offer(self, view: View, message: Any) -> None:
        """Give the oldest task to a host that offers itself, or dismiss it; late offers count as well."""
        host = message.sender
        if not self.waiting:
            view.send(host, "dismiss")
            return
        self.found, self.lately = self.found + 1, self.lately + 1
        application = self.give(view, host)
        view.decide("sent", application, machine=host, tasks=1, saw=1.0)
        view.send(host, "task", application=application, tasks=1)

    # -- the host -------------------------------------------------------------------------------------------

    @property
    def free(self) -> bool:
        """Whether this machine runs nothing and is promised to nobody."""
        return not self.busy and self.promised == NOBODY

    def offer(self, view: View, client: int) -> bool:
        """Offer this machine to a client if it is free; return whether it did so."""
        if not self.free or client == view.node:
            return False
        self.promised, self.offered = client, view.now
        view.send(client, "offer")
        view.timer(self.parameters.promise, "promise")
        return True

    def on_task(self, view: View, message: Any) -> None:
        """Run a task that has come, or send it back."""
        if self.busy or self.promised not in (NOBODY, message.sender):
            view.decide("refused", message.application, machine=message.sender, tasks=message.tasks)
            view.send(message.sender, "back", application=message.application, tasks=message.tasks)
            return
        self.keep_promise(view)
        self.busy = True
        view.enqueue(message.application, message.tasks)

    def keep_promise(self, view: View) -> None:
        """End the promise of this machine to a client."""
        self.promised = NOBODY
        view.cancel("promise")

    def become_free(self, view: View) -> None:
        """Run an own task if this machine has become free, or let others use it (`on_free`)."""
        self.use_own(view)
        if self.free:
            self.on_free(view)

    # -- further messages, and timers ----------------------------------------------------------------------

    def on_hello(self, view: View, message: Any) -> None:
        """Take the machine that has joined for a neighbour."""
        self.links[message.sender] = None

    def on_back(self, view: View, message: Any) -> None:
        """Look for another host for a task that a host has sent back: it is the oldest task again."""
        view.decide("came-back", message.application, machine=message.sender, tasks=message.tasks)
        self.need([message.application, message.tasks, view.now], 0, view)

    def on_dismiss(self, view: View, message: Any) -> None:
        """Be free again if it is the client to which this machine is promised that needs it no more."""
        if message.sender == self.promised:
            self.keep_promise(view)
            self.become_free(view)

    def on_timer(self, view: View, name: str) -> None:
        if name == "round":
            self.go_on(view)
        elif name == "retry":
            self.begin(view)
        elif name == "join":
            self.on_join(view)
        elif name == "promise":
            self.promised = NOBODY
            self.become_free(view)

    def on_idle(self, view: View) -> None:
        self.busy = False
        self.become_free(view)

    # -- floods ---------------------------------------------------------------------------------------------

    def flood(self, view: View, kind: str, hops: int, origin: int, number: int, sender: int) -> None:
        """Send a flood to neighbours except its sender and origin; they pass it on, up to `hops` hops."""
        self.seen[origin] = number
        for to in self.links:
            if to != sender and to != origin:
                view.send(to, kind, origin=origin, number=number, hops=hops - 1)

    def fresh(self, view: View, message: Any) -> bool:
        """Return whether a flood has come for the first time, and pass it on if so."""
        origin, number, hops = message.origin, message.number, message.hops
        self.links[message.sender] = None
        if origin == view.node or self.seen.get(origin, -1) >= number:
            return False
        self.seen[origin] = number
        if hops:
            self.flood(view, message.kind, hops, origin, number, message.sender)
        return True


class RingNode(SearchNode):
    """Asks all machines within 1, 2, ... hops."""

    def ask(self, view: View) -> float | None:
        hops = self.rounds + 1
        if hops > self.parameters.max_hops or not self.links:
            return None
        self.flood(view, "query", hops, view.node, self.number, view.node)
        return float((hops + 1) * self.parameters.hop_time)

    def on_query(self, view: View, message: Any) -> None:
        """Pass the flood on, and offer this machine to the one that searches."""
        if self.fresh(view, message):
            self.offer(view, message.origin)


class WalkNode(SearchNode):
    """Sends walkers, each of which looks for a share of the hosts, again as long as they find any host."""

    def ask(self, view: View) -> float | None:
        if (self.rounds and not self.lately) or not self.links:
            return None
        missing, links, steps = self.missing, list(self.links), self.parameters.steps
        walkers = min(self.parameters.walkers, missing)
        first = view.random.permutation(len(links)).tolist()
        for k in range(walkers):
            share = missing // walkers + (k < missing % walkers)
            view.send(links[first[k % len(first)]], "walk", client=view.node, wanted=share, steps=steps - 1)
        return float((steps + 1) * self.parameters.hop_time)

    def on_walk(self, view: View, message: Any) -> None:
        """Offer this machine to the client of a walker, and let the walker go on if it wants more hosts."""
        wanted = message.wanted - self.offer(view, message.client)
        self.links[message.sender] = None
        if wanted and message.steps:
            others = [to for to in self.links if to != message.sender] or [message.sender]
            to = others[int(view.random.integers(len(others)))]
            view.send(to, "walk", client=message.client, wanted=wanted, steps=message.steps - 1)


class AdvertisingNode(SearchNode):
    """Advertises itself when it joins, and asks the machines whose advertisements it has received."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.cache: dict[int, None] = {}
        self.asked: dict[int, None] = {}  # machines asked in this search

    def on_join(self, view: View) -> None:
        number = round(view.now * 1e6)
        self.flood(view, "profile", self.parameters.scope, view.node, number, view.node)

    def ask(self, view: View) -> float | None:
        if not self.rounds:
            self.asked.clear()
        known = {**self.links, **self.cache}  # it has the addresses of neighbours anyway
        left = [host for host in known if host not in self.asked]
        if not left:
            return None
        count = min(self.missing, len(left))
        for k in view.random.permutation(len(left))[:count].tolist():
            self.asked[left[k]] = None
            view.send(left[k], "ask", client=view.node)
        return float(2 * self.parameters.hop_time)

    def on_ask(self, view: View, message: Any) -> None:
        """Offer this machine to the client that asks."""
        self.offer(view, message.client)

    def on_profile(self, view: View, message: Any) -> None:
        """Pass the advertisement of a machine on, and keep it."""
        if self.fresh(view, message):
            self.cache[message.origin] = None
