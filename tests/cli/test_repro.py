from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.commands.repro import reproduce_result
from gridsim.cli.main import cli
from gridsim.results.diff import first_difference
from gridsim.results.table import Table


def scenario(**further: Any) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes=8, seed=1),
        gs.Workload.bags(5, interarrival=4.0, tasks_per_node=3.0, task_size=3000.0, seed=2),
        seed=3,
        **further,
    )


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["repro", *map(str, arguments)])


SCHEDULERS = {
    "tree": gs.FairTree(samples=(6, 4, 3), bound=1.25, detection=0.5),
    "grid": gs.FairTree(grid=((1e-4, 1e-2), (1e4, 1e5), (3000.0,))),
    "once": gs.MinCent(mode="once"),
    "random": gs.Fcfs(mode="random"),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("record", [False, True])
def test_a_repeated_run_has_the_same_digest(name: str, record: bool, tmp_path: Path) -> None:
    faults = gs.Faults.of([1, 2], [5.0, 6.0], [5.0, 30.0])
    result = gs.simulate(scenario(faults=faults), SCHEDULERS[name], record=record)
    result.save(tmp_path / "r.gridsim")
    answer = invoke(tmp_path / "r.gridsim")
    assert (answer.exit_code, answer.stdout) == (
        0,
        f"{tmp_path / 'r.gridsim'}: the same digest, {result.digest}\n",
    )
    output = json.loads(invoke(tmp_path / "r.gridsim", "--json").stdout)
    assert output["difference"] is None and output["stated"] == output["found"] == result.digest


def test_a_new_process_gives_the_same_digest(tmp_path: Path) -> None:
    """In it no module has been imported before."""
    gs.simulate(scenario(), gs.FairTree(samples=(6, 4, 3))).save(tmp_path / "r.gridsim")
    process = subprocess.run(
        [sys.executable, "-m", "gridsim", "repro", "r.gridsim"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and "r.gridsim: the same digest" in process.stdout, process.stderr


def with_change(result: gs.Result, table: str, column: str, k: int, by: Any) -> gs.Result:
    values = {name: result.tables[table][name].copy() for name in result.tables[table]}
    values[column][k] += by
    return gs.Result(
        tables={**result.tables, table: Table(values)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )


def test_first_difference_is_reported(tmp_path: Path) -> None:
    result = gs.simulate(scenario(), gs.FairTree(samples=(6, 4, 3)), record=True)
    start = result.tables["schedule"]["start"]
    late, early = int(np.argmax(start)), int(np.argmin(start))
    twice = with_change(with_change(result, "schedule", "tasks", late, 1), "schedule", "tasks", early, 1)
    other = with_change(twice, "applications", "finish", 4, 2.0)
    other.save(tmp_path / "r.gridsim")
    answer = invoke(tmp_path / "r.gridsim")
    assert answer.exit_code == 1
    assert f"first difference (then, and now): t = {start[early]:.9g} s: schedule: start" in answer.stdout
    assert reproduce_result(other).difference == first_difference(other, result)


@pytest.mark.parametrize(
    ("table", "column", "k", "by", "message"),
    [
        ("applications", "finish", 2, -0.5, "applications.finish[2] is"),
        ("applications", "nodes_used", 1, 1, "applications.nodes_used[1] is"),
        ("machines", "busy", 3, 1.0, "machines.busy[3] is"),
        ("messages", "sent", 0, 1, "messages.sent[0] is"),
        ("requests", "accepted", 0, -1e-3, "requests: accepted"),
    ],
)
def test_each_kind_of_difference_is_described(table: str, column: str, k: int, by: Any, message: str) -> None:
    result = gs.simulate(scenario(), gs.FairTree(samples=(6, 4, 3)))
    actual = first_difference(with_change(result, table, column, k, by), result)
    assert actual is not None and message in actual
    assert actual.startswith("t = ") == (column in ("finish", "accepted"))


def test_different_facts_are_described() -> None:
    result = gs.simulate(scenario(), gs.FairTree(samples=(6, 4, 3)))
    assert first_difference(result, result) is None
    other = gs.Result(
        tables=result.tables,
        facts={**result.facts, "bound": 3.0},
        scheduler=result.scheduler,
        provenance=result.provenance,
    )
    assert first_difference(result, other) == "facts['bound'] is 1.0, versus 3.0"


def test_missing_and_additional_events_are_described() -> None:
    result = gs.simulate(scenario(), gs.Fcfs(), record=True)
    columns = {name: result.tables["schedule"][name][:-1] for name in result.tables["schedule"]}
    fewer = gs.Result(
        tables={**result.tables, "schedule": Table(columns)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )
    assert "nothing" in str(first_difference(fewer, result)) or "versus start" in str(
        first_difference(fewer, result)
    )


def test_changed_versions_are_reported(tmp_path: Path) -> None:
    result = gs.simulate(scenario(), gs.Fcfs())
    result.provenance["numpy"] = "1.0"
    result.save(tmp_path / "r.gridsim")
    answer = invoke(tmp_path / "r.gridsim")
    assert answer.exit_code == 0 and f"changed: numpy was 1.0, is {np.__version__}" in answer.stdout


def test_an_emulated_result_cannot_be_repeated(tmp_path: Path) -> None:
    result = gs.simulate(scenario(), gs.Sparrow())
    result.provenance["emulation"] = {"processes": 2}
    result.save(tmp_path / "r.gridsim")
    answer = invoke(tmp_path / "r.gridsim")
    assert answer.exit_code == 2 and "got an emulation, which is not deterministic" in answer.stderr


MINE = """
import gridsim as gs
from gridsim.schedulers.centralized.pull import Pull

class Mine(gs.Scheduler, frozen=True, kw_only=True):
    name = "mine"

    def start(self, run):
        return Pull(run)
"""


def test_result_files_do_not_select_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_pull.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "--nodes", "8", "--scheduler", "my_pull:Mine", "--out", "r.gridsim", "--no-progress"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    answer = invoke("r.gridsim")
    assert answer.exit_code == 2 and "add --scheduler my_pull:Mine to import it" in answer.stderr
    assert invoke("r.gridsim", "--scheduler", "my_pull:Mine").exit_code == 0
    answer = invoke("r.gridsim", "--scheduler", "os:system")
    assert (
        answer.exit_code == 2
        and "--scheduler must be my_pull:Mine, the scheduler of the result, got 'os:system'" in answer.stderr
    )


def test_files_without_a_result_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("no")
    for path in (tmp_path / "no", tmp_path / "none"):
        answer = invoke(path)
        assert answer.exit_code == 2 and "Traceback" not in answer.output


KIND = """
import numpy as np

from gridsim.model.platform import PlatformKind


class Pairs(PlatformKind, frozen=True, kw_only=True, tag="pairs"):
    nodes: int

    def speeds(self):
        return np.full(self.nodes, 500.0)
"""


def test_runs_with_kinds_of_the_user_are_repeated_resumed_and_validated(tmp_path: Path) -> None:
    """Each command is a process of its own, in which no class of the user is known."""
    (tmp_path / "pairs.py").write_text(KIND)
    bags = scenario().to_toml().partition("[workload]")
    (tmp_path / "s.toml").write_text(f'[platform]\nkind = "pairs"\nnodes = 4\n{"".join(bags[1:])}')

    def run(command: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "gridsim", *command.split()]
        path = os.pathsep.join([str(tmp_path), str(Path(gs.__file__).parents[1])])
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

    flags = "--import pairs:Pairs"
    saved = "--out r.gridsim --checkpoint c --checkpoint-every 1e-9"
    made = run(f"run s.toml --scheduler fcfs --record {saved} {flags}")
    assert made.returncode == 0 and (tmp_path / "c").exists(), made.stderr
    refused = run("repro r.gridsim")
    assert refused.returncode == 2 and "your own requires --import module:Class" in refused.stderr
    for command in ("repro r.gridsim", "validate r.gridsim", "resume c"):
        answer = run(f"{command} {flags}")
        assert answer.returncode == 0, answer.stderr
    missing = run("validate r.gridsim --import no_kinds:K")
    assert "cannot import code 'no_kinds:K': ModuleNotFoundError" in missing.stderr
