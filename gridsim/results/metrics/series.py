"""Data of charts: counts over time, and distributions of values, as arrays.

Times are in s of the simulated clock.  A series is a step function: ``values[i]`` holds from ``times[i]``
until ``times[i + 1]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridsim.errors import ScenarioError
from gridsim.model.fault_events import display_limit
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS

if TYPE_CHECKING:
    from gridsim.results.result import Result

#: The quantities of `over_time`.
Quantity = Literal["active", "waiting", "busy"]
#: If the ratio of the largest to the smallest value exceeds this, the axis is logarithmic.
MAX_LINEAR_RATIO = 20.0


@dataclass(frozen=True)
class StepFunction:
    """A step function.

    Parameters
    ----------
    times
        float[k], s, ascending.
    values
        float[k]; each value holds from its time until the next.
    """

    times: Floats
    values: Floats

    def downsample(self, points: int) -> StepFunction:
        """Return the function with at most `points` points, which looks the same in a chart.

        The smallest and the largest value in each interval of time are kept.

        Raises
        ------
        ValueError
            If `points` is less than 4.
        """
        if points < 4:
            raise ValueError(f"points must be at least 4, got {points}")
        if len(self.times) <= points:
            return self
        edges = np.linspace(self.times[0], self.times[-1], points // 2)
        starts = np.unique(np.searchsorted(self.times, edges[:-1]))
        ends = np.append(starts[1:], len(self.times))
        minima, maxima = (fold.reduceat(self.values, starts)[:, None] for fold in (np.minimum, np.maximum))
        # in an interval in which the function rises, the minimum comes first
        times = np.stack((self.times[starts], self.times[(starts + ends) // 2]), axis=1)
        is_rising = self.values[ends - 1] >= self.values[starts]
        values = np.where(is_rising[:, None], np.hstack((minima, maxima)), np.hstack((maxima, minima)))
        return StepFunction(
            np.append(times.ravel(), self.times[-1]), np.append(values.ravel(), self.values[-1])
        )


def active_count(begin: ArrayLike, end: ArrayLike, weight: ArrayLike = 1.0) -> StepFunction:
    """Return the number of objects that exist at each time, each from its `begin` until its `end`.

    Parameters
    ----------
    begin, end
        float[n], s; an object with NaN in either is left out.
    weight
        float[n] or one number, the weight of each object in the count.
    """
    begins, ends = np.asarray(begin, np.float64), np.asarray(end, np.float64)
    counts = np.broadcast_to(np.asarray(weight, np.float64), begins.shape)
    is_known = ~(np.isnan(begins) | np.isnan(ends))
    times = np.concatenate((begins[is_known], ends[is_known]))
    changes = np.concatenate((counts[is_known], -counts[is_known]))
    times_of_change, index = np.unique(times, return_inverse=True)
    return StepFunction(times_of_change, np.cumsum(np.bincount(index, changes, len(times_of_change))))


def over_time(result: Result, quantity: Quantity = "active") -> StepFunction:
    """Return a count over time, from the first release on; rejected jobs are left out.

    Parameters
    ----------
    quantity
        ``"active"``: applications or jobs that are released and not finished; ``"waiting"``: those of them
        that have not started; ``"busy"``: busy machines, which requires a recorded schedule.

    Raises
    ------
    ScenarioError
        If there is no such quantity, or if it is ``"busy"`` and the schedule was not recorded.
    """
    if quantity not in (known := get_args(Quantity)):
        raise ScenarioError(f"quantity must be {', '.join(known[:-1])} or {known[-1]}, got {quantity!r}")
    table = result.applications
    if quantity == "busy":
        schedule = recorded_schedule(result, "the number of busy machines")
        return active_count(schedule["start"], schedule["end"])
    return active_count(table["release"], table["finish" if quantity == "active" else "first_start"])


def per_application(result: Result, metric: str) -> Floats:
    """Return a value per application, float[applications]; NaN for rejected jobs.

    Parameters
    ----------
    metric
        A column of numbers of ``applications``, or ``"response"``, which is finish - release (s).

    Raises
    ------
    ScenarioError
        If there is no such column.
    """
    table = result.applications
    if metric == "response":
        return np.asarray(table["finish"] - table["release"], np.float64)
    known = [name for name, column in table.items() if column.dtype.kind in "biuf"]
    if metric not in known:
        raise ScenarioError(f"metric must be response or one of {', '.join(known)}, got {metric!r}")
    return np.asarray(table[metric], np.float64)


def down_times(result: Result, until: float) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the failures up to `until` (s): the machine, its failure time and its recovery time (s).

    A transient failure lasts 0 s.  The recovery time is infinite if the machine does not recover.  The arrays
    are empty without faults.  The failures are generated again from the scenario.

    Raises
    ------
    TooManyChanges
        If there are too many failures to generate.
    GridSimError
        If `Result.scenario` raises it.
    """
    faults, machines = result.scenario.faults, len(result.machines)
    machine, begin, end = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for block in () if faults is None else faults.course(machines, display_limit(machines)).blocks:
        is_included = ~block.up & (block.time <= until * NS)
        machine.append(block.machine[is_included])
        begin.append(block.time[is_included] / NS)
        end.append(np.where(block.until[is_included] == NEVER, np.inf, block.until[is_included] / NS))
        if len(block) and block.time[-1] > until * NS:
            break
    return np.concatenate(machine), np.concatenate(begin), np.concatenate(end)


