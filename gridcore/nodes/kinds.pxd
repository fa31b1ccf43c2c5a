"""C-level declarations of the kinds of messages and timers."""

# The first fields of the timer of a request: the number of the request, its receiver, and the number of its kind.
cdef enum:
    REQUEST_NUMBER, REQUEST_TO, REQUEST_KIND, REQUEST_FIELDS

cdef class MessageKind:
    cdef readonly str name
    cdef readonly tuple fields          # type: tuple[str, ...]
    cdef readonly object type           # the class of its message objects
    # per role: the name of the method that handles it, or None
    cdef readonly tuple handlers        # type: tuple[str | None, ...]
    cdef readonly object handler        # the entry of `handlers` if all are equal; else None
    # per field: int, float, or the type of an array
    cdef readonly tuple types           # type: tuple[Any, ...]
    cdef readonly bytes type_codes      # per field: 0 for an int, 1 for a float, 2 for an array
    cdef bytes elements                 # per field: index of an array's type of elements in `ARRAY_TYPES`
    cdef bytes dimensions               # per field: number of dimensions; 0 for one or two
    cdef tuple dtypes                   # per field: dtype of an array's elements
    cdef readonly int number, local_number  # number in the links, and number among the local kinds; -1: none
    cdef readonly int n, application_at, tasks_at  # `n` fields; indices of the fields `application` and `tasks`, or -1
    cdef readonly bint moves_tasks, is_counted, has_arrays
    cdef readonly long long nbytes, transmission_time  # size of a message, bytes, and its time on a link, ns
    cdef readonly object size           # callable, fields -> bytes; None if all messages have `nbytes`
    cdef readonly long long delay       # ns; -1: messages go through the links
    # the kinds that answer a request of this kind
    cdef readonly tuple answers         # type: tuple[str, ...]
    cdef readonly bint is_answer
    cdef readonly int request_at        # the index of `request`, the last field of requests and answers; -1: none
    cdef readonly object request_type   # the class of the requests of this kind that get no answer; or None


cdef class TimerKind:
    cdef readonly str name
    cdef readonly tuple fields          # type: tuple[str, ...]
    cdef object handler                 # the name of the method that handles it
    cdef dict defaults                  # fields that may be left out when the timer is set -> their values
    cdef tuple types                    # per field: int or float
    cdef bytes type_codes               # per field: 0 for an int, 1 for a float
    cdef int number, n                  # `n` fields
    cdef int role                       # the index of the role whose nodes have it; -1: all
    cdef bint is_plain                  # whether `on_timer` handles it, with the name and maybe a value
    cdef bint is_request                # whether it is the timeout of requests
