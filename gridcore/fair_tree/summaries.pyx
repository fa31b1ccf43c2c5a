"""Operations on summaries: addition, lookup, division of tasks among children, and the debit after dispatches.

A summary is the task count n of `gridcore.queues.availability` sampled on a grid (stretch, size, task size):
uint32[nS, nW, nA], saturating at 2**32 - 1. It is a lower bound, and all operations keep it one, except the
debit as printed in the paper.
The reference implementation in plain Python, equal operation by operation, is `tests.reference.summaries`.
"""

cimport cython

from libc.math cimport INFINITY, fmod, isfinite, rint
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from gridcore.common.arguments cimport (
    FINITE, NOT_NEGATIVE, POSITIVE, check_array, check_lengths, check_scalar, doubles, plain,
)
from gridcore.common.cells cimport add_narrow, debit_narrow_rows, debit_rows, detect, narrow, saturating_add, widen
from gridcore.queues.availability cimport Grid, check_grid

__all__ = ["KERNELS", "aggregate", "aggregate_into", "debit", "debit_drop", "lookup", "lowest_stretch", "split"]

detect(1)


def _vector_level(int limit) -> int:
    """Limit the instruction set of this module (0 baseline, 1 AVX2) and return the one in use, for tests."""
    return detect(limit)


# --- checks ---------------------------------------------------------------------------------------

cdef object as_cells(object values, str name):
    """Return `values` as a C-contiguous uint32 array, copied only if needed."""
    array = np.asarray(values)
    if array.dtype != np.uint32:
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
        if array.size and (array.min() < 0 or array.max() > 4294967295):
            worst = array.min() if array.min() < 0 else array.max()
            where = ", ".join(str(i) for i in np.argwhere(array == worst)[0].tolist())
            raise ValueError(f"{name}[{where}] must be in 0..4294967295, got {worst}")
    return np.require(array, np.uint32, ("C", "A"))


cdef object as_counts(object values, str name):
    """Return `values` as a uint64 vector."""
    cdef const long long[::1] signed
    cdef Py_ssize_t i
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.dtype.kind == "u":
        return np.require(array, np.ulonglong, ("C", "A"))
    signed = array = np.require(array, np.longlong, ("C", "A"))
    for i in range(signed.shape[0]):
        if signed[i] < 0:
            raise ValueError(f"{name}[{i}] must be >= 0, got {signed[i]}")
    return array.view(np.ulonglong)


cdef object as_summary(object summary, object grid):
    array = as_cells(summary, "summary")
    if array.shape != check_grid(grid).shape:
        raise ValueError(f"summary must have the shape of its grid {grid.shape}, got {array.shape}")
    return array


cdef object as_index(object value, str name):
    try:
        return value.__index__()
    except AttributeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


# --- aggregation and look-up ----------------------------------------------------------------------

cdef void add_children(const unsigned int* rows, Py_ssize_t children, Py_ssize_t cells, unsigned int* out) noexcept nogil:
    """Add `children` rows with saturation, in blocks that stay in the first-level cache."""
    cdef Py_ssize_t at = 0, block, child
    while at < cells:
        block = cells - at if cells - at < 2048 else 2048
        saturating_add(rows + at, rows + cells + at, out + at, block)
        for child in range(2, children):
            saturating_add(out + at, rows + child * cells + at, out + at, block)
        at += block


