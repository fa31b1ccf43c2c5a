"""C-level declarations of the links kernel."""

from gridcore.network.transit cimport Transit


cdef class Links(Transit):
    cdef dict _columns(self)
    cdef const unsigned char[:, ::1] _checked_records(self, int kind, const unsigned char[:, ::1] records,
                                                      long long nbytes)
    cdef int _check_kind(self, int kind) except -1
    cdef object _failure_times(self)
    cdef int _set_failures(self, const long long[::1] times, const int[:] incarnation) except -1
    cdef int _make_hosts(self, Py_ssize_t machines, interfaces) except -1
    cdef int _compare_hosts(self) except -1
    cdef int _make_boxes(self, bint fifo) except -1
