"""Reference implementation of `gridcore.nodes.random_stream`, in plain Python."""

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

    def _integer_below(self, count: int) -> int:
        mask = (1 << (count - 1).bit_length()) - 1
        while (number := self._bits() & mask) >= count:
            pass
        return number

    def _array(self, size: Any, draw: Any, kind: Any = float) -> Any:
        if size is None:
            return draw()
        count = math.prod(size) if isinstance(size, tuple) else size
        return np.array([draw() for _ in range(count)], kind).reshape(size)

    def _unit(self) -> float:
        return (self._bits() >> 11) / 2**53

    def _normal(self) -> float:
        radius = math.sqrt(-2.0 * math.log1p(-self._unit()))
        return radius * math.cos(2.0 * math.pi * self._unit())

    def random(self, size: Any = None) -> Any:
        return self._array(size, self._unit)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        _finite("low", low)
        _finite("high", high)
        return self._array(size, lambda: low + (high - low) * self._unit())

    def exponential(self, scale: float = 1.0, size: Any = None) -> Any:
        _finite("scale", scale, 0.0)
        return self._array(size, lambda: scale * -math.log1p(-self._unit()))

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        _finite("loc", loc)
        _finite("scale", scale, 0.0)
        return self._array(size, lambda: loc + scale * self._normal())

    def integers(self, low: int, high: int | None = None, size: Any = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        if low >= high:
            raise ValueError(f"low must be below high, got {low} and {high}")
        return self._array(size, lambda: low + self._integer_below(high - low), np.int64)

    def permutation(self, x: Any) -> Any:
        result = np.arange(x) if isinstance(x, int) else np.array(x)
        return result[self._random_places(len(result), len(result))]

    def choice(self, a: Any, size: Any = None, replace: bool = True) -> Any:
        options = range(a) if isinstance(a, int) else list(a)
        if not len(options):
            raise ValueError("a must have at least one element, got none")
        if size is None:
            return options[self._integer_below(len(options))]
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"size must be a whole number of at least 0, got {size!r}")
        if not replace and size > len(options):
            raise ValueError(f"size must be at most {len(options)} without replacement, got {size}")
        places = self.integers(0, len(options), size) if replace else self._random_places(len(options), size)
        return np.asarray(options)[places]

    def _random_places(self, count: int, n_places: int) -> Any:
        places = list(range(count))
        for k in range(n_places):
            place = k + self._integer_below(count - k)
            places[k], places[place] = places[place], places[k]
        return np.array(places[:n_places], np.int64)


def _finite(name: str, value: float, low: float = -math.inf) -> None:
    if not math.isfinite(value) or value < low:
        rule = "finite" if low == -math.inf else f"finite and at least {low:g}"
        raise ValueError(f"{name} must be {rule}, got {value!r}")
