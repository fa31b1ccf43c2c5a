"""Helpers that the checks of schedules share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, one_line
from gridsim.support.arrays import Floats, Integers

#: Times are multiples of 1 ns, stored as floats (s): equal times differ by at most this much, relatively.
ROUNDING = 4 * float(np.finfo(np.float64).eps)
NS = 1e-9
#: The most steps of a check that may need more than one step for each row.
MOST_STEPS = 50_000_000


def emulated(result: Any) -> bool:
    """Return whether a result was made in real time, where nothing happens at its very instant."""
    return "emulation" in result.provenance


def close(a: NDArray[Any], b: NDArray[Any], slack: Any = NS) -> NDArray[np.bool_]:
    """Return where times (s) are equal, up to `slack` s and the rounding of floats."""
    near: NDArray[np.bool_] = np.abs(a - b) <= slack + ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return near


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold.

    Parameters
    ----------
    law
        Name of the invariant.
    count
        How often it is broken.
    where, message
        The first place where it is broken, and what is wrong there.
    """

    law: str
    count: int
    where: str
    message: str

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return one_line(f"{self.law}: {self.where}: {self.message}{more}")  # labels are those of a file


def broken(law: str, bad: Any, where: Callable[[int], str], say: Callable[[int], str]) -> list[Violation]:
    """Return the violation of `law` at the indices where `bad` is true; empty if it is true nowhere."""
    found = np.flatnonzero(bad)
    return [Violation(law, len(found), where(int(i)), say(int(i))) for i in found[:1]]


def few(steps: float, what: str, of: str, error: type[GridSimError] = ScenarioError) -> None:
    """Raise `error` if `what` makes more than `MOST_STEPS` steps; `of` says what these are."""
    if steps > MOST_STEPS:
        raise error(f"{what} makes {steps:g} {of}, at most {MOST_STEPS} are gone through")


def column(name: str) -> Callable[[int], str]:
    """Return a function that names the place of row k of the column `name`."""
    return lambda k: f"{name}[{k}]"


def differs(
    law: str, where: Callable[[int], str], bad: Any, have: Any, want: Any, source: str, what: str = ""
) -> list[Violation]:
    """Return the violation of `law` at the indices where `bad` is true, as `broken` does.

    Parameters
    ----------
    have, want
        The values found, and the values that they should have.
    source
        What requires these.
    what
        The name of the value, if `where` does not have it.
    """

    def say(k: int) -> str:
        return f"{what} is {have[k].item()!r}, {source} {want[k].item()!r}".lstrip()

    return broken(law, bad, where, say)


def overlaps(resource: Integers, start: Floats, end: Floats) -> tuple[Integers, Integers]:
    """Return pairs of rows (earlier, later) on one resource where the later starts before the earlier ends.

    Each later row is in one pair, with the row that ends last among those that start before it.
    """
    order = np.lexsort((end, start, resource))
    u, begin, stop = resource[order], start[order], end[order]
    position, first = np.arange(len(order)), np.diff(u, prepend=u[:1] - 1) != 0
    # Ends as ranks, which are higher for each next resource: one running maximum then serves all resources.
    rank = np.unique(stop, return_inverse=True)[1].ravel() + np.cumsum(first) * len(order)
    later = np.diff(np.maximum.accumulate(rank), prepend=-1) > 0
    latest = np.maximum.accumulate(np.where(later, position, 0))
    before = np.append(0, latest)[: len(order)]
    both = np.flatnonzero(~first & (begin < stop[before]))
    return order[before[both]], order[both]


def over_capacity(start: Floats, end: Floats, amount: Integers, capacity: int) -> tuple[float, int] | None:
    """Return the first instant when more than `capacity` is in use, and the amount; None if there is none."""
    time = np.concatenate((start, end))
    change = np.concatenate((amount, -amount))
    order = np.lexsort((change, time))  # ends come before starts at the same instant
    used = np.cumsum(change[order])
    # only the last change of an instant counts
    last = np.r_[time[order][1:] != time[order][:-1], True] if len(time) else np.zeros(0, bool)
    over = np.flatnonzero(last & (used > capacity))
    return (float(time[order][over[0]]), int(used[over[0]])) if len(over) else None
