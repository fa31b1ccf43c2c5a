"""What every method of searching for idle hosts has: a machine as a client that needs hosts, and as a host.

After D. Zhou and V. Lo, "Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer
system" (CCGrid 2004).  Only how a client asks differs from method to method (`SearchNode.ask`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gridsim.model.applications import Application
from gridsim.results.decisions import Words
from gridsim.scheduling.local.oracle import Truth, TruthOf
from gridsim.scheduling.local.policy import LocalPolicy, Message, View

#: A header, and 8 bytes a field.
_HEADER = 64


def small(**fields: type) -> Message:
    """A message of a header and its fields."""
    return Message(_HEADER + 8 * len(fields), moves_tasks=False, **fields)


#: What clients and hosts say to each other, whatever the method; tasks and profiles are longer.
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
WORDS: Words = {
    "ran": ("ran a task itself", "tasks that need a host:", ""),
    "asked": ("asked for hosts for {tasks} tasks", "hosts found:", ""),
    "paused": ("had nobody more to ask for {tasks} tasks, and paused", "hosts found:", ""),
    "sent": ("sent a task to machine {machine}, which had offered itself", "free hosts there:", ""),
    "refused": ("sent a task back to machine {machine}, as it was not free for that", "", ""),
    "came-back": ("got a task back from machine {machine}, and looked for another host", "", ""),
}


def hosts_for(truth: Truth, node: int, machine: int) -> float:
    """How many hosts the search of `node` has found, and how many others are free now."""
    others = (u for u in range(truth.machines) if u != node and truth.up(u))
    return float(search_node(truth, node).found + sum(search_node(truth, u).free for u in others))


def free_for(truth: Truth, node: int, machine: int) -> tuple[float, float]:
    """Whether `machine` is still free for `node`, and how long ago it said so (s)."""
    host = search_node(truth, machine)
    return float(not host.busy and host.promised in (NOBODY, node)), truth.now - host.offered


def search_node(truth: Truth, machine: int) -> SearchNode:
    """The node of a machine."""
    node = truth.memory(machine)
    assert isinstance(node, SearchNode)
    return node


TRUTHS: dict[str, TruthOf] = {"asked": hosts_for, "paused": hosts_for, "sent": free_for}

#: A client that finds nobody waits twice as long each time, up to so many times `retry`.
LONGEST_PAUSE = 16.0
NOBODY = -1


class SearchNode(LocalPolicy, ABC):
    """One machine.

    When it joins it says hello to the neighbours that it was given.  Links are mutual: who says hello, or
    sends what goes from neighbour to neighbour, is a neighbour from then on.

    As a host it takes one task at a time.  It is free if it runs none and is promised to nobody; asked by a
    client it then offers itself, and is promised to it until a task comes, the client dismisses it, or
    `promise` s are over.  A task that comes when it is not free for its sender goes back.

    As a client it has a list of tasks that need a host, oldest first.  Its own machine takes one whenever it
    is free.  For the others it searches, in rounds: it asks somebody and waits a while for offers.  Each host
    that offers itself gets the oldest task, and is dismissed if none is left.  When there is nobody more to
    ask, it pauses and begins anew: after `retry` s (times 0.5..1.5, at random), and after twice as long each
    time that a search finds nobody.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.busy, self.promised, self.offered = False, NOBODY, 0.0  # when it did so last, s
        self.waiting: list[list[Any]] = []  # [application, tasks, needed since]
        self.state = ""  # or "searching", "pausing"
        self.number = 0  # of the newest round
        self.pause = parameters.retry
        self.began, self.wanted, self.found, self.rounds, self.lately = 0.0, 0, 0, 0, 0
        self.links: dict[int, None] = {}  # neighbours
        self.seen: dict[int, int] = {}  # newest flood of each origin

    # -- what the methods say -------------------------------------------------------------------------------

    @abstractmethod
    def ask(self, view: View) -> float | None:
        """Ask somebody of this round (``self.rounds``, from 0); for how many s to wait for offers.

        None if there is nobody more to ask.
        """

    @abstractmethod
    def hear(self, view: View, message: Any) -> None:
        """A message that only this method has."""

    def on_free(self, view: View) -> None:
        """This machine has become free."""

    def on_join(self, view: View) -> None:
        """It has joined, and the neighbours have had time to say hello."""

    # -- the client -----------------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        """See `LocalPolicy`."""
        self.links = dict.fromkeys(view.neighbours)
        for to in view.neighbours:
            view.send(to, "hello")
        view.timer(self.parameters.hop_time, "join")

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """See `LocalPolicy`."""
        self.need([application.number, tasks, view.now], len(self.waiting), view)

    def need(self, entry: list[Any], place: int, view: View) -> None:
        """A further entry of the list."""
        self.waiting.insert(place, entry)
        self.use_own(view)
        if self.waiting and not self.state:
            self.begin(view)

    @property
    def missing(self) -> int:
        """Tasks that need a host."""
        return sum(tasks for _, tasks, _ in self.waiting)

    def use_own(self, view: View) -> None:
        """The oldest task runs here, if this machine is free."""
        if self.waiting and self.free:
            self.busy = True
            missing = self.missing
            application = self.give(view, view.node)
            view.decide("ran", application, machine=view.node, tasks=1, saw=missing, age=0.0)
            view.enqueue(application, 1)

    def give(self, view: View, host: int) -> int:
        """Take the oldest task off the list, for `host`; its application."""
        entry = self.waiting[0]
        entry[1] -= 1
        if not entry[1]:
            del self.waiting[0]
        view.note("hosts", application=entry[0], client=view.node, host=host, needed=entry[2], found=view.now)
        if not self.waiting:
            self.end(view)
        return int(entry[0])

    def begin(self, view: View) -> None:
        """A new search."""
        self.state, self.began, self.wanted = "searching", view.now, self.missing
        self.found = self.rounds = self.lately = 0
        self.go_on(view)

    def go_on(self, view: View) -> None:
        """The next round, or a pause."""
        # by the clock, so that it is the newest even after the client failed and forgot the numbers before
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
        """The search is over, or the pause."""
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

    def on_offer(self, view: View, host: int) -> None:
        """A host offers itself; late ones are as good."""
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
        """Offer this machine, if it is free."""
        if not self.free or client == view.node:
            return False
        self.promised, self.offered = client, view.now
        view.send(client, "offer")
        view.timer(self.parameters.promise, "promise")
        return True

    def on_task(self, view: View, message: Any) -> None:
        """A task to run, or to send back."""
        if self.busy or self.promised not in (NOBODY, message.sender):
            view.decide("refused", message.application, machine=message.sender, tasks=message.tasks)
            view.send(message.sender, "back", application=message.application, tasks=message.tasks)
            return
        self.keep_promise(view)
        self.busy = True
        view.enqueue(message.application, message.tasks)

    def keep_promise(self, view: View) -> None:
        """This machine is promised to nobody any more."""
        self.promised = NOBODY
        view.cancel("promise")

    def become_free(self, view: View) -> None:
        """This machine may have become free: for an own task, or for others."""
        self.use_own(view)
        if self.free:
            self.on_free(view)

    # -- what comes -----------------------------------------------------------------------------------------

    def on_message(self, view: View, message: Any) -> None:
        """See `LocalPolicy`."""
        kind = message.kind
        if kind == "hello":
            self.links[message.sender] = None
        elif kind == "offer":
            self.on_offer(view, message.sender)
        elif kind == "task":
            self.on_task(view, message)
        elif kind == "back":  # the oldest again
            view.decide("came-back", message.application, machine=message.sender, tasks=message.tasks)
            self.need([message.application, message.tasks, view.now], 0, view)
        elif kind == "dismiss":
            if message.sender == self.promised:
                self.keep_promise(view)
                self.become_free(view)
        else:
            self.hear(view, message)

    def on_timer(self, view: View, name: str) -> None:
        """See `LocalPolicy`."""
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
        """See `LocalPolicy`."""
        self.busy = False
        self.become_free(view)

    # -- floods ---------------------------------------------------------------------------------------------

    def flood(self, view: View, kind: str, hops: int, origin: int, number: int, sender: int) -> None:
        """Tell all neighbours but the sender, who tell theirs, up to `hops` hops from here."""
        self.seen[origin] = number
        for to in self.links:
            if to != sender and to != origin:
                view.send(to, kind, origin=origin, number=number, hops=hops - 1)

    def fresh(self, view: View, message: Any) -> bool:
        """Whether a flood has come for the first time; then it goes on."""
        origin, number, hops = message.origin, message.number, message.hops
        self.links[message.sender] = None
        if origin == view.node or self.seen.get(origin, -1) >= number:
            return False
        self.seen[origin] = number
        if hops:
            self.flood(view, message.kind, hops, origin, number, message.sender)
        return True


