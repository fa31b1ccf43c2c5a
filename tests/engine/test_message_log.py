"""The log of messages: its rows, its agreement with the accounting, and its lack of effects."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.results.table import Table
from gridsim.simulation.options import Options
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result

LEDGER = ("sent", "delivered", "dropped", "bytes")


class SharingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for to in view.neighbours[: tasks - 1]:
            view.send(to, "share", application=application.number, tasks=1)
        kept = tasks - min(tasks - 1, len(view.neighbours))
        view.enqueue(application.number, kept)

    def on_message(self, view: Any, message: Any) -> None:
        if message.kind == "share":
            view.enqueue(message.application, message.tasks)
            view.send(message.sender, "thanks", warmth=0.5)

    def on_timer(self, view: Any, name: str) -> None: ...


class SharingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    """A scheduler whose nodes give a task to each neighbour."""

    name: ClassVar[str] = "sharer"
    policy = SharingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(nbytes=1000, moves_tasks=True, application=int, tasks=int),
        "thanks": gs.Message(nbytes=10, warmth=float),
    }


def pair(faults: gs.Faults | None = None) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of([1.0, 1.25], 2, 1000.0, [0, 0], origin=0.0),
        gs.Network(latency=0.5, bandwidth=10_000.0),
        faults=faults,
    )


def rows(result: gs.Result) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in result.tables["message_log"].rows()]


def test_the_log_of_two_machines_is_as_computed_by_hand() -> None:
    result = gs.simulate(pair(), SharingScheduler(), record="messages")
    assert rows(result)[:3] == [
        # 0.5 s and 0.1 s for 1000 bytes; 0.5 s and 1 ms for 10
        ("share", 0, 1, 1.0, 1.6, 0, 1000, 0),
        ("share", 0, 1, 1.25, 1.85, 0, 1000, 1),
        ("thanks", 1, 0, 1.6, 2.101, 0, 10, -1),
    ]
    assert result.provenance["message_log"] == {
        "kept": 4,
        "left_out": 0,
        "limit": 1_000_000,
        "delays": {},
    }


def test_machines_that_are_down_send_no_messages() -> None:
    """Machine 0 sends at 1 s, which is impossible if it is down from 0.9 s to 1.1 s."""
    result = gs.simulate(pair(gs.Faults.of([0], [9.0], [9.1])), SharingScheduler(), record="messages")
    assert validate_result(result) == []
    down = dataclasses.replace(result.scenario, faults=gs.Faults.of([0], [0.9], [1.1]))
    altered = gs.Result(
        tables=result.tables,
        facts=result.facts,
        scheduler=result.scheduler,
        provenance={**result.provenance, "scenario": down.to_toml()},
    )
    message = "dead machine: message_log[0]: sent by machine 0 at 1.0 s"
    assert message in "\n".join(map(str, validate_result(altered)))


def test_lost_messages_have_no_delivery() -> None:
    outcome = gs.simulate(pair(gs.Faults.of([1], [1.7], [1.7])), SharingScheduler(), record=["messages"])
    log = outcome.tables["message_log"]
    assert rows(outcome)[0][:6] == ("share", 0, 1, 1.0, 1.6, 0)
    assert rows(outcome)[1][:4] == ("share", 0, 1, 1.25) and np.isnan(log["delivered"][1])
    assert log["dropped"].tolist()[:3] == [0, 1, 0]
    assert validate_result(outcome) == []


def test_a_full_log_keeps_the_first_messages() -> None:
    result = gs.simulate(pair(), SharingScheduler(), record=("messages",), messages_limit=3)
    assert [row[0] for row in rows(result)] == ["share", "share", "thanks"]
    assert result.provenance["message_log"] == {
        "kept": 3,
        "left_out": 1,
        "limit": 3,
        "delays": {},
    }
    assert validate_result(result) == []


GRID = gs.Scenario(
    gs.Platform.desktop_grid(nodes=12, seed=1),
    gs.Workload.bags(8, interarrival=6.0, tasks_per_node=3.0, task_size=[4000.0, 9000.0], seed=2),
    gs.Network(jitter=0.02),
    seed=3,
)
FAILING = gs.Scenario(
    GRID.platform,
    GRID.workload,
    GRID.network,
    seed=3,
    faults=gs.Faults.of([2, 5, 5, 0], [9.0, 12.0, 60.0, 31.5], [9.0, 40.0, 60.0, 31.5]),
)
RIGID = gs.Scenario(gs.Platform.equal(30), gs.Workload.jobs(20, utilization=0.8, max_nodes=9, seed=2), seed=3)
CASES: dict[str, tuple[gs.Scenario, gs.Scheduler]] = {
    "fair-tree": (GRID, gs.FairTree(samples=(4, 3, 2))),
    "fair-tree that fails": (FAILING, gs.FairTree(samples=(4, 3, 2))),
    "dgs-asap": (RIGID, gs.DgsAsap()),
    "rjss": (GRID, gs.Rjss(k=0.4)),
    "rjss on a network": (GRID, gs.Rjss(k=0.4, probe_latency="network")),
    "searches": (FAILING, gs.ExpandingRing()),
    "wave": (GRID, gs.Wave()),
    "a server": (FAILING, gs.Hawk(cutoff=5000.0)),
    "local": (FAILING, SharingScheduler()),
}


@pytest.mark.parametrize("name", CASES)
def test_the_log_agrees_with_the_accounting_and_keeps_the_digest(name: str) -> None:
    scenario, scheduler = CASES[name]
    plain = gs.simulate(scenario, scheduler)
    result = gs.simulate(scenario, scheduler, record=iter(["messages", "schedule"]))
    assert result.digest == plain.digest and "decisions" not in result.tables
    log, ledger = result.tables["message_log"], result.messages
    ends = ~np.isnan(log["delivered"])
    columns = np.ones(len(log)), ends, log["dropped"], log["bytes"]
    for name_of, column in zip(LEDGER, columns, strict=True):
        have = [int(column[log["kind"] == kind].sum()) for kind in ledger["kind"].tolist()]
        assert have == ledger[name_of].tolist(), name_of
    assert (np.diff(log["sent"]) >= 0).all() and (log["application"] < len(result.applications)).all()
    assert (len(log) > 0) == (name != "wave")
    assert validate_result(result) == []
    if name == "rjss":  # its messages about jobs state the application
        jobs, moved = result.tables["jobs"], log["kind"] == "job"
        home = result.applications["submitter"][jobs["application"]]
        assert moved.sum() == (jobs["machine"] != home).sum() > 0
        assert (home[0] == log["sender"][log["application"] == 0]).any() and log["application"].min() >= 0


@pytest.mark.parametrize("name", ["fair-tree that fails", "dgs-asap", "rjss on a network", "local"])
def test_a_resumed_run_has_the_same_log(name: str) -> None:
    scenario, scheduler = CASES[name]
    record = ("schedule", "messages")
    result = gs.simulate(scenario, scheduler, record=record)
    assert resume_difference(scenario, scheduler, result, record=record) is None


def with_changed_log(result: gs.Result, change: Any) -> gs.Result:
    log = {name: column.copy() for name, column in result.tables["message_log"].items()}
    change(log)
    tables = {**result.tables, "message_log": Table(log)}
    return gs.Result(
        tables=tables,
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
        scenario=result.scenario,
    )


def put(name: str, value: Any, row: int = 0) -> Any:
    def change(log: dict[str, Any]) -> None:
        log[name][row] = value

    return change


def cut(log: dict[str, Any]) -> None:
    for name in log:
        log[name] = log[name][1:]


@pytest.mark.parametrize(
    ("change", "law"),
    [
        (cut, "messages: messages.sent"),
        (put("delivered", np.nan), "messages: messages.delivered"),
        (put("bytes", 1001), "messages: messages.bytes"),
        (put("delivered", 1.59), "message: message_log[0]: sent at 1.0 s, delivered at 1.59 s"),
        (put("sent", 1.001), "message: message_log[0]"),
        (put("dropped", 1), "message: message_log[0]"),
        (put("receiver", 2), "unknown: message_log[0]: a share from machine 0 to 2"),
        (put("sender", 1), "unknown: message_log[0]"),
        (put("application", 2), "unknown: message_log[0]"),
        (put("delivered", 1.7001), "dead machine: message_log[0]: sent by machine 0 at 1.0 s"),
        (put("delivered", 9.0), "dead machine: message_log[0]"),
    ],
)
def test_impossible_logs_violate_an_invariant(change: Any, law: str) -> None:
    result = gs.simulate(pair(gs.Faults.of([1], [1.7], [1.8])), SharingScheduler(), record="messages")
    violations = "\n".join(map(str, validate_result(with_changed_log(result, change))))
    assert law in violations


def test_unknown_recordings_are_rejected() -> None:
    def parsed_record(record: Any) -> tuple[str, ...]:
        return Options(record=record).recordings

    assert parsed_record(False) == parsed_record(()) == () and parsed_record(True) == parsed_record(
        "schedule"
    ) == ("schedule",)
    assert parsed_record({"messages", "decisions"}) == ("decisions", "messages")
    assert parsed_record("all") == parsed_record(["messages", "schedule", "decisions"])
    assert Options(record=iter(["messages"])).record == ("messages",)
    for bad in (["all"], ("messages", "everything"), [True], 5, None, "message"):
        with pytest.raises(gs.ScenarioError, match="^record"):
            Options(record=bad)
    with pytest.raises(gs.ScenarioError, match="^messages_limit"):
        Options(messages_limit=0)


def test_record_all_selects_the_recordings_that_a_scheduler_supports() -> None:
    class SchedulerWithoutDecisions(gs.MinCent, frozen=True, kw_only=True):
        decision_words: ClassVar[Any] = {}

    result = gs.simulate(pair(), SchedulerWithoutDecisions(), record="all")
    assert "decisions" not in result.tables and len(result.tables["message_log"]) == 0
    assert [column.dtype.kind for _, column in result.tables["message_log"].items()] == list("Uiiffiii")


def test_the_command_writes_the_log(tmp_path: Path) -> None:
    file = tmp_path / "run.gridsim"
    flags = ["--nodes", "8", "--applications", "3", "--no-progress", "--record", "--messages"]
    answer = CliRunner().invoke(cli, ["run", *flags, "--out", str(file)])
    assert answer.exit_code == 0, answer.output
    result = gs.Result.load(file)
    assert {"schedule", "message_log"} <= set(result.tables) and "decisions" not in result.tables
    assert len(result.tables["message_log"]) == result.messages["sent"].sum() > 0
    refused = CliRunner().invoke(cli, ["compare", "--nodes", "8", "--replicates", "3", "--messages"])
    assert refused.exit_code == 2 and "--replicates does not support --messages" in refused.output


def test_the_command_reports_messages_beyond_the_limit(tmp_path: Path) -> None:
    def command(*arguments: str) -> Any:
        return CliRunner().invoke(cli, [*arguments])

    file, common = str(tmp_path / "a.gridsim"), ("run", "--nodes", "20", "--applications", "3", "--record")
    answer = command(*common, "--messages", "--messages-limit", "5", "--out", file)
    assert answer.exit_code == 0, answer.output
    result = gs.Result.load(file)
    more = int(result.messages["sent"].sum()) - 5
    assert f"the first 5 rows; {more} more were left out" in answer.output
    assert result.left_out == {"message_log": more} and len(result.tables["message_log"]) == 5
    answer = command("export", file, "--format", "perfetto", "--out", str(tmp_path / "a.json"))
    assert (
        answer.exit_code == 0
        and f"the first 5 messages; {more} later ones were not recorded" in answer.stderr
    )
    assert json.loads((tmp_path / "a.json").read_text())["otherData"]["messages left out"] == more
    refused = command(*common, "--messages-limit", "5", "--out", file)
    assert refused.exit_code == 2 and "--messages-limit requires --messages" in refused.output
