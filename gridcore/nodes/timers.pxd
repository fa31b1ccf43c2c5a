"""The timers of all nodes: for the message core.

Timers that are due at one instant fire in the order of (node, name, setting).  A cancelled timer stays in
the heap until its instant, or until at least half of the timers in the heap are cancelled.

The fields of a timer are int64 words beside it; a float field is its bits.

A timer is set once, however often a node sets it.  Nodes search the list of their timers; once one has many, a hash
table finds them.
"""

from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from gridcore.common.memory cimport reallocate
from gridcore.common.heap cimport Event
from gridcore.common.pending cimport Pending, pending_first, pending_free, pending_pop, pending_push

cdef enum:
    MANY = 32                           # more timers of a node are found by the hash table


cdef struct Timer:
    long long time, number              # `number` grows in the order of setting
    double value
    int node, name                      # the name of a cancelled timer is -1
    int next, previous                  # of the node; `next` of an unused slot is the next unused slot; -1: none
    unsigned int hash                   # of what makes timers equal; 0: never searched for
    int next_in_bucket                  # the next timer in the bucket of the hash table; -1: none


cdef struct Timers:                     # initialised by `timers_make`
    Timer* timer
    long long* field                    # [room, words], the fields of timers
    Py_ssize_t capacity, words
    int unused
    int* first                          # per node, its pending timers
    int* bucket                         # the hash table
    Py_ssize_t buckets                  # a power of 2, at least `capacity`; 0: there is no table
    Py_ssize_t nodes, pending, cancelled
    long long number
    Pending heap


cdef inline int timers_make(Timers* t, Py_ssize_t nodes, Py_ssize_t words) except -1:
    """Initialise `t` without timers, with room for `words` fields of each; memory that it had is not freed."""
    cdef Py_ssize_t k
    memset(t, 0, sizeof(Timers))
    t.unused, t.words = -1, words
    t.first = <int*> reallocate(NULL, nodes * sizeof(int))
    t.nodes = nodes
    for k in range(nodes):
        t.first[k] = -1
    return 0


cdef inline void timers_free(Timers* t) noexcept nogil:
    free(t.timer)
    free(t.field)
    free(t.first)
    free(t.bucket)
    pending_free(&t.heap)


cdef inline void timers_enter(Timers* t, int slot) noexcept nogil:
    """Put a timer with a hash into the hash table, if there is one."""
    cdef int* bucket = &t.bucket[t.timer[slot].hash & (t.buckets - 1)] if t.buckets else NULL
    if bucket != NULL:
        t.timer[slot].next_in_bucket = bucket[0]
        bucket[0] = slot


cdef inline int timers_index(Timers* t) except -1:
    """Make the hash table of all pending timers, with a bucket for each slot."""
    cdef Py_ssize_t k, buckets = 64
    cdef int slot
    while buckets < t.capacity:
        buckets *= 2
    t.bucket = <int*> reallocate(t.bucket, buckets * sizeof(int))
    t.buckets = buckets
    for k in range(buckets):
        t.bucket[k] = -1
    for k in range(t.nodes):
        slot = t.first[k]
        while slot >= 0:
            if t.timer[slot].hash:
                timers_enter(t, slot)
            slot = t.timer[slot].next
    return 0


cdef inline int timers_slot(Timers* t) except -1:
    cdef Py_ssize_t k, capacity
    cdef int slot
    if t.unused < 0:
        capacity = 2 * t.capacity + 64
        if capacity > 2147483647:
            raise MemoryError(f"more than {2**31 - 1} timers are pending")
        t.timer = <Timer*> reallocate(t.timer, capacity * sizeof(Timer))
        if t.words:
            t.field = <long long*> reallocate(t.field, capacity * t.words * sizeof(long long))
        for k in range(capacity - 1, t.capacity - 1, -1):
            t.timer[k].next = t.unused
            t.unused = <int> k
        t.capacity = capacity
        if t.buckets:
            timers_index(t)
    slot = t.unused
    t.unused = t.timer[slot].next
    return slot


cdef inline void timers_release(Timers* t, int slot) noexcept nogil:
    t.timer[slot].next = t.unused
    t.unused = slot


cdef inline long long* timers_fields(Timers* t, int slot) noexcept nogil:
    """Return the fields of a timer, which stay there until another timer is set."""
    return t.field + slot * t.words


cdef inline int timers_add(Timers* t, long long time, int node, int name, double value) except -1:
    """Set a timer, and return its slot, in which the caller fills in the fields."""
    cdef int slot = timers_slot(t), first = t.first[node]
    cdef Timer* timer = &t.timer[slot]
    pending_push(&t.heap, time, t.number, slot)
    timer.time, timer.number, timer.value = time, t.number, value
    timer.node, timer.name = node, name
    timer.next, timer.previous = first, -1
    timer.hash = 0
    if first >= 0:
        t.timer[first].previous = slot
    t.first[node] = slot
    t.number += 1
    t.pending += 1
    return slot


cdef inline bint same_fields(const long long* a, const long long* b, const char* codes, int n,
                             long long among) noexcept nogil:
    """Return whether the fields selected by the bits `among` of the first `n` are equal; the code of a float is 1."""
    cdef int k
    for k in range(n):
        if among >> k & 1 and a[k] != b[k] and not (codes[k] == 1 and (<const double*> a)[k] == (<const double*> b)[k]):
            return False
    return True


