"""The soak draws parameters that schedulers accept, the same ones for a seed, and reports differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gridsim.scheduling.registry import registered, scheduler_of
from tests import soak

pytestmark = pytest.mark.slow


def test_random_parameters_depend_on_the_seed_only() -> None:
    drawn = [soak.with_random_parameters("dgs-asap", seed) for seed in (1, 1, 3)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != scheduler_of("names", "dgs-asap", {})
    fixed = registered()["fair-tree-root"][1]
    tree = soak.with_random_parameters("fair-tree-root", 1)
    assert {name: getattr(tree, name) for name in fixed} == fixed


@pytest.mark.parametrize("code", [0, 1])
def test_a_round_states_its_seed_and_its_differences(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    def find_power(_: Any, result: Any) -> str | None:
        return "a fault" if code and result.scenario.platform.power is not None else None

    monkeypatch.setattr(soak.Features, "__call__", find_power)
    options = ["--seed", "1", "--rounds", "1", "--names", "fcfs,mct", "--folder", str(tmp_path)]
    run = CliRunner().invoke(soak.main, options)
    assert run.exit_code == code, run.output
    assert run.output.startswith("seed 1, random parameters, load ")
    assert "1 rounds from seed 1: " in run.output and ("a fault" in run.output) == bool(code)
