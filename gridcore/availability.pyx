"""What a node can still take: the gap h, the task count n, and the summaries made of n.

h(S, w) is the work (Mflop) of a new application with deadline d = r + S*w that one queue can take so that
all its deadlines at stretch S stay met. With b the instant at which the processor can start the queue and
P(t) the work due by t,

    h = min( (d - b)*speed - P(d),  min over entries with d_i >= d of (d_i - b)*speed - P(d_i) ),

clamped at 0, and 0 when the queue itself misses a deadline at S. n = floor(h / a) whole tasks of a Mflop.
Both grow with S and w, n falls with a; neither is monotone in the release time.

A summary is n sampled on a grid (stretch, size, task size): uint32, saturating, so it only ever
understates. `gridcore.reference.availability` is the same in plain Python, operation by operation.
"""

cimport cython

from concurrent.futures import ThreadPoolExecutor

from libc.math cimport INFINITY, floor, fmod, isfinite, isnan, rint
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from gridcore.edf cimport (
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    Queue,
    check_array,
    check_lengths,
    check_offsets,
    check_running,
    check_scalar,
    doubles,
    integers,
    late,
    refuse,
    running_floor,
    sort_by_deadline,
    spans_float64,
)

from gridcore.edf import _SPAN
from gridcore.grid import SummaryGrid

cdef extern from "cells.h":
    int detect "gridcore_detect"(int most) noexcept nogil
    void divide "gridcore_divide"(double h, const double* a, unsigned int* out, Py_ssize_t n) noexcept nogil
    void saturating_add "gridcore_add"(
        const unsigned int* a, const unsigned int* b, unsigned int* out, Py_ssize_t n) noexcept nogil
    void debit_rows "gridcore_debit"(
        const unsigned int* given, unsigned int* out, Py_ssize_t n_stretch, Py_ssize_t n_size, Py_ssize_t n_task_size,
        const double* size, const unsigned int* drops, const double* limits) noexcept nogil

detect(1)


def _vector_level(int most) -> int:
    """Limits the instruction set (0 baseline, 1 AVX2) and returns the one in use. For tests."""
    return detect(most)


cdef double TOLERANCE = 1e-12


# --- one queue ------------------------------------------------------------------------------------

cdef inline bint profile(const Queue* q, double stretch, double start, int* order, double* deadline, double* before, double* room, double* scratch) noexcept nogil:
    """The EDF order at `stretch` and, along it, the deadlines, the work before and the least slack from there.

    before and room have n + 1 entries. False if a deadline is missed; then only `order` is meaningful.
    """
    cdef Py_ssize_t k
    cdef int i
    cdef double done = 0.0, least
    for k in range(q.n):
        i = order[k]
        deadline[k] = q.release[i] + stretch * q.size[i]
    sort_by_deadline(deadline, order, q.n, scratch)
    for k in range(q.n):
        i = order[k]
        before[k] = done
        if q.work[i] > 0.0:
            done += q.work[i]
            if late(start + done / q.speed, deadline[k]):
                return False
            room[k] = (deadline[k] - start) * q.speed - done
        else:
            room[k] = INFINITY
    before[q.n] = done
    room[q.n] = INFINITY
    least = INFINITY
    for k in range(q.n - 1, -1, -1):
        if room[k] < least:
            least = room[k]
        else:
            room[k] = least
    return True


