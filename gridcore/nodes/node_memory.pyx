"""The objects in the memory of nodes, besides numbers and arrays of a fixed length.

An interpreted node has such an object as an attribute.  The record of a compiled node has its place: some words that
say where the contents are.  Each class says what these words are, and how the objects of all nodes are saved.
"""

from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject

cimport cython

__all__ = ["MemoryObject", "NodeKernel", "RecordMemory", "memory_entries"]


@cython.auto_pickle(False)
cdef class MemoryObject:
    """Base class of the objects in the memory of nodes."""

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} cannot be pickled; it is in the checkpoint of a run")

    @property
    def words(self) -> int:
        """The number of words of 64 bits of the object's place in a record; they are zero at first."""
        return 1

    cdef int _copy_to(self, void* place) except -1:
        """Put a copy of this object into a place that is all zero."""
        raise NotImplementedError

    cdef int _clear_at(self, void* place) except -1:
        """Free what a place refers to, and set it to zero."""
        raise NotImplementedError

    cdef MemoryObject _copy_of(self, void* place):
        """Return a copy of the object at a place."""
        raise NotImplementedError

    cdef dict _state_of(self, RecordMemory memory, Py_ssize_t offset):
        """Return the state of the objects of all nodes, whose places are at `offset` of their records."""
        raise NotImplementedError

    cdef int _set_state_of(self, RecordMemory memory, Py_ssize_t offset, state) except -1:
        """Restore a state of `_state_of`; raise ValueError if it is invalid."""
        raise NotImplementedError


@cython.auto_pickle(False)
cdef class NodeKernel(MemoryObject):
    """Base class of kernels in the memory of nodes, which compiled handlers call without Python.

    A subclass has ``_fields``, the names of the attributes from which its constructor makes an equal object.
    """

    _fields = ()

    @property
    def methods(self) -> dict[str, tuple[int, tuple[type, ...]]]:
        """The methods that compiled handlers may call: name -> address of a C function, and types of the arguments.

        A type is ``int``, ``float``, or ``np.int64`` for an array of one dimension.  The function gets the object, each
        number as 64 bits, and each array as its address and its length.  It returns 0, or -1 if it has raised an error.
        """
        raise NotImplementedError

    def copy(self) -> NodeKernel:
        """Return an object with the same contents."""
        return type(self)(*[getattr(self, name) for name in self._fields])

    cdef int _copy_to(self, void* place) except -1:
        cdef NodeKernel copy = self.copy()
        return put_object(place, copy)

    cdef int _clear_at(self, void* place) except -1:
        Py_XDECREF((<PyObject**> place)[0])
        (<PyObject**> place)[0] = NULL
        return 0

    cdef MemoryObject _copy_of(self, void* place):
        return (<NodeKernel> (<PyObject**> place)[0]).copy()

    cdef dict _state_of(self, RecordMemory memory, Py_ssize_t offset):
        cdef Py_ssize_t node
        return {"objects": [self._copy_of(memory._place(node, offset)) for node in range(memory.nodes)]}

    cdef int _set_state_of(self, RecordMemory memory, Py_ssize_t offset, state) except -1:
        cdef Py_ssize_t node
        (objects,) = memory_entries(state, ("objects",))
        if not isinstance(objects, list) or [type(each) for each in objects] != [type(self)] * memory.nodes:
            raise ValueError(f"state['objects'] must be a list of {memory.nodes} {type(self).__name__}, got {objects!r}")
        for node in range(memory.nodes):
            self._clear_at(memory._place(node, offset))
            put_object(memory._place(node, offset), objects[node])
        return 0


cdef int put_object(void* place, object value) except -1:
    """Put a reference to an object into a place that is zero."""
    Py_INCREF(value)
    (<PyObject**> place)[0] = <PyObject*> value
    return 0


def memory_entries(state, names: tuple[str, ...]) -> list[Any]:
    """Return the entries `names` of the state of objects in memory; raise ValueError if it does not have just these."""
    if not isinstance(state, dict) or set(state) != set(names):
        raise ValueError(f"the state of an attribute must have {' and '.join(names)}, got {state!r}")
    return [state[name] for name in names]


@cython.final
@cython.auto_pickle(False)
cdef class RecordMemory:
    """The objects in the records of compiled nodes.

    Parameters
    ----------
    records
        uint8[nodes, bytes], the records; this object keeps them alive.
    entries
        For each object of a record, the offset of its place in bytes, and a `MemoryObject` with the contents of a node
        that starts.
    """

    def __init__(self, records: NDArray[np.uint8], entries: Sequence[tuple[int, MemoryObject]]):
        self.records, self.entries, self.nodes = records, tuple(entries), records.shape[0]
        for offset, prototype in self.entries:
            if not 0 <= offset <= records.shape[1] - 8 * prototype.words or offset % sizeof(void*):
                raise ValueError(f"offset must be a multiple of {sizeof(void*)} within the record, got {offset}")

    def __dealloc__(self):
        cdef Py_ssize_t node
        for node in range(0 if self.entries is None else self.nodes):
            self._clear(node)

    cdef void* _place(self, Py_ssize_t node, Py_ssize_t offset) noexcept:
        return &self.records[node, offset]

    cdef int _clear(self, Py_ssize_t node) except -1:
        """Empty the places of a node."""
        cdef MemoryObject prototype
        for offset, prototype in self.entries:
            prototype._clear_at(self._place(node, offset))
        return 0

    cdef int _start(self, Py_ssize_t node) except -1:
        """Initialise the objects of a starting node: copy each prototype to its place, which must be empty."""
        cdef MemoryObject prototype
        for offset, prototype in self.entries:
            prototype._copy_to(self._place(node, offset))
        return 0

    def getstate(self, k: int) -> dict[str, Any]:
        """Return the state of object `k` of all nodes."""
        cdef MemoryObject prototype
        offset, prototype = self.entries[k]
        return prototype._state_of(self, offset)

    def setstate(self, k: int, state):
        """Restore a state of `getstate` of object `k` of all nodes; raise ValueError if it is invalid."""
        cdef MemoryObject prototype
        offset, prototype = self.entries[k]
        prototype._set_state_of(self, offset, state)

    def copy_of(self, k: int, Py_ssize_t node) -> MemoryObject:
        """Return a copy of object `k` of a node."""
        cdef MemoryObject prototype
        offset, prototype = self.entries[k]
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        return prototype._copy_of(self._place(node, offset))
