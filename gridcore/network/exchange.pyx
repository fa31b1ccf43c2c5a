"""Messages between the processes that share a run.

Each process has some of the machines, and runs what happens on them.  A message between two machines takes at least
as long as a link delays it.  So the processes need not know of each other what happens within an epoch of that
length: they run it, meet, and exchange what was sent meanwhile::

    process 0  --- epoch ---|    |--- epoch ---|    |---
                            swap               swap
    process 1  ---- epoch --|    |-- epoch ----|    |---

The result is that of a single process.  There messages are numbered in the order in which they are sent, and the
number decides ties, and the delay of a message where delays differ.  Here each process keeps its messages in that
order with the key (time, stage, sender): a stage is a step of an instant, the same in all processes (see
`gridcore.fair_tree.shared_flow`).  When they meet, each merges the keys of all, and so learns the numbers.

`memory` is shared by the processes and has, for each of them, a counter of its meetings, and two areas in which it
puts what the others read.  It puts the next part into the other area, and comes back to the first when all have
met again, and so have read it.
"""

cimport cython

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from gridcore.common.arguments cimport indices
from gridcore.common.memory cimport grown
from gridcore.network.links cimport Links
from gridcore.network.transit cimport Message, Sent

import numpy as np

__all__ = ["Exchange"]

cdef extern from "exchange.h":
    void announce "gridcore_announce"(long long* counter, long long value) noexcept nogil
    long long announced "gridcore_announced"(long long* counter) noexcept nogil
    void give_way "gridcore_yield"() noexcept nogil

# Bytes between the counters of two processes, so that these do not share a cache line.
cdef Py_ssize_t _APART = 128
# How often a process looks at a counter before it gives way, and gives way before it looks whether all still run.
cdef Py_ssize_t _LOOKS = 2000
cdef Py_ssize_t _WAITS = 20_000

cdef struct Parcel:                     # a message to a machine of another process; the record and what else follow
    long long index, nbytes             # of its key among those of the sender; of the whole parcel
    Message message


cdef inline bint before(const Sent* a, const Sent* b) noexcept nogil:
    if a.time != b.time:
        return a.time < b.time
    if a.stage != b.stage:
        return a.stage < b.stage
    return a.node < b.node


