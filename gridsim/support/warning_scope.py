"""Warnings that a command or study issues only once, even if their cause occurs repeatedly."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

_ISSUED_WARNINGS: ContextVar[set[tuple[type[Warning], str]] | None] = ContextVar("issued", default=None)


class WarningScope:
    """Context in which `warn` issues each warning once; a nested scope is part of the outer one."""

    def __init__(self) -> None:
        self._warnings: set[tuple[type[Warning], str]] = set()
        self._tokens: list[Token[set[tuple[type[Warning], str]] | None]] = []

    def __enter__(self) -> None:
        outer = _ISSUED_WARNINGS.get()
        self._tokens.append(_ISSUED_WARNINGS.set(self._warnings if outer is None else outer))

    def __exit__(self, *_: object) -> None:
        _ISSUED_WARNINGS.reset(self._tokens.pop())


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Issue a warning as `warnings.warn` does, unless the current `WarningScope` has already issued it."""
    issued = _ISSUED_WARNINGS.get()
    if issued is not None:
        if (category, message) in issued:
            return
        issued.add((category, message))
    warnings.warn(message, category, stacklevel=stacklevel + 1)


@contextmanager
def collect_warnings() -> Iterator[list[tuple[type[Warning], str]]]:
    """Collect the warnings of the block if this is a worker process, whose warnings the user does not see."""
    import multiprocessing  # takes long, and only studies need it

    messages: list[tuple[type[Warning], str]] = []
    is_worker = multiprocessing.parent_process() is not None
    if not is_worker or threading.current_thread() is not threading.main_thread():
        yield messages
        return
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        yield messages
    messages += [(entry.category, str(entry.message)) for entry in records]
