"""Lets benchmarks import the reference implementations, which are in the tests of this source tree."""

import sys
from pathlib import Path

# At the end: the library that is measured is the installed one.
sys.path.append(str(Path(__file__).parents[1]))
