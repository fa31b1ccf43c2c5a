"""Runs node programs: one Python object a node, which handles what happens there and acts through its view.

Nodes sit on machines.  By default each machine has one node of the same number; a layout may put several nodes on
a machine, one of which is its *home* node: it gets what is submitted there, and hears of the machine's queue.

`NodeCore` owns what is due: the messages in `links`, the ends of queues, releases and timers.  It calls the
handlers of the nodes one after another and passes on what they send, without an array or a closure for a single
message.  It is a source of the engine: between two events of the engine it runs by itself.

It is made of three parts, each the base class of the next:

- `gridcore.nodes.node_actions`: what nodes have and can do, for which `gridcore.nodes.view` and
  `gridcore.nodes.compiled_calls` call it;
- `gridcore.nodes.node_events`: what is due, in which order it is handled, and how handlers are called;
- what is here: what it is made of, what the engine and schedulers ask of it, failures, and its state.

There is no reference implementation of its own: a policy of the engine's first tier that calls the same nodes by
cohorts is one (see the tests).
"""

from cpython.ref cimport PyObject
from libc.math cimport INFINITY

cimport cython

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices, integers
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.network.links cimport Links
from gridcore.nodes.board cimport Board
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.holdings cimport holdings_forget, holdings_free, holdings_give, holdings_make
from gridcore.nodes.kinds cimport Kind
from gridcore.nodes.local_messages cimport LocalMessages
from gridcore.nodes.node_events cimport NOTHING, STRIDE, TIMERS, NodeEvents
from gridcore.nodes.outbox cimport outbox_clear
from gridcore.nodes.payloads cimport Payloads
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.timers cimport Timer, timers_cancel, timers_free, timers_make, timers_set
from gridcore.nodes.touched cimport Touched, touched_add, touched_clear, touched_make
from gridcore.queues.task_queues cimport TaskQueues

import numpy as np

from gridcore.common.names import listed
from gridcore.common.state import read, read_only
from gridcore.nodes.kinds import Received
from gridcore.nodes.state import STATE, payload_entries
from gridcore.nodes.view import View

__all__ = ["NodeCore"]



