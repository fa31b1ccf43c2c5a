"""`gridsim sweep`: tables and figures of a file, and sweeps that are killed and resumed."""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.studies.execution.store import Store
from gridsim.studies.sweep import Sweep

pytestmark = pytest.mark.slow

FILE = """
scenario = "scenario.toml"
schedulers = ["fair-tree", "mincent", "fcfs"]
replicates = 5
baseline = "mincent"

[over]
"platform.nodes" = [10, 20]
"network.latency" = [0.05, 0.5]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    workload = gs.Workload.bags(applications=6, tasks_per_node=2, seed=1)
    gs.Scenario(gs.Platform.desktop_grid(20, 1), workload, seed=1).save(tmp_path / "scenario.toml")
    path = tmp_path / "study.toml"
    path.write_text(FILE)
    return path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_sweep_writes_store_table_and_figure(file: Path, tmp_path: Path) -> None:
    table, figure = tmp_path / "cells.csv", tmp_path / "figure.png"
    answer = invoke("sweep", file, "--workers", 1, "--out", table, "--figure", figure)
    assert answer.exit_code == 0, answer.output
    store = file.with_suffix(".store")
    assert "\nmax stretch (max_stretch_agg), mean over 5 replications [" in answer.stdout
    sample = f"saved {figure}, which shows max_stretch_agg"
    assert answer.stdout.splitlines()[-3:] == [f"kept in {store}", f"saved {table}", sample]
    assert len(table.read_text().splitlines()) == 61 and figure.read_bytes().startswith(b"\x89PNG")
    assert len(Store(store)) == 60
    before = sorted((store / "cells").iterdir())
    second = invoke("sweep", file, "--workers", 1, "--json")
    output = json.loads(second.stdout)
    assert (
        second.stderr == "" and len(output["cells"]) == 60 and sorted((store / "cells").iterdir()) == before
    )
    digests = [item.digest for item in Sweep.from_toml(file).run().measured]
    assert [cell["digest"] for cell in output["cells"]] == digests
    assert output["points"][0]["ratios"]["max_stretch_agg"]["fcfs"]["mean"] > 1
    # a larger grid reuses the stored runs
    file.write_text(FILE.replace("[10, 20]", "[10, 20, 30]").replace("replicates = 5", "replicates = 6"))
    assert invoke("sweep", file, "--workers", 1).exit_code == 0
    assert len(Store(store)) == 3 * 2 * 3 * 6


def test_the_plan_says_that_queues_share_machines(tmp_path: Path) -> None:
    """Unless a scheduler has partitions at some point."""
    line = "{0} {0} -1 10 1 -1 -1 1 20 -1 1 1 1 1 {1} 1 -1 -1\n"
    (tmp_path / "own.swf").write_text("; MaxProcs: 4\n" + "".join(line.format(k, k % 2) for k in range(1, 5)))
    path = tmp_path / "study.toml"
    scenario = '[scenario.platform]\nkind = "equal"\nnodes = 4\n[scenario.workload]\nkind = "job-log"\n'
    for partitions, count in (("[]", 1), ("[2, 2]", 0)):
        path.write_text(
            f'schedulers = ["backfill"]\nreplicates = 1\n{scenario}path = "own.swf"\n[over]\n'
            f'"schedulers.backfill.partitions" = [[], {partitions}]\n'.replace("[[], []]", "[[]]")
        )
        answer = invoke("sweep", path, "--workers", 1)
        assert answer.exit_code == 0, answer.output
        assert answer.output.count("2 queues share all machines") == count


def test_default_store_behind_a_link_is_rejected(file: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (link := file.with_suffix(".store")).symlink_to(tmp_path / "elsewhere")
    answer = invoke("sweep", file, "--workers", 1)
    message = f"gridsim: --store is required, since the default store {link} is a symbolic link\n"
    assert (answer.exit_code, answer.stderr) == (2, message)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_failed_runs_are_reported_and_stored(file: Path) -> None:
    answer = invoke("sweep", file, "--workers", 1, "--schedulers", "mincent,dgs-asap", "--replicates", 1)
    run = "dgs-asap, platform.nodes = 20, network.latency = 0.5, replication 0"
    assert answer.exit_code == 1 and f"failed: {run}: ScenarioError: " in answer.stdout
    assert sum(bool(row["error"]) for row in Store(file.with_suffix(".store")).to_arrow().to_pylist()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "t.txt"], "--out must end in .parquet or .csv, got 't.txt'"),
        (["--workers", "0"], "--workers must be a whole number in 1..4096, got 0"),
        (["--workers", "2", "--dask", "x:1"], "--dask and --workers exclude each other"),
        (["--dask", ""], "--dask must be the address of a Dask scheduler, such as localhost:8786, got ''"),
        (["--dask", "localhost:x"], "such as localhost:8786, got 'localhost:x' (invalid literal"),
        (["--dask", "http://x"], "such as localhost:8786, got 'http://x' (unknown address scheme"),
        (["--schedulers", "nobody"], "unknown scheduler 'nobody'"),
        (["--replicates", "0"], "replicates must be a whole number >= 1, got 0"),
        (["--figure", "no/such.png"], "no: no such folder"),
        (["--store", ""], "--store must name a folder, got ''"),
    ],
)
def test_invalid_input_creates_no_files(file: Path, arguments: list[str], message: str) -> None:
    answer = invoke("sweep", file, *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "") and message in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert not file.with_suffix(".store").exists()


@pytest.mark.parametrize(
    "arguments", [["--json"], ["--out", "cells.csv"], ["--out", "cells.parquet"], ["--figure", "made.png"]]
)
def test_large_numbers_and_non_ascii_labels_are_saved(
    file: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """The labels are large whole numbers and letters outside ASCII."""
    monkeypatch.chdir(file.parent)
    file.write_text(
        f"""
