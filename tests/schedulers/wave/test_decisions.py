"""Decisions of the four wave schedulers: cases computed by hand, and agreement with the schedule."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.table import Table
from gridsim.schedulers import MODES
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams

NAN, INF = math.nan, math.inf
PLACED = ("started", "moved", "returned")
#: Action, time, task, machine, tasks, among, saw, limit, true; the last three in s.
Row = tuple[str, float, int, int, int, int, float, float, float]


def decision_rows(table: Table) -> list[Row]:
    names = ("action", "time", "task", "machine", "tasks", "among", "saw", "limit", "true")
    assert (table["decider"] == -1).all() and not table["age"].any()
    return list(zip(*(table[name].tolist() for name in names), strict=True))


def assert_rows_equal(rows: list[Row], expected: list[Row]) -> None:
    assert [row[:1] + row[2:6] for row in rows] == [row[:1] + row[2:6] for row in expected]
    numbers = [[row[1], *row[6:]] for row in rows], [[row[1], *row[6:]] for row in expected]
    np.testing.assert_allclose(*numbers, rtol=1e-12, atol=1e-9)


# -- computed by hand -------------------------------------------------------------------------------------

#: Machine 1 joins at 30 s; the owner of machine 0 is there from 40 to 60 s.
OWNER = gs.Faults.of([1, 0], [0.0, 40.0], [30.0, 60.0])


def grid(seed: int = 0) -> gs.Scenario:
    """Return two hosts and a task of 100 s."""
    workload = gs.Workload.of([0.0], 1, 100_000.0)
    return gs.Scenario(gs.Platform.equal(2, 1000.0), workload, seed=seed, faults=OWNER)


def test_task_that_moves_at_once_has_three_decisions() -> None:
    result = gs.simulate(grid(), gs.Wave(migration_cost=5.0), record="decisions")
    assert_rows_equal(
        decision_rows(result.tables["decisions"]),
        [
            ("started", 0.0, 0, 0, 1, 1, NAN, 100.0, 40.0),
            ("lost", 40.0, 0, 0, 0, -1, NAN, NAN, 20.0),
            ("moved", 40.0, 0, 1, 1, 1, NAN, 65.0, INF),
        ],
    )
    assert str(result.why(0, 0)).splitlines()[1:] == [
        "t = 0.000000 s: the scheduler "
        "gave task 0, the first of 1 waiting, to machine 0 (of 1 free), for 100 s",
        "    true value: its owner back after 40 s",
        "t = 40.000000 s: the scheduler took task 0 from machine 0, whose owner is back",
        "    true value: its owner gone after 20 s",
        "t = 40.000000 s: the scheduler "
        "moved task 0, the first of 1 waiting, to machine 1 (of 1 free), for 65 s",
        "    true value: its owner back after inf s",
    ]


def test_lingering_task_resumes_or_gives_up() -> None:
    actions = set()
    for seed in range(8):
        wait = Streams(seed)("wave.linger").uniform(0.0, 40.0)
        wave = gs.Wave(mode="migration-linger", linger=40.0)
        rows = decision_rows(gs.simulate(grid(seed), wave, record="decisions").tables["decisions"])
        assert_rows_equal(rows[1:2], [("waited", 40.0, 0, 0, 0, -1, NAN, wait, 20.0)])
        if wait > 20.0:
            assert_rows_equal(rows[2:], [("went-on", 60.0, 0, 0, 0, -1, NAN, 60.0, INF)])
        else:
            gave_up = ("gave-up", 40.0 + wait, 0, 0, 0, -1, NAN, NAN, 20.0 - wait)
            assert_rows_equal(rows[2:], [gave_up, ("moved", 40.0 + wait, 0, 1, 1, 1, NAN, 60.0, INF)])
        actions.add(rows[2][0])
    assert actions == {"went-on", "gave-up"}


@pytest.mark.parametrize("kind", ["migration", "wave"])
def test_hosts_up_at_night_run_tasks_in_turn(kind: str) -> None:
    """Night of machine 0 is from 22 h to 6 h, that of machine 1 from 10 h to 18 h."""
    faults = gs.Faults.zones(1, gs.Zones(zones=2), day_up=0.0, spread=0.0)
    workload = gs.Workload.of([0.0], 2, 25_000_000.0)
    scenario = gs.Scenario(gs.Platform.equal(2, 1000.0), workload, faults=faults)
    wave = gs.Wave(mode=f"{kind}-immediate")  # type: ignore[arg-type]
    rows = decision_rows(gs.simulate(scenario, wave, record="decisions").tables["decisions"])
    sky, hour = "-night" if kind == "wave" else "", 3600.0

    def visible_time(left: float) -> float:
        return left if sky else NAN

    assert_rows_equal(
        rows,
        [
            ("started" + sky, 0.0, 0, 0, 2, 1, visible_time(6 * hour), 25_000.0, 6 * hour),
            ("lost", 6 * hour, 0, 0, 0, -1, NAN, NAN, 16 * hour),
            # the first task has 3400 s left
            ("moved" + sky, 10 * hour, 0, 1, 2, 1, visible_time(8 * hour), 3_400.0, 8 * hour),
            (
                "started" + sky,
                39_400.0,
                1,
                1,
                1,
                1,
                visible_time(18 * hour - 39_400.0),
                25_000.0,
                18 * hour - 39_400.0,
            ),
        ],
    )


# -- agreement with the schedule --------------------------------------------------------------------------

#: At some times there are more hosts than tasks, at others fewer; owners are absent for a part of the day.
NIGHTLY = gs.Scenario(
    gs.Platform.desktop_grid(24, 1),
    gs.Workload.bags(30, 1500.0, tasks=3, task_size=(7.2e6, 4e7), seed=1),
    faults=gs.Faults.zones(1, gs.Zones(zones=12), day_up=0.4, spell=3600.0),
)


@pytest.mark.parametrize("mode", MODES)
def test_decisions_agree_with_the_schedule(mode: Any) -> None:
    wave = gs.Wave(mode=mode, linger=4000.0, migration_cost=60.0)
    result = gs.simulate(NIGHTLY, wave, record="all")
    table, schedule, zones = result.tables["decisions"], result.tables["schedule"], gs.Zones(zones=12)
    actions = np.array([action.removesuffix("-night").removesuffix("-day") for action in table["action"]])
    counts, columns = Counter(actions.tolist()), result.applications
    assert counts["started"] == columns["tasks"].sum() and counts["moved"] == columns["migrated"].sum() > 30
    assert counts["returned"] + counts["went-on"] == columns["resumed"].sum()
    assert counts["lost"] + counts["waited"] == columns["resubmitted"].sum() > 30
    assert (
        bool(counts["waited"]) == bool(counts["went-on"]) == mode.endswith("linger") != bool(counts["lost"])
    )

    # each run has a decision at its start, and ends at the recorded true time
    begins = np.flatnonzero(np.isin(actions, (*PLACED, "went-on")))
    names = ("time", "application", "task", "machine")
    starts = begins[np.lexsort([table[name][begins] for name in names])]
    rows = np.lexsort([schedule[name] for name in ("start", *names[1:])])
    for name, column in zip(names, ("start", *names[1:]), strict=True):
        np.testing.assert_array_equal(table[name][starts], schedule[column][rows])
    durations = schedule["end"][rows] - schedule["start"][rows]
    np.testing.assert_allclose(
        durations,
        np.where(schedule["completed"][rows], table["limit"][starts], table["true"][starts]),
        atol=1e-4,
    )
    assert (durations < table["true"][starts] + 1e-4).all()

    # the wait ends at the true return of the host or at its limit, whichever is earlier
    for k in np.flatnonzero(actions == "waited"):
        later = np.flatnonzero((table["task"] == table["task"][k]) & (table["time"] > table["time"][k]))
        following = later[table["application"][later] == table["application"][k]][0]
        wait = min(table["limit"][k], table["true"][k])
        assert actions[following] == ("went-on" if wait == table["true"][k] else "gave-up")
        assert abs(table["time"][following] - table["time"][k] - wait) < 1e-4

    # decisions of waves have the remaining night
    placed = np.flatnonzero(np.isin(actions, PLACED))
    left = (
        zones.night_left(table["machine"][placed], np.rint(table["time"][placed] * NS).astype(np.int64)) / NS
    )
    if mode.startswith("wave"):
        np.testing.assert_allclose(table["saw"][placed], np.where(left > 0, left, NAN), atol=1e-4)
        dark = np.char.endswith(table["action"][placed].astype(str), "-night")
        assert (dark == (left > 0)).all() and 0 < (~dark).sum() == result.facts["outside_night"]
    else:
        assert np.isnan(table["saw"]).all() and set(table["action"]) == set(actions)
