"""A log of finished runs of rigid jobs, with their machines as bits: for `gridcore.rigid_queue.batch_queue`."""

from libc.stdlib cimport free, realloc

from gridcore.common.bits cimport count_bits, lowest_bit

cdef struct Run:
    long long start, end, first         # start and end in ns; `first` is the first part with its machines
    int job, completed


cdef struct Part:                       # the machines of a run in one word of 64 bits
    unsigned long long mask
    long long word


cdef struct RunLog:                     # all zero when empty
    Run* run
    Part* part
    Py_ssize_t n, n_parts, capacity, room_parts


cdef inline void runlog_free(RunLog* l) noexcept nogil:
    free(l.run)
    free(l.part)


cdef inline bint runlog_add(RunLog* l, int job, long long start, long long end, bint completed,
                            Py_ssize_t parts) noexcept nogil:
    """Add a run, and reserve memory for its `parts` parts; False if there is not enough memory."""
    cdef void* wider
    cdef Py_ssize_t capacity
    cdef Run* run
    if l.n == l.capacity:
        capacity = 2 * l.capacity + 256
        wider = realloc(l.run, capacity * sizeof(Run))
        if wider == NULL:
            return False
        l.run, l.capacity = <Run*> wider, capacity
    if l.n_parts + parts > l.room_parts:
        capacity = 2 * l.room_parts + parts + 256
        wider = realloc(l.part, capacity * sizeof(Part))
        if wider == NULL:
            return False
        l.part, l.room_parts = <Part*> wider, capacity
    run = &l.run[l.n]
    l.n += 1
    run.job, run.start, run.end, run.completed, run.first = job, start, end, completed, l.n_parts
    return True


cdef inline void runlog_add_part(RunLog* l, long long word, unsigned long long mask) noexcept nogil:
    """Add machines of the last run; there must be room for the part."""
    l.part[l.n_parts].word, l.part[l.n_parts].mask = word, mask
    l.n_parts += 1


cdef inline Py_ssize_t runlog_last(const RunLog* l, Py_ssize_t k) noexcept nogil:
    """Return the index after the last part of run k."""
    return l.run[k + 1].first if k + 1 < l.n else l.n_parts


cdef inline Py_ssize_t runlog_machines(const RunLog* l) noexcept nogil:
    """Return the number of machines of all runs, summed over the runs."""
    cdef Py_ssize_t p, n = 0
    for p in range(l.n_parts):
        n += count_bits(l.part[p].mask)
    return n


cdef inline void runlog_rows(const RunLog* l, const long long[::1] order, long long[:, ::1] out) noexcept nogil:
    """Write machine, job, start, end and completed of the runs, in the given order, to the five rows of `out`.

    There is a column of `out` for each machine of each run.
    """
    cdef Py_ssize_t i, k, p, row = 0
    cdef unsigned long long mask
    for i in range(l.n):
        k = order[i]
        for p in range(l.run[k].first, runlog_last(l, k)):
            mask = l.part[p].mask
            while mask:
                out[0, row] = 64 * l.part[p].word + lowest_bit(mask)
                out[1, row], out[2, row] = l.run[k].job, l.run[k].start
                out[3, row], out[4, row] = l.run[k].end, l.run[k].completed
                row += 1
                mask &= mask - 1


cdef inline void runlog_copy(const RunLog* l, long long[:, ::1] runs, unsigned long long[::1] masks,
                             long long[::1] words) noexcept nogil:
    """Copy job, start, end, completed and number of parts of each run to `runs`, the parts to `masks` and `words`."""
    cdef Py_ssize_t k
    for k in range(l.n):
        runs[k, 0], runs[k, 1], runs[k, 2] = l.run[k].job, l.run[k].start, l.run[k].end
        runs[k, 3], runs[k, 4] = l.run[k].completed, runlog_last(l, k) - l.run[k].first
    for k in range(l.n_parts):
        masks[k], words[k] = l.part[k].mask, l.part[k].word


cdef inline int runlog_fill(RunLog* l, const long long[:, ::1] runs, const unsigned long long[::1] masks,
                            const long long[::1] words) except -1:
    """Replace the contents of the log by these runs."""
    cdef Py_ssize_t k, p
    l.n = l.n_parts = 0
    for k in range(runs.shape[0]):
        if not runlog_add(l, <int> runs[k, 0], runs[k, 1], runs[k, 2], runs[k, 3] != 0, runs[k, 4]):
            raise MemoryError
        for p in range(l.n_parts, l.n_parts + runs[k, 4]):
            runlog_add_part(l, words[p], masks[p])
    return 0