def aggregate(children: ArrayLike | Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Return the sum of summaries over the first axis, saturating at 2**32 - 1.

    ``children`` is uint32[children, nS, nW, nA], or a sequence of summaries on one grid and sampled for one
    release; without children the sum is zero. The sum keeps the monotonicity in S, w and a.
    """
    array = as_cells(children, "children")
    if array.ndim < 2:
        raise ValueError(f"children must have at least two dimensions, got {array.ndim}")
    return into(np.empty(array.shape[1:], dtype=np.uint32), array)


def aggregate_into(out: NDArray[np.uint32], children: ArrayLike | Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Write the result of `aggregate` into ``out`` (writable, C-contiguous uint32), and return ``out``."""
    array = as_cells(children, "children")
    if array.ndim < 2:
        raise ValueError(f"children must have at least two dimensions, got {array.ndim}")
    target = plain(out)
    if not isinstance(target, np.ndarray) or target.dtype != np.uint32:
        raise TypeError(f"out must be a uint32 array, got {getattr(target, 'dtype', type(target).__name__)}")
    if target.shape != array.shape[1:]:
        raise ValueError(f"out must have the shape of one child {array.shape[1:]}, got {target.shape}")
    if not target.flags.carray:  # contiguous, writable and aligned
        raise ValueError(f"out must be C-contiguous, aligned and writable, got c_contiguous="
                         f"{target.flags.c_contiguous}, aligned={target.flags.aligned}, "
                         f"writeable={target.flags.writeable}")
    if np.may_share_memory(target, array):
        array = array.copy()
    into(target, array)
    return out


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


cdef Py_ssize_t last_at_most(const double* samples, Py_ssize_t n, double value) noexcept nogil:
    """Return the index of the largest sample <= value, -1 if there is none."""
    cdef Py_ssize_t lo = 0, hi = n, mid
    while lo < hi:
        mid = (lo + hi) >> 1
        if samples[mid] <= value:
            lo = mid + 1
        else:
            hi = mid
    return lo - 1


cdef Py_ssize_t first_at_least(const double* samples, Py_ssize_t n, double value) noexcept nogil:
    """Return the index of the smallest sample >= value, or the number of samples if there is none."""
    cdef Py_ssize_t lo = 0, hi = n, mid
    while lo < hi:
        mid = (lo + hi) >> 1
        if samples[mid] < value:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef double quotient_up(double value, double by) noexcept nogil:
    """Return ceil(value / by), exactly if it is below 2**53."""
    cdef double rest = fmod(value, by)
    cdef double q = (value - rest) / by
    if not isfinite(q):
        return INFINITY
    return rint(q) + (1.0 if rest > 0.0 else 0.0)


def lookup(summary: ArrayLike, grid: SummaryGrid, double stretch, double size, double task_size, *, double release,
           double cell_release, speed: float | None = None, leaves: int | None = None,
           longest_task: float | None = None) -> int:
    """Return the number of tasks of an application for which the summary guarantees room.

    ``stretch`` and ``size`` are rounded down and ``task_size`` up to the grid. If rounding is not possible
    (stretch or size below the grid, task size above it), the answer is 0. For a stretch or size above the
    grid it is the answer for the last sample.

    For another release the summary alone is not a bound. Let dt be the difference. For an earlier release,
    w - dt/S in place of w gives a bound. For a later release, w + dt/S does, but each leaf u loses
    (speed_u * dt + longest_task) Mflop, hence all leaves together lose at most ceil(V/a) + leaves - 1 tasks,
    where V = speed * dt + leaves * longest_task. Both require that leaves report 0 below the minimum
    stretch of their present queues.

    Parameters
    ----------
    stretch, size, task_size
        S (s/Mflop), w and a (Mflop) of the application.
    release
        Its release (s).
    cell_release
        The release for which the summary was sampled (s).
    speed, leaves, longest_task
        The sum of the speeds (Mflop/s) of the leaves that the summary covers, their number, and the longest
        task (Mflop) queued or running on any of them, 0 when tasks can be preempted. Used only when ``release
        > cell_release``; if one is None, the result is 0 then.
    """
    cells = as_summary(summary, grid)
    cdef const unsigned int[:, :, ::1] n = cells
    cdef const double[::1] axis_s = grid.stretch
    cdef const double[::1] axis_w = grid.size
    cdef const double[::1] axis_a = grid.task_size
    cdef Grid g
    g.n_stretch, g.n_size, g.n_task_size = axis_s.shape[0], axis_w.shape[0], axis_a.shape[0]
    g.stretch, g.size, g.task_size = &axis_s[0], &axis_w[0], &axis_a[0]
    if leaves is not None:
        leaves = as_index(leaves, "leaves")
    cdef double total = -1.0 if speed is None else speed, longest = -1.0 if longest_task is None else longest_task
    cdef int known = (speed is not None) + 2 * (leaves is not None) + 4 * (longest_task is not None)
    return find(&n[0, 0, 0], &g, stretch, size, task_size, release, cell_release, known, total,
                1 if leaves is None else leaves, longest)


cdef long long find(const unsigned int* n, const Grid* g, double stretch, double size, double task_size, double release,
                    double cell_release, long long known, double speed, double leaves, double longest) except -1:
    """Return the result of `lookup`; bits 0 to 2 of `known` are whether speed, leaves and longest task are given."""
    cdef Py_ssize_t i, j, k
    cdef double shift, lost
    cdef unsigned int capacity
    check_scalar(stretch, "stretch", NOT_NEGATIVE)
    check_scalar(size, "size", POSITIVE)
    check_scalar(task_size, "task_size", POSITIVE)
    check_scalar(release, "release", FINITE)
    check_scalar(cell_release, "cell_release", FINITE)
    if known & 1:
        check_scalar(speed, "speed", POSITIVE)
    if known & 2 and leaves < 1:
        raise ValueError(f"leaves must be >= 1, got {leaves:.0f}")
    if known & 4:
        check_scalar(longest, "longest_task", NOT_NEGATIVE)
    i = last_at_most(g.stretch, g.n_stretch, stretch)
    k = first_at_least(g.task_size, g.n_task_size, task_size)
    if i < 0 or k >= g.n_task_size:
        return 0
    shift = release - cell_release
    j = last_at_most(g.size, g.n_size, size + shift / stretch)
    if j < 0:
        return 0
    capacity = n[(i * g.n_size + j) * g.n_task_size + k]
    if shift <= 0.0 or capacity == 0:
        return capacity
    if known != 7:
        return 0
    lost = quotient_up(speed * shift + leaves * longest, g.task_size[k]) + (leaves - 1.0)
    if lost >= capacity:
        return 0
    return capacity - <unsigned int>lost


# --- Algorithm 4 and shares -----------------------------------------------------------------------

def lowest_stretch(totals: ArrayLike, n_tasks: int) -> int | None:
    """Return the index of the lowest stretch whose guaranteed total hosts ``n_tasks``, or None (Algorithm 4).

    ``totals`` holds one count for each stretch sample, in ascending order of the stretch, and must not
    decrease. Time O(n) for the check and O(log n) for the search.
    """
    cdef const unsigned long long[::1] total = as_counts(totals, "totals")
    at = find_stretch(&total[0] if total.shape[0] else NULL, total.shape[0], as_index(n_tasks, "n_tasks"))
    return None if at == total.shape[0] else at


cdef long long find_stretch(const unsigned long long* total, Py_ssize_t n, object n_tasks) except -1:
    """Return the result of `lowest_stretch`, `n` for None."""
    cdef Py_ssize_t lo = 0, hi = n - 1, mid, i
    cdef unsigned long long n_wanted
    if n_tasks < 0:
        raise ValueError(f"n_tasks must be >= 0, got {n_tasks}")
    for i in range(1, hi + 1):
        if total[i] < total[i - 1]:
            raise ValueError(f"totals must not decrease, got totals[{i}] = {total[i]} after {total[i - 1]}")
    if hi < 0 or n_tasks > total[hi]:
        return n
    n_wanted = n_tasks
    while lo < hi:
        mid = (lo + hi) >> 1
        if total[mid] >= n_wanted:
            hi = mid
        else:
            lo = mid + 1
    return lo


def split(available: ArrayLike, n_tasks: int) -> Integers:
    """Divide ``n_tasks`` in proportion to ``available`` by largest remainder; returns int64[children].

    No share exceeds what is available: rounding a real number up cannot pass an integer above it, so no share
    needs a correction. Ties go to the lower index; the result is exact for any uint64 values.
    Raises ValueError for ``n_tasks`` above the sum.
    """
    cdef const unsigned long long[::1] capacity = as_counts(available, "available")
    n_tasks = as_index(n_tasks, "n_tasks")
    result = np.zeros(capacity.shape[0], dtype=np.int64)
    cdef long long[::1] share = result.view(np.longlong)
    divide(&capacity[0] if capacity.shape[0] else NULL, capacity.shape[0], n_tasks, &share[0] if share.shape[0] else NULL)
    return result


cdef int divide(const unsigned long long* capacity, Py_ssize_t n, object n_tasks, long long* share) except -1:
    """Write the result of `split` to `share`, which is zero."""
    cdef Py_ssize_t i, k
    cdef unsigned long long tasks, total = 0, product, left
    cdef unsigned long long* rest
    cdef bint wide = False
    if n_tasks < 0:
        raise ValueError(f"n_tasks must be >= 0, got {n_tasks}")
    for i in range(n):
        total += capacity[i]
        wide |= total < capacity[i]
    everything = sum([int(capacity[i]) for i in range(n)]) if wide else total
    if n_tasks > everything:
        raise ValueError(f"n_tasks must be at most {everything}, the sum of available, got {n_tasks}")
    if n_tasks > 9223372036854775807:
        raise ValueError(f"n_tasks must be < 2**63, got {n_tasks}")
    if n_tasks == 0:
        return 0
    tasks = n_tasks
    if wide or total > 18446744073709551615ULL // tasks:
        # products that large are rare, so slow Python integers are fine: they do not overflow
        remainders = []
        for i in range(n):
            quotient, remainder = divmod(n_tasks * int(capacity[i]), everything)
            share[i] = quotient
            remainders.append(-remainder)
            tasks -= <unsigned long long>share[i]
        for at in sorted(range(n), key=remainders.__getitem__)[:tasks]:
            k = at
            share[k] += 1
        return 0
    rest = <unsigned long long*>malloc(n * sizeof(unsigned long long))
    if rest == NULL:
        raise MemoryError()
    left = tasks
    for i in range(n):
        product = tasks * capacity[i]
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
        for at in np.argsort(~np.asarray(<unsigned long long[:n]>rest), kind="stable")[:left].tolist():
            k = at
            share[k] += 1
    free(rest)
    return 0


# --- debit ----------------------------------------------------------------------------------------

@cython.auto_pickle(False)
cdef class _Debts:
    """The dispatches since the last summary, as checked vectors."""

    cdef const long long[::1] tasks
    cdef const double[::1] task_size
    cdef Py_ssize_t n
    cdef double volume
    cdef object total
    cdef object leaves
    cdef double max_leaves

    def __cinit__(self, tasks, task_size, leaves):
        cdef Py_ssize_t i
        values = np.atleast_1d(np.asarray(tasks))
        if values.size and values.dtype.kind not in "iu":
            raise TypeError(f"tasks must hold integers, got dtype {values.dtype}")
        if values.ndim != 1:
            raise ValueError(f"tasks must be a number or have one dimension, got {values.ndim}")
        for i, value in enumerate(values.tolist()):
            if value < 0 or value > 9223372036854775807:
                raise ValueError(f"tasks[{i}] must be >= 0 and < 2**63, got {value}")
        self.tasks = np.require(values, np.longlong, ("C", "A"))
        self.n = values.shape[0]
        self.task_size = doubles(np.atleast_1d(np.asarray(task_size)), "task_size")
        check_lengths(self.n, self.task_size.shape[0], "tasks", "task_size")
        check_array(self.task_size, "task_size", POSITIVE)
        self.leaves = as_index(leaves, "leaves")
        if self.leaves < 1:
            raise ValueError(f"leaves must be >= 1, got {self.leaves}")
        self.volume = 0.0
        self.total = 0
        for i in range(self.n):
            self.volume += <double>self.tasks[i] * self.task_size[i]
            self.total += self.tasks[i]
        self.max_leaves = min(self.total, self.leaves, 4294967296)

    cdef object drop(self, double cell):
        """Return min(sum of N*ceil(a_B/a), ceil(V/a + L) - 1) for task size `cell`, as an exact Python integer."""
        cdef Py_ssize_t i
        cdef double up
        by_tasks = 0
        for i in range(self.n):
            up = quotient_up(self.task_size[i], cell)
            if not isfinite(up):
                raise OverflowError(f"task_size[{i}] must be finite if divided by the task size of a cell, {cell!r}, "
                                    f"got {self.task_size[i]!r}")
            by_tasks += self.tasks[i] * int(up)
        up = quotient_up(self.volume, cell)
        if not isfinite(up):
            raise OverflowError(f"the sum of tasks * task_size must be finite if divided by the task size of a cell, "
                                f"{cell!r}, got {self.volume!r}")
        by_volume = int(up) + min(self.total, self.leaves) - 1
        return min(by_tasks, by_volume) if self.total else 0

    cdef unsigned int capped_drop(self, double cell) except? 0:
        """Return `drop`, limited to 2**32 - 1."""
        cdef Py_ssize_t i
        cdef double by_tasks = 0.0, up
        for i in range(self.n):
            up = quotient_up(self.task_size[i], cell)
            if not isfinite(up):
                raise OverflowError(f"task_size[{i}] must be finite if divided by the task size of a cell, {cell!r}, "
                                    f"got {self.task_size[i]!r}")
            by_tasks += <double>self.tasks[i] * up
        up = quotient_up(self.volume, cell)
        if not isfinite(up):
            raise OverflowError(f"the sum of tasks * task_size must be finite if divided by the task size of a cell, "
                                f"{cell!r}, got {self.volume!r}")
        if self.max_leaves == 0.0:
            return 0
        up += self.max_leaves - 1.0
        if by_tasks < up:
            up = by_tasks
        return <unsigned int>up if up < 4294967295.0 else 4294967295

    cdef unsigned int printed_drop(self, double cell) except? 0:
        """Return the paper's sum of ceil(N*a/a_B), limited to 2**32 - 1."""
        cdef Py_ssize_t i
        cdef double by_tasks = 0.0
        for i in range(self.n):
            if cell == self.task_size[i]:
                by_tasks += <double>self.tasks[i]
            else:
                by_tasks += quotient_up(<double>self.tasks[i] * cell, self.task_size[i])
        return <unsigned int>by_tasks if by_tasks < 4294967295.0 else 4294967295


def debit_drop(tasks: ArrayLike, task_size: ArrayLike, double cell_task_size, leaves: int) -> int:
    """Return the largest number of tasks of ``cell_task_size`` that dispatches to a subtree can displace.

    The result is min(sum N*ceil(a_B/a), ceil(V/a + L) - 1) with V = sum N*a_B and L = min(sum N, leaves).

    Parameters
    ----------
    tasks, task_size
        N and a_B (Mflop) of one dispatch, or vectors for several, which count together.
    cell_task_size
        Task size of the cell, a (Mflop).
    leaves
        Number of leaves of the subtree.
    """
    debts = _Debts(tasks, task_size, leaves)
    check_scalar(cell_task_size, "cell_task_size", POSITIVE)
    return (<_Debts>debts).drop(cell_task_size)


cdef void debit_cells(const unsigned int* values, Py_ssize_t zeros, unsigned int* out, const Grid* g,
                      const unsigned int* drops, const double* limits) noexcept nogil:
    cdef Py_ssize_t first = zeros // (g.n_size * g.n_task_size)
    debit_rows(values + zeros, out + zeros, g.n_stretch - first, g.n_size, g.n_task_size, g.size, drops, limits + first)


cdef void debit_narrow_cells(const unsigned short* values, Py_ssize_t zeros, unsigned short* out, const Grid* g,
                             const unsigned int* drops, const double* limits) noexcept nogil:
    cdef Py_ssize_t first = zeros // (g.n_size * g.n_task_size)
    debit_narrow_rows(values + zeros, out + zeros, g.n_stretch - first, g.n_size, g.n_task_size, g.size, drops,
                      limits + first)


cdef void add_cells(const unsigned int* a, const unsigned int* b, unsigned int* out, Py_ssize_t n) noexcept nogil:
    saturating_add(a, b, out, n)


cdef bint add_narrow_cells(const unsigned short* a, const unsigned short* b, unsigned short* out,
                           Py_ssize_t n) noexcept nogil:
    return add_narrow(a, b, out, n)


cdef bint narrow_cells(const unsigned int* a, unsigned short* out, Py_ssize_t n) noexcept nogil:
    return narrow(a, out, n)


cdef void widen_cells(const unsigned short* a, unsigned int* out, Py_ssize_t n) noexcept nogil:
    widen(a, out, n)


def _debit_cells(values: NDArray[Any], size: NDArray[np.float64], drops: NDArray[np.uint32],
             limits: NDArray[np.float64]) -> NDArray[Any]:
    """Return debited cells of 16 or 32 bits [stretch, size, task size], for tests."""
    out = np.empty_like(values)
    cdef Grid g
    cdef const double[::1] w = size, limit_rows = limits
    cdef const unsigned int[::1] drop_values = drops
    cdef const unsigned short[:, :, ::1] narrow_from
    cdef const unsigned int[:, :, ::1] wide_from
    cdef unsigned short[:, :, ::1] narrow_to
    cdef unsigned int[:, :, ::1] wide_to
    g.n_stretch, g.n_size, g.n_task_size, g.size = values.shape[0], values.shape[1], values.shape[2], &w[0]
    if values.dtype == np.uint16:
        narrow_from, narrow_to = values, out
        debit_narrow_cells(&narrow_from[0, 0, 0], 0, &narrow_to[0, 0, 0], &g, &drop_values[0], &limit_rows[0])
    else:
        wide_from, wide_to = values, out
        debit_cells(&wide_from[0, 0, 0], 0, &wide_to[0, 0, 0], &g, &drop_values[0], &limit_rows[0])
    return out


def debit(summary: ArrayLike, grid: SummaryGrid, *, tasks: ArrayLike, task_size: ArrayLike, size: ArrayLike,
          stretch: ArrayLike, leaves: int, age: ArrayLike | None = None,
          str rule: Literal["subtree", "printed"] = "subtree") -> NDArray[np.uint32]:
    """Return a child's summary after tasks were dispatched to it, still a lower bound.

    Parameters
    ----------
    summary
        uint32[nS, nW, nA], the child's last real summary.
    tasks, task_size, size, stretch
        N, a_B, w_B (Mflop) and the accepted stretch S* (s/Mflop) of one dispatch, or vectors of all
        dispatches since that summary (the formula counts them together).
    leaves
        Number of leaves below the child.
    age
        s, how long before the release of the summary each application was released (default 0).  Below, w_B then
        stands for w_B - age / S, the size with the same deadline at stretch S and the release of the summary.
    rule
        "subtree" is the proven bound: cells with S < S* and w > w_B of any dispatch become 0, all others lose
        `debit_drop`, and the result is closed upwards (the largest value at no larger S and w and no smaller
        a). "printed" is the paper's rule, ceil(N*a/a_B) for every cell (N where a == a_B), and is not a
        bound.
    """
    cells = as_summary(summary, grid)
    cdef const unsigned int[:, :, ::1] values = cells
    cdef const double[::1] axis_s = grid.stretch
    cdef const double[::1] axis_w = grid.size
    cdef const double[::1] axis_a = grid.task_size
    cdef Grid g
    g.n_stretch, g.n_size, g.n_task_size = axis_s.shape[0], axis_w.shape[0], axis_a.shape[0]
    g.stretch, g.size, g.task_size = &axis_s[0], &axis_w[0], &axis_a[0]
    result = np.empty(grid.shape, dtype=np.uint32)
    cdef unsigned int[:, :, ::1] out = result        # OUT
    write_debit(&values[0, 0, 0], &g, tasks, task_size, size, stretch, leaves, age, rule, &out[0, 0, 0])
    return result


cdef int write_debit(const unsigned int* values, const Grid* g, object tasks, object task_size, object size, object stretch,
                     object leaves, object age, str rule, unsigned int* out) except -1:
    """Write the result of `debit` to `out`."""
    cdef _Debts debts = _Debts(tasks, task_size, leaves)
    cdef const double[::1] w = doubles(np.atleast_1d(np.asarray(size)), "size")
    cdef const double[::1] s = doubles(np.atleast_1d(np.asarray(stretch)), "stretch")
    cdef Py_ssize_t i, k, b, at, ns = g.n_stretch, na = g.n_task_size
    check_lengths(debts.n, w.shape[0], "tasks", "size")
    check_lengths(debts.n, s.shape[0], "tasks", "stretch")
    cdef const double[::1] ages = np.zeros(debts.n) if age is None else doubles(np.atleast_1d(np.asarray(age)), "age")
    check_lengths(debts.n, ages.shape[0], "tasks", "age")
    check_array(ages, "age", NOT_NEGATIVE)
    check_array(w, "size", POSITIVE)
    check_array(s, "stretch", NOT_NEGATIVE)
    cdef bint takes_closure = rule == "subtree"
    if not takes_closure and rule != "printed":
        raise ValueError(f"rule must be 'subtree' or 'printed', got {rule!r}")
    cdef unsigned int[::1] drops = np.empty(na, dtype=np.uint32)
    cdef double[::1] limits = np.full(ns, np.inf)
    for k in range(na):
        drops[k] = debts.capped_drop(g.task_size[k]) if takes_closure else debts.printed_drop(g.task_size[k])
    with nogil:
        if takes_closure:
            for i in range(ns):
                for b in range(debts.n):
                    if (debts.tasks[b] > 0 and g.stretch[i] < s[b]
                            and w[b] - ages[b] / g.stretch[i] < limits[i]):
                        limits[i] = w[b] - ages[b] / g.stretch[i]
            debit_cells(values, 0, out, g, &drops[0], &limits[0])
        else:
            for i in range(ns * g.n_size):
                for k in range(na):
                    at = i * na + k
                    out[at] = values[at] - drops[k] if values[at] > drops[k] else 0
    return 0


# --- calls of compiled handlers --------------------------------------------------------------------

cdef int aggregate_rows(const unsigned int* rows, long long children, long long cells, unsigned int* out) noexcept:
    """Write the result of `aggregate`."""
    if children == 0:
        memset(out, 0, cells * sizeof(unsigned int))
    elif children == 1:
        memcpy(out, rows, cells * sizeof(unsigned int))
    else:
        add_children(rows, children, cells, out)
    return 0


cdef int check_counts(const long long* values, long long n, str name) except -1:
    cdef Py_ssize_t k
    for k in range(n):
        if values[k] < 0:
            raise ValueError(f"{name}[{k}] must be >= 0, got {values[k]}")
    return 0


cdef long long stretch_of_tasks(const long long* totals, long long n, long long n_tasks) except -1:
    """Return the result of `lowest_stretch`, `n` for None."""
    check_counts(totals, n, "totals")
    return find_stretch(<const unsigned long long*> totals, n, n_tasks)


cdef struct Vector:
    const void* values
    long long n                         # -1: the argument is left out


cdef object whole_numbers(Vector vector):
    return np.array(<const long long[:vector.n]> vector.values) if vector.n else np.empty(0, np.int64)


cdef object numbers(Vector vector):
    return np.array(<const double[:vector.n]> vector.values) if vector.n else np.empty(0)


cdef int debit_dispatches(const unsigned int* values, const Grid* g, const Vector* of, long long leaves,
                          long long is_printed, unsigned int* out) except -1:
    """Write the result of `debit`; `of` has the tasks, task sizes, sizes, stretches and ages of the dispatches."""
    return write_debit(values, g, whole_numbers(of[0]), numbers(of[1]), numbers(of[2]), numbers(of[3]), leaves,
                       None if of[4].n < 0 else numbers(of[4]), "printed" if is_printed else "subtree", out)


cdef int split_tasks(const long long* available, long long n, long long n_tasks, long long* share) except -1:
    """Write the result of `split` to `share`, which is zero."""
    check_counts(available, n, "available")
    return divide(<const unsigned long long*> available, n, n_tasks, share)


#: Name -> address of a C function that compiled handlers call by this name.
KERNELS = {
    "gridcore_aggregate": <size_t> &aggregate_rows,
    "gridcore_debit": <size_t> &debit_dispatches,
    "gridcore_lookup": <size_t> &find,
    "gridcore_split": <size_t> &split_tasks,
    "gridcore_stretch": <size_t> &stretch_of_tasks,
}
