from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError, TraceFormatError
from gridsim.model.platform import Platform

TABLE = 'cpu_model,computers,avg_cores,gflops_core,gflops_computer\nA,1,1,1.5,1.5\n"B, C",3,2,2.5,5\n'


def test_speeds_of_a_desktop_grid_are_uniform_on_its_steps():
    platform = Platform.desktop_grid(20_000, seed=1)
    levels, counts = np.unique(platform.speeds, return_counts=True)
    assert levels.tolist() == list(range(1000, 3001, 200))
    # each count of 11 equally likely levels deviates by less than five standard deviations
    share = 1 / 11
    assert np.abs(counts - 20_000 * share).max() < 5 * math.sqrt(20_000 * share * (1 - share))


def test_pareto_speeds_have_the_probabilities_of_the_paper():
    platform = Platform.pareto(50_000, seed=3)
    level = (platform.speeds - 1000) / 200 + 1
    assert set(level.tolist()) <= set(range(1, 11))
    for j in range(1, 11):
        share = 1 / (j * (j + 1)) * 11 / 10
        actual = np.mean(level == j)
        assert abs(actual - share) < 5 * math.sqrt(share * (1 - share) / 50_000)
    assert platform.speeds.mean() == pytest.approx(1244, abs=10)


def test_speeds_of_hosts_are_drawn_from_the_table(tmp_path):
    (tmp_path / "hosts.csv").write_text(TABLE)
    platform = Platform.from_hosts(tmp_path / "hosts.csv", 4000, seed=1)
    assert set(platform.speeds) == {1500.0, 2500.0}
    assert np.mean(platform.speeds == 2500.0) == pytest.approx(0.75, abs=0.04)
    assert set(Platform.from_hosts(tmp_path / "hosts.csv", 50, 1, "gflops_computer").speeds) == {
        1500.0,
        5000.0,
    }
    with pytest.raises(TraceFormatError, match=r"hosts.csv:1: the header must have column x"):
        Platform.from_hosts(tmp_path / "hosts.csv", 5, seed=1, column="x")


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 300), st.integers(0, 2**63 - 1))
def test_equal_recipes_generate_equal_platforms(nodes, seed):
    for make in (Platform.desktop_grid, Platform.pareto):
        one, two = make(nodes, seed), make(nodes, seed)
        assert one == two and one.nodes == nodes
        assert np.array_equal(one.speeds, two.speeds)
        assert one != make(nodes, (seed + 1) % 2**63)


def test_platforms_are_immutable():
    platform = Platform.of([1000, 2000.0])
    assert platform.speeds.tolist() == [1000.0, 2000.0] and platform.aggregate_speed == 3000.0
    with pytest.raises(ValueError):
        platform.speeds[0] = 1.0
    with pytest.raises(AttributeError):
        platform.speeds = platform.speeds
    assert not pickle.loads(pickle.dumps(platform)).speeds.flags.writeable
    assert copy.deepcopy(platform) == platform == Platform.of(np.array([1000.0, 2000.0]))


def test_a_range_of_one_speed_accepts_any_step():
    assert set(Platform.desktop_grid(5, 1, low=1000, high=1000).speeds) == {1000.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Platform.of([1.0, 1e-320]),
            "platform.speeds[1] must be a finite number >= 1e-06 Mflop/s, got 1e-320",
        ),
        (
            lambda: Platform.of([math.nan]),
            "platform.speeds[0] must be a finite number >= 1e-06 Mflop/s, got nan",
        ),
        (
            lambda: Platform.desktop_grid(3, 1, step=1e13),
            "platform.step must divide high - low = 2000 Mflop/s evenly, got 1e+13",
        ),
        (lambda: Platform.of([]), "platform.speeds must have at least one entry, got none"),
        (lambda: Platform.of(7), "platform.speeds must be a list of numbers, got 7"),
        (
            lambda: Platform.of(["fast"]),
            "platform.speeds[0] must be a finite number >= 1e-06 Mflop/s, got 'fast' (a string requires a "
            "unit: "
            "flop/s, kflop/s, Mflop/s, Gflop/s, Tflop/s, Pflop/s)",
        ),
        (
            lambda: Platform.desktop_grid(0, 1),
            "platform.nodes must be a whole number in 1..1073741824, got 0",
        ),
        (
            lambda: Platform.desktop_grid(2.5, 1),
            "platform.nodes must be a whole number in 1..1073741824, got 2.5",
        ),
        (
            lambda: Platform.desktop_grid(True, 1),
            "platform.nodes must be a whole number in 1..1073741824, got True",
        ),
        (lambda: Platform.pareto(5, -1), "platform.seed must be a whole number >= 0, got -1"),
        (
            lambda: Platform.desktop_grid(5, 1, low=0),
            "platform.low must be a finite number >= 1e-06 Mflop/s, got 0",
        ),
        (
            lambda: Platform.desktop_grid(5, 1, high=10),
            "platform.high must be a finite number >= 1000 Mflop/s, got 10.0",
        ),
        (
            lambda: Platform.desktop_grid(5, 1, step=300),
            "platform.step must divide high - low = 2000 Mflop/s evenly, got 300",
        ),
        (lambda: Platform.from_hosts("", 5, 1), "platform.path must be a non-empty string, got ''"),
    ],
)
def test_invalid_platforms_are_rejected(make, message):
    with pytest.raises(ScenarioError) as excinfo:
        make()
    assert str(excinfo.value) == message


def test_the_aggregate_speed_is_summed_exactly():
    """The sums of a platform and of a result do not depend on the order of speeds."""
    speeds = [0.1, 0.2, 0.3] * 7 + [1e9, 0.7]
    exact = float(sum(map(Fraction, speeds)))
    assert float(np.sum(speeds)) != exact
    for order in (speeds, speeds[::-1]):
        platform = gs.Platform.of(order)
        result = gs.simulate(gs.Scenario(platform, gs.Workload.of([0.0], [1], [1e4])), gs.MinCent())
        assert platform.aggregate_speed == result.aggregate_speed == exact
