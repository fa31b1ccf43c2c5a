"""Edits of checkpoint files, with the right checksum."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from gridsim.simulation.checkpoint_file import CheckpointFileReader, CheckpointFileWriter


def edit_checkpoint(
    file: Path, change: Callable[[Any], Any], target: Path | None = None, more: tuple[Any, ...] = ()
) -> Path:
    """Write a copy of a checkpoint with a document changed by `change`, by default in place; return its path.

    The arrays keep their positions.  The arrays `more` (or bytes, in npy format) follow them, and their
    positions are in ``document["more"]`` for `change`.
    """
    reader = CheckpointFileReader(BytesIO(file.read_bytes()))
    stream, document = BytesIO(), reader.document
    writer = CheckpointFileWriter(stream)
    start = stream.tell()
    writer.write(file.read_bytes()[start : reader.end])
    document["more"] = []
    for array in more:
        document["more"].append(stream.tell())
        if isinstance(array, bytes):
            writer.write(array)
        else:
            writer.array(array)
    change(document)
    document.pop("more", None)
    writer.close(document)
    target = target or file
    target.write_bytes(stream.getvalue())
    return target
