"""Sound results pass, and each kind of planted fault is detected."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.validation.results import validate_result

SCHEDULERS: dict[str, gs.Scheduler] = {
    "fair-tree": gs.FairTree(samples=(6, 4, 3)),
    "replan": gs.MinCent(),
    "once": gs.MinCent(mode="once"),
    "ect": gs.Fcfs(),
    "pull": gs.Fcfs(mode="pull"),
    "random": gs.Fcfs(mode="random"),
}
FAULTS = {
    "none": None,
    "resets": gs.Faults.of([0, 3, 3], [5.0, 7.0, 21.0], [5.0, 7.0, 21.0]),
    "outages": gs.Faults.of([1, 2, 2, 5], [4.0, 0.0, 30.0, 9.0], [12.0, 6.0, 31.0, float("inf")]),
}


def scenario(faults: gs.Faults | None = None, seed: int = 3) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes=8, seed=1),
        gs.Workload.bags(6, interarrival=4.0, tasks_per_node=3.0, task_size=[2000.0, 5000.0], seed=2),
        seed=seed,
        faults=faults,
    )


def test_rounding_of_differences_is_no_violation(tmp_path):
    scenario = gs.Scenario(gs.Platform.equal(1), gs.Workload.of([0.0, 20.0], [1, 1], [1.0, 0.001]))
    assert validate_result(gs.simulate(scenario, gs.Fcfs(), record=True)) == []
    short = gs.Scenario(gs.Platform.of([100.0]), gs.Workload.of([3e6 + 1 / 3], 1, 0.333))
    assert validate_result(gs.simulate(short, gs.Fcfs(), record=True)) == []


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_simulated_results_are_sound(name: str, faults: str) -> None:
    result = gs.simulate(scenario(FAULTS[faults]), SCHEDULERS[name], record=True)
    assert validate_result(result) == []
    cut = result.tables["schedule"]["completed"] == 0
    assert cut.sum() == result.machines["interrupted"].sum()
    assert (cut.sum() > 0) == (faults != "none")
    plain = gs.simulate(scenario(FAULTS[faults]), SCHEDULERS[name])
    assert plain.digest == result.digest and "schedule" not in plain.tables


RIGID: dict[str, gs.Scheduler] = {
    "dgs-asap": gs.DgsAsap(degree=5, slot=10.0),
    "asap": gs.Asap(slot=10.0),
    "backfill": gs.BatchQueue(),
}


def rigid_scenario(faults: gs.Faults | None = None) -> gs.Scenario:
    jobs = gs.Workload.jobs_of([0.0, 0.0, 3.0, 8.0, 9.0], [3, 1, 4, 2, 2], [25.0, 40.0, 20.0, 12.0, 30.0])
    return gs.Scenario(gs.Platform.equal(8), jobs, seed=3, faults=faults)


RIGID_FAULTS = {
    "none": None,
    "resets": gs.Faults.of([0, 1, 2, 3], [25.0, 21.0, 14.0, 33.0], [25.0, 21.0, 14.0, 33.0]),
    "outages": gs.Faults.of([1, 2, 3], [15.0, 30.0, 9.0], [120.0, 31.0, float("inf")]),
}


@pytest.mark.parametrize("faults", RIGID_FAULTS)
@pytest.mark.parametrize("name", RIGID)
def test_results_of_rigid_jobs_are_sound(name: str, faults: str) -> None:
    result = gs.simulate(rigid_scenario(RIGID_FAULTS[faults]), RIGID[name], record=True)
    assert validate_result(result) == []
    cut = result.tables["schedule"]["completed"] == 0
    assert cut.sum() == result.machines["interrupted"].sum() and (cut.sum() > 0) == (faults != "none")
    plain = gs.simulate(rigid_scenario(RIGID_FAULTS[faults]), RIGID[name])
    assert plain.digest == result.digest


def _laws_of_altered(table: str, column: str, k: int, value: float) -> list[str]:
    """Return the invariants broken by a sound result of rigid jobs with one changed value."""
    result = gs.simulate(rigid_scenario(), gs.BatchQueue(), record=True)
    columns = {name: values.copy() for name, values in result.tables[table].items()}
    columns[column][k] = value
    other = gs.Result(
        tables={**result.tables, table: gs.Table(columns)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )
    return [violation.law for violation in validate_result(other)]


COPIES: dict[str, gs.Scheduler] = {"wqr": gs.WqrFt(), "wave": gs.Wave()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COPIES, *SCHEDULERS])
def test_wrong_counts_of_failures_are_detected(name: str) -> None:
    """A change by one is detected in each value that scenario or schedule determine."""
    scheduler = {**COPIES, **SCHEDULERS}[name]
    bags = gs.Workload.bags(
        4,
        interarrival=4.0,
        tasks_per_node=2.0,
        task_size=8000.0,
        seed=2,
        spread=gs.Normal(0.5) if name in COPIES else None,
    )
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=8, seed=1),
        bags,
        seed=3,
        faults=gs.Faults.exponential(up=40.0, down=10.0, seed=4),
    )
    result = gs.simulate(scenario, scheduler, record=True)
    assert validate_result(result) == []
    assert result.machines["failures"].sum() and result.applications["resubmitted"].sum()
    laws = {
        "failures": "failures",
        "resubmitted": "agreement",
        "undisturbed": "agreement",
        "killed": "agreement",
        "replicas": "agreement",
        "smallest_task": "workload",
        "largest_task": "workload",
    }
    if name in COPIES:
        assert {"undisturbed", "smallest_task", "largest_task"} <= set(result.applications)
    waits, schedule = len(result.tables["arrivals"]) > 0, result.tables["schedule"]
    cut = np.bincount(schedule["application"][schedule["completed"] == 0], minlength=4)
    for column, law in laws.items():
        table = "machines" if column == "failures" else "applications"
        if column not in result.tables[table]:
            continue
        for by in (-1, 1):
            for k in range(len(result.tables[table])):
                columns = {item: values.copy() for item, values in result.tables[table].items()}
                columns[column][k] += by
                violations = [item.law for item in validate_result(_with_table(result, table, columns))]
                # tasks that waited on a failed machine are resubmitted, but are in no schedule
                is_possible = column == "resubmitted" and waits and columns[column][k] >= cut[k]
                assert law in violations or is_possible, (column, k, by)


def _with_table(result: gs.Result, table: str, columns: dict[str, NDArray[Any]]) -> gs.Result:
    return gs.Result(
        tables={**result.tables, table: gs.Table(columns)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )


@pytest.mark.parametrize(("table", "column"), [("machines", "failures"), ("applications", "resubmitted")])
def test_failure_counts_without_failures_are_detected(table: str, column: str) -> None:
    result = gs.simulate(scenario(), gs.Fcfs(), record=False)
    columns = {name: values.copy() for name, values in result.tables[table].items()}
    columns[column][3] = 1
    (violation,) = validate_result(_with_table(result, table, columns))
    assert violation.where == f"{table}.{column}[3]"


def test_machine_that_joins_late_has_no_failure_and_reset_machine_has_one() -> None:
    faults = gs.Faults.of([0, 1, 2, 3], [0.0, 0.0, 9.0, 1e6], [5.0, 0.0, 9.0, 1e6])
    result = gs.simulate(scenario(faults), gs.Fcfs(mode="pull"), record=True)
    assert result.machines["failures"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0] and validate_result(result) == []


@pytest.mark.parametrize(
    ("table", "column", "k", "value", "law"),
    [
        ("schedule", "start", 1, 0.5, "together"),
        ("schedule", "machine", 1, 0, "together"),
        ("schedule", "completed", 0, 0, "together"),
        ("schedule", "application", 0, 1, "together"),
        ("applications", "waiting", 2, 1.0, "stretch"),
        ("applications", "slowdown", 0, 2.0, "stretch"),
        ("applications", "run_time", 0, 26.0, "stretch"),
        ("applications", "requested", 0, 26.0, "workload"),
        ("applications", "failed", 1, 1, "done twice"),
        ("applications", "finish", 1, np.nan, "time"),
    ],
)
def test_planted_fault_in_rigid_jobs_is_detected(
    table: str, column: str, k: int, value: float, law: str
) -> None:
    assert law in _laws_of_altered(table, column, k, value)


def test_reset_between_two_tasks_is_no_violation() -> None:
    """One task ends at the instant of the reset, at which the next one starts."""
    original = gs.Scenario(
        gs.Platform.of([1000.0]),
        gs.Workload.of(release=[0.0], tasks=[3], task_size=[50.0], submitter=[0]),
        faults=gs.Faults.of([0, 0], [0.05, 0.1], [0.05, 0.1]),
    )
    result = gs.simulate(original, gs.Fcfs(), record=True)
    assert result.tables["schedule"]["tasks"].tolist() == [3] and validate_result(result) == []
    for faults in (gs.Faults.of([0], [0.06], [0.06]), gs.Faults.of([0], [0.05], [0.051])):
        other = gs.Scenario(original.platform, original.workload, faults=faults).to_toml()
        altered = gs.Result(
            tables=result.tables,
            facts=result.facts,
            scheduler=result.scheduler,
            provenance={**result.provenance, "scenario": other},
        )
        assert [item.law for item in validate_result(altered)] == ["failures", "dead machine"]


# -- planted corruption -------------------------------------------------------------------------------------

Columns = dict[str, NDArray[Any]]


def alter(path: Path, target: Path, table: str, change: Callable[[Columns], None]) -> None:
    """Write a copy of a result file with changed values in a table."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        header = json.loads(old.read("result.json"))
        columns = {
            name: np.load(io.BytesIO(old.read(f"tables/{table}/{name}.npy")))
            for name in header["tables"][table]
        }
        change(columns)
        for member in old.namelist():
            name = member.removeprefix(f"tables/{table}/").removesuffix(".npy")
            content = io.BytesIO(old.read(member))
            if member.startswith(f"tables/{table}/"):
                content = io.BytesIO()
                np.save(content, columns[name])
            new.writestr(member, content.getvalue())


