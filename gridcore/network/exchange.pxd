"""C-level declarations of the exchange between processes."""

from gridcore.network.links cimport Links
from gridcore.network.transit cimport Sent

cdef enum:
    FACTS = 4

cdef struct Head:                       # head of an area: its keys and bytes of parcels, and whether more will follow
    long long keys, nbytes, has_more
    long long[FACTS] facts

cdef struct Inbox:                      # messages from another process
    Sent* key
    char* parcels
    Py_ssize_t n, capacity, nbytes, parcel_capacity
    Py_ssize_t at, parcel               # where the next read begins


cdef class Exchange:
    cdef Links links
    cdef readonly Py_ssize_t rank, ranks
    cdef unsigned char[::1] memory
    cdef object watch
    cdef Py_ssize_t capacity                # bytes of an area
    cdef long long meetings             # number of exchanges so far
    cdef long long base                 # number of messages that all processes had sent at the last exchange
    cdef Inbox* inbox
    cdef long long* facts               # [ranks, FACTS], the facts of each process as of the last exchange

    cdef long long* _counter(self, Py_ssize_t rank) noexcept nogil
    cdef char* _area(self, Py_ssize_t rank) noexcept nogil
    cdef int _meet(self) except -1
    cdef int _swap(self, const long long* facts) except -1
        # exchanges the messages since the last exchange, and `facts`; then `self.facts` has the facts of all processes
    cdef int _share(self, const long long* facts) except -1
        # exchanges `facts` alone
    cdef Py_ssize_t _put(self, Py_ssize_t used, Py_ssize_t* key, Py_ssize_t* parcel) except -1
    cdef int _get(self, Py_ssize_t rank) except -1
    cdef int _merge(self) except -1
    cdef int _unpack(self, const char* parcel, long long sequence) except -1
    # hooks for subclasses, which may send extra data after the record of a message
    cdef Py_ssize_t _extra(self, int slot) noexcept nogil
    cdef int _wrap(self, int slot, char* to) except -1
    cdef int _unwrap(self, int slot, const char* source) except -1
    cdef int _admit(self, int slot) except -1
        # called for each message to a machine of this process when it is in flight
