"""C-level contract of the task queues with data."""

from gridcore.queues.task_queues cimport TaskQueues

cdef struct Task:                       # the durations of a task, ns
    long long fetch, run, send

cdef struct Pipe:                       # when each stage of a machine is free for the next task, ns
    long long fetching                  # its input can be fetched
    long long free                      # the processor is free
    long long sent                      # the link is free for its output

cdef struct ActiveTask:                 # a task that has left the queue and has not ended
    long long application, start, end, arrival


cdef class DataQueues(TaskQueues):
    cdef const double[::1] bandwidth    # per machine
    cdef readonly bint aware
    cdef const double[::1] input, output    # per application, bytes
    cdef long long[:, ::1] pipe         # per machine: a Pipe
    cdef long long[:, :, ::1] active    # per machine: three of ActiveTask, of which the first `n_active` are in use
    cdef long long[::1] n_active
    cdef unsigned char[::1] stale       # per machine: whether `idle_at` must be computed again

    cdef Task _task(self, Py_ssize_t u, int application) noexcept nogil
    cdef long long _taken_at(self, const Pipe* pipe, const Task* task) noexcept nogil
    cdef ActiveTask _take(self, Pipe* pipe, const Task* task, int application) noexcept nogil
    cdef Py_ssize_t _first_over(self, Py_ssize_t u) noexcept nogil
    cdef long long _drain_time(self, Py_ssize_t u) noexcept nogil
    cdef void _change(self, Py_ssize_t u, long long now) noexcept nogil
    cdef double _makespan(self, const Task* task, long long tasks) noexcept nogil
