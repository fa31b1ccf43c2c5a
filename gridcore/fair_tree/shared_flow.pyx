"""The compiled protocol of the fair tree in several processes, each of which runs some of the machines.

`gridcore.network.exchange` synchronizes them.  The caller makes the same calls in each process, and
`SharedFairTreeProtocol` runs only the nodes on the machines of its process.

The messages that nodes send are ordered by stages, which are the same in all processes::

    call of the caller | turn of the instant | round | phase
                         nodes may act more   one after another until no message to
                         than once at it      the same machine is left; the last are acts

The reports end when all tasks are placed, which depends on all processes.  If this may happen within an epoch, the
processes synchronize at each instant.
"""

cimport cython

from libc.string cimport memcpy

from gridcore.common.arguments cimport _Guard, check_instant, guard, indices
from gridcore.common.instants cimport NEVER
from gridcore.common.pending cimport pending_first
from gridcore.fair_tree.payloads cimport (
    payloads_at, payloads_drop, payloads_new, payloads_release, payloads_wide, payloads_has_place,
)
from gridcore.fair_tree.protocol cimport FairTreeProtocol
from gridcore.fair_tree.summary_tree cimport Request, Spread, Summary, SummaryTree
from gridcore.network.exchange cimport FACTS, Exchange
from gridcore.network.links cimport Links

import numpy as np

__all__ = ["SharedFairTreeProtocol", "TreeExchange"]

# Bit offsets of the parts of a stage, and the number of the last round of a turn.
cdef enum:
    CALL = 40
    TURN = 24
    ROUND = 4
    ACT = 0xFFFFF

# The numbers that processes exchange: the instant of the next event (ns), the tasks on leaves, and the tasks in requests
# that may reach a leaf within an epoch.
cdef enum:
    NEXT, ENQUEUED, COMING


@cython.auto_pickle(False)
cdef class TreeExchange(Exchange):
    """An exchange of messages together with the summaries to which they refer."""

    cdef SummaryTree tree
    cdef int summary, spread, request
    cdef long long coming               # tasks in requests on their way to leaves of this process, or to routers above

    cdef Py_ssize_t _extra(self, int slot) noexcept nogil:
        cdef long long* handle = self._handle(slot)
        if handle == NULL or handle[0] < 0:
            return 0
        # 16 bytes for width and release, then the cells
        return 16 + self.tree.payloads.pool[payloads_wide(<int> handle[0])].nbytes

    cdef long long* _handle(self, int slot) noexcept nogil:
        """Return a pointer to the field with the handle of a summary (-1: none); NULL for kinds without the field."""
        cdef char* record = self.links.data + slot * self.links.stride
        if self.links.message[slot].kind == self.summary:
            return &(<Summary*> record).payload
        if self.links.message[slot].kind == self.spread:
            return &(<Spread*> record).copy
        if self.links.message[slot].kind == self.request:
            return &(<Request*> record).copy
        return NULL

    cdef int _wrap(self, int slot, char* to) except -1:
        cdef long long* place = self._handle(slot)
        cdef int handle
        cdef long long wide
        if place == NULL or place[0] < 0:
            return 0
        handle = <int> place[0]
        wide = payloads_wide(handle)
        memcpy(to, &wide, 8)
        memcpy(to + 8, payloads_release(&self.tree.payloads, handle), 8)
        memcpy(to + 16, payloads_at(&self.tree.payloads, handle), self.tree.payloads.pool[wide].nbytes)
        payloads_drop(&self.tree.payloads, handle)
        return 0

    cdef int _unwrap(self, int slot, const char* content) except -1:
        cdef long long* place = self._handle(slot)
        cdef int handle
        cdef long long wide
        if place == NULL or place[0] < 0:
            return 0
        memcpy(&wide, content, 8)
        handle = payloads_new(&self.tree.payloads, wide)
        memcpy(payloads_release(&self.tree.payloads, handle), content + 8, 8)
        memcpy(payloads_at(&self.tree.payloads, handle), content + 16, self.tree.payloads.pool[wide].nbytes)
        place[0] = handle
        return 0

    cdef int _admit(self, int slot) except -1:
        if self.links.message[slot].kind == self.request:
            self._count(<const Request*> (self.links.data + slot * self.links.stride), 1)
        return 0

    cdef void _count(self, const Request* row, long long sign) noexcept nogil:
        if 2 * row.node + 2 >= self.tree.first_leaf:
            self.coming += sign * row.tasks


