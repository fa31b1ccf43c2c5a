"""C-level declarations of messages in flight."""

from gridcore.network.mailboxes cimport Mailboxes
from gridcore.network.message_log cimport MessageLog
from gridcore.common.pending cimport Pending

cdef extern from *:
    """
    #define GRIDCORE_LONGEST_MESSAGE (1LL << 40)
    """
    const long long LONGEST_MESSAGE "GRIDCORE_LONGEST_MESSAGE"  # ns, the longest time at an interface

cdef enum:
    LINE = 64                       # bytes of a cache line
# Prefetching: the distance of a message in a list, the number of next messages whose receivers are prefetched, and the number
# of machines or nodes below which their data stay in the cache.
cdef enum:
    FAR = 8
    NEAR = 4
    FEW = 4096


cdef struct Message:                # the first half of a cache line; its record follows
    long long start                 # ns, when it begins to leave
    int source, target, source_incarnation, target_incarnation
    int nbytes                      # -1: it takes no time and is not counted
    short kind
    unsigned char lost              # whether the message is lost; the loss is reported at its time of arrival

cdef struct Host:                   # a cache line; `up_free` and `down_free` are those of the interface of this number
    long long up_free, down_free    # ns
    long long bytes_out, bytes_in
    int interface, incarnation
    unsigned char down
    long long unused[2]

cdef struct Due:                    # a delivered message: receiver, slot of its record, order and time (ns) of delivery
    int node, slot
    Py_ssize_t rank
    long long time

cdef struct Sent:                   # a message that waits for the exchange: its key (see `gridcore.network.exchange`),
    long long time, stage           # and its slot, or -1 if it stayed on its machine
    int node, slot


cdef class Transit:
    cdef bint in_call                 # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines
    cdef long long latency, jitter
    cdef unsigned long long seed
    cdef double bandwidth
    cdef bint fifo
    cdef Py_ssize_t kinds, stride
    cdef long long[::1] machine_of
    cdef const long long[::1] width
    cdef const unsigned char[::1] level_of
    cdef unsigned char[::1] deferred, keep, is_detached
    cdef object table               # the array of the machines, with the fields of `Host`
    cdef Host* host
    # whether each node is on the machine of its number; and whether each machine has the interface of its number, and none
    # has failed.  Sending a message then reads nothing of its receiver, which is not in the cache.
    cdef bint is_one_to_one, is_uniform
    cdef long long[:, ::1] failures     # per failure: its instant (ns), and the row of the machine's failure before it
    cdef Py_ssize_t n_failures
    cdef readonly object sent, delivered, dropped, traffic, bytes_out, bytes_in  # type: Integers
    cdef long long[::1] _sent, _delivered, _dropped, _traffic
    cdef Pending heads                # messages in flight to the receiver's interface
    cdef Pending* queue               # per kind, with the instant of delivery
    cdef unsigned char[::1] inner     # kinds that another kernel handles
    cdef Mailboxes boxes              # deferred messages that wait to be drained, by kind and machine
    cdef long long[::1] boxes_of      # the first box of each kind, -1: none
    cdef char* block                  # slots of `slot_size` bytes, each a message and its record
    cdef int* unused
    cdef Py_ssize_t slots, slot_size, n_unused
    cdef long long sequence
    # traffic so far: [messages or bytes, kind, level of the sender], and bytes per machine and window
    cdef readonly object by_level     # type: Integers
    cdef readonly object windows      # type: Integers | None
    cdef long long[:, :, ::1] _by_level
    cdef long long[:, ::1] _windows
    cdef long long window_start, window
    cdef Py_ssize_t n_windows
    cdef int* missing                 # slots of dropped messages of `keep` kinds
    cdef Py_ssize_t n_missing
    cdef Due* due
    cdef Py_ssize_t due_capacity
    cdef MessageLog message_log
    cdef const long long[::1] subject_at  # per kind, offset of the logged subject in the record, -1: none
    cdef const unsigned char[::1] is_logged  # per node, whether its messages are logged; None: all are
    # for a run shared by several processes (`gridcore.network.exchange`): the process of each machine, this process,
    # the messages that its machines sent since the last exchange, and the present step of the instant
    cdef bint shared
    cdef const int[::1] owner
    cdef int rank
    cdef Sent* outbox
    cdef Py_ssize_t n_outbox, outbox_room
    cdef long long stage

    cdef int _log(self, int kind, const void* record, long long sent, long long delivered, long long nbytes) except -2
    cdef int _make_slots(self) except -1
    cdef object _take_unboxed(self, int kind, long long until)
    cdef object _take_boxed(self, int kind, long long until)
    cdef long long _transmission_time(self, long long nbytes) except -1
    cdef int _send(self, long long now, int kind, const void* record, long long nbytes,
                   long long transmission_time) except -1
    cdef int _send_directly(self, long long now, int kind, const void* record, long long nbytes, long long delay,
                        long long sequence, bint is_counted) except -1
    cdef int _machine_of(self, Py_ssize_t node) noexcept nogil
    cdef void _set_ends(self, Message* m, int source, int target) noexcept nogil
    cdef void _count_sent(self, Py_ssize_t source, Py_ssize_t sender, int kind, long long nbytes) noexcept nogil
    cdef int _post(self, long long now, Py_ssize_t sender, int slot) except -1
    cdef int _depart(self, int slot, long long sequence, long long transmission_time) except -1
    cdef long long _delay(self, unsigned long long sequence) noexcept nogil
    cdef long long _advance(self, long long limit) except -1
    cdef long long _first_delivery(self) noexcept nogil
    cdef long long _first_outer_delivery(self) noexcept nogil
    cdef long long _end_of_incarnation(self, int machine, int incarnation) noexcept nogil
    cdef void _drop(self, int slot) noexcept nogil
    cdef void _count_dropped(self, int slot) noexcept nogil
    cdef void _free_slot(self, int slot) noexcept nogil
    cdef int _take_first(self, int kind) except -2
    cdef Py_ssize_t _take(self, int kind, long long until) except -1
    cdef void _prefetch(self, Pending* p) noexcept nogil
    cdef void _prefetch_message(self, int slot) noexcept nogil
    cdef int _reserve_due(self, Py_ssize_t n) except -1
    cdef void _sort_by_node(self, Py_ssize_t n) noexcept nogil
    cdef object _records(self, int kind, Py_ssize_t n)
    cdef int _make_letter(self) except -1
    cdef void _count_window(self, int machine, long long at, int nbytes) noexcept nogil


cdef inline Message* message_of(Transit transit, int slot) noexcept nogil:
    return <Message*> (transit.block + slot * transit.slot_size)


cdef inline char* record_of(Transit transit, int slot) noexcept nogil:
    """Return the record of the message of `slot`, which is valid until another message is sent."""
    return transit.block + slot * transit.slot_size + sizeof(Message)
