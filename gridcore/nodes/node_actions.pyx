"""The state and the actions of nodes: the part of the message core that views and compiled handlers call.

It has the kinds of messages, outboxes, timers, the tasks that nodes must place, and random streams, and it reads the
queues of the machines.  `gridcore.nodes.node_events` has the events.
"""

from cpython.object cimport PyObject_GenericSetAttr
from libc.math cimport INFINITY, fabs
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cimport cython

from gridcore.common.arguments cimport check_instant
from gridcore.common.memory cimport reallocate
from gridcore.network.transit cimport LONGEST_MESSAGE
from gridcore.nodes.calls cimport new_object
from gridcore.nodes.holdings cimport Holding, holdings_find, holdings_free, holdings_give
from gridcore.common.instants cimport later_by
from gridcore.nodes.kinds cimport (
    REQUEST_FIELDS, REQUEST_KIND, REQUEST_NUMBER, REQUEST_TO, MessageKind, TimerKind,
)
from gridcore.nodes.outbox cimport Outbox, outbox_add, outbox_clear, outbox_drop, outbox_free, outbox_last, outbox_sort
from gridcore.nodes.payloads cimport Payload
from gridcore.nodes.roles cimport ON_ACT, ON_TIMEOUT, ON_TIMER, WITH_VALUE, role_of
from gridcore.nodes.rows cimport map_discard, map_find, map_put, rows_clear
from gridcore.nodes.timers cimport (
    Timer, timers_add, timers_cancel, timers_drop, timers_fields, timers_free, timers_make, timers_set, timers_set_fields, timers_sweep,
)
from gridcore.nodes.active_set cimport active_add, active_free
from gridcore.queues.availability cimport Grid
from gridcore.queues.edf cimport Queue
from gridcore.queues.journal cimport journal_copy
from gridcore.queues.task_queues cimport Scratch, scratch_free, scratch_make

import numpy as np

from gridcore.common.names import listed
from gridcore.common.state import LATEST
from gridcore.queues import journal_tables
from gridcore.queues.summary_grid import SummaryGrid

__all__ = ["NodeActions"]

cdef object ndarray = np.ndarray


# The requests of a node are counted from multiples of 2**REQUEST_BITS: from the next one after each failure.
cdef enum:
    REQUEST_BITS = 24


