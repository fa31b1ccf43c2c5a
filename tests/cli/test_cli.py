from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import gridsim
import gridsim as gs
from gridsim.cli.main import cli
from gridsim.model.distributions import Range
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result

ROOT = str(Path(gridsim.__file__).parent.parent)
SMALL = ["--nodes", "5", "--applications", "6"]
LOST_RETURN = """import gridsim as gs


class LostNode(gs.NodeProgram):
    def on_release(self, view, application, tasks):
        view.send(self.place(view), "task", application=application.number, tasks=tasks)

    def place(self, view):
        view.random.integers(view.machines)

    def on_task(self, view, message):
        view.enqueue(message.application, message.tasks)


class Lost(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "lost"
    policy = LostNode
    messages = {"task": gs.Message(170, moves_tasks=True, application=int, tasks=int)}
"""


def job(number, submit, run_time, procs):
    return f"{number} {submit} 0 {run_time} {procs} -1 -1 {procs} -1 -1 1 7 1 1 1 1 -1 -1"


def invoke(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def run_command(*arguments):
    answer = invoke(*arguments)
    assert answer.exit_code == 0, answer.output
    return answer


def error_of(*arguments):
    """Return the one error line of a command, which must exit with code 2."""
    answer = invoke(*arguments)
    assert (answer.exit_code, answer.stdout) == (2, ""), answer.output
    lines = [line for line in answer.stderr.splitlines() if not line.startswith("gridsim: warning: ")]
    assert len(lines) == 1 and lines[0].startswith("gridsim: ")
    return lines[0].removeprefix("gridsim: ")


@pytest.mark.parametrize("group", [[], ["list"], ["trace"], ["store"]])
def test_a_group_without_a_command_is_an_error_with_its_help_on_stderr(group):
    answer = invoke(*group)
    assert answer.exit_code == 2 and not answer.stdout and answer.stderr.startswith("Usage: ")


def test_version_and_help_are_printed():
    assert run_command("--version").stdout == f"gridsim {gridsim.__version__}\n"
    for command in ("run", "compare", "trace info", "trace lint"):
        assert "--json" in run_command(*command.split(), "--help").stdout


def test_run_prints_a_summary(folder, toy):
    text = run_command("run", "--scheduler", toy, *SMALL).stdout
    for part in ("5 machines", "6 applications", "load ", "s/Mflop", "makespan", "digest"):
        assert part in text


def test_the_stretch_of_a_bag_follows_from_its_row(folder):
    head, units, *rows = run_command("run", *SMALL, "--bags").stdout.split("\n\n")[-2].splitlines()
    assert len(rows) == 6 and units.split() == ["s", "Mflop", *["s"] * 4]
    stretches = []
    for line in rows:
        row = dict(zip(head.split(), map(float, line.replace(",", "").split()), strict=True))
        assert row["end"] - row["release"] == pytest.approx(row["response"], rel=1e-3)
        assert row["response"] / row["alone"] == pytest.approx(row["stretch"], rel=1e-3)
        assert row["release"] < row["start"] < row["end"]
        stretches.append(row["stretch"])
    answer = json.loads(run_command("run", *SMALL, "--bags", "--json").stdout)
    assert answer["bags"]["stretch"] == pytest.approx(stretches, rel=1e-4)
    assert max(stretches) == pytest.approx(answer["max_stretch_agg"], rel=1e-4)
    message = "--bags requires a scheduler of bags, got backfill, which runs rigid jobs"
    assert error_of("run", *SMALL, "--bags", "--scheduler", "backfill") == message


def test_errors_in_user_code_show_only_user_frames(folder, toy):
    run = ("run", "--scheduler", toy, *SMALL, "--set", f"{toy}.mode=fail")
    answer = invoke(*run)
    first, *frames, last, hint = answer.stderr.splitlines()
    assert answer.exit_code == 1 and first.startswith("Traceback") and hint.startswith("gridsim: gridsim -v")
    assert [line.split(", line ")[0].strip() for line in frames if ", line " in line] == [
        f'File "{folder / toy.split(":")[0]}.py"'
    ] * 2
    assert last == "ZeroDivisionError: of mine"
    # with -v, Python shows the whole traceback
    assert isinstance(invoke("-v", *run).exception, ZeroDivisionError)


def test_an_error_of_a_view_names_the_line_of_the_user(folder):
    (folder / "lost_return.py").write_text(LOST_RETURN)
    message = error_of("run", "--scheduler", "lost_return:Lost", *SMALL, "--json")
    place = f"; LostNode.on_release, {folder / 'lost_return.py'}:6"
    assert message.endswith(f": the receiver must be a whole number of 64 bits, got None{place}")


def test_interpreted_and_compiled_nodes_give_equal_results():
    digests = {
        json.loads(run_command("run", "--scheduler", "rjss", *SMALL, *form, "--json").stdout)["digest"]
        for form in ([], ["--node-form", "interpreted"], ["--node-form", "compiled"])
    }
    assert len(digests) == 1
    message = error_of("run", "--scheduler", "fcfs", *SMALL, "--node-form", "interpreted")
    assert message.startswith("fcfs does not support nodes='interpreted'")


def test_the_flag_bound_selects_the_lower_bound(folder, toy):
    assert "(max stretch over the discrete bound, " in run_command("run", "--scheduler", toy, *SMALL).stdout
    assert "over the fluid bound" in run_command("run", "--scheduler", toy, *SMALL, "--bound", "fluid").stdout
    fluid = json.loads(run_command("run", "--scheduler", toy, *SMALL, "--bound", "fluid", "--json").stdout)
    disc = json.loads(run_command("run", "--scheduler", toy, *SMALL, "--json").stdout)
    assert (fluid["lower_bound_kind"], disc["lower_bound_kind"]) == ("fluid", "discrete")
    assert 1 < disc["gap"] < fluid["gap"] == fluid["max_stretch"] / fluid["lower_bound"]
    assert disc["digest"] == fluid["digest"] and "gap" in fluid["units"]
    flags = ["--schedulers", toy, *SMALL, "--bound", "discrete"]
    assert f"{disc['gap']:.3f}" in (text := run_command("compare", *flags).stdout) and "discrete" in text
    assert json.loads(run_command("compare", *flags, "--json").stdout)["schedulers"][0]["gap"] == disc["gap"]
    assert invoke("run", "--scheduler", toy, "--bound", "tight").exit_code == 2


def test_run_prints_json(folder, toy):
    cli_result = run_command(
        "run", "--scheduler", toy, *SMALL, "--set", f"{toy}.pause=2", "--json", "--progress"
    )
    answer = json.loads(cli_result.stdout)
    assert (
        answer["facts"] == {"pause": 2.0} and answer["machines"] == 5 and answer["units"]["makespan"] == "s"
    )
    scenario = Scenario.from_toml(answer["provenance"]["scenario"])
    expected = Workload.bags(6, task_size=65536.0, seed=1)
    assert scenario == Scenario(Platform.desktop_grid(5, 1), expected, seed=1)
    assert "6/6" in cli_result.stderr


def test_run_saves_result_and_scenario(folder, toy):
    cli_result = run_command(
        "run", "--scheduler", toy, *SMALL, "--out", "r.npz", "--save-scenario", "s.toml", "--json"
    )
    answer = json.loads(cli_result.stdout)
    result = Result.load("r.npz")
    assert result.digest == answer["digest"] and answer["file"] == "r.npz"
    assert Scenario.from_toml("s.toml") == result.scenario
    copy = json.loads(run_command("run", "s.toml", "--scheduler", toy, "--json").stdout)
    assert copy["digest"] == result.digest
    os.mkdir("results")
    cli_result = run_command("run", "s.toml", "--scheduler", toy, "--out", "results")
    assert os.listdir("results") == ["toy.npz"]
    assert cli_result.stdout.splitlines()[-1].split() == ["saved", "results/toy.npz"]
    cli_result = run_command("run", "s.toml", "--scheduler", toy, "--out", "results", "--json")
    assert json.loads(cli_result.stdout)["file"] == "results/toy.npz"


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("run", "--out absent/r.npz", "absent: no such folder"),
        ("run", "--out absent/", "absent: no such folder"),
        ("run", "--out file/r.npz", "file: no such folder"),
        ("run", "--out dangling", "{folder}/elsewhere: no such folder"),
        ("run", "--record", "--record requires --out"),
        ("run", "--decisions --messages", "--decisions requires --out"),
        ("run", "--out=", "--out must name a file, got ''"),
        ("run", "--out /dev/null", "--out must be a regular file, got /dev/null"),
        ("run", "--out full", "--out must be a regular file, got full/fair-tree.npz"),
        (
            "run",
            "--out a --save-scenario ./a",
            "--out and --save-scenario must name different files, got ./a for both",
        ),
        ("run", "--save-scenario=", "--save-scenario must name a file, got ''"),
        ("run", "--save-scenario full", "--save-scenario must be a regular file, got full"),
        ("compare", "--out absent/more", "absent: no such folder"),
        ("compare", "--out=", "--out must name a file, got ''"),
        ("compare", "--out full", "--out must be a regular file, got full/fair-tree.npz"),
        ("compare", "--out file", "--out must be a folder (compare saves one file per scheduler), got file"),
        (
            "run",
            "--job-log log.swf --save-scenario log.swf",
            "--job-log and --save-scenario must name different files, got log.swf for both",
        ),
        (
            "run",
            "--job-log log.swf --checkpoint ./log.swf",
            "--job-log and --checkpoint must name different files, got ./log.swf for both",
        ),
        (
            "run",
            "named.toml --out log.swf",
            "the scenario and --out must name different files, got log.swf for both",
        ),
        (
            "run",
            "named.toml --save-scenario log.swf",
            "the scenario and --save-scenario must name different files, got log.swf for both",
        ),
        (
            "compare",
            "named.toml --save-scenario named.toml",
            "SCENARIO and --save-scenario must name different files, got named.toml for both",
        ),
        (
            "compare",
            "--replicates 2 --save-scenario a.png --figure a.png",
            "--save-scenario and --figure must name different files, got a.png for both",
        ),
        (
            "ladder",
            "named.toml --figure x.svg",
            "the scenario and --figure must name different files, got x.svg for both",
        ),
        (
            "compare",
            "--schedulers a_b=fcfs,a+b=mincent --out r",
            "--out requires schedulers with different file names, got 'a+b' and 'a_b', both a_b.npz",
        ),
    ],
)
def test_output_paths_are_checked_before_a_run(folder, command, flags, message):
    if "--figure" in flags:
        pytest.importorskip("matplotlib")
    os.makedirs("full/fair-tree.npz")
    Path("file").write_text("x")
    Path("dangling").symlink_to("elsewhere/r.npz")
    for log in ("log.swf", "x.svg"):
        Path(log).write_text(f"{job(1, 100, 10, 1)}\n")
    log = "x.svg" if command == "ladder" else "log.swf"
    Path("named.toml").write_text(
        f'[platform]\nkind = "equal"\nnodes = 2\n[workload]\nkind = "log"\npath = "{log}"\n'
    )
    before = sorted(folder.rglob("*"))
    scenario = [] if "--save-scenario" in flags or command == "ladder" else ["--save-scenario", "s.toml"]
    assert error_of(command, *flags.split(), *scenario) == message.format(folder=os.path.realpath(folder))
    assert sorted(folder.rglob("*")) == before


