"""Fixtures of the trace tests: small files written on the spot, and the folder of real traces."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def traces() -> Path:
    """The folder of real traces, from the environment variable GRIDSIM_TRACES."""
    folder = os.environ.get("GRIDSIM_TRACES")
    if not folder:
        pytest.skip("GRIDSIM_TRACES is not set: no real traces")
    return Path(folder)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write text or bytes to a file of this name (gzip for .gz) and return its path."""

    def write(name: str, content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write
