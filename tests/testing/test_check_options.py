"""Options of `check_scheduler`: its budget, horizon, limit of messages, drawn parameters, and variants."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing import (
    ConformanceError,
    check_scheduler,
    clairvoyance,
    conformance,
    parameters,
    run_traces,
    scenarios,
)
from gridsim.testing.action_log import _START, ActionLog, _ActionKind, first_difference
from gridsim.testing.cases import compress, span
from gridsim.testing.clairvoyance import foresight_violation
from gridsim.testing.failure_injection import failures_at_events
from gridsim.testing.locality import locality_violation
from gridsim.testing.run_traces import observe


class HandingNode(gs.NodeProgram):
    """A node that notifies all others of each submission, and hands tasks over to its neighbour."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for node in range(view.machines):
            view.send(node, "news")
        if tasks >= self.parameters.wrong_from:
            tasks -= 1  # a task is forgotten
        view.enqueue(application.number, tasks)

    def on_news(self, view: Any, message: Any) -> None:
        # runs before the check have 1 or 5 machines
        if self.parameters.interrupts and view.machines not in (1, 5):
            raise KeyboardInterrupt


class HandingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "handing"
    policy = HandingNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10)}
    wrong_from: int = 10**9
    interrupts: bool = False


def _check(scheduler: Any, tmp_path: Any, **options: Any) -> Any:
    return check_scheduler(scheduler, max_nodes=9, hash_seeds=False, folder=tmp_path, **options)


class ChattyNode(HandingNode):
    """A node that sends a message for each task of a large bag."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for _ in range(tasks if tasks > 1_000 else 1):
            view.send(view.node, "news")
        view.enqueue(application.number, tasks)


class ChattyScheduler(HandingScheduler, frozen=True, kw_only=True):
    policy = ChattyNode


def test_a_large_bag_with_too_many_events_is_skipped(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(conformance, "MAX_EVENTS", 2_000)
    report = _check(ChattyScheduler(), tmp_path, examples=1)
    assert "not checked: large bags, its run has too many events" in str(report)


def test_a_check_ends_when_its_time_is_over(tmp_path: Any) -> None:
    report = _check(HandingScheduler(), tmp_path, examples=1000, seconds=1e-9)
    assert report.examples == 0 and report.interrupted and "has not ended" in str(report)


def test_an_interrupted_check_reports_what_it_has_tried(tmp_path: Any) -> None:
    with pytest.raises(KeyboardInterrupt, match="handing: . scenarios, .* so far; the check has not ended"):
        _check(HandingScheduler(interrupts=True), tmp_path, examples=5, faults=False)


def test_a_scenario_that_is_checked_in_part_does_not_count(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over in the middle of the second scenario: its remaining invariants are not checked."""
    checked: list[str] = []
    inner = conformance._ConformanceTrial.check_invariant

    def check_invariant(self: Any, invariant: str, *arguments: Any) -> None:
        checked.append(invariant)
        inner(self, invariant, *arguments)
        if self.example_count == 2 and invariant == "forms":
            self.deadline = 0.0

    monkeypatch.setattr(conformance._ConformanceTrial, "check_invariant", check_invariant)
    for limits, is_interrupted in (({"seconds": 100.0}, False), ({"examples": 5, "seconds": 100.0}, True)):
        checked.clear()
        report = _check(HandingScheduler(), tmp_path, faults=False, **limits)
        assert (report.examples, report.interrupted) == (1, is_interrupted)
        assert ("4 of 5 scenarios" in report.left_out) == is_interrupted
        assert checked.count("sound") == 2 and checked.count("locality") == 1 and checked[-1] == "forms"


def test_branches_of_the_program_are_covered_first(tmp_path: Any) -> None:
    """Few scenarios have bags of so many tasks."""
    with pytest.raises(ConformanceError, match="1 of .* tasks unfinished: node . holds 1 task") as excinfo:
        _check(HandingScheduler(wrong_from=100), tmp_path, examples=4, shrink=False)
    assert excinfo.value.examples <= 4


class _RaisingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        raise ValueError("no release")


class _RaisingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = _RaisingNode


@pytest.mark.parametrize(
    ("scheduler", "cause"),
    [(HandingScheduler(wrong_from=2), ""), (_RaisingScheduler(), 'raise ValueError("no')],
)
def test_a_violation_is_printed_last(scheduler: gs.Scheduler, cause: str, tmp_path: Any) -> None:
    """Only frames of the user's code come before it, and no notes of Hypothesis after it."""
    with pytest.raises(ConformanceError) as excinfo:
        _check(scheduler, tmp_path, examples=4)
    text = "".join(traceback.format_exception(excinfo.value))
    assert cause in text and "hypothesis" not in text and text.count("\n") < 25
    *_, violation, where = text.splitlines()
    assert "breaks the invariant" in violation and where.endswith(f"on the scenario {excinfo.value.file}")


