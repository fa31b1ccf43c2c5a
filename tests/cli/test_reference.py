"""Rows that lists and reference pages show: allowed values in words, and keys that kinds share."""

from typing import Annotated, Any, Literal

import pytest

import gridsim as gs
from gridsim.cli.reference import key_rows, parameter_rows, value_text
from gridsim.support.columns import FloatColumn
from gridsim.support.parameters import Limits


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (Annotated[float, Limits(low=0)], "number >= 0"),
        (Annotated[float, Limits(above=0, high=1)], "number > 0, at most 1"),
        (Annotated[int, Limits(low=1, high=9_000_000)], "whole number in 1..9,000,000"),
        (Annotated[float, Limits(low=1e-9, high=5, or_zero=True)], "0 or number in 1e-09..5"),
        (Annotated[float, Limits(low=0)] | Literal["all"] | None, "number >= 0 or all"),
        (tuple[tuple[int, ...], ...], "list of lists of whole numbers"),
        (Annotated[FloatColumn, Limits(above=0)], "list of numbers > 0"),
        (gs.Zones | None, "table"),
    ],
)
def test_allowed_values_are_described_in_words(hint: Any, text: str) -> None:
    assert value_text(hint) == text


def test_defaults_are_values_of_a_scenario_file() -> None:
    defaults = {row["name"]: row["default"] for row in parameter_rows(gs.Constraints)}
    assert defaults == {"memory": [], "disk": [], "kinds": []}
    rows = {(row["kind"], row["name"]): row for row in key_rows("faults")}
    assert rows["zones", "zones"]["default"] == {} and rows["poisson", "mean"]["default"] == "required"
    # shared by all kinds, so listed once; the lists of failures have no seed
    assert ("all", "reachable") in rows and ("poisson", "reachable") not in rows
    assert ("poisson", "seed") in rows and ("list", "seed") not in rows
