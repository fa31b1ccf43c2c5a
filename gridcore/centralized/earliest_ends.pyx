"""Binding whole tasks to the machines that would end them first.

Times are int64 nanoseconds, durations as in ``gridcore/centralized/durations.pxd``.  Bindings are final.

The reference implementation is `tests.reference.earliest_ends`.
"""

from libc.stdlib cimport free, malloc

from gridcore.centralized.durations cimport duration
from gridcore.common.arguments cimport (
    POSITIVE, _Guard, check_array, check_lengths, check_scalar, doubles, guard, writable,
)
from gridcore.common.heap cimport Entry, heap_make, heap_pop, heap_push, heap_settle
from gridcore.common.instants cimport NEVER

import numpy as np

__all__ = ["EarliestEnds", "bind_earliest"]

# The greatest float64 below 2**63.
cdef long long _MAX_FLOAT_INSTANT = 9223372036854774784


def bind_earliest(free_at: Integers, speed: ArrayLike, double task_size, n_tasks: SupportsIndex,
                  long long now) -> Integers:
    """Bind equal tasks one by one, each to the machine that would end it first; ties to the lowest id.

    Returns int64[machines], the number of tasks bound to each machine.  A machine without new tasks keeps its
    `free_at`.

    A machine runs its tasks one after another, so its next tasks would end at equal intervals.  Of these ends, the
    `n_tasks` earliest over all machines are taken: most of them in bulk, up to a computed instant, and the rest with a
    heap.  Time O(machines * log(machines)) for any number of tasks.

    Parameters
    ----------
    free_at
        int64[machines], ns, when each machine has done the tasks bound to it; changed in place.
    speed
        float64[machines], Mflop/s > 0.
    task_size
        Mflop > 0.
    n_tasks
        Number of tasks, >= 0.
    now
        ns; no task starts earlier.

    Raises
    ------
    ValueError
        If there are tasks but no machines, or an argument is out of range.
    OverflowError
        If a task would end after the last instant.
    """
    cdef long long[::1] at = writable(free_at, "free_at")
    cdef const double[::1] s = doubles(speed, "speed")
    cdef Py_ssize_t n = s.shape[0], u
    cdef long long rest, bulk
    cdef Entry* heap
    cdef long long* length
    cdef bint is_in_time
    check_array(s, "speed", POSITIVE)
    check_lengths(n, at.shape[0], "speed", "free_at")
    check_scalar(task_size, "task_size", POSITIVE)
    if not isinstance(n_tasks, int | np.integer):
        raise TypeError(f"n_tasks must be an integer, got {n_tasks!r}")
    if not 0 <= n_tasks <= NEVER:
        raise ValueError(f"n_tasks must be >= 0 and < 2**63, got {n_tasks}")
    for u in range(n):
        if at[u] < 0:
            raise ValueError(f"free_at[{u}] must be >= 0, got {at[u]}")
    if now < 0:
        raise ValueError(f"now must be >= 0 ns, got {now}")
    result = np.zeros(n, np.int64)
    cdef long long[::1] out = result       
    rest = n_tasks
    if rest == 0:
        return result
    if n == 0:
        raise ValueError(f"speed must have at least one entry to bind {n_tasks} tasks, got none")
    heap = <Entry*> malloc(n * (sizeof(Entry) + sizeof(long long)))
    if heap == NULL:
        raise MemoryError
    length = <long long*> (heap + n)
    with nogil:
        for u in range(n):
            length[u] = duration(task_size, s[u])
        bulk = bind_bulk(at, length, out, rest, now) if rest > n else 0
        is_in_time = bulk >= 0 and bind_rest(at, length, heap, out, rest - bulk, now)
        if is_in_time:
            for u in range(n):
                if out[u] > 0:
                    at[u] = (at[u] if at[u] > now else now) + out[u] * length[u]
    free(heap)
    if not is_in_time:
        raise OverflowError("a task ends after the last instant, 2**63 - 2 ns")
    return result


