"""The roles of nodes: several classes of nodes in one scheduler, such as masters and workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import NodeProgram
from gridsim.support.arguments import flag, integer, short_repr
from gridsim.support.arrays import Integers

__all__ = ["Role", "layout_of_roles", "nodes_of_roles", "role_classes"]

#: Maximum number of nodes of a role.
MAX_NODES = 2**31 - 1


@dataclass(frozen=True)
class Role:
    """A role of nodes in a `NodeScheduler`: their class, their number and their machines.

    Parameters
    ----------
    program
        The class of the nodes, a subclass of `NodeProgram`.
    count
        Number of nodes; None for one node on each machine.  It may be a function of the scheduler and the
        number of machines.
    server
        Whether each node is on a further machine of its own, which never fails and runs no tasks.
    releases
        Whether these nodes handle the releases: those at machine m are handled by node m % `count` of the
        role, or by the node on machine m if there is one on each.  By default the home nodes of the machines
        do: the nodes of the first role with one node on each machine.
    place
        Function of the scheduler and the number of machines that returns the machine of each node,
        int64[count].  By default node r is on machine r * machines // count.

    Raises
    ------
    ScenarioError
        If an argument has the wrong type, or a combination is not allowed.

    Examples
    --------
    >>> class Master(NodeProgram): ...
    >>> Role(Master, count=2, server=True).count
    2
    """

    program: type[NodeProgram]
    _: KW_ONLY
    count: int | Callable[[Any, int], int] | None = None
    server: bool = False
    releases: bool = False
    place: Callable[[Any, int], Any] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.program, type) and issubclass(self.program, NodeProgram)):
            raise ScenarioError(
                f"program of a role must be a subclass of NodeProgram, got {short_repr(self.program)}"
            )
        if not (self.count is None or callable(self.count)):
            integer("count of a role", self.count, low=1, high=MAX_NODES)
        flag("server of a role", self.server)
        flag("releases of a role", self.releases)
        if not (self.place is None or callable(self.place)):
            raise ScenarioError(f"place of a role must be a function or None, got {short_repr(self.place)}")
        if self.count is None and (self.server or self.place is not None):
            raise ScenarioError(f"{'server' if self.server else 'place'} of a role requires count")
        if self.server and self.place is not None:
            raise ScenarioError("a role with server=True does not support place: it has machines of its own")

    def new_program(self, scheduler: Any) -> NodeProgram:
        """Return a new program of a node of this role."""
        return self.program(scheduler)

    def nodes(self, path: str, scheduler: Any, machines: int) -> int:
        """Return the number of nodes on a platform; errors name the role by `path`."""
        if self.count is None:
            return machines
        if not callable(self.count):
            return self.count
        path = f"{path}.count"
        count = _call(path, self.count, scheduler, machines)
        return integer(path, count, low=int(self.releases), high=MAX_NODES)

    def machines(self, path: str, scheduler: Any, machines: int, count: int) -> Integers:
        """Return the machine of each of `count` nodes that are not on further machines, int64[count]."""
        if self.place is None:
            return np.arange(count) * machines // count
        place = self.place
        places: np.ndarray[Any, Any] = _call(
            f"{path}.place", lambda *arguments: np.asarray(place(*arguments)), scheduler, machines
        )
        if places.shape != (count,) or places.dtype.kind not in "iu":
            raise ScenarioError(
                f"{path}.place must return {count} whole numbers, the machines of its nodes, got "
                f"{places.dtype}{list(places.shape)}"
            )
        for k in np.flatnonzero((places < 0) | (places >= machines))[:1]:
            raise ScenarioError(f"{path}.place: entry {k} must be in 0..{machines - 1}, got {places[k]}")
        return places.astype(np.int64)


def _call(path: str, function: Callable[[Any, int], Any], scheduler: Any, machines: int) -> Any:
    """Return the result of a function of a role.

    Raises
    ------
    ScenarioError
        If the function raises an error.
    """
    try:
        return function(scheduler, machines)
    except Exception as error:
        raise ScenarioError(
            f"{path} must return without an error, got {type(error).__name__}: {error}"
        ) from error


def role_classes(scheduler: Any) -> dict[str, type[NodeProgram]]:
    """Return the class of the nodes of each role; the only role is "" if none are declared."""
    if not scheduler.roles:
        return {"": scheduler.policy}
    return {name: role.program for name, role in scheduler.roles.items()}


def nodes_of_roles(scheduler: Any, machines: int) -> dict[str, range]:
    """Return the nodes of each role of a scheduler; they are numbered role by role."""
    nodes: dict[str, range] = {}
    first = 0
    for name, role in scheduler.roles.items():
        nodes[name] = range(first, first + role.nodes(_path(scheduler, name), scheduler, machines))
        first = nodes[name].stop
    return nodes


def layout_of_roles(scheduler: Any, machines: int) -> Layout:
    """Return the layout that the roles of a scheduler declare.

    Raises
    ------
    ScenarioError
        If a role has wrong numbers, or no role can handle the events of the machines.
    """
    nodes, further = nodes_of_roles(scheduler, machines), machines
    machine_of, server_nodes = [], []
    home = releases = None
    for name, role in scheduler.roles.items():
        numbers = np.array(nodes[name], np.int64)
        if role.server:
            machine_of.append(further + np.arange(len(numbers)))
            server_nodes.append(numbers)
            further += len(numbers)
        else:
            path = _path(scheduler, name)
            machine_of.append(role.machines(path, scheduler, machines, len(numbers)))
        if role.releases:
            releases = numbers[np.arange(machines) % len(numbers)]
        if role.count is None and home is None:
            home = numbers
    if home is None:
        home = releases
    if home is None:
        raise ScenarioError(
            f"{type(scheduler).__name__}.roles requires a role with a node on each machine (without count) "
            "or one with releases=True"
        )
    return Layout(
        np.concatenate(machine_of),
        np.concatenate([home, *server_nodes]),
        releases=home if releases is None else releases,
    )


def _path(scheduler: Any, name: str) -> str:
    return f"{type(scheduler).__name__}.roles[{name!r}]"
