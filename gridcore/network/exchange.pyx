"""Messages between the processes that share a run.

Each process simulates some of the machines.  A message between two machines takes at least the latency of a link.
Within an epoch of that length the processes are therefore independent: they simulate the epoch, meet, and exchange
the messages sent in it::

    process 0  --- epoch ---|    |--- epoch ---|    |---
                            swap               swap
    process 1  ---- epoch --|    |-- epoch ----|    |---

The result is that of a single process.  A single process numbers messages in the order of sending; the number breaks
ties, and determines the delay of a message if there is jitter.  Here each process keeps its messages in that order
with the key (time, stage, sender): a stage is a step of an instant, the same in all processes (see
`gridcore.nodes.shared_events`).  When they meet, each process merges the keys of all, which gives the numbers.

The shared `memory` has, for each process, a counter of its meetings, and two areas that it writes alternately and
the others read.  A process writes an area again only after the next meeting, when all others have read it.
"""

cimport cython

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from gridcore.common.arguments cimport indices
from gridcore.common.memory cimport reallocate
from gridcore.network.links cimport Links
from gridcore.network.transit cimport Message, Sent, message_of, record_of

import numpy as np

__all__ = ["Exchange"]

cdef extern from "exchange.h":
    void announce "gridcore_announce"(long long* counter, long long value) noexcept nogil
    long long announced "gridcore_announced"(long long* counter) noexcept nogil
    void give_way "gridcore_yield"() noexcept nogil

# Bytes between the counters of two processes, which must not share a cache line.
cdef Py_ssize_t _COUNTER_STRIDE = 128
# A waiting process yields after this many reads of a counter, and checks after this many that all processes still run.
cdef Py_ssize_t _SPINS = 2000
cdef Py_ssize_t _SPINS_PER_WATCH = 20_000

cdef struct Parcel:                     # the head of a message to another process; record and extra data follow
    long long index, nbytes             # index of its key among the sender's keys; size of the parcel
    Message message


cdef inline bint precedes(const Sent* a, const Sent* b) noexcept nogil:
    if a.time != b.time:
        return a.time < b.time
    if a.stage != b.stage:
        return a.stage < b.stage
    return a.node < b.node


