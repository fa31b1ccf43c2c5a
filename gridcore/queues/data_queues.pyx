"""The task queues of machines that fetch the input of tasks over a link, and send their output back.

A machine has a link of its own to where the data are, as wide up as down, and takes tasks one by one from its
queue.  A task has three stages: its input is fetched, it is computed, its output is sent.  At each moment one
task at most is in each stage: while the machine computes one, it fetches the input of the next and sends the
output of the one before.  That is a permutation flow shop whose buffers have room for one task.  With the times
f, p and g of the stages, a task that follows one which began to be computed at S' and left the processor at V',
and whose output was sent by U',

    begins to be computed at S = max(V', S' + f), leaves the processor at V = max(S + p, U'), and is over at V + g.

A task without input is taken from the queue when the processor is free, any other when its input begins to be
fetched; a task without output is over at S + p and waits for nobody.  So without data all is as in `TaskQueues`.
A machine does not fetch further ahead, since a task that has been taken is not overtaken by a more urgent one.

How much an aware machine can still take is a bound from below.  n tasks alone take at most

    f + p + g + (n - 1) max(f, p, g),

and a machine ends no later than if it began each share when the one before was over, since each S, V and U grows
with the times of the tasks before.  So the queue counts as one of shares that take so long, one after another, on
one processor: all formulas of `gridcore.queues.availability` guard, with these times in place of tasks * task size.
A machine that is not aware counts the computing only.

The reference implementation is `tests.reference.data_queues`.
"""

cimport cython

from libc.math cimport floor, llrint

from gridcore.common.arguments cimport (
    NOT_NEGATIVE, _Guard, check_array, check_lengths, check_scalar, doubles, guard, kept,
)
from gridcore.common.instants cimport NEVER
from gridcore.queues.availability cimport queue_gap
from gridcore.queues.edf cimport Queue
from gridcore.queues.journal cimport journal_note
from gridcore.queues.task_queues cimport Scratch, TaskQueues, scratch_free, scratch_make

import numpy as np

from gridcore.common.state import LATEST, Array, read, read_only

__all__ = ["DataQueues"]

#: The most tasks that a machine has taken and that are not over: one in each stage.
cdef enum:
    STAGES = 3


cdef long long _nanoseconds(double seconds) noexcept nogil:
    return llrint(seconds * 1e9) if seconds * 1e9 < 9.2e18 else NEVER


