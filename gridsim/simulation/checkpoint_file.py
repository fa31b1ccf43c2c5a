"""The format of checkpoint files: arrays and one JSON document under one checksum.

A file has a first line, the SHA-256 of everything that follows it, the arrays in npy format, the document,
and the size of the document in 8 bytes, the least significant first.  The document refers to an array by its
position in the file.  The checksum detects damage, but not deliberate changes, after which it can be computed
again.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from typing import IO, Any

import numpy as np

from gridsim.results.archive import parse_json, read_header
from gridsim.support.state import Array

_FIRST_LINE = b"gridsim checkpoint\n"
_START = len(_FIRST_LINE) + hashlib.sha256().digest_size


class CheckpointFileWriter:
    """Writer of a checkpoint to an empty binary stream.

    Arrays are written one by one, so the only extra memory is a copy of a part of one array.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._checksum = stream, hashlib.sha256()
        stream.write(bytes(_START))

    def write(self, content: bytes) -> None:
        """Append bytes; `numpy.lib.format.write_array` calls it."""
        self._checksum.update(content)
        self._stream.write(content)

    def array(self, array: Array) -> int:
        """Append an array of plain values (no objects), and return its position."""
        position = self._stream.tell()
        np.lib.format.write_array(self, array, allow_pickle=False)
        return position

    def close(self, document: Any) -> None:
        """Append the document and write the checksum."""
        text = json.dumps(document).encode()
        self.write(text)
        self.write(len(text).to_bytes(8, "little"))
        self.seal()

    def seal(self) -> None:
        """Write the checksum of the content."""
        self._stream.seek(0)
        self._stream.write(_FIRST_LINE + self._checksum.digest())


class CheckpointFileReader:
    """Reader of an untrusted checkpoint from a binary stream.

    Attributes
    ----------
    document
        The content of the JSON document.
    end
        The position of the document, after all arrays.

    Raises
    ------
    ValueError
        If the stream has no checkpoint, its checksum differs, or it refers to missing arrays.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        if stream.read(len(_FIRST_LINE)) != _FIRST_LINE:
            raise ValueError(f"the file must begin with {_FIRST_LINE.decode().strip()!r}")
        expected, checksum = stream.read(_START - len(_FIRST_LINE)), hashlib.sha256()
        while content := stream.read(1 << 20):
            checksum.update(content)
        if checksum.digest() != expected:
            raise ValueError("the content must match the SHA-256 in the file: the file is damaged")
        self.end = stream.seek(-8, io.SEEK_END)
        self.end -= int.from_bytes(stream.read(8), "little")
        if self.end < _START:
            raise ValueError(f"the document must begin at byte {_START} or later, got {self.end}")
        stream.seek(self.end)
        self.document = parse_json("the document", stream.read()[:-8].decode())
        # limit of the total size of arrays, since many references may point to one array
        self._unread = self.end - _START

    def array(self, position: int) -> Array:
        """Read the array at a position."""
        if type(position) is not int or not _START <= position < self.end:
            raise ValueError(f"an array must be at a position in {_START}..{self.end - 1}, got {position!r}")
        self._stream.seek(position)
        shape, fortran, dtype = read_header(self._stream, "an array")
        start, count = self._stream.tell(), math.prod(shape)
        end = start + count * dtype.itemsize
        self._unread -= end - position
        # elements of 0 bytes, such as empty strings, also take memory
        if min(shape, default=0) < 0 or end > self.end or self._unread < 0 or count > max(1, self.end):
            raise ValueError(
                f"arrays must be within the file, each once, got {shape} of {dtype} at {position}"
            )
        array: Array = np.empty(shape, dtype, order="F" if fortran else "C")
        if end > start:
            # binary files have `readinto`, which IO does not declare; it needs no second copy of the array
            self._stream.readinto(array.ravel(order="K").view(np.uint8))  # type: ignore[attr-defined]
        return array