@pytest.fixture(scope="module")
def sound_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "sound.gridsim"
    gs.simulate(scenario(FAULTS["outages"]), gs.FairTree(samples=(6, 4, 3)), record=True).save(path)
    return path


def put(name: str, k: int, value: Any) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        columns[name][k] = value

    return change


def move(name: str, k: int, by: float) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        columns[name][k] += by

    return change


def shift(k: int, by: float) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        columns["start"][k] += by
        columns["end"][k] += by

    return change


def drop_row(columns: Columns) -> None:
    for name in columns:
        columns[name] = columns[name][1:]


def repeat_row(columns: Columns) -> None:
    """Run the same tasks once more after the end."""
    for name in columns:
        columns[name] = np.append(columns[name], columns[name][0])
    columns["start"][-1] += 1000.0
    columns["end"][-1] += 1000.0


def swap_machines(columns: Columns) -> None:
    """Swap two machines of different speeds."""
    machine = columns["machine"].copy()
    columns["machine"][machine == 0], columns["machine"][machine == 4] = 4, 0


def move_into_an_outage(columns: Columns) -> None:
    """Move the last task of machine 1 into an outage."""
    k = int(np.flatnonzero(columns["machine"] == 1)[-1])
    length = columns["end"][k] - columns["start"][k]
    columns["start"][k], columns["end"][k] = 5.0, 5.0 + length


