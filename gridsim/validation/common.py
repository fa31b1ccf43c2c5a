"""Common helpers of the checks of schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, one_line
from gridsim.results.schema import TABLES
from gridsim.support.arrays import Floats, Integers

#: Relative tolerance of equal times, which are multiples of 1 ns stored as floats (s).
ROUNDING = 4 * float(np.finfo(np.float64).eps)
#: A nanosecond, s.
NS = 1e-9
#: Maximum number of steps of a check that may need several steps per row.
MAX_STEPS = 50_000_000


def is_emulated(result: Any) -> bool:
    """Return whether a result comes from an emulation, in which real delays make events late."""
    return "emulation" in result.provenance


def is_declared(result: Any, table: str) -> bool:
    """Return whether a result has a table with the columns that `gridsim.results.schema` declares for it.

    A scheduler outside gridsim may use the same name for a table with other columns and another meaning.
    """
    return table in result.tables and all(name in result.tables[table] for name in TABLES[table])


def queue_numbers(result: Any, table: str) -> Integers:
    """Return the task queue of each row of ``schedule`` or ``arrivals``.

    It is the number of the machine or, if each core has a queue, of the core, counted over all machines.
    """
    machine: Integers = result.tables[table]["machine"]
    cores = result.scenario.platform.cores
    if "core" not in result.tables[table] or cores is None:
        return machine
    first_core = np.cumsum(cores) - cores
    queue: Integers = first_core[np.clip(machine, 0, len(cores) - 1)] + result.tables[table]["core"]
    return queue


def is_close(a: NDArray[Any], b: NDArray[Any], slack: Any = NS) -> NDArray[np.bool_]:
    """Return a mask of the times (s) that are equal, up to `slack` s and rounding of floats."""
    are_close: NDArray[np.bool_] = np.abs(a - b) <= slack + ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return are_close


@dataclass(frozen=True)
class Violation:
    """Violation of an invariant.

    Parameters
    ----------
    law
        Name of the invariant.
    count
        Number of places at which it is broken.
    where, message
        The first of these places, and its fault.
    """

    law: str
    count: int
    where: str
    message: str

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return one_line(
            f"{self.law}: {self.where}: {self.message}{more}"
        )  # labels from a file may contain line breaks


def violations_where(
    law: str, bad: Any, row_label: Callable[[int], str], describe: Callable[[int], str]
) -> list[Violation]:
    """Return one violation of `law` for all indices at which `bad` is true; [] if there are none."""
    indices = np.flatnonzero(bad)
    return [Violation(law, len(indices), row_label(int(i)), describe(int(i))) for i in indices[:1]]


def check_step_count(
    steps: float, source: str, step_kind: str, error: type[GridSimError] = ScenarioError
) -> None:
    """Raise `error` if a check would need more than `MAX_STEPS` steps.

    Parameters
    ----------
    source
        The field of the scenario or file that needs the steps.
    step_kind
        Kind of the steps, in the plural.
    """
    if steps > MAX_STEPS:
        raise error(f"{source} must give at most {MAX_STEPS} {step_kind}, got {steps:g}")


def column_label(name: str) -> Callable[[int], str]:
    """Return a function that labels row k of the column `name` as ``name[k]``."""
    return lambda k: f"{name}[{k}]"


def differences(
    law: str,
    row_label: Callable[[int], str],
    bad: Any,
    actual: Any,
    expected: Any,
    source: str,
    quantity: str = "",
) -> list[Violation]:
    """Return one violation of `law` for all indices at which values differ from the required values.

    Parameters
    ----------
    bad
        Whether the values differ at each index.
    actual, expected
        The values of the result, and the required values.
    source
        The source of the required values with a verb, such as "the schedule gives".
    quantity
        The name of the value, if `row_label` does not contain it.
    """

    def describe(k: int) -> str:
        return f"{quantity} is {actual[k].item()!r}, but {source} {expected[k].item()!r}".lstrip()

    return violations_where(law, bad, row_label, describe)


def overlaps(resource: Integers, start: Floats, end: Floats) -> tuple[Integers, Integers]:
    """Return pairs of rows (earlier, later) on one resource where the later starts before the earlier ends.

    Each later row is in one pair, with the row that ends last among those that start before it.
    """
    order = np.lexsort((end, start, resource))
    u, begin, stop = resource[order], start[order], end[order]
    position, first = np.arange(len(order)), np.diff(u, prepend=u[:1] - 1) != 0
    # ranks of ends increase from resource to resource, so that one running maximum serves all resources
    rank = np.unique(stop, return_inverse=True)[1].ravel() + np.cumsum(first) * len(order)
    later = np.diff(np.maximum.accumulate(rank), prepend=-1) > 0
    latest = np.maximum.accumulate(np.where(later, position, 0))
    last_ending = np.append(0, latest)[: len(order)]
    pairs = np.flatnonzero(~first & (begin < stop[last_ending]))
    return order[last_ending[pairs]], order[pairs]


def over_capacity(start: Floats, end: Floats, amount: Integers, capacity: int) -> tuple[float, int] | None:
    """Return the first instant (s) with more than `capacity` in use, and that amount; None if none."""
    time = np.concatenate((start, end))
    change = np.concatenate((amount, -amount))
    order = np.lexsort((change, time))  # ends come before starts at the same instant
    used = np.cumsum(change[order])
    # only the state after the last change of an instant counts
    last = np.r_[time[order][1:] != time[order][:-1], True] if len(time) else np.zeros(0, bool)
    excess = np.flatnonzero(last & (used > capacity))
    return (float(time[order][excess[0]]), int(used[excess[0]])) if len(excess) else None


def slowest_speeds(speeds: Floats, machine: Integers, application: Integers, start: Floats) -> Floats:
    """Return the speed of the slowest machine of each row's run of a rigid job: float64[rows], Mflop/s."""
    if speeds.min() == speeds.max():
        return speeds[machine]
    run = np.unique(np.stack((application, start)), axis=1, return_inverse=True)[1].ravel()
    slowest = np.full(len(machine), np.inf)
    np.minimum.at(slowest, run, speeds[machine])
    return slowest[run]
