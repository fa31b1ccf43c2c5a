"""Central dispatch of whole tasks to machines that pull them from one list.

Times are int64 nanoseconds, durations as in ``gridcore/centralized/durations.pxd``.  A started task is never taken back;
it is lost if its machine fails.

The reference implementation is `tests.reference.pull_queue`.
"""

from libc.math cimport isfinite
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from gridcore.centralized.durations cimport duration
from gridcore.common.arguments cimport (
    POSITIVE, _Guard, check_array, check_lengths, doubles, guard, indices, integers, plain, refuse, writable,
)
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.heap cimport Entry, heap_pop, heap_push
from gridcore.common.memory cimport prefetch
from gridcore.common.radix_heap cimport (
    RadixHeap, radix_clear, radix_free, radix_full, radix_make, radix_pop, radix_push, radix_refill,
)
from gridcore.queues.pairs cimport Pairs, pair_of, pairs_add, pairs_free, pairs_have, pairs_put

import numpy as np

from gridcore.common.state import ANY, FLAG, INSTANT, OR_NEVER, Array, Number, Rows, like, read, read_only

__all__ = ["PullQueue"]

_STATE = {
    "now": Number(0, LATEST + 1), "seen_of": Array(np.int64, limits=(0, "applications")),
    "seen": Array(np.uint64, ("seen_of", "words")),
    "few": Rows({"machine": (0, "machines"), "application": (0, "applications")}),
    "log": Rows(dict.fromkeys(("machine", "application", "tasks", "start"), ANY)),
}


cdef struct Machine:                    # a cache line
    double speed                        # Mflop/s
    long long free                      # when its last task ends or was lost, ns; 0 at first
    long long busy, done, interrupted
    int number                          # its id
    int last                            # the application of its last task, or `applications` if it was lost
    int away                            # whether it is down
    int waits                           # whether it is in the heap of idle machines
    double unused


_MACHINE = np.dtype(
    [("speed", "f8"), *((name, "i8") for name in ("free", "busy", "done", "interrupted")),
     *((name, "i4") for name in ("number", "last", "away", "waits")), ("unused", "f8")], align=True)
_TYPES = {"away": np.int8, "free": np.int64, "last": np.int64, "busy": np.int64, "done": np.int64,
          "interrupted": np.int64}

if sizeof(Machine) != _MACHINE.itemsize:
    raise ImportError("the table of machines is not the struct of gridcore/centralized/pull_queue.pyx")