def delay_interruption(columns: Columns) -> None:
    """Let an interrupted task end after the failure."""
    k = int(np.flatnonzero(columns["completed"] == 0)[0])
    columns["end"][k] += 1e-3


PLANTED: dict[str, tuple[str, Callable[[Columns], None], str]] = {
    "a task lost": ("schedule", drop_row, "lost"),
    "tasks done twice": ("schedule", repeat_row, "done twice"),
    "two tasks at once": ("schedule", shift(1, -0.5), "overlap"),
    "a start before the release": ("schedule", shift(0, -50.0), "before release"),
    "a task on a dead machine": ("schedule", move_into_an_outage, "dead machine"),
    "an interruption without a failure": ("schedule", delay_interruption, "cut off"),
    "a task that is too short": ("schedule", move("end", 0, -0.25), "duration"),
    "a task on another machine": ("schedule", swap_machines, "duration"),
    "an unknown machine": ("schedule", put("machine", 0, 8), "unknown"),
    "an unknown application": ("schedule", put("application", 0, -1), "unknown"),
    "a task that is half completed": ("schedule", put("completed", 0, 0), "count"),
    "a start that is NaN": ("schedule", put("start", 0, np.nan), "time"),
    "a start before the arrival": ("arrivals", move("time", 0, 40.0), "before arrival"),
    "an arrival before the release": ("arrivals", put("time", 0, -5.0), "arrival"),
    "too many arrivals": ("arrivals", move("tasks", 0, 1000), "arrival"),
    "too few arrivals": ("arrivals", put("tasks", 0, 0), "arrival"),
    "an arrival at an unknown machine": ("arrivals", put("machine", 0, -1), "unknown"),
    "too many used machines": ("applications", move("nodes_used", 0, 1), "agreement"),
    "too high a utilization": ("machines", move("utilization", 0, 0.1), "agreement"),
    "interruptions that did not happen": ("machines", put("interrupted", 1, 77), "agreement"),
    "too early a finish": ("applications", move("finish", 2, -1.0), "agreement"),
    "too small a stretch": ("applications", put("stretch", 1, 1e-9), "stretch"),
    "too small a workload": ("applications", move("tasks", 0, -1), "workload"),
    "a faster machine": ("machines", move("speed", 3, 200.0), "platform"),
    "too little busy time": ("machines", move("busy", 3, -2.0), "agreement"),
    "one task too many": ("machines", move("tasks", 3, 1), "tasks"),
    "one message too many": ("messages", move("sent", 0, 1), "messages"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_detected(sound_file: Path, tmp_path: Path, fault: str) -> None:
    table, change, law = PLANTED[fault]
    path = tmp_path / "altered.gridsim"
    alter(sound_file, path, table, change)
    violations = {violation.law: violation for violation in validate_result(path)}
    assert law in violations, violations
    assert ("digest" in violations) == (table not in ("schedule", "arrivals"))
    answer = CliRunner().invoke(cli, ["validate", str(path)])
    assert answer.exit_code == 1 and str(violations[law]) in answer.stdout


def test_command_accepts_a_sound_result(sound_file: Path) -> None:
    answer = CliRunner().invoke(cli, ["validate", str(sound_file)])
    assert (answer.exit_code, answer.stdout) == (
        0,
        f"{sound_file}: a result with its schedule, no violations\n",
    )
    output = json.loads(CliRunner().invoke(cli, ["validate", str(sound_file), "--json"]).stdout)
    assert output == {"file": str(sound_file), "kind": "a result with its schedule", "violations": []}


def test_command_run_records_the_schedule(tmp_path: Path) -> None:
    arguments = [
        "run",
        "--nodes",
        "8",
        "--scheduler",
        "fcfs",
        "--out",
        str(tmp_path / "r.gridsim"),
        "--record",
    ]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    answer = CliRunner().invoke(cli, ["validate", str(tmp_path / "r.gridsim")])
    assert answer.exit_code == 0 and "with its schedule" in answer.stdout


def test_options_of_other_schedules_are_rejected(sound_file: Path) -> None:
    answer = CliRunner().invoke(cli, ["validate", str(sound_file), "--nodes", "8"])
    assert answer.exit_code == 2 and "a result does not support --nodes" in answer.stderr


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"PK\x03\x04 and so on")
    for path, message in ((tmp_path / "none", "No such file"), (damaged, "not a valid result file")):
        answer = CliRunner().invoke(cli, ["validate", str(path)])
        assert answer.exit_code == 2 and message in answer.stderr and "Traceback" not in answer.output


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(SCHEDULERS)),
    st.sampled_from(["start", "end", "machine", "application", "tasks", "completed"]),
    st.integers(0, 10**6),
    st.data(),
)
def test_changed_value_of_the_schedule_is_detected(
    name: str, column: str, k: int, data: st.DataObject
) -> None:
    """One value of the schedule is changed by more than rounding."""
    result = CACHE.setdefault(name, gs.simulate(scenario(), SCHEDULERS[name], record=True))
    table = result.tables["schedule"]
    values = {item: table[item].copy() for item in table}
    k %= len(table)
    if values[column].dtype.kind == "f":
        values[column][k] += data.draw(st.sampled_from([-30.0, -1.0, -1e-3, 1e-3, 1.0, 1e6]))
    else:
        values[column][k] += data.draw(st.sampled_from([-2, -1, 1, 2, 50]))
    tables = {**result.tables, "schedule": type(table)(values)}
    altered = gs.Result(
        tables=tables, facts=result.facts, scheduler=result.scheduler, provenance=result.provenance
    )
    assert validate_result(altered)


