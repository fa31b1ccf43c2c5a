"""Kinds of arguments, and parts of kernels; a kind draws a well-formed value from bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from arrays import POSITIVE, Source
from numpy.typing import NDArray


@dataclass
class Context:
    """State of one execution: remaining bytes, drawn sizes, objects, and the current time (ns)."""

    s: Source
    sizes: dict[str, int] = field(default_factory=dict)
    now: int = 0
    #: The object under test and those that it needs, by name.
    objects: dict[str, Any] = field(default_factory=dict)
    #: Returned arrays, which must outlive their object.
    results: list[NDArray[Any]] = field(default_factory=list)

    def keep(self, result: Any) -> None:
        """Keep the arrays in the result of a call, but no iterators, which hold the object."""
        if isinstance(result, np.ndarray):
            self.results.append(result)
        elif isinstance(result, tuple | list | dict):
            for each in result.values() if isinstance(result, dict) else result:
                self.keep(each)

    def size(self, name: str, low: int = 0, high: int = 6) -> int:
        """Return the size `name`, which is drawn once for all arguments."""
        if name not in self.sizes:
            self.sizes[name] = low + self.s.below(high - low + 1)
        return self.sizes[name]


Kind = Callable[[Context], Any]
Arguments = Mapping[str, Kind]


@dataclass
class Part:
    """Function, or class with its methods."""

    name: str
    arguments: Arguments
    methods: Mapping[str, Arguments] = field(default_factory=dict)
    #: Attributes to read.
    attributes: tuple[str, ...] = ()
    #: Creates the objects that the constructor needs; hostile executions also call these.
    prepare: Callable[[Context, Any], None] | None = None
    #: Arguments that are written in place; those of a method as "method.argument".
    written: frozenset[str] = frozenset()


# -- kinds of arguments -------------------------------------------------------------------------------------


def real(table: np.ndarray[Any, Any]) -> Kind:
    return lambda c: float(table[c.s.byte()])


def reals(table: np.ndarray[Any, Any], size: str, low: int = 0, high: int = 6) -> Kind:
    return lambda c: table[c.s.bytes(c.size(size, low, high))]


def integer(low: int, high: int) -> Kind:
    return lambda c: low + c.s.below(high - low + 1)


def integers(low: int, high: int, size: str, low_size: int = 0, high_size: int = 6) -> Kind:
    return lambda c: low + c.s.bytes(c.size(size, low_size, high_size)).astype(np.int64) % (high - low + 1)


def one_of(*values: Any) -> Kind:
    return lambda c: c.s.pick(values)


def indices_in(size: str, count: str, at_least: int = 0, high: int = 8) -> Kind:
    """Draw numbers below a size, with repetitions; none if the size is 0."""

    def make(c: Context) -> Any:
        n = c.sizes[size] - at_least
        return at_least + c.s.bytes(c.size(count, 0, high if n > 0 else 0)).astype(np.int64) % max(1, n)

    return make


def ascending(size: str, count: str) -> Kind:
    return lambda c: np.unique(indices_in(size, count)(c))


def index_in(size: str) -> Kind:
    return lambda c: c.s.below(max(1, c.sizes[size]))


def flags(size: str) -> Kind:
    return lambda c: c.s.bytes(c.sizes[size]) % 2 == 1


flag = one_of(False, True)


def optional(kind: Kind, part: int = 128) -> Kind:
    return lambda c: kind(c) if c.s.chance(part) else None


def later_time(most: int = 10**9, step: int = 10**7) -> Kind:
    """Draw a time (ns) that is not before the previous one."""

    def make(c: Context) -> int:
        c.now += c.s.below(256) ** 2 * (most // 65536) // step * step
        return c.now

    return make


def now(c: Context) -> int:
    return c.now


def object_time(c: Context) -> int:
    """Return the current time (ns) of the object."""
    return int(c.objects["self"].now)


# -- well-formed structures ---------------------------------------------------------------------------------


def grid(c: Context) -> Any:
    from gridcore import SummaryGrid

    axes = [np.unique(POSITIVE[c.s.bytes(1 + c.s.below(3))]) for _ in range(3)]
    c.objects["grid"] = made = SummaryGrid(*axes)
    return made


def cells(count: str | None = None) -> Kind:
    """Draw summaries."""

    def make(c: Context) -> Any:
        shape = c.objects["grid"].shape if "grid" in c.objects else (1 + c.s.below(3), 2, 1 + c.s.below(2))
        if count is not None:
            shape = (c.size(count, 0, 5), *shape)
        made = c.s.bytes(int(np.prod(shape))).astype(np.uint32).reshape(shape)
        made = np.where(made == 255, np.uint32(2**32 - 1), made)
        # summaries are non-decreasing in stretch and size, and non-increasing in task size
        made = np.maximum.accumulate(np.maximum.accumulate(made, axis=-3), axis=-2)
        return np.maximum.accumulate(made[..., ::-1], axis=-1)[..., ::-1].copy()

    return make


def offsets(c: Context) -> Any:
    n, nodes = c.size("n"), c.size("nodes", 0, 4)
    cuts = np.sort(c.s.bytes(max(0, nodes - 1)).astype(np.int64) % (n + 1))
    return np.array([0, *cuts, n] if nodes else [0], np.int64)


def running(table: np.ndarray[Any, Any]) -> Kind:
    """Draw values for some nodes, the same nodes for all arguments; NaN for the others."""

    def make(c: Context) -> Any:
        nodes = c.size("nodes", 0, 4)
        has_task = c.objects.setdefault("running", c.s.bytes(nodes) % 2 == 1)
        return np.where(has_task, table[c.s.bytes(nodes)], np.nan)

    return make


def all_or_none(kind: Kind, name: str) -> Kind:
    """Draw None for all arguments of this name, or for none of them."""
    return lambda c: kind(c) if c.objects.setdefault(name, c.s.chance(128)) else None
