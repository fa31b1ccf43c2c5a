"""The nodes of a fair tree in compiled form.

`FairTreeNodes` has the handlers of the node program of the same scheduler, `gridsim.schedulers.fair_tree.node`, and
what its leaves and routers know (`gridcore.fair_tree.summary_tree`).  The message core calls them.

The core hands over all messages of a kind, and all nodes that act, at one instant.  So the memory of the next message is
fetched while one is handled, and several threads sample the queues of many leaves.  A thread accesses only the data of
its leaves; everything else is done before or after, in the order of the leaves.

Messages have the numbers of summaries in the store of the tree, which counts who refers to them.
"""

cimport cython

from libc.math cimport INFINITY, NAN, isnan
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from gridcore.common.arguments cimport _Guard, doubles_copy, guard, indices
from gridcore.common.instants cimport NEVER
from gridcore.common.memory cimport prefetch
from gridcore.common.pending cimport pending_slot
from gridcore.fair_tree.decision_log cimport TreeDecisionLog
from gridcore.fair_tree.payloads cimport (
    payloads_copy, payloads_drop, payloads_fill, payloads_has_place, payloads_new, payloads_release, payloads_set,
    payloads_shrink, payloads_wide,
)
from gridcore.fair_tree.summary_tree cimport Decision, Node, Request, Spread, Summary, SummaryTree
from gridcore.network.links cimport Links
from gridcore.network.transit cimport record_of
from gridcore.nodes.active_set cimport active_add
from gridcore.nodes.handlers cimport Handlers, put
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.node_actions cimport MIN_THREADED, NodeActions
from gridcore.nodes.roles cimport ON_LOST, ON_RELEASE
from gridcore.queues.task_queues cimport Scratch, TaskQueues

from functools import partial

import numpy as np

from gridcore.common.state import ANY, ArrayEntry, NumberEntry, TableEntry, read, read_only
from gridcore.fair_tree.summary_tree import DECISION, LARGEST_BYTES, MADE_BYTES

__all__ = ["FairTreeNodes"]

_STATE = {
    "updates": TableEntry({"arrived": ANY, "since": ANY}),
    "decision_rows": ArrayEntry(DECISION), "decision_times": ArrayEntry(np.int64, ("decision_rows",)),
    "accepted": NumberEntry(), "completed": NumberEntry(),
}
# Prefetch distance of nodes and cells, in messages; it is twice as long for records, and half as long for headers of
# summaries.
cdef Py_ssize_t _PREFETCH_DISTANCE = 4
# The number of leaves that sample in one batch; new summaries of a batch are in memory beside the old summaries.
cdef Py_ssize_t _BATCH = 8192
cdef long long _LARGEST_BYTES = LARGEST_BYTES, _MADE_BYTES = MADE_BYTES


