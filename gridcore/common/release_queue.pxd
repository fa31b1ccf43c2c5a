"""C-level declarations of the releases of applications, some of which follow the ends of others."""

from gridcore.common.heap cimport Entry

cdef enum:
    HELD, DUE, RELEASED, OVER


cdef class ReleaseQueue:
    cdef bint in_call                      # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t applications  #: number of applications
    cdef const long long[::1] think
    cdef const int[::1] successors         # the applications after each one
    cdef const long long[::1] offsets      # where its successors begin
    cdef unsigned char[::1] is_skipped
    cdef int[::1] open                     # by application: how many of its predecessors have not ended
    cdef char[::1] status
    cdef long long[::1] at
    cdef double[::1] seconds
    cdef Entry* due                        # heap of the applications whose predecessors have ended
    cdef Py_ssize_t n_due

    cdef void _push(self, Py_ssize_t application) noexcept nogil
    cdef long long first(self) noexcept nogil
    cdef Py_ssize_t take_one(self, long long now) noexcept nogil
    cdef void end_one(self, Py_ssize_t application, long long now) noexcept nogil
