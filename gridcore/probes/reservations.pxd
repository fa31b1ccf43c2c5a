"""Reservations that wait at each node, for the workers of the probe-based schedulers."""

from libc.stdlib cimport free
from libc.string cimport memmove, memset

from gridcore.common.memory cimport reallocate

cdef struct Reservation:
    int job, scheduler
    double size, overtaken              # Mflop: of a task, and of the tasks that overtook it; 0 without overtaking


cdef struct ReservationQueue:           # the reservations of one node; all zero when there are none
    Reservation* block
    int first, n, capacity                  # entries of the block


cdef inline ReservationQueue* reservations_make(Py_ssize_t nodes) except NULL:
    cdef ReservationQueue* queues = <ReservationQueue*> reallocate(NULL, nodes * sizeof(ReservationQueue))
    memset(queues, 0, nodes * sizeof(ReservationQueue))
    return queues


cdef inline void reservations_free(ReservationQueue* queues, Py_ssize_t nodes) noexcept nogil:
    cdef Py_ssize_t k
    if queues != NULL:
        for k in range(nodes):
            free(queues[k].block)
        free(queues)


cdef inline Reservation* reservations_first(const ReservationQueue* p) noexcept nogil:
    return p.block + p.first


cdef inline Reservation* reservations_add(ReservationQueue* p, int job, int scheduler) except NULL:
    """Append a reservation, which has not been overtaken yet, and return it."""
    cdef Reservation* new
    if p.first + p.n == p.capacity:
        if p.first > p.capacity // 2:
            memmove(p.block, reservations_first(p), p.n * sizeof(Reservation))
            p.first = 0
        elif p.capacity > 2**30:
            raise MemoryError(f"more than {2**30} reservations at a node")
        else:
            p.block = <Reservation*> reallocate(p.block, (2 * p.capacity + 4) * sizeof(Reservation))
            p.capacity = 2 * p.capacity + 4
    new = reservations_first(p) + p.n
    new.job, new.scheduler, new.size, new.overtaken = job, scheduler, 0.0, 0.0
    p.n += 1
    return new


cdef inline void reservations_remove(ReservationQueue* p, int at, int count) noexcept nogil:
    """Remove `count` places from number `at` on."""
    cdef Reservation* place = reservations_first(p)
    if at == 0:
        p.first += count
    else:
        memmove(place + at, place + at + count, (p.n - at - count) * sizeof(Reservation))
    p.n -= count


cdef inline void reservations_clear(ReservationQueue* p) noexcept nogil:
    free(p.block)
    memset(p, 0, sizeof(ReservationQueue))
