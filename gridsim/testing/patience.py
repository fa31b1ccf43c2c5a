"""A limit of wall time for code that may run for ever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gridsim.errors import SchedulerError

__all__ = ["patience"]


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise SchedulerError inside the code that runs once it has taken `seconds` of wall time.

    The error names the function and the line.  It comes again each 10 s, in case that the code catches it.
    There is no limit where there are no signals of timers (Windows), and outside of the main thread; machine
    code that never returns to Python is not interrupted.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, frame: FrameType | None) -> None:
        at = ""
        if frame is not None:
            code = frame.f_code
            at = f"; it is in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"
        raise SchedulerError(f"has not ended after {seconds:g} s{at}")

    before = signal.signal(signal.SIGALRM, interrupt)
    left = signal.setitimer(signal.ITIMER_REAL, seconds, 10.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
