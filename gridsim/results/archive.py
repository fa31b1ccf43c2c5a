"""Archives of arrays and JSON: a zip of .npy members and one .json, which contains no code."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gridsim.support.memory import memory, size_of
from gridsim.support.references import Arrays, check_array

#: Level of compression by deflate.
_LEVEL = 1
#: An array of `_SAMPLED_SIZE` bytes or more is compressed only if a sample of it (`_SAMPLE_PARTS` parts of
#: `_PART_SIZE` bytes) shrinks to less than `_MAX_RATIO` of its size.
_SAMPLED_SIZE, _SAMPLE_PARTS, _PART_SIZE = 1 << 20, 16, 1 << 13
_MAX_RATIO = 0.7
#: JSON of more than `_SMALL_JSON` bytes may be at most `_MAX_EXPANSION` times as large as the archive, since
#: an archive could be a zip bomb.
_MAX_EXPANSION, _SMALL_JSON = 100, 1 << 20
#: Character in JSON -> upper bound of the memory (bytes) that the parser takes for the marked value: an
#: object, an array, an entry with a number, a key (in its object and in the parser's memo), and half a
#: string.
_BYTES_PER_MARK = {"{": 80, "[": 96, ",": 40, ":": 110, '"': 40}
#: A string in JSON; the closing quote may be missing.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

_EPOCH = (1980, 1, 1, 0, 0, 0)  # a constant date, so that equal content gives equal files


class Writer:
    """Writer of an archive to a stream; a context manager that closes the archive."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._zip = stream, zipfile.ZipFile(stream, "w")

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, content: Any, max_values: int | None = None) -> None:
        """Add `content` as JSON, after all arrays.

        Parameters
        ----------
        max_values
            The limit with which the JSON will be read.

        Raises
        ------
        ValueError, RecursionError
            If `Reader.json` would reject the JSON with the limit `max_values`.
        """
        text = json.dumps(content, indent=1)
        if max_values is not None:
            parse_json(name, text, max_values)
        member, method = text.encode(), zipfile.ZIP_DEFLATED
        if len(member) > _SMALL_JSON:
            # the reader rejects JSON that is much larger than the archive
            archive = self._stream.tell() + len(zlib.compress(member, _LEVEL))
            method = zipfile.ZIP_STORED if len(member) > _MAX_EXPANSION * archive else method
        self._add(name, member, method)

    def array(self, name: str, column: NDArray[Any]) -> None:
        """Add an array of plain values (no objects)."""
        member = io.BytesIO()
        np.lib.format.write_array(member, column, allow_pickle=False)
        content = member.getvalue()
        self._add(name, content, zipfile.ZIP_DEFLATED if _is_compressible(content) else zipfile.ZIP_STORED)

    def arrays(self, arrays: Arrays) -> None:
        """Add the arrays to which a scenario refers, under their names."""
        for name, array in arrays.items():
            self.array(_array_member(name), array)

    def _add(self, name: str, content: Any, method: int) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = method
        info.external_attr = 0o644 << 16
        self._zip.writestr(info, content, compresslevel=_LEVEL)


def _is_compressible(content: bytes) -> bool:
    """Return whether deflating `content` is worthwhile, judged by evenly spaced parts of it."""
    if len(content) < _SAMPLED_SIZE:
        return True
    step = len(content) // _SAMPLE_PARTS
    sample = b"".join(content[at : at + _PART_SIZE] for at in range(0, _SAMPLE_PARTS * step, step))
    return len(zlib.compress(sample, _LEVEL)) < _MAX_RATIO * len(sample)


