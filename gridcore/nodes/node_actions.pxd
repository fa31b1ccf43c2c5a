"""C-level declarations of the state and the actions of nodes."""

from gridcore.network.links cimport Links
from gridcore.nodes.board cimport Board
from gridcore.nodes.holdings cimport Holdings
from gridcore.nodes.kinds cimport MessageKind, TimerKind
from gridcore.nodes.local_messages cimport LocalMessages
from gridcore.nodes.outbox cimport Outbox
from gridcore.nodes.payloads cimport Payloads
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.roles cimport Role
from gridcore.nodes.rows cimport Head
from gridcore.nodes.timers cimport Timers
from gridcore.nodes.active_set cimport ActiveSet
from gridcore.queues.availability cimport Grid
from gridcore.queues.task_queues cimport Scratch, TaskQueues

# The smallest number of machines that are worth the overhead of threads.
cdef enum:
    MIN_THREADED = 512

cdef class NodeActions:
    cdef Links links
    cdef TaskQueues queues
    cdef readonly Py_ssize_t nodes
    cdef Role* roles                    # ascending by node
    cdef Py_ssize_t n_roles
    cdef list role_names                # per role: (name, name of the class)
    cdef dict role_nodes                # name -> range of nodes
    cdef long long[:, ::1] role_bounds  # per role: first, end
    cdef readonly long long now         #: ns
    cdef object convert, error_type, add_note, record_decision  # `NodeCore` describes attributes without a comment
    cdef object compiled_form
    cdef object slots
    cdef object jobs, environment
    # messages
    cdef Py_ssize_t n_kinds
    cdef list kinds                     # by their numbers
    cdef dict by_name
    cdef Outbox* out
    cdef bint at_once
    cdef bint dirty                     # whether sent messages wait for the end of the wave
    cdef str read_only_reason           # what nodes do now while they must not act, for errors; or None
    cdef bint is_observed               # whether a sampler reads nodes now, which must not write notes either
    cdef object open_call               # the recorder of the handler call at hand, or None
    cdef object observe
    cdef Py_ssize_t only_node           # the only node that exists, for a test of its program; -1: all exist
    cdef readonly list sent             #: (receiver, kind, fields) of the messages of `only_node`
    cdef list received                  # records of messages from nodes that do not exist
    cdef Payloads payloads
    cdef LocalMessages local
    cdef long long n_direct             # number of sent messages of kinds with their own delay
    cdef long long n_instant            # number of unhandled messages with a delay of 0
    # The messages with a delay of 0 that need no links, as records: number of the kind, receiver, sender, fields.
    cdef Outbox instant
    cdef Py_ssize_t instant_at          # the first unhandled message
    cdef bint has_instant               # whether no kind with a delay of 0 needs links
    # the knowledge of nodes
    cdef object neighbours, neighbour_offsets, make_application
    cdef dict applications
    cdef Holdings holdings
    cdef Board board                    # None if there is no board
    cdef unsigned long long seed
    cdef list streams                   # per node; None until the first draw
    # timers and turns
    cdef list timer_kinds               # by their numbers
    cdef list timers_by_role            # per role: name -> kind of timer
    cdef long long* timer_fields        # scratch: the fields of one timer
    cdef int request_timer              # the number of the timer of requests; -1 if no kind has an answer
    cdef long long[::1] request_counts  # per node, see `_start_request`; empty if no kind has an answer
    cdef Head pending_requests          # map: number of a request -> slot of its timer
    cdef bint has_on_idle, has_on_done  # whether nodes of a role have these handlers
    cdef Timers timers, turns           # `turns` has the instants of `on_act`
    cdef Timers application_timers      # timers of handlers written in Cython, by application in place of node
    cdef ActiveSet reorder, idle        # machines
    # memory for the queue of one machine, for each of the threads that order or sample queues
    cdef Scratch* scratch
    cdef Py_ssize_t scratch_capacity, threads
    cdef object pool                    # runs the threads; None for one thread
    cdef dict unread_completions        # machine -> application -> completed tasks that no node has read

    cdef bint _handles(self, Py_ssize_t node, int event) noexcept
    cdef object _application(self, long long index)
    cdef RandomStream _stream(self, Py_ssize_t node)
    cdef int _check_board(self, Py_ssize_t node) except -1
    cdef int _publish(self, Py_ssize_t node, long long application, Py_ssize_t column, double value,
                      bint falling) except -1
    cdef int _add_to_board(self, Py_ssize_t node, Py_ssize_t row, Py_ssize_t column, double delta,
                           bint is_last) except -1
    cdef object _board_error(self, Py_ssize_t node, reason)
    cdef int _check_known(self, Py_ssize_t node, long long application) except -1
    cdef int _place(self, Py_ssize_t node, long long application, long long tasks) except -1

    cdef Py_ssize_t _checked_node(self, Py_ssize_t node) except -1
    cdef str _holders(self, Py_ssize_t node, long long application)

    cdef int _catch_up(self, Py_ssize_t machine) except -1
    cdef long long _tasks_at(self, Py_ssize_t machine) except -1
    cdef long long _running_at(self, Py_ssize_t machine) except -1
    cdef double _work(self, Py_ssize_t machine) except -1.0
    cdef double _minimum_stretch(self, Py_ssize_t machine) except -1.0
    cdef object _sample(self, Py_ssize_t machine, grid, long long release, long long memory)
    cdef int _sample_cells(self, Py_ssize_t machine, const Grid* grid, long long release, long long memory,
                           unsigned int* out) except -1
    cdef tuple _queued(self, Py_ssize_t machine)
    cdef int _check_reports(self, Py_ssize_t node) except -1
    cdef list _completed(self, Py_ssize_t machine)
    cdef int _read_completions(self) except -1

    cdef int _enqueue(self, Py_ssize_t node, long long application, long long tasks) except -1
    cdef long long _tasks_to_place(self, Py_ssize_t node, long long application) noexcept
    cdef long long _take(self, Py_ssize_t node, long long application, long long tasks) except -1
    cdef object _read_only_error(self, Py_ssize_t node)
    cdef int _make_timer_kinds(self, timers) except -1
    cdef dict _timer_of(self, Py_ssize_t node)
    cdef int _set_timer(self, Py_ssize_t node, Py_ssize_t name, double seconds, double value) except -1
    cdef int _set_timer_at(self, Py_ssize_t node, Py_ssize_t name, long long instant, double value) except -1
    cdef int _set_timer_fields(self, Py_ssize_t node, Py_ssize_t name, double seconds, const long long* fields) except -1
    cdef int _set_timer_fields_at(self, Py_ssize_t node, Py_ssize_t name, long long instant,
                                  const long long* fields) except -1
    cdef int _set_application_timer(self, Py_ssize_t application, int name, long long instant) except -1
    cdef int _make_scratch(self) except -1
    cdef int _free_scratch(self) except -1
    cdef int _run_in_threads(self, function, Py_ssize_t n) except -1
    cdef int _act_at(self, Py_ssize_t node, long long instant) except -1
    cdef int _act_after(self, Py_ssize_t node, double seconds) except -1
    cdef list _timer_values(self, TimerKind kind, const long long* fields)
    cdef int _check_request(self, Py_ssize_t node, MessageKind kind, double seconds) except -1
    cdef long long _start_request(self, Py_ssize_t node, MessageKind kind, long long* row, double seconds) except -1
    cdef bint _end_request(self, Py_ssize_t node, long long number) except -1
    cdef int _forget_requests(self, Py_ssize_t node) except -1
    cdef object _request(self, const long long* fields)
    cdef object _timer_error(self, node, name, seconds)
    cdef object _timer_field_error(self, node, TimerKind kind, str action, fields)

    cdef int _make_kinds(self, kinds) except -1
    cdef int _add_kind(self, MessageKind kind, list local_kinds) except -1
    cdef int _account_for_message(self, Py_ssize_t node, MessageKind k, const long long* row) except -1
    cdef int _check_size(self, Py_ssize_t node, MessageKind kind, long long nbytes) except -1
    cdef object _failed_size(self, Py_ssize_t node, MessageKind kind, error)
    cdef long long* _send_later(self, Py_ssize_t node, MessageKind kind, double seconds,
                                long long application) except NULL
    cdef int _free_arrays(self, MessageKind kind, const long long* row, int fields) except -1
    cdef int _drop_message(self, MessageKind kind, int fields) except -1
    cdef object _array_field(self, Py_ssize_t node, MessageKind kind, Py_ssize_t field, value)
    cdef object _send_error(self, node, to, kind, dict fields)
    cdef dict _fields(self, MessageKind kind, const long long* row, bint is_at_hand=*)
    cdef int _send_now(self, MessageKind kind, const long long* row) except -1
    cdef bint _ends_here(self, MessageKind kind, const long long* row) except -1
    cdef int _copy(self, const long long* row, unsigned char[:, ::1] records) except -1
    cdef int _flush(self) except -1
    cdef int _mark_kind(self, Py_ssize_t kind) except -1
    cdef int _report_sent(self, Outbox* box, int number) except -1


cdef inline int check_may_act(NodeActions core, Py_ssize_t node) except -1:
    """Raise an error in calls that may only read, whose time depends on unrelated events."""
    if core.read_only_reason is not None:
        raise core._read_only_error(node)
    return 0
