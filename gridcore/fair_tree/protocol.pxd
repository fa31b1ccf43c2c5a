"""C-level contract of the compiled protocol."""

from gridcore.common.arguments cimport _Guard
from gridcore.common.pending cimport Pending
from gridcore.fair_tree.decision_log cimport _DecisionLog
from gridcore.fair_tree.summary_tree cimport Decision, Request, Spread, Summary, SummaryTree
from gridcore.network.links cimport Links
from gridcore.queues.task_queues cimport Scratch, TaskQueues

cdef packed struct Share:
    long long node, sender, application, tasks

cdef struct Kind:
    int number
    long long nbytes, transmission_time


cdef class _NodeSet:
    cdef int[::1] item
    cdef unsigned char[::1] is_member
    cdef Py_ssize_t n

    cdef void add(self, Py_ssize_t m) noexcept nogil
    cdef int sort(self) except -1
    cdef void clear(self) noexcept nogil
    cdef object read(self)


cdef class FairTreeProtocol:
    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef SummaryTree tree
    cdef TaskQueues queues
    cdef Links links
    cdef Kind summary, spread, request, accept
    cdef bint spread_on_change
    cdef bint run_on
    cdef long long cell, goal
    cdef readonly long long placed_at   # ns; `NEVER`: not all tasks are placed
    cdef long long touched_at           # ns, the instant at which the caller will call `act`, or `NEVER`
    cdef _DecisionLog log               # None: decisions are not logged
    cdef double[::1] minimum_stretch     # of each leaf when its queue was last sorted
    cdef object observe
    cdef const double[::1] idle_minimum
    cdef const long long[::1] submitter
    cdef Spread[2] waiting              # messages that the root will send at this instant
    cdef Py_ssize_t n_waiting
    cdef Pending turns                  # nodes by the ends of their delays: (time, node, node)
    cdef _NodeSet reports, orders         # nodes that must act at the present instant
    cdef Scratch* scratch               # one per thread
    cdef unsigned int* sample_room      # cells of one summary per thread
    cdef Py_ssize_t room
    cdef Py_ssize_t threads
    cdef object pool
    # the leaves of a batch, and their reports
    cdef int[::1] batch, handles
    cdef double[::1] least, largest
    cdef unsigned char[::1] fits
    # summaries that have reached the root: (arrival, oldest change of a leaf), ns
    cdef long long[:, ::1] arrivals
    cdef Py_ssize_t n_arrivals
    # decisions of routers on climbing requests, and their instants
    cdef Decision[::1] decision_rows
    cdef long long[::1] decision_times
    cdef Py_ssize_t n_decisions

    cdef Kind _read_kind(self, str name, object pair, Py_ssize_t width) except *
    cdef _Guard _guard(self)
    cdef int _act(self, long long now) except -1
    cdef bint _all_placed(self) except -1
    cdef bint _arrive(self, long long now) except -1
    cdef bint task_lost(self) noexcept nogil
    cdef char* _at(self, Py_ssize_t k) noexcept nogil
    cdef int _begin_spread(self, long long now) except -1
    cdef int _check(self, const Pending* p) except -1
    cdef int _check_copy(self, long long copy) except -1
    cdef int _check_copy_in_use(self, long long copy) except -1
    cdef long long* _copy_of(self, int slot) noexcept nogil
    cdef int _enqueue(self, const Request* row, long long now) except -1
    cdef int _make_payload(self, Py_ssize_t k, bint wide) except -1
    cdef int _make_room(self) except -1
    cdef long long _next_turn(self) noexcept nogil
    cdef int _post(self, const Kind* kind, const void* record, long long now) except -1
    cdef int _post_down(self, const Kind* kind, const void* record, double largest, long long copy,
                        long long now) except -1
    cdef int _receive(self, const Summary* row, long long now) except -1
    cdef int _reorder(self, long long now) except -1
    cdef int _report(self, long long now) except -1
    cdef int _route(self, const Request* row, long long now) except -1
    cdef int _send(self, int m, int handle, double least, double largest, long long now) except -1
    cdef int _run_work(self, bint sample, Py_ssize_t n, long long now) except -1
    cdef int _spread(self, Py_ssize_t m, bint force, long long now) except -1
    cdef int _take_turns(self, long long now) except -1
    cdef int _report_nodes(self, const int[:] nodes, long long now) except -1
    cdef int _report_leaves(self, Py_ssize_t n, long long now) except -1
    cdef int _wait(self, int m, long long due) except -1
    cdef void _prefetch_next(self) noexcept nogil
    cdef long long _release_of(self, long long now) noexcept nogil
    cdef void _free_scratch(self) noexcept nogil
    cdef void _work(self, bint sample, Py_ssize_t low, Py_ssize_t high, long long now, Py_ssize_t thread) noexcept nogil
    cdef void* _record(self, Py_ssize_t k, Py_ssize_t n) noexcept nogil
