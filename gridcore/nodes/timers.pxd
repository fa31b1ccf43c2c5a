"""The timers of all nodes: for the message core.

Timers that are due at one instant fire in the order of (node, name, setting).  A cancelled timer stays in
the heap until its instant, or until at least half of the timers in the heap are cancelled.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport (
    Event, Pending, pending_clear, pending_first, pending_free, pending_pop, pending_push,
)

cdef struct Timer:
    long long time, number              # `number` grows in the order of setting
    double value
    int node, name, next                # `next`: the next timer of the node, or the next unused slot; -1: none
    bint cancelled


cdef struct Timers:                     # initialised by `timers_make`
    Timer* timer
    Py_ssize_t room
    int unused
    int* first                          # per node, its pending timers
    Py_ssize_t nodes, pending, cancelled
    long long number
    Pending heap


cdef inline int timers_make(Timers* t, Py_ssize_t nodes) except -1:
    """Initialise `t` without timers; memory that it had is not freed."""
    cdef Py_ssize_t k
    memset(t, 0, sizeof(Timers))
    t.unused = -1
    t.first = <int*> reallocate(NULL, nodes * sizeof(int))
    t.nodes = nodes
    for k in range(nodes):
        t.first[k] = -1
    return 0


cdef inline void timers_free(Timers* t) noexcept nogil:
    free(t.timer)
    free(t.first)
    pending_free(&t.heap)


cdef inline int timers_slot(Timers* t) except -1:
    cdef Py_ssize_t k, room
    cdef int slot
    if t.unused < 0:
        room = 2 * t.room + 64
        if room > 2147483647:
            raise MemoryError(f"more than {2**31 - 1} timers")
        t.timer = <Timer*> reallocate(t.timer, room * sizeof(Timer))
        for k in range(room - 1, t.room - 1, -1):
            t.timer[k].next = t.unused
            t.unused = <int> k
        t.room = room
    slot = t.unused
    t.unused = t.timer[slot].next
    return slot


cdef inline void timers_release(Timers* t, int slot) noexcept nogil:
    t.timer[slot].next = t.unused
    t.unused = slot


cdef inline int timers_set(Timers* t, long long time, int node, int name, double value) except -1:
    """Set a timer, unless the node has the same one (name, instant and value) already."""
    cdef int slot = t.first[node]
    cdef Timer* timer
    while slot >= 0:
        timer = &t.timer[slot]
        if timer.time == time and timer.name == name and timer.value == value:
            return 0
        slot = timer.next
    slot = timers_slot(t)
    pending_push(&t.heap, time, t.number, slot)
    timer = &t.timer[slot]
    timer.time, timer.number, timer.value = time, t.number, value
    timer.node, timer.name, timer.cancelled = node, name, False
    timer.next = t.first[node]
    t.first[node] = slot
    t.number += 1
    t.pending += 1
    return 0


cdef inline void timers_unlink(Timers* t, int slot) noexcept nogil:
    """Take a timer out of the list of its node."""
    cdef int* link = &t.first[t.timer[slot].node]
    while link[0] != slot:
        link = &t.timer[link[0]].next
    link[0] = t.timer[slot].next
    t.pending -= 1


cdef inline int timers_sweep(Timers* t) except -1:
    """Remove cancelled timers from the heap if they are more than half of it."""
    cdef Pending pending
    cdef Event e
    memset(&pending, 0, sizeof(Pending))
    if t.cancelled < 64 or t.cancelled < t.pending:
        return 0
    while pending_first(&t.heap) != NULL:
        e = pending_pop(&t.heap)
        if t.timer[e.slot].cancelled:
            timers_release(t, e.slot)
        else:
            pending_push(&pending, e.time, e.sequence, e.slot)
    pending_free(&t.heap)
    t.heap = pending
    t.cancelled = 0
    return 0


cdef inline int timers_cancel(Timers* t, int node, int name) except -1:
    """Cancel the timers `name` of `node`; with name -1 all of them."""
    cdef int slot = t.first[node], next_slot
    while slot >= 0:
        next_slot = t.timer[slot].next
        if name < 0 or t.timer[slot].name == name:
            timers_unlink(t, slot)
            t.timer[slot].cancelled = True
            t.cancelled += 1
        slot = next_slot
    return timers_sweep(t)


cdef inline long long timers_first(Timers* t) noexcept nogil:
    """Return when the next timer fires, ns; the greatest int64 if there is none."""
    cdef const Event* e
    cdef int slot
    while True:
        e = pending_first(&t.heap)
        if e == NULL:
            return 9223372036854775807
        if not t.timer[e.slot].cancelled:
            return e.time
        slot = e.slot
        pending_pop(&t.heap)
        t.cancelled -= 1
        timers_release(t, slot)
