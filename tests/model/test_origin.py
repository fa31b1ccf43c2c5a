"""The origin of the clock of a run: the run does not depend on it."""

from __future__ import annotations

import dataclasses
import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.attributes import DrawnAttributes
from gridsim.model.sanity_checks import unusual_values
from gridsim.model.time_zones import DAY, Zones
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.validation.copies import computed_work
from gridsim.validation.results import validate_result

#: 2025-01-01 00:00 UTC in s since 1970.
NEW_YEAR = 1_735_689_600.0
BASES = st.one_of(st.just(NEW_YEAR), st.integers(1, 2 * 10**9).map(float))
GRID = gs.Platform.equal(6, 1000.0)
RELEASES = np.array([0.0, 10.0, 10.0, 400.0])


def bags(base: float) -> gs.Workload:
    return gs.Workload.of(base + RELEASES, [6, 3, 9, 5], 20_000.0)


def scenario_of(name: str, base: float) -> gs.Scenario:
    """Return a scenario for the scheduler `name`, with releases that count from `base` s."""
    scheduler = make_scheduler(name)
    if not scheduler.rigid:
        return gs.Scenario(GRID, bags(base), seed=3)
    places = DrawnAttributes(seed=1, side=1.0) if scheduler.constraints else None
    jobs = gs.Workload.jobs_of(base + RELEASES, [4, 6, 2, 1], [100.0, 50.0, 300.0, 20.0])
    return gs.Scenario(gs.Platform.equal(6, 1000.0, places), jobs, seed=3)


@pytest.mark.parametrize("name", registered())
def test_runs_of_all_schedulers_are_equal_at_unix_time(name: str) -> None:
    at_zero, at_unix = (gs.simulate(scenario_of(name, base), name) for base in (0.0, NEW_YEAR))
    assert at_zero.makespan == at_unix.makespan
    assert at_zero.messages["sent"].tolist() == at_unix.messages["sent"].tolist()
    assert at_zero.digest == at_unix.digest


@given(BASES)
@settings(max_examples=20, deadline=None)
def test_listed_outages_are_relative_to_the_origin(base: float) -> None:
    rows = [0, 1, 0], [20.0, 33.0, 90.0], [20.0, 35.0, math.inf]
    digests = {
        gs.simulate(gs.Scenario(GRID, bags(instant), faults=gs.Faults.of(*shifted)), "WQR-FT").digest
        for instant in (0.0, base)
        for shifted in [(rows[0], [instant + down for down in rows[1]], [instant + up for up in rows[2]])]
    }
    assert len(digests) == 1


@given(BASES)
@settings(max_examples=20, deadline=None)
def test_stated_times_of_jobs_are_relative_to_the_origin(base: float) -> None:
    def realized_jobs(instant: float) -> list[object]:
        jobs = gs.Workload.jobs_of(
            instant + RELEASES,
            2,
            50.0,
            not_before=[instant + 5.0, 0.0, instant + 200.0, instant + 400.0],
            deadline=[instant + 300.0, math.inf, instant + 900.0, math.inf],
            cancel_at=[math.inf, instant + 30.0, math.inf, math.inf],
        ).realize(GRID)
        return [
            jobs.release_ns.tolist(),
            *(jobs.instants(n).tolist() for n in ("deadline", "cancel_at")),
            jobs.ready.tolist(),
        ]

    assert realized_jobs(0.0) == realized_jobs(base)


def test_outages_before_the_origin_are_dropped_or_continue() -> None:
    """Machine 0 is down until 130 s, 1 has recovered, 2 has left, 3 has a transient failure at the start."""
    faults = gs.Faults.of(
        [0, 1, 2, 3, 0], [50.0, 80.0, 10.0, 100.0, 150.0], [130.0, 90.0, math.inf, 100.0, 160.0]
    )
    scenario = gs.Scenario(GRID, gs.Workload.of([100.0], 1, 1.0), faults=faults)
    assert scenario.faults is not None
    actual = {u: (down.tolist(), up.tolist()) for u, down, up in scenario.faults.outages(6, 1e9)}
    assert actual == {0: ([0.0, 50.0], [30.0, 60.0]), 2: ([0.0], [math.inf]), 3: ([0.0], [0.0])}
    assert scenario.faults == faults and gs.Scenario.from_toml(scenario.to_toml()) == scenario
    # if the workload is replaced, the failures refer to the clock of the new one
    other = dataclasses.replace(scenario, workload=gs.Workload.of([0.0], 1, 1.0))
    assert other.faults is not None and [u for u, *_ in other.faults.outages(6, 1e9)] == [0, 1, 2, 3]


@given(st.integers(0, 10**6), st.integers(1, 500), st.integers(0, 10**5), st.integers(1, 10**4))
def test_listed_background_load_begins_at_the_origin(
    origin: int, period: int, begin: int, lasts: int
) -> None:
    load = gs.Fluctuation.of([[0.5, 1.0, 0.25], [0.1, 0.2, 0.3]], float(period), first=[0, 2])
    pair = gs.Platform.equal(2)
    scenario = gs.Scenario(pair, gs.Workload.of([float(origin)], 1, 1.0), fluctuation=load)
    assert scenario.fluctuation is not None
    machines, spans = np.array([0, 1]), (np.array([t * 10**9] * 2) for t in (begin, begin + lasts))
    declared = computed_work(load.realize(2), machines, *(span + origin * 10**9 for span in spans))
    spans = (np.array([t * 10**9] * 2) for t in (begin, begin + lasts))
    assert computed_work(scenario.fluctuation.realize(2), machines, *spans) == pytest.approx(
        declared, rel=1e-9
    )


