"""C-level contract of handlers that are written in Cython."""

from gridcore.nodes.node_actions cimport NodeActions


cdef class Handlers:
    cdef readonly Py_ssize_t nodes, applications

    cdef int _bind(self, NodeActions core) except -1
    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1
    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1
    cdef int _forget(self, Py_ssize_t node) except -1
