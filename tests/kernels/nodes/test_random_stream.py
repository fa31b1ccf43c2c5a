"""The random streams of nodes: equal to the reference, well distributed, and independent of one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gridcore.nodes.containers import IntMap
from gridcore.nodes.random_stream import RandomStream
from tests.reference import random_stream as reference

SIZES = st.none() | st.integers(0, 5) | st.tuples(st.integers(0, 3), st.integers(0, 3))
INTEGERS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 9)
CALLS = st.one_of(
    st.tuples(st.just("random"), st.just(()), SIZES),
    st.tuples(st.just("uniform"), st.tuples(st.floats(-10, 10), st.floats()), SIZES),
    st.tuples(st.just("exponential"), st.tuples(st.floats()), SIZES),
    st.tuples(st.just("normal"), st.tuples(st.floats(-10, 10), st.floats(-1, 9)), SIZES),
    st.tuples(st.just("integers"), st.tuples(INTEGERS, st.none() | INTEGERS), SIZES),
    st.tuples(st.just("choice"), st.tuples(COUNTS | st.just("words")), st.none() | st.integers(-1, 12)),
    st.tuples(st.just("choice once"), st.tuples(COUNTS), COUNTS),
    st.tuples(st.just("permutation"), st.tuples(COUNTS | st.lists(COUNTS, max_size=5)), st.none()),
)


def call_method(stream: Any, name: str, arguments: tuple[Any, ...], size: Any) -> Any:
    further = {} if name == "permutation" else {"size": size}
    if name.startswith("choice"):
        (of,) = arguments
        arguments, further["replace"] = (list(of) if isinstance(of, str) else of,), name == "choice"
    try:
        return getattr(stream, name.split()[0])(*arguments, **further)
    except ValueError as error:
        return str(error)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31), st.lists(CALLS, max_size=8))
def test_kernel_and_reference_are_equal(seed: int, node: int, calls: list[Any]) -> None:
    kernel, plain = RandomStream(seed, node), reference.RandomStream(seed, node)
    for call in calls:
        np.testing.assert_equal(call_method(kernel, *call), call_method(plain, *call))
        assert kernel.drawn == plain.drawn
    restored = RandomStream(seed, node, kernel.drawn)
    assert restored.random() == kernel.random() == plain.random()


@pytest.mark.parametrize("across", [False, True])
def test_numbers_are_well_distributed(across: bool) -> None:
    """Both the draws of one node and the first draws of many nodes."""
    count = 20_000

    def numbers(name: str, *arguments: Any) -> Any:
        if not across:
            return getattr(RandomStream(7, 3), name)(*arguments, size=count)
        return np.array([getattr(RandomStream(7, node), name)(*arguments) for node in range(count)])

    assert stats.kstest(numbers("random"), "uniform").pvalue > 1e-3
    assert stats.kstest(numbers("exponential", 2.0), stats.expon(0.0, 2.0).cdf).pvalue > 1e-3
    assert stats.kstest(numbers("normal", 1.0, 3.0), stats.norm(1.0, 3.0).cdf).pvalue > 1e-3
    assert stats.chisquare(np.bincount(numbers("integers", 0, 10), minlength=10)).pvalue > 1e-3
    one, other = np.array([RandomStream(7, node).random(2) for node in range(count)]).T
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03


def test_a_map_is_drawn_from_as_the_list_of_its_keys() -> None:
    tasks = IntMap(tasks=int)
    for key in (0, 7, 2, 9, 1):
        tasks[key] = key + 100
    del tasks[7]
    sample = [RandomStream(1, 2, k).choice(tasks) for k in range(40)]
    assert sample == [RandomStream(1, 2, k).choice([0, 2, 9, 1]) for k in range(40)]
    assert {*sample} == {0, 2, 9, 1} and {*RandomStream(1, 2).choice(tasks, 40).tolist()} == {*sample}
