"""The classic mapping heuristics on matrices of expected times: which task goes to which machine.

Those of M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen and R. F. Freund, "Dynamic mapping of a class of
independent tasks onto heterogeneous computing systems", JPDC 59 (1999): immediate ones, which take tasks in
turn, and batch ones, which choose among all.  The unit of time is the caller's; ready times never fall.

A row may stand for several equal tasks.  Each row has a heap of completion times, of which only what comes
to the top is brought up to date: times only grow, so what lies below is no better than it seems.

`gridcore.reference.mapping` is the same in plain Python.
"""

from libc.math cimport INFINITY, isfinite
from libc.stdlib cimport free, malloc

from gridcore.edf cimport check_lengths, indices

import numpy as np

__all__ = ["map_batch", "map_in_turn"]

_IN_TURN = ("mct", "met", "olb", "switching", "kpb")
_BATCH = ("min-min", "max-min", "sufferage")
cdef enum:
    MCT, MET, OLB, SWITCHING, KPB
cdef enum:
    MIN_MIN, MAX_MIN, SUFFERAGE


cdef struct Item:
    double at
    Py_ssize_t machine


# --- arguments ------------------------------------------------------------------------------------

cdef int rule_of(object rule, tuple known) except -1:
    if rule not in known:
        raise ValueError(f"rule must be one of {known}, got {rule!r}")
    return known.index(rule)


cdef const double[:, ::1] matrix(object values):
    made = np.ascontiguousarray(values, np.float64)
    if made.ndim != 2:
        raise ValueError(f"etc must have two dimensions, got {made.ndim}")
    cdef const double[:, ::1] given = made
    cdef Py_ssize_t i, u
    for i in range(given.shape[0]):
        for u in range(given.shape[1]):
            if not 0.0 < given[i, u] < INFINITY:
                raise ValueError(f"etc[{i}, {u}] must be finite and > 0, got {given[i, u]!r}")
    return given


cdef double[::1] ready_times(object values, Py_ssize_t machines):
    cdef Py_ssize_t u
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        raise TypeError("ready must be a float64 array, it is changed in place")
    if values.ndim != 1:
        raise ValueError(f"ready must have one dimension, got {values.ndim}")
    if not values.flags.c_contiguous or not values.flags.writeable:
        raise ValueError("ready must be contiguous and writable, it is changed in place")
    cdef double[::1] made = values
    check_lengths(machines, made.shape[0], "the rows of etc", "ready")
    for u in range(machines):
        if not isfinite(made[u]) or made[u] < 0.0:
            raise ValueError(f"ready[{u}] must be finite and >= 0, got {made[u]!r}")
    return made


cdef long long total_of(const long long[::1] counts, Py_ssize_t rows, Py_ssize_t machines) except -1:
    cdef Py_ssize_t i
    cdef long long total = 0
    check_lengths(rows, counts.shape[0], "etc", "counts")
    for i in range(rows):
        if counts[i] > 0x7fffffffffff - total:
            raise ValueError(f"counts must add up to less than 2**47, got {counts[i]} in counts[{i}]")
        total += counts[i]
    if total and not machines:
        raise ValueError(f"etc must have a column, there are {total} tasks to map")
    return total


# --- heaps of machines ----------------------------------------------------------------------------

cdef inline bint before(Item a, Item b) noexcept nogil:
    return a.at < b.at or (a.at == b.at and a.machine < b.machine)


