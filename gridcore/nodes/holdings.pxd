"""Which applications each node knows, and how many tasks of each it must place: for `gridcore.nodes.node_actions`.

A hash table of (node, application) with chains; the entries of a node are linked, too.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport grown

cdef struct Holding:
    long long tasks                     # that the node must place
    int node, application
    int chained                         # the next entry of the same bucket, or of the unused; -1 for none
    int following                       # the next entry of the node


cdef struct Holdings:                   # made by `holdings_make`
    Holding* entry
    int n, room, unused                 # entries in use and made, and the first unused one
    int* bucket
    Py_ssize_t buckets                  # a power of 2, at least `room`
    int* first                          # per node


cdef inline Py_ssize_t holdings_bucket(const Holdings* h, long long node, long long application) noexcept nogil:
    cdef unsigned long long x = <unsigned long long> (node << 32 | application) * <unsigned long long> 0x9E3779B97F4A7C15
    return <Py_ssize_t> (x >> 32) & (h.buckets - 1)


cdef inline int holdings_make(Holdings* h, Py_ssize_t nodes) except -1:
    """Make `h`, whatever it was, hold nothing."""
    cdef Py_ssize_t k
    memset(h, 0, sizeof(Holdings))
    h.unused = -1
    h.first = <int*> grown(NULL, max(1, nodes) * sizeof(int))
    for k in range(nodes):
        h.first[k] = -1
    return holdings_grow(h)


cdef inline void holdings_free(Holdings* h) noexcept nogil:
    free(h.entry)
    free(h.bucket)
    free(h.first)


cdef inline int holdings_grow(Holdings* h) except -1:
    """Make room for twice as many entries."""
    cdef int more = 2 * h.room + 64, k
    cdef Py_ssize_t at
    if more > 2**30:
        raise MemoryError(f"more than {2**30} applications known to nodes")
    h.entry = <Holding*> grown(h.entry, more * sizeof(Holding))
    at = 64
    while at < more:
        at *= 2
    h.bucket = <int*> grown(h.bucket, at * sizeof(int))
    h.buckets = at
    for at in range(h.buckets):
        h.bucket[at] = -1
    for k in range(h.room):             # all are in use, or the table would not grow
        at = holdings_bucket(h, h.entry[k].node, h.entry[k].application)
        h.entry[k].chained = h.bucket[at]
        h.bucket[at] = k
    for k in range(more - 1, h.room - 1, -1):
        h.entry[k].chained = h.unused
        h.unused = k
    h.room = more
    return 0


cdef inline Holding* holdings_find(const Holdings* h, long long node, long long application) noexcept nogil:
    """The entry of the node for the application; NULL if it does not know it."""
    cdef int k
    if application != <int> application:
        return NULL
    k = h.bucket[holdings_bucket(h, node, application)]
    while k >= 0:
        if h.entry[k].node == node and h.entry[k].application == application:
            return &h.entry[k]
        k = h.entry[k].chained
    return NULL


cdef inline Holding* holdings_add(Holdings* h, long long node, long long application) except NULL:
    """The entry of the node for the application, made if there is none."""
    cdef Holding* found = holdings_find(h, node, application)
    cdef Py_ssize_t at
    cdef int k
    if found != NULL:
        return found
    if h.unused < 0:
        holdings_grow(h)
    k = h.unused
    found = &h.entry[k]
    h.unused = found.chained
    at = holdings_bucket(h, node, application)
    found.tasks, found.node, found.application = 0, <int> node, <int> application
    found.chained, found.following = h.bucket[at], h.first[node]
    h.bucket[at] = h.first[node] = k
    h.n += 1
    return found


cdef inline int holdings_give(Holdings* h, long long node, long long application, long long tasks) except -1:
    """Make the application known to the node, and give it tasks that it must place."""
    holdings_add(h, node, application).tasks += tasks
    return 0


cdef inline void holdings_forget(Holdings* h, long long node) noexcept nogil:
    """Remove all entries of a node."""
    cdef int k = h.first[node], after
    cdef int* link
    while k >= 0:
        after = h.entry[k].following
        link = &h.bucket[holdings_bucket(h, node, h.entry[k].application)]
        while link[0] != k:
            link = &h.entry[link[0]].chained
        link[0] = h.entry[k].chained
        h.entry[k].chained = h.unused
        h.unused = k
        h.n -= 1
        k = after
    h.first[node] = -1
