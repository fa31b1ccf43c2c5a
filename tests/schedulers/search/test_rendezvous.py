"""Rendezvous points that a machine knows, one message at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gridsim as gs
from gridsim.schedulers.search.rendezvous import RendezvousNode


class RecordingView:
    """The view of machine 0, which stores sent messages and ignores timers."""

    node = 0

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def send(self, to: int, kind: str, **fields: Any) -> None:
        self.sent.append((to, kind, *fields.values()))

    def timer(self, seconds: float, name: str) -> None: ...

    def cancel(self, name: str) -> None: ...


def node_with(**points: int) -> RendezvousNode:
    """Return a machine that knows the given points: ``p5=2`` is point 5 at two hops."""
    node = RendezvousNode(gs.Rendezvous())
    for name, hops in points.items():
        node.points[int(name[1:])] = hops
    return node


def points_of(node: RendezvousNode) -> dict[int, int]:
    """Return the points that a machine knows, with the hops to them."""
    return {point: node.points[point] for point in node.points}


def test_nearest_point_has_the_fewest_hops() -> None:
    node = node_with()
    for point, hops in ((7, 2), (5, 3), (7, 4), (6, 2)):
        node.add_point(point, hops)
    assert points_of(node) == {5: 3, 6: 2, 7: 2}
    nearest = []
    for _ in range(4):
        nearest.append(node.nearest_point(excludes_asked=True))
        node.asked_points.add(nearest[-1])
    assert nearest == [6, 7, 5, -1] and node.nearest_point() == 6


def test_point_of_a_neighbour_is_one_hop_further_away() -> None:
    view: Any = RecordingView()
    node_with(p5=2).on_message(view, SimpleNamespace(kind="where", sender=3))
    assert view.sent == [(3, "known", 5, 3)]
    neighbour = node_with()
    neighbour.on_message(view, SimpleNamespace(kind="known", sender=4, point=5, hops=3))
    assert points_of(neighbour) == {5: 3}


def test_silent_point_is_skipped_until_a_message_comes_from_it() -> None:
    node, view = node_with(p5=1, p6=2), RecordingView()
    to: Any = view
    node.on_free(to)
    node.on_timer(to, "noted")  # the timeout fires without an answer
    node.on_message(to, SimpleNamespace(kind="ask", sender=5, client=0))
    node.on_free(to)
    assert view.sent == [(5, "advert"), (6, "advert"), (5, "advert")]
