"""Earliest-deadline-first queues of one processor: feasibility, minimum stretch, projection.

An entry is an application's share on the node: release r (s), size w (Mflop of the whole application)
and work p (Mflop still to do here). At a stretch S (s/Mflop) its deadline is r + S*w. All work is
available when the processor becomes free, so EDF is optimal: the deadlines can be met if and only if no
prefix of the EDF order holds more work than fits before its last deadline.

A deadline counts as met within 1e-12 relative. Entries without work left are ignored.
The reference implementation in plain Python, equal operation by operation, is `tests.reference.edf`.
"""

from libc.math cimport INFINITY, ceil, fabs, isfinite, isnan, rint
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cimport cython

import numpy as np

from gridcore.common.arguments cimport (
    FINITE, NOT_NEGATIVE, NUMBER, POSITIVE, check_array, check_entry, check_lengths, check_offsets, check_scalar,
    doubles, integers, refuse,
)

__all__ = ["meets_deadlines", "optimal_stretch", "project_queues"]

cdef double TOLERANCE = 1e-12
cdef double EPSILON = 2.220446049250313e-16
cdef double SMALLEST = 5e-324

_SPAN = "the queue takes longer than float64 can hold"


# --- the task that runs ---------------------------------------------------------------------------

cdef double running_floor(object running_release, object running_size, double free_at) except? -1.0:
    """Return the least stretch of the pinned running task, which ends at free_at; 0 without a running task."""
    cdef double release, size, value
    if running_release is None and running_size is None:
        return 0.0
    if running_release is None or running_size is None:
        raise ValueError("running_release and running_size require each other")
    release = running_release
    size = running_size
    check_scalar(release, "running_release", FINITE)
    check_scalar(size, "running_size", POSITIVE)
    value = (free_at - release) / size
    return value if value > 0.0 else 0.0


cdef tuple check_running(object running_release, object running_size, Py_ssize_t nodes):
    """Check the two arrays of running tasks (NaN for none) and return them as vectors."""
    cdef const double[::1] rr, rw
    cdef Py_ssize_t u
    if running_release is None or running_size is None:
        raise ValueError("running_release and running_size require each other")
    rr = doubles(running_release, "running_release")
    rw = doubles(running_size, "running_size")
    check_lengths(nodes, rr.shape[0], "offsets[1:]", "running_release")
    check_lengths(nodes, rw.shape[0], "offsets[1:]", "running_size")
    for u in range(nodes):
        if isnan(rr[u]) != isnan(rw[u]):
            raise ValueError(f"running_release[{u}] and running_size[{u}] must both be nan or both be numbers, "
                             f"got {rr[u]!r} and {rw[u]!r}")
        if not isnan(rr[u]):
            check_entry(rr[u], "running_release", u, FINITE)
            check_entry(rw[u], "running_size", u, POSITIVE)
    return rr, rw


# --- sorting --------------------------------------------------------------------------------------

