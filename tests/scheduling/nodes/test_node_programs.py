"""Schedulers that are written as programs of one node."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs

SHARE = gs.Message(1000, moves_tasks=True, application=int, tasks=int)


class Node(gs.NodeProgram):
    """A node that sends half of its submitted tasks to its first neighbour, and logs its calls."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.calls = 0  # lost if the node fails

    def say(self, view: Any, what: str, *more: Any) -> None:
        self.calls += 1
        self.parameters.calls_log.append((round(view.now, 6), view.node, what, *more, self.calls))

    def on_start(self, view: Any) -> None:
        self.say(view, "start")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.say(view, "release", application.number, tasks)
        half = tasks // 2 if view.neighbours else 0
        if half:
            view.send(view.neighbours[0], "share", application=application.number, tasks=half)
        view.enqueue(application.number, tasks - half)
        view.timer(1.5, "tick")

    def on_message(self, view: Any, message: Any) -> None:
        self.say(view, message.kind, message.sender, message.tasks)
        view.enqueue(message.application, message.tasks)

    def on_timer(self, view: Any, name: str) -> None:
        self.say(view, name, view.waiting, round(view.work, 6))

    def on_idle(self, view: Any) -> None:
        self.say(view, "idle")


class HalfScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "halves"
    policy = Node
    messages: ClassVar[dict[str, gs.Message]] = {"share": SHARE}
    timers: ClassVar[tuple[str, ...]] = ("tick",)
    calls_log: list[Any] = []


def scenario(machines: int = 2, **further: Any) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of(release=[1.0], tasks=[5], task_size=[1000.0], submitter=[0], origin=0.0),
        gs.Network(latency=0.5, bandwidth=10_000.0),
        **further,
    )


def test_nodes_get_the_calls_expected_by_hand() -> None:
    calls_log: list[Any] = []
    result = gs.simulate(scenario(), HalfScheduler(calls_log=calls_log))
    assert calls_log == [
        (0.0, 0, "start", 1),
        (0.0, 1, "start", 1),
        (1.0, 0, "release", 0, 5, 2),
        (1.6, 1, "share", 0, 2, 2),  # the message takes 0.5 s, plus 0.1 s for 1000 bytes
        (2.5, 0, "tick", 1, 1.5, 3),  # one task runs, and one waits
        (3.6, 1, "idle", 3),
    ]
    assert result.applications["finish"].tolist() == [4.0]
    assert result.messages["sent"].tolist() == [1] and result.applications["nodes_used"].tolist() == [2]


def test_a_failure_erases_memory_tasks_and_timers() -> None:
    calls_log: list[Any] = []
    faults = gs.Faults.of([0, 1], [2.2, 1.3], [2.2, 1.3])
    result = gs.simulate(scenario(faults=faults), HalfScheduler(calls_log=calls_log, detection=1.0))
    assert calls_log[3:] == [
        (1.3, 1, "start", 1),
        (2.2, 0, "start", 1),
        (2.5, 0, "release", 0, 2, 2),  # the share that was in transit at 1.3 and would have arrived at 1.5
        (3.1, 1, "share", 0, 1, 2),
        (3.2, 0, "release", 0, 2, 3),  # the tasks lost at 2.2; one of three had been completed
        (3.8, 1, "share", 0, 1, 3),
        (4.0, 0, "tick", 0, 0.5, 4),  # the timer that was set at 1.0 was lost with the memory
        (4.5, 0, "idle", 5),
        (4.7, 0, "tick", 0, 0.0, 6),
    ]
    assert result.applications["resubmitted"].tolist() == [4]
    assert result.machines["tasks"].tolist() == [3, 2] and result.messages["dropped"].tolist() == [1]


class HoldingScheduler(HalfScheduler, frozen=True, kw_only=True):
    """A scheduler whose nodes note tasks, hold them for 2 s, and cancel a second timer."""

    timers: ClassVar[tuple[str, ...]] = ("run", "never")
    tables: ClassVar[dict[str, dict[str, type]]] = {"given": {"tasks": int, "at": float}}


class HoldingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.given = [application.number, tasks]
        view.note("given", tasks=tasks, at=view.now)
        for name in ("never", "run", "never"):
            view.timer(2.0 + len(name), name)
        view.cancel("never")

    def on_timer(self, view: Any, name: str) -> None:
        assert name == "run"
        view.enqueue(*self.given)


def test_a_failure_loses_held_tasks_but_keeps_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HoldingScheduler, "policy", HoldingNode)
    result = gs.simulate(scenario(faults=gs.Faults.of([0], [3.0], [3.0])), HoldingScheduler(calls_log=[]))
    assert result.applications["resubmitted"].tolist() == [5]
    # the tasks are submitted again 1 s after the failure
    assert result.applications["first_start"].tolist() == [9.0]
    arguments = result.tables["given"]
    assert (arguments["tasks"].tolist(), arguments["at"].tolist()) == ([5, 5], [1.0, 4.0])


class OneByOneNode(Node):
    """A node that sends one task at once and another 1 s later, and runs the others itself."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.send(1, "share", application=0, tasks=1)
        view.enqueue(0, tasks - 2)
        view.timer(1.0, "tick")

    def on_timer(self, view: Any, name: str) -> None:
        view.send(1, "share", application=0, tasks=1)


def test_a_node_that_gets_a_task_as_the_last_one_ends_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks arrive at 1.6 and 2.6 s, and take 1 s each."""
    monkeypatch.setattr(HalfScheduler, "policy", OneByOneNode)
    calls_log: list[Any] = []
    bags = gs.Workload.of([1.0], 7, 1000.0, [0], origin=0.0)
    network = gs.Network(latency=0.5, bandwidth=10_000.0)
    gs.simulate(gs.Scenario(gs.Platform.of([1000.0] * 2), bags, network), HalfScheduler(calls_log=calls_log))
    assert [row[:3] for row in calls_log if row[1] == 1] == [
        (0.0, 1, "start"),
        (1.6, 1, "share"),
        (2.6, 1, "share"),
        (3.6, 1, "idle"),
    ]


def test_the_next_machine_replaces_a_submitter_that_is_down() -> None:
    calls_log: list[Any] = []
    faults = gs.Faults.of([0], [0.5], [30.0])
    gs.simulate(scenario(machines=3, faults=faults), HalfScheduler(calls_log=calls_log))
    assert (1.0, 1, "release", 0, 5, 2) in calls_log


def test_the_first_machine_replaces_the_last_one() -> None:
    calls_log: list[Any] = []
    away = gs.Scenario(
        gs.Platform.of([1000.0] * 3),
        gs.Workload.of(release=[1.0], tasks=[5], task_size=[1000.0], submitter=[2], origin=0.0),
        faults=gs.Faults.of([2], [0.5], [30.0]),
    )
    gs.simulate(away, HalfScheduler(calls_log=calls_log))
    assert (1.0, 0, "release", 0, 5, 2) in calls_log


def test_releases_wait_while_all_machines_are_down() -> None:
    calls_log: list[Any] = []
    faults = gs.Faults.of([0, 1], [0.5, 0.5], [30.0, 40.0])
    result = gs.simulate(scenario(faults=faults), HalfScheduler(calls_log=calls_log))
    assert calls_log[2:4] == [(30.0, 0, "start", 1), (30.0, 0, "release", 0, 5, 2)]
    # tasks sent to the first neighbour, which is down, are lost and submitted again, until one is left
    assert result.applications["resubmitted"].tolist() == [5 + 2 + 1]


class WrongNode(Node):
    wrong: ClassVar[Any] = None

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        type(self).wrong(view)


class TalkingNode(WrongNode):
    def on_message(self, view: Any, message: Any) -> None:
        self.parameters.calls_log.append((view.node, vars(message)))


class TalkingScheduler(HalfScheduler, frozen=True, kw_only=True):
    """A scheduler whose nodes send the messages that a test defines; no message moves tasks."""

    policy = TalkingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": SHARE,
        "gossip": gs.Message(10, application=int),
        "say": gs.Message(10, count=int, weight=float),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {"given": {"count": int, "weight": float}}


