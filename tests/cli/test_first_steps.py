"""First steps with the command line: lists, example files, units in strings, warnings and verbosity."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import gridsim as gs
from gridsim.cli.commands.init import FILES, example
from gridsim.cli.main import cli
from gridsim.scheduling.registry import registered
from gridsim.support.units import UNITS, number

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def run_command(*words: object) -> str:
    answer = invoke(*words)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_different_schedulers_have_different_summaries() -> None:
    summaries: dict[str, list[gs.Scheduler]] = {}
    for cls, preset in registered().values():
        summaries.setdefault(cls(**preset).summary, []).append(cls(**preset))
    assert [each for each in summaries.values() if any(other != each[0] for other in each)] == []


# -- lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what",
    [
        "schedulers",
        "metrics",
        "workloads",
        "traces",
        "parameters fair-tree",
        "parameters mincent",
        "keys network",
        "keys workload",
        "keys platform.power",
        "columns requests",
        "facts",
        "provenance",
    ],
)
def test_lists_fit_the_terminal_and_support_json(what: str) -> None:
    text = run_command("list", *what.split())
    rows = json.loads(run_command("list", *what.split(), "--json"))
    assert max(map(len, text.splitlines())) <= 100
    for row in rows:
        first = str(next(iter(row.values())))
        assert first in text and row["what"], row


def test_lists_have_all_registered_schedulers() -> None:
    rows = json.loads(run_command("list", "schedulers", "--json"))
    assert [row["name"] for row in rows] == list(registered())
    reasons = {row["name"]: {item["where"]: item["because"] for item in row["environment"]} for row in rows}
    tree = reasons["fair-tree"]
    assert "repair of the tree takes no time" in tree["maintenance = 'ideal'"]
    assert "record of a submitter survives" in tree["maintenance = 'messages'"]
    assert [*reasons["rjss"]] == ["", "faults.reachable = true"] and "owners" not in reasons["rjss"][""]
    assert "kept by its user" in reasons["zorilla"][""] and reasons["sparrow"] == reasons["mct"] == {}
    modes = {row["what"].partition("First come")[2] for row in rows if row["name"].startswith("fcfs")}
    assert len(modes) == 3  # each says how tasks come to machines
    actual = {row["name"]: row for row in json.loads(run_command("list", "parameters", "backfill", "--json"))}
    assert (actual["backfill"]["value"], actual["backfill"]["default"]) == (
        "none, easy, conservative",
        "easy",
    )
    assert actual["user_limit"]["default"] is None and actual["max_age"]["unit"] == "s"
    for words, name in {"parameters fair-tre": "fair-tree", "keys faults zone": "zones"}.items():
        wrong = invoke("list", *words.split())
        assert wrong.exit_code == 2 and f"did you mean {name}?" in wrong.stderr


def test_keys_of_a_kind_include_those_of_all_kinds() -> None:
    every = json.loads(run_command("list", "keys", "platform", "--json"))
    rows = json.loads(run_command("list", "keys", "platform", "uniform", "--json"))
    assert rows == [row for row in every if row["kind"] in ("all", "uniform")]
    assert {row["name"]: row["kind"] for row in rows}["cores"] == "all"
    [low] = [row for row in rows if row["name"] == "low"]
    assert (low["value"], low["unit"], low["default"]) == ("number >= 1e-06", "Mflop/s", 1000.0)


@pytest.mark.parametrize(
    "words, incomplete, names",
    [
        ("compare --schedulers", "mincent,fair-", ["mincent,fair-tree", "mincent,fair-tree-root"]),
        ("sweep --metrics", "gap,wast", ["gap,wasted"]),
        ("export --format", "s", ["swf"]),
        ("run --set", "fair-tree.bou", ["fair-tree.bound="]),
        ("list parameters", "fair-tree-", ["fair-tree-root"]),
        ("store", "me", ["merge"]),
    ],
)
def test_the_shell_completes_names(words: str, incomplete: str, names: list[str]) -> None:
    completed = ShellComplete(cli, {}, "gridsim", "_GRIDSIM_COMPLETE")
    actual = completed.get_completions(words.split(), incomplete)
    assert [item.value for item in actual] == names


# -- example files ------------------------------------------------------------------------------------------


@pytest.fixture
def example_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert "next: gridsim compare scenario.toml" in run_command("init", "all")
    return tmp_path


def test_init_writes_the_examples(example_folder: Path) -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not part of this copy")
    written = {file.name: file.read_bytes() for file in example_folder.iterdir()}
    assert set(written) == set(FILES["all"])
    assert written == {file.name: file.read_bytes() for file in EXAMPLES.iterdir() if file.is_file()}


def test_init_keeps_existing_files(example_folder: Path) -> None:
    (example_folder / "scenario.toml").write_text("mine")
    message = json.loads(run_command("init", "study", "--json"))
    assert message == {"written": [], "kept": ["./scenario.toml", "./study.toml"]}
    assert (example_folder / "scenario.toml").read_text() == "mine"
    assert "next: cd new && gridsim compare log.toml" in run_command("init", "traces", "new")


def test_example_scenarios_run(example_folder: Path) -> None:
    for file in ("scenario.toml", "log.toml"):
        text = run_command("compare", file, "--schedulers", "mincent,fcfs")
        assert "has the lowest max stretch" in text
    commented = (example_folder / "scenario.toml").read_text()
    failing = commented[commented.index("# [faults]") :].replace("\n# ", "\n").removeprefix("# ")
    actual = gs.Scenario.from_text(commented[: commented.index("# [faults]")] + failing)
    assert actual.faults == gs.Faults.exponential(14_400.0, 600.0, 1)
    assert not invoke("trace", "lint", "jobs.swf").exit_code
    assert not invoke("trace", "lint", "hosts.avt").exit_code


def test_example_study_runs(example_folder: Path) -> None:
    message = json.loads(run_command("sweep", "study.toml", "--replicates", 1, "--workers", 1, "--json"))
    assert len(message["cells"]) == 18 and not any(cell["error"] for cell in message["cells"])


@pytest.mark.parametrize("name", ["dealing", "pigeon"])
def test_example_schedulers_and_their_tests_run(example_folder: Path, name: str) -> None:
    text = run_command("compare", "scenario.toml", "--schedulers", f"{name}:{name.title()},mincent")
    assert f"\n{name} " in text
    namespace: dict[str, object] = {}
    exec(example(f"test_{name}.py").decode(), namespace)
    for name, test in namespace.items():
        if name.startswith("test_"):
            test()  # type: ignore[operator]


def test_commands_of_the_lesson_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_command("init", "lesson")
    sheet = Path("exercises.md").read_text()
    lines = [
        line for block in re.findall(r"^```\n(.*?)^```", sheet, re.M | re.S) for line in block.splitlines()
    ]
    for line in lines:
        run_command(*shlex.split(line)[1:], *(["--workers", 1] if "--replicates" in line else []))
    assert {line.split()[1] for line in lines} == {"run", "compare", "init"}
    assert "edit its speeds in the file" in invoke("run", "lesson.toml", "--nodes", 16).stderr
    solved = (
        Path("two.py")
        .read_text()
        .replace(
            "        return view.random.integers(view.machines)\n",
            "        one, other = view.random.integers(view.machines), view.random.integers(view.machines)\n"
            "        return one if view.board[one] <= view.board[other] else other\n",
        )
    )
    Path("solved.py").write_text(solved)
    queue = ("compare", "queue.toml", "--nodes", 50, "--schedulers", "solved:Two,random", "--json")
    two, random = (row["mean_completion"] for row in json.loads(run_command(*queue))["schedulers"])
    assert two == pytest.approx(1.95, rel=0.05) and random == pytest.approx(5.0, rel=0.1)
    assert Path("tree.html").is_file() and Path("own.gridsim").is_file()


# -- units in strings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("50 ms", "s", 0.05),
        ("35ms", "s", 0.035),
        ("4 h", "s", 14_400.0),
        ("1.5e3 us", "s", 0.0015),
        ("1 Gbit/s", "bytes/s", 1.25e8),
        ("1 MiB", "bytes", 1048576.0),
        ("65 Gflop", "Mflop", 65000.0),
        ("2 Gflop/s", "Mflop/s", 2000.0),
        ("-1 s", "s", -1.0),
        ("1e999 s", "s", float("inf")),
        ("5", "s", None),
        ("5 Ms", "s", None),
        ("5 s", "bytes", None),
        ("1/3 s", "s", None),
        ("nan s", "s", None),
        ("\uff15ms", "s", None),
        ("\uff15.\uff10ms", "s", None),
        ("1e\uff15 ms", "s", None),
    ],
)
def test_units_are_converted(text: str, unit: str, value: float | None) -> None:
    assert number(text, unit) == value


def test_units_are_read_in_files_flags_and_python() -> None:
    toml = """
