"""Observation and recording do not change runs; samples show nodes after each instant."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import FORMS
from tests.scheduling.nodes import test_containers, test_roles
from tests.scheduling.nodes.test_all_forms import runs, scenarios

PERIODS = st.sampled_from([0.25, 0.3, 1.0, 1.5, 4.0])


@settings(max_examples=30)
@given(run=runs(), every=PERIODS, cohort_limit=st.sampled_from([None, 1]), nodes=st.sampled_from([None, [0]]))
def test_observed_runs_equal_other_runs(run: Any, every: float, cohort_limit: Any, nodes: Any) -> None:
    scenario, scheduler = run
    columns: dict[str, Any] = {name: f"view.{name}" for name in ("work", "queued", "minimum_stretch")}
    columns |= {name: name for name in ("kept", "hints", "known")}
    columns |= {"shown": "view.board.work[0]", "least": lambda program, view: view.board.least(1, "queue")[0]}
    recording = {
        "record": ["schedule", "messages", "events"],
        "record_nodes": nodes,
        "observe": gs.Observe(every=every, columns=columns, nodes=nodes),
    }
    plain = gs.simulate(scenario, scheduler, record=["schedule", "messages"])
    watched = gs.simulate(scenario, scheduler, **recording, cohort_limit=cohort_limit)
    assert watched.digest == plain.digest
    assert watched.provenance["clock_seconds"] == plain.provenance["clock_seconds"]
    assert {name: watched.tables[name] for name in plain.tables} == dict(plain.tables)
    assert resume_difference(scenario, scheduler, watched, **recording) is None


#: Schedulers that compile, with columns of their nodes.
COMPILED: list[tuple[gs.Scheduler, list[str]]] = [
    (test_containers.Scheduler(degree=2), ["pending", "offers", "debts", "known", "sum"]),
    (test_roles.Office(), ["turn", "waiting"]),  # only some roles have these attributes
]
if find_spec("numba") is not None:  # these modules are skipped without it
    from tests.scheduling.nodes import test_compiled, test_compiled_arrays

    COMPILED += [
        (test_compiled.Scheduler(degree=2), ["heard", "mean", "load[1]", "holds", "busy", "seen", "factor"]),
        (test_compiled_arrays.Scheduler(degree=2, rounds=2), ["mass[3]", "weight", "table", "rounds"]),
    ]


@settings(max_examples=30)
@given(
    scenario=scenarios(),
    scheduler=st.sampled_from(COMPILED),
    every=PERIODS,
    nodes=st.sampled_from([None, [0]]),
)
def test_both_forms_give_the_same_samples_and_diaries(
    scenario: gs.Scenario, scheduler: Any, every: float, nodes: Any
) -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    program, columns = scheduler
    observe = gs.Observe(every=every, columns=[*columns, "view.work", "view.queued"])
    recordings = ["events", "decisions"] if program.decision_words else ["events"]
    options: Any = {"observe": observe, "record": recordings, "record_nodes": nodes, "nodes": "compiled"}
    plain = gs.simulate(scenario, program)
    interpreted = gs.simulate(scenario, program, **options | {"nodes": "interpreted"})
    compiled = gs.simulate(scenario, program, **options)
    assert interpreted.digest == compiled.digest == plain.digest
    assert interpreted.tables == compiled.tables
    assert resume_difference(scenario, program, compiled, **options) is None


def test_an_attribute_of_another_role_is_nan() -> None:
    """Nodes 0 and 1 are desks, which queue no applications, 2 and 3 clerks, and the others workers."""
    observe = gs.Observe(every=5.0, columns=["turn", "waiting"])
    table = gs.simulate(test_roles.scenario(), test_roles.Office(), observe=observe).observed
    sample = {name: column[table["time"] == 25.0].tolist() for name, column in table.items()}
    assert sample["turn"][:4] == [2.0, 1.0, 6.0, 3.0] and np.isnan(sample["turn"][4:]).all()
    assert sample["waiting"][2:4] == [0.0, 0.0] and np.isnan(sample["waiting"][:2]).all()
    with pytest.raises(
        gs.ScenarioError, match="must be an attribute of Worker, got 'turn'; known: parameters$"
    ):
        gs.simulate(
            test_roles.scenario(),
            test_roles.Office(),
            observe=gs.Observe(every=5.0, columns=["turn"], nodes=[4]),
        )


class CountingNode(gs.NodeProgram):
    """A node that counts its timers and asks the next machine."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.count = 0
        self.waiting = gs.Fifo(tasks=int)
        self.load = np.zeros(2)

    def on_start(self, view: Any) -> None:
        view.timer(1.0, "beat")

    def on_timer(self, view: Any, name: str) -> None:
        self.count += 1
        view.timer(1.0, "beat")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.waiting.push(tasks)
        self.load[1] = 0.5
        self.asked = tasks
        view.send(1, "ask")
        view.enqueue(application.number, tasks)

    def on_ask(self, view: Any, message: Any) -> None:
        self.count += 100


class CountingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = CountingNode
    messages: ClassVar[dict[str, gs.Message]] = {"ask": gs.Message(10)}
    timers = ("beat",)
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"at": float}}
    decision_words: ClassVar[Any] = {"sees": ("sees", "", "")}
    degree: int = 1


def pair(faults: gs.Faults | None = None) -> gs.Scenario:
    workload = gs.Workload.of([1.0], [4], 1000.0, [0], origin=0.0)
    network = gs.Network(latency=0.5, bandwidth=float("inf"), interfaces="equal")
    return gs.Scenario(gs.Platform.of([1000.0] * 2), workload, network, faults=faults)


def samples_of_run(
    columns: Any, every: float = 1.0, faults: gs.Faults | None = None, **options: Any
) -> gs.Table:
    return gs.simulate(
        pair(faults), CountingScheduler(), observe=gs.Observe(every=every, columns=columns, **options)
    ).observed


def rows(table: gs.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.rows()]


def test_a_sample_shows_nodes_after_all_events_of_its_instant() -> None:
    """The release is at 1 s, when timers are due, too; the last task ends at 5 s, with the run."""
    table = samples_of_run(
        {"n": "count", "work": "view.work", "rows": "waiting", "load": "load[1]"}, nodes=[0]
    )
    assert rows(table) == [
        (0.0, 0, 0.0, 0.0, 0.0, 0.0),
        (1.0, 0, 1.0, 4.0, 1.0, 0.5),
        (2.0, 0, 2.0, 3.0, 1.0, 0.5),
        (3.0, 0, 3.0, 2.0, 1.0, 0.5),
        (4.0, 0, 4.0, 1.0, 1.0, 0.5),
        (5.0, 0, 4.0, 0.0, 1.0, 0.5),  # the run ends before the timers of this instant
    ]


def test_samples_between_events_show_the_last_state() -> None:
    table = samples_of_run(["count", "view.work"], every=0.4, nodes=[1])
    assert [(time, count) for time, _, count, _ in rows(table)][:6] == [
        (0.0, 0.0), (0.4, 0.0), (0.8, 0.0), (1.2, 1.0), (1.6, 101.0), (2.0, 102.0)
    ]  # fmt: skip


def test_nodes_that_are_down_have_no_sample() -> None:
    table = samples_of_run({"n": "count"}, faults=gs.Faults.of([1], [1.75], [3.25]))
    assert [(time, n) for time, node, n in rows(table) if node == 1] == [
        (0.0, 0.0), (1.0, 1.0), (4.0, 0.0), (5.0, 1.0)
    ]  # fmt: skip


def test_an_attribute_that_is_not_assigned_yet_is_nan() -> None:
    table = samples_of_run(
        {"asked": "asked", "twice": lambda program, view: 2 * view.tasks + program.count}, nodes=[0]
    )
    assert np.isnan(table["asked"][0]) and table["asked"][1] == 4.0
    assert table["twice"][:2].tolist() == [0.0, 9.0]


@pytest.mark.parametrize(
    ("column", "doing"),
    [
        (lambda program, view: view.send(0, "ask"), "acts in a column of Observe"),
        (lambda program, view: view.random.random(), "acts in a column of Observe"),
        (lambda program, view: view.note("seen", at=view.now), "acts in a column of Observe"),
        (lambda program, view: view.decide("sees", 0), "acts in a column of Observe"),
        (lambda program, view: "busy", r"observe.columns\['x'\] must be a number, got 'busy'"),
    ],
)
def test_columns_that_act_are_rejected(column: Any, doing: str) -> None:
    with pytest.raises(gs.SchedulerError, match=rf"^t = 0.0 s: node 0.* {doing}"):
        samples_of_run({"x": column})


