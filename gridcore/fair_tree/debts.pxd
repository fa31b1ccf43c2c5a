"""Lists of dispatches that the summaries of the children do not include yet: for `summary_tree`.

Source: the conservative update of Celaya & Marchal, with corrections: dispatches are numbered, a summary
echoes the last number that its sender had received, and the later dispatches are debited from it.
"""

from libc.math cimport INFINITY, fmax
from libc.stdlib cimport free

from gridcore.queues.availability cimport Grid, samples_below
from gridcore.common.memory cimport reallocate, large_pages, prefetch
from gridcore.fair_tree.summaries cimport quotient_up

cdef struct Debt:                       # one dispatch
    long long sequence, tasks
    double task_size, size, stretch, release
    int next


cdef struct Debts:                      # lists of debts, the latest first; each child has the index of its first debt
    Debt* debt
    Py_ssize_t capacity
    int unused


cdef inline void debts_make(Debts* l) noexcept nogil:
    l.unused = -1


cdef inline void debts_free(Debts* l) noexcept nogil:
    free(l.debt)


cdef inline int debts_add(Debts* l, int* first, const Debt* dispatch) except -1:
    """Add `dispatch` to the list that starts at `first`."""
    cdef Py_ssize_t capacity, k
    cdef int entry
    if l.unused < 0:
        capacity = l.capacity + l.capacity // 2 + 256
        if capacity > 2**30:
            raise MemoryError(f"more than {2**30} dispatches are missing from summaries")
        l.debt = <Debt*> reallocate(l.debt, capacity * sizeof(Debt))
        large_pages(l.debt, capacity * sizeof(Debt))
        for k in range(l.capacity, capacity):
            l.debt[k].next = <int> (k + 1) if k + 1 < capacity else -1
        l.unused, l.capacity = <int> l.capacity, capacity
    entry = l.unused
    l.unused = l.debt[entry].next
    if l.unused >= 0:
        prefetch(&l.debt[l.unused])
    l.debt[entry] = dispatch[0]
    l.debt[entry].next = first[0]
    first[0] = entry
    return 0


cdef inline void debts_settle(Debts* l, int* first, long long echo) noexcept nogil:
    """Remove the dispatches up to number `echo`, which the child's summary includes."""
    cdef int entry = first[0], previous = -1, following
    while entry >= 0:
        following = l.debt[entry].next
        if l.debt[entry].sequence <= echo:
            if previous < 0:
                first[0] = following
            else:
                l.debt[previous].next = following
            l.debt[entry].next = l.unused
            l.unused = entry
        else:
            previous = entry
        entry = following


cdef inline void debts_limit(double size, double age, const double* stretch, Py_ssize_t n, double* limits) noexcept nogil:
    """Set limits[i] to min(limits[i], size - age / stretch[i]) for the first n; compilers vectorize this loop."""
    cdef Py_ssize_t i
    cdef double limit
    for i in range(n):
        limit = size - age / stretch[i]
        limits[i] = limit if limit < limits[i] else limits[i]


cdef inline void debts_drops(const Debts* l, int first, long long leaves, double sample_time, const Grid* g,
                             unsigned int* drops, double* limits) noexcept nogil:
    """Compute the debit of a summary of `leaves` leaves, sampled for `sample_time` s, by the debts from `first` on.

    drops : per task size, the tasks that each cell loses.
    limits : per stretch, the size (Mflop) above which cells become 0.
    """
    cdef Py_ssize_t i, k
    cdef long long total = 0
    cdef double volume = 0.0, by_tasks, by_volume, a
    cdef int e = first
    for i in range(g.n_stretch):
        limits[i] = INFINITY
    while e >= 0:
        total += l.debt[e].tasks
        volume += l.debt[e].tasks * l.debt[e].task_size
        # clear cells with later deadlines than the debt, which may be older than the summary
        debts_limit(l.debt[e].size, fmax(0.0, sample_time - l.debt[e].release), g.stretch,
                     samples_below(g, l.debt[e].stretch), limits)
        e = l.debt[e].next
    for k in range(g.n_task_size):
        a = g.task_size[k]
        by_tasks = 0.0
        e = first
        while e >= 0:
            by_tasks += l.debt[e].tasks * quotient_up(l.debt[e].task_size, a)
            e = l.debt[e].next
        by_volume = quotient_up(volume, a) + min(total, leaves) - 1
        drops[k] = <unsigned int> <long long> min(4294967295.0, min(by_tasks, by_volume))
