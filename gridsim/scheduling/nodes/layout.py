"""The layout of a decentralized scheduler: the machine of each node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arrays import Integers

#: Maximum number of levels of nodes; messages are counted by level.
LEVELS = 64


@dataclass(frozen=True)
class Layout:
    """The machine of each node.  If a machine fails, all of its nodes fail.

    Messages between nodes of one machine take no time and are not counted.  Besides the machines of the
    platform there may be further ones, such as that of a server; these never fail and run no tasks.

    Parameters
    ----------
    machine_of
        int64[nodes], the machine of each node.
    home
        int64[machines], the home node of each machine, further ones included.  It handles the events of its
        task queue.
    level_of
        int64[nodes], the level of each node, in 0..63, by which messages are also counted; None to count
        them without levels.
    releases
        int64[machines], the node that handles the releases at each machine of the platform; if it is down,
        the node of the next machine does.  By default the home nodes.
    """

    machine_of: Integers
    home: Integers
    level_of: Integers | None = None
    releases: Integers | None = None

    @classmethod
    def one_each(cls, machines: int) -> Layout:
        """Return the layout with one node per machine: node u on machine u."""
        return cls(np.arange(machines), np.arange(machines))

    @classmethod
    def with_server(cls, machines: int) -> Layout:
        """Return the layout with node u on machine u and a server, the last node, on a further machine.

        The server is the home node of all machines: it handles all releases and all events of task queues.
        """
        return cls(np.arange(machines + 1), np.full(machines + 1, machines))

    def check(self, machines: int) -> None:
        """Raise ScenarioError unless the layout is valid for a platform of `machines` machines."""
        nodes = len(self.machine_of)
        _check_numbers("machine_of", self.machine_of, 2**31)
        _check_numbers("home", self.home, nodes)
        if self.releases is not None:
            _check_numbers("releases", self.releases, nodes)
            if len(self.releases) != machines:
                raise ScenarioError(
                    f"layout.releases must have an entry for each of {machines} machines, got "
                    f"{len(self.releases)}"
                )
        machines = max(machines, 1 + int(np.max(self.machine_of, initial=-1)))
        if len(self.home) != machines:
            raise ScenarioError(
                f"layout.home must have an entry for each of {machines} machines, got {len(self.home)}"
            )
        if self.level_of is not None:
            if len(self.level_of) != nodes:
                raise ScenarioError(
                    f"layout.level_of must have an entry for each of {nodes} nodes, got {len(self.level_of)}"
                )
            _check_numbers("level_of", self.level_of, LEVELS)

    @property
    def submission_nodes(self) -> Integers:
        """The nodes that handle releases, int64[k]: at the machines 0..k - 1."""
        return self.home if self.releases is None else self.releases

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.machine_of)

    @cached_property
    def _by_machine(self) -> tuple[Integers, Integers]:
        """The nodes in the order of their machines, and the position of the first node of each machine."""
        order = np.argsort(self.machine_of, kind="stable")
        return order, np.searchsorted(self.machine_of[order], np.arange(len(self.home) + 1))

    def on(self, machines: Integers) -> Integers:
        """Return the nodes on `machines`, ascending, in a time independent of the number of other nodes."""
        order, first = self._by_machine
        rows = [order[first[machine] : first[machine + 1]].tolist() for machine in machines.tolist()]
        return np.array(sorted({node for nodes in rows for node in nodes}), np.int64)

    def of_nodes(self, up: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether each node is up, bool[nodes]; `up` is bool[machines]."""
        return self.pad(up)[self.machine_of]

    def pad(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return `column`, a value per machine of the platform, extended with 1 for each further machine."""
        return np.append(column, np.ones(max(0, len(self.home) - len(column)), column.dtype))


def _check_numbers(name: str, numbers: Integers, end: int) -> None:
    values = np.asarray(numbers)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ScenarioError(
            f"layout.{name} must be whole numbers in one dimension, got {values.dtype}{list(values.shape)}"
        )
    for k in np.flatnonzero((values < 0) | (values >= end))[:1]:
        raise ScenarioError(f"layout.{name}[{k}] must be in 0..{end - 1}, got {values[k]}")
