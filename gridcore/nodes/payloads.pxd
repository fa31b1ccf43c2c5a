"""C-level declarations of the arrays in messages."""

from cpython.ref cimport PyObject

# The types of elements, in the order of `gridcore.nodes.state.ARRAY_TYPES`.
cdef enum:
    INT64, FLOAT64, INT16, UINT16, INT32, UINT32, FLOAT32


cdef struct Contents:                   # what compiled handlers read
    char* data                          # contiguous
    long long[2] shape                  # the second length is 1 in one dimension
    PyObject* owner                     # the `Payload`


cdef struct StridedArray:                    # an array of a compiled handler, in words of 64 bits
    const char* data
    long long element, ndim
    long long[2] shape
    long long[2] strides                # bytes
    PyObject* owner                     # the `Payload` with its memory, or NULL


cdef class Payload:
    cdef Contents contents
    cdef int element, ndim
    cdef Py_ssize_t nbytes

    cdef bint _has_shape(self, const StridedArray* array) noexcept
    cdef Payload _converted(self, int element)
    cdef object _array(self)


cdef class Payloads:
    cdef readonly list arrays           # by number: `Payload` or NumPy array; None for unused numbers
    cdef list unused                    # unused numbers
    cdef list at_hand                   # `Payload`s of the message that a compiled handler reads
    cdef list old_arrays                # `Payload`s that no record has any more, but the running handler may read
    cdef Payload copied                 # the last payload made by `_copy`
    cdef const char* copied_data        # the address from which it was copied

    cdef long long _store(self, array) except -1
    cdef object _find(self, long long number)
    cdef object _fetch(self, long long number)
    cdef Payload _take(self, long long number)
    cdef Payload _copy(self, const StridedArray* array)
    cdef int _keep_for_handler(self, Payload payload) except -1
    cdef list _arrays(self)
    cdef int _read(self, state) except -1

cdef Payload new_payload(int element, int ndim, long long rows, long long columns)
cdef Payload payload_of(array)
