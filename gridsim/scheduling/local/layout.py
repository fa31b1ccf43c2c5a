"""On which machines the nodes of a decentralized scheduler sit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridsim.support.arrays import Integers


@dataclass(frozen=True)
class Layout:
    """The machines of the nodes.  A machine that fails takes all of its nodes with it.

    Messages between nodes of one machine take no time and are not counted.

    machine_of : int64[nodes], the machine of each node.
    home : int64[machines], the node of each machine that gets what is submitted there, and that handles what
        its task queue does.
    level_of : int64[nodes], the level of each node, below 64, by which messages are counted; None for none.
    """

    machine_of: Integers
    home: Integers
    level_of: Integers | None = None

    @classmethod
    def one_each(cls, machines: int) -> Layout:
        """Return the layout in which node u, and no other, sits on machine u."""
        return cls(np.arange(machines), np.arange(machines))

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.machine_of)

    def on(self, machines: Integers) -> Integers:
        """Return the nodes on `machines`, ascending."""
        return np.flatnonzero(np.isin(self.machine_of, machines))

    def of_nodes(self, up: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[nodes]: which nodes are up, given which machines are."""
        return up[self.machine_of]
