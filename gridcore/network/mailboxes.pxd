"""Deferred messages that wait to be drained, each in the box of its receiver: for `gridcore.network.links`.

If all machines send to one machine, its interface is busy for minutes, and most of the messages in flight wait
there.  An interface delivers in order, so a box is a list and needs no heap, and a message needs only its
record and the instant of delivery.
"""

from libc.stdlib cimport free
from libc.string cimport memcpy

from gridcore.common.memory cimport reallocate

cdef struct Letter:
    long long time                      # of delivery, ns
    int nbytes
    int incarnation                     # incarnation of the receiver when the message was sent
    int next


cdef struct Mailboxes:                  # all zero when there are none
    int* first                          # per box, its first message; -1 if the box is empty
    int* last
    int* open                           # the boxes that are not empty
    Py_ssize_t n_open
    Letter* letter
    char* record
    Py_ssize_t capacity, stride
    int unused


cdef inline int mailboxes_make(Mailboxes* m, Py_ssize_t boxes, Py_ssize_t stride) except -1:
    cdef Py_ssize_t k
    m.first = <int*> reallocate(NULL, (boxes + 1) * sizeof(int))
    m.last = <int*> reallocate(NULL, (boxes + 1) * sizeof(int))
    m.open = <int*> reallocate(NULL, (boxes + 1) * sizeof(int))
    for k in range(boxes):
        m.first[k] = -1
    m.stride, m.unused = stride, -1
    return 0


cdef inline void mailboxes_free(Mailboxes* m) noexcept nogil:
    free(m.first)
    free(m.last)
    free(m.open)
    free(m.letter)
    free(m.record)


cdef inline void mailboxes_clear(Mailboxes* m, Py_ssize_t boxes) noexcept nogil:
    """Empty all `boxes`."""
    cdef Py_ssize_t k
    for k in range(boxes):
        m.first[k] = -1
    for k in range(m.capacity):
        m.letter[k].next = <int> (k + 1) if k + 1 < m.capacity else -1
    m.n_open, m.unused = 0, 0 if m.capacity else -1


cdef inline int mailboxes_reserve(Mailboxes* m) except -1 nogil:
    """Make room for one more message."""
    cdef Py_ssize_t capacity, k
    if m.unused < 0:
        # grow by only a quarter, because waiting messages may take much of the memory of a run
        capacity = m.capacity + m.capacity // 4 + 64
        if capacity > 2147483647:
            with gil:
                raise MemoryError(f"more than {2**31 - 1} messages wait to be drained")
        m.letter = <Letter*> reallocate(m.letter, capacity * sizeof(Letter))
        m.record = <char*> reallocate(m.record, capacity * m.stride)
        for k in range(m.capacity, capacity):
            m.letter[k].next = <int> (k + 1) if k + 1 < capacity else -1
        m.unused, m.capacity = <int> m.capacity, capacity
    return 0


cdef inline int mailboxes_put(Mailboxes* m, Py_ssize_t box, const Letter* letter, const void* record,
                              Py_ssize_t width) except -1 nogil:
    """Append a message to `box`; its delivery must not precede that of earlier messages in the box."""
    cdef int entry
    mailboxes_reserve(m)
    entry = m.unused
    m.unused = m.letter[entry].next
    m.letter[entry] = letter[0]
    m.letter[entry].next = -1
    memcpy(m.record + entry * m.stride, record, width)
    if m.first[box] < 0:
        m.first[box] = entry
        m.open[m.n_open] = <int> box
        m.n_open += 1
    else:
        m.letter[m.last[box]].next = entry
    m.last[box] = entry
    return 0


cdef inline Py_ssize_t mailboxes_due(const Mailboxes* m, Py_ssize_t low, Py_ssize_t high,
                                     long long until) noexcept nogil:
    """Return the number of messages in boxes low..high-1 that are delivered by `until` ns."""
    cdef Py_ssize_t k, n = 0
    cdef int entry
    for k in range(m.n_open):
        if low <= m.open[k] < high:
            entry = m.first[m.open[k]]
            while entry >= 0 and m.letter[entry].time <= until:
                n += 1
                entry = m.letter[entry].next
    return n


cdef inline Py_ssize_t mailboxes_count(const Mailboxes* m) noexcept nogil:
    """Return the number of messages in all boxes."""
    return mailboxes_due(m, 0, 2147483647, 9223372036854775807)


cdef inline int mailboxes_take(Mailboxes* m, Py_ssize_t box, long long until) noexcept nogil:
    """Remove the next message of `box` delivered by `until` ns; return its place, valid until the next put, or -1."""
    cdef int entry = m.first[box]
    if entry < 0 or m.letter[entry].time > until:
        return -1
    m.first[box] = m.letter[entry].next
    m.letter[entry].next = m.unused
    m.unused = entry
    return entry


cdef inline void mailboxes_tidy(Mailboxes* m) noexcept nogil:
    """Remove the boxes that have become empty from the list of open boxes."""
    cdef Py_ssize_t k, n = 0
    for k in range(m.n_open):
        if m.first[m.open[k]] >= 0:
            m.open[n] = m.open[k]
            n += 1
    m.n_open = n
