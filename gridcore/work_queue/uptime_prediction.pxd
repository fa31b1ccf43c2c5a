"""How long machines are expected to stay up: for `gridcore.work_queue.dispatch`.

A prediction is an instant.  It is given from outside when a machine comes up, or computed from the machine's history:
from its earlier up times, or from its age (how long it has been up) alone.
"""

from libc.math cimport llrint
from libc.stdlib cimport free

from gridcore.common.memory cimport grown

cdef enum:
    KEPT = 32                           # how many of its last up times are kept for a machine

cdef enum Prediction:
    TOLD, PAST, AGE


cdef struct Outlook:
    Prediction by
    long long* up_time                  # ns, a ring of KEPT for each machine; only for PAST
    long long* since                    # ns, by machine, when it came up
    long long* told                     # ns, by machine, the prediction that was given
    long long* failures                 # by machine, how many up times have ended


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
    """Record that machine u fails; a machine that is down from the beginning has had no up time."""
    if now > o.since[u]:
        if o.by == PAST:
            o.up_time[KEPT * u + o.failures[u] % KEPT] = now - o.since[u]
        o.failures[u] += 1


cdef inline long long outlook_until(const Outlook* o, Py_ssize_t u, long long now) noexcept nogil:
    """Return when machine u, which is up, is expected to fail, ns.

    TOLD : as it was given.  PAST : after the mean of its up times that were longer than its age, E[X | X > age]; if
        none was, as with AGE.  AGE : after as long again as it has been up.
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
