"""Orders of bags in WQR-FT, checked by decisions and schedules, and excluded machines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import gridsim as gs
from gridcore.work_queue.state import BAG_ORDERS
from gridsim.results.result import Result
from gridsim.testing import check_scheduler

COPIES = 2


def crowded_scenario(seed: int, **options: Any) -> gs.Scenario:
    """Return six bags for eight machines that fail often."""
    workload = gs.Workload.bags(6, 150.0, 1.5, 0.5, 1e5, seed=seed, spread=gs.LogUniform(4.0))
    faults = gs.Faults.exponential(400.0, 100.0, seed)
    return gs.Scenario(gs.Platform.desktop_grid(8, seed), workload, seed=seed, faults=faults, **options)


Bags = dict[int, tuple[float, bool]]


def decisions(result: Result) -> Iterator[tuple[int, Bags]]:
    """Yield the bag of each decision, and the released bags that are not complete before it.

    For each of them: the time since which a task has no copy, and whether a task may get one.
    """
    rows, instance, applications = result.tables["schedule"], result.tables["decisions"], result.applications
    columns = (rows[name].tolist() for name in ("machine", "start", "task", "end", "completed"))
    copies = {(machine, start): rest for machine, start, *rest in zip(*columns, strict=True)}
    begun: list[list[list[tuple[float, int]]]] = [
        [[] for _ in range(n)] for n in applications["tasks"].tolist()
    ]
    columns = (instance[name].tolist() for name in ("time", "application", "machine"))
    for instant, bag, machine in zip(*columns, strict=True):
        bags: Bags = {}
        for number in np.flatnonzero(applications["release"] <= instant).tolist():
            left = [own for own in begun[number] if not any(done and end <= instant for end, done in own)]
            running = [sum(end > instant for end, _ in own) for own in left]
            idle = [own for own, count in zip(left, running, strict=True) if not count]
            since = [max((end for end, _ in own), default=applications["release"][number]) for own in idle]
            if left:
                bags[number] = min(since, default=math.inf), min(running) < COPIES
        yield bag, bags
        task, end, completed = copies[machine, instant]
        begun[bag][task].append((end, completed))


def expected_bag(order: str, bags: Bags, last: int) -> int:
    """Return the bag that a decision must choose; `last` is the bag of the previous one."""
    ready = [bag for bag, (_, may_start) in bags.items() if may_start]
    waiting = [bag for bag, (since, _) in bags.items() if since < math.inf]
    if order == "fcfs-excl":
        return min(bags)
    if order == "longidle" and waiting:
        return min(waiting, key=lambda bag: bags[bag][0])
    if order == "rr-nrf" and waiting:
        ready = waiting
    after = [bag for bag in ready if bag > last] if order in ("rr", "rr-nrf") else []
    return min(after or ready)


@pytest.mark.parametrize("order", BAG_ORDERS)
def test_bags_are_chosen_in_the_stated_order(order: Any) -> None:
    scheduler = gs.WqrFt(bag_order=order, max_replicas=COPIES, checkpoint_interval=60.0)
    actual = list(decisions(gs.simulate(crowded_scenario(1), scheduler, record="all")))
    last, several = -1, 0
    for number, (bag, bags) in enumerate(actual):
        assert bag == expected_bag(order, bags, last), number
        last, several = bag, several + (len(bags) > 1)
    assert several > 40


@pytest.mark.slow
def test_bag_orders_keep_the_invariants(tmp_path: Path) -> None:
    excluding = st.sampled_from((None, 1.0))
    any_order = st.builds(gs.WqrFt, bag_order=st.sampled_from(BAG_ORDERS), exclude=excluding)
    assert check_scheduler(any_order, examples=12, hash_seeds=False, folder=tmp_path).with_failures > 0


# -- machines that are left out ---------------------------------------------------------------------------


def test_slow_machines_are_excluded() -> None:
    """The mean is 80 Mflop/s and the standard deviation 30: half of that below the mean is 65."""
    workload = gs.Workload.of([0.0], 12, 1000.0)
    scenario = gs.Scenario(gs.Platform.of([100.0, 70.0, 110.0, 40.0]), workload)
    for exclude, used in ((None, {0, 1, 2, 3}), (0.5, {0, 1, 2}), (0.0, {0, 2})):
        rows = gs.simulate(scenario, gs.WqrFt(exclude=exclude), record=True).tables["schedule"]
        assert set(rows["machine"].tolist()) == used
    # the mean of these equal speeds, as a float, differs from them
    equal = gs.Scenario(gs.Platform.of([0.1] * 3), workload)
    assert gs.simulate(equal, gs.WqrFt(exclude=0.0)).machines["tasks"].sum() == 12


@pytest.mark.parametrize("nodes", ["compiled", "interpreted"])
def test_slow_machines_are_used_if_no_others_are_up(nodes: Any) -> None:
    scenario = gs.Scenario(
        gs.Platform.of([100.0, 100.0, 10.0]),
        gs.Workload.of([0.0], 4, 1000.0),
        faults=gs.Faults.of([0, 1, 2], [5.0, 10.0, 20.0], [math.inf, math.inf, 21.0]),
    )
    message = (
        "WQR-FT.exclude must leave a machine up until all tasks are completed; 3 tasks are left, and none of"
    )
    with pytest.raises(gs.ScenarioError, match=message):
        gs.simulate(scenario, gs.WqrFt(exclude=1.0), nodes=nodes)
