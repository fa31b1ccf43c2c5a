"""The arrays in messages, kept by number until their message has arrived.

The record of a message has the number of an array.  Interpreted handlers send and get NumPy arrays, compiled ones a
`Payload`, whose contents they read without a call.  Neither changes, so that several messages may share one.
"""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject
from libc.string cimport memcmp, memcpy

cimport cython

import numpy as np

from gridcore.nodes.state import ARRAY_TYPES, payload_entries, read_payloads

__all__ = ["Payload", "Payloads"]

cdef Py_ssize_t[7] ITEM_SIZE = [8, 8, 2, 2, 4, 4, 4]

ctypedef fused Narrow:
    short
    unsigned short
    int
    unsigned int


@cython.final
@cython.freelist(64)
@cython.auto_pickle(False)
cdef class Payload:
    """An array of one or two dimensions in a message of a compiled node; a buffer of bytes."""

    def __dealloc__(self):
        PyMem_Free(self.contents.data)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.contents.data, self.nbytes, True, flags)

    cdef bint _has_shape(self, const StridedArray* array) noexcept:
        """Return whether type and shape equal the type and shape of `array`."""
        return (self.element == array.element and self.ndim == array.ndim
                and self.contents.shape[0] == array.shape[0] and self.contents.shape[1] == array.shape[1])

    cdef Payload _converted(self, int element):
        """Return the same numbers as `element`; None if that is not possible here.

        The types of 64 bits are converted here.  Integers must fit; floats are rounded.
        """
        cdef Py_ssize_t k, n = self.contents.shape[0] * self.contents.shape[1]
        cdef const long long* integers = <const long long*> self.contents.data
        cdef const double* floats = <const double*> self.contents.data
        cdef bint fits = False
        if self.element == element:
            return self
        cdef Payload result = new_payload(element, self.ndim, self.contents.shape[0], self.contents.shape[1])
        cdef char* out = result.contents.data
        if self.element == FLOAT64 and element == FLOAT32:
            for k in range(n):
                (<float*> out)[k] = <float> floats[k]
            fits = True
        elif self.element == INT64 and element == FLOAT64:
            for k in range(n):
                (<double*> out)[k] = <double> integers[k]
            fits = True
        elif self.element == INT64 and element == FLOAT32:
            for k in range(n):
                (<float*> out)[k] = <float> integers[k]
            fits = True
        elif self.element == INT64 and element == INT16:
            fits = narrow(integers, <short*> out, n)
        elif self.element == INT64 and element == UINT16:
            fits = narrow(integers, <unsigned short*> out, n)
        elif self.element == INT64 and element == INT32:
            fits = narrow(integers, <int*> out, n)
        elif self.element == INT64 and element == UINT32:
            fits = narrow(integers, <unsigned int*> out, n)
        return result if fits else None

    cdef object _array(self):
        """Return a read-only NumPy array on this memory."""
        array = np.frombuffer(self, ARRAY_TYPES[self.element])
        return array if self.ndim == 1 else array.reshape(self.contents.shape[0], self.contents.shape[1])


