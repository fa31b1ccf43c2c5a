"""Messages about jobs that are sent at the end of a wave or later: for `gridcore.dgs.protocol`."""

from libc.stdlib cimport free

from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport Event, Pending, pending_clear, pending_first, pending_free, pending_pop, pending_push

# The fields of a message of any kind; what a, b and c mean depends on the kind.
cdef struct Row:
    long long node, sender, job, a, b, c


cdef struct Outbox:                     # the messages of one kind; all zero when empty
    Row* row
    Py_ssize_t n, room


cdef inline Row* outbox_add(Outbox* o, long long node, long long sender, long long job) except NULL nogil:
    """Add a row and return it; the caller fills in the other fields."""
    cdef Row* row
    if o.n == o.room:
        o.row = <Row*> reallocate(o.row, (2 * o.room + 64) * sizeof(Row))
        o.room = 2 * o.room + 64
    row = &o.row[o.n]
    o.n += 1
    row.node, row.sender, row.job = node, sender, job
    return row


cdef inline void sort_rows(Row* row, Row* spare, Py_ssize_t n) noexcept nogil:
    """Sort rows by sender with a stable merge sort; they are nearly always in order already."""
    cdef Py_ssize_t width = 1, low, middle, high, i, j, k
    cdef Row* source = row
    cdef Row* target = spare
    cdef Row* swap
    cdef bint sorted_ = True
    for k in range(1, n):
        if row[k].sender < row[k - 1].sender:
            sorted_ = False
            break
    if sorted_:
        return
    while width < n:
        low = 0
        while low < n:
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j, k = low, middle, low
            while i < middle or j < high:
                if j >= high or (i < middle and source[i].sender <= source[j].sender):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
                k += 1
            low = high
        swap = source
        source = target
        target = swap
        width *= 2
    if source != row:
        for k in range(n):
            row[k] = source[k]


# -- messages that are sent later -------------------------------------------------------------------------

cdef struct Delayed:                    # rows by time, then in the order of their addition; all zero when empty
    Pending due
    long long sequence
    Row* row                            # by slot
    int* unused
    Py_ssize_t n, n_unused, room


cdef inline int delayed_add(Delayed* d, long long time, const Row* row) except -1 nogil:
    cdef int slot
    if d.n_unused == 0:
        if d.n == d.room:
            d.row = <Row*> reallocate(d.row, (2 * d.room + 64) * sizeof(Row))
            d.unused = <int*> reallocate(d.unused, (2 * d.room + 64) * sizeof(int))
            d.room = 2 * d.room + 64
        d.unused[0] = <int> d.n
        d.n += 1
        d.n_unused = 1
    d.n_unused -= 1
    slot = d.unused[d.n_unused]
    d.row[slot] = row[0]
    d.sequence += 1
    return pending_push(&d.due, time, d.sequence, slot)


cdef inline const Event* delayed_first(Delayed* d) noexcept nogil:
    """Return the time and the slot of the next row; NULL if there is none."""
    cdef const Event* first
    while True:
        first = pending_first(&d.due)
        if first == NULL or d.row[first.slot].node >= 0:
            return first
        d.unused[d.n_unused] = pending_pop(&d.due).slot
        d.n_unused += 1


cdef inline void delayed_drop(Delayed* d, long long node) noexcept nogil:
    """Drop the rows of sender `node`, which has failed."""
    cdef Py_ssize_t k
    for k in range(d.n):
        if d.row[k].sender == node:
            d.row[k].node = -1          # without effect in rows that are not in use


cdef inline const Row* delayed_take(Delayed* d, long long now) noexcept nogil:
    """Remove and return the next row due by `now`, NULL if there is none; it is valid until a row is added."""
    cdef const Event* first = delayed_first(d)
    if first == NULL or first.time > now:
        return NULL
    d.unused[d.n_unused] = pending_pop(&d.due).slot
    d.n_unused += 1
    return &d.row[d.unused[d.n_unused - 1]]


cdef inline void delayed_clear(Delayed* d) noexcept nogil:
    pending_clear(&d.due)
    d.n = d.n_unused = 0
    d.sequence = 0


cdef inline void delayed_free(Delayed* d) noexcept nogil:
    free(d.row)
    free(d.unused)
    pending_free(&d.due)
