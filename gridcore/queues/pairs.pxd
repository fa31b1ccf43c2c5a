"""Sets of pairs of a machine and an application, each with a mark: for queues and `gridcore.centralized`."""

from libc.stdlib cimport calloc, free

# A hash table with linear probing.  A slot is 0 if empty; else it is 2 * pair + mark + 1.
cdef struct Pairs:                      # all zero when it is empty
    unsigned long long* slot
    Py_ssize_t n, capacity                  # room: a power of 2, at least n * 3 / 2, or 0


cdef inline unsigned long long* pairs_at(const Pairs* p, unsigned long long pair) noexcept nogil:
    """Return the slot of a pair, which is empty if the pair is absent; there must be room."""
    cdef unsigned long long hash = pair * <unsigned long long> 0x9E3779B97F4A7C15
    cdef Py_ssize_t k = <Py_ssize_t> (hash >> 20) & (p.capacity - 1)
    while p.slot[k] and (p.slot[k] - 1) >> 1 != pair:
        k = (k + 1) & (p.capacity - 1)
    return &p.slot[k]


cdef inline unsigned long long pair_of(Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
    return <unsigned long long> machine << 31 | <unsigned long long> application


cdef inline bint pairs_have(const Pairs* p, unsigned long long pair) noexcept nogil:
    return p.capacity and pairs_at(p, pair)[0] != 0


cdef inline bint pairs_put(Pairs* p, unsigned long long pair) noexcept nogil:
    """Add a pair, without a mark if it is new; return False if there is no memory."""
    cdef unsigned long long* slot
    cdef Pairs wider
    cdef Py_ssize_t k
    if 3 * (p.n + 1) > 2 * p.capacity:
        wider.n, wider.capacity = p.n, max(1024, 2 * p.capacity)
        wider.slot = <unsigned long long*> calloc(wider.capacity, sizeof(unsigned long long))
        if wider.slot == NULL:
            return False
        for k in range(p.capacity):
            if p.slot[k]:
                pairs_at(&wider, (p.slot[k] - 1) >> 1)[0] = p.slot[k]
        free(p.slot)
        p[0] = wider
    slot = pairs_at(p, pair)
    if slot[0] == 0:
        slot[0] = (pair << 1) + 1
        p.n += 1
    return True


cdef inline int pairs_add(Pairs* p, unsigned long long pair) except -1:
    """Add a pair as `pairs_put` does; raise MemoryError if there is no memory."""
    if not pairs_put(p, pair):
        raise MemoryError
    return 0


cdef inline bint pairs_marked(const Pairs* p, unsigned long long pair) noexcept nogil:
    cdef unsigned long long entry = pairs_at(p, pair)[0] if p.capacity else 0
    return entry != 0 and (entry - 1) & 1


cdef inline bint pairs_mark(Pairs* p, unsigned long long pair) noexcept nogil:
    """Mark a pair, which must be present; return whether it had no mark."""
    cdef unsigned long long* slot = pairs_at(p, pair)
    if (slot[0] - 1) & 1:
        return False
    slot[0] += 1
    return True


cdef inline void pairs_free(Pairs* p) noexcept nogil:
    free(p.slot)
    p.slot, p.n, p.capacity = NULL, 0, 0
