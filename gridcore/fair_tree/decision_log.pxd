"""C-level contract of the log of decisions."""

from gridcore.fair_tree.summary_tree cimport Decision, Request, SummaryTree
from gridcore.network.links cimport Links
from gridcore.queues.edf cimport Queue
from gridcore.queues.task_queues cimport Scratch, TaskQueues

cdef packed struct LogRow:                  # a row of the log; `LOG_ROW` as a struct
    long long time, application, task
    short action
    long long decider
    short level
    long long machine, tasks, among
    double saw, limit, true_value, age

cdef struct Leaf:
    # the room (tasks) of the leaf for the bag `application` at `stretch`, valid while its running task runs
    long long until                         # ns, the end of that task; -1: not known
    double stretch, room
    int application
    int row                                 # row about its newest share, if it lacks the minimum stretch; -1: none

cdef struct OpenLeaf:
    # a leaf whose room varies over the interval of a bisection: its room at the lower and upper end, and in between
    int leaf
    double low, high, middle


cdef class _DecisionLog:
    cdef SummaryTree tree
    cdef TaskQueues queues
    cdef Links links
    cdef const unsigned char[::1] up        # whether each machine is up
    cdef object speed_below
    cdef LogRow* row
    cdef Py_ssize_t n, room, max_rows
    cdef long long n_unlogged
    # by handle of a sent summary: when its oldest sample was taken (ns)
    cdef long long* sample_times
    cdef Py_ssize_t handles
    cdef Leaf* leaf
    cdef Scratch scratch
    cdef Py_ssize_t scratch_room
    cdef OpenLeaf* open_leaves
    # the interval of a bisection, its open leaves, and the room of the others
    cdef Py_ssize_t n_open
    cdef double low, high, fixed

    cdef object _take(self, Py_ssize_t max_rows)
        # returns (`LOG_ROW` rows since the last call, number of unlogged rows); of these and later rows, `max_rows` are
        # logged
    cdef LogRow* _add(self, int action, long long now, Py_ssize_t node, long long application) except? NULL
        # returns a row to fill in, or NULL if the log is full
    cdef double _age(self, long long since, long long now) except? -1.0
    cdef int _record_samples(self, Py_ssize_t node, long long handle, long long now) except -1
        # records when the oldest sample in a summary that `node` sends was taken
    cdef long long _sampled_at(self, Py_ssize_t child) noexcept nogil
    cdef int _log_route(self, const Request* row, bint is_accepted, const Decision* decision, const Request* out,
                        Py_ssize_t n, double limit, long long now) except -1
        # logs the decision of a router on `row`; call it before `tree` handles another request
    cdef int _log_climb(self, const Request* row, bint is_accepted, const Request* out, double limit,
                      long long now) except -1
    cdef int _log_queued(self, const Request* row, long long now) except -1
        # logs that a leaf has queued a share; call `_complete_row` for the leaf before and after
    cdef int _complete_row(self, Py_ssize_t u, double least, long long now) except -1
        # completes the row about the newest share of leaf u: `least` is the minimum stretch, nan: not computed
    cdef int _make_room(self) except -1
    cdef double _compute_room(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil
    cdef double _room_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil
    cdef double _room_below(self, Py_ssize_t node, double stretch, Py_ssize_t application,
                            long long now) noexcept nogil
    cdef Py_ssize_t _leaves_below(self, Py_ssize_t node) noexcept nogil
    cdef double _smallest(self, double speed, double guess, Py_ssize_t application, long long tasks,
                          long long now) noexcept nogil
    cdef double _rooms(self, double fraction) noexcept nogil
    cdef double _crossing(self, long long tasks) noexcept nogil
    cdef bint _has_room(self, double stretch, Py_ssize_t application, long long tasks, long long now,
                      bint store) noexcept nogil
    cdef object _read_sample_times(self)
    cdef int _write_sample_times(self, const long long[::1] sample_times) except -1
