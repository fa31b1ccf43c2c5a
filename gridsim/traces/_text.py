"""Reads trace files as text lines, plain or gzip; every failure is a `TraceFormatError` with file:line."""

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

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.support.files import StrPath, open_regular
from gridsim.support.memory import memory, size_of
from gridsim.support.warning_scope import warn

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 18  # bytes; one chunk and one unfinished line are held, never the whole file
#: Larger times, sizes and speeds, or larger counts, are mistakes.  The limits keep sums of them finite.
LARGEST, LARGEST_COUNT = 1e18, 2**40
#: Up to this number floats tell whole numbers apart: none is silently read as another one.
LARGEST_EXACT = 2.0**53 - 1
#: The most characters of a word that an error shows.
_SHOWN = 60
#: The most bytes of a line; lines of real traces have up to some 100 kB.
LONGEST_LINE = 1 << 24
#: How many times larger than a gzip file its contents may be, and from how many bytes on this is checked.
#: The contents of real logs are at most 12 times as large.
MOST_PACKED, PACKED_FROM = 100, 1 << 24
_GZIP_MAGIC = b"\x1f\x8b"


def format_error(path: StrPath, line: int, message: str) -> TraceFormatError:
    """Return the error `FILE:LINE: message`, or `FILE: message` if `line` is 0."""
    return TraceFormatError(f"{os.fspath(path)}:{line}: {message}" if line else f"{path}: {message}")


def warn_repairs(path: StrPath, repairs: Iterable[tuple[int, int, str]], stacklevel: int = 3) -> None:
    """Issue one `TraceWarning` for a file, at the caller's caller, unless nothing was repaired.

    Parameters
    ----------
    repairs
        (count, first line, what was repaired and how); those with a count of 0 are skipped.
    """
    done = [repair for repair in repairs if repair[0]]
    if done:
        first = min(line for _, line, _ in done)
        text = "; ".join(f"{count} {what}" for count, _, what in done)
        message = f"{os.fspath(path)}:{first}: {text} (the first is at this line)"
        warn(message, TraceWarning, stacklevel)


@dataclass(frozen=True)
class Remark:
    """A kind of records of a trace that a `TraceWarning` counts.

    Parameters
    ----------
    lines
        int64; the line of each record.
    text
        What the records are, and what is done with them; their number comes before it.
    """

    lines: NDArray[np.int64]
    text: str

    def within(self, lines: NDArray[np.int64]) -> Remark:
        """Return the remark on those records that are on one of `lines`."""
        return Remark(self.lines[np.isin(self.lines, lines)], self.text)


def warn_remarks(path: StrPath, remarks: Iterable[Remark], stacklevel: int = 3) -> None:
    """Issue one `TraceWarning` for those `remarks` that have records, at the caller's caller."""
    repairs = [(len(each.lines), int(each.lines.min(initial=2**62)), each.text) for each in remarks]
    warn_repairs(path, repairs, stacklevel + 1)


def cut(word: str) -> str:
    """Return a word of a file for an error message; only the beginning of a long one."""
    return word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..."


def parse_number(word: str) -> float | None:
    """Return the value of a plain decimal number; None for other text, even if float() takes it (1_000)."""
    try:
        return float(word) if word.isascii() and "_" not in word else None
    except ValueError:
        return None


def number_fault(field: str, word: str, *, whole: bool = False, most: float = LARGEST) -> str | None:
    """Return what is wrong with the word of a field; None if nothing is.

    It must be a finite number of absolute value at most `most`; if `whole`, a whole number below 2**53, too,
    since floats cannot tell larger ones apart.
    """
    value = parse_number(word)
    shown = repr(cut(word))
    if value is None:
        return f"field {field} is {shown}, expected a number"
    if not math.isfinite(value):
        return f"field {field} is {shown}, expected a finite number"
    if whole and value != math.floor(value):
        return f"field {field} is {shown}, expected a whole number"
    if whole and abs(value) >= 2**53:
        return f"field {field} is {shown}, expected a whole number below 2**53"
    if abs(value) > most:
        return f"field {field} is {shown}, expected at most {most:.16g}"
    return None


def text_lines(path: StrPath) -> Generator[str, None, None]:
    """Yield the lines of a text file without their newline; see `text_blocks`."""
    with closing(text_blocks(path)) as blocks:
        for block in blocks:
            yield from block.split("\n")


