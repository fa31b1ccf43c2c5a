"""The batch queue as its page defines it, compiled with Numba, for logs with thousands of waiting jobs.

All times are in ns.  The plan is a step function: how many machines are neither held by running jobs until
their expected ends nor reserved.  A job that has outlived its estimate is not in it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numba
import numpy as np

NEVER = 2**62


class Site(NamedTuple):
    """Jobs, machines and the plan; a shape is a number of machines with an estimate."""

    release: Any
    nodes: Any
    run: Any
    estimate: Any
    shape: Any  # shape of each job
    lengths: Any  # estimate of each shape
    free: Any  # the number of free machines
    ends: Any  # a heap of the true ends of the running jobs
    starts: Any
    times: Any  # first instant of each step of the plan
    numbers: Any  # number of machines in each step of the plan
    used: Any  # [first step in use, one after the last]
    reserved: Any  # reserved starts
    waits: Any  # whether a reservation begins directly after now, since too few machines are free
    known: Any  # per shape, an instant before which the plan has no start for a job of this shape


def starts(machines: int, release: Any, nodes: Any, run: Any, estimate: Any, **queue: Any) -> Any:
    """Return the start of each job, ns; the parameters are those of `BatchQueue`."""
    run = np.minimum(run, estimate) if queue.pop("kill", "never") == "at-limit" else run
    backfill, is_wfp = queue.pop("backfill", "easy"), queue.pop("order", "fcfs") == "wfp"
    depth = {"none": 0, "easy": queue.pop("depth", 1), "conservative": -1}[backfill]
    assert not queue and not (is_wfp and depth < 0)
    shapes, shape = np.unique(np.column_stack((nodes, estimate)), axis=0, return_inverse=True)
    jobs = [np.ascontiguousarray(c, np.int64) for c in (release, nodes, run, estimate, shape.ravel())]
    count, steps = len(jobs[0]), 4 * len(jobs[0]) + 4
    plan = np.zeros(steps, np.int64), np.full(steps, machines), np.array([0, 1])
    ends = numba.typed.List([(NEVER, -1)])
    reserved, waits = np.full(count, NEVER), np.zeros(count, np.bool_)
    known, free, begun = np.zeros(len(shapes), np.int64), np.array([machines]), np.full(count, -1)
    site = Site._make([*jobs, shapes[:, 1].copy(), free, ends, begun, *plan, reserved, waits, known])
    simulate(site, depth, is_wfp)
    return site.starts


@numba.njit  # type: ignore[untyped-decorator]
def simulate(site: Any, depth: int, is_wfp: bool) -> None:
    """Handle ends, releases and then starts at each instant at which something happens."""
    queue, coming, wake, count = np.empty(0, np.int64), 0, NEVER, len(site.nodes)
    while coming < count or len(queue):
        now = min(site.ends[0][0], wake)
        if coming < count:
            now = min(now, site.release[coming])
        assert now < NEVER
        site.used[0], is_early = step_of(site, now), False
        while site.ends[0][0] == now:
            job = heappop(site.ends)[1]
            site.free[0] += site.nodes[job]
            if site.starts[job] + site.estimate[job] > now:
                add(site, now, site.starts[job] + site.estimate[job], site.nodes[job])
                is_early = True
        first, was_free = coming, site.free[0]
        while coming < count and site.release[coming] == now:
            coming += 1
        if coming > first:
            queue = np.append(queue, np.arange(first, coming))
        if depth < 0:
            start_reserved(site, queue, now, is_early)
        elif site.free[0] and len(queue):
            key = np.zeros(len(queue) if is_wfp else 0)
            for i in range(len(key)):
                job = queue[i]
                key[i] = ((now - site.release[job]) / site.estimate[job]) ** 3.0 * site.nodes[job]
            start_in_order(site, queue, now, depth, key)
        if site.free[0] < was_free:
            queue = queue[site.starts[queue] < 0]
        wake = NEVER
        if depth < 0:
            for job in queue:
                if not site.waits[job] and site.reserved[job] < wake:
                    wake = site.reserved[job]


@numba.njit  # type: ignore[untyped-decorator]
def start_in_order(site: Any, queue: Any, now: int, depth: int, key: Any) -> None:
    """Start jobs, by their keys if they have any, that delay none of the first `depth` that do not fit."""
    reserved, head = [(0, 0)], 0
    while head < len(queue) and site.free[0] and (depth == 0 or len(reserved) <= depth):
        i = np.argmax(key) if len(key) else head
        job, head = queue[i], head + 1
        if len(key):
            key[i] = -1.0
        soonest = now + (site.nodes[job] > site.free[0])
        start = earliest(site, site.nodes[job], site.estimate[job], soonest, NEVER)
        if start > now and depth == 0:
            return
        if start > now:
            reserved.append((start, job))
            add(site, start, start + site.estimate[job], -site.nodes[job])
        else:
            begin(site, job, now)
    # once a job of a shape does not fit, no other job of this shape fits at this instant
    fits, left = np.full(len(site.lengths), -1), [0 for _ in range(0)]
    for i in range(0 if len(key) else head, len(queue)):
        job, shape = queue[i], site.shape[queue[i]]
        if site.nodes[job] <= site.free[0] and (len(key) == 0 or key[i] >= 0.0):
            if fits[shape] < 0:
                fits[shape] = earliest(site, site.nodes[job], site.estimate[job], now, now) == now
            if fits[shape]:
                left.append(i)
    if len(key) and len(left):
        fitting = np.array(left)
        left = list(fitting[np.argsort(-key[fitting], kind="mergesort")])
    for i in left:
        job, shape = queue[i], site.shape[queue[i]]
        if site.nodes[job] <= site.free[0] and fits[shape]:
            fits[shape] = earliest(site, site.nodes[job], site.estimate[job], now, now) == now
            if fits[shape]:
                begin(site, job, now)
    for start, job in reserved[1:]:
        add(site, start, start + site.estimate[job], site.nodes[job])


@numba.njit  # type: ignore[untyped-decorator]
def start_reserved(site: Any, queue: Any, now: int, moves: bool) -> None:
    """Make and move reservations in turn, and start the jobs whose reserved starts have come."""
    if moves:
        site.known[:] = 0
    is_delayed = True
    while is_delayed:
        is_delayed = False
        for job in queue:
            at, need, length = site.reserved[job], site.nodes[job], site.estimate[job]
            if site.starts[job] >= 0 or (now < at < NEVER and not moves):
                continue
            soonest, shape = now + (need > site.free[0]), site.shape[job]
            if at <= now:
                if at + length > now:  # release the rest of the reservation
                    add(site, now, at + length, need)
                if soonest == now:
                    begin(site, job, now)
                    continue
                site.known[:] = np.minimum(site.known, now - site.lengths + 1)
                is_delayed, at = True, NEVER
            limit = NEVER if at == NEVER else at - length
            start = earliest(site, need, length, max(soonest, site.known[shape]), limit)
            site.known[shape] = start
            if start > limit:  # the start may use machines of the job's own reservation
                if site.numbers[step_of(site, at - 1)] < need:
                    continue
                add(site, at, at + length, need)
                start = earliest(site, need, length, max(soonest, limit + 1), at - 1)
                add(site, at, at + length, -need)
                if start >= at:
                    continue
            if at < NEVER:
                add(site, at, at + length, need)
                site.known[:] = np.minimum(site.known, at - site.lengths + 1)
            if start == now:
                begin(site, job, now)
                continue
            site.reserved[job] = start
            site.waits[job] = start == now + 1 and site.numbers[step_of(site, now)] >= need
            add(site, start, start + length, -need)
        moves = True


@numba.njit  # type: ignore[untyped-decorator]
def begin(site: Any, job: int, now: int) -> None:
    """Start a job on free machines."""
    site.starts[job] = now
    site.free[0] -= site.nodes[job]
    heappush(site.ends, (now + site.run[job], job))
    add(site, now, now + site.estimate[job], -site.nodes[job])


@numba.njit  # type: ignore[untyped-decorator]
def step_of(site: Any, at: int) -> int:
    """Return the step of the plan that contains an instant."""
    first, last = site.used
    return first + np.searchsorted(site.times[first:last], at, side="right") - 1  # type: ignore[no-any-return]


@numba.njit  # type: ignore[untyped-decorator]
def add(site: Any, start: int, end: int, count: int) -> None:
    """Add to the numbers of machines in the plan from `start` until `end`; equal steps become one."""
    times, numbers, used = site.times, site.numbers, site.used
    for at in (start, end):
        step = step_of(site, at)
        if times[step] != at:
            for i in range(used[1], step + 1, -1):
                times[i], numbers[i] = times[i - 1], numbers[i - 1]
            times[step + 1], numbers[step + 1] = at, numbers[step]
            used[1] += 1
    first, last = step_of(site, start), step_of(site, end)
    numbers[first:last] += count
    for step in (last, first):
        if step > used[0] and numbers[step] == numbers[step - 1]:
            used[1] -= 1
            for i in range(step, used[1]):
                times[i], numbers[i] = times[i + 1], numbers[i + 1]


@numba.njit  # type: ignore[untyped-decorator]
def earliest(site: Any, need: int, length: int, after: int, limit: int) -> int:
    """Return the earliest start by the plan from `after` on; if none is by `limit`, some later instant."""
    start, step = after, step_of(site, after)
    while start <= limit and step < site.used[1] and site.times[step] < start + length:
        if site.numbers[step] < need:
            start = site.times[step + 1]
        step += 1
    return start
