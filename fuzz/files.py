"""What targets that read files share: files in memory, and what an error has to look like."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from gridsim.errors import MAX_MESSAGE_LENGTH, GridSimError

#: In memory where run.py started the process, which then removes it: libFuzzer ends the process at once.
FOLDER = tempfile.mkdtemp(prefix="fuzz-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def put(name: str, data: bytes) -> str:
    """The path of a file of that content."""
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as stream:
        stream.write(data)
    return path


@contextmanager
def refused(kind: type[GridSimError], naming: str = "") -> Iterator[None]:
    """What is raised within is of this kind, one short line that begins with `naming`, or a finding."""
    try:
        yield
    except kind as error:
        said = str(error)
        assert said.startswith(naming), f"names no {naming}: {said!r}"
        assert said.isprintable(), f"not one line of printable text: {said!r}"
        assert len(said) <= MAX_MESSAGE_LENGTH + 5, f"a message of {len(said)} characters: {said[:200]!r}"
