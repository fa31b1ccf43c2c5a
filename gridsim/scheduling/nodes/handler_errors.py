"""Notes on errors in the handlers of nodes: the time, the node, the handler, the file and the line."""

from __future__ import annotations

from functools import lru_cache
from types import FrameType, TracebackType

from gridcore.common.names import listed
from gridcore.nodes.containers import Fifo, Heap, IntMap, IntSet
from gridcore.nodes.kinds import Received, Request
from gridcore.nodes.random_stream import RandomStream
from gridcore.nodes.view import View
from gridsim.errors import GridSimError
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.compile_errors import place_of, place_text
from gridsim.scheduling.nodes.program import NodeProgram

__all__ = [
    "class_text",
    "handler_call",
    "handler_text",
    "is_of_library",
    "location_note",
    "name_known_attributes",
    "shorten_traceback",
]


@lru_cache(1024)  # parsing the file takes long compared with a small run
def class_text(cls: type) -> str:
    """Return the name of a class, with its file and line in parentheses if these are known."""
    place = place_of(cls).rstrip(": ")
    return f"{cls.__name__} ({place})" if place else cls.__name__


def handler_text(cls: type, handler: str) -> str:
    """Return the class and name of a handler, with its file and first line if these are known."""
    code = getattr(getattr(cls, handler, None), "__code__", None)
    place = "" if code is None else f", {code.co_filename}:{code.co_firstlineno}"
    return f"{cls.__name__}.{handler}{place}"


def name_known_attributes(error: AttributeError) -> None:
    """Add the known attributes to an error about an unknown one of an object of the library, or of a node.

    A ``__getattr__`` of these classes would make each read of an attribute slower.
    """
    from gridsim.scheduling.nodes.python_view import PythonView  # imported here, since only errors need it

    owner = error.obj
    if isinstance(owner, Received):
        subject, names = f"a message of the kind {owner.kind!r}", [*vars(owner)]
    elif isinstance(owner, Request):
        subject, names = f"a request of the kind {owner.kind!r}", [*vars(owner)]
    elif isinstance(owner, NodeProgram):
        subject, names = type(owner).__name__, [*vars(owner), *(set(dir(owner)) - set(dir(NodeProgram)))]
    elif isinstance(owner, (View, PythonView)):
        subject, names = "the view", dir(owner)
    elif isinstance(owner, RandomStream):
        subject, names = "the random stream", dir(owner)
    elif isinstance(owner, Scheduler):
        subject, names = type(owner).__name__, [*owner.__struct_fields__]
    elif isinstance(owner, (Fifo, Heap, IntMap, IntSet)):
        subject, names = type(owner).__name__, dir(owner)
    else:
        return
    known = sorted({name for name in names if not name.startswith("_")})
    hint = listed(known, error.name)
    if isinstance(owner, NodeProgram) and error.name == "parameters":
        hint = "call super().__init__(parameters) in its __init__"
    # without the object, Python adds no suggestion of its own
    error.args, error.obj = (f"{subject} has no {error.name!r}; {hint}",), None


def location_note(error: BaseException, seconds: float, call: tuple[int, type, str, int] | None) -> str:
    """Return when and where a node program raised `error`; "" if it was raised elsewhere.

    Parameters
    ----------
    seconds
        The simulated time, s.
    call
        (node, class, handler, place) of the compiled handler that raised the error; None if none did.
    """
    if call is None:
        node, place = _interpreted_call(error.__traceback__)
    else:
        node, cls, handler, number = call
        place = _place(cls, handler, *place_text(cls, number))
    if not place or str(error).startswith("t = "):  # the text already has the time and the node
        return place
    return f"t = {seconds} s, {'a node' if node is None else f'node {node}'}: {place}"


def _interpreted_call(trace: TracebackType | None) -> tuple[int | None, str]:
    """Return the node and the place at which a method of a node program raised an error; "" if none did."""
    frame: FrameType | None = None
    line, method = 0, ""
    while trace is not None:
        if frame is None and _is_of_program(trace.tb_frame):
            frame = trace.tb_frame
        # the innermost line of the program, even if a function called there raises the error
        if frame is not None and trace.tb_frame.f_code.co_filename == frame.f_code.co_filename:
            line, method = trace.tb_lineno, trace.tb_frame.f_code.co_name
        trace = trace.tb_next
    if frame is None:
        return None, ""
    code, names = frame.f_code, frame.f_code.co_varnames
    node = getattr(frame.f_locals.get(names[1]) if code.co_argcount > 1 else None, "node", None)
    cls = type(frame.f_locals[names[0]])
    if code is NodeProgram.on_message.__code__ or code is NodeProgram.on_release.__code__:
        return node, place_of(cls).rstrip(": ")
    return node, _place(cls, code.co_name, method, code.co_filename, line)


def shorten_traceback(error: BaseException) -> None:
    """Remove the frames of the library around a program of a user from the traceback of `error`.

    They are the frames of the engine between the run and the handler and, for an error of the library
    itself, those in which a method of the view raises it.
    """
    first = error.__traceback__
    handler = first and first.tb_next
    while handler is not None and not _is_of_program(handler.tb_frame):
        handler = handler.tb_next
    if first is None or handler is None or is_of_library(handler.tb_frame):
        return
    first.tb_next = last = handler
    trace: TracebackType | None = handler
    while trace is not None:
        last = trace if not is_of_library(trace.tb_frame) else last
        trace = trace.tb_next
    if isinstance(error, GridSimError):
        last.tb_next = None


def is_of_library(frame: FrameType) -> bool:
    """Return whether the code of a frame belongs to the library."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("gridsim", "gridcore")


def handler_call(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the interpreted handler that runs in `frame`; None if none does."""
    call = None
    while frame is not None:
        call = frame if _is_of_program(frame) else call
        frame = frame.f_back
    return call


def _is_of_program(frame: FrameType) -> bool:
    """Return whether a frame belongs to a method of a node program, such as a handler."""
    code = frame.f_code
    return code.co_argcount > 0 and isinstance(frame.f_locals.get(code.co_varnames[0]), NodeProgram)


def _place(cls: type, handler: str, method: str, file: str, line: int) -> str:
    inner = "" if method == handler else f" in {method}"
    return f"{cls.__name__}.{handler}, {file}:{line}{inner}"
