from __future__ import annotations

import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import emulation
from gridsim.reproduce.others.emulation import Size


@pytest.mark.slow
def test_simulated_and_emulated_runs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulation, "QUICK", Size(8, 2, 2, 4, 200.0))
    report = emulation.run(Run((1, 2), quick=True))
    assert {row.claim for row in report.rows} >= set(emulation.CLAIMS)
    assert [grid.title.partition(":")[0] for grid in report.grids[:5]] == list(emulation.SYSTEMS)
    assert emulation.figure(report).axes
