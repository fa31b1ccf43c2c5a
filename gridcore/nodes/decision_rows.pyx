"""Rows of decisions that kernels record, without a call of Python for each row."""

from libc.math cimport NAN

cimport cython

import numpy as np

__all__ = ["DecisionRows"]

# The number of rows in the buffer.
cdef enum:
    ROOM = 4096


@cython.auto_pickle(False)
cdef class DecisionRows:
    """A buffer of rows for a record of decisions, which empties it before other accesses.

    Parameters
    ----------
    decisions
        The `gridsim.results.decisions.Decisions` of the run.
    """

    def __cinit__(self, decisions):
        self.codes, self.deliver = decisions.codes, decisions.add
        self.buffer = np.empty(ROOM, decisions.rows.dtype)
        self.row = self.buffer
        decisions.flush = self.flush

    def flush(self):
        """Add the rows in the buffer to the record."""
        cdef Py_ssize_t n = self.n
        self.n = 0
        if n:
            self.deliver(self.buffer[:n])

    cdef DecisionRow* _add(self, str action, long long time, Py_ssize_t application, Py_ssize_t decider) except NULL:
        """Add a row, and return it; the pointer is valid until the next call."""
        cdef DecisionRow* row
        if self.n == ROOM:
            self.flush()
        row = &self.row[self.n]
        row.action = self.codes[action]
        row.time, row.application, row.task, row.decider, row.level = time, application, -1, decider, -1
        row.machine, row.tasks, row.among = -1, 0, -1
        row.saw = row.limit = row.true_value = row.age = NAN
        self.n += 1
        return row
