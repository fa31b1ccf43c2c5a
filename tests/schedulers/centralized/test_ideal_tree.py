"""The ideal tree: what it promises, how it shares out, and that it is what the fair tree comes to."""

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


def scenario(nodes: int, apart: float, seed: int, **bags: Any) -> gs.Scenario:
    sizes = {"task_size": (65536.0, 131072.0), "tasks_per_node": 4.0, **bags}
    workload = gs.Workload.bags(applications=12, interarrival=apart, seed=seed, **sizes)
    return gs.Scenario(gs.Platform.desktop_grid(nodes, seed), workload, FREE, seed=seed)


def downwards(room: list[int], count: int, node: int = 0) -> list[tuple[int, int]]:
    """(leaf, tasks) below `node`, by recursion."""
    routers = len(room) - 1
    if node >= routers:
        return [(node - routers, count)]

    def holds(k: int) -> int:
        return room[k - routers] if k >= routers else holds(2 * k + 1) + holds(2 * k + 2)

    shares = split(np.array([holds(2 * node + 1), holds(2 * node + 2)]), count).tolist()
    return [pair for j, share in enumerate(shares) for pair in downwards(room, share, 2 * node + 1 + j)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.data())
def test_each_router_shares_out_to_its_two_children(room: list[int], data: st.DataObject) -> None:
    from gridsim.schedulers.centralized.ideal_tree import Down

    count = data.draw(st.integers(0, sum(room)))
    found = Down.divide(None, np.array(room), count)  # type: ignore[arg-type]
    assert dict(enumerate(found.tolist())) == dict(downwards(room, count))
    assert found.sum() == count and (found <= room).all()


@pytest.mark.parametrize(("nodes", "apart"), [(1, 30.0), (7, 10.0), (40, 30.0), (40, 300.0)])
def test_no_stretch_is_larger_than_the_largest_promise(nodes: int, apart: float) -> None:
    for seed in range(3):
        result = gs.simulate(scenario(nodes, apart, seed), gs.IdealTree())
        promised = result.tables["requests"]["promised"].max()
        assert result.bound().stretch * (1 - 1e-9) <= result.max_stretch <= promised * (1 + 1e-9)


def test_on_an_empty_grid_it_promises_what_mincent_does_and_no_more_than_the_fair_tree() -> None:
    """Releases are so far apart that every request finds all machines idle."""
    far = scenario(50, 1e5, 5)
    promised = {
        name: gs.simulate(far, scheduler).tables["requests"]["promised"]
        for name, scheduler in {
            "ideal": gs.IdealTree(),
            "once": gs.MinCent(mode="once"),
            "tree": gs.FairTree(bound=0.0, update_rate=0.0, samples=(30, 20, 10)),
        }.items()
    }
    assert (promised["ideal"] == promised["once"]).all()
    assert (promised["ideal"] <= promised["tree"]).all()
    assert (promised["ideal"] < promised["tree"]).any()


def test_fine_summaries_without_delays_come_to_the_same() -> None:
    ratios = []
    for seed in range(3):
        crowded = scenario(40, 10.0, seed)
        fine = gs.FairTree(bound=0.0, update_rate=0.0, samples=(200, 60, 20))
        coarse = gs.FairTree(bound=0.0, update_rate=0.0, samples=(4, 3, 2))
        ideal, near, far = (gs.simulate(crowded, x).max_stretch for x in (gs.IdealTree(), fine, coarse))
        ratios.append((near / ideal, far / ideal))
    assert max(abs(near - 1.0) for near, _ in ratios) < 0.03
    assert max(far for _, far in ratios) > 1.03  # so that it is the information that makes the difference


def test_what_is_lost_is_bound_again_with_its_first_release() -> None:
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
