"""The market: awards, prices, payments and penalties."""

from __future__ import annotations

import numpy as np
import pytest

import gridsim as gs
from gridsim.validation.results import validate_result

#: Messages take no time; with `ask_ratio` 100 all machines are asked.
INSTANT = gs.Network(latency=0.0, bandwidth=np.inf, interfaces="equal")


def run(tasks: list[int], release: list[float], **parameters: float) -> gs.Result:
    workload = gs.Workload.of(release, tasks, 1000.0, [0] * len(tasks))
    scenario = gs.Scenario(gs.Platform.of([1000.0, 1000.0]), workload, INSTANT, seed=1)
    return gs.simulate(scenario, gs.Market(ask_ratio=100.0, **parameters), record="all")


def test_cheapest_providers_get_tasks_up_to_their_capacity() -> None:
    """Tasks of 1 s, deadlines after 3 s: each machine has room for three of the first four tasks."""
    result = run([4, 1, 1], [0.0, 10.0, 20.0], slack=3.0, step=0.5)
    schedule = result.tables["schedule"]
    first = np.bincount(schedule["machine"][schedule["application"] == 0], schedule["tasks"][:2], minlength=2)
    assert sorted(first.tolist()) == [1, 3] and result.applications["finish"][0] == 3.0
    paid = result.tables["payments"]
    assert len(paid) == 6 and not paid["late"].any() and paid["paid"][:4].tolist() == [1000.0] * 4
    # both machines ask 1.5; the seller raises its price to 2.25, and the other lowers its price to 1 and
    # sells next
    assert paid["paid"][4:].tolist() == [1500.0, 1000.0]
    assert paid["machine"][4] != paid["machine"][5]


def test_tasks_beyond_the_capacity_of_all_machines_are_late_and_penalized() -> None:
    """Each machine has room for two: the last two tasks are late, at half the price."""
    result = run([6], [0.0], slack=2.0, penalty=0.5, rounds=1)
    paid = result.tables["payments"]
    assert paid["late"].sum() == 2 and sorted(paid["paid"].tolist()) == [500.0] * 2 + [1000.0] * 4
    assert validate_result(result) == []


@pytest.mark.parametrize(("competition", "sold"), [(0.0, 2), (1.0, 4)])
def test_competing_machines_offer_the_same_time_twice(competition: float, sold: int) -> None:
    """Two consumers call at once for two tasks each; only machine 2 has room, for two."""
    workload = gs.Workload.of([0.0, 0.0], [2, 2], 1000.0, [0, 1])
    network = gs.Network(latency=0.01, bandwidth=np.inf, interfaces="equal")
    scenario = gs.Scenario(gs.Platform.of([100.0, 100.0, 1000.0]), workload, network, seed=1)
    scheduler = gs.Market(ask_ratio=100.0, slack=2.1, competition=competition, rounds=1)
    paid = gs.simulate(scenario, scheduler).tables["payments"]
    assert len(paid) == 4 and paid["late"].sum() == 2 and (paid["machine"] == 2).sum() == sold


@pytest.mark.parametrize("network", [gs.Network(), INSTANT])
def test_machines_bid_again_only_after_their_awards(network: gs.Network) -> None:
    """Tasks of 10 s, deadlines after 100 s: only the machine with the remaining tasks gets more than 10."""
    scenario = gs.Scenario(gs.Platform.equal(10), gs.Workload.of([0.0], 300, 10_000.0, [0]), network, seed=1)
    assert np.sort(gs.simulate(scenario, gs.Market()).machines["tasks"])[-2] <= 10


def test_tasks_without_any_bid_are_kept_and_recorded() -> None:
    """All other machines are down, and the machine does not ask itself with this seed."""
    down = gs.Faults.of([*range(1, 9)], [0.0] * 8, [600.0] * 8)
    work = gs.Workload.of([0.0], 1, 1000.0, [0])
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 9), work, faults=down, seed=1)
    decisions = gs.simulate(scenario, gs.Market(ask_ratio=1.0), record="decisions").tables["decisions"]
    assert decisions["action"].tolist() == ["kept"] and decisions["tasks"].tolist() == [1]
