"""Arithmetic on the cells of summaries, with the widest instructions of the processor.

Each module that cimports this has its own instruction level, which `detect` sets.
"""

cdef extern from "cells.h":
    int detect "gridcore_detect"(int limit) noexcept nogil
    void divide "gridcore_divide"(
        const double* h, double a, unsigned int* out, Py_ssize_t step, Py_ssize_t n) noexcept nogil
    void saturating_add "gridcore_add"(
        const unsigned int* a, const unsigned int* b, unsigned int* out, Py_ssize_t n) noexcept nogil
    bint add_narrow "gridcore_add_narrow"(
        const unsigned short* a, const unsigned short* b, unsigned short* out, Py_ssize_t n) noexcept nogil
    bint narrow "gridcore_narrow"(const unsigned int* a, unsigned short* out, Py_ssize_t n) noexcept nogil
    void widen "gridcore_widen"(const unsigned short* a, unsigned int* out, Py_ssize_t n) noexcept nogil
    void debit_rows "gridcore_debit"(
        const unsigned int* cells, unsigned int* out, Py_ssize_t n_stretch, Py_ssize_t n_size, Py_ssize_t n_task_size,
        const double* size, const unsigned int* drops, const double* limits) noexcept nogil
    void debit_narrow_rows "gridcore_debit_narrow"(
        const unsigned short* cells, unsigned short* out, Py_ssize_t n_stretch, Py_ssize_t n_size,
        Py_ssize_t n_task_size, const double* size, const unsigned int* drops, const double* limits) noexcept nogil
