"""The random stream of a node, in plain Python: see `gridcore.nodes.random_stream`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ONES, GAMMA = 2**64 - 1, 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & ONES
    x = (x ^ x >> 27) * 0x94D049BB133111EB & ONES
    return x ^ x >> 31


class RandomStream:
    def __init__(self, seed: int, node: int, drawn: int = 0) -> None:
        self.key, self.drawn = mix(seed ^ mix((node + 1) * GAMMA & ONES)), drawn

    def _bits(self) -> int:
        self.drawn += 1
        return mix((self.key + self.drawn * GAMMA) & ONES)

    def _below(self, count: int) -> int:
        mask = (1 << (count - 1).bit_length()) - 1
        while (found := self._bits() & mask) >= count:
            pass
        return found

    def _many(self, size: Any, one: Any, kind: Any = float) -> Any:
        if size is None:
            return one()
        count = math.prod(size) if isinstance(size, tuple) else size
        return np.array([one() for _ in range(count)], kind).reshape(size)

    def _one(self) -> float:
        return (self._bits() >> 11) / 2**53

    def _normal(self) -> float:
        radius = math.sqrt(-2.0 * math.log1p(-self._one()))
        return radius * math.cos(2.0 * math.pi * self._one())

    def random(self, size: Any = None) -> Any:
        return self._many(size, self._one)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        _finite("low", low)
        _finite("high", high)
        return self._many(size, lambda: low + (high - low) * self._one())

    def exponential(self, scale: float = 1.0, size: Any = None) -> Any:
        _finite("scale", scale, 0.0)
        return self._many(size, lambda: scale * -math.log1p(-self._one()))

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        _finite("loc", loc)
        _finite("scale", scale, 0.0)
        return self._many(size, lambda: loc + scale * self._normal())

    def integers(self, low: int, high: int | None = None, size: Any = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        if low >= high:
            raise ValueError(f"low must be less than high, got {low} and {high}")
        return self._many(size, lambda: low + self._below(high - low), np.int64)

    def permutation(self, x: Any) -> Any:
        found = np.arange(x) if isinstance(x, int) else np.array(x)
        return found[self._shuffled(len(found), len(found))]

    def choice(self, a: Any, size: Any = None, replace: bool = True) -> Any:
        of = range(a) if isinstance(a, int) else a
        if not len(of):
            raise ValueError("a must have something to choose from, got nothing")
        if size is None:
            return of[self._below(len(of))]
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"size must be a whole number of at least 0, got {size!r}")
        if not replace and size > len(of):
            raise ValueError(f"size must be at most {len(of)} without replacement, got {size}")
        which = self.integers(0, len(of), size) if replace else self._shuffled(len(of), size)
        return np.asarray(of)[which]

    def _shuffled(self, count: int, wanted: int) -> Any:
        places = list(range(count))
        for k in range(wanted):
            other = k + self._below(count - k)
            places[k], places[other] = places[other], places[k]
        return np.array(places[:wanted], np.int64)


def _finite(name: str, value: float, low: float = -math.inf) -> None:
    if not math.isfinite(value) or value < low:
        rule = "finite" if low == -math.inf else f"finite and at least {low:g}"
        raise ValueError(f"{name} must be {rule}, got {value!r}")
