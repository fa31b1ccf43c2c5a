"""Runs node programs: one Python object a node, which handles what happens there and acts through its view.

Nodes sit on machines.  By default each machine has one node of the same number; a layout may put several nodes on
a machine, one of which is its *home* node: it gets what is submitted there, and hears of the machine's queue.

`NodeCore` owns what is due: the messages in `links`, the ends of queues, releases and timers.  It calls the
handlers of the nodes one after another and passes on what they send, without an array or a closure for a single
message.  It is a source of the engine: between two events of the engine it runs by itself.

Order of what is due at one instant, as the engine has it:

    tasks that end -> deliveries, wave by wave -> acts (reorder, start, end, idle, act) -> messages with a delay of
    their own, then releases -> timers

Tasks: by application, then machine.  Within a wave: by kind of message, then receiver, then order of sending; then
the messages that nodes have sent themselves by `View.later`, by receiver and order of sending.
Messages with a delay of their own: in the order of sending, also those that are sent meanwhile.  Whenever something
earlier in this list becomes due, it goes first; but releases follow the messages before them at once.
What nodes send leaves when the deliveries of a wave, all acts, or all releases and timers have been handled, in the
order of kind, sender, and the sender's own order; or at once, if the programs send so (`at_once`).  Messages with a
delay of their own always leave at once.  Those whose delay is 0 are handled as soon as the handler that sends them
returns.

There is no reference implementation of its own: a policy of the engine's first tier that calls the same nodes by
cohorts is one (see the tests).
"""

from cpython.ref cimport PyObject
from libc.math cimport INFINITY, llrint
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy

cimport cython

from gridcore.common.arguments cimport _Held, check_instant, check_lengths, hold, indices, integers
from gridcore.common.memory cimport grown
from gridcore.common.pending cimport (Event, Pending, pending_clear, pending_first, pending_free, pending_pop, pending_push,
                                      pending_read)
from gridcore.network.links cimport Links
from gridcore.network.mailboxes cimport mailboxes_tidy
from gridcore.nodes.holdings cimport (Holding, Holdings, holdings_add, holdings_find, holdings_forget, holdings_free,
                                      holdings_make)
from gridcore.nodes.outbox cimport Outbox, outbox_add, outbox_clear, outbox_drop, outbox_free, outbox_sort
from gridcore.nodes.timers cimport (Timer, Timers, timers_cancel, timers_first, timers_free, timers_make, timers_release,
                                    timers_set, timers_unlink)
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.touched cimport Touched, touched_add, touched_clear, touched_free, touched_make
from gridcore.queues.availability cimport Grid
from gridcore.queues.edf cimport Queue
from gridcore.queues.journal cimport journal_copy
from gridcore.queues.task_queues cimport Scratch, TaskQueues, scratch_free, scratch_make

import sys

import numpy as np

from gridcore.common.state import LATEST, State, shown
from gridcore.queues import journal_tables
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.nodes.state import read_nodes, read_payloads, told_payloads

__all__ = ["CONTEXT", "NEVER", "NodeCore", "View"]

cdef extern from *:
    """
    static PyObject *gridcore_call(PyObject *name, PyObject *self, PyObject *a, PyObject *b, PyObject *c)
    {
        PyObject *given[5] = {NULL, self, a, b, c};
        size_t n = c != NULL ? 4 : b != NULL ? 3 : 2;
        return PyObject_VectorcallMethod(name, given + 1, n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    static PyObject *gridcore_new(PyObject *type) { return PyType_GenericAlloc((PyTypeObject *) type, 0); }
    """
    object call "gridcore_call"(object name, object self, object a, PyObject* b, PyObject* c)
    object new_object "gridcore_new"(object type)

cdef long long _NEVER = 9223372036854775807
NEVER = _NEVER
#: Timers of a longer time than this (ns) are set for this: no simulation lasts so long.
cdef long long _LONGEST = 2**61
#: The longest that a message takes at an interface, ns, see `gridcore.network.links`.
cdef long long _LONGEST_MESSAGE = 2**40
# What a step handles, in its order within an instant.
cdef enum:
    DELIVERIES, ACTS, TIMERS, NOTHING
# The events that have handlers, after the kinds of messages.
cdef enum:
    ON_START, ON_RELEASE, ON_LOST, ON_TIMER, ON_IDLE, ON_END, ON_ACT, EVENTS
# How many events the core handles before the engine gets control, for a checkpoint or a progress bar.
cdef long long _STRIDE = 8192
# So many releases and timers more are no single wave, but nodes that set timers of 0 s for ever.
cdef long long _ENDLESS = 2**22


cdef int ascending(const void* x, const void* y) noexcept nogil:
    cdef int a = (<const int*> x)[0], b = (<const int*> y)[0]
    return -1 if a < b else a > b


cdef int by_setting(const void* x, const void* y) noexcept nogil:
    """Timers of one instant by (node, name, setting)."""
    cdef const Fire* a = <const Fire*> x
    cdef const Fire* b = <const Fire*> y
    if a.item != b.item:
        return -1 if a.item < b.item else 1
    return -1 if a.number < b.number else 1


cdef struct Fire:                       # a timer that is due
    long long item, number
    int slot


# What compiled handlers get, all of 64 bits, and the names of its fields in order.  See `NodeCore` on `compiled`.
cdef struct Context:
    PyObject* core
    const long long* now                # ns
    long long nodes, degree
    const long long* neighbours         # [nodes, degree]
    const double* speed                 # per machine
    const char* parameters
    const long long* tasks              # per application, as the next four
    const double* task_size
    const double* size
    const double* release               # s
    const double* estimate              # Mflop
    long long* (*send)(PyObject*, long long, long long, long long) except NULL
    int (*sent)(PyObject*, long long, long long, const long long*) except -1
    int (*enqueue)(PyObject*, long long, long long, long long) except -1
    long long (*waiting)(PyObject*, long long) except -1
    double (*work)(PyObject*, long long) except -1.0
    int (*timer)(PyObject*, long long, long long, double, double) except -1
    int (*cancel)(PyObject*, long long, long long) except -1
    int (*heard)(PyObject*, long long, long long) except -1
    int (*draw)(PyObject*, long long, long long, double, double, double*) except -1
    int (*integer)(PyObject*, long long, long long, long long, long long*) except -1
    long long (*take)(PyObject*, long long, long long, long long) except -1
    long long (*queued)(PyObject*, long long, long long*) except -1
    int (*note)(PyObject*, long long, long long, const long long*) except -1
    int (*decide)(PyObject*, long long, long long, const long long*) except -1

CONTEXT = ("core", "now", "nodes", "degree", "neighbours", "speed", "parameters", "tasks", "task_size", "size", "release",
           "estimate", "send", "sent", "enqueue", "waiting", "work", "timer", "cancel", "heard", "draw", "integer", "take",
           "queued", "note", "decide")

# (context, node, the record of the message or what else there is to say, state of the node)
ctypedef int (*Handler)(Context*, long long, const long long*, char*) except -1


@cython.final
@cython.auto_pickle(False)
cdef class _Kind:
    """A kind of message: its number in the links (-1 for a local kind), and what a message object looks like."""

    cdef readonly str name
    cdef readonly tuple fields
    cdef readonly object type           # of the message objects
    cdef object handler                 # the name of the method
    cdef tuple types                    # per field: int, float, or the type of an array
    cdef bytes real                     # per field: 0 for an int, 1 for a float, 2 for an array
    cdef int number, n, application_at, tasks_at
    cdef bint moves, counted, arrays    # arrays: whether it has any
    cdef long long nbytes, length
    cdef object size                    # callable, the fields -> bytes; or None, if all messages have `nbytes`
    cdef long long delay                # ns; -1: it takes its way through the links

    def __init__(self, str name, int number, nbytes, dict fields, bint moves, str handler, long long delay=-1,
                 bint counted=True):
        self.name, self.number, self.moves = name, number, moves
        self.nbytes, self.size = (0, nbytes) if callable(nbytes) else (nbytes or 0, None)
        self.delay, self.counted = delay, counted
        self.handler = sys.intern(handler)
        self.fields, self.types, self.n = tuple(fields), tuple(fields.values()), len(fields)
        self.real = bytes(0 if kind is int else 1 if kind is float else 2 for kind in fields.values())
        self.arrays = 2 in self.real
        self.application_at = self.fields.index("application") if "application" in fields else -1
        self.tasks_at = self.fields.index("tasks") if moves else -1
        self.type = type(name, (_Received,), {"__slots__": ("sender", *self.fields), "kind": name})


class _Received:
    """A message as its receiver gets it: ``kind``, ``sender``, and the fields of its kind."""

    __slots__ = ()
    kind = ""
    plain = True                        # in a checkpoint its `__dict__` stands for it

    @property
    def __dict__(self):
        return {name: getattr(self, name) for name in ("kind", *self.__slots__)}

    def __repr__(self):
        return f"{self.kind}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


