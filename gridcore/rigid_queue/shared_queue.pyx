"""A queue of rigid jobs that share machines: nodes with cores, memory and GPUs, as in the batch system of a site.

Times are int64 nanoseconds.  A job has tasks.  Each task takes cores, memory and GPUs of one machine, and all tasks of a
job run at the same time.  A machine has room for a task if its free cores, memory and GPUs suffice; for a task of an
exclusive job it must moreover be idle, and is taken as a whole.  A job may limit its tasks per machine.

A job takes machines with room in the order of `placement`, and on each of them as many tasks as it has room for:

- ``"first"``: those with the lowest numbers;
- ``"best"``: those with the fewest free cores, ties by number;
- ``"spread"``: those with the most free cores, ties by number.

At one instant ends are handled first, then submissions, then starts.  The queue is examined in its order
(`gridcore.rigid_queue.ordered_queue`); a job that fits when its turn comes starts.  The first job that does not fit is
the head.  Without backfilling no later job starts.  With EASY backfilling the head gets a reservation, anew whenever
the queue is examined.  Its shadow time is the first instant at which it fits, if running jobs end at their estimates; a
job that runs beyond its estimate counts as ending now.  Its machines are selected, by the same rule, among what is free
at the shadow time after all ends up to it.  Each later job starts, in queue order, if it fits now and its estimate ends
by the shadow time; or if it fits now on what the reservation leaves free at the shadow time, which it then reduces.  If
too few machines are up for the head, there is no shadow time, and every job that fits starts.

The queue is examined only when a job has ended or was submitted, a machine has failed or recovered, or a prediction was
corrected.

The reference implementation is `tests.reference.shared_queue`.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memset

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices
from gridcore.common.instants cimport NEVER
from gridcore.common.memory cimport reallocate
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.rigid_queue.ordered_queue cimport OrderedQueue
from gridcore.rigid_queue.run_log cimport runlog_add, runlog_add_part, runlog_last
from gridcore.rigid_queue.runs cimport GO_ON, LAST_END, NO_MEMORY, TOO_LATE

import numpy as np

from gridcore.common.state import ArrayEntry, TableEntry

__all__ = ["SharedQueue"]

_MOST_CORES = 2**31 - 1
_MOST_BYTES = 2**53
cdef enum:
    FIRST, BEST, SPREAD
    # what a job may take: what is free now; now and after the shadow time; or at the shadow time
    NOW, LASTING, LATER
    NO_ROOM = 100                          # beside what `_examine` returns: the job does not fit

_PLACEMENTS = {"first": FIRST, "best": BEST, "spread": SPREAD}


cdef struct Resources:
    long long memory
    int cores, gpus


cdef struct Shape:                         # what jobs of one kind request: each task, and where
    Resources task
    int limit, partition                   # tasks per machine, 0 for no limit
    bint exclusive
    # upper bounds of the tasks for which there is room: now, and now and after the shadow time; valid in an epoch
    int room_now, room_lasting
    long long epoch_now, epoch_lasting


cdef struct Share:                         # the tasks of a job on a machine
    int machine, tasks, next


cdef inline int tasks_that_fit(const Resources* free, const Shape* shape) noexcept nogil:
    """Return the number of tasks for which there is room."""
    cdef long long n = free.cores // shape.task.cores
    if shape.task.gpus:
        n = min(n, free.gpus // shape.task.gpus)
    if shape.task.memory:
        n = min(n, free.memory // shape.task.memory)
    if shape.limit:
        n = min(n, shape.limit)
    return <int> n


cdef inline void add(Resources* sum, const Resources* amount, int times) noexcept nogil:
    sum.cores += times * amount.cores
    sum.gpus += times * amount.gpus
    sum.memory += times * amount.memory


cdef class SharedQueue(OrderedQueue):
    """A queue of rigid jobs on machines that they share, and the jobs that run on them.

    Durations are at most 2**61 ns.  An object supports one thread at a time.

    Parameters
    ----------
    cores
        int64[machines], the cores of each machine, >= 1.
    tasks
        int64[jobs], the number of tasks of each job, >= 1.
    run
        int64[jobs], ns >= 1, the run time of each job.
    estimate
        int64[jobs], ns >= 1, the estimated run time of each job, which may differ from `run`.
    memory, gpus
        int64[machines], bytes and GPUs of each machine; None if no job requests any.
    task_cores, task_memory, task_gpus
        int64[jobs], what a task of each job takes: cores >= 1 (by default 1), bytes and GPUs >= 0 (by default 0).
    tasks_per_machine
        int64[jobs], the most tasks of each job on one machine; 0 for no limit.
    exclusive
        bool[jobs], whether the machines of a job run no other job; by default they may.
    placement
        The order in which a job takes machines: "first", "best" or "spread".
    backfill
        Whether jobs are backfilled (EASY).
    ranks, order, weights, predicted, users, queues
        As for `gridcore.JobQueue`; sizes of jobs are in cores.
    limit, queue_limits
        As for `gridcore.JobQueue`, in cores.
    sizes
        int64[partitions], the machines of each partition, whose machines have consecutive numbers; None for one.
    partition
        int64[jobs], the partition of each job.
    releases
        The releases, if some jobs follow others; as for `gridcore.JobQueue`.
    log
        Whether to keep every run for `starts`.

    Raises
    ------
    ValueError
        If an argument is invalid, or a job does not fit the machines of its partition.
    """

    cdef readonly bint backfill
    cdef int placement
    cdef Resources* capacity               # by machine: all it has; and what is free, nothing while it is down
    cdef Resources* free_now
    cdef Resources* free_later             # at the shadow time, without what the head takes then
    cdef Shape* shape
    cdef Py_ssize_t n_shapes
    cdef const int[::1] shape_of           # by job
    cdef const long long[::1] first_machine             # by partition, and their number at the end
    cdef Share* share                      # the shares of all running jobs; unused ones are a list
    cdef Py_ssize_t n_share, n_unused
    cdef int unused
    cdef int[::1] room, by_cores           # scratch, by machine
    cdef int[::1] bucket                   # scratch, by number of free cores
    cdef int[::1] head                     # by partition: the job with a valid reservation, -1 for none
    cdef long long[::1] shadow             # by partition; NEVER for no shadow time
    cdef long long epoch_now
    cdef long long[::1] epoch_lasting      # by partition

    def __cinit__(self, cores: ArrayLike, tasks: ArrayLike, run: ArrayLike, estimate: ArrayLike, *,
                  memory: ArrayLike | None=None, gpus: ArrayLike | None=None, task_cores: ArrayLike | None=None,
                  task_memory: ArrayLike | None=None, task_gpus: ArrayLike | None=None,
                  tasks_per_machine: ArrayLike | None=None, exclusive: ArrayLike | None=None, placement: str="first",
                  bint backfill=True, ranks: ArrayLike | None=None, order: str | None=None,
                  weights: dict[str, Any] | None=None, bint predicted=False, users: ArrayLike | None=None,
                  long long limit=0, queues: ArrayLike | None=None, queue_limits: ArrayLike | None=None,
                  sizes: ArrayLike | None=None, partition: ArrayLike | None=None,
                  ReleaseQueue releases=None, bint log=False):
        cdef Py_ssize_t k
        cdef const long long[::1] cores_of, memory_of, gpus_of
        self.unused = -1
        if placement not in _PLACEMENTS:
            raise ValueError(f"placement must be one of {', '.join(_PLACEMENTS)}, got {placement!r}")
        self.placement, self.backfill = _PLACEMENTS[placement], backfill
        numbers = indices(cores, "cores", 1, _MOST_CORES + 1)
        if not 1 <= numbers.sum() <= _MOST_CORES:
            raise ValueError(f"cores must add up to 1..{_MOST_CORES}, got {numbers.sum()}")
        self._set_up("tasks", len(numbers), tasks, run, estimate, sizes, partition, releases, log)
        cores_of = numbers
        memory_of = self._amounts(memory, "memory", "cores", self.machines, 0, _MOST_BYTES, _MOST_BYTES)
        gpus_of = self._amounts(gpus, "gpus", "cores", self.machines, 0, _MOST_CORES, _MOST_CORES)
        self.capacity = <Resources*> reallocate(NULL, self.machines * sizeof(Resources))
        self.free_now = <Resources*> reallocate(NULL, self.machines * sizeof(Resources))
        self.free_later = <Resources*> reallocate(NULL, self.machines * sizeof(Resources))
        for k in range(self.machines):
            self.capacity[k].cores, self.capacity[k].gpus = <int> cores_of[k], <int> gpus_of[k]
            self.capacity[k].memory = memory_of[k]
        self.first_machine = np.append(0, np.cumsum(np.bincount(self.partition_of_machine)))
        self.room, self.by_cores = np.zeros(self.machines, np.int32), np.zeros(self.machines, np.int32)
        self.bucket = np.zeros(0 if self.placement == FIRST else numbers.max() + 2, np.int32)
        self.head = np.full(self.partitions, -1, np.int32)
        self.shadow = np.zeros(self.partitions, np.int64)
        self.epoch_lasting = np.zeros(self.partitions, np.int64)
        self._set_shapes(task_cores, task_memory, task_gpus, tasks_per_machine, exclusive)
        self.total_width = numbers.sum()
        self._set_up_running(numbers.sum())
        self._set_up_order(ranks, order, weights, predicted, users, limit, queues, queue_limits)
        self.line = np.zeros(self.jobs + 1, np.int32)
        self._clear()

    cdef object _amounts(self, values, str name, str like, Py_ssize_t count, long long low, long long high,
                         long long default):
        """Return `values` as int64[count], each in low..high; `default` for None."""
        if values is None:
            return np.full(count, default)
        values = indices(values, name, low, high + 1)
        check_lengths(count, len(values), like, name)
        return values

    cdef int _set_shapes(self, task_cores, task_memory, task_gpus, tasks_per_machine, exclusive) except -1:
        """Set the different shapes of jobs, after a check that each job fits the machines of its partition."""
        cdef Py_ssize_t k, u
        cdef long long room
        cdef Shape* shape
        columns = np.stack((
            self._amounts(task_cores, "task_cores", "tasks", self.jobs, 1, _MOST_CORES, 1),
            self._amounts(task_memory, "task_memory", "tasks", self.jobs, 0, _MOST_BYTES, 0),
            self._amounts(task_gpus, "task_gpus", "tasks", self.jobs, 0, _MOST_CORES, 0),
            self._amounts(tasks_per_machine, "tasks_per_machine", "tasks", self.jobs, 0, _MOST_CORES, 0),
            self._amounts(None if exclusive is None else np.asarray(exclusive, np.bool_).astype(np.int64), "exclusive",
                          "tasks", self.jobs, 0, 1, 0),
            np.asarray(self.partition, np.int64)))
        shapes, shape_of = np.unique(columns, axis=1, return_inverse=True)
        cdef const long long[:, ::1] rows = np.ascontiguousarray(shapes.T)
        self.shape_of = shape_of.ravel().astype(np.int32)
        self.n_shapes = rows.shape[0]
        self.shape = <Shape*> reallocate(NULL, self.n_shapes * sizeof(Shape))
        most_tasks = np.zeros(self.n_shapes, np.int64)
        np.maximum.at(most_tasks, np.asarray(self.shape_of), np.asarray(self.nodes))
        for k in range(self.n_shapes):
            shape = &self.shape[k]
            shape.task.cores, shape.task.memory, shape.task.gpus = <int> rows[k, 0], rows[k, 1], <int> rows[k, 2]
            shape.limit, shape.exclusive, shape.partition = <int> rows[k, 3], rows[k, 4] != 0, <int> rows[k, 5]
            shape.epoch_now = shape.epoch_lasting = -1
            room = 0
            for u in range(self.first_machine[shape.partition], self.first_machine[shape.partition + 1]):
                room += tasks_that_fit(&self.capacity[u], shape)
            if room < most_tasks[k]:
                job = np.flatnonzero((np.asarray(self.shape_of) == k) & (np.asarray(self.nodes) > room))[0]
                raise ValueError(f"tasks[{job}] must be at most {room}, for which the machines of its partition have "
                                 f"room, got {self.nodes[job]}")
        self.width = (np.asarray(self.nodes) * columns[0]).astype(np.int32)
        return 0

    def __dealloc__(self):
        free(self.capacity)
        free(self.free_now)
        free(self.free_later)
        free(self.shape)
        free(self.share)

    # -- results --------------------------------------------------------------------------------------------

    def starts(self) -> tuple[Integers, ...]:
        """Return (machine, job, start ns, end ns, completed, tasks), int64[k]: an entry for each machine of each run.

        It covers the runs that have ended (completed is 1) or were cut off (0), in order of start, job and machine.
        A run that was cut off at the instant of its start has no entries.  Empty without ``log``.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, part
        table = np.zeros((6, self.history.n_parts), np.int64)
        cdef long long[:, ::1] rows = table
        for k in range(self.history.n):
            for part in range(self.history.run[k].first, runlog_last(&self.history, k)):
                rows[0, part], rows[5, part] = self.history.part[part].word, <long long> self.history.part[part].mask
                rows[1, part], rows[2, part] = self.history.run[k].job, self.history.run[k].start
                rows[3, part], rows[4, part] = self.history.run[k].end, self.history.run[k].completed
        return tuple(table[:, np.lexsort((table[0], table[1], table[2]))])

    # -- the machines ---------------------------------------------------------------------------------------

    cdef void _clear_machines(self) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(self.machines):
            memset(&self.free_now[k], 0, sizeof(Resources))
        for k in range(self.n_share):
            self.share[k].next = <int> (k + 1) if k + 1 < self.n_share else -1
        self.unused = 0 if self.n_share else -1
        self.n_unused = self.n_share
        for k in range(self.partitions):
            self.head[k] = -1
        self.epoch_now += 1

    cdef void _set_up_or_down(self, Py_ssize_t machine, bint is_up) noexcept nogil:
        self.epoch_now += 1
        if is_up:
            self.free_now[machine] = self.capacity[machine]
        else:
            memset(&self.free_now[machine], 0, sizeof(Resources))

    cdef bint _make_room(self, Py_ssize_t more) noexcept nogil:
        """Make room for `more` shares; return False if memory runs out."""
        cdef Py_ssize_t k, n
        cdef void* wider
        if self.n_unused >= more:
            return True
        n = 2 * self.n_share + more + 64
        wider = realloc(self.share, n * sizeof(Share))
        if wider == NULL:
            return False
        self.share = <Share*> wider
        for k in range(self.n_share, n):
            self.share[k].next = <int> (k + 1) if k + 1 < n else self.unused
        self.unused = <int> self.n_share
        self.n_unused += n - self.n_share
        self.n_share = n
        return True

    cdef void _take_tasks(self, Resources* free_of, const Shape* shape, Py_ssize_t u, int tasks) noexcept nogil:
        """Take what `tasks` tasks need on machine u, which has room for them."""
        if shape.exclusive:
            memset(free_of, 0, sizeof(Resources))
        else:
            add(free_of, &shape.task, -tasks)

    cdef void _return_tasks(self, Resources* free_of, const Shape* shape, Py_ssize_t u, int tasks) noexcept nogil:
        """Return what `tasks` tasks have taken on machine u."""
        if shape.exclusive:
            free_of[0] = self.capacity[u]
        else:
            add(free_of, &shape.task, tasks)

    cdef int _room_on(self, const Resources* free_of, const Shape* shape, Py_ssize_t u) noexcept nogil:
        """Return the number of tasks for which machine u has room, if that much is free."""
        if shape.exclusive and (free_of.cores < self.capacity[u].cores or free_of.gpus < self.capacity[u].gpus
                                or free_of.memory < self.capacity[u].memory):
            return 0
        return tasks_that_fit(free_of, shape)

    cdef long long _find_room(self, const Shape* shape, int view, long long tasks) noexcept nogil:
        """Set `room` for the machines of a partition; return the sum, or at least `tasks` if it is not less.

        The machines with the lowest numbers have enough room then.
        """
        cdef Py_ssize_t u
        cdef long long n = 0
        for u in range(self.first_machine[shape.partition], self.first_machine[shape.partition + 1]):
            if view == LATER:
                self.room[u] = self._room_on(&self.free_later[u], shape, u)
            else:
                self.room[u] = self._room_on(&self.free_now[u], shape, u)
                if view == LASTING and self.room[u]:
                    self.room[u] = min(self.room[u], self._room_on(&self.free_later[u], shape, u))
            n += self.room[u]
            if n >= tasks and self.placement == FIRST:
                break
        return n

    cdef Py_ssize_t _select(self, const Shape* shape, int view, long long tasks) noexcept nogil:
        """Set `by_cores` to the machines that a job takes, in order, by `room`; return how many they are."""
        cdef Py_ssize_t u, k, n = 0, top = self.bucket.shape[0] - 1
        cdef Py_ssize_t first = self.first_machine[shape.partition], end = self.first_machine[shape.partition + 1]
        cdef const Resources* free_of = self.free_later if view == LATER else self.free_now
        if self.placement == FIRST:
            for u in range(first, end):
                if tasks <= 0:
                    break
                if self.room[u]:
                    self.by_cores[n] = <int> u
                    tasks -= self.room[u]
                    n += 1
            return n
        # counting sort by free cores, for "spread" in descending order
        for k in range(top + 1):
            self.bucket[k] = 0
        for u in range(first, end):
            if self.room[u]:
                k = free_of[u].cores if self.placement == BEST else top - 1 - free_of[u].cores
                self.bucket[k + 1] += 1
                n += 1
        for k in range(top):
            self.bucket[k + 1] += self.bucket[k]
        for u in range(first, end):
            if self.room[u]:
                k = free_of[u].cores if self.placement == BEST else top - 1 - free_of[u].cores
                self.by_cores[self.bucket[k]] = <int> u
                self.bucket[k] += 1
        return n

    cdef void _give_back(self, int job, long long ran, bint completed) noexcept nogil:
        cdef const Shape* shape = &self.shape[self.shape_of[job]]
        cdef int s = self.spans[job], following, u
        while s >= 0:
            u = self.share[s].machine
            self.busy_time[u] += ran * self.share[s].tasks * shape.task.cores
            if completed:
                self.done[u] += self.share[s].tasks
            else:
                self.interrupted[u] += self.share[s].tasks
            self._return_tasks(&self.free_now[u], shape, u, self.share[s].tasks)
            following = self.share[s].next
            self._drop(s)
            s = following

    cdef void _drop(self, int s) noexcept nogil:
        """Make a share unused."""
        self.share[s].next = self.unused
        self.unused = s
        self.n_unused += 1

    cdef bint _log_machines(self, int job, bint completed) noexcept nogil:
        cdef int s = self.spans[job]
        if not runlog_add(&self.history, job, self.start[job], self.now, completed,
                          min(<Py_ssize_t> self.nodes[job], self.machines)):
            return False
        while s >= 0:
            runlog_add_part(&self.history, self.share[s].machine, self.share[s].tasks)
            s = self.share[s].next
        return True

    cdef bint _meets(self, int job, const unsigned long long* machines) noexcept nogil:
        cdef int s = self.spans[job], u
        while s >= 0:
            u = self.share[s].machine
            if (machines[u >> 6] >> (u & 63)) & 1:
                return True
            s = self.share[s].next
        return False

    # -- checkpoints ----------------------------------------------------------------------------------------

    cdef dict _machine_entries(self):
        return {"shares": TableEntry({"job": (0, "jobs"), "machine": (0, "machines"), "tasks": (1, 2**31)}),
                "words": ArrayEntry(np.int64, ("masks",), (0, "machines"))}

    cdef dict _machine_state(self):
        cdef Py_ssize_t k
        cdef int s
        rows = []
        for k in range(self.jobs):
            s = self.spans[k]
            while s >= 0:
                rows.append((k, self.share[s].machine, self.share[s].tasks))
                s = self.share[s].next
        return {"shares": np.array(rows, np.int64).reshape(-1, 3)}

    cdef int _rebuild_queue(self, known) except -1:
        self.wake_at = NEVER               # whatever the state says: nothing is reserved
        return 0

    cdef object _restore_machines(self, dict entries):
        cdef Py_ssize_t k, first = 0, n
        cdef int s, u
        cdef long long job, left
        cdef const Shape* shape
        cdef const long long[:, ::1] rows = np.ascontiguousarray(
            entries["shares"][np.argsort(entries["shares"][:, 0], kind="stable")])
        runs = np.zeros(self.jobs, np.bool_)
        if not self._make_room(rows.shape[0]):
            raise MemoryError
        while first < rows.shape[0]:
            job, n, left = rows[first, 0], first, 0
            shape = &self.shape[self.shape_of[job]]
            while n < rows.shape[0] and rows[n, 0] == job:
                left += rows[n, 2]
                n += 1
            # a job runs if its machines have room for all its tasks; otherwise it waits
            if left == self.nodes[job] and len(np.unique(np.asarray(rows)[first:n, 1])) == n - first:
                for k in range(n - 1, first - 1, -1):
                    u = <int> rows[k, 1]
                    if (self.partition_of_machine[u] != shape.partition
                            or self._room_on(&self.free_now[u], shape, u) < rows[k, 2]):
                        break
                    self._add_share(<int> job, u, <int> rows[k, 2])
                    left -= rows[k, 2]
                if left == 0:
                    runs[job] = True
                else:
                    while self.spans[job] >= 0:
                        s = self.spans[job]
                        self._return_tasks(&self.free_now[self.share[s].machine], shape, self.share[s].machine,
                                           self.share[s].tasks)
                        self.spans[job] = self.share[s].next
                        self._drop(s)
            first = n
        return runs

    cdef void _add_share(self, int job, int u, int tasks) noexcept nogil:
        """Give a job `tasks` tasks on machine u, at the beginning of its shares; there must be room for the share."""
        cdef int s = self.unused
        self.unused = self.share[s].next
        self.n_unused -= 1
        self.share[s].machine, self.share[s].tasks, self.share[s].next = u, tasks, self.spans[job]
        self.spans[job] = s
        self._take_tasks(&self.free_now[u], &self.shape[self.shape_of[job]], u, tasks)

    # -- events of the runs ---------------------------------------------------------------------------------

    cdef void _before_leave(self, int job) noexcept nogil:
        self.head[self.partition[job]] = -1
        self.epoch_now += 1
        OrderedQueue._before_leave(self, job)

    cdef void _before_correction(self, int job) noexcept nogil:
        self.head[self.partition[job]] = -1

    cdef int _examine(self) noexcept nogil:
        cdef Py_ssize_t p
        cdef int reason = GO_ON
        if self.order and self.n_line:
            self._sort()
        for p in range(self.partitions):
            if self.must_examine:
                self.head[p] = -1
            reason = self._examine_partition(p)
            if reason != GO_ON:
                break
        self._close_line()
        return reason

    cdef int _examine_partition(self, Py_ssize_t p) noexcept nogil:
        """Start the jobs of partition p that can start now."""
        cdef Py_ssize_t k = 0
        cdef long long slack
        cdef int job, reason
        # the jobs whose turn it is, as long as they fit
        while k < self.n_line:
            job = self.line[k]
            if self.partition[job] == p and not self._is_limited(job):
                reason = self._start_if_room(job, NOW)
                if reason == NO_ROOM:
                    break
                if reason != GO_ON:
                    return reason
                self.head[p] = -1
            k += 1
        if k == self.n_line or not self.backfill:
            return GO_ON
        job = self.line[k]
        # with "first", a reservation made anew is the same until a job leaves; see the tests
        if self.head[p] != job or self.shadow[p] < self.now or self.placement != FIRST:
            self._reserve(job, p)
        slack = self.shadow[p] - self.now
        for k in range(k + 1, self.n_line):
            job = self.line[k]
            if self.partition[job] != p or self._is_limited(job):
                continue
            reason = self._start_if_room(job, NOW if self.estimate[job] <= slack else LASTING)
            if reason != GO_ON and reason != NO_ROOM:
                return reason
        return GO_ON

    cdef int _start_if_room(self, int job, int view) noexcept nogil:
        """Start a job if it fits; return `GO_ON`, `NO_ROOM`, or why the run does not go on."""
        cdef Shape* shape = &self.shape[self.shape_of[job]]
        cdef long long n
        cdef Py_ssize_t k, machines
        cdef int u, left = self.nodes[job], tasks, first = -1, last = -1
        # what has no room stays so until a job leaves: starts only take more
        if shape.epoch_now == self.epoch_now and shape.room_now < left:
            return NO_ROOM
        if view == LASTING and shape.epoch_lasting == self.epoch_lasting[shape.partition] and shape.room_lasting < left:
            return NO_ROOM
        n = self._find_room(shape, view, left)
        if n < left:
            if view == NOW:
                shape.room_now, shape.epoch_now = <int> n, self.epoch_now
            else:
                shape.room_lasting, shape.epoch_lasting = <int> n, self.epoch_lasting[shape.partition]
            return NO_ROOM
        if self.length[job] > LAST_END - self.now:
            return TOO_LATE
        machines = self._select(shape, view, left)
        if not self._make_room(min(machines, <Py_ssize_t> left)):
            return NO_MEMORY
        for k in range(machines):
            u = self.by_cores[k]
            tasks = min(left, self.room[u])
            self._add_share(job, u, tasks)
            if view == LASTING:
                self._take_tasks(&self.free_later[u], shape, u, tasks)
            left -= tasks
            if left == 0:
                break
        self._start_on(job, self.spans[job])
        return GO_ON

    cdef void _reserve(self, int head, Py_ssize_t p) noexcept nogil:
        """Reserve machines for the head of a partition, which does not fit now."""
        cdef const Shape* shape = &self.shape[self.shape_of[head]]
        cdef Py_ssize_t u, machines, k = self.n_running
        cdef long long n = 0
        cdef int left = self.nodes[head], tasks
        for u in range(self.first_machine[p], self.first_machine[p + 1]):
            self.free_later[u] = self.free_now[u]
            n += self._room_on(&self.free_later[u], shape, u)
        self.head[p] = head
        self.epoch_lasting[p] += 1
        while k > 0 and n < left:
            k -= 1
            n += self._free_later_on(k, shape)
        if n < left:
            self.shadow[p] = NEVER
            return
        self.shadow[p] = max(self.estimated_ends[k].at, self.now)
        while k > 0 and self.estimated_ends[k - 1].at <= self.shadow[p]:
            k -= 1
            self._free_later_on(k, shape)
        self._find_room(shape, LATER, left)
        machines = self._select(shape, LATER, left)
        for k in range(machines):
            u = self.by_cores[k]
            tasks = min(left, self.room[u])
            self._take_tasks(&self.free_later[u], shape, u, tasks)
            left -= tasks
            if left == 0:
                break

    cdef long long _free_later_on(self, Py_ssize_t k, const Shape* shape) noexcept nogil:
        """Return the machines of the running job with estimated end k to `free_later`.

        Returns the number of tasks of `shape` for which they have room in addition; jobs of other partitions are
        left out.
        """
        cdef int job = self.estimated_ends[k].job, s = self.spans[job], u
        cdef const Shape* returned = &self.shape[self.shape_of[job]]
        cdef long long n = 0
        if returned.partition != shape.partition:
            return 0
        while s >= 0:
            u = self.share[s].machine
            n -= self._room_on(&self.free_later[u], shape, u)
            self._return_tasks(&self.free_later[u], returned, u, self.share[s].tasks)
            n += self._room_on(&self.free_later[u], shape, u)
            s = self.share[s].next
        return n
