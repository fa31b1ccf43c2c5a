"""Local messages, which nodes send to themselves by `View.later`."""

cimport cython

from gridcore.common.pending cimport (
    Event, pending_clear, pending_first, pending_free, pending_pop, pending_push, pending_read,
)
from gridcore.nodes.calls cimport new_object

import numpy as np

from gridcore.common.state import INSTANT, LATEST, ArrayEntry, NumberEntry, TableEntry, read

__all__ = ["LocalMessages"]

_STATE = {
    "local": TableEntry({"time": (0, 2 * LATEST + 1), "number": INSTANT, "node": (0, "nodes"), "kind": (0, "kinds")}),
    "local_fields": ArrayEntry(np.int64), "local_number": NumberEntry(0, LATEST + 1),
}


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
        """Return (local messages as entries of a state, all arrays in messages, those of `payloads` first).

        ``local`` has the columns time, number, node and number of the kind; ``local_fields`` has the fields of all
        messages: a number, the bits of a float, or the number of an array.
        """
        cdef MessageKind kind
        cdef Py_ssize_t k
        arrays, rows, words = payloads._arrays(), [], []
        events = np.empty((self.due.n + self.due.n_ring, 3), np.int64)
        pending_read(&self.due, events)
        for time, number, slot in events[np.argsort(events[:, 1])].tolist():
            if self.messages[slot] is None:
                continue
            node, kind, message = self.messages[slot]
            rows.append((time, number, node, self.kinds.index(kind)))
            for k in range(kind.n):
                value = getattr(message, kind.fields[k])
                if kind.type_codes[k] == 2:
                    arrays.append(value)
                    value = len(arrays) - 1
                words.append(int(np.float64(value).view(np.int64)) if kind.type_codes[k] == 1 else value)
        return {"local": np.array(rows, np.int64).reshape(-1, 4), "local_fields": np.array(words, np.int64),
                "local_number": self.number}, arrays

    cdef int _read(self, state, Payloads payloads) except -1:
        """Read the local messages of a state, whose arrays are in `payloads`."""
        cdef MessageKind kind
        cdef Py_ssize_t k, at = 0
        entries = read(state, _STATE, nodes=self.nodes, kinds=len(self.kinds))
        rows, fields, self.number = entries["local"], entries["local_fields"], entries["local_number"]
        self.messages, self.unused = [], []
        pending_clear(&self.due)
        for time, number, node, index in rows.tolist():
            kind = self.kinds[index]
            if at + kind.n > len(fields):
                raise ValueError(f"state['local_fields'] must have at least {at + kind.n} numbers, got {len(fields)}")
            message = new_object(kind.type)
            message.sender = node
            for k in range(kind.n):
                value = fields[at + k]
                if kind.type_codes[k] == 2:
                    if not 0 <= value < len(payloads.arrays) or payloads.arrays[value] is None:
                        raise ValueError(f"state['local_fields'] must refer to an array in state['payloads'], got {value}")
                    value = payloads._fetch(value)
                else:
                    value = float(value.view(np.float64)) if kind.type_codes[k] else int(value)
                setattr(message, kind.fields[k], value)
            at += kind.n
            self._put(time, number, node, kind, message)
        return 0
