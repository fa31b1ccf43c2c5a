"""Tables of whole numbers in text: the kernel and its reference implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.common.whole_numbers import whole_numbers
from tests.reference import whole_numbers as reference

NUMBERS = st.integers(-(10**18), 10**18).map(str) | st.integers(-9, 9).map("{:+d}".format)
ODD = st.sampled_from(("1.5", "x", "", "-", "+-1", "1\r", "\r", "0" * 19, "²", "1_0", ";", "\0"))
LINES = st.lists(NUMBERS | NUMBERS | NUMBERS | ODD, max_size=4).flatmap(
    lambda words: st.sampled_from((" ", "\t", "  ", " \t ")).map(lambda gap: gap.join(words))
)


@given(
    st.lists(LINES | st.lists(NUMBERS, min_size=3, max_size=4).map(" ".join), max_size=5), st.integers(1, 3)
)
def test_tables_equal_reference(lines: list[str], columns: int) -> None:
    text = "\n".join(lines)
    found, expected = whole_numbers(text, columns), reference.whole_numbers(text, columns)
    assert (None if found is None else found.tolist()) == expected


def test_zero_columns_are_rejected() -> None:
    with pytest.raises(ValueError, match="^columns"):
        whole_numbers("1", 0)


def test_a_huge_number_of_columns_allocates_no_table() -> None:
    """The table is not larger than the text allows."""
    assert whole_numbers("1 2", 2**60) is None
