"""Memory management for kernels with their own memory: blocks that grow, and prefetching."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

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


cdef inline void* reallocate_aligned(void* block, Py_ssize_t used, Py_ssize_t size) except NULL nogil:
    """Return `block`, of which the first `used` bytes are kept, resized to `size` bytes; `free_aligned` frees it.

    It begins with a cache line.  A block of NULL is a new one.
    """
    cdef void* memory = NULL if block == NULL else (<void**> block - 1)[0]
    cdef Py_ssize_t begin = 0 if block == NULL else <char*> block - <char*> memory
    memory = reallocate(memory, size + 64 + sizeof(void*))
    cdef void** result = <void**> ((<uintptr_t> memory + sizeof(void*) + 63) // 64 * 64)
    if block != NULL and <char*> result - <char*> memory != begin:
        memmove(result, <char*> memory + begin, used)
    (result - 1)[0] = memory
    return result


cdef inline void* allocate_aligned(Py_ssize_t size) except NULL nogil:
    """Return a block of `size` bytes that begins with a cache line; `free_aligned` frees it."""
    return reallocate_aligned(NULL, 0, size)


cdef inline void free_aligned(void* block) noexcept nogil:
    if block != NULL:
        free((<void**> block - 1)[0])
