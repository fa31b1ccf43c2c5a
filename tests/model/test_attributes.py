"""Attributes of machines, and what jobs want of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError

OWN = gs.ListedAttributes(memory=(1e9, 4e9, 4e9, 8e9), kinds=("cpu", "cpu", "gpu", "gpu"))
FOUR = gs.Platform.equal(4, attributes=OWN)


def test_machines_that_suit_a_job() -> None:
    jobs = gs.Workload.jobs_of(
        [3.0, 2.0, 1.0, 0.0], 1, 1.0, memory=[0.0, 4e9, 4e9, 9e8], kinds=["", "cpu", "gpu", "gpu"]
    ).realize(FOUR)
    suited = [jobs.machines_for(i) for i in range(4)]  # in order of release
    assert [np.flatnonzero(each).tolist() for each in suited if each is not None] == [
        [2, 3], [2, 3], [1], [0, 1, 2, 3]
    ]  # fmt: skip
    assert jobs.suited is not None and len(jobs.suited) == 3  # the first two are of one group
    assert gs.Workload.jobs_of([0.0], 1, 1.0).realize(FOUR).machines_for(0) is None


def test_drawn_attributes_do_not_depend_on_one_another() -> None:
    def drawn(**more: Any) -> Any:
        return gs.Platform.equal(300, attributes=gs.DrawnAttributes(seed=5, **more)).attributes

    every = drawn(memory=(1e9, 2e9, 2e9), kinds=("a", "b"), side=7.0)
    assert np.array_equal(every.memory, drawn(memory=(1e9, 2e9, 2e9)).memory)
    assert np.array_equal(every.places, drawn(kinds=("a", "b"), side=7.0).places)
    assert 0.6 < (every.memory == 2e9).mean() < 0.73 and set(every.kind.tolist()) == {"a", "b"}
    assert every.places.shape == (300, 2) and 0 <= every.places.min() < 1 and 6 < every.places.max() < 7


def test_drawn_jobs_want_no_more_machines_than_suit_them() -> None:
    own = gs.DrawnAttributes(kinds=("a", "b", "b", "b"), seed=1)
    wanted = gs.Constraints(kinds=("a", ""))
    platform = gs.Platform.equal(40, attributes=own)
    jobs = gs.Workload.jobs(300, profile="ricc2010", constraints=wanted, seed=2).realize(platform)
    assert jobs.kind is not None and platform.attributes is not None
    most = int(platform.attributes.suit(0.0, "a").sum())
    assert jobs.tasks[jobs.kind == "a"].max() == most < jobs.tasks[jobs.kind == ""].max() == 40


def test_a_file_holds_attributes_and_constraints() -> None:
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


def _file(attributes: str) -> gs.Scenario:
    platform = f"[platform]\nkind = 'equal'\nnodes = 2\nattributes = {attributes}\n"
    return gs.Scenario.from_toml(platform + "[workload]\nkind = 'jobs'\nseed = 1\n")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: gs.DrawnAttributes(),
            "platform.attributes must have memory, disk, kinds or side, got none of them",
        ),
        (lambda: gs.DrawnAttributes(memory=(-1,)), "platform.attributes.memory[0] must be a number in 0..9"),
        (lambda: gs.DrawnAttributes(side=0.0), "platform.attributes.side must be a number > 0 and at most"),
        (lambda: gs.DrawnAttributes(kinds=("",)), "platform.attributes.kinds[0] must"),
        (
            lambda: gs.ListedAttributes(),
            "platform.attributes must have memory, disk, kinds, or x and y, got none",
        ),
        (
            lambda: gs.ListedAttributes(x=(1.0,)),
            "platform.attributes.y must be given with platform.attributes.x",
        ),
        (
            lambda: gs.Platform.equal(3, attributes=gs.ListedAttributes(memory=(1.0,))),
            "platform.attributes.memory must have 3 entries, one per machine, got 1",
        ),
        (
            lambda: gs.Platform.equal(3, attributes="gpu"),  # type: ignore[arg-type]
            "platform.attributes must be DrawnAttributes or ListedAttributes, got 'gpu'",
        ),
        (
            lambda: gs.Workload.jobs(seed=1, constraints={"memory": 1}),  # type: ignore[arg-type]
            "workload.constraints must be Constraints, got {'memory': 1}",
        ),
        (
            lambda: gs.Workload.jobs_of([0.0], 1, 1.0, kinds="gpus").realize(FOUR),
            "workload.kinds[0] must be one of cpu, gpu, the kinds of the machines, or empty for any, "
            "got 'gpus'; did you mean gpu?",
        ),
        (
            lambda: gs.Workload.jobs_of([0.0], 1, 1.0, memory=1.0).realize(gs.Platform.equal(3)),
            "platform.attributes.memory must be given for jobs that want memory, got none",
        ),
        (
            lambda: gs.Workload.jobs_of([0.0], 2, 1.0, memory=5e9, kinds="gpu").realize(FOUR),
            "workload.nodes[0] must be at most 1, the machines that have what the job wants (at least "
            "5e+09 bytes and kind 'gpu'), got 2",
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
def test_bad_attributes(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        call()
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("name", ["backfill", "zorilla", "metascheduler"])
def test_schedulers_that_take_machines_to_be_alike(name: str) -> None:
    jobs = gs.Workload.jobs_of([0.0, 1.0], 1, 1.0, kinds=["", "gpu"])
    with pytest.raises(ScenarioError) as caught:
        gs.simulate(gs.Scenario(FOUR, jobs), name)
    assert str(caught.value).startswith(
        f"workload must have no constraints for {name}, which takes all machines to be alike, "
        "got a job that wants kind 'gpu'; for these: "
    )
