"""Handlers of a node program that are written in Cython, in place of the program's own."""

__all__ = ["Handlers"]


cdef class Handlers:
    """The handlers and states of all nodes of a scheduler; base class.

    Parameters
    ----------
    nodes, applications
        How many there are.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *_args, **_more):
        self.nodes, self.applications = nodes, applications

    def getstate(self) -> dict[str, Any]:
        """What has changed since this was made; see `gridcore.common.state`."""
        raise NotImplementedError

    def setstate(self, state):
        """Go on from what `getstate` of an object made with the same arguments gave; raises ValueError."""
        raise NotImplementedError

    cdef int _bind(self, NodeActions core) except -1:
        """Read what the core knows by name, before the first handler is called."""
        return 0

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        """Handle a message: receiver, sender, fields; an array is its number in ``core.payloads``."""
        raise NotImplementedError

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* given) except -1:
        """Handle an event; given : application and tasks of releases and losses, name and value of timers."""
        raise NotImplementedError

    cdef int _forget(self, Py_ssize_t node) except -1:
        """Handle that a node fails: its state is that of a new one."""
        raise NotImplementedError