def test_a_scenario_that_cannot_be_run_is_not_saved(folder):
    Path("s.toml").write_text("mine")
    for flags in (["--latency", "1e9"], ["--job-log", "absent.swf"], ["--tasks-per-node", "1e30"]):
        for command in ("run", "compare"):
            assert error_of(command, "--nodes", 5, *flags, "--save-scenario", "s.toml")
            assert Path("s.toml").read_text() == "mine"


def test_flags_override_the_file(folder, toy):
    Scenario(Platform.pareto(9, 4), Workload.bags(7, seed=5), seed=6).save("s.toml")

    def effective_parameters(*flags):
        answer = json.loads(run_command("run", "s.toml", "--scheduler", toy, "--json", *flags).stdout)
        return Scenario.from_toml(answer["provenance"]["scenario"])

    assert effective_parameters() == Scenario(Platform.pareto(9, 4), Workload.bags(7, seed=5), seed=6)
    assert effective_parameters("--nodes", 3).platform == Platform.pareto(3, 4)
    assert effective_parameters("--seed", 8) == Scenario(
        Platform.pareto(9, 8), Workload.bags(7, seed=8), seed=8
    )
    assert effective_parameters("--speeds", "uniform").platform == Platform.desktop_grid(9, 4)
    assert effective_parameters("--speeds", "equal").platform == Platform.equal(9)
    changed = effective_parameters(
        "--interarrival", 2, "--tasks-per-node", 3, "--task-size", "5..6"
    ).workload.recipe
    assert (changed.interarrival, changed.tasks_per_node, changed.task_size) == (2.0, 3.0, Range(5.0, 6.0))
    Scenario(Platform.pareto(9, 4), Workload.bags(7, tasks=40, seed=5), seed=6).save("own.toml")
    output = json.loads(
        run_command("run", "own.toml", "--scheduler", toy, "--json", "--tasks-per-node", 1).stdout
    )
    assert output["tasks"] < 7 * 12  # at most 1.2 tasks per machine; 40 tasks per application would give more
    assert effective_parameters("--task-size", "5,6").workload.recipe.task_size == (5.0, 6.0)
    network = effective_parameters("--latency", 0.1, "--bandwidth", "inf", "--interfaces", "equal").network
    assert (network.latency, network.bandwidth, network.interfaces) == (0.1, float("inf"), "equal")


