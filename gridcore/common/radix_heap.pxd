"""A heap of instants for time that goes forward, ties by number: for `gridcore.work_queue` and the pull queue.

A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 37(2), 1990).  Entries that are far ahead wait without an
order in buckets, by the highest digit in which their instants differ from `base`.  Only the next few are in a heap,
which stays in the cache.  So an entry is written and read in a row a few times, where a heap of all would wait for
memory at each of its lower levels, and the owner can prefetch what the next entries need.

The owner knows which entries still hold.  One that does not stays until it is first, or until `radix_clear`.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.bits cimport highest_bit, lowest_bit
from gridcore.common.heap cimport Entry, heap_make, heap_pop, heap_push
from gridcore.common.memory cimport grown

cdef enum:
    DIGIT = 6                           # bits of a digit
    DIGITS = 11                         # of an instant
    FULL = 16                           # entries of a batch
    FEW = 48                            # a bucket of no more entries is not divided; as many are in the heap
    AHEAD = 8                           # entries that the heap has at least, so that their owner can prefetch


cdef struct Batch:
    Entry item[FULL]


cdef struct Bucket:
    Py_ssize_t n
    int batch                           # all but the first batch of the list are full


cdef struct RadixHeap:                  # made by `radix_make`
    Entry* near                         # a heap of all entries until `base`
    Py_ssize_t n_near, n_far, room
    long long base                      # ns
    Bucket bucket[DIGITS << DIGIT]
    unsigned long long used[DIGITS]     # by digit: bits of the buckets that are not empty
    Batch* batch
    int* next                           # by batch, the next one of its bucket or of the unused, -1
    int unused, fresh                   # the first unused batch; the batches from `fresh` on were never used


cdef inline int radix_make(RadixHeap* q, Py_ssize_t room) except -1:
    """Make an empty heap for so many entries; it must be all zero, or made."""
    cdef Py_ssize_t batches = room // FULL + min(room, <Py_ssize_t> (DIGITS << DIGIT)) + 2
    q.near = <Entry*> grown(q.near, (room + 1) * sizeof(Entry))
    q.batch = <Batch*> grown(q.batch, batches * sizeof(Batch))
    q.next = <int*> grown(q.next, batches * sizeof(int))
    q.room = room
    radix_clear(q)
    return 0


cdef inline void radix_free(RadixHeap* q) noexcept nogil:
    free(q.near)
    free(q.batch)
    free(q.next)


cdef inline void radix_clear(RadixHeap* q) noexcept nogil:
    """Remove all entries."""
    memset(q.bucket, 0, sizeof(q.bucket))
    memset(q.used, 0, sizeof(q.used))
    q.n_near = q.n_far = q.base = 0
    q.unused, q.fresh = -1, 0


cdef inline bint radix_full(const RadixHeap* q) noexcept nogil:
    return q.n_near + q.n_far == q.room


cdef inline void _radix_defer(RadixHeap* q, Entry new) noexcept nogil:
    """Put an entry later than `base` into its bucket."""
    cdef int level = highest_bit(<unsigned long long> (new.at ^ q.base)) // DIGIT
    cdef int digit = (new.at >> level * DIGIT) & ((1 << DIGIT) - 1), taken
    cdef Bucket* bucket = &q.bucket[(level << DIGIT) + digit]
    if bucket.n % FULL == 0:
        taken = q.unused
        if taken >= 0:
            q.unused = q.next[taken]
        else:
            taken = q.fresh
            q.fresh += 1
        q.next[taken] = bucket.batch
        bucket.batch = taken
        q.used[level] |= <unsigned long long> 1 << digit
    q.batch[bucket.batch].item[bucket.n % FULL] = new
    bucket.n += 1
    q.n_far += 1


cdef inline void radix_push(RadixHeap* q, long long at, Py_ssize_t number) noexcept nogil:
    """Add an entry, of an instant >= 0; there must be room."""
    cdef Entry new
    new.at, new.number = at, number
    if at > q.base:
        _radix_defer(q, new)
    else:
        heap_push(q.near, q.n_near, new)
        q.n_near += 1


cdef inline void radix_pop(RadixHeap* q) noexcept nogil:
    """Remove the first entry, which must be in `near`."""
    heap_pop(q.near, q.n_near)
    q.n_near -= 1


cdef inline bint radix_refill(RadixHeap* q) noexcept nogil:
    """Move the next entries into `near` if it has hardly any; return whether it did."""
    cdef int level, digit, batch, following
    cdef Py_ssize_t n, k
    cdef Bucket* bucket
    cdef Entry entry
    cdef bint whole
    if q.n_near >= AHEAD or q.n_far == 0:
        return False
    while q.n_far > 0 and q.n_near < FEW // 2:
        level = 0
        while q.used[level] == 0:
            level += 1
        digit = lowest_bit(q.used[level])
        bucket = &q.bucket[(level << DIGIT) + digit]
        n, batch = bucket.n, bucket.batch
        whole = level == 0 or n <= FEW
        if whole and q.n_near > 0 and q.n_near + n > FEW:
            break
        if not whole:
            # from here on the entries of this bucket differ from `base` in lower digits only
            q.base = q.batch[batch].item[0].at >> level * DIGIT << level * DIGIT
        bucket.n = 0
        q.used[level] &= ~(<unsigned long long> 1 << digit)
        q.n_far -= n
        while n > 0:
            for k in range((n - 1) % FULL + 1):
                entry = q.batch[batch].item[k]
                if whole and entry.at > q.base:
                    q.base = entry.at
                if entry.at > q.base:
                    _radix_defer(q, entry)
                else:
                    q.near[q.n_near] = entry
                    q.n_near += 1
            n = (n - 1) // FULL * FULL
            following = q.next[batch]
            q.next[batch] = q.unused
            q.unused = batch
            batch = following
    heap_make(q.near, q.n_near)
    return True
