"""Checks of a run: whether it can be executed, and whether the invariants hold for its outcome."""

from __future__ import annotations

import json
import math

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import InvariantViolation, ScenarioError, SchedulerError
from gridsim.model.applications import JOB_TIMES, Applications
from gridsim.model.background_load import LoadProfile
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.results.metrics.formulas import total
from gridsim.results.result import RECORDS
from gridsim.results.schema import CORE_TABLES
from gridsim.results.table import Table
from gridsim.scheduling.contract import (
    ARRIVALS,
    COPIES,
    CYCLES,
    SCHEDULE,
    NodeForm,
    Outcome,
    Scheduler,
)
from gridsim.simulation.outages import Outages
from gridsim.support.arrays import Floats, first_true
from gridsim.support.clock import NEVER, NS
from gridsim.support.text import check_name, plain

#: The largest latency, s: the clock counts int64 nanoseconds, and must hold a run of many messages.
LONGEST_LATENCY = 1.0e6

_APPLICATION_COLUMNS = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
_RIGID_COLUMNS = (*_APPLICATION_COLUMNS, "failed")
_MACHINE_COLUMNS = ("busy", "tasks", "peak_queue")
# Other columns that the tables of a result may have; a scheduler's own columns must not have these names.
_APPLICATION_NAMES = (
    "release", "tasks", "task_size", "size", "submitter", "stretch", "stretch_agg", "run_time", "requested",
    "waiting", "slowdown", "smallest_task", "largest_task", "data", "estimate", "memory", "kind", "disk",
    "input_bytes", "output_bytes", *JOB_TIMES,
)  # fmt: skip
_MACHINE_NAMES = (
    "speed", "bytes_out", "bytes_in", "use_mean", "use_peak_1s", "use_peak_10s", "utilization", "failures",
    "data_in", "memory", "disk", "kind", "x", "y", "bandwidth",
)  # fmt: skip


# -- checks ---------------------------------------------------------------------------------------------


def check_kind(
    applications: Applications,
    scheduler: Scheduler,
    pace: LoadProfile | None,
    faults: Faults | None = None,
    *,
    data: bool = False,
) -> None:
    """Raise ScenarioError if `scheduler` does not support the kind of workload or of machines.

    Rigid jobs need a scheduler that starts tasks together; bags need one that does not.  Unequal tasks in a
    bag, constraints of jobs, background load, failures, and data that take time need schedulers that support
    them.
    """
    if faults is not None and faults.reachable and not scheduler.owners:
        raise ScenarioError(f"faults.reachable must be false for {scheduler.name}, got True")
    if faults is not None and not (faults.reachable or scheduler.failures):
        only = "; it takes those with reachable = true, where owners come and go" if scheduler.owners else ""
        raise ScenarioError(f"faults must be absent for {scheduler.name}, whose machines never fail{only}")
    if data and not scheduler.moves_data:
        raise ScenarioError(
            f"platform.bandwidth must be absent for {scheduler.name}, whose tasks move no data, or "
            "workload.input_bytes and workload.output_bytes must be 0; fair-tree (maintenance ideal, "
            "release_cell 0), ideal-tree, mincent-once, steady-state and bandwidth-centric run with data"
        )
    if data and (faults is not None or pace is not None or applications.unequal):
        given = "faults" if faults is not None else "fluctuation" if pace is not None else "workload.spread"
        raise ScenarioError(
            f"{given} must be absent where tasks move data: with workload.input_bytes or "
            "workload.output_bytes and platform.bandwidth, machines are always up at their whole speed, and "
            "tasks of a bag are equal"
        )
    if applications.rigid != scheduler.rigid:
        takes, given = ("rigid jobs", "bags of tasks") if scheduler.rigid else ("bags of tasks", "rigid jobs")
        other = "; the kinds jobs, job-log and job-list have them, and --rigid makes them of a log"
        if not scheduler.rigid:
            other = "; for these: backfill, backfill-fcfs, asap, dgs-asap, dgs-acap, zorilla, metascheduler"
        raise ScenarioError(f"workload must have {takes} for {scheduler.name}, got {given}{other}")
    if applications.unequal and not scheduler.unequal:
        low, high = applications.extremes()
        (i,) = first_true(low < high)
        raise ScenarioError(
            f"workload must have tasks of one size in each application for {scheduler.name}, "
            f"got {low[i]:g} to {high[i]:g} Mflop in application {i}"
            + (
                "; workload.own_sizes = false gives each its mean"
                if applications.estimate is not None
                else ""
            )
        )
    if applications.group is not None and not scheduler.constraints:
        wanted = applications.wants.describe(_wanting(applications))
        a_job, able = "a job", "dgs-asap, dgs-acap, asap"
        if not applications.rigid:
            a_job = "a task"
            able = "fair-tree (maintenance = ideal), ideal-tree, mincent-once, fcfs (not mode = pull)"
        raise ScenarioError(
            f"workload must have no constraints for {scheduler.name}, which takes all machines to be alike, "
            f"got {a_job} that wants {wanted}; for these: {able}"
        )
    if applications.group is not None and not applications.rigid and faults is not None:
        raise ScenarioError(
            "faults must be absent where tasks need memory or disk that not all machines have: all machines "
            "that suit a task might be down"
        )
    for name in JOB_TIMES:
        if getattr(applications, name) is not None and name not in scheduler.job_times:
            raise ScenarioError(
                f"workload.{name} must be absent for {scheduler.name}, which does not know it; for this: "
                "dgs-asap, dgs-acap, asap"
            )
    if pace is not None and not scheduler.fluctuating:
        raise ScenarioError(
            f"fluctuation must be absent for {scheduler.name}, which needs machines that always have their "
            "whole speed"
        )