@cython.final
@cython.auto_pickle(False)
cdef class NodeCore(NodeEvents):
    """Runs the nodes of a grid.

    Raises ValueError for arguments that do not fit.

    Parameters
    ----------
    links, queues
        The messages in flight and the task queues of the machines, which only the core uses while it runs.
        The links say on which machine each node sits (`Links.machine_of`).
    programs
        List, the object of each node; `restart` replaces those of nodes that fail.
    kinds
        Of each kind (name, number in `links`, bytes, fields, whether it moves tasks, name of the handler),
        and optionally its own delay in ns, -1 for none, and whether it is counted.  The bytes may be a
        callable that gets the fields and returns them.  A field is ``int``, ``float``, or another type for an
        array; the links must keep dropped messages of a kind with arrays.  The number is -1 for a local kind,
        see `View.later`.
    timers
        The names of timers.
    handlers
        Names of the optional handlers that the programs have: ``on_start``, ``on_end``, ``on_idle``,
        ``on_act``, ``on_timer``, ``on_done``, for which the queues must watch and log completions; ``value``
        if ``on_timer`` takes the value of the timer.
    neighbours
        int64[nodes, degree].
    up
        bool[nodes], which nodes are up; it changes as they fail and recover.
    release, submitter, tasks
        int64[applications], ns, machine, number; release ascending.
    home
        int64[machines], the node of each machine that gets what is submitted there, and that handles what its
        queue does; by default the node of the same number.
    until
        When the run is over: ``"done"``, all tasks are; ``"placed"``, all tasks are in queues; or ``""``, for
        others to decide.
    application
        Callable, index -> the application as nodes see it.
    seed
        0..2**64 - 1, of the random streams of the nodes.
    lost
        Callable, (application, tasks, node), for tasks that a failure has caught on their way to a node; the
        node is -1 for tasks that are submitted while all nodes at home are down.
    noted, decided
        Callables for `View.note` and `View.decide`, with the node first; None where compiled nodes need not
        say what they decide.
    checked
        Callable, (type, value, node, name) -> the value as that type, or an error.
    error
        The type of the errors that nodes cause.
    compiled
        None, or the compiled form of the program: `programs` is then an array of the states of the nodes, one
        record each, and `compiled` has ``handlers``, name of a kind or event -> address; ``parameters``, the
        record that handlers read; ``tables`` and ``actions``, as their numbers mean them, (name, columns) and
        names.  Or `Handlers`, which have the states; `programs` are then None.
    observe
        Callable, (ns, number of a kind, uint8[k, width] records), for all that is sent; or None.
    at_once
        Messages leave at once, in the order in which handlers send them.
    slots
        Callable, node -> its `View.slots`; or None.
    board
        What nodes publish and see; or None.
    """

    cdef bint occupied                  # see `gridcore.common.arguments.guard`

    def __cinit__(self, Links links, TaskQueues queues, *, programs, kinds: Iterable[tuple[Any, ...]],
                  timers: Sequence[str], handlers: Sequence[str], neighbours: ArrayLike, up: Bools,
                  release: ArrayLike, submitter: ArrayLike, tasks: ArrayLike, application: Callable[[int], Any],
                  seed: int, lost: Callable[[int, int, int], None], noted: Callable[..., None],
                  decided: Callable[..., None] | None, checked: Callable[..., Any], error: type[Exception],
                  compiled=None, observe: Callable[[int, int, NDArray[np.uint8]], None] | None = None,
                  bint at_once=False, home: ArrayLike | None = None, str until="done",
                  slots: Callable[[int], Any] | None = None, Board board=None):
        cdef Py_ssize_t k
        if links is None or queues is None:
            raise TypeError("links and queues must be given, got None")
        self.links, self.queues, self.programs = links, queues, programs
        self.nodes = len(programs)
        if queues.machines != links.machines or links.machine_of.shape[0] != self.nodes:
            raise ValueError(f"programs must be one for each of the {links.machine_of.shape[0]} nodes of the links, and "
                             f"queues one for each of their {links.machines} machines, got {self.nodes} and "
                             f"{queues.machines}")
        self.home = indices(np.arange(queues.machines) if home is None else home, "home", 0, self.nodes)
        if self.home.shape[0] != queues.machines:
            raise ValueError(f"home must have {queues.machines} entries, got {self.home.shape[0]}")
        self.views, self.streams = [None] * self.nodes, [None] * self.nodes
        self.payloads, self.local, self.slots = Payloads(), LocalMessages(self.nodes), slots
        self.board = board
        cdef Py_ssize_t entries = queues.n_applications if board is not None and board.of_applications else self.nodes
        if board is not None and board.nodes != entries:
            raise ValueError(f"board must have {entries} numbers, got {board.nodes}")
        self._make_kinds(kinds)
        self.timer_names = tuple(timers)
        self.starts, self.idles, self.fires = "on_start" in handlers, "on_idle" in handlers, "on_timer" in handlers
        self.ends, self.acts = "on_end" in handlers and queues.each_task, "on_act" in handlers
        self.values, self.dones = "value" in handlers, "on_done" in handlers
        if self.dones and not (queues.watch == "completion" and queues.log):
            raise ValueError("queues must watch and log completions, as the programs have on_done")
        if until not in ("done", "placed", ""):
            raise ValueError(f"until must be 'done', 'placed' or '', got {until!r}")
        self.until_done, self.until_placed = until == "done", until == "placed"
        self.placed_at, self.unreported = -1, {}
        self.at_once = at_once
        self.direct = np.array([k for k in range(self.n_kinds) if (<Kind> self.kinds[k]).delay >= 0], np.int32)
        self.neighbours = np.ascontiguousarray(neighbours, np.int64)
        if self.neighbours.ndim != 2 or len(self.neighbours) != self.nodes:
            raise ValueError(f"neighbours must have {self.nodes} rows, got shape {self.neighbours.shape}")
        if not isinstance(up, np.ndarray) or up.dtype != np.bool_:
            raise TypeError(f"up must be an array of bool, got {type(up).__name__}")
        self.up = up.view(np.uint8)
        if self.up.shape[0] != self.nodes:
            raise ValueError(f"up must have {self.nodes} entries, got {self.up.shape[0]}")
        self.release = indices(release, "release", 0, LATEST)
        self.tasks = indices(tasks, "tasks", 0, 2**31)
        self.submitter = indices(submitter, "submitter", 0, queues.machines)
        if not self.release.shape[0] == self.submitter.shape[0] == self.tasks.shape[0]:
            raise ValueError("release, submitter and tasks must be equally long")
        if (np.diff(self.release) < 0).any():
            raise ValueError("release must be ascending")
        self.total = int(np.sum(self.tasks)) if self.tasks.shape[0] else 0
        self.make_application, self.seed, self.applications = application, seed, {}
        self.lost, self.noted, self.decided, self.checked = lost, noted, decided, checked
        self.error, self.observe = error, observe
        timers_make(&self.timers, self.nodes)
        timers_make(&self.turns, self.nodes)
        holdings_make(&self.holdings, self.nodes)
        touched_make(&self.reorder, queues.machines)
        touched_make(&self.start, self.nodes)
        touched_make(&self.end, queues.machines)
        touched_make(&self.idle, queues.machines)
        self.now, self.phase, self.pause_at = 0, NOTHING, STRIDE
        if isinstance(compiled, Handlers):
            self._write(compiled)
        elif compiled is not None:
            self._compile(compiled)
        for k in range(self.nodes if self.starts else 0):
            touched_add(&self.start, <int> k)

    # -- what the engine calls ----------------------------------------------------------------------------------

    def advance(self, long long limit) -> int:
        """Run all that is due up to `limit` ns; the instant at which the engine is needed, else `NEVER`.

        It is needed where all tasks are done or `stop` was called (`finished`), and now and then for what the engine
        does meanwhile.
        What was sent by the last releases or timers of the instant `limit` has not left yet: an event of the
        engine at that instant may still fall into the same wave, after which `flush` must be called.
        """
        cdef _Guard alone = guard(&self.occupied, guard(&self.links.occupied, guard(&self.queues.occupied)))
        try:
            return self._advance(limit)
        except AttributeError as error:
            _say_closest(error, self.now)
            raise
        except (ArithmeticError, IndexError, ValueError) as error:  # of machine code, which has no traceback
            if said := self._said():
                error.add_note(said)
            raise

    def wake(self, long long time):
        """Let the engine have control at `time` ns: it has an event then that the present `advance` does not know."""
        if time < self.limit:
            self.limit = time

    def stop(self):
        """Let `advance` return, `finished`, once the present wave has been handled."""
        self.finished = True

    def enter(self, long long now):
        """Let an event of the engine at `now` ns call handlers itself: what they send leaves after its wave (`flush`)."""
        cdef _Guard alone = guard(&self.occupied)
        self._reach(now)
        self.phase, self.limit = TIMERS, now

    def view_of(self, Py_ssize_t node, Py_ssize_t application) -> View:
        """Return the view of `node`, to which this makes an application known."""
        self._check_node(node, application)
        holdings_give(&self.holdings, node, application, 0)
        return self._view(node)

    def flush(self):
        """Let what has been sent leave, at the end of a wave of the engine."""
        cdef _Guard alone = guard(&self.occupied, guard(&self.links.occupied))
        if self.dirty:
            self._flush()

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to do."""
        cdef _Guard alone = guard(&self.occupied, guard(&self.links.occupied))
        self.limit = NEVER
        return not self.dirty and self._due() == NEVER

    cdef int _reach(self, long long now) except -1:
        """An event of the engine happens at `now` ns."""
        if not self.now <= now <= LATEST:
            raise ValueError(f"now must be in {self.now}..{LATEST} ns, got {now}")
        self.now = now
        return 0

    # -- events of the engine, and failures ---------------------------------------------------------------------

    def resubmit(self, applications: ArrayLike, tasks: ArrayLike, long long now):
        """Give lost tasks of `applications` (int64[k] both) to nodes again, at an event of the engine at `now` ns.

        Timers that are set for this very instant fall into the same wave.
        """
        cdef _Guard alone = guard(&self.occupied, guard(&self.links.occupied, guard(&self.queues.occupied)))
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
        """Give `tasks` tasks that are submitted now to `node` even if it is down: what it sends is then lost."""
        self._check_node(node, application)
        self._give_to(node, application, tasks, "on_release")

    def tick(self, nodes: ArrayLike, name: str, long long now):
        """Let the timer `name` fire on each of `nodes`, at an event of the engine at `now` ns."""
        cdef _Guard alone = guard(&self.occupied, guard(&self.links.occupied, guard(&self.queues.occupied)))
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}")
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        value = 0.0 if self.values else None
        self._reach(now)
        self.phase, self.limit = TIMERS, now
        self.events += u.shape[0]
        for k in range(u.shape[0]):
            self._call("on_timer", u[k], <PyObject*> name, <PyObject*> value if self.values else NULL)
        while self._phase_due() == TIMERS:
            self._release_or_fire()

    def drain(self, long long now):
        """Handle the messages of deferred kinds that have arrived by `now` ns, an instant of the engine."""
        cdef _Guard alone = guard(&self.occupied, guard(&self.links.occupied, guard(&self.queues.occupied)))
        self._reach(now)
        self._drain()

    def act(self, nodes: ArrayLike, long long now):
        """Let `nodes` act at `now` ns, an instant of the engine; see `View.act`."""
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        self._reach(now)
        for k in range(u.shape[0]):
            timers_set(&self.turns, now, <int> u[k], 0, 0.0)

    def add_applications(self, submitter: ArrayLike):
        """Append further applications, submitted by the machines `submitter`: only `resubmit` gives them to nodes."""
        cdef _Guard alone = guard(&self.occupied)
        self.submitter = np.concatenate((self.submitter, indices(submitter, "submitter", 0, self.queues.machines)))

    def with_completions(self, long long now) -> list[int]:
        """Return the machines, ascending, that have completed tasks by `now` ns for which no node has asked."""
        cdef _Guard alone = guard(&self.occupied, guard(&self.queues.occupied))
        self._reach(now)
        self.queues._catch_up(now)
        self._read_completions()
        return sorted(self.unreported)

    def restart(self, nodes: ArrayLike, programs, long long now) -> list[tuple[int, int]]:
        """Let `nodes` fail at `now` ns; `programs` are the new objects in their place.

        Returns (application, tasks) pairs: what the nodes held and had placed nowhere.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        cdef int at
        self._reach(now)
        held = []
        if len(programs) != u.shape[0]:
            raise ValueError(f"programs must be one for each node, got {len(programs)} for {u.shape[0]}")
        for k in range(u.shape[0]):
            self.programs[u[k]] = programs[k]
            if self.written is not None:
                self.written._forget(u[k])
            timers_cancel(&self.timers, <int> u[k], -1)
            self.local._drop(u[k])
            if self.board is not None and not self.board.of_applications:
                self.board._publish(u[k], INFINITY, False, now)
            at = self.holdings.first[u[k]]
            while at >= 0:
                if self.holdings.entry[at].tasks:
                    held.append((self.holdings.entry[at].application, self.holdings.entry[at].tasks))
                at = self.holdings.entry[at].following
            holdings_forget(&self.holdings, u[k])
        return held

    def begin(self, nodes: ArrayLike):
        """Let `nodes` start at this instant."""
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0] if self.starts else 0):
            touched_add(&self.start, <int> u[k])

    # -- checkpoints --------------------------------------------------------------------------------------------

    def held(self) -> Integers:
        """Return which applications nodes know, and how many tasks they must place: int64[k, (node, application, tasks)]."""
        cdef _Guard alone = guard(&self.occupied)
        return self._holding()

    cdef object _holding(self):
        cdef Py_ssize_t k
        cdef int at
        found = []
        for k in range(self.nodes):
            at = self.holdings.first[k]
            while at >= 0:
                found.append((k, self.holdings.entry[at].application, self.holdings.entry[at].tasks))
                at = self.holdings.entry[at].following
        return np.array(sorted(found), np.int64).reshape(-1, 3)

    def getstate(self) -> dict[str, Any]:
        """What has changed since the core was made, but for the programs; see `gridcore.common.state`.

        It can be read at the end of a wave only.  Raises RuntimeError at another time.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t k
        cdef int slot
        cdef Timer* timer
        cdef RandomStream stream
        if self.dirty:
            raise RuntimeError("the state of nodes can be read at the end of a wave only")
        timers, values, random, turns = [], [], [], []
        local, arrays = self.local._entries(self.payloads)
        for k in range(self.nodes):
            slot = self.timers.first[k]
            while slot >= 0:
                timer = &self.timers.timer[slot]
                timers.append((timer.time, timer.number, k, timer.name))
                values.append(timer.value)
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
            "released": self.released, "number": self.timers.number, "directs": self.directs,
            "placed": self.placed_at + 1,
            "turns": np.array(turns, np.int64).reshape(-1, 3), "turn_number": self.turns.number,
            "completed": np.array([(u, i, n) for u, of in sorted(self.unreported.items()) for i, n in sorted(of.items())],
                                  np.int64).reshape(-1, 3),
            "timers": np.array(timers, np.int64).reshape(-1, 4), "values": np.array(values, np.float64),
            "held": self._holding(),
            "reorder": touched_read(&self.reorder), "start": touched_read(&self.start),
            "end": touched_read(&self.end), "idle": touched_read(&self.idle),
            "random": np.array(random, np.int64).reshape(-1, 2),
            **local, **payload_entries(arrays), **({} if self.board is None else self.board._entries()),
        })

    def setstate(self, state):
        """Go on from what `getstate` of a core made with the same arguments gave.

        Raises ValueError for a state that cannot be its own.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t k
        found = read(state, STATE, nodes=self.nodes, machines=self.queues.machines, applications=self.submitter.shape[0],
                     names=len(self.timer_names), phases=NOTHING + 1, up_to_releases=self.release.shape[0] + 1)
        timers, values = found["timers"], found["values"]
        self.now, self.events = found["now"], found["events"]
        self.pause_at, self.phase = found["pause_at"], found["phase"]
        self.since, self.stuck = self.events, False
        self.released, self.finished = found["released"], False
        self.directs, self.unheard = found["directs"], 0
        self.placed_at = found["placed"] - 1
        timers_free(&self.timers)
        timers_make(&self.timers, self.nodes)
        for k in np.argsort(timers[:, 1], kind="stable"):
            self.timers.number = timers[k, 1]
            timers_set(&self.timers, timers[k, 0], timers[k, 2], timers[k, 3], values[k])
        self.timers.number = found["number"]
        timers_free(&self.turns)
        timers_make(&self.turns, self.nodes)
        turns = found["turns"]
        for k in np.argsort(turns[:, 1], kind="stable"):
            self.turns.number = turns[k, 1]
            timers_set(&self.turns, turns[k, 0], turns[k, 2], 0, 0.0)
        self.turns.number = found["turn_number"]
        self.unreported = {}
        for machine, application, tasks in found["completed"].tolist():
            self.unreported.setdefault(machine, {})[application] = tasks
        self.views, self.streams = [None] * self.nodes, [None] * self.nodes
        holdings_free(&self.holdings)
        holdings_make(&self.holdings, self.nodes)
        for node, application, tasks in found["held"].tolist():
            holdings_give(&self.holdings, node, application, tasks)
        for node, drawn in found["random"].tolist():
            self.streams[node] = RandomStream(self.seed, node, drawn)
        touched_fill(&self.reorder, found["reorder"])
        touched_fill(&self.start, found["start"])
        touched_fill(&self.end, found["end"])
        touched_fill(&self.idle, found["idle"])
        for k in range(self.n_kinds):
            outbox_clear(&self.out[k])
        self.dirty = False
        self.payloads._read(state)
        self.local._read(state, self.payloads)
        if self.board is not None:
            self.board._set(state)

    # -- what others may read -----------------------------------------------------------------------------------

    def machine_of(self, Py_ssize_t node) -> int:
        """The machine on which `node` sits now."""
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        return self.links.machine_of[node]

    def work_of(self, Py_ssize_t machine) -> float:
        """How long `machine` needs for its running task and all that wait there, s."""
        self._check(machine)
        return self._work(machine)

    def available(self, double stretch, double release, double size, double task_size, long long now,
                  machines: ArrayLike) -> Integers:
        """`TaskQueues.available`, which may be called while nodes run, since it changes nothing that they see."""
        cdef bint held = self.queues.occupied
        self.queues.occupied = False
        try:
            return self.queues.available(stretch, release, size, task_size, now, machines)
        finally:
            self.queues.occupied = held

    def room(self, double stretch, Py_ssize_t application, long long now, machines) -> Integers:
        """Ask `DataQueues.room`, also while the core runs: the queues are the core's meanwhile."""
        cdef bint held = self.queues.occupied
        self.queues.occupied = False
        try:
            return (<object> self.queues).room(stretch, application, now, machines)
        finally:
            self.queues.occupied = held

    def tasks_at(self, Py_ssize_t machine) -> int:
        """How many tasks `machine` has, with the running one."""
        self._check(machine)
        return self._tasks_at(machine)

    def waiting_at(self, Py_ssize_t machine) -> int:
        """How many tasks wait at `machine`; a running task does not count."""
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


cdef int _say_closest(error, long long now) except -1:
    """Let the error of a handler that reads what views and messages do not have say what they have.

    A ``__getattr__`` of theirs could say it, too, but would make each read of an attribute slower.
    """
    of = error.obj
    if isinstance(of, View):
        what, known = f"node {of.node}: the view", [name for name in dir(View) if not name.startswith("_")]
    elif isinstance(of, Received):
        what, known = f"a message of the kind {of.kind!r}", ["kind", *of.__slots__]
    else:
        return 0
    error.args, error.obj = (f"t = {now / 1e9} s: {what} has no {error.name!r}; {listed(known, error.name)}",), None
    return 0


cdef object touched_read(const Touched* t):
    """int64[n]: the machines that are to act, ascending."""
    cdef Py_ssize_t k
    return np.array(sorted([t.machine[k] for k in range(t.n)]), np.int64)


cdef int touched_fill(Touched* t, machines) except -1:
    touched_clear(t)
    for machine in machines.tolist():
        touched_add(t, machine)
    return 0
