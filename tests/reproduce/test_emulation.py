from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import emulation
from gridsim.reproduce.others.emulation import (
    COMPLETION,
    EMULATION,
    KILLS,
    MESSAGES,
    PLAIN,
    STRETCH,
    TIMES,
    TURNAROUND,
    WAITING,
    WAITS,
    EmulationSize,
)
from gridsim.reproduce.verdicts import conclude


@pytest.mark.slow
def test_simulated_and_emulated_runs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    size = EmulationSize(8, 2, 2, 4, 200.0)
    monkeypatch.setattr(emulation, "SIZE", (size, size))
    monkeypatch.setattr(emulation, "FAILING_SIZE", (size, size))
    monkeypatch.setattr(emulation, "FAILING_SEEDS", 1)
    report = EMULATION.run(Run((1, 2), quick=True))
    claims = {row.quantity.partition(",")[0]: row.claim for row in report.rows}
    for system in emulation.SYSTEMS:
        assert claims[f"{system}: {WAITING}"] == claims[f"{system}: {STRETCH}"] == TIMES
    assert claims["fair-tree: summary"] == claims["dgs-asap: commit"] == claims["rjss: probe"] == MESSAGES
    assert [grid.title.partition(":")[0] for grid in report.grids[:5]] == list(emulation.SYSTEMS)
    for system, (_, events) in emulation.FAILING_SYSTEMS.items():
        for event in events:
            name = f"{system} on few machines ({event})"
            assert claims[f"{name}: {WAITING}"] == WAITS and claims[f"{name}: tasks completed"] == COMPLETION
            (run,) = report.data.failing[system, event]
            assert run.completed == 1.0
            assert (run.result.provenance["emulation"]["kills"] > 0) is (event == KILLS)
            assert (run.result.machines["failures"].sum() > 0) == (event != PLAIN)
    assert EMULATION.draw(report).axes


def test_large_differences_are_reported_as_not_reproduced() -> None:
    """Only one of the two runs sends some kind of message, and its waits are half as long again."""
    simulated = {"request": 100.0, "cancel": 0.0, "fetch": 5.0, WAITING: 2.0, TURNAROUND: 9.0, STRETCH: 1.0}
    emulated = {"request": 100.0, "cancel": 4.0, WAITING: 3.0, TURNAROUND: 10.0, STRETCH: 1.05}
    subset = {**simulated, "cancel": 2.0}  # only with some seeds does the simulator send "cancel"
    pairs = [(subset, emulated), (simulated, emulated)] * 4
    rows = list(emulation.rows_of_system("dgs-asap", pairs))
    verdicts = {row.quantity.removeprefix("dgs-asap: ").partition(",")[0]: row.verdict for row in rows}
    assert verdicts == {
        "request": "reproduced",
        "cancel": "not reproduced",
        "fetch": "not reproduced",
        WAITING: "not reproduced",
        TURNAROUND: "",
        STRETCH: "reproduced",
    }
    assert conclude(TIMES, rows).verdict == conclude(MESSAGES, rows).verdict == "partly reproduced"


def test_lost_tasks_are_reported_as_not_reproduced() -> None:
    runs: Any = [SimpleNamespace(wait=3.0, waits=[2.5, 3.5], completed=0.95 + 0.001 * k) for k in range(8)]
    waits, completed = emulation.rows_of_failing("dgs-asap", KILLS, runs)
    assert (waits.verdict, completed.verdict) == ("reproduced", "not reproduced")
