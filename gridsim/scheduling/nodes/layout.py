"""On which machines the nodes of a decentralized scheduler sit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arrays import Integers

#: Levels of nodes, for which messages are counted.
LEVELS = 64


@dataclass(frozen=True)
class Layout:
    """The machines of the nodes.  A machine that fails takes all of its nodes with it.

    Messages between nodes of one machine take no time and are not counted.

    Parameters
    ----------
    machine_of
        int64[nodes], the machine of each node.  Further machines than the platform has, such as that of a
        server, never fail and run no tasks.
    home
        int64[machines], the node of each machine, also of the further ones, that gets what is submitted
        there, and that handles what its task queue does.
    level_of
        int64[nodes], the level of each node, below 64, by which messages are counted; None for none.
    """

    machine_of: Integers
    home: Integers
    level_of: Integers | None = None

    @classmethod
    def one_each(cls, machines: int) -> Layout:
        """Return the layout in which node u, and no other, sits on machine u."""
        return cls(np.arange(machines), np.arange(machines))

    @classmethod
    def with_server(cls, machines: int) -> Layout:
        """Return the layout with node u on machine u, and the last node, a server, on a further machine.

        The server gets all that is submitted, and handles what the task queue of any machine does (`home`).
        """
        return cls(np.arange(machines + 1), np.full(machines + 1, machines))

    def check(self, machines: int) -> None:
        """Raise ScenarioError unless this is a layout on the `machines` of a platform, and further ones."""
        nodes = len(self.machine_of)
        _check_numbers("machine_of", self.machine_of, 2**31)
        _check_numbers("home", self.home, nodes)
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
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.machine_of)

    def on(self, machines: Integers) -> Integers:
        """Return the nodes on `machines`, ascending."""
        return np.flatnonzero(np.isin(self.machine_of, machines))

    def of_nodes(self, up: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[nodes]: which nodes are up, given which machines of the platform are."""
        return self.padded(up)[self.machine_of]

    def padded(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a column of the machines of the platform with ones for the further machines."""
        return np.append(column, np.ones(max(0, len(self.home) - len(column)), column.dtype))


def _check_numbers(name: str, numbers: Integers, end: int) -> None:
    given = np.asarray(numbers)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ScenarioError(
            f"layout.{name} must be whole numbers in one dimension, got {given.dtype}{list(given.shape)}"
        )
    for k in np.flatnonzero((given < 0) | (given >= end))[:1]:
        raise ScenarioError(f"layout.{name}[{k}] must be in 0..{end - 1}, got {given[k]}")