def test_logs_and_host_tables_replace_drawn_workloads_and_platforms(folder, toy):
    Path("log.swf").write_text(f"{job(1, 100, 10, 1)}\n{job(2, 110, -1, 1)}\n{job(3, 900, 30, 2)}\n")
    Path("hosts.csv").write_text("cpu_model,computers,gflops_core\nA,1,1.5\n")
    flags = ["--job-log", "log.swf", "--hosts", "hosts.csv", "--nodes", 4]
    cli_result = run_command("run", "--scheduler", toy, *flags, "--json", "--applications", 2)
    answer = json.loads(cli_result.stdout)
    assert answer["aggregate_speed"] == 6000.0 and answer["tasks"] == 3
    assert set(answer["provenance"]["files"]) == {"log.swf", "hosts.csv"}
    message = "gridsim: warning: log.swf:2: 1 jobs of unknown run time, left out"
    assert cli_result.stderr.count(message) == 1
    assert (
        json.loads(run_command("run", "--scheduler", toy, *flags, "--json", "--applications", 1).stdout)[
            "tasks"
        ]
        == 1
    )
    assert "jobs of one user at most 120 s apart" in run_command("run", "--scheduler", toy, *flags).stdout
    kept = json.loads(
        run_command("run", "--scheduler", "asap", "--job-log", "log.swf", "--rigid", "--json").stdout
    )
    assert kept["applications"] == 2 and kept["aggregate_speed"] == 1000 * kept["machines"] == 2000
    Path("log.swf").write_text(f"; MaxNodes: 7\n; MaxProcs: 5\n{job(1, 100, 10, 1)}\n")
    declared = run_command("run", "--scheduler", "asap", "--job-log", "log.swf", "--rigid", "--json")
    assert json.loads(declared.stdout)["machines"] == 5
    assert declared.stderr.splitlines()[0].startswith("gridsim: 5 machines, the MaxProcs of log.swf")


