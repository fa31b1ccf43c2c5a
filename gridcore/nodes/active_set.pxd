"""The machines or nodes that act at the present instant, each once: for the message core."""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport reallocate

cdef struct ActiveSet:                  # initialised by `active_make`
    int* member
    Py_ssize_t n, capacity
    unsigned char* is_member


cdef inline int active_make(ActiveSet* t, Py_ssize_t size) except -1:
    t.is_member = <unsigned char*> reallocate(NULL, size)
    memset(t.is_member, 0, size)
    return 0


cdef inline void active_free(ActiveSet* t) noexcept:
    free(t.member)
    free(t.is_member)


cdef inline int active_add(ActiveSet* t, int member) except -1:
    if t.is_member[member]:
        return 0
    if t.n == t.capacity:
        t.member = <int*> reallocate(t.member, (2 * t.capacity + 16) * sizeof(int))
        t.capacity = 2 * t.capacity + 16
    t.is_member[member] = True
    t.member[t.n] = member
    t.n += 1
    return 0


cdef inline void active_clear(ActiveSet* t) noexcept:
    cdef Py_ssize_t k
    for k in range(t.n):
        t.is_member[t.member[k]] = False
    t.n = 0
