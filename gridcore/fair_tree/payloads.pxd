"""The reference-counted store of summaries for `gridcore.fair_tree.summary_tree`.

Most of the memory of a large run is here.  Cells are task counts of 32 bits, but the counts of one leaf, or of
a few leaves, nearly always fit into 16 bits.  A summary is stored with 16 bits a cell ("narrow") if all its
cells fit, and with 32 bits ("wide", full width) otherwise.

A handle is twice the place of a summary in its pool, plus 1 in the pool of full width.
"""

from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from gridcore.common.memory cimport grown
from gridcore.fair_tree.summaries cimport add_narrow_cells, narrow_cells, widen_cells

cdef enum:
    CHUNK = 256                         # summaries that are allocated together


cdef struct Pool:                       # the summaries of one width; all zero when empty
    char** chunk
    Py_ssize_t chunks, nbytes           # of one summary
    int* references
    double* release                     # s, for which each summary was sampled
    int* unused
    Py_ssize_t room, n_unused


cdef struct Payloads:
    Py_ssize_t cells
    Pool[2] pool                        # narrow, wide


cdef inline void payloads_make(Payloads* p, Py_ssize_t cells) noexcept nogil:
    p.cells = cells
    p.pool[0].nbytes, p.pool[1].nbytes = 2 * cells, 4 * cells


cdef inline void payloads_free(Payloads* p) noexcept nogil:
    cdef Py_ssize_t wide, k
    for wide in range(2):
        for k in range(p.pool[wide].chunks):
            free(p.pool[wide].chunk[k])
        free(p.pool[wide].chunk)
        free(p.pool[wide].references)
        free(p.pool[wide].release)
        free(p.pool[wide].unused)


cdef inline Py_ssize_t payloads_in_use(const Payloads* p) noexcept nogil:
    return (p.pool[0].chunks + p.pool[1].chunks) * CHUNK - p.pool[0].n_unused - p.pool[1].n_unused


cdef inline bint payloads_wide(int handle) noexcept nogil:
    """Return whether a summary is of full width; False for no summary (-1)."""
    return handle >= 0 and handle & 1


cdef inline bint payloads_has(const Payloads* p, long long handle) noexcept nogil:
    """Return whether `handle`, which may be any number, belongs to a summary in use."""
    return 0 <= handle < 2 * p.pool[handle & 1].chunks * CHUNK and p.pool[handle & 1].references[handle >> 1] > 0


cdef inline bint payloads_within(const Payloads* p, long long handle) noexcept nogil:
    """Return whether `handle`, which may be any number, names a place in a pool, in use or not."""
    return 0 <= handle < 2 * p.pool[handle & 1].chunks * CHUNK


