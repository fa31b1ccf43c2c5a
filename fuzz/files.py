"""Helpers of targets that read files: files in memory, and checks of errors."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from gridsim.errors import MAX_MESSAGE_LENGTH, GridSimError

#: In memory if run.py started the process; run.py then removes it, since libFuzzer ends the process at once.
FOLDER = tempfile.mkdtemp(prefix="fuzz-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def write_file(name: str, data: bytes) -> str:
    """Write a file, and return its path."""
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as stream:
        stream.write(data)
    return path


@contextmanager
def check_refusal(kind: type[GridSimError], naming: str = "") -> Iterator[None]:
    """Check that an error in the block is of `kind`, and one short line that begins with `naming`."""
    try:
        yield
    except kind as error:
        text = str(error)
        assert text.startswith(naming), f"the error must name {naming}, got {text!r}"
        assert text.isprintable(), f"the error must be one line of printable text, got {text!r}"
        assert len(text) <= MAX_MESSAGE_LENGTH + 5, f"the error has {len(text)} characters: {text[:200]!r}"
