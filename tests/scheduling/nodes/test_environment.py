"""The environment of node programs, its timers, and attributes that survive failures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.engine.engine import TIMER
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.ground_truth import Truth
from gridsim.support.clock import NEVER
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import RUNNABLE_FORMS, needs_numba

FAULTS = gs.Faults.of([1, 0, 1, 2], [2.0, 5.0, 5.0, 0.0], [2.0, 7.0, 6.0, 3.0])
INTERPRETED = RUNNABLE_FORMS[:2]


def scenario(faults: gs.Faults | None = FAULTS) -> gs.Scenario:
    return gs.Scenario(gs.Platform.equal(3), gs.Workload.of([0.0, 6.5], 2, 4000.0), seed=1, faults=faults)


class DiaryNode(gs.NodeProgram):
    """A node that counts its starts on its disk, and in its memory."""

    stable_storage = ("starts", "instants")

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.starts = self.starts_in_memory = 0
        self.instants: list[float] = []

    def on_start(self, view: Any) -> None:
        self.starts += 1
        self.starts_in_memory += 1
        self.instants.append(view.now)
        view.note("starts", time=view.now, node=view.node, starts=self.starts, last=self.instants[0])
        assert self.starts_in_memory == 1

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class DiaryScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "keeps-diaries"
    policy = DiaryNode
    tables: ClassVar[Any] = {"starts": {"time": float, "node": int, "starts": int, "last": float}}


@pytest.mark.parametrize("form", INTERPRETED)
def test_stable_storage_survives_failures(form: Any) -> None:
    result = gs.simulate(scenario(), DiaryScheduler(), nodes=form)
    table = result.tables["starts"]
    rows = sorted(zip(*(table[name].tolist() for name in ("node", "time", "starts", "last")), strict=True))
    assert rows == [(0, 0.0, 1, 0.0), (0, 7.0, 2, 0.0), (1, 0.0, 1, 0.0), (1, 2.0, 2, 0.0), (1, 6.0, 3, 0.0),
                    (2, 3.0, 1, 3.0)]  # fmt: skip
    assert resume_difference(scenario(), DiaryScheduler(), result, nodes=form) is None


@needs_numba
def test_compiled_nodes_have_no_stable_storage() -> None:
    with pytest.raises(gs.CompileError, match="DiaryNode: nodes='compiled' does not support stable_storage$"):
        gs.simulate(scenario(), DiaryScheduler(), nodes="compiled")


def test_stable_storage_must_be_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiaryNode, "stable_storage", "starts")
    with pytest.raises(
        gs.ScenarioError, match=r"^DiaryNode.stable_storage must be a tuple of strings, got 'sta"
    ):
        DiaryScheduler()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")
def test_stable_storage_survives_a_killed_process() -> None:
    faults = gs.Faults.of([0, 0], [2.0, 5.0], [3.0, 6.0])
    workload = gs.Workload.of([0.0, 6.5], 2, 4000.0, submitter=[3, 3])
    killed = gs.Scenario(gs.Platform.equal(4), workload, seed=1, faults=faults)
    result = gs.emulate(killed, DiaryScheduler(), processes=2, speedup=5.0, kill=True)
    assert result.provenance["emulation"]["kills"] == 2
    table = result.tables["starts"]
    rows = sorted(zip(table["node"].tolist(), table["starts"].tolist(), table["last"].tolist(), strict=True))
    assert rows == [(node, start, 0.0) for node in (0, 1) for start in (1, 2, 3)] + [(2, 1, 0.0), (3, 1, 0.0)]


# -- an environment -----------------------------------------------------------------------------------------


class FailureEnvironment(Environment):
    """Environment that counts failures, knows the next failures, and fires a timer on all nodes."""

    reason = "it is a test"
    STATE = "failures", "next_failure"

    def __init__(self, run: Run) -> None:
        self.run, self.failures = run, 0
        self.next_failure = np.zeros(3, np.int64) if run.feed is None else run.feed.first.copy()

    def attach(self, adapter: Any) -> None:
        super().attach(adapter)
        self.run.engine.on("rain", self._rain, priority=FAULT_PRIORITY + 2, phase=TIMER)
        for second in (1, 4, 8):
            self.run.engine.at(second * 10**9, "rain")

    def _rain(self, _: list[int]) -> None:
        self.fire("rain", range(3))

    def of_node(self, node: int) -> FailureEnvironment:
        return self

    def on_faults(self, failed: Any, recovered: Any) -> None:
        assert self.run.feed is not None
        changes = self.run.feed.changes
        assert sorted(changes.machine[changes.up].tolist()) == recovered.tolist()
        self.next_failure[changes.machine[changes.up]] = changes.until[changes.up]
        self.failures += len(failed)

    def complete(self, outcome: Outcome) -> None:
        outcome.facts["failures"] = self.failures


def _next_failure(truth: Truth, node: int, machine: int) -> float:
    return float(truth.environment.next_failure[machine] / 1e9)


class FailureNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.decide("stayed", application.number, node=view.node, saw=view.environment.failures)

    def on_rain(self, view: Any) -> None:
        view.note("rain", time=view.now, node=view.node)


class FailureScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "outdoors"
    policy = FailureNode
    environment_timers: ClassVar[tuple[str, ...]] = ("rain",)
    tables: ClassVar[Any] = {"rain": {"time": float, "node": int}}
    decision_words: ClassVar[Any] = {"stayed": ("kept {tasks} tasks after", "failures", "")}
    truths: ClassVar[Mapping[str, Any]] = {"stayed": _next_failure}

    def make_environment(self, run: Run) -> FailureEnvironment:
        return FailureEnvironment(run)


@pytest.mark.parametrize("form", INTERPRETED)
def test_programs_reach_their_environment(form: Any) -> None:
    result = gs.simulate(scenario(), FailureScheduler(), nodes=form, record="decisions")
    assert result.facts == {"failures": 4}
    rain = result.tables["rain"]
    assert rain["time"].tolist() == [1.0] * 3 + [4.0] * 3 + [8.0] * 3
    decisions = result.tables["decisions"]
    # node 2 is down at the beginning, and node 1 fails at 2 s; the tasks that node 0 loses at 5 s come back
    assert decisions["saw"].tolist() == [1.0, 4.0, 4.0]
    assert decisions["true"].tolist() == [5.0, NEVER / 1e9, NEVER / 1e9]
    assert resume_difference(scenario(), FailureScheduler(), result, nodes=form, record="decisions") is None


def test_a_timer_of_the_environment_has_no_fields() -> None:
    class WrongHandlerNode(FailureNode):
        def on_rain(self, view: Any, amount: float) -> None:  # type: ignore[override]
            pass

    class WrongHandlerScheduler(FailureScheduler, frozen=True, kw_only=True):
        policy = WrongHandlerNode

    with pytest.raises(
        gs.ScenarioError, match=r"WrongHandlerNode.on_rain must take \(self, view\), since 'rain' is in"
    ):
        WrongHandlerScheduler()


class CountingEnvironment(Environment):
    """Environment in which nodes count one another: the announcement of each node reaches all processes."""

    reason = "it is a test"
    STATE = "heard", "said"
    shared = ("hear",)

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.heard, self.said = list[int](), 0

    def of_node(self, node: int) -> CountingEnvironment:
        return self

    def say(self, node: int) -> None:
        """Announce a node to all processes."""
        self.said += 1
        self.hear(node)
        self.share("hear", node)

    def hear(self, node: int) -> None:
        """Record the announcement of a node."""
        self.heard.append(node)

    def is_over(self) -> bool:
        """Wait for the rows that nodes write long after their tasks."""
        return len(self.adapter.notes.rows["seen"]) >= 4

    def counts(self) -> dict[str, Any]:
        return {"said": self.said}

    def merge(self, counts: dict[str, Any]) -> None:
        self.said += counts["said"]

    def complete(self, outcome: Outcome) -> None:
        outcome.facts["said"] = self.said


class CountedNode(gs.NodeProgram):
    def on_start(self, view: Any) -> None:
        view.environment.say(view.node)
        view.at(6 * 10**9, "look")

    def on_look(self, view: Any) -> None:
        view.note("seen", node=view.node, heard=len(view.environment.heard))

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class CountingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "citizens"
    policy = CountedNode
    environment = CountingEnvironment
    to_the_end = True
    tables: ClassVar[Any] = {"seen": {"node": int, "heard": int}}


def test_processes_with_an_environment_without_state_are_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingEnvironment, "STATE", None)
    with pytest.raises(gs.ScenarioError, match="^kill requires CountingEnvironment.STATE"):
        gs.emulate(scenario(), CountingScheduler(), kill=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")
@pytest.mark.parametrize("kill", [False, True])
def test_environments_of_several_processes_share_announcements(kill: bool) -> None:
    faults = gs.Faults.of([0], [2.0], [3.0]) if kill else None
    quick = gs.Scenario(gs.Platform.equal(4), gs.Workload.of([0.0], 1, 500.0, submitter=[3]), faults=faults)
    result = gs.emulate(quick, CountingScheduler(), processes=2, speedup=5.0, kill=kill)
    # nodes 0 and 1 restart, and also know the earlier announcements
    starts = 6 if kill else 4
    assert result.tables["seen"]["heard"].tolist() == [starts] * 4
    assert result.facts["said"] == starts


class WarnedNode(FailureNode):
    def on_warning(self, view: Any, hours: int) -> None:
        view.note("rain", time=view.now + hours, node=view.node)


class WarningEnvironment(FailureEnvironment):
    def _rain(self, _: list[int]) -> None:
        self.call("on_warning", 0, 100)


class WarningScheduler(FailureScheduler, frozen=True, kw_only=True):
    policy = WarnedNode
    environment_handlers: ClassVar[Any] = {"on_warning": ("view", "hours")}

    def make_environment(self, run: Run) -> FailureEnvironment:
        return WarningEnvironment(run)


@pytest.mark.parametrize("form", INTERPRETED)
def test_an_environment_calls_handlers_of_nodes(form: Any) -> None:
    rain = gs.simulate(scenario(), WarningScheduler(), nodes=form).tables["rain"]
    assert rain["time"].tolist() == [101.0, 104.0, 108.0] and set(rain["node"]) == {0}


def test_handlers_of_the_environment_have_the_declared_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WarningScheduler, "environment_handlers", {"on_warning": ("view",)})
    with pytest.raises(gs.ScenarioError, match=r"WarnedNode.on_warning must take \(self, view\)"):
        WarningScheduler()


@needs_numba
def test_environments_call_no_handlers_of_compiled_nodes() -> None:
    with pytest.raises(
        gs.CompileError, match="WarnedNode: nodes='compiled' does not support environment_handlers"
    ):
        gs.simulate(scenario(), WarningScheduler(), nodes="compiled")


def test_failures_after_the_last_instant_of_the_core_are_an_error() -> None:
    """The core counts to 2**61 ns; failures may happen until 8e18 ns."""
    late = gs.Faults.of([0, 1, 2], [5.0] * 3, [4e9] * 3)
    with pytest.raises(gs.ScenarioError, match="failures and recoveries must be before 2.3.*, got one at 4e"):
        gs.simulate(scenario(late), FailureScheduler())


# -- neighbours ---------------------------------------------------------------------------------------------


class RingNode(gs.NodeProgram):
    def on_start(self, view: Any) -> None:
        view.note("starts", node=view.node, first=view.neighbours[0], last=view.neighbours[-1])

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class RingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "ring"
    policy = RingNode
    tables: ClassVar[Any] = {"starts": {"node": int, "first": int, "last": int}}

    def draw_neighbours(self, run: Run, nodes: int, among: range) -> Any:
        return np.array([[(k - 1) % nodes, (k + 1) % nodes] for k in among], np.int64)


@pytest.mark.parametrize("form", RUNNABLE_FORMS)
def test_schedulers_choose_the_neighbours_of_nodes(form: Any) -> None:
    table = gs.simulate(scenario(None), RingScheduler(), nodes=form).tables["starts"]
    assert [table[name].tolist() for name in ("node", "first", "last")] == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
