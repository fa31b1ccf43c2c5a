"""C-level contract of the board."""

from gridcore.common.pending cimport Pending
from gridcore.nodes.random_stream cimport RandomStream

cdef struct Published:
    double value, factor                # factor: the error
    long long since                     # ns, when it was published
    int node
    bint falling


cdef class Board:
    cdef readonly Py_ssize_t nodes      # or applications
    cdef readonly bint of_applications
    cdef long long age                  # ns
    cdef int refresh
    cdef double sigma                   # of the logarithm of errors
    cdef RandomStream errors
    cdef const long long[::1] phase     # ns, per node
    cdef Pending pending                # what has been published and is not shown yet, by when it will be
    cdef Published* waiting
    cdef int* unused
    cdef int n_unused, room
    cdef long long published            # how often something has been
    cdef Published* at                  # what is shown of each node
    cdef double[::1] shown
    cdef int n_falling                  # of those that are shown
    cdef long long read_at              # ns, for which `shown` holds; -1 if something has come since
    cdef object given                   # `shown` as an array that nobody else writes

    cdef int _publish(self, Py_ssize_t node, double value, bint falling, long long now) except -1
    cdef double* _read(self, long long now) except NULL
    cdef int _show(self, const Published* new) except -1
    cdef long long _true_at(self, Py_ssize_t node, long long now) noexcept
    cdef int _add(self, const Published* new, long long due, long long sequence) except -1
    cdef dict _entries(self)
    cdef int _set(self, state) except -1
