"""The compiled protocol of the fair tree: handles summaries, requests and shares without Python handlers.

Most messages arrive at instants of their own, and a handler call for each would cost more than the work.
`FairTreeProtocol` connects the tree, the queues of the leaves and the links, and runs the actions of nodes that follow
from a message, from a change of a queue, or from the end of a delay: summaries, spreads and requests arrive, leaves
accept their shares and order their queues, nodes report.  The caller starts the events at given times: releases,
heartbeats, failures.  Tests compare the digest and the logged decisions with those of the node program.

If many leaves act at one instant, as with equal delays, several threads order and sample their queues.  A thread
accesses only the data of its leaves; everything else is done before or after, in the order of the leaves.
"""

cimport cython
from libc.math cimport INFINITY, NAN, isnan
from libc.stdlib cimport calloc, free, malloc

from gridcore.common.arguments cimport _Guard, check_instant, guard, indices, doubles_copy
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.queues.edf cimport Queue
from gridcore.network.links cimport Links
from gridcore.common.memory cimport reallocate, prefetch
from gridcore.fair_tree.decision_log cimport _DecisionLog
from gridcore.fair_tree.payloads cimport (payloads_drop, payloads_fill, payloads_is_used, payloads_new, payloads_release, payloads_shrink,
                                payloads_wide, payloads_has_place)
from gridcore.common.pending cimport (Event, Pending, pending_clear, pending_first, pending_free, pending_pop, pending_push,
                               pending_read)
from gridcore.queues.task_queues cimport Scratch, TaskQueues, scratch_free, scratch_make
from gridcore.fair_tree.summary_tree cimport Decision, Request, Spread, Summary, SummaryTree

import numpy as np

from gridcore.common.state import ANY, INSTANT, ArrayEntry, NumberEntry, TableEntry, read, read_only
from gridcore.fair_tree.summary_tree import DECISION, LARGEST_BYTES, MADE_BYTES

__all__ = ["SHARE", "FairTreeProtocol"]


#: A message from a leaf to a submitter: `tasks` tasks of the application have arrived or been completed.
SHARE = np.dtype([("node", "i8"), ("sender", "i8"), ("application", "i8"), ("tasks", "i8")])
_STATE = {
    "turns": TableEntry({"time": INSTANT, "node": (0, "nodes")}), "placed_at": NumberEntry(), "touched_at": NumberEntry(),
    "reports": ArrayEntry(np.int64, limits=(0, "nodes")), "arrivals": TableEntry({"application": ANY, "tasks": ANY}),
    "made": ArrayEntry(DECISION), "made_at": ArrayEntry(np.int64, ("made",)),
}

# The smallest number of leaves that are worth the overhead of threads.
cdef Py_ssize_t _MIN_THREADED = 512
# Prefetch distance of nodes and cells, in messages; it is twice as long for records, and half as long for headers of
# summaries.
cdef Py_ssize_t _PREFETCH_DISTANCE = 4
# The number of leaves that sample in one batch; new summaries of a batch are in memory beside the old ones.
cdef Py_ssize_t _BATCH = 8192
cdef long long _LARGEST_BYTES = LARGEST_BYTES, _MADE_BYTES = MADE_BYTES

@cython.auto_pickle(False)
cdef class _NodeSet:
    """A set of nodes."""

    def __init__(self, Py_ssize_t nodes):
        self.item, self.is_member = np.zeros(nodes, np.int32), np.zeros(nodes, np.uint8)

    cdef void add(self, Py_ssize_t m) noexcept nogil:
        if not self.is_member[m]:
            self.is_member[m] = True
            self.item[self.n] = <int> m
            self.n += 1

    cdef int sort(self) except -1:
        cdef Py_ssize_t k
        for k in range(1, self.n):
            if self.item[k] < self.item[k - 1]:
                np.asarray(self.item)[:self.n].sort()
                break
        return 0

    cdef void clear(self) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(self.n):
            self.is_member[self.item[k]] = False
        self.n = 0

    cdef object read(self):
        """Return int64[k], the nodes in ascending order."""
        self.sort()
        return np.array(self.item[:self.n], np.int64)


