"""Messages in flight between the network interfaces of machines, as kernels send and receive them.

The model is exact, in two stages.  In the first, the message starts when the sender's interface is free,
``start = max(now, up_free)``, and its head arrives `latency` later.  In the second, the receiver's interface
takes the bytes of the message as soon as the head is there and the interface is free,
``delivered = max(head, down_free) + transmission_time``.  One stage would not be exact: once messages queue at the
senders, a message sent later may arrive first.

The kernel runs the first stage of everything in flight by itself, and stops where a delivery must be handled.
Messages between nodes of one machine, or of machines that share an interface, take no time and are not counted.
Without FIFO interfaces (``fifo=False``) messages do not wait: each takes the latency and its own transmission time.

A record is opaque except for its first two int64 fields, the receiving and the sending node.
The reference implementation is `tests.reference.links`.
"""

from libc.math cimport llrint
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy

from gridcore.common.heap cimport Event
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport (
    copy_words, free_aligned, large_pages, prefetch, prefetch_at, reallocate, reallocate_aligned,
)
from gridcore.common.pending cimport (
    Pending, pending_fetch, pending_first, pending_free, pending_in_order, pending_pop, pending_push, pending_slot,
)
from gridcore.network.mailboxes cimport (
    Letter, mailboxes_due, mailboxes_free, mailboxes_put, mailboxes_reserve, mailboxes_take,
)
from gridcore.network.message_log cimport (
    DROPPED, UNDER_WAY, LogEntry, messagelog_add, messagelog_end, messagelog_free, messagelog_letters,
    messagelog_slots, messagelog_subject,
)

cimport cython

import numpy as np

__all__ = ["Transit"]


cdef int by_node(const void* a, const void* b) noexcept nogil:
    cdef const Due* x = <const Due*> a
    cdef const Due* y = <const Due*> b
    if x.node != y.node:
        return -1 if x.node < y.node else 1
    return -1 if x.rank < y.rank else 1


