"""Arrays in the memory of nodes that have any length and share their numbers with messages."""

from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject

cimport cython

from gridcore.nodes.node_memory cimport MemoryObject, RecordMemory
from gridcore.nodes.payloads cimport Contents, Payload, Payloads, StridedArray, payload_of

import numpy as np

from gridcore.nodes.node_memory import memory_entries

__all__ = ["SharedArray"]


@cython.final
@cython.auto_pickle(False)
cdef class SharedArray(MemoryObject):
    """Array of numbers of any length in the memory of a node, which is replaced as a whole.

    An array of a received message is not copied, so that many nodes may remember one large array.

    Parameters
    ----------
    values
        The numbers at first: int64[n] or float64[n].

    Raises
    ------
    TypeError
        If `values` is no such array.

    Examples
    --------
    >>> import numpy as np
    >>> loads = SharedArray(np.zeros(0))
    >>> loads.set(np.array([0.5, 2.0]))
    >>> loads.values[1], len(loads.values)
    (np.float64(2.0), 2)
    """

    _fields = ("values",)               # fields that a checkpoint stores
    cdef object numbers                 # read-only

    def __init__(self, values: NDArray[Any]):
        if not (isinstance(values, np.ndarray) and values.dtype in (np.int64, np.float64) and values.ndim == 1):
            raise TypeError(f"values of a SharedArray must be int64[n] or float64[n], got {values!r}")
        self.numbers = read_only(values)

    @property
    def values(self) -> NDArray[Any]:
        """The numbers, a read-only array."""
        return self.numbers

    def set(self, values: ArrayLike):
        """Replace the numbers by a one-dimensional array, which may have another length.

        Raises
        ------
        TypeError
            If the array has another number of dimensions, or its elements have another type.
        """
        array, dtype = np.asarray(values), self.numbers.dtype
        if array.ndim != 1 or array.dtype != dtype:
            raise TypeError(f"values of SharedArray.set must be {dtype}[n], got {array.dtype}{list(array.shape)}")
        self.numbers = read_only(array)

    def __repr__(self):
        return f"SharedArray({self.numbers!r})"

    def __len__(self) -> int:
        return len(self.numbers)

    cdef int _copy_to(self, void* place) except -1:
        return put_payload(<PyObject**> place, payload_of(self.numbers)) if len(self.numbers) else 0

    cdef int _clear_at(self, void* place) except -1:
        Py_XDECREF((<PyObject**> place)[0])
        (<PyObject**> place)[0] = NULL
        return 0

    cdef MemoryObject _copy_of(self, void* place):
        return SharedArray(self._array_at(place))

    cdef _array_at(self, void* place):
        """Return the read-only array at a place of a record."""
        cdef PyObject* payload = (<PyObject**> place)[0]
        return np.zeros(0, self.numbers.dtype) if payload == NULL else (<Payload> payload)._array()

    cdef dict _state_of(self, RecordMemory memory, Py_ssize_t offset):
        """Return ``arrays``, the different arrays, and ``array_of``, int64[nodes]: the index of the array of each node."""
        cdef Py_ssize_t node
        cdef void* place
        cdef dict numbers = {}
        cdef list arrays = []
        array_of = np.empty(memory.nodes, np.int64)
        for node in range(memory.nodes):
            place = memory._place(node, offset)
            key = <size_t> (<PyObject**> place)[0]
            if key not in numbers:
                numbers[key] = len(arrays)
                arrays.append(self._array_at(place))
            array_of[node] = numbers[key]
        return {"arrays": arrays, "array_of": array_of}

    cdef int _set_state_of(self, RecordMemory memory, Py_ssize_t offset, state) except -1:
        cdef Py_ssize_t node
        arrays, array_of = memory_entries(state, ("arrays", "array_of"))
        payloads = []
        for array in arrays:
            if not isinstance(array, np.ndarray) or array.dtype != self.numbers.dtype or array.ndim != 1:
                raise ValueError(f"state['arrays'] must have arrays {self.numbers.dtype}[n], got {array!r}")
            payloads.append(payload_of(array) if len(array) else None)
        if array_of.shape != (memory.nodes,) or ((array_of < 0) | (array_of >= len(payloads))).any():
            raise ValueError(f"state['array_of'] must have {memory.nodes} numbers in 0..{len(payloads) - 1}, "
                             f"got {array_of!r}")
        for node in range(memory.nodes):
            self._clear_at(memory._place(node, offset))
            if payloads[array_of[node]] is not None:
                put_payload(<PyObject**> memory._place(node, offset), payloads[array_of[node]])
        return 0


cdef object read_only(array):
    """Return a read-only array with these numbers: the array itself if it is one that nothing else can change."""
    if array.flags.writeable or array.base is not None or not array.flags.c_contiguous:
        array = np.array(array)
        array.flags.writeable = False
    return array


cdef int put_payload(PyObject** place, Payload payload) except -1:
    """Put a reference to an array into a place that is zero."""
    Py_INCREF(payload)
    place[0] = <PyObject*> payload
    return 0


cdef int replace_array(Payloads payloads, PyObject** place, const StridedArray* array) except -1:
    """Store an array of a compiled handler at `place` of a record; the handler may still read the old array."""
    cdef Payload payload = payloads._copy(array)
    if place[0] != NULL:
        payloads._keep_for_handler(<Payload> place[0])
        Py_XDECREF(place[0])
    return put_payload(place, payload)


cdef const Contents* contents_at(PyObject** place) noexcept:
    """Return the numbers of the array at `place` of a record."""
    return &NOTHING if place[0] == NULL else &(<Payload> place[0]).contents


cdef Contents NOTHING
NOTHING.data = <char*> &NOTHING
