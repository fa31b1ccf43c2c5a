"""The experiments on mapping heuristics, in small."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.optimization.mapping_matrices import BRAUN_CLASSES, HEURISTICS
from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import mapping
from gridsim.reproduce.others.mapping import AFFINITY, BRAUN, INCONSISTENT, LPAS, RELATED


def test_a_quick_run_of_heuristics_reproduces_all_claims() -> None:
    report = BRAUN.run(Run(range(1, 6), quick=True))
    ratios, shares = report.grids
    assert list(ratios.rows) == list(BRAUN_CLASSES) and ratios.columns[1:-1] == list(HEURISTICS)
    assert all(row[HEURISTICS.index("min-min")].mean == 1.0 for row in ratios.rows.values())
    assert all(sum(map(float, row)) >= 0.99 for row in shares.rows.values())
    assert len(report.rows) == 3 * 12 + 4 and {row.verdict for row in report.rows} == {"reproduced"}
    assert BRAUN.draw(report).axes


def test_tied_heuristics_all_count_as_best() -> None:
    makespan = {name: np.array([2.0, 3.0]) for name in HEURISTICS} | {"olb": np.array([1.0, 3.0])}
    assert mapping.best_shares(makespan) == [1.0 if name == "olb" else 0.5 for name in HEURISTICS]


@pytest.mark.slow
def test_a_quick_run_shows_when_the_linear_program_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is better than MCT near saturation if machines have affinities, and worse if not."""
    monkeypatch.setattr(mapping, "SYSTEMS", (INCONSISTENT, RELATED))
    monkeypatch.setattr(mapping, "TASKS", (6000, 1500))
    report = AFFINITY.run(Run(range(1, 6), quick=True))
    better, worse = (grid.rows[LPAS][-1] for grid in report.grids)
    assert better.high < 1.0 < worse.low
    [judged] = [row for row in report.rows if row.claim == mapping.LITTLE_INFORMATION]
    assert judged.verdict == "reproduced"
    assert AFFINITY.draw(report).axes


def test_related_machines_have_one_speed_for_all_classes() -> None:
    times = mapping.times_of(RELATED, seed=1)
    assert times / times[:1] == pytest.approx(np.repeat(times[:, :1] / times[0, 0], mapping.MACHINES, axis=1))
