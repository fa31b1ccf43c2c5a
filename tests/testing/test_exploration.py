"""`check_scheduler(explore=True)` finds faults that depend on the order of the events of one instant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing import ConformanceError, check_scheduler, run_in_order
from gridsim.testing.exploration import explore_orders
from tests._helpers.planted_orders import PLANTED_ORDERS, Passing


class PricedNode(gs.NodeProgram):
    """Node that gives away each second task, and tells its price before."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.prices = gs.IntMap(price=float)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks - tasks // 2)
        if tasks > 1:
            place = (view.node + 1) % view.machines
            view.send(place, "price", application=application.number, price=1.0)
            view.send(place, "share", application=application.number, tasks=tasks // 2)

    def on_price(self, view: Any, message: Any) -> None:
        self.prices[message.application] = message.price

    def on_share(self, view: Any, message: Any) -> None:
        if message.application in self.prices or not self.parameters.needs_price:
            view.enqueue(message.application, message.tasks)


class Priced(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "priced"
    policy = PricedNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "price": gs.Message(40, application=int, price=float),
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int),
    }

    needs_price: bool = True


SCENARIO = gs.Scenario(
    gs.Platform.equal(2, 1000.0),
    gs.Workload.of([0.0], [4], [1000.0]),
    gs.Network(latency=0.05, bandwidth=float("inf")),
    seed=1,
)


def test_a_price_after_its_share_is_found(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match="has not placed|never placed|holds") as excinfo:
        check_scheduler(
            Priced(), examples=1, max_nodes=4, hash_seeds=False, explore=True, shrink=False, folder=tmp_path
        )
    error = excinfo.value
    assert error.law == "orders" and error.order and "run_in_order(scenario, scheduler" in str(error)
    run_in_order(error.scenario, Priced())
    with pytest.raises(gs.SchedulerError, match="holds"):
        run_in_order(error.scenario, Priced(), error.order)


@pytest.mark.slow
def test_a_scheduler_for_all_orders_passes(tmp_path: Path) -> None:
    report = check_scheduler(
        Priced(needs_price=False), examples=1, max_nodes=4, hash_seeds=False, explore=True, folder=tmp_path
    )
    assert "orders" not in report.left_out or "known orders" in report.left_out["orders"]


def test_both_orders_of_two_messages_are_run() -> None:
    assert explore_orders(SCENARIO, Priced(needs_price=False), 10) == (2, 0)
    assert explore_orders(SCENARIO, Priced(needs_price=False), 1) == (1, 1)
    usual = run_in_order(SCENARIO, Priced())
    assert usual.digest == gs.simulate(SCENARIO, Priced()).digest


def test_schedulers_without_nodes_are_left_out(tmp_path: Path) -> None:
    report = check_scheduler(gs.Fcfs(), examples=2, hash_seeds=False, explore=True, folder=tmp_path)
    assert report.left_out["orders"] == "the scheduler has no node programs"


#: Messages that take 50 ms: machines 1 and 2 submit 4 ms apart, and machine 2 fails 5 ms after a share comes.
CLOSE_EVENTS = gs.Scenario(
    gs.Platform.equal(4, 1000.0),
    gs.Workload.of([0.0, 0.004], [3, 2], [1000.0, 1000.0], [1, 2]),
    gs.Network(latency=0.05, bandwidth=float("inf")),
    seed=1,
)
FAILURE = gs.Faults.of([2], [0.055], [20.0])


@pytest.mark.parametrize("race", PLANTED_ORDERS)
def test_a_jitter_swaps_events_that_are_close(race: str) -> None:
    scheduler = PLANTED_ORDERS[race]
    scenario = replace(CLOSE_EVENTS, faults=FAILURE if "failure" in race else None)
    assert explore_orders(scenario, scheduler, 100) == (1, 0)
    with pytest.raises(ConformanceError) as excinfo:
        explore_orders(scenario, scheduler, 100, jitter=0.01)
    assert (order := excinfo.value.order) is not None and sum(order) == 1
    with pytest.raises((gs.SchedulerError, ValueError, KeyError, RuntimeError)):
        run_in_order(scenario, scheduler, order, jitter=0.01)
    assert "jitter=0.01) repeats the run" in str(excinfo.value)


@pytest.mark.parametrize("faults", [None, FAILURE])
def test_no_task_is_lost_in_any_order(faults: gs.Faults | None) -> None:
    scenario = replace(CLOSE_EVENTS, faults=faults)
    runs, left = explore_orders(scenario, Passing(), 100, jitter=0.01)
    assert runs > 1 and left == 0
