"""Every kernel is fuzzed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUZZ, CORE = ROOT / "fuzz", ROOT / "gridcore"
if not (FUZZ.is_dir() and CORE.is_dir()):
    pytest.skip("fuzzer or sources are not part of this copy", allow_module_level=True)


#: They have nothing for Python, or are parts of kernels that have targets.
NODES = (
    "board", "compiled_calls", "kinds", "local_messages", "node_actions", "node_events", "payloads", "view",
)  # fmt: skip
WITHIN = {
    "common.arguments",
    "fair_tree.decision_log",
    "dgs.negotiations",
    "network.transit",
    "queues.machine_queues",
    "queues.task_numbers",
    *(f"nodes.{part}" for part in NODES),
}


def test_every_kernel_has_a_target() -> None:
    ask = "import json, kernels; print(json.dumps(sorted(kernels.KERNELS)))"
    said = subprocess.run([sys.executable, "-c", ask], cwd=FUZZ, capture_output=True, text=True, check=True)
    kernels = {path.relative_to(CORE).with_suffix("") for path in CORE.rglob("*.pyx")}
    assert set(json.loads(said.stdout)) == {".".join(path.parts) for path in kernels} - WITHIN
