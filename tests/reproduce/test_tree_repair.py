from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import tree_repair
from gridsim.reproduce.others.tree_repair import (
    SAFE,
    TREE_REPAIR,
    LostShare,
    MessageRate,
    RepairTime,
    repair_share,
)


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
    assert repair_share(made) == pytest.approx(20.0 + 5.0 + 10.0)
    assert RepairTime("taken", 0.5)(made) == 2.0
    assert RepairTime("whole", 1.0)(made) == 15.0
    assert LostShare("request")(made) == 2.0
    assert MessageRate(("beat", "take"))(made) == pytest.approx(808 / 100.0 / 4)


def test_repair_times_are_undefined_without_repairs() -> None:
    made = result([(90.0, math.nan, math.nan)])
    assert math.isnan(RepairTime("taken", 0.5)(made))
    made.tables = {}
    assert math.isnan(repair_share(made)) and math.isnan(RepairTime("whole", 0.5)(made))


@pytest.mark.slow
def test_a_quick_run_loses_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_repair, "NODES", (32, 6))
    monkeypatch.setattr(tree_repair, "APPLICATIONS", (10, 2))
    monkeypatch.setattr(tree_repair, "UP_TIMES", (1.0,))
    report = TREE_REPAIR.run(Run(range(1, 6), quick=True))
    assert {row.claim for row in report.rows} == set(TREE_REPAIR.claims)
    safe = [row.verdict for row in report.rows if row.claim == SAFE]
    assert safe == ["reproduced"] * 4
    assert TREE_REPAIR.draw(report).axes
