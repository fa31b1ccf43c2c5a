"""A queue of events, by time and then by sequence: for `gridcore.network.links` and `gridcore.nodes.timers`."""

from libc.stdlib cimport free
from libc.string cimport memcpy

from gridcore.common.heap cimport Event, heap_before
from gridcore.common.memory cimport reallocate
from gridcore.common.radix_heap cimport (
    BATCH_SIZE, DIGIT, DIGITS, RadixHeap, radix_clear, radix_free, radix_full, radix_pop, radix_push, radix_refill,
    radix_reserve,
)


cdef struct Pending:                # empty if all is zero; `heap.front` is empty only if the heap is
    Event* ring                     # a ring of the events that are pushed in order; most are, and so need no heap
    Py_ssize_t first, n_ring, ring_capacity
    RadixHeap heap                  # the others


cdef inline int pending_push(Pending* p, long long time, long long sequence, int slot) except -1 nogil:
    cdef Py_ssize_t k
    cdef Event e
    e.time, e.sequence, e.slot = time, sequence, slot
    if p.n_ring == 0 or not heap_before(e, p.ring[(p.first + p.n_ring - 1) & (p.ring_capacity - 1)]):
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
    if radix_full(&p.heap):
        radix_reserve(&p.heap, 2 * p.heap.capacity + 64)
    radix_push(&p.heap, time, sequence, slot)
    return 0


cdef inline bint pending_fetch(Pending* p) noexcept nogil:
    """Move events into `heap.front` if few are there; return whether it did, so that their data can be prefetched."""
    return radix_refill(&p.heap)


cdef inline bint pending_in_order(const Pending* p) noexcept nogil:
    """Return whether the first event is in the ring; else it is in the heap, or there is none."""
    return p.n_ring > 0 and (p.heap.n_front == 0 or heap_before(p.ring[p.first], p.heap.front[0]))


cdef inline const Event* pending_first(const Pending* p) noexcept nogil:
    """Return the first event, which is valid until the next push or pop; NULL if there is none."""
    if pending_in_order(p):
        return &p.ring[p.first]
    return &p.heap.front[0] if p.heap.n_front > 0 else NULL


cdef inline Event pending_pop(Pending* p) noexcept nogil:
    """Remove the first event, which must exist."""
    cdef Event top
    if pending_in_order(p):
        top = p.ring[p.first]
        p.first = (p.first + 1) & (p.ring_capacity - 1)
        p.n_ring -= 1
        return top
    top = p.heap.front[0]
    radix_pop(&p.heap)
    if p.heap.n_front == 0:
        radix_refill(&p.heap)
    return top


cdef inline int pending_slot(const Pending* p, Py_ssize_t k) noexcept nogil:
    """Return the slot of about the k-th event, in the ring exactly; -1 if not that many are in the ring or in `front`."""
    if pending_in_order(p):
        return p.ring[(p.first + k) & (p.ring_capacity - 1)].slot if k < p.n_ring else -1
    return p.heap.front[k].slot if k < p.heap.n_front else -1


cdef inline void pending_clear(Pending* p) noexcept nogil:
    p.n_ring = p.first = 0
    radix_clear(&p.heap)


cdef inline Py_ssize_t pending_count(const Pending* p) noexcept nogil:
    return p.n_ring + p.heap.n_front + p.heap.n_far


cdef inline void _pending_write(const Event* e, long long[:, ::1] rows, Py_ssize_t k) noexcept nogil:
    rows[k, 0], rows[k, 1], rows[k, 2] = e.time, e.sequence, e.slot


cdef inline Py_ssize_t pending_read(const Pending* p, long long[:, ::1] rows) noexcept nogil:
    """Copy (time, sequence, slot) of all events into `rows`, in no particular order; return their number."""
    cdef Py_ssize_t k, n = 0, left
    cdef int bucket, batch
    for k in range(p.n_ring):
        _pending_write(&p.ring[(p.first + k) & (p.ring_capacity - 1)], rows, n)
        n += 1
    for k in range(p.heap.n_front):
        _pending_write(&p.heap.front[k], rows, n)
        n += 1
    for bucket in range(DIGITS << DIGIT):
        left, batch = p.heap.bucket[bucket].n, p.heap.bucket[bucket].batch
        while left > 0:
            for k in range((left - 1) % BATCH_SIZE + 1):
                _pending_write(&p.heap.batch[batch].item[k], rows, n)
                n += 1
            left = (left - 1) // BATCH_SIZE * BATCH_SIZE
            batch = p.heap.next[batch]
    return n


cdef inline void pending_free(Pending* p) noexcept nogil:
    free(p.ring)
    radix_free(&p.heap)
