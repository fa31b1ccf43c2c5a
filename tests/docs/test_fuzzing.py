"""Every kernel and reader is fuzzed, and what the documents say of it adds up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE, FUZZ = ROOT / "docs" / "project" / "fuzzing.md", ROOT / "fuzz"
if not (PAGE.is_file() and FUZZ.is_dir() and (ROOT / "gridcore").is_dir()):
    pytest.skip("documents, fuzzer or sources are not part of this copy", allow_module_level=True)
TEXT = PAGE.read_text()
#: Kernels' sources that have nothing for Python.
SHARED = {"arguments"}


@cache
def kernels() -> set[str]:
    """Those for which the fuzzer has calls."""
    ask = "import json, kernels; print(json.dumps(sorted(kernels.KERNELS)))"
    said = subprocess.run([sys.executable, "-c", ask], cwd=FUZZ, capture_output=True, text=True, check=True)
    return set(json.loads(said.stdout))


def rows() -> dict[str, tuple[int, int]]:
    """Of each target how often it was executed, without and with sanitizers."""
    found = re.findall(r"^\| `([\w-]+)` \| ([\d,]+) \| ([\d,]*) ?\|", TEXT, flags=re.M)
    return {name: (_number(plain), _number(native)) for name, plain, native in found}


def _number(text: str) -> int:
    return int(text.replace(",", "") or 0)


def test_every_kernel_has_a_target() -> None:
    assert kernels() == {path.stem for path in (ROOT / "gridcore").glob("*.pyx")} - SHARED


def test_every_target_was_run_and_numbers_add_up() -> None:
    files = {path.stem for path in (FUZZ / "targets").glob("*.py")} - {"__init__"}
    assert set(rows()) == files | {f"kernel-{name}" for name in kernels()}
    plain, native = (sum(column) for column in zip(*rows().values(), strict=True))
    assert f"| together | {plain:,} | {native:,} | | |\n" in TEXT
    assert f": {plain + native:,} executions" in TEXT and plain + native >= 10_000_000
    for name, (_, native) in rows().items():  # kernels, and nothing else, are built with them
        assert (native > 0) == name.startswith("kernel-"), name