cdef inline unsigned int timer_hash(long long time, int node, int name, double value, const long long* fields,
                                    const char* codes, int n) noexcept nogil:
    """Return a hash of a timer with `n` fields, not 0: equal timers have equal ones."""
    cdef unsigned long long x = <unsigned long long> time ^ <unsigned long long> name << 56, word
    cdef double number = value + 0.0    # of the zeros, which are equal, +0
    cdef int k
    memcpy(&word, &number, sizeof(double))
    x = (x ^ x >> 32) * <unsigned long long> 0x9E3779B97F4A7C15 + <unsigned long long> node
    x = (x ^ x >> 32) * <unsigned long long> 0x9E3779B97F4A7C15 + word
    for k in range(n):
        word = <unsigned long long> fields[k]
        if codes[k] == 1:
            number = (<const double*> fields)[k] + 0.0
            memcpy(&word, &number, sizeof(double))
        x = (x ^ x >> 32) * <unsigned long long> 0x9E3779B97F4A7C15 + word
    x = (x ^ x >> 32) * <unsigned long long> 0x9E3779B97F4A7C15
    return <unsigned int> (x >> 32) | <unsigned int> 0x80000000


cdef inline int timers_identify(Timers* t, int slot, const char* codes, int n) except -1:
    """Let a timer, whose `n` fields are filled in, be found by timers that are equal to it."""
    cdef Timer* timer = &t.timer[slot]
    timer.hash = timer_hash(timer.time, timer.node, timer.name, timer.value, timers_fields(t, slot), codes, n)
    timers_enter(t, slot)
    return 0


cdef inline int timers_set_fields(Timers* t, long long time, int node, int name, const long long* fields,
                                  const char* codes, int n, double value=0.0) except -1:
    """Set a timer with `n` fields, unless the node has the same one (name, instant, value and fields) already."""
    cdef unsigned int hash = timer_hash(time, node, name, value, fields, codes, n)
    cdef bint is_indexed = t.buckets > 0
    cdef int slot = t.bucket[hash & (t.buckets - 1)] if is_indexed else t.first[node], n_searched = 0
    cdef Timer* timer
    while slot >= 0:
        timer = &t.timer[slot]
        if (timer.hash == hash and timer.time == time and timer.node == node and timer.name == name
                and timer.value == value and same_fields(timers_fields(t, slot), fields, codes, n, -1)):
            return 0
        slot = timer.next_in_bucket if is_indexed else timer.next
        n_searched += 1
    if n_searched > MANY and not is_indexed:
        timers_index(t)
    slot = timers_add(t, time, node, name, value)
    if n:
        memcpy(timers_fields(t, slot), fields, n * sizeof(long long))
    t.timer[slot].hash = hash
    timers_enter(t, slot)
    return 0


cdef inline int timers_set(Timers* t, long long time, int node, int name, double value) except -1:
    """Set a timer without fields, unless the node has the same one (name, instant and value) already."""
    return timers_set_fields(t, time, node, name, NULL, NULL, 0, value)


cdef inline void timers_unlink(Timers* t, int slot) noexcept nogil:
    """Take a timer out of the list of its node, and out of the hash table."""
    cdef const Timer* timer = &t.timer[slot]
    cdef int* link
    if t.buckets and timer.hash:
        link = &t.bucket[timer.hash & (t.buckets - 1)]
        while link[0] != slot:
            link = &t.timer[link[0]].next_in_bucket
        link[0] = timer.next_in_bucket
    if timer.previous < 0:
        t.first[timer.node] = timer.next
    else:
        t.timer[timer.previous].next = timer.next
    if timer.next >= 0:
        t.timer[timer.next].previous = timer.previous
    t.pending -= 1


cdef inline void timers_drop(Timers* t, int slot) noexcept nogil:
    """Cancel a timer; `timers_sweep` must follow."""
    timers_unlink(t, slot)
    t.timer[slot].name = -1
    t.cancelled += 1


cdef inline int timers_sweep(Timers* t) except -1:
    """Remove cancelled timers from the heap if they are more than half of it."""
    cdef Pending pending
    cdef Event e
    if t.cancelled < 64 or t.cancelled < t.pending:
        return 0
    memset(&pending, 0, sizeof(Pending))
    while pending_first(&t.heap) != NULL:
        e = pending_pop(&t.heap)
        if t.timer[e.slot].name < 0:
            timers_release(t, e.slot)
        else:
            pending_push(&pending, e.time, e.sequence, e.slot)
    pending_free(&t.heap)
    t.heap = pending
    t.cancelled = 0
    return 0


cdef inline int timers_cancel(Timers* t, int node, int name) except -1:
    """Cancel the timers `name` of `node`; with name -1 all of them."""
    cdef int slot = t.first[node], next_slot
    while slot >= 0:
        next_slot = t.timer[slot].next
        if name < 0 or t.timer[slot].name == name:
            timers_drop(t, slot)
        slot = next_slot
    return timers_sweep(t)


cdef inline int timers_cancel_fields(Timers* t, int node, int name, const long long* fields, const char* codes, int n,
                                     long long among) except -1:
    """Cancel the timers `name` of `node` whose fields in `among`, a set of bits, are equal to `fields`."""
    cdef int slot = t.first[node], next_slot
    while slot >= 0:
        next_slot = t.timer[slot].next
        if t.timer[slot].name == name and same_fields(timers_fields(t, slot), fields, codes, n, among):
            timers_drop(t, slot)
        slot = next_slot
    return timers_sweep(t)


cdef inline long long timers_first(Timers* t) noexcept nogil:
    """Return when the next timer fires, ns; the greatest int64 if there is none."""
    cdef const Event* e
    cdef int slot
    while True:
        e = pending_first(&t.heap)
        if e == NULL:
            return 9223372036854775807
        if t.timer[e.slot].name >= 0:
            return e.time
        slot = e.slot
        pending_pop(&t.heap)
        t.cancelled -= 1
        timers_release(t, slot)