cdef inline void* payloads_at(const Payloads* p, int handle) noexcept nogil:
    cdef const Pool* pool = &p.pool[handle & 1]
    return pool.chunk[(handle >> 1) // CHUNK] + ((handle >> 1) % CHUNK) * pool.nbytes


cdef inline int pool_grow(Pool* pool) except -1:
    """Add a chunk.  The other arrays grow by half, since copying them for each chunk would take most time."""
    cdef Py_ssize_t k, n = pool.chunks * CHUNK, room
    if n == pool.room:
        room = n + CHUNK * max(1, pool.chunks // 2)
        if room > 2**30:
            raise MemoryError(f"more than {2**30} summaries at a time")
        pool.chunk = <char**> grown(pool.chunk, room // CHUNK * sizeof(char*))
        pool.references = <int*> grown(pool.references, room * sizeof(int))
        pool.release = <double*> grown(pool.release, room * sizeof(double))
        pool.unused = <int*> grown(pool.unused, room * sizeof(int))
        pool.room = room
    pool.chunk[pool.chunks] = <char*> grown(NULL, CHUNK * pool.nbytes)
    pool.chunks += 1
    for k in range(n + CHUNK - 1, n - 1, -1):
        pool.references[k] = 0
        pool.unused[pool.n_unused] = <int> k
        pool.n_unused += 1
    return 0


cdef inline int payloads_clear(Payloads* p, Py_ssize_t narrow, Py_ssize_t wide) except -1:
    """Free all summaries, and make room for `narrow` and `wide` summaries of the two widths."""
    cdef Py_ssize_t w, k
    cdef Pool* pool
    for w in range(2):
        pool = &p.pool[w]
        while pool.chunks * CHUNK < (wide if w else narrow):
            pool_grow(pool)
        pool.n_unused = 0
        for k in range(pool.chunks * CHUNK - 1, -1, -1):
            pool.references[k] = 0
            pool.unused[pool.n_unused] = <int> k
            pool.n_unused += 1
    return 0


cdef inline void payloads_recount(Payloads* p) noexcept nogil:
    """Rebuild the lists of free places after the references have been set: a place without references is free."""
    cdef Py_ssize_t w, k
    cdef Pool* pool
    for w in range(2):
        pool = &p.pool[w]
        pool.n_unused = 0
        for k in range(pool.chunks * CHUNK - 1, -1, -1):
            if pool.references[k] == 0:
                pool.unused[pool.n_unused] = <int> k
                pool.n_unused += 1


cdef inline int payloads_new(Payloads* p, bint wide) except -1:
    """Return the handle of room for a summary, with one reference: the caller's."""
    cdef Pool* pool = &p.pool[wide]
    cdef int place
    if pool.n_unused == 0:
        pool_grow(pool)
    pool.n_unused -= 1
    place = pool.unused[pool.n_unused]
    pool.references[place] = 1
    return 2 * place + wide


cdef inline void payloads_hold(Payloads* p, int handle) noexcept nogil:
    # If a caller copied rows, a summary may be dropped too often and thus be free already.  It must stay free:
    # otherwise its place could enter the list of free places twice.
    cdef int* references = &p.pool[handle & 1].references[handle >> 1]
    references[0] += references[0] > 0


cdef inline void payloads_drop(Payloads* p, int handle) noexcept nogil:
    """Remove one reference to a summary, which is freed with the last one; does nothing for -1."""
    if handle < 0:
        return
    cdef Pool* pool = &p.pool[handle & 1]
    if pool.references[handle >> 1] == 0:  # see `payloads_hold`
        return
    pool.references[handle >> 1] -= 1
    if pool.references[handle >> 1] == 0:
        pool.unused[pool.n_unused] = handle >> 1
        pool.n_unused += 1


cdef inline bint payloads_fill(Payloads* p, int handle, const unsigned int* cells) noexcept nogil:
    """Store `cells` in the room of `handle`; False if they do not fit its width."""
    if handle & 1:
        memcpy(payloads_at(p, handle), cells, p.pool[1].nbytes)
        return True
    return narrow_cells(cells, <unsigned short*> payloads_at(p, handle), p.cells)


cdef inline int payloads_put(Payloads* p, const unsigned int* cells) except -1:
    """Return a new summary with these cells, as narrow as possible, with one reference: the caller's."""
    cdef int handle = payloads_new(p, False)
    if not payloads_fill(p, handle, cells):
        payloads_drop(p, handle)
        handle = payloads_new(p, True)
        payloads_fill(p, handle, cells)
    return handle


cdef inline const unsigned int* payloads_get(const Payloads* p, int handle, unsigned int* room) noexcept nogil:
    """Return the cells of a summary in 32 bits, widened into `room` if they are stored in 16."""
    if handle & 1:
        return <const unsigned int*> payloads_at(p, handle)
    widen_cells(<const unsigned short*> payloads_at(p, handle), room, p.cells)
    return room


cdef inline unsigned int payloads_cell(const Payloads* p, int handle, Py_ssize_t k) noexcept nogil:
    if handle & 1:
        return (<const unsigned int*> payloads_at(p, handle))[k]
    return (<const unsigned short*> payloads_at(p, handle))[k]


cdef inline double* payloads_release(const Payloads* p, int handle) noexcept nogil:
    """Return a pointer to the release (s) for which the summary was sampled."""
    return &p.pool[handle & 1].release[handle >> 1]


cdef inline bint payloads_same(const Payloads* p, int a, int b) noexcept nogil:
    return (a & 1) == (b & 1) and memcmp(payloads_at(p, a), payloads_at(p, b), p.pool[a & 1].nbytes) == 0


cdef inline int payloads_shrink(Payloads* p, int handle) except -1:
    """Make the summary `handle`, of full width, narrow if its cells fit; return its handle from now on."""
    cdef int narrow = payloads_new(p, False)
    if payloads_fill(p, narrow, <const unsigned int*> payloads_at(p, handle)):
        payloads_release(p, narrow)[0] = payloads_release(p, handle)[0]
        payloads_drop(p, handle)
        return narrow
    payloads_drop(p, narrow)
    return handle


cdef inline int payloads_add(Payloads* p, int a, int b) except -2:
    """Return a new summary, the sum of two narrow ones, if it is narrow too; otherwise -1."""
    if a & 1 or b & 1:
        return -1
    cdef int handle = payloads_new(p, False)
    if add_narrow_cells(<const unsigned short*> payloads_at(p, a), <const unsigned short*> payloads_at(p, b),
                        <unsigned short*> payloads_at(p, handle), p.cells):
        return handle
    payloads_drop(p, handle)
    return -1
