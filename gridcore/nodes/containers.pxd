"""C-level contract of the containers of node programs."""

from gridcore.nodes.rows cimport Head

cdef class RowType:
    cdef tuple column_names, column_types
    cdef readonly long long words       #: of a row: the number of columns, and 1 for the key of a map
    cdef readonly long long reals       #: bit k: word k of a row is a float
    cdef bint has_key

    cdef object _value(self, const long long* row, Py_ssize_t word)
    cdef object _values(self, const long long* row)
    cdef int _fill(self, long long* row, tuple values, str call) except -1


cdef class Container:
    cdef Head head
    cdef readonly RowType columns

    cdef list _texts(self)
    cdef long long _next(self, long long at) noexcept
    cdef const long long* _row(self, long long at) except NULL
    cdef object _item(self, const long long* row)
    cdef int _append(self, const long long* row) except -1
    cdef int _copy_to(self, Head* head) except -1


cdef class RecordContainers:
    cdef unsigned char[:, ::1] records
    cdef tuple entries                  # (offset, container with the rows of a node that starts)

    cdef Head* _head(self, Py_ssize_t node, Py_ssize_t offset) noexcept
    cdef int _clear(self, Py_ssize_t node) except -1
    cdef int _start(self, Py_ssize_t node) except -1


cdef class KeyedContainer(Container):
    pass


cdef class Fifo(Container):
    pass


cdef class Heap(Container):
    pass


cdef class IntSet(KeyedContainer):
    pass


cdef class IntMap(KeyedContainer):
    pass
