"""Scripts that start processes when they are imported, as each of these processes does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gridsim as gs

HEAD = """
import gridsim as gs
from concurrent.futures import ProcessPoolExecutor
from gridsim.studies.execution.run_cells import Processes
scenario = gs.Scenario(gs.Platform.equal(6), gs.Workload.bags(2, seed=1))
both = [gs.FairTree(), gs.MinCent()]
"""
CALLS = {
    "simulate": "gs.simulate(scenario, gs.FairTree(), processes=2)",
    "compare": "gs.compare(scenario, both, executor=Processes(2))",
    "replicate": "gs.replicate(scenario, both, replicates=2, executor=Processes(1))",
    "sweep": "gs.sweep(scenario, both, over={'workload.applications': [1, 2]}, executor=Processes(1))",
}
MISSING_GUARD = (
    'ScenarioError: processes require that the script calls gridsim under `if __name__ == "__main__":`'
)


def run(folder: Path, text: str, *, as_file: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script in another interpreter, outside the source tree."""
    script = folder / "script.py"
    script.write_text(HEAD + text)
    return subprocess.run(
        [sys.executable, str(script) if as_file else "-"],
        input=None if as_file else script.read_text(),
        env={**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", CALLS)
def test_an_error_tells_the_user_to_guard_calls_in_a_script(name: str, tmp_path: Path) -> None:
    """There is one traceback, whose last line says what to do; workers print nothing."""
    answer = run(tmp_path, CALLS[name])
    assert answer.returncode == 1 and answer.stderr.splitlines()[-1].startswith(
        f"gridsim.errors.{MISSING_GUARD}"
    )
    assert "memory" not in answer.stderr and "bootstrapping" not in answer.stderr


def test_a_script_that_guards_its_calls_runs(tmp_path: Path) -> None:
    answer = run(tmp_path, f'if __name__ == "__main__":\n    print({CALLS["simulate"]}.digest)')
    assert answer.returncode == 0 and len(answer.stdout.strip()) == 64


def test_a_script_without_a_file_has_no_processes(tmp_path: Path) -> None:
    answer = run(tmp_path, f'if __name__ == "__main__":\n    {CALLS["simulate"]}', as_file=False)
    last = answer.stderr.splitlines()[-1]
    assert last == "gridsim.errors.ScenarioError: processes require a script that is a file, got '<stdin>'"


def test_an_unimportable_script_is_not_reported_as_lack_of_memory(tmp_path: Path) -> None:
    text = f'if __name__ != "__main__":\n    raise ImportError("not here")\n{CALLS["simulate"]}'
    answer = run(tmp_path, text)
    assert "ImportError: not here" in answer.stderr
    assert (
        "GridSimError: a process that shares the run ended with exit code 1;"
        in answer.stderr.splitlines()[-1]
    )
