"""C-level declarations of the workers of the probe-based schedulers."""

from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.probes.reservations cimport ReservationQueue
from gridcore.nodes.waiting_times cimport WaitingRecords

# The names of timers, in the order in which the schedulers declare them.
cdef enum:
    UNANSWERED, RETRY


cdef class Sparrow(Handlers):
    cdef Py_ssize_t workers             # the nodes with the lowest numbers
    cdef double probe_ratio, patience, retry
    cdef int probe, fetch, task, none_kind  # numbers of message kinds
    cdef MessageKind task_kind
    cdef ReservationQueue* reservations  # per node, its reservations
    cdef unsigned char[::1] slot_busy   # whether its slot runs a task or waits for an answer

    cdef int _number(self, NodeActions core, str name) except -1
    cdef int _checked_job(self, long long job) except -1
    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1
    cdef int _schedule(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1
    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1
    cdef int _answer_fetch(self, NodeActions core, Py_ssize_t node, Py_ssize_t worker, long long job) except -1
    cdef int _serve(self, NodeActions core, Py_ssize_t node) except -1
    cdef int _ask(self, NodeActions core, Py_ssize_t node, int job, int scheduler) except -1
    cdef int _free(self, NodeActions core, Py_ssize_t node) except -1
    cdef int _end_fetch(self, NodeActions core, Py_ssize_t node) except -1
    cdef int _finish(self, NodeActions core, Py_ssize_t node) except -1
    cdef int _timer(self, NodeActions core, Py_ssize_t node, long long name, double value) except -1
    cdef dict _entries(self)
    cdef int _set(self, state) except -1


cdef class ProbeWorker(Sparrow):
    cdef double cutoff, fetch_time
    cdef Py_ssize_t reserved, center
    cdef int job, up, began, ended
    cdef WaitingRecords records         # waiting times, as the center records them
    cdef bint has_workers               # whether a worker has reported
    cdef unsigned char[::1] recorded_at_center  # whether the task of its slot is in the records
    cdef long long[::1] targets               # scratch: the workers chosen for the tasks of a job

    cdef bint _is_long(self, NodeActions core, long long job) noexcept
    cdef int _forward(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1
    cdef int _open(self, NodeActions core) except -1
    cdef int _place(self, NodeActions core, long long job, long long tasks) except -1
    cdef int _report(self, NodeActions core, int kind, Py_ssize_t node, long long word) except -1
    cdef int _choose(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1