cdef void sample_queue(const Queue* q, int* order, const Grid* grid, double release_new, unsigned int* out, double* scratch) noexcept nogil:
    cdef Py_ssize_t n = q.n, row = grid.n_size * grid.n_task_size, i, j, k
    cdef double start = q.free_at if q.free_at > release_new else release_new
    cdef double stretch, deadline, gap, last
    cdef double* deadlines = scratch
    cdef double* before = scratch + n
    cdef double* room = scratch + 2 * n + 1
    cdef unsigned int* cell
    # From the largest stretch down: below the first infeasible row all are infeasible.
    for i in range(grid.n_stretch - 1, -1, -1):
        stretch = grid.stretch[i]
        if stretch + stretch * TOLERANCE < q.floor or (
            n > 0 and not profile(q, stretch, start, order, deadlines, before, room, scratch + 3 * n)
        ):
            memset(out, 0, (i + 1) * row * sizeof(unsigned int))
            return
        cell = out + i * row
        k = 0
        last = -1.0
        for j in range(grid.n_size):
            deadline = release_new + stretch * grid.size[j]
            gap = (deadline - start) * q.speed
            if n > 0:
                while k < n and deadlines[k] <= deadline:
                    k += 1
                gap -= before[k]
                if room[k] < gap:
                    gap = room[k]
            if not gap > 0.0:
                gap = 0.0
                memset(cell, 0, grid.n_task_size * sizeof(unsigned int))
            elif gap == last:
                memcpy(cell, cell - grid.n_task_size, grid.n_task_size * sizeof(unsigned int))
            else:
                divide(gap, grid.task_size, cell, grid.n_task_size)
            last = gap
            cell += grid.n_task_size


cdef double queue_gap(const Queue* q, int* order, double stretch, double release_new, double size_new, double* scratch) noexcept nogil:
    cdef Py_ssize_t n = q.n, k
    cdef int i
    cdef double start = q.free_at if q.free_at > release_new else release_new
    cdef double deadline = release_new + stretch * size_new
    cdef double done = 0.0, before = 0.0, room = INFINITY, slack, gap
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
            if late(start + done / q.speed, scratch[k]):
                return 0.0
            if scratch[k] <= deadline:
                before = done
            else:
                slack = (scratch[k] - start) * q.speed - done
                if slack < room:
                    room = slack
    gap = (deadline - start) * q.speed - before
    if room < gap:
        gap = room
    return gap if gap > 0.0 else 0.0


# --- Python level: one queue ----------------------------------------------------------------------

@cython.auto_pickle(False)
cdef class _Single:
    """One checked queue with its buffers."""

    cdef Queue q
    cdef const double[::1] r
    cdef const double[::1] w
    cdef const double[::1] p
    cdef double* scratch
    cdef int* order

    def __cinit__(self, release, size, work, double speed, double free_at, running_release, running_size, Py_ssize_t extra):
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
        self.scratch = <double*>malloc((4 * n + extra) * sizeof(double) + n * sizeof(int) + 16)
        if self.scratch == NULL:
            raise MemoryError()
        self.order = <int*>(self.scratch + 4 * n + extra)
        for k in range(n):
            self.order[k] = <int>k

    def __dealloc__(self):
        free(self.scratch)


cdef double one_gap(double stretch, double release_new, double size_new, _Single single) except -1.0:
    cdef double value
    check_scalar(stretch, "stretch", NOT_NEGATIVE)
    check_scalar(release_new, "release_new", FINITE)
    check_scalar(size_new, "size_new", POSITIVE)
    with nogil:
        value = queue_gap(&single.q, single.order, stretch, release_new, size_new, single.scratch)
    if not isfinite(value):
        raise OverflowError("the gap is too large for float64")
    return value


def gap(
    double stretch, double release_new, double size_new, release, size, work, *, double speed, double free_at,
    running_release=None, running_size=None,
) -> float:
    """The work h (Mflop) of a new application that one queue can take at a stretch (Algorithm 3 repaired).

    Parameters
    ----------
    stretch : S, s/Mflop >= 0.
    release_new, size_new : release (s) and whole size w (Mflop) of the new application.
    release, size, work : the queue as it stands at ``release_new``, as in `gridcore.edf.optimal_stretch`.
    speed : Mflop/s.
    free_at : s, when the processor can start the queue: the end of the running task, or now. Taken as
        ``release_new`` when that is later (exact for an empty queue, else on the safe side; see
        `gridcore.edf.project_queues` for the queue at a later instant).
    running_release, running_size : the application of the running task, which must itself keep the stretch.

    0 when the queue or the running task misses a deadline at this stretch. Non-decreasing in ``stretch``
    and ``size_new``, not monotone in ``release_new``. Time O(n log n).
    """
    return one_gap(stretch, release_new, size_new,
                   _Single(release, size, work, speed, free_at, running_release, running_size, 0))


