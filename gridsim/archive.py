"""Files of arrays and JSON: a zip of .npy members and one .json, which holds no code."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

#: Deflate level 1; from so many bytes on only what a sample, of so many parts of it, says is worth the time.
_LEVEL = 1
_LARGE, _PARTS, _PART = 1 << 20, 16, 1 << 13
_WORTH = 0.7

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
        content = member.getbuffer()
        self._add(name, content, self._method if _shrinks(content) else zipfile.ZIP_STORED)

    def _add(self, name: str, content: Any, method: int | None = None) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = self._method if method is None else method
        info.external_attr = 0o644 << 16
        self._zip.writestr(info, content, compresslevel=_LEVEL)


def _shrinks(content: memoryview) -> bool:
    """Whether deflating makes `content` small enough, told from evenly spaced parts of it."""
    if len(content) < _LARGE:
        return True
    step = len(content) // _PARTS
    sample = b"".join(content[at : at + _PART] for at in range(0, _PARTS * step, step))
    return len(zlib.compress(sample, _LEVEL)) < _WORTH * len(sample)


class Reader:
    """Reads an archive from a stream; what a damaged one makes of zip, npy and JSON is raised as it is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(stream)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def json(self, name: str) -> Any:
        """A member that is JSON."""
        return json.loads(self._zip.read(name))

    def array(self, name: str) -> NDArray[Any]:
        """A member that is an array."""
        # read to the end: only then does zipfile compare the checksum
        found: NDArray[Any] = np.lib.format.read_array(io.BytesIO(self._zip.read(name)), allow_pickle=False)
        return found
