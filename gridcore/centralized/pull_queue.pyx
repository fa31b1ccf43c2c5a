"""Central dispatch of whole tasks: machines that pull tasks from one list, and binding to the earliest end.

Times are int64 nanoseconds.  A task of `a` Mflop takes round(a / speed * 1e9) ns on a machine (half to
even); this duration is computed in the same way everywhere.  A started task is never taken back; it is lost if its
machine fails.

The reference implementation is `tests.reference.pull_queue`.
"""

from libc.math cimport isfinite, llrint
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from gridcore.common.arguments cimport (
    POSITIVE, _Held, check_array, check_lengths, check_scalar, doubles, hold, indices, plain, refuse,
)
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.heap cimport Entry, heap_before, heap_make, heap_pop, heap_push, heap_settle
from gridcore.queues.pairs cimport Pairs, pair_of, pairs_add, pairs_free, pairs_have, pairs_put

import numpy as np

from gridcore.common.state import ANY, FLAG, INSTANT, OR_NEVER, Array, Number, Rows, like, read, shown

__all__ = ["EarliestEnds", "PullQueue", "bind_earliest"]

_STATE = {
    "now": Number(0, LATEST + 1), "seen_of": Array(np.int64, limits=(0, "applications")),
    "seen": Array(np.uint64, ("seen_of", "words")),
    "few": Rows({"machine": (0, "machines"), "application": (0, "applications")}),
    "log": Rows(dict.fromkeys(("machine", "application", "tasks", "start"), ANY)),
}

cdef double _LONGEST = 9.2e18
# The last double before 2**63.
cdef long long _LAST = 9223372036854774784


