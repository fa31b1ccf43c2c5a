"""C-level declarations of the records of a central scheduler."""

from gridcore.nodes.node_memory cimport NodeKernel


cdef class WaitingRecords(NodeKernel):
    cdef readonly double fetch_time
    cdef readonly Py_ssize_t workers
    cdef double[::1] speed              # Mflop/s
    cdef double[::1] total              # sum of the estimates of the tasks sent to it that have not ended, s
    cdef double[::1] began              # when its running task began, s; NaN if none runs
    cdef double[::1] running            # estimate of the running task, s
    cdef double[::1] fetching           # `fetch_time` if it has tasks, else 0, s
    cdef long long[::1] tasks           # number of tasks sent to it that have not ended
    cdef unsigned long long[::1] bits   # by worker, whether it has tasks

    cdef int _open(self, Py_ssize_t workers) except -1
    cdef int _check(self, Py_ssize_t u, double positive, double now) except -1
    cdef int _check_place(self, Py_ssize_t begin, double size, double now) except -1
    cdef int _write_busy(self, long long* out, Py_ssize_t words) except -1
    cdef int _forget(self, Py_ssize_t u, double speed) except -1
    cdef int _begin(self, Py_ssize_t u, double size, double now) except -1
    cdef int _end(self, Py_ssize_t u, double now) except -1
    cdef int _send(self, Py_ssize_t u, double size, double now) except -1
    cdef int _refresh_worker(self, Py_ssize_t u, double now) except -1


cdef class WaitingTimes(WaitingRecords):
    cdef Py_ssize_t leaves              # a power of 2
    cdef double[:, ::1] key             # [2, leaves], inf where a worker is not in a tree
    cdef int[:, ::1] winner             # [2, 2 * leaves], the worker with the least key below each node of a tree

    cdef int _plant(self, falling) except -1
    cdef unsigned long long _idle(self, Py_ssize_t word, Py_ssize_t begin) noexcept
    cdef void _play(self, Py_ssize_t tree, Py_ssize_t branch) noexcept
    cdef int _busy(self, Py_ssize_t u, double now) except -1
    cdef double _falling(self, Py_ssize_t u) noexcept
    cdef double _constant(self, Py_ssize_t u) noexcept
    cdef int _put(self, Py_ssize_t tree, Py_ssize_t u, double key) noexcept
    cdef int _first(self, Py_ssize_t tree, Py_ssize_t begin) noexcept
    cdef int _least(self, Py_ssize_t begin, double now) except -1
    cdef int _place(self, Py_ssize_t begin, double size, double now, long long* out, long long tasks) except -1


cdef struct WaitEntry:
    double time
    int worker


cdef class StaleTimes(WaitingRecords):
    cdef double[::1] stale_total        # `total` at the last refresh, s
    cdef WaitEntry[::1] heap

    cdef int _open_stale(self, Py_ssize_t workers) except -1
    cdef int _refresh(self) except -1
    cdef int _place(self, Py_ssize_t begin, double size, double now, const long long* delays, Py_ssize_t n_delays,
                    long long* out, long long tasks) except -1