class OpenNode(gs.NodeProgram):
    """A node that notes its whole memory each second."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.count = 0
        self.load = np.zeros(2)
        self.waiting = gs.Fifo(tasks=int)
        self.shared = gs.SharedArray(np.zeros(1))

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.timer(1.0, "beat")

    def on_timer(self, view: Any, name: str) -> None:
        view.note("seen", at=self.count + self.load[0] + len(self.waiting) + len(self.shared.values))
        view.timer(1.0, "beat")

    def change(self) -> None:
        self.count = 99


class OpenScheduler(CountingScheduler, frozen=True, kw_only=True):
    policy = OpenNode


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (lambda program, view: setattr(program, "count", 99), "count of the memory of a node is read-only"),
        (lambda program, view: program.change(), "count of the memory of a node is read-only"),
        (lambda program, view: program.load.fill(9.0), "read-only"),
        (lambda program, view: program.waiting.push(9), ""),
        (lambda program, view: program.shared.set(np.ones(3)), ""),
    ],
)
def test_a_column_cannot_change_a_program(column: Any, message: str, form: Any) -> None:
    observe = gs.Observe(every=1.0, columns={"x": column})
    if message:
        with pytest.raises((AttributeError, ValueError), match=message):
            gs.simulate(pair(), OpenScheduler(), observe=observe, nodes=form)
    else:
        digest = gs.simulate(pair(), OpenScheduler()).digest
        assert gs.simulate(pair(), OpenScheduler(), observe=observe, nodes=form).digest == digest


def test_the_error_of_a_column_names_time_and_node() -> None:
    with pytest.raises(IndexError) as excinfo:
        samples_of_run({"x": "load[2]"})
    assert excinfo.value.__notes__ == ["at t = 0.0 s, in observe.columns['x'] of node 0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"columns": ["cuont"]},
            r"'cuont'\] must be an attribute of CountingNode, got 'cuont'; did you mean count\? ",
        ),
        ({"columns": ["view.wrok"]}, r"must be an attribute of the view, got 'wrok'; did you mean work\? "),
        ({"columns": ["view.send"]}, r"must be an attribute of the view, got 'send'"),
        (
            {"columns": ["count"], "nodes": [0, 2]},
            r"observe.nodes must be in 0\.\.1, the nodes of this run, got 2",
        ),
        ({"columns": ["count"], "nodes": [-1]}, r"observe.nodes\[0\] must be a whole number >= 0, got -1"),
        ({"columns": ["count"], "nodes": []}, "observe.nodes must have at least one node"),
        ({"columns": ["count"], "every": 0}, "observe.every must be a finite number > 0 s, got 0"),
        ({"columns": ["count"], "every": 1e-10}, "observe.every must be at least 1 ns, got 1e-10"),
        ({"columns": []}, "observe.columns must be a dict"),
        ({"columns": {"time": "count"}}, "must have names other than time and node, got 'time'"),
        ({"columns": ["count", len]}, "must have names other than time and node, got ''"),
        ({"columns": {"x": "count + 1"}}, r"observe.columns\['x'\] must be an attribute such as"),
    ],
)
def test_wrong_observations_are_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        samples_of_run(**arguments)


def test_schedulers_without_node_programs_are_not_observed() -> None:
    observe = gs.Observe(every=1.0, columns=["view.work"])
    with pytest.raises(gs.ScenarioError, match="^fcfs does not support observe: it has no node programs$"):
        gs.simulate(pair(), "fcfs", observe=observe)
    with pytest.raises(
        gs.ScenarioError, match='^fcfs does not support record="events": it has no node programs$'
    ):
        gs.simulate(pair(), "fcfs", record="events")
    with pytest.raises(gs.ScenarioError, match="^rjss does not support observe: only its interpreted nodes"):
        gs.simulate(pair(), "rjss", observe=observe, nodes="compiled")


@pytest.mark.parametrize(
    "name", ["fair-tree", "sparrow", "dlwl", "rjss", "WQR-FT", "advertisement", "dgs-asap", "zorilla"]
)
def test_registered_schedulers_can_be_observed(name: str) -> None:
    """By default a scheduler runs in the form that has programs."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(20, seed=1),
        gs.Workload.bags(applications=6, interarrival=30.0, tasks_per_node=0.5, seed=1),
        faults=gs.Faults.exponential(500.0, 50.0, seed=1) if name != "rjss" else None,
        seed=1,
    )
    if name in ("dgs-asap", "zorilla"):
        jobs = gs.Workload.jobs(10, utilization=0.8, max_nodes=9, seed=2)
        scenario = gs.Scenario(gs.Platform.equal(20), jobs, seed=1)
    observe = gs.Observe(every=100.0, columns=["view.work", "view.waiting"])
    watched = gs.simulate(scenario, name, observe=observe, record="events", record_nodes=[0, 5])
    assert watched.digest == gs.simulate(scenario, name).digest
    assert len(watched.observed) and watched.tables["diary"]["node"].max() == 5


