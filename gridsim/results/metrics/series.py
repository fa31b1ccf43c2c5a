"""What happened over time, and how values are distributed: columns that charts draw, of any length.

Times are s of the simulated clock.  A series is a step function: ``values[i]`` holds from ``times[i]`` until
``times[i + 1]``.  Nothing here draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridsim.errors import ScenarioError
from gridsim.model.fault_events import looking
from gridsim.support.arrays import Floats
from gridsim.support.clock import NEVER, NS

if TYPE_CHECKING:
    from gridsim.results.result import Result

#: What there is over time; see `over_time`.
Quantity = Literal["active", "waiting", "busy"]
#: Values that differ by a larger factor are drawn on a logarithmic axis.
WIDE = 20.0


@dataclass(frozen=True)
class Steps:
    """A step function.

    times : float[k], s, ascending.  values : float[k], from each of these times on.
    """

    times: Floats
    values: Floats

    def thinned(self, points: int) -> Steps:
        """The same in at most `points` points, of each stretch of time the least and the largest value.

        What is drawn of it looks the same.  Raises ValueError for fewer than 4 points.
        """
        if points < 4:
            raise ValueError(f"points must be at least 4, got {points}")
        if len(self.times) <= points:
            return self
        edges = np.linspace(self.times[0], self.times[-1], points // 2)
        first = np.unique(np.searchsorted(self.times, edges[:-1]))
        ends = np.append(first[1:], len(self.times))
        low, high = (fold.reduceat(self.values, first)[:, None] for fold in (np.minimum, np.maximum))
        # what comes first in a stretch is drawn first
        at = np.stack((self.times[first], self.times[(first + ends) // 2]), axis=1)
        rises = self.values[ends - 1] >= self.values[first]
        values = np.where(rises[:, None], np.hstack((low, high)), np.hstack((high, low)))
        return Steps(np.append(at.ravel(), self.times[-1]), np.append(values.ravel(), self.values[-1]))


def between(begin: ArrayLike, end: ArrayLike, weight: ArrayLike = 1.0) -> Steps:
    """How many there are at each time, each from its `begin` until its `end`.

    begin, end : float[n], s; where either is NaN there is none of it.  weight : what each counts, float[n] or
        one number.
    """
    since, until = np.asarray(begin, np.float64), np.asarray(end, np.float64)
    counts = np.broadcast_to(np.asarray(weight, np.float64), since.shape)
    known = ~(np.isnan(since) | np.isnan(until))
    times = np.concatenate((since[known], until[known]))
    changes = np.concatenate((counts[known], -counts[known]))
    at, which = np.unique(times, return_inverse=True)
    return Steps(at, np.cumsum(np.bincount(which, changes, len(at))))


def over_time(result: Result, quantity: Quantity = "active") -> Steps:
    """How many there were of something, from the first release on.

    quantity : ``"active"``: applications or jobs that were released and not finished; ``"waiting"``: of these
        the ones of which nothing had started yet; ``"busy"``: machines that worked, for which the schedule
        must have been recorded.

    Jobs that were rejected are left out.  Raises ScenarioError for another quantity, or without a schedule.
    """
    if quantity not in (known := get_args(Quantity)):
        raise ScenarioError(f"quantity must be {', '.join(known[:-1])} or {known[-1]}, got {quantity!r}")
    table = result.applications
    if quantity == "busy":
        schedule = recorded_schedule(result, "machines that were busy")
        return between(schedule["start"], schedule["end"])
    return between(table["release"], table["finish" if quantity == "active" else "first_start"])


def per_application(result: Result, metric: str) -> Floats:
    """A column of numbers of ``applications``, or ``"response"``, finish - release (s): float[applications].

    NaN for jobs that were rejected.  Raises ScenarioError for another name.
    """
    table = result.applications
    if metric == "response":
        return np.asarray(table["finish"] - table["release"], np.float64)
    known = [name for name, column in table.items() if column.dtype.kind in "biuf"]
    if metric not in known:
        raise ScenarioError(f"metric must be response or one of {', '.join(known)}, got {metric!r}")
    return np.asarray(table[metric], np.float64)


def down_times(result: Result, until: float) -> tuple[NDArray[np.int64], Floats, Floats]:
    """When machines were down, of those that fail by `until` (s): machine, from when, and until when (s).

    A reset lasts 0 s; who does not come back is down until infinity.  Empty without faults.  It is made
    again from the scenario, and raises what `Result.scenario` raises where that needs a file, TooOften where
    nobody who looks at a result waits for so many.
    """
    faults, machines = result.scenario.faults, len(result.machines)
    machine, begin, end = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for block in () if faults is None else faults.course(machines, looking(machines)).blocks:
        some = ~block.up & (block.time <= until * NS)
        machine.append(block.machine[some])
        begin.append(block.time[some] / NS)
        end.append(np.where(block.until[some] == NEVER, np.inf, block.until[some] / NS))
        if len(block) and block.time[-1] > until * NS:
            break
    return np.concatenate(machine), np.concatenate(begin), np.concatenate(end)


def recorded_schedule(result: Result, what: str) -> dict[str, NDArray[np.generic]]:
    """The columns of the table ``schedule``; ScenarioError without one, which says that `what` needs it."""
    if "schedule" not in result.tables:
        raise ScenarioError(f"{what} must be from a recorded run: simulate(..., record=True), run --record")
    return dict(result.tables["schedule"].items())


def distribution(values: ArrayLike, points: int = 1000) -> tuple[Floats, Floats]:
    """The distinct values in order, and the share of all that is at most as large; at most `points` of them.

    values : float[n]; NaN (of jobs that were rejected) is left out: shares are of all n, and end below 1.
    """
    given = np.asarray(values, np.float64)
    ordered, counts = np.unique(given[~np.isnan(given)], return_counts=True)
    share = np.cumsum(counts) / max(1, len(given))
    if len(ordered) <= points:
        return ordered, share
    which = np.unique(np.linspace(0, len(ordered) - 1, points).astype(np.int64))
    return ordered[which], share[which]


def scattered(x: ArrayLike, y: ArrayLike, points: int = 2000) -> tuple[Floats, Floats]:
    """Points in the order of `x`; of more than `points` the lowest and the highest of each range of ranks.

    x, y : float[n]; where either is NaN there is no point.  What is lowest and highest anywhere is there.
    """
    across, up = np.asarray(x, np.float64), np.asarray(y, np.float64)
    order = np.argsort(across, kind="stable")
    order = order[~(np.isnan(across) | np.isnan(up))[order]]
    if len(order) <= points:
        return across[order], up[order]
    rims = np.linspace(0, len(order), max(1, points // 2) + 1).astype(np.int64)
    parts = (up[order[low:high]] for low, high in zip(rims[:-1], rims[1:], strict=True))
    ends = ((int(part.argmin()), int(part.argmax())) for part in parts)
    which = np.unique(np.array(list(ends)) + rims[:-1, None])
    return across[order[which]], up[order[which]]


def wide(values: ArrayLike) -> bool:
    """Whether values, all above 0, differ by so large a factor that they want a logarithmic axis."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return bool(len(known) and known.min() > 0 and float(known.max()) > WIDE * float(known.min()))


