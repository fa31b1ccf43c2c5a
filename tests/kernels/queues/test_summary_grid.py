"""The summary grid."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from gridcore.queues.summary_grid import SummaryGrid


def test_geometric_end_points_are_exact():
    grid = SummaryGrid.geometric(stretch=(1e-6, 0.3, 10), size=(1e4, 1e9, 9), task_size=(7.0, 7.0, 1))
    assert grid.shape == (10, 9, 1) and grid.cells == 90
    assert grid.stretch[0] == 1e-6 and grid.stretch[-1] == 0.3 and grid.task_size.tolist() == [7.0]
    np.testing.assert_allclose(np.diff(np.log(grid.size)), np.log(1e5) / 8)


def test_a_grid_is_frozen_comparable_and_picklable():
    stretch = np.array([1.0, 2.0])
    grid = SummaryGrid(stretch, [3, 4], [5.0])
    stretch[0] = 9.0
    assert grid.stretch[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        grid.size[0] = 1.0
    with pytest.raises(AttributeError):
        grid.size = stretch
    copy_ = pickle.loads(pickle.dumps(grid))
    assert copy_ == grid and hash(copy_) == hash(grid) and not copy_.size.flags.writeable
    assert grid != SummaryGrid([1.0, 2.0], [3, 4], [6.0]) and grid != 1
    assert repr(grid) == "SummaryGrid(stretch=[1 .. 2; 2], size=[3 .. 4; 2], task_size=[5 .. 5; 1])"


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (([1.0, np.nan], [1.0], [1.0]), r"stretch\[1\] must be finite and > 0, got nan"),
        (([1.0], [0.0], [1.0]), r"size\[0\] must be finite and > 0, got 0.0"),
        (([1.0], [1.0], [1.0, np.inf]), r"task_size\[1\] must be finite and > 0, got inf"),
        (([1.0], [2.0, 2.0], [1.0]), r"size\[1\] must be larger than .*, got 2.0 after 2.0"),
        (([], [1.0], [1.0]), "stretch must have at least one sample"),
        (([[1.0]], [1.0], [1.0]), "stretch must have one dimension, got 2"),
    ],
)
def test_wrong_samples_are_rejected(axes, message):
    with pytest.raises(ValueError, match=message):
        SummaryGrid(*axes)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ((1.0, 2.0), "must be"),
        ((1.0, 2.0, 0), "count must be an integer in 1..1000000, got 0"),
        ((1.0, 2.0, 2.5), "count must be an integer"),
        ((1.0, 2.0, 2**62), "count must be an integer in 1..1000000, got 4611686018427387904"),
        ((0.0, 2.0, 2), "first must be finite and > 0, got 0.0"),
        ((1.0, np.inf, 2), "last must be finite and > 0, got inf"),
        ((1.0, 2.0, 1), "one sample needs first == last"),
        ((2.0, 1.0, 3), "must be larger than the sample before it"),
    ],
)
def test_wrong_geometric_axes_are_rejected(axis, message):
    with pytest.raises(ValueError, match=message):
        SummaryGrid.geometric(stretch=axis, size=(1.0, 2.0, 2), task_size=(1.0, 2.0, 2))


def test_strings_are_rejected_as_samples():
    with pytest.raises(TypeError, match="^stretch"):
        SummaryGrid(["1"], [1.0], [1.0])
