"""Timers with fields: their order, equal timers and cancelling; errors of wrong declarations."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings

import gridsim as gs
from gridsim.testing import check_scheduler
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import RUNNABLE_FORMS
from tests.scheduling.nodes.test_all_forms import scenarios

SET, CANCEL, FIRED, STARTED = range(4)
#: Names of the timers by their numbers, in the order in which they fire at one instant.
PLAIN, PAIR, EMPTY = "plain", "pair", "empty"


class TimerNode(gs.NodeProgram):
    """A node that sets and cancels random timers, and notes each call and each timer that fires."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.left = parameters.calls

    def act(self, view: Any) -> None:
        for _ in range(view.random.integers(self.parameters.burst)):
            self.left -= 1
            if self.left > 0:
                self.set_or_cancel(view)

    def set_or_cancel(self, view: Any) -> None:
        draw, delay = view.random.integers(11), float(view.random.integers(3))
        values = self.parameters.values
        a, x = view.random.integers(values), view.random.integers(values) / 2.0
        if x == 0.0:
            x = 0.0 * view.random.integers(-1, 1)  # both zeros, which are equal
        if draw < 2:
            view.timer(delay, "plain", x)
            self.note(view, 0, 0, delay, 0, x)
        elif draw < 5:
            view.timer(delay, "pair", x=x, a=a)
            self.note(view, 0, 1, delay, a, x)
        elif draw < 7:
            view.timer(delay, "pair", a=a)
            self.note(view, 0, 1, delay, a, 0.5)
        elif draw == 7:
            view.timer(delay, "empty")
            self.note(view, 0, 2, delay, 0, 0.0)
        elif draw == 8:
            view.cancel("pair", a=a)
            self.note(view, 1, 1, 0.0, a, -1.0)
        elif draw == 9:
            view.cancel("pair", x=x, a=a)
            self.note(view, 1, 1, 0.0, a, x)
        elif x:
            view.cancel("plain")
            self.note(view, 1, 0, 0.0, -1, -1.0)
        else:
            view.cancel("pair")
            self.note(view, 1, 1, 0.0, -1, -1.0)

    def note(self, view: Any, action: int, timer: int, delay: float, a: int, x: float) -> None:
        view.note("calls", node=view.node, now=view.now, action=action, timer=timer, delay=delay, a=a, x=x)

    def on_start(self, view: Any) -> None:
        self.note(view, 3, 0, 0.0, 0, 0.0)
        self.act(view)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        self.act(view)

    def on_timer(self, view: Any, name: str, value: float = 0.0) -> None:
        self.note(view, 2, 0 if name == "plain" else 9, 0.0, 0, value)
        self.act(view)

    def on_pair(self, view: Any, a: int, x: float = 0.5) -> None:
        self.note(view, 2, 1, 0.0, a, x)
        self.act(view)

    def on_empty(self, view: Any) -> None:
        self.note(view, 2, 2, 0.0, 0, 0.0)
        self.act(view)


class TimerScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "timers"
    policy = TimerNode
    timers = ("plain",)
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "calls": {
            "node": int,
            "now": float,
            "action": int,
            "timer": int,
            "delay": float,
            "a": int,
            "x": float,
        }
    }
    degree: int = 1
    calls: int = 60  # of timers and cancels, of a node
    burst: int = 4  # above the number of them in a handler
    values: int = 2  # of a field


#: Each node has some hundred timers at a time.
MANY = TimerScheduler(calls=2000, burst=400, values=12)


def check_calls(table: Any, nodes: int) -> None:
    """Compare the timers that fired on each node with those that a list of pending timers predicts."""
    rows = list(zip(*(table[name].tolist() for name in TimerScheduler.tables["calls"]), strict=True))
    for node in range(nodes):
        pending: list[tuple[float, int, int, float]] = []  # pending timers in the order of setting
        batch: list[tuple[float, int, int, float]] = []  # timers of this instant that are about to fire
        end = 0.0
        for number, now, action, timer, delay, a, x in rows:
            if number != node:
                continue
            end = max(end, now)
            key = (now + delay, timer, a, x)
            if action == SET and key not in pending:
                pending.append(key)
            elif action == CANCEL:
                same = [
                    key for key in pending if key[1] == timer and a in (-1, key[2]) and x in (-1.0, key[3])
                ]
                pending = [key for key in pending if key not in same]
                batch = [key for key in batch if key not in same]
            elif action == STARTED:
                pending, batch = [], []
            elif action == FIRED:
                if not batch:
                    batch = sorted((key for key in pending if key[0] == now), key=lambda key: key[1])
                assert (now, timer, a, x) == batch.pop(0)
                pending.remove((now, timer, a, x))
        assert all(instant >= end for instant, *_ in pending)


