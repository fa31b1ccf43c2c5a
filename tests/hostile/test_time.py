"""Small files that once took hours or gigabytes: each is processed or rejected quickly."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import OutOfMemory, ScenarioError
from gridsim.model.fault_events import TooManyChanges, display_limit
from gridsim.results.table import Table
from gridsim.studies.sweep import Sweep
from gridsim.support import toml as toml_files
from gridsim.validation.results import validate_result
from tests._helpers.archives import change_archive

pytestmark = pytest.mark.slow

N = 1_000_000


@pytest.mark.parametrize("text", ["a" * N + "." * 64, "é-" * N + "." * 64])
def test_a_long_text_is_parsed_in_linear_time(text: str) -> None:
    assert toml_files.parse(f"x = '{text}'", "a") == {"x": text}


def test_a_long_message_of_the_parser_is_processed_in_linear_time() -> None:
    """The message quotes the long key."""
    with pytest.raises(ScenarioError, match="^a:1: column 2000020: Duplicate inline table key '  "):
        toml_files.parse(f'x = {{"{" " * N}" = 1, "{" " * N}" = 1}}', "a")
    with pytest.raises(ScenarioError, match=r"^a:2: at the end of the file: Expected .*$"):
        toml_files.parse("y = 1\nx = 'a (at line 1, column 1)", "a")


def test_sweeps_of_many_axes_are_checked_quickly(scenario: gs.Scenario) -> None:
    over = {f"a.x{k}": [1] for k in range(40_000)}
    assert len(Sweep(scenario=scenario, schedulers={"met": gs.Met()}, over=over).over) == 40_000
    with pytest.raises(ScenarioError, match="over: a.x7 and a.x7.y both change a.x7"):
        Sweep(scenario=scenario, schedulers={"met": gs.Met()}, over=over | {"a.x7.y": [1]})


def test_sweeps_of_many_values_are_generated_quickly(scenario: gs.Scenario) -> None:
    """The changes of a point are looked up rather than searched for."""
    values = {"platform.nodes": range(1, 100_001)}
    *_, (point, changes) = Sweep(scenario=scenario, schedulers={"met": gs.Met()}, over=values).points()
    assert point == changes == {"platform.nodes": 100_000}


def test_too_frequent_checkpoints_of_tasks_are_rejected(scenario: gs.Scenario, tmp_path: Path) -> None:
    """Under background load, validation goes through all checkpoints of a task."""
    fluctuation = gs.Fluctuation.uniform(low=0.5, high=1.0, period=0.1, seed=1)
    own = gs.Scenario(
        scenario.platform,
        scenario.workload,
        faults=gs.Faults.exponential(up=1.0, down=0.1, seed=1),
        fluctuation=fluctuation,
    )
    gs.simulate(own, gs.WqrFt(), record=True).save(tmp_path / "a.npz")
    assert validate_result(tmp_path / "a.npz") == []
    for interval, cost, message in (
        (1e-8, 0.0, "checkpoint_interval makes .* at most 50000000 are gone"),
        (1e-9, 0.0, "checkpoint_interval makes .* at most 50000000 are gone"),
        (1e-9, -1e-9, "scheduler.parameters.checkpoint_cost must be at least 0 s, got -1e-09"),
    ):

        def edit_json(document: Any, interval: float = interval, cost: float = cost) -> None:
            document["facts"]["checkpoint_interval"] = interval
            document["scheduler"]["parameters"]["checkpoint_cost"] = cost

        with pytest.raises(ScenarioError, match=message):
            validate_result(change_archive(tmp_path / "a.npz", edit_json=edit_json))


def with_rows(result: gs.Result, tables: dict[str, dict[str, Any]]) -> gs.Result:
    """Return the result with other columns, of equal length, in some of its tables."""
    change_archive = {name: Table(dict(result.tables[name]) | columns) for name, columns in tables.items()}
    return gs.Result(
        tables={**result.tables, **change_archive},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )


def repeated_rows(result: gs.Result, name: str, count: int, **other: Any) -> dict[str, Any]:
    """Return the first row of a table `count` times, with other columns."""
    table = result.tables[name]
    return {key: np.repeat(column[:1], count) for key, column in table.items()} | other


def test_many_replicas_of_a_task_are_validated_quickly(scenario: gs.Scenario) -> None:
    """Each replica was once compared with all earlier ones."""
    faults = gs.Faults.exponential(up=1.0, down=0.1, seed=1)
    own = gs.Scenario(scenario.platform, scenario.workload, faults=faults)
    result = gs.simulate(own, gs.WqrFt(), record=True)
    table = result.tables["schedule"]
    more = repeated_rows(
        result, "schedule", N // 2, completed=np.zeros(N // 2, np.int64), begin=np.zeros(N // 2)
    )
    more["end"] = np.nextafter(more["start"], np.inf)
    full_run = {key: np.concatenate((column, more[key])) for key, column in table.items()}
    message = {item.law: item.count for item in validate_result(with_rows(result, {"schedule": full_run}))}
    assert message.pop("cut off") == N // 2 and "begin" not in message


def test_many_kinds_of_messages_are_validated_quickly(scenario: gs.Scenario) -> None:
    """Each kind was once searched for in the whole log."""
    result = gs.simulate(scenario, gs.FairTree(), record="all")
    kinds = np.array([f"kind{k}" for k in range(100_000)])
    log = repeated_rows(result, "message_log", len(kinds), kind=kinds)
    none = np.zeros(len(kinds), np.int64)
    table = repeated_rows(result, "messages", len(kinds), kind=kinds, sent=none + 1, bytes=log["bytes"])
    table |= {"delivered": table["sent"], "dropped": none, "in_flight": none}
    laws = [item.law for item in validate_result(with_rows(result, {"messages": table, "message_log": log}))]
    assert "messages" not in laws
    table["sent"] = np.where(np.arange(len(kinds)) % 10, table["sent"], 2)
    table["in_flight"] = table["sent"] - table["delivered"]
    violations = validate_result(with_rows(result, {"messages": table, "message_log": log}))
    assert [item.count for item in violations if item.where == "messages.sent[0]"] == [10_000]


def test_many_kinds_of_messages_are_reported_quickly(scenario: gs.Scenario, tmp_path: Path) -> None:
    """Each row of a table once took a pass over all rows."""
    result = gs.simulate(scenario, gs.FairTree(), record="all")
    kinds = np.array([f"kind{k}" for k in range(20_000)])
    tables = {name: repeated_rows(result, name, len(kinds), kind=kinds) for name in ("messages", "traffic")}
    with_rows(result, tables).save(tmp_path / "a.npz")
    answer = CliRunner().invoke(cli, ["report", str(tmp_path / "a.npz"), "--out", str(tmp_path / "a.html")])
    assert answer.exit_code == 0 and "kind19999" in (tmp_path / "a.html").read_text()


def test_many_failures_during_many_rows_are_validated_quickly() -> None:
    """Each row of the schedule was once compared with all failures during it."""
    count = 10_000
    instants = 1.0 + np.arange(count) * 1e-3
    scenario = gs.Scenario(
        gs.Platform.of([1000.0]),
        gs.Workload.of([0.0], [1], [1e5]),
        faults=gs.Faults.of(machine=np.zeros(count, np.int64), down=instants, up=instants),
    )
    result = gs.simulate(gs.Scenario(scenario.platform, scenario.workload), gs.FairTree(), record=True)
    result = gs.Result(
        tables=result.tables,
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=dict(result.provenance) | {"scenario": scenario.to_toml()},
    )
    many = np.full(count, 2**40)
    rows = repeated_rows(result, "schedule", count, tasks=many, completed=many)
    with pytest.raises(ScenarioError, match=r"scenario.faults makes 1e\+08 failures while rows of the"):
        validate_result(with_rows(result, {"schedule": rows}))
    many = many[::10]
    rows = repeated_rows(result, "schedule", len(many), tasks=many, completed=many)
    assert "lost" not in {item.law for item in validate_result(with_rows(result, {"schedule": rows}))}


@pytest.mark.parametrize("name", ["schedule", "arrivals"])
def test_rows_of_too_many_tasks_are_counted_in_one_message(scenario: gs.Scenario, name: str) -> None:
    """Each task was once reported separately."""
    result = gs.simulate(scenario, gs.Rjss(), record="all")
    rows = dict(result.tables[name]) | {"tasks": result.tables[name]["tasks"] + 2**40}
    if name == "schedule":
        rows["completed"] = rows["tasks"]
    message = [str(item) for item in validate_result(with_rows(result, {name: rows}))]
    assert f"order: {name}: has {len(rows['tasks']) * 2**40:g} tasks, but there are 5 jobs" in message


def with_scenario(file: Path, scenario: gs.Scenario) -> Path:
    """Replace the scenario that a result states, which no digest covers."""
    return change_archive(
        file, edit_json=lambda answers: answers["provenance"].update(scenario=scenario.to_toml())
    )


@pytest.mark.parametrize(
    "faults",
    [
        gs.Faults.poisson(1e-6, seed=1),
        gs.Faults.weibull(0.01, 1e-152, 1.0, 1e-300, seed=1),  # the first block has no end
        gs.Faults.zones(1, day_up=0.99, spell=1.0),
    ],
)
def test_reports_and_plots_do_not_run_the_scenario_of_a_result(
    scenario: gs.Scenario, faults: gs.Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.npz"
    gs.simulate(scenario, gs.FairTree(), record="all").save(file)
    with_scenario(file, gs.Scenario(scenario.platform, scenario.workload, faults=faults))
    monkeypatch.setattr("gridsim.model.fault_events.MAX_DISPLAYED", 100_000)
    monkeypatch.chdir(tmp_path)
    for command in (["validate"], ["export", "--format", "perfetto", "--out", "x.json"]):
        answer = CliRunner().invoke(cli, [*command, "a.npz"])
        assert answer.stderr == (
            "gridsim: a.npz: faults must have at most 100000 changes to be displayed, got more\n"
        )
    for command in (["plot", "--kind", "gantt", "--figure", "x.svg"], ["report", "--out", "x.html"]):
        assert CliRunner().invoke(cli, [*command, "a.npz"]).exit_code == 0
    assert "machines were down too often to draw" in (tmp_path / "x.html").read_text()


def test_the_limit_of_displayed_changes_does_not_apply_to_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.model.fault_events.MAX_DISPLAYED", 1000)
    faults = gs.Faults.poisson(1.0, seed=1)
    assert sum(len(block) for block in islice(faults.course(8).blocks, 3)) > 10_000
    with pytest.raises(TooManyChanges):
        list(islice(faults.course(8, display_limit(8)).blocks, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"platform": gs.Platform.equal(10**6)}, "machines has 2 rows, the platform has 1000000 machines"),
        (
            {"workload": gs.Workload.bags(10**6, seed=1)},
            "applications has 2 rows, the workload has 1000000 applications",
        ),
    ],
)
def test_validation_does_not_generate_a_missing_workload(
    file: Path, scenario: gs.Scenario, change: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_scenario(
        file, gs.Scenario(**{"platform": scenario.platform, "workload": scenario.workload} | change)
    )
    monkeypatch.setattr(
        "gridsim.model.workload.Workload.realize", lambda *_: pytest.fail("the workload was generated")
    )
    (actual,) = validate_result(file)
    assert f"{actual.where} {actual.message}" == message


def test_jobs_beyond_the_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.support.memory.memory", lambda: 10**9)
    platform = gs.Platform.equal(100)
    with pytest.raises(OutOfMemory, match="workload.horizon: .* jobs take at least 100"):
        gs.Workload.job_streams(seed=1, horizon=1e8).realize(platform)


def test_machines_that_never_recover_are_displayed_quickly(
    scenario: gs.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 1e10 blocks, and only the first has changes."""
    file = tmp_path / "a.npz"
    gs.simulate(scenario, gs.FairTree(), record="all").save(file)
    faults = gs.Faults.weibull(1.0, 1e-9, 1.0, 1e300, seed=1)
    with_scenario(file, gs.Scenario(scenario.platform, scenario.workload, faults=faults))
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(cli, ["validate", "a.npz"])
    assert answer.exit_code == 1 and "dead machine: schedule[0]" in answer.stdout, answer.output
    answer = CliRunner().invoke(cli, ["export", "a.npz", "--format", "perfetto", "--out", "x.json"])
    assert answer.exit_code == 0, answer.output
