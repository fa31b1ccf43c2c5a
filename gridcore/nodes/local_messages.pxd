"""C-level declarations of local messages, which nodes send to themselves."""

from gridcore.common.pending cimport Pending, pending_count
from gridcore.common.instants cimport NEVER
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.payloads cimport Payloads

cdef class LocalMessages:
    cdef Py_ssize_t nodes
    cdef list kinds                     # the kinds of local messages
    cdef Payloads payloads              # the arrays in messages
    cdef Pending due                    # by time and order of arrival, with their slots
    # by slot: index of the kind (-1: the message was dropped, or the slot is unused), then the record of the message
    cdef long long* data
    cdef Py_ssize_t words               # number of words of a slot
    cdef int capacity                       # number of slots
    cdef list unused                    # unused slots
    cdef long long number               # number of messages sent so far

    cdef long long* _add(self, long long time, long long node, Py_ssize_t kind) except NULL
    cdef long long* _put(self, long long time, long long number, long long node, Py_ssize_t kind) except NULL
    cdef long long _first(self) except -1
    cdef list _take(self, long long now)
    cdef int _free(self, int slot) except -1
    cdef list _of(self, long long node)
    cdef int _drop(self, long long node) except -1
    cdef dict _entries(self)
    cdef int _read(self, state) except -1


cdef inline long long local_first(LocalMessages m) except -1:
    """Return when the next local message arrives, ns; `NEVER` if there is none."""
    return m._first() if pending_count(&m.due) else NEVER