def recorded_schedule(result: Result, subject: str) -> dict[str, NDArray[np.generic]]:
    """Return the columns of the table ``schedule``.

    Raises
    ------
    ScenarioError
        If the schedule was not recorded; the error states that `subject` requires it.
    """
    if "schedule" not in result.tables:
        raise ScenarioError(
            f"{subject} requires a recorded run: use simulate(..., record=True) or run --record"
        )
    return dict(result.tables["schedule"].items())


def traffic_by_level(result: Result, unit: str) -> dict[str, Floats]:
    """Return the messages sent by the nodes of each level of the tree: kind of message -> float[levels].

    Parameters
    ----------
    unit
        A column of the table ``traffic``: ``"bytes"`` or ``"messages"``.
    """
    table = result.tables["traffic"]
    level, kind, levels = table["level"], table["kind"], int(table["level"].max(initial=-1)) + 1
    return {
        name: np.bincount(level[kind == name], table[unit][kind == name], levels).astype(np.float64)
        for name in dict.fromkeys(kind.tolist())
    }


def distribution(values: ArrayLike, points: int = 1000) -> tuple[Floats, Floats]:
    """Return the empirical distribution: distinct values in order, and the share of values at most as large.

    Parameters
    ----------
    values
        float[n]; NaN (of rejected jobs) is left out, but the shares are of all n values, and so end below 1.
    points
        Maximum number of distinct values that are returned.
    """
    sample = np.asarray(values, np.float64)
    ordered, counts = np.unique(sample[~np.isnan(sample)], return_counts=True)
    share = np.cumsum(counts) / max(1, len(sample))
    if len(ordered) <= points:
        return ordered, share
    kept_indices = np.unique(np.linspace(0, len(ordered) - 1, points).astype(np.int64))
    return ordered[kept_indices], share[kept_indices]


