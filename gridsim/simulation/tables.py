"""Builds the tables ``applications`` and ``machines`` of a result from the outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import JOB_TIMES, Applications, durations
from gridsim.model.platform import Platform
from gridsim.results.metrics.formulas import job_slowdown, utilization
from gridsim.results.table import Table, frozen
from gridsim.scheduling.contract import Outcome
from gridsim.simulation.checks import _APPLICATION_COLUMNS, _MACHINE_COLUMNS, given_up
from gridsim.simulation.outages import Outages
from gridsim.support.clock import NS


def application_table(outcome: Outcome, applications: Applications, platform: Platform) -> Table:
    given = outcome.applications
    first, finish = (frozen(_seconds(given[name])) for name in ("first_start", "finish"))
    stretch = (given["finish"] - applications.release_ns) / NS
    stretch[given["finish"] < 0] = np.nan
    stretch /= applications.size
    further = {name: column for name, column in given.items() if name not in _APPLICATION_COLUMNS}
    own: dict[str, NDArray[Any]] = {}
    if applications.unequal:
        own = dict(zip(("smallest_task", "largest_task"), applications.extremes(), strict=True))
    if applications.data is not None:
        own["data"] = applications.data
    for name in ("input_bytes", "output_bytes"):
        if (column := getattr(applications, name)) is not None:
            own[name] = column
    if applications.estimate is not None:
        own["estimate"] = applications.estimate
    for name in ("memory", "disk", "kind", *JOB_TIMES):
        if (wanted := getattr(applications, name)) is not None:
            own[name] = wanted
    if applications.rigid:
        further |= _rigid_columns(given["finish"], applications, platform)
    return Table(
        {
            "release": applications.release,
            "first_start": first,
            "finish": finish,
            "tasks": applications.tasks,
            "task_size": applications.task_size,
            "size": applications.size,
            **own,
            "submitter": applications.submitter,
            "stretch": frozen(stretch),
            "stretch_agg": frozen(stretch * platform.aggregate_speed),
            "resubmitted": given["resubmitted"],
            "nodes_used": given["nodes_used"],
            **further,
        }
    )


def _seconds(ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Convert ns to s; -1 ns stands for never and becomes NaN."""
    seconds = ns / NS
    seconds[ns < 0] = np.nan
    return seconds


def _rigid_columns(
    finish: NDArray[np.int64], applications: Applications, platform: Platform
) -> dict[str, NDArray[Any]]:
    assert applications.requested is not None
    lasts = durations(applications, float(platform.speeds[0]))
    ready = applications.release_ns
    if (begin := applications.instants("not_before")) is not None:
        ready = np.maximum(ready, begin)
    waiting = np.where(finish >= 0, (finish - lasts - ready) / NS, np.nan)
    run_time = lasts / NS
    return {
        "run_time": run_time,
        "requested": applications.requested,
        "waiting": waiting,
        "slowdown": job_slowdown(waiting, run_time),
    }


def machine_table(
    outcome: Outcome,
    applications: Applications,
    platform: Platform,
    interfaces: Mapping[str, NDArray[Any]],
    outages: Outages,
    task_data: float,
    now: int,
) -> Table:
    """Build the table ``machines``, one row per machine; `now` is the time in ns at which the run ended."""
    given = outcome.machines
    until = int(outcome.applications["finish"].max())
    if given_up(outcome, applications).any():
        until = max(until, now)  # such jobs may have kept machines busy until the end
    span = (until - int(applications.release_ns.min())) / NS
    busy = given["busy"] / NS
    further: dict[str, NDArray[Any]] = {
        name: column for name, column in given.items() if name not in _MACHINE_COLUMNS
    }
    if platform.attributes is not None:
        further |= platform.attributes.columns()
    if applications.moves_data and platform.bandwidth is not None:
        further["bandwidth"] = platform.bandwidth
    if task_data > 0:
        begun = given["tasks"] + given.get("interrupted", 0) + given.get("ended", 0)
        further["data_in"] = task_data * begun
    return Table(
        {
            "speed": platform.speeds,
            "busy": busy,
            "tasks": given["tasks"],
            "peak_queue": given["peak_queue"],
            **interfaces,
            "utilization": utilization(busy, span),
            "failures": outages.failures,
            **further,
        }
    )
