"""C-level contract of the kinds of messages."""

cdef class MessageKind:
    cdef readonly str name
    cdef readonly tuple fields          # type: tuple[str, ...]
    cdef readonly object type           # of the message objects
    cdef object handler                 # the name of the method
    cdef tuple types                    # per field: int, float, or the type of an array
    cdef bytes real                     # per field: 0 for an int, 1 for a float, 2 for an array
    cdef int number, n, application_at, tasks_at
    cdef bint moves, is_counted, arrays  # arrays: whether it has any
    cdef long long nbytes, length
    cdef object size                    # callable, the fields -> bytes; or None, if all messages have `nbytes`
    cdef long long delay                # ns; -1: it takes its way through the links
