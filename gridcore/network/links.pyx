"""The network of machines: each machine sends, and receives, one message after another.

`gridcore.network.transit` has the model, and the functions that kernels call.
The reference implementation is `tests.reference.links`.
"""

from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset

from gridcore.common.arguments cimport _Guard, check_instant, guard, indices, integers
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.heap cimport Event
from gridcore.common.pending cimport (
    Pending, pending_clear, pending_count, pending_first, pending_push, pending_read,
)
from gridcore.network.mailboxes cimport (
    Letter, mailboxes_clear, mailboxes_count, mailboxes_make, mailboxes_put, mailboxes_tidy,
)
from gridcore.network.message_log cimport DROPPED, LOG_COLUMNS, messagelog_copy, messagelog_fill, messagelog_slots
from gridcore.network.transit cimport LINE, LONGEST_MESSAGE, Host, Message, Transit, message_of, record_of

import numpy as np

from gridcore.common.arrays import zeros_on_lines
from gridcore.common.state import (
    ANY, FLAG, INSTANT, ArrayEntry, NumberEntry, TableEntry, array_entries, read, read_only,
)

__all__ = ["LOGGED", "Links"]

# The bytes of receiver and sender, with which each record begins.
cdef enum:
    HEADER = 16

_INCARNATION = (0, 2**31)
_STATE = {
    "failures": ArrayEntry(np.int64), "incarnation": ArrayEntry(np.int32, ("machines",), total="failures"),
    "messages": TableEntry({
        "receiver": (0, "nodes"), "sender": (0, "nodes"), "kind": (0, "kinds"), "is_head": FLAG,
        "source": (0, "machines"), "target": (0, "machines"), "source_incarnation": _INCARNATION, "target_incarnation": _INCARNATION,
        "nbytes": (-1, 2**31), "start": (0, LATEST), "lost": FLAG,
        "time": INSTANT, "sequence": INSTANT,
    }),
    "records": ArrayEntry(np.uint8, ("messages", "stride")),
    "letters": TableEntry({
        "receiver": (0, "nodes"), "sender": (0, "nodes"), "box": (0, "boxes"), "time": INSTANT, "nbytes": (0, 2**31),
        "incarnation": _INCARNATION,
    }),
    "letter_records": ArrayEntry(np.uint8, ("letters", "box_stride")), "sequence": NumberEntry(),
}
_LOG = {
    "logged": TableEntry({
        "kind": (0, "kinds"), "sender": (0, "machines"), "receiver": (0, "machines"), "sent": INSTANT,
        "delivered": (DROPPED, LATEST + 1), "nbytes": (0, 2**31), "subject": ANY, "node": (0, "nodes"),
    }),
    "unlogged": NumberEntry(0, LATEST + 1), "places": ArrayEntry(np.int64, ("messages",), (-1, "logged")),
    "letter_places": ArrayEntry(np.int64, ("letters",), (-1, "logged")),
}
#: Columns of the message log; sender and receiver are machines, node is the sending node.
LOGGED = tuple(_LOG["logged"].columns)
_HOST = np.dtype(
    [*((name, "i8") for name in ("up_free", "down_free", "bytes_out", "bytes_in")), ("interface", "i4"),
     ("incarnation", "i4"), ("down", "u1"), ("unused", "i8", 2)], align=True)
if sizeof(Host) != _HOST.itemsize:
    raise ImportError(f"_HOST must have the {sizeof(Host)} bytes of the struct Host, got {_HOST.itemsize}")
# Maximum size of a record (bytes), so that records of the maximum number of messages fit into the address space.
cdef Py_ssize_t _MAX_WIDTH = 2**20


cdef const unsigned char[:, ::1] _aligned_records(const unsigned char[:, ::1] records):
    """Return a copy in which each record starts at a multiple of 8 bytes and is padded with zeros."""
    result = np.zeros((records.shape[0], (records.shape[1] + 7) & ~7), np.uint8)
    result[:, :records.shape[1]] = records
    return result


