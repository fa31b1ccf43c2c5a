"""Handlers of SIGINT (Ctrl-C) and of SIGTERM, which batch systems send before SIGKILL.

- While modules are imported and flags are parsed, a signal writes one line and ends the process at once.
- While the command runs, the first signal raises a KeyboardInterrupt: `Interruption` or `Termination`.  Later
  signals raise none, so that the command can write its last messages.
- Later signals, and those after the command has ended, have no effect for `PATIENCE` seconds.  The next
  signal after that ends the process at once.

Signals that were ignored when the process started, for example by ``nohup``, stay ignored.  The module
imports little, because the handlers must be installed before other modules are imported.
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

#: Seconds for which a command may continue after the first signal; signals after that end it at once.
PATIENCE = 5.0

#: Signal -> its name in messages.  The exit code is 128 plus the number of the signal, as in shells.
SIGNAL_NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interruption(KeyboardInterrupt):
    """An exception raised on SIGINT.

    A plain KeyboardInterrupt that leaves an ``exec`` would make Python kill its own process by SIGINT.
    """


class Termination(KeyboardInterrupt):
    """An exception raised on SIGTERM, which ends a command as Ctrl-C does."""


class _CommandState:
    """The stage of the command, and the time of the first signal (monotonic clock, s)."""

    stage: Literal["starting", "running", "ended"] = "starting"
    first_signal: float | None = None


def install_handlers() -> None:
    """Install the signal handlers, unless they are installed already."""
    if sys.unraisablehook is _resend_signal:
        return
    for number in SIGNAL_NAMES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle_signal)
    sys.unraisablehook = _resend_signal
    atexit.register(_ignore_signals)  # registered first, so it runs last


def mark_running() -> None:
    """Mark the command as running: the next signal raises an exception."""
    _CommandState.stage, _CommandState.first_signal = "running", None


def mark_ended() -> None:
    """Mark the command as ended, successfully or not: signals no longer raise exceptions."""
    _CommandState.stage = "ended"


def _ignore_signals() -> None:
    """Ignore the signals until the process ends; at exit Python restores the default action, termination."""
    for number in SIGNAL_NAMES:
        signal.signal(number, signal.SIG_IGN)


def _handle_signal(number: int, _: object) -> None:
    first_signal = _CommandState.first_signal
    _CommandState.first_signal = first_signal or monotonic()
    is_overdue = first_signal is not None and monotonic() - first_signal > PATIENCE
    if _CommandState.stage == "starting" or is_overdue:
        try:
            os.write(2, f"gridsim: {SIGNAL_NAMES[signal.Signals(number)]}\n".encode())
        finally:  # even if the line cannot be written
            os._exit(128 + number)
    if _CommandState.stage == "running" and first_signal is None:
        raise Termination if number == signal.SIGTERM else Interruption


def _resend_signal(hook_args: sys.UnraisableHookArgs) -> None:
    """Send a signal again after 10 ms if it arrived in a finalizer, where its exception cannot be caught."""
    if not issubclass(hook_args.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(hook_args)
        return
    _CommandState.first_signal = None
    number = signal.SIGTERM if issubclass(hook_args.exc_type, Termination) else signal.SIGINT
    timer = threading.Timer(0.01, _send, (number,))
    timer.daemon = True
    timer.start()


def _send(number: signal.Signals) -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)  # unlike os.kill, this also wakes a main thread that is waiting
    else:
        _thread.interrupt_main(number)
