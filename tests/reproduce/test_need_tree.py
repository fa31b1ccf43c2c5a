"""The experiment on tasks that need much memory: the machines that can hold them, and a quick run."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import need_tree
from gridsim.reproduce.others.need_tree import AWARE, NEEDED, SHARES, Needing


@pytest.mark.parametrize("share", SHARES)
def test_the_stated_share_of_machines_can_hold_large_applications(share):
    scenario = Needing(share, applications=400)(seed=1)
    made = scenario.workload.realize(scenario.platform)
    assert made.suited is not None and made.group is not None
    large = made.memory == NEEDED
    assert np.unique(made.suited.sum(axis=1)[made.group[large]]).tolist() == [round(32 * share)]
    assert large.mean() == pytest.approx(1 / 8, abs=0.05)


@pytest.mark.slow
def test_a_quick_run_reproduces_the_gain_of_counting_memory(monkeypatch):
    monkeypatch.setattr(need_tree, "SHARES", (0.125,))
    monkeypatch.setattr(need_tree, "FEW", 12)
    report = need_tree.run(Run(range(1, 6), quick=True))
    assert {row.claim: row.verdict for row in report.rows if row.verdict} == {AWARE: "reproduced"}
    assert need_tree.figure(report).axes
