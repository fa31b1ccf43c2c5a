"""What a machine of the market does: a consumer announces tasks, and a provider bids for them.

consumer --announce(tasks, deadline)--> some providers
         <--bid(room, price, work)-----
         --award(tasks)--------------->  the cheapest with room; of the others the one with the least work
         --decline-------------------->  who gets nothing
"""

from __future__ import annotations

import math
from typing import Any

from gridsim.scheduling.nodes.program import NodeProgram, View


class MarketNode(NodeProgram):
    """A machine that sells its time, and buys time for the tasks that are submitted to it."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # number of a call for bids -> application, tasks, deadline, machines asked, rounds so far
        self.calls: dict[int, tuple[int, int, float, int, int]] = {}
        # of each call: price, order, room, work, provider
        self.bids: dict[int, list[tuple[float, int, int, float, int]]] = {}
        self.last = 0  # number of the last call
        self.price = 1.0  # that this machine asks for a Mflop
        # what has been offered and not decided: (consumer, call) -> tasks, s of each of them
        self.offers: dict[tuple[int, int], tuple[int, float]] = {}
        # (deadline, price of a Mflop, tasks left) of the contracts of an application, in order
        self.contracts: dict[int, list[list[float]]] = {}

    def on_start(self, view: View) -> None:
        """Number calls so that no bid for a call of an earlier life, before a failure, is taken for one."""
        self.last = view.now_ns

    # -- a consumer ---------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Announce tasks; each should end within `slack` times what it takes at the reference speed."""
        lasts = application.task_size / self.parameters.reference_speed
        self.announce(view, application.number, tasks, application.release + self.parameters.slack * lasts, 1)

    def announce(self, view: View, application: int, tasks: int, deadline: float, rounds: int) -> None:
        """Ask random providers for bids."""
        count = min(math.ceil(self.parameters.ask_ratio * tasks), view.machines)
        self.last += 1
        self.calls[self.last], self.bids[self.last] = (application, tasks, deadline, count, rounds), []
        for to in view.random.choice(view.machines, size=count, replace=False).tolist():
            view.send(to, "announce", application=application, call=self.last, tasks=tasks, deadline=deadline)
        view.timer(self.parameters.patience, "closed", self.last)

    def on_bid(self, view: View, message: Any) -> None:
        """Keep a bid; the last one closes the call."""
        if message.call not in self.calls:  # it was closed without this bid
            view.send(message.sender, "decline", call=message.call)
            return
        bids, asked = self.bids[message.call], self.calls[message.call][3]
        bids.append((message.price, len(bids), message.room, message.work, message.sender))
        if len(bids) == asked:
            self.award(view, message.call)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Do without the bids that are missing."""
        if int(value) in self.calls:
            self.award(view, int(value))

    def award(self, view: View, number: int) -> None:
        """Give the tasks to the cheapest providers, as many to each as it has room for before the deadline.

        For what is left others are asked, `rounds` times in all.  Then the deadline cannot be met, and what
        is left goes to the provider with the least work, or is run here if nobody has answered.
        """
        application, tasks, deadline, _, rounds = self.calls.pop(number)
        bids = self.bids.pop(number)
        left, given = tasks, dict.fromkeys((bid[-1] for bid in bids), 0)
        for _, _, room, _, provider in sorted(bids):
            given[provider] = min(room, left)
            left -= given[provider]
        again = left if rounds < self.parameters.rounds else 0
        if left and not again and bids:
            provider = min(bids, key=lambda bid: (bid[3], bid[1]))[-1]
            given[provider] += left
            left = 0
        for price, _, _, _, to in bids:
            if count := given[to]:
                view.decide("awarded", application, machine=to, tasks=count, saw=price)
                view.send(to, "award", application=application, tasks=count, call=number, deadline=deadline)
            else:
                view.send(to, "decline", call=number)
        if again:
            self.announce(view, application, again, deadline, rounds + 1)
        elif left:
            view.decide("kept", application, tasks=left)
            view.enqueue(application, left)

    # -- a provider ---------------------------------------------------------------------------------------

    def on_announce(self, view: View, message: Any) -> None:
        """Say for how many tasks there is room before the deadline, at what price, and how much work is here.

        Offers that have not been decided count as work, as far as this machine does not compete for them.
        """
        lasts = view.application(message.application).task_size / view.speed
        open_ = sum(tasks * each for tasks, each in self.offers.values())
        until = message.deadline - view.now - view.work - (1.0 - self.parameters.competition) * open_
        room = min(max(0, math.floor(until / lasts + 1e-9)), message.tasks)
        if room:
            self.offers[message.sender, message.call] = room, lasts
        view.send(message.sender, "bid", call=message.call, room=room, price=self.price, work=view.work)

    def on_award(self, view: View, message: Any) -> None:
        """Run the tasks; who is wanted asks for more."""
        self.offers.pop((message.sender, message.call), None)
        self.contracts.setdefault(message.application, []).append(
            [message.deadline, self.price, float(message.tasks)]
        )
        self.price *= 1.0 + self.parameters.step
        view.enqueue(message.application, message.tasks)

    def on_decline(self, view: View, message: Any) -> None:
        """Who had room and is not wanted asks for less, down to its costs."""
        if self.offers.pop((message.sender, message.call), None) is not None:
            self.price = max(self.parameters.cost, self.price / (1.0 + self.parameters.step))

    def on_done(self, view: View, application: Any) -> None:
        """Get the price of a task, less the penalty if it is late."""
        contracts = self.contracts.get(application.number)
        if not contracts:  # it is the machine's own
            return
        deadline, price, _ = contracts[0]
        late = int(view.now > deadline + 1e-6)
        paid = price * application.task_size * (1.0 - self.parameters.penalty * late)
        view.note("payments", machine=view.machine, application=application.number, late=late, paid=paid)
        contracts[0][2] -= 1.0
        if not contracts[0][2]:
            contracts.pop(0)
