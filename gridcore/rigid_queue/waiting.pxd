"""A queue of waiting rigid jobs in order of their numbers, for `gridcore.rigid_queue.batch_queue`.

A job that is cut off returns to its old place at once, and when a job starts, nothing has to be moved up.  Thousands
of jobs may wait.  Most of them can be skipped in blocks: each block of jobs, and each block of blocks, has the least
number of nodes and the least estimate of its jobs.
"""

from libc.stdlib cimport free

from gridcore.common.memory cimport reallocate

cdef enum:
    # log2 of the jobs per block, and per block of blocks
    BLOCK = 6
    LARGE = 12
    # the number of nodes of a job that does not wait
    NOBODY = 2147483647


cdef struct Least:                      # the minima over the waiting jobs of a block
    long long estimate
    int nodes


cdef struct Waiting:
    Py_ssize_t jobs
    int* nodes                          # by job
    long long* estimate
    Least* block
    Least* large
    Py_ssize_t head, tail               # all waiting jobs are from `head` to `tail` - 1


cdef inline Least least_of_none() noexcept nogil:
    cdef Least least
    least.nodes, least.estimate = NOBODY, 9223372036854775807
    return least


cdef inline void least_with(Least* least, int nodes, long long estimate) noexcept nogil:
    least.nodes, least.estimate = min(least.nodes, nodes), min(least.estimate, estimate)


cdef inline int waiting_make(Waiting* w, Py_ssize_t jobs) except -1:
    w.jobs = jobs
    w.nodes = <int*> reallocate(NULL, (jobs + 1) * sizeof(int))
    w.estimate = <long long*> reallocate(NULL, (jobs + 1) * sizeof(long long))
    w.block = <Least*> reallocate(NULL, ((jobs >> BLOCK) + 1) * sizeof(Least))
    w.large = <Least*> reallocate(NULL, ((jobs >> LARGE) + 1) * sizeof(Least))
    waiting_clear(w)
    return 0


cdef inline void waiting_free(Waiting* w) noexcept nogil:
    free(w.nodes)
    free(w.estimate)
    free(w.block)
    free(w.large)


cdef inline void waiting_clear(Waiting* w) noexcept nogil:
    """Empty the queue."""
    cdef Least none = least_of_none()
    cdef Py_ssize_t k
    for k in range(w.jobs):
        w.nodes[k], w.estimate[k] = none.nodes, none.estimate
    for k in range((w.jobs >> BLOCK) + 1):
        w.block[k] = none
    for k in range((w.jobs >> LARGE) + 1):
        w.large[k] = none
    w.head = w.tail = 0


cdef inline void waiting_join(Waiting* w, Py_ssize_t job, int nodes, long long estimate) noexcept nogil:
    """Add the job to the queue, at the place of its number."""
    w.nodes[job], w.estimate[job] = nodes, estimate
    least_with(&w.block[job >> BLOCK], nodes, estimate)
    least_with(&w.large[job >> LARGE], nodes, estimate)
    if w.head == w.tail or job < w.head:
        w.head = job
    if job >= w.tail:
        w.tail = job + 1


cdef inline void waiting_leave(Waiting* w, Py_ssize_t job) noexcept nogil:
    """Remove the job from the queue."""
    cdef Least* block = &w.block[job >> BLOCK]
    cdef Least* large = &w.large[job >> LARGE]
    cdef Least rest = least_of_none(), previous
    cdef int nodes = w.nodes[job]
    cdef long long estimate = w.estimate[job]
    cdef Py_ssize_t k, first
    w.nodes[job], w.estimate[job] = rest.nodes, rest.estimate
    if nodes > block.nodes and estimate > block.estimate:
        return
    first = (job >> BLOCK) << BLOCK
    for k in range(first, min(first + (1 << BLOCK), w.jobs)):
        least_with(&rest, w.nodes[k], w.estimate[k])
    previous = block[0]
    block[0] = rest
    if previous.nodes > large.nodes and previous.estimate > large.estimate:
        return
    rest = least_of_none()
    first = (job >> LARGE) << (LARGE - BLOCK)
    for k in range(first, min(first + (1 << (LARGE - BLOCK)), (w.jobs >> BLOCK) + 1)):
        least_with(&rest, w.block[k].nodes, w.block[k].estimate)
    large[0] = rest


cdef inline void waiting_find_head(Waiting* w) noexcept nogil:
    """Make `head` the first job that waits, or the tail."""
    cdef Py_ssize_t j = w.head
    while j < w.tail and w.nodes[j] == NOBODY:
        if w.large[j >> LARGE].nodes == NOBODY:
            j = ((j >> LARGE) + 1) << LARGE
        elif w.block[j >> BLOCK].nodes == NOBODY:
            j = ((j >> BLOCK) + 1) << BLOCK
        else:
            j += 1
    w.head = min(j, w.tail)


cdef inline bint least_fits(const Least* least, long long idle, long long extra, long long slack) noexcept nogil:
    return least.nodes <= idle and (least.nodes <= extra or least.estimate <= slack)


cdef inline Py_ssize_t waiting_next(const Waiting* w, Py_ssize_t j, long long idle, long long extra,
                                    long long slack) noexcept nogil:
    """Return the first job from j on that may start; the tail if there is none.

    The job must request at most `idle` nodes, and moreover at most `extra` nodes or an estimated run time of at most
    `slack` ns.
    """
    cdef Py_ssize_t end
    while j < w.tail:
        if not least_fits(&w.large[j >> LARGE], idle, extra, slack):
            j = ((j >> LARGE) + 1) << LARGE
            continue
        end = ((j >> BLOCK) + 1) << BLOCK
        if not least_fits(&w.block[j >> BLOCK], idle, extra, slack):
            j = end
            continue
        end = min(end, w.tail)
        while j < end:
            if w.nodes[j] <= idle and (w.estimate[j] <= slack or w.nodes[j] <= extra):
                return j
            j += 1
    return w.tail
