"""Runs that never end, or that end with unplaced tasks, give errors."""

from __future__ import annotations

import inspect
import signal
from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.errors import text_of
from tests._helpers.forms import FORMS
from tests._helpers.toy import Toy, ToyPolicy


class Node(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        self._send_again(view)

    def _send_again(self, view: Any, message: Any = None) -> None:
        how, sender = self.parameters.how, view.node if message is None else message.sender
        if how in ("timer", "timer and message"):
            view.timer(0.0, "soon")
        if how in ("message to itself", "timer and message"):
            view.send(view.node, "note")
        elif how == "at once":
            view.send(sender if message else 1 - view.node, "now")
        elif how == "later":
            view.later(0.0, "own")
        elif how == "act":
            view.act()

    def on_timer(self, view: Any, name: str) -> None:
        self._send_again(view)

    def on_act(self, view: Any) -> None:
        self._send_again(view)

    def on_note(self, view: Any, message: Any) -> None:
        if self.parameters.how == "message to itself":
            self._send_again(view)

    def on_own(self, view: Any, message: Any) -> None:
        self._send_again(view)

    def on_now(self, view: Any, message: Any) -> None:
        self._send_again(view, message)


class EndlessScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = Node
    timers = ("soon",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "note": gs.Message(10), "now": gs.Message(10, delay=0.0), "own": gs.Message(None),
    }  # fmt: skip
    how: str = "timer"


@pytest.mark.parametrize(
    "how", ["timer", "message to itself", "timer and message", "at once", "later", "act"]
)
def test_an_endless_run_reaches_the_limit_of_events(how: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.equal(nodes=2), gs.Workload.of(release=[0.0], tasks=[1], task_size=[1e9]), seed=1
    )
    # messages with a delay of 0 are handled in one go, so that the engine cannot check the limit
    message = "messages 'now', now at node" if how == "at once" else "did not end within events_limit"
    with pytest.raises(gs.SchedulerError, match=f"^t = 0.0 s: .*{message}"):
        gs.simulate(scenario, EndlessScheduler(how=how, degree=1), events_limit=10_000)


class HoldingNode(gs.NodeProgram):
    def on_timer(self, view: Any, name: str) -> None:
        view.send(view.neighbours[0], "news")

    def on_news(self, view: Any, message: Any) -> None:
        pass

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        pass


class HoldingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = HoldingNode
    ticks: ClassVar[dict[str, float]] = {"beat": 5.0}
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10)}


@pytest.mark.parametrize("faults", [None, gs.Faults.exponential(6000.0, 500.0, seed=1)])
def test_tasks_that_nodes_never_place_end_a_run(monkeypatch: pytest.MonkeyPatch, faults: Any) -> None:
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE", 1_000)
    scenario = gs.Scenario(
        gs.Platform.equal(nodes=2), gs.Workload.of([0.0, 9.0], [1, 3], [1e3, 1e3], [1, 1]), faults=faults
    )
    with pytest.raises(
        gs.SchedulerError, match="node 1 holds 1 task of application 0 that it has not placed .1 more"
    ):
        gs.simulate(scenario, HoldingScheduler(degree=1))


def test_the_error_of_the_event_limit_names_tasks_that_nodes_hold() -> None:
    scenario = gs.Scenario(gs.Platform.equal(nodes=2), gs.Workload.of([0.0], 3, 1e3, [1]))
    with pytest.raises(gs.SchedulerError, match="kind 'news'; node 1 holds 3 tasks of application 0 that"):
        gs.simulate(scenario, HoldingScheduler(degree=1), events_limit=500)