cdef inline void sink(Item* heap, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    cdef Item item = heap[k]
    cdef Py_ssize_t child = 2 * k + 1
    while child < n:
        if child + 1 < n and before(heap[child + 1], heap[child]):
            child += 1
        if not before(heap[child], item):
            break
        heap[k] = heap[child]
        k, child = child, 2 * child + 1
    heap[k] = item


cdef inline double completion(const double* ready, const double* etc, Py_ssize_t u) noexcept nogil:
    """When machine u would end the task of row `etc`; when it is ready, without one."""
    return ready[u] + etc[u] if etc != NULL else ready[u]


cdef inline void renew(Item* heap, Py_ssize_t n, const double* ready, const double* etc) noexcept nogil:
    """Make a heap of the machines that are in it."""
    cdef Py_ssize_t k
    for k in range(n):
        heap[k].at = completion(ready, etc, heap[k].machine)
    for k in range(n // 2 - 1, -1, -1):
        sink(heap, n, k)


cdef inline void fill(Item* heap, Py_ssize_t n, const double* ready, const double* etc) noexcept nogil:
    """Make a heap of all machines."""
    cdef Py_ssize_t u
    for u in range(n):
        heap[u].machine = u
    renew(heap, n, ready, etc)


cdef inline void settle(Item* heap, Py_ssize_t n, Py_ssize_t k, const double* ready,
                        const double* etc) noexcept nogil:
    """Bring up what is first of all below place k, as ready times are now."""
    cdef double at
    while k < n:
        at = completion(ready, etc, heap[k].machine)
        if at == heap[k].at:
            return
        heap[k].at = at
        sink(heap, n, k)


cdef inline double second_best(Item* heap, Py_ssize_t n, const double* ready, const double* etc) noexcept nogil:
    """The second earliest completion time of a heap whose top is settled; infinite of one machine."""
    cdef double second = INFINITY
    settle(heap, n, 1, ready, etc)
    settle(heap, n, 2, ready, etc)
    if n > 1:
        second = heap[1].at
    if n > 2 and heap[2].at < second:
        second = heap[2].at
    return second


# --- tasks in turn --------------------------------------------------------------------------------

def map_in_turn(etc, counts, ready, rule, *, double percent=20.0, double low=0.6, double high=0.9,
                bint on_met=False):
    """Map tasks one by one, in the order of rows, each as soon as it is looked at.

    Parameters
    ----------
    etc : float64[rows, machines] > 0, the expected time of a task of each row on each machine.
    counts : int64[rows] >= 0, how many equal tasks a row stands for.
    ready : float64[machines] >= 0, when machines have done what they have; changed in place.
    rule : of machines, for each task (ties: the lowest index),
        "mct": the one that would complete it first, ready + etc;
        "met": the one that takes the least time for it, however much it has to do;
        "olb": the one that is ready first, whatever the task takes there;
        "kpb": "mct" among the ceil(percent * machines / 100) (to a billionth) that take the least time;
        "switching": "mct", from where the balance min(ready) / max(ready) is `high` or more on "met", and
        from where it is `low` or less on "mct" again.  While max(ready) is 0 it stays as it is.
    percent : in 0..100 and not 0; 100 is "mct", 100 / machines is "met".
    low, high : 0 <= low < high <= 1.
    on_met : whether "switching" is on "met" when it begins.

    The balance is of ready times as they are given.  Those of a clock that has run for long are all large,
    and their balance is near 1 whatever machines have to do: give what is left to do from now on instead.

    Returns (machine, on_met): int64[tasks], and as it is in the end.
    O(machines) for each row, and then O(log(machines)) for each task.
    Raises ValueError naming the argument, its index and value, TypeError for a `ready` of another type.
    """
    cdef const double[:, ::1] e = matrix(etc)
    cdef Py_ssize_t rows = e.shape[0], n = e.shape[1], few
    cdef const long long[::1] c = indices(counts, "counts", 0, 0x800000000000)
    cdef double[::1] r = ready_times(ready, n)
    cdef long long total = total_of(c, rows, n)
    cdef int which = rule_of(rule, _IN_TURN)
    if not 0.0 < percent <= 100.0:
        raise ValueError(f"percent must be in 0..100 and not 0, got {percent!r}")
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"low and high must be 0 <= low < high <= 1, got {low!r} and {high!r}")
    machine = np.zeros(total, np.int64)
    cdef long long[::1] out = machine
    if total == 0:
        return machine, bool(on_met)
    few = max(1, int(np.ceil(percent * n / 100.0 - 1e-9)))
    cdef Item* heaps = <Item*> malloc(2 * n * sizeof(Item))
    if heaps == NULL:
        raise MemoryError
    with nogil:
        on_met = in_turn(e, c, &r[0], which, few, low, high, on_met, out, heaps)
    free(heaps)
    return machine, bool(on_met)


cdef bint in_turn(const double[:, ::1] e, const long long[::1] counts, double* ready, int rule, Py_ssize_t few,
                  double low, double high, bint on_met, long long[::1] out, Item* heaps) noexcept nogil:
    cdef Py_ssize_t rows = e.shape[0], n = e.shape[1], i, k, u, fastest, m
    cdef long long task, at = 0
    cdef const double* etc
    cdef Item* idle = heaps                    # by ready time
    cdef Item* heap                            # by completion time, of the m machines that are asked
    cdef Item first
    cdef double latest = 0.0
    if rule == OLB or rule == SWITCHING:
        fill(idle, n, ready, NULL)
        for u in range(n):
            latest = max(latest, ready[u])
    for i in range(rows):
        if counts[i] == 0:
            continue
        etc, heap, m, fastest = &e[i, 0], heaps + n, n, 0
        for u in range(1, n):
            if etc[u] < etc[fastest]:
                fastest = u
        if rule == KPB and few < n:
            for u in range(n):
                heap[u].at, heap[u].machine = etc[u], u
            for k in range(n // 2 - 1, -1, -1):
                sink(heap, n, k)
            # the few fastest, taken from the top, end at the end
            for k in range(n - 1, n - 1 - few, -1):
                first, heap[0] = heap[0], heap[k]
                heap[k] = first
                sink(heap, k, 0)
            heap, m = heap + n - few, few
            renew(heap, m, ready, etc)
        elif rule == MCT or rule == SWITCHING or rule == KPB:
            fill(heap, n, ready, etc)
        for task in range(counts[i]):
            if rule == SWITCHING and latest > 0.0:
                settle(idle, n, 0, ready, NULL)
                if on_met:
                    on_met = idle[0].at / latest > low
                else:
                    on_met = idle[0].at / latest >= high
            if rule == MET or (rule == SWITCHING and on_met):
                u = fastest
            elif rule == OLB:
                settle(idle, n, 0, ready, NULL)
                u = idle[0].machine
            else:
                settle(heap, m, 0, ready, etc)
                u = heap[0].machine
            ready[u] += etc[u]
            latest = max(latest, ready[u])
            out[at] = u
            at += 1
    return on_met


# --- tasks in batches -----------------------------------------------------------------------------

def map_batch(etc, counts, ready, rule):
    """Map all tasks, choosing each time among those that are left.

    Parameters
    ----------
    etc, counts, ready : as for `map_in_turn`.
    rule : the best time of a task is the earliest at which a machine would complete it,
        "min-min": the task whose best time is the earliest goes to the machine that has it;
        "max-min": the task whose best time is the latest does;
        "sufferage": in passes, as published.  In the order of rows each task claims the machine of its best
        time.  If that is claimed in this pass already, the task that suffers more without it has it, second
        best time less best (the one that has it, if they suffer alike); the other waits for the next pass.
        At its end the claims become assignments.  On one machine all suffer alike.
        Ties go to the lowest row and the lowest machine.

    Returns (row, machine) int64[tasks] in the order of assignment; those of one pass by machine.
    Memory for rows * machines items of 16 bytes.  For each assignment O(rows), and O(log(machines)) mostly for
    each row that had the same best machine; for sufferage that is for each pass.
    Raises as `map_in_turn`.
    """
    cdef const double[:, ::1] e = matrix(etc)
    cdef Py_ssize_t rows = e.shape[0], n = e.shape[1], i, alive = 0
    cdef const long long[::1] c = indices(counts, "counts", 0, 0x800000000000)
    cdef double[::1] r = ready_times(ready, n)
    cdef long long total = total_of(c, rows, n)
    cdef int which = rule_of(rule, _BATCH)
    found = np.zeros((2, total), np.int64)
    cdef long long[:, ::1] out = found
    if total == 0:
        return found[0], found[1]
    left_array = np.array(c)
    cdef long long[::1] left = left_array
    row_array = np.flatnonzero(left_array)
    cdef long long[::1] row = row_array                                  # those with tasks left
    alive = row.shape[0]
    cdef long long[::1] best = np.zeros(alive, np.int64)                 # machine of the best time
    cdef double[::1] time = np.zeros(alive)                              # best time, or how much a task suffers
    cdef long long[::1] claim = np.full(n, -1, np.int64)
    cdef Item** heap = <Item**> malloc(rows * sizeof(Item*))
    cdef Item* items = <Item*> malloc(alive * n * sizeof(Item))
    if heap == NULL or items == NULL:
        free(heap)
        free(items)
        raise MemoryError
    with nogil:
        for i in range(alive):
            heap[row[i]] = items + i * n
            fill(heap[row[i]], n, &r[0], &e[row[i], 0])
            best[i] = -1
        if which == SUFFERAGE:
            by_sufferage(e, &r[0], left, row, best, time, claim, heap, out)
        else:
            by_time(e, &r[0], left, row, best, time, which == MIN_MIN, heap, out)
    free(heap)
    free(items)
    return found[0], found[1]


cdef void by_time(const double[:, ::1] e, double* ready, long long[::1] left, long long[::1] row,
                  long long[::1] best, double[::1] time, bint earliest, Item** heap,
                  long long[:, ::1] out) noexcept nogil:
    cdef Py_ssize_t n = e.shape[1], alive = row.shape[0], k, kept, chosen
    cdef long long i, at, total = out.shape[1], last = -1
    for at in range(total):
        kept = 0
        chosen = -1
        for k in range(alive):
            i = row[k]
            if left[i] == 0:
                continue
            if best[k] == last:
                settle(heap[i], n, 0, ready, &e[i, 0])
                best[k], time[k] = heap[i][0].machine, heap[i][0].at
            row[kept], best[kept], time[kept] = i, best[k], time[k]
            if chosen < 0 or (time[kept] < time[chosen] if earliest else time[kept] > time[chosen]):
                chosen = kept
            kept += 1
        alive = kept
        i, last = row[chosen], best[chosen]
        ready[last] += e[i, last]
        left[i] -= 1
        out[0, at] = i
        out[1, at] = last


cdef void by_sufferage(const double[:, ::1] e, double* ready, long long[::1] left, long long[::1] row,
                       long long[::1] best, double[::1] time, long long[::1] claim, Item** heap,
                       long long[:, ::1] out) noexcept nogil:
    cdef Py_ssize_t n = e.shape[1], alive = row.shape[0], k, kept
    cdef long long i, u, at = 0, total = out.shape[1]
    cdef double second
    while at < total:
        kept = 0
        for k in range(alive):
            i = row[k]
            if left[i] == 0:
                continue
            settle(heap[i], n, 0, ready, &e[i, 0])
            second = second_best(heap[i], n, ready, &e[i, 0])
            u = heap[i][0].machine
            row[kept], best[kept], time[kept] = i, u, second - heap[i][0].at
            # further tasks of this row would not suffer more than this one
            if claim[u] < 0 or time[claim[u]] < time[kept]:
                claim[u] = kept
            kept += 1
        alive = kept
        for u in range(n):
            if claim[u] >= 0:
                i = row[claim[u]]
                ready[u] += e[i, u]
                left[i] -= 1
                out[0, at] = i
                out[1, at] = u
                at += 1
                claim[u] = -1
