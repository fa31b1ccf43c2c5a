"""Schedulers whose nodes see what others have published, as old as the scheduler says."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.board import Board
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.support.clock import nanoseconds
from gridsim.support.parameters import Limits
from gridsim.support.random_streams import Streams


class BoardScheduler(NodeScheduler, frozen=True, kw_only=True):
    """Base class of schedulers whose nodes see a board: a number of each node, as old as `age` says.

    It stands for an information service, so that it takes no messages.  A node puts its number there by
    `View.publish`; `View.board` has the numbers of all nodes.

    With ``board_of = "applications"`` the board has a number of each application, which any node may publish.

    Parameters
    ----------
    age
        s, how old what the board shows is; 0 for the present state.
    refresh
        ``"continuous"``: each number is exactly `age` old; ``"periodic"``: all are replaced at each multiple
        of `age`, by what is true then; ``"individual"``: that of each node at instants of its own, which are
        `age` apart, from a random one on.
    error
        Standard deviation of a factor, lognormal with mean 1, by which what the board shows differs from what
        was published.  Each published number has its own, drawn from the stream "<name> board".
    """

    decentralized: ClassVar[bool] = False
    board_of: ClassVar[Literal["nodes", "applications"]] = "nodes"

    age: Annotated[float, Limits(low=0, unit="s")] = 0.0
    refresh: Literal["continuous", "periodic", "individual"] = "continuous"
    error: Annotated[float, Limits(low=0)] = 0.0

    @property
    def informed_by_messages(self) -> bool:
        """Return False: nodes know what is on the board, too."""
        return False

    def make_board(self, up: NDArray[np.bool_], applications: int, streams: Streams) -> Board:
        """Make the board of a run; up : bool[nodes], those that are up when it begins."""
        if self.board_of == "applications":
            up = np.zeros(applications, np.bool_)  # which have nothing to show yet
        random, age = streams(f"{self.name} board"), nanoseconds(self.age)
        return Board(
            up,
            age=age,
            refresh=self.refresh,
            error=self.error,
            phase=random.integers(0, age, len(up), endpoint=True),
            seed=int(random.integers(2**63)),
            of_applications=self.board_of == "applications",
        )
