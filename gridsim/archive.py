"""Files of arrays and JSON: a zip of .npy members and one .json, which holds no code."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gridsim.inputs import memory, size_of

#: Deflate level 1; from so many bytes on only what a sample, of so many parts of it, says is worth the time.
_LEVEL = 1
_LARGE, _PARTS, _PART = 1 << 20, 16, 1 << 13
_WORTH = 0.7
#: Bytes that a value of JSON takes, or more, where the file has two or three, and deflated almost none.
_VALUE = 64
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

    Raises ValueError for one that unpacks to more than this machine's memory, for names of members that come
    twice or are read twice, for JSON of too many values, and for arrays whose header does not agree with what
    there is of them.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(stream)
        members = self._zip.infolist()
        sizes, most = [member.file_size for member in members], memory()
        size = sum(sizes) + max(sizes, default=0)  # the last one is there as bytes, and as an array
        if size > most:
            raise ValueError(f"unpacking takes {size_of(size)}, this machine has {size_of(most)} of memory")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it has members of the same name")
        self._unread = {member.filename for member in members}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str, most: int | None = None) -> Any:
        """A member that is JSON, whose texts can be written: of so many values, or what memory holds."""
        text = self._content(name).decode()
        most = memory() // _VALUE if most is None else most
        if _values(text) > most and (values := _values(_TEXT.sub("", text))) > most:
            raise ValueError(f"{name} has {values} values, at most {most} are read")
        found = json.loads(text)
        if "\\ud" in text.lower():  # half a character may be written so; bytes of names of files are
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
        self._unread.remove(name)
        # read to the end: only then does zipfile compare the checksum
        return self._zip.read(name)


def _values(text: str) -> int:
    """How many values JSON has at most; marks in its texts are counted, too."""
    return sum(text.count(mark) for mark in ",[{")


def _header(content: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and type of an array, and where its values begin: plain ones, and as many as there are."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is of npy version {version}, expected 1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError(f"{name} holds objects, expected plain values")
    there, count = len(content) - stream.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != there or count > max(1, there):
        raise ValueError(f"{name} has {size_of(there)} for an array of {shape} of {dtype}")
    return shape, fortran, dtype, stream.tell()
