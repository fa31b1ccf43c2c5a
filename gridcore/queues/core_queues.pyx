"""The task queues of machines with several cores.

A machine has one queue.  A core that becomes idle takes the first waiting task and runs it at the speed of the
machine; of several idle cores the one that has been idle for the longest time goes first.  With one core the results
are those of `TaskQueues`.

Running tasks may share the memory of the machine.  The first waiting task then starts when a core is idle and the free
memory suffices for it, and those behind it wait for it; tasks that end at an instant free their memory before others
start.

For its minimum stretch, its order and its capacity, a machine of c cores counts as one processor of c times the speed,
with two conditions: no task takes less time than on one core, and the processor is free at the mean of the instants
at which the cores are.  So what a machine promises is exact for this processor.  The cores complete a queue later than
the processor by less than one task.  A task of m bytes on a machine of M bytes counts as max(1, c m / M) tasks, with
which the processor is an estimate: how many tasks run at once depends on which of them meet.

The reference implementation is `tests.reference.core_queues`.
"""

cimport cython

from libc.math cimport INFINITY, llrint
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.queues.availability cimport Grid
from gridcore.queues.journal cimport journal_record
from gridcore.queues.task_numbers cimport TaskNumbers
from gridcore.queues.task_queues cimport Scratch, TaskQueues

import numpy as np

from gridcore.common.state import INSTANT, ArrayEntry, read, read_only

__all__ = ["CoreQueues"]

#: The largest number of cores of a machine.
cdef enum:
    MAX_CORES = 65536
