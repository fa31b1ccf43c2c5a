"""The traffic of summaries by itself: from a leaf's change to the root without a handler in between.

Where every interface is a queue, deliveries fall on instants of their own, and a handler call for each
would cost more than the work.  `SummaryFlow` ties the tree, the leaves' queues and the links together and
runs what happens between two instants at which somebody else must act: summaries that arrive, nodes whose
turn to report has come, leaves that run idle.  An instant at which anything else is due is left to the
caller as a whole, so that the order of events does not change: the same run without the flow has the same
digest, which is how it is tested; it has no twin of its own.
"""

from libc.stdlib cimport free

from gridcore.edf cimport Queue, doubles, minimum_stretch
from gridcore.links cimport Event, Heap, Links, heap_pop, heap_push
from gridcore.queues cimport Scratch, TaskQueues, scratch_free, scratch_make
from gridcore.tree cimport Summary, SummaryTree

import numpy as np

from gridcore.tree import SUMMARY

__all__ = ["NEVER", "SummaryFlow"]

cdef long long _NEVER = 9223372036854775807
NEVER = _NEVER


cdef class SummaryFlow:
    """Runs the summaries of `tree` over `links` as messages of `kind` and `nbytes` bytes.

    Leaf u of the tree is machine u of `queues`; idle, it reports the minimum stretch ``idle_minimum[u]``.
    Its summaries are sampled for a release at the next multiple of `cell` ns, or at the moment (0).
    """

    cdef SummaryTree tree
    cdef TaskQueues queues
    cdef Links links
    cdef int kind
    cdef long long nbytes, length, cell
    cdef const double[::1] idle_minimum
    cdef Heap turns                     # nodes that wait for their turn: (time, node, node)
    # nodes to report at the instant in hand
    cdef int[::1] dirty
    cdef unsigned char[::1] marked
    cdef Py_ssize_t n_dirty
    cdef Scratch scratch
    cdef Py_ssize_t room
    # what has reached the root: (when, oldest change), ns
    cdef long long[:, ::1] arrivals
    cdef Py_ssize_t n_arrivals

    def __cinit__(self):
        self.room = 0
        self.turns.event = NULL
        scratch_make(&self.scratch, 0, 0)

    def __init__(self, SummaryTree tree, TaskQueues queues, Links links, int kind, long long nbytes,
                 idle_minimum, *, long long cell=0):
        if queues.machines != tree.leaves:
            raise ValueError(f"queues must have {tree.leaves} machines, got {queues.machines}")
        self.idle_minimum = doubles(idle_minimum, "idle_minimum")
        if self.idle_minimum.shape[0] != tree.leaves:
            raise ValueError(f"idle_minimum must have {tree.leaves} entries, got {self.idle_minimum.shape[0]}")
        if links.width[kind] != sizeof(Summary):
            raise ValueError(f"records of kind {kind} must be {sizeof(Summary)} bytes wide, got {links.width[kind]}")
        self.tree, self.queues, self.links = tree, queues, links
        self.kind, self.nbytes, self.length, self.cell = kind, nbytes, links._length(nbytes), cell
        links.inner = kind
        self.dirty = np.zeros(tree.nodes, np.int32)
        self.marked = np.zeros(tree.nodes, np.uint8)
        self.arrivals = np.zeros((64, 2), np.int64)

    def __dealloc__(self):
        scratch_free(&self.scratch)
        free(self.turns.event)

    def advance(self, long long limit):
        """Run up to `limit` ns; the first instant <= limit that is not the flow's alone, else `NEVER`.

        What is due at `limit` itself is left to the caller: the instant is his.
        """
        cdef long long turn, outer, at
        cdef Summary row
        cdef Py_ssize_t k
        while True:
            turn = self.queues.change[self.queues.heap[0]]
            if self.turns.n:
                turn = min(turn, self.turns.event[0].time)
            at = self.links.advance(min(limit, turn))
            at = min(at, turn)
            outer = self.links.ends.event[0].time if self.links.ends.n else _NEVER
            if at >= min(outer, limit):
                at = min(at, outer)
                return at if at <= limit else _NEVER
            while self.links._pop_inner(at, &row):
                self._receive(&row, at)
            self._take_turns(at)
            self._report(at)

    cdef int _receive(self, const Summary* row, long long now) except -1:
        self.tree._receive(row)
        if row.node == 0 and row.since < _NEVER:
            if self.n_arrivals == self.arrivals.shape[0]:
                wider = np.zeros((2 * self.n_arrivals, 2), np.int64)
                wider[:self.n_arrivals] = self.arrivals
                self.arrivals = wider
            self.arrivals[self.n_arrivals, 0] = now
            self.arrivals[self.n_arrivals, 1] = row.since
            self.n_arrivals += 1
        self._mark(row.node)
        return 0

    cdef void _mark(self, Py_ssize_t m) noexcept nogil:
        if not self.marked[m]:
            self.marked[m] = 1
            self.dirty[self.n_dirty] = <int> m
            self.n_dirty += 1

    cdef int _take_turns(self, long long now) except -1:
        """Mark the nodes whose turn has come and the leaves that have changed by themselves."""
        cdef Py_ssize_t u
        while self.turns.n and self.turns.event[0].time <= now:
            self._mark(heap_pop(&self.turns).slot)
        while self.queues.change[self.queues.heap[0]] <= now:
            u = self.queues.heap[0]
            self.queues._advance(u, now)
            self.queues._update(u)
            self._mark(self.tree.first_leaf + u)
        return 0

    cdef int _report(self, long long now) except -1:
        """Let the marked nodes report, in ascending order, and send what they say."""
        cdef Py_ssize_t k, n = self.n_dirty
        cdef long long due
        cdef int handle, m
        cdef double least
        cdef Summary row
        cdef long long at = (now // self.cell + 1) * self.cell if self.cell > 0 else now
        if n > 1:
            np.asarray(self.dirty)[:n].sort()
        for k in range(n):
            m = self.dirty[k]
            self.marked[m] = 0
            due = self.tree._turn(m, now)
            if due > now:
                self._wait(m, due)
            if due != now:
                continue
            handle = self.tree._new_payload()
            if m >= self.tree.first_leaf:
                self.tree.cell[handle] = at / 1e9 if self.cell > 0 else 0.0
                least = self._sample(m - self.tree.first_leaf, now, at, self.tree._payload(handle))
            elif not self.tree._sum(m, handle, &least):
                continue
            if self.tree._say(m, now, handle, least, &row):
                self.links._send(now, self.kind, &row, self.nbytes, self.length)
        self.n_dirty = 0
        return 0

    cdef double _sample(self, Py_ssize_t u, long long now, long long at, unsigned int* out) except? -1.0:
        """The summary for the release `at` and the minimum stretch of leaf `u`."""
        cdef Queue q
        if self.room < self.queues.capacity:
            scratch_free(&self.scratch)
            self.room = 0
            if not scratch_make(&self.scratch, self.queues.capacity, self.tree.g.n_size):
                scratch_make(&self.scratch, 0, 0)
                raise MemoryError
            self.room = self.queues.capacity
        self.queues._advance(u, now)
        self.queues._update(u)
        self.queues._sample(u, now, at, &self.tree.g, out, &self.scratch)
        if self.queues.count[u] == 0 and self.queues.running[u] < 0:
            return self.idle_minimum[u]
        self.queues._gather(u, now, False, &q, &self.scratch)
        return minimum_stretch(&q, self.scratch.order, self.scratch.room)

    def take_turns(self, long long now):
        """int64[k]: nodes that must report at `now` ns because their turn has come or their queue changed."""
        self._take_turns(now)
        result = np.array(self.dirty[:self.n_dirty], np.int64)
        for m in result:
            self.marked[m] = 0
        self.n_dirty = 0
        result.sort()
        return result

    def wait(self, nodes, until):
        """`nodes` must wait `until` (ns) before they may report; they will be served in time."""
        for m, due in zip(nodes.tolist(), until.tolist()):
            self._wait(m, due)

    cdef int _wait(self, int m, long long due) except -1:
        cdef Event e
        e.time, e.sequence, e.slot = due, m, m
        return heap_push(&self.turns, e)

    def arrived(self):
        """int64[k, 2]: when a summary reached the root, and the oldest change of a leaf in it (ns)."""
        return np.array(self.arrivals[:self.n_arrivals])
