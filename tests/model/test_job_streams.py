"""Job streams, the star network and normally distributed speeds, as in the RJSS paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gridsim as gs

GRID = gs.Platform.equal(200, 100.0)
#: Parameters with which all machines and jobs have the mean values.
EQUAL = {"variation": 0.0, "deviation": 0.0}


def job_stream(platform: gs.Platform = GRID, *, seed: int = 1, **parameters: Any) -> Any:
    return gs.Workload.job_streams(seed=seed, **parameters).realize(platform)


def test_jobs_of_a_machine_arrive_by_a_poisson_process() -> None:
    """One job per 20 s makes 50 jobs in 1000 s, with a variance of 50, over 40 seeds of 200 machines."""
    runs = [job_stream(seed=seed, horizon=1000.0, **EQUAL) for seed in range(40)]
    counts = np.array([np.bincount(actual.submitter, minlength=200) for actual in runs])
    # tolerances: five standard deviations of the mean, and of the variance, whose own variance is (m + 2
    # m**2) / n
    assert counts.mean() == pytest.approx(50.0, abs=5 * math.sqrt(50 / 8000))
    assert counts.var(ddof=1) == pytest.approx(50.0, abs=5 * math.sqrt((50 + 2 * 50**2) / 8000))
    # halves of the time and machines are independent, so that their variances add up
    halves = np.array([np.bincount(f.submitter[f.release < 500.0], minlength=200) for f in runs])
    assert (halves.mean(), halves.var(ddof=1)) == (pytest.approx(25.0, abs=0.3), pytest.approx(25.0, abs=2.1))
    assert abs(np.corrcoef(halves.ravel(), (counts - halves).ravel())[0, 1]) < 5 / math.sqrt(8000)
    assert counts.sum(axis=1).var(ddof=1) == pytest.approx(10_000, rel=5 * math.sqrt(2 / 39))


def test_releases_are_sorted_and_cover_the_horizon() -> None:
    actual = job_stream(horizon=1000.0)
    assert (np.diff(actual.release_ns) >= 0).all() and (actual.tasks == 1).all()
    assert 0 <= actual.release[0] < 1.0 and 999.0 < actual.release[-1] <= 1000.0
    assert actual.release.mean() == pytest.approx(500.0, abs=5 * 1000 / math.sqrt(12 * len(actual)))
    gaps = np.diff(actual.release)
    # exponential gaps have equal mean and deviation
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)


def test_means_of_machines_have_the_stated_variation() -> None:
    """Means vary by a fifth; jobs of a machine are equal if their deviation is 0."""
    nodes = 5000
    platform = gs.Platform.equal(nodes, 100.0)
    actual = job_stream(platform, horizon=300.0, data=1e6, deviation=0.0)
    share = 0.2 / math.sqrt(2 * nodes)  # standard error of an estimated standard deviation
    assert actual.rates.mean() == pytest.approx(1 / 20, rel=5 * 0.2 / math.sqrt(nodes))
    assert actual.rates.std() / actual.rates.mean() == pytest.approx(0.2, abs=5 * share)
    first = np.unique(actual.submitter, return_index=True)[1]
    seconds = actual.task_size[first] / 100.0
    assert np.array_equal(actual.task_size, actual.task_size[first][np.searchsorted(
        actual.submitter[first], actual.submitter)])  # fmt: skip
    assert seconds.mean() == pytest.approx(30.0, abs=5 * 6 / math.sqrt(nodes))
    assert seconds.std() / seconds.mean() == pytest.approx(0.2, abs=5 * share)
    # machines with a high rate submit many jobs
    counts = np.bincount(actual.submitter, minlength=nodes)
    assert np.corrcoef(counts, actual.rates)[0, 1] > 0.5
    # rates and processing times are independent of each other
    assert abs(np.corrcoef(actual.rates[actual.submitter[first]], seconds)[0, 1]) < 5 / math.sqrt(nodes)


def test_values_without_variation_are_constant() -> None:
    actual = job_stream(horizon=100.0, interarrival=8.0, processing_time=7.0, **EQUAL)
    assert (actual.rates == 0.125).all() and (actual.task_size == 700.0).all()
    with_own = job_stream(horizon=100.0, interarrival=8.0, processing_time=7.0, variation=0.0, deviation=0.3)
    assert (with_own.rates == 0.125).all() and np.array_equal(with_own.release_ns, actual.release_ns)
    n = len(actual)
    assert with_own.task_size.std() / 700.0 == pytest.approx(0.3, abs=5 * 0.3 / math.sqrt(2 * n))
    assert with_own.task_size.mean() / 700.0 == pytest.approx(1.0, abs=5 * 0.3 / math.sqrt(n))


def test_data_sizes_are_exponential_and_rounded_up() -> None:
    actual = job_stream(data=5000.0, **EQUAL)
    n = len(actual)
    assert n > 15_000 and actual.data.dtype == np.int64 and actual.data.min() >= 1
    assert actual.data.mean() == pytest.approx(5000.5, abs=5 * 5000 / math.sqrt(n))
    assert (actual.data > 5000 * math.log(2)).mean() == pytest.approx(0.5, abs=2.5 / math.sqrt(n))
    assert actual.data.std() == pytest.approx(5000.0, rel=5 * math.sqrt(2 / n))  # the 4th central moment is 9
    # means of machines vary by a fifth, which raises the variance by a factor of 1 + 2 * 0.04
    varied = job_stream(data=5000.0).data
    assert varied.mean() == pytest.approx(5000.5, abs=5 * 5000 * 0.2 / math.sqrt(200) + 200)
    assert (job_stream(data=0.0).data == 0).all()


def test_processing_times_refer_to_the_reference_speed() -> None:
    """The reference speed is the mean of the platform unless it is stated."""
    mixed = gs.Platform.of([50.0, 150.0, 400.0])
    assert job_stream(mixed, processing_time=3.0, **EQUAL).task_size.tolist()[0] == 600.0
    assert job_stream(mixed, processing_time=3.0, reference_speed=10.0, **EQUAL).task_size.tolist()[0] == 30.0


def test_random_streams_of_job_streams_are_independent() -> None:
    plain, other = job_stream(), job_stream(data=9.0, processing_time=1.0)
    for name in ("release_ns", "submitter", "rates"):
        assert np.array_equal(getattr(plain, name), getattr(other, name))
    assert np.allclose(plain.task_size, 30 * other.task_size)
    second, seeded = job_stream(), job_stream(seed=2)
    for name in ("release_ns", "submitter", "rates", "task_size", "data"):
        assert np.array_equal(getattr(plain, name), getattr(second, name))
        assert not np.array_equal(getattr(plain, name), getattr(seeded, name))


def test_job_streams_survive_a_file() -> None:
    scenario = gs.Scenario(
        gs.Platform.normal(7, 3, mean=150.0, variation=0.1),
        gs.Workload.job_streams(300.0, 15.0, 20.0, 2e4, 0.1, 0.3, 500.0, seed=4),
        gs.Network.star(congestion=0.2),
        seed=5,
    )
    copy = gs.Scenario.from_toml(scenario.to_toml())
    assert copy == scenario
    one, other = (item.workload.realize(item.platform) for item in (scenario, copy))
    assert all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("release", "size", "data")
    )
    assert 'kind = "streams"' in scenario.to_toml() and 'kind = "normal"' in scenario.to_toml()
    listed = gs.Workload.of([0.0, 1.0], 2, 5.0, data=[7, 0])
    copy = gs.Scenario.from_toml(gs.Scenario(GRID, listed).to_toml())
    assert copy.workload == listed and copy.workload.realize(GRID).data.tolist() == [7, 0]


def test_data_sizes_follow_their_applications() -> None:
    """Bytes follow their applications, which are sorted by release."""
    assert gs.Workload.of([2.0, 1.0], 1, 5.0, data=[7, 9]).realize(GRID).data.tolist() == [9, 7]
    assert gs.Workload.of([2.0, 1.0], 1, 5.0, data=3).realize(GRID).data.tolist() == [3, 3]
    bare = gs.Workload.of([2.0, 1.0], 1, 5.0).realize(GRID)
    assert bare.data is None and bare.rates is None
    for data, message in (
        ([1], "workload.data must have 2 entries, as workload.release has, got 1"),
        ([1, -1], "workload.data[1] must be a whole number in 0..2147483647, got -1"),
        ([2**31, 1], "workload.data[0] must be a whole number in 0..2147483647, got 2147483648"),
        (1.5, "workload.data[0] must be a whole number in 0..2147483647, got 1.5"),
    ):
        with pytest.raises(gs.ScenarioError) as excinfo:
            gs.Workload.of([2.0, 1.0], 1, 5.0, data=data)
        assert str(excinfo.value) == message


BAD: list[tuple[dict[str, Any], str]] = [
    ({"seed": -1}, "workload.seed must be a whole number >= 0, got -1"),
    ({"horizon": 0}, "workload.horizon must be a finite number > 0 s, got 0"),
    ({"horizon": math.inf}, "workload.horizon must be a finite number > 0 s, got inf"),
    ({"interarrival": 0.0}, "workload.interarrival must be a finite number > 0 s, got 0.0"),
    ({"processing_time": -3.0}, "workload.processing_time must be a finite number > 0 s, got -3.0"),
    ({"data": -1}, "workload.data must be a finite number >= 0 bytes, got -1"),
    (
        {"data": 1e10},
        "workload.data must give each job at most 2147483647 bytes, got 1.04149e+11 with a mean of 1e+10",
    ),
    ({"variation": math.nan}, "workload.variation must be a finite number >= 0, got nan"),
    ({"deviation": "big"}, "workload.deviation must be a finite number >= 0, got 'big'"),
    ({"reference_speed": 0.0}, "workload.reference_speed must be a finite number > 0 Mflop/s, got 0.0"),
    # errors that `realize` raises
    ({"horizon": 1e-9}, "workload.horizon must be long enough for at least one job, got 1e-09 s"),
    ({"horizon": 1e10, "interarrival": 1.0, **EQUAL},
     "workload.horizon must give at most 1073741823 jobs on average, got 2e+12"),
    ({"interarrival": 1e-308, **EQUAL},
     "workload.horizon must give at most 1073741823 jobs on average, got inf"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_invalid_parameters_of_job_streams_are_rejected(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        job_stream(**parameters)
    assert str(excinfo.value) == message


# -- network and platform --------------------------------------------------------------------------------


def test_a_star_has_the_latency_of_the_paper() -> None:
    """Signals travel 50 km to the provider and 50 km on at 2e8 m/s, with 0.1 s of congestion and 1 Mbit/s."""
    star = gs.Network.star()
    assert star.latency == pytest.approx(0.1005, abs=1e-15)
    assert (star.bandwidth, star.interfaces, star.jitter) == (125_000.0, "equal", 0.0)
    other = gs.Network.star(distance=2e8, congestion=0.25, bandwidth=7.0, velocity=1e8)
    assert (other.latency, other.bandwidth) == (4.25, 7.0)
    assert gs.Network.star(velocity=math.inf).latency == 0.1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"distance": -1.0}, "network.distance must be a finite number >= 0 m, got -1.0"),
        ({"distance": math.nan}, "network.distance must be a finite number >= 0 m, got nan"),
        ({"congestion": math.inf}, "network.congestion must be a finite number >= 0 s, got inf"),
        ({"velocity": 0}, "network.velocity must be a number > 0 m/s, got 0"),
        ({"distance": "far"}, "network.distance must be a finite number >= 0 m, got 'far'"),
        ({"bandwidth": 0.0}, "network.bandwidth must be a number >= 1e-06 bytes/s, got 0.0"),
        ({"distance": 1e308, "velocity": 1e-3}, "network.latency must be a finite number >= 0 s, got inf"),
    ],
)
def test_invalid_parameters_of_a_star_are_rejected(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        gs.Network.star(**parameters)
    assert str(excinfo.value) == message


def test_normal_speeds_have_their_mean_and_deviation() -> None:
    n = 20_000
    speeds = gs.Platform.normal(n, seed=1).speeds
    assert speeds.mean() == pytest.approx(200.0, abs=5 * 40 / math.sqrt(n))
    assert speeds.std() == pytest.approx(40.0, abs=5 * 40 / math.sqrt(2 * n))
    assert (speeds < 160.0).mean() == pytest.approx(0.1587, abs=5 * 0.366 / math.sqrt(n))
    assert np.array_equal(speeds, gs.Platform.normal(n, seed=1).speeds)
    assert not np.array_equal(speeds, gs.Platform.normal(n, seed=2).speeds)
    assert (gs.Platform.normal(9, 1, mean=70.0, variation=0.0).speeds == 70.0).all()
    # speeds of at most 0.01 of the mean are redrawn
    assert gs.Platform.normal(n, seed=1, mean=100.0, variation=2.0).speeds.min() > 1.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nodes": 0}, "platform.nodes must be a whole number in 1..1073741824, got 0"),
        ({"mean": 0}, "platform.mean must be a finite number >= 1e-06 Mflop/s, got 0"),
        ({"variation": 1e308}, "platform must have speeds with a finite sum, got up to inf Mflop/s"),
        ({"variation": -0.1}, "platform.variation must be a finite number >= 0, got -0.1"),
    ],
)
def test_invalid_normal_speeds_are_rejected(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        gs.Platform.normal(**{"nodes": 5, "seed": 1, **parameters})
    assert str(excinfo.value) == message
