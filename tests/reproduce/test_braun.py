from __future__ import annotations

import json
import os

import numpy as np
from click.testing import CliRunner

from gridsim.cli.main import cli
from gridsim.optimization.mapping_matrices import BRAUN_CLASSES, HEURISTICS
from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import braun


def test_a_quick_run_reproduces_all_claims(tmp_path):
    found = CliRunner().invoke(
        cli, ["reproduce", "braun", "--quick", "--json", "--workers", "1", "--out", str(tmp_path)]
    )
    assert found.exit_code == 0, found.output
    (report,) = json.loads(found.stdout)["reproductions"]
    ratios, shares = report["grids"]
    assert list(ratios["rows"]) == list(BRAUN_CLASSES) and ratios["columns"][1:-1] == list(HEURISTICS)
    assert all(row[HEURISTICS.index("min-min")]["mean"] == 1.0 for row in ratios["rows"].values())
    assert all(sum(map(float, row)) >= 0.99 for row in shares["rows"].values())
    assert len(report["rows"]) == 3 * 12 + 4
    assert {row["verdict"] for row in report["rows"]} == {"reproduced"}
    assert {"figure.png", "table.json", "table.md"} <= set(os.listdir(tmp_path / "braun"))


def test_tied_heuristics_all_count_as_best():
    made = braun.makespans("u_i_hilo", Run([1, 2]))
    assert list(made) == list(HEURISTICS) and all(values.shape == (2,) for values in made.values())
    made = {name: np.array([2.0, 3.0]) for name in HEURISTICS} | {"olb": np.array([1.0, 3.0])}
    assert braun.best(made) == [1.0 if name == "olb" else 0.5 for name in HEURISTICS]
