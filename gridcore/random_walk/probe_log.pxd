"""The optional log of searches of `gridcore.random_walk.walk`: the nodes that were probed, and how searches ended."""

from libc.stdlib cimport free
from libc.string cimport memcpy

from gridcore.common.memory cimport reallocate

cdef enum:
    PROBE_FIELDS = 9


cdef struct ProbeRecord:                   # a row: `gridcore.random_walk.state.PROBE_COLUMNS` as a struct
    long long job, node, asked, heard, verdict, free, home_free, true_free, count


cdef struct ProbeLog:               # all zero if there is no log
    ProbeRecord* record
    Py_ssize_t n, max_rows, n_unlogged, capacity


cdef inline void probelog_free(ProbeLog* l) noexcept nogil:
    free(l.record)


cdef inline Py_ssize_t probelog_add(ProbeLog* l, const ProbeRecord* record) except -2:
    """Add a row and return its place; if the log is full, count the row in `n_unlogged` and return -1."""
    if l.n == l.max_rows:
        l.n_unlogged += 1
        return -1
    if l.n == l.capacity:
        l.record = <ProbeRecord*> reallocate(l.record, (2 * l.capacity + 256) * sizeof(ProbeRecord))
        l.capacity = 2 * l.capacity + 256
    l.record[l.n] = record[0]
    l.n += 1
    return l.n - 1


cdef inline void probelog_copy(const ProbeLog* l, long long[:, ::1] out) noexcept nogil:
    """Copy the log to `out`, one row for each entry."""
    if l.n:
        memcpy(&out[0, 0], l.record, l.n * sizeof(ProbeRecord))


cdef inline int probelog_fill(ProbeLog* l, const long long[:, ::1] rows) except -1:
    """Replace the contents of the log by `rows`."""
    cdef Py_ssize_t k
    l.n = 0
    for k in range(rows.shape[0]):
        probelog_add(l, <const ProbeRecord*> &rows[k, 0])
    return 0
