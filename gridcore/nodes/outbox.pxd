"""The messages of one kind that nodes have sent in the current wave: for `gridcore.nodes.node_actions`."""

from libc.stdlib cimport free, qsort

from gridcore.common.memory cimport reallocate

# A record is int64 words: the receiving node, the sending node, then the fields; a float field is its bits.
cdef struct Place:                      # the index of a record, to sort records by sender
    long long sender
    Py_ssize_t at


cdef struct Outbox:                     # if it is empty, all fields except `words` are zero
    long long* data
    Py_ssize_t words                    # number of words of a record
    Py_ssize_t n, capacity
    bint unsorted                       # whether records are not in the order of their senders
    Place* place                        # the records in the order of sending, made by `outbox_sort`
    Py_ssize_t place_capacity


cdef inline long long* outbox_add(Outbox* o, long long to, long long sender) except NULL:
    """Add a record and return its fields, which the caller fills in; `outbox_drop` takes it back."""
    cdef long long* row
    if o.n == o.capacity:
        o.data = <long long*> reallocate(o.data, (2 * o.capacity + 16) * o.words * sizeof(long long))
        o.capacity = 2 * o.capacity + 16
    row = o.data + o.n * o.words
    if o.n and sender < (row - o.words)[1]:
        o.unsorted = True
    o.n += 1
    row[0], row[1] = to, sender
    return row + 2


cdef inline long long* outbox_last(Outbox* o) noexcept nogil:
    """Return the fields of the record that was added last."""
    return o.data + (o.n - 1) * o.words + 2


cdef inline void outbox_drop(Outbox* o) noexcept nogil:
    o.n -= 1


cdef inline int place_order(const void* a, const void* b) noexcept nogil:
    cdef const Place* x = <const Place*> a
    cdef const Place* y = <const Place*> b
    if x.sender != y.sender:
        return -1 if x.sender < y.sender else 1
    return -1 if x.at < y.at else 1


cdef inline int outbox_sort(Outbox* o) except -1:
    """Put into `place` the records in the order of their senders, each sender's own order kept."""
    cdef Py_ssize_t k
    if o.n > o.place_capacity:
        o.place = <Place*> reallocate(o.place, o.n * sizeof(Place))
        o.place_capacity = o.n
    for k in range(o.n):
        o.place[k].sender, o.place[k].at = o.data[k * o.words + 1], k
    qsort(o.place, o.n, sizeof(Place), place_order)
    return 0


cdef inline void outbox_clear(Outbox* o) noexcept nogil:
    o.n = 0
    o.unsorted = False


cdef inline void outbox_free(Outbox* o) noexcept nogil:
    free(o.data)
    free(o.place)
