"""The four wave schedulers: cases computed by hand, where tasks go, and what validation makes of the rows."""

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


def ran(scenario: gs.Scenario, mode: Any, **parameters: Any) -> gs.Result:
    result = gs.simulate(scenario, gs.Wave(mode=mode, **parameters), record=True)
    assert validate_result(result) == []
    return result


def rows(result: gs.Result) -> list[Row]:
    """(task, machine, start, end, completed, Mflop done before) in order of start; of one application."""
    table = result.tables["schedule"]
    columns = (table[name].tolist() for name in ("task", "machine", "start", "end", "completed", "begin"))
    return sorted(zip(*columns, strict=True), key=lambda row: row[2])


def grid(machines: int, tasks: int, faults: gs.Faults | None = None, seed: int = 0) -> gs.Scenario:
    """Tasks of 100 s, released at 0."""
    workload = gs.Workload.of([0.0], tasks, 100_000.0)
    return gs.Scenario(gs.Platform.equal(machines, 1000.0), workload, seed=seed, faults=faults)


#: Machine 1 joins at 30 s; the owner of machine 0 is there from 40 to 60 s.
OWNER = gs.Faults.of([1, 0], [0.0, 40.0], [30.0, 60.0])


# -- by hand ------------------------------------------------------------------------------------------------


@IMMEDIATE
def test_a_task_moves_at_once(mode: str) -> None:
    result = ran(grid(2, 1, OWNER), mode, migration_cost=5.0)
    assert rows(result) == [(0, 0, 0.0, 40.0, 0, 0.0), (0, 1, 40.0, 105.0, 1, 40_000.0)]
    told = {name: int(result.applications[name][0]) for name in ("resubmitted", "migrated", "resumed")}
    assert told == {"resubmitted": 1, "migrated": 1, "resumed": 0}
    cycles = {name: column.tolist() for name, column in result.tables["cycles"].items()}
    assert cycles == {
        "useful": [100_000.0], "redundant": [0.0], "lost": [0.0], "overhead": [5000.0], "slowed": [0.0],
    }  # fmt: skip
    assert result.machines["interrupted"].tolist() == [1, 0] and result.undisturbed == 0


@LINGER
def test_a_task_waits_for_its_host(mode: str) -> None:
    """If it would wait longer than to 60 s it goes on where it was, and moves nowhere; else it moves then."""
    ends = []
    for seed in range(8):
        wait = round(Streams(seed)("wave.linger").uniform(0.0, 40.0) * NS) / NS
        result = ran(grid(2, 1, OWNER, seed), mode, linger=40.0, migration_cost=5.0)
        last = rows(result)[-1]
        if wait > 20.0:
            assert last == (0, 0, 60.0, 120.0, 1, 40_000.0) and result.applications["resumed"][0] == 1
        else:
            assert last == (0, 1, pytest.approx(40 + wait), pytest.approx(105 + wait), 1, 40_000.0)
            assert result.applications["migrated"][0] == 1
        ends.append(wait > 20.0)
    assert set(ends) == {True, False}


@ALL
def test_the_list_has_who_lost_a_host_first(mode: str) -> None:
    faults = gs.Faults.of([0], [50.0], [80.0])
    result = ran(grid(1, 2, faults), mode, linger=0.0)
    assert rows(result) == [
        (0, 0, 0.0, 50.0, 0, 0.0),
        (0, 0, 80.0, 130.0, 1, 50_000.0),
        (1, 0, 130.0, 230.0, 1, 0.0),
    ]
    assert result.applications["resumed"][0] == 1 and result.undisturbed == 1


