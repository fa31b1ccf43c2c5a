"""DGS_ACAP: groups that are close, the proximity overlay, and the cost of the choice among answers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.attributes import mean_distance
from gridsim.schedulers.dgs.proximity import Proximity, closest
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.testing.resuming import resume_difference

coordinates = st.integers(0, 20).map(float)


@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=7), st.data())
def test_distance_of_a_group_is_less_than_twice_the_minimum(
    points: list[tuple[float, float]], data: st.DataObject
) -> None:
    places, count = np.array(points), data.draw(st.integers(1, len(points)))
    actual = closest(places, count)
    assert len(set(actual.tolist())) == count == len(actual)
    best = min(
        mean_distance(places[list(item)]) for item in itertools.combinations(range(len(points)), count)
    )
    assert mean_distance(places[actual]) <= 2 * best


@given(st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=6))
def test_mean_distance_is_that_of_all_pairs(points: list[tuple[float, float]]) -> None:
    pairs = [math.dist(a, b) for a, b in itertools.combinations(points, 2)]
    assert mean_distance(np.array(points)) == pytest.approx(sum(pairs) / len(pairs))


def scenario(nodes: int, workload: gs.Workload, **options: Any) -> gs.Scenario:
    own = gs.DrawnAttributes(side=1.0, seed=4)
    return gs.Scenario(gs.Platform.equal(nodes, attributes=own), workload, gs.Network(), 2, **options)


def overlay(nodes: int, scheduler: gs.DgsAcap) -> Any:
    """Return the overlay at the beginning of a run."""
    run = Simulation(scenario(nodes, gs.Workload.jobs_of([0.0], 1, 1.0)), scheduler, Options())
    return run.policy.environment.overlay  # type: ignore[attr-defined]


def test_nodes_know_the_nearest_nodes() -> None:
    """Before a run, `near` has the nearest nodes that are not in the random view."""
    views = overlay(300, gs.DgsAcap(degree=10, near=8))
    assert isinstance(views, Proximity)
    right = 0
    for node in range(300):
        apart = np.hypot(*(views.places - views.places[node]).T)
        apart[[node, *views.views.views[node]]] = np.inf
        nearest = np.argsort(apart, kind="stable")[:8]
        assert not set(views.near[node].tolist()) & {node, *views.views.views[node].tolist()}
        right += len(set(nearest.tolist()) & set(views.near[node].tolist()))
    assert right > 0.97 * 300 * 8


def test_nodes_of_small_grids_know_all_others() -> None:
    for nodes in (1, 2, 5):
        views = overlay(nodes, gs.DgsAcap(degree=3, near=3))
        known = views.known_to([*range(nodes)])
        assert [sorted(row[row >= 0].tolist()) for row in known] == [
            [other for other in range(nodes) if other != node] for node in range(nodes)
        ]


@pytest.mark.parametrize("overlay", ["static", "cyclon"])
def test_jobs_run_on_close_machines(overlay: Any) -> None:
    jobs = gs.Workload.jobs_of([100.0 * k for k in range(30)], [2 + k % 7 for k in range(30)], 600.0)
    apart = {}
    for scheduler in (gs.DgsAsap(overlay=overlay), gs.DgsAcap(overlay=overlay)):
        outcome = gs.simulate(scenario(100, jobs), scheduler).tables["placements"]
        apart[scheduler.name] = outcome["distance"][outcome["distance"] > 0].mean()
    assert apart["dgs-acap"] < 0.6 * apart["dgs-asap"]


def test_job_waits_for_closer_machines() -> None:
    """Machines 1 and 2 are close and busy until 100 s; 0 and 3 are far apart and free."""
    own = gs.ListedAttributes(x=(0.0, 50.0, 51.0, 100.0), y=(0.0,) * 4)
    jobs = gs.Workload.jobs_of([0.0, 1.0], 2, [100.0, 60.0], submitter=[3, 3])
    ideal = gs.Network(latency=0.0, bandwidth=math.inf)
    actual = gs.Scenario(gs.Platform.equal(4, attributes=own), jobs, ideal)
    starts = {}
    for tolerance in (0.0, 99.0, 600.0):
        outcome = gs.simulate(actual, gs.DgsAcap(slot=10.0, tolerance=tolerance))
        starts[tolerance] = (
            outcome.applications["first_start"].tolist(),
            outcome.tables["placements"]["distance"].tolist(),
        )
    assert starts == {
        0.0: ([0.0, 10.0], [1.0, 100.0]),
        99.0: ([0.0, 100.0], [1.0, 1.0]),
        600.0: ([0.0, 100.0], [1.0, 1.0]),
    }


def test_resumed_run_equals_the_whole_run() -> None:
    jobs = gs.Workload.jobs_of(
        [0.0, 1.0, 2.0, 50.0, 400.0], [3, 5, 4, 1, 6], [100.0, 300.0, 60.0, 200.0, 90.0]
    )
    faults = gs.Faults.exponential(up=3000.0, down=200.0, seed=1)
    actual = scenario(12, jobs, faults=faults)
    scheduler = gs.DgsAcap(degree=3, near=3, overlay="cyclon", cycle=13.0, tolerance=60.0)
    options: dict[str, Any] = {"record": ("schedule", "decisions")}
    result = gs.simulate(actual, scheduler, **options)
    assert resume_difference(actual, scheduler, result, **options) is None


def test_recovered_node_is_known_once() -> None:
    """A recovered node may enter the random view of a node that already has it in `near`."""
    second = gs.Faults.of([*range(10)], [0.0] * 10, [0.0] * 10)
    actual = scenario(10, gs.Workload.jobs_of([0.0], 1, 1.0), faults=second)
    for seed in range(4):
        result = gs.simulate(
            dataclasses.replace(actual, seed=seed), gs.DgsAcap(degree=3, near=8, overlay="cyclon")
        )
        assert math.isfinite(result.applications["finish"][0])


def test_machines_without_places_are_rejected() -> None:
    jobs = gs.Workload.jobs_of([0.0], 1, 1.0)
    with pytest.raises(ScenarioError) as excinfo:
        gs.simulate(gs.Scenario(gs.Platform.equal(3), jobs), "dgs-acap")
    assert str(excinfo.value) == (
        "platform.attributes must give machines places (side, or x and y) for dgs-acap, got none"
    )
    with pytest.raises(ScenarioError, match="^dgs-acap does not support nodes='compiled'"):
        gs.simulate(scenario(3, jobs), "dgs-acap", nodes="compiled")
