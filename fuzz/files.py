"""What targets that read files share: files in memory, and what an error has to look like."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from gridsim.errors import GridSimError

#: A folder in memory, where there is one.
FOLDER = tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)  # not when libFuzzer ends the process: see run.py
#: Of a message; texts of a file are cut well before.
LONGEST = 2000


def put(name: str, data: bytes) -> str:
    """The path of a file of that content."""
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as stream:
        stream.write(data)
    return path


@contextmanager
def refused(*kinds: type[GridSimError], naming: str = "") -> Iterator[None]:
    """What is raised within is one of `kinds`, a line that begins with `naming`, or a finding."""
    try:
        yield
    except kinds or (GridSimError,) as error:
        said = str(error)
        assert said.startswith(naming), f"names no {naming}: {said!r}"
        assert said.isprintable(), f"not one line of printable text: {said!r}"
        assert len(said) <= LONGEST, f"a message of {len(said)} characters: {said[:200]!r}"
