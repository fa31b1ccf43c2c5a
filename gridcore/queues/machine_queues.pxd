"""C-level contract of the machines' queues."""

from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.queues.journal cimport Journal
from gridcore.queues.pairs cimport Pairs
from gridcore.queues.task_numbers cimport TaskNumbers


cdef class MachineQueues:
    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines
    cdef Py_ssize_t n_cores             # of all machines, one each except in `gridcore.queues.core_queues`
    cdef readonly str watch
    cdef public bint log
    cdef bint each_task
    cdef const double[::1] speed
    cdef readonly long long enqueued, tasks_done  # numbers of tasks so far; `enqueued` excludes withdrawn tasks
    # per machine
    cdef Py_ssize_t capacity
    cdef int[:, :, ::1] share
    cdef int[::1] first, count, running
    cdef long long[::1] free_at, idle_at, waiting, peak, busy_time, done, interrupted
    # per application
    cdef readonly Py_ssize_t n_applications
    cdef double[::1] release
    cdef const double[::1] size, task_size
    cdef const long long[::1] owner     # the application of a resubmitted bag; for an application, its own index
    cdef TaskNumbers numbers            # of tasks that differ in size; None if the tasks of an application are equal
    cdef bint own_sizes
    cdef long long[::1] first_start, finish, completed, nodes_used
    # for each application, the machines on which tasks of it have started or been lost: bits, since applications that
    # run at the same time are neighbours in memory, or, if these take too much memory, pairs with a mark
    cdef unsigned char[:, ::1] used
    cdef bint sparse
    cdef Pairs pairs
    # if applications follow the ends of others: their releases, and the number of tasks of each application; else None
    cdef ReleaseQueue releases
    cdef const long long[::1] task_counts
    cdef Journal completion_log         # completions that `advance` has not returned
    cdef Journal run_log, arrival_log   # if `record`: runs, and tasks enqueued or withdrawn
    cdef readonly bint record
    # machines in order of their next change: an indexed heap, with ties by machine
    cdef long long[::1] change
    cdef int[::1] heap, position

    cdef void _release(self, Py_ssize_t application) noexcept nogil
    cdef _add_sizes(self, own, sizes, tasks)
    cdef dict _columns(self)
    cdef _all_used(self)
    cdef int _make_sparse(self) except -1
    cdef int _add_pairs(self) except -1
    cdef _read_pairs(self)
    cdef _places(self)
    cdef _idle_times(self, TaskNumbers numbers, const int[:, :, ::1] share, const int[::1] count,
                     const long long[::1] free_at)
    cdef double _longest(self, Py_ssize_t u, int application, long long tasks) noexcept nogil
    cdef bint _is_used(self, Py_ssize_t u, long long application) noexcept nogil
    cdef void _mark_used(self, Py_ssize_t u, int application) noexcept nogil
    cdef int _check_shares(self, const long long[::1] machines, const long long[::1] applications,
                           const long long[::1] tasks) except -1
    cdef int _enqueue(self, Py_ssize_t u, int application, long long tasks, long long now) except -1
    cdef long long _withdraw(self, Py_ssize_t u, int application, long long tasks, long long now) noexcept nogil
    cdef int _make_room(self, Py_ssize_t u) except -1
    cdef Py_ssize_t _cores(self, Py_ssize_t u) noexcept nogil
    cdef double _width(self, Py_ssize_t u, long long memory) noexcept nogil
    cdef long long _memory_of(self, Py_ssize_t application) noexcept nogil
    cdef bint _has_row_per_task(self, Py_ssize_t u) noexcept nogil
    cdef object _core_tasks(self, state, running)
    cdef long long _bind(self, Py_ssize_t u, int application, long long tasks) noexcept nogil
    cdef long long _unbind(self, Py_ssize_t u, int application, long long tasks) noexcept nogil
    cdef long long _duration(self, Py_ssize_t u, int application) noexcept nogil
    cdef long long _longest_length(self, Py_ssize_t u, int application) noexcept nogil
    cdef void _advance(self, Py_ssize_t u, long long until) noexcept nogil
    cdef int _catch_up(self, long long until) except -1
    cdef double _work(self, Py_ssize_t u, long long now) noexcept nogil
    cdef double _running_time(self, Py_ssize_t u, long long now) noexcept nogil
    cdef long long _length(self, Py_ssize_t u, int task) noexcept nogil
    cdef long long _planned_end(self, Py_ssize_t u) noexcept nogil
    cdef long long _running_count(self, Py_ssize_t u, long long now) noexcept nogil
    cdef void _complete(self, Py_ssize_t u, int application, long long tasks, long long start,
                        long long end, long long arrival) noexcept nogil
    cdef dict _interrupt(self, Py_ssize_t u, long long now)
    cdef long long _next_end(self, Py_ssize_t u) noexcept nogil
    cdef void _update(self, Py_ssize_t u) noexcept nogil
    cdef bint _precedes(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef void _place(self, Py_ssize_t u, Py_ssize_t k) noexcept nogil
    cdef const long long[::1] _machines(self, machines)
    cdef int _check_machine(self, Py_ssize_t machine) except -1
