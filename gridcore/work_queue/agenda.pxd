"""A heap whose members can be moved and taken out: who is next, ties by number.  For `gridcore.work_queue.dispatch`.

Four children a node, as `gridcore.common.heap` has; besides, each number knows its position.
"""

from libc.stdlib cimport realloc

from gridcore.common.heap cimport Entry, heap_before

cdef enum:
    ABSENT = -1


cdef struct Agenda:
    Entry* item
    Py_ssize_t n, room
    int* position                       # by number; shared by agendas that have no number in common


cdef inline bint agenda_reserve(Agenda* a, Py_ssize_t n) noexcept nogil:
    """Room for n members; False without memory."""
    cdef Entry* wider
    cdef Py_ssize_t room = max(n, 2 * a.room)
    if n > a.room:
        wider = <Entry*> realloc(a.item, room * sizeof(Entry))
        if wider == NULL:
            return False
        a.item, a.room = wider, room
    return True


cdef inline void _agenda_put(Agenda* a, Py_ssize_t k, Entry entry) noexcept nogil:
    a.item[k] = entry
    a.position[entry.number] = <int> k


cdef inline void _agenda_up(Agenda* a, Py_ssize_t k, Entry moved) noexcept nogil:
    cdef Py_ssize_t parent
    while k > 0:
        parent = (k - 1) >> 2
        if not heap_before(moved, a.item[parent]):
            break
        _agenda_put(a, k, a.item[parent])
        k = parent
    _agenda_put(a, k, moved)


cdef inline void _agenda_settle(Agenda* a, Py_ssize_t k, Entry moved) noexcept nogil:
    """Put `moved` at position k, or above it, or below it."""
    cdef Py_ssize_t child, last, least, other
    if k > 0 and heap_before(moved, a.item[(k - 1) >> 2]):
        _agenda_up(a, k, moved)
        return
    while True:
        child = 4 * k + 1
        if child >= a.n:
            break
        least, last = child, min(child + 4, a.n)
        for other in range(child + 1, last):
            if heap_before(a.item[other], a.item[least]):
                least = other
        if not heap_before(a.item[least], moved):
            break
        _agenda_put(a, k, a.item[least])
        k = least
    _agenda_put(a, k, moved)


cdef inline void agenda_set(Agenda* a, Py_ssize_t number, long long at) noexcept nogil:
    """`number` is due at `at`, whether it is a member already or not; there must be room."""
    cdef Entry entry
    entry.at, entry.number = at, number
    if a.position[number] == ABSENT:
        a.n += 1
        _agenda_up(a, a.n - 1, entry)
    else:
        _agenda_settle(a, a.position[number], entry)


cdef inline void agenda_drop(Agenda* a, Py_ssize_t number) noexcept nogil:
    """`number` is no member any more."""
    cdef Py_ssize_t k = a.position[number]
    a.position[number] = ABSENT
    a.n -= 1
    if k < a.n:
        _agenda_settle(a, k, a.item[a.n])


# -- members without an order -------------------------------------------------------------------------------

cdef inline void bunch_add(Agenda* a, Py_ssize_t number) noexcept nogil:
    """`number` comes last; there must be room."""
    cdef Entry entry
    entry.at, entry.number = 0, number
    _agenda_put(a, a.n, entry)
    a.n += 1


cdef inline void bunch_drop(Agenda* a, Py_ssize_t number) noexcept nogil:
    """The last takes the place of `number`."""
    cdef Py_ssize_t k = a.position[number]
    a.position[number] = ABSENT
    a.n -= 1
    if k < a.n:
        _agenda_put(a, k, a.item[a.n])
