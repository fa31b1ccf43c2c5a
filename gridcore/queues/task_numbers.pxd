"""C-level contract of the numbers of tasks that have sizes of their own."""

cdef class TaskNumbers:
    cdef Py_ssize_t applications
    cdef const double[::1] size         # per task, Mflop
    cdef double largest_size            # of `size`
    cdef const long long[::1] offset    # per application: its first task; then the number of tasks
    cdef int[::1] n_enqueued            # per application: number of tasks that have been in a queue at least once
    cdef int[::1] free                  # per application: number of tasks that are in no queue
    cdef int[::1] first_returned        # per application: the last task that left a queue unstarted, -1: none
    cdef int[::1] after                 # per task: the next task in a queue or in the list of returned tasks
    cdef int[::1] head, tail            # per machine: its first and last waiting task, -1 for none
    cdef int[::1] running               # per core, those of a machine one after another; -1 for none

    cdef int add(self, const double[::1] sizes, const long long[::1] tasks) except -1
    cdef int bind(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil
    cdef int first(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil
    cdef int following(self, int task, Py_ssize_t application) noexcept nogil
    cdef int begin(self, Py_ssize_t machine, Py_ssize_t application, Py_ssize_t core) noexcept nogil
    cdef int release_last(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil
    cdef void release_running(self, Py_ssize_t core) noexcept nogil
    cdef void release_waiting(self, Py_ssize_t machine) noexcept nogil
    cdef Py_ssize_t application_of(self, int task) noexcept nogil
    cdef void _append(self, Py_ssize_t machine, int task) noexcept nogil
    cdef bint _is_of(self, int task, Py_ssize_t application) noexcept nogil
    cdef void _unlink(self, Py_ssize_t machine, int previous, int task) noexcept nogil
    cdef void _release(self, int task, Py_ssize_t application) noexcept nogil
    cdef dict getstate(self)
    cdef TaskNumbers read_state(self, state, machine, application, tasks, running)
