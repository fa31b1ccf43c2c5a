"""Declarations of the runs of rigid jobs, which `runs.pyx` defines."""

from gridcore.common.heap cimport Entry
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.rigid_queue.occupancy cimport Occupancy
from gridcore.rigid_queue.run_log cimport RunLog
from gridcore.rigid_queue.steps cimport Profile

# the latest end of a job (2**62 ns); the sum of an instant and an estimate does not overflow
cdef extern from *:
    """
    #define GRIDCORE_LAST_END (1LL << 62)
    """
    const long long LAST_END "GRIDCORE_LAST_END"

cdef enum:
    UNKNOWN, COMING, WAITING, RUNNING, ENDED

# what `_run` and `_examine` return
cdef enum:
    GO_ON, NO_MEMORY, TOO_LATE, PAUSE, SIGNALS

cdef struct EstimatedEnd:                  # of a running job: its estimated end, and the machines that it frees then
    long long at
    int job, nodes


cdef class JobRuns:
    cdef bint in_call                      # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, jobs, partitions
    cdef readonly long long now
    cdef readonly bint log
    cdef str sizes_name                    # the name of the argument `nodes`, which is tasks where machines are shared
    cdef const int[::1] nodes, partition, partition_of_machine      # by job, by job, by machine
    cdef const long long[::1] length
    cdef long long[::1] estimate
    cdef char[::1] status
    cdef long long[::1] first_start, start, finish, cut, submitted
    # jobs in order of submission, up to `n_coming`; those from `n_joined` on are submitted later than `now`
    cdef int[::1] coming
    cdef long long[::1] coming_at
    cdef Py_ssize_t n_coming, n_joined
    cdef ReleaseQueue releases             # the submissions instead, if some follow the ends of others; else None
    # the running jobs by their ends, and by their estimated ends.  The latter are in descending order, ties by
    # descending number: most jobs that start or end are short, so few entries are moved
    cdef Entry* ends
    cdef EstimatedEnd* estimated_ends
    cdef Py_ssize_t n_running
    cdef int[::1] spans                    # by job: the first span of its machines
    # the machines; `occupancy` has an entry for each partition, with all machines, of which only its own may be idle
    cdef Occupancy* occupancy
    cdef char[::1] down
    cdef long long[::1] busy_time, done, interrupted
    cdef readonly long long ended
    cdef bint must_examine                 # the queue must be examined now: machines have failed or recovered
    cdef long long wake_at                 # an instant at which the queue must be examined; NEVER for none
    cdef RunLog history

    cdef int _set_up(self, str sizes_name, machines, nodes, run, estimate, sizes, partition, releases,
                      bint log) except -1
    cdef int _set_up_running(self, Py_ssize_t limit) except -1
    cdef int _set_up_machines(self) except -1
    cdef dict _columns(self)
    cdef dict _limits(self)
    cdef int _examine(self) noexcept nogil
    cdef void _join(self, int job, bint is_new) noexcept nogil
    cdef void _before_start(self, int job) noexcept nogil
    cdef void _before_leave(self, int job) noexcept nogil
    cdef long long _next_correction(self) noexcept nogil
    cdef void _correct(self) noexcept nogil
    cdef bint _after_end(self, int job) noexcept nogil
    cdef void _handle_over(self, int job) noexcept nogil
    cdef void _place_joined(self, known) except *
    cdef void _empty_queue(self) noexcept nogil
    cdef int _rebuild_queue(self, known) except -1
    cdef void _clear(self) noexcept nogil
    cdef int _run(self, long long until) noexcept nogil
    cdef void _clear_machines(self) noexcept nogil
    cdef void _set_up_or_down(self, Py_ssize_t machine, bint is_up) noexcept nogil
    cdef int _take(self, int job) noexcept nogil
    cdef void _give_back(self, int job, long long ran, bint completed) noexcept nogil
    cdef bint _log_machines(self, int job, bint completed) noexcept nogil
    cdef bint _meets(self, int job, const unsigned long long* machines) noexcept nogil
    cdef dict _machine_entries(self)
    cdef dict _machine_state(self)
    cdef object _restore_machines(self, dict entries)
    cdef const long long[::1] _machines(self, machines, long long now)
    cdef Py_ssize_t _place(self, long long at, int job) noexcept nogil
    cdef bint _start_on(self, int job, int span) noexcept nogil
    cdef void _schedule(self, int job) noexcept nogil
    cdef void _insert_end(self, int job) noexcept nogil
    cdef void _move_end(self, int job, long long estimate) noexcept nogil
    cdef void _forget_end(self, int job) noexcept nogil
    cdef bint _end(self) noexcept nogil
    cdef bint _leave(self, int job, bint completed) noexcept nogil
    cdef bint _fill_profile(self, Profile* profile, Py_ssize_t partition) noexcept nogil