class ForgetfulNode(gs.NodeProgram):
    """A node that queues its first submission, and forgets the others."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if application.number == 0:
            view.enqueue(application.number, tasks - 1)
        elif application.number == 2:
            view.send(0, "take", application=application.number, tasks=tasks)

    def on_take(self, view: Any, message: Any) -> None:
        pass


class ForgetfulScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "idling"
    policy = ForgetfulNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "take": gs.Message(100, moves_tasks=True, application=int, tasks=int)
    }


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    "faults", [None, gs.Faults.of([1], [50.0], [60.0])]
)  # lost tasks are submitted again
def test_errors_of_unfinished_runs_name_the_node_that_holds_tasks(form: Any, faults: Any) -> None:
    if form == "compiled":
        pytest.importorskip("numba")
    workload = gs.Workload.of([0.0, 1.0, 2.0], [2, 3, 4], 1e3, [0, 1, 2])
    scenario = gs.Scenario(gs.Platform.equal(3, 1000.0), workload, faults=faults)
    first = r"node 0 holds 1 task of application 0 that it has not placed \(2 more such cases, with 7 tasks\)"
    with pytest.raises(
        gs.SchedulerError, match=f"^t = .* s: idling ended with 8 of 9 tasks unfinished: {first}$"
    ):
        gs.simulate(scenario, ForgetfulScheduler(), nodes=form)


def test_errors_of_the_time_limit_name_the_node_that_holds_tasks() -> None:
    scenario = gs.Scenario(gs.Platform.equal(nodes=2), gs.Workload.of([0.0], 3, 1e3, [1]))
    with pytest.raises(
        gs.ScenarioError, match="time_limit = 60 s .*; node 1 holds 3 tasks of application 0 that"
    ):
        gs.simulate(scenario, HoldingScheduler(degree=1), time_limit=60.0)


class UnplacedScheduler(Toy, frozen=True, kw_only=True):
    """A cohort scheduler that never places the second application; it may report so."""

    says: bool = True

    def start(self, run: gs.Run) -> gs.Policy:
        return UnplacedPolicy(self, run)


class UnplacedPolicy(ToyPolicy):
    def on_release(self, applications: list[int]) -> None:
        super().on_release([i for i in applications if i != 1])

    def unplaced(self) -> str:
        return "the desk holds 3 tasks of application 1" if self.toy.says else super().unplaced()


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        (
            True,
            gs.SchedulerError,
            "^t = .* s: toy ended with 3 of 7 tasks unfinished: the desk holds 3 tasks of",
        ),
        (
            False,
            gs.InvariantViolation,
            "^application 1: each of its 3 tasks must be completed once, got 0 completions$",
        ),
    ],
)
def test_errors_have_the_unplaced_tasks_of_cohort_schedulers(
    says: bool, error: type[Exception], message: str
) -> None:
    scenario = gs.Scenario(
        gs.Platform.equal(3, 1000.0), gs.Workload.of([0.0, 0.0, 1.0], [2, 3, 2], 1e3, [0, 1, 2])
    )
    with pytest.raises(error, match=message):
        gs.simulate(scenario, UnplacedScheduler(says=says))


class ChatScheduler(HoldingScheduler, frozen=True, kw_only=True):
    to_the_end = True
    ticks: ClassVar[dict[str, float]] = {}
    policy = type("Chatter", (HoldingNode,), {
        "on_release": lambda self, view, application, tasks: (
            view.enqueue(application.number, tasks), view.send(view.neighbours[0], "news", left=100_000)
        ),
        "on_news": lambda self, view, message: message.left and view.send(
            message.sender, "news", left=message.left - 1
        ),
    })  # fmt: skip
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10, left=int)}


def _chat(monkeypatch: pytest.MonkeyPatch, patience: int) -> gs.Result:
    """Run a scheduler whose nodes exchange 100,001 messages after the last task."""
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE", 1)
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE_PER_NODE", 1)
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE_TO_THE_END", patience)
    grid = gs.Platform.equal(nodes=6)
    return gs.simulate(gs.Scenario(grid, gs.Workload.of([0.0], [1], [1e3])), ChatScheduler(degree=1))


def test_many_events_after_the_last_task_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _chat(monkeypatch, 10_000).messages["sent"].sum() == 100_001


def test_a_run_to_the_end_that_never_ends_gives_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "most of them messages 'news' .now at node ., Chatter.on_news, .*; all tasks are done; omit"
    with pytest.raises(gs.SchedulerError, match=message):
        _chat(monkeypatch, 100)


def test_the_progress_line_names_the_most_frequent_events(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gridsim.support.progress.LINE_INTERVAL", 0.0)
    scenario = gs.Scenario(gs.Platform.equal(nodes=2), gs.Workload.of([0.0], 3, 1e3, [1]))
    with pytest.raises(gs.ScenarioError, match="time_limit"):
        gs.simulate(scenario, HoldingScheduler(degree=1), time_limit=60.0, progress="force")
    lines = capsys.readouterr().err.splitlines()
    assert lines[3].endswith("t = 15 s, 15 events: 50% calls of on_timer, 50% messages 'news'")


class PausingNode(gs.NodeProgram):
    """A node that ticks, and queues its tasks after a pause."""

    def on_start(self, view: Any) -> None:
        view.timer(0.01, "tick")

    def on_tick(self, view: Any) -> None:
        view.timer(0.01, "tick")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.timer(500.0, "go", job=application.number, tasks=tasks)

    def on_go(self, view: Any, job: int, tasks: int) -> None:
        view.enqueue(job, tasks)


class PausingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = PausingNode


def test_a_limit_of_events_lengthens_the_wait_for_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE", 1)
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE_PER_NODE", 100)
    scenario = gs.Scenario(gs.Platform.equal(3, 1000.0), gs.Workload.of([0.0], 2, 1000.0))
    with pytest.raises(gs.SchedulerError, match="timers 'tick' .*; a higher events_limit allows for more$"):
        gs.simulate(scenario, PausingScheduler())
    assert gs.simulate(scenario, PausingScheduler(), events_limit=1_000_000).makespan == 502.0


class LoopNode(gs.NodeProgram):
    """A node whose first release never ends."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.count = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.loop(tasks)
        view.enqueue(application.number, tasks)

    def loop(self, tasks: int) -> None:
        while tasks:
            self.count = tasks


