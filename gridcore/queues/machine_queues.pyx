"""The waiting and running tasks of all machines, and their ends, in one object of flat arrays.

The queue of a machine holds shares (application, whole tasks left), grouped per application, never per task.
They run in the order of the queue.  No decisions are made between two changes, so a machine is advanced only
when a method needs it: its completions follow from its order by integer arithmetic.  Advancing to t1
and then to t2 equals advancing to t2, bit for bit.

Tasks of an application may have individual sizes (`gridcore.queues.task_numbers`).  Then the duration of a
task depends on its size, not on the estimated task size of the application.

Times are int64 nanoseconds.  The duration of a task is rounded once per (machine, task size), and is at least
1 ns.  A task that could start at exactly `until` is not started yet: tasks that arrive at that instant may
still go before it.

Lost tasks may be submitted again as a resubmitted bag of their application.  It has an index, release and size
of its own in queues, but its totals are counted for the application.
"""

cimport cython

from libc.math cimport llrint
from libc.stdlib cimport free

from gridcore.common.arguments cimport (
    FINITE, POSITIVE, _Guard, check_array, check_instant, check_lengths, doubles, doubles_copy, guard, indices,
    integers,
)
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.queues.journal cimport Journal, Row, journal_add, journal_copy, journal_fill, journal_record
from gridcore.queues.pairs cimport pair_of, pairs_add, pairs_free, pairs_mark, pairs_marked
from gridcore.queues.task_numbers cimport TaskNumbers

import numpy as np

from gridcore.queues import journal_tables
from gridcore.common.state import (
    ANY, INSTANT, INSTANT_OR_NEVER, ArrayEntry, NumberEntry, TableEntry, array_entries, read, read_only,
)

__all__ = ["MachineQueues"]

_TASKS = (-(2**31), 2**31)
_JOURNAL = TableEntry({
    "machine": (0, "machines"), "application": (0, "applications"), "tasks": _TASKS, "start": ANY, "end": ANY,
    "completed": _TASKS,
})
_STATE = {
    "shares": TableEntry({"application": (0, "applications"), "tasks": (1, 2**31)}),
    "count": ArrayEntry(np.int32, ("machines",), total="shares"), "used": ArrayEntry(np.uint8, ("rows", "bytes")),
    "pairs": TableEntry({"machine": (0, "machines"), "application": (0, "applications")}),
    "ended": _JOURNAL, "ran": _JOURNAL, "came": _JOURNAL,
    "enqueued": NumberEntry(0, LATEST + 1), "tasks_done": NumberEntry(0, LATEST + 1),
}


#: Pairs of a machine and an application have a bit each if there are at most this many (64 MiB).
cdef Py_ssize_t _MAX_DENSE_BITS = 2**29


cdef long long _nanoseconds(double seconds) noexcept nogil:
    return max(1, llrint(seconds * 1e9)) if seconds * 1e9 < 9.2e18 else NEVER


cdef _rows(const Journal* j):
    """Return the rows of a journal as int64[n, 6]."""
    rows = np.empty((j.n, 6), np.int64)
    journal_copy(j, rows)
    return rows


cdef _concatenate(values, more):
    """Return a new array with the entries of `values`, then of `more`."""
    return np.concatenate((values, more)) if len(values) else np.array(more)