def available_tasks(
    double stretch, double release_new, double size_new, double task_size_new, release, size, work, *,
    double speed, double free_at, running_release=None, running_size=None,
) -> int:
    """How many whole tasks of ``task_size_new`` Mflop fit into the gap: floor(h / a). See `gap`."""
    cdef double h
    cdef _Single single = _Single(release, size, work, speed, free_at, running_release, running_size, 0)
    check_scalar(task_size_new, "task_size_new", POSITIVE)
    h = one_gap(stretch, release_new, size_new, single)
    h = floor(h / task_size_new)
    if not isfinite(h):
        raise OverflowError("the number of tasks is too large for float64")
    return int(h)


cdef object check_grid(object grid):
    if not isinstance(grid, SummaryGrid):
        raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
    return grid


@cython.auto_pickle(False)
cdef class _Axes:
    """The three sample arrays of a grid as C pointers."""

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


def sample_availability(
    grid, double release_new, release, size, work, *, double speed, double free_at, running_release=None,
    running_size=None,
):
    """The summary of one queue: `available_tasks` at every point of the grid, as uint32[nS, nW, nA].

    Counts above 2**32 - 1 are written as 2**32 - 1. Time O(nS * (n log n + nW) + cells).
    """
    cdef _Axes axes = _Axes(grid)
    cdef _Single single = _Single(release, size, work, speed, free_at, running_release, running_size,
                                  2 * axes.grid.n_size)
    check_scalar(release_new, "release_new", FINITE)
    result = np.empty(grid.shape, dtype=np.uint32)
    cdef unsigned int[:, :, ::1] out = result   # OUT
    with nogil:
        sample_queue(&single.q, single.order, &axes.grid, release_new, &out[0, 0, 0], single.scratch)
    return result


@cython.auto_pickle(False)
cdef class _Batch:
    cdef _Axes axes
    cdef const double[::1] r, w, p, s, b, rr, rw
    cdef const long long[::1] offsets
    cdef unsigned int[:, :, :, ::1] out
    cdef double release_new
    cdef bint pinned

    def run(self, Py_ssize_t first, Py_ssize_t last):
        cdef Py_ssize_t u, k, n, longest = 0, extra = 2 * self.axes.grid.n_size
        cdef double* scratch
        cdef int* order
        cdef double value
        cdef bint overflow = False
        cdef Queue q
        for u in range(first, last):
            n = self.offsets[u + 1] - self.offsets[u]
            longest = n if n > longest else longest
        scratch = <double*>malloc((4 * longest + extra) * sizeof(double) + longest * sizeof(int) + 16)
        if scratch == NULL:
            raise MemoryError()
        order = <int*>(scratch + 4 * longest + extra)
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
                if self.pinned and not isnan(self.rr[u]):
                    value = (q.free_at - self.rr[u]) / self.rw[u]
                    q.floor = value if value > 0.0 else 0.0
                if not spans_float64(&q):
                    overflow = True
                    break
                for k in range(q.n):
                    order[k] = <int>k
                sample_queue(&q, order, &self.axes.grid, self.release_new, &self.out[u, 0, 0, 0], scratch)
        free(scratch)
        if overflow:
            raise OverflowError(_SPAN)


