"""C-level declarations of the overlay."""


cdef extern from "shuffle.h":
    ctypedef struct ViewTable "gridcore_views":
        unsigned char* records
        Py_ssize_t nodes, stride, age_at, count_at
        int degree, shuffle
        unsigned long long random_state
        int* entry
        unsigned char* entry_age
        int* draws

    int detect "gridcore_shuffle_detect"(int limit) noexcept nogil
    unsigned long long next_number "gridcore_next"(ViewTable* of) noexcept nogil
    unsigned long long below "gridcore_below"(ViewTable* of, unsigned long long n) noexcept nogil
    bint knows "gridcore_knows"(const ViewTable* of, Py_ssize_t u, int candidate) noexcept nogil
    void cycle "gridcore_cycle"(ViewTable* of, const unsigned char* up, long long* counts) noexcept nogil


cdef class Views:
    cdef bint in_call                       # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t nodes, degree, shuffle
    # the memory of all views, the offsets of their fields, and the state of the random stream
    cdef ViewTable table
    cdef int[:, :] view
    cdef unsigned char[:, :] age
    cdef int[:] count
    # scratch: the entries that two nodes exchange, and drawn numbers
    cdef int[:, ::1] entry
    cdef unsigned char[:, ::1] entry_age
    cdef int[::1] draws

    cdef int _allocate(self) except -1
    cdef int _draw_views(self) except -1
    cdef object _read_only_view(self, array)
    cdef Py_ssize_t _pick(self, Py_ssize_t node, long long first, long long second, Py_ssize_t count,
                          unsigned long long seed, const unsigned char[::1] known_down) noexcept nogil
    cdef const unsigned char[::1] _node_flags(self, up, str name=*)