class TryLoopNode(LoopNode):
    def loop(self, tasks: int) -> None:
        while tasks:
            try:
                while tasks:
                    self.count = tasks
            except Exception:
                self.count = 0


class LoopScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = LoopNode


class TryLoopScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = TryLoopNode


_ONE_TASK = gs.Scenario(gs.Platform.equal(2, 1000.0), gs.Workload.of([0.0], 1, 1e3, [1]))


def test_a_compiled_loop_without_end_is_an_error() -> None:
    pytest.importorskip("numba")
    with pytest.raises(
        gs.SchedulerError, match="must end within 1,000,000,000 iterations, got more"
    ) as excinfo:
        gs.simulate(_ONE_TASK, LoopScheduler(), nodes="compiled")
    line = inspect.getsourcelines(LoopNode.loop)[1] + 1
    assert text_of(excinfo.value).endswith(f"node 1: LoopNode.on_release, {__file__}:{line} in loop")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timer signals")
def test_ctrl_c_ends_a_compiled_loop_even_in_a_try_statement() -> None:
    pytest.importorskip("numba")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 3.0)
    try:
        with pytest.raises(KeyboardInterrupt) as excinfo:
            gs.simulate(_ONE_TASK, TryLoopScheduler(), nodes="compiled")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
    assert "node 1: TryLoopNode.on_release, " in text_of(excinfo.value)


class TinyTimerNode(gs.NodeProgram):
    """A node that sends messages for a while, and then sets a timer of a tiny time again and again."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.send(view.neighbours[0], "news", left=self.parameters.news)

    def on_news(self, view: Any, message: Any) -> None:
        if message.left:
            view.send(message.sender, "news", left=message.left - 1)
        else:
            view.timer(self.parameters.period, "tick")

    def on_tick(self, view: Any) -> None:
        view.timer(self.parameters.period, "tick")


class TinyTimerScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "ticks"
    policy = TinyTimerNode
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10, left=int)}
    news: int = 15_000
    period: float = 1e-9


@pytest.mark.parametrize("form", FORMS)
def test_a_clock_that_crawls_gives_a_warning(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE", 9_000)
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE_PER_NODE", 0)
    workload = gs.Workload.of([0.0], 1, 1e9, [1])
    scenario = gs.Scenario(gs.Platform.equal(2, 1000.0), workload)
    line = inspect.getsourcelines(TinyTimerNode.on_tick)[1]
    message = (
        r"^t = .* s: ticks: the simulated time hardly advances: the last .*,.* events took .*e-05 s, most of "
        rf"them timers 'tick' \(now at node 0, TinyTimerNode.on_tick, {__file__}:{line}\)$"
    )
    with (
        pytest.warns(gs.SchedulerWarning, match=message),
        pytest.raises(gs.SchedulerError, match="events_limit"),
    ):
        gs.simulate(scenario, TinyTimerScheduler(degree=1), nodes=form, events_limit=60_000)


def test_a_timer_of_two_microseconds_gives_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE", 9_000)
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.PATIENCE_PER_NODE", 0)
    scenario = gs.Scenario(gs.Platform.equal(2, 1000.0), gs.Workload.of([0.0], 1, 200.0, [1]))
    gs.simulate(scenario, TinyTimerScheduler(degree=1, news=0, period=2e-6))
