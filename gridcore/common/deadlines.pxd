"""Deadlines of a queue at a stretch, with the widest instructions of the processor; `cells` has the level."""

from libc.stdint cimport uint64_t


cdef extern from "deadlines.h":
    enum:
        MAYBE_LATE "GRIDCORE_MAYBE_LATE"
        UNSORTED "GRIDCORE_UNSORTED"
    int deadlines_at "gridcore_deadlines"(
        const double* release, const double* size, const double* end, const double* done, double stretch,
        double start, double speed, Py_ssize_t n, double* deadline, double* slack) noexcept nogil
    void minimum_from "gridcore_minimum_from"(double* x, Py_ssize_t n) noexcept nogil
    void find_inversions "gridcore_inversions"(
        const double* deadline, Py_ssize_t n, uint64_t* bits) noexcept nogil
