"""The availability information of all nodes of a tree, and the messages that follow from it.

One object has, for every edge of the tree, the parent's knowledge of the child (its last summary, its
minimum stretch, and the later dispatches to it as *debts*), and for every node its last report.
It has no clock and sends nothing: `gridcore.fair_tree.nodes` passes it one message, or one node that
may report, at a time, and sends the messages that follow.

Nodes are numbered as in a heap: routers 0 .. n-2, leaves n-1 .. 2n-2, children of k are 2k+1 and 2k+2.

A summary in flight is a handle to a payload, which was computed when the summary was sent.  Payloads are
reference-counted: the sender (which compares it with its next summary), the message and the parent share one.
Debts are applied only when a summary is read.

Each summary has a release: the instant for which it was sampled.  The application of a request may have been
released earlier, because the request took a while or is for lost tasks.  Its deadline at stretch S is r + S w,
so a summary sampled for an application released at t > r is read at size w - (t - r) / S (A.1).

Source: Celaya & Marchal, sections 5.3 and 6, with corrections to Algorithm 4 and to the conservative
update (debts, and what a summary echoes).  The node program is `gridsim.schedulers.fair_tree.node`.
"""

from libc.math cimport INFINITY, NAN, ceil, floor, fmax, fmin, isfinite, isnan
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from gridcore.common.arguments cimport (
    FINITE, POSITIVE, _Guard, check_array, check_lengths, doubles, guard, indices, doubles_copy,
)
from gridcore.common.instants cimport NEVER
from gridcore.fair_tree.debts cimport (Debt, Debts, debts_add, debts_drops, debts_free, debts_make,
                                     debts_settle)
from gridcore.common.memory cimport allocate_aligned, free_aligned, large_pages, prefetch
from gridcore.fair_tree.payloads cimport (
    CHUNK, PayloadHeader, Pool, payloads_add, payloads_add_narrow, payloads_add_reference, payloads_at, payloads_cell,
    payloads_clear, payloads_copy, payloads_drop, payloads_equal, payloads_free, payloads_get, payloads_has_place,
    payloads_header, payloads_in_use, payloads_is_used, payloads_make, payloads_prefetch, payloads_recount,
    payloads_release, payloads_wide, payloads_zeros, pool_at, pool_grow,
)
from gridcore.fair_tree.summaries cimport debit_cells, debit_narrow_cells, quotient_up

import math

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid
from gridcore.common.state import LATEST, ArrayEntry, ArraysEntry, NumberEntry, TableEntry, read, read_only

__all__ = ["COVERS_BYTES", "DECISION", "LARGEST_BYTES", "MADE_BYTES", "RULES", "SummaryTree"]


#: A decision of a router: `sample` is the index of a stretch in the grid (-1 if none hosts the request), and
#: `guaranteed` is 1 if there is room for all tasks.
DECISION = np.dtype([("node", "i8"), ("application", "i8"), ("tasks", "i8"), ("sample", "i8"),
                     ("guaranteed", "i8"), ("hops", "i8")])
#: Bytes that rules of acceptance add to messages: for a largest minimum stretch, for the number of leaves in a
#: summary, and for the time of a copy of the root's summary.
LARGEST_BYTES, COVERS_BYTES, MADE_BYTES = 8, 4, 8
#: The rules of acceptance, see `SummaryTree`.
RULES = ("minimum", "root", "largest", "either")
# Relative tolerance when a stretch is compared with a limit; it allows for rounding errors in samples.
cdef double _TOLERANCE = 1e-9
# `Node` and `Outlook` as structs of NumPy, and a debt of a node.
_NODE = np.dtype([
    ("summary", "i4"), ("debt", "i4"), ("minimum", "f8"), ("last_sent_minimum", "f8"), ("last_summary_number", "i8"),
    ("requests_sent", "i8"), ("n_leaves", "i8"), ("total_speed", "f8"), ("sample_time", "i8"), ("last_report", "i4"),
    ("report_requested", "u1"), ("presence", "u1"), ("unused", "u2"), ("last_report_minimum", "f8"), ("outer_minimum", "f8"),
    ("reports_sent", "i8"), ("last_request", "i8"), ("free_at", "i8"), ("due_at", "i8"), ("oldest_change", "i8")])
_OUTLOOK = np.dtype([
    ("largest", "f8"), ("last_sent_largest", "f8"), ("covers", "i8"), ("last_sent_copy", "i8"),
    ("last_report_largest", "f8"), ("outer_largest", "f8"), ("last_report_covers", "i8"), ("copy_made_at", "i8"),
    ("copy", "i4"), ("unused", "i4")])
_DEBT = np.dtype([("node", "i8"), ("sequence", "i8"), ("tasks", "i8"), ("task_size", "f8"), ("size", "f8"),
                  ("stretch", "f8"), ("release", "f8")])
_STATE = {
    "below_window": NumberEntry(), "above_window": NumberEntry(),
    "nodes": TableEntry({"presence": (0, 3), "free_at": (0, 2 * LATEST + 1)}, "nodes", _NODE),
    "debts": TableEntry({"node": (0, "nodes"), "tasks": (0, None)}, None, _DEBT),
}

cdef Node _unknown_node(double unknown) noexcept nogil:
    """Return a node that has sent and received nothing."""
    cdef Node node
    node.summary, node.debt, node.last_report = -1, -1, -1
    node.last_summary_number, node.requests_sent, node.reports_sent, node.last_request = -1, 0, 0, -1
    node.minimum, node.outer_minimum = unknown, unknown
    node.last_sent_minimum, node.last_report_minimum = INFINITY, INFINITY
    node.free_at, node.due_at, node.oldest_change = 0, NEVER, NEVER
    node.report_requested, node.presence, node.unused = False, PRESENT, 0
    node.n_leaves, node.total_speed, node.sample_time = 0, 0.0, NEVER
    return node


