"""The tables ``applications`` and ``machines`` of a result, built from the outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import SHOWN_COLUMNS, Applications, durations_of_runs
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.results.metrics.energy import Pieces, energy_columns
from gridsim.results.metrics.formulas import job_slowdown, utilization
from gridsim.results.table import Table, frozen
from gridsim.scheduling.contract import Outcome
from gridsim.simulation.checks import _APPLICATION_COLUMNS, _MACHINE_COLUMNS, rejected_applications
from gridsim.simulation.machines import RunMachines
from gridsim.simulation.outages import Outages
from gridsim.support.clock import NS


def application_table(outcome: Outcome, applications: Applications, platform: Platform) -> Table:
    """Build the table ``applications``, with one row per application."""
    columns = outcome.applications
    first, finish = (frozen(_seconds(columns[name])) for name in ("first_start", "finish"))
    stretch = (columns["finish"] - applications.release_ns) / NS
    stretch[columns["finish"] < 0] = np.nan
    stretch /= applications.size
    extra_columns = {name: column for name, column in columns.items() if name not in _APPLICATION_COLUMNS}
    properties: dict[str, NDArray[Any]] = {}
    if applications.unequal:
        properties = dict(zip(("smallest_task", "largest_task"), applications.extremes(), strict=True))
    if applications.predecessor_offsets is not None:
        properties["predecessors"] = np.diff(applications.predecessor_offsets)
    for name in SHOWN_COLUMNS:
        if (column := getattr(applications, name)) is not None:
            properties[name] = column
    if applications.rigid:
        extra_columns |= _rigid_columns(outcome, applications, platform)
    return Table(
        {
            "release": applications.release,
            "first_start": first,
            "finish": finish,
            "tasks": applications.tasks,
            "task_size": applications.task_size,
            "size": applications.size,
            **properties,
            "submitter": applications.submitter,
            "stretch": frozen(stretch),
            "stretch_agg": frozen(stretch * platform.aggregate_speed),
            "resubmitted": columns["resubmitted"],
            "nodes_used": columns["nodes_used"],
            **extra_columns,
        }
    )


def _seconds(ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Convert ns to s; -1 ns, which stands for never, becomes NaN."""
    seconds = ns / NS
    seconds[ns < 0] = np.nan
    return seconds


def _rigid_columns(
    outcome: Outcome, applications: Applications, platform: Platform
) -> dict[str, NDArray[Any]]:
    assert applications.requested is not None
    first, finish = outcome.applications["first_start"], outcome.applications["finish"]
    run_times, killed = durations_of_runs(applications, platform.speeds, first, finish), {}
    if outcome.run_times is not None:
        killed["terminated"] = ((outcome.run_times < run_times) & (finish >= 0)).astype(np.int64)
        run_times = np.where(finish >= 0, outcome.run_times, run_times)
    ready = applications.release_ns
    if (earliest := applications.instants("not_before")) is not None:
        ready = np.maximum(ready, earliest)
    waiting = np.where(finish >= 0, (finish - run_times - ready) / NS, np.nan)
    run_time = run_times / NS
    return {
        "run_time": run_time,
        "requested": applications.requested,
        "waiting": waiting,
        "slowdown": job_slowdown(waiting, run_time),
        **killed,
    }


def machine_table(
    outcome: Outcome,
    applications: Applications,
    platform: Platform,
    interfaces: Mapping[str, NDArray[Any]],
    outages: Outages,
    scenario: Scenario,
    machines: RunMachines,
    now: int,
) -> Table:
    """Build the table ``machines``, with one row per machine.

    Parameters
    ----------
    interfaces
        Columns of the network interfaces.
    outages
        The failures of machines.
    scenario
        The scenario of the run.
    machines
        The machines of the run, which the recorded schedule has.
    now
        The time at which the run ended, ns.
    """
    columns = outcome.machines
    until = int(outcome.applications["finish"].max())
    if rejected_applications(outcome, applications).any():
        until = max(until, now)  # cancelled jobs may have used machines until the end of the run
    begin = int(applications.release_ns.min())
    span = (until - begin) / NS
    busy = columns["busy"] / NS
    extra_columns: dict[str, NDArray[Any]] = {
        name: column for name, column in columns.items() if name not in _MACHINE_COLUMNS
    }
    if platform.attributes is not None:
        extra_columns |= platform.attributes.columns()
    if platform.cores is not None:
        extra_columns["cores"] = platform.cores
    if platform.gpus is not None:
        extra_columns["gpus"] = platform.gpus
    if applications.moves_data and platform.bandwidth is not None:
        extra_columns["bandwidth"] = platform.bandwidth
    if (task_data := scenario.network.task_data) > 0:
        starts = columns["tasks"] + columns.get("interrupted", 0) + columns.get("ended", 0)
        extra_columns["data_in"] = task_data * starts
    if platform.power is not None:
        pieces = _pieces(outcome, applications, machines) if outcome.schedule else None
        extra_columns |= energy_columns(
            platform,
            scenario.faults,
            scenario.workload.origin,
            (begin, until),
            columns["busy"],
            pieces,
            has_parts=applications.core_share is not None,
        )
    return Table(
        {
            "speed": platform.speeds,
            "busy": busy,
            "tasks": columns["tasks"],
            "peak_queue": columns["peak_queue"],
            **interfaces,
            "utilization": utilization(busy if platform.cores is None else busy / platform.cores, span),
            "failures": outages.failures,
            **extra_columns,
        }
    )


def _pieces(outcome: Outcome, applications: Applications, machines: RunMachines) -> Pieces:
    """Return the work in the recorded schedule, with the cores that each row uses at a time."""
    schedule = outcome.schedule
    # the tasks of a bag in a row run one after another
    cores = schedule["tasks"] if applications.rigid else np.ones_like(schedule["tasks"])
    for column in (applications.cores, applications.core_share):
        if column is not None:
            cores = cores * column[schedule["application"]]
    of_platform = machines.platform_machines(schedule["machine"])
    return Pieces(of_platform, schedule["start"], schedule["end"], cores)
