"""C-level contract of the tree kernel."""

from gridcore.queues.availability cimport Grid
from gridcore.fair_tree.debts cimport Debts
from gridcore.fair_tree.payloads cimport Payloads

cdef enum:                              # states of a node: in the tree, out of it, out of it and its parent knows
    PRESENT, SILENT, GONE

cdef enum:                              # rules of acceptance
    MINIMUM, ROOT, LARGEST, EITHER

cdef packed struct Request:
    long long node, sender, application, tasks, sequence
    double minimum
    long long hops
    double largest
    long long copy, made

cdef packed struct Summary:
    long long node, sender, payload, sequence, echo
    double minimum
    long long since
    double largest
    long long covers

cdef packed struct Spread:
    long long node, sender
    double minimum, largest
    long long copy, made

cdef packed struct Decision:
    long long node, application, tasks, sample, guaranteed, hops

cdef struct Node:
    # what the parent knows about the node and has sent to it: 64 bytes
    int held                            # handle of its last summary, -1: none
    int debt                            # entry of the debts, -1: none
    double held_minimum, told           # minimum stretch: its own; of the rest of the tree, as last sent to it
    long long heard, issued             # number of its last summary, and of the last request to it
    long long below                     # number of leaves below it (a leaf counts itself)
    double power                        # total speed of these leaves, Mflop/s
    long long unused                    # pads the cache line
    # what the node has sent and received: 64 bytes
    int said                            # handle of the last summary that it sent
    unsigned char asked, away
    double said_minimum, rest
    long long number, got, free_at, due_at
    long long since                     # ns, the oldest change of a leaf that it has not reported

cdef struct Outlook:
    # what a rule of acceptance needs besides: what the parent knows about the node and has told it
    double held_largest, told_largest   # largest minimum stretch: its own; of the rest of the tree, as last told to it
    long long covers, copied            # leaves that its last summary covers; ns, the copy that it was told last
    # what the node has sent and received
    double said_largest, rest_largest
    long long said_covers
    long long made                      # ns, when its copy of the root's summary was made; -1: none
    int copy, unused                    # handle of that copy, -1: none; the second pads it


cdef class SummaryTree:
    cdef bint occupied                      # see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t leaves, nodes, first_leaf
    cdef readonly object grid           # type: SummaryGrid
    cdef Grid g
    cdef const double[::1] gs, gw, ga
    cdef Py_ssize_t cells
    cdef double bound, unknown
    cdef int accept
    cdef bint by_root, by_largest       # what the rule needs
    cdef Outlook* outlook               # NULL: the rule needs nothing besides
    cdef double whole_power             # of all leaves, Mflop/s
    cdef long long gap, hold_off
    # applications
    cdef bint celled
    cdef double longest                 # Mflop, the last sample of the task size
    cdef const double[::1] size, task_size, release
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
    cdef long long* rooms
    cdef readonly long long below_window, above_window

    cdef _add_applications(self, release, size, task_size)
    cdef const unsigned int* _read(self, Py_ssize_t child, double now, unsigned int* room) noexcept nogil
    cdef const unsigned short* _read_narrow(self, Py_ssize_t child, double now, unsigned short* room) noexcept nogil
    cdef int _divide(self, long long tasks, const long long* room, long long* share) except -1
    cdef void _acknowledge(self, const Request* row) noexcept nogil
    cdef void _receive(self, const Summary* row) noexcept nogil
    cdef int _check_summary(self, const Summary* row, Py_ssize_t k) except -1
    cdef long long _turn(self, Py_ssize_t m, long long now) noexcept nogil
        # `now` if m may report; a later instant if m must wait until then and was not waiting yet; -1: nothing to do
    cdef double _instant(self, Py_ssize_t child, double now) noexcept nogil
    cdef void _drop_of(self, Py_ssize_t child, double now) noexcept nogil
    cdef bint _route(self, const Request* row, long long now, Request* out, Py_ssize_t* n_out,
                     Decision* made) except -1
        # writes at most two requests to send; returns True and a decision, or False if the request climbs
    cdef void _read_ahead(self, const Request* row) noexcept nogil
    cdef void _read_ahead_nodes(self, const Summary* row) noexcept nogil
    cdef void _read_ahead_payloads(self, const Summary* row) noexcept nogil
    cdef double _minimum(self, Py_ssize_t u) noexcept nogil
    cdef double _limit(self, Py_ssize_t u, const Request* row, double now) noexcept nogil
        # the largest stretch at which router u accepts a request; nan: not known
    cdef double _promise(self, Py_ssize_t u, Py_ssize_t application, long long tasks, double now) noexcept nogil
    cdef void _learn(self, Py_ssize_t u, double largest, long long copy, long long made) noexcept nogil
        # takes over the message's reference to the copy
    cdef int _renew(self, long long now) except -1
    cdef void _tell(self, Py_ssize_t u, Py_ssize_t child, bint always, double* largest, long long* copy,
                    long long* made) noexcept nogil
    cdef double _most(self, Py_ssize_t u) noexcept nogil
    cdef void _forget(self, Py_ssize_t m) noexcept nogil
    cdef bint _columns(self, Py_ssize_t u, Py_ssize_t application, double now) noexcept nogil
    cdef void _column(self, Py_ssize_t child, Py_ssize_t application, double now, long long* rooms) noexcept nogil
    cdef void _look(self, int handle, bint owes, double at, long long leaves, double power, Py_ssize_t application,
                    double now, long long* rooms) noexcept nogil
    cdef Py_ssize_t _spread(self, Py_ssize_t m, bint always, Spread* out) noexcept nogil
        # writes what node m tells its children that are routers, at most two messages; returns their number
    cdef void _unhear(self, Py_ssize_t child) noexcept nogil
    cdef void _weigh(self, Py_ssize_t m) noexcept nogil
    cdef int _sum(self, Py_ssize_t m, double now, double* least) except -2
        # returns a payload with the sum of the debited children of router m, and sets `least` to their minimum
        # stretch; -1 if the children's summaries were sampled for different releases
    cdef double _released(self, Py_ssize_t child, double now) noexcept nogil
    cdef const unsigned int* _add(self, Py_ssize_t one, Py_ssize_t other, double now) noexcept nogil
    cdef bint _say(self, Py_ssize_t m, long long now, int handle, double least, double largest,
                   Summary* out) noexcept nogil
        # report the payload `handle`, taking over its reference, if it contains news