cdef class FairTreeProtocol:
    """The scheduling protocol of the nodes of `tree`, with the task queues `queues` and the network `links`.

    Leaf u of the tree is machine u of `queues`; when idle, it reports the minimum stretch ``idle_minimum[u]``.
    Its summaries are sampled for a release at the next multiple of `cell` ns, or at present if `cell` is 0.

    Parameters
    ----------
    summary, spread, request, accept
        (number of the kind in `links`, bytes of a message).
    spread_on_change
        Whether routers spread the minimum stretch whenever it changes; otherwise they only pass on that of the root.
    submitter
        int64[applications], the node that receives the accept messages.
    goal
        Total number of tasks.  `placed_at` is set when the last of them has been placed.
    run_on
        Whether the protocol continues after that; otherwise no node reports any more.
    log
        None for no log of decisions (`read_log`); otherwise (bool[machines], whether each machine is up; a function
        from a node to the total speed of the leaves below it that are up, Mflop/s).
    observe
        None, or a function of each message that is sent: now (ns), the number of the kind, uint8[1, width].
    threads
        The number of threads that share the leaves that act at one instant; the result does not depend on it.
    """

    def __cinit__(self, SummaryTree tree, TaskQueues queues, Links links, *, summary: tuple[int, int],
                  spread: tuple[int, int], request: tuple[int, int], accept: tuple[int, int], idle_minimum: ArrayLike,
                  submitter: ArrayLike, long long goal, bint run_on=False, bint spread_on_change=False,
                  long long cell=0, log: tuple[Bools, Callable[[int], float]] | None = None,
                  observe: Callable[[int, int, NDArray[np.uint8]], None] | None = None, Py_ssize_t threads=1):
        for name, argument in (("tree", tree), ("queues", queues), ("links", links)):
            if argument is None:
                raise TypeError(f"{name} must not be None")
        if not 1 <= threads <= 1024:
            raise ValueError(f"threads must be in 1..1024, got {threads}")
        if not 0 <= cell <= 10**18:
            raise ValueError(f"cell must be in 0..{10**18} ns, got {cell}")
        if links.machine_of.shape[0] != tree.nodes:
            raise ValueError(f"links must have {tree.nodes} nodes, got {links.machine_of.shape[0]}")
        if tree.size.shape[0] != queues.n_applications:
            raise ValueError(f"queues must have {tree.size.shape[0]} applications, got {queues.n_applications}")
        if queues.machines != tree.leaves:
            raise ValueError(f"queues must have {tree.leaves} machines, got {queues.machines}")
        self.idle_minimum = doubles_copy(idle_minimum, "idle_minimum")
        if self.idle_minimum.shape[0] != tree.leaves:
            raise ValueError(f"idle_minimum must have {tree.leaves} entries, got {self.idle_minimum.shape[0]}")
        self.submitter = indices(submitter, "submitter", 0, tree.nodes)
        if self.submitter.shape[0] != queues.n_applications:
            raise ValueError(f"submitter must have {queues.n_applications} entries, got {self.submitter.shape[0]}")
        self.tree, self.queues, self.links, self.cell = tree, queues, links, cell
        self.goal, self.run_on, self.observe = goal, run_on, observe
        self.placed_at = self.touched_at = NEVER
        if log is not None:
            self.log = _DecisionLog(tree, queues, links, *log)
        self.summary = self._read_kind("summary", summary, sizeof(Summary))
        self.spread = self._read_kind("spread", spread, sizeof(Spread))
        self.spread_on_change = spread_on_change
        self.request = self._read_kind("request", request, sizeof(Request))
        self.accept = self._read_kind("accept", accept, sizeof(Share))
        links.inner[self.summary.number] = links.inner[self.spread.number] = links.inner[self.request.number] = True
        self.minimum_stretch = np.zeros(tree.leaves)
        self.reports, self.orders = _NodeSet(tree.nodes), _NodeSet(tree.nodes)
        self.arrivals = np.zeros((64, 2), np.int64)
        self.decision_rows, self.decision_times = np.zeros(64, DECISION), np.zeros(64, np.int64)
        self.threads = threads
        self.scratch = <Scratch*> calloc(threads, sizeof(Scratch))
        self.sample_room = <unsigned int*> malloc(threads * tree.cells * sizeof(int))
        if self.scratch == NULL or self.sample_room == NULL:
            raise MemoryError
        self.batch, self.handles = np.zeros(_BATCH, np.int32), np.zeros(_BATCH, np.int32)
        self.least, self.largest, self.fits = np.zeros(_BATCH), np.zeros(_BATCH), np.zeros(_BATCH, np.uint8)
        if threads > 1:
            from concurrent.futures import ThreadPoolExecutor  # takes long to import

            self.pool = ThreadPoolExecutor(threads)

    cdef Kind _read_kind(self, str name, object pair, Py_ssize_t width) except *:
        cdef Kind kind
        cdef long long number, nbytes
        number, nbytes = pair
        if not 0 <= number < self.links.kinds:
            raise ValueError(f"{name} must be a kind in 0..{self.links.kinds - 1}, got {number}")
        if self.links.width[number] != width:
            raise ValueError(f"records of kind {number} must be {width} bytes wide, "
                             f"got {self.links.width[number]}")
        if not 0 <= nbytes < 2**31:
            raise ValueError(f"{name} must have 0..{2**31 - 1} bytes, got {nbytes}")
        kind.number, kind.nbytes, kind.transmission_time = <int> number, nbytes, self.links._transmission_time(nbytes)
        return kind

    def __dealloc__(self):
        self._free_scratch()
        free(self.scratch)
        free(self.sample_room)
        pending_free(&self.turns)

    cdef _Guard _guard(self):
        return guard(&self.in_call, guard(&self.tree.in_call, guard(&self.queues.in_call, guard(&self.links.in_call))))

    # -- time ---------------------------------------------------------------------------------------------

    def advance(self, long long limit) -> int:
        """Run up to `limit` ns; return the first instant <= limit at which the caller must act, else `NEVER`.

        The actions of nodes at `limit` itself are included, since they come before everything else at an instant.  The
        caller must act when requests were lost, which it reads from the links, and when all tasks are placed, unless
        the protocol continues.
        """
        cdef _Guard access = self._guard()
        cdef long long turn, at
        cdef bint lost = False
        while True:
            turn = self._next_turn()
            at = min(self.links._advance(min(limit, turn)), turn)
            if at > limit or at == NEVER:
                return limit if lost else NEVER
            self._take_turns(at)
            while self._arrive(at):
                self.links._advance(at)
            if self.task_lost():  # the caller must act at the end of this instant
                lost, limit = True, at
            if at == self.touched_at:
                continue  # the caller will call `act`
            self._act(at)
            if self.placed_at == at and not self.run_on:
                return at

    cdef long long _next_turn(self) noexcept nogil:
        """Return the first instant (ns) at which a node acts without a message, else `NEVER`."""
        cdef long long turn = self.queues.change[self.queues.heap[0]]
        cdef const Event* first = pending_first(&self.turns)
        return first.time if first != NULL and first.time < turn else turn

    cdef bint _all_placed(self) except -1:
        return self.queues.enqueued >= self.goal

    cdef int _act(self, long long now) except -1:
        """Order the queues of leaves that received shares, and send the reports of the marked nodes."""
        self._reorder(now)
        if self.placed_at == NEVER and self._all_placed():
            self.placed_at = now
            if not self.run_on:
                self.reports.clear()
        self._report(now)
        return 0

    cdef bint _arrive(self, long long now) except -1:
        """Handle the summaries, spreads and requests that arrive at `now`; return False if there are none."""
        cdef Py_ssize_t k, n, summaries, spreads
        cdef Summary summary
        cdef Spread spread
        cdef Request request
        summaries = self.links._take(self.summary.number, now)
        if summaries:
            self._prefetch_next()
        for k in range(summaries):
            if k + _PREFETCH_DISTANCE < summaries:
                self.tree._prefetch_nodes(<Summary*> self._at(k + _PREFETCH_DISTANCE))
            if k + _PREFETCH_DISTANCE // 2 < summaries:
                self.tree._prefetch_payloads(<Summary*> self._at(k + _PREFETCH_DISTANCE // 2))
            summary = (<Summary*> self._record(k, summaries))[0]
            # `links` does not check its records
            if not (0 < summary.sender < self.tree.nodes and summary.node == (summary.sender - 1) // 2
                    and payloads_has_place(&self.tree.payloads, summary.payload)):
                raise ValueError("links must have summaries with stored payloads from nodes to their parents, got payload "
                                 f"{summary.payload} from node {summary.sender} to {summary.node}")
            self._receive(&summary, now)
        self.links.stage += 1
        spreads = self.links._take(self.spread.number, now)
        self.links._sort_by_node(spreads)
        for k in range(spreads):
            spread = (<Spread*> self._record(k, spreads))[0]
            if not 0 <= spread.node < self.tree.first_leaf:
                raise ValueError(f"links must have spreads to routers, got node {spread.node}")
            self._check_copy(spread.copy)
            self.tree.node[spread.node].outer_minimum = spread.minimum
            self.tree._learn_outlook(spread.node, spread.largest_minimum, spread.copy, spread.made)
            if self.spread_on_change:
                self.reports.add(spread.node)
            else:
                self._spread(spread.node, True, now)
        # handle requests in order of receivers, since what these send must be in order of kind and sender
        self.links.stage += 1
        n = self.links._take(self.request.number, now)
        self.links._sort_by_node(n)
        for k in range(n):
            if k + _PREFETCH_DISTANCE < n:
                self.tree._prefetch_request(<Request*> self._at(k + _PREFETCH_DISTANCE))
            request = (<Request*> self._record(k, n))[0]
            if not (0 <= request.application < self.submitter.shape[0] and 1 <= request.tasks < 2**52):
                raise ValueError(f"links must have requests for 1..2**52 - 1 tasks of applications below {self.submitter.shape[0]}, "
                                 f"got {request.tasks} tasks of application {request.application}")
            self._check_copy(request.copy)
            if request.node < self.tree.first_leaf:
                self._route(&request, now)
            else:
                self._enqueue(&request, now)
        return summaries > 0 or spreads > 0 or n > 0

    cdef int _spread(self, Py_ssize_t m, bint force, long long now) except -1:
        """Send the child routers of m the minimum stretch of the rest of the tree, if it has changed or `force`."""
        cdef Spread[2] out
        cdef Py_ssize_t k, n = self.tree._spread(m, force, out)
        for k in range(n):
            self._post_down(&self.spread, &out[k], out[k].largest_minimum, out[k].copy, now)
        return 0

    cdef int _check_copy(self, long long copy) except -1:
        if copy != -1 and not payloads_has_place(&self.tree.payloads, copy):
            raise ValueError(f"links must have copies of the root's summary that exist, or -1, got {copy}")
        return 0

    cdef int _post_down(self, const Kind* kind, const void* record, double largest, long long copy,
                        long long now) except -1:
        """Send a message; its size includes its optional fields for a rule of acceptance."""
        cdef Kind sized = kind[0]
        if not isnan(largest):
            sized.nbytes += _LARGEST_BYTES
        if copy >= 0:
            sized.nbytes += 4 * self.tree.cells + _MADE_BYTES
        if sized.nbytes != kind.nbytes:
            sized.transmission_time = self.links._transmission_time(sized.nbytes)
        return self._post(&sized, record, now)

    cdef int _post(self, const Kind* kind, const void* record, long long now) except -1:
        """Send a message, and pass it to `observe`."""
        cdef Py_ssize_t width
        if self.observe is not None:
            width = self.links.width[kind.number]
            self.observe(now, kind.number, np.array(<const unsigned char[:1, :width]> <const unsigned char*> record))
        return self.links._send(now, kind.number, record, kind.nbytes, kind.transmission_time)

    cdef bint task_lost(self) noexcept nogil:
        """Free the payloads of dropped messages; return True if spreads or requests are left for the caller."""
        cdef Py_ssize_t k, left = 0
        cdef int slot
        cdef long long payload
        cdef long long* copy
        for k in range(self.links.n_missing):
            slot = self.links.missing[k]
            if self.links.message[slot].kind == self.summary.number:
                payload = (<Summary*> (self.links.data + slot * self.links.stride)).payload
                if payloads_has_place(&self.tree.payloads, payload):
                    payloads_drop(&self.tree.payloads, <int> payload)
                self.links._free_slot(slot)
            else:
                copy = self._copy_of(slot)
                if copy != NULL and payloads_has_place(&self.tree.payloads, copy[0]):
                    payloads_drop(&self.tree.payloads, <int> copy[0])
                    copy[0] = -1
                self.links.missing[left] = slot
                left += 1
        self.links.n_missing = left
        return left > 0

    cdef long long* _copy_of(self, int slot) noexcept nogil:
        """Return a pointer to the `copy` field of a spread or a request; NULL for other kinds of messages."""
        cdef char* record = self.links.data + slot * self.links.stride
        if self.links.message[slot].kind == self.spread.number:
            return &(<Spread*> record).copy
        if self.links.message[slot].kind == self.request.number:
            return &(<Request*> record).copy
        return NULL

    cdef char* _at(self, Py_ssize_t k) noexcept nogil:
        return self.links.data + self.links.due[k].slot * self.links.stride

    cdef void* _record(self, Py_ssize_t k, Py_ssize_t n) noexcept nogil:
        """Return the record of the k-th of n messages, and free its slot; it is valid until a message is sent."""
        cdef char* next_record
        if k + 2 * _PREFETCH_DISTANCE < n:
            next_record = self._at(k + 2 * _PREFETCH_DISTANCE)
            prefetch(next_record)
            prefetch(next_record + self.links.stride - 1)
        self.links._free_slot(self.links.due[k].slot)
        return self._at(k)

    cdef void _prefetch_next(self) noexcept nogil:
        """Prefetch the data of the next summaries, whose records `links` has prefetched."""
        cdef const int* upcoming = self.links.queue[self.summary.number].upcoming
        if upcoming[1] >= 0:
            self.tree._prefetch_nodes(<Summary*> (self.links.data + upcoming[1] * self.links.stride))
        if upcoming[0] >= 0:
            self.tree._prefetch_payloads(<Summary*> (self.links.data + upcoming[0] * self.links.stride))

    cdef int _receive(self, const Summary* row, long long now) except -1:
        if self.tree._receive(row) and row.node == 0 and row.since < NEVER:
            if self.n_arrivals == self.arrivals.shape[0]:
                wider = np.zeros((2 * self.n_arrivals, 2), np.int64)
                wider[:self.n_arrivals] = self.arrivals
                self.arrivals = wider
            self.arrivals[self.n_arrivals, 0] = now
            self.arrivals[self.n_arrivals, 1] = row.since
            self.n_arrivals += 1
        self.reports.add(row.node)
        return 0

    cdef int _route(self, const Request* row, long long now) except -1:
        cdef Request[2] out
        cdef Decision decision
        cdef Py_ssize_t k, n = 0
        cdef double limit = NAN
        if self.log is not None and row.sequence < 0:
            limit = self.tree._limit(row.node, row, now / 1e9)
        cdef bint is_accepted = self.tree._route(row, now, out, &n, &decision)
        if self.log is not None:
            self.log._log_route(row, is_accepted, &decision, out, n, limit, now)
        if is_accepted and decision.hops >= 0:
            if self.n_decisions == self.decision_rows.shape[0]:
                wider = np.zeros(2 * self.n_decisions, DECISION)
                wider[:self.n_decisions] = self.decision_rows
                self.decision_rows = wider
                wider = np.zeros(2 * self.n_decisions, np.int64)
                wider[:self.n_decisions] = self.decision_times
                self.decision_times = wider
            self.decision_rows[self.n_decisions], self.decision_times[self.n_decisions] = decision, now
            self.n_decisions += 1
        for k in range(n):
            self._post_down(&self.request, &out[k], out[k].largest_minimum, out[k].copy, now)
        return 0

    cdef int _enqueue(self, const Request* row, long long now) except -1:
        cdef Share share
        if self.log is not None:
            self.log._complete_row(row.node - self.tree.first_leaf, NAN, now)
        self.tree._acknowledge(row)
        payloads_drop(&self.tree.payloads, <int> row.copy)
        self.queues._enqueue(row.node - self.tree.first_leaf, <int> row.application, row.tasks, now)
        self.orders.add(row.node)
        share.node, share.sender = self.submitter[row.application], row.node
        share.application, share.tasks = row.application, row.tasks
        self._post(&self.accept, &share, now)
        if self.log is not None:
            self.log._log_queued(row, now)
        return 0

    cdef int _reorder(self, long long now) except -1:
        """Order the queues of the leaves that received shares."""
        cdef Py_ssize_t k, u
        if self.orders.n == 0:
            return 0
        self._make_room()
        for k in range(self.orders.n):
            self.queues._advance(self.orders.item[k] - self.tree.first_leaf, now)
        self._run_work(False, self.orders.n, now)
        for k in range(self.orders.n):
            u = self.orders.item[k] - self.tree.first_leaf
            self.queues._update(u)
            self.reports.add(self.orders.item[k])
            if self.log is not None:
                self.log._complete_row(u, self.minimum_stretch[u], now)
        self.orders.clear()
        return 0

    cdef int _take_turns(self, long long now) except -1:
        """Mark the nodes whose delay has ended, and the leaves whose queues have changed without a message."""
        cdef Py_ssize_t u
        cdef const Event* first
        while True:
            first = pending_first(&self.turns)
            if first == NULL or first.time > now:
                break
            self.reports.add(pending_pop(&self.turns).slot)
        while self.queues.change[self.queues.heap[0]] <= now:
            u = self.queues.heap[0]
            self.queues._advance(u, now)
            self.queues._update(u)
            self.reports.add(self.tree.first_leaf + u)
        return 0

    cdef int _report(self, long long now) except -1:
        """Send the reports of the marked nodes, in ascending order."""
        self.reports.sort()
        self._report_nodes(self.reports.item[:self.reports.n], now)
        self.reports.clear()
        return 0

    cdef int _report_nodes(self, const int[:] nodes, long long now) except -1:
        """Send those reports of `nodes` (ascending, so routers come first) that are due at `now`; later ones wait."""
        cdef Py_ssize_t k, n = nodes.shape[0], ready = 0
        cdef int m, handle
        cdef long long due
        cdef double least
        for k in range(n):
            m = nodes[k]
            due = self.tree._turn(m, now)
            if due > now:
                self._wait(m, due)
            if due != now:
                continue
            if m >= self.tree.first_leaf:
                self.batch[ready] = m
                ready += 1
                if ready == _BATCH:
                    self._report_leaves(ready, now)
                    ready = 0
            else:
                handle = self.tree._sum(m, now / 1e9, &least)
                if handle >= 0:
                    self._send(m, handle, least, self.tree._largest_below(m) if self.tree.by_largest else 0.0, now)
        self._report_leaves(ready, now)
        self.links.stage += 1
        for k in range(n if self.spread_on_change else 0):
            if nodes[k] < self.tree.first_leaf:
                self._spread(nodes[k], False, now)
        return 0

    cdef int _report_leaves(self, Py_ssize_t n, long long now) except -1:
        """Send the reports of the first `n` leaves of the batch."""
        cdef Py_ssize_t k, u
        cdef bint wide
        if n == 0:
            return 0
        self._make_room()
        for k in range(n):
            u = self.batch[k] - self.tree.first_leaf
            self.queues._advance(u, now)
            self.queues._update(u)
            # the width of the new payload is not known yet; assume that of the leaf's last summary
            wide = payloads_wide(self.tree.node[self.batch[k]].last_report)
            self._make_payload(k, wide)
        self._run_work(True, n, now)
        for k in range(n):
            if not self.fits[k]:
                payloads_drop(&self.tree.payloads, self.handles[k])
                self._make_payload(k, True)
                self._work(True, k, k + 1, now, 0)
            elif payloads_wide(self.handles[k]):
                self.handles[k] = payloads_shrink(&self.tree.payloads, self.handles[k])
            self._send(self.batch[k], self.handles[k], self.least[k], self.largest[k] if self.tree.by_largest else 0.0, now)
        return 0

    cdef int _make_payload(self, Py_ssize_t k, bint wide) except -1:
        self.handles[k] = payloads_new(&self.tree.payloads, wide)
        return 0

    cdef long long _release_of(self, long long now) noexcept nogil:
        """Return the release (ns) for which leaves sample at `now` ns."""
        return (now // self.cell + 1) * self.cell if self.cell > 0 else now

    cdef int _send(self, int m, int handle, double least, double largest, long long now) except -1:
        cdef Summary row
        if self.tree._make_report(m, now, handle, least, largest, &row):
            if self.log is not None:
                self.log._record_samples(m, row.payload, now)
            self._post(&self.summary, &row, now)
        return 0

    # -- the work of threads -----------------------------------------------------------------------------

    cdef int _run_work(self, bint sample, Py_ssize_t n, long long now) except -1:
        """If `sample`, sample the first `n` leaves of the batch; else order the queues of `orders`."""
        if self.threads == 1 or n < _MIN_THREADED:
            self._work(sample, 0, n, now, 0)
            return 0
        parts = [n * t // self.threads for t in range(self.threads + 1)]
        list(self.pool.map(lambda t: self._part(sample, parts[t], parts[t + 1], now, t), range(self.threads)))
        return 0

    def _part(self, bint sample, Py_ssize_t low, Py_ssize_t high, long long now, Py_ssize_t thread):
        with nogil:
            self._work(sample, low, high, now, thread)

    cdef void _work(self, bint sample, Py_ssize_t low, Py_ssize_t high, long long now, Py_ssize_t thread) noexcept nogil:
        cdef Py_ssize_t k, u
        cdef long long cell = self._release_of(now)
        cdef Scratch* scratch = &self.scratch[thread]
        cdef unsigned int* room = self.sample_room + thread * self.tree.cells
        cdef Queue q
        for k in range(low, high):
            if not sample:
                u = self.orders.item[k] - self.tree.first_leaf
                self.minimum_stretch[u] = self.queues._reorder(u, now, scratch)
                continue
            u = self.batch[k] - self.tree.first_leaf
            self.queues._sample(u, now, cell, &self.tree.g, room, scratch)
            self.fits[k] = payloads_fill(&self.tree.payloads, self.handles[k], room)
            payloads_release(&self.tree.payloads, self.handles[k])[0] = cell / 1e9
            if self.queues.count[u] == 0 and self.queues.running[u] < 0:
                self.least[k], self.largest[k] = self.idle_minimum[u], 0.0
                if self.cell == 0:
                    payloads_release(&self.tree.payloads, self.handles[k])[0] = INFINITY
            else:
                self.queues._gather(u, now, False, &q, scratch)
                self.least[k] = self.largest[k] = self.queues._minimum(&q, scratch)

    cdef int _make_room(self) except -1:
        """Allocate scratch memory for the longest possible queue, for each thread."""
        cdef Py_ssize_t t
        if self.room < self.queues.capacity:
            self._free_scratch()
            for t in range(self.threads):
                if not scratch_make(&self.scratch[t], self.queues.capacity):
                    self.scratch[t].release, self.scratch[t].order = NULL, NULL
                    raise MemoryError
            self.room = self.queues.capacity
        return 0

    cdef void _free_scratch(self) noexcept nogil:
        cdef Py_ssize_t t
        self.room = 0
        if self.scratch == NULL:
            return
        for t in range(self.threads):
            scratch_free(&self.scratch[t])
            self.scratch[t].release, self.scratch[t].order = NULL, NULL

    # -- methods for the caller -------------------------------------------------------------------------------

    def total(self, long long count) -> int:
        """Return `count`, or the sum of the counts of all processes that share the run."""
        cdef _Guard access = self._guard()
        return count

    def add_submitters(self, nodes: ArrayLike):
        """Append the submitters of the applications that were just appended to the tree and the queues."""
        cdef _Guard access = self._guard()
        cdef const long long[::1] more = indices(nodes, "nodes", 0, self.tree.nodes)
        cdef Py_ssize_t n = self.submitter.shape[0] + more.shape[0]
        if not n == self.queues.n_applications == self.tree.size.shape[0]:
            raise ValueError(f"nodes must have one entry for each application added to queues and tree, "
                             f"{self.queues.n_applications - self.submitter.shape[0]} and "
                             f"{self.tree.size.shape[0] - self.submitter.shape[0]}, got {more.shape[0]}")
        self.submitter = np.concatenate((self.submitter, more))

    def touch(self, nodes: ArrayLike, long long now):
        """Mark `nodes` for a report at `now` ns, or after their delay; the caller must also call `act` at `now`."""
        cdef _Guard access = self._guard()
        cdef const long long[::1] m = indices(nodes, "nodes", 0, self.tree.nodes)
        cdef Py_ssize_t k
        check_instant(now, "now", self.tree.hold_off + self.tree.gap + self.cell)
        for k in range(m.shape[0]):
            self.reports.add(m[k])
        self.touched_at = now

    def begin_spread(self, long long now):
        """Prepare at `now` ns the spreads of the root to its child routers; `post_spread` sends them at this instant.
        """
        cdef _Guard access = self._guard()
        check_instant(now, "now", self.tree.hold_off + self.tree.gap + self.cell)
        if self.n_waiting:
            raise ValueError("begin_spread requires that the previous spread was sent: call post_spread first")
        if self.tree.first_leaf:
            self._begin_spread(now)

    cdef int _begin_spread(self, long long now) except -1:
        if self.tree.by_root:
            self.tree._renew_copy(now)
        self.n_waiting = self.tree._spread(0, True, self.waiting)
        return 0

    def post_spread(self, long long now):
        """Send the messages that `begin_spread` has prepared."""
        cdef _Guard access = self._guard()
        cdef Py_ssize_t k, n = self.n_waiting
        check_instant(now, "now", self.tree.hold_off + self.tree.gap + self.cell)
        self.n_waiting = 0
        for k in range(n):
            self._post_down(&self.spread, &self.waiting[k], self.waiting[k].largest_minimum, self.waiting[k].copy, now)

    def act(self, long long now):
        """Run the actions of nodes at `now` ns, after all messages of the instant have arrived."""
        cdef _Guard access = self._guard()
        check_instant(now, "now", self.tree.hold_off + self.tree.gap + self.cell)
        self.touched_at = NEVER
        self._act(now)

    def read_log(self, Py_ssize_t max_rows, long long now) -> tuple[NDArray[Any], int]:
        """Return (`gridcore.fair_tree.decision_log.LOG_ROW` rows up to `now` ns, number of unlogged rows).

        The rows are those since the last call.  `max_rows` limits these and all later rows together; rows beyond it
        are only counted.
        """
        cdef _Guard access = self._guard()
        cdef Py_ssize_t k
        if self.log is None:
            raise ValueError("read_log requires the argument log")
        for k in range(self.orders.n):
            self.log._complete_row(self.orders.item[k] - self.tree.first_leaf, NAN, now)
        return self.log._take(max_rows)

    # -- checkpoints --------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`.

        Tree, queues and links have states of their own.
        """
        cdef _Guard access = self._guard()
        if self.log is not None and self.log.n:
            raise RuntimeError("getstate requires an empty log: call read_log first")
        turns = np.empty((self.turns.n + self.turns.n_ring, 3), np.int64)
        pending_read(&self.turns, turns)
        return read_only({
            "turns": turns[np.lexsort((turns[:, 1], turns[:, 0]))][:, :2].copy(),
            "placed_at": self.placed_at, "touched_at": self.touched_at,
            "reports": self.reports.read(), "orders": self.orders.read(),
            "arrivals": np.asarray(self.arrivals[:self.n_arrivals]),
            "made": np.asarray(self.decision_rows[:self.n_decisions]),
            "made_at": np.asarray(self.decision_times[:self.n_decisions]),
            **({} if self.log is None else {"sampled": self.log._read_sample_times()}),
        })

    def setstate(self, state):
        """Restore a state of `getstate`, after the states of tree, queues and links.

        Raises ValueError if the state or a message in `links` is invalid.
        """
        cdef _Guard access = self._guard()
        cdef Py_ssize_t k
        entries = read(state, {
            **_STATE, "orders": ArrayEntry(np.int64, limits=(self.tree.first_leaf, "nodes")),
            **({} if self.log is None else {"sampled": ArrayEntry(np.int64, limits=(0, None))}),
        }, nodes=self.tree.nodes)
        arrivals, decisions = entries["arrivals"], entries["made"]
        for pending in (self.summary.number, self.spread.number, self.request.number):
            self._check(&self.links.queue[<int> pending])
        self._check(&self.links.heads)
        cdef const long long[:, ::1] turns = entries["turns"]
        pending_clear(&self.turns)
        for k in range(turns.shape[0]):
            pending_push(&self.turns, turns[k, 0], turns[k, 1], <int> turns[k, 1])
        if self.log is not None:
            self.log._write_sample_times(entries["sampled"])
        self.reports.clear()
        self.orders.clear()
        for k in entries["reports"]:
            self.reports.add(k)
        for k in entries["orders"]:
            self.orders.add(k)
        self.placed_at, self.touched_at = entries["placed_at"], entries["touched_at"]
        self.n_arrivals, self.n_decisions = len(arrivals), len(decisions)
        # leave free rows, because a full array is doubled, and an empty one would stay empty
        self.arrivals = np.concatenate((arrivals, np.zeros((64, 2), np.int64)))
        self.decision_rows = np.concatenate((decisions, np.zeros(64, DECISION)))
        self.decision_times = np.concatenate((entries["made_at"], np.zeros(64, np.int64)))

    cdef int _check(self, const Pending* p) except -1:
        """Raise ValueError if a pending summary, spread or request is invalid."""
        cdef Py_ssize_t k
        cdef int slot, kind
        cdef const Summary* summary
        cdef const Request* request
        rows = np.empty((p.n + p.n_ring, 3), np.int64)
        cdef long long[:, ::1] events = rows
        pending_read(p, events)
        for k in range(events.shape[0]):
            slot = <int> events[k, 2]
            kind = self.links.message[slot].kind
            summary = <const Summary*> (self.links.data + slot * self.links.stride)
            request = <const Request*> (self.links.data + slot * self.links.stride)
            if kind == self.summary.number:
                self.tree._check_summary(summary, k)
            elif kind == self.spread.number:
                if not 0 <= (<const Spread*> summary).node < self.tree.first_leaf:
                    raise ValueError(f"links must have spreads to routers, got node {(<const Spread*> summary).node}")
                self._check_copy_in_use((<const Spread*> summary).copy)
            elif kind == self.request.number:
                if not (0 <= request.application < self.submitter.shape[0] and 1 <= request.tasks < 2**52):
                    raise ValueError("links must have requests for 1..2**52 - 1 tasks of applications below "
                                     f"{self.submitter.shape[0]}, got {request.tasks} tasks of application "
                                     f"{request.application}")
                self._check_copy_in_use(request.copy)
        return 0

    cdef int _check_copy_in_use(self, long long copy) except -1:
        if copy != -1 and not payloads_is_used(&self.tree.payloads, copy):
            raise ValueError(f"links must have copies of the root's summary that are in use, or -1, got {copy}")
        return 0

    cdef int _wait(self, int m, long long due) except -1:
        return pending_push(&self.turns, due, m, m)

    def arrived(self) -> Integers:
        """Return int64[k, 2] ns: the arrivals of summaries at the root, and the oldest change of a leaf in each."""
        cdef _Guard access = self._guard()
        return np.array(self.arrivals[:self.n_arrivals])

    def decisions(self) -> tuple[NDArray[Any], Integers]:
        """Return (`DECISION` rows, int64[k] ns): decisions of routers on climbing requests, and their instants."""
        cdef _Guard access = self._guard()
        return np.array(self.decision_rows[:self.n_decisions]), np.array(self.decision_times[:self.n_decisions])
