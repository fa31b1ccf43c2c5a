"""C-level declarations of the tree kernel."""

from gridcore.queues.availability cimport Grid
from gridcore.fair_tree.debts cimport Debts
from gridcore.fair_tree.payloads cimport Payloads

cdef enum:                              # presence of a node: in the tree; failed; failed, as its parent knows
    PRESENT, SILENT, GONE

cdef enum:                              # rules of acceptance
    MINIMUM, ROOT, LARGEST, EITHER

# A request to place `tasks` tasks of `application`.  It comes from the parent, which numbers its requests to this node
# (`sequence`), or it climbs from a child (sequence -1).  `minimum` is the minimum stretch of the rest of the tree,
# `largest_minimum` the largest minimum stretch of a leaf there, `copy` the number of a copy of the root's summary, and
# `copy_time` the time of the copy (ns).  They are nan, nan, -1 and -1 if the message does not have them.
cdef packed struct Request:
    long long node, sender, application, tasks, sequence
    double minimum
    long long hops
    double largest_minimum
    long long copy, copy_time

# A summary: the number of the `payload`, its own number (`sequence`), the number of the last request that the sender had
# received (`echo`), the sender's `minimum` stretch, and the instant of the oldest change of a leaf that no earlier summary
# reports (`since`, ns).  `largest_minimum` is the largest minimum stretch of a leaf (0 for idle leaves), and `covers` the
# number of leaves in the summary; both are 0 if the rule does not need them.  The oldest sample in it was taken at
# `sample_time` (ns), which nodes do not read.
cdef packed struct Summary:
    long long node, sender, payload, sequence, echo
    double minimum
    long long since
    double largest_minimum
    long long covers, sample_time

# A message with the minimum stretch of the rest of the tree for a router; the fields are explained at `Request`.
cdef packed struct Spread:
    long long node, sender
    double minimum, largest_minimum
    long long copy, copy_time

cdef packed struct Decision:
    long long node, application, tasks, sample, guaranteed, hops

cdef struct Node:
    # the parent's knowledge of the node, and what it has sent to the node: 64 bytes
    int summary                         # handle of the last summary of the node, -1: none
    int debt                            # entry of the debts, -1: none
    double minimum                      # minimum stretch of the node, s/Mflop
    double last_sent_minimum            # minimum stretch of the rest of the tree, as last sent to the node
    long long last_summary_number, requests_sent
    long long n_leaves                  # number of leaves below it (a leaf counts itself)
    double total_speed                  # of these leaves, Mflop/s
    long long sample_time               # ns, when the oldest sample in its last summary was taken; `NEVER`: none
    # what the node has sent and received: 64 bytes
    int last_report                     # handle of the last summary that it sent
    unsigned char report_requested, presence
    unsigned short unused               # padding
    double last_report_minimum, outer_minimum   # outer: of the rest of the tree
    long long reports_sent, last_request, free_at, due_at
    long long oldest_change             # ns, the oldest change of a leaf that it has not reported

cdef struct Outlook:
    # what some rules of acceptance need in addition: the parent's knowledge of the node, and what it has sent to it
    double largest, last_sent_largest   # largest minimum stretch: of the node; of the rest of the tree, as last sent
    long long covers, last_sent_copy    # leaves that its last summary covers; ns, the time of the last copy sent
    # what the node has sent and received
    double last_report_largest, outer_largest
    long long last_report_covers
    long long copy_made_at              # ns, when its copy of the root's summary was made; -1: none
    int copy, unused                    # handle of that copy, -1: none; padding


