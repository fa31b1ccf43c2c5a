"""C-level declarations of the record of decisions of a fair tree."""

from gridcore.nodes.decision_rows cimport DecisionRow, DecisionRows
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.queues.task_queues cimport Scratch, TaskQueues


cdef struct OpenLeaf:                   # a leaf whose capacity differs at the ends of the interval of `_smallest`
    int machine
    double low, high, middle            # its room at both ends, and at the stretch that is examined


cdef class TreeDecisionLog:
    cdef TaskQueues queues
    cdef DecisionRows rows
    cdef const unsigned char[::1] up
    cdef const unsigned char[:, ::1] suitable   # by group of applications; empty if all machines suit
    cdef const long long[::1] group
    cdef object speeds
    cdef Scratch scratch
    cdef Py_ssize_t scratch_capacity
    # the leaves that are examined
    cdef int[::1] machine
    cdef Py_ssize_t n
    # the interval of `_smallest`: the stretch `low` is too small, `high` is not; `fixed` is the room of leaves that are
    # not open
    cdef OpenLeaf* open_leaves
    cdef Py_ssize_t n_open
    cdef double low, high, fixed
    cdef double total                   # the total room at the last stretch that was tried

    cdef int _record(self, NodeActions core, Py_ssize_t node, str action, Py_ssize_t application, Py_ssize_t target,
                     long long tasks, double saw=*, double limit=*, long long sampled=*) except -1
    cdef int _complete(self, DecisionRow* row, str action, Py_ssize_t node, Py_ssize_t target, Py_ssize_t application,
                       long long sampled, long long now) except -1
    cdef Py_ssize_t _find_leaves(self, Py_ssize_t node, Py_ssize_t application, long long now) except -1
    cdef double _capacity(self, double stretch, Py_ssize_t application, long long now) noexcept nogil
    cdef double _smallest(self, Py_ssize_t application, long long tasks, double guess, long long now) except -1.0
    cdef bint _has_room(self, double stretch, Py_ssize_t application, long long tasks, long long now) noexcept nogil
