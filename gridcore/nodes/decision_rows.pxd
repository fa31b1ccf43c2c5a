"""C-level declarations of the rows of decisions."""

cdef packed struct DecisionRow:         # a row of `gridsim.results.decisions.Decisions`
    long long time, application, task
    short action
    long long decider
    short level
    long long machine, tasks, among
    double saw, limit, true_value, age


cdef class DecisionRows:
    cdef object deliver
    cdef readonly dict codes            #: Action -> its number.
    cdef object buffer
    cdef DecisionRow[::1] row           # the first `n` are in use
    cdef Py_ssize_t n

    cdef DecisionRow* _add(self, str action, long long time, Py_ssize_t application, Py_ssize_t decider) except NULL
