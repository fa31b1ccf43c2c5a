"""C-level contract of the board."""

from gridcore.common.pending cimport Pending
from gridcore.nodes.random_stream cimport RandomStream

cdef struct Publication:
    double value, factor                # `factor` is the error
    long long since                     # ns, when it was published
    int node
    bint falling


cdef class Board:
    cdef readonly Py_ssize_t nodes      # number of nodes, or of applications
    cdef readonly bint is_per_application
    cdef long long age                  # ns
    cdef int refresh
    cdef double sigma                   # standard deviation of the logarithm of errors
    cdef RandomStream errors
    cdef const long long[::1] phase     # ns, per node
    cdef Pending pending                # publications that are not shown yet, by the instant of their display
    cdef Publication* waiting
    cdef int* unused
    cdef int n_unused, room
    cdef long long n_publications       # number of publications so far
    cdef Publication* at                # per node: its publication that is shown
    cdef double[::1] values
    cdef int n_falling                  # number of falling values among those shown
    cdef long long read_at              # the instant of `values`, ns; -1: they are outdated
    cdef object read_only_values        # a view of `values`

    cdef int _publish(self, Py_ssize_t node, double value, bint falling, long long now) except -1
    cdef double* _read(self, long long now) except NULL
    cdef int _show(self, const Publication* new) except -1
    cdef long long _shown_as_of(self, Py_ssize_t node, long long now) noexcept
    cdef int _add(self, const Publication* new, long long due, long long sequence) except -1
    cdef dict _entries(self)
    cdef int _set(self, state) except -1