@cython.auto_pickle(False)
cdef class MachineQueues:
    """The queues of machines, first come, first served; base class of `TaskQueues`, which documents the parameters."""

    def __cinit__(self, speed, *, str watch="idle", bint log=False, bint record=False, **ordering):
        if watch not in ("idle", "completion"):
            raise ValueError(f"watch must be 'idle' or 'completion', got {watch!r}")
        self.speed = doubles_copy(speed, "speed")
        check_array(self.speed, "speed", POSITIVE)
        cdef Py_ssize_t n = self.speed.shape[0]
        self.machines = self.n_cores = n
        self.watch, self.log, self.record = watch, log, record
        self.each_task = watch == "completion"
        self.capacity = 4
        self.share = np.zeros((n, self.capacity, 2), np.int32)
        self.first = np.zeros(n, np.int32)
        self.count = np.zeros(n, np.int32)
        self.running = np.full(n, -1, np.int32)
        self.free_at = np.zeros(n, np.int64)
        self.idle_at = np.zeros(n, np.int64)
        self.waiting = np.zeros(n, np.int64)
        self.peak = np.zeros(n, np.int64)
        self.busy_time = np.zeros(n, np.int64)
        self.done = np.zeros(n, np.int64)
        self.interrupted = np.zeros(n, np.int64)
        self.release = self.size = self.task_size = np.zeros(0)
        self.owner = self.first_start = np.zeros(0, np.int64)
        self.finish = np.zeros(0, np.int64)
        self.completed = np.zeros(0, np.int64)
        self.nodes_used = np.zeros(0, np.int64)
        self.used = np.zeros((0, (n + 7) // 8), np.uint8)
        self.change = np.full(n, NEVER, np.int64)
        self.heap = np.arange(n, dtype=np.int32)
        self.position = np.arange(n, dtype=np.int32)

    def __dealloc__(self):
        free(self.completion_log.row)
        free(self.run_log.row)
        free(self.arrival_log.row)
        pairs_free(&self.pairs)

    # -- applications and queues ------------------------------------------------------------------------

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike,
                         whose: ArrayLike | None = None, *, sizes: ArrayLike | None = None,
                         tasks: ArrayLike | None = None):
        """Append applications; their indices are consecutive.

        If earlier applications have `sizes`, later ones must have them, too; resubmitted bags need neither `sizes` nor
        `tasks`.

        Shares of a resubmitted bag are joined and ordered by the index, release and size of the bag.  Only `queue`
        distinguishes it; `totals`, `advance`, `fail`, `schedule` and `arrivals` count it for its
        application.

        Parameters
        ----------
        release
            float64[k], s.
        size
            float64[k], Mflop of the whole application.
        task_size
            float64[k], Mflop of a task.
        whose
            int64[k]; for a resubmitted bag (lost tasks of an earlier application), the index of that application,
            which must not be a resubmitted bag and must have the same `task_size`; for any other application its
            own index.  By default there are no resubmitted bags.
        sizes
            float64[sum of tasks], Mflop, the true size of each task, application after application; `task_size` is
            then the estimated size.  By default all tasks of an application have its `task_size`.
        tasks
            int64[k], with `sizes`: the number of tasks of each application, 0 for a resubmitted bag.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const double[::1] r = doubles(release, "release"), w = doubles(size, "size")
        cdef const double[::1] a = doubles(task_size, "task_size")
        cdef Py_ssize_t n = self.n_applications, j
        cdef const long long[::1] i
        check_array(r, "release", FINITE)
        check_array(w, "size", POSITIVE)
        check_array(a, "task_size", POSITIVE)
        cdef Py_ssize_t k = r.shape[0]
        if w.shape[0] != k or a.shape[0] != k:
            raise ValueError("release, size and task_size must be equally long, "
                             f"got {k}, {w.shape[0]}, {a.shape[0]}")
        i = np.arange(n, n + k) if whose is None else integers(whose, "whose")
        check_lengths(k, i.shape[0], "release", "whose")
        for j in range(k):
            if i[j] == n + j:
                continue
            if not 0 <= i[j] < n or self.owner[i[j]] != i[j]:
                raise ValueError(f"whose[{j}] must be {n + j}, its own index, or an application below {n} "
                                 f"that is not a resubmitted bag, got {i[j]}")
            if a[j] != self.task_size[i[j]]:
                raise ValueError(f"task_size[{j}] must be {self.task_size[i[j]]!r}, the task size of application "
                                 f"{i[j]}, got {a[j]!r}")
        if self.own_sizes or sizes is not None or tasks is not None:
            self._add_sizes(np.asarray(i) == np.arange(n, n + k), sizes, tasks)
        self.owner = _concatenate(self.owner, i)
        self.release, self.size = _concatenate(self.release, r), _concatenate(self.size, w)
        self.task_size = _concatenate(self.task_size, a)
        zeros, never = np.zeros(k, np.int64), np.full(k, -1, np.int64)
        self.first_start, self.finish = _concatenate(self.first_start, never), _concatenate(self.finish, never)
        self.completed, self.nodes_used = _concatenate(self.completed, zeros), _concatenate(self.nodes_used, zeros)
        self.n_applications += k
        if not self.sparse and self.n_applications * self.used.shape[1] > _MAX_DENSE_BITS // 8:
            self._make_sparse()
        elif not self.sparse and self.used.shape[0] < self.n_applications:
            longer = np.zeros((max(self.n_applications, 2 * n), self.used.shape[1]), np.uint8)
            longer[:n] = self.used[:n]
            self.used = longer

    def follow(self, releases, tasks: ArrayLike):
        """Report the end of each application to `releases`: it ends when its `tasks`, int64[k], are completed.

        Each completion is then a change (`next_change`).  It is called once, after the applications were added.

        Raises
        ------
        ValueError
            If `releases` or `tasks` are of another number of applications.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef ReleaseQueue queue = releases
        if queue is None:
            raise TypeError("releases must be a ReleaseQueue, got None")
        self.task_counts = indices(tasks, "tasks", 1, 2**62)
        check_lengths(self.n_applications, self.task_counts.shape[0], "applications", "tasks")
        check_lengths(self.n_applications, queue.applications, "applications", "releases")
        self.releases = queue

    cdef void _release(self, Py_ssize_t application) noexcept nogil:
        """Take over the release of an application from `releases`."""
        self.release[application] = self.releases.seconds[application]

    def release_applications(self, applications: ArrayLike):
        """Take over the releases of `applications`, int64[k], from the releases that the queues follow."""
        cdef _Guard access = guard(&self.in_call)
        cdef long long application
        if self.releases is None:
            raise ValueError("release_applications requires releases to follow")
        for application in indices(applications, "applications", 0, self.releases.applications):
            self._release(application)

    cdef _add_sizes(self, is_new, sizes, tasks):
        """Add the sizes of the tasks of new applications; `is_new` is bool[k], False for resubmitted bags."""
        if (sizes is None) != (tasks is None):
            raise ValueError("sizes and tasks require each other")
        if sizes is None and (not self.own_sizes or not is_new.any()):
            sizes, tasks = np.zeros(0), np.zeros(is_new.shape[0] if self.own_sizes else 0, np.int64)
        elif sizes is None or (self.n_applications and not self.own_sizes):
            raise ValueError("sizes must be given for all applications, or for none")
        elif not self.own_sizes:
            self.numbers, self.own_sizes = TaskNumbers(self.machines, self.n_cores), True
        if self.own_sizes:
            checked, counts = doubles(sizes, "sizes"), integers(tasks, "tasks")
            check_array(checked, "sizes", POSITIVE)
            check_lengths(is_new.shape[0], counts.shape[0], "release", "tasks")
            self.numbers.add(checked, counts)

    def totals(self) -> dict[str, Integers]:
        """Return copies of the totals so far, as a dict of arrays.

        Per application: first_start, finish (ns, -1 for never), completed (tasks), nodes_used (machines that
        received tasks of it, except those from which all were withdrawn); a resubmitted bag has only
        finish and completed.  Per machine: busy (ns), tasks (completed), interrupted (tasks that ran when it
        failed), peak_queue (most tasks waiting), waiting.
        """
        cdef _Guard access = guard(&self.in_call)
        return {
            "first_start": np.array(self.first_start), "finish": np.array(self.finish),
            "completed": np.array(self.completed), "nodes_used": self._all_used(),
            "busy": np.array(self.busy_time), "tasks": np.array(self.done),
            "interrupted": np.array(self.interrupted),
            "peak_queue": np.array(self.peak), "waiting": np.array(self.waiting),
        }

    cdef _all_used(self):
        """Return `nodes_used`, including machines where tasks wait but none has started."""
        cdef Py_ssize_t u, k, j, f
        cdef long long owner
        cdef bint is_counted
        nodes_used = np.array(self.nodes_used)
        cdef long long[::1] out = nodes_used
        for u in range(self.machines):
            f = self.first[u]
            for k in range(f, f + self.count[u]):
                owner = self.owner[self.share[u, k, 0]]
                if self._is_used(u, owner):
                    continue
                is_counted = False  # an application counts once per machine, together with its resubmitted bags
                for j in range(f, f + self.count[u] if owner != self.share[u, k, 0] else f):
                    if self.owner[self.share[u, j, 0]] == owner and (j < k or self.share[u, j, 0] == owner):
                        is_counted = True
                        break
                out[owner] += not is_counted
        return nodes_used

    def queue(self, Py_ssize_t machine) -> tuple[Integers, Integers, int, int]:
        """Return (applications, tasks, running application or -1, free_at ns) of one machine, in queue order."""
        cdef _Guard access = guard(&self.in_call)
        self._check_machine(machine)
        cdef Py_ssize_t f = self.first[machine], n = self.count[machine]
        rows = np.asarray(self.share)[machine, f:f + n]
        return rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), self.running[machine], \
            self.free_at[machine]

    def running_count(self, Py_ssize_t machine, long long now) -> int:
        """Return the number of tasks that `machine` runs after `now` ns."""
        cdef _Guard access = guard(&self.in_call)
        self._check_machine(machine)
        self._advance(machine, now)
        self._update(machine)
        return self._running_count(machine, now)

    def speed_of(self, Py_ssize_t machine) -> float:
        """Return the speed of `machine`, Mflop/s."""
        cdef _Guard access = guard(&self.in_call)
        self._check_machine(machine)
        return self.speed[machine]

    def cores_of(self, Py_ssize_t machine) -> int:
        """Return the number of cores of `machine`."""
        cdef _Guard access = guard(&self.in_call)
        self._check_machine(machine)
        return self._cores(machine)

    def work(self, Py_ssize_t machine, long long now) -> float:
        """Return the time (s) that `machine` needs from `now` ns for its running and waiting tasks, by stated sizes.

        It is that of a machine whose cores share them evenly, and where a task that takes more than a core's part of
        the memory counts as more than one core.
        """
        cdef _Guard access = guard(&self.in_call)
        self._check_machine(machine)
        return self._work(machine, now)

    cdef double _work(self, Py_ssize_t u, long long now) noexcept nogil:
        cdef Py_ssize_t k
        cdef double size = 0.0
        cdef int i
        self._advance(u, now)
        self._update(u)
        for k in range(self.first[u], self.first[u] + self.count[u]):
            i = self.share[u, k, 0]
            size += self.task_size[i] * self.share[u, k, 1] * self._width(u, self._memory_of(i))
        return (self._running_time(u, now) + size / self.speed[u]) / self._cores(u)

    cdef double _running_time(self, Py_ssize_t u, long long now) noexcept nogil:
        """Return how long `u` runs the running tasks from `now` ns by their estimated sizes, in sum over its cores, s."""
        if self.running[u] >= 0 and self._planned_end(u) > now:
            return (self._planned_end(u) - now) / 1e9
        return 0.0

    cdef Py_ssize_t _cores(self, Py_ssize_t u) noexcept nogil:
        """Return the number of cores of `u`."""
        return 1

    cdef double _width(self, Py_ssize_t u, long long memory) noexcept nogil:
        """Return how many cores' part of `u` a task with `memory` bytes takes: 1, or more if memory is scarcer."""
        return 1.0

    cdef long long _memory_of(self, Py_ssize_t application) noexcept nogil:
        """Return the bytes that a running task of `application` takes."""
        return 0

    def schedule(self) -> dict[str, Integers]:
        """Return the runs so far, as columns int64[k] by machine and start; empty without ``record``.

        Returns
        -------
        machine, application
            Indices.
        tasks
            Number of tasks of equal length that ran one after another without a gap; 1 for tasks with individual sizes,
            and on machines with several cores.
        start, end
            ns.
        completed
            Equal to `tasks`, or 0 for one task that a failure interrupted at `end`.
        """
        cdef _Guard access = guard(&self.in_call)
        merges = np.zeros(self.machines, np.uint8)
        cdef unsigned char[::1] is_merged = merges
        cdef Py_ssize_t u
        for u in range(self.machines):
            is_merged[u] = not self._has_row_per_task(u)
        return journal_tables.schedule(_rows(&self.run_log), merges.view(np.bool_))

    @cython.final
    cdef bint _has_row_per_task(self, Py_ssize_t u) noexcept nogil:
        """Return whether the record of `u` has a row for each task: tasks have sizes of their own, or overlap."""
        return self.own_sizes or self._cores(u) > 1

    def arrivals(self) -> dict[str, Integers]:
        """Return the arrivals so far, in order: int64[k] columns machine, application, tasks, time (ns).

        The number of tasks is negative for withdrawn tasks.
        """
        cdef _Guard access = guard(&self.in_call)
        return journal_tables.arrivals(_rows(&self.arrival_log))

    def is_busy(self, machines: ArrayLike) -> Bools:
        """Return bool[k], whether each of `machines` runs a task or has tasks waiting."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._machines(machines)
        return np.asarray([self.running[m] >= 0 or self.count[m] > 0 for m in u], dtype=np.bool_)

    # -- checkpoints --------------------------------------------------------------------------------------

    cdef _read_pairs(self):
        """Return int64[n, 2], the marked pairs of machine and application, in order."""
        cdef Py_ssize_t k, n = 0
        marked_pairs = np.empty(self.pairs.n, np.int64)
        cdef long long[::1] out = marked_pairs
        for k in range(self.pairs.capacity):
            if self.pairs.slot[k] and (self.pairs.slot[k] - 1) & 1:
                out[n] = <long long> ((self.pairs.slot[k] - 1) >> 1)
                n += 1
        marked_pairs = np.sort(marked_pairs[:n])
        return np.column_stack((marked_pairs >> 31, marked_pairs & 2**31 - 1))

    def getstate(self) -> dict[str, Any]:
        """Return the changes since applications were added, as described in `gridcore.common.state`."""
        cdef _Guard access = guard(&self.in_call)
        return read_only({
            **{name: np.asarray(column) for name, column in self._columns().items()},
            "shares": np.asarray(self.share)[self._places()].astype(np.int64), "count": np.asarray(self.count),
            "used": np.asarray(self.used)[:self.n_applications], "pairs": self._read_pairs(),
            "ended": _rows(&self.completion_log), "ran": _rows(&self.run_log), "came": _rows(&self.arrival_log),
            "enqueued": self.enqueued, "tasks_done": self.tasks_done,
            **(self.numbers.getstate() if self.own_sizes else {}),
        })

    def setstate(self, state):
        """Restore a state of `getstate` of queues with the same machines and applications.

        Resubmitted bags count as applications: append them, too, before this call.

        Raises
        ------
        ValueError
            If the state cannot belong to these queues.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t n = self.machines, k
        cdef TaskNumbers numbers = None
        known = {name: np.asarray(column) for name, column in self._columns().items()}
        entries = read(state, {
            **array_entries(known, INSTANT_OR_NEVER, running=(-1, "applications"), free_at=INSTANT), **_STATE,
        }, machines=n, applications=self.n_applications, rows=0 if self.sparse else self.n_applications,
            bytes=self.used.shape[1])
        count, shares, running = entries["count"], entries["shares"], entries["running"]
        machine = np.repeat(np.arange(n), count)
        waiting = np.zeros(n, np.int64)
        np.add.at(waiting, machine, shares[:, 1])
        if self.own_sizes:
            tasks = self._core_tasks(state, running)
            numbers = self.numbers.read_state(state, machine, np.asarray(self.owner)[shares[:, 0]], shares[:, 1], tasks)
            tasks[np.asarray(numbers.running) < 0] = -1
        capacity = max(4, int(count.max(initial=0)))
        share = np.zeros((n, capacity, 2), np.int32)
        share[np.arange(capacity) < count[:, None]] = shares
        idle_at = self._idle_times(numbers, share, count, entries["free_at"])
        self.numbers, self.share, self.used, self.capacity = numbers, share, entries["used"], capacity
        self.count, self.waiting, self.idle_at = count, waiting, idle_at
        self.first[:] = 0
        for name, column in known.items():
            column[...] = entries[name]
        pairs_free(&self.pairs)
        if self.sparse:
            for machine, application in entries["pairs"].tolist():
                pairs_add(&self.pairs, pair_of(machine, application))
                pairs_mark(&self.pairs, pair_of(machine, application))
            self._add_pairs()
        journal_fill(&self.completion_log, entries["ended"])
        if self.releases is not None:
            np.asarray(self.release)[:self.releases.applications] = self.releases.seconds
        journal_fill(&self.run_log, entries["ran"])
        journal_fill(&self.arrival_log, entries["came"])
        self.enqueued, self.tasks_done = entries["enqueued"], entries["tasks_done"]
        for k in range(n):
            self.change[k], self.heap[k], self.position[k] = NEVER, <int> k, <int> k
        for k in range(n):
            self._update(k)

    cdef object _core_tasks(self, state, running):
        """Return the application of the task of each core in a state, int[cores], negative if it runs none."""
        return running

    cdef _places(self):
        """Return bool[machines, capacity], which places of `share` are in use."""
        place, first = np.arange(self.capacity), np.asarray(self.first)[:, None]
        return (place >= first) & (place < first + np.asarray(self.count)[:, None])

    cdef _idle_times(self, TaskNumbers numbers, const int[:, :, ::1] share, const int[::1] count,
                     const long long[::1] free_at):
        """Return when each machine will have ended the tasks of its shares; raise ValueError if that is too late."""
        cdef Py_ssize_t k, j
        cdef int task
        cdef double end
        idle_times = np.array(free_at)
        cdef long long[::1] idle_at = idle_times
        for k in range(self.machines):
            end = <double> free_at[k]
            task = -1 if numbers is None else numbers.head[k]
            while task >= 0:
                idle_at[k] += self._length(k, task)
                end += <double> self._length(k, task)
                task = numbers.after[task]
            for j in range(count[k] if numbers is None else 0):
                idle_at[k] += share[k, j, 1] * self._duration(k, share[k, j, 0])
                end += self._longest(k, share[k, j, 0], share[k, j, 1])
            if not end < 2.0 * 2305843009213693952.0:
                raise ValueError(f"state['shares'] must have tasks that end on machine {k} before 2**62 ns, got {end:.17g}")
        return idle_times

    cdef double _longest(self, Py_ssize_t u, int application, long long tasks) noexcept nogil:
        """Return the longest time (ns) that `tasks` tasks of an application take on `u`, without individual sizes."""
        return <double> tasks * <double> self._duration(u, application)

    cdef dict _columns(self):
        """Return the arrays that change during a run and have a value per machine or application, by name."""
        return {
            "running": self.running, "free_at": self.free_at, "peak": self.peak, "busy": self.busy_time,
            "done": self.done, "interrupted": self.interrupted, "first_start": self.first_start,
            "finish": self.finish, "completed": self.completed, "nodes_used": self.nodes_used,
        }

    # -- changes ------------------------------------------------------------------------------------------

    def enqueue(self, machines: ArrayLike, applications: ArrayLike, tasks: ArrayLike, long long now):
        """Add shares to queues at `now` ns: int64[k] machines, applications, tasks (>= 1).

        A share joins a waiting share of the same application on the machine.  The order is not updated: call
        `reschedule` after all shares of the instant are enqueued.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._machines(machines)
        cdef const long long[::1] i = indices(applications, "applications", 0, self.n_applications)
        cdef const long long[::1] n = integers(tasks, "tasks")
        cdef Py_ssize_t k, rows = u.shape[0]
        if i.shape[0] != rows or n.shape[0] != rows:
            raise ValueError(f"machines, applications and tasks must be equally long, got {rows}, "
                             f"{i.shape[0]}, {n.shape[0]}")
        if now < 0:
            raise ValueError(f"now must be >= 0 ns, got {now}")
        for k in range(rows):
            if not 1 <= n[k] < 2**31:
                raise ValueError(f"tasks[{k}] must be in 1..{2**31 - 1}, got {n[k]}")
        self._check_shares(u, i, n)
        try:
            for k in range(rows):
                self._enqueue(u[k], <int> i[k], n[k], now)
        except BaseException:
            self._update(u[k])  # the machine has already advanced to `now`
            raise

    cdef int _check_shares(self, const long long[::1] machines, const long long[::1] applications,
                           const long long[::1] tasks) except -1:
        """Refuse shares of which one cannot join its queue, before any of them does."""
        if not self.own_sizes:
            return 0
        cdef Py_ssize_t k, owner
        cdef dict totals = {}
        for k in range(tasks.shape[0]):
            owner = self.owner[applications[k]]
            total = totals[owner] = totals.get(owner, 0) + tasks[k]
            if total > self.numbers.free[owner]:
                raise ValueError(f"tasks must be at most {self.numbers.free[owner]}, the tasks of application "
                                 f"{applications[k]} that are in no queue, got {total}")
        return 0

    cdef int _make_sparse(self) except -1:
        """Replace the bits that mark used machines by (machine, application) pairs."""
        cdef Py_ssize_t u, k, f
        self.sparse = True
        for k in range(self.used.shape[0]):
            for u in np.flatnonzero(np.unpackbits(np.asarray(self.used[k]), bitorder="little")):
                pairs_add(&self.pairs, pair_of(u, k))
                pairs_mark(&self.pairs, pair_of(u, k))
        self.used = np.zeros((0, self.used.shape[1]), np.uint8)
        return self._add_pairs()

    cdef int _add_pairs(self) except -1:
        """Add the (machine, application) pair of each waiting or running task to `pairs`; do not mark it as used."""
        cdef Py_ssize_t u, k
        for u in range(self.machines):
            for k in range(self.first[u], self.first[u] + self.count[u]):
                pairs_add(&self.pairs, pair_of(u, self.owner[self.share[u, k, 0]]))
            if self.running[u] >= 0:
                pairs_add(&self.pairs, pair_of(u, self.owner[self.running[u]]))
        return 0

    @cython.final
    cdef bint _is_used(self, Py_ssize_t u, long long application) noexcept nogil:
        if self.sparse:
            return pairs_marked(&self.pairs, pair_of(u, application))
        return self.used[application, u >> 3] >> (u & 7) & 1

    @cython.final
    cdef void _mark_used(self, Py_ssize_t u, int application) noexcept nogil:
        """Record that tasks of `application`, not a resubmitted bag, have started or were lost on `u`."""
        if self.sparse:
            self.nodes_used[application] += pairs_mark(&self.pairs, pair_of(u, application))
            return
        cdef unsigned char* bits = &self.used[application, u >> 3]
        cdef unsigned char bit = <unsigned char> (1 << (u & 7))
        if not bits[0] & bit:
            bits[0] |= bit
            self.nodes_used[application] += 1

    cdef int _enqueue(self, Py_ssize_t u, int application, long long tasks, long long now) except -1:
        self._advance(u, now)
        if self.sparse:
            pairs_add(&self.pairs, pair_of(u, self.owner[application]))
        cdef Py_ssize_t f = self.first[u], n = self.count[u], k
        cdef bint idle = n == 0 and self.running[u] < 0
        cdef long long start = max(self.free_at[u], now) if idle else self.idle_at[u]
        cdef Py_ssize_t owner = self.owner[application]
        if self.own_sizes and tasks > self.numbers.free[owner]:
            raise ValueError(f"tasks must be at most {self.numbers.free[owner]}, the tasks of application {application} "
                             f"that are in no queue, got {tasks}")
        if tasks > (NEVER - 1 - start) // self._longest_length(u, application):
            raise OverflowError(f"tasks of application {application} on machine {u} must end before 2**63 - 1 ns")
        for k in range(f, f + n):
            if self.share[u, k, 0] == application:
                if self.share[u, k, 1] > 2**31 - 1 - tasks:
                    raise OverflowError(f"machine {u} must have at most {2**31 - 1} tasks of application {application}")
                self.share[u, k, 1] += <int> tasks
                break
        else:
            if tasks > 2**31 - 1:
                raise OverflowError(f"machine {u} must have at most {2**31 - 1} tasks of application {application}")
            if f + n == self.capacity:
                self._make_room(u)
                f = self.first[u]
            self.share[u, f + n, 0] = application
            self.share[u, f + n, 1] = <int> tasks
            self.count[u] += 1
        if idle:
            self.free_at[u] = start
        self.idle_at[u] = start + self._bind(u, application, tasks)
        self.enqueued += tasks
        self.waiting[u] += tasks
        if self.record:
            journal_record(&self.arrival_log, u, <int> self.owner[application], tasks, now, now, 0)
        self.peak[u] = max(self.peak[u], self.waiting[u])
        self._update(u)
        return 0

    def withdraw(self, Py_ssize_t machine, Py_ssize_t application, long long tasks, long long now) -> int:
        """Withdraw the last waiting tasks of `application`, up to `tasks` (>= 0), from `machine` at `now` ns.

        Returns the number of withdrawn tasks.  A running task stays.  The tasks no longer count in `enqueued`, and
        the machine no longer counts in `nodes_used`, unless another task of the application has started, waits or was
        lost there.  `peak_queue` is unchanged.  The order is not updated: call `reschedule`.  `application` may be
        the index of a resubmitted bag.
        """
        cdef _Guard access = guard(&self.in_call)
        self._check_machine(machine)
        if not 0 <= application < self.n_applications:
            raise ValueError(f"application must be in 0..{self.n_applications - 1}, got {application}")
        if tasks < 0:
            raise ValueError(f"tasks must be >= 0, got {tasks}")
        check_instant(now, "now")
        return self._withdraw(machine, <int> application, tasks, now)

    cdef long long _withdraw(self, Py_ssize_t u, int application, long long tasks, long long now) noexcept nogil:
        self._advance(u, now)
        cdef Py_ssize_t k = self.first[u], end = self.first[u] + self.count[u], j
        while k < end and self.share[u, k, 0] != application:
            k += 1
        tasks = min(tasks, <long long> self.share[u, k, 1]) if k < end else 0
        if tasks > 0:
            self.idle_at[u] -= self._unbind(u, application, tasks)
            self.share[u, k, 1] -= <int> tasks
            if self.share[u, k, 1] == 0:
                for j in range(k, end - 1):
                    self.share[u, j, 0], self.share[u, j, 1] = self.share[u, j + 1, 0], self.share[u, j + 1, 1]
                self.count[u] -= 1
                if self.count[u] == 0:
                    self.first[u] = 0
            self.enqueued -= tasks
            self.waiting[u] -= tasks
            if self.record:
                journal_record(&self.arrival_log, u, <int> self.owner[application], -tasks, now, now, 0)
        self._update(u)
        return tasks

    cdef long long _bind(self, Py_ssize_t u, int application, long long tasks) noexcept nogil:
        """Bind tasks of `application` to the queue of `u`, and return how long they take one after another, ns."""
        cdef long long k, time = 0
        if not self.own_sizes:
            return tasks * self._duration(u, application)
        for k in range(tasks):
            time += self._length(u, self.numbers.bind(u, self.owner[application]))
        return time

    cdef long long _unbind(self, Py_ssize_t u, int application, long long tasks) noexcept nogil:
        """Withdraw the last bound tasks of `application` from `u`, and return how long they take, ns."""
        cdef long long k, time = 0
        if not self.own_sizes:
            return tasks * self._duration(u, application)
        for k in range(tasks):
            time += self._length(u, self.numbers.release_last(u, self.owner[application]))
        return time

    @cython.final
    cdef int _make_room(self, Py_ssize_t u) except -1:
        """Move the queue of `u` to the front of its row, or double the rows of all machines."""
        cdef Py_ssize_t f = self.first[u], n = self.count[u], k
        if f > self.capacity // 2:
            for k in range(n):
                self.share[u, k, 0] = self.share[u, f + k, 0]
                self.share[u, k, 1] = self.share[u, f + k, 1]
            self.first[u] = 0
            return 0
        wider = np.zeros((self.machines, 2 * self.capacity, 2), np.int32)
        wider[:, :self.capacity] = self.share
        self.share = wider
        self.capacity *= 2
        return 0

    def fail(self, machines: ArrayLike, long long now) -> tuple[Integers, Integers, Integers]:
        """Remove all tasks on `machines` at `now` ns, including running ones; the machines are then empty and up.

        Returns (machines, applications, tasks) int64[k]: the lost tasks, a row for each machine and application;
        tasks of resubmitted bags count for their application.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._machines(machines)
        cdef Py_ssize_t k, j, m
        cdef long long application
        check_instant(now, "now")
        lost = []
        for k in range(u.shape[0]):
            m = u[k]
            self._advance(m, now)
            left = self._interrupt(m, now)
            for j in range(self.first[m], self.first[m] + self.count[m]):
                application = self.owner[self.share[m, j, 0]]
                left[application] = left.get(application, 0) + self.share[m, j, 1]
                self._mark_used(m, <int> application)
            lost += [(m, *row) for row in sorted(left.items())]
            if self.own_sizes:
                self.numbers.release_waiting(m)
            self.first[m] = self.count[m] = 0
            self.waiting[m] = 0
            self.free_at[m] = self.idle_at[m] = now
            self._update(m)
        rows = np.array(lost, np.int64).reshape(-1, 3)
        return rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy()

    cdef dict _interrupt(self, Py_ssize_t u, long long now):
        """Interrupt the running task of machine `u`, which fails; return application -> number of lost tasks."""
        cdef long long length, application
        if self.running[u] < 0:
            return {}
        application = self.owner[self.running[u]]
        self.busy_time[u] -= self.free_at[u] - now
        if self.record:
            length = self._length(u, self.numbers.running[u]) if self.own_sizes else self._duration(u, self.running[u])
            journal_record(&self.run_log, u, <int> application, 1, self.free_at[u] - length, now, 0)
        if self.own_sizes:
            self.numbers.release_running(u)
        self.interrupted[u] += 1
        self.running[u] = -1
        return {application: 1}

    # -- time ---------------------------------------------------------------------------------------------

    def advance(self, long long until,
                machines: ArrayLike | None = None) -> tuple[Integers, Integers, Integers, Integers]:
        """Advance `machines` (default: all) to `until` ns.

        Returns (machine, application, tasks, end ns) int64[k]: the completions since the last call, sorted, one
        row per machine and application, with the `end` of its last task; empty without ``log``.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        cdef const long long[::1] u
        if machines is None:
            self._catch_up(until)
        else:
            u = self._machines(machines)
            with nogil:
                for k in range(u.shape[0]):
                    self._advance(u[k], until)
                    self._update(u[k])
        rows = _rows(&self.completion_log)
        self.completion_log.n = 0
        return journal_tables.completions(rows)

    def catch_up(self, long long until, machines: ArrayLike | None = None):
        """Advance `machines` (default: all) to `until` ns; the next `advance` returns their completions."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        cdef const long long[::1] u
        if machines is None:
            self._catch_up(until)
            return
        u = self._machines(machines)
        with nogil:
            for k in range(u.shape[0]):
                self._advance(u[k], until)
                self._update(u[k])

    cdef int _catch_up(self, long long until) except -1:
        cdef Py_ssize_t k
        with nogil:
            for k in range(self.machines):
                self._advance(k, until)
                self._update(k)
        return 0

    @cython.final
    cdef long long _duration(self, Py_ssize_t u, int application) noexcept nogil:
        """Return the time (ns) that a task of `application` takes on `u` by its estimated size."""
        return _nanoseconds(self.task_size[application] / self.speed[u])

    @cython.final
    cdef long long _length(self, Py_ssize_t u, int task) noexcept nogil:
        """Return the time (ns) that task number `task` takes on `u` by its true size."""
        return _nanoseconds(self.numbers.size[task] / self.speed[u])

    @cython.final
    cdef long long _longest_length(self, Py_ssize_t u, int application) noexcept nogil:
        """Return the longest time (ns) that a task of `application` can take on `u` by its true size."""
        return _nanoseconds(self.numbers.largest_size / self.speed[u]) if self.own_sizes else self._duration(u, application)

    cdef long long _planned_end(self, Py_ssize_t u) noexcept nogil:
        """Return when the running task of `u` should end by its estimated size, ns."""
        if not self.own_sizes or self.running[u] < 0:
            return self.free_at[u]
        return self.free_at[u] - self._length(u, self.numbers.running[u]) + self._duration(u, self.running[u])

    cdef long long _running_count(self, Py_ssize_t u, long long now) noexcept nogil:
        """Return the number of tasks that machine `u`, which has advanced to `now`, runs after that instant."""
        return self.running[u] >= 0 and self.free_at[u] > now

    cdef void _advance(self, Py_ssize_t u, long long until) noexcept nogil:
        cdef long long length, n_completed, start, at
        cdef int application
        cdef Py_ssize_t f, owner
        while True:
            at = self.free_at[u]
            application = self.running[u]
            if application >= 0:
                if at > until:
                    return
                self.running[u] = -1
                if self.own_sizes:
                    length = self._length(u, self.numbers.running[u])
                    self.numbers.running[u] = -1
                else:
                    length = self._duration(u, application)
                self._complete(u, application, 1, at - length, at, at)
            if self.count[u] == 0 or at >= until:
                return
            f = self.first[u]
            application = self.share[u, f, 0]
            length = self._duration(u, application)
            owner = self.owner[application]
            if self.first_start[owner] < 0 or at < self.first_start[owner]:
                self.first_start[owner] = at
            self._mark_used(u, <int> owner)
            if self.own_sizes:
                n_completed, length = 0, self._length(u, self.numbers.begin(u, owner, u))
            else:
                n_completed = min(<long long> self.share[u, f, 1], (until - at) // length)
            if n_completed > 0:
                start, at = at, at + n_completed * length
                self._complete(u, application, n_completed, start, at, at)
                self.share[u, f, 1] -= <int> n_completed
                self.waiting[u] -= n_completed
                self.busy_time[u] += n_completed * length
                self.free_at[u] = at
            if self.share[u, f, 1] > 0 and at < until:
                self.running[u] = application
                self.share[u, f, 1] -= 1
                self.waiting[u] -= 1
                self.busy_time[u] += length
                self.free_at[u] = at + length
            if self.share[u, f, 1] == 0:
                self.first[u] += 1
                self.count[u] -= 1
                if self.count[u] == 0:
                    self.first[u] = 0

    @cython.final
    cdef void _complete(self, Py_ssize_t u, int application, long long tasks, long long start,
                        long long end, long long arrival) noexcept nogil:
        """Count tasks that ran from `start` to `end`; the output of the last task arrives at `arrival`."""
        cdef int bag = application
        application = <int> self.owner[bag]  # both have the same task size
        if bag != application:
            self.completed[bag] += tasks
            self.finish[bag] = max(self.finish[bag], arrival)
        self.completed[application] += tasks
        self.done[u] += tasks
        self.tasks_done += tasks
        if arrival > self.finish[application]:
            self.finish[application] = arrival
        if (self.releases is not None and application < self.task_counts.shape[0]
                and self.completed[application] == self.task_counts[application]):
            self.releases.end_one(application, self.finish[application])
        if self.log:
            journal_record(&self.completion_log, u, application, tasks, start, arrival, tasks)
        if self.record:
            if self._has_row_per_task(u):
                journal_add(&self.run_log)[0] = Row(u, application, tasks, start, end, tasks)
            else:
                journal_record(&self.run_log, u, application, tasks, start, end, tasks)

    def next_change(self) -> int:
        """Return the first instant (ns) of a change that `watch` selects, else `NEVER`."""
        cdef _Guard access = guard(&self.in_call)
        return self.change[self.heap[0]] if self.machines else NEVER

    def due(self, long long now) -> Integers:
        """Advance the machines whose next change is due by `now` ns to `now`; return them, int64[k], ascending."""
        cdef _Guard access = guard(&self.in_call)
        due_machines = []
        while self.machines and self.change[self.heap[0]] <= now and self.change[self.heap[0]] != NEVER:
            u = self.heap[0]
            self._advance(u, now)
            self._update(u)
            if self.each_task or self.running[u] < 0 and self.count[u] == 0:
                due_machines.append(u)
        return np.unique(np.array(due_machines, np.int64))

    cdef long long _next_end(self, Py_ssize_t u) noexcept nogil:
        """Return when the first running or waiting task of `u`, which must have one, ends, ns."""
        if self.running[u] >= 0:
            return self.free_at[u]
        cdef int application = self.share[u, self.first[u], 0]
        return self.free_at[u] + (
            self._length(u, self.numbers.first(u, self.owner[application])) if self.own_sizes
            else self._duration(u, application))

    cdef void _update(self, Py_ssize_t u) noexcept nogil:
        """Set the next change of `u` and move it in the heap."""
        cdef long long at = NEVER
        if self.running[u] >= 0 or self.count[u] > 0:
            at = self._next_end(u) if self.each_task or self.releases is not None else self.idle_at[u]
        if at == self.change[u]:
            return
        self.change[u] = at
        cdef Py_ssize_t n = self.machines, k = self.position[u], child
        while k > 0 and self._precedes(u, self.heap[(k - 1) // 2]):
            self._place(self.heap[(k - 1) // 2], k)
            k = (k - 1) // 2
        while 2 * k + 1 < n:
            child = 2 * k + 1
            if child + 1 < n and self._precedes(self.heap[child + 1], self.heap[child]):
                child += 1
            if not self._precedes(self.heap[child], u):
                break
            self._place(self.heap[child], k)
            k = child
        self._place(u, k)

    @cython.final
    cdef bint _precedes(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        return self.change[a] < self.change[b] or (self.change[a] == self.change[b] and a < b)

    @cython.final
    cdef void _place(self, Py_ssize_t u, Py_ssize_t k) noexcept nogil:
        self.heap[k] = <int> u
        self.position[u] = <int> k

    cdef const long long[::1] _machines(self, machines):
        return indices(machines, "machines", 0, self.machines)

    cdef int _check_machine(self, Py_ssize_t machine) except -1:
        if not 0 <= machine < self.machines:
            raise ValueError(f"machine must be in 0..{self.machines - 1}, got {machine}")
        return 0
