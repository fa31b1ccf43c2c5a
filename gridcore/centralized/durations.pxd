"""Run times of tasks on machines, for kernels that dispatch whole tasks.

A task of `task_size` Mflop takes round(task_size / speed * 1e9) ns (half to even) in every kernel.
"""

from libc.math cimport llrint

from gridcore.common.instants cimport NEVER


cdef inline long long duration(double task_size, double speed) noexcept nogil:
    """Return the run time of a task, ns; `NEVER` if it is 9.2e18 ns or more."""
    cdef double ns = task_size / speed * 1e9
    return llrint(ns) if ns < 9.2e18 else NEVER
