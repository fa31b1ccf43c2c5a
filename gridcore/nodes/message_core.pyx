"""Runs node programs: one Python object a node, which handles what happens there and acts through its view.

`NodeCore` owns what is due: the messages in `links`, the ends of queues, releases and timers.  It calls the
handlers of the nodes one after another and passes on what they send, without an array or a closure for a single
message.  It is a source of the engine: between two events of the engine it runs by itself.

Order of what is due at one instant, as the engine has it:

    queues that run idle -> deliveries, wave by wave -> acts (reorder, start, idle) -> releases -> timers

Within a wave: by kind of message, then receiver, then order of sending; then the messages that nodes have sent
themselves by `View.later`, by receiver and order of sending.  Whenever something earlier in this list
becomes due, it goes first.  What nodes send leaves when the deliveries of a wave, all acts, or all releases and
timers have been handled, in the order of kind, sender, and the sender's own order.

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
from gridcore.nodes.outbox cimport Outbox, outbox_add, outbox_clear, outbox_drop, outbox_free, outbox_sort
from gridcore.nodes.timers cimport (Timer, Timers, timers_cancel, timers_first, timers_free, timers_make, timers_release,
                                    timers_set, timers_unlink)
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.touched cimport Touched, touched_add, touched_clear, touched_free, touched_make
from gridcore.queues.task_queues cimport Scratch, TaskQueues, scratch_free, scratch_make

import sys

import numpy as np

from gridcore.common.state import LATEST, State, shown
from gridcore.nodes.state import read_nodes, read_payloads, told_payloads

__all__ = ["NEVER", "NodeCore", "View"]

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
# What a step handles, in its order within an instant.
cdef enum:
    DELIVERIES, ACTS, TIMERS, NOTHING
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
    cdef bint moves, arrays             # arrays: whether it has any
    cdef long long nbytes, length
    cdef object size                    # callable, the fields -> bytes; or None, if all messages have `nbytes`

    def __init__(self, str name, int number, nbytes, dict fields, bint moves, str handler):
        self.name, self.number, self.moves = name, number, moves
        self.nbytes, self.size = (0, nbytes) if callable(nbytes) else (nbytes or 0, None)
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
    """What a node can see and do: its machine, the clock, its queue, its neighbours' numbers, and messages.

    Its attributes are read-only.
    """

    cdef NodeCore core
    cdef readonly int node              #: The number of this machine.
    cdef readonly object slots          #: The slot schedule of this machine, where the scheduler has rigid jobs.
    cdef object _neighbours
    cdef RandomStream _random
    cdef set known                      # applications that the node has heard of; None for none
    cdef dict held                      # application -> tasks that it must place; None for none

    @property
    def machines(self):
        """How many machines there are; they have the numbers 0..machines - 1."""
        return self.core.nodes

    @property
    def neighbours(self):
        """The numbers of the neighbours of this machine."""
        if self._neighbours is None:
            self._neighbours = tuple(self.core.neighbours[self.node].tolist())
        return self._neighbours

    @property
    def now(self):
        """The simulated time, s."""
        return self.core.now / 1e9

    @property
    def clock(self):
        """The simulated time as a whole number, ns."""
        return self.core.now

    @property
    def speed(self):
        """The speed of this machine, Mflop/s."""
        return self.core.queues.speed[self.node]

    @property
    def random(self):
        """The node's own random stream."""
        if self._random is None:
            self._random = RandomStream(self.core.seed, self.node)
        return self._random

    @property
    def waiting(self):
        """The number of tasks that wait here; a running task does not count."""
        self.core._catch_up(self.node)
        return self.core.queues.waiting[self.node]

    @property
    def work(self):
        """How long this machine needs for its running task and all that wait here, s."""
        return self.core._work(self.node)

    def application(self, index):
        """Return an application that this node knows.

        It knows those that were submitted here, and those that came in a message's field ``application``.
        Raises SchedulerError for any other.
        """
        return self.core._application(self._heard(index))

    cdef long long _heard(self, index) except -1:
        """`index` as an integer; raises the core's error if this node does not know the application."""
        if type(index) is not int:
            index = self.core.checked(int, index, self.node, "application")
        if self.known is None or index not in self.known:
            raise self.core.error(f"t = {self.now} s: node {self.node} has not heard of application {index}")
        return index

    cdef int _hear(self, long long application) except -1:
        if self.known is None:
            self.known = set()
        self.known.add(application)
        return 0

    cdef int _put(self, long long application, long long tasks) except -1:
        """Give the node tasks that it must place."""
        if self.held is None:
            self.held = {}
        if tasks:
            self.held[application] = self.held.get(application, 0) + tasks
        return 0

    cdef int _take(self, long long application, long long tasks) except -1:
        """Take tasks that the node places; raises the core's error if it holds fewer."""
        cdef long long held = 0 if self.held is None else self.held.get(application, 0)
        if tasks < 0 or tasks > held:
            raise self.core.error(f"node {self.node} places {tasks} tasks of application {application}, "
                                  f"and has {held} of it to place")
        if tasks < held:
            self.held[application] = held - tasks
        elif held:
            del self.held[application]
        return 0

    def enqueue(self, application, tasks):
        """Queue `tasks` tasks of `application` here.  Raises SchedulerError if the node holds fewer."""
        cdef long long index = self._heard(application)
        if type(tasks) is not int:
            tasks = self.core.checked(int, tasks, self.node, "tasks")
        self.core._enqueue(self, index, tasks)

    def send(self, to, kind, **fields):
        """Send a message to machine `to`; it leaves once all events of the current wave have been handled.

        Raises SchedulerError for an unknown kind or machine, for fields other than the declared ones, for
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
            to = core.checked(int, to, self.node, "the machine it sends to")
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
            if k.application_at >= 0 and (self.known is None or row[k.application_at] not in self.known):
                raise core.error(f"t = {self.now} s: node {self.node} sends {kind!r} with application "
                                 f"{row[k.application_at]}, of which it has not heard")
            if k.moves:
                self._take(row[k.application_at], row[k.tasks_at])
        except BaseException:
            for i in range(stored):
                if k.real[i] == 2:
                    core._fetch(row[i])
            outbox_drop(box)
            raise
        core.dirty = True

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
        cdef long long at
        if type(seconds) is not float:
            seconds = core.checked(float, seconds, self.node, f"the timer {name!r}")
        if type(value) is not float:
            value = core.checked(float, value, self.node, f"the value of the timer {name!r}")
        if name not in core.timer_names or not 0 <= seconds < INFINITY:
            raise core.error(f"t = {self.now} s: node {self.node} sets the timer {name!r} in {seconds!r} s; "
                             f"it must be one of {', '.join(core.timer_names) or 'none'}, in 0 s or more")
        at = core.now + (llrint(<double> seconds * 1e9) if seconds < 2e9 else _LONGEST)
        timers_set(&core.timers, at, self.node, core.timer_names.index(name), value)

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
    """Runs the nodes of a grid, one on each machine.

    Parameters
    ----------
    links, queues : the messages in flight and the task queues of the machines, which only the core uses while it runs.
    programs : list, the object of each node; `restart` replaces those of machines that fail.
    kinds : (name, number in `links`, bytes, fields, whether it moves tasks, name of the handler) of each kind.
        The bytes may be a callable that gets the fields and returns them.  A field is ``int``, ``float``, or
        another type for an array; the links must keep dropped messages of a kind with arrays.  The number is -1
        for a local kind, see `View.later`.
    timers : the names of timers.
    handlers : names of the optional handlers that the programs have: ``on_start``, ``on_idle``, ``on_timer``;
        ``value`` if ``on_timer`` takes the value of the timer.
    neighbours : int64[nodes, degree].
    up : bool[nodes], which machines are up; it changes as they fail and recover.
    release, submitter, tasks : int64[applications], ns, machine, number; release ascending.
    application : callable, index -> the application as nodes see it.
    seed : 0..2**64 - 1, of the random streams of the nodes.
    lost : callable, (application, tasks), for tasks that a failure has caught on their way.
    noted, decided : callables for `View.note` and `View.decide`, with the node first.
    checked : callable, (type, value, node, name) -> the value as that type, or an error.
    error : the type of the errors that nodes cause.
    observe : callable, (ns, number of a kind, uint8[k, width] records), for all that is sent; or None.
    slots : callable, node -> its `View.slots`; or None.

    Raises ValueError for arguments that do not fit.
    """

    cdef bint occupied                  # see `gridcore.common.arguments.hold`
    cdef Links links
    cdef TaskQueues queues
    cdef readonly list programs
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
    cdef bint starts, idles, fires, values
    cdef unsigned long long seed
    cdef object neighbours, make_application, lost, noted, decided, checked, error, observe
    cdef unsigned char[::1] up
    cdef const long long[::1] release, submitter, tasks
    cdef Py_ssize_t released, n_kinds
    cdef long long total
    cdef Outbox* out
    cdef Timers timers
    cdef Fire* firing
    cdef Py_ssize_t firing_room
    cdef Touched reorder, start, idle
    cdef int* acting                    # scratch: the machines that act
    cdef Py_ssize_t acting_room
    cdef readonly long long now         #: ns
    cdef readonly long long events      #: how many handler calls there have been
    cdef long long limit, pause_at
    cdef int phase                      # of what has been handled last
    cdef bint dirty                     # something has been sent that has not left
    cdef readonly bint finished         #: whether all tasks are done

    def __cinit__(self, Links links, TaskQueues queues, *, list programs, kinds, timers, handlers, neighbours, up,
                  release, submitter, tasks, application, seed, lost, noted, decided, checked, error, observe=None,
                  slots=None):
        cdef Py_ssize_t k
        if links is None or queues is None:
            raise TypeError("links and queues must be given, got None")
        self.links, self.queues, self.programs = links, queues, programs
        self.nodes = len(programs)
        if queues.machines != self.nodes or links.machine_of.shape[0] != self.nodes:
            raise ValueError(f"programs must be one for each node and machine, got {self.nodes}")
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
        self.values = "value" in handlers
        self.neighbours = np.array(neighbours, np.int64)
        if self.neighbours.ndim != 2 or len(self.neighbours) != self.nodes:
            raise ValueError(f"neighbours must have {self.nodes} rows, got shape {self.neighbours.shape}")
        if not isinstance(up, np.ndarray) or up.dtype != np.bool_:
            raise TypeError(f"up must be an array of bool, got {type(up).__name__}")
        self.up = up.view(np.uint8)
        if self.up.shape[0] != self.nodes:
            raise ValueError(f"up must have {self.nodes} entries, got {self.up.shape[0]}")
        self.release = indices(release, "release", 0, LATEST)
        self.tasks = indices(tasks, "tasks", 0, 2**31)
        self.submitter = indices(submitter, "submitter", 0, self.nodes)
        if not self.release.shape[0] == self.submitter.shape[0] == self.tasks.shape[0]:
            raise ValueError("release, submitter and tasks must be equally long")
        if (np.diff(self.release) < 0).any():
            raise ValueError("release must be ascending")
        self.total = int(np.sum(self.tasks)) if self.tasks.shape[0] else 0
        self.make_application, self.seed, self.applications = application, seed, {}
        self.lost, self.noted, self.decided, self.checked = lost, noted, decided, checked
        self.error, self.observe = error, observe
        timers_make(&self.timers, self.nodes)
        touched_make(&self.reorder, self.nodes)
        touched_make(&self.start, self.nodes)
        touched_make(&self.idle, self.nodes)
        self.now, self.phase, self.pause_at = 0, NOTHING, _STRIDE
        for k in range(self.nodes if self.starts else 0):
            touched_add(&self.start, <int> k)

    cdef int _add_kind(self, _Kind kind) except -1:
        cdef int number = kind.number
        if number == -1:
            self.by_name[kind.name] = kind
            self.local_kinds.append(kind)
            return 0
        if not 0 <= number < self.n_kinds or self.links.deferred[number] or self.kinds[number] is not None:
            raise ValueError(f"kinds: {kind.name!r} must be a kind of the links of its own, got {number}")
        if self.links.width[number] != 8 * (2 + kind.n):
            raise ValueError(f"kinds: a record of {kind.name!r} must have {8 * (2 + kind.n)} bytes")
        if kind.arrays and not self.links.keep[number]:
            raise ValueError(f"kinds: the links must keep dropped messages of {kind.name!r}, which has arrays")
        kind.length = self.links._length(kind.nbytes)
        self.out[number].words = 2 + kind.n + (kind.size is not None)  # bytes that differ come last
        self.kinds[number] = self.by_name[kind.name] = kind
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self.n_kinds if self.out != NULL else 0):
            outbox_free(&self.out[k])
        free(self.out)
        timers_free(&self.timers)
        pending_free(&self.local)
        free(self.firing)
        free(self.acting)
        touched_free(&self.reorder)
        touched_free(&self.start)
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

    cdef int _enqueue(self, View view, long long application, long long tasks) except -1:
        view._take(application, tasks)
        if not 1 <= tasks < 2**31:
            raise ValueError(f"tasks[0] must be in 1..{2**31 - 1}, got {tasks}")
        try:
            self.queues._enqueue(view.node, <int> application, tasks, self.now)
        except BaseException:
            self.queues._update(view.node)
            raise
        touched_add(&self.reorder, view.node)
        return 0

    cdef object _wrong_send(self, node, to, kind, dict fields):
        known = {name: list((<_Kind> each).fields) for name, each in self.by_name.items()}
        return self.error(f"t = {self.now / 1e9} s: node {node} sends {kind!r} with {sorted(fields)} to "
                          f"machine {to}; there are {known} and machines 0..{self.nodes - 1}")

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
            due.sort(key=by_node_and_number)
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
        if self.reorder.n or self.start.n or self.idle.n:
            self.links._advance(self.now)
            return self.now
        first = min(timers_first(&self.timers), self._first_local())
        if self.queues.machines:
            first = min(first, self.queues.change[self.queues.heap[0]])
        if self.released < self.release.shape[0]:
            first = min(first, self.release[self.released])
        # the links run no further: what happens first may send something that arrives before what is under way
        return min(first, self.links._advance(min(first, self.limit)))

    cdef int _phase_due(self) except -1:
        """The phase of what is to be handled first at this instant."""
        if self.links._first_end() <= self.now or self._first_local() <= self.now:
            return DELIVERIES
        if self.reorder.n or self.start.n or self.idle.n:
            return ACTS
        if self.released < self.release.shape[0] and self.release[self.released] <= self.now:
            return TIMERS
        return TIMERS if timers_first(&self.timers) <= self.now else NOTHING

    def advance(self, long long limit):
        """Run all that is due up to `limit` ns; the instant at which the engine is needed, else `NEVER`.

        It is needed where all tasks are done or `stop` was called (`finished`), and now and then for what the engine does meanwhile.
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
            if at > self.limit:
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
        self._check(node)
        if not 0 <= application < self.release.shape[0]:
            raise ValueError(f"application must be in 0..{self.release.shape[0] - 1}, got {application}")
        cdef View view = self._view(node)
        view._hear(application)
        return view

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
        """Take the machines whose queues have run idle."""
        cdef TaskQueues queues = self.queues
        cdef int machine
        while queues.change[queues.heap[0]] <= self.now:
            machine = queues.heap[0]
            queues._advance(machine, self.now)
            queues._update(machine)
            if self.idles:
                touched_add(&self.idle, machine)
        self.finished = queues.tasks_done == self.total
        return 0

    # -- deliveries -------------------------------------------------------------------------------------------

    cdef int _wave(self) except -1:
        """Handle all messages that have arrived, and let what was sent meanwhile leave."""
        cdef Py_ssize_t number, k, n
        cdef Links links = self.links
        for number in range(self.n_kinds):
            if pending_first(&links.queue[number]) == NULL:
                continue
            n = links._take(<int> number, self.now)
            links._by_node(n)
            for k in range(n):
                self._deliver(<_Kind> self.kinds[number], links.due[k].slot)
            self.events += n
        if self._first_local() <= self.now:
            self._deliver_local()
        for k in range(links.n_missing):
            self._lose(links.missing[k])
        links.n_missing = 0
        if self.dirty:
            self._flush()
        return 0

    cdef int _deliver(self, _Kind kind, int slot) except -1:
        cdef const long long* row = <const long long*> (self.links.data + slot * self.links.stride)
        cdef View view = self._view(row[0])
        cdef object come = new_object(kind.type)
        cdef int i
        come.sender = row[1]
        for i in range(kind.n):
            if kind.real[i] == 2:
                setattr(come, <str> kind.fields[i], self._fetch(row[2 + i]))
            elif kind.real[i]:
                setattr(come, <str> kind.fields[i], (<const double*> row)[2 + i])
            else:
                setattr(come, <str> kind.fields[i], row[2 + i])
        if kind.application_at >= 0:
            view._hear(row[2 + kind.application_at])
        if kind.moves:
            view._put(row[2 + kind.application_at], row[2 + kind.tasks_at])
        self.links._give_back(slot)
        call(kind.handler, self.programs[view.node], view, <PyObject*> come, NULL)
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
        self.links._give_back(slot)
        if kind.moves:
            self.lost(application, tasks)
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
            check_instant(self.now, "now", 2 * self.links.latency + 2**40)
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

    # -- acts -------------------------------------------------------------------------------------------------

    cdef int _act(self) except -1:
        """Let the machines act that must be reordered, else those that start, else those that are idle."""
        cdef Touched* t = &self.reorder if self.reorder.n else &self.start if self.start.n else &self.idle
        cdef Py_ssize_t k, n = t.n
        cdef int machine
        if n > self.acting_room:
            self.acting = <int*> grown(self.acting, n * sizeof(int))
            self.acting_room = n
        memcpy(self.acting, t.machine, n * sizeof(int))
        touched_clear(t)
        if n > 1:
            qsort(self.acting, n, sizeof(int), ascending)
        self.events += n
        if t == &self.reorder:
            return self._reorder(n)
        for k in range(n):
            machine = self.acting[k]
            if not self.up[machine]:
                continue
            if t == &self.start:
                call("on_start", self.programs[machine], self._view(machine), NULL, NULL)
            elif self.queues.running[machine] < 0 and self.queues.count[machine] == 0:
                call("on_idle", self.programs[machine], self._view(machine), NULL, NULL)
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
        cdef int slot
        if first < self.release.shape[0] and self.release[first] <= self.now:
            while self.released < self.release.shape[0] and self.release[self.released] <= self.now:
                self.released += 1
            self.events += self.released - first
            for k in range(first, self.released):
                self._give(k, self.tasks[k], "on_release")
            return 0
        n = 0
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
        if cancelled:  # by one that fired before it at this instant
            self.timers.cancelled -= 1
        else:
            timers_unlink(&self.timers, slot)
        timers_release(&self.timers, slot)
        if not cancelled and self.fires:
            call("on_timer", self.programs[node], self._view(node), <PyObject*> self.timer_names[name],
                 <PyObject*> value if self.values else NULL)
        return 0

    cdef int _give(self, Py_ssize_t index, long long tasks, str handler) except -1:
        """Give tasks to the submitter of an application, or to the next machine that is up in its place."""
        cdef Py_ssize_t k, node = self.submitter[index]
        cdef View view
        cdef object application, given = tasks
        for k in range(self.nodes):
            if self.up[node]:
                break
            node = (node + 1) % self.nodes
        else:
            self.lost(index, tasks)
            return 0
        view = self._view(node)
        view._hear(index)
        view._put(index, tasks)
        application = self._application(index)
        call(handler, self.programs[node], view, <PyObject*> application, <PyObject*> given)
        return 0

    # -- failures ---------------------------------------------------------------------------------------------

    def resubmit(self, applications, tasks, long long now):
        """Give lost tasks of `applications` (int64[k] both) to nodes again, at an event of the engine at `now` ns.

        Timers that are set for this very instant fall into the same wave.
        """
        cdef _Held alone = hold(&self.occupied, hold(&self.links.occupied, hold(&self.queues.occupied)))
        cdef const long long[::1] i = indices(applications, "applications", 0, self.release.shape[0])
        cdef const long long[::1] n = integers(tasks, "tasks")
        cdef Py_ssize_t k
        check_lengths(i.shape[0], n.shape[0], "applications", "tasks")
        self._reach(now)
        self.phase, self.limit = TIMERS, now
        for k in range(i.shape[0]):
            self._give(i[k], n[k], "on_lost")
        while self._phase_due() == TIMERS:
            self._release_or_fire()

    cdef int _reach(self, long long now) except -1:
        """An event of the engine happens at `now` ns."""
        if not self.now <= now <= LATEST:
            raise ValueError(f"now must be in {self.now}..{LATEST} ns, got {now}")
        self.now = now
        return 0

    def restart(self, machines, programs, long long now):
        """Let `machines` lose their nodes at `now` ns, for which `programs` are the new objects.

        Returns (application, tasks) pairs: what the nodes held and had placed nowhere.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] u = indices(machines, "machines", 0, self.nodes)
        cdef Py_ssize_t k
        cdef View view
        self._reach(now)
        held = []
        if len(programs) != u.shape[0]:
            raise ValueError(f"programs must be one for each machine, got {len(programs)} for {u.shape[0]}")
        for k in range(u.shape[0]):
            self.programs[u[k]] = programs[k]
            timers_cancel(&self.timers, <int> u[k], -1)
            self._drop_local(u[k])
            view = self.views[u[k]]
            if view is not None:
                view.known = None
                if view.held:
                    held += view.held.items()
                view.held = None
        return held

    cdef int _drop_local(self, long long machine) except -1:
        cdef Py_ssize_t k
        for k in range(len(self.local_messages)):
            if self.local_messages[k] is not None and self.local_messages[k][0] == machine:
                self.local_messages[k] = None
        return 0

    def begin(self, machines):
        """Let `machines` start at this instant."""
        cdef _Held alone = hold(&self.occupied)
        cdef const long long[::1] u = indices(machines, "machines", 0, self.nodes)
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
        cdef int slot
        cdef Timer* timer
        cdef View view
        if self.dirty:
            raise RuntimeError("the state of nodes is told at the end of a wave only")
        timers, values, known, held, random = [], [], [], [], []
        local, payloads = self._told_local()
        for k in range(self.nodes):
            slot = self.timers.first[k]
            while slot >= 0:
                timer = &self.timers.timer[slot]
                timers.append((timer.time, timer.number, k, timer.name))
                values.append(timer.value)
                slot = timer.next
            view = self.views[k]
            if view is not None:
                known += [(k, application) for application in sorted(view.known or ())]
                held += [(k, *each) for each in sorted((view.held or {}).items())]
                if view._random is not None:
                    random.append((k, view._random.drawn))
        return shown({
            "now": self.now, "events": self.events, "pause_at": self.pause_at, "phase": self.phase,
            "released": self.released, "number": self.timers.number,
            "timers": np.array(timers, np.int64).reshape(-1, 4), "values": np.array(values, np.float64),
            "known": np.array(known, np.int64).reshape(-1, 2), "held": np.array(held, np.int64).reshape(-1, 3),
            "reorder": touched_read(&self.reorder), "start": touched_read(&self.start),
            "idle": touched_read(&self.idle), "random": np.array(random, np.int64).reshape(-1, 2),
            **local, **told_payloads(payloads),
        })

    def setstate(self, state):
        """Go on from what `getstate` of a core made with the same arguments gave.

        Raises ValueError for a state that cannot be its own.
        """
        cdef _Held alone = hold(&self.occupied)
        cdef Py_ssize_t k
        cdef View view
        read, applications = State(state), self.release.shape[0]
        found = read_nodes(state, self.nodes, applications, len(self.timer_names))
        timers, values = found["timers"], found["values"]
        self.now, self.events = read.whole("now", 0, LATEST), read.whole("events", 0, LATEST)
        self.pause_at, self.phase = read.whole("pause_at", 0, LATEST * 2), read.whole("phase", 0, NOTHING)
        self.released, self.finished = read.whole("released", 0, applications), False
        timers_free(&self.timers)
        timers_make(&self.timers, self.nodes)
        for k in np.argsort(timers[:, 1], kind="stable"):
            self.timers.number = timers[k, 1]
            timers_set(&self.timers, timers[k, 0], timers[k, 2], timers[k, 3], values[k])
        self.timers.number = read.whole("number", 0, LATEST)
        self.views = [None] * self.nodes
        for node, application in found["known"].tolist():
            self._view(node)._hear(application)
        for node, application, tasks in found["held"].tolist():
            self._view(node)._put(application, tasks)
        for node, drawn in found["random"].tolist():
            view = self._view(node)
            view._random = RandomStream(self.seed, node, drawn)
        touched_fill(&self.reorder, found["reorder"])
        touched_fill(&self.start, found["start"])
        touched_fill(&self.idle, found["idle"])
        for k in range(self.n_kinds):
            outbox_clear(&self.out[k])
        self.dirty = False
        self.payloads, self.unused_payloads = read_payloads(state)
        self._read_local(state)

    # -- what others may read -----------------------------------------------------------------------------------

    def work_of(self, Py_ssize_t machine):
        """How long `machine` needs for its running task and all that wait there, s."""
        self._check(machine)
        return self._work(machine)

    def waiting_at(self, Py_ssize_t machine):
        """How many tasks wait at `machine`; a running task does not count."""
        self._check(machine)
        self._catch_up(machine)
        return self.queues.waiting[machine]

    cdef int _check(self, Py_ssize_t machine) except -1:
        if not 0 <= machine < self.nodes:
            raise ValueError(f"machine must be in 0..{self.nodes - 1}, got {machine}")
        return 0


def by_node_and_number(each):
    return each[:2]


cdef object touched_read(const Touched* t):
    """int64[n]: the machines that are to act, ascending."""
    cdef Py_ssize_t k
    return np.array(sorted([t.machine[k] for k in range(t.n)]), np.int64)


cdef int touched_fill(Touched* t, machines) except -1:
    touched_clear(t)
    for machine in machines.tolist():
        touched_add(t, machine)
    return 0
