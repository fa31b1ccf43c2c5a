"""Released reservations of a node, for readers that saw the node before.

They are in the order in which they were made.  A reader sees those that were made by the instant at which it saw the
node and were released after it.  Most reservations are short-lived, and each entry has the last release up to it, so
a backward scan from the last entry made by that instant ends soon.
"""

from gridcore.common.memory cimport reallocate

cdef struct ReleasedReservation:
    long long start, end                # slots
    long long made_at, released_at      # ns
    long long last_release              # the latest release of this and earlier entries, ns

cdef struct Released:                   # all zero when empty
    ReleasedReservation* item
    int n, capacity


cdef inline Py_ssize_t released_last_made(const Released* r, long long as_of) noexcept nogil:
    """Return the index of the last entry that was made by `as_of` ns; -1 for none."""
    cdef Py_ssize_t low = 0, high = r.n, middle
    while low < high:
        middle = (low + high) >> 1
        if r.item[middle].made_at <= as_of:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef inline void released_update(Released* r, Py_ssize_t k) noexcept nogil:
    """Compute `last_release` from entry k on."""
    for k in range(k, r.n):
        r.item[k].last_release = r.item[k].released_at
        if k:
            r.item[k].last_release = max(r.item[k].last_release, r.item[k - 1].last_release)


cdef inline int released_add(Released* r, const ReleasedReservation* entry) except -1:
    """Insert an entry; the scan begins at the end because most are released soon after they were made."""
    cdef Py_ssize_t k = r.n
    if r.n == r.capacity:
        r.item = <ReleasedReservation*> reallocate(r.item, (2 * r.capacity + 4) * sizeof(ReleasedReservation))
        r.capacity = 2 * r.capacity + 4
    while k > 0 and r.item[k - 1].made_at > entry.made_at:
        r.item[k] = r.item[k - 1]
        k -= 1
    r.item[k] = entry[0]
    r.n += 1
    released_update(r, k)
    return 0


cdef inline void released_forget(Released* r, long long slot, long long before) noexcept nogil:
    """Drop the entries that end by `slot` or were released by `before` ns."""
    cdef Py_ssize_t k
    cdef int n = 0
    for k in range(r.n):
        if r.item[k].end > slot and r.item[k].released_at > before:
            r.item[n] = r.item[k]
            n += 1
    r.n = n
    released_update(r, 0)
