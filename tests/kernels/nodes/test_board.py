"""The board: its shown values, compared with those computed from all publications."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.nodes.board import REFRESHES, Board
from tests.reference.random_stream import RandomStream

NODES, NUMBERS = 9, ("work", "queue")
SECOND = 10**9


class Reference:
    """Board in plain Python, which stores all publications and computes each visible number from them."""

    def __init__(self, up: Any, *, age: int, refresh: str, batch: int, error: float, phase: Any) -> None:
        self.refresh = "continuous" if age == 0 and refresh != "decisions" else refresh
        self.up, self.age, self.batch, self.phase = up, age, batch, phase
        self.sigma, self.random = math.sqrt(math.log1p(error * error)), RandomStream(1, 0)
        #: (node, column) -> publications: ns, value, whether it falls, factor, number of refreshes before
        self.published: dict[tuple[int, int], list[Any]] = {
            (node, column): [] for node in range(NODES) for column in range(2)
        }
        #: (node, column) -> the last addition: its publication and refresh (ns), number, and whether it falls
        self.changed: dict[tuple[int, int], tuple[tuple[int, int], int, float, bool]] = {}
        self.additions = self.refreshes = self.refreshed_at = 0

    def publish(self, node: int, value: float, falling: bool, now: int, column: int) -> None:
        factor = 1.0
        if self.sigma and value < math.inf:
            factor = math.exp(self.sigma * self.random.normal() - self.sigma * self.sigma / 2)
        self.published[node, column].append((now, value, falling, factor, self.refreshes))

    def visible_number(
        self, node: int, now: int, column: int
    ) -> tuple[tuple[int, int], int, float, bool, float]:
        """Return the visible number: its publication and refresh (ns), value, whether it falls, factor."""
        publications = self.published[node, column]
        if self.refresh == "decisions":
            at, count = self.refreshed_at, sum(item[4] < self.refreshes for item in publications)
            key = count, self.refreshes
        else:
            first = int(self.phase[node]) if self.refresh == "individual" else 0
            at = now - self.age
            if self.refresh != "continuous":
                at = first + (now - first) // self.age * self.age
            count = sum(item[0] <= at for item in publications)
            key = count, 0 if self.refresh == "continuous" else at
        value, falling, factor, since = 0.0 if self.up[node] else math.inf, False, 1.0, 0
        if count:
            since, value, falling, factor, _ = publications[count - 1]
        if (node, column) in self.changed and self.changed[node, column][0] == key:
            _, since, value, falling = self.changed[node, column]
            factor = 1.0
        value = max(0.0, value - (at - since) / 1e9) if falling else value
        return key, at, value, falling, factor

    def number(self, node: int, now: int, column: int) -> float:
        _, _, value, _, factor = self.visible_number(node, now, column)
        return value * factor

    def add(self, node: int, deltas: Any, now: int) -> None:
        for column, delta in deltas:
            key, at, value, falling, factor = self.visible_number(node, now, column)
            self.changed[node, column] = key, at, value * factor + delta, falling
        self.additions += 1
        if self.refresh == "decisions" and self.additions % self.batch == 0:
            self.refreshes, self.refreshed_at = self.refreshes + 1, now


#: Waits (ns), by which some of `VALUES` differ.
WAITS = (0, 0, 1, SECOND // 10, SECOND // 3, SECOND, 3 * SECOND)
VALUES = (0.0, 0.2, 0.3, 2.2, 2.5, 7.0, np.inf, -1.0)


@given(
    st.integers(0, 2**32),
    st.sampled_from(REFRESHES),
    st.sampled_from((0, SECOND // 10, SECOND, 4 * SECOND)),
    st.sampled_from((0.0, 0.5)),
    st.integers(1, 4),
)
def test_shown_numbers_are_those_of_the_reference(
    seed: int, refresh: str, age: int, error: float, batch: int
) -> None:
    """Many falling numbers reach 0 together, so that they differ by nothing or by rounding errors."""
    rng = np.random.default_rng(seed)
    up, phase = rng.random(NODES) < 0.8, rng.integers(0, age, NODES, endpoint=True)
    options: dict[str, Any] = {"age": age, "refresh": refresh, "error": error, "batch": batch, "phase": phase}

    def make() -> Board:
        return Board(up, numbers=NUMBERS, seed=1, **options)

    board, reference, now, falls = make(), Reference(up, **options), 0, rng.random()
    for _ in range(100):
        now += int(rng.choice(WAITS))
        action, node, column = rng.random(), int(rng.integers(NODES)), int(rng.integers(2))
        value = float(rng.choice(VALUES))
        if rng.random() < 0.4:
            value = (8 * SECOND - now % (8 * SECOND)) / 1e9
        if action < 0.15:
            deltas = [(column, value if value < np.inf else -0.3), (1 - column, 1.0)][: rng.integers(1, 3)]
            for last, (number, delta) in enumerate(deltas, 1):
                board.add(node, delta, now, number, last == len(deltas))
            reference.add(node, deltas, now)
        elif action < 0.2:
            board.fail(node, now)
            for number in range(2):
                reference.publish(node, math.inf, False, now, number)
        elif action < 0.8:
            falling = bool(rng.random() < falls)
            board.publish(node, value, falling, now, column)
            reference.publish(node, value, falling, now, column)
        elif action < 0.82:
            state = board.getstate()
            board = make()
            board.setstate(state)
        reading, k = rng.random(), int(rng.integers(NODES + 2))
        if reading < 0.5:
            visible_number = np.array([reference.number(item, now, column) for item in range(NODES)])
            assert board.least(k, now, column) == tuple(
                np.argsort(visible_number, kind="stable")[:k].tolist()
            )
            assert board.number(node, now, column) == visible_number[node]
            if reading < 0.1:
                np.testing.assert_array_equal(board.read(now, column), visible_number, strict=True)


def test_errors_have_mean_1_and_the_stated_deviation_and_change_no_zeros() -> None:
    factors, zeros = [], []
    board = Board([True, True], age=0, refresh="continuous", error=0.5, phase=np.zeros(2, int), seed=3)
    for now in range(20_000):
        board.publish(0, 10.0, False, now)
        board.publish(1, 0.0, False, now)
        visible_number = board.read(now)
        assert visible_number[0] == board.read(now)[0]  # another read draws no new error
        factors.append(visible_number[0] / 10.0)
        zeros.append(visible_number[1])
    assert np.mean(factors) == pytest.approx(1.0, abs=0.02) and not any(zeros)
    assert np.std(factors) == pytest.approx(0.5, abs=0.02)


def test_the_shown_board_is_read_only() -> None:
    board = Board([True], age=0, refresh="continuous", error=0.0, phase=np.zeros(1, int), seed=0)
    with pytest.raises(ValueError, match="read-only"):
        board.read(0)[0] = 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"age": -1}, "age must be"),
        (
            {"refresh": "never"},
            "refresh must be one of continuous, periodic, individual, decisions, got 'never'",
        ),
        ({"error": -0.1}, "error must be"),
        ({"phase": np.zeros(3, int)}, "phase must have 2 entries"),
    ],
)
def test_wrong_arguments_are_rejected(wrong: dict[str, Any], message: str) -> None:
    usual = {"age": 5, "refresh": "periodic", "error": 0.0, "phase": np.zeros(2, int), "seed": 0}
    with pytest.raises(ValueError, match=message):
        Board([True, True], **{**usual, **wrong})