@cython.final
@cython.auto_pickle(False)
cdef class View:
    """What a node can see and do: its machine and its queue, the clock, its neighbours' numbers, and messages.

    Its attributes are read-only.
    """

    cdef NodeCore core
    cdef readonly int node              #: The number of this node.
    cdef readonly object slots          #: The slot schedule of this machine, where the scheduler has rigid jobs.
    cdef object _neighbours
    cdef RandomStream _random

    @property
    def machine(self):
        """The number of the machine on which this node sits: `node` itself unless there is a layout."""
        return self.core.links.machine_of[self.node]

    @property
    def machines(self):
        """How many machines there are; they have the numbers 0..machines - 1."""
        return self.core.queues.machines

    @property
    def neighbours(self):
        """The numbers of the neighbours of this node."""
        if self._neighbours is None:
            self._neighbours = tuple(self.core.neighbours[self.node].tolist())
        return self._neighbours

    @property
    def now(self):
        """The simulated time, s."""
        return self.core.now / 1e9

    @property
    def now_ns(self):
        """The simulated time, ns, as a whole number: exact, where `now` is rounded after 52 days."""
        return self.core.now

    @property
    def speed(self):
        """The speed of this machine, Mflop/s."""
        return self.core.queues.speed[self._machine()]

    @property
    def random(self):
        """The node's own random stream."""
        return self._stream()

    cdef RandomStream _stream(self):
        if self._random is None:
            self._random = RandomStream(self.core.seed, self.node)
        return self._random

    @property
    def waiting(self):
        """The number of tasks that wait here; a running task does not count."""
        cdef Py_ssize_t machine = self._machine()
        self.core._catch_up(machine)
        return self.core.queues.waiting[machine]

    @property
    def work(self):
        """How long this machine needs for its running task and all that wait here, s."""
        return self.core._work(self._machine())

    @property
    def minimum_stretch(self):
        """The smallest stretch (s/Mflop) at which the tasks here meet their deadlines; inf if there are none."""
        return self.core._minimum_stretch(self._machine())

    def sample(self, grid, release=None):
        """Return how many tasks this machine could take besides those it has: uint32[nS, nW, nA] on `grid`.

        release : ns, when the application with these tasks would be released; by default now.
        """
        return self.core._sample(self._machine(), grid, self.core.now if release is None else release)

    def completed(self):
        """Return the tasks that this machine has completed since the last call: a list of (application, tasks).

        The scheduler must ask for them (`LocalScheduler.reports`).
        """
        done = self.core._completed(self._machine())
        for application, _ in done:
            self.core._hear(self.node, application)
        return done

    @property
    def queued(self):
        """What waits here: (application, tasks) pairs in the order of the queue, without the running task.

        Tasks that have been enqueued since the queue was last brought into order come at its end.
        """
        return self.core._queued(self._machine())

    def application(self, index):
        """Return an application that this node knows.

        It knows those that were submitted here, and those that came in a message's field ``application``.
        Raises SchedulerError for any other.
        """
        return self.core._application(self._heard(index))

    cdef Py_ssize_t _machine(self) noexcept:
        return self.core.links.machine_of[self.node]

    cdef long long _heard(self, index) except -1:
        """`index` as an integer; raises the core's error if this node does not know the application."""
        if type(index) is not int:
            index = self.core.checked(int, index, self.node, "application")
        self.core._check_heard(self.node, index)
        return index

    def enqueue(self, application, tasks):
        """Queue `tasks` tasks of `application` on this machine.  Raises SchedulerError if the node holds fewer."""
        cdef long long index = self._heard(application)
        if type(tasks) is not int:
            tasks = self.core.checked(int, tasks, self.node, "tasks")
        self.core._enqueue(self.node, index, tasks)

    def take(self, application, tasks):
        """Take tasks of `application` that wait here out of the queue again; return how many.

        These are up to `tasks`, and none if none wait; a running task stays.  The node holds them as it holds
        tasks that are submitted here.  If then no task runs or waits here, `LocalPolicy.on_idle` is called at
        this instant, after the handlers of the current wave, unless tasks have been enqueued by then.
        """
        cdef long long index = self._heard(application)
        if type(tasks) is not int or not 0 <= tasks <= _NEVER:
            tasks = self.core.checked(int, tasks, self.node, "tasks")
        return self.core._take(self.node, index, tasks)

    def send(self, to, kind, **fields):
        """Send a message to node `to`.

        It leaves once all events of the current wave have been handled, unless its kind has a delay of its own or
        the scheduler says `at_once`.

        Raises SchedulerError for an unknown kind or node, for fields other than the declared ones, for
        values of the wrong type, for an application that this node does not know, and for tasks that it does
        not hold.
        """
        cdef NodeCore core = self.core
        cdef _Kind k = core.by_name.get(kind)
        cdef long long target = -1
        cdef long long* row
        cdef Outbox* box
        cdef int i, stored = 0
        if type(to) is not int:
            to = core.checked(int, to, self.node, "the node it sends to")
        if k is None or k.number < 0 or len(fields) != k.n or not 0 <= to < core.nodes:
            raise core._wrong_send(self.node, to, kind, fields)
        target = to
        box = &core.out[k.number]
        row = outbox_add(box, target, self.node)
        try:
            for i in range(k.n):
                name = <object> k.fields[i]
                value = (<dict> fields).get(name, core)
                if value is core:
                    raise core._wrong_send(self.node, to, kind, fields)
                if k.real[i] == 2:
                    row[i] = core._store(core.checked(k.types[i], value, self.node, name))
                    stored = i + 1
                elif k.real[i]:
                    if type(value) is not float:
                        value = core.checked(float, value, self.node, name)
                    (<double*> row)[i] = value
                else:
                    if type(value) is not int or not -_NEVER - 1 <= value <= _NEVER:
                        value = core.checked(int, value, self.node, name)
                    row[i] = value
            if k.size is not None:
                row[k.n] = core._bytes_of(self, k, fields)
            if k.application_at >= 0:
                core._check_sent(self.node, k, row)
        except BaseException:
            for i in range(stored):
                if k.real[i] == 2:
                    core._fetch(row[i])
            outbox_drop(box)
            raise
        if k.delay < 0 and not core.at_once:
            core.dirty = True
            return
        outbox_drop(box)                # the record stays where it is until another one is added
        core._leave(k, row - 2)

    def later(self, seconds, kind, **fields):
        """Let a message of a local kind arrive here after `seconds`, unless the machine fails before that.

        It is for what takes time on this machine, such as a search.  It is handled with the other messages of
        its instant, after them, and is not counted.

        Raises SchedulerError for a kind that is not local, and for fields as `send` does.
        """
        cdef NodeCore core = self.core
        cdef _Kind k = core.by_name.get(kind)
        cdef int i
        if k is None or k.number >= 0 or len(fields) != k.n:
            raise core._wrong_send(self.node, self.node, kind, fields)
        if type(seconds) is not float:
            seconds = core.checked(float, seconds, self.node, f"the time until {kind!r}")
        if not 0 <= seconds < INFINITY:
            raise core.error(f"t = {self.now} s: node {self.node} lets {kind!r} arrive in {seconds!r} s; "
                             f"it must be 0 s or more")
        come = new_object(k.type)
        come.sender = self.node
        for i in range(k.n):
            name = <object> k.fields[i]
            value = (<dict> fields).get(name, core)
            if value is core:
                raise core._wrong_send(self.node, self.node, kind, fields)
            setattr(come, name, core.checked(k.types[i], value, self.node, name))
        if k.application_at >= 0:
            self._heard(come.application)
        core._put_local(core.now + (llrint(<double> seconds * 1e9) if seconds < 2e9 else _LONGEST), core.local_number,
                        self.node, k, come)
        core.local_number += 1

    def timer(self, seconds, name, value=0.0):
        """Call `LocalPolicy.on_timer` with `name` after `seconds`, unless the machine fails before that.

        value : a number that `on_timer` gets as a third argument, if it takes three.

        A timer of the same name, instant and value that is set already is not set again.
        """
        cdef NodeCore core = self.core
        if type(seconds) is not float:
            seconds = core.checked(float, seconds, self.node, f"the timer {name!r}")
        if type(value) is not float:
            value = core.checked(float, value, self.node, f"the value of the timer {name!r}")
        if name not in core.timer_names:
            raise core._wrong_timer(self.node, name, seconds)
        core._set_timer(self.node, core.timer_names.index(name), seconds, value)

    def at(self, instant, name, value=0.0):
        """Set a timer as `timer` does, for an instant in ns (see `now_ns`): exact, however far ahead that is."""
        cdef NodeCore core = self.core
        if type(instant) is not int:
            instant = core.checked(int, instant, self.node, f"the instant of the timer {name!r}")
        if type(value) is not float:
            value = core.checked(float, value, self.node, f"the value of the timer {name!r}")
        if name not in core.timer_names or not core.now <= instant <= _LONGEST:
            raise core._wrong_timer(self.node, name, (instant - core.now) / 1e9)
        timers_set(&core.timers, instant, self.node, core.timer_names.index(name), value)

    def act(self, double seconds=0.0):
        """Call `LocalPolicy.on_act` once, in so many `seconds`, before anything is released at that instant.

        What arrives at that instant arrives first.  If the node fails before that, its successor is called.
        """
        cdef NodeCore core = self.core
        if not (core.acts and 0 <= seconds < INFINITY):
            raise core.error(f"t = {self.now} s: node {self.node} asks to act in {seconds!r} s; it must be in 0 s or "
                             "more, and its class must define on_act")
        timers_set(&core.turns, core.now + (llrint(seconds * 1e9) if seconds < 2e9 else _LONGEST), self.node, 0, 0.0)

    def cancel(self, name):
        """Cancel all timers `name` of this node that have not fired."""
        cdef NodeCore core = self.core
        if name not in core.timer_names:
            raise core.error(f"node {self.node} cancels the timer {name!r}; there are "
                             f"{', '.join(core.timer_names) or 'none'}")
        timers_cancel(&core.timers, self.node, core.timer_names.index(name))

    def note(self, table, **values):
        """Add a row to a table of the result.  No node can read it, and no failure removes it.

        Raises SchedulerError for a table or columns that the scheduler does not declare, and for values of
        the wrong type.
        """
        self.core.noted(self.node, table, values)

    def decide(self, action, application, *, machine=-1, task=-1, tasks=0, among=-1, saw=float("nan"),
               limit=float("nan"), age=float("nan")):
        """Note a decision for `Result.why`.  Nothing is noted unless decisions are recorded.

        action : one of the scheduler's `decision_words`, which say what the numbers measure.
        application, task, tasks : what it is about: an application, one of its tasks, or a number of tasks.
        machine : the machine that it concerns.  among : the number of alternatives.
        saw : the value on which the decision is based.  limit : the threshold it was compared with.
        age : how old the value was, s.

        Raises SchedulerError for an action without words, and for an application that the node does not know.
        """
        self.core.decided(self.node, action, self._heard(application), {
            "machine": machine, "task": task, "tasks": tasks, "among": among, "saw": saw, "limit": limit, "age": age})


