"""What a command does on SIGINT (Ctrl-C), and on SIGTERM, which batch systems send before they kill.

- Before the command has begun, while modules are imported and flags are read, it writes one line and ends
  at once.
- While it runs, the signal raises a KeyboardInterrupt, `Interrupted` or `Terminated`.  This happens only
  once, so that nothing disturbs the command while it ends.
- Later signals, and those after the command is done, have no effect for `PATIENCE` seconds.  The next signal
  after that ends the process at once.

Signals that were ignored when the process began, as by ``nohup``, stay ignored.  The module imports next to
nothing, because it must be in effect before everything else.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
from time import monotonic
from typing import Literal

#: Seconds that a command may take to end after the first signal; later signals then end it at once.
PATIENCE = 5.0

#: Signal -> the word for it.  The exit code is that of shells: 128 and its number.
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """SIGINT.  Its own class, as Python kills itself at its end if a plain one has left an ``exec``."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


class _Heed:
    """State: the stage of the command, and when the first signal came (monotonic clock, s)."""

    stage: Literal["before", "running", "over"] = "before"
    first: float | None = None


def heed() -> None:
    """Install the handlers of the signals.  Calling it again changes nothing."""
    if sys.unraisablehook is _lost:
        return
    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _came)
    sys.unraisablehook = _lost
    atexit.register(_ignore)  # registered first, so it runs last


def begin() -> None:
    """Note that the command runs: from now on a signal raises an exception."""
    _Heed.stage, _Heed.first = "running", None


def end() -> None:
    """Note that the command is over, whether it succeeded or not: no signal disturbs its last messages."""
    _Heed.stage = "over"


def _ignore() -> None:
    """Ignore the signals until the process ends; Python would restore their default action, which kills."""
    for number in WORDS:
        signal.signal(number, signal.SIG_IGN)


def _came(number: int, _: object) -> None:
    first, _Heed.first = _Heed.first, _Heed.first or monotonic()
    if _Heed.stage == "before" or (first is not None and monotonic() - first > PATIENCE):
        try:
            os.write(2, f"gridsim: {WORDS[signal.Signals(number)]}\n".encode())
        finally:  # even if the line cannot be written
            os._exit(128 + number)
    if _Heed.stage == "running" and first is None:
        raise Terminated if number == signal.SIGTERM else Interrupted


def _lost(what: sys.UnraisableHookArgs) -> None:
    """Repeat a signal a little later if it came in a finalizer, where its exception cannot be caught."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
        return
    _Heed.first = None
    number = signal.SIGTERM if issubclass(what.exc_type, Terminated) else signal.SIGINT
    later = threading.Timer(0.01, _send, (number,))
    later.daemon = True
    later.start()


def _send(number: signal.Signals) -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)  # this also wakes the main thread, wherever it waits
    else:
        _thread.interrupt_main(number)