@cython.auto_pickle(False)
cdef class NodeActions:
    """The state and the actions of nodes; base class of `NodeCore`, which sets the attributes."""

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self.n_kinds if self.out != NULL else 0):
            outbox_free(&self.out[k])
        free(self.out)
        outbox_free(&self.instant)
        for k in range(self.n_roles):
            free(self.roles[k].handlers)
        free(self.roles)
        timers_free(&self.timers)
        timers_free(&self.turns)
        timers_free(&self.application_timers)
        free(self.timer_fields)
        rows_clear(&self.pending_requests)
        holdings_free(&self.holdings)
        self._free_scratch()
        free(self.scratch)
        active_free(&self.reorder)
        active_free(&self.idle)

    # -- knowledge of nodes ---------------------------------------------------------------------------------

    cdef bint _handles(self, Py_ssize_t node, int event) noexcept:
        """Return whether the node handles an event of `gridcore.nodes.roles`."""
        return role_of(self.roles, node).events >> event & 1

    cdef object _application(self, long long index):
        application = self.applications.get(index)
        if application is None:
            application = self.applications[index] = self.make_application(index)
        return application

    cdef RandomStream _stream(self, Py_ssize_t node):
        """Return the random stream of a node."""
        cdef RandomStream stream = <RandomStream> self.streams[node]
        if stream is None:
            stream = self.streams[node] = RandomStream(self.seed, node)
        return stream

    cdef int _check_board(self, Py_ssize_t node) except -1:
        if self.board is None:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} uses the board, which requires a BoardScheduler")
        return 0

    cdef int _publish(self, Py_ssize_t node, long long application, Py_ssize_t column, double value,
                      bint falling) except -1:
        """Publish a number of the node, or of `application` if that is not -1."""
        self._check_board(node)
        if self.board.is_per_application != (application >= 0) or application >= self.queues.n_applications:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} publishes a number: application must be "
                                  f"{f'in 0..{self.queues.n_applications - 1}' if self.board.is_per_application else -1}, "
                                  f"got {application}, since the board is of "
                                  f"{'applications' if self.board.is_per_application else 'nodes'}")
        if value != value:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} publishes a number: "
                                  f"value must be a number or inf, got {value!r}")
        if self.open_call is not None:
            name = self.board.numbers[column]
            fields = {"value" if name == "values" else name: value}
            self.open_call.add("publish", fields if application < 0 else {"application": application, **fields})
        return self.board._publish(node if application < 0 else application, column, value, falling, self.now)

    cdef int _add_to_board(self, Py_ssize_t node, Py_ssize_t row, Py_ssize_t column, double delta,
                           bint is_last) except -1:
        """Add to a shown number of `row`; `is_last` ends an addition."""
        if not 0 <= row < self.board.nodes:
            raise self._board_error(node, f"node must be in 0..{self.board.nodes - 1}, got {row}")
        if not fabs(delta) < INFINITY:
            raise self._board_error(node, f"delta must be finite, got {delta!r}")
        if self.open_call is not None:
            self.open_call.add("add", {"node": row, "delta": delta}, self.board.numbers[column])
        return self.board._change(row, column, delta, self.now, is_last)

    cdef object _board_error(self, Py_ssize_t node, reason):
        """Return the error of a wrong use of the board."""
        return self.error_type(f"t = {self.now / 1e9} s: node {node} uses the board: {reason}")

    cdef int _check_known(self, Py_ssize_t node, long long application) except -1:
        """Raise an error if the node does not know the application."""
        if holdings_find(&self.holdings, node, application) == NULL:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} does not know application {application}; it knows "
                                  "those released here, and those in the field application of its messages")
        return 0

    cdef long long _tasks_to_place(self, Py_ssize_t node, long long application) noexcept:
        """Return the number of tasks of the application that the node must place."""
        cdef Holding* holding = holdings_find(&self.holdings, node, application)
        return 0 if holding == NULL else holding.tasks

    cdef int _place(self, Py_ssize_t node, long long application, long long tasks) except -1:
        """Subtract placed tasks from the tasks to place of the node; raise an error if it has fewer."""
        cdef Holding* holding = holdings_find(&self.holdings, node, application)
        if holding == NULL or not 0 <= tasks <= holding.tasks:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} places {tasks} tasks "
                                  f"of application {application}, but has {0 if holding == NULL else holding.tasks} "
                                  f"to place; {self._holders(node, application)}")
        holding.tasks -= tasks
        return 0

    # -- what a node has, for records and errors --------------------------------------------------------------

    def held_by(self, Py_ssize_t node) -> dict[int, int]:
        """Return application -> tasks to place, for the applications that a node knows, ascending."""
        held = {}
        cdef int at = self.holdings.first[self._checked_node(node)]
        while at >= 0:
            held[self.holdings.entry[at].application] = self.holdings.entry[at].tasks
            at = self.holdings.entry[at].next_of_node
        return dict(sorted(held.items()))

    def timers_of(self, Py_ssize_t node) -> list[tuple[int, int, str, dict[str, float]]]:
        """Return the pending timers of a node in the order of setting: (number, instant in ns, name, fields)."""
        cdef const Timer* timer
        cdef TimerKind kind
        cdef int slot = self.timers.first[self._checked_node(node)]
        timers = []
        while slot >= 0:
            timer = &self.timers.timer[slot]
            kind = <TimerKind> self.timer_kinds[timer.name]
            fields = {"value": timer.value} if kind.is_plain and self._handles(node, WITH_VALUE) else {}
            if kind.is_request:
                request = self._request(timers_fields(&self.timers, slot))
                fields = {"kind": request.kind, **{each: getattr(request, each) for each in request.__slots__}}
            else:
                fields.update(zip(kind.fields, self._timer_values(kind, timers_fields(&self.timers, slot))))
            timers.append((timer.number, timer.time, kind.name, fields))
            slot = timer.next
        return timers[::-1]             # the list of a node begins with the latest timer

    def acts_of(self, Py_ssize_t node) -> list[tuple[int, int]]:
        """Return when `on_act` of a node is due, in the order of the calls of `View.act`: (number, instant in ns)."""
        cdef int slot = self.turns.first[self._checked_node(node)]
        acts = []
        while slot >= 0:
            acts.append((self.turns.timer[slot].number, self.turns.timer[slot].time))
            slot = self.turns.timer[slot].next
        return acts[::-1]

    def local_messages_of(self, Py_ssize_t node) -> list[tuple[int, int, Any]]:
        """Return the local messages in transit to a node, in the order of sending: (number, instant in ns, message)."""
        cdef const long long* row
        cdef MessageKind kind
        messages = []
        for number, time, slot in self.local._of(self._checked_node(node)):
            row = self.local.data + <int> slot * self.local.words
            kind = <MessageKind> self.local.kinds[row[0]]
            messages.append((number, time, kind.message(node, self._fields(kind, row + 1).values())))
        return messages

    def outbox_sizes(self) -> list[int]:
        """Return the number of messages of each kind that wait for the end of the wave."""
        cdef Py_ssize_t k
        return [self.out[k].n for k in range(self.n_kinds)]

    def sent_since(self, sizes: Sequence[int]) -> list[tuple[str, int, dict[str, Any]]]:
        """Return the messages that wait for the end of the wave beyond `sizes` of each kind: (kind, receiver, fields)."""
        cdef Py_ssize_t k, j, first
        cdef const long long* row
        messages = []
        if len(sizes) != self.n_kinds:
            raise ValueError(f"sizes must have {self.n_kinds} entries, got {len(sizes)}")
        for k, first in zip(range(self.n_kinds), sizes):
            if not 0 <= first <= self.out[k].n:
                raise ValueError(f"sizes[{k}] must be in 0..{self.out[k].n}, got {first}")
            for j in range(first, self.out[k].n):
                row = self.out[k].data + j * self.out[k].words
                messages.append(((<MessageKind> self.kinds[k]).name, row[0],
                                 self._fields(<MessageKind> self.kinds[k], row)))
        return messages

    cdef Py_ssize_t _checked_node(self, Py_ssize_t node) except -1:
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        return node

    cdef str _holders(self, Py_ssize_t node, long long application):
        """Return which node other than `node` must place tasks of the application, in words."""
        cdef Py_ssize_t k
        cdef Holding* holding
        for k in range(self.nodes):
            holding = holdings_find(&self.holdings, k, application)
            if k != node and holding != NULL and holding.tasks > 0:
                return f"node {k} has {holding.tasks} of its tasks to place"
        return "no other node has any: each task is placed once, or moved to another node"

    # -- machines -------------------------------------------------------------------------------------------

    cdef int _catch_up(self, Py_ssize_t machine) except -1:
        self.queues._advance(machine, self.now)
        self.queues._update(machine)
        return 0

    cdef long long _tasks_at(self, Py_ssize_t machine) except -1:
        cdef long long running = self._running_at(machine)
        return self.queues.waiting[machine] + running

    cdef long long _running_at(self, Py_ssize_t machine) except -1:
        self._catch_up(machine)
        # even an idle machine starts a task only at the end of the instant at which it is enqueued
        return self.queues._running_count(machine, self.now)

    cdef double _work(self, Py_ssize_t machine) except -1.0:
        return self.queues._work(machine, self.now)

    cdef double _minimum_stretch(self, Py_ssize_t machine) except -1.0:
        cdef TaskQueues queues = self.queues
        cdef Queue q
        self._catch_up(machine)
        if queues.running[machine] < 0 and queues.count[machine] == 0:
            return INFINITY
        self._make_scratch()
        queues._gather(machine, self.now, False, &q, self.scratch)
        return queues._minimum(&q, self.scratch)

    cdef object _sample(self, Py_ssize_t machine, grid, long long release, long long memory):
        cdef Grid g
        if type(grid) is not SummaryGrid:
            raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
        cdef const double[::1] stretch = grid.stretch, size = grid.size, task_size = grid.task_size
        result = np.empty(grid.cells, np.uint32)
        cdef unsigned int[::1] out = result
        g.n_stretch, g.n_size, g.n_task_size = stretch.shape[0], size.shape[0], task_size.shape[0]
        g.stretch, g.size, g.task_size = &stretch[0], &size[0], &task_size[0]
        self._sample_cells(machine, &g, release, memory, &out[0])
        return result.reshape(grid.shape)

    cdef int _sample_cells(self, Py_ssize_t machine, const Grid* grid, long long release, long long memory,
                           unsigned int* out) except -1:
        cdef double least
        if not self.now <= release <= LATEST:
            raise ValueError(f"release must be in {self.now}..{LATEST} ns, got {release}")
        if memory < 0:
            raise ValueError(f"memory must be >= 0 bytes, got {memory}")
        self._catch_up(machine)
        self._make_scratch()
        self.queues._sample(machine, self.now, release, memory, grid, out, &least, self.scratch)
        return 0

    # -- threads ----------------------------------------------------------------------------------------------

    cdef int _make_scratch(self) except -1:
        """Allocate memory for the longest possible queue, for each thread."""
        cdef Py_ssize_t t
        if self.scratch_capacity >= self.queues.capacity and self.scratch != NULL:
            return 0
        if self.scratch == NULL:
            self.scratch = <Scratch*> reallocate(NULL, self.threads * sizeof(Scratch))
            memset(self.scratch, 0, self.threads * sizeof(Scratch))
        self._free_scratch()
        for t in range(self.threads):
            if not scratch_make(&self.scratch[t], self.queues.capacity):
                memset(&self.scratch[t], 0, sizeof(Scratch))
                raise MemoryError
        self.scratch_capacity = self.queues.capacity
        return 0

    cdef int _free_scratch(self) except -1:
        cdef Py_ssize_t t
        self.scratch_capacity = 0
        for t in range(self.threads if self.scratch != NULL else 0):
            scratch_free(&self.scratch[t])
            memset(&self.scratch[t], 0, sizeof(Scratch))
        return 0

    cdef int _run_in_threads(self, function, Py_ssize_t n) except -1:
        """Call `function`, which takes low, high and the number of a thread, for parts of 0..n - 1."""
        parts = [n * t // self.threads for t in range(self.threads + 1)]
        list(self.pool.map(function, parts[:-1], parts[1:], range(self.threads)))
        return 0

    cdef tuple _queued(self, Py_ssize_t machine):
        cdef int[:, :, ::1] share
        cdef Py_ssize_t k, first
        self._catch_up(machine)
        share, first = self.queues.share, self.queues.first[machine]
        return tuple([(share[machine, k, 0], share[machine, k, 1])
                      for k in range(first, first + self.queues.count[machine])])

    cdef int _check_reports(self, Py_ssize_t node) except -1:
        """Raise an error unless `View.completed` receives the tasks that end."""
        if not self.queues.log or self.has_on_done:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} calls view.completed, which requires "
                                  "reports = True in the class of the scheduler, and nodes without on_done")
        return 0

    cdef list _completed(self, Py_ssize_t machine):
        self._catch_up(machine)
        self._read_completions()
        return sorted(self.unread_completions.pop(machine, {}).items())

    cdef int _read_completions(self) except -1:
        """Move the logged completions of the queues to `unread_completions`."""
        if self.queues.completion_log.n == 0:
            return 0
        rows = np.empty((self.queues.completion_log.n, 6), np.int64)
        journal_copy(&self.queues.completion_log, rows)
        self.queues.completion_log.n = 0
        for machine, application, tasks, _ in zip(*(column.tolist() for column in journal_tables.completions(rows))):
            done = self.unread_completions.setdefault(machine, {})
            done[application] = done.get(application, 0) + tasks
        return 0

    cdef int _enqueue(self, Py_ssize_t node, long long application, long long tasks) except -1:
        cdef Py_ssize_t machine = self.links.machine_of[node]
        self._place(node, application, tasks)
        if not 1 <= tasks < 2**31:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} enqueues tasks of application {application}: "
                                  f"tasks must be in 1..{2**31 - 1}, got {tasks}")
        try:
            self.queues._enqueue(machine, <int> application, tasks, self.now)
        except BaseException:
            self.queues._update(machine)
            raise
        active_add(&self.reorder, <int> machine)
        if self.open_call is not None:
            self.open_call.add("enqueue", {"application": application, "tasks": tasks})
        return 0

    cdef long long _take(self, Py_ssize_t node, long long application, long long tasks) except -1:
        cdef TaskQueues queues = self.queues
        cdef Py_ssize_t machine = self.links.machine_of[node]
        if tasks < 0:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} takes tasks of application {application}: "
                                  f"tasks must be at least 0, got {tasks}")
        tasks = queues._withdraw(machine, <int> application, tasks, self.now)
        if tasks == 0:
            return 0
        holdings_give(&self.holdings, node, application, tasks)
        active_add(&self.reorder, <int> machine)
        if self.has_on_idle and queues.count[machine] == 0 and queues.running[machine] < 0:
            active_add(&self.idle, <int> machine)
        if self.open_call is not None:
            self.open_call.add("take", {"application": application, "tasks": tasks})
        return tasks

    cdef int _make_timer_kinds(self, timers) except -1:
        """Make a `TimerKind` of each entry of `timers`."""
        cdef TimerKind kind
        cdef Py_ssize_t k, words = 0
        self.timer_kinds = [TimerKind(name, number, *arguments) for number, (name, *arguments) in enumerate(timers)]
        requests = [<MessageKind> each for each in self.kinds if (<MessageKind> each).answers]
        self.request_timer = len(self.timer_kinds) if requests else -1
        self.request_counts = np.zeros(self.nodes if requests else 0, np.int64)
        if requests:
            words = max([(<MessageKind> each).n - 1 for each in requests])
            fields = {str(k): int for k in range(REQUEST_FIELDS + words)}
            self.timer_kinds.append(TimerKind("timeout", self.request_timer, "on_timeout", fields, {}, -2, True))
        self.timers_by_role = [{} for _ in range(self.n_roles)]
        for kind in self.timer_kinds:
            words = max(words, kind.n)
            for k in range(self.n_roles):
                if kind.role in (-1, k) and self.timers_by_role[k].setdefault(kind.name, kind) is not kind:
                    raise ValueError(f"timers must have unique names in a role, got {kind.name!r} twice")
        self.timer_fields = <long long*> reallocate(NULL, max(1, words) * sizeof(long long))
        timers_make(&self.timers, self.nodes, words)
        timers_make(&self.turns, self.nodes, 0)
        return 0

    cdef dict _timer_of(self, Py_ssize_t node):
        """Return the timers that a node may set, by name."""
        return <dict> self.timers_by_role[<Py_ssize_t> (role_of(self.roles, node) - self.roles)]

    cdef int _set_timer(self, Py_ssize_t node, Py_ssize_t name, double seconds, double value) except -1:
        """Set a timer that `on_timer` handles."""
        if not (self._handles(node, ON_TIMER) and 0 <= seconds < INFINITY):
            raise self._timer_error(node, (<TimerKind> self.timer_kinds[name]).name, seconds)
        return timers_set(&self.timers, later_by(self.now, seconds), <int> node, <int> name, value)

    cdef int _set_timer_at(self, Py_ssize_t node, Py_ssize_t name, long long instant, double value) except -1:
        if not (self._handles(node, ON_TIMER) and self.now <= instant <= LATEST):
            raise self._timer_error(node, (<TimerKind> self.timer_kinds[name]).name, (instant - self.now) / 1e9)
        return timers_set(&self.timers, instant, <int> node, <int> name, value)

    cdef int _set_timer_fields(self, Py_ssize_t node, Py_ssize_t name, double seconds, const long long* fields) except -1:
        """Set a timer that has its own handler."""
        cdef TimerKind kind = <TimerKind> self.timer_kinds[name]
        if not 0 <= seconds < INFINITY:
            raise self._timer_error(node, kind.name, seconds)
        return timers_set_fields(&self.timers, later_by(self.now, seconds), <int> node, kind.number, fields,
                                 kind.type_codes, kind.n)

    cdef int _set_timer_fields_at(self, Py_ssize_t node, Py_ssize_t name, long long instant,
                                  const long long* fields) except -1:
        cdef TimerKind kind = <TimerKind> self.timer_kinds[name]
        if not self.now <= instant <= LATEST:
            raise self._timer_error(node, kind.name, (instant - self.now) / 1e9)
        return timers_set_fields(&self.timers, instant, <int> node, kind.number, fields, kind.type_codes, kind.n)

    cdef int _set_application_timer(self, Py_ssize_t application, int name, long long instant) except -1:
        """Set a timer of an application, in place of an earlier one of this name; no failure cancels it."""
        timers_cancel(&self.application_timers, <int> application, name)
        timers_add(&self.application_timers, instant, <int> application, name, 0.0)
        return 0

    cdef int _act_after(self, Py_ssize_t node, double seconds) except -1:
        """Call `on_act` of the node once after `seconds`."""
        if not self._handles(node, ON_ACT):
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} calls act, which requires the method on_act")
        if not 0 <= seconds < INFINITY:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} calls act: seconds must be finite and >= 0, "
                                  f"got {seconds!r}")
        return self._act_at(node, later_by(self.now, seconds))

    cdef int _act_at(self, Py_ssize_t node, long long instant) except -1:
        """Call `on_act` of the node once at `instant` ns."""
        return timers_set(&self.turns, instant, <int> node, 0, 0.0)

    cdef object _read_only_error(self, Py_ssize_t node):
        return self.error_type(f"t = {self.now / 1e9} s: node {node} acts in {self.read_only_reason}")

    cdef list _timer_values(self, TimerKind kind, const long long* fields):
        """Return the fields of a timer that has its own handler."""
        cdef int k
        return [(<const double*> fields)[k] if kind.type_codes[k] else fields[k] for k in range(kind.n)]

    cdef int _check_request(self, Py_ssize_t node, MessageKind kind, double seconds) except -1:
        """Raise an error unless the node may send a request of this kind, and wait `seconds` for its answer."""
        if (kind.answers and self._handles(node, ON_TIMEOUT) and 0 <= seconds < INFINITY
                and self.request_counts[node] < LATEST // self.nodes):
            return 0
        message = f"t = {self.now / 1e9} s: node {node} requests {kind.name!r}"
        if not kind.answers:
            raise self.error_type(f"{message}, which has no answer: declare it as Message(..., answer=...)")
        if not self._handles(node, ON_TIMEOUT):
            role, program = self.role_names[<Py_ssize_t> (role_of(self.roles, node) - self.roles)]
            raise self.error_type(f"{message}, which requires the method on_timeout in {program}")
        if not 0 <= seconds < INFINITY:
            raise self.error_type(f"{message}: timeout must be finite and >= 0 s, got {seconds!r}")
        raise self.error_type(f"{message}, but its machine has failed too often to number its requests")

    cdef long long _start_request(self, Py_ssize_t node, MessageKind kind, long long* row, double seconds) except -1:
        """Number a request whose fields are in `row`, set the timer for the end of its wait, and return the number.

        The number is unique in the run.  It depends on the failures of the node, and its requests since the last one.
        """
        cdef long long number = self.request_counts[node] * self.nodes + node + 1
        cdef int slot = timers_add(&self.timers, later_by(self.now, seconds), <int> node, self.request_timer, 0.0)
        cdef long long* fields = timers_fields(&self.timers, slot)
        self.request_counts[node] += 1
        row[kind.request_at] = number
        memset(fields, 0, self.timers.words * sizeof(long long))
        fields[REQUEST_NUMBER], fields[REQUEST_TO], fields[REQUEST_KIND] = number, row[-2], kind.number
        memcpy(fields + REQUEST_FIELDS, row, (kind.n - 1) * sizeof(long long))
        map_put(&self.pending_requests, number, 2)[1] = slot
        return number

    cdef bint _end_request(self, Py_ssize_t node, long long number) except -1:
        """End the wait of a node for an answer; return False if the node no longer waits."""
        cdef const long long* entry = map_find(&self.pending_requests, number, 2)
        if entry == NULL or self.timers.timer[entry[1]].node != node:
            return False
        timers_drop(&self.timers, <int> entry[1])
        map_discard(&self.pending_requests, number, 2)
        timers_sweep(&self.timers)
        return True

    cdef int _forget_requests(self, Py_ssize_t node) except -1:
        """Forget the requests of a node that fails; `timers_cancel` must follow."""
        cdef int slot = self.timers.first[node]
        while slot >= 0 and self.request_timer >= 0:
            if self.timers.timer[slot].name == self.request_timer:
                map_discard(&self.pending_requests, timers_fields(&self.timers, slot)[REQUEST_NUMBER], 2)
            slot = self.timers.timer[slot].next
        if self.request_timer >= 0:
            self.request_counts[node] = ((self.request_counts[node] >> REQUEST_BITS) + 1) << REQUEST_BITS
        return 0

    cdef object _request(self, const long long* fields):
        """Return the request whose timer has these fields, for `on_timeout`."""
        cdef MessageKind kind = <MessageKind> self.kinds[fields[REQUEST_KIND]]
        cdef object request = new_object(kind.request_type)
        cdef int i
        PyObject_GenericSetAttr(request, "number", fields[REQUEST_NUMBER])
        PyObject_GenericSetAttr(request, "to", fields[REQUEST_TO])
        fields += REQUEST_FIELDS
        for i in range(kind.n - 1):
            PyObject_GenericSetAttr(request, <str> kind.fields[i],
                                    (<const double*> fields)[i] if kind.type_codes[i] else fields[i])
        return request

    cdef object _timer_error(self, node, name, seconds):
        """Return the error for a timer with an unknown name, without a handler or for an invalid instant."""
        message = f"t = {self.now / 1e9} s: node {node} sets the timer {name!r}"
        cdef TimerKind kind = self._timer_of(node).get(name)
        if kind is None:
            role, program = self.role_names[<Py_ssize_t> (role_of(self.roles, node) - self.roles)]
            if name in self.by_name:
                return self.error_type(f"{message}, which is a kind of message; rename the timer")
            return self.error_type(f"{message}, which has no handler and is not in the scheduler's timers; define "
                                   f"on_{name} in {program}; {listed(self._timer_of(node), name)}")
        if kind.is_plain and not self._handles(node, ON_TIMER):
            return self.error_type(f"{message}, which requires the method on_timer")
        return self.error_type(f"{message}: the time until then must be finite and >= 0 s, got {seconds!r}")

    cdef object _timer_field_error(self, node, TimerKind kind, str action, fields):
        """Return the error for fields that the timer does not have, or that are missing."""
        message = f"t = {self.now / 1e9} s: node {node} {action} the timer {kind.name!r}"
        for name in fields:
            if name not in kind.fields:
                if kind.is_plain:
                    return self.error_type(f"{message} with {name!r}, but a timer that on_timer handles has only a value; "
                                           f"define on_{kind.name} for a timer with fields")
                return self.error_type(f"{message}, which has no field {name!r}; {listed(kind.fields, name)}")
        missing = [name for name in kind.fields if name not in fields and name not in kind.defaults]
        return self.error_type(f"{message} without {', '.join(missing)}; its fields are {', '.join(kind.fields)}")

    # -- messages -------------------------------------------------------------------------------------------

    cdef int _make_kinds(self, kinds) except -1:
        """Make a `MessageKind` of each entry of `kinds`."""
        cdef Py_ssize_t k
        self.n_kinds = self.links.kinds
        self.by_name, self.kinds, local_kinds = {}, [None] * self.n_kinds, []
        self.out = <Outbox*> reallocate(NULL, max(1, self.n_kinds) * sizeof(Outbox))
        for k in range(self.n_kinds):
            self.out[k].data, self.out[k].place = NULL, NULL
            self.out[k].words = self.out[k].n = self.out[k].capacity = self.out[k].place_capacity = 0
            self.out[k].unsorted = False
        for arguments in kinds:
            self._add_kind(MessageKind(*arguments), local_kinds)
        if None in self.kinds:
            raise ValueError(f"kinds must have an entry for each of the {self.n_kinds} kinds of the links, "
                             f"got {self.n_kinds - self.kinds.count(None)}")
        self.local = LocalMessages(self.nodes, self.payloads, local_kinds)
        instant = [kind for kind in self.kinds if (<MessageKind> kind).delay == 0]
        self.has_instant = not any([(<MessageKind> kind).is_counted or (<MessageKind> kind).has_arrays
                                    or (<MessageKind> kind).moves_tasks for kind in instant])
        self.instant.words = 3 + max([(<MessageKind> kind).n for kind in instant], default=0)
        return 0

    cdef int _add_kind(self, MessageKind kind, list local_kinds) except -1:
        cdef int number = kind.number
        if number == -1:
            kind.local_number = <int> len(local_kinds)
            self.by_name[kind.name] = kind
            local_kinds.append(kind)
            return 0
        if not 0 <= number < self.n_kinds or self.kinds[number] is not None:
            raise ValueError(f"kinds must give {kind.name!r} a unique number in 0..{self.n_kinds - 1}, got {number}")
        if self.links.width[number] != 8 * (2 + kind.n):
            raise ValueError(f"links must have {8 * (2 + kind.n)} bytes per record of {kind.name!r}, "
                             f"got {self.links.width[number]}")
        if kind.has_arrays and not self.links.keep[number]:
            raise ValueError(f"kind {kind.name!r} has arrays, which requires links with keep[{number}] = True")
        kind.transmission_time = self.links._transmission_time(kind.nbytes)
        if kind.delay >= 0:
            self.links.inner[number] = True
        self.out[number].words = 2 + kind.n + (kind.size is not None)  # the last word is the size, if it varies
        self.kinds[number] = self.by_name[kind.name] = kind
        return 0

    cdef int _account_for_message(self, Py_ssize_t node, MessageKind k, const long long* row) except -1:
        """Check that the node knows the application of a message; subtract moved tasks from its tasks to place."""
        cdef long long application = row[k.application_at]
        if holdings_find(&self.holdings, node, application) == NULL:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} sends {k.name!r} with application "
                                  f"{application}, which it does not know")
        return self._place(node, application, row[k.tasks_at]) if k.moves_tasks else 0

    cdef int _check_size(self, Py_ssize_t node, MessageKind kind, long long nbytes) except -1:
        """Check the bytes of a message whose size depends on its fields."""
        if not 0 <= nbytes < 2**31:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} sends {kind.name!r}: "
                                  f"its size must be in 0..{2**31 - 1} bytes, got {nbytes}")
        try:
            self.links._transmission_time(nbytes)
        except ValueError as error:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} sends {kind.name!r}: {error}") from None
        return 0

    cdef object _failed_size(self, Py_ssize_t node, MessageKind kind, error):
        """Return the error for a message whose function of the size has raised `error`."""
        return self.error_type(f"t = {self.now / 1e9} s: node {node} {kind.unsized_text(error)}")

    cdef long long* _send_later(self, Py_ssize_t node, MessageKind kind, double seconds,
                                long long application) except NULL:
        """Send a message of a local kind; return its fields, which the caller fills in."""
        if not 0 <= seconds < INFINITY:
            raise self.error_type(f"t = {self.now / 1e9} s: node {node} sends {kind.name!r} to itself: "
                                  f"seconds must be finite and >= 0, got {seconds!r}")
        if kind.application_at >= 0:
            self._check_known(node, application)
        return self.local._add(later_by(self.now, seconds), node, kind.local_number)

    cdef int _free_arrays(self, MessageKind kind, const long long* row, int fields) except -1:
        """Free the arrays in the first `fields` fields of a message that does not arrive."""
        cdef int i
        for i in range(fields if kind.has_arrays else 0):
            if kind.type_codes[i] == 2:
                self.payloads._fetch(row[i])
        return 0

    cdef int _drop_message(self, MessageKind kind, int fields) except -1:
        """Take back the message that was added last to the outbox, of which the first `fields` fields are filled in."""
        cdef Outbox* box = &self.out[kind.number]
        self._free_arrays(kind, outbox_last(box), fields)
        outbox_drop(box)
        return 0

    cdef object _array_field(self, Py_ssize_t node, MessageKind kind, Py_ssize_t field, value):
        """Return a read-only copy of an array that a node sends, with the type of the field."""
        cdef int n, ndim = kind.dimensions[field]
        if type(value) is ndarray and value.dtype is kind.dtypes[field]:
            n = value.ndim
            if 1 <= n <= 2 and (ndim == 0 or ndim == n):
                array = value.copy()    # as `convert` does, but faster
                array.setflags(False)
                return array
        return self.convert(kind.types[field], value, node, kind.fields[field])

    cdef object _send_error(self, node, to, kind, dict fields):
        cdef MessageKind known = self.by_name.get(kind)
        message = f"t = {self.now / 1e9} s: node {node} sends {kind!r}"
        if known is None:
            return self.error_type(f"{message}, which is not a kind of message; {listed(self.by_name, kind)}")
        for name in sorted(fields.keys() - {*known.fields}):
            return self.error_type(f"{message}, which has no field {name!r}; {listed(known.fields, name)}")
        if len(fields) < len(known.fields):
            missing = [name for name in known.fields if name not in fields]
            return self.error_type(f"{message} without {', '.join(missing)}; its fields are {', '.join(known.fields)}")
        if not 0 <= to < self.nodes:
            return self.error_type(f"{message}: its receiver must be in 0..{self.nodes - 1}, got {to}")
        return self.error_type(f"{message}, which is {'' if known.number < 0 else 'not '}a local kind: "
                               "use view.later for local kinds, view.send for others")

    cdef dict _fields(self, MessageKind kind, const long long* row, bint is_at_hand=False):
        """Return the fields of the message with the record `row`, perhaps the current message of a compiled handler."""
        cdef Py_ssize_t k
        arrays = list(self.payloads.at_hand if is_at_hand else ())
        fields = {}
        for k in range(kind.n):
            if kind.type_codes[k] == 2:
                array = arrays.pop(0) if is_at_hand else self.payloads._find(row[2 + k])
                fields[kind.fields[k]] = (<Payload> array)._array() if type(array) is Payload else array
            elif kind.type_codes[k]:
                fields[kind.fields[k]] = (<const double*> row)[2 + k]
            else:
                fields[kind.fields[k]] = row[2 + k]
        return fields

    cdef int _send_now(self, MessageKind kind, const long long* row) except -1:
        """Send the message with the record `row` at once."""
        cdef Links links = self.links
        cdef long long nbytes = kind.nbytes if kind.size is None else row[2 + kind.n]
        if self.only_node >= 0 and self._ends_here(kind, row):
            return 0
        check_instant(self.now, "now", max(kind.delay, 2 * links.latency + LONGEST_MESSAGE))
        if self.open_call is not None:
            self.open_call.sent(kind.name, row[0], self._fields(kind, row), kind.delay)
        if self.observe is not None:
            records = np.empty((1, 8 * (2 + kind.n)), np.uint8)
            self._copy(row, records)
            self.observe(self.now, kind.number, records)
        if kind.delay == 0 and self.has_instant and self.observe is None:
            memcpy(outbox_add(&self.instant, kind.number, row[0]), &row[1], (1 + kind.n) * sizeof(long long))
            self.n_direct += 1
            self.n_instant += 1
            return 0
        if kind.delay < 0:
            return links._send(self.now, kind.number, row, nbytes,
                               kind.transmission_time if kind.size is None else links._transmission_time(nbytes))
        links._send_directly(self.now, kind.number, row, nbytes, kind.delay, self.n_direct, kind.is_counted)
        self.n_direct += 1
        if kind.delay == 0:
            self.n_instant += 1
        return 0

    cdef bint _ends_here(self, MessageKind kind, const long long* row) except -1:
        """Record a message if only one node exists; return whether its receiver or sender does not exist."""
        cdef int i
        if row[1] != self.only_node:
            self.received.append((<const char*> row)[:(2 + kind.n) * sizeof(long long)])
            return True
        fields = {}
        for i in range(kind.n):
            if kind.type_codes[i] == 2:
                array = self.payloads.arrays[row[2 + i]]
                fields[kind.fields[i]] = (<Payload> array)._array() if type(array) is Payload else array
                if row[0] != row[1]:
                    self.payloads._fetch(row[2 + i])
            else:
                fields[kind.fields[i]] = (<const double*> row)[2 + i] if kind.type_codes[i] else row[2 + i]
        self.sent.append((row[0], kind.name, fields))
        return row[0] != row[1]

    cdef int _copy(self, const long long* row, unsigned char[:, ::1] records) except -1:
        memcpy(&records[0, 0], row, records.shape[1])
        return 0

    cdef int _flush(self) except -1:
        cdef Py_ssize_t number, k
        cdef Outbox* box
        cdef MessageKind kind
        cdef const long long* row
        cdef long long nbytes
        self.dirty = False
        for number in range(self.n_kinds):
            box = &self.out[number]
            if box.n == 0:
                continue
            check_instant(self.now, "now", 2 * self.links.latency + LONGEST_MESSAGE)
            kind = <MessageKind> self.kinds[number]
            if box.unsorted:
                outbox_sort(box)
            if self.links.shared:
                self._mark_kind(number)
            if self.observe is not None:
                self._report_sent(box, <int> number)
            for k in range(box.n):
                row = box.data + (box.place[k].at if box.unsorted else k) * box.words
                if self.only_node >= 0 and self._ends_here(kind, row):
                    continue
                if kind.size is None:
                    self.links._send(self.now, <int> number, row, kind.nbytes, kind.transmission_time)
                else:
                    nbytes = row[2 + kind.n]
                    self.links._send(self.now, <int> number, row, nbytes, self.links._transmission_time(nbytes))
            outbox_clear(box)
        return 0

    cdef int _mark_kind(self, Py_ssize_t kind) except -1:
        """Set the step of the links for messages of a kind, if several processes share the run."""
        raise NotImplementedError

    cdef int _report_sent(self, Outbox* box, int number) except -1:
        cdef Py_ssize_t k, nbytes = self.links.width[number]
        records = np.empty((box.n, nbytes), np.uint8)
        cdef unsigned char[:, ::1] to = records
        for k in range(box.n):
            memcpy(&to[k, 0], box.data + (box.place[k].at if box.unsorted else k) * box.words, nbytes)
        self.observe(self.now, number, records)
        return 0
