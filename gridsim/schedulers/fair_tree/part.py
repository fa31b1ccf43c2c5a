"""A leaf or a router on a machine of a tree that is kept by messages: what it sees and knows."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from gridsim.schedulers.fair_tree.tree import Tree
from gridsim.scheduling.nodes.program import View
from gridsim.support.clock import nanoseconds


class Host(Protocol):
    """The machine of a node, see `gridsim.schedulers.fair_tree.member.Member`."""

    turns: set[tuple[int, int]]
    speaking: int

    def send(self, view: View, node: int, to: int, kind: str, fields: dict[str, Any]) -> None: ...


class Part:
    """The view of a leaf or router: that of its machine, but for its number, and whom it can send to.

    Nodes send to nodes.  The machine knows, or believes to know, where these are.
    """

    __slots__ = ("member", "node", "view")

    def __init__(self, member: Host, view: View, node: int) -> None:
        self.member, self.view, self.node = member, view, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    def send(self, to: int, kind: str, **fields: Any) -> None:
        """Send a message to a node, wherever it is."""
        self.member.send(self.view, self.node, to, kind, fields)

    def act(self, seconds: float = 0.0) -> None:
        """See `View.act`."""
        at = self.view.now_ns + nanoseconds(seconds)
        self.member.turns.add((self.node, at))
        self.view.act(seconds)

    def decide(self, action: str, application: int, **columns: Any) -> None:
        """See `View.decide`; machines are nodes."""
        self.member.speaking = self.node
        self.view.decide(action, application, **columns)


def near(tree: Tree, node: int, *, known: bool) -> Tree:
    """Return what a router knows of the tree: of nodes, only its children, and itself.

    Parameters
    ----------
    known
        Whether it knows what was below its children at the beginning; else nothing until they report.
    """
    own, children = copy.copy(tree), (2 * node + 1, 2 * node + 2)
    leaves: Any = {child: tree.leaves[child] if known else 0 for child in children}
    speed: Any = {child: tree.speed[child] if known else 0.0 for child in children}
    gone: Any = dict.fromkeys((node, *children), False)
    own.leaves, own.speed, own.gone = leaves, speed, gone
    return own
