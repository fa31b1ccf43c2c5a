"""A monotone heap of instants, ties by number, for `gridcore.work_queue` and the pull queue.

A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 37(2), 1990).  Entries that are far ahead wait without an
order in buckets, by the highest digit in which their instants differ from `base`.  Only the next few are in a heap,
which stays in the cache.  An entry is therefore written and read sequentially a few times, whereas one large heap would
wait for memory at each of its lower levels.  The owner can prefetch the data of the next entries.

The owner knows which entries are still valid.  An invalid one stays until it is first, or until `radix_clear`.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.bits cimport highest_bit, lowest_bit
from gridcore.common.heap cimport Entry, heap_make, heap_pop, heap_push
from gridcore.common.memory cimport reallocate

cdef enum:
    DIGIT = 6                           # bits of a digit
    DIGITS = 11                         # digits of an instant
    BATCH_SIZE = 16                     # entries of a full batch
    MAX_FRONT = 48                      # `front` is filled up to this many entries; a bucket with more is divided
    MIN_FRONT = 8                       # `front` is refilled below this many entries, so that its owner can prefetch


cdef struct Batch:
    Entry item[BATCH_SIZE]


cdef struct Bucket:
    Py_ssize_t n
    int batch                           # the first batch of a list; all others are full


cdef struct RadixHeap:                  # initialised by `radix_make`
    Entry* front                        # a heap of all entries until `base`
    Py_ssize_t n_front, n_far, capacity
    long long base                      # ns
    Bucket bucket[DIGITS << DIGIT]
    unsigned long long used[DIGITS]     # by digit: bits of the buckets that are not empty
    Batch* batch
    int* next                           # by batch: the next one of its bucket or of the unused ones, -1: none
    int unused, first_never_used        # the first batch that is unused again, and the first that was never used


cdef inline int radix_make(RadixHeap* q, Py_ssize_t capacity) except -1:
    """Make an empty heap with room for `capacity` entries; `q` must be all zero or initialised."""
    cdef Py_ssize_t batches = capacity // BATCH_SIZE + min(capacity, <Py_ssize_t> (DIGITS << DIGIT)) + 2
    q.front = <Entry*> reallocate(q.front, (capacity + 1) * sizeof(Entry))
    q.batch = <Batch*> reallocate(q.batch, batches * sizeof(Batch))
    q.next = <int*> reallocate(q.next, batches * sizeof(int))
    q.capacity = capacity
    radix_clear(q)
    return 0


cdef inline void radix_free(RadixHeap* q) noexcept nogil:
    free(q.front)
    free(q.batch)
    free(q.next)


cdef inline void radix_clear(RadixHeap* q) noexcept nogil:
    """Remove all entries."""
    memset(q.bucket, 0, sizeof(q.bucket))
    memset(q.used, 0, sizeof(q.used))
    q.n_front = q.n_far = q.base = 0
    q.unused, q.first_never_used = -1, 0


cdef inline bint radix_full(const RadixHeap* q) noexcept nogil:
    return q.n_front + q.n_far == q.capacity


cdef inline void _radix_defer(RadixHeap* q, Entry new) noexcept nogil:
    """Put an entry later than `base` into its bucket."""
    cdef int level = highest_bit(<unsigned long long> (new.at ^ q.base)) // DIGIT
    cdef int digit = (new.at >> level * DIGIT) & ((1 << DIGIT) - 1), batch
    cdef Bucket* bucket = &q.bucket[(level << DIGIT) + digit]
    if bucket.n % BATCH_SIZE == 0:
        batch = q.unused
        if batch >= 0:
            q.unused = q.next[batch]
        else:
            batch = q.first_never_used
            q.first_never_used += 1
        q.next[batch] = bucket.batch
        bucket.batch = batch
        q.used[level] |= <unsigned long long> 1 << digit
    q.batch[bucket.batch].item[bucket.n % BATCH_SIZE] = new
    bucket.n += 1
    q.n_far += 1


cdef inline void radix_push(RadixHeap* q, long long at, Py_ssize_t number) noexcept nogil:
    """Add an entry, of an instant >= 0; there must be room."""
    cdef Entry new
    new.at, new.number = at, number
    if at > q.base:
        _radix_defer(q, new)
    else:
        heap_push(q.front, q.n_front, new)
        q.n_front += 1


cdef inline void radix_pop(RadixHeap* q) noexcept nogil:
    """Remove the first entry, which must be in `front`."""
    heap_pop(q.front, q.n_front)
    q.n_front -= 1


cdef inline bint radix_refill(RadixHeap* q) noexcept nogil:
    """Move the next entries into `front` if it has fewer than `MIN_FRONT`; return whether it did."""
    cdef int level, digit, batch, next_batch
    cdef Py_ssize_t n, k
    cdef Bucket* bucket
    cdef Entry entry
    cdef bint fits
    if q.n_front >= MIN_FRONT or q.n_far == 0:
        return False
    while q.n_far > 0 and q.n_front < MAX_FRONT // 2:
        level = 0
        while q.used[level] == 0:
            level += 1
        digit = lowest_bit(q.used[level])
        bucket = &q.bucket[(level << DIGIT) + digit]
        n, batch = bucket.n, bucket.batch
        fits = level == 0 or n <= MAX_FRONT
        if fits and q.n_front > 0 and q.n_front + n > MAX_FRONT:
            break
        if not fits:
            # the entries of this bucket differ from the new `base` in lower digits only
            q.base = q.batch[batch].item[0].at >> level * DIGIT << level * DIGIT
        bucket.n = 0
        q.used[level] &= ~(<unsigned long long> 1 << digit)
        q.n_far -= n
        while n > 0:
            for k in range((n - 1) % BATCH_SIZE + 1):
                entry = q.batch[batch].item[k]
                if fits and entry.at > q.base:
                    q.base = entry.at
                if entry.at > q.base:
                    _radix_defer(q, entry)
                else:
                    q.front[q.n_front] = entry
                    q.n_front += 1
            n = (n - 1) // BATCH_SIZE * BATCH_SIZE
            next_batch = q.next[batch]
            q.next[batch] = q.unused
            q.unused = batch
            batch = next_batch
    heap_make(q.front, q.n_front)
    return True
