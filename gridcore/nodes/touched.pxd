"""The machines or nodes that are to act at the present instant, each once: for the message core."""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport grown

cdef struct Touched:                    # made by `touched_make`
    int* machine
    Py_ssize_t n, room
    unsigned char* marked


cdef inline int touched_make(Touched* t, Py_ssize_t machines) except -1:
    t.marked = <unsigned char*> grown(NULL, machines)
    memset(t.marked, 0, machines)
    return 0


cdef inline void touched_free(Touched* t) noexcept:
    free(t.machine)
    free(t.marked)


cdef inline int touched_add(Touched* t, int machine) except -1:
    if t.marked[machine]:
        return 0
    if t.n == t.room:
        t.machine = <int*> grown(t.machine, (2 * t.room + 16) * sizeof(int))
        t.room = 2 * t.room + 16
    t.marked[machine] = True
    t.machine[t.n] = machine
    t.n += 1
    return 0


cdef inline void touched_clear(Touched* t) noexcept:
    cdef Py_ssize_t k
    for k in range(t.n):
        t.marked[t.machine[k]] = False
    t.n = 0
