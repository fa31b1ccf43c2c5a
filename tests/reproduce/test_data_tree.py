"""The experiment on tasks that move data: the meaning of a load, and a quick run."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import data_tree
from gridsim.reproduce.others.data_tree import AWARE, SAME, Moving


def test_at_a_load_of_1_links_are_busy_as_long_as_processors():
    """The times are means over applications, whose tasks fetch 0, 1 or 2 times the mean."""
    scenario = Moving(1.0, applications=3000)(seed=1)
    made = scenario.workload.realize(scenario.platform)
    assert made.input_bytes is not None and scenario.platform.bandwidth is not None
    computing = made.size.sum() / scenario.platform.aggregate_speed
    fetching = (made.input_bytes * made.tasks).sum() / scenario.platform.bandwidth.sum()
    assert fetching / computing == pytest.approx(1.0, rel=0.05)
    assert len(np.unique(made.bytes_per_mflop)) == 3


@pytest.mark.slow
def test_a_quick_run_reproduces_the_gain_of_counting_data(monkeypatch):
    monkeypatch.setattr(data_tree, "LOADS", (0.0, 3.0))
    monkeypatch.setattr(data_tree, "FEW", 6)
    report = data_tree.run(Run(range(1, 6), quick=True))
    assert {row.claim: row.verdict for row in report.rows if row.verdict} == dict.fromkeys(
        (AWARE, SAME), "reproduced"
    )
    assert data_tree.figure(report).axes
