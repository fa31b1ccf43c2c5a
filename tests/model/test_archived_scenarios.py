"""Archived scenarios, whose text refers to arrays instead of long lists."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import OutOfMemory, ScenarioError
from gridsim.model.applications import JOB_TIMES
from gridsim.model.attributes import ListedAttributes
from gridsim.model.scenario import ArchivedScenario
from gridsim.support.references import MAX_INLINE, has_references
from gridsim.testing.cases import scenarios
from tests.model.test_scenario import NETWORKS, PLATFORMS, SCHEDULERS, SEEDS, WORKLOADS

LONG = MAX_INLINE + 1
RELEASE = np.arange(LONG, dtype=np.float64)
BAGS = gs.Workload.of(RELEASE, 2, 10.0 + RELEASE)
GRID = gs.Platform.equal(3)
#: Scenarios with a long list in every field that may have one.
LISTED = [
    gs.Scenario(
        gs.Platform.of(RELEASE + 1.0).linked(RELEASE + 5.0),
        gs.Workload.of(RELEASE, 2, 10.0, RELEASE.astype(int) % 3, 7, 1.0, 2.0, 3.0, 4.0),
        faults=gs.Faults.of(np.arange(LONG), RELEASE, np.append(RELEASE[1:], np.inf)),
        fluctuation=gs.Fluctuation.of(np.full((2, LONG), 0.5), 9.0, [0] * LONG, [5] * LONG),
        schedulers={"fair-tree": {"grid": [[1.0] * LONG], "array": "x"}},
    ),
    gs.Scenario(GRID, gs.Workload.of_tasks(RELEASE, [[1.0] * (1 + k % 3) for k in range(LONG)], 0, 5.0)),
    gs.Scenario(
        gs.Platform.equal(LONG).with_attributes(
            ListedAttributes(memory=(1e9,) * LONG, disk=(2e9,) * LONG, kinds=("a",) * LONG)
        ),
        gs.Workload.jobs_of(
            RELEASE, 1, 5.0, 6.0, 0, 1e9, "a", disk=1.0, not_before=0.0, deadline=1e9, cancel_at=np.inf
        ),
    ),
]


@pytest.fixture
def all_lists_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.support.references.MAX_INLINE", 0)


@pytest.mark.usefixtures("all_lists_are_long")
@settings(deadline=None, max_examples=50)
@given(
    st.builds(gs.Scenario, PLATFORMS, WORKLOADS, NETWORKS, SEEDS, SCHEDULERS)
    | scenarios(faults=True, fluctuating=True, constraints=True, moves_data=True)
    | scenarios(faults=True, unequal=True)
    | scenarios(rigid=True, faults=True, constraints=True, job_times=JOB_TIMES)
)
def test_an_archived_scenario_is_restored_exactly(scenario: gs.Scenario) -> None:
    archived = scenario.to_archive()
    copy = gs.Scenario.from_archive(archived)
    assert copy == scenario and copy.to_toml() == scenario.to_toml()
    assert copy.to_archive().toml == archived.toml


@pytest.mark.parametrize("scenario", LISTED)
def test_long_lists_are_archived_as_arrays(scenario: gs.Scenario) -> None:
    archived = scenario.to_archive()
    assert gs.Scenario.from_archive(archived) == scenario == gs.Scenario.from_toml(scenario.to_toml())
    tables = tomllib.loads(archived.toml)
    tables.pop("schedulers", None)

    def longest_list(value: Any) -> int:
        if isinstance(value, dict):
            return max(map(longest_list, value.values()), default=0)
        return len(value) if isinstance(value, list) else 0

    assert longest_list(tables) <= MAX_INLINE and has_references(tables)
    for array in archived.arrays.values():
        assert array.ndim == 1 and not array.flags.writeable


def test_lists_of_a_hundred_entries_are_archived_in_the_text() -> None:
    scenario = gs.Scenario(GRID, gs.Workload.of(RELEASE[:MAX_INLINE], 2, 10.0))
    assert scenario.to_archive() == (scenario.to_toml(), {})


def test_equal_lists_are_archived_as_equal_texts() -> None:
    other = RELEASE.copy()
    other[70] += 1e-9
    one, same, changed = (
        gs.Scenario(GRID, gs.Workload.of(release, 2, 10.0)).to_archive()
        for release in (RELEASE, RELEASE.tolist(), other)
    )
    assert one.toml == same.toml != changed.toml


def test_a_changed_scenario_shares_the_unchanged_columns() -> None:
    scenario = gs.Scenario(GRID, BAGS, seed=1)
    copy = scenario.replaced({"seed": 2, "workload.submitter": [0] * LONG})
    assert copy.seed == 2 and copy.workload.recipe.release is BAGS.recipe.release
    assert copy.workload.recipe.submitter.tolist() == [0] * LONG


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (
            None,
            "release must be a list, got a reference to the array '[0-9a-f]{56}[.]{3}, which is missing",
        ),
        (RELEASE - 1.0, r"release\[0\] must be a finite number >= 0 s, got -1.0"),
        (np.full(LONG, np.nan), r"release\[0\] must be a finite number >= 0 s, got nan"),
        (np.full(LONG, "a"), r"release\[0\] must be a finite number >= 0 s, got 'a'"),
        (RELEASE[:5], "tasks must have 5 entries, as workload.release has, got 101"),
        (
            RELEASE > 5,
            "release must refer to arrays of a list: arrays of a list must have a known type, got bool",
        ),
    ],
)
def test_a_missing_or_invalid_array_is_rejected(array: Any, expected: str) -> None:
    toml, arrays = gs.Scenario(GRID, BAGS).to_archive()
    others = dict(arrays)
    del others[(name := tomllib.loads(toml)["workload"]["release"]["array"])]
    with pytest.raises(ScenarioError, match=f"^workload.{expected}"):
        gs.Scenario.from_archive(ArchivedScenario(toml, others if array is None else {**others, name: array}))


@pytest.mark.parametrize("name", ["5", "true", "[]", "{ array = 1 }", '"../x"'])
def test_a_reference_to_an_unknown_array_is_rejected(name: str) -> None:
    toml = (
        f'[platform]\nkind = "equal"\nnodes = 1\n[workload]\nkind = "list"\nrelease = {{ array = {name} }}\n'
    )
    with pytest.raises(ScenarioError, match="^workload.release"):
        gs.Scenario.from_archive(ArchivedScenario(toml, {}))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (np.full(LONG, 2**62), "workload.sizes must refer to arrays of a list: counts must be in"),
        (np.full(LONG, 1), "workload.sizes must refer to arrays of a list: counts must add up to"),
        (np.full(LONG, 1.0), "workload.sizes must refer to arrays of a list: arrays of a list must have a"),
    ],
)
def test_wrong_counts_of_a_ragged_list_are_rejected(counts: Any, expected: str) -> None:
    toml, arrays = LISTED[1].to_archive()
    name = tomllib.loads(toml)["workload"]["sizes"]["counts"]
    with pytest.raises(ScenarioError, match=f"^{expected}"):
        gs.Scenario.from_archive(ArchivedScenario(toml, {**arrays, name: counts}))


def test_arrays_larger_than_the_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few packed bytes may hold many numbers, and objects made from them take even more memory."""
    archived = LISTED[0].to_archive()
    monkeypatch.setattr("gridsim.support.memory.memory", lambda: 50 * LONG)
    with pytest.raises(OutOfMemory, match=r"^not enough memory for platform\.\w+: 101 entries take"):
        gs.Scenario.from_archive(archived)


def test_references_in_a_scenario_file_are_rejected() -> None:
    toml = gs.Scenario(GRID, BAGS).to_archive().toml
    with pytest.raises(ScenarioError, match="missing from <scenario>"):
        gs.Scenario.from_toml(toml)
