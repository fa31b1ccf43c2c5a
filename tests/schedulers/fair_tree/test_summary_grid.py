"""Samples of summaries: the documented rule, checked by examples and invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridcore.queues.summary_grid import SummaryGrid
from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.schedulers.fair_tree.summary_grid import derive_grid, explicit_grid, fluid_stretch

QUICK = settings(max_examples=30, deadline=None)


def applications(release: Any, tasks: Any, task_size: Any) -> Applications:
    return Workload.of(release, tasks, task_size).realize(Platform.of([1.0]))


# -- the divisible load on one machine ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "tasks", "expected"),
    [
        ([0.0], [4], 1 / 10),
        # both applications wait from 0 on: the small one runs first, and the large one ends at 1.5 s
        ([0.0, 0.0], [5, 10], 1.5 / 10),
        # the first application can run from 0 to 1 s; the second, released at 0.5 s, then ends at 2 s.  The
        # last one has a stretch of (2 - 0.5) / 10 if it is the second, and of (2 - 0) / 10 otherwise, so the
        # second is last.
        ([0.0, 0.5], [10, 10], 1.5 / 10),
        # the machine is idle in between, so the applications do not compete
        ([0.0, 100.0], [10, 10], 1 / 10),
        # at 1 s the first application has half of its work left; the new one goes first, and the other ends
        # at 2.1 s
        ([0.0, 1.0], [20, 1], 2.1 / 20),
    ],
)
def test_fluid_stretch_has_the_expected_value(
    release: list[float], tasks: list[int], expected: float
) -> None:
    assert fluid_stretch(10.0, applications(release, tasks, 1.0)) == pytest.approx(expected, rel=1e-12)


bags = st.lists(
    st.tuples(st.sampled_from((0.0, 1.0, 2.5, 40.0)), st.integers(1, 9), st.sampled_from((1.0, 2.0, 7.0))),
    min_size=1,
    max_size=7,
)


@QUICK
@given(bags, st.sampled_from((1.0, 3.0, 1000.0)))
def test_fluid_stretch_lies_between_its_bounds(given_bags: Any, speed: float) -> None:
    """The upper bound is that of one application after another, by release."""
    load = applications(*zip(*given_bags, strict=True))
    actual = fluid_stretch(speed, load)
    assert actual >= (1 - 1e-12) / speed
    end = 0.0
    for release, size in zip(load.release.tolist(), load.size.tolist(), strict=True):
        end = max(end, release) + size / speed
    assert actual <= (end - load.release.min()) / load.size.min() * (1 + 1e-12)


@QUICK
@given(bags)
def test_fluid_stretch_scales_with_speed(given_bags: Any) -> None:
    """Twice the work on a machine twice as fast: the same times, half the stretch."""
    release, tasks, size = zip(*given_bags, strict=True)
    once = fluid_stretch(3.0, applications(release, tasks, size))
    twice = fluid_stretch(6.0, applications(release, [2 * n for n in tasks], size))
    assert twice == pytest.approx(once / 2, rel=1e-9)


# -- the rule -----------------------------------------------------------------------------------------------


def test_derived_grid_has_the_expected_samples() -> None:
    speeds = np.array([1000.0, 3000.0])
    load = applications([0.0, 1e6], [1, 8], [500.0, 1000.0])
    grid = derive_grid(speeds, load, (5, 3, 2))
    assert grid.shape == (5, 3, 2)
    # lowest stretch: 8 tasks on 4000 Mflop/s; highest: twice the stretch of the single task on 1000 Mflop/s
    assert (grid.stretch[0], grid.stretch[-1]) == (1 / 4000, 2 / 1000)
    assert grid.size.tolist() == pytest.approx([247.5, 99 * 200**0.5, 7920.0])
    assert grid.task_size.tolist() == [500.0, 1000.0]
    assert np.diff(np.log(grid.stretch)).tolist() == pytest.approx([np.log(8) / 4] * 4)


def test_a_higher_load_widens_the_window() -> None:
    speeds = np.full(10, 1000.0)
    load = applications(np.zeros(30), 100, 50.0)
    grid = derive_grid(speeds, load, (5, 1, 1))
    # 30 applications arrive at once; the last one ends when all work is done
    assert grid.stretch[-1] == pytest.approx(2 * 30 / 10_000)
    assert grid.stretch[0] == 1e-4


def test_long_tasks_widen_the_window() -> None:
    speeds = np.full(10, 1000.0)
    load = applications([0.0, 1e9], [4, 100], [1.0, 5000.0])
    grid = derive_grid(speeds, load, (5, 3, 2))
    # 10 tasks of 5 s run: one ends each 0.5 s, so that 4 machines are free after 2 s
    assert grid.stretch[-1] == pytest.approx(2 * 2.0 / 4.0)


def test_a_narrow_range_is_widened_downwards() -> None:
    grid = derive_grid(np.array([1000.0]), applications([0.0], [2], [100.0]), (3, 4, 3))
    assert grid.size.tolist() == pytest.approx([198 / 2, 198 / 2 ** (2 / 3), 198 / 2 ** (1 / 3), 198.0])
    assert grid.task_size.tolist() == pytest.approx([100 / 1.05**2, 100 / 1.05, 100.0])
    assert grid.stretch[-1] == 2e-3


def test_single_samples_cover_all_applications() -> None:
    """Sizes are looked up downwards and task sizes upwards: the smallest, and the largest."""
    load = applications([0.0, 0.0], [2, 9], [100.0, 400.0])
    grid = derive_grid(np.array([1000.0]), load, (1, 1, 1))
    assert grid.size.tolist() == [198.0]
    assert grid.task_size.tolist() == [400.0]


@QUICK
@given(
    bags,
    st.lists(st.sampled_from((1.0, 2.0, 30.0)), min_size=1, max_size=5),
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)) | st.integers(1, 2000),
    st.booleans(),
    st.booleans(),
)
def test_every_application_is_on_the_grid(
    given_bags: Any,
    speeds: list[float],
    samples: int | tuple[int, int, int],
    failing: bool,
    as_new_bags: bool,
) -> None:
    load = applications(*zip(*given_bags, strict=True))
    grid = derive_grid(np.array(speeds), load, samples, failing=failing, as_new_bags=as_new_bags)
    if isinstance(samples, int):
        assert 1 <= grid.cells <= samples
        assert grid.shape[1] <= 9 and grid.shape[2] <= 8
    else:
        assert grid.shape == samples
    if grid.shape[1] > 1:
        below = 0.02 if failing else 0.5
        assert grid.size[0] <= load.size.min() * below
        assert grid.size[0] <= load.task_size.min() or not (failing and as_new_bags)
        assert grid.size[-1] == pytest.approx(0.99 * load.size.max())
    assert grid.size[0] < load.size.min()
    assert grid.task_size[-1] == load.task_size.max()
    assert grid.stretch[-1] >= 2 * fluid_stretch(sum(speeds), load) * (1 - 1e-12)
    if grid.shape[0] > 1:
        alone = 1.0 / np.minimum(sum(speeds), load.tasks * max(speeds))
        assert grid.stretch[0] <= alone.min()
    for axis in (grid.stretch, grid.size, grid.task_size):
        assert (axis[1:] >= axis[:-1] * 1.05 * (1 - 1e-9)).all()


def test_wide_ranges_of_task_sizes_get_samples_first() -> None:
    """With stretches first a job log had two task sizes, and its small applications found no room."""
    count = 60
    task_size = 10.0 ** np.linspace(3.0, 7.0, count)
    log = applications(np.arange(count) * 100.0, [1, 3, 50] * 20, task_size)
    assert derive_grid(np.full(200, 1000.0), log, 720).shape == (10, 9, 8)
    equal = applications(
        np.arange(count) * 10.0, [900 + 5 * k for k in range(count)], np.full(count, 65536.0)
    )
    stretch = derive_grid(np.linspace(1000.0, 3000.0, 100), equal, 720).stretch
    assert (stretch[1:] <= 1.14 * stretch[:-1] * (1 + 1e-9)).all()


# -- explicit grids -----------------------------------------------------------------------------------------


def test_explicit_grid_has_the_given_samples() -> None:
    grid = explicit_grid(((1e-4, 2e-4), (100.0,), (5.0, 6.0, 9.0)))
    assert grid == SummaryGrid([1e-4, 2e-4], [100.0], [5.0, 6.0, 9.0])


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        (((1.0,), (1.0,)), "task_size"),
        (((1.0,), (1.0,), ()), "task_size must have at least one sample, got none"),
        (((1.0,), (2.0, 1.0), (1.0,)), r"size\[1\] must be larger than the sample before it"),
        (((0.0,), (1.0,), (1.0,)), r"stretch\[0\] must be finite and > 0"),
        (((1.0, float("inf")), (1.0,), (1.0,)), r"stretch\[1\] must be finite and > 0"),
        (((1.0,), (1.0,), ("a",)), "could not convert"),
        (7, "not iterable"),
    ],
)
def test_invalid_explicit_grids_are_rejected(grid: Any, reason: str) -> None:
    with pytest.raises(ScenarioError, match=f"^fair-tree.grid: .*{reason}"):
        explicit_grid(grid)
