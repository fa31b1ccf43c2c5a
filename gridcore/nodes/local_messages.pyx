"""Local messages, which nodes send to themselves by `View.later`."""

from libc.stdlib cimport free

cimport cython

from gridcore.common.memory cimport reallocate
from gridcore.common.heap cimport Event
from gridcore.common.pending cimport (
    pending_clear, pending_count, pending_first, pending_free, pending_pop, pending_push, pending_read,
)

import numpy as np

from gridcore.common.state import check_total, read
from gridcore.nodes.state import LOCAL

__all__ = ["LocalMessages"]


@cython.final
@cython.auto_pickle(False)
cdef class LocalMessages:
    """The local messages in transit, of all nodes.

    A record is that of other messages: receiver, sender, and fields; the field of an array is its number in `payloads`.
    """

    def __cinit__(self, Py_ssize_t nodes, Payloads payloads, list kinds):
        if payloads is None:
            raise TypeError("payloads must not be None")
        self.nodes, self.payloads, self.kinds, self.unused = nodes, payloads, kinds, []
        self.words = 3 + max([(<MessageKind?> kind).n for kind in kinds], default=0)

    def __dealloc__(self):
        pending_free(&self.due)
        free(self.data)

    cdef long long* _add(self, long long time, long long node, Py_ssize_t kind) except NULL:
        """Add a message that arrives at `time` ns, after all that were added for this instant; return its fields."""
        cdef long long* fields = self._put(time, self.number, node, kind)
        self.number += 1
        return fields

    cdef long long* _put(self, long long time, long long number, long long node, Py_ssize_t kind) except NULL:
        cdef int slot, capacity = 2 * self.capacity + 16
        cdef long long* row
        if not self.unused:
            self.data = <long long*> reallocate(self.data, capacity * self.words * sizeof(long long))
            self.unused.extend(range(capacity - 1, self.capacity - 1, -1))
            for slot in range(self.capacity, capacity):
                self.data[slot * self.words] = -1
            self.capacity = capacity
        slot = self.unused.pop()
        pending_push(&self.due, time, number, slot)
        row = self.data + slot * self.words
        row[0], row[1], row[2] = kind, node, node
        return row + 3

    cdef long long _first(self) except -1:
        """Return the instant (ns) at which the next message arrives; `NEVER` if there is none."""
        cdef const Event* e
        while True:
            e = pending_first(&self.due)
            if e == NULL:
                return NEVER
            if self.data[e.slot * self.words] >= 0:
                return e.time
            self.unused.append(pending_pop(&self.due).slot)

    cdef list _take(self, long long now):
        """Remove the messages that have arrived; return their slots by receiver, which the caller must free."""
        cdef Event e
        due = []
        while self._first() <= now:
            e = pending_pop(&self.due)
            due.append((self.data[e.slot * self.words + 1], e.sequence, e.slot))
        if len(due) > 1:
            due.sort()
        return [slot for _, _, slot in due]

    cdef int _free(self, int slot) except -1:
        """Free the slot of a message that `_take` has removed."""
        self.data[slot * self.words] = -1
        self.unused.append(slot)
        return 0

    cdef list _of(self, long long node):
        """Return the messages in transit to a node, in the order of sending: (number, instant in ns, slot)."""
        cdef const long long* row
        messages = []
        events = np.empty((pending_count(&self.due), 3), np.int64)
        pending_read(&self.due, events)
        for time, number, slot in events[np.argsort(events[:, 1])].tolist():
            row = self.data + <int> slot * self.words
            if row[0] >= 0 and row[1] == node:
                messages.append((number, time, slot))
        return messages

    cdef int _drop(self, long long node) except -1:
        """Drop the messages of a node that fails."""
        cdef Py_ssize_t slot, k
        cdef long long* row
        cdef MessageKind kind
        for slot in range(self.capacity):
            row = self.data + slot * self.words
            if row[0] < 0 or row[1] != node:
                continue
            kind = <MessageKind> self.kinds[row[0]]
            for k in range(kind.n if kind.has_arrays else 0):
                if kind.type_codes[k] == 2:
                    self.payloads._fetch(row[3 + k])
            row[0] = -1
        return 0

    cdef dict _entries(self):
        """Return the local messages as entries of a state.

        ``local`` has the columns time, number, node and number of the kind; ``local_fields`` has the fields of all
        messages.
        """
        cdef Py_ssize_t k
        cdef const long long* row
        rows, words = [], []
        events = np.empty((pending_count(&self.due), 3), np.int64)
        pending_read(&self.due, events)
        for time, number, slot in events[np.argsort(events[:, 1])].tolist():
            row = self.data + <int> slot * self.words
            if row[0] >= 0:
                rows.append((time, number, row[1], row[0]))
                words += [row[3 + k] for k in range((<MessageKind> self.kinds[row[0]]).n)]
        return {"local": np.array(rows, np.int64).reshape(-1, 4), "local_fields": np.array(words, np.int64),
                "local_number": self.number}

    cdef int _read(self, state) except -1:
        """Read the local messages of a state."""
        cdef MessageKind kind
        cdef Py_ssize_t k, at = 0
        cdef long long* row
        entries = read(state, LOCAL, nodes=self.nodes, kinds=len(self.kinds))
        rows, fields, self.number = entries["local"], entries["local_fields"], entries["local_number"]
        pending_clear(&self.due)
        for k in range(self.capacity):
            self.data[k * self.words] = -1
        self.unused = list(range(self.capacity - 1, -1, -1))
        counts = np.array([(<MessageKind> kind).n for kind in self.kinds], np.int64)[rows[:, 3]]
        check_total("the fields of state['local']", counts, len(fields))
        for time, number, node, index in rows.tolist():
            kind = self.kinds[index]
            row = self._put(time, number, node, index)
            for k in range(kind.n):
                row[k] = fields[at + k]
            at += kind.n
        return 0