@cython.auto_pickle(False)
cdef class FairTreeNodes(Handlers):
    """The leaves and routers of a fair tree in compiled form.

    Parameters
    ----------
    nodes, applications
        The number of nodes, and of applications.
    tree
        What nodes know.
    idle_minimum
        float64[machines], the minimum stretch that an idle leaf reports, s/Mflop.
    submitter
        int64[applications], the leaf that submits each of them, and receives the accept messages.
    request_bytes, spread_bytes
        Bytes of messages without the optional fields.
    spread_on_change
        Whether routers spread the minimum stretch whenever it changes; otherwise they only pass on that of the root.
    own_router
        Whether requests enter the tree at the router on the machine that submits them, instead of at the leaf's parent.
    cell
        Summaries are sampled for a release at the next multiple of `cell` ns, or at present if it is 0.
    """

    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef SummaryTree tree
    cdef const double[::1] idle_minimum
    cdef const long long[::1] submitters
    cdef bint spread_on_change, own_router
    cdef long long cell, request_bytes, spread_bytes
    cdef int summary, spread_number, request_number, accept, completion
    cdef MessageKind spread, request
    cdef unsigned int* sample_room      # cells of one summary per thread
    # the leaves of a batch, and their reports
    cdef int[::1] batch, handles
    cdef double[::1] least, largest
    cdef unsigned char[::1] fits
    # summaries that have reached the root: (arrival, oldest change of a leaf), ns
    cdef long long[:, ::1] updates
    cdef Py_ssize_t n_updates
    # decisions of routers on climbing requests, and their instants
    cdef Decision[::1] decision_rows
    cdef long long[::1] decision_times
    cdef Py_ssize_t n_decisions
    cdef readonly long long accepted, completed  #: Tasks reported to submitters.
    cdef public TreeDecisionLog log     #: The record of decisions; None if they are not recorded.
    cdef object completions             # (machines, applications, tasks) since the last heartbeat

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, SummaryTree tree, *, idle_minimum: ArrayLike,
                  submitter: ArrayLike, long long request_bytes, long long spread_bytes, bint spread_on_change=False,
                  bint own_router=True, long long cell=0):
        if tree is None:
            raise TypeError("tree must not be None")
        if tree.nodes != nodes or tree.size.shape[0] != applications:
            raise ValueError(f"tree must have {nodes} nodes and {applications} applications, "
                             f"got {tree.nodes} and {tree.size.shape[0]}")
        if not 0 <= cell <= 10**18:
            raise ValueError(f"cell must be in 0..{10**18} ns, got {cell}")
        self.idle_minimum = doubles_copy(idle_minimum, "idle_minimum")
        self.submitters = indices(submitter, "submitter", 0, nodes)
        if self.idle_minimum.shape[0] != tree.leaves or self.submitters.shape[0] != applications:
            raise ValueError(f"idle_minimum must have {tree.leaves} entries, and submitter {applications}, "
                             f"got {self.idle_minimum.shape[0]} and {self.submitters.shape[0]}")
        self.tree, self.cell, self.spread_on_change, self.own_router = tree, cell, spread_on_change, own_router
        self.request_bytes, self.spread_bytes = request_bytes, spread_bytes
        self.holds_tasks, self.in_batches = False, True
        self.updates = np.zeros((64, 2), np.int64)
        self.decision_rows, self.decision_times = np.zeros(64, DECISION), np.zeros(64, np.int64)
        self.batch, self.handles = np.zeros(_BATCH, np.int32), np.zeros(_BATCH, np.int32)
        self.least, self.largest, self.fits = np.zeros(_BATCH), np.zeros(_BATCH), np.zeros(_BATCH, np.uint8)

    def __dealloc__(self):
        free(self.sample_room)

    cdef int _bind(self, NodeActions core) except -1:
        numbers = {name: (<MessageKind> kind).number for name, kind in core.by_name.items()}
        self.summary, self.accept, self.completion = numbers["summary"], numbers["accept"], numbers["completion"]
        self.spread, self.request = core.by_name["spread"], core.by_name["request"]
        self.spread_number, self.request_number = self.spread.number, self.request.number
        for name, width in (("summary", sizeof(Summary)), ("spread", sizeof(Spread)), ("request", sizeof(Request))):
            if core.links.width[<int> numbers[name]] != width:
                raise ValueError(f"records of {name!r} must be {width} bytes wide, "
                                 f"got {core.links.width[<int> numbers[name]]}")
        if core.queues.machines != self.tree.leaves:
            raise ValueError(f"queues must have {self.tree.leaves} machines, got {core.queues.machines}")
        self.sample_room = <unsigned int*> malloc(core.threads * self.tree.cells * sizeof(int))
        if self.sample_room == NULL:
            raise MemoryError
        return 0

    # -- calls of the core ----------------------------------------------------------------------------------

    cdef int _take_deferred(self, NodeActions core, Py_ssize_t kind, const unsigned char[:, ::1] records) except -1:
        cdef Py_ssize_t k
        cdef long long tasks = 0
        for k in range(records.shape[0]):
            tasks += (<const long long*> &records[k, 0])[3]
        if kind == self.accept:
            self.accepted += tasks
        else:
            self.completed += tasks
        return 0

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        if event == ON_RELEASE or event == ON_LOST:
            if arguments[0] >= self.tree.release.shape[0]:  # the core may have more than were added here
                raise ValueError(f"application must be in 0..{self.tree.release.shape[0] - 1}, got {arguments[0]}")
            if event == ON_RELEASE:
                self.tree.release[arguments[0]] = core.now / 1e9  # unknown before, if it follows ends of others
            return self._submit(core, node, arguments[0], arguments[1], event == ON_LOST)
        return self._touch(core, node)

    cdef int _tick(self, NodeActions core, str name, const long long[::1] nodes) except -1:
        cdef Py_ssize_t k
        if name == "heartbeat":
            return self._beat(core, nodes.shape[0] > 0 and nodes[0] == 0)
        for k in range(nodes.shape[0]):
            core._act_at(nodes[k], core.now)  # even nodes that may not report yet, since acts end the wave
        return 0

    cdef int _lose(self, NodeActions core, Py_ssize_t kind, const long long* row) except -1:
        cdef const long long* handle = self._handle(kind, row)
        if handle != NULL and payloads_has_place(&self.tree.payloads, handle[0]):
            payloads_drop(&self.tree.payloads, <int> handle[0])
        return 0

    cdef long long* _handle(self, Py_ssize_t kind, const long long* row) noexcept nogil:
        """Return a pointer to the field with the number of a summary, -1 for none; NULL if the kind has no such field."""
        if kind == self.summary:
            return &(<Summary*> row).payload
        if kind == self.spread_number:
            return &(<Spread*> row).copy
        if kind == self.request_number:
            return &(<Request*> row).copy
        return NULL

    cdef bint _may_place(self, const long long* row) noexcept nogil:
        return 2 * row[0] + 2 >= self.tree.first_leaf

    cdef Py_ssize_t _extra(self, Py_ssize_t kind, const long long* row) noexcept nogil:
        cdef const long long* handle = self._handle(kind, row)
        if handle == NULL or handle[0] < 0:
            return 0
        # 16 bytes for width and release, then the cells
        return 16 + self.tree.payloads.pool[payloads_wide(<int> handle[0])].nbytes

    cdef int _wrap(self, Py_ssize_t kind, const long long* row, char* to) except -1:
        cdef const long long* handle = self._handle(kind, row)
        cdef long long wide
        if handle == NULL or handle[0] < 0:
            return 0
        wide = payloads_wide(<int> handle[0])
        memcpy(to, &wide, 8)
        memcpy(to + 8, payloads_release(&self.tree.payloads, <int> handle[0]), 8)
        payloads_copy(&self.tree.payloads, <int> handle[0], to + 16)
        payloads_drop(&self.tree.payloads, <int> handle[0])
        return 0

    cdef int _unwrap(self, Py_ssize_t kind, long long* row, const char* source) except -1:
        cdef long long* handle = self._handle(kind, row)
        cdef long long wide
        if handle == NULL or handle[0] < 0:
            return 0
        memcpy(&wide, source, 8)
        handle[0] = payloads_new(&self.tree.payloads, wide)
        memcpy(payloads_release(&self.tree.payloads, <int> handle[0]), source + 8, 8)
        payloads_set(&self.tree.payloads, <int> handle[0], source + 16)
        return 0

    cdef int _forget(self, Py_ssize_t node) except -1:
        return 0                        # `reset` clears the data of the node in `tree`

    cdef int _take_messages(self, NodeActions core, Py_ssize_t kind, Py_ssize_t n) except -1:
        cdef Links links = core.links
        cdef Py_ssize_t k
        if kind == self.summary:
            return self._take_summaries(core, n)
        links._sort_by_node(n)
        if kind == self.request_number:
            return self._take_requests(core, n)
        for k in range(n):
            self._take_spread(core, (<Spread*> record(links, k, n))[0])
        return 0

    # -- summaries on their way up ----------------------------------------------------------------------------

    cdef int _take_summaries(self, NodeActions core, Py_ssize_t n) except -1:
        cdef Links links = core.links
        cdef Py_ssize_t k
        cdef const Summary* row
        self._prefetch_next(links)
        for k in range(n):
            if k + _PREFETCH_DISTANCE < n:
                self.tree._prefetch_nodes(<Summary*> record_at(links, k + _PREFETCH_DISTANCE))
            if k + _PREFETCH_DISTANCE // 2 < n:
                self.tree._prefetch_payloads(<Summary*> record_at(links, k + _PREFETCH_DISTANCE // 2))
            row = <const Summary*> record(links, k, n)
            # a message of a checkpoint may have any numbers
            if not (0 < row.sender < self.tree.nodes and row.node == (row.sender - 1) // 2
                    and payloads_has_place(&self.tree.payloads, row.payload)):
                raise ValueError("summaries in links must go from nodes to their parents, with stored payloads, got payload "
                                 f"{row.payload} from node {row.sender} to {row.node}")
            if self.tree._receive(row) and row.node == 0 and row.since < NEVER:
                self._note_update(core.now, row.since)
            self._touch(core, row.node)
        return 0

    cdef void _prefetch_next(self, Links links) noexcept nogil:
        """Prefetch the data of the next summaries, whose records `links` has prefetched."""
        cdef int near = pending_slot(&links.queue[self.summary], 0), far = pending_slot(&links.queue[self.summary], 1)
        if far >= 0:
            self.tree._prefetch_nodes(<Summary*> record_of(links, far))
        if near >= 0:
            self.tree._prefetch_payloads(<Summary*> record_of(links, near))

    cdef int _note_update(self, long long now, long long since) except -1:
        """Record that a summary has informed the root of a change."""
        if self.n_updates == self.updates.shape[0]:
            wider = np.zeros((2 * self.n_updates, 2), np.int64)
            wider[:self.n_updates] = self.updates
            self.updates = wider
        self.updates[self.n_updates, 0], self.updates[self.n_updates, 1] = now, since
        self.n_updates += 1
        return 0

    cdef int _touch(self, NodeActions core, Py_ssize_t m) except -1:
        """Schedule an act of node `m`, which has changed, for as soon as it may report."""
        cdef Node* node = &self.tree.node[m]
        cdef bint is_leaf = m >= self.tree.first_leaf
        if self.spread_on_change and not is_leaf:
            return core._act_at(m, core.now)
        if m == 0 or node.presence:
            return 0
        if is_leaf:
            node.oldest_change = min(node.oldest_change, core.now)
        if node.due_at != NEVER:
            return 0                    # the node acts then
        node.due_at = max(node.free_at, core.now if is_leaf else core.now + self.tree.hold_off)
        return core._act_at(m, node.due_at)

    cdef int _act(self, NodeActions core, const int* nodes, Py_ssize_t n) except -1:
        """Send the reports of `nodes` that may report now, routers first; the other nodes act again later."""
        cdef Py_ssize_t k, ready = 0
        cdef int m, handle
        cdef long long due, now = core.now
        cdef double least
        for k in range(n):
            m = nodes[k]
            if k % _BATCH == 0 and core.dirty:
                core._flush()           # senders are in order, so that summaries may leave in parts
            due = self.tree._turn(m, now)
            if due > now:
                core._act_at(m, due)
            if due != now:
                continue
            if m >= self.tree.first_leaf:
                self.batch[ready] = m
                ready += 1
                if ready == _BATCH:
                    self._report_leaves(core, ready)
                    ready = 0
            else:
                handle = self.tree._sum(m, now / 1e9, &least)
                if handle >= 0:
                    self._report(core, m, handle, least, self.tree._largest_below(m) if self.tree.by_largest else 0.0)
        if ready:
            self._report_leaves(core, ready)
        for k in range(n if self.spread_on_change else 0):
            if nodes[k] < self.tree.first_leaf:
                self._spread(core, nodes[k], False)
        return 0

    cdef int _report_leaves(self, NodeActions core, Py_ssize_t n) except -1:
        """Send the reports of the first `n` leaves of the batch."""
        cdef TaskQueues queues = core.queues
        cdef Py_ssize_t k, u
        core._make_scratch()
        for k in range(n):
            u = self.batch[k] - self.tree.first_leaf
            queues._advance(u, core.now)
            queues._update(u)
            # the width of the new payload is not known yet; assume the width of the leaf's last summary
            self.handles[k] = payloads_new(&self.tree.payloads, payloads_wide(self.tree.node[self.batch[k]].last_report))
        if core.threads > 1 and n >= MIN_THREADED:
            self._sample_in_threads(core, n)
        else:
            self._sample(core, queues, 0, n, 0)
        for k in range(n):
            if not self.fits[k]:
                payloads_drop(&self.tree.payloads, self.handles[k])
                self.handles[k] = payloads_new(&self.tree.payloads, True)
                self._sample(core, queues, k, k + 1, 0)
            elif payloads_wide(self.handles[k]):
                self.handles[k] = payloads_shrink(&self.tree.payloads, self.handles[k])
            self._report(core, self.batch[k], self.handles[k], self.least[k],
                         self.largest[k] if self.tree.by_largest else 0.0)
        return 0

    cdef int _sample_in_threads(self, NodeActions core, Py_ssize_t n) except -1:
        cdef _Guard access = self._guard()
        return core._run_in_threads(partial(self._sample_part, core), n)

    cdef _Guard _guard(self):
        return guard(&self.in_call, guard(&self.tree.in_call))

    def _sample_part(self, NodeActions core, Py_ssize_t low, Py_ssize_t high, Py_ssize_t thread):
        cdef TaskQueues queues = core.queues
        with nogil:
            self._sample(core, queues, low, high, thread)

    cdef void _sample(self, NodeActions core, TaskQueues queues, Py_ssize_t low, Py_ssize_t high,
                      Py_ssize_t thread) noexcept nogil:
        """Sample the queues of the leaves low..high - 1 of the batch."""
        cdef long long now = core.now, release = (now // self.cell + 1) * self.cell if self.cell > 0 else now
        cdef Py_ssize_t k, u, zeros
        cdef Scratch* scratch = &core.scratch[thread]
        cdef unsigned int* capacity = self.sample_room + thread * self.tree.cells
        for k in range(low, high):
            u = self.batch[k] - self.tree.first_leaf
            zeros = queues._sample(u, now, release, 0, &self.tree.g, capacity, &self.least[k], scratch)
            self.fits[k] = payloads_fill(&self.tree.payloads, self.handles[k], capacity, zeros)
            payloads_release(&self.tree.payloads, self.handles[k])[0] = release / 1e9
            if queues.count[u] == 0 and queues.running[u] < 0:
                self.least[k], self.largest[k] = self.idle_minimum[u], 0.0
                if self.cell == 0:
                    payloads_release(&self.tree.payloads, self.handles[k])[0] = INFINITY
            else:
                self.largest[k] = self.least[k]

    cdef int _report(self, NodeActions core, int m, int handle, double least, double largest) except -1:
        """Send a summary to the parent, if there is any news."""
        cdef Summary row
        if self.tree._make_report(m, core.now, handle, least, largest, &row):
            memcpy(put(core, self.summary, row.node, m), &row.payload, sizeof(Summary) - 2 * sizeof(long long))
        return 0

    # -- requests ---------------------------------------------------------------------------------------------

    cdef int _submit(self, NodeActions core, Py_ssize_t leaf, long long application, long long tasks,
                     bint again) except -1:
        """Send a request to the router on this machine, or to the parent."""
        cdef Request row
        cdef Py_ssize_t machine = leaf - self.tree.first_leaf
        row.node, row.sender, row.application, row.tasks = leaf, leaf, application, tasks
        if self.tree.first_leaf:
            row.node = machine if self.own_router and machine < self.tree.first_leaf else (leaf - 1) // 2
        row.sequence, row.hops, row.copy, row.copy_time = -1, 0, -1, -1
        row.minimum = row.largest_minimum = NAN
        if self.log is not None:
            self.log._record(core, leaf, "requested-again" if again else "requested", application, row.node, tasks)
        return self._request(core, &row)

    cdef int _request(self, NodeActions core, const Request* row) except -1:
        return self._send_down(core, self.request, self.request_bytes, <const long long*> row, row.largest_minimum,
                               row.copy)

    cdef int _send_down(self, NodeActions core, MessageKind kind, long long nbytes, const long long* row, double largest,
                        long long copy) except -1:
        """Send a message of `nbytes` bytes plus the bytes of its optional fields for a rule of acceptance."""
        cdef long long* fields = put(core, kind.number, row[0], row[1])
        memcpy(fields, &row[2], kind.n * sizeof(long long))
        if kind.size is not None:
            fields[kind.n] = nbytes
            if not isnan(largest):
                fields[kind.n] += _LARGEST_BYTES
            if copy >= 0:
                fields[kind.n] += 4 * self.tree.cells + _MADE_BYTES
        return 0

    cdef int _take_requests(self, NodeActions core, Py_ssize_t n) except -1:
        cdef Links links = core.links
        cdef Py_ssize_t k
        cdef const Request* row
        for k in range(n):
            if k + _PREFETCH_DISTANCE < n:
                self.tree._prefetch_request(<Request*> record_at(links, k + _PREFETCH_DISTANCE))
            row = <const Request*> record(links, k, n)
            if not (0 <= row.application < self.submitters.shape[0] and 1 <= row.tasks < 2**31):
                raise ValueError(f"requests in links must be for 1..2**31 - 1 tasks of an application below "
                                 f"{self.submitters.shape[0]}, got {row.tasks} tasks of application {row.application}")
            self._check_copy(row.copy)
            if row.node < self.tree.first_leaf:
                self._route(core, row)
            else:
                self._enqueue(core, row)
        return 0

    cdef int _check_copy(self, long long copy) except -1:
        if copy != -1 and not payloads_has_place(&self.tree.payloads, copy):
            raise ValueError(f"copy must be an existing copy of the root's summary, or -1, got {copy}")
        return 0

    cdef int _route(self, NodeActions core, const Request* row) except -1:
        """Accept a request and divide it among the children, or pass it on to the parent."""
        cdef Request[2] out
        cdef Decision decision
        cdef Py_ssize_t k, n = 0
        cdef double limit = NAN
        if self.log is not None and row.sequence < 0:
            limit = self.tree._limit(row.node, row, core.now / 1e9)
        cdef bint is_accepted = self.tree._route(row, core.now, out, &n, &decision)
        if self.log is not None:
            self._record_route(core, row, is_accepted, &decision, out, n, limit)
        if is_accepted and decision.hops >= 0:
            if self.n_decisions == self.decision_rows.shape[0]:
                wider = np.zeros(2 * self.n_decisions, DECISION)
                wider[:self.n_decisions] = self.decision_rows
                self.decision_rows = wider
                wider = np.zeros(2 * self.n_decisions, np.int64)
                wider[:self.n_decisions] = self.decision_times
                self.decision_times = wider
            self.decision_rows[self.n_decisions], self.decision_times[self.n_decisions] = decision, core.now
            self.n_decisions += 1
        for k in range(n):
            self._request(core, &out[k])
        return 0

    cdef int _record_route(self, NodeActions core, const Request* row, bint is_accepted, const Decision* decision,
                           const Request* out, Py_ssize_t n, double limit) except -1:
        """Record the decision of a router on a request, and the shares of its children."""
        cdef Py_ssize_t k, side, n_stretch = self.tree.g.n_stretch, sample
        cdef const long long* capacities = self.tree.capacities
        cdef double saw = INFINITY
        cdef Py_ssize_t left = 2 * row.node + 1
        if row.sequence < 0:
            for k in range(n_stretch):
                if capacities[k] + capacities[n_stretch + k] >= row.tasks:
                    saw = self.tree.gs[k]
                    break
            if is_accepted:
                action = "accepted-full" if saw == INFINITY else "accepted" if row.node else "accepted-at-root"
            else:
                action = "passed-on-full" if saw == INFINITY else "passed-on-idle" if isnan(limit) else "passed-on"
            self.log._record(core, row.node, action, row.application, -1 if is_accepted else out.node, row.tasks, saw,
                             limit if row.node else NAN,
                             min(self.tree.node[left].sample_time, self.tree.node[left + 1].sample_time))
        if not is_accepted:
            return 0
        # if no sample hosts the request, the last sample gives the guarantees
        sample = decision.sample if decision.sample >= 0 else n_stretch - 1
        for k in range(n):
            side = out[k].node - left
            self.log._record(core, row.node, "gave", row.application, out[k].node, out[k].tasks,
                             capacities[side * n_stretch + sample], self.tree.gs[sample],
                             self.tree.node[out[k].node].sample_time)
        return 0

    cdef int _enqueue(self, NodeActions core, const Request* row) except -1:
        """Queue a share, and notify its submitter."""
        cdef Py_ssize_t u = row.node - self.tree.first_leaf
        cdef long long* fields
        self.tree._acknowledge(row)
        payloads_drop(&self.tree.payloads, <int> row.copy)
        core.queues._enqueue(u, <int> row.application, row.tasks, core.now)
        active_add(&core.reorder, <int> u)
        if self.log is not None:
            self.log._record(core, row.node, "queued", row.application, -1, row.tasks, core._minimum_stretch(u))
        fields = put(core, self.accept, self.submitters[row.application], row.node)
        fields[0], fields[1] = row.application, row.tasks
        return self._touch(core, row.node)

    # -- the minimum stretch on its way down ------------------------------------------------------------------

    cdef int _take_spread(self, NodeActions core, Spread row) except -1:
        """Store the minimum stretch of the rest of the tree, and pass it on."""
        if not 0 <= row.node < self.tree.first_leaf:
            raise ValueError(f"the receiver of a spread must be a router in 0..{self.tree.first_leaf - 1}, got node {row.node}")
        self._check_copy(row.copy)
        self.tree.node[row.node].outer_minimum = row.minimum
        self.tree._learn_outlook(row.node, row.largest_minimum, row.copy, row.copy_time)
        return self._touch(core, row.node) if self.spread_on_change else self._spread(core, row.node, True)

    cdef int _spread(self, NodeActions core, Py_ssize_t m, bint force) except -1:
        """Send the child routers of m the minimum stretch of the rest of the tree, if it has changed or `force`."""
        cdef Spread[2] out
        cdef Py_ssize_t k, n = self.tree._spread(m, force, out)
        for k in range(n):
            self._send_down(core, self.spread, self.spread_bytes, <const long long*> &out[k], out[k].largest_minimum,
                            out[k].copy)
        return 0

    # -- heartbeats ---------------------------------------------------------------------------------------------

    def complete(self, machines: Integers, applications: Integers, tasks: Integers):
        """Take the completed tasks that leaves report to submitters at the present heartbeat."""
        cdef _Guard access = guard(&self.in_call)
        self.completions = machines, applications, tasks

    cdef int _beat(self, NodeActions core, bint has_root) except -1:
        """Inform submitters of completed tasks, and spread the minimum stretch of the root."""
        cdef const long long[::1] machines, applications, tasks
        cdef long long* fields
        cdef Py_ssize_t k
        machines, applications, tasks = self.completions
        self.completions = None
        for k in range(machines.shape[0]):
            fields = put(core, self.completion, self.submitters[applications[k]], machines[k] + self.tree.first_leaf)
            fields[0], fields[1] = applications[k], tasks[k]
        if not has_root or not self.tree.first_leaf:
            return 0
        if self.tree.by_root:
            self.tree._renew_copy(core.now)
        return self._spread(core, 0, True)

    # -- applications, checkpoints, and the end -----------------------------------------------------------------

    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike, submitter: ArrayLike):
        """Append applications: release (s), total size (Mflop), task size (Mflop), and the leaf that submits each."""
        cdef _Guard access = guard(&self.in_call)
        more = indices(submitter, "submitter", 0, self.nodes)
        self.tree.add_applications(release, size, task_size)
        self.submitters = np.concatenate((self.submitters, more))

    def getstate(self) -> dict[str, Any]:
        """Return the changes of nodes and tree since the applications were added."""
        cdef _Guard access = guard(&self.in_call)
        return {**self.tree.getstate(), **read_only({
            "updates": np.array(self.updates[:self.n_updates]),
            "decision_rows": np.array(self.decision_rows[:self.n_decisions]),
            "decision_times": np.array(self.decision_times[:self.n_decisions]),
            "accepted": self.accepted, "completed": self.completed})}

    def setstate(self, state):
        """Restore a state of `getstate` of an object with the same arguments and applications."""
        cdef _Guard access = guard(&self.in_call)
        entries = read(state, _STATE)
        self.tree.setstate(state)
        self.accepted, self.completed = entries["accepted"], entries["completed"]
        self.n_updates, self.n_decisions = len(entries["updates"]), len(entries["decision_rows"])
        # leave free rows, because a full array is doubled, and doubling an empty array has no effect
        self.updates = np.concatenate((entries["updates"], np.zeros((64, 2), np.int64)))
        self.decision_rows = np.concatenate((entries["decision_rows"], np.zeros(64, DECISION)))
        self.decision_times = np.concatenate((entries["decision_times"], np.zeros(64, np.int64)))

    def arrived(self) -> Integers:
        """Return int64[k, 2] ns: the arrivals of summaries at the root, and the oldest change of a leaf in each."""
        cdef _Guard access = guard(&self.in_call)
        return np.array(self.updates[:self.n_updates])

    def decisions(self) -> tuple[NDArray[Any], Integers]:
        """Return (`DECISION` rows, int64[k] ns): decisions of routers on climbing requests, and their instants."""
        cdef _Guard access = guard(&self.in_call)
        return np.array(self.decision_rows[:self.n_decisions]), np.array(self.decision_times[:self.n_decisions])


cdef inline char* record_at(Links links, Py_ssize_t k) noexcept nogil:
    return record_of(links, links.due[k].slot)


cdef inline void* record(Links links, Py_ssize_t k, Py_ssize_t n) noexcept nogil:
    """Return the record of the k-th of n messages, and free its slot; it is valid until messages are sent."""
    cdef char* next_record
    if k + 2 * _PREFETCH_DISTANCE < n:
        next_record = record_at(links, k + 2 * _PREFETCH_DISTANCE)
        prefetch(next_record)
        prefetch(next_record + links.stride - 1)
    links._free_slot(links.due[k].slot)
    return record_at(links, k)
