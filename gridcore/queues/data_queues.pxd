"""C-level contract of the task queues with data."""

from gridcore.queues.task_queues cimport TaskQueues

cdef struct Task:                       # how long a task takes, ns
    long long fetch, run, send

cdef struct Pipe:                       # when a machine can take the next task, ns
    long long fetching                  # its input may be fetched
    long long free                      # the processor is free
    long long sent                      # the link is free for output

cdef struct Held:                       # a task that has been taken out of the queue and is not over
    long long application, start, end, there


cdef class DataQueues(TaskQueues):
    cdef const double[::1] bandwidth    # per machine
    cdef readonly bint aware
    cdef const double[::1] input, output    # per application, bytes
    cdef long long[:, ::1] pipe         # per machine: a Pipe
    cdef long long[:, :, ::1] held      # per machine: three of Held, the first `n_held` count
    cdef long long[::1] n_held
    cdef unsigned char[::1] stale       # per machine: whether `idle_at` must be found anew

    cdef Task _task(self, Py_ssize_t u, int application) noexcept nogil
    cdef long long _taken_at(self, const Pipe* pipe, const Task* task) noexcept nogil
    cdef Held _take(self, Pipe* pipe, const Task* task, int application) noexcept nogil
    cdef Py_ssize_t _first_over(self, Py_ssize_t u) noexcept nogil
    cdef long long _drained(self, Py_ssize_t u) noexcept nogil
    cdef void _change(self, Py_ssize_t u, long long now) noexcept nogil
    cdef double _alone(self, const Task* task, long long tasks) noexcept nogil
