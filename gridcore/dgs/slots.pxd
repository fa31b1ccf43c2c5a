"""C-level contract of the slot schedules."""

from gridcore.dgs.released cimport Released

cdef struct Span:                       # a reservation: read by every search
    long long start, end                # slots

cdef struct Note:                       # the rest of a reservation
    long long made                      # ns, when it was made
    long long job

cdef struct Node:
    Span* row                           # the reservations in order; those before `first` are forgotten
    Note* note
    Released released                   # reservations that were released
    long long latest                    # ns, when the newest reservation was made
    int first, n, room
    int now                             # the row at which the last search began: a first guess for the next one

cdef struct Fit:                        # a candidate
    long long low, high                 # the next interval of starts that fit it
    long long as_of                     # ns, when it was seen
    int node
    int row                             # its reservations before this one no longer matter

cdef struct Seen:                       # what a reader knows of a node: its reservations as of an instant, ns
    long long as_of
    int node

cdef struct Quest:                      # a job to be placed, and how to search
    long long n_nodes, slots, not_before, exclude, hops
    long long seen, every, until        # ns; see `SlotSchedules.search`
    bint wide, itself                   # itself: whether the searcher may be a candidate
    const unsigned char* suited         # by node: whether it may be a candidate; NULL if all may

cdef enum:
    WINDOW = 1024                       # slots that are counted at a time
    AHEAD = 4                           # candidates that are prefetched


cdef class SlotSchedules:
    cdef bint occupied                      # see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t nodes
    cdef readonly bint stale
    cdef Node* node
    cdef int* met                           # by node: the number of the last search that reached it
    cdef int searches
    # the candidates of the current search, in the order in which they were reached
    cdef Fit* fit
    cdef long long* low                     # scratch
    cdef int[WINDOW + 1] change             # scratch: at each slot of a window, the change in the number of fits
    cdef Py_ssize_t n_fit, room_fit
    # the nodes that it has reached, in order; those that do not suit the job are not candidates
    cdef int* reach
    cdef Py_ssize_t n_reach
    # those that the searcher knew itself, and how many of these were free at once
    cdef Py_ssize_t n_own
    cdef long long own_free
    # the nodes chosen by all searches of a call
    cdef long long* chosen
    cdef Py_ssize_t room_chosen

    cdef bint _reserve(self, Node* node, long long start, long long end, long long job, long long now) except -1
    cdef int _make_room(self, Node* node, Py_ssize_t* k) except -1
    cdef Py_ssize_t _after(self, const Node* node, long long slot) noexcept nogil
    cdef Py_ssize_t _from(self, Node* node, long long slot) noexcept nogil
    cdef bint _release(self, Node* node, long long start, long long end, long long job, bint anybody, long long now) except -1
    cdef Py_ssize_t _ending(self, const Node* node, long long start, long long end, long long job) noexcept nogil
    cdef Py_ssize_t _until(self, const Node* node, Py_ssize_t i, long long end) noexcept nogil
    cdef int _extend(self, Node* node, Py_ssize_t i, long long end, long long now) except -1
    cdef int _drop(self, Node* node, Py_ssize_t i, long long now) except -1
    cdef long long _search(self, const Quest* quest, const int[:, :] views, const unsigned char[::1] gone,
                           const long long[::1] seen, Py_ssize_t searcher, long long* opened) except -2 nogil
    cdef int _open(self, const Quest* quest, const int[:, :] views, const unsigned char[::1] gone,
                   const long long[::1] seen, Py_ssize_t searcher, Py_ssize_t who, long long* free_now) except -1 nogil
    cdef void _begin(self) noexcept nogil
    cdef int _meet(self, int who, long long as_of, bint suits) except -1 nogil
    cdef int _fit_room(self, Py_ssize_t n) except -1 nogil
    cdef bint _all_seen(self, const Node* node, long long as_of) noexcept nogil
    cdef bint _free(self, const Node* node, long long as_of, long long start, long long slots) noexcept nogil
    cdef void _sweep(self, Fit* fit, long long at, long long slots) noexcept nogil
    cdef void _fetch(self, Py_ssize_t k) noexcept nogil
    cdef void _next(self, Fit* fit, long long since, long long slots) noexcept nogil
    cdef long long _earliest(self, long long n_nodes, long long slots) noexcept nogil
    cdef long long _true_start(self, const Seen* seen, Py_ssize_t n, const int* chosen, long long n_nodes,
                               long long slots, long long since, long long start) except -1
    cdef void _choose(self, long long n_nodes, long long start, long long slots, long long* out) noexcept nogil
    cdef const long long[::1] _nodes(self, nodes)
    cdef const unsigned char[::1] _flags(self, value, str name)
    cdef const long long[::1] _slots(self, values, str name, long long least)
    cdef const long long[::1] _each(self, value, str name, Py_ssize_t n)
    cdef int _same(self, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d) except -1
    cdef const long long[::1] _as_of(self, as_of, Py_ssize_t n, str what)
    cdef int _check_job(self, long long n_nodes, long long slots, long long not_before) except -1