@pytest.mark.parametrize("to", [0, 1])
@pytest.mark.parametrize("number", [1, -1, 99])
def test_a_node_cannot_send_an_unknown_application(
    to: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gossip(view: Any) -> None:
        view.send(to, "gossip", application=0)
        view.send(to, "gossip", application=number)

    monkeypatch.setattr(WrongNode, "wrong", staticmethod(gossip))
    bags = gs.Workload.of([1.0, 9.0], 5, 1000.0, [0, 0], origin=0.0)
    message = f"node 0 sends 'gossip' with application {number}, which it does not know"
    with pytest.raises(gs.SchedulerError, match=message):
        gs.simulate(gs.Scenario(gs.Platform.of([1000.0] * 2), bags), TalkingScheduler(calls_log=[]))


def test_a_failure_erases_the_applications_that_a_node_knew(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_known(view: Any) -> bool:
        try:
            return bool(view.application(0).tasks == 5)
        except gs.SchedulerError:
            return False

    class KnowingNode(QuietNode):
        def on_start(self, view: Any) -> None:
            calls_log.append((view.now, view.node, is_known(view)))

        def on_message(self, view: Any, message: Any) -> None:
            super().on_message(view, message)
            calls_log.append((round(view.now, 6), view.node, is_known(view)))

    calls_log: list[Any] = []
    monkeypatch.setattr(HalfScheduler, "policy", KnowingNode)
    gs.simulate(scenario(faults=gs.Faults.of([1], [2.2], [2.4])), HalfScheduler(calls_log=[]))
    assert calls_log[:4] == [(0.0, 0, False), (0.0, 1, False), (1.6, 1, True), (2.4, 1, False)]


def test_a_view_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def write(view: Any) -> None:
        for name in [*(item for item in dir(view) if not item.startswith("_")), "memory"]:
            with pytest.raises(AttributeError):
                setattr(view, name, 1)
            tried.append(name)
        view.enqueue(0, 5)

    monkeypatch.setattr(WrongNode, "wrong", staticmethod(write))
    gs.simulate(scenario(), TalkingScheduler(calls_log=[]))
    assert {"node", "neighbours", "random", "send", "memory"} < set(tried)


WHOLE, REAL = "must be a whole number of 64 bits, got", "must be a number in the range of a float, got"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda view: view.send(1, "say", count=2**63, weight=0.0), f"count {WHOLE} {2**63}"),
        (lambda view: view.send(1, "say", count=-(2**70), weight=0.0), f"count {WHOLE} -{2**70}"),
        (lambda view: view.send(1, "say", count=2.7, weight=0.0), f"count {WHOLE} 2.7"),
        (lambda view: view.send(1, "say", count=float("nan"), weight=0.0), f"count {WHOLE} nan"),
        (lambda view: view.send(1, "say", count="3", weight=0.0), f"count {WHOLE} '3'"),
        (lambda view: view.send(1, "say", count=3, weight="3"), f"weight {REAL} '3'"),
        (lambda view: view.send(1, "say", count=3, weight=10**400), f"weight {REAL} 10"),
        (lambda view: view.send(1.5, "say", count=3, weight=0.0), "the receiver must be .*, got 1.5"),
        (lambda view: view.note("given", count=2**70, weight=0.0), f"count {WHOLE} {2**70}"),
        (lambda view: view.note("given", count=1, weight=None), f"weight {REAL} None"),
        (lambda view: view.enqueue(0, 1.5), f"tasks {WHOLE} 1.5"),
        (lambda view: view.enqueue(0.0, 1), f"application {WHOLE} 0.0"),
        (lambda view: view.take(0, 2**63), f"tasks {WHOLE} {2**63}"),
        (lambda view: view.take(0, 1.0), f"tasks {WHOLE} 1.0"),
        (lambda view: view.application([]), rf"application {WHOLE} \[\]"),
        (lambda view: view.timer("1", "tick"), f"the timer 'tick' {REAL} '1'"),
        (lambda view: view.timer(float("nan"), "tick"), "the timer 'tick': .* got nan"),
    ],
)
def test_values_of_another_type_are_reported(
    wrong: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WrongNode, "wrong", staticmethod(wrong))
    with pytest.raises(gs.SchedulerError, match=f"^.*node 0.*{message}"):
        gs.simulate(scenario(), TalkingScheduler(calls_log=[]))


