"""The task queues of all machines, in EDF order at the minimum stretch of each machine, and queries of schedulers.

`gridcore.queues.machine_queues` runs the tasks.  This module has the order, which `reschedule` computes when a queue
has changed; a running task is pinned.  Plans, such as the minimum stretch, use the task size that is stated for the
application, even if tasks have sizes of their own.

Source: Celaya & Marchal, section 4 (local scheduler), with the exact minimum stretch of the EDF kernel, or
with Algorithm 2 and a tolerance.
The reference implementation is `tests.reference.task_queues`.
"""

cimport cython

from libc.math cimport INFINITY, NAN
from libc.stdlib cimport free, malloc

from gridcore.common.arguments cimport FINITE, NOT_NEGATIVE, POSITIVE, _Guard, check_scalar, guard
from gridcore.common.instants cimport NEVER
from gridcore.queues.availability cimport Grid, queue_gap, scratch_size, sample_queue
from gridcore.queues.edf cimport Queue, bisect, minimum_stretch
from gridcore.queues.machine_queues cimport MachineQueues

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid

__all__ = ["TaskQueues"]



cdef struct Share:
    int application
    int tasks


cdef bint scratch_make(Scratch* s, Py_ssize_t n) noexcept nogil:
    s.release = <double*> malloc((3 * n + scratch_size(n)) * sizeof(double))
    s.order = <int*> malloc((n + 1) * sizeof(int))
    if s.release == NULL or s.order == NULL:
        free(s.release)
        free(s.order)
        return False
    s.size = s.release + n
    s.work = s.size + n
    s.buffer = s.work + n
    return True


cdef void scratch_free(Scratch* s) noexcept nogil:
    free(s.release)
    free(s.order)


