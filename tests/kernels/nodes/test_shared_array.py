"""Arrays of any length in the memory of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from gridcore.nodes.shared_array import SharedArray


def test_only_read_only_arrays_without_another_owner_are_shared() -> None:
    shared, numbers = SharedArray(np.zeros(0)), np.arange(3.0)
    shared.set(numbers)
    numbers[0] = 7.0
    assert shared.values.tolist() == [0.0, 1.0, 2.0]
    view = numbers.view()
    view.flags.writeable = False
    shared.set(view)
    numbers[0] = 8.0
    assert shared.values.tolist() == [7.0, 1.0, 2.0]
    received = np.ones(5)
    received.flags.writeable = False
    shared.set(received)
    assert shared.values is received and len(shared) == 5
    with pytest.raises(ValueError, match="read-only"):
        shared.values[0] = 1.0


def test_arrays_of_other_types_are_rejected() -> None:
    for values in ([1.0], np.zeros((1, 1)), np.zeros(1, np.int32)):
        with pytest.raises(TypeError, match=r"a SharedArray must be int64\[n\] or float64\[n\], got"):
            SharedArray(values)  # type: ignore[arg-type]
    for other in (np.zeros(1), np.zeros((1, 1), np.int64), 3):
        with pytest.raises(TypeError, match=r"values of SharedArray.set must be int64\[n\], got"):
            SharedArray(np.arange(2)).set(other)
