"""Requests: each gets an answer or a timeout, in all forms and with failures; errors of declarations."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing import check_scheduler
from gridsim.testing.resuming import resume_difference
from tests.scheduling.nodes.test_all_forms import scenarios
from tests.scheduling.nodes.test_timers import scheduler_of

STARTED, ASKED, ANSWERED, TIMED_OUT, PLAIN = range(5)


class AskingNode(gs.NodeProgram):
    """A node that asks random nodes for a task, and answers at once, later or never."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.left, self.kept = 8, -1

    def note(self, view: Any, event: int, number: int, x: float) -> None:
        view.note("calls", node=view.node, now=view.now, event=event, number=number, x=x)

    def on_start(self, view: Any) -> None:
        self.note(view, 0, 0, 0.0)
        view.timer(1.0, "poll")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.kept = application.number
        view.enqueue(application.number, (tasks + 1) // 2)
        view.timer(4.0, "flush", application=application.number)

    def on_flush(self, view: Any, application: int) -> None:
        if view.held(application) > 0:
            view.enqueue(application, view.held(application))

    def on_poll(self, view: Any) -> None:
        self.left -= 1
        for k in range(view.random.integers(3)):
            timeout = float(view.random.integers(4)) / 2.0
            place = view.random.integers(view.machines)
            number = view.request(place, "fetch", timeout=timeout, part=k, due=view.now + timeout)
            self.note(view, 1, number, view.now + timeout)
        if self.left > 0:
            view.timer(1.0, "poll")

    def on_fetch(self, view: Any, message: Any) -> None:
        draw = view.random.integers(6)
        if self.kept >= 0 and view.held(self.kept) > 0 and draw < 4:
            view.reply(message, "task", application=self.kept, tasks=1)
        elif draw < 3:
            view.reply(message, "none", x=0.5)
        elif draw < 5:
            view.timer(float(draw) / 2.0 - 1.0, "late", sender=message.sender, request=message.request)

    def on_late(self, view: Any, sender: int, request: int) -> None:
        view.send(sender, "none", x=1.5, request=request)
        view.send(sender, "none", x=2.5)

    def on_task(self, view: Any, message: Any) -> None:
        self.note(view, 2 if message.request else 4, message.request, 2.5)
        view.enqueue(message.application, message.tasks)

    def on_none(self, view: Any, message: Any) -> None:
        self.note(view, 2 if message.request else 4, message.request, message.x)

    def on_timeout(self, view: Any, request: Any) -> None:
        fits = request.kind == "fetch" and request.part < 3 and 0 <= request.to < view.machines
        self.note(view, 3, request.number, request.due if fits else -1.0)


class AskingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "asks"
    policy = AskingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "fetch": gs.Message(100, answer=("task", "none"), part=int, due=float),
        "task": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        "none": gs.Message(lambda x: 80 + int(x), x=float),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "calls": {"node": int, "now": float, "event": int, "number": int, "x": float}
    }
    degree: int = 1


def check_calls(table: Any) -> None:
    """Check that each request ends once, by an answer before its timeout or by the timeout."""
    pending: dict[int, dict[int, float]] = {}  # node -> number -> when its timeout is due
    seen: set[int] = set()
    end = max(table["now"].tolist(), default=0.0)
    for node, now, event, number, x in zip(
        *(table[name].tolist() for name in AskingScheduler.tables["calls"]), strict=True
    ):
        if event == STARTED:
            pending[node] = {}  # a node that fails forgets its requests
        elif event == ASKED:
            assert number >= 1 and number not in seen
            seen.add(number)
            pending[node][number] = x
        elif event == ANSWERED:
            assert now <= pending[node].pop(number)
        elif event == TIMED_OUT:
            assert now == x == pending[node].pop(number)
        else:
            assert number == 0 and x == 2.5
    assert all(due >= end for requests in pending.values() for due in requests.values())


@settings(max_examples=25, deadline=None)
@given(scenario=scenarios(), detection=st.sampled_from([0.0, 1.0]))
def test_requests_end_once_in_all_forms(scenario: gs.Scenario, detection: float) -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    scheduler = AskingScheduler(detection=detection)
    results = [gs.simulate(scenario, scheduler, nodes=form) for form in ("interpreted", "compiled")]
    if scenario.faults is None:  # failed nodes are replaced without a call while they are down
        check_calls(results[0].tables["calls"])
    assert results[0].tables == results[1].tables
    assert results[0].digest == results[1].digest


FAILING = gs.Scenario(
    gs.Platform.of([1000.0] * 8),
    gs.Workload.of([0.0, 3.0], [24, 24], [2000.0, 2000.0]),
    gs.Network(latency=0.3),
    faults=gs.Faults.of([1, 4, 1], [3.0, 5.0, 6.5], [3.0, 5.0, 6.5]),
    seed=4,
)


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_a_failed_node_forgets_its_requests(form: Any) -> None:
    if form == "compiled":
        pytest.importorskip("numba", reason="needs the extra jit")
    result = gs.simulate(FAILING, AskingScheduler(), nodes=form)
    calls = result.tables["calls"]
    check_calls(calls)
    events = calls["event"].tolist()
    assert {STARTED, ASKED, ANSWERED, TIMED_OUT, PLAIN} == set(events) and events.count(STARTED) == 11
    assert resume_difference(FAILING, AskingScheduler(), result, record=False, nodes=form) is None


def test_requests_keep_the_invariants(tmp_path: Any) -> None:
    actual = check_scheduler(AskingScheduler(), examples=4, max_nodes=5, hash_seeds=False, folder=tmp_path)
    assert set(actual.left_out) == {"hash seed", "decisions"}