def scatter_points(x: ArrayLike, y: ArrayLike, points: int = 2000) -> tuple[Floats, Floats]:
    """Return the points of a scatter plot in the order of `x`, reduced to about `points` points.

    The lowest and the highest point in each range of ranks of `x` are kept, so that no extreme is lost.

    Parameters
    ----------
    x, y
        float[n]; a point with NaN in either is left out.
    """
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    order = np.argsort(xs, kind="stable")
    order = order[~(np.isnan(xs) | np.isnan(ys))[order]]
    if len(order) <= points:
        return xs[order], ys[order]
    edges = np.linspace(0, len(order), max(1, points // 2) + 1).astype(np.int64)
    ranges = (ys[order[low:high]] for low, high in zip(edges[:-1], edges[1:], strict=True))
    extremes = ((int(part.argmin()), int(part.argmax())) for part in ranges)
    kept_indices = np.unique(np.array(list(extremes)) + edges[:-1, None])
    return xs[order[kept_indices]], ys[order[kept_indices]]


def is_wide(values: ArrayLike, max_ratio: float = MAX_LINEAR_RATIO) -> bool:
    """Return whether values require a logarithmic axis: all are > 0, and max / min > `max_ratio`."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    return bool(len(finite) and finite.min() > 0 and float(finite.max()) > max_ratio * float(finite.min()))


def chosen_machines(machines: Sequence[int] | slice | None, count: int) -> NDArray[np.int64]:
    """Return the numbers of the chosen machines out of `count`.

    Parameters
    ----------
    machines
        A slice, or distinct numbers; None for all machines.

    Raises
    ------
    ScenarioError
        If no machine is chosen, or one does not exist.
    """
    if machines is None or isinstance(machines, slice):
        numbers = np.arange(count)[slice(None) if machines is None else machines]
    else:
        array = np.asarray(machines[: count + 1] if isinstance(machines, range) else machines)
        is_valid = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
        if not is_valid or ((array < 0) | (array >= count)).any() or len(np.unique(array)) < len(array):
            raise ScenarioError(
                f"machines must be a slice, or distinct numbers in 0..{count - 1}, got {machines!r}"
            )
        numbers = array.astype(np.int64)
    if not len(numbers):
        raise ScenarioError(f"machines must select at least one of {count} machines, got {machines!r}")
    return numbers


def positions_in(subset: NDArray[np.int64], machines: int) -> NDArray[np.int64]:
    """Return the position of each machine in `subset`, int64[machines]; -1 for machines outside it."""
    place = np.full(machines, -1, np.int64)
    place[subset] = np.arange(len(subset))
    return place


def machine_cores(result: Result) -> Integers:
    """Return the number of cores of each machine: int64[machines]."""
    cores = result.machines["cores"] if "cores" in result.machines else np.ones(len(result.machines))
    return np.asarray(cores, np.int64)


def cores_used(result: Result, schedule: Mapping[str, NDArray[Any]]) -> Integers:
    """Return the number of cores of its machine that each row of a schedule uses: int64[rows]."""
    if not result.rigid:  # the tasks of a row run one after the other
        return np.ones(len(schedule["start"]), np.int64)
    task_cores = result.width // result.applications["tasks"]
    used: Integers = schedule["tasks"] * task_cores[schedule["application"]]
    return used


def core_lanes(result: Result, schedule: Mapping[str, NDArray[Any]]) -> tuple[Integers, Integers, Integers]:
    """Return the cores of its machine on which each row of a schedule is drawn: adjacent ones if possible.

    If the schedule does not state the core, a row gets the lowest cores that are free.

    Returns
    -------
    row, first, count
        int64[k] each, for each part of a row on adjacent cores: the row, its first core, and its number of
        cores; ordered by row.
    """
    rows = len(schedule["start"])
    used = cores_used(result, schedule)
    if "core" in schedule or "cores" not in result.machines:
        first = np.asarray(schedule.get("core", np.zeros(rows)), np.int64)
        return np.arange(rows), first, np.ones(rows, np.int64)
    cores = result.machines["cores"]
    free_from: dict[int, list[float]] = {}
    parts: list[tuple[int, int, int]] = []
    columns = (schedule[name].tolist() for name in ("machine", "start", "end"))
    pieces = list(zip(*columns, used.tolist(), strict=True))
    for k in np.lexsort((schedule["end"], schedule["start"])).tolist():
        machine, start, end, width = pieces[k]
        ends = free_from.setdefault(machine, [-np.inf] * int(cores[machine]))
        width = min(width, len(ends))
        free = [core for core, until in enumerate(ends) if until <= start]
        if len(free) < width:  # the clocks of an emulation are not exact
            free = sorted(sorted(range(len(ends)), key=ends.__getitem__)[:width])
        runs = (n for n in range(len(free) - width + 1) if free[n + width - 1] - free[n] == width - 1)
        chosen = free[(n := next(runs, 0)) : n + width]
        for core in chosen:
            ends[core] = end
        begins = [core for n, core in enumerate(chosen) if not n or core > chosen[n - 1] + 1]
        for core, following in zip(begins, [*begins[1:], len(ends)], strict=True):
            parts.append((k, core, sum(core <= other < following for other in chosen)))
    row, first, count = np.array(sorted(parts), np.int64).reshape(-1, 3).T
    return row, first, count


def occupancy(
    result: Result, rows: int, columns: int, machines: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return a raster of the utilization of machines over time, for schedules with too many pieces to draw.

    Parameters
    ----------
    rows, columns
        Maximum number of rows (of machines), and number of columns (of time).
    machines
        int[m], distinct: only these machines, in this order; the edges of rows are then positions in it.

    Returns
    -------
    tuple
        The edges of the r rows (machine numbers, float[r + 1]), the edges of the c columns (s, float[c + 1]),
        and the share of the time of a column in which the machines of a row worked, float[r, c].

    Raises
    ------
    ScenarioError
        If the schedule was not recorded, or there is less than one row or column.
    """
    for name, count in (("rows", rows), ("columns", columns)):
        if count < 1:
            raise ScenarioError(f"{name} must be at least 1, got {count}")
    schedule = recorded_schedule(result, "a chart of the schedule")
    machine_order = np.arange(len(result.machines)) if machines is None else np.asarray(machines, np.int64)
    place_of = positions_in(machine_order, len(result.machines))
    place = place_of[schedule["machine"]]
    is_selected = place >= 0
    start = np.asarray(schedule["start"], np.float64)[is_selected]
    end = np.asarray(schedule["end"], np.float64)[is_selected]
    rows = min(rows, len(machine_order))
    row_edges = np.floor(np.arange(rows + 1) * (len(machine_order) / rows))
    row = np.searchsorted(row_edges, place[is_selected], side="right") - 1
    first, last = (float(start.min()), float(end.max())) if len(start) else (0.0, 1.0)
    edges = np.linspace(first, max(last, first + 1e-9), columns + 1)
    width = edges[1] - edges[0]
    # Each piece adds 1 s of work per s from its start on, and subtracts it from its end on.  The sum over
    # starts and ends is exact, and needs no loop over the cells of a piece.
    time_worked = np.zeros((rows, columns + 1))
    cores = machine_cores(result)
    used = cores_used(result, schedule)[is_selected]
    for times, sign in ((start, used), (end, -used)):
        cell = np.minimum(((times - first) / width).astype(np.int64), columns - 1)
        remainder = edges[cell + 1] - times
        flat = row * (columns + 1) + cell
        size = rows * (columns + 1)
        within_cell = np.bincount(flat, sign * remainder, size).reshape(time_worked.shape)
        later = np.bincount(flat, sign * width, size).reshape(time_worked.shape)
        time_worked[:, :columns] += within_cell[:, :columns]
        time_worked[:, 1:] += np.cumsum(later, axis=1)[:, :-1]
    row_cores = np.add.reduceat(cores[machine_order], row_edges[:-1].astype(np.int64))
    share = time_worked[:, :columns] / (width * row_cores[:, None])
    return row_edges, edges, np.clip(share, 0.0, 1.0)
