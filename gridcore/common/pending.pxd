"""A queue of events, by time and then by number: for `gridcore.network.links` and `gridcore.nodes.timers`."""

from libc.stdlib cimport free
from libc.string cimport memcpy

from gridcore.common.memory cimport reallocate

cdef struct Event:
    long long time
    long long sequence
    int slot


cdef struct Pending:                # events by (time, sequence); all zero when empty
    Event* event                    # a 4-ary heap
    Py_ssize_t n, capacity
    Event* ring                     # a ring of the events that are pushed in order; most are, and so need no heap
    Py_ssize_t first, n_ring, ring_capacity
    int[3] upcoming                 # after a pop, slots to prefetch: of the next event, of an event among the next few,
                                    # and of an event among the next twenty; -1: none


cdef inline bint pending_before(const Event* a, const Event* b) noexcept nogil:
    # without branches on the order of times, which cannot be predicted; whether two are equal can be
    if a.time == b.time:
        return a.sequence < b.sequence
    return a.time < b.time


cdef inline int pending_push(Pending* p, long long time, long long sequence, int slot) except -1 nogil:
    cdef Py_ssize_t k, parent
    cdef Event e
    e.time, e.sequence, e.slot = time, sequence, slot
    if p.n_ring == 0 or not pending_before(&e, &p.ring[(p.first + p.n_ring - 1) & (p.ring_capacity - 1)]):
        if p.n_ring == p.ring_capacity:
            # double the ring: the wrapped events before `first` move to its end
            k = max(64, 2 * p.ring_capacity)
            p.ring = <Event*> reallocate(p.ring, k * sizeof(Event))
            memcpy(p.ring + p.ring_capacity, p.ring, p.first * sizeof(Event))
            p.ring_capacity = k
        k = (p.first + p.n_ring) & (p.ring_capacity - 1)
        p.n_ring += 1
        p.ring[k].time, p.ring[k].sequence, p.ring[k].slot = time, sequence, slot
        return 0
    if p.n == p.capacity:
        p.event = <Event*> reallocate(p.event, (2 * p.capacity + 64) * sizeof(Event))
        p.capacity = 2 * p.capacity + 64
    k = p.n
    p.n += 1
    while k > 0:
        parent = (k - 1) // 4
        if not pending_before(&e, &p.event[parent]):
            break
        p.event[k] = p.event[parent]
        k = parent
    p.event[k].time, p.event[k].sequence, p.event[k].slot = time, sequence, slot
    return 0


cdef inline const Event* pending_first(const Pending* p) noexcept nogil:
    cdef const Event* first = NULL
    if p.n:
        first = &p.event[0]
    if p.n_ring and (first == NULL or pending_before(&p.ring[p.first], first)):
        first = &p.ring[p.first]
    return first


cdef inline Event pending_pop(Pending* p) noexcept nogil:
    cdef const Event* first = pending_first(p)
    cdef Event top = first[0], e
    cdef Event* event = p.event
    cdef Py_ssize_t k = 0, child, least, other, n, level = 0
    p.upcoming[0] = p.upcoming[1] = p.upcoming[2] = -1
    if p.n == 0 or first != &p.event[0]:
        p.first = (p.first + 1) & (p.ring_capacity - 1)
        p.n_ring -= 1
        for k in range(min(3, p.n_ring)):
            p.upcoming[k] = p.ring[(p.first + k) & (p.ring_capacity - 1)].slot
        return top
    p.n -= 1
    n = p.n
    if n:
        e = event[n]
        while True:
            child = 4 * k + 1
            if child + 4 <= n:
                # the first of four, from the firsts of two pairs
                least = child + pending_before(&event[child + 1], &event[child])
                other = child + 2 + pending_before(&event[child + 3], &event[child + 2])
                least = other if pending_before(&event[other], &event[least]) else least
            elif child < n:
                least = child
                for other in range(child + 1, n):
                    least += (other - least) * pending_before(&event[other], &event[least])
            else:
                break
            if not pending_before(&event[least], &e):
                break
            event[k] = event[least]
            if level < 3:
                p.upcoming[level] = event[k].slot
                level += 1
            k = least
        event[k] = e
    return top


cdef inline void pending_clear(Pending* p) noexcept nogil:
    p.n = p.n_ring = p.first = 0


cdef inline Py_ssize_t pending_read(const Pending* p, long long[:, ::1] rows) noexcept nogil:
    """Copy (time, sequence, slot) of all events into `rows`, in no particular order; return their number."""
    cdef Py_ssize_t k
    cdef const Event* e
    for k in range(p.n + p.n_ring):
        e = &p.event[k] if k < p.n else &p.ring[(p.first + k - p.n) & (p.ring_capacity - 1)]
        rows[k, 0], rows[k, 1], rows[k, 2] = e.time, e.sequence, e.slot
    return p.n + p.n_ring


cdef inline void pending_free(Pending* p) noexcept nogil:
    free(p.event)
    free(p.ring)
