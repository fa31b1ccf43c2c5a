"""Reservations that wait at each node: for the workers of the probe-based schedulers."""

from libc.stdlib cimport free
from libc.string cimport memmove, memset

from gridcore.common.memory cimport grown

cdef struct Place:
    int job, scheduler
    double size, overtaken              # Mflop: of a task, and of those that have overtaken it; 0 if nobody does


cdef struct Places:                     # of one node; all zero when there are none
    Place* block
    int first, n, room                  # of the block


cdef inline Places* places_make(Py_ssize_t nodes) except NULL:
    cdef Places* made = <Places*> grown(NULL, nodes * sizeof(Places))
    memset(made, 0, nodes * sizeof(Places))
    return made


cdef inline void places_free(Places* of, Py_ssize_t nodes) noexcept nogil:
    cdef Py_ssize_t k
    if of != NULL:
        for k in range(nodes):
            free(of[k].block)
        free(of)


cdef inline Place* places_first(const Places* p) noexcept nogil:
    return p.block + p.first


cdef inline Place* places_add(Places* p, int job, int scheduler) except NULL:
    """Append a place, which is not overtaken."""
    cdef Place* new
    if p.first + p.n == p.room:
        if p.first > p.room // 2:
            memmove(p.block, places_first(p), p.n * sizeof(Place))
            p.first = 0
        elif p.room > 2**30:
            raise MemoryError(f"more than {2**30} reservations at a node")
        else:
            p.block = <Place*> grown(p.block, (2 * p.room + 4) * sizeof(Place))
            p.room = 2 * p.room + 4
    new = places_first(p) + p.n
    new.job, new.scheduler, new.size, new.overtaken = job, scheduler, 0.0, 0.0
    p.n += 1
    return new


cdef inline void places_remove(Places* p, int at, int count) noexcept nogil:
    """Remove `count` places from number `at` on."""
    cdef Place* place = places_first(p)
    if at == 0:
        p.first += count
    else:
        memmove(place + at, place + at + count, (p.n - at - count) * sizeof(Place))
    p.n -= count


cdef inline void places_clear(Places* p) noexcept nogil:
    free(p.block)
    memset(p, 0, sizeof(Places))