def test_nodes_with_handlers_written_by_hand_show_their_memory() -> None:
    """These handlers have no programs that can be read, so the program is compiled."""
    pytest.importorskip("numba", reason="needs the extra jit")
    for columns in (["view.work"], ["busy", "queue"]):
        observe = gs.Observe(every=1.0, columns=columns)
        actual = [
            gs.simulate(pair(), "sparrow", nodes=form, observe=observe)
            for form in ("compiled", "interpreted")
        ]
        assert actual[0].observed == actual[1].observed and len(actual[0].observed)


def test_checkpoints_reject_columns_that_are_functions(tmp_path: Path) -> None:
    observe = gs.Observe(every=1.0, columns={"x": lambda program, view: 1})
    with pytest.raises(
        gs.ScenarioError, match=r"^a checkpoint does not support observe.columns\['x'\], a function"
    ):
        gs.simulate(pair(), CountingScheduler(), observe=observe, checkpoint=tmp_path / "run.checkpoint")


def test_a_resumed_run_has_all_samples(tmp_path: Path) -> None:
    observe = gs.Observe(every=0.5, columns=["count"], nodes=[1])
    options: Any = {"observe": observe, "record": "events", "record_nodes": [0]}
    full = gs.simulate(pair(), CountingScheduler(), **options)
    gs.simulate(
        pair(), CountingScheduler(), **options, checkpoint=tmp_path / "run.checkpoint", checkpoint_every=0.0
    )
    resumed = gs.resume(tmp_path / "run.checkpoint", scheduler=CountingScheduler())
    assert resumed.provenance["resumed"] == 1
    assert (resumed.observed, resumed.tables["diary"]) == (full.observed, full.tables["diary"])


def test_results_with_samples_are_saved(tmp_path: Path) -> None:
    result = gs.simulate(
        pair(), CountingScheduler(), observe=gs.Observe(every=1.0, columns=["count"]), record="events"
    )
    result.save(tmp_path / "run.npz")
    loaded = gs.Result.load(tmp_path / "run.npz")
    assert (
        loaded.observed == result.observed
        and loaded.digest == gs.simulate(pair(), CountingScheduler()).digest
    )
    assert loaded.diary(1).format() == result.diary(1).format()
    assert loaded.to_xarray()["observed"]["time"].attrs == {"units": "s"}
    with pytest.raises(gs.GridSimError, match="^observed requires a run with observe"):
        _ = gs.simulate(pair(), CountingScheduler()).observed


def test_the_view_shows_the_state_of_its_node() -> None:
    displayed: list[str] = []

    class ShowingNode(CountingNode):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            displayed.append(repr(view))
            view.enqueue(application.number, tasks)
            displayed.append(repr(view))

    class Scheduler(CountingScheduler, frozen=True, kw_only=True):
        policy = ShowingNode

    gs.simulate(pair(), Scheduler())
    assert displayed == [
        "<View of node 0, t = 1.0 s: machine 0; 0 waiting and 0 running tasks; tasks to place: "
        "4 of application 0; timers: beat at 1.0 s>",
        "<View of node 0, t = 1.0 s: machine 0; 4 waiting and 0 running tasks; timers: beat at 1.0 s>",
    ]