@settings(max_examples=30, deadline=None)
@given(scenario=scenarios())
def test_timers_with_fields_fire_once_in_order_in_all_forms(scenario: gs.Scenario) -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    check_forms(scenario, TimerScheduler())


def check_forms(scenario: gs.Scenario, scheduler: TimerScheduler) -> None:
    results = [gs.simulate(scenario, scheduler, nodes=form) for form in ("interpreted", "compiled")]
    check_calls(results[0].tables["calls"], scenario.platform.nodes)
    assert results[0].tables == results[1].tables
    assert results[0].digest == results[1].digest


def test_many_timers_fire_once_in_order_in_all_forms() -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    check_forms(gs.Scenario(gs.Platform.of([1000.0] * 2), gs.Workload.of([0.0], [2], [9000.0]), seed=1), MANY)


@pytest.mark.parametrize("scheduler", [TimerScheduler(), MANY], ids=["few", "many"])
@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_pending_timers_continue_from_a_checkpoint(form: Any, scheduler: TimerScheduler) -> None:
    if form == "compiled":
        pytest.importorskip("numba", reason="needs the extra jit")
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 8),
        gs.Workload.of([0.0, 5.0], [16, 16], [2000.0, 2000.0]),
        faults=gs.Faults.of([1, 4], [3.0, 7.0], [4.0, 7.0]),
        seed=4,
    )
    result = gs.simulate(scenario, scheduler, nodes=form)
    assert resume_difference(scenario, scheduler, result, record=False, nodes=form) is None


def test_timers_with_fields_keep_the_invariants(tmp_path: Any) -> None:
    actual = check_scheduler(TimerScheduler(), examples=5, max_nodes=5, hash_seeds=False, folder=tmp_path)
    assert set(actual.left_out) == {"hash seed", "decisions"}


# -- declarations -------------------------------------------------------------------------------------------


def scenario_of(seed: int = 1) -> gs.Scenario:
    return gs.Scenario(gs.Platform.of([1000.0] * 3), gs.Workload.of([0.0], [6], [5000.0]), seed=seed)


class PlainNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


def scheduler_of(*methods: Any, **declared: Any) -> type[gs.NodeScheduler]:
    """Return the class of a scheduler whose nodes have further methods."""
    methods_by_name = {method.__name__: method for method in methods}
    body = {"policy": type("Own", (PlainNode,), methods_by_name), "__module__": __name__, **declared}
    return type("Single", (gs.NodeScheduler,), body, frozen=True, kw_only=True)


def on_start(self: Any, view: Any) -> None:
    view.timer(1.0, "retry", job=3)


def _retry_handler(source: str) -> Any:
    items: dict[str, Any] = {}
    exec(f"def on_retry({source}): pass", items)
    return items["on_retry"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            "self, view, job",
            r"Own.on_retry must annotate 'job' with int or float, such as job: int, .*'retry'",
        ),
        ("self, view, job: 'Job'", r"must annotate 'job'"),
        ("self, view, job: bool", r"must annotate 'job'"),
        ("self, view, *, job: int", r"must take 'job' by position"),
        ("self, view, *jobs: int", r"must take 'jobs' by position"),
        ("self", r"must take \(self, view\) and at most \d+ fields"),
        ("self, view, seconds: float", r"must rename 'seconds': View.timer has a parameter of this name"),
        ("self, view, job: int = 0.5", r"must have a default of 'job' of the type int"),
    ],
)
def test_wrong_parameters_of_a_handler_of_a_timer_are_reported(parameters: str, text: str) -> None:
    with pytest.raises(gs.ScenarioError, match=text):
        scheduler_of(on_start, _retry_handler(parameters))()


