"""C-level contract of the overlay."""


cdef extern from "shuffle.h":
    ctypedef struct Records "gridcore_views":
        unsigned char* records
        Py_ssize_t nodes, stride, age_at, count_at
        int degree, shuffle
        unsigned long long chance
        int* entry
        unsigned char* entry_age
        int* drawn

    int detect "gridcore_shuffle_detect"(int most) noexcept nogil
    unsigned long long following "gridcore_next"(Records* of) noexcept nogil
    unsigned long long below "gridcore_below"(Records* of, unsigned long long n) noexcept nogil
    bint knows "gridcore_knows"(const Records* of, Py_ssize_t u, int other) noexcept nogil
    void cycle "gridcore_cycle"(Records* of, const unsigned char* up, long long* done) noexcept nogil


cdef class Views:
    cdef bint occupied                      # see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t nodes, degree, shuffle
    # the records of the nodes, the offsets of their fields, and the state of the random stream
    cdef Records it
    cdef int[:, :] view
    cdef unsigned char[:, :] age
    cdef int[:] count
    # scratch: the entries that two nodes exchange, and the numbers drawn
    cdef int[:, ::1] entry
    cdef unsigned char[:, ::1] entry_age
    cdef int[::1] drawn

    cdef int _lay(self) except -1
    cdef int _deal(self) except -1
    cdef object _shown(self, found)
    cdef Py_ssize_t _pick(self, Py_ssize_t node, long long first, long long second, Py_ssize_t count,
                          unsigned long long seed, const unsigned char[::1] gone) noexcept nogil
    cdef const unsigned char[::1] _there(self, up, str name=*)
