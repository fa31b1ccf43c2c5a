"""The ideal tree: promises, division among children, and convergence of the fair tree to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridcore.fair_tree.summaries import split

FREE = gs.Network(latency=0.0, bandwidth=math.inf, interfaces="equal")


def scenario(nodes: int, interarrival: float, seed: int, **bags: Any) -> gs.Scenario:
    sizes = {"task_size": (65536.0, 131072.0), "tasks_per_node": 4.0, **bags}
    workload = gs.Workload.bags(applications=12, interarrival=interarrival, seed=seed, **sizes)
    return gs.Scenario(gs.Platform.desktop_grid(nodes, seed), workload, FREE, seed=seed)


def leaf_tasks(capacity: list[int], count: int, node: int = 0) -> list[tuple[int, int]]:
    """Return leaf and tasks of all leaves below `node`, by recursion."""
    routers = len(capacity) - 1
    if node >= routers:
        return [(node - routers, count)]

    def holds(k: int) -> int:
        return capacity[k - routers] if k >= routers else holds(2 * k + 1) + holds(2 * k + 2)

    shares = split(np.array([holds(2 * node + 1), holds(2 * node + 2)]), count).tolist()
    return [pair for j, share in enumerate(shares) for pair in leaf_tasks(capacity, share, 2 * node + 1 + j)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.data())
def test_routers_divide_tasks_between_two_children(capacity: list[int], data: st.DataObject) -> None:
    from gridsim.schedulers.centralized.ideal_tree import TreeDivision

    count = data.draw(st.integers(0, sum(capacity)))
    tasks = TreeDivision.divide(None, np.array(capacity), count)  # type: ignore[arg-type]
    assert dict(enumerate(tasks.tolist())) == dict(leaf_tasks(capacity, count))
    assert tasks.sum() == count and (tasks <= capacity).all()


@pytest.mark.parametrize(("nodes", "interarrival"), [(1, 30.0), (7, 10.0), (40, 30.0), (40, 300.0)])
def test_stretch_never_exceeds_the_largest_promise(nodes: int, interarrival: float) -> None:
    for seed in range(3):
        result = gs.simulate(scenario(nodes, interarrival, seed), gs.IdealTree())
        promised = result.tables["requests"]["promised"].max()
        assert result.bound().stretch * (1 - 1e-9) <= result.max_stretch <= promised * (1 + 1e-9)


def test_promises_on_an_idle_grid_equal_those_of_mincent() -> None:
    """All machines are idle at each release; the fair tree promises no less."""
    sparse = scenario(50, 1e5, 5)
    promised = {
        name: gs.simulate(sparse, scheduler).tables["requests"]["promised"]
        for name, scheduler in {
            "ideal": gs.IdealTree(),
            "once": gs.MinCent(mode="once"),
            "tree": gs.FairTree(bound=0.0, update_rate=0.0, samples=(30, 20, 10)),
        }.items()
    }
    assert (promised["ideal"] == promised["once"]).all()
    assert (promised["ideal"] <= promised["tree"]).all()
    assert (promised["ideal"] < promised["tree"]).any()


def test_fair_tree_with_fine_summaries_nearly_equals_the_ideal_tree() -> None:
    ratios = []
    for seed in range(3):
        crowded = scenario(40, 10.0, seed)
        fine = gs.FairTree(bound=0.0, update_rate=0.0, samples=(200, 60, 20))
        coarse = gs.FairTree(bound=0.0, update_rate=0.0, samples=(4, 3, 2))
        ideal, near, far = (gs.simulate(crowded, x).max_stretch for x in (gs.IdealTree(), fine, coarse))
        ratios.append((near / ideal, far / ideal))
    assert max(abs(near - 1.0) for near, _ in ratios) < 0.03
    assert max(far for _, far in ratios) > 1.03  # coarse summaries make a difference


def test_lost_tasks_keep_their_release() -> None:
    failing = gs.Scenario(
        gs.Platform.of([1000.0, 1000.0]),
        gs.Workload.of(release=[0.0], tasks=[4], task_size=[1000.0]),
        FREE,
        faults=gs.Faults.of([0], [0.5], [math.inf]),
    )
    result = gs.simulate(failing, gs.IdealTree(), record=True)
    assert result.tables["requests"]["promised"].tolist() == pytest.approx([2.0 / 4000, 4.0 / 4000])
    assert result.applications["finish"].tolist() == [4.0]
    assert result.applications["resubmitted"].tolist() == [2]