class RingNode(SearchNode):
    """Asks all within 1, 2, ... hops."""

    def ask(self, view: View) -> float | None:
        """See `SearchNode`."""
        hops = self.rounds + 1
        if hops > self.parameters.max_hops or not self.links:
            return None
        self.flood(view, "query", hops, view.node, self.number, view.node)
        return float((hops + 1) * self.parameters.hop_time)

    def hear(self, view: View, message: Any) -> None:
        """See `SearchNode`."""
        if self.fresh(view, message):
            self.offer(view, message.origin)


class WalkNode(SearchNode):
    """Sends walkers, which look for some of the hosts each; again as long as they find somebody."""

    def ask(self, view: View) -> float | None:
        """See `SearchNode`."""
        if (self.rounds and not self.lately) or not self.links:
            return None
        missing, links, steps = self.missing, list(self.links), self.parameters.steps
        walkers = min(self.parameters.walkers, missing)
        first = view.random.permutation(len(links)).tolist()
        for k in range(walkers):
            share = missing // walkers + (k < missing % walkers)
            view.send(links[first[k % len(first)]], "walk", client=view.node, wanted=share, steps=steps - 1)
        return float((steps + 1) * self.parameters.hop_time)

    def hear(self, view: View, message: Any) -> None:
        """See `SearchNode`."""
        wanted = message.wanted - self.offer(view, message.client)
        self.links[message.sender] = None
        if wanted and message.steps:
            others = [to for to in self.links if to != message.sender] or [message.sender]
            to = others[int(view.random.integers(len(others)))]
            view.send(to, "walk", client=message.client, wanted=wanted, steps=message.steps - 1)


class AdvertisingNode(SearchNode):
    """Tells others that it is there when it joins, and asks those that it was told of."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.cache: dict[int, None] = {}
        self.asked: dict[int, None] = {}  # in this search

    def on_join(self, view: View) -> None:
        """See `SearchNode`."""
        number = round(view.now * 1e6)
        self.flood(view, "profile", self.parameters.scope, view.node, number, view.node)

    def ask(self, view: View) -> float | None:
        """See `SearchNode`."""
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

    def hear(self, view: View, message: Any) -> None:
        """See `SearchNode`."""
        if message.kind == "ask":
            self.offer(view, message.client)
        elif self.fresh(view, message):
            self.cache[message.origin] = None