def test_compare_prints_a_table(folder, toy):
    Path("other.py").write_text(f"from {toy.partition(':')[0]} import Toy\n")
    flags = ["--schedulers", f"{toy},other=other:Toy", "--set", "other.pause=9", *SMALL]
    text = run_command("compare", *flags, "--verbose", "--out", "results").stdout
    assert "stretch" in text and "load " in text and "1.000" in text and "other: pause 9" in text
    answer = json.loads(run_command("compare", *flags, "--json", "--baseline", "other=other:Toy").stdout)
    rows = {row["name"]: row for row in answer["schedulers"]}
    assert rows["other"]["ratio"] == 1.0 > rows["toy"]["ratio"]
    for name in sorted(os.listdir("results")):
        assert Result.load(f"results/{name}").digest[:16] in text
    assert len(os.listdir("results")) == 2


def test_the_baseline_does_not_depend_on_results_and_is_named(folder, toy):
    Path("other.py").write_text(f"from {toy.partition(':')[0]} import Toy\n")
    selection = f"{toy},other=other:Toy"
    slow = [
        "--set",
        f"{toy}.pause=9",
        *SMALL,
    ]  # the first scheduler is the baseline, although the other one is better
    text = run_command("compare", "--schedulers", selection, *slow).stdout
    assert "baseline      toy (ratios are relative to it)" in text.splitlines()
    answer = json.loads(run_command("compare", "--schedulers", selection, *slow, "--json").stdout)
    assert answer["baseline"] == "toy" and answer["units"]["ratio"].endswith("that of toy)")
    flags = ["--schedulers", "fcfs,fair-tree,mincent", "--json", *SMALL]
    assert json.loads(run_command("compare", *flags).stdout)["baseline"] == "mincent"
    assert json.loads(run_command("compare", *flags, "--baseline", "fcfs").stdout)["baseline"] == "fcfs"
    named = "--baseline must be one of fcfs, fair-tree, mincent, got 'x'"
    assert error_of("compare", *flags, "--baseline", "x", "--save-scenario", "s.toml") == named
    assert not os.path.exists("s.toml")
    assert "--baseline NAME" in run_command("compare", "--help").stdout


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (
            '[platform]\nkind = "list"\nspeeds = [1, -2]',
            "platform.speeds[1] must be a finite number >= 1e-06 Mflop/s",
        ),
        (
            '[workload]\nkind = "list"\nrelease = [0]\ntasks = [1]\ntask_size = [nan]',
            "workload.task_size[0] must",
        ),
        (
            '[workload]\nkind = "list"\nrelease = [0]\ntasks = [0]\ntask_size = [1]',
            "workload.tasks[0] must be a",
        ),
        ("[network]\nlatency = -1", "network.latency must be a finite number >= 0 s, got -1.0"),
        (
            "[network]\nlatencyy = 1",
            "network.latencyy is not a known key; did you mean latency? known: latency, jitter",
        ),
        ("[platform\n", "s.toml:1: column 10: "),
        ("x = " + "[" * 100_000, "s.toml: values are nested too deeply: at most 64 levels"),
        ('[platform]\nkind = "uniform"\nseed = 1', "platform.nodes is missing"),
        (
            '[platform]\nkind = "uniform"\nnodes = 1.5\nseed = 1',
            "platform.nodes must be a whole number, got",
        ),
        ('[platform]\nkind = "list"\nspeeds = 1', "platform.speeds must be a list of numbers, got 1"),
        (
            '[platform]\nkind = "uniform"\nnodes = 1\nseed = 1\nstep = 1e-300',
            "platform.step must be a finite number >= 1e-06 Mflop/s, got 1e-300",
        ),
        (
            '[schedulers."a:B"]\nx = 1',
            "schedulers.'a:B' must be the name of a registered scheduler, as a scenario never imports code",
        ),
    ],
)
def test_invalid_scenario_files_are_rejected(folder, toy, toml, message):
    arguments = toml.strip()
    for name, default in (
        ("platform", 'kind = "list"\nspeeds = [1]'),
        ("workload", 'kind = "list"\nrelease = [0]\ntasks = [1]\ntask_size = [1]'),
    ):
        if f"[{name}" not in arguments:
            arguments += f"\n[{name}]\n{default}"
    Path("s.toml").write_text(arguments + "\n")
    before = sorted(os.listdir())
    flags = ["--scheduler", toy, "--out", "r.npz", "--save-scenario", "t.toml"]
    assert error_of("run", "s.toml", *flags).startswith(message)
    assert [name for name in sorted(os.listdir()) if name != "__pycache__"] == before


