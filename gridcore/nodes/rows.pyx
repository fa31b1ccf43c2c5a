"""The rows of containers: queues, heaps and maps in blocks of one pool of memory.

Blocks have 64, 128, ... bytes.  Unused blocks of each size form a list; new ones are cut from chunks of 1 MiB.  An
empty container has no block: it goes back to the pool with the last row.  The pool belongs to the process, and is
protected by the global interpreter lock.  When no block is in use, all chunks but one are freed.

Functions that return the place of a row leave it to the caller to read it or fill it in before the next call.
"""

from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from gridcore.common.memory cimport reallocate

__all__ = ["allocated_bytes"]

cdef enum:
    SMALLEST = 64                       # bytes of blocks of the kind 0
    KINDS = 40
    CUT = 14                            # kinds below are cut from chunks; others are allocated one by one
    CHUNK = 1 << 20                     # bytes
    SCANNED = 3                         # kinds below have no index: their rows are searched one after the other
    LARGEST = 1 << 30                   # rows

cdef struct Pool:
    void* unused[KINDS]
    char* next_block                    # in the newest chunk
    char* end
    void* chunks                        # linked by their first word
    long long allocated, in_use         # bytes

cdef Pool pool
#: The key of a row whose key was removed.
cdef long long REMOVED = -0x7FFFFFFFFFFFFFFF - 1


cdef Block* pool_take(unsigned int kind) except NULL:
    """Return a block of 64 << `kind` bytes; `pool_give` takes it back."""
    cdef size_t size = <size_t> SMALLEST << kind
    cdef Block* block = <Block*> pool.unused[kind]
    cdef char* chunk
    if block != NULL:
        pool.unused[kind] = (<void**> block)[0]
    elif kind >= CUT:
        block = <Block*> reallocate(NULL, size)
        pool.allocated += size
    else:
        if <size_t> (pool.end - pool.next_block) < size:
            chunk = <char*> reallocate(NULL, CHUNK + SMALLEST)
            (<void**> chunk)[0] = pool.chunks
            pool.chunks = chunk
            pool.allocated += CHUNK + SMALLEST
            pool.next_block, pool.end = chunk + SMALLEST, chunk + CHUNK + SMALLEST
        block = <Block*> pool.next_block
        pool.next_block += size
    pool.in_use += size
    block.kind, block.front = kind, 0
    return block


cdef void pool_give(Block* block) noexcept:
    cdef unsigned int kind = block.kind
    cdef size_t size = <size_t> SMALLEST << kind
    pool.in_use -= size
    if kind >= CUT:
        pool.allocated -= size
        free(block)
    else:
        (<void**> block)[0] = pool.unused[kind]
        pool.unused[kind] = block
    if pool.in_use == 0:
        pool_shrink()


cdef void pool_shrink() noexcept:
    """Free all chunks but one if no block is in use."""
    cdef void* chunk = pool.chunks
    if chunk == NULL or (<void**> chunk)[0] == NULL:
        return
    while (<void**> chunk)[0] != NULL:
        pool.chunks = (<void**> chunk)[0]
        free(chunk)
        pool.allocated -= CHUNK + SMALLEST
        chunk = pool.chunks
    memset(pool.unused, 0, sizeof(pool.unused))
    pool.next_block, pool.end = <char*> chunk + SMALLEST, <char*> chunk + CHUNK + SMALLEST


def allocated_bytes() -> tuple[int, int]:
    """Return the bytes of rows in use by all containers of this process, and the bytes allocated for them."""
    return pool.in_use, pool.allocated


