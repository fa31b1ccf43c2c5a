"""Energy and carbon of a run: exact cases, a sweep over all instants as reference, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError, TraceFormatError
from gridsim.scheduling.registry import make_scheduler
from gridsim.validation.energy import check_energy
from gridsim.validation.results import validate_result
from tests.simulation.test_cores import NAMES, scenarios
from tests.simulation.test_shared_machines import scenarios as shared_machines
from tests.validation.test_jobs import with_columns

INSTANT = gs.Network(latency=0.0)


def powered(scenario: gs.Scenario, **power: Any) -> gs.Scenario:
    """Return the scenario with the power of machines."""
    return scenario.replaced({"platform.power": power})


def joules(result: gs.Result, power: gs.Power, steps: list[tuple[float, float]]) -> tuple[list[float], list]:
    """Return J and kg of each machine, instant by instant, from a recorded schedule."""
    scenario, table = result.scenario, result.tables["schedule"]
    cores = scenario.platform.cores
    steps = [(time - scenario.workload.origin, value) for time, value in steps]
    begin, end = float(result.applications["release"].min()), float(result.applications["finish"].max())
    outages: dict[int, list[tuple[float, float]]] = {}
    if scenario.faults is not None:
        for u, down, up in scenario.faults.outages(len(result.machines), end):
            outages[u] = list(zip(down.tolist(), up.tolist(), strict=True))
    energy, carbon = [], []
    for u in range(len(result.machines)):
        c = 1 if cores is None else int(cores[u])
        rows = [(row["start"], row["end"]) for row in table.rows() if row["machine"] == u]
        times = {begin, end, *(t for row in rows for t in row), *(time for time, _ in steps)}
        times |= {t for outage in outages.get(u, []) for t in outage}
        instants = sorted(t for t in times if begin <= t <= end)
        total = grams = 0.0
        for start, stop in zip(instants, instants[1:], strict=False):
            middle = (start + stop) / 2
            watts = power.idle + (power.busy - power.idle) * sum(a <= middle < b for a, b in rows) / c
            if any(down <= middle < up for down, up in outages.get(u, [])):
                watts = power.off
            value = [value for time, value in steps if time <= middle][-1]
            total += watts * (stop - start)
            grams += watts * (stop - start) * value / 3.6e6
        energy.append(total)
        carbon.append(grams / 1000)
    return energy, carbon


@settings(max_examples=60, deadline=None)
@given(
    scenario=scenarios(),
    name=st.sampled_from(NAMES),
    watts=st.tuples(*(st.integers(0, 100) for _ in range(3))),
    changes=st.lists(st.tuples(st.floats(0.01, 40.0), st.integers(0, 500)), max_size=4),
)
def test_energy_is_that_of_all_instants(
    scenario: gs.Scenario, name: str, watts: tuple[int, ...], changes: list[tuple[float, int]]
) -> None:
    if not make_scheduler(name).failures:
        scenario = replace(scenario, faults=None)
    steps = [(0.0, 100.0), *((time, float(value)) for time, value in sorted(dict(changes).items()))]
    power = gs.Power(idle=watts[0], busy=watts[0] + watts[1], off=watts[2], carbon=steps)
    platform = gs.Platform.of(scenario.platform.speeds, cores=scenario.platform.recipe.cores, power=power)
    counted = gs.Scenario(
        platform, scenario.workload, scenario.network, scenario.seed, faults=scenario.faults
    )
    result = gs.simulate(counted, name, record="schedule")
    energy, carbon = joules(result, power, steps)
    assert result.machines["energy"] == pytest.approx(energy, rel=1e-9, abs=1e-6)
    assert result.machines["carbon"] == pytest.approx(carbon, rel=1e-9, abs=1e-12)
    assert validate_result(result) == []
    unrecorded, plain = gs.simulate(counted, name), gs.simulate(scenario, name)
    assert unrecorded.digest == result.digest
    assert "schedule" not in unrecorded.tables
    assert (plain.machines["busy"] == result.machines["busy"]).all()
    assert "energy" not in plain.machines and math.isnan(plain.energy)


@settings(max_examples=40, deadline=None)
@given(scenario=shared_machines(), value=st.sampled_from([300.0, 700.0]))
def test_jobs_that_share_machines_count_by_their_cores(scenario: gs.Scenario, value: float) -> None:
    """A series of one value gives the carbon of the energy, which is from busy times, by the schedule."""
    counted = powered(scenario, idle=10, busy=50, off=2, carbon=[[0, 300.0], [4, value]])
    result = gs.simulate(counted, "backfill", record="schedule")
    assert check_energy(result, counted.workload.realize(counted.platform)) == []
    if value == 300.0:
        assert result.carbon == pytest.approx(result.energy * 0.3, rel=1e-9)


def swf(path: Path, *jobs: tuple[int, int, int, int], procs: int) -> str:
    """Write a log of jobs: submission, wait and run time (s), and processors."""
    lines = [
        f"{k} {submit} {wait} {run} {size} -1 -1 {size} {run} -1 1 1 1 1 1 1 -1 -1"
        for k, (submit, wait, run, size) in enumerate(jobs, 1)
    ]
    path.write_text("\n".join([f"; MaxProcs: {procs}", *lines, ""]))
    return str(path)


@pytest.mark.parametrize("carbon", [None, 500.0, [(0.0, 500.0), (90.0, 100.0)]])
def test_whole_and_shared_nodes_use_equal_energy(tmp_path: Path, carbon: Any) -> None:
    """Jobs that need not wait use one of four cores, or five of eight, of their nodes."""
    log = swf(tmp_path / "log.swf", (0, 0, 100, 1), (10, 0, 50, 1), (70, 0, 40, 5), procs=24)
    power = gs.Power(idle=100.0, busy=180.0, carbon=carbon)
    whole = gs.Scenario(
        gs.Platform.equal(6, power=power), gs.Workload.jobs_from_log(log, cores_per_node=4), INSTANT
    )
    shared = gs.Scenario(gs.Platform.equal(6, cores=4, power=power), gs.Workload.jobs_from_log(log), INSTANT)
    joules = 6 * 100.0 * 110.0 + 20.0 * (100 * 1 + 50 * 1 + 40 * 5)
    for scenario in (whole, shared):
        queues = {"easy": gs.BatchQueue()}
        if scenario is shared:
            queues["whole"] = gs.BatchQueue(exclusive=True)
        comparison = gs.compare(scenario, queues, record="schedule")
        for result in comparison.all_results.values():
            assert result.energy == pytest.approx(joules / 3.6e6, rel=1e-12)
            if carbon == 500.0:
                assert result.carbon == pytest.approx(joules / 3.6e6 * 0.5, rel=1e-12)
            elif carbon is not None:
                late = 6 * 100.0 * 20 + 20.0 * (10 * 1 + 20 * 5)
                grams = 500.0 * (joules - late) + 100.0 * late
                assert result.carbon == pytest.approx(grams / 3.6e6 / 1e3, rel=1e-12)
        easy = comparison["easy"]
        assert comparison.log is not None and validate_result(easy) == []
        energy = easy.machines["energy"] * np.array([1, 1, 1, 1, 1, 2])
        wrong = with_columns(easy, machines={"energy": energy})
        assert "machines.energy[5]" in {violation.where for violation in validate_result(wrong)}


def test_energy_until_a_common_end_is_stated_if_runs_end_apart(tmp_path: Path) -> None:
    """Two jobs of two nodes run one after another, and at once on twice the nodes."""
    jobs = gs.Workload.jobs_of([0.0, 0.0], [2, 2], [3600.0, 3600.0])
    power = gs.Power(idle=1000.0, busy=2000.0)
    scenarios = {
        f"{nodes}": gs.Scenario(gs.Platform.equal(nodes, power=power), jobs, INSTANT) for nodes in (2, 4)
    }
    text = " ".join(str(gs.compare(scenarios, ["backfill"])).split())
    assert "with machines that idle until the end of backfill 2 it is backfill 2 8, backfill 4 12 kWh" in text
    log = swf(tmp_path / "log.swf", (0, 0, 3600, 2), (0, 7200, 3600, 2), procs=2)
    scenario = gs.Scenario(gs.Platform.equal(2, power=power), gs.Workload.jobs_from_log(log), INSTANT)
    text = " ".join(str(gs.compare(scenario, ["backfill", "backfill-fcfs"])).split())
    assert "with machines that idle until the end of log it is for each 10 kWh" in text


def test_the_energy_of_idle_machines_is_stated() -> None:
    """One of two machines idles for 70 of 100 s, at 36 kW: 2.52 MJ."""
    power = gs.Power(idle=36_000.0, busy=90_000.0)
    jobs = gs.Workload.jobs_of([0.0, 0.0], [1, 1], [30.0, 100.0], [30.0, 100.0])
    scenario = gs.Scenario(gs.Platform.equal(2, power=power), jobs)
    text = str(gs.compare(scenario, {"a": gs.BatchQueue()}))
    assert "energy that idle machines and cores draw: a 0.7 kWh" in text


def test_energy_of_a_log_counts_the_power_of_its_sites(tmp_path: Path) -> None:
    logs = [swf(tmp_path / f"{k}.swf", (0, 0, 100, 4), (10, 90, 50, 4), procs=4 + 4 * k) for k in (0, 1)]
    power = gs.Power(idle=[10.0, 20.0], busy=[110.0, 60.0])
    workload = gs.Workload.jobs_from_logs(logs, cores_per_node=[4, 2])
    comparison = gs.compare(
        gs.Scenario(gs.Platform.sites([1, 4], power=power), workload, INSTANT),
        {"sites": gs.BatchQueue(partitions="sites")},
    )
    busy = [100 * 150.0, 2 * 40.0 * 150.0]
    assert comparison.log is not None
    assert comparison.log.energy * 3.6e6 == pytest.approx(150.0 * (10.0 + 4 * 20.0) + sum(busy))
    assert comparison["sites"].energy == pytest.approx(comparison.log.energy)
    # which machines of a site a job used is unknown
    unequal = gs.Platform.sites([1, 4], power=gs.Power(idle=10.0, busy=[20.0, 20.0, 20.0, 20.0, 30.0]))
    comparison = gs.compare(gs.Scenario(unequal, workload, INSTANT), {"all": gs.BatchQueue()})
    assert comparison.log is not None and math.isnan(comparison.log.energy)
    assert [row[-1] for row in comparison.overview().tables[0].rows][1:] == ["unknown"]


def test_energy_of_machines_that_are_always_busy() -> None:
    jobs = gs.Workload.jobs_of([0.0], [32], [16088.51])
    platform = gs.Platform.equal(32, power=gs.Power(idle=10.0, busy=95.0))
    result = gs.simulate(gs.Scenario(platform, jobs, INSTANT), "asap")
    assert result.machines["energy"].sum() == pytest.approx(48_909_070.4, rel=1e-12)
    assert result.energy == pytest.approx(48_909_070.4 / 3.6e6, rel=1e-12)
    assert "energy" in result.format()


def test_power_of_kinds_and_of_single_machines() -> None:
    attributes = gs.ListedAttributes(kinds=("old", "new"))
    jobs = gs.Workload.of([0.0], [2], [10.0])
    power = gs.Power(idle={"new": 1, "old": "2 W"}, busy=[30.0, 5.0], carbon=500.0)
    platform = gs.Platform.of([1.0, 1.0], attributes=attributes, power=power)
    scenario = gs.Scenario(platform, jobs, INSTANT)
    result = gs.simulate(scenario, gs.Fcfs(mode="pull"))
    assert result.machines["energy"].tolist() == [300.0, 50.0]
    assert result.carbon == pytest.approx(350.0 / 3.6e6 * 0.5)
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
    assert hash(gs.Scenario.from_toml(scenario.to_toml()).platform) == hash(platform)


def test_energy_ends_with_the_run_if_a_job_is_cancelled() -> None:
    """The only finish is at 5 s, but the run ends at 7 s, when the user cancels the second job."""
    jobs = gs.Workload.jobs_of([0.0, 1.0], [1, 2], [5.0, 50.0], cancel_at=[math.inf, 7.0])
    platform = gs.Platform.equal(2, power=gs.Power(idle=1.0, busy=3.0))
    result = gs.simulate(gs.Scenario(platform, jobs, INSTANT), "asap", record=True)
    assert result.machines["energy"].sum() == pytest.approx(2 * 7.0 + 2 * result.machines["busy"].sum())
    assert validate_result(result) == []


def test_owners_leave_their_machines_on() -> None:
    faults = gs.Faults.of([0], [2.0], [4.0], reachable=True)
    jobs = gs.Workload.of([0.0], [2], [10.0], submitter=[1])
    platform = gs.Platform.equal(2, 1.0, power=gs.Power(idle=3.0, busy=3.0))
    result = gs.simulate(gs.Scenario(platform, jobs, INSTANT, faults=faults), gs.Wave())
    assert result.machines["energy"] == pytest.approx(3.0 * result.makespan)


def test_a_table_of_carbon_intensity_is_read_with_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "grid.csv").write_text("time_s,g_per_kwh\n0,100\n5,300\n")
    toml = (
        '[platform]\nkind = "equal"\nnodes = 1\nspeed = 1.0\n'
        '[platform.power]\nidle = 0\nbusy = "1 kW"\ncarbon = "grid.csv"\n'
        '[workload]\nkind = "list"\nrelease = [0.0]\ntasks = [1]\ntask_size = [10.0]\n'
    )
    (tmp_path / "sub" / "scenario.toml").write_text(toml)
    scenario = gs.Scenario.from_toml("sub/scenario.toml")
    result = gs.simulate(scenario, "mincent")
    assert result.carbon == pytest.approx((5 * 100 + 5 * 300) * 1000 / 3.6e6 / 1000)
    assert list(result.files_read) == ["sub/grid.csv"]
    scenario.save("copy.toml")
    assert gs.Scenario.from_toml("copy.toml") == scenario
    scenario.save("sub/copy.toml")
    assert 'carbon = "grid.csv"' in (tmp_path / "sub" / "copy.toml").read_text()
    for text, fault in (
        ("time_s,g\n0,1\n", "column g_per_kwh"),
        ("time_s,g_per_kwh\n", "at least one step"),
        ("time_s,g_per_kwh\n0,1\n0,2\n", "grid.csv:3: field time_s must be > 0"),
        ("time_s,g_per_kwh\n0,-1\n", "at least 0"),
        ("time_s,g_per_kwh\n0,x\n", "must be a number"),
        ("time_s,g_per_kwh\n0\n", "2 fields"),
    ):
        (tmp_path / "sub" / "grid.csv").write_text(text)
        with pytest.raises(TraceFormatError, match=fault):
            gs.Scenario.from_toml("sub/scenario.toml")


def test_a_series_counts_on_the_clock_of_the_releases() -> None:
    jobs = gs.Workload.of([1000.0], [1], [10.0])
    power = gs.Power(idle=0.0, busy=3.6e6, carbon=[(900.0, 1.0), (1004.0, 2.0)])
    scenario = gs.Scenario(gs.Platform.equal(1, 1.0, power=power), jobs, INSTANT)
    result = gs.simulate(scenario, "mincent", record="schedule")
    assert result.carbon == pytest.approx((4 + 2 * 6) / 1000)
    assert validate_result(result) == []
    with pytest.raises(ScenarioError, match=r"platform.power.carbon must begin by the first release, 1000 s"):
        gs.simulate(scenario.replaced({"platform.power.carbon": [[1001.0, 1.0], [1004.0, 2.0]]}), "mincent")
    with pytest.raises(ScenarioError, match="a series of carbon intensity"):
        gs.simulate(scenario, "fair-tree", processes=2)


@pytest.mark.parametrize("name", ["energy", "carbon"])
def test_validate_finds_wrong_columns(name: str) -> None:
    scenario = gs.Scenario(gs.Platform.equal(3, cores=2), gs.Workload.bags(2, seed=1))
    result = gs.simulate(
        powered(scenario, idle=1, busy=9, carbon=[[0, 5.0], [9, 7.0]]), "random", record=True
    )
    assert validate_result(result) == []
    wrong = with_columns(result, machines={name: result.machines[name] * np.array([1, 1, 1.0001])})
    assert [(violation.law, violation.where) for violation in validate_result(wrong)] == [
        ("energy", f"machines.{name}[2]")
    ]


def test_comparisons_show_energy_where_machines_have_power() -> None:
    scenario = gs.Scenario(gs.Platform.equal(3), gs.Workload.bags(2, seed=1))
    assert "energy" not in str(gs.compare(scenario, ["fcfs", "mincent"]))
    counted = gs.compare(powered(scenario, idle=1, busy=9, carbon=5.0), ["fcfs", "mincent"])
    assert "energy" in str(counted) and "carbon" in str(counted)
    grid = {"platform.power.busy": [9.0, 18.0]}
    swept = gs.sweep(counted["fcfs"].scenario, ["fcfs"], grid, replicates=2, metrics=["energy"])
    assert "energy (kWh)" in str(swept)


@pytest.mark.parametrize(
    ("power", "fault"),
    [
        ({"idle": -1.0, "busy": 1.0}, r"platform.power.idle must be a number in 0..1e\+09 W, got -1.0"),
        ({"idle": 2.0, "busy": 1.0}, "platform.power.busy must be at least idle, 2 W on machine 0, got 1"),
        ({"idle": [1.0], "busy": 2.0}, "platform.power.idle must have 2 entries, one per machine, got 1"),
        ({"idle": {"a": 1.0}, "busy": 2.0}, "a table platform.power.idle requires kinds of machines"),
        (
            {"idle": 1.0, "busy": 2.0, "off": "x"},
            "off must be .*, got 'x' .a string requires a unit: mW, W, kW",
        ),
        ({"idle": 1.0, "busy": 2.0, "carbon": -1.0}, "platform.power.carbon must be a number in"),
        ({"idle": 1.0, "busy": 2.0, "carbon": []}, "platform.power.carbon must have at least one step"),
        ({"idle": 1.0, "busy": 2.0, "carbon": [(0, 1, 2)]}, r"carbon\[0\] must be a pair"),
        ({"idle": 1.0, "busy": 2.0, "carbon": [(5, 1), (5, 2)]}, r"carbon\[1\]\[0\] must be .* > 5 s"),
    ],
)
def test_bad_power_is_an_error(power: dict[str, Any], fault: str) -> None:
    with pytest.raises(ScenarioError, match=fault):
        gs.Platform.equal(2, power=gs.Power(**power))


def test_power_of_a_kind_must_be_stated() -> None:
    attributes = gs.ListedAttributes(kinds=("a", "b"))
    with pytest.raises(ScenarioError, match="an entry for each kind of machine, got none for 'b'"):
        gs.Platform.equal(2, attributes=attributes, power=gs.Power(idle={"a": 1.0}, busy=2.0))
    with pytest.raises(ScenarioError, match="platform.power must be Power or None, got 95"):
        gs.Platform.equal(2, power=95)  # type: ignore[arg-type]


def test_a_site_keeps_the_power_of_its_machines() -> None:
    power = gs.Power(idle=[1.0, 2.0, 3.0], busy=5.0, carbon=7.0)
    site = gs.Platform.sites([1, 2], power=power).site(1)
    assert site.power is not None and site.power.idle.tolist() == [2.0, 3.0]
    assert site.recipe.power is not None and site.recipe.power.carbon == 7.0


def test_validate_finds_wrong_energy_besides_other_violations() -> None:
    scenario = gs.Scenario(gs.Platform.equal(3, cores=2), gs.Workload.bags(2, seed=1))
    result = gs.simulate(
        powered(scenario, idle=1, busy=9, carbon=[[0, 5.0], [9, 7.0]]), "random", record=True
    )
    energy = {name: result.machines[name] * np.array([1, 1, 1.0001]) for name in ("energy", "carbon")}
    wrong = with_columns(result, machines=energy)
    wrong.stated_digest = result.digest[::-1]
    expected = [("energy", "machines.energy[2]"), ("energy", "machines.carbon[2]")]
    found = [(violation.law, violation.where) for violation in validate_result(wrong)]
    assert found == [("digest", "result.json"), *expected]
    # without the machines of the schedule, carbon cannot be computed
    machine = result.tables["schedule"]["machine"].copy()
    machine[0] = 2**40
    wrong = with_columns(result, machines=energy, schedule={"machine": machine})
    found = [(violation.law, violation.where) for violation in validate_result(wrong)]
    assert expected[0] in found and expected[1] not in found and "unknown" in {law for law, _ in found}


def test_other_violations_are_found_if_energy_cannot_be_computed() -> None:
    """The failures until the wrong finish are too many to be generated."""
    faults = gs.Faults.exponential(up=200.0, down=30.0, seed=4)
    scenario = gs.Scenario(gs.Platform.equal(9), gs.Workload.bags(5, 10.0, 4.0, seed=2), faults=faults)
    result = gs.simulate(powered(scenario, idle=1, busy=9), "fcfs")
    finish = result.applications["finish"].copy()
    finish[0] = 1e12
    wrong = with_columns(result, applications={"finish": finish})
    assert {violation.law for violation in validate_result(wrong)} == {"stretch"}
