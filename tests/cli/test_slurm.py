"""The jobs of Slurm that docs/guides/cluster.md shows, with stand-ins for ``sbatch`` and ``srun``.

The stand-ins set the variables of Slurm and run the script with bash, on this machine; ``srun`` starts the
tasks of a job at the same time.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gridsim as gs
from gridsim.studies.execution.store import Store
from gridsim.studies.sweep import Sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="runs scripts of bash"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "cluster.md"
SBATCH = """
import os, re, subprocess, sys
script, options = sys.argv[-1], {}
for line in open(script):
    if line.startswith("#SBATCH "):
        options |= dict(word.removeprefix("--").split("=") for word in line.split()[1:])
array = options.get("array")
first, last = map(int, array.split("-")) if array else (0, 0)
tasks = int(options.get("nodes", 1)) * int(options.get("ntasks-per-node", options.get("ntasks", 1)))
codes = []
for number in range(first, last + 1):
    variables = {"SLURM_JOB_ID": str(100 + number), "SLURM_NTASKS": str(tasks)}
    if array:
        variables |= {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": str(last - first + 1)}
    codes.append(subprocess.run(["bash", script], env={**os.environ, **variables}).returncode)
sys.exit(max(codes))
"""
SRUN = """
import os, signal, subprocess, sys
tasks = [subprocess.Popen(sys.argv[1:]) for _ in range(int(os.environ["SLURM_NTASKS"]))]
signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in tasks])
sys.exit(max(abs(task.wait()) for task in tasks))
"""
FILE = """
scenario = "scenario.toml"
schedulers = ["mincent", "fcfs"]
replicates = 4

[over]
"network.latency" = [0.05, 0.5]
"""


Submit = Callable[[str], "subprocess.CompletedProcess[str]"]


def script(word: str) -> str:
    """Return the job on the page that contains `word`."""
    if not PAGE.exists():
        pytest.skip("the documents are not part of this copy")
    jobs = re.findall(r"```sh\n(#!/bin/bash\n.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = (job for job in jobs if word in job)
    return found


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """A function that runs a job with the stand-ins, in a folder with a sweep."""
    programs = tmp_path / "bin"
    programs.mkdir()
    codes = {
        "sbatch": SBATCH,
        "srun": SRUN,
        "gridsim": "from gridsim.__main__ import main\nif __name__ == '__main__':\n    main()\n",
        "dask": "from dask.__main__ import main\nif __name__ == '__main__':\n    main()\n",
    }
    for name, code in codes.items():
        (programs / name).write_text(f"#!{sys.executable}\n{code}")
        (programs / name).chmod(0o755)
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=1)
    gs.Scenario(gs.Platform.desktop_grid(10, 1), workload, seed=1).save(tmp_path / "scenario.toml")
    (tmp_path / "study.toml").write_text(FILE)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(gs.__file__).parents[1]),
    }

    def run(job: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "job.sh").write_text(job)
        return subprocess.run(
            [str(programs / "sbatch"), "job.sh"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def test_the_array_executes_each_run_in_one_part(submit: Submit, tmp_path: Path) -> None:
    answer = submit(script("--array").replace("--array=1-40", "--array=1-3"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    counts = [int(count) for count in re.findall(r"part \d of 3: (\d+) runs, 0 failed", answer.stdout)]
    assert counts == [6, 5, 5]
    digests = Store(tmp_path / "study.store").to_arrow()["digest"].to_pylist()
    whole = Sweep.from_toml(tmp_path / "study.toml").run()
    assert sorted(digests) == sorted(record.digest for record in whole.measured)


def test_the_job_with_dask_executes_the_sweep(submit: Submit, tmp_path: Path) -> None:
    """Its cluster ends with it."""
    pytest.importorskip("distributed")
    job = script("dask scheduler").replace("--nodes=4 --ntasks-per-node=16", "--nodes=1 --ntasks-per-node=2")
    answer = submit(job)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "kept in study.store" in answer.stdout and len(Store(tmp_path / "study.store")) == 16
    host, _, port = re.findall(r"Scheduler at: +tcp://(\S+)", answer.stderr)[0].rpartition(":")
    deadline = time.monotonic() + 60
    while is_open(host, int(port)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "start, error",
    [
        ("dask scheduler|srun", "--scheduler-file must be written by a Dask scheduler within 3 s"),
        ("srun", "a worker must connect to the Dask scheduler tcp://"),
    ],
)
def test_the_job_with_dask_fails_without_its_cluster(submit: Submit, start: str, error: str) -> None:
    pytest.importorskip("distributed")
    job = re.sub(rf"^({start}).*\n", "sleep 60 &\n", script("dask scheduler"), flags=re.MULTILINE)
    answer = submit(job.replace("--wait 300", "--wait 3"))
    assert answer.returncode == 2 and error in answer.stderr
