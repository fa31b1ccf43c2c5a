"""C-level contract of the links kernel."""

cdef struct Event:
    long long time
    long long sequence
    int slot


cdef struct Heap:                   # a 4-ary heap by (time, sequence)
    Event* event
    Py_ssize_t n, room

cdef int heap_push(Heap* h, Event e) except -1 nogil
cdef Event heap_pop(Heap* h) noexcept nogil

cdef struct Message:
    long long node, sequence, start
    int kind, source, target, source_life, target_life, length, nbytes

cdef struct Due:                    # what `collect` sorts
    long long node, sequence
    int kind, slot


cdef class Links:
    cdef readonly Py_ssize_t machines
    cdef long long latency
    cdef double bandwidth
    cdef Py_ssize_t kinds, stride
    cdef const long long[::1] machine_of, width
    cdef unsigned char[::1] deferred
    cdef long long[::1] up_free, down_free
    cdef long long[:, ::1] failures     # when, and the row of the failure before it
    cdef Py_ssize_t n_failures
    cdef int[::1] life
    cdef readonly object sent, delivered, dropped, traffic, bytes_out, bytes_in
    cdef long long[::1] _sent, _delivered, _dropped, _traffic, _out, _in
    cdef Heap heads, ends, inner_ends, later
    cdef readonly int inner           # the kind that another kernel handles, -1 for none
    cdef Message* message
    cdef char* data
    cdef int* unused
    cdef Py_ssize_t slots, n_unused
    cdef long long sequence
    cdef Due* due
    cdef Py_ssize_t due_room

    cdef int _make_slots(self) except -1
    cdef long long _length(self, long long nbytes) except -1
    cdef int _send(self, long long now, int kind, const void* record, long long nbytes, long long length) except -1
    cdef int _end(self, Event e) except -1 nogil
    cpdef long long advance(self, long long limit) except -1
    cdef long long _first_end(self) noexcept nogil
    cdef bint _pop_inner(self, long long time, void* record) noexcept nogil
    cdef long long _until(self, int machine, int life) noexcept nogil
    cdef void _drop(self, int slot) noexcept nogil
    cdef list _take(self, Heap* heap, long long only, long long until)