def test_a_late_answer_with_tasks_arrives_as_a_plain_message() -> None:
    def on_start(self: Any, view: Any) -> None:
        if view.node == 0:
            view.timer(0.5, "ask")

    def on_ask(self: Any, view: Any) -> None:
        view.request(1, "fetch", timeout=0.25)

    def on_release(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks - (view.now == 0.0))

    def on_fetch(self: Any, view: Any, message: Any) -> None:
        view.reply(message, "task", application=0, tasks=1)

    def on_task(self: Any, view: Any, message: Any) -> None:
        assert message.request == 0
        view.enqueue(message.application, message.tasks)

    def on_timeout(self: Any, view: Any, request: Any) -> None:
        view.note("timeouts", to=request.to, now=view.now)

    messages = {
        "fetch": gs.Message(8, answer="task", delay=0.2),
        "task": gs.Message(24, moves_tasks=True, delay=0.2, application=int, tasks=int),
    }
    methods = (on_start, on_ask, on_release, on_fetch, on_task, on_timeout)
    scheduler = scheduler_of(*methods, messages=messages, tables={"timeouts": {"to": int, "now": float}})
    workload = gs.Workload.of([0.0], [4], [1000.0], submitter=[1])
    result = gs.simulate(gs.Scenario(gs.Platform.of([1000.0] * 2), workload, seed=1), scheduler())
    assert result.tables["timeouts"]["now"].tolist() == [0.75]
    assert result.applications["resubmitted"].tolist() == [0]
    assert result.machines["tasks"].tolist() == [1, 3]


# -- declarations and errors --------------------------------------------------------------------------------


def on_timeout(self: Any, view: Any, request: Any) -> None:
    pass


def on_ask(self: Any, view: Any, message: Any) -> None:
    view.reply(message, "offer", price=1.0)


def on_offer(self: Any, view: Any, message: Any) -> None:
    pass


ASK = gs.Message(60, answer="offer", job=int)
OFFER = gs.Message(60, price=float)


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ({"ask": ASK}, "answer 'offer' of the message 'ask' must be a kind of message; known: ask"),
        ({"ask": ASK, "ofer": OFFER}, "did you mean ofer"),
        ({"ask": ASK, "offer": gs.Message(None)}, "must not be local, deferred or a request"),
        ({"ask": ASK, "offer": ASK}, "must not be local, deferred or a request, got"),
        ({"ask": ASK, "offer": gs.Message(60, request=int)}, "'offer' must not declare a field 'request'"),
        ({"ask": ASK, "offer": gs.Message(60, message=int)}, "'offer' must not have a field 'message'"),
    ],
)
def test_wrong_answers_are_reported(messages: Any, text: str) -> None:
    with pytest.raises(gs.ScenarioError, match=text):
        scheduler_of(on_timeout, messages=messages)()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x": gs.array(float)}, "does not support .* arrays"),
        ({"number": int}, "'number' must have another name in a message with an answer"),
        ({"timeout": float}, "'timeout' must have another name"),
        ({"deferred": True}, "does not support .*deferred=True"),
        ({"answer": (3,)}, "answer of a message must be a kind of message or several"),
    ],
)
def test_wrong_requests_are_reported(arguments: Any, text: str) -> None:
    with pytest.raises(gs.ScenarioError, match=text):
        gs.Message(60, **{"answer": "offer", **arguments})


class TalkingNode(gs.NodeProgram):
    """A node that asks its successor twice; one answer comes in time, and one after the timeout."""

    def on_start(self, view: Any) -> None:
        for k in range(2):
            number = view.request((view.node + 1) % view.machines, "ask", timeout=2.0, job=view.node + k)
            view.note("calls", event=0, number=number, x=view.now)

    def on_ask(self, view: Any, message: Any) -> None:
        if message.job % 2:
            view.reply(message, "offer", price=1.0 + view.node)
        else:
            view.timer(3.0, "late", sender=message.sender, request=message.request)

    def on_late(self, view: Any, sender: int, request: int) -> None:
        view.send(sender, "offer", request=request, price=9.0)
        view.send(sender, "offer", price=8.0)

    def on_offer(self, view: Any, message: Any) -> None:
        view.note("calls", event=1, number=message.request, x=message.price)

    def on_timeout(self, view: Any, request: Any) -> None:
        view.note("calls", event=2, number=request.number, x=view.now + request.to + request.job)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class TalkingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = TalkingNode
    messages: ClassVar[dict[str, gs.Message]] = {"ask": ASK, "offer": OFFER}
    tables: ClassVar[dict[str, dict[str, type]]] = {"calls": {"event": int, "number": int, "x": float}}


def test_emulated_nodes_have_the_requests_of_simulated_ones() -> None:
    from tests.emulation.test_virtual_time import run_in_virtual_time

    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 3), gs.Workload.of([0.0], [6], [5000.0]), gs.Network(latency=0.25), seed=1
    )
    results = [run_in_virtual_time(scenario, TalkingScheduler()), gs.simulate(scenario, TalkingScheduler())]
    rows = [sorted(zip(*(column.tolist() for column in _columns(item)), strict=True)) for item in results]
    assert rows[0] == rows[1] and {event for event, *_ in rows[0]} == {0, 1, 2}
    assert sum(number == 0 for _, number, _ in rows[0]) == 3  # plain messages; late answers are dropped


def _columns(result: gs.Result) -> list[Any]:
    return [result.tables["calls"][name] for name in ("event", "number", "x")]
