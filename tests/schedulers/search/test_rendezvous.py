"""What a machine that searches through rendezvous points remembers of them, one message at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gridsim as gs
from gridsim.schedulers.search.rendezvous import RendezvousNode


class Said:
    """A view of machine 0 that keeps what is sent; timers are left to the test."""

    node = 0

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def send(self, to: int, kind: str, **fields: Any) -> None:
        self.sent.append((to, kind, *fields.values()))

    def timer(self, seconds: float, name: str) -> None: ...

    def cancel(self, name: str) -> None: ...


def knowing(**points: int) -> RendezvousNode:
    """A machine that knows these points, by their hops: ``p5=2`` is point 5 two hops away."""
    node = RendezvousNode(gs.Rendezvous())
    node.points = {int(name[1:]): hops for name, hops in points.items()}
    return node


def test_the_nearest_point_is_that_of_the_fewest_hops() -> None:
    node = knowing()
    for point, hops in ((7, 2), (5, 3), (7, 4), (6, 2)):
        node.learn(point, hops)
    assert node.points == {5: 3, 6: 2, 7: 2}
    assert [node.nearest(but) for but in ({}, {6: None}, {6: None, 7: None})] == [6, 7, 5]


def test_a_point_of_a_neighbour_is_one_hop_further() -> None:
    view: Any = Said()
    knowing(p5=2).on_message(view, SimpleNamespace(kind="where", sender=3))
    assert view.sent == [(3, "known", 5, 3)]
    other = knowing()
    other.on_message(view, SimpleNamespace(kind="known", sender=4, point=5, hops=3))
    assert other.points == {5: 3}


def test_a_point_that_does_not_note_a_host_is_passed_over_until_something_comes_from_it() -> None:
    node, view = knowing(p5=1, p6=2), Said()
    to: Any = view
    node.on_free(to)
    node.on_timer(to, "noted")  # nothing has come
    node.on_message(to, SimpleNamespace(kind="ask", sender=5, client=0))
    node.on_free(to)
    assert view.sent == [(5, "advert"), (6, "advert"), (5, "advert")]
