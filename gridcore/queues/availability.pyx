"""The work that a queue can still take: the gap h, the task count n, and n sampled on a grid.

h(S, w) is the work (Mflop) of a new application with deadline d = r + S*w that one queue can take while
all its deadlines at stretch S are still met. With b the instant at which the processor can start the queue and
P(t) the work due by t,

    h = min( (d - b)*speed - P(d),  min over entries with d_i >= d of (d_i - b)*speed - P(d_i) ),

clamped at 0, and 0 when the queue itself misses a deadline at S. n = floor(h / a) whole tasks of a Mflop.
Both grow with S and w, n falls with a; neither is monotone in the release time.

A summary is n sampled on a grid (stretch, size, task size). It is uint32 and saturates, so it can only
understate n. Operations on summaries are in `gridcore.fair_tree.summaries`. The reference implementation in
plain Python, equal operation by operation, is `tests.reference.availability`.
"""

cimport cython

from libc.math cimport INFINITY, floor, isfinite, isnan
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from gridcore.common.arguments cimport (
    FINITE, NOT_NEGATIVE, POSITIVE, check_array, check_lengths, check_offsets, check_scalar, doubles, integers,
)
from gridcore.common.bits cimport count_bits, lowest_bit
from gridcore.common.cells cimport detect, divide
from gridcore.common.deadlines cimport UNSORTED, deadlines_at, find_inversions, minimum_from
from gridcore.queues.edf cimport (
    Queue, check_running, is_after, is_late, is_met, minimum_stretch, running_floor, sort_by_deadline, spans_float64,
)

from gridcore.queues.edf import _SPAN
from gridcore.queues.summary_grid import SummaryGrid

__all__ = ["available_tasks", "gap", "sample_availability", "sample_availability_batch"]

detect(1)


def _vector_level(int limit) -> int:
    """Limit the instruction set (0 baseline, 1 AVX2) and return the one in use, for tests."""
    return detect(limit)


cdef double TOLERANCE = 1e-12

cdef enum:
    GAPS = 64                          # gaps that are divided at once
    SHORT = 24                         # entries of a queue that is searched from the front, and sorted as a whole


# --- one queue ------------------------------------------------------------------------------------

cdef struct Profile:               # the entries of a queue in EDF order; scratch memory of `sample_queue`
    double* deadline
    double* release
    double* size
    double* end                    # when the entry is completed, s; -inf if it has no work, so it is never late
    double* done                   # Mflop up to and with the entry; -inf if it has no work, so it has no slack to lose
    double* work_before            # work before the entry, Mflop; n + 1 values
    double* slack
    uint64_t* inversions           # scratch memory of `sort_few`, a bit for each entry


cdef inline double fill_entry(const Queue* q, int i, double work_before, Py_ssize_t k,
                              const Profile* p) noexcept nogil:
    """Make entry `i` of the queue entry `k` of a profile, after `work_before` Mflop; return the work with it.

    Its deadline, slack and end are not filled in.
    """
    cdef double done = work_before + q.work[i]
    p.release[k] = q.release[i]
    p.size[k] = q.size[i]
    p.work_before[k] = work_before
    p.done[k] = done if q.work[i] > 0.0 else -INFINITY
    return done


cdef inline void fill_ends(const Queue* q, double start, const Profile* p) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(q.n):
        p.end[k] = start + p.done[k] / q.speed


cdef inline void fill_profile(const Queue* q, const int* order, const Profile* p) noexcept nogil:
    """Fill in the fields of a profile that depend only on the order, but not the ends."""
    cdef Py_ssize_t k
    cdef double done = 0.0
    for k in range(q.n):
        done = fill_entry(q, order[k], done, k, p)
    p.work_before[q.n] = done


