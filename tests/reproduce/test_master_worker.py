"""The experiment on bags at one master: the meaning of a load, and a quick run."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import master_worker
from gridsim.reproduce.others.master_worker import (
    IN_TURN,
    MASTER_WORKER,
    SORTED,
    STAR,
    THIRDS,
    WORSE,
    MasterBags,
    optimum,
)


def test_at_a_load_of_1_a_mean_link_carries_the_data_of_all_machines() -> None:
    """The bytes per Mflop are the mean over applications."""
    scenario = MasterBags(1.0, 2)(seed=1)
    bags, links = scenario.workload.realize(scenario.platform), scenario.platform.bandwidth
    assert links is not None
    computing = scenario.platform.aggregate_speed
    assert bags.bytes_per_mflop.mean() * computing == pytest.approx(links.mean())


def test_processors_limit_low_loads_and_links_limit_high_loads() -> None:
    """At a high load, ten times the bytes give a tenth of the rate."""
    levels = [optimum(MasterBags(load, 2)(seed=1), None).level for load in (0.01, 3.0, 30.0)]
    scenario = MasterBags(0.01, 2)(seed=1)
    bags = scenario.workload.realize(scenario.platform)
    assert levels[0] == pytest.approx(scenario.platform.aggregate_speed / bags.task_size.sum())
    assert levels[0] > levels[1] > levels[2] == pytest.approx(levels[1] / 10, rel=0.5)


@pytest.mark.slow
def test_a_quick_run_reproduces_the_effect_of_the_order_of_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_worker, "LOADS", (3.0,))
    monkeypatch.setattr(master_worker, "BRANCHING", (4,))
    monkeypatch.setattr(master_worker, "DATA_APPLICATIONS", 2)
    report = MASTER_WORKER.run(Run(range(1, 6), quick=True))
    verdicts = {row.claim: row.verdict for row in report.rows if row.verdict}
    # local rules and trees are not those of the paper: its shares are not judged
    assert verdicts == {STAR: "reproduced", THIRDS: "cannot be compared", WORSE: "cannot be compared"}
    sorted_, in_turn = (report.grids[0].rows[name][0].mean for name in (SORTED, IN_TURN))
    assert np.isfinite(sorted_) and sorted_ > in_turn
    assert MASTER_WORKER.draw(report).axes
