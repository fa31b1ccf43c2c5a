"""The optional log of the decisions of `gridcore.dgs.protocol`, which passes rows on when there are many."""

from libc.math cimport NAN
from libc.stdlib cimport free

from gridcore.common.memory cimport reallocate

cdef enum:                              # the actions, in the order of `gridcore.dgs.state.ACTIONS`
    ASKED, OPENED, ANSWERED, UNREACHED, DROPPED, CHOSE, REFUSED, REFUSED_LATE, RELEASED, PLACES, SEARCHED_AGAIN
    WAITED, WAITED_FOR_ROOM, WAITED_FOR_MACHINES, TOO_LARGE, GAVE_UP, OVERDUE, MISSED, TOO_LATE, CALLED_OFF, EXTENDED, DISPLACED

cdef enum:
    DECISIONS = 4096                    # number of rows from which on they are passed on


cdef struct Decision:                   # a row: `gridcore.dgs.state.DECISION` as a struct
    long long time, application, action, decider, machine, tasks, among
    double saw, limit, true_, age


cdef struct DecisionLog:                # all zero when it is empty
    Decision* row
    Py_ssize_t n, room
    long long left                      # number of rows that may still be logged
    long long lost                      # number of rows since the last transfer that were not logged


cdef inline void decisions_free(DecisionLog* l) noexcept nogil:
    free(l.row)


cdef inline int decisions_add(DecisionLog* l, int action, long long time, long long job, long long decider,
                              Decision** row) except -1:
    """Add a row and set `row` to it, for the caller to fill in; NULL if no more rows may be logged."""
    cdef Decision* d
    row[0] = NULL
    if l.left == 0:
        l.lost += 1
        return 0
    if l.n == l.room:
        l.row = <Decision*> reallocate(l.row, (2 * l.room + 256) * sizeof(Decision))
        l.room = 2 * l.room + 256
    d = &l.row[l.n]
    l.n += 1
    l.left -= 1
    d.time, d.application, d.action, d.decider = time, job, action, decider
    d.machine, d.tasks, d.among = -1, 0, -1
    d.saw = d.limit = d.true_ = d.age = NAN
    row[0] = d
    return 0