@cython.auto_pickle(False)
cdef class Transit:
    """Messages in flight; the attributes are set by `Links`."""

    def __dealloc__(self):
        cdef Py_ssize_t k
        mailboxes_free(&self.boxes)
        pending_free(&self.heads)
        for k in range(self.kinds):
            pending_free(&self.queue[k])
        free(self.queue)
        free_aligned(self.block)
        free(self.unused)
        free(self.due)
        free(self.missing)
        free(self.outbox)
        messagelog_free(&self.message_log)

    cdef int _make_slots(self) except -1:
        # grow by only a half, because messages in flight may take most of the memory of a run
        cdef Py_ssize_t slots = self.slots + self.slots // 2 + 256, k
        if slots > 2147483647:
            raise MemoryError(f"at most {2**31 - 1} messages can be in flight")
        self.block = <char*> reallocate_aligned(self.block, self.slots * self.slot_size, slots * self.slot_size)
        self.unused = <int*> reallocate(self.unused, slots * sizeof(int))
        large_pages(self.block, slots * self.slot_size)
        if self.message_log.max_rows:
            messagelog_slots(&self.message_log, slots)
        # done last, since the calls above may raise MemoryError
        for k in range(slots - 1, self.slots - 1, -1):
            self.unused[self.n_unused] = <int> k
            self.n_unused += 1
        self.slots = slots
        return 0

    cdef int _make_letter(self) except -1:
        """Make room for one more message in the mailboxes, and for its index in the log."""
        mailboxes_reserve(&self.boxes)
        return messagelog_letters(&self.message_log, self.boxes.capacity)

    cdef long long _transmission_time(self, long long nbytes) except -1:
        cdef double transmission_time = nbytes / self.bandwidth * 1e9
        if not 0.0 <= transmission_time <= LONGEST_MESSAGE:
            raise ValueError(f"a message must take at most {LONGEST_MESSAGE} ns, "
                             f"got {transmission_time} for {nbytes} bytes at {self.bandwidth} bytes/s")
        return llrint(transmission_time)

    cdef int _send(self, long long now, int kind, const void* record, long long nbytes,
                   long long transmission_time) except -1:
        cdef const long long* header = <const long long*> record
        cdef int source = self._machine_of(header[1]), target = self._machine_of(header[0]), slot
        cdef Py_ssize_t interface = source if self.is_uniform else self.host[source].interface
        cdef bint is_local = interface == (target if self.is_uniform else self.host[target].interface)
        cdef long long sequence = self.sequence, start
        if self.shared and self.owner[source] != self.rank:
            return 0  # the process of the sender sends it
        if self.n_unused == 0:
            self._make_slots()
        slot = self.unused[self.n_unused - 1]
        # filled in place: copying a new struct would stall until its fields are stored
        cdef Message* m = message_of(self, slot)
        m.kind, m.nbytes, m.start = <short> kind, -1 if is_local else <int> nbytes, now
        self._set_ends(m, source, target)
        copy_words(m + 1, record, self.width[kind])
        if self.fifo and not is_local:
            start = max(now, self.host[interface].up_free)
            if start > LATEST:
                raise OverflowError(f"messages of machine {source} must start by {LATEST} ns, got {start}")
            m.start = start
            self.host[interface].up_free = start + transmission_time
        self.n_unused -= 1
        self.sequence += 1
        if self.message_log.max_rows:
            self.message_log.of_slot[slot] = -1
            if not is_local:
                self.message_log.of_slot[slot] = self._log(kind, record, now, UNDER_WAY, nbytes)
        if is_local:
            if self.shared:
                self._post(now, header[1], -1)
            return pending_push(&self.queue[kind], now, sequence, slot)
        self._count_sent(source, header[1], kind, nbytes)
        if self.windows is not None and not self.fifo:
            self._count_window(source, now, <int> nbytes)
            self._count_window(target, now + self.latency, <int> nbytes)
        if self.shared:
            return self._post(now, header[1], slot)
        return self._depart(slot, sequence, transmission_time)

    @cython.final
    cdef int _machine_of(self, Py_ssize_t node) noexcept nogil:
        return <int> (node if self.is_one_to_one else self.machine_of[node])

    @cython.final
    cdef void _set_ends(self, Message* m, int source, int target) noexcept nogil:
        """Set the machines of a message, in their present incarnations."""
        m.source, m.target = source, target
        m.source_incarnation = m.target_incarnation = m.lost = 0
        if not self.is_uniform:
            m.source_incarnation, m.target_incarnation = self.host[source].incarnation, self.host[target].incarnation
            m.lost = self.host[source].down

    @cython.final
    cdef void _count_sent(self, Py_ssize_t source, Py_ssize_t sender, int kind, long long nbytes) noexcept nogil:
        cdef Py_ssize_t level = self.level_of[sender]
        self._sent[kind] += 1
        self._traffic[kind] += nbytes
        self.host[source].bytes_out += nbytes
        self._by_level[0, kind, level] += 1
        self._by_level[1, kind, level] += nbytes

    @cython.final
    cdef int _depart(self, int slot, long long sequence, long long transmission_time) except -1:
        """Dispatch message number `sequence`, which goes to another machine."""
        cdef const Message* m = message_of(self, slot)
        cdef long long head = m.start + self._delay(sequence)
        if self.fifo:
            return pending_push(&self.heads, head, sequence, slot)
        return pending_push(&self.queue[m.kind], head + transmission_time, sequence, slot)

    cdef int _post(self, long long now, Py_ssize_t sender, int slot) except -1:
        """Keep a message for the next exchange between processes."""
        cdef Sent* sent
        if self.n_outbox == self.outbox_room:
            self.outbox = <Sent*> reallocate(self.outbox, (2 * self.outbox_room + 256) * sizeof(Sent))
            self.outbox_room = 2 * self.outbox_room + 256
        sent = &self.outbox[self.n_outbox]
        sent.time, sent.stage, sent.node, sent.slot = now, self.stage, <int> sender, slot
        self.n_outbox += 1
        return 0

    cdef int _send_directly(self, long long now, int kind, const void* record, long long nbytes, long long delay,
                        long long sequence, bint is_counted) except -1:
        """Send a message that bypasses the interfaces: it arrives exactly `delay` ns later and delays no other message.

        Parameters
        ----------
        sequence
            The position of the message in the order of its kind; all messages of the kind must be sent in this way.
        is_counted
            Whether the message is counted if it goes to another machine.
        """
        cdef const long long* header = <const long long*> record
        cdef int source = self._machine_of(header[1]), target = self._machine_of(header[0]), slot
        cdef Message* m
        if self.n_unused == 0:
            self._make_slots()
        self.n_unused -= 1
        slot = self.unused[self.n_unused]
        m = message_of(self, slot)
        is_counted = is_counted and (source != target if self.is_uniform
                                     else self.host[source].interface != self.host[target].interface)
        m.kind, m.nbytes, m.start = <short> kind, <int> nbytes if is_counted else -1, now
        self._set_ends(m, source, target)
        copy_words(m + 1, record, self.width[kind])
        if self.message_log.max_rows:
            self.message_log.of_slot[slot] = self._log(kind, record, now, UNDER_WAY, nbytes) if is_counted else -1
        if is_counted:
            self._count_sent(source, header[1], kind, nbytes)
        return pending_push(&self.queue[kind], now + delay, sequence, slot)

    @cython.final
    cdef long long _delay(self, unsigned long long sequence) noexcept nogil:
        """Return the latency of a message from a hash of its number; it does not depend on other draws."""
        if self.jitter == 0:
            return self.latency
        # SplitMix64 (Steele, Lea and Flood 2014)
        cdef unsigned long long x = self.seed + (sequence + 1) * <unsigned long long> 0x9E3779B97F4A7C15
        x = (x ^ (x >> 30)) * <unsigned long long> 0xBF58476D1CE4E5B9
        x = (x ^ (x >> 27)) * <unsigned long long> 0x94D049BB133111EB
        x ^= x >> 31
        return self.latency - self.jitter + <long long> (x % (2 * <unsigned long long> self.jitter + 1))

    cdef long long _advance(self, long long limit) except -1:
        cdef Event e
        cdef const Event* head
        cdef Message* m
        cdef Host* interface
        cdef Letter letter
        cdef long long until = min(limit, self._first_delivery()), box, transmission_time
        while True:
            head = pending_first(&self.heads)
            if head == NULL or head.time > until:
                break
            e = pending_pop(&self.heads)
            self._prefetch(&self.heads)
            m = message_of(self, e.slot)
            if (m.lost or e.time >= self._end_of_incarnation(m.target, m.target_incarnation)
                    or m.start > self._end_of_incarnation(m.source, m.source_incarnation)):
                # the loss is reported when the head would have arrived
                m.lost = True
                if self.keep[m.kind]:
                    pending_push(&self.queue[m.kind], e.time, e.sequence, e.slot)
                    until = min(until, e.time)
                else:
                    self._drop(e.slot)
                continue
            if self.windows is not None:
                self._count_window(m.source, m.start, m.nbytes)
            interface = &self.host[self.host[m.target].interface]
            transmission_time = llrint(m.nbytes / self.bandwidth * 1e9)
            e.time = max(e.time, interface.down_free) + transmission_time
            interface.down_free = e.time
            if self.windows is not None:
                self._count_window(m.target, e.time - transmission_time, m.nbytes)
            if self.deferred[m.kind]:
                letter.time, letter.nbytes, letter.incarnation = e.time, m.nbytes, m.target_incarnation
                box = self.boxes_of[m.kind] + m.target
                if self.message_log.max_rows:
                    self._make_letter()
                mailboxes_put(&self.boxes, box, &letter, m + 1, self.width[m.kind])
                if self.message_log.max_rows:
                    self.message_log.of_letter[self.boxes.last[box]] = self.message_log.of_slot[e.slot]
                self._free_slot(e.slot)
            else:
                pending_push(&self.queue[m.kind], e.time, e.sequence, e.slot)
                until = min(until, e.time)
        until = self._first_delivery()
        return until if until <= limit else NEVER

    @cython.final
    cdef long long _first_delivery(self) noexcept nogil:
        """Return the earliest known delivery (ns) of a kind that is not deferred."""
        cdef long long first = NEVER
        cdef const Event* e
        cdef int kind
        for kind in range(self.kinds):
            if not self.deferred[kind]:
                e = pending_first(&self.queue[kind])
                if e != NULL and e.time < first:
                    first = e.time
        return first

    cdef long long _first_outer_delivery(self) noexcept nogil:
        """Return the earliest known delivery (ns) of a kind that is neither deferred nor `inner`."""
        cdef long long first = NEVER
        cdef const Event* e
        cdef int kind
        for kind in range(self.kinds):
            if not self.deferred[kind] and not self.inner[kind]:
                e = pending_first(&self.queue[kind])
                if e != NULL and e.time < first:
                    first = e.time
        return first

    @cython.final
    cdef long long _end_of_incarnation(self, int machine, int incarnation) noexcept nogil:
        """Return when incarnation number `incarnation` of a machine ended, ns; `NEVER` if it lasts, its start if the machine is down."""
        cdef long long entry = machine
        cdef int later = self.host[machine].incarnation - incarnation - 1
        if later < 0:
            return self.failures[machine, 0] if self.host[machine].down else NEVER
        while later > 0:
            entry = self.failures[entry, 1]
            later -= 1
        return self.failures[entry, 0]

    cdef void _drop(self, int slot) noexcept nogil:
        self._count_dropped(slot)
        self._free_slot(slot)

    @cython.final
    cdef void _count_dropped(self, int slot) noexcept nogil:
        if message_of(self, slot).nbytes >= 0:
            self._dropped[message_of(self, slot).kind] += 1
            if self.message_log.max_rows:
                messagelog_end(&self.message_log, self.message_log.of_slot[slot], DROPPED)

    @cython.final
    cdef void _free_slot(self, int slot) noexcept nogil:
        self.unused[self.n_unused] = slot
        self.n_unused += 1

    cdef Py_ssize_t _take(self, int kind, long long until) except -1:
        """Move messages of `kind` delivered by `until` ns into `due`, in order of delivery; return their number.

        The caller must free their slots after it has read the records.
        """
        cdef Py_ssize_t n = 0
        cdef const Event* first
        cdef Event e
        while True:
            first = pending_first(&self.queue[kind])
            if first == NULL or first.time > until:
                return n
            e = pending_pop(&self.queue[kind])
            self._prefetch(&self.queue[kind])
            if not count_arrival(self, e.slot, kind, e.time):
                continue
            self._reserve_due(n + 1)
            self.due[n].node, self.due[n].slot = <int> (<const long long*> record_of(self, e.slot))[0], e.slot
            self.due[n].rank, self.due[n].time = n, e.time
            n += 1

    cdef int _take_first(self, int kind) except -2:
        """Remove the first message of `kind`; return its slot, which the caller must free, or -1 if it was lost."""
        cdef Event e = pending_pop(&self.queue[kind])
        self._prefetch(&self.queue[kind])
        return e.slot if count_arrival(self, e.slot, kind, e.time) else -1

    @cython.final
    cdef void _prefetch(self, Pending* p) noexcept nogil:
        """Prefetch the next messages of a queue, and the hosts that the first of them go to."""
        cdef Py_ssize_t k
        cdef int slot
        if self.machines < FEW:
            return
        if pending_fetch(p):
            for k in range(p.heap.n_front):
                self._prefetch_message(p.heap.front[k].slot)
        if not pending_in_order(p):
            for k in range(1, min(<Py_ssize_t> NEAR + 1, p.heap.n_front)):  # the second event is one of these
                prefetch(&self.host[message_of(self, p.heap.front[k].slot).target])
            return
        slot = pending_slot(p, FAR)
        if slot >= 0:
            self._prefetch_message(slot)
        slot = pending_slot(p, NEAR)
        if slot >= 0:
            prefetch(&self.host[message_of(self, slot).target])

    @cython.final
    cdef void _prefetch_message(self, int slot) noexcept nogil:
        prefetch(message_of(self, slot))
        if self.slot_size > LINE:
            prefetch_at(message_of(self, slot), LINE)

    @cython.final
    cdef int _reserve_due(self, Py_ssize_t n) except -1:
        if n > self.due_capacity:
            self.due = <Due*> reallocate(self.due, (2 * n + 64) * sizeof(Due))
            self.due_capacity = 2 * n + 64
        return 0

    cdef void _sort_by_node(self, Py_ssize_t n) noexcept nogil:
        """Sort the messages taken into `due` by (receiver, order of delivery)."""
        cdef Py_ssize_t k
        for k in range(1, n):
            if self.due[k].node < self.due[k - 1].node:
                qsort(self.due, n, sizeof(Due), by_node)
                return

    cdef object _records(self, int kind, Py_ssize_t n):
        """Return the records of the first n messages in `due`, uint8[n, width], and free their slots."""
        cdef Py_ssize_t k, width = self.width[kind]
        result = np.empty((n, width), np.uint8)
        cdef unsigned char[:, ::1] out = result
        for k in range(n):
            memcpy(&out[k, 0], record_of(self, self.due[k].slot), width)
            self._free_slot(self.due[k].slot)
        return result

    cdef object _take_unboxed(self, int kind, long long until):
        """Return the deferred messages outside mailboxes: machines, times, records."""
        cdef Py_ssize_t k, n = self._take(kind, until)
        machine, times = np.empty(n, np.int64), np.empty(n, np.int64)
        cdef long long[::1] to = machine, at = times
        for k in range(n):
            to[k], at[k] = message_of(self, self.due[k].slot).target, self.due[k].time
        return machine, times, self._records(kind, n)

    cdef object _take_boxed(self, int kind, long long until):
        """Return the deferred messages that wait in mailboxes: machines, times, records."""
        cdef Py_ssize_t n = 0, width = self.width[kind], low = self.boxes_of[kind], high, k, capacity
        cdef int entry, target
        cdef const Letter* letter
        high = low + self.machines if low >= 0 else low
        capacity = mailboxes_due(&self.boxes, low, high, until)
        machine, times = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        records = np.empty((capacity, width), np.uint8)
        cdef long long[::1] to = machine, at = times
        cdef unsigned char[:, ::1] out = records
        for k in range(self.boxes.n_open):
            if not low <= self.boxes.open[k] < high:
                continue
            target = <int> (self.boxes.open[k] - low)
            while True:
                entry = mailboxes_take(&self.boxes, self.boxes.open[k], until)
                if entry < 0:
                    break
                letter = &self.boxes.letter[entry]
                if letter.time >= self._end_of_incarnation(target, letter.incarnation):
                    self._dropped[kind] += 1
                    if self.message_log.max_rows:
                        messagelog_end(&self.message_log, self.message_log.of_letter[entry], DROPPED)
                    continue
                self._delivered[kind] += 1
                self.host[target].bytes_in += letter.nbytes
                if self.message_log.max_rows:
                    messagelog_end(&self.message_log, self.message_log.of_letter[entry], letter.time)
                to[n], at[n] = target, letter.time
                memcpy(&out[n, 0], self.boxes.record + entry * self.boxes.stride, width)
                n += 1
        return machine[:n], times[:n], records[:n]

    @cython.final
    cdef void _count_window(self, int machine, long long at, int nbytes) noexcept nogil:
        if at >= self.window_start and (at - self.window_start) // self.window < self.n_windows:
            self._windows[machine, (at - self.window_start) // self.window] += nbytes

    cdef int _log(self, int kind, const void* record, long long sent, long long delivered, long long nbytes) except -2:
        """Log a message between the nodes of `record`; return its place in the log, or -1 if it is not logged."""
        cdef const long long* header = <const long long*> record
        cdef LogEntry p
        if self.is_logged is not None and not self.is_logged[header[1]]:
            return -1
        p.kind, p.nbytes, p.sent, p.delivered, p.node = kind, <int> nbytes, sent, delivered, <int> header[1]
        p.receiver, p.sender = <int> self.machine_of[header[0]], <int> self.machine_of[header[1]]
        p.subject = messagelog_subject(record, self.subject_at[kind])
        return messagelog_add(&self.message_log, &p)


cdef inline bint count_arrival(Transit self, int slot, int kind, long long time) except -1:
    """Count a message as delivered at `time` ns; if it is lost, count it as dropped and return False."""
    cdef Message* m = message_of(self, slot)
    if (m.lost or time >= self._end_of_incarnation(m.target, m.target_incarnation)
            or self.is_detached[(<const long long*> (m + 1))[0]] and not self.deferred[kind]):
        if self.keep[kind]:
            self.missing = <int*> reallocate(self.missing, (self.n_missing + 1) * sizeof(int))
            self.missing[self.n_missing] = slot
            self.n_missing += 1
            self._count_dropped(slot)
        else:
            self._drop(slot)
        return False
    if m.nbytes >= 0:
        self._delivered[kind] += 1
        self.host[m.target].bytes_in += m.nbytes
        if self.message_log.max_rows:
            messagelog_end(&self.message_log, self.message_log.of_slot[slot], time)
    return True
