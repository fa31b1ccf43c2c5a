"""Mutators of JSON and of zip files, which they rebuild with correct checksums."""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Any

import numpy as np

#: Replacements for a value.
HOSTILE_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), "", "x", "../x", "\x00", "\x1b[31m", [], {}, [[]], [0], {"array": 0},
    {"arrays": [0]}, {"scalar": 0}, {"list": []}, {"dict": []}, {"state": {}},
    {"set": [[]]}, {"generator": {}},
]  # fmt: skip
DTYPES = ["<f8", "<i8", ">i8", "<i4", "|b1", "|u1", "<U3", "<U0", "|V0", "|O", "<M8[s]", "<c16"]


def default_mutation(data: bytes, max_size: int) -> bytes:
    """Return the bytes as mutated by libFuzzer."""
    import atheris  # imported here, since a replay does not need it

    changed: bytes = atheris.Mutate(data, max_size)
    return changed


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Return a zip with a member changed, removed or renamed, or sometimes with changed bytes."""
    draw = random.Random(seed)
    members = unzipped(data)
    if not members or draw.random() < 0.1:
        return default_mutation(data, max_size)
    name = draw.choice(sorted(members))
    act = draw.random()
    if act < 0.05:
        del members[name]
    elif act < 0.1:
        members[draw.choice(sorted(members))] = members[name]
    elif name.endswith(".json"):
        members[name] = mutate_json(members[name], draw)
    elif name.endswith(".npy") and act < 0.7:
        members[name] = mutate_npy(members[name], draw)
    else:
        members[name] = default_mutation(members[name], len(members[name]) + 64)
    made = zipped(members)
    return made if len(made) <= max_size else data[:max_size]


def unzipped(data: bytes) -> dict[str, bytes]:
    """Return the members by name; an empty dict if the bytes are no zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {
                info.filename: archive.read(info) for info in archive.infolist() if info.file_size < 1 << 16
            }
    except Exception:  # an earlier mutation may have caused any error
        return {}


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip of the members, uncompressed so that libFuzzer can mutate their contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


def mutate_json(content: bytes, draw: random.Random) -> bytes:
    """Return JSON with one value replaced, or an entry removed."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return default_mutation(content, len(content) + 64)
    places: list[tuple[Any, Any]] = []
    level: list[Any] = [document]
    while level:
        each = level.pop()
        keys = each if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        places += [(each, key) for key in keys]
        level += [each[key] for key in keys]
    if not places:
        return content
    owner, key = draw.choice(places)
    act = draw.random()
    if act < 0.1:
        del owner[key]
    elif act < 0.35:
        other, at = draw.choice(places)
        owner[key] = json.loads(json.dumps(other[at]))
    elif act < 0.6 and type(owner[key]) in (int, float):
        owner[key] += draw.choice([-1, 1, 2**31, -(2**31), 2**62])
    elif act < 0.7 and isinstance(owner, dict):
        owner[draw.choice(["x", "../y", "kind", "\x1b[0m"])] = owner[key]
    else:
        owner[key] = draw.choice(HOSTILE_VALUES)
    return json.dumps(document).encode()


def mutate_npy(content: bytes, draw: random.Random) -> bytes:
    """Return an array file with other values, or with a header that states another shape or type."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # an earlier mutation may have caused any error
        return default_mutation(content, len(content) + 64)
    if array.size > 1 << 16:  # elements of 0 bytes
        return default_mutation(content, len(content) + 64)
    act = draw.random()
    if act < 0.5 and array.size and array.dtype.kind in "biuf":
        array = array.copy()
        at = tuple(draw.randrange(length) for length in array.shape)
        value = draw.choice([0, 1, -1, 2, 100, 2**31, 2**53, 1 << 62, 0.5, 1e308, float("nan"), float("inf")])
        with np.errstate(all="ignore"):
            array[at] = np.asarray(value).astype(array.dtype)
    elif act < 0.75:
        size = draw.choice([0, 1, len(array.reshape(-1)) - 1, len(array.reshape(-1)) + 1])
        array = np.resize(array.reshape(-1), max(0, size)).astype(array.dtype)
    elif act < 0.85 and array.dtype.kind in "biuf":
        array = array.astype(draw.choice(["<f8", "<i8", "<i4", ">i8", "|b1"]))
    else:
        shape = draw.choice([(10**12,), (0,), (-1,), (2**32, 2**32), array.shape * 2, (1, *array.shape)])
        header = {"descr": draw.choice(DTYPES), "fortran_order": draw.random() < 0.5, "shape": shape}
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, header)
        return stream.getvalue() + array.tobytes()
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()