def _wanting(applications: Applications) -> int:
    """Return the first application that not all machines suit."""
    assert applications.group is not None and applications.suited is not None
    suited = applications.suited
    return int((suited.sum(axis=1) < suited.shape[1])[applications.group].argmax())


def check_nodes(scheduler: Scheduler, nodes: NodeForm | None) -> None:
    """Raise ScenarioError if `scheduler` cannot run its nodes as `nodes` says; see `Scheduler.node_forms`."""
    if nodes is None or nodes in scheduler.node_forms:
        return
    known = ", ".join(map(repr, scheduler.node_forms))
    why = "which has no node program" if nodes == "interpreted" else "whose nodes have no compiled form"
    raise ScenarioError(f"nodes must be {known} or None for {scheduler.name}, {why}; got {nodes!r}")


def check_size(
    applications: Applications,
    platform: Platform,
    latency: float,
    pace: LoadProfile | None = None,
    bandwidth: Floats | None = None,
) -> None:
    """Raise ScenarioError if the clock cannot hold the run, even at the smallest factor of `pace`.

    It also checks the latency, the numbers of tasks, and that each task takes at least 1 ns.

    Parameters
    ----------
    bandwidth
        Of the links over which tasks move data, bytes/s; None if none does.
    """
    if latency > LONGEST_LATENCY:
        raise ScenarioError(f"network.latency must be at most {LONGEST_LATENCY:g} s, got {latency!r}")
    field, (least, most) = "sizes" if applications.unequal else "task_size", applications.extremes()
    slowest, fastest = platform.extremes
    with np.errstate(over="ignore"):
        shortest = least / fastest * NS
        longest = float(most.max() / slowest)
        work = float(applications.size.sum())
    for i in first_true(shortest < 1):
        raise ScenarioError(
            f"workload.{field} of application {i} must take at least 1 ns on the fastest machine, "
            f"got {least[i]:g} Mflop"
        )
    for i in first_true(applications.tasks >= 2**31):  # a machine counts its share in 32 bits
        raise ScenarioError(
            f"workload.tasks of application {i} must be at most {2**31 - 1}, got {applications.tasks[i]}"
        )
    if (tasks := int(applications.tasks.sum())) > 2**53:
        raise ScenarioError(f"workload.tasks must be at most 2**53 in all, got {tasks:g}")
    factor, said = 1.0, ""
    if pace is not None:
        factor = float(pace.factors.min())
        said = f" where machines have {factor:g} of their speed"
    last = float(applications.ready.max())
    field = "not_before" if last > applications.release[-1] else field
    end = last + work / platform.aggregate_speed / factor
    longest /= factor
    if bandwidth is not None:
        # as if one machine with the narrowest link moved all data
        moved = total(np.maximum(*applications.moved()) * applications.tasks) / float(bandwidth.min())
        if moved * NS > NEVER / 4:
            raise ScenarioError(
                "workload.input_bytes and workload.output_bytes must be less, or platform.bandwidth more: "
                f"one link may take {moved:.3g} s for all, and the run may last {NEVER / 4 / NS:.3g} s"
            )
    if max(end, longest) * NS > NEVER / 4:
        raise ScenarioError(
            f"workload.{field} must be less: the run needs at least {max(end, longest):.3g} s{said}, "
            f"and may last {NEVER / 4 / NS:.3g} s"
        )


