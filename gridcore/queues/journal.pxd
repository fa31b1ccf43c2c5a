"""A journal of arrivals, runs or completions of tasks, a row for each."""

from libc.stdlib cimport realloc
from libc.string cimport memcpy

cdef struct Row:
    long long machine, application, tasks, start, end, completed


cdef struct Journal:                    # all zero when empty
    Row* row
    Py_ssize_t n, capacity
    bint is_incomplete                  # whether a row was lost because there was no memory
    Row spare                           # where such a row is written


cdef inline Row* journal_add(Journal* j) noexcept nogil:
    """Add a row and return it; the caller must fill it."""
    cdef Py_ssize_t capacity
    cdef Row* wider
    if j.n == j.capacity:
        capacity = j.capacity + j.capacity // 2 + 64
        wider = <Row*> realloc(j.row, capacity * sizeof(Row))
        if wider == NULL:
            j.is_incomplete = True
            return &j.spare
        j.row, j.capacity = wider, capacity
    j.n += 1
    return &j.row[j.n - 1]


cdef inline void journal_record(Journal* j, Py_ssize_t u, int application, long long tasks, long long start,
                              long long end, long long completed) noexcept nogil:
    """Add a row, or extend the last row if the same machine continues to complete tasks of the application."""
    cdef Row* row
    if completed and j.n:
        row = &j.row[j.n - 1]
        if row.machine == u and row.application == application and row.end == start and row.completed:
            row.tasks += tasks
            row.completed += completed
            row.end = end
            return
    row = journal_add(j)
    row.machine, row.application, row.tasks = u, application, tasks
    row.start, row.end, row.completed = start, end, completed


cdef inline int journal_copy(const Journal* j, long long[:, ::1] rows) except -1:
    """Copy the rows into `rows`, int64[n, 6]."""
    if j.is_incomplete:
        raise MemoryError("not enough memory for a row of the record")
    if j.n:
        memcpy(&rows[0, 0], j.row, j.n * sizeof(Row))
    return 0


cdef inline int journal_fill(Journal* j, const long long[:, ::1] rows) except -1:
    """Replace all rows by `rows`, int64[k, 6]."""
    cdef Py_ssize_t k
    j.n, j.is_incomplete = 0, False
    for k in range(rows.shape[0]):
        memcpy(journal_add(j), &rows[k, 0], sizeof(Row))
    if j.is_incomplete:
        raise MemoryError("not enough memory for a row of the record")
    return 0
