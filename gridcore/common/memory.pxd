"""Memory management for kernels with their own memory: blocks that grow, and prefetching."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, realloc

cdef extern from "memory.h":
    void prefetch "gridcore_prefetch"(const void* p) noexcept nogil
    void prefetch_at "gridcore_prefetch_at"(const void* p, Py_ssize_t nbytes) noexcept nogil
    void large_pages "gridcore_large_pages"(const void* block, Py_ssize_t nbytes) noexcept nogil
    void copy_words "gridcore_copy"(void* to, const void* source, Py_ssize_t n) noexcept nogil


cdef inline void* reallocate(void* block, Py_ssize_t size) except NULL nogil:
    """Return `block` resized to `size` bytes; raise MemoryError and keep `block` if there is no memory."""
    # for a size of 0, realloc does not return a block on every platform
    cdef void* result = realloc(block, max(size, 1))
    if result == NULL:
        with gil:
            raise MemoryError
    return result


cdef inline void* allocate_aligned(Py_ssize_t size) except NULL nogil:
    """Return a block of `size` bytes that begins with a cache line; `free_aligned` frees it."""
    cdef void* block = reallocate(NULL, size + 64 + sizeof(void*))
    cdef void** result = <void**> ((<uintptr_t> block + sizeof(void*) + 63) // 64 * 64)
    (result - 1)[0] = block
    return result


cdef inline void free_aligned(void* block) noexcept nogil:
    if block != NULL:
        free((<void**> block - 1)[0])
