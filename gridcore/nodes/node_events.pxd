"""C-level contract of what is due for nodes."""

from cpython.ref cimport PyObject

from gridcore.nodes.compiled_calls cimport Context, Handler
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.kinds cimport Kind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.touched cimport Touched

# What a step handles, in its order within an instant.
cdef enum:
    DELIVERIES, ACTS, TIMERS, NOTHING
# How many events the core handles before the engine gets control, for a checkpoint or a progress bar.
cdef enum:
    STRIDE = 8192


cdef struct Fire:                       # a timer that is due
    long long item, number
    int slot


cdef class NodeEvents(NodeActions):
    cdef readonly object programs       # list of objects, or array of states
    cdef list views                     # per node; None for one that has seen nothing
    cdef object slots, lost
    cdef bint starts, ends, dones, values  # whether programs have these handlers
    cdef bint until_done, until_placed
    cdef unsigned char[::1] up
    cdef const long long[::1] home, release, submitter, tasks
    cdef Py_ssize_t released
    cdef long long total
    cdef Touched start, end
    cdef Fire* firing
    cdef Py_ssize_t firing_room
    cdef int* acting                    # scratch: the machines that act
    cdef Py_ssize_t acting_room
    cdef readonly long long events      #: how many handler calls there have been
    cdef long long limit, pause_at
    cdef long long since                # how many events there had been when this instant began
    cdef bint stuck                     # whether there have been so many since that the engine must have a look
    cdef int phase                      # of what has been handled last
    cdef int[::1] direct                # numbers of the kinds with a delay of their own
    cdef bint handling_now              # whether messages with a delay of 0 are being handled
    cdef readonly bint finished         #: whether the run is over
    cdef readonly long long placed_at   #: ns, when all tasks were in queues for the first time; -1: not yet
    cdef Context context
    cdef Handler* handle                # of compiled programs: per kind, then `on_start` and so on; NULL: interpreted
    cdef Py_ssize_t doing, doer         # the compiled handler called last, an index of `handle`, and its node
    cdef Handlers written               # handlers written in Cython, then `handle` has none; or None
    cdef long long[::1] given           # scratch: the message that a compiled handler gets
    cdef unsigned char[:, ::1] states
    cdef char* state
    cdef Py_ssize_t stride              # bytes of a state

    cdef int _compile(self, compiled) except -1
    cdef int _make_handle(self) except -1
    cdef str _said(self)
    cdef int _write(self, Handlers handlers) except -1
    cdef int _run(self, Py_ssize_t which, Py_ssize_t node, const long long* given) except -1
    cdef int _tell_node(self, Py_ssize_t which, str handler, int node) except -1
    cdef int _call(self, str handler, Py_ssize_t node, PyObject* first, PyObject* second) except -1
    cdef object _view(self, Py_ssize_t node)

    cdef long long _advance(self, long long limit) except -1
    cdef long long _due(self) except -1
    cdef bint _touched(self) noexcept
    cdef int _phase_due(self) except -1
    cdef int _collect_idle(self) except -1
    cdef int _end_tasks(self) except -1

    cdef int _wave(self) except -1
    cdef int _drain(self) except -1
    cdef int _deliver(self, Kind kind, int slot, const long long* row) except -1
    cdef int _deliver_local(self) except -1
    cdef int task_lost(self, int slot) except -1

    cdef int _next_direct(self) noexcept
    cdef int _take_direct(self, int number) except -1
    cdef int _handle_now(self) except -1

    cdef int _act(self) except -1
    cdef int _take_turns(self) except -1
    cdef int _reorder(self, Py_ssize_t n) except -1

    cdef int _release_or_fire(self) except -1
    cdef int _fire(self, int slot) except -1
    cdef int _give(self, Py_ssize_t index, long long tasks, str handler) except -1
    cdef int _give_to(self, Py_ssize_t node, Py_ssize_t index, long long tasks, str handler) except -1
