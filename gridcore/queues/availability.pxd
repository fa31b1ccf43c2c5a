"""C-level contract of the availability kernel."""

from gridcore.queues.edf cimport Queue

cdef struct Grid:
    Py_ssize_t n_stretch, n_size, n_task_size
    const double* stretch
    const double* size
    const double* task_size

cdef inline Py_ssize_t scratch_size(Py_ssize_t n) noexcept nogil:
    """Return the number of doubles of scratch memory that the kernels need for a queue of n entries."""
    return 7 * n + 1 + (n + 63) // 64

cdef inline Py_ssize_t samples_below(const Grid* g, double stretch) noexcept nogil:
    """Return the number of stretch samples, which increase, below `stretch`."""
    cdef Py_ssize_t low = 0, high = g.n_stretch, middle
    while low < high:
        middle = (low + high) // 2
        if g.stretch[middle] < stretch:
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t sample_queue(const Queue* q, int* order, const Grid* grid, double release_new, double least,
                             unsigned int* out, double* scratch) noexcept nogil
    # Returns the number of cells of the smallest stretches, at which the queue misses a deadline: they are 0.
    # order[n]: at entry any permutation, at exit some permutation. least: the minimum stretch of the queue. Both only
    # say where to start, and the order at `least` is the fastest.
    # scratch: scratch_size(n) doubles. out: contiguous nS*nW*nA.
cdef double queue_gap(const Queue* q, int* order, double stretch, double release_new, double size_new,
                      double* scratch) noexcept nogil
    # order[n]: at entry any permutation, at exit the EDF order at `stretch` (unchanged if below the floor).
    # scratch: >= 2*n doubles.
cdef object check_grid(object grid)
