"""Limits of runs (simulated time, events, wall time), and the check that rigid jobs that fit are run."""

from __future__ import annotations

import dataclasses
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import Applications, durations
from gridsim.model.capacity import MachineCapacity
from gridsim.model.faults import ListedFaults
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.scheduling.contract import Order, Scheduler
from gridsim.scheduling.nodes.handler_errors import handler_call
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NS
from gridsim.testing.violation import failed_run
from gridsim.validation.times import cancelled_jobs

#: Maximum number of events in a run of a random scenario; a run with more counts as endless.
MAX_EVENTS = 200_000
#: Simulated time (s) after which a run counts as endless; failures of random scenarios end by 40,000 s.
MAX_SIMULATED_TIME = 1.0e7
#: Wall time (s) that a run may take.
WALL_TIME_LIMIT = 60.0
#: Limits of a run that are out of reach of small scenarios.
LIMITS: dict[str, Any] = {"time_limit": MAX_SIMULATED_TIME, "events_limit": MAX_EVENTS}
#: Time (s) that a handler may take once the time of a check is over; a longer call counts as endless.
HANDLER_TIME = 5.0
#: Variants of a scenario whose runs may reach a limit although those of the scenario itself do not.
SLOW_MESSAGES = "messages take long"
SLOW_MESSAGES_AND_FAILURE = "messages take long and a machine is down"
OTHER_FUTURE = "other applications or failures follow"
#: If the process is busy for less than `_MIN_BUSY_SHARE` of the wall time, its limit is multiplied by
#: `_IDLE_FACTOR`.
_MIN_BUSY_SHARE, _IDLE_FACTOR = 0.25, 10.0


@contextmanager
def skip_endless(skipped_variants: set[str], variant: str) -> Iterator[None]:
    """Leave the context if a run in it reaches one of `LIMITS`, and add `variant` to `skipped_variants`."""
    try:
        yield
    except (ScenarioError, SchedulerError) as error:
        if not any(limit in str(error) for limit in LIMITS):
            raise
        skipped_variants.add(variant)


@contextmanager
def report_errors(scenario: Scenario, scheduler: Scheduler) -> Iterator[None]:
    """Report an error in the context as a violation of "runs", unless the run reaches one of `LIMITS`."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if any(limit in str(error) for limit in LIMITS):
            raise
        raise failed_run(error, scenario, scheduler) from error


@contextmanager
def limit_wall_time(seconds: float, handlers_until: float = math.inf) -> Iterator[None]:
    """Interrupt the code in the context after `seconds` of wall time.

    If the process was stopped or waited for the processor most of the time, the limit is ten times as long.

    Parameters
    ----------
    handlers_until
        Time (of `time.monotonic`) from which on a call of an interpreted handler may last `HANDLER_TIME` s.

    Raises
    ------
    SchedulerError
        When the time is over; the error names the function and the line.  It is raised again after at most
        10 s, in case the code catches it.

    Notes
    -----
    There is no limit on systems without timer signals (Windows) or outside the main thread.  Machine code
    that never returns to Python is not interrupted.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    start, start_cpu_time = time.monotonic(), time.process_time()
    call: FrameType | None = None  # the call of a handler that was running at the last signal

    def interrupt(_: int, frame: FrameType | None) -> None:
        nonlocal call
        busy, now = time.process_time() - start_cpu_time, time.monotonic()
        last_call, call = call, handler_call(frame) if now >= handlers_until else None
        if call is not None and call is last_call:
            raise SchedulerError("a handler has not returned long after the time limit of the check")
        elapsed = now - start
        if elapsed < seconds or busy < seconds * _MIN_BUSY_SHARE and elapsed < seconds * _IDLE_FACTOR:
            return
        place = ""
        if frame is not None:
            code = frame.f_code
            place = f"; it is in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"
        raise SchedulerError(f"the test has not ended after {seconds:g} s{place}")

    until_first, interval = seconds, min(seconds, 10.0)
    if handlers_until < math.inf:
        until_first, interval = min(seconds, max(handlers_until - start, HANDLER_TIME)), HANDLER_TIME
    previous_handler = signal.signal(signal.SIGALRM, interrupt)
    previous_timer = signal.setitimer(signal.ITIMER_REAL, until_first, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *previous_timer)
        signal.signal(signal.SIGALRM, previous_handler)


#: Time (s) within which any scheduler finds machines if all are free.
_SEARCH_TIME = 400.0


def wrongly_rejected_job(result: Result, order: Order) -> str | None:
    """Describe a rigid job that was rejected although enough machines suit it; None if there is none.

    These machines must be up at the end of the run, when they are idle.  Cancelled jobs may be rejected, and
    so may jobs with a deadline, unless the deadline is far off and no other job competes.

    Parameters
    ----------
    order
        The order that the scheduler promises.  With "list", a job that never fits blocks all later jobs,
        which may then also be rejected.
    """
    scenario = result.scenario
    jobs = scenario.workload.realize(scenario.platform)
    is_up = _is_up_at_end(scenario)
    fitting_tasks: Integers = np.array([_room(scenario, jobs, job, is_up) for job in range(len(jobs))])
    is_rejected = (result.applications["failed"] != 0) & ~cancelled_jobs(result)
    if jobs.predecessors is not None and jobs.predecessor_offsets is not None:
        # a job is not released if one before it never ends
        of = np.repeat(np.arange(len(jobs)), np.diff(jobs.predecessor_offsets))
        is_rejected[of[np.isnan(result.applications["finish"])[jobs.predecessors]]] = False
    if order == "list":
        never_fits = is_rejected & (fitting_tasks < jobs.tasks)
        is_rejected &= ~np.maximum.accumulate(never_fits)
    if jobs.deadline is not None:
        is_rejected &= np.isinf(jobs.deadline) | _has_ample_time(result, jobs)
    for job in np.flatnonzero(is_rejected & (fitting_tasks >= jobs.tasks)).tolist():
        return (
            f"job {job} was rejected, although it has {jobs.tasks[job]} tasks, and the suitable machines "
            f"that are up at the end have room for {fitting_tasks[job]}"
        )
    return None


