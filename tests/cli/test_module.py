"""``python -m gridsim``."""

import subprocess
import sys


def test_the_package_is_the_command(tmp_path):
    """In another folder than that of the sources, which may have no kernels."""
    command = [sys.executable, "-m", "gridsim", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert said.returncode == 0 and said.stdout.startswith("Usage: gridsim ")