def test_a_handler_of_an_undeclared_message_is_no_handler_of_a_timer() -> None:
    def on_release(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.send(0, "retry", application=application.number)

    text = "Own.on_retry handles a message of the kind 'retry': declare it in .*.messages, which has none"
    with pytest.raises(gs.ScenarioError, match=text):
        scheduler_of(on_release, _retry_handler("self, view, m"))()


def test_a_handler_without_a_timer_is_reported() -> None:
    def on_retri(self: Any, view: Any, job: int) -> None:
        pass

    line = inspect.getsourcelines(on_retri)[1]
    text = rf"test_timers.py:{line}: Own.on_retri is never called: .* sets a timer 'retri'; .* mean on_retry"
    with pytest.raises(gs.ScenarioError, match=text):
        scheduler_of(on_start, on_retri)()


def test_a_declared_timer_has_no_handler_of_its_own() -> None:
    with pytest.raises(gs.ScenarioError, match="on_timer handles the timer 'retry', since it is in timers"):
        scheduler_of(on_start, _retry_handler("self, view, job: int"), timers=("retry",))()


def test_handlers_of_one_timer_have_the_same_fields_in_all_classes() -> None:
    scheduler = scheduler_of(on_start, _retry_handler("self, view, job: int"))
    other = scheduler_of(on_start, _retry_handler("self, view, job: float"))

    def program(self: Any, node: int) -> Any:
        return (scheduler if node else other).policy(self)

    both = type("Both", (scheduler,), {"program": program}, frozen=True, kw_only=True)
    with pytest.raises(gs.ScenarioError, match="Own.on_retry must have the fields job, as in another class"):
        gs.simulate(scenario_of(), both())


def test_ticks_call_handlers_of_their_own() -> None:
    def on_half_past(self: Any, view: Any) -> None:
        view.note("ticks", now=view.now)

    tables = {"ticks": {"now": float}}
    scheduler = scheduler_of(on_half_past, ticks={"half-past": 2.0}, tables=tables)
    result = gs.simulate(scenario_of(), scheduler())
    assert result.tables["ticks"]["now"].tolist()[:6] == [2.0] * 3 + [4.0] * 3
    with pytest.raises(gs.ScenarioError, match="ticks requires Own.on_timer or on_other"):
        gs.simulate(scenario_of(), scheduler_of(ticks={"other": 1.0})())
    with pytest.raises(
        gs.ScenarioError, match=r"Own.on_retry must take \(self, view\), since 'retry' is in tick"
    ):
        scheduler_of(_retry_handler("self, view, job: int"), ticks={"retry": 1.0})()


def test_ends_of_tasks_are_watched_if_they_are_handled() -> None:
    def on_end(self: Any, view: Any) -> None:
        view.note("ends", now=view.now)

    tables = {"ends": {"now": float}}
    outcome = gs.simulate(scenario_of(), scheduler_of(on_end, tables=tables)())
    assert len(outcome.tables["ends"]) == 5  # the run is over when the last of six tasks ends
    outcome = gs.simulate(scenario_of(), scheduler_of(on_end, tables=tables, watch="idle")())
    assert len(outcome.tables["ends"]) == 0


# -- errors at run time -------------------------------------------------------------------------------------


class RetryNode(PlainNode):
    def on_start(self, view: Any) -> None:
        view.timer(1.0, "retry", job=3)

    def on_retry(self, view: Any, job: int) -> None:
        view.note("calls", node=view.node, x=float(job))


class ShareRetryNode(gs.NodeProgram):
    def on_start(self, view: Any) -> None:
        view.timer(1.0, "retry", share=0.5)

    def on_retry(self, view: Any, share: float) -> None:
        view.note("calls", node=view.node, x=share)


class WrongRetryNode(ShareRetryNode):
    def on_retry(self, view: Any, share: float) -> None:
        view.timer(1.0, "again")


class RetryRolesScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    roles: ClassVar[dict[str, gs.Role]] = {
        "caller": gs.Role(RetryNode),
        "called": gs.Role(ShareRetryNode, count=1),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {"calls": {"node": int, "x": float}}


class WrongRolesScheduler(RetryRolesScheduler, frozen=True, kw_only=True):
    roles: ClassVar[dict[str, gs.Role]] = {
        "caller": gs.Role(RetryNode),
        "called": gs.Role(WrongRetryNode, count=1),
    }


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_roles_have_timers_of_their_own(form: Any) -> None:
    if form == "compiled":
        pytest.importorskip("numba", reason="needs the extra jit")
    calls = gs.simulate(scenario_of(), RetryRolesScheduler(), nodes=form).tables["calls"]
    assert calls["x"].tolist() == [3.0, 3.0, 3.0, 0.5]
    error, text = (
        gs.SchedulerError,
        "node 3 sets the timer 'again', .* define on_again in WrongRetryNode .* retry",
    )
    if form == "compiled":
        error, text = gs.CompileError, "WrongRetryNode.on_retry: the name of a timer 'again' is unknown"
    with pytest.raises(error, match=text):
        gs.simulate(scenario_of(), WrongRolesScheduler(), nodes=form)


class LateTimerNode(gs.NodeProgram):
    """A node that sets timers beyond the end of any run."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.timer(9.2e9, "late", job=1)
        view.timer(1e300, "late", job=2)
        view.enqueue(application.number, tasks)

    def on_late(self, view: Any, job: int) -> None:
        view.note("fired", job=job)


class LateTimerScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = LateTimerNode
    tables: ClassVar[dict[str, dict[str, type]]] = {"fired": {"job": int}}


def test_timers_may_be_later_than_any_instant() -> None:
    results = [gs.simulate(scenario_of(), LateTimerScheduler(), nodes=form) for form in RUNNABLE_FORMS]
    assert len({result.digest for result in results}) == 1
    assert all(len(result.tables["fired"]) == 0 for result in results)
