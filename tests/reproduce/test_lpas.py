"""The experiment on affinity scheduling, in small."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import lpas


@pytest.mark.slow
def test_a_quick_run_shows_when_the_linear_program_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is better than MCT near saturation if machines have affinities, and worse if not."""
    monkeypatch.setattr(lpas, "SYSTEMS", (lpas.AFFINE, lpas.RELATED))
    monkeypatch.setattr(lpas, "TASKS", 6000)
    report = lpas.run(Run(range(1, 6), quick=True))
    series = report.data["series"]
    assert series[lpas.AFFINE][lpas.LPAS][-1].high < 1.0 < series[lpas.RELATED][lpas.LPAS][-1].low
    [less] = [row for row in report.rows if row.claim == lpas.LESS]
    assert less.verdict == "reproduced"
    assert lpas.figure(report).axes


def test_related_machines_have_one_speed_for_all_classes() -> None:
    times = lpas.times_of(lpas.RELATED, seed=1)
    assert times / times[:1] == pytest.approx(np.repeat(times[:, :1] / times[0, 0], lpas.MACHINES, axis=1))
