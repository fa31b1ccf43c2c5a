"""The nodes that search for idle hosts; each machine is a client and a host.

After D. Zhou and V. Lo, "Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer
system" (CCGrid 2004).  The methods differ in how a client searches for hosts (`SearchNode.ask`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from gridcore.nodes.containers import IntMap, IntSet
from gridsim.model.applications import Application
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.nodes.ground_truth import Truth, TruthOf
from gridsim.scheduling.nodes.program import Message, NodeProgram, View

#: Size of a message header, bytes; each field adds 8.
_HEADER = 64


def control_message(**fields: Any) -> Message:
    """Return a kind of message that moves no tasks and has a header and `fields`."""
    return Message(_HEADER + 8 * len(fields), moves_tasks=False, deferred=False, **fields)


#: Messages between clients and hosts in every method of search; those with tasks are larger.
COMMON_MESSAGES = {
    "hello": control_message(),
    "offer": control_message(),
    "task": Message(170, moves_tasks=True, application=int, tasks=int),
    "back": Message(170, moves_tasks=True, application=int, tasks=int),
    "dismiss": control_message(),
}
COMMON_TIMERS = ("join", "round", "retry", "promise")
TABLES: dict[str, dict[str, type]] = {
    "searches": {
        "client": int, "wanted": int, "found": int, "rounds": int, "began": float, "ended": float,
    },
    "hosts": {"application": int, "client": int, "host": int, "needed": float, "found": float},
}  # fmt: skip

#: Texts of the decisions of searches.
WORDS: DecisionTexts = {
    "ran": ("ran a task itself", "tasks that need a host:", ""),
    "asked": ("asked for hosts for {tasks} tasks", "hosts found:", ""),
    "paused": ("had nobody more to ask for {tasks} tasks, and paused", "hosts found:", ""),
    "sent": ("sent a task to machine {machine}, which had offered itself", "free hosts there:", ""),
    "refused": ("sent a task back to machine {machine}, as it was not free for that", "", ""),
    "came-back": ("got a task back from machine {machine}, and looked for another host", "", ""),
}


def available_hosts(truth: Truth, node: int, machine: int) -> float:
    """Return the number of hosts found by the search of `node` plus the number of other free machines."""
    machines = (u for u in range(truth.machines) if u != node and truth.up(u))
    return float(search_node(truth, node).hosts_found + sum(search_node(truth, u).is_free for u in machines))


def offer_state(truth: Truth, node: int, machine: int) -> tuple[float, float]:
    """Return whether `machine` is free for `node` (1 or 0), and the age of its last offer, s."""
    host = search_node(truth, machine)
    return float(not host.busy and host.promise_client in (NO_CLIENT, node)), truth.now - host.last_offer


def search_node(truth: Truth, machine: int) -> SearchNode:
    """Return the search node of a machine."""
    node = truth.memory(machine)
    assert isinstance(node, SearchNode)
    return node


TRUTHS: dict[str, TruthOf] = {"asked": available_hosts, "paused": available_hosts, "sent": offer_state}

#: Longest pause of a client that finds no host, as a multiple of `retry`.
MAX_BACKOFF = 16.0
NO_CLIENT = -1
#: Result of `SearchNode.ask` instead of a time.
NO_MACHINE_LEFT = -1.0
#: States of a client; it is idle if no task needs a host.
IDLE, SEARCHING, PAUSING = range(3)


class SearchNode(NodeProgram, ABC):
    """One machine, which searches for hosts as a client and runs tasks of other clients as a host.

    When it joins, it sends a hello to its initial neighbours.  Links are mutual: the sender of a hello, or of
    a message that travels from neighbour to neighbour, becomes a neighbour.

    As a host it runs one task at a time.  It is free if it runs no task and is promised to no client.  When a
    client asks a free host, the host offers itself and is promised to that client until a task comes, the
    client dismisses it, or `promise` s have passed.  A host that is not free for the sender of a task returns
    the task.

    As a client it has a list of tasks that need a host, oldest first.  Its own machine runs one of them
    whenever it is free.  For the others the client searches in rounds: it asks other machines and waits for
    offers.  Each host that offers itself gets the oldest task, or is dismissed if no task is left.  If there
    is no machine left to ask, the client pauses and then begins a new search.  The pause is `retry` s times a
    random factor in 0.5..1.5, and doubles each time that a search finds no host.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # whether it runs a task, the client to which it is promised, the time of its last offer (s)
        self.busy, self.promise_client, self.last_offer = False, NO_CLIENT, 0.0
        # the tasks that need a host, oldest first (entries first_entry to end_entry - 1), each with the time
        # (s) since which it has needed one; and the number of these tasks
        self.waiting = IntMap(application=int, tasks=int, since=float)
        self.first_entry = self.end_entry = self.unassigned_tasks = 0
        self.state = IDLE
        self.round_number = 0  # number of the newest round
        self.pause = parameters.retry
        # current search: start (s), hosts needed, hosts found, rounds, offers in this round
        self.began, self.hosts_wanted, self.hosts_found, self.rounds, self.new_offers = 0.0, 0, 0, 0, 0
        self.neighbours = IntSet()

    # -- methods of subclasses ------------------------------------------------------------------------------

    @abstractmethod
    def ask(self, view: View) -> float:
        """Ask machines in this round (``self.rounds``, from 0), and return the time to wait for offers, s.

        The result is `NO_MACHINE_LEFT` if there is no machine left to ask.
        """

    def on_free(self, view: View) -> None:
        """Act when this machine becomes free; by default do nothing."""

    def on_join(self, view: View) -> None:
        """Act at the end of joining, when all hellos have arrived; by default do nothing."""

    # -- the client -----------------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        for neighbour in view.neighbours:
            self.neighbours.add(neighbour)
            view.send(neighbour, "hello")
        view.timer(self.parameters.hop_time, "join")

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        self.waiting[self.end_entry] = application.number, tasks, view.now
        self.end_entry += 1
        self.find_hosts(view, tasks)

    def find_hosts(self, view: View, tasks: int) -> None:
        """Begin a search for hosts of `tasks` newly added tasks, unless a search is in progress."""
        self.unassigned_tasks += tasks
        self.use_own_machine(view)
        if self.waiting and self.state == IDLE:
            self.begin(view)

    def use_own_machine(self, view: View) -> None:
        """Run the oldest task on this machine if it is free."""
        if self.waiting and self.is_free:
            self.busy = True
            tasks_needed = self.unassigned_tasks
            application = self.assign_task(view, view.node)
            view.decide("ran", application, node=view.node, tasks=1, saw=tasks_needed, age=0.0)
            view.enqueue(application, 1)

    def assign_task(self, view: View, host: int) -> int:
        """Assign the oldest task to `host`: remove it from the list, and return its application."""
        application, tasks, since = self.waiting[self.first_entry]
        if tasks > 1:
            self.waiting[self.first_entry] = application, tasks - 1, since
        else:
            del self.waiting[self.first_entry]
            self.first_entry += 1
        self.unassigned_tasks -= 1
        view.note("hosts", application=application, client=view.node, host=host, needed=since, found=view.now)
        if not self.waiting:
            self.end(view)
        return int(application)

    def begin(self, view: View) -> None:
        """Begin a new search."""
        self.state, self.began, self.hosts_wanted = SEARCHING, view.now, self.unassigned_tasks
        self.hosts_found = self.rounds = self.new_offers = 0
        self.begin_round(view)

    def begin_round(self, view: View) -> None:
        """Begin the next round, or pause if there is no machine left to ask."""
        # derived from the time, so that it exceeds all earlier numbers, which a failed client may have lost
        self.round_number = max(self.round_number + 1, round(view.now * 1e6))
        wait = self.ask(view)
        hosts, limit = self.hosts_found, self.hosts_wanted
        for k in range(self.first_entry, self.end_entry):
            application, tasks, _ = self.waiting[k]
            if wait < 0:
                view.decide("paused", application, tasks=tasks, saw=hosts, limit=limit)
            else:
                view.decide("asked", application, tasks=tasks, saw=hosts, limit=limit)
        if wait >= 0:
            self.rounds, self.new_offers = self.rounds + 1, 0
            view.timer(wait, "round")
            return
        self.end(view)
        if self.hosts_found:
            self.pause = self.parameters.retry
        self.state = PAUSING
        view.timer(self.pause * view.random.uniform(0.5, 1.5), "retry")
        self.pause = min(2.0 * self.pause, MAX_BACKOFF * self.parameters.retry)

    def end(self, view: View) -> None:
        """End the current search or pause."""
        if self.state == SEARCHING:
            view.cancel("round")
            view.note(
                "searches",
                client=view.node,
                wanted=self.hosts_wanted,
                found=self.hosts_found,
                rounds=self.rounds,
                began=self.began,
                ended=view.now,
            )
        elif self.state == PAUSING:
            view.cancel("retry")
        if not self.waiting:
            self.pause = self.parameters.retry
        self.state = IDLE

    def on_offer(self, view: View, message: Any) -> None:
        """Send the oldest task to the host of an offer, or dismiss the host; late offers count as well."""
        host = message.sender
        if not self.waiting:
            view.send(host, "dismiss")
            return
        self.hosts_found, self.new_offers = self.hosts_found + 1, self.new_offers + 1
        application = self.assign_task(view, host)
        view.decide("sent", application, node=host, tasks=1, saw=1.0)
        view.send(host, "task", application=application, tasks=1)

    # -- the host -------------------------------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """True if this machine runs no task and is promised to no client."""
        return not self.busy and self.promise_client == NO_CLIENT

    def offer(self, view: View, client: int) -> bool:
        """Offer this machine to a client if it is free, and return whether it was."""
        if not self.is_free or client == view.node:
            return False
        self.promise_client, self.last_offer = client, view.now
        view.send(client, "offer")
        view.timer(self.parameters.promise, "promise")
        return True

    def on_task(self, view: View, message: Any) -> None:
        """Run a task, or return it if this machine is not free for its sender."""
        if self.busy or self.promise_client not in (NO_CLIENT, message.sender):
            view.decide("refused", message.application, node=message.sender, tasks=message.tasks)
            view.send(message.sender, "back", application=message.application, tasks=message.tasks)
            return
        self.end_promise(view)
        self.busy = True
        view.enqueue(message.application, message.tasks)

    def end_promise(self, view: View) -> None:
        """End the promise of this machine to a client."""
        self.promise_client = NO_CLIENT
        view.cancel("promise")

    def become_free(self, view: View) -> None:
        """Run the oldest task on this machine, which has become free; without one, call `on_free`."""
        self.use_own_machine(view)
        if self.is_free:
            self.on_free(view)

    # -- further messages, and timers ----------------------------------------------------------------------

    def on_hello(self, view: View, message: Any) -> None:
        """Add the machine that has joined to the neighbours."""
        self.neighbours.add(message.sender)

    def on_back(self, view: View, message: Any) -> None:
        """Search for another host for a returned task, which becomes the oldest task."""
        view.decide("came-back", message.application, node=message.sender, tasks=message.tasks)
        self.first_entry -= 1
        self.waiting[self.first_entry] = message.application, message.tasks, view.now
        self.find_hosts(view, message.tasks)

    def on_dismiss(self, view: View, message: Any) -> None:
        """End the promise of this machine if it was made to the sender."""
        if message.sender == self.promise_client:
            self.end_promise(view)
            self.become_free(view)

    def on_timer(self, view: View, name: str) -> None:
        if name == "round":
            self.begin_round(view)
        elif name == "retry":
            self.begin(view)
        elif name == "join":
            self.on_join(view)
        elif name == "promise":
            self.promise_client = NO_CLIENT
            self.become_free(view)

    def on_idle(self, view: View) -> None:
        self.busy = False
        self.become_free(view)