@cython.auto_pickle(False)
cdef class TaskQueues(MachineQueues):
    """The task queues of `len(speed)` machines.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s.
    order
        ``"edf"`` (at the machine's minimum stretch) or ``"fifo"`` (as enqueued).
    watch
        The changes that `next_change` and `due` report: ``"idle"``, a machine runs out of work, or
        ``"completion"``, any task ends.
    log
        Whether to keep completions until `advance` returns them; may be changed at any time.
    record
        Whether to keep the records that `schedule` and `arrivals` return.
    tolerance
        0: minimum stretches are exact.  A number below 1: they are the results of a bisection, which exceed the
        exact ones by at most this fraction of themselves.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __cinit__(self, speed: ArrayLike, *, str order: Literal["edf", "fifo"] = "edf",
                  str watch: Literal["idle", "completion"] = "idle", bint log=False, bint record=False,
                  double tolerance=0.0, **data):
        if data and type(self) is TaskQueues:
            raise TypeError(f"TaskQueues does not support the argument {next(iter(data))!r}")
        if order not in ("edf", "fifo"):
            raise ValueError(f"order must be 'edf' or 'fifo', got {order!r}")
        if not 0.0 <= tolerance < 1.0:
            raise ValueError(f"tolerance must be >= 0 and < 1, got {tolerance!r}")
        self.order, self.edf, self.tolerance = order, order == "edf", tolerance

    # -- the order ----------------------------------------------------------------------------------------

    def reschedule(self, machines: ArrayLike, long long now):
        """Sort the queues of `machines` in EDF order at their minimum stretch at `now` ns."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._machines(machines)
        cdef Py_ssize_t k
        cdef Scratch s
        if not self.edf:
            return
        if not scratch_make(&s, self.capacity):
            raise MemoryError
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], now)
                self._reorder(u[k], now, &s)
                self._update(u[k])
        scratch_free(&s)

    cdef double _minimum(self, const Queue* q, Scratch* s) noexcept nogil:
        """Return the minimum stretch of `q`, within the tolerance, and leave the EDF order at it in `s.order`."""
        if self.tolerance == 0.0:
            return minimum_stretch(q, s.order, s.buffer)
        return bisect(q, s.order, s.buffer, self.tolerance)

    cdef double _reorder(self, Py_ssize_t u, long long now, Scratch* s) noexcept nogil:
        cdef Queue q
        cdef Py_ssize_t k, n = self.count[u]
        cdef double least
        if n < 2:
            return NAN
        self._gather(u, now, False, &q, s)
        least = self._minimum(&q, s)
        # the scratch memory holds the reordered shares, which take eight bytes each
        cdef Share* row = <Share*> &self.share[u, self.first[u], 0]
        cdef Share* moved = <Share*> s.buffer
        for k in range(n):
            moved[k] = row[s.order[k]]
        for k in range(n):
            row[k] = moved[k]
        return least

    # -- queries of the scheduler ----------------------------------------------------------------------------

    def minimum_stretch(self, machines: ArrayLike, long long now) -> Floats:
        """Return float64[k], the minimum stretch (s/Mflop) of the tasks of each machine; inf for an idle machine."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._machines(machines)
        result = np.empty(u.shape[0])
        cdef double[::1] out = result
        cdef Py_ssize_t k
        cdef Queue q
        cdef Scratch s
        if not scratch_make(&s, self.capacity):
            raise MemoryError
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], now)
                self._update(u[k])
                if self.count[u[k]] == 0 and self.running[u[k]] < 0:
                    out[k] = INFINITY
                else:
                    self._gather(u[k], now, False, &q, &s)
                    out[k] = self._minimum(&q, &s)
        scratch_free(&s)
        return result

    def summaries(self, machines: ArrayLike, grid: SummaryGrid, long long now, *, cell: int | None = None,
                  long long memory=0, int threads=1) -> NDArray[np.uint32]:
        """Return uint32[k, nS, nW, nA], the availability of `machines` for an application released at `cell` ns.

        By default `cell` is `now`.  For a later `cell` the queue is projected to it, and cells with S
        below the machine's minimum stretch at `now` are 0.  A task that starts at exactly `cell` counts as
        started, because a task placed later by this summary cannot overtake it.  A task of the application takes
        `memory` bytes (see `CoreQueues`).  `threads` > 1 divides the machines among threads, with the same result.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._machines(machines)
        cdef long long at = now if cell is None else cell
        if at < now:
            raise ValueError(f"cell must be at least now, {now} ns, got {at}")
        if type(grid) is not SummaryGrid:
            raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
        if threads < 1:
            raise ValueError(f"threads must be >= 1, got {threads}")
        if memory < 0:
            raise ValueError(f"memory must be >= 0 bytes, got {memory}")
        result = np.empty((u.shape[0], *grid.shape), np.uint32)
        if u.shape[0] == 0:
            return result
        self.advance_quietly(u, now)
        cells = result.reshape(u.shape[0], -1)
        threads = min(threads, 1 + u.shape[0] // 64)
        if threads == 1:
            self._sample_range(u, cells, grid, now, at, memory, 0, u.shape[0])
            return result
        bounds = np.linspace(0, u.shape[0], threads + 1).astype(int)
        from concurrent.futures import ThreadPoolExecutor  # takes long to import

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda lo, hi: self._sample_range(u, cells, grid, now, at, memory, lo, hi),
                          bounds[:threads].tolist(), bounds[1:].tolist()))
        return result

    cdef advance_quietly(self, const long long[::1] u, long long now):
        cdef Py_ssize_t k
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], now)
                self._update(u[k])

    def _sample_range(self, const long long[::1] u, unsigned int[:, ::1] out, grid, long long now, long long at,
                      long long memory, Py_ssize_t lo, Py_ssize_t hi):
        cdef const double[::1] gs = grid.stretch, gw = grid.size, ga = grid.task_size
        cdef Grid g
        g.n_stretch, g.n_size, g.n_task_size = gs.shape[0], gw.shape[0], ga.shape[0]
        g.stretch, g.size, g.task_size = &gs[0], &gw[0], &ga[0]
        cdef Py_ssize_t k
        cdef double least
        cdef Scratch s
        if not scratch_make(&s, self.capacity):
            raise MemoryError
        with nogil:
            for k in range(lo, hi):
                self._sample(u[k], now, at, memory, &g, &out[k, 0], &least, &s)
        scratch_free(&s)

    cdef Py_ssize_t _sample(self, Py_ssize_t u, long long now, long long at, long long memory, const Grid* g,
                            unsigned int* out, double* least, Scratch* s) noexcept nogil:
        """Sample the availability of `u`, which has advanced to `now`, for tasks with `memory` bytes.

        `least` becomes the minimum stretch of its tasks at `now`.  Returns the number of cells in front, of whole
        stretches, that are 0 because the queue misses a deadline.
        """
        cdef Queue q
        cdef bint is_same = self._gather(u, now, False, &q, s) and at == now
        least[0] = self._minimum(&q, s)
        if not is_same:
            self._gather(u, at, True, &q, s)
        if at > now:
            q.floor = max(q.floor, least[0])
        return sample_queue(&q, s.order, g, at / 1e9, least[0], out, s.buffer)

    def available(self, double stretch, double release_new, double size_new, double task_size_new, long long now,
                  machines: ArrayLike | None = None, *, long long memory=0) -> Integers:
        """Return int64[k], the exact number of tasks that each of `machines` (default: all) can take at `stretch`.

        Larger numbers are returned as 2**63 - 1.  A task takes `memory` bytes (see `CoreQueues`).
        """
        cdef _Guard access = guard(&self.in_call)
        check_scalar(stretch, "stretch", NOT_NEGATIVE)
        check_scalar(release_new, "release_new", FINITE)
        check_scalar(size_new, "size_new", POSITIVE)
        check_scalar(task_size_new, "task_size_new", POSITIVE)
        if memory < 0:
            raise ValueError(f"memory must be >= 0 bytes, got {memory}")
        cdef const long long[::1] u = self._machines(np.arange(self.machines) if machines is None else machines)
        result = np.empty(u.shape[0], np.int64)
        cdef long long[::1] out = result
        cdef Py_ssize_t k
        cdef double capacity
        cdef Queue q
        cdef Scratch s
        if not scratch_make(&s, self.capacity):
            raise MemoryError
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], now)
                self._update(u[k])
                self._gather(u[k], now, False, &q, &s)
                capacity = queue_gap(&q, s.order, stretch, release_new, size_new, s.buffer) / (
                    task_size_new * self._width(u[k], memory))
                if not self._fits_alone(u[k], release_new + stretch * size_new - now / 1e9, task_size_new):
                    capacity = 0.0
                out[k] = <long long> capacity if capacity < 2.0**63 else NEVER
        scratch_free(&s)
        return result

    cdef bint _fits_alone(self, Py_ssize_t u, double seconds, double task_size) noexcept nogil:
        """Return whether one core of machine `u` runs a task (Mflop) within so many seconds; `_gather` covers one core."""
        return True

    cdef double _capacity_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now,
                      Scratch* s) noexcept nogil:
        """Return how many tasks of `application` machine `u`, which has advanced to `now`, can take, at most 2**63."""
        cdef double capacity
        cdef Queue q
        if not self._fits_alone(u, self.release[application] + stretch * self.size[application] - now / 1e9,
                                self.task_size[application]):
            return 0.0
        self._gather(u, now, False, &q, s)
        capacity = queue_gap(&q, s.order, stretch, self.release[application], self.size[application], s.buffer) / (
            self.task_size[application] * self._width(u, self._memory_of(application)))
        return <double> <long long> capacity if capacity < 2.0**63 else 2.0**63

    cdef bint _gather(self, Py_ssize_t u, long long at, bint inclusive, Queue* q, Scratch* s) noexcept nogil:
        """Compute the queue that `u` will have at `at` ns if nothing arrives, in the form for single-queue kernels.

        With `inclusive`, a task that starts at exactly `at` counts as started.  Returns True if `inclusive` certainly
        makes no difference, since no task starts by then.
        """
        cdef Py_ssize_t k, n = 0
        cdef const int* row = &self.share[u, self.first[u], 0]
        cdef double floor = 0.0, width = 1.0
        cdef long long cores = self._cores(u), start = self._first_free(u, at, &floor), tasks, length
        cdef long long edge = at + inclusive
        cdef bint is_busy = start > at
        cdef int i
        for k in range(self.count[u]):
            i, tasks = row[2 * k], row[2 * k + 1]
            if cores > 1:
                width = self._width(u, self._memory_of(i))
            if start < edge:
                length = self._duration(u, i)
                length = max(1, length // cores if width == 1.0 else <long long> (length * (width / cores)))
                tasks -= min(tasks, (at - start) // length)
                start += (row[2 * k + 1] - tasks) * length
                if tasks > 0 and start < edge:
                    start += length
                    tasks -= 1
                    floor = max(floor, (start / 1e9 - self.release[i]) / self.size[i])
                if tasks == 0:
                    continue
            if cores > 1:  # one of them must run the task
                floor = max(floor, (at / 1e9 + self.task_size[i] / self.speed[u] - self.release[i]) / self.size[i])
            s.release[n] = self.release[i]
            s.size[n] = self.size[i]
            s.work[n] = tasks * self.task_size[i] * width
            s.order[n] = <int> n
            n += 1
        q.n = n
        q.release, q.size, q.work = s.release, s.size, s.work
        q.speed = self.speed[u] * cores
        q.free_at = max(start, at) / 1e9
        q.floor = floor
        return is_busy

    cdef long long _first_free(self, Py_ssize_t u, long long at, double* floor) noexcept nogil:
        """Return when `u` will have run its running tasks, on average over its cores, ns.

        `floor` becomes the minimum stretch of those that run beyond `at`.
        """
        cdef long long end = self._planned_end(u)
        cdef int running = self.running[u]
        if running < 0:
            return end
        if end <= at:
            return at if self.own_sizes else end  # it has run for longer than estimated, and may end now
        floor[0] = max(floor[0], (end / 1e9 - self.release[running]) / self.size[running])
        return end
