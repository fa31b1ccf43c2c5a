"""Attributes of machines, and requirements of jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.attributes import Attributes, Requirements

ATTRIBUTES = gs.ListedAttributes(memory=(1e9, 4e9, 4e9, 8e9), kinds=("cpu", "cpu", "gpu", "gpu"))
FOUR_MACHINES = gs.Platform.equal(4, attributes=ATTRIBUTES)
#: One machine has more memory, and the other more disk.
DISKS = gs.Platform.of([1.0, 2.0]).with_attributes(gs.ListedAttributes(memory=(8e9, 1e9), disk=(1.0, 4.0)))


def test_suitable_machines_have_the_required_memory_and_kind() -> None:
    jobs = gs.Workload.jobs_of(
        [3.0, 2.0, 1.0, 0.0], 1, 1.0, memory=[0.0, 4e9, 4e9, 9e8], kinds=["", "cpu", "gpu", "gpu"]
    ).realize(FOUR_MACHINES)
    suited = [jobs.machines_for(i) for i in range(4)]  # applications are in the order of their releases
    assert [np.flatnonzero(item).tolist() for item in suited if item is not None] == [
        [2, 3], [2, 3], [1], [0, 1, 2, 3]
    ]  # fmt: skip
    # the first two jobs have the same suitable machines
    assert jobs.suited is not None and len(jobs.suited) == 3
    assert gs.Workload.jobs_of([0.0], 1, 1.0).realize(FOUR_MACHINES).machines_for(0) is None


AMOUNTS = st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.0, 7.0])
KINDS = st.sampled_from(["", "a", "b"])


@given(st.data(), st.integers(1, 4), st.integers(1, 8))
def test_jobs_with_the_same_suitable_machines_are_one_group(
    data: st.DataObject, machines: int, jobs: int
) -> None:
    """Groups are numbered in the order of their first jobs."""

    def column(values: Any, count: int) -> Any:
        return np.array(data.draw(st.lists(values, min_size=count, max_size=count)))

    attributes = Attributes(
        column(AMOUNTS, machines), column(KINDS.filter(bool), machines), None, column(AMOUNTS, machines)
    )
    wants = Requirements(
        *(column(values, jobs) if data.draw(st.booleans()) else None for values in (AMOUNTS, KINDS, AMOUNTS))
    )
    if not wants.any:
        return
    known_kinds = {"", *attributes.kind.tolist()}
    rows = wants.rows()
    if (unknown := next((i for i, row in enumerate(rows) if row[1] not in known_kinds), None)) is not None:
        with pytest.raises(ScenarioError, match=rf"^workload.kinds\[{unknown}\]"):
            wants.groups(attributes)
        return
    group, suited = wants.groups(attributes)
    masks = [attributes.suitable_machines(*row).tolist() for row in rows]
    assert suited[group].tolist() == masks
    assert suited.tolist() == [mask for i, mask in enumerate(masks) if mask not in masks[:i]]
    assert all(wants.row(i) == row for i, row in enumerate(rows))


def test_drawn_attributes_are_independent() -> None:
    def drawn_platform(**more: Any) -> Any:
        return gs.Platform.equal(300, attributes=gs.DrawnAttributes(seed=5, **more)).attributes

    every = drawn_platform(memory=(1e9, 2e9, 2e9), kinds=("a", "b"), side=7.0)
    assert np.array_equal(every.memory, drawn_platform(memory=(1e9, 2e9, 2e9)).memory)
    assert np.array_equal(every.places, drawn_platform(kinds=("a", "b"), side=7.0).places)
    assert 0.6 < (every.memory == 2e9).mean() < 0.73 and set(every.kind.tolist()) == {"a", "b"}
    assert every.places.shape == (300, 2) and 0 <= every.places.min() < 1 and 6 < every.places.max() < 7


def test_tasks_of_a_bag_have_suitable_machines() -> None:
    bags = gs.Workload.of(
        [3.0, 2.0, 1.0, 0.0], 1, 1.0, memory=[0.0, 2e9, 0.0, 1e9], disk=[2.0, 1.0, 0.0, 0.0]
    ).realize(DISKS)
    suited = [bags.machines_for(i) for i in range(4)]  # applications are in the order of their releases
    assert [np.flatnonzero(item).tolist() for item in suited if item is not None] == [
        [0, 1],
        [0, 1],
        [0],
        [1],
    ]
    assert bags.disk is not None and bags.disk.tolist() == [0.0, 0.0, 1.0, 2.0]
    assert gs.Workload.of([0.0], 1, 1.0, memory=1e9).realize(DISKS).group is None  # all machines suit


def test_suitable_machines_have_the_required_disk() -> None:
    """Disks are drawn independently, and rigid jobs run on machines with enough disk."""
    drawn_platform = [
        gs.Platform.equal(50, attributes=gs.DrawnAttributes(seed=5, memory=(1e9, 2e9), **more)).attributes
        for more in ({}, {"disk": (1.0, 4.0)})
    ]
    assert (
        drawn_platform[0] is not None and drawn_platform[1] is not None and drawn_platform[1].disk is not None
    )
    assert np.array_equal(drawn_platform[0].memory, drawn_platform[1].memory)
    assert not np.array_equal(drawn_platform[1].memory == 1e9, drawn_platform[1].disk == 1.0)
    two = gs.Platform.equal(2, attributes=gs.ListedAttributes(disk=(1.0, 4.0)))
    result = gs.simulate(gs.Scenario(two, gs.Workload.jobs_of([0.0], 1, 5.0, disk=2.0)), gs.DgsAsap())
    assert result.machines["tasks"].tolist() == [0, 1] and result.applications["disk"].tolist() == [2.0]


def test_constraints_leave_other_columns_of_bags_unchanged() -> None:
    expected = gs.Constraints(memory=(0.0, 2e9), disk=(0.0, 2e9))
    platform = gs.Platform.pareto(8, seed=1).with_attributes(
        gs.ListedAttributes(memory=(4e9,) * 8, disk=(4e9,) * 8)
    )
    plain, wanting = (
        gs.Workload.bags(30, seed=5, constraints=item).realize(platform) for item in (None, expected)
    )
    for name in ("release", "tasks", "task_size", "submitter"):
        assert np.array_equal(getattr(plain, name), getattr(wanting, name))
    assert plain.memory is None and wanting.memory is not None and wanting.disk is not None
    assert not np.array_equal(wanting.memory, wanting.disk)


def test_drawn_jobs_need_at_most_as_many_machines_as_suit_them() -> None:
    attributes = gs.DrawnAttributes(kinds=("a", "b", "b", "b"), seed=1)
    expected = gs.Constraints(kinds=("a", ""))
    platform = gs.Platform.equal(40, attributes=attributes)
    jobs = gs.Workload.jobs(300, profile="ricc2010", constraints=expected, seed=2).realize(platform)
    assert jobs.kind is not None and platform.attributes is not None
    maximum = int(platform.attributes.suitable_machines(0.0, "a").sum())
    assert jobs.tasks[jobs.kind == "a"].max() == maximum < jobs.tasks[jobs.kind == ""].max() == 40


def test_attributes_and_constraints_survive_a_file() -> None:
    text = """
