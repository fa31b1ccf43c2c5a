"""A machine that searches for idle hosts through rendezvous points."""

from __future__ import annotations

import math
from typing import Any

from gridcore.nodes.containers import IntMap, IntSet
from gridsim.schedulers.search.node import NO_MACHINE_LEFT, FloodNode
from gridsim.scheduling.nodes.program import View


class RendezvousNode(FloodNode):
    """A node that registers with the nearest rendezvous point when free, and asks known points for hosts.

    When a machine joins, it becomes a point with probability `share`, and announces this to all machines
    within `scope` hops.  A machine that is asked as a point acts as one, even if it has failed and lost its
    own record of being one.  The nearest point is the one with the fewest hops; ties: the lowest number.

    A free host registers with the nearest point, which acknowledges it, and registers again every `refresh` s
    while it is free.  Points that do not answer are skipped until a message comes from them.  A machine that
    knows no point asks its neighbours for points, and becomes a point if they know none.

    A client asks the points that it knows, nearest first, for the number of hosts that it needs.  The point
    removes that many hosts from its list: those listed longest, or random ones (`pick`).  It asks each of
    them to offer itself to the client, and sends the client their number.
    """

    flood_kind = "beacon"

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.points = IntMap(hops=int)  # known points, with the hops to them
        self.silent_points = IntSet()  # points that have not answered
        self.free_hosts = IntSet()  # hosts registered here, if this machine is a point
        # points from which an answer is expected, as a host and as a client; -1: none
        self.pending_registration = self.pending_lookup = -1
        self.asked_points = IntSet()  # points asked in this search
        self.has_asked_neighbours = False  # whether the neighbours were asked for points and knew none

    def on_join(self, view: View) -> None:
        if view.random.random() < self.parameters.share:
            self.become_point(view)
        # by now, the announcements of points have arrived
        view.timer((self.parameters.scope + 1) * self.parameters.hop_time, "refresh")

    def become_point(self, view: View) -> None:
        """Become a point, and announce it to all machines within `scope` hops."""
        self.points[view.node] = 0
        self.start_flood(view, round(view.now * 1e6), self.parameters.scope)

    def nearest_point(self, excludes_asked: bool = False) -> int:
        """Return the nearest point that is not silent; -1 if there is none.

        Parameters
        ----------
        excludes_asked
            Whether to exclude the points that were asked in this search.
        """
        nearest, fewest = -1, 0
        for point in self.points:
            hops = self.points[point]
            is_excluded = point in self.silent_points or (excludes_asked and point in self.asked_points)
            if not is_excluded and (nearest < 0 or (hops, point) < (fewest, nearest)):
                nearest, fewest = point, hops
        return nearest

    def ask_for_points(self, view: View) -> bool:
        """Ask the neighbours for points if none is known, and return whether to wait for their answers.

        If they know none, or if there are no neighbours, this machine becomes a point.
        """
        if self.nearest_point() >= 0:
            return False
        if self.has_asked_neighbours or not self.neighbours:
            self.become_point(view)
            return False
        self.has_asked_neighbours = True
        for neighbour in self.neighbours:
            view.send(neighbour, "where")
        return True

    # -- the host -------------------------------------------------------------------------------------------

    def on_free(self, view: View) -> None:
        """Register with the nearest point."""
        view.cancel("refresh")
        view.cancel("noted")
        self.pending_registration = -1
        if self.ask_for_points(view):
            view.timer(2 * self.parameters.hop_time, "refresh")
            return
        point = self.nearest_point()
        if point == view.node:
            self.free_hosts.add(point)
        else:
            self.pending_registration = point
            view.send(point, "advert")
            view.timer(2 * self.parameters.hop_time, "noted")

    def on_timer(self, view: View, name: str) -> None:
        if name == "noted":
            self.silent_points.add(self.pending_registration)
        if name != "noted" and name != "refresh":
            super().on_timer(view, name)
        elif self.is_free:
            self.on_free(view)

    # -- the client -----------------------------------------------------------------------------------------

    def ask(self, view: View) -> float:
        if not self.rounds:
            self.asked_points.clear()
        if self.pending_lookup >= 0:
            self.silent_points.add(self.pending_lookup)
            self.pending_lookup = -1
        if self.ask_for_points(view):
            return float(2 * self.parameters.hop_time)
        point = self.nearest_point(excludes_asked=True)
        if point < 0:
            return NO_MACHINE_LEFT
        self.asked_points.add(point)
        if point == view.node:
            self.offer_hosts(view, view.node, self.unassigned_tasks)
        else:
            self.pending_lookup = point
            view.send(point, "lookup", wanted=self.unassigned_tasks)
        return float(3 * self.parameters.hop_time)

    # -- the point ------------------------------------------------------------------------------------------

    def offer_hosts(self, view: View, client: int, limit: int) -> int:
        """Ask up to `limit` listed hosts to offer themselves to a client, and return their number."""
        self.free_hosts.discard(client)  # the client already uses its own machine
        count = min(limit, len(self.free_hosts))
        hosts = [host for host in self.free_hosts]
        if self.parameters.pick == "random":
            hosts = [hosts[k] for k in view.random.permutation(len(hosts))]
        for host in hosts[:count]:
            self.free_hosts.remove(host)
            if host == view.node:
                self.offer(view, client)
            else:
                view.send(host, "ask", client=client)
        return count

    def on_message(self, view: View, message: Any) -> None:
        """Handle a message between a host, a client and a rendezvous point."""
        kind, sender = message.kind, message.sender
        self.silent_points.discard(sender)
        if kind == "advert":
            self.free_hosts.add(sender)
            view.send(sender, "noted")
        elif kind == "noted":
            if sender == self.pending_registration:
                self.pending_registration = -1
                view.cancel("noted")
                if self.parameters.refresh < math.inf:
                    view.timer(self.parameters.refresh, "refresh")
        elif kind == "ask":
            self.offer(view, message.client)
        elif kind == "lookup":
            view.send(sender, "told", hosts=self.offer_hosts(view, sender, message.wanted))
        elif kind == "told":
            if sender == self.pending_lookup:
                self.pending_lookup = -1
        elif kind == "where":
            point = self.nearest_point()
            if point >= 0:
                view.send(sender, "known", point=point, hops=self.points[point] + 1)
        elif kind == "known":
            self.add_point(message.point, message.hops)
        elif self.forward_new_flood(view, message):
            self.silent_points.discard(message.origin)
            self.add_point(message.origin, self.parameters.scope - message.hops)

    def add_point(self, point: int, hops: int) -> None:
        """Store a point and the hops to it, unless fewer hops are known."""
        self.points[point] = min(hops, self.points.get(point, hops))
        self.has_asked_neighbours = self.has_asked_neighbours and point in self.silent_points
