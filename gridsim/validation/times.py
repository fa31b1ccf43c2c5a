"""Checks of the times that rigid jobs state: starts in the future, deadlines, and users who cancel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import NS, ROUNDING, Violation, broken, column, emulated


def cancelled(result: Result) -> NDArray[np.bool_]:
    """Return which applications are rigid jobs that their users cancelled: bool[applications]."""
    table = result.applications
    found: NDArray[np.bool_] = (
        table["cancelled"] != 0 if "cancelled" in table else np.zeros(len(table), np.bool_)
    )
    return found


def check_times(result: Result, given: Applications) -> list[Violation]:
    """Return where the table of applications does not keep the times that jobs state."""
    table, found = result.applications, list[Violation]()
    first, finish = table["first_start"], table["finish"]
    # up to a million s, floats tell neighbouring ns apart
    slack = np.where(np.nan_to_num(finish) > 1e6, 2 * NS + ROUNDING * np.nan_to_num(finish), 0.9 * NS)
    if (early := given.not_before) is not None:
        found += broken(
            "not before",
            first < early - slack,
            column("applications.first_start"),
            lambda i: f"starts at {first[i]} s, it must not before {early[i]} s",
        )
    if (deadline := given.deadline) is not None:
        # it counts by what a job reserves, which it may outlive
        beyond = np.zeros(len(table))
        if result.scheduler["parameters"].get("estimate") == "requested":
            beyond = np.maximum(0.0, table["run_time"] - table["requested"])
        found += broken(
            "deadline",
            finish - beyond > deadline + slack,
            column("applications.finish"),
            lambda i: f"finishes at {finish[i]} s, its deadline is {deadline[i]} s",
        )
    if (at := given.cancel_at) is None:
        return found
    done = ~np.isnan(finish)
    found += broken(
        "cancelled",
        done & (finish > at + slack),
        column("applications.finish"),
        lambda i: f"finishes at {finish[i]} s, its user cancels it at {at[i]} s",
    )
    called_off = cancelled(result)
    found += broken(
        "cancelled",
        called_off & (done | np.isinf(at)),
        column("applications.cancelled"),
        lambda i: f"is 1, it finishes at {finish[i]} s and its user cancels it at {at[i]} s",
    )
    if "freed" in result.tables:
        found += _freed(result, at, called_off)
    return found


def _freed(result: Result, at: Floats, called_off: NDArray[np.bool_]) -> list[Violation]:
    """Check that what was freed is of jobs that were cancelled, from then on."""
    table = result.tables["freed"]
    i, start, end = table["application"], table["start"], table["end"]
    known = (i >= 0) & (i < len(at))
    of = np.where(known, i, 0)
    slack = 2 * NS + ROUNDING * at[of]
    # nothing is left of a reservation that ends at the instant of the cancellation
    bad = ~known | ~called_off[of] | (start < at[of] - slack) | ~(end >= start)
    found = broken(
        "cancelled", bad, lambda k: f"freed[{k}]", lambda k: f"application {i[k]}, {start[k]} s to {end[k]} s"
    )
    if found or "schedule" not in result.tables or result.scenario.faults is not None:
        return found
    # each machine that was at work on the job gave back the rest, from that instant on
    ran, rest = result.tables["schedule"], start <= at[of] + slack
    gave = set(zip(i[rest].tolist(), table["machine"][rest].tolist(), strict=True))
    begun = called_off[ran["application"]] & (ran["start"] < at[ran["application"]])
    rows = np.flatnonzero(begun).tolist()
    missing = [k for k in rows if (int(ran["application"][k]), int(ran["machine"][k])) not in gave]
    return [
        Violation(
            "cancelled",
            len(missing),
            f"schedule[{k}]",
            f"its job is cancelled at {at[ran['application'][k]]} s, and no row of freed begins then",
        )
        for k in missing[:1]
    ]


def check_cancelled(
    result: Result, i: NDArray[np.int64], start: Floats, end: Floats, place: Callable[[int], str]
) -> list[Violation]:
    """Return which rows of the schedule go on after their job was cancelled and its machines knew it.

    A message that says so may wait for all others of its two machines.  Where machines fail, the one that
    sends it may be another one, so that its way takes no longer; where none is up, nobody sends it.

    Parameters
    ----------
    i, start, end
        Application and times (s) of the rows.
    place
        Index of a row -> its name.
    """
    table, network, machines = result.applications, result.scenario.network, result.machines
    if "cancel_at" not in table or emulated(result):
        return []
    queued = float(machines["bytes_out"].max() + machines["bytes_in"].max())
    way = network.latency + network.jitter + queued / network.bandwidth
    at = table["cancel_at"][i] + way
    late = end > at + 4 * NS + 2 * ROUNDING * end
    return broken(
        "cancelled",
        late & cancelled(result)[i],
        place,
        lambda k: (
            f"application {i[k]} runs until {end[k]} s, its machines know by {at[k]} s that it is cancelled"
        ),
    )
