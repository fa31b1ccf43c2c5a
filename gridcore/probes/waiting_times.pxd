"""C-level contract of the records of a central scheduler."""

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define gridcore_ones(x) ((int) __popcnt64(x))
    static inline int gridcore_lowest(unsigned long long x) { unsigned long k; _BitScanForward64(&k, x); return (int) k; }
    #else
    #define gridcore_ones(x) __builtin_popcountll(x)
    #define gridcore_lowest(x) __builtin_ctzll(x)
    #endif
    """
    int count_ones "gridcore_ones"(unsigned long long x) noexcept nogil
    int lowest_one "gridcore_lowest"(unsigned long long x) noexcept nogil


cdef class WaitingRecords:
    cdef readonly Py_ssize_t workers
    cdef readonly tuple firsts          # type: tuple[int, ...]
    cdef readonly double fetch_time
    cdef double[::1] speed              # Mflop/s
    cdef double[::1] total              # sum of the estimates of the tasks sent to it that have not ended, s
    cdef double[::1] began              # when its running task began, s; NaN if none runs
    cdef double[::1] running            # estimate of the running task, s
    cdef double[::1] fetching           # `fetch_time` if it has tasks, else 0, s
    cdef long long[::1] tasks           # number of tasks sent to it that have not ended
    cdef unsigned long long[::1] bits   # by worker, whether it has tasks

    cdef int _forget(self, Py_ssize_t u, double speed) except -1
    cdef int _begin(self, Py_ssize_t u, double size, double now) except -1
    cdef int _end(self, Py_ssize_t u, double now) except -1
    cdef int _send(self, Py_ssize_t u, double size, double now) except -1
    cdef int _refresh_worker(self, Py_ssize_t u, double now) except -1
    cdef int _check_place(self, Py_ssize_t pool, long long tasks, double size, double now) except -1


cdef class WaitingTimes(WaitingRecords):
    cdef Py_ssize_t leaves              # a power of 2
    cdef double[:, ::1] key             # [2, leaves], inf where a worker is not in a tree
    cdef int[:, ::1] winner             # [2, 2 * leaves], the worker with the least key below each node of a tree

    cdef unsigned long long _idle(self, Py_ssize_t word, Py_ssize_t begin) noexcept
    cdef void _play(self, Py_ssize_t tree, Py_ssize_t branch) noexcept
    cdef int _busy(self, Py_ssize_t u, double now) except -1
    cdef double _falling(self, Py_ssize_t u) noexcept
    cdef double _constant(self, Py_ssize_t u) noexcept
    cdef int _put(self, Py_ssize_t tree, Py_ssize_t u, double key) noexcept
    cdef int _first(self, Py_ssize_t tree, Py_ssize_t begin) noexcept
    cdef int _least(self, Py_ssize_t begin, double now) except -1
    cdef int _place(self, Py_ssize_t pool, long long tasks, double size, double now, int* out) except -1


cdef struct WaitEntry:
    double time
    int worker


cdef class StaleTimes(WaitingRecords):
    cdef double[::1] stale_total        # `total` at the last refresh, s
    cdef WaitEntry[::1] heap

    cdef int _refresh(self) except -1
    cdef int _place(self, Py_ssize_t pool, long long tasks, double size, double now, const long long* delays,
                    int* out) except -1
