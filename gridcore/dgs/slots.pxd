"""C-level declarations of the slot schedules."""

from gridcore.dgs.released cimport Released

cdef extern from "gaps.h":
    enum:
        LONGEST_GAP "GRIDCORE_LONGEST_GAP"
        GAP_PADDING "GRIDCORE_GAP_PADDING"
    Py_ssize_t first_gap "gridcore_first_gap"(const unsigned short* gap, Py_ssize_t k, Py_ssize_t n,
                                              unsigned short least) noexcept nogil

cdef struct Span:                       # the slots of a reservation; searches need not read its other data
    long long start, end

cdef struct ReservationInfo:            # the other data of a reservation
    long long made_at                   # ns
    long long job

cdef struct Node:
    Span* row                           # the reservations in order; those before `first` are forgotten
    ReservationInfo* info
    unsigned short* gap                 # the slots between each reservation and the one before, at most LONGEST_GAP
    Released released
    long long latest                    # when the newest reservation was made, ns
    int first, n, capacity
    int hint                            # the index at which the last search began, near which the next search begins

cdef struct Candidate:
    long long low, high                 # the next interval of possible starts
    long long as_of                     # when it was observed, ns
    int node
    int row                             # the first of its reservations that is still relevant

cdef struct SearchQuery:                # the request of a job, and the parameters of `SlotSchedules.search`
    long long n_nodes, slots, not_before, exclude, hops
    long long as_of, poll_period, until  # ns
    bint wide, include_searcher
    const unsigned char* suitable       # by node; NULL if all nodes may be candidates

cdef enum:
    WINDOW = 1024                       # number of slots that are counted in one step
    AHEAD = 4                           # candidates are prefetched this far ahead


cdef class SlotSchedules:
    cdef bint in_call                       # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t nodes
    cdef readonly bint stale
    cdef Node* node
    cdef int* last_search                   # by node: the number of the last search that visited it
    cdef int searches
    cdef long long own_job                    # job whose reservations count as free while `has_own_job` is set
    cdef bint has_own_job
    # the candidates of the current search, in the order in which they were visited
    cdef Candidate* candidates
    cdef long long* low                     # scratch
    cdef int[WINDOW + 1] fits_change        # scratch: at each slot of a window, the change in the number of fitting candidates
    cdef Py_ssize_t n_candidates, room_candidates
    cdef bint has_counted                   # whether counting has moved the intervals of candidates beyond the result
    # the nodes visited by the current search, in order; unsuitable nodes are not candidates
    cdef int* visited
    cdef Py_ssize_t n_visited
    cdef Py_ssize_t n_own                   # the number of candidates among the searcher's neighbours
    # the nodes chosen by all searches of a call
    cdef long long* selection
    cdef Py_ssize_t room_selection

    cdef bint _reserve(self, Node* node, long long start, long long end, long long job, long long now) except -1
    cdef int _make_room(self, Node* node, Py_ssize_t* k) except -1
    cdef void _set_gap(self, Node* node, Py_ssize_t k) noexcept nogil
    cdef Py_ssize_t _next_gap(self, const Node* node, Py_ssize_t k, long long slots) noexcept nogil
    cdef Py_ssize_t _first_after(self, const Node* node, long long slot) noexcept nogil
    cdef Py_ssize_t _first_after_hint(self, Node* node, long long slot) noexcept nogil
    cdef bint _release(self, Node* node, long long start, long long end, long long job, bint any_job,
                       long long now) except -1
    cdef Py_ssize_t _extendable(self, const Node* node, long long start, long long end, long long job) noexcept nogil
    cdef Py_ssize_t _first_beyond(self, const Node* node, Py_ssize_t i, long long end) noexcept nogil
    cdef int _extend(self, Node* node, Py_ssize_t i, long long end, long long now) except -1
    cdef int _drop(self, Node* node, Py_ssize_t i, long long now) except -1
    cdef long long _search(self, const SearchQuery* query, const int[:, :] views, const unsigned char[::1] known_down,
                           const long long[::1] instants, Py_ssize_t searcher, long long* n_opened) except -2 nogil
    cdef int _open(self, const SearchQuery* query, const int[:, :] views, const unsigned char[::1] known_down,
                   const long long[::1] instants, Py_ssize_t searcher, Py_ssize_t u, long long* free_now) except -1 nogil
    cdef void _begin_search(self) noexcept nogil
    cdef bint _visit(self, int u, long long as_of, bint suits) noexcept nogil
    cdef int _make_room_for(self, Py_ssize_t n) except -1 nogil
    cdef int _set_own_job(self, job) except -1
    cdef bint _counts_all(self, const Node* node, long long as_of) noexcept nogil
    cdef bint _counts(self, const ReservationInfo* info, long long as_of) noexcept nogil
    cdef bint _is_free(self, const Node* node, long long as_of, long long start, long long slots) noexcept nogil
    cdef void _count_starts(self, Candidate* candidate, long long at, long long slots) noexcept nogil
    cdef void _prefetch(self, Py_ssize_t k) noexcept nogil
    cdef void _next_interval(self, Candidate* candidate, long long since, long long slots) noexcept nogil
    cdef long long _first_start(self, long long n_nodes, long long slots, long long not_before) noexcept nogil
    cdef long long _earliest_start(self, long long n_nodes, long long slots) noexcept nogil
    cdef void _choose(self, long long n_nodes, long long start, long long slots, long long* out) noexcept nogil
    cdef const long long[::1] _nodes(self, nodes)
    cdef const unsigned char[::1] _flags(self, value, str name)
    cdef const long long[::1] _slots(self, values, str name, long long least)
    cdef const long long[::1] _per_searcher(self, value, str name, Py_ssize_t n)
    cdef int _check_lengths(self, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d) except -1
    cdef const long long[::1] _as_of(self, as_of, Py_ssize_t n, str item)
    cdef int _check_job(self, long long n_nodes, long long slots, long long not_before) except -1
