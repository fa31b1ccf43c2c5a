"""What has happened, row by row, for kernels that keep a record of it."""

from libc.stdlib cimport realloc

cdef struct Row:
    long long machine, application, tasks, start, end, completed


cdef struct Journal:                    # all zero when empty
    Row* row
    Py_ssize_t n, room
    bint torn                           # there was no memory for a row,
    Row lost                            # which has gone here


cdef inline Row* journal_add(Journal* j) noexcept nogil:
    """A further row, to be filled."""
    cdef Py_ssize_t room
    cdef Row* wider
    if j.n == j.room:
        room = j.room + j.room // 2 + 64
        wider = <Row*> realloc(j.row, room * sizeof(Row))
        if wider == NULL:
            j.torn = True
            return &j.lost
        j.row, j.room = wider, room
    j.n += 1
    return &j.row[j.n - 1]
