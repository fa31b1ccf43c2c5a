"""The errors and warnings of gridsim.

All errors are subclasses of `GridSimError`.  A message is one line with the path, the condition and the
value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

#: Most characters of a message; a longer one is cut in the middle, between two words.
LONGEST = 2000


def printable(text: str) -> str:
    """Return `text` with unprintable characters spelt out, as in ``\\x1b``; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else " " if c in "\r\t" else ascii(c)[1:-1] for c in text
    )


def in_line(text: str) -> str:
    """Return `text` as a part of one line: `printable`, with blanks for line breaks."""
    return printable(text).replace("\n", " ")


def one_line(text: str) -> str:
    """Return `text` as one printable line of about `LONGEST` characters at most."""
    text = in_line(text.strip())
    if len(text) <= LONGEST:
        return text
    head, tail = text[: LONGEST // 2].rsplit(" ", 1)[0], text[-LONGEST // 2 :].split(" ", 1)[-1]
    return f"{head} ... {tail}"


def text_of(error: BaseException) -> str:
    """Return the text of an error, or the reason why it has none if ``str()`` of a foreign error raises."""
    try:
        return str(error)
    except (Exception, SystemExit) as failure:  # its `__str__` may do anything
        return f"no text: str() of the error raises {type(failure).__name__}"


class _OneLine:
    """Mixin that turns each text of an error into one printable line, since it may quote untrusted files."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(one_line(arg) if isinstance(arg, str) else arg for arg in args))


class GridSimError(_OneLine, Exception):
    """Root of every error that gridsim raises on purpose."""


@contextmanager
def naming(files: Collection[str]) -> Iterator[None]:
    """Prefix a GridSimError raised in the block with the names of `files`, unless it names one already.

    Use it for work on content that was read from the files, such as a scenario.
    """
    try:
        yield
    except GridSimError as error:
        if any(file in str(error) for file in files):
            raise
        raise type(error)(f"{', '.join(files)}: {error}") from error


class ScenarioError(GridSimError, ValueError):
    """A scenario, platform, workload, network or scheduler parameter is wrong.

    The message starts with the configuration path (``platform.speeds[3]``), followed by the condition that
    the value must satisfy and the value.
    """


class FileChanged(ScenarioError):
    """A trace file has changed since it was read, or since its run or study began."""


class TraceFormatError(GridSimError, ValueError):
    """A trace file cannot be read.

    The message starts with ``file:line``, or with ``file`` if the file cannot be opened.
    """


class OutOfMemory(GridSimError, MemoryError):
    """A run needs more memory than is available; the message states both amounts."""


class SchedulerError(GridSimError, RuntimeError):
    """A scheduler broke its contract; the message carries the simulated time in seconds."""


class CompileError(SchedulerError):
    """A node program cannot be compiled; the message states the place and a remedy."""


class InvariantViolation(GridSimError, AssertionError):
    """An invariant of the simulation is violated.

    Examples are a task that is lost, completed twice, or run on a failed machine.
    """


class TraceWarning(_OneLine, UserWarning):
    """Trace records were repaired or left out; the message counts them and names the first."""


class PluginWarning(_OneLine, UserWarning):
    """An entry point of an installed package is ignored; the message names it and the reason."""


class CheckpointWarning(_OneLine, UserWarning):
    """A checkpoint could not be written; the run continues, and the previous checkpoint is kept."""


class ModelWarning(_OneLine, UserWarning):
    """A model is questionable: a paper is ambiguous and gridsim chose one reading, or a value is unusual."""
