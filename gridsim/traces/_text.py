"""Reading of trace files as lines of text, plain or gzip; faults raise `TraceFormatError` with FILE:LINE."""

from __future__ import annotations

import csv
import gzip
import logging
import math
import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError, TraceWarning, warn
from gridsim.support.files import StrPath, open_regular
from gridsim.support.memory import memory, size_of

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 18  # bytes; only one chunk and one unfinished line are in memory at a time
#: Largest time, size or speed, and largest count; larger values are errors, so that sums stay finite.
LARGEST_VALUE, LARGEST_COUNT = 1e18, 2**40
#: Largest number up to which a float represents every whole number exactly.
LARGEST_EXACT = 2.0**53 - 1
#: Largest number of characters of a quoted word in an error message.
_MAX_WORD = 60
#: Largest number of bytes of a line; the longest lines of real traces have some 100 kB.
LONGEST_LINE = 1 << 24
#: Largest ratio of the unpacked size to the size of a gzip file (about 12 for real logs), and the unpacked
#: size (bytes) from which on the ratio is checked.
MAX_GZIP_RATIO, GZIP_CHECK_BYTES = 100, 1 << 24
_GZIP_MAGIC = b"\x1f\x8b"


def format_error(path: StrPath, line: int, message: str) -> TraceFormatError:
    """Return the error `FILE:LINE: message`, or `FILE: message` if `line` is 0."""
    return TraceFormatError(f"{os.fspath(path)}:{line}: {message}" if line else f"{path}: {message}")


def warn_repairs(path: StrPath, repairs: Iterable[tuple[int, int, str]], stacklevel: int = 3) -> None:
    """Issue one `TraceWarning` for a file, at the caller's caller, unless nothing was repaired.

    Parameters
    ----------
    repairs
        Count, first line and description of each kind of repair; those with a count of 0 are skipped.
    """
    repairs = [repair for repair in repairs if repair[0]]
    if repairs:
        first = min(line for _, line, _ in repairs)
        text = "; ".join(f"{count} {description}" for count, _, description in repairs)
        message = f"{os.fspath(path)}:{first}: {text} (the first is at this line)"
        warn(message, TraceWarning, stacklevel)


@dataclass(frozen=True)
class Remark:
    """Class of records of a trace that a `TraceWarning` counts.

    Parameters
    ----------
    lines
        int64; the line of each record.
    text
        Description of the records and of their treatment, which follows their number in a warning.
    """

    lines: NDArray[np.int64]
    text: str

    def restrict(self, lines: NDArray[np.int64]) -> Remark:
        """Return the remark, restricted to records on the given lines."""
        return Remark(self.lines[np.isin(self.lines, lines)], self.text)


def warn_remarks(path: StrPath, remarks: Iterable[Remark], stacklevel: int = 3) -> None:
    """Issue one `TraceWarning`, at the caller's caller, for the `remarks` that have records."""
    repairs = [(len(remark.lines), int(remark.lines.min(initial=2**62)), remark.text) for remark in remarks]
    warn_repairs(path, repairs, stacklevel + 1)


def truncate(word: str) -> str:
    """Return a word of a file for an error message, cut off if it is long."""
    return word if len(word) <= _MAX_WORD else f"{word[:_MAX_WORD]}..."


def parse_number(word: str) -> float | None:
    """Return the value of a plain decimal number; None for other text, such as 1_000."""
    try:
        return float(word) if word.isascii() and "_" not in word else None
    except ValueError:
        return None


def number_fault(
    field: str, word: str, *, integer: bool = False, maximum: float = LARGEST_VALUE
) -> str | None:
    """Return the error message for the word of a field; None if the word is valid.

    A valid word is a finite number of absolute value at most `maximum`.  If `integer` is true, it is also a
    whole number below 2**53, as floats do not represent all larger ones.
    """
    value = parse_number(word)
    text = repr(truncate(word))
    if value is None:
        return f"field {field} must be a number, got {text}"
    if not math.isfinite(value):
        return f"field {field} must be a finite number, got {text}"
    if integer and value != math.floor(value):
        return f"field {field} must be a whole number, got {text}"
    if integer and abs(value) >= 2**53:
        return f"field {field} must be a whole number below 2**53, got {text}"
    if abs(value) > maximum:
        return f"field {field} must be at most {maximum:.16g}, got {text}"
    return None


def text_lines(path: StrPath) -> Generator[str, None, None]:
    """Yield the lines of a text file, plain or gzip, without their newline.

    Raises
    ------
    TraceFormatError
        As in `text_blocks`.
    """
    with closing(text_blocks(path)) as blocks:
        for block in blocks:
            yield from block.split("\n")


