"""Whatever fails, whenever: every task is completed once, messages add up, and cohorts may be cut."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from law_scenarios import fair_trees, scenarios

import gridsim as gs
from gridsim.faults import Faults

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

#: During the descent of the first requests, a summary's flight, with a heartbeat, or whenever.
INSTANTS = st.sampled_from((0.0, 0.05, 0.05136, 0.1, 0.15408, 0.3, 1.0, 20.0, 300.0)) | st.floats(0.0, 400.0)


@st.composite
def schedules(draw: st.DrawFn, machines: int) -> Faults:
    """Resets and outages of any machines at once; one of the machines never stays away."""
    safe = draw(st.integers(0, machines - 1))
    rows: list[tuple[int, float, float]] = []
    for _ in range(draw(st.integers(1, 4))):
        at = draw(INSTANTS)
        last = at + draw(st.sampled_from((0.0, 0.0, 0.2, 30.0, 700.0, inf)))
        struck = draw(
            st.just(range(machines)) | st.sets(st.integers(0, machines - 1), min_size=1, max_size=3)
        )
        for u in sorted(struck):
            rows.append((u, at, at if u == safe else last))
    kept: list[tuple[int, float, float]] = []
    for u, down, up in sorted(rows):
        if not any(u == v and down <= back for v, _, back in kept):
            kept.append((u, down, up))
    return Faults.of(*(list(column) for column in zip(*kept, strict=True)))


@st.composite
def failing(draw: st.DrawFn) -> gs.Scenario:
    scenario = draw(scenarios())
    faults = draw(schedules(scenario.platform.nodes))
    return gs.Scenario(
        scenario.platform, scenario.workload, scenario.network, seed=scenario.seed, faults=faults
    )


def check(result: gs.Result) -> None:
    """Tasks are checked by `simulate` itself; here are messages and the time machines were up."""
    messages = result.tables["messages"]
    sent, delivered, dropped = (messages[name] for name in ("sent", "delivered", "dropped"))
    assert (messages["in_flight"] == sent - delivered - dropped).all()
    assert (messages["in_flight"] >= 0).all() and (dropped >= 0).all()
    assert (result.machines["tasks"] >= 0).all()
    assert result.machines["tasks"].sum() == result.applications["tasks"].sum()


@QUICK
@given(failing(), fair_trees(), st.sampled_from((None, 0.0, 0.07, 25.0)))
def test_the_fair_tree_completes_every_task_once(
    scenario: gs.Scenario, scheduler: gs.FairTree, detection: float | None
) -> None:
    parameters = {name: getattr(scheduler, name) for name in scheduler.__struct_fields__}
    scheduler = gs.FairTree(**{**parameters, "detection": detection})
    whole = gs.simulate(scenario, scheduler)
    check(whole)
    assert gs.simulate(scenario, scheduler, cohort_limit=1).digest == whole.digest
    assert gs.simulate(scenario, scheduler, cohort_limit=3).digest == whole.digest
    requests = whole.tables["requests"]
    if scenario.platform.nodes > 1:
        # what was submitted again came out of losses, and each request was accepted somewhere
        again = np.zeros(len(whole.applications["tasks"]), np.int64)
        np.add.at(again, requests["application"], requests["tasks"])
        given_tasks = whole.applications["tasks"]
        assert (again <= given_tasks + whole.applications["resubmitted"]).all()


def grid(**of: Any) -> gs.Scenario:
    """Eight machines and two bags, and these faults."""
    return gs.Scenario(
        gs.Platform.of([1000.0, 2000.0] * 4),
        gs.Workload.of(release=[0.0, 2.0], tasks=[40, 16], task_size=[1000.0, 3000.0], submitter=[5, 2]),
        faults=Faults.of(**of),
    )


@pytest.mark.parametrize(
    "of",
    [
        {"machine": [5], "down": [0.0], "up": [0.0]},  # the submitter, as it submits
        {"machine": [5], "down": [0.02], "up": [inf]},  # and for good
        {"machine": [1, 3], "down": [0.12, 0.12], "up": [0.12, 0.12]},  # father and child at one instant
        {"machine": [0, 1, 2], "down": [0.11] * 3, "up": [50.0] * 3},  # the upper routers, during the descent
        {"machine": [0], "down": [0.03], "up": [0.03]},  # the root, during the first summaries' flight
        {"machine": list(range(7)), "down": [1.0] * 7, "up": [inf] * 7},  # all but one
        {"machine": list(range(8)), "down": [1.0] * 8, "up": [90.0] * 8},  # everybody, for a while
        {"machine": [3, 3, 3], "down": [1.0, 2.0, 3.0], "up": [1.0, 2.5, 3.0]},  # one again and again
        {"machine": [6, 7], "down": [0.0, 0.0], "up": [10.0, 400.0]},  # two that join later
    ],
)
@pytest.mark.parametrize("detection", [None, 0.0])
def test_what_may_happen(of: dict[str, Any], detection: float | None) -> None:
    scheduler = gs.FairTree(samples=(6, 4, 3), detection=detection)
    result = gs.simulate(grid(**of), scheduler)
    check(result)
    assert result.machines["failures"].sum() == len(of["machine"])
    assert gs.simulate(grid(**of), scheduler, cohort_limit=1).digest == result.digest


def test_who_leaves_for_good_works_no_more() -> None:
    result = gs.simulate(grid(machine=list(range(7)), down=[1.0] * 7, up=[inf] * 7), gs.FairTree())
    assert (result.machines["busy"][:7] <= 1.0).all()
    assert result.machines["tasks"][7] >= 56 - 7
    assert result.applications["resubmitted"].sum() > 0


def test_who_joins_later_works_later() -> None:
    early = gs.simulate(grid(machine=[7], down=[0.0], up=[inf]), gs.FairTree(samples=(6, 4, 3)))
    assert early.machines["tasks"][7] == 0 and early.machines["busy"][7] == 0.0
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 4),
        gs.Workload.of(release=[0.0, 40.0], tasks=[4, 40], task_size=[1000.0, 1000.0], submitter=[0, 1]),
        faults=Faults.of([3], [0.0], [20.0]),
    )
    late = gs.simulate(scenario, gs.FairTree(samples=(6, 4, 3)))
    assert late.machines["tasks"][3] > 0


def test_nothing_lost_is_noticed_before_its_time() -> None:
    of: dict[str, Any] = {"machine": [1], "down": [0.5], "up": [inf]}
    makespans = [
        gs.simulate(grid(**of), gs.FairTree(samples=(6, 4, 3), detection=detection)).makespan
        for detection in (0.0, 100.0, None)
    ]
    assert makespans[0] < 100.0 < makespans[1] < 300.0 < makespans[2]


def test_nobody_left() -> None:
    everybody: dict[str, Any] = {"machine": list(range(8)), "down": [1.0] * 8, "up": [inf] * 8}
    with pytest.raises(gs.ScenarioError, match=r"^faults must leave .*; at 1 s .* with 5\d tasks left"):
        gs.simulate(grid(**everybody), gs.FairTree())