def text_blocks(path: StrPath) -> Generator[str, None, None]:
    """Yield a UTF-8 text file, plain or gzip (found from its content), in blocks of whole lines.

    The newline at the end of a block is left out.

    Raises `TraceFormatError` naming the file if it cannot be opened, or if its unpacked contents exceed the
    memory of this machine or `MOST_PACKED` times its size.  The error also names the line reached if the file
    is truncated, corrupt, not gzip in spite of its name, binary, or not UTF-8, if it has a line of more than
    `LONGEST_LINE` bytes, or if reading fails.

    Code that leaves the generator before its end must close it; otherwise the file stays open for as long as
    a reference to the error exists.
    """
    _LOG.debug("reading %s", path)
    reached = 0
    block = b""
    try:
        file = open_regular(path)
    except OSError as error:
        raise format_error(path, 0, error.strerror or str(error)) from error
    try:
        with file as stream:
            for chunk in _chunks(path, stream):
                if b"\0" in chunk:
                    line = reached + (block + chunk).count(b"\n", 0, len(block) + chunk.index(b"\0")) + 1
                    raise format_error(path, line, "binary data (a NUL byte), expected text")
                complete, newline, rest = chunk.rpartition(b"\n")
                if not newline:  # a line longer than the chunk
                    block += chunk
                    if len(block) > LONGEST_LINE:
                        raise format_error(path, reached + 1, f"a line of more than {LONGEST_LINE} bytes")
                    continue
                block += complete
                yield _decode(block)
                reached += block.count(b"\n") + 1
                block = rest
            if block:
                yield _decode(block)
    except UnicodeDecodeError as error:
        line = reached + block.count(b"\n", 0, error.start) + 1
        byte = block[error.start]
        raise format_error(path, line, f"byte 0x{byte:02x} is not UTF-8 text") from error
    except EOFError as error:
        raise format_error(path, reached + 1, "the gzip data end too early (truncated file)") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise format_error(path, reached + 1, f"not a sound gzip file ({error})") from error
    except OSError as error:
        raise format_error(path, reached + 1, f"cannot be read ({error.strerror or error})") from error


def torn_line(path: StrPath, otherwise: str) -> tuple[int, str]:
    """Return the line and the reason why numpy rejects a file although the words of each line are valid.

    The reason is a carriage return within a line; if there is none, line 1 and `otherwise`, numpy's message.
    """
    for number, line in enumerate(text_lines(path), 1):
        if "\r" in line.rstrip("\r") and not line.startswith((";", "#")):
            return number, "a carriage return within the line, expected a newline at the end of each line"
    return 1, otherwise


def csv_rows(path: StrPath) -> Generator[tuple[int, list[str]], None, None]:
    """Yield (line, row) for the rows of a CSV file that are not empty; tabs split them if the first has some.

    Raises `TraceFormatError` as `text_lines` does, and for invalid CSV.
    """
    with closing(text_lines(path)) as lines:
        top = next(lines, "")
        reader = csv.reader(chain([top], lines), delimiter="\t" if "\t" in top else ",", strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise format_error(path, reader.line_num, f"not a sound CSV line ({error})") from error


def _decode(block: bytes) -> str:
    return block.decode().removeprefix("\ufeff")  # a byte order mark is no part of the first field


def _chunks(path: StrPath, stream: BinaryIO) -> Iterator[bytes]:
    start = stream.read(len(_GZIP_MAGIC))
    stream.seek(0)
    if start == _GZIP_MAGIC or Path(path).suffix == ".gz":
        with gzip.GzipFile(fileobj=stream) as unpacked:
            # read1 returns all that was unpacked before it reports a truncation, so the line reached is exact
            size, most = os.fstat(stream.fileno()).st_size, memory()
            allowed = min(most, max(PACKED_FROM, MOST_PACKED * size))
            done = 0
            while chunk := unpacked.read1(_CHUNK):
                done += len(chunk)
                if done > allowed:
                    raise format_error(path, 0, _too_much(size, allowed, most))
                yield chunk
    else:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _too_much(size: int, allowed: int, most: int) -> str:
    whose = "the memory of this machine" if allowed == most else "no log packs so well"
    return f"gzip makes more than {size_of(allowed)} of its {size_of(size)}: {whose}"
