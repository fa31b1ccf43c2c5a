"""The node program of the market: a consumer announces tasks, and providers bid for them.

consumer --announce(tasks, deadline)--> some providers
         <--bid(room, price, work)-----
         --award(tasks)--------------->  the cheapest providers with room; finally the one with the least work
         --decline-------------------->  the other bidders
"""

from __future__ import annotations

import math
from typing import Any

from gridsim.scheduling.nodes.program import NodeProgram, View


class MarketNode(NodeProgram):
    """A machine that sells computing time, and buys it for the tasks submitted at it."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # number of a call for bids -> application, tasks, deadline, number of machines asked, round
        self.calls: dict[int, tuple[int, int, float, int, int]] = {}
        # number of a call for bids -> price, order of arrival, room, work and provider of each bid
        self.bids: dict[int, list[tuple[float, int, int, float, int]]] = {}
        self.last_call = 0  # number of the last call
        self.price = 1.0  # price per Mflop at this machine
        # open offers: (consumer, call) -> tasks, duration of a task, s
        self.offers: dict[tuple[int, int], tuple[int, float]] = {}
        # application -> deadline, price per Mflop and tasks left of each contract, in order
        self.contracts: dict[int, list[list[float]]] = {}

    def on_start(self, view: View) -> None:
        """Start call numbers at the current time, so that bids from before a failure match no new call."""
        self.last_call = view.now_ns

    # -- a consumer ---------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Announce tasks whose deadline is `slack` times their reference duration after their release."""
        duration = application.task_size / self.parameters.reference_speed
        deadline = application.release + self.parameters.slack * duration
        self.announce(view, application.number, tasks, deadline, 1)

    def announce(self, view: View, application: int, tasks: int, deadline: float, round_number: int) -> None:
        """Ask random providers for bids, in round `round_number` (from 1 on) for these tasks."""
        count = min(math.ceil(self.parameters.ask_ratio * tasks), view.machines)
        self.last_call += 1
        self.calls[self.last_call], self.bids[self.last_call] = (
            (application, tasks, deadline, count, round_number),
            [],
        )
        for machine in view.random.choice(view.machines, size=count, replace=False).tolist():
            view.send(
                machine,
                "announce",
                application=application,
                call=self.last_call,
                tasks=tasks,
                deadline=deadline,
            )
        view.timer(self.parameters.patience, "closed", self.last_call)

    def on_bid(self, view: View, message: Any) -> None:
        """Store a bid; the last bid closes the call."""
        if message.call not in self.calls:  # the call was closed without this bid
            view.send(message.sender, "decline", call=message.call)
            return
        bids, count = self.bids[message.call], self.calls[message.call][3]
        bids.append((message.price, len(bids), message.capacity, message.work, message.sender))
        if len(bids) == count:
            self.award(view, message.call)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Close a call whose bids have not all arrived in time."""
        if int(value) in self.calls:
            self.award(view, int(value))

    def award(self, view: View, call: int) -> None:
        """Award the tasks to the cheapest providers, to each as many as it can end before the deadline.

        The remaining tasks are announced again, up to `rounds` times in all.  After the last round they go
        to the provider with the least work, and will miss the deadline; they run here if nobody has bid.
        """
        application, tasks, deadline, _, round_number = self.calls.pop(call)
        bids = self.bids.pop(call)
        tasks_left, awards = tasks, dict.fromkeys((bid[-1] for bid in bids), 0)
        for _, _, capacity, _, provider in sorted(bids):
            awards[provider] = min(capacity, tasks_left)
            tasks_left -= awards[provider]
        remaining = tasks_left if round_number < self.parameters.rounds else 0
        if tasks_left and not remaining and bids:
            provider = min(bids, key=lambda bid: (bid[3], bid[1]))[-1]
            awards[provider] += tasks_left
            tasks_left = 0
        for price, _, _, _, provider in bids:
            if count := awards[provider]:
                view.decide("awarded", application, node=provider, tasks=count, saw=price)
                view.send(
                    provider, "award", application=application, tasks=count, call=call, deadline=deadline
                )
            else:
                view.send(provider, "decline", call=call)
        if remaining:
            self.announce(view, application, remaining, deadline, round_number + 1)
        elif tasks_left:
            view.decide("kept", application, tasks=tasks_left)
            view.enqueue(application, tasks_left)

    # -- a provider ---------------------------------------------------------------------------------------

    def on_announce(self, view: View, message: Any) -> None:
        """Bid with the number of tasks that can end before the deadline, the price, and the work here.

        Open offers count as work, in the proportion 1 - `competition`.
        """
        duration = view.application(message.application).task_size / view.speed
        offered_time = sum(tasks * length for tasks, length in self.offers.values())
        time_left = (
            message.deadline - view.now - view.work - (1.0 - self.parameters.competition) * offered_time
        )
        capacity = min(max(0, math.floor(time_left / duration + 1e-9)), message.tasks)
        if capacity:
            self.offers[message.sender, message.call] = capacity, duration
        view.send(
            message.sender, "bid", call=message.call, capacity=capacity, price=self.price, work=view.work
        )

    def on_award(self, view: View, message: Any) -> None:
        """Queue the awarded tasks and raise the price."""
        self.offers.pop((message.sender, message.call), None)
        self.contracts.setdefault(message.application, []).append(
            [message.deadline, self.price, float(message.tasks)]
        )
        self.price *= 1.0 + self.parameters.step
        view.enqueue(message.application, message.tasks)

    def on_decline(self, view: View, message: Any) -> None:
        """Lower the price, but not below the cost, if this machine had room."""
        if self.offers.pop((message.sender, message.call), None) is not None:
            self.price = max(self.parameters.cost, self.price / (1.0 + self.parameters.step))

    def on_done(self, view: View, application: Any) -> None:
        """Record the payment for a task: its price, less the penalty if it is late."""
        contracts = self.contracts.get(application.number)
        if not contracts:  # its consumer kept the task without a contract
            return
        deadline, price, _ = contracts[0]
        late = int(view.now > deadline + 1e-6)
        paid = price * application.task_size * (1.0 - self.parameters.penalty * late)
        view.note("payments", machine=view.machine, application=application.number, late=late, paid=paid)
        contracts[0][2] -= 1.0
        if not contracts[0][2]:
            contracts.pop(0)
