"""Runs whose tasks move data: supported and unsupported schedulers, and tasks of 0 bytes."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.validation.results import validate_result


def scenario(data=2e6, links=(1e5, 1e6), seed=1, machines=8, applications=6, **options):
    platform = gs.Platform.pareto(machines, seed)
    return gs.Scenario(
        platform=platform if links is None else platform.linked(links),
        workload=gs.Workload.bags(
            applications, seed=seed, input_bytes=data and [0.0, data], output_bytes=data and data / 10
        ),
        seed=seed,
        **options,
    )


MOVING = {
    "mincent-once": gs.MinCent(mode="once"),
    "ideal-tree": gs.IdealTree(),
    "aware": gs.FairTree(),
    "ignored": gs.FairTree(data="ignored"),
}
each = pytest.mark.parametrize("scheduler", MOVING.values(), ids=list(MOVING))


@each
def test_0_bytes_give_the_digest_of_a_run_without_links(scheduler):
    assert gs.simulate(scenario(0.0), scheduler).digest == gs.simulate(scenario(0.0, None), scheduler).digest


@each
def test_the_result_with_data_is_valid_and_does_not_depend_on_cohorts(scheduler):
    result = gs.simulate(scenario(), scheduler, record="all")
    assert validate_result(result) == []
    assert gs.simulate(scenario(), scheduler, cohort_limit=1).digest == result.digest
    assert (result.bound("discrete").stretch <= result.max_stretch) and result.gap() >= 1.0


def test_data_without_links_take_no_time():
    for scheduler in (gs.FairTree(), gs.Random()):
        fast, none = (gs.simulate(scenario(data, None), scheduler) for data in (2e6, 0.0))
        assert np.array_equal(fast.applications["finish"], none.applications["finish"])


def test_wide_links_change_little_and_narrow_ones_much():
    """If the links are wide enough, a task ends as soon as it is computed."""
    wide, none, narrow = (
        gs.simulate(scenario(2e6, links), gs.MinCent(mode="once")) for links in (1e15, None, 1e4)
    )
    assert np.allclose(wide.applications["finish"], none.applications["finish"], rtol=0.02)
    assert narrow.max_stretch > 2.0 * none.max_stretch


def test_schedulers_that_count_data_are_better_with_narrow_links():
    narrow = scenario(5e7, (5e4, 5e5), machines=16, applications=10)
    aware, ignored, best = (
        gs.simulate(narrow, each).max_stretch
        for each in (gs.FairTree(), gs.FairTree(data="ignored"), gs.MinCent(mode="once"))
    )
    assert aware < 0.7 * ignored and aware < 1.2 * best


def test_schedulers_keep_their_promises_with_data():
    """The ideal tree and MinCent keep the stretch that they promise, if no application is released later."""
    one = scenario(2e7, applications=1)
    result = gs.simulate(one, gs.MinCent(mode="once"))
    assert result.max_stretch <= result.tables["requests"]["promised"][0] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("make", "scheduler", "options", "message"),
    [
        (scenario, gs.MinCent(), {}, "mincent does not support tasks that move data"),
        (scenario, gs.Random(), {}, "random does not support tasks that move data"),
        (scenario, gs.FairTree(release_cell=300.0), {}, "fair-tree does not support tasks that move data"),
        (scenario, gs.FairTree(), {"nodes": "compiled"}, "nodes must be 'interpreted' or None for fair-tree"),
        (
            lambda: scenario(faults=gs.Faults.poisson(3600.0, 1)),
            gs.FairTree(),
            {},
            "do not support faults",
        ),
    ],
)
def test_unsupported_combinations_with_data_are_reported(make, scheduler, options, message):
    with pytest.raises(ScenarioError, match=message):
        gs.simulate(make(), scheduler, **options)


def test_data_that_the_clock_cannot_hold_are_rejected():
    with pytest.raises(ScenarioError, match="^workload.input_bytes and workload.output_bytes"):
        gs.simulate(scenario(1e15, 1e-3), gs.MinCent(mode="once"))


def test_an_emulation_moves_no_data():
    with pytest.raises(ScenarioError, match="platform.bandwidth"):
        gs.emulate(scenario(), gs.FairTree(), processes=1)


@pytest.mark.parametrize("samples", [0, (), (2.0, 1.0), (-1.0,), "x"])
def test_invalid_samples_of_bytes_are_rejected(samples):
    with pytest.raises(ScenarioError, match="^fair-tree.data_samples"):
        gs.FairTree(data_samples=samples)


def test_data_samples_count_in_the_size_of_summaries():
    result = gs.simulate(scenario(), gs.FairTree(samples=(4, 3, 2), data_samples=(0.0, 100.0)))
    assert result.facts["grid"]["bytes_per_mflop"] == [0.0, 100.0]
    assert result.facts["summary_bytes"] == 2 * 24 * 4 + 90 + 4


@pytest.mark.parametrize(
    ("moved", "law"), [("input_bytes", "input"), ("output_bytes", "agreement"), (None, None)]
)
def test_the_validation_checks_the_data_on_links(moved, law):
    """The schedule would be too fast if a task moved three times as much data."""
    result = gs.simulate(scenario(2e7), gs.MinCent(mode="once"), record=True)
    if moved is not None:
        recipe = result.scenario.workload.recipe
        more = getattr(recipe, moved)
        more = tuple(3.0 * each for each in more) if isinstance(more, tuple) else 3.0 * more
        workload = gs.Workload(msgspec.structs.replace(recipe, **{moved: more}))
        result.scenario = dataclasses.replace(result.scenario, workload=workload)
    assert law in {message.law for message in validate_result(result)} if law else not validate_result(result)
