"""``python -m gridsim``."""

import subprocess
import sys


def test_the_package_is_the_command():
    said = subprocess.run([sys.executable, "-m", "gridsim", "--help"], capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.startswith("Usage: gridsim ")
