"""C-level contract of the kinds of messages."""

cdef class MessageKind:
    cdef readonly str name
    cdef readonly tuple fields          # type: tuple[str, ...]
    cdef readonly object type           # the class of its message objects
    cdef tuple handlers                 # per role: the name of the method that handles it, or None
    cdef object handler                 # the entry of `handlers` if all are equal; else None
    cdef tuple types                    # per field: int, float, or the type of an array
    cdef bytes type_codes               # per field: 0 for an int, 1 for a float, 2 for an array
    cdef bytes elements                 # per field: index of an array's type of elements in `ARRAY_TYPES`
    cdef bytes dimensions               # per field: number of dimensions; 0 for one or two
    cdef tuple dtypes                   # per field: that type of elements
    cdef int number, n, application_at, tasks_at  # `n` fields; indices of the fields `application` and `tasks`, or -1
    cdef bint moves_tasks, is_counted, has_arrays
    cdef long long nbytes, transmission_time  # the latter in ns
    cdef object size                    # callable, fields -> bytes; None if all messages have `nbytes`
    cdef long long delay                # ns; -1: messages go through the links
