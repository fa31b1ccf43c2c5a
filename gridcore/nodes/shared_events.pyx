"""The events of nodes when several processes share a run: each process runs the nodes on some of the machines.

`gridcore.network.exchange` synchronizes the processes.  The engine makes the same calls in each of them.  Between two
meetings, within an epoch, each process runs its nodes by itself.

The messages that nodes send are ordered by steps, which are the same in all processes::

    call of the engine | block of timers | block of acts | wave of deliveries | kind of message

An event that follows from another one at the same instant is at the same machine, and so in the same process.  So each
process can count its steps by itself: a step begins when all earlier ones of its process are over.

The run may end when all tasks are placed, which depends on all processes.  If that may happen within an epoch, the
processes run the instant in step.
"""

cimport cython

from gridcore.common.arguments cimport _Guard, guard
from gridcore.common.instants cimport NEVER
from gridcore.common.pending cimport pending_first
from gridcore.network.exchange cimport FACTS
from gridcore.network.links cimport Links
from gridcore.network.transit cimport Message, message_of, record_of
from gridcore.nodes.active_set cimport ActiveSet, active_add, active_clear
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.local_messages cimport local_first
from gridcore.nodes.node_events cimport ACTS, DELIVERIES, NOTHING, TIMERS
from gridcore.nodes.timers cimport timers_first

import numpy as np

__all__ = ["NodeExchange", "SharedEvents"]

# Bits of the parts of a step; the last number of a part stands for what comes after the others.
cdef enum:
    KIND_BITS = 4
    PART_BITS = 12
    LAST = 0xFFF

# The numbers that processes exchange: the instant of the next event (ns), the placed tasks, the tasks that may be placed
# within an epoch, and the phase of the next event of the instant.
cdef enum:
    NEXT, TASKS, COMING, PHASE


@cython.auto_pickle(False)
cdef class NodeExchange(Exchange):
    """An exchange of messages, with the data of their handlers, and of the number of tasks on their way."""

    cdef Py_ssize_t _extra(self, int slot) noexcept nogil:
        return self.handlers._extra(message_of(self.links, slot).kind, <const long long*> record_of(self.links, slot))

    cdef int _wrap(self, int slot, char* to) except -1:
        return self.handlers._wrap(message_of(self.links, slot).kind, <long long*> record_of(self.links, slot), to)

    cdef int _unwrap(self, int slot, const char* source) except -1:
        return self.handlers._unwrap(message_of(self.links, slot).kind, <long long*> record_of(self.links, slot), source)

    cdef int _admit(self, int slot) except -1:
        return self._count(slot, 1)

    cdef int _count(self, int slot, long long sign) except -1:
        """Count the tasks of a message that begins (1) or ends (-1) its way to another machine."""
        cdef const Message* message = message_of(self.links, slot)
        cdef MessageKind kind = <MessageKind> self.kinds[message.kind]
        cdef const long long* row = <const long long*> record_of(self.links, slot)
        if (kind.moves_tasks and message.source != message.target
                and self.handlers._may_place(row)):
            self.coming += sign * row[2 + kind.tasks_at]
        return 0


