from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import tree_repair
from gridsim.reproduce.others.tree_repair import CLAIMS, SAFE, Dropped, Lasts, Rate, broken


def result(repairs: list[tuple[float, float, float]], finish: float = 100.0) -> Any:
    """Return a result with repairs (failed, taken, whole), and 4 of 200 requests lost."""
    failed, taken, whole = (np.array(column) for column in zip(*repairs, strict=True))
    return SimpleNamespace(
        applications={"finish": np.array([finish, 50.0])},
        machines=[None] * 4,
        messages={
            "kind": np.array(["request", "beat", "take"]),
            "sent": np.array([200, 800, 8]),
            "dropped": np.array([4, 0, 8]),
        },
        tables={"repairs": {"failed": failed, "taken": taken, "whole": whole}},
    )


def test_metrics_of_repairs_are_as_computed_by_hand() -> None:
    """Repairs overlap at 10..30 s; the last one never ends, and another never began."""
    made = result([(10.0, 12.0, 20.0), (15.0, 19.0, 30.0), (40.0, 41.0, 45.0), (90.0, math.nan, math.nan)])
    assert broken(made) == pytest.approx(20.0 + 5.0 + 10.0)
    assert Lasts("taken", 0.5)(made) == 2.0
    assert Lasts("whole", 1.0)(made) == 15.0
    assert Dropped("request")(made) == 2.0
    assert Rate(("beat", "take"))(made) == pytest.approx(808 / 100.0 / 4)


def test_repair_times_are_undefined_without_repairs() -> None:
    made = result([(90.0, math.nan, math.nan)])
    assert math.isnan(Lasts("taken", 0.5)(made))
    made.tables = {}
    assert math.isnan(broken(made)) and math.isnan(Lasts("whole", 0.5)(made))


@pytest.mark.slow
def test_a_quick_run_loses_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_repair, "SMALL", 6)
    monkeypatch.setattr(tree_repair, "FEW_APPLICATIONS", 2)
    monkeypatch.setattr(tree_repair, "UP_TIMES", (1.0,))
    report = tree_repair.run(Run(range(1, 6), quick=True))
    assert {row.claim for row in report.rows} == set(CLAIMS)
    safe = [row.verdict for row in report.rows if row.claim == SAFE]
    assert safe == ["reproduced"] * 4
    assert tree_repair.figure(report).axes