def test_invalid_traces_are_rejected(folder, toy):
    short = job(1, 0, 5, 1).rpartition(" ")[0]
    Path("short.swf").write_text(job(1, 0, 5, 1) + "\n" + short + "\n")
    Path("large.swf").write_text(job(1, 0, 5, 6) + "\n")
    full_run = gzip.compress("\n".join(job(i, i, 5, 1) for i in range(2000)).encode())
    Path("cut.swf.gz").write_bytes(full_run[: len(full_run) // 2])
    flags = ["run", "--scheduler", toy, "--nodes", 5]
    assert error_of(*flags, "--job-log", "short.swf") == "short.swf:2: a line must have 18 fields, got 17"
    needs = "large.swf:1: the processors of job 1 must be at most 5, the number of machines, got 6"
    assert error_of(*flags, "--job-log", "large.swf") == needs
    assert "the gzip file is truncated" in error_of(*flags, "--job-log", "cut.swf.gz")
    assert error_of(*flags, "--hosts", "short.swf").startswith(
        "short.swf:1: the header must have column cpu_model"
    )
    assert error_of("trace", "info", "short.swf") == "short.swf:2: a line must have 18 fields, got 17"
    assert "the gzip file is truncated" in error_of("trace", "lint", "cut.swf.gz")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run --job-log absent.swf", "absent.swf: No such file or directory"),
        ("run --hosts absent.csv", "absent.csv: No such file or directory"),
        ("compare --job-log folder", "folder: Is a directory"),
        ("trace info absent.swf", "absent.swf: No such file or directory"),
        ("trace lint absent.avt", "absent.avt: No such file or directory"),
        ("trace lint what", "what: No such file or directory"),
        (
            "trace info folder",
            "folder: no event_trace.tab or event_trace.tab.gz in this folder",
        ),
        (
            "trace lint folder",
            "folder: no event_trace.tab or event_trace.tab.gz in this folder",
        ),
        ("run ", "SCENARIO.toml must be a non-empty string, got ''"),
        ("trace info ", "FILE must be a non-empty string, got ''"),
        ("trace lint ", "FILE must be a non-empty string, got ''"),
        ("run absent.toml", "absent.toml: No such file or directory"),
        ("run folder", "folder: Is a directory"),
    ],
)
def test_errors_on_unopened_files_state_no_line_number(folder, command, message):
    os.mkdir("folder")
    assert error_of(*command.split(" ")) == message


def test_an_unknown_choice_of_a_parameter_gets_a_suggestion(folder):
    error = error_of("run", "--scheduler", "fair-tree", "--set", "fair-tree.accept=rooot")
    assert error.endswith("either, got 'rooot'; did you mean root?"), error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--nodes", 0], "--nodes must be a whole number in 1..1073741824, got 0"),
        (["--task-size", "nan"], "--task-size must be a finite number > 0 Mflop, got nan"),
        (["--task-size", "large"], "--task-size must be a number, LOW..HIGH or A,B,C, got 'large'"),
        (["--task-size", "5..4"], "--task-size.high must be a finite number >= 5 Mflop, got 4.0"),
        (["--interarrival", "nan"], "--interarrival must be a finite number >= 0 s, got nan"),
        (
            ["--nodes", "\uff13"],
            "Invalid value for '--nodes': must be a number in the digits 0-9, got '\uff13'",
        ),
        (["--latency", "\uff13"], "Invalid value for '--latency': '\uff13' is neither a number (s)"),
        (["--bandwidth", "0"], "--bandwidth must be a number >= 1e-06 bytes/s, got 0.0"),
        (["--nodes", "1,000"], "Invalid value for '--nodes': must have no comma between thousands"),
        (
            ["--nodes", "+"],
            "Invalid value for '--nodes': must be a number, or a factor such as 1.3x, or a whole",
        ),
        (["--load", "+0.1"], "Invalid value for '--load': must be a number, or a factor such as 1.3x, got"),
        (["--nodes", "1x,"], "Invalid value for '--nodes': must have a number on each side of a comma"),
        (
            ["--load", "1,3x"],
            "Invalid value for '--load': must be one number, or one factor such as 1.3x with a decimal point",
        ),
        (
            ["--latency", "1,6"],
            "Invalid value for '--latency': '1,6' is neither a number (s) nor a number with a unit: ns, us, "
            "ms, s, min, h, d; a fraction has a point, such as 1.6",
        ),
        (
            ["--change", "network.latency=1,6"],
            "network.latency must be a number, got a list; a fraction has a point, such as "
            "network.latency=1.6",
        ),
        (["--hosts", "x", "--speeds", "pareto"], "--hosts and --speeds exclude each other"),
        (
            ["--job-log", "x", "--interarrival", 3],
            "--interarrival does not apply to a workload of kind 'log'",
        ),
        (["--seed", -1], "--seed must be a whole number >= 0, got -1"),
        (["--seed", 2**63], f"--seed must be a whole number in 0..{2**63 - 1}, got {2**63}"),
        (["--task-size", "5,-1"], "--task-size[1] must be a finite number > 0 Mflop, got -1.0"),
        (["--tasks-per-node", 0], "--tasks-per-node must be a finite number > 0, got 0.0"),
        (["--job-log", "x", "--applications", 0], "--applications must be a whole number >= 1, got 0"),
        (["--failures", 0], "--failures must be a finite number > 0 s, got 0.0"),
        (["--latency", "inf"], "--latency must be a finite number >= 0 s, got inf"),
        (["--job-log", ""], "--job-log must be a non-empty string, got ''"),
        (["--hosts", ""], "--hosts must be a non-empty string, got ''"),
        (["--nodes", 10**17], "--nodes must be a whole number in 1..1073741824, got 1"),
        (
            ["--applications", 10**15],
            "not enough memory for workload.applications: 1000000000000000 applications take",
        ),
        (["--threads", 0], "--threads must be a whole number in 1..1024, got 0"),
        (["--threads", "x"], "Invalid value for '--threads': 'x' is not a valid integer."),
        (["--task-data", -1], "--task-data must be a number in 0..1e+15 bytes, got -1.0"),
        (["--nosuch"], "No such option"),
        (["--latency", "1e300"], "network.latency must be at most 1e+06 s, got 1e+300"),
        (["--set", "T.pause=2\nseed=3"], r"T.pause must be a number, got '2\nseed=3'"),
        (["--set", f"T.pause={'[' * 5000}"], "T.pause must be a number, got '[[[[[[[["),
        (["--set", f"T.pause={'9' * 5000}"], "T.pause must be a number, got '99999999"),
        (["--set", "pause"], "--set must be NAME.PARAM=VALUE, got 'pause'"),
        (["--set", "x.y=1"], "--set x.y=1: the scheduler must be one of toy, got"),
        (
            ["--set", "T.pause=debug=4,long=5,debug=6"],
            "--set T.pause must have each key once, got debug several times",
        ),
        (["--set", "T.pause=x"], "T.pause must be a number, got 'x'"),
        (
            ["--set", "T.puase=1"],
            "T.puase is not a parameter of this scheduler; did you mean pause? known: pause, mode",
        ),
        (["--save-scenario", "absent/s.toml"], "absent: no such folder"),
    ],
)
def test_invalid_flags_are_rejected(folder, toy, flags, message):
    flags = [str(flag).replace("T.", f"{toy}.") for flag in flags]
    message = message.replace("T.", f"{toy}.", 1)
    assert error_of("run", "--scheduler", toy, *SMALL[:2], *flags).startswith(message)


