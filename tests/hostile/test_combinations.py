"""Runs of scenarios in which several numbers are extremes at once: they are refused in a line, or sound."""

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
#: What makes a run long: so much of it and no more, and so little time between two.
COUNTS = {"nodes", "applications", "jobs", "tasks", "tasks_per_node", "horizon", "series", "steps"}
TIMES = {"mean", "period", "interarrival"}


def numbers(table: dict[str, Any]) -> Iterator[tuple[dict[str, Any] | list[Any], str | int, str]]:
    """Each number in a document: what holds it, its place there, and its name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from numbers(value)
        elif isinstance(value, list) and value and not isinstance(value[0], list):
            yield value, 0, name
        elif isinstance(value, (int, float)):
            yield table, name, name


def fits(name: str, value: float) -> bool:
    return not (name in COUNTS and value > 1000) and not (name in TIMES and value < 1)


@settings(max_examples=100)
@given(st.data())
def test_several_extremes_at_once_give_a_sound_result_or_an_error(data: st.DataObject) -> None:
    clock.begin()  # each for itself
    document = data.draw(st.sampled_from(SCENARIOS), label="scenario").document()
    places = list(numbers(document))
    for holder, place, name in data.draw(st.lists(st.sampled_from(places), max_size=3), label="changes"):
        holder[place] = data.draw(st.sampled_from([v for v in VALUES if fits(name, v)]), label=name)
    # a task of months goes checkpoint by checkpoint where speeds fluctuate: 12 ms each time that it begins
    often = document.get("faults", {}).get("mean", 500) < 100
    assume(not ("fluctuation" in document and often and min(document["platform"].get("speeds", [1])) < 1))
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
