"""Sites on the command line: --sites, and one job log of each site."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import gridsim as gs
from gridsim.cli.main import cli


def log(machines: int, gap: int) -> str:
    """Return a log of 20 jobs, of which every one fits the machines."""
    lines = (
        f"{k} {gap * k} -1 {30 + 7 * k % 50} {1 + k % machines} -1 -1 -1 90 -1 1 {k % 5} 1 -1 1 1 -1 -1\n"
        for k in range(1, 21)
    )
    return f"; MaxProcs: {machines}\n" + "".join(lines)


#: The head of a table of sacct with UNIX times.
SACCT = "JobID|User|State|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|NCPUS\n"


def invoke(*arguments: object) -> Result:
    found = CliRunner().invoke(cli, [*map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found


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


def test_power_of_sites(logs: list[str], tmp_path: Path) -> None:
    """They are assigned by name, in any order."""
    file = tmp_path / "saved.toml"
    flags = ["--rigid", "--job-log", logs[0], "--job-log", logs[1], "--save-scenario", str(file)]
    flags += ["--scheduler", "metascheduler", "--power", "b=20,30,1,a=0.1 kW,250"]
    found = CliRunner().invoke(cli, ["run", *flags])
    assert found.exit_code == 0, found.output
    power = gs.Power(idle=[100.0, 20.0], busy=[250.0, 30.0], off=[0.0, 1.0])
    assert gs.Scenario.from_toml(file).platform.recipe.power == power
    for text, fault in (("a=1,2", "name the sites a, b"), ("a=1,2,b=1,2,a=1,2", "have each site once")):
        found = CliRunner().invoke(cli, ["run", *flags[:-1], text])
        assert found.exit_code == 2 and f"--power must {fault}" in found.stderr


def test_raw_tables_of_sacct_are_named_by_their_files_with_numbers_of_machines(tmp_path: Path) -> None:
    for name in ("north", "south"):
        (tmp_path / f"{name}.sacct").write_text(SACCT + "1|ann|COMPLETED|100|100|60|2|1|1\n")
    flags = ["--job-log", tmp_path / "north.sacct", "--job-log", tmp_path / "south.sacct", "--rigid"]
    found = invoke("compare", *flags, "--sites", "1,2", "--schedulers", "backfill", "--by", "site", "--json")
    assert {row["site"]: row["machines"] for row in json.loads(found.stdout)["by"]["site"]} == {
        "north": 1,
        "south": 2,
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sites", "2,x"], "--sites must be numbers of machines, such as 64,128"),
        (["--sites", "0,2"], "--sites[0] must be a whole number in 1.."),
        (["--sites", "a=1,2"], "--sites must name all sites or none"),
        (["--sites", "2,6", "--nodes", "8"], "--sites and --nodes exclude each other"),
        (["--sites", "2,6", "--nodes", "8,9"], "--nodes must be one number, except for gridsim compare"),
        (["--sites", "2,6", "--speeds", "pareto"], "--sites and --speeds exclude each other"),
        (["--job-log", "a", "--job-log", "b"], "several --job-log"),
        (["--job-log", "a", "--rigid", "--cores-per-node", "4,8"], "one number unless there are several"),
        (["--job-log", "a", "--job-log", "b", "--rigid", "--load", "1.3x"], "whose logs keep their releases"),
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


@pytest.fixture
def mixed(tmp_path: Path) -> list[object]:
    """Return the flags of two logs: one of 2 nodes of 4 cores, and one of 2 shared nodes of 8 cores."""
    line = "{0} {1} {2} 100 3 -1 -1 3 100 -1 1 1 1 -1 1 -1 -1 -1\n"
    for name, procs, waits in (("whole", 8, [5, 5, 95, 95]), ("parts", 16, [5] * 4)):
        rows = "".join(line.format(k + 1, 10 * k, wait) for k, wait in enumerate(waits))
        (tmp_path / f"{name}.swf").write_text(f"; MaxProcs: {procs}\n{rows}")
    flags: list[object] = ["--rigid", "--cores-per-node", "4,8", "--shared", "parts"]
    return [*flags, "--job-log", tmp_path / "whole.swf", "--job-log", tmp_path / "parts.swf"]


def test_jobs_of_one_of_two_logs_may_share_nodes(mixed: list[object], tmp_path: Path) -> None:
    """A job has 3 processors: a whole node of 4 cores at the one site, and 3 of 16 cores at the other."""
    file = tmp_path / "saved.toml"
    queue = ["--schedulers", "own=backfill", "--set", "own.partitions=sites", "--by", "site", "--json"]
    answer = json.loads(invoke("compare", *mixed, *queue, "--save-scenario", file).stdout)
    rows = {row.pop("site"): row for row in answer["by"]["site"]}
    work = {"whole": 4 * 4 * 100, "parts": 4 * 3 * 100}  # core-seconds
    for site, cores, waiting, in_log in (("whole", 8, 40.0, 50.0), ("parts", 16, 0.0, 5.0)):
        row = rows[site]
        assert (row["machines"], row["jobs"]) == (2, 4)
        assert row["mean_waiting"] == {"own": waiting, "log": in_log}
        assert row["core_hours_share"] == pytest.approx(work[site] / 2800)
        assert row["load"] == pytest.approx(work[site] / (cores * 30))
        assert row["utilization"]["own"] == pytest.approx(work[site] / (cores * 210))
    assert answer["schedulers"][0]["utilization"] == pytest.approx(2800 / (24 * 210))
    assert answer["log"]["utilization"] == pytest.approx(2800 / (24 * 225))
    assert answer["log"]["core_hours"] == answer["schedulers"][0]["core_hours"] == 2800 / 3600
    logs = [str(tmp_path / "whole.swf"), str(tmp_path / "parts.swf")]
    stated = gs.Scenario(
        gs.Platform.sites([2, 2], names=["whole", "parts"], cores=[4, 8]),
        gs.Workload.jobs_from_logs(logs, cores_per_node=[4, 1]),
    )
    saved = gs.Scenario.from_toml(file)
    assert (saved.platform, saved.workload) == (stated.platform, stated.workload)
    alone = stated.by_site()
    assert gs.simulate(alone["whole"], gs.BatchQueue()).mean_waiting == 40.0
    assert gs.simulate(alone["parts"], gs.BatchQueue()).utilization == pytest.approx(1200 / (16 * 130))
    text = " ".join(invoke("compare", *mixed, "--schedulers", "backfill").stdout.split())
    assert "a mean job has 3.5 cores" in text
    assert "jobs take cores in parts of 4 (whole.swf), 1 (parts.swf); parts of several cores are" in text


def test_default_schedulers_are_those_that_run_jobs_with_whole_nodes(mixed: list[object]) -> None:
    found = invoke("compare", *mixed)
    line = "not applicable: asap: asap does not support jobs that need more of a machine than a core"
    assert f"{line} (4 cores)" in " ".join(found.stdout.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--shared", "part"], "--shared must be one of whole, parts, got 'part'"),
        (["--shared", "whole,"], "--shared must be one of whole, parts, got ''"),
        (["--nodes", "4"], "unless --nodes is a factor such as 2x; --sites N,N,... has the machines of each"),
        (["--sites", "2,2,2"], "--sites must have 2 entries, one for each log, got 3"),
    ],
)
def test_faults_of_flags_of_several_logs_are_one_error(
    flags: list[str], message: str, mixed: list[object]
) -> None:
    found = CliRunner().invoke(cli, ["compare", *map(str, mixed), "--cores-per-node", "4", *flags])
    assert found.exit_code == 2 and message in found.stderr


def test_names_of_sites_that_share_nodes_need_several_logs(logs: list[str]) -> None:
    flags = ["--rigid", "--job-log", logs[0], "--cores-per-node", "2", "--shared", "a"]
    found = CliRunner().invoke(cli, ["run", "--scheduler", "backfill", *flags])
    assert found.exit_code == 2 and "--shared must have no value, except for names of sites" in found.stderr


def test_numbers_of_machines_scale_each_site(mixed: list[object], tmp_path: Path) -> None:
    """Rows, tables by site and sentences are those of each size."""
    file = tmp_path / "saved.toml"
    flags = [*mixed, "--schedulers", "backfill,backfill-fcfs", "--by", "site"]
    assert "--nodes" in CliRunner().invoke(cli, ["run", *map(str, mixed), "--nodes", "1x,2x"]).stderr
    both = [*flags, "--nodes", "1x,2x"]
    answer = json.loads(invoke("compare", *both, "--json", "--save-scenario", file).stdout)
    machines = {(row["scenario"], row["site"]): row["machines"] for row in answer["by"]["site"]}
    assert machines == {("4", "whole"): 2, ("4", "parts"): 2, ("8", "whole"): 4, ("8", "parts"): 4}
    for row in answer["by"]["site"]:
        assert ("log" in row["mean_waiting"]) == (row["scenario"] == "4")
        assert set(row["utilization"]) == {
            f"{name} {row['scenario']}" for name in ("backfill", "backfill-fcfs")
        }
    stated = invoke("compare", *flags, "--sites", "whole=2,parts=2", "--nodes", "2x", "--json")
    scaled = {row["name"]: row["digest"] for row in json.loads(stated.stdout)["schedulers"]}
    assert scaled == {
        row["name"].removesuffix(" 8"): row["digest"]
        for row in answer["schedulers"]
        if row["name"].endswith(" 8")
    }
    saved = invoke("compare", file, "--schedulers", "backfill", "--nodes", "1x,2x", "--json")
    assert [row["machines"] for row in json.loads(saved.stdout)["schedulers"]] == [4, 8]


def test_a_suggested_command_can_be_run(tmp_path: Path) -> None:
    """The command that convert prints, and the one in the warning on whole nodes, compare schedulers."""
    rows = "".join(f"{k}|ann|COMPLETED|{10 * k}|{10 * k}|50|2|1|{1 + k % 2}\n" for k in range(1, 9))
    (tmp_path / "own table.txt").write_text(SACCT + rows)
    output = tmp_path / "own log.swf"
    printed = invoke("trace", "convert", tmp_path / "own table.txt", output).stdout.splitlines()[-1]
    gridsim, *arguments = shlex.split(printed)
    *arguments, option, schedulers = arguments
    assert gridsim == "gridsim" and arguments[-3:] == ["--cores-per-node", "2", "--shared"]
    assert (option, schedulers) == ("--schedulers", "backfill,backfill-fcfs")
    found = invoke(*arguments)
    # three jobs use at most 5 cores at once, which are whole nodes without --shared
    assert "4 machines, as many as jobs used at once" in found.stderr
    whole = [*arguments[:-1], "--schedulers", "backfill"]
    for flags in (whole, [*whole, "--job-log", str(output), "--sites", "a=5,b=6"]):
        warning = invoke(*flags).stderr.partition("in the shell with ")[2].splitlines()[0]
        again = invoke(*shlex.split(warning)[1:], "--schedulers", "backfill")
        assert "which jobs share" in again.stdout and "have whole ones" not in again.stderr


def test_the_command_on_whole_nodes_names_the_logs_that_share_them(tmp_path: Path) -> None:
    for name, procs in (("whole", 2), ("parts", 1)):
        row = "{0}|ann|COMPLETED|{0}|{0}|50|2|1|{1}\n"
        text = SACCT + row.format(1, procs) + row.format(2, 2)
        (tmp_path / f"{name}.sacct").write_text(text)
    flags = ["--job-log", tmp_path / "whole.sacct", "--job-log", tmp_path / "parts.sacct", "--rigid"]
    found = invoke("compare", *flags, "--cores-per-node", "2", "--schedulers", "backfill")
    assert "--sites whole=2,parts=2 --cores-per-node 2 --shared parts" in found.stderr


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
    assert "a.swf, " in whole.stderr and "b.swf: jobs share nodes, but have whole ones here" in whole.stderr
    shared = CliRunner().invoke(cli, [*command, "--shared"])
    assert "have whole ones" not in shared.stderr
    assert "4 machines with 32 cores, which jobs share" in shared.stdout
    assert "1.43" in shared.stdout  # 8 jobs of 4 cores for 50 s, on 16 cores within 70 s


def test_errors_on_cores_say_that_only_some_logs_share_nodes(logs: list[str]) -> None:
    flags = ["--rigid", "--job-log", logs[0], "--job-log", logs[1], "--sites", "x=2,y=6"]
    flags += ["--cores-per-node", "2,2", "--shared", "y", "--schedulers", "dgs-asap"]
    found = CliRunner().invoke(cli, ["compare", *flags])
    assert found.exit_code == 2 and "workload.cores_per_node = [2, 1]): let those of all" in found.stderr
