"""Archives of arrays and JSON: a zip of .npy members and one .json, which contains no code."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.support.memory import memory, size_of
from gridsim.support.references import Arrays, check_array
from gridsim.support.threads import parallel_map, processors

#: Level of compression by deflate.
_LEVEL = 1
#: An array of `_SAMPLED_SIZE` bytes or more is compressed only if a sample of it (`_SAMPLE_PARTS` parts of
#: `_PART_SIZE` bytes) shrinks to less than `_MAX_RATIO` of its size.
_SAMPLED_SIZE, _SAMPLE_PARTS, _PART_SIZE = 1 << 20, 16, 1 << 13
_MAX_RATIO = 0.5
#: JSON of more than `_SMALL_JSON` bytes may be at most `_MAX_EXPANSION` times as large as the archive, since
#: an archive could be a zip bomb.
_MAX_EXPANSION, _SMALL_JSON = 100, 1 << 20
#: Character in JSON -> upper bound of the memory (bytes) that the parser takes for the marked value: an
#: object, an array, an entry with a number, a key (in its object and in the parser's memo), and half a
#: string.
_BYTES_PER_MARK = {"{": 80, "[": 96, ",": 40, ":": 110, '"': 40}
#: A string in JSON; the closing quote may be missing.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

#: Window of deflate in a zip, without a header.
_RAW = -15
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
        member, compress = text.encode(), True
        if len(member) > _SMALL_JSON:
            # the reader rejects JSON that is much larger than the archive
            archive = self._stream.tell() + len(zlib.compress(member, _LEVEL))
            compress = len(member) <= _MAX_EXPANSION * archive
        self._add(_Member.of_parts(name, [member], compress))

    def arrays(self, members: Sequence[tuple[str, NDArray[Any]]]) -> None:
        """Add arrays of plain values (no objects), each with the name of its member."""
        for member in parallel_map(_Member.of, members, _threads(array.nbytes for _, array in members)):
            self._add(member)

    def _add(self, member: _Member) -> None:
        """Add a member; its content is already compressed, which `zipfile` has no method for."""
        info = member.info
        info.header_offset = self._stream.tell()
        self._stream.write(info.FileHeader())
        for part in member.parts:
            self._stream.write(part)
        self._zip.start_dir = self._stream.tell()
        self._zip.filelist.append(info)
        self._zip.NameToInfo[info.filename] = info


class _Member(NamedTuple):
    """A member of an archive: its entry in the directory, and its content as in the file, in parts."""

    info: zipfile.ZipInfo
    parts: list[bytes | memoryview]

    @classmethod
    def of(cls, member: tuple[str, NDArray[Any]]) -> _Member:
        """Return the member of a name and an array."""
        name, array = member
        array = np.ascontiguousarray(array)
        header, content = io.BytesIO(), array.reshape(-1).view(np.uint8).data
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
        return cls.of_parts(name, [header.getvalue(), content], _is_compressible(content))

    @classmethod
    def of_parts(cls, name: str, parts: list[bytes | memoryview], compress: bool) -> _Member:
        """Return the member of a name and a content in parts."""
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr = 0o644 << 16
        info.file_size, info.CRC = sum(map(len, parts)), 0
        for part in parts:
            info.CRC = zlib.crc32(part, info.CRC)
        if compress:
            info.compress_type = zipfile.ZIP_DEFLATED
            deflate = zlib.compressobj(_LEVEL, wbits=_RAW)
            parts = [*map(deflate.compress, parts), deflate.flush()]
        info.compress_size = sum(map(len, parts))
        return cls(info, parts)


def _threads(sizes: Iterable[int]) -> int:
    """Return the number of threads for members of these sizes, bytes."""
    members = list(sizes)
    return min(processors(), len(members)) if sum(members) >= _SAMPLED_SIZE else 1


def _is_compressible(content: memoryview) -> bool:
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
        """Read the member `name` as an array, which is read-only."""
        return next(self.arrays([name]))

    def arrays(self, names: Sequence[str]) -> Iterator[NDArray[Any]]:
        """Read members as arrays, which are read-only."""
        return self._map(self._array, names)

    def scenario_arrays(self, names: Iterable[str]) -> Arrays:
        """Read the arrays to which a scenario refers, and check each against the SHA-256 in its name."""
        name_of = {scenario_member(name): name for name in names}

        def read(member: str) -> NDArray[Any]:
            return check_array(name_of[member], self._array(member))

        return dict(zip(name_of.values(), self._map(read, [*name_of]), strict=True))

    def _map(self, read: Callable[[str], NDArray[Any]], names: Sequence[str]) -> Iterator[NDArray[Any]]:
        threads = _threads(self._unread.get(name, 0) for name in names)
        return parallel_map(read, map(self._take, names), threads)

    def _array(self, name: str) -> NDArray[Any]:
        content = self._zip.read(name)
        stream = io.BytesIO(content)
        shape, fortran, dtype = read_header(stream, name)
        offset, count = stream.tell(), math.prod(shape)
        size = len(content) - offset
        if min(shape, default=0) < 0 or count * dtype.itemsize != size or count > max(1, size):
            raise ValueError(f"size of {name} must match its header, {shape} of {dtype}, got {size_of(size)}")
        if not size:
            return np.empty(shape, dtype)
        array: NDArray[Any] = np.frombuffer(content, dtype, offset=offset)
        # a view of the array would not be known to be constant
        return array if shape == (count,) else array.reshape(shape, order="F" if fortran else "C")

    def _content(self, name: str) -> bytes:
        # zipfile verifies the checksum only at the end of a member
        return self._zip.read(self._take(name))

    def _take(self, name: str) -> str:
        """Return the name of a member, which can be read only once.

        So the content is no larger than all members together.
        """
        if name not in self._unread:
            raise ValueError(f"the archive must have a member {name} that is referenced exactly once")
        del self._unread[name]
        return name


def scenario_member(name: str) -> str:
    """Return the name of the member of an array to which a scenario refers."""
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
