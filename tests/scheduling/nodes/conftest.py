"""The folder of machine code that all tests of node programs share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def machine_code_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder that GRIDSIM_CACHE names, else a temporary one."""
    return os.environ.get("GRIDSIM_CACHE") or str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True, scope="module")
def _cache(machine_code_folder: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDSIM_CACHE", machine_code_folder)
        yield
