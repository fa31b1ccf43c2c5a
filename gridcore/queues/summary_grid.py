"""The sample grid of an availability summary, shared by the kernel and its reference implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]


class SummaryGrid:
    """The sample points of a summary n[S, w, a]: stretches (s/Mflop), sizes w and task sizes a (Mflop).

    The three arrays must be finite, positive and strictly increasing; they are copied and read-only.
    Summaries can be added only if they are sampled on the same grid.  Kernels rely on arrays that never
    change, so they accept no subclass.
    """

    __slots__ = ("_size", "_stretch", "_task_size")

    def __init__(self, stretch: npt.ArrayLike, size: npt.ArrayLike, task_size: npt.ArrayLike) -> None:
        axes = _samples("stretch", stretch), _samples("size", size), _samples("task_size", task_size)
        if hasattr(self, "_stretch"):
            raise TypeError("a SummaryGrid cannot be initialised twice")
        self._stretch, self._size, self._task_size = axes

    @classmethod
    def geometric(
        cls,
        stretch: tuple[float, float, int],
        size: tuple[float, float, int],
        task_size: tuple[float, float, int],
    ) -> SummaryGrid:
        """Return a grid from (first, last, count) per axis with a constant ratio and exact end points."""
        return cls(
            _geometric("stretch", stretch), _geometric("size", size), _geometric("task_size", task_size)
        )

    @property
    def stretch(self) -> Samples:
        """Stretch samples, s/Mflop."""
        return self._stretch

    @property
    def size(self) -> Samples:
        """Application size samples, Mflop."""
        return self._size

    @property
    def task_size(self) -> Samples:
        """Task size samples, Mflop."""
        return self._task_size

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of samples per axis: (stretches, sizes, task sizes)."""
        return len(self._stretch), len(self._size), len(self._task_size)

    @property
    def cells(self) -> int:
        """Number of cells of a summary."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SummaryGrid):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        parts = (
            f"{name}=[{array[0]:.6g} .. {array[-1]:.6g}; {len(array)}]"
            for name, array in (
                ("stretch", self._stretch),
                ("size", self._size),
                ("task_size", self._task_size),
            )
        )
        return f"SummaryGrid({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SummaryGrid, (self._stretch, self._size, self._task_size)

    def _key(self) -> tuple[bytes, bytes, bytes]:
        return self._stretch.tobytes(), self._size.tobytes(), self._task_size.tobytes()


def _samples(name: str, values: npt.ArrayLike) -> Samples:
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold real numbers, got dtype {raw.dtype}")
    array = np.array(raw, dtype=np.float64, order="C")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one sample, got none")
    last = 0.0
    for index, value in enumerate(array.tolist()):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name}[{index}] must be finite and > 0, got {value!r}")
        if value <= last:
            raise ValueError(
                f"{name}[{index}] must be larger than the sample before it, got {value!r} after {last!r}"
            )
        last = value
    return np.frombuffer(array.tobytes())  # memory of bytes cannot be made writable


#: The largest number of samples of an axis; it is far beyond that of any summary.
_MAX_SAMPLES = 10**6


def _geometric(name: str, axis: Sequence[float]) -> list[float]:
    try:
        first, last, count = axis
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be (first, last, count), got {axis!r}") from None
    if not 1 <= count <= _MAX_SAMPLES or count != int(count):
        raise ValueError(f"{name}: count must be an integer in 1..{_MAX_SAMPLES}, got {count!r}")
    first, last, count = float(first), float(last), int(count)
    for label, value in (("first", first), ("last", last)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name}: {label} must be finite and > 0, got {value!r}")
    if count == 1:
        if first != last:
            raise ValueError(f"{name}: one sample requires first == last, got {first!r} and {last!r}")
        return [first]
    # Computed in logarithms, so that neither last / first nor a power of it can overflow.
    low, step = math.log(first), (math.log(last) - math.log(first)) / (count - 1)
    return [first, *(math.exp(low + step * i) for i in range(1, count - 1)), last]
