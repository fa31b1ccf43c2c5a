"""The four wave schedulers: cases computed by hand, choice of hosts, parameters and validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.schedulers import MODES
from gridsim.scheduling.registry import registered
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

ALL = pytest.mark.parametrize("mode", MODES)
IMMEDIATE = pytest.mark.parametrize("mode", [mode for mode in MODES if mode.endswith("immediate")])
LINGER = pytest.mark.parametrize("mode", [mode for mode in MODES if mode.endswith("linger")])

Row = tuple[int, int, float, float, int, float]


def validated_result(scenario: gs.Scenario, mode: Any, **parameters: Any) -> gs.Result:
    result = gs.simulate(scenario, gs.Wave(mode=mode, **parameters), record=True)
    assert validate_result(result) == []
    return result


def rows(result: gs.Result) -> list[Row]:
    """Return (task, machine, start, end, completed, Mflop done before) of one application, by start."""
    table = result.tables["schedule"]
    columns = (table[name].tolist() for name in ("task", "machine", "start", "end", "completed", "begin"))
    return sorted(zip(*columns, strict=True), key=lambda row: row[2])


def grid(machines: int, tasks: int, faults: gs.Faults | None = None, seed: int = 0) -> gs.Scenario:
    """Return tasks of 100 s, released at 0."""
    workload = gs.Workload.of([0.0], tasks, 100_000.0)
    return gs.Scenario(gs.Platform.equal(machines, 1000.0), workload, seed=seed, faults=faults)


#: Machine 1 joins at 30 s; the owner of machine 0 is there from 40 to 60 s.
OWNER = gs.Faults.of([1, 0], [0.0, 40.0], [30.0, 60.0])


# -- computed by hand -------------------------------------------------------------------------------------


@IMMEDIATE
def test_interrupted_task_moves_at_once(mode: str) -> None:
    result = validated_result(grid(2, 1, OWNER), mode, migration_cost=5.0)
    assert rows(result) == [(0, 0, 0.0, 40.0, 0, 0.0), (0, 1, 40.0, 105.0, 1, 40_000.0)]
    counts = {name: int(result.applications[name][0]) for name in ("resubmitted", "migrated", "resumed")}
    assert counts == {"resubmitted": 1, "migrated": 1, "resumed": 0}
    cycles = {name: column.tolist() for name, column in result.tables["cycles"].items()}
    assert cycles == {
        "useful": [100_000.0], "redundant": [0.0], "lost": [0.0], "overhead": [5000.0], "slowed": [0.0],
    }  # fmt: skip
    assert result.machines["interrupted"].tolist() == [1, 0] and result.undisturbed == 0


@LINGER
def test_lingering_task_resumes_if_its_host_recovers(mode: str) -> None:
    """If the wait ends after 60 s the task resumes on its host; otherwise it moves."""
    ends = []
    for seed in range(8):
        wait = round(Streams(seed)("wave.linger").uniform(0.0, 40.0) * NS) / NS
        result = validated_result(grid(2, 1, OWNER, seed), mode, linger=40.0, migration_cost=5.0)
        last = rows(result)[-1]
        if wait > 20.0:
            assert last == (0, 0, 60.0, 120.0, 1, 40_000.0) and result.applications["resumed"][0] == 1
        else:
            assert last == (0, 1, pytest.approx(40 + wait), pytest.approx(105 + wait), 1, 40_000.0)
            assert result.applications["migrated"][0] == 1
        ends.append(wait > 20.0)
    assert set(ends) == {True, False}


@ALL
def test_interrupted_tasks_precede_unstarted_tasks(mode: str) -> None:
    faults = gs.Faults.of([0], [50.0], [80.0])
    result = validated_result(grid(1, 2, faults), mode, linger=0.0)
    assert rows(result) == [
        (0, 0, 0.0, 50.0, 0, 0.0),
        (0, 0, 80.0, 130.0, 1, 50_000.0),
        (1, 0, 130.0, 230.0, 1, 0.0),
    ]
    assert result.applications["resumed"][0] == 1 and result.undisturbed == 1


@ALL
def test_interrupted_tasks_move_in_order_of_interruption(mode: str) -> None:
    """Task 1 loses its host at 10 s, task 0 at 20 s; only the first host recovers, at 30 s."""
    host = {task: u for task, u, *_ in rows(validated_result(grid(2, 2), mode))}
    faults = gs.Faults.of([host[1], host[0]], [10.0, 20.0], [30.0, 1000.0])
    resumed = rows(validated_result(grid(2, 2, faults), mode, linger=0.0))[2:]
    assert resumed == [(1, host[1], 30.0, 120.0, 1, 10_000.0), (0, host[1], 120.0, 200.0, 1, 20_000.0)]


@ALL
def test_task_that_ends_as_its_host_fails_is_completed(mode: str) -> None:
    result = validated_result(grid(1, 2, gs.Faults.of([0], [100.0], [110.0])), mode)
    assert rows(result) == [(0, 0, 0.0, 100.0, 1, 0.0), (1, 0, 110.0, 210.0, 1, 0.0)]


@ALL
def test_failed_host_keeps_its_lingering_task(mode: str) -> None:
    """Two tasks run on two hosts; the third task gets no host before they end."""
    faults = gs.Faults.of([0, 1], [50.0, 50.0], [50.5, 50.5])
    result = validated_result(grid(2, 3, faults), mode, linger=1000.0)
    resumed = {(row[0], row[1]) for row in rows(result) if row[2] == 50.5}
    assert {task for task, _ in resumed} == {0, 1}
    if mode.endswith("linger"):
        assert resumed == {(row[0], row[1]) for row in rows(result) if row[2] == 0.0}
        assert result.applications["resumed"][0] == 2


@IMMEDIATE
def test_interrupted_migration_continues_on_its_host_or_starts_over(mode: str) -> None:
    """The new host fails for 5 s at 10 s of a migration of 30 s: the rest of the migration follows."""
    faults = gs.Faults.of([1, 0, 1], [0.0, 40.0, 50.0], [30.0, 500.0, 55.0])
    result = validated_result(grid(2, 1, faults), mode, migration_cost=30.0)
    assert rows(result)[1:] == [(0, 1, 40.0, 50.0, 0, 40_000.0), (0, 1, 55.0, 135.0, 1, 40_000.0)]
    assert result.tables["cycles"]["overhead"].tolist() == [30_000.0]
    other_host = gs.Faults.of([1, 0, 1], [0.0, 40.0, 50.0], [30.0, 55.0, 500.0])
    result = validated_result(grid(2, 1, other_host), mode, migration_cost=30.0)
    assert rows(result)[2] == (0, 0, 55.0, 145.0, 1, 40_000.0)  # the whole migration cost is paid again
    assert result.applications["migrated"][0] == 2


def test_every_free_host_can_be_drawn() -> None:
    first = [rows(validated_result(grid(4, 1, seed=seed), "migration-immediate"))[0][1] for seed in range(40)]
    assert min(np.bincount(first, minlength=4)) >= 4


# -- choice of hosts --------------------------------------------------------------------------------------


def nightly_scenario(seed: int = 1) -> gs.Scenario:
    """Return hosts whose owners are absent for much of the day; at times there are fewer hosts than tasks."""
    return gs.Scenario(
        gs.Platform.desktop_grid(48, seed),
        gs.Workload.bags(60, 1500.0, tasks=3, task_size=(7.2e6, 4e7), seed=seed),
        seed=seed,
        faults=gs.Faults.zones(seed, gs.Zones(zones=12), day_up=0.4, spell=3600.0),
    )


def test_start_counts_as_outside_the_night_if_no_zone_has_night() -> None:
    """Night begins at 5 h; the local times are 0 h and 12 h."""
    zones = gs.Zones(zones=2, night_begin=5.0, night_hours=1.0)
    faults = gs.Faults.zones(1, zones, day_up=0.9, spread=0.0)
    bag = gs.Workload.of([10.0], 1, 1000.0)
    result = validated_result(gs.Scenario(gs.Platform.equal(2, 1000.0), bag, faults=faults), "wave-immediate")
    assert len(result.tables["schedule"]) == 1 and result.facts["outside_night"] == 1


def count_day_moves(result: gs.Result) -> tuple[int, int]:
    """Return the number of moves to hosts by day, and of those made while a free host was at night."""
    faults, nodes = result.scenario.faults, len(result.machines)
    assert faults is not None and faults.time_zones is not None
    table = result.tables["schedule"]
    u, task, starts, ends = (table[name] for name in ("machine", "task", "start", "end"))
    ns = np.rint(starts * NS).astype(np.int64)
    key = table["application"] * 1000 + task
    order = np.lexsort((starts, key))
    moved = np.ones(len(u), np.bool_)
    moved[order[1:]] = (np.diff(key[order]) != 0) | (np.diff(u[order]) != 0)
    changes: list[tuple[int, int, bool]] = []
    for block in faults.course(nodes).blocks:
        changes += zip(block.time.tolist(), block.machine.tolist(), block.up.tolist(), strict=True)
        if changes[-1][0] > ns.max():
            break
    up, k, outside, wrong = np.ones(nodes, np.bool_), 0, 0, 0
    for row in np.argsort(ns):
        now = int(ns[row])
        while changes[k][0] <= now:
            up[changes[k][1]] = changes[k][2]
            k += 1
        night = faults.time_zones.night(np.arange(nodes), now)
        if moved[row] and not night[u[row]]:
            outside += 1
            busy = np.zeros(nodes, np.bool_)
            busy[u[(starts <= starts[row]) & (starts[row] < ends)]] = True
            wrong += bool((night & up & ~busy).any())
    return outside, wrong


@ALL
def test_waves_prefer_hosts_at_night(mode: str) -> None:
    result = validated_result(nightly_scenario(), mode, migration_cost=60.0)
    outside, wrong = count_day_moves(result)
    assert outside > 50
    if mode.startswith("wave"):
        # a task from the list may also return to its host
        resumed = result.applications["resumed"].sum()
        assert wrong == 0 and 0 <= result.facts["outside_night"] - outside <= resumed
    else:
        assert wrong > 50 and result.facts["outside_night"] == 0


@pytest.mark.parametrize("strategy", ["migration", "wave"])
def test_lingering_for_no_time_equals_immediate_moves(strategy: str) -> None:
    """No host recovers at the instant at which it fails."""
    ends = [
        validated_result(nightly_scenario(3), f"{strategy}-{kind}", linger=0.0)
        for kind in ("immediate", "linger")
    ]
    assert ends[0].tables == ends[1].tables


def test_waves_without_zones_equal_migrations() -> None:
    for faults in (None, gs.Faults.exponential(4000.0, 500.0, 1)):
        scenario = gs.Scenario(gs.Platform.equal(9), gs.Workload.of([0.0], 30, 1e6), faults=faults)
        for kind in ("immediate", "linger"):
            migration, wave = (validated_result(scenario, f"{name}-{kind}") for name in ("migration", "wave"))
            assert migration.tables == wave.tables


def test_run_fails_if_all_hosts_fail_for_good() -> None:
    faults = gs.Faults.of([0, 1], [10.0, 20.0], [np.inf, np.inf])
    with pytest.raises(gs.ScenarioError, match="t = 20 s: the last machine failed for good, with 3 tasks"):
        validated_result(grid(2, 3, faults), "migration-linger")


# -- parameters -------------------------------------------------------------------------------------------


def test_each_mode_is_a_registered_scheduler() -> None:
    for mode in MODES:
        cls, preset = registered()[mode]
        assert cls(**preset) == gs.Wave(mode=mode)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mode": "wave"}, r"wave.mode must be one of migration-immediate, .*, got 'wave'"),
        ({"linger": -1.0}, r"wave.linger must be a number in 0..1e\+07 s, got -1.0"),
        ({"linger": 1e8}, r"wave.linger must be a number in 0..1e\+07 s, got 100000000.0"),
        ({"migration_cost": float("nan")}, r"wave.migration_cost must be a number in 0..1e\+07 s, got nan"),
        ({"migration_cost": 1e9}, r"wave.migration_cost must be a number in 0..1e\+07 s"),
    ],
)
def test_bad_parameters_are_rejected(parameters: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        gs.Wave(**parameters)


# -- validation -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column", "change", "invariant"),
    [
        ("schedule", "begin", lambda c: c + 1.0, "begin"),  # progress without work
        ("schedule", "begin", lambda c: np.where(c > 0, 0.0, c), "begin"),  # progress lost
        ("schedule", "end", lambda c: np.where(c == c.max(), c + 1e-6, c), "cycles"),
        ("schedule", "machine", lambda c: c[::-1].copy(), "cycles"),
        ("schedule", "task", lambda c: np.where(c == 0, 1, np.where(c == 1, 0, c)), "begin"),
        ("applications", "migrated", lambda c: c + 1, "agreement"),
        ("applications", "resumed", lambda c: c + 1, "agreement"),
        ("applications", "resubmitted", lambda c: c - 1, "agreement"),
        ("scheduler", "migration_cost", 2.0, "duration"),
        ("cycles", "overhead", lambda c: c[::-1].copy(), "cycles"),
    ],
)
def test_validation_detects_broken_tables(table: str, column: str, change: Any, invariant: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 2000.0, 1500.0]),
        gs.Workload.of_tasks([0.0, 1.0], [[1e5, 2e5, 3e5], [2e5, 1e5]]),
        faults=gs.Faults.exponential(60.0, 20.0, 1),
    )
    result = validated_result(scenario, "migration-immediate", migration_cost=3.0)
    assert result.applications["migrated"].min() >= 1 and len(set(result.tables["cycles"]["overhead"])) == 2
    if table == "scheduler":
        parameters = {**result.scheduler["parameters"], column: change}
        tables, scheduler = result.tables, {**result.scheduler, "parameters": parameters}
    else:
        columns = dict(result.tables[table].items())
        columns[column] = change(columns[column])
        tables, scheduler = {**result.tables, table: gs.Table(columns)}, result.scheduler
    broken = gs.Result(tables=tables, facts=result.facts, scheduler=scheduler, provenance=result.provenance)
    assert invariant in [violation.law for violation in validate_result(broken)]
