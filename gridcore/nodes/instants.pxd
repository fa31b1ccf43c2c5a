"""Instants of nodes, whole ns: for the message core."""

from libc.math cimport llrint

cdef extern from *:
    """
    #define GRIDCORE_NEVER 9223372036854775807LL
    /* Timers of a longer time than this are set for this: no simulation lasts so long. */
    #define GRIDCORE_LONGEST (1LL << 61)
    """
    const long long NEVER "GRIDCORE_NEVER"
    const long long LONGEST "GRIDCORE_LONGEST"


cdef inline long long later_by(long long now, double seconds) noexcept nogil:
    """The instant so many seconds after `now`; they must be 0 or more, and finite."""
    return now + (llrint(seconds * 1e9) if seconds < 2e9 else LONGEST)