@cython.auto_pickle(False)
cdef class Exchange:
    """One of `ranks` processes that share the messages of `links`.

    Parameters
    ----------
    links
        The messages of the run, of which this process will carry those to machines that it has.
    owner
        int32[machines], the rank of the process that has each machine.
    rank, ranks
        The number of this process, and how many there are.
    memory
        uint8[bytes], zero at first; the same memory in all processes.
    watch
        A function that is called while this process waits, now and then; it raises if another one has ended.
    """

    def __cinit__(self, Links links, owner: ArrayLike, Py_ssize_t rank, Py_ssize_t ranks,
                  unsigned char[::1] memory, watch: Callable[[], None]):
        if not 0 <= rank < ranks <= 1024:
            raise ValueError(f"rank must be below ranks, and ranks at most 1024, got {rank} and {ranks}")
        given = np.array(indices(owner, "owner", 0, ranks), np.int32)
        if given.shape[0] != links.machines:
            raise ValueError(f"owner must have {links.machines} entries, got {given.shape[0]}")
        self.room = (memory.shape[0] // ranks - _APART) // 2 // 64 * 64
        if self.room < <Py_ssize_t> (sizeof(Head) + sizeof(Parcel)) + links.stride + 64:
            raise ValueError(f"memory must have more bytes for each of {ranks} processes, got {memory.shape[0]}")
        if <size_t> &memory[0] & 7:
            raise ValueError("memory must begin at a multiple of 8 bytes")
        self.links, self.rank, self.ranks, self.memory, self.watch = links, rank, ranks, memory, watch
        self.inbox = <Inbox*> calloc(ranks, sizeof(Inbox))
        self.facts = <long long*> calloc(ranks * FACTS, sizeof(long long))
        if self.inbox == NULL or self.facts == NULL:
            raise MemoryError
        links.owner, links.rank, links.shared = given, <int> rank, True
        self.base = links.sequence

    def __dealloc__(self):
        cdef Py_ssize_t p
        for p in range(self.ranks if self.inbox != NULL else 0):
            free(self.inbox[p].key)
            free(self.inbox[p].parcels)
        free(self.inbox)
        free(self.facts)

    cdef long long* _counter(self, Py_ssize_t rank) noexcept nogil:
        return <long long*> &self.memory[rank * _APART]

    cdef char* _area(self, Py_ssize_t rank) noexcept nogil:
        return <char*> &self.memory[self.ranks * _APART + (2 * rank + self.turn % 2) * self.room]

    cdef int _meet(self) except -1:
        """Wait until all processes have come here as often as this one."""
        cdef Py_ssize_t p, looks
        cdef long long* counter
        announce(self._counter(self.rank), self.turn + 1)
        for p in range(self.ranks):
            counter = self._counter(p)
            looks = 0
            while announced(counter) <= self.turn:
                looks += 1
                if looks < _LOOKS:
                    continue
                with nogil:
                    give_way()
                if looks % _WAITS == 0:
                    self.watch()
        return 0

    cdef int _share(self, const long long* facts) except -1:
        cdef Py_ssize_t p
        memcpy((<Head*> self._area(self.rank)).facts, facts, FACTS * sizeof(long long))
        self._meet()
        for p in range(self.ranks):
            memcpy(self.facts + p * FACTS, (<Head*> self._area(p)).facts, FACTS * sizeof(long long))
        self.turn += 1
        return 0

    cdef int _swap(self, const long long* facts) except -1:
        cdef Py_ssize_t p, key = 0, parcel = 0
        cdef bint more = True
        cdef Head* head
        while more:
            head = <Head*> self._area(self.rank)
            memcpy(head.facts, facts, FACTS * sizeof(long long))
            self._put(sizeof(Head), &key, &parcel)
            head.more = key < self.links.n_outbox or parcel < self.links.n_outbox
            self._meet()
            more = False
            for p in range(self.ranks):
                head = <Head*> self._area(p)
                more |= head.more
                memcpy(self.facts + p * FACTS, head.facts, FACTS * sizeof(long long))
                if p != self.rank:
                    self._get(p)
            self.turn += 1
        return self._merge()

    cdef Py_ssize_t _put(self, Py_ssize_t used, Py_ssize_t* key, Py_ssize_t* parcel) except -1:
        """Put keys from `key` on and parcels from `parcel` on into the area of this process, as far as there is room."""
        cdef Links links = self.links
        cdef char* area = self._area(self.rank)
        cdef Head* head = <Head*> area
        cdef Py_ssize_t n = min(links.n_outbox - key[0], (self.room - used) // <Py_ssize_t> sizeof(Sent)), need, begin
        cdef Parcel made
        cdef int slot
        memcpy(area + used, links.outbox + key[0], n * sizeof(Sent))
        head.keys = n
        key[0] += n
        used += n * sizeof(Sent)
        begin = used
        while key[0] == links.n_outbox and parcel[0] < links.n_outbox:
            slot = links.outbox[parcel[0]].slot
            if slot >= 0 and links.owner[links.message[slot].target] != links.rank:
                need = <Py_ssize_t> sizeof(Parcel) + links.stride + ((self._extra(slot) + 7) & ~7)
                if used + need > self.room:
                    if need > self.room - <Py_ssize_t> sizeof(Head):
                        raise ValueError(f"memory must have room for a message of {need} bytes, got {self.room}")
                    break
                made.index, made.nbytes, made.message = parcel[0], need, links.message[slot]
                memcpy(area + used, &made, sizeof(Parcel))
                self._wrap(slot, area + used + sizeof(Parcel) + links.stride)
                memcpy(area + used + sizeof(Parcel), links.data + slot * links.stride, links.stride)
                used += need
            parcel[0] += 1
        head.nbytes = used - begin
        return used

    cdef int _get(self, Py_ssize_t rank) except -1:
        """Copy what a process has put into its area."""
        cdef const char* area = self._area(rank)
        cdef const Head* head = <const Head*> area
        cdef Inbox* box = &self.inbox[rank]
        if box.n + head.keys > box.room:
            box.room = 2 * (box.n + head.keys)
            box.key = <Sent*> grown(box.key, box.room * sizeof(Sent))
        memcpy(box.key + box.n, area + sizeof(Head), head.keys * sizeof(Sent))
        box.n += head.keys
        if box.nbytes + head.nbytes > box.parcel_room:
            box.parcel_room = 2 * (box.nbytes + head.nbytes)
            box.parcels = <char*> grown(box.parcels, box.parcel_room)
        memcpy(box.parcels + box.nbytes, area + sizeof(Head) + head.keys * sizeof(Sent), head.nbytes)
        box.nbytes += head.nbytes
        return 0

    cdef int _merge(self) except -1:
        """Number what all processes have sent, in order, and let this one carry what goes to its machines."""
        cdef Links links = self.links
        cdef Inbox* own = &self.inbox[self.rank]
        cdef Inbox* box
        cdef Inbox* least
        cdef Py_ssize_t p
        cdef long long sequence = self.base
        cdef const Parcel* parcel
        cdef int slot
        own.key, own.n = links.outbox, links.n_outbox
        for p in range(self.ranks):
            self.inbox[p].at = self.inbox[p].parcel = 0
        while True:
            least = NULL
            for p in range(self.ranks):
                box = &self.inbox[p]
                if box.at < box.n and (least == NULL or before(&box.key[box.at], &least.key[least.at])):
                    least = box
            if least == NULL:
                break
            if least == own:
                slot = own.key[own.at].slot
                if slot >= 0 and links.owner[links.message[slot].target] == links.rank:
                    links._depart(slot, sequence)
                    self._came(slot)
                elif slot >= 0:
                    links._give_back(slot)
            elif least.parcel < least.nbytes:
                parcel = <const Parcel*> (least.parcels + least.parcel)
                if parcel.index == least.at:
                    if links.owner[parcel.message.target] == links.rank:
                        self._unpack(<const char*> parcel, sequence)
                    least.parcel += parcel.nbytes
            least.at += 1
            sequence += 1
        own.key, own.n = NULL, 0
        for p in range(self.ranks):
            self.inbox[p].n = self.inbox[p].nbytes = 0
        links.n_outbox = 0
        links.sequence = self.base = sequence
        return 0

    cdef int _unpack(self, const char* parcel, long long sequence) except -1:
        """Carry a message from a machine of another process."""
        cdef Links links = self.links
        cdef int slot
        if links.n_unused == 0:
            links._make_slots()
        links.n_unused -= 1
        slot = links.unused[links.n_unused]
        links.message[slot] = (<const Parcel*> parcel).message
        memcpy(links.data + slot * links.stride, parcel + sizeof(Parcel), links.stride)
        self._unwrap(slot, parcel + sizeof(Parcel) + links.stride)
        links._depart(slot, sequence)
        return self._came(slot)

    cdef Py_ssize_t _extra(self, int slot) noexcept nogil:
        return 0

    cdef int _wrap(self, int slot, char* to) except -1:
        return 0

    cdef int _unwrap(self, int slot, const char* given) except -1:
        return 0

    cdef int _came(self, int slot) except -1:
        return 0
