"""Data of charts: counts over time, and distributions of values, as columns.  Nothing here draws.

Times are s of the simulated clock.  A series is a step function: ``values[i]`` holds from ``times[i]`` until
``times[i + 1]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridsim.errors import ScenarioError
from gridsim.model.fault_events import display_limit
from gridsim.support.arrays import Floats
from gridsim.support.clock import NEVER, NS

if TYPE_CHECKING:
    from gridsim.results.result import Result

#: The quantities of `over_time`.
Quantity = Literal["active", "waiting", "busy"]
#: Values that differ by a larger factor are drawn on a logarithmic axis.
WIDE = 20.0


@dataclass(frozen=True)
class Steps:
    """A step function.

    Parameters
    ----------
    times
        float[k], s, ascending.
    values
        float[k], each holds from its time until the next.
    """

    times: Floats
    values: Floats

    def thinned(self, points: int) -> Steps:
        """Return the function reduced to at most `points` points; a chart of it looks the same.

        Of each interval of time the smallest and the largest value are kept.  Raises ValueError for fewer
        than 4 points.
        """
        if points < 4:
            raise ValueError(f"points must be at least 4, got {points}")
        if len(self.times) <= points:
            return self
        edges = np.linspace(self.times[0], self.times[-1], points // 2)
        first = np.unique(np.searchsorted(self.times, edges[:-1]))
        ends = np.append(first[1:], len(self.times))
        low, high = (fold.reduceat(self.values, first)[:, None] for fold in (np.minimum, np.maximum))
        # the smaller value comes first in an interval in which the function rises, else the larger one
        at = np.stack((self.times[first], self.times[(first + ends) // 2]), axis=1)
        rises = self.values[ends - 1] >= self.values[first]
        values = np.where(rises[:, None], np.hstack((low, high)), np.hstack((high, low)))
        return Steps(np.append(at.ravel(), self.times[-1]), np.append(values.ravel(), self.values[-1]))


def between(begin: ArrayLike, end: ArrayLike, weight: ArrayLike = 1.0) -> Steps:
    """Return how many of n things exist at each time; each exists from its `begin` until its `end`.

    Parameters
    ----------
    begin, end
        float[n], s; a thing with NaN in either is left out.
    weight
        float[n] or one number; how much each thing counts.
    """
    since, until = np.asarray(begin, np.float64), np.asarray(end, np.float64)
    counts = np.broadcast_to(np.asarray(weight, np.float64), since.shape)
    known = ~(np.isnan(since) | np.isnan(until))
    times = np.concatenate((since[known], until[known]))
    changes = np.concatenate((counts[known], -counts[known]))
    at, which = np.unique(times, return_inverse=True)
    return Steps(at, np.cumsum(np.bincount(which, changes, len(at))))


def over_time(result: Result, quantity: Quantity = "active") -> Steps:
    """Return a count over time, from the first release on.

    Rejected jobs are left out.  Raises ScenarioError for another quantity, and for ``"busy"`` without a
    recorded schedule.

    Parameters
    ----------
    quantity
        ``"active"``: applications or jobs that were released and not finished; ``"waiting"``: those of them
        of which nothing had started yet; ``"busy"``: machines that worked, for which the schedule must have
        been recorded.
    """
    if quantity not in (known := get_args(Quantity)):
        raise ScenarioError(f"quantity must be {', '.join(known[:-1])} or {known[-1]}, got {quantity!r}")
    table = result.applications
    if quantity == "busy":
        schedule = recorded_schedule(result, "machines that were busy")
        return between(schedule["start"], schedule["end"])
    return between(table["release"], table["finish" if quantity == "active" else "first_start"])


def per_application(result: Result, metric: str) -> Floats:
    """Return a value per application, float[applications]; NaN for rejected jobs.

    Raises ScenarioError for another name.

    Parameters
    ----------
    metric
        A column of numbers of ``applications``, or ``"response"``, which is finish - release (s).
    """
    table = result.applications
    if metric == "response":
        return np.asarray(table["finish"] - table["release"], np.float64)
    known = [name for name, column in table.items() if column.dtype.kind in "biuf"]
    if metric not in known:
        raise ScenarioError(f"metric must be response or one of {', '.join(known)}, got {metric!r}")
    return np.asarray(table[metric], np.float64)


def down_times(result: Result, until: float) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the failures up to `until` (s): the machine, when it went down and when it recovered (s).

    A transient failure lasts 0 s.  A machine that does not recover is down until infinity.  The arrays are
    empty without faults.  The failures are generated again from the scenario.  Raises whatever
    `Result.scenario` raises if that needs a file, and TooManyChanges if there are too many failures to
    generate.
    """
    faults, machines = result.scenario.faults, len(result.machines)
    machine, begin, end = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for block in () if faults is None else faults.course(machines, display_limit(machines)).blocks:
        some = ~block.up & (block.time <= until * NS)
        machine.append(block.machine[some])
        begin.append(block.time[some] / NS)
        end.append(np.where(block.until[some] == NEVER, np.inf, block.until[some] / NS))
        if len(block) and block.time[-1] > until * NS:
            break
    return np.concatenate(machine), np.concatenate(begin), np.concatenate(end)