class Reader:
    """Reader of an untrusted archive from a stream.

    Errors of zip, npy and JSON in a damaged archive are passed on unchanged.

    Raises
    ------
    ValueError
        If the archive unpacks to more than this machine's memory; if members are neither stored nor deflated,
        share a name or a place in the file, or are read twice; if JSON is much larger than the archive or has
        too many values; if the header of an array does not match its content.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            stream.read(1)  # raises an error if the file cannot be read, where zipfile would report a bad zip
            self._zip = zipfile.ZipFile(stream)
        except zipfile.BadZipFile as error:
            cause = error.__context__
            if (
                isinstance(cause, OSError) and cause.filename is not None
            ):  # a read error, possibly of a valid zip
                raise cause from None
            raise
        members = self._zip.infolist()
        sizes, available = [member.file_size for member in members], memory()
        size = sum(sizes) + max(sizes, default=0)  # the last member is in memory twice, as bytes and as array
        if size > available:
            raise ValueError(
                f"unpacking requires {size_of(size)} of memory, but this machine has {size_of(available)}"
            )
        for member in members:
            # deflate expands data at most a thousandfold, other methods a millionfold
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(
                    f"{member.filename} must be stored or deflated, got method {member.compress_type}"
                )
        self._unread = {member.filename: member.file_size for member in members}
        if len(self._unread) < len(members):
            raise ValueError("members must have different names, got a duplicate")
        self._archive_size = stream.seek(0, io.SEEK_END)
        # overlapping members could all expand the same few bytes
        if sum(member.compress_size for member in members) > self._archive_size:
            raise ValueError("members must not overlap")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, max_values: int | None = None) -> Any:
        """Read the member `name` as JSON, whose strings must be encodable.

        Parameters
        ----------
        max_values
            Maximum number of values; None if only the memory limits it.
        """
        size, largest = self._unread.get(name, 0), max(_SMALL_JSON, _MAX_EXPANSION * self._archive_size)
        if size > largest:
            raise ValueError(
                f"{name} must have at most {size_of(largest)} in an archive of "
                f"{size_of(self._archive_size)}, got {size_of(size)}"
            )
        return parse_json(name, self._content(name).decode(), max_values)

    def array(self, name: str) -> NDArray[Any]:
        """Read the member `name` as an array."""
        content = self._content(name)
        stream = io.BytesIO(content)
        shape, fortran, dtype = read_header(stream, name)
        offset, count = stream.tell(), math.prod(shape)
        size = len(content) - offset
        if min(shape, default=0) < 0 or count * dtype.itemsize != size or count > max(1, size):
            raise ValueError(f"size of {name} must match its header, {shape} of {dtype}, got {size_of(size)}")
        array: NDArray[Any] = np.empty(shape, dtype, order="F" if fortran else "C")
        if len(content) > offset:
            array.ravel(order="K")[:] = np.frombuffer(content, dtype, offset=offset)
        return array

    def arrays(self, names: Iterable[str]) -> Arrays:
        """Read the arrays to which a scenario refers, and check each against the SHA-256 in its name."""
        return {name: check_array(name, self.array(_array_member(name))) for name in names}

    def _content(self, name: str) -> bytes:
        # each member is read only once, so the content is no larger than all members together
        if name not in self._unread:
            raise ValueError(f"the archive must have a member {name} that is referenced exactly once")
        del self._unread[name]
        # zipfile verifies the checksum only at the end of a member
        return self._zip.read(name)


def _array_member(name: str) -> str:
    return f"scenario/{name}.npy"


def parse_json(name: str, text: str, max_values: int | None = None) -> Any:
    """Return the content of JSON text, or raise ValueError or RecursionError as `Reader.json` does."""
    if (
        max_values is not None
        and _value_count(text) > max_values
        and (values := _value_count(_without_strings(text))) > max_values
    ):
        raise ValueError(f"{name} must have at most {max_values} values, got {values}")
    available = memory()
    if (
        _memory_bound(text, text) > available
        and (required := _memory_bound(text, _without_strings(text))) > available
    ):
        raise ValueError(
            f"{name} requires {size_of(required)} of memory, but this machine has {size_of(available)}"
        )
    content = json.loads(text)
    # reject lone surrogates, except those that represent bytes of file names
    if "\\ud" in text or "\\uD" in text:
        json.dumps(content, ensure_ascii=False).encode(errors="surrogateescape")
    return content


def _without_strings(text: str) -> str:
    """Return JSON text with all strings replaced by empty strings."""
    return _STRING.sub('""', text)


def _value_count(text: str) -> int:
    """Return an upper bound of the number of values in JSON text, the number of `,`, `[` and `{` in it."""
    return sum(text.count(mark) for mark in ",[{")


def _memory_bound(text: str, marks: str) -> int:
    """Return an upper bound, bytes, of the memory for `text` and its parsed content.

    Parameters
    ----------
    marks
        The text, with or without its strings, in which punctuation marks are counted.
    """
    return 2 * sys.getsizeof(text) + sum(
        mark_bytes * marks.count(mark) for mark, mark_bytes in _BYTES_PER_MARK.items()
    )


def read_header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array in npy format from a stream; return its shape, Fortran order and dtype.

    Raises
    ------
    ValueError
        If the header is invalid, or the array has objects.
    """
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version of {name} must be 1.0 or 2.0, got {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except (ValueError, TypeError, LookupError, SyntaxError, TokenError, MemoryError):
        # NumPy evaluates the header as a literal of Python, whose parser raises MemoryError if its stack is
        # too small; some of these errors have the address of an object
        raise ValueError(f"{name} must have a valid header") from None
    if dtype.hasobject:
        raise ValueError(f"{name} must have plain values, got objects")
    return shape, fortran, dtype
