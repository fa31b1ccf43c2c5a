"""Small texts and results that made hours of work, or GBs: each is done, or refused, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from archives import changed

import gridsim as gs
from gridsim import toml_files
from gridsim.errors import ScenarioError
from gridsim.sweeps import Sweep
from gridsim.validation.results import validate_result

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


def test_a_checkpoint_each_instant(scenario: gs.Scenario, tmp_path: Path) -> None:
    """Where machines fluctuate they are gone through, a part of them at a time."""
    fluctuation = gs.Fluctuation.uniform(low=0.5, high=1.0, period=0.1, seed=1)
    own = gs.Scenario(
        scenario.platform,
        scenario.workload,
        faults=gs.Faults.exponential(up=1.0, down=0.1, seed=1),
        fluctuation=fluctuation,
    )
    gs.simulate(own, gs.WqrFt(), record=True).save(tmp_path / "a.npz")
    assert validate_result(tmp_path / "a.npz") == []
    for interval, cost in ((1e-8, 0.0), (1e-9, 0.0), (1e-9, -1e-9)):

        def about(told: Any, interval: float = interval, cost: float = cost) -> None:
            told["facts"]["checkpoint_interval"] = interval
            told["scheduler"]["parameters"]["checkpoint_cost"] = cost

        with pytest.raises(ScenarioError, match="checkpoint_interval makes .* at most 10000000 are gone"):
            validate_result(changed(tmp_path / "a.npz", about=about))
