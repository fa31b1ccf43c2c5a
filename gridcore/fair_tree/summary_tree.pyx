"""The availability information of a whole tree of nodes: what each node knows, and which messages follow.

One object holds, for every edge of the tree, the parent's knowledge of the child (its last summary, its
minimum stretch, and as *debts* what was dispatched to it since), and for every node its last report.
It has no clock and sends nothing itself: `gridcore.fair_tree.protocol` hands it one message, or one node that
may report, at a time, and sends what follows.

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
    payloads_has, payloads_hold, payloads_in_use, payloads_known, payloads_make, payloads_put, payloads_recount,
    payloads_release, payloads_same, payloads_within, pool_at,
)
from gridcore.fair_tree.summaries cimport add_cells, debit_cells, debit_narrow_cells, quotient_up

import math

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid
from gridcore.common.state import ArrayEntry, ArraysEntry, NumberEntry, TableEntry, read, refuse, read_only

__all__ = ["COVERS_BYTES", "DECISION", "LARGEST_BYTES", "MADE_BYTES", "REQUEST", "RULES", "SPREAD", "SUMMARY", "SummaryTree"]


#: A request to place `tasks` tasks of `application`.  It comes down from the parent, which numbers its requests
#: to this node (`sequence`), or it climbs (sequence -1).  `minimum` is the minimum stretch of the rest of the
#: tree (nan when climbing), `largest` the largest one of a leaf there, and `copy` the handle of a copy of the root's
#: summary, `made` at that time (ns): nan and -1 where the message has none.
REQUEST = np.dtype([("node", "i8"), ("sender", "i8"), ("application", "i8"), ("tasks", "i8"),
                    ("sequence", "i8"), ("minimum", "f8"), ("hops", "i8"),
                    ("largest", "f8"), ("copy", "i8"), ("made", "i8")])
#: A summary: handle of the `payload`, its number (`sequence`), the number of the last request that the sender
#: had received (`echo`), the sender's `minimum` stretch, and `since`, the instant (ns) of the oldest change of
#: a leaf that this summary is the first to report.  `largest` is the largest minimum stretch of a leaf (idle
#: ones: 0), and `covers` the number of leaves in the summary; both are 0 where the rule does not need them.
SUMMARY = np.dtype([("node", "i8"), ("sender", "i8"), ("payload", "i8"), ("sequence", "i8"),
                    ("echo", "i8"), ("minimum", "f8"), ("since", "i8"), ("largest", "f8"), ("covers", "i8")])
#: A message that carries the minimum stretch of the rest of the tree down to a router, with what `REQUEST` explains.
SPREAD = np.dtype([("node", "i8"), ("sender", "i8"), ("minimum", "f8"), ("largest", "f8"), ("copy", "i8"),
                   ("made", "i8")])
#: A decision of a router: the index `sample` of a stretch in the grid (-1 if none hosts the request), and
#: whether room for all tasks is `guaranteed`.
DECISION = np.dtype([("node", "i8"), ("application", "i8"), ("tasks", "i8"), ("sample", "i8"),
                     ("guaranteed", "i8"), ("hops", "i8")])
#: Bytes that a rule of acceptance adds to a message: for a largest minimum stretch, for the number of leaves that a
#: summary covers, and for the time at which a copy of the root's summary was made.
LARGEST_BYTES, COVERS_BYTES, MADE_BYTES = 8, 4, 8
#: The rules of acceptance, see `SummaryTree`.
RULES = ("minimum", "root", "largest", "either")
# With which tolerance a stretch is compared with products of the ratio of neighbouring samples.
cdef double _TOLERANCE = 1e-9
# Nodes are kept as they are in memory.
_STATE = {
    "below_window": NumberEntry(), "above_window": NumberEntry(), "nodes": ArrayEntry(np.uint8, ("nodes", "width")),
    "debt_counts": TableEntry({"node": (0, "nodes"), "sequence": (0, None), "tasks": (0, None)}),
    "debt_sizes": ArrayEntry(np.float64, ("debt_counts", 4)),
    "references_0": ArrayEntry(np.int32, limits=(0, None)), "release_0": ArrayEntry(np.float64, ("references_0",)),
    "references_1": ArrayEntry(np.int32, limits=(0, None)), "release_1": ArrayEntry(np.float64, ("references_1",)),
}

cdef Node _nobody(double unknown) noexcept nogil:
    """Return a node that has not reported anything and of which its parent knows nothing."""
    cdef Node node
    node.held, node.debt, node.said = -1, -1, -1
    node.heard, node.issued, node.number, node.got = -1, 0, 0, -1
    node.held_minimum, node.told, node.said_minimum, node.rest = unknown, INFINITY, INFINITY, unknown
    node.free_at, node.due_at, node.since = 0, NEVER, NEVER
    node.asked, node.away = False, PRESENT
    node.below, node.power, node.unused = 1, 0.0, 0
    return node


cdef Outlook _no_outlook() noexcept nogil:
    """Return the outlook of a node that has not reported or been told anything."""
    cdef Outlook outlook
    outlook.held_largest = outlook.told_largest = outlook.said_largest = outlook.rest_largest = 0.0
    outlook.covers = outlook.said_covers = 0
    outlook.copied = outlook.made = -1
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
        Of that rule; 0: no router but the root accepts anything.
    unknown
        As what a minimum stretch counts that a router does not know yet, of the rest of the tree or of a
        child that has not reported: 0 sends requests up.
    celled
        True if summaries are sampled for a release in the future, which all leaves share for some time.
        Summaries for different releases are then not added, and an application released later than the
        release of a summary loses the work that the leaves may do in between.  By default summaries are
        sampled for the current instant.
    """

    def __cinit__(self, grid: SummaryGrid, speed: ArrayLike, *, release: ArrayLike, size: ArrayLike,
                  task_size: ArrayLike, long long nbytes, double rate=0.0, long long hold_off=0, double bound=2.0,
                  bint celled=False, accept: str = "minimum",
                  double unknown=INFINITY):
        cdef const double[::1] s = doubles_copy(speed, "speed")
        check_array(s, "speed", POSITIVE)
        cdef Py_ssize_t n = s.shape[0], m = 2 * n - 1, k
        if n < 1:
            raise ValueError("speed must have at least one entry, got 0")
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
        self.celled = celled
        self.release = self.size = self.task_size = np.zeros(0)
        self.size_sample = self.task_size_sample = np.zeros(0, np.int64)
        self._add_applications(release, size, task_size)
        self.speed = s
        self.node = <Node*> allocate_aligned(m * sizeof(Node))  # each half of a node fills one cache line
        large_pages(self.node, m * sizeof(Node))
        for k in range(m):
            self.node[k] = _nobody(unknown)
        self.node[0].rest = INFINITY    # the root has no rest
        self.whole_power = math.fsum(s)
        if self.accept != MINIMUM:
            self.outlook = <Outlook*> allocate_aligned(m * sizeof(Outlook))
            for k in range(m):
                self.outlook[k] = _no_outlook()
        for k in range(n):
            self.node[n - 1 + k].power = s[k]
        for k in range(n - 2, -1, -1):
            self.node[k].below = self.node[2 * k + 1].below + self.node[2 * k + 2].below
            self.node[k].power = self.node[2 * k + 1].power + self.node[2 * k + 2].power
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
        """Append applications: release (s), size (Mflop of the whole), task size (Mflop); indices are consecutive."""
        cdef _Guard alone = guard(&self.occupied)
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
        # the grid samples to look up: the largest size <= the application's, the smallest task size >= its own
        self.size_sample = np.searchsorted(self.grid.size, self.size, side="right") - 1
        self.task_size_sample = np.searchsorted(self.grid.task_size, self.task_size, side="left")

    cdef double _instant(self, Py_ssize_t child, double now) noexcept nogil:
        """Return the release (s) for which the summary of `child` was sampled, as it counts at `now` s."""
        cdef double release = payloads_release(&self.payloads, self.node[child].held)[0]
        return release if self.celled else fmin(release, now)  # inf for idle leaves: they do not change

    cdef void _drop_of(self, Py_ssize_t child, double now) noexcept nogil:
        """Compute what the debts of `child` take from its summary, into `drops` and `limits`."""
        debts_drops(&self.debts, self.node[child].debt, max(1, self.node[child].below),
                     self._instant(child, now), &self.g, self.drops, self.limits)

    cdef const unsigned int* _read(self, Py_ssize_t child, double now, unsigned int* room) noexcept nogil:
        """Return the debited summary of `child`, on which its parent may count at `now` s; NULL without a report."""
        if self.node[child].held < 0:
            return NULL
        if self.node[child].debt < 0:
            return payloads_get(&self.payloads, self.node[child].held, room)
        self._drop_of(child, now)
        debit_cells(payloads_get(&self.payloads, self.node[child].held, self.scratch), room, &self.g, self.drops,
                    self.limits)
        return room

    cdef const unsigned short* _read_narrow(self, Py_ssize_t child, double now, unsigned short* room) noexcept nogil:
        """Return the same of a child whose summary is narrow, in 16 bits."""
        cdef const unsigned short* given = <const unsigned short*> payloads_at(&self.payloads, self.node[child].held)
        if self.node[child].debt < 0:
            return given
        self._drop_of(child, now)
        debit_narrow_cells(given, room, &self.g, self.drops, self.limits)
        return room

    # -- requests -----------------------------------------------------------------------------------------

    cdef bint _route(self, const Request* row, long long now, Request* out, Py_ssize_t* n_out,
                     Decision* made) except -1:
        """Decide at `now` ns on a request at a router.

        A request from the parent (sequence >= 0) is split between the children.  A climbing request is split
        at the root, or where the smallest sample S that hosts all its tasks is accepted by the rule; otherwise it
        goes on to the parent.  If no sample hosts all tasks, each child gets what the last sample
        guarantees, and the remainder is divided in proportion to speed.  A sample at which the deadline has
        passed hosts nothing.
        """
        cdef Request r = row[0]
        cdef Py_ssize_t u = r.node, i, j, child, sample = -1
        cdef long long[2] room
        cdef long long[2] share
        cdef long long rest
        cdef double limit, part
        cdef Debt debt
        if r.sequence >= 0:
            self.node[u].got = max(self.node[u].got, r.sequence)
            self.node[u].asked = 1
            if not isnan(r.minimum):
                self.node[u].rest = r.minimum
            self._learn(u, r.largest, r.copy, r.made)
        room[0] = room[1] = 0
        if self._columns(u, r.application, now / 1e9):
            # the totals grow with S, so the first one that hosts the request is the answer of Algorithm 4
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
            rest = r.tasks - room[0] - room[1]
            part = 0.5                  # if no leaf is left below either child
            if self.node[2 * u + 1].power + self.node[2 * u + 2].power > 0.0:
                part = self.node[2 * u + 1].power / (self.node[2 * u + 1].power + self.node[2 * u + 2].power)
            share[0] = <long long> floor(rest * part + 0.5)
            share[1] = room[1] + rest - share[0]
            share[0] += room[0]
        if u == 0 and self.by_root:
            self._renew(now)
        made.node = u
        made.application = r.application
        made.tasks = r.tasks
        made.sample = sample
        made.guaranteed = sample >= 0
        made.hops = -1 if r.sequence >= 0 else r.hops
        i = 0
        for j in range(2):
            if share[j] == 0:
                continue
            child = 2 * u + 1 + j
            self.node[child].issued += 1
            debt.sequence, debt.tasks = self.node[child].issued, share[j]
            debt.task_size, debt.size = self.task_size[r.application], self.size[r.application]
            debt.release = self.release[r.application]
            # without a guarantee the child may miss deadlines at every sample
            debt.stretch = self.gs[sample] if sample >= 0 else INFINITY
            debts_add(&self.debts, &self.node[child].debt, &debt)
            # the minimum stretch of the rest of the tree, as seen from this child
            self.node[child].told = min(self.node[u].rest, self.node[2 * u + 2 - j].held_minimum)
            out[i].node = child
            out[i].sender = u
            out[i].application = r.application
            out[i].tasks = share[j]
            out[i].sequence = self.node[child].issued
            out[i].minimum = self.node[child].told
            out[i].hops = r.hops
            self._tell(u, child, False, &out[i].largest, &out[i].copy, &out[i].made)
            i += 1
        n_out[0] += i
        return True

    cdef void _read_ahead(self, const Request* row) noexcept nogil:
        """Prefetch the cells that are looked up when `row` is routed, which may be any record."""
        cdef Py_ssize_t child, i, cell, width, step, row_cells = self.g.n_size * self.g.n_task_size
        if (not 0 <= row.node < self.first_leaf or not 0 <= row.application < self.size.shape[0]
                or self.size_sample[row.application] < 0):
            return
        cell = self.size_sample[row.application] * self.g.n_task_size + self.task_size_sample[row.application]
        for child in range(2 * row.node + 1, 2 * row.node + 3):
            if self.node[child].held >= 0:
                width = self.payloads.pool[self.node[child].held & 1].nbytes // self.cells
                step = max(1, 64 // (row_cells * width))  # a cache line may have the cells of several stretches
                i = 0
                while i < self.g.n_stretch:
                    prefetch(<char*> payloads_at(&self.payloads, self.node[child].held) + (cell + i * row_cells) * width)
                    i += step

    cdef double _minimum(self, Py_ssize_t u) noexcept nogil:
        """Return the smallest minimum stretch that router `u` knows of."""
        return min(self.node[u].rest, min(self.node[2 * u + 1].held_minimum, self.node[2 * u + 2].held_minimum))

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
            value = (1.0 if self.by_root else self.bound) * fmax(self.outlook[u].rest_largest, self._most(u))
            limit = value if isnan(limit) else fmax(limit, value)
        return limit * (1.0 + _TOLERANCE)

    cdef double _most(self, Py_ssize_t u) noexcept nogil:
        """Return the largest minimum stretch of a leaf below router `u`, as far as it knows."""
        return fmax(self.outlook[2 * u + 1].held_largest, self.outlook[2 * u + 2].held_largest)

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
        self._look(handle, False, release if self.celled else fmin(release, now), self.leaves, self.whole_power,
                   application, now, rooms)
        for i in range(self.g.n_stretch):
            if rooms[i] >= tasks:
                return self.gs[i]
        return NAN

    cdef void _learn(self, Py_ssize_t u, double largest, long long copy, long long made) noexcept nogil:
        """Note what the parent of router `u` says of the rest of the tree."""
        if self.by_largest and not isnan(largest):
            self.outlook[u].rest_largest = largest
        if copy < 0:
            return
        if not self.by_root or made <= self.outlook[u].made:
            payloads_drop(&self.payloads, <int> copy)
            return
        payloads_drop(&self.payloads, self.outlook[u].copy)
        self.outlook[u].copy, self.outlook[u].made = <int> copy, made

    cdef int _renew(self, long long now) except -1:
        """Copy the summary of the tree at the root, without debts, if it covers all leaves."""
        cdef Py_ssize_t child, last = -1, n = 0
        cdef long long there = 0, covers = 0
        cdef int handle = -1, left = self.node[1].held, right = self.node[2].held
        cdef double release = -INFINITY
        cdef const unsigned int* a
        cdef const unsigned int* b
        for child in range(1, 3):
            covers += self.outlook[child].covers
            if self.node[child].away == GONE:
                continue
            if self.node[child].held < 0:
                return 0
            there += self.node[child].below
            if n and self.celled and payloads_release(&self.payloads, self.node[child].held)[0] != release:
                return 0
            release = fmax(release, payloads_release(&self.payloads, self.node[child].held)[0])
            last, n = child, n + 1
        if n == 0 or covers < there:
            return 0
        if n == 1:
            handle = self.node[last].held
            payloads_hold(&self.payloads, handle)
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
        self.outlook[0].copy, self.outlook[0].made = handle, now
        return 0

    cdef void _tell(self, Py_ssize_t u, Py_ssize_t child, bint always, double* largest, long long* copy,
                    long long* made) noexcept nogil:
        """Fill in what a message from router `u` to a child says of the rest of the tree, but for the minimum.

        Parameters
        ----------
        always
            Whether a router is told the copy of the root's summary even if it knows it.
        """
        largest[0], copy[0], made[0] = NAN, -1, -1
        if self.outlook == NULL or child >= self.first_leaf:
            return
        if self.by_largest:
            largest[0] = fmax(self.outlook[u].rest_largest, self.outlook[4 * u + 3 - child].held_largest)
            self.outlook[child].told_largest = largest[0]
        if self.by_root and self.outlook[u].copy >= 0 and (always or self.outlook[u].made > self.outlook[child].copied):
            self.outlook[child].copied = made[0] = self.outlook[u].made
            copy[0] = self.outlook[u].copy
            payloads_hold(&self.payloads, self.outlook[u].copy)

    cdef bint _columns(self, Py_ssize_t u, Py_ssize_t application, double now) noexcept nogil:
        """Fill `rooms` with what each child of `u` can take, one after the other; False if no grid cell fits it."""
        if self.size_sample[application] < 0 or self.task_size_sample[application] >= self.g.n_task_size:
            memset(self.rooms, 0, 2 * self.g.n_stretch * sizeof(long long))
            return False
        self._column(2 * u + 1, application, now, self.rooms)
        self._column(2 * u + 2, application, now, self.rooms + self.g.n_stretch)
        return True

    cdef void _column(self, Py_ssize_t child, Py_ssize_t application, double now, long long* rooms) noexcept nogil:
        """Compute how many tasks of an application `child` can take at `now` s, at each stretch sample.

        The results are cells of `_read`, but the summary is not debited as a whole: its cells are monotone
        before the debit, so the closure raises a cell only to values from the cell's own row.
        """
        cdef Py_ssize_t i
        cdef int handle = self.node[child].held
        cdef bint owes = self.node[child].debt >= 0
        if handle < 0:
            for i in range(self.g.n_stretch):
                rooms[i] = 0
            return
        if owes:
            self._drop_of(child, now)
        self._look(handle, owes, self._instant(child, now), max(1, self.node[child].below), self.node[child].power,
                   application, now, rooms)

    cdef void _look(self, int handle, bint owes, double at, long long leaves, double power, Py_ssize_t application,
                    double now, long long* rooms) noexcept nogil:
        """Compute how many tasks of an application fit by a summary of so many leaves, sampled for release `at`.

        Parameters
        ----------
        owes
            Whether `drops` and `limits` are to be taken from it.
        """
        cdef Py_ssize_t i, j, k, row, ia = self.task_size_sample[application]
        cdef double w = self.size[application], waited = now - self.release[application], lost = 0.0
        cdef double later = self.release[application] - at
        cdef long long found
        if later > 0.0 and self.celled:
            # each leaf loses speed * later and at most one of the longest tasks, counted in whole tasks of size a
            lost = leaves - 1 + quotient_up(power * later + leaves * self.longest, self.ga[ia])
        elif later > 0.0:
            later = 0.0                 # read as if it had been sampled for this release
        for i in range(self.g.n_stretch):
            rooms[i] = 0
            if self.gs[i] * w <= waited:
                continue                # the deadline has passed
            j = self.size_sample[application]
            if later != 0.0:
                j = self.g.n_size - 1
                while j >= 0 and self.gw[j] > w + later / self.gs[i]:
                    j -= 1
            if owes:
                while j >= 0 and self.gw[j] > self.limits[i]:
                    j -= 1
            if j < 0:
                continue
            row = (i * self.g.n_size + j) * self.g.n_task_size
            found = payloads_cell(&self.payloads, handle, row + ia)
            if owes:
                found -= self.drops[ia]
                for k in range(ia + 1, self.g.n_task_size):
                    found = max(found, <long long> payloads_cell(&self.payloads, handle, row + k) - self.drops[k])
            rooms[i] = max(0, found) if lost == 0.0 else <long long> max(0.0, found - lost)

    cdef int _divide(self, long long tasks, const long long* room, long long* share) except -1:
        """Divide `tasks` <= room[0] + room[1] between two children by largest remainder, as `gridcore.split`."""
        cdef unsigned long long total = room[0] + room[1], product, rest
        if total == 0:
            share[0] = share[1] = 0
            return 0
        if tasks < 2**31:               # room[0] < 2**32, so that the product fits
            product = <unsigned long long> tasks * <unsigned long long> room[0]
            share[0], rest = product // total, product % total
        else:
            whole, part = divmod(int(tasks) * int(room[0]), int(total))
            share[0], rest = whole, part
        share[0] += 2 * rest >= total and rest > 0
        share[1] = tasks - share[0]
        return 0

    cdef void _acknowledge(self, const Request* row) noexcept nogil:
        self.node[row.node].got = max(self.node[row.node].got, row.sequence)
        self.node[row.node].asked = 1

    # -- summaries ----------------------------------------------------------------------------------------

    cdef int _check_summary(self, const Summary* row, Py_ssize_t k) except -1:
        if not (0 < row.sender < self.nodes and row.node == (row.sender - 1) // 2):
            raise ValueError(f"rows[{k}] goes from node {row.sender} to {row.node}, which is not its parent")
        if not payloads_has(&self.payloads, row.payload):
            raise ValueError(f"rows[{k}].payload is not in use, got {row.payload}")
        return 0

    cdef void _receive(self, const Summary* row) noexcept nogil:
        cdef Py_ssize_t child = row.sender, parent = row.node
        if row.sequence <= self.node[child].heard or self.node[child].away == GONE:
            payloads_drop(&self.payloads, <int> row.payload)
            return
        self.node[child].heard = row.sequence
        payloads_drop(&self.payloads, self.node[child].held)
        self.node[child].held = <int> row.payload
        self.node[child].held_minimum = row.minimum
        if self.outlook != NULL:
            self.outlook[child].held_largest, self.outlook[child].covers = row.largest, row.covers
        debts_settle(&self.debts, &self.node[child].debt, row.echo)
        self.node[parent].since = min(self.node[parent].since, row.since)

    cdef void _read_ahead_nodes(self, const Summary* row) noexcept nogil:
        """Prefetch the nodes that a summary, which may be any record, concerns: its sender, the sibling and the parent."""
        if not 0 < row.sender < self.nodes:
            return
        prefetch(&self.node[row.sender])
        prefetch(&self.node[((row.sender - 1) ^ 1) + 1])
        prefetch(&self.node[(row.sender - 1) // 2].said)

    cdef void _read_ahead_payloads(self, const Summary* row) noexcept nogil:
        """Prefetch what is known about a summary, about those to which it is added, and about what its sum replaces."""
        cdef int[3] handle
        cdef Py_ssize_t k
        if not 0 < row.sender < self.nodes:
            return
        handle = [self.node[row.sender].held, self.node[((row.sender - 1) ^ 1) + 1].held,
                  self.node[(row.sender - 1) // 2].said]
        for k in range(3):
            if handle[k] >= 0:
                prefetch(payloads_known(&self.payloads, handle[k]))
        if payloads_within(&self.payloads, row.payload):
            prefetch(payloads_known(&self.payloads, <int> row.payload))

    cdef long long _turn(self, Py_ssize_t m, long long now) noexcept nogil:
        cdef long long due
        if m == 0 or self.node[m].away:
            return -1                          # the root has no parent
        if m >= self.first_leaf:
            self.node[m].since = min(self.node[m].since, now)
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
        cdef Py_ssize_t one = 2 * m + 1, other = 2 * m + 2
        cdef int left = self.node[one].held, right = self.node[other].held, handle = -1
        cdef double here = self._released(one, now) if left >= 0 else -INFINITY
        cdef double there = self._released(other, now) if right >= 0 else here
        if self.celled and left >= 0 and here != there:
            return -1
        if left >= 0 and right >= 0 and not (left & 1 or right & 1):
            handle = payloads_add(&self.payloads, self._read_narrow(one, now, <unsigned short*> self.left),
                                  self._read_narrow(other, now, <unsigned short*> self.right))
        if handle < 0:
            handle = payloads_put(&self.payloads, self._add(one, other, now))
        payloads_release(&self.payloads, handle)[0] = 0.0 if left < 0 and right < 0 else fmax(here, there)
        least[0] = min(self.node[one].held_minimum, self.node[other].held_minimum)
        return handle

    cdef double _released(self, Py_ssize_t child, double now) noexcept nogil:
        """Return the release (s) that the summary of `child` has in a sum: `_instant` if anything was debited."""
        return (self._instant(child, now) if self.node[child].debt >= 0
                else payloads_release(&self.payloads, self.node[child].held)[0])

    cdef const unsigned int* _add(self, Py_ssize_t one, Py_ssize_t other, double now) noexcept nogil:
        """Return the sum of the debited summaries of two children."""
        cdef const unsigned int* a = self._read(one, now, self.left)
        cdef const unsigned int* b = self._read(other, now, self.right)
        if a != NULL and b != NULL:
            add_cells(a, b, self.sum, self.cells)
        elif a != NULL:
            return a
        elif b != NULL:
            return b
        else:
            memset(self.sum, 0, self.cells * sizeof(int))
        return self.sum

    cdef bint _say(self, Py_ssize_t m, long long now, int handle, double least, double largest,
                   Summary* out) noexcept nogil:
        """Fill in the summary that a node sends to its parent; False if it has nothing new to say.

        It is sent all the same if the node has received a request since its last summary: its parent must remove
        that from the debts.
        """
        cdef int said = self.node[m].said
        cdef long long covers = 0
        cdef bint same = True
        if self.by_root:
            covers = 1 if m >= self.first_leaf else self.outlook[2 * m + 1].covers + self.outlook[2 * m + 2].covers
        if self.outlook != NULL:
            same = largest == self.outlook[m].said_largest and covers == self.outlook[m].said_covers
        if (same and said >= 0 and not self.node[m].asked and least == self.node[m].said_minimum
                and payloads_release(&self.payloads, handle)[0] == payloads_release(&self.payloads, said)[0]
                and payloads_same(&self.payloads, handle, said)):
            payloads_drop(&self.payloads, handle)
            self.node[m].since = NEVER
            return False
        payloads_hold(&self.payloads, handle)          # one reference for the message, one for the sender
        payloads_drop(&self.payloads, said)
        self.node[m].said = handle
        self.node[m].said_minimum = least
        self.node[m].asked = 0
        self.node[m].free_at = now + self.gap
        out.node = (m - 1) // 2
        out.sender = m
        out.payload = handle
        out.sequence = self.node[m].number
        out.echo = self.node[m].got
        out.minimum = least
        out.since = self.node[m].since
        out.largest, out.covers = largest, covers
        if self.outlook != NULL:
            self.outlook[m].said_largest, self.outlook[m].said_covers = largest, covers
        self.node[m].number += 1
        self.node[m].since = NEVER
        return True

    # -- failures -----------------------------------------------------------------------------------------

    def reset(self, nodes: ArrayLike):
        """Put `nodes`, which have failed, back into the tree with an empty memory.

        A router has lost the summaries of its children and the debts of what it dispatched to them; the
        children send their next reports even if these contain nothing new.  The parents of `nodes` learn from the
        next report (its echo covers all earlier requests) that nothing dispatched before is still on its way.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k, m, child
        cdef bint gone
        for k in range(u.shape[0]):
            m = u[k]
            gone, self.node[m].away = self.node[m].away == GONE, PRESENT
            if gone:
                self._weigh(m)
                self.node[m].held_minimum = self.unknown
            payloads_drop(&self.payloads, self.node[m].said)
            self.node[m].said, self.node[m].said_minimum = -1, INFINITY
            self.node[m].rest = self.unknown if m else INFINITY
            self._forget(m)
            self.node[m].got = self.node[m].issued
            self.node[m].asked = False
            self.node[m].due_at, self.node[m].since = NEVER, NEVER
            if m < self.first_leaf:
                for child in range(2 * m + 1, 2 * m + 3):
                    self._unhear(child)
                    self.node[child].asked = True
                    if self.node[child].away != GONE:
                        self.node[child].held_minimum = self.unknown

    cdef void _forget(self, Py_ssize_t m) noexcept nogil:
        """Remove what node m has been told, and has last said, for a rule of acceptance."""
        if self.outlook == NULL:
            return
        payloads_drop(&self.payloads, self.outlook[m].copy)
        self.outlook[m].copy, self.outlook[m].made = -1, -1
        self.outlook[m].rest_largest = self.outlook[m].said_largest = 0.0
        self.outlook[m].said_covers = 0

    cdef void _unhear(self, Py_ssize_t child) noexcept nogil:
        """Remove everything that the parent knows about `child`."""
        payloads_drop(&self.payloads, self.node[child].held)
        self.node[child].held, self.node[child].held_minimum, self.node[child].told = -1, INFINITY, INFINITY
        debts_settle(&self.debts, &self.node[child].debt, self.node[child].issued)
        if self.outlook != NULL:
            self.outlook[child].held_largest = self.outlook[child].told_largest = 0.0
            self.outlook[child].covers, self.outlook[child].copied = 0, -1

    def silence(self, nodes: ArrayLike):
        """Stop the reports of `nodes` until `reset`; their parents have not detected the failure yet."""
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            self.node[u[k]].away = max(self.node[u[k]].away, SILENT)

    def leave(self, nodes: ArrayLike):
        """Take `nodes` out of the tree until `reset`; their parents know this and forget everything about them."""
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            self.node[u[k]].away = GONE
            self._unhear(u[k])
            self._weigh(u[k])

    cdef void _weigh(self, Py_ssize_t m) noexcept nogil:
        """Update the leaves and the speed below `m`, which has left or returned, and below all its ancestors."""
        while True:
            if self.node[m].away == GONE:
                self.node[m].below, self.node[m].power = 0, 0.0
            elif m >= self.first_leaf:
                self.node[m].below, self.node[m].power = 1, self.speed[m - self.first_leaf]
            else:
                self.node[m].below = self.node[2 * m + 1].below + self.node[2 * m + 2].below
                self.node[m].power = self.node[2 * m + 1].power + self.node[2 * m + 2].power
            if m == 0:
                break
            m = (m - 1) // 2

    # -- the minimum stretch on its way down ------------------------------------------------------------------

    def spread(self) -> NDArray[Any]:
        """Return the `SPREAD` rows by which the root tells routers below it what they need to know of their rest."""
        cdef _Guard alone = guard(&self.occupied)
        cdef Spread[2] made
        cdef Py_ssize_t k, n = self._spread(0, True, made) if self.first_leaf else 0
        out_array = np.empty(n, SPREAD)
        cdef Spread[::1] out = out_array
        for k in range(n):
            out[k] = made[k]
        return out_array

    cdef Py_ssize_t _spread(self, Py_ssize_t m, bint always, Spread* out) noexcept nogil:
        cdef Py_ssize_t j, child, n = 0
        cdef double value
        cdef bint news
        for j in range(2):
            child = 2 * m + 1 + j
            if child >= self.first_leaf or self.node[m].away:
                continue
            value = min(self.node[m].rest, self.node[2 * m + 2 - j].held_minimum)
            news = value != self.node[child].told
            if self.by_largest:
                news |= (fmax(self.outlook[m].rest_largest, self.outlook[2 * m + 2 - j].held_largest)
                         != self.outlook[child].told_largest)
            if always or news:
                self.node[child].told = value
                out[n].node, out[n].sender, out[n].minimum = child, m, value
                self._tell(m, child, True, &out[n].largest, &out[n].copy, &out[n].made)
                n += 1
        return n

    # -- checkpoints ------------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return what has changed since the tree and its applications were made; see `gridcore.common.state`.

        Nodes are stored as they are in memory, except for their debts, which come by node, the latest first.
        """
        cdef _Guard alone = guard(&self.occupied)
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
            held, released = references, release
            for k in range(n):
                held[k] = pool_at(&self.payloads.pool[wide], k).references
                released[k] = pool_at(&self.payloads.pool[wide], k).release
            state[f"references_{wide}"], state[f"cells_{wide}"] = references, self._chunks(wide)
            state[f"release_{wide}"] = np.where(references > 0, release, 0.0)
        return read_only(state)

    def _chunks(self, Py_ssize_t wide):
        """Yield the summaries of a pool, chunk by chunk, as copies that do not depend on the tree."""
        k = 0
        while k < self.payloads.pool[wide].chunks:
            yield self._chunk(wide, k)
            k += 1

    def _chunk(self, Py_ssize_t wide, Py_ssize_t k):
        cdef _Guard alone = guard(&self.occupied)
        cdef const Pool* pool = &self.payloads.pool[wide]
        cdef Py_ssize_t place
        result = np.empty((CHUNK, pool.nbytes), np.uint8)
        cdef unsigned char[:, ::1] cells = result
        for place in range(CHUNK):
            memcpy(&cells[place, 0], pool_at(pool, k * CHUNK + place) + 1, pool.nbytes)
        return result.reshape(-1)

    def setstate(self, state):
        """Restore what `getstate` returned for a tree made with the same arguments and applications.

        Raises ValueError for a state that cannot belong to this tree, which must not be used after that.
        """
        cdef _Guard alone = guard(&self.occupied)
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
                raise ValueError(f"state['references_{wide}'] must be a multiple of {CHUNK} long")

        cdef const unsigned char[:, ::1] given = entries["nodes"]
        cdef const int[::1] held
        for m in range(self.nodes):
            node = <Node*> &given[m, 0]
            for handle in (node.held, node.said):
                held = references[handle & 1]
                if handle != -1 and not (0 <= handle >> 1 < held.shape[0] and held[handle >> 1] > 0):
                    raise ValueError(f"state['nodes'][{m}] has a payload that is not in use, {handle}")
        cdef const unsigned char[:, ::1] outlooks = entries.get("outlooks")
        cdef const Outlook* outlook
        for m in range(self.nodes if self.outlook != NULL else 0):
            outlook = <const Outlook*> &outlooks[m, 0]
            held = references[outlook.copy & 1]
            if outlook.copy != -1 and not (0 <= outlook.copy >> 1 < held.shape[0] and held[outlook.copy >> 1] > 0):
                raise ValueError(f"state['outlooks'][{m}] has a payload that is not in use, {outlook.copy}")
        refuse("debt_sizes", ~(np.isfinite(sizes_array[:, [0, 1, 3]]).all(axis=1) & (sizes_array[:, :3] > 0).all(axis=1)),
               "> 0 but for the release, and finite but for the stretch")
        for wide in range(2):
            refuse(f"release_{wide}", np.isnan(release[wide]), "a number")

        # if something below fails, no node refers to a payload or a debt that no longer exists
        for m in range(self.nodes):
            self.node[m].held = self.node[m].said = self.node[m].debt = -1
            if self.outlook != NULL:
                self.outlook[m].copy = -1
        debts_free(&self.debts)
        memset(&self.debts, 0, sizeof(Debts))
        debts_make(&self.debts)
        payloads_clear(&self.payloads, len(references[0]), len(references[1]))
        cdef const double[::1] released
        for wide in range(2):
            held = references[wide]
            m = 0
            for chunk in entries[f"cells_{wide}"]:
                if (m + 1) * CHUNK > held.shape[0]:
                    raise ValueError(f"state['cells_{wide}'] must have {held.shape[0] // CHUNK} arrays, got more")
                for k in range(CHUNK):
                    memcpy(pool_at(&self.payloads.pool[wide], m * CHUNK + k) + 1,
                           &chunk[k * self.payloads.pool[wide].nbytes], self.payloads.pool[wide].nbytes)
                m += 1
            if m * CHUNK != held.shape[0]:
                raise ValueError(f"state['cells_{wide}'] must have {held.shape[0] // CHUNK} arrays, got {m}")
        for wide in range(2):  # no check can fail any more, which would leave payloads both in use and free
            held, released = references[wide], release[wide]
            for k in range(held.shape[0]):
                pool_at(&self.payloads.pool[wide], k).references = held[k]
                pool_at(&self.payloads.pool[wide], k).release = released[k]
        payloads_recount(&self.payloads)
        memcpy(self.node, &given[0, 0], self.nodes * sizeof(Node))
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
