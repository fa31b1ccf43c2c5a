"""The linear program, checked against optima computed by hand, the bandwidth-centric rule and its limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError

pytest.importorskip("scipy")


def level(*args: Any, **named: Any) -> float:
    return gs.optimal_throughput(*args, **named).level


@pytest.mark.parametrize(
    ("arguments", "named", "expected"),
    [
        # two machines of 10 Mflop/s, tasks of 1 Mflop and 1 byte: links of 4 and 1 bytes/s are the bottleneck
        (([10, 10], [4, 1], [1], 1), {}, 5.0),
        # if the master sends to one child at a time, it serves only the fast link (bandwidth-centric)
        (([10, 10], [4, 1], [1], 1), {"port": "one"}, 4.0),
        # the first machine computes 2 tasks/s, which use half of the port's time; the other half sends 1/2
        # task/s
        (([2, 10], [4, 1], [1], 1), {"port": "one"}, 2.5),
        (([10, 10], [4, 1], [1], 1), {"master_bandwidth": 3}, 3.0),
        (([10, 10], [4, 1], [1], 1), {"master_bandwidth": 3, "port": "one"}, 3.0),
        # the second machine is behind the first, and gets at most what both links can carry
        (([1, 10], [4, 2], [1], 1), {"parent": [-1, 0]}, 3.0),
        (([0.5, 10], [4, 2], [1], 1), {"parent": [-1, 0]}, 2.5),
        # two children of an inner node share its port: with 1/2 of the time each they get 2 + 1/2 tasks/s
        (([1e-6, 2, 10], [9, 4, 1], [1], 1), {"parent": [-1, 0, 0], "port": "one"}, 2.500001),
        # input and output go over the link at the same time
        (([10], [4], [1], 2), {"output_bytes": 8}, 0.5),
        # the weights require 3 tasks of the second application per task of the first
        (([8], [math.inf], [2, 2]), {"weights": [1, 3]}, 1.0),
        # the application with data goes to the fast link, which also has room for 1/2.9 of the other
        # application
        (([1, 1], [1, 0.1], [1, 1], [1, 0.1]), {"port": "one"}, 1 - 1 / 2.9),
    ],
)
def test_the_optimum_is_as_computed_by_hand(arguments: Any, named: dict[str, Any], expected: float) -> None:
    assert level(*arguments, **named) == pytest.approx(expected, rel=1e-7)


@st.composite
def stars(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    """Draw speeds and links of up to 6 machines."""
    machines = draw(st.integers(1, 6))
    numbers = st.lists(st.sampled_from((0.1, 0.3, 1.0, 2.0, 7.0)), min_size=machines, max_size=machines)
    return draw(numbers), draw(numbers)


@settings(deadline=None, max_examples=25)
@given(stars(), st.sampled_from((0.0, 0.5, 3.0)))
def test_with_one_application_the_port_serves_the_fastest_links_first(
    star: tuple[list[float], list[float]], data: float
) -> None:
    """By the bandwidth-centric theorem, only the order of links matters if the port is the bottleneck."""
    left, expected = 1.0, 0.0
    for link, speed in sorted(zip(star[1], star[0], strict=True), reverse=True):
        tasks = min(speed, left * link / data) if data else speed
        left, expected = left - tasks * data / link, expected + tasks
    assert level(*star, [1.0], data, port="one") == pytest.approx(expected, rel=1e-6)


@settings(deadline=None, max_examples=25)
@given(stars(), st.lists(st.sampled_from((0.0, 0.2, 5.0)), min_size=1, max_size=4), st.data())
def test_the_rates_keep_every_limit(
    star: tuple[list[float], list[float]], data: list[float], draw: st.DataObject
) -> None:
    speeds, links = (np.array(item) for item in star)
    parent = np.array([draw.draw(st.integers(-1, u - 1)) for u in range(len(speeds))])
    weights, fetched = np.arange(1.0, len(data) + 1), np.array(data)
    one = draw.draw(st.booleans())
    optimum = gs.optimal_throughput(
        speeds,
        links,
        np.ones(len(data)),
        fetched,
        weights=weights,
        port="one" if one else "many",
        master_bandwidth=2.0,
        parent=parent,
    )
    passed = np.stack([optimum.received[parent == u].sum(axis=0) for u in range(len(speeds))])
    assert optimum.level > 0 and optimum.computed.sum(axis=0) == pytest.approx(
        weights * optimum.level, rel=1e-6
    )
    assert optimum.received == pytest.approx(optimum.computed + passed, abs=1e-6)
    assert (optimum.computed.sum(axis=1) <= speeds + 1e-6).all()
    assert (optimum.received @ fetched <= links + 1e-6).all()
    at_master = parent < 0
    if not one:
        assert (optimum.received[at_master] @ fetched).sum() <= 2.0 + 1e-6
        return
    speed = np.where(at_master, np.minimum(links, 2.0), links)
    for sender in set(parent.tolist()):
        assert (optimum.received @ fetched / speed)[parent == sender].sum() <= 1 + 1e-6


def test_rates_far_from_one_are_solved() -> None:
    """Tasks take hours or microseconds; the tolerances of the solver suit rates of about 1."""
    for factor in (1e-9, 1e9):
        assert level([2, 10], [4, 1], [factor], factor, port="one") == pytest.approx(2.5 / factor, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"speeds": [1, 0]}, r"speeds\[1\] must be a finite number > 0, got 0.0"),
        ({"bandwidth": [1, 2, 3]}, "bandwidth must be 2 numbers or a single one"),
        ({"task_size": []}, "task_size must be one number or more"),
        ({"input_bytes": [-1]}, r"input_bytes\[0\] must be a finite number >= 0, got -1.0"),
        ({"weights": math.nan}, r"weights\[0\] must be a finite number > 0"),
        ({"port": "two"}, "port must be one of one, many|port must be"),
        ({"master_bandwidth": 0}, "master_bandwidth must be a number > 0 bytes/s, got 0"),
        ({"parent": [0, -1]}, r"parent\[0\] must be -1 or a machine below 0, got 0"),
        ({"parent": [-1.0, 0.0]}, "parent must be 2 whole numbers"),
    ],
)
def test_invalid_arguments_are_reported(change: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"speeds": [1, 1], "bandwidth": 1, "task_size": [1], "input_bytes": 1}
    with pytest.raises(ScenarioError, match=words):
        gs.optimal_throughput(**{**good, **change})