scenario = "scenario.toml"
schedulers = ["fcfs"]
replicates = 1
time_limit = {2**53 + 1}
[over]
"network.bandwidth" = [{10**22}, {10**20}, 1]
[over."größe"]
a = {{ "platform.nodes" = 3 }}
b = {{ "platform.nodes" = 4 }}
"""
    )
    answer = invoke("sweep", file, "--workers", 1, *arguments)
    assert answer.exit_code == 0, answer.output
    assert len(Store(file.with_suffix(".store"))) == 6


def test_a_flag_sets_parameters_at_all_points(file: Path) -> None:
    file.write_text(FILE.replace("[over]", "[parameters.fair-tree]\nbound = 3.0\naccept = 'root'\n[over]"))
    answer = invoke(
        "sweep", file, "--workers", 1, "--replicates", 1, "--set", "fair-tree.bound=1.5", "--json"
    )
    assert answer.exit_code == 0, answer.output
    rows = Store(file.with_suffix(".store")).to_arrow().to_pylist()
    parameters = [json.loads(row["parameters"]) for row in rows if row["scheduler"] == "fair-tree"]
    assert {(each["bound"], each["accept"]) for each in parameters} == {(1.5, "root")}
    for setting, message in (
        (
            "fair.bound=1",
            "--set fair.bound=1: the scheduler must be one of fair-tree, mincent, fcfs, got 'fair'",
        ),
        ("fair-tree.bond=1", "fair-tree.bond is not a parameter of this scheduler"),
    ):
        assert message in invoke("sweep", file, "--set", setting).stderr
    file.write_text(FILE.replace("[over]", "[over]\n'schedulers.fcfs.mode' = ['pull', 'random']"))
    refused = invoke("sweep", file, "--set", "fcfs.mode=pull")
    assert "--set fcfs.mode=pull: the parameter must not be an axis of the sweep" in refused.stderr


GATED = """
import os, time, uuid
from pathlib import Path
import gridsim as gs

