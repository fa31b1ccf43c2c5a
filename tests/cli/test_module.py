"""``python -m gridsim``."""

import subprocess
import sys


def test_python_m_gridsim_runs_the_command(tmp_path):
    """The command runs in another folder than the sources, which may lack compiled kernels."""
    command = [sys.executable, "-m", "gridsim", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert said.returncode == 0 and said.stdout.startswith("Usage: gridsim ")
