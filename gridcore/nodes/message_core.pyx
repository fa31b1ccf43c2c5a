"""The message core runs node programs: a Python object for each node, which handles events and acts through its view.

Nodes sit on machines.  By default each machine has one node of the same number; a layout may put several nodes on
a machine, one of which is its *home* node: it handles releases at the machine and events of the machine's queue.

`NodeCore` has all events of nodes: the messages in `links`, the ends of queues, releases and timers.  It calls the
handlers of the nodes one after another and sends their messages, without an array or a closure for a single
message.  It is a source of the engine, and runs by itself between two events of the engine.

It consists of four classes, each the base class of the next:

- `gridcore.nodes.node_actions`: the state and the actions of nodes, called by `gridcore.nodes.view` and
  `gridcore.nodes.compiled_calls`;
- `gridcore.nodes.node_events`: the events, their order, and the calls of handlers;
- `gridcore.nodes.shared_events`: the same if several processes share a run;
- this module: construction, the interface for the engine and schedulers, failures, and checkpoints.

The reference implementation is `gridsim.scheduling.nodes.python_core`, which does the same in plain Python.
"""

from cpython.ref cimport PyObject
from libc.string cimport memset

cimport cython

from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.common.arguments cimport _Guard, check_lengths, check_offsets, guard, indices, integers
from gridcore.common.memory cimport reallocate
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.network.links cimport Links
from gridcore.nodes.board cimport Board
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.holdings cimport holdings_forget, holdings_free, holdings_give, holdings_make
from gridcore.nodes.kinds cimport REQUEST_KIND, REQUEST_NUMBER, REQUEST_TO, MessageKind, TimerKind
from gridcore.nodes.local_messages cimport LocalMessages
from gridcore.nodes.node_events cimport DELIVERIES, NOTHING, STRIDE, TIMERS
from gridcore.nodes.node_memory cimport RecordMemory
from gridcore.nodes.outbox cimport outbox_clear
from gridcore.nodes.payloads cimport Payloads
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.roles cimport ON_START, ON_TIMER, WITH_VALUE, Role, role_of
from gridcore.nodes.rows cimport map_put, rows_clear
from gridcore.nodes.shared_events cimport SharedEvents
from gridcore.nodes.timers cimport (
    Timer, Timers, timers_add, timers_cancel, timers_fields, timers_free, timers_identify, timers_make, timers_set,
)
from gridcore.nodes.active_set cimport ActiveSet, active_add, active_clear, active_make
from gridcore.queues.task_queues cimport TaskQueues

import numpy as np

from gridcore.common.state import check_total, read, read_only
from gridcore.nodes.node_events import EVENT_NAMES, deferred_reason
from gridcore.nodes.state import APPLICATION_TIMERS, STATE
from gridcore.nodes.view import View

__all__ = ["NodeCore"]



