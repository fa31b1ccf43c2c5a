"""C-level contract of local messages, which nodes send to themselves."""

from gridcore.common.pending cimport Pending
from gridcore.common.instants cimport NEVER
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.payloads cimport Payloads

cdef class LocalMessages:
    cdef Py_ssize_t nodes
    cdef list kinds                     # the kinds of local messages
    cdef Pending due                    # by time and order of arrival, with their slots
    cdef list messages                  # by slot: (node, kind, message); None if it was dropped or the slot is unused
    cdef list unused                    # unused slots
    cdef long long number               # number of messages sent so far

    cdef int _add(self, long long time, int node, MessageKind kind, message) except -1
    cdef int _put(self, long long time, long long number, int node, MessageKind kind, message) except -1
    cdef long long _first(self) except -1
    cdef list _take(self, long long now)
    cdef list _of(self, long long node)
    cdef int _drop(self, long long node) except -1
    cdef tuple _entries(self, Payloads payloads)
    cdef int _read(self, state, Payloads payloads) except -1


cdef inline long long local_first(LocalMessages m) except -1:
    """Return when the next local message arrives, ns; `NEVER` if there is none."""
    return m._first() if m.due.n or m.due.n_ring else NEVER
