"""Bags at one master: served links, ratios of applications, and the bound by the linear program."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.schedulers.steady_state.sorted_shares import sorted_shares
from gridsim.testing import check_scheduler

pytest.importorskip("scipy")

RULES = {
    "planned": gs.SteadyState(),
    "sorted": gs.BandwidthCentric(),
    "in turn": gs.BandwidthCentric(rule="in-turn"),
}


def scenario(
    speeds: list[float], links: list[float], data: list[float], tasks: int | list[int] = 200, **named: Any
) -> gs.Scenario:
    """Return bags of tasks of 1,000 Mflop, released at 0."""
    count = len(data)
    counts = [tasks] * count if isinstance(tasks, int) else tasks
    workload = gs.Workload.of([0.0] * count, counts, 1000.0, input_bytes=data)
    return gs.Scenario(gs.Platform.of(speeds).linked(links), workload, seed=1, **named)


@pytest.mark.parametrize("rule", RULES)
def test_scarce_port_serves_only_the_fast_link(rule: str) -> None:
    """Both machines are equally fast; the port has no time for the one with the slow link."""
    result = gs.simulate(scenario([1000.0, 1000.0], [1e6, 1e5], [2e6]), RULES[rule])
    assert result.machines["tasks"].tolist() == [200, 0]


@pytest.mark.parametrize("rule", ["planned", "sorted"])
def test_tasks_with_data_go_over_the_fast_link(rule: str) -> None:
    """One machine can run one application alone; the port cannot send the data over the slow link."""
    setting = scenario([1000.0, 1000.0], [1e6, 1e5], [9e5, 0.0])
    result = gs.simulate(setting, RULES[rule], record="schedule")
    rows = result.tables["schedule"]
    by_machine = [rows["tasks"][(rows["machine"] == u) & (rows["application"] == 0)].sum() for u in (0, 1)]
    assert by_machine[0] >= 197 and sum(by_machine) == 200  # the last few tasks do not share the port
    assert result.applications["finish"].max() < 210


@pytest.mark.parametrize("branching", [0, 2])
@pytest.mark.parametrize("rule", RULES)
def test_no_run_beats_the_linear_program(rule: str, branching: int) -> None:
    """The centralized scheduler comes near the bound, so the bound is tight."""
    rng = np.random.default_rng(3)
    speeds, links = rng.uniform(500, 2000, 7), rng.uniform(1e5, 1e6, 7)
    data = np.array([0.0, 3e5, 9e5])
    setting = scenario(list(speeds), list(links), list(data))
    scheduler = msgspec.structs.replace(RULES[rule], branching=branching)
    best = gs.optimal_throughput(
        speeds, links, np.full(3, 1000.0), data, port="one", parent=scheduler.parents(7)
    )
    ratio = 200 / gs.simulate(setting, scheduler).applications["finish"].max() / best.level
    assert ratio <= 1.0
    if rule == "planned":
        assert ratio > 0.9


@pytest.mark.parametrize("rule", RULES)
def test_weights_set_the_ratio_of_served_tasks(rule: str) -> None:
    """Bags of 100 and 300 tasks end together if weighted by tasks; otherwise the small one ends earlier."""
    setting = scenario([1000.0] * 4, [1e6] * 4, [1e4, 1e4], tasks=[100, 300])
    ends = {
        weights: gs.simulate(setting, msgspec.structs.replace(RULES[rule], weights=weights)).applications[
            "finish"
        ]
        for weights in ("equal", "tasks")
    }
    assert ends["tasks"][0] == pytest.approx(ends["tasks"][1], rel=0.06)
    assert ends["equal"][0] == pytest.approx(0.5 * ends["equal"][1], rel=0.06)


@pytest.mark.parametrize("port", ["one", "many"])
def test_master_bandwidth_limits_the_throughput(port: str) -> None:
    """100 tasks of 1e6 bytes at 2e5 bytes/s take 500 s."""
    setting = scenario([1000.0] * 4, [1e6] * 4, [1e6], tasks=100)
    for scheduler in (
        gs.SteadyState(port=port, master_bandwidth=2e5),
        gs.BandwidthCentric(rule="in-turn", port=port, master_bandwidth=2e5),
    ):
        end = gs.simulate(setting, scheduler).applications["finish"].max()
        assert 500 < end < 515


def test_many_ports_use_all_links_at_once() -> None:
    """Four links of 1e5 bytes/s carry 4e5, which one port serves at 1e5."""
    setting = scenario([1000.0] * 4, [1e5] * 4, [1e6], tasks=100)
    ends = [
        gs.simulate(setting, gs.SteadyState(port=port)).applications["finish"].max()
        for port in ("many", "one")
    ]
    assert 250 < ends[0] < 275 and 1000 < ends[1] < 1030


def test_later_application_does_not_catch_up() -> None:
    """The application gets half of the tasks from its release on, not all until both counts are equal."""
    workload = gs.Workload.of([0.0, 50.0], [200, 60], 1000.0)
    setting = gs.Scenario(gs.Platform.of([1000.0] * 2), workload, seed=1)
    result = gs.simulate(setting, RULES["in turn"])
    assert result.applications["finish"][1] == pytest.approx(50 + 60, abs=5)


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (
            lambda: gs.SteadyState(port="many", branching=2),
            "steady-state.branching requires steady-state.port",
        ),
        (
            lambda: gs.BandwidthCentric(port="many"),
            "bandwidth-centric.rule = 'sorted' requires bandwidth-centric.port",
        ),
        (lambda: gs.SteadyState(buffer=0), "steady-state.buffer must be"),
        (lambda: gs.SteadyState(master_bandwidth=0.0), "steady-state.master_bandwidth must be"),
    ],
)
def test_bad_parameters_are_rejected(scheduler: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scheduler()


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [
        gs.BandwidthCentric(branching=3),
        gs.BandwidthCentric(rule="in-turn", weights="tasks", port="many", master_bandwidth=1e6),
        gs.SteadyState(),
        gs.SteadyState(branching=2, master_bandwidth=2e5),
    ],
)
def test_schedulers_keep_the_invariants(scheduler: gs.Scheduler) -> None:
    check_scheduler(scheduler, examples=5, hash_seeds=False)


pytest.importorskip("scipy")

NUMBERS = st.sampled_from((0.1, 0.5, 1.0, 2.0, 10.0))
CHILDREN = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5)
APPLICATIONS = st.lists(st.tuples(NUMBERS, NUMBERS | st.just(0.0), NUMBERS), min_size=1, max_size=4)


@given(CHILDREN, APPLICATIONS, st.sampled_from((0.3, math.inf)))
def test_sorted_order_is_optimal_in_a_star(
    children: list[tuple[float, float]], applications: list[tuple[float, float, float]], limit: float
) -> None:
    """Data-intensive applications go over fast links, as published."""
    level, rates = sorted_shares(dict(enumerate(children)), dict(enumerate(applications)), limit)
    (speeds, links), (sizes, data, weights) = np.array(children).T, np.array(applications).T
    best = gs.optimal_throughput(
        speeds, links, sizes, data, weights=weights, port="one", master_bandwidth=limit
    )
    assert level == pytest.approx(best.level, rel=1e-6)
    x = np.array([[rates[k].get(u, 0.0) for k in rates] for u in range(len(speeds))])
    assert (x @ sizes <= speeds * (1 + 1e-9)).all()
    assert (x @ data / np.minimum(links, limit)).sum() <= 1 + 1e-9
    assert x.sum(axis=0) == pytest.approx(weights * level, rel=1e-9)


def test_tasks_of_the_node_itself_use_no_port() -> None:
    """The node runs the tasks with the most data, and its children run the others."""
    level, rates = sorted_shares(
        {7: (1.0, math.inf), 3: (1.0, 1.0)}, {0: (1.0, 9.0, 1.0), 1: (1.0, 0.1, 1.0)}
    )
    assert level == pytest.approx(1.0) and rates == {0: {7: 1.0}, 1: {3: 1.0}}
