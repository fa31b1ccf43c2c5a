"""The reference-counted store of summaries for `gridcore.fair_tree.summary_tree`.

Most of the memory of a large run is here.  Cells are task counts of 32 bits, but the counts of one leaf, or of
a few leaves, nearly always fit into 16 bits.  A summary is stored with 16 bits a cell ("narrow") if all its
cells fit, and with 32 bits ("wide", full width) otherwise.

A handle is twice the place of a summary in its pool, plus 1 in the pool of full width.  The header of a summary is
before its cells, on the same cache line, because most of the time to handle a summary is spent waiting for memory.

About half of the cells are 0: those of the stretches, in front, at which no leaf has room.  They are not stored, but
only counted (`zeros`, whole stretches), so that half of the memory is never touched.
"""

from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from gridcore.common.memory cimport allocate_aligned, free_aligned, prefetch, reallocate, large_pages
from gridcore.fair_tree.summaries cimport add_cells, add_narrow_cells, narrow_cells, widen_cells

cdef enum:
    CHUNK = 256                         # summaries that are allocated together


cdef struct PayloadHeader:              # 16 bytes before the cells of a summary
    double release                      # s, the release for which it was sampled
    int references, zeros               # number of references; of cells in front that are 0 and are not stored


cdef struct Pool:                       # the summaries of one width; all zero when empty
    char** chunk
    Py_ssize_t chunks, spare            # number of chunks in use, and of unused chunks in the last block
    Py_ssize_t nbytes, stride           # bytes of the cells of a summary, and from one summary to the next
    int* unused
    Py_ssize_t n_unused
    void** block                        # of memory, with one chunk or more
    Py_ssize_t blocks


cdef struct Payloads:
    Py_ssize_t cells, row               # number of cells, and of those of a stretch
    Pool[2] pool                        # narrow, wide


cdef inline void payloads_make(Payloads* p, Py_ssize_t cells, Py_ssize_t row) noexcept nogil:
    p.cells, p.row = cells, row
    cdef Py_ssize_t wide
    for wide in range(2):
        p.pool[wide].nbytes = (4 if wide else 2) * cells
        p.pool[wide].stride = (sizeof(PayloadHeader) + p.pool[wide].nbytes + 63) // 64 * 64


cdef inline void payloads_free(Payloads* p) noexcept nogil:
    cdef Py_ssize_t wide, k
    for wide in range(2):
        for k in range(p.pool[wide].blocks):
            free_aligned(p.pool[wide].block[k])
        free(p.pool[wide].chunk)
        free(p.pool[wide].block)
        free(p.pool[wide].unused)


cdef inline Py_ssize_t payloads_in_use(const Payloads* p) noexcept nogil:
    return (p.pool[0].chunks + p.pool[1].chunks) * CHUNK - p.pool[0].n_unused - p.pool[1].n_unused


cdef inline bint payloads_wide(int handle) noexcept nogil:
    """Return whether a summary is of full width; False for no summary (-1)."""
    return handle >= 0 and handle & 1


