"""C-level declarations of handlers that are written in Cython."""

from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.outbox cimport outbox_add


cdef inline long long* put(NodeActions core, Py_ssize_t kind, Py_ssize_t to, Py_ssize_t sender) except NULL:
    """Append an outgoing message, and return its fields, which the caller fills in."""
    core.dirty = True
    return outbox_add(&core.out[kind], to, sender)


cdef class Handlers:
    cdef readonly Py_ssize_t nodes, applications
    cdef bint holds_tasks               # whether the core counts the tasks that each node must place
    cdef int n_timers                   # the number of names of timers of applications
    cdef bint in_batches                # whether the core calls the methods for many messages or nodes at once

    cdef int _bind(self, NodeActions core) except -1
    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1
    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1
    cdef int _fire(self, NodeActions core, int name, Py_ssize_t application) except -1
    cdef int _take_messages(self, NodeActions core, Py_ssize_t kind, Py_ssize_t n) except -1
    cdef int _take_deferred(self, NodeActions core, Py_ssize_t kind, const unsigned char[:, ::1] records) except -1
    cdef int _act(self, NodeActions core, const int* nodes, Py_ssize_t n) except -1
    cdef int _tick(self, NodeActions core, str name, const long long[::1] nodes) except -1
    cdef int _lose(self, NodeActions core, Py_ssize_t kind, const long long* row) except -1
    cdef bint _may_place(self, const long long* row) noexcept nogil
    cdef Py_ssize_t _extra(self, Py_ssize_t kind, const long long* row) noexcept nogil
    cdef int _wrap(self, Py_ssize_t kind, const long long* row, char* to) except -1
    cdef int _unwrap(self, Py_ssize_t kind, long long* row, const char* source) except -1
    cdef int _forget(self, Py_ssize_t node) except -1