@ALL
def test_of_those_who_lost_a_host_the_first_goes_first(mode: str) -> None:
    """Task 1 loses its host at 10 s, task 0 at 20 s; the first host is back at 30 s, the other one is not."""
    host = {task: u for task, u, *_ in rows(ran(grid(2, 2), mode))}
    faults = gs.Faults.of([host[1], host[0]], [10.0, 20.0], [30.0, 1000.0])
    again = rows(ran(grid(2, 2, faults), mode, linger=0.0))[2:]
    assert again == [(1, host[1], 30.0, 120.0, 1, 10_000.0), (0, host[1], 120.0, 200.0, 1, 20_000.0)]


@ALL
def test_a_task_that_ends_as_its_host_goes_is_done(mode: str) -> None:
    result = ran(grid(1, 2, gs.Faults.of([0], [100.0], [110.0])), mode)
    assert rows(result) == [(0, 0, 0.0, 100.0, 1, 0.0), (1, 0, 110.0, 210.0, 1, 0.0)]


@ALL
def test_a_host_that_waits_for_its_owner_has_its_task(mode: str) -> None:
    """Two tasks, two hosts; what is released meanwhile gets none."""
    faults = gs.Faults.of([0, 1], [50.0, 50.0], [50.5, 50.5])
    result = ran(grid(2, 3, faults), mode, linger=1000.0)
    again = {(row[0], row[1]) for row in rows(result) if row[2] == 50.5}
    assert {task for task, _ in again} == {0, 1}
    if mode.endswith("linger"):
        assert again == {(row[0], row[1]) for row in rows(result) if row[2] == 0.0}
        assert result.applications["resumed"][0] == 2


@IMMEDIATE
def test_a_move_that_is_cut_off(mode: str) -> None:
    """Ten seconds into a move of thirty the new host goes for five: the rest of the move follows."""
    faults = gs.Faults.of([1, 0, 1], [0.0, 40.0, 50.0], [30.0, 500.0, 55.0])
    result = ran(grid(2, 1, faults), mode, migration_cost=30.0)
    assert rows(result)[1:] == [(0, 1, 40.0, 50.0, 0, 40_000.0), (0, 1, 55.0, 135.0, 1, 40_000.0)]
    assert result.tables["cycles"]["overhead"].tolist() == [30_000.0]
    elsewhere = gs.Faults.of([1, 0, 1], [0.0, 40.0, 50.0], [30.0, 55.0, 500.0])
    result = ran(grid(2, 1, elsewhere), mode, migration_cost=30.0)
    assert rows(result)[2] == (0, 0, 55.0, 145.0, 1, 40_000.0)  # all of it anew
    assert result.applications["migrated"][0] == 2


def test_any_free_host_is_drawn() -> None:
    first = [rows(ran(grid(4, 1, seed=seed), "migration-immediate"))[0][1] for seed in range(40)]
    assert min(np.bincount(first, minlength=4)) >= 4


# -- where tasks go -----------------------------------------------------------------------------------------


def nightly(seed: int = 1) -> gs.Scenario:
    """Owners who are away for much of the day; more hosts than tasks at one time, then fewer."""
    return gs.Scenario(
        gs.Platform.desktop_grid(48, seed),
        gs.Workload.bags(60, 1500.0, tasks=3, task_size=(7.2e6, 4e7), seed=seed),
        seed=seed,
        faults=gs.Faults.zones(seed, gs.Zones(zones=12), day_up=0.4, spell=3600.0),
    )


def test_a_start_is_outside_the_night_where_no_zone_has_one() -> None:
    """It begins at 5 h; the clocks show 0 h and 12 h."""
    zones = gs.Zones(zones=2, night_begin=5.0, night_hours=1.0)
    faults = gs.Faults.zones(1, zones, day_up=0.9, spread=0.0)
    bag = gs.Workload.of([10.0], 1, 1000.0)
    result = ran(gs.Scenario(gs.Platform.equal(2, 1000.0), bag, faults=faults), "wave-immediate")
    assert len(result.tables["schedule"]) == 1 and result.facts["outside_night"] == 1


