"""How long machines are expected to stay up: for `gridcore.work_queue.dispatch`.

A prediction is an instant.  It is told from outside when a machine comes up, or made of what the machine has been
through: of its up times before, or of its age (how long it has been up) alone.
"""

from libc.math cimport llrint
from libc.stdlib cimport free

from gridcore.common.memory cimport grown

cdef enum:
    KEPT = 32                           # up times of a machine that are remembered, the last ones

cdef enum Prediction:
    TOLD, PAST, AGE


cdef struct Outlook:
    Prediction by
    long long* up_time                  # ns, KEPT a machine, in turn; only for PAST
    long long* since                    # by machine, when it came up
    long long* told                     # by machine
    long long* failures                 # by machine, up times that ended


cdef inline int outlook_make(Outlook* o, Py_ssize_t machines, Prediction by) except -1:
    cdef Py_ssize_t k
    o.by = by
    o.since = <long long*> grown(NULL, (machines + 1) * sizeof(long long))
    o.told = <long long*> grown(NULL, (machines + 1) * sizeof(long long))
    o.failures = <long long*> grown(NULL, (machines + 1) * sizeof(long long))
    if by == PAST:
        o.up_time = <long long*> grown(NULL, (machines + 1) * KEPT * sizeof(long long))
        for k in range(machines * KEPT):
            o.up_time[k] = 0
    for k in range(machines):
        o.since[k] = o.told[k] = o.failures[k] = 0
    return 0


cdef inline void outlook_free(Outlook* o) noexcept nogil:
    free(o.up_time)
    free(o.since)
    free(o.told)
    free(o.failures)


cdef inline void outlook_up(Outlook* o, Py_ssize_t u, long long now, long long told) noexcept nogil:
    o.since[u], o.told[u] = now, told


cdef inline void outlook_down(Outlook* o, Py_ssize_t u, long long now) noexcept nogil:
    """Machine u fails; who is down from the beginning on has not been up."""
    if now > o.since[u]:
        if o.by == PAST:
            o.up_time[KEPT * u + o.failures[u] % KEPT] = now - o.since[u]
        o.failures[u] += 1


cdef inline long long outlook_until(const Outlook* o, Py_ssize_t u, long long now) noexcept nogil:
    """When machine u, which is up, is expected to fail, ns.

    PAST : the mean of its up times that were longer than its age, E[X | X > age]; if none was, as by its age.
    AGE : it will be up for as long again.
    """
    cdef long long age = now - o.since[u], longest = 9223372036854775807
    cdef Py_ssize_t k
    cdef double total = 0.0
    cdef long long longer = 0
    if o.by == TOLD:
        return o.told[u]
    if o.by == PAST:
        for k in range(min(o.failures[u], <long long> KEPT)):
            if o.up_time[KEPT * u + k] > age:
                total += <double> o.up_time[KEPT * u + k]
                longer += 1
        if longer > 0:
            total = total / <double> longer
            return o.since[u] + llrint(total) if total < 9.2e18 - <double> o.since[u] else longest
    return now + age if age < longest - now else longest