@cython.auto_pickle(False)
cdef class Exchange:
    """The exchange of the messages of `links` between `ranks` processes, as seen by one of them.

    Parameters
    ----------
    links
        The messages of the run; this process delivers those to its own machines.
    owner
        int32[machines], the rank of the process of each machine.
    rank, ranks
        The number of this process, 0..ranks - 1, and the number of processes.
    memory
        uint8[bytes], zero at first; the same memory in all processes.
    watch
        Called periodically while this process waits; it raises an error if another process has ended.
    """

    def __cinit__(self, Links links, owner: ArrayLike, Py_ssize_t rank, Py_ssize_t ranks,
                  unsigned char[::1] memory, watch: Callable[[], None]):
        if not 0 <= rank < ranks <= 1024:
            raise ValueError(f"rank must be in 0..ranks - 1, and ranks at most 1024, got {rank} and {ranks}")
        owners = np.array(indices(owner, "owner", 0, ranks), np.int32)
        if owners.shape[0] != links.machines:
            raise ValueError(f"owner must have {links.machines} entries, got {owners.shape[0]}")
        self.capacity = (memory.shape[0] // ranks - _COUNTER_STRIDE) // 2 // 64 * 64
        if self.capacity < <Py_ssize_t> (sizeof(Head) + sizeof(Parcel)) + links.stride + 64:
            raise ValueError(f"memory must have room for a message of each of {ranks} processes, "
                             f"got {memory.shape[0]} bytes")
        if <size_t> &memory[0] & 7:
            raise ValueError(f"memory must be aligned to 8 bytes, got an offset of {<size_t> &memory[0] & 7} bytes")
        self.links, self.rank, self.ranks, self.memory, self.watch = links, rank, ranks, memory, watch
        self.inbox = <Inbox*> calloc(ranks, sizeof(Inbox))
        self.facts = <long long*> calloc(ranks * FACTS, sizeof(long long))
        if self.inbox == NULL or self.facts == NULL:
            raise MemoryError
        links.owner, links.rank, links.shared = owners, <int> rank, True
        self.base = links.sequence

    def __dealloc__(self):
        cdef Py_ssize_t p
        for p in range(self.ranks if self.inbox != NULL else 0):
            free(self.inbox[p].key)
            free(self.inbox[p].parcels)
        free(self.inbox)
        free(self.facts)

    cdef long long* _counter(self, Py_ssize_t rank) noexcept nogil:
        return <long long*> &self.memory[rank * _COUNTER_STRIDE]

    cdef char* _area(self, Py_ssize_t rank) noexcept nogil:
        return <char*> &self.memory[self.ranks * _COUNTER_STRIDE + (2 * rank + self.meetings % 2) * self.capacity]

    cdef int _meet(self) except -1:
        """Wait until all processes have made this call (a barrier)."""
        cdef Py_ssize_t p, spins
        cdef long long* counter
        announce(self._counter(self.rank), self.meetings + 1)
        for p in range(self.ranks):
            counter = self._counter(p)
            spins = 0
            while announced(counter) <= self.meetings:
                spins += 1
                if spins < _SPINS:
                    continue
                with nogil:
                    give_way()
                if spins % _SPINS_PER_WATCH == 0:
                    self.watch()
        return 0

    cdef int _share(self, const long long* facts) except -1:
        cdef Py_ssize_t p
        memcpy((<Head*> self._area(self.rank)).facts, facts, FACTS * sizeof(long long))
        self._meet()
        for p in range(self.ranks):
            memcpy(self.facts + p * FACTS, (<Head*> self._area(p)).facts, FACTS * sizeof(long long))
        self.meetings += 1
        return 0

    cdef int _swap(self, const long long* facts) except -1:
        cdef Py_ssize_t p, key = 0, parcel = 0
        cdef bint has_more = True
        cdef Head* head
        while has_more:
            head = <Head*> self._area(self.rank)
            memcpy(head.facts, facts, FACTS * sizeof(long long))
            self._put(sizeof(Head), &key, &parcel)
            head.has_more = key < self.links.n_outbox or parcel < self.links.n_outbox
            self._meet()
            has_more = False
            for p in range(self.ranks):
                head = <Head*> self._area(p)
                has_more |= head.has_more
                memcpy(self.facts + p * FACTS, head.facts, FACTS * sizeof(long long))
                if p != self.rank:
                    self._get(p)
            self.meetings += 1
        return self._merge()

    cdef Py_ssize_t _put(self, Py_ssize_t used, Py_ssize_t* key, Py_ssize_t* parcel) except -1:
        """Write keys from `key` on and parcels from `parcel` on to the area of this process, as many as fit."""
        cdef Links links = self.links
        cdef char* area = self._area(self.rank)
        cdef Head* head = <Head*> area
        cdef Py_ssize_t n = min(links.n_outbox - key[0], (self.capacity - used) // <Py_ssize_t> sizeof(Sent)), size, begin
        cdef Parcel header
        cdef int slot
        memcpy(area + used, links.outbox + key[0], n * sizeof(Sent))
        head.keys = n
        key[0] += n
        used += n * sizeof(Sent)
        begin = used
        while key[0] == links.n_outbox and parcel[0] < links.n_outbox:
            slot = links.outbox[parcel[0]].slot
            if slot >= 0 and links.owner[message_of(links, slot).target] != links.rank:
                size = <Py_ssize_t> sizeof(Parcel) + links.stride + ((self._extra(slot) + 7) & ~7)
                if used + size > self.capacity:
                    if size > self.capacity - <Py_ssize_t> sizeof(Head):
                        raise ValueError(f"memory must have room for a message of {size} bytes, got {self.capacity}")
                    break
                header.index, header.nbytes, header.message = parcel[0], size, message_of(links, slot)[0]
                memcpy(area + used, &header, sizeof(Parcel))
                self._wrap(slot, area + used + sizeof(Parcel) + links.stride)
                memcpy(area + used + sizeof(Parcel), record_of(links, slot), links.stride)
                used += size
            parcel[0] += 1
        head.nbytes = used - begin
        return used

    cdef int _get(self, Py_ssize_t rank) except -1:
        """Copy the keys and parcels in the area of a process."""
        cdef const char* area = self._area(rank)
        cdef const Head* head = <const Head*> area
        cdef Inbox* box = &self.inbox[rank]
        if box.n + head.keys > box.capacity:
            box.capacity = 2 * (box.n + head.keys)
            box.key = <Sent*> reallocate(box.key, box.capacity * sizeof(Sent))
        memcpy(box.key + box.n, area + sizeof(Head), head.keys * sizeof(Sent))
        box.n += head.keys
        if box.nbytes + head.nbytes > box.parcel_capacity:
            box.parcel_capacity = 2 * (box.nbytes + head.nbytes)
            box.parcels = <char*> reallocate(box.parcels, box.parcel_capacity)
        memcpy(box.parcels + box.nbytes, area + sizeof(Head) + head.keys * sizeof(Sent), head.nbytes)
        box.nbytes += head.nbytes
        return 0

    cdef int _merge(self) except -1:
        """Number the messages of all processes in order, and dispatch messages to machines of this process."""
        cdef Links links = self.links
        cdef Inbox* own_box = &self.inbox[self.rank]
        cdef Inbox* box
        cdef Inbox* first_box
        cdef Py_ssize_t p
        cdef long long sequence = self.base
        cdef const Parcel* parcel
        cdef int slot
        own_box.key, own_box.n = links.outbox, links.n_outbox
        for p in range(self.ranks):
            self.inbox[p].at = self.inbox[p].parcel = 0
        while True:
            first_box = NULL
            for p in range(self.ranks):
                box = &self.inbox[p]
                if box.at < box.n and (first_box == NULL or precedes(&box.key[box.at], &first_box.key[first_box.at])):
                    first_box = box
            if first_box == NULL:
                break
            if first_box == own_box:
                slot = own_box.key[own_box.at].slot
                if slot >= 0 and links.owner[message_of(links, slot).target] == links.rank:
                    links._depart(slot, sequence, links._transmission_time(message_of(links, slot).nbytes))
                    self._admit(slot)
                elif slot >= 0:
                    links._free_slot(slot)
            elif first_box.parcel < first_box.nbytes:
                parcel = <const Parcel*> (first_box.parcels + first_box.parcel)
                if parcel.index == first_box.at:
                    if links.owner[parcel.message.target] == links.rank:
                        self._unpack(<const char*> parcel, sequence)
                    first_box.parcel += parcel.nbytes
            first_box.at += 1
            sequence += 1
        own_box.key, own_box.n = NULL, 0
        for p in range(self.ranks):
            self.inbox[p].n = self.inbox[p].nbytes = 0
        links.n_outbox = 0
        links.sequence = self.base = sequence
        return 0

    cdef int _unpack(self, const char* parcel, long long sequence) except -1:
        """Dispatch a message of another process to its receiver here."""
        cdef Links links = self.links
        cdef int slot
        if links.n_unused == 0:
            links._make_slots()
        links.n_unused -= 1
        slot = links.unused[links.n_unused]
        message_of(links, slot)[0] = (<const Parcel*> parcel).message
        memcpy(record_of(links, slot), parcel + sizeof(Parcel), links.stride)
        self._unwrap(slot, parcel + sizeof(Parcel) + links.stride)
        links._depart(slot, sequence, links._transmission_time(message_of(links, slot).nbytes))
        return self._admit(slot)

    cdef Py_ssize_t _extra(self, int slot) noexcept nogil:
        return 0

    cdef int _wrap(self, int slot, char* to) except -1:
        return 0

    cdef int _unwrap(self, int slot, const char* source) except -1:
        return 0

    cdef int _admit(self, int slot) except -1:
        return 0