def sample_availability_batch(
    grid, double release_new, offsets, release, size, work, *, speed, free_at, running_release=None,
    running_size=None, Py_ssize_t threads=1,
):
    """The summaries of many queues, uint32[nodes, nS, nW, nA].

    Parameters
    ----------
    offsets : int64[nodes + 1]; the entries of node u are ``offsets[u]`` up to ``offsets[u + 1]``.
    release, size, work : float64[entries].
    speed, free_at : float64[nodes].
    running_release, running_size : float64[nodes] or None; NaN for no running task.
    threads : the nodes are shared out over at most so many threads (one where the work is too small to
        be worth it); the result does not depend on it.
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
    batch.offsets = np.ascontiguousarray(integers(offsets, "offsets"), dtype=np.longlong)
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
    batch.pinned = running_release is not None or running_size is not None
    if batch.pinned:
        batch.rr, batch.rw = check_running(running_release, running_size, nodes)
    if threads < 1:
        raise ValueError(f"threads must be >= 1, got {threads}")
    result = np.empty((nodes, *grid.shape), dtype=np.uint32)
    batch.out = result
    # About a millisecond of work pays for a thread.
    threads = min(threads, nodes, result.size // 500_000 + 1)
    if threads <= 1:
        batch.run(0, nodes)
        return result
    chunks = min(nodes, 4 * threads)
    with ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(batch.run, nodes * i // chunks, nodes * (i + 1) // chunks) for i in range(chunks)
        ]
        for job in jobs:
            job.result()
    return result


# --- summaries ------------------------------------------------------------------------------------

cdef object as_cells(object values, str name):
    """`values` as a C-contiguous uint32 array; a copy only where needed."""
    array = np.asarray(values)
    if array.dtype != np.uint32:
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
        if array.size and (array.min() < 0 or array.max() > 4294967295):
            worst = array.min() if array.min() < 0 else array.max()
            where = ", ".join(str(i) for i in np.argwhere(array == worst)[0].tolist())
            raise ValueError(f"{name}[{where}] must lie between 0 and 4294967295, got {worst}")
    return np.ascontiguousarray(array, dtype=np.uint32)


cdef object as_counts(object values, str name):
    """`values` as a uint64 vector."""
    cdef const long long[::1] signed
    cdef Py_ssize_t i
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.dtype.kind == "u":
        return np.asarray(array, dtype=np.ulonglong, order="C")
    signed = array = np.asarray(array, dtype=np.longlong, order="C")
    for i in range(signed.shape[0]):
        if signed[i] < 0:
            raise ValueError(f"{name}[{i}] must be >= 0, got {signed[i]}")
    return array.view(np.ulonglong)


cdef object as_summary(object summary, object grid):
    array = as_cells(summary, "summary")
    if array.shape != check_grid(grid).shape:
        raise ValueError(f"summary must have the shape of its grid {grid.shape}, got {array.shape}")
    return array


cdef object whole(object value, str name):
    try:
        return value.__index__()
    except AttributeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


cdef void add_children(const unsigned int* rows, Py_ssize_t children, Py_ssize_t cells, unsigned int* out) noexcept nogil:
    """Saturating sum of `children` rows, in blocks that stay in the first-level cache."""
    cdef Py_ssize_t at = 0, block, child
    while at < cells:
        block = cells - at if cells - at < 2048 else 2048
        saturating_add(rows + at, rows + cells + at, out + at, block)
        for child in range(2, children):
            saturating_add(out + at, rows + child * cells + at, out + at, block)
        at += block


def aggregate(children):
    """The sum of summaries over the first axis, saturating at 2**32 - 1.

    ``children`` is uint32[children, nS, nW, nA] or a sequence of summaries of one grid and one release-time
    cell; no children give zeros. The sum keeps the monotonicity in S, w and a.
    """
    array = as_cells(children, "children")
    if array.ndim < 2:
        raise ValueError(f"children must have at least two dimensions, got {array.ndim}")
    return into(np.empty(array.shape[1:], dtype=np.uint32), array)


def aggregate_into(out, children):
    """`aggregate`, written into ``out`` (writable, C-contiguous uint32); returns ``out``."""
    array = as_cells(children, "children")
    if array.ndim < 2:
        raise ValueError(f"children must have at least two dimensions, got {array.ndim}")
    if not isinstance(out, np.ndarray) or out.dtype != np.uint32:
        raise TypeError("out must be a uint32 array")
    if out.shape != array.shape[1:]:
        raise ValueError(f"out must have the shape of one child {array.shape[1:]}, got {out.shape}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("out must be C-contiguous and writable")
    if np.may_share_memory(out, array):
        array = array.copy()
    return into(out, array)


cdef object into(object out, object array):
    cdef Py_ssize_t children = array.shape[0], cells = out.size
    cdef const unsigned int[:, ::1] rows
    cdef unsigned int[::1] total
    if children == 0 or cells == 0:
        out[...] = 0
    elif children == 1:
        out[...] = array[0]
    else:
        rows = array.reshape(children, cells)
        total = out.reshape(cells)
        with nogil:
            add_children(&rows[0, 0], children, cells, &total[0])
    return out


cdef Py_ssize_t last_at_most(const double[::1] samples, double value) noexcept nogil:
    """The index of the largest sample <= value, -1 if there is none."""
    cdef Py_ssize_t lo = 0, hi = samples.shape[0], mid
    while lo < hi:
        mid = (lo + hi) >> 1
        if samples[mid] <= value:
            lo = mid + 1
        else:
            hi = mid
    return lo - 1


cdef Py_ssize_t first_at_least(const double[::1] samples, double value) noexcept nogil:
    """The index of the smallest sample >= value, the number of samples if there is none."""
    cdef Py_ssize_t lo = 0, hi = samples.shape[0], mid
    while lo < hi:
        mid = (lo + hi) >> 1
        if samples[mid] < value:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef double quotient_up(double value, double by) noexcept nogil:
    """ceil(value / by), exact (the remainder is) while below 2**53."""
    cdef double rest = fmod(value, by)
    cdef double q = (value - rest) / by
    if not isfinite(q):
        return INFINITY
    return rint(q) + (1.0 if rest > 0.0 else 0.0)


def lookup(
    summary, grid, double stretch, double size, double task_size, *, double release, double cell_release,
    speed=None, leaves=None, longest_task=None,
) -> int:
    """How many tasks the summary guarantees for an application, never more than there is room for.

    ``stretch`` and ``size`` are rounded down and ``task_size`` up to the grid. Off the unsafe side of the
    grid (stretch or size below it, task size above it) the answer is 0, above the window it is that of
    the last sample.

    Parameters
    ----------
    stretch, size, task_size : S (s/Mflop), w and a (Mflop) of the application.
    release : its release (s).
    cell_release : the release for which the summary was sampled (s).
    speed, leaves, longest_task : the sum of the speeds (Mflop/s) of the leaves that the summary covers,
        their number, and the longest task (Mflop) queued or running on any of them, 0 when tasks can be
        preempted. Used only when ``release > cell_release``; if one is missing nothing is guaranteed then.

    With another release the summary is not a bound as it stands. Let dt be the difference. An earlier
    release is safe with w - dt/S in place of w. A later one with w + dt/S, and each leaf u loses
    (speed_u * dt + longest_task) Mflop, hence all together at most ceil(V/a) + leaves - 1 tasks, where
    V = speed * dt + leaves * longest_task. Both need leaves that report 0 below the minimum
    stretch of the queue they hold now.
    """
    cells = as_summary(summary, grid)
    cdef const unsigned int[:, :, ::1] n = cells
    cdef const double[::1] axis_s = grid.stretch
    cdef const double[::1] axis_w = grid.size
    cdef const double[::1] axis_a = grid.task_size
    cdef Py_ssize_t i, j, k
    cdef double shift, total = 0.0, longest = 0.0, lost
    check_scalar(stretch, "stretch", NOT_NEGATIVE)
    check_scalar(size, "size", POSITIVE)
    check_scalar(task_size, "task_size", POSITIVE)
    check_scalar(release, "release", FINITE)
    check_scalar(cell_release, "cell_release", FINITE)
    if speed is not None:
        total = speed
        check_scalar(total, "speed", POSITIVE)
    if leaves is not None:
        leaves = whole(leaves, "leaves")
        if leaves < 1:
            raise ValueError(f"leaves must be >= 1, got {leaves}")
    if longest_task is not None:
        longest = longest_task
        check_scalar(longest, "longest_task", NOT_NEGATIVE)
    i = last_at_most(axis_s, stretch)
    k = first_at_least(axis_a, task_size)
    if i < 0 or k >= axis_a.shape[0]:
        return 0
    shift = release - cell_release
    j = last_at_most(axis_w, size + shift / stretch)
    if j < 0:
        return 0
    if shift <= 0.0 or n[i, j, k] == 0:
        return n[i, j, k]
    if speed is None or leaves is None or longest_task is None:
        return 0
    lost = quotient_up(total * shift + <double>leaves * longest, axis_a[k]) + (<double>leaves - 1.0)
    if lost >= n[i, j, k]:
        return 0
    return n[i, j, k] - <unsigned int>lost


def lowest_stretch(totals, n_tasks):
    """The index of the lowest stretch whose guaranteed total hosts ``n_tasks``, or None (Algorithm 4).

    ``totals`` holds one count for each stretch sample, in ascending order of the stretch, and must not
    decrease. Time O(n) for the check and O(log n) for the search.
    """
    cdef const unsigned long long[::1] total = as_counts(totals, "totals")
    cdef Py_ssize_t lo = 0, hi = total.shape[0] - 1, mid, i
    cdef unsigned long long wanted
    n_tasks = whole(n_tasks, "n_tasks")
    if n_tasks < 0:
        raise ValueError(f"n_tasks must be >= 0, got {n_tasks}")
    for i in range(1, hi + 1):
        if total[i] < total[i - 1]:
            raise ValueError(f"totals must not decrease, got totals[{i}] = {total[i]} after {total[i - 1]}")
    if hi < 0 or n_tasks > total[hi]:
        return None
    wanted = n_tasks
    while lo < hi:
        mid = (lo + hi) >> 1
        if total[mid] >= wanted:
            hi = mid
        else:
            lo = mid + 1
    return lo


def split(available, n_tasks):
    """``n_tasks`` shared out in proportion to ``available`` by largest remainder, as int64[children].

    Never more than is available, ties go to the lower index; exact for any uint64 values. An integer cap
    is never exceeded by rounding up a real number below it, so no share needs a correction.
    ``n_tasks`` above the sum is a ValueError.
    """
    cdef const unsigned long long[::1] room = as_counts(available, "available")
    cdef Py_ssize_t n = room.shape[0], i, k
    cdef unsigned long long tasks, total = 0, product, left
    cdef unsigned long long* rest
    cdef bint wide = False
    n_tasks = whole(n_tasks, "n_tasks")
    if n_tasks < 0:
        raise ValueError(f"n_tasks must be >= 0, got {n_tasks}")
    for i in range(n):
        total += room[i]
        wide |= total < room[i]
    everything = sum([int(room[i]) for i in range(n)]) if wide else total
    if n_tasks > everything:
        raise ValueError(f"n_tasks must be <= the sum of available {everything}, got {n_tasks}")
    if n_tasks > 9223372036854775807:
        raise ValueError(f"n_tasks must be < 2**63, got {n_tasks}")
    result = np.zeros(n, dtype=np.int64)
    cdef long long[::1] share = result.view(np.longlong)   # OUT
    if n_tasks == 0:
        return result
    tasks = n_tasks
    if wide or total > 18446744073709551615ULL // tasks:
        # Rare: whole numbers of any length.
        remainders = []
        for i in range(n):
            quotient, remainder = divmod(n_tasks * int(room[i]), everything)
            share[i] = quotient
            remainders.append(-remainder)
            tasks -= <unsigned long long>share[i]
        for at in sorted(range(n), key=remainders.__getitem__)[:tasks]:
            k = at
            share[k] += 1
        return result
    rest = <unsigned long long*>malloc(n * sizeof(unsigned long long))
    if rest == NULL:
        raise MemoryError()
    left = tasks
    for i in range(n):
        product = tasks * room[i]
        share[i] = <long long>(product // total)
        rest[i] = product % total
        left -= <unsigned long long>share[i]
    if n <= 16:
        while left > 0:
            k = 0
            for i in range(1, n):
                if rest[i] > rest[k]:
                    k = i
            rest[k] = 0
            share[k] += 1
            left -= 1
    elif left > 0:
        order = np.argsort(~np.asarray(<unsigned long long[:n]>rest), kind="stable")
        result[order[:left]] += 1
    free(rest)
    return result


# --- debit ----------------------------------------------------------------------------------------

@cython.auto_pickle(False)
cdef class _Ledger:
    """The dispatches since the last summary, checked and broadcast to vectors."""

    cdef const long long[::1] tasks
    cdef const double[::1] task_size
    cdef Py_ssize_t n
    cdef double volume
    cdef object total
    cdef object leaves
    cdef double most_leaves

    def __cinit__(self, tasks, task_size, leaves):
        cdef Py_ssize_t i
        given = np.atleast_1d(np.asarray(tasks))
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"tasks must hold integers, got dtype {given.dtype}")
        if given.ndim != 1:
            raise ValueError(f"tasks must be a number or have one dimension, got {given.ndim}")
        for i, value in enumerate(given.tolist()):
            if value < 0 or value > 9223372036854775807:
                raise ValueError(f"tasks[{i}] must be >= 0 and < 2**63, got {value}")
        self.tasks = np.ascontiguousarray(given, dtype=np.longlong)
        self.n = given.shape[0]
        self.task_size = doubles(np.atleast_1d(np.asarray(task_size)), "task_size")
        check_lengths(self.n, self.task_size.shape[0], "tasks", "task_size")
        check_array(self.task_size, "task_size", POSITIVE)
        self.leaves = whole(leaves, "leaves")
        if self.leaves < 1:
            raise ValueError(f"leaves must be >= 1, got {self.leaves}")
        self.volume = 0.0
        self.total = 0
        for i in range(self.n):
            self.volume += <double>self.tasks[i] * self.task_size[i]
            self.total += self.tasks[i]
        self.most_leaves = min(self.total, self.leaves, 4294967296)

    cdef object drop(self, double cell):
        """min(sum of N*ceil(a_B/a), ceil(V/a + L) - 1), exact."""
        cdef Py_ssize_t i
        cdef double up
        each = 0
        for i in range(self.n):
            up = quotient_up(self.task_size[i], cell)
            if not isfinite(up):
                raise OverflowError("task_size is too many times the task size of a cell")
            each += self.tasks[i] * int(up)
        up = quotient_up(self.volume, cell)
        if not isfinite(up):
            raise OverflowError("task_size is too many times the task size of a cell")
        together = int(up) + min(self.total, self.leaves) - 1
        return min(each, together) if self.total else 0


    cdef unsigned int capped_drop(self, double cell) except? 0:
        """`drop`, at most 2**32 - 1."""
        cdef Py_ssize_t i
        cdef double each = 0.0, up
        for i in range(self.n):
            up = quotient_up(self.task_size[i], cell)
            if not isfinite(up):
                raise OverflowError("task_size is too many times the task size of a cell")
            each += <double>self.tasks[i] * up
        up = quotient_up(self.volume, cell)
        if not isfinite(up):
            raise OverflowError("task_size is too many times the task size of a cell")
        if self.most_leaves == 0.0:
            return 0
        up += self.most_leaves - 1.0
        if each < up:
            up = each
        return <unsigned int>up if up < 4294967295.0 else 4294967295

    cdef unsigned int printed_drop(self, double cell) except? 0:
        """The paper's sum of ceil(N*a/a_B), at most 2**32 - 1."""
        cdef Py_ssize_t i
        cdef double each = 0.0
        for i in range(self.n):
            if cell == self.task_size[i]:
                each += <double>self.tasks[i]
            else:
                each += quotient_up(<double>self.tasks[i] * cell, self.task_size[i])
        return <unsigned int>each if each < 4294967295.0 else 4294967295