cdef inline void insertion(double* key, int* order, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double v
    cdef int o
    for i in range(lo + 1, hi):
        v = key[i]
        o = order[i]
        j = i
        while j > lo and is_after(key[j - 1], order[j - 1], v, o):
            key[j] = key[j - 1]
            order[j] = order[j - 1]
            j -= 1
        key[j] = v
        order[j] = o


cdef void merge_sort(double* key, int* order, Py_ssize_t n, double* scratch) noexcept nogil:
    """Sort `key`, and `order` along with it, by bottom-up merging; `scratch` has 0.75*n + 1 doubles."""
    cdef Py_ssize_t width = 12, lo, mid, hi, left, l, r, k, half = (n + 1) >> 1
    cdef double* key2 = scratch
    cdef int* order2
    cdef bint right
    for lo in range(0, n, 12):
        insertion(key, order, lo, lo + 12 if lo + 12 < n else n)
    while width < n:
        lo = 0
        while lo + width < n:
            mid = lo + width
            hi = mid + width if mid + width < n else n
            if is_after(key[mid - 1], order[mid - 1], key[mid], order[mid]):
                left = width
                if left <= half:
                    # Copy the left run to scratch memory, and merge from the front.
                    order2 = <int*>(scratch + left)
                    memcpy(key2, key + lo, left * sizeof(double))
                    memcpy(order2, order + lo, left * sizeof(int))
                    l = 0
                    r = mid
                    k = lo
                    while l < left and r < hi:
                        right = is_after(key2[l], order2[l], key[r], order[r])
                        key[k] = key[r] if right else key2[l]
                        order[k] = order[r] if right else order2[l]
                        r += right
                        l += 1 - right
                        k += 1
                    while l < left:
                        key[k] = key2[l]
                        order[k] = order2[l]
                        l += 1
                        k += 1
                else:
                    # The right run is shorter: copy it, and merge from the back.
                    left = hi - mid
                    order2 = <int*>(scratch + left)
                    memcpy(key2, key + mid, left * sizeof(double))
                    memcpy(order2, order + mid, left * sizeof(int))
                    l = mid - 1
                    r = left - 1
                    k = hi - 1
                    while l >= lo and r >= 0:
                        right = is_after(key[l], order[l], key2[r], order2[r])
                        key[k] = key[l] if right else key2[r]
                        order[k] = order[l] if right else order2[r]
                        l -= right
                        r -= 1 - right
                        k -= 1
                    while r >= 0:
                        key[k] = key2[r]
                        order[k] = order2[r]
                        r -= 1
                        k -= 1
            lo = hi
        width *= 2


cdef bint sort_by_deadline(double* key, int* order, Py_ssize_t n, double* scratch) noexcept nogil:
    cdef Py_ssize_t i, j, moves = 0, budget = 4 * n + 160
    cdef double v
    cdef int o
    for i in range(1, n):
        v = key[i]
        o = order[i]
        if not is_after(key[i - 1], order[i - 1], v, o):
            continue
        j = i
        while j > 0 and is_after(key[j - 1], order[j - 1], v, o):
            key[j] = key[j - 1]
            order[j] = order[j - 1]
            j -= 1
        key[j] = v
        order[j] = o
        moves += i - j
        if moves > budget and n > 32:
            merge_sort(key, order, n, scratch)
            break
    return moves > 0


# --- minimum stretch ------------------------------------------------------------------------------

cdef inline double evaluate(const Queue* q, const int* order, double* end) noexcept nogil:
    """Return the stretch of the queue when served in this order; it is at least the floor.

    `end` becomes the end of each entry, s, in this order; -inf if it has no work, so it is never late.
    """
    cdef Py_ssize_t k
    cdef int i
    cdef double done = 0.0, best = q.floor, lag
    for k in range(q.n):
        i = order[k]
        end[k] = -INFINITY
        if q.work[i] > 0.0:
            done += q.work[i]
            end[k] = q.free_at + done / q.speed
            lag = end[k] - q.release[i]
            if lag > best * q.size[i]:
                best = lag / q.size[i]
    return best


cdef inline bint is_feasible(const Queue* q, const int* order, const double* deadline) noexcept nogil:
    """Return whether the queue meets its deadlines when served in this order; `deadline` is in the same order."""
    cdef Py_ssize_t k
    cdef int i
    cdef double done = 0.0
    for k in range(q.n):
        i = order[k]
        if q.work[i] > 0.0:
            done += q.work[i]
            if is_late(q.free_at + done / q.speed, deadline[k]):
                return False
    return True


cdef inline bint arrange(const Queue* q, double stretch, int* order, double* deadline, double* scratch) noexcept nogil:
    """Sort `order` and `deadline` in EDF order at `stretch`; return False if `order` was sorted."""
    cdef Py_ssize_t k
    cdef int i
    for k in range(q.n):
        i = order[k]
        deadline[k] = q.release[i] + stretch * q.size[i]
    return sort_by_deadline(deadline, order, q.n, scratch)


cdef double minimum_stretch(const Queue* q, int* order, double* scratch) noexcept nogil:
    """Return the exact minimum stretch, by the EDF fixed point; never below the floor.

    Each pass serves the queue in the EDF order at the last value, which cannot increase the value. When the
    value repeats, the entry that attains it ends at its deadline, and no entry before it has a later
    deadline, so no smaller value is feasible. In practice this takes two to four passes.
    """
    cdef double stretch, value, step
    cdef double* end = scratch + 2 * q.n
    if q.n == 0:
        return q.floor
    if q.n == 1:
        order[0] = 0
    stretch = evaluate(q, order, end)
    while arrange(q, stretch, order, scratch, scratch + q.n):
        value = evaluate(q, order, end)
        if not value < stretch:
            break
        stretch = value
    # r + S*w may round to less than the end from which S was computed: increase S by units in the last place.
    step = EPSILON
    while not is_met(end, scratch, q.n):
        # if the product underflows to 0, add the smallest positive number
        stretch += max(stretch * step, SMALLEST)
        step *= 2.0
        if arrange(q, stretch, order, scratch, scratch + q.n):
            evaluate(q, order, end)
    return stretch


cdef bint spans_float64(const Queue* q) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0.0, most = 0.0
    for i in range(q.n):
        total += q.work[i]
        if fabs(q.release[i]) > most:
            most = fabs(q.release[i])
    return isfinite(total / q.speed + fabs(q.free_at) + most)


cdef bint is_feasible_at(const Queue* q, double stretch, int* order, double* scratch) noexcept nogil:
    if stretch + stretch * TOLERANCE < q.floor:
        return False
    arrange(q, stretch, order, scratch, scratch + q.n)
    return is_feasible(q, order, scratch)


cdef double bisect(const Queue* q, int* order, double* scratch, double rtol) noexcept nogil:
    cdef double lo = q.floor, hi, mid
    if is_feasible_at(q, lo, order, scratch):
        return lo
    hi = 1.0 if lo < 1.0 else lo
    while not is_feasible_at(q, hi, order, scratch):
        lo = hi
        hi *= 2.0
    while hi - lo > rtol * hi:
        mid = lo + (hi - lo) * 0.5
        if not (lo < mid and mid < hi):
            break
        if is_feasible_at(q, mid, order, scratch):
            hi = mid
        else:
            lo = mid
    arrange(q, hi, order, scratch, scratch + q.n)  # the last stretch tried may not have been `hi`
    return hi


# --- Python level ---------------------------------------------------------------------------------

def meets_deadlines(work: ArrayLike, deadlines: ArrayLike, *, double speed, double now) -> bool:
    """Return whether every entry of one queue ends by its deadline (Algorithm 1).

    A deadline counts as met within 1e-12 relative. Time O(n), O(n log n) when unsorted.

    Parameters
    ----------
    work
        float64[n], Mflop >= 0, in any order. Entries without work are ignored.
    deadlines
        float64[n], s. ``+inf`` means no deadline.
    speed
        Mflop/s > 0.
    now
        s, when the processor is free to start.
    """
    cdef const double[::1] p = doubles(work, "work")
    cdef const double[::1] d = doubles(deadlines, "deadlines")
    cdef Py_ssize_t n = p.shape[0], k
    cdef double* key = NULL
    cdef int* order
    cdef double done = 0.0
    cdef bint met = True
    check_lengths(n, d.shape[0], "work", "deadlines")
    check_array(p, "work", NOT_NEGATIVE)
    check_array(d, "deadlines", NUMBER)
    check_scalar(speed, "speed", POSITIVE)
    check_scalar(now, "now", FINITE)
    if n == 0:
        return True
    key = <double*>malloc(n * (2 * sizeof(double) + sizeof(int)) + 16)
    if key == NULL:
        raise MemoryError()
    order = <int*>(key + 2 * n)
    with nogil:
        for k in range(n):
            key[k] = d[k]
            order[k] = <int>k
        sort_by_deadline(key, order, n, key + n)
        for k in range(n):
            if p[order[k]] > 0.0:
                done += p[order[k]]
                if is_late(now + done / speed, key[k]):
                    met = False
                    break
    free(key)
    return met


def optimal_stretch(release: ArrayLike, size: ArrayLike, work: ArrayLike, *, double speed, double now,
                    running_release: float | None = None, running_size: float | None = None,
                    str method: Literal["exact", "bisection"] = "exact", double rtol=1e-9) -> float:
    """Return the minimum stretch (s/Mflop) at which one queue meets all its deadlines.

    The result is never negative; 0.0 for an empty queue. Time O(n log n) for each of 2 to 4 passes
    (exact), about 40 passes (bisection).

    Parameters
    ----------
    release
        float64[n], s.
    size
        float64[n], Mflop > 0 of the whole application.
    work
        float64[n], Mflop >= 0 left on this node. Entries without work are ignored.
    speed
        Mflop/s > 0.
    now
        s, when the processor is free to start the queue: the end of the running task, if there is one.
    running_release, running_size
        Release (s) and size (Mflop) of the running task's application. The task ends at ``now`` and its own
        stretch, ``(now - running_release) / running_size``, bounds the result.
    method
        "exact" is the EDF fixed point, "bisection" the paper's Algorithm 2 with a relative tolerance.
    rtol
        Relative tolerance of the bisection; its result is feasible and at most this much too large.
    """
    cdef const double[::1] r = doubles(release, "release")
    cdef const double[::1] w = doubles(size, "size")
    cdef const double[::1] p = doubles(work, "work")
    cdef Queue q
    cdef Py_ssize_t k
    cdef double* scratch
    cdef int* order
    cdef double result
    cdef bint exact
    q.n = r.shape[0]
    check_lengths(q.n, w.shape[0], "release", "size")
    check_lengths(q.n, p.shape[0], "release", "work")
    check_array(r, "release", FINITE)
    check_array(w, "size", POSITIVE)
    check_array(p, "work", NOT_NEGATIVE)
    check_scalar(speed, "speed", POSITIVE)
    check_scalar(now, "now", FINITE)
    q.floor = running_floor(running_release, running_size, now)
    if method == "exact":
        exact = True
    elif method == "bisection":
        exact = False
        if not (rtol > 0.0 and rtol < 1.0):
            raise refuse("rtol", -1, "must be > 0 and < 1", rtol)
    else:
        raise ValueError(f"method must be 'exact' or 'bisection', got {method!r}")
    if q.n == 0:
        return q.floor
    q.release = &r[0]
    q.size = &w[0]
    q.work = &p[0]
    q.speed = speed
    q.free_at = now
    if not spans_float64(&q):
        raise OverflowError(_SPAN)
    scratch = <double*>malloc(q.n * (3 * sizeof(double) + sizeof(int)) + 16)
    if scratch == NULL:
        raise MemoryError()
    order = <int*>(scratch + 3 * q.n)
    with nogil:
        for k in range(q.n):
            order[k] = <int>k
        if exact:
            result = minimum_stretch(&q, order, scratch)
        else:
            result = bisect(&q, order, scratch, rtol)
    free(scratch)
    if not isfinite(result):
        raise OverflowError("the minimum stretch is too large for float64")
    return result


cdef Py_ssize_t n_started(double base, double a, double speed, double until, double done,
                          Py_ssize_t tasks) noexcept nogil:
    """Return how many of `tasks` tasks of `a` Mflop start before `until`, served one by one after `done` Mflop."""
    cdef double guess = ceil(((until - base) * speed - done) / a)
    cdef Py_ssize_t m
    if not guess > 0.0:
        m = 0
    elif guess >= tasks:
        m = tasks
    else:
        m = <Py_ssize_t>guess
    while m > 0 and base + (done + (m - 1) * a) / speed >= until:
        m -= 1
    while m < tasks and base + (done + m * a) / speed < until:
        m += 1
    return m


def project_queues(offsets: ArrayLike, release: ArrayLike, size: ArrayLike, work: ArrayLike, task_size: ArrayLike, *,
                   speed: ArrayLike, free_at: ArrayLike, until: float, bint preemptive=False,
                   running_release: ArrayLike | None = None,
                   running_size: ArrayLike | None = None) -> tuple[Floats, Floats, Integers]:
    """Return the queues that many nodes will hold at a later instant, if nothing arrives in the meantime.

    Each node serves its queue from ``free_at`` in EDF order at its own minimum stretch. Whole tasks that have
    started before ``until`` leave the queue; with ``preemptive``, only the work done leaves it.

    Parameters
    ----------
    offsets
        int64[nodes + 1]; the entries of node u are ``offsets[u]`` up to ``offsets[u + 1]``.
    release, size, work
        float64[entries] as in `optimal_stretch`.
    task_size
        float64[entries], Mflop > 0 of one task; without ``preemptive`` the work of an entry must
        be a whole number of tasks.
    speed, free_at
        float64[nodes]; Mflop/s, and the instant (s) from which the queue can be served.
    until
        s; a scalar for all nodes.
    running_release, running_size
        float64[nodes] or None; the pinned task that ends at ``free_at``;
        NaN for none.

    Returns
    -------
    work_left
        float64[entries], Mflop.
    free_at
        float64[nodes], s; when the processor can start what is left: ``max(until, free_at)``, or the
        end of the task that runs at ``until`` and is pinned.
    running
        int64[nodes]; the entry whose task runs at ``until`` after having started in this
        projection, else -1 (with ``preemptive``: the entry that is partly done).
    """
    cdef const double[::1] r = doubles(release, "release")
    cdef const double[::1] w = doubles(size, "size")
    cdef const double[::1] p = doubles(work, "work")
    cdef const double[::1] a = doubles(task_size, "task_size")
    cdef const double[::1] s = doubles(speed, "speed")
    cdef const double[::1] b = doubles(free_at, "free_at")
    cdef const double[::1] rr, rw
    cdef const long long[::1] off = integers(offsets, "offsets")
    cdef double instant = until
    cdef Py_ssize_t nodes, entries = r.shape[0], u, k, e, m, longest = 0, tasks, at
    cdef double* scratch
    cdef int* order
    cdef Queue q
    cdef double done, end, floor_, capacity, n_tasks
    cdef bint has_running = running_release is not None or running_size is not None, overflow = False
    check_lengths(entries, w.shape[0], "release", "size")
    check_lengths(entries, p.shape[0], "release", "work")
    check_lengths(entries, a.shape[0], "release", "task_size")
    check_offsets(off, entries)
    nodes = off.shape[0] - 1
    check_lengths(nodes, s.shape[0], "offsets[1:]", "speed")
    check_lengths(nodes, b.shape[0], "offsets[1:]", "free_at")
    check_array(r, "release", FINITE)
    check_array(w, "size", POSITIVE)
    check_array(p, "work", NOT_NEGATIVE)
    check_array(a, "task_size", POSITIVE)
    check_array(s, "speed", POSITIVE)
    check_array(b, "free_at", FINITE)
    check_scalar(instant, "until", FINITE)
    if not preemptive:
        for k in range(entries):
            n_tasks = rint(p[k] / a[k])
            if not fabs(p[k] - n_tasks * a[k]) <= 1e-9 * a[k] or n_tasks > 9007199254740992.0:
                raise refuse("work", k, f"must be a whole number of tasks of {a[k]!r}", p[k])
    if has_running:
        rr, rw = check_running(running_release, running_size, nodes)
    left_array = np.array(p, dtype=np.float64)
    end_array = np.empty(nodes, dtype=np.float64)
    running_array = np.empty(nodes, dtype=np.int64)
    cdef double[::1] left = left_array          # OUT
    cdef double[::1] out_end = end_array        # OUT
    cdef long long[::1] out_running = running_array.view(np.longlong)  # OUT
    for u in range(nodes):
        if off[u + 1] - off[u] > longest:
            longest = off[u + 1] - off[u]
    scratch = <double*>malloc(longest * (3 * sizeof(double) + sizeof(int)) + 16)
    if scratch == NULL:
        raise MemoryError()
    order = <int*>(scratch + 3 * longest)
    with nogil:
        for u in range(nodes):
            q.n = off[u + 1] - off[u]
            q.speed = s[u]
            q.free_at = b[u]
            q.floor = 0.0
            if has_running and not isnan(rr[u]):
                floor_ = (b[u] - rr[u]) / rw[u]
                q.floor = floor_ if floor_ > 0.0 else 0.0
            out_running[u] = -1
            out_end[u] = b[u] if b[u] > instant else instant
            if q.n == 0 or not b[u] < instant:
                continue
            q.release = &r[off[u]]
            q.size = &w[off[u]]
            q.work = &p[off[u]]
            for k in range(q.n):
                order[k] = <int>k
            if not spans_float64(&q) or not isfinite(minimum_stretch(&q, order, scratch)):
                overflow = True
                break
            done = 0.0
            for k in range(q.n):
                at = off[u] + order[k]
                if not p[at] > 0.0:
                    continue
                if preemptive:
                    capacity = (instant - b[u]) * s[u] - done
                    if not capacity > 0.0:
                        break
                    if capacity < p[at]:
                        left[at] = p[at] - capacity
                        out_running[u] = at
                        break
                    left[at] = 0.0
                    done += p[at]
                else:
                    tasks = <Py_ssize_t>rint(p[at] / a[at])
                    m = n_started(b[u], a[at], s[u], instant, done, tasks)
                    if m == 0:
                        break
                    left[at] = (tasks - m) * a[at]
                    done += m * a[at]
                    end = b[u] + done / s[u]
                    if end > instant:
                        out_end[u] = end
                        out_running[u] = at
                    if m < tasks:
                        break
    free(scratch)
    if overflow:
        raise OverflowError(_SPAN)
    return left_array, end_array, running_array