cdef inline Py_ssize_t drop(Entry* heap, Py_ssize_t n, const long long[::1] machine,
                            const char[::1] away) noexcept nogil:
    """Remove the machines that are `away` from a heap of n; return how many are left."""
    cdef Py_ssize_t k
    cdef Entry moved
    for k in range(n - 1, -1, -1):
        # the entry that moves to k may have to be removed as well; entries below k stay
        while k < n and away[machine[heap[k].number]]:
            n -= 1
            if k == n:
                break
            moved = heap[n]
            if k > 0 and heap_before(moved, heap[(k - 1) // 4]):
                heap_push(heap, k, moved)
            else:
                heap_settle(heap, n, k, moved)
    return n


cdef inline long long duration(double task_size, double speed) noexcept nogil:
    """Return the run time of a task in ns; the last instant if it would be longer than that."""
    cdef double ns = task_size / speed * 1e9
    return llrint(ns) if ns < _LONGEST else NEVER


cdef long long[::1] writable(object values, str name):
    """Return `values`; raise TypeError or ValueError unless it is an int64 vector that can be written in place."""
    values = plain(values)
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise TypeError(f"{name} must be an int64 array, it is changed in place")
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {values.ndim}")
    if not values.flags.carray:  # aligned, too
        raise ValueError(f"{name} must be contiguous and writable, it is changed in place")
    return values


# --- machines that pull ---------------------------------------------------------------------------

cdef class PullQueue:
    """Machines that take tasks from one central list when they become free.

    Of several machines that are free at one instant the fastest goes first, with ties to the lowest id.

    Parameters
    ----------
    speed : float64[machines], Mflop/s > 0.
    applications : how many applications there will be; they are identified by index.
    log : keep the start of every task for `starts`.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    cdef bint occupied                      # see `gridcore.common.arguments.hold`
    cdef readonly Py_ssize_t machines, applications
    cdef readonly long long now
    cdef readonly bint log
    cdef const double[::1] speed
    cdef Entry* heap                       # busy machines by (end, rank)
    cdef Entry* idle                       # machines free by `now`, by rank; at is 0
    cdef Py_ssize_t n_heap, n_idle
    cdef const long long[::1] machine      # ids of the machines by rank
    cdef long long[::1] rank
    cdef char[::1] away                    # machines that are down; they are in neither heap
    # by machine: the end of its last task, and the application of that task, or `applications` if it was lost
    cdef long long[::1] free, last
    cdef long long[::1] busy, done, interrupted
    # finish counts only tasks that have a successor on their machine; its extra entry is for `last` of lost tasks
    cdef long long[::1] first_start, finish, started, nodes
    # (machine, application): the first machines that began a task of it, at most `most_few` of each application;
    # and by application the bits of the further ones, which then take less memory
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
        self.speed = np.array(given)  # a memoryview of nothing has no copy
        self.machines = given.shape[0]
        self.applications = applications
        self.log = log
        self.most_few = min(32, self.machines // 64)
        self.machine = np.argsort(-np.asarray(self.speed), kind="stable")
        self.rank = np.argsort(np.asarray(self.machine), kind="stable")
        self.away = np.zeros(self.machines, np.int8)
        self.free = np.zeros(self.machines, np.int64)
        self.busy = np.zeros(self.machines, np.int64)
        self.done = np.zeros(self.machines, np.int64)
        self.interrupted = np.zeros(self.machines, np.int64)
        self.last = np.full(self.machines, self.applications, np.int64)
        self.first_start = np.full(self.applications, -1, np.int64)
        self.finish = np.full(self.applications + 1, -1, np.int64)
        self.started = np.zeros(self.applications, np.int64)
        self.nodes = np.zeros(self.applications, np.int64)
        self.seen = <unsigned long long**> calloc(self.applications + 1, sizeof(void*))
        self.heap = <Entry*> malloc((self.machines + 1) * sizeof(Entry))
        self.idle = <Entry*> malloc((self.machines + 1) * sizeof(Entry))
        if self.seen == NULL or self.heap == NULL or self.idle == NULL:
            raise MemoryError
        for k in range(self.machines):
            self.idle[k].at = 0
            self.idle[k].number = k
        self.n_idle = self.machines

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.seen != NULL:
            for i in range(self.applications):
                free(self.seen[i])
        free(self.seen)
        pairs_free(&self.few)
        free(self.heap)
        free(self.idle)
        free(self.entries)

    @property
    def free_at(self) -> Integers:
        """int64[machines]: a copy of when (ns) the last task of each machine ends or was lost; 0 at first."""
        return np.array(self.free)

    def backlog(self, long long now) -> float:
        """Return the Mflop that tasks started so far have still to do after `now` ns, summed in order of machine."""
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t u
        cdef double work = 0.0
        for u in range(self.machines):
            if self.free[u] > now:
                work += <double> (self.free[u] - now) / 1e9 * self.speed[u]
        return work

    def totals(self) -> dict[str, Integers]:
        """Return copies of the totals so far; a task that has started counts as done unless it was lost.

        Per application: first_start, finish (ns, -1 for never), completed (tasks), nodes_used (distinct
        machines).  Per machine: busy (ns), tasks, interrupted (tasks that ran when it failed).
        first_start, nodes_used and busy include lost tasks, too; busy includes them up to their loss.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t u
        ends = np.array(self.finish)
        cdef long long[::1] finish = ends
        for u in range(self.machines):
            finish[self.last[u]] = max(finish[self.last[u]], self.free[u])
        return {
            "first_start": np.array(self.first_start), "finish": ends[:self.applications].copy(),
            "completed": np.array(self.started), "nodes_used": np.array(self.nodes),
            "busy": np.array(self.busy), "tasks": np.array(self.done),
            "interrupted": np.array(self.interrupted),
        }

    def starts(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Return (machine, application, start ns, end ns), int64[k], of every task, in the order of the starts.

        Lost tasks are included, with the end that they would have had.  Empty without ``log``.
        """
        cdef _Held alone = hold(&self.occupied)
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
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t i, k, words = (self.machines + 63) >> 6
        met = [i for i in range(self.applications) if self.seen[i] != NULL]
        seen_array = np.empty((len(met), words), np.uint64)
        cdef unsigned long long[:, ::1] seen = seen_array
        for k, i in enumerate(met):
            memcpy(&seen[k, 0], self.seen[i], words * sizeof(long long))
        few = [((pair - 1) >> 32, (pair - 1) >> 1 & 0x7FFFFFFF) for pair in self._few()]
        return shown({
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
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t k, i, words = (self.machines + 63) >> 6
        cdef Entry entry
        known = self._columns()
        given = read(state, {
            **like(known, INSTANT, last=(0, self.applications + 1), away=FLAG, first_start=OR_NEVER,
                   finish=OR_NEVER),
            **_STATE,
        }, machines=self.machines, applications=self.applications, words=words)
        if (given["busy"] > given["free"]).any():
            raise ValueError("state['busy'] must be at most state['free'] of the same machine")
        now = given["now"]
        if ((given["last"] == self.applications) & (given["free"] > now)).any():
            raise ValueError("state['last'] must be an application where a machine works")
        for name, column in known.items():
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
        # busy machines are in one heap, idle ones in the other, and machines that are down in neither
        self.n_heap = self.n_idle = 0
        for k in range(self.machines):
            if not self.away[k]:
                entry.at, entry.number = self.free[k] if self.free[k] > self.now else 0, self.rank[k]
                if entry.at:
                    heap_push(self.heap, self.n_heap, entry)
                    self.n_heap += 1
                else:
                    heap_push(self.idle, self.n_idle, entry)
                    self.n_idle += 1

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or application."""
        return {name: np.asarray(column) for name, column in (
            ("away", self.away), ("free", self.free), ("last", self.last), ("busy", self.busy),
            ("done", self.done), ("interrupted", self.interrupted), ("first_start", self.first_start),
            ("finish", self.finish), ("started", self.started), ("nodes", self.nodes))}

    def run(self, long long until, order: ArrayLike, left: Integers, task_size: ArrayLike, bint more=False) -> int:
        """Start tasks from the instant reached so far up to, but not at, `until` ns.

        Whenever a machine is free, it starts a task of the first application of `order` that has one
        left; if none has, it waits.  No task is started at exactly `until`, so that what arrives at that
        instant can still change the order.  Running to t1 and then, with the same order, to t2 equals
        running to t2.

        Parameters
        ----------
        order : int64[k], indices of applications.
        left : int64[applications], unstarted tasks; changed in place.
        task_size : float64[applications], Mflop > 0; only entries that `order` names are read.
        more : whether others follow `order`; if it is used up, the instant reached stays as it is until a call with them.

        Returns the number of tasks started.  Raises OverflowError if a task ends after the last instant.
        """
        cdef _Held alone = hold(&self.occupied)
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
            count = self._run(until, first, rest, size, more)
        if count == -1:
            raise MemoryError
        if count == -2:
            raise OverflowError("a task ends after the last instant")
        return count

    def fail(self, machines: ArrayLike, long long now) -> tuple[Integers, Integers]:
        """Let `machines` fail at `now` ns, the instant reached by `run`; they lose the tasks that they run.

        They take no tasks until `restore`; machines that are down already stay down.

        Returns (machines, applications) int64[k], an entry for each task lost, in the order of `machines`.  A
        task that ends at `now` has ended.  A lost task counts as never done; the caller must put it into
        `left` again.  Takes O(machines) for all together.  Raises ValueError naming the index of a bad machine.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k, n = 0
        cdef long long u
        lost = np.zeros((2, who.shape[0]), np.int64)
        cdef long long[:, ::1] out = lost
        for k in range(who.shape[0]):
            u = who[k]
            if self.away[u]:
                continue
            self.away[u] = True
            if self.free[u] <= now:
                continue
            out[0, n] = u
            out[1, n] = self.last[u]
            n += 1
            self.busy[u] -= self.free[u] - now
            self.done[u] -= 1
            self.interrupted[u] += 1
            self.started[self.last[u]] -= 1
            self.free[u] = now
            self.last[u] = self.applications
        self.n_heap = drop(self.heap, self.n_heap, self.machine, self.away)
        self.n_idle = drop(self.idle, self.n_idle, self.machine, self.away)
        return lost[0, :n].copy(), lost[1, :n].copy()

    def restore(self, machines: ArrayLike, long long now):
        """Let `machines` recover at `now` ns, the instant reached by `run`; machines that are up stay as they are.

        Raises ValueError naming the index of a bad machine.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k
        cdef Entry entry
        entry.at = 0
        for k in range(who.shape[0]):
            if self.away[who[k]]:
                self.away[who[k]] = False
                entry.number = self.rank[who[k]]
                heap_push(self.idle, self.n_idle, entry)
                self.n_idle += 1

    cdef const long long[::1] _machines(self, machines, long long now):
        if now != self.now:
            raise ValueError(f"now must be the instant reached, {self.now} ns, got {now}")
        return indices(machines, "machines", 0, self.machines)

    cdef long long _run(self, long long until, const long long[::1] order, long long[::1] left,
                        const double[::1] task_size, bint more) noexcept nogil:
        cdef Py_ssize_t k = 0
        cdef long long u, i, at, end, length, before_it, count = 0
        cdef Entry entry
        cdef bint waiting
        if until <= self.now:
            return 0
        while self.n_heap > 0 and self.heap[0].at <= self.now:
            entry = self.heap[0]
            heap_pop(self.heap, self.n_heap)
            self.n_heap -= 1
            entry.at = 0
            heap_push(self.idle, self.n_idle, entry)
            self.n_idle += 1
        while k < order.shape[0]:
            i = order[k]
            if left[i] == 0:
                k += 1
                continue
            waiting = self.n_idle > 0
            if waiting:
                entry = self.idle[0]
                at = self.now
            elif self.n_heap > 0 and self.heap[0].at < until:
                entry = self.heap[0]
                at = entry.at
            else:
                break
            u = self.machine[entry.number]
            length = duration(task_size[i], self.speed[u])
            if length > NEVER - at:
                return -2
            end = at + length
            before_it = self.last[u]
            if self.free[u] > self.finish[before_it]:
                self.finish[before_it] = self.free[u]
            if before_it != i and not self._meet(i, u):
                return -1
            if self.log and not self._note(u, i, at, end):
                return -1
            self.free[u] = end
            self.busy[u] += length
            self.done[u] += 1
            if self.first_start[i] < 0:
                self.first_start[i] = at
            self.started[i] += 1
            left[i] -= 1
            count += 1
            if not waiting:
                entry.at = end
                heap_settle(self.heap, self.n_heap, 0, entry)
            elif end > self.now:
                heap_pop(self.idle, self.n_idle)
                self.n_idle -= 1
                entry.at = end
                heap_push(self.heap, self.n_heap, entry)
                self.n_heap += 1
        if k < order.shape[0] or not more:
            self.now = until
        return count

    cdef inline bint _meet(self, long long i, long long u) noexcept nogil:
        """Record that the last task of machine `u` is of application `i`; count `u` in its nodes once."""
        cdef unsigned long long bit = <unsigned long long> 1 << (u & 63)
        self.last[u] = i
        if pairs_have(&self.few, pair_of(u, i)):
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


# --- binding to the earliest end ------------------------------------------------------------------

def bind_earliest(free_at: Integers, speed: ArrayLike, double task_size, n_tasks: SupportsIndex,
                  long long now) -> Integers:
    """Bind equal tasks one by one, each to the machine that would end it first; ties to the lowest id.

    Parameters
    ----------
    free_at : int64[machines], ns, when each machine has done the tasks bound to it; changed in place.
    speed : float64[machines], Mflop/s > 0.
    task_size : Mflop > 0.
    n_tasks : number of tasks, >= 0.
    now : ns; no task starts earlier.

    Returns int64[machines], the number of tasks bound to each machine.  A machine that gets none keeps its `free_at`.

    A machine runs its tasks in order, so each task ends one duration after the one before.  The tasks go to the
    `n_tasks` earliest of these ends of all machines.  All ends up to an instant by which there are at most
    `n_tasks` of them are taken at once, and the rest by a heap.  This takes O(machines * log(machines)), however
    many tasks there are.

    Raises ValueError if there are tasks but no machines, OverflowError if a task ends after the last instant.
    """
    cdef long long[::1] at = writable(free_at, "free_at")
    cdef const double[::1] s = doubles(speed, "speed")
    cdef Py_ssize_t n = s.shape[0], u
    cdef long long rest, bulk
    cdef Entry* heap
    cdef long long* length
    cdef bint fine
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
        raise ValueError(f"now must be >= 0, got {now}")
    result = np.zeros(n, np.int64)
    cdef long long[::1] out = result         # OUT
    rest = n_tasks
    if rest == 0:
        return result
    if n == 0:
        raise ValueError(f"speed must have an entry, there are {n_tasks} tasks to bind")
    heap = <Entry*> malloc(n * (sizeof(Entry) + sizeof(long long)))
    if heap == NULL:
        raise MemoryError
    length = <long long*> (heap + n)
    with nogil:
        for u in range(n):
            length[u] = duration(task_size, s[u])
        bulk = take_bulk(at, length, out, rest, now) if rest > n else 0
        fine = bulk >= 0 and take_first(at, length, heap, out, rest - bulk, now)
        if fine:
            for u in range(n):
                if out[u] > 0:
                    at[u] = (at[u] if at[u] > now else now) + out[u] * length[u]
    free(heap)
    if not fine:
        raise OverflowError("a task ends after the last instant")
    return result


cdef long long take_bulk(const long long[::1] at, const long long* length, long long[::1] out,
                         long long tasks, long long now) noexcept nogil:
    """Take all ends up to an instant by which there are at most `tasks` of them; return how many are taken.

    The instant is that at which the machines would have done `tasks` if they could do parts of tasks.  It is
    found by Newton steps on a convex function, from above.  If the result is too inexact, nothing is taken.
    Returns -1 if the last end is certainly after the last instant.
    """
    cdef Py_ssize_t n = at.shape[0], u, step
    cdef double rate = 0.0, done = 0.0, start, latest = <double> now, instant, gap, aim = <double> tasks
    cdef long long limit = _LAST, base, count = 0
    if tasks > 1048576:
        # too many tasks for the precision of float64: aim a little lower, and take the rest one by one
        aim -= aim * 4e-12
    for u in range(n):
        base = at[u] if at[u] > now else now
        if length[u] == 0:
            # a machine that needs 0 ns for a task takes all that is left as soon as it is free
            limit = min(limit, base - 1)
            continue
        start = <double> (at[u] if at[u] > now else now)
        if start > latest:
            latest = start
        rate += 1.0 / <double> length[u]
    if rate == 0.0:
        return 0
    instant = latest + aim / rate
    for step in range(64):
        rate = 0.0
        done = 0.0
        for u in range(n):
            gap = instant - <double> (at[u] if at[u] > now else now)
            if gap > 0.0 and length[u] > 0:
                rate += 1.0 / <double> length[u]
                done += gap / <double> length[u]
        if not done > aim * (1.0 + 1e-12):
            break
        instant -= (done - aim) / rate
    if not instant > 0.0:
        return 0
    if instant < <double> _LAST:
        limit = min(limit, <long long> instant)
    elif instant > 9.3e18 and limit == _LAST:
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


cdef bint take_first(const long long[::1] at, const long long* length, Entry* heap, long long[::1] out,
                     long long tasks, long long now) noexcept nogil:
    """Take the next `tasks` ends one by one; False if one is after the last instant."""
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
    """The machines that would end a task first, found without a look at each of them.

    Machines of one speed are of one kind.  A heap of each kind has the machines that have work, by when they are
    free, and another one those that are idle, by id.  A task then takes O(kinds + log(machines)), while
    `bind_earliest` looks at every machine, however few tasks there are.

    Parameters
    ----------
    speed : float64[machines], Mflop/s > 0.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    cdef bint occupied                      # see `gridcore.common.arguments.hold`
    cdef readonly Py_ssize_t machines, kinds
    cdef readonly long long now
    cdef const double[::1] speed            # by kind
    cdef const long long[::1] kind          # by machine
    cdef const long long[::1] first         # kind k has the places first[k] .. first[k + 1] - 1 of both heaps
    cdef long long[::1] n_busy, n_idle      # by kind
    cdef Entry* busy                        # by (when it is free, machine)
    cdef Entry* idle                        # machines free by `now`, by machine; at is 0

    def __cinit__(self, speed: ArrayLike):
        cdef const double[::1] given = doubles(speed, "speed")
        check_array(given, "speed", POSITIVE)
        self.machines = given.shape[0]
        kinds, kind, count = np.unique(np.asarray(given), return_inverse=True, return_counts=True)
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
        """Take over when each machine is free, and which are up; only these get tasks.

        Parameters
        ----------
        free_at : int64[machines], ns, when each machine has done the tasks bound to it; >= 0.
        up : bool[machines].
        now : ns; no task starts earlier.

        Raises ValueError naming the argument, its index and value.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] at = writable(free_at, "free_at")
        cdef const unsigned char[::1] on = np.ascontiguousarray(up, np.bool_).view(np.uint8)
        cdef Py_ssize_t u, k
        cdef Entry entry
        check_lengths(self.machines, at.shape[0], "machines", "free_at")
        check_lengths(self.machines, on.shape[0], "machines", "up")
        if now < 0:
            raise ValueError(f"now must be >= 0, got {now}")
        for u in range(self.machines):
            if at[u] < 0:
                raise ValueError(f"free_at[{u}] must be >= 0, got {at[u]}")
        self.now = now
        with nogil:
            for k in range(self.kinds):
                self.n_busy[k] = self.n_idle[k] = 0
            for u in range(self.machines):
                if on[u]:
                    k = self.kind[u]
                    entry.number = u
                    if at[u] > now:
                        entry.at = at[u]
                        self.busy[self.first[k] + self.n_busy[k]] = entry
                        self.n_busy[k] += 1
                    else:
                        entry.at = 0
                        self.idle[self.first[k] + self.n_idle[k]] = entry
                        self.n_idle[k] += 1  # ascending, and so a heap
            for k in range(self.kinds):
                heap_make(self.busy + self.first[k], self.n_busy[k])

    def bind(self, free_at: Integers, double task_size, n_tasks: SupportsIndex, long long now) -> Integers:
        """Bind equal tasks one by one, each to the machine that would end it first; ties to the lowest id.

        Parameters
        ----------
        free_at : int64[machines], ns, as it was left by the last call; changed in place.
        task_size : Mflop > 0.
        n_tasks : number of tasks, >= 0 and < 2**31.
        now : ns; not earlier than before.

        Returns int64[n_tasks], the machine of each task.

        Raises ValueError naming the argument and its value, or if there are tasks and no machine is up;
        OverflowError if a task ends after the last instant.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef long long[::1] at = writable(free_at, "free_at")
        cdef Py_ssize_t k, j, best, count
        cdef long long end, least, length
        cdef Entry entry, chosen
        cdef bint fine = True, found = True
        check_lengths(self.machines, at.shape[0], "machines", "free_at")
        check_scalar(task_size, "task_size", POSITIVE)
        if not isinstance(n_tasks, int | np.integer):
            raise TypeError(f"n_tasks must be an integer, got {n_tasks!r}")
        if not 0 <= n_tasks < 2**31:
            raise ValueError(f"n_tasks must be in 0..{2**31 - 1}, got {n_tasks}")
        if now < self.now:
            raise ValueError(f"now must be at least {self.now}, got {now}")
        count = n_tasks
        result = np.empty(count, np.int64)
        cdef long long[::1] out = result         # OUT
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
                    if best < 0 or end < least or (end == least and entry.number < chosen.number):
                        best = k
                        least = end
                        chosen = entry
                if best < 0 or least == NEVER:
                    found = best >= 0
                    fine = False
                    break
                out[j] = chosen.number
                at[chosen.number] = least
                chosen.at = least
                if self.n_idle[best] == 0:
                    heap_settle(self.busy + self.first[best], self.n_busy[best], 0, chosen)
                elif least > now:
                    heap_pop(self.idle + self.first[best], self.n_idle[best])
                    self.n_idle[best] -= 1
                    heap_push(self.busy + self.first[best], self.n_busy[best], chosen)
                    self.n_busy[best] += 1
        if not found:
            raise ValueError(f"up must have a machine, there are {count} tasks to bind")
        if not fine:
            raise OverflowError("a task ends after the last instant")
        return result
