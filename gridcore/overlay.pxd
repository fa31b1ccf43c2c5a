"""C-level contract of the overlay."""


cdef class Views:
    cdef readonly Py_ssize_t nodes, degree, shuffle
    cdef int[:, ::1] view
    cdef unsigned char[:, ::1] age
    cdef int[::1] count
    cdef unsigned long long state
    # scratch: what two nodes exchange
    cdef int[:, ::1] entry
    cdef unsigned char[:, ::1] entry_age

    cdef int _deal(self) except -1
    cdef unsigned long long _below(self, unsigned long long n) noexcept nogil
    cdef unsigned long long _next(self) noexcept nogil
    cdef bint _knows(self, Py_ssize_t u, int other) noexcept nogil
    cdef object _shown(self, found)
    cdef Py_ssize_t _pick(self, Py_ssize_t node, long long first, long long second, Py_ssize_t count,
                          unsigned long long seed, const unsigned char[::1] gone) noexcept nogil
    cdef void _turn(self, Py_ssize_t u, const unsigned char[::1] there, long long* done) noexcept nogil
    cdef void _swap(self, Py_ssize_t u, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef void _copy(self, Py_ssize_t u, Py_ssize_t m, int* entry, unsigned char* age) noexcept nogil
    cdef long long _take(self, Py_ssize_t u, Py_ssize_t given, const int* entry, const unsigned char* age,
                         Py_ssize_t m) noexcept nogil
    cdef const unsigned char[::1] _there(self, up, str name=*)
