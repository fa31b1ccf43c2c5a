from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def run_counted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs a script with counted allocations and returns its lines."""
    if not sys.platform.startswith("linux"):
        pytest.skip("requires LD_PRELOAD and glibc")
    library = tmp_path_factory.mktemp("allocations") / "allocations.so"
    build = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "allocations.c"), "-lpthread"]
    try:
        made = subprocess.run(build, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no compiler, cc")
    assert made.returncode == 0, made.stderr

    def run(script: str, *arguments: str) -> list[str]:
        process = subprocess.run(
            [sys.executable, str(HERE / script), *arguments],
            env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, f"{script} ended with {process.returncode}:\n{process.stderr[-2000:]}"
        return process.stdout.splitlines()

    return run
