"""The task queues of machines that fetch the input of tasks over a link, and send their output back.

Each machine has its own link to the storage, with the same bandwidth up and down, and takes tasks one by one from
its queue.  A task has three stages: fetch its input, compute, send its output.  Each stage has at most one task
at a time: while a machine computes a task, it fetches the input of the next one and sends the output of the one
before.  This is a permutation flow shop with buffers for one task.  Let f, p and g be the durations of the stages
of a task, and let the task before it start computing at S', leave the processor at V' and be sent by U'.  Then it

    starts computing at S = max(V', S' + f), leaves the processor at V = max(S + p, U'), and ends at V + g.

A task without input is taken from the queue when the processor is free, any other when its fetch starts; a task
without output ends at S + p and waits for no other output.  Without data the results are those of `TaskQueues`.
A machine does not fetch further ahead, because a task that has been taken cannot be overtaken by a more urgent one.

The room of an aware machine is a lower bound.  n tasks alone take at most

    f + p + g + (n - 1) max(f, p, g),

and a machine ends no later than if it started each share after the end of the one before, since S, V and U grow
with the durations of the earlier tasks.  The queue is therefore treated as shares of these durations, one after
another on one processor: the formulas of `gridcore.queues.availability` hold with these times in place of
tasks * task size.  A machine that is not aware counts the computing only.

The reference implementation is `tests.reference.data_queues`.
"""

cimport cython

from libc.math cimport floor, llrint

from gridcore.common.arguments cimport (
    NOT_NEGATIVE, _Guard, check_array, check_lengths, check_scalar, doubles, doubles_copy, guard,
)
from gridcore.common.instants cimport NEVER
from gridcore.queues.availability cimport queue_gap
from gridcore.queues.edf cimport Queue
from gridcore.queues.journal cimport journal_record
from gridcore.queues.task_queues cimport Scratch, TaskQueues, scratch_free, scratch_make

import numpy as np

from gridcore.common.state import INSTANT, ArrayEntry, TableEntry, read, read_only

__all__ = ["DataQueues"]

#: The largest number of tasks that a machine has taken from its queue but not completed: one per stage.
cdef enum:
    STAGES = 3

_STATE = {
    "pipe": ArrayEntry(np.int64, ("machines", 3), INSTANT),
    "active": TableEntry({"application": (0, "applications"), **dict.fromkeys(("start", "end", "arrival"), INSTANT)}),
    "n_active": ArrayEntry(np.int64, ("machines",), (0, STAGES + 1), "active"),
}


cdef long long _nanoseconds(double seconds) noexcept nogil:
    return llrint(seconds * 1e9) if seconds * 1e9 < 9.2e18 else NEVER


