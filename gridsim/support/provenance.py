"""Provenance: the versions, files and seed that made a result.  It names no host and is not in the digest."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gridsim.errors import FileChanged
from gridsim.support.files import opened

#: The version of gridsim, which `pyproject.toml` takes from here: that of the code that runs.
VERSION = "0.1.0"
#: Bytes that are read at once.
_CHUNK = 1 << 20
#: The packages that, with numpy, determine the outcome of a run.
PACKAGES = ("gridcore", "gridsim")
_SOURCES = (".py", ".pyx", ".pxd", ".h")


@cache
def code_version() -> str:
    """Return the version of gridsim, and the SHA-256 (16 digits) of its sources and of the version of numpy.

    The sources of the kernels are hashed, not the compiled files.
    """
    import numpy

    # the packages are in one distribution, side by side
    return f"{VERSION}+{digest_of_sources(Path(__file__).parents[2], numpy.__version__)[:16]}"


def digest_of_sources(folder: Path, numpy: str) -> str:
    """Return the SHA-256 (hexadecimal) of the sources of `PACKAGES` in a folder and of numpy's version."""
    total = hashlib.sha256(numpy.encode())
    for package in PACKAGES:
        root = folder / package
        for place, _, names in sorted(os.walk(root)):
            inside = Path(place).relative_to(root).as_posix()
            for name in sorted(name for name in names if name.endswith(_SOURCES)):
                total.update(f"{inside}/{name}\n".encode())
                with open(os.path.join(place, name), "rb") as source:
                    total.update(source.read())
    return total.hexdigest()


def sha256(path: str) -> str:
    """Return the SHA-256 of a regular file, hexadecimal.

    Raises OSError naming the file if it cannot be read or has more bytes than its size, as some system files
    do, without end.
    """
    digest = hashlib.sha256()
    with opened(path) as stream:
        left = os.fstat(stream.fileno()).st_size
        while chunk := stream.read(min(left, _CHUNK) + 1):
            left -= len(chunk)
            if left < 0:
                raise OSError(errno.EINVAL, "has more than it says, or grows", path)
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def reading(files: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a dict with the SHA-256 of each of `files`, for a context that reads them.

    A file that can be read is in the dict from the beginning, the others at the end.  Raises FileChanged at
    the end if a file has changed meanwhile.  Other errors of a file are left to its reader.
    """
    before = {file: (_state(file), digest_now(file)) for file in files}
    found = {file: digest for file, (_, digest) in before.items() if digest is not None}
    yield found
    for file, (state, digest) in before.items():
        found[file] = sha256(file) if digest is None or _state(file) != state else digest
        if digest is not None and found[file] != digest:
            raise FileChanged(f"{file} must not change while it is read")


def digest_now(file: str) -> str | None:
    """Return the SHA-256 of a file, or None if it cannot be read."""
    try:
        return sha256(file)
    except (OSError, ValueError):
        return None


def _state(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def other_file(found: Mapping[str, str], stated: Mapping[str, str]) -> str | None:
    """Return the first file whose SHA-256 differs in the mappings, or is in only one; None if all agree."""
    return next(
        (file for file in sorted(found.keys() | stated.keys()) if found.get(file) != stated.get(file)), None
    )


class FirstRead:
    """The SHA-256 of traces as a study first read them; its runs are compared, so all must read the same."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, str], str | None] = {}

    @property
    def files(self) -> dict[str, str]:
        """The SHA-256 of each file that was read."""
        return {file: digest for (_, file), digest in self._digests.items() if digest is not None}

    def other(self, read: Mapping[str, str], places: Mapping[str, Iterable[str]]) -> str:
        """Return the first file that has changed, appeared or disappeared; "" if all are as before.

        Parameters
        ----------
        read
            SHA-256 of each file that a run has read.
        places
            See `gridsim.model.scenario.Scenario.places`.
        """
        asked = [(trace, file) for trace, files in places.items() for file in files]
        for trace, file in (*asked, *(("", file) for file in read)):
            digest = read.get(file)
            if self._digests.setdefault((trace, file), digest) != digest:
                return file
        return ""


def check_read(files: Iterable[str], stated: Mapping[str, str]) -> None:
    """Check that `files` are exactly the files in `stated`, with the same SHA-256.

    Raises FileChanged.
    """
    found = {file: digest for file in files if (digest := digest_now(file)) is not None}
    if (file := other_file(found, stated)) is not None:
        was, now = (digests.get(file, "none") for digests in (stated, found))
        raise FileChanged(f"{file} must be what the run has read, of SHA-256 {was}, got {now}")


def peak_memory() -> int | None:
    """Return the most bytes of memory that this process has held so far; None if the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe(*, seed: int, files: Mapping[str, str]) -> dict[str, Any]:
    """Return versions, the kind of machine, the seed, and `files`, the SHA-256 of each trace file as read."""
    return {**_machine(), "seed": seed, "files": dict(files)}


@cache
def _machine() -> dict[str, str]:
    """Return what is the same for all runs of a process."""
    import platform

    import numpy

    return {
        "gridcore": VERSION,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