cdef inline PayloadHeader* pool_at(const Pool* pool, Py_ssize_t place) noexcept nogil:
    return <PayloadHeader*> (pool.chunk[place // CHUNK] + (place % CHUNK) * pool.stride)


cdef inline PayloadHeader* payloads_header(const Payloads* p, int handle) noexcept nogil:
    return pool_at(&p.pool[handle & 1], handle >> 1)


cdef inline bint payloads_is_used(const Payloads* p, long long handle) noexcept nogil:
    """Return whether `handle`, which may be any number, belongs to a summary in use."""
    return 0 <= handle < 2 * p.pool[handle & 1].chunks * CHUNK and payloads_header(p, <int> handle).references > 0


cdef inline bint payloads_has_place(const Payloads* p, long long handle) noexcept nogil:
    """Return whether `handle`, which may be any number, refers to a place in a pool, in use or not."""
    return 0 <= handle < 2 * p.pool[handle & 1].chunks * CHUNK


cdef inline void* payloads_at(const Payloads* p, int handle) noexcept nogil:
    return payloads_header(p, handle) + 1


cdef inline int pool_grow(Pool* pool) except -1:
    """Add a chunk.  Memory grows by half, so that blocks have large pages and arrays are seldom copied."""
    cdef Py_ssize_t k, n = pool.chunks * CHUNK, n_new
    if pool.spare == 0:
        n_new = max(1, pool.chunks // 2)
        if n + n_new * CHUNK > 2**30:
            raise MemoryError(f"more than {2**30} summaries exist at a time")
        pool.chunk = <char**> reallocate(pool.chunk, (pool.chunks + n_new) * sizeof(char*))
        pool.unused = <int*> reallocate(pool.unused, (n + n_new * CHUNK) * sizeof(int))
        pool.block = <void**> reallocate(pool.block, (pool.blocks + 1) * sizeof(void*))
        pool.block[pool.blocks] = allocate_aligned(n_new * CHUNK * pool.stride)
        large_pages(pool.block[pool.blocks], n_new * CHUNK * pool.stride)
        pool.chunk[pool.chunks] = <char*> pool.block[pool.blocks]
        pool.blocks += 1
        pool.spare = n_new
    else:
        pool.chunk[pool.chunks] = pool.chunk[pool.chunks - 1] + CHUNK * pool.stride
    pool.chunks += 1
    pool.spare -= 1
    for k in range(n + CHUNK - 1, n - 1, -1):
        pool_at(pool, k).references = pool_at(pool, k).zeros = 0
        pool.unused[pool.n_unused] = <int> k
        pool.n_unused += 1
    return 0


cdef inline void payloads_clear(Payloads* p) noexcept nogil:
    """Free all summaries."""
    cdef Py_ssize_t wide, k
    for wide in range(2):
        for k in range(p.pool[wide].chunks * CHUNK):
            pool_at(&p.pool[wide], k).references = 0
    payloads_recount(p)


cdef inline void payloads_recount(Payloads* p) noexcept nogil:
    """Rebuild the lists of free places after the references have been set: a place without references is free."""
    cdef Py_ssize_t wide, k
    cdef Pool* pool
    for wide in range(2):
        pool = &p.pool[wide]
        pool.n_unused = 0
        for k in range(pool.chunks * CHUNK - 1, -1, -1):
            if pool_at(pool, k).references <= 0:
                pool_at(pool, k).references = 0
                pool.unused[pool.n_unused] = <int> k
                pool.n_unused += 1


cdef inline int payloads_new(Payloads* p, bint wide) except -1:
    """Return the handle of an uninitialised summary, with one reference: the caller's."""
    cdef Pool* pool = &p.pool[wide]
    cdef int place
    if pool.n_unused == 0:
        pool_grow(pool)
    pool.n_unused -= 1
    place = pool.unused[pool.n_unused]
    pool_at(pool, place).references = 1
    return 2 * place + wide


cdef inline void payloads_add_reference(Payloads* p, int handle) noexcept nogil:
    # A caller that copied rows may drop a summary too often.  A free summary must stay free, or its place could be
    # listed as free twice.
    cdef PayloadHeader* header = payloads_header(p, handle)
    header.references += header.references > 0


cdef inline void payloads_drop(Payloads* p, int handle) noexcept nogil:
    """Remove one reference to a summary, which is freed with its last reference; ignore -1."""
    if handle < 0:
        return
    cdef Pool* pool = &p.pool[handle & 1]
    cdef PayloadHeader* header = pool_at(pool, handle >> 1)
    if header.references == 0:  # see `payloads_add_reference`
        return
    header.references -= 1
    if header.references == 0:
        pool.unused[pool.n_unused] = handle >> 1
        pool.n_unused += 1


cdef inline Py_ssize_t payloads_zeros(const Payloads* p, int handle) noexcept nogil:
    """Return the number of cells in front that are 0 and are not stored; all for no summary (-1)."""
    return payloads_header(p, handle).zeros if handle >= 0 else p.cells


cdef inline bint payloads_fill(Payloads* p, int handle, const unsigned int* cells, Py_ssize_t zeros) noexcept nogil:
    """Store `cells`, of which the first `zeros` are 0, in the summary `handle`; False if they do not fit its width."""
    payloads_header(p, handle).zeros = <int> zeros
    if handle & 1:
        memcpy(<unsigned int*> payloads_at(p, handle) + zeros, cells + zeros, 4 * (p.cells - zeros))
        return True
    return narrow_cells(cells + zeros, <unsigned short*> payloads_at(p, handle) + zeros, p.cells - zeros)


cdef inline int payloads_put(Payloads* p, const unsigned int* cells, Py_ssize_t zeros) except -1:
    """Return a new summary with these cells, as narrow as possible, with one reference: the caller's."""
    cdef int handle = payloads_new(p, False)
    if not payloads_fill(p, handle, cells, zeros):
        payloads_drop(p, handle)
        handle = payloads_new(p, True)
        payloads_fill(p, handle, cells, zeros)
    return handle


cdef inline const unsigned int* payloads_get(const Payloads* p, int handle, unsigned int* capacity) noexcept nogil:
    """Return the cells of a summary in 32 bits, widened into `capacity` if they are stored in 16; not the zeros."""
    cdef Py_ssize_t zeros = payloads_zeros(p, handle)
    if handle & 1:
        return <const unsigned int*> payloads_at(p, handle)
    widen_cells(<const unsigned short*> payloads_at(p, handle) + zeros, capacity + zeros, p.cells - zeros)
    return capacity


cdef inline void payloads_copy(const Payloads* p, int handle, void* out) noexcept nogil:
    """Write all cells of a summary, in its width, to `out`."""
    cdef Py_ssize_t start = payloads_zeros(p, handle) * (4 if handle & 1 else 2)
    memset(out, 0, start)
    memcpy(<char*> out + start, <char*> payloads_at(p, handle) + start, p.pool[handle & 1].nbytes - start)


cdef inline void payloads_set(Payloads* p, int handle, const char* cells) noexcept nogil:
    """Store `cells`, which have the width of the summary `handle`."""
    cdef Py_ssize_t n = 0, row_bytes = (4 if handle & 1 else 2) * p.row
    while n < p.pool[handle & 1].nbytes and cells[n] == 0:
        n += 1
    payloads_header(p, handle).zeros = <int> (n // row_bytes * p.row)
    memcpy(payloads_at(p, handle), cells, p.pool[handle & 1].nbytes)


cdef inline unsigned int payloads_cell(const Payloads* p, int handle, Py_ssize_t k) noexcept nogil:
    if k < payloads_zeros(p, handle):
        return 0
    if handle & 1:
        return (<const unsigned int*> payloads_at(p, handle))[k]
    return (<const unsigned short*> payloads_at(p, handle))[k]


cdef inline double* payloads_release(const Payloads* p, int handle) noexcept nogil:
    """Return a pointer to the release (s) for which the summary was sampled."""
    return &payloads_header(p, handle).release


cdef inline void payloads_prefetch(const Payloads* p, int handle) noexcept nogil:
    """Prefetch the header and two lines in the middle, from where the processor goes on by itself."""
    cdef const char* header = <const char*> payloads_header(p, handle)
    cdef Py_ssize_t middle = p.pool[handle & 1].nbytes // 2
    prefetch(header)
    if middle >= 64:                    # else they are in the line of the header, or in the next one
        prefetch(header + middle)
        prefetch(header + middle + 64)


cdef inline bint payloads_equal(const Payloads* p, int a, int b) noexcept nogil:
    """Return whether two summaries have the same width and cells, whichever zeros they store."""
    cdef const char* cells
    cdef Py_ssize_t width = 4 if a & 1 else 2, k, start
    if (a & 1) != (b & 1):
        return False
    if payloads_zeros(p, a) > payloads_zeros(p, b):
        a, b = b, a
    start = payloads_zeros(p, b) * width
    cells = <const char*> payloads_at(p, a)
    for k in range(payloads_zeros(p, a) * width, start):
        if cells[k]:
            return False
    return memcmp(cells + start, <const char*> payloads_at(p, b) + start, p.pool[a & 1].nbytes - start) == 0


cdef inline int payloads_shrink(Payloads* p, int handle) except -1:
    """Make the summary `handle`, of full width, narrow if its cells fit; return its new handle."""
    cdef int narrow = payloads_new(p, False)
    if payloads_fill(p, narrow, <const unsigned int*> payloads_at(p, handle), payloads_zeros(p, handle)):
        payloads_release(p, narrow)[0] = payloads_release(p, handle)[0]
        payloads_drop(p, handle)
        return narrow
    payloads_drop(p, narrow)
    return handle


cdef inline int payloads_add(Payloads* p, const unsigned int* a, Py_ssize_t a_zeros, const unsigned int* b,
                             Py_ssize_t b_zeros, unsigned int* capacity) except -1:
    """Return a new summary, the sum of cells of 32 bits; `capacity` has room for it."""
    cdef Py_ssize_t low = min(a_zeros, b_zeros), high = max(a_zeros, b_zeros)
    memcpy(capacity + low, (a if a_zeros < b_zeros else b) + low, 4 * (high - low))
    add_cells(a + high, b + high, capacity + high, p.cells - high)
    return payloads_put(p, capacity, low)


cdef inline int payloads_add_narrow(Payloads* p, const unsigned short* a, Py_ssize_t a_zeros, const unsigned short* b,
                                    Py_ssize_t b_zeros) except -2:
    """Return a new narrow summary, the sum of cells of 16 bits; -1 if the sum is not narrow."""
    cdef int handle = payloads_new(p, False)
    cdef unsigned short* out = <unsigned short*> payloads_at(p, handle)
    cdef Py_ssize_t low = min(a_zeros, b_zeros), high = max(a_zeros, b_zeros)
    payloads_header(p, handle).zeros = <int> low
    memcpy(out + low, (a if a_zeros < b_zeros else b) + low, 2 * (high - low))
    if add_narrow_cells(a + high, b + high, out + high, p.cells - high):
        return handle
    payloads_drop(p, handle)
    return -1
