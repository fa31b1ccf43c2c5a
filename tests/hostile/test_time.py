"""Small texts and results that made hours of work, or GBs: each is done, or refused, at once."""

from __future__ import annotations

import pytest

import gridsim as gs
from gridsim import toml_files
from gridsim.errors import ScenarioError
from gridsim.sweeps import Sweep

N = 1_000_000


@pytest.mark.parametrize("text", ["a" * N + "." * 64, "é-" * N + "." * 64])
def test_keys_are_looked_for_once(text: str) -> None:
    assert toml_files.parsed(f"x = '{text}'", "a") == {"x": text}


def test_a_message_of_the_parser_is_read_once() -> None:
    """It quotes the key."""
    with pytest.raises(ScenarioError, match="^a:1: column 2000020: Duplicate inline table key '  "):
        toml_files.parsed(f'x = {{"{" " * N}" = 1, "{" " * N}" = 1}}', "a")
    with pytest.raises(ScenarioError, match=r"^a:2: at the end of the file: Expected .*$"):
        toml_files.parsed("y = 1\nx = 'a (at line 1, column 1)", "a")


def test_sweeps_of_many_axes(scenario: gs.Scenario) -> None:
    over = {f"a.x{k}": [1] for k in range(40_000)}
    assert len(Sweep(scenario=scenario, schedulers={"met": gs.Met()}, over=over).over) == 40_000
    with pytest.raises(ScenarioError, match="over: a.x7 and a.x7.y both change a.x7"):
        Sweep(scenario=scenario, schedulers={"met": gs.Met()}, over=over | {"a.x7.y": [1]})
