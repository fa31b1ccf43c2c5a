"""Messages with delays, messages of variable size that leave at once, and ends of tasks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing.resuming import resume_difference

NETWORK = gs.Network(latency=1.0, bandwidth=100.0, interfaces="fifo")


class Told(gs.NodeProgram):
    """A node that logs its calls; each test defines its action at a release."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        self.parameters.act(view, application)

    def on_message(self, view: Any, message: Any) -> None:
        view.note("told", node=view.node, kind=len(message.kind), sender=message.sender, at=view.now_ns)
        self.parameters.answer(view, message)


class Tells(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "tells"
    policy = Told
    messages: ClassVar[dict[str, gs.Message]] = {
        "a": gs.Message(100),
        "bb": gs.Message(100, delay=0.5),
        "ccc": gs.Message(100, delay=Fraction(1, 2)),
        "dddd": gs.Message(0, delay=0.0, counted=False),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "told": {"node": int, "kind": int, "sender": int, "at": int}
    }
    to_the_end = True

    act: Any = lambda view, application: None
    answer: Any = lambda view, message: None


def told(scheduler: gs.Scheduler, release: tuple[float, ...] = (0.0,), **options: Any) -> gs.Result:
    bags = gs.Workload.of(release, 1, 1000.0, [0] * len(release))
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 3), bags, NETWORK, seed=1)
    result = gs.simulate(scenario, scheduler, **options)
    assert resume_difference(scenario, scheduler, gs.simulate(scenario, scheduler, record=True)) is None
    return result


def rows(result: gs.Result, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(result.tables["told"][name].tolist() for name in names), strict=True))


def test_messages_with_a_delay_do_not_use_interfaces() -> None:
    """100 bytes occupy an interface for 1 s, so the third message waits 2 s; those with a delay do not."""

    def act(view: Any, application: Any) -> None:
        for kind in ("a", "a", "bb", "a", "ccc", "bb"):
            view.send(1, kind)

    result = told(Tells(act=act), record="messages")
    half = 500_000_000
    # at one instant they arrive in the order of sending, regardless of their kind
    assert rows(result, "kind", "at") == [
        (2, half), (3, half), (2, half), (1, 4 * half), (1, 6 * half), (1, 8 * half)
    ]  # fmt: skip
    messages = result.tables["messages"]
    assert messages["kind"].tolist() == ["a", "bb", "ccc"]  # one kind is not counted
    assert messages["bytes"].tolist() == [300, 200, 100] and messages["delivered"].tolist() == [3, 2, 1]
    assert result.machines["bytes_out"].tolist() == [600, 0, 0]
    assert result.machines["bytes_in"].tolist() == [0, 600, 0]
    log = result.tables["message_log"]
    assert [row["delivered"] for row in log.rows() if row["kind"] != "a"] == [0.5] * 3


def test_messages_with_a_delay_of_0_are_handled_first() -> None:
    """Of two releases at one instant, all consequences of the first are handled before the second."""

    def act(view: Any, application: Any) -> None:
        view.send(1, "dddd")
        view.send(2, "dddd")
        view.note("told", node=view.node, kind=0, sender=application.number, at=view.now_ns)

    def answer(view: Any, message: Any) -> None:
        if message.sender == 0:
            view.send(message.sender, "dddd")

    result = told(Tells(act=act, answer=answer), (0.0, 0.0))
    once = [(1, 0), (2, 0), (0, 1), (0, 2)]
    assert rows(result, "node", "sender") == [(0, 0), *once, (0, 1), *once]
    assert rows(result, "at") == [(0,)] * 10


class Sized(Tells, frozen=True, kw_only=True):
    messages: ClassVar[dict[str, gs.Message]] = {
        "a": gs.Message(lambda length: length, length=int),
        "bb": gs.Message(100),
    }
    at_once = True


def test_messages_with_variable_sizes_leave_at_once() -> None:
    """A message reaches the receiver's interface after 1 s, which then takes 1 s for each 100 bytes."""

    def act(view: Any, application: Any) -> None:
        view.send(1, "bb")
        view.send(1, "a", length=200)
        view.send(1, "bb")

    result = told(Sized(act=act))
    assert rows(result, "kind", "at") == [(2, 2 * 10**9), (1, 4 * 10**9), (2, 5 * 10**9)]
    assert result.tables["messages"]["bytes"].tolist() == [200, 200]
    # by default messages leave in order of kind
    result = told(Tells(act=lambda view, _: [view.send(1, kind) for kind in ("dddd", "a", "a")]))
    assert rows(result, "kind", "at") == [(4, 0), (1, 2 * 10**9), (1, 3 * 10**9)]
    with pytest.raises(gs.SchedulerError, match="node 0 sends 'a': its size"):
        told(Sized(act=lambda view, _: view.send(1, "a", length=-1)))
    for form in ("interpreted", "python"):
        with pytest.raises(gs.SchedulerError, match="node 0 sends 'a': a message must take at most"):
            told(Sized(act=lambda view, _: view.send(1, "a", length=10**9)), nodes=form)


class Ending(Told):
    def on_done(self, view: Any, application: Any) -> None:
        view.note("told", node=view.node, kind=application.number, sender=-1, at=view.now_ns)


class Ends(Tells, frozen=True, kw_only=True):
    policy = Ending


def test_a_node_learns_when_each_task_ends() -> None:
    bags = gs.Workload.of([0.0, 0.0, 1.5], [2, 1, 1], 1000.0, [1, 0, 1])
    scenario = gs.Scenario(gs.Platform.of([1000.0, 1000.0]), bags, NETWORK, seed=1)
    result = gs.simulate(scenario, Ends())
    second = 10**9
    # at one instant, ends are handled in order of application
    assert rows(result, "node", "kind", "at") == [
        (1, 0, second), (0, 1, second), (1, 0, 2 * second), (1, 2, 3 * second)
    ]  # fmt: skip
    assert resume_difference(scenario, Ends(), gs.simulate(scenario, Ends(), record=True)) is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: gs.Message(10, delay=-1.0), "delay of a message must be a number in 0..2e\\+09 s, got -1.0"),
        (lambda: gs.Message(10, delay="x"), "delay of a message must be a number in 0..2e\\+09 s, got 'x'"),
        (
            lambda: gs.Message(2**31),
            "nbytes of a message must be None, a function or a whole number in 0..2147483647, got 2147483648",
        ),
        (
            lambda: gs.Message(10, delay=float("nan")),
            "delay of a message must be a number in 0..2e\\+09 s, got nan",
        ),
        (lambda: gs.Message(10, counted=False), "counted=False requires a delay"),
        (lambda: gs.Message(None, delay=1.0), "nbytes=None does not support delay"),
    ],
)
def test_invalid_kinds_of_messages_are_rejected(make: Any, said: str) -> None:
    with pytest.raises(gs.ScenarioError, match=said):
        make()


def test_a_message_with_a_delay_is_lost_with_its_machine() -> None:
    """Machine 1 fails at 0.2 s, before the message arrives at 0.5 s."""
    bags = gs.Workload.of([0.0], 1, 1000.0, [0])
    faults = gs.Faults.of([1], [0.2], [0.3])
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 2), bags, NETWORK, faults=faults, seed=1)
    result = gs.simulate(scenario, Tells(act=lambda view, _: view.send(1, "bb")))
    assert result.tables["messages"]["dropped"].tolist() == [0, 1, 0] and not rows(result, "kind")
