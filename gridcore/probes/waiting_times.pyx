"""The records of a central scheduler: the estimated waiting time of a task at each worker.

The reference implementation is `tests.schedulers.probes.plain_waiting_times`.
"""

from libc.math cimport INFINITY, NAN, isfinite

cimport cython

from gridcore.common.arguments cimport indices, integers

import numpy as np

from gridcore.common.state import ArrayEntry, read

__all__ = ["StaleTimes", "WaitingRecords", "WaitingTimes"]

_KEPT = {
    "numbers": ArrayEntry(np.float64, (4, "workers")),
    "tasks": ArrayEntry(np.int64, ("workers",), (0, 2**31)),
}
_FALLING = {**_KEPT, "falling": ArrayEntry(np.bool_, ("workers",))}
_SEEN = {**_KEPT, "seen": ArrayEntry(np.float64, ("workers",))}

# Trees of `WaitingTimes`: workers whose waiting times are constant, or fall with time.
cdef enum:
    CONSTANT, FALLING


cdef class WaitingRecords:
    """The tasks that were sent to each worker and have not ended; base class.

    Parameters
    ----------
    workers
        The number of workers.
    firsts
        The first worker of each pool; the parameter `pool` of `place` is an index into it.
    fetch_time
        Time (s) to fetch a task; it is added to the waiting time of workers that have tasks.
    kept
        The state to begin with: the property `kept` of other records with the same arguments.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    _fields = ("workers", "firsts", "fetch_time", "kept")  # fields that a checkpoint stores

    def __cinit__(self, Py_ssize_t workers, firsts: Sequence[int], double fetch_time,
                  kept: dict[str, Any] | None = None):
        cdef Py_ssize_t u
        if not 1 <= workers < 2**31:
            raise ValueError(f"workers must be in 1..{2**31 - 1}, got {workers}")
        self.workers = workers
        if not (isfinite(fetch_time) and fetch_time >= 0):
            raise ValueError(f"fetch_time must be finite and at least 0, got {fetch_time}")
        self.fetch_time = fetch_time
        self.firsts = tuple(indices(np.asarray(firsts, np.int64), "firsts", 0, workers).tolist())
        self.speed, self.total = np.ones(workers), np.zeros(workers)
        self.began, self.running = np.full(workers, np.nan), np.zeros(workers)
        self.tasks, self.bits = np.zeros(workers, np.int64), np.zeros((workers + 63) // 64, np.uint64)
        self.fetching = np.zeros(workers)
        if kept is not None:
            entries = read(kept, _KEPT, workers=workers)
            self.speed, self.total, self.began, self.running = entries["numbers"]
            self.tasks = entries["tasks"]
            if not (entries["numbers"][0] > 0).all():
                raise ValueError("kept['numbers'] must have speeds above 0")
            for u in range(workers):
                if self.tasks[u]:
                    self.fetching[u] = fetch_time
                    self.bits[u >> 6] |= <unsigned long long> 1 << (u & 63)

    @property
    def kept(self) -> dict[str, Any]:
        """The present state, which can be passed as the parameter `kept`."""
        return {"numbers": np.array([self.speed, self.total, self.began, self.running]),
                "tasks": np.array(self.tasks)}

    def busy(self) -> Bools:
        """Return bool[workers], whether each worker has tasks."""
        return np.asarray(self.tasks) > 0

    def forget(self, Py_ssize_t u, double speed):
        """Reset worker `u`, which has no tasks, and set its speed (Mflop/s)."""
        self._check(u, speed, 0.0)
        self._forget(u, speed)

    def begin(self, Py_ssize_t u, double size, double now) -> list[int]:
        """Record that worker `u` begins a task of `size` Mflop at `now` s."""
        self._check(u, size, now)
        self._begin(u, size, now)

    def end(self, Py_ssize_t u, double now):
        """Record that worker `u` ends its running task at `now` s."""
        self._check(u, 1.0, now)
        self._end(u, now)

    cdef int _forget(self, Py_ssize_t u, double speed) except -1:
        self.speed[u], self.total[u], self.began[u], self.running[u], self.tasks[u] = speed, 0.0, NAN, 0.0, 0
        self.fetching[u] = 0.0
        self.bits[u >> 6] &= ~(<unsigned long long> 1 << (u & 63))
        return self._refresh_worker(u, NAN)

    cdef int _begin(self, Py_ssize_t u, double size, double now) except -1:
        self.began[u], self.running[u] = now, size / self.speed[u]
        return self._refresh_worker(u, now)

    cdef int _end(self, Py_ssize_t u, double now) except -1:
        if self.tasks[u]:  # else the worker has been reset since
            self.tasks[u] -= 1
        if self.tasks[u]:
            self.total[u] -= self.running[u]
        else:
            self.total[u] = self.fetching[u] = 0.0
            self.bits[u >> 6] &= ~(<unsigned long long> 1 << (u & 63))
        self.began[u], self.running[u] = NAN, 0.0
        return self._refresh_worker(u, now)

    cdef int _send(self, Py_ssize_t u, double size, double now) except -1:
        self.tasks[u] += 1
        self.total[u] += size / self.speed[u]
        self.bits[u >> 6] |= <unsigned long long> 1 << (u & 63)
        return self._refresh_worker(u, now)

    cdef int _refresh_worker(self, Py_ssize_t u, double now) except -1:
        """Update the index of workers after a change of worker `u`."""
        return 0

    def _check(self, Py_ssize_t u, double positive, double now):
        if not 0 <= u < self.workers:
            raise ValueError(f"u must be in 0..{self.workers - 1}, got {u}")
        if not (isfinite(positive) and positive > 0 and isfinite(now)):
            raise ValueError(f"sizes and speeds must be finite and > 0, and instants finite, got {positive} and {now}")

    cdef int _check_place(self, Py_ssize_t pool, long long tasks, double size, double now) except -1:
        if not 0 <= pool < len(self.firsts):
            raise ValueError(f"pool must be in 0..{len(self.firsts) - 1}, got {pool}")
        if not 0 <= tasks < 2**31:
            raise ValueError(f"tasks must be in 0..{2**31 - 1}, got {tasks}")
        self._check(0, size, now)
        return 0


@cython.final
@cython.auto_pickle(False)
cdef class WaitingTimes(WaitingRecords):
    """Records whose waiting times are always up to date.

    The waiting time of a worker with tasks is the sum of the estimates of its tasks, minus the time for which the
    running task has run (at most its estimate), plus `fetch_time`.  It falls with the clock while a task runs within
    its estimate, and is constant otherwise.  Each of these two kinds of workers has a tree of minima.

    The parameters are those of `WaitingRecords`.
    """

    def __cinit__(self, Py_ssize_t workers, firsts: Sequence[int], double fetch_time,
                  kept: dict[str, Any] | None = None):
        cdef Py_ssize_t u
        self.leaves = 1
        while self.leaves < workers:
            self.leaves *= 2
        self.key = np.full((2, self.leaves), np.inf)
        self.winner = np.zeros((2, 2 * self.leaves), np.int32)
        falling = np.zeros(workers, bool)
        if kept is not None:
            falling = read(kept, _FALLING, workers=workers)["falling"]
        for u in range(self.leaves):
            self.winner[CONSTANT, self.leaves + u] = self.winner[FALLING, self.leaves + u] = u
        for u in range(workers):
            if falling[u]:
                self.key[FALLING, u] = self._falling(u)
            else:
                self.key[CONSTANT, u] = self._constant(u)
        for u in range(self.leaves - 1, 0, -1):
            self._play(CONSTANT, u)
            self._play(FALLING, u)

    @property
    def kept(self) -> dict[str, Any]:
        """The present state, which can be passed as the parameter `kept`."""
        return {**WaitingRecords.kept.__get__(self), "falling": np.asarray(self.key[FALLING, :self.workers]) < np.inf}

    def place(self, Py_ssize_t pool, long long tasks, double size, double now) -> list[int]:
        """Choose workers from number ``firsts[pool]`` on for tasks of `size` Mflop each, and record the tasks.

        If there are enough idle workers, the tasks go to these in order of number.  Otherwise each task in turn goes
        to the worker with the least waiting time; ties go to the lowest number.
        """
        self._check_place(pool, tasks, size, now)
        workers = np.empty(tasks, np.int32)
        cdef int[::1] out = workers
        if tasks:
            self._place(pool, tasks, size, now, &out[0])
        return workers.tolist()

    cdef int _place(self, Py_ssize_t pool, long long tasks, double size, double now, int* out) except -1:
        cdef Py_ssize_t begin = self.firsts[pool], word = begin >> 6, k, u
        cdef unsigned long long idle
        cdef long long count = 0, n = 0
        for k in range(word, self.bits.shape[0]):
            count += count_ones(self._idle(k, begin))
        if count >= tasks:
            while n < tasks:
                idle = self._idle(word, begin)
                while idle and n < tasks:
                    u = 64 * word + lowest_one(idle)
                    idle &= idle - 1
                    out[n] = <int> u
                    n += 1
                    self._send(u, size, now)
                    self._busy(u, now)
                word += 1
            return 0
        for k in range(tasks):
            out[k] = self._least(begin, now)
            self._send(out[k], size, now)
        for k in range(tasks):  # after all choices: in these, idle workers have no fetch time
            self._busy(out[k], now)
        return 0

    cdef int _busy(self, Py_ssize_t u, double now) except -1:
        """Add the fetch time to the waiting time of worker `u`."""
        self.fetching[u] = self.fetch_time
        return self._refresh_worker(u, now)

    cdef inline double _falling(self, Py_ssize_t u) noexcept:
        """Return the instant (s) at which all tasks of a running worker will have ended by their estimates."""
        return self.began[u] + self.total[u] + self.fetching[u]

    cdef inline double _constant(self, Py_ssize_t u) noexcept:
        """Return the waiting time (s) of a worker with no running task, or with one that exceeds its estimate."""
        return self.total[u] - self.running[u] + self.fetching[u]

    cdef unsigned long long _idle(self, Py_ssize_t word, Py_ssize_t begin) noexcept:
        """Return word `word` of the bits of workers without tasks, from worker `begin` on."""
        cdef unsigned long long idle = ~self.bits[word]
        if word == begin >> 6:
            idle &= ~<unsigned long long> 0 << (begin & 63)
        if word == self.workers >> 6:
            idle &= (<unsigned long long> 1 << (self.workers & 63)) - 1
        return idle

    cdef int _refresh_worker(self, Py_ssize_t u, double now) except -1:
        if self.began[u] + self.running[u] > now:  # false if NaN: no task runs
            self._put(CONSTANT, u, INFINITY)
            return self._put(FALLING, u, self._falling(u))
        self._put(FALLING, u, INFINITY)
        return self._put(CONSTANT, u, self._constant(u))

    cdef int _put(self, Py_ssize_t tree, Py_ssize_t u, double key) noexcept:
        """Set the key of worker `u` in a tree."""
        if self.key[tree, u] == key:
            return 0
        self.key[tree, u] = key
        u = (self.leaves + u) >> 1
        while u > 0:
            self._play(tree, u)
            u >>= 1
        return 0

    cdef void _play(self, Py_ssize_t tree, Py_ssize_t branch) noexcept:
        cdef int left = self.winner[tree, 2 * branch], right = self.winner[tree, 2 * branch + 1]
        self.winner[tree, branch] = left if self.key[tree, left] <= self.key[tree, right] else right

    cdef int _first(self, Py_ssize_t tree, Py_ssize_t begin) noexcept:
        """Return the worker with the least key from number `begin` on, ties to the lowest number."""
        cdef Py_ssize_t branch = self.leaves + begin
        cdef int best = self.winner[tree, branch], candidate
        while branch > 1:
            if branch & 1 == 0:
                candidate = self.winner[tree, branch + 1]
                if self.key[tree, candidate] < self.key[tree, best]:
                    best = candidate
            branch >>= 1
        return best

    cdef int _least(self, Py_ssize_t begin, double now) except -1:
        """Return the worker with the least waiting time from number `begin` on."""
        cdef int u, v
        cdef double falling, constant
        while True:
            u = self._first(FALLING, begin)
            if self.key[FALLING, u] == INFINITY or self.began[u] + self.running[u] > now:
                break
            self._refresh_worker(u, now)  # its task has run for longer than estimated
        v = self._first(CONSTANT, begin)
        falling, constant = self.key[FALLING, u] - now, self.key[CONSTANT, v]
        return v if constant < falling or constant == falling and v < u else u


@cython.final
@cython.auto_pickle(False)
cdef class StaleTimes(WaitingRecords):
    """Records with the sums of estimates at the last `refresh`; the progress of running tasks is up to date.

    The parameters are those of `WaitingRecords`.
    """

    def __cinit__(self, Py_ssize_t workers, firsts: Sequence[int], double fetch_time,
                  kept: dict[str, Any] | None = None):
        self.stale_total = np.zeros(workers) if kept is None else read(kept, _SEEN, workers=workers)["seen"]
        self.heap = np.empty(workers, np.dtype([("time", np.float64), ("worker", np.int32)], align=True))

    @property
    def kept(self) -> dict[str, Any]:
        """The present state, which can be passed as the parameter `kept`."""
        return {**WaitingRecords.kept.__get__(self), "seen": np.array(self.stale_total)}

    def refresh(self):
        """Copy the present sums of estimates."""
        self._refresh()

    cdef int _refresh(self) except -1:
        self.stale_total[:] = self.total
        return 0

    def place(self, Py_ssize_t pool, long long tasks, double size, double now, delays: ArrayLike) -> list[int]:
        """Choose a worker for each of the tasks of `size` Mflop, as `WaitingTimes.place` does.

        Parameters
        ----------
        delays
            int64[workers], s, added to the waiting time of each worker.
        """
        self._check_place(pool, tasks, size, now)
        cdef const long long[::1] terms = integers(delays, "delays")
        if terms.shape[0] != self.workers:
            raise ValueError(f"delays must have {self.workers} entries, got {terms.shape[0]}")
        workers = np.empty(tasks, np.int32)
        cdef int[::1] out = workers
        if tasks:
            self._place(pool, tasks, size, now, &terms[0], &out[0])
        return workers.tolist()

    cdef int _place(self, Py_ssize_t pool, long long tasks, double size, double now, const long long* delays,
                    int* out) except -1:
        cdef Py_ssize_t begin = self.firsts[pool], n = self.workers - begin, k, u
        cdef long long idle = 0
        cdef double ran
        for u in range(begin, self.workers):
            if self.stale_total[u] <= 0:
                if idle < tasks:
                    out[idle] = <int> u
                idle += 1
        if idle >= tasks:
            for k in range(tasks):
                self._send(out[k], size, now)
            return 0
        for k in range(n):
            u = begin + k
            ran = 0.0
            if self.began[u] == self.began[u]:
                ran = min(now - self.began[u], self.running[u])
            self.heap[k].time, self.heap[k].worker = max(self.stale_total[u] - ran, 0.0) + delays[u], <int> u
            if self.stale_total[u] > 0:
                self.heap[k].time += self.fetch_time
        for k in range(n // 2 - 1, -1, -1):
            sift(&self.heap[0], n, k)
        for k in range(tasks):
            u = self.heap[0].worker
            out[k] = <int> u
            self.heap[0].time += size / self.speed[u]
            sift(&self.heap[0], n, 0)
            self._send(u, size, now)
        return 0


cdef void sift(WaitEntry* heap, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Move entry `k` of a heap of `n` entries down to its place."""
    cdef Py_ssize_t child
    cdef WaitEntry moved = heap[k]
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and precedes(&heap[child + 1], &heap[child]):
            child += 1
        if not precedes(&heap[child], &moved):
            break
        heap[k] = heap[child]
        k = child
    heap[k] = moved


cdef inline bint precedes(const WaitEntry* a, const WaitEntry* b) noexcept nogil:
    return a.time < b.time or a.time == b.time and a.worker < b.worker
