"""Sites on the command line: --sites, and one job log of each site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli


def log(machines: int, gap: int) -> str:
    """Return a log of 20 jobs, of which every one fits the machines."""
    lines = (
        f"{k} {gap * k} -1 {30 + 7 * k % 50} {1 + k % machines} -1 -1 -1 90 -1 1 {k % 5} 1 -1 1 1 -1 -1\n"
        for k in range(1, 21)
    )
    return f"; MaxProcs: {machines}\n" + "".join(lines)


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    for name, text in (("a.swf", log(2, 20)), ("b.swf", log(6, 15))):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / "a.swf"), str(tmp_path / "b.swf")]


def test_logs_of_sites_give_equal_results_in_the_shell_and_in_python(logs: list[str]) -> None:
    names = ("metascheduler", "backfill", "zorilla", "dgs-asap")
    both = ["--rigid", "--job-log", logs[0], "--job-log", logs[1]]
    arguments = ["compare", "--json", *both, "--schedulers", ",".join(names)]
    made = gs.compare(gs.Scenario(gs.Platform.sites([2, 6]), gs.Workload.jobs_from_logs(logs)), list(names))
    for flags in ([], ["--sites", "2,6"]):
        found = CliRunner().invoke(cli, [*arguments, *flags])
        assert found.exit_code == 0, found.output
        assert ("2 machines, the MaxProcs of" in found.stderr) == (not flags)
        digests = {row["name"]: row["digest"] for row in json.loads(found.stdout)["schedulers"]}
        assert digests == {name: result.digest for name, result in made.results.items()}


def test_sites_may_have_names_and_a_single_log(logs: list[str], tmp_path: Path) -> None:
    file = tmp_path / "saved.toml"
    arguments = ["run", "--rigid", "--job-log", logs[0], "--sites", "delft=2,leiden=6"]
    found = CliRunner().invoke(
        cli, [*arguments, "--scheduler", "metascheduler", "--save-scenario", str(file)]
    )
    assert found.exit_code == 0, found.output
    assert gs.Scenario.from_toml(file).platform == gs.Platform.sites([2, 6], names=["delft", "leiden"])


def test_sites_of_logs_are_named_by_their_files_or_by_a_flag(logs: list[str], tmp_path: Path) -> None:
    file = tmp_path / "saved.toml"
    both = ["--rigid", "--job-log", logs[0], "--job-log", logs[1], "--save-scenario", str(file)]
    for flags, names in ((), ["a", "b"]), (("--sites", "big,site2"), ["big", "site2"]):
        found = CliRunner().invoke(cli, ["run", *both, "--scheduler", "metascheduler", *flags])
        assert found.exit_code == 0, found.output
        assert gs.Scenario.from_toml(file).platform == gs.Platform.sites([2, 6], names=names)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sites", "2,x"], "--sites must be numbers of machines, such as 64,128"),
        (["--sites", "0,2"], "--sites[0] must be a whole number in 1.."),
        (["--sites", "a=1,2"], "--sites must name all sites or none"),
        (["--sites", "2,6", "--nodes", "8"], "--sites and --nodes exclude each other"),
        (["--sites", "2,6", "--speeds", "pareto"], "--sites and --speeds exclude each other"),
        (["--job-log", "a", "--job-log", "b"], "several --job-log"),
        (["--job-log", "a", "--job-log", "b", "--nodes", "8", "--rigid"], "--nodes is a factor"),
    ],
)
def test_invalid_sites_are_rejected(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text(log(2, 20))
    found = CliRunner().invoke(cli, ["run", *flags])
    assert found.exit_code != 0 and message in found.stderr


def test_logs_of_shared_nodes_that_are_counted_as_whole_ones_are_a_warning(tmp_path: Path) -> None:
    """The load of a site is that of its cores."""
    rows = "".join(f"{k} {10 * k} 0 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n" for k in range(1, 9))
    note = "; Note: jobs share nodes: they have 1 to 4 processors on a node (--shared)\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.swf").write_text(f"; MaxProcs: 16\n{note}{rows}")
    flags = (
        "--job-log",
        tmp_path / "a.swf",
        "--job-log",
        tmp_path / "b.swf",
        "--rigid",
        "--schedulers",
        "backfill",
    )
    command = ["compare", *map(str, flags), "--cores-per-node", "8", "--by", "site"]
    whole = CliRunner().invoke(cli, command)
    assert "a.swf: jobs share nodes, but have whole ones here; --shared" in whole.stderr
    shared = CliRunner().invoke(cli, [*command, "--shared"])
    assert "have whole ones" not in shared.stderr
    assert "4 machines with 32 cores, which jobs share" in shared.stdout
    assert "1.43" in shared.stdout  # 8 jobs of 4 cores for 50 s, on 16 cores within 70 s
