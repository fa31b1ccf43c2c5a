"""A heap of instants, ties by number: for schedules of machines, and for queues of events.

A heap is an array in which each node has four children.  Its owner allocates it for the largest number of
entries, and keeps the number of entries.
"""

cdef struct Entry:
    long long at
    Py_ssize_t number


cdef struct Event:                      # an entry with the place of its data; `sequence` is its number
    long long time
    long long sequence
    int slot


ctypedef fused Item:
    Entry
    Event


cdef inline bint heap_before(Item a, Item b) noexcept nogil:
    # without branches, because the result cannot be predicted
    if Item is Entry:
        return (a.at < b.at) | ((a.at == b.at) & (a.number < b.number))
    else:
        return (a.time < b.time) | ((a.time == b.time) & (a.sequence < b.sequence))


cdef inline void heap_settle(Item* heap, Py_ssize_t n, Py_ssize_t k, Item moved) noexcept nogil:
    """Put `moved` at position k or below it in a heap of n entries."""
    cdef Py_ssize_t child = 4 * k + 1, other, least
    while child + 3 < n:
        least = child + heap_before(heap[child + 1], heap[child])
        other = child + 2 + heap_before(heap[child + 3], heap[child + 2])
        least += (other - least) * heap_before(heap[other], heap[least])
        if not heap_before(heap[least], moved):
            heap[k] = moved
            return
        heap[k] = heap[least]
        k = least
        child = 4 * k + 1
    if child < n:
        least = child
        for other in range(child + 1, n):
            if heap_before(heap[other], heap[least]):
                least = other
        if heap_before(heap[least], moved):
            heap[k] = heap[least]
            k = least
    heap[k] = moved


cdef inline void heap_push(Item* heap, Py_ssize_t n, Item new) noexcept nogil:
    """Add `new` to a heap of n entries."""
    cdef Py_ssize_t k = n, parent
    while k > 0:
        parent = (k - 1) // 4
        if not heap_before(new, heap[parent]):
            break
        heap[k] = heap[parent]
        k = parent
    heap[k] = new


cdef inline void heap_pop(Item* heap, Py_ssize_t n) noexcept nogil:
    """Remove the first entry of a heap of n entries."""
    if n > 1:
        heap_settle(heap, n - 1, 0, heap[n - 1])


cdef inline void heap_make(Item* heap, Py_ssize_t n) noexcept nogil:
    """Turn n entries in any order into a heap."""
    cdef Py_ssize_t k
    for k in range((n - 2) // 4 if n > 1 else -1, -1, -1):
        heap_settle(heap, n, k, heap[k])
