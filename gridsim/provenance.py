"""Provenance: what made a result.  It names no host, and has no part in the digest."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Any

from gridsim.inputs import opened


def version() -> str:
    """Version of the installed distribution; "unknown" in a tree that was never installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("gridcore")
    except PackageNotFoundError:
        return "unknown"


def sha256(path: str) -> str:
    """SHA-256 of a regular file, hexadecimal."""
    with opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def peak_memory() -> int | None:
    """The most bytes of memory this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe(*, seed: int, files: Iterable[str]) -> dict[str, Any]:
    """Versions, the kind of machine, the seed, and the SHA-256 of each trace file."""
    import platform

    import numpy

    return {
        "gridcore": version(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "seed": seed,
        "files": {path: sha256(path) for path in files},
    }
