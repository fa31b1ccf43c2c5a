"""C-level declarations of the rows of containers, in blocks of memory that all nodes of a process share.

A container is a `Head`: in the record of a compiled node, or in the object of an interpreted one.
A row is `words` int64; a float is its bits.
"""

cdef struct Block:                      # followed by the rows
    unsigned int kind                   # the block has 64 << kind bytes
    unsigned int capacity                   # rows that fit
    unsigned int front                  # map: no row before this one is in use
    unsigned int padding

cdef struct Head:                       # all zero when empty
    Block* block                        # NULL when empty
    unsigned int first                  # queue: the place of the first row; map: the number of keys
    unsigned int n                      # queue, heap: the number of rows; map: rows used, those of removed keys too


cdef inline long long* block_rows(Block* block) noexcept nogil:
    return <long long*> (block + 1)


cdef int rows_clear(Head* h) noexcept

cdef long long* queue_push(Head* h, long long words) except NULL
cdef int queue_pop(Head* h, long long* row, long long words) except -1
cdef long long* queue_at(Head* h, long long k, long long words) except NULL
cdef int queue_delete(Head* h, long long k, long long words) except -1

cdef int heap_push(Head* h, const long long* row, long long words, long long reals) except -1
cdef int heap_pop(Head* h, long long* row, long long words, long long reals) except -1
cdef long long* heap_at(Head* h, long long k) except NULL

cdef long long* map_find(const Head* h, long long key, long long words) noexcept
cdef long long* map_get(const Head* h, long long key, long long words) except NULL
cdef long long* map_at(const Head* h, long long k, long long words) except NULL
cdef long long* map_put(Head* h, long long key, long long words) except NULL
cdef int map_remove(Head* h, long long key, long long words) except -1
cdef long long map_discard(Head* h, long long key, long long words) noexcept
cdef long long map_next(const Head* h, long long at, long long words) noexcept
cdef int map_pop(Head* h, long long* row, long long words) except -1

cdef int iteration_error() except -1
