"""C-level declarations of the events of nodes."""

from cpython.ref cimport PyObject

from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.nodes.compiled_calls cimport Context
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.kinds cimport MessageKind, TimerKind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.roles cimport Role
from gridcore.nodes.timers cimport Timers
from gridcore.nodes.active_set cimport ActiveSet

# The phases of an instant, in order.
cdef enum:
    DELIVERIES, ACTS, TIMERS, NOTHING
# The core returns to the engine after this many events, for a checkpoint or a progress bar.
cdef enum:
    STRIDE = 8192


cdef struct DueTimer:                   # ordered by `item` (see `_take_due`), then by `number` (order of setting)
    long long item, number
    int slot


cdef class NodeEvents(NodeActions):
    cdef readonly object programs       # list of objects, or `NodeRecords`
    cdef list views                     # per node; None until the first event
    cdef object report_lost
    cdef bint has_on_end                # whether nodes of a role have this handler
    cdef bint until_done, until_placed
    cdef unsigned char[::1] up
    cdef const long long[::1] home, submission_nodes, release, submitter, tasks
    cdef Py_ssize_t released
    cdef ReleaseQueue release_queue          # the releases instead, if some follow the ends of other applications; or None
    cdef long long total
    cdef ActiveSet start, end
    cdef DueTimer* due_timers
    cdef Py_ssize_t due_timers_capacity
    cdef int* acting                    # scratch: the machines that act
    cdef Py_ssize_t acting_capacity
    cdef readonly long long events      #: number of handler calls so far
    cdef long long limit, pause_at
    # if several processes share the run: the last instant (ns) that this one may run by itself, and the only phase that it
    # may run, or -1
    cdef long long horizon
    cdef int only_phase
    cdef long long since                # `events` when this instant began
    cdef object sampler                 # called at `sample_at` ns (`NEVER`: not at all); see `sample`
    cdef long long sample_at
    cdef object recorder                # recorder of the handler calls of some nodes, or None; see `record_calls`
    cdef const unsigned char[::1] is_recorded  # per node: whether its calls are recorded
    cdef long long[::1] counts, latest  # per row of `_make_counts`: the number of events, and the node of a recent one
    cdef long long stalled_at           # ns, the last instant with many events, and the counts when that was noticed
    cdef object stalled_counts
    cdef object report_endless
    cdef bint needs_engine              # whether this instant has so many events that the engine must check
    cdef int phase                      # the phase handled last
    cdef int[::1] direct_kinds          # numbers of the kinds with their own delay
    cdef bint handling_now              # whether messages with a delay of 0 are being handled
    cdef readonly bint finished         #: whether the run is over
    cdef readonly long long placed_at   #: ns, when all tasks were in queues for the first time; -1: not yet
    cdef Context context
    cdef bint is_compiled
    cdef bint copies_records            # whether a record of the links may move while its handler runs
    cdef Py_ssize_t last_handler, last_node  # row of the last called compiled handler, and its node
    cdef Handlers cython_handlers       # handlers in Cython in place of the handlers of roles, or None
    cdef bint holds_tasks               # whether `holdings` are kept
    cdef bint in_batches                # whether these handlers take batches of messages or nodes
    cdef long long[::1] record          # scratch: the message for a compiled handler
    cdef readonly list memory           #: per role: the objects of compiled nodes, a `RecordMemory` or None

    cdef int _compile(self, compiled_form) except -1
    cdef int _compile_role(self, Role* role, handlers, states) except -1
    cdef list _handler_names(self)
    cdef Py_ssize_t _timer_handler(self, TimerKind kind) noexcept
    cdef int _allocate_record(self) except -1
    cdef object _missing_handler(self, MessageKind kind, Py_ssize_t node)
    cdef str _handler_of(self, MessageKind kind, Py_ssize_t node)
    cdef int _use_handlers(self, Handlers handlers) except -1
    cdef int _call_compiled(self, Py_ssize_t handler, Py_ssize_t node, const long long* arguments) except -1
    cdef int _call_without_arguments(self, Py_ssize_t event, str handler, int node) except -1
    cdef int _call(self, str handler, Py_ssize_t node, PyObject* first, PyObject* second) except -1
    cdef int _record_call(self, str handler, Py_ssize_t node, PyObject* first, PyObject* second) except -1
    cdef int _record_timer(self, TimerKind kind, Py_ssize_t node, const long long* fields) except -1
    cdef int _record_compiled_call(self, Py_ssize_t handler, Py_ssize_t node, const long long* arguments) except -1
    cdef object _view(self, Py_ssize_t node)

    cdef int _make_counts(self) except -1
    cdef void _count(self, Py_ssize_t row, Py_ssize_t node, long long n) noexcept
    cdef tuple _sort_of_row(self, Py_ssize_t row, Py_ssize_t node)
    cdef int _check_clock(self) except -1

    cdef long long _advance(self, long long limit) except -1
    cdef int _run_sampler(self, long long end) except -1
    cdef long long _due(self) except -1
    cdef bint _has_pending_acts(self) noexcept
    cdef int _phase_due(self) except -1
    cdef int _collect_idle(self) except -1
    cdef bint _is_placed(self) except -1
    cdef int _end_placement(self) except -1
    cdef int _set_clock(self, long long at) except -1
    cdef int _begin_instant(self) except -1
    cdef int _begin_step(self, int phase, int part) except -1
    cdef int _count_arrived(self, Py_ssize_t n) except -1
    cdef int _end_tasks(self) except -1

    cdef int _wave(self) except -1
    cdef void _prefetch_receivers(self, MessageKind kind) noexcept
    cdef void _prefetch_receiver(self, MessageKind kind, const long long* row) noexcept
    cdef void _prefetch_next(self, MessageKind kind, const long long* row) noexcept
    cdef int _drain(self) except -1
    cdef int _deliver(self, MessageKind kind, int slot, const long long* row) except -1
    cdef object _message(self, MessageKind kind, const long long* row)
    cdef int _load_arrays(self, MessageKind kind) except -1
    cdef int _deliver_local(self) except -1
    cdef int _handle_dropped(self, int slot) except -1

    cdef int _next_direct(self) noexcept
    cdef int _take_direct(self, int number) except -1
    cdef int _handle_now(self) except -1
    cdef int _take_instant(self) except -1

    cdef int _act(self) except -1
    cdef int _take_turns(self) except -1
    cdef int _reorder(self, Py_ssize_t n) except -1

    cdef inline long long _next_release(self) noexcept
    cdef int _release_due(self) except -1
    cdef int _release_or_fire(self) except -1
    cdef Py_ssize_t _take_due(self, Timers* timers, long long per_node, long long per_name) except -1
    cdef int _fire(self, int slot) except -1
    cdef int _fire_application_timers(self) except -1
    cdef int _time_out(self, int node, const long long* fields) except -1
    cdef int _give(self, Py_ssize_t index, long long tasks, str handler) except -1
    cdef int _give_to(self, Py_ssize_t node, Py_ssize_t index, long long tasks, str handler) except -1