def debit_drop(tasks, task_size, double cell_task_size, leaves) -> int:
    """The most tasks of ``cell_task_size`` that dispatches to a subtree can displace.

    Parameters
    ----------
    tasks, task_size : N and a_B (Mflop) of one dispatch, or vectors of several; they count together.
    cell_task_size : a (Mflop) of the cell.
    leaves : number of leaves of the subtree.

    min(sum N*ceil(a_B/a), ceil(V/a + L) - 1) with V = sum N*a_B and L = min(sum N, leaves).
    """
    ledger = _Ledger(tasks, task_size, leaves)
    check_scalar(cell_task_size, "cell_task_size", POSITIVE)
    return (<_Ledger>ledger).drop(cell_task_size)


cdef void debit_cells(const unsigned int* given, unsigned int* out, const Grid* g, const unsigned int* drops, const double* limits) noexcept nogil:
    debit_rows(given, out, g.n_stretch, g.n_size, g.n_task_size, g.size, drops, limits)


cdef void add_cells(const unsigned int* a, const unsigned int* b, unsigned int* out, Py_ssize_t n) noexcept nogil:
    saturating_add(a, b, out, n)


def debit(summary, grid, *, tasks, task_size, size, stretch, leaves, str rule="subtree"):
    """A child's summary after tasks were dispatched to it, still a lower bound.

    Parameters
    ----------
    summary : uint32[nS, nW, nA], the child's last real summary.
    tasks, task_size, size, stretch : N, a_B, w_B (Mflop) and the accepted stretch S* (s/Mflop) of one
        dispatch, or vectors of all dispatches since that summary (the formula counts them together).
    leaves : number of leaves below the child.
    rule : "subtree" is the proved bound: cells with S < S* and w > w_B of any dispatch become 0, all others
        lose `debit_drop`, and the result is closed upwards (the largest value at no larger S and w and
        no smaller a). "printed" is the paper's rule, ceil(N*a/a_B) for every cell (N where a == a_B), and
        is not a bound.
    """
    cells = as_summary(summary, grid)
    cdef const unsigned int[:, :, ::1] given = cells
    cdef _Ledger ledger = _Ledger(tasks, task_size, leaves)
    cdef const double[::1] w = doubles(np.atleast_1d(np.asarray(size)), "size")
    cdef const double[::1] s = doubles(np.atleast_1d(np.asarray(stretch)), "stretch")
    cdef const double[::1] axis_s = grid.stretch
    cdef const double[::1] axis_w = grid.size
    cdef const double[::1] axis_a = grid.task_size
    cdef Py_ssize_t i, j, k, b
    cdef Py_ssize_t ns = axis_s.shape[0], nw = axis_w.shape[0], na = axis_a.shape[0]
    check_lengths(ledger.n, w.shape[0], "tasks", "size")
    check_lengths(ledger.n, s.shape[0], "tasks", "stretch")
    check_array(w, "size", POSITIVE)
    check_array(s, "stretch", NOT_NEGATIVE)
    cdef bint closed = rule == "subtree"
    if not closed and rule != "printed":
        raise ValueError(f"rule must be 'subtree' or 'printed', got {rule!r}")
    result = np.empty(grid.shape, dtype=np.uint32)
    cdef unsigned int[:, :, ::1] out = result        # OUT
    cdef unsigned int[::1] drops = np.empty(na, dtype=np.uint32)
    cdef double[::1] limits = np.full(ns, np.inf)
    for k in range(na):
        drops[k] = ledger.capped_drop(axis_a[k]) if closed else ledger.printed_drop(axis_a[k])
    cdef Grid g
    g.n_stretch, g.n_size, g.n_task_size = ns, nw, na
    g.stretch, g.size, g.task_size = &axis_s[0], &axis_w[0], &axis_a[0]
    with nogil:
        if closed:
            for i in range(ns):
                for b in range(ledger.n):
                    if ledger.tasks[b] > 0 and axis_s[i] < s[b] and w[b] < limits[i]:
                        limits[i] = w[b]
            debit_cells(&given[0, 0, 0], &out[0, 0, 0], &g, &drops[0], &limits[0])
        else:
            for i in range(ns):
                for j in range(nw):
                    for k in range(na):
                        out[i, j, k] = given[i, j, k] - drops[k] if given[i, j, k] > drops[k] else 0
    return result
