"""Instants of kernels, int64 ns; `gridcore.common.state` has them for Python."""

from libc.math cimport llrint

cdef extern from *:
    """
    #define GRIDCORE_NEVER 9223372036854775807LL
    /* The latest instant of a state, and the longest time that is computed with: the sum of two does not overflow. */
    #define GRIDCORE_LATEST (1LL << 61)
    """
    const long long NEVER "GRIDCORE_NEVER"
    const long long LATEST "GRIDCORE_LATEST"


cdef inline long long later_by(long long now, double seconds) noexcept nogil:
    """Return the instant (ns) `seconds` >= 0 after `now`; a duration of 2e9 s or more counts as `LATEST`."""
    return now + (llrint(seconds * 1e9) if seconds < 2e9 else LATEST)
