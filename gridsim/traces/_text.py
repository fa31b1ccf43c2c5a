"""Reading trace files as text lines: plain or gzip, every failure a `TraceFormatError` with file:line."""

from __future__ import annotations

import gzip
import math
import os
import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from gridsim.errors import TraceFormatError, TraceWarning

StrPath = str | os.PathLike[str]

_CHUNK = 1 << 18  # bytes; one chunk and one unfinished line are held, never the whole file
_GZIP_MAGIC = b"\x1f\x8b"


def format_error(path: StrPath, line: int, message: str) -> TraceFormatError:
    """The error `FILE:LINE: message`; line 0 stands for none: `FILE: message`."""
    return TraceFormatError(f"{os.fspath(path)}:{line}: {message}" if line else f"{path}: {message}")


def warn_repairs(path: StrPath, repairs: Iterable[tuple[int, int, str]]) -> None:
    """One `TraceWarning` for a file; repairs are (count, first line, what), counts of 0 are skipped."""
    done = [repair for repair in repairs if repair[0]]
    if done:
        first = min(line for _, line, _ in done)
        text = "; ".join(f"{count} {what}" for count, _, what in done)
        message = f"{os.fspath(path)}:{first}: {text} (the first is at this line)"
        warnings.warn(message, TraceWarning, stacklevel=3)


def parse_number(word: str) -> float | None:
    """The value of a plain decimal number, None for anything else (float() alone takes 1_000 and more)."""
    try:
        return float(word) if word.isascii() and "_" not in word else None
    except ValueError:
        return None


def number_fault(field: str, word: str, *, whole: bool = False) -> str | None:
    """What is wrong with the word of a field that should be a finite (whole) number; None when nothing is."""
    value = parse_number(word)
    if value is None:
        return f"field {field} is {word!r}, expected a number"
    if not math.isfinite(value):
        return f"field {field} is {word!r}, expected a finite number"
    if whole and (value != math.floor(value) or abs(value) > 2**53):
        return f"field {field} is {word!r}, expected a whole number"
    return None


def text_lines(path: StrPath) -> Iterator[str]:
    """The lines of a UTF-8 text file, plain or gzip (told by content), without their newline.

    Raises `TraceFormatError` naming the file when it cannot be opened, and the line reached when it is
    truncated, corrupt, not gzip in spite of its name, binary, or not UTF-8, or when reading fails.
    """
    reached = 0
    block = b""
    try:
        opened = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise format_error(path, 0, error.strerror or str(error)) from error
    try:
        with opened as stream:
            for chunk in _chunks(path, stream):
                if b"\0" in chunk:
                    line = reached + (block + chunk).count(b"\n", 0, len(block) + chunk.index(b"\0")) + 1
                    raise format_error(path, line, "binary data (a NUL byte), expected text")
                complete, newline, rest = chunk.rpartition(b"\n")
                if not newline:  # a line longer than the chunk
                    block += chunk
                    continue
                block += complete
                lines = _decode(block).split("\n")
                yield from lines
                reached += len(lines)
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


def _decode(block: bytes) -> str:
    return block.decode().removeprefix("\ufeff")  # a byte order mark is no part of the first field


def _chunks(path: StrPath, stream: BinaryIO) -> Iterator[bytes]:
    start = stream.read(len(_GZIP_MAGIC))
    stream.seek(0)
    if start == _GZIP_MAGIC or Path(path).suffix == ".gz":
        with gzip.GzipFile(fileobj=stream) as unpacked:
            # read1 hands over what was unpacked before it reports a truncation: the line reached is exact
            while chunk := unpacked.read1(_CHUNK):
                yield chunk
    else:
        while chunk := stream.read(_CHUNK):
            yield chunk