class SleepingNode(gs.NodeProgram):
    """Node that never returns from a release, on any platform or on those without 1 or 5 machines."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        # runs before the check have 1 or 5 machines
        while self.parameters.always or view.machines not in (1, 5):
            time.sleep(0.1)


class SleepingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = SleepingNode
    always: bool = False


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timer signals")
@pytest.mark.parametrize("always", [True, False])
def test_a_handler_that_sleeps_for_ever_ends_a_check(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    monkeypatch.setattr("gridsim.testing.run_limits.HANDLER_TIME", 0.3)
    # with the default, only a hang within `seconds` would end the check
    monkeypatch.setattr(conformance, "OVERTIME", 0.0)
    location = f"SleepingNode.on_release, {__file__}:"
    message = f"'runs' .* a handler has not returned .*; t = .* s, node .: {location}"
    previous = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 1000.0)
    try:
        with pytest.raises(ConformanceError, match=message):
            _check(SleepingScheduler(always=always), tmp_path, seconds=100.0)
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


class PeekingNode(gs.NodeProgram):
    """Node that, for some parameters, knows about submissions at other nodes."""

    submitted: ClassVar[list[float]] = [-1.0]

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        last = self.submitted[0]
        self.submitted[0] = view.now + tasks
        if self.parameters.peeks == 3 and last > 0.0 and view.neighbours:
            view.send(view.neighbours[0], "news", last=last)
        view.enqueue(application.number, tasks)

    def on_start(self, view: Any) -> None:
        self.submitted[0] = -1.0

    def on_news(self, view: Any, message: Any) -> None:
        pass


class PeekingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = PeekingNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10, last=float)}
    peeks: Annotated[int, gs.Limits(low=0, high=3)] = 0


def test_locality_is_checked_with_drawn_parameters(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated nodes share no list, so only the check of locality detects shared knowledge."""
    monkeypatch.setattr(conformance, "can_isolate_nodes", lambda scheduler: False)
    sample = parameters(PeekingScheduler, degree=2, detection=1.0)
    with pytest.raises(ConformanceError, match="breaks the invariant 'locality'") as excinfo:
        _check(sample, tmp_path, examples=60, faults=False, shrink=False)
    assert excinfo.value.scheduler.peeks == 3  # type: ignore[attr-defined]


def test_an_endless_run_leads_to_the_horizon(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conformance.LIMITS, "events_limit", 3)
    with pytest.raises(ConformanceError, match="(?s)within events_limit = 3 .*use `horizon` for shorter"):
        _check(HandingScheduler(), tmp_path, examples=1, shrink=False)


def test_an_invariant_limits_the_messages_of_a_task(tmp_path: Any) -> None:
    with pytest.raises(ConformanceError, match="breaks the invariant 'messages' .* messages_per_task = 0.5"):
        _check(HandingScheduler(), tmp_path, examples=20, messages_per_task=0.5)
    assert _check(HandingScheduler(), tmp_path, examples=2, messages_per_task=9.0).examples == 2


