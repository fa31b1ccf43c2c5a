"""Archives made by hand."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def npy(
    values: Any = (), *, shape: tuple[Any, ...] | None = None, descr: Any = "<f8", fortran: bool = False
) -> bytes:
    """An array with whatever header."""
    stream = io.BytesIO()
    data = np.asarray(values, np.float64).tobytes()
    shape = (len(data) // 8,) if shape is None else shape
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": fortran, "shape": shape})
    return stream.getvalue() + data


def changed(
    file: Path,
    members: dict[str, bytes] | None = None,
    about: Callable[[Any], Any] = lambda about: None,
    name: str = "result.json",
) -> Path:
    """The archive with other members, and another JSON."""
    with zipfile.ZipFile(file) as archive:
        content = {each: archive.read(each) for each in archive.namelist()}
    told = json.loads(content[name])
    about(told)
    content[name] = json.dumps(told).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in (content | (members or {})).items():
            archive.writestr(each, data)
    return file


def stated(file: Path, name: str, size: int) -> Path:
    """The archive whose directory states another size of a member, there and at the member."""
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo(name)
    struct.pack_into("<I", data, info.header_offset + 22, size)
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    struct.pack_into("<I", data, at + 24, size)
    file.write_bytes(data)
    return file
