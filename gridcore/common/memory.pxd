"""Memory management for kernels with their own memory: blocks that grow, and prefetching."""

from libc.stdlib cimport realloc

cdef extern from "memory.h":
    void prefetch "gridcore_prefetch"(const void* p) noexcept nogil
    void prefetch_at "gridcore_prefetch_at"(const void* p, Py_ssize_t nbytes) noexcept nogil
    void large_pages "gridcore_large_pages"(const void* block, Py_ssize_t nbytes) noexcept nogil
    void copy_words "gridcore_copy"(void* to, const void* source, Py_ssize_t n) noexcept nogil


cdef inline void* grown(void* block, Py_ssize_t size) except NULL nogil:
    """Return `block` resized to `size` bytes; raises MemoryError, and leaves it as it was, if there is no memory."""
    # for a size of 0, realloc does not return a block on every platform
    cdef void* result = realloc(block, max(size, 1))
    if result == NULL:
        with gil:
            raise MemoryError
    return result
