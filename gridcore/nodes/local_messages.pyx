"""Local messages, which nodes send to themselves by `View.later`."""

cimport cython

from gridcore.common.pending cimport (
    Event, pending_clear, pending_first, pending_free, pending_pop, pending_push, pending_read,
)

import numpy as np

from gridcore.nodes.state import local_entries, read_local

__all__ = ["LocalMessages"]


@cython.final
@cython.auto_pickle(False)
cdef class LocalMessages:
    """The local messages under way, of all nodes."""

    def __cinit__(self, Py_ssize_t nodes):
        self.nodes = nodes
        self.kinds, self.messages, self.unused = [], [], []

    def __dealloc__(self):
        pending_free(&self.due)

    cdef int _add(self, long long time, int node, MessageKind kind, message) except -1:
        """Add a message that arrives at `time` ns, after all messages that were already added for this instant."""
        self._put(time, self.number, node, kind, message)
        self.number += 1
        return 0

    cdef int _put(self, long long time, long long number, int node, MessageKind kind, message) except -1:
        cdef int slot
        if self.unused:
            slot = self.unused.pop()
        else:
            slot = <int> len(self.messages)
            self.messages.append(None)
        self.messages[slot] = node, kind, message
        return pending_push(&self.due, time, number, slot)

    cdef long long _first(self) except -1:
        """Return the instant (ns) at which the next message arrives; `NEVER` if there is none."""
        cdef const Event* e
        while True:
            e = pending_first(&self.due)
            if e == NULL:
                return NEVER
            if self.messages[e.slot] is not None:
                return e.time
            self.unused.append(pending_pop(&self.due).slot)

    cdef list _take(self, long long now):
        """Remove the messages that have arrived; return (node, kind, message) by receiver."""
        cdef Event e
        due = []
        while self._first() <= now:
            e = pending_pop(&self.due)
            due.append((self.messages[e.slot][0], e.sequence, self.messages[e.slot]))
            self.messages[e.slot] = None
            self.unused.append(e.slot)
        if len(due) > 1:
            due.sort()                  # never compares messages, since the numbers before them differ
        return [message for _, _, message in due]

    cdef int _drop(self, long long node) except -1:
        """Drop the messages of a node that fails."""
        cdef Py_ssize_t k
        for k in range(len(self.messages)):
            if self.messages[k] is not None and self.messages[k][0] == node:
                self.messages[k] = None
        return 0

    cdef tuple _entries(self, Payloads payloads):
        """Return (local messages as entries of a state, all arrays in messages, those of `payloads` first)."""
        events = np.empty((self.due.n + self.due.n_ring, 3), np.int64)
        pending_read(&self.due, events)
        messages = [(time, number, *self.messages[slot]) for time, number, slot in events.tolist()
                    if self.messages[slot] is not None]
        return local_entries(messages, self.number, self.kinds, payloads.arrays)

    cdef int _read(self, state, Payloads payloads) except -1:
        """Read the local messages of a state, whose arrays are in `payloads`."""
        messages, number = read_local(state, self.kinds, self.nodes, payloads)
        self.number = number
        self.messages, self.unused = [], []
        pending_clear(&self.due)
        for time, number, node, kind, message in messages:
            self._put(time, number, node, kind, message)
        return 0
