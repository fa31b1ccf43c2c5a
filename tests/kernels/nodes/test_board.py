"""The board: its shown values, compared with those computed from all publications."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.nodes.board import REFRESHES, Board

NODES = 3


def expected(up: Any, age: int, refresh: str, phase: Any, published: list[Any], now: int) -> Any:
    """Return what the board shows at `now` ns; published : (ns, node, value, whether it falls), in order."""
    shown = np.where(up, 0.0, np.inf)
    for node in range(len(up)):
        first = int(phase[node]) if refresh == "individual" else 0
        at = now - age if refresh == "continuous" or age == 0 else first + (now - first) // age * age
        mine = [each for each in published if each[1] == node and each[0] <= at]
        if mine:
            since, _, value, falling = mine[-1]
            shown[node] = max(0.0, value - (at - since) / 1e9) if falling else value
    return shown


steps = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 3, 10)),  # s until the publication
        st.integers(0, NODES - 1),
        st.sampled_from((0.0, 2.5, 7.0, np.inf)),
        st.booleans(),
        st.booleans(),  # whether the board is read
    ),
    max_size=25,
)


@given(steps, st.sampled_from(REFRESHES), st.sampled_from((0, 1, 4, 15)), st.integers(0, 25))
def test_published_numbers_appear_after_the_delay(given: Any, refresh: str, age: int, cut: int) -> None:
    up, phase, second = np.array([True, False, True]), np.array([0, age // 2, age]) * 10**9, 10**9

    def make() -> Board:
        return Board(up, age=age * second, refresh=refresh, error=0.0, phase=phase, seed=1)

    board, now, published = make(), 0, []
    for number, (wait, node, value, falling, looks) in enumerate(given):
        now += wait * second
        board.publish(node, value, falling, now)
        published.append((now, node, value, falling))
        if number == cut:
            state = board.getstate()
            board = make()
            board.setstate(state)
        if looks:
            found = board.read(now)
            np.testing.assert_array_equal(
                found, expected(up, age * second, refresh, phase, published, now), strict=True
            )


def test_errors_have_mean_1_and_the_stated_deviation_and_change_no_zeros() -> None:
    factors, zeros = [], []
    board = Board([True, True], age=0, refresh="continuous", error=0.5, phase=np.zeros(2, int), seed=3)
    for now in range(20_000):
        board.publish(0, 10.0, False, now)
        board.publish(1, 0.0, False, now)
        shown = board.read(now)
        assert shown[0] == board.read(now)[0]  # another read draws no new error
        factors.append(shown[0] / 10.0)
        zeros.append(shown[1])
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
        ({"refresh": "never"}, "refresh must be one of continuous, periodic, individual, got 'never'"),
        ({"error": -0.1}, "error must be"),
        ({"phase": np.zeros(3, int)}, "phase must have 2 entries"),
    ],
)
def test_wrong_arguments_are_rejected(wrong: dict[str, Any], message: str) -> None:
    usual = {"age": 5, "refresh": "periodic", "error": 0.0, "phase": np.zeros(2, int), "seed": 0}
    with pytest.raises(ValueError, match=message):
        Board([True, True], **{**usual, **wrong})


def test_a_state_with_another_number_of_nodes_is_rejected() -> None:
    def make(nodes: int) -> Board:
        return Board(
            np.ones(nodes, bool), age=5, refresh="periodic", error=0.0, phase=np.zeros(nodes, int), seed=0
        )

    for nodes in (1, 3):
        with pytest.raises(ValueError, match="board"):
            make(2).setstate(make(nodes).getstate())