cdef class Links(Transit):
    """The network interfaces of machines, and the messages in flight between them.

    Parameters
    ----------
    machine_of
        int64[nodes], the machine on which each node runs.
    machines
        Number of machines.
    latency
        ns, at most 2**61.
    bandwidth
        Bytes/s of each interface; ``inf`` for no transmission time.
    widths
        int64[kinds], 16..2**20, the bytes of a record of each kind.
    deferred
        bool[kinds], True if deliveries need not be handled at their instants: `drain` returns such messages later,
        with their true times.  A kind must not be in both `deferred` and `keep`.
    fifo
        Whether interfaces transmit one message at a time, in order of arrival.
    keep
        bool[kinds], True if `lost` must return dropped messages, at the instants at which they would have
        arrived.
    jitter
        ns; each message has its own latency, uniform in latency - jitter .. latency + jitter, which depends
        on `seed` and on the number of messages sent before it.
    level_of
        int64[nodes], 0..63; messages and bytes are also counted by the level of their sender.
    interfaces
        int64[machines], 0..machines - 1, the interface of each machine; machines that share one, as the cores of
        a real machine do, must fail together.  None: each machine has its own.
    """

    def __cinit__(self, machine_of: ArrayLike, Py_ssize_t machines, *, long long latency, double bandwidth,
                  widths: ArrayLike, deferred: ArrayLike, bint fifo=True, keep: ArrayLike | None = None,
                  level_of: ArrayLike | None = None, long long jitter=0, unsigned long long seed=0,
                  interfaces: ArrayLike | None = None):
        if not 0 <= machines < 2**31:
            raise ValueError(f"machines must be in 0..{2**31 - 1}, got {machines}")
        self.machine_of = indices(machine_of, "machine_of", 0, machines)
        if self.machine_of.shape[0] >= 2**31:
            raise ValueError(f"machine_of must have fewer than 2**31 entries, got {self.machine_of.shape[0]}")
        if not 0 <= latency <= LATEST:
            raise ValueError(f"latency must be in 0..{LATEST} ns, got {latency}")
        if not 0 <= jitter <= latency:
            raise ValueError(f"jitter must be in 0..{latency} ns, got {jitter}")
        self.jitter, self.seed = jitter, seed
        if not bandwidth > 0:
            raise ValueError(f"bandwidth must be > 0 bytes/s, got {bandwidth}")
        self.width = integers(widths, "widths")
        if self.width.shape[0] >= 2**15:
            raise ValueError(f"widths must have fewer than {2**15} entries, got {self.width.shape[0]}")
        self.kinds = self.width.shape[0]
        self.queue = <Pending*> calloc(self.kinds + 1, sizeof(Pending))
        if self.queue == NULL:
            self.kinds = 0
            raise MemoryError
        self.stride = 16
        for k in range(self.kinds):
            if not 16 <= self.width[k] <= _MAX_WIDTH:
                raise ValueError(f"widths[{k}] must be in 16..{_MAX_WIDTH} bytes, got {self.width[k]}")
            self.stride = max(self.stride, (self.width[k] + 7) & ~7)  # so that numbers in records are aligned
        # a slot begins with a cache line or in the middle of one
        self.slot_size = max(<Py_ssize_t> LINE, (<Py_ssize_t> sizeof(Message) + self.stride + LINE // 2 - 1) & ~(LINE // 2 - 1))
        self.deferred = np.array(deferred, np.uint8)
        if self.deferred.shape[0] != self.kinds:
            raise ValueError(f"deferred must have {self.kinds} entries, got {self.deferred.shape[0]}")
        self.keep = np.array(np.zeros(self.kinds) if keep is None else keep, np.uint8)
        if self.keep.shape[0] != self.kinds:
            raise ValueError(f"keep must have {self.kinds} entries, got {self.keep.shape[0]}")
        for k in range(self.kinds):
            if self.deferred[k] and self.keep[k]:
                raise ValueError(f"keep[{k}] must be False for a deferred kind, got True")
        levels = np.zeros(self.machine_of.shape[0], np.int64) if level_of is None else level_of
        self.level_of = np.asarray(indices(levels, "level_of", 0, 64)).astype(np.uint8)
        if self.level_of.shape[0] != self.machine_of.shape[0]:
            raise ValueError(f"level_of must have {self.machine_of.shape[0]} entries, got {self.level_of.shape[0]}")
        self._make_hosts(machines, np.arange(machines) if interfaces is None else interfaces)
        self._by_level = self.by_level = np.zeros((2, self.kinds, 64), np.int64)
        self.inner = np.zeros(self.kinds, np.uint8)
        self.is_detached = np.zeros(self.machine_of.shape[0], np.uint8)
        self.machines, self.latency, self.bandwidth, self.fifo = machines, latency, bandwidth, fifo
        self._make_boxes(fifo)
        self.failures = np.zeros((machines, 2), np.int64)
        self.n_failures = machines
        self._sent = self.sent = np.zeros(self.kinds, np.int64)
        self._delivered = self.delivered = np.zeros(self.kinds, np.int64)
        self._dropped = self.dropped = np.zeros(self.kinds, np.int64)
        self._traffic = self.traffic = np.zeros(self.kinds, np.int64)

    cdef int _make_hosts(self, Py_ssize_t machines, interfaces) except -1:
        cdef unsigned char[::1] memory
        cdef const long long[::1] numbers = indices(interfaces, "interfaces", 0, machines)
        if numbers.shape[0] != machines:
            raise ValueError(f"interfaces must have {machines} entries, got {numbers.shape[0]}")
        self.table = zeros_on_lines(machines, _HOST)
        self.bytes_out, self.bytes_in = self.table["bytes_out"], self.table["bytes_in"]
        self.table["interface"] = numbers
        self._compare_hosts()
        memory = self.table.view(np.uint8)
        self.host = <Host*> &memory[0] if machines else NULL
        return 0

    cdef int _compare_hosts(self) except -1:
        """Set what depends on whether nodes and hosts differ."""
        numbers = np.arange(self.machine_of.shape[0])
        self.is_one_to_one = np.array_equal(self.machine_of, numbers)
        self.is_uniform = (not self.table["incarnation"].any() and not self.table["down"].any()
                          and np.array_equal(self.table["interface"], np.arange(len(self.table))))
        return 0

    cdef int _make_boxes(self, bint fifo) except -1:
        """If `fifo`, make a mailbox for each deferred kind and machine, ordered by kind, then machine."""
        cdef Py_ssize_t k, boxes = 0, stride = 0
        self.boxes_of = np.full(self.kinds, -1, np.int64)
        for k in range(self.kinds):
            if fifo and self.deferred[k]:
                self.boxes_of[k] = boxes
                boxes += self.machines
                stride = max(stride, self.width[k])
        return mailboxes_make(&self.boxes, boxes, stride)

    def send(self, long long now, int kind, const unsigned char[:, ::1] records, long long nbytes):
        """Send `records` (uint8[k, width]) of `kind` at `now` ns, in order; each takes `nbytes` bytes on the wire."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        cdef long long transmission_time
        records = self._checked_records(kind, records, nbytes)
        check_instant(now, "now", 2 * self.latency + LONGEST_MESSAGE)
        transmission_time = self._transmission_time(nbytes)
        self.stage += kind  # within a step of an instant, `Transport` sends in order of kind and sender
        for k in range(records.shape[0]):
            self._send(now, kind, &records[k, 0], nbytes, transmission_time)
        self.stage -= kind

    def send_directly(self, long long now, int kind, const unsigned char[:, ::1] record, long long nbytes,
                      long long delay, long long number, *, bint is_counted=True):
        """Send a message of `kind` that bypasses the interfaces, and arrives `delay` ns after `now`.

        Parameters
        ----------
        record
            uint8[1, width].
        number
            The position of the message in the order of its kind, of which all messages must be sent in this way.
        is_counted
            Whether the message is counted if it goes to another machine.
        """
        cdef _Guard access = guard(&self.in_call)
        if record.shape[0] != 1:
            raise ValueError(f"record must have one row, got {record.shape[0]}")
        record = self._checked_records(kind, record, nbytes)
        if not 0 <= delay <= LATEST:
            raise ValueError(f"delay must be in 0..{LATEST} ns, got {delay}")
        check_instant(now, "now", max(delay, 2 * self.latency + LONGEST_MESSAGE))
        self._send_directly(now, kind, &record[0, 0], nbytes, delay, number, is_counted)

    cdef const unsigned char[:, ::1] _checked_records(self, int kind, const unsigned char[:, ::1] records,
                                                      long long nbytes):
        """Return `records` with aligned rows; raise ValueError unless they are records of `kind`."""
        cdef Py_ssize_t k, nodes = self.machine_of.shape[0], width
        cdef const long long* header
        self._check_kind(kind)
        width = self.width[kind]
        if records.shape[1] != width:
            raise ValueError(f"records of kind {kind} must be {width} bytes wide, got {records.shape[1]}")
        if not 0 <= nbytes < 2**31:
            raise ValueError(f"nbytes must be in 0..{2**31 - 1}, got {nbytes}")
        if records.shape[0] and (width & 7 or <size_t> &records[0, 0] & 7):
            records = _aligned_records(records)
        for k in range(records.shape[0]):
            header = <const long long*> &records[k, 0]
            if not (0 <= header[0] < nodes and 0 <= header[1] < nodes):
                raise ValueError(f"records[{k}] must have receiver and sender in 0..{nodes - 1}, "
                                 f"got {header[0]} and {header[1]}")
        return records

    cdef int _check_kind(self, int kind) except -1:
        if not 0 <= kind < self.kinds:
            raise ValueError(f"kind must be in 0..{self.kinds - 1}, got {kind}")
        return 0

    def transmission_time(self, long long nbytes) -> int:
        """Return the time (ns) that a message of `nbytes` bytes takes at an interface.

        Raises
        ------
        ValueError
            If it takes longer than messages may.
        """
        return self._transmission_time(nbytes)

    def machine(self, Py_ssize_t node) -> int:
        """Return the machine on which `node` runs now."""
        if not 0 <= node < self.machine_of.shape[0]:
            raise ValueError(f"node must be in 0..{self.machine_of.shape[0] - 1}, got {node}")
        return self.machine_of[node]

    def advance(self, long long limit) -> int:
        """Run up to `limit` ns; return the first instant <= `limit` with a delivery to handle, else `NEVER`."""
        cdef _Guard access = guard(&self.in_call)
        return self._advance(limit)

    def collect(self, long long time) -> list[tuple[int, NDArray[np.uint8]]]:
        """Return the messages delivered at `time` ns: a list of (kind, uint8[k, width]), by (kind, node, sequence).

        Call it with the instant that `advance` returned.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t n
        cdef int kind
        result = []
        for kind in range(self.kinds):
            if not self.deferred[kind]:
                n = self._take(kind, time)
                if n:
                    self._sort_by_node(n)
                    result.append((kind, self._records(kind, n)))
        return result

    def is_deferred(self, int kind) -> bool:
        """Return whether `kind` is deferred."""
        self._check_kind(kind)
        return self.deferred[kind]

    def next_delivery(self, int kind) -> tuple[int, int]:
        """Return (instant ns, number) of the next known delivery of `kind`; (`NEVER`, -1) if there is none.

        It is that of the first message of `take` or `take_first`, which may be a lost one.  Deliveries are known up
        to the instant to which `advance` has run; those of deferred kinds are not included.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const Event* first
        self._check_kind(kind)
        first = NULL if self.deferred[kind] else pending_first(&self.queue[kind])
        if first == NULL:
            return NEVER, -1
        return first.time, first.sequence

    def take(self, int kind, long long until) -> NDArray[np.uint8]:
        """Return the messages of `kind` delivered by `until` ns, uint8[k, width], by (node, sequence).

        `collect` returns those of all kinds.  Deferred kinds have none here: `drain` returns them.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t n
        self._check_kind(kind)
        n = 0 if self.deferred[kind] else self._take(kind, until)
        self._sort_by_node(n)
        return self._records(kind, n)

    def take_first(self, int kind) -> NDArray[np.uint8]:
        """Return the message of the next delivery of `kind`, uint8[1, width]; uint8[0, width] if it is lost."""
        cdef _Guard access = guard(&self.in_call)
        cdef int slot
        self._check_kind(kind)
        if self.deferred[kind] or pending_first(&self.queue[kind]) == NULL:
            raise ValueError(f"kind must have a pending delivery, got {kind}, which has none")
        slot = self._take_first(kind)
        if slot < 0:
            return self._records(kind, 0)
        self._reserve_due(1)
        self.due[0].slot = slot
        return self._records(kind, 1)

    def drain(self, long long until) -> list[tuple[int, NDArray[np.uint8], Integers]]:
        """Return the deferred messages delivered by `until` ns: a list of (kind, uint8[k, width], int64[k] ns).

        They are sorted by (kind, receiving machine, time), then by their arrival at its interface.
        """
        cdef _Guard access = guard(&self.in_call)
        result = []
        for kind in range(self.kinds):
            if self.deferred[kind]:
                machine, times, records = (np.concatenate(column) for column in zip(
                    self._take_unboxed(kind, until), self._take_boxed(kind, until), strict=True))
                if len(times):
                    order = np.lexsort((times, machine))
                    result.append((kind, records[order], times[order]))
        mailboxes_tidy(&self.boxes)
        return result

    def lost(self) -> list[tuple[int, NDArray[np.uint8]]]:
        """Return the messages of `keep` kinds dropped since the last call: a list of (kind, uint8[k, width])."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        result = []
        for k in range(self.n_missing):
            kind = message_of(self, self.missing[k]).kind
            self._reserve_due(1)
            self.due[0].slot = self.missing[k]
            result.append((kind, self._records(kind, 1)))
        self.n_missing = 0
        return result

    def fail(self, machines: ArrayLike, long long now, *, bint down=False):
        """Fail `machines` at `now` ns: messages addressed to them, and unsent messages in their queues, are dropped.

        With `down` they stay down until `restore`, and messages sent to them in the meantime are dropped too.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(machines, "machines", 0, self.machines)
        cdef Py_ssize_t k
        cdef Host* interface
        cdef long long at
        check_instant(now, "now")
        self.is_uniform = self.is_uniform and u.shape[0] == 0
        for k in range(u.shape[0]):
            # a machine that is down failed when its present incarnation began; row u of `failures` has the instant of the
            # last failure of machine u, and the row of the failure before it
            at = self.failures[u[k], 0] if self.host[u[k]].down else now
            if self.host[u[k]].incarnation > 0:
                if self.n_failures == self.failures.shape[0]:
                    wider = np.zeros((2 * self.n_failures, 2), np.int64)
                    wider[:self.n_failures] = self.failures
                    self.failures = wider
                self.failures[self.n_failures, 0] = self.failures[u[k], 0]
                self.failures[self.n_failures, 1] = self.failures[u[k], 1]
                self.failures[u[k], 1] = self.n_failures
                self.n_failures += 1
            self.failures[u[k], 0] = at
            self.host[u[k]].incarnation += 1
            self.host[u[k]].down = down
            interface = &self.host[self.host[u[k]].interface]
            interface.up_free, interface.down_free = min(interface.up_free, now), min(interface.down_free, now)

    def restore(self, machines: ArrayLike, long long now):
        """Make `machines` recover at `now` ns."""
        self.fail(machines, now)

    def move(self, nodes: ArrayLike, machines: ArrayLike):
        """Move `nodes` to `machines` (both int64[k]); messages in flight keep the machine they were sent to."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] m = indices(nodes, "nodes", 0, self.machine_of.shape[0])
        cdef const long long[::1] u = indices(machines, "machines", 0, self.machines)
        cdef Py_ssize_t k
        if m.shape[0] != u.shape[0]:
            raise ValueError(f"nodes and machines must be equally long, got {m.shape[0]} and {u.shape[0]}")
        for k in range(m.shape[0]):
            self.machine_of[m[k]] = u[k]
            self.is_one_to_one = self.is_one_to_one and m[k] == u[k]
            self.is_detached[m[k]] = False

    def detach(self, nodes: ArrayLike):
        """Detach `nodes` from their machines until `move`; messages for them are dropped, except deferred ones."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] m = indices(nodes, "nodes", 0, self.machine_of.shape[0])
        cdef Py_ssize_t k
        for k in range(m.shape[0]):
            self.is_detached[m[k]] = True

    def watch(self, long long start, long long end, long long width):
        """Count the bytes that each machine sends and receives in windows of `width` ns, from `start` to `end`.

        A message counts in the window in which it begins to cross the interface.  The counts are in `windows`.
        """
        cdef _Guard access = guard(&self.in_call)
        if not (0 <= start < end and width > 0):
            raise ValueError(f"start, end and width must satisfy 0 <= start < end and width > 0, "
                             f"got {start}, {end} and {width}")
        count = (int(end) - start + width - 1) // width
        windows = np.zeros((self.machines, count), np.int64)
        self.windows = self._windows = windows
        self.window_start, self.window, self.n_windows = start, width, count

    # -- the log of messages ------------------------------------------------------------------------------

    def log(self, long long limit, subjects: ArrayLike, nodes: Bools | None = None):
        """Log each message between machines that is sent from now on.

        Parameters
        ----------
        limit
            The largest number of logged messages; further messages are only counted (`unlogged`).
        subjects
            int64[kinds]; for each kind, the offset in its record of the int64 that is logged as the subject
            of the message, -1 for none.
        nodes
            bool[nodes], the nodes whose messages are logged; None for all.

        Raises
        ------
        ValueError
            If an offset is outside the record, `nodes` has the wrong length, or a message has been sent already.
        """
        cdef _Guard access = guard(&self.in_call)
        offsets = integers(subjects, "subjects")
        if not 0 < limit < 2**31:
            raise ValueError(f"limit must be in 1..{2**31 - 1}, got {limit}")
        if offsets.shape[0] != self.kinds:
            raise ValueError(f"subjects must have {self.kinds} entries, got {offsets.shape[0]}")
        for k in range(self.kinds):
            if not (offsets[k] == -1 or 16 <= offsets[k] <= self.width[k] - 8):
                raise ValueError(f"subjects[{k}] must be -1 or in 16..{self.width[k] - 8}, got {offsets[k]}")
        if self.sequence:
            raise ValueError(f"log must be called before the first message, got {self.sequence} messages")
        is_logged = None if nodes is None else np.array(nodes, np.bool_)
        if is_logged is not None and is_logged.shape != (self.machine_of.shape[0],):
            raise ValueError(f"nodes must have {self.machine_of.shape[0]} entries, got shape {is_logged.shape}")
        messagelog_slots(&self.message_log, self.slots + 1)
        self.message_log.max_rows, self.subject_at = limit, offsets
        self.is_logged = None if is_logged is None else is_logged.view(np.uint8)

    def logged(self) -> dict[str, Integers]:
        """Return the logged messages in the order of sending, with the int64 columns `LOGGED`; times are in ns.

        delivered is -1 for a message in transit, and -2 for a dropped one.
        """
        cdef _Guard access = guard(&self.in_call)
        rows = np.empty((self.message_log.n, LOG_COLUMNS), np.int64)
        messagelog_copy(&self.message_log, rows)
        return {name: rows[:, k].copy() for k, name in enumerate(LOGGED)}

    @property
    def unlogged(self) -> int:
        """The number of messages that did not fit into the log."""
        return self.message_log.n_unlogged

    # -- checkpoints --------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`.

        Messages are sorted by queue (those in transit to an interface, then deliveries by kind) and by the end of
        their wait; messages in mailboxes are sorted by box and arrival.  ``failures`` has the instants at which each
        machine failed or recovered, machine by machine, the latest first.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, n = pending_count(&self.heads), done = 0
        cdef int kind, entry
        cdef Message* m
        if self.n_missing:
            raise RuntimeError("getstate requires that all dropped messages were returned: call lost first")
        for kind in range(self.kinds):
            n += pending_count(&self.queue[kind])
        event_rows, message_rows = np.empty((n, 3), np.int64), np.empty((n, 13), np.int64)
        records, queue_of = np.empty((n, self.stride), np.uint8), np.empty(n, np.int64)
        places = np.full(n, -1, np.int64)
        cdef long long[:, ::1] events = event_rows, messages = message_rows
        cdef long long[::1] place = places
        cdef unsigned char[:, ::1] data = records
        for kind in range(-1, self.kinds):
            k = done
            done += pending_read(&self.queue[kind] if kind >= 0 else &self.heads, events[done:])
            queue_of[k:done] = kind
        order = np.lexsort((event_rows[:, 1], event_rows[:, 0], queue_of))
        event_rows[:] = event_rows[order]
        for k in range(n):
            m = message_of(self, events[k, 2])
            memset(&data[k, 0], 0, self.stride)
            memcpy(&data[k, 0], m + 1, self.width[m.kind])
            memcpy(&messages[k, 0], &data[k, 0], HEADER)
            messages[k, 2], messages[k, 4], messages[k, 5] = m.kind, m.source, m.target
            messages[k, 6], messages[k, 7], messages[k, 8] = m.source_incarnation, m.target_incarnation, m.nbytes
            messages[k, 9], messages[k, 10] = m.start, m.lost
            messages[k, 11], messages[k, 12] = events[k, 0], events[k, 1]
            if self.message_log.max_rows:
                place[k] = self.message_log.of_slot[events[k, 2]]
        message_rows[:, 3] = queue_of[order] < 0
        n = mailboxes_count(&self.boxes)
        letter_rows, letter_records = np.empty((n, 6), np.int64), np.empty((n, self.boxes.stride), np.uint8)
        cdef long long[:, ::1] letters = letter_rows
        letter_places = np.full(n, -1, np.int64)
        place = letter_places
        data = letter_records
        n = 0
        for k in np.sort(np.array([self.boxes.open[k] for k in range(self.boxes.n_open)], np.int64)):
            entry = self.boxes.first[k]
            while entry >= 0:
                memcpy(&data[n, 0], self.boxes.record + entry * self.boxes.stride, self.boxes.stride)
                memcpy(&letters[n, 0], &data[n, 0], HEADER)
                letters[n, 2], letters[n, 3] = k, self.boxes.letter[entry].time
                letters[n, 4], letters[n, 5] = self.boxes.letter[entry].nbytes, self.boxes.letter[entry].incarnation
                if self.message_log.max_rows:
                    place[n] = self.message_log.of_letter[entry]
                n += 1
                entry = self.boxes.letter[entry].next
        log = {}
        if self.message_log.max_rows:
            log = {"logged": np.empty((self.message_log.n, LOG_COLUMNS), np.int64),
                   "unlogged": self.message_log.n_unlogged,
                   "places": places, "letter_places": letter_places}
            messagelog_copy(&self.message_log, log["logged"])
        return read_only({
            **log, **self._columns(), "sequence": self.sequence,
            "failures": self._failure_times(), "incarnation": self.table["incarnation"], "messages": message_rows,
            "records": records, "letters": letter_rows, "letter_records": letter_records,
        })

    def setstate(self, state):
        """Restore a state of `getstate` of links with the same arguments and the same `watch`.

        Raises
        ------
        ValueError
            If the state cannot belong to these links.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        cdef int slot
        cdef Message* m
        cdef Letter letter
        known = self._columns()
        boxes = int((np.asarray(self.boxes_of) >= 0).sum()) * self.machines
        entries = read(state, {
            **array_entries(known, ANY, machine_of=(0, "machines"), down=FLAG, detached=FLAG, up_free=INSTANT,
                            down_free=INSTANT),
            **_STATE, **(_LOG if self.message_log.max_rows else {}),
        }, machines=self.machines, nodes=self.machine_of.shape[0], kinds=self.kinds, stride=self.stride, boxes=boxes,
           box_stride=self.boxes.stride)
        for name, column in known.items():
            column[...] = entries[name]
        self.sequence = entries["sequence"]
        self._set_failures(entries["failures"], entries["incarnation"])
        self._compare_hosts()
        pending_clear(&self.heads)
        for k in range(self.kinds):
            pending_clear(&self.queue[k])
        self.n_unused = self.n_missing = 0
        for k in range(self.slots - 1, -1, -1):
            self.unused[self.n_unused] = <int> k
            self.n_unused += 1
        cdef const long long[:, ::1] messages = entries["messages"], letters = entries["letters"]
        cdef unsigned char[:, ::1] data = entries["records"]
        cdef const long long[::1] place, letter_place
        if self.message_log.max_rows:
            place, letter_place = entries["places"], entries["letter_places"]
            messagelog_fill(&self.message_log, entries["logged"])
            self.message_log.n_unlogged = entries["unlogged"]
        for k in range(messages.shape[0]):
            if self.n_unused == 0:
                self._make_slots()
            self.n_unused -= 1
            slot = self.unused[self.n_unused]
            m = message_of(self, slot)
            m.kind, m.source, m.target = <short> messages[k, 2], <int> messages[k, 4], <int> messages[k, 5]
            m.source_incarnation, m.target_incarnation = <int> messages[k, 6], <int> messages[k, 7]
            m.nbytes, m.start, m.lost = <int> messages[k, 8], messages[k, 9], messages[k, 10] != 0
            self._transmission_time(max(0, m.nbytes))  # raises an error if it is too long
            if messages[k, 3] and m.nbytes < 0:
                raise ValueError(f"state['messages'] must have a size for messages in transit to an interface, got {m.nbytes}")
            memcpy(&data[k, 0], &messages[k, 0], HEADER)
            memcpy(m + 1, &data[k, 0], self.stride)
            if self.message_log.max_rows:
                self.message_log.of_slot[slot] = <int> place[k]
            pending_push(&self.heads if messages[k, 3] and self.fifo else &self.queue[m.kind], messages[k, 11],
                         messages[k, 12], slot)
        mailboxes_clear(&self.boxes, boxes)
        data = entries["letter_records"]
        for k in range(letters.shape[0]):
            letter.time, letter.nbytes, letter.incarnation = letters[k, 3], <int> letters[k, 4], <int> letters[k, 5]
            memcpy(&data[k, 0], &letters[k, 0], HEADER)
            if self.message_log.max_rows:
                self._make_letter()
            mailboxes_put(&self.boxes, letters[k, 2], &letter, &data[k, 0], self.boxes.stride)
            if self.message_log.max_rows:
                self.message_log.of_letter[self.boxes.last[letters[k, 2]]] = <int> letter_place[k]

    cdef object _failure_times(self):
        """Return int64[sum of `incarnation`], the instants in `failures` by machine, the latest first."""
        cdef Py_ssize_t u, n = 0
        cdef long long entry
        times = np.empty(int(np.sum(self.table["incarnation"], dtype=np.int64)), np.int64)
        cdef long long[::1] out = times
        for u in range(self.machines):
            entry = u
            for _ in range(self.host[u].incarnation):
                out[n] = self.failures[entry, 0]
                n, entry = n + 1, self.failures[entry, 1]
        return times

    cdef int _set_failures(self, const long long[::1] times, const int[:] incarnation) except -1:
        """Restore the failures of a state."""
        cdef Py_ssize_t u, at = 0
        cdef long long entry
        self.failures = np.zeros((self.machines + times.shape[0], 2), np.int64)
        self.n_failures, self.table["incarnation"] = self.machines, incarnation
        for u in range(self.machines):
            entry = u
            for _ in range(incarnation[u]):
                if entry == self.n_failures:
                    self.n_failures += 1
                self.failures[entry, 0], self.failures[entry, 1] = times[at], self.n_failures
                at, entry = at + 1, self.n_failures
        return 0

    cdef dict _columns(self):
        """Return the arrays of fixed length that change during a run, by name."""
        return {
            "machine_of": np.asarray(self.machine_of),
            **{name: self.table[name] for name in ("up_free", "down_free", "down")},
            "detached": np.asarray(self.is_detached),
            "sent": self.sent, "delivered": self.delivered, "dropped": self.dropped, "traffic": self.traffic,
            "bytes_out": self.bytes_out, "bytes_in": self.bytes_in, "by_level": self.by_level,
            **({} if self.windows is None else {"windows": self.windows}),
        }

    def in_flight(self) -> Integers:
        """Return int64[kinds]: the number of sent messages that are not yet delivered or dropped."""
        cdef _Guard access = guard(&self.in_call)
        return self.sent - self.delivered - self.dropped
