"""C-level contract of the EDF kernel."""

from libc.math cimport fabs

cdef struct Queue:                 # the queue of one node, in any order
    Py_ssize_t n
    const double* release          # s
    const double* size             # Mflop of the whole application
    const double* work             # Mflop left on this node
    double speed                   # Mflop/s
    double free_at                 # when the processor can start the queue, s
    double floor                   # (free_at - r_run)/w_run of the pinned running task, 0 if none

cdef double minimum_stretch(const Queue* q, int* order, double* scratch) noexcept nogil
    # order[n]: at entry any permutation (a warm start), at exit the EDF order (deadline, then index) at
    # the result. scratch: >= 3*n doubles.

cdef double bisect(const Queue* q, int* order, double* scratch, double rtol) noexcept nogil
    # As minimum_stretch, but with a relative error of up to `rtol`, 0 < rtol < 1: the result may be too large.

cdef inline bint is_late(double end, double deadline) noexcept nogil:
    """Return whether `end` is later than `deadline` by more than 1e-12 relative."""
    cdef double a, b
    if end <= deadline:
        return False
    a = fabs(end)
    b = fabs(deadline)
    return not end <= deadline + 1e-12 * (a if a > b else b)


cdef inline bint is_met(const double* end, const double* deadline, Py_ssize_t n) noexcept nogil:
    """Return whether no entry ends after its deadline."""
    cdef Py_ssize_t k
    for k in range(n):
        if is_late(end[k], deadline[k]):
            return False
    return True


cdef inline bint is_after(double key, int index, double key2, int index2) noexcept nogil:
    """Return whether the first entry follows the second in EDF order: by deadline, then by index."""
    return key > key2 or (key == key2 and index > index2)


cdef bint sort_by_deadline(double* key, int* order, Py_ssize_t n, double* scratch) noexcept nogil
    # Sorts the pairs (key[k], order[k]) ascending, and returns False if they already were; fast when nearly sorted.
    # scratch: >= n doubles.

cdef bint spans_float64(const Queue* q) noexcept nogil
    # Returns False if the times of serving the queue exceed the range of float64.

cdef double running_floor(object running_release, object running_size, double free_at) except? -1.0
cdef tuple check_running(object running_release, object running_size, Py_ssize_t nodes)
