"""Each task runs once, for its true size, even if its submitter states a wrong estimate."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.emulation.emulate import emulate
from gridsim.emulation.tasks import TaskSet, count_of
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.validation.results import validate_result
from tests.emulation.test_virtual_time import OWN, run_in_virtual_time

#: Schedulers with a node program; one of the policies of work queues is enough.
NAMES = [
    name
    for name, (kind, _) in registered().items()
    if "interpreted" in kind.node_forms and not kind.rigid and not name.endswith("Info")
]
#: Task size of each application, Mflop -> stated estimates; and sizes that differ.
EQUAL = [[5000.0] * 4, [800.0] * 6, [20000.0] * 3]
UNEQUAL = [[5000.0, 700.0, 12000.0, 30.0], [800.0, 90.0, 4000.0, 10.0, 2500.0], [600.0]]
ESTIMATES = {"none": None, "wrong": [500.0, 9000.0, 20000.0], "zero": [0.0, 0.0, 0.0]}


def scenario(sizes: list[list[float]], stated: str, faults: gs.Faults | None = None) -> gs.Scenario:
    workload = gs.Workload.of_tasks([0.0, 3.0, 9.0], sizes, [0, 2, 1], estimate=ESTIMATES[stated])
    return gs.Scenario(gs.Platform.of([1000.0, 500.0, 2000.0, 800.0]), workload, seed=3, faults=faults)


def check_sizes(result: gs.Result, sizes: list[list[float]]) -> None:
    """Check that each task was completed once, in the time that its true size takes."""
    assert validate_result(result) == []
    ran, speed = result.tables["schedule"], result.machines["speed"]
    if "task" in ran:  # work queues, whose checkpoints take time, are validated by task numbers
        return
    work = np.round((ran["end"] - ran["start"]) * speed[ran["machine"]], 1)  # 1 ns is 0.002 Mflop at most
    for i, own in enumerate(sizes):
        mine = (ran["application"] == i) & (ran["completed"] > 0)
        if (ran["tasks"] == 1).all():
            assert Counter(work[mine].tolist()) == Counter(own)
        else:  # `rjss` reports consecutive runs as one row
            assert work[mine].sum() == pytest.approx(sum(own)) and ran["tasks"][mine].sum() == len(own)


@pytest.mark.parametrize("declared", ["wrong", "zero"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "rendezvous"])
def test_schedulers_see_estimates_instead_of_task_sizes(name: str, declared: str) -> None:
    """In virtual time an emulation decides like a simulation only if schedulers see the same sizes."""
    scheduler = make_scheduler(name, OWN.get(name))
    emulated = run_in_virtual_time(scenario(EQUAL, declared), scheduler)
    simulated = gs.simulate(scenario(EQUAL, declared), scheduler, nodes="interpreted")
    check_sizes(emulated, EQUAL)
    for column in ("first_start", "finish", "nodes_used", "estimate"):
        assert emulated.applications[column].tolist() == simulated.applications[column].tolist()
    for column in ("promised", "level") if "requests" in simulated.tables else ():
        assert emulated.tables["requests"][column].tolist() == simulated.tables["requests"][column].tolist()
    assert emulated.machines["busy"].tolist() == pytest.approx(simulated.machines["busy"].tolist())


@pytest.mark.parametrize("declared", ESTIMATES)
@pytest.mark.parametrize("name", [name for name in NAMES if registered()[name][0].unequal])
def test_tasks_of_different_sizes_run_once_each(name: str, declared: str) -> None:
    scheduler = make_scheduler(name, OWN.get(name))
    check_sizes(run_in_virtual_time(scenario(UNEQUAL, declared), scheduler), UNEQUAL)


@pytest.mark.parametrize("name", ["sparrow", "eagle", "work-stealing", "join-shortest-queue"])
def test_lost_tasks_keep_their_sizes(name: str) -> None:
    faults = gs.Faults.of([0, 1, 2, 0], [1.0, 4.0, 4.5, 9.5], [6.0, 20.0, 5.0, 9.5])
    result = run_in_virtual_time(scenario(UNEQUAL, "wrong", faults), make_scheduler(name, OWN.get(name)))
    check_sizes(result, UNEQUAL)
    assert result.applications["resubmitted"].sum() > 0 and result.machines["interrupted"].sum() > 0


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")


@needs_fork
def test_underestimated_tasks_run_for_their_true_sizes() -> None:
    workload = gs.Workload.of_tasks([0.0], [[5000.0, 5000.0]], [0], estimate=[500.0])
    platform = gs.Platform.of([1000.0, 500.0])
    result = emulate(gs.Scenario(platform, workload, seed=1), gs.Sparrow(), speedup=100.0)
    check_sizes(result, [[5000.0, 5000.0]])
    assert result.applications["estimate"].tolist() == [500.0]


@needs_fork
@pytest.mark.parametrize("name", ["sparrow", "hawk", "work-stealing", "fair-tree", "rjss"])
def test_tasks_sent_between_processes_keep_their_sizes(name: str) -> None:
    sizes = EQUAL if name == "fair-tree" else UNEQUAL
    scheduler = make_scheduler(name, OWN.get(name))
    check_sizes(emulate(scenario(sizes, "wrong"), scheduler, speedup=100.0, processes=3), sizes)


@needs_fork
def test_tasks_of_killed_processes_keep_their_sizes() -> None:
    sizes = [[500.0 * (k % 9 + 1) for k in range(40)], [90.0 * k + 10.0 for k in range(30)]]
    workload = gs.Workload.of_tasks([0.0, 3.0], sizes, [0, 2], estimate=[2000.0, 0.0])
    faults = gs.Faults.of([5, 1, 3, 5], [4.0, 11.0, 19.0, 27.0], [7.0, 13.0, 22.0, 28.0])
    scenario = gs.Scenario(gs.Platform.equal(6, 1000.0), workload, seed=3, faults=faults)
    result = emulate(scenario, gs.WorkStealing(), speedup=20.0, processes=3, kill=True)
    check_sizes(result, sizes)
    assert result.provenance["emulation"]["kills"] >= 3 and result.applications["resubmitted"].sum() > 0


@given(st.data())
def test_a_task_set_equals_a_list_of_task_numbers(data: st.DataObject) -> None:
    here, model, away = TaskSet([(0, 12)]), list(range(12)), list[int]()
    for _ in range(data.draw(st.integers(0, 12))):
        what = data.draw(st.sampled_from(("take", "take_last", "remove", "add")))
        if what == "add":
            parts = [(task, task + 1) for task in away]
            here.add(parts)
            model, away = model + away, []
        elif what == "remove":
            if not model:
                continue
            task = data.draw(st.sampled_from(model))
            here.remove([(task, task + 1)])
            model.remove(task)
            away.append(task)
        else:
            count = data.draw(st.integers(0, len(model)))
            taken = here.take(count) if what == "take" else here.take_last(count)
            index = count if what == "take" else len(model) - count
            removed, model = (
                (model[:index], model[index:]) if what == "take" else (model[index:], model[:index])
            )
            assert numbers(taken) == removed and count_of(taken) == count
            away += removed
        assert numbers(here.parts) == model and len(here) == len(model)
    with pytest.raises(ValueError, match="must have at least as many tasks as are taken, got 1 too few"):
        here.take(len(model) + 1)
    assert numbers(here.take_all()) == model and not here


def numbers(parts: list[tuple[int, int]]) -> list[int]:
    return [task for part in parts for task in np.arange(*part).tolist()]
