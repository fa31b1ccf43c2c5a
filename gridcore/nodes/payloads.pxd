"""C-level contract of the arrays in messages."""

cdef class Payloads:
    cdef readonly list arrays           # by number; None for unused numbers
    cdef list unused                    # unused numbers

    cdef long long _store(self, array) except -1
    cdef object _fetch(self, long long number)
    cdef int _read(self, state) except -1
