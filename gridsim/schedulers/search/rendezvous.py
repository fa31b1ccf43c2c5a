"""A machine that searches for idle hosts through rendezvous points."""

from __future__ import annotations

import math
from typing import Any

from gridsim.schedulers.search.node import SearchNode
from gridsim.scheduling.nodes.program import View


class RendezvousNode(SearchNode):
    """Registers with the nearest rendezvous point when it is free, and asks known points for hosts.

    When a machine joins, it becomes a point with the probability `share`, and announces that to all machines
    within `scope` hops.  A machine that is asked as a point acts as one, even if it failed and has forgotten
    that it was one.  The nearest point is the one with the fewest hops; ties: the lowest number.

    A free host registers with the nearest point, which acknowledges it, and registers again every `refresh` s
    as long as it is free.  Points that do not answer are passed over until a message comes from them.  A
    machine that knows no other point asks its neighbours for theirs, and becomes a point if they know none.

    A client asks the points that it knows, nearest first, and tells each how many hosts it wants.  The point
    takes that many hosts off its list: those that have been on it the longest, or random ones (`pick`).  It
    asks each of them to offer itself to the client, and tells the client how many it asked.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.points: dict[int, int] = {}  # known points, with the hops to each
        self.silent: dict[int, None] = {}  # those of them that have not answered
        self.listed: dict[int, None] = {}  # as a point: free hosts
        self.noting = self.asking = -1  # points whose answers it awaits, as a host and as a client
        self.asked: dict[int, None] = {}  # points asked in this search
        self.sought = False  # whether it asked its neighbours for points, and learned of none

    def on_join(self, view: View) -> None:
        if view.random.random() < self.parameters.share:
            self.become_point(view)
        # by then the announcements of points have come
        view.timer((self.parameters.scope + 1) * self.parameters.hop_time, "refresh")

    def become_point(self, view: View) -> None:
        """Become a point, and announce it to all machines within `scope` hops."""
        self.points[view.node] = 0
        number = round(view.now * 1e6)
        self.flood(view, "beacon", self.parameters.scope, view.node, number, view.node)

    def nearest(self, but: dict[int, None]) -> int:
        """Return the nearest point that is not in `but` and not known to be silent; -1 if there is none."""
        left = (
            (hops, point)
            for point, hops in self.points.items()
            if point not in but and point not in self.silent
        )
        return min(left, default=(0, -1))[1]

    def seeks(self, view: View) -> bool:
        """Ask the neighbours for points if none is known; return whether to wait for their answers.

        Becomes a point itself, and returns False, if they know none or there are no neighbours.
        """
        if self.nearest({}) >= 0:
            return False
        if self.sought or not self.links:
            self.become_point(view)  # then it knows one at once
            return False
        self.sought = True
        for to in self.links:
            view.send(to, "where")
        return True

    # -- the host -------------------------------------------------------------------------------------------

    def on_free(self, view: View) -> None:
        """Register with the nearest point; see `SearchNode`."""
        view.cancel("refresh")
        view.cancel("noted")
        self.noting = -1
        if self.seeks(view):
            view.timer(2 * self.parameters.hop_time, "refresh")
            return
        point = self.nearest({})
        if point == view.node:
            self.listed[point] = None
        else:
            self.noting = point
            view.send(point, "advert")
            view.timer(2 * self.parameters.hop_time, "noted")

    def on_timer(self, view: View, name: str) -> None:
        if name == "noted":
            self.silent[self.noting] = None
        if name not in ("noted", "refresh"):
            super().on_timer(view, name)
        elif self.free:
            self.on_free(view)

    # -- the client -----------------------------------------------------------------------------------------

    def ask(self, view: View) -> float | None:
        if not self.rounds:
            self.asked.clear()
        if self.asking >= 0:
            self.silent[self.asking] = None
            self.asking = -1
        if self.seeks(view):
            return float(2 * self.parameters.hop_time)
        point = self.nearest(self.asked)
        if point < 0:
            return None
        self.asked[point] = None
        if point == view.node:
            self.pass_on(view, view.node, self.missing)
        else:
            self.asking = point
            view.send(point, "lookup", wanted=self.missing)
        return float(3 * self.parameters.hop_time)

    # -- the point ------------------------------------------------------------------------------------------

    def pass_on(self, view: View, client: int, wanted: int) -> int:
        """Ask up to `wanted` listed hosts to offer themselves to a client, and return how many were asked."""
        self.listed.pop(client, None)  # it has used its own machine
        chosen = list(self.listed)[:wanted]
        if self.parameters.pick == "random":
            listed = list(self.listed)
            chosen = [listed[k] for k in view.random.permutation(len(listed))[:wanted].tolist()]
        for host in chosen:
            del self.listed[host]
            if host == view.node:
                self.offer(view, client)
            else:
                view.send(host, "ask", client=client)
        return len(chosen)

    def on_message(self, view: View, message: Any) -> None:
        """Handle the messages that only this method has."""
        kind, sender = message.kind, message.sender
        self.silent.pop(sender, None)
        if kind == "advert":
            self.listed[sender] = None
            view.send(sender, "noted")
        elif kind == "noted":
            if sender == self.noting:
                self.noting = -1
                view.cancel("noted")
                if self.parameters.refresh < math.inf:
                    view.timer(self.parameters.refresh, "refresh")
        elif kind == "ask":
            self.offer(view, message.client)
        elif kind == "lookup":
            view.send(sender, "told", hosts=self.pass_on(view, sender, message.wanted))
        elif kind == "told":
            if sender == self.asking:
                self.asking = -1
        elif kind == "where":
            point = self.nearest({})
            if point >= 0:
                view.send(sender, "known", point=point, hops=self.points[point] + 1)
        elif kind == "known":
            self.learn(message.point, message.hops)
        elif self.fresh(view, message):
            self.silent.pop(message.origin, None)
            self.learn(message.origin, self.parameters.scope - message.hops)

    def learn(self, point: int, hops: int) -> None:
        """Remember a point that is `hops` hops away."""
        self.points[point] = min(hops, self.points.get(point, hops))
        self.sought = self.sought and point in self.silent