def recorded_schedule(result: Result, what: str) -> dict[str, NDArray[np.generic]]:
    """Return the columns of the table ``schedule``.

    Raises ScenarioError, which says that `what` needs the schedule, if it was not recorded.
    """
    if "schedule" not in result.tables:
        raise ScenarioError(f"{what} must be from a recorded run: simulate(..., record=True), run --record")
    return dict(result.tables["schedule"].items())


def distribution(values: ArrayLike, points: int = 1000) -> tuple[Floats, Floats]:
    """Return the empirical distribution: distinct values in order, and the share of values at most as large.

    Parameters
    ----------
    values
        float[n]; NaN (of rejected jobs) is left out, but shares are of all n, so that they end below 1.
    points
        The largest number of distinct values that are returned.
    """
    given = np.asarray(values, np.float64)
    ordered, counts = np.unique(given[~np.isnan(given)], return_counts=True)
    share = np.cumsum(counts) / max(1, len(given))
    if len(ordered) <= points:
        return ordered, share
    which = np.unique(np.linspace(0, len(ordered) - 1, points).astype(np.int64))
    return ordered[which], share[which]


def scattered(x: ArrayLike, y: ArrayLike, points: int = 2000) -> tuple[Floats, Floats]:
    """Return the points of a scatter plot in the order of `x`, thinned if they are more than `points`.

    Thinning keeps the lowest and the highest point of each range of ranks of `x`, so no extreme is lost.

    Parameters
    ----------
    x, y
        float[n]; a point with NaN in either is left out.
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
    """Whether values are all above 0 and differ by more than a factor of `WIDE`: use a logarithmic axis."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return bool(len(known) and known.min() > 0 and float(known.max()) > WIDE * float(known.min()))


def chosen_machines(machines: Sequence[int] | slice | None, count: int) -> NDArray[np.int64]:
    """Return the numbers of the chosen machines, out of `count`.

    Parameters
    ----------
    machines
        A slice, or different numbers; None for all.

    Raises
    ------
    ScenarioError
        If no machine is chosen, or one that does not exist.
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
    """Return the place of each machine among the `chosen` ones, int64[machines]; -1 if it is not chosen."""
    place = np.full(machines, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    return place


def occupancy(
    result: Result, rows: int, columns: int, machines: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return how busy machines were over time, as a raster: for schedules with too many pieces to draw.

    Returns the edges of the rows (machine numbers, float[r + 1]; r <= `rows`), the edges of the columns (s,
    float[c + 1]) and float[r, c], the share of the time of a column in which the machines of a row worked.

    Raises ScenarioError without a recorded schedule, and for fewer than one row or column.

    Parameters
    ----------
    machines
        int[m], distinct: only these, in this order; the edges of rows are places in it then.
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
    # The time worked up to an edge grows by 1 s per s from each start on, and stops growing at the end.
    # Summing both over cells is exact, however many cells a piece crosses.
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
