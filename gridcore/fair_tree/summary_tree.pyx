"""The availability information of all nodes of a tree, and the messages that follow from it.

One object has, for every edge of the tree, the parent's knowledge of the child (its last summary, its
minimum stretch, and the later dispatches to it as *debts*), and for every node its last report.
It has no clock and sends nothing: `gridcore.fair_tree.protocol` passes it one message, or one node that
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
from gridcore.fair_tree.debts cimport (Debt, Debts, debts_add, debts_drops, debts_free, debts_length, debts_make,
                                     debts_settle)
from gridcore.common.memory cimport allocate_aligned, free_aligned, large_pages, prefetch
from gridcore.fair_tree.payloads cimport (
    CHUNK, Pool, payloads_add, payloads_at, payloads_cell, payloads_clear, payloads_drop, payloads_free, payloads_get,
    payloads_is_used, payloads_add_reference, payloads_in_use, payloads_header, payloads_make, payloads_put,
    payloads_recount, payloads_release, payloads_equal, payloads_has_place, pool_at,
)
from gridcore.fair_tree.summaries cimport add_cells, debit_cells, debit_narrow_cells, quotient_up

import math

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid
from gridcore.common.state import ArrayEntry, ArraysEntry, NumberEntry, TableEntry, read, refuse, read_only

__all__ = ["COVERS_BYTES", "DECISION", "LARGEST_BYTES", "MADE_BYTES", "REQUEST", "RULES", "SPREAD", "SUMMARY", "SummaryTree"]


#: A request to place `tasks` tasks of `application`.  It comes from the parent, which numbers its requests to this
#: node (`sequence`), or it climbs from a child (sequence -1).  `minimum` is the minimum stretch of the rest of the
#: tree, `largest_minimum` the largest minimum stretch of a leaf there, `copy` the handle of a copy of the root's
#: summary, and `made` the time of the copy (ns).  They are nan, nan, -1 and -1 if the message does not have them.
REQUEST = np.dtype([("node", "i8"), ("sender", "i8"), ("application", "i8"), ("tasks", "i8"),
                    ("sequence", "i8"), ("minimum", "f8"), ("hops", "i8"),
                    ("largest_minimum", "f8"), ("copy", "i8"), ("made", "i8")])
#: A summary: handle of the `payload`, its number (`sequence`), the number of the last request that the sender had
#: received (`echo`), the sender's `minimum` stretch, and the instant of the oldest change of a leaf that no earlier
#: summary reports (`since`, ns).  `largest_minimum` is the largest minimum stretch of a leaf (0 for idle leaves), and
#: `covers` the number of leaves in the summary; both are 0 if the rule does not need them.
SUMMARY = np.dtype([("node", "i8"), ("sender", "i8"), ("payload", "i8"), ("sequence", "i8"),
                    ("echo", "i8"), ("minimum", "f8"), ("since", "i8"), ("largest_minimum", "f8"), ("covers", "i8")])
#: A message that tells a router the minimum stretch of the rest of the tree; the fields are explained at `REQUEST`.
SPREAD = np.dtype([("node", "i8"), ("sender", "i8"), ("minimum", "f8"), ("largest_minimum", "f8"),
                   ("copy", "i8"), ("made", "i8")])
#: A decision of a router: `sample` is the index of a stretch in the grid (-1 if none hosts the request), and
#: `guaranteed` tells whether there is room for all tasks.
DECISION = np.dtype([("node", "i8"), ("application", "i8"), ("tasks", "i8"), ("sample", "i8"),
                     ("guaranteed", "i8"), ("hops", "i8")])
#: Bytes that rules of acceptance add to messages: for a largest minimum stretch, for the number of leaves in a
#: summary, and for the time of a copy of the root's summary.
LARGEST_BYTES, COVERS_BYTES, MADE_BYTES = 8, 4, 8
#: The rules of acceptance, see `SummaryTree`.
RULES = ("minimum", "root", "largest", "either")
# Relative tolerance when a stretch is compared with a limit; it allows for rounding errors in samples.
cdef double _TOLERANCE = 1e-9
# In a state, nodes are stored as bytes of their structs.
_STATE = {
    "below_window": NumberEntry(), "above_window": NumberEntry(), "nodes": ArrayEntry(np.uint8, ("nodes", "width")),
    "debt_counts": TableEntry({"node": (0, "nodes"), "sequence": (0, None), "tasks": (0, None)}),
    "debt_sizes": ArrayEntry(np.float64, ("debt_counts", 4)),
    "references_0": ArrayEntry(np.int32, limits=(0, None)), "release_0": ArrayEntry(np.float64, ("references_0",)),
    "references_1": ArrayEntry(np.int32, limits=(0, None)), "release_1": ArrayEntry(np.float64, ("references_1",)),
}

cdef Node _unknown_node(double unknown) noexcept nogil:
    """Return a node that has sent and received nothing."""
    cdef Node node
    node.summary, node.debt, node.last_report = -1, -1, -1
    node.last_summary_number, node.requests_sent, node.reports_sent, node.last_request = -1, 0, 0, -1
    node.minimum, node.outer_minimum = unknown, unknown
    node.last_sent_minimum, node.last_report_minimum = INFINITY, INFINITY
    node.free_at, node.due_at, node.oldest_change = 0, NEVER, NEVER
    node.report_requested, node.presence = False, PRESENT
    node.n_leaves, node.total_speed, node.unused = 1, 0.0, 0
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
            raise ValueError(f"accept must be one of {RULES}, got {accept!r}")
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
        for k in range(n):
            self.node[n - 1 + k].total_speed = s[k]
        for k in range(n - 2, -1, -1):
            self.node[k].n_leaves = self.node[2 * k + 1].n_leaves + self.node[2 * k + 2].n_leaves
            self.node[k].total_speed = self.node[2 * k + 1].total_speed + self.node[2 * k + 2].total_speed
        self.scratch = <unsigned int*> malloc(4 * self.cells * sizeof(int))
        self.drops = <unsigned int*> malloc(self.g.n_task_size * sizeof(int))
        self.limits = <double*> malloc(self.g.n_stretch * sizeof(double))
        self.rooms = <long long*> malloc(3 * self.g.n_stretch * sizeof(long long))
        if self.scratch == NULL or self.drops == NULL or self.limits == NULL or self.rooms == NULL:
            raise MemoryError
        self.left = self.scratch + self.cells
        self.right = self.left + self.cells
        self.sum = self.right + self.cells
        payloads_make(&self.payloads, self.cells)
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
        free(self.rooms)

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

    cdef const unsigned int* _read(self, Py_ssize_t child, double now, unsigned int* room) noexcept nogil:
        """Return the debited summary of `child`, a lower bound at `now` s; NULL if it has not reported."""
        if self.node[child].summary < 0:
            return NULL
        if self.node[child].debt < 0:
            return payloads_get(&self.payloads, self.node[child].summary, room)
        self._compute_debit(child, now)
        debit_cells(payloads_get(&self.payloads, self.node[child].summary, self.scratch), room, &self.g, self.drops,
                    self.limits)
        return room

    cdef const unsigned short* _read_narrow(self, Py_ssize_t child, double now, unsigned short* room) noexcept nogil:
        """Return the debited summary of a child whose summary has cells of 16 bits."""
        cdef const unsigned short* cells = <const unsigned short*> payloads_at(&self.payloads, self.node[child].summary)
        if self.node[child].debt < 0:
            return cells
        self._compute_debit(child, now)
        debit_narrow_cells(cells, room, &self.g, self.drops, self.limits)
        return room

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
        cdef long long[2] room
        cdef long long[2] share
        cdef long long remainder
        cdef double limit, part, speed
        cdef Debt debt
        if r.sequence >= 0:
            self.node[u].last_request = max(self.node[u].last_request, r.sequence)
            self.node[u].report_requested = 1
            if not isnan(r.minimum):
                self.node[u].outer_minimum = r.minimum
            self._learn_outlook(u, r.largest_minimum, r.copy, r.made)
        room[0] = room[1] = 0
        if self._columns(u, r.application, now / 1e9):
            # the total grows with S, so the first S that hosts the request is the result of Algorithm 4
            for i in range(self.g.n_stretch):
                room[0], room[1] = self.rooms[i], self.rooms[self.g.n_stretch + i]
                if room[0] + room[1] >= r.tasks:
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
            self._divide(r.tasks, room, share)
            self.below_window += sample == 0
        else:
            self.above_window += 1
            remainder = r.tasks - room[0] - room[1]
            part = 0.5                  # stays so if neither child has a leaf below it
            speed = self.node[2 * u + 1].total_speed + self.node[2 * u + 2].total_speed
            if speed > 0.0:
                part = self.node[2 * u + 1].total_speed / speed
            share[0] = <long long> floor(remainder * part + 0.5)
            share[1] = room[1] + remainder - share[0]
            share[0] += room[0]
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
            self._fill_outlook(u, child, False, &out[i].largest_minimum, &out[i].copy, &out[i].made)
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
        cdef long long* rooms = self.rooms + 2 * self.g.n_stretch
        cdef double release
        cdef Py_ssize_t i
        if (handle < 0 or self.size_sample[application] < 0
                or self.task_size_sample[application] >= self.g.n_task_size):
            return NAN
        release = payloads_release(&self.payloads, handle)[0]
        self._look_up(handle, False, release if self.common_release else fmin(release, now), self.leaves,
                      self.total_speed, application, now, rooms)
        for i in range(self.g.n_stretch):
            if rooms[i] >= tasks:
                return self.gs[i]
        return NAN

    cdef void _learn_outlook(self, Py_ssize_t u, double largest, long long copy, long long made) noexcept nogil:
        """Store what a message of the parent tells router `u` about the rest of the tree."""
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
        cdef Py_ssize_t child, last = -1, n = 0
        cdef long long present_leaves = 0, covers = 0
        cdef int handle = -1, left = self.node[1].summary, right = self.node[2].summary
        cdef double release = -INFINITY
        cdef const unsigned int* a
        cdef const unsigned int* b
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
            if not (left & 1 or right & 1):
                handle = payloads_add(&self.payloads, <unsigned short*> payloads_at(&self.payloads, left),
                                      <unsigned short*> payloads_at(&self.payloads, right))
            if handle < 0:
                a = payloads_get(&self.payloads, left, self.left)
                b = payloads_get(&self.payloads, right, self.right)
                add_cells(a, b, self.sum, self.cells)
                handle = payloads_put(&self.payloads, self.sum)
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
        """Write the tasks that each child of `u` can take to `rooms`; False if the application is beyond the grid."""
        if self.size_sample[application] < 0 or self.task_size_sample[application] >= self.g.n_task_size:
            memset(self.rooms, 0, 2 * self.g.n_stretch * sizeof(long long))
            return False
        self._column(2 * u + 1, application, now, self.rooms)
        self._column(2 * u + 2, application, now, self.rooms + self.g.n_stretch)
        return True

    cdef void _column(self, Py_ssize_t child, Py_ssize_t application, double now, long long* rooms) noexcept nogil:
        """Compute how many tasks of an application `child` can take at `now` s, at each stretch sample.

        The results equal cells of `_read`, but only these cells are debited: cells are monotone before the debit, so
        the closure takes values only from the row of a cell.
        """
        cdef Py_ssize_t i
        cdef int handle = self.node[child].summary
        cdef bint has_debts = self.node[child].debt >= 0
        if handle < 0:
            for i in range(self.g.n_stretch):
                rooms[i] = 0
            return
        if has_debts:
            self._compute_debit(child, now)
        self._look_up(handle, has_debts, self._release_of(child, now), max(1, self.node[child].n_leaves),
                      self.node[child].total_speed, application, now, rooms)

    cdef void _look_up(self, int handle, bint has_debts, double at, long long leaves, double total_speed,
                       Py_ssize_t application, double now, long long* rooms) noexcept nogil:
        """Compute how many tasks of an application a summary of `leaves` leaves, sampled for release `at` (s), hosts.

        Parameters
        ----------
        has_debts
            Whether to debit the summary by `drops` and `limits`.
        """
        cdef Py_ssize_t i, j, k, row, ia = self.task_size_sample[application]
        cdef double w = self.size[application], age = now - self.release[application], lost = 0.0
        cdef double shift = self.release[application] - at
        cdef long long n_tasks
        if shift > 0.0 and self.common_release:
            # each leaf loses speed * shift, and at most one task of the longest kind, in whole tasks of size a
            lost = leaves - 1 + quotient_up(total_speed * shift + leaves * self.longest, self.ga[ia])
        elif shift > 0.0:
            shift = 0.0                 # as if the summary had been sampled for this release
        for i in range(self.g.n_stretch):
            rooms[i] = 0
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
            rooms[i] = max(0, n_tasks) if lost == 0.0 else <long long> max(0.0, n_tasks - lost)

    cdef int _divide(self, long long tasks, const long long* room, long long* share) except -1:
        """Divide `tasks` <= room[0] + room[1] between two children by largest remainder, as `gridcore.split`."""
        cdef unsigned long long total = room[0] + room[1], product, rest
        if total == 0:
            share[0] = share[1] = 0
            return 0
        if tasks < 2**31:               # the product fits into 64 bits, since room[0] < 2**32
            product = <unsigned long long> tasks * <unsigned long long> room[0]
            share[0], rest = product // total, product % total
        else:
            quotient, remainder = divmod(int(tasks) * int(room[0]), int(total))
            share[0], rest = quotient, remainder
        share[0] += 2 * rest >= total and rest > 0
        share[1] = tasks - share[0]
        return 0

    cdef void _acknowledge(self, const Request* row) noexcept nogil:
        self.node[row.node].last_request = max(self.node[row.node].last_request, row.sequence)
        self.node[row.node].report_requested = 1

    # -- summaries ----------------------------------------------------------------------------------------

    cdef int _check_summary(self, const Summary* row, Py_ssize_t k) except -1:
        if not (0 < row.sender < self.nodes and row.node == (row.sender - 1) // 2):
            raise ValueError(f"rows[{k}].node must be the parent of node {row.sender}, got {row.node}")
        if not payloads_is_used(&self.payloads, row.payload):
            raise ValueError(f"rows[{k}].payload must be in use, got {row.payload}")
        return 0

    cdef bint _receive(self, const Summary* row) noexcept nogil:
        """Store a summary; return False if it is discarded, as a newer one came before or its sender has left."""
        cdef Py_ssize_t child = row.sender, parent = row.node
        if row.sequence <= self.node[child].last_summary_number or self.node[child].presence == GONE:
            payloads_drop(&self.payloads, <int> row.payload)
            return False
        self.node[child].last_summary_number = row.sequence
        payloads_drop(&self.payloads, self.node[child].summary)
        self.node[child].summary = <int> row.payload
        self.node[child].minimum = row.minimum
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
        """Prefetch the headers of a summary, of its sibling, and of the summary that their sum replaces."""
        cdef int[3] handle
        cdef Py_ssize_t k
        if not 0 < row.sender < self.nodes:
            return
        handle = [self.node[row.sender].summary, self.node[((row.sender - 1) ^ 1) + 1].summary,
                  self.node[(row.sender - 1) // 2].last_report]
        for k in range(3):
            if handle[k] >= 0:
                prefetch(payloads_header(&self.payloads, handle[k]))
        if payloads_has_place(&self.payloads, row.payload):
            prefetch(payloads_header(&self.payloads, <int> row.payload))

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
        cdef Py_ssize_t left_child = 2 * m + 1, right_child = 2 * m + 2
        cdef int left = self.node[left_child].summary, right = self.node[right_child].summary, handle = -1
        cdef double left_release = self._release_in_sum(left_child, now) if left >= 0 else -INFINITY
        cdef double right_release = self._release_in_sum(right_child, now) if right >= 0 else left_release
        if self.common_release and left >= 0 and left_release != right_release:
            return -1
        if left >= 0 and right >= 0 and not (left & 1 or right & 1):
            handle = payloads_add(&self.payloads, self._read_narrow(left_child, now, <unsigned short*> self.left),
                                  self._read_narrow(right_child, now, <unsigned short*> self.right))
        if handle < 0:
            handle = payloads_put(&self.payloads, self._add(left_child, right_child, now))
        payloads_release(&self.payloads, handle)[0] = (
            0.0 if left < 0 and right < 0 else fmax(left_release, right_release))
        least[0] = min(self.node[left_child].minimum, self.node[right_child].minimum)
        return handle

    cdef double _release_in_sum(self, Py_ssize_t child, double now) noexcept nogil:
        """Return the release (s) of the summary of `child` in a sum: `_release_of` if the child has debts."""
        return (self._release_of(child, now) if self.node[child].debt >= 0
                else payloads_release(&self.payloads, self.node[child].summary)[0])

    cdef const unsigned int* _add(self, Py_ssize_t left_child, Py_ssize_t right_child, double now) noexcept nogil:
        """Return the sum of the debited summaries of two children."""
        cdef const unsigned int* a = self._read(left_child, now, self.left)
        cdef const unsigned int* b = self._read(right_child, now, self.right)
        if a != NULL and b != NULL:
            add_cells(a, b, self.sum, self.cells)
        elif a != NULL:
            return a
        elif b != NULL:
            return b
        else:
            memset(self.sum, 0, self.cells * sizeof(int))
        return self.sum

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
        payloads_add_reference(&self.payloads, handle)          # for the message; the sender keeps the other one
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
        out.largest_minimum, out.covers = largest, covers
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
        """Clear what the parent of `child` knows about it."""
        payloads_drop(&self.payloads, self.node[child].summary)
        self.node[child].summary, self.node[child].minimum, self.node[child].last_sent_minimum = -1, INFINITY, INFINITY
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
        while True:
            if self.node[m].presence == GONE:
                self.node[m].n_leaves, self.node[m].total_speed = 0, 0.0
            elif m >= self.first_leaf:
                self.node[m].n_leaves, self.node[m].total_speed = 1, self.speed[m - self.first_leaf]
            else:
                self.node[m].n_leaves = self.node[2 * m + 1].n_leaves + self.node[2 * m + 2].n_leaves
                self.node[m].total_speed = self.node[2 * m + 1].total_speed + self.node[2 * m + 2].total_speed
            if m == 0:
                break
            m = (m - 1) // 2

    # -- spreading the minimum stretch ------------------------------------------------------------------------

    def spread(self) -> NDArray[Any]:
        """Return the spreads of the root to its child routers, rows of `SPREAD`."""
        cdef _Guard access = guard(&self.in_call)
        cdef Spread[2] messages
        cdef Py_ssize_t k, n = self._spread(0, True, messages) if self.first_leaf else 0
        out_array = np.empty(n, SPREAD)
        cdef Spread[::1] out = out_array
        for k in range(n):
            out[k] = messages[k]
        return out_array

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
                self._fill_outlook(m, child, True, &out[n].largest_minimum, &out[n].copy, &out[n].made)
                n += 1
        return n

    # -- checkpoints ------------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since the applications were added, as described in `gridcore.common.state`.

        Nodes are stored as their structs in memory; their debts are stored by node, the latest first.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, m, n = 0
        cdef int entry
        for m in range(self.nodes):
            n += debts_length(&self.debts, self.node[m].debt)
        counts_array, sizes_array = np.empty((n, 3), np.int64), np.empty((n, 4))
        cdef long long[:, ::1] counts = counts_array
        cdef double[:, ::1] sizes = sizes_array
        k = 0
        for m in range(self.nodes):
            entry = self.node[m].debt
            while entry >= 0:
                counts[k, 0], counts[k, 1] = m, self.debts.debt[entry].sequence
                counts[k, 2], sizes[k, 0] = self.debts.debt[entry].tasks, self.debts.debt[entry].task_size
                sizes[k, 1], sizes[k, 2] = self.debts.debt[entry].size, self.debts.debt[entry].stretch
                sizes[k, 3] = self.debts.debt[entry].release
                k += 1
                entry = self.debts.debt[entry].next
        state = {
            "below_window": self.below_window, "above_window": self.above_window,
            "nodes": np.array(<unsigned char[:self.nodes, :sizeof(Node)]> <unsigned char*> self.node),
            "debt_counts": counts_array, "debt_sizes": sizes_array,
        }
        if self.outlook != NULL:
            state["outlooks"] = np.array(
                <unsigned char[:self.nodes, :sizeof(Outlook)]> <unsigned char*> self.outlook)
        for wide in range(2):
            n = self.payloads.pool[wide].chunks * CHUNK
            references, release = np.zeros(n, np.int32), np.zeros(n)
            counts_out, release_out = references, release
            for k in range(n):
                counts_out[k] = pool_at(&self.payloads.pool[wide], k).references
                release_out[k] = pool_at(&self.payloads.pool[wide], k).release
            state[f"references_{wide}"], state[f"cells_{wide}"] = references, self._chunks(wide)
            state[f"release_{wide}"] = np.where(references > 0, release, 0.0)
        return read_only(state)

    def _chunks(self, Py_ssize_t wide):
        """Yield copies of the summaries of a pool, chunk by chunk."""
        k = 0
        while k < self.payloads.pool[wide].chunks:
            yield self._chunk(wide, k)
            k += 1

    def _chunk(self, Py_ssize_t wide, Py_ssize_t k):
        cdef _Guard access = guard(&self.in_call)
        cdef const Pool* pool = &self.payloads.pool[wide]
        cdef Py_ssize_t place
        result = np.empty((CHUNK, pool.nbytes), np.uint8)
        cdef unsigned char[:, ::1] cells = result
        for place in range(CHUNK):
            memcpy(&cells[place, 0], pool_at(pool, k * CHUNK + place) + 1, pool.nbytes)
        return result.reshape(-1)

    def setstate(self, state):
        """Restore a state of `getstate` of a tree with the same arguments and applications.

        Raises ValueError if the state is invalid; the tree must then not be used any more.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, m
        cdef Debt debt
        cdef const unsigned char[::1] chunk
        cdef Node* node
        entries = read(state, {
            **_STATE,
            **{f"cells_{wide}": ArraysEntry(np.uint8, (CHUNK * self.payloads.pool[wide].nbytes,)) for wide in range(2)},
            **({} if self.outlook == NULL else {"outlooks": ArrayEntry(np.uint8, ("nodes", "outlook_width"))}),
        }, nodes=self.nodes, width=sizeof(Node), outlook_width=sizeof(Outlook))
        sizes_array = entries["debt_sizes"]
        references, release = ([entries[f"{name}_{wide}"] for wide in range(2)] for name in ("references", "release"))
        for wide in range(2):
            if len(references[wide]) % CHUNK:
                raise ValueError(f"state['references_{wide}'] must have a multiple of {CHUNK} entries, "
                                 f"got {len(references[wide])}")

        cdef const unsigned char[:, ::1] node_bytes = entries["nodes"]
        cdef const int[::1] counts_in
        for m in range(self.nodes):
            node = <Node*> &node_bytes[m, 0]
            for handle in (node.summary, node.last_report):
                counts_in = references[handle & 1]
                if handle != -1 and not (0 <= handle >> 1 < counts_in.shape[0] and counts_in[handle >> 1] > 0):
                    raise ValueError(f"state['nodes'][{m}] must have payloads that are in use, got {handle}")
        cdef const unsigned char[:, ::1] outlooks = entries.get("outlooks")
        cdef const Outlook* outlook
        for m in range(self.nodes if self.outlook != NULL else 0):
            outlook = <const Outlook*> &outlooks[m, 0]
            counts_in = references[outlook.copy & 1]
            if outlook.copy != -1 and not (
                    0 <= outlook.copy >> 1 < counts_in.shape[0] and counts_in[outlook.copy >> 1] > 0):
                raise ValueError(f"state['outlooks'][{m}] must have a payload that is in use, got {outlook.copy}")
        refuse("debt_sizes", ~(np.isfinite(sizes_array[:, [0, 1, 3]]).all(axis=1) & (sizes_array[:, :3] > 0).all(axis=1)),
               "> 0 except the release, and finite except the stretch")
        for wide in range(2):
            refuse(f"release_{wide}", np.isnan(release[wide]), "a number")

        # a check below may fail, but no node may then refer to a payload or debt that no longer exists
        for m in range(self.nodes):
            self.node[m].summary = self.node[m].last_report = self.node[m].debt = -1
            if self.outlook != NULL:
                self.outlook[m].copy = -1
        debts_free(&self.debts)
        memset(&self.debts, 0, sizeof(Debts))
        debts_make(&self.debts)
        payloads_clear(&self.payloads, len(references[0]), len(references[1]))
        cdef const double[::1] release_in
        for wide in range(2):
            counts_in = references[wide]
            m = 0
            for chunk in entries[f"cells_{wide}"]:
                if (m + 1) * CHUNK > counts_in.shape[0]:
                    raise ValueError(f"state['cells_{wide}'] must have {counts_in.shape[0] // CHUNK} arrays, got more")
                for k in range(CHUNK):
                    memcpy(pool_at(&self.payloads.pool[wide], m * CHUNK + k) + 1,
                           &chunk[k * self.payloads.pool[wide].nbytes], self.payloads.pool[wide].nbytes)
                m += 1
            if m * CHUNK != counts_in.shape[0]:
                raise ValueError(f"state['cells_{wide}'] must have {counts_in.shape[0] // CHUNK} arrays, got {m}")
        for wide in range(2):  # after all checks, since a failure here would leave payloads both in use and free
            counts_in, release_in = references[wide], release[wide]
            for k in range(counts_in.shape[0]):
                pool_at(&self.payloads.pool[wide], k).references = counts_in[k]
                pool_at(&self.payloads.pool[wide], k).release = release_in[k]
        payloads_recount(&self.payloads)
        memcpy(self.node, &node_bytes[0, 0], self.nodes * sizeof(Node))
        if self.outlook != NULL:
            memcpy(self.outlook, &outlooks[0, 0], self.nodes * sizeof(Outlook))
        for m in range(self.nodes):
            self.node[m].debt = -1
        cdef const long long[:, ::1] counts = entries["debt_counts"]
        cdef const double[:, ::1] sizes = sizes_array
        for k in range(counts.shape[0] - 1, -1, -1):
            debt.sequence, debt.tasks = counts[k, 1], counts[k, 2]
            debt.task_size, debt.size, debt.stretch, debt.release = sizes[k, 0], sizes[k, 1], sizes[k, 2], sizes[k, 3]
            debts_add(&self.debts, &self.node[counts[k, 0]].debt, &debt)
        self.below_window, self.above_window = entries["below_window"], entries["above_window"]

    # -- inspection -------------------------------------------------------------------------------------------

    @property
    def payloads_in_use(self) -> int:
        """The number of summaries that a sender, a message or a parent refers to."""
        return payloads_in_use(&self.payloads)