def test_numpy_numbers_and_extreme_values_arrive_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def say(view: Any) -> None:
        for count, weight in (
            (2**63 - 1, np.inf),
            (-(2**63), 7),
            (np.int32(5), np.float32(0.5)),
            (True, True),
        ):
            view.send(np.int64(1), "say", count=count, weight=weight)
            view.note("given", count=count, weight=weight)
        view.timer(np.int64(1), "tick")
        view.enqueue(np.int64(0), np.int64(5))

    calls_log: list[Any] = []
    monkeypatch.setattr(WrongNode, "wrong", staticmethod(say))
    monkeypatch.setattr(WrongNode, "say", lambda *_: None)
    arguments = gs.simulate(scenario(), TalkingScheduler(calls_log=calls_log)).tables["given"]
    came = [(item["count"], item["weight"]) for _, item in calls_log]
    assert came == [(2**63 - 1, np.inf), (-(2**63), 7.0), (5, 0.5), (1, 1.0)]
    assert list(zip(arguments["count"].tolist(), arguments["weight"].tolist(), strict=True)) == came


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.Message(10, sender=int), "the name of a message field must .* got 'sender'"),
        *(
            (
                lambda name=name, nbytes=nbytes: gs.Message(nbytes, **{name: int}),
                f"begin with a letter .* got {name!r}",
            )
            for name, nbytes in (("_due", 10), ("to", 10), ("self", 10), ("1a", 10), ("seconds", None))
        ),
        (
            lambda: gs.Message(-3),
            "nbytes of a message must be None, a function or a whole number in 0..2147483647, got -3",
        ),
        (lambda: gs.Message(10, name=str), "message field 'name' must be"),
        (
            lambda: gs.Message(lambda b: 8, a=int, b=int),
            r"must be a function that takes its fields \(a, b\) by name, got \(b\): .*'a'; \*\*rest takes",
        ),
        (lambda: gs.Message(10, application=float), "message field 'application' must be int"),
        (lambda: gs.Message(10, moves_tasks=True, tasks=int), "requires the fields application and tasks"),
        (
            lambda: gs.Message(10, moves_tasks="no", application=int, tasks=int),  # type: ignore[arg-type]
            "moves_tasks of a message must be true or false, got 'no'",
        ),
        (
            lambda: gs.Message(10, deferred=True, moves_tasks=True, application=int, tasks=int),
            "deferred=True",
        ),
        (
            lambda: gs.Message(None, moves_tasks=True, application=int, tasks=int),
            "does not support moves_tasks=True",
        ),
        (lambda: HalfScheduler(degree=0), "halves.degree must be a whole number >= 1, got 0"),
        (lambda: HalfScheduler(detection=-1.0), "halves.detection must be a number in 0..2e.09 s, got -1.0"),
    ],
)
def test_invalid_declarations_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        make()


class PlainNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


def _handles(name: str, *given: str) -> type[gs.NodeProgram]:
    """Return the class of a node with the method `name`."""
    items: dict[str, Any] = {}
    exec(f"def {name}({', '.join(given)}): pass", items)
    return type("Own", (PlainNode,), {name: items[name]})


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"policy": _handles("on_realease", "self")}, "Own.on_realease is never called: .* mean on_release?"),
        (
            {"policy": _handles("on_pp", "self")},
            "Own.on_pp is never called: there is no kind of message 'pp'",
        ),
        (
            {"policy": _handles("on_release", "self", "view", "tasks")},
            r":1: Own.on_release must take \(self, view, application, tasks\), got \(self, view, tasks\)",
        ),
        (
            {"policy": _handles("__init__", "self")},
            r"Own.__init__ must take \(self, parameters\), and call .* got \(self\)",
        ),
        (
            {"message": {"p": gs.Message(1)}},
            "Single.messages must declare .* mean messages = Single.message?",
        ),
        ({"timers": "tick"}, r"Single.timers must be a tuple of strings, got 'tick'; write \('tick',\)"),
        ({"node_forms": "compiled"}, r"Single.node_forms .*; write \('compiled',\)"),
        ({"messages": {"p": 3}}, r"Single.messages\['p'\] must be a Message, got 3"),
        ({"ticks": {"t": -1.0}}, r"Single.ticks\['t'\] must be a number in 1e-9..2e9"),
        ({"local_order": "lifo"}, r"Single.local_order must be one of .*, got 'lifo'"),
    ],
)
def test_classes_are_checked_when_a_scheduler_is_made(declared: Any, message: str) -> None:
    body = {"policy": PlainNode, "__module__": __name__, **declared}
    new_class = type("Single", (gs.NodeScheduler,), body, frozen=True, kw_only=True)
    with pytest.raises(gs.ScenarioError, match=message):
        new_class()


