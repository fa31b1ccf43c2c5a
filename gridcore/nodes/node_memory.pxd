"""C-level declarations of the objects in the memory of nodes."""


cdef class MemoryObject:
    cdef int _copy_to(self, void* place) except -1
    cdef int _clear_at(self, void* place) except -1
    cdef MemoryObject _copy_of(self, void* place)
    cdef dict _state_of(self, RecordMemory memory, Py_ssize_t offset)
    cdef int _set_state_of(self, RecordMemory memory, Py_ssize_t offset, state) except -1


cdef class NodeKernel(MemoryObject):
    pass


cdef class RecordMemory:
    cdef unsigned char[:, ::1] records
    cdef tuple entries                  # (offset, object with the contents of a node that starts)
    cdef readonly Py_ssize_t nodes      #: the number of records

    cdef void* _place(self, Py_ssize_t node, Py_ssize_t offset) noexcept
    cdef int _clear(self, Py_ssize_t node) except -1
    cdef int _start(self, Py_ssize_t node) except -1
