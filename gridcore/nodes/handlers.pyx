"""Handlers written in Cython, which replace those of a node program."""

__all__ = ["Handlers"]


cdef class Handlers:
    """The handlers and states of all nodes of a scheduler; base class.

    Parameters
    ----------
    nodes, applications
        The number of nodes, and of applications.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *_args, **_options):
        self.nodes, self.applications, self.holds_tasks = nodes, applications, True

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        raise NotImplementedError

    def setstate(self, state):
        """Restore a state of `getstate` of an object with the same arguments; raise ValueError if it is invalid."""
        raise NotImplementedError

    cdef int _bind(self, NodeActions core) except -1:
        """Look up the kinds and timers of the core by name, before the first handler is called."""
        return 0

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        """Handle a message.

        `row` has its receiver, its sender and its fields; the field of an array is its number in ``core.payloads``.
        """
        raise NotImplementedError

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        """Handle an event of `gridcore.nodes.roles`, or a local message, which has a higher event number.

        `arguments` are application and tasks (release, loss), name and value (timer), or the record of the message.
        """
        raise NotImplementedError

    cdef int _fire(self, NodeActions core, int name, Py_ssize_t application) except -1:
        """Handle a timer of an application."""
        raise NotImplementedError

    cdef int _take_messages(self, NodeActions core, Py_ssize_t kind, Py_ssize_t n) except -1:
        """Handle the messages of a kind in ``core.links.due``, in order of delivery, and free their slots.

        The core calls this method instead of `_message`, if handlers are `in_batches`.
        """
        raise NotImplementedError

    cdef int _take_deferred(self, NodeActions core, Py_ssize_t kind, const unsigned char[:, ::1] records) except -1:
        """Handle messages of a deferred kind, in any order, if handlers are `in_batches`."""
        raise NotImplementedError

    cdef int _act(self, NodeActions core, const int* nodes, Py_ssize_t n) except -1:
        """Handle the acts of `n` nodes at this instant, ascending, if handlers are `in_batches`."""
        raise NotImplementedError

    cdef int _tick(self, NodeActions core, str name, const long long[::1] nodes) except -1:
        """Handle a timer that the environment fires at `nodes`, if handlers are `in_batches`."""
        raise NotImplementedError

    cdef int _lose(self, NodeActions core, Py_ssize_t kind, const long long* row) except -1:
        """Free the data that handlers keep for a message that does not arrive."""
        return 0

    # -- for processes that share a run (`gridcore.nodes.shared_events`) --------------------------------------

    cdef bint _may_place(self, const long long* row) noexcept nogil:
        """Return whether tasks of a message may be placed within the time that another message takes."""
        return True

    cdef Py_ssize_t _extra(self, Py_ssize_t kind, const long long* row) noexcept nogil:
        """Return the number of bytes that `_wrap` writes."""
        return 0

    cdef int _wrap(self, Py_ssize_t kind, const long long* row, char* to) except -1:
        """Write the data that handlers keep for a message to another process to `to`, and free the data here."""
        return 0

    cdef int _unwrap(self, Py_ssize_t kind, long long* row, const char* source) except -1:
        """Keep the data that `_wrap` of another process has written for a message from there."""
        return 0

    cdef int _forget(self, Py_ssize_t node) except -1:
        """Reset the state of a node that fails."""
        raise NotImplementedError
