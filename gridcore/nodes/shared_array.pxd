"""C-level declarations of the shared arrays in the memory of nodes."""

from cpython.ref cimport PyObject

from gridcore.nodes.payloads cimport Contents, Payloads, StridedArray

cdef int replace_array(Payloads payloads, PyObject** place, const StridedArray* array) except -1
cdef const Contents* contents_at(PyObject** place) noexcept