def test_the_handler_on_done_does_not_support_reports() -> None:
    body = {"policy": _handles("on_done", "self", "view", "application"), "reports": True}
    new_class = type("Single", (gs.NodeScheduler,), body, frozen=True, kw_only=True)
    with pytest.raises(gs.ScenarioError, match="on_done does not support reports=True"):
        gs.simulate(scenario(), new_class())


def test_methods_that_other_methods_call_may_be_named_like_handlers() -> None:
    class JoiningNode(PlainNode):
        def on_start(self, view: Any) -> None:
            self.on_join()

        def on_join(self) -> None:
            pass

    class JoiningScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = JoiningNode

    assert gs.simulate(scenario(), JoiningScheduler()).digest


def test_a_timer_requires_a_handler() -> None:
    class WaitingNode(PlainNode):
        def on_start(self, view: Any) -> None:
            view.timer(1.0, "tick")

    class WaitingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = WaitingNode
        timers = ("tick",)

    with pytest.raises(gs.SchedulerError, match="node 0 sets the timer 'tick', .* on_timer"):
        gs.simulate(scenario(), WaitingScheduler())


def test_a_scheduler_without_a_class_of_nodes_is_rejected() -> None:
    class BareScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        pass

    class UncheckedScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = TalkingScheduler  # type: ignore[assignment]

        def __post_init__(self) -> None:
            pass

    for cls in (gs.NodeScheduler, BareScheduler):
        with pytest.raises(gs.ScenarioError, match=f"^{cls.__name__}.policy"):
            cls()
    with pytest.raises(gs.ScenarioError, match="^UncheckedScheduler.policy"):
        gs.simulate(scenario(), UncheckedScheduler())


def test_missing_handlers_are_errors() -> None:
    class MuteScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = gs.NodeProgram

    with pytest.raises(gs.SchedulerError, match="NodeProgram .* does not define on_release"):
        gs.simulate(scenario(), MuteScheduler())


class QuietNode(Node):
    def say(self, view: Any, what: str, *more: Any) -> None:
        pass


class PingNode(gs.NodeProgram):
    """A node that counts down by messages of two kinds and by timers with values."""

    def on_start(self, view: Any) -> None:
        if view.node == 0:
            view.send(view.machines - 1, "big-ping", left=2)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)

    def on_big_ping(self, view: Any, message: Any) -> None:
        self.parameters.calls_log.append((message.kind, message.left))
        view.timer(0.5, "wait", message.left - 1)
        view.timer(0.5, "wait", message.left - 1)  # a second timer with the same value
        view.timer(0.5, "wait", -7.0)

    def on_message(self, view: Any, message: Any) -> None:
        self.parameters.calls_log.append((message.kind, view.node))

    def on_timer(self, view: Any, name: str, value: float) -> None:
        self.parameters.calls_log.append((name, value))
        view.send(0, "timer")


class PingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = PingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "big-ping": gs.Message(80, left=int),
        "timer": gs.Message(80),
    }
    timers: ClassVar[tuple[str, ...]] = ("wait",)
    calls_log: list[Any] = []


def test_messages_have_handlers_by_kind_and_timers_have_values() -> None:
    calls_log: list[Any] = []
    gs.simulate(scenario(machines=3), PingScheduler(calls_log=calls_log))
    assert calls_log == [("big-ping", 2), ("wait", 1.0), ("wait", -7.0), ("timer", 0), ("timer", 0)]
