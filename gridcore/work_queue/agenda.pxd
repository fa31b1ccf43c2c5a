"""A heap whose members can be moved and removed, ordered by time, then number: for `gridcore.work_queue.dispatch`.

A node has four children, as in `gridcore.common.heap`; besides, the position of each number is known.
"""

from libc.stdlib cimport realloc

from gridcore.common.heap cimport Entry, heap_before

cdef enum:
    ABSENT = -1


cdef struct Agenda:
    Entry* item
    Py_ssize_t n, capacity
    int* position                       # by number: its place, or `ABSENT`; shared by agendas without common numbers


cdef inline bint agenda_reserve(Agenda* a, Py_ssize_t n) noexcept nogil:
    """Make room for n members; False without memory."""
    cdef Entry* wider
    cdef Py_ssize_t capacity = max(n, 2 * a.capacity)
    if n > a.capacity:
        wider = <Entry*> realloc(a.item, capacity * sizeof(Entry))
        if wider == NULL:
            return False
        a.item, a.capacity = wider, capacity
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
    """Put `moved` into the heap from position k, which is empty: there, above, or below."""
    cdef Py_ssize_t child, last, least, candidate
    if k > 0 and heap_before(moved, a.item[(k - 1) >> 2]):
        _agenda_up(a, k, moved)
        return
    while True:
        child = 4 * k + 1
        if child >= a.n:
            break
        least, last = child, min(child + 4, a.n)
        for candidate in range(child + 1, last):
            if heap_before(a.item[candidate], a.item[least]):
                least = candidate
        if not heap_before(a.item[least], moved):
            break
        _agenda_put(a, k, a.item[least])
        k = least
    _agenda_put(a, k, moved)


cdef inline void agenda_set(Agenda* a, Py_ssize_t number, long long at) noexcept nogil:
    """Make `number` due at `at`; it is added if it is not a member yet, and there must be room for it."""
    cdef Entry entry
    entry.at, entry.number = at, number
    if a.position[number] == ABSENT:
        a.n += 1
        _agenda_up(a, a.n - 1, entry)
    else:
        _agenda_settle(a, a.position[number], entry)


cdef inline void agenda_drop(Agenda* a, Py_ssize_t number) noexcept nogil:
    """Remove `number`, which must be a member."""
    cdef Py_ssize_t k = a.position[number]
    a.position[number] = ABSENT
    a.n -= 1
    if k < a.n:
        _agenda_settle(a, k, a.item[a.n])


# -- members without an order -------------------------------------------------------------------------------

cdef inline void bunch_add(Agenda* a, Py_ssize_t number) noexcept nogil:
    """Append `number`; there must be room for it."""
    cdef Entry entry
    entry.at, entry.number = 0, number
    _agenda_put(a, a.n, entry)
    a.n += 1


cdef inline void bunch_drop(Agenda* a, Py_ssize_t number) noexcept nogil:
    """Remove `number`; the last member takes its place."""
    cdef Py_ssize_t k = a.position[number]
    a.position[number] = ABSENT
    a.n -= 1
    if k < a.n:
        _agenda_put(a, k, a.item[a.n])
