"""Memory for the kernels that keep their own: blocks that grow, and reading ahead."""

from libc.stdlib cimport realloc

cdef extern from "memory.h":
    void prefetch "gridcore_prefetch"(const void* p) noexcept nogil
    void prefetch_at "gridcore_prefetch_at"(const void* p, Py_ssize_t nbytes) noexcept nogil
    void copy_words "gridcore_copy"(void* to, const void* source, Py_ssize_t n) noexcept nogil


cdef inline void* grown(void* block, Py_ssize_t size) except NULL nogil:
    """`block`, `size` bytes long from now on; where there is no memory for that it stays as it is."""
    # a size of 0 is not everywhere a block
    cdef void* result = realloc(block, max(size, 1))
    if result == NULL:
        with gil:
            raise MemoryError
    return result