cdef Outlook _empty_outlook() noexcept nogil:
    """Return the outlook of a node that has sent and received nothing."""
    cdef Outlook outlook
    outlook.largest = outlook.last_sent_largest = outlook.last_report_largest = outlook.outer_largest = 0.0
    outlook.covers = outlook.last_report_covers = 0
    outlook.last_sent_copy = outlook.copy_made_at = -1
    outlook.copy, outlook.unused = -1, 0
    return outlook


cdef class SummaryTree:
    """The availability of the leaves of a tree, as each router knows it.

    Parameters
    ----------
    grid
        The `SummaryGrid` on which every summary is sampled.
    speed
        float64[leaves], Mflop/s.
    nbytes
        Bytes of a summary message.
    rate
        Bytes/s that a node may spend on summaries, 0 for no limit.
    release, size, task_size
        float64[applications], s, Mflop, Mflop; see `add_applications`.
    hold_off
        ns that a router waits before it reports.
    accept
        The rule by which a router accepts a request at stretch S.  "minimum": S <= bound * (minimum stretch
        of the platform); "root": S <= bound * (what the root could promise); "largest": S <= bound * (largest
        minimum stretch of a leaf); "either": by "root", or by "largest" with a bound of 1.
    bound
        The factor of that rule; 0: only the root accepts requests.
    unknown
        The value that a router assumes for a minimum stretch that it does not know yet, of the rest of the tree or
        of a child that has not reported; with 0, requests go up.
    common_release
        Whether summaries are sampled for a release in the future, which all leaves share for some time.
        Summaries for different releases are then not added, and an application released later than the
        release of a summary loses the work that the leaves may do in between.  By default summaries are
        sampled for the current instant.
    """

    def __cinit__(self, grid: SummaryGrid, speed: ArrayLike, *, release: ArrayLike, size: ArrayLike,
                  task_size: ArrayLike, long long nbytes, double rate=0.0, long long hold_off=0, double bound=2.0,
                  bint common_release=False, accept: str = "minimum",
                  double unknown=INFINITY):
        cdef const double[::1] s = doubles_copy(speed, "speed")
        check_array(s, "speed", POSITIVE)
        cdef Py_ssize_t n = s.shape[0], m = 2 * n - 1, k
        if n < 1:
            raise ValueError("speed must have at least one entry, got none")
        if not (rate >= 0 and bound >= 0 and hold_off >= 0 and nbytes >= 0):
            raise ValueError(f"rate, bound, hold_off and nbytes must be >= 0, got {rate}, {bound}, {hold_off}, "
                             f"{nbytes}")
        if type(grid) is not SummaryGrid:
            raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
        cdef double gap = nbytes / rate * 1e9 if rate > 0 else 0.0
        if hold_off > 2**61:
            raise ValueError(f"hold_off must be at most {2**61} ns, got {hold_off}")
        if not gap < 2.0**62:
            raise ValueError(f"rate must allow a summary of {nbytes} bytes within 2**62 ns, got {rate}")
        self.grid = grid
        self.gs, self.gw, self.ga = grid.stretch, grid.size, grid.task_size
        self.g.n_stretch, self.g.n_size, self.g.n_task_size = grid.shape
        self.g.stretch, self.g.size, self.g.task_size = &self.gs[0], &self.gw[0], &self.ga[0]
        self.longest = self.ga[self.g.n_task_size - 1]
        self.cells = grid.cells
        self.leaves, self.nodes, self.first_leaf = n, m, n - 1
        if accept not in RULES:
            raise ValueError(f"accept must be one of {', '.join(RULES)}, got {accept!r}")
        self.accept = RULES.index(accept)
        self.by_root, self.by_largest = self.accept in (ROOT, EITHER), self.accept in (LARGEST, EITHER)
        self.bound, self.hold_off, self.unknown = bound, hold_off, unknown
        self.gap = <long long> ceil(gap)
        self.common_release = common_release
        self.release = self.size = self.task_size = np.zeros(0)
        self.size_sample = self.task_size_sample = np.zeros(0, np.int64)
        self._add_applications(release, size, task_size)
        self.speed = s
        self.node = <Node*> allocate_aligned(m * sizeof(Node))  # aligned: each half of a node fills one cache line
        large_pages(self.node, m * sizeof(Node))
        for k in range(m):
            self.node[k] = _unknown_node(unknown)
        self.node[0].outer_minimum = INFINITY    # the root has no nodes outside of its subtree
        self.total_speed = math.fsum(s)
        if self.accept != MINIMUM:
            self.outlook = <Outlook*> allocate_aligned(m * sizeof(Outlook))
            for k in range(m):
                self.outlook[k] = _empty_outlook()
        for k in range(m - 1, -1, -1):
            self._count_leaves(k)
        self.scratch = <unsigned int*> malloc(4 * self.cells * sizeof(int))
        self.drops = <unsigned int*> malloc(self.g.n_task_size * sizeof(int))
        self.limits = <double*> malloc(self.g.n_stretch * sizeof(double))
        self.capacities = <long long*> malloc(3 * self.g.n_stretch * sizeof(long long))
        if self.scratch == NULL or self.drops == NULL or self.limits == NULL or self.capacities == NULL:
            raise MemoryError
        self.left = self.scratch + self.cells
        self.right = self.left + self.cells
        self.sum = self.right + self.cells
        payloads_make(&self.payloads, self.cells, self.g.n_size * self.g.n_task_size)
        debts_make(&self.debts)

    def __dealloc__(self):
        payloads_free(&self.payloads)
        debts_free(&self.debts)
        free_aligned(self.node)
        if self.outlook != NULL:
            free_aligned(self.outlook)
        free(self.scratch)
        free(self.drops)
        free(self.limits)
        free(self.capacities)

    def set_releases(self, release: ArrayLike):
        """Set the releases (float64[k], s) of the first k applications."""
        cdef _Guard access = guard(&self.in_call)
        cdef const double[::1] r = doubles(release, "release")
        if r.shape[0] > self.release.shape[0]:
            raise ValueError(f"release must have at most {self.release.shape[0]} entries, got {r.shape[0]}")
        np.asarray(self.release)[:r.shape[0]] = r

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike):
        """Append applications: release (s), total size (Mflop), task size (Mflop); indices are consecutive."""
        cdef _Guard access = guard(&self.in_call)
        self._add_applications(release, size, task_size)

    cdef _add_applications(self, release, size, task_size):
        cdef const double[::1] r = doubles(release, "release"), w = doubles(size, "size")
        cdef const double[::1] a = doubles(task_size, "task_size")
        check_array(r, "release", FINITE)
        check_array(w, "size", POSITIVE)
        check_array(a, "task_size", POSITIVE)
        check_lengths(w.shape[0], a.shape[0], "size", "task_size")
        check_lengths(w.shape[0], r.shape[0], "size", "release")
        self.release = np.concatenate((self.release, r))
        self.size = np.concatenate((self.size, w))
        self.task_size = np.concatenate((self.task_size, a))
        # samples for each application: the largest size <= its size, and the smallest task size >= its task size
        self.size_sample = np.searchsorted(self.grid.size, self.size, side="right") - 1
        self.task_size_sample = np.searchsorted(self.grid.task_size, self.task_size, side="left")

    cdef double _release_of(self, Py_ssize_t child, double now) noexcept nogil:
        """Return the release (s) for which the summary of `child` is valid at `now` s."""
        cdef double release = payloads_release(&self.payloads, self.node[child].summary)[0]
        return release if self.common_release else fmin(release, now)  # inf for idle leaves, whose summaries do not change

    cdef void _compute_debit(self, Py_ssize_t child, double now) noexcept nogil:
        """Write the debit of the summary of `child`, which follows from its debts, to `drops` and `limits`."""
        debts_drops(&self.debts, self.node[child].debt, max(1, self.node[child].n_leaves),
                     self._release_of(child, now), &self.g, self.drops, self.limits)

    cdef const unsigned int* _read(self, Py_ssize_t child, double now, unsigned int* capacity) noexcept nogil:
        """Return the debited summary of `child`, a lower bound at `now` s, without its zeros."""
        cdef int handle = self.node[child].summary
        if handle < 0:
            return capacity
        if self.node[child].debt < 0:
            return payloads_get(&self.payloads, handle, capacity)
        self._compute_debit(child, now)
        debit_cells(payloads_get(&self.payloads, handle, self.scratch), payloads_zeros(&self.payloads, handle), capacity,
                    &self.g, self.drops, self.limits)
        return capacity

    cdef const unsigned short* _read_narrow(self, Py_ssize_t child, double now, unsigned short* capacity) noexcept nogil:
        """Return the debited summary of a child whose summary, if it has reported, has cells of 16 bits."""
        cdef int handle = self.node[child].summary
        cdef const unsigned short* cells
        if handle < 0:
            return capacity
        cells = <const unsigned short*> payloads_at(&self.payloads, handle)
        if self.node[child].debt < 0:
            return cells
        self._compute_debit(child, now)
        debit_narrow_cells(cells, payloads_zeros(&self.payloads, handle), capacity, &self.g, self.drops, self.limits)
        return capacity

    # -- requests -----------------------------------------------------------------------------------------

    cdef bint _route(self, const Request* row, long long now, Request* out, Py_ssize_t* n_out,
                     Decision* decision) except -1:
        """Decide at `now` ns on a request at a router.

        A request from the parent (sequence >= 0) is split between the children.  A climbing request is split at
        the root, or if the rule accepts the smallest sample S that hosts all its tasks; otherwise it goes on to the
        parent.  If no sample hosts all tasks, each child gets the tasks that the last sample guarantees, and the
        remainder is divided in proportion to speed.  A sample at which the deadline has passed hosts no task.
        """
        cdef Request r = row[0]
        cdef Py_ssize_t u = r.node, i, j, child, sample = -1
        cdef long long[2] capacity
        cdef long long[2] share
        cdef long long remainder
        cdef double limit, part, speed
        cdef Debt debt
        if r.sequence >= 0:
            self.node[u].last_request = max(self.node[u].last_request, r.sequence)
            self.node[u].report_requested = 1
            if not isnan(r.minimum):
                self.node[u].outer_minimum = r.minimum
            self._learn_outlook(u, r.largest_minimum, r.copy, r.copy_time)
        capacity[0] = capacity[1] = 0
        if self._columns(u, r.application, now / 1e9):
            # the total grows with S, so the first S that hosts the request is the result of Algorithm 4
            for i in range(self.g.n_stretch):
                capacity[0], capacity[1] = self.capacities[i], self.capacities[self.g.n_stretch + i]
                if capacity[0] + capacity[1] >= r.tasks:
                    sample = i
                    break
        if r.sequence < 0 and u > 0:
            limit = self._limit(u, row, now / 1e9)
            if sample < 0 or isnan(limit) or self.gs[sample] > limit:
                r.sender = u
                r.node = (u - 1) // 2
                r.hops += 1
                out[0] = r
                n_out[0] += 1
                return False
        if sample >= 0:
            self._divide(r.tasks, capacity, share)
            self.below_window += sample == 0
        else:
            self.above_window += 1
            remainder = r.tasks - capacity[0] - capacity[1]
            part = 0.5                  # the share if neither child has a leaf below it
            speed = self.node[2 * u + 1].total_speed + self.node[2 * u + 2].total_speed
            if speed > 0.0:
                part = self.node[2 * u + 1].total_speed / speed
            share[0] = <long long> floor(remainder * part + 0.5)
            share[1] = capacity[1] + remainder - share[0]
            share[0] += capacity[0]
        if u == 0 and self.by_root:
            self._renew_copy(now)
        decision.node = u
        decision.application = r.application
        decision.tasks = r.tasks
        decision.sample = sample
        decision.guaranteed = sample >= 0
        decision.hops = -1 if r.sequence >= 0 else r.hops
        i = 0
        for j in range(2):
            if share[j] == 0:
                continue
            child = 2 * u + 1 + j
            self.node[child].requests_sent += 1
            debt.sequence, debt.tasks = self.node[child].requests_sent, share[j]
            debt.task_size, debt.size = self.task_size[r.application], self.size[r.application]
            debt.release = self.release[r.application]
            # without a guarantee, the child may miss deadlines at any sample
            debt.stretch = self.gs[sample] if sample >= 0 else INFINITY
            debts_add(&self.debts, &self.node[child].debt, &debt)
            # the minimum stretch of the rest of the tree, as seen from this child
            self.node[child].last_sent_minimum = min(self.node[u].outer_minimum, self.node[2 * u + 2 - j].minimum)
            out[i].node = child
            out[i].sender = u
            out[i].application = r.application
            out[i].tasks = share[j]
            out[i].sequence = self.node[child].requests_sent
            out[i].minimum = self.node[child].last_sent_minimum
            out[i].hops = r.hops
            self._fill_outlook(u, child, False, &out[i].largest_minimum, &out[i].copy, &out[i].copy_time)
            i += 1
        n_out[0] += i
        return True

    cdef void _prefetch_request(self, const Request* row) noexcept nogil:
        """Prefetch the cells that routing `row`, which may be invalid, looks up."""
        cdef Py_ssize_t child, i, cell, width, step, row_cells = self.g.n_size * self.g.n_task_size
        if (not 0 <= row.node < self.first_leaf or not 0 <= row.application < self.size.shape[0]
                or self.size_sample[row.application] < 0):
            return
        cell = self.size_sample[row.application] * self.g.n_task_size + self.task_size_sample[row.application]
        for child in range(2 * row.node + 1, 2 * row.node + 3):
            if self.node[child].summary >= 0:
                width = self.payloads.pool[self.node[child].summary & 1].nbytes // self.cells
                step = max(1, 64 // (row_cells * width))  # a cache line may hold the cells of several stretches
                i = 0
                while i < self.g.n_stretch:
                    prefetch(<char*> payloads_at(&self.payloads, self.node[child].summary)
                             + (cell + i * row_cells) * width)
                    i += step

    cdef double _minimum(self, Py_ssize_t u) noexcept nogil:
        """Return the smallest minimum stretch of which router `u` knows."""
        return min(self.node[u].outer_minimum, min(self.node[2 * u + 1].minimum, self.node[2 * u + 2].minimum))

    cdef double _limit(self, Py_ssize_t u, const Request* row, double now) noexcept nogil:
        cdef double limit = NAN, value
        if self.accept == MINIMUM:
            value = self._minimum(u)
            return self.bound * value if isfinite(value) else NAN
        if self.bound == 0.0:
            return 0.0
        if self.by_root:
            value = self._promise(u, row.application, row.tasks, now)
            if not isnan(value):
                limit = self.bound * value
        if self.by_largest:
            value = (1.0 if self.by_root else self.bound) * fmax(self.outlook[u].outer_largest, self._largest_below(u))
            limit = value if isnan(limit) else fmax(limit, value)
        return limit * (1.0 + _TOLERANCE)

    cdef double _largest_below(self, Py_ssize_t u) noexcept nogil:
        """Return the largest minimum stretch of a leaf below router `u`, as far as it knows."""
        return fmax(self.outlook[2 * u + 1].largest, self.outlook[2 * u + 2].largest)

    cdef double _promise(self, Py_ssize_t u, Py_ssize_t application, long long tasks, double now) noexcept nogil:
        """Return the smallest sample at which the copy of the root's summary hosts `tasks` tasks; nan for none."""
        cdef int handle = self.outlook[u].copy
        cdef long long* capacities = self.capacities + 2 * self.g.n_stretch
        cdef double release
        cdef Py_ssize_t i
        if (handle < 0 or self.size_sample[application] < 0
                or self.task_size_sample[application] >= self.g.n_task_size):
            return NAN
        release = payloads_release(&self.payloads, handle)[0]
        self._look_up(handle, False, release if self.common_release else fmin(release, now), self.leaves,
                      self.total_speed, application, now, capacities)
        for i in range(self.g.n_stretch):
            if capacities[i] >= tasks:
                return self.gs[i]
        return NAN

    cdef void _learn_outlook(self, Py_ssize_t u, double largest, long long copy, long long made) noexcept nogil:
        """Store the information about the rest of the tree in a message from the parent of router `u`."""
        if self.by_largest and not isnan(largest):
            self.outlook[u].outer_largest = largest
        if copy < 0:
            return
        if not self.by_root or made <= self.outlook[u].copy_made_at:
            payloads_drop(&self.payloads, <int> copy)
            return
        payloads_drop(&self.payloads, self.outlook[u].copy)
        self.outlook[u].copy, self.outlook[u].copy_made_at = <int> copy, made

    cdef int _renew_copy(self, long long now) except -1:
        """Renew the root's copy of its undebited summary, if the summary covers all leaves."""
        cdef Py_ssize_t child, left_zeros, right_zeros, last = -1, n = 0
        cdef long long present_leaves = 0, covers = 0
        cdef int handle = -1, left = self.node[1].summary, right = self.node[2].summary
        cdef double release = -INFINITY
        for child in range(1, 3):
            covers += self.outlook[child].covers
            if self.node[child].presence == GONE:
                continue
            if self.node[child].summary < 0:
                return 0
            present_leaves += self.node[child].n_leaves
            if n and self.common_release and payloads_release(&self.payloads, self.node[child].summary)[0] != release:
                return 0
            release = fmax(release, payloads_release(&self.payloads, self.node[child].summary)[0])
            last, n = child, n + 1
        if n == 0 or covers < present_leaves:
            return 0
        if n == 1:
            handle = self.node[last].summary
            payloads_add_reference(&self.payloads, handle)
        else:
            left_zeros, right_zeros = payloads_zeros(&self.payloads, left), payloads_zeros(&self.payloads, right)
            if not (left & 1 or right & 1):
                handle = payloads_add_narrow(
                    &self.payloads, <unsigned short*> payloads_at(&self.payloads, left), left_zeros,
                    <unsigned short*> payloads_at(&self.payloads, right), right_zeros)
            if handle < 0:
                handle = payloads_add(
                    &self.payloads, payloads_get(&self.payloads, left, self.left), left_zeros,
                    payloads_get(&self.payloads, right, self.right), right_zeros, self.sum)
            payloads_release(&self.payloads, handle)[0] = release
        payloads_drop(&self.payloads, self.outlook[0].copy)
        self.outlook[0].copy, self.outlook[0].copy_made_at = handle, now
        return 0

    cdef void _fill_outlook(self, Py_ssize_t u, Py_ssize_t child, bint force, double* largest, long long* copy,
                    long long* made) noexcept nogil:
        """Fill in the message from router `u` to a child about the rest of the tree, except the minimum stretch.

        Parameters
        ----------
        force
            Whether to send the copy of the root's summary even if the child has it.
        """
        largest[0], copy[0], made[0] = NAN, -1, -1
        if self.outlook == NULL or child >= self.first_leaf:
            return
        if self.by_largest:
            largest[0] = fmax(self.outlook[u].outer_largest, self.outlook[4 * u + 3 - child].largest)
            self.outlook[child].last_sent_largest = largest[0]
        if self.by_root and self.outlook[u].copy >= 0 and (
                force or self.outlook[u].copy_made_at > self.outlook[child].last_sent_copy):
            self.outlook[child].last_sent_copy = made[0] = self.outlook[u].copy_made_at
            copy[0] = self.outlook[u].copy
            payloads_add_reference(&self.payloads, self.outlook[u].copy)

    cdef bint _columns(self, Py_ssize_t u, Py_ssize_t application, double now) noexcept nogil:
        """Write the tasks that each child of `u` can take to `capacities`; False if the application is beyond the grid."""
        if self.size_sample[application] < 0 or self.task_size_sample[application] >= self.g.n_task_size:
            memset(self.capacities, 0, 2 * self.g.n_stretch * sizeof(long long))
            return False
        self._column(2 * u + 1, application, now, self.capacities)
        self._column(2 * u + 2, application, now, self.capacities + self.g.n_stretch)
        return True

    cdef void _column(self, Py_ssize_t child, Py_ssize_t application, double now, long long* capacities) noexcept nogil:
        """Compute how many tasks of an application `child` can take at `now` s, at each stretch sample.

        The results equal cells of `_read`, but only these cells are debited: cells are monotone before the debit, so
        the closure takes values only from the row of a cell.
        """
        cdef Py_ssize_t i
        cdef int handle = self.node[child].summary
        cdef bint has_debts = self.node[child].debt >= 0
        if handle < 0:
            for i in range(self.g.n_stretch):
                capacities[i] = 0
            return
        if has_debts:
            self._compute_debit(child, now)
        self._look_up(handle, has_debts, self._release_of(child, now), max(1, self.node[child].n_leaves),
                      self.node[child].total_speed, application, now, capacities)

    cdef void _look_up(self, int handle, bint has_debts, double at, long long leaves, double total_speed,
                       Py_ssize_t application, double now, long long* capacities) noexcept nogil:
        """Compute how many tasks of an application a summary of `leaves` leaves, sampled for release `at` (s), hosts.

        Parameters
        ----------
        has_debts
            Whether to debit the summary by `drops` and `limits`.
        """
        cdef Py_ssize_t i, j, k, row, ia = self.task_size_sample[application]
        cdef Py_ssize_t first = payloads_zeros(&self.payloads, handle) // self.payloads.row
        cdef double w = self.size[application], age = now - self.release[application], lost = 0.0
        cdef double shift = self.release[application] - at
        cdef long long n_tasks
        if shift > 0.0 and self.common_release:
            # each leaf loses speed * shift, and at most one task of the longest kind, in whole tasks of size a
            lost = leaves - 1 + quotient_up(total_speed * shift + leaves * self.longest, self.ga[ia])
        elif shift > 0.0:
            shift = 0.0                 # as if the summary had been sampled for this release
        memset(capacities, 0, self.g.n_stretch * sizeof(long long))
        for i in range(first, self.g.n_stretch):
            if self.gs[i] * w <= age:
                continue                # the deadline has passed
            j = self.size_sample[application]
            if shift != 0.0:
                j = self.g.n_size - 1
                while j >= 0 and self.gw[j] > w + shift / self.gs[i]:
                    j -= 1
            if has_debts:
                while j >= 0 and self.gw[j] > self.limits[i]:
                    j -= 1
            if j < 0:
                continue
            row = (i * self.g.n_size + j) * self.g.n_task_size
            n_tasks = payloads_cell(&self.payloads, handle, row + ia)
            if has_debts:
                n_tasks -= self.drops[ia]
                for k in range(ia + 1, self.g.n_task_size):
                    n_tasks = max(n_tasks, <long long> payloads_cell(&self.payloads, handle, row + k) - self.drops[k])
            capacities[i] = max(0, n_tasks) if lost == 0.0 else <long long> max(0.0, n_tasks - lost)

    cdef int _divide(self, long long tasks, const long long* capacity, long long* share) except -1:
        """Divide `tasks` <= room[0] + room[1] between two children by largest remainder, as `gridcore.split`."""
        cdef unsigned long long total = capacity[0] + capacity[1], product, rest
        if total == 0:
            share[0] = share[1] = 0
            return 0
        if tasks < 2**31:               # the product fits into 64 bits, since room[0] < 2**32
            product = <unsigned long long> tasks * <unsigned long long> capacity[0]
            share[0], rest = product // total, product % total
        else:
            quotient, remainder = divmod(int(tasks) * int(capacity[0]), int(total))
            share[0], rest = quotient, remainder
        share[0] += 2 * rest >= total and rest > 0
        share[1] = tasks - share[0]
        return 0

    cdef void _acknowledge(self, const Request* row) noexcept nogil:
        self.node[row.node].last_request = max(self.node[row.node].last_request, row.sequence)
        self.node[row.node].report_requested = 1

    # -- summaries ----------------------------------------------------------------------------------------

    cdef bint _receive(self, const Summary* row) noexcept nogil:
        """Store a summary; return False if it is discarded, because it is outdated or its sender has left."""
        cdef Py_ssize_t child = row.sender, parent = row.node
        if row.sequence <= self.node[child].last_summary_number or self.node[child].presence == GONE:
            payloads_drop(&self.payloads, <int> row.payload)
            return False
        self.node[child].last_summary_number = row.sequence
        payloads_drop(&self.payloads, self.node[child].summary)
        self.node[child].summary = <int> row.payload
        self.node[child].minimum, self.node[child].sample_time = row.minimum, row.sample_time
        if self.outlook != NULL:
            self.outlook[child].largest, self.outlook[child].covers = row.largest_minimum, row.covers
        debts_settle(&self.debts, &self.node[child].debt, row.echo)
        self.node[parent].oldest_change = min(self.node[parent].oldest_change, row.since)
        return True

    cdef void _prefetch_nodes(self, const Summary* row) noexcept nogil:
        """Prefetch the sender of a summary, which may be invalid, its sibling and its parent."""
        if not 0 < row.sender < self.nodes:
            return
        prefetch(&self.node[row.sender])
        prefetch(&self.node[((row.sender - 1) ^ 1) + 1])
        prefetch(&self.node[(row.sender - 1) // 2].last_report)

    cdef void _prefetch_payloads(self, const Summary* row) noexcept nogil:
        """Prefetch a summary, its sibling, and the headers of the summaries that they and their sum replace."""
        cdef int old, sibling, last_report
        if not 0 < row.sender < self.nodes:
            return
        old, sibling = self.node[row.sender].summary, self.node[((row.sender - 1) ^ 1) + 1].summary
        last_report = self.node[(row.sender - 1) // 2].last_report
        if old >= 0:
            prefetch(payloads_header(&self.payloads, old))
        if last_report >= 0:
            prefetch(payloads_header(&self.payloads, last_report))
        if sibling >= 0:
            payloads_prefetch(&self.payloads, sibling)
        if payloads_has_place(&self.payloads, row.payload):
            payloads_prefetch(&self.payloads, <int> row.payload)

    cdef long long _turn(self, Py_ssize_t m, long long now) noexcept nogil:
        cdef long long due
        if m == 0 or self.node[m].presence:
            return -1                          # the root has no parent
        if m >= self.first_leaf:
            self.node[m].oldest_change = min(self.node[m].oldest_change, now)
        due = self.node[m].due_at
        if due == NEVER:
            due = max(self.node[m].free_at, now + (self.hold_off if m < self.first_leaf else 0))
            if due > now:
                self.node[m].due_at = due
                return due
        elif due > now:
            return -1
        self.node[m].due_at = NEVER
        return now

    cdef int _sum(self, Py_ssize_t m, double now, double* least) except -2:
        cdef Py_ssize_t left_child = 2 * m + 1, right_child = 2 * m + 2, left_zeros, right_zeros
        cdef int left = self.node[left_child].summary, right = self.node[right_child].summary, handle = -1
        cdef double left_release = self._release_in_sum(left_child, now) if left >= 0 else -INFINITY
        cdef double right_release = self._release_in_sum(right_child, now) if right >= 0 else left_release
        if self.common_release and left >= 0 and left_release != right_release:
            return -1
        left_zeros, right_zeros = payloads_zeros(&self.payloads, left), payloads_zeros(&self.payloads, right)
        if not (payloads_wide(left) or payloads_wide(right)):
            handle = payloads_add_narrow(
                &self.payloads, self._read_narrow(left_child, now, <unsigned short*> self.left), left_zeros,
                self._read_narrow(right_child, now, <unsigned short*> self.right), right_zeros)
        if handle < 0:
            handle = payloads_add(
                &self.payloads, self._read(left_child, now, self.left), left_zeros,
                self._read(right_child, now, self.right), right_zeros, self.sum)
        payloads_release(&self.payloads, handle)[0] = (
            0.0 if left < 0 and right < 0 else fmax(left_release, right_release))
        least[0] = min(self.node[left_child].minimum, self.node[right_child].minimum)
        return handle

    cdef double _release_in_sum(self, Py_ssize_t child, double now) noexcept nogil:
        """Return the release (s) of the summary of `child` in a sum: `_release_of` if the child has debts."""
        return (self._release_of(child, now) if self.node[child].debt >= 0
                else payloads_release(&self.payloads, self.node[child].summary)[0])

    cdef bint _make_report(self, Py_ssize_t m, long long now, int handle, double least, double largest,
                   Summary* out) noexcept nogil:
        """Fill in the summary that a node sends to its parent; return False if it need not be sent.

        An unchanged summary is sent only if the node has received a request since its last summary, since the parent
        must remove the request from the debts.
        """
        cdef int last_report = self.node[m].last_report
        cdef long long covers = 0
        cdef bint is_unchanged = True
        if self.by_root:
            covers = 1 if m >= self.first_leaf else self.outlook[2 * m + 1].covers + self.outlook[2 * m + 2].covers
        if self.outlook != NULL:
            is_unchanged = (largest == self.outlook[m].last_report_largest
                            and covers == self.outlook[m].last_report_covers)
        if (is_unchanged and last_report >= 0 and not self.node[m].report_requested
                and least == self.node[m].last_report_minimum
                and payloads_release(&self.payloads, handle)[0] == payloads_release(&self.payloads, last_report)[0]
                and payloads_equal(&self.payloads, handle, last_report)):
            payloads_drop(&self.payloads, handle)
            self.node[m].oldest_change = NEVER
            return False
        payloads_add_reference(&self.payloads, handle)          # for the message; the sender keeps the other reference
        payloads_drop(&self.payloads, last_report)
        self.node[m].last_report = handle
        self.node[m].last_report_minimum = least
        self.node[m].report_requested = 0
        self.node[m].free_at = now + self.gap
        out.node = (m - 1) // 2
        out.sender = m
        out.payload = handle
        out.sequence = self.node[m].reports_sent
        out.echo = self.node[m].last_request
        out.minimum = least
        out.since = self.node[m].oldest_change
        out.largest_minimum, out.covers, out.sample_time = largest, covers, now
        if m < self.first_leaf:
            out.sample_time = min(self.node[2 * m + 1].sample_time, self.node[2 * m + 2].sample_time)
        if self.outlook != NULL:
            self.outlook[m].last_report_largest, self.outlook[m].last_report_covers = largest, covers
        self.node[m].reports_sent += 1
        self.node[m].oldest_change = NEVER
        return True

    # -- failures -----------------------------------------------------------------------------------------

    def reset(self, nodes: ArrayLike):
        """Return failed `nodes` to the tree with an empty memory.

        A router has lost the summaries and the debts of its children; the children send their next reports even if
        these are unchanged.  The next report of `nodes` acknowledges all earlier requests, which thus leave
        the debts of the parents.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k, m, child
        cdef bint was_gone
        for k in range(u.shape[0]):
            m = u[k]
            was_gone, self.node[m].presence = self.node[m].presence == GONE, PRESENT
            if was_gone:
                self._update_leaves(m)
                self.node[m].minimum = self.unknown
            payloads_drop(&self.payloads, self.node[m].last_report)
            self.node[m].last_report, self.node[m].last_report_minimum = -1, INFINITY
            self.node[m].outer_minimum = self.unknown if m else INFINITY
            self._forget_outlook(m)
            self.node[m].last_request = self.node[m].requests_sent
            self.node[m].report_requested = False
            self.node[m].due_at, self.node[m].oldest_change = NEVER, NEVER
            if m < self.first_leaf:
                for child in range(2 * m + 1, 2 * m + 3):
                    self._forget_child(child)
                    self.node[child].report_requested = True
                    if self.node[child].presence != GONE:
                        self.node[child].minimum = self.unknown

    cdef void _forget_outlook(self, Py_ssize_t m) noexcept nogil:
        """Clear what node m knows about the rest of the tree."""
        if self.outlook == NULL:
            return
        payloads_drop(&self.payloads, self.outlook[m].copy)
        self.outlook[m].copy, self.outlook[m].copy_made_at = -1, -1
        self.outlook[m].outer_largest = self.outlook[m].last_report_largest = 0.0
        self.outlook[m].last_report_covers = 0

    cdef void _forget_child(self, Py_ssize_t child) noexcept nogil:
        """Clear the knowledge that the parent of `child` has about `child`."""
        payloads_drop(&self.payloads, self.node[child].summary)
        self.node[child].summary, self.node[child].minimum, self.node[child].last_sent_minimum = -1, INFINITY, INFINITY
        self.node[child].sample_time = NEVER
        debts_settle(&self.debts, &self.node[child].debt, self.node[child].requests_sent)
        if self.outlook != NULL:
            self.outlook[child].largest = self.outlook[child].last_sent_largest = 0.0
            self.outlook[child].covers, self.outlook[child].last_sent_copy = 0, -1

    def silence(self, nodes: ArrayLike):
        """Stop the reports of `nodes` until `reset`; their parents have not detected the failure yet."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            self.node[u[k]].presence = max(self.node[u[k]].presence, SILENT)

    def leave(self, nodes: ArrayLike):
        """Remove `nodes` from the tree until `reset`; their parents have detected the failure, and forget them."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            self.node[u[k]].presence = GONE
            self._forget_child(u[k])
            self._update_leaves(u[k])

    cdef void _update_leaves(self, Py_ssize_t m) noexcept nogil:
        """Update the number of leaves and the speed below `m`, which left or returned, and below its ancestors."""
        self._count_leaves(m)
        while m > 0:
            m = (m - 1) // 2
            self._count_leaves(m)

    cdef void _count_leaves(self, Py_ssize_t m) noexcept nogil:
        """Sum the numbers of leaves and the speeds below the children of `m`."""
        if self.node[m].presence == GONE:
            self.node[m].n_leaves, self.node[m].total_speed = 0, 0.0
        elif m >= self.first_leaf:
            self.node[m].n_leaves, self.node[m].total_speed = 1, self.speed[m - self.first_leaf]
        else:
            self.node[m].n_leaves = self.node[2 * m + 1].n_leaves + self.node[2 * m + 2].n_leaves
            self.node[m].total_speed = self.node[2 * m + 1].total_speed + self.node[2 * m + 2].total_speed

    # -- spreading the minimum stretch ------------------------------------------------------------------------

    cdef Py_ssize_t _spread(self, Py_ssize_t m, bint force, Spread* out) noexcept nogil:
        cdef Py_ssize_t j, child, n = 0
        cdef double value
        cdef bint is_new
        for j in range(2):
            child = 2 * m + 1 + j
            if child >= self.first_leaf or self.node[m].presence:
                continue
            value = min(self.node[m].outer_minimum, self.node[2 * m + 2 - j].minimum)
            is_new = value != self.node[child].last_sent_minimum
            if self.by_largest:
                is_new |= (fmax(self.outlook[m].outer_largest, self.outlook[2 * m + 2 - j].largest)
                         != self.outlook[child].last_sent_largest)
            if self.by_root:
                is_new |= self.outlook[m].copy_made_at > self.outlook[child].last_sent_copy
            if force or is_new:
                self.node[child].last_sent_minimum = value
                out[n].node, out[n].sender, out[n].minimum = child, m, value
                self._fill_outlook(m, child, True, &out[n].largest_minimum, &out[n].copy, &out[n].copy_time)
                n += 1
        return n

    # -- checkpoints ------------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since the applications were added, as described in `gridcore.common.state`.

        The debts of each node are stored from the latest on.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t m
        cdef int entry
        cdef const Debt* debt
        debts = []
        for m in range(self.nodes):
            entry = self.node[m].debt
            while entry >= 0:
                debt = &self.debts.debt[entry]
                debts.append((m, debt.sequence, debt.tasks, debt.task_size, debt.size, debt.stretch, debt.release))
                entry = debt.next
        nodes = np.array(<unsigned char[:self.nodes * sizeof(Node)]> <unsigned char*> self.node).view(_NODE)
        nodes["debt"] = -1
        state = {"below_window": self.below_window, "above_window": self.above_window, "nodes": nodes,
                 "debts": np.array(debts, _DEBT)}
        if self.outlook != NULL:
            state["outlooks"] = np.array(
                <unsigned char[:self.nodes * sizeof(Outlook)]> <unsigned char*> self.outlook).view(_OUTLOOK)
        return {**read_only(state), "narrow": self._chunks(0), "wide": self._chunks(1)}

    def _payload_type(self, Py_ssize_t wide):
        """Return the type of a summary of a pool: its header and its cells."""
        return np.dtype([("release", "f8"), ("references", "i4"), ("unused", "i4"),
                         ("cells", "u1", (self.payloads.pool[wide].nbytes,))])

    def _chunks(self, Py_ssize_t wide):
        """Yield copies of the summaries of a pool, chunk by chunk."""
        k = 0
        while k < self.payloads.pool[wide].chunks:
            yield self._chunk(wide, k)
            k += 1

    def _chunk(self, Py_ssize_t wide, Py_ssize_t k):
        cdef _Guard access = guard(&self.in_call)
        cdef const Pool* pool = &self.payloads.pool[wide]
        cdef Py_ssize_t place, nbytes = sizeof(PayloadHeader) + pool.nbytes
        cdef PayloadHeader header
        result = np.zeros((CHUNK, nbytes), np.uint8)
        cdef unsigned char[:, ::1] rows = result
        for place in range(CHUNK):
            if pool_at(pool, k * CHUNK + place).references > 0:
                header = pool_at(pool, k * CHUNK + place)[0]
                header.zeros = 0
                memcpy(&rows[place, 0], &header, sizeof(PayloadHeader))
                payloads_copy(&self.payloads, <int> (2 * (k * CHUNK + place) + wide), &rows[place, sizeof(PayloadHeader)])
        return result.reshape(-1).view(self._payload_type(wide))

    def setstate(self, state):
        """Restore a state of `getstate` of a tree with the same arguments and applications.

        Raises ValueError if the state is invalid; the tree must then not be used any more.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t m
        cdef Debt debt
        entries = read(state, {
            **_STATE, **({} if self.outlook == NULL else {"outlooks": ArrayEntry(_OUTLOOK, ("nodes",))}),
            **{name: ArraysEntry(self._payload_type(wide), (CHUNK,)) for wide, name in enumerate(("narrow", "wide"))},
        }, nodes=self.nodes)
        # an array below may be rejected, but no node may then refer to a payload or debt that no longer exists
        for m in range(self.nodes):
            self.node[m].summary = self.node[m].last_report = self.node[m].debt = -1
            if self.outlook != NULL:
                self.outlook[m].copy = -1
        debts_free(&self.debts)
        memset(&self.debts, 0, sizeof(Debts))
        debts_make(&self.debts)
        payloads_clear(&self.payloads)
        try:
            self._set_chunks(0, entries["narrow"])
            self._set_chunks(1, entries["wide"])
        except BaseException:
            payloads_clear(&self.payloads)  # else payloads would be both in use and free
            raise
        payloads_recount(&self.payloads)
        cdef const unsigned char[::1] nodes = entries["nodes"].view(np.uint8), outlooks
        memcpy(self.node, &nodes[0], self.nodes * sizeof(Node))
        if self.outlook != NULL:
            outlooks = entries["outlooks"].view(np.uint8)
            memcpy(self.outlook, &outlooks[0], self.nodes * sizeof(Outlook))
        for m in range(self.nodes - 1, -1, -1):
            self.node[m].debt = -1
            self._forget_unused(&self.node[m].summary)
            self._forget_unused(&self.node[m].last_report)
            if self.outlook != NULL:
                self._forget_unused(&self.outlook[m].copy)
            self._count_leaves(m)
        for m, debt.sequence, debt.tasks, debt.task_size, debt.size, debt.stretch, debt.release in (
                entries["debts"][::-1].tolist()):
            debts_add(&self.debts, &self.node[m].debt, &debt)
        self.below_window, self.above_window = entries["below_window"], entries["above_window"]

    cdef int _set_chunks(self, Py_ssize_t wide, chunks) except -1:
        """Restore the summaries of a pool from a state."""
        cdef Pool* pool = &self.payloads.pool[wide]
        cdef Py_ssize_t k, n = 0, nbytes = sizeof(PayloadHeader) + pool.nbytes
        cdef const unsigned char[:, ::1] rows
        for chunk in chunks:
            rows = chunk.view(np.uint8).reshape(CHUNK, nbytes)
            if n == pool.chunks:
                pool_grow(pool)
            for k in range(CHUNK):
                memcpy(pool_at(pool, n * CHUNK + k), &rows[k, 0], nbytes)
                pool_at(pool, n * CHUNK + k).zeros = 0
            n += 1
        return 0

    cdef void _forget_unused(self, int* handle) noexcept nogil:
        """Replace the number of a summary by -1 unless it is in use."""
        if not payloads_is_used(&self.payloads, handle[0]):
            handle[0] = -1

    # -- inspection -------------------------------------------------------------------------------------------

    @property
    def payloads_in_use(self) -> int:
        """The number of summaries to which senders, messages or parents refer."""
        return payloads_in_use(&self.payloads)
