"""Kinds of messages, the message objects that receivers get, and kinds of timers."""

from cpython.object cimport PyObject_GenericSetAttr

cimport cython

import sys

from gridcore.nodes.state import ARRAY_TYPES

__all__ = ["MAX_TIMER_FIELDS", "Fields", "MessageKind", "Received", "Request", "TimerKind"]

#: The largest number of fields of a timer.
MAX_TIMER_FIELDS = 62


@cython.final
@cython.auto_pickle(False)
cdef class MessageKind:
    """A kind of message: its number in the links (-1 for a local kind), its fields and its message class.

    `handlers` has the name of the method that handles it for each role, or None.  `answers` has the kinds that answer
    a request of this kind.  Kinds with answers, and answers, have the field ``request`` at the end.
    """

    def __init__(self, str name, int number, nbytes, dict fields, bint moves_tasks, handlers: tuple[str | None, ...],
                 long long delay=-1, bint is_counted=True, answers: tuple[str, ...] = (), bint is_answer=False):
        self.name, self.number, self.local_number, self.moves_tasks = name, number, -1, moves_tasks
        self.nbytes, self.size = (0, nbytes) if callable(nbytes) else (nbytes or 0, None)
        self.delay, self.is_counted = delay, is_counted
        self.handlers = tuple([None if handler is None else sys.intern(handler) for handler in handlers])
        self.handler = self.handlers[0] if len(set(self.handlers)) == 1 else None
        self.fields, self.types, self.n = tuple(fields), tuple(fields.values()), len(fields)
        self.type_codes = bytes(0 if kind is int else 1 if kind is float else 2 for kind in fields.values())
        self.has_arrays = 2 in self.type_codes
        self.dtypes = tuple(getattr(kind, "dtype", None) for kind in fields.values())
        self.dimensions = bytes(getattr(kind, "ndim", None) or 0 for kind in fields.values())
        self.elements = bytes(0 if dtype is None else ARRAY_TYPES.index(dtype) for dtype in self.dtypes)
        self.application_at = self.fields.index("application") if "application" in fields else -1
        self.tasks_at = self.fields.index("tasks") if moves_tasks else -1
        self.answers, self.is_answer = answers, is_answer
        self.request_at = self.n - 1 if answers or is_answer else -1
        if self.request_at >= 0 and self.fields[-1:] != ("request",):
            raise ValueError(f"fields of {name!r}, which is a request or an answer, must end with request, got {fields}")
        self.type = type(name, (Received,), {"__slots__": ("sender", *self.fields), "kind": name})
        slots = ("number", "to", *self.fields[:-1])
        self.request_type = type(name, (Request,), {"__slots__": slots, "kind": name}) if answers else None

    def message(self, sender: int, values: Iterable[Any]) -> Received:
        """Return the message that a receiver gets from `sender`, with the values of its fields."""
        return with_fields(self.type(), ("sender", *self.fields), (sender, *values))

    def request(self, number: int, to: int, values: Iterable[Any]) -> Request:
        """Return the request of a `number` to the node `to`, with the values of its fields."""
        return with_fields(self.request_type(), ("number", "to", *self.fields[:-1]), (number, to, *values))

    def unsized_text(self, error: Exception) -> str:
        """Return the text of the action of a node whose message has a function of the size that raises `error`."""
        return f"sends {self.name!r}: the function of its size raises {type(error).__name__}: {error}"


cdef object with_fields(owner, tuple names, tuple values):
    """Set the attributes `names` of a new message or request."""
    for name, value in zip(names, values, strict=True):
        PyObject_GenericSetAttr(owner, name, value)
    return owner


class Fields:
    """An object with the attribute ``kind`` and the attributes in ``__slots__``."""

    __slots__ = ()
    kind: str = ""
    plain: bool = True                  # a checkpoint saves its `__dict__`

    def __setattr__(self, name, value):
        raise AttributeError(f"{'message' if isinstance(self, Received) else 'request'}.{name} is read-only")

    def __delattr__(self, name):
        self.__setattr__(name, None)

    def __setstate__(self, state):      # called by `copy.copy`
        for name, value in state[1].items():
            PyObject_GenericSetAttr(self, name, value)

    @property
    def __dict__(self):
        return {name: getattr(self, name) for name in ("kind", *self.__slots__)}

    def __repr__(self):
        return f"{self.kind}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Received(Fields):
    """A received message, with the attributes ``kind``, ``sender`` and the fields of its kind."""

    __slots__ = ()
    sender: int


class Request(Fields):
    """A request that was not answered in time: its ``kind``, ``number``, receiver ``to``, and the fields sent with it."""

    __slots__ = ()
    number: int
    to: int


@cython.final
@cython.auto_pickle(False)
cdef class TimerKind:
    """A kind of timer: its number in the core, its fields and its handler."""

    def __init__(self, str name, int number, str handler="on_timer", dict fields={}, dict defaults={},
                 int role=-1, bint is_request=False):
        self.name, self.number, self.handler, self.role = name, number, sys.intern(handler), role
        self.fields, self.types, self.n = tuple(fields), tuple(fields.values()), len(fields)
        self.type_codes = bytes(kind is float for kind in self.types)
        self.defaults, self.is_plain, self.is_request = defaults, handler == "on_timer", is_request
        cdef int most = 0 if self.is_plain else MAX_TIMER_FIELDS
        if not set(self.types) <= {int, float} or self.n > most and not is_request:
            raise ValueError(f"fields of the timer {name!r} must be at most {MAX_TIMER_FIELDS} ints and floats, and "
                             f"none for on_timer, got {fields}")
