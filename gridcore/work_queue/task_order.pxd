"""The order of the tasks of a bag by size, in which they are first started: for `gridcore.work_queue.dispatch`."""

from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from gridcore.common.memory cimport reallocate
from gridcore.work_queue.work cimport Bag, GREAT, Work


cdef struct Sized:
    unsigned long long key              # in the order of the sizes
    int task


cdef inline int order_by_size(Work* w, const Bag* b) except -1:
    """Write the tasks of a bag into the sequence: the smallest or, by GREAT, the greatest first, ties by index.

    A radix sort by bytes; the bits of positive numbers are in the order of the numbers.
    """
    cdef Sized* items = <Sized*> reallocate(NULL, 2 * b.tasks * sizeof(Sized))
    cdef Sized* source = items
    cdef Sized* target = items + b.tasks
    cdef Sized* swap
    cdef Py_ssize_t[257] begin          # by byte: the place of the next item; first, of the byte above, the count
    cdef Py_ssize_t k, n = b.tasks
    cdef int shift, byte
    for k in range(n):
        memcpy(&source[k].key, &w.task[b.first + k].size, sizeof(double))
        if w.order == GREAT:
            source[k].key = ~source[k].key
        source[k].task = <int> (b.first + k)
    for shift in range(0, 64, 8):
        memset(begin, 0, sizeof(begin))
        for k in range(n):
            begin[1 + (source[k].key >> shift & 255)] += 1
        if begin[1 + (source[0].key >> shift & 255)] == n:
            continue                    # all keys have the same byte
        for byte in range(256):
            begin[byte + 1] += begin[byte]
        for k in range(n):
            byte = source[k].key >> shift & 255
            target[begin[byte]] = source[k]
            begin[byte] += 1
        swap = source
        source = target
        target = swap
    for k in range(n):
        w.sequence[b.first + k] = source[k].task
    free(items)
    return 0
