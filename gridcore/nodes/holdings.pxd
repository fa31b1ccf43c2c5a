"""The applications that each node knows, and the tasks of each that it must place: for `gridcore.nodes.node_actions`.

A hash table of (node, application) with chains; the entries of a node are linked, too.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport large_pages, prefetch, reallocate

cdef struct Holding:
    long long tasks                     # the tasks that the node must place
    int node, application
    int next_in_bucket                  # the next entry of the same bucket, or of the unused entries; -1: none
    int next_of_node                    # the next entry of the node


cdef struct Holdings:                   # initialised by `holdings_make`
    Holding* entry
    int n, capacity, unused                 # entries in use, allocated entries, and the first unused entry
    int* bucket
    Py_ssize_t buckets                  # a power of 2, at least `capacity`
    int* first                          # per node


cdef inline Py_ssize_t holdings_bucket(const Holdings* h, long long node, long long application) noexcept nogil:
    cdef unsigned long long x = <unsigned long long> (node << 32 | application) * <unsigned long long> 0x9E3779B97F4A7C15
    return <Py_ssize_t> (x >> 32) & (h.buckets - 1)


cdef inline int holdings_make(Holdings* h, Py_ssize_t nodes) except -1:
    """Initialise `h` without entries; memory that it had is not freed."""
    cdef Py_ssize_t k
    memset(h, 0, sizeof(Holdings))
    h.unused = -1
    h.first = <int*> reallocate(NULL, max(1, nodes) * sizeof(int))
    for k in range(nodes):
        h.first[k] = -1
    return holdings_grow(h)


cdef inline void holdings_free(Holdings* h) noexcept nogil:
    free(h.entry)
    free(h.bucket)
    free(h.first)


cdef inline int holdings_grow(Holdings* h) except -1:
    """Make room for twice as many entries."""
    cdef int capacity = 2 * h.capacity + 64, k
    cdef Py_ssize_t at
    if capacity > 2**30:
        raise MemoryError(f"nodes know more than {2**30} applications")
    h.entry = <Holding*> reallocate(h.entry, capacity * sizeof(Holding))
    at = 64
    while at < capacity:
        at *= 2
    h.bucket = <int*> reallocate(h.bucket, at * sizeof(int))
    h.buckets = at
    large_pages(h.entry, capacity * sizeof(Holding))
    large_pages(h.bucket, h.buckets * sizeof(int))
    for at in range(h.buckets):
        h.bucket[at] = -1
    for k in range(h.capacity):             # all entries are in use when the table grows
        at = holdings_bucket(h, h.entry[k].node, h.entry[k].application)
        h.entry[k].next_in_bucket = h.bucket[at]
        h.bucket[at] = k
    for k in range(capacity - 1, h.capacity - 1, -1):
        h.entry[k].next_in_bucket = h.unused
        h.unused = k
    h.capacity = capacity
    return 0


cdef inline void holdings_prefetch(const Holdings* h, long long node, long long application) noexcept nogil:
    """Prefetch the bucket of an entry."""
    prefetch(&h.bucket[holdings_bucket(h, node, application)])


cdef inline void holdings_prefetch_entry(const Holdings* h, long long node, long long application) noexcept nogil:
    """Prefetch the first entry of a bucket, which should be in the cache."""
    cdef int k = h.bucket[holdings_bucket(h, node, application)]
    if k >= 0:
        prefetch(&h.entry[k])


cdef inline Holding* holdings_find(const Holdings* h, long long node, long long application) noexcept nogil:
    """Return the entry of a node for an application; NULL if the node does not know it."""
    cdef int k
    if application != <int> application:
        return NULL
    k = h.bucket[holdings_bucket(h, node, application)]
    while k >= 0:
        if h.entry[k].node == node and h.entry[k].application == application:
            return &h.entry[k]
        k = h.entry[k].next_in_bucket
    return NULL


cdef inline Holding* holdings_add(Holdings* h, long long node, long long application) except NULL:
    """Return the entry of a node for an application; add it if there is none."""
    cdef Holding* entry = holdings_find(h, node, application)
    cdef Py_ssize_t at
    cdef int k
    if entry != NULL:
        return entry
    if h.unused < 0:
        holdings_grow(h)
    k = h.unused
    entry = &h.entry[k]
    h.unused = entry.next_in_bucket
    at = holdings_bucket(h, node, application)
    entry.tasks, entry.node, entry.application = 0, <int> node, <int> application
    entry.next_in_bucket, entry.next_of_node = h.bucket[at], h.first[node]
    h.bucket[at] = h.first[node] = k
    h.n += 1
    return entry


cdef inline int holdings_give(Holdings* h, long long node, long long application, long long tasks) except -1:
    """Make an application known to a node, and add tasks of it that the node must place."""
    holdings_add(h, node, application).tasks += tasks
    return 0


cdef inline void holdings_forget(Holdings* h, long long node) noexcept nogil:
    """Remove all entries of a node."""
    cdef int k = h.first[node], next_entry
    cdef int* link
    while k >= 0:
        next_entry = h.entry[k].next_of_node
        link = &h.bucket[holdings_bucket(h, node, h.entry[k].application)]
        while link[0] != k:
            link = &h.entry[link[0]].next_in_bucket
        link[0] = h.entry[k].next_in_bucket
        h.entry[k].next_in_bucket = h.unused
        h.unused = k
        h.n -= 1
        k = next_entry
    h.first[node] = -1
