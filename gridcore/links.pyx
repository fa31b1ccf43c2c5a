"""Messages over FIFO interfaces: every machine sends, and receives, one message after another.

Exact in two stages.  At sending, the message starts when the sender's interface is free,
``start = max(now, up_free)``, and its head arrives `latency` later; when the head arrives, the message is
delivered once the receiver's interface, free again, has taken its bytes,
``delivered = max(head, down_free) + length``.  One stage would not be exact: a message sent later may
arrive first once uplinks queue.

The kernel runs the first stage of everything in flight by itself and stops where somebody must be told.
Messages between nodes of one machine take no time and are not counted.

A record is opaque but for its first two int64 fields, the receiving and the sending node.
The twin is `gridcore.reference.links`.
"""

from libc.math cimport llrint
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy

from gridcore.edf cimport integers

import numpy as np

__all__ = ["NEVER", "Links"]

cdef long long _NEVER = 9223372036854775807
NEVER = _NEVER


cdef inline bint before(const Event* a, const Event* b) noexcept nogil:
    return a.time < b.time or (a.time == b.time and a.sequence < b.sequence)


cdef int heap_push(Heap* h, Event e) except -1 nogil:
    cdef Py_ssize_t k, parent
    cdef Event* grown
    if h.n == h.room:
        grown = <Event*> realloc(h.event, (2 * h.room + 64) * sizeof(Event))
        if grown == NULL:
            with gil:
                raise MemoryError
        h.event = grown
        h.room = 2 * h.room + 64
    k = h.n
    h.n += 1
    while k > 0:
        parent = (k - 1) // 4
        if not before(&e, &h.event[parent]):
            break
        h.event[k] = h.event[parent]
        k = parent
    h.event[k] = e
    return 0


cdef Event heap_pop(Heap* h) noexcept nogil:
    cdef Event top = h.event[0], e
    cdef Py_ssize_t k = 0, child, least, last, n
    h.n -= 1
    n = h.n
    if n:
        e = h.event[n]
        while True:
            child = 4 * k + 1
            if child >= n:
                break
            least = child
            last = min(child + 4, n)
            child += 1
            while child < last:
                if before(&h.event[child], &h.event[least]):
                    least = child
                child += 1
            if not before(&h.event[least], &e):
                break
            h.event[k] = h.event[least]
            k = least
        h.event[k] = e
    return top


cdef int by_kind_node(const void* a, const void* b) noexcept nogil:
    cdef const Due* x = <const Due*> a
    cdef const Due* y = <const Due*> b
    if x.kind != y.kind:
        return -1 if x.kind < y.kind else 1
    if x.node != y.node:
        return -1 if x.node < y.node else 1
    return -1 if x.sequence < y.sequence else 1