cdef class SharedFairTreeProtocol(FairTreeProtocol):
    """A `FairTreeProtocol` in several processes, each of which runs the nodes on its machines.

    The parameters are those of `FairTreeProtocol`.  Call `join` before anything else.  Machines must not fail, decisions
    are not logged, and no machine has two routers.
    """

    cdef TreeExchange exchange
    cdef long long calls, epoch
    cdef bint in_step                   # whether all processes are at the same instant
    cdef const int[::1] owner

    def join(self, owner: ArrayLike, Py_ssize_t rank, Py_ssize_t ranks, memory: NDArray[np.uint8],
             watch: Callable[[], None]):
        """Run the machines whose `owner` is `rank`, one of `ranks` processes; the arguments are those of `Exchange`.

        Raises ValueError for links without a delay, with which processes could not run independently.
        """
        cdef _Guard access = self._guard()
        cdef Links links = self.links
        if links.latency - links.jitter < 1:
            raise ValueError(f"links must delay each message by at least 1 ns, got {links.latency - links.jitter}")
        if self.log is not None or self.observe is not None or links.message_log.max_rows:
            raise ValueError("join does not support log, observe, or links that log messages")
        routers = np.asarray(links.machine_of)[:self.tree.first_leaf]
        if len(np.unique(routers)) != len(routers):
            raise ValueError("links must have at most one router on each machine")
        self.exchange = TreeExchange(links, owner, rank, ranks, memory, watch)
        self.exchange.tree, self.exchange.summary = self.tree, self.summary.number
        self.exchange.spread, self.exchange.request = self.spread.number, self.request.number
        self.owner, self.epoch = links.owner, links.latency - links.jitter
        self._end_call()

    def leave(self):
        """Release the memory that the processes share; the protocol cannot run afterwards."""
        cdef _Guard access = self._guard()
        if self.exchange is not None:
            self.exchange.memory = np.zeros(0, np.uint8)

    cdef bint _is_local(self, Py_ssize_t m) noexcept nogil:
        return self.owner[self.links.machine_of[m]] == self.links.rank

    cdef void _end_call(self) noexcept nogil:
        """Order the next messages of the caller after those that nodes sent in this call, by kind and sender."""
        self.calls += 1
        self.links.stage = (self.calls << CALL) - 1024

    cdef void _set_stage(self, long long turn, long long round) noexcept nogil:
        self.links.stage = (self.calls << CALL) + (turn << TURN) + (round << ROUND)

    cdef int _swap(self) except -1:
        """Exchange messages and progress values (facts) with the other processes."""
        cdef long long[FACTS] facts
        self._write_facts(facts)
        if self.links.n_outbox:
            facts[<int> NEXT] = min(facts[<int> NEXT], self.links.outbox[0].time + self.epoch)
        return self.exchange._swap(facts)

    cdef void _write_facts(self, long long* facts) noexcept nogil:
        """Write the next event time and the number of enqueued tasks of this process to `facts`."""
        cdef long long first = min(self._next_turn(), self.links._first_delivery())
        if pending_first(&self.links.heads) != NULL:
            first = min(first, pending_first(&self.links.heads).time)
        facts[<int> NEXT], facts[<int> ENQUEUED], facts[<int> COMING] = first, self.queues.enqueued, 0
        facts[FACTS - 1] = 0

    cdef long long _total(self, int fact) noexcept nogil:
        """Return the sum of a fact over all processes; for `NEXT`, the minimum."""
        cdef Py_ssize_t p
        cdef long long total = NEVER if fact == NEXT else 0, value
        for p in range(self.exchange.ranks):
            value = self.exchange.facts[p * FACTS + fact]
            total = min(total, value) if fact == NEXT else total + value
        return total

    cdef bint _all_placed(self) except -1:
        cdef long long[FACTS] facts
        if not self.in_step:
            return False
        self._write_facts(facts)
        self.exchange._share(facts)
        return self._total(ENQUEUED) >= self.goal

    cdef bint _may_end(self) except -1:
        """Return whether the last task may be placed within the next epoch."""
        cdef long long[FACTS] facts
        if self.placed_at != NEVER or self.goal == NEVER:
            return False
        self._write_facts(facts)
        facts[<int> COMING] = self.exchange.coming
        self.exchange._share(facts)
        return self._total(ENQUEUED) + self._total(COMING) >= self.goal

    def advance(self, long long limit) -> int:
        """Run as `FairTreeProtocol.advance` does; all processes return the same instant."""
        cdef _Guard access = self._guard()
        cdef long long at
        cdef bint first = True
        while True:
            self._swap()
            at = self._total(NEXT)
            if at > limit or at == NEVER:
                self._end_call()
                return NEVER
            # a message that the caller sends to its own machine may arrive at this instant
            if first or self._may_end():
                self._run_in_step(at)
                if self.placed_at == at and not self.run_on:
                    self._swap()
                    self._end_call()
                    return at
            else:
                self._run(min(limit, at + self.epoch - 1))
            first = False

    cdef int _run(self, long long limit) except -1:
        """Run the nodes of this process up to `limit` ns."""
        cdef long long at, instant = -1, turn = 0
        while True:
            at = self._first(limit)
            if at > limit:
                return 0
            turn = turn + 1 if at == instant else 0
            instant = at
            self._handle(at, turn)
            if at != self.touched_at:
                self._set_stage(turn, ACT)
                self._act(at)

    cdef int _run_in_step(self, long long at) except -1:
        """Run the nodes of this process at `at` ns, in step with the other processes."""
        cdef long long[FACTS] facts
        cdef long long turn = 0
        self.in_step = True
        while True:
            self._first(at)
            self._handle(at, turn)
            if at != self.touched_at:
                self._set_stage(turn, ACT)
                self._act(at)
            if self.placed_at == at and not self.run_on:
                break
            turn += 1
            self._write_facts(facts)
            self.exchange._share(facts)
            if self._total(NEXT) > at:
                break
        self.in_step = False
        return 0

    cdef long long _first(self, long long limit) except -1:
        """Return the first instant (ns) up to `limit` at which a node of this process acts, else `NEVER`."""
        cdef long long turn = self._next_turn()
        cdef long long at = min(self.links._advance(min(limit, turn)), turn)
        return at if at <= limit else NEVER

    cdef int _begin_spread(self, long long now) except -1:
        return FairTreeProtocol._begin_spread(self, now) if self._is_local(0) else 0

    cdef int _handle(self, long long at, long long turn) except -1:
        """Deliver the messages that arrive at `at` ns, and mark the nodes whose delay has ended."""
        cdef long long round = 0
        self._take_turns(at)
        self._set_stage(turn, 0)
        while self._arrive(at):
            self.links._advance(at)
            round += 1
            self._set_stage(turn, round)
        return 0

    cdef int _route(self, const Request* row, long long now) except -1:
        self._count_arrived(row)
        return FairTreeProtocol._route(self, row, now)

    cdef int _enqueue(self, const Request* row, long long now) except -1:
        self._count_arrived(row)
        return FairTreeProtocol._enqueue(self, row, now)

    cdef void _count_arrived(self, const Request* row) noexcept nogil:
        """Count a request as arrived, if the exchange has counted it as under way."""
        if self.links.machine_of[row.node] != self.links.machine_of[row.sender]:
            self.exchange._count(row, -1)

    def total(self, long long count) -> int:
        """Return the sum of `count` over all processes, which must all call this."""
        cdef _Guard access = self._guard()
        cdef long long[FACTS] facts
        facts[:] = [0, count, 0, 0]
        self.exchange._share(facts)
        return self._total(ENQUEUED)

    def touch(self, nodes: ArrayLike, long long now):
        """Mark those of `nodes` that this process runs, as `FairTreeProtocol.touch` does."""
        cdef Py_ssize_t k
        cdef const long long[::1] m = indices(nodes, "nodes", 0, self.tree.nodes)
        FairTreeProtocol.touch(self, [m[k] for k in range(m.shape[0]) if self._is_local(m[k])], now)

    def act(self, long long now):
        """Run `FairTreeProtocol.act` in step with the other processes."""
        cdef _Guard access = self._guard()
        check_instant(now, "now", self.tree.hold_off + self.tree.gap + self.cell)
        self.touched_at = NEVER
        self.in_step = True
        self._set_stage(0, ACT)
        self._act(now)
        self.in_step = False
        self._end_call()
