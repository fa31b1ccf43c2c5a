"""The free machines, and the machines of each job, as bits, 64 in a word: for `gridcore.rigid_queue.batch_queue`.

The machines of a job are a linked list of spans, one for each word in which it has machines.  The caller keeps the
index of the first span, -1 for none.
"""

from libc.stdlib cimport free

from gridcore.common.bits cimport count_bits, lowest_bit
from gridcore.common.memory cimport reallocate

cdef struct Span:
    unsigned long long mask             # bits of its machines in the word
    int word, next


cdef struct Occupancy:
    unsigned long long* idle            # bits of the machines that are free and up
    unsigned long long* nonzero         # bits of the words of `idle` that are not 0
    Py_ssize_t machines, words
    Py_ssize_t n_idle
    Span* span
    int unused


cdef inline int occupancy_make(Occupancy* o, Py_ssize_t machines) except -1:
    """Allocate memory, with no machine idle; see `occupancy_clear`."""
    o.machines, o.words = machines, (machines + 63) >> 6
    o.idle = <unsigned long long*> reallocate(NULL, o.words * sizeof(unsigned long long))
    o.nonzero = <unsigned long long*> reallocate(NULL, ((o.words + 63) >> 6) * sizeof(unsigned long long))
    # each span has a machine of its own, so there are at most as many spans as machines
    o.span = <Span*> reallocate(NULL, machines * sizeof(Span))
    occupancy_clear(o)
    return 0


cdef inline void occupancy_free(Occupancy* o) noexcept nogil:
    free(o.idle)
    free(o.nonzero)
    free(o.span)


cdef inline void occupancy_clear(Occupancy* o) noexcept nogil:
    """Make no machine idle, and release all spans."""
    cdef Py_ssize_t k
    for k in range(o.words):
        o.idle[k] = 0
    for k in range((o.words + 63) >> 6):
        o.nonzero[k] = 0
    for k in range(o.machines):
        o.span[k].next = <int> (k + 1) if k + 1 < o.machines else -1
    o.unused = 0
    o.n_idle = 0


cdef inline void occupancy_set(Occupancy* o, int word, unsigned long long mask) noexcept nogil:
    o.idle[word] |= mask
    o.nonzero[word >> 6] |= <unsigned long long> 1 << (word & 63)


cdef inline void occupancy_unset(Occupancy* o, int word, unsigned long long mask) noexcept nogil:
    o.idle[word] &= ~mask
    if o.idle[word] == 0:
        o.nonzero[word >> 6] &= ~(<unsigned long long> 1 << (word & 63))


cdef inline void occupancy_add(Occupancy* o, Py_ssize_t u) noexcept nogil:
    """Make machine u idle."""
    occupancy_set(o, <int> (u >> 6), <unsigned long long> 1 << (u & 63))
    o.n_idle += 1


cdef inline void occupancy_remove(Occupancy* o, Py_ssize_t u) noexcept nogil:
    """Make machine u, which is idle, no longer idle."""
    occupancy_unset(o, <int> (u >> 6), <unsigned long long> 1 << (u & 63))
    o.n_idle -= 1


cdef inline int occupancy_span(Occupancy* o, int word, unsigned long long mask) noexcept nogil:
    """Return a new span."""
    cdef int s = o.unused
    o.unused = o.span[s].next
    o.span[s].mask, o.span[s].word, o.span[s].next = mask, word, -1
    return s


cdef inline int occupancy_take(Occupancy* o, int n) noexcept nogil:
    """Take the lowest n idle machines, of which there must be n; return their first span."""
    cdef int first = -1, last = -1, word, count, s
    cdef Py_ssize_t k = 0
    cdef unsigned long long mask, rest
    o.n_idle -= n
    while n > 0:
        while o.nonzero[k] == 0:
            k += 1
        word = <int> (64 * k) + lowest_bit(o.nonzero[k])
        mask = o.idle[word]
        count = count_bits(mask)
        if count > n:
            rest = mask
            for count in range(n):
                rest &= rest - 1
            mask ^= rest
            count = n
        n -= count
        occupancy_unset(o, word, mask)
        s = occupancy_span(o, word, mask)
        if last < 0:
            first = s
        else:
            o.span[last].next = s
        last = s
    return first


cdef inline void occupancy_take_one(Occupancy* o, int* first, Py_ssize_t u) noexcept nogil:
    """Add machine u, which is idle, to the list that begins at span `first`; all machines in it must be above u."""
    cdef int word = <int> (u >> 6), s = first[0]
    occupancy_remove(o, u)
    if s < 0 or o.span[s].word != word:
        s = occupancy_span(o, word, 0)
        o.span[s].next = first[0]
        first[0] = s
    o.span[s].mask |= <unsigned long long> 1 << (u & 63)


cdef inline int occupancy_return(Occupancy* o, int s) noexcept nogil:
    """Make the machines of a span idle again; return the next span."""
    cdef int next_span = o.span[s].next
    occupancy_set(o, o.span[s].word, o.span[s].mask)
    o.n_idle += count_bits(o.span[s].mask)
    o.span[s].next = o.unused
    o.unused = s
    return next_span


cdef inline bint occupancy_meets(const Occupancy* o, int s, const unsigned long long* bits) noexcept nogil:
    """Return whether any machine from span s on is in `bits`."""
    while s >= 0:
        if o.span[s].mask & bits[o.span[s].word]:
            return True
        s = o.span[s].next
    return False


cdef inline void occupancy_mark(const Occupancy* o, int s, int job, int[::1] job_on) noexcept nogil:
    """Set `job_on` to `job` for each machine from span s on."""
    cdef unsigned long long mask
    while s >= 0:
        mask = o.span[s].mask
        while mask:
            job_on[64 * <Py_ssize_t> o.span[s].word + lowest_bit(mask)] = job
            mask &= mask - 1
        s = o.span[s].next