cdef const long long[::1] instants(object values):
    """Return `values` as an int64 vector, copied only where needed: there may be many calls."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and values.ndim == 1 \
            and values.flags.c_contiguous and values.flags.aligned:
        return plain(values)
    return integers(values, "released")


cdef struct Turn:                       # see `PullQueue.run_released`
    Py_ssize_t first, came
    long long waiting, peak


cdef int _check_done(long long done) except -1:
    """Raise the error for which a negative number stands."""
    if done == -1:
        raise MemoryError
    if done == -2:
        raise OverflowError("a task ends after the last instant")
    return 0


cdef class PullQueue:
    """Machines that take tasks from one central list when they become free.

    Of several machines that are free at one instant the fastest goes first, with ties to the lowest id.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s > 0.
    applications
        How many applications there will be; they are identified by index.
    log
        Keep the start of every task for `starts`.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    cdef bint occupied                      # see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, applications
    cdef readonly long long now
    cdef readonly bint log
    # by rank; ranks go from the fastest machine to the slowest, ties by id
    cdef object table                       # the records as an array
    cdef Machine* machine
    cdef const long long[::1] rank          # by id
    # busy machines by (end, rank); entries of machines that are away, wait or are free at other instants are void
    cdef RadixHeap ends
    cdef Entry* idle                        # a heap of those that wait, by rank, and of some that are away; at is 0
    cdef Py_ssize_t n_idle
    # finish counts only tasks that have a successor on their machine; its extra entry is for `last` of lost tasks
    cdef long long[::1] first_start, finish, started, nodes
    # by application the machine that first began a task of it, or -1; (machine, application) of the next ones, until
    # there are `most_few`; and the bits of the further ones, which then take less memory
    cdef long long[::1] one
    cdef Pairs few
    cdef Py_ssize_t most_few
    cdef unsigned long long** seen
    cdef long long* entries                # the log: machine, application, start, end
    cdef Py_ssize_t n_log, log_room

    def __cinit__(self, speed: ArrayLike, applications: SupportsIndex, *, bint log=False):
        cdef Py_ssize_t k
        cdef const double[::1] given = doubles(speed, "speed")
        check_array(given, "speed", POSITIVE)
        if not isinstance(applications, int | np.integer):
            raise TypeError(f"applications must be an integer, got {applications!r}")
        if not 0 <= applications < 2**31:
            raise ValueError(f"applications must be in 0..{2**31 - 1}, got {applications}")
        self.machines = given.shape[0]
        self.applications = applications
        self.log = log
        self.most_few = min(32, self.machines // 64)
        self._make_machines(np.asarray(given))
        self.first_start = np.full(self.applications, -1, np.int64)
        self.finish = np.full(self.applications + 1, -1, np.int64)
        self.started = np.zeros(self.applications, np.int64)
        self.nodes = np.zeros(self.applications, np.int64)
        self.one = np.full(self.applications, -1, np.int64)
        self.seen = <unsigned long long**> calloc(self.applications + 1, sizeof(void*))
        self.idle = <Entry*> malloc((self.machines + 1) * sizeof(Entry))
        if self.seen == NULL or self.idle == NULL:
            raise MemoryError
        radix_make(&self.ends, 2 * self.machines + 64)
        self._place()

    cdef int _make_machines(self, speed) except -1:
        """Allocate memory for machines that are up and have done nothing."""
        cdef unsigned char[::1] raw
        order = np.argsort(-speed, kind="stable")
        size = self.machines * _MACHINE.itemsize
        block = np.zeros(size + 64, np.uint8)
        start = -block.ctypes.data % 64     # as a record that begins elsewhere is in two cache lines
        raw = block[start:]
        self.machine = <Machine*> &raw[0]
        self.table = block[start : start + size].view(_MACHINE)
        self.table["speed"], self.table["number"], self.table["last"] = speed[order], order, self.applications
        self.rank = np.argsort(order, kind="stable")
        return 0

    cdef void _place(self) noexcept nogil:
        """Put each machine that is up into its heap; one that is free by now waits."""
        cdef Py_ssize_t r
        radix_clear(&self.ends)
        self.n_idle = 0
        for r in range(self.machines):
            self.machine[r].waits = False
            if self.machine[r].away:
                continue
            if self.machine[r].free > self.now:
                radix_push(&self.ends, self.machine[r].free, r)
            else:
                self._wait(r)

    cdef inline void _wait(self, Py_ssize_t r) noexcept nogil:
        """Put a machine into the heap of those that wait."""
        cdef Entry entry
        entry.at, entry.number = 0, r
        heap_push(self.idle, self.n_idle, entry)
        self.n_idle += 1
        self.machine[r].waits = True

    cdef inline void _end_at(self, Py_ssize_t r, long long at) noexcept nogil:
        """Put a machine, which is free at `at`, into the heap of those that are busy."""
        cdef Py_ssize_t v
        if not radix_full(&self.ends):
            radix_push(&self.ends, at, r)
            return
        # there is room for twice as many as can be busy
        radix_clear(&self.ends)
        for v in range(self.machines):
            if not (self.machine[v].away or self.machine[v].waits):
                radix_push(&self.ends, self.machine[v].free, v)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.seen != NULL:
            for i in range(self.applications):
                free(self.seen[i])
        free(self.seen)
        pairs_free(&self.few)
        radix_free(&self.ends)
        free(self.idle)
        free(self.entries)

    @property
    def free_at(self) -> Integers:
        """int64[machines]: a copy of when (ns) the last task of each machine ends or was lost; 0 at first."""
        return self._by_id("free")

    cdef object _by_id(self, str name):
        """Return a copy of a column of machines, by id."""
        return self.table[name][np.asarray(self.rank)].astype(_TYPES[name])

    def backlog(self, long long now) -> float:
        """Return the Mflop that tasks started so far have still to do after `now` ns, summed in order of machine."""
        cdef _Guard alone = guard(&self.occupied)
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
        cdef _Guard alone = guard(&self.occupied)
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

        Lost tasks are included, with the end that they would have had.  Empty without ``log``.
        """
        cdef _Guard alone = guard(&self.occupied)
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
        """Return what has changed since the queue was made; see `gridcore.common.state`."""
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t i, k, words = (self.machines + 63) >> 6
        met = [i for i in range(self.applications) if self.seen[i] != NULL]
        seen_array = np.empty((len(met), words), np.uint64)
        cdef unsigned long long[:, ::1] seen = seen_array
        for k, i in enumerate(met):
            memcpy(&seen[k, 0], self.seen[i], words * sizeof(long long))
        few = [((pair - 1) >> 32, (pair - 1) >> 1 & 0x7FFFFFFF) for pair in self._few()]
        return read_only({
            **self._columns(), "now": self.now, "seen_of": np.array(met, np.int64), "seen": seen_array,
            "few": np.array(sorted(few), np.int64).reshape(-1, 2),
            "log": np.stack(self._starts(), axis=1),
        })

    cdef list _few(self):
        cdef Py_ssize_t k
        return [self.few.slot[k] for k in range(self.few.room) if self.few.slot[k]]

    def setstate(self, state):
        """Continue from a state that `getstate` returned for a queue made with the same arguments.

        Raises ValueError for a state that does not fit.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t k, i, words = (self.machines + 63) >> 6
        known = self._columns()
        given = read(state, {
            **like(known, INSTANT, last=(0, self.applications + 1), away=FLAG, first_start=OR_NEVER,
                   finish=OR_NEVER, one=(-1, self.machines)),
            **_STATE,
        }, machines=self.machines, applications=self.applications, words=words)
        if (given["busy"] > given["free"]).any():
            raise ValueError("state['busy'] must be at most state['free'] of the same machine")
        now = given["now"]
        if ((given["last"] == self.applications) & (given["free"] > now)).any():
            raise ValueError("state['last'] must be an application where a machine works")
        for name, column in known.items():
            if name in _TYPES:
                self.table[name][np.asarray(self.rank)] = given[name]
            else:
                column[...] = given[name]
        self.now = now
        cdef const long long[::1] of = given["seen_of"]
        cdef const unsigned long long[:, ::1] seen = given["seen"]
        for i in range(self.applications):
            free(self.seen[i])
            self.seen[i] = NULL
        for k in range(of.shape[0]):
            i = of[k]
            if self.seen[i] == NULL:
                self.seen[i] = <unsigned long long*> calloc(words, sizeof(long long))
                if self.seen[i] == NULL:
                    raise MemoryError
            memcpy(self.seen[i], &seen[k, 0], words * sizeof(long long))
        pairs_free(&self.few)
        for u, i in given["few"].tolist():
            pairs_add(&self.few, pair_of(u, i))
        cdef const long long[:, ::1] log = given["log"]
        self.n_log = 0
        for k in range(log.shape[0]):
            if not self._note(log[k, 0], log[k, 1], log[k, 2], log[k, 3]):
                raise MemoryError
        self._place()

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or application."""
        return {**{name: self._by_id(name) for name in _TYPES}, **{name: np.asarray(column) for name, column in (
            ("first_start", self.first_start), ("finish", self.finish), ("started", self.started),
            ("nodes", self.nodes), ("one", self.one))}}

    def run(self, long long until, order: ArrayLike, left: Integers, task_size: ArrayLike) -> int:
        """Start tasks from the instant reached so far up to, but not at, `until` ns.

        Whenever a machine is free, it starts a task of the first application of `order` that has one
        left; if none has, it waits.  No task is started at exactly `until`, so that what arrives at that
        instant can still change the order.  Running to t1 and then, with the same order, to t2 equals
        running to t2.

        Returns the number of tasks started.  Raises OverflowError if a task ends after the last instant.

        Parameters
        ----------
        order
            int64[k], indices of applications.
        left
            int64[applications], unstarted tasks; changed in place.
        task_size
            float64[applications], Mflop > 0; only entries that `order` names are read.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] first = indices(order, "order", 0, self.applications)
        cdef long long[::1] rest = writable(left, "left")
        cdef const double[::1] size = doubles(task_size, "task_size")
        cdef Py_ssize_t k
        cdef long long i
        cdef long long count
        check_lengths(self.applications, rest.shape[0], "applications", "left")
        check_lengths(self.applications, size.shape[0], "applications", "task_size")
        for k in range(first.shape[0]):
            i = first[k]
            if rest[i] < 0:
                raise ValueError(f"left[{i}] must be >= 0, got {rest[i]}")
            if not isfinite(size[i]) or size[i] <= 0.0:
                raise refuse("task_size", i, "must be finite and > 0", size[i])
        with nogil:
            count = self._run(until, first, rest, size)
        _check_done(count)
        return count

    def run_released(self, long long until, released: ArrayLike, left: Integers, task_size: ArrayLike,
                     Py_ssize_t first, Py_ssize_t came, long long waiting) -> tuple[int, int, int, int]:
        """Start tasks as `run` does, in order of application, each application from its release on.

        Running to t1 and then to t2 equals running to t2.

        Returns `first`, `came` and `waiting` as they are after the call, which counts the applications released
        before `until`, and the most tasks that waited at the release of one of them, else `waiting` as given.
        Entries of the arrays are checked when their turn comes.

        Raises ValueError naming the argument, its index and value; OverflowError if a task ends after the last instant.

        Parameters
        ----------
        released
            int64[applications], ns, not descending: when the tasks of each application become available.
        left
            int64[applications], unstarted tasks; changed in place.
        task_size
            float64[applications], Mflop > 0.
        first
            No application before it has tasks left.
        came
            How many applications have been counted as released.
        waiting
            How many tasks of these are left.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] at = instants(released)
        cdef long long[::1] rest = writable(left, "left")
        cdef const double[::1] size = doubles(task_size, "task_size")
        cdef Turn t
        cdef long long done
        for name, count in ("released", at.shape[0]), ("left", rest.shape[0]), ("task_size", size.shape[0]):
            check_lengths(self.applications, count, "applications", name)
        for name, value in ("first", first), ("came", came):
            if not 0 <= value <= self.applications:
                raise ValueError(f"{name} must be in 0..{self.applications}, got {value}")
        t.first, t.came, t.waiting, t.peak = first, came, waiting, waiting
        with nogil:
            done = self._run_released(until, at, rest, size, &t)
        if done == -3:
            if rest[t.first] < 0:
                raise ValueError(f"left[{t.first}] must be >= 0, got {rest[t.first]}")
            raise refuse("task_size", t.first, "must be finite and > 0", size[t.first])
        if done == -4:
            raise ValueError(f"released[{t.came}] must be at least {at[t.came - 1]}, the one before, got {at[t.came]}")
        _check_done(done)
        return t.first, t.came, t.waiting, t.peak

    def fail(self, machines: ArrayLike, long long now) -> tuple[Integers, Integers]:
        """Let `machines` fail at `now` ns, the instant reached by `run`; they lose the tasks that they run.

        They take no tasks until `restore`; machines that are down already stay down.

        Returns (machines, applications) int64[k], an entry for each task lost, in the order of `machines`.  A
        task that ends at `now` has ended.  A lost task counts as never done; the caller must put it into
        `left` again.  Raises ValueError naming the index of a bad machine.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k, n = 0
        cdef Machine* m
        lost = np.zeros((2, who.shape[0]), np.int64)
        cdef long long[:, ::1] out = lost
        for k in range(who.shape[0]):
            m = &self.machine[self.rank[who[k]]]
            if m.away:
                continue
            m.away = True
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
        """Let `machines` recover at `now` ns, the instant reached by `run`; machines that are up stay as they are.

        Raises ValueError naming the index of a bad machine.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k, r
        for k in range(who.shape[0]):
            r = self.rank[who[k]]
            if self.machine[r].away:
                self.machine[r].away = False
                if not self.machine[r].waits:
                    self._wait(r)

    cdef const long long[::1] _machines(self, machines, long long now):
        if now != self.now:
            raise ValueError(f"now must be the instant reached, {self.now} ns, got {now}")
        return indices(machines, "machines", 0, self.machines)

    cdef void _wake(self) noexcept nogil:
        """Let the machines whose tasks have ended by now be idle."""
        cdef Py_ssize_t r
        while self._next_end() <= self.now:
            r = self.ends.near[0].number
            radix_pop(&self.ends)
            self._wait(r)

    cdef inline long long _next(self) noexcept nogil:
        """Return when the next machine is free, which is then the first in its heap; NEVER if there is none."""
        while self.n_idle > 0 and self.machine[self.idle[0].number].away:
            self.machine[self.idle[0].number].waits = False
            heap_pop(self.idle, self.n_idle)
            self.n_idle -= 1
        return self.now if self.n_idle > 0 else self._next_end()

    cdef inline long long _next_end(self) noexcept nogil:
        """Return when the next busy machine is free, then the first of `ends`; NEVER if there is none."""
        cdef Py_ssize_t k
        cdef const Entry* first
        cdef const Machine* m
        while True:
            if radix_refill(&self.ends):
                for k in range(self.ends.n_near):
                    prefetch(&self.machine[self.ends.near[k].number])
            if self.ends.n_near == 0:
                return NEVER
            first = &self.ends.near[0]
            m = &self.machine[first.number]
            if m.free == first.at and not m.away and not m.waits:
                return first.at
            radix_pop(&self.ends)

    cdef inline int _begin(self, long long i, double task_size) noexcept nogil:
        """Start a task of application `i` on the next free machine; see `_check_done` for what it returns."""
        cdef bint waiting = self.n_idle > 0
        cdef Py_ssize_t r = self.idle[0].number if waiting else self.ends.near[0].number, k
        cdef Machine* m = &self.machine[r]
        cdef long long at = self.now if waiting else m.free, length = duration(task_size, m.speed), end
        if length > NEVER - at:
            return -2
        end = at + length
        if m.free > self.finish[m.last]:
            self.finish[m.last] = m.free
        if m.last != i and not self._meet(i, m):
            return -1
        if self.log and not self._note(m.number, i, at, end):
            return -1
        m.free = end
        m.busy += length
        m.done += 1
        if self.first_start[i] < 0:
            self.first_start[i] = at
        self.started[i] += 1
        if not waiting:
            radix_pop(&self.ends)
            self._end_at(r, end)
            for k in range(min(<Py_ssize_t> 5, self.ends.n_near)):
                prefetch(&self.finish[self.machine[self.ends.near[k].number].last])
        elif end > self.now:
            heap_pop(self.idle, self.n_idle)
            self.n_idle -= 1
            m.waits = False
            self._end_at(r, end)
            prefetch(&self.machine[self.idle[0].number])
        return 0

    cdef long long _run(self, long long until, const long long[::1] order, long long[::1] left,
                        const double[::1] task_size) noexcept nogil:
        cdef Py_ssize_t k
        cdef long long i, count = 0
        cdef int failed
        if until <= self.now:
            return 0
        self._wake()
        for k in range(order.shape[0]):
            i = order[k]
            while left[i] > 0 and self._next() < until:
                failed = self._begin(i, task_size[i])
                if failed:
                    return failed
                left[i] -= 1
                count += 1
        self.now = until
        return count

    cdef long long _run_released(self, long long until, const long long[::1] released, long long[::1] left,
                                 const double[::1] task_size, Turn* t) noexcept nogil:
        cdef long long at
        cdef int failed
        if until <= self.now:
            return 0
        self._wake()
        while True:
            while t.first < self.applications and left[t.first] == 0:
                t.first += 1
            if t.first == self.applications or released[t.first] >= until:
                break
            if left[t.first] < 0 or not (isfinite(task_size[t.first]) and task_size[t.first] > 0.0):
                return -3
            if released[t.first] > self.now:  # nothing can start before it
                self.now = released[t.first]
                self._wake()
            at = self._next()
            if at >= until:
                break
            if not self._count(at + 1, released, left, t):
                return -4
            failed = self._begin(t.first, task_size[t.first])
            if failed:
                return failed
            left[t.first] -= 1
            t.waiting -= 1
        if not self._count(until, released, left, t):
            return -4
        self.now = until
        return 0

    cdef inline bint _count(self, long long until, const long long[::1] released, const long long[::1] left,
                            Turn* t) noexcept nogil:
        """Count the applications released before `until`; False if one is released before the one before it."""
        while t.came < self.applications and released[t.came] < until:
            if t.came > 0 and released[t.came] < released[t.came - 1]:
                return False
            t.waiting += left[t.came]
            t.came += 1
            if t.waiting > t.peak and (t.came == self.applications or released[t.came] > released[t.came - 1]):
                t.peak = t.waiting  # with all that are released at this instant
        return True

    cdef inline bint _meet(self, long long i, Machine* m) noexcept nogil:
        """Record that the last task of a machine is of application `i`; count it in its nodes once."""
        cdef long long u = m.number
        cdef unsigned long long bit = <unsigned long long> 1 << (u & 63)
        m.last = <int> i
        if self.nodes[i] == 0:
            self.one[i] = u
            self.nodes[i] = 1
            return True
        if self.one[i] == u or pairs_have(&self.few, pair_of(u, i)):
            return True
        if self.nodes[i] < self.most_few:
            self.nodes[i] += 1
            return pairs_put(&self.few, pair_of(u, i))
        if self.seen[i] == NULL:
            self.seen[i] = <unsigned long long*> calloc((self.machines + 63) >> 6, sizeof(unsigned long long))
            if self.seen[i] == NULL:
                return False
        if not self.seen[i][u >> 6] & bit:
            self.seen[i][u >> 6] |= bit
            self.nodes[i] += 1
        return True

    cdef inline bint _note(self, long long u, long long i, long long at, long long end) noexcept nogil:
        cdef long long* wider
        cdef Py_ssize_t room
        if self.n_log == self.log_room:
            room = 2 * self.log_room + 256
            wider = <long long*> realloc(self.entries, room * 4 * sizeof(long long))
            if wider == NULL:
                return False
            self.entries = wider
            self.log_room = room
        self.entries[4 * self.n_log] = u
        self.entries[4 * self.n_log + 1] = i
        self.entries[4 * self.n_log + 2] = at
        self.entries[4 * self.n_log + 3] = end
        self.n_log += 1
        return True