@cython.auto_pickle(False)
cdef class SharedEvents(NodeEvents):
    """The events of nodes that are divided among processes; base class of `NodeCore`."""

    def join(self, owner: ArrayLike, Py_ssize_t rank, Py_ssize_t ranks, memory: NDArray[np.uint8],
             watch: Callable[[], None]):
        """Run the nodes on the machines whose `owner` is `rank`; `Exchange` documents the arguments.

        It is called before anything else.

        Raises
        ------
        ValueError
            If links may not delay a message, or for what processes cannot share: handlers that are not written in Cython,
            records, observers, and runs that end with the last task.
        """
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call))
        cdef Links links = self.links
        cdef Py_ssize_t k
        if links.latency - links.jitter < 1:
            raise ValueError(f"links must delay each message by at least 1 ns, got {links.latency - links.jitter}")
        if self.cython_handlers is None or self.holds_tasks or self.cython_handlers.n_timers:
            raise ValueError("join requires handlers in Cython that do not count tasks to place, and have no timers")
        if (self.record_decision is not None or self.observe is not None or links.message_log.max_rows or self.at_once
                or self.direct_kinds.shape[0] or self.until_done or self.n_kinds > 1 << KIND_BITS):
            raise ValueError("join does not support records, observers, messages that leave at once, runs that end with "
                             f"the last task, or more than {1 << KIND_BITS} kinds of messages")
        self.exchange = NodeExchange(links, owner, rank, ranks, memory, watch)
        self.exchange.handlers, self.exchange.kinds = self.cython_handlers, self.kinds
        self.epoch, self.pause_at = links.latency - links.jitter, NEVER
        nodes = [self.start.member[k] for k in range(self.start.n)]
        active_clear(&self.start)
        for node in nodes:
            if self._is_local(node):
                active_add(&self.start, node)

    def leave(self):
        """Release the memory that the processes share; the core cannot run afterwards."""
        cdef _Guard access = guard(&self.in_call)
        if self.exchange is not None:
            self.exchange.memory = np.zeros(0, np.uint8)

    def total_of(self, long long count) -> int:
        """Return the sum of `count` over the processes, which must all call this."""
        cdef _Guard access = guard(&self.in_call)
        cdef long long[FACTS] facts
        if self.exchange is None:
            return count
        facts[:] = [0, count, 0, 0]
        self.exchange._share(facts)
        return self._total(TASKS)

    cdef bint _is_local(self, Py_ssize_t node) noexcept:
        """Return whether this process runs the node."""
        return self.exchange is None or self.links.owner[self.links.machine_of[node]] == self.links.rank

    # -- steps ------------------------------------------------------------------------------------------------

    cdef int _begin_call(self) except -1:
        """Order the next messages after all messages sent in earlier calls of the engine."""
        self.calls += 1
        self.timer_blocks = self.act_blocks = self.waves = 0
        self.step = NOTHING
        return 0

    cdef int _begin_step(self, int phase, int part) except -1:
        if self.step == TIMERS and phase != TIMERS:
            self.timer_blocks, self.act_blocks, self.waves = self.timer_blocks + 1, 0, 0
        elif self.step == ACTS and (phase == DELIVERIES or phase == ACTS and part <= self.part):
            self.act_blocks, self.waves = self.act_blocks + 1, 0
        elif self.step == DELIVERIES and phase == DELIVERIES:
            self.waves += 1
        self.step, self.part = phase, part
        return 0

    cdef int _begin_instant(self) except -1:
        self.timer_blocks = self.act_blocks = self.waves = 0
        self.step = NOTHING
        return 0

    cdef int _count_arrived(self, Py_ssize_t n) except -1:
        cdef Py_ssize_t k
        for k in range(n):
            self.exchange._count(self.links.due[k].slot, -1)
        return 0

    cdef int _mark_kind(self, Py_ssize_t kind) except -1:
        cdef long long acts = LAST if self.step == TIMERS else self.act_blocks
        cdef long long waves = LAST - 8 + self.part
        if self.step == NOTHING:
            waves = 0                   # messages of an earlier call of the engine are handled first
        elif self.step == DELIVERIES:
            waves = self.waves + 1
        if max(self.timer_blocks, max(self.act_blocks, self.waves)) >= LAST - 8:
            raise OverflowError(f"processes that share a run support at most {LAST - 9} waves at one instant")
        self.links.stage = ((((self.calls << PART_BITS | self.timer_blocks) << PART_BITS | acts) << PART_BITS | waves)
                            << KIND_BITS | kind)
        return 0

    # -- meetings -----------------------------------------------------------------------------------------------

    cdef long long _next_instant(self) except -1:
        """Return the instant (ns) of the next event of this process that is known, else `NEVER`."""
        cdef long long first = min(self.links._first_delivery(), timers_first(&self.turns))
        if self._has_pending_acts():
            return self.now
        first = min(first, min(timers_first(&self.timers), local_first(self.local)))
        first = min(first, self.queues.change[self.queues.heap[0]])
        if pending_first(&self.links.heads) != NULL:
            first = min(first, pending_first(&self.links.heads).time)
        if self.released < self.release.shape[0]:
            first = min(first, self.release[self.released])
        if self.links.n_outbox:
            first = min(first, self.links.outbox[0].time + self.epoch)
        return first

    cdef int _write_facts(self, long long* facts) except -1:
        facts[<int> NEXT], facts[<int> TASKS] = self._next_instant(), self.queues.enqueued
        facts[<int> COMING] = facts[<int> PHASE] = 0
        return 0

    cdef long long _total(self, int fact) noexcept:
        """Return the sum of a fact over all processes; for `NEXT` and `PHASE`, the minimum."""
        cdef Py_ssize_t p
        cdef bint is_sum = fact == TASKS or fact == COMING
        cdef long long total = 0 if is_sum else NEVER, value
        for p in range(self.exchange.ranks):
            value = self.exchange.facts[p * FACTS + fact]
            total = total + value if is_sum else min(total, value)
        return total

    cdef bint _is_placed(self) except -1:
        return self.all_placed if self.exchange is not None else NodeEvents._is_placed(self)

    cdef bint _may_end(self, long long at) except -1:
        """Return whether the last task may be placed within the epoch that begins at `at` ns."""
        cdef long long[FACTS] facts
        cdef Py_ssize_t k = self.released
        if self.placed_at >= 0:
            return False
        self._write_facts(facts)
        facts[<int> COMING] = self.exchange.coming
        while k < self.release.shape[0] and self.release[k] < at + self.epoch:
            if self._is_local(self.submission_nodes[self.submitter[k]]):
                facts[<int> COMING] += self.tasks[k]
            k += 1
        self.exchange._share(facts)
        return self._total(TASKS) + self._total(COMING) >= self.total

    cdef bint _is_exhausted(self) except -1:
        """Return whether no process has any more events."""
        cdef long long[FACTS] facts
        self._write_facts(facts)
        self.exchange._share(facts)
        return self._total(NEXT) == NEVER

    # -- running --------------------------------------------------------------------------------------------------

    cdef long long _advance_together(self, long long limit) except -1:
        """Run as `_advance` does; all processes return the same instant."""
        cdef long long[FACTS] facts
        cdef long long at
        cdef bint is_first = True
        self._begin_call()
        if self.dirty and self.now < limit:
            self._flush()
        while True:
            self._write_facts(facts)
            self.exchange._swap(facts)
            at = self._total(NEXT)
            if at > limit or at == NEVER:
                break
            # a message that a node has sent to its own machine at a call of the engine may arrive at this instant
            if is_first or self._may_end(at):
                self._run_in_step(at, limit)
                if self.finished:
                    self._write_facts(facts)
                    self.exchange._swap(facts)
                    break
            else:
                self.horizon = at + self.epoch - 1
                self._advance(limit)
            is_first = False
        self.horizon = NEVER
        return at if self.finished else NEVER

    cdef int _run_in_step(self, long long at, long long limit) except -1:
        """Run the nodes of this process at `at` ns, in step with the other processes."""
        cdef long long[FACTS] facts
        self.horizon = at
        if at > self.now:
            self._set_clock(at)
        while not self.finished:
            self.links._advance(at)
            if self.queues.change[self.queues.heap[0]] <= at:
                self._collect_idle()
            facts[:] = [0, self.queues.enqueued, 0, self._phase_due()]
            self.exchange._share(facts)
            self.only_phase = <int> self._total(PHASE)
            if self.dirty and (self.only_phase < TIMERS or self.only_phase == NOTHING and at < limit):
                self._flush()           # in all processes, whether they have events of the phase or not
            if self.only_phase == NOTHING:
                break
            if self.only_phase == ACTS and self.placed_at < 0 and self._total(TASKS) >= self.total:
                self.all_placed = True
                if self.reorder.n == 0:
                    self._end_placement()
            if not self.finished:
                self._advance(limit)
        self.only_phase = -1
        return 0
