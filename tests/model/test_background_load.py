"""Background load: recipes, rejected recipes, and complete runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.model.background_load import LoadProfile
from gridsim.results.result import Result
from gridsim.scheduling.registry import registered
from gridsim.testing import check_scheduler, scenarios
from gridsim.testing.cases import fluctuations
from gridsim.validation.results import validate_result

HALF = gs.Fluctuation.of([[0.5]], 10.0)
PLATFORM = gs.Platform.of([1000.0, 2000.0, 1000.0])
WORKLOAD = gs.Workload.of([0.0, 40.0], [5, 4], [30_000.0, 50_000.0])
#: WQR-FT with checkpoints and task copies.
WQR = gs.WqrFt(checkpoint_interval=6.0, checkpoint_cost=1.0, restore_cost=0.5, max_replicas=2)
FAULTS = gs.Faults.of([0, 1, 0], [20.0, 33.0, 90.0], [20.0, 35.0, 95.0])
BUSY = gs.Fluctuation.uniform(0.2, 0.9, 4.0, seed=5, series=3, steps=50)


def run(
    fluctuation: gs.Fluctuation | None,
    scheduler: gs.Scheduler = WQR,
    faults: gs.Faults | None = None,
    workload: gs.Workload = WORKLOAD,
) -> Result:
    scenario = gs.Scenario(PLATFORM, workload, faults=faults, fluctuation=fluctuation)
    return gs.simulate(scenario, scheduler, record=True)


# -- recipes ------------------------------------------------------------------------------------------------

SHARES = st.floats(0, 1, exclude_min=True)
PERIODS = st.floats(1e-9, 1e7)
ANY = st.one_of(
    st.builds(
        lambda shares, *rest: gs.Fluctuation.uniform(min(shares), max(shares), *rest),
        st.tuples(SHARES, SHARES),
        PERIODS,
        st.integers(0, 2**63 - 1),
        st.integers(1, 5),
        st.integers(1, 5),
    ),
    st.builds(gs.Fluctuation.of, st.lists(st.lists(SHARES, min_size=2, max_size=2), min_size=1), PERIODS),
    st.integers(1, 5).flatmap(fluctuations),
)


@given(ANY)
def test_toml_round_trip_is_exact(fluctuation: gs.Fluctuation) -> None:
    scenario = gs.Scenario(PLATFORM, WORKLOAD, fluctuation=fluctuation)
    copy = gs.Scenario.from_toml(scenario.to_toml())
    assert copy == scenario and hash(copy.fluctuation) == hash(fluctuation)
    assert copy.to_toml() == scenario.to_toml()
    assert copy != gs.Scenario(PLATFORM, WORKLOAD)


def test_scenarios_without_background_load_are_written_without_its_table() -> None:
    assert "fluctuation" not in gs.Scenario(PLATFORM, WORKLOAD).to_toml()


def are_equal(a: LoadProfile, b: LoadProfile) -> bool:
    equal = (np.array_equal(getattr(a, name), getattr(b, name)) for name in ("factors", "series", "first"))
    return a.period == b.period and all(equal)


def test_uniform_factors_are_drawn_within_their_bounds() -> None:
    recipe = gs.Fluctuation.uniform(0.25, 0.75, period=7.5, seed=3, series=20, steps=500)
    profile = recipe.realize(400)
    assert profile.period == 7_500_000_000
    assert profile.factors.shape == (20, 500) and profile.factors.dtype == np.float64
    assert 0.25 <= profile.factors.min() < 0.251 and 0.749 < profile.factors.max() <= 0.75
    assert profile.factors.mean() == pytest.approx(0.5, abs=0.01)
    assert np.unique(profile.factors).size == 10_000  # each row has different factors
    assert set(profile.series.tolist()) == set(range(20))
    assert profile.first.min() >= 0 and 450 < profile.first.max() < 500
    assert profile.series.dtype == profile.first.dtype == np.int64
    assert are_equal(profile, recipe.realize(400))
    other = gs.Fluctuation.uniform(0.25, 0.75, period=7.5, seed=4, series=20, steps=500).realize(400)
    assert not np.array_equal(profile.factors, other.factors) and not np.array_equal(
        profile.first, other.first
    )


def test_more_machines_leave_the_factors_of_the_first_unchanged() -> None:
    few, many = (BUSY.realize(nodes) for nodes in (7, 100))
    assert np.array_equal(few.series, many.series[:7]) and np.array_equal(few.first, many.first[:7])
    assert np.array_equal(few.factors, many.factors)


def test_equal_bounds_give_a_constant_factor() -> None:
    assert (gs.Fluctuation.uniform(0.1, 0.1, 1.0, 0).realize(3).factors == 0.1).all()


def test_listed_factors_are_used_exactly() -> None:
    profile = gs.Fluctuation.of([[1, 0.5], [0.25, 0.125], [1, 1]], 1e-9).realize(5)
    assert profile.period == 1
    assert profile.factors.tolist() == [[1.0, 0.5], [0.25, 0.125], [1.0, 1.0]]
    assert profile.series.tolist() == [0, 1, 2, 0, 1] and profile.first.tolist() == [0] * 5
    assert profile.series.dtype == profile.first.dtype == np.int64
    arrays = gs.Fluctuation.of(np.array([[1.0, 0.5]]), 2, np.zeros(2, np.int64), iter([1, 0]))
    assert arrays == gs.Fluctuation.of([(1.0, 0.5)], 2.0, [0, 0], [1, 0])
    assert arrays.realize(2).first.tolist() == [1, 0]


@pytest.mark.parametrize("fluctuation", [HALF, BUSY])
def test_realized_arrays_are_read_only(fluctuation: gs.Fluctuation) -> None:
    profile = fluctuation.realize(3)
    for column in (profile.factors, profile.series, profile.first):
        with pytest.raises(ValueError, match="read-only"):
            column[:] = 0


UNIFORM: dict[str, Any] = {"low": 0.5, "high": 1.0, "period": 1.0, "seed": 1}
LISTED: dict[str, Any] = {"factors": [[0.5, 1.0]], "period": 1.0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (UNIFORM | {"low": 0.0}, "low must be a number > 0 and at most 1, got 0.0"),
        (UNIFORM | {"low": "1"}, "low must be a number > 0 and at most 1, got '1'"),
        (UNIFORM | {"high": 1.5}, "high must be a number > 0 and at most 1, got 1.5"),
        (UNIFORM | {"high": 0.25}, "high must be at least low, 0.5, got 0.25"),
        (UNIFORM | {"period": 0.0}, "period must be a number in 1e-09..1e+07 s, got 0.0"),
        (UNIFORM | {"period": 2e7}, "period must be a number in 1e-09..1e+07 s, got 20000000.0"),
        (UNIFORM | {"seed": -1}, "seed must be a whole number >= 0, got -1"),
        (UNIFORM | {"series": 0}, "series must be a whole number in 1..134217728, got 0"),
        (UNIFORM | {"steps": 1.5}, "steps must be a whole number in 1..134217728, got 1.5"),
        (UNIFORM | {"steps": 2**22}, "steps must be at most 2097152 in each of 64 series, got 4194304"),
        (LISTED | {"factors": []}, "factors must have at least one row, got none"),
        (LISTED | {"factors": 0.5}, "factors must be a list of numbers, got 0.5"),
        (LISTED | {"factors": [0.5]}, "factors[0] must be a list of numbers, got 0.5"),
        (LISTED | {"factors": [[]]}, "factors[0] must have at least one factor, got 0"),
        (LISTED | {"factors": [[1, 1], [1]]}, "factors[1] must have 2 factors, as many as row 0, got 1"),
        (LISTED | {"factors": [[1, 0]]}, "factors[0][1] must be a number > 0 and at most 1, got 0"),
        (LISTED | {"factors": [[1.01]]}, "factors[0][0] must be a number > 0 and at most 1, got 1.01"),
        (LISTED | {"period": 1e-10}, "period must be a number in 1e-09..1e+07 s, got 1e-10"),
        (LISTED | {"series": [1]}, "series[0] must be a whole number in 0..0, got 1"),
        (LISTED | {"series": 3}, "series must be a list of numbers, got 3"),
        (LISTED | {"first": [0, 2]}, "first[1] must be a whole number in 0..1, got 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_values_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        (gs.Fluctuation.uniform if "low" in given else gs.Fluctuation.of)(**given)
    assert str(excinfo.value) == f"fluctuation.{message}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("fluctuation = 1", "fluctuation must be a table, got 1"),
        ("[fluctuation]\nperiod = 1", "fluctuation.kind must be one of uniform, list, got nothing"),
        ('[fluctuation]\nkind = "list"\nfactors = [[1]]', "fluctuation.period is missing"),
        (
            '[fluctuation]\nkind = "list"\nperiod = 1\nfactors = [[1, 0]]',
            "fluctuation.factors[0][1] must be a number > 0 and at most 1, got 0.0",
        ),
        (
            '[fluctuation]\nkind = "list"\nperiod = 1\nfactors = [1]',
            "fluctuation.factors[0] must be a list, got a whole number",
        ),
        (
            '[fluctuation]\nkind = "list"\nsteps = 1',
            "fluctuation.steps requires fluctuation.kind = uniform, got list; keys of list: ",
        ),
    ],
)
def test_invalid_tables_are_rejected(table: str, message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        gs.Scenario.from_toml(
            f"{table}\n" + gs.Scenario(PLATFORM, WORKLOAD).to_toml().removeprefix("seed = 1")
        )
    assert str(excinfo.value).startswith(message)


def test_a_part_of_the_wrong_type_is_rejected() -> None:
    wrong: Any = 0.5
    with pytest.raises(gs.ScenarioError, match="^fluctuation"):
        gs.Scenario(PLATFORM, WORKLOAD, fluctuation=wrong)


@pytest.mark.parametrize("name", ["series", "first"])
def test_lists_without_one_entry_per_machine_are_rejected(name: str) -> None:
    columns: dict[str, Any] = {name: [0, 0]}
    with pytest.raises(gs.ScenarioError, match=f"^fluctuation.{name}"):
        run(gs.Fluctuation.of([[1.0]], 1.0, **columns))


# -- runs ---------------------------------------------------------------------------------------------------


UNSUPPORTED = [kind(**given) for kind, given in registered().values() if not kind.fluctuating]


@pytest.mark.parametrize("scheduler", UNSUPPORTED, ids=lambda scheduler: scheduler.name)
def test_schedulers_without_support_reject_background_load(scheduler: gs.Scheduler) -> None:
    platform, workload = PLATFORM, WORKLOAD
    if scheduler.rigid:
        platform, workload = gs.Platform.equal(3), gs.Workload.jobs_of([0.0], 1, 1.0)
    with pytest.raises(gs.ScenarioError, match=f"{scheduler.name} does not support fluctuation"):
        gs.simulate(gs.Scenario(platform, workload, fluctuation=HALF), scheduler)


def test_a_task_too_long_for_the_clock_at_the_smallest_factor_is_rejected() -> None:
    workload = gs.Workload.of([0.0], 1, 1e12)
    gs.simulate(gs.Scenario(PLATFORM, workload), gs.WqrFt())
    slow = gs.Scenario(PLATFORM, workload, fluctuation=gs.Fluctuation.of([[1.0], [0.25]], 1e7))
    with pytest.raises(
        gs.ScenarioError, match=r"^workload.task_size must .*4e\+09 s if machines run at 0.25"
    ):
        gs.simulate(slow, gs.WqrFt())


@pytest.mark.parametrize("faults", [None, FAULTS])
def test_factors_of_one_leave_the_run_unchanged(faults: gs.Faults | None) -> None:
    plain = run(None, faults=faults)
    profiled = run(gs.Fluctuation.of([[1.0, 1.0], [1.0, 1.0]], 2.5), faults=faults)
    assert profiled.digest == plain.digest
    assert not profiled.tables["cycles"]["slowed"].any()


def test_tasks_take_twice_as_long_at_half_speed() -> None:
    workload = gs.Workload.of([0.0], 9, 30_000.0)
    scheduler = gs.WqrFt(checkpoint_interval=float("inf"))
    plain, half = (run(item, scheduler, workload=workload) for item in (None, HALF))
    assert half.applications["finish"].tolist() == (2 * plain.applications["finish"]).tolist()
    assert half.machines["busy"].tolist() == (2 * plain.machines["busy"]).tolist()
    cycles = half.tables["cycles"]
    assert cycles["slowed"][0] == pytest.approx(cycles["useful"][0] + cycles["redundant"][0])


def test_a_task_under_load_finishes_as_computed_by_hand() -> None:
    """The task takes 10 s at full speed; full and half speed alternate; a checkpoint follows 9 s of work."""
    profile = gs.Fluctuation.of([[0.5, 1.0]], 4.0, first=[1])
    scenario = gs.Scenario(gs.Platform.of([1.0]), gs.Workload.of([0.0], 1, 10.0), fluctuation=profile)
    scheduler = gs.WqrFt(checkpoint_interval=9.0, checkpoint_cost=1.0, max_replicas=1)
    result = gs.simulate(scenario, scheduler, record=True)
    # work of 4 + 2 + 1 until 9 s, the checkpoint until 10 s, work of 2 until 12 s, then 1 at half speed
    assert result.applications["finish"].tolist() == [14.0]
    row = {name: column[0] for name, column in result.tables["cycles"].items()}
    assert row == pytest.approx(
        {"useful": 10.0, "redundant": 0.0, "lost": 0.0, "overhead": 1.0, "slowed": 3.0}
    )
    assert validate_result(result) == []


@pytest.mark.parametrize("faults", [None, FAULTS])
def test_cycles_add_up_to_the_busy_time(faults: gs.Faults | None) -> None:
    result = run(BUSY, faults=faults)
    cycles = result.tables["cycles"]
    worth = float(result.machines["busy"] @ result.machines["speed"])
    assert cycles["slowed"].min() > 0
    assert sum(column.sum() for _, column in cycles.items()) == pytest.approx(worth, rel=1e-9)
    assert (cycles["lost"].sum() > 0) == (faults is not None)
    assert validate_result(result) == []


def test_all_schedulers_have_the_same_load() -> None:
    """The load depends on the recipe, not on the seed of the run."""
    one, other = (
        gs.simulate(
            gs.Scenario(PLATFORM, WORKLOAD, seed=seed, fluctuation=BUSY), gs.WqrFt(task_order="small")
        )
        for seed in (1, 2)
    )
    assert one.applications["finish"].tolist() == other.applications["finish"].tolist()


def test_validation_detects_durations_of_another_load() -> None:
    result = run(BUSY, faults=FAULTS)
    for other in (HALF, gs.Fluctuation.uniform(0.2, 0.9, 4.0, seed=6, series=3, steps=50), None):
        result.scenario = gs.Scenario(PLATFORM, WORKLOAD, faults=FAULTS, fluctuation=other)
        assert {item.law for item in validate_result(result)} >= {"duration", "begin"}


def test_results_with_background_load_survive_a_file(tmp_path: Path) -> None:
    result = run(BUSY, faults=FAULTS)
    result.save(tmp_path / "r.gridsim")
    copy = Result.load(tmp_path / "r.gridsim")
    assert copy.scenario == result.scenario and validate_result(copy) == []
    assert gs.simulate(copy.scenario, WQR).digest == result.digest


# -- random scenarios ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(scenarios(max_nodes=4))
def test_generated_scenarios_have_no_load_by_default(scenario: gs.Scenario) -> None:
    assert scenario.fluctuation is None


@pytest.mark.parametrize("rigid", [True, False])
@pytest.mark.parametrize("expected", [True, False])
def test_generated_scenarios_may_have_background_load(expected: bool, rigid: bool) -> None:
    subset = settings(max_examples=200, phases=(Phase.generate,), database=None)
    asked = scenarios(max_nodes=3, rigid=rigid, fluctuating=True)
    actual: Any = find(asked, lambda each: (each.fluctuation is not None) == expected, settings=subset)
    assert (actual.fluctuation is not None) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler", [gs.WqrFt(), WQR, gs.WqrFt(checkpoint_interval=7.0, checkpoint_store="local")]
)
def test_schedulers_with_support_pass_the_checks(scheduler: gs.Scheduler, tmp_path: Path) -> None:
    actual = check_scheduler(scheduler, examples=30, hash_seeds=False, folder=tmp_path)
    assert actual.examples >= 30 and "resumed" not in actual.left_out
