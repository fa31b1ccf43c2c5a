"""The optional log of searches of `gridcore.random_walk.walk`: the nodes that were asked, and how searches ended."""

from libc.stdlib cimport free

from gridcore.common.memory cimport grown

cdef enum:
    LOOK_FIELDS = 9


cdef struct Look:                   # a row; the fields are those of `gridcore.random_walk.state.LOOKS`
    long long job, node, asked, heard, verdict, free, home_free, true_free, count


cdef struct ProbeLog:               # all zero for no log
    Look* look
    Py_ssize_t n, most, lost, room


cdef inline void probelog_free(ProbeLog* l) noexcept nogil:
    free(l.look)


cdef inline Py_ssize_t probelog_add(ProbeLog* l, const Look* look) except -2:
    """Add a row and return its place; if the log is full, count the row in `lost` and return -1."""
    if l.n == l.most:
        l.lost += 1
        return -1
    if l.n == l.room:
        l.look = <Look*> grown(l.look, (2 * l.room + 256) * sizeof(Look))
        l.room = 2 * l.room + 256
    l.look[l.n] = look[0]
    l.n += 1
    return l.n - 1


cdef inline void probelog_copy(const ProbeLog* l, long long[:, ::1] out) noexcept nogil:
    """Copy the log to `out`, one row for each entry."""
    cdef Py_ssize_t k
    cdef const Look* look
    for k in range(l.n):
        look = &l.look[k]
        out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4] = look.job, look.node, look.asked, look.heard, look.verdict
        out[k, 5], out[k, 6], out[k, 7], out[k, 8] = look.free, look.home_free, look.true_free, look.count


cdef inline int probelog_fill(ProbeLog* l, const long long[:, ::1] rows) except -1:
    """Replace the contents of the log by `rows`."""
    cdef Py_ssize_t k
    cdef Look look
    l.n = 0
    for k in range(rows.shape[0]):
        look.job, look.node, look.asked, look.heard, look.verdict = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3], rows[k, 4]
        look.free, look.home_free, look.true_free, look.count = rows[k, 5], rows[k, 6], rows[k, 7], rows[k, 8]
        probelog_add(l, &look)
    return 0
