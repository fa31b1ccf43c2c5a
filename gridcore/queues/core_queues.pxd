"""C-level contract of the queues of machines with several cores."""

from gridcore.queues.task_queues cimport TaskQueues


cdef class CoreQueues(TaskQueues):
    cdef const long long[::1] core_counts   # per machine
    cdef const long long[::1] first_core    # of each machine, and the number of all cores
    # per core: the application of its task or -1, and when that ends or since when the core is idle, ns
    cdef long long[::1] core_task, core_end
    cdef long long[::1] waiting_time        # per machine: the durations of its waiting tasks in sum, ns
    cdef const long long[::1] memory        # per machine, bytes; None if machines have enough for all cores
    cdef const long long[::1] task_memory   # per application, bytes that a running task takes
    cdef unsigned char[::1] is_limited      # per machine: whether tasks may have to wait for memory
    cdef long long[::1] free_memory         # of the machines that are limited, bytes

    cdef long long _core_length(self, Py_ssize_t u, Py_ssize_t core) noexcept nogil
    cdef long long _planned_core_end(self, Py_ssize_t u, Py_ssize_t core) noexcept nogil
    cdef int _waiting_task(self, Py_ssize_t u, Py_ssize_t place) noexcept nogil
    cdef Py_ssize_t _next_core(self, Py_ssize_t u, bint only_busy) noexcept nogil
    cdef void _start(self, Py_ssize_t u, Py_ssize_t core, long long at) noexcept nogil
    cdef void _set_running(self, Py_ssize_t u) noexcept nogil
    cdef void _begin_at(self, Py_ssize_t u, long long now) noexcept nogil
    cdef bint _can_start(self, Py_ssize_t u) noexcept nogil
    cdef void _count_memory(self) noexcept nogil
    cdef int _check_need(self, Py_ssize_t u, Py_ssize_t application) except -1
    cdef _check_memory(self, core_task)
    cdef long long _drain_bound(self, Py_ssize_t u) noexcept nogil
