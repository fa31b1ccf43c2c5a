"""The task queues of machines with several cores.

A machine has one queue.  A core that becomes idle takes the first waiting task and runs it at the speed of the
machine; of several idle cores the one that has been idle for the longest time goes first.  With one core the results
are those of `TaskQueues`.

For its minimum stretch, its order and its capacity, a machine of c cores counts as one processor of c times the speed,
with two conditions: no task takes less time than on one core, and the processor is free at the mean of the instants
at which the cores are.  So what a machine promises is exact for this processor.  The cores complete a queue later than
the processor by less than one task.

The reference implementation is `tests.reference.core_queues`.
"""

cimport cython

from libc.math cimport llrint

from gridcore.common.arguments cimport _Guard, guard, indices
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.queues.availability cimport Grid
from gridcore.queues.edf cimport Queue
from gridcore.queues.journal cimport journal_record
from gridcore.queues.task_queues cimport Scratch, TaskQueues

import numpy as np

from gridcore.common.state import INSTANT, ArrayEntry, read, read_only

__all__ = ["CoreQueues"]

#: The largest number of cores of a machine.
cdef enum:
    MAX_CORES = 65536

_STATE = {
    "core_task": ArrayEntry(np.int64, ("cores",), (-1, "applications")),
    "core_end": ArrayEntry(np.int64, ("cores",), INSTANT),
}