@cython.final
@cython.auto_pickle(False)
cdef class NodeCore:
    """Runs the nodes of a grid.

    Parameters
    ----------
    links, queues : the messages in flight and the task queues of the machines, which only the core uses while it runs.
        The links say on which machine each node sits (`Links.machine_of`).
    programs : list, the object of each node; `restart` replaces those of nodes that fail.
    kinds : of each kind (name, number in `links`, bytes, fields, whether it moves tasks, name of the handler), and
        optionally its own delay in ns, -1 for none, and whether it is counted.  The bytes may be a callable that gets
        the fields and returns them.  A field is ``int``, ``float``, or another type for an array; the links must keep
        dropped messages of a kind with arrays.  The number is -1 for a local kind, see `View.later`.
    timers : the names of timers.
    handlers : names of the optional handlers that the programs have: ``on_start``, ``on_end``, ``on_idle``,
        ``on_act``, ``on_timer``, ``on_done``, for which the queues must watch and log completions; ``value`` if
        ``on_timer`` takes the value of the timer.
    neighbours : int64[nodes, degree].
    up : bool[nodes], which nodes are up; it changes as they fail and recover.
    release, submitter, tasks : int64[applications], ns, machine, number; release ascending.
    estimate : float64[applications], Mflop, the stated size of a task, for compiled programs; by default the size that
        the queues have.
    home : int64[machines], the node of each machine that gets what is submitted there, and that handles what its
        queue does; by default the node of the same number.
    until : when the run is over: ``"done"``, all tasks are; ``"placed"``, all tasks are in queues; or ``""``, for
        others to decide.
    application : callable, index -> the application as nodes see it.
    seed : 0..2**64 - 1, of the random streams of the nodes.
    lost : callable, (application, tasks, node), for tasks that a failure has caught on their way to a node; the node
        is -1 for tasks that are submitted while all nodes at home are down.
    noted, decided : callables for `View.note` and `View.decide`, with the node first.
    checked : callable, (type, value, node, name) -> the value as that type, or an error.
    error : the type of the errors that nodes cause.
    compiled : None, or the compiled form of the program: `programs` is then an array of the states of the nodes, one
        record each, and `compiled` has ``handlers``, name of a kind or event -> address; ``parameters``, the record that
        handlers read; ``tables`` and ``actions``, as their numbers mean them, (name, columns) and names.
    observe : callable, (ns, number of a kind, uint8[k, width] records), for all that is sent; or None.
    at_once : messages leave at once, in the order in which handlers send them.
    slots : callable, node -> its `View.slots`; or None.

    Raises ValueError for arguments that do not fit.
    """

    cdef bint occupied                  # see `gridcore.common.arguments.hold`
    cdef Links links
    cdef TaskQueues queues
    cdef readonly object programs       # list of objects, or array of states
    cdef list views
    cdef dict by_name, applications
    cdef list kinds                     # by their numbers
    cdef list local_kinds               # those that are not of the links
    cdef Pending local                  # local messages by the time and order in which they arrive
    cdef list local_messages            # by slot: (node, kind, message), or None for one whose machine has failed
    cdef list local_unused              # unused slots
    cdef long long local_number
    cdef object slots
    cdef list payloads, unused_payloads # arrays of messages that have been sent and not arrived; None for none
    cdef readonly Py_ssize_t nodes
    cdef tuple timer_names
    cdef bint starts, ends, idles, dones, acts, fires, values, at_once, until_done, until_placed
    cdef unsigned long long seed
    cdef object neighbours, make_application, lost, noted, decided, checked, error, observe
    cdef unsigned char[::1] up
    cdef const long long[::1] release, submitter, tasks
    cdef const double[::1] estimate
    cdef const long long[::1] home
    cdef Py_ssize_t released, n_kinds
    cdef long long total
    cdef Outbox* out
    cdef Timers timers, turns           # turns: the nodes that want to act, and when
    cdef dict unreported                # machine -> application -> completed tasks that no node has asked for
    cdef Holdings holdings
    cdef Fire* firing
    cdef Py_ssize_t firing_room
    cdef Touched reorder, start, end, idle
    cdef int* acting                    # scratch: the machines that act
    cdef Py_ssize_t acting_room
    cdef readonly long long now         #: ns
    cdef readonly long long events      #: how many handler calls there have been
    cdef long long limit, pause_at
    cdef int phase                      # of what has been handled last
    cdef bint dirty                     # something has been sent that has not left
    cdef int[::1] direct                # numbers of the kinds with a delay of their own
    cdef long long directs              # messages of these kinds sent so far
    cdef long long unheard              # messages with a delay of 0 that have not been handled
    cdef bint handling_now              # whether they are being handled
    cdef readonly bint finished         #: whether the run is over
    cdef readonly long long placed_at   #: ns, when all tasks were in queues for the first time; -1: not yet
    cdef object compiled
    cdef Context context
    cdef Handler* handle                # of compiled programs: per kind, then `on_start` and so on; NULL: interpreted
    cdef unsigned char[:, ::1] states
    cdef char* state
    cdef Py_ssize_t stride              # bytes of a state

    def __cinit__(self, Links links, TaskQueues queues, *, programs, kinds, timers, handlers, neighbours, up,
                  release, submitter, tasks, application, seed, lost, noted, decided, checked, error, compiled=None,
                  observe=None, bint at_once=False, home=None, str until="done", slots=None, estimate=None):
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
        self.views = [None] * self.nodes
        self.n_kinds = links.kinds
        self.by_name, self.kinds = {}, [None] * self.n_kinds
        self.payloads, self.unused_payloads = [], []
        self.local_kinds, self.local_messages, self.local_unused, self.slots = [], [], [], slots
        self.out = <Outbox*> grown(NULL, max(1, self.n_kinds) * sizeof(Outbox))
        for k in range(self.n_kinds):
            self.out[k].data, self.out[k].place = NULL, NULL
            self.out[k].words = self.out[k].n = self.out[k].room = self.out[k].place_room = 0
            self.out[k].unsorted = False
        for given in kinds:
            kind = _Kind(*given)
            self._add_kind(kind)
        if None in self.kinds:
            raise ValueError(f"kinds must have all {self.n_kinds} kinds of the links")
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
        self.direct = np.array([k for k in range(self.n_kinds) if (<_Kind> self.kinds[k]).delay >= 0], np.int32)
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
        self.estimate = None if estimate is None else np.ascontiguousarray(estimate, np.float64)
        if self.estimate is not None and self.estimate.shape[0] != self.tasks.shape[0]:
            raise ValueError(f"estimate must have {self.tasks.shape[0]} entries, got {self.estimate.shape[0]}")
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
        self.now, self.phase, self.pause_at = 0, NOTHING, _STRIDE
        if compiled is not None:
            self._compile(compiled)
        for k in range(self.nodes if self.starts else 0):
            touched_add(&self.start, <int> k)

    cdef int _add_kind(self, _Kind kind) except -1:
        cdef int number = kind.number
        if number == -1:
            self.by_name[kind.name] = kind
            self.local_kinds.append(kind)
            return 0
        if not 0 <= number < self.n_kinds or self.kinds[number] is not None:
            raise ValueError(f"kinds: {kind.name!r} must be a kind of the links of its own, got {number}")
        if self.links.width[number] != 8 * (2 + kind.n):
            raise ValueError(f"kinds: a record of {kind.name!r} must have {8 * (2 + kind.n)} bytes")
        if kind.arrays and not self.links.keep[number]:
            raise ValueError(f"kinds: the links must keep dropped messages of {kind.name!r}, which has arrays")
        kind.length = self.links._length(kind.nbytes)
        if kind.delay >= 0:
            self.links.inner[number] = True
        self.out[number].words = 2 + kind.n + (kind.size is not None)  # bytes that differ come last
        self.kinds[number] = self.by_name[kind.name] = kind
        return 0

    cdef int _compile(self, compiled) except -1:
        """Call compiled handlers from now on."""
        cdef Context* c = &self.context
        cdef Py_ssize_t k
        cdef const long long[:, ::1] neighbours = self.neighbours
        cdef const unsigned char[::1] parameters = compiled.parameters.view(np.uint8).reshape(-1)
        cdef TaskQueues queues = self.queues
        cdef size_t address
        self.compiled = compiled
        self.states = self.programs.view(np.uint8).reshape(self.nodes, -1)
        self.state, self.stride = <char*> &self.states[0, 0] if self.nodes else NULL, self.states.shape[1]
        self.handle = <Handler*> grown(NULL, (self.n_kinds + EVENTS) * sizeof(Handler))
        names = [(<_Kind> kind).name for kind in self.kinds] + ["start", "release", "lost", "timer", "idle", "end",
                                                              "act"]
        for k in range(self.n_kinds + EVENTS):
            address = compiled.handlers.get(names[k] if k < self.n_kinds else f"on_{names[k]}", 0)
            self.handle[k] = <Handler> address
        c.core, c.now, c.nodes, c.degree = <PyObject*> self, &self.now, self.nodes, self.neighbours.shape[1]
        c.neighbours = &neighbours[0, 0] if neighbours.size else NULL
        c.speed = &queues.speed[0] if self.nodes else NULL
        c.parameters = <const char*> &parameters[0] if parameters.shape[0] else NULL
        if self.tasks.shape[0]:
            c.tasks, c.task_size, c.size = &self.tasks[0], &queues.task_size[0], &queues.size[0]
            c.release = &queues.release[0]
            c.estimate = c.task_size if self.estimate is None else &self.estimate[0]
        c.send, c.sent, c.enqueue, c.waiting, c.work = on_send, on_sent, on_enqueue, on_waiting, on_work
        c.timer, c.cancel, c.heard, c.draw, c.integer = on_timer, on_cancel, on_heard, on_draw, on_integer
        c.take, c.queued, c.note, c.decide = on_take, on_queued, on_note, on_decide
        return 0

    cdef int _run(self, Py_ssize_t which, Py_ssize_t node, const long long* given) except -1:
        """Call a compiled handler, if there is one; without those of messages and releases nothing goes on."""
        if self.handle[which] != NULL:
            return self.handle[which](&self.context, node, given, self.state + node * self.stride)
        if which < self.n_kinds or which - self.n_kinds in (ON_RELEASE, ON_LOST):
            missing = "on_message" if which < self.n_kinds else "on_release"
            raise self.error(f"{self.compiled.name} does not define {missing}")
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t k
        free(self.handle)
        for k in range(self.n_kinds if self.out != NULL else 0):
            outbox_free(&self.out[k])
        free(self.out)
        timers_free(&self.timers)
        timers_free(&self.turns)
        holdings_free(&self.holdings)
        pending_free(&self.local)
        free(self.firing)
        free(self.acting)
        touched_free(&self.reorder)
        touched_free(&self.start)
        touched_free(&self.end)
        touched_free(&self.idle)

    # -- what nodes see and do, see `View` ----------------------------------------------------------------

    cdef View _view(self, Py_ssize_t node):
        cdef View view = <View> (<list> self.views)[node]
        if view is None:
            view = View.__new__(View)
            view.core, view.node = self, <int> node
            if self.slots is not None:
                view.slots = self.slots(node)
            self.views[node] = view
        return view

    cdef object _application(self, long long index):
        found = self.applications.get(index)
        if found is None:
            found = self.applications[index] = self.make_application(index)
        return found

    cdef int _catch_up(self, Py_ssize_t machine) except -1:
        self.queues._advance(machine, self.now)
        self.queues._update(machine)
        return 0

    cdef double _work(self, Py_ssize_t machine) except -1.0:
        cdef TaskQueues queues = self.queues
        cdef Py_ssize_t k, first
        cdef double left = 0.0, size = 0.0
        self._catch_up(machine)
        first = queues.first[machine]
        for k in range(first, first + queues.count[machine]):
            size += queues.task_size[queues.share[machine, k, 0]] * queues.share[machine, k, 1]
        if queues.running[machine] >= 0 and queues.free_at[machine] > self.now:
            left = (queues.free_at[machine] - self.now) / 1e9
        return left + size / queues.speed[machine]

    cdef double _minimum_stretch(self, Py_ssize_t machine) except -1.0:
        cdef TaskQueues queues = self.queues
        cdef Queue q
        cdef Scratch s
        cdef double found
        self._catch_up(machine)
        if queues.running[machine] < 0 and queues.count[machine] == 0:
            return INFINITY
        if not scratch_make(&s, queues.capacity, 0):
            raise MemoryError
        queues._gather(machine, self.now, False, &q, &s)
        found = queues._minimum(&q, &s)
        scratch_free(&s)
        return found

    cdef object _sample(self, Py_ssize_t machine, grid, long long release):
        cdef Grid g
        cdef Scratch s
        if type(grid) is not SummaryGrid:
            raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
        if not self.now <= release <= LATEST:
            raise ValueError(f"release must be in {self.now}..{LATEST} ns, got {release}")
        cdef const double[::1] stretch = grid.stretch, size = grid.size, task_size = grid.task_size
        result = np.empty(grid.cells, np.uint32)
        cdef unsigned int[::1] out = result
        g.n_stretch, g.n_size, g.n_task_size = stretch.shape[0], size.shape[0], task_size.shape[0]
        g.stretch, g.size, g.task_size = &stretch[0], &size[0], &task_size[0]
        self._catch_up(machine)
        if not scratch_make(&s, self.queues.capacity, g.n_size):
            raise MemoryError
        self.queues._sample(machine, self.now, release, &g, &out[0], &s)
        scratch_free(&s)
        return result.reshape(grid.shape)

    cdef list _completed(self, Py_ssize_t machine):
        self._catch_up(machine)
        self._read_completions()
        return sorted(self.unreported.pop(machine, {}).items())

    cdef int _read_completions(self) except -1:
        """Sort what the queues have completed by machine."""
        if self.queues.ended.n == 0:
            return 0
        rows = np.empty((self.queues.ended.n, 6), np.int64)
        journal_copy(&self.queues.ended, rows)
        self.queues.ended.n = 0
        for machine, application, tasks, _ in zip(*(each.tolist() for each in journal_tables.completions(rows))):
            done = self.unreported.setdefault(machine, {})
            done[application] = done.get(application, 0) + tasks
        return 0

    cdef int _check_heard(self, Py_ssize_t node, long long application) except -1:
        """Raise the error of nodes if this node does not know the application."""
        if holdings_find(&self.holdings, node, application) == NULL:
            raise self.error(f"t = {self.now / 1e9} s: node {node} has not heard of application {application}")
        return 0

    cdef int _hear(self, Py_ssize_t node, long long application, long long tasks=0) except -1:
        """Make the application known to the node, and give it tasks that it must place."""
        holdings_add(&self.holdings, node, application).tasks += tasks
        return 0

    cdef int _place(self, Py_ssize_t node, long long application, long long tasks) except -1:
        """Take tasks that the node places; raises the error of nodes if it holds fewer."""
        cdef Holding* held = holdings_find(&self.holdings, node, application)
        if held == NULL or not 0 <= tasks <= held.tasks:
            raise self.error(f"node {node} places {tasks} tasks of application {application}, "
                             f"and has {0 if held == NULL else held.tasks} of it to place")
        held.tasks -= tasks
        return 0

    cdef int _check_sent(self, Py_ssize_t node, _Kind k, const long long* row) except -1:
        """Check that the node knows the application it sends, and take the tasks that the message moves from it."""
        cdef long long application = row[k.application_at]
        if holdings_find(&self.holdings, node, application) == NULL:
            raise self.error(f"t = {self.now / 1e9} s: node {node} sends {k.name!r} with application "
                             f"{application}, of which it has not heard")
        return self._place(node, application, row[k.tasks_at]) if k.moves else 0

    cdef int _enqueue(self, Py_ssize_t node, long long application, long long tasks) except -1:
        cdef Py_ssize_t machine = self.links.machine_of[node]
        self._place(node, application, tasks)
        if not 1 <= tasks < 2**31:
            raise self.error(f"t = {self.now / 1e9} s: node {node} enqueues {tasks} tasks of application "
                             f"{application}; it must be in 1..{2**31 - 1}")
        try:
            self.queues._enqueue(machine, <int> application, tasks, self.now)
        except BaseException:
            self.queues._update(machine)
            raise
        touched_add(&self.reorder, <int> machine)
        return 0

    cdef object _wrong_timer(self, node, name, seconds):
        return self.error(f"t = {self.now / 1e9} s: node {node} sets the timer {name!r} in {seconds!r} s; "
                          f"it must be one of {', '.join(self.timer_names) or 'none'}, in 0 s or more")

    cdef int _set_timer(self, Py_ssize_t node, Py_ssize_t name, double seconds, double value) except -1:
        cdef long long at
        if not 0 <= seconds < INFINITY:
            raise self._wrong_timer(node, self.timer_names[name], seconds)
        at = self.now + (llrint(seconds * 1e9) if seconds < 2e9 else _LONGEST)
        return timers_set(&self.timers, at, <int> node, <int> name, value)

    cdef long long _take(self, Py_ssize_t node, long long application, long long tasks) except -1:
        cdef TaskQueues queues = self.queues
        cdef Py_ssize_t machine = self.links.machine_of[node]
        if tasks < 0:
            raise self.error(f"t = {self.now / 1e9} s: node {node} takes {tasks} tasks of application {application}; "
                             "it must be 0 or more")
        tasks = queues._withdraw(machine, <int> application, tasks, self.now)
        if tasks == 0:
            return 0
        self._hear(node, application, tasks)
        touched_add(&self.reorder, <int> machine)
        if self.idles and queues.count[machine] == 0 and queues.running[machine] < 0:
            touched_add(&self.idle, <int> machine)
        return tasks

    cdef tuple _queued(self, Py_ssize_t machine):
        cdef int[:, :, ::1] share
        cdef Py_ssize_t k, first
        self._catch_up(machine)
        share, first = self.queues.share, self.queues.first[machine]
        return tuple([(share[machine, k, 0], share[machine, k, 1])
                      for k in range(first, first + self.queues.count[machine])])

    cdef object _wrong_send(self, node, to, kind, dict fields):
        known = {name: list((<_Kind> each).fields) for name, each in self.by_name.items()}
        return self.error(f"t = {self.now / 1e9} s: node {node} sends {kind!r} with {sorted(fields)} to "
                          f"node {to}; there are {known} and nodes 0..{self.nodes - 1}")

    # -- local messages -------------------------------------------------------------------------------------

    cdef int _put_local(self, long long time, long long number, int node, _Kind kind, message) except -1:
        cdef int slot
        if self.local_unused:
            slot = self.local_unused.pop()
        else:
            slot = <int> len(self.local_messages)
            self.local_messages.append(None)
        self.local_messages[slot] = node, kind, message
        return pending_push(&self.local, time, number, slot)

    cdef long long _first_local(self) except -1:
        """When the next local message arrives, ns; `NEVER` if there is none."""
        cdef const Event* e
        while True:
            e = pending_first(&self.local)
            if e == NULL:
                return _NEVER
            if self.local_messages[e.slot] is not None:
                return e.time
            self.local_unused.append(pending_pop(&self.local).slot)

    cdef int _deliver_local(self) except -1:
        """Handle the local messages that have arrived, by receiver."""
        cdef Event e
        due = []
        while self._first_local() <= self.now:
            e = pending_pop(&self.local)
            due.append((self.local_messages[e.slot][0], e.sequence, self.local_messages[e.slot]))
            self.local_messages[e.slot] = None
            self.local_unused.append(e.slot)
        if len(due) > 1:
            due.sort()                  # no two have the same number
        self.events += len(due)
        for node, _, (_, kind, message) in due:
            call((<_Kind> kind).handler, self.programs[node], self._view(node), <PyObject*> message, NULL)
        return 0

    cdef tuple _told_local(self):
        """Local messages as entries of a state, and all arrays in messages, those of the links first.

        The entries are ``local``, columns time, number, node and number of the kind, and ``local_fields``, the fields
        of all of them: a number, the bits of a float, or the number of an array.
        """
        cdef _Kind kind
        cdef Py_ssize_t k
        payloads, rows, words = list(self.payloads), [], []
        events = np.empty((self.local.n + self.local.n_run, 3), np.int64)
        pending_read(&self.local, events)
        for time, number, slot in events[np.argsort(events[:, 1])].tolist():
            if self.local_messages[slot] is None:
                continue
            node, kind, message = self.local_messages[slot]
            rows.append((time, number, node, self.local_kinds.index(kind)))
            for k in range(kind.n):
                value = getattr(message, kind.fields[k])
                if kind.real[k] == 2:
                    payloads.append(value)
                    value = len(payloads) - 1
                words.append(int(np.float64(value).view(np.int64)) if kind.real[k] == 1 else value)
        return {"local": np.array(rows, np.int64).reshape(-1, 4), "local_fields": np.array(words, np.int64),
                "local_number": self.local_number}, payloads

    cdef int _read_local(self, state) except -1:
        """Read the local messages of a state; the arrays in messages must have been read before."""
        cdef _Kind kind
        cdef Py_ssize_t k, at = 0
        read = State(state)
        rows = read.array("local", np.int64, (None, 4), 0)
        fields = read.array("local_fields", np.int64, (None,))
        self.local_number = read.whole("local_number", 0, LATEST)
        self.local_messages, self.local_unused = [], []
        pending_clear(&self.local)
        if (rows > (2 * LATEST, LATEST, self.nodes - 1, len(self.local_kinds) - 1)).any():
            raise ValueError(f"state['local'] must be of {self.nodes} nodes and {len(self.local_kinds)} kinds")
        for time, number, node, index in rows.tolist():
            kind = self.local_kinds[index]
            if at + kind.n > len(fields):
                raise ValueError(f"state['local_fields'] must have the fields of all messages, got {len(fields)}")
            message = new_object(kind.type)
            message.sender = node
            for k in range(kind.n):
                value = fields[at + k]
                if kind.real[k] == 2:
                    if not 0 <= value < len(self.payloads) or self.payloads[value] is None:
                        raise ValueError(f"state['local_fields'] must name arrays of the state, got {value}")
                    value = self._fetch(value)
                else:
                    value = float(value.view(np.float64)) if kind.real[k] else int(value)
                setattr(message, kind.fields[k], value)
            at += kind.n
            self._put_local(time, number, node, kind, message)
        return 0

    # -- arrays in messages ---------------------------------------------------------------------------------

    cdef long long _store(self, array) except -1:
        """Keep an array until its message arrives or is dropped, and return its number."""
        cdef long long number
        if self.unused_payloads:
            number = self.unused_payloads.pop()
            self.payloads[number] = array
            return number
        self.payloads.append(array)
        return len(self.payloads) - 1

    cdef object _fetch(self, long long number):
        """Return an array that has been kept, and keep it no longer."""
        # a state that was read from a file may name any
        if not 0 <= number < len(self.payloads) or self.payloads[number] is None:
            raise ValueError(f"a message has the array {number}, which is not there")
        array = self.payloads[number]
        self.payloads[number] = None
        self.unused_payloads.append(number)
        return array

    cdef long long _bytes_of(self, View view, _Kind kind, dict fields) except -1:
        """Return the bytes of a message whose size depends on its fields."""
        nbytes = self.checked(int, kind.size(**fields), view.node, f"the bytes of {kind.name!r}")
        if not 0 <= nbytes < 2**31:
            raise self.error(f"node {view.node} gives {nbytes} for the bytes of {kind.name!r}; "
                             f"it must be in 0..{2**31 - 1}")
        self.links._length(nbytes)
        return nbytes

    # -- what is due ----------------------------------------------------------------------------------------

    cdef long long _due(self) except -1:
        """When something is due next, ns; `NEVER` if nothing is."""
        cdef long long first
        if self._touched():
            self.links._advance(self.now)
            return self.now
        first = min(min(timers_first(&self.timers), timers_first(&self.turns)), self._first_local())
        if self.queues.machines:
            first = min(first, self.queues.change[self.queues.heap[0]])
        if self.released < self.release.shape[0]:
            first = min(first, self.release[self.released])
        # the links run no further: what happens first may send something that arrives before what is under way
        return min(first, self.links._advance(min(first, self.limit)))

    cdef bint _touched(self) noexcept:
        """Whether machines or nodes are to act at this instant, besides those that have asked for it."""
        return self.reorder.n or self.start.n or self.end.n or self.idle.n

    cdef int _phase_due(self) except -1:
        """The phase of what is to be handled first at this instant."""
        if self.links._first_outer() <= self.now or self._first_local() <= self.now:
            return DELIVERIES
        if self._touched() or timers_first(&self.turns) <= self.now:
            return ACTS
        if self.released < self.release.shape[0] and self.release[self.released] <= self.now:
            return TIMERS
        if self.direct.shape[0] and self._next_direct() >= 0:
            return TIMERS
        return TIMERS if timers_first(&self.timers) <= self.now else NOTHING

    def advance(self, long long limit):
        """Run all that is due up to `limit` ns; the instant at which the engine is needed, else `NEVER`.

        It is needed where all tasks are done or `stop` was called (`finished`), and now and then for what the engine
        does meanwhile.
        What was sent by the last releases or timers of the instant `limit` has not left yet: an event of the
        engine at that instant may still fall into the same wave, after which `flush` must be called.
        """
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied, hold(&self.queues.occupied)))
        cdef long long at
        cdef int phase
        self.limit = limit
        while True:
            if self.dirty and not (self.phase == TIMERS and self.now >= self.limit):
                # unless more of the same wave is due, which only releases and timers can be
                if self.phase != TIMERS or self._phase_due() != TIMERS:
                    self._flush()
            if self.finished:
                return self.now
            at = self._due()
            if at > self.limit or at == _NEVER:
                return _NEVER
            if at > self.now:
                self.now = at
            if self.events >= self.pause_at and (not self.dirty or self.events >= self.pause_at + _ENDLESS):
                self.pause_at = self.events + _STRIDE
                return self.now
            if self.queues.machines and self.queues.change[self.queues.heap[0]] <= self.now:
                self._collect_idle()
                if self.finished:
                    return self.now
            phase = self._phase_due()
            if phase != self.phase and self.dirty:
                self._flush()
                continue
            self.phase = phase
            if phase == DELIVERIES:
                self._wave()
            elif phase == ACTS:
                self._act()
            elif phase == TIMERS:
                self._release_or_fire()

    def wake(self, long long time):
        """Let the engine have control at `time` ns: it has an event then that the present `advance` does not know."""
        if time < self.limit:
            self.limit = time

    def stop(self):
        """Let `advance` return, `finished`, once the present wave has been handled."""
        self.finished = True

    def enter(self, long long now):
        """Let an event of the engine at `now` ns call handlers itself: what they send leaves after its wave (`flush`)."""
        cdef _Held alone = hold(&self.occupied)
        self._reach(now)
        self.phase, self.limit = TIMERS, now

    def view_of(self, Py_ssize_t node, Py_ssize_t application):
        """Return the view of `node`, to which this makes an application known."""
        self._check_node(node, application)
        self._hear(node, application)
        return self._view(node)

    def flush(self):
        """Let what has been sent leave, at the end of a wave of the engine."""
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied))
        if self.dirty:
            self._flush()

    @property
    def exhausted(self):
        """Whether nothing is left to do."""
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied))
        self.limit = _NEVER
        return not self.dirty and self._due() == _NEVER

    cdef int _collect_idle(self) except -1:
        """Take the machines whose queues have run idle, or that have ended a task."""
        cdef TaskQueues queues = self.queues
        cdef int machine
        while queues.change[queues.heap[0]] <= self.now:
            machine = queues.heap[0]
            queues._advance(machine, self.now)
            queues._update(machine)
            if self.ends:
                touched_add(&self.end, machine)
            if self.idles:
                touched_add(&self.idle, machine)
        self.finished = self.until_done and queues.tasks_done == self.total
        if self.dones:
            self._end_tasks()
        return 0

    cdef int _end_tasks(self) except -1:
        """Tell the nodes of the tasks that have ended at this instant."""
        cdef object application
        rows = np.empty((self.queues.ended.n, 6), np.int64)
        journal_copy(&self.queues.ended, rows)
        self.queues.ended.n = 0
        for machine, index, tasks in rows[np.lexsort((rows[:, 0], rows[:, 1])), :3].tolist():
            application, node = self._application(index), self.home[machine]
            for _ in range(tasks):
                call("on_done", self.programs[node], self._view(node), <PyObject*> application, NULL)
                if self.unheard:
                    self._handle_now()
            self.events += tasks
        if self.dirty:
            self._flush()
        return 0

    # -- deliveries -------------------------------------------------------------------------------------------

    cdef int _wave(self) except -1:
        """Handle all messages that have arrived, and let what was sent meanwhile leave."""
        cdef Py_ssize_t number, k, n
        cdef Links links = self.links
        for number in range(self.n_kinds):
            if (links.deferred[number] or pending_first(&links.queue[number]) == NULL
                    or (<_Kind> self.kinds[number]).delay >= 0):
                continue
            n = links._take(<int> number, self.now)
            links._by_node(n)
            for k in range(n):
                self._deliver(<_Kind> self.kinds[number], links.due[k].slot, NULL)
            self.events += n
        if self._first_local() <= self.now:
            self._deliver_local()
        for k in range(links.n_missing):
            self._lose(links.missing[k])
        links.n_missing = 0
        if self.dirty:
            self._flush()
        return 0

    cdef int _drain(self) except -1:
        """Handle the messages of deferred kinds that have arrived, by machine and time."""
        cdef Py_ssize_t number, k
        cdef const unsigned char[:, ::1] rows
        cdef const long long[::1] order
        for number in range(self.n_kinds):
            if not self.links.deferred[number]:
                continue
            machine, times, records = (np.concatenate(column) for column in zip(
                self.links._take_unboxed(<int> number, self.now), self.links._take_boxed(<int> number, self.now)))
            rows, order = records, np.lexsort((times, machine))
            for k in range(order.shape[0]):
                self._deliver(<_Kind> self.kinds[number], -1, <const long long*> &rows[order[k], 0])
            self.events += order.shape[0]
        mailboxes_tidy(&self.links.boxes)
        return 0

    cdef int _deliver(self, _Kind kind, int slot, const long long* row) except -1:
        """Hand a message over to its receiver: that in `slot`, which is freed, or that in `row` if that is given."""
        cdef View view
        cdef object come
        cdef int i
        if row == NULL:
            row = <const long long*> (self.links.data + slot * self.links.stride)
        if kind.application_at >= 0:
            self._hear(row[0], row[2 + kind.application_at], row[2 + kind.tasks_at] if kind.moves else 0)
        if self.handle != NULL:
            self._run(kind.number, row[0], row)
            self.links._give_back(slot)
            return 0
        view, come = self._view(row[0]), new_object(kind.type)
        come.sender = row[1]
        for i in range(kind.n):
            if kind.real[i] == 2:
                setattr(come, <str> kind.fields[i], self._fetch(row[2 + i]))
            elif kind.real[i]:
                setattr(come, <str> kind.fields[i], (<const double*> row)[2 + i])
            else:
                setattr(come, <str> kind.fields[i], row[2 + i])
        if slot >= 0:
            self.links._give_back(slot)
        call(kind.handler, self.programs[view.node], view, <PyObject*> come, NULL)
        if self.unheard:
            self._handle_now()
        return 0

    cdef int _lose(self, int slot) except -1:
        """A message that moves tasks or has arrays has been dropped."""
        cdef const long long* row = <const long long*> (self.links.data + slot * self.links.stride)
        cdef _Kind kind = <_Kind> self.kinds[self.links.message[slot].kind]
        cdef long long application = 0, tasks = 0
        cdef int i
        if kind.moves:
            application, tasks = row[2 + kind.application_at], row[2 + kind.tasks_at]
        for i in range(kind.n if kind.arrays else 0):
            if kind.real[i] == 2:
                self._fetch(row[2 + i])
        cdef long long node = row[0]
        self.links._give_back(slot)
        if kind.moves:
            self.lost(application, tasks, node)
        return 0

    cdef int _flush(self) except -1:
        cdef Py_ssize_t number, k
        cdef Outbox* box
        cdef _Kind kind
        cdef const long long* row
        cdef long long nbytes
        self.dirty = False
        for number in range(self.n_kinds):
            box = &self.out[number]
            if box.n == 0:
                continue
            check_instant(self.now, "now", 2 * self.links.latency + _LONGEST_MESSAGE)
            kind = <_Kind> self.kinds[number]
            if box.unsorted:
                outbox_sort(box)
            if self.observe is not None:
                self._tell(box, <int> number)
            for k in range(box.n):
                row = box.data + (box.place[k].at if box.unsorted else k) * box.words
                if kind.size is None:
                    self.links._send(self.now, <int> number, row, kind.nbytes, kind.length)
                else:
                    nbytes = row[2 + kind.n]
                    self.links._send(self.now, <int> number, row, nbytes, self.links._length(nbytes))
            outbox_clear(box)
        return 0

    cdef int _tell(self, Outbox* box, int number) except -1:
        cdef Py_ssize_t k, nbytes = self.links.width[number]
        records = np.empty((box.n, nbytes), np.uint8)
        cdef unsigned char[:, ::1] to = records
        for k in range(box.n):
            memcpy(&to[k, 0], box.data + (box.place[k].at if box.unsorted else k) * box.words, nbytes)
        self.observe(self.now, number, records)
        return 0

    # -- messages that leave at once ----------------------------------------------------------------------------

    cdef int _leave(self, _Kind kind, const long long* row) except -1:
        """Send one message, whose record is at `row`."""
        cdef Links links = self.links
        cdef long long nbytes = kind.nbytes if kind.size is None else row[2 + kind.n]
        check_instant(self.now, "now", max(kind.delay, 2 * links.latency + _LONGEST_MESSAGE))
        if self.observe is not None:
            records = np.empty((1, 8 * (2 + kind.n)), np.uint8)
            self._copy(row, records)
            self.observe(self.now, kind.number, records)
        if kind.delay < 0:
            return links._send(self.now, kind.number, row, nbytes,
                               kind.length if kind.size is None else links._length(nbytes))
        links._send_past(self.now, kind.number, row, nbytes, kind.delay, self.directs, kind.counted)
        self.directs += 1
        if kind.delay == 0:
            self.unheard += 1
        return 0

    cdef int _copy(self, const long long* row, unsigned char[:, ::1] records) except -1:
        memcpy(&records[0, 0], row, records.shape[1])
        return 0

    cdef int _next_direct(self) noexcept:
        """The kind of the first message with a delay of its own that has arrived; -1 if there is none."""
        cdef Py_ssize_t k
        cdef int first = -1
        cdef long long time = self.now, sequence = _NEVER
        cdef const Event* e
        for k in range(self.direct.shape[0]):
            e = pending_first(&self.links.queue[self.direct[k]])
            if e != NULL and (e.time < time or e.time == time and e.sequence < sequence):
                time, sequence, first = e.time, e.sequence, self.direct[k]
        return first

    cdef int _take_direct(self, int number) except -1:
        cdef int slot = self.links._take_first(number)
        self.events += 1
        if slot >= 0:
            return self._deliver(<_Kind> self.kinds[number], slot, NULL)
        while self.links.n_missing:
            self.links.n_missing -= 1
            self._lose(self.links.missing[self.links.n_missing])
        return 0

    cdef int _handle_now(self) except -1:
        """Handle the messages with a delay of 0, also those that are sent meanwhile, in the order of sending."""
        cdef Py_ssize_t k
        cdef int first
        cdef const Event* e = NULL
        cdef const Event* other
        if self.handling_now:
            return 0
        self.handling_now = True
        try:
            while self.unheard:
                first = -1
                for k in range(self.direct.shape[0]):
                    if (<_Kind> self.kinds[self.direct[k]]).delay == 0:
                        other = pending_first(&self.links.queue[self.direct[k]])
                        if other != NULL and (first < 0 or other.sequence < e.sequence):
                            e, first = other, self.direct[k]
                self.unheard -= 1
                self._take_direct(first)
        finally:
            self.handling_now = False
        return 0

    # -- acts -------------------------------------------------------------------------------------------------

    cdef int _act(self) except -1:
        """Let the machines act that must be reordered, else nodes that start, else those at home on machines that
        have ended a task, else those at home on machines that are idle, else those that want to act.
        """
        if not self._touched():
            return self._take_turns()
        cdef Touched* t = (&self.reorder if self.reorder.n else &self.start if self.start.n
                           else &self.end if self.end.n else &self.idle)
        cdef Py_ssize_t k, n = t.n
        cdef int machine, node
        if n > self.acting_room:
            self.acting = <int*> grown(self.acting, n * sizeof(int))
            self.acting_room = n
        memcpy(self.acting, t.machine, n * sizeof(int))
        touched_clear(t)
        if n > 1:
            qsort(self.acting, n, sizeof(int), ascending)
        self.events += n
        if t == &self.reorder:
            self._reorder(n)
            if self.placed_at < 0 and self.queues.enqueued >= self.total:
                self.placed_at = self.now
                self.finished = self.until_placed
            return 0
        for k in range(n):
            machine = node = self.acting[k]
            if t != &self.start:
                node = <int> self.home[machine]
            if not self.up[node]:
                continue
            if t == &self.start:
                self._tell_node(ON_START, "on_start", node)
            elif t == &self.end:
                self._tell_node(ON_END, "on_end", node)
            elif self.queues.running[machine] < 0 and self.queues.count[machine] == 0:
                self._tell_node(ON_IDLE, "on_idle", node)
        return 0

    cdef int _tell_node(self, Py_ssize_t which, str handler, int node) except -1:
        """Call a handler that gets nothing but the view."""
        if self.handle != NULL:
            return self._run(self.n_kinds + which, node, NULL)
        call(handler, self.programs[node], self._view(node), NULL, NULL)
        if self.unheard:
            self._handle_now()
        return 0

    cdef int _take_turns(self) except -1:
        """Let the nodes act that want to act at this instant."""
        cdef Py_ssize_t k, n = 0
        cdef int slot
        while timers_first(&self.turns) <= self.now:
            slot = pending_pop(&self.turns.heap).slot
            if n == self.acting_room:
                self.acting = <int*> grown(self.acting, (2 * n + 16) * sizeof(int))
                self.acting_room = 2 * n + 16
            self.acting[n] = self.turns.timer[slot].node
            n += 1
            timers_unlink(&self.turns, slot)
            timers_release(&self.turns, slot)
        qsort(self.acting, n, sizeof(int), ascending)
        self.events += n
        for k in range(n):
            if self.up[self.acting[k]] and (k == 0 or self.acting[k] != self.acting[k - 1]):
                self._tell_node(ON_ACT, "on_act", self.acting[k])
        return 0

    cdef int _reorder(self, Py_ssize_t n) except -1:
        """Bring the queues of the acting machines into their order, see `TaskQueues.reschedule`."""
        cdef Py_ssize_t k
        cdef Scratch s
        if not self.queues.edf:
            return 0
        if not scratch_make(&s, self.queues.capacity, 0):
            raise MemoryError
        with nogil:
            for k in range(n):
                self.queues._advance(self.acting[k], self.now)
                self.queues._reorder(self.acting[k], self.now, &s)
                self.queues._update(self.acting[k])
        scratch_free(&s)
        return 0

    # -- releases and timers ------------------------------------------------------------------------------------

    cdef int _release_or_fire(self) except -1:
        cdef Py_ssize_t first = self.released, k, n
        cdef const Event* e
        cdef Timer* timer
        cdef int slot, number
        n = 0
        if self.direct.shape[0]:
            while True:
                number = self._next_direct()
                if number < 0:
                    break
                self._take_direct(number)
                n += 1
        if first < self.release.shape[0] and self.release[first] <= self.now:
            while self.released < self.release.shape[0] and self.release[self.released] <= self.now:
                self.released += 1
            self.events += self.released - first
            for k in range(first, self.released):
                self._give(k, self.tasks[k], "on_release")
            self._drain()
            return 0
        if n:
            return 0
        while timers_first(&self.timers) <= self.now:
            slot = pending_pop(&self.timers.heap).slot
            if n == self.firing_room:
                self.firing = <Fire*> grown(self.firing, (2 * n + 16) * sizeof(Fire))
                self.firing_room = 2 * n + 16
            timer = &self.timers.timer[slot]
            self.firing[n].slot, self.firing[n].number = slot, timer.number
            self.firing[n].item = <long long> timer.node * len(self.timer_names) + timer.name
            n += 1
        if n > 1:
            qsort(self.firing, n, sizeof(Fire), by_setting)
        self.events += n
        for k in range(n):
            self._fire(self.firing[k].slot)
        return 0

    cdef int _fire(self, int slot) except -1:
        cdef int node = self.timers.timer[slot].node, name = self.timers.timer[slot].name
        cdef bint cancelled = self.timers.timer[slot].cancelled
        cdef object value = self.timers.timer[slot].value if self.values else None
        cdef long long given[2]
        given[0] = name
        memcpy(&given[1], &self.timers.timer[slot].value, sizeof(double))
        if cancelled:  # by one that fired before it at this instant
            self.timers.cancelled -= 1
        else:
            timers_unlink(&self.timers, slot)
        timers_release(&self.timers, slot)
        if not cancelled and self.handle != NULL:
            self._run(self.n_kinds + ON_TIMER, node, given)
        elif not cancelled and self.fires:
            call("on_timer", self.programs[node], self._view(node), <PyObject*> self.timer_names[name],
                 <PyObject*> value if self.values else NULL)
            if self.unheard:
                self._handle_now()
        return 0

    cdef int _give(self, Py_ssize_t index, long long tasks, str handler) except -1:
        """Give tasks to the submitter of an application, or to the next machine that is up in its place."""
        cdef Py_ssize_t k, node, machine = self.submitter[index]
        for k in range(self.queues.machines):
            node = self.home[machine]
            if self.up[node]:
                break
            machine = (machine + 1) % self.queues.machines
        else:
            self.lost(index, tasks, -1)
            return 0
        return self._give_to(node, index, tasks, handler)

    cdef int _give_to(self, Py_ssize_t node, Py_ssize_t index, long long tasks, str handler) except -1:
        cdef View view
        cdef object application, given = tasks
        cdef long long row[2]
        self._hear(node, index, tasks)
        if self.handle != NULL:
            row[0], row[1] = index, tasks
            return self._run(self.n_kinds + (ON_LOST if handler == "on_lost" else ON_RELEASE), node, row)
        view, application = self._view(node), self._application(index)
        call(handler, self.programs[node], view, <PyObject*> application, <PyObject*> given)
        if self.unheard:
            self._handle_now()
        return 0

    # -- failures ---------------------------------------------------------------------------------------------

    def resubmit(self, applications, tasks, long long now):
        """Give lost tasks of `applications` (int64[k] both) to nodes again, at an event of the engine at `now` ns.

        Timers that are set for this very instant fall into the same wave.
        """
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied, hold(&self.queues.occupied)))
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

    def give(self, node, application, tasks):
        """Give `tasks` tasks that are submitted now to `node` even if it is down: what it sends is then lost."""
        self._check_node(node, application)
        self._give_to(node, application, tasks, "on_release")

    def tick(self, nodes, name, long long now):
        """Let the timer `name` fire on each of `nodes`, at an event of the engine at `now` ns."""
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied, hold(&self.queues.occupied)))
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}")
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        value = 0.0 if self.values else None
        self._reach(now)
        self.phase, self.limit = TIMERS, now
        self.events += u.shape[0]
        for k in range(u.shape[0]):
            call("on_timer", self.programs[u[k]], self._view(u[k]), <PyObject*> name,
                 <PyObject*> value if self.values else NULL)
            if self.unheard:
                self._handle_now()
        while self._phase_due() == TIMERS:
            self._release_or_fire()

    def drain(self, long long now):
        """Handle the messages of deferred kinds that have arrived by `now` ns, an instant of the engine."""
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied, hold(&self.queues.occupied)))
        self._reach(now)
        self._drain()

    def act(self, nodes, long long now):
        """Let `nodes` act at `now` ns, an instant of the engine; see `View.act`."""
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        self._reach(now)
        for k in range(u.shape[0]):
            timers_set(&self.turns, now, <int> u[k], 0, 0.0)

    def add_applications(self, submitter):
        """Append further applications, submitted by the machines `submitter`: only `resubmit` gives them to nodes."""
        cdef _Held alone = hold(&self.occupied)
        self.submitter = np.concatenate((self.submitter, indices(submitter, "submitter", 0, self.queues.machines)))

    def with_completions(self, long long now):
        """Return the machines, ascending, that have completed tasks by `now` ns for which no node has asked."""
        cdef _Held alone = hold(&self.occupied, hold(&self.queues.occupied))
        self._reach(now)
        self.queues._catch_up(now)
        self._read_completions()
        return sorted(self.unreported)

    cdef int _reach(self, long long now) except -1:
        """An event of the engine happens at `now` ns."""
        if not self.now <= now <= LATEST:
            raise ValueError(f"now must be in {self.now}..{LATEST} ns, got {now}")
        self.now = now
        return 0

    def restart(self, nodes, programs, long long now):
        """Let `nodes` fail at `now` ns; `programs` are the new objects in their place.

        Returns (application, tasks) pairs: what the nodes held and had placed nowhere.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        cdef int at
        self._reach(now)
        held = []
        if len(programs) != u.shape[0]:
            raise ValueError(f"programs must be one for each node, got {len(programs)} for {u.shape[0]}")
        for k in range(u.shape[0]):
            self.programs[u[k]] = programs[k]
            timers_cancel(&self.timers, <int> u[k], -1)
            self._drop_local(u[k])
            at = self.holdings.first[u[k]]
            while at >= 0:
                if self.holdings.entry[at].tasks:
                    held.append((self.holdings.entry[at].application, self.holdings.entry[at].tasks))
                at = self.holdings.entry[at].following
            holdings_forget(&self.holdings, u[k])
        return held

    cdef int _drop_local(self, long long node) except -1:
        cdef Py_ssize_t k
        for k in range(len(self.local_messages)):
            if self.local_messages[k] is not None and self.local_messages[k][0] == node:
                self.local_messages[k] = None
        return 0

    def begin(self, nodes):
        """Let `nodes` start at this instant."""
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0] if self.starts else 0):
            touched_add(&self.start, <int> u[k])

    # -- checkpoints --------------------------------------------------------------------------------------------

    def getstate(self):
        """What has changed since the core was made, but for the programs; see `gridcore.common.state`.

        It is told at the end of a wave only.  Raises RuntimeError at another time.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t k
        cdef int slot, at
        cdef Timer* timer
        cdef View view
        if self.dirty:
            raise RuntimeError("the state of nodes is told at the end of a wave only")
        timers, values, held, random, turns = [], [], [], [], []
        local, payloads = self._told_local()
        for k in range(self.nodes):
            slot = self.timers.first[k]
            while slot >= 0:
                timer = &self.timers.timer[slot]
                timers.append((timer.time, timer.number, k, timer.name))
                values.append(timer.value)
                slot = timer.next
            at = self.holdings.first[k]
            while at >= 0:
                held.append((k, self.holdings.entry[at].application, self.holdings.entry[at].tasks))
                at = self.holdings.entry[at].following
            slot = self.turns.first[k]
            while slot >= 0:
                turns.append((self.turns.timer[slot].time, self.turns.timer[slot].number, k))
                slot = self.turns.timer[slot].next
            view = self.views[k]
            if view is not None and view._random is not None:
                random.append((k, view._random.drawn))
        return shown({
            "now": self.now, "events": self.events, "pause_at": self.pause_at, "phase": self.phase,
            "released": self.released, "number": self.timers.number, "directs": self.directs,
            "placed": self.placed_at + 1,
            "turns": np.array(turns, np.int64).reshape(-1, 3), "turn_number": self.turns.number,
            "completed": np.array([(u, i, n) for u, of in sorted(self.unreported.items()) for i, n in sorted(of.items())],
                                  np.int64).reshape(-1, 3),
            "timers": np.array(timers, np.int64).reshape(-1, 4), "values": np.array(values, np.float64),
            "held": np.array(sorted(held), np.int64).reshape(-1, 3),
            "reorder": touched_read(&self.reorder), "start": touched_read(&self.start),
            "end": touched_read(&self.end), "idle": touched_read(&self.idle),
            "random": np.array(random, np.int64).reshape(-1, 2),
            **local, **told_payloads(payloads),
        })

    def setstate(self, state):
        """Go on from what `getstate` of a core made with the same arguments gave.

        Raises ValueError for a state that cannot be its own.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t k
        cdef View view
        read, applications = State(state), self.submitter.shape[0]
        found = read_nodes(state, self.nodes, self.queues.machines, applications, len(self.timer_names))
        timers, values = found["timers"], found["values"]
        self.now, self.events = read.whole("now", 0, LATEST), read.whole("events", 0, LATEST)
        self.pause_at, self.phase = read.whole("pause_at", 0, LATEST * 2), read.whole("phase", 0, NOTHING)
        self.released, self.finished = read.whole("released", 0, self.release.shape[0]), False
        self.directs, self.unheard = read.whole("directs", 0, LATEST), 0
        self.placed_at = read.whole("placed", 0, LATEST) - 1
        timers_free(&self.timers)
        timers_make(&self.timers, self.nodes)
        for k in np.argsort(timers[:, 1], kind="stable"):
            self.timers.number = timers[k, 1]
            timers_set(&self.timers, timers[k, 0], timers[k, 2], timers[k, 3], values[k])
        self.timers.number = read.whole("number", 0, LATEST)
        timers_free(&self.turns)
        timers_make(&self.turns, self.nodes)
        turns = found["turns"]
        for k in np.argsort(turns[:, 1], kind="stable"):
            self.turns.number = turns[k, 1]
            timers_set(&self.turns, turns[k, 0], turns[k, 2], 0, 0.0)
        self.turns.number = read.whole("turn_number", 0, LATEST)
        self.unreported = {}
        for machine, application, tasks in found["completed"].tolist():
            self.unreported.setdefault(machine, {})[application] = tasks
        self.views = [None] * self.nodes
        holdings_free(&self.holdings)
        holdings_make(&self.holdings, self.nodes)
        for node, application, tasks in found["held"].tolist():
            self._hear(node, application, tasks)
        for node, drawn in found["random"].tolist():
            view = self._view(node)
            view._random = RandomStream(self.seed, node, drawn)
        touched_fill(&self.reorder, found["reorder"])
        touched_fill(&self.start, found["start"])
        touched_fill(&self.end, found["end"])
        touched_fill(&self.idle, found["idle"])
        for k in range(self.n_kinds):
            outbox_clear(&self.out[k])
        self.dirty = False
        self.payloads, self.unused_payloads = read_payloads(state)
        self._read_local(state)

    # -- what others may read -----------------------------------------------------------------------------------

    def machine_of(self, Py_ssize_t node):
        """The machine on which `node` sits now."""
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        return self.links.machine_of[node]

    def work_of(self, Py_ssize_t machine):
        """How long `machine` needs for its running task and all that wait there, s."""
        self._check(machine)
        return self._work(machine)

    def available(self, double stretch, double release, double size, double task_size, long long now, machines):
        """`TaskQueues.available`, which may be called while nodes run, since it changes nothing that they see."""
        cdef bint held = self.queues.occupied
        self.queues.occupied = False
        try:
            return self.queues.available(stretch, release, size, task_size, now, machines)
        finally:
            self.queues.occupied = held

    def waiting_at(self, Py_ssize_t machine):
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


cdef object touched_read(const Touched* t):
    """int64[n]: the machines that are to act, ascending."""
    cdef Py_ssize_t k
    return np.array(sorted([t.machine[k] for k in range(t.n)]), np.int64)


cdef int touched_fill(Touched* t, machines) except -1:
    touched_clear(t)
    for machine in machines.tolist():
        touched_add(t, machine)
    return 0


# -- what compiled handlers call, see `Context`; the checks are those of `View` -------------------------------

cdef long long* on_send(PyObject* core, long long node, long long kind, long long to) except NULL:
    """Add a message to those that leave; the handler fills in the fields that are returned."""
    cdef NodeCore c = <NodeCore> core
    if not 0 <= to < c.nodes:
        raise c._wrong_send(node, to, (<_Kind> c.kinds[kind]).name, dict.fromkeys((<_Kind> c.kinds[kind]).fields))
    c.dirty = True
    return outbox_add(&c.out[kind], to, node)


cdef int on_sent(PyObject* core, long long node, long long kind, const long long* row) except -1:
    """Check the fields of a message that is about an application."""
    cdef NodeCore c = <NodeCore> core
    try:
        c._check_sent(node, <_Kind> c.kinds[kind], row)
    except BaseException:
        outbox_drop(&c.out[kind])
        raise
    return 0


cdef int on_enqueue(PyObject* core, long long node, long long application, long long tasks) except -1:
    cdef NodeCore c = <NodeCore> core
    c._check_heard(node, application)
    return c._enqueue(node, application, tasks)


cdef long long on_waiting(PyObject* core, long long node) except -1:
    cdef NodeCore c = <NodeCore> core
    c._catch_up(node)
    return c.queues.waiting[node]


cdef double on_work(PyObject* core, long long node) except -1.0:
    return (<NodeCore> core)._work(node)


cdef int on_timer(PyObject* core, long long node, long long name, double seconds, double value) except -1:
    return (<NodeCore> core)._set_timer(node, name, seconds, value)


cdef int on_cancel(PyObject* core, long long node, long long name) except -1:
    return timers_cancel(&(<NodeCore> core).timers, <int> node, <int> name)


cdef int on_heard(PyObject* core, long long node, long long application) except -1:
    return (<NodeCore> core)._check_heard(node, application)


cdef int on_draw(PyObject* core, long long node, long long kind, double factor, double shift, double* out) except -1:
    cdef View view = (<NodeCore> core)._view(node)
    out[0] = view._stream()._scaled(<int> kind, factor, shift)
    return 0


cdef int on_integer(PyObject* core, long long node, long long low, long long high, long long* out) except -1:
    cdef View view = (<NodeCore> core)._view(node)
    out[0] = view._stream()._integer(low, high)
    return 0


cdef long long on_take(PyObject* core, long long node, long long application, long long tasks) except -1:
    (<NodeCore> core)._check_heard(node, application)
    return (<NodeCore> core)._take(node, application, tasks)


cdef long long on_queued(PyObject* core, long long node, long long* out) except -1:
    """How many applications wait in the queue of the node; if `out` is not NULL, (application, tasks) of each."""
    cdef TaskQueues queues = (<NodeCore> core).queues
    cdef Py_ssize_t k, first
    if out == NULL:
        (<NodeCore> core)._catch_up(node)
    first = queues.first[node]
    for k in range(queues.count[node] if out != NULL else 0):
        out[2 * k], out[2 * k + 1] = queues.share[node, first + k, 0], queues.share[node, first + k, 1]
    return queues.count[node]


cdef int on_note(PyObject* core, long long node, long long table, const long long* row) except -1:
    cdef NodeCore c = <NodeCore> core
    cdef Py_ssize_t k
    name, columns = c.compiled.tables[table]
    values = {}
    for k, (column, kind) in enumerate(columns.items()):
        values[column] = (<const double*> row)[k] if kind is float else row[k]
    c.noted(node, name, values)
    return 0


cdef int on_decide(PyObject* core, long long node, long long action, const long long* row) except -1:
    """Note a decision; `row` has application, machine, task, tasks, among, and as floats saw, limit, age."""
    cdef NodeCore c = <NodeCore> core
    cdef const double* real = <const double*> row
    c._check_heard(node, row[0])
    c.decided(node, c.compiled.actions[action], row[0], {
        "machine": row[1], "task": row[2], "tasks": row[3], "among": row[4], "saw": real[5], "limit": real[6],
        "age": real[7]})
    return 0
