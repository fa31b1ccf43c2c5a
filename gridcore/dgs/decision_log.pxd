"""C-level declarations of the record of DGS_ASAP's decisions."""

from gridcore.dgs.slots cimport SlotSchedules
from gridcore.nodes.decision_rows cimport DecisionRow, DecisionRows


cdef class DgsDecisionLog:
    cdef object grid
    cdef SlotSchedules schedules
    cdef DecisionRows rows
    cdef long long slot, one_way        # ns

    cdef double _seconds(self, long long slots) noexcept
    cdef double _age(self, long long now, long long as_of) noexcept
    cdef double _earliest(self, const int[::1] nodes, long long tasks, long long length, long long start) except -1
    cdef int _ask(self, long long now, Py_ssize_t job, Py_ssize_t home, const int[:] neighbours, Py_ssize_t n,
                  Py_ssize_t n_known) except -1
    cdef int _choose(self, str action, long long now, Py_ssize_t job, Py_ssize_t decider, long long length,
                     long long start, Py_ssize_t searcher, const int[::1] nodes, Py_ssize_t n_answers) except -1
    cdef int _place(self, long long now, Py_ssize_t job, Py_ssize_t decider, long long tasks, long long start,
                    bint has_lost_node) except -1
    cdef int _look(self, long long now, Py_ssize_t searcher, Py_ssize_t home, Py_ssize_t job, long long tasks,
                   long long length, nodes, const long long[::1] as_of, Py_ssize_t n_own, long long n_opened,
                   long long first, long long left) except -1
    cdef int _answer(self, long long now, Py_ssize_t searcher, Py_ssize_t home, Py_ssize_t job, long long tasks,
                     long long length, long long start) except -1
    cdef int _refuse(self, str action, long long now, Py_ssize_t node, Py_ssize_t home, Py_ssize_t job,
                     long long length, long long start) except -1
