"""C-level contract of the links kernel."""

from gridcore.network.transit cimport Transit


cdef class Links(Transit):
    cdef dict _columns(self)
    cdef int _check_headers(self, str name, const unsigned char[:, ::1] records) except -1
    cdef int _make_boxes(self, bint fifo) except -1