class FloodNode(SearchNode):
    """A node that floods messages of one kind: each node that gets one sends it to its neighbours.

    The kind has the fields ``origin``, ``number`` and ``hops``.
    """

    flood_kind: ClassVar[str]

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.flood_numbers = IntMap(number=int)  # number of the newest flood of each origin

    def start_flood(self, view: View, number: int, hops: int) -> None:
        """Send a flood over at most `hops` hops."""
        self.flood(view, view.node, number, hops, view.node)

    def flood(self, view: View, origin: int, number: int, hops: int, sender: int) -> None:
        """Send a flood to all neighbours except its sender and its origin, with `hops` hops left."""
        self.flood_numbers[origin] = number
        for neighbour in self.neighbours:
            if neighbour != sender and neighbour != origin:
                view.send(neighbour, self.flood_kind, origin=origin, number=number, hops=hops - 1)

    def forward_new_flood(self, view: View, message: Any) -> bool:
        """Forward a flood that arrives for the first time, and return whether it is new."""
        origin, number, hops = message.origin, message.number, message.hops
        self.neighbours.add(message.sender)
        if origin == view.node or self.flood_numbers.get(origin, -1) >= number:
            return False
        self.flood_numbers[origin] = number
        if hops:
            self.flood(view, origin, number, hops, message.sender)
        return True


