"""Hand-made archives, and edits of archives."""

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
    """Return the bytes of an .npy file with the given header."""
    stream = io.BytesIO()
    data = np.asarray(values, np.float64).tobytes()
    shape = (len(data) // 8,) if shape is None else shape
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": fortran, "shape": shape})
    return stream.getvalue() + data


def change_archive(
    file: Path,
    members: dict[str, bytes] | None = None,
    edit_json: Callable[[Any], Any] = lambda metadata: None,
    name: str = "result.json",
) -> Path:
    """Replace `members` of an archive and edit its JSON by `edit_json`; return the file."""
    with zipfile.ZipFile(file) as archive:
        content = {member: archive.read(member) for member in archive.namelist()}
    document = json.loads(content[name])
    edit_json(document)
    content[name] = json.dumps(document).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in (content | (members or {})).items():
            archive.writestr(member, data)
    return file


def rewrite_size(file: Path, name: str, size: int) -> Path:
    """Write another size of a member into the archive, in both of its headers; return the file."""
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo(name)
    struct.pack_into("<I", data, info.header_offset + 22, size)
    index = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    struct.pack_into("<I", data, index + 24, size)
    file.write_bytes(data)
    return file
