"""`gridcore.random_neighbours` against numpy, which draws the neighbours of one node after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gridcore
from tests.reference.random_neighbours import random_neighbours


@given(
    nodes=st.integers(0, 12),
    first=st.integers(0, 12),
    others=st.integers(0, 40),
    part=st.floats(0, 1),
    seed=st.integers(0, 99),
    odd=st.booleans(),
)
@example(nodes=5, first=3, others=12_000, part=0.03, seed=1, odd=False)  # numpy shuffles them all
@example(nodes=4, first=2, others=10_000, part=0.02, seed=1, odd=True)  # and these for two of the nodes
@example(nodes=4, first=1, others=10_001, part=1.0, seed=1, odd=True)
@example(nodes=3, first=0, others=2**31 - 2, part=4e-9, seed=2, odd=False)
def test_neighbours_equal_those_of_numpy(
    nodes: int, first: int, others: int, part: float, seed: int, odd: bool
) -> None:
    degree, end = int(others * part), first + others + 1
    streams = [np.random.default_rng(seed) for _ in range(2)]
    for stream in streams if odd else ():
        stream.integers(9, dtype=np.uint32)  # half of a 64-bit number is left
    actual = gridcore.random_neighbours(nodes, degree, streams[0], first, end)
    assert np.array_equal(actual, random_neighbours(nodes, degree, streams[1], first, end))
    assert streams[0].bit_generator.state == streams[1].bit_generator.state


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((3, 1, 2, 2), "first and end must be in 0 <= first < end"),
        ((3, 1, -1, 2), "first and end must be in 0 <= first < end"),
        ((3, 1, 0, 2**31), "first and end must be in 0 <= first < end"),
        ((-1, 1, 0, 9), "nodes must be in 0..2147483647, got -1"),
        ((3, 9, 0, 9), r"degree must be in 0\.\.8, got 9"),
        ((3, -1, 0, 9), r"degree must be in 0\.\.8, got -1"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments: Any, text: str) -> None:
    nodes, degree, first, end = arguments
    with pytest.raises(ValueError, match=text):
        gridcore.random_neighbours(nodes, degree, np.random.default_rng(1), first, end)