class RingNode(FloodNode):
    """A node that floods queries to all machines within 1, 2, ... hops."""

    flood_kind = "query"

    def ask(self, view: View) -> float:
        hops = self.rounds + 1
        if hops > self.parameters.max_hops or not self.neighbours:
            return NO_MACHINE_LEFT
        self.start_flood(view, self.round_number, hops)
        return float((hops + 1) * self.parameters.hop_time)

    def on_query(self, view: View, message: Any) -> None:
        """Forward a query, and offer this machine to its client."""
        if self.forward_new_flood(view, message):
            self.offer(view, message.origin)


class WalkNode(SearchNode):
    """A node that sends walkers, each for a share of the needed hosts, until a round finds no host."""

    def ask(self, view: View) -> float:
        if (self.rounds and not self.new_offers) or not self.neighbours:
            return NO_MACHINE_LEFT
        tasks_needed, steps = self.unassigned_tasks, self.parameters.steps
        walkers = min(self.parameters.walkers, tasks_needed)
        order = view.random.permutation(len(self.neighbours))
        for k in range(walkers):
            share = tasks_needed // walkers + (k < tasks_needed % walkers)
            neighbour = self.neighbours[order[k % len(order)]]
            view.send(neighbour, "walk", client=view.node, wanted=share, steps=steps - 1)
        return float((steps + 1) * self.parameters.hop_time)

    def on_walk(self, view: View, message: Any) -> None:
        """Offer this machine to the client of a walker, and forward the walker if it needs more hosts."""
        hosts = message.wanted - self.offer(view, message.client)
        self.neighbours.add(message.sender)
        if hosts and message.steps:
            candidates = [node for node in self.neighbours if node != message.sender]
            if not candidates:
                candidates.append(message.sender)
            receiver = candidates[view.random.integers(len(candidates))]
            view.send(receiver, "walk", client=message.client, wanted=hosts, steps=message.steps - 1)


