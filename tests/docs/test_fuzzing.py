"""Every kernel has a target of the fuzzer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invariants.test_structure import PARTS

ROOT = Path(__file__).resolve().parents[2]
FUZZ, CORE = ROOT / "fuzz", ROOT / "gridcore"
if not (FUZZ.is_dir() and CORE.is_dir()):
    pytest.skip("fuzzer or sources are not part of this copy", allow_module_level=True)


#: Modules without public names, and parts of kernels whose targets cover them.
WITHOUT_TARGET = {path.stem for path in PARTS} | {"arguments", "decision_log", "scalars", "view"}


def test_every_kernel_has_a_target() -> None:
    code = "import json, kernels; print(json.dumps(sorted(kernels.KERNELS)))"
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=FUZZ, capture_output=True, text=True, check=True
    )
    kernels = {path.relative_to(CORE).with_suffix("") for path in CORE.rglob("*.pyx")}
    assert set(json.loads(process.stdout)) == {
        ".".join(item.parts) for item in kernels if item.name not in WITHOUT_TARGET
    }


def test_targets_call_existing_functions() -> None:
    """Otherwise a renamed function would fail only in runs of the fuzzer that draw it."""
    code = """
from importlib import import_module
import kernels
missing = [
    (kernel, part.name, name)
    for kernel, parts in kernels.KERNELS.items()
    for part in parts
    for name in (*part.methods, *part.attributes)
    if not hasattr(getattr(import_module(f"gridcore.{kernel}"), part.name), name)
]
print(missing)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=FUZZ, capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"