cdef class Links:
    """Interfaces of machines, and what is in flight between them.

    Parameters
    ----------
    machine_of : int64[nodes], the machine that each node sits on.
    machines : number of machines.
    latency : ns.
    bandwidth : bytes/s of each interface; ``inf`` for no transmission time.
    widths : bytes of a record of each kind (at least 16).
    deferred : per kind, True if nobody must be told at the instant: `drain` hands such messages out later,
        with their true times.
    """

    def __cinit__(self):
        self.heads.event = self.ends.event = self.inner_ends.event = self.later.event = NULL
        self.inner = -1
        self.message = NULL
        self.data = NULL
        self.unused = NULL
        self.due = NULL

    def __init__(self, machine_of, Py_ssize_t machines, *, long long latency, double bandwidth, widths, deferred):
        self.machine_of = integers(machine_of, "machine_of")
        cdef Py_ssize_t k
        for k in range(self.machine_of.shape[0]):
            if not 0 <= self.machine_of[k] < machines:
                raise ValueError(f"machine_of[{k}] must be in 0..{machines - 1}, got {self.machine_of[k]}")
        if latency < 0:
            raise ValueError(f"latency must be >= 0 ns, got {latency}")
        if not bandwidth > 0:
            raise ValueError(f"bandwidth must be > 0 bytes/s, got {bandwidth}")
        self.width = integers(widths, "widths")
        self.kinds = self.width.shape[0]
        self.stride = 16
        for k in range(self.kinds):
            if self.width[k] < 16:
                raise ValueError(f"widths[{k}] must be at least 16 bytes, got {self.width[k]}")
            self.stride = max(self.stride, self.width[k])
        self.deferred = np.array(deferred, np.uint8)
        if self.deferred.shape[0] != self.kinds:
            raise ValueError(f"deferred must have {self.kinds} entries, got {self.deferred.shape[0]}")
        self.machines, self.latency, self.bandwidth = machines, latency, bandwidth
        self.up_free = np.zeros(machines, np.int64)
        self.down_free = np.zeros(machines, np.int64)
        self.failures = np.zeros((machines, 2), np.int64)
        self.n_failures = machines
        self.life = np.zeros(machines, np.int32)
        self._sent = self.sent = np.zeros(self.kinds, np.int64)
        self._delivered = self.delivered = np.zeros(self.kinds, np.int64)
        self._dropped = self.dropped = np.zeros(self.kinds, np.int64)
        self._traffic = self.traffic = np.zeros(self.kinds, np.int64)
        self._out = self.bytes_out = np.zeros(machines, np.int64)
        self._in = self.bytes_in = np.zeros(machines, np.int64)

    def __dealloc__(self):
        free(self.heads.event)
        free(self.ends.event)
        free(self.inner_ends.event)
        free(self.later.event)
        free(self.message)
        free(self.data)
        free(self.unused)
        free(self.due)

    cdef int _make_slots(self) except -1:
        cdef Py_ssize_t more = 2 * self.slots + 256, k
        message = realloc(self.message, more * sizeof(Message))
        if message == NULL:
            raise MemoryError
        self.message = <Message*> message
        data = realloc(self.data, more * self.stride)
        if data == NULL:
            raise MemoryError
        self.data = <char*> data
        unused = realloc(self.unused, more * sizeof(int))
        if unused == NULL:
            raise MemoryError
        self.unused = <int*> unused
        for k in range(more - 1, self.slots - 1, -1):
            self.unused[self.n_unused] = <int> k
            self.n_unused += 1
        self.slots = more
        return 0

    def send(self, long long now, int kind, const unsigned char[:, ::1] records, long long nbytes):
        """Send uint8[k, width] `records` of `kind` at `now` ns, `nbytes` bytes each on the wire, in this order."""
        cdef Py_ssize_t k, nodes = self.machine_of.shape[0], width
        cdef const long long* header
        cdef long long length
        if not 0 <= kind < self.kinds:
            raise ValueError(f"kind must be in 0..{self.kinds - 1}, got {kind}")
        width = self.width[kind]
        if records.shape[1] != width:
            raise ValueError(f"records of kind {kind} must be {width} bytes wide, got {records.shape[1]}")
        if not 0 <= nbytes < 2**31:
            raise ValueError(f"nbytes must be in 0..{2**31 - 1}, got {nbytes}")
        for k in range(records.shape[0]):
            header = <const long long*> &records[k, 0]
            if not (0 <= header[0] < nodes and 0 <= header[1] < nodes):
                raise ValueError(f"records[{k}] goes from node {header[1]} to node {header[0]}, "
                                 f"but there are nodes 0..{nodes - 1}")
        length = self._length(nbytes)
        for k in range(records.shape[0]):
            self._send(now, kind, &records[k, 0], nbytes, length)

    cdef long long _length(self, long long nbytes) except -1:
        cdef double length = nbytes / self.bandwidth * 1e9
        if not length < 2.0**31 - 1:
            raise ValueError(f"a message of {nbytes} bytes takes {length} ns at {self.bandwidth} bytes/s; "
                             f"at most {2**31 - 1} ns are possible")
        return llrint(length)

    cdef int _send(self, long long now, int kind, const void* record, long long nbytes, long long length) except -1:
        cdef const long long* header = <const long long*> record
        cdef Message m
        cdef Event e
        if self.n_unused == 0:
            self._make_slots()
        m.node = header[0]
        m.kind = kind
        m.sequence = self.sequence
        m.source = <int> self.machine_of[header[1]]
        m.target = <int> self.machine_of[header[0]]
        m.source_life = self.life[m.source]
        m.target_life = self.life[m.target]
        m.nbytes = <int> nbytes
        m.length = <int> length
        self.sequence += 1
        self.n_unused -= 1
        e.slot = self.unused[self.n_unused]
        e.sequence = m.sequence
        memcpy(self.data + e.slot * self.stride, record, self.width[kind])
        if m.source == m.target:
            m.start = now
            m.nbytes = -1
            self.message[e.slot] = m
            e.time = now
            return self._end(e)
        m.start = max(now, self.up_free[m.source])
        self.up_free[m.source] = m.start + length
        self._sent[kind] += 1
        self._traffic[kind] += nbytes
        self._out[m.source] += nbytes
        self.message[e.slot] = m
        e.time = m.start + self.latency
        return heap_push(&self.heads, e)

    cdef int _end(self, Event e) except -1 nogil:
        cdef int kind = self.message[e.slot].kind
        if self.deferred[kind]:
            heap_push(&self.later, e)
        elif kind == self.inner:
            heap_push(&self.inner_ends, e)
        else:
            heap_push(&self.ends, e)
        return 0

    cpdef long long advance(self, long long limit) except -1:
        """Run up to `limit` ns; the first instant <= limit at which a message is delivered, else `NEVER`."""
        cdef Event e
        cdef Message* m
        cdef long long until
        while self.heads.n:
            until = min(limit, self._first_end())
            if self.heads.event[0].time > until:
                break
            e = heap_pop(&self.heads)
            m = &self.message[e.slot]
            if self.life[m.target] != m.target_life or m.start > self._until(m.source, m.source_life):
                self._drop(e.slot)
                continue
            e.time = max(e.time, self.down_free[m.target]) + m.length
            self.down_free[m.target] = e.time
            self._end(e)
        until = self._first_end()
        return until if until <= limit else _NEVER

    cdef long long _first_end(self) noexcept nogil:
        cdef long long first = self.ends.event[0].time if self.ends.n else _NEVER
        return min(first, self.inner_ends.event[0].time) if self.inner_ends.n else first

    cdef bint _pop_inner(self, long long time, void* record) noexcept nogil:
        """Take the next message of the inner kind that is delivered at `time`; False if there is none."""
        cdef Event e
        cdef Message* m
        while self.inner_ends.n and self.inner_ends.event[0].time == time:
            e = heap_pop(&self.inner_ends)
            m = &self.message[e.slot]
            if e.time >= self._until(m.target, m.target_life):
                self._drop(e.slot)
                continue
            if m.nbytes >= 0:
                self._delivered[m.kind] += 1
                self._in[m.target] += m.nbytes
            memcpy(record, self.data + e.slot * self.stride, self.width[m.kind])
            self.unused[self.n_unused] = e.slot
            self.n_unused += 1
            return True
        return False

    cdef long long _until(self, int machine, int life) noexcept nogil:
        """When that life of the machine ended, `NEVER` if it has not."""
        cdef long long entry = machine
        cdef int later = self.life[machine] - life - 1
        if later < 0:
            return _NEVER
        while later > 0:
            entry = self.failures[entry, 1]
            later -= 1
        return self.failures[entry, 0]

    cdef void _drop(self, int slot) noexcept nogil:
        if self.message[slot].nbytes >= 0:
            self._dropped[self.message[slot].kind] += 1
        self.unused[self.n_unused] = slot
        self.n_unused += 1

    def collect(self, long long time):
        """What is delivered at `time` ns: a list of (kind, uint8[k, width]), sorted by (kind, node, sequence).

        Call it with the instant that `advance` gave.
        """
        cdef Event e
        while self.inner_ends.n and self.inner_ends.event[0].time <= time:
            e = heap_pop(&self.inner_ends)
            heap_push(&self.ends, e)
        return [(kind, records) for kind, records, _ in self._take(&self.ends, time, time)]

    def drain(self, long long until):
        """The deferred messages delivered by `until` ns: a list of (kind, uint8[k, width], int64[k] ns)."""
        return self._take(&self.later, -1, until)

    cdef list _take(self, Heap* heap, long long only, long long until):
        cdef Py_ssize_t n = 0, k, j, width
        cdef Event e
        cdef Message* m
        cdef char[:, ::1] out
        cdef long long[::1] at
        cdef long long[::1] times = np.zeros(16 if only >= 0 else heap.n, np.int64)
        while heap.n and heap.event[0].time <= until:
            e = heap_pop(heap)
            m = &self.message[e.slot]
            if e.time >= self._until(m.target, m.target_life):
                self._drop(e.slot)
                continue
            if m.nbytes >= 0:
                self._delivered[m.kind] += 1
                self._in[m.target] += m.nbytes
            if n == self.due_room:
                due = realloc(self.due, (2 * n + 64) * sizeof(Due))
                if due == NULL:
                    raise MemoryError
                self.due = <Due*> due
                self.due_room = 2 * n + 64
            self.due[n].node = m.node
            # deferred messages keep the order of their delivery, which the heap gives
            self.due[n].sequence = n
            self.due[n].kind = m.kind
            self.due[n].slot = e.slot
            if only < 0:
                times[n] = e.time
                self.due[n].node = 0
            n += 1
        if n > 1:
            qsort(self.due, n, sizeof(Due), by_kind_node)
        result = []
        k = 0
        while k < n:
            j = k + 1
            while j < n and self.due[j].kind == self.due[k].kind:
                j += 1
            width = self.width[self.due[k].kind]
            records = np.empty((j - k, width), np.int8)
            when = np.empty(0 if only >= 0 else j - k, np.int64)
            out, at = records, when
            kind = self.due[k].kind
            while k < j:
                memcpy(&out[out.shape[0] - (j - k), 0], self.data + self.due[k].slot * self.stride, width)
                if only < 0:
                    at[out.shape[0] - (j - k)] = times[self.due[k].sequence]
                self.unused[self.n_unused] = self.due[k].slot
                self.n_unused += 1
                k += 1
            result.append((kind, records.view(np.uint8), when))
        return result

    def fail(self, machines, long long now):
        """Reset `machines` at `now` ns: what is addressed to them, or queued at them unsent, is dropped."""
        cdef const long long[::1] u = integers(machines, "machines")
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            if not 0 <= u[k] < self.machines:
                raise ValueError(f"machines[{k}] must be in 0..{self.machines - 1}, got {u[k]}")
        for k in range(u.shape[0]):
            # row u holds the last failure of u and where the one before it has been put
            if self.life[u[k]] > 0:
                if self.n_failures == self.failures.shape[0]:
                    wider = np.zeros((2 * self.n_failures, 2), np.int64)
                    wider[:self.n_failures] = self.failures
                    self.failures = wider
                self.failures[self.n_failures, 0] = self.failures[u[k], 0]
                self.failures[self.n_failures, 1] = self.failures[u[k], 1]
                self.failures[u[k], 1] = self.n_failures
                self.n_failures += 1
            self.failures[u[k], 0] = now
            self.life[u[k]] += 1
            self.up_free[u[k]] = min(self.up_free[u[k]], now)
            self.down_free[u[k]] = min(self.down_free[u[k]], now)

    def in_flight(self):
        """int64[kinds]: messages sent, and neither delivered nor dropped yet."""
        return self.sent - self.delivered - self.dropped