def chosen_machines(machines: Sequence[int] | slice | None, count: int) -> NDArray[np.int64]:
    """The numbers of the `machines` that are meant, of `count`: a slice, or different ones; None for all.

    Raises ScenarioError for none, or for machines that there are not.
    """
    if machines is None or isinstance(machines, slice):
        chosen = np.arange(count)[slice(None) if machines is None else machines]
    else:
        given = np.asarray(machines[: count + 1] if isinstance(machines, range) else machines)
        sound = given.ndim == 1 and (given.dtype.kind in "iu" or not given.size)
        if not sound or ((given < 0) | (given >= count)).any() or len(np.unique(given)) < len(given):
            raise ScenarioError(
                f"machines must be a slice, or different numbers in 0..{count - 1}, got {machines!r}"
            )
        chosen = given.astype(np.int64)
    if not len(chosen):
        raise ScenarioError(f"machines must leave some of {count} in, got {machines!r}")
    return chosen


def places_of(chosen: NDArray[np.int64], machines: int) -> NDArray[np.int64]:
    """Which place each machine has among the `chosen` ones; -1 for none: int64[machines]."""
    place = np.full(machines, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    return place


def occupancy(
    result: Result, rows: int, columns: int, machines: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """How busy machines were over time, as a raster: for a schedule with more pieces than can be drawn.

    machines : int[m], distinct: only these, in this order, and the rows' edges are places in it.

    Returns the edges of the rows (machine numbers, float[r + 1]; r <= `rows`), the edges of the columns (s,
    float[c + 1]) and float[r, c]: the share of the time in that column in which machines of that row worked.

    Raises ScenarioError without a recorded schedule, or for fewer than one row or column.
    """
    for name, count in (("rows", rows), ("columns", columns)):
        if count < 1:
            raise ScenarioError(f"{name} must be at least 1, got {count}")
    schedule = recorded_schedule(result, "pictures of the schedule")
    chosen = np.arange(len(result.machines)) if machines is None else np.asarray(machines, np.int64)
    place = places_of(chosen, len(result.machines))[schedule["machine"]]
    drawn = place >= 0
    start = np.asarray(schedule["start"], np.float64)[drawn]
    end = np.asarray(schedule["end"], np.float64)[drawn]
    rows = min(rows, len(chosen))
    rims = np.floor(np.arange(rows + 1) * (len(chosen) / rows))
    row = np.searchsorted(rims, place[drawn], side="right") - 1
    first, last = (float(start.min()), float(end.max())) if len(start) else (0.0, 1.0)
    edges = np.linspace(first, max(last, first + 1e-9), columns + 1)
    width = edges[1] - edges[0]
    # The time worked before an edge grows by 1 from a start on, and stops at an end: sums of both, cell by
    # cell, are exact, however many cells a piece crosses.
    done = np.zeros((rows, columns + 1))
    for times, sign in ((start, 1.0), (end, -1.0)):
        cell = np.minimum(((times - first) / width).astype(np.int64), columns - 1)
        rest = edges[cell + 1] - times
        flat = row * (columns + 1) + cell
        size = rows * (columns + 1)
        inside = np.bincount(flat, sign * rest, size).reshape(done.shape)
        onward = np.bincount(flat, np.full(len(flat), sign * width), size).reshape(done.shape)
        done[:, :columns] += inside[:, :columns]
        done[:, 1:] += np.cumsum(onward, axis=1)[:, :-1]
    share = done[:, :columns] / (width * np.diff(rims)[:, None])
    return rims, edges, np.clip(share, 0.0, 1.0)
