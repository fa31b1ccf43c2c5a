"""All records of runs can be saved, read, reported, exported, validated and repeated."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.cli.commands.repro import reproduce_result
from gridsim.report import write_report
from gridsim.results.diff import first_difference
from gridsim.results.formats.job_logs import to_batsim, to_swf
from gridsim.results.formats.perfetto import to_perfetto
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.simulation.simulate import execute
from gridsim.validation.results import validate_result
from tests._helpers.archives import change_archive
from tests._helpers.toy import Toy, ToyPolicy

#: Parameters with which schedulers use all of their features on the scenario; some jobs are long.
OWN: dict[str, dict[str, Any]] = {name: {"cutoff": 3000.0} for name in ("hawk", "eagle", "lwl", "dlwl")}
BAGS = gs.Scenario(
    gs.Platform.of([1000.0, 500.0, 2000.0, 1000.0, 800.0]),
    gs.Workload.of([0.0, 1.0, 2.0], [4, 3, 5], [2000.0, 4000.0, 1000.0], [0, 3, 1]),
    seed=3,
)
JOBS = gs.Scenario(
    gs.Platform.equal(5, 1000.0, attributes=gs.DrawnAttributes(side=1.0)),
    gs.Workload.jobs_of([0.0, 1.0, 2.0], [2, 3, 1], [10.0, 100.0, 50.0]),
    seed=3,
)


def scenario_of(scheduler: gs.Scheduler) -> gs.Scenario:
    return JOBS if scheduler.rigid else BAGS


def records(scheduler: gs.Scheduler) -> Iterator[tuple[str, ...]]:
    """Yield all combinations of recordings that the scheduler supports."""
    names = ("schedule", *(["decisions"] if scheduler.decision_words else []), "messages")
    for count in range(len(names) + 1):
        yield from itertools.combinations(names, count)


@pytest.mark.parametrize("name", registered())
def test_every_record_of_every_scheduler_is_read_back(name: str, tmp_path: Path) -> None:
    scheduler, file = make_scheduler(name, OWN.get(name)), tmp_path / "run.gridsim"
    for record in records(scheduler):
        result = execute(scenario_of(scheduler), scheduler, record=record)
        result.save(file)
        loaded = Result.load(file)
        assert loaded.digest == result.digest and loaded.tables == result.tables, record
        assert loaded.servers == result.servers and loaded.facts == result.facts, record
        assert validate_result(file) == [], record
        actual = reproduce_result(loaded)
        assert actual.expected_digest == actual.digest == result.digest and actual.difference is None, record
        assert first_difference(loaded, result) is None, record
        if "schedule" in record:
            for dialect in ("batsim", "evalys"):
                to_batsim(loaded, tmp_path / "jobs.csv", dialect=dialect)
            to_swf(loaded, tmp_path / "jobs.swf")
            for machines in (None, [0, 3]):
                to_perfetto(loaded, tmp_path / "trace.json", machines=machines)
                json.loads((tmp_path / "trace.json").read_text())
        if "decisions" in record:
            for i in range(len(loaded.applications)):
                assert str(loaded.why(i)).startswith(f"application {i}: ")


@pytest.mark.parametrize("name", ["fair-tree", "hawk", "eagle", "dlwl", "steady-state", "metascheduler"])
def test_reports_and_charts_of_all_records_are_written(name: str, tmp_path: Path) -> None:
    scheduler = make_scheduler(name, OWN.get(name))
    result = execute(scenario_of(scheduler), scheduler, record="all")
    assert (result.servers > 0) == (name != "fair-tree") and len(result.tables["message_log"])
    result.save(tmp_path / "run.gridsim")
    loaded = Result.load(tmp_path / "run.gridsim")
    write_report({name: loaded}, tmp_path / "report.html", title=name)
    assert loaded.digest[:16] in (tmp_path / "report.html").read_text()
    for kind in ("distribution", "series", "gantt", "traffic", *(["tree"] if name == "fair-tree" else [])):
        loaded.plot(kind).savefig(tmp_path / "chart.svg")


# -- node programs of users: several nodes on a machine, and servers -------------------------------------


class Desk(NodeProgram):
    """A node that sends tasks to a clerk, which asks a server for the worker that will run them."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        machines = self.parameters.machines
        server = 2 * machines + application.number % 2
        view.decide("asked", application.number, node=server, tasks=tasks)
        view.send(server, "ask", application=application.number, tasks=tasks)
        view.send(server, "hint")

    def on_ask(self, view: Any, message: Any) -> None:
        to = message.sender
        view.decide("answered", message.application, node=self.parameters.machines + to, tasks=message.tasks)
        view.note("asked", node=view.node, machine=view.machine)
        view.send(self.parameters.machines + to, "work", application=message.application, tasks=message.tasks)

    def on_hint(self, view: Any, message: Any) -> None:
        pass

    def on_work(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class OfficeScheduler(NodeScheduler, frozen=True, kw_only=True):
    """A desk and a worker on each machine, and two servers, of which the first may have nothing to do."""

    name: ClassVar[str] = "offices"
    policy = Desk
    degree: int = 0
    machines: int = 5
    messages: ClassVar[dict[str, Message]] = {
        "ask": Message(100, moves_tasks=True, application=int, tasks=int),
        "work": Message(100, moves_tasks=True, application=int, tasks=int),
        "hint": Message(0, delay=0.0, counted=False),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {"asked": {"node": int, "machine": int}}
    decision_words: ClassVar[Any] = {
        "asked": ("asked the server on machine {machine} about {tasks} tasks", "", ""),
        "answered": ("sent {tasks} tasks to machine {machine}", "", ""),
    }

    def layout(self, machines: int) -> Layout:
        nodes = [*range(machines), *range(machines), machines, machines + 1]
        return Layout(np.array(nodes), np.array([*range(machines), 2 * machines, 2 * machines + 1]))


@pytest.mark.parametrize("faults", [None, gs.Faults.of([1, 3], [2.5, 3.0], [4.0, 9.0])])
def test_results_of_users_node_programs_are_read_back(faults: gs.Faults | None, tmp_path: Path) -> None:
    scenario = gs.Scenario(BAGS.platform, BAGS.workload, seed=3, faults=faults)
    result = gs.simulate(scenario, OfficeScheduler(), record="all")
    assert result.servers == 2 and set(result.tables["message_log"]["sender"]) >= {5, 6}
    assert set(result.tables["decisions"]["machine"]) >= {5, 6}
    result.save(tmp_path / "run.gridsim")
    loaded = Result.load(tmp_path / "run.gridsim")
    assert loaded.tables == result.tables and validate_result(loaded) == []
    assert reproduce_result(loaded, OfficeScheduler()).difference is None
    to_perfetto(loaded, tmp_path / "trace.json")
    names = {item["args"]["name"] for item in events(tmp_path) if item["name"] == "thread_name"}
    assert {"machine 4", "machine 4: messages", "server 0: messages", "server 1: messages"} <= names
    assert "machine 5" not in names
    assert "asked the server on machine 6 about 3 tasks" in str(loaded.why(1))
    write_report({"offices": loaded}, tmp_path / "report.html", title="offices")


def events(folder: Path) -> list[dict[str, Any]]:
    actual: list[dict[str, Any]] = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return actual


# -- files of earlier versions, and invalid numbers ------------------------------------------------------


@pytest.fixture
def server_result(tmp_path: Path) -> Path:
    """Return the file of a result with two servers."""
    gs.simulate(BAGS, OfficeScheduler(), record="all").save(tmp_path / "run.gridsim")
    return tmp_path / "run.gridsim"


@pytest.mark.parametrize("declared", [None, 7])
def test_servers_in_files_of_earlier_versions_are_read(declared: int | None, server_result: Path) -> None:
    """The files state the number of machines and servers in the log, or neither."""

    def remove_servers(metadata: Any) -> None:
        del metadata["provenance"]["servers"]
        if declared is not None:
            metadata["provenance"]["message_log"]["machines"] = declared

    digest = Result.load(server_result).digest
    loaded = Result.load(change_archive(server_result, edit_json=remove_servers))
    assert loaded.servers == 2 and loaded.digest == digest and validate_result(loaded) == []


@pytest.mark.parametrize(
    ("number", "states"), [(-1, True), (-1, False), (7, True), (8, False), (2**40, True), (2**40, False)]
)
@pytest.mark.parametrize("column", ["sender", "receiver"])
def test_a_log_names_only_existing_machines(
    number: int, states: bool, column: str, server_result: Path
) -> None:
    def remove_servers(metadata: Any) -> None:
        if not states:
            del metadata["provenance"]["servers"]

    values = Result.load(server_result).tables["message_log"][column].copy()
    values[2] = number
    maximum = (
        6 if states or number < 0 else 7
    )  # if it is not stated, the number of servers is that in the log
    change_archive(server_result, {f"tables/message_log/{column}.npy": npy_bytes(values)}, remove_servers)
    expected = rf"message_log.{column}\[2\] must be in 0..{maximum}, got {number}"
    with pytest.raises(gs.GridSimError, match=expected):
        Result.load(server_result)


def npy_bytes(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


# -- unreadable content is not written -------------------------------------------------------------------


class WrongTableNode(Desk):
    """A node that decides on a machine that does not exist, or writes a table with wrong columns."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if self.parameters.machines == 1:
            view.decide("asked", application.number, node=12, tasks=tasks)
        view.note("jobs", x=1)
        view.enqueue(application.number, tasks)


class WrongTableScheduler(OfficeScheduler, frozen=True, kw_only=True):
    policy = WrongTableNode
    tables: ClassVar[dict[str, dict[str, type]]] = {"jobs": {"x": int}}

    def layout(self, machines: int) -> Layout:
        return Layout.one_each(machines)


def test_a_run_whose_tables_could_not_be_read_ends_with_an_error() -> None:
    with pytest.raises(gs.SchedulerError, match="^t = .* s: jobs"):
        gs.simulate(BAGS, WrongTableScheduler())
    with pytest.raises(
        gs.SchedulerError,
        match="^t = 0.0 s: node 0: node of 'asked'",
    ):
        gs.simulate(BAGS, WrongTableScheduler(machines=1), record="decisions")


class FalseDecisionScheduler(Toy, frozen=True, kw_only=True):
    """A cohort scheduler that decides on an application or a machine that does not exist."""

    name: ClassVar[str] = "deciding"
    decision_words: ClassVar[Any] = {"put": ("put {tasks} tasks on machine {machine}", "", "")}
    application: int = 0
    machine: int = 0

    def start(self, run: Run) -> ToyPolicy:
        assert run.decisions is not None
        run.decisions.record("put", time=0, decider=-1, application=self.application, machine=self.machine)
        return ToyPolicy(self, run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"application": 3}, r"decisions.application\[0\] must be in 0..2, got 3"),
        ({"machine": 5}, r"decisions.machine\[0\] must be in -1..4, got 5"),
    ],
)
def test_decisions_of_cohort_schedulers_must_name_existing_rows(
    arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(gs.SchedulerError, match=message):
        gs.simulate(BAGS, FalseDecisionScheduler(**arguments), record="decisions")


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ("a" * 3_000_000, None),  # the text is compressed more than a reader accepts
        (list(range(1_100_000)), "result.json must have at most 1048576 values, got"),
        ("\ud800", "surrogates not allowed"),
    ],
    ids=["long", "many", "half a character"],
)
def test_unreadable_facts_are_not_written(fact: Any, message: str | None, tmp_path: Path) -> None:
    plain = gs.simulate(BAGS, Toy())
    result = Result(
        tables=plain.tables, facts={"x": fact}, scheduler=plain.scheduler, provenance=plain.provenance
    )
    if message is None:
        result.save(tmp_path / "run.gridsim")
        assert Result.load(tmp_path / "run.gridsim").facts == {"x": fact}
        return
    with pytest.raises(
        gs.GridSimError,
        match=f"run.gridsim: the result was not written, since it could not be read.*{message}",
    ):
        result.save(tmp_path / "run.gridsim")
    assert not list(tmp_path.iterdir())


def test_a_result_with_unreadable_tables_is_not_written(tmp_path: Path) -> None:
    plain = gs.simulate(BAGS, Toy(), record="messages")
    log = plain.tables["message_log"]
    row = {name: np.zeros(1, column.dtype) for name, column in log.items()} | {"sender": np.array([5])}
    for tables, message in (
        ({"message_log": Table(row)}, r"message_log.sender\[0\] must be in 0..4, got 5"),
        ({"cycles": Table({"useful": [1.0]})}, "cycles must have a column 'redundant'"),
    ):
        result = Result(
            tables={**plain.tables, **tables},
            facts={},
            scheduler=plain.scheduler,
            provenance=plain.provenance,
        )
        with pytest.raises(gs.GridSimError, match=message):
            result.save(tmp_path / "run.gridsim")
    assert not list(tmp_path.iterdir())