@pytest.mark.parametrize(
    "command",
    [
        "run --nodes 3 --applications 2 --out a.npz",
        "run --nodes 3 --applications 2 --checkpoint a",
        "run --nodes 3 --applications 2 --scheduler fcfs --save-scenario a.toml",
        "compare --nodes 3 --applications 2 --report a.html",
        "sweep a.toml --out a.csv",
        "report PLACE/a.npz --out a.html",
        "report PLACE/a.npz --out PLACE/a.html",
        "report a.npz --out PLACE/a.html",
    ],
)
def test_a_removed_current_folder_is_reported(folder, command):
    """Relative paths have no folder then; absolute ones work."""
    run_command("run", *SMALL, "--out", "a.npz")
    Path("gone").mkdir()
    os.chdir("gone")
    Path(folder, "gone").rmdir()
    if "PLACE/a.npz --out PLACE" in command:
        run_command(*command.replace("PLACE", str(folder)).split())
    else:
        assert (
            error_of(*command.replace("PLACE", str(folder)).split()) == "the current folder no longer exists"
        )


def test_modules_load_without_a_current_folder(folder, toy):
    Path("gone").mkdir()
    os.chdir("gone")
    Path(folder, "gone").rmdir()
    run_command("run", *SMALL, "--scheduler", toy)
    actual = error_of("run", "--scheduler", "absent_module:X")
    assert "No module named 'absent_module', which is not in this folder (which was removed)" in actual


def test_invalid_schedulers_are_rejected(folder, toy):
    assert error_of("run", "--scheduler", "absent_module:X").startswith(
        "cannot import scheduler 'absent_module:X': "
    )
    Path("broken.py").write_text("1 / 0\n")
    assert error_of("run", "--scheduler", "broken:X").endswith(
        "ZeroDivisionError: division by zero (broken.py:1)"
    )
    Path("ends.py").write_text("import sys\n\nsys.exit(0)\n")
    assert error_of("run", "--scheduler", "ends:X").endswith("ends:X': SystemExit: 0 (ends.py:3)")
    Path("needs.py").write_text("import absent_module\n")
    assert error_of("run", "--scheduler", "needs:X").endswith("No module named 'absent_module' (needs.py:1)")
    actual = error_of("run", "--scheduler", "gridsim:Scheduler")
    assert actual == "--scheduler 'gridsim:Scheduler' must define start(run), which Scheduler does not"
    actual = error_of("run", "--scheduler", "gridsim:NodeScheduler")
    assert actual == "NodeScheduler.policy must be a subclass of NodeProgram, got None"
    actual = error_of("run", "--scheduler", "gridsim.schedulers.centralized.heuristics:Batch")
    assert actual == "Batch.rule must be set by a subclass, got none"
    Path("picky.py").write_text(
        f"from {toy.partition(':')[0]} import Toy\n"
        "class Picky(Toy, frozen=True):\n"
        "    def __post_init__(self):\n"
        "        raise ValueError('never')\n"
        "class Idle(Toy, frozen=True):\n"
        "    def start(self, run):\n"
        "        return None\n"
    )
    assert error_of("run", "--scheduler", "picky:Picky") == "picky:Picky: ValueError: never"
    actual = error_of("run", "--scheduler", "picky:Idle")
    assert actual == "t = 0.0 s: start() must return a Policy, got NoneType"
    assert (
        error_of("compare", "--schedulers", f"{toy},{toy}")
        == f"--schedulers must name different schedulers, got 'toy' twice; a variant has a label, "
        f"LABEL={toy}"
    )
    assert (
        error_of("compare", "--schedulers", ",") == "--schedulers must name at least one scheduler, got none"
    )
    assert error_of("run", "absent.toml", "--scheduler", toy) == "absent.toml: No such file or directory"


def test_unknown_schedulers_get_a_hint(folder):
    actual = error_of("run", "--scheduler", "x")
    assert actual.startswith("unknown scheduler 'x'; gridsim list schedulers shows all ")
    Path("x.py").write_text("import gridsim\n\n\nclass Mine(gridsim.NodeScheduler):\n    pass\n")
    assert error_of("run", "--scheduler", "x").endswith("x.py is in this folder: did you mean x:Mine?")
    assert "is not the name of a module" in error_of("run", "--scheduler", "../x:Mine")


