"""How long machines are expected to stay up: for `gridcore.work_queue.dispatch`.

A prediction is an instant.  It is given from outside when a machine recovers, or computed from the machine's history:
from its earlier up times, or from its age (how long it has been up) alone.
"""

from libc.math cimport llrint
from libc.stdlib cimport free

from gridcore.common.memory cimport reallocate

cdef enum:
    MAX_UP_TIMES = 32                   # largest number of recent up times that are stored per machine

cdef enum Prediction:
    TOLD, PAST, AGE


cdef struct UptimePredictor:
    Prediction by
    long long* up_time                  # by machine: a ring of its last MAX_UP_TIMES up times, ns; only for PAST
    long long* since                    # by machine: when it came up, ns
    long long* forecast                 # by machine: the prediction of the caller, ns
    long long* failures                 # by machine: number of up times that have ended


cdef inline int predictor_make(UptimePredictor* o, Py_ssize_t machines, Prediction by) except -1:
    cdef Py_ssize_t k
    o.by = by
    o.since = <long long*> reallocate(NULL, (machines + 1) * sizeof(long long))
    o.forecast = <long long*> reallocate(NULL, (machines + 1) * sizeof(long long))
    o.failures = <long long*> reallocate(NULL, (machines + 1) * sizeof(long long))
    if by == PAST:
        o.up_time = <long long*> reallocate(NULL, (machines + 1) * MAX_UP_TIMES * sizeof(long long))
        for k in range(machines * MAX_UP_TIMES):
            o.up_time[k] = 0
    for k in range(machines):
        o.since[k] = o.forecast[k] = o.failures[k] = 0
    return 0


cdef inline void predictor_free(UptimePredictor* o) noexcept nogil:
    free(o.up_time)
    free(o.since)
    free(o.forecast)
    free(o.failures)


cdef inline void predictor_up(UptimePredictor* o, Py_ssize_t u, long long now, long long forecast) noexcept nogil:
    o.since[u], o.forecast[u] = now, forecast


cdef inline void predictor_down(UptimePredictor* o, Py_ssize_t u, long long now) noexcept nogil:
    """Record that machine u fails; a machine that is down from the beginning has had no up time."""
    if now > o.since[u]:
        if o.by == PAST:
            o.up_time[MAX_UP_TIMES * u + o.failures[u] % MAX_UP_TIMES] = now - o.since[u]
        o.failures[u] += 1


cdef inline long long predicted_end(const UptimePredictor* o, Py_ssize_t u, long long now) noexcept nogil:
    """Return when machine u, which is up, is expected to fail, ns.

    TOLD: at the forecast.  PAST: after the mean of its up times that were longer than its age, E[X | X > age]; if
    there are none, as with AGE.  AGE: after twice its age.
    """
    cdef long long age = now - o.since[u], longest = 9223372036854775807
    cdef Py_ssize_t k
    cdef double total = 0.0
    cdef long long longer = 0
    if o.by == TOLD:
        return o.forecast[u]
    if o.by == PAST:
        for k in range(min(o.failures[u], <long long> MAX_UP_TIMES)):
            if o.up_time[MAX_UP_TIMES * u + k] > age:
                total += <double> o.up_time[MAX_UP_TIMES * u + k]
                longer += 1
        if longer > 0:
            total = total / <double> longer
            return o.since[u] + llrint(total) if total < 9.2e18 - <double> o.since[u] else longest
    return now + age if age < longest - now else longest
