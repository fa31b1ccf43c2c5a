"""Schedulers whose nodes share a board of published numbers, which may be out of date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.board import Board
from gridsim.errors import ScenarioError
from gridsim.scheduling.contract import MESSAGES_TAKE_TIME, LadderStep
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.support.arguments import short_repr
from gridsim.support.clock import nanoseconds
from gridsim.support.parameters import Limits
from gridsim.support.random_streams import Streams

#: Names of arguments of `View.publish` and of members of `View.board`, which numbers cannot have.
_RESERVED = ("add", "application", "delta", "falling", "least", "name", "node", "value", "values")


class BoardScheduler(NodeScheduler, frozen=True, kw_only=True):
    """Base class of schedulers whose nodes share a board of published numbers.

    A node publishes its numbers by `View.publish` and reads those of all nodes from `View.board`.  The board
    models an information service, so publishing and reading need no messages.

    Parameters
    ----------
    age
        Age of the numbers on the board in s; with 0 the board shows the current state.
    refresh
        Rule by which the board changes.  ``"continuous"``: each number is exactly `age` old.  ``"periodic"``:
        all numbers are replaced by the current ones at each multiple of `age`.  ``"individual"``: the numbers
        of each node are replaced every `age` s, starting at a random time for each node.  ``"decisions"``:
        all numbers are replaced by the current ones after every `batch` calls of ``view.board.add``, whatever
        `age` is.
    batch
        Number of additions between two replacements, if `refresh` is ``"decisions"``.
    error
        Standard deviation of the factor between a number on the board and the published one.  The factor is
        lognormal with mean 1.  Each published number gets its own factor, drawn from the random stream
        "<name> board".

    Attributes
    ----------
    numbers
        The names of the numbers of each node, such as ``("work", "queue")``; by default a node has one number
        without a name.
    board_of
        ``"applications"`` for a board with numbers of applications instead, which any node may publish.
    """

    decentralized: ClassVar[bool] = False
    board_of: ClassVar[Literal["nodes", "applications"]] = "nodes"

    age: Annotated[float, Limits(low=0, high=2e9, unit="s")] = 0.0
    refresh: Literal["continuous", "periodic", "individual", "decisions"] = "continuous"
    batch: Annotated[int, Limits(low=1)] = 1
    error: Annotated[float, Limits(low=0)] = 0.0

    def _check_classes(self) -> None:
        super()._check_classes()
        path, numbers = f"{type(self).__name__}.numbers", self.numbers
        if not isinstance(numbers, (tuple, list)) or len(set(map(repr, numbers))) < len(numbers):
            raise ScenarioError(f"{path} must be a tuple of different names, got {short_repr(numbers)}")
        for name in numbers:
            if not isinstance(name, str) or not name.isidentifier() or name[0] == "_" or name in _RESERVED:
                raise ScenarioError(
                    f"{path} must have identifiers that do not begin with _ and are not one of "
                    f"{', '.join(_RESERVED)}, got {short_repr(name)}"
                )

    @property
    def informed_by_messages(self) -> bool:
        """False, since nodes also know the numbers on the board."""
        return False

    def ladder_steps(self, ages: Sequence[float] = ()) -> list[LadderStep]:
        """Return the steps of `gridsim.ladder` with growing ages of the board; other steps use the last age.

        Parameters
        ----------
        ages
            Ages of the board, ascending; by default `age`.
        """
        ages = ages or (self.age,)
        fresh = msgspec.structs.replace(self, age=0.0, error=0.0)
        last = msgspec.structs.replace(self, age=ages[-1])
        steps = [
            LadderStep("placed at release", "nodes place tasks by the present state of all", fresh, True)
        ]
        for age in filter(None, ages):
            aged = msgspec.structs.replace(fresh, age=age)
            steps.append(
                LadderStep(f"views {age:g} s old", f"{self.refresh} refresh, {age:g} s", aged, is_free=True)
            )
        if self.error:
            text = f"in views, a standard deviation of {self.error:.0%}"
            steps.append(LadderStep("errors", text, last, is_free=True))
        return [*steps, LadderStep(*MESSAGES_TAKE_TIME, last)]

    def make_board(self, up: NDArray[np.bool_], applications: int, streams: Streams) -> Board:
        """Return the board of a run.

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
            numbers=self.numbers,
            age=age,
            refresh=self.refresh,
            batch=self.batch,
            error=self.error,
            phase=random.integers(0, age, len(up), endpoint=True),
            seed=int(random.integers(2**63)),
            is_per_application=self.board_of == "applications",
        )