def test_the_command_offers_and_runs_the_builtin_schedulers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = json.loads(run_command("compare", "--nodes", 16, "--applications", 5, "--json").stdout)
    assert [row["name"] for row in answer["schedulers"]] == ["fair-tree", "fair-tree-root", "mincent", "fcfs"]
    scenario = Scenario(
        Platform.desktop_grid(8, 1),
        Workload.bags(4, seed=1),
        schedulers={"fair-tree": {"bound": 3.0}, "mincent-once": {}},
    )
    scenario.save("s.toml")
    answer = json.loads(run_command("run", "s.toml", "--json").stdout)
    assert answer["parameters"]["bound"] == 3.0
    message = "fair-tree.samples must be a whole number or a list of 3 whole numbers, got '30,x'"
    assert error_of("run", "s.toml", "--set", "fair-tree.samples=30,x") == message
    run_command("run", "s.toml", "--set", "fair-tree.bound=1.5", "--save-scenario", "t.toml")
    assert Scenario.from_toml("t.toml").schedulers["fair-tree"] == {"bound": 1.5}
    Path("u.toml").write_text(scenario.to_toml().replace("mincent-once", "mincentt"))
    assert error_of("run", "u.toml").startswith("unknown scheduler 'mincentt'; did you mean mincent? ")


def test_an_interrupted_run_exits_with_130(folder, toy):
    answer = invoke("run", "--scheduler", toy, *SMALL, "--set", f"{toy}.mode=interrupt", "--out", "r.npz")
    assert answer.exit_code == 130 and answer.stderr == "gridsim: interrupted\n"
    assert not os.path.exists("r.npz")


def test_trace_info_and_lint_report_a_log(folder):
    Path("log.swf").write_text(f"{job(1, 100, 10, 1)}\n{job(2, 50, 0, 1)}\n")
    assert "records" in run_command("trace", "info", "log.swf").stdout
    assert json.loads(run_command("trace", "info", "log.swf", "--json").stdout)["records"] == 2
    assert "unsorted-submit" in run_command("trace", "lint", "log.swf").stdout
    answer = json.loads(run_command("trace", "lint", "log.swf", "--json").stdout)
    assert {cli_result["code"] for cli_result in answer["findings"]} >= {"unsorted-submit", "zero-run-time"}
    Path("log.swf").write_text(f"{job(1, 100, 10, 1)} \n1 2 3\n")
    cli_result = invoke("trace", "lint", "log.swf")
    assert cli_result.exit_code == 1 and "missing-fields" in cli_result.stdout
    assert error_of("trace", "lint", "log.swf", "--format", "x").startswith("format must be one of swf")


def test_info_reads_a_grid_workload_log(folder):
    Path("log.gwf").write_text("# Site: toy\n" + "1 0 0 60 1 -1 -1 1 -1 -1 1 U7" + " -1" * 17 + "\n")
    assert json.loads(run_command("trace", "info", "log.gwf", "--json").stdout)["format"] == "gwf"
    assert run_command("trace", "lint", "log.gwf").exit_code == 0
    assert run_command("run", "--nodes", 4, "--job-log", "log.gwf").exit_code == 0
    Path("hosts.csv").write_text("id,cpu_model\n")
    assert error_of("run", "--job-log", "hosts.csv").startswith("hosts.csv:1: the file must be a job")


def run_process(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-m", "gridsim.cli.main", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )


def test_the_command_runs_as_a_process(folder, toy):
    with run_process("run", "--scheduler", toy, *SMALL, "--json") as process:
        out, err = process.communicate()
    assert process.returncode == 0 and err == "" and json.loads(out)["machines"] == 5
    with run_process("run", "--scheduler", toy, "--nodes", -3, "--out", "r.npz") as process:
        out, err = process.communicate()
    expected = "gridsim: --nodes must be a whole number in 1..1073741824, got -3\n"
    assert (process.returncode, out, err) == (2, "", expected)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_control_c_ends_a_running_command(folder):
    Path("waiting.py").write_text(
        "import sys, time\nprint('up', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    )
    # background jobs of a shell ignore SIGINT, and so do their children
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with run_process("run", "--scheduler", "waiting:X", **heed) as process:
        assert process.stderr.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "gridsim: interrupted\n")


def test_importing_the_package_loads_no_optional_libraries(tmp_path):
    code = "import sys, gridsim, gridsim.simulation.simulate; print(*sorted(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=True,
    )
    loaded = set(process.stdout.split())
    assert not loaded & {"click", "tqdm", "tomli_w", "gridsim.traces"}
    assert not loaded & {"pandas", "pyarrow", "xarray", "scipy", "matplotlib", "dask", "distributed"}


def test_a_run_imports_one_scheduler(tmp_path):
    """A run also imports only the kernels and packages that it needs."""
    code = """if True:
        import sys, gridsim as gs
        scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.bags(2, 10.0, seed=1))
        gs.simulate(scenario, "fcfs")
        print(*sorted(sys.modules))
    """
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-c", code]
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True
    )
    loaded = set(process.stdout.split())
    assert {"gridsim.schedulers.centralized.pull", "gridcore.queues.task_queues"} <= loaded
    assert not loaded & {
        "gridsim.schedulers.fair_tree",
        "gridsim.schedulers.dgs",
        "gridcore.nodes.message_core",
    }
    assert not loaded & {"importlib.metadata", "multiprocessing", "tomllib", "zipfile"}


