"""Schedulers whose nodes share a board of published numbers, which may be out of date."""

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
    """Base class of schedulers whose nodes share a board with one number for each node.

    A node publishes its number by `View.publish` and reads the numbers of all nodes from `View.board`.  The
    board models an information service, so publishing and reading need no messages.

    A subclass with ``board_of = "applications"`` has a board with one number for each application instead,
    which any node may publish.

    Parameters
    ----------
    age
        Age of the numbers on the board in s; with 0 the board shows the present state.
    refresh
        When the board changes.  ``"continuous"``: each number is exactly `age` old.  ``"periodic"``: all
        numbers are replaced by the current ones at each multiple of `age`.  ``"individual"``: the number of
        each node is replaced every `age` s, starting at a random time for each node.
    error
        Standard deviation of the factor between a number on the board and the published one.  The factor is
        lognormal with mean 1.  Each published number gets its own factor, drawn from the random stream
        "<name> board".
    """

    decentralized: ClassVar[bool] = False
    board_of: ClassVar[Literal["nodes", "applications"]] = "nodes"

    age: Annotated[float, Limits(low=0, unit="s")] = 0.0
    refresh: Literal["continuous", "periodic", "individual"] = "continuous"
    error: Annotated[float, Limits(low=0)] = 0.0

    @property
    def informed_by_messages(self) -> bool:
        """False, since nodes also know what is on the board."""
        return False

    def make_board(self, up: NDArray[np.bool_], applications: int, streams: Streams) -> Board:
        """Make the board of a run.

        Parameters
        ----------
        up
            bool[nodes], which nodes are up when the run begins.
        applications
            Number of applications in the run.
        streams
            The random streams of the run.
        """
        if self.board_of == "applications":
            up = np.zeros(applications, np.bool_)  # no number of an application has been published yet
        random, age = streams(f"{self.name} board"), nanoseconds(self.age)
        return Board(
            up,
            age=age,
            refresh=self.refresh,
            error=self.error,
            phase=random.integers(0, age, len(up), endpoint=True),
            seed=int(random.integers(2**63)),
            is_per_application=self.board_of == "applications",
        )
