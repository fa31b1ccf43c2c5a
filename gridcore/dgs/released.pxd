"""Reservations that were released, as readers see them who saw the node before.

They are in the order in which they were made.  Those that a reader sees were made by the instant at which it saw the
node and dropped after it; most live for a moment only, so with the last drop so far beside each, going back from the
last one that was made by then soon comes to where all have been dropped.
"""

cdef struct Gone:
    long long start, end                # slots
    long long made, dropped             # ns
    long long latest                    # ns, when the last of it and those before it was dropped


cdef inline Py_ssize_t gone_seen(const Gone* gone, Py_ssize_t n, long long as_of) noexcept nogil:
    """Return the last one that was made by `as_of` ns; -1 for none."""
    cdef Py_ssize_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) >> 1
        if gone[middle].made <= as_of:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef inline void gone_latest(Gone* gone, Py_ssize_t k, Py_ssize_t n) noexcept nogil:
    """Compute `latest` from the k-th on."""
    for k in range(k, n):
        gone[k].latest = max(gone[k].dropped, gone[k - 1].latest) if k else gone[k].dropped