@pytest.mark.parametrize("nodes", ["compiled", "interpreted"])
def test_a_run_may_begin_within_a_step_of_the_load(nodes: str) -> None:
    """A task of 40 s begins 7 s into a step of 10 s at half speed, before one at full speed."""
    load = gs.Fluctuation.of([[0.5, 1.0]], 10.0)
    scenario = gs.Scenario(
        gs.Platform.of([1000.0]), gs.Workload.of([NEW_YEAR + 7.0], 1, 40_000.0), fluctuation=load
    )
    result = gs.simulate(scenario, gs.WqrFt(max_replicas=1), nodes=nodes, record=True)  # type: ignore[arg-type]
    # 1.5 + 10 + 5 + 10 + 5 = 31.5 s of work after 43 s, and the rest at full speed
    assert result.applications["finish"].tolist() == [51.5]
    assert not validate_result(result)


@given(BASES, st.integers(0, 10 * DAY), st.floats(0, 23.99), st.integers(1, 24))
def test_the_hour_of_the_day_follows_the_stated_times(
    base: float, time: int, begin: float, zones: int
) -> None:
    declared = Zones(zones=zones, night_begin=begin, night_hours=9.0)
    machines = np.arange(24)
    left = declared.shift_clock(base).night_left(machines, time)
    difference = np.abs(left - declared.night_left(machines, time + round(base) * 10**9))
    # the beginning of a night is a float, and so is rounded
    assert np.minimum(difference, np.abs(difference - 9 * 3600 * 10**9)).max() <= 60


def test_time_zones_follow_the_origin() -> None:
    noon = NEW_YEAR + 43_200.0
    scenarios = [
        gs.Scenario(
            GRID, gs.Workload.of([instant], 1, 1.0, origin=origin), faults=gs.Faults.zones(seed=2, day_up=0.0)
        )
        for instant, origin in ((43_200.0, 0.0), (noon, noon - 43_200.0), (noon, None))
    ]
    early, same, late = (
        {u: (down, up) for u, down, up in instance.faults.outages(6, 3e5)}
        for instance in scenarios
        if instance.faults
    )
    for u in early:
        assert all(np.array_equal(a, b) for a, b in zip(early[u], same[u], strict=True))
    # from noon on, nights begin at 10 h instead of 22 h after the origin
    assert scenarios[2].faults is not None and scenarios[2].faults.time_zones is not None
    assert scenarios[2].faults.time_zones.night_begin == 10.0
    assert late.keys() == early.keys()


def test_drawn_failures_begin_with_the_run() -> None:
    digests = {
        gs.simulate(
            gs.Scenario(GRID, bags(base), faults=gs.Faults.exponential(50.0, 5.0, seed=4)), "WQR-FT"
        ).digest
        for base in (0.0, 12_345.0)
    }
    assert len(digests) == 1


def test_an_earlier_origin_leaves_time_before_the_first_release() -> None:
    result = gs.simulate(gs.Scenario(GRID, gs.Workload.of([130.0], 1, 1000.0, origin=100.0)), "fcfs")
    assert result.applications["release"].tolist() == [30.0]
    assert gs.Scenario.from_toml(result.provenance["scenario"]).workload.origin == 100.0


def test_output_formats_state_the_meaning_of_time_0(tmp_path: Path) -> None:
    result = gs.simulate(gs.Scenario(GRID, bags(NEW_YEAR)), "fcfs", record=True)
    gs.to_swf(result, tmp_path / "out.swf")
    assert "; UnixStartTime: 1735689600\n" in (tmp_path / "out.swf").read_text()
    assert (
        result.lines()["clock"] == "times are s since 1735689600.0 s of the workload, at which the run begins"
    )
    drawn = gs.Scenario(GRID, bags(0.10797173953878918))
    assert "since 0.108 s of" in drawn.remarks["clock"]
    assert "clock" not in gs.simulate(gs.Scenario(GRID, bags(0.0)), "fcfs").lines()


def test_a_result_without_origin_begins_at_time_0(tmp_path: Path) -> None:
    path, old = tmp_path / "new.npz", tmp_path / "old.npz"
    result = gs.simulate(gs.Scenario(GRID, gs.Workload.of([7.0], 2, 1000.0, origin=0.0)), "fcfs")
    result.save(path)
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(old, "w") as old_archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".json"):
                metadata = json.loads(content)
                metadata["provenance"].pop("origin")
                metadata["provenance"]["scenario"] = metadata["provenance"]["scenario"].replace(
                    "origin = 0.0\n", ""
                )
                content = json.dumps(metadata).encode()
            old_archive.writestr(name, content)
    loaded = gs.Result.load(old)
    assert loaded.scenario.workload.origin == 0.0 and not validate_result(loaded)


def test_failures_decades_after_the_run_give_a_warning() -> None:
    """An example is a list of failures in UNIX time for a log, whose times count from its first release."""
    faults = gs.Faults.of([0], [NEW_YEAR + 60.0], [NEW_YEAR + 90.0])
    declared, other = (gs.Scenario(GRID, bags(base), faults=faults) for base in (NEW_YEAR, 0.0))
    assert not list(unusual_values(declared))
    assert [
        text
        for text in unusual_values(other)
        if text.startswith("faults.down begins 1.73569e+09 s after the run (55")
    ]


def test_an_origin_after_the_first_release_is_rejected() -> None:
    with pytest.raises(
        ScenarioError, match=r"^workload.origin must be at most the first release, 5.0 s, got 6.0$"
    ):
        gs.Workload.jobs_of([7.0, 5.0], 1, 10.0, origin=6.0)
