"""The events of nodes, their order, and the calls of handlers.

The order of the events of one instant, which is that of the engine:

    tasks that end -> deliveries, wave by wave -> acts (reorder, start, end, idle, act) -> direct messages (of kinds
    with their own delay), then releases -> timers of nodes, then of applications

Tasks are handled by application, then machine.  The deliveries of a wave are handled by kind of message, receiver and
order of sending, followed by local messages (`View.later`) by receiver and order of sending.  Direct messages are
handled in the order of sending.  An event that becomes due meanwhile is handled first if it is earlier in this list,
except that releases follow the direct messages before them immediately.
Messages leave when the ends of tasks, the deliveries of a wave, the acts of one sort, or all releases and timers have
been handled, by kind, sender and order of sending; or at once, with the option `at_once`.  Direct messages always
leave at once.  Those with a delay of 0 are handled as soon as the handler that sends them returns.
"""

from cpython.object cimport PyObject_GenericSetAttr
from cpython.ref cimport PyObject
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy

cimport cython

from gridcore.common.memory cimport prefetch, prefetch_at, reallocate
from gridcore.common.heap cimport Event
from gridcore.common.pending cimport Pending, pending_count, pending_first, pending_in_order, pending_pop, pending_slot
from gridcore.network.links cimport Links
from gridcore.network.transit cimport FAR, FEW, LINE, NEAR, message_of, record_of
from gridcore.network.mailboxes cimport mailboxes_tidy
from gridcore.nodes.calls cimport call, call_fields, new_object
from gridcore.nodes.compiled_calls cimport Handler, fill_context
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.holdings cimport holdings_give, holdings_prefetch, holdings_prefetch_entry
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.nodes.kinds cimport REQUEST_NUMBER, MessageKind, TimerKind
from gridcore.nodes.node_actions cimport MIN_THREADED
from gridcore.nodes.local_messages cimport local_first
from gridcore.nodes.node_memory cimport RecordMemory
from gridcore.nodes.outbox cimport outbox_clear
from gridcore.nodes.payloads cimport Payload
from gridcore.nodes.roles cimport (
    EVENTS, ON_ACT, ON_DONE, ON_END, ON_IDLE, ON_LOST, ON_RELEASE, ON_START, ON_TIMEOUT, ON_TIMER,
    WITH_VALUE, Role,
    role_of,
)
from gridcore.nodes.rows cimport map_discard
from gridcore.nodes.timers cimport (
    Timer, Timers, timers_fields, timers_first, timers_make, timers_release, timers_unlink,
)
from gridcore.nodes.active_set cimport active_add, active_clear, active_free
from gridcore.nodes.view cimport new_view
from gridcore.queues.journal cimport journal_copy
from gridcore.queues.task_queues cimport TaskQueues

import numpy as np

__all__ = ["EVENT_NAMES", "NodeEvents", "deferred_reason"]

#: Handlers of events in the order of their numbers in `gridcore.nodes.roles`.
EVENT_NAMES = ["on_start", "on_release", "on_lost", "on_timer", "on_idle", "on_end", "on_act", "on_done", "on_timeout"]
# The engine checks its limits once an instant has this many events: a constant, plus a number per node.
cdef long long _MANY_EVENTS = 2**16, _MANY_EVENTS_PER_NODE = 64
# An instant with more events is taken for an endless loop: a constant, plus a number per node and per task.
cdef long long _MAX_EVENTS = 1_000_000, _MAX_EVENTS_PER_NODE = 100, _MAX_EVENTS_PER_TASK = 10


cdef int ascending(const void* x, const void* y) noexcept nogil:
    cdef int a = (<const int*> x)[0], b = (<const int*> y)[0]
    return -1 if a < b else a > b


cdef int by_setting(const void* x, const void* y) noexcept nogil:
    """Compare timers of one instant by (node, name, order of setting)."""
    cdef const DueTimer* a = <const DueTimer*> x
    cdef const DueTimer* b = <const DueTimer*> y
    if a.item != b.item:
        return -1 if a.item < b.item else 1
    return -1 if a.number < b.number else 1


def deferred_reason(kind: str) -> str:
    """Return why handlers of the deferred kind `kind` may not act, as `NodeActions.read_only_reason`."""
    return (f"a handler of {kind!r}, but handlers of deferred messages may only read and note; "
            "leave out deferred=True")


