"""Faults: when machines fail and come back, made from a recipe as platforms and workloads are.

A machine is up or down.  A *reset* is a failure whose machine is back at once, with nothing in memory (the
fair tree paper's model); a machine that joins late is down from the beginning, one that leaves for good
goes down and stays.  What happens depends on the recipe alone, so that every scheduler of a comparison
meets the same failures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.platform import normalise, real, sequence, text, whole
from gridsim.streams import Streams

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_NS = 1_000_000_000
#: No event lies later than this (s): the clock counts int64 nanoseconds.
LATEST = 8e9
_END = round(LATEST * _NS)


@dataclass(frozen=True)
class Events:
    """Changes in order of time, machine, and down before up.

    time : int64[k], ns; machine : int64[k]; up : bool[k], whether it comes back or fails.
    """

    time: Integers
    machine: Integers
    up: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time)


def _in_order(time: Any, machine: Any, up: Any) -> Events:
    order = np.lexsort((up, machine, time))
    return Events(
        np.asarray(time, np.int64)[order], np.asarray(machine, np.int64)[order], np.asarray(up)[order]
    )


# -- recipes --------------------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, int], Floats]


def _renewal(seed: int, nodes: int, draw_up: Draw, draw_down: Draw, mean: float) -> Iterator[Events]:
    """Each machine is up and down in turn, for times (s) drawn independently; all are up and new at 0.

    mean : about how long a machine is up, s.
    """
    up_time, down_time = Streams(seed)("faults.up"), Streams(seed)("faults.down")

    def up(count: int) -> Integers:
        # a machine is up for at least a nanosecond, or nothing would ever happen after
        return _nanoseconds(draw_up(up_time, count)).clip(1)

    fails = up(nodes)  # never later than the end, which no failure reaches
    # Blocks of about 65536 failures, but of few a machine, as the first must be there before anything can
    # happen.  The draws depend on where they are cut: each round of a block takes the machines in order.
    block = max(1, int(min(min(65536.0 / nodes, 2048.0) * mean, LATEST) * _NS))
    until = 0
    late = _in_order([], [], np.zeros(0, np.bool_))
    while until < _END:
        until = min(until + block, _END)
        pieces = [late]
        while len(due := np.flatnonzero(fails < until)):
            back = _later(fails[due], _nanoseconds(draw_down(down_time, len(due))))
            pieces.append(Events(fails[due], due, np.zeros(len(due), np.bool_)))
            pieces.append(Events(back, due, np.ones(len(due), np.bool_)))
            fails[due] = _later(back, up(len(due)))
        whole_block = _in_order(
            *(np.concatenate([getattr(p, name) for p in pieces]) for name in ("time", "machine", "up"))
        )
        cut = int(np.searchsorted(whole_block.time, until))
        late = Events(whole_block.time[cut:], whole_block.machine[cut:], whole_block.up[cut:])
        yield Events(whole_block.time[:cut], whole_block.machine[:cut], whole_block.up[:cut])


def _later(at: Integers, span: Integers) -> Integers:
    """`at` + `span`, or the end if that is earlier."""
    result: Integers = at + np.minimum(span, _END - at)
    return result


def _nanoseconds(seconds: Floats) -> Integers:
    result: Integers = np.rint(np.minimum(seconds, LATEST) * _NS).astype(np.int64)
    return result


class PoissonFaults(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="poisson",
):
    """Resets at a constant rate: one every `mean` s a machine, on average."""

    mean: float
    seed: int

    def __post_init__(self) -> None:
        normalise(
            self,
            seed=whole("faults.seed", self.seed),
            mean=real("faults.mean", self.mean, above=0, unit="s"),
        )

    def events(self, nodes: int) -> Iterator[Events]:
        return _renewal(
            self.seed,
            nodes,
            lambda chance, count: chance.exponential(self.mean, count),
            lambda chance, count: np.zeros(count),
            self.mean,
        )


class ExponentialFaults(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="exponential",
):
    """Up for `up` s and down for `down` s on average, exponentially distributed."""

    up: float
    down: float
    seed: int

    def __post_init__(self) -> None:
        normalise(
            self,
            seed=whole("faults.seed", self.seed),
            up=real("faults.up", self.up, above=0, unit="s"),
            down=real("faults.down", self.down, low=0, unit="s"),
        )

    def events(self, nodes: int) -> Iterator[Events]:
        return _renewal(
            self.seed,
            nodes,
            lambda chance, count: chance.exponential(self.up, count),
            lambda chance, count: chance.exponential(self.down, count),
            self.up + self.down,
        )


class WeibullFaults(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="weibull",
):
    """Up and down times with Weibull distributions of these shapes and scales (s); shape 1 is exponential."""

    up_shape: float
    up_scale: float
    down_shape: float
    down_scale: float
    seed: int

    def __post_init__(self) -> None:
        normalise(
            self,
            seed=whole("faults.seed", self.seed),
            **{
                name: real(f"faults.{name}", getattr(self, name), above=0, unit="s" * name.endswith("scale"))
                for name in ("up_shape", "up_scale", "down_shape", "down_scale")
            },
        )

    def events(self, nodes: int) -> Iterator[Events]:
        return _renewal(
            self.seed,
            nodes,
            lambda chance, count: self.up_scale * chance.weibull(self.up_shape, count),
            lambda chance, count: self.down_scale * chance.weibull(self.down_shape, count),
            self.up_scale * math.gamma(1 + 1 / min(max(self.up_shape, 0.01), 100.0)),
        )


class TraceFaults(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="trace"
):
    """Ups and downs of real hosts; the meaning of each field is told by `Faults.trace`."""

    path: str
    seed: int
    start: float = 0.0
    repeat: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.repeat, bool):
            raise ScenarioError(f"faults.repeat must be true or false, got {self.repeat!r}")
        normalise(
            self,
            path=text("faults.path", self.path),
            seed=whole("faults.seed", self.seed),
            start=real("faults.start", self.start, low=0, unit="s"),
        )

    def events(self, nodes: int) -> Iterator[Events]:
        from gridsim.traces import read_availability

        trace = read_availability(self.path)
        ever = np.flatnonzero(np.diff(trace.offsets))
        if self.start >= trace.horizon:
            raise ScenarioError(
                f"faults.start must lie before the end of the trace, {trace.horizon:g} s, got {self.start!r}"
            )
        if nodes > len(ever):
            raise ScenarioError(
                f"faults.path must have {nodes} hosts that were ever up, one a machine; "
                f"{self.path} has {len(ever)}"
            )
        hosts = Streams(self.seed)("faults.hosts").choice(ever, size=nodes, replace=False)
        span = round((trace.horizon - self.start) * _NS)
        time, machine, up = [], [], []
        for u, host in enumerate(hosts.tolist()):
            begin, end = (_nanoseconds(np.maximum(0.0, at - self.start)) for at in trace.intervals(host))
            inside = end > begin  # nobody is up for less than a nanosecond
            begin, end = begin[inside], end[inside]
            if not len(begin) or begin[0] > 0:
                time.append(0)
                machine.append(u)
                up.append(False)
            else:
                begin = begin[1:]
            # who is up when the trace ends stays up
            end = end[end < min(span, round(LATEST * _NS))]
            time += [*begin.tolist(), *end.tolist()]
            machine += [u] * (len(begin) + len(end))
            up += [True] * len(begin) + [False] * len(end)
        once = _in_order(time, machine, np.array(up, np.bool_))
        yield once
        if not self.repeat:
            return
        # The next round begins with the state that the first began with.
        down_at_first = np.zeros(nodes, np.bool_)
        down_at_first[once.machine[(once.time == 0) & ~once.up]] = True
        down_at_last = ~_state_after(once, nodes)
        change = np.flatnonzero(down_at_first != down_at_last)
        later = once.time > 0
        turn = _in_order(
            np.r_[np.zeros(len(change), np.int64), once.time[later]],
            np.r_[change, once.machine[later]],
            np.r_[~down_at_first[change], once.up[later]],
        )
        shift = span
        while len(turn) and shift < _END:
            yield Events(turn.time + shift, turn.machine, turn.up)
            shift += span


def _state_after(events: Events, nodes: int) -> NDArray[np.bool_]:
    """Which machines are up after `events`, all being up before."""
    up = np.ones(nodes, np.bool_)
    up[events.machine] = events.up  # the last assignment holds
    return up


class ListedFaults(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="list"
):
    """The failures themselves; the meaning of each field is told by `Faults.of`."""

    machine: tuple[int, ...]
    down: tuple[float, ...]
    up: tuple[float, ...]

    def __post_init__(self) -> None:
        columns = {
            name: sequence(f"faults.{name}", getattr(self, name)) for name in ("machine", "down", "up")
        }
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ScenarioError(f"faults.machine, .down and .up must be equally long, got {lengths}")
        machine = [whole(f"faults.machine[{i}]", u) for i, u in enumerate(columns["machine"])]
        down = [real(f"faults.down[{i}]", at, low=0, unit="s") for i, at in enumerate(columns["down"])]
        up = [
            real(f"faults.up[{i}]", at, low=down[i], unit="s", finite=False)
            for i, at in enumerate(columns["up"])
        ]
        last: dict[int, int] = {}  # by machine, the one before
        begin, end = (_nanoseconds(np.array(times, np.float64)) for times in (down, up))
        for i in sorted(range(len(machine)), key=lambda i: (machine[i], down[i])):
            if down[i] > LATEST:
                raise ScenarioError(f"faults.down[{i}] must be at most {LATEST:g} s, got {down[i]!r}")
            if LATEST < up[i] < math.inf:
                raise ScenarioError(f"faults.up[{i}] must be at most {LATEST:g} s, or inf, got {up[i]!r}")
            before = last.get(machine[i])
            if before is not None and begin[i] <= end[before]:
                raise ScenarioError(
                    f"faults.down[{i}] must be a nanosecond or more after machine {machine[i]} is up again, "
                    f"at {up[before]:g} s, got {down[i]:g}"
                )
            last[machine[i]] = i
        normalise(self, machine=tuple(machine), down=tuple(down), up=tuple(up))

    def events(self, nodes: int) -> Iterator[Events]:
        for i, u in enumerate(self.machine):
            if u >= nodes:
                raise ScenarioError(f"faults.machine[{i}] must be in 0..{nodes - 1}, got {u}")
        back = [i for i, at in enumerate(self.up) if math.isfinite(at)]
        yield _in_order(
            _nanoseconds(np.array([*self.down, *(self.up[i] for i in back)])),
            [*self.machine, *(self.machine[i] for i in back)],
            np.array([False] * len(self.machine) + [True] * len(back), np.bool_),
        )


FaultsRecipe = PoissonFaults | ExponentialFaults | WeibullFaults | TraceFaults | ListedFaults


# -- the model ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faults:
    """When machines fail and come back.  Two are equal when their recipes are.

    recipe : how it was made; use the constructors below.
    """

    recipe: FaultsRecipe

    @classmethod
    def poisson(cls, mean: float, seed: int) -> Faults:
        """Each machine is reset once in `mean` s on average (the fair tree paper: 14,400 s)."""
        return cls(PoissonFaults(mean=mean, seed=seed))

    @classmethod
    def exponential(cls, up: float, down: float, seed: int) -> Faults:
        """Up for `up` s, then down for `down` s, both exponential with these means."""
        return cls(ExponentialFaults(up=up, down=down, seed=seed))

    @classmethod
    def weibull(
        cls, up_shape: float, up_scale: float, down_shape: float, down_scale: float, seed: int
    ) -> Faults:
        """Weibull up and down times (scales in s)."""
        return cls(
            WeibullFaults(
                up_shape=up_shape, up_scale=up_scale, down_shape=down_shape, down_scale=down_scale, seed=seed
            )
        )

    @classmethod
    def trace(
        cls, path: str | os.PathLike[str], seed: int, start: float = 0.0, repeat: bool = True
    ) -> Faults:
        """The ups and downs of hosts of an availability trace (.avt or FTA tab format).

        Each machine is one host, drawn without replacement among those that were ever up.  Time 0 is `start`
        s into the trace.  When the trace ends it begins again at `start`, or, without `repeat`, everybody
        stays as he is.  Raises TraceFormatError for a bad trace, ScenarioError for one with too few hosts.
        """
        return cls(TraceFaults(path=text("faults.path", path), seed=seed, start=start, repeat=repeat))

    @classmethod
    def of(
        cls, machine: Iterable[int] | Integers, down: Iterable[float] | Floats, up: Iterable[float] | Floats
    ) -> Faults:
        """Exactly these: ``machine[i]`` fails at ``down[i]`` s and is back at ``up[i]`` s.

        Equal times are a reset; ``up = inf`` leaves for good; ``down = 0`` joins at ``up``.
        """
        columns = (sequence(f"faults.{n}", v) for n, v in (("machine", machine), ("down", down), ("up", up)))
        return cls(ListedFaults(**dict(zip(("machine", "down", "up"), map(tuple, columns), strict=True))))

    def events(self, nodes: int) -> Iterator[Events]:
        """Blocks of changes for `nodes` machines, in order; they may go on for as long as the clock."""
        return self.recipe.events(nodes)
