"""Nights of time zones, machines that are up at night, and traces shifted by time zones."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.model.fault_events import CLOCK_END, FaultEvents
from gridsim.model.faults import Faults
from gridsim.model.time_zones import DAY, HOUR, Zones, rotate
from gridsim.support.clock import NEVER

MINUTE = HOUR // 60


def rows(course: FaultEvents, until: int) -> list[tuple[int, int, bool, int]]:
    """Return (ns, machine, up, until) of all changes before `until` ns, in the order of the blocks."""
    actual: list[tuple[int, int, bool, int]] = []
    for block in course.blocks:
        columns = (block.time, block.machine, block.up, block.until)
        actual += zip(*(column.tolist() for column in columns), strict=True)
        if actual and actual[-1][0] >= until:
            break
    return [row for row in actual if row[0] < until]


def up_masks(faults: Faults, nodes: int, times: Any, until: int) -> Any:
    """Return which machines are up, bool[times, nodes]; check that failures and recoveries alternate."""
    actual = np.array([row[:2] for row in rows(faults.course(nodes), until)], np.int64).reshape(-1, 2)
    own = [actual[actual[:, 1] == u, 0] for u in range(nodes)]
    return np.stack([np.searchsorted(changes, times, side="right") % 2 == 0 for changes in own], axis=1)


# -- night --------------------------------------------------------------------------------------------------


def test_nights_match_those_computed_by_hand() -> None:
    """At time 0 it is midnight in zone 0, 6 h (the end of the night) in zone 6, and 23 h in zone 23."""
    assert Zones().night(np.arange(26), 0).tolist() == [True] * 6 + [False] * 16 + [True] * 4
    assert Zones().night([0, 0, 0, 0], [6 * HOUR - 1, 6 * HOUR, 22 * HOUR - 1, 22 * HOUR]).tolist() == [
        True, False, False, True,
    ]  # fmt: skip
    two = Zones(zones=2, night_begin=1.5, night_hours=2.0)
    assert two.clock_offsets([0, 1, 2, 3]).tolist() == [0, 12 * HOUR, 0, 12 * HOUR]
    instant = 14 * HOUR + 9 * DAY
    assert two.night([0, 1, 2], instant).tolist() == [False, True, False]


def test_a_night_may_begin_at_a_half_hour() -> None:
    """The night lasts from 22:30 to 6:30."""
    zone = Zones(zones=1, night_begin=22.5)
    assert zone.night(0, [22 * HOUR + 15 * MINUTE, 22 * HOUR + 30 * MINUTE]).tolist() == [False, True]
    assert zone.night_left(0, 23 * HOUR) == 7 * HOUR + 30 * MINUTE


@given(
    st.integers(1, 1440),
    st.integers(0, 9000),
    st.floats(0, 23.9),
    st.floats(1, 23),
    st.integers(0, CLOCK_END),
)
def test_a_day_has_the_stated_hours_of_night(
    zones: int, machine: int, begin: float, hours: float, time: int
) -> None:
    zone = Zones(zones=zones, night_begin=begin, night_hours=hours)
    minutes = zone.night(machine, time + np.arange(1440) * MINUTE)
    assert abs(minutes.sum() - 60 * hours) <= 1
    assert (minutes == zone.night(machine, time + DAY + np.arange(1440) * MINUTE)).all()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Zones(zones=0), "zones.zones must be a whole number in 1..1440, got 0"),
        (lambda: Zones(night_begin=24.0), "zones.night_begin must be below 24 h, got 24.0"),
        (lambda: Zones(night_begin=-1.0), "zones.night_begin must be a finite number >= 0 h, got -1.0"),
        (lambda: Zones(night_hours=0.5), "zones.night_hours must be a number in 1..23 h, got 0.5"),
        (lambda: Zones(night_hours=24.0), "zones.night_hours must be a number in 1..23 h, got 24.0"),
        (lambda: Faults.zones(1, zones=3), "faults.zones must be Zones, got 3"),  # type: ignore[arg-type]
        (lambda: Faults.zones(-1), "faults.seed must be"),
        (lambda: Faults.zones(1, day_up=1.0), "faults.day_up must be a number in 0..0.99, got 1.0"),
        (lambda: Faults.zones(1, day_up=-0.1), "faults.day_up must be a number in 0..0.99, got -0.1"),
        (lambda: Faults.zones(1, spell=0.0), "faults.spell must be a finite number >= 1 s, got 0.0"),
        (lambda: Faults.zones(1, spread=7201.0), "faults.spread must be at most a quarter of .*, 7200 s"),
        (lambda: Faults.trace("x", 1, repeat=False, zones=Zones()), "faults.zones of a trace requires"),
        (lambda: Faults.trace("x", 1, zones=1), "faults.zones must be Zones or None"),  # type: ignore[arg-type]
    ],
)
def test_invalid_zones_are_rejected(make: Any, expected: str) -> None:
    with pytest.raises(gs.ScenarioError, match=expected):
        make()


# -- machines that are up at night --------------------------------------------------------------------------


def test_nights_without_spread_or_spells_are_exact() -> None:
    """With three zones eight hours apart, exactly one of three machines is up at any time."""
    faults = Faults.zones(5, Zones(zones=3), day_up=0.0, spread=0.0)
    course = faults.course(3)
    assert course.first.tolist() == [6 * HOUR, 0, 0]
    assert rows(course, DAY) == [
        (0, 1, False, 14 * HOUR),
        (0, 2, False, 6 * HOUR),
        (6 * HOUR, 0, False, 22 * HOUR),
        (6 * HOUR, 2, True, 14 * HOUR),
        (14 * HOUR, 1, True, 22 * HOUR),
        (14 * HOUR, 2, False, 30 * HOUR),
        (22 * HOUR, 0, True, 30 * HOUR),
        (22 * HOUR, 1, False, 38 * HOUR),
    ]
    assert faults.mean_up_time(3) == 8 * 3600.0


def test_nights_deviate_by_at_most_the_spread() -> None:
    """Dawns are uniform in 6:00 +- 30 min, dusks in 22:00 +- 30 min, and independent of each other."""
    nodes = 2000
    faults = Faults.zones(1, Zones(zones=1), day_up=0.0, spread=1800.0)
    actual = rows(faults.course(nodes), 12 * HOUR)
    assert len(actual) == nodes
    dawn, dusk = (np.array([row[k] for row in actual]) / 1e9 for k in (0, 3))
    deviation = 3600 / math.sqrt(12)
    for times, hour in ((dawn, 6), (dusk, 22)):
        assert times.mean() == pytest.approx(hour * 3600, abs=5 * deviation / math.sqrt(nodes))
        assert hour * 3600 - 1800 <= times.min() < hour * 3600 - 1750
        assert hour * 3600 + 1750 < times.max() <= hour * 3600 + 1800
    # the difference of two times has sqrt(2) times the deviation, with a standard error of about 19 s
    assert (dusk - dawn).std() == pytest.approx(math.sqrt(2) * deviation, abs=100)


SPELLS = st.sampled_from((60.0, 1800.0, 40_000.0))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    nodes=st.integers(1, 9),
    zones=st.sampled_from((1, 5, 24, 1440)),
    begin=st.sampled_from((0.0, 12.0, 22.0, 23.99)),
    hours=st.sampled_from((1.0, 8.0, 23.0)),
    day_up=st.sampled_from((0.0, 0.1, 0.9)),
    spell=SPELLS,
    spread=st.sampled_from((0.0, 1.0, 900.0)),
)
def test_failures_and_recoveries_of_a_machine_alternate(
    nodes: int, zones: int, begin: float, hours: float, day_up: float, spell: float, spread: float
) -> None:
    zone = Zones(zones=zones, night_begin=begin, night_hours=hours)
    faults = Faults.zones(3, zone, day_up, spell, spread)
    course = faults.course(nodes)
    due, up, last = course.first.tolist(), [True] * nodes, -1
    for block in islice(course.blocks, 3):
        columns = (block.time, block.machine, block.up, block.until)
        for time, u, back, until in zip(*(column.tolist() for column in columns), strict=True):
            assert time >= last and time == due[u] and until > time and back != up[u]
            due[u], up[u], last = until, back, time
    after = next(course.blocks)
    assert after.time[0] >= last and len(after)
    # all machines are up in the middle of their night
    middle = 2 * DAY + round((begin + hours / 2) * HOUR) - zone.clock_offsets(np.arange(nodes))
    assert up_masks(faults, nodes, middle, 4 * DAY).diagonal().all()


def test_drawn_spells_have_the_stated_shares_and_means() -> None:
    faults = Faults.zones(2, Zones(zones=6), day_up=0.3, spell=1200.0, spread=1800.0)
    nodes, days = 60, 20
    actual = rows(faults.course(nodes), days * DAY)
    lasts = np.array([until - time for time, _, up, until in actual if up]) / 1e9
    assert lasts.mean() == pytest.approx(faults.mean_up_time(nodes), rel=0.03)
    times = [k * 7 * MINUTE for k in range(days * 205)]
    state = up_masks(faults, nodes, times, days * DAY)
    night = np.stack([faults.time_zones.night(np.arange(nodes), instant) for instant in times])  # type: ignore[union-attr]
    # nights begin and end up to half an hour early or late, which is a quarter on average; some machines are
    # up anyway
    assert state[night].mean() == pytest.approx(1 - 0.7 * (2 * 0.125 / 8), abs=0.01)
    assert state[~night].mean() == pytest.approx(0.3 + 0.7 * (2 * 0.125 / 16) - 0.3 * 840 / 57600, abs=0.01)


def test_mean_up_time_matches_that_computed_by_hand() -> None:
    """Spells and the gaps between them last 16 h, as the day does: the chain settles at a rate of 2 / 16 h.

    The share that has settled at the end of the day is 1 - exp(-2).  A machine is up in the day for
    (16 h - settled * 8 h) / 2, and a night that begins in a spell is no separate up time.
    """
    faults = Faults.zones(1, day_up=0.5, spell=57_600.0)
    settled = 1 - math.exp(-2)
    up = (57_600 - settled * 28_800) / 2
    spells = (57_600 - up) / 57_600
    assert (up, spells) == (pytest.approx(16_348.8, abs=0.1), pytest.approx(0.716166, abs=1e-6))
    expected = (28_800 + up) / (1 + spells - settled / 2)
    assert faults.mean_up_time(1) == pytest.approx(expected) == pytest.approx(35_167, abs=1)


def test_no_changes_follow_the_end_of_the_clock() -> None:
    faults = Faults.zones(1, day_up=0.0)
    for block in faults.course(3).blocks:
        assert len(block) and block.time[-1] < CLOCK_END
    assert sorted(block.until[-3:].tolist())[-1] == NEVER


@pytest.mark.parametrize(("day_up", "spell"), [(0.5, 1e9), (0.1, 1.7e308), (5e-324, 1.0)])
def test_spells_longer_than_a_day_end_with_the_day(day_up: float, spell: float) -> None:
    """Blocks go on until the end of the clock."""
    last = 0
    for block in Faults.zones(1, day_up=day_up, spell=spell, spread=0.0).course(3).blocks:
        assert block.time[0] >= last and (np.diff(block.time) >= 0).all() and (block.until > block.time).all()
        last = int(block.time[-1])
    assert CLOCK_END - DAY < last < CLOCK_END


def test_draws_depend_on_the_seed_alone() -> None:
    one, same, other = (rows(Faults.zones(seed).course(50), 3 * DAY) for seed in (1, 1, 2))
    assert one == same != other


def test_zones_survive_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts.avt"
    path.write_text("a 1 0 100000\nb 1 5 172800\n")
    for faults in (
        Faults.zones(7, Zones(zones=4, night_hours=9.5), day_up=0.2, spell=600.0, spread=60.0),
        Faults.trace(path, 3, zones=Zones(zones=2)),
    ):
        scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], 1, 1e6), faults=faults)
        assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
        assert faults.time_zones == faults.recipe.zones  # type: ignore[union-attr]
    toml = scenario.to_toml().replace("night_hours = 8.0", "night_hours = 80.0")
    with pytest.raises(gs.ScenarioError, match="^zones.night_hours"):
        gs.Scenario.from_toml(toml)
    with pytest.raises(gs.ScenarioError, match="faults.zones.nights is not a known key"):
        gs.Scenario.from_toml(toml.replace("night_hours", "nights"))
    assert Faults.poisson(1.0, 1).time_zones is None


# -- traces -------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 30), max_size=10, unique=True).map(sorted), st.integers(0, 19), st.integers(1, 20)
)
def test_rotated_intervals_are_up_at_the_shifted_times(times: list[int], by: int, span: int) -> None:
    """A machine that was up `by` ns later is up now; adjacent intervals are joined."""
    by %= span
    pairs = np.array(times[: len(times) // 2 * 2], np.int64).reshape(-1, 2)
    begin, end = rotate(pairs[:, 0], pairs[:, 1], by, span)
    assert (begin < end).all() and (begin[1:] > end[:-1]).all()

    def is_up(b: Any, e: Any, instant: int) -> bool:
        return bool(((b <= instant) & (instant < e)).any())

    for instant in range(span):
        assert is_up(begin, end, instant) == is_up(pairs[:, 0], pairs[:, 1], (instant + by) % span)


def test_a_trace_is_shifted_by_the_zone_of_each_machine(tmp_path: Path) -> None:
    """Hosts are up from 18 h to 30 h of two days; each machine follows its local time in all rounds."""
    path = tmp_path / "hosts.avt"
    lines = [f"h{k} 2 64800 108000 151200 172800" for k in range(3)]
    path.write_text("\n".join([*lines, "last 1 0 200000"]) + "\n")  # the part beyond two days is cut off
    faults = Faults.trace(path, seed=4, zones=Zones(zones=4))
    masks = up_masks(faults, 4, [k * HOUR + 1 for k in range(96)], 4 * DAY)
    alone = [[h % 48 in [*range(18, 30), *range(42, 48)] for h in range(u * 6, u * 6 + 96)] for u in range(4)]
    always = [u for u in range(4) if masks[:, u].all()]
    assert len(always) == 1  # the host "last" is always up
    for u in set(range(4)) - set(always):
        assert masks[:, u].tolist() == alone[u]


@pytest.mark.parametrize("span", [5 * 10**18 // DAY * DAY, (CLOCK_END // DAY + 2) * DAY])
@pytest.mark.parametrize("by", [0, 1, DAY - 1])
def test_rotation_of_a_long_round_does_not_overflow(span: int, by: int) -> None:
    """Sums stay within int64."""
    times = np.array([0, HOUR, span // 2, span - HOUR], np.int64)
    begin, end = rotate(times[:-1:2], times[1::2], by, span)
    assert (begin < end).all() and begin.min() >= 0 and end.max() <= span
    assert (end - begin).sum() == HOUR + span - HOUR - span // 2


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("x 1 0 9e15", [NEVER] * 3),
        ("x 1 0 1e18", [NEVER] * 3),
        ("x 1 5e17 1e18", [0] * 3),
        ("x 2 0 100 9e17 1e18", [100 * 10**9, 0, 0]),
        (
            "x 2 0 200000 8e9 8.1e9",
            [200_000 * 10**9, 200_000 * 10**9 - 8 * HOUR, 200_000 * 10**9 - 16 * HOUR],
        ),
        ("x 1 0 8.05e9", [NEVER] * 3),
    ],
)
def test_a_trace_with_zones_longer_than_the_clock_is_truncated(
    tmp_path: Path, text: str, first: list[int]
) -> None:
    path = tmp_path / "hosts.avt"
    path.write_text("\n".join(text.replace("x", f"x{k}", 1) for k in range(3)) + "\n")
    course = Faults.trace(path, seed=1, zones=Zones(zones=3)).course(3)
    assert course.first.tolist() == first
    for block in course.blocks:
        assert (block.time >= 0).all() and (block.time < CLOCK_END).all() and (block.until > block.time).all()


def test_a_trace_with_zones_shorter_than_a_day_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "hosts.avt"
    path.write_text("a 1 0 100000\n")
    with pytest.raises(gs.ScenarioError, match="^faults.start"):
        Faults.trace(path, seed=4, start=20000.0, zones=Zones()).course(1)