def check_contract(outcome: Outcome, applications: Applications, machines: int, now: int) -> dict[str, Table]:
    """Return the additional tables of `outcome`; raise SchedulerError if it breaks the contract."""
    when = f"t = {now / NS} s:"
    if not isinstance(outcome, Outcome):
        raise SchedulerError(f"{when} finish() must return an Outcome, got {type(outcome).__name__}")
    own = _RIGID_COLUMNS if applications.rigid else _APPLICATION_COLUMNS
    if applications.cancel_at is not None:
        own = (*own, "cancelled")
    for what, columns, wanted, taken, rows in (
        ("applications", outcome.applications, own, _APPLICATION_NAMES, len(applications)),
        ("machines", outcome.machines, _MACHINE_COLUMNS, _MACHINE_NAMES, machines),
    ):
        for name in wanted:
            if name not in columns:
                raise SchedulerError(f"{when} outcome.{what} has no column {name!r}")
        for name, column in columns.items():
            if name in taken:
                raise SchedulerError(f"{when} outcome.{what} has {name!r}, which every result has already")
            if np.shape(column) != (rows,) or np.asarray(column).dtype.kind not in "biu":
                raise SchedulerError(f"{when} outcome.{what}[{name!r}] must be {rows} whole numbers")
    tables = {}
    for name, columns in outcome.tables.items():
        if name in (*CORE_TABLES, *RECORDS, "cycles"):
            raise SchedulerError(f"{when} outcome.tables has {name!r}, which every result has already")
        try:
            tables[check_name(name)] = Table(columns)
        except ValueError as error:
            raise SchedulerError(f"{when} outcome.tables[{name!r}]: {error}") from error
    if outcome.cycles:
        shapes = {np.shape(column) for column in outcome.cycles.values()}
        if set(outcome.cycles) != set(CYCLES) or shapes != {(len(applications),)}:
            raise SchedulerError(
                f"{when} outcome.cycles must have {len(applications)} of {', '.join(CYCLES)}"
            )
        tables["cycles"] = Table(outcome.cycles)
    try:
        json.dumps(plain(outcome.facts))
    except (TypeError, ValueError, RecursionError) as error:
        raise SchedulerError(f"{when} outcome.facts: {error}") from error
    return tables


def record_tables(outcome: Outcome, now: int) -> dict[str, Table]:
    """Return the recorded tables, times in s; raise SchedulerError for missing or unequal columns."""
    tables = {}
    for name, wanted, given in (
        ("schedule", SCHEDULE, outcome.schedule),
        ("arrivals", ARRIVALS, outcome.arrivals or {column: np.zeros(0, np.int64) for column in ARRIVALS}),
    ):
        if "task" in given:
            wanted = (*wanted, *COPIES)
        shapes = {np.shape(given.get(column, 0)) for column in wanted}
        if len(shapes) > 1 or len(shapes.pop()) != 1:
            raise SchedulerError(
                f"t = {now / NS} s: a run that is recorded needs outcome.{name} with equally long columns "
                f"{', '.join(wanted)}"
            )
        times = ("start", "end", "time")
        tables[name] = Table({c: given[c] / NS if c in times else given[c] for c in wanted})
    return tables


