"""Limits of runs: simulated time, events and wall time; and that every rigid job that fits is run."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from gridsim.errors import SchedulerError
from gridsim.model.applications import Applications, durations
from gridsim.model.faults import ListedFaults
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Order
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NS
from gridsim.validation.times import cancelled

#: Events of a run of a scenario that is drawn; one that handles more never ends.
MOST_EVENTS = 200_000
#: Simulated s, after which a run counts as endless: the failures of an example are over by 40,000 s.
LONGEST = 1.0e7
#: s of wall time that a run may take.
PATIENCE = 60.0
#: The limits of a run: so small a scenario ends before them.
LIMITS: dict[str, Any] = {"time_limit": LONGEST, "events_limit": MOST_EVENTS}
#: The share of the time in which the processor must be busy, and how many times as long to wait if it is not.
_BUSY, _IDLE = 0.25, 10.0


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise SchedulerError inside the code that runs once it has taken `seconds` of wall time.

    Time counts in which the process waited for the processor or was stopped only beyond ten times as much.
    The error names the function and the line.  It comes again after up to 10 s, in case that the code catches
    it.
    There is no limit where there are no signals of timers (Windows), and outside of the main thread; machine
    code that never returns to Python is not interrupted.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    began, worked = time.monotonic(), time.process_time()

    def interrupt(_: int, frame: FrameType | None) -> None:
        busy, waited = time.process_time() - worked, time.monotonic() - began
        if busy < seconds * _BUSY and waited < seconds * _IDLE:
            return
        at = ""
        if frame is not None:
            code = frame.f_code
            at = f"; it is in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"
        raise SchedulerError(f"has not ended after {seconds:g} s{at}")

    before = signal.signal(signal.SIGALRM, interrupt)
    left = signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds, 10.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)


#: s that any scheduler needs at most to find machines, if all are free.
_SEARCH = 400.0


def unserved(result: Result, order: Order) -> str | None:
    """Return which rigid job was rejected although enough machines suit it that do not leave; else None.

    All these machines are up at the end, with nothing else to do.  A job with a deadline may be too late,
    unless that is far off and the job has the grid for itself; its user may cancel one: such jobs are
    excused.

    Parameters
    ----------
    order
        That the scheduler promises; where that is "list", one job that never fits holds up all later ones,
        which are excused, too.
    """
    scenario = result.scenario
    jobs = scenario.workload.realize(scenario.platform)
    stays = _stays(scenario)
    suited = [jobs.machines_for(job) for job in range(len(jobs))]
    fit: Integers = np.array([int((stays if these is None else stays & these).sum()) for these in suited])
    rejected = (result.applications["failed"] != 0) & ~cancelled(result)
    if order == "list":
        stuck = rejected & (fit < jobs.tasks)
        rejected &= ~np.maximum.accumulate(stuck)
    if jobs.deadline is not None:
        rejected &= np.isinf(jobs.deadline) | _alone(result, jobs)
    for job in np.flatnonzero(rejected & (fit >= jobs.tasks)).tolist():
        wanted = f"job {job}, which wants {jobs.tasks[job]} machines, was rejected"
        return f"{wanted}, and {fit[job]} that suit it are up at the end"
    return None


def _alone(result: Result, jobs: Applications) -> Bools:
    """Return which jobs have long enough to their deadlines, and the grid for themselves: bool[jobs].

    Until then no machine fails, and no other job is there that is not over.
    """
    assert jobs.deadline is not None and jobs.requested is not None
    if result.scenario.faults is not None:
        return np.zeros(len(jobs), np.bool_)
    finish, begin = result.applications["finish"], jobs.ready
    over = np.where(np.isnan(finish), np.inf, finish)
    among = (jobs.release[None, :] <= jobs.deadline[:, None]) & (over[None, :] >= begin[:, None])
    among &= ~np.eye(len(jobs), dtype=np.bool_)
    lasts = durations(jobs, float(result.scenario.platform.speeds[0])) / NS
    ample = jobs.deadline - begin >= 2.0 * np.maximum(lasts, jobs.requested) + _SEARCH
    alone: Bools = ample & ~among.any(axis=1)
    return alone


def _stays(scenario: Scenario) -> Bools:
    """Return which machines are up after the last failure: bool[machines]."""
    stays = np.ones(scenario.platform.nodes, np.bool_)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        assert isinstance(recipe, ListedFaults)  # as in all scenarios that are drawn
        stays[[u for u, up in zip(recipe.machine, recipe.up, strict=True) if math.isinf(up)]] = False
    return stays
