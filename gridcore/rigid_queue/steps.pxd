"""The number of free machines over time, as steps: for reservations of rigid jobs."""

from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from gridcore.common.instants cimport NEVER


cdef struct Profile:
    long long* at                       # instants (ns) at which the number changes, ascending; the first is the start
    long long* idle                     # the number of free machines from each of them on
    Py_ssize_t n, capacity


cdef inline bint profile_make_room(Profile* p, Py_ssize_t more) noexcept nogil:
    """Make room for `more` further steps; return False if memory runs out."""
    cdef Py_ssize_t capacity = 2 * p.capacity + more + 64
    cdef void* wider
    if p.n + more <= p.capacity:
        return True
    wider = realloc(p.at, capacity * sizeof(long long))
    if wider == NULL:
        return False
    p.at = <long long*> wider
    wider = realloc(p.idle, capacity * sizeof(long long))
    if wider == NULL:
        return False
    p.idle, p.capacity = <long long*> wider, capacity
    return True


cdef inline bint profile_clear(Profile* p, long long now, long long idle) noexcept nogil:
    """Reset the profile to `idle` free machines from `now` on; return False if memory runs out."""
    p.n = 0
    if not profile_make_room(p, 1):
        return False
    p.at[0], p.idle[0], p.n = now, idle, 1
    return True


cdef inline void profile_free(Profile* p) noexcept nogil:
    free(p.at)
    free(p.idle)


cdef inline Py_ssize_t profile_step(const Profile* p, long long instant) noexcept nogil:
    """Return the step at an instant, which must not be before the first step."""
    cdef Py_ssize_t low = 0, high = p.n, middle
    while high - low > 1:
        middle = (low + high) >> 1
        if p.at[middle] <= instant:
            low = middle
        else:
            high = middle
    return low


cdef inline Py_ssize_t profile_split(Profile* p, long long instant) noexcept nogil:
    """Return the step that begins at an instant; add it if it is missing, for which there must be room."""
    cdef Py_ssize_t k = profile_step(p, instant)
    if p.at[k] == instant:
        return k
    k += 1
    memmove(&p.at[k + 1], &p.at[k], (p.n - k) * sizeof(long long))
    memmove(&p.idle[k + 1], &p.idle[k], (p.n - k) * sizeof(long long))
    p.at[k], p.idle[k] = instant, p.idle[k - 1]
    p.n += 1
    return k


cdef inline void profile_merge(Profile* p, Py_ssize_t k) noexcept nogil:
    """Remove step k if the number does not change there."""
    if 0 < k < p.n and p.idle[k] == p.idle[k - 1]:
        memmove(&p.at[k], &p.at[k + 1], (p.n - k - 1) * sizeof(long long))
        memmove(&p.idle[k], &p.idle[k + 1], (p.n - k - 1) * sizeof(long long))
        p.n -= 1


cdef inline bint profile_add(Profile* p, long long start, long long end, long long nodes) noexcept nogil:
    """Add `nodes` free machines from `start` (or the first step) to `end`; return False if memory runs out."""
    cdef Py_ssize_t first, last, k, kept
    start = max(start, p.at[0])
    if start >= end:
        return True
    if not profile_make_room(p, 2):
        return False
    first = profile_split(p, start)
    last = profile_split(p, end) if end < NEVER else p.n
    for k in range(first, last):
        p.idle[k] += nodes
    # only the two ends can be steps without a change now
    profile_merge(p, last)
    profile_merge(p, first)
    return True


cdef inline void profile_forget(Profile* p, long long now) noexcept nogil:
    """Drop the steps before `now`."""
    cdef Py_ssize_t k = profile_step(p, now)
    if k > 0:
        memmove(&p.at[0], &p.at[k], (p.n - k) * sizeof(long long))
        memmove(&p.idle[0], &p.idle[k], (p.n - k) * sizeof(long long))
        p.n -= k
    p.at[0] = now


cdef inline bint profile_fits(const Profile* p, long long nodes, long long duration) noexcept nogil:
    """Return whether `nodes` machines are free for `duration` from the first step on."""
    cdef Py_ssize_t k = 0
    while k < p.n and p.at[k] - p.at[0] < duration:
        if p.idle[k] < nodes:
            return False
        k += 1
    return True


cdef inline long long profile_earliest(const Profile* p, long long nodes, long long duration, long long first,
                                       long long last) noexcept nogil:
    """Return the first instant from `first` to before `last` from which on `nodes` machines are free for `duration`.

    A reservation of as many machines for as long, which would be moved, begins at `last`; NEVER if there is none.
    The result is NEVER if there is no such instant.
    """
    cdef Py_ssize_t k = profile_step(p, first), j
    cdef long long start
    while k < p.n:
        start = max(p.at[k], first)
        if start >= last:
            return NEVER
        if p.idle[k] < nodes:
            k += 1
            continue
        j = k + 1
        while j < p.n and p.at[j] - start < duration and p.idle[j] >= (nodes if p.at[j] < last else 0):
            j += 1
        if j == p.n or p.at[j] - start >= duration:
            return start
        k = j + 1
    return NEVER
