"""Results do not depend on cohorts, threads, progress bars or processes, only on scenario and seed.

Compiled protocols have no cohorts; their own tests compare them with node programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import gridsim as gs
from gridsim.testing import scenarios
from tests._helpers.scenarios import CENTRAL

QUICK = settings(max_examples=14, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_cohorts(scenario: gs.Scenario, scheduler: gs.Scheduler) -> None:
    full_run = gs.simulate(scenario, scheduler)
    for limit in (1, 3):
        cut = gs.simulate(scenario, scheduler, cohort_limit=limit)
        assert cut.digest == full_run.digest, f"cohorts of at most {limit} change the result"


@pytest.mark.parametrize("nodes", ["compiled", "interpreted"])
def test_the_cohort_limit_does_not_change_fair_tree_runs(nodes: Any) -> None:
    full_run, cut = (
        gs.simulate(small_scenario(), gs.FairTree(), nodes=nodes, cohort_limit=limit, record="all")
        for limit in (None, 1)
    )
    assert full_run.digest == cut.digest and full_run.tables == cut.tables
    assert full_run.provenance["events"] == cut.provenance["events"]


@pytest.mark.parametrize("mode", CENTRAL)
@settings(QUICK, max_examples=10)
@given(scenario=scenarios())
def test_the_cohort_limit_does_not_change_runs_of_baselines(mode: str, scenario: gs.Scenario) -> None:
    check_cohorts(scenario, CENTRAL[mode])


def small_scenario() -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes=20, seed=1),
        gs.Workload.bags(8, interarrival=5.0, task_size=[4000.0, 9000.0], seed=2),
        seed=3,
    )


ALL = {"fair-tree": gs.FairTree(), **CENTRAL}


@pytest.mark.parametrize("name", ALL)
def test_the_progress_bar_does_not_change_the_digest(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = gs.simulate(small_scenario(), ALL[name])
    assert capsys.readouterr() == ("", "")
    displayed = gs.simulate(small_scenario(), ALL[name], progress="force")
    out, err = capsys.readouterr()
    assert (out, ALL[name].name in err) == ("", True)
    assert displayed.digest == quiet.digest
    assert displayed.provenance["events"] == quiet.provenance["events"]


@pytest.mark.parametrize("name", ALL)
def test_equal_seeds_give_equal_digests(name: str) -> None:
    digests = {gs.simulate(small_scenario(), ALL[name]).digest for _ in range(3)}
    assert len(digests) == 1


def test_only_the_random_baseline_depends_on_the_seed() -> None:
    first = small_scenario()
    other = gs.Scenario(first.platform, first.workload, first.network, seed=4)
    for name, scheduler in ALL.items():
        same = gs.simulate(first, scheduler).digest == gs.simulate(other, scheduler).digest
        assert same == (name != "random"), name


def large_scenario(interfaces: str) -> gs.Scenario:
    """Return a scenario in which so many leaves act at once that threads share them."""
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes=1500, seed=1),
        gs.Workload.bags(5, interarrival=20.0, task_size=[40_000.0, 90_000.0], seed=2),
        gs.Network(interfaces=interfaces),
        seed=3,
    )


@pytest.mark.parametrize(
    ("interfaces", "parameters"),
    [
        ("equal", {}),
        ("fifo", {}),
        ("equal", {"release_cell": 30.0, "update_on": "change"}),
        ("equal", {"refresh": 7.0, "update_rate": 0.0}),
        ("equal", {"spread": "change"}),
    ],
)
def test_threads_do_not_change_the_digest(interfaces: str, parameters: dict[str, object]) -> None:
    tree = gs.FairTree(samples=(6, 4, 3), **parameters)
    one, *more = (gs.simulate(large_scenario(interfaces), tree, threads=threads) for threads in (1, 2, 3))
    assert [result.digest for result in more] == [one.digest] * 2
    assert more[0].provenance["threads"] == 2


def test_threads_do_not_change_the_digest_if_machines_fail() -> None:
    failing = gs.Scenario(
        gs.Platform.desktop_grid(nodes=1500, seed=1),
        gs.Workload.bags(2, interarrival=20.0, tasks_per_node=2.0, task_size=40_000.0, seed=2),
        gs.Network(interfaces="equal"),
        faults=gs.Faults.poisson(2000.0, 5),
    )
    tree = gs.FairTree(samples=(6, 4, 3))
    one, two = (gs.simulate(failing, tree, threads=threads) for threads in (1, 2))
    assert one.digest == two.digest and one.machines["failures"].sum() > 20


def test_invalid_numbers_of_threads_are_rejected() -> None:
    for threads in (0, -1, 1.5, 5000):
        with pytest.raises(gs.ScenarioError, match="^threads"):
            gs.simulate(small_scenario(), gs.FairTree(), threads=threads)


CHILD = """
import sys
import gridsim as gs
from gridsim.testing import scenarios
from gridsim.schedulers import FairTree, Fcfs, IdealTree, MinCent
scenario = gs.Scenario.from_toml(sys.stdin.read())
bound = MinCent(), MinCent(mode="once"), IdealTree()
schedulers = FairTree(), *bound, Fcfs(), Fcfs(mode="pull"), Fcfs(mode="random")
print(*(gs.simulate(scenario, scheduler).digest for scheduler in schedulers))
"""


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_digests_in_another_process_are_the_same(hash_seed: str, tmp_path: Path) -> None:
    # import the same gridsim, whether installed or in the source tree
    package = str(Path(gs.__file__).parents[1])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": package}
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=small_scenario().to_toml(),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout.split() == [
        gs.simulate(small_scenario(), scheduler).digest for scheduler in ALL.values()
    ]
