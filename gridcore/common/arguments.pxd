"""Checks of arguments, and `guard`, for all kernels."""

cdef enum:
    FINITE = 0
    NOT_NEGATIVE = 1
    POSITIVE = 2
    NUMBER = 3                     # also +inf, but not nan or -inf

cdef class _Guard:                  # marks an object as in use, see `guard`
    cdef bint* in_call
    cdef _Guard inner

cdef _Guard guard(bint* in_call, _Guard inner=*)

cdef object refuse(str name, Py_ssize_t index, str rule, double value)
cdef const double[::1] doubles(object values, str name)
cdef object doubles_copy(object values, str name)
cdef int check_entry(double value, str name, Py_ssize_t index, int rule) except -1
cdef int check_scalar(double value, str name, int rule) except -1
cdef int check_array(const double[::1] values, str name, int rule) except -1
cdef int check_instant(long long value, str name, long long margin=*) except -1
cdef int check_lengths(Py_ssize_t n, Py_ssize_t m, str first, str second) except -1
cdef int check_offsets(const long long[::1] offsets, Py_ssize_t entries) except -1
cdef object plain(object values)
cdef object integers(object values, str name)
cdef long long[::1] writable(object values, str name)
cdef object indices(object values, str name, long long low, long long high)
