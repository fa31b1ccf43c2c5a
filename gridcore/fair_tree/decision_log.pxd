"""C-level contract of the log of decisions."""

from gridcore.fair_tree.summary_tree cimport Decision, Request, SummaryTree
from gridcore.network.links cimport Links
from gridcore.queues.edf cimport Queue
from gridcore.queues.task_queues cimport Scratch, TaskQueues

cdef packed struct Note:                    # a row of the log, see `NOTE`
    long long time, application, task
    short action
    long long decider
    short level
    long long machine, tasks, among
    double saw, limit, true_value, age

cdef struct Leaf:
    # how many tasks of the bag `application` the leaf can take at `stretch`, as long as its running task runs
    long long until                         # ns, the end of that task; -1: not known
    double stretch, room
    int application
    int row                                 # row about its newest share, which lacks the minimum stretch; -1: none

cdef struct Open:
    # a leaf of which the room is not known over the whole interval of a bisection: its room at the lower and the
    # upper end, and in between
    int leaf
    double low, high, middle


cdef class _DecisionLog:
    cdef SummaryTree tree
    cdef TaskQueues queues
    cdef Links links
    cdef const unsigned char[::1] up        # whether each machine is up
    cdef object speed_below
    cdef Note* row
    cdef Py_ssize_t n, room, most
    cdef long long left_out
    # per handle of a summary, when the oldest sample in it was taken (ns); only of those that were sent
    cdef long long* sampled
    cdef Py_ssize_t handles
    cdef Leaf* leaf
    cdef Scratch scratch
    cdef Py_ssize_t scratch_room
    cdef Open* open
    # the interval of a bisection, its open leaves, and the room of the others
    cdef Py_ssize_t n_open
    cdef double low, high, fixed

    cdef object _taken(self, Py_ssize_t most)
        # returns (`NOTE` rows logged since the last call, how many were left out); `most` rows may be kept from these on
    cdef Note* _add(self, int action, long long now, Py_ssize_t node, long long application) except? NULL
        # returns a row to fill in, or NULL if the log is full
    cdef double _age(self, long long since, long long now) except? -1.0
    cdef int _sent(self, Py_ssize_t node, long long handle, long long now) except -1
        # remembers how old the samples in a summary are that `node` sends
    cdef long long _since(self, Py_ssize_t child) noexcept nogil
    cdef int _routed(self, const Request* row, bint made, const Decision* decision, const Request* out, Py_ssize_t n,
                     double limit, long long now) except -1
        # logs how a router has dealt with `row`, while the columns of `tree` are still those of this request
    cdef int _climbed(self, const Request* row, bint made, const Request* out, double limit,
                      long long now) except -1
    cdef int _queued(self, const Request* row, long long now) except -1
        # logs that a leaf has put a share into its queue; `_settle` must be called for the leaf before and after
    cdef int _settle(self, Py_ssize_t u, double least, long long now) except -1
        # completes the row about the newest share of leaf u: `least` is the minimum stretch, nan: not computed
    cdef int _make_room(self) except -1
    cdef double _ask(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil
    cdef double _room_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil
    cdef double _room_below(self, Py_ssize_t node, double stretch, Py_ssize_t application,
                            long long now) noexcept nogil
    cdef Py_ssize_t _leaves_below(self, Py_ssize_t node) noexcept nogil
    cdef double _smallest(self, double speed, double guess, Py_ssize_t application, long long tasks,
                          long long now) noexcept nogil
    cdef double _rooms(self, double part) noexcept nogil
    cdef double _crossing(self, long long tasks) noexcept nogil
    cdef bint _enough(self, double stretch, Py_ssize_t application, long long tasks, long long now,
                      bint keep) noexcept nogil
    cdef object _read_sampled(self)
    cdef int _write_sampled(self, const long long[::1] sampled) except -1
