"""Declarations of queues with an order, which `ordered_queue.pyx` defines."""

from gridcore.rigid_queue.runs cimport JobRuns

cdef struct Turn:                          # a job in a dynamic order: the highest keys come first
    double key
    int place                              # jobs of equal keys are in order of their places


cdef class OrderedQueue(JobRuns):
    cdef readonly bint predicted
    cdef int order
    cdef const long long[::1] requests
    cdef char[::1] corrections             # by job: how often its prediction was corrected
    cdef const int[::1] rank               # by job; jobs of equal ranks are in order of submission
    cdef int[::1] place, job_at            # the place of each job by rank and submission, and the job at each place
    cdef int[::1] next_place               # by rank: the place of the next job, if `releases` decide the submissions
    cdef const int[::1] width              # by job: the machines or cores that count for limits, shares and orders
    cdef long long total_width             # of all machines
    cdef const int[::1] user, queue_of
    # by user: the last job that has ended and the one before it, -1 for none; the machines in use; and the time used,
    # decayed, as of an instant, machine-seconds
    cdef int[:, ::1] last_jobs
    cdef long long[::1] in_use, used_at
    cdef double[::1] used
    cdef long long limit
    cdef const long long[::1] queue_limits
    cdef long long[::1] queue_in_use
    # the weights of "multifactor": of age, size, share, and given values; by job
    cdef double w_age, w_size, w_share, age_limit, half_life
    cdef const double[::1] base
    cdef int[::1] line                     # the waiting jobs in their order
    cdef Py_ssize_t n_line
    cdef Turn* turns

    cdef int _set_up_order(self, ranks, order, weights, bint predicted, users, long long limit, queues,
                           queue_limits) except -1
    cdef const int[::1] _groups(self, groups, str name)
    cdef int[::1] _first_places(self)
    cdef void _set_place(self, int job) noexcept nogil
    cdef void _insert(self, int job) noexcept nogil
    cdef void _predict(self, int job) noexcept nogil
    cdef int _next_outlived(self) noexcept nogil
    cdef void _before_correction(self, int job) noexcept nogil
    cdef bint _has_ended_after(self, int job, int other) noexcept nogil
    cdef void _close_line(self) noexcept nogil
    cdef bint _is_limited(self, int job) noexcept nogil
    cdef void _sort(self) noexcept nogil
    cdef double _priority(self, int job, double wait, double total) noexcept nogil
    cdef void _decay(self, Py_ssize_t user) noexcept nogil
