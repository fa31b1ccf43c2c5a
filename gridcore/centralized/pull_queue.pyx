"""Central dispatch of whole tasks to machines that pull them from one list.

Times are int64 nanoseconds, durations as in ``gridcore/centralized/durations.pxd``.  A started task stays on its
machine; it is lost if the machine fails.

The reference implementation is `tests.reference.pull_queue`.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport isfinite
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from gridcore.centralized.durations cimport duration
from gridcore.common.arguments cimport (
    POSITIVE, _Guard, check_array, check_lengths, doubles, guard, indices, integers, plain, refuse, writable,
)
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.heap cimport Entry, Event, heap_pop, heap_push
from gridcore.common.memory cimport prefetch
from gridcore.common.radix_heap cimport (
    RadixHeap, radix_clear, radix_free, radix_full, radix_pop, radix_push, radix_refill, radix_reserve,
)
from gridcore.queues.pairs cimport Pairs, pair_of, pairs_add, pairs_free, pairs_have, pairs_put

import numpy as np

from gridcore.common.arrays import zeros_on_lines
from gridcore.common.state import (
    ANY, FLAG, INSTANT, INSTANT_OR_NEVER, ArrayEntry, NumberEntry, TableEntry, array_entries, read, read_only,
)

__all__ = ["PullQueue"]

_STATE = {
    "now": NumberEntry(0, LATEST + 1), "seen_of": ArrayEntry(np.int64, limits=(0, "applications")),
    "seen": ArrayEntry(np.uint64, ("seen_of", "words")),
    "few": TableEntry({"machine": (0, "machines"), "application": (0, "applications")}),
    "log": TableEntry(dict.fromkeys(("machine", "application", "tasks", "start"), ANY)),
}


cdef struct Machine:                    # fills one cache line
    double speed                        # Mflop/s
    long long free                      # ns, when its last task ends or was lost; 0 before its first task
    long long busy, done, interrupted
    int number                          # its id
    int last                            # the application of its last task, or `applications` if it was lost
    int down                            # whether it is down
    int is_waiting                      # whether it is in the heap of idle machines
    double unused


_MACHINE = np.dtype(
    [("speed", "f8"), *((name, "i8") for name in ("free", "busy", "done", "interrupted")),
     *((name, "i4") for name in ("number", "last", "away", "waits")), ("unused", "f8")], align=True)
_TYPES = {"away": np.int8, "free": np.int64, "last": np.int64, "busy": np.int64, "done": np.int64,
          "interrupted": np.int64}

if sizeof(Machine) != _MACHINE.itemsize:
    raise ImportError(f"_MACHINE must have the {sizeof(Machine)} bytes of the struct Machine, got {_MACHINE.itemsize}")


# Ctrl-C is checked after this many starts of tasks.
cdef long long _MANY_STARTS = 1 << 22


cdef const long long[::1] instants(object values):
    """Return `values` as an int64 vector; it is copied only if needed, since calls are frequent."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and values.ndim == 1 \
            and values.flags.c_contiguous and values.flags.aligned:
        return plain(values)
    return integers(values, "released")


cdef struct Progress:                   # the progress of `PullQueue.run_released`
    Py_ssize_t first, n_released
    long long waiting, peak


cdef int _raise_error_of(long long done) except -1:
    """Raise the error for which a negative `done` stands; return 0 if there is none."""
    if done == -1:
        raise MemoryError
    if done == -2:
        raise OverflowError("a task ends after the last instant, 2**63 - 2 ns")
    return 0


