"""The fair tree and the baselines on real desktops that come and go as recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

import gridsim as gs

SCHEDULERS = {
    "fair-tree": gs.FairTree(bound=1.25, minimum_of="all", update_on="change"),
    "mincent": gs.MinCent(),
    "fcfs": gs.Fcfs(),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_task_is_completed_on_real_desktops(traces: Path, name: str) -> None:
    week = 7 * 86_400.0
    scenario = gs.Scenario(
        gs.Platform.from_hosts(traces / "boinc-hosts-open/seti_hosts.csv", 2000, seed=1),
        gs.Workload.bags(100, task_size=65536.0, seed=1),
        faults=gs.Faults.trace(traces / "microsoft99-a/microsoft-a.avt.gz", seed=1, start=week),
        seed=1,
    )
    result = gs.simulate(scenario, SCHEDULERS[name])
    assert result.machines["tasks"].sum() == result.applications["tasks"].sum()
    assert result.applications["resubmitted"].sum() > 0 and result.machines["failures"].sum() > 200
    messages = result.messages
    under_way = messages["sent"] - messages["delivered"] - messages["dropped"]
    assert (messages["in_flight"] == under_way).all() and (under_way >= 0).all()
