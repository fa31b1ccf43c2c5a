"""Errors and warnings, their texts, and scopes in which a warning is issued once.

All errors are subclasses of `GridSimError`.  A message is one line with the path, the condition and the
value.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

#: Largest number of characters of an error message; in a longer one, words in the middle are left out.
MAX_MESSAGE_LENGTH = 2000


def printable(text: str) -> str:
    """Return `text` with unprintable characters escaped, as in ``\\x1b``; line breaks are kept."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else " " if c in "\r\t" else ascii(c)[1:-1] for c in text
    )


def without_line_breaks(text: str) -> str:
    """Return `text` as printable characters, with blanks in place of line breaks."""
    return printable(text).replace("\n", " ")


def one_line(text: str) -> str:
    """Return `text` as one printable line of about `MAX_MESSAGE_LENGTH` characters at most."""
    text = without_line_breaks(text.strip())
    if len(text) <= MAX_MESSAGE_LENGTH:
        return text
    head, tail = (
        text[: MAX_MESSAGE_LENGTH // 2].rsplit(" ", 1)[0],
        text[-MAX_MESSAGE_LENGTH // 2 :].split(" ", 1)[-1],
    )
    return f"{head} ... {tail}"


def text_of(error: BaseException) -> str:
    """Return the text of an error and its notes, or the reason why ``str()`` of the error fails."""
    try:
        return "; ".join([str(error), *getattr(error, "__notes__", [])])
    except (Exception, SystemExit) as failure:  # the `__str__` of a foreign error may raise anything
        return f"no text: str() of the error raises {type(failure).__name__}"


class _OneLine:
    """Mixin that turns each text of an error into one printable line, since it may quote untrusted files."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(one_line(arg) if isinstance(arg, str) else arg for arg in args))


class GridSimError(_OneLine, Exception):
    """Base class of every error that gridsim raises on purpose."""


@contextmanager
def name_files_in_errors(files: Collection[str]) -> Iterator[None]:
    """Prefix a GridSimError raised in the block with the names of `files`, unless it names one already.

    It is for code that uses the content of the files, such as a scenario.
    """
    try:
        yield
    except GridSimError as error:
        if any(file in str(error) for file in files):
            raise
        raise type(error)(f"{', '.join(files)}: {error}") from error


class ScenarioError(GridSimError, ValueError):
    """Error about an invalid value in a scenario, platform, workload, network or scheduler parameter.

    The message starts with the configuration path (``platform.speeds[3]``), followed by the condition that
    the value must satisfy and the value.
    """


class FileChanged(ScenarioError):
    """Error about a trace file that changed after it was read, or after its run or study began."""


class TraceFormatError(GridSimError, ValueError):
    """Error about a trace file that cannot be read.

    The message starts with ``file:line``, or with ``file`` if the file cannot be opened.
    """


class OutOfMemory(GridSimError, MemoryError):
    """Error about a run that needs more memory than is available; the message states both amounts."""


class SchedulerError(GridSimError, RuntimeError):
    """Error about a scheduler that breaks its contract; the message states the simulated time in seconds."""


class CompileError(SchedulerError):
    """Error about a node program that cannot be compiled; the message states the place and a remedy."""


class InvariantViolation(GridSimError, AssertionError):
    """Error about a violated invariant of the simulation.

    Examples are a task that is lost, completed twice, or run on a failed machine.
    """


class TraceWarning(_OneLine, UserWarning):
    """Warning about trace records that were repaired or left out, with their number and the first line."""


class PluginWarning(_OneLine, UserWarning):
    """Warning about an entry point of an installed package that is ignored, with the reason."""


class CheckpointWarning(_OneLine, UserWarning):
    """Warning about a failed write of a checkpoint; the run continues and keeps the previous checkpoint."""


class SchedulerWarning(_OneLine, UserWarning):
    """Warning about a run that seems wrong, such as one with far more messages than tasks."""


class MetricWarning(_OneLine, UserWarning):
    """Warning about a metric of the user that raised an error, so that it is missing in some runs."""


class ExecutorWarning(_OneLine, UserWarning):
    """Warning about an executor whose runs wait."""


class ModelWarning(_OneLine, UserWarning):
    """Warning about a questionable model: a paper is ambiguous, or a value is unusual."""


# the warnings issued in a scope, in order: the keys are (category, message)
_Warnings = dict[tuple[type[Warning], str], None]
_ISSUED_WARNINGS: ContextVar[_Warnings | None] = ContextVar("issued", default=None)


# the label and the name of the scheduler that runs; None if it has no label
_VARIANT: ContextVar[tuple[str, str] | None] = ContextVar("variant", default=None)


def _with_label(message: str) -> str:
    """Return a message on the running scheduler or its parameter with its label in place of its name."""
    label, name = _VARIANT.get() or ("", "")
    is_on_scheduler = message.startswith((f"{name}.", f"{name} does not support "))
    return f"{label}{message[len(name) :]}" if label and is_on_scheduler else message


@contextmanager
def variant_label(label: str, name: str) -> Iterator[None]:
    """Name a scheduler and its parameters by its label in the warnings and errors of the block.

    Parameters
    ----------
    label, name
        Label of the scheduler in a study, such as "limited", and its own name, such as "backfill".  A
        ``module:Class`` is no label.
    """
    token = _VARIANT.set(None if ":" in label else (label, name))
    try:
        yield
    except ScenarioError as error:
        if (message := _with_label(str(error))) == str(error):
            raise
        raise ScenarioError(message) from error
    finally:
        _VARIANT.reset(token)


class WarningScope:
    """Context in which `warn` issues each warning once; a nested scope is part of the outer one."""

    def __init__(self) -> None:
        self._warnings: _Warnings = {}
        self._tokens: list[Token[_Warnings | None]] = []

    @property
    def messages(self) -> list[str]:
        """The texts of the warnings issued in the scope, in order."""
        return [message for _, message in self._warnings]

    def __enter__(self) -> None:
        if (outer := _ISSUED_WARNINGS.get()) is not None:
            self._warnings = outer
        self._tokens.append(_ISSUED_WARNINGS.set(self._warnings))

    def __exit__(self, *_: object) -> None:
        _ISSUED_WARNINGS.reset(self._tokens.pop())


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Issue a warning as `warnings.warn` does, unless the current `WarningScope` has already issued it."""
    message, issued = _with_label(message), _ISSUED_WARNINGS.get()
    if issued is not None:
        if (category, message) in issued:
            return
        issued[category, message] = None
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
