"""Reservations that were released, as readers see them who saw the node before.

They are in the order in which they were made.  Those that a reader sees were made by the instant at which it saw the
node and dropped after it; most live for a moment only, so with the last drop so far beside each, going back from the
last one that was made by then soon comes to where all have been dropped.
"""

from gridcore.common.memory cimport reallocate

cdef struct Gone:
    long long start, end                # slots
    long long made, dropped             # ns
    long long latest                    # ns, when the last of it and those before it was dropped

cdef struct Released:                   # all zero when empty
    Gone* item
    int n, room


cdef inline Py_ssize_t released_seen(const Released* r, long long as_of) noexcept nogil:
    """Return the last one that was made by `as_of` ns; -1 for none."""
    cdef Py_ssize_t low = 0, high = r.n, middle
    while low < high:
        middle = (low + high) >> 1
        if r.item[middle].made <= as_of:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef inline void released_count(Released* r, Py_ssize_t k) noexcept nogil:
    """Compute `latest` from the k-th on."""
    for k in range(k, r.n):
        r.item[k].latest = max(r.item[k].dropped, r.item[k - 1].latest) if k else r.item[k].dropped


cdef inline int released_keep(Released* r, const Gone* one) except -1:
    """Add one: most were made but a moment before."""
    cdef Py_ssize_t k = r.n
    if r.n == r.room:
        r.item = <Gone*> reallocate(r.item, (2 * r.room + 4) * sizeof(Gone))
        r.room = 2 * r.room + 4
    while k > 0 and r.item[k - 1].made > one.made:
        r.item[k] = r.item[k - 1]
        k -= 1
    r.item[k] = one[0]
    r.n += 1
    released_count(r, k)
    return 0


cdef inline void released_forget(Released* r, long long slot, long long before) noexcept nogil:
    """Drop those that end by `slot` or were dropped by `before` ns."""
    cdef Py_ssize_t k
    cdef int n = 0
    for k in range(r.n):
        if r.item[k].end > slot and r.item[k].dropped > before:
            r.item[n] = r.item[k]
            n += 1
    r.n = n
    released_count(r, 0)