@pytest.mark.parametrize(
    ("scheduler", "table", "column"),
    [
        (gs.FairTree(), "machines", "bytes_in"),
        (gs.FairTree(), "machines", "bytes_out"),
        (gs.FairTree(), "machines", "peak_queue"),
        *((gs.FairTree(), "traffic", name) for name in ("messages", "bytes")),
        *((gs.FairTree(), "updates", name) for name in ("arrived", "age")),
        *(
            (gs.FairTree(), "requests", name)
            for name in ("tasks", "release", "size", "level", "kept", "stretch")
        ),
        *(
            (gs.ExpandingRing(), "hosts", name)
            for name in ("application", "client", "host", "needed", "found")
        ),
        *((gs.ExpandingRing(), "searches", name) for name in ("client", "found", "began", "ended")),
    ],
    ids=repr,
)
def test_changed_value_of_a_report_is_detected(scheduler: gs.Scheduler, table: str, column: str) -> None:
    """One value of a table is out of the range that other tables imply."""
    result = CACHE.setdefault(
        scheduler.name, gs.simulate(scenario(), scheduler, record=("schedule", "messages"))
    )
    assert not validate_result(result)
    values = {name: result.tables[table][name].copy() for name in result.tables[table]}
    values[column][0] += 1_000_000
    tables = {**result.tables, table: type(result.tables[table])(values)}
    altered = gs.Result(
        tables=tables, facts=result.facts, scheduler=result.scheduler, provenance=result.provenance
    )
    assert any(
        name in str(item) for item in validate_result(altered) for name in (table, column, "host", "found")
    )


CACHE: dict[str, gs.Result] = {}