@cython.auto_pickle(False)
cdef class DataQueues(TaskQueues):
    """The task queues of `len(speed)` machines, each with a link over which tasks fetch and send their data.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s.
    bandwidth
        float64[machines], bytes/s, the same up and down; inf for no transmission time.
    aware
        Whether the minimum stretch, the order and the capacity of a machine include the data of tasks.
    **options
        Options of `TaskQueues`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __cinit__(self, speed, *, bandwidth: ArrayLike, bint aware=True, **options):
        unknown = set(options) - {"order", "watch", "log", "record", "tolerance"}
        if unknown:
            raise TypeError(f"DataQueues does not support the argument {min(unknown)!r}")
        self.bandwidth = doubles_copy(bandwidth, "bandwidth")
        check_lengths(self.machines, self.bandwidth.shape[0], "speed", "bandwidth")
        for u in range(self.machines):
            if not self.bandwidth[u] > 0.0:
                raise ValueError(f"bandwidth[{u}] must be a number > 0, got {self.bandwidth[u]!r}")
        self.aware = aware
        self.input = self.output = np.zeros(0)
        self.pipe = np.zeros((self.machines, 3), np.int64)
        self.active = np.zeros((self.machines, STAGES, 4), np.int64)
        self.n_active = np.zeros(self.machines, np.int64)
        self.stale = np.zeros(self.machines, np.uint8)

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike,
                         whose: ArrayLike | None = None, *, sizes: ArrayLike | None = None,
                         tasks: ArrayLike | None = None, input_bytes: ArrayLike | None = None,
                         output_bytes: ArrayLike | None = None):
        """Append applications as `TaskQueues.add_applications` does, without `sizes` and `tasks`.

        Parameters
        ----------
        input_bytes, output_bytes
            float64[k], bytes that a task fetches and sends; by default none.  A resubmitted bag has those of
            its application.
        """
        cdef _Guard access = guard(&self.in_call)
        if sizes is not None or tasks is not None:
            raise ValueError("DataQueues does not support sizes or tasks")
        k = doubles(release, "release").shape[0]
        data = [np.zeros(k) if amounts is None else np.asarray(doubles(amounts, name)).copy()
               for amounts, name in ((input_bytes, "input_bytes"), (output_bytes, "output_bytes"))]
        for name, amounts in zip(("input_bytes", "output_bytes"), data):
            check_lengths(k, amounts.shape[0], "release", name)
            check_array(amounts, name, NOT_NEGATIVE)
        access = None  # the next call guards the queues itself
        super().add_applications(release, size, task_size, whose)
        owners = np.asarray(self.owner)
        self.input = np.concatenate((self.input, data[0]))[owners]
        self.output = np.concatenate((self.output, data[1]))[owners]

    # -- the stages ---------------------------------------------------------------------------------------

    cdef Task _task(self, Py_ssize_t u, int application) noexcept nogil:
        cdef Task task
        task.run = self._duration(u, application)
        task.fetch = _nanoseconds(self.input[application] / self.bandwidth[u])
        task.send = _nanoseconds(self.output[application] / self.bandwidth[u])
        return task

    cdef long long _taken_at(self, const Pipe* pipe, const Task* task) noexcept nogil:
        """Return when the next task is taken from the queue, ns."""
        return pipe.fetching if task.fetch > 0 else pipe.free

    cdef ActiveTask _take(self, Pipe* pipe, const Task* task, int application) noexcept nogil:
        """Pass a task through the stages of `pipe`; return the instants of its stages."""
        cdef ActiveTask active
        active.application = application
        active.start = pipe.free
        if task.fetch > 0:
            active.start = max(pipe.free, pipe.fetching + task.fetch)
        active.arrival = active.end = active.start + task.run
        pipe.fetching = active.start
        pipe.free = active.end
        if task.send > 0:
            pipe.free = max(active.end, pipe.sent)
            active.arrival = pipe.sent = pipe.free + task.send
        return active

    cdef Py_ssize_t _first_over(self, Py_ssize_t u) noexcept nogil:
        """Return the index of the active task of `u` that ends first; -1 if there is none."""
        cdef Py_ssize_t k, first = -1
        for k in range(self.n_active[u]):
            if first < 0 or self.active[u, k, 3] < self.active[u, first, 3]:
                first = k
        return first

    cdef void _advance(self, Py_ssize_t u, long long until) noexcept nogil:
        cdef Pipe* pipe = <Pipe*> &self.pipe[u, 0]
        cdef ActiveTask* active = <ActiveTask*> &self.active[u, 0, 0]
        cdef Py_ssize_t k, j
        cdef long long owner
        cdef int application
        cdef Task task
        while True:
            k = self._first_over(u)
            while k >= 0 and active[k].arrival <= until:
                self._complete(u, <int> active[k].application, 1, active[k].start, active[k].end, active[k].arrival)
                self.n_active[u] -= 1
                for j in range(k, self.n_active[u]):
                    active[j] = active[j + 1]
                k = self._first_over(u)
            if self.n_active[u] == 0:
                self.running[u] = -1
            if self.count[u] == 0:
                return
            application = self.share[u, self.first[u], 0]
            task = self._task(u, application)
            if self._taken_at(pipe, &task) >= until:
                return
            if self.n_active[u] == STAGES:  # only after an invalid state: no stage is free before a task has ended
                pipe.fetching = pipe.free = active[self._first_over(u)].arrival
                self.stale[u] = True
                continue
            k = self.n_active[u]
            active[k] = self._take(pipe, &task, application)
            self.n_active[u] += 1
            owner = self.owner[application]
            if self.first_start[owner] < 0 or active[k].start < self.first_start[owner]:
                self.first_start[owner] = active[k].start
            self._mark_used(u, <int> owner)
            self.busy_time[u] += task.run
            self.running[u] = application
            self.free_at[u] = max(self.free_at[u], active[k].arrival)
            self.waiting[u] -= 1
            self.share[u, self.first[u], 1] -= 1
            if self.share[u, self.first[u], 1] == 0:
                self.first[u] += 1
                self.count[u] -= 1
                if self.count[u] == 0:
                    self.first[u] = 0

    cdef long long _drain_time(self, Py_ssize_t u) noexcept nogil:
        """Return when machine `u` will have completed all its tasks, ns."""
        cdef Pipe pipe = (<Pipe*> &self.pipe[u, 0])[0], previous
        cdef long long last = self.free_at[u], left
        cdef Py_ssize_t k
        cdef int application
        cdef Task task
        cdef ActiveTask active
        for k in range(self.first[u], self.first[u] + self.count[u]):
            application, left = self.share[u, k, 0], self.share[u, k, 1]
            task = self._task(u, application)
            while left > 0:
                previous = pipe
                active = self._take(&pipe, &task, application)
                left -= 1
                # if all stages advanced by the same time, they also do so for each further task of the share
                if left > 0 and pipe.free - previous.free == pipe.fetching - previous.fetching and (
                    task.send == 0 or pipe.sent - previous.sent == pipe.free - previous.free
                ):
                    pipe.fetching += left * (pipe.fetching - previous.fetching)
                    active.arrival += left * (pipe.free - previous.free)
                    if task.send > 0:
                        pipe.sent += left * (pipe.free - previous.free)
                    pipe.free += left * (pipe.free - previous.free)
                    left = 0
                last = max(last, active.arrival)
        return last

    cdef long long _planned_end(self, Py_ssize_t u) noexcept nogil:
        return self.free_at[u]

    cdef long long _next_end(self, Py_ssize_t u) noexcept nogil:
        # the next end is that of an active task, or of a queued task without output: the latter may end while earlier
        # tasks are still sending their outputs
        cdef Pipe pipe = (<Pipe*> &self.pipe[u, 0])[0]
        cdef Py_ssize_t k = self._first_over(u)
        cdef long long first = NEVER if k < 0 else self.active[u, k, 3], left
        cdef Task task
        for k in range(self.first[u], self.first[u] + self.count[u]):
            task = self._task(u, self.share[u, k, 0])
            for left in range(self.share[u, k, 1]):
                if pipe.free >= first:
                    return first
                first = min(first, self._take(&pipe, &task, 0).arrival)
        return first

    cdef void _update(self, Py_ssize_t u) noexcept nogil:
        if self.stale[u]:
            self.stale[u] = False
            self.idle_at[u] = self._drain_time(u)
        TaskQueues._update(self, u)

    # -- changes ------------------------------------------------------------------------------------------

    cdef void _change(self, Py_ssize_t u, long long now) noexcept nogil:
        """Prepare machine `u`, which has advanced to `now`, for a change of its queue.

        A stage that was free earlier was idle, so its next task cannot start before `now`.
        """
        self.pipe[u, 0] = max(self.pipe[u, 0], now)
        self.pipe[u, 1] = max(self.pipe[u, 1], now)
        self.stale[u] = True

    cdef int _enqueue(self, Py_ssize_t u, int application, long long tasks, long long now) except -1:
        cdef Task task = self._task(u, application)
        self._advance(u, now)
        self._change(u, now)
        if not self._makespan(&task, tasks) < <double> (NEVER - max(now, self.idle_at[u])):
            raise OverflowError(f"tasks of application {application} on machine {u} must end before 2**63 - 1 ns")
        return TaskQueues._enqueue(self, u, application, tasks, now)

    cdef long long _withdraw(self, Py_ssize_t u, int application, long long tasks, long long now) noexcept nogil:
        self._advance(u, now)
        self._change(u, now)
        return TaskQueues._withdraw(self, u, application, tasks, now)

    cdef double _reorder(self, Py_ssize_t u, long long now, Scratch* s) noexcept nogil:
        self._change(u, now)
        return TaskQueues._reorder(self, u, now, s)

    cdef dict _interrupt(self, Py_ssize_t u, long long now):
        cdef Py_ssize_t k
        cdef long long owner, end
        left = {}
        for k in range(self.n_active[u]):
            owner = self.owner[self.active[u, k, 0]]
            left[owner] = left.get(owner, 0) + 1
            end = min(self.active[u, k, 2], max(self.active[u, k, 1], now))
            self.busy_time[u] -= self.active[u, k, 2] - end
            if self.active[u, k, 1] >= now:
                continue
            self.interrupted[u] += 1
            if self.record:
                journal_record(&self.run_log, u, <int> owner, 1, self.active[u, k, 1], end, 0)
        self.n_active[u] = 0
        self.running[u] = -1
        self.pipe[u, :] = now
        self.stale[u] = True
        return left

    # -- queries of the scheduler ----------------------------------------------------------------------------

    cdef double _makespan(self, const Task* task, long long tasks) noexcept nogil:
        """Return how long `tasks` tasks take on an idle machine, ns."""
        return <double> task.fetch + task.run + task.send + (tasks - 1.0) * max(task.fetch, task.run, task.send)

    cdef double _longest(self, Py_ssize_t u, int application, long long tasks) noexcept nogil:
        cdef Task task = self._task(u, application)
        return self._makespan(&task, tasks)

    cdef bint _gather(self, Py_ssize_t u, long long at, bint inclusive, Queue* q, Scratch* s) noexcept nogil:
        cdef Pipe pipe = (<Pipe*> &self.pipe[u, 0])[0]
        cdef const int* row = &self.share[u, self.first[u], 0]
        cdef long long edge = at + inclusive, start = at, tasks, end
        cdef Py_ssize_t k, n = 0
        cdef double least = 0.0
        cdef Task task
        cdef ActiveTask active
        cdef int i
        for k in range(self.n_active[u]):
            i, end = <int> self.active[u, k, 0], self.active[u, k, 3] if self.aware else self.active[u, k, 2]
            if end > at:
                start = max(start, end)
                least = max(least, (end / 1e9 - self.release[i]) / self.size[i])
        for k in range(self.count[u]):
            i, tasks = row[2 * k], row[2 * k + 1]
            task = self._task(u, i)
            while n == 0 and tasks > 0 and self._taken_at(&pipe, &task) < edge:
                active = self._take(&pipe, &task, i)
                tasks -= 1
                end = active.arrival if self.aware else active.end
                if end > at:
                    start = max(start, end)
                    least = max(least, (end / 1e9 - self.release[i]) / self.size[i])
            if tasks == 0:
                continue
            s.release[n] = self.release[i]
            s.size[n] = self.size[i]
            s.work[n] = tasks * self.task_size[i]
            if self.aware and (task.fetch > 0 or task.send > 0):
                s.work[n] = self._makespan(&task, tasks) / 1e9 * self.speed[u]
            s.order[n] = <int> n
            n += 1
        q.n = n
        q.release, q.size, q.work = s.release, s.size, s.work
        q.speed = self.speed[u]
        q.free_at = start / 1e9
        q.floor = least
        return False

    def capacity_of(self, double stretch, Py_ssize_t application, long long now, machines: ArrayLike) -> Integers:
        """Return a lower bound of the further tasks of `application` that each of `machines` can take at `stretch`.

        Returns int64[k].  With so many tasks, all tasks of the machine meet their deadlines, release + stretch * size.
        """
        cdef _Guard access = guard(&self.in_call)
        check_scalar(stretch, "stretch", NOT_NEGATIVE)
        if not 0 <= application < self.n_applications:
            raise ValueError(f"application must be in 0..{self.n_applications - 1}, got {application}")
        cdef const long long[::1] u = self._machines(machines)
        result = np.zeros(u.shape[0], np.int64)
        cdef long long[::1] out = result
        cdef Py_ssize_t k
        cdef double capacity
        cdef Scratch s
        if not scratch_make(&s, self.capacity):
            raise MemoryError
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], now)
                self._update(u[k])
                capacity = self._capacity_of(u[k], stretch, application, now, &s)
                out[k] = <long long> capacity if capacity < 2.0**63 else NEVER
        scratch_free(&s)
        return result

    cdef double _capacity_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now,
                      Scratch* s) noexcept nogil:
        cdef double gap
        cdef Queue q
        cdef Task task = self._task(u, <int> application)
        self._gather(u, now, False, &q, s)
        gap = queue_gap(&q, s.order, stretch, self.release[application], self.size[application], s.buffer)
        if self.aware and (task.fetch > 0 or task.send > 0):
            gap = (gap / self.speed[u] * 1e9 - self._makespan(&task, 1)) / max(task.fetch, task.run, task.send) + 1.0
        else:
            gap /= self.task_size[application]
        return min(max(0.0, floor(gap)), 2.0**63)

    # -- checkpoints --------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since applications were added, as described in `gridcore.common.state`."""
        n_active = np.asarray(self.n_active)
        entries = {"pipe": np.asarray(self.pipe), "n_active": n_active,
                   "active": np.asarray(self.active)[np.arange(STAGES) < n_active[:, None]]}
        return {**super().getstate(), **read_only(entries)}

    def setstate(self, state):
        """Restore a state of `getstate`, as `TaskQueues.setstate` does."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        entries = read(state, _STATE, machines=self.machines, applications=self.n_applications)
        access = None  # the next call guards the queues itself
        super().setstate(state)
        n_active, rows = entries["n_active"], entries["active"]
        active = np.zeros((self.machines, STAGES, 4), np.int64)
        active[np.arange(STAGES) < n_active[:, None]] = rows
        self.pipe, self.active, self.n_active = entries["pipe"], active, n_active
        running, free_at = np.asarray(self.running), np.asarray(self.free_at)
        running[:] = np.where(n_active > 0, np.where(running < 0, active[:, 0, 0], running), -1)
        free_at[:] = np.maximum(free_at, active[:, :, 3].max(axis=1))
        for k in range(self.machines):
            self.stale[k] = True
            self._update(k)