def starts_outside(result: gs.Result) -> tuple[int, int]:
    """Starts on another host than before, where it is not night: how many, and while a host had night."""
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
def test_waves_go_where_it_is_night(mode: str) -> None:
    result = ran(nightly(), mode, migration_cost=60.0)
    outside, wrong = starts_outside(result)
    assert outside > 50
    if mode.startswith("wave"):
        # a task from the list may also get the host that it had
        again = result.applications["resumed"].sum()
        assert wrong == 0 and 0 <= result.facts["outside_night"] - outside <= again
    else:
        assert wrong > 50 and result.facts["outside_night"] == 0


@pytest.mark.parametrize("what", ["migration", "wave"])
def test_not_to_wait_is_to_move_at_once(what: str) -> None:
    """Where no host is back at the instant at which it goes."""
    ends = [ran(nightly(3), f"{what}-{kind}", linger=0.0) for kind in ("immediate", "linger")]
    assert ends[0].tables == ends[1].tables


def test_without_zones_there_is_no_night() -> None:
    for faults in (None, gs.Faults.exponential(4000.0, 500.0, 1)):
        scenario = gs.Scenario(gs.Platform.equal(9), gs.Workload.of([0.0], 30, 1e6), faults=faults)
        for kind in ("immediate", "linger"):
            one, other = (ran(scenario, f"{what}-{kind}") for what in ("migration", "wave"))
            assert one.tables == other.tables


def test_hosts_that_all_go_for_good() -> None:
    faults = gs.Faults.of([0, 1], [10.0, 20.0], [np.inf, np.inf])
    with pytest.raises(gs.ScenarioError, match="at 20 s the last one fails for good, with 3 tasks left"):
        ran(grid(2, 3, faults), "migration-linger")


# -- parameters ---------------------------------------------------------------------------------------------


def test_the_four_are_known_by_name() -> None:
    for mode in MODES:
        cls, preset = registered()[mode]
        assert cls(**preset) == gs.Wave(mode=mode)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"mode": "wave"}, r"wave.mode must be one of \('migration-immediate', .*\), got 'wave'"),
        ({"linger": -1.0}, r"wave.linger must be a number in 0..1e\+07 s, got -1.0"),
        ({"linger": 1e8}, r"wave.linger must be a number in 0..1e\+07 s, got 100000000.0"),
        ({"migration_cost": float("nan")}, r"wave.migration_cost must be a number in 0..1e\+07 s, got nan"),
        ({"migration_cost": 1e9}, r"wave.migration_cost must be a number in 0..1e\+07 s"),
    ],
)
def test_bad_parameters(parameters: Any, said: str) -> None:
    with pytest.raises(gs.ScenarioError, match=said):
        gs.Wave(**parameters)


# -- validation ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column", "change", "law"),
    [
        ("schedule", "begin", lambda c: c + 1.0, "begin"),  # progress from nowhere
        ("schedule", "begin", lambda c: np.where(c > 0, 0.0, c), "begin"),  # progress forgotten
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
def test_what_is_broken_is_found(table: str, column: str, change: Any, law: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 2000.0, 1500.0]),
        gs.Workload.of_tasks([0.0, 1.0], [[1e5, 2e5, 3e5], [2e5, 1e5]]),
        faults=gs.Faults.exponential(60.0, 20.0, 1),
    )
    result = ran(scenario, "migration-immediate", migration_cost=3.0)
    assert result.applications["migrated"].min() >= 1 and len(set(result.tables["cycles"]["overhead"])) == 2
    if table == "scheduler":
        parameters = {**result.scheduler["parameters"], column: change}
        tables, scheduler = result.tables, {**result.scheduler, "parameters": parameters}
    else:
        columns = dict(result.tables[table].items())
        columns[column] = change(columns[column])
        tables, scheduler = {**result.tables, table: gs.Table(columns)}, result.scheduler
    other = gs.Result(tables=tables, facts=result.facts, scheduler=scheduler, provenance=result.provenance)
    assert law in [violation.law for violation in validate_result(other)]
