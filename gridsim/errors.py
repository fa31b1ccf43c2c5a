"""The errors and warnings of gridsim.

Errors have one root.  Each message is one line that names the field, its value and what is allowed.
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
    """Return the text of an error, or, if ``str()`` of a foreign error raises, the reason why it has none."""
    try:
        return str(error)
    except (Exception, SystemExit) as failure:  # its `__str__` may do anything
        return f"it has no text, str() of it raises {type(failure).__name__}"


class _OneLine:
    """Makes texts of an error one printable line each, as they may quote files of other people."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(one_line(each) if isinstance(each, str) else each for each in args))


class GridSimError(_OneLine, Exception):
    """Root of every error that gridsim raises on purpose."""


@contextmanager
def naming(files: Collection[str]) -> Iterator[None]:
    """Put the names of `files` before a GridSimError raised inside, unless it names one of them already.

    For work with what was read from the files, such as a scenario in them.
    """
    try:
        yield
    except GridSimError as error:
        if any(file in str(error) for file in files):
            raise
        raise type(error)(f"{', '.join(files)}: {error}") from error


class ScenarioError(GridSimError, ValueError):
    """A scenario, platform, workload, network or scheduler parameter is wrong.

    The message starts with the configuration path (``platform.speeds[3]``), then the value and what
    was expected.
    """


class FileChanged(ScenarioError):
    """A trace file differs from what was read of it, or from what it was when its run or study began."""


class TraceFormatError(GridSimError, ValueError):
    """A trace file cannot be read; the message starts with ``file:line``, or ``file`` if it does not open."""


class OutOfMemory(GridSimError, MemoryError):
    """A run would take more memory than there is; the message says what takes how much."""


class SchedulerError(GridSimError, RuntimeError):
    """A scheduler broke its contract; the message carries the simulated time in seconds."""


class CompileError(SchedulerError):
    """A node program cannot be compiled; the message says where, and what to write instead."""


class InvariantViolation(GridSimError, AssertionError):
    """An invariant of the simulation does not hold (a task lost, done twice, or run on a failed machine)."""


class TraceWarning(_OneLine, UserWarning):
    """A trace record was repaired or left out; the message counts them and names the first."""


class PluginWarning(_OneLine, UserWarning):
    """What an installed package adds to gridsim is left out; the message says what and why."""


class CheckpointWarning(_OneLine, UserWarning):
    """A checkpoint could not be written; the run goes on, and the previous checkpoint stays."""


class ModelWarning(_OneLine, UserWarning):
    """A paper is ambiguous and gridsim chose one reading, or a value is unusual; the message says which."""
