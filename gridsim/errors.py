"""The errors and warnings of gridsim: one root, one line each, naming field, value and expectation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

#: Characters of a message; what is longer is cut in the middle.
LONGEST = 2000


def printable(text: str) -> str:
    """`text` as a terminal only shows it: what else it holds is spelt out, as in ``\\x1b``; lines stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else " " if c in "\r\t" else ascii(c)[1:-1] for c in text
    )


def in_line(text: str) -> str:
    """`text` as a part of one printable line."""
    return printable(text).replace("\n", " ")


def one_line(text: str) -> str:
    """`text` as one printable line, not too long."""
    text = in_line(text.strip())
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def text_of(error: BaseException) -> str:
    """The text of an error; of one of somebody else's that cannot tell its own, why not."""
    try:
        return str(error)
    except (Exception, SystemExit) as failure:  # whatever its `__str__` does
        return f"it has no text, str() of it raises {type(failure).__name__}"


class _OneLine:
    """Messages may quote files of others."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(one_line(each) if isinstance(each, str) else each for each in args))


class GridSimError(_OneLine, Exception):
    """Root of every error that gridsim raises on purpose."""


@contextmanager
def naming(files: Collection[str]) -> Iterator[None]:
    """Around what is done with files that were read: a GridSimError names them, as of a scenario in them."""
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
    """A trace file is another one than what was read of it, or than when its run or study began."""


class TraceFormatError(GridSimError, ValueError):
    """A trace file cannot be read; the message starts with ``file:line``, ``file`` if it does not open."""


class OutOfMemory(GridSimError, MemoryError):
    """A run that would take more memory than there is; the message says what takes how much."""


class SchedulerError(GridSimError, RuntimeError):
    """A scheduler broke its contract; the message carries the simulated time in seconds."""


class InvariantViolation(GridSimError, AssertionError):
    """An invariant of the simulation does not hold (a task lost, done twice, or run on a dead machine)."""


class TraceWarning(_OneLine, UserWarning):
    """A trace record was repaired or left out; the message counts them and names the first."""


class CheckpointWarning(_OneLine, UserWarning):
    """A checkpoint could not be written; the run goes on, and the one before stays."""


class ModelWarning(_OneLine, UserWarning):
    """A paper is ambiguous here and the library chose; the message says what."""