def text_blocks(path: StrPath, longest_line: int = LONGEST_LINE) -> Generator[str, None, None]:
    """Yield a UTF-8 text file, plain or gzip (detected from its content), in blocks of whole lines.

    The newline at the end of a block is left out.  Callers that stop before the end must close the generator;
    otherwise the file stays open for as long as a reference to the error exists.

    Raises
    ------
    TraceFormatError
        If the file cannot be read, is truncated, corrupt, binary, not UTF-8, or not gzip although it ends in
        .gz, if a line has more than `longest_line` bytes, or if the unpacked contents exceed the memory of
        this machine or `MAX_GZIP_RATIO` times the size of the file.
    """
    _LOG.debug("reading %s", path)
    last_line = 0
    block = b""
    try:
        file = open_regular(path)
    except OSError as error:
        raise format_error(path, 0, error.strerror or str(error)) from error
    try:
        with file as stream:
            for chunk in _chunks(path, stream):
                if b"\0" in chunk:
                    line = last_line + (block + chunk).count(b"\n", 0, len(block) + chunk.index(b"\0")) + 1
                    raise format_error(path, line, "the file must be text, got binary data (a NUL byte)")
                complete, newline, rest = chunk.rpartition(b"\n")
                if not newline:  # a line longer than the chunk
                    block += chunk
                    if len(block) > longest_line:
                        raise format_error(
                            path, last_line + 1, f"a line must have at most {longest_line} bytes, got more"
                        )
                    continue
                block += complete
                yield _decode(block)
                last_line += block.count(b"\n") + 1
                block = rest
            if block:
                yield _decode(block)
    except UnicodeDecodeError as error:
        line = last_line + block.count(b"\n", 0, error.start) + 1
        byte = block[error.start]
        raise format_error(path, line, f"the file must be UTF-8 text, got byte 0x{byte:02x}") from error
    except EOFError as error:
        raise format_error(path, last_line + 1, "the gzip file is truncated") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise format_error(path, last_line + 1, f"not a valid gzip file ({error})") from error
    except OSError as error:
        raise format_error(path, last_line + 1, f"cannot be read ({error.strerror or error})") from error


def carriage_return_fault(path: StrPath, default: str) -> tuple[int, str]:
    """Return the line and the fault of a file that numpy rejects although the words of each line are valid.

    The fault is a carriage return within a line.  If there is none, it is `default`, the message of numpy,
    at line 1.
    """
    for number, line in enumerate(text_lines(path), 1):
        if "\r" in line.rstrip("\r") and not line.startswith((";", "#")):
            return number, "a line must end with a newline, got a carriage return within the line"
    return 1, default


def csv_rows(path: StrPath) -> Generator[tuple[int, list[str]], None, None]:
    """Yield (line number, row) for each non-empty row of a CSV file.

    Columns are separated by tabs if the first row has a tab, else by commas.

    Raises
    ------
    TraceFormatError
        If the file cannot be read as text, or a row is not valid CSV.
    """
    with closing(text_lines(path)) as lines:
        header = next(lines, "")
        delimiter = "\t" if "\t" in header else ","
        reader = csv.reader(chain([header], lines), delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise format_error(path, reader.line_num, f"not a valid CSV line ({error})") from error


def _decode(block: bytes) -> str:
    return block.decode().removeprefix("\ufeff")  # a byte order mark is not part of the text


def _chunks(path: StrPath, stream: BinaryIO) -> Iterator[bytes]:
    start = stream.read(len(_GZIP_MAGIC))
    stream.seek(0)
    if start == _GZIP_MAGIC or Path(path).suffix == ".gz":
        with gzip.GzipFile(fileobj=stream) as contents:
            # read1 returns all unpacked data before it reports a truncation, so the error can state the line
            size, memory_size = os.fstat(stream.fileno()).st_size, memory()
            limit = min(memory_size, max(GZIP_CHECK_BYTES, MAX_GZIP_RATIO * size))
            count = 0
            while chunk := contents.read1(_CHUNK):
                count += len(chunk)
                if count > limit:
                    reason = (
                        "the available memory"
                        if limit == memory_size
                        else f"{MAX_GZIP_RATIO} times the size of the file"
                    )
                    message = f"unpacked contents must be at most {size_of(limit)}, {reason}, got more"
                    raise format_error(path, 0, message)
                yield chunk
    else:
        while chunk := stream.read(_CHUNK):
            yield chunk
