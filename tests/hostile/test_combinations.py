"""Runs of scenarios with several extreme numbers: either one line of error, or a valid result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import GridSimError
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.validation.results import validate_result
from tests._helpers import clock

pytestmark = pytest.mark.slow

SLOW = Platform.of([1000.0, 0.003, 50.0])
NETWORKS = [gs.Network(), gs.Network(latency=0.1, jitter=0.05, bandwidth=1e6)]
SCENARIOS = [
    gs.Scenario(platform, workload, network, faults=faults, fluctuation=fluctuation)
    for platform in (SLOW, Platform.normal(4, 1), Platform.equal(5))
    for workload in (
        Workload.bags(3, seed=1, tasks_per_node=2.0),
        Workload.of([0.0, 1.0], [30, 100], [5.0, 655360.0]),
        Workload.of_tasks([0.0], [[1.0, 2000.0]]),
        Workload.jobs(4, seed=1),
        Workload.job_streams(horizon=30.0, seed=1),
    )
    for network in NETWORKS
    for faults in (None, gs.Faults.of([0, 2], [1.0, 5.0], [200.0, 60.0]), gs.Faults.poisson(500.0, seed=3))
    for fluctuation in (None, gs.Fluctuation.uniform(seed=3, low=0.5, high=1.0, period=60.0))
]
VALUES = (
    0,
    1,
    3,
    0.5,
    1e-3,
    1e-9,
    1e3,
    1e6,
    9.3e9,
    1e18,
    2147483648,
    2.0**53,
    1e-300,
    5e-324,
    1e300,
    1.7e308,
)
#: Numbers that make a run long if they are large, and times that do if they are short.
COUNTS = {"nodes", "applications", "jobs", "tasks", "tasks_per_node", "horizon", "series", "steps"}
TIMES = {"mean", "period", "interarrival"}


def numbers(table: dict[str, Any]) -> Iterator[tuple[dict[str, Any] | list[Any], str | int, str]]:
    """Yield the container, the key in it and the name of each number in a document."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from numbers(value)
        elif isinstance(value, list) and value and not isinstance(value[0], list):
            yield value, 0, name
        elif isinstance(value, (int, float)):
            yield table, name, name


def is_short(name: str, value: float) -> bool:
    return not (name in COUNTS and value > 1000) and not (name in TIMES and value < 1)


@settings(max_examples=100)
@given(st.data())
def test_several_extreme_values_give_a_valid_result_or_an_error(data: st.DataObject) -> None:
    clock.begin()  # each example has its own time limit
    document = data.draw(st.sampled_from(SCENARIOS), label="scenario").document()
    places = list(numbers(document))
    for holder, place, name in data.draw(st.lists(st.sampled_from(places), max_size=3), label="changes"):
        holder[place] = data.draw(st.sampled_from([v for v in VALUES if is_short(name, v)]), label=name)
    # if speeds fluctuate, a task of months takes 12 ms for its checkpoints each time that it starts
    fails_often = document.get("faults", {}).get("mean", 500) < 100
    assume(
        not ("fluctuation" in document and fails_often and min(document["platform"].get("speeds", [1])) < 1)
    )
    scheduler = make_scheduler(data.draw(st.sampled_from(sorted(registered())), label="scheduler"))
    try:
        scenario = gs.Scenario.from_document(document)
        result = gs.simulate(scenario, scheduler, time_limit=1e4)
    except (GridSimError, MemoryError) as error:
        event(type(error).__name__)
        assert str(error).isprintable()
    else:
        event("a result")
        assert validate_result(result) == []
