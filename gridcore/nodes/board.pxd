"""C-level declarations of the board."""

from gridcore.common.heap cimport Event
from gridcore.common.pending cimport Pending
from gridcore.nodes.random_stream cimport RandomStream

cdef struct Publication:
    double value, factor                # `factor` is the error
    long long since                     # ns, when it was published
    int node
    short column
    unsigned char falling
    # of a shown number: whether `Column.changes` replaces it; of a waiting one: whether it ends such a change
    unsigned char changed


cdef struct Match:
    long long until                     # the last instant of `Board._clock` at which `winner` is certain
    int winner                          # the node with the least number in a subtree


cdef struct Column:                     # the shown numbers of one name
    double* values                      # per node
    Publication* at                     # per node
    Publication* changes                # per node: its number after additions, if it is changed; NULL until it is needed
    Py_ssize_t n_falling                # number of falling values
    long long read_at                   # the instant of `values`, ns; -1: they are outdated
    Match* tree                         # per inner node of a binary tree with the nodes as leaves; NULL until it is needed


cdef class Board:
    cdef readonly Py_ssize_t nodes      # number of nodes, or of applications
    cdef readonly bint is_per_application
    cdef readonly tuple numbers         # type: tuple[str, ...]
    cdef long long age                  # ns
    cdef int refresh
    cdef double sigma                   # standard deviation of the logarithm of errors
    cdef RandomStream errors
    cdef const long long[::1] phase     # ns, per node
    cdef Pending pending                # publications that are not shown yet, by the instant of their display
    cdef Publication* waiting
    cdef int* unused
    cdef int n_unused, capacity
    cdef long long n_publications       # number of publications so far
    cdef long long batch                # number of additions between two refreshes
    cdef long long n_additions, n_refreshes, refreshed_at   # `refreshed_at`: ns
    cdef Column* columns
    cdef Py_ssize_t n_columns
    cdef list arrays                    # per column, read-only float64[nodes]: views of `values`
    cdef Event* candidate               # scratch of `_least`: a heap by number, then node; the slot is a place in the tree
    cdef Py_ssize_t n_candidates, candidate_capacity

    cdef int _check(self, node, column) except -1
    cdef Py_ssize_t _column(self, name) except -1
    cdef int _publish(self, Py_ssize_t node, Py_ssize_t column, double value, bint falling, long long now) except -1
    cdef int _fail(self, Py_ssize_t node, long long now) except -1
    cdef int _change(self, Py_ssize_t node, Py_ssize_t column, double delta, long long now, bint is_last) except -1
    cdef int _end_addition(self, long long now) except -1
    cdef double* _read(self, Py_ssize_t column, long long now) except NULL
    cdef double _number(self, Py_ssize_t node, Py_ssize_t column, long long now) except? -1.0
    cdef Py_ssize_t _least(self, Py_ssize_t column, Py_ssize_t k, long long now, long long* nodes) except -1

    cdef long long _due(self, Py_ssize_t node, long long now) noexcept
    cdef long long _next_refresh(self, Py_ssize_t node, long long now) noexcept
    cdef int _add(self, const Publication* new, long long due, long long sequence) except -1
    cdef int _show(self, Column* column, Py_ssize_t node) except -1
    cdef int _apply(self, long long now) except -1
    cdef long long _shown_as_of(self, Py_ssize_t node, long long now) noexcept
    cdef double _shown(self, const Column* column, Py_ssize_t node, long long now) noexcept
    cdef long long _clock(self, long long now) noexcept
    cdef int _add_candidate(self, Column* column, Py_ssize_t at, long long now, long long clock) except -1
    cdef Py_ssize_t _winner(self, Column* column, Py_ssize_t at, long long now, long long clock) noexcept
    cdef long long _certain_until(self, const Publication* first, const Publication* second, double least,
                                  double other, long long now, long long clock) noexcept
    cdef dict _entries(self)
    cdef int _set(self, state) except -1