#: Time (s) from the end of a run to the release of a further job, and its run time.
_REST, _LAST_RUN_TIME = 1000.0, 10.0


def with_last_job(result: Result, tasks: int | None = None) -> Scenario | None:
    """Return the scenario of a run of rigid jobs with a further job after its last event.

    It runs unless the scheduler has lost something of a machine, such as the claim of an earlier job.  None
    if no machine is up then, or if the run was ended by its time limit.

    Parameters
    ----------
    tasks
        The number of its tasks, which take a core each; None for one on each core that is up.
    """
    scenario, recipe = result.scenario, result.scenario.workload.recipe
    assert isinstance(recipe, JobListRecipe)
    applications, times = result.applications, [result.provenance["clock_seconds"]]
    if scenario.faults is not None and isinstance(scenario.faults.recipe, ListedFaults):
        times += [*scenario.faults.recipe.down, *scenario.faults.recipe.up]
    times += [*applications["release"], *applications["finish"]]  # NaN if a job has not ended
    release = max(time for time in times if math.isfinite(time)) + _REST
    if release >= MAX_SIMULATED_TIME:
        return None
    row: dict[str, Any] = {
        "release": release,
        "nodes": cores_up_at_end(scenario) if tasks is None else tasks,
        **dict.fromkeys(("run_time", "requested"), _LAST_RUN_TIME),
        "submitter": (recipe.submitter or (0,))[0],
        **{"cores": 1, "gpus": 0, "tasks_per_machine": 0, "exclusive": 0},
        **{"memory": 0.0, "disk": 0.0, "kinds": "", "after": (), "think_time": 0.0},
        **{"user": 0, "queue": 0, "priority": 0.0},
        **{"not_before": release, "deadline": math.inf, "cancel_at": math.inf},
    }
    columns = {name: getattr(recipe, name) for name in row}
    longer = {name: (*column, row[name]) for name, column in columns.items() if column is not None}
    if recipe.submitter is None:
        del longer["submitter"]
    workload = Workload(msgspec.structs.replace(recipe, **longer))
    return dataclasses.replace(scenario, workload=workload) if row["nodes"] else None


def only_last_job(scenario: Scenario) -> Scenario:
    """Return the scenario with the last of its rigid jobs only."""
    recipe = scenario.workload.recipe
    assert isinstance(recipe, JobListRecipe)
    columns = {name: getattr(recipe, name) for name in recipe.__struct_fields__ if name != "origin"}
    last = {name: tuple(column)[-1:] for name, column in columns.items() if column is not None}
    workload = Workload(msgspec.structs.replace(recipe, **last))
    return dataclasses.replace(scenario, workload=workload)


def cores_up_at_end(scenario: Scenario) -> int:
    """Return the number of cores of the machines that are up at the end of the run."""
    is_up, cores = _is_up_at_end(scenario), scenario.platform.cores
    return int(is_up.sum() if cores is None else cores[is_up].sum())


def _room(scenario: Scenario, jobs: Applications, job: int, is_up: Bools) -> int:
    """Return the number of tasks of `job` for which suitable machines that are up have room."""
    platform, suitable = scenario.platform, jobs.machines_for(job)
    machines = is_up if suitable is None else is_up & suitable
    capacity = MachineCapacity.of(platform.nodes, platform.cores, platform.attributes, platform.gpus)
    own = slice(job, job + 1)
    columns = {
        name: None if (column := getattr(jobs, name)) is None else column[own]
        for name in ("cores", "gpus", "tasks_per_machine", "memory")
    }
    usable = MachineCapacity(*(column * machines for column in capacity))
    return int(usable.room(np.zeros(1, np.int64), **columns)[0])


def _has_ample_time(result: Result, jobs: Applications) -> Bools:
    """Return which jobs have a distant deadline and no competitors until then: bool[jobs].

    If machines fail, it is false for all jobs.
    """
    assert jobs.deadline is not None and jobs.requested is not None
    if result.scenario.faults is not None:
        return np.zeros(len(jobs), np.bool_)
    finish, begin = result.applications["finish"], jobs.ready
    end = np.where(np.isnan(finish), np.inf, finish)
    overlaps = (jobs.release[None, :] <= jobs.deadline[:, None]) & (end[None, :] >= begin[:, None])
    overlaps &= ~np.eye(len(jobs), dtype=np.bool_)
    run_time = durations(jobs, float(result.scenario.platform.speeds[0])) / NS
    is_ample = jobs.deadline - begin >= 2.0 * np.maximum(run_time, jobs.requested) + _SEARCH_TIME
    is_alone: Bools = is_ample & ~overlaps.any(axis=1)
    return is_alone


def _is_up_at_end(scenario: Scenario) -> Bools:
    """Return which machines are up at the end of the run: bool[machines]."""
    is_up = np.ones(scenario.platform.nodes, np.bool_)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        assert isinstance(recipe, ListedFaults)  # random scenarios have no other recipe
        is_up[[u for u, up in zip(recipe.machine, recipe.up, strict=True) if math.isinf(up)]] = False
    return is_up
