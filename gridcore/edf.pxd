"""C-level contract of the EDF kernel."""

from libc.math cimport fabs

cdef struct Queue:                 # one node's queue, any order
    Py_ssize_t n
    const double* release          # s
    const double* size             # Mflop of the whole application
    const double* work             # Mflop left on this node
    double speed                   # Mflop/s
    double free_at                 # s, when the processor can start the queue
    double floor                   # (free_at - r_run)/w_run of the pinned running task, 0 if none

cdef double minimum_stretch(const Queue* q, int* order, double* scratch) noexcept nogil
    # order[n]: a permutation at entry (a warm start), the EDF order (deadline, then index) at the
    # result at exit. scratch: >= 2*n doubles.

cdef inline bint late(double end, double deadline) noexcept nogil:
    """True when `end` is later than `deadline` by more than 1e-12 relative."""
    cdef double a, b
    if end <= deadline:
        return False
    a = fabs(end)
    b = fabs(deadline)
    return not end <= deadline + 1e-12 * (a if a > b else b)


cdef void sort_by_deadline(double* key, int* order, Py_ssize_t n, double* scratch) noexcept nogil
    # Sorts the pairs (key[k], order[k]) ascending; fast when nearly sorted. scratch: >= n doubles.

cdef bint spans_float64(const Queue* q) noexcept nogil
    # False if the queue cannot be served within the range of float64.

cdef class _Held:                  # who is in an object: see `hold`
    cdef bint* occupied
    cdef _Held rest

cdef _Held hold(bint* occupied, _Held rest=*)

cdef object refuse(str name, Py_ssize_t index, str rule, double value)
cdef const double[::1] doubles(object values, str name)
cdef int check_scalar(double value, str name, int rule) except -1
cdef int check_array(const double[::1] values, str name, int rule) except -1
cdef int check_instant(long long value, str name, long long room=*) except -1
cdef int check_lengths(Py_ssize_t n, Py_ssize_t m, str first, str second) except -1
cdef double running_floor(object running_release, object running_size, double free_at) except? -1.0
cdef int check_offsets(const long long[::1] offsets, Py_ssize_t entries) except -1
cdef object integers(object values, str name)
cdef object indices(object values, str name, long long low, long long high)
cdef tuple check_running(object running_release, object running_size, Py_ssize_t nodes)

cdef enum:
    FINITE = 0
    NOT_NEGATIVE = 1
    POSITIVE = 2
    NUMBER = 3                     # +inf is allowed, nan and -inf are not