@cython.auto_pickle(False)
cdef class NodeEvents(NodeActions):
    """The events of nodes; base class of `NodeCore`, which sets the attributes.

    Methods that are called for each message are final, which avoids virtual calls.
    """

    def __dealloc__(self):
        free(self.due_timers)
        free(self.acting)
        active_free(&self.start)
        active_free(&self.end)

    # -- handlers ---------------------------------------------------------------------------------------------

    cdef int _compile(self, compiled_form) except -1:
        """Call compiled handlers from now on."""
        cdef Py_ssize_t k, node
        cdef RecordMemory memory
        self.compiled_form = compiled_form
        fill_context(&self.context, self, self.tasks)
        self.last_handler, self.memory = -1, []
        for k, (program, records) in enumerate(zip(compiled_form.programs, self.programs.arrays, strict=True)):
            states = records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
            self._compile_role(&self.roles[k], program.handlers, states)
            memory = RecordMemory(states, program.objects) if program.objects else None
            self.memory.append(memory)
            for node in range(len(records) if memory is not None else 0):
                memory._start(node)
        self._allocate_record()
        return 0

    cdef int _compile_role(self, Role* role, handlers, states) except -1:
        """Set the addresses of the handlers and of the states, uint8[nodes, bytes], of a role."""
        cdef Py_ssize_t k
        cdef size_t address
        cdef unsigned char[:, ::1] memory = states
        if states.shape != (role.end - role.first, states.shape[1]):
            raise ValueError(f"programs must have {role.end - role.first} records for nodes {role.first}..{role.end - 1}, "
                             f"got {states.shape[0]}")
        role.stride = memory.shape[1]
        if memory.size:
            role.states = <char*> &memory[0, 0] - role.first * role.stride
        names = self._handler_names()
        role.handlers = <void**> reallocate(NULL, len(names) * sizeof(void*))
        for k, name in enumerate(names):
            address = handlers.get(name, 0)
            role.handlers[k] = <void*> address
        return 0

    cdef list _handler_names(self):
        """Return the names of the handlers of compiled programs, in the order of `Role.handlers`.

        They are those of kinds of messages, events, local kinds and timers.
        """
        return ([(<MessageKind> kind).name for kind in self.kinds] + EVENT_NAMES
                + [(<MessageKind> kind).name for kind in self.local.kinds]
                + [(<TimerKind> kind).handler for kind in self.timer_kinds])

    cdef Py_ssize_t _timer_handler(self, TimerKind kind) noexcept:
        """Return the index in `Role.handlers` of the handler of a timer."""
        return self.n_kinds + EVENTS + len(self.local.kinds) + kind.number

    cdef int _allocate_record(self) except -1:
        self.is_compiled = True
        self.copies_records = self.at_once or self.direct_kinds.shape[0] > 0
        self.record = np.zeros(2 + max([(<MessageKind> kind).n for kind in self.by_name.values()], default=0), np.int64)
        return 0

    cdef int _use_handlers(self, Handlers handlers) except -1:
        """Call handlers written in Cython from now on."""
        if (handlers.nodes, handlers.applications) != (self.nodes, self.submitter.shape[0]):
            raise ValueError(f"compiled_form must be for {self.nodes} nodes and {self.submitter.shape[0]} applications, "
                             f"got {handlers.nodes} and {handlers.applications}")
        self._allocate_record()
        self.cython_handlers, self.holds_tasks = handlers, handlers.holds_tasks
        self.in_batches = handlers.in_batches
        if handlers.n_timers:
            timers_make(&self.application_timers, handlers.applications, 0)
        return handlers._bind(self)

    @cython.final
    cdef int _call_compiled(self, Py_ssize_t handler, Py_ssize_t node, const long long* arguments) except -1:
        """Call a compiled handler, if defined; handlers of messages and releases are required."""
        cdef Role* role
        if self.cython_handlers is not None:
            if handler < self.n_kinds:
                self.cython_handlers._message(self, handler, node, arguments)
            else:
                self.cython_handlers._event(self, handler - self.n_kinds, node, arguments)
            return self._handle_now() if self.n_instant else 0
        role = role_of(self.roles, node)
        if role.handlers[handler] != NULL:
            self.last_handler, self.last_node = handler, node
            if self.recorder is not None and self.is_recorded[node]:
                self._record_compiled_call(handler, node, arguments)
            else:
                (<Handler> role.handlers[handler])(&self.context, node, arguments, role.states + node * role.stride)
            if self.payloads.old_arrays:
                self.payloads.old_arrays = []
            return self._handle_now() if self.n_instant else 0
        if not 0 <= handler - self.n_kinds < EVENTS:
            raise self._missing_handler(self.by_name[self._handler_names()[handler]], node)
        if handler - self.n_kinds in (ON_RELEASE, ON_LOST):
            raise self._missing_handler(None, node)
        return 0

    cdef object _missing_handler(self, MessageKind kind, Py_ssize_t node):
        """Return the error of a node that has no handler for a kind of message, or for releases if that is None."""
        subject, methods = "tasks were submitted", "on_release"
        if kind is not None:
            name = kind.name
            subject, methods = f"a message {name!r} arrived", f"on_{name} or on_message".replace("-", "_")
        role, program = self.role_names[<Py_ssize_t> (role_of(self.roles, node) - self.roles)]
        return self.error_type(f"t = {self.now / 1e9} s: {subject} at node {node}{f', a {role}' if role else ''}, but "
                               f"{program} does not define {methods}")

    @cython.final
    cdef int _call_without_arguments(self, Py_ssize_t event, str handler, int node) except -1:
        """Call a handler whose only argument is the view, if the node has it."""
        if self.is_compiled:
            return self._call_compiled(self.n_kinds + event, node, NULL)
        return self._call(handler, node, NULL, NULL) if self._handles(node, <int> event) else 0

    @cython.final
    cdef int _call(self, str handler, Py_ssize_t node, PyObject* first, PyObject* second) except -1:
        """Call an interpreted handler, and handle the messages that it sends with a delay of 0."""
        if self.recorder is not None and self.is_recorded[node]:
            self._record_call(handler, node, first, second)
        else:
            call(handler, self.programs[node], self._view(node), first, second)
        return self._handle_now() if self.n_instant else 0

    @cython.final
    cdef str _handler_of(self, MessageKind kind, Py_ssize_t node):
        """Return the name of the method by which a node handles a kind of message."""
        handler = kind.handler
        if handler is None:
            handler = kind.handlers[<Py_ssize_t> (role_of(self.roles, node) - self.roles)]
            if handler is None:
                raise self._missing_handler(kind, node)
        return <str> handler

    @cython.final
    cdef object _view(self, Py_ssize_t node):
        view = (<list> self.views)[node]
        if view is None:
            view = new_view(self, <int> node)
            self.views[node] = view
        return view

    # -- observers --------------------------------------------------------------------------------------------

    def sample(self, long long first, sampler: Callable[[int], int]):
        """Call `sampler` at `first` ns, when all events up to that instant have been handled, and then when it asks to.

        It gets the instant, reads programs and views, and returns the instant (ns) of the next call.  It adds no
        event, so that the run takes the same course without it; nodes cannot act meanwhile.
        """
        self.sample_at, self.sampler = first, sampler

    def sample_rest(self):
        """Call the sampler at its instants up to the present one, at the end of the run."""
        self._run_sampler(self.now + 1)

    def record_calls(self, recorder, is_recorded: Bools):
        """Report the handler calls of some nodes to `recorder`: a `gridsim.scheduling.nodes.diary.Recorder`.

        For each call the core calls `begin`, the handler, and `end`; between these, `sent` for each message that
        leaves at once and `add` for changes of the queue and the board.
        """
        flags = np.array(is_recorded, np.bool_)
        if flags.shape != (self.nodes,):
            raise ValueError(f"is_recorded must have the shape ({self.nodes},), got {flags.shape}")
        self.recorder, self.is_recorded = recorder, flags.view(np.uint8)

    cdef int _run_sampler(self, long long end) except -1:
        """Call the sampler at each of its instants before `end` ns, when all events before `end` were handled."""
        cdef long long now = self.now
        self.read_only_reason, self.is_observed = "a column of Observe, which may only read", True
        while self.sample_at < end:
            self.now = self.sample_at
            self.sample_at = self.sampler(self.now)
        self.now, self.read_only_reason, self.is_observed = now, None, False
        return 0

    cdef int _record_call(self, str handler, Py_ssize_t node, PyObject* first, PyObject* second) except -1:
        """Call an interpreted handler of a recorded node."""
        cdef tuple arguments = ()
        if first != NULL:
            arguments = (<object> first,) if second == NULL else (<object> first, <object> second)
        self.recorder.begin(node, handler, arguments)
        self.open_call = self.recorder
        call(handler, self.programs[node], self._view(node), first, second)
        self.open_call = None
        self.recorder.end()
        return 0

    cdef int _record_timer(self, TimerKind kind, Py_ssize_t node, const long long* fields) except -1:
        """Call the interpreted handler of a timer of a recorded node."""
        self.recorder.begin(node, kind.handler, self._timer_values(kind, fields))
        self.open_call = self.recorder
        call_fields(kind.handler, self.programs[node], self._view(node), fields, kind.type_codes, kind.n)
        self.open_call = None
        self.recorder.end()
        return 0

    cdef int _record_compiled_call(self, Py_ssize_t handler, Py_ssize_t node, const long long* arguments) except -1:
        """Call a compiled handler of a recorded node; the recorder gets the arguments of the interpreted one."""
        cdef Role* role = role_of(self.roles, node)
        cdef Py_ssize_t event = handler - self.n_kinds
        cdef MessageKind kind
        cdef TimerKind timer
        cdef Py_ssize_t number = event - EVENTS - len(self.local.kinds)
        cdef object values = ()
        if number >= 0:
            timer = <TimerKind> self.timer_kinds[number]
            method, values = timer.handler, self._timer_values(timer, arguments)
        elif event < 0 or event >= EVENTS:
            kind = <MessageKind> (self.kinds[handler] if event < 0 else self.local.kinds[event - EVENTS])
            method = self._handler_of(kind, node)
            values = (kind.message(arguments[1], self._fields(kind, arguments, True).values()),)
        else:
            method = EVENT_NAMES[event]
            if event == ON_TIMER:
                values = (self.compiled_form.timers[arguments[0]],)
                if self._handles(node, WITH_VALUE):
                    values += ((<const double*> arguments)[1],)
            elif event == ON_RELEASE or event == ON_LOST:
                values = (arguments[0], arguments[1])
            elif event == ON_DONE:
                values = (arguments[0],)
            elif event == ON_TIMEOUT:
                values = (self._request(arguments),)
        self.recorder.begin(node, method, values)
        self.open_call = self.recorder
        (<Handler> role.handlers[handler])(&self.context, node, arguments, role.states + node * role.stride)
        self.open_call = None
        self.recorder.end()
        return 0

    # -- counts of handled events -----------------------------------------------------------------------------

    cdef int _make_counts(self) except -1:
        """Make the counts of events by row, in the order of `_handler_names`."""
        rows = len(self._handler_names())
        self.counts, self.latest = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        return 0

    @cython.final
    cdef void _count(self, Py_ssize_t row, Py_ssize_t node, long long n) noexcept:
        """Count `n` events of the kind `row`; the first is at `node`."""
        self.events += n
        self.counts[row] += n
        self.latest[row] = node

    cdef tuple _sort_of_row(self, Py_ssize_t row, Py_ssize_t node):
        """Return (``"message"``, ``"timer"`` or ``"event"``; name; handler) of a row of the counts, at a node."""
        cdef Py_ssize_t local = row - self.n_kinds - EVENTS
        cdef TimerKind timer
        if 0 <= row - self.n_kinds < EVENTS:
            return "event", EVENT_NAMES[row - self.n_kinds], EVENT_NAMES[row - self.n_kinds]
        if local < <Py_ssize_t> len(self.local.kinds):
            kind = <MessageKind> (self.kinds[row] if row < self.n_kinds else self.local.kinds[local])
            return "message", kind.name, self._handler_of(kind, node)
        timer = <TimerKind> self.timer_kinds[local - len(self.local.kinds)]
        return "timer", timer.name, timer.handler

    cdef int _check_clock(self) except -1:
        """Raise an error if the clock has stood still for too many events, which names the most frequent kind."""
        cdef long long events = self.events - self.since
        if events <= _MANY_EVENTS + _MANY_EVENTS_PER_NODE * self.nodes:
            return 0
        self.needs_engine = True
        if self.stalled_at != self.now:
            self.stalled_at, self.stalled_counts = self.now, np.asarray(self.counts).copy()
        if events <= _MAX_EVENTS + _MAX_EVENTS_PER_NODE * self.nodes + _MAX_EVENTS_PER_TASK * self.total:
            return 0
        counts = np.asarray(self.counts) - self.stalled_counts
        row = int(np.argmax(counts))
        node = int(self.latest[row])
        raise self.report_endless(events, int(counts[row]), *self._sort_of_row(row, node), node)

    # -- due events -------------------------------------------------------------------------------------------

    cdef long long _advance(self, long long limit) except -1:
        """Run all events up to `limit` ns, as `NodeCore.advance` describes."""
        cdef long long at
        cdef int phase
        self.limit = limit
        if self.needs_engine:
            # return to the engine, which has an event at this instant and then checks its limits
            self.needs_engine = False
            if limit <= self.now:
                return NEVER
        while True:
            if self.dirty and not (self.phase == TIMERS and self.now >= self.limit):
                # only releases and timers can continue the wave
                if self.phase != TIMERS or self._phase_due() != TIMERS:
                    self._flush()
            if self.finished:
                return self.now
            at = self._due()
            if self.sample_at < min(at, self.limit) < NEVER:
                self._run_sampler(min(at, self.limit))
            if at > self.limit or at > self.horizon or at == NEVER:
                return NEVER
            if at > self.now:
                self._set_clock(at)
            if self.events >= self.pause_at:
                self._check_clock()
                if self.needs_engine or not self.dirty:
                    self.pause_at = self.events + STRIDE
                    return self.now
            if self.queues.machines and self.queues.change[self.queues.heap[0]] <= self.now:
                self._collect_idle()
                if self.finished:
                    return self.now
            phase = self._phase_due()
            if phase != self.phase and self.dirty:
                self._flush()
                continue
            if phase != self.only_phase >= 0:
                return NEVER
            self.phase = phase
            if phase == DELIVERIES:
                self._wave()
            elif phase == ACTS:
                self._act()
            elif phase == TIMERS:
                self._release_or_fire()

    @cython.final
    cdef int _set_clock(self, long long at) except -1:
        """Advance the clock to an instant with events."""
        if at > LATEST:
            raise OverflowError(f"events of nodes must be at {LATEST} ns or earlier, got {at} ns")
        self.now, self.since = at, self.events
        return self._begin_instant()

    @cython.final
    cdef long long _due(self) except -1:
        """Return the instant (ns) of the next event; `NEVER` if there is none."""
        cdef long long first
        if self._has_pending_acts():
            self.links._advance(self.now)
            return self.now
        first = min(min(timers_first(&self.timers), timers_first(&self.turns)), local_first(self.local))
        first = min(first, timers_first(&self.application_timers))
        if self.queues.machines:
            first = min(first, self.queues.change[self.queues.heap[0]])
        first = min(first, self._next_release())
        # the links must not run beyond the next event, whose messages may overtake messages in flight
        return min(first, self.links._advance(min(first, min(self.limit, self.horizon))))

    @cython.final
    cdef bint _has_pending_acts(self) noexcept:
        """Return whether acts other than `on_act` are due at this instant."""
        return self.reorder.n or self.start.n or self.end.n or self.idle.n

    @cython.final
    cdef int _phase_due(self) except -1:
        """Return the first phase of this instant with a due event."""
        if self.links._first_outer_delivery() <= self.now or local_first(self.local) <= self.now:
            return DELIVERIES
        if self._has_pending_acts() or timers_first(&self.turns) <= self.now:
            return ACTS
        if self._next_release() <= self.now:
            return TIMERS
        if self.direct_kinds.shape[0] and self._next_direct() >= 0:
            return TIMERS
        if timers_first(&self.timers) <= self.now or timers_first(&self.application_timers) <= self.now:
            return TIMERS
        return NOTHING

    cdef int _collect_idle(self) except -1:
        """Collect the machines that have become idle or ended a task."""
        cdef TaskQueues queues = self.queues
        cdef int machine
        while queues.change[queues.heap[0]] <= self.now:
            machine = queues.heap[0]
            queues._advance(machine, self.now)
            queues._update(machine)
            if self.has_on_end:
                active_add(&self.end, machine)
            if self.has_on_idle:
                active_add(&self.idle, machine)
        self.finished = self.until_done and queues.tasks_done == self.total
        if self.has_on_done:
            self._end_tasks()
        return 0

    cdef int _end_tasks(self) except -1:
        """Call `on_done` for the tasks that have ended at this instant."""
        cdef object application
        cdef long long row
        rows = np.empty((self.queues.completion_log.n, 6), np.int64)
        journal_copy(&self.queues.completion_log, rows)
        self.queues.completion_log.n = 0
        for machine, row, tasks in rows[np.lexsort((rows[:, 0], rows[:, 1])), :3].tolist():
            application, node = self._application(row), self.home[machine]
            for _ in range(tasks if self.is_compiled or self._handles(node, ON_DONE) else 0):
                if self.is_compiled:
                    self._call_compiled(self.n_kinds + ON_DONE, node, &row)
                else:
                    self._call("on_done", node, <PyObject*> application, NULL)
            self._count(self.n_kinds + ON_DONE, node, tasks)
        if self.dirty:
            self._flush()
        return 0

    # -- deliveries -------------------------------------------------------------------------------------------

    @cython.final
    cdef int _wave(self) except -1:
        """Handle all messages that have arrived, and send the messages from their handlers."""
        cdef Py_ssize_t number, k, n
        cdef Links links = self.links
        self._begin_step(DELIVERIES, 0)
        for number in range(self.n_kinds):
            if (links.deferred[number] or pending_first(&links.queue[number]) == NULL
                    or (<MessageKind> self.kinds[number]).delay >= 0):
                continue
            n = links._take(<int> number, self.now)
            if n == 0:
                continue
            if links.shared and (<MessageKind> self.kinds[number]).moves_tasks:
                self._count_arrived(n)
            if self.in_batches:
                self._count(number, links.due[0].node, n)
                self.cython_handlers._take_messages(self, number, n)
                continue
            links._sort_by_node(n)
            self._count(number, links.due[0].node, n)
            if self.context.core != NULL and pending_count(&links.queue[number]) >= FEW:
                self._prefetch_receivers(<MessageKind> self.kinds[number])
            for k in range(n):
                if k + FAR < n:
                    links._prefetch_message(links.due[k + FAR].slot)
                self._deliver(<MessageKind> self.kinds[number], links.due[k].slot, NULL)
        if local_first(self.local) <= self.now:
            self._deliver_local()
        for k in range(links.n_missing):
            self._handle_dropped(links.missing[k])
        links.n_missing = 0
        if self.dirty:
            self._flush()
        return 0

    @cython.final
    cdef void _prefetch_receivers(self, MessageKind kind) noexcept:
        """Prefetch what the handlers of the next messages read first; the messages are in the cache."""
        cdef const Pending* queue = &self.links.queue[kind.number]
        cdef Py_ssize_t k
        cdef int slot = pending_slot(queue, 0)
        if slot < 0:
            return
        self._prefetch_next(kind, <const long long*> record_of(self.links, slot))
        for k in range(NEAR if pending_in_order(queue) else 1, NEAR + 1):
            slot = pending_slot(queue, k)
            if slot >= 0:
                self._prefetch_receiver(kind, <const long long*> record_of(self.links, slot))

    @cython.final
    cdef void _prefetch_receiver(self, MessageKind kind, const long long* row) noexcept:
        cdef const Role* role = role_of(self.roles, row[0])
        if role.stride <= LINE:             # of longer states handlers may read any line
            prefetch_at(role.states, row[0] * role.stride)
        if self.context.neighbours != NULL:
            prefetch(&self.context.neighbour_offsets[row[0]])
        if self.holds_tasks and kind.application_at >= 0:
            holdings_prefetch(&self.holdings, row[0], row[2 + kind.application_at])

    @cython.final
    cdef void _prefetch_next(self, MessageKind kind, const long long* row) noexcept:
        """As `_prefetch_receiver`, of the very next message: what is found by what that has prefetched."""
        if self.context.neighbours != NULL:
            prefetch(&self.context.neighbours[self.context.neighbour_offsets[row[0]]])
        if self.holds_tasks and kind.application_at >= 0:
            holdings_prefetch_entry(&self.holdings, row[0], row[2 + kind.application_at])

    cdef int _drain(self) except -1:
        """Handle the messages of deferred kinds that have arrived, by machine and time."""
        cdef Py_ssize_t number, k
        cdef const unsigned char[:, ::1] rows
        cdef const long long[::1] order
        for number in range(self.n_kinds):
            if not self.links.deferred[number]:
                continue
            if self.in_batches:
                for _, _, records in (self.links._take_unboxed(<int> number, self.now),
                                      self.links._take_boxed(<int> number, self.now)):
                    self.cython_handlers._take_deferred(self, number, records)
                    self.events += len(records)
                continue
            machine, times, records = (np.concatenate(column) for column in zip(
                self.links._take_unboxed(<int> number, self.now), self.links._take_boxed(<int> number, self.now)))
            rows, order = records, np.lexsort((times, machine))
            self.read_only_reason = deferred_reason((<MessageKind> self.kinds[number]).name)
            try:
                for k in range(order.shape[0]):
                    self._deliver(<MessageKind> self.kinds[number], -1, <const long long*> &rows[order[k], 0])
            finally:
                self.read_only_reason = None
            if order.shape[0]:
                self._count(number, (<const long long*> &rows[order[0], 0])[0], order.shape[0])
        mailboxes_tidy(&self.links.boxes)
        return 0

    @cython.final
    cdef int _deliver(self, MessageKind kind, int slot, const long long* row) except -1:
        """Deliver the message `row` to its receiver; if `row` is NULL, the message of `slot`, which is freed."""
        cdef object message
        cdef long long node
        if row == NULL:
            row = <const long long*> record_of(self.links, slot)
        if kind.is_answer and row[2 + kind.request_at] and not self._end_request(row[0], row[2 + kind.request_at]):
            # a late answer is dropped, but not the tasks in it
            if not kind.moves_tasks:
                return self._handle_dropped(slot)
            (<long long*> row)[2 + kind.request_at] = 0
        if kind.application_at >= 0:
            # a message of a checkpoint may have any number
            if not 0 <= row[2 + kind.application_at] < self.submitter.shape[0]:
                raise ValueError(f"a message {kind.name!r} must be about an application below "
                                 f"{self.submitter.shape[0]}, got {row[2 + kind.application_at]}")
        if kind.application_at >= 0 and self.holds_tasks:
            holdings_give(&self.holdings, row[0], row[2 + kind.application_at],
                          row[2 + kind.tasks_at] if kind.moves_tasks else 0)
        if self.is_compiled:
            # a message that the handler sends at once may reallocate the records
            if self.copies_records or kind.has_arrays:
                memcpy(&self.record[0], row, (2 + kind.n) * sizeof(long long))
                row = &self.record[0]
                if kind.has_arrays and self.cython_handlers is None:
                    self._load_arrays(kind)
            self._call_compiled(kind.number, row[0], row)
            if slot >= 0:
                self.links._free_slot(slot)
            return 0
        node = row[0]
        message = self._message(kind, row)
        if slot >= 0:
            self.links._free_slot(slot)
        return self._call(self._handler_of(kind, node), node, <PyObject*> message, NULL)

    @cython.final
    cdef object _message(self, MessageKind kind, const long long* row):
        """Return the object with which an interpreted handler gets the message `row`."""
        cdef object message = new_object(kind.type)
        cdef int i
        PyObject_GenericSetAttr(message, "sender", row[1])
        for i in range(kind.n):
            if kind.type_codes[i] == 2:
                PyObject_GenericSetAttr(message, <str> kind.fields[i], self.payloads._fetch(row[2 + i]))
            elif kind.type_codes[i]:
                PyObject_GenericSetAttr(message, <str> kind.fields[i], (<const double*> row)[2 + i])
            else:
                PyObject_GenericSetAttr(message, <str> kind.fields[i], row[2 + i])
        return message

    cdef int _load_arrays(self, MessageKind kind) except -1:
        """Take the arrays of the message in `record`, and point to their contents there."""
        cdef Payload payload
        cdef int i
        self.payloads.at_hand = []
        for i in range(kind.n):
            if kind.type_codes[i] == 2:
                payload = self.payloads._take(self.record[2 + i])
                if payload.element != kind.elements[i] or kind.dimensions[i] and payload.ndim != kind.dimensions[i]:
                    raise ValueError(f"field {kind.fields[i]!r} of a message {kind.name!r} must have its declared type, "
                                     f"got code {payload.element} with {payload.ndim} dimensions")
                self.payloads.at_hand.append(payload)
                self.record[2 + i] = <long long> &payload.contents
        return 0

    cdef int _deliver_local(self) except -1:
        """Handle the local messages that have arrived, by receiver."""
        cdef list due = self.local._take(self.now)
        cdef MessageKind kind
        cdef object message
        cdef const long long* row
        cdef int slot
        for slot in due:
            row = self.local.data + slot * self.local.words
            kind = <MessageKind> self.local.kinds[row[0]]
            row += 1
            self._count(self.n_kinds + EVENTS + kind.local_number, row[0], 1)
            if self.is_compiled:
                memcpy(&self.record[0], row, (2 + kind.n) * sizeof(long long))
                row = &self.record[0]
                if kind.has_arrays and self.cython_handlers is None:
                    self._load_arrays(kind)
                self.local._free(slot)
                self._call_compiled(self.n_kinds + EVENTS + kind.local_number, row[0], row)
            else:
                message = self._message(kind, row)
                node = row[0]
                self.local._free(slot)
                self._call(self._handler_of(kind, node), node, <PyObject*> message, NULL)
        return 0

    cdef int _handle_dropped(self, int slot) except -1:
        """Handle a dropped message or a late answer: its tasks are lost, and its arrays are freed."""
        cdef const long long* row = <const long long*> record_of(self.links, slot)
        cdef MessageKind kind = <MessageKind> self.kinds[message_of(self.links, slot).kind]
        cdef long long application = 0, tasks = 0
        cdef int i
        if kind.moves_tasks:
            application, tasks = row[2 + kind.application_at], row[2 + kind.tasks_at]
        for i in range(kind.n if kind.has_arrays else 0):
            if kind.type_codes[i] == 2:
                self.payloads._fetch(row[2 + i])
        if self.cython_handlers is not None:
            self.cython_handlers._lose(self, kind.number, row)
        cdef long long node = row[0]
        self.links._free_slot(slot)
        if kind.moves_tasks:
            self.report_lost(application, tasks, node)
        return 0

    # -- direct messages ----------------------------------------------------------------------------------------

    @cython.final
    cdef int _next_direct(self) noexcept:
        """Return the kind of the first direct message that has arrived; -1 if there is none."""
        cdef Py_ssize_t k
        cdef int first = -1
        cdef long long time = self.now, sequence = NEVER
        cdef const Event* e
        for k in range(self.direct_kinds.shape[0]):
            e = pending_first(&self.links.queue[self.direct_kinds[k]])
            if e != NULL and (e.time < time or e.time == time and e.sequence < sequence):
                time, sequence, first = e.time, e.sequence, self.direct_kinds[k]
        return first

    @cython.final
    cdef int _take_direct(self, int number) except -1:
        cdef int slot = self.links._take_first(number)
        if slot >= 0:
            self._count(number, (<const long long*> record_of(self.links, slot))[0], 1)
            return self._deliver(<MessageKind> self.kinds[number], slot, NULL)
        self.events += 1
        while self.links.n_missing:
            self.links.n_missing -= 1
            self._handle_dropped(self.links.missing[self.links.n_missing])
        return 0

    @cython.final
    cdef int _handle_now(self) except -1:
        """Handle direct messages with a delay of 0, including new ones, in the order of sending."""
        cdef Py_ssize_t k
        cdef int first
        cdef const Event* e = NULL
        cdef const Event* candidate
        cdef long long limit = self.events + STRIDE
        if self.handling_now:
            return 0
        self.handling_now = True
        try:
            while self.n_instant:
                if self.events > limit:
                    limit += STRIDE
                    self._check_clock()
                if self.instant.n:
                    self.n_instant -= 1
                    self._take_instant()
                    continue
                first = -1
                for k in range(self.direct_kinds.shape[0]):
                    if (<MessageKind> self.kinds[self.direct_kinds[k]]).delay == 0:
                        candidate = pending_first(&self.links.queue[self.direct_kinds[k]])
                        if candidate != NULL and (first < 0 or candidate.sequence < e.sequence):
                            e, first = candidate, self.direct_kinds[k]
                if first < 0:           # all of them were handled with other direct messages
                    self.n_instant = 0
                    break
                self.n_instant -= 1
                self._take_direct(first)
        finally:
            self.handling_now = False
        return 0

    @cython.final
    cdef int _take_instant(self) except -1:
        """Handle the first message in `instant`; it is dropped if its receiver is down."""
        cdef const long long* row = self.instant.data + self.instant_at * self.instant.words
        self.instant_at += 1
        if self.instant_at == self.instant.n:  # new messages may replace the record once the handler has it
            outbox_clear(&self.instant)
            self.instant_at = 0
        self._count(row[0], row[1], 1)
        return self._deliver(<MessageKind> self.kinds[row[0]], -1, row + 1) if self.up[row[1]] else 0

    # -- acts -------------------------------------------------------------------------------------------------

    @cython.final
    cdef int _act(self) except -1:
        """Handle the first of these acts that is due: reorder queues, `on_start`, `on_end`, `on_idle`, `on_act`."""
        if not self._has_pending_acts():
            return self._take_turns()
        cdef ActiveSet* t = (&self.reorder if self.reorder.n else &self.start if self.start.n
                           else &self.end if self.end.n else &self.idle)
        cdef Py_ssize_t k, n = t.n
        cdef int machine, node, event
        if n > self.acting_capacity:
            self.acting = <int*> reallocate(self.acting, n * sizeof(int))
            self.acting_capacity = n
        memcpy(self.acting, t.member, n * sizeof(int))
        active_clear(t)
        if n > 1:
            qsort(self.acting, n, sizeof(int), ascending)
        if t == &self.reorder:
            self.events += n
            self._reorder(n)
            if self.placed_at < 0 and self._is_placed():
                self._end_placement()
            return 0
        event = ON_START if t == &self.start else ON_END if t == &self.end else ON_IDLE
        self._begin_step(ACTS, 1 if event == ON_START else 2 if event == ON_END else 3)
        self._count(self.n_kinds + event, self.acting[0] if t == &self.start else self.home[self.acting[0]], n)
        for k in range(n):
            machine = node = self.acting[k]
            if t != &self.start:
                node = <int> self.home[machine]
            if not self.up[node]:
                continue
            if event == ON_START:
                self._call_without_arguments(ON_START, "on_start", node)
            elif event == ON_END:
                self._call_without_arguments(ON_END, "on_end", node)
            elif self.queues.running[machine] < 0 and self.queues.count[machine] == 0:
                self._call_without_arguments(ON_IDLE, "on_idle", node)
        return 0

    cdef bint _is_placed(self) except -1:
        """Return whether all tasks are in queues."""
        return self.queues.enqueued >= self.total

    cdef int _end_placement(self) except -1:
        """Note that all tasks are in queues."""
        self.placed_at = self.now
        self.finished = self.until_placed
        return 0

    cdef int _begin_instant(self) except -1:
        """Begin a new instant, for processes that share a run."""
        return 0

    cdef int _begin_step(self, int phase, int part) except -1:
        """Begin a step of an instant: a part of a phase; for processes that share a run."""
        return 0

    cdef int _count_arrived(self, Py_ssize_t n) except -1:
        """Count the tasks in `n` messages that have arrived, for processes that share a run."""
        return 0

    cdef int _take_turns(self) except -1:
        """Call `on_act` of the nodes that requested it for this instant."""
        cdef Py_ssize_t k, n = 0, n_up = 0
        cdef int slot
        while timers_first(&self.turns) <= self.now:
            slot = pending_pop(&self.turns.heap).slot
            if n == self.acting_capacity:
                self.acting = <int*> reallocate(self.acting, (2 * n + 16) * sizeof(int))
                self.acting_capacity = 2 * n + 16
            self.acting[n] = self.turns.timer[slot].node
            n += 1
            timers_unlink(&self.turns, slot)
            timers_release(&self.turns, slot)
        qsort(self.acting, n, sizeof(int), ascending)
        self._begin_step(ACTS, 4)
        self._count(self.n_kinds + ON_ACT, self.acting[0], n)
        for k in range(n):
            if self.up[self.acting[k]] and (n_up == 0 or self.acting[k] != self.acting[n_up - 1]):
                self.acting[n_up] = self.acting[k]
                n_up += 1
        if self.in_batches:
            return self.cython_handlers._act(self, self.acting, n_up)
        for k in range(n_up):
            self._call_without_arguments(ON_ACT, "on_act", self.acting[k])
        return 0

    cdef int _reorder(self, Py_ssize_t n) except -1:
        """Reorder the queues of the acting machines as `TaskQueues.reschedule` does."""
        cdef Py_ssize_t k
        if not self.queues.edf:
            return 0
        self._make_scratch()
        for k in range(n):
            self.queues._advance(self.acting[k], self.now)
        if self.threads > 1 and n >= MIN_THREADED:
            self._run_in_threads(self._reorder_part, n)
        else:
            self._reorder_part(0, n, 0)
        for k in range(n):
            self.queues._update(self.acting[k])
        return 0

    def _reorder_part(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t thread):
        """Order the queues of the acting machines low..high - 1, in a thread."""
        cdef Py_ssize_t k
        with nogil:
            for k in range(low, high):
                self.queues._reorder(self.acting[k], self.now, &self.scratch[thread])

    # -- releases and timers ----------------------------------------------------------------------------------

    @cython.final
    cdef inline long long _next_release(self) noexcept:
        """Return the instant (ns) of the next release; `NEVER` if there is none."""
        if self.release_queue is not None:
            return self.release_queue.first()
        return self.release[self.released] if self.released < self.release.shape[0] else NEVER

    @cython.final
    cdef int _release_due(self) except -1:
        """Release the applications that are due, each at its submitter."""
        cdef Py_ssize_t first = self.released, k
        cdef list due
        if self.release_queue is not None:
            due = self.release_queue.take(self.now)
            self.released += len(due)
            for k in due if self.queues.releases is not None else ():
                self.queues._release(k)
        else:
            while self.released < self.release.shape[0] and self.release[self.released] <= self.now:
                self.released += 1
            due = list(range(first, self.released))
        self._count(self.n_kinds + ON_RELEASE, self.submission_nodes[self.submitter[<Py_ssize_t> due[0]]], len(due))
        for k in due:
            self._give(k, self.tasks[k], "on_release")
        return self._drain()

    @cython.final
    cdef int _release_or_fire(self) except -1:
        cdef Py_ssize_t k, n = 0
        cdef int number
        self._begin_step(TIMERS, 0)
        if self.direct_kinds.shape[0]:
            while True:
                number = self._next_direct()
                if number < 0:
                    break
                self._take_direct(number)
                n += 1
        if self._next_release() <= self.now:
            return self._release_due()
        if n:
            return 0
        n = self._take_due(&self.timers, len(self.timer_kinds), 1)
        for k in range(n):
            self._fire(self.due_timers[k].slot)
        return self._fire_application_timers()

    @cython.final
    cdef Py_ssize_t _take_due(self, Timers* timers, long long per_node, long long per_name) except -1:
        """Take the due timers out of their heap into `due_timers`; return their number.

        They are ordered by node times `per_node` plus name times `per_name`, then by the order of setting.
        """
        cdef Py_ssize_t n = 0
        cdef Timer* timer
        cdef int slot
        while timers_first(timers) <= self.now:
            slot = pending_pop(&timers.heap).slot
            if n == self.due_timers_capacity:
                self.due_timers = <DueTimer*> reallocate(self.due_timers, (2 * n + 16) * sizeof(DueTimer))
                self.due_timers_capacity = 2 * n + 16
            timer = &timers.timer[slot]
            self.due_timers[n].slot, self.due_timers[n].number = slot, timer.number
            self.due_timers[n].item = timer.node * per_node + timer.name * per_name
            n += 1
        if n > 1:
            qsort(self.due_timers, n, sizeof(DueTimer), by_setting)
        return n

    cdef int _fire_application_timers(self) except -1:
        """Fire the due timers of applications, by name and then by application."""
        cdef Timers* timers = &self.application_timers
        cdef Py_ssize_t k, n = self._take_due(timers, 1, timers.nodes)
        cdef int slot, application, name
        self.events += n
        for k in range(n):
            slot = self.due_timers[k].slot
            application, name = timers.timer[slot].node, timers.timer[slot].name
            if name < 0:                # cancelled by a timer that fired earlier at this instant
                timers.cancelled -= 1
            else:
                timers_unlink(timers, slot)
            timers_release(timers, slot)
            if name >= 0:
                self.cython_handlers._fire(self, name, application)
        return self._handle_now() if self.n_instant else 0

    @cython.final
    cdef int _fire(self, int slot) except -1:
        cdef int node = self.timers.timer[slot].node, name = self.timers.timer[slot].name
        cdef const long long* fields = timers_fields(&self.timers, slot)
        cdef bint with_value
        cdef TimerKind kind
        cdef object value
        cdef long long arguments[2]
        self._count(self.n_kinds + EVENTS + len(self.local.kinds) + max(0, name), node, 1)
        if name < 0:                    # cancelled by a timer that fired earlier at this instant
            self.timers.cancelled -= 1
            timers_release(&self.timers, slot)
            return 0
        with_value = self._handles(node, WITH_VALUE)
        value = self.timers.timer[slot].value if with_value else None
        timers_unlink(&self.timers, slot)
        timers_release(&self.timers, slot)  # its value and its fields stay in place until another timer is set
        kind = <TimerKind> self.timer_kinds[name]
        if kind.is_request:
            map_discard(&self.pending_requests, fields[REQUEST_NUMBER], 2)
            return self._time_out(node, fields)
        if self.is_compiled:
            if not kind.is_plain:
                memcpy(self.timer_fields, fields, kind.n * sizeof(long long))
                return self._call_compiled(self._timer_handler(kind), node, self.timer_fields)
            arguments[0] = name
            memcpy(&arguments[1], &self.timers.timer[slot].value, sizeof(double))
            return self._call_compiled(self.n_kinds + ON_TIMER, node, arguments)
        if not kind.is_plain:
            if self.recorder is not None and self.is_recorded[node]:
                self._record_timer(kind, node, fields)
                return self._handle_now() if self.n_instant else 0
            call_fields(kind.handler, self.programs[node], self._view(node), fields, kind.type_codes, kind.n)
            return self._handle_now() if self.n_instant else 0
        if self._handles(node, ON_TIMER):
            return self._call("on_timer", node, <PyObject*> kind.name, <PyObject*> value if with_value else NULL)
        return 0

    cdef int _time_out(self, int node, const long long* fields) except -1:
        """Call `on_timeout` for a request without an answer, given the fields of its timer."""
        cdef object request
        if self.is_compiled:
            memcpy(self.timer_fields, fields, self.timers.words * sizeof(long long))
            return self._call_compiled(self.n_kinds + ON_TIMEOUT, node, self.timer_fields)
        request = self._request(fields)
        return self._call("on_timeout", node, <PyObject*> request, NULL)

    @cython.final
    cdef int _give(self, Py_ssize_t index, long long tasks, str handler) except -1:
        """Give tasks to the submission node at their submitter, or, if that is down, at the next machine."""
        cdef Py_ssize_t k, node, machines = self.submission_nodes.shape[0], machine = self.submitter[index]
        for k in range(machines):
            node = self.submission_nodes[machine]
            if self.up[node]:
                break
            machine = (machine + 1) % machines
        else:
            self.report_lost(index, tasks, -1)
            return 0
        return self._give_to(node, index, tasks, handler)

    @cython.final
    cdef int _give_to(self, Py_ssize_t node, Py_ssize_t index, long long tasks, str handler) except -1:
        cdef object application, count = tasks
        cdef long long row[2]
        cdef int event = ON_LOST if handler == "on_lost" else ON_RELEASE
        if self.holds_tasks:
            holdings_give(&self.holdings, node, index, tasks)
        if self.is_compiled:
            row[0], row[1] = index, tasks
            return self._call_compiled(self.n_kinds + event, node, row)
        if not self._handles(node, event):
            raise self._missing_handler(None, node)
        application = self._application(index)
        return self._call(handler, node, <PyObject*> application, <PyObject*> count)
