"""Announcement of runs: lines on what is about to run, for a receiver such as a command that prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Topic -> text.
Lines = dict[str, str]
_RECEIVER: ContextVar[Callable[[Lines], None] | None] = ContextVar("receiver", default=None)


@contextmanager
def receive_plan(receiver: Callable[[Lines], None]) -> Iterator[None]:
    """Call `receiver` with the first lines that are announced in this context."""
    token = _RECEIVER.set(receiver)
    try:
        yield
    finally:
        _RECEIVER.reset(token)


def announce(plan: Callable[[], Lines]) -> None:
    """Announce the lines that `plan` returns, after all checks and before the first run.

    Without a receiver, or if it has lines already, `plan` is not called.
    """
    if (receiver := _RECEIVER.get()) is not None:
        _RECEIVER.set(None)
        receiver(plan())