class Gated(gs.Fcfs, frozen=True, kw_only=True):
    "FCFS whose runs wait at the start until enough runs are allowed."
    name = "gated"

    def start(self, run):
        begun, mine = Path(os.environ["GATE"]), f"{time.time_ns():020d} {uuid.uuid4().hex}"
        (begun / mine).touch()
        while sorted(os.listdir(begun)).index(mine) >= int(begun.with_name("allowed").read_text()):
            time.sleep(0.01)
        return super().start(run)
"""


@pytest.fixture
def gate(file: Path) -> Iterator[Path]:
    """Yield a folder with a file for each started run of `gated_scheduler:Gated`."""
    (file.parent / "gated_scheduler.py").write_text(GATED)
    folder = file.parent / "begun"
    folder.mkdir()
    yield folder
    (file.parent / "allowed").write_text("1000")  # release waiting workers


def _start(file: Path, gate: Path, allowed: int) -> subprocess.Popen[str]:
    for started in gate.iterdir():
        started.unlink()
    (file.parent / "allowed").write_text(str(allowed))
    command = [sys.executable, "-m", "gridsim", "sweep", file.name, "--workers", "2"]
    root = str(Path(gs.__file__).parent.parent)
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [*command, "--schedulers", "gated_scheduler:Gated,mincent,fair-tree"],
        env={**os.environ, "PYTHONPATH": path, "GATE": str(gate)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=file.parent, start_new_session=True,
        # tests in the background of a shell ignore SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def _wait_for_gate(process: subprocess.Popen[str], gate: Path, allowed: int) -> None:
    """Wait until both workers wait at the gate, so that the sweep is incomplete."""
    while len(os.listdir(gate)) < allowed + 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def _shards(store: Path) -> set[Path]:
    return set((store / "cells").glob("*.parquet"))


def _keys(shards: set[Path]) -> list[str]:
    import pyarrow.parquet

    return [key for shard in shards for key in pyarrow.parquet.read_table(shard)["key"].to_pylist()]


def test_a_killed_sweep_is_resumed(file: Path, gate: Path) -> None:
    """After five SIGKILLs, of all processes or of the parent only, each run is stored exactly once."""
    store, draw = file.with_suffix(".store"), np.random.Generator(np.random.PCG64(5))
    before: set[Path] = set()
    for attempt in range(5):
        allowed = int(draw.integers(1, 5))
        with _start(file, gate, allowed) as process:
            if attempt < 3:
                _wait_for_gate(process, gate, allowed)
            else:  # at a random time after the first run has started
                while not os.listdir(gate):
                    assert process.poll() is None
                    time.sleep(float(draw.uniform(0, 0.02)))
            if attempt % 2:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        after = _shards(store)
        assert before <= after  # stored runs are unchanged
        before = after
    assert 0 < len(_keys(before)) < 60
    with _start(file, gate, 1000) as process:
        assert process.wait() == 0, process.communicate()
    twice = [key for key, count in collections.Counter(_keys(_shards(store))).items() if count > 1]
    assert twice == [] and len(Store(store)) == 60
    kept = {row["key"]: row for row in Store(store).to_arrow().to_pylist()}
    assert not any(row["error"] for row in kept.values())
    serial = Sweep.from_toml(file, schedulers=["fcfs", "mincent", "fair-tree"]).run()
    assert sorted(row["digest"] for row in kept.values()) == sorted(e.digest for e in serial.measured)


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_an_interrupted_sweep_keeps_its_runs(
    file: Path, gate: Path, number: int, code: int, word: str
) -> None:
    """All processes get the signal; finished runs are stored, and the message states how to continue."""
    store = file.with_suffix(".store")
    with _start(file, gate, 6) as process:
        _wait_for_gate(process, gate, 6)
        os.killpg(process.pid, number)
        out, errors = process.communicate()
    kept = len(Store(store))
    message = r"(\d+) of 60 runs are done, which are in study.store: the same command continues from there"
    assert process.returncode == code and out.startswith("platform ") and "mean over" not in out
    assert (answers := re.fullmatch(f"gridsim: {word}: {message}", errors.strip())), errors
    assert 0 < int(answers[1]) <= kept < 60  # runs that end after the message are stored as well
