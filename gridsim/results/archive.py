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
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gridsim.support.memory import memory, size_of
from gridsim.support.references import Arrays, check_array

#: Deflate level.
_LEVEL = 1
#: An array of `_LARGE` bytes or more is deflated only if a sample of it (`_PARTS` parts of `_PART` bytes)
#: shrinks below `_WORTH` times its size.
_LARGE, _PARTS, _PART = 1 << 20, 16, 1 << 13
_WORTH = 0.7
#: JSON of more than `_PACKED_FROM` bytes may be at most `_MOST_PACKED` times as large as the archive.  In a
#: real archive it is only a part of it.
_MOST_PACKED, _PACKED_FROM = 100, 1 << 20
#: Mark of JSON -> upper estimate of the bytes of memory that parsing takes per mark: for an object, an array,
#: a slot with a number in it, a key (in its object and among all keys read), one end of a string.
_TAKEN = {"{": 80, "[": 96, ",": 40, ":": 110, '"': 40}
#: A string in JSON, which is one value whatever it contains; the closing quote may be missing.
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same content gives the same file


class Writer:
    """Writes an archive to a stream; use it as a context manager, which closes the archive."""

    def __init__(self, stream: IO[bytes], *, compress: bool = True) -> None:
        self._stream, self._zip = stream, zipfile.ZipFile(stream, "w")
        self._method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, content: Any, most: int | None = None) -> None:
        """Add `content` as JSON, after all arrays.

        Parameters
        ----------
        most
            The largest number of values that will be read.  If it is given, ValueError or RecursionError is
            raised for what `Reader.json` would not read.
        """
        text = json.dumps(content, indent=1)
        if most is not None:
            _parsed(name, text, most)
        member, method = text.encode(), self._method
        if len(member) > _PACKED_FROM and method == zipfile.ZIP_DEFLATED:
            # the reader refuses JSON that is much larger than the archive
            archive = self._stream.tell() + len(zlib.compress(member, _LEVEL))
            method = zipfile.ZIP_STORED if len(member) > _MOST_PACKED * archive else method
        self._add(name, member, method)

    def array(self, name: str, column: NDArray[Any]) -> None:
        """Add an array of plain values (no objects)."""
        member = io.BytesIO()
        np.lib.format.write_array(member, column, allow_pickle=False)
        content = member.getvalue()
        self._add(name, content, self._method if _shrinks(content) else zipfile.ZIP_STORED)

    def arrays(self, arrays: Arrays) -> None:
        """Add the arrays to which a scenario refers, under their names; see `gridsim.support.references`."""
        for name, array in arrays.items():
            self.array(_referred(name), array)

    def _add(self, name: str, content: Any, method: int | None = None) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = self._method if method is None else method
        info.external_attr = 0o644 << 16
        self._zip.writestr(info, content, compresslevel=_LEVEL)


def _shrinks(content: bytes) -> bool:
    """Whether deflating makes `content` small enough, judged by evenly spaced parts of it."""
    if len(content) < _LARGE:
        return True
    step = len(content) // _PARTS
    sample = b"".join(content[at : at + _PART] for at in range(0, _PARTS * step, step))
    return len(zlib.compress(sample, _LEVEL)) < _WORTH * len(sample)


