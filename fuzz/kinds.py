"""Kinds of arguments, and what is called with them: a kind makes a well-formed value of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from arrays import POSITIVE, Source
from numpy.typing import NDArray


@dataclass
class Context:
    """One execution: the bytes left, sizes of what is described, and the instant reached (ns)."""

    s: Source
    sizes: dict[str, int] = field(default_factory=dict)
    now: int = 0
    #: The object under test and what goes with it, by name.
    of: dict[str, Any] = field(default_factory=dict)
    #: What it has told, which is there when the object is gone.
    told: list[NDArray[Any]] = field(default_factory=list)

    def keep(self, result: Any) -> None:
        """The arrays of what a call has returned; not iterators, which hold the object."""
        if isinstance(result, np.ndarray):
            self.told.append(result)
        elif isinstance(result, tuple | list | dict):
            for each in result.values() if isinstance(result, dict) else result:
                self.keep(each)

    def size(self, name: str, low: int = 0, high: int = 6) -> int:
        """The same for all arguments that have this name for it."""
        if name not in self.sizes:
            self.sizes[name] = low + self.s.below(high - low + 1)
        return self.sizes[name]


Kind = Callable[[Context], Any]
Arguments = Mapping[str, Kind]


@dataclass
class Part:
    """A function, or a class with its methods."""

    name: str
    arguments: Arguments
    methods: Mapping[str, Arguments] = field(default_factory=dict)
    #: Attributes to read.
    shown: tuple[str, ...] = ()
    #: Makes what goes with it, before it; hostile executions use that too.
    before: Callable[[Context, Any], None] | None = None
    #: Arguments that are written in place; "method.argument" of a method.
    written: frozenset[str] = frozenset()


# -- kinds of arguments -------------------------------------------------------------------------------------


def real(table: np.ndarray[Any, Any]) -> Kind:
    return lambda c: float(table[c.s.byte()])


def reals(table: np.ndarray[Any, Any], size: str, low: int = 0, high: int = 6) -> Kind:
    return lambda c: table[c.s.bytes(c.size(size, low, high))]


def whole(low: int, high: int) -> Kind:
    return lambda c: low + c.s.below(high - low + 1)


def wholes(low: int, high: int, size: str, low_size: int = 0, high_size: int = 6) -> Kind:
    return lambda c: low + c.s.bytes(c.size(size, low_size, high_size)).astype(np.int64) % (high - low + 1)


def one_of(*values: Any) -> Kind:
    return lambda c: c.s.pick(values)


def places(size: str, count: str, at_least: int = 0, high: int = 8) -> Kind:
    """Numbers below a size, with repetitions; none if there is nothing."""

    def make(c: Context) -> Any:
        n = c.sizes[size] - at_least
        return at_least + c.s.bytes(c.size(count, 0, high if n > 0 else 0)).astype(np.int64) % max(1, n)

    return make


def ascending(size: str, count: str) -> Kind:
    return lambda c: np.unique(places(size, count)(c))


def place(size: str) -> Kind:
    return lambda c: c.s.below(max(1, c.sizes[size]))


def flags(size: str) -> Kind:
    return lambda c: c.s.bytes(c.sizes[size]) % 2 == 1


flag = one_of(False, True)


def maybe(kind: Kind, part: int = 128) -> Kind:
    return lambda c: kind(c) if c.s.chance(part) else None


def later(most: int = 10**9, step: int = 10**7) -> Kind:
    """An instant not before the last one."""

    def make(c: Context) -> int:
        c.now += c.s.below(256) ** 2 * (most // 65536) // step * step
        return c.now

    return make


def now(c: Context) -> int:
    return c.now


def reached(c: Context) -> int:
    """The instant that the object itself has reached."""
    return int(c.of["self"].now)


# -- well-formed structures ---------------------------------------------------------------------------------


def grid(c: Context) -> Any:
    from gridcore import SummaryGrid

    axes = [np.unique(POSITIVE[c.s.bytes(1 + c.s.below(3))]) for _ in range(3)]
    c.of["grid"] = made = SummaryGrid(*axes)
    return made


def cells(count: str | None = None) -> Kind:
    """Summaries."""

    def make(c: Context) -> Any:
        shape = c.of["grid"].shape if "grid" in c.of else (1 + c.s.below(3), 2, 1 + c.s.below(2))
        if count is not None:
            shape = (c.size(count, 0, 5), *shape)
        made = c.s.bytes(int(np.prod(shape))).astype(np.uint32).reshape(shape)
        made = np.where(made == 255, np.uint32(2**32 - 1), made)
        # more with the stretch and the size, less with the size of a task, as summaries are
        made = np.maximum.accumulate(np.maximum.accumulate(made, axis=-3), axis=-2)
        return np.maximum.accumulate(made[..., ::-1], axis=-1)[..., ::-1].copy()

    return make


def offsets(c: Context) -> Any:
    n, nodes = c.size("n"), c.size("nodes", 0, 4)
    cuts = np.sort(c.s.bytes(max(0, nodes - 1)).astype(np.int64) % (n + 1))
    return np.array([0, *cuts, n] if nodes else [0], np.int64)


def running(table: np.ndarray[Any, Any]) -> Kind:
    """Of some nodes; the same ones for all arguments."""

    def make(c: Context) -> Any:
        nodes = c.size("nodes", 0, 4)
        which = c.of.setdefault("running", c.s.bytes(nodes) % 2 == 1)
        return np.where(which, table[c.s.bytes(nodes)], np.nan)

    return make


def both(kind: Kind, name: str) -> Kind:
    """None for all arguments of this name, or for none."""
    return lambda c: kind(c) if c.of.setdefault(name, c.s.chance(128)) else None


def rows(dtype: str, count: str, **fields: Kind) -> Kind:
    """Structs of a dtype of `gridcore.fair_tree.summary_tree`."""

    def make(c: Context) -> Any:
        from gridcore.fair_tree import summary_tree as tree

        columns = {name: kind(c) for name, kind in fields.items()}
        made = np.zeros(min((len(column) for column in columns.values()), default=0), getattr(tree, dtype))
        for name, column in columns.items():
            made[name] = column[: len(made)]
        return made

    return make