cdef class SummaryTree:
    cdef bint in_call                       # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t leaves, nodes, first_leaf
    cdef readonly object grid           # type: SummaryGrid
    cdef Grid g
    cdef const double[::1] gs, gw, ga
    cdef Py_ssize_t cells
    cdef double bound, unknown
    cdef int accept
    cdef bint by_root, by_largest       # whether the rule needs copies of the root's summary, and largest stretches
    cdef Outlook* outlook               # by node; NULL if the rule does not need it
    cdef double total_speed             # of all leaves, Mflop/s
    cdef long long gap, hold_off        # ns; gap: between two reports of a node
    # applications
    cdef bint common_release
    cdef double longest                 # Mflop, the last sample of the task size
    cdef const double[::1] size, task_size
    cdef double[::1] release
    cdef long long[::1] size_sample, task_size_sample
    cdef const double[::1] speed
    cdef Node* node
    cdef Payloads payloads
    cdef Debts debts
    # scratch: room for four summaries (the first belongs to `_read`), and arrays per stretch or task size
    cdef unsigned int* scratch
    cdef unsigned int* left
    cdef unsigned int* right
    cdef unsigned int* sum
    cdef unsigned int* drops
    cdef double* limits
    cdef long long* capacities
    cdef readonly long long below_window, above_window

    cdef _add_applications(self, release, size, task_size)
    cdef const unsigned int* _read(self, Py_ssize_t child, double now, unsigned int* capacity) noexcept nogil
    cdef const unsigned short* _read_narrow(self, Py_ssize_t child, double now, unsigned short* capacity) noexcept nogil
    cdef int _divide(self, long long tasks, const long long* capacity, long long* share) except -1
    cdef void _acknowledge(self, const Request* row) noexcept nogil
    cdef bint _receive(self, const Summary* row) noexcept nogil
    cdef long long _turn(self, Py_ssize_t m, long long now) noexcept nogil
        # `now` if m may report; a later instant if m must wait until then and was not waiting yet; -1: nothing to do
    cdef double _release_of(self, Py_ssize_t child, double now) noexcept nogil
    cdef void _compute_debit(self, Py_ssize_t child, double now) noexcept nogil
    cdef bint _route(self, const Request* row, long long now, Request* out, Py_ssize_t* n_out,
                     Decision* made) except -1
        # writes at most two requests to send; returns True and a decision, or False if the request climbs
    cdef void _prefetch_request(self, const Request* row) noexcept nogil
    cdef void _prefetch_nodes(self, const Summary* row) noexcept nogil
    cdef void _prefetch_payloads(self, const Summary* row) noexcept nogil
    cdef double _minimum(self, Py_ssize_t u) noexcept nogil
    cdef double _limit(self, Py_ssize_t u, const Request* row, double now) noexcept nogil
        # returns the largest stretch at which router u accepts a request; nan: not known
    cdef double _promise(self, Py_ssize_t u, Py_ssize_t application, long long tasks, double now) noexcept nogil
    cdef void _learn_outlook(self, Py_ssize_t u, double largest, long long copy, long long made) noexcept nogil
        # takes over the message's reference to the copy
    cdef int _renew_copy(self, long long now) except -1
    cdef void _fill_outlook(self, Py_ssize_t u, Py_ssize_t child, bint force, double* largest, long long* copy,
                    long long* made) noexcept nogil
    cdef double _largest_below(self, Py_ssize_t u) noexcept nogil
    cdef void _forget_outlook(self, Py_ssize_t m) noexcept nogil
    cdef bint _columns(self, Py_ssize_t u, Py_ssize_t application, double now) noexcept nogil
    cdef void _column(self, Py_ssize_t child, Py_ssize_t application, double now, long long* capacities) noexcept nogil
    cdef void _look_up(self, int handle, bint has_debts, double at, long long leaves, double total_speed,
                       Py_ssize_t application, double now, long long* capacities) noexcept nogil
    cdef Py_ssize_t _spread(self, Py_ssize_t m, bint force, Spread* out) noexcept nogil
        # writes the messages of node m to its children that are routers, at most two; returns their number
    cdef void _forget_child(self, Py_ssize_t child) noexcept nogil
    cdef void _update_leaves(self, Py_ssize_t m) noexcept nogil
    cdef void _count_leaves(self, Py_ssize_t m) noexcept nogil
    cdef int _set_chunks(self, Py_ssize_t wide, chunks) except -1
    cdef void _forget_unused(self, int* handle) noexcept nogil
    cdef int _sum(self, Py_ssize_t m, double now, double* least) except -2
        # returns a payload with the sum of the debited children of router m, and sets `least` to their minimum
        # stretch; -1 if the children's summaries were sampled for different releases
    cdef double _release_in_sum(self, Py_ssize_t child, double now) noexcept nogil
    cdef bint _make_report(self, Py_ssize_t m, long long now, int handle, double least, double largest,
                   Summary* out) noexcept nogil
        # reports the payload `handle`, taking over its reference, if it differs from the last report
