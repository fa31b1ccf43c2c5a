"""The records of a central scheduler: the estimated waiting time of a task at each worker.

They are objects in the memory of a node.  The reference implementation is `tests.schedulers.probes.plain_waiting_times`.
"""

from cpython.ref cimport PyObject
from libc.math cimport INFINITY, NAN, isfinite

cimport cython

from gridcore.common.arguments cimport integers
from gridcore.common.bits cimport count_bits, lowest_bit
from gridcore.nodes.node_memory cimport NodeKernel

import numpy as np

from gridcore.common.state import ArrayEntry, read

__all__ = ["StaleTimes", "WaitingRecords", "WaitingTimes", "count_idle", "functions", "idle_worker"]

_CONTENTS = {
    "numbers": ArrayEntry(np.float64, (4, "workers")),
    "tasks": ArrayEntry(np.int64, ("workers",), (0, 2**31)),
}
_FALLING = {**_CONTENTS, "falling": ArrayEntry(np.bool_, ("workers",))}
_STALE = {**_CONTENTS, "stale_total": ArrayEntry(np.float64, ("workers",))}

# Trees of `WaitingTimes`: workers whose waiting times are constant, or fall with time.
cdef enum:
    CONSTANT, FALLING


@cython.auto_pickle(False)
cdef class WaitingRecords(NodeKernel):
    """The tasks that were sent to each worker and have not ended; base class.

    Parameters
    ----------
    fetch_time
        Time (s) to fetch a task; it is added to the waiting time of workers that have tasks.
    workers
        The number of workers.
    contents
        The state to begin with: the property `contents` of other records with the same arguments.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    _fields = ("fetch_time", "workers", "contents")  # fields that a checkpoint stores

    @property
    def methods(self) -> dict[str, tuple[int, tuple[type, ...]]]:
        """The methods that compiled handlers may call, as `NodeKernel.methods` describes them."""
        return {
            "open": (<size_t> &open_records, (int,)),
            "forget": (<size_t> &forget_worker, (int, float)),
            "begin": (<size_t> &begin_task, (int, float, float)),
            "end": (<size_t> &end_task, (int, float)),
            "busy": (<size_t> &write_busy, (np.int64,)),
        }

    def __cinit__(self, double fetch_time, Py_ssize_t workers = 0, contents: dict[str, Any] | None = None):
        cdef Py_ssize_t u
        if not (isfinite(fetch_time) and fetch_time >= 0):
            raise ValueError(f"fetch_time must be finite and at least 0, got {fetch_time}")
        self.fetch_time = fetch_time
        WaitingRecords._open(self, workers)
        if contents is not None:
            entries = read(contents, _CONTENTS, workers=workers)
            self.speed, self.total, self.began, self.running = entries["numbers"]
            self.tasks = entries["tasks"]
            for u in range(workers):
                if self.tasks[u]:
                    self.fetching[u] = fetch_time
                    self.bits[u >> 6] |= <unsigned long long> 1 << (u & 63)

    @property
    def contents(self) -> dict[str, Any]:
        """The present state, which can be passed as the parameter `contents`."""
        return {"numbers": np.array([self.speed, self.total, self.began, self.running]),
                "tasks": np.array(self.tasks)}

    def open(self, Py_ssize_t workers):
        """Begin anew with this number of workers, which have no tasks."""
        open_records(<PyObject*> self, workers)

    def busy(self, out: Integers):
        """Write to the bits of `out`, int64[ceil(workers / 64)], whether each worker has tasks; other bits are 0."""
        cdef long long[::1] words = out
        self._write_busy(&words[0] if words.shape[0] else NULL, words.shape[0])

    def forget(self, Py_ssize_t u, double speed):
        """Reset worker `u`, which has no tasks, and set its speed (Mflop/s)."""
        self._check(u, speed, 0.0)
        self._forget(u, speed)

    def begin(self, Py_ssize_t u, double size, double now):
        """Record that worker `u` begins a task of `size` Mflop at `now` s."""
        self._check(u, size, now)
        self._begin(u, size, now)

    def end(self, Py_ssize_t u, double now):
        """Record that worker `u` ends its running task at `now` s."""
        self._check(u, 1.0, now)
        self._end(u, now)

    cdef int _open(self, Py_ssize_t workers) except -1:
        if not 0 <= workers < 2**31:
            raise ValueError(f"workers must be in 0..{2**31 - 1}, got {workers}")
        self.workers = workers
        self.speed, self.total = np.ones(workers), np.zeros(workers)
        self.began, self.running = np.full(workers, np.nan), np.zeros(workers)
        self.tasks, self.bits = np.zeros(workers, np.int64), np.zeros((workers + 63) // 64, np.uint64)
        self.fetching = np.zeros(workers)
        return 0

    cdef int _write_busy(self, long long* out, Py_ssize_t words) except -1:
        cdef Py_ssize_t k
        if words != self.bits.shape[0]:
            raise ValueError(f"out must have {self.bits.shape[0]} words, got {words}")
        for k in range(words):
            out[k] = <long long> self.bits[k]
        return 0

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

    cdef int _check(self, Py_ssize_t u, double positive, double now) except -1:
        if not 0 <= u < self.workers:
            raise ValueError(f"u must be in 0..{self.workers - 1}, got {u}")
        if not (isfinite(positive) and positive > 0 and isfinite(now)):
            raise ValueError(f"sizes and speeds must be finite and > 0, and instants finite, got {positive} and {now}")
        return 0

    cdef int _check_place(self, Py_ssize_t begin, double size, double now) except -1:
        if not 0 <= begin < self.workers:
            raise ValueError(f"begin must be in 0..{self.workers - 1}, got {begin}")
        return self._check(0, size, now)


@cython.final
@cython.auto_pickle(False)
cdef class WaitingTimes(WaitingRecords):
    """Records whose waiting times are always up to date.

    The waiting time of a worker with tasks is the sum of the estimates of its tasks, minus the time for which the
    running task has run (at most its estimate), plus `fetch_time`.  It falls with the clock while a task runs within
    its estimate, and is constant otherwise.  Each of these two kinds of workers has a tree of minima.

    The parameters are those of `WaitingRecords`.
    """

    @property
    def methods(self) -> dict[str, tuple[int, tuple[type, ...]]]:
        """The methods that compiled handlers may call, as `NodeKernel.methods` describes them."""
        return {**WaitingRecords.methods.__get__(self), "place": (<size_t> &place_tasks, (int, float, float, np.int64))}

    def __cinit__(self, double fetch_time, Py_ssize_t workers = 0, contents: dict[str, Any] | None = None):
        self._plant(read(contents, _FALLING, workers=workers)["falling"] if contents is not None
                    else np.zeros(workers, bool))

    cdef int _open(self, Py_ssize_t workers) except -1:
        WaitingRecords._open(self, workers)
        return self._plant(np.zeros(workers, bool))

    cdef int _plant(self, falling) except -1:
        """Build the trees; the mask, bool[workers], selects the tree of falling waiting times."""
        cdef Py_ssize_t u
        self.leaves = 1
        while self.leaves < self.workers:
            self.leaves *= 2
        self.key = np.full((2, self.leaves), np.inf)
        self.winner = np.zeros((2, 2 * self.leaves), np.int32)
        for u in range(self.leaves):
            self.winner[CONSTANT, self.leaves + u] = self.winner[FALLING, self.leaves + u] = <int> u
        for u in range(self.workers):
            if falling[u]:
                self.key[FALLING, u] = self._falling(u)
            else:
                self.key[CONSTANT, u] = self._constant(u)
        for u in range(self.leaves - 1, 0, -1):
            self._play(CONSTANT, u)
            self._play(FALLING, u)
        return 0

    @property
    def contents(self) -> dict[str, Any]:
        """The present state, which can be passed as the parameter `contents`."""
        return {**WaitingRecords.contents.__get__(self), "falling": np.asarray(self.key[FALLING, :self.workers]) < np.inf}

    def place(self, Py_ssize_t begin, double size, double now, out: Integers):
        """Choose workers from number `begin` on for tasks of `size` Mflop each, and record the tasks.

        If there are enough idle workers, the tasks go to these in order of number.  Otherwise each task in turn goes
        to the worker with the least waiting time; ties go to the lowest number.

        Parameters
        ----------
        now
            The instant, s.
        out
            int64[tasks], to which the workers are written.
        """
        cdef long long[::1] workers = out
        self._place(begin, size, now, &workers[0] if workers.shape[0] else NULL, workers.shape[0])

    cdef int _place(self, Py_ssize_t begin, double size, double now, long long* out, long long tasks) except -1:
        cdef Py_ssize_t word = begin >> 6, k, u
        cdef unsigned long long idle
        cdef long long count = 0, n = 0
        self._check_place(begin, size, now)
        for k in range(word, self.bits.shape[0]):
            count += count_bits(self._idle(k, begin))
        if count >= tasks:
            while n < tasks:
                idle = self._idle(word, begin)
                while idle and n < tasks:
                    u = 64 * word + lowest_bit(idle)
                    idle &= idle - 1
                    out[n] = u
                    n += 1
                    self._send(u, size, now)
                    self._busy(u, now)
                word += 1
            return 0
        for k in range(tasks):
            out[k] = self._least(begin, now)
            self._send(out[k], size, now)
        for k in range(tasks):  # after all choices, in which idle workers have no fetch time
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

    @property
    def methods(self) -> dict[str, tuple[int, tuple[type, ...]]]:
        """The methods that compiled handlers may call, as `NodeKernel.methods` describes them."""
        return {
            **WaitingRecords.methods.__get__(self),
            "refresh": (<size_t> &refresh_records, ()),
            "place": (<size_t> &place_stale, (int, float, float, np.int64, np.int64)),
        }

    def __cinit__(self, double fetch_time, Py_ssize_t workers = 0, contents: dict[str, Any] | None = None):
        self._open_stale(workers)
        if contents is not None:
            self.stale_total = read(contents, _STALE, workers=workers)["stale_total"]

    cdef int _open(self, Py_ssize_t workers) except -1:
        WaitingRecords._open(self, workers)
        return self._open_stale(workers)

    cdef int _open_stale(self, Py_ssize_t workers) except -1:
        self.stale_total = np.zeros(workers)
        self.heap = np.empty(workers, np.dtype([("time", np.float64), ("worker", np.int32)], align=True))
        return 0

    @property
    def contents(self) -> dict[str, Any]:
        """The present state, which can be passed as the parameter `contents`."""
        return {**WaitingRecords.contents.__get__(self), "stale_total": np.array(self.stale_total)}

    def refresh(self):
        """Copy the present sums of estimates."""
        self._refresh()

    cdef int _refresh(self) except -1:
        self.stale_total[:] = self.total
        return 0

    def place(self, Py_ssize_t begin, double size, double now, delays: ArrayLike, out: Integers):
        """Choose a worker for each task of `size` Mflop, as `WaitingTimes.place` does.

        Parameters
        ----------
        delays
            int64[workers], s, added to the waiting time of each worker.
        """
        cdef const long long[::1] terms = integers(delays, "delays")
        cdef long long[::1] workers = out
        self._place(begin, size, now, &terms[0] if terms.shape[0] else NULL, terms.shape[0],
                    &workers[0] if workers.shape[0] else NULL, workers.shape[0])

    cdef int _place(self, Py_ssize_t begin, double size, double now, const long long* delays, Py_ssize_t n_delays,
                    long long* out, long long tasks) except -1:
        cdef Py_ssize_t n = self.workers - begin, k, u
        cdef long long idle = 0
        cdef double ran
        self._check_place(begin, size, now)
        if n_delays != self.workers:
            raise ValueError(f"delays must have {self.workers} entries, got {n_delays}")
        for u in range(begin, self.workers):
            if self.stale_total[u] <= 0:
                if idle < tasks:
                    out[idle] = u
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
            out[k] = u
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


# -- bits of busy workers ---------------------------------------------------------------------------------------

def count_idle(bits: Integers, Py_ssize_t workers) -> int:
    """Return the number of idle workers, whose bits are not set in `bits`, written by `WaitingRecords.busy`.

    Without words all workers count as idle.
    """
    cdef const long long[::1] words = np.require(bits, requirements="A")
    return idle_workers(&words[0] if words.shape[0] else NULL, words.shape[0], workers)


def idle_worker(bits: Integers, Py_ssize_t k) -> int:
    """Return the number of idle worker `k`, counted from 0; `bits` are as for `count_idle`."""
    cdef const long long[::1] words = np.require(bits, requirements="A")
    return idle_worker_at(&words[0] if words.shape[0] else NULL, words.shape[0], k)


cdef long long idle_workers(const long long* words, long long n, long long workers) except -1:
    cdef Py_ssize_t k
    cdef long long idle = workers
    if n and not 64 * (n - 1) < workers <= 64 * n:
        raise ValueError(f"workers must be in {64 * (n - 1) + 1}..{64 * n}, got {workers}")
    for k in range(n):
        idle -= count_bits(<unsigned long long> words[k])
    return max(0, idle)                 # a state from a file may have bits set beyond the last worker


cdef long long idle_worker_at(const long long* words, long long n, long long number) except -1:
    cdef Py_ssize_t k
    cdef unsigned long long idle
    if number < 0:
        raise ValueError(f"k must be at least 0, got {number}")
    for k in range(n):
        idle = ~<unsigned long long> words[k]
        if number < count_bits(idle):
            while number:
                idle &= idle - 1
                number -= 1
            return 64 * k + lowest_bit(idle)
        number -= count_bits(idle)
    return 64 * n + number


# -- calls of compiled handlers -------------------------------------------------------------------------------------

cdef int open_records(PyObject* records, long long workers) except -1:
    cdef WaitingRecords opened = <WaitingRecords> records
    try:
        return opened._open(workers)
    except MemoryError:
        opened.workers = 0              # some of the arrays are still those of other workers
        raise


cdef int forget_worker(PyObject* records, long long u, double speed) except -1:
    (<WaitingRecords> records)._check(u, speed, 0.0)
    return (<WaitingRecords> records)._forget(u, speed)


cdef int begin_task(PyObject* records, long long u, double size, double now) except -1:
    (<WaitingRecords> records)._check(u, size, now)
    return (<WaitingRecords> records)._begin(u, size, now)


cdef int end_task(PyObject* records, long long u, double now) except -1:
    (<WaitingRecords> records)._check(u, 1.0, now)
    return (<WaitingRecords> records)._end(u, now)


cdef int write_busy(PyObject* records, long long* out, long long words) except -1:
    return (<WaitingRecords> records)._write_busy(out, words)


cdef int place_tasks(PyObject* records, long long begin, double size, double now, long long* out,
                     long long tasks) except -1:
    return (<WaitingTimes> records)._place(begin, size, now, out, tasks)


cdef int refresh_records(PyObject* records) except -1:
    return (<StaleTimes> records)._refresh()


cdef int place_stale(PyObject* records, long long begin, double size, double now, const long long* delays,
                     long long n_delays, long long* out, long long tasks) except -1:
    return (<StaleTimes> records)._place(begin, size, now, delays, n_delays, out, tasks)


def functions() -> dict[Callable[..., int], tuple[int, tuple[type, ...]]]:
    """Return the functions that compiled handlers may call: function -> address of a C function, and types of arguments.

    The types are as in `NodeKernel.methods`.  The C function returns the result, or -1 if it has raised an error.
    """
    return {
        count_idle: (<size_t> &idle_workers, (np.int64, int)),
        idle_worker: (<size_t> &idle_worker_at, (np.int64, int)),
    }