cdef long long bind_bulk(const long long[::1] at, const long long* length, long long[::1] out,
                         long long tasks, long long now) noexcept nogil:
    """Bind all tasks that would end up to some instant, at most `tasks`; return the number of tasks bound.

    The instant is the one at which the machines would have completed `tasks` divisible tasks.  Newton steps on a
    convex function approach it from above.  If the result is too inexact, no task is bound.
    Returns -1 if the last task would certainly end after the last instant.
    """
    cdef Py_ssize_t n = at.shape[0], u, step
    cdef double rate = 0.0, done = 0.0, start, latest = <double> now, instant, gap, goal = <double> tasks
    cdef long long limit = _MAX_FLOAT_INSTANT, base, count = 0
    if tasks > 1048576:
        # with rounding errors, too many tasks could be bound: aim slightly lower, and bind the rest one by one
        goal -= goal * 4e-12
    for u in range(n):
        base = at[u] if at[u] > now else now
        if length[u] == 0:
            # a machine on which tasks take 0 ns gets all remaining tasks as soon as it is free
            limit = min(limit, base - 1)
            continue
        start = <double> (at[u] if at[u] > now else now)
        if start > latest:
            latest = start
        rate += 1.0 / <double> length[u]
    if rate == 0.0:
        return 0
    instant = latest + goal / rate
    for step in range(64):
        rate = 0.0
        done = 0.0
        for u in range(n):
            gap = instant - <double> (at[u] if at[u] > now else now)
            if gap > 0.0 and length[u] > 0:
                rate += 1.0 / <double> length[u]
                done += gap / <double> length[u]
        if not done > goal * (1.0 + 1e-12):
            break
        instant -= (done - goal) / rate
    if not instant > 0.0:
        return 0
    if instant < <double> _MAX_FLOAT_INSTANT:
        limit = min(limit, <long long> instant)
    elif instant > 9.3e18 and limit == _MAX_FLOAT_INSTANT:
        return -1
    for u in range(n):
        base = at[u] if at[u] > now else now
        if base < limit and length[u] > 0:
            out[u] = (limit - base) // length[u]
            if out[u] > tasks - count:
                for u in range(n):
                    out[u] = 0
                return 0
            count += out[u]
    return count


cdef bint bind_rest(const long long[::1] at, const long long* length, Entry* heap, long long[::1] out,
                     long long tasks, long long now) noexcept nogil:
    """Bind `tasks` tasks one by one, earliest end first; return False if one would end after the last instant."""
    cdef Py_ssize_t n = at.shape[0], u
    cdef long long base
    for u in range(n):
        base = (at[u] if at[u] > now else now) + out[u] * length[u]
        heap[u].number = u
        heap[u].at = base + length[u] if length[u] <= NEVER - base else NEVER
    heap_make(heap, n)
    while tasks > 0:
        u = heap[0].number
        if heap[0].at == NEVER:
            return False
        if length[u] == 0:
            out[u] += tasks
            return True
        out[u] += 1
        tasks -= 1
        heap[0].at = heap[0].at + length[u] if length[u] <= NEVER - heap[0].at else NEVER
        heap_settle(heap, n, 0, heap[0])
    return True


