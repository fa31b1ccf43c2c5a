"""Files of arrays and JSON: a zip of .npy members and one .json, which holds no code."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gridsim.support.memory import memory, size_of

#: Deflate level 1; from so many bytes on only what a sample, of so many parts of it, says is worth the time.
_LEVEL = 1
_LARGE, _PARTS, _PART = 1 << 20, 16, 1 << 13
_WORTH = 0.7
#: How much larger than the archive its JSON may be, from so many bytes on; of real ones it is a part.
_MOST_PACKED, _PACKED_FROM = 100, 1 << 20
#: Bytes that JSON makes in memory at each of its marks, or more: objects and arrays, what holds a value and a
#: number, a key (in its object and among all keys that are read), one end of a text.
_TAKEN = {"{": 80, "[": 96, ",": 40, ":": 110, '"': 40}
#: A text in JSON, which is one value whatever is in it; the quote that ends it may be missing.
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content is the same file


class Writer:
    """Writes an archive to a stream; to be closed."""

    def __init__(self, stream: IO[bytes], *, compress: bool = True) -> None:
        self._zip = zipfile.ZipFile(stream, "w")
        self._method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, content: Any) -> None:
        """Add `content` as JSON."""
        self._add(name, json.dumps(content, indent=1).encode())

    def array(self, name: str, column: NDArray[Any]) -> None:
        """Add an array of plain values."""
        member = io.BytesIO()
        np.lib.format.write_array(member, column, allow_pickle=False)
        content = member.getvalue()
        self._add(name, content, self._method if _shrinks(content) else zipfile.ZIP_STORED)

    def _add(self, name: str, content: Any, method: int | None = None) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = self._method if method is None else method
        info.external_attr = 0o644 << 16
        self._zip.writestr(info, content, compresslevel=_LEVEL)


def _shrinks(content: bytes) -> bool:
    """Whether deflating makes `content` small enough, told from evenly spaced parts of it."""
    if len(content) < _LARGE:
        return True
    step = len(content) // _PARTS
    sample = b"".join(content[at : at + _PART] for at in range(0, _PARTS * step, step))
    return len(zlib.compress(sample, _LEVEL)) < _WORTH * len(sample)


class Reader:
    """Reads an archive from a stream; what a damaged one makes of zip, npy and JSON is raised as it is.

    Raises ValueError for one that unpacks to more than this machine's memory, for members that are neither
    stored nor deflated, or of one name, or in one place, or read twice, for JSON much larger than the
    archive, or of too many values, and for arrays whose header does not agree with what there is of them.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            stream.read(1)  # of what cannot be read at all zipfile says that it is no zip
            self._zip = zipfile.ZipFile(stream)
        except zipfile.BadZipFile as error:
            why = error.__context__
            if isinstance(why, OSError) and why.filename is not None:  # it may be one, but cannot be read
                raise why from None
            raise
        members = self._zip.infolist()
        sizes, most = [member.file_size for member in members], memory()
        size = sum(sizes) + max(sizes, default=0)  # the last one is there as bytes, and as an array
        if size > most:
            raise ValueError(f"unpacking takes {size_of(size)}, this machine has {size_of(most)} of memory")
        for member in members:
            # which makes a thousand bytes of one at most; others make millions
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename} must be stored or deflated")
        self._unread = {member.filename: member.file_size for member in members}
        if len(self._unread) < len(members):
            raise ValueError("it has members of the same name")
        self._packed = stream.seek(0, io.SEEK_END)
        # else a few bytes, of many members, were as many as those of each
        if sum(member.compress_size for member in members) > self._packed:
            raise ValueError("it has members in the same place")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, most: int | None = None) -> Any:
        """A member that is JSON, whose texts can be written: of so many values, or what memory holds."""
        size, largest = self._unread.get(name, 0), max(_PACKED_FROM, _MOST_PACKED * self._packed)
        if size > largest:
            raise ValueError(
                f"{name} has {size_of(size)}, expected at most {size_of(largest)} in an archive of "
                f"{size_of(self._packed)}"
            )
        text = self._content(name).decode()
        if most is not None and _values(text) > most and (values := _values(_bare(text))) > most:
            raise ValueError(f"{name} has {values} values, at most {most} are read")
        room = memory()
        if _taken(text, text) > room and (taken := _taken(text, _bare(text))) > room:
            raise ValueError(f"{name} takes {size_of(taken)}, this machine has {size_of(room)} of memory")
        found = json.loads(text)
        # half a character may be written so; bytes of names of files are
        if "\\ud" in text or "\\uD" in text:
            json.dumps(found, ensure_ascii=False).encode(errors="surrogateescape")
        return found

    def array(self, name: str) -> NDArray[Any]:
        """A member that is an array."""
        content = self._content(name)
        shape, fortran, dtype, at = _header(content, name)
        found: NDArray[Any] = np.empty(shape, dtype, order="F" if fortran else "C")
        if len(content) > at:
            found.ravel(order="K")[:] = np.frombuffer(content, dtype, offset=at)
        return found

    def _content(self, name: str) -> bytes:
        # once, so that what is made of all members is no larger than they are
        if name not in self._unread:
            raise ValueError(f"it has no member {name}, or wants it twice")
        del self._unread[name]
        # read to the end: only then does zipfile compare the checksum
        return self._zip.read(name)


def _bare(text: str) -> str:
    """JSON whose texts are empty."""
    return _TEXT.sub('""', text)


def _values(text: str) -> int:
    """How many values JSON has at most; marks in its texts are counted, too."""
    return sum(text.count(mark) for mark in ",[{")


def _taken(text: str, marks: str) -> int:
    """Bytes that JSON and what is made of it take in memory at most, by its `marks`."""
    return 2 * sys.getsizeof(text) + sum(each * marks.count(mark) for mark, each in _TAKEN.items())


def _header(content: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and type of an array, and where its values begin: plain ones, and as many as there are."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is of npy version {version}, expected 1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except MemoryError:  # of Python's parser, whose stack is too small for it
        raise ValueError(f"{name} has a header that is none") from None
    if dtype.hasobject:
        raise ValueError(f"{name} holds objects, expected plain values")
    there, count = len(content) - stream.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != there or count > max(1, there):
        raise ValueError(f"{name} has {size_of(there)} for an array of {shape} of {dtype}")
    return shape, fortran, dtype, stream.tell()