cdef class PullQueue:
    """Machines that take tasks from one central list when they become free.

    Of several machines that are free at one instant the fastest goes first, with ties to the lowest id.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s > 0.
    applications
        The number of applications, which are identified by index.
    log
        Whether to keep the start of every task for `starts`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, applications
    cdef readonly long long now
    cdef readonly bint log
    # machines by rank: from the fastest to the slowest, ties by id
    cdef object table                   # the array that owns the memory of `machine`
    cdef Machine* machine
    cdef const long long[::1] rank          # by id
    # busy machines by (end, rank); an entry is outdated if the machine is down, waits, or is free at another instant
    cdef RadixHeap ends
    cdef Entry* idle                    # a heap by rank of waiting machines, including machines that are down; `at` is 0
    cdef Py_ssize_t n_idle
    # `finish` excludes the last task of each machine; its extra entry is for machines that have lost their last task
    cdef long long[::1] first_start, finish, started, nodes
    # the machines that began a task of each application: the first machine (-1: none), up to `max_pairs` pairs of the
    # others, and beyond that, to save memory, one bit for each machine
    cdef long long[::1] first_machine
    cdef Pairs machine_pairs
    cdef Py_ssize_t max_pairs
    cdef unsigned long long** machine_bits
    cdef long long* entries                # rows of the log: machine, application, start, end
    cdef Py_ssize_t n_log, log_room

    def __cinit__(self, speed: ArrayLike, applications: SupportsIndex, *, bint log=False):
        cdef Py_ssize_t k
        cdef const double[::1] speeds = doubles(speed, "speed")
        check_array(speeds, "speed", POSITIVE)
        if not isinstance(applications, int | np.integer):
            raise TypeError(f"applications must be an integer, got {applications!r}")
        if not 0 <= applications < 2**31:
            raise ValueError(f"applications must be in 0..{2**31 - 1}, got {applications}")
        self.machines = speeds.shape[0]
        self.applications = applications
        self.log = log
        self.max_pairs = min(32, self.machines // 64)
        self._make_machines(np.asarray(speeds))
        self.first_start = np.full(self.applications, -1, np.int64)
        self.finish = np.full(self.applications + 1, -1, np.int64)
        self.started = np.zeros(self.applications, np.int64)
        self.nodes = np.zeros(self.applications, np.int64)
        self.first_machine = np.full(self.applications, -1, np.int64)
        self.machine_bits = <unsigned long long**> calloc(self.applications + 1, sizeof(void*))
        self.idle = <Entry*> malloc((self.machines + 1) * sizeof(Entry))
        if self.machine_bits == NULL or self.idle == NULL:
            raise MemoryError
        radix_reserve(&self.ends, 2 * self.machines + 64)
        self._place()

    cdef int _make_machines(self, speed) except -1:
        """Allocate the table of machines; all are up and idle."""
        cdef unsigned char[::1] raw
        order = np.argsort(-speed, kind="stable")
        self.table = zeros_on_lines(self.machines, _MACHINE)
        raw = self.table.view(np.uint8)
        self.machine = <Machine*> &raw[0] if self.machines else NULL
        self.table["speed"], self.table["number"], self.table["last"] = speed[order], order, self.applications
        self.rank = np.argsort(order, kind="stable")
        return 0

    cdef void _place(self) noexcept nogil:
        """Put each machine that is up into the heap of busy or of waiting machines."""
        cdef Py_ssize_t r
        radix_clear(&self.ends)
        self.n_idle = 0
        for r in range(self.machines):
            self.machine[r].is_waiting = False
            if self.machine[r].down:
                continue
            if self.machine[r].free > self.now:
                radix_push(&self.ends, self.machine[r].free, r, <int> r)
            else:
                self._wait(r)

    cdef inline void _wait(self, Py_ssize_t r) noexcept nogil:
        """Put a machine into the heap of waiting machines."""
        cdef Entry entry
        entry.at, entry.number = 0, r
        heap_push(self.idle, self.n_idle, entry)
        self.n_idle += 1
        self.machine[r].is_waiting = True

    cdef inline void _busy_until(self, Py_ssize_t r, long long at) noexcept nogil:
        """Put a machine, which is busy until `at` ns, into the heap of busy machines."""
        cdef Py_ssize_t v
        if not radix_full(&self.ends):
            radix_push(&self.ends, at, r, <int> r)
            return
        # the heap has room for two entries per machine, so most are outdated: rebuild it
        radix_clear(&self.ends)
        for v in range(self.machines):
            if not (self.machine[v].down or self.machine[v].is_waiting):
                radix_push(&self.ends, self.machine[v].free, v, <int> v)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.machine_bits != NULL:
            for i in range(self.applications):
                free(self.machine_bits[i])
        free(self.machine_bits)
        pairs_free(&self.machine_pairs)
        radix_free(&self.ends)
        free(self.idle)
        free(self.entries)

    @property
    def free_at(self) -> Integers:
        """The end or loss of the last task of each machine, int64[machines] ns, a copy; 0 if it has had no task."""
        return self._by_id("free")

    cdef object _by_id(self, str name):
        """Return a copy of column `name` of the table of machines, in order of id."""
        return self.table[name][np.asarray(self.rank)].astype(_TYPES[name])

    def backlog(self, long long now) -> float:
        """Return the Mflop of started tasks that are left at `now` ns, summed in the order of machines."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t u
        cdef double work = 0.0
        cdef const Machine* m
        for u in range(self.machines):
            m = &self.machine[self.rank[u]]
            if m.free > now:
                work += <double> (m.free - now) / 1e9 * m.speed
        return work

    def totals(self) -> dict[str, Integers]:
        """Return copies of the totals so far; a task that has started counts as done unless it was lost.

        Per application: first_start, finish (ns, -1 for never), completed (tasks), nodes_used (distinct
        machines).  Per machine: busy (ns), tasks, interrupted (tasks that ran when it failed).
        first_start, nodes_used and busy include lost tasks, too; busy includes them up to their loss.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t r
        cdef const Machine* m
        ends = np.array(self.finish)
        cdef long long[::1] finish = ends
        for r in range(self.machines):
            m = &self.machine[r]
            finish[m.last] = max(finish[m.last], m.free)
        return {
            "first_start": np.array(self.first_start), "finish": ends[:self.applications].copy(),
            "completed": np.array(self.started), "nodes_used": np.array(self.nodes),
            "busy": self._by_id("busy"), "tasks": self._by_id("done"), "interrupted": self._by_id("interrupted"),
        }

    def starts(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Return (machine, application, start ns, end ns), int64[k], of every task, in the order of the starts.

        Lost tasks are included, with their planned end.  Empty without ``log``.
        """
        cdef _Guard access = guard(&self.in_call)
        return self._starts()

    cdef tuple _starts(self):
        cdef Py_ssize_t k
        rows = np.zeros((4, self.n_log), np.int64)
        cdef long long[:, ::1] out = rows
        for k in range(self.n_log):
            out[0, k] = self.entries[4 * k]
            out[1, k] = self.entries[4 * k + 1]
            out[2, k] = self.entries[4 * k + 2]
            out[3, k] = self.entries[4 * k + 3]
        return tuple(rows)

    # -- checkpoints ------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t i, k, words = (self.machines + 63) >> 6
        applications = [i for i in range(self.applications) if self.machine_bits[i] != NULL]
        bits_array = np.empty((len(applications), words), np.uint64)
        cdef unsigned long long[:, ::1] bits = bits_array
        for k, i in enumerate(applications):
            memcpy(&bits[k, 0], self.machine_bits[i], words * sizeof(long long))
        pairs = [((pair - 1) >> 32, (pair - 1) >> 1 & 0x7FFFFFFF) for pair in self._pair_list()]
        return read_only({
            **self._columns(), "now": self.now, "seen_of": np.array(applications, np.int64), "seen": bits_array,
            "few": np.array(sorted(pairs), np.int64).reshape(-1, 2),
            "log": np.stack(self._starts(), axis=1),
        })

    cdef list _pair_list(self):
        cdef Py_ssize_t k
        return [self.machine_pairs.slot[k] for k in range(self.machine_pairs.capacity) if self.machine_pairs.slot[k]]

    def setstate(self, state):
        """Restore a state of `getstate` of a queue with the same arguments.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, i, words = (self.machines + 63) >> 6
        known = self._columns()
        entries = read(state, {
            **array_entries(known, INSTANT, last=(0, self.applications + 1), away=FLAG, first_start=INSTANT_OR_NEVER,
                   finish=INSTANT_OR_NEVER, one=(-1, self.machines)),
            **_STATE,
        }, machines=self.machines, applications=self.applications, words=words)
        now, free_at = entries["now"], entries["free"]
        # a machine without a last task is not busy
        entries["free"] = np.where(entries["last"] == self.applications, np.minimum(free_at, now), free_at)
        for name, column in known.items():
            if name in _TYPES:
                self.table[name][np.asarray(self.rank)] = entries[name]
            else:
                column[...] = entries[name]
        self.now = now
        cdef const long long[::1] application_of = entries["seen_of"]
        cdef const unsigned long long[:, ::1] bits = entries["seen"]
        for i in range(self.applications):
            free(self.machine_bits[i])
            self.machine_bits[i] = NULL
        for k in range(application_of.shape[0]):
            i = application_of[k]
            if self.machine_bits[i] == NULL:
                self.machine_bits[i] = <unsigned long long*> calloc(words, sizeof(long long))
                if self.machine_bits[i] == NULL:
                    raise MemoryError
            memcpy(self.machine_bits[i], &bits[k, 0], words * sizeof(long long))
        pairs_free(&self.machine_pairs)
        for u, i in entries["few"].tolist():
            pairs_add(&self.machine_pairs, pair_of(u, i))
        cdef const long long[:, ::1] log = entries["log"]
        self.n_log = 0
        for k in range(log.shape[0]):
            if not self._log_start(log[k, 0], log[k, 1], log[k, 2], log[k, 3]):
                raise MemoryError
        self._place()

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or application."""
        return {**{name: self._by_id(name) for name in _TYPES}, **{name: np.asarray(column) for name, column in (
            ("first_start", self.first_start), ("finish", self.finish), ("started", self.started),
            ("nodes", self.nodes), ("one", self.first_machine))}}

    def run(self, long long until, order: ArrayLike, left: Integers, task_size: ArrayLike) -> int:
        """Start tasks from the current instant up to, but not at, `until` ns.

        Whenever a machine is free, it starts a task of the first application of `order` that has one
        left; if none has, it waits.  No task is started at exactly `until`, so that arrivals at that
        instant can still change the order.  Running to t1 and then, with the same order, to t2 equals
        running to t2.

        Returns the number of tasks started.

        Parameters
        ----------
        order
            int64[k], indices of applications.
        left
            int64[applications], unstarted tasks; changed in place.
        task_size
            float64[applications], Mflop > 0; only entries of applications in `order` are read.

        Raises
        ------
        OverflowError
            If a task would end after the last instant.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] first = indices(order, "order", 0, self.applications)
        cdef long long[::1] rest = writable(left, "left")
        cdef const double[::1] size = doubles(task_size, "task_size")
        cdef Py_ssize_t k
        cdef long long i
        cdef long long count = _MANY_STARTS, total = 0
        check_lengths(self.applications, rest.shape[0], "applications", "left")
        check_lengths(self.applications, size.shape[0], "applications", "task_size")
        for k in range(first.shape[0]):
            i = first[k]
            if rest[i] < 0:
                raise ValueError(f"left[{i}] must be >= 0, got {rest[i]}")
            if not isfinite(size[i]) or size[i] <= 0.0:
                raise refuse("task_size", i, "must be finite and > 0", size[i])
        while count == _MANY_STARTS:
            PyErr_CheckSignals()
            with nogil:
                count = self._run(until, first, rest, size)
            _raise_error_of(count)
            total += count
        return total

    def run_released(self, long long until, released: ArrayLike, left: Integers, task_size: ArrayLike,
                     Py_ssize_t first, Py_ssize_t n_released, long long waiting) -> tuple[int, int, int, int]:
        """Start tasks as `run` does, in order of application; each application takes part from its release on.

        Running to t1 and then to t2 equals running to t2.

        Returns (first, n_released, waiting, peak): the parameters as of `until`, and the largest number of waiting
        tasks, counted at the beginning and after each release.  Entries of the arrays are checked when used.

        Parameters
        ----------
        released
            int64[applications], ns, ascending, when the tasks of each application become available.
        left
            int64[applications], unstarted tasks; changed in place.
        task_size
            float64[applications], Mflop > 0.
        first
            The first application that may have tasks left.
        n_released
            The number of applications released so far.
        waiting
            The number of unstarted tasks of released applications.

        Raises
        ------
        ValueError
            If an argument is out of range.
        OverflowError
            If a task would end after the last instant.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] at = instants(released)
        cdef long long[::1] rest = writable(left, "left")
        cdef const double[::1] size = doubles(task_size, "task_size")
        cdef Progress t
        cdef long long done = _MANY_STARTS
        for name, count in ("released", at.shape[0]), ("left", rest.shape[0]), ("task_size", size.shape[0]):
            check_lengths(self.applications, count, "applications", name)
        for name, value in ("first", first), ("n_released", n_released):
            if not 0 <= value <= self.applications:
                raise ValueError(f"{name} must be in 0..{self.applications}, got {value}")
        t.first, t.n_released, t.waiting, t.peak = first, n_released, waiting, waiting
        while done == _MANY_STARTS:
            PyErr_CheckSignals()
            with nogil:
                done = self._run_released(until, at, rest, size, &t)
        if done == -3:
            if rest[t.first] < 0:
                raise ValueError(f"left[{t.first}] must be >= 0, got {rest[t.first]}")
            raise refuse("task_size", t.first, "must be finite and > 0", size[t.first])
        if done == -4:
            raise ValueError(f"released[{t.n_released}] must be >= released[{t.n_released - 1}], "
                             f"got {at[t.n_released]} and {at[t.n_released - 1]}")
        _raise_error_of(done)
        return t.first, t.n_released, t.waiting, t.peak

    def fail(self, machines: ArrayLike, long long now) -> tuple[Integers, Integers]:
        """Make `machines` fail at `now` ns, the end of the last `run`; their running tasks are lost.

        They take no tasks until `restore`; machines that are down already stay down.

        Returns (machines, applications) int64[k], an entry for each task lost, in the order of `machines`.  A
        task that ends at `now` is not lost.  A lost task does not count as done; the caller must add it to
        `left` again.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] ids = self._machines(machines, now)
        cdef Py_ssize_t k, n = 0
        cdef Machine* m
        lost = np.zeros((2, ids.shape[0]), np.int64)
        cdef long long[:, ::1] out = lost
        for k in range(ids.shape[0]):
            m = &self.machine[self.rank[ids[k]]]
            if m.down:
                continue
            m.down = True
            if m.free <= now:
                continue
            out[0, n] = m.number
            out[1, n] = m.last
            n += 1
            m.busy -= m.free - now
            m.done -= 1
            m.interrupted += 1
            self.started[m.last] -= 1
            m.free = now
            m.last = <int> self.applications
        return lost[0, :n].copy(), lost[1, :n].copy()

    def restore(self, machines: ArrayLike, long long now):
        """Make `machines` recover at `now` ns, the end of the last `run`; machines that are up are unchanged."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] ids = self._machines(machines, now)
        cdef Py_ssize_t k, r
        for k in range(ids.shape[0]):
            r = self.rank[ids[k]]
            if self.machine[r].down:
                self.machine[r].down = False
                if not self.machine[r].is_waiting:
                    self._wait(r)

    cdef const long long[::1] _machines(self, machines, long long now):
        if now != self.now:
            raise ValueError(f"now must be {self.now} ns, the end of the last run, got {now}")
        return indices(machines, "machines", 0, self.machines)

    cdef void _wake(self) noexcept nogil:
        """Put the machines whose tasks have ended into the heap of waiting machines."""
        cdef Py_ssize_t r
        while self._next_end() <= self.now:
            r = self.ends.front[0].slot
            radix_pop(&self.ends)
            self._wait(r)

    cdef inline long long _next_free(self) noexcept nogil:
        """Bring the machine that is free next to the front of its heap; return that instant (ns), else `NEVER`."""
        while self.n_idle > 0 and self.machine[self.idle[0].number].down:
            self.machine[self.idle[0].number].is_waiting = False
            heap_pop(self.idle, self.n_idle)
            self.n_idle -= 1
        return self.now if self.n_idle > 0 else self._next_end()

    cdef inline long long _next_end(self) noexcept nogil:
        """Bring the busy machine that is free next to the front of `ends`; return that instant (ns), else `NEVER`."""
        cdef Py_ssize_t k
        cdef const Event* first
        cdef const Machine* m
        while True:
            if radix_refill(&self.ends):
                for k in range(self.ends.n_front):
                    prefetch(&self.machine[self.ends.front[k].slot])
            if self.ends.n_front == 0:
                return NEVER
            first = &self.ends.front[0]
            m = &self.machine[first.slot]
            if m.free == first.time and not m.down and not m.is_waiting:
                return first.time
            radix_pop(&self.ends)

    cdef inline int _start_task(self, long long i, double task_size) noexcept nogil:
        """Start a task of application `i` on the next free machine; return 0, or an error for `_raise_error_of`."""
        cdef bint waiting = self.n_idle > 0
        cdef Py_ssize_t r = self.idle[0].number if waiting else self.ends.front[0].slot, k
        cdef Machine* m = &self.machine[r]
        cdef long long at = self.now if waiting else m.free, length = duration(task_size, m.speed), end
        if length > NEVER - at:
            return -2
        end = at + length
        if m.free > self.finish[m.last]:
            self.finish[m.last] = m.free
        if m.last != i and not self._count_machine(i, m):
            return -1
        if self.log and not self._log_start(m.number, i, at, end):
            return -1
        m.free = end
        m.busy += length
        m.done += 1
        if self.first_start[i] < 0:
            self.first_start[i] = at
        self.started[i] += 1
        if not waiting:
            radix_pop(&self.ends)
            self._busy_until(r, end)
            for k in range(min(<Py_ssize_t> 5, self.ends.n_front)):
                prefetch(&self.finish[self.machine[self.ends.front[k].slot].last])
        elif end > self.now:
            heap_pop(self.idle, self.n_idle)
            self.n_idle -= 1
            m.is_waiting = False
            self._busy_until(r, end)
            prefetch(&self.machine[self.idle[0].number])
        return 0

    cdef long long _run(self, long long until, const long long[::1] order, long long[::1] left,
                        const double[::1] task_size) noexcept nogil:
        cdef Py_ssize_t k
        cdef long long i, count = 0
        cdef int error
        if until <= self.now:
            return 0
        self._wake()
        for k in range(order.shape[0]):
            i = order[k]
            while left[i] > 0 and self._next_free() < until:
                error = self._start_task(i, task_size[i])
                if error:
                    return error
                left[i] -= 1
                count += 1
                if count == _MANY_STARTS:
                    return count
        self.now = until
        return count

    cdef long long _run_released(self, long long until, const long long[::1] released, long long[::1] left,
                                 const double[::1] task_size, Progress* t) noexcept nogil:
        cdef long long at, count = 0
        cdef int error
        if until <= self.now:
            return 0
        self._wake()
        while count < _MANY_STARTS:
            while t.first < self.applications and left[t.first] == 0:
                t.first += 1
            if t.first == self.applications or released[t.first] >= until:
                break
            if left[t.first] < 0 or not (isfinite(task_size[t.first]) and task_size[t.first] > 0.0):
                return -3
            if released[t.first] > self.now:  # no task can start before this release
                self.now = released[t.first]
                self._wake()
            at = self._next_free()
            if at >= until:
                break
            if not self._count_released(at + 1, released, left, t):
                return -4
            error = self._start_task(t.first, task_size[t.first])
            if error:
                return error
            left[t.first] -= 1
            t.waiting -= 1
            count += 1
        if count == _MANY_STARTS:
            return count
        if not self._count_released(until, released, left, t):
            return -4
        self.now = until
        return 0

    cdef inline bint _count_released(self, long long until, const long long[::1] released, const long long[::1] left,
                            Progress* t) noexcept nogil:
        """Count the applications released before `until`; return False if their releases are not ascending."""
        while t.n_released < self.applications and released[t.n_released] < until:
            if t.n_released > 0 and released[t.n_released] < released[t.n_released - 1]:
                return False
            t.waiting += left[t.n_released]
            t.n_released += 1
            if t.waiting > t.peak and (
                    t.n_released == self.applications or released[t.n_released] > released[t.n_released - 1]):
                t.peak = t.waiting  # all releases of this instant are counted
        return True

    cdef inline bint _count_machine(self, long long i, Machine* m) noexcept nogil:
        """Record `i` as the last application of a machine, and count the machine for `i` unless it already was.

        Returns False if memory runs out.
        """
        cdef long long u = m.number
        cdef unsigned long long bit = <unsigned long long> 1 << (u & 63)
        m.last = <int> i
        if self.nodes[i] == 0:
            self.first_machine[i] = u
            self.nodes[i] = 1
            return True
        if self.first_machine[i] == u or pairs_have(&self.machine_pairs, pair_of(u, i)):
            return True
        if self.nodes[i] < self.max_pairs:
            self.nodes[i] += 1
            return pairs_put(&self.machine_pairs, pair_of(u, i))
        if self.machine_bits[i] == NULL:
            self.machine_bits[i] = <unsigned long long*> calloc((self.machines + 63) >> 6, sizeof(unsigned long long))
            if self.machine_bits[i] == NULL:
                return False
        if not self.machine_bits[i][u >> 6] & bit:
            self.machine_bits[i][u >> 6] |= bit
            self.nodes[i] += 1
        return True

    cdef inline bint _log_start(self, long long u, long long i, long long at, long long end) noexcept nogil:
        cdef long long* larger
        cdef Py_ssize_t capacity
        if self.n_log == self.log_room:
            capacity = 2 * self.log_room + 256
            larger = <long long*> realloc(self.entries, capacity * 4 * sizeof(long long))
            if larger == NULL:
                return False
            self.entries = larger
            self.log_room = capacity
        self.entries[4 * self.n_log] = u
        self.entries[4 * self.n_log + 1] = i
        self.entries[4 * self.n_log + 2] = at
        self.entries[4 * self.n_log + 3] = end
        self.n_log += 1
        return True