cdef inline Py_ssize_t insert_entry(double* deadline, int* order, Py_ssize_t i) noexcept nogil:
    """Move entry `i`, before which all are sorted, to its place, and return that."""
    cdef double key = deadline[i]
    cdef int index = order[i]
    while i > 0 and is_after(deadline[i - 1], order[i - 1], key, index):
        deadline[i], order[i] = deadline[i - 1], order[i - 1]
        i -= 1
    deadline[i], order[i] = key, index
    return i


cdef bint sort_few(const Queue* q, double start, int* order, const Profile* p) noexcept nogil:
    """Sort a profile by its deadlines if few entries move, and return whether it is sorted.

    Entries that stay where they are, after as much work as before, are left alone.
    """
    cdef Py_ssize_t n = q.n, i = 0, k, first, word, inverted = 0, moves = 0
    cdef double done
    cdef uint64_t bits
    if n <= SHORT:
        return False
    find_inversions(p.deadline, n, p.inversions)
    for word in range(0, n, 64):
        inverted += count_bits(p.inversions[word // 64])
    if 4 * inverted > n:
        return False
    for word in range(0, n, 64):
        bits = p.inversions[word // 64]
        while bits != 0:
            k = word + lowest_bit(bits)
            bits &= bits - 1
            if k <= i:                     # it has been sorted
                continue
            i = k
            done = p.work_before[i]
            while i < n:
                first = insert_entry(p.deadline, order, i)
                if first < i:
                    done = p.work_before[first]
                    moves += i - first
                elif p.work_before[i] == done:
                    break
                for k in range(first, i + 1):
                    done = fill_entry(q, order[k], done, k, p)
                    p.slack[k] = (p.deadline[k] - start) * q.speed - p.done[k]
                i += 1
            else:
                p.work_before[n] = done
            if moves > 4 * n:
                return False
    return True


cdef void sort_profile(const Queue* q, double stretch, double start, int* order, const Profile* p) noexcept nogil:
    """Sort a profile by its deadlines at `stretch`; its ends stay as they were."""
    if sort_few(q, start, order, p):
        return
    sort_by_deadline(p.deadline, order, q.n, p.slack)
    fill_profile(q, order, p)
    deadlines_at(p.release, p.size, p.end, p.done, stretch, start, q.speed, q.n, p.deadline, p.slack)


cdef bint is_feasible_at(const Queue* q, double stretch, double start, int* order, const Profile* p) noexcept nogil:
    """Return whether the queue and the running task meet their deadlines at `stretch`, which becomes the profile's.

    The profile, with its ends, must match `order`, which seldom changes much from one stretch to the next.
    """
    cdef int flags
    if stretch + stretch * TOLERANCE < q.floor:
        return False
    flags = deadlines_at(p.release, p.size, p.end, p.done, stretch, start, q.speed, q.n, p.deadline, p.slack)
    if flags & UNSORTED:
        sort_profile(q, stretch, start, order, p)
        fill_ends(q, start, p)
    return not flags or is_met(p.end, p.deadline, q.n)


cdef inline Py_ssize_t entries_due(const double* deadlines, Py_ssize_t n, double latest, Py_ssize_t k) noexcept nogil:
    """Return how many of the sorted deadlines are at most `latest`; `k` is a guess."""
    while k < n and deadlines[k] <= latest:
        k += 1
    while k > 0 and deadlines[k - 1] > latest:
        k -= 1
    return k


cdef inline Py_ssize_t find_gaps(const Profile* p, Py_ssize_t n, Py_ssize_t k, const double* size, Py_ssize_t n_size,
                                 double stretch, double release_new, double start, double speed,
                                 double* gaps) noexcept nogil:
    """Write the gap of each size, which increase; gaps may be below 0.

    At least `k` of the `n` entries are due by the deadline of the first size. Return how many are by that of the
    last.
    """
    cdef Py_ssize_t j = 0
    cdef double deadline, due_at, work_before, capacity, gap
    while k < n:
        due_at, work_before, capacity = p.deadline[k], p.work_before[k], p.slack[k]
        while j < n_size:
            deadline = release_new + stretch * size[j]
            if due_at <= deadline:
                break
            gap = (deadline - start) * speed - work_before
            gaps[j] = capacity if capacity < gap else gap
            j += 1
        else:
            return k
        k += 1
        while k < n and p.deadline[k] <= deadline:
            k += 1
    work_before = p.work_before[n]
    for j in range(j, n_size):
        gaps[j] = (release_new + stretch * size[j] - start) * speed - work_before
    return n


cdef inline void divide_gaps(double* gaps, Py_ssize_t n, const Grid* grid, unsigned int* out) noexcept nogil:
    """Write the tasks of each size that fit into each of `n` gaps; gaps below 0 become 0."""
    cdef Py_ssize_t k
    for k in range(n):
        gaps[k] = gaps[k] if gaps[k] > 0.0 else 0.0
    for k in range(grid.n_task_size):
        divide(gaps, grid.task_size[k], out + k, grid.n_task_size, n)


cdef Py_ssize_t sample_queue(const Queue* q, int* order, const Grid* grid, double release_new, double least,
                             unsigned int* out, double* scratch) noexcept nogil:
    cdef Py_ssize_t n = q.n, row = grid.n_size * grid.n_task_size, first, last, i, j, k
    cdef Py_ssize_t due = 0            # number of entries due by the deadline of the least size
    cdef double start = q.free_at if q.free_at > release_new else release_new
    cdef double stretch
    cdef unsigned int* cell
    cdef double[GAPS] gaps
    cdef Py_ssize_t n_gaps = 0
    cdef Profile p
    p.deadline, p.release, p.size, p.end = scratch, scratch + n, scratch + 2 * n, scratch + 3 * n
    p.done, p.work_before, p.slack = scratch + 4 * n, scratch + 5 * n, scratch + 6 * n + 1
    p.inversions = <uint64_t*> (scratch + 7 * n + 1)
    fill_profile(q, order, &p)
    fill_ends(q, start, &p)
    # deadlines are met from some stretch on, which is searched from `least` on
    first = samples_below(grid, least)
    while first > 0 and is_feasible_at(q, grid.stretch[first - 1], start, order, &p):
        first -= 1
    while first < grid.n_stretch and not is_feasible_at(q, grid.stretch[first], start, order, &p):
        first += 1
    memset(out, 0, first * row * sizeof(unsigned int))
    cell = out + first * row
    for i in range(first, grid.n_stretch):
        stretch = grid.stretch[i]
        # the profile is that of the first stretch, and no larger one misses a deadline, so that ends do not matter
        if i > first and UNSORTED & deadlines_at(p.release, p.size, p.end, p.done, stretch, start, q.speed, n, p.deadline,
                                                 p.slack):
            sort_profile(q, stretch, start, order, &p)
        k = 0
        if n > SHORT:
            k = due = entries_due(p.deadline, n, release_new + stretch * grid.size[0], due)
        # an entry may lose as much as the entry after it that can lose least
        minimum_from(p.slack + k // 4 * 4, n - k // 4 * 4)
        j = 0
        while j < grid.n_size:
            last = min(grid.n_size, j + GAPS - n_gaps)
            k = find_gaps(&p, n, k, grid.size + j, last - j, stretch, release_new, start, q.speed, gaps + n_gaps)
            n_gaps += last - j
            j = last
            if n_gaps == GAPS:
                divide_gaps(gaps, n_gaps, grid, cell)
                cell += GAPS * grid.n_task_size
                n_gaps = 0
    divide_gaps(gaps, n_gaps, grid, cell)
    return first * row


cdef double queue_gap(const Queue* q, int* order, double stretch, double release_new, double size_new,
                      double* scratch) noexcept nogil:
    cdef Py_ssize_t n = q.n, k
    cdef int i
    cdef double start = q.free_at if q.free_at > release_new else release_new
    cdef double deadline = release_new + stretch * size_new
    cdef double done = 0.0, work_before = 0.0, capacity = INFINITY, slack, gap
    if stretch + stretch * TOLERANCE < q.floor:
        return 0.0
    for k in range(n):
        i = order[k]
        scratch[k] = q.release[i] + stretch * q.size[i]
    sort_by_deadline(scratch, order, n, scratch + n)
    for k in range(n):
        i = order[k]
        if q.work[i] > 0.0:
            done += q.work[i]
            if is_late(start + done / q.speed, scratch[k]):
                return 0.0
            if scratch[k] <= deadline:
                work_before = done
            else:
                slack = (scratch[k] - start) * q.speed - done
                if slack < capacity:
                    capacity = slack
    gap = (deadline - start) * q.speed - work_before
    if capacity < gap:
        gap = capacity
    return gap if gap > 0.0 else 0.0


# --- Python level: one queue ----------------------------------------------------------------------

@cython.auto_pickle(False)
cdef class _CheckedQueue:
    """A checked queue with its buffers."""

    cdef Queue q
    cdef const double[::1] r
    cdef const double[::1] w
    cdef const double[::1] p
    cdef double* scratch
    cdef int* order

    def __cinit__(self, release, size, work, double speed, double free_at, running_release, running_size):
        cdef Py_ssize_t k, n
        self.scratch = NULL
        self.r = doubles(release, "release")
        self.w = doubles(size, "size")
        self.p = doubles(work, "work")
        n = self.r.shape[0]
        check_lengths(n, self.w.shape[0], "release", "size")
        check_lengths(n, self.p.shape[0], "release", "work")
        check_array(self.r, "release", FINITE)
        check_array(self.w, "size", POSITIVE)
        check_array(self.p, "work", NOT_NEGATIVE)
        check_scalar(speed, "speed", POSITIVE)
        check_scalar(free_at, "free_at", FINITE)
        self.q.floor = running_floor(running_release, running_size, free_at)
        self.q.n = n
        self.q.speed = speed
        self.q.free_at = free_at
        if n > 0:
            self.q.release = &self.r[0]
            self.q.size = &self.w[0]
            self.q.work = &self.p[0]
        if not spans_float64(&self.q):
            raise OverflowError(_SPAN)
        self.scratch = <double*>malloc(scratch_size(n) * sizeof(double) + n * sizeof(int) + 16)
        if self.scratch == NULL:
            raise MemoryError()
        self.order = <int*>(self.scratch + scratch_size(n))
        for k in range(n):
            self.order[k] = <int>k

    def __dealloc__(self):
        free(self.scratch)


cdef double one_gap(double stretch, double release_new, double size_new, _CheckedQueue single) except -1.0:
    cdef double value
    check_scalar(stretch, "stretch", NOT_NEGATIVE)
    check_scalar(release_new, "release_new", FINITE)
    check_scalar(size_new, "size_new", POSITIVE)
    with nogil:
        value = queue_gap(&single.q, single.order, stretch, release_new, size_new, single.scratch)
    if not isfinite(value):
        raise OverflowError("the gap is too large for float64")
    return value


def gap(double stretch, double release_new, double size_new, release: ArrayLike, size: ArrayLike, work: ArrayLike, *,
        double speed, double free_at, running_release: float | None = None,
        running_size: float | None = None) -> float:
    """Return the work h (Mflop) of a new application that one queue can take at `stretch` (Algorithm 3, corrected).

    The result is 0 when the queue or the running task misses a deadline at this stretch. It is non-decreasing
    in ``stretch`` and ``size_new``, but not monotone in ``release_new``. Time O(n log n).

    Parameters
    ----------
    stretch
        s, s/Mflop >= 0.
    release_new, size_new
        Release (s) and whole size w (Mflop) of the new application.
    release, size, work
        The queue as it stands at ``release_new``, as in `gridcore.queues.edf.optimal_stretch`.
    speed
        Mflop/s.
    free_at
        s, when the processor can start the queue: the end of the running task, or now. If ``release_new`` is
        later, it is used instead: exact for an empty queue, a lower bound otherwise
        (`gridcore.queues.edf.project_queues` computes the queue at a later instant).
    running_release, running_size
        Release (s) and size (Mflop) of the application of the running task, which must itself keep the stretch.
    """
    return one_gap(stretch, release_new, size_new,
                   _CheckedQueue(release, size, work, speed, free_at, running_release, running_size))


def available_tasks(double stretch, double release_new, double size_new, double task_size_new, release: ArrayLike,
                    size: ArrayLike, work: ArrayLike, *, double speed, double free_at,
                    running_release: float | None = None, running_size: float | None = None) -> int:
    """Return the number of whole tasks of ``task_size_new`` Mflop that fit into the gap: floor(h / a).

    The other parameters are those of `gap`.
    """
    cdef double h
    cdef _CheckedQueue single = _CheckedQueue(release, size, work, speed, free_at, running_release, running_size)
    check_scalar(task_size_new, "task_size_new", POSITIVE)
    h = one_gap(stretch, release_new, size_new, single)
    h = floor(h / task_size_new)
    if not isfinite(h):
        raise OverflowError("the number of tasks is too large for float64")
    return int(h)


cdef object check_grid(object grid):
    if type(grid) is not SummaryGrid:
        raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
    return grid


@cython.auto_pickle(False)
cdef class _Axes:
    """The three sample arrays of a grid, as C pointers."""

    cdef Grid grid
    cdef const double[::1] s
    cdef const double[::1] w
    cdef const double[::1] a

    def __cinit__(self, grid):
        check_grid(grid)
        self.s = grid.stretch
        self.w = grid.size
        self.a = grid.task_size
        self.grid.n_stretch = self.s.shape[0]
        self.grid.n_size = self.w.shape[0]
        self.grid.n_task_size = self.a.shape[0]
        self.grid.stretch = &self.s[0]
        self.grid.size = &self.w[0]
        self.grid.task_size = &self.a[0]


def sample_availability(grid: SummaryGrid, double release_new, release: ArrayLike, size: ArrayLike, work: ArrayLike,
                        *, double speed, double free_at, running_release: float | None = None,
                        running_size: float | None = None) -> NDArray[np.uint32]:
    """Return the summary of one queue: `available_tasks` at every point of the grid, as uint32[nS, nW, nA].

    Counts above 2**32 - 1 are written as 2**32 - 1. Time O(nS * (n log n + nW) + cells).
    """
    cdef _Axes axes = _Axes(grid)
    cdef _CheckedQueue single = _CheckedQueue(release, size, work, speed, free_at, running_release, running_size)
    check_scalar(release_new, "release_new", FINITE)
    result = np.empty(grid.shape, dtype=np.uint32)
    cdef unsigned int[:, :, ::1] out = result   # OUT
    cdef double least
    with nogil:
        least = minimum_stretch(&single.q, single.order, single.scratch)
        sample_queue(&single.q, single.order, &axes.grid, release_new, least, &out[0, 0, 0], single.scratch)
    return result


@cython.auto_pickle(False)
cdef class _Batch:
    cdef _Axes axes
    cdef const double[::1] r, w, p, s, b, rr, rw
    cdef const long long[::1] offsets
    cdef unsigned int[:, :, :, ::1] out
    cdef double release_new
    cdef bint has_running

    def run(self, Py_ssize_t first, Py_ssize_t last):
        cdef Py_ssize_t u, k, n, longest = 0
        cdef double* scratch
        cdef int* order
        cdef double value
        cdef bint overflow = False
        cdef Queue q
        for u in range(first, last):
            n = self.offsets[u + 1] - self.offsets[u]
            longest = n if n > longest else longest
        scratch = <double*>malloc(scratch_size(longest) * sizeof(double) + longest * sizeof(int) + 16)
        if scratch == NULL:
            raise MemoryError()
        order = <int*>(scratch + scratch_size(longest))
        with nogil:
            for u in range(first, last):
                q.n = self.offsets[u + 1] - self.offsets[u]
                if q.n > 0:
                    q.release = &self.r[self.offsets[u]]
                    q.size = &self.w[self.offsets[u]]
                    q.work = &self.p[self.offsets[u]]
                q.speed = self.s[u]
                q.free_at = self.b[u]
                q.floor = 0.0
                if self.has_running and not isnan(self.rr[u]):
                    value = (q.free_at - self.rr[u]) / self.rw[u]
                    q.floor = value if value > 0.0 else 0.0
                if not spans_float64(&q):
                    overflow = True
                    break
                for k in range(q.n):
                    order[k] = <int>k
                value = minimum_stretch(&q, order, scratch)
                sample_queue(&q, order, &self.axes.grid, self.release_new, value, &self.out[u, 0, 0, 0], scratch)
        free(scratch)
        if overflow:
            raise OverflowError(_SPAN)


def sample_availability_batch(grid: SummaryGrid, double release_new, offsets: ArrayLike, release: ArrayLike,
                              size: ArrayLike, work: ArrayLike, *, speed: ArrayLike, free_at: ArrayLike,
                              running_release: ArrayLike | None = None, running_size: ArrayLike | None = None,
                              Py_ssize_t threads=1) -> NDArray[np.uint32]:
    """Return the summaries of many queues, uint32[nodes, nS, nW, nA].

    Parameters
    ----------
    offsets
        int64[nodes + 1]; the entries of node u are ``offsets[u]`` up to ``offsets[u + 1]``.
    release, size, work
        float64[entries].
    speed, free_at
        float64[nodes].
    running_release, running_size
        float64[nodes] or None; NaN for no running task.
    threads
        The largest number of threads; small inputs use fewer. The result does not depend on it.
    """
    cdef _Batch batch = _Batch()
    cdef Py_ssize_t entries, nodes
    batch.axes = _Axes(grid)
    batch.release_new = release_new
    batch.r = doubles(release, "release")
    batch.w = doubles(size, "size")
    batch.p = doubles(work, "work")
    batch.s = doubles(speed, "speed")
    batch.b = doubles(free_at, "free_at")
    batch.offsets = integers(offsets, "offsets")
    entries = batch.r.shape[0]
    check_lengths(entries, batch.w.shape[0], "release", "size")
    check_lengths(entries, batch.p.shape[0], "release", "work")
    check_offsets(batch.offsets, entries)
    nodes = batch.offsets.shape[0] - 1
    check_lengths(nodes, batch.s.shape[0], "offsets[1:]", "speed")
    check_lengths(nodes, batch.b.shape[0], "offsets[1:]", "free_at")
    check_array(batch.r, "release", FINITE)
    check_array(batch.w, "size", POSITIVE)
    check_array(batch.p, "work", NOT_NEGATIVE)
    check_array(batch.s, "speed", POSITIVE)
    check_array(batch.b, "free_at", FINITE)
    check_scalar(release_new, "release_new", FINITE)
    batch.has_running = running_release is not None or running_size is not None
    if batch.has_running:
        batch.rr, batch.rw = check_running(running_release, running_size, nodes)
    if threads < 1:
        raise ValueError(f"threads must be >= 1, got {threads}")
    result = np.empty((nodes, *grid.shape), dtype=np.uint32)
    batch.out = result
    # A thread is worth its overhead if it has at least about a millisecond of work.
    threads = min(threads, nodes, result.size // 500_000 + 1)
    if threads <= 1:
        batch.run(0, nodes)
        return result
    chunks = min(nodes, 4 * threads)
    from concurrent.futures import ThreadPoolExecutor  # takes long to import

    with ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(batch.run, nodes * i // chunks, nodes * (i + 1) // chunks) for i in range(chunks)
        ]
        for job in jobs:
            job.result()
    return result
