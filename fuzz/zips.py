"""Mutators of JSON and of zip files, which are put together again with the right checksums."""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Any

import numpy as np

#: In the place of a value.
NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), "", "x", "../x", "\x00", "\x1b[31m", [], {}, [[]], [0], {"array": 0},
    {"arrays": [0]}, {"scalar": 0}, {"list": []}, {"dict": []}, {"state": {}},
    {"set": [[]]}, {"generator": {}},
]  # fmt: skip
DTYPES = ["<f8", "<i8", ">i8", "<i4", "|b1", "|u1", "<U3", "<U0", "|V0", "|O", "<M8[s]", "<c16"]


def usual(data: bytes, max_size: int) -> bytes:
    """libFuzzer's own change of the bytes."""
    import atheris  # which a replay does without

    changed: bytes = atheris.Mutate(data, max_size)
    return changed


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """A zip with a member changed, left out or called otherwise; now and then a change of the bytes."""
    chance = random.Random(seed)
    members = unzipped(data)
    if not members or chance.random() < 0.1:
        return usual(data, max_size)
    name = chance.choice(sorted(members))
    act = chance.random()
    if act < 0.05:
        del members[name]
    elif act < 0.1:
        members[chance.choice(sorted(members))] = members[name]
    elif name.endswith(".json"):
        members[name] = mutate_json(members[name], chance)
    elif name.endswith(".npy") and act < 0.7:
        members[name] = mutate_npy(members[name], chance)
    else:
        members[name] = usual(members[name], len(members[name]) + 64)
    made = zipped(members)
    return made if len(made) <= max_size else data[:max_size]


def unzipped(data: bytes) -> dict[str, bytes]:
    """The members; none for what is no zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {
                info.filename: archive.read(info) for info in archive.infolist() if info.file_size < 1 << 16
            }
    except Exception:  # whatever an earlier change has made of it
        return {}


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip of these members, not deflated: what is said in it can be seen and crossed over."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


def mutate_json(content: bytes, chance: random.Random) -> bytes:
    """One value in the place of another, or an entry less."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return usual(content, len(content) + 64)
    places: list[tuple[Any, Any]] = []
    level: list[Any] = [whole]
    while level:
        each = level.pop()
        keys = each if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        places += [(each, key) for key in keys]
        level += [each[key] for key in keys]
    if not places:
        return content
    owner, key = chance.choice(places)
    act = chance.random()
    if act < 0.1:
        del owner[key]
    elif act < 0.35:
        other, at = chance.choice(places)
        owner[key] = json.loads(json.dumps(other[at]))
    elif act < 0.6 and type(owner[key]) in (int, float):
        owner[key] += chance.choice([-1, 1, 2**31, -(2**31), 2**62])
    elif act < 0.7 and isinstance(owner, dict):
        owner[chance.choice(["x", "../y", "kind", "\x1b[0m"])] = owner[key]
    else:
        owner[key] = chance.choice(NASTY)
    return json.dumps(whole).encode()


def mutate_npy(content: bytes, chance: random.Random) -> bytes:
    """Other values, or a header that tells of another shape or type."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # whatever an earlier change has made of it
        return usual(content, len(content) + 64)
    if array.size > 1 << 16:  # of nothing: no values take no room
        return usual(content, len(content) + 64)
    act = chance.random()
    if act < 0.5 and array.size and array.dtype.kind in "biuf":
        array = array.copy()
        at = tuple(chance.randrange(length) for length in array.shape)
        value = chance.choice(
            [0, 1, -1, 2, 100, 2**31, 2**53, 1 << 62, 0.5, 1e308, float("nan"), float("inf")]
        )
        with np.errstate(all="ignore"):
            array[at] = np.asarray(value).astype(array.dtype)
    elif act < 0.75:
        size = chance.choice([0, 1, len(array.reshape(-1)) - 1, len(array.reshape(-1)) + 1])
        array = np.resize(array.reshape(-1), max(0, size)).astype(array.dtype)
    elif act < 0.85 and array.dtype.kind in "biuf":
        array = array.astype(chance.choice(["<f8", "<i8", "<i4", ">i8", "|b1"]))
    else:
        shape = chance.choice([(10**12,), (0,), (-1,), (2**32, 2**32), array.shape * 2, (1, *array.shape)])
        header = {"descr": chance.choice(DTYPES), "fortran_order": chance.random() < 0.5, "shape": shape}
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, header)
        return stream.getvalue() + array.tobytes()
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()