def test_every_table_of_a_scenario_affects_the_result(folder):
    """The command runs and saves the scenario of the file with all its tables."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(5, seed=2),
        gs.Workload.bags(4, 10.0, task_size=3000.0, seed=3),
        gs.Network(latency=0.02, jitter=0.01, task_data=5e5),
        seed=9,
        schedulers={"fair-tree": {"bound": 1.5}},
        faults=gs.Faults.exponential(up=60.0, down=9.0, seed=4),
    )
    scenario.save("all.toml")
    data = json.loads(run_command("run", "all.toml", "--json", "--save-scenario", "again.toml").stdout)
    expected = gs.simulate(scenario, gs.FairTree(bound=1.5))
    assert expected.applications["resubmitted"].sum() > 0
    assert data["digest"] == expected.digest
    assert gs.Scenario.from_toml("again.toml") == scenario


def test_background_load_is_saved_with_the_scenario(folder, toy):
    """Schedulers that do not support it are rejected."""
    module, _, name = toy.partition(":")
    class_source = f"class Able({name}, frozen=True):\n    fluctuating = True\n"
    Path("able_to_fluctuate.py").write_text(f"from {module} import {name}\n{class_source}")
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(5, seed=2),
        gs.Workload.bags(4, 10.0, task_size=3000.0, seed=3),
        fluctuation=gs.Fluctuation.uniform(0.25, 0.75, 10.0, seed=1),
    )
    scenario.save("slow.toml")
    run_command("run", "slow.toml", "--scheduler", "able_to_fluctuate:Able", "--save-scenario", "again.toml")
    assert gs.Scenario.from_toml("again.toml") == scenario
    error = error_of("run", "slow.toml", "--scheduler", "fcfs")
    assert error == "fcfs does not support fluctuation (background load)"


def test_python_m_gridsim_runs_the_command(tmp_path):
    """The command runs in another folder than the sources, which may lack compiled kernels."""
    command = [sys.executable, "-m", "gridsim", "--help"]
    output = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert output.returncode == 0 and output.stdout.startswith("Usage: gridsim ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["emulate", *SMALL, "--speedup", 0], "--speedup must be a number > 0, got 0.0"),
        (["compare", *SMALL, "--replicates", 0], "--replicates must be a whole number"),
        (["compare", *SMALL, "--replicates", 2, "--threads", 2], "--replicates does not support --threads"),
        (["run", *SMALL, "--observe", "mean", "--observe-every", 0], "--observe-every must be a finite"),
        (["run", *SMALL, "--scheduler", "wqr-ft"], "unknown scheduler 'wqr-ft'; did you mean WQR-FT?"),
    ],
)
def test_errors_name_the_flag_and_not_the_argument(arguments, text):
    assert error_of(*arguments).startswith(text)


# -- power --------------------------------------------------------------------------------------------------


def test_power_counts_energy_and_keeps_the_carbon_intensity_of_the_file(tmp_path):
    power = gs.Power(idle=1.0, busy=2.0, off=3.0, carbon=100.0)
    scenario = gs.Scenario(gs.Platform.equal(3, power=power), gs.Workload.bags(2, seed=1))
    scenario.save(tmp_path / "s.toml")
    table = run_command("compare", tmp_path / "s.toml", "--power", "95,190.5", "--schedulers", "fcfs,mincent")
    assert "energy" in table.output and "carbon" in table.output
    expected = scenario.replaced(
        {"platform.power.idle": 95.0, "platform.power.busy": 190.5, "platform.power.off": 0.0}
    )
    text = run_command("run", tmp_path / "s.toml", "--power", "95,190.5", "--scheduler", "mincent").output
    assert f"{gs.simulate(expected, 'mincent').energy:.4g} kWh" in text
    for value, fault in (
        ("95", "--power must be IDLE,BUSY[,OFF], or NAME=IDLE,BUSY[,OFF] of each site, got '95'"),
        ("1,2,3,4", "--power must be IDLE,BUSY[,OFF], or NAME=IDLE,BUSY[,OFF] of each site, got '1,2,3,4'"),
        ("a=1,2", "--power must name no sites, since the platform has none, got 'a=1,2'"),
        ("a,1", "--power must be numbers in W, such as 95,190, got 'a,1'"),
        ("-1,1", "--power must be a number in 0..1e+09 W, got -1.0"),
        ("2 kW,5", "--power must have a BUSY of at least IDLE, got '2 kW,5'"),
    ):
        assert fault in error_of("run", "--nodes", "3", "--power", value)


@pytest.mark.parametrize("command", [["compare"], ["run", "a.toml"], ["list", "schedulers"]])
def test_a_file_after_the_flag_json_is_an_error(command: list[str]) -> None:
    found = CliRunner().invoke(cli, [*command, "--json", "answer.json"])
    assert found.exit_code == 2 and "--json does not take a file, got answer.json; to" in found.stderr


@pytest.mark.parametrize("command", ["run", "compare --schedulers fcfs"])
def test_platform_workload_and_load_are_printed_before_the_run(command):
    answer = invoke(*command.split(), "--nodes", 5, "--applications", 2, "--time-limit", 1)
    assert answer.exit_code == 2 and "time_limit" in answer.stderr
    assert [line.split()[0] for line in answer.stdout.splitlines() if line[0] != " "][:3] == [
        "platform",
        "workload",
        "load",
    ]
