"""C-level contract of the task queues."""

from gridcore.queues.availability cimport Grid
from gridcore.queues.edf cimport Queue
from gridcore.queues.machine_queues cimport MachineQueues

cdef struct Scratch:
    double* release
    double* size
    double* work
    double* buffer
    int* order


cdef bint scratch_make(Scratch* s, Py_ssize_t n) noexcept nogil
cdef void scratch_free(Scratch* s) noexcept nogil


cdef class TaskQueues(MachineQueues):
    cdef readonly str order
    cdef bint edf
    cdef readonly double tolerance          # relative, of minimum stretches; 0: exact

    cdef double _minimum(self, const Queue* q, Scratch* s) noexcept nogil
    cdef double _reorder(self, Py_ssize_t u, long long now, Scratch* s) noexcept nogil
        # returns the minimum stretch of the machine; nan if fewer than two shares wait: there is nothing to sort
    cdef bint _fits_alone(self, Py_ssize_t u, double seconds, double task_size) noexcept nogil
    cdef advance_quietly(self, const long long[::1] u, long long now)
    cdef Py_ssize_t _sample(self, Py_ssize_t u, long long now, long long at, long long memory, const Grid* g,
                            unsigned int* out, double* least, Scratch* s) noexcept nogil
    cdef long long _first_free(self, Py_ssize_t u, long long at, double* floor) noexcept nogil
    cdef bint _gather(self, Py_ssize_t u, long long at, bint inclusive, Queue* q, Scratch* s) noexcept nogil
    cdef double _capacity_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now,
                      Scratch* s) noexcept nogil
