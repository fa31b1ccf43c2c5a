"""How long a task takes on a machine, for kernels that dispatch whole tasks.

A task of `a` Mflop takes round(a / speed * 1e9) ns (half to even); this is computed in the same way everywhere.
"""

from libc.math cimport llrint

from gridcore.common.instants cimport NEVER


cdef inline long long duration(double task_size, double speed) noexcept nogil:
    """Return the run time of a task in ns; the last instant if it would be longer than that."""
    cdef double ns = task_size / speed * 1e9
    return llrint(ns) if ns < 9.2e18 else NEVER