cdef bint narrow(const long long* integers, Narrow* out, Py_ssize_t n) noexcept nogil:
    """Convert integers; return whether all of them fit."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] = <Narrow> integers[k]
        if out[k] != integers[k]:
            return False
    return True


cdef Payload new_payload(int element, int ndim, long long rows, long long columns):
    """Return an array that the caller fills in."""
    cdef Payload payload = Payload.__new__(Payload)
    payload.element, payload.ndim, payload.nbytes = element, ndim, rows * columns * ITEM_SIZE[element]
    payload.contents.shape[0], payload.contents.shape[1] = rows, columns
    payload.contents.owner = <PyObject*> payload
    payload.contents.data = <char*> PyMem_Malloc(payload.nbytes)
    if payload.contents.data == NULL:
        raise MemoryError
    return payload


cdef Payload payload_of(array):
    """Return a copy of a NumPy array with elements of one of `ARRAY_TYPES`."""
    cdef Py_buffer buffer
    cdef Payload payload
    array = np.ascontiguousarray(array)
    payload = new_payload(ARRAY_TYPES.index(array.dtype), array.ndim, len(array), array.shape[1] if array.ndim == 2 else 1)
    PyObject_GetBuffer(array, &buffer, PyBUF_C_CONTIGUOUS)
    memcpy(payload.contents.data, buffer.buf, payload.nbytes)
    PyBuffer_Release(&buffer)
    return payload


@cython.final
@cython.auto_pickle(False)
cdef class Payloads:
    """The arrays of messages in transit."""

    def __cinit__(self):
        self.arrays, self.unused, self.at_hand, self.old_arrays = [], [], [], []

    def store(self, array: NDArray[Any]) -> int:
        """Keep an array until its message arrives or is dropped, and return its number."""
        return self._store(array)

    def fetch(self, number: int) -> NDArray[Any]:
        """Remove and return an array; raise ValueError if there is none of this number."""
        return self._fetch(number)

    def getstate(self) -> dict[str, Any]:
        """Return the arrays as entries of a state."""
        return payload_entries(self._arrays())

    def setstate(self, state):
        """Restore a state of `getstate`; raise ValueError if it is invalid."""
        self._read(state)

    cdef long long _store(self, array) except -1:
        """Keep an array until its message arrives or is dropped, and return its number."""
        cdef long long number
        if self.unused:
            number = self.unused.pop()
            self.arrays[number] = array
            return number
        self.arrays.append(array)
        return len(self.arrays) - 1

    cdef object _find(self, long long number):
        """Return an array, which stays stored."""
        # a message of a checkpoint may have any number
        if not 0 <= number < len(self.arrays) or self.arrays[number] is None:
            raise ValueError(f"a message must refer to a stored array, got array {number}")
        return self.arrays[number]

    cdef object _fetch(self, long long number):
        """Remove and return an array."""
        array = self._find(number)
        self.arrays[number] = None
        self.unused.append(number)
        return array

    cdef Payload _take(self, long long number):
        """Remove and return an array for a compiled handler."""
        array = self._fetch(number)
        return <Payload> array if type(array) is Payload else payload_of(array)

    cdef Payload _copy(self, const StridedArray* array):
        """Return an array of a compiled handler that does not change.

        It is not copied if it is that of a message or a `SharedArray`, or still the same as at the last call.
        """
        cdef Py_ssize_t i, k, size = ITEM_SIZE[array.element]
        cdef long long rows = array.shape[0], columns = array.shape[1]
        cdef bint is_contiguous = ((columns == 1 or array.strides[1] == size)
                                   and (rows == 1 or array.strides[0] == size * columns))
        cdef Payload payload = self.copied
        cdef char* out
        if is_contiguous:
            if (payload is not None and array.data == self.copied_data and payload._has_shape(array)
                    and memcmp(array.data, payload.contents.data, payload.nbytes) == 0):
                return payload
            if array.owner != NULL:
                payload = <Payload> array.owner
                if payload.contents.data == array.data and payload._has_shape(array):
                    return payload
        payload = new_payload(<int> array.element, <int> array.ndim, rows, columns)
        out = payload.contents.data
        if is_contiguous:
            memcpy(out, array.data, payload.nbytes)
            self.copied, self.copied_data = payload, array.data
            return payload
        for i in range(rows):
            for k in range(columns):
                memcpy(out, array.data + i * array.strides[0] + k * array.strides[1], size)
                out += size
        return payload

    cdef int _keep_for_handler(self, Payload payload) except -1:
        """Keep an array until the running handler has returned."""
        self.old_arrays.append(payload)
        return 0

    cdef list _arrays(self):
        """Return the arrays by number, as NumPy arrays; None for unused numbers."""
        return [(<Payload> array)._array() if type(array) is Payload else array for array in self.arrays]

    cdef int _read(self, state) except -1:
        """Read the arrays of a state from the entries that `gridcore.nodes.state.payload_entries` returned."""
        self.arrays, self.unused = read_payloads(state)
        self.at_hand = []
        return 0