[platform]
kind = "equal"
nodes = 3
attributes = {kind = "drawn", memory = ["16 GB", 32e9], side = 2.0}
[workload]
kind = "jobs"
seed = 1
constraints = {memory = ["1 GiB"]}
"""
    scenario = gs.Scenario.from_toml(text)
    assert scenario.platform.recipe.attributes.memory == (16e9, 32e9)
    assert scenario.workload.recipe.constraints == gs.Constraints(memory=(2.0**30,))
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario


def test_requirements_of_bags_survive_a_file() -> None:
    text = """
[platform]
kind = "pareto"
nodes = 3
seed = 1
attributes = {kind = "list", memory = ["8 GB", 0, 0], disk = ["1 GB", "1 GB", 0]}
[workload]
kind = "bags"
seed = 1
constraints = {memory = ["4 GB"], disk = [1e9]}
"""
    scenario = gs.Scenario.from_toml(text)
    assert scenario.workload.realize(scenario.platform).suited.tolist() == [[True, False, False]]  # type: ignore[union-attr]
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario


def _file(attributes: str) -> gs.Scenario:
    platform = f"[platform]\nkind = 'equal'\nnodes = 2\nattributes = {attributes}\n"
    return gs.Scenario.from_toml(platform + "[workload]\nkind = 'jobs'\nseed = 1\n")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: gs.DrawnAttributes(),
            "platform.attributes must have at least one of memory, disk, kinds and side, got none",
        ),
        (lambda: gs.DrawnAttributes(memory=(-1,)), "platform.attributes.memory[0] must be a number in 0..9"),
        (lambda: gs.DrawnAttributes(side=0.0), "platform.attributes.side must be a number > 0 and at most"),
        (lambda: gs.DrawnAttributes(kinds=("",)), "platform.attributes.kinds[0] must"),
        (
            lambda: gs.ListedAttributes(),
            "platform.attributes must have at least one of memory, disk, kinds, and the pair x, y, got none",
        ),
        (
            lambda: gs.ListedAttributes(x=(1.0,)),
            "platform.attributes.x requires platform.attributes.y",
        ),
        (
            lambda: gs.Platform.equal(3, attributes=gs.ListedAttributes(memory=(1.0,))),
            "platform.attributes.memory must have 3 entries, one per machine, got 1",
        ),
        (
            lambda: gs.Platform.equal(3, attributes="gpu"),  # type: ignore[arg-type]
            "platform.attributes must be DrawnAttributes, ListedAttributes or None, got 'gpu'",
        ),
        (
            lambda: gs.Workload.jobs(seed=1, constraints={"memory": 1}),  # type: ignore[arg-type]
            "workload.constraints must be Constraints or None, got {'memory': 1}",
        ),
        (
            lambda: gs.Workload.jobs_of([0.0], 1, 1.0, kinds="gpus").realize(FOUR_MACHINES),
            "workload.kinds[0] must be one of cpu, gpu, the kinds of the machines, or empty for any, "
            "got 'gpus'; did you mean gpu?",
        ),
        (
            lambda: gs.Workload.jobs_of([0.0], 1, 1.0, memory=1.0).realize(gs.Platform.equal(3)),
            "platform.memory must be set for jobs",
        ),
        (
            lambda: gs.Workload.jobs_of([0.0], 2, 1.0, memory=5e9, kinds="gpu").realize(FOUR_MACHINES),
            "workload.nodes[0] must be at most 1, the number of machines with at least "
            "5e+09 bytes and kind 'gpu', got 2",
        ),
        (
            lambda: gs.Workload.of([0.0], 1, 1.0, disk=1.0).realize(FOUR_MACHINES),
            "platform.attributes.disk must be set for tasks",
        ),
        (
            lambda: gs.Workload.of([0.0, 0.0], 1, 1.0, memory=[8e9, 9e9]).realize(FOUR_MACHINES),
            "workload.memory must suit at least one machine, got at least 9e+09 bytes "
            "for application 1; machines have memory of up to 8e+09 bytes",
        ),
        (
            lambda: gs.Workload.of([0.0], 1, 1.0, memory=8e9, disk=2.0).realize(DISKS),
            "workload.memory and workload.disk must suit at least one machine",
        ),
        (
            lambda: gs.Workload.bags(seed=1, constraints=gs.Constraints(kinds=("gpu",))),
            "workload.constraints.kinds must be empty for bags",
        ),
        (
            lambda: gs.Workload.bags(seed=1, constraints={"memory": 1}),  # type: ignore[arg-type]
            "workload.constraints must be Constraints or None, got {'memory': 1}",
        ),
        (
            lambda: gs.Platform.of([1.0]).with_attributes("gpu"),  # type: ignore[arg-type]
            "platform.attributes must be DrawnAttributes, ListedAttributes or None, got 'gpu'",
        ),
        (
            lambda: _file("{kind = 'drawn', sides = 1}"),
            "platform.attributes.sides is not a known key; did you mean side?",
        ),
        (
            lambda: _file("{kind = 'draw'}"),
            "platform.attributes.kind must be one of drawn, list, got 'draw'; did",
        ),
    ],
)
def test_wrong_attributes_are_rejected(call: Callable[[], Any], expected: str) -> None:
    with pytest.raises(ScenarioError) as excinfo:
        call()
    assert str(excinfo.value).startswith(expected)


@pytest.mark.parametrize("name", ["backfill", "zorilla", "metascheduler"])
def test_schedulers_without_support_reject_constraints(name: str) -> None:
    jobs = gs.Workload.jobs_of([0.0, 1.0], 1, 1.0, kinds=["", "gpu"])
    with pytest.raises(ScenarioError) as excinfo:
        gs.simulate(gs.Scenario(FOUR_MACHINES, jobs), name)
    assert str(excinfo.value).startswith(
        f"{name} does not support constraints of the workload, "
        "got a job that requires kind 'gpu'; schedulers that support them: "
    )
