"""The experiments on tasks that move data or need much memory: their scenarios, and quick runs."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import tree_extensions
from gridsim.reproduce.others.tree_extensions import (
    DATA_AWARE,
    DATA_TREE,
    MEMORY_AWARE,
    NEED,
    NEED_TREE,
    NO_DATA,
    SHARES,
    DataBags,
    MemoryBags,
)


def test_at_a_load_of_1_links_are_busy_as_long_as_processors() -> None:
    """The times are means over applications, whose tasks fetch 0, 1 or 2 times the mean."""
    scenario = DataBags(1.0, applications=3000)(seed=1)
    bags = scenario.workload.realize(scenario.platform)
    assert bags.input_bytes is not None and scenario.platform.bandwidth is not None
    computing = bags.size.sum() / scenario.platform.aggregate_speed
    fetching = (bags.input_bytes * bags.tasks).sum() / scenario.platform.bandwidth.sum()
    assert fetching / computing == pytest.approx(1.0, rel=0.05)
    assert len(np.unique(bags.bytes_per_mflop)) == 3


@pytest.mark.parametrize("share", SHARES)
def test_the_stated_share_of_machines_can_hold_large_applications(share: float) -> None:
    scenario = MemoryBags(share, applications=400)(seed=1)
    bags = scenario.workload.realize(scenario.platform)
    assert bags.suited is not None and bags.group is not None
    large = bags.memory == NEED
    assert np.unique(bags.suited.sum(axis=1)[bags.group[large]]).tolist() == [round(32 * share)]
    assert large.mean() == pytest.approx(1 / 8, abs=0.05)


@pytest.mark.slow
def test_quick_runs_reproduce_the_gain_of_counting_data_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_extensions, "LOADS", (0.0, 3.0))
    monkeypatch.setattr(tree_extensions, "SHARES", (0.125,))
    for experiment, applications, claims in (
        (DATA_TREE, 6, (DATA_AWARE, NO_DATA)),
        (NEED_TREE, 12, (MEMORY_AWARE,)),
    ):
        monkeypatch.setattr(tree_extensions, "APPLICATIONS", (40, applications))
        report = experiment.run(Run(range(1, 6), quick=True))
        verdicts = {row.claim: row.verdict for row in report.rows if row.verdict}
        assert verdicts == dict.fromkeys(claims, "reproduced")
        assert experiment.draw(report).axes
