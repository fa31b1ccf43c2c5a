"""SIGINT (Ctrl-C) and SIGTERM, which batch systems send some time before they kill: what a command does then.

- Before it has begun, while modules are imported and flags are read: one line, and the end at once.
- While it runs: KeyboardInterrupt is raised, as `Interrupted` or `Terminated`; once, so that nothing disturbs
  the command while it ends.
- Those that follow, or come when all is done: nothing, for `PATIENCE` seconds; the next one ends the process
  at once.

What was ignored when the process began, as by ``nohup``, stays ignored.  Imports next to nothing: it is to be
there before all else.
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

#: Seconds a command may take to end before one who asks again gets it at once.
PATIENCE = 5.0

#: Signal -> the word for it.  The exit code is that of shells: 128 and its number.
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """SIGINT.  Its own class, as Python kills itself in the end once a plain one has left an ``exec``."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends a command as Ctrl-C does."""


class _Heed:
    """How far the command is, and when the first signal came."""

    stage: Literal["before", "running", "over"] = "before"
    first: float | None = None


def heed() -> None:
    """From now on this module says what the signals do; again: the same."""
    if sys.unraisablehook is _lost:
        return
    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _came)
    sys.unraisablehook = _lost
    atexit.register(_ignore)  # the first, so it is done last


def begin() -> None:
    """The command runs: a signal is an exception from now on."""
    _Heed.stage, _Heed.first = "running", None


def end() -> None:
    """The command is over, however it went: what there is to say is said, undisturbed."""
    _Heed.stage = "over"


def _ignore() -> None:
    """For the rest of the process: Python would give the signals back to the system, which kills by them."""
    for number in WORDS:
        signal.signal(number, signal.SIG_IGN)


def _came(number: int, _: object) -> None:
    first, _Heed.first = _Heed.first, _Heed.first or monotonic()
    if _Heed.stage == "before" or (first is not None and monotonic() - first > PATIENCE):
        try:
            os.write(2, f"gridsim: {WORDS[signal.Signals(number)]}\n".encode())
        finally:  # whether or not anybody can be told
            os._exit(128 + number)
    if _Heed.stage == "running" and first is None:
        raise Terminated if number == signal.SIGTERM else Interrupted


def _lost(what: sys.UnraisableHookArgs) -> None:
    """A signal in a finalizer, where nobody can catch what it raises, comes again a little later."""
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
        signal.pthread_kill(main, number)  # which wakes it, too, wherever it waits
    else:
        _thread.interrupt_main(number)