cdef inline unsigned int room_of(unsigned int kind, long long words, long long index) noexcept:
    """Return how many rows of `words` words fit in a block, with `index` words of an index for each."""
    return <unsigned int> (((<size_t> SMALLEST << kind) - sizeof(Block)) // (8 * (words + index)))


cdef unsigned int kind_for(unsigned int rows, long long words, long long index) except? 0xFFFFFFFF:
    """Return the smallest kind of block for `rows` rows; one without an index has no words of it."""
    cdef unsigned int kind = 0
    if rows > LARGEST:
        raise MemoryError(f"a container must have at most {LARGEST} rows, got {rows}")
    while room_of(kind, words, index if kind >= SCANNED else 0) < rows:
        kind += 1
    return kind


cdef int iteration_error() except -1:
    raise RuntimeError("a container changed during iteration")


cdef int rows_clear(Head* h) noexcept:
    """Remove all rows."""
    if h.block != NULL:
        pool_give(h.block)
    h.block, h.first, h.n = NULL, 0, 0
    return 0


# -- queues -----------------------------------------------------------------------------------------------------

cdef int queue_grow(Head* h, long long words) except -1:
    """Move the rows of a queue or heap to a block with room for more."""
    cdef unsigned int kind = kind_for(h.n + 1, words, 0), tail
    cdef Block* old = h.block
    cdef Block* block
    block = pool_take(kind)
    block.capacity = room_of(kind, words, 0)
    if old != NULL:
        tail = min(h.n, old.capacity - h.first)
        memcpy(block_rows(block), block_rows(old) + h.first * words, 8 * words * tail)
        memcpy(block_rows(block) + tail * words, block_rows(old), 8 * words * (h.n - tail))
        pool_give(old)
    h.block, h.first = block, 0
    return 0


cdef long long* queue_push(Head* h, long long words) except NULL:
    """Return the place of a new last row."""
    cdef size_t at
    if h.block == NULL or h.n == h.block.capacity:
        queue_grow(h, words)
    at = <size_t> h.first + h.n
    if at >= h.block.capacity:
        at -= h.block.capacity
    h.n += 1
    return block_rows(h.block) + at * words


cdef int queue_pop(Head* h, long long* row, long long words) except -1:
    """Remove the first row and write it to `row`."""
    if h.n == 0:
        raise IndexError("pop from an empty Fifo")
    memcpy(row, block_rows(h.block) + <size_t> h.first * words, 8 * words)
    h.n -= 1
    h.first += 1
    if h.n == 0:
        rows_clear(h)
    elif h.first == h.block.capacity:
        h.first = 0
    return 0


cdef long long* queue_at(Head* h, long long k, long long words) except NULL:
    """Return row `k` of a queue, counted from the end if it is negative."""
    cdef size_t at
    if k < 0:
        k += h.n
    if not 0 <= k < h.n:
        raise IndexError("Fifo index out of range")
    at = <size_t> h.first + <size_t> k
    if at >= h.block.capacity:
        at -= h.block.capacity
    return block_rows(h.block) + at * words


cdef int queue_delete(Head* h, long long k, long long words) except -1:
    """Remove row `k` of a queue, counted from the end if it is negative; the shorter part of the queue moves."""
    cdef long long* row = queue_at(h, k, words)
    cdef long long* neighbour
    if k < 0:
        k += h.n
    if h.n == 1:
        return rows_clear(h)
    if k < h.n // 2:
        while k > 0:
            k -= 1
            neighbour = queue_at(h, k, words)
            memcpy(row, neighbour, 8 * words)
            row = neighbour
        h.first = 0 if h.first + 1 == h.block.capacity else h.first + 1
    else:
        while k + 1 < h.n:
            k += 1
            neighbour = queue_at(h, k, words)
            memcpy(row, neighbour, 8 * words)
            row = neighbour
    h.n -= 1
    return 0


# -- heaps ------------------------------------------------------------------------------------------------------

cdef inline bint is_before(const long long* a, const long long* b, long long words, long long reals) noexcept nogil:
    """Whether row `a` is less than row `b`, compared word by word; bit k of `reals`: word k is a float."""
    cdef long long k
    for k in range(words):
        if a[k] == b[k]:
            continue
        if reals >> k & 1:
            if (<const double*> a)[k] != (<const double*> b)[k]:
                return (<const double*> a)[k] < (<const double*> b)[k]
        else:
            return a[k] < b[k]
    return False


cdef int heap_push(Head* h, const long long* row, long long words, long long reals) except -1:
    """Add a row; floats must not be NaN."""
    cdef size_t at, parent
    cdef long long* rows
    cdef long long k
    for k in range(words):
        if reals >> k & 1 and (<const double*> row)[k] != (<const double*> row)[k]:
            raise ValueError("a row of a Heap must not contain nan, which has no order among numbers")
    if h.block == NULL or h.n == h.block.capacity:
        queue_grow(h, words)
    rows, at = block_rows(h.block), h.n
    h.n += 1
    while at > 0:
        parent = (at - 1) >> 1
        if not is_before(row, rows + parent * words, words, reals):
            break
        memcpy(rows + at * words, rows + parent * words, 8 * words)
        at = parent
    for k in range(words):
        rows[at * words + k] = row[k]
        if reals >> k & 1:
            (<double*> rows)[at * words + k] += 0.0  # -0.0 and 0.0 are equal, and so must not differ
    return 0


cdef int heap_pop(Head* h, long long* row, long long words, long long reals) except -1:
    """Remove the least row and write it to `row`."""
    cdef size_t at = 0, child, n
    cdef long long* rows
    cdef const long long* last
    if h.n == 0:
        raise IndexError("pop from an empty Heap")
    rows = block_rows(h.block)
    memcpy(row, rows, 8 * words)
    h.n -= 1
    n = h.n
    if n == 0:
        return rows_clear(h)
    last = rows + n * words
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and is_before(rows + (child + 1) * words, rows + child * words, words, reals):
            child += 1
        if not is_before(rows + child * words, last, words, reals):
            break
        memcpy(rows + at * words, rows + child * words, 8 * words)
        at = child
    memcpy(rows + at * words, last, 8 * words)
    return 0


cdef long long* heap_at(Head* h, long long k) except NULL:
    """Return the least row; `k` must be 0."""
    if k != 0:
        raise IndexError(f"index of a Heap must be 0, its least row, got {k}")
    if h.n == 0:
        raise IndexError("Heap index out of range")
    return block_rows(h.block)


# -- maps and sets ----------------------------------------------------------------------------------------------
# Rows begin with the key and are in the order of insertion.  Larger blocks have an index after the rows: a hash table
# of 2 places a row, with the number of the row plus 1, or 0.

cdef inline unsigned int* map_index(const Head* h, long long words) noexcept:
    return <unsigned int*> (block_rows(h.block) + <size_t> h.block.capacity * words)


cdef inline unsigned int place_of(long long key, unsigned int places) noexcept:
    cdef unsigned long long x = <unsigned long long> key * <unsigned long long> 0x9E3779B97F4A7C15
    return <unsigned int> (((x >> 32) * places) >> 32)


cdef long long* map_find(const Head* h, long long key, long long words) noexcept:
    """Return the row of a key; NULL if there is none."""
    cdef unsigned int k, places
    cdef long long* rows
    cdef const unsigned int* index
    if h.block == NULL or key == REMOVED:
        return NULL
    rows = block_rows(h.block)
    if h.block.kind < SCANNED:
        for k in range(h.block.front, h.n):
            if rows[k * words] == key:
                return rows + k * words
        return NULL
    index, places = map_index(h, words), 2 * h.block.capacity
    k = place_of(key, places)
    while index[k]:
        if rows[<size_t> (index[k] - 1) * words] == key:
            return rows + <size_t> (index[k] - 1) * words
        k += 1
        if k == places:
            k = 0
    return NULL


cdef long long* map_get(const Head* h, long long key, long long words) except NULL:
    cdef long long* row = map_find(h, key, words)
    if row == NULL:
        raise KeyError(key)
    return row


cdef inline void map_enter(Head* h, unsigned int row, long long words) noexcept:
    """Enter a row into the index."""
    cdef unsigned int places = 2 * h.block.capacity
    cdef unsigned int k = place_of(block_rows(h.block)[<size_t> row * words], places)
    cdef unsigned int* index = map_index(h, words)
    while index[k]:
        k += 1
        if k == places:
            k = 0
    index[k] = row + 1


cdef int map_grow(Head* h, long long words) except -1:
    """Move the rows in use to a block with room for half as many again, at least one."""
    cdef Block* old = h.block
    cdef unsigned int k, n = 0, kind = kind_for(h.first + (h.first >> 1) + 1, words, 1)
    cdef Block* block = pool_take(kind)
    block.capacity = room_of(kind, words, 1 if kind >= SCANNED else 0)
    for k in range(h.n):
        if block_rows(old)[k * words] != REMOVED:
            memcpy(block_rows(block) + <size_t> n * words, block_rows(old) + <size_t> k * words, 8 * words)
            n += 1
    if old != NULL:
        pool_give(old)
    h.block, h.n = block, n
    if kind >= SCANNED:
        memset(map_index(h, words), 0, 8 * <size_t> block.capacity)
        for k in range(n):
            map_enter(h, k, words)
    return 0


cdef long long* map_put(Head* h, long long key, long long words) except NULL:
    """Return the row of a key; if there is none, add one with values of 0."""
    cdef long long* row = map_find(h, key, words)
    if row != NULL:
        return row
    if key == REMOVED:
        raise OverflowError("a key must be above -2**63, got -2**63")
    if h.block == NULL or h.n == h.block.capacity:
        map_grow(h, words)
    row = block_rows(h.block) + <size_t> h.n * words
    memset(row, 0, 8 * words)
    row[0] = key
    h.first += 1
    h.n += 1
    if h.block.kind >= SCANNED:
        map_enter(h, h.n - 1, words)
    return row


cdef long long map_discard(Head* h, long long key, long long words) noexcept:
    """Remove a key; return whether it was there."""
    cdef long long* row = map_find(h, key, words)
    if row == NULL:
        return False
    row[0] = REMOVED
    h.first -= 1
    if h.first == 0:
        rows_clear(h)
    elif row == block_rows(h.block) + <size_t> h.block.front * words:
        h.block.front = <unsigned int> map_next(h, h.block.front, words)
    return True


cdef int map_remove(Head* h, long long key, long long words) except -1:
    """Remove a key, which must be present."""
    if not map_discard(h, key, words):
        raise KeyError(key)
    return 0


cdef long long map_next(const Head* h, long long at, long long words) noexcept:
    """Return the number of the first row in use from number `at` on; -1 if there is none."""
    cdef long long k
    if h.block != NULL:
        for k in range(max(at, <long long> h.block.front), h.n):
            if block_rows(h.block)[<size_t> k * words] != REMOVED:
                return k
    return -1


cdef long long* map_at(const Head* h, long long k, long long words) except NULL:
    """Return row `k` in the order of insertion, counted from the end if it is negative."""
    cdef long long at = -1
    if k < 0:
        k += h.first
    if not 0 <= k < h.first:
        raise IndexError("IntSet index out of range")
    if h.n == h.first:
        at = k
    else:
        for _ in range(k + 1):
            at = map_next(h, at + 1, words)
    return block_rows(h.block) + at * words


cdef int map_pop(Head* h, long long* row, long long words) except -1:
    """Remove the oldest row and write it to `row`."""
    cdef const long long* oldest
    if h.first == 0:
        raise KeyError("pop from an empty IntSet")
    oldest = block_rows(h.block) + <size_t> h.block.front * words
    memcpy(row, oldest, 8 * words)
    map_discard(h, row[0], words)
    return 0
