"""Schedulers on availability traces of real desktops, and on the jobs of a real log."""

from __future__ import annotations

from pathlib import Path

import pytest

import gridsim as gs
from gridsim.validation.results import validate_result

SCHEDULERS = {
    "fair-tree": gs.FairTree(accept="minimum", bound=1.25, update_on="change"),
    "mincent": gs.MinCent(),
    "fcfs": gs.Fcfs(),
}


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore::gridsim.TraceWarning")
@pytest.mark.parametrize(
    "scheduler", [gs.Rjss(), gs.Rjss(probe_latency="network"), gs.ResourceExclusion()], ids=repr
)
def test_real_jobs_migrate_to_faster_real_hosts(traces: Path, scheduler: gs.Scheduler) -> None:
    log = traces / "lcg2005-a/LCG-2005-a.swf.gz"
    scenario = gs.Scenario(
        gs.Platform.from_hosts(traces / "boinc-hosts-open/seti_hosts.csv", 500, seed=1),
        gs.Workload.from_log(log, own_sizes=True, max_applications=800, seed=1),
        gs.Network.star(),
        seed=1,
    )
    result = gs.simulate(scenario, scheduler, record=True)
    assert validate_result(result) == [] and len(result.tables["jobs"]) > 2000
    home = gs.simulate(scenario, gs.NoMigration())
    assert result.migrated > 0.5 and result.mean_turnaround < 0.1 * home.mean_turnaround