def check_laws(outcome: Outcome, applications: Applications, platform: Platform, outages: Outages) -> None:
    """Raise InvariantViolation if the outcome breaks an invariant.

    No task is lost or done twice, nothing starts before its release, and no machine is busy for longer than
    its tasks take, or than it was up.
    """
    first, finish = outcome.applications["first_start"], outcome.applications["finish"]
    completed, tasks = outcome.applications["completed"], applications.tasks
    size, release = applications.size, applications.release_ns
    if (failed := given_up(outcome, applications)).any():
        for i in first_true(failed & ((completed != 0) | (finish != -1))):
            raise InvariantViolation(
                f"application {i}: rejected or cancelled, but {completed[i]} tasks were completed"
            )
        tasks, size = np.where(failed, 0, tasks), size[~failed]
        # a rejected one need neither start nor finish
        first = np.where(failed & (first == -1), release, first)
        finish = np.where(failed, first, finish)
    for i in first_true(completed != tasks):
        others = int((completed != tasks).sum()) - 1
        more = f"; {others} more such application{'s' if others > 1 else ''}" if others else ""
        raise InvariantViolation(
            f"application {i}: {completed[i]} of its {tasks[i]} tasks were completed, each must be, once"
            f"{more}"
        )
    for i in first_true(first < release):
        raise InvariantViolation(
            f"application {i}: started at {first[i]} ns, before its release, {release[i]} ns"
        )
    for i in first_true(finish < first):
        raise InvariantViolation(
            f"application {i}: finished at {finish[i]} ns, before its start at {first[i]} ns"
        )
    done = outcome.machines["tasks"]
    if int(done.sum()) != int(tasks.sum()):
        raise InvariantViolation(
            f"machines: completed {int(done.sum())} tasks, the applications have {int(tasks.sum())}"
        )
    last = int(outcome.applications["finish"].max())
    # copies that others have outdone may end later than the last task
    cut = "cancelled" in outcome.applications and np.any(outcome.applications["cancelled"])
    later = cut or outages.failures.any() or "ended" in outcome.machines
    end = max(last, outages.now if later else 0)
    busy, span = outcome.machines["busy"], max(0, end - int(release[0]))
    for u in first_true((busy < 0) | (busy > span)):
        raise InvariantViolation(f"machine {u}: busy for {busy[u]} ns of {span} ns")
    end = max(last, outages.now)
    up_time = end - outages.down_time(end)
    for u in first_true(busy > up_time):
        raise InvariantViolation(f"machine {u}: busy for {busy[u]} ns, but up for {up_time[u]} ns only")
    speeds = platform.speeds / NS
    worked, work = float((busy * speeds).sum()), float(size.sum())
    # each task's duration is rounded to whole ns, and products and sums have rounding errors too
    slack = float(done @ speeds) + 1e-9 * max(work, worked)
    if outcome.cycles:
        _check_cycles(outcome, applications, worked, slack)
    elif worked < work - slack or (worked > work + slack and not _in_vain(outcome)):
        raise InvariantViolation(
            f"machines: their busy time is worth {worked!r} Mflop, the applications have {work!r} Mflop"
        )


def _in_vain(outcome: Outcome) -> bool:
    """Return whether machines may have worked on what is lost: of failures, or of users who cancel jobs."""
    given = outcome.applications
    return any(np.any(given[name]) for name in ("resubmitted", "cancelled") if name in given)


def _check_cycles(outcome: Outcome, applications: Applications, worked: float, slack: float) -> None:
    """Raise InvariantViolation unless cycles account for all work of the machines, up to `slack` Mflop."""
    for i in first_true(outcome.cycles["useful"] != applications.size):
        useful = float(outcome.cycles["useful"][i])
        raise InvariantViolation(
            f"application {i}: {useful!r} Mflop were useful, it has {applications.size[i]!r} Mflop"
        )
    for name in CYCLES:
        for i in first_true(~(outcome.cycles[name] >= -slack)):
            raise InvariantViolation(f"application {i}: {outcome.cycles[name][i]!r} Mflop were {name}")
    told = math.fsum(total(outcome.cycles[name]) for name in CYCLES)
    if not abs(told - worked) <= slack:
        raise InvariantViolation(
            f"machines: busy for {worked!r} Mflop, useful and wasted cycles are {told!r} Mflop"
        )


def unfinished(outcome: Outcome, applications: Applications) -> int:
    """Return the number of tasks that are neither completed nor rejected nor cancelled."""
    left = applications.tasks - outcome.applications["completed"]
    return int(left[~given_up(outcome, applications)].sum())


def given_up(outcome: Outcome, applications: Applications) -> NDArray[np.bool_]:
    """Return bool[applications], which applications the scheduler reports as rejected or cancelled."""
    found = np.zeros(len(applications), np.bool_)
    for name in ("failed", "cancelled"):
        if (name == "cancelled" or applications.rigid) and name in outcome.applications:
            found |= np.asarray(outcome.applications[name]) != 0
    return found
