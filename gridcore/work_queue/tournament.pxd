"""A tournament that finds the first place with a large enough number: for `gridcore.work_queue.dispatch`.

Each node of the tree has the greatest number of the eight below it, which share a cache line.  A place that does not
take part has -1 (`OUT`).
"""

from libc.stdlib cimport free

from gridcore.common.bits cimport lowest_bit
from gridcore.common.memory cimport reallocate

cdef enum:
    ROUNDS = 11                         # for up to 8**11 places
    OUT = -1


cdef struct Tournament:
    long long* round[ROUNDS]            # the places, the winner of each group of eight places, ..., the overall winner
    Py_ssize_t places
    int last


cdef inline int tournament_make(Tournament* t, Py_ssize_t places) except -1:
    """Make a tournament of places that are all out."""
    cdef Py_ssize_t n = places, k
    t.places, t.last = places, 0
    while True:
        n = (n + 7) & ~7
        t.round[t.last] = <long long*> reallocate(NULL, (n + 8) * sizeof(long long))
        for k in range(n + 8):
            t.round[t.last][k] = OUT
        if n <= 8:
            break
        n >>= 3
        t.last += 1
    # the overall winner
    t.last += 1
    t.round[t.last] = <long long*> reallocate(NULL, 8 * sizeof(long long))
    t.round[t.last][0] = OUT
    return 0


cdef inline void tournament_free(Tournament* t) noexcept nogil:
    cdef int r
    for r in range(ROUNDS):
        free(t.round[r])


cdef inline void tournament_set(Tournament* t, Py_ssize_t place, long long value) noexcept nogil:
    cdef int r
    cdef Py_ssize_t k
    cdef long long* eight
    cdef long long best
    t.round[0][place] = value
    for r in range(1, t.last + 1):
        eight = &t.round[r - 1][place & ~7]
        place >>= 3
        best = eight[0]
        for k in range(1, 8):
            best = max(best, eight[k])
        if t.round[r][place] == best:
            return
        t.round[r][place] = best


cdef inline long long tournament_best(const Tournament* t) noexcept nogil:
    """Return the greatest number, OUT if all places are out."""
    return t.round[t.last][0]


cdef inline Py_ssize_t _tournament_down(const Tournament* t, int r, Py_ssize_t k, long long least) noexcept nogil:
    """Return the first place below node k of round r with at least `least`; there must be one."""
    cdef const long long* eight
    cdef unsigned int sufficient
    cdef int j
    while r > 0:
        k <<= 3
        r -= 1
        # without branches, because the place cannot be predicted; missing places of the last group are OUT
        eight = &t.round[r][k]
        sufficient = 0
        for j in range(8):
            sufficient |= <unsigned int> (eight[j] >= least) << j
        k += lowest_bit(sufficient)
    return k


cdef inline Py_ssize_t tournament_from(const Tournament* t, Py_ssize_t place, long long least) noexcept nogil:
    """Return the first place from `place` on with at least `least` (> OUT), -1 if there is none."""
    cdef int r = 0
    cdef Py_ssize_t k = place
    if place >= t.places:
        return -1
    # move right, and up after the last node of a group, until a node has enough; then down
    while t.round[r][k] < least:
        while r < t.last and (k & 7) == 7:
            k >>= 3
            r += 1
        if r == t.last:
            return -1
        k += 1
    return _tournament_down(t, r, k, least)


cdef inline Py_ssize_t tournament_first(const Tournament* t, long long least) noexcept nogil:
    """Return the first place with at least `least` (> OUT), -1 if there is none."""
    if t.round[t.last][0] < least:
        return -1
    return _tournament_down(t, t.last, 0, least)
