"""What checks of schedules have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, one_line
from gridsim.support.arrays import Floats, Integers

#: Times are multiples of 1 ns, as floats: two that are equal are at most this far apart, relatively.
ROUNDING = 4 * float(np.finfo(np.float64).eps)
NS = 1e-9
#: What is more than a row each is gone through up to so many steps.
MOST_STEPS = 50_000_000


def close(a: NDArray[Any], b: NDArray[Any], slack: Any = NS) -> NDArray[np.bool_]:
    """Whether times (s) are the same, up to `slack` s and what floats lose."""
    near: NDArray[np.bool_] = np.abs(a - b) <= slack + ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return near


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold.

    law : name of the invariant.  count : how often it is broken.  where, message : the first place, and
        what is wrong.
    """

    law: str
    count: int
    where: str
    message: str

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return one_line(f"{self.law}: {self.where}: {self.message}{more}")  # labels are those of a file


def broken(law: str, bad: Any, where: Callable[[int], str], say: Callable[[int], str]) -> list[Violation]:
    """The violation of `law` at the indices at which `bad` is true; none if it never is."""
    found = np.flatnonzero(bad)
    return [Violation(law, len(found), where(int(i)), say(int(i))) for i in found[:1]]


def few(steps: float, what: str, of: str, error: type[GridSimError] = ScenarioError) -> None:
    """Raises `error` where `what` makes more than `MOST_STEPS` `of` something."""
    if steps > MOST_STEPS:
        raise error(f"{what} makes {steps:g} {of}, at most {MOST_STEPS} are gone through")


def column(name: str) -> Callable[[int], str]:
    """Where row k of a column is."""
    return lambda k: f"{name}[{k}]"


def differs(
    law: str, where: Callable[[int], str], bad: Any, have: Any, want: Any, source: str, what: str = ""
) -> list[Violation]:
    """`broken` where `have` is not `want`, which it must be by `source`."""

    def say(k: int) -> str:
        return f"{what} is {have[k].item()!r}, {source} {want[k].item()!r}".lstrip()

    return broken(law, bad, where, say)


def overlaps(resource: Integers, start: Floats, end: Floats) -> tuple[Integers, Integers]:
    """Pairs of rows (earlier, later) on one resource, the later of which starts before the earlier has ended.

    Each later row is in one pair, with the row that ends last among those that start before it.
    """
    order = np.lexsort((end, start, resource))
    u, begin, stop = resource[order], start[order], end[order]
    position, first = np.arange(len(order)), np.diff(u, prepend=u[:1] - 1) != 0
    # ends as ranks, one resource above the other: their running maximum is that of each resource
    rank = np.unique(stop, return_inverse=True)[1].ravel() + np.cumsum(first) * len(order)
    later = np.diff(np.maximum.accumulate(rank), prepend=-1) > 0
    latest = np.maximum.accumulate(np.where(later, position, 0))
    before = np.append(0, latest)[: len(order)]
    both = np.flatnonzero(~first & (begin < stop[before]))
    return order[before[both]], order[both]


def over_capacity(start: Floats, end: Floats, amount: Integers, capacity: int) -> tuple[float, int] | None:
    """The first instant at which more than `capacity` is in use, and how much; None if there is none."""
    time = np.concatenate((start, end))
    change = np.concatenate((amount, -amount))
    order = np.lexsort((change, time))  # what ends at an instant is free for what starts at it
    used = np.cumsum(change[order])
    # only the last change of an instant counts
    last = np.r_[time[order][1:] != time[order][:-1], True] if len(time) else np.zeros(0, bool)
    over = np.flatnonzero(last & (used > capacity))
    return (float(time[order][over[0]]), int(used[over[0]])) if len(over) else None
