"""`check_scheduler` finds rare faults: under load, late, in another process, or in reports."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing import ConformanceError, check_scheduler
from gridsim.testing.locality import can_isolate_nodes, isolate_nodes

HELPERS = Path(__file__).parents[1] / "_helpers"
#: Faults found in the first examples, one for each kind of check with its own code.
FAST = (
    "DecisionOnTooMany",
    "DecisionOnTooFew",
    "FailureForesight",
    "OwnSeed",
    "FileMemory",
    "Teleport",
    "SharesWithoutBytes",
    "Blackboard",
    "SignalNode",
    "NoJobs",
    "DroppedJobs",
    "MissingCancellation",
    "CancellationForesight",
    "LateCancellation",
    "LastApplicationForesight",
    "FailingMachineForesight",
    "RunTimeForesight",
    "LastInFirstOut",
    "DecisionAmongTooMany",
    "LastSlotRejection",
    "SmallLargeShares",
    "StateLossWhileAllAreDown",
    "SharedClaims",
    "EarlyEnd",
    "ForgottenCore",
    "CoresOnce",
    "OwnQueue",
    "Callbacks",
    "Register",
    "Followers",
    "Impatient",
    "FreshBoard",
)
#: Tiers whose faults are found with each of `SEEDS` seeds; the others are measured by
#: ``benchmarks/bench_faults.py``.
TIERS = ("roles", "requests", "boards", "memory", "shared machines", "after", "jobs", "rigid nodes")
SEEDS = 2
sys.path.insert(0, str(HELPERS))  # needed here, since the tests are named after the faults
PLANTED = {
    **import_module("planted").PLANTED,
    **import_module("planted_nodes").PLANTED_NODES,
    **import_module("planted_rigid").PLANTED_RIGID,
    **import_module("planted_future").PLANTED_FUTURE,
    **import_module("planted_reports").PLANTED_REPORTS,
    **import_module("planted_rare").PLANTED_RARE,
    **import_module("planted_roles").PLANTED_ROLES,
    **import_module("planted_shared").PLANTED_SHARED,
    **import_module("planted_jobs").PLANTED_JOBS,
    **import_module("planted_variants").PLANTED_VARIANTS,
    **import_module("planted_easy").PLANTED_EASY,
}
sys.path.remove(str(HELPERS))


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the planted schedulers importable by other interpreters."""
    monkeypatch.syspath_prepend(HELPERS)


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, 0) if name in FAST else pytest.param(name, 0, marks=pytest.mark.slow) for name in PLANTED]
    + [
        pytest.param(name, seed, marks=pytest.mark.slow)
        for seed in range(1, SEEDS)
        for name, fault in PLANTED.items()
        if fault.tier in TIERS
    ],
)
@pytest.mark.usefixtures("importable")
def test_a_planted_fault_is_found_in_200_examples(name: str, seed: int, tmp_path: Path) -> None:
    fault = PLANTED[name]
    with pytest.raises(ConformanceError) as excinfo:
        check_scheduler(
            fault.scheduler(),
            examples=200,
            max_nodes=12,
            hash_seeds="hash seed" in fault.laws,
            seed=seed,
            shrink=False,
            folder=tmp_path / "new",
        )
    error = excinfo.value
    assert error.law in fault.laws and 1 <= error.examples <= 200 and error.file is not None


@pytest.mark.usefixtures("importable")
def test_sound_scheduler_of_rigid_jobs_passes(tmp_path: Path) -> None:
    """The planted faults are variants of this scheduler."""
    scheduler = import_module("planted_rigid").FirstFit()
    report = check_scheduler(scheduler, examples=20, max_nodes=12, hash_seeds=False, folder=tmp_path)
    assert report.with_failures >= 8 and "served" not in report.left_out


@pytest.mark.parametrize("name", ["Honest", "Blackboards"])
@pytest.mark.usefixtures("importable")
def test_isolated_nodes_share_nothing(name: str) -> None:
    """Isolation changes the digest only of nodes with a blackboard, and ends with its context."""
    scheduler = getattr(import_module("planted_nodes"), name)()
    homes, sizes = [0, 1, 2] * 4, [4000.0] * 12
    workload = gs.Workload.of([10.0 * k for k in range(12)], [40] * 12, sizes, homes)
    scenario = gs.Scenario(gs.Platform.of([500.0] * 6), workload, seed=1)
    assert can_isolate_nodes(scheduler)

    def digest() -> str:
        return gs.simulate(scenario, scheduler, nodes="interpreted").digest

    shared = digest()
    with isolate_nodes(scheduler):
        isolated = digest()
    assert (isolated == shared) == (name == "Honest") and digest() == shared