cdef class EarliestEnds:
    """An index that finds the machine that would end a task first.

    Machines of equal speed form a kind.  Each kind has a heap of its busy machines, by the instants at which they
    are free, and a heap of its idle machines, by id.  Binding a task takes O(kinds + log(machines)), while
    `bind_earliest` examines every machine even for few tasks.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s > 0.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef bint in_call                       # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, kinds
    cdef readonly long long now
    cdef const double[::1] speed            # by kind
    cdef const long long[::1] kind          # by machine
    cdef const long long[::1] first         # kind k has the entries first[k] .. first[k + 1] - 1 of both heaps
    cdef long long[::1] n_busy, n_idle      # by kind
    cdef Entry* busy                        # by (end of its last task, machine)
    cdef Entry* idle                        # machines free by `now`, by id; `at` is 0

    def __cinit__(self, speed: ArrayLike):
        cdef const double[::1] speeds = doubles(speed, "speed")
        check_array(speeds, "speed", POSITIVE)
        self.machines = speeds.shape[0]
        kinds, kind, count = np.unique(np.asarray(speeds), return_inverse=True, return_counts=True)
        self.kinds = len(kinds)
        self.speed, self.kind = kinds, kind.astype(np.int64)
        self.first = np.concatenate((np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)))
        self.n_busy, self.n_idle = np.zeros(self.kinds, np.int64), np.zeros(self.kinds, np.int64)
        self.busy = <Entry*> malloc(2 * max(1, self.machines) * sizeof(Entry))
        if self.busy == NULL:
            raise MemoryError
        self.idle = self.busy + self.machines

    def __dealloc__(self):
        free(self.busy)

    def restart(self, free_at: Integers, up: ArrayLike, long long now) -> None:
        """Set when each machine is free and which machines are up; machines that are down get no tasks.

        Parameters
        ----------
        free_at
            int64[machines], ns, when each machine has done the tasks bound to it; >= 0.
        up
            bool[machines].
        now
            ns; no task starts earlier.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] at = writable(free_at, "free_at")
        cdef const unsigned char[::1] is_up = np.ascontiguousarray(up, np.bool_).view(np.uint8)
        cdef Py_ssize_t u, k
        cdef Entry entry
        check_lengths(self.machines, at.shape[0], "machines", "free_at")
        check_lengths(self.machines, is_up.shape[0], "machines", "up")
        if now < 0:
            raise ValueError(f"now must be >= 0 ns, got {now}")
        for u in range(self.machines):
            if at[u] < 0:
                raise ValueError(f"free_at[{u}] must be >= 0, got {at[u]}")
        self.now = now
        with nogil:
            for k in range(self.kinds):
                self.n_busy[k] = self.n_idle[k] = 0
            for u in range(self.machines):
                if is_up[u]:
                    k = self.kind[u]
                    entry.number = u
                    if at[u] > now:
                        entry.at = at[u]
                        self.busy[self.first[k] + self.n_busy[k]] = entry
                        self.n_busy[k] += 1
                    else:
                        entry.at = 0
                        self.idle[self.first[k] + self.n_idle[k]] = entry
                        self.n_idle[k] += 1  # ids ascend, and a sorted array is a heap
            for k in range(self.kinds):
                heap_make(self.busy + self.first[k], self.n_busy[k])

    def bind(self, free_at: Integers, double task_size, n_tasks: SupportsIndex, long long now) -> Integers:
        """Bind equal tasks one by one, each to the machine that would end it first; ties to the lowest id.

        Returns int64[n_tasks], the machine of each task.

        Parameters
        ----------
        free_at
            int64[machines], ns, as the last call left it; changed in place.
        task_size
            Mflop > 0.
        n_tasks
            Number of tasks, >= 0 and < 2**31.
        now
            ns; not before `now` of the last call.

        Raises
        ------
        ValueError
            If an argument is out of range, or there are tasks and no machine is up.
        OverflowError
            If a task would end after the last instant.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef long long[::1] at = writable(free_at, "free_at")
        cdef Py_ssize_t k, j, best, count
        cdef long long end, least, length
        cdef Entry entry, earliest
        cdef bint is_in_time = True, has_machine = True
        check_lengths(self.machines, at.shape[0], "machines", "free_at")
        check_scalar(task_size, "task_size", POSITIVE)
        if not isinstance(n_tasks, int | np.integer):
            raise TypeError(f"n_tasks must be an integer, got {n_tasks!r}")
        if not 0 <= n_tasks < 2**31:
            raise ValueError(f"n_tasks must be in 0..{2**31 - 1}, got {n_tasks}")
        if now < self.now:
            raise ValueError(f"now must be at least {self.now} ns, got {now}")
        count = n_tasks
        result = np.empty(count, np.int64)
        cdef long long[::1] out = result       
        with nogil:
            self.now = now
            for k in range(self.kinds):
                while self.n_busy[k] > 0 and self.busy[self.first[k]].at <= now:
                    entry = self.busy[self.first[k]]
                    heap_pop(self.busy + self.first[k], self.n_busy[k])
                    self.n_busy[k] -= 1
                    entry.at = 0
                    heap_push(self.idle + self.first[k], self.n_idle[k], entry)
                    self.n_idle[k] += 1
            for j in range(count):
                best = -1
                least = NEVER
                for k in range(self.kinds):
                    if self.n_idle[k] > 0:
                        entry = self.idle[self.first[k]]
                        end = now
                    elif self.n_busy[k] > 0:
                        entry = self.busy[self.first[k]]
                        end = entry.at
                    else:
                        continue
                    length = duration(task_size, self.speed[k])
                    end = end + length if length <= NEVER - end else NEVER
                    if best < 0 or end < least or (end == least and entry.number < earliest.number):
                        best = k
                        least = end
                        earliest = entry
                if best < 0 or least == NEVER:
                    has_machine = best >= 0
                    is_in_time = False
                    break
                out[j] = earliest.number
                at[earliest.number] = least
                earliest.at = least
                if self.n_idle[best] == 0:
                    heap_settle(self.busy + self.first[best], self.n_busy[best], 0, earliest)
                elif least > now:
                    heap_pop(self.idle + self.first[best], self.n_idle[best])
                    self.n_idle[best] -= 1
                    heap_push(self.busy + self.first[best], self.n_busy[best], earliest)
                    self.n_busy[best] += 1
        if not has_machine:
            raise ValueError(f"up must be True for at least one machine to bind {count} tasks, got none")
        if not is_in_time:
            raise OverflowError("a task ends after the last instant, 2**63 - 2 ns")
        return result
