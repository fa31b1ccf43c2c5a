"""The board in plain Python cores: the view and the actions of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import listed
from gridcore.nodes.board import Board

__all__ = ["BoardActions", "PythonBoard"]


class BoardActions:
    """The part of a core that publishes numbers of nodes.

    Attributes
    ----------
    board
        The board; None if the scheduler has none.
    now
        The simulated time, ns.
    convert
        Function of (type, value, node, name) that returns the value with that type.
    """

    board: Board | None
    now: int
    convert: Callable[..., Any]

    def error(self, node: int, text: str) -> Exception:
        """Return an error caused by `node` at the current time."""
        raise NotImplementedError

    def check_may_act(self, node: int) -> None:
        """Raise an error if `node` must not act now."""

    def board_error(self, node: int, reason: Any) -> Exception:
        """Return the error of a wrong use of the board."""
        return self.error(node, f"uses the board: {reason}")

    def board_for(self, node: int) -> Board:
        """Return the board; raise an error of `node` if there is none."""
        if self.board is None:
            raise self.error(node, "uses the board, which requires a BoardScheduler")
        return self.board

    def publish(
        self,
        node: int,
        application: int,
        value: float | None,
        numbers: Mapping[str, float],
        falling: bool | tuple[str, ...],
    ) -> None:
        """Publish numbers of `node`, or of `application` if that is not -1."""
        board = self.board_for(node)
        try:
            publications = board.publications(value, dict(numbers), falling)
        except ValueError as error:
            raise self.board_error(node, error) from None
        publications = [
            (column, self.convert(float, number, node, board.numbers[column]), falls)
            for column, number, falls in publications
        ]
        if board.is_per_application != (application >= 0) or application >= board.nodes:
            rows = f"in 0..{board.nodes - 1}" if board.is_per_application else "-1"
            raise self.error(
                node,
                f"publishes a number: application must be {rows}, got {application}, since the board is "
                f"of {'applications' if board.is_per_application else 'nodes'}",
            )
        for column, number, falls in publications:
            if number != number:
                raise self.error(node, f"publishes a number: value must be a number or inf, got {number!r}")
            self.publish_number(node if application < 0 else application, column, number, falls)

    def add_to_board(self, node: int, row: int, delta: float | None, deltas: Mapping[str, float]) -> None:
        """Add to the published numbers of node `row`."""
        board = self.board_for(node)
        row = self.convert(int, row, node, "the node of an addition")
        try:
            changes = board.changes(delta, dict(deltas))
        except ValueError as error:
            raise self.board_error(node, error) from None
        changes = [
            (column, self.convert(float, number, node, board.numbers[column])) for column, number in changes
        ]
        for k, (column, number) in enumerate(changes):
            if not 0 <= row < board.nodes:
                raise self.board_error(node, f"node must be in 0..{board.nodes - 1}, got {row}")
            if not abs(number) < inf:
                raise self.board_error(node, f"delta must be finite, got {number!r}")
            self.add_number(row, column, number, k == len(changes) - 1)

    def publish_number(self, row: int, column: int, value: float, falling: bool) -> None:
        """Publish a number of a node or an application."""
        assert self.board is not None
        self.board.publish(row, value, falling, self.now, column)

    def add_number(self, row: int, column: int, delta: float, is_last: bool) -> None:
        """Add to a published number; `is_last` ends an addition."""
        assert self.board is not None
        self.board.add(row, delta, self.now, column, is_last)


class PythonBoard:
    """The board as a node sees it; `gridcore.nodes.view.BoardView` describes its members."""

    __slots__ = ("_board", "_core", "_node")

    def __init__(self, core: BoardActions, node: int) -> None:
        self._core, self._node, self._board = core, node, core.board_for(node)

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        if name not in self._board.numbers:
            known = listed([*self._board.numbers, "add", "least"], name)
            raise AttributeError(
                f"t = {self._core.now / 1e9} s: node {self._node}: the board has no {name!r}; {known}"
            )
        return self._board.read(self._core.now, self._board.numbers.index(name))

    def __getitem__(self, index: int | tuple[int, str]) -> float:
        """Return the number of a node, or of a node and a name."""
        row, name = index if isinstance(index, tuple) and len(index) == 2 else (index, None)
        row = self._core.convert(int, row, self._node, "the index of the board")
        return self._board.number(row, self._core.now, self._column(name))

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise self._core.board_error(self._node, "it is not a function; write view.board[node]")

    def __iter__(self) -> Any:
        raise self._core.board_error(self._node, "it is not a sequence; iterate over view.board.values")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._core.board_error(self._node, "it is not an array; write view.board.values")

    def least(self, k: int, name: str | None = None) -> tuple[int, ...]:
        """Return the k nodes with the least numbers, ascending; ties: the lower node."""
        column = self._column(name)
        if (k := self._core.convert(int, k, self._node, "k")) < 0:
            raise self._core.board_error(self._node, f"k must be at least 0, got {k}")
        return self._board.least(k, self._core.now, column)

    def add(self, node: int, delta: float | None = None, name: str | None = None, **deltas: float) -> None:
        """Add to the published numbers of a node, as all nodes see them."""
        self._core.check_may_act(self._node)
        if name is not None and not deltas:
            delta, deltas = None, {name: delta}  # type: ignore[dict-item]
        self._core.add_to_board(self._node, node, delta, deltas)

    def _column(self, name: str | None) -> int:
        try:
            return self._board.column(name)
        except ValueError as error:
            raise self._core.board_error(self._node, error) from None
