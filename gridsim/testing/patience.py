"""Limits of runs: of simulated time, of events, and of wall time for code that may run for ever."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gridsim.errors import SchedulerError

__all__ = ["LIMITS", "LONGEST", "MOST_EVENTS", "PATIENCE", "patience"]

#: Events of a run of a scenario that is drawn; one that handles more never ends.
MOST_EVENTS = 200_000
#: Simulated s, after which a run counts as endless: the failures of an example are over by 40,000 s.
LONGEST = 1.0e7
#: s of wall time that a run may take.
PATIENCE = 60.0
#: The limits of a run: so small a scenario ends before them.
LIMITS: dict[str, Any] = {"time_limit": LONGEST, "events_limit": MOST_EVENTS}
#: The share of the time in which the processor must be busy, and how many times as long to wait if it is not.
_BUSY, _IDLE = 0.25, 10.0


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise SchedulerError inside the code that runs once it has taken `seconds` of wall time.

    Time counts in which the process waited for the processor or was stopped only beyond ten times as much.
    The error names the function and the line.  It comes again after up to 10 s, in case that the code catches
    it.
    There is no limit where there are no signals of timers (Windows), and outside of the main thread; machine
    code that never returns to Python is not interrupted.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    began, worked = time.monotonic(), time.process_time()

    def interrupt(_: int, frame: FrameType | None) -> None:
        busy, waited = time.process_time() - worked, time.monotonic() - began
        if busy < seconds * _BUSY and waited < seconds * _IDLE:
            return
        at = ""
        if frame is not None:
            code = frame.f_code
            at = f"; it is in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"
        raise SchedulerError(f"has not ended after {seconds:g} s{at}")

    before = signal.signal(signal.SIGALRM, interrupt)
    left = signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds, 10.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