def test_the_progress_line_counts_scenarios(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _check(HandingScheduler(), tmp_path, examples=2, faults=False, progress="force")
    assert "check_scheduler: 2/2 scenarios" in capsys.readouterr().err
    _check(HandingScheduler(), tmp_path, seconds=1.0, faults=False, progress="force")
    assert re.search(r"check_scheduler: \d+ scenarios after", capsys.readouterr().err)


@settings(max_examples=60, deadline=None)
@given(scenarios(faults=True, crowded=True, pauses=True) | scenarios(rigid=True, pauses=True))
def test_a_horizon_compresses_all_times_by_one_factor(scenario: gs.Scenario) -> None:
    short = compress(scenario, 60.0)
    applications = short.workload.realize(short.platform)
    assert applications.release.max() <= 60.0
    assert applications.size.sum() / scenario.platform.aggregate_speed <= 60.0
    before, after = (item.workload.recipe for item in (scenario, short))
    size = "run_time" if hasattr(before, "run_time") else "task_size"
    factor = np.array(getattr(after, size)) / np.array(getattr(before, size))
    assert np.allclose(factor, factor[0]) and factor[0] <= 1.0
    assert np.allclose(after.release, factor[0] * np.array(before.release))
    if scenario.faults is not None:
        long, short_faults = (item.faults.recipe for item in (scenario, short))  # type: ignore[union-attr]
        for machine, down in zip(short_faults.machine, short_faults.down, strict=True):
            same = np.array(long.machine) == machine
            assert np.isclose(down, factor[0] * np.array(long.down)[same]).any()


class AskingNode(gs.NodeProgram):
    """A node that sends its tasks away once a neighbour has answered, and asks again if none does."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.held = gs.Fifo(application=int, tasks=int)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if not view.neighbours:
            view.enqueue(application.number, tasks)
            return
        self.held.push(application.number, tasks)
        self.ask(view)

    def ask(self, view: Any) -> None:
        view.request(view.random.choice(view.neighbours), "probe", timeout=400.0)

    def on_probe(self, view: Any, message: Any) -> None:
        view.reply(message, "answer")

    def on_answer(self, view: Any, message: Any) -> None:
        application, tasks = self.held.pop()
        view.send(message.sender, "task", application=application, tasks=tasks)

    def on_timeout(self, view: Any, request: Any) -> None:
        self.ask(view)

    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class AskingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = AskingNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "probe": gs.Message(10, answer="answer"),
        "answer": gs.Message(10),
        "task": gs.Message(10, moves_tasks=True, application=int, tasks=int),
    }


class TickingNode(HandingNode):
    def on_tick(self, view: Any) -> None:
        pass


class TickingScheduler(HandingScheduler, frozen=True, kw_only=True):
    policy = TickingNode
    ticks: ClassVar[dict[str, float]] = {"tick": 0.04}


def test_variants_of_a_scenario_keep_to_the_horizon(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The future has an outage that may begin at the horizon."""
    spans, latencies = list[float](), list[float]()
    inner = conformance.simulate

    def simulate(scenario: gs.Scenario, *arguments: Any, **options: Any) -> gs.Result:
        spans.append(span(scenario))
        return inner(scenario, *arguments, **options)

    def record_latency(scenario: gs.Scenario, *arguments: Any, **options: Any) -> gs.Result:
        latencies.append(scenario.network.latency)
        return inner(scenario, *arguments, **options)

    monkeypatch.setattr(conformance, "simulate", simulate)
    monkeypatch.setattr(clairvoyance, "simulate", simulate)
    monkeypatch.setattr(run_traces, "simulate", record_latency)
    _check(gs.Fcfs(), tmp_path, examples=20, horizon=40.0)
    assert 40.0 < max(spans) < 81.0
    _check(HandingScheduler(), tmp_path, examples=4, faults=False, horizon=40.0)
    assert 0.0 < max(latencies) <= 5.0


def test_added_outages_keep_to_the_horizon() -> None:
    outages = list[float]()
    for seed in range(4):
        workload, faults = gs.Workload.of([0.0], 4, 1000.0, [0]), gs.Faults.of([1], [1.0], [1.0])
        scenario = gs.Scenario(gs.Platform.equal(2), workload, seed=seed, faults=faults)
        result = gs.simulate(scenario, gs.Fcfs(), record=["schedule", "messages"])
        for variant in failures_at_events(result, 20.0):
            recipe: Any = variant.faults.recipe  # type: ignore[union-attr]
            outages.append(recipe.up[-1] - recipe.down[-1])
    assert max(outages) == pytest.approx(20.0)


def test_an_endless_variant_is_no_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the only neighbour, and with later applications of 16 times the size, runs reach a limit."""
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0, 10.0], 1, 5000.0, [0, 0], origin=0.0))
    skipped = set[str]()
    monkeypatch.setitem(conformance.LIMITS, "events_limit", 2000)
    assert locality_violation(scenario, AskingScheduler(), True, np.inf, skipped) is None
    assert skipped == {"messages take long and a machine is down"}
    skipped.clear()
    assert foresight_violation(scenario, TickingScheduler(), np.inf, skipped) is None
    assert skipped == {"other applications or failures follow"}


def test_observed_runs_are_valid_by_the_parameters_of_their_scheduler() -> None:
    """A search of RJSS takes as long as its messages."""
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], [1], [100.0], submitter=[0]))
    skipped: set[str] = set()
    assert locality_violation(scenario, gs.Rjss(probe_latency="network"), False, np.inf, skipped) is None


def test_the_report_counts_endless_variants(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_endless(*arguments: Any) -> None:
        raise gs.SchedulerError("t = 1 s: handing did not end within events_limit = 200000")

    monkeypatch.setattr(conformance, "locality_violation", raise_endless)
    monkeypatch.setattr(conformance, "foresight_violation", lambda *arguments: arguments[-1].add("it rains"))
    report = str(_check(HandingScheduler(), tmp_path, examples=3, faults=False))
    end = "of some scenarios, 3 do not end within 200,000 events if"
    assert f"not checked: locality {end} messages take long\nnot checked: foresight {end} it rains" in report


def test_failures_are_tried_before_crowded_scenarios() -> None:
    """Checks of crowded scenarios may take all the time of a check."""
    blocks = [(has_failures, is_crowded) for has_failures, is_crowded, _ in conformance._rounds(9, 9)]
    assert blocks[:4] == [(False, False), (True, False), (False, True), (True, True)]


class TunableScheduler(HandingScheduler, frozen=True, kw_only=True):
    fan_out: Annotated[int, gs.Limits(low=2, high=5)] = 2
    timeout: Annotated[float, gs.Limits(above=0, unit="s")] = 1.0
    mode: Literal["push", "pull"] = "push"
    limit: Annotated[int, gs.Limits(low=1)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "pull" and self.limit is None:
            raise gs.ScenarioError("mode = 'pull' requires limit")


@settings(max_examples=200, deadline=None)
@given(parameters(TunableScheduler, detection=2.0, wrong_from=st.just(7)))
def test_parameters_are_drawn_within_their_limits(sample: TunableScheduler) -> None:
    assert 2 <= sample.fan_out <= 5 and sample.timeout > 0 and (sample.limit is None or sample.limit >= 1)
    assert sample.detection == 2.0 and sample.wrong_from == 7


def test_small_limits_and_all_choices_are_drawn() -> None:
    sample = parameters(TunableScheduler)
    assert find(sample, lambda each: each.limit == 1 and each.mode == "pull").fan_out == 2
    with pytest.raises(
        gs.ScenarioError, match="TunableScheduler has no parameter 'fanout'; did you mean fan_out"
    ):
        parameters(TunableScheduler, fanout=3)


class DrawingNode(gs.NodeProgram):
    """A node that draws a number for each share, and sends another one after 100 s."""

    def on_start(self, view: Any) -> None:
        view.timer(100.0, "tell")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for _ in range(tasks):
            view.random.random()
        view.enqueue(application.number, tasks)

    def on_tell(self, view: Any) -> None:
        view.send(view.neighbours[0], "report", number=view.random.random())

    def on_report(self, view: Any, message: Any) -> None:
        pass


class DrawingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = DrawingNode
    messages: ClassVar[dict[str, gs.Message]] = {"report": gs.Message(72, number=float)}


def test_aligned_streams_forget_earlier_draws() -> None:
    """Otherwise a machine that has drawn more numbers before its failure would act differently afterwards."""
    sent = []
    for tasks in (2, 5):
        workload = gs.Workload.of([0.0], tasks, 1e6, submitter=[0])
        run = observe(gs.Scenario(gs.Platform.equal(3), workload), DrawingScheduler(), align_at=50 * 10**9)
        log = run.actions.since(50 * 10**9)
        sent.append(
            [
                (log[k].machine, dict(log[k].fields)["number"])
                for k in range(len(log))
                if log[k].kind == "sends report"
            ]
        )
    assert len(sent[0]) == 3 and sent[0] == sent[1]


_KILLED = """
import os, sys, time
from gridsim.testing.other_interpreters import interpreter
if __name__ == "__main__":
    with interpreter("1") as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(300)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_other_interpreters_end_when_the_check_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(_KILLED)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        other = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    for _ in range(100):
        try:
            os.kill(other, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(other, signal.SIGKILL)
    pytest.fail("the other interpreter is still running after 10 s")


def _log(messages: list[int], starts: list[int]) -> ActionLog:
    """Return the log of a machine: times (ns) of messages without fields, and of starts of application 0."""
    count = len(messages) + len(starts)
    kind = np.repeat([0, 1], [len(messages), len(starts)])
    kinds = (_ActionKind("sends share"), _START)
    return ActionLog(
        kinds, np.array(messages + starts), np.zeros(count, np.int64), kind, np.zeros((count, 1), np.int64)
    )


def test_only_the_action_that_differs_is_named() -> None:
    """A start that both runs have is not taken for another one because one run has sent more messages."""
    difference = first_difference(_log([10], [5, 20]), _log([], [5, 20]), [100])
    assert difference is not None
    action, qualifier = difference
    assert (action.time, action.kind, qualifier) == (10, "sends share", "only without the change")
    difference = first_difference(_log([10], [5, 20]), _log([10, 30], [5, 7, 20]), [100])
    assert difference is not None and (difference[0].time, difference[0].kind) == (7, "starts")