@cython.auto_pickle(False)
cdef class DataQueues(TaskQueues):
    """The task queues of `len(speed)` machines with links to the data of tasks.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s.
    bandwidth
        float64[machines], bytes/s, the same up and down; inf for a link that takes no time.
    aware
        Whether the minimum stretch, the order, and what a machine can take count the data of tasks.
    **more
        As for `TaskQueues`.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    def __cinit__(self, speed, *, bandwidth: ArrayLike, bint aware=True, **more):
        unknown = set(more) - {"order", "watch", "log", "record", "tolerance"}
        if unknown:
            raise TypeError(f"DataQueues() got an unexpected keyword argument {min(unknown)!r}")
        self.bandwidth = kept(bandwidth, "bandwidth")
        check_lengths(self.machines, self.bandwidth.shape[0], "speed", "bandwidth")
        for u in range(self.machines):
            if not self.bandwidth[u] > 0.0:
                raise ValueError(f"bandwidth[{u}] must be a number > 0, got {self.bandwidth[u]!r}")
        self.aware = aware
        self.input = self.output = np.zeros(0)
        self.pipe = np.zeros((self.machines, 3), np.int64)
        self.held = np.zeros((self.machines, STAGES, 4), np.int64)
        self.n_held = np.zeros(self.machines, np.int64)
        self.stale = np.zeros(self.machines, np.uint8)

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike,
                         whose: ArrayLike | None = None, *, sizes: ArrayLike | None = None,
                         tasks: ArrayLike | None = None, input_bytes: ArrayLike | None = None,
                         output_bytes: ArrayLike | None = None):
        """Append applications; see `TaskQueues.add_applications`.

        Tasks of own sizes are rejected.

        Parameters
        ----------
        input_bytes, output_bytes
            float64[k], bytes that a task fetches and sends; by default none.  Further bags have those of the
            application to which they belong.
        """
        cdef _Guard alone = guard(&self.occupied)
        if sizes is not None or tasks is not None:
            raise ValueError("sizes and tasks must be None: tasks that move data are equal in an application")
        k = doubles(release, "release").shape[0]
        own = [np.zeros(k) if given is None else np.asarray(doubles(given, name)).copy()
               for given, name in ((input_bytes, "input_bytes"), (output_bytes, "output_bytes"))]
        for name, given in zip(("input_bytes", "output_bytes"), own):
            check_lengths(k, given.shape[0], "release", name)
            check_array(given, name, NOT_NEGATIVE)
        alone = None  # the next call holds the queues itself
        super().add_applications(release, size, task_size, whose)
        of = np.asarray(self.whose)
        self.input = np.concatenate((self.input, own[0]))[of]
        self.output = np.concatenate((self.output, own[1]))[of]

    # -- the stages ---------------------------------------------------------------------------------------

    cdef Task _task(self, Py_ssize_t u, int application) noexcept nogil:
        cdef Task task
        task.run = self._duration(u, application)
        task.fetch = _nanoseconds(self.input[application] / self.bandwidth[u])
        task.send = _nanoseconds(self.output[application] / self.bandwidth[u])
        return task

    cdef long long _taken_at(self, const Pipe* pipe, const Task* task) noexcept nogil:
        """Return when the next task is taken from the queue."""
        return pipe.fetching if task.fetch > 0 else pipe.free

    cdef Held _take(self, Pipe* pipe, const Task* task, int application) noexcept nogil:
        """Let a task pass the stages."""
        cdef Held held
        held.application = application
        held.start = pipe.free
        if task.fetch > 0:
            held.start = max(pipe.free, pipe.fetching + task.fetch)
        held.there = held.end = held.start + task.run
        pipe.fetching = held.start
        pipe.free = held.end
        if task.send > 0:
            pipe.free = max(held.end, pipe.sent)
            held.there = pipe.sent = pipe.free + task.send
        return held

    cdef Py_ssize_t _first_over(self, Py_ssize_t u) noexcept nogil:
        """Return which of the tasks that `u` has taken is over first; -1 if it has none."""
        cdef Py_ssize_t k, first = -1
        for k in range(self.n_held[u]):
            if first < 0 or self.held[u, k, 3] < self.held[u, first, 3]:
                first = k
        return first

    cdef void _advance(self, Py_ssize_t u, long long until) noexcept nogil:
        cdef Pipe* pipe = <Pipe*> &self.pipe[u, 0]
        cdef Held* held = <Held*> &self.held[u, 0, 0]
        cdef Py_ssize_t k, j
        cdef long long whose
        cdef int application
        cdef Task task
        while True:
            k = self._first_over(u)
            while k >= 0 and held[k].there <= until:
                self._complete(u, <int> held[k].application, 1, held[k].start, held[k].end, held[k].there)
                self.n_held[u] -= 1
                for j in range(k, self.n_held[u]):
                    held[j] = held[j + 1]
                k = self._first_over(u)
            if self.n_held[u] == 0:
                self.running[u] = -1
            if self.count[u] == 0:
                return
            application = self.share[u, self.first[u], 0]
            task = self._task(u, application)
            if self._taken_at(pipe, &task) >= until:
                return
            k = self.n_held[u]
            held[k] = self._take(pipe, &task, application)
            self.n_held[u] += 1
            whose = self.whose[application]
            if self.first_start[whose] < 0 or held[k].start < self.first_start[whose]:
                self.first_start[whose] = held[k].start
            self._use(u, <int> whose)
            self.busy[u] += task.run
            self.running[u] = application
            self.free_at[u] = max(self.free_at[u], held[k].there)
            self.waiting[u] -= 1
            self.share[u, self.first[u], 1] -= 1
            if self.share[u, self.first[u], 1] == 0:
                self.first[u] += 1
                self.count[u] -= 1
                if self.count[u] == 0:
                    self.first[u] = 0

    cdef long long _drained(self, Py_ssize_t u) noexcept nogil:
        """Return when all that `u` has is over."""
        cdef Pipe pipe = (<Pipe*> &self.pipe[u, 0])[0], before
        cdef long long last = self.free_at[u], left
        cdef Py_ssize_t k
        cdef int application
        cdef Task task
        cdef Held held
        for k in range(self.first[u], self.first[u] + self.count[u]):
            application, left = self.share[u, k, 0], self.share[u, k, 1]
            task = self._task(u, application)
            while left > 0:
                before = pipe
                held = self._take(&pipe, &task, application)
                left -= 1
                # once all stages move by the same time, they do so for every further task
                if left > 0 and pipe.free - before.free == pipe.fetching - before.fetching and (
                    task.send == 0 or pipe.sent - before.sent == pipe.free - before.free
                ):
                    pipe.fetching += left * (pipe.fetching - before.fetching)
                    held.there += left * (pipe.free - before.free)
                    if task.send > 0:
                        pipe.sent += left * (pipe.free - before.free)
                    pipe.free += left * (pipe.free - before.free)
                    left = 0
                last = max(last, held.there)
        return last

    cdef long long _planned_end(self, Py_ssize_t u) noexcept nogil:
        return self.free_at[u]

    cdef long long _next_end(self, Py_ssize_t u) noexcept nogil:
        # the end of a task that has been taken, or of one that overtakes its output
        cdef Pipe pipe = (<Pipe*> &self.pipe[u, 0])[0]
        cdef Py_ssize_t k = self._first_over(u)
        cdef long long first = NEVER if k < 0 else self.held[u, k, 3], left
        cdef Task task
        for k in range(self.first[u], self.first[u] + self.count[u]):
            task = self._task(u, self.share[u, k, 0])
            for left in range(self.share[u, k, 1]):
                if pipe.free >= first:
                    return first
                first = min(first, self._take(&pipe, &task, 0).there)
        return first

    cdef void _update(self, Py_ssize_t u) noexcept nogil:
        if self.stale[u]:
            self.stale[u] = False
            self.idle_at[u] = self._drained(u)
        TaskQueues._update(self, u)

    # -- changes ------------------------------------------------------------------------------------------

    cdef void _change(self, Py_ssize_t u, long long now) noexcept nogil:
        """Note that another task may be the next from `now` on, up to which `u` has worked.

        A stage that could have begun before then stood still, and cannot begin earlier than now.
        """
        self.pipe[u, 0] = max(self.pipe[u, 0], now)
        self.pipe[u, 1] = max(self.pipe[u, 1], now)
        self.stale[u] = True

    cdef int _enqueue(self, Py_ssize_t u, int application, long long tasks, long long now) except -1:
        cdef Task task = self._task(u, application)
        self._advance(u, now)
        self._change(u, now)
        if not self._alone(&task, tasks) < <double> (NEVER - max(now, self.idle_at[u])):
            raise OverflowError(f"tasks of application {application} on machine {u} end after the last instant")
        return TaskQueues._enqueue(self, u, application, tasks, now)

    cdef long long _withdraw(self, Py_ssize_t u, int application, long long tasks, long long now) noexcept nogil:
        self._advance(u, now)
        self._change(u, now)
        return TaskQueues._withdraw(self, u, application, tasks, now)

    cdef double _reorder(self, Py_ssize_t u, long long now, Scratch* s) noexcept nogil:
        self._change(u, now)
        return TaskQueues._reorder(self, u, now, s)

    cdef dict _cut(self, Py_ssize_t u, long long now):
        cdef Py_ssize_t k
        cdef long long whose, end
        left = {}
        for k in range(self.n_held[u]):
            whose = self.whose[self.held[u, k, 0]]
            left[whose] = left.get(whose, 0) + 1
            end = min(self.held[u, k, 2], max(self.held[u, k, 1], now))
            self.busy[u] -= self.held[u, k, 2] - end
            if self.held[u, k, 1] >= now:
                continue
            self.interrupted[u] += 1
            if self.record:
                journal_note(&self.ran, u, <int> whose, 1, self.held[u, k, 1], end, 0)
        self.n_held[u] = 0
        self.running[u] = -1
        self.pipe[u, :] = now
        self.stale[u] = True
        return left

    # -- queries of the scheduler ----------------------------------------------------------------------------

    cdef double _alone(self, const Task* task, long long tasks) noexcept nogil:
        """Return how long so many tasks take on an idle machine, ns."""
        return <double> task.fetch + task.run + task.send + (tasks - 1.0) * max(task.fetch, task.run, task.send)

    cdef void _gather(self, Py_ssize_t u, long long at, bint begun, Queue* q, Scratch* s) noexcept nogil:
        cdef Pipe pipe = (<Pipe*> &self.pipe[u, 0])[0]
        cdef const int* row = &self.share[u, self.first[u], 0]
        cdef long long edge = at + begun, start = at, tasks, end
        cdef Py_ssize_t k, n = 0
        cdef double least = 0.0
        cdef Task task
        cdef Held held
        cdef int i
        for k in range(self.n_held[u]):
            i, end = <int> self.held[u, k, 0], self.held[u, k, 3] if self.aware else self.held[u, k, 2]
            if end > at:
                start = max(start, end)
                least = max(least, (end / 1e9 - self.release[i]) / self.size[i])
        for k in range(self.count[u]):
            i, tasks = row[2 * k], row[2 * k + 1]
            task = self._task(u, i)
            while n == 0 and tasks > 0 and self._taken_at(&pipe, &task) < edge:
                held = self._take(&pipe, &task, i)
                tasks -= 1
                end = held.there if self.aware else held.end
                if end > at:
                    start = max(start, end)
                    least = max(least, (end / 1e9 - self.release[i]) / self.size[i])
            if tasks == 0:
                continue
            s.release[n] = self.release[i]
            s.size[n] = self.size[i]
            s.work[n] = tasks * self.task_size[i]
            if self.aware and (task.fetch > 0 or task.send > 0):
                s.work[n] = self._alone(&task, tasks) / 1e9 * self.speed[u]
            s.order[n] = <int> n
            n += 1
        q.n = n
        q.release, q.size, q.work = s.release, s.size, s.work
        q.speed = self.speed[u]
        q.free_at = start / 1e9
        q.floor = least

    def room(self, double stretch, Py_ssize_t application, long long now, machines: ArrayLike) -> Integers:
        """Return int64[k]: how many more tasks of `application` each of `machines` can surely take at `stretch`.

        With that many, all that the machine has is over by its deadline, release + stretch * size.
        """
        cdef _Guard alone = guard(&self.occupied)
        check_scalar(stretch, "stretch", NOT_NEGATIVE)
        if not 0 <= application < self.n_applications:
            raise ValueError(f"application must be in 0..{self.n_applications - 1}, got {application}")
        cdef const long long[::1] u = self._machines(machines)
        result = np.zeros(u.shape[0], np.int64)
        cdef long long[::1] out = result
        cdef Py_ssize_t k
        cdef double gap, each
        cdef Queue q
        cdef Scratch s
        cdef Task task
        if not scratch_make(&s, self.capacity):
            raise MemoryError
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], now)
                self._update(u[k])
                self._gather(u[k], now, False, &q, &s)
                gap = queue_gap(&q, s.order, stretch, self.release[application], self.size[application], s.room)
                task = self._task(u[k], <int> application)
                if self.aware and (task.fetch > 0 or task.send > 0):
                    each = max(task.fetch, task.run, task.send)
                    gap = (gap / self.speed[u[k]] * 1e9 - self._alone(&task, 1)) / each + 1.0
                else:
                    gap /= self.task_size[application]
                out[k] = <long long> max(0.0, floor(gap)) if gap < 2.0**63 else NEVER
        scratch_free(&s)
        return result

    # -- checkpoints --------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return what has changed since the queues and their applications were made; see `gridcore.common.state`."""
        mine = {"pipe": np.asarray(self.pipe), "held": np.asarray(self.held), "n_held": np.asarray(self.n_held)}
        return {**super().getstate(), **read_only(mine)}

    def setstate(self, state):
        """Restore what `getstate` returned; see `TaskQueues.setstate`."""
        cdef _Guard alone = guard(&self.occupied)
        given = read(state, {
            "pipe": Array(np.int64, ("machines", 3), (0, LATEST + 1)),
            "held": Array(np.int64, ("machines", STAGES, 4), (0, LATEST + 1)),
            "n_held": Array(np.int64, ("machines",), (0, STAGES + 1)),
        }, machines=self.machines)
        place = np.arange(STAGES) < given["n_held"][:, None]
        if (given["held"][place][:, 0] >= self.n_applications).any():
            raise ValueError(f"state['held'] must have applications below {self.n_applications}")
        if (given["held"][place][:, 1:3] > given["held"][place][:, 2:4]).any():
            raise ValueError("state['held'] must have start, end and arrival of a task in this order")
        if not isinstance(state["running"], np.ndarray) or ((given["n_held"] > 0) != (state["running"] >= 0)).any():
            raise ValueError("state['running'] must be -1 where state['n_held'] is 0, and only there")
        alone = None  # the next call holds the queues itself
        super().setstate(state)
        self.pipe, self.held, self.n_held = given["pipe"], given["held"], given["n_held"]
        for k in range(self.machines):
            self.stale[k] = True
            self._update(k)
