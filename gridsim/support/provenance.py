"""Provenance of a result: versions, trace files and seed.

It contains no host name, and the digest of the result does not cover it.
"""

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
from gridsim.support.files import open_regular
from gridsim.support.sources import bare_source

#: Version of gridsim, which `pyproject.toml` reads from here.
VERSION = "0.1.0"
#: Number of bytes that are read from a file in one step.
_CHUNK = 1 << 20
#: The packages of gridsim.
PACKAGES = ("gridcore", "gridsim")
#: The parts of them that, with numpy, determine the outcome of a run; the others only start and show runs.
OUTCOME_PARTS = (
    "gridcore",
    "gridsim/errors.py",
    *(
        f"gridsim/{part}"
        for part in (
            "support",
            "traces",
            "optimization",
            "model",
            "results",
            "engine",
            "validation",
            "scheduling",
            "schedulers",
            "simulation",
        )  # fmt: skip
    ),
    "gridsim/studies/execution/cell.py",
)
_SOURCES = (".py", ".pyx", ".pxd", ".h")


@cache
def code_version() -> str:
    """Return the version of gridsim with the SHA-256 (16 digits) of its sources and of numpy's version.

    The sources of the kernels are hashed, not the compiled files.
    """
    import numpy

    # the folder that contains both packages
    return f"{VERSION}+{digest_of_sources(Path(__file__).parents[2], numpy.__version__)[:16]}"


def digest_of_sources(folder: Path, numpy: str) -> str:
    """Return the SHA-256 (hexadecimal) of `OUTCOME_PARTS` in a folder and of numpy's version.

    Comments and docstrings are not part of it.
    """
    digest = hashlib.sha256(numpy.encode())
    for part in OUTCOME_PARTS:
        root = folder / part
        files = [root] if root.suffix else sorted(file for file in root.rglob("*") if file.suffix in _SOURCES)
        for file in files:
            if file.is_file():
                digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
                digest.update(bare_source(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def sha256(path: str) -> str:
    """Return the SHA-256 of a regular file, hexadecimal.

    Raises
    ------
    OSError
        If the file cannot be read or has more bytes than its size, as endless system files have.
    """
    digest = hashlib.sha256()
    with open_regular(path) as stream:
        remaining = os.fstat(stream.fileno()).st_size
        while chunk := stream.read(min(remaining, _CHUNK) + 1):
            remaining -= len(chunk)
            if remaining < 0:
                raise OSError(errno.EINVAL, "the file has more bytes than its size", path)
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def file_digests(files: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a dict with the SHA-256 of each of `files`, for a context that reads them.

    At the beginning of the context the dict contains the readable files, at its end all files.  The code that
    reads an unreadable file reports the error.

    Raises
    ------
    FileChanged
        If a file has changed at the end of the context.
    """
    initial = {file: (file_state(file), current_digest(file)) for file in files}
    digests = {file: digest for file, (_, digest) in initial.items() if digest is not None}
    yield digests
    for file, (state, digest) in initial.items():
        digests[file] = sha256(file) if digest is None or file_state(file) != state else digest
        if digest is not None and digests[file] != digest:
            raise FileChanged(f"{file} must not change while it is read")


def current_digest(file: str) -> str | None:
    """Return the SHA-256 of a file, or None if it cannot be read."""
    try:
        return sha256(file)
    except (OSError, ValueError):
        return None


def file_state(file: str) -> tuple[int, ...] | None:
    """Return what identifies a file and changes with its content; None if it cannot be read."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def first_differing_file(digests: Mapping[str, str], expected_digests: Mapping[str, str]) -> str | None:
    """Return the first file whose SHA-256 differs between the mappings or is in only one; None if none."""
    return next(
        (
            file
            for file in sorted(digests.keys() | expected_digests.keys())
            if digests.get(file) != expected_digests.get(file)
        ),
        None,
    )


class TraceDigests:
    """SHA-256 of each trace of a study, from the first run that read it.

    Runs of a study are compared, so all of them must read the same traces.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[str, str], str | None] = {}

    @property
    def files(self) -> dict[str, str]:
        """The SHA-256 of each file that was read."""
        return {file: digest for (_, file), digest in self._digests.items() if digest is not None}

    def changed_file(self, read: Mapping[str, str], places: Mapping[str, Iterable[str]]) -> str:
        """Return the first file that has changed, appeared or disappeared; "" if there is none.

        Parameters
        ----------
        read
            SHA-256 of each file that a run has read.
        places
            Trace -> files where it may be, as in `gridsim.model.scenario.Scenario.places`.
        """
        candidates = [(trace, file) for trace, files in places.items() for file in files]
        for trace, file in (*candidates, *(("", file) for file in read)):
            digest = read.get(file)
            if self._digests.setdefault((trace, file), digest) != digest:
                return file
        return ""


def check_digests(files: Iterable[str], expected_digests: Mapping[str, str]) -> None:
    """Check that `files` are exactly the files in `expected_digests`, with the same SHA-256.

    Raises
    ------
    FileChanged
        If a file differs, is missing or is unexpected.
    """
    digests = {file: digest for file in files if (digest := current_digest(file)) is not None}
    if (file := first_differing_file(digests, expected_digests)) is not None:
        previous, current = (digests.get(file, "none") for digests in (expected_digests, digests))
        raise FileChanged(f"{file} must have the SHA-256 {previous} of the original run, got {current}")


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes; None if it is unknown on this system."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe(*, seed: int, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the provenance: versions, type of machine, seed and `files`, the SHA-256 of trace files."""
    return {**_machine(), "seed": seed, "files": dict(files)}


@cache
def _machine() -> dict[str, str]:
    """Return the part of the provenance that is the same for all runs of a process."""
    import platform

    import numpy

    return {
        "gridcore": VERSION,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