#: The most bytes of the memory of a machine or of a task.
cdef long long _MAX_MEMORY = 2**53

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
    memory
        int64[machines], bytes that the running tasks of each machine share; None if all have enough.
    **options
        Options of `TaskQueues`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __cinit__(self, speed, *, cores: ArrayLike, memory: ArrayLike | None = None, **options):
        unknown = set(options) - {"order", "watch", "log", "record", "tolerance"}
        if unknown:
            raise TypeError(f"CoreQueues does not support the argument {min(unknown)!r}")
        counts = np.array(indices(cores, "cores", 1, MAX_CORES + 1))
        if len(counts) != self.machines:
            raise ValueError(f"cores must have {self.machines} entries, one for each machine, got {len(counts)}")
        self.core_counts = counts
        self.first_core = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
        self.n_cores = self.first_core[self.machines]
        self.core_task = np.full(self.n_cores, -1, np.int64)
        self.core_end = np.zeros(self.n_cores, np.int64)
        self.waiting_time = np.zeros(self.machines, np.int64)
        self.task_memory = np.zeros(0, np.int64)
        self.is_limited = np.zeros(self.machines, np.uint8)
        self.free_memory = np.zeros(self.machines, np.int64)
        self.memory = None
        if memory is not None:
            self.memory = np.array(indices(memory, "memory", 0, _MAX_MEMORY + 1))
            check_lengths(self.machines, self.memory.shape[0], "speed", "memory")

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike,
                         whose: ArrayLike | None = None, *, sizes: ArrayLike | None = None,
                         tasks: ArrayLike | None = None, memory: ArrayLike | None = None):
        """Append applications as `TaskQueues.add_applications` does.

        Parameters
        ----------
        memory
            int64[k], bytes that a task takes while it runs; by default none.  A task of a resubmitted bag takes those
            of its application.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t n = self.n_applications
        needs = None if memory is None else np.array(indices(memory, "memory", 0, _MAX_MEMORY + 1))
        if needs is not None:
            check_lengths(len(np.asarray(release)), len(needs), "release", "memory")
        access = None  # the next call guards the queues itself
        super().add_applications(release, size, task_size, whose, sizes=sizes, tasks=tasks)
        if needs is None:
            needs = np.zeros(self.n_applications - n, np.int64)
        self.task_memory = np.concatenate((self.task_memory, needs))[np.asarray(self.owner)]
        if self.memory is None or not needs.any():
            return
        capacity, ordered = np.asarray(self.memory), np.sort(np.asarray(self.task_memory)[n:])
        # tasks wait for memory if each takes more than the part of a core; those that never fit are never here
        at_once = np.searchsorted(ordered, capacity // np.asarray(self.core_counts), "right")
        np.asarray(self.is_limited)[at_once < np.searchsorted(ordered, capacity, "right")] = True
        self._count_memory()

    @property
    def cores(self) -> Integers:
        """The number of cores of each machine, int64[machines], a copy."""
        return np.array(self.core_counts)

    # -- the cores ----------------------------------------------------------------------------------------

    cdef Py_ssize_t _cores(self, Py_ssize_t u) noexcept nogil:
        return self.core_counts[u]

    cdef long long _memory_of(self, Py_ssize_t application) noexcept nogil:
        return self.task_memory[application]

    cdef double _width(self, Py_ssize_t u, long long memory) noexcept nogil:
        if self.memory is None or memory == 0:
            return 1.0
        if memory > self.memory[u]:
            return INFINITY
        return max(1.0, self.core_counts[u] * (<double> memory / <double> self.memory[u]))

    cdef void _count_memory(self) noexcept nogil:
        """Set the free memory of the machines by their running tasks."""
        cdef Py_ssize_t u, k
        for u in range(self.machines):
            if self.is_limited[u]:
                self.free_memory[u] = self.memory[u]
                for k in range(self.first_core[u], self.first_core[u + 1]):
                    if self.core_task[k] >= 0:
                        self.free_memory[u] -= self.task_memory[self.core_task[k]]

    cdef bint _can_start(self, Py_ssize_t u) noexcept nogil:
        """Return whether a task waits on `u`, and the free memory suffices for the first one."""
        return self.count[u] > 0 and (
            not self.is_limited[u] or self.task_memory[self.share[u, self.first[u], 0]] <= self.free_memory[u])

    cdef long long _core_length(self, Py_ssize_t u, Py_ssize_t core) noexcept nogil:
        """Return the time (ns) that the task of a busy core takes."""
        if self.own_sizes:
            return self._length(u, self.numbers.running[core])
        return self._duration(u, <int> self.core_task[core])

    cdef long long _planned_core_end(self, Py_ssize_t u, Py_ssize_t core) noexcept nogil:
        """Return when the task of a core should end by its estimated size, or since when the core is idle, ns."""
        if not self.own_sizes or self.core_task[core] < 0:
            return self.core_end[core]
        return self.core_end[core] - self._core_length(u, core) + self._duration(u, <int> self.core_task[core])

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
            k = self._next_core(u, not self._can_start(u))
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
            length = self._core_length(u, k)
            self.core_task[k] = -1
            if self.own_sizes:
                self.numbers.running[k] = -1
            if self.is_limited[u]:
                self.free_memory[u] += self.task_memory[application]
                self._begin_at(u, at)  # the first waiting task may not have fitted before
            self._complete(u, application, 1, at - length, at, at)
        self._set_running(u)

    cdef void _start(self, Py_ssize_t u, Py_ssize_t core, long long at) noexcept nogil:
        """Start the first waiting task of `u` on an idle core at `at` ns."""
        cdef Py_ssize_t f = self.first[u]
        cdef int application = self.share[u, f, 0]
        cdef long long length, owner = self.owner[application]
        if self.own_sizes:
            length = self._length(u, self.numbers.begin(u, owner, core))
        else:
            length = self._duration(u, application)
        if self.first_start[owner] < 0 or at < self.first_start[owner]:
            self.first_start[owner] = at
        self._mark_used(u, <int> owner)
        if self.is_limited[u]:
            self.free_memory[u] -= self.task_memory[application]
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

    cdef long long _next_end(self, Py_ssize_t u) noexcept nogil:
        """Return when the first of the running tasks ends, and of the waiting ones that idle cores take, ns."""
        cdef Py_ssize_t k, place = self.first[u]
        cdef long long first = NEVER, n_taken = 0, free = self.free_memory[u], length
        cdef int task = -1
        cdef bint fits = True
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0:
                first = min(first, self.core_end[k])
            elif fits and place < self.first[u] + self.count[u]:
                if self.is_limited[u]:
                    free -= self.task_memory[self.share[u, place, 0]]
                    if free < 0:
                        fits = False
                        continue
                if self.own_sizes:
                    task = self._waiting_task(u, place) if n_taken == 0 else self.numbers.following(
                        task, self.owner[self.share[u, place, 0]])
                    length = self._length(u, task)
                else:
                    length = self._duration(u, self.share[u, place, 0])
                first = min(first, self.core_end[k] + length)
                n_taken += 1
                if n_taken == self.share[u, place, 1]:
                    place, n_taken = place + 1, 0
        return first

    cdef int _waiting_task(self, Py_ssize_t u, Py_ssize_t place) noexcept nogil:
        """Return the number of the task that starts first of the share at `place`, if tasks have individual sizes."""
        cdef Py_ssize_t k
        cdef long long owner = self.owner[self.share[u, place, 0]]
        cdef int task = self.numbers.first(u, owner)
        for k in range(self.first[u], place):
            if self.owner[self.share[u, k, 0]] == owner:  # a resubmitted bag of the same application goes first
                for _ in range(self.share[u, k, 1]):
                    task = self.numbers.following(task, owner)
        return task

    cdef long long _drain_bound(self, Py_ssize_t u) noexcept nogil:
        """Return a lower bound of when `u` will have completed all its tasks, ns; it is exact if none waits."""
        cdef Py_ssize_t k
        cdef long long cores = self.core_counts[u], bound = self.waiting_time[u] // cores, last = 0
        cdef long long earliest = NEVER, length
        for k in range(self.first_core[u], self.first_core[u + 1]):
            bound += self.core_end[k] // cores
            earliest = min(earliest, self.core_end[k])
            if self.core_task[k] >= 0:
                last = max(last, self.core_end[k])
        if self.count[u] == 0:
            return last
        if self.own_sizes:
            length = self._length(u, self._waiting_task(u, self.first[u]))
        else:
            length = self._duration(u, self.share[u, self.first[u], 0])
        # a task that waits now ends later than any core is idle
        return max(max(last, bound), earliest + length)

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

    cdef int _check_need(self, Py_ssize_t u, Py_ssize_t application) except -1:
        if self.memory is not None and self.task_memory[application] > self.memory[u]:
            raise ValueError(f"tasks of application {application} must need at most the {self.memory[u]} bytes of "
                             f"memory of machine {u}, got {self.task_memory[application]}")
        return 0

    cdef int _check_shares(self, const long long[::1] machines, const long long[::1] applications,
                           const long long[::1] tasks) except -1:
        cdef Py_ssize_t k
        for k in range(tasks.shape[0]):
            self._check_need(machines[k], applications[k])
        return TaskQueues._check_shares(self, machines, applications, tasks)

    cdef int _enqueue(self, Py_ssize_t u, int application, long long tasks, long long now) except -1:
        self._check_need(u, application)
        self._advance(u, now)
        self._begin_at(u, now)
        if tasks > (LATEST - max(self.free_at[u], now) - self.waiting_time[u]) // self._longest_length(u, application):
            raise OverflowError(f"tasks of application {application} on machine {u} must end before 2**62 ns")
        return TaskQueues._enqueue(self, u, application, tasks, now)

    cdef long long _withdraw(self, Py_ssize_t u, int application, long long tasks, long long now) noexcept nogil:
        if self.is_limited[u]:  # another task may become the first one, for which the free memory suffices
            self._advance(u, now)
            self._begin_at(u, now)
        return TaskQueues._withdraw(self, u, application, tasks, now)

    cdef double _reorder(self, Py_ssize_t u, long long now, Scratch* s) noexcept nogil:
        if self.is_limited[u]:
            self._begin_at(u, now)
        return TaskQueues._reorder(self, u, now, s)

    cdef long long _bind(self, Py_ssize_t u, int application, long long tasks) noexcept nogil:
        cdef long long time = TaskQueues._bind(self, u, application, tasks)
        self.waiting_time[u] += time
        return time

    cdef long long _unbind(self, Py_ssize_t u, int application, long long tasks) noexcept nogil:
        cdef long long time = TaskQueues._unbind(self, u, application, tasks)
        self.waiting_time[u] -= time
        return time

    cdef dict _interrupt(self, Py_ssize_t u, long long now):
        cdef Py_ssize_t k
        cdef long long owner, length
        left = {}
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0:
                owner, length = self.owner[self.core_task[k]], self._core_length(u, k)
                left[owner] = left.get(owner, 0) + 1
                self.busy_time[u] -= self.core_end[k] - now
                self.interrupted[u] += 1
                if self.record:
                    journal_record(&self.run_log, u, <int> owner, 1, self.core_end[k] - length, now, 0)
                if self.own_sizes:
                    self.numbers.release_running(k)
            self.core_task[k], self.core_end[k] = -1, now
        self.running[u] = -1
        self.waiting_time[u] = 0  # the machine also loses its waiting tasks
        if self.is_limited[u]:
            self.free_memory[u] = self.memory[u]
        return left

    # -- queries of the scheduler -------------------------------------------------------------------------

    cdef double _running_time(self, Py_ssize_t u, long long now) noexcept nogil:
        cdef Py_ssize_t k
        cdef double time = 0.0
        for k in range(self.first_core[u], self.first_core[u + 1]):
            if self.core_task[k] >= 0 and self._planned_core_end(u, k) > now:
                time += (self._planned_core_end(u, k) - now) / 1e9 * self._width(u, self.task_memory[self.core_task[k]])
        return time

    cdef bint _fits_alone(self, Py_ssize_t u, double seconds, double task_size) noexcept nogil:
        return seconds * self.speed[u] >= task_size

    cdef Py_ssize_t _sample(self, Py_ssize_t u, long long now, long long at, long long memory, const Grid* g,
                            unsigned int* out, double* least, Scratch* s) noexcept nogil:
        cdef Py_ssize_t i, j, k, zeros
        cdef double width = self._width(u, memory)
        cdef double* task_size = NULL
        cdef Grid wider = g[0]
        if width > 1.0:
            task_size = <double*> malloc(g.n_task_size * sizeof(double))
            if task_size == NULL:       # without memory for the samples, the machine takes none
                memset(out, 0, g.n_stretch * g.n_size * g.n_task_size * sizeof(unsigned int))
                least[0] = INFINITY
                return g.n_stretch * g.n_size * g.n_task_size
            for k in range(g.n_task_size):
                task_size[k] = g.task_size[k] * width
            wider.task_size = task_size
        zeros = TaskQueues._sample(self, u, now, at, memory, &wider, out, least, s)
        free(task_size)
        for i in range(g.n_stretch):
            for j in range(g.n_size):
                for k in range(g.n_task_size):
                    if not self._fits_alone(u, g.stretch[i] * g.size[j], g.task_size[k]):
                        out[(i * g.n_size + j) * g.n_task_size + k] = 0
        return zeros

    cdef long long _first_free(self, Py_ssize_t u, long long at, double* floor) noexcept nogil:
        cdef Py_ssize_t k
        cdef double backlog = 0.0
        cdef long long end
        cdef int i
        cdef bint can_start = self._can_start(u)
        for k in range(self.first_core[u], self.first_core[u + 1]):
            end, i = self._planned_core_end(u, k), <int> self.core_task[k]
            if i >= 0 and end > at:
                floor[0] = max(floor[0], (end / 1e9 - self.release[i]) / self.size[i])
                backlog += <double> (end - at) * self._width(u, self.task_memory[i])
            elif i >= 0 and not self.own_sizes and self.count[u] > 0 or i < 0 and can_start:
                # else no task starts on the core now, or its task runs for longer than estimated
                backlog += <double> (end - at)
        return at + llrint(backlog / self.core_counts[u])

    # -- checkpoints --------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since applications were added, as described in `gridcore.common.state`."""
        return {**super().getstate(), **read_only({"core_task": np.asarray(self.core_task),
                                                   "core_end": np.asarray(self.core_end)})}

    cdef object _core_tasks(self, state, running):
        return read(state, _STATE, cores=self.n_cores, applications=self.n_applications)["core_task"]

    cdef _idle_times(self, TaskNumbers numbers, const int[:, :, ::1] share, const int[::1] count,
                     const long long[::1] free_at):
        cdef Py_ssize_t k, j
        for k in range(self.machines if self.memory is not None else 0):
            for j in range(count[k]):
                if self.task_memory[share[k, j, 0]] > self.memory[k]:
                    raise ValueError(f"state['shares'] must have tasks on machine {k} that need at most {self.memory[k]} "
                                     f"bytes, got {self.task_memory[share[k, j, 0]]}")
        return TaskQueues._idle_times(self, numbers, share, count, free_at)

    cdef _check_memory(self, core_task):
        """Raise ValueError if the tasks of the cores of a state, int64[cores], need more memory than there is."""
        cdef Py_ssize_t u, k
        cdef long long used
        for u in range(self.machines if self.memory is not None else 0):
            used = 0
            for k in range(self.first_core[u], self.first_core[u + 1]):
                if core_task[k] >= 0:
                    used += self.task_memory[core_task[k]]
            if used > self.memory[u]:
                raise ValueError(f"state['core_task'] must have tasks on machine {u} that need at most {self.memory[u]} "
                                 f"bytes, got {used}")

    def setstate(self, state):
        """Restore a state of `getstate`, as `TaskQueues.setstate` does."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        entries = read(state, _STATE, cores=self.n_cores, applications=self.n_applications)
        self._check_memory(entries["core_task"])
        access = None  # the next call guards the queues itself
        super().setstate(state)
        self.core_task, self.core_end = entries["core_task"], entries["core_end"]
        if self.own_sizes:
            np.asarray(self.core_task)[np.asarray(self.numbers.running) < 0] = -1
        waiting_time = self._idle_times(self.numbers, self.share, self.count, np.zeros(self.machines, np.int64))
        self.waiting_time = waiting_time
        self._count_memory()
        for k in range(self.machines):
            self._set_running(k)
            self._update(k)