seed = 1
[platform]
kind = "list"
speeds = ["1 Gflop/s", 2000]
[workload]
kind = "bags"
seed = 1
task_size = {low = "1 Gflop", high = 2000}
[network]
latency = "35 ms"
bandwidth = "1 Mbit/s"
"""
    scenario = gs.Scenario.from_toml(toml)
    assert scenario.platform.speeds.tolist() == [1000.0, 2000.0]
    assert scenario.network == gs.Network(latency="35 ms", bandwidth="1 Mbit/s")  # type: ignore[arg-type]
    assert (scenario.network.latency, scenario.network.bandwidth) == (0.035, 125_000.0)
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
    assert scenario.replaced({"network.latency": "1 s"}).network.latency == 1.0
    assert gs.FairTree(heartbeat="5 min") == gs.FairTree(heartbeat=300.0)  # type: ignore[arg-type]
    with pytest.raises(
        gs.ScenarioError, match=r"network.latency must be .*'5 parsec' \(a string requires a unit: ns"
    ):
        scenario.replaced({"network.latency": "5 parsec"})
    flags = ("--nodes", 9, "--applications", 2, "--scheduler", "mincent", "--json")
    texts = ("--latency", "100 ms", "--task-size", "1 Gflop..2 Gflop", "--time-limit", "1000 d")
    plain = ("--latency", 0.1, "--task-size", "1000..2000", "--time-limit", 8.64e7)
    one, two = (json.loads(run_command("run", *flags, *item)) for item in (texts, plain))
    assert one["digest"] == two["digest"] and one["provenance"]["scenario"] == two["provenance"]["scenario"]
    wrong = invoke("run", "--latency", "5 lightyears")
    assert wrong.exit_code == 2 and "with a unit: ns, us, ms, s, min, h, d" in wrong.stderr
    assert all(unit in units for unit, units in UNITS.items() if unit in ("s", "Mflop", "Mflop/s"))


# -- failures, unusual values, verbosity --------------------------------------------------------------------


def test_flags_add_failures_to_a_scenario(example_folder: Path) -> None:
    small = ("scenario.toml", "--nodes", 8, "--applications", 2, "--json", "--schedulers", "mincent")
    for flags, faults in (
        (("--failures", "4 h"), gs.Faults.poisson(14_400.0, 1)),
        (("--failures", "4 h", "--down", 60), gs.Faults.exponential(14_400.0, 60.0, 1)),
        (("--availability", "hosts.avt"), gs.Faults.trace("hosts.avt", 1)),
    ):
        message = json.loads(run_command("compare", *small, *flags))
        assert gs.Scenario.from_text(message["scenario"]).faults == faults
    assert "--down requires --failures" in invoke("compare", *small, "--down", 60).stderr
    both = ("--failures", 60, "--availability", "hosts.avt")
    assert "exclude each other" in invoke("compare", *small, *both).stderr


LISTED = {"kind": "list", "release": [0, 1], "tasks": [1, 1], "task_size": [5.0, 6.5e10]}


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("network.latency", 50.0, "network.latency is 50 s"),
        ("workload.load", 80.0, r"workload.load is 80; .*\(80 % is 0.8\)"),
        ("network.bandwidth", 1.0, "network.bandwidth is 1 bytes/s"),
        ("workload.task_size", 6.5e10, r"workload.task_size is up to 6.5e\+10 Mflop, 376 days"),
        ("workload.task_size", 20.0, "workload.task_size is 20 Mflop on average, 0.01 s at the mean speed"),
        ("workload", LISTED, r"workload.task_size is up to 6.5e\+10 Mflop, 376 days"),
        ("platform", {"kind": "list", "speeds": [2000.0, 2.0]}, "platform has a machine of 2 Mflop/s"),
        ("faults", {"kind": "poisson", "mean": 4.0, "seed": 1}, "each machine fail after 4 s"),
    ],
)  # fmt: skip
def test_unusual_values_cause_a_warning(entry: str, value: object, message: str) -> None:
    usual = gs.Scenario(gs.Platform.equal(2, 2000.0), gs.Workload.bags(applications=1, tasks=2.0, seed=1))
    scenario = usual.replaced({entry: value})
    for run in (gs.simulate, lambda s, name, **options: gs.compare(s, [name], **options)):
        with (
            pytest.warns(gs.ModelWarning, match=f"unusual: .*{message}") as records,
            suppress(gs.ScenarioError),
        ):
            run(scenario, "mincent", time_limit=100.0)  # machines may fail too often for the run to end
        assert len(records) == 1 and records[0].filename == __file__


@pytest.mark.parametrize(
    ("scheduler", "latency", "message"),
    [
        (gs.Market(), 2.6, "market.patience is 5 s, but a round trip of the network takes up to 5.2 s:"),
        (gs.WorkStealing(), 2.6, "work-stealing.patience is 2 s, but a round trip"),
        (gs.ExpandingRing(), 0.3, "expanding-ring.hop_time is 0.2 s, but a message of the"),
        (gs.Market(patience=6.0), 2.6, ""),
        (gs.ExpandingRing(), 0.2, ""),
        (gs.Sparrow(), 10.0, ""),  # no machine can fail
    ],
)  # fmt: skip
def test_waits_shorter_than_the_network_needs_cause_one_warning(
    scheduler: gs.Scheduler, latency: float, message: str, recwarn: pytest.WarningsRecorder
) -> None:
    from gridsim.simulation.options import Options
    from gridsim.simulation.simulate import Simulation

    warnings.simplefilter("always")
    workload = gs.Workload.bags(applications=1, tasks=2.0, seed=1)
    scenario = gs.Scenario(gs.Platform.equal(4, 2000.0), workload, gs.Network(latency=latency))
    Simulation(scenario, scheduler, Options())
    assert [str(entry.message)[: len(message)] for entry in recwarn] == [message] * bool(message)


def _unusual_faults(nodes: int, machine: list[int], down: list[float]) -> list[str]:
    from gridsim.model.sanity_checks import unusual_values

    faults = gs.Faults.of(machine=machine, down=down, up=[instant + 1.0 for instant in down])
    workload = gs.Workload.bags(applications=1, tasks=2.0, seed=1)
    return list(unusual_values(gs.Scenario(gs.Platform.equal(nodes, 2000.0), workload, faults=faults)))


def test_listed_outages_cause_a_warning_only_if_machines_fail_often() -> None:
    assert not _unusual_faults(4, [0], [10.0]) and not _unusual_faults(1, [0], [10.0])
    assert not _unusual_faults(4, [0, 1, 2, 3], [10.0] * 4)  # all machines fail once, at the same time
    assert not _unusual_faults(
        4, [0] * 50, [10.0 * k for k in range(1, 51)]
    )  # only one machine of four fails
    assert not _unusual_faults(2, [0, 1] * 2, [900.0, 900.0, 1800.0, 1800.0])
    often = [10.0 * (1 + k // 2) for k in range(40)]  # up for 10 s, then 19 times for 9 s, within 201 s
    assert _unusual_faults(2, [0, 1] * 20, often) == [
        'faults make each machine fail after 9.05 s on average (in s, or with a unit: "4 h")'
    ]
    # the third machine is always up
    assert "fail after 14.075 s" in _unusual_faults(3, [0, 1] * 20, often)[0]


def test_the_default_scenario_gives_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    from gridsim.cli.scenario_flags import default_scenario
    from gridsim.model.sanity_checks import unusual_values

    assert not list(unusual_values(default_scenario()))


def test_the_width_of_output_is_that_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    run_words = "run", "--scheduler", "mincent", "--nodes", 5, "--applications", 3
    assert len(run_command(*run_words).splitlines()[1]) > 70
    monkeypatch.setenv("COLUMNS", "60")
    assert len(run_command(*run_words).splitlines()[1]) <= 60


def test_the_flag_v_logs_the_steps_of_a_run(example_folder: Path) -> None:
    answer = invoke("-v", "compare", "scenario.toml", "--schedulers", "mincent", "--nodes", 5)
    assert "gridsim: scenario of scenario.toml" in answer.stderr
    assert "gridsim: mincent: run of 20 applications begins" in answer.stderr
    assert "reading" not in answer.stderr
    detailed = invoke("-vv", "run", "log.toml", "--scheduler", "mincent")
    assert "gridsim: reading hosts.avt" in detailed.stderr
    assert not invoke("run", "log.toml", "--scheduler", "mincent").stderr
