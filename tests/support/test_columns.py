"""Columns accept exactly the values that a list of single checked values accepts."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridsim.errors import ScenarioError
from gridsim.support.columns import COLUMNS, ArrayColumn, FloatColumn, IntColumn, RaggedColumn, TextColumn
from gridsim.support.parameters import Limits, Recipe, column_checks

SECONDS, COUNT, BYTES = Limits(low=0, unit="s"), Limits(low=1, high=10), Limits(low=0, high=9, or_zero=True)
END = Limits(above=0, unit="s", finite=False)


class ColumnRecipe(Recipe, frozen=True, kw_only=True, tag="columns"):
    seconds: Annotated[FloatColumn, SECONDS] | None = None
    end: Annotated[FloatColumn, END] | None = None
    bytes: Annotated[FloatColumn, BYTES] | None = None
    count: Annotated[IntColumn, COUNT] | None = None
    number: Annotated[IntColumn, Limits()] | None = None
    text: TextColumn | None = None
    rows: Annotated[RaggedColumn, SECONDS] | None = None


class ListRecipe(Recipe, frozen=True, kw_only=True, tag="lists"):
    """Same fields as lists of single values, each checked separately."""

    seconds: tuple[Annotated[float, SECONDS], ...] | None = None
    end: tuple[Annotated[float, END], ...] | None = None
    bytes: tuple[Annotated[float, BYTES], ...] | None = None
    count: tuple[Annotated[int, COUNT], ...] | None = None
    number: tuple[Annotated[int, Limits()], ...] | None = None
    text: tuple[str, ...] | None = None
    rows: tuple[tuple[Annotated[float, SECONDS], ...], ...] | None = None


NUMBERS = st.one_of(
    st.floats(),
    st.integers(-3, 12),
    st.sampled_from([0.0, -0.0, 1e308, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**400]),
    st.sampled_from([np.float32(0.1), np.float64(-2.0), np.int8(3), np.uint64(2**63), np.longdouble(2)]),
)
INVALID = st.sampled_from([True, None, "5 ms", "5 W", "", [1.0], {}, 1j, np.bool_(True), np.array(1.0)])
DTYPES = st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.int8, np.uint64, np.bool_, object])


@st.composite
def lists(draw: st.DrawFn) -> Any:
    values = draw(st.lists(NUMBERS | INVALID if draw(st.booleans()) else NUMBERS, max_size=4))
    form = draw(st.sampled_from(["list", "tuple", "iterator", "array", "column"]))
    if form == "array":
        plain = [value for value in values if type(value) in (int, float) and not abs(value) >= 100]
        with np.errstate(invalid="ignore"):
            return np.array(plain).astype(draw(DTYPES))
    if form == "column":
        return FloatColumn([value for value in values if isinstance(value, float)])
    return {"list": list, "tuple": tuple, "iterator": lambda values: values}[form](values)


def outcome(kind: type[Recipe], name: str, given: Any) -> Any:
    try:
        value = getattr(kind(**{name: given}), name)
    except ScenarioError as error:
        return str(error)
    return value.tolist() if isinstance(value, ArrayColumn) else value


def as_list(value: Any) -> Any:
    return list(map(as_list, value)) if isinstance(value, (list, tuple)) else value


@given(st.sampled_from(["seconds", "end", "bytes", "count", "number"]), lists())
def test_a_column_accepts_and_rejects_the_same_values_as_a_list(name: str, arguments: Any) -> None:
    column, entries = (outcome(kind, name, copy.deepcopy(arguments)) for kind in (ColumnRecipe, ListRecipe))
    assert column == as_list(entries)
    if isinstance(column, list):
        assert list(map(type, column)) == list(map(type, entries))
        assert not any(math.copysign(1.0, value) < 0 for value in column if value == 0)


@given(st.lists(lists(), max_size=3) | lists())
def test_rows_accept_and_reject_the_same_values_as_lists_of_lists(rows: Any) -> None:
    assert outcome(ColumnRecipe, "rows", copy.deepcopy(rows)) == as_list(
        outcome(ListRecipe, "rows", copy.deepcopy(rows))
    )


@pytest.mark.parametrize(
    "arguments", [["a", "", "bcd"], np.array(["ä", "b"]), ("a",), [], ["a", 1], [None], ["a\0b"], 5, "abc"]
)
def test_strings_are_accepted_and_rejected_like_a_list(arguments: Any) -> None:
    assert outcome(ColumnRecipe, "text", arguments) == as_list(outcome(ListRecipe, "text", arguments))


def test_strings_with_null_characters_are_rejected() -> None:
    """An array of strings would drop the null character."""
    with pytest.raises(ScenarioError, match="^text"):
        ColumnRecipe(text=["a\0"])


@pytest.mark.parametrize(
    ("column", "other"),
    [
        (FloatColumn([1.0, 2.5, 3.0]), FloatColumn([1.0, 2.5])),
        (IntColumn([1, 2, 3]), FloatColumn([1, 2, 3])),
        (TextColumn(["a", "bc", ""]), TextColumn(["a", "bc", "d"])),
        (RaggedColumn([1.0, 2.0, 3.0], [2, 0, 1]), RaggedColumn([1.0, 2.0, 3.0], [1, 1, 1])),
    ],
)
def test_a_column_is_immutable_hashable_and_picklable(column: ArrayColumn, other: ArrayColumn) -> None:
    assert type(column) in COLUMNS
    copied = pickle.loads(pickle.dumps(column))
    assert copied == column and hash(copied) == hash(column) and type(column)(*column.arrays) == column
    assert column != other and column != column.tolist() and hash(column) != hash(other)
    assert copy.deepcopy(column) is column and copy.copy(column) is column
    assert len(column) == len(column.tolist()) == 3
    assert as_list([column[0], column[1], column[-1]]) == column.tolist() == as_list(list(column))
    assert type(column[1:]) is type(column) and column[1:].tolist() == column.tolist()[1:]
    with pytest.raises(IndexError):
        column[3]
    for array in (*column.arrays, *copied.arrays):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_changes_of_the_source_array_do_not_change_a_column() -> None:
    arguments = np.array([1.0, 2.0])
    view = arguments[:]
    view.flags.writeable = False
    columns = FloatColumn(arguments), FloatColumn(view), RaggedColumn(arguments, np.array([1, 1]))
    arguments[0] = 9.0
    assert [column.arrays[0][0] for column in columns] == [1.0, 1.0, 1.0]
    copied = np.array(columns[0])
    copied[0] = 7.0  # numpy.array makes a writable copy
    assert columns[0][0] == 1.0 and np.asarray(columns[0]) is columns[0].array


@pytest.mark.parametrize(
    ("counts", "message"),
    [([1], "add up to 2, got 1"), ([3, -1], r"in 0\.\.2, got -1 to 3"), ([2**62, 2**62], r"in 0\.\.2, got")],
)
def test_counts_that_do_not_fit_the_values_are_rejected(counts: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^counts must (be )?{message}"):
        RaggedColumn([1.0, 2.0], counts)


def test_a_long_column_has_a_short_repr() -> None:
    assert repr(FloatColumn(range(10**5))) == "FloatColumn([0.0, 1.0, 2.0, ...: 100000 entries])"
    assert repr(TextColumn(["a", "b"])) == "TextColumn(['a', 'b'])"


def test_column_checks_lists_the_columns_of_a_recipe() -> None:
    assert list(column_checks(ColumnRecipe)) == list(ColumnRecipe.__struct_fields__)
    assert not column_checks(ListRecipe)
