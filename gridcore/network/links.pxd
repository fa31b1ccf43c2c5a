"""C-level contract of the links kernel."""

from gridcore.network.transit cimport Transit


cdef class Links(Transit):
    cdef dict _columns(self)
    cdef const unsigned char[:, ::1] _checked_records(self, int kind, const unsigned char[:, ::1] records,
                                                      long long nbytes)
    cdef int _check_kind(self, int kind) except -1
    cdef int _check_headers(self, str name, const unsigned char[:, ::1] records) except -1
    cdef int _make_boxes(self, bint fifo) except -1
