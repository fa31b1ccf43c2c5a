"""C-level declarations of the containers of node programs."""

from gridcore.nodes.node_memory cimport MemoryObject
from gridcore.nodes.rows cimport Head

cdef class RowType:
    cdef tuple column_names, column_types
    cdef readonly long long words       #: of a row: the number of columns, and 1 for the key of a map
    cdef readonly long long reals       #: bit k: word k of a row is a float
    cdef bint has_key

    cdef object _value(self, const long long* row, Py_ssize_t word)
    cdef object _values(self, const long long* row)
    cdef int _fill(self, long long* row, tuple values, str call) except -1


cdef class Container(MemoryObject):
    cdef Head head
    cdef readonly RowType columns

    cdef list _texts(self)
    cdef long long _next(self, long long at) noexcept
    cdef const long long* _row(self, long long at) except NULL
    cdef object _item(self, const long long* row)
    cdef int _append(self, const long long* row) except -1
    cdef int _move_to(self, void* place) except -1
    cdef _rows_at(self, void* place)


cdef class KeyedContainer(Container):
    cdef object _key_at(self, long long k)


cdef class Fifo(Container):
    pass


cdef class Heap(Container):
    pass


cdef class IntSet(KeyedContainer):
    pass


cdef class IntMap(KeyedContainer):
    pass