@cython.auto_pickle(False)
cdef class CoreQueues(TaskQueues):
    """The task queues of `len(speed)` machines with several cores.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s of each core.
    cores
        int64[machines], number of cores.
    **options
        Options of `TaskQueues`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __cinit__(self, speed, *, cores: ArrayLike, **options):
        unknown = set(options) - {"order", "watch", "log", "record", "tolerance"}
        if unknown:
            raise TypeError(f"CoreQueues() got an unexpected keyword argument {min(unknown)!r}")
        counts = np.array(indices(cores, "cores", 1, MAX_CORES + 1))
        if len(counts) != self.machines:
            raise ValueError(f"cores must have {self.machines} entries, one for each machine, got {len(counts)}")
        self.core_counts = counts
        self.first_core = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
        self.core_task = np.full(int(self.first_core[self.machines]), -1, np.int64)
        self.core_end = np.zeros(self.core_task.shape[0], np.int64)
        self.waiting_time = np.zeros(self.machines, np.int64)

    @property
    def cores(self) -> Integers:
        """The number of cores of each machine, int64[machines], a copy."""
        return np.array(self.core_counts)

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike,
                         whose: ArrayLike | None = None, *, sizes: ArrayLike | None = None,
                         tasks: ArrayLike | None = None):
        """Append applications as `TaskQueues.add_applications` does, without `sizes` and `tasks`."""
        if sizes is not None or tasks is not None:
            raise ValueError("CoreQueues does not support sizes or tasks")
        super().add_applications(release, size, task_size, whose)

    # -- the cores ----------------------------------------------------------------------------------------

    cdef Py_ssize_t _next_core(self, Py_ssize_t u, bint only_busy) noexcept nogil:
        """Return the core of `u` that ends its task or is idle first, busy cores first at one instant; -1 for none."""
        cdef Py_ssize_t k, first = -1
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if only_busy and self.core_task[k] < 0:
                continue
            if first < 0 or self.core_end[k] < self.core_end[first] or (
                    self.core_end[k] == self.core_end[first] and self.core_task[first] < 0 <= self.core_task[k]):
                first = k
        return first

    cdef void _advance(self, Py_ssize_t u, long long until) noexcept nogil:
        cdef Py_ssize_t k
        cdef long long at, length
        cdef int application
        while True:
            k = self._next_core(u, self.count[u] == 0)
            if k < 0:
                break
            at, application = self.core_end[k], <int> self.core_task[k]
            if application < 0:
                if at >= until:
                    break
                self._start(u, k, at)
                continue
            if at > until:
                break
            length = self._duration(u, application)
            self.core_task[k] = -1
            self._complete(u, application, 1, at - length, at, at)
        self._set_running(u)

    cdef void _start(self, Py_ssize_t u, Py_ssize_t core, long long at) noexcept nogil:
        """Start the first waiting task of `u` on an idle core at `at` ns."""
        cdef Py_ssize_t f = self.first[u]
        cdef int application = self.share[u, f, 0]
        cdef long long length = self._duration(u, application), owner = self.owner[application]
        if self.first_start[owner] < 0 or at < self.first_start[owner]:
            self.first_start[owner] = at
        self._mark_used(u, <int> owner)
        self.core_task[core], self.core_end[core] = application, at + length
        self.free_at[u] = max(self.free_at[u], at + length)
        self.busy_time[u] += length
        self.waiting[u] -= 1
        self.waiting_time[u] -= length
        self.share[u, f, 1] -= 1
        if self.share[u, f, 1] == 0:
            self.first[u] += 1
            self.count[u] -= 1
            if self.count[u] == 0:
                self.first[u] = 0

    cdef void _set_running(self, Py_ssize_t u) noexcept nogil:
        """Set `running` to the application of the running task of the first busy core, -1 if there is none."""
        cdef Py_ssize_t k
        self.running[u] = -1
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0:
                self.running[u] = <int> self.core_task[k]
                break

    cdef long long _running_count(self, Py_ssize_t u, long long now) noexcept nogil:
        cdef Py_ssize_t k
        cdef long long count = 0
        for k in range(self.first_core[u], self.first_core[u + 1]):
            count += self.core_task[k] >= 0 and self.core_end[k] > now
        return count

    cdef long long _first_end(self, Py_ssize_t u) noexcept nogil:
        """Return when the first of the running tasks ends, and of the waiting ones that idle cores take, ns."""
        cdef Py_ssize_t k, place = self.first[u]
        cdef long long first = NEVER, taken = 0
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0:
                first = min(first, self.core_end[k])
            elif place < self.first[u] + self.count[u]:
                first = min(first, self.core_end[k] + self._duration(u, self.share[u, place, 0]))
                taken += 1
                if taken == self.share[u, place, 1]:
                    place, taken = place + 1, 0
        return first

    cdef long long _next_end(self, Py_ssize_t u) noexcept nogil:
        return self._first_end(u)

    cdef long long _drain_bound(self, Py_ssize_t u) noexcept nogil:
        """Return a lower bound of when `u` will have completed all its tasks, ns; it is exact if none waits."""
        cdef Py_ssize_t k
        cdef long long cores = self.core_counts[u], bound = self.waiting_time[u] // cores, last = 0
        cdef long long earliest = NEVER
        for k in range(self.first_core[u], self.first_core[u + 1]):
            bound += self.core_end[k] // cores
            earliest = min(earliest, self.core_end[k])
            if self.core_task[k] >= 0:
                last = max(last, self.core_end[k])
        if self.count[u] == 0:
            return last
        # a task that waits now ends later than any core is idle
        return max(max(last, bound), earliest + self._duration(u, self.share[u, self.first[u], 0]))

    cdef void _update(self, Py_ssize_t u) noexcept nogil:
        self.idle_at[u] = self._drain_bound(u)
        TaskQueues._update(self, u)

    # -- changes ------------------------------------------------------------------------------------------

    cdef void _begin_at(self, Py_ssize_t u, long long now) noexcept nogil:
        """Let no idle core of `u` start a task before `now` ns."""
        cdef Py_ssize_t k
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] < 0:
                self.core_end[k] = max(self.core_end[k], now)

    cdef int _enqueue(self, Py_ssize_t u, int application, long long tasks, long long now) except -1:
        cdef long long length = self._duration(u, application)
        self._advance(u, now)
        self._begin_at(u, now)
        if tasks > (LATEST - max(self.free_at[u], now) - self.waiting_time[u]) // length:
            raise OverflowError(f"tasks of application {application} on machine {u} must end before 2**62 ns")
        TaskQueues._enqueue(self, u, application, tasks, now)
        self.waiting_time[u] += tasks * length
        self._update(u)
        return 0

    cdef long long _withdraw(self, Py_ssize_t u, int application, long long tasks, long long now) noexcept nogil:
        tasks = TaskQueues._withdraw(self, u, application, tasks, now)
        self.waiting_time[u] -= tasks * self._duration(u, application)
        self._update(u)
        return tasks

    cdef dict _interrupt(self, Py_ssize_t u, long long now):
        cdef Py_ssize_t k
        cdef long long owner, length
        left = {}
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0:
                owner, length = self.owner[self.core_task[k]], self._duration(u, <int> self.core_task[k])
                left[owner] = left.get(owner, 0) + 1
                self.busy_time[u] -= self.core_end[k] - now
                self.interrupted[u] += 1
                if self.record:
                    journal_record(&self.run_log, u, <int> owner, 1, self.core_end[k] - length, now, 0)
            self.core_task[k], self.core_end[k] = -1, now
        self.running[u] = -1
        self.waiting_time[u] = 0  # the machine also loses its waiting tasks
        return left

    # -- queries of the scheduler -------------------------------------------------------------------------

    cdef double _work(self, Py_ssize_t u, long long now) noexcept nogil:
        cdef Py_ssize_t k
        cdef double left = 0.0, size = 0.0
        self._advance(u, now)
        self._update(u)
        for k in range(self.first[u], self.first[u] + self.count[u]):
            size += self.task_size[self.share[u, k, 0]] * self.share[u, k, 1]
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0:
                left += (self.core_end[k] - now) / 1e9
        return (left + size / self.speed[u]) / self.core_counts[u]

    cdef bint _fits_alone(self, Py_ssize_t u, double seconds, double task_size) noexcept nogil:
        return seconds * self.speed[u] >= task_size

    cdef void _sample(self, Py_ssize_t u, long long now, long long at, const Grid* g, unsigned int* out,
                      Scratch* s) noexcept nogil:
        cdef Py_ssize_t i, j, k
        TaskQueues._sample(self, u, now, at, g, out, s)
        for i in range(g.n_stretch):
            for j in range(g.n_size):
                for k in range(g.n_task_size):
                    if not self._fits_alone(u, g.stretch[i] * g.size[j], g.task_size[k]):
                        out[(i * g.n_size + j) * g.n_task_size + k] = 0

    cdef void _gather(self, Py_ssize_t u, long long at, bint inclusive, Queue* q, Scratch* s) noexcept nogil:
        cdef Py_ssize_t k, n = 0
        cdef const int* row = &self.share[u, self.first[u], 0]
        cdef long long cores = self.core_counts[u], edge = at + inclusive, start, tasks, length, end
        cdef double ahead = 0.0, least = 0.0
        cdef int i
        for k in range(self.first_core[u], self.first_core[u + 1]):
            end = self.core_end[k]
            i = <int> self.core_task[k]
            if self.count[u] == 0:
                end = max(end, at) if i >= 0 else at
            ahead += <double> (end - at)
            if i >= 0 and self.core_end[k] > at:
                least = max(least, (self.core_end[k] / 1e9 - self.release[i]) / self.size[i])
        start = at + llrint(ahead / cores)
        for k in range(self.count[u]):
            i, tasks = row[2 * k], row[2 * k + 1]
            if start < edge:
                length = max(1, self._duration(u, i) // cores)
                tasks -= min(tasks, (at - start) // length)
                start += (row[2 * k + 1] - tasks) * length
                if tasks > 0 and start < edge:
                    start += length
                    tasks -= 1
                    least = max(least, (start / 1e9 - self.release[i]) / self.size[i])
                if tasks == 0:
                    continue
            if cores > 1:
                least = max(least, (at / 1e9 + self.task_size[i] / self.speed[u] - self.release[i]) / self.size[i])
            s.release[n] = self.release[i]
            s.size[n] = self.size[i]
            s.work[n] = tasks * self.task_size[i]
            s.order[n] = <int> n
            n += 1
        q.n = n
        q.release, q.size, q.work = s.release, s.size, s.work
        q.speed = self.speed[u] * cores
        q.free_at = max(start, at) / 1e9
        q.floor = least

    # -- checkpoints --------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since applications were added, as described in `gridcore.common.state`."""
        return {**super().getstate(), **read_only({"core_task": np.asarray(self.core_task),
                                                   "core_end": np.asarray(self.core_end)})}

    def setstate(self, state):
        """Restore a state of `getstate`, as `TaskQueues.setstate` does."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, j
        entries = read(state, _STATE, cores=self.core_task.shape[0], applications=self.n_applications)
        access = None  # the next call guards the queues itself
        super().setstate(state)
        self.core_task, self.core_end = entries["core_task"], entries["core_end"]
        for k in range(self.machines):
            self.waiting_time[k] = 0
            for j in range(self.first[k], self.first[k] + self.count[k]):
                self.waiting_time[k] += self.share[k, j, 1] * self._duration(k, self.share[k, j, 0])
            self._set_running(k)
            self._update(k)
