"""Checks of the times that rigid jobs state: earliest starts, deadlines and cancellations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import NS, ROUNDING, Violation, column_label, is_emulated, violations_where


def cancelled_jobs(result: Result) -> NDArray[np.bool_]:
    """Return which applications are rigid jobs that their users cancelled: bool[applications]."""
    table = result.applications
    is_cancelled: NDArray[np.bool_] = (
        table["cancelled"] != 0 if "cancelled" in table else np.zeros(len(table), np.bool_)
    )
    return is_cancelled


def check_times(result: Result, workload: Applications) -> list[Violation]:
    """Check the table of applications against the times that jobs state."""
    table, violations = result.applications, list[Violation]()
    first, finish = table["first_start"], table["finish"]
    # up to a million s, floats distinguish neighbouring ns
    slack = np.where(np.nan_to_num(finish) > 1e6, 2 * NS + ROUNDING * np.nan_to_num(finish), 0.9 * NS)
    if (not_before := workload.not_before) is not None:
        violations += violations_where(
            "not before",
            first < not_before - slack,
            column_label("applications.first_start"),
            lambda i: f"starts at {first[i]} s, but must not start before {not_before[i]} s",
        )
    if (deadline := workload.deadline) is not None:
        # the deadline concerns the reservation of a job, which may run beyond its reservation
        overrun = np.zeros(len(table))
        if result.scheduler["parameters"].get("estimate") == "requested":
            overrun = np.maximum(0.0, table["run_time"] - table["requested"])
        violations += violations_where(
            "deadline",
            finish - overrun > deadline + slack,
            column_label("applications.finish"),
            lambda i: f"finishes at {finish[i]} s, but its deadline is {deadline[i]} s",
        )
    if (at := workload.cancel_at) is None:
        return violations
    done = ~np.isnan(finish)
    violations += violations_where(
        "cancelled",
        done & (finish > at + slack),
        column_label("applications.finish"),
        lambda i: f"finishes at {finish[i]} s, but its user cancels it at {at[i]} s",
    )
    called_off = cancelled_jobs(result)
    violations += violations_where(
        "cancelled",
        called_off & (done | np.isinf(at)),
        column_label("applications.cancelled"),
        lambda i: f"is 1, but it finishes at {finish[i]} s, and its user cancels it at {at[i]} s",
    )
    if "freed" in result.tables:
        violations += _check_freed(result, at, called_off)
    return violations


def _check_freed(result: Result, at: Floats, called_off: NDArray[np.bool_]) -> list[Violation]:
    """Check that freed time belongs to cancelled jobs and begins at the cancellation."""
    table = result.tables["freed"]
    i, start, end = table["application"], table["start"], table["end"]
    known = (i >= 0) & (i < len(at))
    job = np.where(known, i, 0)
    slack = 2 * NS + ROUNDING * at[job]
    # a reservation that ends when its job is cancelled frees no time
    bad = ~known | ~called_off[job] | (start < at[job] - slack) | ~(end >= start)
    violations = violations_where(
        "cancelled",
        bad,
        lambda k: f"freed[{k}]",
        lambda k: (
            f"must be after the cancellation of its application, got application {i[k]} from {start[k]} s to "
            f"{end[k]} s"
        ),
    )
    if violations or "schedule" not in result.tables or result.scenario.faults is not None:
        return violations
    # each machine that ran the job must free the rest of its reservation from that instant on; in an
    # emulation, where it hears of the cancellation later, from a later one
    schedule, frees_at_once = result.tables["schedule"], (start <= at[job] + slack) | is_emulated(result)
    released_machines = set(
        zip(i[frees_at_once].tolist(), table["machine"][frees_at_once].tolist(), strict=True)
    )
    is_running = called_off[schedule["application"]] & (schedule["start"] < at[schedule["application"]])
    rows = np.flatnonzero(is_running).tolist()
    missing = [
        k
        for k in rows
        if (int(schedule["application"][k]), int(schedule["machine"][k])) not in released_machines
    ]
    return [
        Violation(
            "cancelled",
            len(missing),
            f"schedule[{k}]",
            f"its job is cancelled at {at[schedule['application'][k]]} s, but no row of freed begins then",
        )
        for k in missing[:1]
    ]


def check_cancelled(
    result: Result, i: NDArray[np.int64], start: Floats, end: Floats, row_label: Callable[[int], str]
) -> list[Violation]:
    """Check that rows end once their machine can know that the job was cancelled.

    The message about the cancellation may be queued behind all other messages of its sender and receiver.  It
    may be lost if a machine fails at the instant of the cancellation.

    Parameters
    ----------
    i, start, end
        Application and times (s) of the rows.
    row_label
        Function that returns the label of a row.
    """
    table, network, machines = result.applications, result.scenario.network, result.machines
    if "cancel_at" not in table or is_emulated(result):
        return []
    queued = float(machines["bytes_out"].max() + machines["bytes_in"].max())
    delay = network.latency + network.jitter + queued / network.bandwidth
    at = table["cancel_at"][i] + delay
    late = end > at + 4 * NS + 2 * ROUNDING * end
    if (faults := result.scenario.faults) is not None and late.any():
        outages = faults.outages(len(machines), float(end.max()))
        failures = np.concatenate([np.zeros(0), *(down for _, down, _ in outages)])
        late &= ~np.isin(np.rint(table["cancel_at"][i] / NS), np.rint(failures / NS))
    return violations_where(
        "cancelled",
        late & cancelled_jobs(result)[i],
        row_label,
        lambda k: (
            f"application {i[k]} runs until {end[k]} s, but its machines know by {at[k]} s that it is "
            "cancelled"
        ),
    )
