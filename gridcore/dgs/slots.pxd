"""C-level contract of the slot schedules."""

cdef struct Span:                       # a reservation: read by every search
    long long start, end                # slots

cdef struct Note:                       # and what goes with it
    long long made                      # ns
    long long job

cdef struct Gone:                       # a reservation that was released, for those who have not heard
    long long start, end, made, dropped

cdef struct Node:
    Span* row                           # in order; those from `first` on
    Note* note
    Gone* gone
    long long latest                    # ns: nothing was reserved later
    int first, n, room, n_gone, room_gone
    int now                             # where the last search began; a guess for the next one

cdef struct Fit:                        # a candidate
    long long low, high                 # the next starts that fit it
    long long as_of                     # ns, when it was seen
    int node
    int row                             # no earlier reservation of it matters any more

cdef struct Quest:                      # what is searched for
    long long n_nodes, slots, not_before, exclude, hops
    long long seen, every, until        # ns; see `SlotSchedules.search`
    bint wide, itself                   # itself: the searcher may be a candidate

cdef enum:
    WINDOW = 1024                       # slots
    AHEAD = 4                           # candidates


cdef class SlotSchedules:
    cdef bint occupied                      # see `gridcore.common.arguments.hold`
    cdef readonly Py_ssize_t nodes
    cdef readonly bint stale
    cdef Node* node
    cdef int* met                           # the search that has reached a node last
    cdef int searches
    # of the search in hand: candidates in the order in which they were reached
    cdef Fit* fit
    cdef long long* low                     # scratch
    cdef int[WINDOW + 1] change                   # scratch: how many more candidates fit from each slot of a window on
    cdef Py_ssize_t n_fit, room_fit
    # of all searches of a call: the nodes chosen
    cdef long long* chosen
    cdef Py_ssize_t room_chosen

    cdef bint _reserve(self, Node* node, long long start, long long end, long long job, long long now) except -1
    cdef int _make_room(self, Node* node, Py_ssize_t* k) except -1
    cdef Py_ssize_t _after(self, const Node* node, long long slot) noexcept nogil
    cdef Py_ssize_t _from(self, Node* node, long long slot) noexcept nogil
    cdef bint _release(self, Node* node, long long start, long long end, long long job, bint anybody, long long now) except -1
    cdef int _drop(self, Node* node, Py_ssize_t i, long long now) except -1
    cdef long long _search(self, const Quest* quest, const int[:, :] views, const unsigned char[::1] gone,
                           const long long[::1] seen, Py_ssize_t searcher, long long* opened) except -2 nogil
    cdef int _open(self, const Quest* quest, const int[:, :] views, const unsigned char[::1] gone,
                   const long long[::1] seen, Py_ssize_t searcher, Py_ssize_t who, long long* free_now) except -1 nogil
    cdef void _begin(self) noexcept nogil
    cdef int _meet(self, int who, long long as_of) except -1 nogil
    cdef bint _all_seen(self, const Node* node, long long as_of) noexcept nogil
    cdef bint _free(self, const Node* node, long long as_of, long long start, long long slots) noexcept nogil
    cdef void _sweep(self, Fit* fit, long long at, long long slots) noexcept nogil
    cdef void _fetch(self, Py_ssize_t k) noexcept nogil
    cdef void _next(self, Fit* fit, long long since, long long slots) noexcept nogil
    cdef long long _earliest(self, long long n_nodes, long long slots) noexcept nogil
    cdef void _choose(self, long long n_nodes, long long start, long long slots, long long* out) noexcept nogil
    cdef const long long[::1] _nodes(self, nodes)
    cdef const long long[::1] _slots(self, values, str name, long long least)
    cdef const long long[::1] _each(self, value, str name, Py_ssize_t n)
    cdef int _same(self, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d) except -1
    cdef const long long[::1] _as_of(self, as_of, Py_ssize_t n, str what)
    cdef int _check_job(self, long long n_nodes, long long slots, long long not_before) except -1