class AdvertisingNode(FloodNode):
    """A node that advertises itself when it joins, and asks the machines that have advertised themselves."""

    flood_kind = "profile"

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.advertised_hosts = IntSet()
        self.asked_hosts = IntSet()  # machines asked in this search

    def on_join(self, view: View) -> None:
        self.start_flood(view, round(view.now * 1e6), self.parameters.scope)

    def ask(self, view: View) -> float:
        if not self.rounds:
            self.asked_hosts.clear()
        # neighbours need not advertise themselves
        candidates = [host for host in self.neighbours if host not in self.asked_hosts]
        for host in self.advertised_hosts:
            if host not in self.neighbours and host not in self.asked_hosts:
                candidates.append(host)
        if not candidates:
            return NO_MACHINE_LEFT
        count = min(self.unassigned_tasks, len(candidates))
        for k in view.random.permutation(len(candidates))[:count]:
            self.asked_hosts.add(candidates[k])
            view.send(candidates[k], "ask", client=view.node)
        return float(2 * self.parameters.hop_time)

    def on_ask(self, view: View, message: Any) -> None:
        """Offer this machine to the client that asks."""
        self.offer(view, message.client)

    def on_profile(self, view: View, message: Any) -> None:
        """Forward the advertisement of a machine, and store it."""
        if self.forward_new_flood(view, message):
            self.advertised_hosts.add(message.origin)