class Reader:
    """Reads an archive from a stream; errors of zip, npy and JSON in a damaged one are passed on unchanged.

    Raises ValueError for an archive that unpacks to more than this machine's memory; for members that are
    neither stored nor deflated, share a name or a place in the file, or are read twice; for JSON that is much
    larger than the archive or has too many values; for arrays whose header does not match their content.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            stream.read(1)  # raises if reading fails; zipfile would only say that this is no zip
            self._zip = zipfile.ZipFile(stream)
        except zipfile.BadZipFile as error:
            why = error.__context__
            if isinstance(why, OSError) and why.filename is not None:  # may be a zip, but is unreadable
                raise why from None
            raise
        members = self._zip.infolist()
        sizes, most = [member.file_size for member in members], memory()
        size = sum(sizes) + max(sizes, default=0)  # the last one is there twice, as bytes and array
        if size > most:
            raise ValueError(f"unpacking takes {size_of(size)}, this machine has {size_of(most)} of memory")
        for member in members:
            # deflate expands one byte to a thousand at most; other methods expand it to millions
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename} must be stored or deflated")
        self._unread = {member.filename: member.file_size for member in members}
        if len(self._unread) < len(members):
            raise ValueError("it has members of the same name")
        self._packed = stream.seek(0, io.SEEK_END)
        # else many members could share the same few bytes and each unpack to their full size
        if sum(member.compress_size for member in members) > self._packed:
            raise ValueError("it has members in the same place")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, most: int | None = None) -> Any:
        """Read the member `name` as JSON, whose strings must be encodable.

        Parameters
        ----------
        most
            The largest number of values that is read; by default only memory limits it.
        """
        size, largest = self._unread.get(name, 0), max(_PACKED_FROM, _MOST_PACKED * self._packed)
        if size > largest:
            raise ValueError(
                f"{name} has {size_of(size)}, expected at most {size_of(largest)} in an archive of "
                f"{size_of(self._packed)}"
            )
        return _parsed(name, self._content(name).decode(), most)

    def array(self, name: str) -> NDArray[Any]:
        """Read the member `name` as an array."""
        content = self._content(name)
        shape, fortran, dtype, at = _header(content, name)
        found: NDArray[Any] = np.empty(shape, dtype, order="F" if fortran else "C")
        if len(content) > at:
            found.ravel(order="K")[:] = np.frombuffer(content, dtype, offset=at)
        return found

    def arrays(self, names: Iterable[str]) -> Arrays:
        """Read the arrays to which a scenario refers; each must have the content that its name says."""
        return {name: check_array(name, self.array(_referred(name))) for name in names}

    def _content(self, name: str) -> bytes:
        # each only once, so that everything read together is no larger than the members
        if name not in self._unread:
            raise ValueError(f"it has no member {name}, or wants it twice")
        del self._unread[name]
        # read to the end: only then does zipfile compare the checksum
        return self._zip.read(name)


def _referred(name: str) -> str:
    return f"scenario/{name}.npy"


def _parsed(name: str, text: str, most: int | None) -> Any:
    """Return the content of JSON; raises ValueError or RecursionError as `Reader.json` does."""
    if most is not None and _values(text) > most and (values := _values(_bare(text))) > most:
        raise ValueError(f"{name} has {values} values, at most {most} are read")
    room = memory()
    if _taken(text, text) > room and (taken := _taken(text, _bare(text))) > room:
        raise ValueError(f"{name} takes {size_of(taken)}, this machine has {size_of(room)} of memory")
    found = json.loads(text)
    # an escape may be half a character; raise, except for those that stand for bytes of file names
    if "\\ud" in text or "\\uD" in text:
        json.dumps(found, ensure_ascii=False).encode(errors="surrogateescape")
    return found


def _bare(text: str) -> str:
    """Return JSON with all strings in it made empty."""
    return _TEXT.sub('""', text)


def _values(text: str) -> int:
    """Return an upper bound of the number of values in JSON; marks within strings are counted too."""
    return sum(text.count(mark) for mark in ",[{")


def _taken(text: str, marks: str) -> int:
    """Return an upper bound of the bytes that JSON and its parsed form take, by counting in `marks`."""
    return 2 * sys.getsizeof(text) + sum(each * marks.count(mark) for mark, each in _TAKEN.items())


def _header(content: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, Fortran order, type and offset of the values of an array in npy format.

    Raises ValueError for objects, and if the number of values does not match the shape.
    """
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is of npy version {version}, expected 1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except MemoryError:  # raised by Python's parser if its stack is too small for the header
        raise ValueError(f"{name} has a header that is none") from None
    if dtype.hasobject:
        raise ValueError(f"{name} holds objects, expected plain values")
    there, count = len(content) - stream.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != there or count > max(1, there):
        raise ValueError(f"{name} has {size_of(there)} for an array of {shape} of {dtype}")
    return shape, fortran, dtype, stream.tell()