class DiceNode(gs.NodeProgram):
    """Node that seldom sends its tasks away, depending on random numbers of the system."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if os.urandom(1)[0] < 3 and view.neighbours:
            view.send(view.neighbours[0], "take", application=application.number, tasks=tasks)
        else:
            view.enqueue(application.number, tasks)

    def on_message(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_timer(self, view: Any, name: str) -> None:
        raise AssertionError("no node sets a timer")


class DiceScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "dicing"
    policy = DiceNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "take": gs.Message(170, moves_tasks=True, application=int, tasks=int)
    }


@pytest.mark.slow
def test_nondeterministic_scheduler_is_reported_and_saved(tmp_path: Path) -> None:
    """The error is a ConformanceError, not an error of Hypothesis about a flaky test."""
    message = "run [23] differs from run 1: t = .* s: |nondeterministic: the scenario broke the invariant"
    with pytest.raises(ConformanceError, match=message) as excinfo:
        check_scheduler(DiceScheduler(), examples=400, hash_seeds=False, max_nodes=4, folder=tmp_path)
    assert excinfo.value.law == "repeatable" and excinfo.value.file == str(next(tmp_path.iterdir()))


def test_unreached_handlers_and_branches_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"\xff" * count)
    report = check_scheduler(DiceScheduler(), examples=6, hash_seeds=False, max_nodes=4, folder=tmp_path)
    branches = [line.partition(" (line")[0] for line in report.never_reached]
    assert branches == ["DiceNode.on_release, a branch", "DiceNode.on_message", "DiceNode.on_timer"]
    assert "never reached: DiceNode.on_timer (line " in str(report)


class SumNode(gs.NodeProgram):
    """Node that Numba can compile, with a branch and a timer that are never reached."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.task_count = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.task_count += tasks
        if self.task_count < 0:
            self.task_count = 0
        view.decide("kept", application.number, tasks=tasks)
        view.enqueue(application.number, tasks)

    def on_timer(self, view: Any, name: str) -> None:
        self.task_count = 0


class SumScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "summing"
    policy = SumNode
    node_forms = ("compiled", "interpreted")
    timers = ("never",)
    decision_words: ClassVar[dict[str, tuple[str, str, str]]] = {"kept": ("kept {tasks} tasks", "", "")}


class CompiledOnlyScheduler(SumScheduler, frozen=True, kw_only=True):
    node_forms = ("compiled",)


@pytest.mark.parametrize(
    ("scheduler", "branches"),
    [(SumScheduler(), ["SumNode.on_release, a branch", "SumNode.on_timer"]), (CompiledOnlyScheduler(), [])],
    ids=["both forms", "compiled only"],
)
def test_lines_of_compiled_nodes_are_recorded_in_interpreted_form(
    scheduler: gs.Scheduler, branches: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("numba")
    report = check_scheduler(scheduler, examples=4, hash_seeds=False, max_nodes=4, folder=tmp_path)
    assert [line.partition(" (line")[0] for line in report.never_reached] == branches


class NarrowJobs(gs.JobPolicy):
    """Policy of jobs with a branch that is never reached."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.nodes < 1:
                view.reject(job)
            elif job.nodes <= view.free:
                view.start(job)


class NarrowQueue(gs.JobScheduler, frozen=True, kw_only=True):
    policy = NarrowJobs


def test_lines_of_policies_of_jobs_are_recorded(tmp_path: Path) -> None:
    report = check_scheduler(NarrowQueue(), examples=4, hash_seeds=False, max_nodes=4, folder=tmp_path)
    assert [line.partition(" (line")[0] for line in report.never_reached] == ["NarrowJobs.decide, a branch"]


def test_no_lines_are_reported_under_a_debugger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A debugger traces lines itself, so coverage cannot be recorded."""
    pytest.importorskip("numba")
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    report = check_scheduler(SumScheduler(), examples=2, hash_seeds=False, max_nodes=2, folder=tmp_path)
    assert report.never_reached == ()


class OverridingNode(DiceNode):
    """Node that overrides one handler of its base class, and extends another."""

    def current_time(self, truth: Any) -> float:
        return float(truth.now)

    def on_message(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        super().on_release(view, application, tasks)
        view.decide("kept", application.number, tasks=tasks)


class OverridingScheduler(DiceScheduler, frozen=True, kw_only=True):
    name = "overriding"
    policy = OverridingNode
    decision_words: ClassVar[dict[str, tuple[str, str, str]]] = {"kept": ("kept {tasks} tasks", "now", "s")}
    truths: ClassVar[dict[str, Any]] = {
        "kept": lambda truth, node, machine: truth.memory(node).current_time(truth)
    }


def test_overridden_handlers_are_not_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Overridden handlers that the subclass calls count, as do lines that only record decisions."""
    monkeypatch.setattr(os, "urandom", lambda count: b"\xff" * count)
    report = check_scheduler(
        OverridingScheduler(), examples=6, hash_seeds=False, max_nodes=4, folder=tmp_path
    )
    branches = [line.partition(" (line")[0] for line in report.never_reached]
    assert branches == ["DiceNode.on_release, a branch", "DiceNode.on_timer", "OverridingNode.on_message"]