@cython.final
@cython.auto_pickle(False)
cdef class NodeCore(SharedEvents):
    """The core that runs the nodes of a grid.

    Parameters
    ----------
    links, queues
        The messages in flight and the task queues of the machines, which only the core uses while it runs.
        `Links.machine_of` is the machine of each node.
    programs
        List of the program of each node; `restart` replaces those of failed nodes.
    roles
        For each role, (name, name of the class, number of nodes, names of the handlers of events that its nodes have);
        nodes are numbered role by role.  For ``on_done``, the queues must watch and log completions; ``value`` says that
        ``on_timer`` takes the value of the timer.
    kinds
        For each kind, (name, number in `links`, bytes, fields, whether it moves tasks, names of the handlers by role),
        and optionally its own delay in ns, -1 for none, whether it is counted, for requests the names of their answers,
        and whether it is an answer itself.  The bytes may be a
        callable, fields -> bytes.  A field is ``int``, ``float``, or a type of arrays,
        which has their ``dtype`` and ``ndim`` (1, 2, or None for either); the links must keep dropped messages
        of kinds with arrays.  The number is -1 for a local kind
        (`View.later`).
    timers
        For each timer, its name, and optionally the name of its own handler, its fields (name -> ``int`` or ``float``),
        the defaults of fields, and the index of the role whose nodes have it.  By default nodes of all roles have it,
        and ``on_timer`` handles it.
    neighbours
        int64, the neighbours of the first node, then those of the second and so on.
    neighbour_offsets
        int64[nodes + 1], index of the first neighbour of each node in `neighbours`, then the number of neighbours.
    up
        bool[nodes], which nodes are up; it changes as they fail and recover.
    release, submitter, tasks
        int64[applications], ns, machine, number; release ascending.
    release_queue
        The releases instead of `release`, if some follow the ends of other applications (`TaskQueues.follow`).
    home
        int64[machines], the home node of each machine, which handles the events of its queue; by default the node of
        the same number.
    releases
        int64[k], the nodes that handle the releases at machines 0..k - 1; by default `home`.
    until
        The end of the run: ``"done"``, all tasks are completed; ``"placed"``, all tasks are in queues; or
        ``""``, the caller decides.
    application
        Callable, index -> the application as nodes see it.
    seed
        0..2**64 - 1, the seed of the random streams of the nodes.
    report_lost
        Callable, (application, tasks, node), for tasks that are lost on their way to a node; the node is -1 for
        tasks that are released while all nodes for releases are down.
    add_note, record_decision
        Callables for `View.note` and `View.decide`, with the node first; `record_decision` is None if decisions of
        compiled nodes are not recorded.
    convert
        Callable, (type, value, node, name) -> the value as that type; it raises an error for other values.
    error_type
        The type of the errors that nodes cause.
    compiled_form
        The compiled form of the programs, or None.  With machine code, `programs` is a `NodeRecords`, and
        `compiled_form` has ``programs``, for each role an object with ``handlers``, name of a kind or event -> address,
        and ``objects``, those of a record (`RecordMemory`); ``parameters``, the record that handlers read;
        ``timers``, names of timers and ticks, ``tables``, (name, columns) pairs, and ``actions``, names, to which
        handlers refer by index.  With `Handlers`, which have the states, each of `programs` is None.
    observe
        Callable, (ns, number of a kind, uint8[k, width] records), for all sent messages; or None.
    at_once
        Whether messages leave at once, in the order in which handlers send them.
    slots, jobs, environment
        Callables, node -> its `View.slots`, `View.jobs` and `View.environment`; or None.
    board
        The board on which nodes publish numbers; or None.
    report_endless
        Callable that returns the error to raise if the clock does not advance: (events at this instant, events of the
        most frequent sort; ``"message"``, ``"timer"`` or ``"event"``; its name; the handler; a node).
    only_node
        The only node that exists, for a test of its program, or -1.  Messages to other nodes are added to `sent` and
        never arrive; those from other nodes arrive by `receive`.
    threads
        The number of threads that order, and for some handlers sample, the queues of machines if many act at one
        instant; the result does not depend on it.

    Raises
    ------
    ValueError
        If arguments are inconsistent.
    """

    def __cinit__(self, Links links, TaskQueues queues, *, programs, kinds: Iterable[tuple[Any, ...]],
                  roles: Sequence[tuple[str, str, int, Sequence[str]]], timers: Iterable[tuple[Any, ...]],
                  neighbours: ArrayLike, neighbour_offsets: ArrayLike, up: Bools,
                  release: ArrayLike, submitter: ArrayLike, tasks: ArrayLike, application: Callable[[int], Any],
                  seed: int, report_lost: Callable[[int, int, int], None], add_note: Callable[..., None],
                  record_decision: Callable[..., None] | None, convert: Callable[..., Any], error_type: type[Exception],
                  compiled_form=None, observe: Callable[[int, int, NDArray[np.uint8]], None] | None = None,
                  bint at_once=False, home: ArrayLike | None = None, releases: ArrayLike | None = None,
                  ReleaseQueue release_queue=None,
                  str until="done",
                  slots: Callable[[int], Any] | None = None, jobs: Callable[[int], Any] | None = None,
                  environment: Callable[[int], Any] | None = None, Board board=None,
                  report_endless: Callable[..., Exception], Py_ssize_t only_node=-1, Py_ssize_t threads=1):
        cdef Py_ssize_t k
        if links is None or queues is None:
            raise TypeError(f"links and queues must not be None, got {links!r} and {queues!r}")
        if not 1 <= threads <= 1024:
            raise ValueError(f"threads must be in 1..1024, got {threads}")
        self.threads = threads
        if threads > 1:
            from concurrent.futures import ThreadPoolExecutor  # takes long to import

            self.pool = ThreadPoolExecutor(threads)
        self.links, self.queues, self.programs = links, queues, programs
        self.nodes = len(programs)
        if self.nodes != links.machine_of.shape[0]:
            raise ValueError(f"programs must have {links.machine_of.shape[0]} entries, one per node of links, "
                             f"got {self.nodes}")
        if queues.machines != links.machines:
            raise ValueError(f"queues must have {links.machines} machines, as many as links, got {queues.machines}")
        self.home = indices(np.arange(queues.machines) if home is None else home, "home", 0, self.nodes)
        if self.home.shape[0] != queues.machines:
            raise ValueError(f"home must have {queues.machines} entries, got {self.home.shape[0]}")
        self.submission_nodes = self.home if releases is None else indices(releases, "releases", 0, self.nodes)
        self._make_roles(list(roles))
        self.views, self.streams = [None] * self.nodes, [None] * self.nodes
        self.payloads, self.slots, self.jobs, self.environment = Payloads(), slots, jobs, environment
        self.board = board
        cdef Py_ssize_t entries = queues.n_applications if board is not None and board.is_per_application else self.nodes
        if board is not None and board.nodes != entries:
            raise ValueError(f"board must have {entries} numbers, got {board.nodes}")
        self._make_kinds(kinds)
        self._make_timer_kinds(timers)
        handlers = {name for *_, names in roles for name in names}
        self.has_on_idle, self.has_on_end = "on_idle" in handlers, "on_end" in handlers and queues.each_task
        self.has_on_done = "on_done" in handlers
        if self.has_on_done and not (queues.watch == "completion" and queues.log):
            raise ValueError("on_done requires queues with watch='completion' and log=True")
        if until not in ("done", "placed", ""):
            raise ValueError(f"until must be 'done', 'placed' or '', got {until!r}")
        self.until_done, self.until_placed = until == "done", until == "placed"
        self.placed_at, self.unread_completions = -1, {}
        self.at_once = at_once
        self.direct_kinds = np.array(
            [k for k in range(self.n_kinds) if (<MessageKind> self.kinds[k]).delay >= 0], np.int32)
        self.neighbours = indices(neighbours, "neighbours", 0, self.nodes)
        self.neighbour_offsets = integers(neighbour_offsets, "neighbour_offsets")
        check_lengths(self.neighbour_offsets.shape[0], self.nodes + 1, "neighbour_offsets", "nodes + 1")
        check_offsets(self.neighbour_offsets, self.neighbours.shape[0])
        if not isinstance(up, np.ndarray) or up.dtype != np.bool_:
            raise TypeError(f"up must be an array of bool, got {getattr(up, 'dtype', type(up).__name__)}")
        self.up = up.view(np.uint8)
        if self.up.shape[0] != self.nodes:
            raise ValueError(f"up must have {self.nodes} entries, got {self.up.shape[0]}")
        self.release = indices(release, "release", 0, LATEST)
        self.tasks = indices(tasks, "tasks", 0, 2**31)
        self.submitter = indices(submitter, "submitter", 0, self.submission_nodes.shape[0])
        self.release_queue = release_queue
        if queues.releases is not None and queues.releases is not release_queue:
            raise ValueError("release_queue must be the one that queues follow")
        if release_queue is not None:
            check_lengths(self.submitter.shape[0], release_queue.applications, "submitter", "release_queue")
        if not self.release.shape[0] == self.submitter.shape[0] == self.tasks.shape[0]:
            raise ValueError(f"release, submitter and tasks must be equally long, got {self.release.shape[0]}, "
                             f"{self.submitter.shape[0]}, {self.tasks.shape[0]}")
        for k in np.flatnonzero(np.diff(self.release) < 0)[:1] if self.release_queue is None else ():
            raise ValueError(f"release must not decrease, got {self.release[k + 1]} after {self.release[k]}")
        self.total = int(np.sum(self.tasks)) if self.tasks.shape[0] else 0
        self.make_application, self.seed, self.applications = application, seed, {}
        self.report_lost, self.add_note, self.record_decision = report_lost, add_note, record_decision
        self.convert, self.error_type, self.observe = convert, error_type, observe
        self.report_endless = report_endless
        if not -1 <= only_node < self.nodes:
            raise ValueError(f"only_node must be in -1..{self.nodes - 1}, got {only_node}")
        self.only_node, self.sent, self.received = only_node, [], []
        holdings_make(&self.holdings, self.nodes)
        active_make(&self.reorder, queues.machines)
        active_make(&self.start, self.nodes)
        active_make(&self.end, queues.machines)
        active_make(&self.idle, queues.machines)
        self.now, self.phase, self.pause_at, self.sample_at, self.stalled_at = 0, NOTHING, STRIDE, NEVER, -1
        self._make_counts()
        self.holds_tasks, self.horizon, self.only_phase = True, NEVER, -1
        if isinstance(compiled_form, Handlers):
            self._use_handlers(compiled_form)
        elif compiled_form is not None:
            self._compile(compiled_form)
        self.begin(np.arange(self.nodes))

    cdef int _make_roles(self, list roles) except -1:
        cdef Py_ssize_t k, first = 0
        self.roles = <Role*> reallocate(NULL, len(roles) * sizeof(Role))
        memset(self.roles, 0, len(roles) * sizeof(Role))
        self.n_roles, self.role_names, self.role_nodes = len(roles), [], {}
        for k, (name, program, nodes, handlers) in enumerate(roles):
            self.roles[k].first, self.roles[k].end = first, first + nodes
            for event, handler in enumerate([*EVENT_NAMES, "value"]):
                self.roles[k].events |= (handler in handlers) << event
            self.role_names.append((name, program))
            if name:
                self.role_nodes[name] = range(first, first + nodes)
            first += nodes
        self.role_bounds = np.array([(self.roles[k].first, self.roles[k].end) for k in range(self.n_roles)], np.int64)
        if first != self.nodes:
            raise ValueError(f"roles must have {self.nodes} nodes, got {first}")
        return 0

    # -- calls of the engine ------------------------------------------------------------------------------------

    def advance(self, long long limit) -> int:
        """Run all events up to `limit` ns; return the instant at which the engine is needed, else `NEVER`.

        The engine is needed when all tasks are completed or `stop` was called (`finished`), and regularly for
        checkpoints and limits.  Messages sent by the last releases or timers of the instant `limit` have not left yet:
        an event of the engine at that instant may belong to the same wave, after which `flush` must be called.
        """
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call, guard(&self.queues.in_call)))
        return self._advance(limit) if self.exchange is None else self._advance_together(limit)

    def wake(self, long long time):
        """Return control to the engine at `time` ns, for an event that the present `advance` does not know."""
        if time < self.limit:
            self.limit = time

    def stop(self):
        """End the run after the present wave: `advance` returns, and `finished` is True."""
        self.finished = True

    def enter(self, long long now):
        """Begin an event of the engine at `now` ns; the engine calls handlers itself, and `flush` at the end."""
        cdef _Guard access = guard(&self.in_call)
        self._reach(now)
        self.phase, self.limit = TIMERS, now

    def view_of(self, Py_ssize_t node, Py_ssize_t application=-1) -> View:
        """Return the view of `node`, and make `application` known to the node unless it is -1."""
        self._check_node(node, max(0, application))
        if application >= 0:
            holdings_give(&self.holdings, node, application, 0)
        return self._view(node)

    def flush(self):
        """Send the messages of a wave that began at an event of the engine."""
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call))
        if self.dirty:
            self._flush()

    @property
    def is_exhausted(self) -> bool:
        """Whether there are no more events."""
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call))
        if self.exchange is not None:
            return self._is_exhausted()
        self.limit = NEVER
        return not self.dirty and self._due() == NEVER

    cdef int _reach(self, long long now) except -1:
        """Advance the clock to an event of the engine at `now` ns."""
        if not self.now <= now <= LATEST:
            raise ValueError(f"now must be in {self.now}..{LATEST} ns, got {now}")
        if now > self.now:
            self.now, self.since = now, self.events
        return 0

    # -- events of the engine, and failures ---------------------------------------------------------------------

    def resubmit(self, applications: ArrayLike, tasks: ArrayLike, long long now):
        """Resubmit lost tasks at the nodes for releases at their submitters, at an event of the engine at `now` ns.

        Both arrays are int64[k].

        Timers of this instant fire in the same wave.
        """
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call, guard(&self.queues.in_call)))
        cdef const long long[::1] i = indices(applications, "applications", 0, self.submitter.shape[0])
        cdef const long long[::1] n = integers(tasks, "tasks")
        cdef Py_ssize_t k
        check_lengths(i.shape[0], n.shape[0], "applications", "tasks")
        self._reach(now)
        self.phase, self.limit = TIMERS, now
        for k in range(i.shape[0]):
            self._give(i[k], n[k], "on_lost")
        while self._phase_due() == TIMERS:
            self._release_or_fire()

    def give(self, node: int, application: int, tasks: int):
        """Release `tasks` tasks at `node` now, even if it is down; the messages that it sends are then lost."""
        self._check_node(node, application)
        self._give_to(node, application, tasks, "on_release")

    def receive(self, sender: int, kind: str, dict fields, long long now):
        """Deliver a message to `only_node` at `now` ns, from a node that does not exist.

        If it is about an application, the sender knows it, and has the tasks that the message moves.

        Raises
        ------
        ValueError
            If there is no only node, or `sender` is that node.
        """
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call, guard(&self.queues.in_call)))
        cdef MessageKind k = self.by_name.get(kind)
        cdef const char* record
        if self.only_node < 0 or sender == self.only_node or not 0 <= sender < self.nodes:
            raise ValueError(f"sender must be in 0..{self.nodes - 1} and not {self.only_node}, the node, got {sender}")
        self._reach(now)
        self.phase, self.limit = DELIVERIES, now
        if k is not None and k.application_at >= 0:
            self._check_node(sender, fields.get("application", 0))
            holdings_give(&self.holdings, sender, fields.get("application", 0), fields.get("tasks", 0) if k.moves_tasks else 0)
        self._view(sender).send(self.only_node, kind, **fields)
        if self.dirty:
            self._flush()
        content = self.received.pop()
        record = content
        if self.links.deferred[k.number]:
            self.read_only_reason = deferred_reason(kind)
        try:
            self._count(k.number, self.only_node, 1)
            self._deliver(k, -1, <const long long*> record)
        finally:
            self.read_only_reason = None
        if self.dirty:
            self._flush()

    def tick(self, nodes: ArrayLike, name: str, long long now):
        """Fire the timer `name` on each of `nodes`, at an event of the engine at `now` ns."""
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call, guard(&self.queues.in_call)))
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}")
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        cdef TimerKind kind
        cdef object value = 0.0
        cdef long long arguments[2]
        self._reach(now)
        self.phase, self.limit = TIMERS, now
        self._begin_call()
        self._begin_step(TIMERS, 0)
        if self.exchange is not None:
            u = np.array([node for node in u if self._is_local(node)], np.int64)
        if u.shape[0]:
            self._count(self.n_kinds + ON_TIMER, u[0], u.shape[0])
        if self.in_batches:
            self.cython_handlers._tick(self, name, u)
            while self._phase_due() == TIMERS:
                self._release_or_fire()
            return
        arguments[0] = self.compiled_form.timers.index(name) if self.is_compiled else 0
        arguments[1] = 0                # the bits of the value 0.0
        for k in range(u.shape[0]):
            kind = self._timer_of(u[k]).get(name)
            if kind is not None and not kind.is_plain:
                if self.is_compiled:
                    self._call_compiled(self._timer_handler(kind), u[k], NULL)
                else:
                    self._call(kind.handler, u[k], NULL, NULL)
            elif self.is_compiled:
                self._call_compiled(self.n_kinds + ON_TIMER, u[k], arguments)
            elif self._handles(u[k], ON_TIMER):
                self._call("on_timer", u[k], <PyObject*> name, <PyObject*> value if self._handles(u[k], WITH_VALUE) else NULL)
        while self._phase_due() == TIMERS:
            self._release_or_fire()

    def drain(self, long long now):
        """Handle the messages of deferred kinds that have arrived by `now` ns, an instant of the engine."""
        cdef _Guard access = guard(&self.in_call, guard(&self.links.in_call, guard(&self.queues.in_call)))
        self._reach(now)
        self._drain()

    def act(self, nodes: ArrayLike, long long now):
        """Call `on_act` of `nodes` at `now` ns, an instant of the engine, as `View.act` does."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        self._reach(now)
        for k in range(u.shape[0]):
            timers_set(&self.turns, now, <int> u[k], 0, 0.0)

    def add_applications(self, submitter: ArrayLike):
        """Append applications submitted at the machines `submitter`; only `resubmit` gives them to nodes."""
        cdef _Guard access = guard(&self.in_call)
        submitters = indices(submitter, "submitter", 0, self.submission_nodes.shape[0])
        self.submitter = np.concatenate((self.submitter, submitters))

    def with_completions(self, long long now) -> list[int]:
        """Return the machines, ascending, with tasks completed by `now` ns of which no node has read yet."""
        cdef _Guard access = guard(&self.in_call, guard(&self.queues.in_call))
        self._reach(now)
        self.queues._catch_up(now)
        self._read_completions()
        return sorted(self.unread_completions)

    def restart(self, nodes: ArrayLike, programs, long long now) -> list[tuple[int, int]]:
        """Make `nodes` fail at `now` ns, and replace them by the new `programs`.

        Returns (application, tasks) pairs: the tasks that the nodes had not placed.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef RecordMemory memory
        cdef Role* role
        cdef Py_ssize_t k
        cdef int at
        self._reach(now)
        pending_tasks = []
        if len(programs) != u.shape[0]:
            raise ValueError(f"programs must have {u.shape[0]} entries, as many as nodes, got {len(programs)}")
        for k in range(u.shape[0]):
            role = role_of(self.roles, u[k])
            memory = None if self.memory is None else self.memory[role - self.roles]
            if memory is not None:
                memory._clear(u[k] - role.first)
            self.programs[u[k]] = programs[k]
            if memory is not None:
                memory._start(u[k] - role.first)
            if self.cython_handlers is not None:
                self.cython_handlers._forget(u[k])
            if self.recorder is not None and self.is_recorded[u[k]]:
                self.recorder.failed(u[k])
            self._forget_requests(u[k])
            timers_cancel(&self.timers, <int> u[k], -1)
            self.local._drop(u[k])
            if self.board is not None and not self.board.is_per_application:
                self.board._fail(u[k], now)
            at = self.holdings.first[u[k]]
            while at >= 0:
                if self.holdings.entry[at].tasks:
                    pending_tasks.append((self.holdings.entry[at].application, self.holdings.entry[at].tasks))
                at = self.holdings.entry[at].next_of_node
            holdings_forget(&self.holdings, u[k])
        return pending_tasks

    def begin(self, nodes: ArrayLike):
        """Call `on_start` of `nodes` at the present instant."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            if self._handles(u[k], ON_START):
                active_add(&self.start, <int> u[k])

    # -- checkpoints --------------------------------------------------------------------------------------------

    def held(self) -> Integers:
        """Return (node, application, tasks) rows: the applications that each node knows, and its tasks to place.

        It may be called during a call of the core, for an error.
        """
        return self._holding()

    cdef object _holding(self):
        cdef Py_ssize_t k
        cdef int at
        rows = []
        for k in range(self.nodes):
            at = self.holdings.first[k]
            while at >= 0:
                rows.append((k, self.holdings.entry[at].application, self.holdings.entry[at].tasks))
                at = self.holdings.entry[at].next_of_node
        return np.array(sorted(rows), np.int64).reshape(-1, 3)

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction without the programs, as described in `gridcore.common.state`.

        Raises
        ------
        RuntimeError
            If messages of a wave have not been sent yet.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        cdef int slot, i
        cdef Timer* timer
        cdef RandomStream stream
        if self.dirty:
            raise RuntimeError("getstate requires that all messages were sent: call flush first")
        timers, values, fields, random, turns = [], [], [], [], []
        for k in range(self.nodes):
            slot = self.timers.first[k]
            while slot >= 0:
                timer = &self.timers.timer[slot]
                timers.append((timer.time, timer.number, k, timer.name))
                values.append(timer.value)
                for i in range((<TimerKind> self.timer_kinds[timer.name]).n):
                    fields.append(timers_fields(&self.timers, slot)[i])
                slot = timer.next
            slot = self.turns.first[k]
            while slot >= 0:
                turns.append((self.turns.timer[slot].time, self.turns.timer[slot].number, k))
                slot = self.turns.timer[slot].next
            stream = self.streams[k]
            if stream is not None:
                random.append((k, stream.drawn))
        return read_only({
            "now": self.now, "events": self.events, "pause_at": self.pause_at, "phase": self.phase,
            "released": self.released, "number": self.timers.number, "directs": self.n_direct,
            "placed": self.placed_at + 1,
            "turns": np.array(turns, np.int64).reshape(-1, 3), "turn_number": self.turns.number,
            "completed": np.array([(u, i, n) for u, of in sorted(self.unread_completions.items()) for i,
                                   n in sorted(of.items())],
                                  np.int64).reshape(-1, 3),
            "timers": np.array(timers, np.int64).reshape(-1, 4), "values": np.array(values, np.float64),
            "fields": np.array(fields, np.int64), "requests": np.array(self.request_counts, np.int64),
            "held": self._holding(),
            "reorder": active_read(&self.reorder), "start": active_read(&self.start),
            "end": active_read(&self.end), "idle": active_read(&self.idle),
            "random": np.array(random, np.int64).reshape(-1, 2),
            **self.local._entries(), **self.payloads.getstate(),
            **({} if self.board is None else self.board._entries()),
            **self._application_timer_entries(),
        })

    def setstate(self, state):
        """Restore a state of `getstate` of a core with the same arguments.

        Raises
        ------
        ValueError
            If the state cannot belong to this core.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        entries = read(state, STATE, nodes=self.nodes, machines=self.queues.machines,
                       applications=self.submitter.shape[0],
                       requesters=self.request_counts.shape[0], names=len(self.timer_kinds), phases=NOTHING + 1, up_to_releases=self.release.shape[0] + 1)
        self.now, self.events = entries["now"], entries["events"]
        self.pause_at, self.phase = entries["pause_at"], entries["phase"]
        self.since, self.needs_engine = self.events, False
        self.released, self.finished = entries["released"], False
        self.n_direct, self.n_instant = entries["directs"], 0
        self.placed_at = entries["placed"] - 1
        self._set_timers(entries)
        self._set_application_timers(state)
        timers_free(&self.turns)
        timers_make(&self.turns, self.nodes, 0)
        turns = entries["turns"]
        for k in np.argsort(turns[:, 1], kind="stable"):
            self.turns.number = turns[k, 1]
            timers_set(&self.turns, turns[k, 0], turns[k, 2], 0, 0.0)
        self.turns.number = entries["turn_number"]
        self.unread_completions = {}
        for machine, application, tasks in entries["completed"].tolist():
            self.unread_completions.setdefault(machine, {})[application] = tasks
        self.views, self.streams = [None] * self.nodes, [None] * self.nodes
        holdings_free(&self.holdings)
        holdings_make(&self.holdings, self.nodes)
        for node, application, tasks in entries["held"].tolist():
            holdings_give(&self.holdings, node, application, tasks)
        for node, drawn in entries["random"].tolist():
            self.streams[node] = RandomStream(self.seed, node, drawn)
        active_fill(&self.reorder, entries["reorder"])
        active_fill(&self.start, entries["start"])
        active_fill(&self.end, entries["end"])
        active_fill(&self.idle, entries["idle"])
        for k in range(self.n_kinds):
            outbox_clear(&self.out[k])
        outbox_clear(&self.instant)
        self.instant_at = 0
        self.dirty = False
        self.payloads._read(state)
        self.local._read(state)
        if self.board is not None:
            self.board._set(state)

    cdef int _set_timers(self, entries) except -1:
        """Restore all timers of a state."""
        cdef Py_ssize_t k, i, words = self.timers.words
        cdef int slot
        cdef TimerKind kind
        cdef const long long[:, ::1] timers = entries["timers"]
        cdef const double[::1] values = entries["values"]
        cdef const long long[::1] fields = entries["fields"]
        counts = np.array([(<TimerKind> kind).n for kind in self.timer_kinds], np.int64)[entries["timers"][:, 3]]
        check_total("the fields of state['timers']", counts, fields.shape[0])
        ends = np.cumsum(counts)
        self._check_requests(entries, ends - counts)
        self.request_counts = entries["requests"]
        rows_clear(&self.pending_requests)
        timers_free(&self.timers)
        timers_make(&self.timers, self.nodes, words)
        for k in np.argsort(entries["timers"][:, 1], kind="stable"):
            self.timers.number = timers[k, 1]
            slot = timers_add(&self.timers, timers[k, 0], <int> timers[k, 2], <int> timers[k, 3], values[k])
            for i in range(counts[k]):
                timers_fields(&self.timers, slot)[i] = fields[ends[k] - counts[k] + i]
            if timers[k, 3] == self.request_timer:
                map_put(&self.pending_requests, timers_fields(&self.timers, slot)[REQUEST_NUMBER], 2)[1] = slot
            else:
                kind = <TimerKind> self.timer_kinds[timers[k, 3]]
                timers_identify(&self.timers, slot, kind.type_codes, kind.n)
        self.timers.number = entries["number"]
        return 0

    cdef dict _application_timer_entries(self):
        """Return the timers of applications as an entry of a state; none if the handlers have no names for them."""
        cdef Py_ssize_t k
        cdef int slot
        cdef const Timer* timer
        rows = []
        for k in range(self.application_timers.nodes):
            slot = self.application_timers.first[k]
            while slot >= 0:
                timer = &self.application_timers.timer[slot]
                rows.append((timer.time, timer.number, k, timer.name))
                slot = timer.next
        return {"application_timers": np.array(rows, np.int64).reshape(-1, 4)} if self.application_timers.nodes else {}

    cdef int _set_application_timers(self, state) except -1:
        """Restore the timers of applications of a state."""
        cdef Timers* timers = &self.application_timers
        cdef Py_ssize_t applications = timers.nodes
        if not applications:
            return 0
        rows = read(state, APPLICATION_TIMERS, applications=applications,
                    names=self.cython_handlers.n_timers)["application_timers"]
        timers_free(timers)
        timers_make(timers, applications, 0)
        for time, number, application, name in rows[np.argsort(rows[:, 1], kind="stable")].tolist():
            timers.number = number
            timers_add(timers, time, application, name, 0.0)
        return 0

    cdef int _check_requests(self, entries, first) except -1:
        """Check receivers and kinds of the pending requests in a state; the fields of timer k begin at ``first[k]``."""
        first = first[entries["timers"][:, 3] == self.request_timer]
        receivers, kinds = (entries["fields"][first + k] for k in (REQUEST_TO, REQUEST_KIND))
        requests = [k for k in range(self.n_kinds) if (<MessageKind> self.kinds[k]).answers]
        if not (((receivers >= 0) & (receivers < self.nodes)).all() and np.isin(kinds, requests).all()):
            raise ValueError(f"the requests in state['fields'] must have receivers in 0..{self.nodes - 1} and kinds with an "
                             f"answer, got receivers {receivers.tolist()} and kinds {kinds.tolist()}")
        return 0

    # -- queries ------------------------------------------------------------------------------------------------

    def failed_call(self) -> tuple[int, str, int] | None:
        """Return (node, handler, place) of the compiled handler that raised an error; None if none did.

        The place is a number of `gridsim.scheduling.nodes.compile_errors.place_number`.
        """
        if not self.is_compiled or self.context.place == 0:
            return None
        _, _, handler = self._sort_of_row(self.last_handler, self.last_node)
        place, self.context.place = self.context.place, 0
        return self.last_node, handler, place

    def activity(self) -> list[tuple[str, str, str, int, int]]:
        """Return what nodes have handled since this core was made, the most frequent first.

        Each entry is (``"message"``, ``"timer"`` or ``"event"``; name; handler; number of events; a node).
        """
        counts = np.asarray(self.counts)
        rows = [row for row in np.argsort(-counts, kind="stable").tolist() if counts[row]]
        nodes = np.asarray(self.latest).tolist()
        return [(*self._sort_of_row(row, nodes[row]), int(counts[row]), nodes[row]) for row in rows]

    def machine_of(self, Py_ssize_t node) -> int:
        """Return the machine on which `node` runs now."""
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        return self.links.machine_of[node]

    def work_of(self, Py_ssize_t machine) -> float:
        """Return the time (s) that `machine` needs for its running and waiting tasks."""
        self._check(machine)
        return self._work(machine)

    def tasks_at(self, Py_ssize_t machine) -> int:
        """Return the number of tasks that wait or run at `machine`."""
        self._check(machine)
        return self._tasks_at(machine)

    def waiting_at(self, Py_ssize_t machine) -> int:
        """Return the number of tasks that wait at `machine`; a running task does not count."""
        self._check(machine)
        self._catch_up(machine)
        return self.queues.waiting[machine]

    cdef int _check_node(self, Py_ssize_t node, Py_ssize_t application) except -1:
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        if not 0 <= application < self.submitter.shape[0]:
            raise ValueError(f"application must be in 0..{self.submitter.shape[0] - 1}, got {application}")
        return 0

    cdef int _check(self, Py_ssize_t machine) except -1:
        if not 0 <= machine < self.queues.machines:
            raise ValueError(f"machine must be in 0..{self.queues.machines - 1}, got {machine}")
        return 0


cdef object active_read(const ActiveSet* t):
    """Return int64[n], the machines of a set in ascending order."""
    cdef Py_ssize_t k
    return np.array(sorted([t.member[k] for k in range(t.n)]), np.int64)


cdef int active_fill(ActiveSet* t, machines) except -1:
    active_clear(t)
    for machine in machines.tolist():
        active_add(t, machine)
    return 0
