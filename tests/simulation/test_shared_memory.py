"""Runs of bags whose tasks share the memory of machines with several cores."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.capacity import scarce_memory
from gridsim.optimization.need_bound import NeedBound
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.scheduling.registry import registered, scheduler_of
from gridsim.testing.order import promised_order_violation
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.validation.test_jobs import with_columns

KINDS = {name: scheduler_of("scheduler", name, {}) for name in registered()}
#: The schedulers of bags under which a machine has one queue, whose tasks share memory.
SHARING = [
    name for name, kind in KINDS.items() if not kind.rigid and kind.cores is True and kind.shares_memory
]


@st.composite
def scenarios(draw: st.DrawFn, needs: tuple[float, ...] = (0.0, 1.0, 3.0, 6.0)) -> gs.Scenario:
    """Draw bags of which each suits all machines, but some not all cores at once."""
    machines, count = draw(st.integers(1, 5)), draw(st.integers(1, 6))

    def column(values: Any, length: int) -> list[Any]:
        return draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))

    bags = gs.Workload.of(
        sorted(column([0.0, 1.0, 2.5, 10.0], count)),
        column(range(1, 12), count),
        column([1.0, 6.0, 10.0], count),
        submitter=column(range(machines), count),
        memory=column(needs, count),
        origin=0.0,
    )
    platform = gs.Platform.of(
        column([1.0, 2.0, 3.0], machines),
        cores=column([1, 2, 4], machines),
        memory=column([6.0, 10.0, 12.5], machines),
    )
    return gs.Scenario(platform, bags, gs.Network(latency=draw(st.sampled_from([0.0, 0.05]))), 3)


@settings(max_examples=60, deadline=None)
@given(scenario=scenarios(), name=st.sampled_from(SHARING), fails=st.booleans())
def test_all_forms_of_nodes_have_equal_and_valid_runs(scenario: gs.Scenario, name: str, fails: bool) -> None:
    scheduler, machines = KINDS[name], scenario.platform.nodes
    if fails and machines > 1:
        outages = zip(*((u, 3.0 + u, 9.0 + 2 * u) for u in range(machines - 1)), strict=True)
        scenario = replace(scenario, faults=gs.Faults.of(*outages))
    forms: list[Any] = [None]
    if isinstance(scheduler, NodeScheduler) and find_spec("numba") is None:
        forms = ["interpreted"]
    forms += ["interpreted", "python"] if "interpreted" in scheduler.node_forms else []
    results = [gs.simulate(scenario, scheduler, nodes=form, record="schedule") for form in forms]
    results.insert(1, gs.simulate(scenario, scheduler, record="all", cohort_limit=1))
    if scenario.faults is None and "interpreted" in forms:
        results.append(gs.emulate(scenario, scheduler, processes=1, speedup=math.inf))
    assert len({result.digest for result in results}) == 1
    assert validate_result(results[0]) == []
    assert scheduler.promised_order is not None
    assert promised_order_violation(results[1], scheduler.promised_order) is None
    assert results[0].max_stretch >= results[0].bound().stretch * (1 - 1e-9)


@settings(max_examples=20, deadline=None)
@given(scenario=scenarios(needs=(0.0, 1.0)), name=st.sampled_from(SHARING))
def test_memory_that_suffices_for_all_cores_changes_nothing(scenario: gs.Scenario, name: str) -> None:
    bare = replace(scenario, workload=gs.Workload(replace_fields(scenario.workload.recipe, memory=None)))
    first, second = (gs.simulate(each, name, record="schedule") for each in (scenario, bare))
    for table in ("schedule", "arrivals"):
        for column, values in first.tables[table].items():
            np.testing.assert_array_equal(values, second.tables[table][column])


def replace_fields(recipe: Any, **fields: Any) -> Any:
    return type(recipe)(**{name: getattr(recipe, name) for name in recipe.__struct_fields__} | fields)


def one_machine(memory: float = 10.0, need: float = 6.0, cores: int = 2) -> gs.Scenario:
    """Return three tasks of 2 s on a machine."""
    bags = gs.Workload.of([0.0], [3], [2000.0], memory=[need])
    platform = gs.Platform.equal(1, 1000.0, cores=cores, memory=memory)
    return gs.Scenario(platform, bags, gs.Network(latency=0.0, bandwidth=math.inf))


@pytest.mark.parametrize("name", ["random", "fcfs-random", "fair-tree"])
def test_two_tasks_of_6_bytes_do_not_run_at_once_in_10_bytes(name: str) -> None:
    result = gs.simulate(one_machine(), name, record="schedule")
    assert result.tables["schedule"]["start"].tolist() == pytest.approx([0.0, 2.0, 4.0])
    ample = gs.simulate(one_machine(12.0), name, record="schedule")
    assert ample.tables["schedule"]["start"].tolist() == pytest.approx([0.0, 0.0, 2.0])


def test_memory_is_rounded_down_to_whole_bytes() -> None:
    for memory, need, starts in ((10.0, 5.9, [0.0, 0.0, 2.0]), (11.9, 6.0, [0.0, 2.0, 4.0])):
        result = gs.simulate(one_machine(memory, need), "random", record="schedule")
        assert result.tables["schedule"]["start"].tolist() == pytest.approx(starts)
        assert validate_result(result) == []
    alone = gs.simulate(one_machine(3.9, 3.2), "random", record="schedule")
    assert alone.makespan == pytest.approx(6.0) and validate_result(alone) == []


@pytest.mark.parametrize("name", ["random", "fcfs", "fcfs-random", "sparrow", "fair-tree"])
@pytest.mark.parametrize(("memory", "cores"), [(64e9, 3), (100e9, 7), (10.0, 3), (64e9, 48)])
def test_a_task_may_take_the_part_of_a_core(name: str, memory: float, cores: int) -> None:
    scenario = one_machine(memory, memory / cores, cores)
    result = gs.simulate(scenario, name, record="schedule")
    assert result.makespan == pytest.approx(2.0, abs=1.0) and validate_result(result) == []
    assert result.bound().stretch <= result.max_stretch * (1 + 1e-9)


def test_tasks_beyond_the_memory_of_a_machine_are_found() -> None:
    result = gs.simulate(one_machine(), "random", record="schedule")
    schedule = result.tables["schedule"]
    start, end = schedule["start"].copy(), schedule["end"].copy()
    start[1], end[1] = start[1] - 1.0, end[1] - 1.0
    changed = with_columns(result, schedule={"start": start, "end": end})
    messages = [violation.message for violation in validate_result(changed)]
    assert any("uses 12 bytes of memory, of which it has 10" in message for message in messages), messages


def test_bounds_count_the_tasks_that_memory_allows_at_once() -> None:
    scenario = one_machine(memory=13.0, cores=4)  # 2 tasks of 6 at once: 2 s and 2 s
    bound = gs.simulate(scenario, "random").bound()
    assert isinstance(bound, NeedBound) and bound.machines is not None
    assert bound.machines.tolist() == [0, 0]
    assert bound.stretch == pytest.approx(4.0 / 6000.0)
    assert bound.verify([0.0], [6000.0], [1000.0], task_size=[2000.0], tasks=[3]) == Fraction(4, 6000)


def test_a_core_has_an_equal_part_of_the_memory_where_cores_are_machines() -> None:
    """Tasks of 5 bytes suit the cores of the second machine only, which has 6 for each."""
    bags = gs.Workload.of([0.0], [4], [2000.0], memory=[5.0])
    platform = gs.Platform.equal(2, 1000.0, cores=2, memory=[8.0, 12.0])
    scenario = gs.Scenario(platform, bags, gs.Network(latency=0.0))
    result = gs.simulate(scenario, "fcfs", record="all")
    assert result.machines["tasks"].tolist() == [0, 4] and validate_result(result) == []
    moved = result.tables["schedule"]["machine"].copy()
    moved[0] = 0
    laws = {item.law for item in validate_result(with_columns(result, schedule={"machine": moved}))}
    assert "constraint" in laws
    with pytest.raises(ScenarioError, match="^sparrow does not support constraints of the workload"):
        gs.simulate(scenario, "sparrow")
    with pytest.raises(ScenarioError, match="^faults do not support tasks that need memory"):
        gs.simulate(replace(scenario, faults=gs.Faults.of([0], [1.0], [2.0])), "fcfs")


def test_tasks_that_suit_no_core_are_an_error() -> None:
    message = (
        r"^workload.memory must be at most platform.memory / platform.cores of some machine under mct, where "
        r"each core has an equal part of the memory of its machine, got at least 6 bytes for application 0; "
        r"cores have up to 5 bytes$"
    )
    with pytest.raises(ScenarioError, match=message):
        gs.simulate(one_machine(), "mct")
    assert gs.simulate(one_machine(cores=1), "mct").makespan == 6.0


def test_schedulers_with_queues_of_their_own_require_memory_for_each_core() -> None:
    with pytest.raises(ScenarioError, match="^rjss does not support tasks that wait for the memory of"):
        gs.simulate(one_machine(), "rjss")
    assert gs.simulate(one_machine(12.0), "rjss").makespan == pytest.approx(4.0)


def test_only_machines_that_suit_get_tasks() -> None:
    """A machine with too little memory for a task gets none, also under one queue for its cores."""
    bags = gs.Workload.of([0.0, 0.0], [6, 6], [2000.0, 2000.0], memory=[9.0, 2.0])
    platform = gs.Platform.equal(3, 1000.0, cores=2, memory=[8.0, 16.0, 18.0])
    scenario = gs.Scenario(platform, bags, gs.Network(latency=0.0))
    for name in ("fair-tree", "fcfs-random"):
        result = gs.simulate(scenario, name, record="schedule")
        schedule = result.tables["schedule"]
        assert set(schedule["machine"][schedule["application"] == 0].tolist()) <= {1, 2}
        assert validate_result(result) == []


def test_resumed_run_equals_the_whole_run() -> None:
    options: dict[str, Any] = {"record": "schedule"}
    for scheduler in (gs.FairTree(), gs.Random()):
        result = gs.simulate(one_machine(), scheduler, **options)
        assert resume_difference(one_machine(), scheduler, result, **options) is None


@given(data=st.data(), machines=st.integers(1, 4))
def test_scarce_memory_is_that_which_limits_how_many_tasks_run(data: st.DataObject, machines: int) -> None:
    def column(low: int, length: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, 9), min_size=length, max_size=length))

    cores, memory, needs = column(1, machines), column(0, machines), column(0, 3)
    scarce = scarce_memory(np.array(cores), attributes(memory), np.array(needs, float))
    for is_scarce, c, capacity in zip(scarce.tolist(), cores, memory, strict=True):
        assert is_scarce == any(need <= capacity < c * need for need in needs)
    assert not scarce_memory(None, attributes(memory), np.array(needs, float)).any()


def attributes(memory: list[int]) -> Any:
    return gs.Platform.equal(len(memory), memory=[float(each) for each in memory]).attributes
