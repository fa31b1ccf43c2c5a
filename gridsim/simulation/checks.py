"""Checks of a run: whether it can be executed, and whether the invariants hold for its outcome."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import InvariantViolation, ScenarioError, SchedulerError
from gridsim.model.applications import JOB_TIMES, SHOWN_COLUMNS, Applications
from gridsim.model.attributes import bytes_text
from gridsim.model.background_load import LoadProfile
from gridsim.model.capacity import scarce_memory
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
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
from gridsim.scheduling.registry import registered
from gridsim.simulation.outages import Outages
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.clock import NEVER, NS
from gridsim.support.parameters import changed_fields, default_of, fields_of
from gridsim.support.text import check_name, plain

#: The maximum latency (s), so that the clock of int64 nanoseconds does not overflow after many messages.
MAX_LATENCY = 1.0e6

_APPLICATION_COLUMNS = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
_RIGID_COLUMNS = (*_APPLICATION_COLUMNS, "failed")
_MACHINE_COLUMNS = ("busy", "tasks", "peak_queue")
# Names of further columns of result tables, which a scheduler's own columns must not have.
_APPLICATION_NAMES = (
    "release", "tasks", "task_size", "size", "submitter", "stretch", "stretch_agg", "run_time", "requested",
    "waiting", "slowdown", "smallest_task", "largest_task", "predecessors",
    *SHOWN_COLUMNS,
)  # fmt: skip
_MACHINE_NAMES = (
    "speed", "bytes_out", "bytes_in", "use_mean", "use_peak_1s", "use_peak_10s", "utilization", "failures",
    "data_in", "memory", "disk", "kind", "x", "y", "bandwidth", "energy", "carbon",
)  # fmt: skip


# -- checks ---------------------------------------------------------------------------------------------


def check_kind(
    applications: Applications,
    scheduler: Scheduler,
    load_profile: LoadProfile | None,
    faults: Faults | None = None,
    *,
    data: bool = False,
) -> None:
    """Raise ScenarioError if `scheduler` does not support this kind of workload or machines.

    Rigid jobs require a scheduler for rigid jobs; bags require a scheduler for bags.  Unequal tasks in a bag,
    constraints of jobs, background load, failures, and data that take time require a scheduler that supports
    them.

    Parameters
    ----------
    load_profile
        The background load of the machines; None for none.
    faults
        The failures of machines; None for none.
    data
        Whether tasks move data over links.
    """
    if faults is not None and faults.reachable and not scheduler.owners:
        raise ScenarioError(f"{scheduler.name} does not support faults.reachable = true (absences of owners)")
    if faults is not None and not (faults.reachable or scheduler.failures):
        only = " or set faults.reachable = true (absences of owners)" if scheduler.owners else ""
        raise ScenarioError(f"{scheduler.name} does not support failures: remove faults (--failures){only}")
    if data and not scheduler.moves_data:
        raise ScenarioError(
            f"{scheduler.name} does not support tasks that move data (platform.bandwidth with "
            "workload.input_bytes or workload.output_bytes); schedulers that support them: fair-tree "
            "(maintenance ideal, release_cell 0), ideal-tree, mincent-once, steady-state, bandwidth-centric"
        )
    if data and (faults is not None or load_profile is not None or applications.unequal):
        part = "workload.spread"
        if faults is not None or load_profile is not None:
            part = "faults" if faults is not None else "fluctuation"
        raise ScenarioError(
            "tasks that move data (platform.bandwidth with workload.input_bytes or workload.output_bytes) do "
            f"not support {part}: they require machines that are always up at full speed, and bags of equal "
            "tasks"
        )
    if applications.rigid != scheduler.rigid:
        required_kind, actual_kind = ("rigid jobs", "bags of tasks")[:: 1 if scheduler.rigid else -1]
        alternatives = "; the kinds jobs, job-log and job-list have rigid jobs, and so has a log with --rigid"
        if not scheduler.rigid:
            names = (name for name, (kind, _) in registered().items() if kind.rigid)
            alternatives = f"; schedulers that support them: {', '.join(names)}"
        raise ScenarioError(
            f"{scheduler.name} requires a workload of {required_kind}, got {actual_kind}{alternatives}"
        )
    if applications.unequal and not scheduler.unequal:
        low, high = applications.extremes()
        (i,) = first_true(low < high)
        distinct_names = dict.fromkeys(kind.name for kind, _ in registered().values() if kind.unequal)
        alternatives = f"schedulers that support them: {', '.join(distinct_names)}"
        if applications.estimate is not None:
            alternatives += "; workload.own_sizes = false gives all tasks of a bag their mean size"
        raise ScenarioError(
            f"{scheduler.name} does not support tasks of different sizes in one application, "
            f"got {low[i]:g} to {high[i]:g} Mflop in application {i}; {alternatives}"
        )
    if applications.group is not None and not scheduler.constraints:
        requirement = applications.wants.describe(_first_constrained(applications))
        noun, schedulers = "a job", "dgs-asap, dgs-acap, asap"
        if not applications.rigid:
            noun = "a task"
            schedulers = "fair-tree (maintenance = ideal), ideal-tree, mincent-once, fcfs (not mode = pull)"
        raise ScenarioError(
            f"{scheduler.name} does not support constraints of the workload, got {noun} that requires "
            f"{requirement}; schedulers that support them: {schedulers}"
        )
    if applications.group is not None and not applications.rigid and faults is not None:
        raise ScenarioError(
            "faults do not support tasks that need memory or disk that only some machines or cores have: all "
            "of these might be down"
        )
    if applications.predecessors is not None and not scheduler.dependencies:
        supporting = _supporting(scheduler, lambda kind: bool(kind.dependencies))
        raise ScenarioError(
            f"{scheduler.name} does not support workload.after; schedulers that support it: {supporting}"
        )
    for name in JOB_TIMES:
        if getattr(applications, name) is not None and applications.predecessors is not None:
            raise ScenarioError(f"workload.after does not support workload.{name}")
        if getattr(applications, name) is not None and name not in scheduler.job_times:
            raise ScenarioError(
                f"{scheduler.name} does not support workload.{name}; schedulers that support it: "
                "dgs-asap, dgs-acap, asap"
            )
    if load_profile is not None and not scheduler.fluctuating:
        raise ScenarioError(f"{scheduler.name} does not support fluctuation (background load)")


def _supporting(scheduler: Scheduler, is_supported: Callable[[Scheduler], bool]) -> str:
    """Return the registered names of schedulers of the same kind of work for which a property holds."""
    return ", ".join(
        name
        for name, (kind, preset) in registered().items()
        if kind.rigid == scheduler.rigid and is_supported(kind(**preset))
    )


def _obstacle(scheduler: Scheduler, is_supported: Callable[[Scheduler], bool]) -> tuple[str, Any, Any] | None:
    """Return the parameter that alone prevents a property: its name, its value and its default."""
    fields = fields_of(type(scheduler))
    for name in changed_fields(scheduler):
        default = default_of(fields[name])
        with suppress(ScenarioError, TypeError):  # other values, or no default, may exclude this
            if is_supported(msgspec.structs.replace(scheduler, **{name: default})):
                return name, getattr(scheduler, name), default
    return None


def check_cores(applications: Applications, scheduler: Scheduler, scenario: Scenario) -> None:
    """Raise ScenarioError if machines have several cores or GPUs and the run does not support that."""
    platform, faults = scenario.platform, scenario.faults
    if not platform.is_shared:
        return
    if platform.gpus is not None and not applications.rigid:
        raise ScenarioError(f"platform.gpus must be 0 for bags of tasks, got up to {platform.gpus.max()}")
    is_separate = scheduler.cores == "separate"
    if applications.rigid:
        if is_separate:
            _check_separate_jobs(applications, scheduler, scenario)
        return
    assert platform.cores is not None
    for is_unsupported, part in (
        (not scheduler.cores, f"under {scheduler.name}"),
        (applications.moves_data and platform.bandwidth is not None, "with tasks that move data"),
        (is_separate and faults is not None and faults.time_zones is not None, "with faults in time zones"),
    ):
        if is_unsupported:
            raise ScenarioError(f"platform.cores must be 1 {part}, got up to {platform.cores.max()}")
    if is_separate or scheduler.shares_memory:
        return
    for machine in first_true(scarce_memory(platform.cores, platform.attributes, applications.memory)):
        assert applications.memory is not None
        raise ScenarioError(
            f"{scheduler.name} does not support tasks that wait for the memory of a machine: it must suffice "
            f"for a task on each core, got {platform.cores[machine]} cores and tasks of up to "
            f"{bytes_text(applications.memory.max())} bytes on machine {machine}"
        )


def _check_separate_jobs(applications: Applications, scheduler: Scheduler, scenario: Scenario) -> None:
    """Raise ScenarioError if jobs need more than a number of cores, anywhere, and cores are machines."""
    per_machine = applications.tasks_per_machine
    for name, words, column, neutral in (
        ("cores", "{} cores", applications.cores, 1),
        ("gpus", "{} GPUs", applications.gpus, 0),
        ("memory", "{:g} bytes of memory", applications.memory, 0.0),
        ("exclusive", "a machine without other jobs", applications.exclusive, 0),
        (
            "tasks_per_machine",
            "at most {} of their tasks on it",
            np.ones(1, np.int64) if per_machine is None else per_machine,
            0,
        ),
    ):
        if column is None or (column == neutral).all():
            continue
        need = words.format(column[column != neutral][0])
        counts: Any = getattr(scenario.workload.recipe, "cores_per_node", None)
        remedy = ""
        if name == "cores" and np.size(counts) > 1:
            remedy = (
                "; the jobs of some logs share nodes and others do not (--shared, workload.cores_per_node = "
                f"{[*map(int, counts)]}): let those of all logs share nodes, or none"
            )

        def is_sharing(candidate: Scheduler) -> bool:
            return candidate.cores is True

        if obstacle := _obstacle(scheduler, is_sharing):
            parameter, value, default = obstacle
            if hasattr(scenario.workload.recipe, "cores_per_node") and not remedy:
                remedy = (
                    ", and so do whole nodes (workload.cores_per_node without platform.cores, in the shell "
                    "--cores-per-node without --shared)"
                )
            raise ScenarioError(
                f"{scheduler.name} does not support jobs that need more of a machine than a core ({need}) "
                f"with {parameter}={value!r}; {parameter}={default!r} does{remedy}"
            )
        raise ScenarioError(
            f"{scheduler.name} does not support jobs that need more of a machine than a core ({need}); "
            f"schedulers that support them: {_supporting(scheduler, is_sharing)}{remedy}"
        )


def check_carbon(applications: Applications, scenario: Scenario) -> None:
    """Raise ScenarioError if the series of carbon intensity begins after the first release."""
    intensity = scenario.platform.carbon_intensity
    first = scenario.workload.origin + float(applications.release[0])
    if intensity is not None and not intensity.is_constant and intensity.time[0] > first:
        raise ScenarioError(
            f"platform.power.carbon must begin by the first release, {first:g} s, got {intensity.time[0]:g} s"
        )


def check_speeds(
    applications: Applications, scheduler: Scheduler, platform: Platform, faults: Faults | None = None
) -> None:
    """Raise ScenarioError if machines differ in speed and the run of rigid jobs does not support that."""
    slowest, fastest = platform.extremes
    if slowest == fastest or not applications.rigid:
        return
    if not getattr(scheduler, "unequal_speeds", False):
        kinds = (kind for kind, _ in registered().values() if getattr(kind, "unequal_speeds", False))
        names = ", ".join(dict.fromkeys(kind.name for kind in kinds))
        raise ScenarioError(
            f"platform.speeds must be equal for rigid jobs under {scheduler.name}, got {slowest:g} to "
            f"{fastest:g} Mflop/s; schedulers of rigid jobs that support sites of different speeds: {names}"
        )
    if faults is not None:
        raise ScenarioError(
            f"platform.speeds must be equal for rigid jobs on machines that fail, got {slowest:g} to "
            f"{fastest:g} Mflop/s"
        )


def _first_constrained(applications: Applications) -> int:
    """Return the first application that cannot run on all machines."""
    assert applications.group is not None and applications.suited is not None
    suited = applications.suited
    return int((suited.sum(axis=1) < suited.shape[1])[applications.group].argmax())


def check_nodes(scheduler: Scheduler, nodes: NodeForm | None) -> None:
    """Raise ScenarioError if `scheduler` does not support `nodes` (`Scheduler.node_forms`)."""
    if nodes is None or ("interpreted" if nodes == "python" else nodes) in scheduler.node_forms:
        return
    reason = "its nodes have no compiled form" if nodes == "compiled" else "it has no node program"
    raise ScenarioError(f"{scheduler.name} does not support nodes={nodes!r}: {reason}")


def check_size(
    applications: Applications,
    platform: Platform,
    latency: float,
    load_profile: LoadProfile | None = None,
    bandwidth: Floats | None = None,
) -> None:
    """Raise ScenarioError if the run may last longer than the clock can count.

    The duration is computed at the smallest factor of `load_profile`.  The function also checks the latency,
    the numbers of tasks, and that each task takes at least 1 ns.

    Parameters
    ----------
    latency
        The latency of the network, s.
    bandwidth
        The bandwidth of the links over which tasks move data, bytes/s; None if no task moves data.
    """
    if latency > MAX_LATENCY:
        raise ScenarioError(f"network.latency must be at most {MAX_LATENCY:g} s, got {latency!r}")
    field, (smallest, largest) = "sizes" if applications.unequal else "task_size", applications.extremes()
    slowest, fastest = platform.extremes
    with np.errstate(over="ignore"):
        shortest = smallest / fastest * NS
        longest = float(largest.max() / slowest)
        work = float(applications.size.sum())
    for i in first_true(shortest < 1):
        raise ScenarioError(
            f"workload.{field} of application {i} must take at least 1 ns on the fastest machine, "
            f"got {smallest[i]:g} Mflop"
        )
    for i in first_true(applications.tasks >= 2**31):  # a machine counts its share in 32 bits
        raise ScenarioError(
            f"workload.tasks of application {i} must be at most {2**31 - 1}, got {applications.tasks[i]}"
        )
    if (tasks := int(applications.tasks.sum())) > 2**53:
        raise ScenarioError(f"workload.tasks must be at most 2**53 in total, got {tasks}")
    factor, condition = 1.0, ""
    if load_profile is not None:
        factor = float(load_profile.factors.min())
        condition = f" if machines run at {factor:g} of their speed"
    last = float(applications.ready.max())
    field = "not_before" if last > applications.release[-1] else field
    end = last + work / platform.aggregate_speed / factor
    longest /= factor
    if bandwidth is not None:
        # In the worst case, one machine with the slowest link moves all data.
        moved = total(np.maximum(*applications.moved()) * applications.tasks) / float(bandwidth.min())
        if moved * NS > NEVER / 4:
            raise ScenarioError(
                f"workload.input_bytes and workload.output_bytes must take at most {NEVER / 4 / NS:.3g} s "
                f"over one link, got {moved:.3g} s"
            )
    if max(end, longest) * NS > NEVER / 4:
        raise ScenarioError(
            f"workload.{field} must let the run end within {NEVER / 4 / NS:.3g} s, got at least "
            f"{max(end, longest):.3g} s{condition}"
        )


def check_contract(outcome: Outcome, applications: Applications, machines: int, now: int) -> dict[str, Table]:
    """Return the additional tables of `outcome`; raise SchedulerError if a column or table is invalid."""
    time_text = f"t = {now / NS} s:"
    if not isinstance(outcome, Outcome):
        raise SchedulerError(f"{time_text} finish() must return an Outcome, got {type(outcome).__name__}")
    required = _RIGID_COLUMNS if applications.rigid else _APPLICATION_COLUMNS
    if applications.cancel_at is not None:
        required = (*required, "cancelled")
    for table, columns, required_columns, reserved, rows in (
        ("applications", outcome.applications, required, _APPLICATION_NAMES, len(applications)),
        ("machines", outcome.machines, _MACHINE_COLUMNS, _MACHINE_NAMES, machines),
    ):
        for name in required_columns:
            if name not in columns:
                raise SchedulerError(f"{time_text} outcome.{table} must have the column {name!r}")
        for name, column in columns.items():
            if name in reserved:
                raise SchedulerError(
                    f"{time_text} outcome.{table} must not have {name!r}, which results already have"
                )
            if np.shape(column) != (rows,) or np.asarray(column).dtype.kind not in "biu":
                raise SchedulerError(
                    f"{time_text} outcome.{table}[{name!r}] must be {rows} whole numbers, "
                    f"got shape {np.shape(column)} and dtype {np.asarray(column).dtype}"
                )
    tables = {}
    for name, columns in outcome.tables.items():
        if name in (*CORE_TABLES, *RECORDS, "cycles"):
            raise SchedulerError(
                f"{time_text} outcome.tables must not have {name!r}, which results already have"
            )
        try:
            tables[check_name(name)] = Table(columns)
        except ValueError as error:
            raise SchedulerError(f"{time_text} outcome.tables[{name!r}]: {error}") from error
    if outcome.cycles:
        shapes = {np.shape(column) for column in outcome.cycles.values()}
        if set(outcome.cycles) != set(CYCLES) or shapes != {(len(applications),)}:
            raise SchedulerError(
                f"{time_text} outcome.cycles must have the columns {', '.join(CYCLES)}, each with "
                f"{len(applications)} entries, got {', '.join(outcome.cycles)} of shape "
                f"{', '.join(map(str, sorted(shapes)))}"
            )
        tables["cycles"] = Table(outcome.cycles)
    try:
        json.dumps(plain(outcome.facts))
    except (TypeError, ValueError, RecursionError) as error:
        raise SchedulerError(f"{time_text} outcome.facts: {error}") from error
    return tables


def record_tables(outcome: Outcome, now: int) -> dict[str, Table]:
    """Return the recorded tables, with times in s; raise SchedulerError if they are not complete."""
    tables = {}
    for name, names, columns in (
        ("schedule", SCHEDULE, outcome.schedule),
        ("arrivals", ARRIVALS, outcome.arrivals or {column: np.zeros(0, np.int64) for column in ARRIVALS}),
    ):
        if "task" in columns:
            names = (*names, *COPIES)
        shapes = {np.shape(columns.get(column, 0)) for column in names}
        if len(shapes) > 1 or len(shapes.pop()) != 1:
            raise SchedulerError(
                f"t = {now / NS} s: record requires outcome.{name} with columns {', '.join(names)} of equal "
                "length"
            )
        times = ("start", "end", "time")
        tables[name] = Table({c: columns[c] / NS if c in times else columns[c] for c in names})
    return tables


def check_invariants(
    outcome: Outcome, applications: Applications, platform: Platform, outages: Outages
) -> None:
    """Raise InvariantViolation if the outcome violates an invariant.

    Each task is completed exactly once, no application starts before its release, and no machine is busy for
    longer than its tasks take, or than it was up.
    """
    first, finish = outcome.applications["first_start"], outcome.applications["finish"]
    completed, tasks = outcome.applications["completed"], applications.tasks
    size, release = applications.size, applications.release_ns
    if outcome.run_times is not None:  # only a part of the work of killed jobs was done
        work_of_run = outcome.run_times * (platform.speeds[0] / NS)
        size = applications.width * np.minimum(work_of_run, applications.task_size)
    if (failed := rejected_applications(outcome, applications)).any():
        for i in first_true(failed & ((completed != 0) | (finish != -1))):
            raise InvariantViolation(
                f"application {i}: rejected or cancelled, but completed {completed[i]} tasks and finished at "
                f"{finish[i]} ns"
            )
        tasks, size = np.where(failed, 0, tasks), size[~failed]
        # Rejected applications need not have a start or finish.
        first = np.where(failed & (first == -1), release, first)
        finish = np.where(failed, first, finish)
    for i in first_true(completed != tasks):
        count = int((completed != tasks).sum()) - 1
        suffix = f"; {count} more such application{'s' if count > 1 else ''}" if count else ""
        raise InvariantViolation(
            f"application {i}: each of its {tasks[i]} tasks must be completed once, got {completed[i]} "
            f"completions{suffix}"
        )
    for i in first_true(first < release):
        raise InvariantViolation(
            f"application {i}: started at {first[i]} ns, before its release, {release[i]} ns"
        )
    for i in first_true(finish < first):
        raise InvariantViolation(
            f"application {i}: finished at {finish[i]} ns, before its start at {first[i]} ns"
        )
    task_counts = outcome.machines["tasks"]
    if int(task_counts.sum()) != int(tasks.sum()):
        raise InvariantViolation(
            f"machines: completed {int(task_counts.sum())} tasks, but the applications have "
            f"{int(tasks.sum())}"
        )
    last = int(outcome.applications["finish"].max())
    # Copies of completed tasks may end later than the last task.
    has_cancelled = "cancelled" in outcome.applications and np.any(outcome.applications["cancelled"])
    may_end_later = has_cancelled or outages.failures.any() or "ended" in outcome.machines
    end = max(last, outages.now if may_end_later else 0)
    cores: Integers | int = 1 if platform.cores is None else platform.cores
    busy, span = outcome.machines["busy"], max(0, end - int(release.min()))
    for u in first_true((busy < 0) | (busy > span * cores)):
        raise InvariantViolation(f"machine {u}: busy for {busy[u]} ns, but the run took {span} ns")
    end = max(last, outages.now)
    up_time = (end - outages.down_time(end)) * cores
    for u in first_true(busy > up_time):
        raise InvariantViolation(f"machine {u}: busy for {busy[u]} ns, but up for only {up_time[u]} ns")
    speeds = platform.speeds / NS
    work_done, work = float((busy * speeds).sum()), float(size.sum())
    # Durations of tasks are rounded to whole ns, and products and sums have rounding errors.
    slack = float(task_counts @ speeds) + 1e-9 * max(work, work_done)
    if outcome.cycles:
        _check_cycles(outcome, applications, work_done, slack)
    elif work_done < work - slack or (
        work_done > work + slack
        and not _may_have_lost_work(outcome)
        # all machines of a job are busy until the slowest one has ended
        and not (applications.rigid and not platform.has_equal_speeds)
    ):
        raise InvariantViolation(
            f"machines: worked for {work_done!r} Mflop, but the applications have {work!r} Mflop"
        )


def _may_have_lost_work(outcome: Outcome) -> bool:
    """Return whether failures or cancellations of jobs may have caused a loss of work."""
    columns = outcome.applications
    return any(np.any(columns[name]) for name in ("resubmitted", "cancelled") if name in columns)


def _check_cycles(outcome: Outcome, applications: Applications, work_done: float, slack: float) -> None:
    """Raise InvariantViolation unless all cycles add up to `work_done`, within `slack` Mflop."""
    for i in first_true(outcome.cycles["useful"] != applications.size):
        useful = float(outcome.cycles["useful"][i])
        raise InvariantViolation(
            f"application {i}: cycles.useful must be its size, {applications.size[i]!r} Mflop, got {useful!r}"
        )
    for name in CYCLES:
        for i in first_true(~(outcome.cycles[name] >= -slack)):
            raise InvariantViolation(
                f"application {i}: cycles.{name} must be >= 0 Mflop, got {outcome.cycles[name][i]!r}"
            )
    reported = math.fsum(total(outcome.cycles[name]) for name in CYCLES)
    if not abs(reported - work_done) <= slack:
        raise InvariantViolation(
            f"machines: worked for {work_done!r} Mflop, but useful and wasted cycles are {reported!r} Mflop"
        )


def unfinished_tasks(outcome: Outcome, applications: Applications) -> int:
    """Return the number of tasks that are neither completed nor rejected nor cancelled."""
    rest = applications.tasks - outcome.applications["completed"]
    return int(rest[~rejected_applications(outcome, applications)].sum())


def rejected_applications(outcome: Outcome, applications: Applications) -> NDArray[np.bool_]:
    """Return which applications the scheduler reports as rejected or cancelled: bool[applications]."""
    is_rejected = np.zeros(len(applications), np.bool_)
    for name in ("failed", "cancelled"):
        if (name == "cancelled" or applications.rigid) and name in outcome.applications:
            is_rejected |= np.asarray(outcome.applications[name]) != 0
    return is_rejected
