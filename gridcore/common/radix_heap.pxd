"""A queue of events whose instants do not decrease, ties by sequence: for `gridcore.common.pending` and machines.

A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 37(2), 1990).  Events that are far ahead wait without an
order in buckets, by the highest digit in which their instants differ from `base`.  Only the next few are in a heap,
which stays in the cache.  An event is therefore written and read sequentially a few times, whereas one large heap would
wait for memory at each of its lower levels.  The owner can prefetch the data of the next events.

A short queue is only the heap.  If many events until `base` are added later, because the queue was short before, `base`
moves back.

The owner knows which events are still valid.  An invalid one stays until it is first, or until `radix_clear`.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.bits cimport highest_bit, lowest_bit
from gridcore.common.heap cimport Event, heap_make, heap_pop, heap_push
from gridcore.common.memory cimport prefetch_at, reallocate

cdef enum:
    DIGIT = 6                           # bits of a digit
    DIGITS = 11                         # digits of an instant
    BATCH_SIZE = 16                     # events of a full batch
    MAX_FRONT = 48                      # `front` is filled up to this many events; a bucket with more is divided
    LINE = 64                           # bytes of a cache line
    MIN_FRONT = 8                       # `front` is refilled below this many events, so that its owner can prefetch


cdef struct Batch:
    Event item[BATCH_SIZE]


cdef struct Bucket:
    Py_ssize_t n
    int batch                           # the first batch of a list; all others are full


cdef struct RadixHeap:                  # empty if all is zero
    Event* front                        # a heap of all events until `base`
    Py_ssize_t n_front, n_far, capacity
    long long base                      # ns
    Batch* batch                        # batch 0 is never used
    int* next                           # by batch: the next one of its bucket or of the unused ones, 0: none
    int unused, last_used               # the first batch that is unused again, and the highest that was ever used
    unsigned long long used[DIGITS]     # by digit: bits of the buckets that are not empty
    Bucket bucket[DIGITS << DIGIT]


cdef inline int radix_reserve(RadixHeap* q, Py_ssize_t capacity) except -1 nogil:
    """Make room for `capacity` events."""
    cdef Py_ssize_t batches = capacity // BATCH_SIZE + min(capacity, <Py_ssize_t> (DIGITS << DIGIT)) + 2
    q.front = <Event*> reallocate(q.front, (capacity + 1) * sizeof(Event))
    q.batch = <Batch*> reallocate(q.batch, batches * sizeof(Batch))
    q.next = <int*> reallocate(q.next, batches * sizeof(int))
    q.capacity = capacity
    return 0


cdef inline void radix_free(RadixHeap* q) noexcept nogil:
    free(q.front)
    free(q.batch)
    free(q.next)


cdef inline void radix_clear(RadixHeap* q) noexcept nogil:
    """Remove all events."""
    memset(q.bucket, 0, sizeof(q.bucket))
    memset(q.used, 0, sizeof(q.used))
    q.n_front = q.n_far = q.base = 0
    q.unused = q.last_used = 0


cdef inline bint radix_full(const RadixHeap* q) noexcept nogil:
    return q.n_front + q.n_far == q.capacity


cdef inline void _radix_defer(RadixHeap* q, Event new) noexcept nogil:
    """Put an event later than `base` into its bucket."""
    cdef int level = highest_bit(<unsigned long long> (new.time ^ q.base)) // DIGIT
    cdef int digit = (new.time >> level * DIGIT) & ((1 << DIGIT) - 1), batch
    cdef Bucket* bucket = &q.bucket[(level << DIGIT) + digit]
    if bucket.n % BATCH_SIZE == 0:
        batch = q.unused
        if batch > 0:
            q.unused = q.next[batch]
        else:
            q.last_used += 1
            batch = q.last_used
        q.next[batch] = bucket.batch
        bucket.batch = batch
        q.used[level] |= <unsigned long long> 1 << digit
    q.batch[bucket.batch].item[bucket.n % BATCH_SIZE] = new
    bucket.n += 1
    q.n_far += 1


cdef inline void _radix_empty(RadixHeap* q, int level, int digit, bint fits) noexcept nogil:
    """Move the events of a bucket into lower buckets and, until `base`, to the end of `front`.

    With `fits`, `base` becomes the latest of their instants, so that all are moved into `front`.
    """
    cdef Bucket* bucket = &q.bucket[(level << DIGIT) + digit]
    cdef Py_ssize_t n = bucket.n, k
    cdef int batch = bucket.batch, next_batch
    cdef Event event
    bucket.n = bucket.batch = 0
    q.used[level] &= ~(<unsigned long long> 1 << digit)
    q.n_far -= n
    while n > 0:
        next_batch = q.next[batch]
        for k in range(<Py_ssize_t> sizeof(Batch) // LINE):
            prefetch_at(&q.batch[next_batch], k * LINE)
        for k in range((n - 1) % BATCH_SIZE + 1):
            event = q.batch[batch].item[k]
            if fits and event.time > q.base:
                q.base = event.time
            if event.time > q.base:
                _radix_defer(q, event)
            else:
                q.front[q.n_front] = event
                q.n_front += 1
        n = (n - 1) // BATCH_SIZE * BATCH_SIZE
        q.next[batch] = q.unused
        q.unused = batch
        batch = next_batch


cdef inline void _radix_split(RadixHeap* q) noexcept nogil:
    """Move all events after the first instant out of `front`, which has too many."""
    cdef long long base = max(<long long> 0, q.front[0].time)
    cdef Py_ssize_t k, n = q.n_front
    cdef int level, top
    cdef unsigned long long used
    if q.base <= base:
        return
    top = highest_bit(<unsigned long long> (q.base ^ base)) // DIGIT
    q.base = base
    for level in range(top + 1):            # these depend on the digits of `base` that have changed
        used = q.used[level]
        while used:
            _radix_empty(q, level, lowest_bit(used), False)
            used &= used - 1
    q.n_front = 0
    for k in range(n):
        if q.front[k].time > q.base:
            _radix_defer(q, q.front[k])
        else:
            q.front[q.n_front] = q.front[k]
            q.n_front += 1
    heap_make(q.front, q.n_front)


cdef inline void radix_push(RadixHeap* q, long long time, long long sequence, int slot) noexcept nogil:
    """Add an event; there must be room."""
    cdef Event new
    new.time, new.sequence, new.slot = time, sequence, slot
    if q.n_far == 0 and q.n_front < MAX_FRONT // 2:
        q.base = max(q.base, time)      # a short queue is only a heap
    if time > q.base:
        _radix_defer(q, new)
        return
    heap_push(q.front, q.n_front, new)
    q.n_front += 1
    if q.n_front > MAX_FRONT and q.n_front & (q.n_front - 1) == 0:
        _radix_split(q)


cdef inline void radix_pop(RadixHeap* q) noexcept nogil:
    """Remove the first event, which must be in `front`."""
    heap_pop(q.front, q.n_front)
    q.n_front -= 1


cdef inline bint radix_refill(RadixHeap* q) noexcept nogil:
    """Move the next events into `front` if it has fewer than `MIN_FRONT`; return whether it did."""
    cdef int level, digit
    cdef const Bucket* bucket
    cdef bint fits
    if q.n_front >= MIN_FRONT or q.n_far == 0:
        return False
    while q.n_far > 0 and q.n_front < MAX_FRONT // 2:
        level = 0
        while q.used[level] == 0:
            level += 1
        digit = lowest_bit(q.used[level])
        bucket = &q.bucket[(level << DIGIT) + digit]
        fits = level == 0 or bucket.n <= MAX_FRONT
        if fits and q.n_front > 0 and q.n_front + bucket.n > MAX_FRONT:
            break
        if not fits:
            # the events of this bucket differ from the new `base` in lower digits only
            q.base = q.batch[bucket.batch].item[0].time >> level * DIGIT << level * DIGIT
        _radix_empty(q, level, digit, fits)
    heap_make(q.front, q.n_front)
    return True
